"""The driver, targets of one point at a time, and what a run hands on."""

from typing import Any

import numpy as np

import pyflowers.samplers
from pyflowers.samplers import (
    HMC,
    Gaussian,
    GaussianStep,
    Kernel,
    Metropolis,
    OneAtATime,
    StandardNormal,
    run,
)
from pyflowers.samplers.densities import FloatArray

from .checks import CORRELATED

UNIT_STEP = GaussianStep(1.0)


class _OnePoint:
    """A target like a Stan program's: it takes one point, and returns a float."""

    def log_density(self, x: FloatArray, /) -> float:
        return float(CORRELATED.log_density(x[None])[0])

    def log_density_gradient(self, x: FloatArray, /) -> tuple[float, FloatArray]:
        assert x.shape == (2,)
        log_density, gradient = CORRELATED.log_density_gradient(x[None])
        return float(log_density[0]), gradient[0]


def test_one_at_a_time_is_the_vectorised_target() -> None:
    start = np.zeros((3, 2))
    looped = OneAtATime(_OnePoint())
    kernels: tuple[tuple[Kernel[Any], Kernel[Any]], ...] = (
        (HMC(CORRELATED, 0.3, 4), HMC(looped, 0.3, 4)),
        (Metropolis(CORRELATED, UNIT_STEP), Metropolis(looped, UNIT_STEP)),
    )
    for pair in kernels:
        one, other = (run(kernel, np.random.default_rng(1), start, 20).draws for kernel in pair)
        assert np.allclose(one, other, rtol=0, atol=1e-10)


def test_shapes_and_names() -> None:
    result = run(HMC(CORRELATED, 0.3, 4), np.random.default_rng(2), np.zeros((3, 2)), 20)
    assert result.draws.shape == (3, 20, 2)
    assert set(result.sample_stats) == {
        "lp",
        "acceptance_rate",
        "accepted",
        "energy",
        "energy_error",
        "diverging",
        "step_size",
    }
    assert all(values.shape == (3, 20) for values in result.sample_stats.values())
    assert result.sample_stats["diverging"].dtype == bool
    assert np.allclose(
        result.sample_stats["lp"],
        CORRELATED.log_density(result.draws.reshape(-1, 2)).reshape(3, 20),
    )
    named = result.posterior(["mu", "tau"])
    assert np.array_equal(named["tau"], result.draws[..., 1])
    assert result.posterior()["x"].shape == (3, 20, 2)


def test_same_seed_same_draws_and_warmup_is_thrown_away() -> None:
    kernel, start = Metropolis(StandardNormal(), UNIT_STEP), np.zeros((4, 1))
    long = run(kernel, np.random.default_rng(3), start, 30).draws
    late = run(kernel, np.random.default_rng(3), start, 20, num_warmup=10).draws
    assert np.array_equal(long[:, 10:], late)


def test_a_run_goes_on_from_its_last_state() -> None:
    kernel, start = Metropolis(StandardNormal(), UNIT_STEP), np.zeros((4, 1))
    whole = run(kernel, np.random.default_rng(4), start, 20).draws
    rng = np.random.default_rng(4)
    first = run(kernel, rng, start, 12)
    second = run(kernel, rng, first.state.position, 8)
    assert np.array_equal(whole, np.concatenate([first.draws, second.draws], axis=1))


def test_a_kernel_changes_nothing_it_was_given() -> None:
    start = np.zeros((4, 2))
    for kernel in (HMC(CORRELATED, 0.3, 4), Metropolis(CORRELATED, GaussianStep(1.0))):
        state = kernel.init(start)
        before = [np.copy(part) for part in state]
        kernel(np.random.default_rng(5), state)
        assert all(map(np.array_equal, before, state))
    assert np.all(start == 0)


def test_warmup_forgets_a_bad_start() -> None:
    target = Gaussian([0.0], [[1.0]])
    kernel = Metropolis(target, GaussianStep(2.0))
    result = run(kernel, np.random.default_rng(6), np.full((500, 1), 30.0), 100, num_warmup=100)
    means = result.draws.mean(axis=(1, 2))
    assert abs(means.mean()) < 5 * means.std() / np.sqrt(500)


def test_all_is_what_there_is() -> None:
    names = pyflowers.samplers.__all__
    assert len(names) == len(set(names))
    assert all(hasattr(pyflowers.samplers, name) for name in names)
    from_modules = {
        name
        for name, value in vars(pyflowers.samplers).items()
        if not name.startswith("_") and not isinstance(value, type(np))
    }
    assert from_modules == set(names)
