"""Every refusal: what was wrong, and the sentence that says so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyflowers.errors import ConfigError
from pyflowers.samplers import (
    HMC,
    MALA,
    SGLD,
    AutoregressiveStep,
    ConstantSteps,
    DecayingSteps,
    DenseMass,
    DiagonalMass,
    FullGradient,
    Gamma,
    Gaussian,
    GaussianStep,
    LinearRegression,
    Metropolis,
    MinibatchGradient,
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
from pyflowers.samplers.densities import FloatArray

NORMAL = StandardNormal(2)
WALK = Metropolis(NORMAL, UniformStep(1.0))
RING = ring_walk(4)
RNG = np.random.default_rng(1)
START = np.zeros((3, 2))


class _Column:
    """Returns its log density as a column, and its gradient flat."""

    def log_density(self, x: FloatArray, /) -> FloatArray:
        return np.asarray(-0.5 * (x**2).sum(axis=-1, keepdims=True))

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        return -0.5 * (x**2).sum(axis=-1), -x.ravel()


X = [0.0, 1.0, 2.0, 3.0]
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: HMC(NORMAL, -1, 3), "step_size must be positive and finite, was -1"),
    (lambda: HMC(NORMAL, float("nan"), 3), "step_size must be positive and finite, was nan"),
    (lambda: HMC(NORMAL, 0.1, 0), "num_steps must be a whole number of at least 1, was 0"),
    (lambda: HMC(NORMAL, 0.1, 2.5), "num_steps must be a whole number of at least 1, was 2.5"),
    (lambda: HMC(NORMAL, 0.1, 2, jitter=1), "jitter must be at least 0 and less than 1, was 1"),
    (lambda: MALA(NORMAL, 0), "step_size must be positive and finite, was 0"),
    (lambda: ConstantSteps(0.0), "step_size must be positive and finite, was 0.0"),
    (lambda: DecayingSteps(0.0), "a must be positive and finite, was 0.0"),
    (lambda: DecayingSteps(1.0, -1.0), "b must be positive and finite, was -1.0"),
    (lambda: DecayingSteps(1.0, gamma=0.5), "gamma must be above 0.5 and at most 1, was 0.5"),
    (lambda: GaussianStep(0.0), "scale must be positive and finite, its smallest was 0.0"),
    (lambda: GaussianStep([]), "scale must not be empty"),
    (lambda: GaussianStep([[1.0, 0.5], [0.5, 1.0]]), "give the Cholesky factor of a covariance"),
    (lambda: GaussianStep([[1.0, 0.0], [0.5, 0.0]]), "scale's diagonal must be positive"),
    (lambda: UniformStep(-2.0), "scale must be positive and finite, was -2.0"),
    (lambda: SignedStep(0.0), "scale must be positive and finite, was 0.0"),
    (lambda: OneSidedStep(np.inf), "scale must be positive and finite, was inf"),
    (lambda: MultiplicativeStep(0.0), "scale must be positive and finite, was 0.0"),
    (lambda: AutoregressiveStep(1.0, 1.0), "rho must be at least 0 and less than 1, was 1.0"),
    (lambda: DiagonalMass([1.0, 0.0]), "diagonal must be positive and finite, its smallest was 0"),
    (lambda: DiagonalMass([[1.0]]), r"diagonal must be a vector, but its shape was \(1, 1\)"),
    (lambda: DenseMass([1.0]), r"matrix must be a square matrix, but its shape was \(1,\)"),
    (lambda: DenseMass([[1.0, 0.1], [0.0, 1.0]]), "matrix must be symmetric"),
    (lambda: DenseMass([[1.0, 2.0], [2.0, 1.0]]), "matrix must be positive definite"),
    (lambda: StandardNormal(0), "dim must be a whole number of at least 1, was 0"),
    (lambda: Gaussian([0.0], np.eye(2)), r"covariance must be shaped \(1, 1\)"),
    (lambda: Gaussian([np.nan], np.eye(1)), "mean must be finite, but holds nan"),
    (lambda: NormalMixture([0.5, 0.4], [0, 1], [1, 1]), "weights must sum to 1, but sum to 0.9"),
    (lambda: NormalMixture([1.0], [0, 1], [1, 1]), "of one length, but have 1, 2 and 2"),
    (lambda: NormalMixture([1.0], [0], [0]), "sds must be positive and finite"),
    (lambda: Gamma(-1.0), "shape must be positive and finite, its smallest was -1.0"),
    (lambda: Gamma([1.0, 2.0], [1.0, 2.0, 3.0]), r"their shapes were \(2,\) and \(3,\)"),
    (lambda: LinearRegression(X, X[:3]), "x and y must be of one length, but have 4 and 3"),
    (lambda: LinearRegression(X[:2], X[:2]), "at least 3 points for a proper posterior"),
    (lambda: LinearRegression(X[:3], X[:3], "sigma"), "at least 4 points for a proper posterior"),
    (lambda: LinearRegression(np.ones(4), X), "x must vary for a slope to exist, but all of it"),
    (lambda: LinearRegression(X, X), "y must not be on a line exactly"),
    (lambda: LinearRegression(X, X, "tau"), "flat_in must be 'log_sigma' or 'sigma', was 'tau'"),
    (
        lambda: LinearRegression(X, [0, 1, 0, 1]).marginal("log_sigma"),
        "name must be 'alpha' or 'beta', was 'log_sigma'",
    ),
    (
        lambda: MinibatchGradient(LinearRegression(X, [0, 1, 0, 1]), 0),
        "batch_size must be a whole number of at least 1, was 0",
    ),
    (lambda: WALK.init(np.zeros(2)), r"position must be shaped \(chain, dim\)"),
    (lambda: WALK.init(np.zeros((3, 4))), "position must have 2 coordinates as the target has"),
    (
        lambda: HMC(NORMAL, 0.1, 1, DiagonalMass([1.0, 2.0, 3.0])).init(START),
        "mass must be of 2 coordinates as the position is",
    ),
    (lambda: MALA(NORMAL, 0.1, DenseMass(np.eye(3))).init(START), "mass must be of 2 coordinates"),
    (lambda: WALK.init([[np.inf, 0.0]]), "position must be finite, but holds inf"),
    (
        lambda: Metropolis(Gamma([1.0, 1.0]), UniformStep(1.0)).init([[1.0, 1.0], [1.0, -1.0]]),
        "chain 1 starts where the log density is -inf",
    ),
    (
        lambda: Metropolis(_Column(), UniformStep(1.0)).init(START),
        "wrap a target of one point at a time in OneAtATime",
    ),
    (lambda: HMC(_Column(), 0.1, 1).init(START), r"must return a gradient of shape \(3, 2\)"),
    (lambda: SGLD(FullGradient(NORMAL), ConstantSteps(0.1)).init([0.0]), "position must be shaped"),
    (lambda: phase_point(NORMAL, START, START[:1]), r"momentum must be shaped \(3, 2\)"),
    (lambda: run(WALK, RNG, START, 0), "num_draws must be a whole number of at least 1, was 0"),
    (lambda: run(WALK, RNG, START, 1, -1), "num_warmup must be a whole number of at least 0"),
    (
        lambda: run(WALK, RNG, START, 1).posterior(["a"]),
        r"names must be 2 different names, was \['a'\]",
    ),
    (lambda: ball_acceptance_rate(0), "dim must be a whole number of at least 1, was 0"),
    (lambda: propose_in_cube(RNG, 0), "num_proposals must be a whole number of at least 1"),
    (lambda: propose_in_cube(RNG, 9, radius=0), "radius must be positive and finite, was 0"),
    (lambda: uniform_in_ball(RNG, 9, dim=40), "dim must be smaller for 9 draws: the 40-ball"),
    (lambda: ring_walk(2), "num_states must be a whole number of at least 3, was 2"),
    (lambda: metropolis_matrix([1, 0, 1, 1], RING), "weights must be positive and finite"),
    (lambda: metropolis_matrix([1, 1, 1], RING), "proposal must have 3 states as weights do"),
    (lambda: metropolis_matrix([1, 1], [[1, 0], [1, 1]]), "row 1 sums to 2.0"),
    (lambda: stationary_distribution([[2, -1], [0, 1]]), "must hold probabilities"),
    (lambda: stationary_distribution([[1.0, 0.0]]), "matrix must be a square matrix"),
    (lambda: stationary_distribution(np.eye(2)), "some of its states never reach each other"),
    (lambda: distributions(RING, [1, 0], 3), "initial must be 4 probabilities that sum to 1"),
    (lambda: simulate(RNG, RING, [4], 3), "start must be a vector of states from 0 to 3"),
]


@pytest.mark.parametrize(("wrong", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_refusal(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)
