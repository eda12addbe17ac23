"""Panels that several examples draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyflowers.lectures.measures import Efficiency, FloatArray
from pyflowers.plots.style import (
    LIGHT,
    Axes,
    StyledFigure,
    finish,
    new_figure,
    plain_ticks,
    styled,
)


@styled
def efficiency_figure(costs: Sequence[Efficiency]) -> StyledFigure:
    """Draw effective draws per 1,000 evaluations and per second, a bar a sampler."""
    figure = new_figure(1.2 + 0.34 * len(costs), LIGHT)
    left, right = figure.subplots(1, 2, sharey=True)
    names = [cost.sampler for cost in costs]
    for ax, values, title in (
        (left, [1000 * cost.ess / cost.evaluations for cost in costs], "per 1,000 evaluations"),
        (right, [cost.ess / cost.seconds for cost in costs], "per second of one core"),
    ):
        colours = [LIGHT.chains[i % len(LIGHT.chains)] for i in range(len(costs))]
        ax.barh(names, values, color=colours, height=0.6)
        for row, value in enumerate(values):
            ax.annotate(
                _short(value), (value, row), xytext=(4, 0), textcoords="offset points", va="center"
            )
        ax.set(xlim=(0, 1.25 * max(values)), title=title)
        ax.grid(False)
        ax.locator_params(axis="x", nbins=4)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    left.invert_yaxis()
    figure.suptitle("Effective draws", x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    best = max(costs, key=lambda cost: cost.ess / cost.evaluations).sampler
    return finish(figure, f"Bars of efficiency by sampler; {best} leads per evaluation.")


def draw_traces(ax: Axes, draws: FloatArray, num: int) -> None:
    """Draw the first draws of each chain."""
    for chain, values in enumerate(draws[:, :num]):
        ax.plot(
            np.arange(1, len(values) + 1),
            values,
            lw=0.5,
            color=LIGHT.chains[chain % len(LIGHT.chains)],
        )
    ax.set_xlim(1, min(num, draws.shape[1]))


def log_ticks(ax: Axes) -> None:
    """Write the ticks of two logarithmic axes as plain numbers."""
    plain_ticks(ax.xaxis)
    plain_ticks(ax.yaxis)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
