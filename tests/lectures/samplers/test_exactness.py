"""Every Metropolis-type kernel leaves its target unchanged, at a total false-alarm rate of 1e-5.

There are also kernels with a planted bug, each of which the same test must detect.
"""

from typing import Any

import numpy as np
import pytest

from pyflowers.lectures.samplers.metropolis import MetropolisInfo, MetropolisState
from pyflowers.samplers import (
    HMC,
    MALA,
    Gamma,
    GaussianStep,
    Mass,
    Metropolis,
    MetropolisHastings,
    MultiplicativeStep,
    NormalMixture,
    OneSidedStep,
    PhasePoint,
    SignedStep,
    UniformStep,
    euler,
    modified_euler,
)

from .checks import (
    CORRELATED,
    CORRELATED_MASS,
    LINE,
    MAX_TESTS,
    SKEWED,
    SKEWED_MASS,
    FullDrift,
    is_exact,
)

GAMMA = Gamma([0.8, 3.0], [1.0, 2.0])
BIMODAL = NormalMixture.lecture_hmc()
CHOLESKY = np.linalg.cholesky(CORRELATED.covariance)
WALK = GaussianStep(1.5)


class Autoregressive:
    """Propose ρ x + √(1 − ρ²) scale · z, reversible for N(0, scale² I): Cotter et al. (2013)."""

    rho, scale = 0.8, 2.0

    def propose(self, rng, x):
        spread = np.sqrt(1 - self.rho**2) * self.scale
        return self.rho * x + spread * rng.standard_normal(x.shape)

    def log_ratio(self, x, proposed):
        return (proposed**2 - x**2).sum(axis=-1) / (2 * self.scale**2)


CASES: dict[str, tuple[Any, Any]] = {
    "metropolis-skewed": (Metropolis(SKEWED, GaussianStep([1.5, 0.7])), SKEWED),
    "metropolis-correlated": (Metropolis(CORRELATED, GaussianStep(1.7 * CHOLESKY)), CORRELATED),
    "metropolis-uniform-step": (Metropolis(SKEWED, UniformStep(1.5)), SKEWED),
    "metropolis-signed-step": (Metropolis(CORRELATED, SignedStep(2.0)), CORRELATED),
    "metropolis-bimodal": (Metropolis(BIMODAL, UniformStep(5.0)), BIMODAL),
    "metropolis-edge": (Metropolis(GAMMA, GaussianStep(1.0)), GAMMA),
    "metropolis-regression": (Metropolis(LINE, GaussianStep(0.2)), LINE),
    "mh-skewed": (MetropolisHastings(GAMMA, MultiplicativeStep(0.8)), GAMMA),
    "mh-correlated": (MetropolisHastings(CORRELATED, Autoregressive()), CORRELATED),
    "mh-symmetric": (MetropolisHastings(SKEWED, GaussianStep(1.0)), SKEWED),
    "hmc-skewed": (HMC(SKEWED, 0.8, 4, SKEWED_MASS), SKEWED),
    "hmc-correlated": (HMC(CORRELATED, 0.9, 3, CORRELATED_MASS), CORRELATED),
    "hmc-jitter": (HMC(CORRELATED, 0.8, 3, jitter=0.9), CORRELATED),
    "hmc-bimodal": (HMC(BIMODAL, 0.5, 10), BIMODAL),
    "hmc-edge": (HMC(GAMMA, 0.3, 5), GAMMA),
    "hmc-regression": (HMC(LINE, 0.15, 5), LINE),
    "mala-skewed": (MALA(SKEWED, 0.8, SKEWED_MASS), SKEWED),
    "mala-correlated": (MALA(CORRELATED, 0.9, CORRELATED_MASS), CORRELATED),
    "mala-bimodal": (MALA(BIMODAL, 1.5), BIMODAL),
    "mala-regression": (MALA(LINE, 0.03), LINE),
}


class AlwaysAccept(Metropolis):
    """Metropolis without the accept step."""

    def __call__(self, rng, state):
        x = self.proposal.propose(rng, state.position)
        log_density = self.target.log_density(x)
        everyone = np.ones(len(x), dtype=bool)
        return MetropolisState(x, log_density), MetropolisInfo(log_density, everyone, everyone)


class StaleLogDensity(Metropolis):
    """The state moves, but its log density does not."""

    def __call__(self, rng, state):
        moved, info = super().__call__(rng, state)
        return moved._replace(log_density=state.log_density), info


class ForgottenRatio(MultiplicativeStep):
    """The proposal is treated as symmetric: the Jacobian x′/x is left out."""

    def log_ratio(self, x, proposed):
        return 0 * super().log_ratio(x, proposed)


class ReversedRatio(MultiplicativeStep):
    """The proposal's ratio is upside down: q(x′ | x) / q(x | x′)."""

    def log_ratio(self, x, proposed):
        return -super().log_ratio(x, proposed)


class InvertedMomentum(Mass):
    """The momentum is drawn from N(0, M⁻¹) instead of N(0, M)."""

    def sample(self, rng, shape):
        return Mass(1 / self.matrix).sample(rng, shape)


class InvertedVelocity(Mass):
    """The velocity is M p instead of M⁻¹ p."""

    def velocity(self, momentum):
        return momentum * self.matrix


class TransposedFactor(Mass):
    """The momentum is Lᵀ z instead of L z."""

    def sample(self, rng, shape):
        return rng.standard_normal(shape) @ self._root


class NegativeKineticEnergy(Mass):
    """K(p) = −½ pᵀ p, and the position runs against the momentum."""

    def velocity(self, momentum):
        return -momentum


class FrozenMomentum(Mass):
    """The momentum is constant instead of drawn anew."""

    def sample(self, rng, shape):
        return np.ones(shape)


class MomentumLeftOut(Mass):
    """The kinetic energy is missing from the acceptance ratio."""

    def kinetic_energy(self, momentum):
        return np.zeros(len(momentum))


class Uncorrected(MALA):
    """MALA that accepts by π(x′)/π(x), as if Langevin's proposal were symmetric."""

    def _log_proposal(self, to, given):
        return np.zeros(len(to.position))


class WronglyCorrected(MALA):
    """MALA whose proposal ratio is upside down."""

    def _log_proposal(self, to, given):
        return -super()._log_proposal(to, given)


def leapfrog_without_second_half(target, mass, point, step_size):
    """Leave out the second half of the kick."""
    half = point.momentum + 0.5 * step_size * point.gradient
    q = point.position + step_size * mass.velocity(half)
    return PhasePoint(q, half, *target.log_density_gradient(q))


def hmc(**options):
    return HMC(CORRELATED, 0.6, 3, **options), CORRELATED


PLANTED = {
    "no accept step": (AlwaysAccept(SKEWED, WALK), SKEWED),
    "the handout's one-sided proposal": (Metropolis(SKEWED, OneSidedStep(1.0)), SKEWED),
    "stale log density": (StaleLogDensity(CORRELATED, WALK), CORRELATED),
    "forgotten proposal ratio": (MetropolisHastings(GAMMA, ForgottenRatio(0.8)), GAMMA),
    "reversed proposal ratio": (MetropolisHastings(GAMMA, ReversedRatio(0.8)), GAMMA),
    "missing half step": hmc(integrator=leapfrog_without_second_half),
    "Euler": hmc(integrator=euler),
    "modified Euler": hmc(integrator=modified_euler),
    "momentum of M⁻¹": (HMC(SKEWED, 0.8, 4, InvertedMomentum(SKEWED_MASS.matrix)), SKEWED),
    "mass upside down": (HMC(SKEWED, 0.8, 4, InvertedVelocity(SKEWED_MASS.matrix)), SKEWED),
    "transposed Cholesky factor": hmc(mass=TransposedFactor(CORRELATED_MASS.matrix)),
    "sign of the kinetic energy": hmc(mass=NegativeKineticEnergy()),
    "momentum not drawn anew": hmc(mass=FrozenMomentum()),
    "kinetic energy left out of the ratio": hmc(mass=MomentumLeftOut()),
    "MALA without correction": (Uncorrected(SKEWED, 0.64, SKEWED_MASS), SKEWED),
    "MALA's ratio reversed": (WronglyCorrected(SKEWED, 0.64, SKEWED_MASS), SKEWED),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_leaves_its_target_unchanged(name):
    kernel, target = CASES[name]
    assert is_exact(kernel, target, seed=list(CASES).index(name))


@pytest.mark.parametrize("name", CASES)
def test_kernel_moves_and_rejects(name):
    """A kernel that never moves is exact, too; one that never rejects would not test rejection."""
    kernel, target = CASES[name]
    rng = np.random.default_rng(1)
    _, info = kernel(rng, kernel.init(target.sample(rng, 2_000)))
    assert 0.2 < info.accepted.mean() < 0.995


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_caught(bug):
    assert not is_exact(*PLANTED[bug])


@pytest.mark.parametrize("mass", [Mass(), CORRELATED_MASS])
def test_what_the_bugs_are_planted_in_is_exact(mass):
    assert is_exact(*hmc(mass=mass))


class Shifted:
    """A kernel that draws exactly from the target, but shifted by `shift` sds."""

    def __init__(self, target, shift):
        self.target, self.shift = target, shift

    def init(self, position):
        return MetropolisState(np.array(position), self.target.log_density(position))

    def __call__(self, rng, state):
        x = self.target.sample(rng, len(state.position))
        x = x + self.shift * np.sqrt(self.target.variance)
        return MetropolisState(x, self.target.log_density(x)), None


def test_false_alarms_are_as_rare_as_promised():
    """At a rate of 0.1, 300 exact kernels raise at most 30 + 3·5.2 alarms."""
    kernel = Shifted(CORRELATED, 0.0)
    passed = [is_exact(kernel, CORRELATED, seed, 0.1, 100, num_steps=1) for seed in range(300)]
    assert passed.count(False) <= 45


@pytest.mark.parametrize(("shift", "exact"), [(0.0, True), (0.1, False)])
def test_a_tenth_of_an_sd_is_seen(shift, exact):
    assert is_exact(Shifted(SKEWED, shift), SKEWED) is exact


def test_full_drift_is_exact_all_the_same():
    """Draws cannot reveal the wrong drift, because Metropolis–Hastings corrects any drift."""
    assert is_exact(FullDrift(SKEWED, 0.3, SKEWED_MASS), SKEWED)


def test_no_more_exactness_tests_than_the_rate_allows():
    assert len(CASES) + len(PLANTED) + 3 <= MAX_TESTS
