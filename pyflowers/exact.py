"""Exact posteriors by quadrature and, where possible, independent draws from them."""

from pyflowers.lectures.posterior.hyper import HyperDraws
from pyflowers.lectures.posterior.multilevel import (
    ExactDraws,
    MultilevelExact,
    NormalSampler,
    NotRefinedWarning,
    PoissonSampler,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.lectures.posterior.one_normal import (
    ExactPosterior,
    NormalExact,
    draw_normal,
    kl_divergence,
)

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
