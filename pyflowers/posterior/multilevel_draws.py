"""Independent draws from the posteriors of the two multilevel flower models.

    y[t,p] ~ N(mu_plant[p], sigma2_plant[p]),  mu_plant[p] ~ N(mu, sigma2)               (normal)
    y[t,p] ~ Poisson(mu_plant[p]),             log mu_plant[p] ~ N(mu, sigma2)           (Poisson)
    mu ~ N(m0, s0²),  sigma2 ~ scaled-inv-χ²(nu0, sigma0²),
    sigma2_plant[p] ~ scaled-inv-χ²(nu, c²), or flat.

Given (mu, sigma2) the plants are independent. So (mu, sigma2) is drawn from its marginal, the
plants integrated out (:mod:`.hyper_draws`), and then each plant from its own conditional, all by
rejection. Each draw is exact, up to quadrature and rounding errors, and independent of all others:
R-hat and effective sample sizes have nothing to find. All randomness comes from the generator
given: the same seed gives the same draws. Draws of many plants need not be held at once:

    sampler = PoissonSampler(totals, counts)
    hyper = sampler.draw_hyper(1000, rng)
    for plants, draws in sampler.blocks(hyper, rng):
        medians[plants] = np.median(draws["mu_plant"], axis=0)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from pyflowers.cores import in_order
from pyflowers.display import INTERVAL, Line, Shown, draws_table, format_number, heading
from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.distributions import (
    WHOLE,
    FloatArray,
    MultilevelPrior,
    SufficientStatistics,
    as_floats,
    checked_labels,
    refuse,
)
from pyflowers.posterior.hyper_density import Plants, located
from pyflowers.posterior.hyper_draws import HyperDraws, HyperSampler
from pyflowers.posterior.normal_plants import NormalPlants, draw_plants
from pyflowers.posterior.poisson_plants import PoissonPlants, central_modes, draw_rates

_BLOCK = 65_536  # draws of plants that are made together

Block = tuple[slice, dict[str, FloatArray]]
Drawn = tuple[dict[str, FloatArray], int]
Drawer = Callable[[slice, np.random.Generator], Drawn]


@dataclass(frozen=True, repr=False)
class ExactDraws(Shown):
    """Independent draws.

    Parameters
    ----------
    draws : dict of str to array, shape (draw,) or (draw, plant)
        By the names of the Stan program.
    log_evidence : float
        log p(y); where a prior is improper, relative to its density as the program writes it.
    diagnostics : mapping of str to float
        ``hyper_acceptance`` and ``plant_acceptance``, shares of proposals that were accepted;
        ``num_exact``, proposals of (mu, sigma2) that the spline could not decide;
        ``spline_error``, the largest seen, of log p; ``largest_excess``, the largest log of
        density over hat, below 1e-6. Without a hierarchy, ``plant_acceptance`` alone.
    """

    draws: dict[str, FloatArray]
    log_evidence: float
    diagnostics: Mapping[str, float]

    def table(self, interval: float = INTERVAL) -> pd.DataFrame:
        """Return the median and a central interval of each element."""
        return draws_table(self.draws, 1, interval)

    def contents(self) -> list[Line]:
        """Return the table, and what the sampler says of itself."""
        num = len(next(iter(self.draws.values())))
        measures = (f"{name} {format_number(v)}" for name, v in self.diagnostics.items())
        return [
            heading("exact posterior", f"{num} independent draws"),
            self.table(),
            ", ".join([f"log evidence {self.log_evidence:.6f}", *measures]),
        ]


class MultilevelSampler:
    """Draws from a multilevel model's posterior, in blocks of plants."""

    names: ClassVar[tuple[str, ...]]
    num_plants: int
    prior: MultilevelPrior
    log_evidence: float
    _hyper: HyperSampler
    _proposals = 0
    _drawn = 0

    def _integrate(self, make: Callable[..., Plants], *columns: FloatArray) -> None:
        """Make the sampler of (mu, sigma2); plants with equal statistics are computed once."""
        rows, multiplicity = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
        plants = make(*(np.ascontiguousarray(c) for c in rows.T), as_floats(multiplicity))
        self._hyper = HyperSampler(*located(plants, self.prior))
        self.log_evidence = self._hyper.log_evidence + plants.log_constant

    def _drawer(self, hyper: HyperDraws) -> Drawer:
        """Return what draws some plants, each quantity (draw, plant), and counts its proposals."""
        raise NotImplementedError

    def draw_hyper(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw (mu, sigma2)."""
        return self._hyper.draw(checked_num(num_draws), rng)

    def blocks(self, hyper: HyperDraws, rng: np.random.Generator) -> Iterator[Block]:
        """Draw the plants of each (mu, sigma2), a block of plants at a time.

        All usable cores draw, a few blocks ahead. A block's draws do not depend on how many cores
        there are: it has a generator of its own, spawned from `rng`.
        """
        num_draws, num = hyper.mu.size, self.num_plants
        width = max(1, _BLOCK // num_draws)
        slices = [slice(i, min(i + width, num)) for i in range(0, num, width)]
        own = rng.spawn(len(slices))
        drawer = self._drawer(hyper)
        tasks = [partial(drawer, plants, each) for plants, each in zip(slices, own, strict=True)]
        for plants, (draws, proposals) in zip(slices, in_order(tasks), strict=True):
            self._proposals += proposals
            self._drawn += num_draws * (plants.stop - plants.start)
            yield plants, draws

    def diagnostics(self, hyper: HyperDraws) -> dict[str, float]:
        """Return the numbers of :class:`ExactDraws`, of all blocks so far."""
        return {
            "hyper_acceptance": hyper.acceptance,
            "plant_acceptance": self._drawn / self._proposals if self._proposals else 1.0,
            "num_exact": float(hyper.num_exact),
            "spline_error": self._hyper.error,
            "largest_excess": hyper.largest_excess,
        }

    def draw(self, num_draws: int, rng: np.random.Generator) -> ExactDraws:
        """Draw every parameter.

        Raises
        ------
        ConfigError
            If `num_draws` is not positive.
        """
        hyper = self.draw_hyper(num_draws, rng)
        draws = {"mu": hyper.mu, "sigma2": hyper.sigma2}
        draws |= {name: np.empty((num_draws, self.num_plants)) for name in self.names[2:]}
        for plants, block in self.blocks(hyper, rng):
            for name, values in block.items():
                draws[name][:, plants] = values
        return ExactDraws(draws, self.log_evidence, self.diagnostics(hyper))


@dataclass
class PoissonSampler(MultilevelSampler):
    """Draws from the model `multilevel_poisson`.

    Parameters
    ----------
    totals : array, shape (P,)
        Flowers of each plant over its months.
    counts : array, shape (P,)
        Number of months of each plant; 0 leaves its prior given the others.
    prior : MultilevelPrior, optional
        Its ``mu_…`` and ``sigma2_…``, of log mu_plant, are read.
    sum_log_factorials : float
        Σ log y! over all counts; it enters the log evidence alone.

    Attributes
    ----------
    log_evidence : float
        log p(y).

    Raises
    ------
    DataError
        If a total or a count is negative or no whole number, or a plant without months has
        flowers.
    """

    totals: FloatArray
    counts: FloatArray
    prior: MultilevelPrior = field(default_factory=MultilevelPrior)
    sum_log_factorials: float = 0.0
    names = ("mu", "sigma2", "mu_plant")

    def __post_init__(self) -> None:
        totals, counts = self.totals, self.counts = as_floats(self.totals), as_floats(self.counts)
        if totals.shape != counts.shape or totals.ndim != 1 or not totals.size:
            raise DataError(
                "totals and counts must have one entry a plant, but have shapes "
                f"{totals.shape} and {counts.shape}"
            )
        for name, values in (("totals", totals), ("counts", counts)):
            whole = np.isfinite(values) & (values >= 0) & (values == np.floor(values))
            refuse(~whole, values, name, WHOLE)
        rule = "must be 0, as there are no months"
        refuse((counts == 0) & (totals > 0), totals, "totals", rule)
        self.num_plants, seen = counts.size, counts > 0
        self._integrate(PoissonPlants, counts[seen], totals[seen])
        self.log_evidence -= self.sum_log_factorials

    def _drawer(self, hyper: HyperDraws) -> Drawer:
        mu, sigma2 = hyper.mu, hyper.sigma2
        modes = central_modes(self.counts, self.totals, mu, sigma2)

        def draw(plants: slice, rng: np.random.Generator) -> Drawn:
            num, total, near = self.counts[plants], self.totals[plants], modes[plants]
            rates, proposals = draw_rates(num, total, mu, sigma2, near, rng)
            return {"mu_plant": rates.T}, proposals

        return draw


@dataclass
class NormalSampler(MultilevelSampler):
    """Draws from the model `multilevel_normal`.

    Parameters
    ----------
    statistics : SufficientStatistics, shape (P,)
        Of each plant.
    prior : MultilevelPrior, optional
        Hyperparameters.
    plants : sequence, length P, optional
        The plants' labels, for what an error says; 1 … P if not given.

    Attributes
    ----------
    log_evidence : float
        log p(y); under a flat prior on sigma2_plant relative to its density 1.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If there is not one label a plant.
    """

    statistics: SufficientStatistics
    prior: MultilevelPrior = field(default_factory=MultilevelPrior)
    plants: Sequence[Hashable] | None = None
    names = ("mu", "sigma2", "mu_plant", "sigma2_plant")

    def __post_init__(self) -> None:
        data, prior = self.statistics, self.prior
        checked_labels(data, prior, self.plants)
        self.num_plants, seen = data.num.size, data.num > 0
        make = partial(NormalPlants, prior=prior)
        self._integrate(make, data.num[seen], data.mean[seen], data.ss[seen])

    def _drawer(self, hyper: HyperDraws) -> Drawer:
        data, nu = self.statistics, self.prior.sigma2_plant_nu
        known_ss = data.ss + nu * self.prior.sigma2_plant_scale**2
        columns = (data.num, data.mean, known_ss, data.num + nu)

        def draw(plants: slice, rng: np.random.Generator) -> Drawn:
            num, mean, known_ss, dof = (column[plants] for column in columns)
            shared = hyper.mu[:, None], hyper.sigma2[:, None]
            mu, sigma2, proposals = draw_plants(num, mean, known_ss, dof, *shared, rng)
            return {"mu_plant": mu, "sigma2_plant": sigma2}, proposals

        return draw


def checked_num(num_draws: int) -> int:
    """Return the number of draws; raise ConfigError unless it is a whole number, 1 or more."""
    whole = isinstance(num_draws, int | np.integer) and not isinstance(num_draws, bool)
    if not (whole and 1 <= num_draws < 2**31):
        raise ConfigError(f"num_draws is {num_draws!r}, but must be a whole number, 1 or more")
    return int(num_draws)
