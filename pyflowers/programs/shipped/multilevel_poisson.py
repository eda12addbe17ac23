"""``multilevel_poisson``: y ~ Poisson(mu_plant), log mu_plant ~ N(mu, sigma2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.capabilities import (
    Capabilities,
    ClosedForm,
    Draws,
    IndependentDraws,
    NewData,
    Pointwise,
    PriorModel,
)
from pyflowers.programs.data import Data
from pyflowers.programs.moments import inv_chi2_moments
from pyflowers.programs.shipped.counts import draw_counts
from pyflowers.programs.shipped.population import (
    POPULATION_PRIOR,
    between_exceeds_error,
    draw_population,
    draws_of_plants,
    log_factorials,
    multilevel_prior,
    normal_groups,
    notes_on_population,
    plant_codes,
    plant_sizes,
    population_density,
)
from pyflowers.programs.shipped.top_priors import priors_on_scale


def _log_lik(draws: Draws, data: Data) -> NDArray[np.float64]:
    rate, plant, y = draws["mu_plant"], plant_codes(data), data.y
    # A rate may underflow to 0, where 0⁰ = 1 is the probability of no count.
    with np.errstate(divide="ignore"):
        log_rate = np.log(rate)[..., plant]
    of_counts = np.multiply(y, log_rate, out=np.zeros_like(log_rate), where=y > 0)
    return np.asarray(of_counts - rate[..., plant] - log_factorials(y))


def _y_at(
    draws: Draws, data: Data, groups: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    return draw_counts(draws["mu_plant"], groups, rng)


def _y_rep(draws: Draws, data: Data, rng: np.random.Generator) -> NDArray[np.float64]:
    return _y_at(draws, data, plant_codes(data), rng)


def _new_groups(draws: Draws, data: Data, num: int, rng: np.random.Generator) -> Draws:
    log_rate = normal_groups(draws["mu"], draws["sigma2"], num, rng)
    with np.errstate(over="ignore"):  # the tail of sigma2 is heavy, and the rate its exponential
        return {"mu_plant": np.exp(log_rate)}


def _draw_prior(
    data: Data, num_draws: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    draws, log_rates = draw_population(data, num_draws, rng)
    with np.errstate(over="ignore"):  # a rate beyond all numbers is infinite
        return {**draws, "mu_plant": np.exp(log_rates)}


def _new_group(draws: Draws, data: Data) -> NDArray[np.float64]:
    from pyflowers.posterior.poisson_plants import PoissonPlants

    total = float(data.y.sum())
    group = PoissonPlants(*(np.array([float(x)]) for x in (data.num_obs, total, 1)))
    mu, u = draws["mu"].reshape(-1, 1), np.log(draws["sigma2"]).ravel()
    found = group.sum_log_integrals(mu, u) + group.log_constant - log_factorials(data.y).sum()
    return np.reshape(found, draws["mu"].shape)


def _notes(data: Data) -> list[str]:
    """Note that counts that are all 0 do not bound mu from below."""
    if data.y.any():
        return notes_on_population(data)
    prior = f"N({data['mu_mean']:g}, {data['mu_sd']:g}²)"
    return [
        *notes_on_population(data),
        f"{data.source}: all {data.value_name} are 0, which says only that mu is small: how small "
        f"is left to its prior {prior}, and how far apart the groups are to that of sigma2; give "
        "narrower ones by --prior mu_mean=… and --prior mu_sd=…, or --prior sigma2_nu=… and "
        "--prior sigma2_scale=…",
    ]


def _num_informative(data: Data) -> int:
    """Count the plants that keep sigma2 from being arbitrarily large.

    A plant without a flower does not: its rate may be as near to 0 as sigma2 likes.
    """
    return int(np.count_nonzero(np.bincount(plant_codes(data), data.y)))


def _prefers_centered(data: Data) -> int:
    """Compare on the log scale, where a plant with total t has error variance 1/t."""
    total = np.bincount(plant_codes(data), data.y) + 0.5
    return int(between_exceeds_error(np.log(total / plant_sizes(data)), 1 / total))


def _log_constant(data: Data) -> float:
    """Return the likelihood's −Σ log y!."""
    return -float(log_factorials(data.y).sum())


def _exact(data: Data) -> Any:
    from pyflowers.exact import exact_multilevel_poisson

    codes = plant_codes(data)
    rows = np.argsort(codes, kind="stable")  # the posterior has plants in order of appearance
    return exact_multilevel_poisson(data.y[rows], codes[rows], multilevel_prior(data))


def _draw(data: Data, num_draws: int, rng: np.random.Generator) -> IndependentDraws:
    from pyflowers.exact import PoissonSampler

    total = np.bincount(plant_codes(data), data.y, minlength=int(data["P"]))
    sampler = PoissonSampler(
        total.astype(float), plant_sizes(data).astype(float), multilevel_prior(data)
    )
    return draws_of_plants(sampler, num_draws, rng)


CAPABILITIES = Capabilities(
    pointwise=Pointwise(_log_lik, _y_rep, _new_group),
    new_data=NewData(_y_at, _new_groups),
    prior=PriorModel(_draw_prior, population_density),
    closed_form=ClosedForm(exact=_exact, draw=_draw, log_constant=_log_constant),
    check=_notes,
    priors_on_scale=lambda data: priors_on_scale(
        POPULATION_PRIOR, math.log(max(data.y.mean(), 0.5 / data.num_obs)), 1.0
    ),
    missing_moments=lambda data: inv_chi2_moments(
        "sigma2", _num_informative(data) + data["sigma2_nu"]
    ),
    choices={"centered": _prefers_centered},
)
