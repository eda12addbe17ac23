"""The hurdle lognormal family: 0 with probability hu, otherwise log y ~ N(eta, sigma²).

References
----------
Stan Functions Reference 2.35, "Lognormal distribution".
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import HU, SIGMA, Family, FloatArray, Values, _hurdle
from pyflowers.programs.families.lognormal import FAMILY as LOGNORMAL


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    return _hurdle.log_lik(y, values["hu"], lambda above: LOGNORMAL.log_lik(above, eta, values))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return _hurdle.draw(LOGNORMAL.draw(eta, values, rng), values["hu"], rng)


def _mean(eta: FloatArray, values: Values) -> FloatArray:
    return np.asarray((1 - values["hu"]) * LOGNORMAL.mean(eta, values))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    mean = LOGNORMAL.mean(eta, values)
    return _hurdle.moments((mean, mean**2 * np.expm1(np.square(values["sigma"]))), values["hu"])


FAMILY = Family(
    name="hurdle_lognormal",
    equation="{y} is 0 with probability hu, otherwise log {y} ~ N(eta, sigma²)",
    link="identity",
    response="vector<lower=0>[N]",
    stan="hurdle_lognormal({eta}, sigma, hu)",
    rng="bernoulli_rng(hu) ? 0 : lognormal_rng({eta}, sigma)",
    log_lik=_log_lik,
    draw=_draw,
    mean=_mean,
    moments=_moments,
    auxiliary=(SIGMA, HU),
    scale="log",
    alternatives=("hurdle_gamma",),
    shape_of_mean="exp",
    meaning="expected log of {} above 0",
    functions="""
real hurdle_lognormal_lpdf(real y, real eta, real sigma, real hu) {
  if (y == 0) {
    return log(hu);
  }
  return log1m(hu) + lognormal_lpdf(y | eta, sigma);
}""",
)
