"""The zero-inflated binomial family: 0 with probability zi, otherwise binomial, logit m = eta.

References
----------
Hall (2000), Zero-inflated Poisson and binomial regression with random effects: a case study,
Biometrics 56(4), section 2.
"""

from __future__ import annotations

import numpy as np

from pyflowers.programs.families import ZI, Family, average_inv_logit
from pyflowers.programs.families.binomial import FAMILY as BINOMIAL
from pyflowers.programs.families.zero_inflated_poisson import draw, log_lik, moments

FAMILY = Family(
    name="zero_inflated_binomial",
    equation="{y} is 0 with probability zi, otherwise ~ binomial(trials, m), logit m = eta",
    link="logit",
    response="array[N] int<lower=0>",
    stan="zero_inflated_binomial({trials}, {mu}, zi)",
    rng="bernoulli_rng(zi) ? 0 : binomial_rng({trials}, {mu})",
    log_lik=lambda y, eta, values: log_lik(BINOMIAL.log_lik(y, eta, values), y, values["zi"]),
    draw=lambda eta, values, rng: draw(BINOMIAL.draw(eta, values, rng), values, rng),
    mean=lambda eta, values: np.asarray(
        (1 - values["zi"]) * values["trials"] * average_inv_logit(eta, values["sd_eta"])
    ),
    moments=lambda eta, values: moments(BINOMIAL.moments(eta, values), values),
    auxiliary=(ZI,),
    has_trials=True,
    alternatives=("beta_binomial",),
    shape_of_mean="averaged",
    meaning="log odds of {} without excess zeros",
    links=("probit", "cloglog"),
    functions="""
real zero_inflated_binomial_lpmf(int y, int trials, real m, real zi) {
  real mixed = log1m(zi) + binomial_lpmf(y | trials, m);
  return y == 0 ? log_sum_exp(log(zi), mixed) : mixed;
}""",
)
