"""Stochastic-gradient Langevin dynamics: its known bias, its mini-batches, the handout's error."""

import numpy as np
import pytest

from pyflowers.errors import ConfigError
from pyflowers.samplers import (
    SGLD,
    ConstantSteps,
    DecayingSteps,
    FullGradient,
    Gaussian,
    GradLogDensity,
    MinibatchGradient,
    handout_noise_sd,
    run,
)

from .checks import LINE, check_sgld_variance, check_unbiased_gradient


def sgld(target: GradLogDensity, step_size: float) -> SGLD:
    """Return SGLD with full gradients and constant steps."""
    return SGLD(FullGradient(target), ConstantSteps(step_size))


def test_stationary_variance() -> None:
    check_sgld_variance(sgld)


def test_the_check_sees_the_bias() -> None:
    """The bar is the biased variance: a tenth of a step more fails it."""
    with pytest.raises(AssertionError):
        check_sgld_variance(lambda target, step_size: sgld(target, 1.1 * step_size))


def test_handouts_noise_makes_draws_too_narrow() -> None:
    """Its variance settles at ε σ² / (1 − ε/(4σ²)): the factor √ε in width."""
    step_size, variance, num_chains = 0.1, 2.0, 100_000
    target = Gaussian([0.0], [[variance]])
    kernel = SGLD(FullGradient(target), ConstantSteps(step_size), handout_noise_sd)
    start = target.sample(np.random.default_rng(1), num_chains)
    state = run(kernel, np.random.default_rng(2), start, 1, 399).state
    expected = step_size * variance / (1 - step_size / (4 * variance))
    error = expected * np.sqrt(2 / num_chains)
    assert abs(state.position.var() - expected) < 5 * error
    assert state.position.std() < 0.35 * np.sqrt(variance)


def test_mini_batches_are_unbiased() -> None:
    check_unbiased_gradient(MinibatchGradient)


def test_mini_batches_find_the_regression() -> None:
    """With decaying steps, the weighted mean and sd of each chain are near the posterior's."""
    kernel = SGLD(MinibatchGradient(LINE, 6), DecayingSteps(a=0.004, b=10.0, gamma=0.51))
    start = np.tile(LINE.mean, (200, 1))
    result = run(kernel, np.random.default_rng(3), start, 4_000, 500)
    weights = result.sample_stats["step_size"][..., None]
    mean = (weights * result.draws).sum(axis=(0, 1)) / weights.sum()
    spread = (weights * (result.draws - mean) ** 2).sum(axis=(0, 1)) / weights.sum()
    assert np.all(np.abs(mean - LINE.mean) < 0.1 * np.sqrt(LINE.variance))
    assert np.all(np.abs(np.sqrt(spread / LINE.variance) - 1) < 0.15)


def test_schedules() -> None:
    assert [ConstantSteps(0.2)(t) for t in (0, 9)] == [0.2, 0.2]
    decaying = DecayingSteps(a=2.0, b=4.0, gamma=1.0)
    assert [decaying(t) for t in (0, 4)] == [0.5, 0.25]


def test_info_tells_the_step() -> None:
    schedule = DecayingSteps(a=1.0, b=2.0, gamma=1.0)
    kernel = SGLD(FullGradient(LINE), schedule)
    result = run(kernel, np.random.default_rng(4), LINE.mean[None], 3, num_warmup=1)
    assert np.allclose(result.sample_stats["step_size"], [[1 / 3, 1 / 4, 1 / 5]])
    assert result.state.iteration == 4


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most the 12 observations, was 13"):
        MinibatchGradient(LINE, 13)
