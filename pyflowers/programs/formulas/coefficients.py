"""The default prior of the population's coefficients.

A coefficient has the prior normal(0, 2.5 s / sd(x)), independently of the others, where x is its
column. This prior does not suit columns that are nearly combinations of each other, such as a year
and its square, because it limits coefficients that have to be large and nearly cancel. Such columns
are *linked*, and their coefficients have a joint prior. With the linked columns, minus their means,
in the matrix X, and S = X'X / (N - 1),

    b ~ N(0, (2.5 s)² S^-1).

This prior depends only on the curves that the columns can form: any combination of the columns that
has standard deviation 1 has a coefficient with the prior sd 2.5 s, as each column of ``poly(x, 2)``
has. The program samples the coefficients of the *adjusted* columns, each of which is a linked
column minus its least-squares fit by the linked columns before it. The adjusted columns are
orthogonal, and under the joint prior their coefficients are independent, with sds
2.5 s / sd(adjusted column).

References
----------
Zellner (1986), On assessing prior distributions and Bayesian regression analysis with g-prior
distributions (the joint prior, with g s²_residual = (2.5 s)² N). Belsley, Kuh and Welsch (1980),
Regression Diagnostics, section 3.2 (variance inflation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.design import Origin

FloatArray = NDArray[np.float64]

WIDTH = 2.5
"""Prior sd of the coefficient of a column with sd 1, in units of the response's scale."""

INFLATED_BY_POWERS = 2.0
"""Variance inflation above which powers of one column are linked; decision 19."""

INFLATED_BY_PRODUCTS = 5.0
"""Variance inflation above which products are linked to their factors; decision 19.

Centred factors of two levels alone inflate the variances of products to about 2.
"""

INFLATED = 100.0
"""Variance inflation above which a column is linked to any other columns; decision 19."""


@dataclass(frozen=True)
class CoefficientPrior:
    """The default prior: independent normals on the coefficients of the columns X @ `adjustment`.

    Attributes
    ----------
    scales : array, shape (K,)
        The sds of the normal priors on the coefficients of the adjusted columns.
    adjustment : array, shape (K, K), or None
        The matrix that maps the coefficients of the adjusted columns to those of X. It is 1 on the
        diagonal and 0 below it. None if no columns are linked.
    """

    scales: FloatArray
    adjustment: FloatArray | None


def coefficient_prior(
    matrix: FloatArray, origins: Sequence[Origin], scale: float, *, about_mean: bool
) -> CoefficientPrior:
    """Return the default prior of the coefficients of a design matrix.

    Parameters
    ----------
    matrix : array, shape (N, K)
        The columns, without the intercept.
    origins : sequence of Origin
        The term of each column.
    scale : float
        The scale s of the response.
    about_mean : bool
        Whether there is an intercept. Otherwise spreads are measured from 0.
    """
    columns = matrix - matrix.mean(axis=0) if about_mean else matrix
    linked = _linked(columns, matrix, origins)
    adjustment = None
    if len(linked):
        adjustment = np.eye(matrix.shape[1])
        adjustment[np.ix_(linked, linked)] = _adjustment(columns[:, linked])
        columns = columns @ adjustment
    num = len(matrix) - about_mean
    sds = np.sqrt(np.sum(columns**2, axis=0) / max(num, 1))
    scales = np.full(len(sds), WIDTH)
    np.divide(WIDTH * scale, sds, out=scales, where=sds > 0)
    return CoefficientPrior(scales, adjustment)


def _adjustment(columns: FloatArray) -> FloatArray:
    """Return the triangular matrix by which columns are multiplied to become orthogonal."""
    size = np.linalg.norm(columns, axis=0)
    triangle = np.linalg.qr(columns / size)[1]
    found = np.linalg.solve(triangle, np.diag(np.diagonal(triangle)))
    return np.asarray(np.triu(found) * size / size[:, None])


def _linked(columns: FloatArray, matrix: FloatArray, origins: Sequence[Origin]) -> NDArray[np.intp]:
    """Return the positions of columns that are nearly combinations of related or other columns.

    Related columns that inflate the variance of a column's coefficient are linked to the column, so
    that a term that is written in another way has the same prior. Inflation of a column of 0 and 1
    by other such columns is ignored: their coefficients are differences of the response between
    levels, for which independent priors are wide enough.
    """
    size = np.linalg.norm(columns, axis=0)
    # The triangle has the lengths and angles of the columns, but fewer rows.
    triangle = np.linalg.qr(columns / np.where(size > 0, size, 1.0))[1]
    codes = np.asarray(np.isin(matrix, (0.0, 1.0)).all(axis=0))
    found = np.zeros(len(origins), dtype=bool)
    for term in dict.fromkeys(origins):
        own = np.array([origin == term for origin in origins])
        relatives = np.array([origin.is_relative_of(term) for origin in origins])
        powers = np.array([origin.is_power_with(term) for origin in origins])
        for others, limit in (
            (np.logical_and(relatives, powers), INFLATED_BY_POWERS),
            (relatives, INFLATED_BY_PRODUCTS),
        ):
            if (_left(triangle, own, others, codes) < 1 / limit).any():
                found |= own | others
    inflation, among_codes = _inflation(triangle), np.ones(len(origins))
    among_codes[codes] = _inflation(triangle[:, codes])
    found |= inflation > INFLATED * among_codes
    return np.flatnonzero(found)


def _left(
    columns: FloatArray, own: NDArray[np.bool_], others: NDArray[np.bool_], codes: NDArray[np.bool_]
) -> FloatArray:
    """Return the share of each column's sum of squares that other columns do not explain.

    For a column of 0 and 1, it is the share of the sum that other such columns do not explain.
    """
    left = _rest(columns[:, own], columns[:, others])
    coded = _rest(columns[:, own], columns[:, others & codes])
    whole = np.where(codes[own], coded, np.sum(columns[:, own] ** 2, axis=0))
    return np.divide(left, whole, out=np.ones(len(left)), where=whole > 0)


def _rest(columns: FloatArray, others: FloatArray) -> FloatArray:
    """Return the sum of squares of each column that other columns do not explain."""
    fitted = others @ np.linalg.lstsq(others, columns)[0] if others.size else 0.0
    return np.asarray(np.sum((columns - fitted) ** 2, axis=0))


def _inflation(columns: FloatArray) -> FloatArray:
    """Return the variance inflation of each column, given the others."""
    inverse = np.linalg.pinv(np.linalg.qr(columns)[1])
    return np.asarray(np.sum(inverse**2, axis=1) * np.sum(columns**2, axis=0))
