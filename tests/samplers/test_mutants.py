"""Planted bugs: each is caught by the check named beside it, which the right code passes.

A row is (bug, check, the arguments that are right, the arguments with the bug planted).
"""

from collections.abc import Callable
from typing import Any

import pytest

from pyflowers.samplers import (
    HMC,
    MALA,
    Gamma,
    GaussianStep,
    LogGamma,
    Mass,
    Metropolis,
    MetropolisHastings,
    MinibatchGradient,
    MultiplicativeStep,
    OneSidedStep,
    SignedStep,
    euler,
    leapfrog,
    metropolis_matrix,
    modified_euler,
    uniform_in_ball,
)

from . import checks, mutants
from .checks import CORRELATED, CORRELATED_MASS, SKEWED, SKEWED_MASS

GAMMA = Gamma([0.8, 3.0], [1.0, 2.0])


def _mala(kind: type[MALA], step_size: float = 0.64) -> MALA:
    return kind(SKEWED, step_size, SKEWED_MASS)


def _hmc(kind: type[HMC] = HMC, **options: Any) -> HMC:
    return kind(CORRELATED, 0.6, 3, **options)


def _one_step(mass: Mass) -> HMC:
    return HMC(SKEWED, 0.8, 1, mass)


_WALK = GaussianStep(1.5)

Arguments = tuple[Any, ...]
MUTANTS: list[tuple[str, Callable[..., None], Arguments, Arguments]] = [
    (
        "flipped gradient",
        checks.check_gradient,
        (CORRELATED,),
        (mutants._FlippedGradient(CORRELATED.mean, CORRELATED.covariance),),
    ),
    ("no Jacobian", checks.check_normalised, (LogGamma(1.5),), (mutants._NoJacobian(1.5),)),
    (
        "no Jacobian, gradient kept",
        checks.check_gradient,
        (SKEWED,),
        (mutants._NoJacobian(SKEWED.shape, SKEWED.rate),),
    ),
    (
        "no accept step",
        checks.check_exact,
        (Metropolis(SKEWED, _WALK), SKEWED),
        (mutants._AlwaysAccept(SKEWED, _WALK), SKEWED),
    ),
    (
        "the handout's one-sided proposal",
        checks.check_exact,
        (Metropolis(SKEWED, SignedStep(1.0)), SKEWED),
        (Metropolis(SKEWED, OneSidedStep(1.0)), SKEWED),
    ),
    (
        "one coin for all chains",
        checks.check_chains_are_independent,
        (Metropolis(CORRELATED, _WALK), CORRELATED),
        (mutants._OneCoinForAll(CORRELATED, _WALK), CORRELATED),
    ),
    (
        "stale log density",
        checks.check_state_is_fresh,
        (Metropolis(CORRELATED, _WALK), CORRELATED),
        (mutants._StaleLogDensity(CORRELATED, _WALK), CORRELATED),
    ),
    (
        "stale log density, as it shows in the draws",
        checks.check_exact,
        (Metropolis(CORRELATED, _WALK), CORRELATED),
        (mutants._StaleLogDensity(CORRELATED, _WALK), CORRELATED),
    ),
    (
        "forgotten proposal ratio",
        checks.check_exact,
        (MetropolisHastings(GAMMA, MultiplicativeStep(0.8)), GAMMA),
        (MetropolisHastings(GAMMA, mutants._ForgottenRatio(0.8)), GAMMA),
    ),
    (
        "reversed proposal ratio",
        checks.check_exact,
        (MetropolisHastings(GAMMA, MultiplicativeStep(0.8)), GAMMA),
        (MetropolisHastings(GAMMA, mutants._ReversedRatio(0.8)), GAMMA),
    ),
    (
        "missing half step",
        checks.check_reversible,
        (leapfrog,),
        (mutants.leapfrog_without_second_half,),
    ),
    (
        "missing half step, order",
        checks.check_order,
        (leapfrog, 2),
        (mutants.leapfrog_without_second_half, 2),
    ),
    (
        "full kick for a half",
        checks.check_order,
        (leapfrog, 2),
        (mutants.leapfrog_with_a_full_kick, 2),
    ),
    (
        "missing half step in HMC",
        checks.check_exact,
        (_hmc(), CORRELATED),
        (_hmc(integrator=mutants.leapfrog_without_second_half), CORRELATED),
    ),
    ("Euler for leapfrog", checks.check_reversible, (leapfrog,), (euler,)),
    (
        "Euler in HMC",
        checks.check_exact,
        (_hmc(), CORRELATED),
        (_hmc(integrator=euler), CORRELATED),
    ),
    (
        "modified Euler in HMC",
        checks.check_exact,
        (_hmc(), CORRELATED),
        (_hmc(integrator=modified_euler), CORRELATED),
    ),
    (
        "stale gradient",
        checks.check_state_is_fresh,
        (_hmc(), CORRELATED),
        (_hmc(mutants._StaleGradient), CORRELATED),
    ),
    (
        "momentum from the inverse mass",
        checks.check_exact,
        (HMC(SKEWED, 0.8, 4, SKEWED_MASS), SKEWED),
        (HMC(SKEWED, 0.8, 4, mutants._InvertedMomentum(SKEWED_MASS.diagonal)), SKEWED),
    ),
    (
        "mass applied upside down",
        checks.check_exact,
        (HMC(SKEWED, 0.8, 4, SKEWED_MASS), SKEWED),
        (HMC(SKEWED, 0.8, 4, mutants._InvertedVelocity(SKEWED_MASS.diagonal)), SKEWED),
    ),
    (
        "transposed Cholesky factor",
        checks.check_exact,
        (_hmc(mass=CORRELATED_MASS), CORRELATED),
        (_hmc(mass=mutants._TransposedFactor(CORRELATED_MASS.matrix)), CORRELATED),
    ),
    (
        "sign of the kinetic energy",
        checks.check_exact,
        (_hmc(), CORRELATED),
        (_hmc(mass=mutants._NegativeKineticEnergy()), CORRELATED),
    ),
    (
        "momentum not drawn anew",
        checks.check_exact,
        (_hmc(), CORRELATED),
        (_hmc(mass=mutants._FrozenMomentum()), CORRELATED),
    ),
    (
        "kinetic energy left out of the ratio",
        checks.check_exact,
        (_hmc(), CORRELATED),
        (_hmc(mutants._MomentumLeftOut), CORRELATED),
    ),
    (
        "MALA without correction",
        checks.check_exact,
        (_mala(MALA), SKEWED),
        (_mala(mutants._Uncorrected), SKEWED),
    ),
    (
        "MALA's ratio reversed",
        checks.check_exact,
        (_mala(MALA), SKEWED),
        (_mala(mutants._WronglyCorrected), SKEWED),
    ),
    (
        "MALA with full drift",
        checks.check_one_step_is_mala,
        (_one_step(SKEWED_MASS), _mala(MALA), SKEWED),
        (_one_step(SKEWED_MASS), _mala(mutants._FullDrift), SKEWED),
    ),
    (
        "MALA whose ε is taken for HMC's",
        checks.check_one_step_is_mala,
        (_one_step(SKEWED_MASS), _mala(MALA, 0.8**2), SKEWED),
        (_one_step(SKEWED_MASS), _mala(MALA, 0.8), SKEWED),
    ),
    (
        "SGLD with noise of sd ε",
        checks.check_sgld_variance,
        (mutants.sgld,),
        (mutants.sgld_with_noise_sd_alpha,),
    ),
    (
        "SGLD with full drift",
        checks.check_sgld_variance,
        (mutants.sgld,),
        (mutants.sgld_with_full_drift,),
    ),
    (
        "mini-batch not scaled up",
        checks.check_unbiased_gradient,
        (MinibatchGradient,),
        (mutants._Unscaled,),
    ),
    (
        "finite chain, asymmetric proposal taken for symmetric",
        checks.check_finite_chain,
        (metropolis_matrix,),
        (mutants.matrix_of_symmetric_metropolis,),
    ),
    (
        "finite chain, ratio reversed",
        checks.check_finite_chain,
        (metropolis_matrix,),
        (mutants.matrix_upside_down,),
    ),
    (
        "finite chain, rejection without staying",
        checks.check_finite_chain,
        (metropolis_matrix,),
        (mutants.matrix_without_staying,),
    ),
    (
        "disc by a uniform radius",
        checks.check_uniform_in_disc,
        (uniform_in_ball,),
        (mutants.disc_by_polar_coordinates,),
    ),
]


@pytest.mark.parametrize(
    ("check", "right", "planted"),
    [row[1:] for row in MUTANTS],
    ids=[f"{bug}: {check.__name__}" for bug, check, _, _ in MUTANTS],
)
def test_planted_bug_is_caught(
    check: Callable[..., None], right: Arguments, planted: Arguments
) -> None:
    check(*right)
    with pytest.raises(AssertionError):
        check(*planted)


def test_full_drift_is_exact_all_the_same() -> None:
    """Why the draws alone cannot tell it: Metropolis–Hastings corrects any drift."""
    checks.check_exact(_mala(mutants._FullDrift, 0.3), SKEWED)
