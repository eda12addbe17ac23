"""Plants' conditionals, drawn by rejection, against their densities on dense grids."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.errors import FitError
from pyflowers.posterior import normal_plants, poisson_plants
from pyflowers.posterior.normal_plants import PlantKernel, draw_log_precisions, draw_plants
from pyflowers.posterior.plants import log_gamma_draws, until_accepted
from pyflowers.posterior.poisson_plants import PoissonPlants, draw_log_rates, draw_rates
from pyflowers.vb import MultilevelPrior

NUM = 5000
# Kolmogorov's statistic times sqrt(N) is above 2.6 once in 400,000.
LARGEST_DISTANCE = 2.6


def distance(x, log_density):
    """Kolmogorov's distance of draws from a density, times sqrt(N)."""
    edges = np.linspace(x.min() - 0.1 * np.ptp(x), x.max() + 0.1 * np.ptp(x), 40_001)
    log_f = log_density(edges)
    f = np.exp(log_f - log_f.max())
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]))])
    at = np.sort(np.interp(x, edges, cdf / cdf[-1]))
    steps = np.arange(x.size + 1) / x.size
    return max(np.abs(at - steps[1:]).max(), np.abs(at - steps[:-1]).max()) * np.sqrt(x.size)


def fill(*values):
    return tuple(np.full(NUM, float(value)) for value in values)


def exp(x):
    return np.exp(np.minimum(x, 300.0))


COUNTS = [(4, 0), (1, 0), (4, 1), (4, 19), (48, 900), (1000, 10**7), (0, 0)]


def check_rates(num, total, near=1.0):
    rng = np.random.default_rng(5)
    for mu in (-50.0, -5.0, 0.0, 1.5, 6.0):
        for sigma2 in (1e-3, 0.1, 1.0, 10.0, 100.0, 1e6):
            hyper = fill(mu, sigma2)
            draws = [draw_log_rates(*fill(num, total), *hyper, rng=rng)]
            if sigma2 < 1e6:  # those are too far apart for exp
                plant = [np.array([float(value)]) for value in (num, total, near)]
                rates, proposals = draw_rates(*plant, *hyper, rng=rng)
                draws.append((np.log(rates[0]), proposals))

            def log_density(g, mu=mu, sigma2=sigma2):
                return total * g - num * exp(g) - (g - mu) ** 2 / (2 * sigma2)

            for x, proposals in draws:
                assert distance(x, log_density) <= LARGEST_DISTANCE
                assert NUM / proposals >= 0.34


@pytest.mark.parametrize(("num", "total"), COUNTS)
def test_log_rates(num, total):
    check_rates(num, total)


@pytest.mark.parametrize("off", [-0.1, 0.0, 0.02])
@pytest.mark.parametrize(("num", "total"), [(4, 19), (48, 900), (1000, 10**7), (1000, 10**9)])
def test_log_rates_with_tangents_near_the_mode(num, total, off):
    check_rates(num, total, np.log(total / num) + off)


def test_log_rates_of_plants_that_want_different_envelopes():
    num, total = np.array([4.0, 4.0, 48.0, 0.0]), np.array([0.0, 25.0, 900.0, 0.0])
    mu, sigma2 = np.repeat([1.5, 2.0, 0.5], NUM), np.repeat([0.5, 0.02, 3.0], NUM)
    draw = PoissonPlants(MultilevelPrior(), num, total).drawer(mu, sigma2)
    found, proposals = draw(slice(None), np.random.default_rng(9))
    rates = found["mu_plant"]
    assert rates.shape == (3 * NUM, 4)
    assert rates.size / proposals > 0.5
    for plant, draws in enumerate(np.log(rates.T)):
        for part in np.split(np.arange(3 * NUM), 3):

            def log_density(g, n=num[plant], s=total[plant], at=part[0]):
                return s * g - n * exp(g) - (g - mu[at]) ** 2 / (2 * sigma2[at])

            assert distance(draws[part], log_density) <= LARGEST_DISTANCE


@pytest.mark.parametrize(("total", "near"), [(19, 1.0), (60, np.log(15))])
def test_negative_control_rates_that_are_never_rejected(monkeypatch, total, near):
    def careless(propose):
        values = propose(...)[0]
        return values, values.size

    monkeypatch.setattr(poisson_plants, "until_accepted", careless)
    with pytest.raises(AssertionError):
        check_rates(4, total, near)


def log_kernel(a, c1, conflict):
    return lambda g: a * (g - exp(g)) - 0.5 * np.log1p(c1 * exp(g)) + conflict / (1 + c1 * exp(g))


def check_precisions(a):
    rng = np.random.default_rng(6)
    for c1 in (1e-6, 1e-2, 0.3, 1.0, 10.0, 1e3, 1e8):
        for conflict in (0.0, 0.3, 1.0, 3.0, 30.0, 1e4):
            x, proposals = draw_log_precisions(PlantKernel(*fill(a, c1, conflict)), rng)
            assert distance(x, log_kernel(a, c1, conflict)) <= LARGEST_DISTANCE
            assert NUM / proposals >= 0.25


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 5.0, 23.0, 1e4])
def test_log_precisions(a):
    check_precisions(a)


def test_both_ways_of_drawing_agree(monkeypatch):
    """The hat of cells alone, where usually the gamma serves."""
    right = normal_plants._gamma_hat

    def none(kernel):
        hat = right(kernel)
        return *hat[:3], np.zeros(NUM, bool)

    monkeypatch.setattr(normal_plants, "_gamma_hat", none)
    check_precisions(5.0)


def test_negative_control_precisions_with_half_the_conflict(monkeypatch):
    right = normal_plants.PlantKernel
    monkeypatch.setattr(
        normal_plants, "_gamma_hat", lambda k, f=normal_plants._gamma_hat: f(right(k.a, k.c1, 0.5 * k.conflict))  # noqa: E501
    )  # fmt: skip
    with pytest.raises(AssertionError):
        check_precisions(23.0)


def test_a_plant_mean_is_normal_given_its_variance():
    rng = np.random.default_rng(7)
    num, mean, known, dof, mu, sigma2 = 4, 2.5, 13.0, 2.0, 6.0, 3.0
    x, v, _ = draw_plants(*fill(num, mean, known, dof, mu, sigma2), rng=rng)
    precision = num / v + 1 / sigma2
    z = (x - (num * mean / v + mu / sigma2) / precision) * np.sqrt(precision)
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert abs(stats.spearmanr(z, v).statistic) < 4 / np.sqrt(NUM)
    # Negative control: the variance for the standard deviation.
    assert stats.kstest(z / np.sqrt(precision), "norm").pvalue < 1e-4


def test_gamma_draws_of_small_shapes_do_not_underflow():
    x = log_gamma_draws(np.full(NUM, 1e-4), np.random.default_rng(8))
    assert np.all(np.isfinite(x))
    # shape times -log is nearly exponential
    assert stats.kstest(-1e-4 * x, "expon").pvalue > 1e-4


def test_rejection_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("pyflowers.posterior.plants._MAX_ROUNDS", 10)
    with pytest.raises(FitError, match="2 draws of plants' parameters were rejected"):
        until_accepted(lambda index: (np.zeros(2)[index], np.zeros(2, bool)[index]))
