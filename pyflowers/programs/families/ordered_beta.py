"""The ordered beta family of shares from 0 to 1, including both ends.

With upper = cutzero + exp(cutone),

    P(y = 0) = 1 - inv_logit(eta - cutzero),    P(y = 1) = inv_logit(eta - upper),

and otherwise y ~ beta(m phi, (1 - m) phi), logit m = eta.

References
----------
Kubinec (2023), Ordered beta regression: a parsimonious, well-fitting model for continuous data with
lower and upper bounds, Political Analysis 31(4), section 2.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values, beta
from pyflowers.programs.families import average_inv_logit as average
from pyflowers.programs.families._links import log_inv_logits


def _latent(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    """Return eta minus the lower and minus the upper cutpoint."""
    above_zero = eta - values["cutzero"]
    return above_zero, above_zero - np.exp(values["cutone"])


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    low, high = _latent(eta, values)
    (log_some, none), (every, log_not_every) = log_inv_logits(low), log_inv_logits(high)
    # log(F(low) - F(high)) for the logistic F, without cancellation in either tail.
    between = log_some + log_not_every + np.log(-np.expm1(high - low))
    inside = (y > 0) & (y < 1)
    density = between + beta.log_lik(np.where(inside, y, 0.5), eta, values)
    return np.where(y == 0, none, np.where(y == 1, every, density))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    (low, high), u = _latent(eta, values), rng.random(eta.shape)
    drawn = np.where(u > average(low, 0), 0.0, beta.draw(eta, values, rng))
    return np.where(u < average(high, 0), 1.0, drawn)


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    low, high = _latent(eta, values)
    every = average(high, 0)
    inside = average(low, 0) - every
    mean, variance = beta.moments(eta, values)
    first = every + inside * mean
    none = average(-low, 0)
    around = inside * (variance + np.square(mean - first))
    return first, none * first**2 + around + every * (1 - first) ** 2


FAMILY = Family(
    name="ordered_beta",
    equation="{y} is 0, 1 or ~ beta(m phi, (1 - m) phi), logit m = eta, with logit P({y} > 0) = "
    "eta - cutzero, logit P({y} = 1) = eta - cutzero - exp(cutone)",
    link="logit",
    response="vector<lower=0, upper=1>[N]",
    stan="ordered_beta({eta}, phi, cutzero, cutone)",
    rng="ordered_beta_rng({eta}, phi, cutzero, cutone)",
    log_lik=_log_lik,
    draw=_draw,
    mean=lambda eta, values: _moments(eta, values)[0],
    moments=_moments,
    auxiliary=(
        beta.PHI,
        Auxiliary(
            "cutzero",
            "real",
            "normal({location}, {scale})",
            {"location": -2.0, "scale": 2.0},
            "latent value below which a share is 0",
        ),
        Auxiliary(
            "cutone",
            "real",
            "normal({location}, {scale})",
            {"location": 1.4, "scale": 0.7},
            "log of the distance from cutzero to the latent value above which a share is 1",
        ),
    ),
    shape_of_mean="curved",
    meaning="log odds of {} between 0 and 1",
    functions="""
real ordered_beta_lpdf(real y, real eta, real phi, real cutzero, real cutone) {
  real above_zero = eta - cutzero;
  real above_one = above_zero - exp(cutone);
  if (y == 0) {
    return log1m_inv_logit(above_zero);
  }
  if (y == 1) {
    return log_inv_logit(above_one);
  }
  return log_inv_logit(above_zero) + log1m_inv_logit(above_one)
         + log1m_exp(-exp(cutone))
         + beta_lpdf(y | phi * inv_logit(eta), phi * inv_logit(-eta));
}
real ordered_beta_rng(real eta, real phi, real cutzero, real cutone) {
  real latent = eta + logistic_rng(0, 1);
  if (latent < cutzero) {
    return 0;
  }
  if (latent > cutzero + exp(cutone)) {
    return 1;
  }
  return beta_rng(phi * inv_logit(eta), phi * inv_logit(-eta));
}""",
)
