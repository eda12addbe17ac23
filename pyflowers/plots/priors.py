"""Figures of priors: draws, the data that priors imply, and the sensitivity to priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.display import interval_quantiles, percent
from pyflowers.errors import ConfigError
from pyflowers.fits.posterior import element_names, flat, own_dims
from pyflowers.plots import style
from pyflowers.plots.posterior import HEAVY_TAIL
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, Theme, finish, label, styled
from pyflowers.programs import Capability

if TYPE_CHECKING:
    from pyflowers.analysis.prior_sensitivity import Sensitivity
    from pyflowers.analysis.priors import PriorPredictive

Values = Mapping[str, tuple[NDArray[np.float64], str]]
"""The draws of each panel, and their unit."""

MOST_PANELS = 8
BINS = 40
SHOWN = (0.025, 0.975)
"""Quantiles between which the draws of a panel are shown."""

MOST_ROWS = 8
"""The largest number of elements shown for a fit: those most sensitive to the prior."""

TICK_ROOM = 0.1
"""Share of an axis that the label at 0 needs on each side."""

LEAST = 0.002
"""The left end of the axis of sensitivities; smaller values are drawn there."""


@styled
def prior_parameters(prior: PriorPredictive, *, theme: Theme = LIGHT) -> Figure:
    """Draw histograms of the prior draws of the parameters, single numbers first.

    Parameters
    ----------
    prior : PriorPredictive
        The draws that :func:`pyflowers.prior` returns. At most 8 elements are drawn, single numbers
        first.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each element.

    See Also
    --------
    pyflowers.plots.prior_implied : Draw the data that the prior implies.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.prior("multilevel_poisson", seed=1, priors={"mu_sd": 1, "sigma2_nu": 20})
    >>> figure = pyflowers.plots.prior_parameters(found)
    >>> figure.savefig("parameters.png")
    """
    quantities = sorted(prior.parameters.values(), key=lambda quantity: bool(own_dims(quantity)))
    values = {
        name: (np.ravel(flat(quantity)[:, :, i]), prior.program.unit_of(name, prior.data))
        for quantity in quantities
        for i, name in enumerate(element_names(quantity)[:MOST_PANELS])
    }
    total = sum(len(element_names(quantity)) for quantity in quantities)
    return _histograms(prior, f"Prior draws of {prior.name}", values, total, theme)


@styled
def prior_implied(prior: PriorPredictive, *, theme: Theme = LIGHT) -> Figure:
    """Draw histograms of the statistics of the data that the prior implies.

    Parameters
    ----------
    prior : PriorPredictive
        The draws that :func:`pyflowers.prior` returns for a program with ``y_rep``.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each statistic.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``.

    See Also
    --------
    pyflowers.plots.prior_parameters : Draw the parameters.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.prior("multilevel_poisson", seed=1, priors={"mu_sd": 1, "sigma2_nu": 20})
    >>> figure = pyflowers.plots.prior_implied(found)
    >>> figure.savefig("implied.png")
    """
    if prior.y_rep is None:
        prior.program.require(Capability.Y_REP)
    unit = prior.data.value_name
    values = {
        name: (np.ravel(each), "" if name.startswith("share") else unit)
        for name, each in prior.statistics.items()
    }
    what = f"Statistics of the data that the prior of {prior.name} implies"
    return _histograms(prior, what, values, len(values), theme)


def prior_figures(prior: PriorPredictive, suffix: str = "png") -> dict[str, Figure]:
    """Draw the figures of the prior: parameters and implied data.

    Parameters
    ----------
    prior : PriorPredictive
        The draws that :func:`pyflowers.prior` returns.
    suffix : str
        File name extension: ``png``, ``svg`` or ``pdf``.

    Returns
    -------
    dict of str to Figure
        The figures by file name, without those that have nothing to show.

    Examples
    --------
    >>> import pyflowers
    >>> found = pyflowers.prior("multilevel_poisson", seed=1, priors={"mu_sd": 1, "sigma2_nu": 20})
    >>> for name, figure in pyflowers.plots.prior_figures(found).items():
    ...     figure.savefig(name)
    """
    return {f"{name}.{suffix}": draw() for name, draw in prior_drawings(prior).items()}


def prior_drawings(prior: PriorPredictive) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw the figures of the prior, by name."""
    made: dict[str, Callable[[], Figure]] = {}
    if prior.parameters:
        made["parameters"] = partial(prior_parameters, prior)
    if prior.statistics:
        made["implied"] = partial(prior_implied, prior)
    return made


def _histograms(
    prior: PriorPredictive, what: str, values: Values, total: int, theme: Theme
) -> StyledFigure:
    names = list(values)[:MOST_PANELS]
    figure, axes = style.panels(len(names), 2, 1.55, theme)
    sentences = []
    probs = list(interval_quantiles(prior.interval).values())
    for ax, name in zip(axes, names, strict=True):
        draws, unit = values[name]
        middle, low, high = np.quantile(draws, probs, method="inverted_cdf")
        _histogram(ax, draws, middle, theme)
        scale = "" if ax.get_xscale() == "linear" else "log axis"
        style.title(ax, name, 2, ", ".join(filter(None, (unit, scale))))
        inner = f"{percent(prior.interval)} between {low:.3g} and {high:.3g}"
        sentences.append(f"{name}: median {middle:.3g}, {inner}.")
    note = "Each panel shows the middle 95% of the draws, and a dashed line at the median."
    if any(np.abs(values[name][0]).max() > style.LARGEST for name in names):
        note += f" Draws beyond {style.LARGEST:.0e} are left out of the panels."
    if total > len(names):
        note += f" {len(names)} of {total} parameters are shown; the others are in the tables."
    return finish(figure, f"{what}. {' '.join(sentences)}", note)


def _histogram(ax: Axes, values: NDArray[np.float64], middle: float, theme: Theme) -> None:
    least, most = np.quantile(values, SHOWN, method="inverted_cdf")
    shown = values[(values >= least) & (values <= most) & (np.abs(values) <= style.LARGEST)]
    low, high, quarter, three_quarters, spread = 0.0, 1.0, 0.0, 1.0, 1.0
    if shown.size:
        low, high = float(shown.min()), float(shown.max())
        quarter, three_quarters = np.quantile(shown, (0.25, 0.75))
        spread = float(np.quantile(np.abs(shown), 0.25)) or 1.0
    is_heavy = high - low > HEAVY_TAIL * max(three_quarters - quarter, 1e-300)
    if low > 0 and high > HEAVY_TAIL * low:
        ax.set_xscale("log")
        edges = np.geomspace(low, high, BINS + 1)
    elif is_heavy and max(-low, high) > spread:
        # The ends of the axis are far outside the middle half of the draws. On a linear axis, this
        # half would therefore fall into one or two bars.
        ax.set_xscale("symlog", linthresh=spread)
        ends = float(np.arcsinh(low / spread)), float(np.arcsinh(high / spread))
        edges = spread * np.sinh(np.linspace(*ends, BINS + 1))
        ax.set_xlim(edges[0], edges[-1])
    else:
        room = 0.5
        if high > low:
            room = 0.0
        edges = np.linspace(low - room, high + room, BINS + 1)
    count, _ = np.histogram(shown, edges)
    ax.stairs(count, edges, fill=True, color=theme.prior, alpha=0.45)
    if np.abs(middle) <= style.LARGEST:
        ax.axvline(middle, color=theme.prior, lw=1.4, ls=style.DASHED)
    style.few_ticks(ax, "x", 5)
    if ax.get_xscale() == "symlog":  # powers of 10 near the threshold may be too close to 0
        place = ax.get_xaxis().get_transform().transform
        ticks, (left, right) = ax.get_xticks(), place(np.array(ax.get_xlim()))
        away = np.abs(place(ticks) - place(np.zeros(1))) / (right - left)
        ax.set_xticks(ticks[(ticks == 0) | (away >= TICK_ROOM)])
    style.without_y_axis(ax)


@styled
def power_scaling(
    found: Sequence[Sensitivity] | Sensitivity,
    *,
    labels: Mapping[str, str] | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Draw the sensitivities of one or several fits, with the threshold.

    Parameters
    ----------
    found : Sensitivity or sequence of Sensitivity
        The results that :func:`pyflowers.sensitivity` returns. At most 8 elements of each are
        drawn: those that are most sensitive to the prior.
    labels : mapping of str to str, optional
        The name of each model in the figure. Default: the model's name.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row for each element, with its sensitivity to the prior and to the likelihood.

    Raises
    ------
    ConfigError
        If no sensitivity could be computed.

    See Also
    --------
    pyflowers.sensitivity : Compute the sensitivities.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.power_scaling(pyflowers.sensitivity(fit))
    >>> figure.savefig("sensitivity.png")
    """
    from pyflowers.analysis.prior_sensitivity import THRESHOLD, Sensitivity

    if isinstance(found, Sensitivity):
        found = [found]
    shown = [_most_sensitive(each.distances) for each in found]
    num_rows = sum(map(len, shown))
    if not num_rows:
        raise ConfigError("sensitivity: no sensitivity could be computed; see the result's notes")
    figure, (ax,) = style.panels(1, 1, 0.45 + 0.22 * num_rows + 0.1 * len(found), theme)
    ax.set_xscale("log")
    places, names, sentences = list[float](), list[str](), list[str]()
    points: dict[str, list[float]] = {"prior": [], "likelihood": []}
    for each, elements in zip(found, shown, strict=True):
        begin = 0.0
        if places:
            begin = places[-1] + 1.6  # leaves a gap between fits
        places += [begin + i for i in range(len(elements))]
        model = (labels or {}).get(each.name, each.fit.called)
        owner = f"{label(model, 18)}: "
        if len(found) == 1:
            owner = ""
        names += [f"{owner}{element}" for element in elements]
        distances = each.distances.reindex(columns=list(points)).loc[elements]
        for component, values in points.items():
            values += distances[component].tolist()
        told = [f"{element} {distances['prior'][element]:.2g}" for element in elements]
        if told:
            sentences.append(f" {model}: {', '.join(told)}.")
    looks = (("D", theme.prior), ("o", theme.model))
    for (component, values), (marker, colour) in zip(points.items(), looks, strict=True):
        x = np.maximum(values, LEAST)
        ax.plot(x, places, marker, ms=5, color=colour, label=component, clip_on=False)
    ax.axvline(THRESHOLD, color=theme.ink, lw=0.9, ls=style.DASHED)
    ax.set_yticks(places, [label(name, 40) for name in names])
    ax.set_ylim(places[-1] + 0.7, -0.7)
    ax.set_xlim(left=LEAST)
    ax.grid(axis="y", visible=False)
    style.plain_ticks(ax.xaxis)
    ax.set_xlabel(f"sensitivity to power-scaling\nit matters if ≥ {THRESHOLD:g} (dashed)")
    style.legend(figure, ax.get_legend_handles_labels()[0], "upper left")
    total = sum(len(each.distances) for each in found)
    note = ""
    if num_rows < total:
        note = f"{num_rows} of {total} quantities are shown: those most sensitive to the prior."
    return finish(figure, f"Sensitivity to power-scaling of the prior.{''.join(sentences)}", note)


def _most_sensitive(distances: pd.DataFrame) -> list[str]:
    """Return the elements to show, in the order of the posterior."""
    prior = distances.get("prior", pd.Series(dtype=float)).dropna()
    worst = prior.sort_values(ascending=False, kind="stable").index[:MOST_ROWS]
    return [str(element) for element in prior.index[prior.index.isin(worst)]]
