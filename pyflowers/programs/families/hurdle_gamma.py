"""The hurdle gamma family: 0 with probability hu, otherwise gamma with mean exp(eta).

References
----------
Stan Functions Reference 2.35, "Gamma distribution", with beta = shape / exp(eta).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import HU, SHAPE, Family, FloatArray, Values, _hurdle, gamma


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    return _hurdle.log_lik(y, values["hu"], lambda above: gamma.log_lik(above, eta, values))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return _hurdle.draw(gamma.draw(eta, values, rng), values["hu"], rng)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    mean = np.exp(eta)
    return _hurdle.moments((mean, mean**2 / values["shape"]), values["hu"])


FAMILY = Family(
    name="hurdle_gamma",
    equation="{y} is 0 with probability hu, otherwise ~ gamma(shape, shape / exp(eta))",
    link="log",
    response="vector<lower=0>[N]",
    stan="hurdle_gamma({mu}, shape, hu)",
    rng="bernoulli_rng(hu) ? 0 : gamma_rng(shape, shape / {mu})",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: (1 - values["hu"]) * np.exp(eta),
    moments=_moments,
    auxiliary=(SHAPE, HU),
    scale="log",
    alternatives=("hurdle_lognormal",),
    meaning="log of the expected {} above 0",
    links=("softplus",),
    functions="""
real hurdle_gamma_lpdf(real y, real mu, real shape, real hu) {
  if (y == 0) {
    return log(hu);
  }
  return log1m(hu) + gamma_lpdf(y | shape, shape / mu);
}""",
)
