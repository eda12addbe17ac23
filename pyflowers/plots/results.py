"""The figures that commands write to ``--out``, for each kind of result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.analysis.average_effects import Effects
from pyflowers.analysis.checks import PredictiveChecks
from pyflowers.analysis.contrasts import Contrasts
from pyflowers.analysis.designs import Design
from pyflowers.analysis.elpd import ElpdComparison, LooComparison
from pyflowers.analysis.explained_variance import Explained
from pyflowers.analysis.methods import Comparison
from pyflowers.analysis.predictions import Predictions, RowPredictions
from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.analysis.priors import PriorPredictive
from pyflowers.display import Result
from pyflowers.fits.posterior import element_names, flat
from pyflowers.plots.conditional import conditional_effects
from pyflowers.plots.designs import design
from pyflowers.plots.eyes import effects
from pyflowers.plots.groups import forest, group_intervals, predictions, values_of_result
from pyflowers.plots.methods import comparison_drawings
from pyflowers.plots.predictive import (
    density_overlay,
    pit_ecdf,
    predictive,
    predictive_checks,
)
from pyflowers.plots.priors import power_scaling, prior_drawings
from pyflowers.plots.shares import explained
from pyflowers.programs import Capability

if TYPE_CHECKING:
    import xarray as xr

Drawings = dict[str, Callable[[], Figure]]
"""Functions that draw figures, by file name."""


def figures_of(found: Result) -> dict[str, Figure]:
    """Return the figures of a result by file name; empty if there are none for its kind."""
    return {name: draw() for name, draw in drawings_of(found).items()}


def drawings_of(found: Result) -> Drawings:
    """Return functions that draw the figures of a result; empty if there are none for its kind."""
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
        names, of_rows = _names_of_effects(found.index)
        made["effects.png"] = partial(
            values_of_result,
            names,
            found.effects.values,
            interval=found.fit.interval,
            what=found.meaning,
            of_rows=of_rows,
            null=null,
        )
    else:
        made["effects.png"] = partial(effects, found)
    return made


def _names_of_effects(index: pd.MultiIndex) -> tuple[list[str], str]:
    """Return the names of effects, and their title; a single column is named only in the title."""
    titles = list(map(str, index.names))
    if index.get_level_values(0).nunique() == 1:
        titles[1] = str(index[0][0])
        return [", ".join(map(str, key[1:])) for key in index], ", ".join(titles[1:])
    return [", ".join(map(str, key)) for key in index], ", ".join(titles)


def _of_contrasts(found: Contrasts) -> Drawings:
    made = Drawings()
    if found.fit.program.can(Capability.GROUP_MEAN):
        made["forest.png"] = partial(forest, found.fit)
    values = [each for each in found.derived if each.dtype != bool]
    ranks = [each for each in values if each.attrs["is_rank"]]
    values = [each for each in values if not each.attrs["is_rank"]]
    interval = found.fit.interval
    if values:
        names, of_rows, draws = _elements(values)
        made["contrasts.png"] = partial(
            values_of_result,
            names,
            draws,
            interval=interval,
            what="value",
            of_rows=of_rows,
            sort="down",
        )
    if ranks:
        names, of_rows, draws = _elements(ranks)
        made["ranks.png"] = partial(
            values_of_result,
            names,
            draws,
            interval=interval,
            what="rank: 1 is the largest",
            of_rows=of_rows,
            sort="up",
        )
    return made


def _elements(quantities: Sequence[xr.DataArray]) -> tuple[list[str], str, NDArray[np.float64]]:
    """Return the names of elements, the name of their vector if there is only one, and draws."""
    names, of_rows = [element for each in quantities for element in element_names(each)], ""
    if len(quantities) == 1 and len(names) > 1:
        of_rows = str(quantities[0].name)
        names = [element[len(of_rows) + 1 : -1] for element in names]
    draws = np.concatenate([np.asarray(flat(each), float) for each in quantities], axis=2)
    return names, of_rows, draws


def _of_design(found: Design) -> Drawings:
    return {"design.png": partial(design, found)}


def _of_explained(found: Explained) -> Drawings:
    return {"explained.png": partial(explained, found)}


def _of_loo(found: ElpdComparison) -> Drawings:
    if isinstance(found, LooComparison) and found.explained is not None:
        return _of_explained(found.explained)
    return {}


def _of_sensitivity(found: Sensitivity) -> Drawings:
    if found.is_known:
        return {"sensitivity.png": partial(power_scaling, [found])}
    return {}


_DRAWINGS: dict[str, Callable[[Any], Drawings]] = {
    "checks": _of_checks,
    "comparison": _of_comparison,
    "contrasts": _of_contrasts,
    "design": _of_design,
    "effects": _of_effects,
    "explained": _of_explained,
    "loo": _of_loo,
    "predictions": _of_predictions,
    "prior": _of_prior,
    "sensitivity": _of_sensitivity,
}
"""The functions that return the drawings of a result, by the kind of result."""
