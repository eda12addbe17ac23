"""The two-parameter posterior against independent integrators."""

import functools
import math
import pickle

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pyflowers import exact
from pyflowers.errors import ConfigError, DataError
from pyflowers.exact import NormalExact, exact_multilevel_poisson, kl_divergence
from pyflowers.vb import MultilevelPrior, NormalPrior, ScaledInvChiSquare, fit_normal

LECTURE = np.array([4, 5, 6, 4, 0, 2, 5, 3, 8, 6, 10, 8.0])
DEFAULT = NormalPrior(0, 100, 1, 2)
CASES = [
    (LECTURE, DEFAULT),
    (LECTURE, NormalPrior(-3.0, 0.5, 4.0, 1.0)),  # prior and data disagree
    (np.array([10.1, 9.9, 10.05, 10.0]), NormalPrior(0, 1, 0.5, 0.1)),  # two modes
    (np.array([2.5]), NormalPrior(0, 3, 2, 1)),
    (np.full(5, 7.0), NormalPrior(0, 30, 3, 0.5)),
]


def log_joint(x, prior, theta, u):
    """Return log p(x, theta, log sigma2), term by term from the raw data."""
    v, half = math.exp(u), prior.nu0 / 2
    value = -0.5 * sum((one - theta) ** 2 for one in x.tolist()) / v
    value -= 0.5 * len(x) * (math.log(2 * math.pi) + u)
    value -= 0.5 * ((theta - prior.mu0) / prior.tau0) ** 2
    value -= math.log(prior.tau0) + 0.5 * math.log(2 * math.pi)
    value += half * math.log(half * prior.sigma0**2) - math.lgamma(half)
    return value - half * u - half * prior.sigma0**2 / v


def mpmath_moments(x, prior):
    """Return evidence and moments by tanh-sinh over log sigma2; theta is integrated in closed form.

    The algebra differs from the package's: the conditional normal of theta comes from completing
    the square with the raw data.
    """
    with mp.workdps(20):
        data = [mp.mpf(float(v)) for v in x]
        m0, t2 = mp.mpf(prior.mu0), mp.mpf(prior.tau0) ** 2
        nu, s2 = mp.mpf(prior.nu0), mp.mpf(prior.sigma0) ** 2

        @functools.cache
        def parts(u):
            v = mp.exp(u)
            precision = len(data) / v + 1 / t2
            mean = (mp.fsum(data) / v + m0 / t2) / precision
            squares = mp.fsum(d**2 for d in data) / v + m0**2 / t2 - precision * mean**2
            log_density = (
                -mp.mpf(len(data)) / 2 * mp.log(2 * mp.pi * v) - mp.log(t2 * precision) / 2
            )
            log_density -= squares / 2
            log_density += nu / 2 * mp.log(nu * s2 / 2) - mp.loggamma(nu / 2) - nu / 2 * u
            return mp.exp(log_density - nu * s2 / (2 * v)), mean, 1 / precision

        size = float(mp.log(s2 + mp.fsum((d - m0) ** 2 for d in data) / len(data)))
        points = [mp.mpf(size) + k for k in (*np.arange(-14, 12, 0.5), 15, 20, 30, 50, 90)]

        def integral(h):
            return mp.quad(lambda u: h(u, *parts(u)), points, maxdegree=6)

        total = integral(lambda u, f, m, s: f)
        mean = integral(lambda u, f, m, s: f * m) / total
        var = integral(lambda u, f, m, s: f * (s + (m - mean) ** 2)) / total
        sigma2 = integral(lambda u, f, m, s: f * mp.exp(u)) / total
        return float(mp.log(total)), float(mean), float(mp.sqrt(var)), float(sigma2)


def check_against_mpmath(make):
    for x, prior in CASES:
        posterior = make(x, prior)
        evidence, mean, sd, sigma2 = mpmath_moments(x, prior)
        assert posterior.log_evidence == pytest.approx(evidence, abs=1e-8)
        assert posterior.mean("theta") == pytest.approx(mean, rel=1e-8)
        assert posterior.sd("theta") == pytest.approx(sd, rel=1e-8)
        if len(x) + prior.nu0 > 2:
            assert posterior.mean("sigma2") == pytest.approx(sigma2, rel=1e-8)


@pytest.mark.quick
def test_evidence_and_moments_against_mpmath():
    check_against_mpmath(NormalExact)


def test_negative_control_one_observation_too_many(monkeypatch):
    """The planted bug is a prior on theta that depends on sigma2, so that n + 1 values count."""
    right = NormalExact._log_joint
    monkeypatch.setattr(NormalExact, "_log_joint", lambda self, u: right(self, u) - u / 2)
    with pytest.raises(AssertionError):
        check_against_mpmath(NormalExact)


@pytest.mark.parametrize(("x", "prior"), CASES)
def test_densities_distribution_functions_and_quantiles_belong_together(x, prior):
    posterior = NormalExact(x, prior)
    p = np.array([1e-6, 0.05, 0.5, 0.9, 1 - 1e-6])
    for name in posterior.names:
        ends = posterior.quantile(name, p)
        np.testing.assert_allclose(posterior.cdf(name, ends), p, rtol=0, atol=1e-11)
        change = np.log if name == "sigma2" else (lambda v: v)
        back = np.exp if name == "sigma2" else (lambda v: v)
        for low, high, mass in zip(ends[:-1], ends[1:], np.diff(p), strict=True):
            value, _ = integrate.quad(
                lambda t, name=name, back=back: (
                    float(posterior.pdf(name, back(t))) * (back(t) if name == "sigma2" else 1)
                ),
                change(low),
                change(high),
                limit=300,
                epsabs=1e-11,
            )
            assert value == pytest.approx(mass, abs=1e-8)


def test_joint_density_is_the_product_of_its_parts():
    posterior = NormalExact(LECTURE, DEFAULT)
    for theta, sigma2 in ((5.0, 7.0), (2.0, 30.0)):
        u = np.log(sigma2)
        expected = log_joint(LECTURE, DEFAULT, theta, u) - u - posterior.log_evidence
        assert posterior.logpdf(theta, sigma2) == pytest.approx(expected, abs=1e-10)
    theta, sigma2 = np.meshgrid(np.linspace(1, 9, 5), [-1.0, 0.0, 4.0])
    values = posterior.logpdf(theta, sigma2)
    assert values.shape == (3, 5)
    assert np.all(values[:2] == -np.inf)


def test_flat_limits_are_textbook():
    """BDA3 section 3.2: Student t and scaled inverse chi-square with n - 1 degrees of freedom."""
    n, s2 = 12, LECTURE.var(ddof=1)
    posterior = NormalExact(LECTURE, NormalPrior(0, np.inf, 0))
    t = stats.t(n - 1, LECTURE.mean(), np.sqrt(s2 / n))
    v = stats.invgamma((n - 1) / 2, scale=(n - 1) * s2 / 2)
    p = np.array([0.001, 0.3, 0.5, 0.99])
    np.testing.assert_allclose(posterior.quantile("theta", p), t.ppf(p), rtol=1e-11)
    np.testing.assert_allclose(posterior.quantile("sigma2", p), v.ppf(p), rtol=1e-11)
    assert posterior.sd("theta") == pytest.approx(t.std(), rel=1e-11)
    assert posterior.sd("sigma2") == pytest.approx(v.std(), rel=1e-11)


def test_no_data_gives_the_prior_back():
    posterior, v = NormalExact([], NormalPrior(1, 2, 5, 3)), ScaledInvChiSquare(np.array(5.0), np.array(3.0))  # fmt: skip  # noqa: E501
    assert posterior.log_evidence == pytest.approx(0, abs=1e-13)
    assert posterior.quantile("sigma2", 0.2) == pytest.approx(float(v.quantile(0.2)), rel=1e-11)
    assert posterior.sd("sigma2") == pytest.approx(float(v.sd), rel=1e-11)
    assert posterior.quantile("theta", 0.8) == pytest.approx(stats.norm.ppf(0.8, 1, 2), rel=1e-11)


def test_a_million_observations():
    x = 5 + 1e-3 * np.random.default_rng(0).normal(size=10**6)
    posterior = NormalExact(x, NormalPrior(sigma0=1e-3))
    assert posterior.sd("theta") == pytest.approx(x.std() / 1e3, rel=1e-5)
    assert posterior.sd("sigma2") == pytest.approx(x.var() * np.sqrt(2e-6), rel=1e-4)


@pytest.mark.parametrize("exponent", [-498, -60, 60, 490])
def test_units_do_not_matter(exponent):
    unit = 2.0**exponent
    one = NormalExact(LECTURE, NormalPrior(1, 2, 3, 4))
    scaled = NormalExact(LECTURE * unit, NormalPrior(unit, 2 * unit, 3, 4 * unit))
    assert scaled.sd("theta") == pytest.approx(float(one.sd("theta")) * unit, rel=1e-12)
    assert scaled.mean("sigma2") == pytest.approx(float(one.mean("sigma2")) * unit**2, rel=1e-11)
    assert scaled.log_evidence == pytest.approx(one.log_evidence - 12 * np.log(unit), rel=1e-13)


def test_moments_that_do_not_exist_say_why():
    posterior = NormalExact([2.0], NormalPrior(0, 10, 1, 2))
    assert np.isnan(posterior.mean("sigma2"))
    assert "2 degrees of freedom, but the mean exists only above 2" in posterior.missing_moments["sigma2", "mean"]  # fmt: skip  # noqa: E501
    flat = NormalExact([2.0], NormalPrior(0, np.inf, 1, 2))
    assert np.isnan(flat.mean("theta"))
    assert ("theta", "mean") in flat.missing_moments
    assert np.isfinite(flat.quantile("theta", 0.9))
    assert not NormalExact(LECTURE).missing_moments


def test_kl_is_what_sampling_q_says():
    q, posterior = fit_normal(LECTURE), NormalExact(LECTURE)
    theta, sigma2 = q.sample(np.random.default_rng(8), 50_000).values()
    values = q.log_q(theta, sigma2) - posterior.logpdf(theta, sigma2)
    assert abs(values.mean() - kl_divergence(q, posterior)) <= 4 * values.std() / np.sqrt(50_000)


def test_iid_normal_is_this_model_by_its_own_names():
    posterior = NormalExact(LECTURE, location="mu")
    assert posterior.names == ("mu", "sigma2")
    assert posterior.quantile("mu", 0.5) == NormalExact(LECTURE).quantile("theta", 0.5)
    grid, density = posterior.marginal("mu")
    assert integrate.simpson(density, x=grid) == pytest.approx(1, abs=1e-5)


def test_results_can_be_pickled():
    prior = MultilevelPrior(0, 3, 4, 1)
    both = NormalExact(LECTURE), exact_multilevel_poisson(LECTURE, ["a", "b", "c"] * 4, prior)
    for posterior in both:
        again = pickle.loads(pickle.dumps(posterior))
        for name in posterior.names:
            np.testing.assert_array_equal(again.quantile(name, 0.3), posterior.quantile(name, 0.3))


def test_public_names():
    assert sorted(exact.__all__) == [
        "ExactDraws", "ExactPosterior", "HyperDraws", "MultilevelExact", "NormalExact",
        "NormalSampler", "NotRefinedWarning", "PoissonSampler", "draw_normal",
        "exact_multilevel_normal", "exact_multilevel_poisson", "kl_divergence",
    ]  # fmt: skip
    assert all(hasattr(exact, name) for name in exact.__all__)


ERRORS = [
    (lambda: NormalExact(np.ones((2, 3))), DataError, r"x is a batch of shape \(2,\), but"),
    (
        lambda: NormalExact([1.0], NormalPrior(mu0=np.zeros(2))),
        ConfigError,
        "prior contains arrays",
    ),
    (lambda: NormalExact([1.0], NormalPrior(nu0=0)), DataError, "posterior is improper"),
    (lambda: NormalExact([], NormalPrior(0, np.inf)), DataError, "give a finite tau0"),
    (lambda: NormalExact([np.nan]), DataError, r"x\[0\] is nan"),
    (lambda: NormalExact(LECTURE).mean("mu"), ConfigError, "no parameter 'mu'; it has theta"),
    (lambda: NormalExact(LECTURE).sd("mu"), ConfigError, "no parameter 'mu'"),
    (lambda: NormalExact(LECTURE).quantile("theta", -1), ConfigError, "p is -1, but a probability"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


@given(
    x=st.lists(st.floats(-50, 50), max_size=12),
    prior=st.tuples(
        st.floats(-50, 50), st.floats(0.01, 1e3), st.floats(0.3, 50), st.floats(0.05, 50)
    ),
)
@settings(max_examples=40, deadline=None)
def test_distribution_functions_are_proper(x, prior):
    posterior = NormalExact(np.round(x, 4), NormalPrior(*prior))
    p = np.array([0.01, 0.5, 0.99])
    for name in posterior.names:
        ends = posterior.quantile(name, p)
        assert np.all(np.diff(ends) > 0)
        np.testing.assert_allclose(posterior.cdf(name, ends), p, atol=1e-9)


@pytest.mark.parametrize(("x", "prior"), CASES[:2])
def test_evidence_is_that_of_another_quadrature_in_two_dimensions(x, prior):
    posterior = NormalExact(x, prior)
    low, high = posterior.quantile("sigma2", [1e-12, 1 - 1e-12])
    theta = posterior.quantile("theta", [1e-12, 1 - 1e-12])
    value, _ = integrate.nquad(
        lambda u, t: math.exp(log_joint(x, prior, t, u) - posterior.log_evidence),
        [np.log([low, high]), theta],
        opts={"epsabs": 1e-9, "epsrel": 1e-9, "limit": 100},
    )
    assert value == pytest.approx(1, abs=1e-8)
