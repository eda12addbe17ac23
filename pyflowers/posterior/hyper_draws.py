"""Independent draws of (mu, sigma2) by rejection from a piecewise constant envelope.

In the coordinates (t, u) of :mod:`.hyper_density` a box is cut into cells. Over each cell the hat H
is constant and lies above log p. A cell is drawn with probability proportional to its area times
e^H, a point evenly within it, and the point is kept if E + log p > H for E = log of a uniform
number: then it has the density p exactly, whatever H, and draws are independent (Devroye 1986,
section II.3). No step refers to an earlier draw.

A quintic spline s through log p on an even grid only saves evaluations, as a squeeze (Marsaglia
1977): if |s - log p| <= ε, a point with E + s - H outside ±ε is decided without log p. Only the few
within, those far out and those above the hat are decided by log p itself. The grid is refined, each
axis by itself, until the spline errs by less than 2e-4 halfway between its points, where the
density is above e^-14 of its maximum; ε is ten times the largest error that was seen.

H is the largest of nine values of s on the cell, plus twice what its curvature could add between
them, plus ε. That is an estimate: where log p is evaluated, by how much it exceeds H is recorded,
and if it ever does so by more than rounding error the hat is raised and all draws start afresh.

What is left of approximation: the quadrature of each plant's integral (1e-9 of log I), the mass
outside the box (e^-25 of the density's maximum on all sides), and doubles.

References
----------
de Boor (2001), A Practical Guide to Splines, rev. ed., chapters XII and XVII.
Devroye (1986), Non-Uniform Random Variate Generation, chapter II.
Marsaglia (1977), The squeeze method for generating gamma variates, Computers & Mathematics with
Applications 3(4).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import interpolate

from pyflowers.errors import FitError
from pyflowers.posterior.distributions import FloatArray, as_floats
from pyflowers.posterior.hyper_density import Box, Density

_EDGE_DROP = 25.0
_FIRST_SIZE, _LARGEST_SIZE = 12, 240
_REFINEMENTS = 40
_TOLERANCE = 2e-4
_CHECKED_DROP = 14.0
_CHECKS = 24

_CELLS = 96
_SURE_DROP = 12.0  # below this the spline was hardly checked: log p decides
_LOWEST_HAT = 60.0
_ERROR_MARGIN = 10.0
_SMALLEST_ERROR = 1e-7
_ROUNDING = 1e-6
_MAX_RAISES = 8


@dataclass(frozen=True)
class HyperDraws:
    """Independent draws of (mu, sigma2).

    Parameters
    ----------
    mu, sigma2 : array, shape (num_draws,)
        The draws.
    acceptance : float
        Share of the proposals that were kept.
    num_exact : int
        Proposals that the exact density had to decide.
    largest_excess : float
        The largest log p - H seen; at most 1e-6, else the hat was raised.
    """

    mu: FloatArray
    sigma2: FloatArray
    acceptance: float
    num_exact: int
    largest_excess: float


class HyperSampler:
    """Draws (mu, sigma2) from their joint posterior, the plants integrated out.

    Parameters
    ----------
    density : Density
        The exact density.
    box : Box
        Where it is.

    Attributes
    ----------
    error : float
        The largest error of the spline that was seen.
    log_evidence : float
        log p(y), from the spline, without what `density` leaves out.

    Raises
    ------
    FitError
        If no spline goes through the density.
    """

    def __init__(self, density: Density, box: Box) -> None:
        self._density = density
        self._spline, box, self.error = _tabulated(density, box)
        self._margin = _ERROR_MARGIN * max(self.error, _SMALLEST_ERROR)
        t, u = np.linspace(*box.t, 2 * _CELLS + 1), np.linspace(*box.u, 2 * _CELLS + 1)
        lattice = as_floats(self._spline(t, u))
        self._peak = float(lattice.max())
        mass = np.exp(lattice - self._peak)
        self.log_evidence = self._peak + float(np.log(mass.sum() * (t[1] - t[0]) * (u[1] - u[0])))
        self._t, self._u = t[:-2:2], u[:-2:2]
        self._width = t[2] - t[0], u[2] - u[0]
        hat = _cell_bounds(lattice) + self._margin
        self._hat = np.maximum(hat, self._peak - _LOWEST_HAT).ravel()

    def draw(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw independently.

        Raises
        ------
        FitError
            If no hat could be laid above the density.
        """
        for _ in range(_MAX_RAISES):
            cumulative = np.cumsum(np.exp(self._hat - self._peak))
            num, num_exact, excess, share = 0, 0, -np.inf, 0.7
            t = u = np.empty(0)
            while t.size < num_draws:
                size = int((num_draws - t.size) / share * 1.05) + 16
                more_t, more_u, decided, above = self._proposed(size, cumulative, rng)
                t, u = np.append(t, more_t), np.append(u, more_u)
                num, num_exact = num + size, num_exact + decided
                excess, share = max(excess, above), max(more_t.size / size, 0.01)
            if excess <= _ROUNDING:
                mu = self._density.mu(t[:num_draws], u[:num_draws])
                return HyperDraws(mu, np.exp(u[:num_draws]), t.size / num, num_exact, excess)
            self._hat = self._hat + 2 * excess
        raise FitError(
            "the marginal posterior of mu and sigma2 is too irregular for independent draws: "
            "use NUTS instead"
        )

    def _proposed(
        self, num: int, cumulative: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, int, float]:
        """Propose points; return those accepted, how many log p decided, and its largest excess."""
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
        return t[accepted], u[accepted], int(where.size), excess


def _cell_bounds(lattice: FloatArray) -> FloatArray:
    """Bound a smooth function on each cell, shape (C, C), by its values at 3 × 3 points.

    Between three even points a function exceeds their largest value by at most an eighth of the
    size of its second difference; twice that is added, for each axis.
    """
    end = 2 * _CELLS
    corners = [lattice[i : i + end : 2, j : j + end : 2] for i, j in product(range(3), repeat=2)]
    blocks = np.reshape(corners, (3, 3, _CELLS, _CELLS))
    along_t = np.abs(blocks[0] - 2 * blocks[1] + blocks[2]).max(axis=0)
    along_u = np.abs(blocks[:, 0] - 2 * blocks[:, 1] + blocks[:, 2]).max(axis=0)
    return as_floats(blocks.max(axis=(0, 1)) + 0.25 * (along_t + along_u))


def _tabulated(density: Density, box: Box) -> tuple[interpolate.RectBivariateSpline, Box, float]:
    """Lay a spline through log p in the box, or a wider one; return both, and its largest error."""
    # Enough points for a function that is smooth on a scale of one, and for a narrow peak.
    sizes = [
        int(np.clip(np.ceil((high - low) / 1.5), _FIRST_SIZE, _LARGEST_SIZE))
        for low, high in (box.t, box.u)
    ]
    for _ in range(_REFINEMENTS):
        t, u = np.linspace(*box.t, sizes[0]), np.linspace(*box.u, sizes[1])
        values = density.on_grid(t, u).T
        low = values <= values.max() - _EDGE_DROP
        larger = Box(
            _widened(box.t, density.widest.t, low.all(axis=1)),
            _widened(box.u, density.widest.u, low.all(axis=0)),
        )
        if larger != box:
            box = larger
            continue
        spline = interpolate.RectBivariateSpline(t, u, values, kx=5, ky=5)
        errors = _errors(density, spline, t, u, values)
        finer = [_next_size(size, error) for size, error in zip(sizes, errors, strict=True)]
        if finer == sizes:
            return spline, box, max(errors)
        sizes = finer
    raise FitError(
        "the marginal posterior of mu and sigma2 could not be tabulated: use NUTS instead"
    )


def _widened(
    ends: tuple[float, float], limits: tuple[float, float], low: FloatArray
) -> tuple[float, float]:
    """Move out each end, up to its limit, where the density is not `low`."""
    width = ends[1] - ends[0]
    return (
        ends[0] if low[0] else max(ends[0] - 0.25 * width, min(limits[0], ends[0])),
        ends[1] if low[-1] else min(ends[1] + 0.25 * width, max(limits[1], ends[1])),
    )


def _errors(
    density: Density,
    spline: interpolate.RectBivariateSpline,
    t: FloatArray,
    u: FloatArray,
    values: FloatArray,
) -> list[float]:
    """Largest errors of the spline halfway between some of its points, along t and along u."""
    within = np.argwhere(values[:-1, :-1] > values.max() - _CHECKED_DROP)
    some = np.linspace(0, len(within) - 1, min(len(within), _CHECKS)).round().astype(np.intp)
    row, column = within[some].T
    errors = []
    for right, up in ((0.5, 0.0), (0.0, 0.5)):
        at_t, at_u = t[row] + right * (t[1] - t[0]), u[column] + up * (u[1] - u[0])
        errors.append(float(np.abs(spline(at_t, at_u, grid=False) - density.at(at_t, at_u)).max()))
    return errors


def _next_size(size: int, error: float) -> int:
    """More points where the spline errs too much; its error falls by their sixth power."""
    if error <= _TOLERANCE or size >= _LARGEST_SIZE:
        return size
    factor = np.clip(1.1 * (error / _TOLERANCE) ** (1 / 6), 1.2, 2.5)
    return int(min(np.ceil(factor * size), _LARGEST_SIZE))
