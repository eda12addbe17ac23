"""Bases of curves: splines in terms of their values at knots, and sines for Gaussian processes."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from pyflowers.programs.bases import (
    eigenfunctions,
    natural_spline,
    periodic_spline,
    smooth,
    smooth_basis,
    spline,
)

RNG = np.random.default_rng(8)
X = np.sort(RNG.gamma(2.0, 3.0, 80))


@pytest.mark.parametrize("kind", ["natural", "periodic"])
def test_a_spline_is_that_of_scipy(kind):
    knots = np.array([0.0, 0.4, 1.1, 3.0, 3.2, 5.0])
    values = RNG.normal(size=(6, 3))
    values[-1] = values[0]
    at = np.linspace(0, 5, 101)
    found = spline(at, knots, values, is_periodic=kind == "periodic")
    np.testing.assert_allclose(found, CubicSpline(knots, values, bc_type=kind)(at), atol=1e-12)


def test_a_natural_spline_is_a_line_beyond_its_knots():
    knots, values = np.array([0.0, 0.4, 1.1, 3.0]), RNG.normal(size=(4, 2))
    its = CubicSpline(knots, values, bc_type="natural")
    for edge, at in ((0.0, np.array([-7.0, -0.1])), (3.0, np.array([3.1, 40.0]))):
        line = its(edge) + (at - edge)[:, None] * its(edge, 1)
        np.testing.assert_allclose(spline(at, knots, values), line, atol=1e-10)


def test_a_periodic_spline_repeats():
    knots = np.linspace(1, 13, 7)
    values = RNG.normal(size=(7, 2))
    values[-1] = values[0]
    at = np.array([1.0, 2.5, 12.9])
    once = spline(at, knots, values, is_periodic=True)
    for turns in (-3, 1, 10):
        again = spline(at + 12 * turns, knots, values, is_periodic=True)
        np.testing.assert_allclose(again, once, atol=1e-11)


def penalty(basis, kind):
    """Return the integral of the products of second derivatives, which are linear in pieces."""
    knots, values = np.array(basis["knots"]), np.array(basis["values"])
    bends = CubicSpline(knots, values, bc_type=kind)(knots, 2)
    total = np.zeros((values.shape[1], values.shape[1]))
    for width, low, high in zip(np.diff(knots), bends[:-1], bends[1:], strict=True):
        ends = np.outer(low, low) + np.outer(high, high)
        total += width / 3 * (ends + (np.outer(low, high) + np.outer(high, low)) / 2)
    return total


@pytest.mark.parametrize(("period", "kind"), [(None, "natural"), (15.0, "periodic")])
def test_the_coefficients_of_a_smooth_are_independent_under_its_penalty(period, kind):
    found = penalty(smooth_basis(X, 9, period), kind)
    size = found[0, 0]
    np.testing.assert_allclose(found, size * np.eye(len(found)), atol=1e-9 * size)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e7])
def test_the_curves_of_a_smooth_have_no_level_and_no_slope(scale):
    state = {}
    x = 2e3 * scale + scale * X
    columns = smooth(x, k=7, state=state)
    assert columns.shape == (80, 5)
    lines = np.stack([np.ones(80), X - X.mean()])
    np.testing.assert_allclose(lines @ columns, 0, atol=1e-6)
    assert np.mean(np.sum(columns**2, axis=1)) == pytest.approx(1)
    # Another unit of the column changes nothing.
    np.testing.assert_allclose(columns, smooth(X, k=7, state={}), atol=1e-6)


def test_a_periodic_smooth_has_no_level():
    columns = smooth(X, k=7, bs="cc", period=4, state={})
    assert columns.shape == (80, 5)
    np.testing.assert_allclose(columns.sum(axis=0), 0, atol=1e-10)
    assert np.mean(np.sum(columns**2, axis=1)) == pytest.approx(1)


def test_a_smooth_contains_the_natural_splines_with_its_knots():
    lines = np.stack([np.ones(80), X], axis=1)
    columns = np.hstack([lines, smooth(X, k=7, state={})])
    knots = np.quantile(np.unique(X), np.linspace(0, 1, 7))
    other = CubicSpline(knots, RNG.normal(size=7), bc_type="natural")(X)
    fitted = columns @ np.linalg.lstsq(columns, other)[0]
    np.testing.assert_allclose(fitted, other, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (smooth, {"k": 6}),
        (smooth, {"k": 6, "bs": "cc", "period": 9.5}),
        (natural_spline, {"df": 3}),
        (periodic_spline, {"df": 3, "period": 9.5}),
        (eigenfunctions, {"k": 8, "c": 2}),
    ],
)
def test_new_rows_are_those_of_the_fit(function, options):
    state = {}
    columns = function(X, **options, state=state)
    again = function(X[[40, 3]], **options, state=state)
    np.testing.assert_array_equal(again, columns[[40, 3]])


def test_a_coefficient_of_ns_is_a_difference_from_the_first_knot():
    columns = natural_spline(np.array([0.0, 1, 2, 3, 4]), 2, state={})
    np.testing.assert_allclose(columns[[0, 2, 4]], [[0, 0], [1, 0], [0, 1]], atol=1e-14)


def test_the_process_has_the_squared_exponential_covariance():
    """With many functions on a wide interval the error is that of rounding."""
    x, state = np.linspace(-1, 1, 9), {}
    phi = eigenfunctions(x, k=120, c=4, state=state)
    length = 0.6
    omega = np.arange(1, 121) * np.pi / (2 * state["boundary"])
    density = np.sqrt(2 * np.pi) * length * np.exp(-0.5 * np.square(length * omega))
    exact = np.exp(-0.5 * np.square(x[:, None] - x) / length**2)
    np.testing.assert_allclose(phi * density @ phi.T, exact, atol=1e-7)
