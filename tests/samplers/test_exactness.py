"""Every Metropolis-type kernel leaves its target unchanged, at a total false-alarm rate of 1e-5."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from pyflowers.samplers import (
    HMC,
    MALA,
    AutoregressiveStep,
    ExactTarget,
    Gamma,
    GaussianStep,
    Kernel,
    Metropolis,
    MetropolisHastings,
    MultiplicativeStep,
    NormalMixture,
    SignedStep,
    UniformStep,
    UnitMass,
)
from pyflowers.samplers.metropolis import MetropolisInfo, MetropolisState

from .checks import CORRELATED, CORRELATED_MASS, LINE, SKEWED, SKEWED_MASS, check_exact
from .gandy_scott import MAX_TESTS, is_exact

GAMMA = Gamma([0.8, 3.0], [1.0, 2.0])
BIMODAL = NormalMixture.lecture_hmc()
CHOLESKY = np.linalg.cholesky(CORRELATED.covariance)

CASES: dict[str, tuple[Kernel[Any], ExactTarget]] = {
    "metropolis-skewed": (Metropolis(SKEWED, GaussianStep([1.5, 0.7])), SKEWED),
    "metropolis-correlated": (Metropolis(CORRELATED, GaussianStep(1.7 * CHOLESKY)), CORRELATED),
    "metropolis-uniform-step": (Metropolis(SKEWED, UniformStep(1.5)), SKEWED),
    "metropolis-signed-step": (Metropolis(CORRELATED, SignedStep(2.0)), CORRELATED),
    "metropolis-bimodal": (Metropolis(BIMODAL, UniformStep(5.0)), BIMODAL),
    "metropolis-edge": (Metropolis(GAMMA, GaussianStep(1.0)), GAMMA),
    "metropolis-regression": (Metropolis(LINE, GaussianStep(0.2)), LINE),
    "mh-skewed": (MetropolisHastings(GAMMA, MultiplicativeStep(0.8)), GAMMA),
    "mh-correlated": (MetropolisHastings(CORRELATED, AutoregressiveStep(0.8, 2.0)), CORRELATED),
    "mh-symmetric": (MetropolisHastings(SKEWED, GaussianStep(1.0)), SKEWED),
    "hmc-skewed": (HMC(SKEWED, 0.8, 4, SKEWED_MASS), SKEWED),
    "hmc-correlated": (HMC(CORRELATED, 0.9, 3, CORRELATED_MASS), CORRELATED),
    "hmc-jitter": (HMC(CORRELATED, 0.8, 3, UnitMass(), jitter=0.9), CORRELATED),
    "hmc-bimodal": (HMC(BIMODAL, 0.5, 10), BIMODAL),
    "hmc-edge": (HMC(GAMMA, 0.3, 5), GAMMA),
    "hmc-regression": (HMC(LINE, 0.15, 5), LINE),
    "mala-skewed": (MALA(SKEWED, 0.8, SKEWED_MASS), SKEWED),
    "mala-correlated": (MALA(CORRELATED, 0.9, CORRELATED_MASS), CORRELATED),
    "mala-bimodal": (MALA(BIMODAL, 1.5), BIMODAL),
    "mala-regression": (MALA(LINE, 0.03), LINE),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_leaves_its_target_unchanged(name: str) -> None:
    kernel, target = CASES[name]
    check_exact(kernel, target, seed=list(CASES).index(name))


@pytest.mark.parametrize("name", CASES)
def test_kernel_moves_and_rejects(name: str) -> None:
    """A kernel that never moves is exact too: so is one that cannot be told from it."""
    kernel, target = CASES[name]
    rng = np.random.default_rng(1)
    _, info = kernel(rng, kernel.init(target.sample(rng, 2_000)))
    assert 0.2 < info._asdict()["accepted"].mean() < 0.995


class _Shifted:
    """Draws exactly from the target, or beside it by `shift` sds."""

    def __init__(self, target: ExactTarget, shift: float) -> None:
        self.target, self.shift = target, shift

    def init(self, position: ArrayLike) -> MetropolisState:
        x = np.array(position)
        return MetropolisState(x, self.target.log_density(x))

    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        x = self.target.sample(rng, len(state.position))
        x = x + self.shift * np.sqrt(self.target.variance)
        everyone = np.ones(len(x), dtype=bool)
        log_density = self.target.log_density(x)
        return MetropolisState(x, log_density), MetropolisInfo(
            log_density, everyone * 1.0, everyone
        )


def test_false_alarms_are_as_rare_as_promised() -> None:
    """At a rate of 0.1, 300 exact kernels raise 30 ± 3·5.2 alarms at most."""
    kernel = _Shifted(CORRELATED, 0.0)
    alarms = sum(
        not is_exact(
            kernel, CORRELATED, seed=seed, false_alarm_rate=0.1, num_chains=100, num_steps=1
        )
        for seed in range(300)
    )
    assert alarms <= 45


@pytest.mark.parametrize(("shift", "exact"), [(0.0, True), (0.1, False)])
def test_a_tenth_of_an_sd_is_seen(shift: float, exact: bool) -> None:
    assert is_exact(_Shifted(SKEWED, shift), SKEWED) is exact


def test_no_more_exactness_tests_than_the_rate_allows() -> None:
    from .test_mutants import MUTANTS

    in_mutants = sum(check.__name__ == "check_exact" for _, check, *_ in MUTANTS)
    assert len(CASES) + in_mutants <= MAX_TESTS
