"""The hurdle Poisson family: 0 with probability hu, otherwise Poisson(exp(eta)) above 0.

References
----------
Mullahy (1986), Specification and testing of some modified count data models, Journal of
Econometrics 33(3), section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import HU, Family, FloatArray, Values, _hurdle, poisson
from pyflowers.programs.families._counts import draw_counts, rate


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    log_some = np.log(-np.expm1(-np.exp(eta)))
    return _hurdle.log_lik(
        y, values["hu"], lambda above: poisson.log_lik(above, eta, values) - log_some
    )


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw the time of the first event, given that it is before 1, then the later events."""
    rates = rate(eta)
    first = -np.log1p(rng.random(eta.shape) * np.expm1(-rates))
    above = 1.0 + draw_counts(np.maximum(rates - first, 0.0), rng)
    return _hurdle.draw(above, values["hu"], rng)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    above = _hurdle.moments_above_zero(poisson.moments(eta, values), -np.exp(eta))
    return _hurdle.moments(above, values["hu"])


FAMILY = Family(
    name="hurdle_poisson",
    equation="{y} is 0 with probability hu, otherwise ~ Poisson(exp(eta)) above 0",
    link="log",
    response="array[N] int<lower=0>",
    stan="hurdle_poisson_log({eta}, hu)",
    rng="hurdle_poisson_log_rng({eta}, hu)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: _moments(eta, values)[0],
    moments=_moments,
    auxiliary=(HU,),
    scale="log",
    alternatives=("hurdle_negbinomial",),
    shape_of_mean="curved",
    meaning="log of the expected {} without the hurdle",
    links=("softplus",),
    functions="""
real hurdle_poisson_log_lpmf(int y, real eta, real hu) {
  if (y == 0) {
    return log(hu);
  }
  return log1m(hu) + poisson_log_lpmf(y | eta) - log1m_exp(-exp(eta));
}
int hurdle_poisson_log_rng(real eta, real hu) {
  if (bernoulli_rng(hu) == 1) {
    return 0;
  }
  real rate = exp(fmin(eta, 20));
  // the first event, given that there is one; the others follow until time 1
  real first = -log1p(uniform_rng(0, 1) * expm1(-rate)) / rate;
  return 1 + poisson_rng(rate * (1 - fmin(first, 1)));
}""",
)
