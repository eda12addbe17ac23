"""What follows from a fit, and how far it can be believed.

Predictive checks, predictions and contrasts; comparison of models by PSIS-LOO and of methods on one
posterior; the prior and a posterior's sensitivity to it; simulation-based calibration.

>>> import pyflowers
>>> found = pyflowers.sbc("iid_normal", sims=20, out="results/sbc", seed=1,
...                       priors={"mu_mean": 5, "mu_sd": 2, "sigma2_nu": 10})
>>> list(found.table().index)
['mu', 'sigma2', 'log_lik']
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for tools that read code
    from pyflowers.analysis.calibration import Calibration as Calibration
    from pyflowers.analysis.checks import PredictiveCheck as PredictiveCheck
    from pyflowers.analysis.checks import PredictiveChecks as PredictiveChecks
    from pyflowers.analysis.checks import check as check
    from pyflowers.analysis.contrasts import Contrasts as Contrasts
    from pyflowers.analysis.contrasts import contrast as contrast
    from pyflowers.analysis.elpd import GroupComparison as GroupComparison
    from pyflowers.analysis.elpd import LooComparison as LooComparison
    from pyflowers.analysis.elpd import ModelGroups as ModelGroups
    from pyflowers.analysis.elpd import ModelLoo as ModelLoo
    from pyflowers.analysis.elpd import leave_one_group_out as leave_one_group_out
    from pyflowers.analysis.elpd import loo as loo
    from pyflowers.analysis.methods import METHOD_NAMES as METHOD_NAMES
    from pyflowers.analysis.methods import Comparison as Comparison
    from pyflowers.analysis.methods import MethodResult as MethodResult
    from pyflowers.analysis.methods import compare as compare
    from pyflowers.analysis.methods import reference_method as reference_method
    from pyflowers.analysis.predictions import Prediction as Prediction
    from pyflowers.analysis.predictions import Predictions as Predictions
    from pyflowers.analysis.predictions import predict as predict
    from pyflowers.analysis.prior_sensitivity import THRESHOLD as THRESHOLD
    from pyflowers.analysis.prior_sensitivity import Sensitivity as Sensitivity
    from pyflowers.analysis.prior_sensitivity import sensitivity as sensitivity
    from pyflowers.analysis.priors import PriorPredictive as PriorPredictive
    from pyflowers.analysis.priors import prior as prior
    from pyflowers.analysis.simulations import sbc as sbc
    from pyflowers.analysis.statistics import STATISTICS as STATISTICS
    from pyflowers.analysis.statistics import Statistic as Statistic

# A module is never called like something that this package exports.
_HOMES = {
    "checks": "PredictiveCheck PredictiveChecks check",
    "contrasts": "Contrasts contrast",
    "elpd": "GroupComparison LooComparison ModelGroups ModelLoo leave_one_group_out loo",
    "methods": "METHOD_NAMES Comparison MethodResult compare reference_method",
    "predictions": "Prediction Predictions predict",
    "prior_sensitivity": "THRESHOLD Sensitivity sensitivity",
    "priors": "PriorPredictive prior",
    "calibration": "Calibration",
    "simulations": "sbc",
    "statistics": "STATISTICS Statistic",
}

__all__ = sorted(" ".join(_HOMES.values()).split())


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that one analysis does not import all."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
