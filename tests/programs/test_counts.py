"""Counts of large groups are Poisson counts in random order."""

import numpy as np
import pytest
from scipy.stats import chi2, poisson

from pyflowers.programs.families.poisson import FAMILY

RATES = np.array([0.0, 0.3, 4.0, 49.9, 51.0, 3e18])


def draw_counts(rates, groups, rng):
    """Draw counts of rows, given the rates of their groups."""
    with np.errstate(divide="ignore"):
        return FAMILY.draw(np.log(rates)[..., groups], {}, rng)


def chi_square(counts, rate):
    """Return Pearson's p-value of counts under their distribution, with at most 20 bins."""
    edges = np.unique(poisson(rate).ppf(np.linspace(0.05, 0.95, 19)))
    expected = np.diff(poisson(rate).cdf(edges), prepend=0, append=1) * counts.size
    found = np.bincount(np.searchsorted(edges, counts.ravel()), minlength=expected.size)
    return chi2.sf(((found - expected) ** 2 / expected).sum(), expected.size - 1)


@pytest.mark.parametrize("rows", [1000, 100])  # tabulated probabilities; draws one by one
def test_counts_are_poisson_and_independent(rows):
    rates = np.stack([RATES, RATES])[None]
    found = draw_counts(rates, np.repeat(np.arange(6), rows), np.random.default_rng(1))
    assert found.shape == (1, 2, 6 * rows)
    by_group = found.reshape(2, 6, rows)
    assert (by_group[:, 0] == 0).all()
    assert (by_group[:, 5] == np.exp(np.log(3e18))).all()
    for g in range(1, 5):
        of_it = by_group[:, g]
        assert chi_square(of_it, RATES[g]) > 1e-3
        # Negative control: a different rate is rejected.
        assert chi_square(of_it, 1.5 * RATES[g] + 0.1) < 1e-3
        for row in of_it:
            assert abs(np.corrcoef(row[1:], row[:-1])[0, 1]) < 4 / np.sqrt(rows)
    assert not np.array_equal(by_group[0, 2], by_group[1, 2])


def test_rows_in_any_order_have_the_rates_of_their_groups():
    groups = np.random.default_rng(1).permutation(np.repeat(np.arange(3), 1000))
    rate = np.array([[[0.0, 5.0, 40.0]]])
    found = draw_counts(rate, groups, np.random.default_rng(2))[0, 0]
    means = np.bincount(groups, found) / 1000
    assert np.abs(means - rate[0, 0]).max() < 4 * np.sqrt(40 / 1000)
    # Groups of different sizes.
    found = draw_counts(rate[..., :2], np.repeat([0, 1], [10, 2000]), np.random.default_rng(2))
    assert (found[0, 0, :10] == 0).all()
    assert found[0, 0, 10:].mean() == pytest.approx(5, abs=4 * np.sqrt(5 / 2000))
