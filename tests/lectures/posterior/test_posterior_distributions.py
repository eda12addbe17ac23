"""Two families of distributions against SciPy and numerical integrals; sufficient statistics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pyflowers.errors import DataError
from pyflowers.vb import Normal, ScaledInvChiSquare, SufficientStatistics

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
    """Run a Kolmogorov-Smirnov test at the 1e-4 level, which detects wrong location and spread."""
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


def test_of_arrays_and_of_groups_agree():
    rng = np.random.default_rng(1)
    x = rng.normal(1e6, 1, size=(7, 5))
    rows = SufficientStatistics.from_array(x)
    order = rng.permutation(35)
    labels = np.repeat([f"plant {i}" for i in range(7)], 5)
    grouped, names = SufficientStatistics.from_groups(x.ravel()[order], labels[order])
    back = [names.index(f"plant {i}") for i in range(7)]
    np.testing.assert_array_equal(grouped.num[back], rows.num)
    np.testing.assert_allclose(grouped.mean[back], rows.mean, rtol=1e-15)
    np.testing.assert_allclose(grouped.ss[back], rows.ss, rtol=1e-10)


def test_labels_stand_in_order_of_appearance():
    _, labels = SufficientStatistics.from_groups([1.0, 2.0, 3.0], ["b", "a", "b"])
    assert labels == ("b", "a")


@given(
    value=st.floats(-1e100, 1e100).filter(lambda v: v == 0 or abs(v) > 1e-100),
    num=st.integers(1, 40),
)
@settings(max_examples=200, deadline=None)
def test_equal_observations_have_no_spread_at_all(value, num):
    one = SufficientStatistics.from_array([value] * num)
    grouped, _ = SufficientStatistics.from_groups([value] * num, ["a"] * num)
    assert one.ss == 0
    assert one.mean == value
    assert grouped.ss[0] == 0


def test_a_large_mean_costs_no_digits():
    x = np.array([1e9 + 1, 1e9 + 2, 1e9 + 3])
    assert SufficientStatistics.from_array(x).ss == pytest.approx(2, rel=1e-14)


def test_no_observations():
    assert SufficientStatistics.from_array([]).num == 0
    assert SufficientStatistics.from_array(np.empty((3, 0))).mean.tolist() == [0, 0, 0]


ERRORS = [
    (lambda: SufficientStatistics.from_array(3.0), "x must be an array"),
    (lambda: SufficientStatistics.from_array([[1, 2], [3, np.nan]]), r"x\[1, 1\] is nan"),
    (lambda: SufficientStatistics.from_array([1, np.inf]), r"x\[1\] is inf"),
    (lambda: SufficientStatistics.from_array([1e160, 1]), r"x\[0\] is 1e\+160.*rescale"),
    (lambda: SufficientStatistics.from_array([1e-160, 0]), "must be 0 or at least 1e-301"),
    (lambda: SufficientStatistics.from_groups([1.0, np.nan], "ab"), r"y\[1\] is nan"),
    (lambda: SufficientStatistics.from_groups([1.0], "ab"), "give one label per value"),
    (lambda: SufficientStatistics(2.5, 0, 1), "num is 2.5, but must be a whole number"),
    (lambda: SufficientStatistics([1, -1], 0, 0), r"num\[1\] is -1"),
    (lambda: SufficientStatistics(3, np.nan, 1), "mean is nan"),
    (lambda: SufficientStatistics(3, 0, -1), "ss is -1"),
    (lambda: SufficientStatistics(1, 0, 1), "must be 0 when num is 0 or 1"),
    (lambda: SufficientStatistics([1, 2], [1, 2, 3], 0), "must broadcast to one shape"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_what_it_refuses(call, message):
    with pytest.raises(DataError, match=message):
        call()
