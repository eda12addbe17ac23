"""Intervals by group, a row each: the posterior's means, predictions, and observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pyflowers.display import percent
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, labels_of, own_dims
from pyflowers.plots.style import (
    LIGHT,
    Axes,
    StyledFigure,
    Theme,
    finish,
    fitted,
    label,
    new_figure,
    styled,
)
from pyflowers.plots.units import observed_unit, unit
from pyflowers.programs import Capability

if TYPE_CHECKING:
    from pyflowers.analysis.checks import PredictiveChecks
    from pyflowers.analysis.predictions import Predictions

MOST_ROWS = 30
MOST_INSIDE = 0.75
"""Share of observed means within 50% intervals from which it is said to be no evidence of fit."""


@styled
def forest(fit: Fit, quantity: str | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw the posterior of each group: medians with two intervals, the largest on top.

    The intervals hold 50% and the probability of the fit's own, 90% by default.

    Parameters
    ----------
    fit : Fit
        Has the draws.
    quantity : str, optional
        A vector of the posterior; the role ``group_mean`` by default. Of more than 30 elements,
        the 15 largest and the 15 smallest medians are drawn.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If there is no such vector.
    """
    if quantity is None:
        fit.program.require(Capability.GROUP_MEAN)
        quantity = fit.program.declaration.roles.group_mean
    found = fit.posterior.data_vars.get(quantity)
    if found is None or len(own_dims(found)) != 1:
        vectors = [str(name) for name, each in fit.posterior.items() if len(own_dims(each)) == 1]
        raise ConfigError(
            f"forest: {quantity!r} is not a vector of {fit.name}; it has "
            f"{', '.join(vectors) or 'none'}"
        )
    levels = _quantiles(flat(found), fit.interval)
    shown, note = _extremes(-levels[2], "medians")
    names = [labels_of(found)[0][i] for i in shown]
    figure, ax = _rows(names, fit.data.name_of(own_dims(found)[0]), theme)
    _draw(ax, levels[:, shown], theme)
    ax.set_xlabel(fitted(unit(fit, quantity) or quantity, 3.4))
    figure.legend(handles=_handles(theme, fit.interval), loc="outside upper right", ncols=2)
    top, bottom = (element_names(found)[int(np.argmax(s * levels[2]))] for s in (1, -1))
    alt = (
        f"Forest plot of {quantity} of {fit.name}: the largest median is {levels[2].max():.3g} of "
        f"{top}, the smallest {levels[2].min():.3g} of {bottom}."
    )
    return finish(figure, alt, note)


@styled
def group_intervals(checks: PredictiveChecks, *, theme: Theme = LIGHT) -> Figure:
    """Draw each group's observed mean on the interval of its replicated means.

    Parameters
    ----------
    checks : PredictiveChecks
        Of data with groups, and a model without a mean of its own for each: such a mean follows
        the observed one, so that nothing would stand out. Of more than 30 groups, those are drawn
        whose observed means are farthest out among the replicated ones.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the rows are not grouped.
    """
    groups = checks.groups
    if groups is None:
        raise ConfigError(f"plots: the data of {checks.fit.name} have no groups to draw")
    levels = groups.quantiles(_probs(checks.fit.interval))
    outside = (groups.observed < levels[0]) | (groups.observed > levels[4])
    width = np.maximum(levels[4] - levels[0], 1e-300)
    shown = np.argsort(-np.abs(groups.observed - levels[2]) / width, kind="stable")[:MOST_ROWS]
    shown = np.sort(shown)
    inside = (groups.observed >= levels[1]) & (groups.observed <= levels[3])
    note = ""
    if inside.mean() > MOST_INSIDE:
        note = (
            f"{int(inside.sum())} of {groups.observed.size} observed means lie in their 50% "
            "intervals. So they do wherever a model has a mean for each group, however badly it "
            "fits otherwise."
        )
    if shown.size < groups.observed.size:
        note += (
            f" Of {groups.observed.size} groups the {shown.size} are shown whose observed means "
            "are farthest out among the replicated ones."
        )
    names = [groups.labels.names[i] for i in shown]
    figure, ax = _rows(names, groups.labels.column, theme)
    _draw(ax, levels[:, shown], theme, with_medians=False)
    rows = np.arange(shown.size)
    ax.plot(groups.observed[shown], rows, "o", ms=6, mfc=theme.paper, mec=theme.data, mew=1.3)
    ax.set_xlabel(fitted(f"mean of {checks.fit.data.value_name}", 3.4))
    seen = Line2D([], [], ls="", marker="o", mfc=theme.paper, mec=theme.data, label="observed")
    figure.legend(
        handles=[seen, *_handles(theme, checks.fit.interval, "replicated")],
        loc="outside upper right",
        ncols=3,
    )
    num = groups.observed.size
    alt = (
        f"Observed means of {num} groups against those replicated by {checks.fit.name}: "
        f"{int(outside.sum())} lie outside their {percent(checks.fit.interval)} interval."
    )
    return finish(figure, alt, note.strip())


@styled
def predictions(found: Predictions, *, theme: Theme = LIGHT) -> Figure:
    """Draw what is predicted: medians with intervals of 50% and the fit's own, new groups last.

    Parameters
    ----------
    found : Predictions
        Of more than 30 groups, those with the 15 largest and the 15 smallest medians are drawn.
    theme : Theme
        Colours.
    """
    mean = found.fit.program.declaration.roles.group_mean
    parts = [part for part in found.parts if part.quantity.name != mean] or list(found.parts)
    levels = np.concatenate(
        [_quantiles(flat(part.quantity), found.fit.interval) for part in parts], axis=1
    )
    names = [
        ", ".join(element[len(str(part.quantity.name)) :].strip("[]").split(",")) or part.title
        for part in parts
        for element in element_names(part.quantity)
    ]
    shown, note = np.arange(len(names)), ""
    num = len(element_names(parts[0].quantity))
    if num > MOST_ROWS:
        groups, note = _extremes(-levels[2, :num], "medians")
        shown = np.concatenate([groups, shown[num:]])
    figure, ax = _rows([names[i] for i in shown], "", theme)
    _draw(ax, levels[:, shown], theme)
    # A new group's tail may be so long that nothing else could be read.
    inner = levels[[1, 3]][:, shown]
    span = float(inner.max() - inner.min()) or 1.0
    right = min(float(levels[4, shown].max()), float(inner.max()) + 2 * span)
    left = max(float(levels[0, shown].min()), float(inner.min()) - 2 * span)
    beyond = bool((levels[4, shown] > right).any() or (levels[0, shown] < left).any())
    ax.set_xlim(left - 0.04 * (right - left), right + 0.04 * (right - left))
    if beyond:
        note = f"Intervals go on beyond the axis; the table has their ends. {note}".strip()
    titles = " and ".join(part.title for part in parts)
    ax.set_xlabel(fitted(f"{observed_unit(found.fit)}, {titles}", 4.4))
    figure.legend(handles=_handles(theme, found.fit.interval), loc="outside upper right", ncols=2)
    alt = (
        f"Predictions of {found.fit.name} for the {titles}: medians from {levels[2].min():.3g} to "
        f"{levels[2].max():.3g}, with intervals of 50% and {percent(found.fit.interval)}."
    )
    return finish(figure, alt, note)


def _probs(interval: float) -> tuple[float, ...]:
    return ((1 - interval) / 2, 0.25, 0.5, 0.75, (1 + interval) / 2)


def _quantiles(draws: NDArray[np.float64], interval: float) -> NDArray[np.float64]:
    return np.asarray(np.quantile(draws, _probs(interval), axis=(0, 1)))


def _extremes(order_by: NDArray[np.float64], what: str) -> tuple[NDArray[np.int64], str]:
    """Return rows in order, first and last ones only where there are too many."""
    order = np.argsort(order_by, kind="stable")
    if order.size <= MOST_ROWS:
        return order, ""
    half = MOST_ROWS // 2
    note = (
        f"The {half} largest and the {half} smallest {what} are shown; {order.size - MOST_ROWS} "
        "between them are left out."
    )
    return np.concatenate([order[:half], order[-half:]]), note


def _rows(names: Sequence[str], what: str, theme: Theme) -> tuple[StyledFigure, Axes]:
    """Return a figure with a named row for each group."""
    height = 0.24 * max(len(names), 3)
    figure = new_figure(1.15 + height, theme)
    ax = figure.subplots()
    ax.set_yticks(np.arange(len(names)), [fitted(label(name), 2.0, size=8) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    if what:
        ax.set_ylabel(fitted(what, height))
    ax.grid(axis="y", visible=False)
    return figure, ax


def _draw(
    ax: Axes, levels: NDArray[np.float64], theme: Theme, *, with_medians: bool = True
) -> None:
    rows = np.arange(levels.shape[1])
    ax.hlines(rows, levels[0], levels[4], color=theme.model, lw=1.6, alpha=0.55)
    ax.hlines(rows, levels[1], levels[3], color=theme.model, lw=4.2, alpha=0.8)
    if with_medians:
        ax.plot(levels[2], rows, "o", ms=5, mfc=theme.paper, mec=theme.model, mew=1.2)


def _handles(theme: Theme, interval: float, what: str = "") -> list[Line2D]:
    prefix = f"{what}, " if what else ""
    return [
        Line2D([], [], color=theme.model, lw=4.2, alpha=0.8, label=f"{prefix}50%"),
        Line2D([], [], color=theme.model, lw=1.6, alpha=0.55, label=f"{prefix}{percent(interval)}"),
    ]
