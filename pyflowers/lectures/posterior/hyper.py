"""The density of (mu, sigma2) with the plants integrated out, its region, and independent draws.

Given mu and sigma2, plants are independent, so

    log p(y, t, u) = log p(mu) + log p(u) + Σ_p log I_p(mu, u) + log d mu / dt,   u = log sigma2,

with the plants' integrals (:class:`.plants.Plants`). Given u, mu is nearly normal, with a mean m(u)
and a standard deviation s(u) that depend on u. The coordinate t is defined by

    mu = m(u) + s(u) k sinh(t / k).

It counts standard deviations near m(u) and is logarithmic far out, so the density is smooth on a
scale of one for all u. m and s are the mean and sd that mu would have if the only information from
plant p were centre_p ~ N(mu, e^u + spread_p²). They need not be accurate: a poor guess requires
more grid points, but does not affect exactness. If the guess is very poor, because data and prior
disagree, or if there are no informative plants, m and s are constant and k is 1.

The cost of a point grows with the number of plants. If there are many plants, the region is
therefore found from a few of them. Their posterior is wider than the full one, so Newton's method
then finds the maximum of the full posterior.

**Draws** come from rejection sampling with a piecewise constant envelope. A box of (t, u) is
divided into cells. Over each cell, the hat H is constant and lies above log p. First a cell is
drawn, with probability proportional to its area times e^H, and then a point is drawn uniformly
within the cell. The point is kept if E + log p > H, where E is a standard exponential variate. For
any such H, the kept points have exactly the density p, and they are independent (Devroye 1986,
section II.3). No step depends on an earlier draw.

A quintic spline s through log p on an evenly spaced grid is used as a squeeze (Marsaglia 1977),
which saves evaluations: if |s - log p| <= ε, the decision about a point with E + s - H outside ±ε
does not need log p. For the few points within ±ε, for points far out and for points where s + ε
exceeds H, log p itself is computed. The grid is refined, separately along each axis, until the
error of the spline halfway between its points is at most 2e-4, or until the axis has 240 points.
The error is measured at up to 24 places for each axis, where the density is above e^-14 of its
maximum. ε is ten times the largest error that was found, and at least 1e-6.

H is the largest of nine values of s on the cell, plus twice the amount that the curvature of s
could add between them, plus ε. Because this is only an estimate, the excess of log p over H is
recorded wherever log p is evaluated. If the excess is ever larger than rounding error, the hat is
raised and drawing starts over.

The remaining approximations are the quadrature of each plant's integral (an error of at most 2e-9
in log I), the mass outside the box (where the density is below e^-25 of its maximum), and rounding.

References
----------
de Boor (2001), A Practical Guide to Splines, rev. ed., chapters XII and XVII.
Devroye (1986), Non-Uniform Random Variate Generation, chapter II.
Marsaglia (1977), The squeeze method for generating gamma variates, Computers & Mathematics with
Applications 3(4).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate

from pyflowers.errors import FitError
from pyflowers.lectures.posterior.distributions import (
    LOG_2PI,
    BoolArray,
    FloatArray,
    as_floats,
    log_density_of_log,
)
from pyflowers.lectures.posterior.plants import Plants

_DROP = 26.0
_SCOUTS = 16  # number of plants from which the region is found
_ZOOM_POINTS = 16
_CLIMB_STEPS = 25
_REACH = 9.0  # standard deviations from the maximum to the sides of the box
_POORLY_FILLED = 0.25

_EDGE_DROP = 25.0
_FIRST_SIZE, _LARGEST_SIZE = 12, 240
_REFINEMENTS = 40
_TOLERANCE = 2e-4
_CHECKED_DROP = 14.0
_CHECKS = 24

_CELLS = 96
_SURE_DROP = 12.0  # below this, the spline was hardly checked, so log p is computed
_LOWEST_HAT = 60.0
_ERROR_MARGIN = 10.0
_SMALLEST_ERROR = 1e-7
_ROUNDING = 1e-6
_MAX_RAISES = 8
_HIGHEST_HAT = 50.0  # limit above the spline's peak; beyond it, hardly any proposal would be kept


Box = FloatArray
"""A rectangle of (t, u): its limits in t and in u, shape (2, 2)."""


def even_grid(box: Box, num_t: int, num_u: int) -> tuple[FloatArray, FloatArray]:
    """Return evenly spaced points of t and of u."""
    (t_low, t_high), (u_low, u_high) = box
    return np.linspace(t_low, t_high, num_t), np.linspace(u_low, u_high, num_u)


class Density:
    """The log density log p(y, t, u) at any points, without the constants of the plants.

    Parameters
    ----------
    plants : Plants
        The plants that have observations.
    fixed : bool
        Whether m and s are constant: the median of the plants' centres, and roughly the posterior
        sd of mu.
    around : (float, float), optional
        Constants to use for m and s, instead of all other choices.

    Attributes
    ----------
    centre, unit : float
        The constants m and s; absent if m and s depend on u.
    tail_dof : float
        Degrees of freedom of sigma2's upper tail.
    widest : Box
        A box that contains all but a negligible part of the posterior.
    """

    def __init__(
        self, plants: Plants, *, fixed: bool = False, around: tuple[float, float] | None = None
    ) -> None:
        self.plants, prior = plants, plants.prior
        times, centres, spreads = plants.multiplicity, plants.centre, plants.spread
        self.tail_dof = prior.sigma2_nu + float(plants.power @ times)
        if not plants.size:
            times, centres, spreads = np.ones(1), np.array([prior.mu_mean]), np.array([prior.mu_sd])
        share, reach = times / times.sum(), 9 * prior.mu_sd
        first = float(min((centres - 9 * spreads).min(), prior.mu_mean - reach))
        last = float(max((centres + 9 * spreads).max(), prior.mu_mean + reach))
        # To the left of `low`, the prior of sigma2 is below e^-100 of its maximum.
        size = share @ (centres - share @ centres) ** 2 + share @ spreads**2
        known = prior.sigma2_nu * prior.sigma2_scale**2
        low = math.log(known / (200 + 2 * prior.sigma2_nu)) - 2
        above = math.log((size + prior.mu_sd**2) * times.sum() + known)
        u = np.linspace(low, min(above + 64 / self.tail_dof, 500.0), 400)
        informative = plants.power >= 1
        if fixed or around or not np.any(informative):
            # The posterior of mu has about this width, whichever of the two variances dominates.
            unit = min(prior.mu_sd, float(np.sqrt(size / times.sum())))
            self.centre, self.unit = around or (float(np.median(centres)), unit)
            means, sds = np.full_like(u, self.centre), np.full_like(u, self.unit)
            self._bend = 1.0
        else:
            variance = np.exp(u)[:, None] + spreads[informative] ** 2
            precisions = times[informative] / variance
            precision = precisions.sum(axis=1) + prior.mu_sd**-2
            means = precisions @ centres[informative] + prior.mu_sd**-2 * prior.mu_mean
            means, sds = means / precision, precision**-0.5
            # With more plants, the posterior is closer to normal, and mu can be nearly linear in t.
            self._bend = 3.0 * math.sqrt(1 + float(times[informative].sum()) / 10)
        self._given = interpolate.CubicSpline(u, np.stack([means, np.log(sds)], axis=-1))
        ends = (self._bend * np.arcsinh((e - means) / (sds * self._bend)) for e in (first, last))
        t_low, t_high = ends
        self.widest = np.array([[t_low.min(), t_high.max()], [u[0], u[-1]]])

    def mu(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return mu at (t, u); arguments broadcast."""
        mean, log_sd = np.moveaxis(self._given(u), -1, 0)
        return as_floats(mean + np.exp(log_sd) * self._bend * np.sinh(t / self._bend))

    def log_prior(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return the log density of (t, u) in the prior; arguments broadcast."""
        prior = self.plants.prior
        z = (self.mu(t, u) - prior.mu_mean) / prior.mu_sd
        log_mu = -0.5 * (LOG_2PI + z**2) - np.log(prior.mu_sd)
        log_u = log_density_of_log(u, prior.sigma2_nu, prior.sigma2_scale)
        return as_floats(log_mu + log_u + self.log_slope(t, u))

    def log_slope(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return log d mu / dt; arguments broadcast."""
        return as_floats(self._given(u)[..., 1] + np.log(np.cosh(t / self._bend)))

    def on_grid(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return log p, shape (U, M); `t` has shape (M,) or (U, M), and `u` has shape (U,)."""
        each_u = u[:, None]
        log_integrals = self.plants.sum_log_integrals(self.mu(t, each_u), u)
        return as_floats(self.log_prior(t, each_u) + log_integrals)

    def at(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return log p at the points (t, u); all arrays have shape (N,)."""
        return self.on_grid(t[:, None], u)[:, 0]

    def of_some(self, num: int) -> Density:
        """Return the density for `num` plants, evenly spaced in the order of their centres."""
        order = np.argsort(self.plants.centre, kind="stable")
        other = copy(self)
        other.plants = self.plants.some(order[_spread(order.size, num)])
        return other


def _spread(size: int, num: int) -> NDArray[np.intp]:
    """Return `num` evenly spaced positions among `size`."""
    return np.linspace(0, size - 1, num).round().astype(np.intp)


def located(plants: Plants) -> tuple[Density, Box]:
    """Find suitable coordinates for the posterior, and the box that contains it."""
    density = Density(plants)
    many = plants.size > 2 * _SCOUTS
    scouts = density.of_some(_SCOUTS) if many else density
    found = zoom(scouts)
    if found.filled < _POORLY_FILLED:
        # Data and prior disagree, and the guess of mu given u is far off.
        mu = scouts.mu(found.t, found.u[:, None])
        centre = float((found.weights * mu).sum())
        unit = float(np.sqrt((found.weights * (mu - centre) ** 2).sum()))
        other = Density(plants, around=(centre, unit))
        again = zoom(other.of_some(_SCOUTS) if many else other)
        if again.filled > found.filled:
            density, found = other, again
    climbed = _climb(density, found) if many else found.box
    return density, zoom(density).box if climbed is None else climbed


@dataclass(frozen=True)
class Zoomed:
    """The last grid of a zoom: the box around its relevant part, and weights that sum to one."""

    box: Box
    t: FloatArray
    u: FloatArray
    weights: FloatArray

    @property
    def filled(self) -> float:
        """Share of the grid points that are relevant."""
        return float(np.mean(self.weights > np.exp(-_DROP) * self.weights.max()))


def zoom(density: Density, drop: float = _DROP, num: int = _ZOOM_POINTS) -> Zoomed:
    """Zoom in on the part above e^-drop of the maximum, from a box that contains the posterior."""
    box = density.widest
    for _ in range(30):
        t, u = even_grid(box, num, num)
        values = density.on_grid(t, u)
        inside = values > values.max() - drop
        smaller = np.array([_cut(t, np.any(inside, axis=0)), _cut(u, np.any(inside, axis=1))])
        kept, box = np.prod(np.diff(smaller)) / np.prod(np.diff(box)), smaller
        if kept > 0.6:
            break
    weights = np.exp(values - values.max())
    return Zoomed(box, t, u, weights / weights.sum())


def _cut(axis: FloatArray, inside: BoolArray) -> FloatArray:
    """Return the ends of the inner part, with one more cell on either side."""
    where = np.flatnonzero(inside)
    return axis[[max(where[0] - 1, 0), min(where[-1] + 1, axis.size - 1)]]


def _climb(density: Density, found: Zoomed) -> Box | None:
    """Return a box around the maximum, found by Newton's method; None if it was not found."""
    point, spread = np.empty(2), np.empty(2)
    for i, axis in enumerate((found.t, found.u)):
        mass = found.weights.sum(axis=i)
        point[i] = mass @ axis
        spread[i] = max(np.sqrt(mass @ (axis - point[i]) ** 2), 0.25 * (axis[1] - axis[0]))
    offsets = np.array([-1.0, 0.0, 1.0])
    for _ in range(_CLIMB_STEPS):
        f = density.on_grid(point[0] + spread[0] * offsets, point[1] + spread[1] * offsets).T
        slope = 0.5 * np.array([f[2, 1] - f[0, 1], f[1, 2] - f[1, 0]])
        twist = 0.25 * (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0])
        along_t, along_u = f[2, 1] - 2 * f[1, 1] + f[0, 1], f[1, 2] - 2 * f[1, 1] + f[1, 0]
        bend = np.array([[along_t, twist], [twist, along_u]])
        if np.linalg.eigvalsh(bend)[-1] >= -1e-6:
            best = np.unravel_index(int(np.argmax(f)), f.shape)
            point = point + spread * offsets[list(best)]
            continue
        step = np.clip(-np.linalg.solve(bend, slope), -30.0, 30.0)
        sd = np.sqrt(np.diag(np.linalg.inv(-bend)))
        point = point + spread * step
        settled = np.all(np.abs(step) < 0.5 * sd) and np.all(np.abs(np.log(sd)) < 0.7)
        spread = spread * np.clip(sd, 0.05, 3.0)
        if settled:
            return np.stack([point - _REACH * spread, point + _REACH * spread], axis=1)
    return None


@dataclass(frozen=True)
class HyperDraws:
    """Independent draws of (mu, sigma2) with the plants integrated out.

    Attributes
    ----------
    mu : array, shape (num_draws,)
        The draws of mu.
    sigma2 : array, shape (num_draws,)
        The draws of sigma2.
    acceptance : float
        Share of the proposals that were kept.
    num_exact : int
        Number of proposals for which the exact density had to be computed.
    largest_excess : float
        The largest difference between the log density and the log hat at these proposals, at most
        1e-6; -inf if there are none.

    See Also
    --------
    pyflowers.exact.PoissonSampler : Draw from the posterior of the multilevel Poisson model.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.exact import PoissonSampler
    >>> sampler = PoissonSampler(totals=[15, 6, 24], counts=[3, 3, 3])
    >>> hyper = sampler.draw_hyper(1_000, np.random.default_rng(1))
    >>> hyper.mu.shape, hyper.sigma2.shape
    ((1000,), (1000,))
    >>> hyper.acceptance > 0.5
    True
    """

    mu: FloatArray
    sigma2: FloatArray
    acceptance: float
    num_exact: int
    largest_excess: float


class HyperSampler:
    """Sampler of (mu, sigma2) from their joint posterior, with the plants integrated out.

    Parameters
    ----------
    density : Density
        The exact density.
    box : Box
        The box with which to start; it is enlarged if the density is not negligible outside it.

    Attributes
    ----------
    error : float
        The largest error that was found in the spline.
    log_evidence : float
        log p(y), from the spline, without the constants that `density` leaves out.

    Raises
    ------
    FitError
        If the density cannot be tabulated.
    """

    def __init__(self, density: Density, box: Box) -> None:
        self._density = density
        self._spline, box, self.error = _tabulated(density, box)
        self._margin = _ERROR_MARGIN * max(self.error, _SMALLEST_ERROR)
        t, u = even_grid(box, 2 * _CELLS + 1, 2 * _CELLS + 1)
        lattice = as_floats(self._spline(t, u))
        self._peak = float(lattice.max())
        mass = np.exp(lattice - self._peak)
        self.log_evidence = self._peak + float(np.log(mass.sum() * (t[1] - t[0]) * (u[1] - u[0])))
        self._t, self._u = t[:-2:2], u[:-2:2]
        self._width = t[2] - t[0], u[2] - u[0]
        hat = _cell_bounds(lattice) + self._margin
        self._hat = np.maximum(hat, self._peak - _LOWEST_HAT).ravel()

    def draw(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw (mu, sigma2) independently.

        Raises
        ------
        FitError
            If no hat above the density could be found.
        """
        for _ in range(_MAX_RAISES):
            if self._hat.max() - self._peak > _HIGHEST_HAT:
                break
            cumulative = np.cumsum(np.exp(self._hat - self._peak))
            num, num_exact, excess, share = 0, 0, -np.inf, 0.7
            points = np.empty((2, 0))
            while points.shape[1] < num_draws:
                size = int((num_draws - points.shape[1]) / share * 1.05) + 16
                more, decided, above = self._proposed(size, cumulative, rng)
                points = np.append(points, more, axis=1)
                num, num_exact = num + size, num_exact + decided
                excess, share = max(excess, above), max(more.shape[1] / size, 0.01)
            if excess <= _ROUNDING:
                t, u = points[:, :num_draws]
                accepted = points.shape[1] / num
                return HyperDraws(self._density.mu(t, u), np.exp(u), accepted, num_exact, excess)
            self._hat = self._hat + 2 * excess
        raise FitError(
            "the marginal posterior of mu and sigma2 is too irregular for independent draws: "
            "use NUTS instead"
        )

    def _proposed(
        self, num: int, cumulative: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, int, float]:
        """Propose points.

        Return the accepted points, the number of proposals for which log p was computed, and the
        largest excess of log p over H.
        """
        place = rng.random(num) * cumulative[-1]
        cell = np.minimum(np.searchsorted(cumulative, place, side="right"), self._hat.size - 1)
        row, column = np.divmod(cell, _CELLS)
        t = self._t[row] + self._width[0] * rng.random(num)
        u = self._u[column] + self._width[1] * rng.random(num)
        hat = self._hat[cell]
        level = hat - rng.standard_exponential(num)
        guess = as_floats(self._spline(t, u, grid=False))
        accepted = level < guess
        doubtful = np.abs(level - guess) < self._margin
        doubtful |= guess + self._margin > hat
        doubtful |= (guess < self._peak - _SURE_DROP) & (guess > self._peak - 2 * _LOWEST_HAT)
        where, excess = np.flatnonzero(doubtful), -np.inf
        if where.size:
            exact = self._density.at(t[where], u[where])
            accepted[where] = level[where] < exact
            excess = float((exact - hat[where]).max())
        return np.stack([t[accepted], u[accepted]]), int(where.size), excess


def _cell_bounds(lattice: FloatArray) -> FloatArray:
    """Bound a smooth function on each cell, shape (C, C), by its values at 3 × 3 points.

    Between three evenly spaced points, a quadratic function exceeds the largest of its values at
    these points by at most an eighth of the size of its second difference. Twice that amount is
    added for each axis.
    """
    end = 2 * _CELLS
    corners = [lattice[i : i + end : 2, j : j + end : 2] for i, j in product(range(3), repeat=2)]
    blocks = np.reshape(corners, (3, 3, _CELLS, _CELLS))
    along_t = np.abs(blocks[0] - 2 * blocks[1] + blocks[2]).max(axis=0)
    along_u = np.abs(blocks[:, 0] - 2 * blocks[:, 1] + blocks[:, 2]).max(axis=0)
    return as_floats(blocks.max(axis=(0, 1)) + 0.25 * (along_t + along_u))


def _tabulated(density: Density, box: Box) -> tuple[interpolate.RectBivariateSpline, Box, float]:
    """Fit a spline to log p in a large enough box; return spline, box and largest error."""
    # This grid suffices for a function that is smooth on a scale of one; it is refined for others.
    size = np.clip(np.ceil(np.diff(box)[:, 0] / 1.5), _FIRST_SIZE, _LARGEST_SIZE).astype(int)
    for _ in range(_REFINEMENTS):
        t, u = even_grid(box, *size)
        values = density.on_grid(t, u).T
        low = values <= values.max() - _EDGE_DROP
        larger = box.copy()
        for ends, limits, outside in zip(
            larger, density.widest, (low.all(1), low.all(0)), strict=True
        ):
            # Move each end outwards, up to its limit, if the density there is not low.
            width = ends[1] - ends[0]
            if not outside[0]:
                ends[0] = max(ends[0] - 0.25 * width, min(limits[0], ends[0]))
            if not outside[-1]:
                ends[1] = min(ends[1] + 0.25 * width, max(limits[1], ends[1]))
        if np.any(larger != box):
            box = larger
            continue
        spline = interpolate.RectBivariateSpline(t, u, values, kx=5, ky=5)
        # Compute errors halfway between some of the points, along t and along u.
        row, column = np.argwhere(values[:-1, :-1] > values.max() - _CHECKED_DROP).T
        some = _spread(row.size, min(row.size, _CHECKS))
        errors = []
        for right, up in ((0.5, 0.0), (0.0, 0.5)):
            at = t[row[some]] + right * (t[1] - t[0]), u[column[some]] + up * (u[1] - u[0])
            errors.append(float(np.abs(spline(*at, grid=False) - density.at(*at)).max()))
        finer = [_next_size(n, error) for n, error in zip(size, errors, strict=True)]
        if np.all(finer == size):
            return spline, box, max(errors)
        size = np.array(finer)
    raise FitError(
        "the marginal posterior of mu and sigma2 could not be tabulated: use NUTS instead"
    )


def _next_size(size: int, error: float) -> int:
    """Return a larger number of points if the spline's error, of order size^-6, is too large."""
    if error <= _TOLERANCE or size >= _LARGEST_SIZE:
        return size
    factor = np.clip(1.1 * (error / _TOLERANCE) ** (1 / 6), 1.2, 2.5)
    return int(min(np.ceil(factor * size), _LARGEST_SIZE))
