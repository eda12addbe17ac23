"""The figures that commands write to ``--out``, for each kind of result."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pyflowers.analysis.average_effects import Effects
from pyflowers.analysis.checks import PredictiveChecks
from pyflowers.analysis.contrasts import Contrasts
from pyflowers.analysis.methods import Comparison
from pyflowers.analysis.predictions import Predictions, RowPredictions
from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.analysis.priors import PriorPredictive
from pyflowers.display import Result
from pyflowers.fits.posterior import element_names, flat
from pyflowers.plots.conditional import conditional_effects
from pyflowers.plots.groups import forest, group_intervals, predictions, values_of_result
from pyflowers.plots.methods import comparison_drawings
from pyflowers.plots.predictive import (
    density_overlay,
    pit_ecdf,
    predictive,
    predictive_checks,
)
from pyflowers.plots.priors import power_scaling, prior_drawings
from pyflowers.programs import Capability

Drawings = dict[str, Callable[[], Figure]]
"""Functions that draw figures, by file name."""


def figures_of(found: Result) -> dict[str, Figure]:
    """Draw the figures of a result by file name; empty if its kind has none."""
    return {name: draw() for name, draw in drawings_of(found).items()}


def drawings_of(found: Result) -> Drawings:
    """Return functions that draw the figures of a result; empty if its kind has none."""
    of_kind = _DRAWINGS.get(found.holds)
    if of_kind is None:
        return {}
    return of_kind(found)


def _of_checks(found: PredictiveChecks) -> Drawings:
    program, replicated = found.fit.program, density_overlay
    if program.counts:
        replicated = predictive
    made: Drawings = {
        "checks.png": partial(predictive_checks, found),
        "replicated.png": partial(replicated, found.fit),
    }
    # If each group has its own mean, every observed mean is in the middle of its interval.
    if found.groups is not None and not program.can(Capability.GROUP_MEAN):
        made["groups.png"] = partial(group_intervals, found)
    if found.pit is not None:
        made["loo_pit.png"] = partial(pit_ecdf, found)
    return made


def _of_comparison(found: Comparison) -> Drawings:
    return {f"{name}.png": draw for name, draw in comparison_drawings(found).items()}


def _of_predictions(found: Predictions | RowPredictions) -> Drawings:
    return {"predictions.png": partial(predictions, found)}


def _of_prior(found: PriorPredictive) -> Drawings:
    return {f"{name}.png": draw for name, draw in prior_drawings(found).items()}


def _of_effects(found: Effects) -> Drawings:
    made = Drawings()
    for column in dict.fromkeys(found.index.get_level_values("column")):
        name = "effect-" + re.sub(r"[^\w.-]+", "_", column)
        while f"{name}.png" in made:  # "a b" and "a_b" give the same name
            name += "_"
        made[f"{name}.png"] = partial(conditional_effects, found.fit, column)
    if found.all_pairs or found.scale == "mean" or found.outcomes or found.joint:
        null = None if found.scale == "mean" else found.null
        made["effects.png"] = partial(
            values_of_result,
            [", ".join(map(str, key)) for key in found.index],
            found.effects.values,
            interval=found.fit.interval,
            what=f"{found.scale}, {found.response}",
            null=null,
        )
    return made


def _of_contrasts(found: Contrasts) -> Drawings:
    made = Drawings()
    if found.fit.program.can(Capability.GROUP_MEAN):
        made["forest.png"] = partial(forest, found.fit)
    for name, what, is_rank in (("contrasts", "value", False), ("ranks", "rank", True)):
        its = [q for q in found.derived if q.attrs["is_rank"] == is_rank and q.dtype != bool]
        if its:
            names = [element for each in its for element in element_names(each)]
            draws = np.concatenate([np.asarray(flat(each), float) for each in its], axis=2)
            made[f"{name}.png"] = partial(
                values_of_result, names, draws, interval=found.fit.interval, what=what
            )
    return made


def _of_sensitivity(found: Sensitivity) -> Drawings:
    if found.is_known:
        return {"sensitivity.png": partial(power_scaling, [found])}
    return {}


_DRAWINGS: dict[str, Callable[[Any], Drawings]] = {
    "checks": _of_checks,
    "comparison": _of_comparison,
    "contrasts": _of_contrasts,
    "effects": _of_effects,
    "predictions": _of_predictions,
    "prior": _of_prior,
    "sensitivity": _of_sensitivity,
}
"""The functions that return the drawings of a result, by what its folder holds."""
