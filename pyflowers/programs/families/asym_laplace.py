"""The asymmetric Laplace family: eta is the quantile of y below which a share `quantile` lies.

The log density is log(quantile (1 - quantile) / sigma) - u (quantile - 1[u < 0]), u = (y - eta) /
sigma.

References
----------
Yu and Moyeed (2001), Bayesian quantile regression, Statistics & Probability Letters 54(4),
equation 3. Stan Functions Reference 2.35, "Skew double exponential distribution", whose sigma is
twice this one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Auxiliary, Family, FloatArray, Tails, Values


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    quantile, sigma = values["quantile"], values["sigma"]
    u = (y - eta) / sigma
    return np.asarray(np.log(quantile * (1 - quantile) / sigma) - u * (quantile - (u < 0)))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    above = rng.exponential(size=eta.shape) / values["quantile"]
    below = rng.exponential(size=eta.shape) / (1 - values["quantile"])
    return np.asarray(eta + values["sigma"] * (above - below))


def _mean(eta: FloatArray, values: Values) -> FloatArray:
    quantile = values["quantile"]
    return np.asarray(eta + values["sigma"] * (1 - 2 * quantile) / (quantile * (1 - quantile)))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    quantile = values["quantile"]
    above, below = values["sigma"] / quantile, values["sigma"] / (1 - quantile)
    return _mean(eta, values), np.broadcast_to(above**2 + below**2, eta.shape)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    quantile = values["quantile"]
    u = (y - eta) / values["sigma"]
    lower = np.log(quantile) + (1 - quantile) * np.minimum(u, 0.0)
    upper = np.log1p(-quantile) - quantile * np.maximum(u, 0.0)
    return (
        np.where(u < 0, lower, np.log1p(-np.exp(upper))),
        np.where(u < 0, np.log1p(-np.exp(lower)), upper),
    )


FAMILY = Family(
    name="asym_laplace",
    equation="{y} ~ asymmetric Laplace(eta, sigma, quantile), with P({y} < eta) = quantile",
    link="identity",
    response="vector[N]",
    stan="skew_double_exponential({mu}, 2 * sigma, quantile)",
    rng="{mu} + exponential_rng(quantile / sigma) - exponential_rng((1 - quantile) / sigma)",
    log_lik=_log_lik,
    draw=_draw,
    mean=_mean,
    moments=_moments,
    auxiliary=(
        replace(SIGMA, description="scale"),
        Auxiliary(
            "quantile",
            "real<lower=0, upper=1>",
            "",
            {},
            "share of responses below eta: 0.5 for the median",
            given=0.5,
        ),
    ),
    scale="y",
    instead_of_mean="quantile of {}",
    links=("log", "inverse", "softplus"),
    tails=_tails,
    quantile="quantile",
)
