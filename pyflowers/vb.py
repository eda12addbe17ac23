"""Closed-form mean-field variational Bayes, in NumPy."""

from pyflowers.posterior.distributions import (
    Distribution,
    MultilevelPrior,
    Normal,
    NormalPrior,
    ScaledInvChiSquare,
    SufficientStatistics,
)
from pyflowers.posterior.mean_field import NotConvergedWarning, State, VBResult
from pyflowers.posterior.mean_field_multilevel import MultilevelVB, fit_multilevel_normal
from pyflowers.posterior.mean_field_normal import NormalVB, fit_normal

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
