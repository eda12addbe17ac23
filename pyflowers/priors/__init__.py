"""What the prior says before the data, and how much of a posterior depends on it.

Prior predictive draws are in :mod:`.predictive`, sensitivity to power-scaling in
:mod:`.sensitivity`.
"""

from pyflowers.priors.predictive import PriorPredictive, prior_predictive
from pyflowers.priors.sensitivity import THRESHOLD, Sensitivity, prior_sensitivity

__all__ = ["THRESHOLD", "PriorPredictive", "Sensitivity", "prior_predictive", "prior_sensitivity"]
