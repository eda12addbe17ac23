"""Exact posteriors by quadrature, and independent draws from them, where that is possible."""

from pyflowers.posterior.hyper_draws import HyperDraws
from pyflowers.posterior.multilevel_draws import ExactDraws, NormalSampler, PoissonSampler
from pyflowers.posterior.multilevel_marginals import (
    MultilevelExact,
    NotRefinedWarning,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.posterior.one_normal import ExactPosterior, NormalExact, draw_normal, kl_divergence

__all__ = [
    "ExactDraws",
    "ExactPosterior",
    "HyperDraws",
    "MultilevelExact",
    "NormalExact",
    "NormalSampler",
    "NotRefinedWarning",
    "PoissonSampler",
    "draw_normal",
    "exact_multilevel_normal",
    "exact_multilevel_poisson",
    "kl_divergence",
]
