"""What a prior says before the data: its parameters, and the data that it implies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.display import interval_quantiles, percent
from pyflowers.fits.posterior import element_names, flat, own_dims
from pyflowers.plots.choice import HEAVY_TAIL
from pyflowers.plots.style import (
    LIGHT,
    Axes,
    StyledFigure,
    Theme,
    finish,
    fitted,
    panel_width,
    panels,
    plain_ticks,
    styled,
)
from pyflowers.programs import Capability

if TYPE_CHECKING:
    from pyflowers.analysis.priors import PriorPredictive

MOST_PANELS = 8
BINS = 40
SHOWN = (0.025, 0.975)
"""Probabilities between which the draws of a panel are shown."""


@styled
def prior_parameters(prior: PriorPredictive, *, theme: Theme = LIGHT) -> Figure:
    """Draw histograms of the prior draws of the parameters, single numbers first.

    Parameters
    ----------
    prior : PriorPredictive
        As :func:`pyflowers.prior` returns it.
    theme : Theme
        Colours.
    """
    quantities = sorted(prior.parameters.values(), key=lambda quantity: bool(own_dims(quantity)))
    values = {
        name: np.ravel(flat(quantity)[:, :, i])
        for quantity in quantities
        for i, name in enumerate(element_names(quantity)[:MOST_PANELS])
    }
    units = {name: prior.program.unit_of(name, prior.data) for name in values}
    total = sum(len(element_names(quantity)) for quantity in quantities)
    return _histograms(values, units, total, f"Prior draws of {prior.name}", prior.interval, theme)


@styled
def prior_implied(prior: PriorPredictive, *, theme: Theme = LIGHT) -> Figure:
    """Draw histograms of the statistics of the data that the prior implies.

    Parameters
    ----------
    prior : PriorPredictive
        Of a program with ``y_rep``.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``.
    """
    if prior.y_rep is None:
        prior.program.require(Capability.Y_REP)
    values = {name: np.ravel(each) for name, each in prior.statistics.items()}
    unit = prior.data.value_name
    units = {name: "" if name.startswith("share") else unit for name in values}
    what = f"Statistics of the data that the prior of {prior.name} implies"
    return _histograms(values, units, len(values), what, prior.interval, theme)


def prior_figures(prior: PriorPredictive, suffix: str = "png") -> dict[str, Figure]:
    """Return the figures of a prior's folder by file name."""
    made = {f"parameters.{suffix}": prior_parameters(prior)} if prior.parameters else {}
    if prior.statistics:
        made[f"implied.{suffix}"] = prior_implied(prior)
    return made


def _histograms(
    values: Mapping[str, NDArray[np.float64]],
    units: Mapping[str, str],
    total: int,
    what: str,
    interval: float,
    theme: Theme,
) -> StyledFigure:
    names = list(values)[:MOST_PANELS]
    figure, axes = panels(len(names), 2, 1.55, theme)
    room = panel_width(2)
    sentences = []
    probs = list(interval_quantiles(interval).values())
    for ax, name in zip(axes, names, strict=True):
        middle, low, high = np.quantile(values[name], probs, method="inverted_cdf")
        _histogram(ax, values[name], theme)
        ax.set_title(fitted(name, room, size=9.5, bold=True), pad=3)
        ax.set_xlabel(fitted(units[name], room, size=8), fontsize=8)
        inner = f"{percent(interval)} between {low:.3g} and {high:.3g}"
        sentences.append(f"{name}: median {middle:.3g}, {inner}.")
    note = "Each panel shows the middle 95% of the draws; the line is their median."
    if total > len(names):
        note += f" {len(names)} of {total} are shown; the others are in the tables."
    return finish(figure, f"{what}. {' '.join(sentences)}", note)


def _histogram(ax: Axes, values: NDArray[np.float64], theme: Theme) -> None:
    least, most = np.quantile(values, SHOWN, method="inverted_cdf")
    shown = values[(values >= least) & (values <= most) & np.isfinite(values)]
    middle = float(np.quantile(values, 0.5, method="inverted_cdf"))
    on_log_axis = bool(shown.size and shown.min() > 0 and shown.max() > HEAVY_TAIL * shown.min())
    if not on_log_axis and _is_two_sided_heavy(shown):
        spread = float(np.quantile(np.abs(shown), 0.25)) or 1.0
        ax.set_xscale("symlog", linthresh=spread)
        low, high = (float(np.arcsinh(end / spread)) for end in (shown.min(), shown.max()))
        edges = spread * np.sinh(np.linspace(low, high, BINS + 1))
        ax.set_xlim(edges[0], edges[-1])
    elif on_log_axis:
        ax.set_xscale("log")
        edges = np.geomspace(shown.min(), shown.max(), BINS + 1)
    else:
        edges = np.linspace(*_span(shown), BINS + 1)
    count, _ = np.histogram(shown, edges)
    ax.stairs(count, edges, fill=True, color=theme.prior, alpha=0.45)
    if np.isfinite(middle):
        ax.axvline(middle, color=theme.ink, lw=1.2)
    if ax.get_xscale() != "linear":
        ax.xaxis.get_major_locator().set_params(numticks=5)
        plain_ticks(ax.xaxis)
    else:
        ax.locator_params(axis="x", nbins=5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _span(shown: NDArray[np.float64]) -> tuple[float, float]:
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _is_two_sided_heavy(shown: NDArray[np.float64]) -> bool:
    """Whether a linear axis would show one bar: the ends are far beyond the middle half."""
    if not shown.size:
        return False
    quarter, three = np.quantile(shown, (0.25, 0.75))
    return bool(shown.max() - shown.min() > HEAVY_TAIL * max(three - quarter, 1e-300))
