"""The declaration of a model: the sources of its data, its priors, and what quantities mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyflowers.programs.families import ZI
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.writer import (
    COEFFICIENT_PRIOR,
    INTERCEPT_PRIOR,
    auxiliary_prior,
    effects_prior,
    equation,
    has_scales,
)
from pyflowers.programs.terms import read_terms
from pyflowers.text import in_words


def declaration_of(model: Model, sha256: str) -> dict[str, Any]:
    """Return the declaration of a model's program, given its digest."""
    formula, family = model.formula, model.family
    found: dict[str, Any] = {
        "title": f"{formula.text} ({family.name})",
        "equation": equation(model),
        "story": _story(model),
        "omit": _omitted(model),
        "formula": {
            "text": formula.text,
            "family": family.name,
            **({"priors": "brms"} if model.brms_priors else {}),
            "sha256": sha256,
        },
        "table": {"group": formula.groups[0].group} if formula.groups else {},
        "data": _data(model),
        "dims": {
            **({"b": ["X"]} if model.population else {}),
            **({"b_scale": ["X"]} if model.population and not model.brms_priors else {}),
            **({"b_adjusted": ["X"]} if model.is_adjusted else {}),
            **{
                f"sd_{its.name}_scale": [f"effects_{its.name}"]
                for its in model.effects
                if has_scales(model, its)
            },
            **{f"sd_{its.name}": [f"effects_{its.name}"] for its in model.effects},
            **{f"cor_{its.name}": [f"pairs_{its.name}"] for its in model.effects if its.pairs},
            **{
                f"r_{its.name}": [its.term.group, f"effects_{its.name}"][: 2 - its.is_intercept]
                for its in model.effects
            },
        },
        "coords": {
            **{f"effects_{its.name}": list(its.effects) for its in model.effects},
            **{f"pairs_{its.name}": list(its.pairs) for its in model.effects if its.pairs},
        },
        "priors": {
            name: {
                "value": value,
                **({} if name == "Intercept_location" else {"above": 0.0}),
                "description": meaning,
            }
            for name, (value, meaning) in model.priors.items()
        },
        "parameters": _parameters(model),
        "prediction": prediction_of(model),
    }
    return {key: value for key, value in found.items() if value not in ({}, [], "")}


def prediction_of(model: Model) -> dict[str, Any]:
    """Return ``[prediction]``: how the program predicts rows of another table."""
    terms = ["Intercept"] if model.has_intercept and not model.family.is_ordinal else []
    terms += ["X * b"] if model.population else []
    terms += [f"offset_{i + 1}" for i in range(len(model.offsets))]
    effects = {}
    for its in model.effects:
        name, of_row = its.name, f"r_{its.name}[{its.name}]"
        terms.append(of_row if its.is_intercept else f"rows_dot_product(Z_{name}, {of_row})")
        one, several = f"normal(0, sd_{name}[1])", f"multi_normal(sd_{name}, cor_{name})"
        apart = several if its.pairs else f"multi_normal(sd_{name})"
        effects[f"r_{name}"] = one if its.is_intercept else apart
    found = {
        "family": model.family.name,
        "linear_predictor": " + ".join(terms) or "0",
        "effects": effects,
    }
    return {key: value for key, value in found.items() if value}


def _story(model: Model) -> str:
    """Return a description of the model in sentences."""
    family, formula = model.family, model.formula
    about = f"the {family.name} family with the {family.link} link"
    parts = [f"{formula.response} is modelled by {about}."]
    if model.population:
        names = model.population_design[1]
        parts.append(f"Its linear predictor includes {_list(names)} for the whole population.")
    for its in model.effects:
        kind = "a multivariate normal distribution" if its.pairs else "normal distributions"
        one = len(its.effects) == 1
        parts.append(
            f"{_list(its.effects)} {'varies' if one else 'vary'} by {its.term.group}, with "
            f"{'a normal distribution' if one else kind}."
        )
    return " ".join(parts)


def _list(names: tuple[str, ...]) -> str:
    if len(names) > 6:
        return f"{len(names)} effects"
    return in_words(names)


def _omitted(model: Model) -> list[str]:
    names = []
    if model.has_intercept and model.population:
        names.append("threshold_at_means" if model.family.is_ordinal else "Intercept_at_means")
    names += ["b_adjusted"] if model.is_adjusted else []
    for its in model.effects:
        names += [] if its.is_intercept else [f"z_{its.name}"]
        names += [f"L_{its.name}"] if its.pairs else []
    return names


def _data(model: Model) -> dict[str, dict[str, Any]]:
    """Return the source of each variable of the data block."""
    formula, found = model.formula, dict[str, dict[str, Any]]()
    per = {"per": model.cell} if model.cell else {}

    def terms(text: str) -> dict[str, Any]:
        levels = {name: list(its) for name, its in model.levels(text).items()}
        found = {"terms": text, **per, "levels": levels, "state": model.state(text)}
        return {key: value for key, value in found.items() if value}

    found["y"] = {"column": formula.response}
    if model.family.is_ordinal:
        found["y"] |= {"index": True, "order": model.order_of_ratings}
    if formula.trials:
        is_number = formula.trials.isdecimal()
        found["trials"] = (
            {"value": int(formula.trials)} if is_number else {"column": formula.trials}
        )
    if model.cell:
        found["cell"] = {"column": model.cell, "index": True}
    if model.population:
        found["X"] = terms(model.population)
    if model.population and model.has_intercept:
        means = model.population_design[0].mean(axis=0)
        found["X_mean"] = {"value": [float(f"{mean:.12g}") for mean in means]}
    if model.coefficients is not None and model.coefficients.adjustment is not None:
        found["adjustment"] = {"value": model.coefficients.adjustment.tolist()}
    for i, expression in enumerate(model.offsets):
        found[f"offset_{i + 1}"] = terms(f"0 + {expression}")
    for its in model.effects:
        found[its.name] = {"column": its.term.group, "index": True, **per}
        if not its.is_intercept:
            found[f"Z_{its.name}"] = terms(read_terms(its.term.effects).text)
        if its.within:
            outer = next(other for other in model.effects if other.name == its.within)
            found[f"outer_{its.name}"] = {
                "column": outer.term.group,
                "index": True,
                "per": its.term.group,
            }
        found[f"centered_{its.name}"] = {"value": int(its.centered)}
    for name in ("prior_only", "held_out"):
        found[name] = {"value": 0}
    found["N_pointwise"] = {"size": "obs"}
    return found


def _parameters(model: Model) -> dict[str, dict[str, Any]]:
    """Return the meanings of the quantities, and their priors."""
    family, found = model.family, dict[str, dict[str, Any]]()
    y = model.formula.response
    excess = " without excess zeros" if ZI in family.auxiliary else ""
    of_y = {
        "identity": f"expected {'log ' if family.scale == 'log' else ''}{y}",
        "log": f"log of the expected {y}{excess}",
        "logit": f"log odds of {'a higher ' if family.is_ordinal else ''}{y}",
    }[family.link]
    is_shifted = model.has_intercept and bool(model.population)
    if model.has_intercept and not family.is_ordinal:
        found["Intercept"] = {"description": f"{of_y} where every term is 0"}
        found["Intercept_at_means" if is_shifted else "Intercept"] = {
            "description": f"{of_y} where the terms have their means",
            "prior": INTERCEPT_PRIOR,
        }
    if not is_shifted and "Intercept" in found:
        found["Intercept"]["description"] = (
            f"{of_y}{' in a typical group' if model.effects else ''}"
        )
    if model.population:
        prior = {} if model.brms_priors else {"prior": COEFFICIENT_PRIOR}
        own = {} if model.is_adjusted else prior
        found["b"] = {"description": f"effects on {of_y}", **own, "log_axis": False}
        if model.is_adjusted:
            about = f"effects on {of_y} of the adjusted columns"
            found["b_adjusted"] = {"description": about, **prior}
    for its in model.effects:
        found[f"sd_{its.name}"] = {
            "description": f"standard deviations of the effects by {its.term.group}",
            "prior": effects_prior(its),
        }
        if its.pairs:
            found[f"cor_{its.name}"] = {
                "description": f"correlations of the effects by {its.term.group}"
            }
    for each in model.auxiliary:
        found[each.name] = {"description": each.description}
        if family.is_ordinal and is_shifted:
            found[f"{each.name}_at_means"] = {
                "description": f"{each.description}, where the terms have their means"
            }
        if not family.is_ordinal:
            found[each.name]["prior"] = auxiliary_prior(each)
    for its in model.effects:
        found[f"r_{its.name}"] = {"description": f"effects of the labels of {its.term.group}"}
    return found


def to_toml(declaration: Mapping[str, Any]) -> str:
    """Return a declaration as the text of a TOML file."""
    return "\n".join(_toml(declaration)).strip() + "\n"


def _toml(declaration: Mapping[str, Any]) -> Iterator[str]:
    sections = {key: value for key, value in declaration.items() if isinstance(value, Mapping)}
    for key, value in declaration.items():
        if key not in sections:
            yield f"{key} = {_value(value)}"
    for section, values in sections.items():
        if section in ("priors", "parameters"):
            for name, its in values.items():
                yield f"\n[{section}.{_key(name)}]"
                yield from (f"{key} = {_value(value)}" for key, value in its.items())
        else:
            yield f"\n[{section}]"
            yield from (f"{_key(key)} = {_value(value)}" for key, value in values.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """Return a string in TOML's notation, which is JSON's except for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
