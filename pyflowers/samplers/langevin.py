"""The Metropolis-adjusted Langevin algorithm (MALA).

The Langevin diffusion dX = ½ ∇ log π(X) dt + dW has π as its stationary density. A step of Euler's
method over time ε proposes

    x′ = x + (ε/2) M⁻¹ ∇ log π(x) + √ε ξ,     ξ ~ N(0, M⁻¹),

and Metropolis–Hastings removes the error of the step [1]_, with log q(x′ | x) = −½ rᵀ M r / ε up to
a constant, where r = x′ − x − (ε/2) M⁻¹ ∇ log π(x).

ε is the *variance* of the noise (with unit mass), as in :mod:`pyflowers.samplers.sgld`. MALA with ε
is Hamiltonian Monte Carlo with one leapfrog step of size √ε ([2]_, section 5.5.2).

References
----------
.. [1] Roberts & Tweedie (1996), Exponential convergence of Langevin distributions and their
   discrete approximations, Bernoulli 2, 341–363.
.. [2] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.samplers.hmc import HMCState
from pyflowers.samplers.integrators import UNIT_MASS, Mass
from pyflowers.samplers.kernels import (
    FloatArray,
    GradLogDensity,
    accept,
    choose,
    positive,
    start_with_gradient,
)
from pyflowers.samplers.metropolis import MetropolisInfo


@dataclass(frozen=True)
class MALA:
    """The Metropolis-adjusted Langevin algorithm.

    Parameters
    ----------
    target : GradLogDensity
    step_size : float
        ε, the variance of the proposal's noise (times M⁻¹).
    mass : Mass
        M, whose inverse preconditions drift and noise alike; unit mass if left out.

    Raises
    ------
    ConfigError
        `step_size` is not positive and finite.
    """

    target: GradLogDensity
    step_size: float
    mass: Mass = UNIT_MASS

    def __post_init__(self) -> None:
        positive("step_size", self.step_size, ndim=0)

    def init(self, position: ArrayLike) -> HMCState:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        state = HMCState(*start_with_gradient(self.target, position))
        self.mass.check_fits(state.position)
        return state

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(
        self, rng: np.random.Generator, state: HMCState
    ) -> tuple[HMCState, MetropolisInfo]:
        """Make one transition of every chain."""
        # M⁻¹ p with p ~ N(0, M) is N(0, M⁻¹), from the random numbers that HMC would use.
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
