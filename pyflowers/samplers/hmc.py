"""Hamiltonian Monte Carlo, and three ways to follow Hamilton's equations.

With potential energy U(q) = −log π(q), momentum p ~ N(0, M) and kinetic energy K(p) = ½ pᵀ M⁻¹ p,
H(q, p) = U(q) + K(p) and ([1]_, equations 5.1 and 5.2)

    dq/dt = ∂H/∂p = M⁻¹ p,     dp/dt = −∂H/∂q = ∇ log π(q).

| integrator | global order | keeps volume | reversible | gradients a step |
|---|---|---|---|---|
| :func:`euler` | 1 | no | no | 1 |
| :func:`modified_euler` | 1 | yes | no | 1 |
| :func:`leapfrog` | 2 | yes | yes | 1 |

The three share one signature, so each can stand in for another. The order is of the error at a
fixed time as the step size ε goes to 0; the error of a single step is one order higher.

Hamiltonian Monte Carlo gives the position q a momentum p and follows the equations for L steps of
size ε. It flips the momentum at the end, which makes the map its own inverse, and accepts (q*, p*)
with probability ([1]_, section 5.3.2)

    min(1, exp(H(q, p) − H(q*, p*))).

exp(−H) is the joint density of q and p, in which q has density π. No Jacobian is needed if the
integrator keeps volume; with one that also is reversible, leapfrog, it is exact. The next
transition draws a new momentum, so the flip is never seen in the draws: it is there for the proof,
and here so that code and proof agree.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5.
.. [2] Leimkuhler & Reich (2004), Simulating Hamiltonian dynamics, chapters 2 and 4.
.. [3] Duane, Kennedy, Pendleton & Roweth (1987), Hybrid Monte Carlo, Physics Letters B 195,
   216–222.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers.kernels import (
    BoolArray,
    FloatArray,
    GradLogDensity,
    accept,
    choose,
    count,
    numbers,
    positive,
    start,
)

DIVERGENCE_THRESHOLD = 1000.0
"""An energy error beyond this is a divergence: Stan's threshold, `max_deltaH` in base_nuts.hpp."""


class Mass:
    """The mass M, a symmetric positive definite matrix.

    Sampling with mass M is sampling Mᐟ²-scaled positions with unit mass ([1]_, section 5.4.1), so
    M = Σ⁻¹ makes a target of covariance Σ round. Stan's `inv_metric` is M⁻¹, an estimate of Σ.

    Parameters
    ----------
    matrix : number, array of shape (dim,), or array of shape (dim, dim)
        A multiple of the identity, the diagonal, or all of M.

    Raises
    ------
    ConfigError
        `matrix` is not symmetric and positive definite.

    References
    ----------
    .. [1] Neal (2011), as above.
    """

    def __init__(self, matrix: ArrayLike = 1.0) -> None:
        self.matrix = numbers("mass", matrix)
        if self.matrix.ndim < 2:
            self._root = np.sqrt(positive("mass", matrix))
            return
        if self.matrix.shape != self.matrix.T.shape or not np.allclose(
            self.matrix, self.matrix.T, rtol=1e-10, atol=0
        ):
            raise ConfigError("mass must be a number, a vector or a symmetric matrix")
        try:
            self._root = np.linalg.cholesky(self.matrix)
        except np.linalg.LinAlgError as error:
            raise ConfigError("mass must be positive definite") from error
        self.matrix = self._root @ self._root.T  # exactly symmetric: rows and columns agree
        inverse = np.linalg.inv(self.matrix)
        self._inverse = 0.5 * (inverse + inverse.T)

    def check_fits(self, position: FloatArray) -> None:
        """Raise ConfigError unless it can be of as many coordinates as the position is."""
        if self.matrix.ndim and len(self.matrix) != position.shape[1]:
            raise ConfigError(f"mass must be of {position.shape[1]} coordinates as the position is")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return p ~ N(0, M) of shape (chain, dim)."""
        z = rng.standard_normal(shape)
        return z @ self._root.T if self._root.ndim == 2 else self._root * z

    def velocity(self, momentum: FloatArray) -> FloatArray:
        """Return M⁻¹ p, shape (chain, dim)."""
        return momentum @ self._inverse if self.matrix.ndim == 2 else momentum / self.matrix

    def momentum(self, velocity: FloatArray) -> FloatArray:
        """Return M v, shape (chain, dim)."""
        return velocity @ self.matrix if self.matrix.ndim == 2 else velocity * self.matrix

    def kinetic_energy(self, momentum: FloatArray) -> FloatArray:
        """Return K(p) = ½ pᵀ M⁻¹ p, shape (chain,)."""
        energy: FloatArray = 0.5 * np.einsum("...i,...i->...", momentum, self.velocity(momentum))
        return energy


UNIT_MASS = Mass()
"""M = I."""


class PhasePoint(NamedTuple):
    """A point of phase space for each chain, with the target's values there.

    Attributes
    ----------
    position, momentum : arrays, shape (chain, dim)
    log_density : array, shape (chain,)
    gradient : array, shape (chain, dim)
        ∇ log π(position).
    """

    position: FloatArray
    momentum: FloatArray
    log_density: FloatArray
    gradient: FloatArray


Step = float | FloatArray
"""A step size: a number, or one for each chain, shaped (chain, 1)."""

Integrator = Callable[[GradLogDensity, Mass, PhasePoint, Step], PhasePoint]
"""One step: (target, mass, point, step size) → point."""


def phase_point(target: GradLogDensity, position: ArrayLike, momentum: ArrayLike) -> PhasePoint:
    """Return the phase point at `position` and `momentum`, both of shape (chain, dim).

    Raises
    ------
    ConfigError
        The shapes differ, or the target has no density at a position.
    """
    q, *values = start(target, position, gradient=True)
    p = numbers("momentum", momentum)
    if p.shape != q.shape:
        raise ConfigError(f"momentum must be shaped {q.shape} as the position is, was {p.shape}")
    return PhasePoint(q, p, *values)


def hamiltonian(mass: Mass, point: PhasePoint) -> FloatArray:
    """Return H(q, p) = −log π(q) + ½ pᵀ M⁻¹ p, shape (chain,)."""
    return mass.kinetic_energy(point.momentum) - point.log_density


def flip(point: PhasePoint) -> PhasePoint:
    """Return the point with its momentum negated: the same path, run backwards."""
    return point._replace(momentum=-point.momentum)


def euler(target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: Step) -> PhasePoint:
    """Take one step of Euler's method: both halves use the old point ([1]_, 5.14 and 5.15).

        q′ = q + ε M⁻¹ p,     p′ = p + ε ∇ log π(q).

    Order 1. It spirals outwards: on a normal target a step multiplies the energy above its minimum
    by 1 + ε² (unit sd and mass), so no step size is small enough for long paths.
    """
    q = point.position + step_size * mass.velocity(point.momentum)
    p = point.momentum + step_size * point.gradient
    return PhasePoint(q, p, *target.log_density_gradient(q))


def modified_euler(
    target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: Step
) -> PhasePoint:
    """Take one step of modified Euler: the new momentum moves q ([1]_, 5.16 and 5.17).

        p′ = p + ε ∇ log π(q),     q′ = q + ε M⁻¹ p′.

    Also called symplectic Euler ([2]_) or Euler–Cromer; it is *not* the Runge–Kutta method of order
    2 that goes by the name of modified Euler. Order 1. Each half is a shear, so volume is kept and
    the energy error stays bounded; it is not reversible: its reverse runs the halves in the other
    order.
    """
    p = point.momentum + step_size * point.gradient
    q = point.position + step_size * mass.velocity(p)
    return PhasePoint(q, p, *target.log_density_gradient(q))


def leapfrog(target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: Step) -> PhasePoint:
    """Take one leapfrog step: half a kick, a drift, half a kick ([1]_, 5.18 to 5.20).

        p½ = p + (ε/2) ∇ log π(q),     q′ = q + ε M⁻¹ p½,     p′ = p½ + (ε/2) ∇ log π(q′).

    Order 2, keeps volume, and is reversible: flip the momentum, step, flip it again, and the point
    is back. Stable on a normal target while ε < 2 sd (unit mass). Also called velocity Verlet; the
    gradient at q′ is kept for the next step, so a step costs one.
    """
    half = point.momentum + 0.5 * step_size * point.gradient
    q = point.position + step_size * mass.velocity(half)
    log_density, gradient = target.log_density_gradient(q)
    return PhasePoint(q, half + 0.5 * step_size * gradient, log_density, gradient)


INTEGRATORS: dict[str, Integrator] = {
    "euler": euler,
    "modified_euler": modified_euler,
    "leapfrog": leapfrog,
}
"""The three by name."""

ORDERS = {"euler": 1, "modified_euler": 1, "leapfrog": 2}
"""The order of each one's global error."""


@np.errstate(over="ignore", invalid="ignore")
def trajectory(
    integrator: Integrator,
    target: GradLogDensity,
    mass: Mass,
    point: PhasePoint,
    step_size: Step,
    num_steps: int,
) -> list[PhasePoint]:
    """Return the path of `num_steps` steps: num_steps + 1 points, the first one `point`.

    A path that diverges ends in infinities or NaN, without a warning.
    """
    path = [point]
    for _ in range(num_steps):
        path.append(integrator(target, mass, path[-1], step_size))
    return path


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
        state = HMCState(*start(self.target, position, gradient=True))
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
