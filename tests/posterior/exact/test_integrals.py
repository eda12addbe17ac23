"""Many plants' integrals against composite Gauss-Legendre rules in extended precision."""

import numpy as np
import pytest

from pyflowers.posterior.exact import poisson_integrals
from pyflowers.posterior.exact.integrals import merged
from pyflowers.posterior.exact.normal_integrals import NormalPlants
from pyflowers.posterior.exact.poisson_integrals import PoissonPlants
from pyflowers.posterior.vb.distributions import log_variance_prior_constant

NODES, WEIGHTS = (a.astype(np.longdouble) for a in np.polynomial.legendre.leggauss(40))
LOG_2PI = np.log(2 * np.longdouble(np.pi))


def integrate(f, edges):
    """∫ f over the panels between the edges."""
    low, high = edges[:-1, None], edges[1:, None]
    nodes = 0.5 * (low + high) + 0.5 * (high - low) * NODES
    return (f(nodes) @ WEIGHTS * 0.5 * (high - low)[:, 0]).sum()


def reach(fall, scale, sign):
    """How far from the mode the integrand has fallen by e^-50."""
    with np.errstate(over="ignore"):
        distance = scale
        while fall(sign * distance) < 50:
            distance *= np.longdouble(1.1)
    return distance


def poisson_reference(num, total, mu, u):
    """Log I without log y!, from the mode outwards."""
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
    plants = PoissonPlants(np.array([1.0 * num]), np.array([1.0 * total]), np.ones(1))
    mu, u = np.array([-20.0, -3.0, 0.0, 1.5, 4.0]), np.array([-6.0, -2.0, 0.0, 2.0, 4.0, 8.0, 20.0])
    found = plants.log_constant + plants.sum_log_integrals(np.tile(mu, (u.size, 1)), u)
    reference = [[poisson_reference(num, total, m, v) for m in mu] for v in u]
    np.testing.assert_allclose(found, reference, rtol=1e-14, atol=1e-10)


def test_poisson_keeps_its_digits_where_counts_are_large():
    """The log likelihood is about 1e10 at its best; differences from that matter."""
    plants = PoissonPlants(np.array([100.0]), np.array([1e9]), np.ones(1))
    best = np.log(1e7)
    mu = best + np.array([[-1.0, 0.0, 0.5]])
    u = np.array([-1.0])
    laplace = -0.5 * (np.log(2 * np.pi) - 1.0 + (mu - best) ** 2 * np.exp(1.0))
    laplace = laplace + 0.5 * np.log(2 * np.pi / 1e9)
    np.testing.assert_allclose(plants.sum_log_integrals(mu, u), laplace, atol=1e-8)


def normal_reference(num, mean, ss, nu, scale, mu, u):
    """Log I by the trapezoidal rule on 200,001 points of log sigma2_plant."""
    known, dof = np.longdouble(ss + nu * scale**2), num + nu
    middle, top = np.log(float(known) / dof), np.log(float(known) + num * (mu - mean) ** 2)
    w = np.linspace(
        middle - 8 - 11 / np.sqrt(dof), top + 5 + 120 / dof + 15 / np.sqrt(dof), 200_001
    )
    w = w.astype(np.longdouble)
    prior = log_variance_prior_constant(np.array(float(nu)), np.array(float(scale)))
    log_h = prior - 0.5 * ((num - 1) * LOG_2PI + np.log(np.longdouble(num)))
    log_h = log_h - 0.5 * ((dof - 1) * w + known * np.exp(-w))
    var = np.exp(np.longdouble(u)) + np.exp(w) / num
    terms = log_h - 0.5 * (np.log(var) + LOG_2PI + (mu - mean) ** 2 / var)
    peak = terms.max()
    return float(peak + np.log(np.exp(terms - peak).sum() * (w[1] - w[0])))


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
    columns = (np.array([float(a)]) for a in (num, 2.0, ss, 1.0))
    plants = NormalPlants(*columns, nu, scale)  # type: ignore[call-arg]
    mu, u = np.array([-30.0, 2.1, 9.0]), np.array([-6.0, -3.0, 0.0, 3.0, 8.0])
    found = plants.sum_log_integrals(np.tile(mu, (u.size, 1)), u)
    reference = [[normal_reference(num, 2.0, ss, nu, scale, m, v) for m in mu] for v in u]
    np.testing.assert_allclose(found, reference, rtol=1e-14, atol=2e-9)


def test_negative_control_the_rule_needs_its_step(monkeypatch):
    right = poisson_integrals._trapezoid
    monkeypatch.setattr(
        poisson_integrals,
        "_trapezoid",
        lambda c, b, tilt, step, *ends: right(c, b, tilt, 3.5 * step, *ends),
    )
    with pytest.raises(AssertionError):
        test_poisson(4, 3)


def test_equal_plants_are_merged_and_blocks_add_up():
    rng = np.random.default_rng(2)
    num, total = np.full(5000, 3.0), rng.poisson(4, 5000).astype(float)
    (n, s), multiplicity = merged(num, total)
    assert n.size < 30
    assert multiplicity.sum() == 5000
    mu, u = np.array([[1.0, 1.2]]), np.array([-1.0])
    together = PoissonPlants(n, s, multiplicity)
    apart = PoissonPlants(num, total, np.ones(5000))
    np.testing.assert_allclose(
        together.sum_log_integrals(mu, u), apart.sum_log_integrals(mu, u), rtol=1e-12
    )
    assert together.log_constant == pytest.approx(apart.log_constant, rel=1e-12)


@pytest.mark.parametrize("multiplicity", [1.0, 50.0, 1000.0])
@pytest.mark.parametrize("scale", [0.1, 5.0, 1e3, 1e8])
def test_rough_sums_err_by_no_more_than_they_may(scale, multiplicity):
    rng = np.random.default_rng(4)
    num, total = rng.integers(1, 50, 200).astype(float), rng.poisson(scale, 200).astype(float)
    plants = PoissonPlants(num, total, np.full(200, multiplicity))
    u = np.array([-6.0, -2.0, 0.0, 2.0, 4.0, 8.0, 20.0])
    mu = np.tile(np.log(scale / 25) + np.array([-5.0, -0.5, 0.0, 0.5, 5.0]), (u.size, 1))
    off = plants.rough().sum_log_integrals(mu, u) - plants.sum_log_integrals(mu, u)
    rounding = 1e-13 * np.abs(plants.sum_log_integrals(mu, u))
    assert np.all(np.abs(off) <= poisson_integrals._ROUGH_SUM + rounding)
    assert np.abs(off).max() > 0


@pytest.mark.parametrize(
    ("num_plants", "num", "mean", "sd"),
    [(200, 48, 1.5, 0.8), (200, 48, 1.5, 0.1), (5000, 4, 0.0, 1.0), (5000, 100, 5.0, 2.0)],
)
def test_a_few_plants_stand_for_many_of_equal_months(num_plants, num, mean, sd):
    rng = np.random.default_rng(1)
    total = rng.poisson(num * np.exp(rng.normal(mean, sd, num_plants))).astype(float)
    months = np.where(np.arange(num_plants) < 3, num + 1.0, num)
    (num, total), multiplicity = merged(months, total)
    plants = PoissonPlants(num, total, multiplicity)
    few = plants.rough()
    # Three of other months, and one without flowers.
    assert few.size <= poisson_integrals._STAND_INS + 4
    u = 2 * np.log(sd) + np.linspace(-1, 1, 5)
    mu = np.tile(mean + np.linspace(-0.5, 0.5, 5), (u.size, 1))
    exact = plants.sum_log_integrals(mu, u)
    rounding = 1e-13 * np.abs(exact)
    off = np.abs(few.sum_log_integrals(mu, u) - exact)
    assert np.all(off <= poisson_integrals._ROUGH_SUM + rounding)
    with_all_nodes = PoissonPlants(*poisson_integrals._stand_ins(num, total, multiplicity))
    off = np.abs(with_all_nodes.sum_log_integrals(mu, u) - exact)
    assert np.all(off <= 1e-6 + rounding)
