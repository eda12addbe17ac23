"""The categorical family: labels without an order, P(y = j) proportional to exp(mu[j]).

The linear predictor of the first category, the reference, is 0, so that exp(mu[j]) are the odds of
category j against it.

References
----------
Agresti (2013), Categorical Data Analysis, 3rd ed., section 8.1 (baseline-category logit models).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyflowers.programs.families import Auxiliary, Family, FloatArray, Values, _ordinal


def logs_of(names: Sequence[str]) -> _ordinal.Probabilities:
    """Return the function of (eta, values) that returns the log probability of each category."""

    def logs(eta: FloatArray, values: Values) -> FloatArray:
        every = np.stack(np.broadcast_arrays(eta, *(values[name] for name in names)))
        return np.asarray(every - np.logaddexp.reduce(every, axis=0))

    return logs


def _of(names: Sequence[str]) -> Family:
    """Return the family with the linear predictors of all categories but the first."""
    logs = logs_of(names)

    def codes(eta: FloatArray, values: Values) -> FloatArray:
        shape = np.broadcast_shapes(np.shape(eta), *(np.shape(values[name]) for name in names))
        return np.broadcast_to(eta, shape)

    draw, moments = _ordinal.draw(logs), _ordinal.moments(logs)
    linear = f"[{', '.join(['0', *names])}]'"
    return replace(
        FAMILY,
        equation=f"{{y}} ~ categorical(softmax({', '.join(['0', *names])}))",
        stan=f"categorical_logit({linear})",
        rng=f"categorical_logit_rng({linear})",
        log_lik=_ordinal.log_lik(logs),
        draw=lambda eta, values, rng: draw(codes(eta, values), values, rng),
        mean=lambda eta, values: moments(eta, values)[0],
        moments=moments,
        auxiliary=tuple(
            Auxiliary(name, "real", "", {}, "log odds of a category", is_predictor=True)
            for name in names
        ),
    )


def _without_categories(*_: object) -> FloatArray:
    raise AssertionError("the family has no categories yet; call with_predictors first")


FAMILY = Family(
    name="categorical",
    equation="{y} ~ categorical(softmax(mu))",
    link="logit",
    response="array[N] int<lower=1, upper=J>",
    stan="categorical_logit({eta})",
    rng="categorical_logit_rng({eta})",
    log_lik=_without_categories,
    draw=_without_categories,
    mean=_without_categories,
    moments=_without_categories,  # type: ignore[arg-type]
    with_predictors=_of,
    shape_of_mean="curved",
)
