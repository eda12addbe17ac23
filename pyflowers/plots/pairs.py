"""The pair plot: how parameters depend on each other, and where the sampler diverged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.plots.choice import Element, choose
from pyflowers.plots.order import average_ranks
from pyflowers.plots.style import (
    LIGHT,
    WIDTH,
    Axes,
    StyledFigure,
    Theme,
    finish,
    fitted,
    label,
    new_figure,
    plain_ticks,
    styled,
    text_width,
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
    chosen = choose(fit, MOST_PARAMETERS, parameters)
    shown = chosen.shown
    if not shown:
        raise ConfigError("plots: the fit has no parameters to plot; fit a program that has some")
    diverging = _diverging(fit)
    size = min(WIDTH / len(shown), 1.8)
    figure = new_figure(size * len(shown) + 0.5, theme, pad=0.02)
    grid = _lower_triangle(figure, len(shown))
    spans = [_span(element) for element in shown]
    for row, below in enumerate(shown):
        for column, left in enumerate(shown):
            ax = grid[row, column]
            if column > row:
                continue
            if column == row:
                _marginal(ax, below, spans[row], theme)
            else:
                _scatter(ax, left.draws, below.draws, diverging, theme)
                ax.set_yscale("log" if below.is_heavy else "linear")
                ax.set_ylim(spans[row])
    _name_axes(grid, shown, 0.9 * size - 0.12)
    if "divergent__" in fit.stats:
        _divergence_legend(figure, diverging, theme)
    notes = (chosen.note, _left_out(diverging), _outside(shown, spans))
    return finish(figure, _alt(fit, shown, diverging), " ".join(filter(None, notes)))


def _lower_triangle(figure: StyledFigure, num: int) -> NDArray[np.object_]:
    """Add the panels on and below the diagonal, those of a column with one horizontal axis."""
    places = figure.add_gridspec(num, num)
    grid = np.full((num, num), None, dtype=object)
    for column in range(num):
        for row in range(column, num):
            first = grid[column, column]
            grid[row, column] = figure.add_subplot(places[row, column], sharex=first)
    return grid


def _diverging(fit: Fit) -> NDArray[np.bool_]:
    if "divergent__" in fit.stats:
        return np.asarray(fit.stats["divergent__"], dtype=bool)
    return np.zeros((fit.num_chains, fit.num_draws), dtype=bool)


def _span(element: Element) -> tuple[float, float]:
    """Return an axis' limits: the bulk of the draws, so that none far out squeezes the others."""
    tail = (1 - SHOWN_SHARE) / 2
    values = np.log(element.draws) if element.is_heavy else element.draws
    values = values[np.isfinite(values)]
    if not values.size:
        return (1.0, 2.0)  # nothing is shown
    low, high = np.quantile(values, (tail, 1 - tail))
    margin = 0.08 * (high - low) or 0.5
    low, high = max(low - margin, values.min() - margin), min(high + margin, values.max() + margin)
    if element.is_heavy:
        low, high = np.exp(low), np.exp(high)
    return float(low), float(high)


def _marginal(ax: Axes, element: Element, span: tuple[float, float], theme: Theme) -> None:
    bins = np.geomspace(*span, 31) if element.is_heavy else np.linspace(*span, 31)
    count, edges = np.histogram(element.draws, bins)
    ax.stairs(count, edges, fill=True, color=theme.model, alpha=0.75, lw=0)
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


def _name_axes(grid: NDArray[np.object_], shown: Sequence[Element], room: float) -> None:
    last = len(shown) - 1
    for i, element in enumerate(shown):
        name = _two_lines(element.name, room) + ("\n(log axis)" if element.is_heavy else "")
        grid[last, i].set_xlabel(name, fontsize=8)
        if i > 0:
            grid[i, 0].set_ylabel(name, fontsize=8)
        for j in range(i + 1):
            ax = grid[i, j]
            ax.tick_params(labelsize=7, labelleft=j == 0 and i > 0, labelbottom=i == last)
            _few_ticks(ax, shown[j].is_heavy, element.is_heavy and i != j)


def _two_lines(name: str, room: float) -> str:
    """Break a long name before its element, so that neighbours do not run into each other."""
    variable, _, element = name.partition("[")
    if not element or text_width(label(name), size=8) <= room:
        return fitted(name, room, size=8)
    return f"{fitted(variable, room, size=8)}\n{fitted('[' + element, room, size=8)}"


def _few_ticks(ax: Axes, log_x: bool, log_y: bool) -> None:
    for axis, log in ((ax.xaxis, log_x), (ax.yaxis, log_y)):
        if log:
            axis.get_major_locator().set_params(numticks=3)
            plain_ticks(axis)
    if not log_x:
        ax.locator_params(axis="x", nbins=3)
    if not log_y and ax.get_yticks().size:
        ax.locator_params(axis="y", nbins=4)


def _divergence_legend(figure: StyledFigure, diverging: NDArray[np.bool_], theme: Theme) -> None:
    """Say how many transitions diverged."""
    from matplotlib.lines import Line2D

    num = int(diverging.sum())
    marker = Line2D([], [], ls="", marker="x", color=theme.alarm, label=f"divergent: {num}")
    figure.legend(handles=[marker], loc="outside upper right")


def _left_out(diverging: NDArray[np.bool_]) -> str:
    """Say whether points were left out."""
    num = int(diverging.sum())
    step = max(1, (diverging.size - num) // MOST_POINTS)
    which = "draws that did not diverge" if num else "draws"
    return f"One in {step} of the {which} is shown." if step > 1 else ""


def _outside(shown: Sequence[Element], spans: Sequence[tuple[float, float]]) -> str:
    """Say how many draws lie beyond the axes, and how many are no numbers."""
    missing, beyond = np.zeros((2, *shown[0].draws.shape), dtype=bool)
    for element, (low, high) in zip(shown, spans, strict=True):
        missing |= ~np.isfinite(element.draws)
        beyond |= (element.draws < low) | (element.draws > high)
    counts = (
        (int((beyond & ~missing).sum()), "lie beyond the axes"),
        (int(missing.sum()), "are missing or infinite"),
    )
    return " ".join(f"{num} of {beyond.size} draws {what}." for num, what in counts if num)


def _alt(fit: Fit, shown: Sequence[Element], diverging: NDArray[np.bool_]) -> str:
    names = ", ".join(element.name for element in shown)
    num = int(diverging.sum())
    divergences = f"{num} of {diverging.size} transitions diverged and are marked"
    if num == 0:
        divergences = f"none of {diverging.size} transitions diverged"
    if "divergent__" not in fit.stats:
        divergences = f"{diverging.size} draws"
    return f"Pair plot of {names} of {fit.name}: {divergences}.{_strongest(shown)}"


def _strongest(shown: Sequence[Element]) -> str:
    """Name the pair with the largest rank correlation."""
    best, sentence = 0.0, ""
    ranks = np.stack([average_ranks(element.draws).ravel() for element in shown])
    with np.errstate(invalid="ignore"):  # of what never varies, which is passed over
        correlations = np.atleast_2d(np.corrcoef(ranks))
    for i, first in enumerate(shown):
        for j, second in enumerate(shown[:i]):
            if np.ptp(first.draws) == 0 or np.ptp(second.draws) == 0:
                continue
            rho = float(correlations[i, j])
            if abs(rho) > abs(best):
                best = rho
                sentence = (
                    f" The strongest rank correlation is {rho:.2f}, between {second.name} and "
                    f"{first.name}."
                )
    return sentence
