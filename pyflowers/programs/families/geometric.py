"""The geometric family: a negative binomial with shape 1, mean exp(eta).

References
----------
Stan Functions Reference 2.35, "Negative binomial distribution (log alternative
parameterization)", with phi = 1.
"""

from __future__ import annotations

import numpy as np

from pyflowers.programs.families import Family, FloatArray, Values, negbinomial
from pyflowers.programs.families._links import log_inv_logits

_SHAPE: Values = {"shape": np.ones((1, 1, 1))}


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    log_more, log_last = log_inv_logits(eta)
    return np.asarray(y * log_more + log_last)


FAMILY = Family(
    name="geometric",
    equation="{y} ~ geometric with mean exp(eta) and variance exp(eta) + exp(eta)²",
    link="log",
    response="array[N] int<lower=0>",
    stan="neg_binomial_2_log({eta}, 1)",
    rng="neg_binomial_2_log_rng(fmin({eta}, 20), 1)",
    log_lik=_log_lik,
    draw=lambda eta, values, rng: negbinomial.draw(eta, _SHAPE, rng),
    mean=lambda eta, values: np.exp(eta),
    moments=lambda eta, values: negbinomial.moments(eta, _SHAPE),
    scale="log",
    alternatives=("negbinomial", "zero_inflated_negbinomial"),
    links=("identity", "softplus"),
    of_mean="neg_binomial_2({mu}, 1)",
    of_mean_rng="neg_binomial_2_rng(fmin({mu}, 4e8), 1)",
    tails=lambda y, eta, values: negbinomial.tails(y, eta, _SHAPE),
)
