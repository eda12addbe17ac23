"""Traceplots and rank plots, which show whether the chains mix and agree.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2),
section 4.1 for rank plots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.plots.choice import Choice, Element, choose
from pyflowers.plots.order import average_ranks, binomial_interval
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
    title_with_unit,
)
from pyflowers.plots.units import unit

MOST_PANELS = 8
MOST_VECTOR_POINTS = 60_000
"""Points up to which a trace is drawn as lines; beyond, as an image, which stays small."""

RANK_BINS = 20


@styled
def trace_first_chain(fit: Fit, parameter: str | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw the traceplot of one parameter in the first chain.

    Parameters
    ----------
    fit : Fit
        What to draw.
    parameter : str, optional
        Such as ``mu_plant[2]``; the first by default, which is ``mu`` in the models here.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the fit has no such parameter, or none at all.
    """
    chosen = choose(fit, 1, None if parameter is None else [parameter])
    element = _some(chosen)[0]
    figure, (axes,) = panels(1, 1, 2.1, theme)
    draws = element.draws[0]
    axes.plot(np.arange(1, draws.size + 1), draws, lw=0.6, color=theme.model)
    axes.axhline(float(np.median(draws)), color=theme.ink, lw=0.8, ls="--")
    axes.set(xlabel=_step(fit), xlim=(1, max(draws.size, 2)))
    _scale_y(axes, element)
    title_with_unit(axes, f"{element.name}, first chain", unit(fit, element.name), theme)
    alt = (
        f"Traceplot of {element.name} in the first chain of {fit.name}: {draws.size} draws around "
        f"a median of {np.median(draws):.3g}."
    )
    return finish(figure, alt)


@styled
def trace(fit: Fit, parameters: Sequence[str] | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw the traceplots of all chains, a panel for each parameter.

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
        If the fit has no such parameter.
    """
    chosen = choose(fit, MOST_PANELS, parameters)
    shown = _some(chosen)
    figure, axes = panels(len(shown), 1, 1.02, theme, sharex=True)
    dense = sum(element.draws.size for element in shown) > MOST_VECTOR_POINTS
    for ax, element in zip(axes, shown, strict=True):
        steps = np.arange(1, element.draws.shape[1] + 1)
        for i, draws in enumerate(element.draws):
            colour = theme.chains[i % len(theme.chains)]
            ax.plot(steps, draws, lw=0.45, alpha=0.85, color=colour, rasterized=dense)
        title_with_unit(ax, element.name, unit(fit, element.name), theme)
        ax.set_xlim(1, max(steps.size, 2))
        _scale_y(ax, element)
    axes[-1].set_xlabel(_step(fit))
    _chain_legend(figure, len(shown[0].draws), theme)
    return finish(figure, _trace_alt(fit, shown), chosen.note)


@styled
def ranks(fit: Fit, parameters: Sequence[str] | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw how often each chain's draws take each rank among all draws.

    Chains that explore the same distribution have flat histograms. The grey band holds 99% of the
    bars of independent draws; autocorrelation widens what is to be expected.

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
        If the fit has no such parameter.
    """
    chosen = choose(fit, MOST_PANELS, parameters)
    shown = _some(chosen)
    figure, axes = panels(len(shown), 2, 1.35, theme, sharex=True)
    num_chains, num_draws = shown[0].draws.shape
    num_bins = max(2, min(RANK_BINS, num_draws // 5))
    low, high = binomial_interval(0.99, num_draws, 1 / num_bins)
    worst = 0.0
    for ax, element in zip(axes, shown, strict=True):
        counts = _rank_counts(element.draws, num_bins)
        worst = max(worst, float(np.mean((counts < low) | (counts > high))))
        edges = np.linspace(0, element.draws.size, num_bins + 1)
        ax.fill_between(edges[[0, -1]], low, high, color=theme.grid, lw=0)
        for i, count in enumerate(counts):
            colour = theme.chains[i % len(theme.chains)]
            ax.stairs(count, edges, baseline=None, color=colour, lw=1.1, alpha=0.9)
        ax.set_title(fitted(element.name, panel_width(2), size=9.5, bold=True), pad=2)
        ax.set_ylim(0, max(counts.max(), high) * 1.08)
        ax.grid(False)
        ax.margins(x=0)
        ax.locator_params(nbins=4)
    for ax in axes[-2:] if len(axes) > 1 else axes:
        ax.set_xlabel("rank among all draws")
        ax.tick_params(labelbottom=True)
    figure.supylabel("draws of a chain", fontsize=9)
    _chain_legend(figure, num_chains, theme)
    alt = (
        f"Rank plots of {len(shown)} parameters of {fit.name}, {num_chains} chains: at most "
        f"{worst:.0%} of a parameter's bars lie outside the band that holds 99% of those of "
        "independent draws."
    )
    return finish(figure, alt, chosen.note)


def _step(fit: Fit) -> str:
    """Return what is counted along a traceplot: without a Markov chain there is no warm-up."""
    return "draw after warm-up" if fit.record.independent is None else "draw"


def _scale_y(ax: Axes, element: Element) -> None:
    """Give a heavy-tailed parameter a logarithmic axis, and any a few ticks."""
    if element.is_heavy:
        ax.set_yscale("log")
        ax.yaxis.get_major_locator().set_params(numticks=5)
        plain_ticks(ax.yaxis)
    else:
        ax.locator_params(axis="y", nbins=4)


def _rank_counts(draws: np.ndarray, num_bins: int) -> np.ndarray:
    """Count each chain's ranks among all draws in equal bins, shape (chain, bin)."""
    rank = average_ranks(draws)
    position = np.minimum(((rank - 0.5) * num_bins / draws.size).astype(int), num_bins - 1)
    return np.stack([np.bincount(row, minlength=num_bins) for row in position])


def _some(choice: Choice) -> tuple[Element, ...]:
    if not choice.shown:
        raise ConfigError("plots: the fit has no parameters to plot; fit a program that has some")
    return choice.shown


def _chain_legend(figure: StyledFigure, num_chains: int, theme: Theme) -> None:
    """Name the chains once, above all panels; past the palette colours repeat and names stop."""
    from matplotlib.lines import Line2D

    if num_chains == 1 or num_chains > len(theme.chains):
        return
    handles = [
        Line2D([], [], color=theme.chains[i], lw=2, label=f"chain {i + 1}")
        for i in range(num_chains)
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=num_chains, handlelength=1.2)


def _trace_alt(fit: Fit, shown: Sequence[Element]) -> str:
    num_chains, num_draws = shown[0].draws.shape
    apart = max(
        float(np.ptp(np.median(element.draws, axis=1)) / (np.std(element.draws) or 1))
        for element in shown
    )
    names = ", ".join(element.name for element in shown)
    return (
        f"Traceplots of {names} of {fit.name}, {num_chains} chains of {num_draws} draws: the "
        f"chains' medians lie at most {apart:.2f} posterior standard deviations apart."
    )
