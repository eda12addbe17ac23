"""Metropolis and Metropolis–Hastings, and where they propose to go.

From x, propose x′ ~ q(x′ | x) and go there with probability

    A(x, x′) = min(1, π(x′) q(x | x′) / (π(x) q(x′ | x))),

else stay, and count x once more. Then π(x) q(x′ | x) A(x, x′) is symmetric in x and x′, which is
detailed balance, and π is stationary [2]_. Metropolis is the case q(x′ | x) = q(x | x′), where q
cancels [1]_. Else a proposal knows its log density ratio log q(x | x′) − log q(x′ | x), the density
of the way back over that of the way out.

| proposal | x′ | symmetric |
|---|---|---|
| :class:`GaussianStep` | x + L z, z ~ N(0, I) | yes |
| :class:`UniformStep` | x + scale · U(−1, 1) | yes |
| :class:`SignedStep` | x ± scale · U(0, 1), either sign with probability ½ | yes |
| :class:`OneSidedStep` | x + scale · U(0, 1), **the handout's** | no: there is no way back |
| :class:`MultiplicativeStep` | x · exp(scale · z), for x > 0 | no |

References
----------
.. [1] Metropolis, Rosenbluth, Rosenbluth, Teller & Teller (1953), Equation of state calculations by
   fast computing machines, Journal of Chemical Physics 21, 1087–1092.
.. [2] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109, section 2.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers.kernels import (
    BoolArray,
    FloatArray,
    LogDensity,
    accept,
    choose,
    numbers,
    positive,
    start,
)


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


class SymmetricProposal(Protocol):
    """A proposal with q(x′ | x) = q(x | x′), as Metropolis takes it.

    Nothing can check the symmetry: Metropolis also runs on a proposal that is not symmetric, and
    then draws from something other than its target.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x′ ~ q(x′ | x), shape (chain, dim)."""


class Proposal(SymmetricProposal, Protocol):
    """A proposal with its log density ratio, as Metropolis–Hastings takes it."""

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return log q(x | x′) − log q(x′ | x), shape (chain,)."""


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


class _Symmetric:
    def log_ratio(self, x: FloatArray, _proposed: FloatArray, /) -> FloatArray:
        """Return 0, shape (chain,)."""
        return np.zeros(len(x))


class GaussianStep(_Symmetric):
    """x′ = x + L z with z ~ N(0, I): the random walk.

    Parameters
    ----------
    scale : number, array of shape (dim,), or lower-triangular array of shape (dim, dim)
        The step's sd, or one for each coordinate, or the Cholesky factor L of its covariance.

    Raises
    ------
    ConfigError
        An sd is not positive, or L is not lower triangular.
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = numbers("scale", scale)
        if self.scale.ndim > 2 or (self.scale.ndim == 2 and np.triu(self.scale, 1).any()):
            raise ConfigError(
                "scale must be a number, a vector or a lower-triangular matrix: "
                "give the Cholesky factor of a covariance"
            )
        positive("scale", np.diag(self.scale) if self.scale.ndim == 2 else self.scale)

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x + L z, shape (chain, dim)."""
        z = rng.standard_normal(x.shape)
        return x + (z @ self.scale.T if self.scale.ndim == 2 else self.scale * z)


class _Step(_Symmetric):
    def __init__(self, scale: float) -> None:
        positive("scale", scale, ndim=0)
        self.scale = scale


class UniformStep(_Step):
    """x′ = x + scale · U(−1, 1) in each coordinate.

    Parameters
    ----------
    scale : float
        The longest step of a coordinate.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return a point of the cube of half side `scale` around x, shape (chain, dim)."""
        return x + rng.uniform(-self.scale, self.scale, x.shape)


class SignedStep(_Step):
    """The handout's step with a fair sign: x′ = x + s · scale · U(0, 1), s = ±1.

    The one sign turns all coordinates of a chain, so q is an even mixture of the handout's proposal
    and its mirror image. The mixture is symmetric, which repairs the handout; in one coordinate it
    is :class:`UniformStep`.

    Parameters
    ----------
    scale : float
        The longest step of a coordinate.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x plus or minus a positive step, shape (chain, dim)."""
        sign = rng.choice((-1.0, 1.0), size=(len(x), 1))
        return x + sign * rng.uniform(0, self.scale, x.shape)


class OneSidedStep(_Step):
    """The handout's proposal, x′ = x + scale · U(0, 1), which is not symmetric: it fails.

    It moves only right. Without a correction (in :class:`~pyflowers.samplers.Metropolis`, as the
    handout has it) a chain never comes back from where it has gone, and ends in the right tail
    whatever the target. With its Hastings correction (in
    :class:`~pyflowers.samplers.MetropolisHastings`) the way back has density q(x | x′) = 0, every
    move is rejected and the chain never leaves its start: exact, and useless. A step to either
    side is the repair: :class:`SignedStep`, :class:`UniformStep` or :class:`GaussianStep`.

    Parameters
    ----------
    scale : float
        The longest step of a coordinate.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x plus a positive step, shape (chain, dim)."""
        return x + rng.uniform(0, self.scale, x.shape)

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return log 0 = −inf wherever the proposal moved, shape (chain,)."""
        return np.where((proposed != x).any(axis=-1), -np.inf, 0.0)


class MultiplicativeStep(_Step):
    """x′ = x · exp(scale · z): a random walk of log x, for targets on x > 0.

    q(x′ | x) is log-normal with density N(log x′; log x, scale²) / x′ in each coordinate, so

        log q(x | x′) − log q(x′ | x) = Σ log x′ − log x,

    which is the Jacobian of the logarithm. It is the example of a ratio that must not be forgotten.

    Parameters
    ----------
    scale : float
        The sd of a step of log x.
    """

    def propose(self, rng: np.random.Generator, x: FloatArray, /) -> FloatArray:
        """Return x · exp(scale · z), shape (chain, dim)."""
        return x * np.exp(self.scale * rng.standard_normal(x.shape))

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        """Return Σ log x′ − log x, shape (chain,)."""
        log_ratio: FloatArray = np.log(proposed / x).sum(axis=-1)
        return log_ratio
