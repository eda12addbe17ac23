"""The stopping ratio family of ratings that are reached one after the other.

With the distribution function F of the link, a rating that has been reached is the final one with
probability

    P(y = j | y >= j) = F(threshold[j] - eta).

References
----------
Tutz (1991), Sequential models in categorical regression, Computational Statistics & Data Analysis
11(3), section 2. Bürkner and Vuorre (2019), Ordinal regression models in psychology: a tutorial,
Advances in Methods and Practices in Psychological Science 2(1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyflowers.programs.families import Family, FloatArray, Values, _ordinal
from pyflowers.programs.families._links import LINKS, ResponseLink, log_inv_logit, log_inv_logits


def _family(link: ResponseLink) -> Family:
    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        # Without the probabilities of all ratings, which `logs` computes, this takes half the time.
        total = np.zeros(np.broadcast_shapes(y.shape, eta.shape))
        for j, threshold in enumerate(np.moveaxis(values["threshold"], 2, 0), start=1):
            odds = _ordinal.log_odds(threshold - eta, link)
            total += np.where(j <= y, log_inv_logit(np.where(j == y, odds, -odds)), 0.0)
        return total

    def logs(eta: FloatArray, values: Values) -> FloatArray:
        odds = _ordinal.log_odds(_ordinal.above(eta, values), link)
        stops, goes_on = log_inv_logits(odds)
        passed = np.cumsum(np.concatenate([np.zeros_like(stops[:1]), goes_on]), axis=0)
        return np.asarray(passed + np.concatenate([stops, np.zeros_like(stops[:1])]))

    above = "threshold[j] - eta"
    if link.name == "logit":
        step = f"bernoulli_logit_lpmf(j == y | {above})"
    else:
        stops = f"log({link.stan.format(eta=above)})"
        step = f"j == y ? {stops} : {link.log_rest.format(eta=above)}"
    return Family(
        name="sratio",
        equation=f"{link.name} P({{y}} = j | {{y}} >= j) = threshold[j] - eta",
        link=link.name,
        response="array[N] int<lower=1, upper=J>",
        stan="sratio({eta}, threshold)",
        rng="sratio_rng({eta}, threshold)",
        log_lik=log_lik,
        draw=_ordinal.draw(logs),
        mean=_ordinal.mean(logs),
        moments=_ordinal.moments(logs),
        auxiliary=(
            replace(
                _ordinal.THRESHOLD,
                declared="vector[J - 1]",
                description="latent values above which the next rating is reached",
            ),
        ),
        is_ordinal=True,
        shape_of_mean="curved",
        links=("probit", "cloglog"),
        with_link=_family,
        functions=f"""
real sratio_lpmf(int y, real eta, vector threshold) {{
  real total = 0;
  for (j in 1 : num_elements(threshold)) {{
    if (j <= y) {{
      total += {step};
    }}
  }}
  return total;
}}
int sratio_rng(real eta, vector threshold) {{
  for (j in 1 : num_elements(threshold)) {{
    if (bernoulli_rng({link.stan.format(eta=above)}) == 1) {{
      return j;
    }}
  }}
  return num_elements(threshold) + 1;
}}""",
    )


FAMILY = _family(LINKS["logit"])
