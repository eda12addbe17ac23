"""Hamiltonian Monte Carlo.

Give the position q a momentum p ~ N(0, M) and follow Hamilton's equations of H(q, p) = −log π(q) +
½ pᵀ M⁻¹ p for L steps of size ε. Flip the momentum at the end, which makes the map its own inverse,
and accept (q*, p*) with probability ([1]_, section 5.3.2)

    min(1, exp(H(q, p) − H(q*, p*))).

exp(−H) is the joint density of q and p, in which q has density π. The integrator keeps volume, so
no Jacobian is needed. The next transition draws a new momentum, so the flip is never seen in the
draws: it is there for the proof, and here so that code and proof agree.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5.
.. [2] Duane, Kennedy, Pendleton & Roweth (1987), Hybrid Monte Carlo, Physics Letters B 195,
   216–222.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.samplers import _checks
from pyflowers.samplers.densities import BoolArray, FloatArray, GradLogDensity
from pyflowers.samplers.integrators import (
    Integrator,
    PhasePoint,
    flip,
    hamiltonian,
    leapfrog,
    trajectory,
)
from pyflowers.samplers.mass import Mass, UnitMass
from pyflowers.samplers.metropolis import accept

#: An energy error beyond this is a divergence: Stan's threshold, `max_deltaH` in base_nuts.hpp.
DIVERGENCE_THRESHOLD = 1000.0


class HMCState(NamedTuple):
    """Where the chains are, with the target's values there.

    Attributes
    ----------
    position : array, shape (chain, dim)
    log_density : array, shape (chain,)
    gradient : array, shape (chain, dim)
    """

    position: FloatArray
    log_density: FloatArray
    gradient: FloatArray


class HMCInfo(NamedTuple):
    """What happened in one transition; all arrays are shaped (chain,).

    Attributes
    ----------
    lp : log π of the position after the transition
    acceptance_rate : min(1, exp(H(q, p) − H(q*, p*)))
    accepted : whether the move was made
    energy : H of the point the transition ended at
    energy_error : H(q*, p*) − H(q, p), of the proposal
    diverging : whether that error is beyond 1,000, or not a number
    step_size : ε, jittered
    """

    lp: FloatArray
    acceptance_rate: FloatArray
    accepted: BoolArray
    energy: FloatArray
    energy_error: FloatArray
    diverging: BoolArray
    step_size: FloatArray


def start_with_gradient(target: GradLogDensity, mass: Mass, position: ArrayLike) -> HMCState:
    """Return the state of chains that start at `position`, shape (chain, dim).

    Raises
    ------
    ConfigError
        `position` is not so shaped, not finite, or outside the target's support, or `mass` is of
        another number of coordinates.
    """
    x = _checks.initial_position(position, target)
    _checks.mass_fits(mass.velocity, x)
    log_density, gradient = target.log_density_gradient(x)
    _checks.initial_log_density(log_density, x)
    return HMCState(x, log_density, _checks.initial_gradient(gradient, x))


@dataclass(frozen=True)
class HMC:
    """Hamiltonian Monte Carlo with a fixed number of steps.

    Parameters
    ----------
    target : GradLogDensity
    step_size : float
        ε. On a normal target the leapfrog is stable while ε < 2 sd (unit mass).
    num_steps : int
        L. One step is MALA with step size ε².
    mass : Mass
        The covariance of the momentum; unit mass if left out.
    jitter : float in [0, 1)
        Each chain draws ε · U(1 − jitter, 1 + jitter) anew in each transition, which keeps L ε from
        matching a period of the motion ([1]_, section 5.4.2).
    integrator : Integrator
        With any other than :func:`~pyflowers.samplers.leapfrog` the draws are *not* from the
        target: :func:`~pyflowers.samplers.euler` and :func:`~pyflowers.samplers.modified_euler` are
        there to show it.

    Raises
    ------
    ConfigError
        `step_size`, `num_steps` or `jitter` is out of range.
    """

    target: GradLogDensity
    step_size: float
    num_steps: int
    mass: Mass = field(default_factory=UnitMass)
    jitter: float = 0.0
    integrator: Integrator = leapfrog

    def __post_init__(self) -> None:
        _checks.positive("step_size", self.step_size)
        _checks.count("num_steps", self.num_steps)
        _checks.fraction("jitter", self.jitter)

    def init(self, position: ArrayLike) -> HMCState:
        """Return the state of chains that start at `position`, shape (chain, dim)."""
        return start_with_gradient(self.target, self.mass, position)

    def __call__(self, rng: np.random.Generator, state: HMCState) -> tuple[HMCState, HMCInfo]:
        """Make one transition of every chain."""
        momentum = self.mass.sample(rng, state.position.shape)
        step_size = self._draw_step_size(rng, len(momentum))
        begin = PhasePoint(state.position, momentum, state.log_density, state.gradient)
        return self._move(rng, begin, self.propose(begin, step_size[:, None]), step_size)

    def propose(self, begin: PhasePoint, step_size: float | FloatArray) -> PhasePoint:
        """Return where the path ends, its momentum flipped: a map that is its own inverse."""
        path = trajectory(self.integrator, self.target, self.mass, begin, step_size, self.num_steps)
        return flip(path[-1])

    def _draw_step_size(self, rng: np.random.Generator, num_chains: int) -> FloatArray:
        if self.jitter == 0:
            return np.full(num_chains, self.step_size)
        return self.step_size * rng.uniform(1 - self.jitter, 1 + self.jitter, num_chains)

    @np.errstate(over="ignore", invalid="ignore")
    def _move(
        self, rng: np.random.Generator, begin: PhasePoint, end: PhasePoint, step_size: FloatArray
    ) -> tuple[HMCState, HMCInfo]:
        """Move the chains that accept; the others stay."""
        energy, energy_end = hamiltonian(self.mass, begin), hamiltonian(self.mass, end)
        energy_error = energy_end - energy
        accepted, acceptance_rate = accept(rng, -energy_error)
        state = HMCState(
            np.where(accepted[:, None], end.position, begin.position),
            np.where(accepted, end.log_density, begin.log_density),
            np.where(accepted[:, None], end.gradient, begin.gradient),
        )
        info = HMCInfo(
            lp=state.log_density,
            acceptance_rate=acceptance_rate,
            accepted=accepted,
            energy=np.where(accepted, energy_end, energy),
            energy_error=energy_error,
            diverging=~(energy_error <= DIVERGENCE_THRESHOLD),
            step_size=step_size,
        )
        return state, info
