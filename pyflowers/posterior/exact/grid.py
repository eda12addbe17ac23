"""The posterior of (mu, sigma2) on a two-dimensional grid, all plants integrated out.

Given mu and sigma2 plants are independent, so

    log p(y, mu, u) = log p(mu) + log p(u) + Σ_p log I_p(mu, u),   u = log sigma2,

with the plants' integrals of :mod:`.plants`. The grid is even in (t, u), where mu
= centre + unit sinh(t): dense among the plants and sparse far out, where only a large sigma2 or
the wide prior reaches. It covers all points within e^-32 of the maximum, found by zooming in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from pyflowers.posterior.exact.plants import Plant
from pyflowers.posterior.exact.tabulated import FloatArray, SinhScale
from pyflowers.posterior.vb.distributions import LOG_2PI, as_floats, log_variance_prior_constant
from pyflowers.posterior.vb.priors import MultilevelPrior

IntArray = npt.NDArray[np.intp]

_DROP = 32.0
_ZOOM_POINTS = 32
_NEGLIGIBLE = 1e-11  # posterior mass left out of mixtures over the grid


@dataclass(frozen=True)
class Box:
    """A rectangle of (t, u)."""

    t: tuple[float, float]
    u: tuple[float, float]

    @property
    def area(self) -> float:
        """Its area."""
        return (self.t[1] - self.t[0]) * (self.u[1] - self.u[0])


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


class Region:
    """The prior's density, and where all of the posterior's mass certainly is.

    Parameters
    ----------
    centres, spreads, powers : array, shape (P,)
        What :class:`.plants.Plant` calls centre, spread and weight.
    prior : MultilevelPrior
        Of mu and sigma2.
    multiplicity : array, shape (P,), optional
        How many plants are like each; 1 if not given.

    Attributes
    ----------
    mu, u : (float, float)
        The ends of mu and of u.
    centre, unit : float
        Where mu roughly is, and the width of its posterior.
    tail_dof : float
        Degrees of freedom of sigma2's upper tail.
    """

    def __init__(
        self,
        centres: FloatArray,
        spreads: FloatArray,
        powers: FloatArray,
        prior: MultilevelPrior,
        multiplicity: FloatArray | None = None,
    ) -> None:
        self._prior = prior
        times = np.ones(centres.size) if multiplicity is None else multiplicity
        num_plants, num_informative = float(times.sum()), float(powers @ times)
        seen = spreads > 0
        centres = centres[seen] if np.any(seen) else np.array([prior.mu_mean])
        spreads = spreads[seen] if np.any(seen) else np.array([prior.mu_sd])
        low, high = (centres - 9 * spreads).min(), (centres + 9 * spreads).max()
        reach = 9 * prior.mu_sd
        self.mu = (
            float(min(low, prior.mu_mean - reach)),
            float(max(high, prior.mu_mean + reach)),
        )
        # The posterior of mu is about this wide, whichever of the two variances rules.
        times = times[seen] if np.any(seen) else np.ones(1)
        share = times / times.sum()
        size = share @ (centres - share @ centres) ** 2 + share @ spreads**2
        self.unit = min(prior.mu_sd, float(np.sqrt(size / times.sum())))
        self.centre = float(np.median(centres))
        self.tail_dof = prior.sigma2_nu + num_informative
        # Left of this the prior of sigma2 is below e^-100 of its maximum.
        nu_s2 = prior.sigma2_nu * prior.sigma2_scale**2
        u_low = math.log(nu_s2 / (200 + 2 * prior.sigma2_nu))
        above = math.log(size * times.sum() + nu_s2 + num_plants * prior.mu_sd**2)
        u_high = min(above + 2 * _DROP / self.tail_dof, 500.0)
        self.u = (u_low - 2, u_high)

    def log_prior(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Log density of (mu, u); arguments broadcast."""
        prior = self._prior
        z = (mu - prior.mu_mean) / prior.mu_sd
        log_mu = -0.5 * (LOG_2PI + z**2) - np.log(prior.mu_sd)
        nu, s = as_floats(prior.sigma2_nu), as_floats(prior.sigma2_scale)
        log_u = log_variance_prior_constant(nu, s) - 0.5 * nu * (u + s**2 * np.exp(-u))
        return as_floats(log_mu + log_u)


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
        self._plants = plants
        centres = np.array([plant.centre for plant in plants])
        spreads = np.array([plant.spread for plant in plants])
        powers = np.array([plant.weight for plant in plants])
        self._region = Region(centres, spreads, powers, prior)
        self.scale = SinhScale(self._region.centre, self._region.unit)
        self.tail_dof = self._region.tail_dof

    def evaluate(self, box: Box, num: int) -> Grid:
        """Evaluate the posterior on a grid of num × num points."""
        t, u = np.linspace(*box.t, num), np.linspace(*box.u, num)
        mu = self.scale.x(t)
        log_integrals = np.stack([plant.log_integral(mu, u) for plant in self._plants])
        log_prior = self._region.log_prior(mu, u[:, None]) + self.scale.log_slope(t)
        log_joint = log_prior + log_integrals.sum(axis=0)
        log_total = float(special.logsumexp(log_joint))
        log_evidence = log_total + float(np.log((t[1] - t[0]) * (u[1] - u[0])))
        return Grid(t, u, log_joint - log_total, log_integrals, log_evidence)

    def locate(self) -> Box:
        """Zoom in from a box that certainly holds the posterior."""
        t = self.scale.t(np.array(self._region.mu))
        box = Box((float(t[0]), float(t[1])), self._region.u)
        for _ in range(30):
            grid = self.evaluate(box, _ZOOM_POINTS)
            inside = grid.log_weights > grid.log_weights.max() - _DROP
            smaller = shrunk(grid.t, grid.u, inside)
            kept = smaller.area / box.area
            box = smaller
            if kept > 0.7:
                break
        return box


def shrunk(t: FloatArray, u: FloatArray, inside: npt.NDArray[np.bool_]) -> Box:
    """Cut a grid to the part that matters, shape (U, M), with one cell more on every side."""
    return Box(_cut(t, np.any(inside, axis=0)), _cut(u, np.any(inside, axis=1)))


def _cut(axis: FloatArray, inside: npt.NDArray[np.bool_]) -> tuple[float, float]:
    where = np.flatnonzero(inside)
    first, last = max(int(where[0]) - 1, 0), min(int(where[-1]) + 1, axis.size - 1)
    return float(axis[first]), float(axis[last])
