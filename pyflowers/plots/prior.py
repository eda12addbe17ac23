"""Prior against posterior: what the data changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fitting import Fit
from pyflowers.plots.choice import Element, choose
from pyflowers.plots.style import (
    LIGHT,
    Axes,
    StyledFigure,
    Theme,
    finish,
    label,
    panels,
    plain_ticks,
    styled,
)
from pyflowers.plots.units import unit

Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]

MOST_PANELS = 6
GRID = 400


_NORMAL = {"mu": [("mu_mean", "mu_sd")], "theta": [("mu0", "tau0")]}
_INV_CHI2 = {
    "sigma2": [("sigma2_nu", "sigma2_scale"), ("nu0", "sigma0")],
    "sigma2_plant": [("sigma2_plant_nu", "sigma2_plant_scale")],
}
"""Hyperparameters of each parameter that has a prior of its own, as the models name them."""


@dataclass(frozen=True)
class PriorOf:
    """The prior of a parameter.

    Attributes
    ----------
    text : str
        As a formula with its numbers, such as ``N(0, 100²)``.
    density : callable, optional
        Its density; None when it is flat, and has none.
    sd : float
        Standard deviation, or NaN where there is none.
    """

    text: str
    density: Density | None
    sd: float


def prior_of(parameter: str, priors: Mapping[str, float]) -> PriorOf | None:
    """Return a parameter's prior with its numbers as used.

    Parameters
    ----------
    parameter : str
        With or without an element. The plant means have their prior from mu and sigma2 and so
        none of their own: None.
    priors : mapping
        Hyperparameters, as resolved.
    """
    name = parameter.partition("[")[0]
    for mean, sd in _NORMAL.get(name, ()):
        if mean in priors:
            return _normal_prior(priors[mean], priors[sd])
    for nu, scale in _INV_CHI2.get(name, ()):
        if nu in priors:
            return _inv_chi2_prior(priors[nu], priors[scale])
    return None


def _normal_prior(mean: float, sd: float) -> PriorOf:
    return PriorOf(f"N({mean:g}, {sd:g}²)", lambda x: _normal(x, mean, sd), sd)


def _inv_chi2_prior(nu: float, scale: float) -> PriorOf:
    if nu <= 0:
        return PriorOf("flat on (0, ∞)", None, float("nan"))
    sd = nu * scale**2 / (nu - 2) * np.sqrt(2 / (nu - 4)) if nu > 4 else float("nan")
    text = f"scaled-inv-χ²({nu:g}, {scale:g}²)"
    return PriorOf(text, lambda x: _scaled_inv_chi2(x, nu, scale), float(sd))


@styled
def prior_posterior(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw prior and posterior densities of the parameters that have a prior of their own.

    Variances are drawn on a logarithmic axis, as densities of their logarithm. An axis spans the
    posterior; a prior that looks flat there is wide against it.

    Parameters
    ----------
    fit : Fit
        Of one of the models here.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        For a program of the user's own, whose priors are not known.
    """
    priors = fit.record["priors"]
    names = [v for v in fit.posterior.data_vars if prior_of(str(v), priors)]
    if not names:
        raise ConfigError(f"plots: {fit.name} is your own program, whose priors are not known")
    chosen = choose(fit.posterior, MOST_PANELS, [str(name) for name in names])
    figure, axes = panels(len(chosen.shown), 2, 1.75, theme)
    said = []
    for ax, element in zip(axes, chosen.shown, strict=True):
        prior = prior_of(element.name, priors)
        assert prior is not None  # names are those that have one
        _panel(ax, element, prior, theme)
        ax.set_title(label(element.name), pad=3)
        ax.set_xlabel(unit(fit, element.name), fontsize=8)
        said.append(_compare(element, prior))
    _legend(figure, theme)
    alt = f"Prior and posterior densities of {fit.name}. {' '.join(said)}"
    return finish(figure, alt, chosen.note)


def _panel(ax: Axes, element: Element, prior: PriorOf, theme: Theme) -> None:
    is_variance = element.name.startswith("sigma2")
    values = np.log(element.draws.ravel()) if is_variance else element.draws.ravel()
    low, high = np.quantile(values, (0.002, 0.998))
    margin = (0.6 if is_variance else 0.25) * (high - low) or 1.0
    grid = np.linspace(low - margin, high + margin, GRID)
    x = np.exp(grid) if is_variance else grid
    posterior = _kernel_density(values, grid)
    ax.fill_between(x, posterior, color=theme.model, alpha=0.35, lw=0)
    ax.plot(x, posterior, color=theme.model)
    if prior.density is not None:
        believed = prior.density(x) * (x if is_variance else 1.0)  # |d sigma2 / d log sigma2|
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
    if is_variance:
        ax.set_xscale("log")
        ax.xaxis.get_major_locator().set_params(numticks=6)
        plain_ticks(ax.xaxis)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(0, max(posterior.max(), min(believed.max(), 1.2 * posterior.max())) * 1.25)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _kernel_density(values: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaussian kernels with Silverman's robust bandwidth, on binned draws."""
    iqr = float(np.subtract(*np.quantile(values, (0.75, 0.25)))) / 1.349
    spread = min(s for s in (float(values.std()), iqr, np.inf) if s > 0)
    width = 0.9 * (spread if np.isfinite(spread) else 1.0) * values.size**-0.2
    edges = np.linspace(grid[0], grid[-1], 4 * GRID + 1)
    count, _ = np.histogram(values, edges)
    middle = (edges[1:] + edges[:-1]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - middle[None, :]) / width) ** 2)
    return np.asarray(kernel @ count / (values.size * width * np.sqrt(2 * np.pi)))


def _normal(x: NDArray[np.float64], mean: float, sd: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)))


def _scaled_inv_chi2(x: NDArray[np.float64], nu: float, scale: float) -> NDArray[np.float64]:
    """Density of scaled-inv-χ²(nu, scale²), BDA3 table A.1."""
    from scipy.stats import invgamma

    return np.asarray(invgamma.pdf(x, nu / 2, scale=nu * scale**2 / 2))


def _compare(element: Element, prior: PriorOf) -> str:
    low, high = np.quantile(element.draws, (0.05, 0.95))
    said = f"{element.name}: prior {prior.text}, posterior 90% between {low:.3g} and {high:.3g}"
    sd = float(element.draws.std())
    if np.isfinite(prior.sd) and sd > 0 and not element.name.startswith("sigma2"):
        said += f", {prior.sd / sd:.3g} times as narrow as the prior"
    return f"{said}."


def _legend(figure: StyledFigure, theme: Theme) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=theme.model, lw=3, alpha=0.6, label="posterior"),
        Line2D([], [], color=theme.prior, ls=(0, (4, 2)), label="prior"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2)
