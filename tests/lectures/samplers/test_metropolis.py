"""Metropolis and Metropolis–Hastings: the accept step, and the handout's proposal."""

import numpy as np
import pytest
from scipy import integrate, stats

from pyflowers.lectures.samplers.kernels import accept
from pyflowers.lectures.samplers.metropolis import MetropolisInfo, MetropolisState
from pyflowers.samplers import (
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

from .checks import CORRELATED, SKEWED, check_chains_are_independent, check_state_is_fresh
from .test_exactness import StaleLogDensity

TARGET = NormalMixture.lecture_metropolis()
WALK = GaussianStep(1.5)


def test_accept_with_the_probability_it_says():
    accepted, rate = accept(np.random.default_rng(1), np.full(100_000, np.log(0.3)))
    assert np.allclose(rate, 0.3)
    assert abs(accepted.mean() - 0.3) < 5 * np.sqrt(0.21 / 100_000)


def test_accept_the_better_and_reject_the_impossible():
    accepted, rate = accept(np.random.default_rng(2), np.array([1.0, np.inf, -np.inf, np.nan]))
    assert accepted.tolist() == [True, True, False, False]
    assert rate.tolist() == [1, 1, 0, 0]


def test_acceptance_rate_against_quadrature():
    """The exact rate is E min(1, π(x′)/π(x)), here for a uniform step on N(0, 1)."""

    def moved(step, x):
        return np.exp(-(x**2) / 2) * min(1.0, np.exp((x**2 - (x + step) ** 2) / 2))

    area = integrate.dblquad(moved, -9, 9, -2, 2, epsabs=1e-7)[0]
    exact = area / 4 / np.sqrt(2 * np.pi)
    target = StandardNormal()
    start = target.sample(np.random.default_rng(3), 20_000)
    found = run(Metropolis(target, UniformStep(2.0)), np.random.default_rng(4), start, 20)
    for name in ("acceptance_rate", "accepted"):
        rates = found.sample_stats[name].mean(axis=1)
        assert abs(rates.mean() - exact) < 5 * rates.std() / np.sqrt(len(rates))


class OneCoinForAll(Metropolis):
    """One uniform number decides for every chain."""

    def __call__(self, rng, state):
        x = self.proposal.propose(rng, state.position)
        log_density = self.target.log_density(x)
        accepted = np.log(rng.random()) < log_density - state.log_density
        moved = MetropolisState(
            np.where(accepted[:, None], x, state.position),
            np.where(accepted, log_density, state.log_density),
        )
        return moved, MetropolisInfo(moved.log_density, accepted, accepted)


def test_state_is_fresh_and_chains_are_independent():
    check_state_is_fresh(Metropolis(CORRELATED, WALK), CORRELATED)
    check_chains_are_independent(Metropolis(CORRELATED, WALK), CORRELATED)
    with pytest.raises(AssertionError):
        check_state_is_fresh(StaleLogDensity(CORRELATED, WALK), CORRELATED)
    with pytest.raises(AssertionError):
        check_chains_are_independent(OneCoinForAll(CORRELATED, WALK), CORRELATED)


def test_hastings_with_a_symmetric_proposal_is_metropolis():
    start = np.zeros((5, 2))
    one, other = (
        run(kernel(SKEWED, UniformStep(1.0)), np.random.default_rng(5), start, 50).draws
        for kernel in (Metropolis, MetropolisHastings)
    )
    assert np.array_equal(one, other)


def test_handouts_proposal_only_moves_right():
    """Without a correction, no chain comes back: each ends beyond the 99.9th percentile."""
    handout = Metropolis(TARGET, OneSidedStep(5.0))
    draws = run(handout, np.random.default_rng(6), np.zeros((100, 1)), 2_000).draws
    assert np.all(np.diff(draws, axis=1) >= 0)
    assert TARGET.cdf(draws[:, -1]).min() > 0.999


def test_handouts_proposal_corrected_never_moves():
    corrected = MetropolisHastings(TARGET, OneSidedStep(5.0))
    result = run(corrected, np.random.default_rng(7), np.zeros((100, 1)), 200)
    assert np.all(result.draws == 0)
    assert np.all(result.sample_stats["acceptance_rate"] == 0)


@pytest.mark.parametrize("repaired", [SignedStep(5.0), UniformStep(5.0), GaussianStep(2.5)])
def test_handouts_proposal_repaired(repaired):
    kernel = Metropolis(TARGET, repaired)
    draws = run(kernel, np.random.default_rng(8), np.zeros((2_000, 1)), 200, 100).draws[..., 0]
    for power, exact in ((1, 0.0), (2, TARGET.variance[0])):
        means = ((draws - TARGET.mean[0]) ** power).mean(axis=1)
        assert abs(means.mean() - exact) < 5 * means.std() / np.sqrt(len(means))


def test_ratio_of_densities_of_a_multiplicative_step():
    rng = np.random.default_rng(9)
    x = np.exp(rng.standard_normal((6, 2)))
    step = MultiplicativeStep(0.4)
    proposed = step.propose(rng, x)
    back = stats.lognorm(0.4, scale=proposed).logpdf(x)
    ratio = back - stats.lognorm(0.4, scale=x).logpdf(proposed)
    assert np.allclose(step.log_ratio(x, proposed), ratio.sum(axis=1))


def test_gaussian_step_has_the_covariance_of_its_factor():
    factor = np.linalg.cholesky(CORRELATED.covariance)
    steps = GaussianStep(factor).propose(np.random.default_rng(10), np.zeros((100_000, 2)))
    assert np.allclose(np.cov(steps.T), CORRELATED.covariance, atol=0.05)
    steps = GaussianStep([0.1, 3.0]).propose(np.random.default_rng(10), np.zeros((100_000, 2)))
    assert np.allclose(steps.std(axis=0), [0.1, 3.0], rtol=0.02)
