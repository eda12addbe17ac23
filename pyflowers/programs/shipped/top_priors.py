"""The priors that the shipped programs share: N(m, s²) and scaled-inv-χ²(nu, scale²).

References
----------
Gelman et al., Bayesian Data Analysis, 3rd ed., table A.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pyflowers.posterior.distributions import FloatArray, Normal, ScaledInvChiSquare, as_floats


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
    mean, sd, nu, scale = map(as_floats, prior)
    draws = rng.normal(mean, sd, (1, num_draws))
    return draws, ScaledInvChiSquare(nu, scale).sample(rng, (1, num_draws))


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
    m, s, nu, scale = map(as_floats, prior)
    return Normal(m, s).logpdf(mean) + ScaledInvChiSquare(nu, scale).logpdf(variance)
