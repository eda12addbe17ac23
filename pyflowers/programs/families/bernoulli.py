"""The Bernoulli family: y is 1 with probability m, logit m = eta."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Totals, Values, average_inv_logit
from pyflowers.programs.families._links import log_inv_logit


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    mean = average_inv_logit(eta, 0)
    return mean, mean * average_inv_logit(-eta, 0)


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return (rng.random(eta.shape) < average_inv_logit(eta, 0)).astype(np.float64)


FAMILY = Family(
    name="bernoulli",
    equation="{y} ~ Bernoulli(m), logit m = eta",
    link="logit",
    response="array[N] int<lower=0, upper=1>",
    stan="bernoulli_logit({eta})",
    rng="bernoulli_logit_rng({eta})",
    log_lik=lambda y, eta, values: log_inv_logit((2 * y - 1) * eta),
    draw=_draw,
    mean=lambda eta, values: average_inv_logit(eta, values["sd_eta"]),
    moments=_moments,
    shape_of_mean="averaged",
    links=("probit", "cloglog"),
    of_mean="bernoulli({mu})",
    of_mean_rng="bernoulli_rng({mu})",
    totals=Totals(
        """
vector[D] y_num = zeros_vector(D); // rows of each cell
vector[D] y_total = zeros_vector(D); // how many of them are 1
for (n in 1 : N) {
  if (held_out[n] == 0) {
    y_num[cell[n]] += 1;
    y_total[cell[n]] += y[n];
  }
}""",
        "target += dot_product(y_total, eta) - dot_product(y_num, log1p_exp(eta));",
    ),
)
