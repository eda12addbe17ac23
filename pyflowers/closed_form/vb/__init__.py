"""Closed-form mean-field variational Bayes, in NumPy."""

from pyflowers.closed_form.vb.distributions import Distribution, Normal, ScaledInvChiSquare
from pyflowers.closed_form.vb.multilevel import MultilevelVB, fit_multilevel_normal
from pyflowers.closed_form.vb.normal import NormalVB, fit_normal
from pyflowers.closed_form.vb.priors import MultilevelPrior, NormalPrior
from pyflowers.closed_form.vb.results import NotConvergedWarning, State, VBResult
from pyflowers.closed_form.vb.statistics import SufficientStatistics

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
