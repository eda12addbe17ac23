"""The shrinkage plot: group means against those of each group alone and of all together."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pyflowers.data import Labels
from pyflowers.display import interval_quantiles, percent
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import flat
from pyflowers.plots.style import LIGHT, Theme, finish, fitted, label, new_figure, styled
from pyflowers.plots.units import observed_unit
from pyflowers.programs import Capability

MOST_GROUPS = 30
_OWN = "own average"


@styled
def shrinkage(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw each group's posterior mean between its own average and that of all groups.

    Parameters
    ----------
    fit : Fit
        Of a program with the role ``group_mean``. Of more than 30 groups, the 15 with the lowest
        and the 15 with the highest averages are drawn.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the program has no group means, or the data are not a table.
    """
    fit.program.require(Capability.GROUP_MEAN)
    groups = fit.data.by_group
    if groups is None:
        raise ConfigError(f"plots: {fit.name} was given no table, so its groups are not known")
    unpooled = np.bincount(groups.codes, fit.data.y) / groups.counts
    pooled = float(fit.data.y.mean())
    draws = flat(fit.posterior[fit.program.declaration.roles.group_mean])
    probs = list(interval_quantiles(fit.interval).values())
    median, low, high = np.quantile(draws, probs, axis=(0, 1))
    shown, note = _extremes(unpooled, groups)
    rows = np.arange(shown.size)
    height = 0.24 * max(shown.size, 3)
    figure = new_figure(1.15 + height, theme)
    ax = figure.subplots()
    ax.axvline(pooled, color=theme.prior, ls=(0, (4, 2)), lw=1.1)
    ax.hlines(rows, low[shown], high[shown], color=theme.model, lw=2.2, alpha=0.45)
    ax.hlines(rows, unpooled[shown], median[shown], color=theme.muted, lw=0.8)
    ax.plot(unpooled[shown], rows, "o", ms=8.5, mfc=theme.paper, mec=theme.data, mew=1.1)
    ax.plot(median[shown], rows, "o", ms=5, color=theme.model)
    ax.set_yticks(rows, [fitted(groups.names[i], 2.0, size=8) for i in shown])
    ax.set_ylim(shown.size - 0.4, -0.6)
    ax.set_ylabel(fitted(groups.column, height))
    ax.set_xlabel(fitted(observed_unit(fit), 3.0))
    ax.grid(axis="y", visible=False)
    posterior = f"posterior median, {percent(fit.interval)}"
    handles = [
        Line2D([], [], ls="", marker="o", ms=8, mfc=theme.paper, mec=theme.data, label=_OWN),
        Line2D([], [], marker="o", color=theme.model, lw=2.2, label=posterior),
        Line2D([], [], color=theme.prior, ls=(0, (4, 2)), label="average of all"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=3, columnspacing=1.2)
    return finish(figure, _alt(fit, groups, unpooled, median, pooled), note)


def _extremes(unpooled: NDArray[np.float64], groups: Labels) -> tuple[NDArray[np.int64], str]:
    """Return the groups to draw, lowest average first when not all are drawn."""
    if unpooled.size <= MOST_GROUPS:
        return np.arange(unpooled.size), ""
    order = np.argsort(unpooled, kind="stable")
    half = MOST_GROUPS // 2
    note = (
        f"Of {unpooled.size} {label(groups.column)} labels, the {half} with the lowest "
        f"and the {half} with the highest averages are shown; {unpooled.size - MOST_GROUPS} "
        "between them are left out, and are in the summary table."
    )
    return np.concatenate([order[:half], order[-half:]]), note


def _alt(
    fit: Fit,
    groups: Labels,
    unpooled: NDArray[np.float64],
    median: NDArray[np.float64],
    pooled: float,
) -> str:
    away = unpooled - pooled
    far = np.abs(away) > 1e-12
    share = float(np.median(1 - (median - pooled)[far] / away[far])) if far.any() else 0.0
    most = int(np.argmax(np.abs(median - unpooled)))
    return (
        f"Shrinkage of the group means of {fit.name}: the posterior medians lie, at the median "
        f"over {len(groups)} {groups.column} labels, {share:.0%} of the way from the own "
        f"average to the average of all, {pooled:.3g}. {groups.names[most]} moves most, from "
        f"{unpooled[most]:.3g} to {median[most]:.3g}."
    )
