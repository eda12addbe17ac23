"""Quality of draws: effective sample size per unit cost, and agreement with a reference.

Two estimates agree if they differ by no more than :data:`STANDARD_ERRORS` combined Monte Carlo
standard errors,

    |a − b| ≤ 5 √(MCSE(a)² + MCSE(b)²),

for the mean, the sd and three quantiles. The MCSEs of means and quantiles follow Vehtari et al.
([1]_, equations 5 and 20), the MCSE of an sd follows from the delta method, and the MCSE of an
exact value is 0. MCSE is meaningful only if the chains mix; see :func:`mixes`.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.engines.approximate import Approximation, approximate
from pyflowers.fits.diagnostics import ESS_PER_CHAIN_AT_LEAST, R_HAT_AT_MOST
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import fit
from pyflowers.lectures.lecture import Row, Settings
from pyflowers.lectures.samplers.kernels import Kernel, run
from pyflowers.plots import style
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, finish, panels, styled
from pyflowers.progress import logger
from pyflowers.resources import program_path
from pyflowers.toolchain import compile_program, find_cmdstan

STANDARD_ERRORS = 5.0
QUANTILES = (0.05, 0.5, 0.95)

FloatArray = NDArray[np.float64]
Draws = Mapping[str, FloatArray]
"""Draws of each scalar quantity by name, shaped (chain, draw)."""

Statistics = dict[str, tuple[float, float]]
"""Mean, sd and quantiles by name, each with its Monte Carlo standard error."""


class Discrepancy(NamedTuple):
    """One statistic of one quantity, its reference, and z, their difference in combined MCSEs."""

    quantity: str
    statistic: str
    value: float
    reference: float
    z: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within :data:`STANDARD_ERRORS`."""
        return abs(self.z) <= STANDARD_ERRORS


def nuts(
    program: str, data: Mapping[str, Any], settings: Settings, *, title: str = "", **options: Any
) -> Fit:
    """Fit the shipped program of that name with Stan's NUTS; `options` are passed to the fit.

    If a title is given, progress is shown: a line in the log and, on a terminal, progress bars.
    """
    if title:
        logger.info("%s", title)
    shown = bool(title) and sys.stderr.isatty() and sys.stdout.isatty()
    options |= {"seed": settings.seed, "cmdstan": settings.cmdstan, "show_progress": shown}
    return fit(program_path(program), data, **options)


OF_ADVI = "cmdstan"
"""The engine of NUTS in examples that also use ADVI, which needs CmdStan.

With a fixed engine, the draws do not depend on which executables already exist.
"""


def advi(program: str, data: Mapping[str, Any], settings: Settings) -> Approximation:
    """Approximate a program's posterior by mean-field ADVI."""
    executable = compile_program(program_path(program), cmdstan=find_cmdstan(settings.cmdstan))
    return approximate(executable, data, "advi_meanfield", seed=settings.seed)


def efficiency(
    sampler: str, draws: Draws, acceptance: float, evaluations: int, seconds: float
) -> Row:
    """Return the efficiency and the cost of draws, as a row of a table.

    Parameters
    ----------
    sampler : str
        The name of the sampler.
    draws : Draws
        Draws of each quantity. The row reports the smallest bulk ESS among them.
    acceptance : float
        Mean acceptance rate; for NUTS, the mean acceptance statistic.
    evaluations : int
        Number of evaluations of the gradient after warm-up, or of the log density if the sampler
        uses no gradient.
    seconds : float
        Time on one core after warm-up, in seconds.
    """
    least = smallest_ess(draws)
    return {
        "sampler": sampler,
        "acceptance": acceptance,
        "draws": next(iter(draws.values())).size,
        "ESS": least,
        "evaluations": evaluations,
        "ESS per 1,000 evaluations": 1000 * least / evaluations,
        "ESS per second": least / seconds,
    }


def timed_run(
    kernel: Kernel,
    evaluations: int,
    rng: np.random.Generator,
    start: FloatArray,
    num_draws: int,
    warmup: int,
) -> tuple[FloatArray, tuple[float, int, float]]:
    """Run chains; return the draws and their cost, as arguments of :func:`efficiency`.

    `evaluations` is the number of evaluations per transition of one chain.
    """
    state = run(kernel, rng, start, 1, max(warmup - 1, 0)).state
    started = time.perf_counter()
    result = run(kernel, rng, state.position, num_draws)
    seconds = time.perf_counter() - started
    rates = result.sample_stats["acceptance_rate"]
    return result.draws, (float(rates.mean()), evaluations * rates.size, seconds)


def nuts_cost(fit: Fit) -> tuple[float, int, float]:
    """Return the cost of a fit's draws, over all chains, as arguments of :func:`efficiency`."""
    seconds = float(sum(chain["sampling"] for chain in fit.record.times.chains))
    acceptance, gradients = fit.stats["accept_stat__"].mean(), fit.stats["n_leapfrog__"].sum()
    return float(acceptance), int(gradients), seconds


def most_efficient(costs: Sequence[Row]) -> tuple[str, str]:
    """Return sentences, without full stops, on the best sampler per evaluation and per second."""
    first, second = (
        max(costs, key=lambda row: float(row[column]))
        for column in ("ESS per 1,000 evaluations", "ESS per second")
    )
    return (
        f"Most effective draws per evaluation: {first['sampler']}, "
        f"{first['ESS per 1,000 evaluations']:.0f} per 1,000",
        f"Most effective draws per second of one core: {second['sampler']}, "
        f"{second['ESS per second']:,.0f}",
    )


def ess(draws: FloatArray) -> float:
    """Return the bulk effective sample size of draws shaped (chain, draw)."""
    return float(convergence.ess_bulk(np.asarray(draws)[..., None])[0])


def r_hat(draws: FloatArray) -> float:
    """Return the rank-normalised split R-hat of draws shaped (chain, draw)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(convergence.r_hat(np.asarray(draws)[..., None])[0])


def smallest_ess(draws: Draws) -> float:
    """Return the smallest bulk ESS of all quantities."""
    return min(map(ess, draws.values()))


def largest_r_hat(draws: Draws) -> float:
    """Return the largest R-hat; NaN counts as infinity."""
    values = [r_hat(values) for values in draws.values()]
    return math.inf if any(map(math.isnan, values)) else max(values)


def mixes(draws: Draws) -> bool:
    """Whether R-hat and bulk ESS meet the thresholds of :mod:`pyflowers.fits.diagnostics`."""
    num_chains = len(next(iter(draws.values())))
    enough = smallest_ess(draws) >= ESS_PER_CHAIN_AT_LEAST * num_chains
    return largest_r_hat(draws) <= R_HAT_AT_MOST and enough


def statistics(draws: FloatArray, moments: bool = True) -> Statistics:
    """Return the statistics of draws shaped (chain, draw).

    `moments` must be false if the mean and sd do not exist or cannot be estimated from draws.
    """
    values = np.asarray(draws)
    stacked = values[..., None]
    found = {}
    if moments:
        found["mean"] = (float(values.mean()), float(convergence.mcse_mean(stacked)[0]))
        found["sd"] = (float(values.std(ddof=1)), float(convergence.mcse_sd(stacked)[0]))
    for p in QUANTILES:
        error = float(convergence.mcse_quantile(stacked, p)[0])
        found[f"{p:.0%}"] = (float(np.quantile(values, p)), error)
    return found


def exact_statistics(mean: float, sd: float, quantile: Callable[[float], float]) -> Statistics:
    """Return the statistics of a known distribution, without Monte Carlo error."""
    moments = {"mean": (float(mean), 0.0), "sd": (float(sd), 0.0)}
    return moments | {f"{p:.0%}": (float(quantile(p)), 0.0) for p in QUANTILES}


def compare(quantity: str, estimates: Statistics, reference: Statistics) -> list[Discrepancy]:
    """Compare each statistic with its reference."""
    comparisons = []
    for name, (value, error) in estimates.items():
        known, known_error = reference[name]
        z = (value - known) / math.hypot(error, known_error)
        comparisons.append(Discrepancy(quantity, name, value, known, z))
    return comparisons


def compare_draws(
    draws: Draws, reference: Mapping[str, Statistics], heavy_tailed: Sequence[str] = ()
) -> list[Discrepancy]:
    """Compare each quantity with its reference; compare only quantiles if it is heavy-tailed."""
    comparisons = []
    for name, values in draws.items():
        comparisons += compare(name, statistics(values, name not in heavy_tailed), reference[name])
    return comparisons


def worst(comparisons: Iterable[Discrepancy]) -> Discrepancy:
    """Return the comparison with the largest |z|; NaN counts as the largest."""
    return max(comparisons, key=lambda each: math.inf if math.isnan(each.z) else abs(each.z))


def agreement(comparisons: Sequence[Discrepancy], what: str) -> str:
    """Return one sentence on whether all comparisons agree."""
    far = worst(comparisons)
    num, num_far = len(comparisons), sum(not each.agrees for each in comparisons)
    verdict = f"DISAGREE in {num_far} of" if num_far else "agree in"
    return (
        f"{what} {verdict} {num} statistics: the largest difference is "
        f"{abs(far.z):.1f} Monte Carlo standard errors ({far.statistic} of {far.quantity}: "
        f"{far.value:.3g} and {far.reference:.3g}); up to {STANDARD_ERRORS:g} counts as agreement."
    )


@styled
def panel_figure(
    shown: Mapping[str, Any],
    draw: Callable[[Axes, Any], object],
    height: float,
    alt: str,
    note: str = "",
    *,
    columns: int | None = None,
    labels: tuple[str, str] = ("", ""),
    legend: str = "",
    share: str = "",
) -> StyledFigure:
    """Draw a panel for each item, titled by its key, in rows of `columns` panels or in one row.

    `labels` are the labels of the x axis, below the last row, and of the y axis, on the left.
    `legend` is the position of a legend above all panels, which shows the artists of the first
    panel. `share` names the axes that all panels share: x, y or both.
    """
    columns = columns or len(shown)
    shared = {"sharex": "x" in share, "sharey": "y" in share}
    figure, axes = panels(len(shown), columns, height, LIGHT, **shared)
    for ax, (title, one) in zip(axes, shown.items(), strict=True):
        ax.set_title(title)
        draw(ax, one)
    for ax in axes[-columns:]:
        ax.set_xlabel(labels[0])
    for ax in axes[::columns]:
        ax.set_ylabel(labels[1])
    if legend:
        style.legend(figure, axes[0].get_legend_handles_labels()[0], legend)
    return finish(figure, alt, note)


@styled
def efficiency_figure(costs: Sequence[Row]) -> StyledFigure:
    """Plot effective draws per 1,000 evaluations and per second, with one bar per sampler."""
    names = [str(row["sampler"]) for row in costs]

    def bars(ax: Axes, column: str) -> None:
        values = [row[column] for row in costs]
        colours = [LIGHT.chains[i % len(LIGHT.chains)] for i in range(len(costs))]
        ax.barh(names, values, color=colours, height=0.6)
        for row, value in enumerate(values):
            short = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
            where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            ax.annotate(short, (value, row), **where)
        ax.set(xlim=(0, 1.25 * max(values)))
        ax.grid(False)
        ax.locator_params(axis="x", nbins=4)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

    columns = {
        "per 1,000 evaluations": "ESS per 1,000 evaluations",
        "per second of one core": "ESS per second",
    }
    best = max(costs, key=lambda row: float(row["ESS per 1,000 evaluations"]))["sampler"]
    alt = f"Bars of efficiency by sampler; {best} is the most efficient per evaluation."
    figure = panel_figure(columns, bars, 0.65 + 0.34 * len(costs), alt, share="y")
    figure.axes[0].invert_yaxis()
    figure.suptitle("Effective draws", x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    return figure


def draw_traces(ax: Axes, draws: FloatArray, num: int, first: int = 1, width: float = 0.5) -> None:
    """Draw the first `num` draws of each chain, shaped (chain, draw), numbered from `first`."""
    for chain, values in enumerate(draws[:, :num]):
        colour = LIGHT.chains[chain % len(LIGHT.chains)]
        ax.plot(np.arange(first, len(values) + first), values, lw=width, color=colour)
    ax.set_xlim(first, min(num, draws.shape[1]))


def draw_histogram(
    ax: Axes, draws: FloatArray, grid: FloatArray, density: FloatArray, bins: int = 60
) -> None:
    """Draw a histogram, and over it an exact density on a grid.

    The histogram is normalised by the total number of draws, including those outside the grid.
    """
    counts, edges = np.histogram(draws.ravel(), bins=bins, range=(grid[0], grid[-1]))
    ax.stairs(counts / (draws.size * np.diff(edges)), edges, fill=True, color=LIGHT.chains[4])
    ax.plot(grid, density, color=LIGHT.ink, lw=1.3)
    ax.set_xlim(grid[0], grid[-1])
    ax.set_ylim(bottom=0)
