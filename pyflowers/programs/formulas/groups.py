"""The part of a group term: its effects, their standard deviations and their correlations.

References
----------
Papaspiliopoulos, Roberts and Sköld (2007), Statistical Science 22(1), section 2, for the
parametrisations. Gelfand, Sahu and Carlin (1995), Biometrika 82(3), section 2, for the centre of
centred effects. Lewandowski, Kurowicka and Joe (2009), J. of Multivariate Analysis 100(9),
section 2.4, for draws of correlation matrices. Lynch and Walsh (1998), Genetics and Analysis of
Quantitative Traits, chapter 26, for effects whose covariance is known up to a factor. Juárez and
Steel (2010), J. of Business and Economic Statistics 28(1), for the prior on degrees of freedom.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from pyflowers.programs.densities import (
    PriorDensity,
    priors_of_elements,
)
from pyflowers.programs.formulas.part import (
    ETA,
    Draws,
    FloatArray,
    Number,
    Part,
    Source,
    Values,
    declared,
    is_constant,
    is_density_of_sd,
    priors_by_index,
    vector_priors,
    with_given_draws,
)
from pyflowers.programs.formulas.predictor import Group, LinearPredictor
from pyflowers.programs.linear import Effects, Parameter
from pyflowers.text import in_words


def group(linear: LinearPredictor, its: Group) -> Part:
    """Return the part for a group term."""
    if its.levels:
        return _by_levels(linear, its)
    if not its.is_intercept and (its.labels or its.is_student):
        return _standardised(linear, its)
    if its.labels:
        return _with_covariance(linear, its)
    part = _one_effect(linear, its) if its.is_intercept else _several_effects(linear, its)
    part = _with_standard_deviations(part, linear, its)
    part = _with_data(part, linear, its)
    if its.pairs:
        part = _with_correlations(part, linear, its)
    if its.members:
        return part
    if its.is_student:
        return _with_degrees_of_freedom(part, its)
    return _where_stated(part, linear, its)


def _one_effect(linear: LinearPredictor, its: Group) -> Part:
    """Return the part for intercepts, one for each label, centred or standardised."""
    g, size = its.name, f"N_{its.index}"
    eta, predicted = _of_rows(its, f"r_{g}")
    centre = ""
    anchors = _anchors(linear, its)
    if its.within:
        # Without to_vector, generated quantities of a compiled program would read freed memory:
        # Stan Math 4.9 keeps a reference to the temporary value of an offset that is a vector
        # expression (prim/fun/offset_multiplier_constrain.hpp).
        centre = f"offset=to_vector(-centered_{g} * r_{its.within}[outer_{g}]), "
    elif anchors:
        centre = f"offset=-centered_{g} * {anchors[0]}, "
    scale = f"multiplier=(centered_{g} ? 1 : sd_{g}[1])"
    distribution, words = f"normal(0, sd_{g}[1])", "a normal distribution"
    if its.is_student:
        distribution, words = f"student_t(df_{g}, 0, sd_{g}[1])", "a Student t distribution"
    return Part(
        target=linear.target,
        parameters=[f"vector<{centre}{scale}>[{size}] r_{g}; // effects"],
        model=[f"r_{g} ~ {distribution};"],
        dims={f"r_{g}": [its.dim]},
        eta=eta,
        predicted=predicted,
        effects={f"r_{g}": distribution},
        shown=f"r_{g}",
        story=f"Intercept{_of(linear)} varies by {its.by}, with {words}.",
    )


def _by_levels(linear: LinearPredictor, its: Group) -> Part:
    """Return the part for effects whose covariance depends on the level of a factor."""
    g, size, level = its.name, f"N_{its.index}", f"by_{its.name}"
    eta, predicted = _of_rows(its, f"r_{g}", "" if its.is_intercept else f"Z_{g}")
    each = f"sd_{g}[{level}[j]]"
    correlations, how = "", f"normal distributions for each {its.factor}"
    effects = [f"  r_{g}[j] = ({each} .* z_{g}[ : , j])';"]
    if its.pairs:
        effects = [
            f"  matrix[M_{g}, M_{g}] factor;",
            f"  factor = diag_pre_multiply({each}, L_{g}[{level}[j]]);",
            f"  r_{g}[j] = (factor * z_{g}[ : , j])';",
        ]
        correlations = f", cor_{g}[{level}]"
        how = f"a multivariate normal distribution for each {its.factor}"
    part = Part(
        target=linear.target,
        parameters=[f"matrix[M_{g}, {size}] z_{g}; // independent effects"],
        transformed_parameters=[
            f"matrix[{size}, M_{g}] r_{g}; // effects",
            f"for (j in 1 : {size}) {{",
            *effects,
            "}",
        ],
        model=[f"to_vector(z_{g}) ~ std_normal();"],
        eta=eta,
        dims={f"r_{g}": [its.dim, f"effects_{g}"]},
        omit=[f"z_{g}"],
        predicted=predicted,
        effects={f"r_{g}": f"multi_normal(sd_{g}[{level}]{correlations})"},
        shown=f"Z_{g} r_{g}",
        story=f"{effects_in_words(its.effects)}{_of(linear)} vary by {its.by}, with {how}.",
    )
    if its.is_intercept:
        part = replace(
            part,
            parameters=[f"vector[{size}] z_{g}; // effects, in units of their sds"],
            transformed_parameters=[f"vector[{size}] r_{g} = sd_{g}[{level}] .* z_{g}; // effects"],
            model=[f"z_{g} ~ std_normal();"],
            dims={f"r_{g}": [its.dim]},
            effects={f"r_{g}": f"normal(0, sd_{g}[{level}])"},
            shown=f"r_{g}",
            story=f"Intercept{_of(linear)} varies by {its.by}, with a normal distribution for each "
            f"{its.factor}.",
        )
    part = _with_standard_deviations(part, linear, replace(its, given=()))
    part = _with_levels(_with_columns(part, linear, its), linear, its)
    return _with_given_of_levels(part, linear, its) if its.given else part


def _with_levels(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Give each level of a factor standard deviations and correlations of its own."""
    g, level, num = its.name, f"by_{its.name}", len(its.pairs)
    of_each = f"{_by(linear, its)}, for each {its.factor}"
    _, *sampled = part.parameters
    labels, about = part.meanings[f"r_{g}"], f"sds of the {of_each}"
    prior = f"student_t(3, 0, sd_{g}_scale)"
    meanings = {f"sd_{g}": {"description": about, "prior": prior}}
    source = {"column": its.factor, "index": True, "order": list(its.levels), "per": its.by}
    size, bounds = f"N_{its.index}", f"int<lower=1, upper=N_{level}>"
    part = replace(
        part,
        data=[
            *part.data,
            f"int<lower=1> N_{level}; // levels of {its.factor}",
            f"array[{size}] {bounds} {level}; // {its.factor} of each {its.by}",
        ],
        sources={**part.sources, level: source},
        meanings={**meanings, f"r_{g}": labels},
        draw=partial(_draw_by_levels, its),
    )
    if its.is_intercept:
        return replace(
            part,
            parameters=[f"vector<lower=0>[N_{level}] sd_{g}; // {about}", *sampled],
            dims={**part.dims, f"sd_{g}": [its.factor]},
            coords={},
        )
    sds = f"array[N_{level}] vector<lower=0>[M_{g}] sd_{g}; // {about}"
    added = list[str]()
    if not its.given:
        added.append(f"lprior += student_t_lpdf(sd_{g}[l] | 3, 0, sd_{g}_scale);")
    part = replace(
        part,
        parameters=[sds, *sampled],
        priors={},
        dims={**part.dims, f"sd_{g}": [its.factor, f"effects_{g}"]},
    )
    if its.pairs:
        eta = Number(its.correlations, f"eta of the LKJ prior on cor_{g}")
        numbers = {f"cor_{g}_eta": eta}
        added.append(f"lprior += lkj_corr_cholesky_lpdf(L_{g}[l] | cor_{g}_eta);")
        product = "multiply_lower_tri_self_transpose"
        rows = map(str, range(1, len(its.effects) + 1))
        places = map(", ".join, itertools.combinations(rows, 2))
        meanings[f"cor_{g}"] = {"description": f"correlations of the {of_each}"}
        part = replace(
            part,
            settings=[*part.settings, *declared(numbers)],
            numbers={**part.numbers, **numbers},
            parameters=[
                sds,
                f"array[N_{level}] cholesky_factor_corr[M_{g}] L_{g}; // their correlations",
                *sampled,
            ],
            generated_quantities=[
                f"matrix[N_{level}, {num}] cor_{g}; // correlations, for each {its.factor}",
                f"for (l in 1 : N_{level}) {{",
                f"  matrix[M_{g}, M_{g}] correlation = {product}(L_{g}[l]);",
                *(f"  cor_{g}[l, {n}] = correlation[{at}];" for n, at in enumerate(places, 1)),
                "}",
            ],
            dims={**part.dims, f"cor_{g}": [its.factor, f"pairs_{g}"]},
            coords={**part.coords, f"pairs_{g}": list(its.pairs)},
            meanings={**meanings, f"r_{g}": labels},
            omit=[*part.omit, f"L_{g}"],
        )
    if not added:
        return part
    lines = [f"for (l in 1 : N_{level}) {{", *(f"  {line}" for line in added), "}"]
    return replace(part, lprior=lines)


def _with_given_of_levels(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Give the sds of the levels the user's priors, some of which may fix them."""
    g, sd, by = its.name, f"sd_{its.name}", _by(linear, its)
    scale, labels = f"{sd}_scale", list(its.levels)
    if not its.is_intercept:
        labels = [f"{level},{effect}" for level in its.levels for effect in its.effects]
    default, scaled = f"student_t(3, 0, {scale})", sorted(set(_scales_of_levels(its)))
    own = vector_priors(sd, labels, its.given, default, f"sd of the {by}", 0.0)
    # The scale of the default prior is the first of the settings.
    (_, *settings), dims, coords = part.settings, dict(part.dims), dict(part.coords)
    numbers = {name: each for name, each in part.numbers.items() if not name.startswith(scale)}
    meanings = dict(part.meanings)
    about = {"description": meanings.pop(sd)["description"]}
    dims.pop(scale, None)
    if scaled:
        meaning = f"scale of the half-t prior on the sd of {by}"
        of_scale = its.levels if its.is_intercept else its.effects
        values = its.scales or (its.scale,) * len(of_scale)
        names = [of_scale[i] for i in scaled]
        of_default = {
            f"{scale}[{name}]": Number(values[i], f"{meaning}: {name}")
            for i, name in zip(scaled, names, strict=True)
        }
        numbers = {**of_default, **numbers}
        settings = [f"vector<lower=0>[{len(names)}] {scale}; // {meaning}", *settings]
        dims[scale], coords[f"others_{g}"] = [f"others_{g}"], names
        about["prior"] = default
    part = replace(
        part,
        settings=settings,
        numbers=numbers,
        transformed_data=[*own.bounds_data, *part.transformed_data],
        priors=own.priors if its.is_intercept else _priors_of_effects(its, scaled),
        dims=dims,
        coords=coords,
        meanings={sd: about, **own.meanings, **meanings},
    )
    if own.bounds_data or any(map(is_constant, its.given)):
        return _with_free_sds(part, its, own.bounds)
    declared_as, *others = part.parameters
    return replace(part, parameters=[declared_as.replace("lower=0", own.bounds), *others])


def _priors_of_effects(its: Group, scaled: Sequence[int]) -> dict[str, str]:
    """Return the priors of the sds; `scaled` has the positions of effects with the default one."""
    sd, num, found = f"sd_{its.name}", len(its.effects), dict[str, str]()
    defaults = {i: f"student_t(3, 0, {sd}_scale[{n}])" for n, i in enumerate(scaled, 1)}
    for i in range(num):
        of_levels = priors_by_index(its.given[i::num], defaults.get(i, ""))
        found |= {f"{sd}[{at or ' : '}, {i + 1}]": text for at, text in of_levels.items()}
    return found


def _with_free_sds(part: Part, its: Group, bounds: str) -> Part:
    """Sample the sds that are not fixed as a vector, whose bounds may differ between elements."""
    sd, num = f"sd_{its.name}", 0
    whole, *others = part.parameters
    lines, omit = [whole], list(part.omit)
    places = itertools.product(*(map(str, range(1, size + 1)) for size in its.sizes))
    for place, prior in zip(places, its.given, strict=True):
        if prior is not None and is_constant(prior):
            value = f"{prior.value}; // fixed"
        else:
            num += 1
            value = f"{sd}_free[{num}];"
        lines.append(f"{sd}[{', '.join(place)}] = {value}")
    if num:
        others = [f"vector<{bounds}>[{num}] {sd}_free; // the sds that are not fixed", *others]
        omit.append(f"{sd}_free")
    return replace(
        part,
        parameters=others,
        transformed_parameters=[*lines, *part.transformed_parameters],
        omit=omit,
    )


def _scales_of_levels(its: Group) -> list[int]:
    """Return the position of the scale of each sd that has the default prior.

    The sds of an effect have one scale for all levels, in the unit of its column; those of an
    intercept by itself have one for each level.
    """
    places = [i for i, prior in enumerate(its.given) if prior is None]
    if its.is_intercept:
        return places
    return [i % len(its.effects) for i in places]


def _with_covariance(linear: LinearPredictor, its: Group) -> Part:
    """Return the part for intercepts whose covariance is known up to a factor."""
    g, known, size = its.name, f"known_{its.name}", f"N_{its.index}"
    part = Part(
        target=linear.target,
        transformed_data=[f"matrix[{size}, {size}] L_{known} = cholesky_decompose({known});"],
        parameters=[f"vector[{size}] z_{g}; // independent effects"],
        transformed_parameters=[
            f"vector[{size}] r_{g} = sd_{g}[1] * (L_{known} * z_{g}); // effects"
        ],
        model=[f"z_{g} ~ std_normal();"],
        eta=f"r_{g}[{its.index}]",
        dims={f"r_{g}": [its.dim]},
        omit=[f"z_{g}"],
        predicted=f"r_{g}[{its.index}]",
        effects={f"r_{g}": f"normal(0, sd_{g}[1])"},
        shown=f"r_{g}",
        story=f"Intercept{_of(linear)} varies by {its.by}, with a covariance known up to a factor.",
    )
    part = _with_labels(_with_standard_deviations(part, linear, its), linear, its)
    sources = dict(part.sources)
    if its.covariance is not None:
        sources[known] = {"value": its.covariance.tolist()}
    part = replace(
        part,
        data=[*part.data, f"cov_matrix[{size}] {known}; // covariance of the labels of {its.by}"],
        sources=sources,
        draw=partial(_draw_with_covariance, its),
    )
    return _where_stated(part, linear, its)


def _standardised(linear: LinearPredictor, its: Group) -> Part:
    """Return the part for several effects with a known covariance or a Student t distribution."""
    g, size = its.name, f"N_{its.index}"
    eta, predicted = _of_rows(its, f"r_{g}", f"Z_{g}")
    factor, correlations = f"diag_matrix(sd_{g})", ""
    if its.pairs:
        factor, correlations = f"diag_pre_multiply(sd_{g}, L_{g})", f", cor_{g}"
    names, z = effects_in_words(its.effects), f"({factor} * z_{g})'"
    data, transformed, u = list[str](), list[str](), list[str]()
    effects, population = f"L_known_{g} * {z}", f"multi_normal(sd_{g}{correlations})"
    how = "a covariance of the labels known up to a factor"
    if its.labels:
        known = f"known_{g}"
        data = [f"cov_matrix[{size}] {known}; // covariance of the labels of {its.by}"]
        transformed = [f"matrix[{size}, {size}] L_{known} = cholesky_decompose({known});"]
    else:
        effects = f"diag_pre_multiply(sqrt(df_{g} * u_{g}), {z})"
        population = f"multi_student_t(df_{g}, sd_{g}{correlations})"
        u = [f"vector<lower=0>[{size}] u_{g}; // squares of what the effects of a label share"]
        how = "a multivariate Student t distribution"
    part = Part(
        target=linear.target,
        transformed_data=transformed,
        parameters=[f"matrix[M_{g}, {size}] z_{g}; // independent effects", *u],
        transformed_parameters=[f"matrix[{size}, M_{g}] r_{g}; // effects", f"r_{g} = {effects};"],
        model=[
            f"to_vector(z_{g}) ~ std_normal();",
            *[f"u_{g} ~ inv_chi_square(df_{g});"] * bool(u),
        ],
        eta=eta,
        dims={f"r_{g}": [its.dim, f"effects_{g}"]},
        omit=[f"z_{g}", *[f"u_{g}"] * bool(u)],
        predicted=predicted,
        effects={f"r_{g}": population},
        shown=f"Z_{g} r_{g}",
        story=f"{names}{_of(linear)} vary by {its.by}, with {how}.",
    )
    part = _with_columns(_with_standard_deviations(part, linear, its), linear, its)
    if its.pairs:
        part = _with_correlations(part, linear, its)
    if u:
        return _with_degrees_of_freedom(part, its)
    sources = dict(part.sources)
    if its.covariance is not None:
        sources[f"known_{g}"] = {"value": its.covariance.tolist()}
    part = replace(part, data=[*part.data, *data], sources=sources)
    return _where_stated(part, linear, its)


def _where_stated(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Return the part; if its priors can be stated, add what the engine exact needs."""
    if its.given_correlations or not all(map(is_density_of_sd, its.given)):
        return part
    state = _stated_with_covariance if its.labels else _stated
    return replace(part, stated=partial(state, its, linear.parameter))


def _several_effects(linear: LinearPredictor, its: Group) -> Part:
    """Return the part for several effects of each label, centred or standardised."""
    g, size = its.name, f"N_{its.index}"
    eta, predicted = _of_rows(its, f"r_{g}", f"Z_{g}")
    factor = f"diag_matrix(sd_{g})"
    prior = [f"  for (m in 1 : M_{g}) {{", f"    r_{g}[ : , m] ~ normal(0, sd_{g}[m]);", "  }"]
    population = f"multi_normal(sd_{g})"
    distribution = "normal distributions"
    if its.pairs:
        factor = f"diag_pre_multiply(sd_{g}, L_{g})"
        prior = [
            f"  matrix[M_{g}, M_{g}] factor;",
            f"  factor = {factor};",
            f"  for (j in 1 : {size}) {{",
            f"    r_{g}[j]' ~ multi_normal_cholesky(zeros_vector(M_{g}), factor);",
            "  }",
        ]
        population = f"multi_normal(sd_{g}, cor_{g})"
        distribution = "a multivariate normal distribution"
    sampled = f"z_{g}'"
    anchors = _anchors(linear, its)
    if anchors:
        sampled = f"(z_{g} - rep_matrix([{', '.join(anchors)}]', {size}))'"
    names, verb = effects_in_words(its.effects), "vary"
    if len(its.effects) == 1:
        verb, distribution = "varies", "a normal distribution"
    return Part(
        target=linear.target,
        parameters=[f"matrix[M_{g}, {size}] z_{g}; // effects: standardised, or with their means"],
        transformed_parameters=[
            f"matrix[{size}, M_{g}] r_{g}; // effects",
            f"if (centered_{g}) {{",
            f"  r_{g} = {sampled};",
            "} else {",
            f"  r_{g} = ({factor} * z_{g})';",
            "}",
        ],
        model=[
            f"if (centered_{g}) {{",
            *prior,
            "} else {",
            f"  to_vector(z_{g}) ~ std_normal();",
            "}",
        ],
        dims={f"r_{g}": [its.dim, f"effects_{g}"]},
        omit=[f"z_{g}"],
        eta=eta,
        predicted=predicted,
        effects={f"r_{g}": population},
        shown=f"Z_{g} r_{g}",
        story=f"{names}{_of(linear)} {verb} by {its.by}, with {distribution}.",
    )


def _with_standard_deviations(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Add the effects' standard deviations, their prior, and the function that draws them all."""
    g, size = its.name, "1" if its.is_intercept else f"M_{its.name}"
    by = _by(linear, its)
    scale, about = f"sd_{g}_scale", f"scale of the half-t prior on the sd of {by}"
    dims = {f"sd_{g}": [f"effects_{g}"]}
    coords = {f"effects_{g}": list(its.effects)}
    if its.given:
        return _with_given(part, its, by, dims, coords)
    numbers = {scale: Number(its.scale, about)}
    settings = declared(numbers)
    if its.scales:
        each = zip(its.effects, its.scales, strict=True)
        numbers = {f"{scale}[{name}]": Number(value, f"{about}: {name}") for name, value in each}
        about = f"scales of the half-t priors on sd_{g}"
        settings = [f"vector<lower=0>[M_{g}] {scale}; // {about}"]
        dims[scale] = [f"effects_{g}"]
    prior = f"student_t(3, 0, {scale})"
    sd = f"vector<lower=0>[{size}] sd_{g}; // sds of the {by}"
    meaning = f"standard deviations of the {by}"
    return replace(
        part,
        settings=settings,
        numbers=numbers,
        parameters=[sd, *part.parameters],
        priors={f"sd_{g}": prior},
        dims={**dims, **part.dims},
        coords=coords,
        meanings={
            f"sd_{g}": {"description": meaning, "prior": prior},
            f"r_{g}": {"description": f"effects of the labels of {by.removeprefix('effects by ')}"},
        },
        draw=partial(_draw, its),
    )


def _with_given(
    part: Part, its: Group, by: str, dims: Mapping[str, list[str]], coords: dict[str, list[str]]
) -> Part:
    """Add the standard deviations if the user gives some or all of their priors."""
    g, size = its.name, "1" if its.is_intercept else f"M_{its.name}"
    sd, scale, meaning = f"sd_{g}", f"sd_{g}_scale", f"standard deviations of the {by}"
    labels = {
        f"r_{g}": {"description": f"effects of the labels of {by.removeprefix('effects by ')}"}
    }
    if all(map(is_constant, its.given)):
        about, each = f"sd of the {by}, fixed", zip(its.effects, its.given, strict=True)
        values = {effect: prior.arguments[0] for effect, prior in each if prior is not None}
        return replace(
            part,
            settings=[f"vector<lower=0>[{size}] {sd}; // {meaning}, fixed"],
            numbers={f"{sd}[{effect}]": Number(value, about) for effect, value in values.items()},
            dims={**dims, **part.dims},
            coords=coords,
            meanings=labels,
            draw=partial(_draw, its),
        )
    prior, scales = f"student_t(3, 0, {scale})", its.scales or (its.scale,) * len(its.effects)
    own = vector_priors(sd, its.effects, its.given, prior, f"sd of the {by}", 0.0)
    numbers, settings, about = {}, list[str](), f"scale of the half-t prior on the sd of {by}"
    meanings = {sd: {"description": meaning}, **own.meanings, **labels}
    if own.others:
        names = [its.effects[i] for i in own.others]
        numbers = {
            f"{scale}[{name}]": Number(scales[i], f"{about}: {name}")
            for i, name in zip(own.others, names, strict=True)
        }
        settings = [f"vector<lower=0>[{len(names)}] {scale}; // {about}"]
        dims = {**dims, scale: [f"others_{g}"]}
        coords = {**coords, f"others_{g}": names}
        meanings[sd] = {**meanings[sd], "prior": prior}
    part = replace(
        part,
        settings=settings,
        numbers=numbers,
        transformed_data=[*own.bounds_data, *part.transformed_data],
        priors=own.priors,
        dims={**dims, **part.dims},
        coords=coords,
        meanings=meanings,
        draw=partial(_draw, its),
    )
    declared_as, about = f"vector<{own.bounds}>[{{}}] {{}}; // {{}}", f"sds of the {by}"
    free = [i for i, prior in enumerate(its.given, 1) if not is_constant(prior)]
    if len(free) == len(its.effects):
        sampled = declared_as.format(size, sd, about)
        return replace(part, parameters=[sampled, *part.parameters])
    sampled = declared_as.format(len(free), f"{sd}_free", f"{about} that are not fixed")
    lines = [f"vector<lower=0>[{size}] {sd}; // {about}"]
    lines.append(f"{sd}[{{{', '.join(map(str, free))}}}] = {sd}_free;")
    for i, (effect, own_prior) in enumerate(zip(its.effects, its.given, strict=True), 1):
        if own_prior is not None and is_constant(own_prior):
            lines.append(f"{sd}[{i}] = {own_prior.value}; // {effect}, fixed")
    return replace(
        part,
        parameters=[sampled, *part.parameters],
        transformed_parameters=[*lines, *part.transformed_parameters],
        omit=[*part.omit, f"{sd}_free"],
    )


def _of_rows(its: Group, effects: str, columns: str = "") -> tuple[str, str]:
    """Return what effects add to the rows, in the program and in ``[prediction]``.

    A row gets the effect of its label, or the mean or the weighted sum of its members' effects.

    Parameters
    ----------
    its : Group
        The group.
    effects : str
        The name of the variable for the effects.
    columns : str
        The name of the matrix whose coefficients are the effects; empty for intercepts.
    """
    names = [f"{effects}[{index}]" for index in its.indices]
    own, new = names, names
    if columns:
        own = [f"rows_dot_product({name}, {columns})" for name in names]
        new = [f"rows_dot_product({columns}, {name})" for name in names]
    if not its.members:
        return own[0], new[0]
    if not its.weights:
        mean = f"({' + '.join(names)}) / {len(names)}"
        if columns:
            mean = " + ".join(f"{each} / {len(names)}" for each in own)
        return mean, f"({' + '.join(new)}) / {len(names)}"
    weights = its.weight_names
    total = " + ".join(f"{w} * {each}" for w, each in zip(weights, new, strict=True))
    if not its.is_scaled:
        eta = " + ".join(f"{w} .* {each}" for w, each in zip(weights, own, strict=True))
        return eta, total
    shares = (name.replace("weight_", "share_", 1) for name in weights)
    eta = " + ".join(f"{share} .* {each}" for share, each in zip(shares, own, strict=True))
    return eta, f"({total}) / ({' + '.join(weights)})"


def _with_members(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Add the labels and the weights of the members of each row."""
    index, per = its.index, {"per": linear.per} if linear.per else {}
    data, sources = list[str](), dict[str, Source]()
    if its.has_index:
        data.append(f"int<lower=1> N_{index}; // labels of {in_words(its.members)}")
        sources[f"N_{index}"] = {"size": its.dim}
    for i, member in enumerate(its.members, 1):
        if its.has_index:
            bounds = f"int<lower=1, upper=N_{index}>"
            data.append(f"array[{linear.rows}] {bounds} {index}_{i}; // {member}")
            source = {"column": member, "index": True, "shared": list(its.members)}
            sources[f"{index}_{i}"] = {**source, **per}
    for name, column in zip(its.weight_names, its.weights, strict=True):
        bound = "<lower=0>" if its.is_scaled else ""
        data.append(f"vector{bound}[{linear.rows}] {name}; // {column}")
        sources[name] = {"column": column, **per}
    shares = list[str]()
    if its.weights and its.is_scaled:
        total = f"weight_{its.name}"
        shares = [f"vector[{linear.rows}] {total} = {' + '.join(its.weight_names)};"]
        shares += [
            f"vector[{linear.rows}] {name.replace('weight_', 'share_', 1)} = {name} ./ {total};"
            for name in its.weight_names
        ]
    return replace(
        part, data=data, sources=sources, transformed_data=[*shares, *part.transformed_data]
    )


def _with_labels(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Add the labels of the group, unless another linear predictor has them."""
    if its.members:
        return _with_members(part, linear, its)
    if not its.has_index:
        return part
    index, source = its.index, {"column": its.by, "index": True}
    if linear.per:
        source["per"] = linear.per
    if its.labels:
        source["order"] = list(its.labels)
    data = [
        f"int<lower=1> N_{index}; // labels of {its.by}",
        f"array[{linear.rows}] int<lower=1, upper=N_{index}> {index}; // {its.by}",
    ]
    return replace(part, data=data, sources={index: source})


def _with_columns(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Add the labels of the group, and the columns of its effects."""
    g, part = its.name, _with_labels(part, linear, its)
    if its.is_intercept:
        return part
    data = [
        f"int<lower=1> M_{g}; // effects by {its.by}",
        f"matrix[{linear.rows}, M_{g}] Z_{g}; // {its.terms.text}",
    ]
    return replace(
        part,
        data=[*part.data, *data],
        sources={**part.sources, f"Z_{g}": dict(its.terms.source)},
    )


def _with_data(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Add the labels of the group, the columns of its effects and the switch for its centring."""
    g, index = its.name, its.index
    part = _with_columns(part, linear, its)
    data, sources = list(part.data), dict(part.sources)
    if its.within:
        size, about = f"N_{its.within}", f"{its.within} of each {its.by}"
        data.append(f"array[N_{index}] int<lower=1, upper={size}> outer_{g}; // {about}")
        sources[f"outer_{g}"] = {"column": its.outer, "index": True, "per": its.by}
    about = f"1: sample r_{g}; 0: sample it standardised"
    data.append(f"int<lower=0, upper=1> centered_{g}; // {about}")
    sources[f"centered_{g}"] = {"value": int(its.centered)}
    return replace(part, data=data, sources=sources)


def _with_correlations(part: Part, linear: LinearPredictor, its: Group) -> Part:
    """Add the correlations of a term's effects."""
    g, num = its.name, len(its.pairs)
    eta = Number(its.correlations, f"eta of the LKJ prior on cor_{g}")
    numbers, prior = {f"cor_{g}_eta": eta}, {f"L_{g}": f"lkj_corr_cholesky(cor_{g}_eta)"}
    given = its.given_correlation
    if given is not None and is_constant(given):
        return _with_fixed_correlation(part, linear, its, given.arguments[0])
    if given is not None:  # L[2, 1] is the correlation, so it has the same density
        numbers, prior = {}, {f"L_{g}[2, 1]": given.stan}
    num_sds = sum(line.endswith(f"// sds of the {_by(linear, its)}") for line in part.parameters)
    factor = f"cholesky_factor_corr[M_{g}] L_{g}; // their correlations"
    meanings = dict(part.meanings)
    labels = meanings.pop(f"r_{g}")
    correlations = {"description": f"correlations of the {_by(linear, its)}"}
    if given is not None:
        correlations["prior"] = f"{given.stan} T[-1, 1]"
    places = itertools.combinations(range(1, len(its.effects) + 1), 2)
    own = list[str]()
    if given is None and its.given_correlations:
        own = _priors_of_correlations(its)
        each = zip(its.pairs, its.given_correlations, strict=True)
        for pair, prior_of in each:
            if prior_of is not None:
                about = {**correlations, "prior": f"{prior_of.stan} T[-1, 1]"}
                meanings[f"cor_{g}[{pair}]"] = about
    return replace(
        part,
        lprior=own,
        settings=[*part.settings, *declared(numbers)],
        numbers={**part.numbers, **numbers},
        parameters=[*part.parameters[:num_sds], factor, *part.parameters[num_sds:]],
        priors={**part.priors, **prior},
        generated_quantities=[
            f"vector[{num}] cor_{g}; // correlations of the effects",
            "{",
            f"  matrix[M_{g}, M_{g}] correlation = multiply_lower_tri_self_transpose(L_{g});",
            *(f"  cor_{g}[{n}] = correlation[{i}, {j}];" for n, (i, j) in enumerate(places, 1)),
            "}",
        ],
        dims={**part.dims, f"cor_{g}": [f"pairs_{g}"]},
        coords={**part.coords, f"pairs_{g}": list(its.pairs)},
        meanings={**meanings, f"cor_{g}": correlations, f"r_{g}": labels},
        omit=[*part.omit, f"L_{g}"],
    )


def _priors_of_correlations(its: Group) -> list[str]:
    """Return the lines that give some of several correlations the priors of the user.

    Under the LKJ prior of K effects with the parameter eta, (1 + r) / 2 has the distribution
    beta(a, a) with a = eta - 1 + K / 2, and the correlations of one effect with the others are
    independent (Lewandowski et al. 2009). Replacing some of these beta densities gives the
    correlations the user's priors. All other correlations keep the LKJ prior, given these.
    """
    g, lines = its.name, list[str]()
    shape = f"cor_{g}_eta + {len(its.effects) / 2 - 1:g}"
    places = itertools.combinations(range(1, len(its.effects) + 1), 2)
    for (i, j), pair, prior in zip(places, its.pairs, its.given_correlations, strict=True):
        if prior is not None:
            r = f"L_{g}[{j}, 1]" if i == 1 else f"dot_product(L_{g}[{i}], L_{g}[{j}])"
            name, _, arguments = prior.stan.partition("(")
            lines += [
                f"// cor_{g}[{pair}]: its prior instead of that under LKJ",
                "{",
                f"  real a = {shape};",
                f"  real r = {r};",
                f"  lprior += {name}_lpdf(r | {arguments};",
                "  lprior -= beta_lpdf(0.5 + 0.5 * r | a, a);",
                "}",
            ]
    return lines


def _with_fixed_correlation(part: Part, linear: LinearPredictor, its: Group, value: float) -> Part:
    """Add the only correlation of a term's effects, which the user fixes."""
    g, about = its.name, f"correlation of the {_by(linear, its)}, fixed"
    rows = f"[[1, 0], [cor_{g}[1], sqrt(1 - square(cor_{g}[1]))]]"
    return replace(
        part,
        settings=[*part.settings, f"vector<lower=-1, upper=1>[1] cor_{g}; // {about}"],
        numbers={**part.numbers, f"cor_{g}[{its.pairs[0]}]": Number(value, about, False)},
        transformed_data=[*part.transformed_data, f"matrix[2, 2] L_{g} = {rows};"],
        dims={**part.dims, f"cor_{g}": [f"pairs_{g}"]},
        coords={**part.coords, f"pairs_{g}": list(its.pairs)},
    )


def _with_degrees_of_freedom(part: Part, its: Group) -> Part:
    """Add the degrees of freedom of effects with a Student t distribution."""
    g = its.name
    df, about = f"df_{g}", f"the prior on df_{g}"
    numbers = {f"{df}_alpha": Number(2.0, f"alpha of {about}")}
    numbers[f"{df}_beta"] = Number(0.1, f"beta of {about}")
    prior, what = f"gamma({df}_alpha, {df}_beta)", "degrees of freedom of the effects"
    sd, *effects = part.parameters
    effect = part.meanings[f"r_{g}"]
    others = {name: its for name, its in part.meanings.items() if name != f"r_{g}"}
    described = {"description": f"{what} by {its.by}", "prior": prior}
    return replace(
        part,
        settings=[*part.settings, *declared(numbers)],
        numbers={**part.numbers, **numbers},
        parameters=[sd, f"real<lower=1> {df}; // {what} by {its.by}", *effects],
        priors={**part.priors, df: prior},
        meanings={**others, df: described, f"r_{g}": effect},
        draw=partial(_draw_student, its),
    )


def _anchors(linear: LinearPredictor, its: Group) -> list[str]:
    """Return the centre of the effects of a centred term; empty if it is 0.

    The centre consists of the population's coefficients. The intercept in it applies where the
    covariates in the term are 0 and all other covariates have their means.
    """
    if not its.anchored:
        return []
    tag, columns = linear.tag, tuple[str, ...]()
    if linear.population is not None:
        columns = linear.population.columns
    places = {name: columns.index(name) + 1 for name in its.effects if name in columns}
    centres = {name: f"b{tag}[{place}]" for name, place in places.items()}
    intercept, shifts, given = f"Intercept{tag}", list[str](), linear.given_intercept
    if linear.is_shifted:
        intercept = f"{intercept}_at_means"
        shifts = [f"X{tag}_mean[{i}] * b{tag}[{i}]" for i in places.values()]
    if given is not None and is_constant(given):
        intercept = given.value  # parameters cannot depend on transformed parameters
    centres["Intercept"] = " - ".join([intercept, *shifts])
    centres = {effect: centres[effect] for effect in its.anchored}
    return [centres.get(effect, "0") for effect in its.effects]


def _by(linear: LinearPredictor, its: Group) -> str:
    """Return the effects of a term in words, such as ``effects by g on log of sigma``."""
    if linear.target == ETA:
        return f"effects by {its.by}"
    return f"effects by {its.by} on {linear.meaning}"


def _of(linear: LinearPredictor) -> str:
    """Return the words that name another parameter after its effects; empty for the response."""
    if linear.target == ETA:
        return ""
    return f" of {linear.target.name}"


def effects_in_words(names: tuple[str, ...]) -> str:
    """Return the names of effects in words, or their number if there are many."""
    if len(names) > 6:
        return f"{len(names)} effects"
    return in_words(names)


def _stated(its: Group, target: str, values: Values) -> Effects:
    """Return the effects of a group, with the priors on their sds and correlations."""
    g = its.name
    codes = np.asarray(values[its.index]) - 1
    columns = np.ones((len(codes), 1))
    if f"Z_{g}" in values:
        columns = np.asarray(values[f"Z_{g}"], dtype=np.float64)
    default = f"student_t(3, 0, sd_{g}_scale)"
    priors = priors_of_elements(default, values, its.given or (None,) * columns.shape[1])
    sd = Parameter(f"sd_{g}", priors, lower=0.0, is_scalar=False)
    num = int(values[f"N_{its.index}"])
    found = Effects(f"r_{g}", codes, num, columns, sd, f"Z_{g}" not in values, target=target)
    if f"cor_{g}_eta" not in values:
        return found
    return replace(found, correlations=f"cor_{g}", eta=float(values[f"cor_{g}_eta"]))


def _stated_with_covariance(its: Group, target: str, values: Values) -> Effects:
    """Return effects with a known covariance: its Cholesky factor times independent effects."""
    factor = np.linalg.cholesky(np.asarray(values[f"known_{its.name}"], dtype=np.float64))
    return replace(_stated(its, target, values), back=factor)


def _draw_sds(its: Group, values: Values, num: int, rng: Generator) -> FloatArray:
    """Draw the standard deviations of the effects; if all are fixed, the data block has them."""
    g = its.name
    size = int(values.get(f"M_{g}", 1))
    if f"sd_{g}" in values:
        return np.broadcast_to(np.asarray(values[f"sd_{g}"], dtype=np.float64), (1, num, size))
    others = size if not its.given else its.given.count(None)
    sd = np.abs(rng.standard_t(3, (1, num, others))) * values.get(f"sd_{g}_scale", 1.0)
    return with_given_draws(sd, its.given, 0.0, rng)


def _draw(its: Group, values: Values, num: int, rng: Generator) -> Draws:
    """Draw the effects of a group, their standard deviations and their correlations."""
    g, labels = its.name, int(values[f"N_{its.index}"])
    size, found = int(values.get(f"M_{g}", 1)), dict[str, FloatArray]()
    sd = _draw_sds(its, values, num, rng)
    if f"sd_{g}" not in values:
        found[f"sd_{g}"] = sd
    effects = rng.normal(size=(1, num, labels, size))
    if its.pairs:
        if f"cor_{g}" in values:
            factor = _factor_at(np.broadcast_to(np.asarray(values[f"cor_{g}"])[0], (1, num)))
        elif its.given_correlation is None:
            factor = _draw_given_correlations(its, size, values[f"cor_{g}_eta"], num, rng)
        else:
            factor = _factor_of(its.given_correlation.density(-1.0, 1.0), num, rng)
        effects = effects @ np.swapaxes(factor, -1, -2)
        correlation = factor @ np.swapaxes(factor, -1, -2)
        if f"cor_{g}" not in values:
            found[f"cor_{g}"] = correlation[..., *np.triu_indices(size, 1)]
    effects = effects * sd[..., None, :]
    if f"known_{g}" in values:
        effects = np.linalg.cholesky(np.asarray(values[f"known_{g}"], dtype=float)) @ effects
    if f"Z_{g}" not in values:
        effects = effects[..., 0]
    return {**found, f"r_{g}": effects}


def _draw_by_levels(its: Group, values: Values, num: int, rng: Generator) -> Draws:
    """Draw effects whose covariance depends on the level of a factor."""
    g, level = its.name, np.asarray(values[f"by_{its.name}"]) - 1
    size, levels = int(values.get(f"M_{g}", 1)), int(values[f"N_by_{g}"])
    if its.given:
        sd = _draw_given_of_levels(its, values, num, rng).reshape(1, num, levels, size)
    else:
        sd = np.abs(rng.standard_t(3, (1, num, levels, size))) * values[f"sd_{g}_scale"]
    z, found = rng.normal(size=(1, num, len(level), size)), dict[str, FloatArray]()
    if its.pairs:
        factor = _draw_correlations(size, values[f"cor_{g}_eta"], num * levels, rng)
        factor = factor.reshape(1, num, levels, size, size)
        correlation = factor @ np.swapaxes(factor, -1, -2)
        found[f"cor_{g}"] = correlation[..., *np.triu_indices(size, 1)]
        z = (factor[:, :, level] @ z[..., None])[..., 0]
    effects = sd[:, :, level] * z
    if f"Z_{g}" not in values:
        sd, effects = sd[..., 0], effects[..., 0]
    return {f"sd_{g}": sd, **found, f"r_{g}": effects}


def _draw_given_of_levels(its: Group, values: Values, num: int, rng: Generator) -> FloatArray:
    """Draw the sds of all levels as one vector; the user gives some, or all, of their priors."""
    own = _scales_of_levels(its)
    scales = np.ravel(values.get(f"sd_{its.name}_scale", ()))
    scales = scales[np.searchsorted(sorted(set(own)), own)]
    sd = np.abs(rng.standard_t(3, (1, num, len(own)))) * scales
    return with_given_draws(sd, its.given, 0.0, rng)


def _draw_with_covariance(its: Group, values: Values, num: int, rng: Generator) -> Draws:
    """Draw effects with a known covariance."""
    g, sd = its.name, _draw_sds(its, values, num, rng)
    factor = np.linalg.cholesky(np.asarray(values[f"known_{g}"], dtype=float))
    return {f"sd_{g}": sd, f"r_{g}": sd * (rng.normal(size=(1, num, len(factor))) @ factor.T)}


def _draw_student(its: Group, values: Values, num: int, rng: Generator) -> Draws:
    """Draw effects with a Student t distribution."""
    g, index, sd = its.name, its.index, _draw_sds(its, values, num, rng)
    df = np.zeros((1, num))
    while (low := df < 1).any():
        df[low] = rng.gamma(values[f"df_{g}_alpha"], 1 / values[f"df_{g}_beta"], int(low.sum()))
    if f"Z_{g}" in values:
        found = _draw(its, values, num, rng)
        chi = rng.chisquare(df[..., None], (1, num, int(values[f"N_{index}"])))
        found[f"r_{g}"] = found[f"r_{g}"] * np.sqrt(df[..., None] / chi)[..., None]
        return {**found, f"df_{g}": df}
    t = rng.standard_t(df[..., None], (1, num, int(values[f"N_{index}"])))
    return {f"sd_{g}": sd, f"df_{g}": df, f"r_{g}": sd * t}


def _factor_of(prior: PriorDensity, num: int, rng: Generator) -> FloatArray:
    """Draw the Cholesky factors of correlation matrices of two effects."""
    assert prior.draw is not None  # it is proper
    return _factor_at(prior.draw(rng, (1, num)))


def _factor_at(correlation: FloatArray) -> FloatArray:
    """Return the Cholesky factors of correlation matrices of two effects."""
    factor = np.zeros((*correlation.shape, 2, 2))
    factor[..., 0, 0] = 1
    factor[..., 1, 0] = correlation
    factor[..., 1, 1] = np.sqrt(1 - correlation**2)
    return factor


def _draw_given_correlations(
    its: Group, size: int, eta: float, num: int, rng: Generator
) -> FloatArray:
    """Draw Cholesky factors of correlation matrices; the user gives the priors of some elements."""
    pairs = list(itertools.combinations(range(size), 2))
    given = {
        pair: prior.density(-1.0, 1.0)
        for pair, prior in zip(pairs, its.given_correlations or (None,) * len(pairs), strict=True)
        if prior is not None
    }
    if not given:
        return _draw_correlations(size, eta, num, rng)
    # The effect that the given correlations share comes first, so they are in the first column.
    first = next(i for i in range(size) if all(i in pair for pair in given))
    order = [first, *(i for i in range(size) if i != first)]
    column = dict[int, FloatArray]()
    for pair, prior in given.items():
        assert prior.draw is not None  # it is proper
        column[order.index(sum(pair) - first)] = prior.draw(rng, (1, num))
    factor = _draw_correlations(size, eta, num, rng, column)
    back = np.argsort(order)
    correlation = (factor @ np.swapaxes(factor, -1, -2))[..., back, :][..., back]
    return np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)


def _draw_correlations(
    size: int, eta: float, num: int, rng: Generator, column: Mapping[int, FloatArray] | None = None
) -> FloatArray:
    """Draw Cholesky factors of correlation matrices from the LKJ distribution.

    The factors are built from partial correlations, beta draws on (-1, 1). Known correlations
    with the first effect are in `column`, by the position of the other effect.
    """
    factor = np.zeros((1, num, size, size))
    for i in range(size):
        left = np.ones((1, num))
        for j in range(i):
            shape = eta + (size - 2 - j) / 2
            partial_correlation = 2 * rng.beta(shape, shape, (1, num)) - 1
            if column and j == 0:
                partial_correlation = column.get(i, partial_correlation)
            factor[..., i, j] = partial_correlation * np.sqrt(left)
            left = left - factor[..., i, j] ** 2
        factor[..., i, i] = np.sqrt(left)
    return factor
