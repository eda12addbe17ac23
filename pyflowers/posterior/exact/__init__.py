"""Exact posteriors by quadrature, and independent draws from them, where that is possible."""

from pyflowers.posterior.exact.draws import (
    ExactDraws,
    draw_multilevel_normal,
    draw_multilevel_poisson,
    draw_normal,
)
from pyflowers.posterior.exact.envelope import HyperDraws
from pyflowers.posterior.exact.flowers import (
    exact_iid_normal,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.posterior.exact.hierarchy import NormalSampler, PoissonSampler
from pyflowers.posterior.exact.multilevel import MultilevelExact, NotRefinedWarning
from pyflowers.posterior.exact.normal import NormalExact
from pyflowers.posterior.exact.posterior import ExactPosterior, kl_divergence

__all__ = [
    "ExactDraws",
    "ExactPosterior",
    "HyperDraws",
    "MultilevelExact",
    "NormalExact",
    "NormalSampler",
    "NotRefinedWarning",
    "PoissonSampler",
    "draw_multilevel_normal",
    "draw_multilevel_poisson",
    "draw_normal",
    "exact_iid_normal",
    "exact_multilevel_normal",
    "exact_multilevel_poisson",
    "kl_divergence",
]
