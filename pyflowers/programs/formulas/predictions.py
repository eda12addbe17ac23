"""Likelihood, replicated data and prior of a formula's program in NumPy.

Stan therefore need not compute the likelihood and replicated data of each draw, nor sample the
prior with a Markov chain.

The program must be unedited, so that its data and draws have the names that
:mod:`pyflowers.programs.formulas.writer` gives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.advice import Advice
from pyflowers.programs.capabilities import (
    Capabilities,
    Draws,
    MissingMoment,
    Pointwise,
    PriorModel,
)
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Declaration, PredictionRule
from pyflowers.programs.families import FloatArray, find_family
from pyflowers.programs.formulas.checks import about_response, check_design
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.formulas.likelihood import likelihood_alone
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.prediction import Predictor, rows_of


def capabilities_of(declaration: Declaration) -> Capabilities:
    """Return the capabilities of a formula's unedited program, written in NumPy."""
    about = declaration.prediction
    about_formula = declaration.formula
    assert about_formula is not None
    assert about is not None
    family, text, priors = about_formula.family, about_formula.text, about_formula.priors
    return Capabilities(
        check=partial(_check, text, family, priors == "brms"),
        prior=None if priors else PriorModel(partial(_draw_prior, family)),
        pointwise=Pointwise(partial(_log_lik, about), partial(_y_rep, about)),
        choices={"N_pointwise": _none},
        missing_moments=partial(_missing_moments, family),
        rescaling=partial(_rescaling, text),
        likelihood_alone=partial(likelihood_alone, family),
    )


def _draw_prior(name: str, data: Data, num: int, rng: Generator) -> dict[str, FloatArray]:
    """Draw every parameter from its prior, shaped (1, num, …), with derived quantities."""
    family, values = find_family(name), data.values
    found: dict[str, FloatArray] = {}
    shift = np.zeros((1, num))
    if "X" in values:
        scale = np.asarray(values["b_scale"])
        found["b"] = rng.normal(size=(1, num, len(scale))) * scale
        if "adjustment" in values:
            found["b"] = found["b"] @ np.asarray(values["adjustment"]).T
        if "X_mean" in values:
            shift = found["b"] @ np.asarray(values["X_mean"])
    if "Intercept_location" in values:
        at_means = rng.standard_t(3, (1, num)) * values["Intercept_scale"]
        found["Intercept"] = at_means + values["Intercept_location"] - shift
    for each in family.auxiliary:
        given = [values[f"{each.name}_{key}"] for key in each.values]
        distribution, _, _ = each.prior.partition("(")
        if family.is_ordinal:
            draws = given[0] * rng.standard_t(3, (1, num, int(values["J"]) - 1))
            found[each.name] = np.sort(draws, axis=-1) + shift[..., None]
        else:
            found[each.name] = _PRIORS[distribution](rng, given, num)[None]
        if each.declared == "real<lower=1>":
            while (low := found[each.name] < 1).any():
                found[each.name][low] = _PRIORS[distribution](rng, given, int(low.sum()))
    for group in (key.removeprefix("centered_") for key in values if key.startswith("centered_")):
        found |= _draw_effects(group, values, num, rng)
    return found


_PRIORS: dict[str, Callable[[Generator, list[float], int], FloatArray]] = {
    "student_t": lambda rng, given, num: np.abs(rng.standard_t(3, num)) * given[0],
    "inv_gamma": lambda rng, given, num: given[1] / rng.gamma(given[0], size=num),
    "gamma": lambda rng, given, num: rng.gamma(given[0], 1 / given[1], num),
    "beta": lambda rng, given, num: rng.beta(given[0], given[1], num),
    "exponential": lambda rng, given, num: rng.exponential(1 / given[0], num),
    "lognormal": lambda rng, given, num: rng.lognormal(given[0], given[1], num),
}
"""The priors of auxiliary parameters, which are positive."""


def _draw_effects(
    group: str, values: Mapping[str, Any], num: int, rng: Generator
) -> dict[str, FloatArray]:
    """Draw the effects of a group, their standard deviations and their correlations.

    The Cholesky factor of an LKJ matrix is built from partial correlations: beta draws on (-1, 1)
    (Lewandowski, Kurowicka and Joe 2009, J. of Multivariate Analysis 100(9), section 2.4).
    """
    size = int(values.get(f"M_{group}", 1))
    sd = np.abs(rng.standard_t(3, (1, num, size))) * values[f"sd_{group}_scale"]
    effects = rng.normal(size=(1, num, int(values[f"N_{group}"]), size))
    found = {f"sd_{group}": sd}
    if f"cor_{group}_eta" in values:
        factor, eta = np.zeros((1, num, size, size)), values[f"cor_{group}_eta"]
        for i in range(size):
            left = np.ones((1, num))
            for j in range(i):
                shape = eta + (size - 2 - j) / 2
                partial_correlation = 2 * rng.beta(shape, shape, (1, num)) - 1
                factor[..., i, j] = partial_correlation * np.sqrt(left)
                left = left - factor[..., i, j] ** 2
            factor[..., i, i] = np.sqrt(left)
        effects = effects @ np.swapaxes(factor, -1, -2)
        correlation = factor @ np.swapaxes(factor, -1, -2)
        found[f"cor_{group}"] = correlation[..., *np.triu_indices(size, 1)]
    effects = effects * sd[..., None, :]
    has_matrix = f"Z_{group}" in values
    return {**found, f"r_{group}": effects if has_matrix else effects[..., 0]}


def _check(text: str, family: str, brms_priors: bool, data: Data) -> list[str]:
    """Return notes on the data; refuse models that the data do not identify."""
    if data.table is None:
        return []
    # A column with a different name in the declaration is available under both names.
    columns = {name: data.table.columns[theirs] for name, theirs in data.columns.items()}
    table = replace(data.table, columns={**columns, **data.table.columns})
    model = Model(parse(text), find_family(family), table, {}, brms_priors)
    is_prior = bool(data.values["prior_only"])  # the response is not in the likelihood
    return [*check_design(model), *([] if is_prior else about_response(model))]


def _missing_moments(name: str, data: Data) -> list[MissingMoment]:
    """Return the moments that the posterior of a negative binomial's shape lacks.

    For large shapes the likelihood tends to that of Poisson counts, which is above 0, so the
    posterior falls like the prior, shape^(-alpha - 1).
    """
    family = find_family(name)
    if not family.is_discrete or all(each.name != "shape" for each in family.auxiliary):
        return []
    alpha = float(data.values["shape_alpha"])
    what = "mean does not exist" if alpha <= 1 else "variance is infinite"
    reason = f"its posterior {what}, as under its prior inv_gamma({alpha:g}, …)"
    return [MissingMoment("shape", alpha <= 1, reason)] if alpha <= 2 else []


def _rescaling(formula: str, data: Data, limit: float) -> Advice:
    """Return the advice to centre a covariate whose slopes vary by group; empty if none is far.

    Intercepts at a distant 0 are nearly a multiple of the slopes, so chains move slowly.
    """
    values = data.values
    for name in (key.removeprefix("Z_") for key in values if key.startswith("Z_")):
        effects = data.coords[f"effects_{name}"]
        for effect, column in zip(effects, np.asarray(values[f"Z_{name}"]).T, strict=True):
            far = abs(float(column.mean())) > limit * float(column.std()) > 0
            if far and "Intercept" in effects:
                group = getattr(data.declaration.data[name], "column", name)
                text = (
                    f"center {effect} first, as its values are far from 0 (mean "
                    f"{column.mean():.4g}, sd {column.std():.3g}): write (center({effect}) | "
                    f"{group}), and center({effect}) for {effect} elsewhere in the formula"
                )
                alone = re.compile(rf"(?<![\w.]){re.escape(effect)}(?![\w.(])")
                made = alone.sub(f"center({effect})", formula)
                twice = f"center(center({effect}))"
                return Advice(text, program=made.replace(twice, f"center({effect})"))
    return Advice("")


def _none(data: Data) -> int:
    return 0


def _log_lik(about: PredictionRule, draws: Draws, data: Data) -> FloatArray:
    return Predictor(about, draws, data.values, rows_of(data)).log_lik(data.y)


def _y_rep(about: PredictionRule, draws: Draws, data: Data, rng: Generator) -> FloatArray:
    predictor = Predictor(about, draws, data.values, rows_of(data))
    return predictor.family.draw(predictor.linear(), predictor.parameters, rng)
