"""Sufficient statistics of normal data: count, mean and sum of squares about the mean.

They are all that the closed forms read, so the cost of an update does not depend on the number
of observations. All is summed about each group's first observation: a mean that is large beside the
spread costs no digits, and equal observations have a sum of squares of exactly 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.distributions import (
    BoolArray,
    FloatArray,
    IntArray,
    MultilevelPrior,
    as_floats,
)

# Squares of data, and n times them, must neither overflow nor lose digits to underflow.
LARGEST = 1e150
SMALLEST_SS = 1e-301


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
            num, mean, ss = np.broadcast_arrays(*map(as_floats, (self.num, self.mean, self.ss)))
        except ValueError as error:
            raise DataError(
                f"num, mean and ss must have one shape, but have {np.shape(self.num)}, "
                f"{np.shape(self.mean)} and {np.shape(self.ss)}"
            ) from error
        mean = np.where(num == 0, 0.0, mean)
        refuse(~(np.isfinite(num) & (num >= 0) & (num == np.floor(num))), num, "num", WHOLE)
        refuse(~(np.abs(mean) <= LARGEST), mean, "mean", _FINITE)
        refuse(~((ss >= 0) & (ss <= LARGEST**2 * np.maximum(num, 1))), ss, "ss", _SQUARES)
        refuse((ss > 0) & (ss < SMALLEST_SS), ss, "ss", _TINY)
        refuse((ss > 0) & (num <= 1), ss, "ss", "must be 0 when num is 0 or 1")
        for name, value in (("num", num), ("mean", mean), ("ss", ss)):
            object.__setattr__(self, name, as_floats(value))

    @classmethod
    def from_array(cls, x: npt.ArrayLike) -> SufficientStatistics:
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
        num = x.shape[-1]
        if not num:
            return cls(*np.zeros((3, *x.shape[:-1])))
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = x - x[..., :1]
            shift = beyond.mean(axis=-1)
            beyond -= shift[..., None]
            ss = np.einsum("...i,...i->...", beyond, beyond)
        if not np.all(np.isfinite(ss)):
            refuse(~(np.abs(x) <= LARGEST), x, "x", _FINITE)
        return cls(np.full(ss.shape, float(num)), x[..., 0] + shift, ss)

    @classmethod
    def from_groups(
        cls, y: npt.ArrayLike, group: Sequence[Hashable] | npt.NDArray[np.generic]
    ) -> tuple[SufficientStatistics, tuple[Hashable, ...]]:
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
        y, index, labels = grouped(y, group, "groups")
        refuse(~(np.abs(y) <= LARGEST), y, "y", _FINITE)
        first = y[np.unique(index, return_index=True)[1]]
        num = np.bincount(index)
        beyond = y - first[index]
        shift = np.bincount(index, beyond) / num
        ss = np.bincount(index, (beyond - shift[index]) ** 2)
        return cls(as_floats(num), first + shift, as_floats(ss)), labels


def grouped(
    y: npt.ArrayLike, group: Sequence[Hashable] | npt.NDArray[np.generic], what: str
) -> tuple[FloatArray, IntArray, tuple[Hashable, ...]]:
    """Return `y`, the number of each one's group, and the groups' labels as they appear."""
    y = as_floats(y)
    number: dict[Hashable, int] = {}
    labels = group.tolist() if isinstance(group, np.ndarray) else group
    index = np.asarray([number.setdefault(label, len(number)) for label in labels], dtype=np.intp)
    if y.shape != index.shape:
        raise DataError(
            f"y has shape {y.shape} but its {what} have shape {index.shape}: give one each"
        )
    return y, index, tuple(number)


WHOLE = "must be a whole number, 0 or more"
_FINITE = "must be finite and within ±1e150: rescale the data"
_SQUARES = "must be finite, 0 or more and below 1e300 per observation: rescale the data"
_TINY = "is too small to hold all its digits: rescale the data"


def refuse(bad: BoolArray, value: FloatArray, name: str, rule: str) -> None:
    """Raise a DataError that names the first bad value and its position, if there is one."""
    if np.any(bad):
        where = np.unravel_index(int(np.argmax(bad)), np.shape(bad))
        place = f"[{', '.join(str(int(i)) for i in where)}]" if where else ""
        raise DataError(f"{name}{place} is {float(value[where])!r}, but {rule}")


def checked_labels(
    statistics: SufficientStatistics,
    prior: MultilevelPrior,
    plants: Sequence[Hashable] | None,
) -> tuple[Hashable, ...]:
    """Return the plants' labels, 1 … P if not given, and refuse an improper posterior.

    Integrating sigma2_plant out leaves (S + n (ȳ - mu_plant)²)^(-(n + nu)/2), which needs
    n + nu > 0 for the tail, and S > 0 for the pole at mu_plant = ȳ. With a proper prior S becomes
    nu c² + S, and nothing can go wrong.

    Raises
    ------
    DataError
        If the statistics are not those of one or more plants, or naming the first plant whose
        posterior is improper, and the remedy.
    ConfigError
        If there is not one label a plant.
    """
    num = statistics.num
    if num.ndim != 1 or num.size == 0:
        raise DataError(f"statistics have shape {num.shape}, but must have one entry a plant")
    labels = tuple(range(1, num.size + 1)) if plants is None else tuple(plants)
    if len(labels) != num.size:
        raise ConfigError(f"{len(labels)} plant labels for {num.size} plants")
    few, constant = num + prior.sigma2_plant_nu <= 0, statistics.ss == 0
    if prior.sigma2_plant_nu > 0 or not np.any(few | constant):
        return labels
    remedy = "give sigma2_plant a proper prior, such as sigma2_plant_nu=1 with sigma2_plant_scale=2"
    if np.any(few):
        p = int(np.argmax(few))
        raise DataError(
            f"plant {labels[p]}: {num[p]:g} observations leave sigma2_plant without a proper "
            f"posterior under its flat prior; add observations or {remedy}"
        )
    raise DataError(
        f"plant {labels[int(np.argmax(constant))]}: all observations are equal, which leaves "
        f"sigma2_plant without a proper posterior under its flat prior; {remedy}"
    )
