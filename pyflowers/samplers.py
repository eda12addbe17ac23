"""Metropolis, Hamiltonian Monte Carlo and Langevin samplers in NumPy, written for readability.

A target has the method `log_density(x)` and, for gradient-based samplers,
`log_density_gradient(x)`. A kernel moves many chains in one call, and :func:`run` keeps the draws:

>>> import numpy as np
>>> from pyflowers.samplers import HMC, NormalMixture, run
>>> rng = np.random.default_rng(1)
>>> hmc = HMC(NormalMixture.lecture_hmc(), step_size=0.5, num_steps=10)
>>> result = run(hmc, rng, np.zeros((4, 1)), num_draws=2_000)
>>> result.draws.shape
(4, 2000, 1)
"""

from pyflowers.lectures.samplers.hmc import (
    HMC,
    INTEGRATORS,
    ORDERS,
    Integrator,
    Mass,
    PhasePoint,
    euler,
    flip,
    hamiltonian,
    leapfrog,
    modified_euler,
    phase_point,
    trajectory,
)
from pyflowers.lectures.samplers.kernels import GradLogDensity, Kernel, LogDensity, Run, run
from pyflowers.lectures.samplers.langevin import (
    MALA,
    SGLD,
    DecayingSteps,
    handout_noise_sd,
    langevin_noise_sd,
)
from pyflowers.lectures.samplers.markov import (
    convergence_rate,
    detailed_balance_error,
    distributions,
    metropolis_matrix,
    ring_walk,
    simulate,
    stationary_distribution,
    total_variation,
)
from pyflowers.lectures.samplers.metropolis import (
    GaussianStep,
    Metropolis,
    MetropolisHastings,
    MultiplicativeStep,
    OneSidedStep,
    Proposal,
    SignedStep,
    SymmetricProposal,
    UniformStep,
)
from pyflowers.lectures.samplers.rejection import (
    ball_acceptance_rate,
    propose_in_cube,
    uniform_in_ball,
)
from pyflowers.lectures.samplers.stan_density import StanDensity
from pyflowers.lectures.samplers.targets import (
    Gamma,
    LinearRegression,
    NormalMixture,
    StandardNormal,
)

__all__ = ["GradLogDensity", "Kernel", "LogDensity", "Run", "run"]
__all__ += ["Gamma", "LinearRegression", "NormalMixture", "StanDensity", "StandardNormal"]
__all__ += ["ball_acceptance_rate", "propose_in_cube", "uniform_in_ball"]
__all__ += ["Metropolis", "MetropolisHastings", "Proposal", "SymmetricProposal"]
__all__ += ["GaussianStep", "MultiplicativeStep", "OneSidedStep", "SignedStep", "UniformStep"]
__all__ += ["HMC", "MALA", "SGLD", "DecayingSteps", "handout_noise_sd", "langevin_noise_sd"]
__all__ += ["INTEGRATORS", "ORDERS", "Integrator", "Mass", "PhasePoint", "euler", "flip"]
__all__ += ["hamiltonian", "leapfrog", "modified_euler", "phase_point", "trajectory"]
__all__ += ["convergence_rate", "detailed_balance_error", "distributions", "metropolis_matrix"]
__all__ += ["ring_walk", "simulate", "stationary_distribution", "total_variation"]
