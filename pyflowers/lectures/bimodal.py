"""Shared by the two bimodal examples: the mixture for Stan, its exact statistics, a panel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyflowers.lectures.lecture import Settings
from pyflowers.lectures.measures import FloatArray, exact_statistics
from pyflowers.lectures.stan import Nuts, nuts
from pyflowers.plots.style import LIGHT, Axes
from pyflowers.samplers import NormalMixture


def exact(target: NormalMixture) -> dict[str, tuple[float, float]]:
    """Return mean, sd and quantiles of the mixture; its quantiles by root finding."""
    from scipy.optimize import brentq

    far = 12 * float(target.sds.max())
    low, high = float(target.means.min()) - far, float(target.means.max()) + far

    def quantile(p: float) -> float:
        return float(brentq(lambda x: float(target.cdf(np.array(x))) - p, low, high))

    return exact_statistics(target.mean[0], np.sqrt(target.variance[0]), quantile)


def by_nuts(target: NormalMixture, settings: Settings, draws: int) -> Nuts:
    """Sample the mixture with Stan's NUTS, 4 chains of `draws`."""
    data = {
        "K": len(target.weights),
        "weight": target.weights,
        "location": target.means,
        "scale": target.sds,
    }
    return nuts("normal_mixture_density", data, settings, draws=draws)


def draw_histogram(
    ax: Axes, target: NormalMixture, draws: FloatArray, limits: tuple[float, float]
) -> None:
    """Draw draws as a histogram over the target's density."""
    grid = np.linspace(*limits, 400)
    kept = draws.ravel()
    counts, edges = np.histogram(kept, bins=60, range=limits)
    ax.stairs(counts / (kept.size * np.diff(edges)), edges, fill=True, color=LIGHT.chains[4])
    ax.plot(grid, np.exp(target.log_density(grid[:, None])), color=LIGHT.ink, lw=1.3)
    ax.set_xlim(*limits)
    ax.set_ylim(bottom=0)


def range_of(statistics: Mapping[str, tuple[float, float]], sds: float) -> tuple[float, float]:
    """Return the mean ± some sds, to draw in."""
    (mean, _), (sd, _) = statistics["mean"], statistics["sd"]
    return mean - sds * sd, mean + sds * sd
