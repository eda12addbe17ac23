"""Sufficient statistics of normal data: count, mean and sum of squares about the mean.

They are all that the closed forms read, so the cost of an update does not depend on the number
of observations. Sums of squares are formed in two passes, about the mean, never as
Σx² - n·mean², which loses all digits when the mean is large beside the spread.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyflowers.errors import DataError
from pyflowers.posterior.vb.distributions import FloatArray, as_floats

# Squares of data, and n times them, must neither overflow nor lose digits to underflow.
LARGEST = 1e150
SMALLEST_SS = 1e-301
_CHUNK = 2048  # rows whose deviations fit in cache together


@dataclass(frozen=True)
class SufficientStatistics:
    """Counts, means and sums of squares, of one or many groups.

    Parameters
    ----------
    num : array, shape (...)
        Number of observations.
    mean : array, shape (...)
        Their mean; read as 0 where `num` is 0.
    ss : array, shape (...)
        Sum of squared deviations from their own mean.

    Raises
    ------
    DataError
        Where a count is negative or no whole number, a mean or sum of squares is not finite or
        too extreme to square, or a sum of squares contradicts its count.
    """

    num: FloatArray
    mean: FloatArray
    ss: FloatArray

    def __post_init__(self) -> None:
        try:
            num, mean, ss = np.broadcast_arrays(
                as_floats(self.num), as_floats(self.mean), as_floats(self.ss)
            )
        except ValueError as error:
            raise DataError(
                f"num, mean and ss must have one shape, but have {np.shape(self.num)}, "
                f"{np.shape(self.mean)} and {np.shape(self.ss)}"
            ) from error
        mean = np.where(num == 0, 0.0, mean)
        _refuse(~(np.isfinite(num) & (num >= 0) & (num == np.floor(num))), num, "num", _WHOLE)
        _refuse(~(np.abs(mean) <= LARGEST), mean, "mean", _FINITE)
        _refuse(~((ss >= 0) & (ss <= LARGEST**2 * np.maximum(num, 1))), ss, "ss", _SQUARES)
        _refuse((ss > 0) & (ss < SMALLEST_SS), ss, "ss", _TINY)
        _refuse((ss > 0) & (num <= 1), ss, "ss", "must be 0 when num is 0 or 1")
        object.__setattr__(self, "num", as_floats(num))
        object.__setattr__(self, "mean", as_floats(mean))
        object.__setattr__(self, "ss", as_floats(ss))

    @classmethod
    def from_array(cls, x: npt.ArrayLike) -> "SufficientStatistics":
        """Statistics along the last axis.

        Parameters
        ----------
        x : array, shape (..., n)
            Observations; leading axes are separate data sets. n may be 0.

        Raises
        ------
        DataError
            If `x` has no axis, or holds a value that is not finite or beyond 1e150.
        """
        x = as_floats(x)
        if x.ndim == 0:
            raise DataError("x must be an array of observations, but is a single number")
        rows = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(int(np.prod(x.shape[:-1])), 0)
        num_rows, num = rows.shape
        mean, ss = np.zeros(num_rows), np.zeros(num_rows)
        for start in range(0, num_rows if num else 0, _CHUNK):
            part = rows[start : start + _CHUNK]
            mean[start : start + _CHUNK], ss[start : start + _CHUNK] = _mean_and_ss(part)
        shape = x.shape[:-1]
        if not np.all(np.isfinite(mean) & np.isfinite(ss)):
            _refuse(~(np.abs(x) <= LARGEST), x, "x", _FINITE)
        return cls(np.full(shape, float(num)), mean.reshape(shape), ss.reshape(shape))

    @classmethod
    def from_groups(
        cls, y: npt.ArrayLike, group: Sequence[Hashable] | npt.NDArray[np.generic]
    ) -> tuple["SufficientStatistics", tuple[Hashable, ...]]:
        """Statistics of each group, and the groups' labels in order of appearance.

        Parameters
        ----------
        y : array, shape (N,)
            Observations, in any order.
        group : sequence, shape (N,)
            The label of each observation's group.

        Raises
        ------
        DataError
            If the two differ in length or a value is not finite or beyond 1e150.
        """
        y = as_floats(y)
        index, labels = group_index(group)
        if y.shape != index.shape:
            raise DataError(
                f"y has shape {y.shape} but its groups have shape {index.shape}: give one each"
            )
        _refuse(~(np.abs(y) <= LARGEST), y, "y", _FINITE)
        num = as_floats(np.bincount(index, minlength=len(labels)))
        mean = as_floats(np.bincount(index, y / num[index], minlength=len(labels)))
        mean += np.bincount(index, (y - mean[index]) / num[index], minlength=len(labels))
        ss = np.bincount(index, weights=(y - mean[index]) ** 2, minlength=len(labels))
        constant = np.bincount(index, weights=y != _first(y, index), minlength=len(labels)) == 0
        return cls(num, mean, np.where(constant, 0.0, ss)), labels


def group_index(
    group: Sequence[Hashable] | npt.NDArray[np.generic],
) -> tuple[npt.NDArray[np.intp], tuple[Hashable, ...]]:
    """Give each label a number, in order of appearance."""
    number: dict[Hashable, int] = {}
    labels = group.tolist() if isinstance(group, np.ndarray) else group
    index = [number.setdefault(label, len(number)) for label in labels]
    return np.asarray(index, dtype=np.intp), tuple(number)


_WHOLE = "must be a whole number, 0 or more"
_FINITE = "must be finite and within ±1e150: rescale the data"
_SQUARES = "must be finite, 0 or more and below 1e300 per observation: rescale the data"
_TINY = "is too small to hold all its digits: rescale the data"


def _refuse(bad: npt.NDArray[np.bool_], value: FloatArray, name: str, rule: str) -> None:
    """Name the first bad value and its position."""
    if not np.any(bad):
        return
    where = np.unravel_index(int(np.argmax(bad)), np.shape(bad))
    place = f"[{', '.join(str(int(i)) for i in where)}]" if where else ""
    raise DataError(f"{name}{place} is {float(value[where])!r}, but {rule}")


def _mean_and_ss(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and sums of squares of each row; a constant row has exactly ss = 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.mean(axis=1)
        deviation = rows - mean[:, None]
        ss = np.einsum("ij,ij->i", deviation, deviation)
        # Rounding of the mean leaves a tiny error in ss; it is removed only where it is possible.
        dust = np.flatnonzero(ss <= 1e-28 * rows.shape[1] * mean**2)
    constant = dust[np.ptp(rows[dust], axis=1) == 0]
    mean[constant], ss[constant] = rows[constant, 0], 0.0
    return mean, ss


def _first(y: FloatArray, index: npt.NDArray[np.intp]) -> FloatArray:
    """Each observation's group's first value."""
    _, first = np.unique(index, return_index=True)
    return as_floats(y[first][index])
