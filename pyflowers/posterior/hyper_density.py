"""The density of (mu, sigma2), the plants integrated out, and where it is.

Given mu and sigma2 plants are independent, so

    log p(y, t, u) = log p(mu) + log p(u) + Σ_p log I_p(mu, u) + log d mu / dt,   u = log sigma2,

with the plants' integrals of :mod:`.normal_plants` and :mod:`.poisson_plants`. Given u, mu is
nearly normal, with a mean m(u) and a standard deviation s(u) that depend on u; the coordinate t
with

    mu = m(u) + s(u) k sinh(t / k)

is near m(u) in standard deviations and geometric far out, so the density is smooth on a scale of
one for all u. m and s are those that mu had if plant p said no more than centre_p ~ N(mu, e^u +
spread_p²). They need not be right: a wrong guess costs points of a grid, not exactness. Where it is
very wrong, as data and prior disagree, or where there are no informative plants, m and s are
constant and k is 1.

What a point costs grows with the number of plants. So with many of them a few find the region, for
their posterior is wider than that of all, and Newton's method goes from there to the maximum of
all.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy import interpolate

from pyflowers.posterior.distributions import (
    LOG_2PI,
    BoolArray,
    FloatArray,
    MultilevelPrior,
    as_floats,
    log_density_of_log,
)
from pyflowers.posterior.normal_plants import NormalPlants
from pyflowers.posterior.poisson_plants import PoissonPlants

Plants = NormalPlants | PoissonPlants
"""Plants that have observations, those with equal sufficient statistics merged."""

_DROP = 26.0
_SCOUTS = 16  # plants that find the region
_ZOOM_POINTS = 16
_CLIMB_STEPS = 25
_REACH = 9.0  # standard deviations from the maximum to the sides of the box
_POORLY_FILLED = 0.25


@dataclass(frozen=True)
class Box:
    """A rectangle of (t, u)."""

    t: tuple[float, float]
    u: tuple[float, float]

    @property
    def area(self) -> float:
        """Its area."""
        return (self.t[1] - self.t[0]) * (self.u[1] - self.u[0])


class Density:
    """log p(y, t, u) without the plants' constants, at any points.

    Parameters
    ----------
    plants : NormalPlants or PoissonPlants
        The plants that have observations.
    prior : MultilevelPrior
        Of mu and sigma2.
    fixed : bool
        Whether m and s are constant: the plants' middle, and a width of the posterior.
    around : (float, float), optional
        Other constants m and s.

    Attributes
    ----------
    centre, unit : float
        m and s where they are constant.
    tail_dof : float
        Degrees of freedom of sigma2's upper tail.
    widest : Box
        It certainly holds all of the posterior.
    """

    def __init__(
        self,
        plants: Plants,
        prior: MultilevelPrior,
        *,
        fixed: bool = False,
        around: tuple[float, float] | None = None,
    ) -> None:
        self.plants, self._prior = plants, prior
        times, centres, spreads = plants.multiplicity, plants.centre, plants.spread
        self.tail_dof = prior.sigma2_nu + float(plants.power @ times)
        if not plants.size:
            times, centres, spreads = np.ones(1), np.array([prior.mu_mean]), np.array([prior.mu_sd])
        share, reach = times / times.sum(), 9 * prior.mu_sd
        ends = (
            float(min((centres - 9 * spreads).min(), prior.mu_mean - reach)),
            float(max((centres + 9 * spreads).max(), prior.mu_mean + reach)),
        )
        # Left of this the prior of sigma2 is below e^-100 of its maximum.
        size = share @ (centres - share @ centres) ** 2 + share @ spreads**2
        known = prior.sigma2_nu * prior.sigma2_scale**2
        low = math.log(known / (200 + 2 * prior.sigma2_nu)) - 2
        above = math.log((size + prior.mu_sd**2) * times.sum() + known)
        u = np.linspace(low, min(above + 64 / self.tail_dof, 500.0), 400)
        informative = plants.power >= 1
        if fixed or around or not np.any(informative):
            # The posterior of mu is about this wide, whichever of the two variances rules.
            unit = min(prior.mu_sd, float(np.sqrt(size / times.sum())))
            self.centre, self.unit = around or (float(np.median(centres)), unit)
            means, sds = np.full_like(u, self.centre), np.full_like(u, self.unit)
            self._bend = 1.0
        else:
            means, sds = self._guessed(u, informative)
            # The more plants, the closer to normal: then nothing but a straight line is needed.
            self._bend = 3.0 * math.sqrt(1 + float(times[informative].sum()) / 10)
        self._given = interpolate.CubicSpline(u, np.stack([means, np.log(sds)], axis=-1))
        t_low, t_high = (self._bend * np.arcsinh((e - means) / (sds * self._bend)) for e in ends)
        self.widest = Box((float(t_low.min()), float(t_high.max())), (float(u[0]), float(u[-1])))

    def _guessed(self, u: FloatArray, informative: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return m(u) and s(u)."""
        plants, prior = self.plants, self._prior
        variance = np.exp(u)[:, None] + plants.spread[informative] ** 2
        precisions = plants.multiplicity[informative] / variance
        precision = precisions.sum(axis=1) + prior.mu_sd**-2
        mean = precisions @ plants.centre[informative] + prior.mu_sd**-2 * prior.mu_mean
        return mean / precision, precision**-0.5

    def mu(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return mu; arguments broadcast."""
        mean, log_sd = np.moveaxis(self._given(u), -1, 0)
        return as_floats(mean + np.exp(log_sd) * self._bend * np.sinh(t / self._bend))

    def log_prior(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return the log density of (t, u) in the prior; arguments broadcast."""
        prior = self._prior
        z = (self.mu(t, u) - prior.mu_mean) / prior.mu_sd
        log_mu = -0.5 * (LOG_2PI + z**2) - np.log(prior.mu_sd)
        log_u = log_density_of_log(u, prior.sigma2_nu, prior.sigma2_scale)
        return as_floats(log_mu + log_u + self.log_slope(t, u))

    def log_slope(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return log d mu / dt; arguments broadcast."""
        return as_floats(self._given(u)[..., 1] + np.log(np.cosh(t / self._bend)))

    def on_grid(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return values on the grid of `t`, shape (M,), and `u`, shape (U,); shape (U, M)."""
        each_u = u[:, None]
        log_integrals = self.plants.sum_log_integrals(self.mu(t, each_u), u)
        return as_floats(self.log_prior(t, each_u) + log_integrals)

    def at(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return values at the points (t, u), all of shape (N,)."""
        log_integrals = self.plants.sum_log_integrals(self.mu(t, u)[:, None], u)[:, 0]
        return as_floats(self.log_prior(t, u) + log_integrals)

    def of_some(self, num: int) -> Density:
        """Keep `num` plants only, spread evenly over the plants in order of their centres."""
        order = np.argsort(self.plants.centre, kind="stable")
        index = order[np.linspace(0, order.size - 1, num).round().astype(np.intp)]
        other = copy(self)
        other.plants = self.plants.some(index)
        return other


def located(plants: Plants, prior: MultilevelPrior) -> tuple[Density, Box]:
    """Find coordinates that suit the posterior, and the box in them that holds it."""
    density = Density(plants, prior)
    many = plants.size > 2 * _SCOUTS
    scouts = density.of_some(_SCOUTS) if many else density
    found = zoom(scouts)
    if found.filled < _POORLY_FILLED:
        # Data and prior disagree: the guess of mu given u is far from what it is.
        mu = scouts.mu(found.t, found.u[:, None])
        centre = float((found.weights * mu).sum())
        unit = float(np.sqrt((found.weights * (mu - centre) ** 2).sum()))
        other = Density(plants, prior, around=(centre, unit))
        again = zoom(other.of_some(_SCOUTS) if many else other)
        if again.filled > found.filled:
            density, found = other, again
    climbed = _climb(density, found) if many else found.box
    return density, zoom(density).box if climbed is None else climbed


@dataclass(frozen=True)
class Zoomed:
    """The last grid of a zoom: the box around what matters of it, and weights that sum to one."""

    box: Box
    t: FloatArray
    u: FloatArray
    weights: FloatArray

    @property
    def filled(self) -> float:
        """Share of the grid's points that matter."""
        return float(np.mean(self.weights > np.exp(-_DROP) * self.weights.max()))

    def peak(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations of t and u, the latter at least a quarter of a cell."""
        means, sds = np.empty(2), np.empty(2)
        masses = (self.t, self.weights.sum(axis=0)), (self.u, self.weights.sum(axis=1))
        for i, (axis, mass) in enumerate(masses):
            means[i] = mass @ axis
            sds[i] = max(np.sqrt(mass @ (axis - means[i]) ** 2), 0.25 * (axis[1] - axis[0]))
        return means, sds


def zoom(density: Density, drop: float = _DROP, num: int = _ZOOM_POINTS) -> Zoomed:
    """Zoom in, from the box that certainly holds the posterior, on all within e^-drop."""
    box = density.widest
    for _ in range(30):
        t, u = np.linspace(*box.t, num), np.linspace(*box.u, num)
        values = density.on_grid(t, u)
        inside = values > values.max() - drop
        smaller = Box(_cut(t, np.any(inside, axis=0)), _cut(u, np.any(inside, axis=1)))
        kept, box = smaller.area / box.area, smaller
        if kept > 0.6:
            break
    weights = np.exp(values - values.max())
    return Zoomed(box, t, u, weights / weights.sum())


def _cut(axis: FloatArray, inside: BoolArray) -> tuple[float, float]:
    """Return the ends of what is inside, with one cell more on either side."""
    where = np.flatnonzero(inside)
    first, last = max(int(where[0]) - 1, 0), min(int(where[-1]) + 1, axis.size - 1)
    return float(axis[first]), float(axis[last])


def _climb(density: Density, found: Zoomed) -> Box | None:
    """Newton's method to the maximum; the box around it, or None if it was not found."""
    point, spread = found.peak()
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
            low, high = point - _REACH * spread, point + _REACH * spread
            return Box((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))
    return None
