"""Metropolis and Metropolis–Hastings.

From x, propose x′ ~ q(x′ | x) and go there with probability

    A(x, x′) = min(1, π(x′) q(x | x′) / (π(x) q(x′ | x))),

else stay, and count x once more. Then π(x) q(x′ | x) A(x, x′) is symmetric in x and x′, which is
detailed balance, and π is stationary [2]_. Metropolis is the case q(x′ | x) = q(x | x′), where q
cancels [1]_.

References
----------
.. [1] Metropolis, Rosenbluth, Rosenbluth, Teller & Teller (1953), Equation of state calculations by
   fast computing machines, Journal of Chemical Physics 21, 1087–1092.
.. [2] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109, section 2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.samplers import _checks
from pyflowers.samplers.densities import BoolArray, FloatArray, LogDensity
from pyflowers.samplers.proposals import Proposal, SymmetricProposal


class MetropolisState(NamedTuple):
    """Where the chains are.

    Attributes
    ----------
    position : array, shape (chain, dim)
    log_density : array, shape (chain,)
        log π(position), kept so that no point is evaluated twice.
    """

    position: FloatArray
    log_density: FloatArray


class MetropolisInfo(NamedTuple):
    """What happened in one transition; all arrays are shaped (chain,).

    Attributes
    ----------
    lp : log π of the position after the transition
    acceptance_rate : A(x, x′), the probability of the move, whether or not it was made
    accepted : whether it was made
    """

    lp: FloatArray
    acceptance_rate: FloatArray
    accepted: BoolArray


def accept(rng: np.random.Generator, log_ratio: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Decide, for each chain, whether to accept with probability min(1, exp(log_ratio)).

    Accepts if log u < log_ratio with u ~ U(0, 1). −log u is a standard exponential draw, which
    never meets log 0. A ratio that is not a number (the proposal left where π can be computed)
    rejects.

    Parameters
    ----------
    log_ratio : array, shape (chain,)

    Returns
    -------
    accepted : array of bool, shape (chain,)
    acceptance_rate : array, shape (chain,)
        min(1, exp(log_ratio)).
    """
    log_uniform = -rng.standard_exponential(log_ratio.shape)
    acceptance_rate = np.exp(np.minimum(log_ratio, 0.0))
    return log_uniform < log_ratio, np.nan_to_num(acceptance_rate)


def start(target: LogDensity, position: ArrayLike) -> MetropolisState:
    """Return the state of chains that start at `position`, shape (chain, dim).

    Raises
    ------
    ConfigError
        `position` is not so shaped, not finite, or outside the target's support.
    """
    x = _checks.initial_position(position, target)
    return MetropolisState(x, _checks.initial_log_density(target.log_density(x), x))


def _move(
    rng: np.random.Generator,
    state: MetropolisState,
    proposed: MetropolisState,
    log_ratio: FloatArray,
) -> tuple[MetropolisState, MetropolisInfo]:
    """Move the chains that accept; the others stay."""
    accepted, acceptance_rate = accept(rng, log_ratio)
    position = np.where(accepted[:, None], proposed.position, state.position)
    log_density = np.where(accepted, proposed.log_density, state.log_density)
    info = MetropolisInfo(log_density, acceptance_rate, accepted)
    return MetropolisState(position, log_density), info


@dataclass(frozen=True)
class Metropolis:
    """Random-walk Metropolis: accept with probability min(1, π(x′)/π(x)).

    Parameters
    ----------
    target : LogDensity
    proposal : SymmetricProposal
        Must be symmetric. The handout's :class:`~pyflowers.samplers.OneSidedStep` is not.
    """

    target: LogDensity
    proposal: SymmetricProposal

    def init(self, position: ArrayLike) -> MetropolisState:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        return start(self.target, position)

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        """Make one transition of every chain."""
        x = self.proposal.propose(rng, state.position)
        proposed = MetropolisState(x, self.target.log_density(x))
        return _move(rng, state, proposed, proposed.log_density - state.log_density)


@dataclass(frozen=True)
class MetropolisHastings:
    """Metropolis–Hastings: accept with probability min(1, π(x′) q(x | x′) / (π(x) q(x′ | x))).

    Parameters
    ----------
    target : LogDensity
    proposal : Proposal
        Any, with its log density ratio.
    """

    target: LogDensity
    proposal: Proposal

    def init(self, position: ArrayLike) -> MetropolisState:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        return start(self.target, position)

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        """Make one transition of every chain."""
        x = self.proposal.propose(rng, state.position)
        proposed = MetropolisState(x, self.target.log_density(x))
        log_ratio = proposed.log_density - state.log_density
        log_ratio += self.proposal.log_ratio(state.position, x)
        return _move(rng, state, proposed, log_ratio)
