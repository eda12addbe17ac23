"""The density of (mu, sigma2), the plants integrated out, in coordinates that suit it.

    log p(y, t, u) = log p(mu) + log p(u) + Σ_p log I_p(mu, u) + log d mu / dt,   u = log sigma2,

with the plants' integrals of :mod:`.integrals`. Given u, mu is nearly normal, with a mean and a
standard deviation that depend on u; measured by these, it is smooth on a scale of one for all u.
"""

import numpy as np

from pyflowers.posterior.exact.grid import Box, Region
from pyflowers.posterior.exact.integrals import Plants
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats
from pyflowers.posterior.vb.priors import MultilevelPrior

_GROUPS = 16  # of plants, for the coordinates


class Coordinates:
    """mu = m(u) + s(u) k sinh(t / k): near m(u) in standard deviations, geometric far out.

    m(u) and s(u) are the mean and standard deviation of mu given u if plant p said no more than
    centre_p ~ N(mu, e^u + spread_p²), with the plants gathered into a few groups. They need not be
    right: a wrong guess costs points of the grid, not exactness. Without informative plants s is
    constant and k is 1.

    Parameters
    ----------
    plants : Plants
        The plants that have observations.
    prior : MultilevelPrior
        Of mu.
    region : Region
        Where the posterior is.
    fixed : (float, float), optional
        Constants m and s instead.
    """

    def __init__(
        self,
        plants: Plants,
        prior: MultilevelPrior,
        region: Region,
        fixed: tuple[float, float] | None = None,
    ) -> None:
        self._prior, self._region = prior, region
        self._fixed = (region.centre, region.unit) if fixed is None else fixed
        informative = np.flatnonzero((plants.power >= 1) & (fixed is None))
        # The more plants, the closer to normal: then nothing but a straight line is needed.
        num = float(plants.multiplicity[informative].sum())
        self._bend = 3.0 * float(np.sqrt(1 + num / 10)) if num else 1.0
        order = informative[np.argsort(plants.spread[informative], kind="stable")]
        groups = np.array_split(order, min(_GROUPS, max(order.size, 1)))
        rows = [
            (
                times.sum(),
                np.average(plants.centre[group], weights=times),
                np.average(plants.spread[group] ** 2, weights=times),
            )
            for group, times in ((group, plants.multiplicity[group]) for group in groups)
            if group.size
        ]
        self._count, self._centre, self._spread2 = np.array(rows).reshape(-1, 3).T

    def mu(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return mu; arguments broadcast."""
        mean, sd = self._given(u)
        return as_floats(mean + sd * self._bend * np.sinh(t / self._bend))

    def log_slope(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return log d mu / dt."""
        y = np.abs(t) / self._bend
        return as_floats(np.log(self._given(u)[1]) + y + np.log1p(np.exp(-2 * y)) - np.log(2))

    def widest(self) -> Box:
        """Return a box that certainly holds the posterior."""
        u = np.linspace(*self._region.u, 200)
        mean, sd = self._given(u)
        low, high = (
            self._bend * np.arcsinh((end - mean) / (sd * self._bend)) for end in self._region.mu
        )
        return Box((float(low.min()), float(high.max())), self._region.u)

    def _given(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of mu given u."""
        if not self._count.size:
            return np.full_like(u, self._fixed[0]), np.full_like(u, self._fixed[1])
        precisions = self._count / (np.exp(u)[..., None] + self._spread2)
        prior_precision = self._prior.mu_sd**-2
        precision = precisions.sum(axis=-1) + prior_precision
        mean = (precisions @ self._centre + prior_precision * self._prior.mu_mean) / precision
        return as_floats(mean), as_floats(precision**-0.5)


class Density:
    """log p(y, t, u) without the plants' constants, at any points.

    Parameters
    ----------
    plants : Plants
        The plants that have observations.
    region : Region
        The prior.
    coordinates : Coordinates
        Of (t, u).
    rough : Plants, optional
        What rough values are made of; ``plants.rough()`` if not given.

    Rough values mostly err by less than 1e-5, which is nothing to a spline through them.
    """

    def __init__(
        self,
        plants: Plants,
        region: Region,
        coordinates: Coordinates,
        rough: Plants | None = None,
    ) -> None:
        self.plants, self.region, self.coordinates = plants, region, coordinates
        self.rough = plants.rough() if rough is None else rough

    def on_grid(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return rough values on the grid of `t`, shape (M,), and `u`, shape (U,); shape (U, M)."""
        return self._at_rows(np.broadcast_to(t, (u.size, t.size)), u, self.rough)

    def nearly_at(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return rough values at the points (t, u), all of shape (N,)."""
        return self._at_rows(t[:, None], u, self.rough)[:, 0]

    def at(self, t: FloatArray, u: FloatArray) -> FloatArray:
        """Return values at the points (t, u), all of shape (N,)."""
        return self._at_rows(t[:, None], u, self.plants)[:, 0]

    def without_rough_values(self) -> "Density":
        """Return the same density, whose rough values are exact."""
        return Density(self.plants, self.region, self.coordinates, self.plants)

    def _at_rows(self, t: FloatArray, u: FloatArray, plants: Plants) -> FloatArray:
        each_u = u[:, None]
        mu = self.coordinates.mu(t, each_u)
        log_prior = self.region.log_prior(mu, each_u) + self.coordinates.log_slope(t, each_u)
        return as_floats(log_prior + plants.sum_log_integrals(mu, u))

    def of_some(self, num: int) -> "Density":
        """Keep `num` plants only, spread evenly over the plants in order of their centres."""
        order = np.argsort(self.plants.centre, kind="stable")
        index = order[np.linspace(0, order.size - 1, num).round().astype(np.intp)]
        return Density(self.plants.some(index), self.region, self.coordinates)
