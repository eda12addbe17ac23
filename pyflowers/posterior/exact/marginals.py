"""Marginals of one plant's parameters: mixtures over the grid of (mu, sigma2).

Given (mu, u = log sigma2), x (mu_plant, or its logarithm in the Poisson model) has the density
p(y_p | x) N(x; mu, e^u) / I_p(mu, u), and w = log sigma2_plant that of I_p's own integrand. With
posterior weights W of the grid's points, and R = W / I_p, the posterior without plant p,

    p(x | y) = p(y_p | x) Σ_u Σ_mu R(mu, u) N(x; mu, e^u).

Where sigma is small beside the grid's step in mu, the inner sum no longer resolves the kernel,
while log R is smooth on that scale. Such rows of the grid take Gauss-Hermite's rule around x, with
log R from a cubic spline along the row.

References
----------
Davis and Rabinowitz (1984), Methods of Numerical Integration, 2nd ed., section 3.6.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import interpolate, special

from pyflowers.posterior.exact.grid import Grid, IntArray
from pyflowers.posterior.exact.plants import NormalPlant, PoissonPlant
from pyflowers.posterior.exact.tabulated import FloatArray, SinhScale, Tabulated, even_grid
from pyflowers.posterior.vb.distributions import LOG_2PI, as_floats

_POINTS = 300
_CHUNK = 131_072  # terms that are summed together: what a core's cache holds
_NARROW = 2.0  # steps of the grid in mu, below which sigma is narrow
_Z, _Z_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


def location(t: FloatArray, density: FloatArray, scale: SinhScale) -> Tabulated:
    """Tabulate a location by its density in t."""
    return Tabulated(t, density, scale.x, partial(_slope, scale))


# Functions of a module, as results that hold them are pickled.
def _slope(scale: SinhScale, t: FloatArray) -> FloatArray:
    return as_floats(np.exp(scale.log_slope(t)))


def _exp(scale: SinhScale, t: FloatArray) -> FloatArray:
    return as_floats(np.exp(scale.x(t)))


def _slope_of_exp(scale: SinhScale, t: FloatArray) -> FloatArray:
    return as_floats(np.exp(scale.x(t) + scale.log_slope(t)))


def variance(u: FloatArray, density: FloatArray, tail_power: float) -> Tabulated:
    """Tabulate a variance by the density of its logarithm."""
    return Tabulated(u, density, np.exp, np.exp, tail_power)


class PlantMarginals:
    """The mixtures of one plant.

    Parameters
    ----------
    grid : Grid
        The posterior of (t, u).
    scale : SinhScale
        mu as a function of t.
    plant : NormalPlant or PoissonPlant
        The plant.
    log_integrals : array, shape (U, M)
        Its log I_p on the grid.
    """

    def __init__(
        self,
        grid: Grid,
        scale: SinhScale,
        plant: NormalPlant | PoissonPlant,
        log_integrals: FloatArray,
    ) -> None:
        self._grid, self._scale, self._plant = grid, scale, plant
        self._log_rest = grid.log_weights - log_integrals
        self._heavy = grid.heavy()
        self._mu = scale.x(grid.t)

    def mu_plant(self, near: Tabulated | None = None) -> Tabulated:
        """Marginal of mu_plant; `near` is that of a coarser grid."""
        plant, scale = self._plant, self._scale
        if plant.spread > 0:
            scale = SinhScale(plant.centre, plant.spread)

        def log_density(t: FloatArray) -> FloatArray:
            x = scale.x(t)
            return as_floats(plant.log_likelihood(x) + scale.log_slope(t) + self._log_prior(x))

        t, density = even_grid(log_density, -25.0, 25.0, _POINTS, near)
        if isinstance(plant, NormalPlant):
            return location(t, density, scale)
        return Tabulated(t, density, partial(_exp, scale), partial(_slope_of_exp, scale))

    def sigma2_plant(self, near: Tabulated | None = None) -> Tabulated:
        """Marginal of sigma2_plant, in the normal model; `near` is that of a coarser grid."""
        plant = self._plant
        if not isinstance(plant, NormalPlant):
            raise TypeError("a Poisson plant has no sigma2_plant")
        low, high = plant.variance_range(self._mu, float(self._grid.u[-1]))

        def log_density(w: FloatArray) -> FloatArray:
            return self._mixture(plant.log_joint_variance, w, self._heavy)

        w, density = even_grid(log_density, low, high, _POINTS, near)
        return variance(w, density, plant.dof / 2)

    def _log_prior(self, x: FloatArray) -> FloatArray:
        """Log density of x given the other plants: Σ R N(x; mu, e^u)."""
        grid = self._grid
        step = np.exp(self._scale.log_slope(grid.t)) * (grid.t[1] - grid.t[0])
        weights = grid.weights
        row_step = (weights @ step) / np.maximum(weights.sum(axis=1), 1e-300)
        narrow = np.exp(0.5 * grid.u) < _NARROW * row_step
        rows = self._heavy // grid.t.size
        parts = [self._mixture(_log_normal, x, self._heavy[~narrow[rows]])]
        parts += [self._smoothed(int(i), x) for i in np.unique(rows[narrow[rows]])]
        return as_floats(special.logsumexp(np.stack(parts), axis=0))

    def _smoothed(self, row: int, x: FloatArray) -> FloatArray:
        """One narrow row's Σ_mu R N(x; mu, e^u), by Gauss-Hermite around x."""
        grid = self._grid
        points = x[:, None] + np.exp(0.5 * grid.u[row]) * _Z
        t = self._scale.t(points)
        # Per unit of mu: weights are per grid point.
        log_step = self._scale.log_slope(grid.t) + np.log(grid.t[1] - grid.t[0])
        spline = interpolate.CubicSpline(grid.t, self._log_rest[row] - log_step)
        outside = (t < grid.t[0]) | (t > grid.t[-1])
        values = np.where(outside, -1e300, spline(np.clip(t, grid.t[0], grid.t[-1])))
        return as_floats(special.logsumexp(values, axis=1, b=_Z_WEIGHTS / np.sqrt(2 * np.pi)))

    def _mixture(
        self,
        log_term: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
        at: FloatArray,
        index: IntArray,
    ) -> FloatArray:
        """Log of Σ R exp(log_term(at, mu, u)) over the grid's points at `index`."""
        row, column = np.divmod(index, self._grid.t.size)
        mu, u, log_rest = self._mu[column], self._grid.u[row], self._log_rest.ravel()[index]
        parts = [np.full(at.size, -1e300)]
        size = max(1, _CHUNK // at.size)
        for start in range(0, index.size, size):
            part = slice(start, start + size)
            terms = log_term(at[:, None], mu[part], u[part]) + log_rest[part]
            peak = np.maximum(terms.max(axis=1), -1e300)
            terms -= peak[:, None]
            parts.append(peak + np.log(np.exp(terms, out=terms).sum(axis=1)))
        return as_floats(special.logsumexp(np.stack(parts), axis=0))


def _log_normal(x: FloatArray, mu: FloatArray, u: FloatArray) -> FloatArray:
    """Log N(x; mu, e^u)."""
    return as_floats(-0.5 * (LOG_2PI + u + np.exp(-u) * (x - mu) ** 2))
