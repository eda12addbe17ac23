"""Hamiltonian Monte Carlo, and three integrators for Hamilton's equations.

Let U(q) = −log π(q) be the potential energy, p ~ N(0, M) the momentum and K(p) = ½ pᵀ M⁻¹ p the
kinetic energy. With H(q, p) = U(q) + K(p), Hamilton's equations are ([1]_, equations 5.1 and 5.2)

    dq/dt = ∂H/∂p = M⁻¹ p,     dp/dt = −∂H/∂q = ∇ log π(q).

| integrator | global order | preserves volume | reversible | gradients per step |
|---|---|---|---|---|
| :func:`euler` | 1 | no | no | 1 |
| :func:`modified_euler` | 1 | yes | no | 1 |
| :func:`leapfrog` | 2 | yes | yes | 1 |

The three functions have the same signature, so they are interchangeable. If the order is k, the
error at a fixed time is proportional to ε^k for small step sizes ε, and the error of a single step
is proportional to ε^(k + 1).

Hamiltonian Monte Carlo gives the position q a momentum p and follows the equations for L steps of
size ε. It flips the momentum at the end, so that the map of a reversible integrator is its own
inverse, and accepts the end point (q*, p*) with probability ([1]_, section 5.3.2)

    min(1, exp(H(q, p) − H(q*, p*))).

exp(−H) is the joint density of q and p, and π is the marginal density of q. No Jacobian is needed
if the integrator preserves volume. With leapfrog, which is also reversible, the algorithm is exact.
The next transition draws a new momentum, so the flip does not affect the draws. It is included
because the proof of exactness needs it.

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

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError
from pyflowers.lectures.samplers.kernels import (
    BoolArray,
    FloatArray,
    GradLogDensity,
    accept,
    check_size,
    choose,
    numbers,
    positive,
    start,
)

DIVERGENCE_THRESHOLD = 1000.0
"""The energy error above which a transition is divergent.

The value is Stan's, `max_deltaH` in base_nuts.hpp.
"""


class Mass:
    """The mass M, a symmetric positive definite matrix.

    With M = L Lᵀ, sampling q with mass M is the same as sampling Lᵀ q with unit mass ([1]_, section
    5.4.1). The choice M = Σ⁻¹ therefore amounts to transforming a target with covariance Σ to unit
    covariance. Stan's `inv_metric` is M⁻¹, an estimate of Σ.

    Parameters
    ----------
    matrix : number, array of shape (dim,), or array of shape (dim, dim)
        A multiple of the identity, the diagonal, or all of M.

    Raises
    ------
    ConfigError
        If `matrix` is not symmetric and positive definite.

    References
    ----------
    .. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
       chapter 5.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import Mass
    >>> mass = Mass([1, 4])  # the diagonal
    >>> momentum = np.array([[2.0, 2.0]])
    >>> mass.velocity(momentum)
    array([[2. , 0.5]])
    >>> mass.momentum(mass.velocity(momentum))
    array([[2., 2.]])
    >>> mass.kinetic_energy(momentum)  # (2² / 1 + 2² / 4) / 2
    array([2.5])
    >>> mass.check_fits(np.zeros((1, 2)))
    >>> draws = mass.sample(np.random.default_rng(1), (10_000, 2))
    >>> draws.var(axis=0).round()
    array([1., 4.])
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
        self.matrix = self._root @ self._root.T  # exactly symmetric, despite rounding
        inverse = np.linalg.inv(self.matrix)
        self._inverse = 0.5 * (inverse + inverse.T)

    def check_fits(self, position: FloatArray) -> None:
        """Check that the mass and a position have the same number of coordinates.

        Parameters
        ----------
        position : array, shape (chain, dim)
            Positions of the chains.

        Raises
        ------
        ConfigError
            If the mass is a vector or a matrix with a different number of coordinates.
        """
        check_size("mass", self.matrix, position)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return draws of the momentum, p ~ N(0, M).

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        shape : (int, int)
            Numbers of chains and coordinates.

        Returns
        -------
        array, shape (chain, dim)
            One momentum for each chain.
        """
        z = rng.standard_normal(shape)
        return z @ self._root.T if self._root.ndim == 2 else self._root * z

    def velocity(self, momentum: FloatArray) -> FloatArray:
        """Return M⁻¹ p.

        Parameters
        ----------
        momentum : array, shape (chain, dim)
            The momentum p.

        Returns
        -------
        array, shape (chain, dim)
            The velocity of each chain.
        """
        return momentum @ self._inverse if self.matrix.ndim == 2 else momentum / self.matrix

    def momentum(self, velocity: FloatArray) -> FloatArray:
        """Return M v.

        Parameters
        ----------
        velocity : array, shape (chain, dim)
            The velocity v.

        Returns
        -------
        array, shape (chain, dim)
            The momentum of each chain.
        """
        return velocity @ self.matrix if self.matrix.ndim == 2 else velocity * self.matrix

    def kinetic_energy(self, momentum: FloatArray) -> FloatArray:
        """Return K(p) = ½ pᵀ M⁻¹ p.

        Parameters
        ----------
        momentum : array, shape (chain, dim)
            The momentum p.

        Returns
        -------
        array, shape (chain,)
            The kinetic energy of each chain.
        """
        energy: FloatArray = 0.5 * np.einsum("...i,...i->...", momentum, self.velocity(momentum))
        return energy


UNIT_MASS = Mass()
"""The unit mass, M = I."""


class PhasePoint(NamedTuple):
    """A point in phase space for each chain, with the log density and its gradient.

    Attributes
    ----------
    position : array, shape (chain, dim)
        The position q.
    momentum : array, shape (chain, dim)
        The momentum p.
    log_density : array, shape (chain,)
        The log density, log π(q).
    gradient : array, shape (chain, dim)
        The gradient, ∇ log π(q).

    See Also
    --------
    pyflowers.samplers.phase_point : Build a point from a target, a position and a momentum.

    Examples
    --------
    >>> from pyflowers.samplers import StandardNormal, phase_point
    >>> point = phase_point(StandardNormal(), position=[[1.0]], momentum=[[0.5]])
    >>> point.momentum
    array([[0.5]])
    >>> point.gradient  # −q for a standard normal
    array([[-1.]])
    """

    position: FloatArray
    momentum: FloatArray
    log_density: FloatArray
    gradient: FloatArray


Step = float | FloatArray
"""A step size: one number for all chains, or one for each chain, shaped (chain, 1)."""

Integrator = Callable[[GradLogDensity, Mass, PhasePoint, Step], PhasePoint]
"""A function that takes one step: (target, mass, point, step size) → point."""


def phase_point(target: GradLogDensity, position: ArrayLike, momentum: ArrayLike) -> PhasePoint:
    """Return the phase point at `position` and `momentum`.

    Parameters
    ----------
    target : GradLogDensity
        The target π, which is evaluated at `position`.
    position : array, shape (chain, dim)
        The position q.
    momentum : array, shape (chain, dim)
        The momentum p.

    Returns
    -------
    PhasePoint
        Position and momentum, with log π and its gradient.

    Raises
    ------
    ConfigError
        If the shapes differ, or the log density is not finite at a position.

    Examples
    --------
    >>> from pyflowers.samplers import StandardNormal, phase_point
    >>> point = phase_point(StandardNormal(dim=2), [[3.0, 4.0]], [[0.0, 0.0]])
    >>> point.log_density.round(4)  # −(3² + 4²) / 2 − log 2π
    array([-14.3379])
    """
    q, *values = start(target, position, gradient=True)
    p = numbers("momentum", momentum)
    if p.shape != q.shape:
        raise ConfigError(f"momentum must have the position's shape, {q.shape}, got {p.shape}")
    return PhasePoint(q, p, *values)


def hamiltonian(mass: Mass, point: PhasePoint) -> FloatArray:
    """Return H(q, p) = −log π(q) + ½ pᵀ M⁻¹ p.

    Parameters
    ----------
    mass : Mass
        The mass M.
    point : PhasePoint
        The position q and the momentum p.

    Returns
    -------
    array, shape (chain,)
        The total energy of each chain.

    Examples
    --------
    A leapfrog step of size ε on N(0, 1) changes the energy only a little:

    >>> from pyflowers.samplers import Mass, StandardNormal, hamiltonian, leapfrog, phase_point
    >>> target, mass = StandardNormal(), Mass()
    >>> point = phase_point(target, [[1.0]], [[0.0]])
    >>> after = leapfrog(target, mass, point, 0.1)
    >>> bool(abs(hamiltonian(mass, after) - hamiltonian(mass, point)) < 0.1**2)
    True
    """
    return mass.kinetic_energy(point.momentum) - point.log_density


def flip(point: PhasePoint) -> PhasePoint:
    """Return the point with its momentum negated, from which the path runs backwards.

    Parameters
    ----------
    point : PhasePoint
        Any point of phase space.

    Returns
    -------
    PhasePoint
        The same position with the momentum −p.

    Examples
    --------
    >>> from pyflowers.samplers import StandardNormal, flip, phase_point
    >>> point = phase_point(StandardNormal(), [[1.0]], [[0.5]])
    >>> flip(point).momentum
    array([[-0.5]])
    """
    return point._replace(momentum=-point.momentum)


def euler(target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: Step) -> PhasePoint:
    """Take one step of Euler's method, in which both updates use the old point.

        q′ = q + ε M⁻¹ p,     p′ = p + ε ∇ log π(q)     (Neal 2011, equations 5.14 and 5.15).

    The order is 1. On a normal target with unit sd and unit mass, each step multiplies the energy,
    measured from its minimum, by 1 + ε². The path therefore spirals outwards, and no step size is
    small enough for long paths.

    Parameters
    ----------
    target : GradLogDensity
        The target π.
    mass : Mass
        The mass M.
    point : PhasePoint
        The point at which the step starts.
    step_size : float, or array of shape (chain, 1)
        ε, either one value for all chains or one value for each.

    Returns
    -------
    PhasePoint
        The point at which the step ends.

    See Also
    --------
    pyflowers.samplers.leapfrog : The reversible integrator.

    Examples
    --------
    On N(0, 1), a step takes (q, p) = (1, 0) to (q + ε p, p − ε q) and multiplies the squared radius
    by 1 + ε²:

    >>> from pyflowers.samplers import Mass, StandardNormal, euler, phase_point
    >>> target = StandardNormal()
    >>> point = euler(target, Mass(), phase_point(target, [[1.0]], [[0.0]]), 0.5)
    >>> q, p = point.position.item(), point.momentum.item()
    >>> q, p, q**2 + p**2
    (1.0, -0.5, 1.25)
    """
    q = point.position + step_size * mass.velocity(point.momentum)
    p = point.momentum + step_size * point.gradient
    return PhasePoint(q, p, *target.log_density_gradient(q))


def modified_euler(
    target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: Step
) -> PhasePoint:
    """Take one step of the modified Euler method, in which the new momentum moves the position.

        p′ = p + ε ∇ log π(q),     q′ = q + ε M⁻¹ p′     (Neal 2011, equations 5.16 and 5.17).

    The method is also called symplectic Euler or Euler–Cromer. It is *not* the Runge–Kutta method
    of order 2 that is also called modified Euler. The order is 1. Each of the two updates is a
    shear, so the step preserves volume, and the energy error stays bounded as long as the step is
    stable. The step is not reversible: the reverse step makes the updates in the opposite order.

    Parameters
    ----------
    target : GradLogDensity
        The target π.
    mass : Mass
        The mass M.
    point : PhasePoint
        The point at which the step starts.
    step_size : float, or array of shape (chain, 1)
        ε, either one value for all chains or one value for each.

    Returns
    -------
    PhasePoint
        The point at which the step ends.

    See Also
    --------
    pyflowers.samplers.leapfrog : The reversible integrator.

    Examples
    --------
    On N(0, 1), a step from (q, p) = (1, 0) gives p′ = p − ε q and q′ = q + ε p′:

    >>> from pyflowers.samplers import Mass, StandardNormal, modified_euler, phase_point
    >>> target = StandardNormal()
    >>> point = modified_euler(target, Mass(), phase_point(target, [[1.0]], [[0.0]]), 0.5)
    >>> point.position.item(), point.momentum.item()
    (0.75, -0.5)
    """
    p = point.momentum + step_size * point.gradient
    q = point.position + step_size * mass.velocity(p)
    return PhasePoint(q, p, *target.log_density_gradient(q))


def leapfrog(target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: Step) -> PhasePoint:
    """Take one leapfrog step: half a kick, a drift, half a kick.

        p½ = p + (ε/2) ∇ log π(q),     q′ = q + ε M⁻¹ p½,     p′ = p½ + (ε/2) ∇ log π(q′)

    (Neal 2011, equations 5.18 to 5.20). The order is 2. The step preserves volume and is
    reversible: a step, a flip of the momentum, a second step and a second flip return the point to
    where it started. With unit mass, the step is stable on a normal target if ε < 2 sd. The method
    is also called velocity Verlet. The gradient at q′ is kept for the next step, so each step costs
    one gradient.

    Parameters
    ----------
    target : GradLogDensity
        The target π.
    mass : Mass
        The mass M.
    point : PhasePoint
        The point at which the step starts.
    step_size : float, or array of shape (chain, 1)
        ε, either one value for all chains or one value for each.

    Returns
    -------
    PhasePoint
        The point at which the step ends.

    See Also
    --------
    pyflowers.samplers.HMC : Hamiltonian Monte Carlo, which takes leapfrog steps.

    Examples
    --------
    >>> from pyflowers.samplers import Mass, StandardNormal, flip, leapfrog, phase_point
    >>> target, mass = StandardNormal(), Mass()
    >>> start = phase_point(target, [[1.0]], [[0.0]])
    >>> end = leapfrog(target, mass, start, 0.5)
    >>> end.position.item(), end.momentum.item()  # 1 − ε²/2 and −ε (1 − ε²/4)
    (0.875, -0.46875)
    >>> back = leapfrog(target, mass, flip(end), 0.5)
    >>> back.position.item()
    1.0
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
"""The three integrators by name."""

ORDERS = {"euler": 1, "modified_euler": 1, "leapfrog": 2}
"""The order of each integrator's global error."""


@np.errstate(over="ignore", invalid="ignore")
def trajectory(
    integrator: Integrator,
    target: GradLogDensity,
    mass: Mass,
    point: PhasePoint,
    step_size: Step,
    num_steps: int,
) -> list[PhasePoint]:
    """Return a path of `num_steps` steps that starts at a given point.

    A path that diverges ends in infinities or NaN, without a warning.

    Parameters
    ----------
    integrator : Integrator
        :func:`~pyflowers.samplers.leapfrog`, or another function with the same signature.
    target : GradLogDensity
        The target π.
    mass : Mass
        The mass M.
    point : PhasePoint
        The point at which the path starts.
    step_size : float, or array of shape (chain, 1)
        ε, either one value for all chains or one value for each.
    num_steps : int
        L, the number of steps.

    Returns
    -------
    list of PhasePoint
        The num_steps + 1 points of the path; the first is `point`.

    Examples
    --------
    On N(0, 1) the path is a circle, so a path of length 2π ends where it starts:

    >>> import numpy as np
    >>> from pyflowers.samplers import Mass, StandardNormal, leapfrog, phase_point, trajectory
    >>> target = StandardNormal()
    >>> start = phase_point(target, [[1.0]], [[0.0]])
    >>> path = trajectory(leapfrog, target, Mass(), start, 2 * np.pi / 100, num_steps=100)
    >>> len(path)
    101
    >>> path[-1].position.round(3)
    array([[1.]])
    """
    path = [point]
    for _ in range(num_steps):
        path.append(integrator(target, mass, path[-1], step_size))
    return path


class HMCState(NamedTuple):
    """The positions of the chains, with log π, shape (chain,), and ∇ log π, shape (chain, dim)."""

    position: FloatArray
    log_density: FloatArray
    gradient: FloatArray


class HMCInfo(NamedTuple):
    """The outcome of one transition; all arrays are shaped (chain,).

    Attributes
    ----------
    lp : array
        log π of the position after the transition.
    acceptance_rate : array
        min(1, exp(H(q, p) − H(q*, p*))).
    accepted : array of bool
        Whether the chain moved.
    energy : array
        H at the point where the transition ended.
    energy_error : array
        H(q*, p*) − H(q, p), where (q*, p*) is the proposal.
    diverging : array of bool
        Whether the energy error is above 1,000 or is not a number.
    step_size : array
        The step size ε, including the jitter.
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
        The target π.
    step_size : float
        ε. With unit mass, the leapfrog is stable on a normal target if ε < 2 sd.
    num_steps : int
        L, the number of steps. With one step, the sampler is MALA with step size ε².
    mass : Mass
        M, the covariance of the momentum. Default: unit mass.
    jitter : float in [0, 1)
        In every transition, each chain draws a new step size from ε · U(1 − jitter, 1 + jitter).
        This prevents L ε from matching a period of the motion ([1]_, section 5.4.2).
    integrator : Integrator
        An integrator that preserves volume and is reversible, such as
        :func:`~pyflowers.samplers.leapfrog`; with any other, the draws are *not* from π.
        :func:`~pyflowers.samplers.euler` and :func:`~pyflowers.samplers.modified_euler` are
        included to show this.

    Raises
    ------
    ConfigError
        If `step_size`, `num_steps` or `jitter` is out of range.

    See Also
    --------
    pyflowers.samplers.run : Run chains and keep the draws.

    References
    ----------
    .. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
       chapter 5.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import HMC, NormalMixture, run
    >>> hmc = HMC(NormalMixture.lecture_hmc(), step_size=0.5, num_steps=10)
    >>> result = run(hmc, np.random.default_rng(1), np.zeros((4, 1)), num_draws=2_000)
    >>> bool(result.sample_stats["acceptance_rate"].mean() > 0.9)
    True

    A proposal is the end of a path with its momentum flipped; a second path returns to the start:

    >>> from pyflowers.samplers import phase_point
    >>> state = hmc.init([[0.5]])
    >>> start = phase_point(hmc.target, state.position, [[1.0]])
    >>> end = hmc.propose(start, 0.1)
    >>> hmc.propose(end, 0.1).position.round(12)
    array([[0.5]])

    A single step of the integrator:

    >>> after = hmc.integrator(hmc.target, hmc.mass, start, 0.1)
    >>> bool(after.position > start.position)
    True
    """

    target: GradLogDensity
    step_size: float
    num_steps: int
    mass: Mass = UNIT_MASS
    jitter: float = 0.0
    integrator: Integrator = leapfrog

    def __post_init__(self) -> None:
        positive("step_size", self.step_size, ndim=0)
        whole_number("num_steps", self.num_steps)
        if not 0 <= numbers("jitter", self.jitter, ndim=0) < 1:
            raise ConfigError(f"jitter must be at least 0 and less than 1, got {self.jitter}")

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
    def __call__(self, rng: np.random.Generator, state: HMCState) -> tuple[HMCState, HMCInfo]:
        """Make one transition in every chain."""
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
        """Return the end of the path, with its momentum flipped.

        With :func:`~pyflowers.samplers.leapfrog` this map is its own inverse.

        Parameters
        ----------
        begin : PhasePoint
            The point at which the path starts.
        step_size : float, or array of shape (chain, 1)
            ε, either one value for all chains or one value for each.

        Returns
        -------
        PhasePoint
            The proposal of each chain.
        """
        path = trajectory(self.integrator, self.target, self.mass, begin, step_size, self.num_steps)
        return flip(path[-1])
