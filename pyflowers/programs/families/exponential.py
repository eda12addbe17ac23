"""The exponential family, with mean exp(eta).

References
----------
Stan Functions Reference 2.35, "Exponential distribution", with beta = 1 / mean.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Tails, Values


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    return np.asarray(-eta - y * np.exp(-eta))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return np.asarray(np.exp(eta) * rng.exponential(size=eta.shape))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return the moments of log y; -log y is a Gumbel variable."""
    return eta - np.euler_gamma, np.full(eta.shape, np.pi**2 / 6)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    hazard = np.maximum(y, 0.0) * np.exp(-eta)
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-hazard)), -hazard


FAMILY = Family(
    name="exponential",
    equation="{y} ~ exponential with mean exp(eta)",
    link="log",
    response="vector<lower=0>[N]",
    stan="exponential(exp(-({eta})))",
    rng="exponential_rng(exp(-({eta})))",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: np.exp(eta),
    moments=_moments,
    scale="log",
    alternatives=("gamma", "weibull"),
    excludes={"0": "hurdle_gamma"},
    links=("identity", "inverse", "softplus"),
    of_mean="exponential(inv({mu}))",
    of_mean_rng="exponential_rng(inv({mu}))",
    compares_logs=True,
    tails=_tails,
)
