"""Langevin samplers with a Metropolis step (MALA) and with stochastic gradients (SGLD).

The Langevin diffusion dX = ½ ∇ log π(X) dt + dW has π as its stationary density. A step of Euler's
method over time ε, preconditioned by a mass M, goes from x to

    x′ = x + (ε/2) M⁻¹ ∇ log π(x) + √ε ξ,     ξ ~ N(0, M⁻¹),

so ε is the *variance* of the noise (with unit mass).

**MALA**, the Metropolis-adjusted Langevin algorithm, proposes x′, and a Metropolis–Hastings step
corrects the discretisation error [1]_. Up to a constant, log q(x′ | x) = −½ rᵀ M r / ε, where
r = x′ − x − (ε/2) M⁻¹ ∇ log π(x). MALA with ε is Hamiltonian Monte Carlo with one leapfrog step of
size √ε ([2]_, section 5.5.2).

**SGLD**, stochastic-gradient Langevin dynamics, always moves to x′ and uses an estimate of the
gradient. In each step it draws a new mini-batch of n of the N observations, and moves by ([3]_,
equation 4)

    θ′ = θ + (ε_t/2) ĝ + η,     η ~ N(0, ε_t),
    ĝ = ∇ log p(θ) + (N/n) Σ_batch ∇ log p(x_i | θ).

No move is rejected, so a constant step size leaves a bias: on N(μ, σ²) with full gradients, the
variance of the chain settles at

    σ² / (1 − ε/(4σ²)).

This is the fixed point of v = (1 − ε/(2σ²))² v + ε, which is stable if ε < 4σ². Step sizes with
Σ ε_t = ∞ and Σ ε_t² < ∞ remove the bias ([3]_, equation 2). Draw t then has the weight ε_t in
expectations ([3]_, equation 11); the run stores this weight as `step_size`.

The handout's SGLD adds noise with an *sd* of ε_t, whereas Langevin dynamics needs an sd of √ε_t;
see :func:`handout_noise_sd`. The fixed point of v = (1 − ε/(2σ²))² v + ε² is then
ε σ² / (1 − ε/(4σ²)), so with small steps the sd of the draws is about √ε times the posterior sd:
this version of SGLD is an optimiser with a little noise.

References
----------
.. [1] Roberts & Tweedie (1996), Exponential convergence of Langevin distributions and their
   discrete approximations, Bernoulli 2, 341–363.
.. [2] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5.
.. [3] Welling & Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError
from pyflowers.lectures.samplers.hmc import UNIT_MASS, HMCState, Mass
from pyflowers.lectures.samplers.kernels import (
    FloatArray,
    GradLogDensity,
    accept,
    choose,
    positive,
    start,
    start_position,
)
from pyflowers.lectures.samplers.metropolis import MetropolisInfo


@dataclass(frozen=True)
class MALA:
    """The Metropolis-adjusted Langevin algorithm.

    Parameters
    ----------
    target : GradLogDensity
        The target π.
    step_size : float
        ε. The proposal's noise has covariance ε M⁻¹.
    mass : Mass
        M, whose inverse preconditions both the drift and the noise. Default: unit mass.

    Raises
    ------
    ConfigError
        If `step_size` is not positive and finite.

    See Also
    --------
    pyflowers.samplers.HMC : The same sampler as MALA if it takes one leapfrog step of size √ε.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import MALA, StandardNormal, run
    >>> mala = MALA(StandardNormal(), step_size=1.0)
    >>> result = run(mala, np.random.default_rng(1), np.zeros((4, 1)), num_draws=2_000)
    >>> round(float(result.draws.var()), 1)
    1.0

    One transition:

    >>> state = mala.init([[0.0], [3.0]])
    >>> state, info = mala(np.random.default_rng(1), state)
    >>> info.accepted.shape
    (2,)
    """

    target: GradLogDensity
    step_size: float
    mass: Mass = UNIT_MASS

    def __post_init__(self) -> None:
        positive("step_size", self.step_size, ndim=0)

    def init(self, position: ArrayLike) -> HMCState:
        """Return the state of chains that start at `position`.

        Parameters
        ----------
        position : array, shape (chain, dim)
            Starting positions of the chains.

        Returns
        -------
        HMCState
            The position, with log π and its gradient.

        Raises
        ------
        ConfigError
            If `position` has the wrong shape, is not finite, or is outside the target's support, or
            `mass` has a different number of coordinates.
        """
        state = HMCState(*start(self.target, position, gradient=True))
        self.mass.check_fits(state.position)
        return state

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(
        self, rng: np.random.Generator, state: HMCState
    ) -> tuple[HMCState, MetropolisInfo]:
        """Make one transition in every chain."""
        # If p ~ N(0, M), then M⁻¹ p ~ N(0, M⁻¹). HMC would use the same random numbers.
        noise = self.mass.velocity(self.mass.sample(rng, state.position.shape))
        x = self._drifted(state) + np.sqrt(self.step_size) * noise
        proposed = HMCState(x, *self.target.log_density_gradient(x))
        log_ratio = proposed.log_density - state.log_density
        log_ratio += self._log_proposal(state, proposed) - self._log_proposal(proposed, state)
        accepted, acceptance_rate = accept(rng, log_ratio)
        state = HMCState(*choose(accepted, proposed, state))
        return state, MetropolisInfo(state.log_density, acceptance_rate, accepted)

    def _drifted(self, state: HMCState) -> FloatArray:
        """Return x + (ε/2) M⁻¹ ∇ log π(x), the mean of the proposal from x."""
        return state.position + 0.5 * self.step_size * self.mass.velocity(state.gradient)

    def _log_proposal(self, to: HMCState, given: HMCState) -> FloatArray:
        """Return log q(to | given) up to a constant, shape (chain,)."""
        residual = to.position - self._drifted(given)
        return -self.mass.kinetic_energy(self.mass.momentum(residual)) / self.step_size


@dataclass(frozen=True)
class DecayingSteps:
    """Step sizes ε_t = a (b + t)^−γ with γ in (½, 1], so that Σ ε_t = ∞ and Σ ε_t² < ∞.

    Parameters
    ----------
    a : float
        The scale of the step sizes, positive. The first step size is a b^−γ.
    b : float
        The number of steps by which the decay is delayed, positive.
    gamma : float in (0.5, 1]
        γ, the power of the decay.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    Examples
    --------
    >>> from pyflowers.samplers import DecayingSteps
    >>> steps = DecayingSteps(a=1.0, b=2.0, gamma=1.0)
    >>> [steps(t) for t in (0, 2, 8)]
    [0.5, 0.25, 0.1]
    """

    a: float
    b: float = 1.0
    gamma: float = 0.55

    def __post_init__(self) -> None:
        positive("a", self.a, ndim=0)
        positive("b", self.b, ndim=0)
        if not 0.5 < self.gamma <= 1:
            raise ConfigError(f"gamma must be above 0.5 and at most 1, got {self.gamma}")

    def __call__(self, iteration: int) -> float:
        """Return a (b + t)^−γ."""
        return float(self.a * (self.b + iteration) ** -self.gamma)


def langevin_noise_sd(step_size: float) -> float:
    """Return √ε, the sd of the noise in Langevin dynamics; its variance is ε.

    Parameters
    ----------
    step_size : float
        ε.

    Returns
    -------
    float
        √ε.

    Examples
    --------
    >>> from pyflowers.samplers import langevin_noise_sd
    >>> langevin_noise_sd(0.25)
    0.5
    """
    return float(np.sqrt(step_size))


def handout_noise_sd(step_size: float) -> float:
    """Return ε, the handout's noise sd, which makes the draws' sd about √ε times the posterior sd.

    Parameters
    ----------
    step_size : float
        ε.

    Returns
    -------
    float
        ε.

    Examples
    --------
    With ε = 0.01 the draws of a standard normal have an sd of about √ε = 0.1:

    >>> import numpy as np
    >>> from pyflowers.samplers import SGLD, StandardNormal, handout_noise_sd, run
    >>> sgld = SGLD(StandardNormal(), step_size=0.01, noise_sd=handout_noise_sd)
    >>> rng = np.random.default_rng(1)
    >>> result = run(sgld, rng, np.zeros((100, 1)), num_draws=1_000, num_warmup=1_000)
    >>> round(float(result.draws.std()), 2)
    0.1
    """
    return step_size


class SGLDState(NamedTuple):
    """The positions of the chains, shape (chain, dim), and t, the number of steps taken."""

    position: FloatArray
    iteration: int


class SGLDInfo(NamedTuple):
    """The step size ε_t of each chain, shape (chain,), which is the weight of the draw."""

    step_size: FloatArray


@dataclass(frozen=True)
class SGLD:
    """Stochastic-gradient Langevin dynamics.

    Parameters
    ----------
    target : GradLogDensity, or a target for mini-batches
        A target for mini-batches has the attribute `num_obs`, which is N, and the methods
        `log_prior_gradient(x)` and `log_lik_gradient(x, batch)`. The latter returns the gradient of
        the log likelihood of a batch; `batch`, shape (chain, n), holds the positions of each
        chain's observations. :class:`~pyflowers.samplers.LinearRegression` is such a target.
    step_size : float, or function of t = 0, 1, …
        ε, or a function that returns ε_t, such as :class:`~pyflowers.samplers.DecayingSteps`.
        If ε is too large (on N(μ, σ²), above 4σ²), the chains diverge and their draws end in
        infinities or NaN, without a warning.
    batch_size : int, optional
        n, the number of observations in a mini-batch, which each chain draws without replacement.
        Default: the gradient of all observations is used.
    noise_sd : function of ε_t
        The sd of η. :func:`~pyflowers.samplers.handout_noise_sd` reproduces the handout's error.

    Raises
    ------
    ConfigError
        If `step_size` is a number that is not positive, `batch_size` is not between 1 and N, or the
        target does not support mini-batches.

    Examples
    --------
    On N(0, 1) a constant step leaves a bias: the variance of the draws is 1 / (1 − ε/4).

    >>> import numpy as np
    >>> from pyflowers.samplers import SGLD, LinearRegression, StandardNormal, run
    >>> sgld = SGLD(StandardNormal(), step_size=2.0)
    >>> sgld.noise_sd(4.0)  # η ~ N(0, 4)
    2.0
    >>> result = run(sgld, np.random.default_rng(1), np.zeros((100, 1)), num_draws=1_000)
    >>> round(float(result.draws.var()), 1)
    2.0

    With a step above 4, the chains diverge:

    >>> sgld = SGLD(StandardNormal(), step_size=5.0)
    >>> result = run(sgld, np.random.default_rng(1), np.zeros((100, 1)), num_draws=2_000)
    >>> bool(np.isfinite(result.draws[:, -1]).any())
    False

    The gradient of a mini-batch of 2 observations is unbiased:

    >>> target = LinearRegression(x=[0, 1, 2, 3], y=[1, 2, 4, 5])
    >>> sgld = SGLD(target, step_size=1e-3, batch_size=2)
    >>> state = sgld.init(np.zeros((20_000, 3)))
    >>> estimates = sgld.gradient(np.random.default_rng(1), state.position)
    >>> _, gradient = target.log_density_gradient(state.position[:1])
    >>> bool(np.allclose(estimates.mean(axis=0), gradient, rtol=0.01))
    True
    """

    target: Any
    step_size: float | Callable[[int], float]
    batch_size: int | None = None
    noise_sd: Callable[[float], float] = langevin_noise_sd

    def __post_init__(self) -> None:
        if not callable(self.step_size):
            positive("step_size", self.step_size, ndim=0)
        if self.batch_size is not None:
            whole_number("batch_size", self.batch_size)
            methods = ("num_obs", "log_prior_gradient", "log_lik_gradient")
            if not all(hasattr(self.target, name) for name in methods):
                raise ConfigError(
                    f"batch_size is {self.batch_size}, but {type(self.target).__name__} does not "
                    "support mini-batches; leave batch_size out, or give a target with "
                    "num_obs, log_prior_gradient and log_lik_gradient"
                )
            if self.batch_size > self.target.num_obs:
                raise ConfigError(
                    f"batch_size must be at most {self.target.num_obs}, the number of "
                    f"observations, got {self.batch_size}"
                )

    def init(self, position: ArrayLike) -> SGLDState:
        """Return the state of chains that start at `position`.

        Parameters
        ----------
        position : array, shape (chain, dim)
            Starting positions of the chains.

        Returns
        -------
        SGLDState
            The position, with 0 steps taken.

        Raises
        ------
        ConfigError
            If `position` has the wrong shape, or is not finite.
        """
        return SGLDState(start_position(self.target, position), 0)

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, rng: np.random.Generator, state: SGLDState) -> tuple[SGLDState, SGLDInfo]:
        """Take one step in every chain."""
        x, t = state
        step_size = self.step_size(t) if callable(self.step_size) else self.step_size
        drift = 0.5 * step_size * self.gradient(rng, x)
        noise = self.noise_sd(step_size) * rng.standard_normal(x.shape)
        return SGLDState(x + drift + noise, t + 1), SGLDInfo(np.full(len(x), step_size))

    def gradient(self, rng: np.random.Generator, x: FloatArray) -> FloatArray:
        """Return ĝ, an unbiased estimate of ∇ log π(x).

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the mini-batches.
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain, dim)
            The estimate for each chain; it is exact without mini-batches.
        """
        if self.batch_size is None:
            return np.asarray(self.target.log_density_gradient(x)[1])
        # The positions of the n smallest of N random numbers are a random subset of size n.
        num_obs = self.target.num_obs
        batch = rng.random((len(x), num_obs)).argsort(axis=-1)[:, : self.batch_size]
        log_lik_gradient = num_obs / self.batch_size * self.target.log_lik_gradient(x, batch)
        return np.asarray(self.target.log_prior_gradient(x) + log_lik_gradient)
