"""The figures that commands write to ``--out``, for each kind of result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from pyflowers.analysis.average_effects import Effects
from pyflowers.analysis.checks import PredictiveChecks
from pyflowers.analysis.contrasts import Contrasts
from pyflowers.analysis.predictions import Predictions, RowPredictions
from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.display import Result
from pyflowers.plots.conditional import conditional_effects
from pyflowers.plots.groups import forest, group_intervals, predictions
from pyflowers.plots.methods import comparison_figures
from pyflowers.plots.predictive import (
    density_overlay,
    pit_ecdf,
    predictive,
    predictive_checks,
)
from pyflowers.plots.priors import power_scaling, prior_figures
from pyflowers.programs import Capability

Figures = dict[str, Figure]


def figures_of(found: Result) -> Figures:
    """Draw the figures of a result by file name; empty if its kind has none."""
    draw = _FIGURES.get(found.holds)
    return {} if draw is None else draw(found)


def _of_checks(found: PredictiveChecks) -> Figures:
    program = found.fit.program
    replicated = predictive if program.counts else density_overlay
    made = {"checks.png": predictive_checks(found), "replicated.png": replicated(found.fit)}
    # If each group has its own mean, every observed mean is in the middle of its interval.
    if found.groups is not None and not program.can(Capability.GROUP_MEAN):
        made["groups.png"] = group_intervals(found)
    if found.pit is not None:
        made["loo_pit.png"] = pit_ecdf(found)
    return made


def _of_predictions(found: Predictions | RowPredictions) -> Figures:
    return {"predictions.png": predictions(found)}


def _of_effects(found: Effects) -> Figures:
    made = Figures()
    for column in dict.fromkeys(found.index.get_level_values("column")):
        name = "effect-" + re.sub(r"[^\w.-]+", "_", column)
        while f"{name}.png" in made:  # "a b" and "a_b" give the same name
            name += "_"
        made[f"{name}.png"] = conditional_effects(found.fit, column)
    return made


def _of_contrasts(found: Contrasts) -> Figures:
    has_groups = found.fit.program.can(Capability.GROUP_MEAN)
    return {"forest.png": forest(found.fit)} if has_groups else {}


def _of_sensitivity(found: Sensitivity) -> Figures:
    return {"sensitivity.png": power_scaling([found])} if found.is_known else {}


_FIGURES: dict[str, Callable[[Any], Figures]] = {
    "checks": _of_checks,
    "comparison": comparison_figures,
    "contrasts": _of_contrasts,
    "effects": _of_effects,
    "predictions": _of_predictions,
    "prior": prior_figures,
    "sensitivity": _of_sensitivity,
}
"""The functions that draw the figures of a result, by what its folder holds."""
