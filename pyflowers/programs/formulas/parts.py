"""The parts of a formula's model, each written by one function; `parts_of` lists them.

The parts of a linear predictor are written from a
:class:`~pyflowers.programs.formulas.predictor.LinearPredictor`. The names of their variables end
with its tag: the coefficients are ``b`` for the response and ``b_sigma`` for the parameter sigma.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.programs.declaration import PredictionRule, free_name
from pyflowers.programs.densities import (
    StatedPrior,
    prior_densities,
    prior_density,
    priors_of_elements,
)
from pyflowers.programs.families import Auxiliary
from pyflowers.programs.formulas.given import bounded
from pyflowers.programs.formulas.groups import effects_in_words, group
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.part import (
    ETA,
    Draws,
    FloatArray,
    Number,
    Part,
    Sum,
    Values,
    declared,
    is_constant,
    merged,
    summands,
    vector_priors,
    with_given_draws,
)
from pyflowers.programs.formulas.predictor import Imputed, LinearPredictor, Population
from pyflowers.programs.formulas.response import (
    AFTER_PREVIOUS,
    IN_TIME,
    about_terms,
    data_lines,
    parameters_in_stan,
    row_likelihood,
    row_replicate,
    rows_in_series,
    rows_in_units,
    sources_of,
)
from pyflowers.programs.linear import Coefficients, Given, Offset, Parameter
from pyflowers.programs.prediction import NewRows, Predictor
from pyflowers.text import shortened


def parts_of(
    model: Model, linear: Sequence[LinearPredictor], auxiliary: Sequence[Auxiliary]
) -> list[Part]:
    """Return the parts of a formula's model.

    Parameters
    ----------
    model : Model
        The model.
    linear, auxiliary
        See :func:`parameters_of`.
    """
    parameters = parameters_of(linear, auxiliary)
    found = [observations(model)]
    if model.cell:
        found.append(cells(model))
    return [*found, *parameters, likelihood(model, merged(parameters, "stands_for"))]


def parameters_of(linear: Sequence[LinearPredictor], auxiliary: Sequence[Auxiliary]) -> list[Part]:
    """Return the parts that have parameters, in the order in which these are sampled.

    Parameters
    ----------
    linear : sequence of LinearPredictor
        The linear predictors of the response and of other parameters, in this order.
    auxiliary : sequence of Auxiliary
        The family's other parameters, with their priors. Those with a linear predictor are left
        out.
    """
    own = [each for each in linear if each.imputed is None]
    predicted = {each.target.name for each in own}
    found = [part for each in own for part in _population_parts(each)]
    for each in auxiliary:
        if each.name == "threshold":
            found.append(thresholds(linear[0], each))
        elif each.given is not None:
            found.append(given_parameter(each, each.given))
        elif each.name not in predicted:
            found.append(another_parameter(each))
    found += [group(each, its) for each in own for its in each.groups]
    for other in linear:
        if other.imputed is not None:
            found += imputation(other, other.imputed)
    return found


def _population_parts(linear: LinearPredictor) -> list[Part]:
    """Return the parts of a linear predictor that are the same for all groups."""
    found = []
    if linear.intercept is not None:
        found.append(intercept(linear, *linear.intercept))
    if linear.population is not None:
        found.append(population(linear, linear.population))
    found += [offset(linear, i, its) for i, its in enumerate(linear.offsets, 1)]
    found += [its.part(linear) for its in linear.curves]
    if linear.target != ETA:
        found.append(predicted_parameter(linear))
    return found


def observations(model: Model) -> Part:
    """Return the part for the response and its terms."""
    formula, family = model.formula, model.family
    kind, _, size = family.response.partition("[N]")
    response = f"{kind}[N] y"
    if family.is_discrete:
        response = f"array[N]{size} y"
    data = ["int<lower=1> N; // observations"]
    source: dict[str, Any] = {"column": formula.response}
    of_columns: dict[str, dict[str, Any]] = {}
    if family.is_of_labels or family.has_columns:
        what = "ratings" if family.is_ordinal else "categories, of which the first is the reference"
        data.append(f"int<lower=2> J; // {what}")
    if family.has_columns:
        response, source = f"{family.response} y", {"counts": list(formula.counted)}
        of_columns["J"] = {"value": len(formula.counted)}
    elif family.is_of_labels:
        source |= {"index": True, "order": model.order_of_ratings}
    elif model.outcomes:
        source["outcomes"] = list(model.outcomes)
    about = formula.response
    if model.categories:
        about += f": {shortened([f'{i}: {each}' for i, each in enumerate(model.categories, 1)], 6)}"
    data.append(f"{response}; // {about}")
    of_terms = sources_of(formula.terms, model.response_values, model.table)
    sources = {"y": source, **of_columns, **of_terms}
    data += data_lines(formula.terms, family)
    if family.has_columns and not formula.trials:
        data.append("array[N] int<lower=0> trials; // the total of each row")
        sources["trials"] = {"total": list(formula.counted)}
    about = (
        f"{formula.response} is modelled by the {family.name} family with the {family.link} link."
    )
    story = " ".join([about, *about_terms(formula.terms, formula.response)])
    dims, coords = dict[str, list[str]](), dict[str, list[str]]()
    if family.has_columns:
        dim = free_name("category", model.all_columns)
        dims = {"y": ["obs", dim], "y_rep": ["obs", dim]}
        coords = {dim: list(formula.counted)}
    return Part(data=data, sources=sources, story=story, dims=dims, coords=coords)


def cells(model: Model) -> Part:
    """Return the part for the cells, in each of which all rows share one linear predictor."""
    return Part(
        data=[
            "int<lower=1> D; // cells: rows with the same covariates and groups",
            "array[N] int<lower=1, upper=D> cell; // cell of each observation",
        ],
        sources={"cell": {"column": model.cell, "index": True}},
    )


def intercept(linear: LinearPredictor, location: float, scale: float) -> Part:
    """Return the part for the intercept, which is sampled where the columns have their means."""
    name = f"Intercept{linear.tag}"
    sampled, comment = name, ""
    if linear.is_shifted:
        sampled, comment = f"{name}_at_means", " // at the covariates' means"
    about = f"the t prior on {sampled}"
    given = linear.given_intercept
    numbers = {
        f"{name}_location": Number(location, f"location of {about}", is_positive=False),
        f"{name}_scale": Number(scale, f"scale of {about}"),
    }
    prior = stan = f"student_t(3, {name}_location, {name}_scale)"
    declared_as = f"real<offset={name}_location>"
    if given is not None:
        numbers, prior, stan = {}, str(given), given.stan
        declared_as = _type_of_intercept(given)
    parameters, fixed, priors = [f"{declared_as} {sampled};{comment}"], list[str](), {sampled: stan}
    if given is not None and is_constant(given):
        about = comment.replace(" // ", " ")
        fixed, parameters, priors = [f"real {sampled} = {given.value}; // fixed{about}"], [], {}
    where = " in a typical group" if linear.groups else ""
    part = Part(
        target=linear.target,
        settings=declared(numbers),
        parameters=parameters,
        transformed_parameters=fixed,
        priors=priors,
        eta=sampled,
        is_constant=True,
        numbers=numbers,
        meanings={name: {"description": f"{linear.meaning}{where}", "prior": prior}},
        predicted=name,
        shown=name,
        draw=partial(_draw_intercept, name, sampled, given),
        stated=_stated_if_unbounded([given], partial(_intercept_stated, linear, sampled, prior)),
    )
    if not linear.is_shifted:
        return part
    tag, meaning = linear.tag, linear.meaning
    back = f"real {name} = {sampled} - dot_product(X{tag}_mean, b{tag});"
    at_means = {"description": f"{meaning} where the terms have their means", "prior": prior}
    return replace(
        part,
        generated_quantities=[back],
        meanings={name: {"description": f"{meaning} where every term is 0"}, sampled: at_means},
        omit=[sampled],
        derive=partial(_shift_back, name, sampled, tag, -1.0),
    )


def _type_of_intercept(given: StatedPrior) -> str:
    """Return the type of an intercept with a given prior: its bounds or, without any, an offset."""
    declared_as = bounded("real", "real", None, given)
    if declared_as == "real" and not is_constant(given):
        middle = given.density().quantile
        assert middle is not None  # the density is proper
        declared_as = f"real<offset={middle(0.5):.6g}>"
    return declared_as


def population(linear: LinearPredictor, its: Population) -> Part:
    """Return the part for the coefficients of the columns of X.

    The columns in the linear predictor are X minus its means or, if some of them are linked, the
    adjusted columns.
    """
    tag, rows = linear.tag, linear.rows
    x, b, k = f"X{tag}", f"b{tag}", f"K{tag}"
    columns, design, sampled = x, x, b
    if linear.is_shifted:
        design = f"{x}_centered"
    if its.adjustment is not None:
        columns, design, sampled = f"{x}_adjusted", f"{x}_adjusted", f"b_adjusted{tag}"
    changed = "eta" if linear.target == ETA else linear.meaning
    names, subject = effects_in_words(its.columns), "Its linear predictor"
    if linear.target != ETA:
        subject = f"The linear predictor of {linear.target.name}"
    part = Part(
        target=linear.target,
        data=[
            f"int<lower=1> {k}; // columns of {x}",
            f"matrix[{rows}, {k}] {x}; // {its.terms.text.removeprefix('0 + ')}",
        ],
        transformed_data=[
            f"// The sampler moves each {sampled} in units that change {changed} by about 1.",
            f"vector[{k}] {b}_unit = sqrt({rows} ./ columns_dot_self({design})');",
        ],
        parameters=[
            f"vector<multiplier={b}_unit>[{k}] {sampled}; // effects of the columns of {columns}"
        ],
        eta=f"{design} * {sampled}",
        sources={x: its.terms.source},
        dims={b: [x]},
        meanings={b: {"description": f"effects on {linear.meaning}", "log_axis": False}},
        predicted=f"{x} * {b}",
        shown=f"{x} {b}",
        story=f"{subject} includes {names} for the whole population.",
        draw=partial(_draw_coefficients, tag, its.given),
        stated=_stated_if_unbounded(its.given, partial(_population_stated, linear, its.given)),
    )
    if its.adjustment is not None:
        part = _with_adjustment(part, linear, its.adjustment)
    if linear.is_shifted:
        part = _with_means(part, linear, its.means)
    if its.scales or its.given:
        part = _with_priors(part, linear, sampled, its)
    if any(map(is_constant, its.given)):
        part = _with_constants(part, linear, sampled, its)
    return part


def _with_adjustment(part: Part, linear: LinearPredictor, adjustment: FloatArray) -> Part:
    """Add the adjusted columns, whose coefficients are sampled instead of b."""
    tag, rows = linear.tag, linear.rows
    x, b, k, sampled = f"X{tag}", f"b{tag}", f"K{tag}", f"b_adjusted{tag}"
    columns = f"{x}_centered" if linear.is_shifted else x
    about = f"{x}_adjusted: each column less its fit by earlier ones"
    adjusted = f"matrix[{rows}, {k}] {x}_adjusted = {columns} * adjustment{tag};"
    b_again = f"vector[{k}] {b} = adjustment{tag} * {sampled}; // effects of the columns of {x}"
    meaning = {"description": f"effects on {linear.meaning} of the adjusted columns"}
    return replace(
        part,
        data=[*part.data, f"matrix[{k}, {k}] adjustment{tag}; // {about}"],
        transformed_data=[adjusted, *part.transformed_data],
        transformed_parameters=[b_again],
        sources={**part.sources, f"adjustment{tag}": {"value": adjustment.tolist()}},
        dims={**part.dims, sampled: [x]},
        meanings={**part.meanings, sampled: meaning},
        omit=[sampled],
    )


def _with_means(part: Part, linear: LinearPredictor, means: tuple[float, ...]) -> Part:
    """Add the columns minus their means."""
    x, k, rows = f"X{linear.tag}", f"K{linear.tag}", linear.rows
    about = "the columns' means, where the intercept has its prior"
    centred = f"matrix[{rows}, {k}] {x}_centered = {x} - rep_matrix({x}_mean', {rows});"
    return replace(
        part,
        data=[*part.data, f"vector[{k}] {x}_mean; // {about}"],
        transformed_data=[centred, *part.transformed_data],
        sources={**part.sources, f"{x}_mean": {"value": list(means)}},
    )


def _with_priors(part: Part, linear: LinearPredictor, sampled: str, its: Population) -> Part:
    """Add the priors of the sampled coefficients: normal priors, and those that the user gives."""
    x, b, k = f"X{linear.tag}", f"b{linear.tag}", f"K{linear.tag}"
    scale, size, dim = f"{b}_scale", k, x
    prior = f"normal(0, {scale})" if its.scales else ""
    given = its.given or (None,) * len(its.columns)
    meaning = str(part.meanings[b]["description"])
    own = vector_priors(sampled, its.columns, given, prior, meaning, shown=b)
    names = [its.columns[i] for i in own.others]
    numbers, settings, dims, coords = {}, list[str](), dict(part.dims), dict(part.coords)
    meanings = {**part.meanings, **own.meanings}
    if its.scales:
        if its.given:
            size, dim = str(len(names)), f"others{linear.tag}"
            coords[dim] = names
        for name, value in zip(names, its.scales, strict=True):
            about = f"sd of the normal prior on {sampled}[{name}]"
            numbers[f"{scale}[{name}]"] = Number(value, about)
        about = f"sds of the normal priors on {sampled}"
        settings = [f"vector<lower=0>[{size}] {scale}; // {about}"]
        dims[scale] = [dim]
        meanings[sampled] = {**meanings[sampled], "prior": prior}
    part = replace(
        part,
        transformed_data=[*part.transformed_data, *own.bounds_data],
        settings=settings,
        priors=own.priors,
        numbers=numbers,
        dims=dims,
        coords=coords,
        meanings=meanings,
    )
    if not own.bounds:
        return part
    # In Stan, a bounded vector cannot have a multiplier.
    unit = f"vector<multiplier={b}_unit>"
    *kept, _, _ = part.transformed_data[: len(part.transformed_data) - len(own.bounds_data)]
    return replace(
        part,
        transformed_data=[*kept, *own.bounds_data],
        parameters=[line.replace(unit, f"vector<{own.bounds}>") for line in part.parameters],
    )


def _with_constants(part: Part, linear: LinearPredictor, sampled: str, its: Population) -> Part:
    """Combine the coefficients that the user fixes with those that are sampled."""
    tag, (declared_as,) = linear.tag, part.parameters
    unit, k, free = f"b{tag}_unit", f"K{tag}", f"b_free{tag}"
    places = [i for i, prior in enumerate(its.given, 1) if not is_constant(prior)]
    kind, _, about = declared_as.partition(f"[{k}] {sampled}; // ")
    lines, parameters = [f"vector[{k}] {sampled}; // {about}"], list[str]()
    computed = list(part.transformed_data)
    if places:
        num, listed = len(places), f"{{{', '.join(map(str, places))}}}"
        parameters = [f"{kind}[{num}] {free}; // elements of {sampled} that are not fixed"]
        lines.append(f"{sampled}[{listed}] = {free};")
        # The unit is a variable, and not an expression, for the reason in `groups._one_effect`.
        computed = [
            re.sub(r"_self\((\w+)\)", rf"_self(\1[ : , {listed}])", line).replace(
                f"[{k}] {unit}", f"[{num}] {unit}"
            )
            for line in computed
        ]
    else:  # no coefficient has a unit
        computed = [line for line in computed if unit not in line and "The sampler" not in line]
    for i, prior in enumerate(its.given, 1):
        if prior is not None and is_constant(prior):
            lines.append(f"{sampled}[{i}] = {prior.value}; // {its.columns[i - 1]}, fixed")
    return replace(
        part,
        transformed_data=computed,
        parameters=parameters,
        transformed_parameters=[*lines, *part.transformed_parameters],
        omit=[*part.omit, *[free] * len(parameters)],
    )


def offset(linear: LinearPredictor, number: int, its: Sum) -> Part:
    """Return the part for an offset, a known addition to the linear predictor."""
    name = f"offset{linear.tag}_{number}"
    return Part(
        target=linear.target,
        data=[f"vector[{linear.rows}] {name}; // offset({its.text})"],
        eta=name,
        sources={name: its.source},
        predicted=name,
        shown=f"offset({its.text})",
        stated=lambda values: Offset(np.asarray(values[name], dtype=np.float64), linear.parameter),
    )


def predicted_parameter(linear: LinearPredictor) -> Part:
    """Return the part for a parameter of the family that has a linear predictor."""
    name = linear.target.name
    return Part(target=linear.target, stands_for={name: f"{name}[{{row}}]"})


def imputation(linear: LinearPredictor, its: Imputed) -> list[Part]:
    """Return the parts for a predictor that is imputed where it is missing.

    The observed values of the predictor enter the likelihood, but by themselves they contain no
    information about the response.
    """
    x, target = linear.target.name, linear.target
    own = [*_population_parts(linear), *(group(linear, each) for each in linear.groups)]
    total = " + ".join(summands(own, target, "eta")) or "0"
    if all(part.is_constant for part in own if part.eta):
        total = f"rep_vector({total}, N)"
    column, sigma, shown = f"X[ : , {its.position}]", its.sigma.name, its.column
    rule = PredictionRule(
        family="gaussian",
        linear_predictor=" + ".join(summands(own, target, "predicted")) or "0",
        effects=merged(own, "effects"),
    )
    indices = [index for each in linear.groups for index in each.indices]
    mean = " + ".join(summands(own, target, "shown")) or "0"
    added = Part(target=ETA, eta=f"b[{its.position}] * (filled_{x} - {column})")
    missing = Part(
        data=[
            f"int<lower=0> N_missing_{x}; // rows in which {shown} is missing",
            f"array[N_missing_{x}] int<lower=1, upper=N> missing_{x}; // these; X has others there",
        ],
        transformed_data=[
            f"real middle_{x} = mean({column}); // where the sampler starts",
            f"real unit_{x} = sd({column});",
        ],
        parameters=[
            f"vector<offset=middle_{x}, multiplier=unit_{x}>[N_missing_{x}] imputed_{x}; // {shown}"
        ],
        transformed_parameters=[
            f"vector[N] filled_{x} = {column}; // {shown}, imputed where it is missing",
            f"filled_{x}[missing_{x}] = imputed_{x};",
        ],
        model=[
            "{",
            f"  vector[N] mu_{x} = {total};",
            "  if (prior_only == 0) {",
            f"    filled_{x} ~ normal(mu_{x}, {sigma});",
            "  } else {",
            f"    imputed_{x} ~ normal(mu_{x}[missing_{x}], {sigma});",
            "  }",
            "}",
        ],
        sources={
            f"missing_{x}": {"missing": shown},
            f"N_missing_{x}": {"size": f"missing_{x}"},
        },
        dims={f"imputed_{x}": [f"missing_{x}"]},
        meanings={f"imputed_{x}": {"description": f"{shown} in rows in which it is missing"}},
        omit=[f"filled_{x}"],
        shown=f"{shown} ~ N({mean}, {sigma}²)",
        story=f"{shown} is imputed where it is missing, assuming that it is missing at random.",
        draw=partial(_draw_standard, f"imputed_{x}", f"N_missing_{x}"),
        derive=partial(_impute, x, sigma, rule, indices),
    )
    own += [another_parameter(its.sigma), missing, added]
    # Predictions of the response need none of these parts, and the engine exact supports none.
    return [_without_predictions(part) for part in own]


def _without_predictions(part: Part) -> Part:
    """Return a part of a linear predictor that is not used to predict the response."""
    if part.target == ETA:
        return part
    shown = "" if part.target is not None else part.shown
    return replace(part, target=None, predicted="", effects={}, stated=None, shown=shown)


def _draw_standard(name: str, size: str, values: Values, num: int, rng: Generator) -> Draws:
    """Draw standard normal values."""
    return {name: rng.normal(size=(1, num, int(values[size])))}


def _impute(
    x: str,
    sigma: str,
    rule: PredictionRule,
    indices: Sequence[str],
    values: Values,
    draws: Draws,
) -> Draws:
    """Return the imputed values of a predictor, computed from standard normal draws."""
    codes = {index: np.asarray(values[index]) - 1 for index in indices}
    rows = NewRows(None, values, codes, {}, {}, int(values["N"]))
    mu = Predictor(rule, draws, values, rows).linear()[..., np.asarray(values[f"missing_{x}"]) - 1]
    standard = draws[f"imputed_{x}"]
    return {f"imputed_{x}": mu + draws[sigma][..., None] * standard}


def another_parameter(each: Auxiliary) -> Part:
    """Return the part for a family's parameter that has one value for all rows."""
    numbers, prior = _prior_of(each)
    return Part(
        settings=declared(numbers),
        parameters=[f"{each.declared} {each.name}; // {each.description}"],
        priors={each.name: prior.partition(" T[")[0]},
        numbers=numbers,
        meanings={each.name: {"description": each.description, "prior": prior}},
        draw=partial(_draw_parameter, each),
        stated=partial(_parameter_stated, each, each.name, prior),
    )


def given_parameter(each: Auxiliary, value: float) -> Part:
    """Return the part for a parameter of the family whose value the user gives."""
    return Part(
        settings=[f"{each.declared} {each.name}; // {each.description}"],
        numbers={each.name: Number(value, each.description)},
        stated=lambda values: Given(each.name, float(values[each.name])),
    )


def thresholds(linear: LinearPredictor, each: Auxiliary) -> Part:
    """Return the part for the thresholds of ratings, which replace the intercept."""
    name, sampled = each.name, each.name
    if linear.is_shifted:
        sampled = f"{name}_at_means"
    numbers, prior = _prior_of(each)
    part = Part(
        settings=declared(numbers),
        parameters=[f"{each.declared} {sampled}; // {each.description}"],
        priors={sampled: prior.partition(" T[")[0]},
        numbers=numbers,
        meanings={name: {"description": each.description}},
        draw=partial(_draw_thresholds, each, sampled),
        stated=partial(_parameter_stated, each, sampled, prior),
    )
    if not linear.is_shifted:
        return part
    tag, at_means = linear.tag, f"{each.description}, where the terms have their means"
    back = f"vector[J - 1] {name} = {sampled} + dot_product(X{tag}_mean, b{tag});"
    return replace(
        part,
        generated_quantities=[back],
        stands_for={name: sampled},
        meanings={**part.meanings, sampled: {"description": at_means}},
        omit=[sampled],
        derive=partial(_shift_back, name, sampled, tag, 1.0),
    )


def _prior_of(each: Auxiliary) -> tuple[dict[str, Number], str]:
    """Return the hyperparameters of a parameter of the family, and its prior."""
    names = {key: f"{each.name}_{key}" for key in each.values}
    numbers = {}
    for key, value in each.values.items():
        if value is not None:
            about = f"{key} of the prior on {each.name}"
            numbers[names[key]] = Number(value, about, is_positive=key != "location")
    return numbers, each.prior.format(**names)


KEPT = """
array[N - sum(held_out)] int kept; // the observations in the likelihood
{
  int count = 0;
  for (n in 1 : N) {
    if (held_out[n] == 0) {
      count += 1;
      kept[count] = n;
    }
  }
}"""
"""Statements of the transformed data for a likelihood that is not computed from totals."""


def likelihood(model: Model, stands_for: Mapping[str, str]) -> Part:
    """Return the part for the likelihood, the replicated data and the switches.

    Parameters
    ----------
    model : Model
        The model.
    stands_for : mapping of str to str
        The expressions that replace parameters of the family; see :class:`Part`.
    """
    family, terms = model.family, model.formula.terms
    stands_for = parameters_in_stan(terms, stands_for)

    def distribution(template: str, eta: str, row: str) -> str:
        """Return a distribution for one row, or for several."""
        text = template.format(eta=eta, trials=f"trials[{row}]")
        for name, its in stands_for.items():
            text = re.sub(rf"\b{name}\b", its.format(row=row), text)
        return text

    rows, eta = KEPT, "eta[n]"
    statements = [f"y[kept] ~ {distribution(family.stan, 'eta[kept]', 'kept')};"]
    if family.is_looped or not _is_vectorised(family.stan, stands_for):
        each = f"y[n] ~ {distribution(family.stan, 'eta[n]', 'n')};"
        statements = ["for (n in kept) {", f"  {each}", "}"]
    if model.cell and family.totals is not None:
        rows, eta = family.totals.stan, "eta[cell[n]]"
        statements = family.totals.statement.strip("\n").splitlines()
    y_rep = "vector[N_pointwise] y_rep;"
    if family.has_columns:
        y_rep = "array[N_pointwise, J] int y_rep;"
    elif family.is_discrete:
        y_rep = "array[N_pointwise] int y_rep;"
    before = list[str]()
    if terms.residuals == "ar":
        rows, before = f"{KEPT}{IN_TIME}", AFTER_PREVIOUS
    own = distribution(family.stan, eta, "n"), distribution(family.cumulative, eta, "n")
    if terms.is_likelihood:
        of_row = row_likelihood(terms, family, *own, "lp")
        statements = ["real lp; // log likelihood of row n", *of_row, "target += lp;"]
        statements = ["for (n in kept) {", *(f"  {line}" for line in statements), "}"]
    pointwise = [
        *row_likelihood(terms, family, *own, "log_lik[n]"),
        *row_replicate(terms, family, distribution(family.rng, eta, "n")),
    ]
    ahead = list[str]()
    if terms.residuals == "ar":
        pointwise = rows_in_series(
            partial(distribution, family.stan), partial(distribution, family.rng)
        )
    if terms.residuals == "cosy":
        found = rows_in_units(family, stands_for.get("sigma", "sigma").format(row="n"))
        statements, ahead, pointwise = found.values()
    return Part(
        settings=[
            "int<lower=0, upper=1> prior_only; // 1: draw from the prior",
            "array[N] int<lower=0, upper=1> held_out; // 1: not in the likelihood",
            "int<lower=0> N_pointwise; // N; or 0, with which log_lik and y_rep are empty",
        ],
        transformed_data=f"{rows}{family.transformed_data}".strip("\n").splitlines(),
        likelihood=[*before, *statements],
        generated_quantities=["vector[N_pointwise] log_lik;", y_rep],
        before_pointwise=ahead,
        pointwise=pointwise,
        sources={
            "prior_only": {"value": 0},
            "held_out": {"value": 0},
            "N_pointwise": {"size": "obs"},
        },
    )


def _is_vectorised(distribution: str, names: Collection[str]) -> bool:
    """Whether a distribution accepts vectors: each of the parameters is an argument by itself."""
    _, _, inside = distribution.partition("(")
    arguments = [each.strip() for each in inside.removesuffix(")").split(",")]
    named = (name for each in arguments for name in names if re.search(rf"\b{name}\b", each))
    return all(name in arguments for name in named) and not any(
        re.search(rf"\b{name}\b", each) for each in arguments for name in names if each != name
    )


# The terms and parameters of the parts, for a LinearModel in NumPy


def _stated_if_unbounded(
    given: Sequence[StatedPrior | None], stated: Callable[[Values], Coefficients]
) -> Callable[[Values], Coefficients] | None:
    """Return the function that states coefficients; None if a given prior bounds them."""
    bounds = (end for its in given if its is not None for end in (its.lower, its.upper))
    return stated if all(end is None for end in bounds) else None


def _intercept_stated(
    linear: LinearPredictor, sampled: str, prior: str, values: Values
) -> Coefficients:
    """Return an intercept as the coefficient of a column of ones."""
    ones = np.ones((int(values[linear.rows]), 1))
    priors = prior_densities(prior, values, 1)
    return Coefficients(sampled, ones, priors, is_scalar=True, target=linear.parameter)


def _population_stated(
    linear: LinearPredictor, given: Sequence[StatedPrior | None], values: Values
) -> Coefficients:
    """Return the coefficients of a population's columns, as they are sampled."""
    tag = linear.tag
    columns, back = np.asarray(values[f"X{tag}"], dtype=np.float64), None
    if linear.is_shifted:
        columns = columns - np.asarray(values[f"X{tag}_mean"])
    if f"adjustment{tag}" in values:
        back = np.asarray(values[f"adjustment{tag}"], dtype=np.float64)
        columns = columns @ back
    given = given or (None,) * columns.shape[1]
    priors = tuple(None if prior is None else prior.density() for prior in given)
    if f"b{tag}_scale" in values:
        priors = priors_of_elements(f"normal(0, b{tag}_scale)", values, given)
    return Coefficients(f"b{tag}", columns, priors, back=back, target=linear.parameter)


def _parameter_stated(each: Auxiliary, name: str, prior: str, values: Values) -> Parameter:
    """Return a parameter of the family for a linear model; thresholds are a vector."""
    is_scalar = each.declared.startswith("real")
    num = 1 if is_scalar else int(values["J"]) - 1
    return Parameter(
        name,
        prior_densities(prior, values, num),
        each.name,
        *each.bounds,
        is_scalar=is_scalar,
        is_ordered=each.declared.startswith("ordered"),
    )


# Draws from the priors


def _draw_intercept(
    name: str,
    sampled: str,
    given: StatedPrior | None,
    values: Values,
    num: int,
    rng: Generator,
) -> Draws:
    """Draw an intercept."""
    if given is not None:
        return {sampled: given.draw(rng, (1, num))}
    draws = rng.standard_t(3, (1, num)) * values[f"{name}_scale"]
    return {sampled: draws + values[f"{name}_location"]}


def _draw_coefficients(
    tag: str, given: Sequence[StatedPrior | None], values: Values, num: int, rng: Generator
) -> Draws:
    """Draw the coefficients of a population."""
    scale = np.asarray(values.get(f"b{tag}_scale", ()))
    draws = rng.normal(size=(1, num, len(scale))) * scale
    draws = with_given_draws(draws, given, None, rng)
    if f"adjustment{tag}" in values:
        draws = draws @ np.asarray(values[f"adjustment{tag}"]).T
    return {f"b{tag}": draws}


def _draw_parameter(each: Auxiliary, values: Values, num: int, rng: Generator) -> Draws:
    """Draw a parameter of the family from its prior, within its bounds."""
    if each.prior and not each.values:
        lower, upper = (end if math.isfinite(end) else None for end in each.bounds)
        density = prior_density(each.prior, {}, lower, upper)
        assert density.draw is not None  # it is proper
        return {each.name: density.draw(rng, (1, num))}
    given = [values[f"{each.name}_{key}"] for key in each.values]
    draw = _PRIORS[each.prior.partition("(")[0]]
    draws = draw(rng, given, num)[None]
    lowest = each.bounds[0]
    outside = draws < lowest
    while outside.any():
        draws[outside] = draw(rng, given, int(outside.sum()))
        outside = draws < lowest
    return {each.name: draws}


_PRIORS: dict[str, Callable[[Generator, Sequence[float], int], FloatArray]] = {
    "student_t": lambda rng, given, num: np.abs(rng.standard_t(3, num)) * given[0],
    "inv_gamma": lambda rng, given, num: given[1] / rng.gamma(given[0], size=num),
    "gamma": lambda rng, given, num: rng.gamma(given[0], 1 / given[1], num),
    "beta": lambda rng, given, num: rng.beta(given[0], given[1], num),
    "exponential": lambda rng, given, num: rng.exponential(1 / given[0], num),
    "lognormal": lambda rng, given, num: rng.lognormal(given[0], given[1], num),
    "normal": lambda rng, given, num: rng.normal(given[0], given[1], num),
}
"""Functions that draw from the priors of families' parameters, by the name of the distribution.

Only positive parameters have the Student t prior.
"""


def _draw_thresholds(
    each: Auxiliary, sampled: str, values: Values, num: int, rng: Generator
) -> Draws:
    """Draw the thresholds of ratings, in ascending order if their type is ``ordered``."""
    shape = (1, num, int(values["J"]) - 1)
    if each.values:
        draws = values[f"{each.name}_scale"] * rng.standard_t(3, shape)
    else:
        density = prior_density(each.prior, {})
        assert density.draw is not None  # it is proper
        draws = density.draw(rng, shape)
    if each.declared.startswith("ordered"):
        draws = np.sort(draws, axis=-1)
    return {sampled: draws}


def _shift_back(
    name: str, sampled: str, tag: str, sign: float, values: Values, draws: Draws
) -> Draws:
    """Return an intercept, or thresholds, where the columns are 0."""
    at_means = draws[sampled]
    shift = draws[f"b{tag}"] @ np.asarray(values[f"X{tag}_mean"])
    return {name: at_means + sign * shift.reshape(shift.shape + (1,) * (at_means.ndim - 2))}
