"""Predictive checks: statistics of replicated data, their densities, and PITs in their band.

References
----------
Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in Bayesian workflow, JRSS A
182(2), section 5; Säilynoja, Bürkner and Vehtari (2022), Statistics and Computing 32(32), section
2.3, for the difference of distribution functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.plots.density import GRID, kernel_density
from pyflowers.plots.style import (
    LIGHT,
    Axes,
    Theme,
    finish,
    fitted,
    label,
    new_figure,
    panel_width,
    panels,
    styled,
)
from pyflowers.plots.uniformity import ecdf_difference
from pyflowers.plots.units import observed_unit
from pyflowers.programs import Capability

if TYPE_CHECKING:
    from pyflowers.analysis.checks import Check, PredictiveChecks

NUM_DENSITIES = 50
"""Replicated data sets of a density overlay."""

MOST_BARS = 30


@styled
def predictive_checks(checks: PredictiveChecks, *, theme: Theme = LIGHT) -> Figure:
    """Draw each statistic of replicated data with the observed one, and the PITs in their band.

    Parameters
    ----------
    checks : PredictiveChecks
        As :func:`pyflowers.check` returns them.
    theme : Theme
        Colours.
    """
    of_data = [check for check in checks.checks if check.replicated.size]
    figure, axes = panels(len(checks.checks), 2, 1.65, theme)
    for ax, check in zip(axes, of_data, strict=False):
        _statistic(ax, check, theme)
    if checks.pit is not None and checks.of_pits is not None:
        ecdf_difference(axes[-1], checks.pit.values, checks.pit.band, theme)
        axes[-1].set(xlabel="PIT", ylabel="ECDF − uniform")
        _title(axes[-1], checks.of_pits, theme)
    p_values = "; ".join(f"{check.name} {check.p_text}" for check in checks.checks)
    alt = (
        f"Predictive checks of {checks.fit.name}, {checks.num_replicates} replicated data sets: "
        f"{p_values}."
    )
    return finish(figure, alt)


@styled
def pit_ecdf(checks: PredictiveChecks, *, theme: Theme = LIGHT) -> Figure:
    """Draw how far the distribution of the PITs is from uniform, with its simultaneous band.

    Parameters
    ----------
    checks : PredictiveChecks
        Of a program with ``log_lik``.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the program has no ``log_lik``.
    """
    from pyflowers.analysis.pit import BAND_PROB

    checks.fit.program.require(Capability.LOG_LIK)
    assert checks.pit is not None  # a program with log_lik has them
    assert checks.of_pits is not None
    figure = new_figure(2.7, theme)
    ax = figure.subplots()
    inside = ecdf_difference(ax, checks.pit.values, checks.pit.band, theme)
    ax.set_ylabel("ECDF − uniform")
    ax.set_xlabel(f"PIT of {fitted(checks.fit.data.value_name, 2.5)} under leave-one-out")
    alt = (
        f"Distribution function of the {checks.pit.values.size} PITs of {checks.fit.name} minus "
        f"that of uniform values: it {'stays inside' if inside else 'leaves'} the {BAND_PROB:.0%} "
        f"simultaneous band ({checks.of_pits.p_text})."
    )
    return finish(figure, alt)


@styled
def density_overlay(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw the density of the observed values over those of 50 replicated data sets.

    Parameters
    ----------
    fit : Fit
        Of a program of measurements with ``y_rep``; counts have a rootogram instead, see
        :func:`pyflowers.plots.predictive`.
    theme : Theme
        Colours.

    Raises
    ------
    ConfigError
        If the program has no ``y_rep``, nothing is observed, or it describes counts.
    """
    from pyflowers.analysis.replicates import blocks, chosen_draws

    fit.program.require(Capability.Y_REP)
    fit.program.require(Capability.OBSERVED)
    if fit.program.counts:
        raise ConfigError(
            f"plots: {fit.name} describes counts, which have no density; draw the rootogram, "
            "plots.predictive"
        )
    rng = np.random.default_rng([fit.options.seed, 5])
    positions = chosen_draws(fit, NUM_DENSITIES)
    y = fit.data.y
    figure = new_figure(2.7, theme)
    ax = figure.subplots()
    low, high = np.quantile(y, (0.01, 0.99))
    margin = 0.8 * (high - low) or 1.0
    grid = np.linspace(low - margin, high + margin, GRID)
    made = blocks(fit, positions, lambda d, r: fit.program.y_rep(d, fit.data, r), rng)
    densities = [kernel_density(row, grid) for _, block in made for row in block]
    for i, density in enumerate(densities):
        name = f"{len(densities)} replicated data sets" if i == 0 else None
        ax.plot(grid, density, color=theme.model, lw=0.7, alpha=0.35, label=name)
    observed = kernel_density(y, grid)
    ax.plot(grid, observed, color=theme.data, lw=1.8, label="observed")
    ax.set(xlim=(grid[0], grid[-1]), yticks=[])
    # A replicated data set that is nearly constant has a peak that would flatten all others.
    tops = [density.max() for density in densities]
    ax.set_ylim(0, 1.1 * max(float(observed.max()), float(np.quantile(tops, 0.8))))
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(fitted(observed_unit(fit), panel_width(1)))
    figure.legend(loc="outside upper right", ncols=2)
    alt = (
        f"Density of the observed values over those of {len(densities)} data sets replicated by "
        f"{fit.name}; the observed median is {np.median(y):.3g}."
    )
    return finish(figure, alt)


def _statistic(ax: Axes, check: Check, theme: Theme) -> None:
    """Bars of the replicated statistic, a line at the observed one."""
    low, high = np.quantile(check.replicated, (0.005, 0.995))
    low, high = min(low, check.observed), max(high, check.observed)
    step = _lattice(check.replicated)
    if step:
        # A bar holds equally many of the values that are possible, and its edges lie between them.
        width = step * max(1, int(np.ceil((high - low) / step / MOST_BARS)))
        edges = np.arange(low - step / 2, high + width, width)
    else:
        edges = np.linspace(low, high if high > low else low + 1, MOST_BARS + 1)
    count, edges = np.histogram(check.replicated, edges)
    ax.stairs(count, edges, fill=True, color=theme.model, alpha=0.55)
    ax.axvline(check.observed, color=theme.data, lw=1.8)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    _title(ax, check, theme)


def _lattice(values: NDArray[np.float64]) -> float:
    """Return the step of which all differences are multiples, as of counts; 0 if there is none."""
    gaps = np.diff(np.unique(values))
    if not gaps.size:
        return 0.0
    multiples = gaps / gaps.min()
    return float(gaps.min()) if np.allclose(multiples, np.round(multiples), atol=1e-3) else 0.0


def _title(ax: Axes, check: Check, theme: Theme) -> None:
    """Name a check, and say its p-value."""
    ax.set_title(label(check.name), pad=14)
    colour = theme.muted if check.passed else theme.alarm
    small = {"fontsize": 8, "fontweight": "normal", "color": colour}
    word = "" if check.passed else ", FAILS"
    ax.text(0, 1.03, f"{check.p_text}{word}", transform=ax.transAxes, va="bottom", **small)
