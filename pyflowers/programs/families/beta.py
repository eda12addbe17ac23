"""The beta family, with mean m: y ~ beta(m phi, (1 - m) phi), logit m = eta."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import (
    Auxiliary,
    Family,
    FloatArray,
    Tails,
    Values,
    average_inv_logit,
)


def shapes(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return m phi and (1 - m) phi; the second is computed without cancellation."""
    phi = values["phi"]
    return average_inv_logit(eta, 0) * phi, average_inv_logit(-eta, 0) * phi


def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    """Return log p(y | eta)."""
    from scipy.special import betaln

    a, b = shapes(eta, values)
    density = (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)
    return np.asarray(density)


def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw responses, which are above 0 and below 1."""
    a, b = shapes(eta, values)
    drawn = rng.beta(np.maximum(a, _SMALLEST), np.maximum(b, _SMALLEST))
    return np.asarray(np.clip(drawn, _SMALLEST, 1 - np.finfo(np.float64).epsneg))


def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return m and m (1 - m) / (1 + phi)."""
    mean = average_inv_logit(eta, 0)
    return mean, mean * average_inv_logit(-eta, 0) / (1 + values["phi"])


_SMALLEST = np.finfo(np.float64).tiny
"""The smallest draw; smaller values are raised to it, and 1 becomes the next smaller number."""

PHI = Auxiliary(
    "phi",
    "real<lower=0>",
    "gamma({alpha}, {beta})",
    {"alpha": 2.0, "beta": 0.1},
    "precision: the larger, the closer the values are to the mean",
)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    from scipy.special import betainc, betaincc

    a, b = shapes(eta, values)
    within = np.clip(y, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(betainc(a, b, within)), np.log(betaincc(a, b, within))


FAMILY = Family(
    name="beta",
    equation="{y} ~ beta(m phi, (1 - m) phi), logit m = eta",
    link="logit",
    response="vector<lower=0, upper=1>[N]",
    stan="beta_proportion(inv_logit({eta}), phi)",
    rng="beta_rng(phi * inv_logit({eta}), phi * inv_logit(-({eta})))",
    log_lik=log_lik,
    draw=draw,
    mean=lambda eta, values: average_inv_logit(eta, values["sd_eta"]),
    moments=moments,
    auxiliary=(PHI,),
    excludes={"0": "zero_inflated_beta or ordered_beta", "1": "ordered_beta"},
    shape_of_mean="averaged",
    links=("probit", "cloglog"),
    of_mean="beta(phi * {mu}, phi * {rest})",
    of_mean_rng="beta_rng(phi * {mu}, phi * {rest})",
    tails=_tails,
)
