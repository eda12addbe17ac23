"""``multilevel_normal``: y ~ N(mu_plant, sigma2_plant), mu_plant ~ N(mu, sigma2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.errors import ConfigError, DataError
from pyflowers.lectures.posterior.distributions import (
    FloatArray,
    ScaledInvChiSquare,
    as_floats,
    log_constant,
)
from pyflowers.lectures.shipped import shared
from pyflowers.programs.capabilities import (
    Capabilities,
    ClosedForm,
    Draws,
    IndependentDraws,
    LikelihoodAlone,
    MissingMoment,
)
from pyflowers.programs.data import Data

_SCALE = "sigma2_plant_scale"


def _is_flat(values: Any) -> bool:
    """Whether sigma2_plant has the flat prior."""
    return bool(values["sigma2_plant_nu"] == -2)


def _variance_prior(data: Data) -> ScaledInvChiSquare:
    """Return the proper prior on sigma2_plant."""
    return ScaledInvChiSquare(as_floats(data["sigma2_plant_nu"]), as_floats(data[_SCALE]))


def _within(data: Data) -> float:
    """Return the sd of observations around the means of their plants, to one digit."""
    plant, sizes = shared.plant_codes(data), shared.plant_sizes(data)
    about = data.y - (np.bincount(plant, data.y) / np.maximum(sizes, 1))[plant]
    sd = 1.0
    for each in (about.std(), data.y.std()):
        if about.size and 0 < each < math.inf:
            sd = float(each)
            break
    return round(sd, -math.floor(math.log10(sd)))


def _proper(data: Data) -> str:
    """Return a phrase that suggests a proper prior on sigma2_plant, on the scale of the data."""
    options = f"--prior sigma2_plant_nu=1 --prior {_SCALE}={_within(data):g}"
    return f"a proper prior, such as one on the scale of the data: {options}"


def _on_scale(data: Data) -> dict[str, float]:
    found = shared.priors_on_scale(
        shared.POPULATION_PRIOR, float(data.y.mean()), float(data.y.std())
    )
    if _is_flat(data):
        return found
    return {**found, _SCALE: _within(data)}


def _new_group(draws: Draws, data: Data) -> FloatArray:
    from pyflowers.lectures.posterior.distributions import SufficientStatistics
    from pyflowers.lectures.posterior.normal_plants import NormalPlants

    if _is_flat(data):
        raise ConfigError(
            "sigma2_plant: under its flat prior, a new group has no predictive density; give "
            f"sigma2_plant {_proper(data)}"
        )
    whole = SufficientStatistics.from_array(data.y[None])
    group = NormalPlants(shared.multilevel_prior(data), whole.num, whole.mean, whole.ss)
    found = group.sum_log_integrals(draws["mu"].reshape(-1, 1), np.log(draws["sigma2"]).ravel())
    return np.reshape(found, draws["mu"].shape)


def _check(data: Data) -> list[str]:
    """Reject plants whose sigma2_plant has an improper posterior under the flat prior.

    With n observations and sum of squared deviations S, the density under the flat prior behaves
    like sigma2_plant^(−(n−1)/2) exp(−S / (2 sigma2_plant)) near 0. For n ≥ 3, this is integrable
    only if S > 0. In the tail, where the prior bounds mu_plant, the density behaves like
    sigma2_plant^(−n/2), which is integrable only if n ≥ 3.
    """
    notes = shared.notes_on_population(data)
    if not _is_flat(data):
        return notes
    sizes, plant = shared.plant_sizes(data), shared.plant_codes(data)

    def called(plant: int) -> str:
        return f"{data.name_of('plant')} {shared.plant_names(data)[plant]!r}"

    if (sizes < 3).any():
        first = int(np.argmax(sizes < 3))
        raise DataError(
            f"{data.source}: {called(first)} has {sizes[first]} of the 3 observations that the "
            "flat prior on its sigma2_plant needs for a proper posterior; add observations or "
            f"give {_proper(data)}"
        )
    low, high = np.full(sizes.size, np.inf), np.full(sizes.size, -np.inf)
    np.minimum.at(low, plant, data.y)
    np.maximum.at(high, plant, data.y)
    if (low == high).any():
        first = int(np.argmax(low == high))
        raise DataError(
            f"{data.source}: all observations of {called(first)} are {low[first]:g}, so its "
            "sigma2_plant has an improper posterior under the flat prior; add observations or give "
            f"{_proper(data)}"
        )
    return notes


def _check_priors(values: Mapping[str, float]) -> None:
    """Reject a prior on sigma2_plant that is neither flat nor proper."""
    nu, scale = values["sigma2_plant_nu"], values["sigma2_plant_scale"]
    flat = nu == -2 and scale == 0
    if not flat and not (nu > 0 and scale > 0):
        raise ConfigError(
            f"priors sigma2_plant_nu={nu:g} and sigma2_plant_scale={scale:g}: a proper prior needs "
            "both above 0 (-2 and 0 make it flat); give both"
        )


def _missing_moments(data: Data) -> list[MissingMoment]:
    """Return the moments that the posterior lacks, for each plant if the parameter varies by plant.

    Each plant adds one degree of freedom to sigma2. sigma2_plant has n + sigma2_plant_nu degrees of
    freedom. The likelihood of mu_plant falls off as a power whose exponent is these degrees of
    freedom. Integrating out sigma2 adds sigma2_nu to the exponent, and a further 1 for each other
    plant, because the tails of the likelihood and of the population multiply.
    """
    num_plants = int(data["P"])
    dof = shared.plant_sizes(data) + float(data["sigma2_plant_nu"])
    others = float(data["sigma2_nu"]) + num_plants - 1
    return [
        *shared.inv_chi2_moments("sigma2", num_plants + float(data["sigma2_nu"])),
        *shared.t_moments("mu_plant", dof + others),
        *shared.inv_chi2_moments("sigma2_plant", dof),
    ]


def _prefers_centered(data: Data) -> int:
    """Return 1 if the variance between plant means exceeds the squared error of a mean, else 0."""
    plant, num = shared.plant_codes(data), shared.plant_sizes(data)
    mean = np.bincount(plant, data.y) / num
    within = np.bincount(plant, (data.y - mean[plant]) ** 2) / np.maximum(num - 1, 1)
    return int(shared.between_exceeds_error(mean, within / num))


def _log_constant(data: Data) -> float:
    """Return −N/2 log 2π plus, for each plant, the constant of a proper prior on sigma2_plant."""
    constant = -0.5 * data.num_obs * shared.LOG_2_PI
    if _is_flat(data):
        return constant
    prior = _variance_prior(data)
    return constant + int(data["P"]) * float(log_constant(prior.dof, prior.scale))


def _by_plant(data: Data) -> Any:
    """Return the statistics of plants 1 to P, for rows in any order."""
    from pyflowers.lectures.posterior.distributions import SufficientStatistics

    seen, codes = SufficientStatistics.from_groups(data.y, shared.plant_codes(data))
    every = np.zeros((3, int(data["P"])))
    every[:, np.asarray(codes, dtype=np.int64)] = seen.num, seen.mean, seen.ss
    return SufficientStatistics(*every)


def _exact(data: Data) -> Any:
    from pyflowers.lectures.posterior.multilevel import exact_multilevel_normal

    prior = shared.multilevel_prior(data)
    return exact_multilevel_normal(_by_plant(data), prior, plants=shared.plant_names(data))


def _draw(data: Data, num_draws: int, rng: Generator) -> IndependentDraws:
    from pyflowers.lectures.posterior.multilevel import NormalSampler

    sampler = NormalSampler(
        _by_plant(data), shared.multilevel_prior(data), shared.plant_names(data)
    )
    return shared.draws_of_plants(sampler, num_draws, rng)


def _vb(data: Data) -> Any:
    from pyflowers.lectures.posterior.mean_field import fit_multilevel_normal

    prior = shared.multilevel_prior(data)
    return fit_multilevel_normal(_by_plant(data), prior, plants=shared.plant_names(data))


def _likelihood_alone(draws: Draws, data: Data) -> dict[str, LikelihoodAlone]:
    """Return the estimates of mu and sigma2 from each plant's mean and its squared error."""
    size = shared.plant_sizes(data)
    means = np.bincount(shared.plant_codes(data), data.y, minlength=int(data["P"])) / size
    variances = np.median(draws["sigma2_plant"], axis=(0, 1))
    return shared.population_alone(means, variances / size)


CAPABILITIES = Capabilities(
    closed_form=ClosedForm(exact=_exact, vb=_vb, draw=_draw, log_constant=_log_constant),
    new_group=_new_group,
    check=_check,
    check_priors=_check_priors,
    priors_on_scale=_on_scale,
    missing_moments=_missing_moments,
    likelihood_alone=_likelihood_alone,
    choices={"centered": _prefers_centered},
)
