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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.fits.diagnostics import ESS_PER_CHAIN_AT_LEAST, R_HAT_AT_MOST
from pyflowers.samplers import Kernel, Run, run

STANDARD_ERRORS = 5.0
QUANTILES = (0.05, 0.5, 0.95)

FloatArray = NDArray[np.float64]
Draws = Mapping[str, FloatArray]
"""Draws of each scalar quantity by name, shaped (chain, draw)."""


@dataclass(frozen=True)
class Efficiency:
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

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        return {
            "sampler": self.sampler,
            "acceptance": self.acceptance,
            "draws": self.num_draws,
            "ESS": self.ess,
            "evaluations": self.evaluations,
            "ESS per 1,000 evaluations": 1000 * self.ess / self.evaluations,
            "ESS per second": self.ess / self.seconds,
        }


@dataclass(frozen=True)
class Comparison:
    """One statistic of one quantity beside its reference.

    Attributes
    ----------
    quantity, statistic : str
    value, reference : float
    z : float
        Their difference in combined Monte Carlo standard errors.
    """

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
    kernel: Kernel[Any], rng: np.random.Generator, start: FloatArray, num_draws: int, warmup: int
) -> tuple[Run[Any], float]:
    """Run chains and return them with the seconds that the kept draws took."""
    state = run(kernel, rng, start, 1, max(warmup - 1, 0)).state
    started = time.perf_counter()
    result = run(kernel, rng, state.position, num_draws)
    return result, time.perf_counter() - started


def efficiency(
    sampler: str, result: Run[Any], draws: Draws, evaluations: int, seconds: float
) -> Efficiency:
    """Return what a run cost, judged by some quantities of it.

    Parameters
    ----------
    evaluations : int
        Of one transition of one chain.
    """
    num_draws = result.draws.shape[0] * result.draws.shape[1]
    acceptance = float(result.sample_stats["acceptance_rate"].mean())
    total = evaluations * num_draws
    return Efficiency(sampler, acceptance, num_draws, smallest_ess(draws), total, seconds)


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


def statistics(draws: FloatArray, moments: bool = True) -> dict[str, tuple[float, float]]:
    """Return mean, sd and quantiles of draws shaped (chain, draw), each with its MCSE.

    Parameters
    ----------
    moments : bool
        False where mean and sd do not exist, or exist in theory only.
    """
    values = np.asarray(draws)
    stacked = values[..., None]
    found: dict[str, tuple[float, float]] = {}
    if moments:
        found["mean"] = (float(values.mean()), float(convergence.mcse_mean(stacked)[0]))
        found["sd"] = (float(values.std(ddof=1)), float(convergence.mcse_sd(stacked)[0]))
    for p in QUANTILES:
        error = float(convergence.mcse_quantile(stacked, p)[0])
        found[f"{p:.0%}"] = (float(np.quantile(values, p)), error)
    return found


def exact_statistics(
    mean: float, sd: float, quantile: Callable[[float], float]
) -> dict[str, tuple[float, float]]:
    """Return the same of a distribution that is known, without Monte Carlo error."""
    moments = {"mean": (float(mean), 0.0), "sd": (float(sd), 0.0)}
    return moments | {f"{p:.0%}": (float(quantile(p)), 0.0) for p in QUANTILES}


def compare(
    quantity: str,
    estimates: Mapping[str, tuple[float, float]],
    reference: Mapping[str, tuple[float, float]],
) -> list[Comparison]:
    """Set the statistics that both have side by side."""
    comparisons = []
    for statistic, (value, error) in estimates.items():
        if statistic in reference:
            known, known_error = reference[statistic]
            z = (value - known) / math.hypot(error, known_error)
            comparisons.append(Comparison(quantity, statistic, value, known, z))
    return comparisons


def compare_draws(
    draws: Draws, reference: Draws, heavy_tailed: Iterable[str] = ()
) -> list[Comparison]:
    """Compare each quantity of `draws` with that of `reference`, by quantiles if heavy-tailed."""
    heavy = set(heavy_tailed)
    return [
        comparison
        for name, values in draws.items()
        for comparison in compare(
            name,
            statistics(values, name not in heavy),
            statistics(reference[name], name not in heavy),
        )
    ]


def worst(comparisons: Iterable[Comparison]) -> Comparison:
    """Return the comparison with the largest |z|; not a number is the largest."""
    return max(comparisons, key=lambda each: math.inf if math.isnan(each.z) else abs(each.z))


def agreement(comparisons: list[Comparison], what: str) -> str:
    """Say in one sentence whether all comparisons agree."""
    far = worst(comparisons)
    verdict = "agree" if far.agrees else "DISAGREE"
    return (
        f"{what} {verdict} in {len(comparisons)} statistics: the largest difference is "
        f"{abs(far.z):.1f} Monte Carlo standard errors ({far.statistic} of {far.quantity}: "
        f"{far.value:.3g} and {far.reference:.3g}); up to {STANDARD_ERRORS:g} is agreement."
    )
