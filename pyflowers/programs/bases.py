"""Bases for curves in model terms: cubic splines, steps and Gaussian-process eigenfunctions.

A column of a spline basis is a natural or a periodic cubic spline, which is stored as its values at
the knots. Beyond the outer knots a natural spline is a straight line.

References
----------
Wood (2017), Generalized Additive Models, 2nd edition: section 5.3.1 for cubic splines in terms of
their values at the knots, section 5.3.2 for periodic ones, section 5.8 for the split into a fixed
and a penalised part. Riutort-Mayol, Bürkner, Andersen, Solin and Vehtari (2023), Practical Hilbert
space approximate Bayesian Gaussian processes for probabilistic programming, Statistics and
Computing 33, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data.columns import number_text
from pyflowers.errors import DataError
from pyflowers.text import counted

FloatArray = NDArray[np.float64]
State = MutableMapping[str, Any]
"""The values that a term computed from the rows of the fit; empty at first."""


def spline(
    x: FloatArray, knots: FloatArray, values: FloatArray, *, is_periodic: bool = False
) -> FloatArray:
    """Return cubic splines at `x`, shape (N, K).

    Parameters
    ----------
    x : array, shape (N,)
        The points at which the splines are evaluated.
    knots : array, shape (J,)
        The knots, in order.
    values : array, shape (J, K)
        The values of each spline at the knots; those of a periodic spline are equal at the first
        and the last knot.
    is_periodic : bool
        Whether the splines are periodic, with a period from the first to the last knot. Otherwise,
        they are natural splines, which are straight lines beyond the outer knots.
    """
    x, knots = np.asarray(x, dtype=float), np.asarray(knots, dtype=float)
    values = np.asarray(values, dtype=float)
    if is_periodic:
        x = knots[0] + np.mod(x - knots[0], knots[-1] - knots[0])
    bends = _second_derivatives(knots, is_periodic) @ values
    at = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    width = np.diff(knots)[at]
    inside = np.clip(x, knots[0], knots[-1])
    left, right = (knots[at + 1] - inside) / width, (inside - knots[at]) / width
    found = left[:, None] * values[at] + right[:, None] * values[at + 1]
    found += ((left**3 - left) * width**2 / 6)[:, None] * bends[at]
    found += ((right**3 - right) * width**2 / 6)[:, None] * bends[at + 1]
    slope = (values[at + 1] - values[at]) / width[:, None]
    # At an outer knot the second derivative is 0, so only that at the inner knot enters the slope.
    inner = np.where(x < knots[0], -1.0, 1.0)[:, None] * (bends[at] + bends[at + 1])
    slope += inner * width[:, None] / 6
    return np.asarray(found + (x - inside)[:, None] * slope)


def _second_derivatives(knots: FloatArray, is_periodic: bool) -> FloatArray:
    """Return the matrix that turns values at the knots into second derivatives there."""
    size = len(knots)
    found = np.zeros((size, size))
    left, right = _bands(knots, is_periodic)
    if is_periodic:
        found[:-1, :-1] = np.linalg.solve(left, right)
        found[-1] = found[0]
    else:
        found[1:-1] = np.linalg.solve(left, right)
    return found


def _bands(knots: FloatArray, is_periodic: bool) -> tuple[FloatArray, FloatArray]:
    """Return B and D of Wood (2017, Table 5.1): B times second derivatives is D times values.

    For natural splines, both matrices have a row for each inner knot; for periodic splines, they
    have a row for each knot except the last.
    """
    width = np.diff(knots)
    size = len(width)
    left, right = np.zeros((size, size)), np.zeros((size, size + 1))
    for i in range(size):
        before, after = width[i - 1], width[i]
        left[i, i - 1] += before / 6
        left[i, i] += (before + after) / 3
        left[i, (i + 1) % size] += after / 6
        right[i, (i - 1) % size] += 1 / before
        right[i, i] -= 1 / before + 1 / after
        right[i, i + 1] += 1 / after
    if is_periodic:
        right[:, 0] += right[:, -1]
        return left, right[:, :-1]
    return left[1:, 1:], right[1:]


def smooth_basis(x: FloatArray, num: int, period: float | None = None) -> dict[str, Any]:
    """Return the penalised part of a smooth: its knots, and each column's values there.

    The penalty is the integral of the squared second derivative. The columns are the directions in
    which it is not 0, from smooth to rough. They are scaled so that, for independent normal
    coefficients with a common variance, minus the log density is proportional to the penalty, up to
    a constant. Constants and lines, which have no penalty, are left out: multiples of them are
    subtracted from every column, so that it is orthogonal to them over the rows. All columns are
    then multiplied by one number, so that coefficients with standard deviation 1 give a curve whose
    variance, averaged over the rows, is 1.

    Parameters
    ----------
    x : array, shape (N,)
        The covariate.
    num : int
        The number of knots; the first and the last knot of a periodic smooth count as two.
    period : float, optional
        The period; None for a natural spline.
    """
    is_periodic = period is not None
    if period is None:
        knots = np.quantile(np.unique(x), np.linspace(0, 1, num))
        null = [np.ones(num), knots]
    else:
        knots = np.min(x) + np.linspace(0, period, num)
        null = [np.ones(num)]
    # The penalty of a curve depends on the unit of x only by a factor.
    unit = (knots - knots[0]) / (knots[-1] - knots[0])
    left, right = _bands(unit, is_periodic)
    penalty = right.T @ np.linalg.solve(left, right)
    sizes, vectors = np.linalg.eigh((penalty + penalty.T) / 2)
    values = vectors[:, len(null) :] / np.sqrt(sizes[len(null) :])
    if is_periodic:
        values = np.vstack([values, values[:1]])
    values = values * np.where(values[-1] < 0, -1.0, 1.0)  # the sign of eigenvectors is arbitrary
    columns = spline(x, knots, values, is_periodic=is_periodic)
    lines = np.stack([np.ones(len(x)), x - knots[0]], axis=1)[:, : len(null)]
    at_knots = np.stack([np.ones(num), knots - knots[0]], axis=1)[:, : len(null)]
    size = np.maximum(np.linalg.norm(lines, axis=0), 1e-300)
    fit = np.linalg.lstsq(lines / size, columns)[0] / size[:, None]
    values = values - at_knots @ fit
    columns = columns - lines @ fit
    values = values / np.sqrt(np.sum(columns**2) / len(x))
    return {"knots": knots.tolist(), "values": values.tolist()}


def _refuse_few(x: FloatArray, least: int, option: str, highest: int) -> None:
    """Reject a column with too few distinct values for the requested number of columns."""
    num = len(np.unique(x))
    if num < least:
        remedy = f"write {option}={highest}"
        if highest < 1 or num < 3:
            remedy = "use the column as a number or a factor"
        distinct = counted(num, "distinct value")
        raise DataError(f"the column has only {distinct}, fewer than {least}; {remedy}")


def _within(x: FloatArray, period: float) -> FloatArray:
    """Return the position of values within a period."""
    return np.mod(x - np.min(x), period)


def smooth(
    x: Any, *, state: State, k: int = 10, bs: str = "cr", period: float | None = None
) -> FloatArray:
    """Return the penalised columns of ``s(x)``; see :func:`smooth_basis`."""
    values = np.asarray(x, dtype=float)
    if "knots" not in state:
        if period is None:
            _refuse_few(values, k, "k", len(np.unique(values)))
        else:
            _refuse_few(_within(values, period), k - 1, "k", len(np.unique(values)) + 1)
        state.update(smooth_basis(values, k, period))
    knots, at_knots = (_array(state[name]) for name in ("knots", "values"))
    return spline(values, knots, at_knots, is_periodic=bs == "cc")


def natural_spline(x: Any, df: int = 4, *, state: State) -> FloatArray:
    """Return ``ns(x, df)``: natural splines that are 1 at one knot and 0 at all others.

    The spline of the first knot is left out, so a coefficient is a difference from the first knot.
    """
    values = np.asarray(x, dtype=float)
    if "knots" not in state:
        _refuse_few(values, df + 1, "df", len(np.unique(values)) - 1)
        knots = np.quantile(values, np.linspace(0, 1, df + 1))
        if len(np.unique(knots)) < len(knots):  # a frequent value makes quantiles equal
            knots = np.quantile(np.unique(values), np.linspace(0, 1, df + 1))
        state["knots"] = knots.tolist()
    knots = _array(state["knots"])
    return spline(values, knots, np.eye(len(knots))[:, 1:])


def periodic_spline(x: Any, df: int = 4, *, period: float, state: State) -> FloatArray:
    """Return ``cc(x, df, period)``: like ``ns``, with a period that begins at the first knot."""
    values = np.asarray(x, dtype=float)
    if "knots" not in state:
        _refuse_few(_within(values, period), df + 1, "df", len(np.unique(values)) - 1)
        state["knots"] = (np.min(values) + np.linspace(0, period, df + 2)).tolist()
    knots = _array(state["knots"])
    at_knots = np.eye(len(knots) - 1)
    at_knots = np.vstack([at_knots, at_knots[:1]])[:, 1:]
    return spline(values, knots, at_knots, is_periodic=True)


def eigenfunctions(x: Any, *, k: int = 25, c: float = 1.5, state: State) -> FloatArray:
    """Return the columns of ``gp(x)``: the first k eigenfunctions of the Laplacian.

    They are sines that are 0 at both ends of an interval, which is c times as wide as the range of
    the data.
    """
    values = np.asarray(x, dtype=float)
    if "center" not in state:
        low, high = float(np.min(values)), float(np.max(values))
        _refuse_few(values, 3, "k", 0)
        state.update(center=(low + high) / 2, boundary=c * (high - low) / 2, factor=c)
    center, boundary = state["center"], state["boundary"]
    beyond = np.flatnonzero(np.abs(values - center) > boundary * (1 + 1e-12))
    if beyond.size:
        raise DataError(
            f"{number_text(values[beyond[0]])} is outside the range from "
            f"{center - boundary:.6g} to {center + boundary:.6g}, in which the process is defined; "
            "give values in this range, or fit with a larger c"
        )
    at = (values - center + boundary)[:, None]
    return np.asarray(np.sin(at * frequencies(k, boundary)) / boundary**0.5)


def frequencies(num: int, boundary: float) -> FloatArray:
    """Return the frequencies of the eigenfunctions: square roots of their eigenvalues."""
    return np.asarray(np.arange(1, num + 1) * np.pi / (2 * boundary))


def steps(factor: pd.Series) -> FloatArray:
    """Return the columns of ``mo(x)``: column d is 1 in rows whose level is above the d-th."""
    codes, num = factor.cat.codes.to_numpy(), len(factor.cat.categories)
    return np.asarray(codes[:, None] > np.arange(num - 1), dtype=float)


def _array(values: Any) -> FloatArray:
    return np.asarray(values, dtype=float)


FUNCTIONS: Mapping[str, Callable[..., FloatArray]] = {
    "s": smooth,
    "gp": eigenfunctions,
    "ns": natural_spline,
    "cc": periodic_spline,
}
"""Functions that take a column and keep a state, by the names that they have in terms."""
