"""How good draws are: effective sample size for what they cost, and agreement with a reference.

Two estimates agree if they differ by no more than :data:`STANDARD_ERRORS` combined Monte Carlo
standard errors,

    |a − b| ≤ 5 √(MCSE(a)² + MCSE(b)²),

for the mean, the sd and three quantiles. MCSE is that of Vehtari et al. [1]_; an exact value has
none. It means something only where the chains mix: see :func:`mixes`.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2),
   sections 4.2 to 4.4.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.fits.diagnostics import ESS_PER_CHAIN_AT_LEAST, R_HAT_AT_MOST
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, finish, new_figure, styled
from pyflowers.samplers import Kernel, Run, run

STANDARD_ERRORS = 5.0
QUANTILES = (0.05, 0.5, 0.95)

FloatArray = NDArray[np.float64]
Draws = Mapping[str, FloatArray]
"""Draws of each scalar quantity by name, shaped (chain, draw)."""

Statistics = dict[str, tuple[float, float]]
"""Mean, sd and quantiles by name, each with its Monte Carlo standard error."""


class Efficiency(NamedTuple):
    """The value and the cost of draws.

    Attributes
    ----------
    sampler : str
    acceptance : float
        Mean acceptance rate; for NUTS, of its acceptance statistic.
    num_draws : int
        Over all chains.
    ess : float
        Bulk effective sample size, of the quantity that has least.
    evaluations : int
        Of the gradient, or of the log density by samplers without one, after warm-up.
    seconds : float
        Of one core, after warm-up.
    """

    sampler: str
    acceptance: float
    num_draws: int
    ess: float
    evaluations: int
    seconds: float

    @property
    def per_evaluations(self) -> float:
        """Effective draws per 1,000 evaluations."""
        return 1000 * self.ess / self.evaluations

    @property
    def per_second(self) -> float:
        """Effective draws per second."""
        return self.ess / self.seconds

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        return {
            "sampler": self.sampler,
            "acceptance": self.acceptance,
            "draws": self.num_draws,
            "ESS": self.ess,
            "evaluations": self.evaluations,
            "ESS per 1,000 evaluations": self.per_evaluations,
            "ESS per second": self.per_second,
        }


class Discrepancy(NamedTuple):
    """One statistic of one quantity beside its reference, and z, how many MCSEs they differ by."""

    quantity: str
    statistic: str
    value: float
    reference: float
    z: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within :data:`STANDARD_ERRORS`."""
        return abs(self.z) <= STANDARD_ERRORS


def timed_run(
    kernel: Kernel, rng: np.random.Generator, start: FloatArray, num_draws: int, warmup: int
) -> tuple[Run, float]:
    """Run chains and return them with the seconds that the kept draws took."""
    state = run(kernel, rng, start, 1, max(warmup - 1, 0)).state
    started = time.perf_counter()
    result = run(kernel, rng, state.position, num_draws)
    return result, time.perf_counter() - started


def efficiency(
    sampler: str, result: Run, draws: Draws, evaluations: int, seconds: float
) -> Efficiency:
    """Return what a run cost, judged by some quantities of it.

    `evaluations` are those of one transition of one chain.
    """
    num_draws = result.draws.shape[0] * result.draws.shape[1]
    acceptance = float(result.sample_stats["acceptance_rate"].mean())
    total = evaluations * num_draws
    return Efficiency(sampler, acceptance, num_draws, smallest_ess(draws), total, seconds)


def most_efficient(costs: Iterable[Efficiency]) -> tuple[str, str]:
    """Name the most efficient sampler per evaluation, and per second, each without a full stop."""
    by_evaluations = max(costs, key=lambda cost: cost.ess / cost.evaluations)
    by_second = max(costs, key=lambda cost: cost.per_second)
    return (
        f"Most effective draws per evaluation: {by_evaluations.sampler}, "
        f"{by_evaluations.per_evaluations:.0f} per 1,000",
        f"Most per second of one core: {by_second.sampler}, {by_second.per_second:,.0f}",
    )


def ess(draws: FloatArray) -> float:
    """Return the bulk effective sample size of draws shaped (chain, draw)."""
    return float(convergence.ess_bulk(np.asarray(draws)[..., None])[0])


def r_hat(draws: FloatArray) -> float:
    """Return the rank-normalised split R-hat of draws shaped (chain, draw)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(convergence.r_hat(np.asarray(draws)[..., None])[0])


def smallest_ess(draws: Draws) -> float:
    """Return the bulk ESS of the quantity with the smallest."""
    return min(map(ess, draws.values()))


def largest_r_hat(draws: Draws) -> float:
    """Return the largest R-hat; not a number counts as the largest."""
    values = [r_hat(values) for values in draws.values()]
    return math.inf if any(map(math.isnan, values)) else max(values)


def mixes(draws: Draws) -> bool:
    """Whether R-hat and bulk ESS are what :mod:`pyflowers.fits.diagnostics` asks for."""
    num_chains = len(next(iter(draws.values())))
    enough = smallest_ess(draws) >= ESS_PER_CHAIN_AT_LEAST * num_chains
    return largest_r_hat(draws) <= R_HAT_AT_MOST and enough


def statistics(draws: FloatArray, moments: bool = True) -> Statistics:
    """Return the statistics of draws shaped (chain, draw).

    `moments` is false where mean and sd do not exist, or exist in theory only.
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
    """Return the statistics of a distribution that is known, without Monte Carlo error."""
    moments = {"mean": (float(mean), 0.0), "sd": (float(sd), 0.0)}
    return moments | {f"{p:.0%}": (float(quantile(p)), 0.0) for p in QUANTILES}


def compare(quantity: str, estimates: Statistics, reference: Statistics) -> list[Discrepancy]:
    """Set each statistic beside its reference."""
    comparisons = []
    for name, (value, error) in estimates.items():
        known, known_error = reference[name]
        z = (value - known) / math.hypot(error, known_error)
        comparisons.append(Discrepancy(quantity, name, value, known, z))
    return comparisons


def compare_draws(
    draws: Draws, reference: Draws, heavy_tailed: Sequence[str] = ()
) -> list[Discrepancy]:
    """Compare each quantity of `draws` with that of `reference`, by quantiles if heavy-tailed."""
    comparisons = []
    for name, values in draws.items():
        moments = name not in heavy_tailed
        known = statistics(reference[name], moments)
        comparisons += compare(name, statistics(values, moments), known)
    return comparisons


def worst(comparisons: Iterable[Discrepancy]) -> Discrepancy:
    """Return the comparison with the largest |z|; not a number is the largest."""
    return max(comparisons, key=lambda each: math.inf if math.isnan(each.z) else abs(each.z))


def agreement(comparisons: Sequence[Discrepancy], what: str) -> str:
    """Say in one sentence whether all comparisons agree."""
    far = worst(comparisons)
    verdict = "agree" if far.agrees else "DISAGREE"
    return (
        f"{what} {verdict} in {len(comparisons)} statistics: the largest difference is "
        f"{abs(far.z):.1f} Monte Carlo standard errors ({far.statistic} of {far.quantity}: "
        f"{far.value:.3g} and {far.reference:.3g}); up to {STANDARD_ERRORS:g} is agreement."
    )


@styled
def efficiency_figure(costs: Sequence[Efficiency]) -> StyledFigure:
    """Draw effective draws per 1,000 evaluations and per second, a bar a sampler."""
    figure = new_figure(1.2 + 0.34 * len(costs), LIGHT)
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, values, title in (
        (left, [cost.per_evaluations for cost in costs], "per 1,000 evaluations"),
        (right, [cost.per_second for cost in costs], "per second of one core"),
    ):
        colours = [LIGHT.chains[i % len(LIGHT.chains)] for i in range(len(costs))]
        ax.barh([cost.sampler for cost in costs], values, color=colours, height=0.6)
        for row, value in enumerate(values):
            short = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
            where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            ax.annotate(short, (value, row), **where)
        ax.set(xlim=(0, 1.25 * max(values)), title=title)
        ax.grid(False)
        ax.locator_params(axis="x", nbins=4)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    left.invert_yaxis()
    figure.suptitle("Effective draws", x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    best = max(costs, key=lambda cost: cost.per_evaluations).sampler
    return finish(figure, f"Bars of efficiency by sampler; {best} leads per evaluation.")


def draw_traces(ax: Axes, draws: FloatArray, num: int, first: int = 1, width: float = 0.5) -> None:
    """Draw the first draws of each chain, shaped (chain, draw), numbered from `first`."""
    for chain, values in enumerate(draws[:, :num]):
        colour = LIGHT.chains[chain % len(LIGHT.chains)]
        ax.plot(np.arange(first, len(values) + first), values, lw=width, color=colour)
    ax.set_xlim(first, min(num, draws.shape[1]))
