"""The cumulative family of ordered ratings: logit P(y <= j) = threshold[j] - eta.

References
----------
McCullagh (1980), Regression models for ordinal data, JRSS B 42(2), section 2 (proportional odds).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    threshold, rating = values["threshold"], y.astype(np.int64)
    ends = np.full_like(threshold[:, :, :1], np.inf)
    edges = np.concatenate([-ends, threshold, ends], axis=2)[..., 0]
    above, below = edges[..., rating] - eta, edges[..., rating - 1] - eta
    # log(F(above) - F(below)) for the logistic F, without cancellation in either tail.
    log_f = -np.logaddexp(0, -above) - np.logaddexp(0, below)
    return np.asarray(log_f + np.log(-np.expm1(below - above)))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    latent = eta + rng.logistic(size=eta.shape)
    above = latent > np.moveaxis(values["threshold"], 2, 0)
    return np.asarray(1.0 + above.sum(axis=0))


def _mean(eta: FloatArray, values: Values) -> FloatArray:
    above = 1 / (1 + np.exp(np.moveaxis(values["threshold"], 2, 0) - eta))
    return np.asarray(1.0 + above.sum(axis=0))


FAMILY = Family(
    name="cumulative",
    equation="logit P({y} <= j) = threshold[j] - eta",
    link="logit",
    response="array[N] int<lower=1, upper=J>",
    stan="ordered_logistic({eta}, threshold)",
    # Stan has ordered_logistic_rng, but the interpreter does not. The rating is one more than the
    # number of thresholds below the latent value.
    rng="1 + rank(append_row(logistic_rng({eta}, 1), threshold), 1)",
    log_lik=_log_lik,
    draw=_draw,
    mean=_mean,
    auxiliary=(
        Auxiliary(
            "threshold",
            "ordered[J - 1]",
            "student_t(3, 0, {scale})",
            {"scale": 2.5},
            "latent values that separate each rating from the next",
        ),
    ),
    is_ordinal=True,
)
