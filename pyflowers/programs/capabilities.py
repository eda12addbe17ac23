"""Capabilities of a program beyond sampling; they are declared, never guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.advice import Advice
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Declaring
from pyflowers.programs.linear import LinearModel

if TYPE_CHECKING:
    import pandas as pd

    from pyflowers.display import Line

Draws = Mapping[str, NDArray[np.float64]]
"""Draws by quantity, each shaped (chain, draw, …)."""


class Marginals(Protocol):
    """The moments and quantiles of each parameter by its name, without draws."""

    def mean(self, name: str) -> NDArray[np.float64]:
        """Return the mean; NaN where it does not exist."""

    def sd(self, name: str) -> NDArray[np.float64]:
        """Return the standard deviation; NaN where it does not exist."""

    def quantile(self, name: str, p: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles, with the probabilities along the first axis."""


class ByQuadrature(Marginals, Protocol):
    """A posterior computed by quadrature, such as :class:`pyflowers.exact.NormalExact`."""

    @property
    def log_evidence(self) -> float:
        """Log p(y), in nats."""


class MeanField(Marginals, Protocol):
    """A mean-field approximation, such as :class:`pyflowers.vb.VBResult`."""

    @property
    def factors(self) -> Mapping[str, Any]:
        """The factor of each parameter."""

    @property
    def states(self) -> Sequence[Any]:
        """The factors at the start and after every update."""

    @property
    def elbo(self) -> NDArray[np.float64]:
        """The evidence lower bound, with all constants."""

    @property
    def elbo_trace(self) -> NDArray[np.float64]:
        """The bound at the start and after every sweep."""

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Whether the stopping rule was met."""

    @property
    def num_iter(self) -> int:
        """Number of sweeps."""

    def table(self, interval: float) -> pd.DataFrame:
        """Return a row for each element of each parameter."""

    def contents(self) -> list[Line]:
        """Return the lines and tables that are printed."""

    def __getitem__(self, name: str) -> Any:
        """Return the factor of one parameter."""


class Capable(Declaring, Protocol):
    """The attributes of a program that a capability uses."""

    @property
    def python(self) -> Capabilities:
        """Capabilities that are written in Python."""

    @property
    def states_prior(self) -> bool:
        """Whether the declaration states every prior in full."""

    @property
    def draws_prior(self) -> bool:
        """Whether draws from the prior come from NumPy, and not from Stan with ``prior_only``."""

    @property
    def predicts_groups(self) -> bool:
        """Whether the rule predicts an observation from its group alone, without covariates."""

    def answers_by_rule(self, name: str) -> bool:
        """Return whether ``log_lik`` or ``y_rep`` is computed by the rule in ``[prediction]``."""


def _draws(program: Capable, role: str) -> bool:
    return getattr(program.declaration.roles, role) in program.source.blocks.draws


def _gives(program: Capable, role: str) -> bool:
    return program.answers_by_rule(getattr(program.declaration.roles, role))


def _reads(program: Capable, role: str) -> bool:
    return getattr(program.declaration.roles, role) in program.source.blocks.data


class Capability(StrEnum):
    """A capability that a program may have.

    Attributes
    ----------
    purpose : str
        The purpose of the capability.
    remedy : str
        What to add to a program that lacks the capability.
    is_had : callable
        Function of a program. Returns a true value if the program's text, declaration or Python
        code provides the capability.
    """

    purpose: str
    remedy: str
    is_had: Callable[[Capable], object]

    def __new__(cls, name: str, *about: Any) -> Capability:
        """Create a member from one of the rows below."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.purpose, self.remedy, self.is_had = about
        return self

    LOG_LIK = (
        "log_lik",
        "PSIS-LOO and model comparison",
        "declare vector[N] log_lik in generated quantities as the log likelihood of each "
        "observation, and refit the model",
        lambda p: _gives(p, "log_lik") or _draws(p, "log_lik"),
    )
    Y_REP = (
        "y_rep",
        "posterior predictive checks",
        "declare y_rep in generated quantities as replicated data in the shape of the observed "
        "data, and refit the model",
        lambda p: _gives(p, "y_rep") or _draws(p, "y_rep"),
    )
    Y_NEW = (
        "y_new",
        "predictions of new data",
        "declare y_new in generated quantities, for example as the next observation of each "
        "group, and refit the model",
        lambda p: p.predicts_groups or _draws(p, "y_new"),
    )
    NEW_GROUP = (
        "new_group",
        "predictions for a group that is not in the data",
        "declare y_new_group in generated quantities as an observation of a group whose parameters "
        "are drawn from the population, and refit the model",
        lambda p: (
            (p.predicts_groups and p.declaration.roles.group_mean) or _draws(p, "y_new_group")
        ),
    )
    LPRIOR = (
        "lprior",
        "prior sensitivity",
        "declare real lprior in transformed parameters as the log density of the priors, "
        "and refit the model",
        lambda p: (
            (p.python.prior and p.python.prior.log_density) or _draws(p, "lprior") or p.states_prior
        ),
    )
    PRIOR_ONLY = (
        "prior_only",
        "draws from the prior",
        "declare int<lower=0, upper=1> prior_only in data and guard the likelihood with it, or "
        "declare the prior of each parameter under [parameters]",
        lambda p: p.draws_prior or _reads(p, "prior_only"),
    )
    HELD_OUT = (
        "held_out",
        "exact leave-one-out refits",
        "declare array[N] int<lower=0, upper=1> held_out in data, omit the observations where it "
        "is 1 from the likelihood, keep them in log_lik, and refit the model",
        lambda p: _gives(p, "log_lik") or _reads(p, "held_out"),
    )
    OBSERVED = (
        "observed",
        "the data in reports and figures",
        'name the data variable that the model describes: [roles] observed = "..."; if the program '
        "has changed since the fit, refit the model",
        lambda p: _reads(p, "observed"),
    )
    PRIOR_DENSITY = (
        "prior_density",
        "the comparison of prior and posterior",
        'give a parameter its prior: [parameters.mu] prior = "normal(mu_mean, mu_sd)"',
        lambda p: any(parameter.prior for parameter in p.declaration.parameters.values()),
    )
    GROUP_MEAN = (
        "group_mean",
        "the shrinkage plot",
        'name the parameter and the column: [roles] group_mean = "...", [table] group = "..."; '
        "if the column is new, refit the model",
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
        "independent draws with the engine exact",
        "give Program a ClosedForm with draw= in Python",
        lambda p: p.python.closed_form.draw,
    )
    LINEAR = (
        "linear",
        "weighted draws with the engine exact",
        "use a formula whose program was not edited",
        lambda p: p.python.linear,
    )


def _nothing(*_: Any) -> Any:
    """Return an empty tuple: the default if there is nothing to report or to reject.

    Parameters
    ----------
    *_ : Data or mapping of str to float
        The data or the priors, which are not examined.

    Returns
    -------
    tuple
        An empty tuple.
    """
    return ()


def _no_numbers(*_: Any) -> Mapping[str, Any]:
    """Return an empty mapping: the default if there are no numbers to report.

    Parameters
    ----------
    *_ : Data
        The data, which are not examined.

    Returns
    -------
    mapping of str to float
        An empty mapping.
    """
    return {}


def _no_advice(*_: Any) -> Advice:
    """Return empty advice: the default if there is none to give.

    Parameters
    ----------
    *_ : Data, float
        The data and the limit, which are not examined.

    Returns
    -------
    Advice
        Advice without text.
    """
    return Advice("")


def _zero(_: Data) -> float:
    """Return 0: the default for a program that leaves no constant out of its log density.

    Parameters
    ----------
    _ : Data
        The data block, which is not examined.

    Returns
    -------
    float
        0.
    """
    return 0.0


@dataclass(frozen=True)
class GroupDraws:
    """Draws of quantities with one element per group, one block of groups at a time.

    Attributes
    ----------
    names : tuple of str
        The quantities.
    num_groups : int
        Number of groups.
    blocks : iterable of (slice, mapping of str to array, shape (draw, group))
        The groups of each block, and the draws of each quantity for them. The iterable is used only
        once.
    """

    names: tuple[str, ...]
    num_groups: int
    blocks: Iterable[tuple[slice, Mapping[str, NDArray[np.float64]]]]


@dataclass(frozen=True)
class IndependentDraws:
    """Independent draws from a posterior.

    Attributes
    ----------
    whole : mapping of str to array, shape (draw, …)
        Quantities whose draws are all held in memory.
    groups : GroupDraws or None
        The other quantities, which may have more draws than fit into memory.
    measures : callable
        Function without parameters that is called after all draws. Returns the sampler's
        measurements by name; values that are not finite are left out. ``largest_excess``, the
        largest log ratio of the density to the hat function in rejection sampling, is part of the
        diagnostics.
    """

    whole: Mapping[str, NDArray[np.float64]]
    groups: GroupDraws | None = None
    measures: Callable[[], Mapping[str, float]] = _no_numbers


@dataclass(frozen=True)
class PriorModel:
    """The prior in NumPy: its draws and its log density.

    Attributes
    ----------
    draw : callable
        Function of (data, num_draws, rng). Returns draws of every parameter by name, each of shape
        (1, num_draws, …). The function may add replicated data under the name that has the role
        ``y_rep``.
    log_density : callable or None
        Function of (draws, data). Returns the log density of the priors, shape (chain, draw). The
        priors of group effects, given their population, belong to the model and are not included.

    See Also
    --------
    pyflowers.prior : Draw parameters and data from the prior.
    pyflowers.sensitivity : Measure how much the posterior depends on the prior.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pyflowers
    >>> text = "data { int n; int<lower=0, upper=n> y; } parameters { real<lower=0, upper=1> p; }"
    >>> _ = Path("coin.stan").write_text(text + "model { y ~ binomial(n, p); }")
    >>> def draw(data, num_draws, rng):
    ...     p = rng.uniform(size=(1, num_draws))
    ...     return {"p": p, "y_rep": rng.binomial(data["n"], p)[..., None]}
    >>> python = pyflowers.Capabilities(prior=pyflowers.PriorModel(draw))
    >>> coin = pyflowers.Program.open("coin.stan", python=python)
    >>> prior = pyflowers.prior(coin, {"n": 10}, seed=1)
    >>> prior.implied().loc["mean", ["5%", "95%"]].tolist()
    [0.0, 10.0]
    """

    draw: Callable[[Data, int, np.random.Generator], dict[str, NDArray[np.float64]]]
    log_density: Callable[[Draws, Data], NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class ClosedForm:
    """The posterior without a Markov chain.

    Each function takes the data block, priors included.

    Attributes
    ----------
    exact : callable or None
        Function of (data). Returns the posterior computed by quadrature, such as a
        :class:`pyflowers.exact.NormalExact`.
    vb : callable or None
        Function of (data). Returns the closed-form mean-field approximation, such as a
        :class:`pyflowers.vb.VBResult`.
    vb_from_afar : callable or None
        Like `vb`, but started far from the solution, so that the ascent is visible. Returns None if
        there is no such start.
    draw : callable or None
        Function of (data, num_draws, rng), for the engine ``exact``. Returns
        ``pyflowers.programs.IndependentDraws`` of every quantity that the program does not omit.
    log_constant : callable
        Function of (data). Returns the terms of log p(y, parameters) that contain no parameter and
        that the Stan program leaves out.

    Examples
    --------
    >>> import math
    >>> from pathlib import Path
    >>> import pyflowers
    >>> from pyflowers.programs import IndependentDraws
    >>> text = "data { int n; int<lower=0, upper=n> y; } parameters { real<lower=0, upper=1> p; }"
    >>> _ = Path("coin.stan").write_text(text + "model { y ~ binomial(n, p); }")
    >>> def draw(data, num_draws, rng):
    ...     p = rng.beta(data["y"] + 1, data["n"] - data["y"] + 1, num_draws)
    ...     return IndependentDraws({"p": p})
    >>> def log_constant(data):
    ...     return math.log(math.comb(data["n"], data["y"]))
    >>> closed_form = pyflowers.ClosedForm(draw=draw, log_constant=log_constant)
    >>> python = pyflowers.Capabilities(closed_form=closed_form)
    >>> coin = pyflowers.Program.open("coin.stan", python=python)
    >>> fit = pyflowers.fit(coin, {"n": 20, "y": 7}, seed=1, engine="exact")
    >>> fit.summary()["mean"].round(2).to_dict()
    {'p': 0.36}
    >>> round(closed_form.log_constant(fit.data), 2)
    11.26
    """

    exact: Callable[[Data], ByQuadrature] | None = None
    vb: Callable[[Data], MeanField] | None = None
    vb_from_afar: Callable[[Data], MeanField | None] | None = None
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
        Why the moment does not exist.
    elements : array of bool or None
        The elements that lack the moment; None stands for all.
    """

    parameter: str
    lacks_mean: bool
    reason: str
    elements: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class LikelihoodAlone:
    """An estimate of a parameter from the likelihood alone, by a normal approximation.

    Attributes
    ----------
    estimate : array, of the parameter's shape
        The estimate.
    variance : array, of the parameter's shape
        Its squared standard error, on the log scale if `is_log`.
    is_log : bool
        Whether the approximation is to the log of the parameter.
    dof : float
        Degrees of freedom of the t distribution that is used instead of a normal one if the
        standard error is estimated from few values.
    """

    estimate: NDArray[np.float64]
    variance: NDArray[np.float64]
    is_log: bool = False
    dof: float = math.inf

    def at(self, position: int) -> LikelihoodAlone:
        """Return the estimate of one element."""
        some = slice(position, position + 1)
        return replace(self, estimate=self.estimate[some], variance=self.variance[some])


@dataclass(frozen=True)
class Capabilities:
    """Functions in Python that add capabilities to a program; each part is optional.

    Attributes
    ----------
    prior : PriorModel or None
        Draws from the prior, and its density, if the declared priors do not state them.
    closed_form : ClosedForm
        The posterior without a Markov chain.
    new_group : callable or None
        Function of (draws, data). Returns the joint log density of all observations in the data,
        treated as observations of one group that is not in the fit, with the group's parameters
        integrated out; shape (chain, draw). Raises ``ConfigError`` if this density does not exist.
    check : callable
        Function of the data block, priors included. Raises a ``DataError`` for data that cannot be
        used; otherwise returns a list of notes on the data.
    check_priors : callable
        Function of all hyperparameters by name. Raises a ``ConfigError`` if they are incompatible.
    priors_on_scale : callable
        Function of the data. Returns hyperparameters of a wide prior on the scale of the observed
        values, which the verdict suggests if the prior in use contradicts the data.
    missing_moments : callable
        Function of the data block, priors included. Returns the means and variances that the
        posterior does not have, as ``pyflowers.programs.MissingMoment``.
    likelihood_alone : callable
        Function of (draws, data). Returns estimates, from the likelihood alone, of parameters with
        a prior, by name; the verdict compares them with the prior.
    rescaling : callable
        Function of the data block and of a limit. Returns advice on what to rescale first if
        sampling fails: a covariate whose mean is further from 0, in standard deviations, than the
        limit. The advice is empty if there is no such covariate.
    linear : callable or None
        Function of the data block that returns the model as a
        ``pyflowers.programs.linear.LinearModel``, whose coefficients and group effects the engine
        ``exact`` integrates out. Raises ``ConfigError`` if the model has a part that cannot be
        stated in this form.
    choices : mapping of str to callable
        Functions of the data that choose the value of a variable of the data block, by the name of
        the variable, such as ``centered``.

    See Also
    --------
    pyflowers.Program.open : Open a program with capabilities in Python.

    Examples
    --------
    Add a note on the data of a program:

    >>> import pyflowers
    >>> def check(data):
    ...     return ["a pump ran for less than 2000 h"] if data["t"].min() < 2 else []
    >>> python = pyflowers.Capabilities(check=check)
    >>> program = pyflowers.Program.open("examples/pumps/pumps.stan", python=python)
    >>> fit = pyflowers.fit(program, "examples/pumps/pumps.csv", seed=1, engine="stanli")
    >>> print(fit.notes[0])
    a pump ran for less than 2000 h

    Look up the capabilities of a shipped program:

    >>> fit = pyflowers.fit("multilevel_normal", seed=1, engine="exact")
    >>> python = fit.program.python
    >>> python.check(fit.data)
    []
    >>> [moment.parameter for moment in python.missing_moments(fit.data)]
    ['sigma2', 'sigma2_plant']
    >>> python.priors_on_scale(fit.data)
    {'mu_mean': 5.0, 'mu_sd': 7.0, 'sigma2_scale': 3.0}
    >>> alone = python.likelihood_alone(fit.draws, fit.data)
    >>> sorted(alone)
    ['mu', 'sigma2']
    >>> python.rescaling(fit.data, 5.0)
    ''
    >>> python.check_priors({"sigma2_plant_nu": 1, "sigma2_plant_scale": 0})
    Traceback (most recent call last):
        ...
    pyflowers.errors.ConfigError: priors sigma2_plant_nu=1 and sigma2_plant_scale=0: a proper prior
    needs both above 0 (-2 and 0 make it flat); give both
    """

    prior: PriorModel | None = None
    closed_form: ClosedForm = ClosedForm()
    new_group: Callable[[Draws, Data], NDArray[np.float64]] | None = None
    check: Callable[[Data], list[str]] = _nothing
    check_priors: Callable[[Mapping[str, float]], object] = _nothing
    priors_on_scale: Callable[[Data], Mapping[str, float]] = _no_numbers
    missing_moments: Callable[[Data], Sequence[MissingMoment]] = _nothing
    likelihood_alone: Callable[[Draws, Data], Mapping[str, LikelihoodAlone]] = _no_numbers
    rescaling: Callable[[Data, float], Advice] = _no_advice
    linear: Callable[[Data], LinearModel] | None = None
    choices: Mapping[str, Callable[[Data], Any]] = field(default_factory=dict)
