"""Functions in NumPy for a formula's program: its prior, drawn without a Markov chain, and checks.

The program must be unedited, so that its data and draws have the names that
:mod:`pyflowers.programs.formulas.writer` gives them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from pyflowers.advice import Advice
from pyflowers.errors import ConfigError
from pyflowers.programs.capabilities import (
    Capabilities,
    Draws,
    LikelihoodAlone,
    MissingMoment,
    PriorModel,
)
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.densities import CONSTANT, StatedPrior, read_stated
from pyflowers.programs.families import TRIALS, Family, FloatArray, Link, find_family
from pyflowers.programs.families._response import family_of, has_dependent_rows, on_rows
from pyflowers.programs.formulas.checks import about_response, check_design
from pyflowers.programs.formulas.curves import curves_in
from pyflowers.programs.formulas.given import with_stated
from pyflowers.programs.formulas.grammar import Formula, FurtherFormula, parse
from pyflowers.programs.formulas.likelihood import likelihood_alone
from pyflowers.programs.formulas.model import (
    Model,
    names_of_curves,
    names_of_groups,
    names_of_imputed,
    with_filled,
    with_given_levels,
)
from pyflowers.programs.formulas.part import ETA, Part, Sum, Target, Values, joined
from pyflowers.programs.formulas.part import Draws as PriorDraws
from pyflowers.programs.formulas.parts import parameters_of
from pyflowers.programs.formulas.predictor import (
    Group,
    Imputed,
    LinearPredictor,
    Population,
    default_intercept,
    with_given,
)
from pyflowers.programs.formulas.priors import find_default_priors
from pyflowers.programs.formulas.response import family_with
from pyflowers.programs.linear import (
    Coefficients,
    Effects,
    Given,
    LinearModel,
    Offset,
    Parameter,
    Penalised,
    Predicted,
)
from pyflowers.programs.terms import read_terms
from pyflowers.text import in_words


def capabilities_of(declaration: Declaration) -> Capabilities:
    """Return the capabilities, written in NumPy, of a formula's unedited program."""
    about_formula = declaration.formula
    assert about_formula is not None
    family, text = about_formula.family, about_formula.text
    priors = find_default_priors(about_formula.priors)
    return Capabilities(
        check=partial(_check, text, family, about_formula.priors),
        prior=None if priors.is_flat else PriorModel(_draw_prior),
        choices={"N_pointwise": _none},
        missing_moments=partial(_missing_moments, family),
        rescaling=partial(_rescaling, text),
        likelihood_alone=_likelihood_alone,
        linear=_linear_model,
    )


def _draw_prior(data: Data, num: int, rng: Generator) -> dict[str, FloatArray]:
    """Draw every parameter from its prior, shaped (1, num, …), with derived quantities."""
    parts = _parts_of(data)
    found: PriorDraws = {}
    for part in parts:
        found |= part.draw(data.values, num, rng)
    return _completed(parts, data.values, found)


def _completed(parts: Sequence[Part], values: Values, draws: PriorDraws) -> PriorDraws:
    """Add quantities that follow from the parameters, and drop those that a fit does not keep."""
    found = dict(draws)
    for part in parts:
        found |= part.derive(values, found)
    left_out = {*joined(parts, "omit"), *values}  # a fixed parameter is data
    return {name: its for name, its in found.items() if name not in left_out}


def _linear_model(data: Data) -> LinearModel:
    """Return the model that the parts of an unedited program state, with the observations.

    Raises
    ------
    ConfigError
        If a part does not state its density.
    """
    parts, values = _parts_of(data), data.values
    about = data.declaration.formula
    assert about is not None
    if imputed := parse(about.text).imputed:
        raise _not_stated(about.text, f"the term mi({imputed[0].predicts})")
    if series := parse(about.text).terms.series:
        what = f"{series[0].partition('(')[0]}(), with which a row depends on the rows before it"
        raise _not_stated(about.text, what)
    response = parse(about.text).terms.variables
    terms = on_rows(response)
    if others := [f"{its.term}()" for its in terms if not its.role and not its.needs_tails]:
        what = f"{in_words(others)}, with which the likelihood of a row is not its density"
        raise _not_stated(about.text, what)
    for name, prior in about.given.items():
        if prior.startswith(f"{CONSTANT}("):
            raise _not_stated(about.text, f"the fixed {name}")
    for part in parts:
        if part.parameters and part.stated is None:
            raise _not_stated(about.text, f"the term {part.shown}")
    stated = [part.stated(values) for part in parts if part.stated is not None]
    for its in stated:
        if isinstance(its, Parameter) and np.isnan([its.lower, its.upper]).any():
            raise _not_stated(about.text, f"{its.name}, whose bounds depend on the data")
    of_tails = {name for its in terms if its.needs_tails for name in its.variables}
    cut = [name for name in response if name in of_tails]
    family, num = family_of(about.family, cut), int(values["N"])
    if family.has_categories:
        raise _not_stated(about.text, "a linear predictor for each category")
    kept = np.flatnonzero(np.broadcast_to(np.asarray(values["held_out"]), (num,)) == 0)
    rows = np.arange(num)
    if "cell" in values:
        rows = np.asarray(values["cell"]) - 1

    def of_kept(name: str) -> FloatArray:
        return np.broadcast_to(np.asarray(values[name], dtype=np.float64), (num,))[kept]

    known = {its.role: of_kept(its.variables[0]) for its in terms if its.role}
    nothing = np.zeros(int(values["D"] if "cell" in values else num))
    targets = [each.predicts for each in parse(about.text).parameters]
    offsets = dict.fromkeys(["", *targets], nothing)
    for its in stated:
        if isinstance(its, Offset):
            offsets[its.target] = offsets[its.target] + its.values
    links = {its.name: its.link for its in family.auxiliary if its.link}
    return LinearModel(
        family=family,
        y=np.asarray(values["y"], dtype=np.float64)[kept],
        of_rows={name: of_kept(name) for name in (TRIALS, *cut) if name in values},
        rows=rows[kept],
        offset=offsets[""],
        coefficients=tuple(its for its in stated if isinstance(its, Coefficients)),
        effects=tuple(its for its in stated if isinstance(its, Effects)),
        penalised=tuple(its for its in stated if isinstance(its, Penalised)),
        parameters=tuple(its for its in stated if isinstance(its, Parameter)),
        given={its.role: its.value for its in stated if isinstance(its, Given)},
        predicted={name: Predicted(offsets[name], _from_linear(links[name])) for name in targets},
        complete=lambda draws: _completed(parts, values, dict(draws)),
        se=known.get("se"),
        precision=known.get("precision"),
    )


def _from_linear(link: Link) -> Callable[[FloatArray], FloatArray]:
    """Return the function that maps a linear predictor to its parameter, given the effects."""
    return lambda linear: link.from_linear(linear, 0.0)


def _not_stated(formula: str, what: str) -> ConfigError:
    """Return the error for a formula with a part that the engine exact does not support."""
    return ConfigError(
        f"{formula}: the engine exact does not support {what}; leave out --engine exact, so that "
        "NUTS samples the model"
    )


def _likelihood_alone(draws: Draws, data: Data) -> dict[str, LikelihoodAlone]:
    """Return estimates from the likelihood alone."""
    about = data.declaration.formula
    assert about is not None
    family, every = _predictors_of(data)
    linear = [each for each in every if each.imputed is None]
    response = parse(about.text).terms.variables
    if has_dependent_rows(response):
        return {}
    return likelihood_alone(family_of(family.text, response), linear, draws, data, response)


def _parts_of(data: Data) -> list[Part]:
    """Return the parts of an unedited program that have parameters, given its data block."""
    about = data.declaration.formula
    assert about is not None
    family, linear = _predictors_of(data)
    auxiliary = find_default_priors(about.priors).auxiliary(family)
    return parameters_of(linear, with_stated(auxiliary, _stated(data)))


def _formula_of(data: Data) -> tuple[Formula, Family]:
    """Return the formulas of an unedited program, one for each parameter, and its family."""
    about, rule = data.declaration.formula, data.declaration.prediction
    assert about is not None
    assert rule is not None
    formula = parse(about.text)
    family = family_with(formula.terms, find_family(rule.family), formula.text)
    return formula.with_predictors(family.predictors), family


def _stated(data: Data) -> dict[str, StatedPrior]:
    """Return the priors that the user gave, by element."""
    about = data.declaration.formula
    assert about is not None
    return {place: read_stated(place, text) for place, text in about.stated.items()}


def _predictors_of(data: Data) -> tuple[Family, list[LinearPredictor]]:
    """Return the family and the linear predictors of an unedited program, given its data block.

    Variables have the names and shapes that they have in the program. Defaults and names of columns
    are placeholders.
    """
    about = data.declaration.formula
    assert about is not None
    formula, family = _formula_of(data)
    indices = names_of_groups(formula, family)
    links = {its.name: its.link.inverse for its in family.auxiliary if its.link}
    linear = []
    if not family.has_categories:
        linear.append(_linear(data, ETA, formula, indices))
    for each in formula.parameters:
        target = Target(each.predicts, links[each.predicts])
        linear.append(_linear(data, target, each, indices))
    stated = _stated(data)
    names = names_of_imputed(formula, family)
    for own in formula.imputed:
        target = Target(names[own.predicts])
        linear.append(_imputed(own.predicts, _linear(data, target, own, indices), data, stated))
    return family, [with_given(each, stated) for each in linear]


def _imputed(
    column: str, linear: LinearPredictor, data: Data, stated: Mapping[str, StatedPrior]
) -> LinearPredictor:
    """Return the linear predictor of a predictor that is imputed."""
    about = data.declaration.formula
    assert about is not None
    (sigma,) = find_default_priors(about.priors).auxiliary(find_family("gaussian"))
    (sigma,) = with_stated([replace(sigma, name=f"sigma{linear.tag}")], stated)
    return replace(linear, imputed=Imputed(column, 1, sigma))


def _linear(
    data: Data,
    target: Target,
    formula: Formula | FurtherFormula,
    indices: Mapping[str, str],
) -> LinearPredictor:
    """Return a linear predictor with the names and shapes that it has in a data block."""
    values, coords = data.values, data.declaration.coords
    linear = LinearPredictor(target, target.name)
    own = f"Intercept{linear.tag}"
    about = data.declaration.formula
    assert about is not None
    default = default_intercept(find_default_priors(about.priors), linear.parameter)
    # Only a t distribution has numbers in the data block.
    has_intercept = f"{own}_location" in values or own in _stated(data)
    if default is not None:
        has_intercept = read_terms(formula.population).has_intercept
    tag, population, found = linear.tag, None, list[Group]()
    if f"X{tag}" in values:
        columns = range(1, np.shape(values[f"X{tag}"])[1] + 1)
        population = Population(Sum(formula.population, {}), tuple(map(str, columns)))
    for term in formula.groups:
        index = indices[term.group]
        name = f"{index}{tag}"
        effects = coords.get(f"effects_{name}", ("Intercept",))
        pairs = coords.get(f"pairs_{name}", ())
        group = Group(name, term.group, index, Sum(term.effects, {}), effects, pairs)
        placeholders = tuple(map(str, range(int(values[f"N_{index}"]))))
        if term.by:
            levels = placeholders[: int(values[f"N_by_{name}"])]
            group = replace(group, factor=term.by, levels=levels)
        if term.covariance:
            group = replace(group, labels=placeholders)
        group = replace(group, members=term.members, weights=term.weights, is_scaled=term.is_scaled)
        found.append(replace(group, is_student=term.is_student))
    names = names_of_curves(formula.curves, indices.values(), tag)
    numbers = itertools.takewhile(lambda n: f"offset{tag}_{n}" in values, itertools.count(1))
    return replace(
        linear,
        rows="D" if "cell" in values else "N",
        intercept=(0.0, 1.0) if has_intercept else None,
        population=population,
        offsets=tuple(Sum("", {}) for _ in numbers),
        curves=curves_in(data, formula.curves, names, tag),
        groups=tuple(found),
        is_shifted=f"X{tag}_mean" in values,
        given_intercept=default,
    )


def _check(text: str, family: str, priors: str, data: Data) -> list[str]:
    """Return notes on the data; reject models that the data do not identify."""
    if data.table is None:
        return []
    # A column with a different name in the declaration is available under both names.
    columns = {name: data.table.columns[theirs] for name, theirs in data.columns.items()}
    table = replace(data.table, columns={**columns, **data.table.columns})
    formula = parse(text)
    its = family_with(formula.terms, find_family(family), text)
    table = with_filled(formula, with_given_levels(formula, table))
    model = Model(formula, its, table).of_categories()
    notes = check_design(model, find_default_priors(priors))
    if not data.values["prior_only"]:  # otherwise the response is not used
        notes += about_response(model)
        _ = model.response_values  # which are checked when they are read
    return notes


def _missing_moments(name: str, data: Data) -> list[MissingMoment]:
    """Return the moments that the posterior of a negative binomial's shape lacks.

    For large shapes the likelihood tends to the likelihood of Poisson counts, which is above 0, so
    the posterior decreases like the prior, as shape^(-alpha - 1).
    """
    family = find_family(name)
    if not family.is_discrete or "shape_alpha" not in data.values:
        return []
    alpha = float(data.values["shape_alpha"])
    if alpha > 2:
        return []
    what = "mean does not exist" if alpha <= 1 else "variance is infinite"
    reason = f"its posterior {what}, as under its prior inv_gamma({alpha:g}, …)"
    return [MissingMoment("shape", alpha <= 1, reason)]


def _rescaling(formula: str, data: Data, limit: float) -> Advice:
    """Return the advice to centre a covariate far from 0 with slopes by group; empty without one.

    Intercepts at 0 are then nearly a multiple of the slopes, so chains move slowly.
    """
    _, linear = _predictors_of(data)
    for its in (its for each in linear for its in each.groups if not its.is_intercept):
        columns = np.asarray(data.values[f"Z_{its.name}"]).T
        for effect, column in zip(its.effects, columns, strict=True):
            far = abs(float(column.mean())) > limit * float(column.std()) > 0
            if far and "Intercept" in its.effects:
                text = (
                    f"center {effect} first, as its values are far from 0 (mean "
                    f"{column.mean():.4g}, sd {column.std():.3g}): write (center({effect}) | "
                    f"{its.by}), and center({effect}) for {effect} elsewhere in the formula"
                )
                alone = re.compile(rf"(?<![\w.]){re.escape(effect)}(?![\w.(])")
                made = alone.sub(f"center({effect})", formula)
                twice = f"center(center({effect}))"
                return Advice(text, program=made.replace(twice, f"center({effect})"))
    return Advice("")


def _none(data: Data) -> int:
    return 0
