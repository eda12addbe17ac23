"""Parameters on the whole real line: their values, and the density of their priors there.

A parameter with a lower bound is the exponential of a coordinate; one with two bounds is a logistic
function of it. The coordinates of ordered parameters are the first value and the logs of the
differences. The coordinates of a correlation matrix of effects are the inverse hyperbolic tangents
of the canonical partial correlations. The density of the coordinates is the density of the
parameters times the Jacobian.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.densities import mass_within, partial_correlations
from pyflowers.programs.linear import Coefficients, Effects, Parameter, log_prior

FloatArray = NDArray[np.float64]
Values = dict[str, FloatArray]
"""Values by name, each shaped (point, …)."""


class Coordinates:
    """The coordinates of parameters, of the sds and correlations of effects, and of coefficients.

    Parameters
    ----------
    parameters : sequence of Parameter
        The parameters of the family.
    effects : sequence of Effects
        The effects, whose sds and correlations have coordinates.
    coefficients : sequence of Coefficients
        The coefficients that have coordinates.
    units : sequence of (array, array)
        For each of `coefficients`, the location and the scale of its coordinates.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        effects: Sequence[Effects],
        coefficients: Sequence[Coefficients] = (),
        units: Sequence[tuple[FloatArray, FloatArray]] = (),
    ) -> None:
        self.parameters = [*parameters, *(each.sd for each in effects)]
        self.effects, self.coefficients, self.units = effects, coefficients, units
        sizes = [len(each.priors) for each in self.parameters]
        sizes += [_num_pairs(each) for each in effects]
        sizes += [len(each.priors) for each in coefficients]
        ends = np.cumsum(sizes)
        self.slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.size = int(sum(sizes))

    @property
    def slow_sides(self) -> NDArray[np.bool_]:
        """Whether each coordinate may have an exponential tail, shape (2, size): left, then right.

        The density of a log falls like exp(t) on the left if the parameter may be 0. On the right,
        it falls like a power of exp(-t) if the data hardly bound the parameter: for example, a
        negative binomial with a large shape is almost Poisson. Data bound the sds of effects.
        """
        found = np.zeros((2, self.size), dtype=bool)
        for its, place in zip(self.parameters, self.slices, strict=False):
            if math.isfinite(its.lower) and not its.is_ordered:
                found[0, place], found[1, place] = True, bool(its.role)
        return found

    @property
    def log_constant(self) -> float:
        """The constant that normalises the priors within their bounds; NaN if one is improper."""
        total = 0.0
        for its in self.parameters:
            for prior in its.priors:
                total -= math.log(mass_within(prior, its.lower, its.upper))
            if its.is_ordered:
                total += math.lgamma(len(its.priors) + 1)
        own = (each for its in self.parameters for each in its.priors)
        of_columns = (each for its in self.coefficients for each in its.priors)
        for each in itertools.chain(own, of_columns):
            if each is None or each.log_density is None:
                return math.nan
        return total

    def values(self, points: FloatArray) -> tuple[Values, FloatArray, FloatArray]:
        """Return the values at points, shape (T, size).

        Returns
        -------
        values : dict of str to array, shape (T, element)
            The parameters, correlations and coefficients by name, and the Cholesky factor of
            the covariance matrix by the name of its effects, shape (T, M, M).
        log_density : array, shape (T,)
            The log density of the priors, with respect to the coordinates.
        lprior : array, shape (T,)
            The log density of the priors, as Stan programs compute it.
        """
        with np.errstate(over="ignore"):  # far out, values are infinite and densities are 0
            return self._values(points)

    def _values(self, points: FloatArray) -> tuple[Values, FloatArray, FloatArray]:
        """See :meth:`values`."""
        found: Values = {}
        lprior = np.zeros(len(points))
        log_jacobian = np.zeros(len(points))
        places = iter(self.slices)
        for its in self.parameters:
            found[its.name], more = _bounded(its, points[:, next(places)])
            lprior += log_prior(its.priors, found[its.name])
            log_jacobian += more
        for term in self.effects:
            place, sd = next(places), found[term.sd.name]
            if not term.correlations:
                found[term.name] = sd[..., None] * np.eye(term.num_effects)
                continue
            coordinates = points[:, place]
            factor, log_density, of_factor = partial_correlations(
                np.tanh(coordinates), term.num_effects, term.eta
            )
            found[term.name] = sd[..., None] * factor
            above = np.triu_indices(term.num_effects, 1)
            found[term.correlations] = (factor @ np.swapaxes(factor, -1, -2))[:, *above]
            lprior += of_factor
            # 1 - tanh², without cancellation
            size = np.abs(coordinates)
            log_slope = 2 * (math.log(2) - size - np.log1p(np.exp(-2 * size)))
            log_jacobian += log_density - of_factor + log_slope.sum(axis=1)
        for each, (location, scale) in zip(self.coefficients, self.units, strict=True):
            found[each.name] = location + scale * points[:, next(places)]
            lprior += log_prior(each.priors, found[each.name])
            log_jacobian += np.log(scale).sum()
        return found, lprior + log_jacobian, lprior

    def start(self, values: Mapping[str, float]) -> FloatArray:
        """Return a point near given values of parameters, each for all elements of a parameter.

        Parameters that are not named start near the medians of their priors within the bounds, and
        everything else at 0.
        """
        point = np.zeros(self.size)
        for its, place in zip(self.parameters, self.slices, strict=False):
            if its.is_ordered:
                num = place.stop - place.start
                point[place] = np.log(4 / max(num - 1, 1))
                point[place.start] = -2.0
                continue
            if its.name in values:
                value = values[its.name]
            else:
                quantile = its.priors[0].quantile
                is_free = math.isinf(its.lower)
                value = 1.0 if quantile is None else quantile(0.5 if is_free else 0.75)
            if math.isfinite(its.upper):
                point[place] = -1.0
            elif math.isfinite(its.lower):
                point[place] = math.log(max(value - its.lower, 1e-3))
            else:
                point[place] = value
        return point


def in_parts(points: FloatArray, num: float) -> list[FloatArray]:
    """Divide points into about `num` equally large parts of at least one point."""
    return np.array_split(points, max(1, min(math.ceil(num), len(points))))


def _num_pairs(term: Effects) -> int:
    """Return the number of correlations of a group's effects."""
    return term.num_effects * (term.num_effects - 1) // 2 if term.correlations else 0


def _bounded(its: Parameter, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a parameter's values, and the log of their Jacobian, shapes (T, element) and (T,)."""
    if its.is_ordered:
        steps = np.exp(points[:, 1:])
        values = np.cumsum(np.concatenate([points[:, :1], steps], axis=1), axis=1)
        return values, points[:, 1:].sum(axis=1)
    if math.isfinite(its.upper):
        width = its.upper - its.lower
        share = 1 / (1 + np.exp(-points))
        log_both = -np.logaddexp(0, points) - np.logaddexp(0, -points)
        return its.lower + width * share, (log_both + math.log(width)).sum(axis=1)
    if math.isfinite(its.lower):
        return its.lower + np.exp(points), points.sum(axis=1)
    return points, np.zeros(len(points))
