"""Exact posteriors by quadrature, where that is possible: what samplers are judged by."""

from pyflowers.exact.flowers import (
    exact_iid_normal,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.exact.multilevel import MultilevelExact, NotRefinedWarning
from pyflowers.exact.normal import NormalExact
from pyflowers.exact.posterior import ExactPosterior, kl_divergence

__all__ = [
    "ExactPosterior",
    "MultilevelExact",
    "NormalExact",
    "NotRefinedWarning",
    "exact_iid_normal",
    "exact_multilevel_normal",
    "exact_multilevel_poisson",
    "kl_divergence",
]
