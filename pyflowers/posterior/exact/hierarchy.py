"""Samplers of the multilevel posteriors: (mu, sigma2) first, then blocks of plants.

Given (mu, sigma2) the plants are independent. So (mu, sigma2) is drawn from its marginal, the
plants integrated out (:mod:`.envelope`), and then each plant from its own conditional
(:mod:`.poisson_rates`, :mod:`.plant_variances`), all by rejection.

Draws of many plants need not be held at once:

    sampler = PoissonSampler(totals, counts)
    hyper = sampler.draw_hyper(1000, rng)
    for plants, draws in sampler.blocks(hyper, rng):
        medians[plants] = np.median(draws["mu_plant"], axis=0)
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Protocol

import numpy as np

from pyflowers.cores import in_order
from pyflowers.errors import ConfigError, DataError
from pyflowers.posterior.exact.envelope import HyperDraws, HyperSampler
from pyflowers.posterior.exact.grid import Region
from pyflowers.posterior.exact.integrals import Plants, merged
from pyflowers.posterior.exact.normal_integrals import NormalPlants
from pyflowers.posterior.exact.plant_variances import draw_plants
from pyflowers.posterior.exact.poisson_integrals import PoissonPlants
from pyflowers.posterior.exact.poisson_rates import central_modes, draw_rates
from pyflowers.posterior.exact.surface import located
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats
from pyflowers.posterior.vb.multilevel import check_plants, plant_labels
from pyflowers.posterior.vb.priors import MultilevelPrior
from pyflowers.posterior.vb.statistics import SufficientStatistics

_BLOCK = 65_536  # draws of plants that are made together

Block = tuple[slice, dict[str, FloatArray]]
Drawn = tuple[dict[str, FloatArray], int]
"""Draws of some plants, each shaped (draw × plant,), and how many proposals they took."""


@dataclass
class _Tally:
    """Proposals of plants' parameters, and what was kept."""

    proposals: int = 0
    draws: int = 0

    def add(self, proposals: int, draws: int) -> None:
        self.proposals += proposals
        self.draws += draws

    @property
    def acceptance(self) -> float:
        return self.draws / self.proposals if self.proposals else 1.0


class MultilevelSampler(Protocol):
    """Draws from a multilevel model's posterior, in blocks of plants."""

    num_plants: int
    log_evidence: float

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters."""

    def draw_hyper(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """Draw (mu, sigma2)."""

    def blocks(self, hyper: HyperDraws, rng: np.random.Generator) -> Iterator[Block]:
        """Draw the plants of each (mu, sigma2), a block of plants at a time.

        All usable cores draw, a few blocks ahead. A block's draws do not depend on how many cores
        there are: it has a generator of its own, spawned from `rng`.
        """

    def diagnostics(self, hyper: HyperDraws) -> dict[str, float]:
        """Return the numbers of :class:`ExactDraws`, of all blocks so far."""


@dataclass
class PoissonSampler:
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
    names: ClassVar[tuple[str, ...]] = ("mu", "sigma2", "mu_plant")

    def __post_init__(self) -> None:
        self.totals, self.counts = as_floats(self.totals), as_floats(self.counts)
        _check_counts(self.totals, self.counts)
        self.num_plants, self._tally = self.counts.size, _Tally()
        seen = self.counts > 0
        (num, total), multiplicity = merged(self.counts[seen], self.totals[seen])
        plants = PoissonPlants(num, total, multiplicity)
        self._hyper, evidence = _hyper_sampler(plants, self.prior)
        self.log_evidence = evidence - self.sum_log_factorials

    def draw_hyper(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """See :class:`MultilevelSampler`."""
        return self._hyper.draw(checked_num(num_draws), rng)

    def blocks(self, hyper: HyperDraws, rng: np.random.Generator) -> Iterator[Block]:
        """See :class:`MultilevelSampler`."""
        modes = central_modes(self.counts, self.totals, hyper.mu, hyper.sigma2)

        def drawn(plants: slice, own: np.random.Generator) -> Drawn:
            num, total, near = self.counts[plants], self.totals[plants], modes[plants]
            rates, proposals = draw_rates(num, total, hyper.mu, hyper.sigma2, near, own)
            return {"mu_plant": rates.T}, proposals

        return _drawn_in_blocks(drawn, self.num_plants, hyper.mu.size, rng, self._tally)

    def diagnostics(self, hyper: HyperDraws) -> dict[str, float]:
        """See :class:`MultilevelSampler`."""
        return _diagnostics(hyper, self._hyper, self._tally)


@dataclass
class NormalSampler:
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
    names: ClassVar[tuple[str, ...]] = ("mu", "sigma2", "mu_plant", "sigma2_plant")

    def __post_init__(self) -> None:
        data, prior = self.statistics, self.prior
        check_plants(data, prior, plant_labels(data, self.plants))
        self.num_plants, self._tally = data.num.size, _Tally()
        nu, scale = prior.sigma2_plant_nu, prior.sigma2_plant_scale
        self._known_ss, self._dof = data.ss + nu * scale**2, data.num + nu
        seen = data.num > 0
        (num, mean, ss), multiplicity = merged(data.num[seen], data.mean[seen], data.ss[seen])
        plants = NormalPlants(num, mean, ss, multiplicity, nu, scale)
        self._hyper, self.log_evidence = _hyper_sampler(plants, prior)

    def draw_hyper(self, num_draws: int, rng: np.random.Generator) -> HyperDraws:
        """See :class:`MultilevelSampler`."""
        return self._hyper.draw(checked_num(num_draws), rng)

    def blocks(self, hyper: HyperDraws, rng: np.random.Generator) -> Iterator[Block]:
        """See :class:`MultilevelSampler`."""
        data = self.statistics

        def drawn(plants: slice, own: np.random.Generator) -> Drawn:
            columns = (data.num, data.mean, self._known_ss, self._dof)
            num, mean, known_ss, dof, mu, sigma2 = _flat(hyper, *(c[plants] for c in columns))
            mu_plant, sigma2_plant, proposals = draw_plants(
                num, mean, known_ss, dof, mu, sigma2, own
            )
            return {"mu_plant": mu_plant, "sigma2_plant": sigma2_plant}, proposals

        return _drawn_in_blocks(drawn, self.num_plants, hyper.mu.size, rng, self._tally)

    def diagnostics(self, hyper: HyperDraws) -> dict[str, float]:
        """See :class:`MultilevelSampler`."""
        return _diagnostics(hyper, self._hyper, self._tally)


def _hyper_sampler(plants: Plants, prior: MultilevelPrior) -> tuple[HyperSampler, float]:
    """Make the sampler of (mu, sigma2), and the log evidence."""
    region = Region(plants.centre, plants.spread, plants.power, prior, plants.multiplicity)
    hyper = HyperSampler(*located(plants, prior, region))
    return hyper, hyper.log_evidence + plants.log_constant


def _flat(hyper: HyperDraws, *columns: FloatArray) -> list[FloatArray]:
    """Repeat plants' columns for each draw and (mu, sigma2) for each plant, shape (D P,)."""
    shape = (hyper.mu.size, columns[0].size)
    plants = [np.broadcast_to(column, shape).ravel() for column in columns]
    return plants + [np.repeat(values, shape[1]) for values in (hyper.mu, hyper.sigma2)]


def _drawn_in_blocks(
    draw: Callable[[slice, np.random.Generator], Drawn],
    num_plants: int,
    num_draws: int,
    rng: np.random.Generator,
    tally: _Tally,
) -> Iterator[Block]:
    """Draw blocks of plants, each from a generator of its own, so that threads may share them."""
    width = max(1, _BLOCK // num_draws)
    starts = range(0, num_plants, width)
    slices = [slice(start, min(start + width, num_plants)) for start in starts]
    own = rng.spawn(len(slices))
    tasks = [partial(draw, plants, each) for plants, each in zip(slices, own, strict=True)]
    for plants, (draws, proposals) in zip(slices, in_order(tasks), strict=True):
        tally.add(proposals, num_draws * (plants.stop - plants.start))
        yield plants, {name: values.reshape(num_draws, -1) for name, values in draws.items()}


def _diagnostics(hyper: HyperDraws, sampler: HyperSampler, tally: _Tally) -> dict[str, float]:
    return {
        "hyper_acceptance": hyper.acceptance,
        "plant_acceptance": tally.acceptance,
        "num_exact": float(hyper.num_exact),
        "spline_error": sampler.surface.error,
        "largest_excess": hyper.largest_excess,
    }


def checked_num(num_draws: int) -> int:
    """Return the number of draws; raise ConfigError unless it is a whole number, 1 or more."""
    whole = isinstance(num_draws, int | np.integer) and not isinstance(num_draws, bool)
    if not (whole and 1 <= num_draws < 2**31):
        raise ConfigError(f"num_draws is {num_draws!r}, but must be a whole number, 1 or more")
    return int(num_draws)


def _check_counts(totals: FloatArray, counts: FloatArray) -> None:
    if totals.shape != counts.shape or totals.ndim != 1 or not totals.size:
        raise DataError(
            f"totals and counts must have one entry a plant, but have shapes {totals.shape} and "
            f"{counts.shape}"
        )
    for name, values in (("totals", totals), ("counts", counts)):
        bad = ~(np.isfinite(values) & (values >= 0) & (values == np.floor(values)))
        if np.any(bad):
            p = int(np.argmax(bad))
            raise DataError(
                f"{name}[{p}] is {float(values[p])!r}, but must be a whole number, 0 or more"
            )
    bad = (counts == 0) & (totals > 0)
    if np.any(bad):
        p = int(np.argmax(bad))
        raise DataError(f"totals[{p}] is {totals[p]:g}, but counts[{p}] says there are no months")
