"""Sorted draws: quantiles, and the normal scores of ranks, of many elements at once.

Every function takes an array shaped (element, draw), or one sorted along its last axis, and works
on all elements in a few NumPy calls.

References
----------
.. [1] Hyndman and Fan (1996), Sample quantiles in statistical packages, The American Statistician
   50(4), definition 7.
.. [2] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2),
   eq. 14.
.. [3] Blom (1958), Statistical Estimates and Transformed Beta-Variables, Wiley.
.. [4] Wichura (1988), Algorithm AS 241: the percentage points of the normal distribution, Applied
   Statistics 37(3), PPND16; the standard library's ``NormalDist.inv_cdf``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# Beyond, too few bits are left for most numbers to differ in.
_LARGEST_PACKED = 2**16


def sort_with_order(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the sorted values, and the position of each in the flattened array.

    NumPy sorts numbers several times as fast as it finds the order that sorts them. So the last
    bits of each number are replaced by its position, the numbers are sorted, and their last bits
    give the order. Numbers that differ only in those bits may come out in the wrong order, which
    is detected and corrected.

    Parameters
    ----------
    values : array, shape (element, draw)

    Returns
    -------
    ascending : array, shape (element, draw)
        Sorted along its rows, NaN last.
    order : array of int, shape (element, draw)
        ``values.ravel()[order]`` is ``ascending``.
    """
    flat = values.ravel()
    num_elements, num_draws = values.shape
    begins = num_draws * np.arange(num_elements)[:, None]
    if num_draws > _LARGEST_PACKED:
        order = np.argsort(values, axis=-1) + begins
        return flat[order], order
    mask = (1 << (num_draws - 1).bit_length()) - 1
    keys = values.view(np.int64) & ~mask
    keys |= np.arange(num_draws)
    packed = keys.view(np.float64)
    packed.sort(axis=-1)
    # A place written into an infinity makes it NaN, and NumPy may sort any NaN for another.
    wrong = np.isnan(packed[:, -1])
    keys &= mask
    keys += begins
    ascending = flat[keys]
    # Swapping two neighbours is nearly always enough; where it is not, a fall remains.
    falls = np.flatnonzero(ascending[:, 1:] < ascending[:, :-1])
    element, place = np.divmod(falls, num_draws - 1)
    for array in (keys, ascending):
        array[element, place], array[element, place + 1] = (
            array[element, place + 1],
            array[element, place],
        )
    wrong[element] |= ~(ascending[element, 1:] >= ascending[element, :-1]).all(axis=-1)
    keys[wrong] = np.argsort(values[wrong], axis=-1) + begins[wrong]
    ascending[wrong] = flat[keys[wrong]]
    return ascending, keys


def sorted_quantile(ascending: FloatArray, prob: float) -> FloatArray:
    """Return one quantile of each element, interpolated as :func:`numpy.quantile` does [1]_.

    Parameters
    ----------
    ascending : array, shape (element, draw)
        Sorted draws.
    prob : float
        Between 0 and 1.

    Returns
    -------
    array, shape (element,)
        Equal to ``numpy.quantile`` to the last bit; NaN where a draw is NaN.
    """
    last = ascending.shape[-1] - 1
    position = last * prob
    lower = int(position)
    upper = min(lower + 1, last)
    weight = position - lower
    below, above = ascending[:, lower], ascending[:, upper]
    step = above - below
    # From the nearer end, so that the result never passes either.
    value = below + step * weight if weight < 0.5 else above - step * (1 - weight)
    return np.where(np.isnan(ascending[:, -1]), np.nan, value)


def threshold(ascending: FloatArray, prob: float) -> FloatArray:
    """Return the quantile below which draws count as the tail, as ArviZ interpolates it.

    The same quantile as :func:`sorted_quantile` but for rounding. Rounding decides whether the
    draws that are equal to it are in the tail, so among ties it decides the effective sample size.

    Parameters
    ----------
    ascending : array, shape (element, draw)
        Sorted draws, two or more.
    prob : float
        Between 0 and 1.

    Returns
    -------
    array, shape (element,)
    """
    num_draws = ascending.shape[-1]
    position = num_draws * prob + (1 - prob)
    rank = int(min(max(position, 1), num_draws - 1))
    weight = min(max(position - rank, 0), 1)
    value: FloatArray = (1 - weight) * ascending[:, rank - 1] + weight * ascending[:, rank]
    return value


def median(ascending: FloatArray) -> FloatArray:
    """Return the median of sorted draws: the mean of the middle two, or the middle one."""
    num_draws = ascending.shape[-1]
    below, above = ascending[:, (num_draws - 1) // 2], ascending[:, num_draws // 2]
    return below if num_draws % 2 else (below + above) / 2


def normal_scores(ascending: FloatArray) -> FloatArray:
    """Return the normal scores of the average ranks of sorted draws [2]_.

    z = Φ⁻¹((rank - 3/8) / (S + 1/4)) with S draws [3]_; tied draws share their mean rank.

    Parameters
    ----------
    ascending : array, shape (element, draw)
        Sorted draws.

    Returns
    -------
    array, shape (element, draw)
        The score of each sorted draw.
    """
    num_draws = ascending.shape[-1]
    table = _score_table(num_draws)
    scores = np.empty(ascending.shape)
    scores[:] = table[::2]
    follows = np.zeros(ascending.shape, dtype=bool)
    np.equal(ascending[:, 1:], ascending[:, :-1], out=follows[:, 1:])
    if not follows.any():
        return scores
    precedes = np.zeros_like(follows)
    precedes[:, :-1] = follows[:, 1:]
    first = np.flatnonzero(precedes & ~follows)
    last = np.flatnonzero(follows & ~precedes)
    # Counting from 0, twice the mean rank of a run is the sum of its ends.
    shared = table[first % num_draws + last % num_draws]
    scores[follows | precedes] = np.repeat(shared, last - first + 1)
    return scores


@lru_cache(maxsize=4)
def _score_table(num_draws: int) -> FloatArray:
    """Return the scores of the ranks 1, 1.5, 2, … up to the number of draws [4]_."""
    from statistics import NormalDist

    inverse = NormalDist().inv_cdf
    ranks = np.arange(2, num_draws + 2) / 2
    lower = np.array([inverse(p) for p in ((ranks - 3 / 8) / (num_draws + 1 / 4)).tolist()])
    table = np.concatenate([lower, -lower[-2::-1]])
    table.flags.writeable = False
    return table
