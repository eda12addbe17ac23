"""The models: each one's program, priors, labels, checks, likelihood and predictions.

| program | model |
|---|---|
| ``iid_normal`` | y ~ N(mu, sigma2) |
| ``multilevel_normal`` | y ~ N(mu_plant, sigma2_plant), mu_plant ~ N(mu, sigma2) |
| ``multilevel_poisson`` | y ~ Poisson(mu_plant), log mu_plant ~ N(mu, sigma2) |
| ``semiconjugate_normal`` | x ~ N(theta, sigma2), the model of the closed-form variational Bayes |
"""

import difflib

from pyflowers.errors import ConfigError
from pyflowers.models.base import Draws, Model, Parameter, Prior
from pyflowers.models.normal import IidNormal, MultilevelNormal, SemiconjugateNormal
from pyflowers.models.poisson import MultilevelPoisson

__all__ = ["FLOWER_MODELS", "MODELS", "Draws", "Model", "Parameter", "Prior", "get_model"]

FLOWER_MODELS: tuple[Model, ...] = (IidNormal(), MultilevelNormal(), MultilevelPoisson())
"""The lecture's three models of the flowers, from the simplest on."""

MODELS: dict[str, Model] = {model.name: model for model in (*FLOWER_MODELS, SemiconjugateNormal())}
"""Every model that ships with pyflowers, by name."""


def get_model(name: str) -> Model:
    """Return the model called `name`.

    Raises
    ------
    ConfigError
        If there is none.
    """
    try:
        return MODELS[name]
    except KeyError:
        near = difflib.get_close_matches(name, MODELS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(MODELS)}"
        raise ConfigError(f"no model is named {name!r}: {hint}") from None
