"""``multilevel_poisson``: y ~ Poisson(mu_plant), log mu_plant ~ N(mu, sigma2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.lectures.posterior.distributions import FloatArray
from pyflowers.lectures.shipped import shared
from pyflowers.programs.capabilities import (
    Capabilities,
    ClosedForm,
    Draws,
    IndependentDraws,
    LikelihoodAlone,
)
from pyflowers.programs.data import Data
from pyflowers.programs.families._counts import log_factorials


def _new_group(draws: Draws, data: Data) -> FloatArray:
    from pyflowers.lectures.posterior.poisson_plants import PoissonPlants

    columns = np.array([float(data.num_obs)]), np.array([float(data.y.sum())])
    group = PoissonPlants(shared.multilevel_prior(data), *columns)
    mu, u = draws["mu"].reshape(-1, 1), np.log(draws["sigma2"]).ravel()
    found = group.sum_log_integrals(mu, u) + group.log_constant - log_factorials(data.y).sum()
    return np.reshape(found, draws["mu"].shape)


def _notes(data: Data) -> list[str]:
    """Return notes on a single plant, and on all-zero counts, which do not bound mu from below."""
    if data.y.any():
        return shared.notes_on_population(data)
    prior = f"N({data['mu_mean']:g}, {data['mu_sd']:g}²)"
    return [
        *shared.notes_on_population(data),
        f"{data.source}: all {data.value_name} are 0, which shows only that mu is small; its "
        f"prior, {prior}, determines how small, and the prior of sigma2 determines how much the "
        "groups differ; give narrower priors with --prior mu_mean=… and --prior mu_sd=…, or with "
        "--prior sigma2_nu=… and --prior sigma2_scale=…",
    ]


def _likelihood_alone(draws: Draws, data: Data) -> dict[str, LikelihoodAlone]:
    """Return the estimates of mu and sigma2 from each plant's log rate and its squared error."""
    total = np.bincount(shared.plant_codes(data), data.y, minlength=int(data["P"])) + 0.5
    return shared.population_alone(np.log(total / shared.plant_sizes(data)), 1 / total)


def _num_informative(data: Data) -> int:
    """Return the number of plants with flowers: only these plants rule out large values of sigma2.

    The rate of a plant without flowers may be arbitrarily close to 0.
    """
    return int(np.count_nonzero(np.bincount(shared.plant_codes(data), data.y)))


def _prefers_centered(data: Data) -> int:
    """Return 1 if the variance between plants exceeds the error variance of a plant, else 0.

    The variances refer to log rates; a plant with a total of t flowers has the error variance 1/t.
    """
    total = np.bincount(shared.plant_codes(data), data.y) + 0.5
    return int(shared.between_exceeds_error(np.log(total / shared.plant_sizes(data)), 1 / total))


def _log_constant(data: Data) -> float:
    """Return −Σ log y!, the constant of the log likelihood."""
    return -float(log_factorials(data.y).sum())


def _exact(data: Data) -> Any:
    from pyflowers.lectures.posterior.multilevel import exact_multilevel_poisson

    codes = shared.plant_codes(data)
    rows = np.argsort(codes, kind="stable")  # the posterior orders plants by first appearance
    return exact_multilevel_poisson(data.y[rows], codes[rows], shared.multilevel_prior(data))


def _draw(data: Data, num_draws: int, rng: Generator) -> IndependentDraws:
    from pyflowers.lectures.posterior.multilevel import PoissonSampler

    total = np.bincount(shared.plant_codes(data), data.y, minlength=int(data["P"]))
    sampler = PoissonSampler(
        total.astype(float), shared.plant_sizes(data).astype(float), shared.multilevel_prior(data)
    )
    return shared.draws_of_plants(sampler, num_draws, rng)


CAPABILITIES = Capabilities(
    closed_form=ClosedForm(exact=_exact, draw=_draw, log_constant=_log_constant),
    new_group=_new_group,
    check=_notes,
    priors_on_scale=lambda data: shared.priors_on_scale(
        shared.POPULATION_PRIOR, math.log(max(data.y.mean(), 0.5 / data.num_obs)), 1.0
    ),
    missing_moments=lambda data: shared.inv_chi2_moments(
        "sigma2", _num_informative(data) + data["sigma2_nu"]
    ),
    likelihood_alone=_likelihood_alone,
    choices={"centered": _prefers_centered},
)
