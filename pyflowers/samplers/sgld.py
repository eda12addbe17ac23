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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers.kernels import FloatArray, count, positive, start_position


def langevin_noise_sd(step_size: float) -> float:
    """Return √ε, the sd of noise of variance ε: the right one."""
    return float(np.sqrt(step_size))


def handout_noise_sd(step_size: float) -> float:
    """Return ε, the handout's sd: it makes draws narrower than the posterior by about √ε."""
    return step_size


class SGLDState(NamedTuple):
    """Where the chains are, shape (chain, dim), and t, the number of steps taken."""

    position: FloatArray
    iteration: int


class SGLDInfo(NamedTuple):
    """What happened in one step: ε_t of each chain, shape (chain,), which is the draw's weight."""

    step_size: FloatArray


@dataclass(frozen=True)
class SGLD:
    """Stochastic-gradient Langevin dynamics.

    Parameters
    ----------
    target : GradLogDensity, or for mini-batches a posterior as a sum over observations
        A posterior has `num_obs`, N; `log_prior_gradient(x)`; and `log_lik_gradient(x, batch)`, the
        sum over the observations whose numbers `batch`, shape (chain, n), has for each chain.
        :class:`~pyflowers.samplers.LinearRegression` is one.
    step_size : float, or function of t = 0, 1, …
        ε, or ε_t such as ``lambda t: a * (b + t) ** -0.55``.
    batch_size : int, optional
        n, drawn without replacement for each chain; the full gradient if left out.
    noise_sd : function of ε_t
        The sd of η; :func:`handout_noise_sd` shows the handout's error.

    Raises
    ------
    ConfigError
        `step_size` is a number that is not positive, or `batch_size` is not between 1 and N.
    """

    target: Any
    step_size: float | Callable[[int], float]
    batch_size: int | None = None
    noise_sd: Callable[[float], float] = langevin_noise_sd

    def __post_init__(self) -> None:
        if not callable(self.step_size):
            positive("step_size", self.step_size, ndim=0)
        if self.batch_size is not None:
            count("batch_size", self.batch_size)
            if self.batch_size > self.target.num_obs:
                raise ConfigError(
                    f"batch_size must be at most the {self.target.num_obs} observations, "
                    f"was {self.batch_size}"
                )

    def init(self, position: ArrayLike) -> SGLDState:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        return SGLDState(start_position(self.target, position), 0)

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, rng: np.random.Generator, state: SGLDState) -> tuple[SGLDState, SGLDInfo]:
        """Make one step of every chain."""
        x, t = state
        step_size = self.step_size(t) if callable(self.step_size) else self.step_size
        drift = 0.5 * step_size * self.gradient(rng, x)
        noise = self.noise_sd(step_size) * rng.standard_normal(x.shape)
        return SGLDState(x + drift + noise, t + 1), SGLDInfo(np.full(len(x), step_size))

    def gradient(self, rng: np.random.Generator, x: FloatArray) -> FloatArray:
        """Return ĝ, an unbiased estimate of ∇ log π(x), shape (chain, dim)."""
        if self.batch_size is None:
            return np.asarray(self.target.log_density_gradient(x)[1])
        # The places of the n smallest of N random numbers are a random subset of size n.
        num_obs = self.target.num_obs
        batch = rng.random((len(x), num_obs)).argsort(axis=-1)[:, : self.batch_size]
        log_lik_gradient = num_obs / self.batch_size * self.target.log_lik_gradient(x, batch)
        return np.asarray(self.target.log_prior_gradient(x) + log_lik_gradient)
