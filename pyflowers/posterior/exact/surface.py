"""log p(y, t, u) as a smooth surface: located with few plants, tabulated with few points.

The coordinates (t, u) are those of :mod:`.coordinates`. What a point costs grows with the number of
plants, so

 1. with many plants, a few of them find the region, for their posterior is wider than that of all;
 2. Newton's method goes from there to the maximum of all, on central differences of 3 × 3 points;
 3. a quintic spline (de Boor 2001) through an even grid tabulates log p in the box around it. The
    grid is refined, each axis by itself, until the spline errs by less than 2e-4 halfway between
    its points, where the density is above e^-14 of its maximum.

All of this is done with rough values. Where these turn out to err by more than the spline may, the
grid is made again with exact ones.

The box leaves out what is below e^-25 of the maximum on all sides. The spline is no more than a
proposal: :mod:`.envelope` corrects its error.

References
----------
de Boor (2001), A Practical Guide to Splines, rev. ed., chapters XII and XVII.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import interpolate

from pyflowers.errors import FitError
from pyflowers.posterior.exact.coordinates import Coordinates, Density
from pyflowers.posterior.exact.grid import Box, Region, shrunk
from pyflowers.posterior.exact.integrals import IntArray, Plants
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.priors import MultilevelPrior

_DROP = 26.0
_EDGE_DROP = 25.0
_SCOUTS = 16  # plants that find the region
_ZOOM_POINTS = 16
_CLIMB_STEPS = 25
_REACH = 9.0  # standard deviations from the maximum to the sides of the box
_FIRST_SIZE, _LARGEST_SIZE = 12, 240
_REFINEMENTS = 40
_POORLY_FILLED = 0.25
_TOLERANCE = 2e-4
_CHECKED_DROP = 14.0
_CHECKS = 24
_EXACT_CHECKS = 16


@dataclass(frozen=True)
class Surface:
    """A spline through log p(y, t, u) in a box.

    Parameters
    ----------
    box : Box
        Where.
    log_density : callable
        The spline: (t, u, grid=True or False) to values; on a grid of shape (T, U).
    error : float
        The largest error seen halfway between the grid's points, and that of the values on them.
    size : (int, int)
        Points along t and u.
    """

    box: Box
    log_density: Callable[..., FloatArray]
    error: float
    size: tuple[int, int]


def located(plants: Plants, prior: MultilevelPrior, region: Region) -> tuple[Density, Box]:
    """Find coordinates that suit the posterior, and the box in them that holds it."""
    density = Density(plants, region, Coordinates(plants, prior, region))
    many = plants.size > 2 * _SCOUTS
    scouts = density.of_some(_SCOUTS) if many else density
    found = _zoom(scouts)
    if found.filled < _POORLY_FILLED:
        # Data and prior disagree: the guess of mu given u is far from what it is.
        mu = scouts.coordinates.mu(found.t, found.u[:, None])
        centre = float((found.weights * mu).sum())
        unit = float(np.sqrt((found.weights * (mu - centre) ** 2).sum()))
        other = Density(plants, region, Coordinates(plants, prior, region, (centre, unit)))
        scouts = other.of_some(_SCOUTS) if many else other
        again = _zoom(scouts)
        if again.filled > found.filled:
            density, found = other, again
    climbed = _climb(density, found) if many else found.box
    return density, _zoom(density).box if climbed is None else climbed


def tabulate(density: Density, box: Box) -> Surface:
    """Lay a spline through log p in the box, or a wider one."""
    sizes = [_first_size(*box.t), _first_size(*box.u)]
    for _ in range(_REFINEMENTS):
        t, u = np.linspace(*box.t, sizes[0]), np.linspace(*box.u, sizes[1])
        values = density.on_grid(t, u).T
        larger = _widened(box, values, density.coordinates.widest())
        if larger != box:
            box = larger
            continue
        spline = interpolate.RectBivariateSpline(t, u, values, kx=5, ky=5)
        errors = _errors(density, spline, t, u, values)
        finer = [_next_size(size, error) for size, error in zip(sizes, errors, strict=True)]
        if finer != sizes:
            sizes = finer
            continue
        rough = _rough_error(density, t, u, values)
        if rough <= _TOLERANCE:
            return Surface(box, spline, max(errors) + rough, (sizes[0], sizes[1]))
        density = density.without_rough_values()
    raise FitError(
        "the marginal posterior of mu and sigma2 could not be tabulated: use NUTS instead"
    )


def _next_size(size: int, error: float) -> int:
    """More points where the spline errs too much; its error falls by their sixth power."""
    if error <= _TOLERANCE or size >= _LARGEST_SIZE:
        return size
    factor = np.clip(1.1 * (error / _TOLERANCE) ** (1 / 6), 1.2, 2.5)
    return int(min(np.ceil(factor * size), _LARGEST_SIZE))


def _first_size(low: float, high: float) -> int:
    """Enough points for a function that is smooth on a scale of one, and for a narrow peak."""
    return int(np.clip(np.ceil((high - low) / 1.5), _FIRST_SIZE, _LARGEST_SIZE))


@dataclass(frozen=True)
class _Found:
    """The last grid of a zoom: weights sum to one, shape (U, M)."""

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
        for i, (axis, mass) in enumerate(((self.t, self.weights.sum(0)), (self.u, self.weights.sum(1)))):  # fmt: skip  # noqa: E501
            means[i] = mass @ axis
            sds[i] = max(np.sqrt(mass @ (axis - means[i]) ** 2), 0.25 * (axis[1] - axis[0]))
        return means, sds


def _zoom(density: Density) -> _Found:
    """Zoom in from a box that certainly holds the posterior."""
    box = density.coordinates.widest()
    for _ in range(30):
        t, u = np.linspace(*box.t, _ZOOM_POINTS), np.linspace(*box.u, _ZOOM_POINTS)
        values = density.on_grid(t, u)
        smaller = shrunk(t, u, values > values.max() - _DROP)
        kept = smaller.area / box.area
        box = smaller
        if kept > 0.6:
            break
    weights = np.exp(values - values.max())
    return _Found(box, t, u, weights / weights.sum())


def _climb(density: Density, found: _Found) -> Box | None:
    """Newton's method to the maximum; the box around it, or None if it was not found."""
    point, spread = found.peak()
    offsets = np.array([-1.0, 0.0, 1.0])
    for _ in range(_CLIMB_STEPS):
        f = density.on_grid(point[0] + spread[0] * offsets, point[1] + spread[1] * offsets).T
        slope = 0.5 * np.array([f[2, 1] - f[0, 1], f[1, 2] - f[1, 0]])
        twist = 0.25 * (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0])
        bend = np.array([[f[2, 1] - 2 * f[1, 1] + f[0, 1], twist], [twist, f[1, 2] - 2 * f[1, 1] + f[1, 0]]])  # fmt: skip  # noqa: E501
        if np.linalg.eigvalsh(bend)[-1] >= -1e-6:
            best = np.unravel_index(int(np.argmax(f)), f.shape)
            point = point + spread * offsets[list(best)]
            continue
        step = np.clip(-np.linalg.solve(bend, slope), -3.0, 3.0)
        sd = np.sqrt(np.diag(np.linalg.inv(-bend)))
        point = point + spread * step
        settled = np.all(np.abs(step) < 0.5 * sd) and np.all(np.abs(np.log(sd)) < 0.7)
        spread = spread * np.clip(sd, 0.05, 3.0)
        if settled:
            low, high = point - _REACH * spread, point + _REACH * spread
            return Box((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))
    return None


def _widened(box: Box, values: FloatArray, widest: Box) -> Box:
    """Move out each side on which the density, shape (T, U), has not fallen enough."""
    floor = values.max() - _EDGE_DROP

    def axis(
        ends: tuple[float, float], limits: tuple[float, float], edges: tuple[FloatArray, FloatArray]
    ) -> tuple[float, float]:
        width = ends[1] - ends[0]
        low, high = (float(edge.max()) > floor for edge in edges)
        return (
            max(ends[0] - 0.25 * width, min(limits[0], ends[0])) if low else ends[0],
            min(ends[1] + 0.25 * width, max(limits[1], ends[1])) if high else ends[1],
        )

    return Box(
        axis(box.t, widest.t, (values[0], values[-1])),
        axis(box.u, widest.u, (values[:, 0], values[:, -1])),
    )


def _errors(
    density: Density,
    spline: Callable[..., FloatArray],
    t: FloatArray,
    u: FloatArray,
    values: FloatArray,
) -> tuple[float, float]:
    """Largest errors of the spline halfway between points, along t and along u."""
    within = values > values.max() - _CHECKED_DROP
    at_t, at_u = [], []
    for axis in (0, 1):
        here = _spread(within & _has_next(within.shape, axis), _CHECKS)
        at_t.append(t[here[:, 0]] + 0.5 * (t[1] - t[0]) * (axis == 0))
        at_u.append(u[here[:, 1]] + 0.5 * (u[1] - u[0]) * (axis == 1))
    both_t, both_u = np.concatenate(at_t), np.concatenate(at_u)
    off = np.abs(spline(both_t, both_u, grid=False) - density.nearly_at(both_t, both_u))
    along_t, along_u = np.split(off, [at_t[0].size])
    return float(along_t.max()), float(along_u.max())


def _rough_error(density: Density, t: FloatArray, u: FloatArray, values: FloatArray) -> float:
    """Largest error of the rough `values` at some of the points."""
    if density.rough is density.plants:
        return 0.0
    here = _spread(values > values.max() - _CHECKED_DROP, _EXACT_CHECKS)
    exact = density.at(t[here[:, 0]], u[here[:, 1]])
    return float(np.abs(exact - values[here[:, 0], here[:, 1]]).max())


def _spread(within: npt.NDArray[np.bool_], num: int) -> IntArray:
    """Return at most `num` of the points within, spread over them, as rows of indices."""
    here = np.argwhere(within)
    return here[np.linspace(0, len(here) - 1, min(len(here), num)).round().astype(np.intp)]


def _has_next(shape: tuple[int, ...], axis: int) -> npt.NDArray[np.bool_]:
    """Whether a point has a neighbour further along an axis."""
    has = np.ones(shape, dtype=np.bool_)
    has[(-1, slice(None)) if axis == 0 else (slice(None), -1)] = False
    return has
