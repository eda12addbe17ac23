"""Gauss's rule of a discrete measure against the sums that it stands for."""

import numpy as np
import pytest

from pyflowers.posterior.exact.moments import gauss_rule

NUM = 8


@pytest.fixture
def measure():
    rng = np.random.default_rng(3)
    return np.sort(rng.normal(0.2, 0.4, 300)), rng.integers(1, 30, 300).astype(float)


def test_polynomials_up_to_its_degree_are_exact_and_no_more(measure):
    points, weights = measure
    nodes, times = gauss_rule(points, weights, NUM)
    errors = [
        abs(times @ nodes**power - weights @ points**power) / (weights @ np.abs(points) ** power)
        for power in range(2 * NUM + 1)
    ]
    assert max(errors[:-1]) < 1e-13
    assert errors[-1] > 1e-9


def test_nodes_lie_among_the_points_and_weights_are_positive(measure):
    points, weights = measure
    nodes, times = gauss_rule(points, weights, NUM)
    assert points[0] < nodes[0]
    assert nodes[-1] < points[-1]
    assert np.all(np.diff(nodes) > 0)
    assert np.all(times > 0)


def test_even_points_give_the_rule_of_legendre():
    points = (np.arange(200_000) + 0.5) / 100_000 - 1
    nodes, times = gauss_rule(points, np.full(points.size, 1e-5), NUM)
    legendre, weights = np.polynomial.legendre.leggauss(NUM)
    np.testing.assert_allclose(nodes, legendre, atol=1e-8)
    np.testing.assert_allclose(times, weights, atol=1e-8)


def test_many_nodes_keep_their_digits():
    """Without a second orthogonalisation nodes would come twice."""
    points = np.log(np.arange(1.0, 2000.0))
    nodes, times = gauss_rule(points, np.ones(points.size), 60)
    assert np.all(np.diff(nodes) > 0)
    assert times @ np.exp(nodes) == pytest.approx(np.exp(points).sum(), rel=1e-12)
