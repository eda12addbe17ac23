"""The zero-inflated negative binomial family: 0 with probability zi, otherwise negbinomial."""

from __future__ import annotations

import numpy as np

from pyflowers.programs.families import SHAPE, ZI, Family, negbinomial
from pyflowers.programs.families.zero_inflated_poisson import draw, functions, log_lik, moments

FAMILY = Family(
    name="zero_inflated_negbinomial",
    equation="{y} is 0 with probability zi, otherwise ~ negative binomial(exp(eta), shape)",
    link="log",
    response="array[N] int<lower=0>",
    stan="zero_inflated_neg_binomial_log({eta}, shape, zi)",
    rng="bernoulli_rng(zi) ? 0 : neg_binomial_2_log_rng(fmin({eta}, 20), shape)",
    log_lik=lambda y, eta, values: log_lik(negbinomial.log_lik(y, eta, values), y, values["zi"]),
    draw=lambda eta, values, rng: draw(negbinomial.draw(eta, values, rng), values, rng),
    mean=lambda eta, values: (1 - values["zi"]) * np.exp(eta),
    moments=lambda eta, values: moments(negbinomial.moments(eta, values), values),
    auxiliary=(SHAPE, ZI),
    scale="log",
    meaning="log of the expected {} without excess zeros",
    links=("softplus",),
    functions=functions(
        "zero_inflated_neg_binomial_log", "neg_binomial_2_log", ", real shape", ", shape"
    ),
)
