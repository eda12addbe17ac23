"""Models of one data set side by side, and methods on one posterior.

Models are compared by PSIS-LOO (:mod:`.loo`); methods are exact, NUTS, closed-form VB, ADVI,
Laplace and Pathfinder (:mod:`.methods`).
"""

from pyflowers.compare.groups import GroupComparison, ModelGroups, leave_one_group_out
from pyflowers.compare.loo import LooComparison, ModelLoo, compare_models
from pyflowers.compare.methods import (
    METHOD_NAMES,
    Comparison,
    MethodResult,
    compare_methods,
    reference_method,
)

__all__ = [
    "METHOD_NAMES",
    "Comparison",
    "GroupComparison",
    "LooComparison",
    "MethodResult",
    "ModelGroups",
    "ModelLoo",
    "compare_methods",
    "compare_models",
    "leave_one_group_out",
    "reference_method",
]
