"""Metropolis, Hamiltonian Monte Carlo and Langevin samplers in NumPy, written to be read.

A target has `log_density(x)` and, for gradient-based samplers, `log_density_gradient(x)`; a kernel
moves many chains in one call; :func:`run` keeps the draws:

>>> import numpy as np
>>> from pyflowers.samplers import HMC, NormalMixture, run
>>> rng = np.random.default_rng(1)
>>> hmc = HMC(NormalMixture.lecture_hmc(), step_size=0.5, num_steps=10)
>>> result = run(hmc, rng, np.zeros((4, 1)), num_draws=2_000)
>>> result.draws.shape
(4, 2000, 1)
"""

from pyflowers.samplers.densities import (
    ExactTarget,
    GradLogDensity,
    LogDensity,
    OneAtATime,
    PointDensity,
)
from pyflowers.samplers.gamma import Gamma, LogGamma
from pyflowers.samplers.hmc import HMC, HMCInfo, HMCState
from pyflowers.samplers.integrators import (
    INTEGRATORS,
    ORDERS,
    Integrator,
    PhasePoint,
    euler,
    flip,
    hamiltonian,
    leapfrog,
    modified_euler,
    phase_point,
    trajectory,
)
from pyflowers.samplers.langevin import MALA, MALAInfo, MALAState
from pyflowers.samplers.markov import (
    convergence_rate,
    detailed_balance_error,
    distributions,
    metropolis_matrix,
    ring_walk,
    simulate,
    stationary_distribution,
    total_variation,
)
from pyflowers.samplers.mass import DenseMass, DiagonalMass, Mass, UnitMass
from pyflowers.samplers.metropolis import (
    Metropolis,
    MetropolisHastings,
    MetropolisInfo,
    MetropolisState,
)
from pyflowers.samplers.proposals import (
    AutoregressiveStep,
    GaussianStep,
    MultiplicativeStep,
    OneSidedStep,
    Proposal,
    SignedStep,
    SymmetricProposal,
    UniformStep,
)
from pyflowers.samplers.regression import LinearRegression
from pyflowers.samplers.rejection import (
    RejectionInfo,
    ball_acceptance_rate,
    propose_in_cube,
    uniform_in_ball,
)
from pyflowers.samplers.runner import Kernel, Run, run
from pyflowers.samplers.sgld import (
    SGLD,
    ConstantSteps,
    DecayingSteps,
    FullGradient,
    MinibatchGradient,
    MinibatchTarget,
    SGLDInfo,
    SGLDState,
    handout_noise_sd,
    langevin_noise_sd,
)
from pyflowers.samplers.stan_density import StanDensity
from pyflowers.samplers.targets import Gaussian, NormalMixture, StandardNormal

__all__ = [
    "HMC",
    "INTEGRATORS",
    "MALA",
    "ORDERS",
    "SGLD",
    "AutoregressiveStep",
    "ConstantSteps",
    "DecayingSteps",
    "DenseMass",
    "DiagonalMass",
    "ExactTarget",
    "FullGradient",
    "Gamma",
    "Gaussian",
    "GaussianStep",
    "GradLogDensity",
    "HMCInfo",
    "HMCState",
    "Integrator",
    "Kernel",
    "LinearRegression",
    "LogDensity",
    "LogGamma",
    "MALAInfo",
    "MALAState",
    "Mass",
    "Metropolis",
    "MetropolisHastings",
    "MetropolisInfo",
    "MetropolisState",
    "MinibatchGradient",
    "MinibatchTarget",
    "MultiplicativeStep",
    "NormalMixture",
    "OneAtATime",
    "OneSidedStep",
    "PhasePoint",
    "PointDensity",
    "Proposal",
    "RejectionInfo",
    "Run",
    "SGLDInfo",
    "SGLDState",
    "SignedStep",
    "StanDensity",
    "StandardNormal",
    "SymmetricProposal",
    "UniformStep",
    "UnitMass",
    "ball_acceptance_rate",
    "convergence_rate",
    "detailed_balance_error",
    "distributions",
    "euler",
    "flip",
    "hamiltonian",
    "handout_noise_sd",
    "langevin_noise_sd",
    "leapfrog",
    "metropolis_matrix",
    "modified_euler",
    "phase_point",
    "propose_in_cube",
    "ring_walk",
    "run",
    "simulate",
    "stationary_distribution",
    "total_variation",
    "trajectory",
    "uniform_in_ball",
]
