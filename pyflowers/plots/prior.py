"""Prior against posterior: what the data changed."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from pyflowers.display import interval_quantiles, percent
from pyflowers.fits.fit import Fit
from pyflowers.plots.choice import Element, choose
from pyflowers.plots.density import GRID, kernel_density
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
from pyflowers.plots.units import unit
from pyflowers.programs import Capability
from pyflowers.programs.densities import PriorDensity

MOST_PANELS = 6


@styled
def prior_posterior(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw prior and posterior densities of the parameters that have a prior of their own.

    On a logarithmic axis, as variances have, densities are those of the logarithm. An axis spans
    the posterior; a prior that looks flat there is wide against it.

    Parameters
    ----------
    fit : Fit
        Of a program that declares the prior of a parameter.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the program declares none.
    """
    fit.program.require(Capability.PRIOR_DENSITY)
    priors = {
        name: prior
        for name in map(str, fit.posterior)
        if (prior := fit.program.prior_of(name, fit.data.values)) is not None
    }
    chosen = choose(fit, MOST_PANELS, list(priors))
    figure, axes = panels(len(chosen.shown), 2, 1.75, theme)
    room = panel_width(2)
    sentences = []
    for ax, element in zip(axes, chosen.shown, strict=True):
        prior = priors[element.name.partition("[")[0]]
        on_log_axis = _on_log_axis(fit, element)
        _panel(ax, element, prior, on_log_axis, theme)
        ax.set_title(fitted(element.name, room, size=9.5, bold=True), pad=3)
        ax.set_xlabel(fitted(unit(fit, element.name), room, size=8), fontsize=8)
        sentences.append(_compare(element, prior, on_log_axis, fit.interval))
    _legend(figure, theme)
    alt = f"Prior and posterior densities of {fit.name}. {' '.join(sentences)}"
    return finish(figure, alt, chosen.note)


def _on_log_axis(fit: Fit, element: Element) -> bool:
    declared = fit.program.log_axis(element.name)
    return bool(element.draws.min() > 0 and (element.is_heavy if declared is None else declared))


def _panel(
    ax: Axes, element: Element, prior: PriorDensity, on_log_axis: bool, theme: Theme
) -> None:
    values = np.log(element.draws.ravel()) if on_log_axis else element.draws.ravel()
    low, high = np.quantile(values, (0.002, 0.998))
    margin = (0.6 if on_log_axis else 0.25) * (high - low) or 1.0
    left, right = low - margin, high + margin
    if not on_log_axis and values.min() > 0 and _is_positive(prior):
        left = max(left, right * 1e-6)
    grid = np.linspace(left, right, GRID)
    x = np.exp(grid) if on_log_axis else grid
    posterior = kernel_density(values, grid)
    ax.fill_between(x, posterior, color=theme.model, alpha=0.35, lw=0)
    ax.plot(x, posterior, color=theme.model)
    if prior.density is not None:
        believed = prior.density(x) * (x if on_log_axis else 1.0)  # |dx / d log x|
    else:
        # A flat prior has no scale: it is drawn through the middle of the posterior, and per unit
        # of the logarithm it grows with sigma2.
        believed = 0.5 * posterior.max() * x / np.exp(np.median(values))
    ax.plot(x, believed, color=theme.prior, ls=(0, (4, 2)))
    ax.text(
        *(0.98, 0.94, f"prior {prior.text}"),
        transform=ax.transAxes,
        ha="right",
        va="top",
        fontsize=7.5,
        color=theme.prior,
        bbox={"facecolor": theme.paper, "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
    )
    if on_log_axis:
        ax.set_xscale("log")
        ax.xaxis.get_major_locator().set_params(numticks=6)
        plain_ticks(ax.xaxis)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(0, max(posterior.max(), min(believed.max(), 1.2 * posterior.max())) * 1.25)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _is_positive(prior: PriorDensity) -> bool:
    """Whether a prior has no mass below 0, so that nothing need be drawn there."""
    return prior.density is None or not np.any(prior.density(-np.logspace(-6, 6, 25)))


def _compare(element: Element, prior: PriorDensity, on_log_axis: bool, interval: float) -> str:
    _, low, high = np.quantile(element.draws, list(interval_quantiles(interval).values()))
    inner = f"{percent(interval)} between {low:.3g} and {high:.3g}"
    sentence = f"{element.name}: prior {prior.text}, posterior {inner}"
    sd = float(element.draws.std())
    if np.isfinite(prior.sd) and sd > 0 and not on_log_axis:
        sentence += f", {prior.sd / sd:.3g} times as narrow as the prior"
    return f"{sentence}."


def _legend(figure: StyledFigure, theme: Theme) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=theme.model, lw=3, alpha=0.6, label="posterior"),
        Line2D([], [], color=theme.prior, ls=(0, (4, 2)), label="prior"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2)
