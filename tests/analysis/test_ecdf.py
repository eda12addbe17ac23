"""Simultaneous bands for uniform values have the requested coverage; other values leave them."""

import itertools
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from pyflowers.analysis.ecdf import (
    band_points,
    counts,
    from_ranks,
    inside_probability,
    outside_probability,
    p_value,
    uniform_band,
)
from pyflowers.errors import ConfigError


def test_the_probability_is_that_of_every_path_added_up():
    num, points = 4, np.array([0.2, 0.5, 0.9])
    lower, upper = np.array([0, 1, 2]), np.array([2, 3, 4])
    steps = np.diff([0, *points, 1])
    total = 0.0
    for path in itertools.product(range(num + 1), repeat=3):
        increments = np.diff([0, *path, num])
        if np.all(increments >= 0) and np.all((path >= lower) & (path <= upper)):
            ways, left = 1.0, num
            for size, share in zip(increments, steps, strict=True):
                ways *= comb(left, size) * share**size
                left -= size
            total += ways
    assert inside_probability(num, points, lower, upper) == pytest.approx(total, rel=1e-12)


def test_limits_that_hold_everything_have_probability_one():
    points = band_points(50)
    nothing = np.zeros(points.size, dtype=int)
    assert inside_probability(50, points, nothing, nothing + 50) == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize("num_draws", [None, 250])
def test_what_leaves_and_what_stays_make_one(num_draws):
    for prob in (0.3, 0.9, 0.999):
        band = uniform_band(80, num_draws=num_draws, prob=prob)
        limits = (80, band.points, band.lower, band.upper)
        assert outside_probability(*limits) == pytest.approx(1 - inside_probability(*limits))


def test_a_p_value_is_accurate_far_in_the_tail():
    """If p were computed as 1 minus a sum, it could be negative; the bounds are Bonferroni's."""
    for num, at in ((50, 0.001), (403, 0.5)):
        values = np.full(num, at)
        points = band_points(num, 4000)
        found = counts(values, points, num)
        tails = np.minimum(binom.cdf(found, num, points), binom.sf(found - 1, num, points))
        p = p_value(values, num_draws=4000)
        assert 0 < tails.min() <= p <= 2 * points.size * tails.min() < 1e-10
    assert p_value(np.zeros(403), num_draws=4000) == 0  # underflows, but is not negative


@pytest.mark.quick
@pytest.mark.parametrize("prob", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("num", "num_draws"), [(12, None), (200, None), (100, 60), (1000, 400)])
def test_the_band_has_the_wanted_coverage_and_hardly_more(num, num_draws, prob):
    band = uniform_band(num, num_draws=num_draws, prob=prob)
    exact = inside_probability(num, band.points, band.lower, band.upper)
    assert prob <= exact < prob + (0.02 if num < 50 else 0.01)
    rng = np.random.default_rng(1)
    trials = 4000
    if num_draws is None:
        samples = rng.random((trials, num))
    else:
        samples = from_ranks(rng.integers(0, num_draws + 1, (trials, num)), num_draws)
    inside = sum(band.contains(sample) for sample in samples)
    assert abs(inside / trials - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


def test_the_limits_are_quantiles_of_the_binomial():
    band = uniform_band(80, prob=0.9)
    for z, low, high in zip(band.points, band.lower, band.upper, strict=True):
        assert binom.cdf(low, 80, z) > band.level
        assert low == 0 or binom.cdf(low - 1, 80, z) <= band.level
        assert binom.sf(high - 1, 80, z) > band.level
        assert high == 80 or binom.sf(high, 80, z) <= band.level


@pytest.mark.quick
@pytest.mark.parametrize("num_draws", [None, 250])
def test_p_values_agree_with_bands_and_are_uniform(num_draws):
    rng = np.random.default_rng(2)
    band = uniform_band(60, num_draws=num_draws, prob=0.9)
    values = []
    for _ in range(400):
        sample = rng.random(60)
        if num_draws is not None:
            sample = from_ranks(rng.integers(0, num_draws + 1, 60), num_draws)
        values.append(p_value(sample, num_draws=num_draws))
        # Counts are integers, so the band and the p-value may disagree near 0.1.
        if abs(values[-1] - 0.1) > 0.01:
            assert band.contains(sample) == (values[-1] > 0.1)
    for level in (0.1, 0.5):
        share = np.mean(np.asarray(values) <= level)
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / 400)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(3).beta(0.6, 0.6, 300),  # predictions too narrow
        np.random.default_rng(3).beta(2, 2, 300),  # too wide
        np.random.default_rng(3).beta(1.4, 1, 300),  # too low
    ],
    ids=["narrow", "wide", "low"],
)
def test_what_is_not_uniform_leaves_the_band(values):
    assert not uniform_band(300, prob=0.99).contains(values)
    assert p_value(values) < 0.01


def test_ranks_at_the_ends_count():
    """If all ranks are 0, the counts leave the band at the first point."""
    values = from_ranks(np.zeros(20), 99)
    assert np.all(counts(values, band_points(20, 99), 20) == 20)
    assert p_value(values, num_draws=99) < 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uniform_band(0), "a band needs at least one value, got 0"),
        (lambda: uniform_band(5, prob=1), "prob must lie between 0 and 1, got 1"),
        (lambda: uniform_band(5, num_draws=0), "num_draws must be at least 1, got 0"),
        (lambda: uniform_band(5).contains([0.5]), "for 5 values, but there are 1"),
        (lambda: p_value([0.5, 1.5]), "must lie between 0 and 1"),
        (lambda: p_value([0.5, np.nan]), "must lie between 0 and 1"),
        (lambda: from_ranks([11], 10), "must lie between 0 and 10"),
    ],
    ids=["none", "prob", "draws", "size", "outside", "nan", "rank"],
)
def test_bad_arguments_are_one_sentence(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
