"""What is computed within and between groups of rows.

Means of groups, how far the most distant one is from the rest, how much values vary about the mean
of their group, and how much each deviation resembles the one before it in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import Labels

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Means of each group.

    Attributes
    ----------
    labels : Labels
        The groups.
    observed : array, shape (group,)
        Mean of each group's observations.
    replicated : array, shape (S, group)
        The same of each replicated data set.
    """

    labels: Labels
    observed: FloatArray
    replicated: FloatArray

    def quantiles(self, probs: tuple[float, ...]) -> FloatArray:
        """Return quantiles of the replicated means, shape (len(probs), group)."""
        return np.asarray(np.quantile(self.replicated, probs, axis=0))


@dataclass(frozen=True, eq=False)
class GroupCodes:
    """Positions of the rows' groups, ready to add up.

    Attributes
    ----------
    codes : array of int, shape (N,)
        Position of each row's group.
    sizes : array of int, shape (group,)
        Rows of each group.
    """

    codes: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def means(self, y: FloatArray) -> FloatArray:
        """Return the mean of each group, shape (R, group), of data sets shaped (R, N)."""
        if self._in_blocks:
            return np.asarray(y.reshape(len(y), self.sizes.size, -1).mean(axis=2))
        sums = np.stack([np.bincount(self.codes, row, self.sizes.size) for row in y])
        return np.asarray(sums / self.sizes)

    @cached_property
    def _in_blocks(self) -> bool:
        """Whether rows are those of the first group, then of the second, equally many of each."""
        same_size = bool((self.sizes == self.sizes[0]).all())
        return same_size and bool((np.diff(self.codes) >= 0).all())


def group_codes(labels: Labels | None, num_obs: int) -> GroupCodes:
    """Return the groups of rows; without labels, all rows are one group."""
    if labels is None:
        return GroupCodes(np.zeros(num_obs, dtype=np.int64), np.array([num_obs]))
    return GroupCodes(labels.codes, labels.counts)


def within_statistic(groups: GroupCodes, counts: bool) -> Callable[[FloatArray], FloatArray]:
    """Return how much values vary about the means of their groups.

    Of measurements it is the pooled standard deviation, √(Σ (y − m[p])² / Σ (n[p] − 1)), where m[p]
    is the mean of group p and n[p] its rows. Of counts it is the index of dispersion,
    Σ (y − m[p])² / m[p] / Σ (n[p] − 1) over the groups with counts: given the groups' totals its
    expectation is exactly 1 for Poisson counts, whatever the rates. Without any counts it is 1.

    Parameters
    ----------
    groups : GroupCodes
        At least one with two rows.
    counts : bool
        Whether the data are counts.

    References
    ----------
    Cochran (1954), Some methods for strengthening the common χ² tests, Biometrics 10(4), on the
    variance test of the Poisson distribution, here added up over groups.
    """

    def statistic(y: FloatArray) -> FloatArray:
        means = groups.means(y)
        squares = groups.means((y - means[:, groups.codes]) ** 2) * groups.sizes
        if not counts:
            return np.asarray(np.sqrt(squares.sum(axis=1) / (groups.sizes - 1).sum()))
        some = means > 0
        index = np.divide(squares, means, out=np.zeros_like(means), where=some).sum(axis=1)
        free = np.where(some, groups.sizes - 1, 0).sum(axis=1)
        return np.asarray(np.divide(index, free, out=np.ones_like(index), where=free > 0))

    return statistic


def consecutive(groups: GroupCodes, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pairs of rows of one group at consecutive times, shape (2, pairs), earlier ones first.

    Groups with two rows are left out: their deviations are opposite whatever the values.

    Parameters
    ----------
    groups : GroupCodes
        The groups.
    times : array of int, shape (N,)
        Position of each row's time among all times of the table.
    """
    order = np.lexsort((times, groups.codes))
    before, after = order[:-1], order[1:]
    follows = (groups.codes[before] == groups.codes[after]) & (times[after] - times[before] == 1)
    return np.stack([before, after])[:, follows & (groups.sizes[groups.codes[before]] > 2)]


def lag_statistic(
    groups: GroupCodes, pairs: NDArray[np.int64]
) -> Callable[[FloatArray], FloatArray]:
    """Return the mean product of deviations at consecutive times, each from its group's mean.

    Deviations are divided by the standard deviation of their group, so that it is an
    autocorrelation at lag 1, and groups that vary much do not outweigh the others.

    Parameters
    ----------
    groups : GroupCodes
        The groups.
    pairs : array of int, shape (2, pairs)
        See :func:`consecutive`; at least one.

    References
    ----------
    Box and Jenkins (1976), Time Series Analysis, revised ed., section 2.1.5, for one series.
    """
    before, after = pairs

    def statistic(y: FloatArray) -> FloatArray:
        away = y - groups.means(y)[:, groups.codes]
        sd = np.sqrt(groups.means(away**2))[:, groups.codes]
        away = np.divide(away, sd, out=np.zeros_like(away), where=sd > 0)
        return np.asarray((away[:, before] * away[:, after]).mean(axis=1))

    return statistic


def outlier_statistic(groups: GroupCodes, counts: bool) -> Callable[[FloatArray], FloatArray]:
    """Return Grubbs' statistic, which tells how far the most distant group is from all.

    With m[p] the mean of group p it is max over p of |m[p] − mean of m| / sd of m, at most
    (P − 1) / √P. Of counts, m is log(mean + 0.5 / rows): populations of rates are skewed, and a
    group may have no counts.

    Parameters
    ----------
    groups : GroupCodes
        At least three groups.
    counts : bool
        Whether the data are counts.

    References
    ----------
    Grubbs (1969), Procedures for detecting outlying observations in samples, Technometrics 11(1),
    section 4.
    """

    def statistic(y: FloatArray) -> FloatArray:
        means = _comparable_means(groups, y, counts)
        away = np.abs(means - means.mean(axis=1, keepdims=True)).max(axis=1)
        sd = means.std(axis=1, ddof=1)
        return np.asarray(np.divide(away, sd, out=np.zeros_like(away), where=sd > 0))

    return statistic


def farthest(groups: GroupCodes, y: FloatArray, counts: bool) -> int:
    """Return the position of the group that Grubbs' statistic finds in one data set, shape (N,)."""
    means = _comparable_means(groups, y[None], counts)[0]
    return int(np.argmax(np.abs(means - means.mean())))


def _comparable_means(groups: GroupCodes, y: FloatArray, counts: bool) -> FloatArray:
    means = groups.means(y)
    if not counts:
        return means
    # A new group's rate, an exponential, may be beyond all numbers, and so may its counts.
    return np.asarray(np.log(np.minimum(means, np.finfo(float).max) + 0.5 / groups.sizes))
