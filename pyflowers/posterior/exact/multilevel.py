"""The exact posteriors of the two multilevel flower models, by quadrature.

    y[t,p] ~ N(mu_plant[p], sigma2_plant[p]),  mu_plant[p] ~ N(mu, sigma2)               (normal)
    y[t,p] ~ Poisson(mu_plant[p]),             log mu_plant[p] ~ N(mu, sigma2)           (Poisson)
    mu ~ N(m0, s0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),
    sigma2_plant[p] ~ scaled-inv-χ²(nu, c²), or flat.

Marginals of mu and sigma2 are sums over the grid of :mod:`.grid`. Given (mu,
sigma2), plant p's parameter has density p(y_p | x) N(x; mu, sigma2) / I_p(mu, sigma2), so its
marginal is a mixture of these over the grid, and so is sigma2_plant's. All densities are smooth
and all sums are trapezoidal rules, which converge exponentially: the grid is refined until no
quantile moves by more than 1e-5 of its parameter's 5 to 95 % range.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 5.4 and 11.6, for the models.
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56(3).
"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pyflowers.errors import ConfigError
from pyflowers.posterior.exact.grid import GridPosterior
from pyflowers.posterior.exact.marginals import PlantMarginals, location, variance
from pyflowers.posterior.exact.plants import NormalPlant, PoissonPlant
from pyflowers.posterior.exact.tabulated import FloatArray, Tabulated
from pyflowers.posterior.vb.distributions import as_floats
from pyflowers.posterior.vb.priors import MultilevelPrior
from pyflowers.posterior.vb.results import checked_probability

_SIZES = (64, 96, 144, 216, 324)
_TOLERANCE = 1e-5
_CHECKED = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


class NotRefinedWarning(RuntimeWarning):
    """The finest grid still moved a quantile by more than the tolerance."""


class MultilevelExact:
    """The exact posterior of a multilevel model.

    Made by :func:`pyflowers.posterior.exact.exact_multilevel_normal` and
    :func:`pyflowers.posterior.exact.exact_multilevel_poisson`.

    Parameters
    ----------
    plants : sequence of NormalPlant or PoissonPlant
        One a plant, all of one kind.
    prior : MultilevelPrior
        Hyperparameters.
    labels : sequence
        The plants' labels.

    Attributes
    ----------
    names : tuple of str
        ``mu``, ``sigma2``, ``mu_plant`` and, in the normal model, ``sigma2_plant``.
    log_evidence : float
        log p(y); under a flat prior on sigma2_plant relative to its density 1.
    refinement : float
        By how much the last refinement moved a quantile, in 5 to 95 % ranges.

    Warns
    -----
    NotRefinedWarning
        If `refinement` is above 1e-5 on the finest grid.
    """

    def __init__(
        self,
        plants: Sequence[NormalPlant] | Sequence[PoissonPlant],
        prior: MultilevelPrior,
        labels: Sequence[Hashable],
    ) -> None:
        self._plants: Sequence[NormalPlant | PoissonPlant] = plants
        self._prior, self.labels = prior, tuple(labels)
        self._normal = isinstance(plants[0], NormalPlant)
        self.names = ("mu", "sigma2", "mu_plant") + (("sigma2_plant",) if self._normal else ())
        self._posterior = GridPosterior(plants, prior)
        box = self._posterior.locate()
        self.refinement, before = np.inf, None
        self._marginals: dict[str, list[Tabulated]] = {}
        for size in _SIZES:
            self._grid = self._posterior.evaluate(box, size)
            self._marginals = self._all_marginals()
            now = {name: self.quantile(name, _CHECKED) for name in self.names}
            if before is not None:
                self.refinement = max(_moved(before[name], now[name]) for name in self.names)
            if self.refinement <= _TOLERANCE:
                break
            before = now
        else:
            warnings.warn(
                f"the finest grid still moved a quantile by {self.refinement:.1e} of its range: "
                "the prior or the data put the posterior on scales too far apart",
                NotRefinedWarning,
                stacklevel=3,
            )
        self.log_evidence = self._grid.log_evidence

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Posterior quantiles, shape (*shape of p) or, of plants, (*shape of p, P).

        Raises
        ------
        ConfigError
            If there is no such parameter or `p` is not a probability.
        """
        p = checked_probability(p)
        return self._stack(name, [one.quantile(p) for one in self._tabulated(name)])

    def mean(self, name: str) -> FloatArray:
        """Posterior mean, shape () or (P,); nan where :attr:`missing_moments` has a reason."""
        exists = self._moment_exists(name, 1)
        values = [
            one.moment(1) if good else np.nan
            for one, good in zip(self._tabulated(name), exists, strict=True)
        ]
        return self._stack(name, [as_floats(value) for value in values])

    def sd(self, name: str) -> FloatArray:
        """Posterior standard deviation, as :meth:`mean`."""
        exists = self._moment_exists(name, 2)
        values = [
            np.sqrt(one.moment(2) - one.moment(1) ** 2) if good else np.nan
            for one, good in zip(self._tabulated(name), exists, strict=True)
        ]
        return self._stack(name, [as_floats(value) for value in values])

    def marginal(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return a grid and the marginal density on it, shape (G,) or (P, G)."""
        pairs = [one.marginal() for one in self._tabulated(name)]
        if name in ("mu", "sigma2"):
            return pairs[0]
        return np.stack([grid for grid, _ in pairs]), np.stack([density for _, density in pairs])

    @cached_property
    def missing_moments(self) -> Mapping[tuple[str, str], str]:
        """Why a moment does not exist, by (name, "mean" or "sd")."""
        reasons = {}
        for name in self.names:
            for power, moment in ((1, "mean"), (2, "sd")):
                exists = self._moment_exists(name, power)
                if all(exists):
                    continue
                concerned = ", ".join(
                    str(label)
                    for label, good in zip(self.labels, exists, strict=False)
                    if not good and name not in ("mu", "sigma2")
                )
                of_plants = f" for plant {concerned}" if concerned else ""
                reasons[name, moment] = (
                    f"{name} has no posterior {moment}{of_plants}: its upper tail is too heavy "
                    f"with so few {'informative plants' if name == 'sigma2' else 'observations'}"
                )
        return reasons

    def _tabulated(self, name: str) -> list[Tabulated]:
        if name not in self._marginals:
            raise ConfigError(
                f"the posterior has no parameter {name!r}, it has {', '.join(self.names)}"
            )
        return self._marginals[name]

    def _stack(self, name: str, values: list[FloatArray]) -> FloatArray:
        return values[0] if name in ("mu", "sigma2") else np.stack(values, axis=-1)

    def _moment_exists(self, name: str, power: int) -> list[bool]:
        """Whether E[x^power] is finite, from the power of the density's upper tail."""
        one_each = len(self._tabulated(name))
        if name == "sigma2":
            return [self._posterior.tail_dof > 2 * power]
        if name == "sigma2_plant":
            return [plant.dof > 2 * power for plant in self._plants if hasattr(plant, "dof")]
        if name == "mu_plant" and not self._normal:
            return [plant.num > 0 for plant in self._plants]
        if name == "mu_plant":
            # Likelihood's |x|^-dof times the mixture of N(mu, sigma2) over sigma2's tail.
            return [
                (plant.dof if plant.num else 0) + self._posterior.tail_dof - plant.weight > power
                for plant in self._plants
                if isinstance(plant, NormalPlant)
            ]
        return [True] * one_each

    # Marginals from the grid

    def _all_marginals(self) -> dict[str, list[Tabulated]]:
        grid, scale = self._grid, self._posterior.scale
        plants = [
            PlantMarginals(grid, scale, plant, log_integrals)
            for plant, log_integrals in zip(self._plants, grid.log_integrals, strict=True)
        ]

        def coarser(name: str) -> Sequence[Tabulated | None]:
            return self._marginals.get(name, [None] * len(plants))

        by_name = {
            "mu": [location(grid.t, grid.weights.sum(axis=0), scale)],
            "sigma2": [variance(grid.u, grid.weights.sum(axis=1), self._posterior.tail_dof / 2)],
            "mu_plant": list(map(PlantMarginals.mu_plant, plants, coarser("mu_plant"))),
        }
        if self._normal:
            nears = coarser("sigma2_plant")
            by_name["sigma2_plant"] = list(map(PlantMarginals.sigma2_plant, plants, nears))
        return by_name


def _moved(before: FloatArray, after: FloatArray) -> float:
    """Largest change of the checked quantiles, in 5 to 95 % ranges."""
    return float(np.max(np.abs(after - before) / (after[-1] - after[0])))
