"""Planted bugs, which test_mutants.py holds the checks against."""

import numpy as np

from pyflowers.samplers import (
    HMC,
    MALA,
    SGLD,
    ConstantSteps,
    DenseMass,
    DiagonalMass,
    FullGradient,
    Gaussian,
    GradLogDensity,
    HMCInfo,
    HMCState,
    LogGamma,
    Mass,
    Metropolis,
    MetropolisInfo,
    MetropolisState,
    MinibatchGradient,
    MultiplicativeStep,
    PhasePoint,
    UnitMass,
    handout_noise_sd,
    leapfrog,
    metropolis_matrix,
)
from pyflowers.samplers.densities import FloatArray


class _FlippedGradient(Gaussian):
    """−∇ log π."""

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        log_density, gradient = super().log_density_gradient(x)
        return log_density, -gradient

    def log_density(self, x: FloatArray, /) -> FloatArray:
        return super().log_density_gradient(x)[0]


class _NoJacobian(LogGamma):
    """The gamma's density at exp(y), without exp(y) for the change of variables."""

    def log_density(self, x: FloatArray, /) -> FloatArray:
        without: FloatArray = super().log_density(x) - x.sum(axis=-1)
        return without


class _AlwaysAccept(Metropolis):
    """No accept step."""

    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        x = self.proposal.propose(rng, state.position)
        log_density = self.target.log_density(x)
        everyone = np.ones(len(x), dtype=bool)
        return MetropolisState(x, log_density), MetropolisInfo(
            log_density, everyone * 1.0, everyone
        )


class _OneCoinForAll(Metropolis):
    """One uniform number decides for every chain."""

    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        x = self.proposal.propose(rng, state.position)
        log_density = self.target.log_density(x)
        log_ratio = log_density - state.log_density
        accepted = np.log(rng.random()) < log_ratio
        moved = MetropolisState(
            np.where(accepted[:, None], x, state.position),
            np.where(accepted, log_density, state.log_density),
        )
        rate = np.exp(np.minimum(log_ratio, 0))
        return moved, MetropolisInfo(moved.log_density, rate, accepted)


class _StaleLogDensity(Metropolis):
    """The state moves, its log density does not."""

    def __call__(
        self, rng: np.random.Generator, state: MetropolisState
    ) -> tuple[MetropolisState, MetropolisInfo]:
        moved, info = super().__call__(rng, state)
        return moved._replace(log_density=state.log_density), info


class _StaleGradient(HMC):
    """The state moves, its gradient does not."""

    def __call__(self, rng: np.random.Generator, state: HMCState) -> tuple[HMCState, HMCInfo]:
        moved, info = super().__call__(rng, state)
        return moved._replace(gradient=state.gradient), info


class _ForgottenRatio(MultiplicativeStep):
    """Taken for symmetric: the Jacobian x′/x is left out."""

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        return 0 * super().log_ratio(x, proposed)


class _ReversedRatio(MultiplicativeStep):
    """q(x′ | x) / q(x | x′), upside down."""

    def log_ratio(self, x: FloatArray, proposed: FloatArray, /) -> FloatArray:
        return -super().log_ratio(x, proposed)


def leapfrog_without_second_half(
    target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: float | FloatArray
) -> PhasePoint:
    """Leave out the last half of the kick."""
    half = point.momentum + 0.5 * step_size * point.gradient
    q = point.position + step_size * mass.velocity(half)
    return PhasePoint(q, half, *target.log_density_gradient(q))


def leapfrog_with_a_full_kick(
    target: GradLogDensity, mass: Mass, point: PhasePoint, step_size: float | FloatArray
) -> PhasePoint:
    """Kick in full where half is due."""
    return leapfrog(
        target,
        mass,
        point._replace(momentum=point.momentum + 0.5 * step_size * point.gradient),
        step_size,
    )


class _InvertedMomentum(DiagonalMass):
    """p ~ N(0, M⁻¹)."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return DiagonalMass(1 / self.diagonal).sample(rng, shape)


class _InvertedVelocity(DiagonalMass):
    """v = M p."""

    def velocity(self, momentum: FloatArray, /) -> FloatArray:
        return momentum * self.diagonal


class _TransposedFactor(DenseMass):
    """p = Lᵀ z."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        z: FloatArray = rng.standard_normal(shape)
        return z @ self._factor


class _NegativeKineticEnergy(UnitMass):
    """K(p) = −½ pᵀ p, and the position runs against the momentum."""

    def velocity(self, momentum: FloatArray, /) -> FloatArray:
        return -momentum


class _FrozenMomentum(UnitMass):
    """The momentum is not drawn anew."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return np.ones(shape)


class _MomentumLeftOut(HMC):
    """Accepts by π(q*)/π(q), as if the kinetic energy did not count."""

    def _move(
        self, rng: np.random.Generator, begin: PhasePoint, end: PhasePoint, step_size: FloatArray
    ) -> tuple[HMCState, HMCInfo]:
        still = np.zeros_like(begin.momentum)
        return super()._move(
            rng, begin._replace(momentum=still), end._replace(momentum=still), step_size
        )


class _Uncorrected(MALA):
    """Accepts by π(x′)/π(x): Langevin's proposal taken for symmetric."""

    def _log_proposal(self, to: HMCState, given: HMCState) -> FloatArray:
        return np.zeros(len(to.position))


class _WronglyCorrected(MALA):
    """The proposal's ratio upside down."""

    def _log_proposal(self, to: HMCState, given: HMCState) -> FloatArray:
        return -super()._log_proposal(to, given)


class _FullDrift(MALA):
    """Drift ε where Langevin has ε/2: still exact, but not HMC of one step."""

    def _drifted(self, state: HMCState) -> FloatArray:
        return state.position + self.step_size * self.mass.velocity(state.gradient)


class _Unscaled(MinibatchGradient):
    """The mini-batch stands for itself, not for N/n times as many."""

    def __call__(self, rng: np.random.Generator, x: FloatArray) -> FloatArray:
        prior = self.target.log_prior_gradient(x)
        return prior + (super().__call__(rng, x) - prior) * self.batch_size / self.target.num_obs


def sgld(target: GradLogDensity, step_size: float) -> SGLD:
    return SGLD(FullGradient(target), ConstantSteps(step_size))


def sgld_with_noise_sd_alpha(target: GradLogDensity, step_size: float) -> SGLD:
    return SGLD(FullGradient(target), ConstantSteps(step_size), handout_noise_sd)


def sgld_with_full_drift(target: GradLogDensity, step_size: float) -> SGLD:
    return SGLD(lambda _, x: 2 * target.log_density_gradient(x)[1], ConstantSteps(step_size))


def matrix_of_symmetric_metropolis(weights: FloatArray, proposal: FloatArray) -> FloatArray:
    """Accept with min(1, π_j/π_i), whether or not the proposal is symmetric."""
    matrix = proposal * np.minimum(1, weights[None, :] / weights[:, None])
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix


def matrix_upside_down(weights: FloatArray, proposal: FloatArray) -> FloatArray:
    """Accept with min(1, π_i/π_j)."""
    return metropolis_matrix(1 / weights, proposal)


def matrix_without_staying(weights: FloatArray, proposal: FloatArray) -> FloatArray:
    """Spread a rejected move over the other states, where it should count the state again."""
    matrix = metropolis_matrix(weights, proposal)
    np.fill_diagonal(matrix, 0)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def disc_by_polar_coordinates(rng: np.random.Generator, num_draws: int) -> FloatArray:
    """Draw a uniform radius, which crowds the middle; √U would be right."""
    radius, angle = rng.random(num_draws), rng.uniform(0, 2 * np.pi, num_draws)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
