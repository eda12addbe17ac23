"""Writing the Stan program of a model, with comments and in the format of ``stanc``."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable

from pyflowers.programs.families import Auxiliary
from pyflowers.programs.formulas.model import Effects, Model

WIDTH = 78
"""Characters per line, as in ``stanc --auto-format``."""


def write_program(model: Model) -> str:
    """Return the text of a model's Stan program."""
    blocks = {
        "functions": _lines(model.family.functions),
        "data": list(_data(model)),
        "transformed data": list(_transformed_data(model)),
        "parameters": list(_parameters(model)),
        "transformed parameters": list(_transformed_parameters(model)),
        "model": list(_model(model)),
        "generated quantities": list(_generated_quantities(model)),
    }
    parts = [_header(model)]
    for name, statements in blocks.items():
        if statements:
            body = "\n".join(line for each in statements for line in _broken(each))
            parts.append(f"{name} {{\n{textwrap.indent(body, '  ')}\n}}")
    return "\n".join(parts) + "\n"


def equation(model: Model) -> str:
    """Return the model of an observation as an equation in one line."""
    terms = "eta = " + " + ".join(_names(model))
    return f"{model.family.equation.format(y=model.formula.response)}, {terms}"


def _names(model: Model) -> Iterable[str]:
    """Yield the parts of the linear predictor as they are shown to a reader."""
    if model.has_intercept and not model.family.is_ordinal:
        yield "Intercept"
    if model.population:
        yield "X b"
    yield from (f"offset({each})" for each in model.offsets)
    for its in model.effects:
        yield f"r_{its.name}" if its.is_intercept else f"Z_{its.name} r_{its.name}"
    has_intercept = model.has_intercept and not model.family.is_ordinal
    if not (has_intercept or model.population or model.offsets or model.effects):
        yield "0"


def _header(model: Model) -> str:
    lines = [
        *textwrap.wrap(model.formula.text, 74),
        "",
        f"    {model.family.equation.format(y=model.formula.response)}",
        f"    eta = {' + '.join(_names(model))}",
    ]
    lines += [
        "",
        "Written by pyflowers from this formula; you may edit the program. Its .toml",
        "file states where its data come from and holds the numbers in its priors.",
    ]
    if model.brms_priors:
        lines += ["The priors are the defaults of brms: flat on b, and LKJ(1) on correlations."]
    lines = [line.replace("*/", "* /") for line in lines]  # */ would end the comment
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])


def _rows(model: Model) -> str:
    """Return the size of the linear predictor: N rows, or D cells of rows that share a value."""
    return "D" if model.cell else "N"


def _data(model: Model) -> Iterable[str]:
    formula, family, rows = model.formula, model.family, _rows(model)
    yield "int<lower=1> N; // observations"
    if family.is_ordinal:
        yield "int<lower=2> J; // ratings"
    kind, _, size = family.response.partition("[N]")
    declared = f"array[N]{size} y" if family.is_discrete else f"{kind}[N] y"
    yield f"{declared}; // {formula.response}"
    if formula.trials:
        yield f"array[N] int<lower=0> trials; // {formula.trials}"
    if model.cell:
        yield "int<lower=1> D; // cells: rows with the same covariates and groups"
        yield "array[N] int<lower=1, upper=D> cell; // cell of each observation"
    if model.population:
        yield "int<lower=1> K; // columns of X"
        yield f"matrix[{rows}, K] X; // {model.population.removeprefix('0 + ')}"
    if _is_shifted(model):
        yield "vector[K] X_mean; // the columns' means, where the intercept has its prior"
    if model.is_adjusted:
        yield "matrix[K, K] adjustment; // X_adjusted: each column less its fit by earlier ones"
    for i, expression in enumerate(model.offsets):
        yield f"vector[{rows}] offset_{i + 1}; // offset({expression})"
    for its in model.effects:
        name = its.name
        yield f"int<lower=1> N_{name}; // labels of {its.term.group}"
        yield f"array[{rows}] int<lower=1, upper=N_{name}> {name}; // {its.term.group}"
        if not its.is_intercept:
            yield f"int<lower=1> M_{name}; // effects by {its.term.group}"
            yield f"matrix[{rows}, M_{name}] Z_{name}; // {its.term.effects}"
        if its.within:
            outer = its.within
            about = f"{outer} of each {its.term.group}"
            yield f"array[N_{name}] int<lower=1, upper=N_{outer}> outer_{name}; // {about}"
        about = f"1: sample r_{name}; 0: sample it standardised"
        yield f"int<lower=0, upper=1> centered_{name}; // {about}"
    for name, (_, meaning) in model.priors.items():
        if "[" not in name:
            bound = "" if name == "Intercept_location" else "<lower=0>"
            yield f"real{bound} {name}; // {meaning}"
    if model.population and not model.brms_priors:
        yield f"vector<lower=0>[K] b_scale; // sds of the normal priors on {_coefficients(model)}"
    for its in model.effects:
        if has_scales(model, its):
            about = f"scales of the half-t priors on the sds of effects by {its.term.group}"
            yield f"vector<lower=0>[M_{its.name}] sd_{its.name}_scale; // {about}"
    yield "int<lower=0, upper=1> prior_only; // 1: draw from the prior"
    yield "array[N] int<lower=0, upper=1> held_out; // 1: not in the likelihood"
    yield "int<lower=0> N_pointwise; // N; or 0, with which log_lik and y_rep are empty"


def _is_shifted(model: Model) -> bool:
    """Whether the sampled intercept differs from the intercept at covariates of 0."""
    return model.has_intercept and bool(model.population)


def has_scales(model: Model, its: Effects) -> bool:
    """Whether the prior of a term's sds has a scale for each effect."""
    return not (its.is_intercept or model.brms_priors)


def _design(model: Model) -> str:
    """Return the name of the design matrix that the linear predictor uses."""
    if model.is_adjusted:
        return "X_adjusted"
    return "X_centered" if _is_shifted(model) else "X"


def _coefficients(model: Model) -> str:
    """Return the name of the coefficients that are sampled."""
    return "b_adjusted" if model.is_adjusted else "b"


def _transformed_data(model: Model) -> Iterable[str]:
    if _is_shifted(model):
        rows = _rows(model)
        yield f"matrix[{rows}, K] X_centered = X - rep_matrix(X_mean', {rows});"
    if model.is_adjusted:
        columns = "X_centered" if _is_shifted(model) else "X"
        yield f"matrix[{_rows(model)}, K] X_adjusted = {columns} * adjustment;"
    if model.population:
        rows, design = _rows(model), _design(model)
        name = _coefficients(model)
        yield f"// The sampler moves each {name} in units that change eta by about 1."
        yield f"vector[K] b_unit = sqrt({rows} ./ columns_dot_self({design})');"
    if model.cell and model.family.totals is not None:
        yield from _lines(model.family.totals.stan)
        return
    yield "array[N - sum(held_out)] int kept; // the observations in the likelihood"
    yield "{"
    yield "  int count = 0;"
    yield "  for (n in 1 : N) {"
    yield "    if (held_out[n] == 0) {"
    yield "      count += 1;"
    yield "      kept[count] = n;"
    yield "    }"
    yield "  }"
    yield "}"


def _parameters(model: Model) -> Iterable[str]:
    if model.has_intercept and not model.family.is_ordinal:
        at = " // the linear predictor at the covariates' means" if _is_shifted(model) else ""
        yield f"real<offset=Intercept_location> {_intercept(model)};{at}"
    if model.population:
        about = f"effects of the columns of {'X_adjusted' if model.is_adjusted else 'X'}"
        yield f"vector<multiplier=b_unit>[K] {_coefficients(model)}; // {about}"
    for each in model.auxiliary:
        yield f"{each.declared} {_sampled(model, each)}; // {each.description}"
    for its in model.effects:
        name, num = its.name, "1" if its.is_intercept else f"M_{its.name}"
        yield f"vector<lower=0>[{num}] sd_{name}; // sds of the effects by {its.term.group}"
        if its.pairs:
            yield f"cholesky_factor_corr[{num}] L_{name}; // their correlations"
        if its.is_intercept:
            offset = ""
            if its.within:
                # Without to_vector, generated quantities of a compiled program would read freed
                # memory: Stan Math 4.9 keeps a reference to the temporary value of an offset that
                # is a vector expression (prim/fun/offset_multiplier_constrain.hpp).
                around = f"to_vector(-centered_{name} * r_{its.within}[outer_{name}])"
                offset = f"offset={around}, "
            elif anchor := _anchor(model, its):
                offset = f"offset=-centered_{name} * {anchor[0]}, "
            scale = f"multiplier=(centered_{name} ? 1 : sd_{name}[1])"
            yield f"vector<{offset}{scale}>[N_{name}] r_{name}; // effects"
        else:
            yield f"matrix[{num}, N_{name}] z_{name}; // effects: standardised, or with their means"


def _intercept(model: Model) -> str:
    return "Intercept_at_means" if _is_shifted(model) else "Intercept"


def _sampled(model: Model, each: Auxiliary) -> str:
    """Return the sampled name of an auxiliary parameter; thresholds are shifted like intercepts."""
    is_intercept = model.family.is_ordinal and each.name == "threshold"
    return f"{each.name}_at_means" if is_intercept and _is_shifted(model) else each.name


def _transformed_parameters(model: Model) -> Iterable[str]:
    if model.is_adjusted:
        yield "vector[K] b = adjustment * b_adjusted; // effects of the columns of X"
    for its in model.effects:
        if not its.is_intercept:
            name, at = its.name, _anchor(model, its)
            yield f"matrix[N_{name}, M_{name}] r_{name}; // effects"
            yield f"if (centered_{name}) {{"
            sums = f"(z_{name} - rep_matrix([{', '.join(at)}]', N_{name}))'"
            sampled = sums if at else f"z_{name}'"
            yield f"  r_{name} = {sampled};"
            yield "} else {"
            yield f"  r_{name} = ({_covariance_factor(its)} * z_{name})';"
            yield "}"
    yield "real lprior = 0; // log density of the priors, without that of the groups' effects"
    if model.has_intercept and not model.family.is_ordinal:
        yield _prior(_intercept(model), INTERCEPT_PRIOR)
    if model.population and not model.brms_priors:
        yield _prior(_coefficients(model), COEFFICIENT_PRIOR)
    for each in model.auxiliary:
        yield _prior(_sampled(model, each), auxiliary_prior(each))
    for its in model.effects:
        yield _prior(f"sd_{its.name}", effects_prior(its))
        if its.pairs:
            yield _prior(f"L_{its.name}", f"lkj_corr_cholesky(cor_{its.name}_eta)")


def _anchor(model: Model, its: Effects) -> list[str]:
    """Return the centre of the effects of a centred term; empty if it is 0.

    The centre consists of the population's coefficients. Its intercept applies where the covariates
    in the term are 0 and all others have their means (Gelfand, Sahu and Carlin 1995, Biometrika
    82(3), section 2).
    """
    columns = model.population_design[1]
    places = {name: columns.index(name) + 1 for name in its.effects if name in columns}
    found = []
    for effect in its.effects if its.anchored else ():
        at = f"b[{places[effect]}]" if effect in places else "0"
        if effect == "Intercept":
            shifts = (f"X_mean[{i}] * b[{i}]" for i in places.values())
            at = " - ".join([_intercept(model), *(shifts if _is_shifted(model) else ())])
        found.append(at if effect in its.anchored else "0")
    return found


def _covariance_factor(its: Effects) -> str:
    name = its.name
    return f"diag_pre_multiply(sd_{name}, L_{name})" if its.pairs else f"diag_matrix(sd_{name})"


INTERCEPT_PRIOR = "student_t(3, Intercept_location, Intercept_scale)"
COEFFICIENT_PRIOR = "normal(0, b_scale)"


def auxiliary_prior(each: Auxiliary) -> str:
    """Return the prior of an auxiliary parameter in terms of its hyperparameters' names."""
    return each.prior.format(**{key: f"{each.name}_{key}" for key in each.values})


def effects_prior(its: Effects) -> str:
    """Return the prior of the standard deviations of a group's effects."""
    return f"student_t(3, 0, sd_{its.name}_scale)"


def _prior(parameter: str, distribution: str) -> str:
    name, _, arguments = distribution.partition("(")
    return f"lprior += {name}_lpdf({parameter} | {arguments};"


def _predictor(model: Model) -> str:
    """Return the statement that computes the linear predictor of each row, or of each cell."""
    rows, parts = _rows(model), list[str]()
    if model.has_intercept and not model.family.is_ordinal:
        parts.append(_intercept(model))
    if model.population:
        parts.append(f"{_design(model)} * {_coefficients(model)}")
    parts += [f"offset_{i + 1}" for i in range(len(model.offsets))]
    for its in model.effects:
        row = f"r_{its.name}[{its.name}]"
        parts.append(row if its.is_intercept else f"rows_dot_product({row}, Z_{its.name})")
    if not parts or parts == [_intercept(model)]:
        parts = [f"rep_vector({parts[0] if parts else 0}, {rows})"]
    return f"vector[{rows}] eta = {' + '.join(parts)};"


def _distribution(model: Model, template: str, eta: str, row: str) -> str:
    """Return a distribution, given `eta`, with the names of the sampled parameters."""
    text = template.format(eta=eta, trials=f"trials[{row}]")
    for each in model.auxiliary:
        if (sampled := _sampled(model, each)) != each.name:
            text = text.replace(each.name, sampled)
    return text


def _model(model: Model) -> Iterable[str]:
    yield "target += lprior;"
    for its in model.effects:
        name = its.name
        if its.is_intercept:
            yield f"r_{name} ~ normal(0, sd_{name}[1]);"
            continue
        yield f"if (centered_{name}) {{"
        if its.pairs:
            yield f"  matrix[M_{name}, M_{name}] factor;"
            yield f"  factor = {_covariance_factor(its)};"
            yield f"  for (j in 1 : N_{name}) {{"
            yield f"    r_{name}[j]' ~ multi_normal_cholesky(zeros_vector(M_{name}), factor);"
            yield "  }"
        else:
            yield f"  for (m in 1 : M_{name}) {{"
            yield f"    r_{name}[ : , m] ~ normal(0, sd_{name}[m]);"
            yield "  }"
        yield "} else {"
        yield f"  to_vector(z_{name}) ~ std_normal();"
        yield "}"
    yield "if (prior_only == 0) {"
    yield f"  {_predictor(model)}"
    if model.cell and model.family.totals is not None:
        yield from (f"  {line}" for line in _lines(model.family.totals.statement))
    elif model.family.is_looped:
        yield "  for (n in kept) {"
        yield f"    y[n] ~ {_distribution(model, model.family.stan, 'eta[n]', 'n')};"
        yield "  }"
    else:
        name = _distribution(model, model.family.stan, "eta[kept]", "kept")
        yield f"  y[kept] ~ {name};"
    yield "}"


def _generated_quantities(model: Model) -> Iterable[str]:
    family = model.family
    if _is_shifted(model) and not family.is_ordinal:
        yield "real Intercept = Intercept_at_means - dot_product(X_mean, b);"
    if _is_shifted(model) and family.is_ordinal:
        yield "vector[J - 1] threshold = threshold_at_means + dot_product(X_mean, b);"
    for its in model.effects:
        if its.pairs:
            num = len(its.pairs)
            yield f"vector[{num}] cor_{its.name}; // correlations of the effects"
    yield "vector[N_pointwise] log_lik;"
    yield ("array[N_pointwise] int y_rep;" if family.is_discrete else "vector[N_pointwise] y_rep;")
    for its in model.effects:
        if its.pairs:
            yield "{"
            yield (
                f"  matrix[M_{its.name}, M_{its.name}] correlation = "
                f"multiply_lower_tri_self_transpose(L_{its.name});"
            )
            places = itertools.combinations(range(1, len(its.effects) + 1), 2)
            for num, (i, j) in enumerate(places, 1):
                yield f"  cor_{its.name}[{num}] = correlation[{i}, {j}];"
            yield "}"
    eta = "eta[cell[n]]" if model.cell else "eta[n]"
    density, _, arguments = _distribution(model, family.stan, eta, "n").partition("(")
    kind = "lpmf" if family.is_discrete else "lpdf"
    yield "if (N_pointwise > 0) {"
    yield f"  {_predictor(model)}"
    yield "  for (n in 1 : N) {"
    yield f"    log_lik[n] = {density}_{kind}(y[n] | {arguments};"
    yield f"    y_rep[n] = {_distribution(model, family.rng, eta, 'n')};"
    yield "  }"
    yield "}"


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines()


def _broken(line: str) -> list[str]:
    """Break a line that is too long where stanc would: at a sum, a product or an argument."""
    code, slashes, comment = line.partition(" //")
    if len(code) + 2 <= WIDTH or (" | " in code and "lp" in code):  # stanc never wraps a density
        return [line]
    assigned = re.search(r"^ +(?=[+-] )| (?:\+?=|~) ", code)
    start = assigned.end() if assigned else 0
    depth = _depths(code)
    sums = [
        i for i in range(start, len(code)) if not depth[i] and code[i : i + 3] in (" + ", " - ")
    ]
    choice = [i for i in range(start, len(code)) if not depth[i] and code[i : i + 3] == " : "]
    places = sums or choice
    if code.lstrip().startswith("vector<offset"):
        at, margin = [code.index(", ") + 2], code.index("<") + 1
    elif places:
        at, margin = [i + 1 for i in places], start
    else:
        inside = range(start, len(code))
        products = [i + 1 for i in inside if code[i : i + 3] == " * " and depth[i] == 1]
        commas = [i + 2 for i in inside if code[i : i + 2] == ", " and depth[i] == 1]
        at, margin = commas or products, code.find("(", start) + 1
    fitting = [i for i in at if i + 2 <= WIDTH] or at[:1]
    if not fitting:
        return [line]
    end = fitting[-1] if not choice or sums else at[0]
    first, rest = code[:end].rstrip(), " " * margin + code[end:]
    return [first, *_broken(rest + slashes + comment)]


def _depths(code: str) -> list[int]:
    """Return the number of brackets around each character."""
    found, depth = [], 0
    for mark in code:
        depth -= mark in ")]"
        found.append(depth)
        depth += mark in "(["
    return found
