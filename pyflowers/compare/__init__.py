"""Methods side by side on one posterior: exact, NUTS, closed-form VB, ADVI, Laplace, Pathfinder."""

from pyflowers.compare.closed_form import exact_posterior, variational
from pyflowers.compare.methods import METHOD_NAMES, Comparison, MethodResult, compare_methods

__all__ = [
    "METHOD_NAMES",
    "Comparison",
    "MethodResult",
    "compare_methods",
    "exact_posterior",
    "variational",
]
