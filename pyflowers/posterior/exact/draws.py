"""Independent draws from the exact posteriors: no Markov chain, no warm-up.

Each draw is exact, up to quadrature and rounding errors that :mod:`.envelope` states, and
independent of all others: R-hat and effective sample sizes have nothing to find. All randomness
comes from the generator given: the same seed gives the same draws.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from pyflowers.display import INTERVAL, Line, Shown, draws_table, format_number, heading
from pyflowers.posterior.exact.hierarchy import (
    MultilevelSampler,
    NormalSampler,
    PoissonSampler,
    checked_num,
)
from pyflowers.posterior.exact.normal import NormalExact
from pyflowers.posterior.exact.plant_variances import draw_plants
from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats
from pyflowers.posterior.vb.priors import MultilevelPrior, NormalPrior
from pyflowers.posterior.vb.statistics import SufficientStatistics


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


def draw_multilevel_poisson(
    totals: npt.ArrayLike,
    counts: npt.ArrayLike,
    prior: MultilevelPrior | None,
    num_draws: int,
    rng: np.random.Generator,
    *,
    sum_log_factorials: float = 0.0,
) -> ExactDraws:
    """Draw ``mu``, ``sigma2`` and ``mu_plant``; see :class:`PoissonSampler`.

    Raises
    ------
    DataError
        If the totals and counts are not those of plants.
    ConfigError
        If `num_draws` is not positive.
    """
    prior = MultilevelPrior() if prior is None else prior
    sampler = PoissonSampler(as_floats(totals), as_floats(counts), prior, sum_log_factorials)
    return _all_draws(sampler, num_draws, rng)


def draw_multilevel_normal(
    statistics: SufficientStatistics,
    prior: MultilevelPrior | None,
    num_draws: int,
    rng: np.random.Generator,
) -> ExactDraws:
    """Draw ``mu``, ``sigma2``, ``mu_plant`` and ``sigma2_plant``; see :class:`NormalSampler`.

    Raises
    ------
    DataError
        If there are no plants, or a plant's posterior is improper under its prior.
    ConfigError
        If `num_draws` is not positive.
    """
    prior = MultilevelPrior() if prior is None else prior
    return _all_draws(NormalSampler(statistics, prior), num_draws, rng)


def draw_normal(
    x: npt.ArrayLike | SufficientStatistics,
    prior: NormalPrior | None,
    num_draws: int,
    rng: np.random.Generator,
    *,
    location: str = "theta",
) -> ExactDraws:
    """Draw from the models `semiconjugate_normal` and, with `location` "mu", `iid_normal`.

    Given mu and sigma2 a plant of the multilevel model is this model, so its sampler serves.

    Parameters
    ----------
    x : array, shape (n,), or SufficientStatistics, shape ()
        The observations.
    prior : NormalPrior or None
        Hyperparameters, scalars; ``NormalPrior()`` if None.
    num_draws : int
        How many draws.
    rng : numpy.random.Generator
        The source of all randomness.
    location : str
        What to call the mean.

    Raises
    ------
    DataError
        If the data are a batch, cannot be used, or leave the posterior improper.
    ConfigError
        If the prior is a batch, or `num_draws` is not positive.
    """
    size = checked_num(num_draws)
    prior = NormalPrior() if prior is None else prior
    data = x if isinstance(x, SufficientStatistics) else SufficientStatistics.from_array(x)
    log_evidence = NormalExact(data, prior).log_evidence
    mean, variance, proposals = _normal_draws(data, prior, size, rng)
    draws = {location: mean, "sigma2": variance}
    return ExactDraws(draws, log_evidence, {"plant_acceptance": size / proposals})


def _normal_draws(
    data: SufficientStatistics, prior: NormalPrior, size: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, int]:
    nu0, sigma0, tau0 = float(prior.nu0), float(prior.sigma0), float(prior.tau0)
    num, mean, dof = float(data.num), float(data.mean), float(data.num) + nu0
    known_ss = float(data.ss) + (nu0 * sigma0**2 if nu0 > 0 else 0.0)
    if np.isinf(tau0):  # the conjugate case, BDA3 eq. 3.3 to 3.5
        variance = known_ss / rng.chisquare(dof - 1, size)
        return mean + np.sqrt(variance / num) * rng.standard_normal(size), variance, size

    def repeated(value: float) -> FloatArray:
        return np.full(size, value)

    return draw_plants(
        repeated(num),
        repeated(mean),
        repeated(known_ss),
        repeated(dof),
        repeated(float(prior.mu0)),
        repeated(tau0**2),
        rng,
    )


def _all_draws(sampler: MultilevelSampler, num_draws: int, rng: np.random.Generator) -> ExactDraws:
    """Collect all blocks."""
    hyper = sampler.draw_hyper(num_draws, rng)
    draws = {"mu": hyper.mu, "sigma2": hyper.sigma2}
    shape = (num_draws, sampler.num_plants)
    draws |= {name: np.empty(shape) for name in sampler.names[2:]}
    for plants, block in sampler.blocks(hyper, rng):
        for name, values in block.items():
            draws[name][:, plants] = values
    return ExactDraws(draws, sampler.log_evidence, sampler.diagnostics(hyper))
