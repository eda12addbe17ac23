"""The declaration of a formula's parts: sources of data, priors, and meanings of names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyflowers.programs.families import Family
from pyflowers.programs.formulas.grammar import Formula
from pyflowers.programs.formulas.part import (
    ETA,
    Number,
    Part,
    joined,
    merged,
    predictors_first,
    summands,
    targets,
)
from pyflowers.programs.formulas.response import ResponseTerms, parameters_predicted
from pyflowers.programs.formulas.writer import equation


def declaration_of(
    formula: Formula, family: Family, parts: Sequence[Part], *, priors: str = "", sha256: str
) -> dict[str, Any]:
    """Return the declaration of a formula's program.

    Parameters
    ----------
    formula, family : Formula, Family
        The formula and the family of its response.
    parts : sequence of Part
        The parts of its model.
    priors : str
        The name of the default priors.
    sha256 : str
        The digest of the program.
    """
    about = {"text": formula.text, "family": family.title, "priors": priors, "sha256": sha256}
    in_tables = predictors_first(parts)
    groups = [its.group for its in formula.groups if not its.members]
    roles: dict[str, Any] = {"group": next(iter(groups), formula.terms.gr)}
    if formula.terms.omits_missing:
        roles["omit_missing"] = list(formula.observed)
    numbers = merged(in_tables, "numbers")
    found: dict[str, Any] = {
        "title": f"{formula.text} ({family.title})",
        "equation": equation(formula, family, parts),
        "story": " ".join(part.story for part in parts if part.story),
        "omit": joined(parts, "omit"),
        "formula": _without_empty(about),
        "table": _without_empty(roles),
        "data": merged(parts, "sources"),
        "dims": merged(parts, "dims"),
        "coords": merged(parts, "coords"),
        "priors": {name: _prior(number) for name, number in numbers.items()},
        "parameters": _parameters(in_tables),
        "prediction": prediction_of(formula.terms, family, parts),
    }
    return _without_empty(found)


def prediction_of(terms: ResponseTerms, family: Family, parts: Sequence[Part]) -> dict[str, Any]:
    """Return ``[prediction]``: how the program predicts rows of another table."""
    sums = {ETA: "0"}
    for target in targets(parts):
        sums[target] = " + ".join(summands(parts, target, "predicted")) or "0"
    linear = sums.pop(ETA)
    where = {target.name: target.of(total) for target, total in sums.items()}
    found = {
        "family": family.text,
        "linear_predictor": linear,
        "effects": merged(parts, "effects"),
        "where": parameters_predicted(terms, where),
        "response": list(terms.variables),
    }
    return _without_empty(found)


def _prior(number: Number) -> dict[str, Any]:
    """Return the declaration of a hyperparameter."""
    found: dict[str, Any] = {"value": number.value}
    if number.is_positive:
        found["above"] = 0.0
    return found | {"description": number.meaning}


def _parameters(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the entries of ``[parameters]``; effects of labels, which can be many, come last."""
    found, of_labels = merged(parts, "meanings"), merged(parts, "effects")
    last = {name: found.pop(name) for name in of_labels}
    return found | last


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without its empty entries."""
    return {key: value for key, value in values.items() if value not in ({}, [], "")}


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
