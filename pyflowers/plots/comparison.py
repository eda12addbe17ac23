"""Model comparison: differences in elpd with their standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pyflowers.plots.style import LIGHT, Theme, finish, label, new_figure, styled

if TYPE_CHECKING:
    from pyflowers.compare.loo import LooComparison

Z_90 = 1.6448536269514722
"""Half-width of a 90% interval in standard errors."""


@styled
def elpd_differences(comparison: LooComparison, *, theme: Theme = LIGHT) -> Figure:
    """Draw each model's elpd difference to the best one with its 90% interval.

    Parameters
    ----------
    comparison : LooComparison
        As :func:`pyflowers.compare.compare_models` returns it.
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
    ax.hlines(rows, difference - Z_90 * error, difference + Z_90 * error, color=theme.model, lw=2.2)
    ax.plot(difference, rows, "o", ms=6, color=theme.model)
    ax.set_yticks(rows, [label(model.name, 32) for model in models])
    ax.set_ylim(len(models) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("elpd difference to the best model, 90% interval (right is better)")
    differences = "; ".join(
        f"{m.name} {m.difference:.3g} (standard error {m.difference_se:.3g})" for m in models[1:]
    )
    alt = (
        f"Differences in elpd to {comparison.best.name}, which predicts best: "
        f"{differences or 'no other model'}."
    )
    return finish(figure, alt)
