"""Columns of tables that summarise draws: quantiles with their errors, and joint intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.display import interval_quantiles


def number_columns(draws: NDArray[np.float64], interval: float) -> dict[str, Any]:
    """Return the median, intervals, MCSEs and bulk ESS of draws, shape (chain, draw, value)."""
    probs = interval_quantiles(0.5, interval)
    found = convergence.statistics(draws, list(probs.values()))
    return {
        **{name: found[name] for name in probs},
        **{
            f"mcse_{name}".removesuffix("_median"): convergence.mcse_quantile(draws, prob)
            for name, prob in interval_quantiles(interval).items()
        },
        "ess_bulk": found["ess_bulk"],
    }


def joint_columns(draws: NDArray[np.float64], interval: float) -> dict[str, Any]:
    """Return the ends of intervals that contain all values at once with probability `interval`.

    With r the rank of a value among its n draws, a draw is t-central if max(r, n + 1 - r) <= t for
    each of its values. Each interval extends from order statistic n + 1 - t to order statistic t,
    with the smallest t for which the share of t-central draws is at least `interval` (Besag, Green,
    Higdon and Mengersen 1995, Bayesian computation and stochastic systems, Statistical Science
    10(1), section 6.3).
    """
    values = np.sort(flat_draws := draws.reshape(-1, draws.shape[-1]), axis=0)
    num = len(values)
    ranks = np.argsort(np.argsort(flat_draws, axis=0, kind="stable"), axis=0) + 1
    extreme = np.sort(np.maximum(ranks, num + 1 - ranks).max(axis=1))
    t = extreme[int(np.ceil(round(interval * num, 9))) - 1]
    return {"joint low": values[num - t], "joint high": values[t - 1]}
