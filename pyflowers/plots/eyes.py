"""Half-eye plots of average effects: the density of each effect, its median and two intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.display import percent, upper_first
from pyflowers.plots import style
from pyflowers.plots.groups import (
    MOST_EYES,
    ROW_OF_EYE,
    half_eyes,
    interval_probs,
    intervals_of_rows,
)
from pyflowers.plots.style import LIGHT, Theme, finish, fitted, label, styled

if TYPE_CHECKING:
    from pyflowers.analysis.average_effects import Effects

MOST_PANELS = 6


@styled
def effects(found: Effects, *, theme: Theme = LIGHT) -> Figure:
    """Draw the density, the median and two intervals of each average effect.

    The intervals have probability 50% and the fit's ``interval``, 90% by default. If the model
    has a log link, as with family ``poisson``, the effects are drawn as ratios.

    Parameters
    ----------
    found : Effects
        The effects that :func:`pyflowers.effects` returns. At most 6 columns are drawn, and 10
        effects of each.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each column, because the effects of each column have their own unit.

    See Also
    --------
    pyflowers.effects : Compute average effects.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> figure = pyflowers.plots.effects(pyflowers.effects(fit, "dose"))
    >>> figure.savefig("effects.png")
    """
    if found.ratios is not None:
        found = replace(found, scale="ratio", effects=found.ratios)
    values, what = found.effects.values, found.meaning
    columns = found.index.get_level_values(0)
    names = list(dict.fromkeys(columns))
    shown = [np.flatnonzero(columns == name)[:MOST_EYES] for name in names[:MOST_PANELS]]
    heights = [len(rows) * ROW_OF_EYE + 0.7 for rows in shown]
    figure = style.new_figure(sum(heights) + 0.6, theme)
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    told = []
    for ax, name, rows in zip(axes, names, shown, strict=False):
        draws = values[..., rows]
        levels = np.quantile(draws, interval_probs(found.fit.interval), axis=(0, 1))
        half_eyes(ax, draws, theme)
        ax.axvline(found.null, color=theme.muted, lw=0.8, zorder=0)
        handles = intervals_of_rows(ax, levels, theme, found.fit.interval)
        changes = [
            ", ".join(str(part) for part in found.index[row][1:] if part != "either")
            for row in rows.tolist()
        ]
        ax.set_yticks(np.arange(len(rows)), [fitted(label(each), 2.0, size=8) for each in changes])
        ax.set_ylim(len(rows) - 0.7, -0.9)
        ax.grid(axis="y", visible=False)
        ax.set_title(fitted(str(name), style.panel_width(1), size=9.5, bold=True), pad=3)
        told.append(_told(str(name), changes, levels[2]))
    axes[-1].set_xlabel(fitted(what, 4.4))
    style.legend(figure, handles)
    notes = []
    if len(names) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(names)} columns are shown.")
    if any(np.sum(columns == name) > MOST_EYES for name in names):
        notes.append(f"At most {MOST_EYES} effects of each column are shown.")
    alt = (
        f"{upper_first(what)}, with intervals of 50% and {percent(found.fit.interval)}: medians "
        f"{'; '.join(told)}."
    )
    return finish(figure, alt, *notes)


def _told(column: str, changes: Sequence[str], medians: NDArray[np.float64]) -> str:
    """Return the median of a column's only effect, or the lowest and the highest of several."""
    low, high = int(np.argmin(medians)), int(np.argmax(medians))
    if len(changes) == 1:
        return f"{column}: {medians[0]:.3g} ({changes[0]})"
    return f"{column}: {medians[low]:.3g} ({changes[low]}) to {medians[high]:.3g} ({changes[high]})"
