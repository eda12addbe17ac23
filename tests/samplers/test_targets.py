"""Targets: gradients, normalisation, moments and exact draws."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.samplers import (
    ExactTarget,
    Gamma,
    Gaussian,
    LinearRegression,
    LogGamma,
    NormalMixture,
    StandardNormal,
)

from .checks import CORRELATED, LINE, SKEWED, check_gradient, check_normalised, check_sample

X = np.linspace(-1.0, 2.0, 9)
TARGETS: dict[str, ExactTarget] = {
    "standard-normal": StandardNormal(3),
    "gaussian": CORRELATED,
    "mixture-metropolis": NormalMixture.lecture_metropolis(),
    "mixture-hmc": NormalMixture.lecture_hmc(),
    "mixture-unequal": NormalMixture([0.2, 0.5, 0.3], [-4.0, 0.0, 1.0], [0.3, 2.0, 1.0]),
    "gamma": Gamma([2.5, 6.0], [1.0, 3.0]),
    "log-gamma": SKEWED,
    "regression": LINE,
    "regression-flat-in-sigma": LinearRegression(X, X**2, flat_in="sigma"),
}
ONE_DIMENSIONAL: dict[str, ExactTarget] = {
    "standard-normal": StandardNormal(),
    "gaussian": Gaussian([3.0], [[0.2]]),
    "mixture-metropolis": NormalMixture.lecture_metropolis(),
    "mixture-hmc": NormalMixture.lecture_hmc(),
    "mixture-unequal": NormalMixture([0.2, 0.5, 0.3], [-4.0, 0.0, 1.0], [0.3, 2.0, 1.0]),
    "gamma": Gamma(2.5, 3.0),
    "log-gamma": LogGamma(0.7, 2.0),
}


@pytest.mark.parametrize("name", TARGETS)
def test_gradient_agrees_with_central_differences(name: str) -> None:
    check_gradient(TARGETS[name])


@pytest.mark.parametrize("name", TARGETS)
def test_exact_draws_have_the_moments(name: str) -> None:
    check_sample(TARGETS[name])


@pytest.mark.parametrize("name", ONE_DIMENSIONAL)
def test_density_is_normalised_and_has_the_moments(name: str) -> None:
    check_normalised(ONE_DIMENSIONAL[name])


def test_densities_agree_with_scipy() -> None:
    rng = np.random.default_rng(1)
    x = CORRELATED.sample(rng, 7)
    reference = stats.multivariate_normal(CORRELATED.mean, CORRELATED.covariance).logpdf(x)
    assert np.allclose(CORRELATED.log_density(x), reference)
    y = SKEWED.sample(rng, 7)
    reference = stats.gamma(SKEWED.shape, scale=1 / SKEWED.rate).logpdf(np.exp(y)) + y
    assert np.allclose(SKEWED.log_density(y), reference.sum(axis=1))
    x = np.exp(y)
    reference = stats.gamma(SKEWED.shape, scale=1 / SKEWED.rate).logpdf(x).sum(axis=1)
    assert np.allclose(Gamma(SKEWED.shape, SKEWED.rate).log_density(x), reference)


def test_the_lectures_densities_are_these() -> None:
    m = np.linspace(-6, 6, 25)[:, None]
    handout = 0.7 * np.exp(-((m - 1.5) ** 2) / 2) + 0.3 * np.exp(-((m + 1.5) ** 2) / 2)
    found = np.exp(NormalMixture.lecture_metropolis().log_density(m))
    assert np.allclose(found * np.sqrt(2 * np.pi), handout[:, 0])
    handout = 0.3 * stats.norm.pdf(m, -2) + 0.7 * stats.norm.pdf(m, 2)
    assert np.allclose(np.exp(NormalMixture.lecture_hmc().log_density(m)), handout[:, 0])


def test_mixture_cdf_agrees_with_its_draws() -> None:
    target = NormalMixture([0.2, 0.5, 0.3], [-4.0, 0.0, 1.0], [0.3, 2.0, 1.0])
    draws = target.sample(np.random.default_rng(2), 20_000)[:, 0]
    assert stats.kstest(draws, target.cdf).pvalue > 1e-5


def test_mixture_far_in_its_tail_is_finite() -> None:
    log_density, gradient = NormalMixture.lecture_hmc().log_density_gradient(np.array([[1e4]]))
    assert np.isfinite(log_density).all()
    assert gradient[0, 0] == pytest.approx(2 - 1e4)


def test_gamma_is_impossible_outside_its_support() -> None:
    log_density, gradient = Gamma([2.0, 2.0]).log_density_gradient(np.array([[1.0, -1.0]]))
    assert log_density[0] == -np.inf
    assert np.isfinite(gradient).all()


def test_tiny_shapes_do_not_underflow() -> None:
    draws = LogGamma(1e-3).sample(np.random.default_rng(3), 1_000)
    assert np.isfinite(draws).all()
    assert draws.min() < -1_000
