"""Parts shared by the shipped programs: a normal population, its priors, and missing moments.

mu ~ N(m, s²) and sigma2 ~ scaled-inv-χ²(nu, scale²). In the two multilevel programs, sigma2 is the
variance of P plant means or of their logs.

References
----------
Gelman et al., Bayesian Data Analysis, 3rd ed., table A.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.lectures.posterior.distributions import (
    FloatArray,
    IntArray,
    MultilevelPrior,
)
from pyflowers.programs.capabilities import (
    GroupDraws,
    IndependentDraws,
    LikelihoodAlone,
    MissingMoment,
)
from pyflowers.programs.data import Data

LOG_2_PI = math.log(2 * math.pi)


def inv_chi2_moments(parameter: str, dof: Any) -> list[MissingMoment]:
    """Return the moments that a variance lacks if its density falls like x^−(dof/2 + 1).

    The k-th moment exists if and only if dof > 2k (BDA3 table A.1, scaled-inv-χ²).

    Parameters
    ----------
    parameter : str
        The variance.
    dof : float or array
        Degrees of freedom, one for each element if they differ.
    """
    return _missing(parameter, np.asarray(dof, dtype=float), 2)


def t_moments(parameter: str, dof: Any) -> list[MissingMoment]:
    """Return the missing moments of a location whose posterior falls like |x|^−(dof + 1).

    The k-th moment exists if and only if dof > k (BDA3 table A.1, t).
    """
    return _missing(parameter, np.asarray(dof, dtype=float), 1)


def _missing(parameter: str, dof: Any, each: int) -> list[MissingMoment]:
    """Return the missing moments; the k-th exists if and only if `dof` exceeds k times `each`."""
    found = []
    for what, where, limit in (
        ("mean does not exist", dof <= each, each),
        ("variance is infinite", (dof > each) & (dof <= 2 * each), 2 * each),
    ):
        if not np.any(where):
            continue
        number = " to ".join(f"{num:g}" for num in np.unique([dof[where].min(), dof[where].max()]))
        reason = f"its posterior {what} ({number} ≤ {limit} degrees of freedom)"
        elements = None
        if dof.ndim:
            elements = where
        found.append(MissingMoment(parameter, limit == each, reason, elements))
    return found


def normal_alone(mean: str, y: FloatArray) -> dict[str, LikelihoodAlone]:
    """Return the estimates of a mean and a variance from a normal likelihood alone.

    The log of a χ² variable with k degrees of freedom has a variance of about 2 / k.
    """
    num = len(y)
    if num < 2 or np.ptp(y) == 0:
        return {}
    variance, dof = float(np.var(y, ddof=1)), num - 1
    return {
        mean: LikelihoodAlone(np.array(y.mean()), np.array(variance / num), dof=dof),
        "sigma2": LikelihoodAlone(np.array(variance), np.array(2 / dof), is_log=True),
    }


def population_alone(means: FloatArray, errors: FloatArray) -> dict[str, LikelihoodAlone]:
    """Return the estimates of mu and sigma2 from the likelihood alone.

    Parameters
    ----------
    means, errors : array, shape (P,)
        Estimates of the groups' means, and their squared errors.
    """
    num = len(means)
    if num < 2 or np.ptp(means) == 0:
        return {}
    grid = np.log(np.var(means)) + np.linspace(-8, 8, 641)
    weight = 1 / (np.exp(grid)[:, None] + errors)
    total = weight.sum(axis=1)
    centre = (weight @ means) / total
    squares = np.sum(weight * (means - centre[:, None]) ** 2, axis=1)
    # The likelihood of sigma2 without mu (Patterson and Thompson 1971, Biometrika 58(3)).
    log_lik = 0.5 * (np.log(weight).sum(axis=1) - np.log(total) - squares)
    top = int(np.argmax(log_lik))
    sigma2 = float(np.exp(grid[top]))
    # A likelihood that falls little towards 0 does not bound sigma2 from below.
    curvature, error = 0.0, np.inf
    if 0 < top < len(grid) - 1 and log_lik[top] - log_lik[0] > 5:
        low, middle, high = log_lik[top - 1 : top + 2]
        curvature = (2 * middle - low - high) / (grid[1] - grid[0]) ** 2
    if curvature > 0:
        error = 1 / curvature
    return {
        "mu": LikelihoodAlone(np.array(centre[top]), np.array(1 / total[top]), dof=num - 1),
        "sigma2": LikelihoodAlone(np.array(sigma2), np.array(error), is_log=True),
    }


def priors_on_scale(names: Sequence[str], center: float, spread: float) -> dict[str, float]:
    """Return rounded m, s and scale of wide priors for values of a given location and spread.

    s is two and a half times the spread, as in the default priors of rstanarm and Bambi.

    Parameters
    ----------
    names : sequence of str
        The program's names for m, s, nu and scale.
    center, spread : float
        Location and spread of the values.
    """
    if not (spread > 0):
        spread = max(abs(center), 1.0)
    digits = -math.floor(math.log10(spread))
    wide = 2.5 * spread
    return {
        names[0]: round(center, digits),
        names[1]: round(wide, -math.floor(math.log10(wide))),
        names[3]: round(spread, digits),
    }


POPULATION_PRIOR = ("mu_mean", "mu_sd", "sigma2_nu", "sigma2_scale")
"""The data block's names for the hyperparameters of mu and sigma2."""


def plant_codes(data: Data) -> IntArray:
    """Return the position of the plant of each observation, from 0, shape (N,)."""
    return np.asarray(data["plant"], dtype=np.int64) - 1


def plant_sizes(data: Data) -> IntArray:
    """Return the number of observations of each plant, shape (P,)."""
    return np.bincount(plant_codes(data), minlength=int(data["P"]))


def plant_names(data: Data) -> tuple[str, ...]:
    """Return the labels of the plants; without a table they are numbered from 1."""
    labels = data.labels.get("plant")
    if labels:
        return labels.names
    return tuple(str(i + 1) for i in range(int(data["P"])))


def notes_on_population(data: Data) -> list[str]:
    """Return a note if a single plant cannot show the variance between plants."""
    if int(data["P"]) > 1:
        return []
    return [
        f"{data.source} has a single {data.name_of('plant')}, so sigma2, the variance between "
        "groups, depends almost entirely on its prior; consider a model without groups"
    ]


def multilevel_prior(data: Data) -> MultilevelPrior:
    """Return the hyperparameters in the form of :mod:`pyflowers.vb` and :mod:`pyflowers.exact`."""
    names = MultilevelPrior.__dataclass_fields__
    return MultilevelPrior(**{name: float(data[name]) for name in names if name in data.values})


def draws_of_plants(sampler: Any, num_draws: int, rng: Generator) -> IndependentDraws:
    """Draw mu and sigma2 now, and the quantities of the plants only on request.

    Parameters
    ----------
    sampler : PoissonSampler or NormalSampler
        The sampler of the model.
    num_draws : int
        Number of draws.
    rng : numpy.random.Generator
        The source of all randomness.
    """
    hyper = sampler.draw_hyper(num_draws, rng)
    return IndependentDraws(
        {"mu": hyper.mu, "sigma2": hyper.sigma2},
        GroupDraws(sampler.names[2:], sampler.num_plants, sampler.blocks(hyper, rng)),
        lambda: sampler.diagnostics(hyper),
    )


def between_exceeds_error(mean: FloatArray, error: FloatArray) -> bool:
    """Whether the variance between plants exceeds the squared error of a plant's mean.

    If so, the centred parametrisation mixes better; otherwise the non-centred one does
    (Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22(1), section 2).
    """
    if mean.size < 2:
        return False
    observed = float(np.var(mean, ddof=1))
    return max(observed - float(np.mean(error)), 0.0) > float(np.median(error))
