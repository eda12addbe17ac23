"""The driver, and every refusal with its message."""

import numpy as np
import pytest

import pyflowers.samplers
from pyflowers.errors import ConfigError
from pyflowers.samplers import (
    HMC,
    MALA,
    SGLD,
    DecayingSteps,
    Gamma,
    GaussianStep,
    LinearRegression,
    Mass,
    Metropolis,
    MultiplicativeStep,
    NormalMixture,
    OneSidedStep,
    SignedStep,
    StandardNormal,
    UniformStep,
    ball_acceptance_rate,
    distributions,
    metropolis_matrix,
    phase_point,
    propose_in_cube,
    ring_walk,
    run,
    simulate,
    stationary_distribution,
    uniform_in_ball,
)

from .checks import CORRELATED

NORMAL = StandardNormal(2)
WALK = Metropolis(NORMAL, UniformStep(1.0))
RING = ring_walk(4)
RNG = np.random.default_rng(1)
START = np.zeros((3, 2))
X = [0.0, 1.0, 2.0, 3.0]
LINE = LinearRegression(X, [0, 1, 0, 1])


def test_shapes_and_names():
    result = run(HMC(CORRELATED, 0.3, 4), np.random.default_rng(2), START, 20)
    assert result.draws.shape == (3, 20, 2)
    assert list(result.sample_stats) == [
        *("lp", "acceptance_rate", "accepted", "energy", "energy_error", "diverging", "step_size"),
    ]
    assert all(values.shape == (3, 20) for values in result.sample_stats.values())
    assert result.sample_stats["diverging"].dtype == bool
    again = CORRELATED.log_density(result.draws.reshape(-1, 2)).reshape(3, 20)
    assert np.allclose(result.sample_stats["lp"], again)


def test_a_run_goes_on_and_warmup_is_thrown_away():
    start = np.zeros((4, 2))
    whole = run(WALK, np.random.default_rng(4), start, 20).draws
    late = run(WALK, np.random.default_rng(4), start, 8, num_warmup=12)
    assert np.array_equal(whole[:, 12:], late.draws)
    rng = np.random.default_rng(4)
    first = run(WALK, rng, start, 12)
    second = run(WALK, rng, first.state.position, 8)
    assert np.array_equal(whole, np.concatenate([first.draws, second.draws], axis=1))


def test_a_kernel_changes_nothing_it_was_given():
    for kernel in (HMC(CORRELATED, 0.3, 4), WALK):
        state = kernel.init(START)
        before = [np.copy(part) for part in state]
        kernel(np.random.default_rng(5), state)
        assert all(map(np.array_equal, before, state))
    assert np.all(START == 0)


def test_all_is_what_there_is():
    names = pyflowers.samplers.__all__
    from_modules = {
        name
        for name, value in vars(pyflowers.samplers).items()
        if not name.startswith("_") and not isinstance(value, type(np))
    }
    assert len(names) == len(set(names))
    assert from_modules == set(names)


class Column:
    """A target that returns its log density as a column, and its gradient flattened."""

    def log_density(self, x):
        return -0.5 * (x**2).sum(axis=-1, keepdims=True)

    def log_density_gradient(self, x):
        return -0.5 * (x**2).sum(axis=-1), -x.ravel()


def walk(scale, start, dim=2):
    run(Metropolis(StandardNormal(dim), GaussianStep(scale)), np.random.default_rng(1), start, 1)


ERRORS = [
    (lambda: HMC(NORMAL, -1, 3), "step_size must be positive, got -1"),
    (lambda: HMC(NORMAL, float("nan"), 3), "step_size must be finite, got nan"),
    (lambda: HMC(NORMAL, "0.1", 3), "step_size must be a number, got '0.1'"),
    (lambda: HMC(NORMAL, [0.1, 0.2], 3), r"must be a number, got an array of shape \(2,\)"),
    (lambda: HMC(NORMAL, 0.1, 0), "num_steps must be a whole number of at least 1, got 0"),
    (lambda: HMC(NORMAL, 0.1, 2.5), "num_steps must be a whole number of at least 1, got 2.5"),
    (lambda: HMC(NORMAL, 0.1, 2, jitter=1), "jitter must be at least 0 and less than 1, got 1"),
    (lambda: MALA(NORMAL, 0), "step_size must be positive, got 0"),
    (lambda: SGLD(NORMAL, 0.0), "step_size must be positive, got 0"),
    (lambda: SGLD(LINE, 0.1, 0), "batch_size must be a whole number of at least 1, got 0"),
    (lambda: SGLD(LINE, 0.1, 5), "batch_size must be at most 4, the number of observations, got 5"),
    (lambda: SGLD(NORMAL, 0.1, 5), "batch_size is 5, but StandardNormal does not support"),
    (lambda: DecayingSteps(0.0), "a must be positive, got 0"),
    (lambda: DecayingSteps(0.1, -1.0), "b must be positive, got -1"),
    (lambda: DecayingSteps(0.1, 1.0, 0.5), "gamma must be above 0.5 and at most 1, got 0.5"),
    (lambda: DecayingSteps(0.1, 1.0, 1.1), "gamma must be above 0.5 and at most 1, got 1.1"),
    (lambda: GaussianStep(0.0), "scale must be positive, got 0.0"),
    (lambda: UniformStep(-2.0), "scale must be positive, got -2"),
    (lambda: OneSidedStep(np.inf), "scale must be finite, got inf"),
    (lambda: Gamma(-1.0), "shape must be positive, got -1"),
    (lambda: GaussianStep([]), "scale must not be empty"),
    (lambda: GaussianStep([[1.0], [2.0, 3.0]]), "scale must be a number or an array of numbers"),
    (lambda: GaussianStep([[1.0, 0.5], [0.5, 1.0]]), "give the Cholesky factor of a covariance"),
    (lambda: GaussianStep([[1.0, 0.0], [0.5, 0.0]]), "scale must be positive"),
    (lambda: GaussianStep([[1.0, 0.0]]), "a vector or a lower-triangular matrix"),
    (lambda: SignedStep(np.inf), "scale must be finite, got inf"),
    (lambda: MultiplicativeStep(0.0), "scale must be positive, got 0"),
    (lambda: Mass([1.0, 0.0]), "mass must be positive, got 0.0"),
    (lambda: Mass([[1.0, 2.0]]), "mass must be a number, a vector or a symmetric matrix"),
    (lambda: Mass([[1.0, 0.1], [0.0, 1.0]]), "mass must be a number, a vector or a symmetric"),
    (lambda: Mass([[1.0, 2.0], [2.0, 1.0]]), "mass must be positive definite"),
    (lambda: StandardNormal(0), "dim must be a whole number of at least 1, got 0"),
    (lambda: NormalMixture([0.5, 0.4], [0, 1], [1, 1]), "weights must sum to 1, but sum to 0.9"),
    (lambda: NormalMixture([1.0], [0, 1], [1, 1]), "the same length, but have 1, 2 and 2"),
    (lambda: NormalMixture([1.0], [0], [0]), "sds must be positive, got 0"),
    (lambda: Gamma([1.0, 2.0], [1.0, 2.0, 3.0]), r"their shapes were \(2,\) and \(3,\)"),
    (lambda: Gamma(1.0, [1.0, 2.0]), r"their shapes were \(\) and \(2,\)"),
    (lambda: LinearRegression(X, X[:3]), "x and y must have the same length, but have 4 and 3"),
    (lambda: LinearRegression([X], X), r"x must be a vector, got an array of shape \(1, 4\)"),
    (lambda: LinearRegression(X[:3], X[:3], "sigma"), "at least 4 points for a proper posterior"),
    (lambda: LinearRegression(np.ones(4), X), "x must vary for a slope to exist, but all x are"),
    (lambda: LinearRegression(X, X), "the points must not lie exactly on a line"),
    (lambda: LinearRegression(X, X, "tau"), "flat_in must be 'log_sigma' or 'sigma', got 'tau'"),
    (lambda: LINE.marginal("log_sigma"), "name must be 'alpha' or 'beta', got 'log_sigma'"),
    (lambda: WALK.init(np.zeros(2)), r"position must be shaped \(chain, dim\)"),
    (lambda: WALK.init(np.zeros((3, 4))), r"position must have .* as the target \(2\)"),
    (lambda: WALK.init([[np.inf, 0.0]]), "position must be finite, got inf"),
    (lambda: HMC(NORMAL, 0.1, 1, Mass([1.0, 2.0, 3.0])).init(START), r"mass must have .* \(2\)"),
    (lambda: MALA(NORMAL, 0.1, Mass(np.eye(3))).init(START), r"mass must have .* \(2\)"),
    (
        lambda: Metropolis(Gamma(1.0), UniformStep(1.0)).init([[1.0], [-1.0]]),
        "chain 1 starts",
    ),
    (lambda: Metropolis(Column(), UniformStep(1.0)).init(START), r"an array of shape \(3,\)"),
    (lambda: HMC(Column(), 0.1, 1).init(START), r"must return a gradient of shape \(3, 2\)"),
    (lambda: SGLD(NORMAL, 0.1).init([0.0]), "position must be shaped"),
    (lambda: phase_point(NORMAL, START, START[:1]), r"have the position's shape, \(3, 2\)"),
    (lambda: run(WALK, 1, START, 1), r"such as np\.random\.default_rng\(1\), got 1"),
    (lambda: walk([1, 2, 3], START), r"scale must have .* the position \(2\), got 3"),
    (lambda: walk(np.eye(3), START), r"scale must have .* the position \(2\), got 3"),
    (lambda: walk([1, 2, 3], START[:, :1], 1), r"scale must have .* the position \(1\), got 3"),
    (lambda: run(WALK, RNG, START, 0), "num_draws must be a whole number of at least 1, got 0"),
    (lambda: run(WALK, RNG, START, 1, -1), "num_warmup must be a whole number of at least 0"),
    (lambda: ball_acceptance_rate(0), "dim must be a whole number of at least 1, got 0"),
    (lambda: propose_in_cube(RNG, 0), "num_proposals must be a whole number of at least 1"),
    (lambda: propose_in_cube(RNG, 9, radius=0), "radius must be positive, got 0"),
    (lambda: uniform_in_ball(RNG, 9, dim=40), "dim must be smaller for 9 draws: the 40-ball"),
    (lambda: ring_walk(2), "num_states must be a whole number of at least 3, got 2"),
    (lambda: metropolis_matrix([1, 0, 1, 1], RING), "weights must be positive, got 0"),
    (lambda: metropolis_matrix([1, 1, 1], RING), "the same number of states, but have 4 and 3"),
    (lambda: metropolis_matrix([1, 1], [[1, 0], [1, 1]]), "row 1 sums to 2.0"),
    (lambda: stationary_distribution([[2, -1], [0, 1]]), "must hold probabilities"),
    (lambda: stationary_distribution([[1.0, 0.0]]), "matrix must be a square matrix"),
    (lambda: stationary_distribution(np.eye(2)), "more than one closed set of states"),
    (lambda: distributions(RING, [1, 0], 3), "have the same number of states, but have 2 and 4"),
    (lambda: distributions(RING, [1, 0, 0, 1], 3), "initial must sum to 1, but"),
    (lambda: simulate(RNG, RING, [4], 3), "start must hold states from 0 to 3"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_refusal(wrong, message):
    with pytest.raises(ConfigError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)
