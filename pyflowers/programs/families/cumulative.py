"""The cumulative family of ordered ratings: logit P(y <= j) = threshold[j] - eta, or another link.

References
----------
McCullagh (1980), Regression models for ordinal data, JRSS B 42(2), section 2 (proportional odds)
and section 3 (other links).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from pyflowers.programs.families import Family, FloatArray, Values, _ordinal, average_inv_logit
from pyflowers.programs.families._links import ResponseLink, log_inv_logit, log_inv_logits


def _log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
    threshold, rating = values["threshold"], y.astype(np.int64)
    edges = np.pad(threshold[..., 0], [(0, 0), (0, 0), (1, 1)], constant_values=(-np.inf, np.inf))
    above, below = edges[..., rating] - eta, edges[..., rating - 1] - eta
    # log(F(above) - F(below)) for the logistic F, without cancellation in either tail.
    log_f = log_inv_logit(above) + log_inv_logit(-below)
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


def _with_link(link: ResponseLink) -> Family:
    """Return the family with a link other than logit."""

    def logs(eta: FloatArray, values: Values) -> FloatArray:
        odds = _ordinal.log_odds(_ordinal.above(eta, values), link)
        below, above = log_inv_logits(odds)
        between = below[1:] + above[:-1] + np.log(-np.expm1(odds[:-1] - odds[1:]))
        return np.concatenate([below[:1], between, above[-1:]])

    density, functions = "ordered_probit", FAMILY.functions
    latent = "normal_rng(eta, 1)"
    if link.name != "probit":
        density, latent = f"cumulative_{link.name}", "eta + log(exponential_rng(1))"
        functions = _DENSITY.format(
            name=density,
            first=link.stan.format(eta="threshold[1] - eta"),
            low=link.log_rest.format(eta="threshold[y - 1] - eta"),
            high=link.log_rest.format(eta="threshold[y] - eta"),
        )
        functions += FAMILY.functions
    return replace(
        FAMILY,
        equation=FAMILY.equation.replace("logit", link.name),
        link=link.name,
        stan=f"{density}({{eta}}, threshold)",
        functions=functions.replace("logistic_rng(eta, 1)", latent),
        log_lik=_ordinal.log_lik(logs),
        draw=_ordinal.draw(logs),
        mean=_ordinal.mean(logs),
        moments=_ordinal.moments(logs),
        shape_of_mean="curved",
    )


_DENSITY = """real {name}_lpmf(int y, real eta, vector threshold) {{
  if (y == 1) {{
    return log({first});
  }}
  if (y > num_elements(threshold)) {{
    return {low};
  }}
  return log_diff_exp({low}, {high});
}}
"""

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
    auxiliary=(_ordinal.THRESHOLD,),
    is_ordinal=True,
    shape_of_mean="averaged",
    links=("probit", "cloglog"),
    with_link=lambda link: _with_link(link),
    # Stan has ordered_logistic_rng, but the interpreter does not. The rating is one more than the
    # number of thresholds below the latent value.
    functions="""int rating_rng(real eta, vector threshold) {
  return 1 + rank(append_row(logistic_rng(eta, 1), threshold), 1);
}""",
)
