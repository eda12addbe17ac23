"""Ranks and binomial quantiles against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.plots.order import average_ranks, binomial_interval


@pytest.mark.parametrize("shape", [(4, 50), (1, 1), (3, 2)])
def test_ranks(shape):
    values = np.random.default_rng(1).integers(0, 20, shape).astype(float)
    expected = stats.rankdata(values, method="average").reshape(shape)
    assert np.array_equal(average_ranks(values), expected)


@pytest.mark.parametrize("num", [1, 5, 100, 1_000, 50_000])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_binomial_interval(num, share):
    assert binomial_interval(0.99, num, share) == stats.binom.interval(0.99, num, share)
