"""Closed-form mean-field variational Bayes, in NumPy."""

from pyflowers.vb.distributions import Distribution, Normal, ScaledInvChiSquare
from pyflowers.vb.multilevel import MultilevelVB, fit_multilevel_normal
from pyflowers.vb.normal import NormalVB, fit_normal
from pyflowers.vb.priors import MultilevelPrior, NormalPrior
from pyflowers.vb.results import NotConvergedWarning, State, VBResult
from pyflowers.vb.statistics import SufficientStatistics

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
