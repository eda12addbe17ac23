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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers.integrators import (
    UNIT_MASS,
    Integrator,
    Mass,
    PhasePoint,
    Step,
    flip,
    hamiltonian,
    leapfrog,
    trajectory,
)
from pyflowers.samplers.kernels import (
    BoolArray,
    FloatArray,
    GradLogDensity,
    accept,
    choose,
    count,
    numbers,
    positive,
    start_with_gradient,
)

DIVERGENCE_THRESHOLD = 1000.0
"""An energy error beyond this is a divergence: Stan's threshold, `max_deltaH` in base_nuts.hpp."""


class HMCState(NamedTuple):
    """Where the chains are, with log π, shape (chain,), and ∇ log π, shape (chain, dim), there."""

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

    References
    ----------
    .. [1] Neal (2011), as above.
    """

    target: GradLogDensity
    step_size: float
    num_steps: int
    mass: Mass = UNIT_MASS
    jitter: float = 0.0
    integrator: Integrator = leapfrog

    def __post_init__(self) -> None:
        positive("step_size", self.step_size, ndim=0)
        count("num_steps", self.num_steps)
        if not 0 <= numbers("jitter", self.jitter, ndim=0) < 1:
            raise ConfigError(f"jitter must be at least 0 and less than 1, was {self.jitter}")

    def init(self, position: ArrayLike) -> HMCState:
        """Return the state of chains that start at `position`, shape (chain, dim).

        Raises
        ------
        ConfigError
            `position` is not so shaped, not finite, or outside the target's support, or `mass` is
            of another number of coordinates.
        """
        state = HMCState(*start_with_gradient(self.target, position))
        self.mass.check_fits(state.position)
        return state

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, rng: np.random.Generator, state: HMCState) -> tuple[HMCState, HMCInfo]:
        """Make one transition of every chain."""
        momentum = self.mass.sample(rng, state.position.shape)
        step_size = np.full(len(momentum), float(self.step_size))
        if self.jitter:
            step_size *= rng.uniform(1 - self.jitter, 1 + self.jitter, len(momentum))
        begin = PhasePoint(state.position, momentum, state.log_density, state.gradient)
        end = self.propose(begin, step_size[:, None])
        energy, energy_end = hamiltonian(self.mass, begin), hamiltonian(self.mass, end)
        error = energy_end - energy
        accepted, acceptance_rate = accept(rng, -error)
        position, _, log_density, gradient = choose(accepted, end, begin)
        info = HMCInfo(
            log_density,
            acceptance_rate,
            accepted,
            energy=np.where(accepted, energy_end, energy),
            energy_error=error,
            diverging=~(error <= DIVERGENCE_THRESHOLD),
            step_size=step_size,
        )
        return HMCState(position, log_density, gradient), info

    def propose(self, begin: PhasePoint, step_size: Step) -> PhasePoint:
        """Return where the path ends, its momentum flipped: a map that is its own inverse."""
        path = trajectory(self.integrator, self.target, self.mass, begin, step_size, self.num_steps)
        return flip(path[-1])
