"""The shrinkage plot: plant means against those of each plant alone and of all together."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pyflowers.data import FlowerData
from pyflowers.errors import ConfigError
from pyflowers.fitting import Fit
from pyflowers.plots.style import LIGHT, Theme, finish, label, new_figure, styled
from pyflowers.plots.units import rate

MOST_PLANTS = 30


@styled
def shrinkage(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw each plant's posterior mean rate between its own average and that of all plants.

    Parameters
    ----------
    fit : Fit
        Of a multilevel model. Of more than 30 plants, the 15 with the lowest and the 15 with the
        highest averages are drawn.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the model has no plant means.
    """
    data = fit.data
    if data is None or "mu_plant" not in fit.posterior:
        raise ConfigError(f"plots: {fit.name} has no mu_plant, and so no shrinkage to draw")
    unpooled = np.bincount(data.plant, data.y) / data.months_per_plant
    pooled = float(data.y.mean())
    draws = fit.posterior["mu_plant"].values.reshape(-1, data.num_plants)
    low, median, high = np.quantile(draws, (0.05, 0.5, 0.95), axis=0)
    shown, note = _extremes(unpooled, data)
    rows = np.arange(shown.size)
    figure = new_figure(1.15 + 0.24 * max(shown.size, 3), theme)
    ax = figure.subplots()
    ax.axvline(pooled, color=theme.prior, ls=(0, (4, 2)), lw=1.1)
    ax.hlines(rows, low[shown], high[shown], color=theme.model, lw=2.2, alpha=0.45)
    ax.hlines(rows, unpooled[shown], median[shown], color=theme.muted, lw=0.8)
    ax.plot(unpooled[shown], rows, "o", ms=8.5, mfc=theme.paper, mec=theme.data, mew=1.1)
    ax.plot(median[shown], rows, "o", ms=5, color=theme.model)
    ax.set_yticks(rows, [label(data.plants[i]) for i in shown])
    ax.set_ylim(shown.size - 0.4, -0.6)
    ax.set_ylabel(label(data.columns.group))
    ax.set_xlabel(rate(data.columns))
    ax.grid(axis="y", visible=False)
    handles = [
        Line2D([], [], ls="", marker="o", ms=8, mfc=theme.paper, mec=theme.data),
        Line2D([], [], marker="o", color=theme.model, lw=2.2),
        Line2D([], [], color=theme.prior, ls=(0, (4, 2))),
    ]
    for handle, text in zip(handles, _names(data), strict=True):
        handle.set_label(text)
    figure.legend(handles=handles, loc="outside upper right", ncols=3, columnspacing=1.2)
    return finish(figure, _alt(fit, data, unpooled, median, pooled), note)


def _names(data: FlowerData) -> tuple[str, str, str]:
    group = label(data.columns.group, 16)
    return f"{group} alone", "posterior median, 90% interval", "all together"


def _extremes(unpooled: NDArray[np.float64], data: FlowerData) -> tuple[NDArray[np.int64], str]:
    """Return the plants to draw, lowest average first when not all are drawn."""
    if unpooled.size <= MOST_PLANTS:
        return np.arange(unpooled.size), ""
    order = np.argsort(unpooled, kind="stable")
    half = MOST_PLANTS // 2
    note = (
        f"Of {unpooled.size} {label(data.columns.group)} labels, the {half} with the lowest "
        f"and the {half} with the highest averages are shown; {unpooled.size - MOST_PLANTS} "
        "between them are left out, and are in the summary table."
    )
    return np.concatenate([order[:half], order[-half:]]), note


def _alt(
    fit: Fit,
    data: FlowerData,
    unpooled: NDArray[np.float64],
    median: NDArray[np.float64],
    pooled: float,
) -> str:
    away = unpooled - pooled
    far = np.abs(away) > 1e-12
    share = float(np.median(1 - (median - pooled)[far] / away[far])) if far.any() else 0.0
    most = int(np.argmax(np.abs(median - unpooled)))
    return (
        f"Shrinkage of the plant means of {fit.name}: the posterior medians lie, at the median "
        f"over {data.num_plants} {data.columns.group} labels, {share:.0%} of the way from the own "
        f"average to the average of all, {pooled:.3g}. {data.plants[most]} moves most, from "
        f"{unpooled[most]:.3g} to {median[most]:.3g}."
    )
