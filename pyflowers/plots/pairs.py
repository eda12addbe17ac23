"""The pair plot: how parameters depend on each other, and where the sampler diverged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fitting import Fit
from pyflowers.plots.choice import Element, choose
from pyflowers.plots.style import (
    LIGHT,
    WIDTH,
    Axes,
    StyledFigure,
    Theme,
    finish,
    label,
    new_figure,
    plain_ticks,
    styled,
)

MOST_PARAMETERS = 5
MOST_POINTS = 4000
"""Points of a panel; of more draws, every n-th is shown, and all that diverged."""

SHOWN_SHARE = 0.999
"""Share of a parameter's draws that its axis spans; the rest is counted in the small print."""


@styled
def pairs(fit: Fit, parameters: Sequence[str] | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw every pair of parameters, divergent transitions marked.

    Parameters
    ----------
    fit : Fit
        What to draw.
    parameters : sequence of str, optional
        Which; by default all, or of many those with the largest R-hat.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the fit has no such parameter, or only one.
    """
    chosen = choose(fit.posterior, MOST_PARAMETERS, parameters)
    shown = chosen.shown
    if not shown:
        raise ConfigError("plots: the fit has no parameters to draw; give it a program with some")
    diverging = _diverging(fit)
    size = min(WIDTH / len(shown), 1.8)
    figure = new_figure(size * len(shown) + 0.5, theme, pad=0.02)
    grid = figure.subplots(len(shown), len(shown), squeeze=False, sharex="col")
    spans = [_span(element) for element in shown]
    for row, below in enumerate(shown):
        for column, left in enumerate(shown):
            ax = grid[row, column]
            if column > row:
                ax.remove()
            elif column == row:
                _marginal(ax, below, spans[row], theme)
            else:
                _scatter(ax, left.draws, below.draws, diverging, theme)
                ax.set_yscale("log" if below.is_heavy else "linear")
                ax.set_ylim(spans[row])
    _name_axes(grid, shown)
    notes = (chosen.note, _divergence_legend(figure, diverging, theme), _outside(shown, spans))
    return finish(figure, _alt(fit, shown, diverging), " ".join(filter(None, notes)))


def _diverging(fit: Fit) -> NDArray[np.bool_]:
    stats = fit.base.sample_stats
    if "diverging" in stats:
        return np.asarray(stats["diverging"].values, dtype=bool)
    sizes = fit.posterior.sizes
    return np.zeros((sizes["chain"], sizes["draw"]), dtype=bool)


def _span(element: Element) -> tuple[float, float]:
    """Return an axis' limits: the bulk of the draws, so that none far out squeezes the others."""
    tail = (1 - SHOWN_SHARE) / 2
    values = np.log(element.draws) if element.is_heavy else element.draws
    low, high = np.quantile(values, (tail, 1 - tail))
    margin = 0.08 * (high - low) or 0.5
    low, high = max(low - margin, values.min() - margin), min(high + margin, values.max() + margin)
    if element.is_heavy:
        low, high = np.exp(low), np.exp(high)
    return float(low), float(high)


def _marginal(ax: Axes, element: Element, span: tuple[float, float], theme: Theme) -> None:
    bins = np.geomspace(*span, 31) if element.is_heavy else np.linspace(*span, 31)
    ax.hist(element.draws.ravel(), bins, color=theme.model, alpha=0.75, lw=0)
    ax.set_xscale("log" if element.is_heavy else "linear")
    ax.set_xlim(span)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.grid(False)


def _scatter(
    ax: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    diverging: NDArray[np.bool_],
    theme: Theme,
) -> None:
    fine = np.flatnonzero(~diverging.ravel())
    fine = fine[:: max(1, fine.size // MOST_POINTS)]
    point = {"lw": 0, "rasterized": True}
    ax.scatter(x.ravel()[fine], y.ravel()[fine], s=2.2, alpha=0.25, color=theme.model, **point)
    ax.scatter(
        *(x[diverging], y[diverging]), s=14, marker="x", lw=1, color=theme.alarm, rasterized=True
    )


def _name_axes(grid: NDArray[np.object_], shown: Sequence[Element]) -> None:
    last = len(shown) - 1
    for i, element in enumerate(shown):
        name = _two_lines(element.name) + ("\n(log axis)" if element.is_heavy else "")
        grid[last, i].set_xlabel(name, fontsize=8)
        if i > 0:
            grid[i, 0].set_ylabel(name, fontsize=8)
        for j in range(i + 1):
            ax = grid[i, j]
            ax.tick_params(labelsize=7, labelleft=j == 0 and i > 0, labelbottom=i == last)
            _few_ticks(ax, shown[j].is_heavy, element.is_heavy and i != j)


def _two_lines(name: str) -> str:
    """Break a long name before its element, so that neighbours do not run into each other."""
    if len(name) <= 14:
        return label(name)
    variable, _, element = name.partition("[")
    return f"{label(variable, 16)}\n{label('[' + element, 14)}" if element else label(name, 16)


def _few_ticks(ax: Axes, log_x: bool, log_y: bool) -> None:
    for axis, log in ((ax.xaxis, log_x), (ax.yaxis, log_y)):
        if log:
            axis.get_major_locator().set_params(numticks=3)
            plain_ticks(axis)
    if not log_x:
        ax.locator_params(axis="x", nbins=3)
    if not log_y and ax.get_yticks().size:
        ax.locator_params(axis="y", nbins=4)


def _divergence_legend(figure: StyledFigure, diverging: NDArray[np.bool_], theme: Theme) -> str:
    """Say how many transitions diverged, and whether points were left out."""
    from matplotlib.lines import Line2D

    num = int(diverging.sum())
    marker = Line2D([], [], ls="", marker="x", color=theme.alarm, label=f"divergent: {num}")
    figure.legend(handles=[marker], loc="outside upper right")
    step = max(1, (diverging.size - num) // MOST_POINTS)
    return f"One in {step} of the draws that did not diverge is shown." if step > 1 else ""


def _outside(shown: Sequence[Element], spans: Sequence[tuple[float, float]]) -> str:
    """Say how many draws lie beyond the axes."""
    beyond = np.zeros(shown[0].draws.shape, dtype=bool)
    for element, (low, high) in zip(shown, spans, strict=True):
        beyond |= (element.draws < low) | (element.draws > high)
    num = int(beyond.sum())
    return f"{num} of {beyond.size} draws lie beyond the axes." if num else ""


def _alt(fit: Fit, shown: Sequence[Element], diverging: NDArray[np.bool_]) -> str:
    names = ", ".join(element.name for element in shown)
    num = int(diverging.sum())
    said = f"{num} of {diverging.size} transitions diverged and are marked"
    if num == 0:
        said = f"none of {diverging.size} transitions diverged"
    return f"Pair plot of {names} of {fit.name}: {said}.{_strongest(shown)}"


def _strongest(shown: Sequence[Element]) -> str:
    """Name the pair with the largest rank correlation."""
    from scipy.stats import spearmanr

    best, said = 0.0, ""
    for i, first in enumerate(shown):
        for second in shown[:i]:
            if np.ptp(first.draws) == 0 or np.ptp(second.draws) == 0:
                continue
            rho = float(spearmanr(first.draws.ravel(), second.draws.ravel()).statistic)
            if abs(rho) > abs(best):
                best = rho
                said = (
                    f" The strongest rank correlation is {rho:.2f}, between {second.name} and "
                    f"{first.name}."
                )
    return said
