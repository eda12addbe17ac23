"""Weighted points of a density in a few dimensions: mode, curvature, proposals, weights.

1. The mode is found by quasi-Newton steps, and the curvature there by finite differences.
2. The log of a standard deviation that may be 0 has an exponential left tail, which is too heavy
   for proposals, and logs of other parameters may have such tails on both sides. New coordinates
   shorten them.
3. The first proposal is a split Student t distribution [1]: along each principal axis of the
   curvature it has one scale to the left of the mode and one to the right, chosen so that the
   proposal falls as quickly as the density does.
4. The points of a short round, with their weights, give the moments of the next proposal, which is
   mixed with the first one, so that it has points wherever the first one has. Rounds are repeated
   while the weights are poor; the last one is repeated, too, if its k-hat is not good.
5. The weights of the last round, density over proposal, are smoothed [2], and the shape of their
   tail, k-hat, shows whether they can be trusted.

References
----------
.. [1] Geweke (1989), Bayesian inference in econometric models using Monte Carlo integration,
   Econometrica 57(6), section 4.
.. [2] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72).
.. [3] Kish (1965), Survey Sampling, section 11.7, for the effective number of weighted draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.convergence.pareto import pareto_smooth

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LogDensity = Callable[[FloatArray], FloatArray]
"""Function of points, shape (T, dimension), that returns log densities, shape (T,)."""

FIRST_ROUND = 400
"""The smallest number of points in the first round."""

MOST_ROUNDS = 5
"""The largest number of rounds in which the proposal is adapted."""

GOOD_SHARE = 0.25
"""The adaptation ends when the effective number of points exceeds this share of the points."""

GOOD_K = 0.5
"""The adaptation ends when k-hat is below this limit, so that the weights have a variance."""

KEPT_SHARE = 0.15
"""The share of the first proposal in all later proposals."""

KNOT = 1.5
"""Where the tails of a coordinate begin, in units of its spread."""

LARGEST_BEND = 3.0
"""The largest bend of a tail."""

_DIFFERENCE = 1e-4
_STEP = 0.3
"""The step of second differences, in units of the spread along an axis."""

_MOST_STEPS = 40
"""The largest number of Newton steps to the mode."""

_FAR, _LEAST_FALL = 4.0, 1.0
"""A distance from the mean of the points, in units of their spread, and the least fall of the log
density over this distance. A normal density falls by 8, and a t density with 3 degrees of freedom
by 5."""


@dataclass(frozen=True)
class SplitT:
    """A Student t distribution with two scales along each axis.

    Attributes
    ----------
    centre : array, shape (d,)
        Where the two halves meet.
    axes : array, shape (d, d)
        The axes, as columns.
    left, right : array, shape (d,)
        The scales along each axis.
    dof : float
        Degrees of freedom.
    """

    centre: FloatArray
    axes: FloatArray
    left: FloatArray
    right: FloatArray
    dof: float

    def draw(self, num: int, rng: Generator) -> FloatArray:
        """Return independent points, shape (num, d)."""
        size = len(self.centre)
        z = rng.standard_normal((num, size))
        is_right = rng.random((num, size)) < self.right / (self.left + self.right)
        z = np.abs(z) * np.where(is_right, self.right, -self.left)
        z /= np.sqrt(rng.chisquare(self.dof, (num, 1)) / self.dof)
        return np.asarray(self.centre + z @ self.axes.T)

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density, normalised, shape (T,)."""
        size, nu = len(self.centre), self.dof
        z = np.linalg.solve(self.axes, (points - self.centre).T).T
        z = z / np.where(z > 0, self.right, self.left)
        constant = math.lgamma((nu + size) / 2) - math.lgamma(nu / 2)
        constant -= 0.5 * size * math.log(nu * math.pi) + np.linalg.slogdet(self.axes)[1]
        constant -= np.log((self.left + self.right) / 2).sum()
        return np.asarray(constant - 0.5 * (nu + size) * np.log1p((z**2).sum(axis=1) / nu))


@dataclass(frozen=True)
class Mixture:
    """A mixture of two distributions, of which the first has a given share."""

    first: SplitT
    other: SplitT
    share: float = KEPT_SHARE

    def draw(self, num: int, rng: Generator) -> FloatArray:
        """Return independent points, shape (num, d)."""
        is_first = rng.random(num) < self.share
        points = self.other.draw(num, rng)
        points[is_first] = self.first.draw(int(is_first.sum()), rng)
        return points

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density, shape (T,)."""
        return np.asarray(
            np.logaddexp(
                math.log(self.share) + self.first.log_density(points),
                math.log1p(-self.share) + self.other.log_density(points),
            )
        )


@dataclass(frozen=True)
class Weighted:
    """Points with weights.

    Attributes
    ----------
    points : array, shape (T, d)
        The points.
    log_ratios : array, shape (T,)
        The logs of density over proposal.
    log_weights : array, shape (T,)
        The logs of the smoothed weights, which sum to 1.
    k_hat : float
        The shape of the ratios' tail; −∞ if all ratios are equal.
    """

    points: FloatArray
    log_ratios: FloatArray
    log_weights: FloatArray
    k_hat: float

    @property
    def effective(self) -> float:
        """The effective number of points [3]."""
        return float(np.exp(-_log_sum(2 * self.log_weights)))

    @property
    def share(self) -> float:
        """The effective number, divided by the number of points."""
        return self.effective / len(self.points)

    @property
    def log_mean(self) -> float:
        """The log of the mean ratio, which estimates the integral of the density."""
        return _log_sum(self.log_ratios) - math.log(len(self.log_ratios))

    @property
    def log_mean_error(self) -> float:
        """The standard error of `log_mean`."""
        ratios = np.exp(self.log_ratios - self.log_mean)
        return float(ratios.std() / np.sqrt(len(ratios)))

    def resampled(self, num: int, rng: Generator) -> IntArray:
        """Return the positions of `num` resampled points, which have equal weights, in order.

        The resampling is systematic: a point of weight w is repeated num · w times, rounded up or
        down. Repetitions of a point are consecutive, so that effective sample sizes, computed from
        the autocorrelation, count the point once.
        """
        edges = np.cumsum(np.exp(self.log_weights))
        ticks = (rng.random() + np.arange(num)) / num * edges[-1]
        return np.asarray(np.minimum(np.searchsorted(edges, ticks), len(edges) - 1))


def weighted_points(log_density: LogDensity, first: SplitT, num: int, rng: Generator) -> Weighted:
    """Return weighted points of a density; see the docstring of the module.

    Parameters
    ----------
    log_density : callable
        The log density; −∞ where it cannot be computed.
    first : SplitT
        The first proposal, as :func:`approximated` returns it.
    num : int
        The number of points in the last round.
    rng : numpy.random.Generator
        The random number generator.
    """
    size = len(first.centre)
    found = weigh(log_density, first, max(FIRST_ROUND, 20 * size), rng)
    for number in range(1, MOST_ROUNDS + 1):
        proposal = Mixture(first, from_moments(found, first))
        is_last = number == MOST_ROUNDS
        if is_last or found.share > GOOD_SHARE:
            found = weigh(log_density, proposal, num, rng)
            if found.share > GOOD_SHARE and found.k_hat < GOOD_K:
                break
        else:
            found = weigh(log_density, proposal, max(2 * FIRST_ROUND, 40 * size), rng)
    return found


def weigh(
    log_density: LogDensity, proposal: SplitT | Mixture, num: int, rng: Generator
) -> Weighted:
    """Draw points from a proposal, and give them weights."""
    points = proposal.draw(num, rng)
    return weights_of(points, log_density(points), proposal)


def weights_of(points: FloatArray, log_density: FloatArray, proposal: SplitT | Mixture) -> Weighted:
    """Return points drawn from a proposal with their weights, given their log densities."""
    ratios = log_density - proposal.log_density(points)
    ratios = np.where(np.isfinite(ratios), ratios, -np.inf)
    if ratios.max() == -np.inf:
        raise ArithmeticError("the density is 0 at all points of a proposal")
    log_weights, k_hat = pareto_smooth(np.maximum(ratios, ratios.max() - 700))
    k = float(k_hat)
    return Weighted(points, ratios, log_weights, -math.inf if math.isnan(k) else k)


def check_spread(log_density: LogDensity, found: Weighted) -> None:
    """Reject weighted points that are much more concentrated than their density.

    The weights of such points are nearly equal, so they do not reveal the problem.

    Raises
    ------
    ArithmeticError
        If the density hardly falls along one of the principal axes of the points.
    """
    weights = np.exp(found.log_weights)
    centre = weights @ found.points
    about = found.points - centre
    values, vectors = np.linalg.eigh((weights[:, None] * about).T @ about)
    moves = _FAR * (vectors * np.sqrt(np.maximum(values, 0.0))).T
    logs = log_density(np.concatenate([centre[None], centre + moves, centre - moves]))
    if np.any(logs[1:] > logs[0] - _LEAST_FALL):
        raise ArithmeticError("the weighted points are much more concentrated than the posterior")


@dataclass(frozen=True)
class Stretch:
    """New coordinates t, in which exponential tails of some coordinates x are short.

    x = centre + spread · k(t), where k(t) = t between the knots; beyond a knot,
    k(t) = t + bend (t - knot)³ / 6, so that exp(±x) falls more quickly than a normal density does.
    The slope of k has no kink at the knots: a kink would cause a step in the weights, which k-hat
    would mistake for a heavy tail.

    Attributes
    ----------
    centre, spread : array, shape (d,)
        The mode, and the spread around it; 0 and 1 for coordinates that do not change.
    bends : array, shape (2, d)
        How strongly the left and right tails are bent; 0 for tails that do not change.
    """

    centre: FloatArray
    spread: FloatArray
    bends: FloatArray

    def __call__(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the points x for points t, shape (T, d), and the log of the Jacobian, (T,)."""
        left, right = np.minimum(points + KNOT, 0.0), np.maximum(points - KNOT, 0.0)
        bent = points + self.bends[0] * left**3 / 6 + self.bends[1] * right**3 / 6
        slope = 1 + self.bends[0] * left**2 / 2 + self.bends[1] * right**2 / 2
        return self.centre + self.spread * bent, np.log(slope * self.spread).sum(axis=1)


def approximated(
    log_density: LogDensity, start: FloatArray, slow_sides: NDArray[np.bool_]
) -> tuple[Stretch, LogDensity, SplitT]:
    """Return new coordinates, the log density in them, and a first proposal.

    Parameters
    ----------
    log_density : callable
        The log density; −∞ where it cannot be computed.
    start : array, shape (d,)
        A point from which the mode can be reached.
    slow_sides : array of bool, shape (2, d)
        Whether each coordinate may have an exponential tail, to the left and right.

    Raises
    ------
    ArithmeticError
        If the density is not finite at the start.
    """
    mode, axes = refined(log_density, *find_mode(log_density, start))
    spread = np.sqrt((axes**2).sum(axis=1))
    is_slow = slow_sides.any(axis=0)
    stretch = Stretch(
        np.where(is_slow, mode, 0.0),
        np.where(is_slow, spread, 1.0),
        np.where(slow_sides, np.minimum(1 / spread, LARGEST_BEND), 0.0),
    )

    def stretched(points: FloatArray) -> FloatArray:
        its, log_jacobian = stretch(points)
        return log_density(its) + log_jacobian

    centre = np.where(is_slow, 0.0, mode)
    axes = axes / stretch.spread[:, None]
    scales = _scales(stretched, centre, axes)
    return stretch, stretched, SplitT(centre, axes, *scales, dof=max(5.0, len(mode)))


def find_mode(log_density: LogDensity, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mode, and a rough covariance matrix there.

    Raises
    ------
    ArithmeticError
        If the density is not finite at the start.
    """
    from scipy.optimize import minimize

    size = len(start)
    moves = _DIFFERENCE * np.concatenate([np.zeros((1, size)), np.eye(size), -np.eye(size)])

    def negative(point: FloatArray) -> tuple[float, FloatArray]:
        values = -log_density(point + moves)
        if not np.isfinite(values).all():
            return 1e300, np.zeros(size)
        gradient = (values[1 : size + 1] - values[size + 1 :]) / (2 * _DIFFERENCE)
        return float(values[0]), gradient

    values = -log_density(start + moves)
    if not np.isfinite(values).all():
        raise ArithmeticError("the density is not finite at the start")
    # With many rows, curvatures differ by factors of 1e5, so that steps along the bare gradient
    # would be much too long for some coordinates.
    curvature = (values[1 : size + 1] + values[size + 1 :] - 2 * values[0]) / _DIFFERENCE**2
    scaled = np.diag(1 / np.maximum(np.abs(curvature), 1.0))
    options = {"gtol": 1e-3, "hess_inv0": scaled}
    found = minimize(negative, start, jac=True, method="BFGS", options=options)
    return found.x, np.asarray(found.hess_inv)


def refined(
    log_density: LogDensity, mode: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mode, and the principal axes of the curvature there, as columns of unit spread.

    The Newton steps use differences along the axes. The lengths of the axes follow the curvature,
    so the scales of the coordinates do not matter.
    """
    values, vectors = np.linalg.eigh(covariance)
    axes = vectors * np.sqrt(np.clip(values, 1e-20, None))
    for _ in range(_MOST_STEPS):
        top, slope, curvature = _differences(log_density, mode, axes)
        values, vectors = np.linalg.eigh(curvature)
        values = np.clip(values, 0.01, 1e6)
        step = vectors @ ((vectors.T @ slope) / values)
        is_close = np.sum(step * (curvature @ step)) < 0.01
        is_scaled = values.min() > 0.3 and values.max() < 3
        along = np.clip(np.linalg.norm(step), 1e-300, None)
        tried = mode + np.outer(np.minimum([1.0, 0.3, 0.1], 5 / along), axes @ step)
        heights = log_density(tried)
        if heights.max() > top:
            mode = tried[int(np.argmax(heights))]
        axes = np.asarray(axes @ vectors / np.sqrt(values))
        if is_close and is_scaled:
            break
    return mode, axes


def _differences(
    log_density: LogDensity, mode: FloatArray, axes: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return a log density, its slope, and minus its second derivatives along axes."""
    size = len(mode)
    pairs = [(i, j) for i in range(size) for j in range(i)]
    unit = _STEP * np.eye(size)
    corners = [unit[i] + sign * unit[j] for i, j in pairs for sign in (1, -1)]
    moves = np.array([np.zeros(size), *unit, *-unit, *corners, *(-each for each in corners)])
    found = log_density(mode + moves @ axes.T)
    top = float(found[0])
    falls = top - np.where(np.isfinite(found), found, top - 1e3)
    high, low = falls[1 : size + 1], falls[size + 1 : 2 * size + 1]
    curvature = np.diag(high + low) / _STEP**2
    num = len(corners)
    each = falls[2 * size + 1 : 2 * size + 1 + num] + falls[2 * size + 1 + num :]
    for (i, j), same, opposite in zip(pairs, each[::2], each[1::2], strict=True):
        curvature[i, j] = curvature[j, i] = (same - opposite) / (4 * _STEP**2)
    return top, (low - high) / (2 * _STEP), curvature


def _scales(
    log_density: LogDensity, mode: FloatArray, axes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scales of the widest normal fits on each side of the mode along each axis."""
    size, reaches = len(mode), np.array([1.0, 2.0, 4.0, 7.0])
    moves = (reaches[:, None, None] * np.concatenate([-axes.T, axes.T])).reshape(-1, size)
    values = log_density(np.concatenate([mode[None], mode + moves]))
    falls = values[0] - np.where(np.isfinite(values[1:]), values[1:], -np.inf)
    widths = reaches[:, None] / np.sqrt(2 * np.maximum(falls.reshape(len(reaches), -1), 1e-3))
    scales = np.clip(widths.max(axis=0), 0.3, 6.0)
    return scales[:size], scales[size:]


def from_moments(found: Weighted, first: SplitT) -> SplitT:
    """Return a split t distribution with the moments of weighted points."""
    weights = np.exp(found.log_weights)
    centre = weights @ found.points
    about = found.points - centre
    covariance = (weights[:, None] * about).T @ about
    # A share of the first covariance keeps the matrix regular if few points have all the weight.
    prior = (first.axes * ((first.left**2 + first.right**2) / 2)) @ first.axes.T
    trust = found.effective / (found.effective + 2 * len(centre))
    values, vectors = np.linalg.eigh(trust * covariance + (1 - trust) * prior)
    axes = vectors * np.sqrt(np.maximum(values, 1e-300))
    z = np.linalg.solve(axes, about.T).T
    scales = []
    for side in (z < 0, z >= 0):
        shares = weights[:, None] * side
        variance = np.sum(shares * z**2, axis=0) / np.maximum(shares.sum(axis=0), 1e-300)
        scales.append(np.clip(np.sqrt(variance), 0.4, 3.0))
    dof = max(8.0, first.dof)
    left, right = scales
    return SplitT(centre, axes, left, right, dof)


def _log_sum(values: FloatArray) -> float:
    """Return the log of a sum of exponentials."""
    largest = float(values.max())
    return largest + math.log(float(np.exp(values - largest).sum()))
