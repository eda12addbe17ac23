"""What a right sampler does, as functions that take the sampler and assert.

The tests call them on what pyflowers has, and test_mutants.py on what it must not have.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, stats

from pyflowers.samplers import (
    HMC,
    MALA,
    SGLD,
    DenseMass,
    DiagonalMass,
    ExactTarget,
    Gaussian,
    GradLogDensity,
    Integrator,
    Kernel,
    LinearRegression,
    LogGamma,
    PhasePoint,
    detailed_balance_error,
    flip,
    hamiltonian,
    phase_point,
    ring_walk,
    trajectory,
)
from pyflowers.samplers.densities import FloatArray

from .gandy_scott import is_exact

CORRELATED = Gaussian([1.0, -2.0], [[2.0, 1.2], [1.2, 1.0]])
CORRELATED_MASS = DenseMass([[1.5, -1.3], [-1.3, 3.0]])
SKEWED = LogGamma([0.7, 3.0], [1.0, 2.0])
SKEWED_MASS = DiagonalMass([0.5, 4.0])

_X = np.linspace(-1.0, 1.5, 12)
LINE = LinearRegression(_X, -1 + 2 * _X + 0.5 * np.random.default_rng(5).standard_normal(12))


def check_exact(kernel: Kernel[Any], target: ExactTarget, seed: int = 1) -> None:
    """Hold that the target is stationary."""
    assert is_exact(kernel, target, seed=seed)


def check_gradient(target: ExactTarget) -> None:
    """Hold ∇ log π against central differences, and its log π against log_density."""
    x = target.sample(np.random.default_rng(2), 40)
    log_density, gradient = target.log_density_gradient(x)
    assert np.array_equal(log_density, target.log_density(x))
    step = np.cbrt(np.finfo(float).eps)
    for index in range(target.dim):
        h = np.zeros_like(x)
        # not beyond the edge of a support such as x > 0
        h[:, index] = step * np.minimum(np.abs(x[:, index]), 1.0)
        difference = target.log_density(x + h) - target.log_density(x - h)
        assert np.allclose(difference / (2 * h[:, index]), gradient[:, index], rtol=1e-5, atol=1e-5)


def check_normalised(target: ExactTarget) -> None:
    """Integrate a one-dimensional π: mass 1, and the mean and variance it says."""

    def moment(power: int) -> float:
        def integrand(x: float) -> float:
            with np.errstate(over="ignore", under="ignore"):
                return float(x**power * np.exp(target.log_density(np.array([[x]]))[0]))

        # in two pieces, so that quad does not step over the mass; 40 sds leave nothing out
        centre, reach = target.mean[0], 40 * np.sqrt(target.variance[0])
        pieces = [(centre - reach, centre), (centre, centre + reach)]
        return sum(float(integrate.quad(integrand, *piece, limit=500)[0]) for piece in pieces)

    mass, first, second = moment(0), moment(1), moment(2)
    assert np.isclose(mass, 1, atol=1e-6)
    assert np.isclose(first, target.mean[0], atol=1e-6)
    assert np.isclose(second - first**2, target.variance[0], rtol=1e-5)


def check_sample(target: ExactTarget, num_draws: int = 100_000) -> None:
    """Hold exact draws against the target's mean and variance, to 5 standard errors."""
    draws = target.sample(np.random.default_rng(3), num_draws)
    assert draws.shape == (num_draws, target.dim)
    centred = draws - target.mean
    error = centred.std(axis=0) / np.sqrt(num_draws)
    assert np.all(np.abs(centred.mean(axis=0)) < 5 * error)
    error = (centred**2).std(axis=0) / np.sqrt(num_draws)
    assert np.all(np.abs((centred**2).mean(axis=0) - target.variance) < 5 * error)


def check_state_is_fresh(kernel: Kernel[Any], target: GradLogDensity) -> None:
    """Hold what the state keeps of the target against the target at the position."""
    rng = np.random.default_rng(4)
    state = kernel.init(CORRELATED.sample(rng, 50))
    for _ in range(10):
        state, info = kernel(rng, state)
        log_density, gradient = target.log_density_gradient(state.position)
        assert np.allclose(state.log_density, log_density, rtol=1e-12)
        assert np.array_equal(info._asdict()["lp"], state.log_density)
        if hasattr(state, "gradient"):
            assert np.allclose(state.gradient, gradient, rtol=1e-12)


def check_chains_are_independent(kernel: Kernel[Any], target: ExactTarget) -> None:
    """Hold that chains accept one by one: their number is binomial, not one coin for all."""
    rng = np.random.default_rng(5)
    num_chains, num_steps = 500, 300
    state = kernel.init(target.sample(rng, num_chains))
    rates = np.empty(num_steps)
    for step in range(num_steps):
        state, info = kernel(rng, state)
        rates[step] = info._asdict()["accepted"].mean()
    binomial = rates.mean() * (1 - rates.mean()) / num_chains
    assert 0.1 < rates.mean() < 0.9
    assert rates.var() < 2 * binomial


def check_reversible(integrator: Integrator) -> None:
    """Run forwards, flip the momentum, run as far again: the start must be back, to 1e-10."""
    rng = np.random.default_rng(6)
    for target, mass in ((CORRELATED, CORRELATED_MASS), (SKEWED, SKEWED_MASS)):
        position = target.sample(rng, 20)
        begin = phase_point(target, position, mass.sample(rng, position.shape))
        end = trajectory(integrator, target, mass, begin, 0.1, 50)[-1]
        back = flip(trajectory(integrator, target, mass, flip(end), 0.1, 50)[-1])
        assert np.abs(back.position - begin.position).max() < 1e-10
        assert np.abs(back.momentum - begin.momentum).max() < 1e-10


def fitted_order(integrator: Integrator, error: Callable[[PhasePoint], float]) -> float:
    """Return the slope of log error against log step size, at time 1 on the skewed target."""
    begin = skewed_begin()
    num_steps = 2 ** np.arange(6, 11)
    errors = [
        error(trajectory(integrator, SKEWED, SKEWED_MASS, begin, 1 / steps, int(steps))[-1])
        for steps in num_steps
    ]
    return float(np.polyfit(-np.log(num_steps), np.log(errors), 1)[0])


def skewed_begin() -> PhasePoint:
    """Return where the paths on the skewed target start."""
    return phase_point(SKEWED, [[-1.0, 0.8]], [[0.7, -1.1]])


def global_error(point: PhasePoint) -> float:
    """Return the distance of `point` from where Hamilton's equations are at time 1."""
    begin = skewed_begin()

    def flow(_time: float, state: FloatArray) -> FloatArray:
        gradient = SKEWED.log_density_gradient(state[None, :2])[1][0]
        return np.concatenate([SKEWED_MASS.velocity(state[2:]), gradient])

    start = np.concatenate([begin.position[0], begin.momentum[0]])
    path = integrate.solve_ivp(flow, (0, 1), start, method="DOP853", rtol=1e-13, atol=1e-13)
    end = np.concatenate([point.position[0], point.momentum[0]])
    return float(np.linalg.norm(end - path.y[:, -1]))


def energy_error(point: PhasePoint) -> float:
    """Return |H(point) − H(start)|."""
    change = hamiltonian(SKEWED_MASS, point) - hamiltonian(SKEWED_MASS, skewed_begin())
    return float(np.abs(change)[0])


def check_order(integrator: Integrator, order: int) -> None:
    """Fit the orders of the global error and of the energy's: as said, ± 0.1."""
    assert abs(fitted_order(integrator, global_error) - order) < 0.1
    assert abs(fitted_order(integrator, energy_error) - order) < 0.1


def check_one_step_is_mala(hmc: HMC, mala: MALA, target: ExactTarget) -> None:
    """Hold HMC of one leapfrog step ε against MALA of ε², from the same random numbers."""
    position = target.sample(np.random.default_rng(7), 200)
    rngs = np.random.default_rng(8), np.random.default_rng(8)
    states = hmc.init(position), mala.init(position)
    num_accepted = 0
    for _ in range(20):
        one, one_info = hmc(rngs[0], states[0])
        two, two_info = mala(rngs[1], states[1])
        assert np.allclose(one.position, two.position, rtol=0, atol=1e-11)
        assert np.allclose(one_info.acceptance_rate, two_info.acceptance_rate, rtol=0, atol=1e-9)
        assert np.array_equal(one_info.accepted, two_info.accepted)
        num_accepted += one_info.accepted.sum()
        states = one, two
    assert 0.1 < num_accepted / (20 * 200) < 0.95


def check_mass(mass: Any, matrix: FloatArray) -> None:
    """Hold that momentum has covariance M, and that velocity is M⁻¹ p."""
    rng = np.random.default_rng(9)
    momentum = mass.sample(rng, (200_000, len(matrix)))
    scale = np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
    assert np.all(np.abs(np.cov(momentum.T) - matrix) < 5 * scale * np.sqrt(2 / 200_000))
    some = momentum[:5]
    assert np.allclose(mass.velocity(some), np.linalg.solve(matrix, some.T).T)
    assert np.allclose(mass.momentum(mass.velocity(some)), some)


def check_sgld_variance(make_kernel: Callable[[GradLogDensity, float], SGLD]) -> None:
    """Hold the variance on N(0, σ²), with full gradients, against σ² / (1 − ε/(4σ²))."""
    target = Gaussian([0.0], [[2.0]])
    num_chains = 100_000
    for step_size in (0.25, 1.0, 3.0):
        rng = np.random.default_rng(10)
        kernel = make_kernel(target, step_size)
        state = kernel.init(target.sample(rng, num_chains))
        # (1 − ε/(2σ²))² to this power forgets the start to 1e-6
        contraction = abs(1 - step_size / 4)
        for _ in range(int(np.ceil(np.log(1e-3) / np.log(contraction)))):
            state, _ = kernel(rng, state)
        expected = 2.0 / (1 - step_size / 8)
        assert abs(state.position.mean()) < 5 * np.sqrt(expected / num_chains)
        assert abs(state.position.var() - expected) < 5 * expected * np.sqrt(2 / num_chains)


def check_unbiased_gradient(make_gradient: Callable[[LinearRegression, int], Any]) -> None:
    """Hold the mini-batch gradient's mean, and the batch of everyone, against the full one."""
    rng = np.random.default_rng(11)
    theta = np.tile([-0.8, 1.7, -0.5], (50_000, 1))
    full = LINE.log_density_gradient(theta[:1])[1]
    estimates = make_gradient(LINE, 3)(rng, theta)
    error = estimates.std(axis=0) / np.sqrt(len(theta))
    assert np.all(np.abs(estimates.mean(axis=0) - full) < 5 * error)
    assert np.all(error > 0)
    assert np.allclose(make_gradient(LINE, LINE.num_obs)(rng, theta[:5]), full)


def check_finite_chain(make_matrix: Callable[[FloatArray, FloatArray], FloatArray]) -> None:
    """Hold that rows sum to 1, π P = π, and detailed balance is exact to 1e-14."""
    rng = np.random.default_rng(12)
    weights = rng.uniform(0.1, 3.0, 7)
    pi = weights / weights.sum()
    lopsided = rng.dirichlet(np.ones(7), size=7)
    for proposal in (ring_walk(7), lopsided):
        matrix = make_matrix(weights, proposal)
        assert np.all(matrix >= 0)
        assert np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-14)
        assert detailed_balance_error(matrix, pi) < 1e-14
        assert np.allclose(pi @ matrix, pi, rtol=0, atol=1e-14)


def check_uniform_in_disc(sample: Callable[[np.random.Generator, int], FloatArray]) -> None:
    """Hold that |x|² and the angle are uniform in the disc of radius 1."""
    x = sample(np.random.default_rng(13), 20_000)
    angle = np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) + 0.5
    for uniform in ((x**2).sum(axis=1), angle):
        assert stats.kstest(uniform, "uniform").pvalue > 1e-5
