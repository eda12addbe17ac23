"""The data as small multiples: what was observed, and which times are missing."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pyflowers.data import Labels
from pyflowers.errors import ConfigError
from pyflowers.plots.style import (
    LIGHT,
    Axes,
    StyledFigure,
    Theme,
    finish,
    fitted,
    label,
    new_figure,
    panel_width,
    panels,
    styled,
)
from pyflowers.programs import Data

MOST_GROUPS = 24
MOST_TICKS = 6
NEAR_ZERO = 0.2
"""Smallest observation over the largest up to which an axis begins at 0."""

ROW_CHARACTERS = 66
"""Characters that fit below a row of panels; of more, the labels are drawn upright."""


@styled
def observations(data: Data, *, theme: Theme = LIGHT) -> Figure:
    """Draw each group's observations over time, a panel for each group.

    A time that a group lacks, and others have, is a cross at the foot of its panel and a gap in
    its line. Without times all groups are in one panel, a dot for each observation.

    Parameters
    ----------
    data : Data
        Of a table with groups. Of more than 24 groups, 24 are drawn, evenly spaced by their
        averages.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the data have no groups or nothing is observed.
    """
    groups = data.by_group
    if groups is None or not data.num_obs:
        raise ConfigError("plots: the data have no groups; name their column under [table] group")
    shown, note = _choose(data, groups)
    times = data.by_time
    if times is None:
        return finish(
            _without_times(data, groups, shown, theme),
            _alt(data, groups, f", {len(groups)} groups"),
            note,
        )
    table = np.full((len(groups), len(times)), np.nan)
    table[groups.codes, times.codes] = data.y
    columns = min(4, max(shown.size, 1))
    height = 1.75 if shown.size <= 4 else 1.25
    figure, axes = panels(shown.size, columns, height, theme, sharex=True, sharey=True)
    limits = _limits(data)
    for ax, group, title in zip(axes, shown, _titles(groups, shown), strict=True):
        _panel(ax, table[group], theme)
        ax.set_title(fitted(title, panel_width(columns), size=9, bold=True), pad=3, fontsize=9)
        ax.set_ylim(limits)
    _time_ticks(axes, times, columns)
    figure.supylabel(fitted(data.value_name, height * -(-shown.size // columns)), fontsize=9)
    num_missing = int(np.isnan(table).sum())
    if num_missing:
        cross = Line2D([], [], ls="", marker="x", color=theme.alarm, label="missing")
        figure.legend(handles=[cross], loc="outside upper right")
    missing = f"{num_missing} are missing" if num_missing else "none is missing"
    by_time = f" and {times.column}, {len(groups)} panels"
    return finish(figure, _alt(data, groups, by_time, f", {missing}"), note)


def _limits(data: Data) -> tuple[float, float]:
    """Return an axis that holds all observations, and 0 where the smallest count is near it."""
    low, high = float(data.y.min()), float(data.y.max())
    if 0 < low < NEAR_ZERO * high:
        low = 0.0
    margin = 0.09 * ((high - low) or 1.0)
    return low - margin, high + margin


def _titles(groups: Labels, shown: NDArray[np.int64]) -> list[str]:
    """Return the groups' labels, all with their column's name if there is room for both."""
    names = [groups.names[group] for group in shown]
    whole = [f"{groups.column} {name}" for name in names]
    return names if groups.are_titles or max(map(len, whole)) > 14 else whole


def _without_times(
    data: Data, groups: Labels, shown: NDArray[np.int64], theme: Theme
) -> StyledFigure:
    """Draw the observations of each group on a line, equal ones apart."""
    most = int(groups.counts[shown].max())
    height = max(shown.size, 4) * (0.2 if most == 1 else 0.3)
    figure = new_figure(0.6 + height, theme)
    ax = figure.subplots()
    rows = [np.flatnonzero(groups.codes == group) for group in shown]
    at = [i + 0.3 * np.linspace(-1, 1, r.size + 2)[1:-1] for i, r in enumerate(rows)]
    size = 5 if most == 1 else 3.6 if most <= 24 else 1.8
    ax.plot(data.y[np.concatenate(rows)], np.concatenate(at), "o", ms=size, color=theme.model)
    ax.set_yticks(range(shown.size), [fitted(groups.names[group], 2.0, size=8) for group in shown])
    ax.set_ylim(shown.size - 0.4, -0.6)
    ax.set_ylabel(fitted(groups.column, height))
    ax.set_xlabel(fitted(data.value_name, 3.0))
    ax.set_xlim(_limits(data))
    return figure


def _panel(ax: Axes, values: NDArray[np.float64], theme: Theme) -> None:
    times = np.arange(values.size)
    size = 3.6 if values.size <= 24 else 1.8
    ax.plot(times, values, "o-", ms=size, lw=0.9, color=theme.model)
    missing = times[np.isnan(values)]
    if missing.size:
        foot = ax.get_xaxis_transform()
        cross = {"marker": "x", "s": 18, "lw": 1.2, "color": theme.alarm, "clip_on": False}
        ax.scatter(missing, np.full(missing.size, 0.03), transform=foot, **cross)
    ax.set_xlim(-0.5, values.size - 0.5)
    ax.grid(axis="x", visible=False)


def _time_ticks(axes: list[Axes], times: Labels, columns: int) -> None:
    """Label a few times in each panel that has none below it."""
    num = len(times)
    step = -(-num // MOST_TICKS)
    at = np.arange(0, num, step)
    names = [label(times.names[i], 9) for i in at]
    for i, ax in enumerate(axes):
        ax.set_xticks(at, names)
        if sum(map(len, names)) + len(names) > ROW_CHARACTERS / columns:
            ax.tick_params(axis="x", rotation=90)
        if i + columns >= len(axes):
            ax.tick_params(labelbottom=True)
            # Above an empty place labels take its room, not that of the whole row.
            ax.xaxis.set_in_layout(i // columns == (len(axes) - 1) // columns)
            ax.set_xlabel(fitted(times.column, panel_width(columns)))


def _choose(data: Data, groups: Labels) -> tuple[NDArray[np.int64], str]:
    """Return the groups to draw: all, or some from the lowest average to the highest."""
    num = len(groups)
    if num <= MOST_GROUPS:
        return np.arange(num), ""
    average = np.bincount(groups.codes, data.y) / groups.counts
    order = np.argsort(average, kind="stable")
    at = np.unique(np.linspace(0, num - 1, MOST_GROUPS).round().astype(int))
    note = (
        f"{at.size} of {num} {label(groups.column)} labels are shown, evenly spaced from the "
        f"lowest average to the highest; {num - at.size} are left out."
    )
    return order[at], note


def _alt(data: Data, groups: Labels, how: str, missing: str = "") -> str:
    average = np.bincount(groups.codes, data.y) / groups.counts
    lowest, highest = int(np.argmin(average)), int(np.argmax(average))
    return (
        f"{data.value_name} by {groups.column}{how}: {data.num_obs} observations between "
        f"{data.y.min():g} and {data.y.max():g}{missing}. "
        f"The average is lowest for {groups.names[lowest]}, {average[lowest]:.3g}, and highest for "
        f"{groups.names[highest]}, {average[highest]:.3g}."
    )
