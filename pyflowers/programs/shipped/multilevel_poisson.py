"""``multilevel_poisson``: y ~ Poisson(mu_plant), log mu_plant ~ N(mu, sigma2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.posterior.distributions import FloatArray, IntArray
from pyflowers.programs import families
from pyflowers.programs.capabilities import (
    Capabilities,
    ClosedForm,
    Draws,
    IndependentDraws,
    LikelihoodAlone,
    NewData,
    Pointwise,
    PriorModel,
)
from pyflowers.programs.data import Data
from pyflowers.programs.shipped import shared

_LARGEST_TABLED = 50.0
_NUM_VALUES = 170
"""Number of tabulated values of a count; the probability of a larger one is below 1e-39."""

_FEWEST_ROWS = 4 * _NUM_VALUES
"""The fewest rows of a group for which tabulating probabilities is cheaper than drawing counts."""


def _log_lik(draws: Draws, data: Data) -> FloatArray:
    rate, plant, y = draws["mu_plant"], shared.plant_codes(data), data.y
    # A rate may underflow to 0; then 0⁰ = 1 is the probability of a count of 0.
    with np.errstate(divide="ignore"):
        log_rate = np.log(rate)[..., plant]
    of_counts = np.multiply(y, log_rate, out=np.zeros_like(log_rate), where=y > 0)
    return np.asarray(of_counts - rate[..., plant] - shared.log_factorials(y))


def _y_at(draws: Draws, data: Data, groups: IntArray, rng: Generator) -> FloatArray:
    return draw_counts(draws["mu_plant"], groups, rng)


def _new_groups(draws: Draws, data: Data, num: int, rng: Generator) -> Draws:
    log_rate = shared.normal_groups(draws["mu"], draws["sigma2"], num, rng)
    with np.errstate(over="ignore"):  # sigma2 has a heavy tail, so exp may overflow
        return {"mu_plant": np.exp(log_rate)}


def _draw_prior(data: Data, num_draws: int, rng: Generator) -> dict[str, FloatArray]:
    draws, log_rates = shared.draw_population(data, num_draws, rng)
    with np.errstate(over="ignore"):  # a rate that overflows is infinite
        return {**draws, "mu_plant": np.exp(log_rates)}


def _new_group(draws: Draws, data: Data) -> FloatArray:
    from pyflowers.posterior.poisson_plants import PoissonPlants

    columns = np.array([float(data.num_obs)]), np.array([float(data.y.sum())])
    group = PoissonPlants(shared.multilevel_prior(data), *columns)
    mu, u = draws["mu"].reshape(-1, 1), np.log(draws["sigma2"]).ravel()
    found = (
        group.sum_log_integrals(mu, u) + group.log_constant - shared.log_factorials(data.y).sum()
    )
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
    """Return the number of plants that bound sigma2 from above.

    Plants without flowers do not bound it, because their rates may be arbitrarily close to 0.
    """
    return int(np.count_nonzero(np.bincount(shared.plant_codes(data), data.y)))


def _prefers_centered(data: Data) -> int:
    """Return 1 if the variance between plants exceeds the error variance of a plant, else 0.

    The variances refer to log rates; a plant with a total of t flowers has the error variance 1/t.
    """
    total = np.bincount(shared.plant_codes(data), data.y) + 0.5
    return int(shared.between_exceeds_error(np.log(total / shared.plant_sizes(data)), 1 / total))


def _log_constant(data: Data) -> float:
    """Return the likelihood's −Σ log y!."""
    return -float(shared.log_factorials(data.y).sum())


def _exact(data: Data) -> Any:
    from pyflowers.exact import exact_multilevel_poisson

    codes = shared.plant_codes(data)
    rows = np.argsort(codes, kind="stable")  # the posterior orders plants by first appearance
    return exact_multilevel_poisson(data.y[rows], codes[rows], shared.multilevel_prior(data))


def _draw(data: Data, num_draws: int, rng: Generator) -> IndependentDraws:
    from pyflowers.exact import PoissonSampler

    total = np.bincount(shared.plant_codes(data), data.y, minlength=int(data["P"]))
    sampler = PoissonSampler(
        total.astype(float), shared.plant_sizes(data).astype(float), shared.multilevel_prior(data)
    )
    return shared.draws_of_plants(sampler, num_draws, rng)


def draw_counts(rate: FloatArray, groups: IntArray, rng: Generator) -> FloatArray:
    """Draw a Poisson count for each row, given the rate of its group.

    Parameters
    ----------
    rate : array, shape (…, P)
        The rate of each group.
    groups : array of int, shape (N,)
        Position of the group of each row.
    rng : Generator
        The source of the draws.

    Returns
    -------
    array, shape (…, N)
    """
    num_rows, rest = divmod(groups.size, rate.shape[-1])
    if rest or num_rows < _FEWEST_ROWS or not _in_blocks(groups, rate.shape[-1], num_rows):
        return families.draw_counts(rate[..., groups], rng)
    flat = rate.reshape(-1)
    counts = np.empty((flat.size, num_rows))
    tabled = flat <= _LARGEST_TABLED
    counts[tabled] = _by_value(flat[tabled], num_rows, rng)
    others = np.broadcast_to(flat[~tabled, None], (int((~tabled).sum()), num_rows))
    counts[~tabled] = families.draw_counts(others, rng)
    return counts.reshape(*rate.shape[:-1], groups.size)


def _in_blocks(groups: IntArray, num_groups: int, num_rows: int) -> bool:
    """Whether rows are sorted by group, with equally many in each."""
    blocks = groups.reshape(num_groups, num_rows)
    return bool((blocks == np.arange(num_groups)[:, None]).all())


def _by_value(rate: FloatArray, num_rows: int, rng: Generator) -> NDArray[np.int16]:
    """Return counts, shape (group, row), for small rates."""
    from scipy.special import gammaln, xlogy

    values = np.arange(_NUM_VALUES)
    probability = np.exp(xlogy(values, rate[:, None]) - rate[:, None] - gammaln(values + 1))
    probability /= probability.sum(axis=1, keepdims=True)
    times = rng.multinomial(num_rows, probability)
    every = np.tile(values.astype(np.int16), rate.size)
    sorted_counts = np.repeat(every, times.ravel()).reshape(rate.size, num_rows)
    return rng.permuted(sorted_counts, axis=1)


CAPABILITIES = Capabilities(
    pointwise=Pointwise(
        _log_lik,
        lambda draws, data, rng: _y_at(draws, data, shared.plant_codes(data), rng),
        _new_group,
    ),
    new_data=NewData(_y_at, _new_groups),
    prior=PriorModel(_draw_prior, shared.population_density),
    closed_form=ClosedForm(exact=_exact, draw=_draw, log_constant=_log_constant),
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
