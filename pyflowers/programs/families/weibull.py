"""The Weibull family, with mean exp(eta).

References
----------
Stan Functions Reference 2.35, "Weibull distribution", with sigma = mean / gamma(1 + 1 / shape).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Tails, Values


def _log_scale(eta: FloatArray, shape: FloatArray) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(eta - gammaln(1 + 1 / shape))


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    shape = values["shape"]
    z = shape * (np.log(y) - _log_scale(eta, shape))
    return np.asarray(np.log(shape) - np.log(y) + z - np.exp(z))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    shape = np.broadcast_to(values["shape"], eta.shape)
    drawn = np.exp(_log_scale(eta, shape) + np.log(rng.exponential(size=eta.shape)) / shape)
    return np.asarray(np.maximum(drawn, np.finfo(np.float64).tiny))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return the moments of log y: minus the log of an exponential variable is Gumbel."""
    shape = np.broadcast_to(values["shape"], eta.shape)
    return _log_scale(eta, shape) - np.euler_gamma / shape, np.pi**2 / 6 / shape**2


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    with np.errstate(divide="ignore"):
        log_y = np.log(np.maximum(y, 0.0))
        hazard = np.exp(values["shape"] * (log_y - _log_scale(eta, values["shape"])))
        return np.log(-np.expm1(-hazard)), -hazard


FAMILY = Family(
    name="weibull",
    equation="{y} ~ Weibull(shape, exp(eta) / Γ(1 + 1 / shape)), whose mean is exp(eta)",
    link="log",
    response="vector<lower=0>[N]",
    stan="weibull(shape, {mu} / tgamma(1 + 1 / shape))",
    rng="weibull_rng(shape, {mu} / tgamma(1 + 1 / shape))",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: np.exp(eta),
    moments=_moments,
    auxiliary=(
        Auxiliary(
            "shape",
            "real<lower=0>",
            "lognormal({location}, {scale})",
            {"location": 0.0, "scale": 1.0},
            "shape: above 1, the hazard rises; below 1, it falls",
        ),
    ),
    scale="log",
    alternatives=("gamma", "lognormal"),
    excludes={"0": "hurdle_gamma"},
    links=("identity", "inverse", "softplus"),
    compares_logs=True,
    tails=_tails,
)
