"""Stochastic-gradient Langevin dynamics (SGLD).

With N observations, of which a mini-batch of n is drawn anew in each step ([1]_, equation 4):

    θ′ = θ + (ε_t/2) ĝ + η,     η ~ N(0, ε_t),
    ĝ = ∇ log p(θ) + (N/n) Σ_batch ∇ log p(x_i | θ).

The noise has *variance* ε_t, so sd √ε_t. No move is rejected, so a constant step leaves a bias: on
N(μ, σ²) with full gradients the chain settles at variance

    σ² / (1 − ε/(4σ²)),

from v = (1 − ε/(2σ²))² v + ε, stable while ε < 4σ². Steps with Σ ε_t = ∞ and Σ ε_t² < ∞ take the
bias away ([1]_, equation 2); expectations then weight draw t by ε_t ([1]_, equation 11), which is
the run's `step_size`.

The handout's SGLD adds noise of *sd* ε_t where Langevin needs √ε_t: :func:`handout_noise_sd`. The
fixed point of v = (1 − ε/(2σ²))² v + ε² is then ε σ² / (1 − ε/(4σ²)), so with small steps the draws
are narrower than the posterior by the factor √ε: it is an optimiser with a little noise.

References
----------
.. [1] Welling & Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers import _checks
from pyflowers.samplers.densities import FloatArray, GradLogDensity, IntArray

#: ĝ: an unbiased estimate of ∇ log π for each chain, (rng, x) → shape (chain, dim).
GradientEstimate = Callable[[np.random.Generator, FloatArray], FloatArray]

#: ε_t: the step size of step t = 0, 1, ….
Schedule = Callable[[int], float]


class MinibatchTarget(Protocol):
    """A posterior whose gradient is a sum over observations."""

    @property
    def num_obs(self) -> int:
        """N, the number of observations."""
        ...

    def log_prior_gradient(self, x: FloatArray, /) -> FloatArray:
        """Return ∇ log p(x), shape (chain, dim)."""
        ...

    def log_lik_gradient(self, x: FloatArray, batch: IntArray, /) -> FloatArray:
        """Return Σ_batch ∇ log p(y_i | x), shape (chain, dim).

        Parameters
        ----------
        x : array, shape (chain, dim)
        batch : array of observation numbers, shape (chain, n)
            Each chain has a mini-batch of its own.
        """
        ...


@dataclass(frozen=True)
class FullGradient:
    """∇ log π itself: Langevin dynamics without mini-batches."""

    target: GradLogDensity

    def __call__(self, _rng: np.random.Generator, x: FloatArray) -> FloatArray:
        """Return ∇ log π(x), shape (chain, dim)."""
        return self.target.log_density_gradient(x)[1]


@dataclass(frozen=True)
class MinibatchGradient:
    """ĝ from a mini-batch drawn without replacement, one for each chain.

    Parameters
    ----------
    target : MinibatchTarget
    batch_size : int
        n; n = N gives the full gradient.

    Raises
    ------
    ConfigError
        `batch_size` is not between 1 and the number of observations.
    """

    target: MinibatchTarget
    batch_size: int

    def __post_init__(self) -> None:
        _checks.count("batch_size", self.batch_size)
        if self.batch_size > self.target.num_obs:
            raise ConfigError(
                f"batch_size must be at most the {self.target.num_obs} observations, "
                f"was {self.batch_size}"
            )

    def __call__(self, rng: np.random.Generator, x: FloatArray) -> FloatArray:
        """Return ĝ, shape (chain, dim)."""
        num_obs = self.target.num_obs
        # The places of the n smallest of N random numbers are a random subset of size n.
        order = rng.random((len(x), num_obs)).argsort(axis=-1)
        batch = order[:, : self.batch_size]
        log_lik_gradient = self.target.log_lik_gradient(x, batch)
        return self.target.log_prior_gradient(x) + num_obs / self.batch_size * log_lik_gradient


@dataclass(frozen=True)
class ConstantSteps:
    """ε_t = ε."""

    step_size: float

    def __post_init__(self) -> None:
        _checks.positive("step_size", self.step_size)

    def __call__(self, _iteration: int) -> float:
        """Return ε."""
        return self.step_size


@dataclass(frozen=True)
class DecayingSteps:
    """ε_t = a (b + t)^−γ with γ in (½, 1], which meets both conditions on the steps.

    Parameters
    ----------
    a, b : positive floats
        The first step is a b^−γ.
    gamma : float in (0.5, 1]

    Raises
    ------
    ConfigError
        One of the three is out of range.

    References
    ----------
    .. [1] Welling & Teh (2011), section 2.
    """

    a: float
    b: float = 1.0
    gamma: float = 0.55

    def __post_init__(self) -> None:
        _checks.positive("a", self.a)
        _checks.positive("b", self.b)
        if not 0.5 < self.gamma <= 1:
            raise ConfigError(f"gamma must be above 0.5 and at most 1, was {self.gamma}")

    def __call__(self, iteration: int) -> float:
        """Return a (b + t)^−γ."""
        return float(self.a * (self.b + iteration) ** -self.gamma)


def langevin_noise_sd(step_size: float) -> float:
    """Return √ε, the sd of noise of variance ε: the right one."""
    return float(np.sqrt(step_size))


def handout_noise_sd(step_size: float) -> float:
    """Return ε, the handout's sd: it makes draws narrower than the posterior by about √ε."""
    return step_size


class SGLDState(NamedTuple):
    """Where the chains are.

    Attributes
    ----------
    position : array, shape (chain, dim)
    iteration : int
        t, the number of steps taken: what the schedule needs.
    """

    position: FloatArray
    iteration: int


class SGLDInfo(NamedTuple):
    """What happened in one step.

    Attributes
    ----------
    step_size : ε_t of each chain, shape (chain,), which is also the draw's weight
    """

    step_size: FloatArray


@dataclass(frozen=True)
class SGLD:
    """Stochastic-gradient Langevin dynamics.

    Parameters
    ----------
    gradient : GradientEstimate
        :class:`FullGradient` or :class:`MinibatchGradient`.
    schedule : Schedule
        :class:`ConstantSteps` or :class:`DecayingSteps`.
    noise_sd : function of ε_t
        The sd of η; :func:`handout_noise_sd` shows the handout's error.
    """

    gradient: GradientEstimate
    schedule: Schedule
    noise_sd: Callable[[float], float] = langevin_noise_sd

    def init(self, position: ArrayLike) -> SGLDState:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        return SGLDState(_checks.initial_position(position), 0)

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, rng: np.random.Generator, state: SGLDState) -> tuple[SGLDState, SGLDInfo]:
        """Make one step of every chain."""
        step_size = self.schedule(state.iteration)
        drift = 0.5 * step_size * self.gradient(rng, state.position)
        noise = self.noise_sd(step_size) * rng.standard_normal(state.position.shape)
        info = SGLDInfo(np.full(len(state.position), step_size))
        return SGLDState(state.position + drift + noise, state.iteration + 1), info
