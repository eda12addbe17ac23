"""What the two multilevel programs share: sigma2 is the variance of P plant means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.capabilities import Draws, GroupDraws, IndependentDraws
from pyflowers.programs.data import Data
from pyflowers.programs.shipped.top_priors import top_density, top_draws

POPULATION_PRIOR = ("mu_mean", "mu_sd", "sigma2_nu", "sigma2_scale")
"""What the data block calls the prior of mu and sigma2."""


def plant_codes(data: Data) -> NDArray[np.int64]:
    """Return the position of each observation's plant, from 0, shape (N,)."""
    return np.asarray(data["plant"], dtype=np.int64) - 1


def plant_sizes(data: Data) -> NDArray[np.int64]:
    """Return the observations of each plant, shape (P,)."""
    return np.bincount(plant_codes(data), minlength=int(data["P"]))


def plant_names(data: Data) -> tuple[str, ...]:
    """Return the plants' labels; without a table they are numbered from 1."""
    labels = data.labels.get("plant")
    return labels.names if labels else tuple(str(i + 1) for i in range(int(data["P"])))


def notes_on_population(data: Data) -> list[str]:
    """Note that a single plant cannot tell the variance between plants from its prior."""
    if int(data["P"]) > 1:
        return []
    return [
        f"{data.source} has a single {data.name_of('plant')}: its data cannot tell sigma2, the "
        "variance between them, from its prior; a model without groups may be what you want"
    ]


def draw_population(
    data: Data, num_draws: int, rng: np.random.Generator
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Draw mu and sigma2 from their prior, and N(mu, sigma2) for each plant.

    Returns
    -------
    draws : dict of str to array, shape (1, num_draws)
        ``mu`` and ``sigma2``.
    plants : array, shape (1, num_draws, P)
        A value for each plant.
    """
    mu, sigma2 = top_draws([data[name] for name in POPULATION_PRIOR], num_draws, rng)
    deviation = rng.normal(size=(*mu.shape, int(data["P"])))
    return {"mu": mu, "sigma2": sigma2}, mu[..., None] + np.sqrt(sigma2)[..., None] * deviation


def population_density(draws: Draws, data: Data) -> NDArray[np.float64]:
    """Return the log prior density of mu and sigma2, shape (chain, draw)."""
    return top_density(draws["mu"], draws["sigma2"], [data[name] for name in POPULATION_PRIOR])


def multilevel_prior(data: Data) -> Any:
    """Return the hyperparameters as :mod:`pyflowers.vb` and :mod:`pyflowers.exact` take them."""
    from pyflowers.vb import MultilevelPrior

    names = MultilevelPrior.__dataclass_fields__
    return MultilevelPrior(**{name: float(data[name]) for name in names if name in data.values})


def normal_groups(
    mean: NDArray[np.float64], var: NDArray[np.float64], num: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw `num` groups from N(mean, var), shape (chain, draw, num)."""
    size = (*mean.shape, num)
    return rng.normal(mean[..., None], np.sqrt(var)[..., None], size)


def log_factorials(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log y! of counts: that of each different count once, without importing SciPy."""
    counts, where = np.unique(y, return_inverse=True)
    return np.array([math.lgamma(count + 1) for count in counts.tolist()])[where.ravel()]


def draws_of_plants(sampler: Any, num_draws: int, rng: np.random.Generator) -> IndependentDraws:
    """Draw mu and sigma2 now, and the plants of each when they are asked for.

    Parameters
    ----------
    sampler : PoissonSampler or NormalSampler
        Of the model.
    num_draws : int
        How many draws.
    rng : numpy.random.Generator
        The source of all randomness.
    """
    hyper = sampler.draw_hyper(num_draws, rng)
    return IndependentDraws(
        {"mu": hyper.mu, "sigma2": hyper.sigma2},
        GroupDraws(sampler.names[2:], sampler.num_plants, sampler.blocks(hyper, rng)),
        lambda: sampler.diagnostics(hyper),
    )


def between_exceeds_error(mean: NDArray[np.float64], error: NDArray[np.float64]) -> bool:
    """Whether plant means vary more than the error with which the data know them.

    The centred parametrisation mixes better then, the non-centred one otherwise
    (Papaspiliopoulos, Roberts and Sköld 2007, Statistical Science 22(1), section 2).
    """
    if mean.size < 2:
        return False
    observed = float(np.var(mean, ddof=1))
    return max(observed - float(np.mean(error)), 0.0) > float(np.median(error))
