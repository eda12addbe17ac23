"""Responses with a hurdle: y is 0 with a given probability, and above 0 otherwise.

References
----------
Mullahy (1986), Specification and testing of some modified count data models, Journal of
Econometrics 33(3), equations 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def log_lik(
    y: FloatArray, zero: FloatArray, above: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return log p(y).

    Parameters
    ----------
    y : array, shape (N,)
        The responses.
    zero : array
        The probability of 0.
    above : callable
        Function that returns the log density of responses above 0.
    """
    # Where y is 0, a response of 0.5 or 1 takes its place, and its density is not used.
    stand_in = 0.5 if (y < 1).all() else 1.0
    with np.errstate(divide="ignore"):
        return np.where(y == 0, np.log(zero), np.log1p(-zero) + above(np.where(y > 0, y, stand_in)))


def draw(above: FloatArray, zero: FloatArray, rng: Generator) -> FloatArray:
    """Replace each response by 0 with the given probability."""
    return np.where(rng.random(above.shape) < zero, 0.0, above)


def moments(
    above: tuple[FloatArray, FloatArray], zero: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance, from the moments of the responses above 0."""
    mean, variance = above
    return (1 - zero) * mean, (1 - zero) * (variance + zero * mean**2)


def moments_above_zero(
    counts: tuple[FloatArray, FloatArray], log_none: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of the counts above 0, from the moments of all counts.

    Parameters
    ----------
    counts : pair of arrays
        Mean and variance of the counts.
    log_none : array
        The log probability of a count of 0.
    """
    mean, variance = counts
    some = -np.expm1(log_none)
    # With a mean near 0, every count above 0 is 1.
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = mean / some, (variance + mean**2) / some
    first = np.where(some > 1e-12, first, 1.0)
    second = np.where(some > 1e-12, second, 1.0)
    return first, np.maximum(second - first**2, 0.0)
