"""The hurdle negative binomial family: 0 with probability hu, otherwise negbinomial above 0.

References
----------
Mullahy (1986), Specification and testing of some modified count data models, Journal of
Econometrics 33(3), section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import HU, SHAPE, Family, FloatArray, Values, _hurdle, negbinomial
from pyflowers.programs.families._counts import rate


def _log_none(eta: FloatArray, values: Values) -> FloatArray:
    """Return the log probability of a count of 0."""
    return np.asarray(-values["shape"] * np.log1p(np.exp(eta) / values["shape"]))


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    log_some = np.log(-np.expm1(_log_none(eta, values)))
    return _hurdle.log_lik(
        y, values["hu"], lambda above: negbinomial.log_lik(above, eta, values) - log_some
    )


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    """Draw the time of the first event, given that it is before 1, then the later events.

    The rate of the events is gamma(shape, shape / mean); given a first event at time t, it is
    gamma(shape + 1, shape / mean + t).
    """
    shape, mean = np.broadcast_to(values["shape"], eta.shape), rate(eta)
    log_none = -shape * np.log1p(mean / shape)
    waited = np.log1p(rng.random(eta.shape) * np.expm1(log_none))
    first = np.minimum(np.expm1(-waited / shape) * shape / mean, 1.0)
    later = (shape + 1) * (1 - first) / (shape / mean + first)
    log_later = np.log(np.maximum(later, np.finfo(float).tiny))
    above = 1.0 + negbinomial.draw(log_later, {"shape": shape + 1}, rng)
    return _hurdle.draw(above, values["hu"], rng)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    above = _hurdle.moments_above_zero(negbinomial.moments(eta, values), _log_none(eta, values))
    return _hurdle.moments(above, values["hu"])


FAMILY = Family(
    name="hurdle_negbinomial",
    equation="{y} is 0 with probability hu, otherwise ~ negative binomial(exp(eta), shape) above 0",
    link="log",
    response="array[N] int<lower=0>",
    stan="hurdle_neg_binomial_log({eta}, shape, hu)",
    rng="hurdle_neg_binomial_log_rng({eta}, shape, hu)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: _moments(eta, values)[0],
    moments=_moments,
    auxiliary=(SHAPE, HU),
    scale="log",
    shape_of_mean="curved",
    meaning="log of the expected {} without the hurdle",
    links=("softplus",),
    functions="""
real hurdle_neg_binomial_log_lpmf(int y, real eta, real shape, real hu) {
  if (y == 0) {
    return log(hu);
  }
  real log_none = -shape * log1p(exp(eta) / shape);
  return log1m(hu) + neg_binomial_2_log_lpmf(y | eta, shape)
         - log1m_exp(log_none);
}
int hurdle_neg_binomial_log_rng(real eta, real shape, real hu) {
  if (bernoulli_rng(hu) == 1) {
    return 0;
  }
  real mu = exp(fmin(eta, 20));
  // the first event, given that there is one; the others follow until time 1
  real log_none = -shape * log1p(mu / shape);
  real waited = log1p(uniform_rng(0, 1) * expm1(log_none));
  real first = fmin(expm1(-waited / shape) * shape / mu, 1);
  real later = (shape + 1) * (1 - first) / (shape / mu + first);
  return 1 + neg_binomial_2_rng(fmin(fmax(later, 1e-300), 4e8), shape + 1);
}""",
)
