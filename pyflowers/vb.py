"""Closed-form mean-field variational Bayes, in NumPy."""

from pyflowers.lectures.posterior.distributions import (
    Distribution,
    MultilevelPrior,
    Normal,
    NormalPrior,
    ScaledInvChiSquare,
    SufficientStatistics,
)
from pyflowers.lectures.posterior.mean_field import (
    MultilevelVB,
    NormalVB,
    NotConvergedWarning,
    State,
    VBResult,
    fit_multilevel_normal,
    fit_normal,
)

__all__ = [
    "Distribution",
    "MultilevelPrior",
    "MultilevelVB",
    "Normal",
    "NormalPrior",
    "NormalVB",
    "NotConvergedWarning",
    "ScaledInvChiSquare",
    "State",
    "SufficientStatistics",
    "VBResult",
    "fit_multilevel_normal",
    "fit_normal",
]
