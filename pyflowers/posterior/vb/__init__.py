"""Closed-form mean-field variational Bayes, in NumPy."""

from pyflowers.posterior.vb.distributions import Distribution, Normal, ScaledInvChiSquare
from pyflowers.posterior.vb.multilevel import MultilevelVB, fit_multilevel_normal
from pyflowers.posterior.vb.normal import NormalVB, fit_normal
from pyflowers.posterior.vb.priors import MultilevelPrior, NormalPrior
from pyflowers.posterior.vb.results import NotConvergedWarning, State, VBResult
from pyflowers.posterior.vb.statistics import SufficientStatistics

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
