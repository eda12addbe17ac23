"""Stochastic-gradient Langevin dynamics: its known bias, its mini-batches, the handout's error."""

import numpy as np
import pytest

from pyflowers.samplers import SGLD, DecayingSteps, handout_noise_sd, run

from .checks import LINE, Gaussian

NORMAL = Gaussian([0.0], [[2.0]])


class FullDrift(SGLD):
    """Drift ε instead of Langevin's ε/2."""

    def gradient(self, rng, x):
        return 2 * super().gradient(rng, x)


def variance_error(kernel, expected, num_chains=100_000):
    """Return the difference of the limiting variance from its expectation, in standard errors."""
    state = kernel.init(NORMAL.sample(np.random.default_rng(9), num_chains))
    rng = np.random.default_rng(10)
    # enough steps n that |1 − ε/(2σ²)|^(2n) ≤ 1e-6, so that the start is forgotten
    contraction = abs(1 - kernel.step_size / 4)
    for _ in range(int(np.ceil(np.log(1e-3) / np.log(contraction)))):
        state, _ = kernel(rng, state)
    assert abs(state.position.mean()) < 5 * np.sqrt(expected / num_chains)
    return abs(state.position.var() - expected) / (expected * np.sqrt(2 / num_chains))


@pytest.mark.parametrize("step_size", [0.25, 1.0, 3.0])
def test_stationary_variance(step_size):
    """The variance is σ² / (1 − ε/(4σ²)) with full gradients."""
    expected = 2 / (1 - step_size / 8)
    assert variance_error(SGLD(NORMAL, step_size), expected) < 5
    if step_size == 3:
        assert variance_error(SGLD(NORMAL, step_size), 2 / (1 - 1.1 * step_size / 8)) > 5
    if step_size < 1:
        assert variance_error(SGLD(NORMAL, step_size, noise_sd=handout_noise_sd), expected) > 5
        assert variance_error(FullDrift(NORMAL, step_size), expected) > 5


def test_handouts_noise_makes_draws_too_narrow():
    """Their variance converges to ε σ² / (1 − ε/(4σ²)): they are too narrow by a factor of √ε."""
    kernel = SGLD(NORMAL, 0.1, noise_sd=handout_noise_sd)
    assert variance_error(kernel, 0.1 * 2 / (1 - 0.1 / 8)) < 5


class Unscaled(SGLD):
    """The mini-batch counts once instead of N/n times."""

    def gradient(self, rng, x):
        prior = self.target.log_prior_gradient(x)
        return prior + (super().gradient(rng, x) - prior) * self.batch_size / self.target.num_obs


@pytest.mark.parametrize(("kernel", "unbiased"), [(SGLD, True), (Unscaled, False)])
def test_mini_batches_are_unbiased(kernel, unbiased):
    theta = np.tile([-0.8, 1.7, -0.5], (50_000, 1))
    full = LINE.log_density_gradient(theta[:1])[1]
    rng = np.random.default_rng(11)
    estimates = kernel(LINE, 0.1, 3).gradient(rng, theta)
    error = estimates.std(axis=0) / np.sqrt(len(theta))
    assert np.all(np.abs(estimates.mean(axis=0) - full) < 5 * error) == unbiased
    assert np.all(error > 0)
    assert np.allclose(SGLD(LINE, 0.1, LINE.num_obs).gradient(rng, theta[:5]), full)


def test_mini_batches_find_the_regression():
    """With decaying steps, the weighted mean and sd of the draws are close to the posterior's."""
    kernel = SGLD(LINE, DecayingSteps(0.004, 10.0, 0.51), 6)
    start = np.tile(LINE.mean, (200, 1))
    result = run(kernel, np.random.default_rng(3), start, 4_000, 500)
    weights = result.sample_stats["step_size"][..., None]
    mean = (weights * result.draws).sum(axis=(0, 1)) / weights.sum()
    spread = (weights * (result.draws - mean) ** 2).sum(axis=(0, 1)) / weights.sum()
    assert np.all(np.abs(mean - LINE.mean) < 0.1 * np.sqrt(LINE.variance))
    assert np.all(np.abs(np.sqrt(spread / LINE.variance) - 1) < 0.15)


def test_info_tells_the_step():
    kernel = SGLD(LINE, lambda t: 1 / (2 + t))
    result = run(kernel, np.random.default_rng(4), LINE.mean[None], 3, num_warmup=1)
    assert np.allclose(result.sample_stats["step_size"], [[1 / 3, 1 / 4, 1 / 5]])
    assert result.state.iteration == 4
