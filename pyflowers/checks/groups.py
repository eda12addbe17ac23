"""Means of groups, observed and replicated, and how far the most distant group is from the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyflowers.table import Labels

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
        means = groups.means(y)
        if counts:
            # A new group's rate, an exponential, may be beyond all numbers, and so may its counts.
            means = np.log(np.minimum(means, np.finfo(float).max) + 0.5 / groups.sizes)
        away = np.abs(means - means.mean(axis=1, keepdims=True)).max(axis=1)
        sd = means.std(axis=1, ddof=1)
        return np.asarray(np.divide(away, sd, out=np.zeros_like(away), where=sd > 0))

    return statistic
