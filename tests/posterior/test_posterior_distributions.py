"""The two families against SciPy's and against numerical integrals."""

import numpy as np
import pytest
from scipy import integrate, stats

from pyflowers.vb import Normal, ScaledInvChiSquare

DOF = np.array([0.3, 1.0, 4.5, 60.0])
SCALE = np.array([0.2, 3.0, 1.0, 1e3])
SIGMA2 = ScaledInvChiSquare(DOF, SCALE)
REFERENCE = stats.invgamma(DOF / 2, scale=DOF * SCALE**2 / 2)
THETA = Normal(np.array([-1.0, 2.0]), np.array([0.5, 30.0]))
P = np.array([0.001, 0.05, 0.5, 0.95])


def test_scaled_inverse_chi_square_is_scipys_inverse_gamma():
    x = np.array([0.01, 1.0, 7.0, 2e6])[:, None] * np.ones(4)
    np.testing.assert_allclose(SIGMA2.logpdf(x), REFERENCE.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(SIGMA2.cdf(x), REFERENCE.cdf(x), rtol=1e-11)
    np.testing.assert_allclose(SIGMA2.quantile(P), REFERENCE.ppf(P[:, None]), rtol=1e-11)
    np.testing.assert_allclose(SIGMA2.entropy(), REFERENCE.entropy(), rtol=1e-11)


def test_moments_are_nan_where_there_are_none():
    np.testing.assert_array_equal(np.isnan(SIGMA2.mean), DOF <= 2)
    np.testing.assert_array_equal(np.isnan(SIGMA2.sd), DOF <= 4)
    np.testing.assert_allclose(SIGMA2.mean[2:], REFERENCE.mean()[2:], rtol=1e-12)
    np.testing.assert_allclose(SIGMA2.sd[2:], REFERENCE.std()[2:], rtol=1e-12)


@pytest.mark.parametrize("i", range(4))
def test_expectations_of_log_and_inverse(i):
    one = stats.invgamma(DOF[i] / 2, scale=DOF[i] * SCALE[i] ** 2 / 2)

    def expectation(h):
        ends = np.log(one.ppf(1e-17)) - 2, np.log(one.isf(1e-15))
        return integrate.quad(lambda u: h(np.exp(u)) * one.pdf(np.exp(u)) * np.exp(u), *ends,
                              limit=500, epsabs=0, epsrel=1e-11)[0]  # fmt: skip

    assert SIGMA2.mean_inverse[i] == pytest.approx(expectation(lambda v: 1 / v), rel=1e-8)
    if DOF[i] >= 1:
        assert SIGMA2.mean_log[i] == pytest.approx(expectation(np.log), rel=1e-6)


def test_support_ends_at_zero():
    assert np.all(SIGMA2.logpdf(0.0) == -np.inf)
    assert np.all(SIGMA2.logpdf(-1.0) == -np.inf)
    assert np.all(SIGMA2.cdf(0.0) == 0)


def test_normal_is_scipys():
    reference = stats.norm(THETA.mean, THETA.sd)
    np.testing.assert_allclose(THETA.logpdf(0.7), reference.logpdf(0.7), rtol=1e-13)
    np.testing.assert_allclose(THETA.cdf(0.7), reference.cdf(0.7), rtol=1e-13)
    np.testing.assert_allclose(THETA.quantile(P), reference.ppf(P[:, None]), rtol=1e-12)
    np.testing.assert_allclose(THETA.entropy(), reference.entropy(), rtol=1e-13)


def check_draws(sample):
    """Kolmogorov-Smirnov at the 1e-4 level, which sees location and spread alike."""
    rng = np.random.default_rng(20240101)
    for i in range(4):
        draws = sample(SIGMA2, rng, 4000)[:, i]
        one = stats.invgamma(DOF[i] / 2, scale=DOF[i] * SCALE[i] ** 2 / 2)
        assert stats.kstest(one.cdf(draws), "uniform").pvalue > 1e-4


def test_draws_follow_the_distribution():
    check_draws(ScaledInvChiSquare.sample)
    draws = THETA.sample(np.random.default_rng(3), (4000, 2))
    assert draws.shape == (4000, 2, 2)
    assert stats.kstest(((draws - THETA.mean) / THETA.sd).ravel(), "norm").pvalue > 1e-4


def test_the_draws_check_sees_a_scale_taken_for_its_square():
    def wrong(dist, rng, size):
        return dist.dof * dist.scale / rng.chisquare(dist.dof, (size, dist.dof.size))

    with pytest.raises(AssertionError):
        check_draws(wrong)
