"""Simultaneous bands for the empirical distribution function of a sample that should be uniform.

For N independent uniform values, C(z) = #{n : u[n] ≤ z} has the distribution Binomial(N, z) at each
point z. At each of the points z[1] < … < z[K], the band contains the counts c for which both tail
probabilities exceed a level t:

    Pr(C(z) ≤ c) > t   and   Pr(C(z) ≥ c) > t

Here t is the largest level for which C stays inside the band at all points with at least the
requested probability. This probability is computed exactly. C is a Poisson process of rate N on
(0, 1), conditional on C(1) = N. The increments of the process between points are independent, so
the mass of the paths that stay inside is propagated from point to point by a convolution, and
divided by Pr(Poisson(N) = N) at the end. All terms are positive, so there is no cancellation.

Ranks among S draws are uniform on {0, …, S} if the computation is correct. A rank r becomes the
value (r + ½) / (S + 1), and the band is evaluated at multiples of 1/(S + 1).

References
----------
.. [1] Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its
   applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and
   Computing 32(32), section 2.2: the bands, adjusted by optimisation, for one sample.
.. [2] Moscovich and Nadler (2017), Fast calculation of boundary crossing probabilities for Poisson
   processes, Statistics and Probability Letters 123: the recursion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.errors import ConfigError

MOST_POINTS = 1000
"""The largest number of points at which a band is evaluated."""

FEWEST_POINTS = 100
"""The smallest number of points at which a band is evaluated. Ranks among fewer draws have only one
point for each draw, and continuous values have one point fewer."""

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Band:
    """Limits that contain the counts of uniform values at all points with a given probability.

    Attributes
    ----------
    num_values : int
        N, the size of the sample.
    points : array, shape (K,)
        The points, in increasing order, between 0 and 1.
    lower, upper : array of int, shape (K,)
        The smallest and the largest allowed number of values up to each point.
    prob : float
        The requested probability. Because counts are integers, the actual probability of the band
        may be larger; see :func:`inside_probability`.
    level : float
        t, the pointwise tail level.
    """

    num_values: int
    points: FloatArray
    lower: IntArray
    upper: IntArray
    prob: float
    level: float

    def contains(self, values: ArrayLike) -> bool:
        """Return whether the values stay inside the band at every point.

        Parameters
        ----------
        values : array, shape (N,)
            The values, between 0 and 1; for ranks see :func:`from_ranks`.

        Raises
        ------
        ConfigError
            If the values are not N numbers between 0 and 1.
        """
        found = counts(values, self.points, self.num_values)
        return bool(np.all((found >= self.lower) & (found <= self.upper)))


def uniform_band(num_values: int, *, num_draws: int | None = None, prob: float = 0.95) -> Band:
    """Return the band for a sample of uniform values.

    Parameters
    ----------
    num_values : int
        N, at least 1.
    num_draws : int, optional
        S, the number of draws, for ranks among them; by default the values are continuous.
    prob : float
        The minimum probability that uniform values stay inside the band at all points.

    Raises
    ------
    ConfigError
        If an argument is out of range.
    """
    if not 0 < prob < 1:
        raise ConfigError(f"prob must lie between 0 and 1, got {prob!r}")
    points = band_points(num_values, num_draws)
    # At the level `low`, Bonferroni's inequality guarantees the probability `prob`. The level
    # `high` would guarantee it only for a single point.
    low, high = (1 - prob) / (2 * points.size), (1 - prob) / 2
    while log(high / low) > 1e-4:
        middle = (low * high) ** 0.5
        if inside_probability(num_values, points, *_limits(num_values, points, middle)) >= prob:
            low = middle
        else:
            high = middle
    return Band(num_values, points, *_limits(num_values, points, low), prob, low)


def p_value(values: ArrayLike, *, num_draws: int | None = None) -> float:
    """Return the probability that uniform values deviate at least as much as these at some point.

    Of the bands that these values leave, take the widest: the result is the probability that
    uniform values leave it. A band of probability `prob` thus contains the values if the result is
    above 1 − `prob`. The result is accurate far into the tail.

    Parameters
    ----------
    values : array, shape (N,)
        The values, between 0 and 1; for ranks see :func:`from_ranks`.
    num_draws : int, optional
        See :func:`uniform_band`.

    Raises
    ------
    ConfigError
        If there are no values, or some are not between 0 and 1.
    """
    from scipy.special import bdtr, bdtrc

    num = int(np.size(values))
    points = band_points(num, num_draws)
    found = counts(values, points, num)
    above = np.where(found > 0, bdtrc(np.maximum(found - 1, 0), num, points), 1.0)
    tail = float(np.minimum(bdtr(found, num, points), above).min())
    return outside_probability(num, points, *_limits(num, points, tail * (1 + 1e-9)))


def from_ranks(ranks: ArrayLike, num_draws: int) -> FloatArray:
    """Return ranks as values between 0 and 1 that lie between the points of their band.

    Parameters
    ----------
    ranks : array of int, shape (N,)
        The number of the S draws that are below each value, from 0 to S.
    num_draws : int
        S.

    Raises
    ------
    ConfigError
        If a rank is out of its range.
    """
    array = np.asarray(ranks, dtype=np.float64)
    if array.size and (array.min() < 0 or array.max() > num_draws):
        raise ConfigError(f"ranks among {num_draws} draws must lie between 0 and {num_draws}")
    return np.asarray((array + 0.5) / (num_draws + 1))


def band_points(num_values: int, num_draws: int | None = None) -> FloatArray:
    """Return the points of a band, shape (K,).

    Raises
    ------
    ConfigError
        If there are no values, or no draws.
    """
    if num_values < 1:
        raise ConfigError(f"a band needs at least one value, got {num_values}")
    if num_draws is not None and num_draws < 1:
        raise ConfigError(f"num_draws must be at least 1, got {num_draws}")
    wanted = min(max(num_values, FEWEST_POINTS), MOST_POINTS)
    if num_draws is None:
        return np.asarray(np.arange(1, wanted) / wanted)
    steps = np.unique(np.linspace(1, num_draws, min(wanted, num_draws)).round())
    return np.asarray(steps / (num_draws + 1))


def counts(values: ArrayLike, points: FloatArray, num_values: int) -> IntArray:
    """Return how many values there are up to each point.

    Raises
    ------
    ConfigError
        If the values are not `num_values` numbers between 0 and 1.
    """
    array = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if array.size != num_values:
        raise ConfigError(f"the band is for {num_values} values, but there are {array.size}")
    # NaN is sorted to the end.
    if not (array[0] >= 0 and array[-1] <= 1):
        raise ConfigError("values of a uniform distribution must lie between 0 and 1")
    return np.asarray(np.searchsorted(array, points, side="right"), dtype=np.int64)


def inside_probability(
    num_values: int, points: FloatArray, lower: IntArray, upper: IntArray
) -> float:
    """Return the probability that the counts of uniform values stay within limits at every point.

    Parameters
    ----------
    num_values : int
        N.
    points : array, shape (K,)
        The points, in increasing order, between 0 and 1.
    lower, upper : array of int, shape (K,)
        The limits of the counts, inclusive.
    """
    at, counted, mass = deque(_paths(num_values, points, lower, upper), maxlen=1).pop()
    inside = mass @ _poisson(num_values * (1 - at), num_values - counted)
    return float(inside / _poisson(num_values, num_values))


def outside_probability(
    num_values: int, points: FloatArray, lower: IntArray, upper: IntArray
) -> float:
    """Return 1 minus :func:`inside_probability`, accurately even if it is very small.

    The mass of the paths that leave the band is summed from point to point. Given m values up to
    one point, the number up to the next point is m plus a binomial number of the remaining values.
    """
    from scipy.special import bdtr, bdtrc

    outside = 0.0
    steps = zip(points, lower, upper, strict=True)
    for (at, counted, mass), (point, low, high) in zip(
        _paths(num_values, points, lower, upper), steps, strict=False
    ):
        rest, share = num_values - counted, (point - at) / (1 - at)
        above = bdtrc(high - counted, rest, share)
        under = np.maximum(low - 1 - counted, 0)
        below = np.where(low > counted, bdtr(under, rest, share), 0.0)
        outside += float((mass * (above + below)) @ _poisson(num_values * (1 - at), rest))
    return min(outside / float(_poisson(num_values, num_values)), 1.0)


def _paths(
    num_values: int, points: FloatArray, lower: IntArray, upper: IntArray
) -> Iterator[tuple[float, IntArray, FloatArray]]:
    """Yield 0 and each point, with the counts inside the limits and the mass of their paths.

    The mass belongs to the paths of a Poisson process that have stayed inside so far.
    """
    at, counted, mass = 0.0, np.zeros(1, dtype=np.int64), np.ones(1)
    yield at, counted, mass
    for point, low, high in zip(points, lower, upper, strict=True):
        first = counted[0]
        step = _poisson(num_values * (point - at), np.arange(high - first + 1))
        mass = np.convolve(mass, step)[max(low - first, 0) : high - first + 1]
        at, counted = point, max(low, first) + np.arange(mass.size)
        yield at, counted, mass
        if not mass.size:
            return


def _poisson(mean: float, k: IntArray | int) -> FloatArray:
    """Return Pr(Poisson(mean) = k)."""
    from scipy.special import gammaln

    return np.asarray(np.exp(k * log(mean) - mean - gammaln(k + 1)))


def _limits(num_values: int, points: FloatArray, level: float) -> tuple[IntArray, IntArray]:
    """Return the smallest and largest count with both tails above a level, at each point."""
    lower = _smallest(num_values, points, level)
    # Pr(C(z) ≥ c) = Pr(N − C(z) ≤ N − c), and N − C(z) ~ Binomial(N, 1 − z).
    return lower, num_values - _smallest(num_values, 1 - points, level)


def _smallest(num_values: int, points: FloatArray, level: float) -> IntArray:
    """Return the smallest c with Pr(Binomial(N, z) ≤ c) > level, at each point."""
    from scipy.special import bdtr, bdtrik

    # bdtrik gives the count as a real number, which rounding may have moved across an integer.
    near = np.nan_to_num(np.ceil(bdtrik(level, num_values, points)), nan=0.0)
    found = np.clip(near - 1, 0, num_values)
    for _ in range(2):
        found += bdtr(found, num_values, points) <= level
    return np.asarray(found, dtype=np.int64)
