"""Results of a fit, and how far they can be trusted.

The modules compute predictive checks, predictions, contrasts and average effects. They compare
models by PSIS-LOO, and methods of inference for one posterior. They also draw from the prior,
measure how sensitive a posterior is to the prior, and run simulation-based calibration.

>>> import pyflowers
>>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
>>> pyflowers.check(fit).passed
True
"""

from typing import Any

# No module has the name of an object that this package exports. The names are imported lazily, so
# type checkers see them only in the modules below or in pyflowers, not here.
_HOMES = {
    "average_effects": "Effects effects",
    "checks": "PredictiveCheck PredictiveChecks check",
    "contrasts": "Contrasts contrast",
    "elpd": "GroupComparison LooComparison ModelGroups ModelLoo leave_one_group_out loo",
    "designs": "Design design",
    "explained_variance": "Explained explained",
    "folds": "FoldComparison ModelFolds k_fold",
    "grids": "grid",
    "improvements": "Improvement",
    "model_tables": "ModelTable table",
    "methods": "METHOD_NAMES Comparison MethodResult compare reference_method",
    "predictions": "Prediction Predictions RowPredictions predict",
    "prior_sensitivity": "THRESHOLD Sensitivity sensitivity",
    "priors": "PriorPredictive prior",
    "calibration": "Calibration sbc",
    "statistics": "STATISTICS Statistic",
}

__all__ = sorted(" ".join(_HOMES.values()).split())


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that no unused analysis is imported."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
