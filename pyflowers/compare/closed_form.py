"""The exact posterior and closed-form variational Bayes of a model, where there are any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pyflowers.data import FlowerData
from pyflowers.exact import (
    ExactPosterior,
    NormalExact,
    exact_iid_normal,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.models import Model
from pyflowers.models.normal import OneNormal
from pyflowers.vb import (
    Distribution,
    MultilevelPrior,
    Normal,
    NormalPrior,
    ScaledInvChiSquare,
    SufficientStatistics,
    VBResult,
    fit_multilevel_normal,
    fit_normal,
)

Priors = Mapping[str, float]


def exact_posterior(model: Model, data: FlowerData, priors: Priors) -> ExactPosterior | None:
    """Integrate the posterior of one of our models; None for a model without quadrature."""
    return _EXACT[model.name](data, priors) if model.name in _EXACT else None


def variational(model: Model, data: FlowerData, priors: Priors) -> VBResult | None:
    """Fit the closed-form mean field; None for a model whose updates are not closed form.

    The factors carry the model's own parameter names and the user's labels.
    """
    return _VB[model.name](data, priors) if model.name in _VB else None


def ascent_from_afar(model: Model, data: FlowerData, priors: Priors) -> VBResult | None:
    """Fit a model of one normal distribution from a q that is off in mean and in variance.

    Our own start is so near the solution that an ascent from it has nothing to show. This one has
    q(mean) to the left of the data's mean and too wide, and half the data's variance.
    """
    if not isinstance(model, OneNormal) or data.num_obs < 2:
        return None
    sd = float(np.std(data.y)) or 1.0
    start = (
        Normal(np.asarray(data.y.mean() - 0.6 * sd), np.asarray(0.6 * sd)),
        ScaledInvChiSquare(np.asarray(float(data.num_obs)), np.asarray(sd * 0.7)),
    )
    return _vb_one_normal(model.mean_name)(data, priors, start)


def _by_plant(data: FlowerData) -> SufficientStatistics:
    return SufficientStatistics.from_groups(data.y, data.plant)[0]


def _vb_one_normal(mean_name: str) -> Callable[..., VBResult]:
    """Fit the normal model, theta called as the Stan program calls it."""

    def renamed(factors: Mapping[str, Distribution]) -> dict[str, Distribution]:
        return {mean_name if name == "theta" else name: q for name, q in factors.items()}

    def fit(data: FlowerData, priors: Priors, start: Any = None) -> VBResult:
        result = fit_normal(data.y, NormalPrior(*priors.values()), init=start)
        states = tuple(
            replace(
                state,
                updated=mean_name if state.updated == "theta" else state.updated,
                factors=renamed(state.factors),
            )
            for state in result.states
        )
        dims = {mean_name: (), "sigma2": ()}
        return replace(result, factors=renamed(result.factors), states=states, dims=dims)

    return fit


def _vb_multilevel(data: FlowerData, priors: Priors) -> VBResult:
    return fit_multilevel_normal(_by_plant(data), MultilevelPrior(**priors), plants=data.plants)


def _exact_multilevel_normal(data: FlowerData, priors: Priors) -> Any:
    return exact_multilevel_normal(_by_plant(data), MultilevelPrior(**priors), plants=data.plants)


_VB: dict[str, Callable[[FlowerData, Priors], VBResult]] = {
    "iid_normal": _vb_one_normal("mu"),
    "semiconjugate_normal": _vb_one_normal("theta"),
    "multilevel_normal": _vb_multilevel,
}

_EXACT: dict[str, Callable[[FlowerData, Priors], Any]] = {
    "iid_normal": lambda data, priors: exact_iid_normal(data.y, MultilevelPrior(**priors)),
    "semiconjugate_normal": lambda data, priors: NormalExact(data.y, NormalPrior(*priors.values())),
    "multilevel_normal": _exact_multilevel_normal,
    "multilevel_poisson": lambda data, priors: exact_multilevel_poisson(
        data.y, data.plant, MultilevelPrior(**priors)
    ),
}
