"""What a fit predicts, whether it would produce data like those it was given, and what follows.

Predictive checks (:mod:`.predictive`), predictions of new data (:mod:`.predictions`), contrasts and
probabilities of derived quantities (:mod:`.contrasts`), and simultaneous bands for what should be
uniform (:mod:`.ecdf`).
"""

from pyflowers.checks.contrasts import Contrasts, contrast
from pyflowers.checks.predictions import Prediction, Predictions, predict
from pyflowers.checks.predictive import Check, PredictiveChecks, check
from pyflowers.checks.statistics import STATISTICS, Statistic

__all__ = [
    "STATISTICS",
    "Check",
    "Contrasts",
    "Prediction",
    "Predictions",
    "PredictiveChecks",
    "Statistic",
    "check",
    "contrast",
    "predict",
]
