"""The cumulative family of ordered ratings: logit P(y <= j) = threshold[j] - eta.

References
----------
McCullagh (1980), Regression models for ordinal data, JRSS B 42(2), section 2 (proportional odds).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values, average_inv_logit


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    threshold, rating = values["threshold"], y.astype(np.int64)
    edges = np.pad(threshold[..., 0], [(0, 0), (0, 0), (1, 1)], constant_values=(-np.inf, np.inf))
    above, below = edges[..., rating] - eta, edges[..., rating - 1] - eta
    # log(F(above) - F(below)) for the logistic F, without cancellation in either tail.
    log_f = -np.logaddexp(0, -above) - np.logaddexp(0, below)
    return np.asarray(log_f + np.log(-np.expm1(below - above)))


def _draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
    above = eta + rng.logistic(size=eta.shape) > np.moveaxis(values["threshold"], 2, 0)
    return np.asarray(1.0 + above.sum(axis=0))


def _mean(eta: FloatArray, values: Values) -> FloatArray:
    above = average_inv_logit(eta - np.moveaxis(values["threshold"], 2, 0), values["sd_eta"])
    return np.asarray(values["scores"][0] + np.tensordot(np.diff(values["scores"]), above, axes=1))


def _moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
    from scipy.special import expit

    above = expit(eta - np.moveaxis(values["threshold"], 2, 0))
    # A rating is 1 + Σ_j 1[above j], and being above j + 1 implies being above j.
    weights = 2 * np.arange(1, len(above) + 1).reshape(-1, *[1] * (above.ndim - 1)) - 1
    total = above.sum(axis=0)
    return np.asarray(1.0 + total), np.asarray((weights * above).sum(axis=0) - total**2)


FAMILY = Family(
    name="cumulative",
    equation="logit P({y} <= j) = threshold[j] - eta",
    link="logit",
    response="array[N] int<lower=1, upper=J>",
    stan="ordered_logistic({eta}, threshold)",
    rng="rating_rng({eta}, threshold)",
    log_lik=_log_lik,
    draw=_draw,
    mean=_mean,
    moments=_moments,
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
    # Stan has ordered_logistic_rng, but the interpreter does not. The rating is one more than the
    # number of thresholds below the latent value.
    functions="""int rating_rng(real eta, vector threshold) {
  return 1 + rank(append_row(logistic_rng(eta, 1), threshold), 1);
}""",
)
