"""Rejection sampling: the disc, and the ball in many dimensions."""

import math

import numpy as np
import pytest
from scipy import stats

from pyflowers.samplers import ball_acceptance_rate, propose_in_cube, uniform_in_ball


def by_polar_coordinates(rng, num_draws):
    """Draw a uniform radius, which gives too many points in the middle; √U would be right."""
    radius, angle = rng.random(num_draws), rng.uniform(0, 2 * np.pi, num_draws)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def test_uniform_in_the_disc():
    """|x|² and the angle are uniform, although polar coordinates are not used."""
    for sample in (uniform_in_ball, by_polar_coordinates):
        x = sample(np.random.default_rng(13), 20_000)
        angle = np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) + 0.5
        p_values = [stats.kstest(u, "uniform").pvalue for u in ((x**2).sum(axis=1), angle)]
        assert (min(p_values) > 1e-5) == (sample is uniform_in_ball)


def test_radius_and_many_batches():
    draws = uniform_in_ball(np.random.default_rng(1), 250_000, dim=3, radius=3.0)
    assert draws.shape == (250_000, 3)
    radii = np.linalg.norm(draws, axis=1)
    assert stats.kstest((radii / 3) ** 3, "uniform").pvalue > 1e-5


@pytest.mark.parametrize(
    ("dim", "expected"),
    [(1, 1.0), (2, math.pi / 4), (3, math.pi / 6), (4, math.pi**2 / 32), (10, math.pi**5 / 122880)],
)
def test_acceptance_rate_and_closed_form(dim, expected):
    rate = ball_acceptance_rate(dim)
    assert rate == pytest.approx(expected, rel=1e-12)
    points, accepted = propose_in_cube(np.random.default_rng(dim), 100_000, dim)
    assert points.shape == (100_000, dim)
    assert abs(accepted.mean() - rate) <= 5 * math.sqrt(rate * (1 - rate) / 100_000)
