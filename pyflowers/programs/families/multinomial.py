"""The multinomial family: a row counts units, each in category j with P(j) ∝ exp(mu[j]).

The categories are the columns of the response. The linear predictor of the first one, the
reference, is 0. The counts of a row are adjacent in arrays of responses.

References
----------
Agresti (2013), Categorical Data Analysis, 3rd ed., sections 1.2.2 and 8.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Values, categorical, find_family


def _of(names: Sequence[str]) -> Family:
    """Return the family with the linear predictors of all categories but the first."""
    of_unit, num = find_family(f"{categorical.FAMILY.name}({', '.join(names)})"), len(names) + 1
    logs = categorical.logs_of(names)

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        from scipy.special import gammaln

        counts = y.reshape(*y.shape[:-1], -1, num)
        orders = gammaln(counts.sum(axis=-1) + 1) - gammaln(counts + 1).sum(axis=-1)
        of_units = sum(counts[..., j] * each for j, each in enumerate(logs(eta, values)))
        return np.asarray(orders + of_units)

    def draw(eta: FloatArray, values: Values, rng: Generator) -> FloatArray:
        shares = np.moveaxis(np.exp(logs(eta, values)), 0, -1)
        trials = np.broadcast_to(values["trials"], shares.shape[:-1]).astype(np.int64)
        drawn = rng.multinomial(trials, shares / shares.sum(axis=-1, keepdims=True))
        return drawn.reshape(*trials.shape[:-1], -1).astype(np.float64)

    def moments(eta: FloatArray, values: Values) -> tuple[FloatArray, FloatArray]:
        mean, variance = of_unit.moments(eta, values)
        return mean, variance / np.maximum(values["trials"], 1)

    linear = f"[{', '.join(['0', *names])}]'"
    return replace(
        FAMILY,
        equation=f"{{y}} ~ multinomial(trials, softmax({', '.join(['0', *names])}))",
        stan=f"multinomial_logit({linear})",
        rng=f"category_counts_rng({linear}, {{trials}})",
        log_lik=log_lik,
        draw=draw,
        mean=of_unit.mean,
        moments=moments,
        auxiliary=of_unit.auxiliary,
        of_unit=of_unit.text,
    )


_RNG = """
array[] int category_counts_rng(vector mu, int trials) {
  int J = size(mu);
  array[J] int found = zeros_int_array(J);
  int rest = trials; // units that are in none of the categories before
  for (j in 1 : (J - 1)) {
    found[j] = binomial_rng(rest, exp(mu[j] - log_sum_exp(mu[j : ])));
    rest -= found[j];
  }
  found[J] = rest;
  return found;
}"""
"""Random counts in Stan, as the interpreter lacks ``multinomial_rng``."""

FAMILY = replace(
    categorical.FAMILY,
    name="multinomial",
    equation="{y} ~ multinomial(trials, softmax(mu))",
    response="array[N, J] int<lower=0>",
    stan="multinomial_logit({eta})",
    rng="category_counts_rng({eta}, {trials})",
    functions=_RNG,
    has_trials=True,
    with_predictors=_of,
    of_unit=categorical.FAMILY.name,
)
