"""Simulation-based calibration: whether the computation gives the posterior that a model has.

>>> import pyflowers
>>> found = pyflowers.calibrate("iid_normal", sims=20, out="results/sbc", seed=1,
...                             priors={"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 10})
>>> list(found.table().index)
['mu', 'sigma2', 'log_lik']
"""

from pyflowers.calibration.calibrate import calibrate
from pyflowers.calibration.result import Calibration

__all__ = ["Calibration", "calibrate"]
