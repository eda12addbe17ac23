"""Targets: gradients, normalisation, moments and exact draws."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from pyflowers.samplers import Gamma, LinearRegression, NormalMixture, StandardNormal

from .checks import CORRELATED, LINE, SKEWED, Flipped, Gaussian, LogGamma, check_gradient

X = np.linspace(-1.0, 2.0, 9)
UNEQUAL = NormalMixture([0.2, 0.5, 0.3], [-4.0, 0.0, 1.0], [0.3, 2.0, 1.0])
ONE_DIMENSIONAL: dict[str, Any] = {
    "standard-normal": StandardNormal(),
    "gaussian": Gaussian([3.0], [[0.2]]),
    "mixture-metropolis": NormalMixture.lecture_metropolis(),
    "mixture-hmc": NormalMixture.lecture_hmc(),
    "mixture-unequal": UNEQUAL,
    "gamma": Gamma(2.5, 3.0),
    "log-gamma": LogGamma(0.7, 2.0),
}
TARGETS: dict[str, Any] = ONE_DIMENSIONAL | {
    "standard-normal": StandardNormal(3),
    "gaussian": CORRELATED,
    "gamma": Gamma([2.5, 6.0], [1.0, 3.0]),
    "log-gamma": SKEWED,
    "regression": LINE,
    "regression-flat-in-sigma": LinearRegression(X, X**2, flat_in="sigma"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_gradient_agrees_with_central_differences(name):
    check_gradient(TARGETS[name], TARGETS[name].sample(np.random.default_rng(2), 40))


class NoJacobian(LogGamma):
    """The gamma density at exp(y), without the Jacobian exp(y)."""

    def log_density(self, y):
        return super().log_density(y) - y.sum(axis=-1)


@pytest.mark.parametrize("wrong", [Flipped(SKEWED), NoJacobian(SKEWED.shape, SKEWED.rate)])
def test_a_wrong_gradient_is_seen(wrong):
    with pytest.raises(AssertionError):
        check_gradient(wrong, SKEWED.sample(np.random.default_rng(2), 40))


@pytest.mark.parametrize("name", TARGETS)
def test_exact_draws_have_the_moments(name):
    """Agreement within 5 standard errors."""
    target = TARGETS[name]
    draws = target.sample(np.random.default_rng(3), 100_000)
    assert draws.shape == (100_000, target.dim)
    for power, exact in ((1, 0.0), (2, target.variance)):
        parts = (draws - target.mean) ** power
        error = parts.std(axis=0) / np.sqrt(len(parts))
        assert np.all(np.abs(parts.mean(axis=0) - exact) < 5 * error)


def check_normalised(target):
    """Check that π has mass 1, and the stated mean and variance."""

    def integrand(x, power):
        with np.errstate(over="ignore", under="ignore"):
            return float(x**power * np.exp(target.log_density(np.array([[x]]))[0]))

    # in two pieces, so that quad does not miss the mass; 40 sds on each side contain all of it
    centre, reach = target.mean[0], 40 * np.sqrt(target.variance[0])
    mass, first, second = (
        sum(
            integrate.quad(integrand, *sorted((centre, end)), (power,), limit=500)[0]
            for end in (centre - reach, centre + reach)
        )
        for power in range(3)
    )
    assert np.isclose(mass, 1, atol=1e-6)
    assert np.isclose(first, target.mean[0], atol=1e-6)
    assert np.isclose(second - first**2, target.variance[0], rtol=1e-5)


@pytest.mark.parametrize("name", ONE_DIMENSIONAL)
def test_density_is_normalised_and_has_the_moments(name):
    check_normalised(ONE_DIMENSIONAL[name])
    with pytest.raises(AssertionError):
        check_normalised(NoJacobian(1.5, 1.0))


def test_densities_agree_with_scipy():
    rng = np.random.default_rng(1)
    x = CORRELATED.sample(rng, 7)
    reference = stats.multivariate_normal(CORRELATED.mean, CORRELATED.covariance).logpdf(x)
    assert np.allclose(CORRELATED.log_density(x), reference)
    x = np.exp(SKEWED.sample(rng, 7))
    reference = stats.gamma(SKEWED.shape, scale=1 / SKEWED.rate).logpdf(x).sum(axis=1)
    assert np.allclose(Gamma(SKEWED.shape, SKEWED.rate).log_density(x), reference)


def test_the_lectures_densities_are_these():
    m, pdf = np.linspace(-6, 6, 25), stats.norm.pdf
    for target, handout in (
        (NormalMixture.lecture_metropolis(), 0.7 * pdf(m, 1.5) + 0.3 * pdf(m, -1.5)),
        (NormalMixture.lecture_hmc(), 0.3 * pdf(m, -2) + 0.7 * pdf(m, 2)),
    ):
        assert np.allclose(np.exp(target.log_density(m[:, None])), handout)


def test_mixture_cdf_agrees_with_its_draws():
    draws = UNEQUAL.sample(np.random.default_rng(2), 20_000)[:, 0]
    assert stats.kstest(draws, UNEQUAL.cdf).pvalue > 1e-5


def test_mixture_far_in_its_tail_is_finite():
    log_density, gradient = NormalMixture.lecture_hmc().log_density_gradient(np.array([[1e4]]))
    assert np.isfinite(log_density).all()
    assert gradient[0, 0] == pytest.approx(2 - 1e4)


def test_gamma_is_impossible_outside_its_support():
    log_density, gradient = Gamma([2.0, 2.0]).log_density_gradient(np.array([[1.0, -1.0]]))
    assert log_density[0] == -np.inf
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(("flat_in", "lost"), [("log_sigma", 2), ("sigma", 3)])
def test_regression_is_the_factored_posterior(flat_in, lost):
    """The density is p(σ² | y) p(α, β | σ, y), with the Jacobian of log σ, up to one constant."""
    target = LinearRegression(LINE.x, LINE.y, flat_in)
    theta = target.sample(np.random.default_rng(1), 30)
    nu, scale = target.degrees_of_freedom, target.residual_variance
    assert nu == LINE.num_obs - lost
    variance = np.exp(2 * theta[:, 2])
    design = np.column_stack([np.ones(target.num_obs), target.x])
    covariance = np.linalg.inv(design.T @ design)
    centre = np.linalg.solve(design.T @ design, design.T @ target.y)
    posterior = stats.invgamma(nu / 2, scale=nu * scale / 2).logpdf(variance) + np.log(2 * variance)
    posterior += [
        stats.multivariate_normal(centre, v * covariance).logpdf(line)
        for v, line in zip(variance, theta[:, :2], strict=True)
    ]
    assert np.ptp(target.log_density(theta) - posterior) < 1e-9


@pytest.mark.parametrize("flat_in", ["log_sigma", "sigma"])
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_exact_draws_follow_the_t_marginal(name, flat_in):
    target = LinearRegression(LINE.x, LINE.y, flat_in)
    draws = target.sample(np.random.default_rng(2), 20_000)[:, target.names.index(name)]
    assert stats.kstest(draws, target.marginal(name).cdf).pvalue > 1e-5
    other = LinearRegression(LINE.x, LINE.y + 0.02 * (1 + LINE.x), flat_in)
    assert stats.kstest(draws, other.marginal(name).cdf).pvalue < 1e-5


def test_moments_that_do_not_exist_are_said():
    target = LinearRegression([0, 1, 2], [0, 1, 0.5])
    assert np.isnan(target.mean[:2]).all()
    assert np.isinf(target.variance[:2]).all()
    assert np.isfinite([target.mean[2], target.variance[2]]).all()


def test_mini_batches_add_up_to_the_likelihood():
    theta = LINE.sample(np.random.default_rng(3), 4)
    halves = np.arange(LINE.num_obs).reshape(2, -1)
    parts = sum(LINE.log_lik_gradient(theta, np.tile(half, (4, 1))) for half in halves)
    full = LINE.log_density_gradient(theta)[1]
    assert np.allclose(parts + LINE.log_prior_gradient(theta), full)
