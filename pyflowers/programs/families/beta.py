"""The beta family, with its mean: y ~ beta(m phi, (1 - m) phi), logit m = eta."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values


def _mean(eta: FloatArray, values: Values) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-eta)))


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import betaln

    a = _mean(eta, values) * values["phi"]
    b = values["phi"] - a
    density = (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)
    return np.asarray(density)


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    mean = _mean(eta, values)
    return np.asarray(rng.beta(mean * values["phi"], (1 - mean) * values["phi"]))


PHI = Auxiliary(
    "phi",
    "real<lower=0>",
    "gamma({alpha}, {beta})",
    {"alpha": 2.0, "beta": 0.1},
    "precision: the larger, the closer to the mean",
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
    mean=_mean,
    auxiliary=(PHI,),
    is_positive=True,
)
