"""What the programs of normal observations share in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.capabilities import (
    Draws,
    IndependentDraws,
    NewData,
    Pointwise,
    PriorModel,
)
from pyflowers.programs.data import Data
from pyflowers.programs.shipped.top_priors import top_density, top_draws

LOG_2_PI = math.log(2 * math.pi)


def log_pdf(
    y: NDArray[np.float64], mean: NDArray[np.float64], var: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return log N(y | mean, var)."""
    return np.asarray(-0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var))


def one_normal(mean_name: str) -> tuple[Pointwise, NewData]:
    """Return y[n] ~ N(mean, sigma2), the same for all observations, old and new.

    Parameters
    ----------
    mean_name : str
        What the program calls the mean.
    """

    def log_lik(draws: Draws, data: Data) -> NDArray[np.float64]:
        mean, var = draws[mean_name], draws["sigma2"]
        return log_pdf(data.y, mean[..., None], var[..., None])

    def draw(draws: Draws, num: int, rng: np.random.Generator) -> NDArray[np.float64]:
        mean, sd = draws[mean_name], np.sqrt(draws["sigma2"])
        return rng.normal(mean[..., None], sd[..., None], (*mean.shape, num))

    return (
        Pointwise(
            log_lik,
            lambda draws, data, rng: draw(draws, data.num_obs, rng),
            # All groups are alike, so a new one is only more observations.
            lambda draws, data: log_lik(draws, data).sum(-1),
        ),
        NewData(lambda draws, data, groups, rng: draw(draws, groups.size, rng)),
    )


def one_normal_prior(mean_name: str, prior_names: tuple[str, str, str, str]) -> PriorModel:
    """Return mean ~ N(m, s²) and sigma2 ~ scaled-inv-χ²(nu, scale²) under the program's names.

    Parameters
    ----------
    mean_name : str
        What the program calls the mean.
    prior_names : tuple of str
        What it calls m, s, nu and scale.
    """

    def draw(
        data: Data, num_draws: int, rng: np.random.Generator
    ) -> dict[str, NDArray[np.float64]]:
        mean, sigma2 = top_draws([data[name] for name in prior_names], num_draws, rng)
        return {mean_name: mean, "sigma2": sigma2}

    def log_density(draws: Draws, data: Data) -> NDArray[np.float64]:
        return top_density(draws[mean_name], draws["sigma2"], [data[name] for name in prior_names])

    return PriorModel(draw, log_density)


def one_normal_vb(mean_name: str, prior_names: tuple[str, str, str, str]) -> Callable[..., object]:
    """Return the closed-form fit of one normal distribution under the program's own names.

    Parameters
    ----------
    mean_name : str
        What the program calls the mean.
    prior_names : tuple of str
        What it calls mu0, tau0, nu0 and sigma0 of :class:`pyflowers.vb.NormalPrior`.
    """

    def fit(data: Data, start: object = None) -> object:
        from dataclasses import replace

        from pyflowers.closed_form.vb import fit_normal

        result = fit_normal(data.y, normal_prior(data, prior_names), init=start)  # type: ignore[arg-type]
        names = {"theta": mean_name}
        states = tuple(
            replace(
                state,
                updated=names.get(state.updated, state.updated),
                factors={names.get(name, name): q for name, q in state.factors.items()},
            )
            for state in result.states
        )
        factors = {names.get(name, name): q for name, q in result.factors.items()}
        dims: dict[str, tuple[str, ...]] = {mean_name: (), "sigma2": ()}
        return replace(result, factors=factors, states=states, dims=dims)

    return fit


def one_normal_draw(
    mean_name: str, prior_names: tuple[str, str, str, str]
) -> Callable[[Data, int, np.random.Generator], IndependentDraws]:
    """Return the sampler of one normal distribution, its parameters as :func:`one_normal_vb`."""

    def draw(data: Data, num_draws: int, rng: np.random.Generator) -> IndependentDraws:
        from pyflowers.closed_form.exact import draw_normal

        prior: Any = normal_prior(data, prior_names)
        found = draw_normal(data.y, prior, num_draws, rng, location=mean_name)
        return IndependentDraws(found.draws, measures=lambda: found.diagnostics)

    return draw


def normal_prior(data: Data, names: tuple[str, str, str, str]) -> object:
    """Return the prior of a filled data block."""
    from pyflowers.closed_form.vb import NormalPrior

    return NormalPrior(*(float(data[name]) for name in names))


def far_start(data: Data) -> object:
    """Return a q to the left of the data's mean and too wide, with half the data's variance.

    The usual start is so near the solution that an ascent from it has nothing to show.
    """
    from pyflowers.closed_form.vb import Normal, ScaledInvChiSquare

    sd = float(np.std(data.y)) or 1.0
    return (
        Normal(np.asarray(data.y.mean() - 0.6 * sd), np.asarray(0.6 * sd)),
        ScaledInvChiSquare(np.asarray(float(data.num_obs)), np.asarray(sd * 0.7)),
    )
