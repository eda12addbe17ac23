"""Hamiltonian Monte Carlo; its exactness is in test_exactness.py."""

import numpy as np
import pytest

from pyflowers.samplers import (
    HMC,
    MALA,
    DenseMass,
    Mass,
    PhasePoint,
    StandardNormal,
    UnitMass,
    phase_point,
    run,
)

from .checks import (
    CORRELATED,
    CORRELATED_MASS,
    SKEWED,
    SKEWED_MASS,
    check_chains_are_independent,
    check_one_step_is_mala,
    check_state_is_fresh,
)


@pytest.mark.parametrize("mass", [UnitMass(), SKEWED_MASS, DenseMass([[1.0, 0.4], [0.4, 2.0]])])
def test_one_step_is_mala(mass: Mass) -> None:
    check_one_step_is_mala(HMC(SKEWED, 0.8, 1, mass), MALA(SKEWED, 0.8**2, mass), SKEWED)


def test_two_steps_are_not() -> None:
    with pytest.raises(AssertionError):
        check_one_step_is_mala(HMC(SKEWED, 0.8, 2), MALA(SKEWED, 0.8**2), SKEWED)


def test_the_proposal_is_its_own_inverse() -> None:
    """With the momentum flipped at the end, proposing twice comes home."""
    hmc = HMC(SKEWED, 0.3, 12, SKEWED_MASS)
    begin = phase_point(SKEWED, [[-1.0, 0.5]], [[0.3, -2.0]])
    back: PhasePoint = hmc.propose(hmc.propose(begin, 0.3), 0.3)
    assert np.allclose(back.position, begin.position, rtol=0, atol=1e-12)
    assert np.allclose(back.momentum, begin.momentum, rtol=0, atol=1e-12)


def test_mass_of_the_precision_is_unit_mass_on_the_round_target() -> None:
    """Neal (2011), section 5.4.1: q = L z turns M = Σ⁻¹ into I, so paths agree."""
    factor = np.linalg.cholesky(CORRELATED.covariance)
    precision = DenseMass(np.linalg.inv(CORRELATED.covariance))
    z, momentum = np.array([[0.3, -1.0]]), np.array([[1.1, 0.2]])
    round_end = HMC(StandardNormal(2), 0.4, 7).propose(
        phase_point(StandardNormal(2), z, momentum), 0.4
    )
    begin = phase_point(
        CORRELATED, CORRELATED.mean + z @ factor.T, np.linalg.solve(factor.T, momentum.T).T
    )
    end = HMC(CORRELATED, 0.4, 7, precision).propose(begin, 0.4)
    assert np.allclose(end.position, CORRELATED.mean + round_end.position @ factor.T)


def test_state_is_fresh_and_chains_are_independent() -> None:
    kernel = HMC(CORRELATED, 0.75, 3)
    check_state_is_fresh(kernel, CORRELATED)
    check_chains_are_independent(kernel, CORRELATED)


def test_jitter_draws_a_step_size_for_each_chain() -> None:
    start = np.zeros((1_000, 2))
    steps = run(
        HMC(CORRELATED, 0.2, 2, jitter=0.5), np.random.default_rng(1), start, 5
    ).sample_stats["step_size"]
    assert steps.min() >= 0.1
    assert steps.max() <= 0.3
    assert abs(steps.mean() - 0.2) < 5 * 0.1 / np.sqrt(3 * steps.size)
    fixed = run(HMC(CORRELATED, 0.2, 2), np.random.default_rng(1), start, 5)
    assert np.all(fixed.sample_stats["step_size"] == 0.2)


def test_energy_is_that_of_the_point_it_ended_at() -> None:
    hmc = HMC(CORRELATED, 0.6, 3, CORRELATED_MASS)
    state = hmc.init(CORRELATED.sample(np.random.default_rng(2), 500))
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    moved, info = hmc(rng, state)
    momentum = CORRELATED_MASS.sample(same, state.position.shape)
    begin = PhasePoint(state.position, momentum, state.log_density, state.gradient)
    kinetic = 0.5 * (momentum * CORRELATED_MASS.velocity(momentum)).sum(axis=1)
    energy = kinetic - begin.log_density
    assert np.allclose(info.energy, np.where(info.accepted, energy + info.energy_error, energy))
    assert np.allclose(info.acceptance_rate, np.minimum(1, np.exp(-info.energy_error)))
    assert np.array_equal(info.lp, moved.log_density)


def test_a_step_too_long_diverges_and_is_rejected_without_a_warning() -> None:
    hmc = HMC(SKEWED, 50.0, 10)
    result = run(hmc, np.random.default_rng(4), np.zeros((20, 2)), 5)
    assert result.sample_stats["diverging"].all()
    assert not result.sample_stats["accepted"].any()
    assert np.all(result.sample_stats["acceptance_rate"] == 0)
    assert np.all(result.draws == 0)
