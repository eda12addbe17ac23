"""The binomial family: y of n trials succeed, each with probability m, logit m = eta."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Tails, Totals, Values, average_inv_logit
from pyflowers.programs.families._links import log_inv_logits


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    from scipy.special import gammaln

    n = values["trials"]
    choices = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    log_success, log_failure = log_inv_logits(eta)
    return np.asarray(choices + y * log_success + (n - y) * log_failure)


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    trials = np.broadcast_to(values["trials"], eta.shape).astype(np.int64)
    return rng.binomial(trials, average_inv_logit(eta, 0)).astype(np.float64)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    mean = average_inv_logit(eta, 0) * values["trials"]
    return mean, mean * average_inv_logit(-eta, 0)


def _tails(y: FloatArray, eta: FloatArray, values: Values) -> Tails:
    from scipy.special import betainc

    n, events = values["trials"], np.floor(y) + 1
    inside = (events > 0) & (events <= n)
    successes = np.where(inside, events, 1.0)
    failures = np.where(inside, n - events + 1, 1.0)
    with np.errstate(divide="ignore"):
        below = np.log(betainc(failures, successes, average_inv_logit(-eta, 0)))
        above = np.log(betainc(successes, failures, average_inv_logit(eta, 0)))
    ends = np.where(events > 0, 0.0, -np.inf)
    return np.where(inside, below, ends), np.where(inside, above, np.where(events > 0, -np.inf, 0))


FAMILY = Family(
    name="binomial",
    equation="{y} ~ binomial(trials, m), logit m = eta",
    link="logit",
    response="array[N] int<lower=0>",
    stan="binomial_logit({trials}, {eta})",
    rng="binomial_rng({trials}, inv_logit({eta}))",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: values["trials"] * average_inv_logit(eta, values["sd_eta"]),
    moments=_moments,
    shape_of_mean="averaged",
    links=("probit", "cloglog"),
    alternatives=("beta_binomial", "zero_inflated_binomial"),
    of_mean="binomial({trials}, {mu})",
    of_mean_rng="binomial_rng({trials}, {mu})",
    has_trials=True,
    totals=Totals(
        """
vector[D] y_num = zeros_vector(D); // trials of each cell
vector[D] y_total = zeros_vector(D); // its successes
for (n in 1 : N) {
  if (held_out[n] == 0) {
    y_num[cell[n]] += trials[n];
    y_total[cell[n]] += y[n];
  }
}""",
        "target += dot_product(y_total, eta) - dot_product(y_num, log1p_exp(eta));",
    ),
    tails=_tails,
)
