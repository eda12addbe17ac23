"""Initial values and a dense metric from a Laplace approximation, which replace Stan's warm-up.

Let u be the parameters without constraints, such as coefficients and effects, and t those with
constraints, such as standard deviations and correlations, on the unconstrained scale. Given t, the
log density has a mode u*(t), where H(t) is its negative Hessian in u. The density of t is
approximated by [1]_

    p(t | y) ≈ p(t, u*(t) | y) |H(t)|^(-1/2),

and then by a normal distribution with the mode and the curvature of this approximation. Given t, u
is approximately normal with mean u*(t) and covariance H(t)^-1. The joint covariance of t and u is
the inverse metric; it is held fixed, and a short warm-up only tunes the step size. The initial
values are drawn from the same normal distribution [2]_.

The Hessian is computed from differences of gradients. Most pairs of effects have no observation in
common, so their elements are 0, and one difference of gradients gives many columns [3]_.

References
----------
.. [1] Tierney and Kadane (1986), Accurate approximations for posterior moments and marginal
   densities, J. of the American Statistical Association 81(393).
.. [2] arXiv:2603.02437, on NUTS with the metric of a Laplace approximation.
.. [3] Powell and Toint (1979), On the estimation of sparse Hessian matrices, SIAM J. on Numerical
   Analysis 16(6).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pyflowers.engines.integrated.importance import find_mode
from pyflowers.engines.stanli.pilot import unconstrained_draws, variable_of

if TYPE_CHECKING:
    from pyflowers.engines.bridge import Density

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

MOST_PARAMETERS = 1_000
"""The largest number of unconstrained parameters: each leapfrog step multiplies a vector by the
dense metric."""

_WARMUP, _DEPTH = 100, 6
"""Iterations of NUTS, and their maximum tree depth, that lead to where the search for the mode
starts. Far from the posterior, the log density may hardly depend on the log of a standard
deviation."""

_STEP = 1e-5
"""The step of differences of gradients."""

_MOST_STEPS = 60
"""The largest number of Newton steps to the mode of u."""

_LEAST_GAIN = 1e-9
"""At the mode of u, a Newton step would raise the log density by less than half of this."""

_LARGEST_VARIANCE = 4.0
"""The largest variance of t along an axis: an sd that may be 0 has a log with a long tail."""

_NOTHING = 1e-7
"""An element of the Hessian counts as 0 if it is below this share of its diagonal elements."""


def laplace_start(
    model: Any, density: Density, parameters: tuple[str, ...], *, seed: int, **options: Any
) -> dict[str, Any] | None:
    """Approximate the posterior, and return initial values of the chains and their fixed metric.

    Parameters
    ----------
    model : stanli.Model
        The model with its data.
    density : Density
        The log density of the same model.
    parameters : tuple of str
        The names of the parameters.
    seed : int
        The seed of the initial values.
    **options
        Further options of ``stanli.Model.sample`` that the iterations before the search share with
        the chains.

    Returns
    -------
    dict or None
        Options of ``stanli.Model.sample``; None if no mode is found, or if there are more than
        :data:`MOST_PARAMETERS` parameters.
    """
    if len(density.names) > MOST_PARAMETERS:
        return None
    options["max_depth"] = min(options["max_depth"], _DEPTH)
    fit = model.sample(seed=seed, warmup=_WARMUP, samples=1, delta=0.8, **options)
    try:
        points = unconstrained_draws(fit, density, parameters)[:, -1]
        heights, _ = density.evaluate(points, gradient=False)
        with threadpool_limits(1):
            found = Laplace(density, points[int(np.argmax(heights))])
            covariance = found.covariance()
            lower = np.linalg.cholesky(covariance)
    except (ArithmeticError, RuntimeError, np.linalg.LinAlgError):
        return None
    z = np.random.default_rng(seed).standard_normal((fit.n_chains, len(lower)))
    inv_metric = np.tile(covariance, (fit.n_chains, 1, 1))
    return {"inits": found.point + z @ lower.T, "inv_metric": inv_metric, "metric": "dense_e"}


class Laplace:
    """The approximation to a posterior.

    Parameters
    ----------
    density : Density
        The log density.
    point : array, shape (n,)
        Where the search for the mode starts.

    Attributes
    ----------
    point : array, shape (n,)
        The latest t, and the mode of u given t.
    """

    def __init__(self, density: Density, point: FloatArray) -> None:
        self.density, self.point = density, point.copy()
        is_free = are_free(density)
        self.t, self.u = np.flatnonzero(~is_free), np.flatnonzero(is_free)
        self._factor = np.empty((0, 0))
        _, gradient = self._evaluate(self.point)
        moves = np.eye(len(point))[self.u]
        self._pattern = SymmetricPattern(self._differences(self.point, gradient, moves)[:, self.u])

    def covariance(self) -> FloatArray:
        """Move to the mode, and return the covariance of all coordinates there.

        Raises
        ------
        ArithmeticError
            If no mode is found.
        """
        from scipy.linalg import cho_solve

        t, u, size = self.t, self.u, len(self.point)
        of_t = np.zeros((len(t), len(t)))
        if len(t):
            mode, rough = find_mode(self.log_density, self.point[t])
            values, vectors = np.linalg.eigh(rough)
            of_t = (vectors * np.minimum(values, _LARGEST_VARIANCE)) @ vectors.T
            self.point[t] = mode
        if self._log_density(self.point[t]) == -math.inf:
            raise ArithmeticError("the parameters have no mode given the others")
        _, gradient = self._evaluate(self.point)
        across = self._differences(self.point, gradient, np.eye(size)[t])[:, u]
        slopes = -cho_solve((self._factor, True), across.T)  # of u*(t), shape (u, t)
        found = np.zeros((size, size))
        found[np.ix_(t, t)] = of_t
        found[np.ix_(u, t)] = slopes @ of_t
        found[np.ix_(t, u)] = found[np.ix_(u, t)].T
        given_t = cho_solve((self._factor, True), np.eye(len(u)))
        found[np.ix_(u, u)] = given_t + slopes @ of_t @ slopes.T
        return (found + found.T) / 2

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the approximate log density at points of t, shape (T,)."""
        return np.array([self._log_density(t) for t in points])

    def _log_density(self, t: FloatArray) -> float:
        """Move to the mode of u given t; return the log density of t, −∞ if there is no mode."""
        from scipy.linalg import cho_solve

        x = self.point.copy()
        x[self.t] = t
        value, gradient = self._evaluate(x)
        if not len(self.u):
            return value
        for _ in range(_MOST_STEPS):
            if value == -math.inf:
                break
            factor = self._cholesky(x, gradient)
            move = cho_solve((factor, True), gradient[self.u])
            if gradient[self.u] @ move < _LEAST_GAIN:
                self.point, self._factor = x, factor
                return value - float(np.log(np.diag(factor)).sum())
            x, value, gradient = self._uphill(x, value, move)
        return -math.inf

    def _uphill(
        self, x: FloatArray, value: float, move: FloatArray
    ) -> tuple[FloatArray, float, FloatArray]:
        """Return the point after a step of u, halved until the log density rises."""
        for halvings in range(20):
            there = x.copy()
            there[self.u] += move / 2**halvings
            reached, gradient = self._evaluate(there)
            if reached >= value:
                return there, reached, gradient
        return x, -math.inf, np.zeros_like(x)

    def _evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density and its gradient; −∞ and 0 if they are not finite."""
        values, gradients = self.density.evaluate(x[None], gradient=True)
        if not (math.isfinite(values[0]) and np.isfinite(gradients).all()):
            return -math.inf, np.zeros_like(x)
        return float(values[0]), gradients[0]

    def _differences(self, x: FloatArray, gradient: FloatArray, moves: FloatArray) -> FloatArray:
        """Return the products of the negative Hessian with moves, one per row."""
        return (gradient - self.density.evaluate(x + _STEP * moves, gradient=True)[1]) / _STEP

    def _cholesky(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the factor of the negative Hessian of u, which is made positive definite."""
        moves = np.zeros((len(self._pattern.vectors), len(x)))
        moves[:, self.u] = self._pattern.vectors
        hessian = self._pattern.matrix(self._differences(x, gradient, moves)[:, self.u])
        if not np.isfinite(hessian).all():
            raise ArithmeticError("the log density has no second derivatives")
        try:
            return np.asarray(np.linalg.cholesky(hessian))
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(hessian)[0])
            return np.asarray(np.linalg.cholesky(hessian + (0.01 - least) * np.eye(len(hessian))))


class SymmetricPattern:
    """Where symmetric matrices are 0, so that a few products determine each of them.

    The columns are sorted by how many elements they have, the fullest first, and only the lower
    triangle is computed. Columns whose elements there are in different rows share a vector. In the
    product with this vector, a row also contains elements from above the diagonal, which are
    subtracted: they are known, because the last row is solved first.

    Parameters
    ----------
    example : array, shape (n, n)
        One of the matrices.

    Attributes
    ----------
    vectors : array, shape (vector, n)
        The vectors, each the sum of the unit vectors of its columns.
    """

    def __init__(self, example: FloatArray) -> None:
        size = len(example)
        scale = np.sqrt(np.abs(np.diag(example)))
        is_filled = np.abs(example) > _NOTHING * np.outer(scale, scale)
        is_filled = is_filled | is_filled.T | np.eye(size, dtype=bool)
        self._order = np.argsort(-is_filled.sum(axis=0), kind="stable")
        lower = np.tril(is_filled[np.ix_(self._order, self._order)])
        owners: list[NDArray[np.intp]] = []  # of each vector, the column with the element of a row
        members: list[FloatArray] = []
        for column in range(size):
            rows = lower[:, column]
            place = next((i for i, own in enumerate(owners) if (own[rows] < 0).all()), len(owners))
            if place == len(owners):
                owners.append(np.full(size, -1))
                members.append(np.zeros(size))
            owners[place][rows] = column
            members[place][column] = 1
        self._owners = np.array(owners).reshape(-1, size)
        self._members = np.array(members).reshape(-1, size)
        self.vectors = np.zeros_like(self._members)
        self.vectors[:, self._order] = self._members

    def matrix(self, products: FloatArray) -> FloatArray:
        """Return the matrix, given its products with the vectors, shape (vector, n)."""
        sums, lower = products[:, self._order], np.zeros((products.shape[1],) * 2)
        for row in reversed(range(len(lower))):
            above = self._members[:, row + 1 :] @ lower[row + 1 :, row]
            has_own = self._owners[:, row] >= 0
            lower[row, self._owners[has_own, row]] = (sums[:, row] - above)[has_own]
        found = np.empty_like(lower)
        found[np.ix_(self._order, self._order)] = lower + np.tril(lower, -1).T
        return found


def are_free(density: Density) -> BoolArray:
    """Return which unconstrained coordinates belong to parameters without constraints, shape (n,).

    Such a parameter is a linear function of its coordinates, as with offset and multiplier.
    """
    coordinates = np.array([variable_of(name) for name in density.names])
    elements = np.array([variable_of(name) for name in density.elements])
    found = np.zeros(len(coordinates), dtype=bool)
    for variable in dict.fromkeys(coordinates):
        is_its, its_elements = coordinates == variable, elements == variable
        if its_elements.sum() == is_its.sum():
            # At 0, unit vectors are not defined.
            points = 0.1 + np.outer([0, 1, 2], is_its * np.linspace(0.5, 1, len(is_its)))
            first, second, third = density.constrain(points)[:, its_elements]
            found[is_its] = np.allclose(third - second, second - first)
    return found
