"""Metropolis and Metropolis–Hastings: the accept step, and the handout's proposal."""

import numpy as np
import pytest
from scipy import integrate

from pyflowers.samplers import (
    AutoregressiveStep,
    GaussianStep,
    Metropolis,
    MetropolisHastings,
    MultiplicativeStep,
    NormalMixture,
    OneSidedStep,
    SignedStep,
    StandardNormal,
    UniformStep,
    run,
)
from pyflowers.samplers.densities import FloatArray
from pyflowers.samplers.metropolis import accept

from .checks import CORRELATED, SKEWED, check_chains_are_independent, check_state_is_fresh

TARGET = NormalMixture.lecture_metropolis()


def test_accept_with_the_probability_it_says() -> None:
    rng = np.random.default_rng(1)
    accepted, rate = accept(rng, np.full(100_000, np.log(0.3)))
    assert np.allclose(rate, 0.3)
    assert abs(accepted.mean() - 0.3) < 5 * np.sqrt(0.21 / 100_000)


def test_accept_the_better_and_reject_the_impossible() -> None:
    accepted, rate = accept(np.random.default_rng(2), np.array([1.0, np.inf, -np.inf, np.nan]))
    assert accepted.tolist() == [True, True, False, False]
    assert rate.tolist() == [1, 1, 0, 0]


def test_acceptance_rate_against_quadrature() -> None:
    """E min(1, π(x′)/π(x)) of a uniform step on N(0, 1)."""

    def moved(step: float, x: float) -> float:
        return float(np.exp(-(x**2) / 2) * min(1.0, np.exp((x**2 - (x + step) ** 2) / 2)))

    area = integrate.dblquad(moved, -9, 9, -2, 2, epsabs=1e-7)[0]
    exact = area / 4 / np.sqrt(2 * np.pi)
    target = StandardNormal()
    start = target.sample(np.random.default_rng(3), 20_000)
    stats = run(Metropolis(target, UniformStep(2.0)), np.random.default_rng(4), start, 20)
    rates = stats.sample_stats["acceptance_rate"].mean(axis=1)
    assert abs(rates.mean() - exact) < 5 * rates.std() / np.sqrt(len(rates))
    taken = stats.sample_stats["accepted"].mean(axis=1)
    assert abs(taken.mean() - exact) < 5 * taken.std() / np.sqrt(len(taken))


def test_state_is_fresh_and_chains_are_independent() -> None:
    kernel = Metropolis(CORRELATED, GaussianStep(1.5))
    check_state_is_fresh(kernel, CORRELATED)
    check_chains_are_independent(kernel, CORRELATED)


def test_hastings_with_a_symmetric_proposal_is_metropolis() -> None:
    start = np.zeros((5, 2))
    one, other = (
        run(kernel(SKEWED, UniformStep(1.0)), np.random.default_rng(5), start, 50).draws
        for kernel in (Metropolis, MetropolisHastings)
    )
    assert np.array_equal(one, other)


def test_handouts_proposal_only_moves_right() -> None:
    """Uncorrected, no chain comes back: each ends beyond the target's 99.9th percentile."""
    handout = Metropolis(TARGET, OneSidedStep(5.0))
    draws = run(handout, np.random.default_rng(6), np.zeros((100, 1)), 2_000).draws
    assert np.all(np.diff(draws, axis=1) >= 0)
    assert TARGET.cdf(draws[:, -1]).min() > 0.999


def test_handouts_proposal_corrected_never_moves() -> None:
    corrected = MetropolisHastings(TARGET, OneSidedStep(5.0))
    result = run(corrected, np.random.default_rng(7), np.zeros((100, 1)), 200)
    assert np.all(result.draws == 0)
    assert not result.sample_stats["accepted"].any()
    assert np.all(result.sample_stats["acceptance_rate"] == 0)


@pytest.mark.parametrize("repaired", [SignedStep(5.0), UniformStep(5.0), GaussianStep(2.5)])
def test_handouts_proposal_repaired(repaired: SignedStep | UniformStep | GaussianStep) -> None:
    kernel = Metropolis(TARGET, repaired)
    draws = run(kernel, np.random.default_rng(8), np.zeros((2_000, 1)), 200, 100).draws[..., 0]
    means = draws.mean(axis=1)
    assert abs(means.mean() - TARGET.mean[0]) < 5 * means.std() / np.sqrt(len(means))
    squares = ((draws - TARGET.mean[0]) ** 2).mean(axis=1)
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - TARGET.variance[0]) < 5 * error


@pytest.mark.parametrize("step", [MultiplicativeStep(0.4), AutoregressiveStep(0.6, 1.5)])
def test_ratio_of_densities(step: MultiplicativeStep | AutoregressiveStep) -> None:
    """Against q written out: log-normal, and normal about ρ x."""
    rng = np.random.default_rng(9)
    x = np.exp(rng.standard_normal((6, 2)))
    proposed = step.propose(rng, x)

    def log_q(to: FloatArray, given: FloatArray) -> FloatArray:
        if isinstance(step, MultiplicativeStep):
            z = np.log(to / given) / step.scale
            return np.asarray((-0.5 * z**2 - np.log(to)).sum(axis=1))
        z = (to - step.rho * given) / (step.scale * np.sqrt(1 - step.rho**2))
        return np.asarray((-0.5 * z**2).sum(axis=1))

    expected = log_q(x, proposed) - log_q(proposed, x)
    assert np.allclose(step.log_ratio(x, proposed), expected)


def test_gaussian_step_has_the_covariance_of_its_factor() -> None:
    factor = np.linalg.cholesky(CORRELATED.covariance)
    steps = GaussianStep(factor).propose(np.random.default_rng(10), np.zeros((100_000, 2)))
    assert np.allclose(np.cov(steps.T), CORRELATED.covariance, atol=0.05)
    steps = GaussianStep([0.1, 3.0]).propose(np.random.default_rng(10), np.zeros((100_000, 2)))
    assert np.allclose(steps.std(axis=0), [0.1, 3.0], rtol=0.02)
