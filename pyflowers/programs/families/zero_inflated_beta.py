"""The zero-inflated beta family: 0 with probability zi, otherwise beta with mean m, logit m = eta.

References
----------
Ospina and Ferrari (2012), A general class of zero-or-one inflated beta regression models,
Computational Statistics & Data Analysis 56(6), equation 1.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from pyflowers.programs.families import (
    ZI,
    Family,
    FloatArray,
    Values,
    _hurdle,
    average_inv_logit,
    beta,
)


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    return _hurdle.log_lik(y, values["zi"], lambda above: beta.log_lik(above, eta, values))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return _hurdle.draw(beta.draw(eta, values, rng), values["zi"], rng)


FAMILY = Family(
    name="zero_inflated_beta",
    equation="{y} is 0 with probability zi, otherwise ~ beta(m phi, (1 - m) phi), logit m = eta",
    link="logit",
    response="vector<lower=0, upper=1>[N]",
    stan="zero_inflated_beta({mu}, phi, zi)",
    rng="zero_inflated_beta_rng({mu}, phi, zi)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: (1 - values["zi"]) * average_inv_logit(eta, values["sd_eta"]),
    moments=lambda eta, values: _hurdle.moments(beta.moments(eta, values), values["zi"]),
    auxiliary=(beta.PHI, replace(ZI, description="probability of a 0")),
    excludes={"1": "ordered_beta"},
    shape_of_mean="averaged",
    meaning="log odds of {} above 0",
    links=("probit", "cloglog"),
    functions="""
real zero_inflated_beta_lpdf(real y, real mu, real phi, real zi) {
  if (y == 0) {
    return log(zi);
  }
  return log1m(zi) + beta_lpdf(y | phi * mu, phi * (1 - mu));
}
real zero_inflated_beta_rng(real mu, real phi, real zi) {
  return bernoulli_rng(zi) == 1 ? 0 : beta_rng(phi * mu, phi * (1 - mu));
}""",
)
