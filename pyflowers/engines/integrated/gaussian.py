"""Normal responses: coefficients and all effects of groups are integrated out.

    y = offset + X b + Σ Z_k r_k + e,    e ~ N(0, sigma²),    r_k[label] ~ N(0, L_k L_k'),

with normal or flat priors on b. Given sigma and the L_k, (b, r) is normal. With standard normal
u_k = L_k^-1 r_k, b in units of its prior sd, and C all columns in these units, (b, u) has the
precision matrix Q = C'C / sigma² + P, where P is 1 on the diagonal, or 0 for a flat prior. If y is
reduced by the prediction at the prior means, and h = C'y / sigma²,

    log p(y) = -N/2 log(2π sigma²) - 1/2 log|Q| - 1/2 (y'y / sigma² - h' Q^-1 h).

Curves and effects with a known covariance are further columns with normal coefficients. Known
standard errors and precisions scale the rows; a sigma in addition to standard errors is the sd of
effects of the rows.

Only the cross products of the columns and y are needed, so the cost of a density does not depend on
the number of rows. In the Cholesky factor of Q with h and y'y / sigma² as its last row, the square
of the last element is the bracket above [1]. The term with the most labels is eliminated first: its
block of Q consists of one block for each label. What remains is one dense matrix,
S = Q_22 - Σ_i B_i' A_i^-1 B_i.

An intercept has a Student t prior, a mixture of normals over the log of a precision factor. The
trapezoidal rule replaces the mixture by a sum, with an error of 1e-12 [2]. The intercept comes
last in the factor, without a prior, so that the factor gives its normal likelihood, and each term
of the sum has a closed form.

References
----------
.. [1] Bates, Mächler, Bolker and Walker (2015), Fitting linear mixed-effects models using lme4,
   J. of Statistical Software 67(1), section 3.
.. [2] Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review
   56(3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.cores import in_order
from pyflowers.engines.integrated.hyper import Coordinates, Values, in_parts
from pyflowers.programs.linear import Coefficients, Effects, LinearModel, Penalised
from pyflowers.programs.linear import log_prior as log_prior_of

FloatArray = NDArray[np.float64]

MOST_LABELS = 4_000
"""The largest number of columns of the dense matrix; beyond it, one density takes a second."""

MOST_PRODUCTS = 30_000_000
"""The largest number of products of cross products that are kept, which take 0.4 GB."""

OF_ROWS = "effects of rows"
"""The name of the effects of rows, with sd sigma, that are added if standard errors are known.

Their draws are not kept.
"""

Columns = TypeVar("Columns", Coefficients, Effects, Penalised)

_CHUNK, _DENSE_CHUNK = 1_000_000, 8_000_000
"""The approximate numbers of elements for points that are computed together: in the arrays with an
element for each label, and in the dense matrices."""

_DENSE = 64
"""The number of columns above which equations are solved point by point."""


def reason_against(model: LinearModel) -> str:
    """Return why this method does not apply to a model; empty if it does."""
    if model.family.as_normal is None:
        return f"with the family {model.family.name}, the response is not normal given the effects"
    if model.predicted:
        return f"{next(iter(model.predicted))} has a formula"
    sizes = [(its.num_labels * its.num_effects, its.back is None) for its in model.effects]
    num = sum(size for size, _ in sizes)
    num -= max((size for size, is_independent in sizes if is_independent), default=0)
    num += sum(its.columns.shape[1] for its in model.coefficients)
    num += sum(its.columns.shape[1] for its in model.penalised)
    if num > MOST_LABELS:
        return (
            f"without the largest group term, {num:,} coefficients and effects remain, whose dense "
            f"matrix would be too large (the limit is {MOST_LABELS:,})"
        )
    students = _students(model)
    if any(math.isnan(location) for location, _, _ in students):
        return "a coefficient's prior is neither normal nor Student's t"
    if sum(math.isfinite(dof) for _, _, dof in students) > 1:
        return "more than one coefficient has a Student t prior"
    return ""


def _students(model: LinearModel) -> list[tuple[float, float, float]]:
    """Return location, scale and degrees of freedom of each coefficient's prior.

    Flat priors have the scale ∞. Priors that are neither normal nor Student's t have no location.
    """
    found = []
    for its in model.coefficients:
        for prior in its.priors:
            if prior is None or prior.log_density is None:
                found.append((0.0, math.inf, math.inf))
            else:
                found.append(prior.student or (math.nan, 1.0, math.inf))
    return found


class GaussianModel:
    """The posterior of the standard deviations and correlations, and draws of all other quantities.

    Parameters
    ----------
    model : LinearModel
        The model, for which :func:`reason_against` returns no reason.
    """

    def __init__(self, model: LinearModel) -> None:
        from scipy import sparse

        assert model.family.as_normal is not None
        self.y = model.family.as_normal(model.y)
        model, self.y, log_scale = _scaled(model, self.y)
        self.model = model
        others = [each for its in model.penalised for each in its.parameters]
        self.coordinates = Coordinates([*model.parameters, *others], model.effects)
        self.sigma = next((its.name for its in model.parameters if its.role == "sigma"), "")
        independent = [its for its in model.effects if its.back is None]
        self.first = max(independent, key=lambda its: its.num_labels, default=None)
        self.others = [its for its in model.effects if its is not self.first]

        # The columns of the population, with those that have a Student t prior last.
        students = _students(model)
        matrix = np.hstack(
            [np.empty((len(model.offset), 0)), *(its.columns for its in model.coefficients)]
        )
        self.order = np.argsort([math.isfinite(dof) for _, _, dof in students], kind="stable")
        location, scale, dof = np.array(students, dtype=float).reshape(-1, 3)[self.order].T
        matrix = matrix[:, self.order]
        self.dof = float(dof[-1]) if len(dof) and math.isfinite(dof[-1]) else math.inf
        self.has_t = math.isfinite(self.dof)
        is_flat = np.isinf(scale)
        is_free = is_flat.copy()
        if self.has_t:
            is_free[-1] = True

        y = self.y - model.offset[model.rows]
        x = matrix[model.rows]
        self.spread = float(np.std(y))
        # Coefficients are relative to a least-squares fit, which limits cancellation in y'y.
        self.centre = np.linalg.lstsq(x, y)[0] if x.size else np.zeros(x.shape[1])
        y = y - x @ self.centre
        self.scale = np.where(is_flat, 1.0, scale)
        self.num_rows = len(y)
        self.prior_mean = np.where(is_flat, 0.0, (location - self.centre) / self.scale)

        z = [_indicators(its, model) for its in self.others]
        z += [sparse.csr_array(its.columns[model.rows]) for its in model.penalised]
        c = sparse.csr_array(sparse.hstack([*z, sparse.csr_array(x * self.scale)]))
        self.num_dense = c.shape[1]
        num_random = self.num_dense - x.shape[1]
        self.precision = np.concatenate([np.ones(num_random), np.where(is_free, 0.0, 1.0)])
        self.mean = np.concatenate([np.zeros(num_random), self.prior_mean])
        if self.has_t:
            self.mean[-1] = 0.0
        self.n22 = (c.T @ c).toarray()
        self.b2, self.yy = c.T @ y, float(y @ y)
        # A flat prior has density 1 in the coefficient's own units, in which `scale` is 1.
        self.constant = log_scale - 0.5 * self.num_rows * math.log(2 * math.pi)
        self.constant += 0.5 * math.log(2 * math.pi) * float((self.precision == 0).sum())
        self._eliminate(c, y)

    def _eliminate(self, c: Any, y: FloatArray) -> None:
        """Compute the cross products of the term that is eliminated."""
        from scipy import sparse

        self.pairs = None
        self.place = np.nonzero(np.triu(self.n22))
        if self.first is None:
            self.products = self.n22[self.place]
            return
        first, rows = self.first, self.model.rows
        z = _indicators(first, self.model)
        num, size = first.num_labels, first.num_effects
        columns, codes = first.columns[rows], first.codes[rows]
        self.n11 = np.empty((num, size, size))
        for p in range(size):
            for q in range(size):
                products = columns[:, p] * columns[:, q]
                self.n11[:, p, q] = np.bincount(codes, products, num)
        self.b1 = np.asarray(z.T @ y).reshape(num, size)
        self.n12 = sparse.csr_array(z.T @ c)
        self.pairs = _pair_products(self.n12, size)
        upper = np.triu_indices(self.num_dense)
        if self.pairs is None:
            self.place = upper
        else:
            # Elements that are 0 for all values of the parameters are left out.
            is_filled = _num_in_rows(self.pairs) + (self.n22[upper] != 0) > 0
            self.pairs = self.pairs[is_filled]
            self.place = upper[0][is_filled], upper[1][is_filled]
        self.products = self.n22[self.place]

    @property
    def start(self) -> FloatArray:
        """A point from which the search for the mode starts.

        The residual variance is divided equally among the terms.
        """
        # A fit through all rows leaves no residuals.
        spread = max(math.sqrt(self.yy / max(self.num_rows, 1)), 1e-3 * self.spread) or 1.0
        share = spread / math.sqrt(1 + len(self.model.effects) + len(self.model.penalised))
        values = {self.sigma: share}
        for curve in self.model.penalised:
            size = float(np.sqrt(np.mean(np.sum(curve.columns**2, axis=1))))
            values[curve.parameters[0].name] = share / max(size, 1e-300)
        for its in self.model.effects:
            size = float(np.sqrt(np.mean(its.columns**2)))
            if its.back is not None:
                size *= float(np.sqrt(np.mean(np.sum(its.back**2, axis=1))))
            values[its.sd.name] = share / max(size, 1e-300)
        return self.coordinates.start(values)

    @property
    def num_points(self) -> int | None:
        """The number of weighted points, if densities are so costly that it must be small."""
        return 1_000 if self.num_dense > 8 * _DENSE else None

    @property
    def most_on_lattice(self) -> int:
        """The largest number of points on a lattice."""
        return 200_000

    @property
    def log_constant(self) -> float:
        """The constant that completes the log density of all observations and parameters.

        NaN if a prior is improper.
        """
        y, family = self.model.y, self.model.family
        assert family.as_normal is not None
        if np.any(self.precision[: self.num_dense - self.has_t] == 0):
            return math.nan
        ones = {"sigma": np.ones((1, 1, 1))}
        whole = family.log_lik(y, np.zeros((1, 1, len(y))), ones).sum()
        normal = -0.5 * np.sum(family.as_normal(y) ** 2 + math.log(2 * math.pi))
        return self.coordinates.log_constant + float(whole - normal)

    def prepare(self, stretch: Any, proposal: Any) -> None:
        """Do nothing: all integrals have closed forms."""

    def error(self, points: FloatArray) -> float:
        """Return 0: all integrals have closed forms."""
        return 0.0

    def weighed(
        self, points: FloatArray, num_draws: int, rng: Generator
    ) -> tuple[FloatArray, Values]:
        """Return the log density at points, and `num_draws` draws of all quantities for each."""
        tasks = [
            lambda p=chunk, r=child: self._both(p, num_draws, r)
            for chunk, child in self._with_generators(points, rng)
        ]
        found = list(in_order(tasks))
        return np.concatenate([each for each, _ in found]), _joined([its for _, its in found])

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the joint log density of the coordinates and y, shape (T,)."""
        tasks = [lambda p=chunk: self._log_density(p) for chunk in self._chunks(points)]
        return np.concatenate(list(in_order(tasks)))

    def _chunks(self, points: FloatArray) -> list[FloatArray]:
        """Return points that are computed together, in equally large parts."""
        share = (self.num_dense + 1) ** 2 / _DENSE_CHUNK
        if self.first is not None:
            share = max(share, self.first.num_labels * self.first.num_effects**3 / _CHUNK)
        return in_parts(points, len(points) * share)

    def _log_density(self, points: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            log_prior, its, _ = self._reduced(points)
            found = log_prior + its.log_likelihood
        return np.where(np.isfinite(found), found, -np.inf)

    def draw(self, points: FloatArray, counts: NDArray[np.intp], rng: Generator) -> Values:
        """Draw coefficients and effects given the other parameters.

        Parameters
        ----------
        points : array, shape (T, d)
            Coordinates of the other parameters, one point in each row.
        counts : array of int, shape (T,)
            The number of draws for each point.
        rng : numpy.random.Generator
            The random number generator.

        Returns
        -------
        dict of str to array, shape (draw, …)
            The draws of all quantities, by name.
        """
        chunks = list(self._with_generators(points, rng))
        ends = np.cumsum([0, *(len(chunk) for chunk, _ in chunks)])
        tasks = [
            lambda p=chunk, n=counts[a:b], r=child: self._drawn(*self._reduced(p), n, r)
            for (chunk, child), a, b in zip(chunks, ends[:-1], ends[1:], strict=True)
        ]
        return _joined(list(in_order(tasks)))

    def _with_generators(
        self, points: FloatArray, rng: Generator
    ) -> Iterator[tuple[FloatArray, Generator]]:
        """Yield the points that are computed together, with a generator for them."""
        chunks = self._chunks(points)
        yield from zip(chunks, rng.spawn(len(chunks)), strict=True)

    def _both(
        self, points: FloatArray, num_draws: int, rng: Generator
    ) -> tuple[FloatArray, Values]:
        log_prior, its, lprior = self._reduced(points)
        counts = np.full(len(points), num_draws)
        found = log_prior + its.log_likelihood
        return np.where(np.isfinite(found), found, -np.inf), self._drawn(
            log_prior, its, lprior, counts, rng
        )

    def _reduced(self, points: FloatArray) -> tuple[FloatArray, _Reduced, FloatArray]:
        """Return the log density of the priors, the factors, and Stan's ``lprior``, at points."""
        values, log_prior, lprior = self.coordinates.values(points)
        return log_prior, _Reduced(self, values, len(points)), lprior

    def _drawn(
        self,
        log_prior: FloatArray,
        its: _Reduced,
        lprior: FloatArray,
        counts: NDArray[np.intp],
        rng: Generator,
    ) -> Values:
        u, first = its.draw(counts, rng)
        found = {name: np.repeat(each, counts, axis=0) for name, each in its.values.items()}
        factors = {each.name: found.pop(each.name) for each in self.model.effects}
        if self.first is not None:
            found[self.first.name] = first @ np.swapaxes(factors[self.first.name], -1, -2)
        at = 0
        for term in self.others:
            size = term.num_labels * term.num_effects
            own = u[:, at : at + size].reshape(-1, term.num_labels, term.num_effects)
            found[term.name] = own @ np.swapaxes(factors[term.name], -1, -2)
            at += size
        for curve in self.model.penalised:
            scales = np.repeat(curve.scales(its.values), counts, axis=0)
            found[curve.name] = u[:, at : at + scales.shape[1]] * scales
            at += scales.shape[1]
        found.pop(OF_ROWS, None)
        b = np.empty((len(u), len(self.order)))
        b[:, self.order] = self.centre + self.scale * u[:, at:]
        found["lprior"] = np.repeat(lprior, counts)
        at = 0
        for each in self.model.coefficients:
            found[each.name] = b[:, at : at + len(each.priors)]
            found["lprior"] += log_prior_of(each.priors, found[each.name])
            at += len(each.priors)
        return found

    @cached_property
    def mixture(self) -> tuple[FloatArray, FloatArray]:
        """The log weights and the precisions of normals whose mixture is the t distribution."""
        step, half = 0.3, self.dof / 2
        u = np.arange(-30.0, 5.0, step)
        log_weights = half * (u - np.exp(u)) + half * math.log(half) - math.lgamma(half)
        return log_weights + math.log(step), np.exp(u)


class _Reduced:
    """The Cholesky factor of the dense matrix, at several points."""

    def __init__(self, of: GaussianModel, values: Values, num: int) -> None:
        self.of, self.values = of, values
        self.over = over = np.ones(num)
        if of.sigma:
            self.over = over = 1 / values[of.sigma][:, 0] ** 2
        size = of.num_dense
        entries = over[:, None] * of.products
        row, last = over[:, None] * of.b2, over * of.yy
        self.log_det = np.zeros(num)
        if of.first is not None:
            more, shift, less = self._eliminated()
            entries -= (over**2)[:, None] * more
            row = row - (over**2)[:, None] * shift
            last = last - over**2 * less
        matrix = np.zeros((num, size + 1, size + 1))
        one, other = of.place
        scale = self._unit_scales()
        entries *= scale[:, one] * scale[:, other]
        row = row * scale
        matrix[:, other, one] = entries
        if any(its.num_effects > 1 for its in of.others):
            matrix[:, one, other] = entries
            self._multiply(matrix, row)
        diagonal = np.arange(size)
        matrix[:, diagonal, diagonal] += of.precision
        matrix[:, size, :size] = row + of.precision * of.mean
        matrix[:, size, size] = last + float(np.sum(of.precision * of.mean**2))
        self.factor = _cholesky(matrix)

    def _eliminated(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Eliminate the term with the most labels.

        Returns
        -------
        more : array, shape (T, entry)
            Σ B_i' A_i^-1 B_i, at the places of `products`.
        shift : array, shape (T, K)
            Σ B_i' A_i^-1 b_i.
        less : array, shape (T,)
            Σ b_i' A_i^-1 b_i.
        """
        of, over = self.of, self.over
        assert of.first is not None
        factor = self.values[of.first.name]  # (T, M, M)
        num, labels, size = len(over), of.first.num_labels, of.first.num_effects
        # I + F' N F / sigma² for each label, as a product with the products of F's elements.
        pairs = (over[:, None, None] * factor)[:, :, None, :, None] * factor[:, None, :, None, :]
        pairs = pairs.reshape(num, size**2, size**2).transpose(2, 0, 1)
        k = (pairs @ of.n11.reshape(labels, -1).T).reshape(size, size, num, labels)
        self.own = _cholesky_of_blocks(k + np.eye(size)[..., None, None])
        diagonal = np.stack([self.own[i, i] for i in range(size)])
        self.log_det = 2 * np.log(diagonal).sum(axis=(0, 2))
        half = _solved(self.own, factor.transpose(2, 1, 0)[..., None])  # (M, M, T, label)
        inverse = (half[:, :, None] * half[:, None]).sum(axis=0)
        b1 = of.b1.T[:, None]  # (M, 1, label)
        solved = (inverse * b1).sum(axis=1)  # (M, T, label)
        less = (solved * b1).sum(axis=(0, 2))
        shift = np.asarray(of.n12.T @ solved.transpose(2, 0, 1).reshape(labels * size, num)).T
        if of.pairs is not None:
            packed = inverse[np.triu_indices(size)]  # (pair, T, label)
            more = np.asarray(of.pairs @ packed.transpose(2, 0, 1).reshape(-1, num)).T
        else:
            every = inverse.transpose(2, 3, 0, 1)
            more = np.stack([_weighted_square(of.n12, each)[of.place] for each in every])
        return more, shift, less

    def _unit_scales(self) -> FloatArray:
        """Return the sd of each coefficient, shape (T, K); 1 if a factor or a prior contains it."""
        scale = np.ones((len(self.over), self.of.num_dense))
        at = 0
        for its in self.of.others:
            if its.num_effects == 1:
                scale[:, at : at + its.num_labels] = self.values[its.name][:, :, 0]
            at += its.num_labels * its.num_effects
        for curve in self.of.model.penalised:
            size = curve.columns.shape[1]
            scale[:, at : at + size] = curve.scales(self.values)
            at += size
        return scale

    def _multiply(self, matrix: FloatArray, row: FloatArray) -> None:
        """Multiply the columns and rows of terms with several effects by their factors."""
        at, size = 0, self.of.num_dense
        for its in self.of.others:
            if its.num_effects == 1:
                at += its.num_labels
                continue
            place, factor = slice(at, at + its.num_labels * its.num_effects), self.values[its.name]
            matrix[:, :size, place] = _times(matrix[:, :size, place], factor, its)
            turned = np.swapaxes(matrix[:, place, :size], -1, -2)
            matrix[:, place, :size] = np.swapaxes(_times(turned, factor, its), -1, -2)
            row[:, place] = _times(row[:, None, place], factor, its)[:, 0]
            at = place.stop

    @property
    def log_likelihood(self) -> FloatArray:
        """The log of p(y | sigma, covariances), shape (T,)."""
        of, size = self.of, self.of.num_dense
        diagonal = np.diagonal(self.factor, axis1=-2, axis2=-1)
        found = of.constant + 0.5 * of.num_rows * np.log(self.over) - 0.5 * self.log_det
        found = found - np.log(diagonal[:, :size]).sum(axis=1) - 0.5 * diagonal[:, size] ** 2
        if of.has_t:
            found = found + _log_sum(self._of_intercept())
        return np.asarray(found)

    def _of_intercept(self) -> FloatArray:
        """Return the log of each term in the mixture for the intercept, shape (T, term)."""
        log_weights, precisions = self.of.mixture
        pivot, value = self.factor[:, -2, -2], self.factor[:, -1, -2]
        variance = (1 / pivot**2)[:, None] + 1 / precisions
        gap = (value / pivot)[:, None] - self.of.prior_mean[-1]
        return np.asarray(
            log_weights - 0.5 * np.log(2 * np.pi * variance) - 0.5 * gap**2 / variance
        )

    def draw(self, counts: NDArray[np.intp], rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Draw the standardised coefficients and effects.

        Returns
        -------
        u : array, shape (draw, K)
            The coefficients and effects in the dense matrix.
        first : array, shape (draw, label, M)
            The effects that were eliminated.
        """
        of, size, total = self.of, self.of.num_dense, int(counts.sum())
        z = rng.standard_normal((total, size)) + np.repeat(
            self.factor[:, -1, :size], counts, axis=0
        )
        if of.has_t:
            z[:, -1] = self._intercepts(counts, rng)
        if size <= _DENSE:
            lower = np.repeat(self.factor[:, :size, :size], counts, axis=0)
            u = _solved_upwards(lower.transpose(1, 2, 0), z.T).T
        else:
            from scipy.linalg import solve_triangular

            # With a last equation u = 0, the last row of the factor need not be cut off in a copy.
            right = np.hstack([z, np.zeros((total, 1))])
            u, ends = np.empty_like(z), np.cumsum(counts)
            for each, end, num in zip(self.factor, ends, counts, strict=True):
                own = slice(end - num, end)
                found = solve_triangular(
                    each, right[own].T, trans=1, lower=True, check_finite=False
                )
                u[own] = found[:size].T
        first = np.empty((total, 0, 1))
        if of.first is not None:
            first = self._first(counts, u, rng)
        return u, first

    def _intercepts(self, counts: NDArray[np.intp], rng: Generator) -> FloatArray:
        """Draw the intercept, and return it multiplied by its pivot."""
        logs = self._of_intercept()
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        edges = np.repeat(np.cumsum(shares, axis=1), counts, axis=0)
        ticks = rng.random((len(edges), 1)) * edges[:, -1:]
        precision = self.of.mixture[1][np.sum(edges < ticks, axis=1)]
        pivot = np.repeat(self.factor[:, -2, -2], counts)
        value = np.repeat(self.factor[:, -1, -2], counts)
        whole = pivot**2 + precision
        mean = (pivot * value + precision * self.of.prior_mean[-1]) / whole
        return np.asarray(pivot * (mean + rng.standard_normal(len(mean)) / np.sqrt(whole)))

    def _first(self, counts: NDArray[np.intp], u: FloatArray, rng: Generator) -> FloatArray:
        """Draw the standardised effects that were eliminated, given all others."""
        of = self.of
        assert of.first is not None
        num, size = of.first.num_labels, of.first.num_effects
        # The columns of other effects are in their own units, so their draws are scaled first.
        own, at = u * np.repeat(self._unit_scales(), counts, axis=0), 0
        for its in of.others:
            place = slice(at, at + its.num_labels * its.num_effects)
            at = place.stop
            if its.num_effects == 1:
                continue
            factor = np.repeat(self.values[its.name], counts, axis=0)
            turned = np.swapaxes(factor, -1, -2)
            own[:, place] = _times(own[:, None, place], turned, its)[:, 0]
        rest = of.b1.reshape(1, -1) - (of.n12 @ own.T).T
        over = np.repeat(self.over, counts)
        rest = over[:, None, None] * rest.reshape(-1, num, size)
        z = rng.standard_normal(rest.shape)
        factor = np.repeat(self.values[of.first.name], counts, axis=0)
        right = rest @ factor
        lower = np.repeat(self.own, counts, axis=2)
        half = _solved(lower, np.moveaxis(right, -1, 0))
        return np.moveaxis(_solved_upwards(lower, half + np.moveaxis(z, -1, 0)), 0, -1)


def _scaled(model: LinearModel, y: FloatArray) -> tuple[LinearModel, FloatArray, float]:
    """Return a model whose rows have the same standard deviation, with its response.

    Rows are divided by the known parts of their standard deviations; the last result is the log of
    the Jacobian. A row with a standard error and a sigma gets an effect of its own, whose sd is
    sigma.
    """
    if model.se is None and model.precision is None:
        return model, y, 0.0
    num = len(y)
    precision = np.ones(num) if model.precision is None else model.precision
    scale = np.sqrt(precision)
    effects, parameters = list(model.effects), list(model.parameters)
    if model.se is not None:
        scale = scale / model.se
        sigma = next((its for its in parameters if its.role == "sigma"), None)
        if sigma is not None:
            parameters.remove(sigma)
            at_rows = np.empty(len(model.offset))
            at_rows[model.rows] = 1 / np.sqrt(precision)
            codes = np.empty(len(model.offset), dtype=np.int64)
            codes[model.rows] = np.arange(num)
            sd = replace(sigma, role="")
            effects.append(Effects(OF_ROWS, codes, num, at_rows[:, None], sd))
    found = replace(
        model,
        rows=np.arange(num),
        offset=model.offset[model.rows] * scale,
        coefficients=tuple(_divided(its, model.rows, scale) for its in model.coefficients),
        effects=tuple(
            replace(_divided(its, model.rows, scale), codes=its.codes[model.rows])
            for its in effects
        ),
        penalised=tuple(_divided(its, model.rows, scale) for its in model.penalised),
        parameters=tuple(parameters),
    )
    return found, y * scale, float(np.log(scale).sum())


def _divided(its: Columns, rows: NDArray[np.int64], scale: FloatArray) -> Columns:
    """Return a term whose columns have only the rows of observations, scaled."""
    return replace(its, columns=its.columns[rows] * scale[:, None])


def _indicators(its: Effects, model: LinearModel) -> Any:
    """Return the columns of effects, one for each label and effect, as a sparse matrix."""
    from scipy import sparse

    codes, columns = its.codes[model.rows], its.columns[model.rows]
    num, size = len(codes), its.num_effects
    places = codes[:, None] * size + np.arange(size)
    starts = np.arange(0, num * size + 1, size)
    shape = (num, its.num_labels * size)
    found = sparse.csr_array((columns.ravel(), places.ravel(), starts), shape)
    if its.back is None:
        return found
    return sparse.csr_array(found @ np.kron(its.back, np.eye(size)))


def _pair_products(n12: Any, size: int) -> Any:
    """Return the matrix that maps the inverse blocks of all labels to Σ B_i' A_i^-1 B_i.

    Its rows are the elements of the upper triangle, its columns the elements of the upper triangle
    of each label's block. None if there are too many products.
    """
    from scipy import sparse

    labels, num = n12.shape[0] // size, n12.shape[1]
    p, q = np.triu_indices(size)
    counts = np.diff(n12.indptr).reshape(labels, size)
    if np.sum(counts[:, p].astype(float) * counts[:, q]) > 2 * MOST_PRODUCTS:
        return None
    if n12.nnz > 0.2 * n12.shape[0] * num and len(p) * labels * num * (num + 1) // 2 < 4_000_000:
        blocks = n12.toarray().reshape(labels, size, num)
        a, b = np.triu_indices(num)
        products = blocks[:, p][..., a] * blocks[:, q][..., b]
        products += blocks[:, q][..., a] * blocks[:, p][..., b] * (p != q)[:, None]
        return np.ascontiguousarray(products.reshape(labels * len(p), -1).T)
    rows, columns, values = [], [], []
    for label in range(labels):
        for place, (one, other) in enumerate(zip(p, q, strict=True)):
            left, right = (
                slice(*n12.indptr[label * size + each : label * size + each + 2])
                for each in (one, other)
            )
            a = np.repeat(n12.indices[left], right.stop - right.start)
            b = np.tile(n12.indices[right], left.stop - left.start)
            products = np.outer(n12.data[left], n12.data[right]).ravel()
            if one != other:  # both (one, other) and (other, one) fall into the upper triangle
                products = np.where(a == b, 2 * products, products)
                a, b = np.minimum(a, b), np.maximum(a, b)
            is_upper = a <= b
            a, b = a[is_upper], b[is_upper]
            rows.append(a * num - a * (a - 1) // 2 + (b - a))
            columns.append(np.full(len(a), label * len(p) + place))
            values.append(products[is_upper])
    shape = (num * (num + 1) // 2, labels * len(p))
    entries = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array((np.concatenate(values), entries), shape)


def _num_in_rows(pairs: Any) -> NDArray[np.intp]:
    """Return how many elements of each row of a matrix, sparse or not, are stored."""
    if isinstance(pairs, np.ndarray):
        return np.full(len(pairs), pairs.shape[1])
    return np.asarray(np.diff(pairs.indptr))


def _weighted_square(n12: Any, inverse: FloatArray) -> FloatArray:
    """Return Σ B_i' A_i^-1 B_i as one dense product."""
    labels, size, _ = inverse.shape
    blocks = n12.toarray().reshape(labels, size, -1)
    return np.asarray(np.tensordot(blocks, inverse @ blocks, axes=((0, 1), (0, 1))))


def _times(values: FloatArray, factor: FloatArray, its: Effects) -> FloatArray:
    """Multiply the columns of effects, shape (T, row, label · M), by a factor, (T, M, M)."""
    if its.num_effects == 1:
        return np.asarray(values * factor[:, :1])
    shape = (*values.shape[:2], its.num_labels, its.num_effects)
    return (values.reshape(shape) @ factor[:, None]).reshape(values.shape)


def _joined(found: Sequence[Values]) -> Values:
    """Join the draws for several sets of points."""
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def _cholesky(matrices: FloatArray) -> FloatArray:
    """Return Cholesky factors for each point; NaN where a matrix is not positive definite."""
    is_bad = ~np.isfinite(matrices).all(axis=tuple(range(1, matrices.ndim)))
    if is_bad.any():
        matrices = matrices.copy()
        matrices[is_bad] = np.eye(matrices.shape[-1])
    try:
        found = np.asarray(np.linalg.cholesky(matrices))
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(matrices, np.nan)
        half = len(matrices) // 2  # LAPACK does not report which matrix fails
        found = np.concatenate([_cholesky(matrices[:half]), _cholesky(matrices[half:])])
    found[is_bad] = np.nan
    return found


def _cholesky_of_blocks(matrices: FloatArray) -> FloatArray:
    """Return the Cholesky factors of many small matrices, shape (M, M, …), element by element.

    NaN where a matrix is not positive definite.
    """
    lower = np.zeros_like(matrices)
    for i in range(len(matrices)):
        for j in range(i + 1):
            rest = matrices[i, j] - (lower[i, :j] * lower[j, :j]).sum(axis=0)
            lower[i, j] = np.sqrt(rest) if i == j else rest / lower[j, j]
    return lower


def _solved(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Return L^-1 B for many small matrices L, shape (M, M, …), and B, shape (M, …)."""
    rows: list[FloatArray] = []
    for i in range(len(lower)):
        rest = right[i]
        for j, row in enumerate(rows):
            rest = rest - lower[i, j] * row
        rows.append(rest / lower[i, i])
    return np.stack(rows)


def _solved_upwards(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Return L'^-1 B for many small matrices L, shape (M, M, …), and B, shape (M, …)."""
    turned = np.swapaxes(lower, 0, 1)[::-1, ::-1]
    return _solved(turned, right[::-1])[::-1]


def _log_sum(logs: FloatArray) -> FloatArray:
    """Return the log of sums of exponentials over the last axis."""
    largest = logs.max(axis=-1)
    return np.asarray(largest + np.log(np.exp(logs - largest[..., None]).sum(axis=-1)))
