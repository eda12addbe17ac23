"""Estimates of a formula's parameters by the likelihood alone, one step from the posterior.

The estimates start at the posterior means. With the sds of group effects held there, Newton steps
without the priors of the coefficients β lead to the solution of the mixed model equations. With the
columns C of β, Z of the group effects r, their covariance G, the first and second derivatives u and
-w of the log likelihood with respect to the linear predictor, and W = diag(w),

    (C'WC  C'WZ      ) (dβ)   (C'u         )
    (Z'WC  Z'WZ + G⁻¹) (dr) = (Z'u − G⁻¹ r).

The variances of β are the diagonal of the inverse of the Schur complement of Z'WZ + G⁻¹.

If a prior pulls β away from the data, the other parameters of the family compensate: sigma is too
large, or the shape of a negative binomial is too small, and the variances of β are too large. These
other parameters are therefore multiplied by the ratio of their conditional maximum likelihood
estimates at the solution and at the posterior means, and the steps are repeated. Without a conflict
this ratio is near 1.

A parameter that has its own linear predictor is solved for in the same way, given the linear
predictor of the response, and the two solutions alternate. This ignores the information that they
share; for a normal response, they share none.

References
----------
Henderson (1975), Best linear unbiased estimation and prediction under a selection model, Biometrics
31(2). Breslow and Clayton (1993), Approximate inference in generalized linear mixed models, JASA
88(421), section 2, for responses that are not normal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pyflowers.programs.capabilities import Draws, LikelihoodAlone
from pyflowers.programs.data import Data
from pyflowers.programs.families import TRIALS, Family, FloatArray
from pyflowers.programs.families._response import given_rows
from pyflowers.programs.formulas.curves import Smooth
from pyflowers.programs.formulas.part import ETA, is_constant
from pyflowers.programs.formulas.predictor import Group, LinearPredictor

MOST_STEPS = 12
MOST_ROUNDS = 4
"""The largest number of times that the other parameters of the family are adjusted."""

SMALL_CHANGE = 0.02
"""The relative change of the family's other parameters below which the rounds end."""

MOST_EFFECTS = 2_000
"""The largest number of group effects for which the likelihood of their sds is computed."""

LEAST_FALL = 5.0
"""The drop of a log likelihood that excludes values, at about 3.2 standard errors."""

FLAT = 1e-12
"""The likelihood counts as flat along an axis if its curvature there is below this share of its
largest curvature."""

LARGEST_STEP = 4.0
"""The largest change of a linear predictor in a step, in units that :func:`_unit` returns."""


def likelihood_alone(
    family: Family,
    linear: Sequence[LinearPredictor],
    draws: Draws,
    data: Data,
    response: Sequence[str] = (),
) -> dict[str, LikelihoodAlone]:
    """Return estimates of the top-level parameters from the likelihood alone.

    Parameters
    ----------
    family : Family
        The family of the response.
    linear : sequence of LinearPredictor
        The linear predictors of the response and of other parameters.
    draws : mapping of str to array, shape (chain, draw, …)
        The posterior.
    data : Data
        The whole data block.
    response : sequence of str
        The variables of the response's terms.
    """
    values = data.values
    means = {quantity: np.mean(its, axis=(0, 1)) for quantity, its in draws.items()}
    # A fixed parameter is in the data block.
    known = [each.name for each in family.auxiliary]
    groups = [its.name for each in linear for its in each.groups]
    known += [*(f"sd_{name}" for name in groups), *(f"cor_{name}" for name in groups)]
    fixed = [name for name in known if name in values]
    means |= {name: np.asarray(values[name], dtype=np.float64) for name in fixed}
    kept = np.broadcast_to(np.asarray(values["held_out"]) == 0, (data.num_obs,))
    rows = _rows(values, data.num_obs)[kept]
    if family.has_categories:  # the linear predictor of the reference is 0
        linear = [LinearPredictor(ETA, ""), *linear]
    first, *others = (_Predictor(each, values, means, rows) for each in linear)
    if not (first.names or family.has_categories):
        return {}
    y = data.rows_of_y[kept].ravel()
    predicted = {each.target.name for each in others}
    alone_of = [each.name for each in family.auxiliary if each.name not in predicted]
    other = {
        name: np.asarray(means.get(name, values.get(name)))[None, None, ..., None]
        for name in alone_of
    }
    if family.is_ordinal and "X_mean" in values:
        at_means = draws["threshold"] - (draws["b"] @ np.asarray(values["X_mean"]))[..., None]
        other["threshold"] = at_means.mean(axis=(0, 1))[None, None, :, None]
    of_rows = {n: np.broadcast_to(values[n], (data.num_obs,))[kept] for n in response}
    family = given_rows(family, response, of_rows)
    if family.known:
        other[family.known] = of_rows[family.known]
    if TRIALS in values:
        other[TRIALS] = np.broadcast_to(values[TRIALS], (data.num_obs,))[kept]
    inverses = {its.name: its.link.from_linear for its in family.auxiliary if its.link}
    for each in others:
        other[each.target.name] = inverses[each.target.name](each.linear, 0.0)[None, None]
    bounded = [its.name for its in family.estimated if np.isfinite(its.bounds[0])]
    auxiliary = [name for name in bounded if name not in (*predicted, *fixed)]

    def of_response(eta: FloatArray) -> FloatArray:
        """Return the log likelihood of each row."""
        return np.asarray(family.log_lik(y, eta[None, None], other)[0, 0])

    def of_parameter(name: str, at: FloatArray) -> FloatArray:
        """Return the log likelihood of each row, given the linear predictor of a parameter."""
        own = {**other, name: inverses[name](at, 0.0)[None, None]}
        return np.asarray(family.log_lik(y, first.linear[None, None], own)[0, 0])

    def of_auxiliaries() -> dict[str, LikelihoodAlone]:
        return {name: _of_auxiliary(family, name, y, first.linear, other) for name in auxiliary}

    at_means = of_auxiliaries()
    for _ in range(MOST_ROUNDS):
        if first.names:
            first.solve(of_response, _unit(other))
        alone, changed = of_auxiliaries(), False
        for name in auxiliary:
            if np.isfinite(alone[name].variance) and np.isfinite(at_means[name].variance):
                ratio = float(alone[name].estimate / at_means[name].estimate)
                value = np.full((1, 1, 1), means[name] * ratio)
                changed |= bool(abs(np.log(value / other[name])) > SMALL_CHANGE)
                other[name] = value
        for each in others:
            before, name = each.linear, each.target.name
            each.solve(partial(of_parameter, name), 1.0)
            other[name] = inverses[name](each.linear, 0.0)[None, None]
            changed |= bool(np.abs(each.linear - before).max(initial=0.0) > SMALL_CHANGE)
        if not changed:
            break
    found = {**first.estimates(), **alone}
    for each in others:
        found |= each.estimates()
    found |= dict(first.sds_alone(of_response, _unit(other)))
    for each in others:
        found |= dict(each.sds_alone(partial(of_parameter, each.target.name), 1.0))
    return found


class _Predictor:
    """A linear predictor: its coefficients β and its group effects r, which `solve` updates."""

    def __init__(
        self,
        linear: LinearPredictor,
        values: Mapping[str, Any],
        means: Mapping[str, FloatArray],
        rows: Any,
    ):
        self.target = linear.target
        columns, self.beta, self.names = _columns(linear, values, means)
        self.columns = columns[rows] if self.names else np.empty((len(rows), 0))
        self.effects = _Effects(linear, values, means, rows)
        self.r = self.effects.start
        self.variance = np.zeros(len(self.beta))
        self.fixed, self.is_free = np.zeros(len(rows)), np.ones(len(self.beta), dtype=bool)
        if self.names and linear.population is not None:
            # Coefficients that the user fixes are last, in the order of the columns.
            given = linear.population.given
            places = [i - len(given) for i, its in enumerate(given) if is_constant(its)]
            self.fixed = self.columns[:, places] @ self.beta[places]
            self.columns[:, places] = 0.0
            self.is_free[places] = False
        intercept = linear.given_intercept
        if intercept is not None and is_constant(intercept):
            self.fixed = self.fixed + intercept.arguments[0]
        for number in range(1, len(linear.offsets) + 1):
            own = np.asarray(values[f"offset{linear.tag}_{number}"], dtype=float)
            self.fixed = self.fixed + own[rows]
        # Monotonic effects and processes are held at their posterior means.
        for its in linear.curves:
            if isinstance(its, Smooth):
                continue
            name = f"{its.name}{linear.tag}"
            own = np.asarray(values[f"{its.matrix}_{name}"], dtype=float)
            self.fixed = self.fixed + own[rows] @ means[f"{its.coefficients}_{name}"]

    @property
    def linear(self) -> FloatArray:
        """The linear predictor of each row."""
        return self.fixed + self.columns @ self.beta + self.effects.times(self.r)

    def solve(self, log_lik: RowsLogLik, unit: float) -> None:
        """Update β, without its prior, and r to the solution, and store the variances of β."""
        columns, effects = self.columns[:, self.is_free], self.effects
        for _ in range(MOST_STEPS):
            u, w = _derivatives(log_lik, self.linear, unit)
            left, right = effects.reduced(columns, w, u, self.r)
            diagonal = np.diagonal(left)
            size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
            values, vectors = np.linalg.eigh(left / np.outer(size, size))
            is_flat = values < FLAT * max(values.max(initial=0.0), 1e-300)
            axes = vectors[:, ~is_flat] / size[:, None]
            step = axes @ ((axes.T @ right) / values[~is_flat])
            step_r = effects.step(columns, w, u, self.r, step)
            moved = np.abs(columns @ step + effects.times(step_r)).max(initial=0.0)
            factor = 1.0
            if moved > LARGEST_STEP * unit:
                factor = LARGEST_STEP * unit / moved
            self.beta[self.is_free] += factor * step
            self.r = self.r + factor * step_r
            if moved < 1e-3 * unit:
                break
        # Along a flat direction, the likelihood does not determine the coefficients.
        along = vectors**2 / np.where(is_flat, FLAT, values)
        self.variance[self.is_free] = along.sum(axis=1) / size**2

    def estimates(self) -> dict[str, LikelihoodAlone]:
        """Return the estimates of the sampled coefficients."""
        found, at = {}, 0
        for name, num in self.names.items():
            own = slice(at, at + num) if num else at
            found[name] = LikelihoodAlone(
                np.asarray(self.beta[own]), np.asarray(self.variance[own])
            )
            at += max(num, 1)
        return found

    def sds_alone(self, log_lik: RowsLogLik, unit: float) -> Iterator[tuple[str, LikelihoodAlone]]:
        """Yield the estimates of the group effects' sds."""
        u, w = _derivatives(log_lik, self.linear, unit)
        return self.effects.sds_alone(w, u, self.r)


def _of_auxiliary(
    family: Family, name: str, y: FloatArray, eta: FloatArray, other: Mapping[str, Any]
) -> LikelihoodAlone:
    """Return the estimate of another parameter of the family, given the linear predictor."""

    def log_lik(log_value: float) -> float:
        value = np.full((1, 1, 1), np.exp(log_value))
        with np.errstate(all="ignore"):
            return float(np.sum(family.log_lik(y, eta[None, None], {**other, name: value})))

    return _peak(log_lik, np.log(float(np.ravel(other[name])[0])))


def _peak(log_density: Callable[[float], float], start: float) -> LikelihoodAlone:
    """Return the peak of a log density in the log of a parameter, and the width of the peak.

    The variance is infinite if the log density does not fall by `LEAST_FALL` on both sides: the
    likelihood then does not bound the parameter.
    """
    coarse = start + np.linspace(-4, 10, 15)
    values = np.array([log_density(at) for at in coarse])
    ends, near = values[[0, -1]], coarse[_top(values)]
    grid = np.linspace(max(near - 1, coarse[0]), min(near + 1, coarse[-1]), 9)
    values = np.array([log_density(at) for at in grid])
    top = _top(values)
    is_bounded = (values[top] - np.where(np.isnan(ends), -np.inf, ends) > LEAST_FALL).all()
    is_inside = 0 < top < len(grid) - 1
    if not (is_bounded and is_inside and np.isfinite(values[top - 1 : top + 2]).all()):
        return LikelihoodAlone(np.exp(grid[[top]])[0], np.array(np.inf), is_log=True)
    step = grid[1] - grid[0]
    low, middle, high = values[top - 1 : top + 2]
    curvature = (2 * middle - low - high) / step**2
    at = grid[top] + (high - low) / (2 * step) / max(curvature, 1e-300)
    at = float(np.clip(at, grid[top - 1], grid[top + 1]))
    # With steps as wide as the grid's, the peak of a precise parameter looks too wide.
    h = min(step, 0.5 / np.sqrt(max(curvature, 1e-12)))
    low, middle, high = (log_density(at + d) for d in (-h, 0.0, h))
    curvature = (2 * middle - low - high) / h**2
    variance = np.inf
    if curvature > 0:
        variance = 1 / curvature
    return LikelihoodAlone(np.array(np.exp(at)), np.array(variance), is_log=True)


def _top(values: FloatArray) -> int:
    """Return the position of the largest finite value."""
    return int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))


def _columns(
    linear: LinearPredictor, values: Mapping[str, Any], means: Mapping[str, FloatArray]
) -> tuple[FloatArray, FloatArray, dict[str, int]]:
    """Return the columns of the sampled coefficients, their posterior means, and their names."""
    parts, start, names, tag = list[FloatArray](), list[Any](), dict[str, int](), linear.tag
    intercept, num = means.get(f"Intercept{tag}", 0.0), int(values.get("D", values["N"]))
    of_columns: tuple[FloatArray, FloatArray, str] | None = None
    if linear.population is not None:
        matrix, b, name = np.asarray(values[f"X{tag}"], dtype=float), means[f"b{tag}"], f"b{tag}"
        if linear.is_shifted:
            shift = np.asarray(values[f"X{tag}_mean"])
            matrix, intercept = matrix - shift, intercept + shift @ b
        if f"adjustment{tag}" in values:
            adjustment = np.asarray(values[f"adjustment{tag}"], dtype=float)
            matrix, b = matrix @ adjustment, np.linalg.solve(adjustment, b)
            name = f"b_adjusted{tag}"
        if f"b{tag}_scale" not in values and not linear.population.given:
            return np.empty((0, 0)), np.empty(0), {}
        of_columns = matrix, b, name
    if linear.intercept is not None and not is_constant(linear.given_intercept):
        parts.append(np.ones((num, 1)))
        start.append(intercept)
        at_means = "_at_means" if linear.is_shifted else ""
        names[f"Intercept{tag}{at_means}"] = 0
    if of_columns is not None:
        matrix, b, name = of_columns
        parts.append(matrix)
        start += list(b)
        names[name] = len(b)
    if not parts:
        return np.empty((0, 0)), np.empty(0), {}
    return np.hstack(parts), np.array(start, dtype=float), names


def _rows(values: Mapping[str, Any], num: int) -> Any:
    """Return the position of each observation among the rows of the design."""
    if "cell" in values:
        return np.asarray(values["cell"]) - 1
    return np.arange(num)


def _unit(other: Mapping[str, Any]) -> float:
    """Return a change of the linear predictor that changes a log density by about 1."""
    return float(np.median(other["sigma"])) if "sigma" in other else 1.0


RowsLogLik = Callable[[FloatArray], FloatArray]
"""Function of a linear predictor that returns the log likelihood of each row."""


def _derivatives(log_lik: RowsLogLik, at: FloatArray, unit: float) -> tuple[FloatArray, FloatArray]:
    """Return the first derivative of each row's log likelihood, and minus the second."""
    h = 1e-3 * unit
    with np.errstate(all="ignore"):
        low, middle, high = (log_lik(at + d) for d in (-h, 0.0, h))
    u, w = (high - low) / (2 * h), (2 * middle - low - high) / h**2
    ok = np.isfinite(u) & np.isfinite(w)
    return np.where(ok, u, 0.0), np.where(ok, np.maximum(w, 0.0), 0.0)


@dataclass(frozen=True)
class _Term:
    """The effects of a group term, or the coefficients of a smooth.

    Attributes
    ----------
    sds : array
        Their standard deviations at the posterior means.
    shape : tuple of int
        The shape of the standard deviations in the draws.
    precision : callable
        Function of the standard deviations that returns the inverse of the effects' covariance.
    num : array
        The number of effects with each standard deviation.
    """

    sds: FloatArray
    shape: tuple[int, ...]
    precision: Callable[[FloatArray], Any]
    num: FloatArray


class _Effects:
    """The effects of groups and the coefficients of smooths as one vector."""

    def __init__(
        self,
        linear: LinearPredictor,
        values: Mapping[str, Any],
        means: Mapping[str, FloatArray],
        rows: Any,
    ):
        from scipy import sparse

        self.num_rows = len(rows)
        self.terms: dict[str, _Term] = {}
        columns, start = [], list[FloatArray]()
        for group in linear.groups:
            columns.append(_columns_of_group(group, values, rows))
            self.terms[f"sd_{group.name}"] = _of_group(group, values, means)
            start.append(np.ravel(means[f"r_{group.name}"]))
        for its in linear.curves:
            if not isinstance(its, Smooth):
                continue
            name = f"{its.name}{linear.tag}"
            matrix = np.asarray(values[f"S_{name}"], dtype=float)[rows]
            columns.append(sparse.csr_array(matrix))
            level = np.asarray(values.get(f"level_s_{name}", np.ones(matrix.shape[1])), dtype=int)
            self.terms[f"sds_{name}"] = _by_level(means[f"sds_{name}"], level - 1)
            start.append(np.ravel(means[f"s_{name}"]))
        self.z = self.precision = None
        self.start = np.empty(0)
        if columns:
            self.z = sparse.hstack(columns, format="csr")
            self.start = np.concatenate(start)
            self.precision = self._precision({name: its.sds for name, its in self.terms.items()})

    def _precision(self, sds: Mapping[str, FloatArray]) -> Any:
        """Return the inverse of the covariance of the effects."""
        from scipy import sparse

        first, *others = (its.precision(sds[name]) for name, its in self.terms.items())
        if others:
            first = sparse.block_diag([first, *others])
        return sparse.csc_array(first)

    def sds_alone(
        self, w: FloatArray, u: FloatArray, r: FloatArray
    ) -> Iterator[tuple[str, LikelihoodAlone]]:
        """Yield the estimate of each sd, with the other sds at their posterior means.

        The estimate maximises the likelihood of a normal response with weights w, from which the
        effects are integrated out.
        """
        if self.z is None or len(r) > MOST_EFFECTS:
            return
        from scipy.sparse.linalg import splu

        weighted = self.z.T.multiply(w).tocsr()
        products, score = weighted @ self.z, weighted @ (self.z @ r) + self.z.T @ u
        at_means = {name: its.sds for name, its in self.terms.items()}
        for name, term in self.terms.items():
            found = []
            for i in range(len(term.sds)):

                def log_lik(
                    log_sd: float, i: int = i, name: str = name, term: _Term = term
                ) -> float:
                    own = term.sds.copy()
                    own[i] = np.exp(log_sd)
                    factor = splu((products + self._precision({**at_means, name: own})).tocsc())
                    log_det = np.sum(np.log(np.abs(factor.U.diagonal())))
                    explained = 0.5 * score @ factor.solve(score)
                    return float(explained - 0.5 * log_det - term.num[i] * log_sd)

                found.append(_peak(log_lik, float(np.log(term.sds[i]))))
            yield (
                name,
                LikelihoodAlone(
                    np.array([float(its.estimate) for its in found]).reshape(term.shape),
                    np.array([float(its.variance) for its in found]).reshape(term.shape),
                    is_log=True,
                ),
            )

    def times(self, r: FloatArray) -> FloatArray:
        """Return the sum of the effects in each row."""
        if self.z is None:
            return np.zeros(self.num_rows)
        return np.asarray(self.z @ r)

    def reduced(
        self, columns: FloatArray, w: FloatArray, u: FloatArray, r: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the equations for the coefficients, from which the effects are eliminated."""
        left, right = columns.T @ (w[:, None] * columns), columns.T @ u
        if self.z is None or self.precision is None:
            return left, right
        from scipy.sparse.linalg import splu

        weighted = self.z.T.multiply(w).tocsr()
        self.factor = splu((weighted @ self.z + self.precision).tocsc())
        self.cross = np.asarray(weighted @ columns)
        self.score = np.asarray(self.z.T @ u - self.precision @ r)
        solved = self.factor.solve(self.cross)
        return left - self.cross.T @ solved, right - solved.T @ self.score

    def step(
        self, columns: FloatArray, w: FloatArray, u: FloatArray, r: FloatArray, step: FloatArray
    ) -> FloatArray:
        """Return the step of the effects, given the step of the coefficients."""
        if self.z is None:
            return np.zeros(0)
        return np.asarray(self.factor.solve(self.score - self.cross @ step))


def _columns_of_group(its: Group, values: Mapping[str, Any], rows: Any) -> Any:
    """Return the columns of a group's effects."""
    from scipy import sparse

    z, num = np.ones((len(rows), 1)), int(values[f"N_{its.index}"])
    if f"Z_{its.name}" in values:
        z = np.asarray(values[f"Z_{its.name}"])[rows]
    size, total = z.shape[1], 0.0
    for index, weight in its.shares(values):
        group = np.asarray(values[index])[rows] - 1
        if np.ndim(weight):
            weight = np.asarray(weight)[rows][:, None]
        place = group[:, None] * size + np.arange(size)
        indices = (np.repeat(np.arange(len(rows)), size), place.ravel())
        cells = np.ravel(z * weight)
        total = total + sparse.csr_array((cells, indices), (len(rows), num * size))
    return total


def _of_group(its: Group, values: Mapping[str, Any], means: Mapping[str, FloatArray]) -> _Term:
    """Return a group's effects: their sds, and the precision that these sds imply."""
    from scipy import sparse

    name, num = its.name, int(values[f"N_{its.index}"])
    mean = means[f"sd_{name}"]
    if its.factor:
        level = np.asarray(values[f"by_{name}"]) - 1
        if its.is_intercept:
            return _by_level(mean, level)
        return _several_by_level(mean, means.get(f"cor_{name}"), level)
    sds = np.maximum(np.atleast_1d(mean), 1e-8)
    among_labels = sparse.eye(num)
    if its.labels:
        known = np.asarray(values[f"known_{name}"], dtype=float)
        among_labels = sparse.csr_array(np.linalg.inv(known))
    among_effects = np.linalg.pinv(_correlation(means.get(f"cor_{name}"), len(sds)), hermitian=True)
    of_unit = sparse.coo_array(sparse.kron(among_labels, among_effects))
    places = of_unit.row, of_unit.col

    def precision(own: FloatArray) -> Any:
        scale = np.tile(1 / own, num)
        cells = of_unit.data * scale[places[0]] * scale[places[1]]
        return sparse.coo_array((cells, places), of_unit.shape)

    return _Term(sds, mean.shape, precision, np.full(len(sds), float(num)))


def _by_level(mean: FloatArray, level: Any) -> _Term:
    """Return independent effects, each with the standard deviation of its level."""
    from scipy import sparse

    sds = np.maximum(np.atleast_1d(mean), 1e-8)
    number = np.bincount(level, minlength=len(sds)).astype(float)

    def precision(own: FloatArray) -> Any:
        return sparse.dia_array(sparse.diags(1 / own[level] ** 2))

    return _Term(sds, mean.shape, precision, number)


def _several_by_level(mean: FloatArray, cor: FloatArray | None, level: Any) -> _Term:
    """Return effects of each label with the standard deviations and correlations of its level."""
    from scipy import sparse

    num, size = mean.shape
    sds = np.maximum(mean.ravel(), 1e-8)
    matrices = [_correlation(None if cor is None else cor[i], size) for i in range(num)]

    def precision(own: FloatArray) -> Any:
        pairs = zip(matrices, own.reshape(num, size), strict=True)
        inverses = [np.linalg.pinv(of * np.outer(sd, sd), hermitian=True) for of, sd in pairs]
        return sparse.block_diag([inverses[i] for i in level])

    number = np.repeat(np.bincount(level, minlength=num), size).astype(float)
    return _Term(sds, sds.shape, precision, number)


def _correlation(above: FloatArray | None, size: int) -> FloatArray:
    """Return the correlation matrix with this upper triangle by row; without one, the identity."""
    found = np.eye(size)
    if above is not None:
        found[np.triu_indices(size, 1)] = above
        found = found + np.triu(found, 1).T
    return found
