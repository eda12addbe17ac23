"""What a program can do besides being sampled: declared, asked for by name, and never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.data import Data

if TYPE_CHECKING:
    from pyflowers.exact import ExactPosterior
    from pyflowers.programs.program import Program
    from pyflowers.vb import VBResult

Draws = Mapping[str, NDArray[np.float64]]
"""Draws by quantity, each shaped (chain, draw, …)."""


def _draws(program: Program, role: str) -> bool:
    return getattr(program.declaration.roles, role) in program.source.blocks.draws


def _reads(program: Program, role: str) -> bool:
    return getattr(program.declaration.roles, role) in program.source.blocks.data


class Capability(StrEnum):
    """What a program can be asked for.

    Attributes
    ----------
    purpose : str
        What it is for.
    remedy : str
        What to add to a program that lacks it.
    is_had : callable
        A program to whether its text, its declaration or what is written in Python gives it, true
        or false in the sense of ``if``.
    """

    purpose: str
    remedy: str
    is_had: Callable[[Program], object]

    def __new__(cls, name: str, *about: Any) -> Capability:
        """Make a member from a row of the table."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.purpose, self.remedy, self.is_had = about
        return self

    LOG_LIK = (
        "log_lik",
        "PSIS-LOO and model comparison",
        "declare vector[N] log_lik in generated quantities, the log likelihood of each "
        "observation, and fit again",
        lambda p: p.python.pointwise or _draws(p, "log_lik"),
    )
    Y_REP = (
        "y_rep",
        "posterior predictive checks",
        "declare y_rep in generated quantities, replicated data in the shape of the observed, "
        "and fit again",
        lambda p: p.python.pointwise or _draws(p, "y_rep"),
    )
    Y_NEW = (
        "y_new",
        "predictions of new data",
        "declare y_new in generated quantities, such as the next observation of each group, "
        "and fit again",
        lambda p: p.python.new_data or _draws(p, "y_new"),
    )
    NEW_GROUP = (
        "new_group",
        "predictions for a group that is not in the data",
        "declare y_new_group in generated quantities, an observation of a group whose parameters "
        "are drawn from the population, and fit again",
        lambda p: p.python.new_data.new_groups if p.python.new_data else _draws(p, "y_new_group"),
    )
    LPRIOR = (
        "lprior",
        "prior sensitivity",
        "declare real lprior, the log density of the priors, in transformed parameters, "
        "and fit again",
        lambda p: (p.python.prior and p.python.prior.log_density) or _draws(p, "lprior"),
    )
    PRIOR_ONLY = (
        "prior_only",
        "draws from the prior",
        "declare int<lower=0, upper=1> prior_only in data and guard the likelihood with it, or "
        "give Program a PriorModel in Python",
        lambda p: p.python.prior or _reads(p, "prior_only"),
    )
    HELD_OUT = (
        "held_out",
        "exact leave-one-out refits",
        "declare array[N] int<lower=0, upper=1> held_out in data, leave the observations where it "
        "is 1 out of the likelihood, keep them in log_lik, and fit again",
        lambda p: p.python.pointwise or _reads(p, "held_out"),
    )
    OBSERVED = (
        "observed",
        "the data in reports and figures",
        'name the data variable that the model describes: [roles] observed = "..."; if the program '
        "has changed since the fit, fit again",
        lambda p: _reads(p, "observed"),
    )
    PRIOR_DENSITY = (
        "prior_density",
        "prior against posterior",
        'give a parameter its prior: [parameters.mu] prior = "normal(mu_mean, mu_sd)"',
        lambda p: any(parameter.prior for parameter in p.declaration.parameters.values()),
    )
    GROUP_MEAN = (
        "group_mean",
        "the shrinkage plot",
        'name the parameter and the column: [roles] group_mean = "...", [table] group = "..."; '
        "for a new column, fit again",
        lambda p: p.declaration.roles.group_mean and p.declaration.table.group,
    )
    EXACT = (
        "exact",
        "the exact posterior",
        "give Program a ClosedForm with exact= in Python",
        lambda p: p.python.closed_form.exact,
    )
    VB = (
        "vb",
        "closed-form variational Bayes",
        "give Program a ClosedForm with vb= in Python",
        lambda p: p.python.closed_form.vb,
    )
    CLOSED_FORM = (
        "closed_form",
        "independent draws by the engine exact",
        "give Program a ClosedForm with draw= in Python",
        lambda p: p.python.closed_form.draw,
    )


def _nothing(*_: Any) -> Any:
    """Say that there is nothing to note, refuse or leave out."""
    return ()


def _no_numbers(*_: Any) -> Mapping[str, float]:
    return {}


def _zero(_: Data) -> float:
    return 0.0


@dataclass(frozen=True)
class Pointwise:
    """Likelihood and replicated data in NumPy, so that the sampler need not write them.

    Attributes
    ----------
    log_lik : callable
        (draws, data) to log p(y[n] | draw), shape (chain, draw, N).
    y_rep : callable
        (draws, data, rng) to replicated data, shape (chain, draw, N).
    new_group : callable or None
        (draws, data) to the log joint density of all observations in the data, as those of one
        group that the fit has not seen, its own parameters integrated out; shape (chain, draw).
        Raises ``ConfigError`` where that density does not exist.
    """

    log_lik: Callable[[Draws, Data], NDArray[np.float64]]
    y_rep: Callable[[Draws, Data, np.random.Generator], NDArray[np.float64]]
    new_group: Callable[[Draws, Data], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class GroupDraws:
    """Draws of quantities with an element for each group, made a block of groups at a time.

    Attributes
    ----------
    names : tuple of str
        The quantities.
    num_groups : int
        How many groups there are.
    blocks : iterable of (slice, mapping of str to array, shape (draw, group))
        The groups of a block, and the draws of each quantity for them. It is gone through once.
    """

    names: tuple[str, ...]
    num_groups: int
    blocks: Iterable[tuple[slice, Mapping[str, NDArray[np.float64]]]]


@dataclass(frozen=True)
class IndependentDraws:
    """Draws from a posterior that do not depend on each other.

    Attributes
    ----------
    whole : mapping of str to array, shape (draw, …)
        Quantities of which all draws are held.
    groups : GroupDraws or None
        The others, of which there may be too many to hold.
    measures : callable
        What the sampler says of itself, once all is drawn. ``largest_excess`` is the largest log of
        density over hat that rejection sampling met: it is judged. One that is not finite is left
        out.
    """

    whole: Mapping[str, NDArray[np.float64]]
    groups: GroupDraws | None = None
    measures: Callable[[], Mapping[str, float]] = _no_numbers


@dataclass(frozen=True)
class PriorModel:
    """The prior in NumPy: draws of it, and its log density.

    Attributes
    ----------
    draw : callable
        (data, num_draws, rng) to draws of every parameter, each shaped (1, num_draws, …). It may
        add replicated data under the role ``y_rep``.
    log_density : callable or None
        (draws, data) to the log density of the priors, shape (chain, draw). The priors of group
        effects, given their population, are part of the model and not of this.
    """

    draw: Callable[[Data, int, np.random.Generator], dict[str, NDArray[np.float64]]]
    log_density: Callable[[Draws, Data], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class NewData:
    """Observations that are not in the data, in NumPy: of the data's groups and of new ones.

    Attributes
    ----------
    y_at : callable
        (draws, data, groups, rng) to one new observation for each of `groups`, the positions of
        groups from 0; shape (chain, draw, len(groups)).
    new_groups : callable or None
        (draws, data, num, rng) to the draws of `num` new groups from their population, by the
        names that the data's groups have, each shaped (chain, draw, num); what does not vary by
        group is left out.
    no_new_group : callable
        Data, priors included, to why a new group has no observations; empty where it has.
    """

    y_at: Callable[
        [Draws, Data, NDArray[np.int64], np.random.Generator],
        NDArray[np.float64],
    ]
    new_groups: Callable[[Draws, Data, int, np.random.Generator], Draws] | None = None
    no_new_group: Callable[[Data], str] = _nothing


@dataclass(frozen=True)
class ClosedForm:
    """The posterior without a Markov chain.

    Attributes
    ----------
    exact : callable or None
        Data, priors included, to the posterior by quadrature.
    vb : callable or None
        The same to the closed-form mean field.
    vb_from_afar : callable or None
        The same from a start far from the solution, so that the ascent can be seen.
    draw : callable or None
        Data, priors included, a number of draws and a random generator to independent draws of
        every quantity that the program does not omit.
    log_constant : callable
        What the program leaves out of log p(y, parameters): terms without parameters.
    """

    exact: Callable[[Data], ExactPosterior] | None = None
    vb: Callable[[Data], VBResult] | None = None
    vb_from_afar: Callable[[Data], VBResult | None] | None = None
    draw: Callable[[Data, int, np.random.Generator], IndependentDraws] | None = None
    log_constant: Callable[[Data], float] = _zero


@dataclass(frozen=True)
class MissingMoment:
    """A mean or variance that a posterior does not have.

    Attributes
    ----------
    parameter : str
        The quantity.
    lacks_mean : bool
        Whether the mean does not exist; otherwise the variance is infinite.
    reason : str
        Why.
    elements : array of bool or None
        Which elements; None is all.
    """

    parameter: str
    lacks_mean: bool
    reason: str
    elements: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Capabilities:
    """What is written in Python for a program; each part has a default that does nothing.

    Attributes
    ----------
    pointwise : Pointwise or None
        Likelihood and replicated data.
    new_data : NewData or None
        Predictions of new observations.
    prior : PriorModel or None
        Draws of the prior and its density.
    closed_form : ClosedForm
        Posterior without sampling.
    check : callable
        Refuses data, priors included, with a ``DataError``, and returns notes on the rest.
    check_priors : callable
        Refuses priors that do not go together, with a ``ConfigError``.
    priors_on_scale : callable
        Observed data to hyperparameters of a wide prior on their scale, for when the prior in use
        contradicts them.
    missing_moments : callable
        Says which moments of the posterior do not exist.
    choices : mapping of str to callable
        Constants of the data block that the data decide, such as ``centered``.
    """

    pointwise: Pointwise | None = None
    prior: PriorModel | None = None
    new_data: NewData | None = None
    closed_form: ClosedForm = ClosedForm()
    check: Callable[[Data], list[str]] = _nothing
    check_priors: Callable[[Mapping[str, float]], object] = _nothing
    priors_on_scale: Callable[[Data], Mapping[str, float]] = _no_numbers
    missing_moments: Callable[[Data], Sequence[MissingMoment]] = _nothing
    choices: Mapping[str, Callable[[Data], Any]] = field(default_factory=dict)
