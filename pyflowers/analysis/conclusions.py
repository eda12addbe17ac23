"""What a reader takes from a posterior, from weighted draws: mean, sd, quantiles, P(> 0)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyflowers.display import INTERVAL, interval_quantiles

FloatArray = NDArray[np.float64]

Z_90 = 1.6448536269514722


def names_of(interval: float = INTERVAL) -> list[str]:
    """Return the conclusions of each quantity, in the order of their columns."""
    return [*interval_quantiles(interval), "mean", "sd", "P(> 0)"]


def conclusions(
    ascending: FloatArray, weights: FloatArray, interval: float = INTERVAL
) -> FloatArray:
    """Return the conclusions of each quantity from its weighted draws.

    Parameters
    ----------
    ascending : array, shape (S, E)
        Draws of E quantities in ascending order.
    weights : array, shape (S, E)
        Their weights in the same order; those of a quantity sum to 1.
    interval : float
        Probability of the central interval.

    Returns
    -------
    array, shape (E, 6)
        As :func:`names_of` says. A quantile interpolates between draws, each at the middle of its
        own weight on the scale of probability: Hazen's, where weights are equal.
    """
    mean = (weights * ascending).sum(axis=0)
    sd = np.sqrt((weights * (ascending - mean) ** 2).sum(axis=0))
    middle = np.cumsum(weights, axis=0) - weights / 2
    probs = list(interval_quantiles(interval).values())
    quantiles = np.stack(
        [np.interp(probs, p, x) for p, x in zip(middle.T, ascending.T, strict=True)]
    )
    positive = (weights * (ascending > 0)).sum(axis=0)
    return np.column_stack([quantiles, mean, sd, np.minimum(positive, 1.0)])


def scale_of(ascending: FloatArray) -> FloatArray:
    """Return the sd of a normal distribution with the same 90% interval, shape (E,).

    A posterior without a variance has it, too.
    """
    equal = np.full(ascending.shape, 1 / len(ascending))
    _, low, high = conclusions(ascending, equal, 0.9)[:, :3].T
    return np.asarray((high - low) / (2 * Z_90))
