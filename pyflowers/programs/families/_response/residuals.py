"""Residuals that depend on each other, ``ar(time, gr)`` and ``cosy(gr)``, in NumPy.

``previous`` has, for each row, the number (from 1) of the row before it in its series, or its own
number if it is the first. The residual of a row is `ar` times that of the row before, plus an
error. ``unit`` is the number, from 1, of a row's unit. Any two residuals of a unit have the
correlation `cosy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values

OF_OTHER_ROWS = ("previous", "unit")
"""The variables that identify the other rows on which the likelihood of a row is conditional."""

AR = Auxiliary(
    "ar",
    "real<lower=-1, upper=1>",
    "uniform(-1, 1)",
    {},
    "share of a residual that carries over to the next row",
)


def with_series(family: Family) -> Family:
    """Return a family whose residuals are autoregressive.

    The likelihood of a row is conditional on the row before it. The variance in `moments` is the
    stationary one, which holds far from the first row of a series.
    """

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        previous = np.asarray(values["previous"]) - 1
        carried = values["ar"] * (y - eta)[..., previous]
        follows = previous != np.arange(len(previous))
        return family.log_lik(y, eta + np.where(follows, carried, 0.0), values)

    def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
        mean, variance = family.moments(eta, values)
        return mean, variance / (1 - np.square(values["ar"]))

    return replace(
        family,
        equation=family.equation.replace("eta", "eta + ar e[previous]"),
        log_lik=log_lik,
        moments=moments,
        auxiliary=(*family.auxiliary, AR),
        totals=None,
        tails=None,
    )


def along_series(errors: FloatArray, values: Values) -> FloatArray:
    """Return residuals, each of which is `ar` times the previous one plus its error."""
    previous, found = np.asarray(values["previous"]) - 1, errors.copy()
    done = previous == np.arange(len(previous))
    while not done.all():
        rows = np.flatnonzero(~done & done[previous])
        found[..., rows] += values["ar"] * found[..., previous[rows]]
        done[rows] = True
    return found


COSY = Auxiliary(
    "cosy",
    "real<lower=0, upper=1>",
    "beta({alpha}, {beta})",
    {"alpha": 1.0, "beta": 1.0},
    "correlation of two residuals of a unit",
    is_common=True,
)

_GIVEN_EARLIER = """
// The mean and the sd of each residual, in units of sigma, given those before it in its unit.
matrix given_earlier(vector z, array[] int unit, real cosy) {
  int num = max(unit);
  matrix[size(z), 2] found;
  vector[num] count = zeros_vector(num); // of the unit's rows so far, and their sum
  vector[num] total = zeros_vector(num);
  for (n in 1 : size(z)) {
    int j = unit[n];
    real weight = cosy / (1 + (count[j] - 1) * cosy);
    found[n, 1] = weight * total[j];
    found[n, 2] = sqrt(1 - cosy * weight * count[j]);
    count[j] += 1;
    total[j] += z[n];
  }
  return found;
}"""
_GIVEN_EARLIER_T = """
// The location, scale and degrees of freedom of each residual, in units of sigma, given those
// before it in its unit, which have a multivariate t distribution.
matrix given_earlier(vector z, array[] int unit, real cosy, real nu) {
  int num = max(unit);
  matrix[size(z), 3] found;
  vector[num] count = zeros_vector(num); // of the unit's rows so far, their sum, and of squares
  vector[num] total = zeros_vector(num);
  vector[num] squares = zeros_vector(num);
  for (n in 1 : size(z)) {
    int j = unit[n];
    real weight = cosy / (1 + (count[j] - 1) * cosy);
    real distance = (squares[j] - weight * square(total[j])) / (1 - cosy);
    found[n, 1] = weight * total[j];
    found[n, 2] = sqrt((1 - cosy * weight * count[j]) * (nu + distance));
    found[n, 2] /= sqrt(nu + count[j]);
    found[n, 3] = nu + count[j];
    count[j] += 1;
    total[j] += z[n];
    squares[j] += square(z[n]);
  }
  return found;
}"""


def with_units(family: Family) -> Family:
    """Return a family in which any two residuals of the same unit are correlated.

    The likelihood of a row is conditional on the rows before it in its unit.
    """
    is_student = family.name == "student"

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        cosy, sigma = values["cosy"], values["sigma"]
        z = (y - eta) / sigma
        count, total, squares = _earlier(z, np.asarray(values["unit"]))
        weight = np.where(count > 0, cosy / np.maximum(1 + (count - 1) * cosy, 1e-300), 0.0)
        variance, own = 1 - cosy * weight * count, dict[str, Any]()
        if is_student:
            nu = values["nu"]
            distance = (squares - weight * np.square(total)) / (1 - cosy)
            variance, own["nu"] = variance * (nu + distance) / (nu + count), nu + count
        own["sigma"] = sigma * np.sqrt(variance)
        return family.log_lik(y, eta + sigma * weight * total, {**values, **own})

    return replace(
        family,
        equation=f"{family.equation}, correlation cosy in a unit",
        functions=_GIVEN_EARLIER_T if is_student else _GIVEN_EARLIER,
        log_lik=log_lik,
        # The rows of a unit share the degrees of freedom of their distribution.
        auxiliary=(*(replace(its, is_common=its.name == "nu") for its in family.auxiliary), COSY),
        totals=None,
        tails=None,
    )


def _earlier(z: FloatArray, unit: Any) -> tuple[Any, FloatArray, FloatArray]:
    """Return the number of earlier rows in each row's unit, and the sums of z and z² over them."""
    order = np.argsort(unit, kind="stable")
    place = np.arange(len(order))
    starts = np.searchsorted(unit[order], unit[order])
    back = np.argsort(order)

    def before(values: FloatArray) -> FloatArray:
        so_far = np.cumsum(values[..., order], axis=-1) - values[..., order]
        return np.asarray((so_far - so_far[..., starts])[..., back])

    return (place - starts)[back], before(z), before(np.square(z))


def in_units(
    family: Family,
    eta: FloatArray,
    values: Values,
    normal: FloatArray,
    rngs: Sequence[Generator],
) -> FloatArray:
    """Draw responses whose residuals are correlated within units.

    Parameters
    ----------
    family : Family
        The family: gaussian or student.
    eta : array, shape (chain, draw, N)
        The linear predictor.
    values : mapping
        The family's parameters, and the units.
    normal : array, shape (chain, draw, N)
        Standard normal draws, one for each row.
    rngs : sequence of numpy.random.Generator
        The generator of each unit.
    """
    unit, cosy, shape = np.asarray(values["unit"]) - 1, values["cosy"], eta.shape[:2]
    shared = np.stack([rng.standard_normal(shape) for rng in rngs], axis=-1)[..., unit]
    z = np.sqrt(cosy) * shared + np.sqrt(1 - cosy) * normal
    if family.name == "student":
        nu = np.broadcast_to(values["nu"], (*shape, 1))[..., 0]
        spread = np.stack([np.sqrt(nu / rng.chisquare(nu)) for rng in rngs], axis=-1)
        z = z * spread[..., unit]
    return np.asarray(eta + values["sigma"] * z)
