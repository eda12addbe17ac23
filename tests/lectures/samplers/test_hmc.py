"""Integrators, mass, Hamiltonian Monte Carlo and MALA; exactness is in test_exactness.py."""

import numpy as np
import pytest
from scipy import integrate

from pyflowers.samplers import (
    HMC,
    INTEGRATORS,
    MALA,
    ORDERS,
    Mass,
    PhasePoint,
    StandardNormal,
    euler,
    flip,
    hamiltonian,
    leapfrog,
    modified_euler,
    phase_point,
    run,
    trajectory,
)

from .checks import (
    CORRELATED,
    CORRELATED_MASS,
    SKEWED,
    SKEWED_MASS,
    FullDrift,
    check_chains_are_independent,
    check_state_is_fresh,
)
from .test_exactness import leapfrog_without_second_half

OSCILLATOR, UNIT = StandardNormal(), Mass()
BEGIN = phase_point(SKEWED, [[-1.0, 0.8]], [[0.7, -1.1]])
MATRIX = np.array([[2.0, 0.9], [0.9, 1.0]])


def leapfrog_with_a_full_kick(target, mass, point, step_size):
    """Make a full kick instead of half a kick."""
    kicked = point.momentum + 0.5 * step_size * point.gradient
    return leapfrog(target, mass, point._replace(momentum=kicked), step_size)


def global_error(point):
    """Return the distance of `point` from the solution of Hamilton's equations at time 1."""

    def flow(_time, state):
        gradient = SKEWED.log_density_gradient(state[None, :2])[1][0]
        return np.concatenate([SKEWED_MASS.velocity(state[2:]), gradient])

    start = np.concatenate([BEGIN.position[0], BEGIN.momentum[0]])
    path = integrate.solve_ivp(flow, (0, 1), start, method="DOP853", rtol=1e-13, atol=1e-13)
    end = np.concatenate([point.position[0], point.momentum[0]])
    return float(np.linalg.norm(end - path.y[:, -1]))


def energy_error(point):
    return abs(hamiltonian(SKEWED_MASS, point) - hamiltonian(SKEWED_MASS, BEGIN)).item()


def has_order(integrator, order):
    """Return whether both slopes of log error on log step size are within 0.1 of the order."""
    num_steps = 2 ** np.arange(6, 11)
    ends = [
        trajectory(integrator, SKEWED, SKEWED_MASS, BEGIN, 1 / steps, int(steps))[-1]
        for steps in num_steps
    ]
    fitted = [
        np.polyfit(-np.log(num_steps), np.log([error(end) for end in ends]), 1)[0]
        for error in (global_error, energy_error)
    ]
    return bool(np.allclose(fitted, order, rtol=0, atol=0.1))


@pytest.mark.parametrize(
    ("integrator", "order", "right"),
    [
        *((INTEGRATORS[name], ORDERS[name], True) for name in INTEGRATORS),
        (leapfrog_without_second_half, 2, False),
        (leapfrog_with_a_full_kick, 2, False),
    ],
)
def test_order_as_fitted(integrator, order, right):
    assert has_order(integrator, order) is right


@pytest.mark.parametrize(
    "integrator", [leapfrog, euler, modified_euler, leapfrog_without_second_half]
)
def test_reversibility(integrator):
    """Running forwards, flipping the momentum and running back returns to the start to 1e-10."""
    rng = np.random.default_rng(6)
    missed = 0.0
    for target, mass in ((CORRELATED, CORRELATED_MASS), (SKEWED, SKEWED_MASS)):
        position = target.sample(rng, 20)
        begin = phase_point(target, position, mass.sample(rng, position.shape))
        end = trajectory(integrator, target, mass, begin, 0.1, 50)[-1]
        back = flip(trajectory(integrator, target, mass, flip(end), 0.1, 50)[-1])
        missed = max(missed, np.abs(back.position - begin.position).max())
        missed = max(missed, np.abs(back.momentum - begin.momentum).max())
    assert (missed < 1e-10) == (integrator is leapfrog)


@pytest.mark.parametrize(
    ("integrator", "keeps"), [(euler, False), (modified_euler, True), (leapfrog, True)]
)
def test_volume(integrator, keeps):
    """∂(q′, p′)/∂(q, p) of one step, by central differences, has determinant 1."""
    start = np.concatenate([BEGIN.position[0], BEGIN.momentum[0]])

    def end(direction):
        state = start + 1e-5 * direction
        point = phase_point(SKEWED, state[None, :2], state[None, 2:])
        moved = integrator(SKEWED, SKEWED_MASS, point, 0.3)
        return np.concatenate([moved.position[0], moved.momentum[0]])

    jacobian = np.array([(end(row) - end(-row)) / 2e-5 for row in np.eye(4)])
    change = abs(np.linalg.det(jacobian) - 1)
    assert change < 1e-8 if keeps else change > 0.01


def test_euler_gains_energy_by_its_factor():
    """On N(0, 1), q² + p² grows by 1 + ε² in every step."""
    path = trajectory(euler, OSCILLATOR, UNIT, phase_point(OSCILLATOR, [[1]], [[0]]), 0.3, 9)
    energies = [(point.position**2 + point.momentum**2).item() for point in path]
    assert np.allclose(energies, 1.09 ** np.arange(10))


@pytest.mark.parametrize(
    ("integrator", "error"), [(euler, np.inf), (modified_euler, 0.3), (leapfrog, 0.05)]
)
def test_energy_over_a_long_path(integrator, error):
    """Euler's error grows beyond every bound; the other two errors oscillate without drift."""
    begin = phase_point(OSCILLATOR, [[1.0]], [[1.0]])
    path = trajectory(integrator, OSCILLATOR, UNIT, begin, 0.3, 5_000)
    energy = np.array([hamiltonian(UNIT, point)[0] for point in path])
    change = np.abs(energy - energy[0])
    if np.isinf(error):
        assert not change[-1] < 1e6
    else:
        assert change.max() < error
        assert np.isclose(change[:1_000].max(), change[-1_000:].max(), rtol=0.01)


def test_leapfrog_keeps_the_oscillators_modified_energy():
    """On N(0, 1), p² + q² (1 − ε²/4) is conserved exactly."""
    begin = phase_point(OSCILLATOR, [[1.0]], [[0.4]])
    path = trajectory(leapfrog, OSCILLATOR, UNIT, begin, 0.9, 50)
    kept = [(point.momentum**2 + point.position**2 * (1 - 0.9**2 / 4)).item() for point in path]
    assert np.allclose(kept, kept[0], rtol=1e-12)


def test_a_step_size_for_each_chain():
    begin = phase_point(OSCILLATOR, [[1.0], [1.0]], [[0.4], [0.4]])
    both = leapfrog(OSCILLATOR, UNIT, begin, np.array([[0.1], [0.7]]))
    for chain, step_size in enumerate((0.1, 0.7)):
        alone = leapfrog(OSCILLATOR, UNIT, begin, step_size)
        assert np.array_equal(both.position[chain], alone.position[chain])
        assert np.array_equal(both.momentum[chain], alone.momentum[chain])


@pytest.mark.parametrize(
    ("mass", "matrix"),
    [(UNIT, np.eye(2)), (Mass([2.0, 0.5]), np.diag([2.0, 0.5])), (Mass(MATRIX), MATRIX)],
)
def test_mass(mass, matrix):
    momentum = mass.sample(np.random.default_rng(9), (200_000, 2))
    scale = np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
    error = 5 * scale * np.sqrt(2 / 200_000)
    assert np.all(np.abs(np.cov(momentum.T) - matrix) < error)
    assert not np.all(np.abs(np.cov(momentum.T) - 1.1 * matrix) < error)
    some = momentum[:5]
    velocity = np.linalg.solve(matrix, some.T).T
    assert np.allclose(mass.velocity(some), velocity)
    assert np.allclose(mass.momentum(velocity), some)
    assert np.allclose(mass.kinetic_energy(some), 0.5 * (some * velocity).sum(axis=1))


@pytest.mark.parametrize(
    ("num_steps", "mala", "same"),
    [
        (1, MALA(SKEWED, 0.8**2), True),
        (1, MALA(SKEWED, 0.8**2, SKEWED_MASS), True),
        (1, MALA(SKEWED, 0.8**2, Mass([[1.0, 0.4], [0.4, 2.0]])), True),
        (2, MALA(SKEWED, 0.8**2), False),
        (1, MALA(SKEWED, 0.8), False),
        (1, FullDrift(SKEWED, 0.8**2), False),
    ],
)
def test_one_step_is_mala(num_steps, mala, same):
    """HMC with one leapfrog step ε is MALA with ε², for the same random numbers."""
    hmc = HMC(SKEWED, 0.8, num_steps, mala.mass)
    position = SKEWED.sample(np.random.default_rng(7), 200)
    one, two = (run(kernel, np.random.default_rng(8), position, 20) for kernel in (hmc, mala))
    assert np.allclose(one.draws, two.draws, rtol=0, atol=1e-10) is same
    rates = [result.sample_stats["acceptance_rate"] for result in (one, two)]
    assert np.allclose(*rates, rtol=0, atol=1e-9) is same
    assert 0.1 < one.sample_stats["accepted"].mean() < 0.98


def test_malas_first_proposal_has_the_drift_and_the_variance():
    """All tiny steps are accepted, so the moves have the distribution of the proposal."""
    step_size = 1e-6
    start = np.tile([0.5, -1.0], (200_000, 1))
    kernel = MALA(SKEWED, step_size)
    moved, info = kernel(np.random.default_rng(1), kernel.init(start))
    moves = moved.position - start
    assert info.acceptance_rate.min() > 0.999
    assert np.allclose(moves.var(axis=0), step_size, rtol=0.02)
    drift = 0.5 * step_size * kernel.init(start).gradient[0]
    assert np.all(np.abs(moves.mean(axis=0) - drift) < 5 * np.sqrt(step_size / len(start)))


def test_the_proposal_is_its_own_inverse():
    """With the momentum flipped at the end, proposing twice returns to the start."""
    hmc = HMC(SKEWED, 0.3, 12, SKEWED_MASS)
    back = hmc.propose(hmc.propose(BEGIN, 0.3), 0.3)
    assert np.allclose(back.position, BEGIN.position, rtol=0, atol=1e-12)
    assert np.allclose(back.momentum, BEGIN.momentum, rtol=0, atol=1e-12)


def test_mass_of_the_precision_is_unit_mass_on_the_round_target():
    """Neal (2011), section 5.4.1: q = L z turns M = Σ⁻¹ into I, so paths agree."""
    factor = np.linalg.cholesky(CORRELATED.covariance)
    z, momentum = np.array([[0.3, -1.0]]), np.array([[1.1, 0.2]])
    normal = StandardNormal(2)
    round_end = HMC(normal, 0.4, 7).propose(phase_point(normal, z, momentum), 0.4)
    begin = phase_point(
        CORRELATED, CORRELATED.mean + z @ factor.T, np.linalg.solve(factor.T, momentum.T).T
    )
    precision = Mass(np.linalg.inv(CORRELATED.covariance))
    end = HMC(CORRELATED, 0.4, 7, precision).propose(begin, 0.4)
    assert np.allclose(end.position, CORRELATED.mean + round_end.position @ factor.T)


class StaleGradient(HMC):
    """The state moves, but its gradient does not."""

    def __call__(self, rng, state):
        moved, info = super().__call__(rng, state)
        return moved._replace(gradient=state.gradient), info


def test_state_is_fresh_and_chains_are_independent():
    for kernel in (HMC(CORRELATED, 0.75, 3), MALA(CORRELATED, 0.6)):
        check_state_is_fresh(kernel, CORRELATED)
        check_chains_are_independent(kernel, CORRELATED)
    with pytest.raises(AssertionError):
        check_state_is_fresh(StaleGradient(CORRELATED, 0.75, 3), CORRELATED)


def test_jitter_draws_a_step_size_for_each_chain():
    start = np.zeros((1_000, 2))
    jittered, fixed = (
        run(HMC(CORRELATED, 0.2, 2, jitter=jitter), np.random.default_rng(1), start, 5)
        for jitter in (0.5, 0.0)
    )
    steps = jittered.sample_stats["step_size"]
    assert 0.1 <= steps.min() <= steps.max() <= 0.3
    assert abs(steps.mean() - 0.2) < 5 * 0.1 / np.sqrt(3 * steps.size)
    assert np.all(fixed.sample_stats["step_size"] == 0.2)


def test_energy_is_that_of_the_point_it_ended_at():
    hmc = HMC(CORRELATED, 0.6, 3, CORRELATED_MASS)
    state = hmc.init(CORRELATED.sample(np.random.default_rng(2), 500))
    moved, info = hmc(np.random.default_rng(3), state)
    momentum = CORRELATED_MASS.sample(np.random.default_rng(3), state.position.shape)
    begin = PhasePoint(state.position, momentum, state.log_density, state.gradient)
    kinetic = 0.5 * (momentum * CORRELATED_MASS.velocity(momentum)).sum(axis=1)
    energy = kinetic - begin.log_density
    assert np.allclose(info.energy, np.where(info.accepted, energy + info.energy_error, energy))
    assert np.allclose(info.acceptance_rate, np.minimum(1, np.exp(-info.energy_error)))
    assert np.array_equal(info.lp, moved.log_density)


@pytest.mark.parametrize("kernel", [HMC(SKEWED, 50.0, 10), MALA(SKEWED, 1e8)])
def test_a_step_too_long_is_rejected_without_a_warning(kernel):
    result = run(kernel, np.random.default_rng(4), np.zeros((20, 2)), 5)
    assert not result.sample_stats["accepted"].any()
    assert np.all(result.sample_stats["acceptance_rate"] == 0)
    assert np.all(result.draws == 0)
    assert np.all(result.sample_stats.get("diverging", True))
