"""Which family describes the data of a fit best, given the linear predictors of the fit.

The alternatives to the fit's own family have the same linear predictor as that family. The values
η[n] of the linear predictor are held at their posterior means, up to a common shift. The other
parameters θ of each family maximise

    log p(y | η + shift, θ) = Σ log p(y[n] | η[n] + shift, θ).

The shift is needed because the linear predictor of a zero-inflated count, for example, describes
the counts without excess zeros. Maxima are compared by Schwarz' criterion [1]_: each parameter
costs ½ log N. This decides between two explanations of one finding: for example, an
excess of zeros and overdispersion both increase the variance and the share of zeros.

References
----------
.. [1] Schwarz (1978), Estimating the dimension of a model, The Annals of Statistics 6(2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.fits.fit import Fit
from pyflowers.programs.families import TRIALS, Family
from pyflowers.programs.families._response import names_of_terms
from pyflowers.programs.prediction import Predictor

FloatArray = NDArray[np.float64]

LEAST_GAIN = 2.0
"""The smallest gain in log likelihood for which another family is recommended."""

MOST_ROWS = 20_000
"""The largest number of rows from which likelihoods are computed; if there are more rows, evenly
spaced ones are used."""


@dataclass(frozen=True, eq=False)
class Likely:
    """A family with the parameters that maximise the likelihood.

    Attributes
    ----------
    family : Family
        The family.
    values : dict of str to float or array, shape (N,)
        Its parameters other than the linear predictor, and the trials.
    shift : float
        The number that is added to the linear predictor.
    log_lik : float
        The log likelihood, less the cost of the parameters.
    """

    family: Family
    values: dict[str, Any]
    shift: float
    log_lik: float


def few_draws(fit: Fit, num: int) -> Predictor:
    """Return the predictor of a fit's rows, with at most `num` of its draws, as one chain."""
    total = fit.num_chains * fit.num_draws
    few = np.unique(np.linspace(0, total - 1, min(total, num)).astype(int))
    draws = {
        name: values.reshape(-1, *values.shape[2:])[few][None] for name, values in fit.draws.items()
    }
    return fit.model.predictor(draws)


def likely_alternatives(
    fit: Fit, predictor: Predictor, more: FloatArray | None = None
) -> list[Likely]:
    """Return the alternatives that are more likely than the family of a fit, the best first.

    Parameters
    ----------
    fit : Fit
        A fit of a program that declares its predictions.
    predictor : Predictor
        The predictions of its rows; see :func:`few_draws`.
    more : array, shape (N,), optional
        The part of the linear predictor from terms that the formula lacks.
    """
    alternatives = fit.model.alternatives
    if not alternatives:
        return []
    num = fit.data.num_obs
    eta = np.broadcast_to(predictor.linear(), (1, *predictor.lead[1:], num))[0].mean(axis=0)
    if more is not None:
        eta = eta + more
    known = _known(fit, predictor)
    own, *others = (
        _most_likely(each, fit.data.y, eta, known) for each in (fit.model.family, *alternatives)
    )
    found = [each for each in others if each.log_lik - own.log_lik >= LEAST_GAIN]
    return sorted(found, key=lambda each: -each.log_lik)


def _known(fit: Fit, predictor: Predictor) -> dict[str, Any]:
    """Return the posterior means of the family's parameters, and other known values, by name.

    The other values are the trials and the terms of the response, such as weights.
    """
    names = [each.name for each in fit.model.family.auxiliary]
    found = {name: np.asarray(predictor.parameters[name])[0].mean(axis=0) for name in names}
    found |= fit.model.values_of_terms
    if fit.model.has_trials:
        found[TRIALS] = np.asarray(predictor.parameters[TRIALS])
    return found


def _most_likely(family: Family, y: FloatArray, eta: FloatArray, known: dict[str, Any]) -> Likely:
    """Return the most likely parameters of a family, given linear predictors.

    Parameters with linear predictors of their own are held at their posterior means, and parameters
    that the user fixes are held at the fixed values.
    """
    from scipy.optimize import minimize

    places = np.unique(np.linspace(0, y.size - 1, min(y.size, MOST_ROWS)).astype(int))
    held, free, start = dict[str, Any](), [], [0.0]
    if TRIALS in known:
        held[TRIALS] = np.broadcast_to(known[TRIALS], y.shape)
    held |= {name: known[name] for name in names_of_terms() if name in known and name != "sigma"}
    if family.known:
        held[family.known] = known[family.known]
    for each in family.auxiliary:
        value = known.get(each.name)
        if value is not None and (np.size(value) > 1 or each.link is None):
            held[each.name] = value
        elif each.link is not None:
            free.append(each)
            start.append(0.0 if value is None else each.link.to_linear(float(value.item())))
    some = {n: v[places] if np.shape(v) == y.shape else v for n, v in held.items()}
    num = y.size

    def values_at(linear: FloatArray) -> dict[str, float]:
        pairs = zip(free, linear[1:], strict=True)
        return {its.name: float(its.link.from_linear(at, 0.0)) for its, at in pairs if its.link}

    def loss(linear: FloatArray) -> float:
        with np.errstate(all="ignore"):
            found = family.log_lik(y[places], eta[places] + linear[0], some | values_at(linear))
        total = float(np.sum(found)) * num / places.size
        if not np.isfinite(total):
            return np.inf
        return -total

    corners = np.vstack([start, start + 0.5 * np.eye(len(start))])
    options = {"initial_simplex": corners, "xatol": 1e-3, "fatol": 1e-3}
    best = minimize(loss, start, method="Nelder-Mead", options=options)
    cost = 0.5 * len(free) * np.log(num)
    return Likely(family, held | values_at(best.x), float(best.x[0]), -float(best.fun) - cost)
