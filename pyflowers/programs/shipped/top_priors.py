"""The priors that the shipped programs share: N(m, s²) and scaled-inv-χ²(nu, scale²).

References
----------
Gelman et al., Bayesian Data Analysis, 3rd ed., table A.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def top_draws(
    prior: Sequence[float], num_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw a mean from N(m, s²) and a variance from scaled-inv-χ²(nu, scale²), each (1, num_draws).

    Parameters
    ----------
    prior : sequence of float
        m, s, nu and scale.
    num_draws : int
        How many.
    rng : Generator
        Random numbers.
    """
    mean, sd, nu, scale = map(float, prior)
    return rng.normal(mean, sd, (1, num_draws)), draw_variance(nu, scale, (1, num_draws), rng)


def draw_variance(
    nu: float, scale: float, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw from scaled-inv-χ²(nu, scale²): nu scale² / χ²(nu)."""
    # With few degrees of freedom a χ² may underflow to 0: its variance is beyond all numbers.
    with np.errstate(divide="ignore"):
        return nu * scale**2 / rng.chisquare(nu, shape)


def priors_on_scale(names: Sequence[str], center: float, spread: float) -> dict[str, float]:
    """Return m, s and scale of priors on a scale, rounded, since they are meant to be wide.

    Two and a half times the spread for a mean, as rstanarm's and Bambi's default priors have it.

    Parameters
    ----------
    names : sequence of str
        What the program calls m, s, nu and scale.
    center, spread : float
        Where the values are and by how much they differ.
    """
    spread = spread if spread > 0 else max(abs(center), 1.0)
    digits = -math.floor(math.log10(spread))
    wide = 2.5 * spread
    return {
        names[0]: round(center, digits),
        names[1]: round(wide, -math.floor(math.log10(wide))),
        names[3]: round(spread, digits),
    }


def top_density(mean: FloatArray, variance: FloatArray, prior: Sequence[float]) -> FloatArray:
    """Return the log density of both, m, s, nu and scale given."""
    m, s, nu, scale = map(float, prior)
    normal = -0.5 * math.log(2 * math.pi) - math.log(s) - 0.5 * ((mean - m) / s) ** 2
    return np.asarray(normal + variance_density(variance, nu, scale))


def variance_density(variance: FloatArray, nu: float, scale: float) -> FloatArray:
    """Return log scaled-inv-χ²(variance | nu, scale²)."""
    half = nu / 2
    kernel = -(half + 1) * np.log(variance) - half * scale**2 / variance
    return np.asarray(variance_constant(nu, scale) + kernel)


def variance_constant(nu: float, scale: float) -> float:
    """Return the constant of scaled-inv-χ²(nu, scale²), log of (nu/2)^(nu/2) scale^nu / Γ(nu/2)."""
    half = nu / 2
    return half * math.log(half) + nu * math.log(scale) - math.lgamma(half)
