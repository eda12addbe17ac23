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

from pyflowers.samplers.kernels import BoolArray, FloatArray, LogDensity, accept, choose, start
from pyflowers.samplers.proposals import Proposal, SymmetricProposal


class MetropolisState(NamedTuple):
    """Where the chains are, shape (chain, dim), and log π there, shape (chain,)."""

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
        """Return the state of chains that start at `position`, shape (chain, dim).

        Raises
        ------
        ConfigError
            `position` is not so shaped, not finite, or outside the target's support.
        """
        return MetropolisState(*start(self.target, position))

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        """Make one transition of every chain."""
        x = self.proposal.propose(rng, state.position)
        proposed = MetropolisState(x, self.target.log_density(x))
        log_ratio = proposed.log_density - state.log_density + self.log_q_ratio(state.position, x)
        accepted, acceptance_rate = accept(rng, log_ratio)
        state = MetropolisState(*choose(accepted, proposed, state))
        return state, MetropolisInfo(state.log_density, acceptance_rate, accepted)

    def log_q_ratio(self, _x: FloatArray, _proposed: FloatArray) -> FloatArray | float:
        """Return log q(x | x′) − log q(x′ | x), which is 0 as the proposal is symmetric."""
        return 0.0


@dataclass(frozen=True)
class MetropolisHastings(Metropolis):
    """Metropolis–Hastings: accept with probability min(1, π(x′) q(x | x′) / (π(x) q(x′ | x))).

    Parameters
    ----------
    target : LogDensity
    proposal : Proposal
        Any, with its log density ratio.
    """

    proposal: Proposal

    def log_q_ratio(self, x: FloatArray, proposed: FloatArray) -> FloatArray:
        """Return log q(x | x′) − log q(x′ | x) of the proposal, shape (chain,)."""
        return self.proposal.log_ratio(x, proposed)
