"""Figures that compare the results of several methods for one posterior."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from pyflowers.analysis.methods import METHOD_NAMES, element_of
from pyflowers.display import percent
from pyflowers.errors import ConfigError
from pyflowers.plots import style
from pyflowers.plots.posterior import kernel_density
from pyflowers.plots.style import LIGHT, Axes, Theme, finish, fitted, panel_width, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.analysis.methods import Comparison

MOST_PANELS = 9
MOST_RATIO = 100
"""Largest ratio between the ends of a logarithmic axis that has ticks within a decade."""

HIGHEST_PEAK = 2.5
"""Highest peak that fits into a panel of densities, relative to the true peak."""

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Levels of the contours, as fractions of the maximum of each density."""


@styled
def coordinate_ascent(
    comparison: Comparison, *, precision: bool = True, theme: Theme = LIGHT
) -> Figure:
    """Draw the well-known textbook figure: contours of the posterior and of q in four states.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`pyflowers.compare` for a program that describes a single normal
        distribution and declares ``vb_from_afar``, given at least two observations.
    precision : bool
        Whether the second axis is lambda = 1/sigma2, as in Bishop's figure, or sigma2 itself.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        Four panels: q at the start, after each of the first two updates, and at convergence.

    Raises
    ------
    ConfigError
        If the comparison has no ``vb_from_afar``.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, figure 10.4; MacKay (2003), Information
    Theory, Inference, and Learning Algorithms, figure 33.4.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.plots import methods
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> methods.coordinate_ascent(found).savefig("coordinate_ascent.png")
    """
    vb = comparison.vb_from_afar
    if vb is None:
        name = comparison.nuts.called
        raise ConfigError(
            f"coordinate_ascent: the comparison of {name} has no variational fit that starts far "
            "from the solution; use a program that describes a single normal distribution and "
            "declares vb_from_afar, with at least two observations"
        )
    exact: Any = comparison.exact
    mean, scale = map(str, comparison.nuts.posterior)
    states = [*vb.states[:3], vb.states[-1]]
    titles = ("start", f"after updating q({mean})", f"after updating q({scale})", "at convergence")
    x, z = np.meshgrid(*_axes_values(exact, mean, scale, precision, states))
    log_jacobian: Any = 0.0
    sigma2, second = z, scale
    if precision:
        sigma2, log_jacobian, second = 1 / z, -2 * np.log(z), f"lambda = 1 / {scale}"
    target = exact.logpdf(x, sigma2) + log_jacobian
    figure, axes = panels(4, 2, 2.3, theme, sharex=True, sharey=True)
    for ax, state, title in zip(axes, states, titles, strict=True):
        log_q = state.factors[mean].logpdf(x) + state.factors[scale].logpdf(sigma2)
        style.plain_ticks(ax.yaxis)  # a power of ten above the axis would overlap the title
        looks = {"-": (target, theme.ink), "--": (log_q + log_jacobian, theme.alarm)}
        for dashes, (density, colour) in looks.items():
            look: dict[str, Any] = {"colors": [colour], "linestyles": dashes, "linewidths": 0.9}
            ax.contour(x, z, np.exp(density - np.max(density)), levels=LEVELS, **look)
        ax.set_title(f"{title}\nELBO {float(state.elbo):.3f}")
        ax.label_outer()
    figure.supylabel(second, fontsize=9)
    for ax in axes[2:]:
        ax.set_xlabel(mean)
    posterior = style.key("posterior", color=theme.ink)
    style.legend(figure, [posterior, style.key("q", color=theme.alarm, linestyle="--")])
    alt = (
        f"Contours of the exact posterior and of the mean-field q in four states; the ELBO rises "
        f"from {float(states[0].elbo):.3f} to {float(states[-1].elbo):.3f}, and the log evidence "
        f"is {exact.log_evidence:.3f}."
    )
    return finish(figure, alt, f"log evidence {exact.log_evidence:.3f}")


def _axes_values(
    exact: Any, mean: str, scale: str, precision: bool, states: list[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return grids that cover the posterior, q's last two states and the bulk of its first two."""
    early, late = [s.factors for s in states[:2]], [s.factors for s in states[2:]]
    tails = np.array([0.003, 0.997])
    spread = np.array([0.003, 0.985])
    if precision:
        spread = np.array([0.015, 0.997])
    means = [exact.quantile(mean, tails), *(q[mean].quantile(tails) for q in late)]
    means += [q[mean].quantile(np.array([0.1, 0.9])) for q in early]
    scales = [exact.quantile(scale, spread), *(q[scale].quantile(spread) for q in late)]
    scales += [q[scale].quantile(np.array([0.15, 0.85])) for q in early]
    if precision:
        second = 1 / np.concatenate(scales)
    else:
        second = np.concatenate(scales)
    return (
        np.linspace(np.min(means), np.max(means), 161),
        np.linspace(max(second.min() * 0.2, 1e-12), second.max(), 161),
    )


@styled
def method_marginals(comparison: Comparison, *, theme: Theme = LIGHT) -> Figure:
    """Draw the marginal density of each parameter, overlaid for all methods.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`pyflowers.compare`.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each of at most 9 parameters, with a density for each method.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.plots import methods
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> methods.method_marginals(found).savefig("method_marginals.png")
    """
    shown = shown_elements(comparison)
    columns = min(3, len(shown))
    figure, axes = panels(len(shown), columns, 1.75, theme)
    is_cut = False
    colours = _colours(comparison, theme)
    for ax, name in zip(axes, shown, strict=True):
        low, high, logarithmic = _reach(comparison, name)
        if logarithmic:
            grid = np.geomspace(low, high, 301)
        else:
            grid = np.linspace(low, high, 301)
        top, highest = 0.0, 0.0
        for method in comparison.results:
            density = _density(comparison, method, name, grid, logarithmic)
            width, label = 1.1, METHOD_NAMES[method]
            if method in ("exact", comparison.reference):
                # A method whose density is far too narrow must not flatten the other densities.
                width, top = 2.2, max(top, float(density.max()) * HIGHEST_PEAK)
            ax.plot(grid, density, color=colours[method], linewidth=width, label=label)
            highest = max(highest, float(density.max()))
        _scale_x(ax, low, high, logarithmic)
        ax.set_ylim(0, min(top, 1.05 * highest) or None)
        is_cut = is_cut or highest > top
        ax.set_yticks([])
        log = ""
        if logarithmic:
            log = " (log axis)"
        ax.set_xlabel(fitted(name, panel_width(columns) - style.text_width(log)) + log)
    style.legend(figure, axes[0].lines, "upper left", ncols=3)
    cut = ""
    if is_cut:
        cut = "Peaks above the axes are cut off."
    num = len(comparison.results)
    alt = f"Marginal densities of {', '.join(shown)} by {num} methods."
    return finish(figure, alt, _left_out(comparison), cut)


@styled
def elbo_trace(comparison: Comparison, *, theme: Theme = LIGHT) -> Figure:
    """Draw the ELBO of closed-form variational Bayes over its sweeps.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`pyflowers.compare`.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        The ELBO at the start and after each sweep. If the log evidence is known, it is also drawn,
        and a second panel shows the gap between the two.

    Raises
    ------
    ConfigError
        If the comparison has no closed-form variational Bayes.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.plots import methods
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> methods.elbo_trace(found).savefig("elbo_trace.png")
    """
    vb = comparison.vb_from_afar or comparison.vb  # the ascent is visible only from a distant start
    if vb is None:
        name = comparison.nuts.called
        raise ConfigError(
            f"{name} has no closed-form VB, so there is no ELBO to draw; use a program with "
            "closed-form VB"
        )
    trace = np.asarray(vb.elbo_trace)
    exact = comparison.results.get("exact")
    figure, axes = panels(1 if exact is None else 2, 2, 2.2, theme)
    ax = axes[0]
    for each in axes:
        each.set_xlabel("sweep")
        each.xaxis.get_major_locator().set_params(integer=True)
    dotted: dict[str, Any] = {"color": theme.model, "marker": "o", "markersize": 3.5}
    ax.plot(trace, label="ELBO", **dotted)
    ax.set_ylabel("nats")
    rise = f"The ELBO rises from {trace[0]:.3f} to {trace[-1]:.3f} in {len(trace) - 1} sweeps"
    if exact is None:
        ax.set_ylabel("ELBO (nats)")
        return finish(figure, f"{rise}.", "The log evidence is not known.")
    evidence, gaps = exact.log_evidence, axes[1]
    ax.axhline(evidence, color=theme.ink, linewidth=1, linestyle="--", label="log evidence")
    style.legend(figure, ax.lines, "upper left")
    gaps.plot(evidence - trace, **dotted)
    gaps.set_yscale("log")
    style.plain_ticks(gaps.yaxis)
    gaps.set_title("log evidence − ELBO")
    gap = evidence - float(trace[-1])
    alt = f"{rise}; the log evidence is {evidence:.3f}, so KL(q ‖ posterior) is {gap:.4f}."
    return finish(figure, alt, f"KL(q ‖ posterior) = {gap:.4f} nats at convergence")


@styled
def interval_forest(comparison: Comparison, *, theme: Theme = LIGHT) -> Figure:
    """Draw each method's median and interval for each parameter.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`pyflowers.compare`.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each of at most 9 parameters, with a row for each method.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.plots import methods
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> methods.interval_forest(found).savefig("interval_forest.png")
    """
    shown = shown_elements(comparison)
    columns = min(3, len(shown))
    figure, axes = panels(len(shown), columns, 1.75, theme, sharey=True)
    methods, rows = list(comparison.results), np.arange(len(comparison.results))
    tints = list(_colours(comparison, theme).values())
    is_beyond = False
    for ax, name in zip(axes, shown, strict=True):
        found = [comparison.results[method].quantities.loc[name] for method in methods]
        median, low, high = np.transpose([values.iloc[:3] for values in found])
        ax.hlines(rows, low, high, colors=tints, linewidth=2)
        left, right, logarithmic = _reach(comparison, name)
        is_beyond = is_beyond or bool(((median < left) | (median > right)).any())
        for row, (x, tint) in enumerate(zip(median, tints, strict=True)):
            marker = "o"
            if x < left:
                marker = "<"
            elif x > right:
                marker = ">"
            ax.scatter(np.clip(x, left, right), row, s=16, c=tint, marker=marker, zorder=3)
        for position in _truth(comparison, name):
            ax.axvline(position, color=theme.muted, linewidth=0.6, linestyle=":")
        _scale_x(ax, left, right, logarithmic)
        ax.set_xlabel(fitted(name, panel_width(columns) - 0.3))
        ax.grid(visible=False, axis="y")
    axes[0].set_yticks(rows, [METHOD_NAMES[method] for method in methods])
    axes[0].invert_yaxis()
    beyond = ""
    if is_beyond:
        beyond = "An arrow marks a median beyond the axis."
    interval = percent(comparison.nuts.interval)
    alt = f"Medians and {interval} intervals of {', '.join(shown)} by {len(methods)} methods."
    return finish(figure, alt, _left_out(comparison), beyond)


def comparison_figures(comparison: Comparison, suffix: str = "png") -> dict[str, Figure]:
    """Draw all figures of a comparison.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`pyflowers.compare`.
    suffix : str
        Suffix of the file names.

    Returns
    -------
    dict of str to Figure
        The figures, by the file names that ``pyflowers compare --out`` gives them.

    Examples
    --------
    >>> import pyflowers
    >>> from pyflowers.plots import methods
    >>> found = pyflowers.compare(
    ...     "iid_normal", seed=1, engine="stanli", approximations=False
    ... )
    >>> sorted(methods.comparison_figures(found))
    ['ascent_precision.png', 'ascent_variance.png', 'elbo.png', 'intervals.png', 'marginals.png']
    """
    return {f"{name}.{suffix}": draw() for name, draw in comparison_drawings(comparison).items()}


def comparison_drawings(comparison: Comparison) -> dict[str, Callable[[], Figure]]:
    """Return functions that draw the figures of a comparison, by name."""
    made: dict[str, Callable[[], Figure]] = {
        "marginals": partial(method_marginals, comparison),
        "intervals": partial(interval_forest, comparison),
    }
    if comparison.vb is not None:
        made["elbo"] = partial(elbo_trace, comparison)
    if comparison.vb_from_afar is not None:
        made["ascent_precision"] = partial(coordinate_ascent, comparison)
        made["ascent_variance"] = partial(coordinate_ascent, comparison, precision=False)
    return made


def shown_elements(comparison: Comparison) -> list[str]:
    """Return the elements that fit into figures and the report's table, scalars first."""
    return sorted(comparison.elements, key=lambda name: "[" in name)[:MOST_PANELS]


def _left_out(comparison: Comparison) -> str:
    num, total = len(shown_elements(comparison)), len(comparison.elements)
    if num < total:
        return f"{num} of {total} parameters are shown."
    return ""


def _colours(comparison: Comparison, theme: Theme) -> dict[str, str]:
    """Return the colour of each method, which is the same in every figure."""
    others = [m for m in METHOD_NAMES if m not in ("exact", "independent", "weighted")]
    palette = dict(zip(others, theme.chains, strict=True))
    # A comparison has only one of the three.
    palette["independent"] = palette["weighted"] = palette["nuts"]
    return {method: palette.get(method, theme.ink) for method in comparison.results}


def _truth(comparison: Comparison, name: str) -> list[float]:
    """Return the median and interval of a parameter from the exact posterior or the reference."""
    if "exact" in comparison.results:
        method = "exact"
    else:
        method = comparison.reference
    values = comparison.results[method].quantities.loc[name].iloc[:3]
    return [float(value) for value in values.to_numpy()]


def _reach(comparison: Comparison, name: str) -> tuple[float, float, bool]:
    """Return limits that contain the true interval with a margin, and whether to use a log axis."""
    _, low, high = _truth(comparison, name)
    lowest = min(r.quantities.loc[name].iloc[1] for r in comparison.results.values())
    if comparison.program.log_axis(name) and lowest > 0:
        return low / 2.5, high * 2.5, True
    margin = 0.7 * (high - low) or 1.0
    return low - margin, high + margin, False


def _scale_x(ax: Axes, low: float, high: float, logarithmic: bool) -> None:
    ax.set_xlim(low, high)
    if logarithmic:
        ax.set_xscale("log")
        # Ticks between powers of ten help if the axis spans few decades, but overlap if it spans
        # many.
        subs: tuple[int, ...] = (1,)
        if high < MOST_RATIO * low:
            subs = (1, 2, 5)
        ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=5))
        style.plain_ticks(ax.xaxis)


def _density(
    comparison: Comparison, method: str, name: str, grid: NDArray[np.float64], logarithmic: bool
) -> NDArray[np.float64]:
    """Return a method's marginal density; on a logarithmic axis, the density of the logarithm."""
    jacobian = grid if logarithmic else 1.0
    draws = comparison.results[method].draws
    parameter, position = comparison.position(name)
    if draws is not None:
        values = element_of(draws[parameter], position)
        values = np.log(values) if logarithmic else values
        # Constant or enormous draws have no density that could be shown.
        if np.ptp(values) == 0 or np.abs(values).max() > style.LARGEST:
            return np.zeros_like(grid)
        return kernel_density(values, np.log(grid) if logarithmic else grid)
    if method == "vb":
        factor: Any = comparison.vb[parameter] if comparison.vb is not None else None
        x = grid.reshape(-1, *([1] * np.ndim(factor.mean)))
        found: NDArray[np.float64] = np.exp(factor.logpdf(x))[(slice(None), *position)] * jacobian
        return found
    exact: Any = comparison.exact
    points, density = exact.marginal(parameter)
    density = np.interp(grid, points[position], density[position], left=0, right=0)
    return np.asarray(density * jacobian)
