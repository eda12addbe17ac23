"""Exact posteriors by quadrature, and independent draws from them, where that is possible."""

from pyflowers.posterior.hyper import HyperDraws
from pyflowers.posterior.multilevel import (
    ExactDraws,
    MultilevelExact,
    NormalSampler,
    NotRefinedWarning,
    PoissonSampler,
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
