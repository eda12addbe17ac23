"""Independent draws of (mu, sigma2) by rejection from a piecewise constant envelope.

In (t, u) a box is cut into cells. Over each cell the hat H is constant and lies above log p, the
exact log density of :mod:`.coordinates`. A cell is drawn with probability proportional to its area
times e^H, a point evenly within it, and the point is kept if E + log p > H for E = log of a
uniform number: then it has the density p exactly, whatever H, and draws are independent (Devroye
1986, section II.3). No step refers to an earlier draw.

The spline s through log p only saves evaluations, as a squeeze (Marsaglia 1977): if |s - log p| <=
ε, a point with E + s - H outside ±ε is decided without log p. Only the few within, those far out
and those above the hat are decided by log p itself. ε is ten times the largest error that was seen.

H is the largest of nine values of s on the cell, plus twice what its curvature could add between
them, plus ε. That is an estimate: where log p is evaluated, by how much it exceeds H is recorded,
and if it ever does so by more than rounding error the hat is raised and all draws start afresh.

What is left of approximation: the quadrature of each plant's integral (1e-9 of log I), the mass
outside the box (e^-25 of the density's maximum), and doubles.

References
----------
Devroye (1986), Non-Uniform Random Variate Generation, chapter II.
Marsaglia (1977), The squeeze method for generating gamma variates, Computers & Mathematics with
Applications 3(4).
"""

from dataclasses import dataclass, replace

import numpy as np

from pyflowers.errors import FitError
from pyflowers.posterior.exact.coordinates import Density
from pyflowers.posterior.exact.grid import Box
from pyflowers.posterior.exact.surface import Surface, tabulate
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats

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


@dataclass(frozen=True)
class _Batch:
    """Proposals and their outcomes."""

    t: FloatArray
    u: FloatArray
    num: int = 0
    num_exact: int = 0
    largest_excess: float = -np.inf


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
    surface : Surface
        The spline through it.
    log_evidence : float
        log p(y), from the spline, without what `density` leaves out.
    """

    def __init__(self, density: Density, box: Box) -> None:
        self._density = density
        self.surface: Surface = tabulate(density, box)
        self._error = _ERROR_MARGIN * max(self.surface.error, _SMALLEST_ERROR)
        box, num = self.surface.box, 2 * _CELLS + 1
        t, u = np.linspace(*box.t, num), np.linspace(*box.u, num)
        lattice = as_floats(self.surface.log_density(t, u))
        self._peak = float(lattice.max())
        mass = np.exp(lattice - self._peak)
        self.log_evidence = self._peak + float(np.log(mass.sum() * (t[1] - t[0]) * (u[1] - u[0])))
        self._t, self._u = t[:-2:2], u[:-2:2]
        self._width = np.array([t[2] - t[0], u[2] - u[0]])
        floor = self._peak - _LOWEST_HAT
        self._set_hat(np.maximum(_cell_bounds(lattice) + self._error, floor))

    def _set_hat(self, hat: FloatArray) -> None:
        self._hat = hat.ravel()
        self._cumulative = np.cumsum(np.exp(self._hat - self._peak))

    def draw(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw independently.

        Raises
        ------
        FitError
            If no hat could be laid above the density.
        """
        for _ in range(_MAX_RAISES):
            batches, missing, share = [], num_draws, 0.7
            while missing > 0:
                batch = self._propose(int(missing / share * 1.05) + 16, rng)
                batches.append(batch)
                share = max(batch.t.size / batch.num, 0.01)
                missing -= batch.t.size
            excess = max(batch.largest_excess for batch in batches)
            if excess <= _ROUNDING:
                return self._collected(batches, num_draws)
            self._set_hat(self._hat + 2 * excess)
        raise FitError(
            "the marginal posterior of mu and sigma2 is too irregular for independent draws: "
            "use NUTS instead"
        )

    def _collected(self, batches: list[_Batch], num_draws: int) -> HyperDraws:
        t = np.concatenate([batch.t for batch in batches])
        u = np.concatenate([batch.u for batch in batches])
        return HyperDraws(
            mu=self._density.coordinates.mu(t[:num_draws], u[:num_draws]),
            sigma2=np.exp(u[:num_draws]),
            acceptance=t.size / sum(batch.num for batch in batches),
            num_exact=sum(batch.num_exact for batch in batches),
            largest_excess=max(batch.largest_excess for batch in batches),
        )

    def _propose(self, num: int, rng: np.random.Generator) -> _Batch:
        """Propose `num` points and keep those accepted, in their order."""
        place = rng.random(num) * self._cumulative[-1]
        cell = np.minimum(
            np.searchsorted(self._cumulative, place, side="right"), self._hat.size - 1
        )
        row, column = np.divmod(cell, _CELLS)
        t = self._t[row] + self._width[0] * rng.random(num)
        u = self._u[column] + self._width[1] * rng.random(num)
        level = self._hat[cell] - rng.standard_exponential(num)
        guess = as_floats(self.surface.log_density(t, u, grid=False))
        accepted = level < guess
        doubtful = np.abs(level - guess) < self._error
        doubtful |= guess + self._error > self._hat[cell]
        doubtful |= (guess < self._peak - _SURE_DROP) & (guess > self._peak - 2 * _LOWEST_HAT)
        where = np.flatnonzero(doubtful)
        batch = _Batch(t, u, num, where.size)
        if where.size:
            exact = self._density.at(t[where], u[where])
            accepted[where] = level[where] < exact
            batch = replace(batch, largest_excess=float((exact - self._hat[cell[where]]).max()))
        return replace(batch, t=t[accepted], u=u[accepted])


def _cell_bounds(lattice: FloatArray) -> FloatArray:
    """Bound a smooth function on each cell, shape (C, C), by its values at 3 × 3 points.

    Between three even points a function exceeds their largest value by at most an eighth of the
    size of its second difference; twice that is added, for each axis.
    """
    num = _CELLS
    blocks = np.stack(
        [
            lattice[i : i + 2 * num : 2, j : j + 2 * num : 2]
            for i in range(3)
            for j in range(3)
        ]
    ).reshape(3, 3, num, num)  # fmt: skip
    along_t = np.abs(blocks[0] - 2 * blocks[1] + blocks[2]).max(axis=0)
    along_u = np.abs(blocks[:, 0] - 2 * blocks[:, 1] + blocks[:, 2]).max(axis=0)
    return as_floats(blocks.max(axis=(0, 1)) + 0.25 * (along_t + along_u))
