"""The terms of a response, such as ``y | cens(c)``, in NumPy: its likelihood and its replicates.

A term is known by the names of its variables in the data block, each with one value for a row:

========================  ====================================================================
``cens``, ``y2``          the row is not censored (0), or is right- (1), left- (-1) or
                          interval-censored (2), which means in (y, y2]
``lb``, ``ub``            rows below ``lb`` or above ``ub`` never enter the table
``weights``               the log likelihood of the row is multiplied by it; with
                          ``weights_mean``, by it over this number
``se``, ``precision``     enter sigma, as the program's rule says
``sigma``                 sigma itself is known
``previous``              the row before it in its series, from 1; its own for the first row:
                          the row's residual is `ar` times that of the row before, plus an error
``unit``                  the unit of the row, from 1: residuals of a unit have the correlation
                          `cosy` in pairs
========================  ====================================================================

References
----------
Davison and Hinkley (1997), Bootstrap Methods and their Application, section 3.5, algorithm 3.2: how
replicates are censored where a row's time of censoring is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.errors import ConfigError
from pyflowers.programs.families import (
    Auxiliary,
    Family,
    FloatArray,
    Tails,
    Values,
    find_family,
)

OF_OTHER_ROWS = ("previous", "unit")
"""The variables that name other rows, given which the likelihood of a row is stated."""

NAMES = (
    *("cens", "y2", "lb", "ub", "weights", "weights_mean", "se", "precision", "sigma"),
    *OF_OTHER_ROWS,
)
"""The variables of response terms."""

WITH_SIGMA = ("gaussian", "student")
"""The families whose sigma is a standard deviation that standard errors and precisions change."""

MOST_REDRAWN = 10
"""How often values outside the bounds are drawn anew before their distribution is inverted."""

_STEPS = 80
"""Bisections of an interval, which leave a relative error below 1e-15."""


def family_of(text: str, response: Sequence[str] = ()) -> Family:
    """Return a family whose likelihood is that of a response with terms.

    Parameters
    ----------
    text : str
        The family, as for :func:`.find_family`.
    response : sequence of str
        The variables of the response's terms.
    """
    return _family_of(text, tuple(response))


@cache
def _family_of(text: str, response: tuple[str, ...]) -> Family:
    family = find_family(text)
    unknown = next((name for name in response if name not in NAMES), None)
    if unknown is not None:
        raise ConfigError(
            f"[prediction] response: {unknown!r} is not a variable of a response term; write "
            f"{', '.join(NAMES)}"
        )
    if "sigma" in response:
        family = with_known(family, "sigma")
    if "previous" in response:
        return with_series(family)
    if "unit" in response:
        return with_units(family)
    if not {"cens", "lb", "ub", "weights"}.intersection(response):
        return family
    if {"cens", "lb", "ub"}.intersection(response) and family.tails is None:
        raise ConfigError(
            f"[prediction] response: family {family.name} has no distribution function here, so "
            "its responses cannot be censored or truncated; correct the key response"
        )

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = family.log_lik(y, eta, values)
        if "cens" in response:
            found = _censored(family, response, found, (y, eta, values))
        if "lb" in response or "ub" in response:
            found = found - _log_inside(family, response, eta, values)
        if "weights" in response:
            found = found * _weights(response, values)
        return np.asarray(found)

    return replace(family, log_lik=log_lik, totals=None)


AR = Auxiliary(
    "ar",
    "real<lower=-1, upper=1>",
    "uniform(-1, 1)",
    {},
    "share of a residual that the next row has, too",
)


def has_dependent_rows(response: Collection[str]) -> bool:
    """Whether, with these variables of its terms, the distribution of a row depends on others."""
    return not set(OF_OTHER_ROWS).isdisjoint(response)


def can_be_series(family: Family, response: Sequence[str]) -> bool:
    """Whether the residuals of a response with these variables can be autoregressive."""
    others = {"cens", "lb", "ub", "weights", *OF_OTHER_ROWS}
    is_normal = family.name in WITH_SIGMA and family.link == "identity"
    return is_normal and others.isdisjoint(response)


def with_series(family: Family) -> Family:
    """Return a family whose residuals are autoregressive.

    The likelihood of a row is that given the row before it. The variance is that far from the first
    row of a series.
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
    """Return residuals, of which each is `ar` times the previous one plus its error."""
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
    """Return a family whose residuals are correlated in pairs, if they are of the same unit.

    The likelihood of a row is that given the rows before it in its unit.
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
    """Return the number of earlier rows of the unit, and the sums of their z and of the squares."""
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
        Standard normal draws of the rows.
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


def has_terms(family: Family, response: Sequence[str]) -> bool:
    """Whether a family can have a response with these variables."""
    if has_dependent_rows(response):
        return False  # the likelihood of some rows alone, by which families are compared, is none
    if {"cens", "lb", "ub"}.intersection(response) and family.tails is None:
        return False
    enter_sigma = {"se", "precision", "sigma"}.intersection(response)
    return not enter_sigma or family.name in WITH_SIGMA


def given_rows(family: Family, response: Sequence[str], rows: Values) -> Family:
    """Return a family whose likelihood knows the rows' values of the response's terms.

    Parameters
    ----------
    family : Family
        The family that :func:`family_of` returns.
    response : sequence of str
        The variables of the terms.
    rows : mapping of str to array, shape (N,)
        Their values.
    """

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        own = {**values, **{name: rows[name] for name in response}}
        if "se" in response:
            own["sigma"] = np.hypot(rows["se"], own["sigma"])
        if "precision" in response:
            own["sigma"] = own["sigma"] / np.sqrt(rows["precision"])
        return family.log_lik(y, eta, own)

    return replace(family, log_lik=log_lik)


def with_known(family: Family, name: str) -> Family:
    """Return a family one of whose parameters is data."""
    others = tuple(each for each in family.auxiliary if each.name != name)
    return replace(family, auxiliary=others, known=name)


def _weights(response: Sequence[str], values: Values) -> Any:
    """Return what the log likelihood of each row is multiplied by."""
    weights = np.asarray(values["weights"])
    if "weights_mean" in response:
        return weights / values["weights_mean"]
    return weights


def _censored(
    family: Family, response: Sequence[str], density: FloatArray, at: tuple[Any, Any, Values]
) -> FloatArray:
    """Return the log likelihood of rows of which some are censored, within their bounds."""
    y, eta, values = at
    cens, here = values["cens"], _tails(family, y, eta, values)
    above, below = here[1], here[0]
    if "ub" in response:
        above = _log_between(here, _tails(family, values["ub"], eta, values))
    if "lb" in response:
        below = _log_between(_below(family, eta, values), here)
    found = np.where(cens == 1, above, density)
    found = np.where(cens == -1, below, found)
    if "y2" in response:
        within = _log_between(here, _tails(family, values["y2"], eta, values))
        found = np.where(cens == 2, within, found)
    return found


def _log_inside(
    family: Family, response: Sequence[str], eta: FloatArray, values: Values
) -> FloatArray:
    """Return the log of the probability of the rows' bounds."""
    if "ub" not in response:
        return _below(family, eta, values)[1]
    upper = _tails(family, values["ub"], eta, values)
    if "lb" not in response:
        return upper[0]
    return _log_between(_below(family, eta, values), upper)


def _tails(family: Family, y: Any, eta: FloatArray, values: Values) -> Tails:
    """Return the logs of the probabilities of values up to y, and above y."""
    assert family.tails is not None
    return family.tails(np.asarray(y, dtype=np.float64), eta, values)


def _below(family: Family, eta: FloatArray, values: Values) -> Tails:
    """Return the logs of the probabilities of values below the lower bound, and not below it."""
    lb = np.asarray(values["lb"], dtype=np.float64)
    if family.is_discrete:
        lb = lb - 1
    return _tails(family, lb, eta, values)


def _log_between(low: Tails, high: Tails) -> FloatArray:
    """Return the log of a probability between two values, from the tails that are smaller."""
    is_left = low[0] < low[1]
    large, small = np.where(is_left, high[0], low[1]), np.where(is_left, low[0], high[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(large + np.log(-np.expm1(np.minimum(small - large, 0.0))))


def replicated(
    family: Family, response: Sequence[str], eta: FloatArray, values: Values, rng: Generator
) -> FloatArray:
    """Draw responses within the bounds that `values` has for each row."""
    if "unit" in response:
        normal = rng.standard_normal(eta.shape)
        rngs = [rng] * int(np.max(values["unit"]))
        return in_units(family, eta, values, normal, rngs)
    found = family.draw(eta, values, rng)
    if "previous" in response:
        return eta + along_series(found - eta, values)
    if not {"lb", "ub"}.intersection(response):
        return found
    ends: Values = {"lb": -np.inf, "ub": np.inf}
    ends = {**ends, **{name: values[name] for name in ends if name in response}}
    low, high = (np.broadcast_to(np.asarray(end, dtype=float), eta.shape) for end in ends.values())
    for _ in range(MOST_REDRAWN):
        outside = (found < low) | (found > high)
        if not outside.any():
            return found
        found = np.where(outside, family.draw(eta, values, rng), found)
    outside = (found < low) | (found > high)
    names = [*(each.name for each in family.auxiliary), *[family.known] * bool(family.known)]
    names += ["trials"] * family.has_trials
    own = {name: np.broadcast_to(values[name], eta.shape)[outside] for name in names}
    found[outside] = _inverted(family, eta[outside], own, (low[outside], high[outside]), rng)
    return found


def _inverted(
    family: Family,
    eta: FloatArray,
    values: Values,
    bounds: tuple[FloatArray, FloatArray],
    rng: Generator,
) -> FloatArray:
    """Draw responses within bounds by bisecting for the value with a random probability below it.

    Bisection works on a scale that is linear near 0 and logarithmic far from it.
    """
    step = 1.0 if family.is_discrete else 0.0
    lower, upper = bounds
    least, most = np.clip(family.limits, -1e300, 1e300)
    low, high = np.maximum(lower - step, least - step), np.minimum(upper, most)
    start = _tails(family, low, eta, values)
    target = np.log(rng.random(eta.shape)) + _log_between(start, _tails(family, high, eta, values))
    below, above = np.arcsinh(low), np.arcsinh(high)
    for _ in range(_STEPS):
        middle = 0.5 * (below + above)
        at = _tails(family, np.sinh(middle), eta, values)
        is_above = _log_between(start, at) >= target
        below, above = np.where(is_above, below, middle), np.where(is_above, middle, above)
    found: FloatArray = np.sinh(above)
    if family.is_discrete:
        # The probability jumps at a whole number, which bisection approaches from above.
        found = np.floor(found + 1e-6 * np.maximum(1.0, np.abs(found)))
    return np.asarray(np.clip(found, lower, upper))


def as_censored(
    y_rep: FloatArray,
    data: Mapping[str, Any],
    rng: Generator,
    every: Mapping[str, Any] | None = None,
) -> FloatArray:
    """Return replicates of uncensored responses as they would have been recorded.

    A right-censored row ends at its own time of censoring. When another row would have been
    censored is only known to be later than its response: the time is drawn from the Kaplan-Meier
    estimate of these times among all rows, given that it is later; left-censored rows are the
    mirror image. An interval-censored row is recorded as the lower end of an interval, one of equal
    intervals of which the row's own is one.

    Parameters
    ----------
    y_rep : array, shape (chain, draw, N)
        The replicates.
    data : mapping of str to array
        The values of these rows: ``y``, ``cens`` and perhaps ``y2``.
    rng : numpy.random.Generator
        The generator of the times of censoring.
    every : mapping of str to array, optional
        The values of all rows, from which the times are estimated. Default: `data`.
    """
    every = data if every is None else every
    all_y, all_cens = np.asarray(every["y"], dtype=np.float64), np.asarray(every["cens"])
    y, cens = np.asarray(data["y"], dtype=np.float64), np.asarray(data["cens"])
    found = y_rep
    if "y2" in data:
        own = cens == 2
        width = np.where(own, np.asarray(data["y2"], dtype=np.float64) - y, 1.0)
        cell = np.ceil((found - y) / width) - 1
        found = np.where(own, y + cell * width, found)
    upper = _limits(y, cens == 1, found.shape, rng, (all_y, all_cens == 1))
    lower = -_limits(-y, cens == -1, found.shape, rng, (-all_y, all_cens == -1))
    return np.maximum(np.minimum(found, upper), lower)


def recorded(y: FloatArray, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of simulated responses, of which some are censored.

    The rows that are censored in the data block, whose times of censoring are therefore known, are
    censored at these times; no other row is.

    Parameters
    ----------
    y : array, shape (N,)
        The responses without censoring.
    data : mapping of str to array
        The data block.
    """
    limit, cens = np.asarray(data["y"]), np.asarray(data["cens"])
    above, below = (cens == 1) & (y > limit), (cens == -1) & (y < limit)
    kinds = above.astype(np.int64) - below.astype(np.int64)
    return {"y": np.where(kinds != 0, limit, y), "cens": kinds}


def _limits(
    y: FloatArray,
    censored: Any,
    shape: tuple[int, ...],
    rng: Generator,
    every: tuple[FloatArray, Any],
) -> FloatArray:
    """Return a time of right-censoring for each row of each replicate; infinite if none is seen.

    `every` has the responses of all rows, and which of them are censored.
    """
    all_y, all_censored = every
    found = np.full(shape, np.inf)
    if not all_censored.any():
        return found
    times, num = np.unique(all_y[all_censored], return_counts=True)
    at_risk = len(all_y) - np.searchsorted(np.sort(all_y), times)
    beyond = np.concatenate([[1.0], np.cumprod(1 - num / at_risk)])  # P(C > each time)
    reached = beyond[np.searchsorted(times, y)]  # P(C >= y)
    place = np.searchsorted(-beyond[1:], -reached * rng.random(shape))
    found = np.append(times, np.inf)[place]
    return np.where(censored, y, found)
