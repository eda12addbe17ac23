"""Figures of a comparison: how the methods see one posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from pyflowers.analysis.method_statistics import element_of
from pyflowers.analysis.methods import METHOD_NAMES
from pyflowers.display import percent
from pyflowers.errors import ConfigError
from pyflowers.plots.density import kernel_density
from pyflowers.plots.style import (
    LIGHT,
    Theme,
    finish,
    fitted,
    panel_width,
    panels,
    plain_ticks,
    styled,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.analysis.methods import Comparison

MOST_PANELS = 9
MOST_RATIO = 100
"""Upper over lower end of a logarithmic axis up to which it has ticks within a decade."""

HIGHEST_PEAK = 2.5
"""Peak that fits into a panel of densities, relative to that of the truth."""

LARGEST = 1e150
"""Draws beyond it have squares that are no longer floats."""

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Contours, as fractions of each density's maximum."""

_STATES = ("start", "after updating q({location})", "after updating q({scale})", "at convergence")


@styled
def coordinate_ascent(
    comparison: Comparison, *, precision: bool = True, theme: Theme = LIGHT
) -> Figure:
    """Draw the textbook picture: contours of the posterior and of q in four states.

    Parameters
    ----------
    comparison : Comparison
        Of a model of one normal distribution.
    precision : bool
        Whether the second axis is lambda = 1/sigma2, as in the textbooks, or sigma2 itself.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        For another model.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, figure 10.4; MacKay (2003), Information
    Theory, Inference, and Learning Algorithms, figure 33.4.
    """
    location, scale = _one_normal(comparison)
    first = _outset(comparison)
    states = [first.states[0], first.states[1], first.states[2], first.states[-1]]
    mean_axis, second_axis = _axes_values(comparison, location, scale, precision, states)
    x, z = np.meshgrid(mean_axis, second_axis)
    sigma2, log_jacobian = (1 / z, -2 * np.log(z)) if precision else (z, 0.0)
    exact: Any = comparison.exact
    target = exact.logpdf(x, sigma2) + log_jacobian
    figure, axes = panels(4, 2, 2.3, theme, sharex=True, sharey=True)
    for axis, state, title in zip(axes, states, _STATES, strict=True):
        log_q = state.factors[location].logpdf(x) + state.factors[scale].logpdf(sigma2)
        plain_ticks(axis.yaxis)  # no power of ten above the axis, where the title is
        _contours(axis, x, z, target, theme.ink, "-")
        _contours(axis, x, z, log_q + log_jacobian, theme.alarm, "--")
        axis.set_title(
            f"{title.format(location=location, scale=scale)}\nELBO {float(state.elbo):.3f}"
        )
        axis.label_outer()
    figure.supylabel(f"lambda = 1 / {scale}" if precision else scale, fontsize=9)
    for axis in axes[2:]:
        axis.set_xlabel(location)
    axes[0].plot([], [], color=theme.ink, label="posterior")
    axes[0].plot([], [], color=theme.alarm, linestyle="--", label="q")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    alt = (
        f"Contours of the exact posterior and of the mean-field q in four states; the ELBO rises "
        f"from {float(states[0].elbo):.3f} to {float(states[-1].elbo):.3f}, the log evidence is "
        f"{exact.log_evidence:.3f}."
    )
    return finish(figure, alt, f"log evidence {exact.log_evidence:.3f}")


@styled
def method_marginals(comparison: Comparison, *, theme: Theme = LIGHT) -> Figure:
    """Overlay the marginal densities of each parameter by all methods."""
    shown = shown_elements(comparison)
    columns = min(3, len(shown))
    figure, axes = panels(len(shown), columns, 1.75, theme)
    is_cut = False
    colours = _colours(comparison, theme)
    for axis, name in zip(axes, shown, strict=True):
        logarithmic = _on_log_axis(comparison, name)
        low, high = _reach(comparison, name, logarithmic)
        top, highest = 0.0, 0.0
        for method, result in comparison.results.items():
            grid, density = _density(comparison, method, name, (low, high), logarithmic)
            if grid is None:
                continue
            is_thick = method in ("exact", comparison.reference)
            width = 2.2 if is_thick else 1.1
            axis.plot(grid, density, color=colours[method], linewidth=width, label=_name(result))
            # A method that is far too sure of itself must not flatten the others.
            top = max(top, float(density.max()) * HIGHEST_PEAK) if is_thick else top
            highest = max(highest, float(density.max()))
        if logarithmic:
            _logarithmic(axis)
        axis.set_xlim(low, high)
        axis.set_ylim(0, min(top, 1.05 * highest) or None)
        is_cut = is_cut or highest > top
        axis.set_yticks([])
        log = " (log axis)" if logarithmic else ""
        axis.set_xlabel(fitted(name, panel_width(columns) - text_width(log)) + log)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3)
    notes = [_left_out(comparison), "Peaks above the axes are cut off." if is_cut else ""]
    alt = f"Marginal densities of {', '.join(map(str, shown))} by {len(labels)} methods."
    return finish(figure, alt, " ".join(filter(None, notes)))


@styled
def elbo_trace(comparison: Comparison, *, theme: Theme = LIGHT) -> Figure:
    """Draw the ELBO after each sweep below its upper bound, the log evidence."""
    if comparison.vb is None:
        raise ConfigError(
            f"{comparison.program.name} has no closed-form VB, so there is no ELBO to draw"
        )
    trace = np.asarray(_outset(comparison).elbo_trace)
    evidence = comparison.results["exact"].log_evidence
    figure, (axis, gaps) = panels(2, 2, 2.2, theme)
    axis.plot(trace, color=theme.model, marker="o", markersize=3.5, label="ELBO")
    axis.axhline(evidence, color=theme.ink, linewidth=1, linestyle="--", label="log evidence")
    axis.set_ylabel("nats")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    gaps.plot(evidence - trace, color=theme.model, marker="o", markersize=3.5)
    gaps.set_yscale("log")
    plain_ticks(gaps.yaxis)
    gaps.set_title("log evidence − ELBO")
    for each in (axis, gaps):
        each.set_xlabel("sweep")
        each.xaxis.get_major_locator().set_params(integer=True)
    gap = evidence - float(trace[-1])
    alt = (
        f"The ELBO rises from {trace[0]:.3f} to {trace[-1]:.3f} in {len(trace) - 1} sweeps; the "
        f"log evidence is {evidence:.3f}, so KL(q ‖ posterior) is {gap:.4f}."
    )
    return finish(figure, alt, f"KL(q ‖ posterior) = {gap:.4f} nats at convergence")


@styled
def interval_forest(comparison: Comparison, *, theme: Theme = LIGHT) -> Figure:
    """Draw the median and the interval of each parameter by each method."""
    shown = shown_elements(comparison)
    columns = min(3, len(shown))
    figure, axes = panels(len(shown), columns, 1.75, theme, sharey=True)
    methods = list(comparison.results)
    colours = _colours(comparison, theme)
    rows, is_beyond = np.arange(len(methods)), False
    tints = [colours[method] for method in methods]
    reference = comparison.results["exact" if "exact" in methods else comparison.reference]
    for axis, name in zip(axes, shown, strict=True):
        found = [comparison.results[method].quantities.loc[name] for method in methods]
        median, low, high = np.transpose([values.iloc[:3] for values in found])
        axis.hlines(rows, low, high, colors=tints, linewidth=2)
        is_log = _on_log_axis(comparison, name)
        left, right = _reach(comparison, name, is_log)
        is_beyond = is_beyond or bool(((median < left) | (median > right)).any())
        for row, (x, tint) in enumerate(zip(median, tints, strict=True)):
            marker = "<" if x < left else ">" if x > right else "o"
            axis.scatter(np.clip(x, left, right), row, s=16, c=tint, marker=marker, zorder=3)
        for position in reference.quantities.loc[name].iloc[:3]:
            axis.axvline(position, color=theme.muted, linewidth=0.6, linestyle=":")
        axis.set_xlim(left, right)
        if is_log:
            _logarithmic(axis)
        axis.set_xlabel(fitted(name, panel_width(columns) - 0.3))
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(rows, [METHOD_NAMES[method] for method in methods])
    axes[0].invert_yaxis()
    beyond = "An arrow is a median beyond the axis." if is_beyond else ""
    notes = [_left_out(comparison), beyond]
    interval = percent(comparison.nuts.interval)
    alt = f"Medians and {interval} intervals of {', '.join(shown)} by {len(methods)} methods."
    return finish(figure, alt, " ".join(filter(None, notes)))


def shown_elements(comparison: Comparison) -> list[str]:
    """Return the elements that figures, and the report's table, have room for: scalars first."""
    return sorted(comparison.elements, key=lambda name: "[" in name)[:MOST_PANELS]


def _left_out(comparison: Comparison) -> str:
    num, total = len(shown_elements(comparison)), len(comparison.elements)
    return f"{num} of {total} parameters are shown." if num < total else ""


def comparison_figures(comparison: Comparison, suffix: str = "png") -> dict[str, Figure]:
    """Return every figure that applies to a comparison, by file name."""
    figures = {
        f"marginals.{suffix}": method_marginals(comparison),
        f"intervals.{suffix}": interval_forest(comparison),
    }
    if comparison.vb is not None:
        figures[f"elbo.{suffix}"] = elbo_trace(comparison)
    if _is_one_normal(comparison):
        figures[f"ascent_precision.{suffix}"] = coordinate_ascent(comparison)
        figures[f"ascent_variance.{suffix}"] = coordinate_ascent(comparison, precision=False)
    return figures


def _is_one_normal(comparison: Comparison) -> bool:
    return comparison.vb_from_afar is not None


def _one_normal(comparison: Comparison) -> tuple[str, str]:
    """Return the names of the mean and the variance of a model of one normal distribution."""
    if not _is_one_normal(comparison):
        raise ConfigError(
            f"{comparison.program.name}: the four panels need a model of one normal distribution"
        )
    location, scale = map(str, comparison.nuts.posterior)
    return location, scale


def _on_log_axis(comparison: Comparison, name: str) -> bool:
    """Whether a parameter is declared for a logarithmic axis, and can be drawn on one."""
    lowest, _ = _ends(comparison, name)
    return bool(comparison.program.log_axis(name)) and lowest > 0


def _outset(comparison: Comparison) -> Any:
    """Return the fit whose states are drawn: from far away, so that there is something to see."""
    return comparison.vb_from_afar if comparison.vb_from_afar is not None else comparison.vb


def _axes_values(
    comparison: Comparison, location: str, scale: str, precision: bool, states: list[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return grids that hold the posterior and every state's q."""
    exact: Any = comparison.exact
    tail = [0.003, 0.997]
    means = np.concatenate(
        [exact.quantile(location, tail), *(s.factors[location].quantile(tail) for s in states[2:])]
    )
    high = 0.985 if not precision else 0.997
    spread = [0.003 if not precision else 0.015, high]
    begin = [state.factors for state in states[:2]]
    means = np.concatenate([means, *(q[location].quantile([0.1, 0.9]) for q in begin)])
    sources = [exact.quantile(scale, spread)]
    sources += [q[scale].quantile(np.array([0.15, 0.85])) for q in begin]
    sources += [s.factors[scale].quantile(np.array(spread)) for s in states[2:]]
    second = np.concatenate(sources)
    second = 1 / second if precision else second
    return (
        np.linspace(means.min(), means.max(), 161),
        np.linspace(max(second.min() * 0.2, 1e-12), second.max(), 161),
    )


def _contours(axis: Any, x: Any, z: Any, log_density: Any, colour: str, linestyle: str) -> None:
    relative = np.exp(log_density - np.max(log_density))
    axis.contour(
        x, z, relative, levels=LEVELS, colors=[colour], linestyles=linestyle, linewidths=0.9
    )


def _logarithmic(axis: Any) -> None:
    """Scale the x axis by logarithms, with enough ticks to read it."""
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    # Ticks within a decade help where there are few decades, and run into each other elsewhere.
    subs = (1, 2, 5) if high < MOST_RATIO * low else (1,)
    axis.xaxis.set_major_locator(LogLocator(subs=subs, numticks=5))
    plain_ticks(axis.xaxis)


def _name(result: Any) -> str:
    return METHOD_NAMES[result.method]


def _colours(comparison: Comparison, theme: Theme) -> dict[str, str]:
    """Black for the truth, one colour for each other method, the same in every figure."""
    others = [method for method in METHOD_NAMES if method not in ("exact", "independent")]
    palette = dict(zip(others, theme.chains, strict=True))
    palette["independent"] = palette["nuts"]  # there is one of the two
    return {method: palette.get(method, theme.ink) for method in comparison.results}


def _ends(comparison: Comparison, name: str) -> tuple[float, float]:
    """Return the lowest and the highest end of the methods' intervals."""
    ends = np.array([r.quantities.loc[name].iloc[1:3] for r in comparison.results.values()])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _reach(comparison: Comparison, name: str, logarithmic: bool) -> tuple[float, float]:
    """Return an axis that holds the interval of the truth with room to spare."""
    truth = comparison.results["exact" if "exact" in comparison.results else comparison.reference]
    low, high = map(float, truth.quantities.loc[name].iloc[1:3])
    if logarithmic:
        return low / 2.5, high * 2.5
    margin = 0.7 * (high - low) or 1.0
    return low - margin, high + margin


def _density(
    comparison: Comparison,
    method: str,
    name: str,
    reach: tuple[float, float],
    logarithmic: bool,
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return a method's marginal density, of the logarithm on a logarithmic axis."""
    grid = np.geomspace(*reach, 301) if logarithmic else np.linspace(*reach, 301)
    jacobian = grid if logarithmic else 1.0
    result = comparison.results[method]
    parameter, position = comparison.position(name)
    if result.draws is not None:
        draws = element_of(result.draws[parameter], position)
        return grid, _kernel_density(np.log(draws) if logarithmic else draws, grid, logarithmic)
    if method == "vb":
        factor: Any = comparison.vb[parameter] if comparison.vb is not None else None
        x = grid.reshape(-1, *([1] * np.ndim(factor.mean)))
        density = np.exp(factor.logpdf(x))[(slice(None), *position)]
        return grid, density * jacobian
    exact: Any = comparison.exact
    points, density = exact.marginal(parameter)
    points, density = points[position], density[position]
    return grid, np.interp(grid, points, density, left=0, right=0) * jacobian


def _kernel_density(
    draws: NDArray[np.float64], grid: NDArray[np.float64], logarithmic: bool
) -> NDArray[np.float64]:
    # Draws that far apart have no density to show.
    if np.ptp(draws) == 0 or np.abs(draws).max() > LARGEST:
        return np.zeros_like(grid)
    return kernel_density(draws, np.log(grid) if logarithmic else grid)
