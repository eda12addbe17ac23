"""The beta-binomial family: y of n trials succeed, with probabilities ~ beta(m phi, (1 - m) phi).

References
----------
Stan Functions Reference 2.35, "Beta-binomial distribution", with alpha = m phi and
beta = (1 - m) phi.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Values, average_inv_logit, beta


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import betaln

    n, (a, b) = values["trials"], beta.shapes(eta, values)
    choices = -np.log1p(n) - betaln(y + 1, n - y + 1)
    return np.asarray(choices + betaln(y + a, n - y + b) - betaln(a, b))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    trials = np.broadcast_to(values["trials"], eta.shape).astype(np.int64)
    return rng.binomial(trials, beta.draw(eta, values, rng)).astype(np.float64)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    n, phi, share = values["trials"], values["phi"], average_inv_logit(eta, 0)
    return n * share, n * share * average_inv_logit(-eta, 0) * (phi + n) / (phi + 1)


FAMILY = Family(
    name="beta_binomial",
    equation="{y} ~ beta-binomial(trials, m phi, (1 - m) phi), logit m = eta",
    link="logit",
    response="array[N] int<lower=0>",
    stan="beta_binomial({trials}, phi * {mu}, phi * {rest})",
    rng="beta_binomial_rng({trials}, phi * {mu}, phi * {rest})",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: values["trials"] * average_inv_logit(eta, values["sd_eta"]),
    moments=_moments,
    auxiliary=(beta.PHI,),
    has_trials=True,
    shape_of_mean="averaged",
    links=("probit", "cloglog"),
)
