"""The data as small multiples: what was counted, and which months are missing."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pyflowers.data import FlowerData
from pyflowers.plots.style import LIGHT, Axes, Theme, finish, label, panels, styled

MOST_PLANTS = 24
MOST_TICKS = 6
ROW_CHARACTERS = 66
"""Characters that fit below a row of panels; of more, the labels stand upright."""


@styled
def observations(data: FlowerData, *, theme: Theme = LIGHT) -> Figure:
    """Draw each plant's observations over the months, a panel for each plant.

    A month that a plant lacks, and others have, is a cross at the foot of its panel and a gap in
    its line.

    Parameters
    ----------
    data : FlowerData
        The table. Of more than 24 plants, 24 are drawn, evenly spaced by their averages.
    theme : Theme
        Colours.
    """
    shown, note = _choose(data)
    table = np.full((data.num_plants, len(data.months)), np.nan)
    table[data.plant, data.month] = data.y
    columns = min(4, max(shown.size, 1))
    height = 1.75 if shown.size <= 4 else 1.25
    figure, axes = panels(shown.size, columns, height, theme, sharex=True, sharey=True)
    low, high = min(0.0, float(data.y.min())), float(data.y.max())
    margin = 0.09 * ((high - low) or 1.0)
    for ax, plant in zip(axes, shown, strict=True):
        _panel(ax, table[plant], theme)
        ax.set_title(_title(data, int(plant)), pad=3)
        ax.set_ylim(low - margin, high + margin)
    _month_ticks(axes, data, columns)
    figure.supylabel(label(data.columns.value), fontsize=9)
    num_missing = int(np.isnan(table).sum())
    if num_missing:
        cross = Line2D([], [], ls="", marker="x", color=theme.alarm, label="missing")
        figure.legend(handles=[cross], loc="outside upper right")
    return finish(figure, _alt(data, num_missing), note)


def _title(data: FlowerData, plant: int) -> str:
    """Return a plant's label, with its column's name where there is room for both."""
    whole = f"{data.columns.group} {data.plants[plant]}"
    return label(whole if len(whole) <= 14 else data.plants[plant], 20)


def _panel(ax: Axes, values: NDArray[np.float64], theme: Theme) -> None:
    months = np.arange(values.size)
    size = 3.6 if values.size <= 24 else 1.8
    ax.plot(months, values, "o-", ms=size, lw=0.9, color=theme.model)
    missing = months[np.isnan(values)]
    if missing.size:
        foot = ax.get_xaxis_transform()
        cross = {"marker": "x", "s": 18, "lw": 1.2, "color": theme.alarm, "clip_on": False}
        ax.scatter(missing, np.full(missing.size, 0.03), transform=foot, **cross)
    ax.set_xlim(-0.5, values.size - 0.5)
    ax.grid(axis="x", visible=False)


def _month_ticks(axes: list[Axes], data: FlowerData, columns: int) -> None:
    """Label a few months in each panel that has none below it."""
    num = len(data.months)
    step = -(-num // MOST_TICKS)
    at = np.arange(0, num, step)
    names = [label(data.months[i], 9) for i in at]
    for i, ax in enumerate(axes):
        ax.set_xticks(at, names)
        if sum(map(len, names)) + len(names) > ROW_CHARACTERS / columns:
            ax.tick_params(axis="x", rotation=90)
        if i + columns >= len(axes):
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(label(data.columns.time))


def _choose(data: FlowerData) -> tuple[NDArray[np.int64], str]:
    """Return the plants to draw: all, or some from the lowest average to the highest."""
    if data.num_plants <= MOST_PLANTS:
        return np.arange(data.num_plants), ""
    average = np.bincount(data.plant, data.y) / data.months_per_plant
    order = np.argsort(average, kind="stable")
    at = np.unique(np.linspace(0, data.num_plants - 1, MOST_PLANTS).round().astype(int))
    note = (
        f"{at.size} of {data.num_plants} {label(data.columns.group)} labels are shown, evenly "
        f"spaced from the lowest average to the highest; {data.num_plants - at.size} are left out."
    )
    return order[at], note


def _alt(data: FlowerData, num_missing: int) -> str:
    average = np.bincount(data.plant, data.y) / data.months_per_plant
    lowest, highest = int(np.argmin(average)), int(np.argmax(average))
    value, group = data.columns.value, data.columns.group
    missing = f"{num_missing} months are missing" if num_missing else "no month is missing"
    return (
        f"{value} by {group} and {data.columns.time}, {data.num_plants} panels: "
        f"{data.num_obs} observations between {data.y.min():g} and {data.y.max():g}, {missing}. "
        f"The average is lowest for {data.plants[lowest]}, {average[lowest]:.3g}, and highest for "
        f"{data.plants[highest]}, {average[highest]:.3g}."
    )
