"""What a reader takes from a posterior, from weighted draws: mean, sd, quantiles, P(> 0)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

QUANTILES = {"5%": 0.05, "median": 0.5, "95%": 0.95}

CONCLUSIONS = ("mean", "sd", *QUANTILES, "P(> 0)")
"""The conclusions of each quantity, in the order of their columns."""

LOCATIONS = ("mean", *QUANTILES)
"""Those that are measured in units of the quantity itself."""

Z_90 = 1.6448536269514722


def conclusions(ascending: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the conclusions of each quantity from its weighted draws.

    Parameters
    ----------
    ascending : array, shape (S, E)
        Draws of E quantities in ascending order.
    weights : array, shape (S, E)
        Their weights in the same order; those of a quantity sum to 1.

    Returns
    -------
    array, shape (E, 6)
        As :data:`CONCLUSIONS`. A quantile interpolates between draws, each at the middle of its
        own weight on the scale of probability: Hazen's, where weights are equal.
    """
    mean = (weights * ascending).sum(axis=0)
    sd = np.sqrt((weights * (ascending - mean) ** 2).sum(axis=0))
    middle = np.cumsum(weights, axis=0) - weights / 2
    probs = list(QUANTILES.values())
    quantiles = np.stack(
        [np.interp(probs, p, x) for p, x in zip(middle.T, ascending.T, strict=True)]
    )
    positive = (weights * (ascending > 0)).sum(axis=0)
    return np.column_stack([mean, sd, quantiles, np.minimum(positive, 1.0)])


def scale_of(found: FloatArray) -> FloatArray:
    """Return the sd of a normal distribution with the same 90% interval, shape (E,).

    A posterior without a variance has it, too.
    """
    low, high = (found[:, CONCLUSIONS.index(name)] for name in ("5%", "95%"))
    return np.asarray((high - low) / (2 * Z_90))
