"""Poisson counts: their factorials, and draws of one count or of many with the same rate."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LARGEST_LOG_RATE = 345.0
"""The largest log of a rate for which the square of a count is finite."""

LARGEST_RATE = 1e18
"""Above this limit, the rate is used as the count, because a count may be too large for an integer.

At this limit, the relative difference between the rate and a count is about 1e-9.
"""

FEWEST_ROWS = 680
"""The fewest rows with the same rate for which tabulating probabilities is cheaper than drawing
each count: four for each tabulated value."""

_NUM_VALUES = 170
_LARGEST_TABLED = 50.0
"""The number of tabulated values of a count, and the largest rate for which a larger count has a
probability below 1e-39."""


def rate(eta: FloatArray) -> FloatArray:
    """Return exp(eta), limited where squares of counts would be infinite."""
    return np.asarray(np.exp(np.minimum(eta, LARGEST_LOG_RATE)))


def log_factorials(y: FloatArray) -> FloatArray:
    """Return log y! of counts, computed once per distinct count, without importing SciPy.

    It is infinite for a number below 0, so that the probability of this number is 0.
    """
    counts, where = np.unique(y, return_inverse=True)
    found = np.full(counts.size, np.inf)
    for i in np.flatnonzero(~(counts < 0)):
        found[i] = math.lgamma(counts[i] + 1)
    return np.asarray(found[where].reshape(np.shape(y)))


def draw_counts(rates: FloatArray, rng: Generator) -> FloatArray:
    """Draw Poisson counts."""
    counts = rng.poisson(np.minimum(rates, LARGEST_RATE)).astype(np.float64)
    return np.asarray(np.where(rates > LARGEST_RATE, rates, counts))


def draw_poisson(eta: FloatArray, rng: Generator) -> FloatArray:
    """Draw from Poisson(exp(eta)); equal blocks of rows with one rate each are drawn together."""
    num = _rows_of_blocks(eta)
    rates = rate(eta[..., :: num or 1])
    if not num:
        return draw_counts(rates, rng)
    counts = np.empty((*rates.shape, num))
    tabled = rates <= _LARGEST_TABLED
    counts[tabled] = _tabled(rates[tabled], num, rng)
    others = rates[~tabled, None]
    counts[~tabled] = draw_counts(np.broadcast_to(others, (len(others), num)), rng)
    return counts.reshape(eta.shape)


def _rows_of_blocks(eta: FloatArray) -> int:
    """Return the size of the blocks if rows with the same eta form equal blocks; otherwise 0."""
    first = eta[(0,) * (eta.ndim - 1)]
    changes = np.flatnonzero(first[1:] != first[:-1])
    num = int(changes[0]) + 1 if changes.size else first.size
    if num < FEWEST_ROWS or first.size % num:
        return 0
    blocks = eta.reshape(*eta.shape[:-1], -1, num)
    return num if (blocks == blocks[..., :1]).all() else 0


def _tabled(rates: FloatArray, num: int, rng: Generator) -> NDArray[np.int16]:
    """Return `num` counts for each of several small rates, shape (rate, num)."""
    from scipy.special import gammaln, xlogy

    values = np.arange(_NUM_VALUES)
    probability = np.exp(xlogy(values, rates[:, None]) - rates[:, None] - gammaln(values + 1))
    probability /= probability.sum(axis=1, keepdims=True)
    times = rng.multinomial(num, probability)
    every = np.tile(values.astype(np.int16), rates.size)
    sorted_counts = np.repeat(every, times.ravel()).reshape(rates.size, num)
    return rng.permuted(sorted_counts, axis=1)
