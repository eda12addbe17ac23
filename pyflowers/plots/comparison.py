"""Model comparison: differences in elpd with their standard errors."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pyflowers.display import INTERVAL, percent
from pyflowers.plots.style import LIGHT, Theme, finish, label, new_figure, styled

if TYPE_CHECKING:
    from pyflowers.analysis.elpd import LooComparison


def half_width(interval: float) -> float:
    """Return half the width of a normal distribution's interval, in standard deviations."""
    return NormalDist().inv_cdf((1 + interval) / 2)


@styled
def elpd_differences(
    comparison: LooComparison, *, interval: float = INTERVAL, theme: Theme = LIGHT
) -> Figure:
    """Draw each model's elpd difference to the best one with its interval.

    Parameters
    ----------
    comparison : LooComparison
        As :func:`pyflowers.loo` returns it.
    interval : float
        Probability of the intervals.
    theme : Theme
        Colours.
    """
    models = comparison.models
    rows = np.arange(len(models))
    figure = new_figure(0.75 + 0.36 * len(models), theme)
    ax = figure.subplots()
    difference = np.array([model.difference for model in models])
    error = np.array([model.difference_se for model in models])
    ax.axvline(0, color=theme.muted, lw=0.9, ls=(0, (4, 2)))
    half = half_width(interval) * error
    ax.hlines(rows, difference - half, difference + half, color=theme.model, lw=2.2)
    ax.plot(difference, rows, "o", ms=6, color=theme.model)
    ax.set_yticks(rows, [label(model.name, 32) for model in models])
    ax.set_ylim(len(models) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    shown = f"{percent(interval)} interval (right is better)"
    ax.set_xlabel(f"elpd difference to the best model, {shown}")
    differences = "; ".join(
        f"{m.name} {m.difference:.3g} (standard error {m.difference_se:.3g})" for m in models[1:]
    )
    alt = (
        f"Differences in elpd to {comparison.best.name}, which predicts best: "
        f"{differences or 'no other model'}."
    )
    return finish(figure, alt)
