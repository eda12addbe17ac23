"""Integrals of plants against rules in extended precision, and draws against dense grids."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.errors import FitError
from pyflowers.lectures.posterior import normal_plants, poisson_plants
from pyflowers.lectures.posterior.distributions import log_constant
from pyflowers.lectures.posterior.normal_plants import (
    NormalPlants,
    PlantKernel,
    draw_log_precisions,
    draw_plants,
)
from pyflowers.lectures.posterior.plants import log_gamma_draws, until_accepted
from pyflowers.lectures.posterior.poisson_plants import PoissonPlants, draw_log_rates, draw_rates
from pyflowers.vb import MultilevelPrior

PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)

NODES, WEIGHTS = (a.astype(np.longdouble) for a in np.polynomial.legendre.leggauss(40))
LOG_2PI = np.log(2 * np.longdouble(np.pi))


def integrate(f, edges):
    """Return ∫ f over the panels between the edges."""
    low, high = edges[:-1, None], edges[1:, None]
    nodes = 0.5 * (low + high) + 0.5 * (high - low) * NODES
    return (f(nodes) @ WEIGHTS * 0.5 * (high - low)[:, 0]).sum()


def reach(fall, scale, sign):
    """Return the distance from the mode at which the integrand has fallen by e^-50."""
    with np.errstate(over="ignore"):
        distance = scale
        while fall(sign * distance) < 50:
            distance *= np.longdouble(1.1)
    return distance


def poisson_reference(num, total, mu, u):
    """Return log I without log y!, integrated from the mode outwards."""
    num, c = np.longdouble(num), np.exp(-np.longdouble(u))
    x = np.longdouble(np.log((total + 0.5) / float(num)))
    for _ in range(300):
        rate = num * np.exp(x)
        x += np.clip((total - rate - c * (x - mu)) / (rate + c), -0.5, 0.5)
    b = num * np.exp(x)
    scale = 1 / np.sqrt(b + c)

    def fall(delta):
        return 0.5 * c * delta**2 + b * (np.expm1(np.minimum(delta, 11_000)) - delta)

    sides = []
    for sign in (-1, 1):
        far = reach(fall, scale, sign)
        sides.append(sign * np.geomspace(scale / 8, far, 80, dtype=np.longdouble))
        sides.append(sign * np.linspace(0, min(far, 60), 200, dtype=np.longdouble))
    mass = integrate(lambda delta: np.exp(-fall(delta)), np.unique(np.concatenate(sides)))
    at_mode = total * x - b - 0.5 * (c * (x - mu) ** 2 + LOG_2PI + u)
    return float(at_mode + np.log(mass))


@pytest.mark.parametrize(
    ("num", "total"), [(4, 0), (1, 0), (4, 1), (4, 3), (4, 19), (48, 300), (48, 20_000)]
)
def test_poisson(num, total):
    plants = PoissonPlants(PROPER, np.array([1.0 * num]), np.array([1.0 * total]))
    mu, u = np.array([-20.0, -3.0, 0.0, 1.5, 4.0]), np.array([-6.0, -2.0, 0.0, 2.0, 4.0, 8.0, 20.0])
    found = plants.log_constant + plants.sum_log_integrals(np.tile(mu, (u.size, 1)), u)
    reference = [[poisson_reference(num, total, m, v) for m in mu] for v in u]
    np.testing.assert_allclose(found, reference, rtol=1e-14, atol=1e-10)


def test_poisson_keeps_its_digits_where_counts_are_large():
    """The maximum of the log likelihood is about 1e10, and differences from it matter."""
    plants = PoissonPlants(PROPER, np.array([100.0]), np.array([1e9]))
    best = np.log(1e7)
    mu = best + np.array([[-1.0, 0.0, 0.5]])
    u = np.array([-1.0])
    laplace = -0.5 * (np.log(2 * np.pi) - 1.0 + (mu - best) ** 2 * np.exp(1.0))
    laplace = laplace + 0.5 * np.log(2 * np.pi / 1e9)
    np.testing.assert_allclose(plants.sum_log_integrals(mu, u), laplace, atol=1e-8)


def normal_reference(num, mean, ss, nu, scale, mu, u):
    """Return log I by the trapezoidal rule on 200,001 points of log sigma2_plant."""
    known, dof = np.longdouble(ss + nu * scale**2), num + nu
    middle, top = np.log(float(known) / dof), np.log(float(known) + num * (mu - mean) ** 2)
    w = np.linspace(
        middle - 8 - 11 / np.sqrt(dof), top + 5 + 120 / dof + 15 / np.sqrt(dof), 200_001
    )
    w = w.astype(np.longdouble)
    log_h = log_constant(nu, scale) - 0.5 * ((num - 1) * LOG_2PI + np.log(np.longdouble(num)))
    log_h = log_h - 0.5 * ((dof - 1) * w + known * np.exp(-w))
    var = np.exp(np.longdouble(u)) + np.exp(w) / num
    terms = log_h - 0.5 * (np.log(var) + LOG_2PI + (mu - mean) ** 2 / var)
    peak = terms.max()
    return float(peak + np.log(np.exp(terms - peak).sum() * (w[1] - w[0])))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num", "ss", "nu", "scale"),
    [
        (3, 4.0, -2, 0),
        (4, 5.0, -2, 0),
        (48, 60.0, -2, 0),
        (1000, 1300.0, -2, 0),
        (1, 0.0, 1, 2.0),
        (2, 2.6, 3, 1.0),
    ],
)
def test_normal(num, ss, nu, scale):
    columns = (np.array([float(a)]) for a in (num, 2.0, ss))
    prior = MultilevelPrior(sigma2_plant_nu=nu, sigma2_plant_scale=scale)
    plants = NormalPlants(prior, *columns)
    mu, u = np.array([-30.0, 2.1, 9.0]), np.array([-6.0, -3.0, 0.0, 3.0, 8.0])
    found = plants.sum_log_integrals(np.tile(mu, (u.size, 1)), u)
    reference = [[normal_reference(num, 2.0, ss, nu, scale, m, v) for m in mu] for v in u]
    np.testing.assert_allclose(found, reference, rtol=1e-14, atol=2e-9)


def test_negative_control_the_rule_needs_its_step(monkeypatch):
    right = poisson_plants._trapezoid
    monkeypatch.setattr(
        poisson_plants,
        "_trapezoid",
        lambda c, b, tilt, step, *ends: right(c, b, tilt, 3.5 * step, *ends),
    )
    with pytest.raises(AssertionError):
        test_poisson(4, 3)


def test_multiplicity_counts_and_blocks_add_up():
    rng = np.random.default_rng(2)
    num, total = np.full(5000, 3.0), rng.poisson(4, 5000).astype(float)
    mu, u = np.array([[1.0, 1.2]]), np.array([-1.0])
    apart = PoissonPlants(PROPER, num, total)
    together = apart.merged()
    different, times = np.unique(total, return_counts=True)
    np.testing.assert_array_equal(together.columns, [np.full(different.size, 3.0), different])
    np.testing.assert_array_equal(together.multiplicity, times)
    np.testing.assert_allclose(
        together.sum_log_integrals(mu, u), apart.sum_log_integrals(mu, u), rtol=1e-12
    )
    assert together.log_constant == pytest.approx(apart.log_constant, rel=1e-12)


def test_a_plant_without_months_says_nothing():
    mu, u = np.array([[1.0, 50.0]] * 2), np.array([-3.0, 6.0])
    none = np.zeros(1)
    poisson, normal = PoissonPlants(PROPER, none, none), NormalPlants(PROPER, none, none, none)
    np.testing.assert_allclose(poisson.sum_log_integrals(mu, u), 0, atol=1e-11)
    np.testing.assert_allclose(normal.sum_log_integrals(mu, u), 0, atol=1e-11)


NUM = 5000
# Kolmogorov's statistic times sqrt(N) is above 2.6 about once in 370,000 samples.
LARGEST_DISTANCE = 2.6


def distance(x, log_density):
    """Return Kolmogorov's distance between draws and a density, times sqrt(N)."""
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
            if sigma2 < 1e6:  # otherwise exp overflows
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


@pytest.mark.slow
@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 5.0, 23.0, 1e4])
def test_log_precisions(a):
    check_precisions(a)


@pytest.mark.quick
def test_both_ways_of_drawing_agree(monkeypatch):
    """Use only the hat of cells, even where the gamma hat would be used."""
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
    # Negative control: the variance instead of the standard deviation.
    assert stats.kstest(z / np.sqrt(precision), "norm").pvalue < 1e-4


def test_gamma_draws_of_small_shapes_do_not_underflow():
    x = log_gamma_draws(np.full(NUM, 1e-4), np.random.default_rng(8))
    assert np.all(np.isfinite(x))
    # minus the shape times the log of a draw is nearly exponential
    assert stats.kstest(-1e-4 * x, "expon").pvalue > 1e-4


def test_rejection_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("pyflowers.lectures.posterior.plants._MAX_ROUNDS", 10)
    with pytest.raises(FitError, match="all 10 proposals for 2 of the plant parameters were"):
        until_accepted(lambda index: (np.zeros(2)[index], np.zeros(2, bool)[index]))
    accepted = iter([np.zeros((1, 2), bool)] + 8 * [np.zeros(2, bool)] + [np.ones(2, bool)])
    _, num = until_accepted(lambda index: (np.zeros((1, 2))[index], next(accepted)))
    assert num == 20
