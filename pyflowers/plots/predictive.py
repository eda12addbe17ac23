"""Posterior predictive checks, which ask whether the model would produce data like these.

References
----------
Kleiber and Zeileis (2016), Visualizing count data regressions using rootograms, The American
Statistician 70(3); Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in
Bayesian workflow, JRSS A 182(2), section 5.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pyflowers.display import interval_quantiles, percent
from pyflowers.fits.fit import Fit
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
    styled,
)
from pyflowers.plots.units import observed_unit
from pyflowers.programs import Capability

MOST_REPLICATES = 1000
"""Replicated data sets of which a figure is made, evenly spaced over all draws."""

MOST_VALUES = 4_000_000
"""Replicated values in memory; of larger data, fewer replicated data sets are used."""

MOST_BARS = 45


@styled
def predictive(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw observed against replicated data: a rootogram of counts, or distribution functions.

    Parameters
    ----------
    fit : Fit
        Of a program with ``y_rep``. Counts have a rootogram, on a square-root axis that gives all
        bars the same uncertainty; measurements, empirical distribution functions.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``, or nothing is observed.
    """
    fit.program.require(Capability.Y_REP)
    fit.program.require(Capability.OBSERVED)
    y_rep = _replicates(fit)
    figure = new_figure(2.9, theme)
    ax = figure.subplots()
    if fit.program.counts and min(float(fit.data.y.min()), float(y_rep.min())) >= 0:
        outside, num, what = _rootogram(ax, fit.data.y, y_rep, fit.interval, theme)
        ax.set_ylabel("observations (√ axis)")
    else:
        outside, num, what = _distribution(ax, fit.data.y, y_rep, fit.interval, theme)
        ax.set_ylabel("share of observations below")
    ax.set_xlabel(fitted(observed_unit(fit), panel_width(1)))
    _legend(figure, ax)
    alt = (
        f"Posterior predictive check of {fit.name}, {len(y_rep)} replicated data sets: {outside} "
        f"of {num} observed {what} lie outside their {percent(fit.interval)} predictive interval, "
        f"where a good model leaves about {num * (1 - fit.interval):.0f}."
    )
    return finish(figure, alt)


def _replicates(fit: Fit) -> NDArray[np.float64]:
    """Return replicated data sets, shape (replicate, N), the same every time."""
    num = int(min(MOST_REPLICATES, max(50, MOST_VALUES // fit.data.num_obs)))
    total = fit.num_chains * fit.num_draws
    keep = np.unique(np.linspace(0, total - 1, num).astype(int))
    draws = {
        name: values.reshape(-1, *values.shape[2:])[keep][None]
        for name, values in fit.draws.items()
    }
    rng = np.random.default_rng([fit.options.seed, 2])
    y_rep: NDArray[np.float64] = fit.program.y_rep(draws, fit.data, rng)[0]
    return y_rep


def _probs(interval: float) -> list[float]:
    return list(interval_quantiles(interval).values())


def _rootogram(
    ax: Axes, y: NDArray[np.float64], y_rep: NDArray[np.float64], interval: float, theme: Theme
) -> tuple[int, int, str]:
    """Bars of observed counts, intervals of replicated ones; return how many miss."""
    top = max(float(y.max()), float(np.quantile(y_rep, 0.999)))
    width = max(1, int(np.ceil((top + 1) / MOST_BARS)))
    edges = np.arange(0, top + width + 1, width) - 0.5
    observed, _ = np.histogram(y, edges)
    # Replicated values beyond the last bar are counted in it, so that none is lost.
    position = np.minimum(y_rep // width, edges.size - 2).astype(int)
    counts = np.stack([np.bincount(row, minlength=edges.size - 1) for row in position])
    middle, low, high = np.quantile(counts, _probs(interval), axis=0)
    x = (edges[1:] + edges[:-1]) / 2
    ax.bar(x, observed, width * 0.86, color=theme.grid, ec=theme.muted, lw=0.6, label="observed")
    named = f"predicted, {percent(interval)}"
    ax.vlines(x, low, high, color=theme.model, lw=2.2, alpha=0.55, label=named)
    ax.plot(x, middle, "o", ms=3.6, color=theme.model, label="predicted, median", clip_on=False)
    ax.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
    ax.set_ylim(0, max(float(observed.max()), float(high.max())) * 1.15)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.grid(axis="x", visible=False)
    what = "frequencies of counts" if width == 1 else f"frequencies of {width} counts each"
    return int(((observed < low) | (observed > high)).sum()), observed.size, what


def _distribution(
    ax: Axes, y: NDArray[np.float64], y_rep: NDArray[np.float64], interval: float, theme: Theme
) -> tuple[int, int, str]:
    """Empirical distribution functions; return at how many points the observed one misses."""
    low_x, high_x = np.quantile(y_rep, (0.002, 0.998))
    low_x, high_x = min(low_x, float(y.min())), max(high_x, float(y.max()))
    grid = np.linspace(low_x, high_x, 300)
    replicated = np.stack([np.searchsorted(np.sort(row), grid, "right") for row in y_rep]) / y.size
    middle, low, high = np.quantile(replicated, _probs(interval), axis=0)
    named = f"predicted, {percent(interval)}"
    ax.fill_between(grid, low, high, color=theme.model, alpha=0.25, lw=0, label=named)
    ax.plot(grid, middle, color=theme.model, lw=1, label="predicted, median")
    ordered = np.sort(y)
    steps = np.arange(1, y.size + 1) / y.size
    ax.step(
        np.concatenate([[low_x], ordered, [high_x]]),
        np.concatenate([[0.0], steps, [1.0]]),
        where="post",
        color=theme.data,
        lw=1.3,
        label="observed",
    )
    ax.set(xlim=(low_x, high_x), ylim=(0, 1.02))
    values, first = np.unique(ordered, return_index=True)
    at = np.searchsorted(ordered, values, "right") / y.size
    low_at, high_at = np.interp(values, grid, low), np.interp(values, grid, high)
    return int(((at < low_at) | (at > high_at)).sum()), first.size, "points of the distribution"


def _legend(figure: StyledFigure, ax: Axes) -> None:
    handles, names = ax.get_legend_handles_labels()
    order = np.argsort([not name.startswith("observed") for name in names], kind="stable")
    figure.legend(
        [handles[i] for i in order],
        [label(names[i]) for i in order],
        loc="outside upper right",
        ncols=3,
    )
