"""Simulation-based calibration (Talts et al. 2018): the ranks of true values among draws.

Parameters are drawn from the prior, data from the model, and each parameter is ranked among
independent draws from its posterior given these data. If the draws are right, ranks are uniform.
"""

import functools
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from scipy import stats

from pyflowers.exact import NormalSampler, PoissonSampler, draw_normal
from pyflowers.vb import MultilevelPrior, NormalPrior, SufficientStatistics

NUM_DRAWS = 99
WIDE = MultilevelPrior(0, 3, 4, 1)
FEW_COUNTS = MultilevelPrior(0, 0.7, 8, 0.7)
PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)
ONE = NormalPrior(1.0, 2.0, 3.0, 1.5)


def scaled_inv_chi2(nu, scale, rng, size=None):
    return nu * scale**2 / rng.chisquare(nu, size)


def ranks_of(truth, draws):
    return [int(np.sum(draws[name] < value)) for name, value in truth.items()]


def all_of(sampler, rng):
    """Return draws of mu, sigma2 and the first plant."""
    hyper = sampler.draw_hyper(NUM_DRAWS, rng)
    _, first = next(iter(sampler.blocks(hyper, rng)))
    plant = {name: values[:, 0] for name, values in first.items()}
    return {"mu": hyper.mu, "sigma2": hyper.sigma2, **plant}


@functools.lru_cache(maxsize=4096)
def poisson_sampler(totals, counts, prior):
    """Cache samplers, because small counts are repeated often."""
    return PoissonSampler(np.array(totals), np.array(counts), prior)


def poisson(true, counts, rng, drawn=None):
    """Rank one simulation of `multilevel_poisson`."""
    mu = rng.normal(true.mu_mean, true.mu_sd)
    sigma2 = scaled_inv_chi2(true.sigma2_nu, true.sigma2_scale, rng)
    rate = np.exp(rng.normal(mu, np.sqrt(sigma2), len(counts)))
    totals = rng.poisson(np.array(counts) * np.minimum(rate, 1e15)).astype(float)
    sampler = poisson_sampler(tuple(totals.tolist()), counts, drawn or true)
    return ranks_of({"mu": mu, "sigma2": sigma2, "mu_plant": rate[0]}, all_of(sampler, rng))


def poisson_few(rng, drawn=None):
    return poisson(FEW_COUNTS, (2.0, 1.0), rng, drawn)


def poisson_wide(rng, drawn=None):
    return poisson(WIDE, (4.0, 2.0, 1.0), rng, drawn)


def normal(rng, drawn=None):
    """Rank one simulation of `multilevel_normal`."""
    mu = rng.normal(PROPER.mu_mean, PROPER.mu_sd)
    sigma2 = scaled_inv_chi2(PROPER.sigma2_nu, PROPER.sigma2_scale, rng)
    mean = rng.normal(mu, np.sqrt(sigma2), 3)
    var = scaled_inv_chi2(PROPER.sigma2_plant_nu, PROPER.sigma2_plant_scale, rng, 3)
    y = [rng.normal(m, np.sqrt(v), n) for m, v, n in zip(mean, var, (4, 2, 1), strict=True)]
    data = SufficientStatistics.from_groups(np.concatenate(y), np.repeat([0, 1, 2], (4, 2, 1)))[0]
    truth = {"mu": mu, "sigma2": sigma2, "mu_plant": mean[0], "sigma2_plant": var[0]}
    return ranks_of(truth, all_of(NormalSampler(data, drawn or PROPER), rng))


def one_normal(rng, drawn=None):
    """Rank one simulation of `semiconjugate_normal` and `iid_normal`, which are the same model."""
    mean = rng.normal(ONE.mu0, ONE.tau0)
    var = scaled_inv_chi2(ONE.nu0, ONE.sigma0, rng)
    x = rng.normal(mean, np.sqrt(var), 5)
    draws = draw_normal(x, drawn or ONE, NUM_DRAWS, rng).draws
    return ranks_of({"theta": mean, "sigma2": var}, draws)


def simulate(one, num, seed, drawn=None):
    rng = np.random.default_rng(seed)
    return np.array([one(rng, drawn) for _ in range(num)])


def check_bands(ranks, level=0.9999):
    """Check that the share of ranks below each value is within simultaneous bands of this level.

    The bands are exact binomial intervals with a Bonferroni correction over the values.
    """
    num = len(ranks)
    cut = np.arange(1, NUM_DRAWS + 1)
    below = (ranks[:, :, None] < cut).sum(axis=0)
    p = cut / (NUM_DRAWS + 1)
    tail = (1 - level) / (2 * cut.size)
    low, high = stats.binom.ppf(tail, num, p), stats.binom.isf(tail, num, p)
    assert np.all((low <= below) & (below <= high))


MODELS = [poisson_few, pytest.param(normal, marks=pytest.mark.slow), one_normal]


@pytest.mark.slow
@pytest.mark.parametrize("one", MODELS)
def test_500_simulations(one):
    check_bands(simulate(one, 500, 11))


@pytest.mark.campaign
@pytest.mark.parametrize("one", [*MODELS, poisson_wide])
def test_10_000_simulations(one):
    with ProcessPoolExecutor(2) as executor:
        parts = list(executor.map(simulate, [one] * 20, [500] * 20, range(100, 120)))
    check_bands(np.concatenate(parts))


WRONG = {
    "poisson_few": (poisson_few, 500, MultilevelPrior(0, 0.7, 8, 0.7**0.5)),
    "normal": (normal, 200, MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 2.2)),
    "one_normal": (one_normal, 500, NormalPrior(1.0, 2.0, 3.0, 1.5**2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_negative_control_a_wrong_scale_is_seen(name):
    one, num, drawn = WRONG[name]
    with pytest.raises(AssertionError):
        check_bands(simulate(one, num, 11, drawn))
