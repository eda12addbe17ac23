"""Finite chains: detailed balance, the limit, and the rate of convergence."""

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

WEIGHTS = np.array([1.0, 4.0, 2.0, 0.5, 3.0, 1.5])
PI = WEIGHTS / WEIGHTS.sum()
MATRIX = metropolis_matrix(WEIGHTS, ring_walk(6))


def of_symmetric_metropolis(weights, proposal):
    """Accept with min(1, π_j/π_i), whether or not the proposal is symmetric."""
    matrix = proposal * np.minimum(1, weights[None, :] / weights[:, None])
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix


def upside_down(weights, proposal):
    """Accept with min(1, π_i/π_j)."""
    return metropolis_matrix(1 / weights, proposal)


def without_staying(weights, proposal):
    """Spread a rejected move over the other states, instead of counting the state again."""
    matrix = metropolis_matrix(weights, proposal)
    np.fill_diagonal(matrix, 0)
    return matrix / matrix.sum(axis=1, keepdims=True)


def is_right(make_matrix):
    """Whether rows sum to 1, π P = π, and detailed balance holds to 1e-14."""
    matrices = [
        make_matrix(WEIGHTS, proposal)
        for proposal in (ring_walk(6), np.random.default_rng(12).dirichlet(np.ones(6), size=6))
    ]
    return all(
        np.all(matrix >= 0)
        and np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-14)
        and detailed_balance_error(matrix, PI) < 1e-14
        and np.allclose(PI @ matrix, PI, rtol=0, atol=1e-14)
        for matrix in matrices
    )


def test_detailed_balance():
    assert is_right(metropolis_matrix)
    assert not any(map(is_right, (of_symmetric_metropolis, upside_down, without_staying)))


def test_by_hand():
    """Three states on a ring, weights 1, 2, 4."""
    expected = [[0, 1 / 2, 1 / 2], [1 / 4, 1 / 4, 1 / 2], [1 / 8, 1 / 4, 5 / 8]]
    assert np.allclose(metropolis_matrix([1, 2, 4], ring_walk(3)), expected, atol=1e-15)


def test_detailed_balance_error_sees_a_circle():
    """Moving round a circle preserves the uniform distribution, but is not reversible."""
    around = np.roll(np.eye(4), 1, axis=1)
    assert np.allclose(np.full(4, 0.25) @ around, 0.25)
    assert detailed_balance_error(around, np.full(4, 0.25)) == 0.25


def test_stationary_distribution_is_the_target():
    assert np.allclose(stationary_distribution(MATRIX), PI, rtol=0, atol=1e-13)


@pytest.mark.parametrize("start", range(6))
def test_convergence_from_any_start(start):
    """The distance is within Diaconis and Stroock's bound at every step, and falls to 0."""
    history = distributions(MATRIX, np.eye(6)[start], 300)
    distance = total_variation(history, PI)
    bound = 0.5 * np.sqrt((1 - PI[start]) / PI[start]) * convergence_rate(MATRIX) ** np.arange(301)
    assert np.all(distance <= bound + 1e-14)
    assert distance[0] == pytest.approx(1 - PI[start])
    assert distance[-1] < 1e-8


def test_equal_weights_on_an_even_ring_alternate_for_ever():
    """Nothing is ever rejected, so odd and even steps differ, and there is no convergence."""
    matrix = metropolis_matrix(np.ones(6), ring_walk(6))
    assert convergence_rate(matrix) == pytest.approx(1)
    history = distributions(matrix, np.eye(6)[0], 400)
    assert total_variation(history[-1], np.full(6, 1 / 6)) == pytest.approx(0.5)


def test_simulation_visits_states_as_the_distribution_says():
    chains = simulate(np.random.default_rng(1), MATRIX, np.zeros(40_000, dtype=int), 5)
    assert chains.shape == (40_000, 5)
    expected = distributions(MATRIX, np.eye(6)[0], 5)
    for step in (1, 5):
        possible = expected[step] > 0
        counts = np.bincount(chains[:, step - 1], minlength=6)
        assert counts[~possible].sum() == 0
        p_value = stats.chisquare(counts[possible], 40_000 * expected[step][possible]).pvalue
        assert p_value > 1e-5
