"""Rejection sampling: the disc, and the ball in many dimensions."""

import math

import numpy as np
import pytest
from scipy import stats

from pyflowers.samplers import ball_acceptance_rate, propose_in_cube, uniform_in_ball

from .checks import check_uniform_in_disc


def test_uniform_in_the_disc() -> None:
    check_uniform_in_disc(uniform_in_ball)


def test_radius() -> None:
    draws = uniform_in_ball(np.random.default_rng(1), 5_000, radius=3.0)
    radii = np.linalg.norm(draws, axis=1)
    assert draws.shape == (5_000, 2)
    assert stats.kstest((radii / 3) ** 2, "uniform").pvalue > 1e-5


@pytest.mark.parametrize(
    ("dim", "expected"),
    [(1, 1.0), (2, math.pi / 4), (3, math.pi / 6), (4, math.pi**2 / 32), (10, math.pi**5 / 122880)],
)
def test_closed_form(dim: int, expected: float) -> None:
    assert ball_acceptance_rate(dim) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
def test_acceptance_rate_against_the_closed_form(dim: int) -> None:
    points, info = propose_in_cube(np.random.default_rng(dim), 100_000, dim)
    rate = ball_acceptance_rate(dim)
    assert points.shape == (100_000, dim)
    error = math.sqrt(rate * (1 - rate) / 100_000)
    assert abs(info.acceptance_rate - rate) <= 5 * error
    assert info.accepted.mean() == info.acceptance_rate


def test_many_draws_take_many_batches() -> None:
    draws = uniform_in_ball(np.random.default_rng(2), 250_000, dim=3)
    assert draws.shape == (250_000, 3)
    assert np.linalg.norm(draws, axis=1).max() <= 1
