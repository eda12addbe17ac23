"""The gamma family, with mean exp(eta): y ~ gamma(shape, shape / exp(eta))."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SHAPE, Family, FloatArray, Tails, Values


def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    """Return log p(y | eta)."""
    from scipy.special import gammaln

    shape = values["shape"]
    log_rate = np.log(shape) - eta
    kernel = shape * log_rate + (shape - 1) * np.log(y) - np.exp(log_rate) * y
    return np.asarray(kernel - gammaln(shape))


def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw responses."""
    shape = np.broadcast_to(values["shape"], eta.shape)
    return rng.gamma(shape, np.exp(eta) / shape)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    from scipy.special import digamma, polygamma

    shape = np.broadcast_to(values["shape"], eta.shape)
    return eta + digamma(shape) - np.log(shape), polygamma(1, shape)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    from scipy.special import gammainc, gammaincc

    scaled = values["shape"] * np.exp(-eta) * np.maximum(y, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(gammainc(values["shape"], scaled)), np.log(gammaincc(values["shape"], scaled))


FAMILY = Family(
    name="gamma",
    equation="{y} ~ gamma(shape, shape / exp(eta)), whose mean is exp(eta)",
    link="log",
    response="vector<lower=0>[N]",
    stan="gamma(shape, shape * exp(-({eta})))",
    rng="gamma_rng(shape, shape * exp(-({eta})))",
    log_lik=log_lik,
    draw=draw,
    mean=lambda eta, values: np.exp(eta),
    moments=_moments,
    auxiliary=(SHAPE,),
    scale="log",
    alternatives=("weibull", "lognormal", "inverse_gaussian"),
    excludes={"0": "hurdle_gamma"},
    links=("identity", "inverse", "softplus"),
    of_mean="gamma(shape, shape * inv({mu}))",
    of_mean_rng="gamma_rng(shape, shape * inv({mu}))",
    compares_logs=True,
    tails=_tails,
)
