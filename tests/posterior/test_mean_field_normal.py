"""The normal model's closed form: against mpmath, the exact evidence and Monte Carlo.

Each check takes what it checks, so that the negative controls below can hand it a planted bug.
"""
# A factor is a Distribution, and which one the test knows.
# mypy: disable-error-code="attr-defined"

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pyflowers.exact import NormalExact
from pyflowers.posterior.mean_field import NormalModel
from pyflowers.vb import (
    Normal,
    NormalPrior,
    NotConvergedWarning,
    ScaledInvChiSquare,
    SufficientStatistics,
    fit_normal,
)

LECTURE = np.array([4, 5, 6, 4, 0, 2, 5, 3, 8, 6, 10, 8.0])


def random_problem(rng, num=None):
    num = int(rng.integers(1, 60)) if num is None else num
    unit = 10 ** rng.uniform(-3, 3)
    x = unit * (rng.normal(rng.normal(0, 3), 1, size=num))
    prior = NormalPrior(
        mu0=unit * rng.normal(0, 3),
        tau0=unit * 10 ** rng.uniform(-1, 2),
        nu0=10 ** rng.uniform(-0.5, 1.5),
        sigma0=unit * 10 ** rng.uniform(-1, 1),
    )
    return x, prior


def random_batch(rng, num_sets):
    """Statistics of `num_sets` data sets and a prior for each."""
    unit = 10 ** rng.uniform(-5, 5, num_sets)
    num = rng.integers(1, 200, num_sets).astype(float)
    ss = np.where(num > 1, unit**2 * rng.chisquare(np.maximum(num - 1, 1)), 0.0)
    data = SufficientStatistics(num, unit * rng.normal(0, 4, num_sets), ss)
    prior = NormalPrior(
        unit * rng.normal(0, 4, num_sets),
        unit * 10 ** rng.uniform(-2, 3, num_sets),
        10 ** rng.uniform(-0.5, 2, num_sets),
        unit * 10 ** rng.uniform(-2, 1, num_sets),
    )
    return data, prior


def mpmath_fixed_points(x, prior):
    """All positive roots of the fixed point's cubic, 50 digits, as (mu_n, tau_n, sigma_n)."""
    with mp.workdps(50):
        data = [mp.mpf(float(v)) for v in x]
        n, mean = len(data), mp.fsum(data) / len(data)
        m0, a, nu0 = mp.mpf(prior.mu0), 1 / mp.mpf(prior.tau0) ** 2, mp.mpf(prior.nu0)
        known = nu0 * mp.mpf(prior.sigma0) ** 2 + mp.fsum((v - mean) ** 2 for v in data)
        nu, d2 = nu0 + n, (mean - m0) ** 2
        # With lambda = y nu / known the coefficients are of one size.
        b, e = a * known / nu, d2 * nu / known
        cubic = [
            nu * n**2,
            n * (2 * nu * b + n) - nu * n**2,
            nu * b**2 + n * b**2 * e + n * b - 2 * nu * n * b,
            -nu * b**2,
        ]
        found = []
        for root in np.roots([float(c) for c in cubic]):
            if abs(root.imag) < 1e-9 * abs(root) and root.real > 0:
                y = mp.findroot(
                    lambda v: ((cubic[0] * v + cubic[1]) * v + cubic[2]) * v + cubic[3],
                    mp.mpf(float(root.real)),
                )
                rate = y * nu / known
                tau2 = 1 / (n * rate + a)
                found.append((tau2 * (n * rate * mean + a * m0), mp.sqrt(tau2), 1 / mp.sqrt(rate)))
        return found


def check_fixed_point(fit):
    rng = np.random.default_rng(11)
    for _ in range(200):
        x, prior = random_problem(rng)
        q = fit(x, prior)
        computed = (q.mean("theta"), q.sd("theta"), q["sigma2"].scale)
        errors = [
            max(float(abs(mp.mpf(float(v)) / r - 1)) for v, r in zip(computed, root, strict=True))
            for root in mpmath_fixed_points(x, prior)
        ]
        assert min(errors) <= 1e-12


def check_degrees_of_freedom(fit):
    """nu0 + n: theta's prior does not depend on sigma2, so theta is no observation of it."""
    assert fit(LECTURE, NormalPrior(nu0=3.0))["sigma2"].dof == 15


def check_elbo_never_falls(fit):
    rng = np.random.default_rng(12)
    for _ in range(10):
        data, prior = random_batch(rng, 1000)
        trace = fit(data, prior, record=True).elbo_trace
        assert np.all(np.diff(trace, axis=0) >= -1e-10 * np.maximum(1, np.abs(trace[1:])))


def check_elbo_below_evidence(fit):
    rng = np.random.default_rng(13)
    for _ in range(150):
        x, prior = random_problem(rng)
        evidence = NormalExact(x, prior).log_evidence
        assert fit(x, prior).elbo <= evidence + 1e-10 * max(1, abs(evidence))


def check_elbo_monte_carlo(fit):
    """E_q[log p - log q] by SciPy's densities and 20,000 draws, within 4 standard errors."""
    rng = np.random.default_rng(14)
    for _ in range(20):
        x, prior = random_problem(rng, num=12)
        q = fit(x, prior)
        theta, sigma2 = q.sample(rng, 20_000).values()
        dof, scale = float(q["sigma2"].dof), float(q["sigma2"].scale)
        values = (
            stats.norm.logpdf(x, theta[:, None], np.sqrt(sigma2)[:, None]).sum(axis=1)
            + stats.norm.logpdf(theta, prior.mu0, prior.tau0)
            + stats.invgamma.logpdf(sigma2, prior.nu0 / 2, scale=prior.nu0 * prior.sigma0**2 / 2)
            - stats.norm.logpdf(theta, q.mean("theta"), q.sd("theta"))
            - stats.invgamma.logpdf(sigma2, dof / 2, scale=dof * scale**2 / 2)
        )
        standard_error = values.std(ddof=1) / np.sqrt(values.size)
        assert abs(values.mean() - q.elbo) <= 4 * standard_error


CHECKS = [
    check_fixed_point,
    check_degrees_of_freedom,
    check_elbo_never_falls,
    check_elbo_below_evidence,
    check_elbo_monte_carlo,
]


@pytest.mark.parametrize("check", CHECKS)
def test_check(check):
    check(fit_normal)


def n_plus_one_degrees_of_freedom(right):
    return property(lambda model: model.nu0 + model.num + 1)


def dropped_variance_of_theta(right):
    return lambda model, q: right(model, q | {"theta": replace(q["theta"], sd=0 * q["theta"].sd)})


def flipped_sign_in_elbo(right):
    return lambda model, q: right(model, q) - 2 * q["theta"].entropy()


@pytest.mark.parametrize(
    ("name", "bug", "check"),
    [
        ("dof", n_plus_one_degrees_of_freedom, check_degrees_of_freedom),
        ("dof", n_plus_one_degrees_of_freedom, check_fixed_point),
        ("update_sigma2", dropped_variance_of_theta, check_fixed_point),
        ("update_sigma2", dropped_variance_of_theta, check_elbo_never_falls),
        ("elbo", flipped_sign_in_elbo, check_elbo_monte_carlo),
        ("elbo", flipped_sign_in_elbo, check_elbo_never_falls),
    ],
)
def test_negative_control(name, bug, check, monkeypatch):
    monkeypatch.setattr(NormalModel, name, bug(getattr(NormalModel, name)))
    with pytest.raises(AssertionError):
        check(fit_normal)


def test_states_after_every_half_update():
    init = (Normal(np.array(0.0), np.array(3.0)), ScaledInvChiSquare(np.array(2.0), np.array(9.0)))
    q = fit_normal(LECTURE, init=init)
    names = [state.updated for state in q.states]
    assert names == ["start"] + ["theta", "sigma2"] * q.num_iter
    assert q.states[0].factors["sigma2"].dof == 2
    assert q.states[1].factors["sigma2"].scale == 9
    assert q.states[1].factors["theta"].mean == q.states[2].factors["theta"].mean
    elbos = np.array([state.elbo for state in q.states])
    assert np.all(np.diff(elbos) >= -1e-12)
    np.testing.assert_array_equal(q.elbo_trace, elbos[::2])
    assert q.states[-1].elbo == q.elbo
    assert q.elbo == pytest.approx(fit_normal(LECTURE).elbo, rel=1e-13)


def test_a_batch_is_its_data_sets():
    rng = np.random.default_rng(5)
    x = rng.normal(3, 2, size=(2, 3, 9))
    mu0 = rng.normal(size=(2, 3))
    batch = fit_normal(x, NormalPrior(mu0=mu0))
    assert batch.elbo.shape == batch.converged.shape == (2, 3)
    assert batch.elbo_trace.shape == (0, 2, 3)
    for i, j in np.ndindex(2, 3):
        one = fit_normal(x[i, j], NormalPrior(mu0=mu0[i, j]))
        assert batch.mean("theta")[i, j] == pytest.approx(float(one.mean("theta")), rel=1e-13)
        assert batch["sigma2"].scale[i, j] == pytest.approx(float(one["sigma2"].scale), rel=1e-13)
        assert batch.elbo[i, j] == pytest.approx(float(one.elbo), rel=1e-13)


def test_of_two_maxima_the_higher_is_found():
    x, prior = [10, 10.1, 9.9, 10.05], NormalPrior(0, 1, 0.5, 0.1)
    near_data = (Normal(np.array(10.0), np.array(0.1)), ScaledInvChiSquare(np.array(4.5), np.array(0.1)))  # fmt: skip  # noqa: E501
    lower = fit_normal(x, prior, init=near_data)
    higher = fit_normal(x, prior)
    assert lower.converged
    assert higher.elbo > lower.elbo + 1
    assert len(mpmath_fixed_points(x, prior)) == 3


def test_no_data_gives_the_prior_back():
    q = fit_normal([], NormalPrior(1.0, 2.0, 3.0, 4.0))
    assert [q.mean("theta"), q.sd("theta")] == [1, 2]
    assert (q["sigma2"].dof, q["sigma2"].scale) == (3, 4)
    assert q.elbo == pytest.approx(0, abs=1e-14)


def test_one_observation_and_constant_data():
    for x in ([3.0], [3.0] * 20):
        q = fit_normal(x)
        assert q.converged
        assert q.elbo < NormalExact(x).log_evidence


@pytest.mark.parametrize("exponent", [-498, -300, -20, 20, 300, 495])
def test_units_do_not_matter(exponent):
    """A power of two in data and prior scales everything, and shifts the ELBO by n of its logs."""
    unit, prior = 2.0**exponent, NormalPrior(1.0, 2.0, 3.0, 4.0)
    q, one = fit_normal(LECTURE, prior), NormalPrior(unit, 2 * unit, 3.0, 4 * unit)
    scaled = fit_normal(LECTURE * unit, one)
    assert scaled.mean("theta") == pytest.approx(float(q.mean("theta")) * unit, rel=1e-14)
    assert scaled.sd("theta") == pytest.approx(float(q.sd("theta")) * unit, rel=1e-14)
    assert scaled["sigma2"].scale == pytest.approx(float(q["sigma2"].scale) * unit, rel=1e-14)
    assert scaled.elbo == pytest.approx(float(q.elbo) - 12 * np.log(unit), rel=1e-12)


@pytest.mark.parametrize("tau0", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e149])
def test_scales_that_have_nothing_in_common(tau0, unit):
    x, prior = LECTURE * unit, NormalPrior(0, tau0, 2, unit)
    q, exact = fit_normal(x, prior), NormalExact(x, prior)
    assert q.converged
    assert 0 <= exact.log_evidence - q.elbo + 1e-10 * abs(q.elbo) < 1


def test_flat_limits_are_limits():
    flat, wide = (
        fit_normal(LECTURE, NormalPrior(0, np.inf)),
        fit_normal(LECTURE, NormalPrior(0, 1e9)),
    )
    assert flat.mean("theta") == pytest.approx(LECTURE.mean(), rel=1e-15)
    assert flat["sigma2"].scale == pytest.approx(float(wide["sigma2"].scale), rel=1e-12)
    # The flat density is 1, the wide one 1 / (sqrt(2 pi) 1e9) near the data.
    assert flat.elbo == pytest.approx(float(wide.elbo) + np.log(1e9 * np.sqrt(2 * np.pi)), rel=1e-9)
    none, little = (fit_normal(LECTURE, NormalPrior(nu0=nu)) for nu in (0.0, 1e-9))
    assert none["sigma2"].scale == pytest.approx(float(little["sigma2"].scale), rel=1e-8)
    both = fit_normal(LECTURE, NormalPrior(0, np.inf, 0))
    s2 = LECTURE.var(ddof=1)
    assert both["sigma2"].scale ** 2 == pytest.approx(s2, rel=1e-13)


def test_the_cap_is_a_flag_and_a_warning():
    with pytest.warns(
        NotConvergedWarning, match="had not converged after 2 sweeps: raise max_iter"
    ):
        q = fit_normal([3.0], NormalPrior(nu0=0.01), max_iter=1)
    assert not q.converged
    data = np.array([[3.0], [3.0]])
    with pytest.warns(NotConvergedWarning, match="1 of 2 fits"):
        q = fit_normal(data, NormalPrior(nu0=np.array([0.01, 1e9])), max_iter=2)
    assert q.converged.tolist() == [False, True]


def test_a_slow_fixed_point_is_reached_all_the_same():
    x, prior = np.array([3.0]), NormalPrior(nu0=0.01)
    q = fit_normal(x, prior)
    (_, _, scale), *_ = mpmath_fixed_points(x, prior)
    assert q.converged
    assert q["sigma2"].scale == pytest.approx(float(scale), rel=1e-12)


@given(
    x=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    shift=st.floats(-1e3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_order_and_origin_do_not_matter(x, shift, seed):
    x = np.round(np.array(x), 3)
    prior, moved = NormalPrior(1.0, 50.0, 2.0, 3.0), NormalPrior(1.0 + shift, 50.0, 2.0, 3.0)
    q = fit_normal(x, prior)
    other = fit_normal(np.random.default_rng(seed).permutation(x) + shift, moved)
    assert other.elbo == pytest.approx(float(q.elbo), rel=1e-7)
    tolerance = 1e-7 * float(q.sd("theta")) + 1e-10 * np.abs(x).max()
    assert other.mean("theta") - shift == pytest.approx(float(q.mean("theta")), abs=tolerance)
