"""Weighted points of known densities, and what their weights say about bad proposals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pyflowers.engines.integrated.importance import (
    SplitT,
    Weighted,
    approximated,
    check_spread,
    find_mode,
    weigh,
    weighted_points,
    weights_of,
)


def log_gammas(points):
    """Return the log density of logs of gamma variables, which is skewed, times 7."""
    shapes = np.array([1.0, 3.0, 20.0])
    return np.sum(shapes * points - np.exp(points), axis=1) + np.log(7)


@pytest.mark.parametrize("side", [0, 1])
def test_moments_quantiles_and_integral_of_a_skewed_density(side):
    sign, slow_sides = (1, -1)[side], np.zeros((2, 3), dtype=bool)
    slow_sides[side, 0] = True
    stretch, log_density, first = approximated(
        lambda points: log_gammas(sign * points), np.zeros(3), slow_sides
    )
    found = weighted_points(log_density, first, 20_000, np.random.default_rng(1))
    assert found.k_hat < 0.5
    assert found.effective > 8_000
    weights = np.exp(found.log_weights)
    logs = sign * stretch(found.points)[0]
    for column, shape in zip(logs.T, (1.0, 3.0, 20.0), strict=True):
        for prob in (0.05, 0.5, 0.95):
            below = weights[np.exp(column) <= stats.gamma.ppf(prob, shape)].sum()
            error = np.sqrt(prob * (1 - prob) / found.effective)
            assert abs(below - prob) < 4 * error
    constant = np.log(7) + sum(map(float, np.log([1.0, 2.0, float(np.prod(np.arange(1.0, 20)))])))
    assert abs(found.log_mean - constant) < 4 * found.log_mean_error < 0.05


def test_a_planted_narrow_proposal_fails():
    narrow = np.full(3, 0.35)
    mode, _ = find_mode(log_gammas, np.zeros(3))
    proposal = SplitT(mode, np.diag(1 / np.sqrt([1.0, 3.0, 20.0])), narrow, narrow, 1000.0)
    assert weigh(log_gammas, proposal, 4_000, np.random.default_rng(2)).k_hat > 0.7


def test_even_weights_of_points_that_are_too_close_together_fail():
    rng = np.random.default_rng(4)
    mode, _ = find_mode(log_gammas, np.zeros(3))
    small = np.full(3, 0.02)
    axes = np.diag(1 / np.sqrt([1.0, 3.0, 20.0]))
    proposal = SplitT(mode, axes, small, small, 1000.0)
    points = proposal.draw(4_000, rng)
    even = weights_of(points, np.zeros(4_000), proposal)
    close = replace(even, log_weights=np.full(4_000, -np.log(4_000)))
    with pytest.raises(ArithmeticError, match="much more concentrated"):
        check_spread(log_gammas, close)
    wide = SplitT(mode, axes, np.full(3, 1.3), np.full(3, 1.3), 7.0)
    check_spread(log_gammas, weigh(log_gammas, wide, 4_000, rng))


def test_the_proposal_has_the_density_of_its_draws():
    rng = np.random.default_rng(3)
    axes = np.array([[1.0, 0.3], [0.2, 0.5]])
    proposal = SplitT(np.array([1.0, -1.0]), axes, np.array([0.5, 2.0]), np.array([1.0, 0.7]), 5.0)
    points = proposal.draw(200_000, rng)
    # The mean of a bounded density over the proposal is an integral over the plane.
    other = stats.multivariate_normal([1.0, -1.0], 0.3 * np.eye(2))
    ratios = other.pdf(points) / np.exp(proposal.log_density(points))
    assert ratios.mean() == pytest.approx(1, abs=4 * ratios.std() / np.sqrt(len(points)))


def test_repeated_points_follow_each_other_and_are_as_frequent_as_their_weights():
    weights = np.array([0.5, 0.3, 0.2])
    found = Weighted(np.zeros((3, 1)), np.log(weights), np.log(weights), 0.0)
    chosen = found.resampled(1_000, np.random.default_rng(1))
    assert np.array_equal(chosen, np.sort(chosen))
    assert np.abs(np.bincount(chosen) - 1_000 * weights).max() <= 1


def test_no_kink_of_a_coordinate_makes_weights_look_heavy():
    """Of the logs of standard deviations far from 0, of which the first has a new coordinate."""

    def log_density(points):
        groups, rows = points.T
        return -24 * groups - 12 * np.exp(-2 * groups) - 216 * rows - 108 * np.exp(-2 * rows)

    _, stretched, first = approximated(log_density, np.zeros(2), np.array([True, False]))
    rngs = [np.random.default_rng(seed) for seed in range(20)]
    found = [weighted_points(stretched, first, 4_000, rng) for rng in rngs]
    assert max(each.k_hat for each in found) < 0.5
