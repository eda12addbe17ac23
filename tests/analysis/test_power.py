"""How often checks of grouped values fail for tables that break the model, and for tables from it.

The groups have the sizes of the 118 broods of 403 grouse chicks whose ticks Elston et al. (2001,
Parasitology 122) counted, and their rates have the same spread.
"""

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers.data import from_frame

BROODS = {1: 18, 2: 24, 3: 31, 4: 11, 5: 16, 6: 11, 7: 5, 9: 1, 10: 1}
"""Number of broods of each size."""

PHI = 4.0
"""The negative binomial's phi that gives the ticks' dispersion within broods, 2.6."""


def ticks(rng, *, phi=None):
    """Simulate counts in broods: Poisson, or negative binomial with the dispersion `phi`."""
    sizes = np.repeat(list(BROODS), list(BROODS.values()))
    brood = np.repeat(np.arange(sizes.size), sizes)
    rate = np.exp(rng.normal(0.5, 1.6, sizes.size))[brood]
    if phi is not None:
        rate = rate * rng.gamma(phi, 1 / phi, rate.size)
    return frame(brood, np.arange(brood.size), rng.poisson(rate))


def frame(group, time, value):
    return from_frame(pd.DataFrame({"plant": group, "month": time, "flowers": value}))


def series(rng, *, rho, counts):
    """Simulate 20 groups of 24 months whose deviations are an AR(1) with autocorrelation `rho`."""
    num, months = 20, 24
    away = rng.normal(size=(num, months))
    for t in range(1, months):
        away[:, t] = rho * away[:, t - 1] + np.sqrt(1 - rho**2) * away[:, t]
    mean = rng.normal(1.5, 0.5, num)[:, None]
    y = rng.poisson(np.exp(mean + 0.5 * away)) if counts else mean + away
    group, time = np.divmod(np.arange(y.size), months)
    return frame(group, time, y.ravel())


def failures(name, tables, check):
    """Return on how many tables the check fails, and on how many another check fails.

    Each table is fitted with independent draws.
    """
    failed, any_other = 0, 0
    for seed, table in enumerate(tables):
        fit = pyflowers.fit(name, table, seed=seed, engine="exact", draws=250)
        names = {each.name for each in pyflowers.check(fit).failed}
        failed += check in names
        any_other += bool(names - {check})
    return failed, any_other


def many(make, num, seed, **how):
    return (make(np.random.default_rng([seed, i]), **how) for i in range(num))


@pytest.mark.parametrize(
    ("num", "seed", "phi", "fewest", "most"),
    [
        (5, 1, PHI, 5, 5),
        (5, 2, None, 0, 0),
        pytest.param(100, 3, PHI, 95, 100, marks=pytest.mark.slow),
        pytest.param(500, 4, None, 0, 10, marks=pytest.mark.slow),
    ],
)
def test_dispersion_within_groups_fails_where_counts_vary_more(num, seed, phi, fewest, most):
    tables = many(ticks, num, seed, phi=phi)
    failed, others = failures("multilevel_poisson", tables, "dispersion_within")
    print(f"dispersion_within fails on {failed} of {num} tables, another check on {others}")
    assert fewest <= failed <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num", "seed", "counts", "rho", "fewest", "most"),
    [
        ("multilevel_poisson", 100, 5, True, 0.8, 95, 100),
        ("multilevel_normal", 100, 5, False, 0.4, 95, 100),
        ("multilevel_normal", 500, 6, False, 0, 0, 10),
    ],
)
def test_autocorrelation_fails_where_there_is_some(name, num, seed, counts, rho, fewest, most):
    tables = many(series, num, seed, rho=rho, counts=counts)
    failed, others = failures(name, tables, "autocorrelation")
    print(f"{name}: it fails on {failed} of {num} tables with {rho}, another check on {others}")
    assert fewest <= failed <= most
