"""Many plants' integrals against composite Gauss-Legendre rules in extended precision."""

import numpy as np
import pytest

from pyflowers.posterior import poisson_plants
from pyflowers.posterior.distributions import log_constant
from pyflowers.posterior.normal_plants import NormalPlants
from pyflowers.posterior.poisson_plants import PoissonPlants
from pyflowers.vb import MultilevelPrior

PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)

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
    plants = PoissonPlants(PROPER, np.array([1.0 * num]), np.array([1.0 * total]))
    mu, u = np.array([-20.0, -3.0, 0.0, 1.5, 4.0]), np.array([-6.0, -2.0, 0.0, 2.0, 4.0, 8.0, 20.0])
    found = plants.log_constant + plants.sum_log_integrals(np.tile(mu, (u.size, 1)), u)
    reference = [[poisson_reference(num, total, m, v) for m in mu] for v in u]
    np.testing.assert_allclose(found, reference, rtol=1e-14, atol=1e-10)


def test_poisson_keeps_its_digits_where_counts_are_large():
    """The log likelihood is about 1e10 at its best; differences from that matter."""
    plants = PoissonPlants(PROPER, np.array([100.0]), np.array([1e9]))
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
    log_h = log_constant(nu, scale) - 0.5 * ((num - 1) * LOG_2PI + np.log(np.longdouble(num)))
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
