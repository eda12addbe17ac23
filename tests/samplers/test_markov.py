"""Finite chains: detailed balance, the limit, and how fast."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.samplers import (
    convergence_rate,
    detailed_balance_error,
    distributions,
    metropolis_matrix,
    ring_walk,
    simulate,
    stationary_distribution,
    total_variation,
)

from .checks import check_finite_chain

WEIGHTS = np.array([1.0, 4.0, 2.0, 0.5, 3.0, 1.5])
PI = WEIGHTS / WEIGHTS.sum()
MATRIX = metropolis_matrix(WEIGHTS, ring_walk(6))


def test_detailed_balance() -> None:
    check_finite_chain(metropolis_matrix)


def test_by_hand() -> None:
    """Three states on a ring, weights 1, 2, 4."""
    expected = [[0, 1 / 2, 1 / 2], [1 / 4, 1 / 4, 1 / 2], [1 / 8, 1 / 4, 5 / 8]]
    assert np.allclose(metropolis_matrix([1, 2, 4], ring_walk(3)), expected, atol=1e-15)


def test_detailed_balance_error_sees_a_circle() -> None:
    """Going round keeps the uniform distribution, and is not reversible."""
    around = np.roll(np.eye(4), 1, axis=1)
    assert np.allclose(np.full(4, 0.25) @ around, 0.25)
    assert detailed_balance_error(around, np.full(4, 0.25)) == 0.25


def test_stationary_distribution_is_the_target() -> None:
    assert np.allclose(stationary_distribution(MATRIX), PI, rtol=0, atol=1e-13)


@pytest.mark.parametrize("start", range(6))
def test_convergence_from_any_start(start: int) -> None:
    """Within Diaconis and Stroock's bound at every step, and to the limit at last."""
    history = distributions(MATRIX, np.eye(6)[start], 300)
    distance = total_variation(history, PI)
    bound = 0.5 * np.sqrt((1 - PI[start]) / PI[start]) * convergence_rate(MATRIX) ** np.arange(301)
    assert np.all(distance <= bound + 1e-14)
    assert distance[0] == pytest.approx(1 - PI[start])
    assert distance[-1] < 1e-8


def test_equal_weights_on_an_even_ring_alternate_for_ever() -> None:
    """Nothing is ever rejected, so the chain knows odd steps from even: no convergence."""
    matrix = metropolis_matrix(np.ones(6), ring_walk(6))
    assert convergence_rate(matrix) == pytest.approx(1)
    history = distributions(matrix, np.eye(6)[0], 400)
    assert total_variation(history[-1], np.full(6, 1 / 6)) == pytest.approx(0.5)


def test_simulation_visits_states_as_the_distribution_says() -> None:
    chains = simulate(np.random.default_rng(1), MATRIX, np.zeros(40_000, dtype=int), 5)
    assert chains.shape == (40_000, 5)
    expected = distributions(MATRIX, np.eye(6)[0], 5)
    for step in (1, 5):
        possible = expected[step] > 0
        counts = np.bincount(chains[:, step - 1], minlength=6)
        assert counts[~possible].sum() == 0
        p_value = stats.chisquare(counts[possible], 40_000 * expected[step][possible]).pvalue
        assert p_value > 1e-5
