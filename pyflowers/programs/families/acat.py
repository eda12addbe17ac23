"""The adjacent category family of ratings: log P(y = j + 1) / P(y = j) = eta - threshold[j].

References
----------
Agresti (2010), Analysis of Ordinal Categorical Data, section 4.1. Bürkner and Vuorre (2019),
Ordinal regression models in psychology: a tutorial, Advances in Methods and Practices in
Psychological Science 2(1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyflowers.programs.families import Family, FloatArray, Values, _ordinal


def _logs(eta: FloatArray, values: Values) -> FloatArray:
    steps = -_ordinal.above(eta, values)
    sums = np.cumsum(np.concatenate([np.zeros_like(steps[:1]), steps]), axis=0)
    return np.asarray(sums - np.logaddexp.reduce(sums, axis=0))


FAMILY = Family(
    name="acat",
    equation="log P({y} = j + 1) / P({y} = j) = eta - threshold[j]",
    link="logit",
    response="array[N] int<lower=1, upper=J>",
    stan="acat({eta}, threshold)",
    rng="acat_rng({eta}, threshold)",
    log_lik=_ordinal.log_lik(_logs),
    draw=_ordinal.draw(_logs),
    mean=_ordinal.mean(_logs),
    moments=_ordinal.moments(_logs),
    auxiliary=(
        replace(
            _ordinal.THRESHOLD,
            declared="vector[J - 1]",
            description="latent values at which a rating and the next are equally likely",
        ),
    ),
    is_ordinal=True,
    shape_of_mean="curved",
    functions="""
real acat_lpmf(int y, real eta, vector threshold) {
  vector[num_elements(threshold)] sums = cumulative_sum(eta - threshold);
  return categorical_logit_lpmf(y | append_row(0, sums));
}
int acat_rng(real eta, vector threshold) {
  vector[num_elements(threshold)] sums = cumulative_sum(eta - threshold);
  return categorical_logit_rng(append_row(0, sums));
}""",
)
