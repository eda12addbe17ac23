"""The posterior of (mu, sigma2) on a two-dimensional grid, all plants integrated out.

Given mu and sigma2 plants are independent, so

    log p(y, mu, u) = log p(mu) + log p(u) + Σ_p log I_p(mu, u),   u = log sigma2,

with the plants' integrals of :mod:`pyflowers.exact.plants`. The grid is even in (t, u), where mu
= centre + unit sinh(t): dense among the plants and sparse far out, where only a large sigma2 or
the wide prior reaches. It covers all points within e^-32 of the maximum, found by zooming in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from pyflowers.exact.plants import Plant
from pyflowers.exact.tabulated import FloatArray, SinhScale
from pyflowers.vb.distributions import LOG_2PI, as_floats, log_variance_prior_constant
from pyflowers.vb.priors import MultilevelPrior

IntArray = npt.NDArray[np.intp]

_DROP = 32.0
_ZOOM_POINTS = 32
_NEGLIGIBLE = 1e-11  # posterior mass left out of mixtures over the grid


@dataclass(frozen=True)
class Box:
    """A rectangle of (t, u)."""

    t: tuple[float, float]
    u: tuple[float, float]


@dataclass(frozen=True)
class Grid:
    """Posterior mass on the grid.

    Parameters
    ----------
    t, u : array, shape (M,) and (U,)
        Even grids.
    log_weights : array, shape (U, M)
        Log posterior probabilities, which sum to one.
    log_integrals : array, shape (P, U, M)
        log I_p.
    log_evidence : float
        log p(y).
    """

    t: FloatArray
    u: FloatArray
    log_weights: FloatArray
    log_integrals: FloatArray
    log_evidence: float

    @property
    def weights(self) -> FloatArray:
        """Posterior probabilities, shape (U, M)."""
        return np.exp(self.log_weights)

    def heavy(self) -> IntArray:
        """Flat indices of the points that carry all but 1e-11 of the mass."""
        flat = self.weights.ravel()
        order = np.argsort(flat)
        light = int(np.searchsorted(np.cumsum(flat[order]), _NEGLIGIBLE))
        return np.asarray(order[light:])


class GridPosterior:
    """Evaluates the posterior of (mu, sigma2), and finds where it matters.

    Parameters
    ----------
    plants : sequence of Plant
        The plants.
    prior : MultilevelPrior
        Of mu and sigma2; sigma2_plant's stands in the plants.
    """

    def __init__(self, plants: Sequence[Plant], prior: MultilevelPrior) -> None:
        self._plants, self._prior = plants, prior
        seen = [plant for plant in plants if plant.spread > 0]
        centres = np.array([plant.centre for plant in seen] or [prior.mu_mean])
        spreads = np.array([plant.spread for plant in seen] or [prior.mu_sd])
        self._low, self._high = (
            float((centres - 9 * spreads).min()),
            float((centres + 9 * spreads).max()),
        )
        # The posterior of mu is about this wide, whichever of the two variances rules.
        size = np.var(centres) + np.mean(spreads**2)
        unit = min(prior.mu_sd, float(np.sqrt(size / len(centres))))
        self.scale = SinhScale(float(np.median(centres)), unit)
        self._largest = size * len(centres) + prior.sigma2_nu * prior.sigma2_scale**2
        self.tail_dof = prior.sigma2_nu + sum(plant.weight for plant in plants)

    def evaluate(self, box: Box, num: int) -> Grid:
        """Evaluate the posterior on a grid of num × num points."""
        t, u = np.linspace(*box.t, num), np.linspace(*box.u, num)
        mu = self.scale.x(t)
        log_integrals = np.stack([plant.log_integral(mu, u) for plant in self._plants])
        log_joint = self._log_prior(t, u) + log_integrals.sum(axis=0)
        log_total = float(special.logsumexp(log_joint))
        log_evidence = log_total + float(np.log((t[1] - t[0]) * (u[1] - u[0])))
        return Grid(t, u, log_joint - log_total, log_integrals, log_evidence)

    def locate(self) -> Box:
        """Zoom in from a box that certainly holds the posterior."""
        box = self._widest()
        for _ in range(30):
            grid = self.evaluate(box, _ZOOM_POINTS)
            inside = grid.log_weights > grid.log_weights.max() - _DROP
            smaller = Box(
                _shrunk(grid.t, np.any(inside, axis=0)), _shrunk(grid.u, np.any(inside, axis=1))
            )
            kept = (smaller.t[1] - smaller.t[0]) / (box.t[1] - box.t[0])
            kept *= (smaller.u[1] - smaller.u[0]) / (box.u[1] - box.u[0])
            box = smaller
            if kept > 0.7:
                break
        return box

    def _log_prior(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Log density of (t, u), shape (U, M)."""
        prior = self._prior
        z = (self.scale.x(t) - prior.mu_mean) / prior.mu_sd
        log_mu = -0.5 * (LOG_2PI + z**2) - np.log(prior.mu_sd) + self.scale.log_slope(t)
        nu, s = as_floats(prior.sigma2_nu), as_floats(prior.sigma2_scale)
        log_u = log_variance_prior_constant(nu, s) - 0.5 * nu * (u + s**2 * np.exp(-u))
        return as_floats(log_mu + log_u[:, None])

    def _widest(self) -> Box:
        prior = self._prior
        low = min(self._low, prior.mu_mean - 9 * prior.mu_sd)
        high = max(self._high, prior.mu_mean + 9 * prior.mu_sd)
        t = self.scale.t(np.array([low, high]))
        # Left of this the prior of sigma2 is below e^-100 of its maximum.
        u_low = np.log(prior.sigma2_nu * prior.sigma2_scale**2 / (200 + 2 * prior.sigma2_nu))
        above = np.log(self._largest + len(self._plants) * prior.mu_sd**2)
        u_high = min(above + 2 * _DROP / self.tail_dof, 500.0)
        return Box((float(t[0]), float(t[1])), (float(u_low) - 2, float(u_high)))


def _shrunk(axis: FloatArray, inside: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Cut an axis to the part that matters, with one cell more on both sides."""
    where = np.flatnonzero(inside)
    first, last = max(int(where[0]) - 1, 0), min(int(where[-1]) + 1, axis.size - 1)
    return float(axis[first]), float(axis[last])
