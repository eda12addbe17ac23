"""Poisson counts of large groups, drawn by how often each value occurs.

Of T independent counts of one rate the numbers that are 0, 1, 2, … have a multinomial distribution,
and their order is uniform. A multinomial draw costs a binomial one for each value, and an order a
few nanoseconds for each count: half of what T Poisson draws cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST_RATE = 1e18
"""Above it a count is its rate: no integer holds it, and the two differ by one part in 10⁹."""

_LARGEST_TABLED = 50.0
_NUM_VALUES = 170
"""Values that a count of a tabled rate may have: the probability of a larger one is below 1e-40."""

_FEWEST_ROWS = 4 * _NUM_VALUES
"""Rows of a group from which on the table of its probabilities is cheap beside its counts."""


def draw_counts(
    rate: NDArray[np.float64], groups: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw Poisson counts of rows in groups.

    Parameters
    ----------
    rate : array, shape (…, P)
        The rate of each group.
    groups : array of int, shape (N,)
        Position of each row's group.
    rng : Generator
        Makes the draws.

    Returns
    -------
    array, shape (…, N)
    """
    num_rows, rest = divmod(groups.size, rate.shape[-1])
    if rest or num_rows < _FEWEST_ROWS or not _in_blocks(groups, rate.shape[-1], num_rows):
        return _one_by_one(rate[..., groups], rng)
    flat = rate.reshape(-1)
    counts = np.empty((flat.size, num_rows))
    tabled = flat <= _LARGEST_TABLED
    counts[tabled] = _by_value(flat[tabled], num_rows, rng)
    others = np.broadcast_to(flat[~tabled, None], (int((~tabled).sum()), num_rows))
    counts[~tabled] = _one_by_one(others, rng)
    return counts.reshape(*rate.shape[:-1], groups.size)


def _in_blocks(groups: NDArray[np.int64], num_groups: int, num_rows: int) -> bool:
    """Whether rows are those of the first group, then of the second, equally many of each."""
    blocks = groups.reshape(num_groups, num_rows)
    return bool((blocks == np.arange(num_groups)[:, None]).all())


def _by_value(
    rate: NDArray[np.float64], num_rows: int, rng: np.random.Generator
) -> NDArray[np.int16]:
    """Return counts, shape (group, row), of small rates."""
    from scipy.special import gammaln, xlogy

    values = np.arange(_NUM_VALUES)
    probability = np.exp(xlogy(values, rate[:, None]) - rate[:, None] - gammaln(values + 1))
    probability /= probability.sum(axis=1, keepdims=True)
    times = rng.multinomial(num_rows, probability)
    every = np.tile(values.astype(np.int16), rate.size)
    sorted_counts = np.repeat(every, times.ravel()).reshape(rate.size, num_rows)
    return rng.permuted(sorted_counts, axis=1)


def _one_by_one(rate: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    if rate.max(initial=0) <= LARGEST_RATE:
        return rng.poisson(rate).astype(np.float64)
    counts = rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(np.float64)
    return np.where(rate > LARGEST_RATE, rate, counts)
