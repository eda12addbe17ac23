"""The shifted lognormal family: log(y - ndt) ~ N(eta, sigma²).

References
----------
Stan Functions Reference 2.35, "Lognormal distribution". Heathcote, Brown and Mewhort (2002),
Quantile maximum likelihood estimation of response time distributions, Psychonomic Bulletin &
Review 9(2) (the shift is the time that a response takes apart from the decision).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import SIGMA, Auxiliary, Family, FloatArray, Values
from pyflowers.programs.families.lognormal import FAMILY as LOGNORMAL


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    after = y - values["ndt"]
    density = LOGNORMAL.log_lik(np.where(after > 0, after, 1.0), eta, values)
    return np.where(after > 0, density, -np.inf)


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    return np.asarray(values["ndt"] + LOGNORMAL.draw(eta, values, rng))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    mean = LOGNORMAL.mean(eta, values)
    return values["ndt"] + mean, mean**2 * np.expm1(np.square(values["sigma"]))


def _mean(eta: FloatArray, values: Values) -> FloatArray:
    # The average over groups is that of the part that is proportional to exp(eta).
    return np.asarray(
        values["ndt"] + LOGNORMAL.mean(eta + 0.5 * np.square(values["sd_eta"]), values)
    )


FAMILY = Family(
    name="shifted_lognormal",
    equation="log({y} - ndt) ~ N(eta, sigma²)",
    link="identity",
    response="vector<lower=0>[N]",
    stan="shifted_lognormal({eta}, sigma, ndt)",
    rng="ndt + lognormal_rng({eta}, sigma)",
    log_lik=_log_lik,
    draw=_draw,
    mean=_mean,
    moments=_moments,
    auxiliary=(
        SIGMA,
        Auxiliary(
            "ndt",
            "real<lower=0, upper=y_min>",
            "student_t(3, 0, {scale})",
            {"scale": 1.0},
            "shift: the time before which no response comes",
            times_y="scale",
        ),
    ),
    scale="log",
    excludes={"0": "hurdle_lognormal"},
    shape_of_mean="averaged",
    meaning="expected log of {} after the shift",
    transformed_data="""
// the largest shift that the observations allow
real y_min = prior_only == 1 ? positive_infinity() : min(y[kept]);""",
    functions="""
real shifted_lognormal_lpdf(real y, real eta, real sigma, real ndt) {
  if (y <= ndt) {
    return negative_infinity();
  }
  return lognormal_lpdf(y - ndt | eta, sigma);
}""",
)
