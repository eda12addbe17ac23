"""Figures of one posterior: traceplots, rank plots, pair plots, and prior against posterior.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2),
section 4.5 for rank plots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, cycle, zip_longest
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.display import format_number, interval_quantiles, percent
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, name_in, varies
from pyflowers.plots import style
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, Theme, finish, fitted, panels, styled
from pyflowers.programs import Capability
from pyflowers.programs.densities import PriorDensity

MOST_PANELS = 8
MOST_PAIRED = 5
MOST_PRIORS = 6
MOST_POINTS = 4000
"""The smallest number of points in a thinned panel, in which all divergent draws and every n-th of
the other draws are shown."""

MOST_VECTOR_POINTS = 60_000
"""The largest number of points for which traceplots are drawn as lines; with more points, they are
images, to keep files small."""

TRACE_SHARE = 0.82
"""Share of a figure's width that a trace may fill; the density is next to it."""

RANK_BINS = 20

HEAVY_TAIL = 30.0
"""A positive parameter has a log axis if its 99.5% quantile is more than this many times its 0.5%
quantile."""

SHOWN_SHARE = 0.999
"""Share of a parameter's draws that its axis spans; the others are counted in the small print."""

TAILS = (0.05, 0.95)
"""The quantiles between which the widths of prior and posterior are compared."""

GRID = 400
"""Number of points at which a density is drawn."""

STEP = {True: "draw after warm-up", False: "draw"}
"""Label of the x axis of a traceplot, by whether the draws come from Markov chains."""

BINS_OF_A_KERNEL = 8
"""Number of bins per standard deviation of a kernel, unless there would be too few or too many."""


@dataclass(frozen=True)
class Element:
    """One scalar of a posterior.

    Attributes
    ----------
    name : str
        Its name in the summary, such as ``mu_plant[2]``.
    draws : array, shape (chain, draw)
        Its draws.
    """

    name: str
    draws: NDArray[np.float64]

    @cached_property
    def is_heavy(self) -> bool:
        """Whether a logarithmic axis is needed to show both the bulk and the upper tail."""
        low, high = np.quantile(self.draws, (0.005, 0.995))
        return bool(self.draws.min() > 0 and high > HEAVY_TAIL * low)

    @property
    def scale(self) -> str:
        """The scale of the parameter's axis: ``log`` or ``linear``."""
        if self.is_heavy:
            return "log"
        return "linear"


def choose(
    fit: Fit, most: int, parameters: Sequence[str] | None = None
) -> tuple[list[Element], str]:
    """Choose at most `most` elements: the requested ones, or scalars and the worst other elements.

    Parameters
    ----------
    fit : Fit
        The fit, with its draws.
    most : int
        The largest number of elements that a figure can show.
    parameters : sequence of str, optional
        Variables or elements, such as ``mu`` or ``mu_plant[2]``.

    Returns
    -------
    shown : list of Element
        The elements in the order of the posterior. If there are too many, each vector contributes
        the same number: the elements with the largest R-hat or, if R-hat is equal, the first ones.
        Constant elements are shown only if all elements are constant. The choice is deterministic.
    note : str
        A sentence about the elements that are not shown; empty if all are shown.

    Raises
    ------
    ConfigError
        If the posterior does not have a requested parameter, or has no parameters.
    """
    quantities = list(fit.posterior.values())
    draws = {name: flat(q)[:, :, i] for q in quantities for i, name in enumerate(element_names(q))}
    if parameters is None:
        names = list(draws)
    else:
        names = _asked(fit, list(draws), parameters)
    if not names:
        raise ConfigError(
            "plots: there are no parameters to plot; name at least one, or fit a program that has "
            "parameters"
        )
    varying = {name for q in quantities for name in compress(element_names(q), varies(q))}
    names = [name for name in names if name in varying] or names
    note, total = "", len(names)
    if total > most:
        # NaN counts as the worst R-hat; sorting keeps the order of ties.
        r_hat = fit.summary(all=True)["r_hat"].fillna(np.inf).to_dict()
        vectors: dict[str, list[str]] = {_variable(name): [] for name in names}
        for name in sorted(names, key=lambda name: -r_hat[name]):
            vectors[_variable(name)].append(name)
        turns = zip_longest(*sorted(vectors.values(), key=lambda vector: len(vector) > 1))
        kept = [name for turn in turns for name in turn if name is not None][:most]
        names = [name for name in names if name in kept]
        note = (
            f"{len(names)} of {total} parameters are shown: from each vector, the elements with "
            f"the largest R-hat. The summary table contains all {total}."
        )
    return [Element(name, np.asarray(draws[name], dtype=np.float64)) for name in names], note


def _marker(num_draws: int) -> str:
    """Return the marker for a line of draws; a single draw is a dot."""
    if num_draws == 1:
        return "."
    return ""


def _variable(name: str) -> str:
    return name.partition("[")[0]


def _asked(fit: Fit, names: list[str], parameters: Sequence[str]) -> list[str]:
    if not isinstance(parameters, Iterable):
        kind = type(parameters).__name__
        raise ConfigError(f"parameters must be a list of names, such as ['mu'], got {kind}")
    wanted: dict[str, None] = {}
    if isinstance(parameters, str):
        parameters = [parameters]
    for parameter in parameters:
        own = name_in(fit.posterior, parameter)
        found = [name for name in names if own in (name, _variable(name))]
        if not found:
            known = ", ".join(dict.fromkeys(map(_variable, names)))
            raise ConfigError(
                f"parameter {parameter!r}: the fit has no parameter of that name; it has {known}"
            )
        wanted |= dict.fromkeys(found)
    return list(wanted)


@styled
def trace_first_chain(fit: Fit, parameter: str | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw the traceplot of one parameter in the first chain.

    Parameters
    ----------
    fit : Fit
        The fit.
    parameter : str, optional
        The name of a parameter, such as ``mu_plant[2]``. Default: the first scalar, ``mu`` in the
        shipped programs.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        One panel.

    Raises
    ------
    ConfigError
        If the fit has no such parameter, or no parameters at all.

    See Also
    --------
    pyflowers.plots.trace : Draw the traceplots of all chains.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.trace_first_chain(fit, "mu_plant[2]")
    >>> figure.savefig("trace_first_chain.png")
    """
    (element, *_), _ = choose(fit, 1, parameter)
    figure, (ax,) = panels(1, 1, 2.1, theme)
    draws = element.draws[0]
    marker = _marker(draws.size)
    ax.plot(np.arange(1, draws.size + 1), draws, lw=0.6, color=theme.model, marker=marker)
    ax.axhline(float(np.median(draws)), color=theme.ink, lw=0.8, ls="--")
    _trace_axes(ax, fit, element, f"{element.name}, first chain", theme)
    ax.set_xlabel(STEP[fit.record.independent is None])
    alt = (
        f"Traceplot of {element.name} in the first chain of {fit.called}: {draws.size} draws "
        f"around a median of {np.median(draws):.3g}."
    )
    return finish(figure, alt)


@styled
def trace(fit: Fit, parameters: Sequence[str] | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw the traceplots of all chains, a panel for each parameter.

    Parameters
    ----------
    fit : Fit
        The fit.
    parameters : sequence of str, optional
        Names of quantities or of their elements, such as ``mu`` or ``mu_plant[2]``. Default: all.
        At most 8 elements are drawn: scalars first, then the elements of vectors with the largest
        R-hat.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each parameter, with a line for each chain, and the densities of the chains next
        to the lines.

    Raises
    ------
    ConfigError
        If the fit has no such parameter, or no parameters at all.

    See Also
    --------
    pyflowers.plots.ranks : Draw rank plots, which show differences between chains better.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")
    >>> figure = pyflowers.plots.trace(fit, ["mu", "sigma2"])
    >>> figure.savefig("trace.png")
    """
    shown, note = choose(fit, MOST_PANELS, parameters)
    num_chains, num_draws = shown[0].draws.shape
    figure = style.new_figure(1.02 * len(shown) + 0.55, theme)
    grid = figure.subplots(len(shown), 2, squeeze=False, sharey="row", width_ratios=(6, 1))
    axes, sides = list(grid[:, 0]), list(grid[:, 1])
    dense = len(shown) * shown[0].draws.size > MOST_VECTOR_POINTS
    look = {"lw": 0.45, "alpha": 0.6, "marker": _marker(num_draws)}
    apart = []
    for ax, side, element in zip(axes, sides, shown, strict=True):
        for draws, colour in zip(element.draws, cycle(theme.chains), strict=False):
            ax.plot(np.arange(1, num_draws + 1), draws, color=colour, rasterized=dense, **look)
            _density_of_chain(side, draws, element.is_heavy, colour)
        side.set_axis_off()
        if ax is not axes[-1]:
            ax.tick_params(labelbottom=False)
        _trace_axes(ax, fit, element, element.name, theme, TRACE_SHARE)
        medians = np.median(element.draws, axis=1)
        apart.append(np.ptp(medians) / (np.std(element.draws) or 1))
    axes[-1].set_xlabel(STEP[fit.record.independent is None])
    _chain_legend(figure, num_chains, theme)
    alt = (
        f"Traceplots of {_names(shown)} of {fit.called} (chains: {num_chains}, draws per chain: "
        f"{num_draws}). The chains' medians differ by at most {max(apart):.2f} posterior standard "
        "deviations."
    )
    return finish(figure, alt, note)


def _density_of_chain(ax: Axes, draws: NDArray[np.float64], logarithmic: bool, color: str) -> None:
    """Draw the density of a chain's draws next to its trace."""
    values = draws[np.isfinite(draws)]
    if logarithmic:
        values = np.log(values)
    if values.size < 2 or np.ptp(values) == 0:
        return
    grid = np.linspace(values.min(), values.max(), 200)
    density = kernel_density(values, grid)
    if logarithmic:
        grid = np.exp(grid)
    ax.plot(density, grid, color=color, lw=0.9, alpha=0.8)


@styled
def ranks(fit: Fit, parameters: Sequence[str] | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw rank plots: histograms of the ranks of each chain's draws among all draws.

    Chains that explore the same distribution have flat histograms. The grey band contains at least
    99% of the bars if draws are independent, and fewer if they are autocorrelated.

    Parameters
    ----------
    fit : Fit
        The fit.
    parameters : sequence of str, optional
        Names of quantities or of their elements, such as ``mu`` or ``mu_plant[2]``. Default: all.
        At most 8 elements are drawn: scalars first, then the elements of vectors with the largest
        R-hat.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each parameter, with a histogram for each chain.

    Raises
    ------
    ConfigError
        If the fit has no such parameter, or no parameters at all.

    See Also
    --------
    pyflowers.plots.trace : Draw traceplots.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2),
    section 4.5.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")
    >>> figure = pyflowers.plots.ranks(fit)
    >>> figure.savefig("ranks.png")
    """
    shown, note = choose(fit, MOST_PANELS, parameters)
    figure, axes = panels(len(shown), 2, 1.35, theme, sharex=True)
    num_chains, num_draws = shown[0].draws.shape
    num_bins = max(2, min(RANK_BINS, num_draws // 5))
    low, high = binomial_interval(0.99, num_draws, 1 / num_bins)
    worst = 0.0
    for ax, element in zip(axes, shown, strict=True):
        counts = rank_counts(element.draws, num_bins)
        worst = max(worst, float(np.mean((counts < low) | (counts > high))))
        edges = np.linspace(0, element.draws.size, num_bins + 1)
        ax.fill_between(edges[[0, -1]], low, high, color=theme.grid, lw=0)
        for count, colour in zip(counts, cycle(theme.chains), strict=False):
            ax.stairs(count, edges, baseline=None, color=colour, lw=1.1, alpha=0.9)
        ax.set_title(fitted(element.name, style.panel_width(2), size=9.5, bold=True), pad=2)
        room = 0.4 * (high - low)
        ax.set_ylim(max(0, min(counts.min(), low) - room), max(counts.max(), high) + room)
        ax.grid(False)
        ax.margins(x=0)
        ax.locator_params(nbins=4)
    for ax in axes[-2:]:
        ax.set_xlabel("rank among all draws")
        ax.tick_params(labelbottom=True)
    figure.supylabel("draws of a chain", fontsize=9)
    _chain_legend(figure, num_chains, theme)
    alt = (
        f"Rank plots of {_names(shown)} of {fit.called} (chains: {num_chains}). At most "
        f"{worst:.0%} of a parameter's bars are outside the band that contains 99% of the bars if "
        "draws are independent."
    )
    return finish(figure, alt, note)


def _names(shown: Sequence[Element]) -> str:
    return ", ".join(element.name for element in shown)


def _trace_axes(
    ax: Axes, fit: Fit, element: Element, name: str, theme: Theme, share: float = 1
) -> None:
    """Add a title with the unit to a trace; a heavy-tailed parameter gets a logarithmic axis.

    `share` is the share of the figure's width that the trace fills.
    """
    room = share * style.panel_width(1)
    unit = fit.program.unit_of(element.name, fit.data)
    of_name = room
    if unit:
        of_name = 0.6 * room
    shown = fitted(name, of_name, size=9.5, bold=True)
    left = room - style.text_width(shown, size=9.5, bold=True) - 0.2
    small = {"fontsize": 8, "fontweight": "normal", "color": theme.muted}
    ax.set_title(shown, pad=2)
    ax.set_title(fitted(unit, left, size=8), loc="right", pad=2, **small)
    num_draws = element.draws.shape[1]
    if num_draws > 1:
        ax.set_xlim(1, num_draws)
    else:
        ax.set_xlim(0, 2)
    ax.locator_params(axis="x", integer=True)
    ax.set_yscale(element.scale)
    style.few_ticks(ax, "y", 5 if element.is_heavy else 4)


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks of values, starting at 1, in the same shape; ties share their average rank."""
    found = pd.Series(values.ravel()).rank(na_option="bottom")
    return np.reshape(found.to_numpy(), values.shape)


def rank_counts(draws: NDArray[np.float64], num_bins: int) -> NDArray[np.int64]:
    """Rank all draws, and count each chain's ranks in bins of equal width; shape (chain, bin)."""
    position = ((average_ranks(draws) - 0.5) * num_bins / draws.size).astype(int)
    position = np.minimum(position, num_bins - 1)
    return np.stack([np.bincount(row, minlength=num_bins) for row in position])


def binomial_interval(level: float, num: int, share: float) -> tuple[int, int]:
    """Return the ends of the central interval of Binomial(num, share) with probability `level`."""
    from scipy.special import bdtrik  # scipy.stats is slow to import

    low, high = np.ceil(bdtrik([0.5 * (1 - level), 0.5 * (1 + level)], num, share))
    return int(low), int(high)


def _chain_legend(figure: StyledFigure, num_chains: int, theme: Theme) -> None:
    """Add a legend for several chains above all panels, unless some chains share a colour."""
    if 1 < num_chains <= len(theme.chains):
        colours = enumerate(theme.chains[:num_chains], 1)
        lines = [style.key(f"chain {i}", color=colour, lw=2) for i, colour in colours]
        style.legend(figure, lines, handlelength=1.2)


@styled
def pairs(fit: Fit, parameters: Sequence[str] | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw every pair of parameters, with divergent transitions marked.

    Parameters
    ----------
    fit : Fit
        The fit.
    parameters : sequence of str, optional
        Names of quantities or of their elements, such as ``mu`` or ``mu_plant[2]``. Default: all.
        At most 5 elements are drawn: scalars first, then the elements of vectors with the largest
        R-hat.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        Scatter plots of all pairs, and a histogram of each parameter on the diagonal.

    Raises
    ------
    ConfigError
        If the fit has no such parameter, or no parameters at all.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")
    >>> figure = pyflowers.plots.pairs(fit, ["mu", "sigma2"])
    >>> figure.savefig("pairs.png")
    """
    shown, note = choose(fit, MOST_PAIRED, parameters)
    num, none = len(shown), np.zeros(shown[0].draws.shape)
    diverging = np.asarray(fit.kept_stats.get("divergent__", none), dtype=bool)
    fine = np.flatnonzero(~diverging)
    step = max(1, fine.size // MOST_POINTS)
    fine = fine[::step]
    # If there are many points, they are faint, so that they do not fill the panel with one colour.
    alpha = float(np.clip(400 / max(fine.size, 1), 0.1, 0.6))
    dot: dict[str, Any] = {"s": 2.6, "alpha": alpha, "lw": 0, "color": theme.model}
    cross: dict[str, Any] = {"s": 14, "marker": "x", "lw": 1, "color": theme.alarm}
    size = min(style.WIDTH / num, 1.8)
    figure = style.new_figure(size * num + 0.5, theme, pad=0.02)
    places = figure.add_gridspec(num, num)
    spans = [_span(element) for element in shown]
    names = [_axis_name(element, 0.9 * size - 0.12) for element in shown]
    for j, left in enumerate(shown):
        ax: Axes = None
        for i, below in enumerate(shown[j:], j):
            ax = figure.add_subplot(places[i, j], sharex=ax)
            if i == j:
                spaced = np.geomspace if below.is_heavy else np.linspace
                count, edges = np.histogram(below.draws, spaced(*spans[i], 31))
                ax.stairs(count, edges, fill=True, color=theme.model, alpha=0.75, lw=0)
                ax.set_xscale(below.scale)
                ax.set_xlim(spans[i])
                style.without_y_axis(ax)
                ax.grid(False)
            else:
                x, y = left.draws, below.draws
                ax.scatter(x.ravel()[fine], y.ravel()[fine], rasterized=True, **dot)
                ax.scatter(x[diverging], y[diverging], rasterized=True, **cross)
                ax.set_yscale(below.scale)
                ax.set_ylim(spans[i])
                style.few_ticks(ax, "y", 3 if below.is_heavy else 4)
            style.few_ticks(ax, "x", 3)
            ax.tick_params(labelsize=7, labelleft=j == 0 and i > 0, labelbottom=i == num - 1)
            if j == 0 and i > 0:
                ax.set_ylabel(names[i], fontsize=8)
        ax.set_xlabel(names[j], fontsize=8)
    total, told = int(diverging.sum()), f"{diverging.size} draws"
    if "divergent__" in fit.stats:
        if total:
            mark = {"ls": "", "marker": "x", "color": theme.alarm}
            style.legend(figure, [style.key(f"divergent: {total}", **mark)])
        told = f"{total or 'none'} of {diverging.size} transitions diverged"
    which, points = "draws", ""
    if total:
        told += " (marked)"
        which = "draws that did not diverge"
    if step > 1:
        points = f"One in {step} of the {which} is shown."
    alt = f"Pair plot of {_names(shown)} of {fit.called}: {told}.{_strongest(shown)}"
    return finish(figure, alt, note, points, *_outside(shown, spans))


def _span(element: Element) -> tuple[float, float]:
    """Return axis limits around the bulk of the draws, so that outliers do not squeeze the rest."""
    tail = (1 - SHOWN_SHARE) / 2
    values = element.draws
    if element.is_heavy:
        values = np.log(values)
    values = values[np.isfinite(values)]
    if not values.size:
        return 1.0, 2.0  # nothing is shown
    low, high = np.quantile(values, (tail, 1 - tail))
    margin = 0.08 * (high - low) or 0.5
    low, high = max(low - margin, values.min() - margin), min(high + margin, values.max() + margin)
    if element.is_heavy:
        return np.exp(low), np.exp(high)
    return low, high


def _axis_name(element: Element, room: float) -> str:
    """Break a long name before its index, so that neighbouring names do not overlap."""
    variable, bracket, position = element.name.partition("[")
    name = fitted(element.name, room, size=8)
    if position and style.text_width(style.label(element.name), size=8) > room:
        parts = (bracket + position).replace(",", ",\n").split("\n")
        lines = [fitted(part, room, size=8) for part in (variable, *parts)]
        name = "\n".join(lines)
    if element.is_heavy:
        name += "\n(log axis)"
    return name


def _outside(shown: Sequence[Element], spans: Sequence[tuple[float, float]]) -> list[str]:
    """Return notes on the numbers of draws beyond the axes, and of missing or infinite draws."""
    missing, beyond = np.zeros((2, *shown[0].draws.shape), dtype=bool)
    for element, (low, high) in zip(shown, spans, strict=True):
        missing |= ~np.isfinite(element.draws)
        beyond |= (element.draws < low) | (element.draws > high)
    num_beyond, num_missing = int((beyond & ~missing).sum()), int(missing.sum())
    counts = {"beyond the axes": num_beyond, "missing or infinite": num_missing}
    return [
        f"{num} of {beyond.size} draws {'is' if num == 1 else 'are'} {what}."
        for what, num in counts.items()
        if num
    ]


def _strongest(shown: Sequence[Element]) -> str:
    """Return a sentence on the pair with the largest rank correlation."""
    varying = [element for element in shown if np.ptp(element.draws) != 0]
    if len(varying) < 2:
        return ""
    ranked = np.stack([average_ranks(element.draws).ravel() for element in varying])
    with np.errstate(invalid="ignore"):  # from NaN
        correlations = np.nan_to_num(np.tril(np.corrcoef(ranked), -1))
    i, j = np.unravel_index(np.argmax(np.abs(correlations)), correlations.shape)
    pair = f"{correlations[i, j]:.2f}, between {varying[j].name} and {varying[i].name}"
    if correlations[i, j]:
        return f" The strongest rank correlation is {pair}."
    return ""


@styled
def prior_posterior(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw prior and posterior densities of the parameters with a declared prior.

    On a logarithmic axis, as for a variance, the curves are densities of the logarithm. Each
    axis spans the posterior; a prior that looks flat there is much wider than the posterior.

    Parameters
    ----------
    fit : Fit
        A fit of a program that declares the prior of a parameter. At most 6 elements are drawn:
        scalars first, then the elements of vectors with the largest R-hat.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each parameter.

    Raises
    ------
    ConfigError
        If the program declares no prior.

    See Also
    --------
    pyflowers.sensitivity : Measure how much the posterior depends on the prior.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.prior_posterior(fit)
    >>> figure.savefig("prior_posterior.png")
    """
    fit.program.require(Capability.PRIOR_DENSITY)
    declared_priors = [n for n in map(str, fit.posterior) if fit.program.declares_prior(n)]
    shown, note = choose(fit, MOST_PRIORS, declared_priors)
    figure, axes = panels(len(shown), 2, 1.75, theme)
    sentences = []
    probs = list(interval_quantiles(fit.interval).values())
    for ax, element in zip(axes, shown, strict=True):
        prior, sd = fit.program.prior_of(element.name, fit.data.values), float(element.draws.std())
        assert prior is not None
        declared = fit.program.log_axis(element.name)
        if declared is None:
            declared = element.is_heavy
        logarithmic = bool(element.draws.min() > 0 and declared)
        _prior_panel(ax, element, prior, logarithmic, theme)
        style.title(ax, element.name, 2, fit.program.unit_of(element.name, fit.data))
        _, low, high = np.quantile(element.draws, probs)
        inner = f"{percent(fit.interval)} of the posterior is between {low:.3g} and {high:.3g}"
        sentence = f"{element.name}: the prior is {prior.text}, and {inner}"
        if np.isfinite(prior.sd) and sd > 0 and not logarithmic:
            sentence += f"; the prior's sd is {prior.sd / sd:.3g} times the posterior's"
        sentences.append(f"{sentence}.")
    posterior = style.key("posterior", color=theme.model, lw=3, alpha=0.6)
    style.legend(figure, [posterior, style.key("prior", color=theme.prior, ls=style.DASHED)])
    alt = f"Prior and posterior densities of {fit.called}. {' '.join(sentences)}"
    return finish(figure, alt, note)


def _prior_panel(
    ax: Axes, element: Element, prior: PriorDensity, logarithmic: bool, theme: Theme
) -> None:
    if logarithmic:
        values = np.log(element.draws.ravel())
    else:
        values = element.draws.ravel()
    low, high = np.quantile(values, (0.002, 0.998))
    room = 0.25
    if logarithmic:
        room = 0.6
    margin = room * (high - low) or 1.0
    left, right = low - margin, high + margin
    is_positive = prior.density is None or not np.any(prior.density(-np.logspace(-6, 6, 25)))
    if not logarithmic and values.min() > 0 and is_positive:
        left = max(left, right * 1e-6)  # there is nothing to draw below 0
    grid = np.linspace(left, right, GRID)
    x, jacobian = grid, np.ones(GRID)  # |dx / d log x| on a logarithmic axis
    if logarithmic:
        x = jacobian = np.exp(grid)
    posterior = kernel_density(values, grid)
    ax.fill_between(x, posterior, color=theme.model, alpha=0.35, lw=0)
    ax.plot(x, posterior, color=theme.model)
    if prior.density is not None:
        believed = prior.density(x) * jacobian
    else:
        # A flat prior has no scale, so it is drawn through half the posterior's peak at the
        # posterior's median. Per unit of the logarithm, its density is proportional to x.
        if logarithmic:
            relative = np.exp(grid - np.median(values))
        else:
            relative = np.ones_like(x)
        believed = 0.5 * posterior.max() * relative
    ax.plot(x, believed, color=theme.prior, ls=style.DASHED)
    box = {"facecolor": theme.paper, "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
    place = {"transform": ax.transAxes, "ha": "right", "va": "top", "bbox": box}
    about = f"prior {prior.text}"
    if prior.quantile is not None:
        ends = np.quantile(element.draws, TAILS)
        wider = (prior.quantile(TAILS[1]) - prior.quantile(TAILS[0])) / np.ptp(ends)
        about += f"\n{format_number(wider)} times as wide"
    ax.text(0.98, 0.94, about, fontsize=7.5, color=theme.prior, **place)
    if logarithmic:
        ax.set_xscale("log")
        style.few_ticks(ax, "x", 6)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(0, max(posterior.max(), min(believed.max(), 1.2 * posterior.max())) * 1.4)
    style.without_y_axis(ax)


def kernel_density(values: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a Gaussian kernel density estimate, computed from binned values.

    The bandwidth is Silverman's robust bandwidth (1986, Density Estimation for Statistics and Data
    Analysis, eq. 3.31).

    Parameters
    ----------
    values : array, shape (n,)
        Draws or data.
    grid : array, shape (m,)
        Equally spaced points at which the density is evaluated.
    """
    iqr = float(np.subtract(*np.quantile(values, (0.75, 0.25)))) / 1.349
    spread = min((s for s in (float(values.std()), iqr) if s > 0), default=1.0)
    if not np.isfinite(spread):
        spread = 1.0
    width = 0.9 * spread * values.size**-0.2
    first, last = grid[0] - 4 * width, grid[-1] + 4 * width  # draws within 4 widths affect the grid
    num_bins = int(np.clip((last - first) / (width / BINS_OF_A_KERNEL), GRID / 4, 4 * GRID))
    edges = np.linspace(first, last, num_bins + 1)
    count, _ = np.histogram(values, edges)
    middle = (edges[1:] + edges[:-1]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - middle[None, :]) / width) ** 2)
    return np.asarray(kernel @ count / (values.size * width * np.sqrt(2 * np.pi)))
