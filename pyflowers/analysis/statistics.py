"""Statistics of a data set that a model may fail to reproduce, for predictive checks.

For groups of rows, the statistics are the means of the groups, the distance of the most distant
group from the rest, the spread of the values around the mean of their group, and the
autocorrelation of the deviations from this mean.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import Labels
from pyflowers.errors import ConfigError
from pyflowers.resources import importable, imported, late_import

FloatArray = NDArray[np.float64]

Function = Callable[[FloatArray], FloatArray]
"""Function of R data sets, shape (R, N), that returns a number for each of them, shape (R,)."""


@dataclass(frozen=True)
class Statistic:
    """A statistic of a data set, for predictive checks.

    Attributes
    ----------
    name : str
        The name in tables.
    function : callable
        Function that takes R data sets, shape (R, N), and returns a number for each, shape (R,).
    meaning : str
        The statistic in words.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.analysis import STATISTICS
    >>> zeros = STATISTICS["zeros"]
    >>> zeros.meaning
    'share of zeros'
    >>> zeros.function(np.array([[0, 0, 3, 5], [1, 2, 0, 4]])).tolist()
    [0.5, 0.25]
    """

    name: str
    function: Function
    meaning: str


def variance_to_mean(y: FloatArray) -> FloatArray:
    """Return the variance divided by the mean.

    For Poisson counts that are not all 0, its expectation is 1. It is 0 if the mean is 0 or there
    is only one value. The variance is computed in two passes.

    Parameters
    ----------
    y : array, shape (R, N)
    """
    mean = y.mean(axis=-1)
    if y.shape[-1] < 2:
        return np.zeros_like(mean)
    var = y.var(axis=-1, ddof=1)
    return np.asarray(np.divide(var, mean, out=np.zeros_like(mean), where=mean != 0))


def _sd(y: FloatArray) -> FloatArray:
    if y.shape[-1] == 1:
        return np.zeros(y.shape[0])
    return np.asarray(y.std(axis=-1, ddof=1))


STATISTICS: Mapping[str, Statistic] = {
    statistic.name: statistic
    for statistic in (
        Statistic("mean", lambda y: np.asarray(y.mean(axis=-1)), "mean"),
        Statistic("sd", _sd, "standard deviation"),
        Statistic("variance_to_mean", variance_to_mean, "variance over mean"),
        Statistic("zeros", lambda y: np.asarray((y == 0).mean(axis=-1)), "share of zeros"),
        Statistic("minimum", lambda y: np.asarray(y.min(axis=-1)), "minimum"),
        Statistic("median", lambda y: np.asarray(np.median(y, axis=-1)), "median"),
        Statistic("maximum", lambda y: np.asarray(y.max(axis=-1)), "maximum"),
    )
}
"""The statistics that are available by name."""

OF_COUNTS = ("mean", "variance_to_mean", "zeros", "maximum")
"""The usual checks for counts."""

OF_MEASUREMENTS = ("mean", "sd", "minimum", "maximum")
"""The usual checks for measurements. A continuous model never predicts exact zeros, and a ratio to
the mean is meaningless if values may be negative."""


OF_BINARY = ("mean",)
"""The usual check for values that are 0 or 1, whose other statistics follow from the mean."""

OF_RATINGS = ("mean", "sd")
"""The usual checks for ratings, which are never 0 and nearly always include the highest
rating."""


OF_CATEGORIES: tuple[str, ...] = ()
"""Categories have no usual statistic with a name; the share of each is checked."""

OF_QUANTILES: tuple[str, ...] = ()
"""A model for a quantile describes no other statistic; the share below the quantile is checked."""

OF_DATA = (
    "dispersion_within",
    "sd_within",
    "shares_between",
    "shares_of_rows",
    "autocorrelation",
    "group_outlier",
    "below_quantile",
    "loo_pit",
)
"""The names of the checks for groups, times, quantiles and PITs."""


def shares_of(categories: Sequence[str], *, is_counted: bool) -> list[Statistic]:
    """Return, for each category, the statistic that computes its share.

    Parameters
    ----------
    categories : sequence of str
        The categories.
    is_counted : bool
        Whether data sets have the counts of all categories in each row, shape (R, N × categories),
        instead of the number of each row's category, counted from 1.
    """

    def of(number: int) -> Function:
        """Return a function that computes the share of a category in data sets."""
        if not is_counted:
            return lambda y: np.asarray((y == number).mean(axis=-1))
        own = slice(number - 1, None, len(categories))
        return lambda y: np.asarray(y[:, own].sum(axis=1) / np.maximum(y.sum(axis=1), 1))

    return [
        Statistic(f"share[{label}]", of(number), f"share of {label}")
        for number, label in enumerate(categories, 1)
    ]


def differences_of_shares(counts: FloatArray) -> FloatArray:
    """Return how much the shares of categories differ between units such as groups, shape (R,).

    This is Pearson's X² for the table of units and categories, divided by its degrees of freedom,
    so that it is about 1 if the units do not differ.

    Parameters
    ----------
    counts : array, shape (R, unit, category)
        How often each category occurs in each unit; units without counts are left out.

    References
    ----------
    Agresti (2013), Categorical Data Analysis, 3rd ed., section 3.2.1.
    """
    totals = counts.sum(axis=2, keepdims=True)
    of_all = counts.sum(axis=1, keepdims=True)
    expected = totals * (of_all / np.maximum(of_all.sum(axis=2, keepdims=True), 1))
    some = expected > 0
    square = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(counts), where=some)
    free = (counts.shape[2] - 1) * np.maximum((totals > 0).sum(axis=(1, 2)) - 1, 1)
    return np.asarray(square.sum(axis=(1, 2)) / free)


def find_statistics(
    wanted: Sequence[str | Callable[[FloatArray], float]], usual: Sequence[str]
) -> list[Statistic]:
    """Return the usual and the requested statistics, without duplicates.

    Parameters
    ----------
    wanted : sequence of str or callable
        Names of :data:`STATISTICS`, ``module:function`` (or ``file.py:function``), or functions of
        one data set, shape (N,), that return a number.
    usual : sequence of str
        Names of the usual statistics.

    Raises
    ------
    ConfigError
        If there is no such statistic, its module cannot be imported, or two have the same name.
    """
    found = {name: STATISTICS[name] for name in usual}
    for each in wanted:
        statistic = _find(each)
        known = found.get(statistic.name, statistic)
        if known is not statistic or statistic.name in OF_DATA:
            raise ConfigError(
                f"statistic {statistic.name}: two statistics have this name; rename one"
            )
        found[statistic.name] = statistic
    return list(found.values())


def _find(wanted: str | Callable[[FloatArray], float]) -> Statistic:
    """Return a statistic, given as a name, as the path of a function, or as a function."""
    if callable(wanted):
        name = getattr(wanted, "__name__", type(wanted).__name__)
        return Statistic(name, _of_each(name, wanted), name)
    known = ", ".join(STATISTICS)
    if not isinstance(wanted, str):
        raise ConfigError(
            f"statistic {wanted!r} is neither a name nor a function of y; choose one of {known}, "
            "or give a function"
        )
    if wanted in STATISTICS:
        return STATISTICS[wanted]
    module, _, name = wanted.rpartition(":")
    if not (module and name):
        raise ConfigError(
            f"statistic {wanted!r}: there is no statistic of that name; choose one of {known}, or "
            "give MODULE:FUNCTION"
        )
    is_file = module.endswith(".py")
    if is_file and not Path(module).is_file():
        raise ConfigError(f"statistic {wanted!r}: there is no file {module}; correct the path")
    try:
        holds = _run_file(module) if is_file else vars(imported(module))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"statistic {wanted!r}: {module} cannot be imported ({reason}); correct the module or "
            "its name"
        ) from error
    if not callable(holds.get(name)):
        raise ConfigError(
            f"statistic {wanted!r}: {module} has no function {name}; correct the name"
        )
    return Statistic(name, _of_each(name, holds[name]), name)


def _run_file(file: str) -> dict[str, Any]:
    """Run a Python file, which may import modules from the working folder, and return its names."""
    with importable():
        return runpy.run_path(file)


def _of_each(name: str, function: Callable[[FloatArray], float]) -> Function:
    """Return a function that applies a user's function to each data set and checks the results."""

    def apply(y: FloatArray) -> FloatArray:
        try:
            values = np.array([function(row) for row in y], dtype=np.float64)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            remedy = late_import(error) or "; correct the function"
            raise ConfigError(
                f"statistic {name} failed on a data set of {y.shape[-1]} values ({reason}){remedy}"
            ) from error
        if values.shape != y.shape[:1] or not np.isfinite(values).all():
            raise ConfigError(
                f"statistic {name} must return one finite number for each data set, but returned "
                f"{'something else' if values.shape != y.shape[:1] else 'NaN or infinity'}"
            )
        return values

    return apply


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """The mean of each group in the observed and in the replicated data.

    Attributes
    ----------
    labels : Labels
        The groups.
    observed : array, shape (group,)
        Mean of the observations in each group.
    replicated : array, shape (S, group)
        Mean of each group in each replicated data set.
    """

    labels: Labels
    observed: FloatArray
    replicated: FloatArray


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows, and statistics of data sets, shape (R, N), within and between the groups.

    Attributes
    ----------
    codes : array of int, shape (N,)
        Position of each row's group.
    sizes : array of int, shape (group,)
        Number of rows in each group.
    counts : bool
        Whether the data are counts.
    """

    codes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    counts: bool

    @classmethod
    def of(cls, labels: Labels | None, num_obs: int, counts: bool) -> Groups:
        """Return the groups of rows; without labels, all rows are one group."""
        if labels is None:
            return cls(np.zeros(num_obs, dtype=np.int64), np.array([num_obs]), counts)
        return cls(labels.codes, labels.counts, counts)

    @classmethod
    def of_rows(cls, num_obs: int) -> Groups:
        """Return groups with one row each."""
        return cls(np.arange(num_obs), np.ones(num_obs, dtype=np.int64), counts=True)

    def means(self, y: FloatArray) -> FloatArray:
        """Return the mean of each group, shape (R, group)."""
        same_size = (self.sizes == self.sizes[0]).all()
        if same_size and (np.diff(self.codes) >= 0).all():  # rows are sorted by group
            return np.asarray(y.reshape(len(y), self.sizes.size, -1).mean(axis=2))
        sums = np.stack([np.bincount(self.codes, row, self.sizes.size) for row in y])
        return np.asarray(sums / self.sizes)

    def within(self, y: FloatArray) -> FloatArray:
        """Return how much values vary around the means of their groups.

        At least one group must have two rows. For measurements, the result is the pooled standard
        deviation, √(Σ (y − m[p])² / Σ (n[p] − 1)), where m[p] is the mean of group p and n[p] its
        number of rows. For counts, it is the index of dispersion,
        Σ (y − m[p])² / m[p] / Σ (n[p] − 1), over the groups with a count above 0. Given the totals
        of the groups, this index has expectation exactly 1 for Poisson counts, regardless of the
        rates. If all counts are 0, the result is 1.

        References
        ----------
        Cochran (1954), Some methods for strengthening the common χ² tests, Biometrics 10(4), on
        the variance test of the Poisson distribution, which is summed over groups here.
        """
        means = self.means(y)
        squares = self.means((y - means[:, self.codes]) ** 2) * self.sizes
        if not self.counts:
            return np.asarray(np.sqrt(squares.sum(axis=1) / (self.sizes - 1).sum()))
        some = means > 0
        index = np.divide(squares, means, out=np.zeros_like(means), where=some).sum(axis=1)
        free = np.where(some, self.sizes - 1, 0).sum(axis=1)
        return np.asarray(np.divide(index, free, out=np.ones_like(index), where=free > 0))

    def of_shares(self, y: FloatArray, num: int) -> FloatArray:
        """Return how much the shares of the categories 1 to `num` differ between groups."""
        is_own = ((y == code).astype(np.float64) for code in range(1, num + 1))
        return differences_of_shares(
            np.stack([self.sizes * self.means(each) for each in is_own], axis=2)
        )

    def of_counts(self, y: FloatArray, num: int) -> FloatArray:
        """Return how much the shares of `num` counted categories differ between groups."""
        counts = y.reshape(len(y), -1, num)
        own = (self.sizes * self.means(counts[:, :, j]) for j in range(num))
        return differences_of_shares(np.stack([*own], axis=2))

    def consecutive(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return pairs of rows of the same group at consecutive times, earlier first, shape (2, n).

        Groups with two rows are left out, because their deviations are always opposite.

        Parameters
        ----------
        times : array of int, shape (N,)
            Position of each row's time among all times in the table.
        """
        order = np.lexsort((times, self.codes))
        before, after = order[:-1], order[1:]
        follows = (self.codes[before] == self.codes[after]) & (times[after] - times[before] == 1)
        return np.stack([before, after])[:, follows & (self.sizes[self.codes[before]] > 2)]

    def autocorrelation(self, y: FloatArray, pairs: NDArray[np.int64]) -> FloatArray:
        """Return the mean product of deviations from the group mean at consecutive times.

        Deviations are divided by the standard deviation of their group. The result is therefore an
        autocorrelation at lag 1, and groups with a large spread do not dominate it.

        Parameters
        ----------
        y : array, shape (R, N)
        pairs : array of int, shape (2, n)
            At least one pair; see :meth:`consecutive`.

        References
        ----------
        Box and Jenkins (1976), Time Series Analysis, revised ed., section 2.1.5, for one series.
        """
        away = y - self.means(y)[:, self.codes]
        sd = np.sqrt(self.means(away**2))[:, self.codes]
        least = 1e-12 * np.abs(y).max(axis=1, keepdims=True)  # smaller sds are rounding errors
        away = np.divide(away, sd, out=np.zeros_like(away), where=sd > least)
        return np.asarray((away[:, pairs[0]] * away[:, pairs[1]]).mean(axis=1))

    def outlier(self, y: FloatArray) -> FloatArray:
        """Return Grubbs' statistic: how far the most distant group is from the mean of all groups.

        With m[p] the mean of group p, this is the maximum over p of |m[p] − mean of m| / sd of m,
        which is at most (P − 1) / √P. For counts, m is log(mean + 0.5 / rows), because populations
        of rates are skewed and all counts of a group may be 0.

        References
        ----------
        Grubbs (1969), Procedures for detecting outlying observations in samples, Technometrics
        11(1), section 4.
        """
        means = self.comparable_means(y)
        away = np.abs(means - means.mean(axis=1, keepdims=True)).max(axis=1)
        sd = means.std(axis=1, ddof=1)
        return np.asarray(np.divide(away, sd, out=np.zeros_like(away), where=sd > 0))

    def comparable_means(self, y: FloatArray) -> FloatArray:
        """Return the group means, on the log scale for counts, shape (R, group)."""
        means = self.means(y)
        if not self.counts:
            return means
        # The rate of a new group, which is exp of a normal variable, may overflow, and so may its
        # counts.
        return np.asarray(np.log(np.minimum(means, np.finfo(float).max) + 0.5 / self.sizes))
