"""The regression posterior against its textbook form."""

from typing import Literal

import numpy as np
import pytest
from scipy import stats

from pyflowers.samplers import LinearRegression

from .checks import LINE


@pytest.mark.parametrize("flat_in", ["log_sigma", "sigma"])
def test_log_density_is_the_factored_posterior(flat_in: Literal["log_sigma", "sigma"]) -> None:
    """P(σ² | y) times p(α, β | σ, y), with the Jacobian of log σ, up to one constant."""
    target = LinearRegression(LINE.x, LINE.y, flat_in)
    theta = target.sample(np.random.default_rng(1), 30)
    nu, scale = target.degrees_of_freedom, target.residual_variance
    variance = np.exp(2 * theta[:, 2])
    design = np.column_stack([np.ones(target.num_obs), target.x])
    covariance = np.linalg.inv(design.T @ design)
    centre = np.linalg.solve(design.T @ design, design.T @ target.y)
    posterior = stats.invgamma(nu / 2, scale=nu * scale / 2).logpdf(variance) + np.log(2 * variance)
    posterior += [
        stats.multivariate_normal(centre, v * covariance).logpdf(line)
        for v, line in zip(variance, theta[:, :2], strict=True)
    ]
    difference = target.log_density(theta) - posterior
    assert np.ptp(difference) < 1e-9


@pytest.mark.parametrize("flat_in", ["log_sigma", "sigma"])
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_exact_draws_follow_the_t_marginal(
    name: Literal["alpha", "beta"], flat_in: Literal["log_sigma", "sigma"]
) -> None:
    target = LinearRegression(LINE.x, LINE.y, flat_in)
    draws = target.sample(np.random.default_rng(2), 20_000)[:, target.names.index(name)]
    assert stats.kstest(draws, target.marginal(name).cdf).pvalue > 1e-5
    other = LinearRegression(LINE.x, LINE.y + 0.02, flat_in)
    assert name == "beta" or stats.kstest(draws, other.marginal(name).cdf).pvalue < 1e-5


@pytest.mark.parametrize(("flat_in", "lost"), [("log_sigma", 2), ("sigma", 3)])
def test_degrees_of_freedom(flat_in: Literal["log_sigma", "sigma"], lost: int) -> None:
    assert LinearRegression(LINE.x, LINE.y, flat_in).degrees_of_freedom == LINE.num_obs - lost


def test_moments_that_do_not_exist_are_said() -> None:
    target = LinearRegression([0, 1, 2], [0, 1, 0.5])
    assert np.isnan(target.mean[:2]).all()
    assert np.isinf(target.variance[:2]).all()
    assert np.isfinite([target.mean[2], target.variance[2]]).all()


def test_mini_batches_add_up_to_the_likelihood() -> None:
    theta = LINE.sample(np.random.default_rng(3), 4)
    halves = np.arange(LINE.num_obs).reshape(2, -1)
    parts = sum(LINE.log_lik_gradient(theta, np.tile(half, (4, 1))) for half in halves)
    full = LINE.log_density_gradient(theta)[1]
    assert np.allclose(parts + LINE.log_prior_gradient(theta), full)
