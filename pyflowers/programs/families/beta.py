"""The beta family, with mean m: y ~ beta(m phi, (1 - m) phi), logit m = eta."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values, average_inv_logit


def _shapes(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return m phi and (1 - m) phi; the second is computed without cancellation."""
    phi = values["phi"]
    return average_inv_logit(eta, 0) * phi, average_inv_logit(-eta, 0) * phi


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import betaln

    a, b = _shapes(eta, values)
    density = (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)
    return np.asarray(density)


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    a, b = _shapes(eta, values)
    drawn = rng.beta(np.maximum(a, _SMALLEST), np.maximum(b, _SMALLEST))
    return np.asarray(np.clip(drawn, _SMALLEST, 1 - np.finfo(np.float64).epsneg))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
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

FAMILY = Family(
    name="beta",
    equation="{y} ~ beta(m phi, (1 - m) phi), logit m = eta",
    link="logit",
    response="vector<lower=0, upper=1>[N]",
    stan="beta_proportion(inv_logit({eta}), phi)",
    rng="beta_rng(phi * inv_logit({eta}), phi * inv_logit(-({eta})))",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: average_inv_logit(eta, values["sd_eta"]),
    moments=_moments,
    auxiliary=(PHI,),
    is_positive=True,
)
