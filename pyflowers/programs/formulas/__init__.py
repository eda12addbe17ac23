"""Ordinary Stan programs, with their declarations, written from formulas.

>>> import pandas as pd, pyflowers
>>> frame = pd.read_csv("data/flowers.csv")
>>> program = pyflowers.Program.from_formula("flowers ~ 1 + (1 | plant)", frame, family="poisson")
>>> print(program.source.text.splitlines()[1])
 * flowers ~ 1 + (1 | plant)

A formula passes through these modules: `grammar` parses it, `model` combines it with the table, and
`predictor` adds priors and parametrisations. `parts` lists the parts of the model, from which
`writer` writes the program and `declared` its declaration. `checks` rejects models that the data do
not identify, and writes notes for users before sampling.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from pyflowers.data import Table
from pyflowers.errors import ConfigError
from pyflowers.programs.declaration import PredictionRule
from pyflowers.programs.densities import read_stated
from pyflowers.programs.families import find_family
from pyflowers.programs.formulas.checks import check_model
from pyflowers.programs.formulas.declared import declaration_of, prediction_of, to_toml
from pyflowers.programs.formulas.given import stated_priors, with_stated
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.formulas.model import (
    Model,
    known_covariance,
    with_filled,
    with_given_levels,
)
from pyflowers.programs.formulas.parts import parts_of
from pyflowers.programs.formulas.predictor import linear_predictors
from pyflowers.programs.formulas.priors import auxiliary_parameters, find_default_priors
from pyflowers.programs.formulas.response import family_with
from pyflowers.programs.formulas.writer import write_program

__all__ = ["digest_of", "name_of", "to_toml", "write_formula"]


def write_formula(
    text: str,
    table: Table,
    family: str = "gaussian",
    *,
    drop_missing: bool = False,
    centered: bool | Mapping[str, bool] | None = None,
    default_priors: str | None = None,
    known: Mapping[str, Any] | None = None,
    given: Mapping[str, str] | None = None,
) -> tuple[str, str, dict[str, Any]]:
    """Write a program for a formula and a table.

    Parameters
    ----------
    text : str
        The formula.
    table : Table
        The table, which determines the scales of the priors.
    family : str
        The family of the response.
    drop_missing : bool
        Whether to leave out rows with missing values; otherwise, missing values are an error.
    centered : bool or mapping of str to bool, optional
        Whether the group effects are sampled in the centred parametrisation, for all groups or by
        group. Default: chosen from the data.
    default_priors : str, optional
        ``brms`` for the default priors of brms.
    known : mapping of str to path or DataFrame, optional
        Known covariances of labels, for terms such as ``(1 | gr(g, cov=A))``.
    given : mapping of str to str, optional
        Priors to use instead of the defaults, such as ``{"b[x]": "normal(0.5, 0.2)"}``.

    Returns
    -------
    name : str
        A file name for the program, without extension.
    text : str
        The program.
    declaration : dict
        Its declaration.

    Raises
    ------
    ConfigError
        If the formula, the family or the parametrisation cannot be used.
    DataError
        If the formula cannot be fitted to the data.
    """
    formula = parse(text)
    about = family_with(formula.terms, find_family(family), formula.text)
    priors = find_default_priors(default_priors)
    frames = {name: known_covariance(name, its) for name, its in (known or {}).items()}
    for name in frames:
        if all(term.covariance != name for term in formula.all_groups):
            raise ConfigError(
                f"known {name}: no term of the formula names {name}; write "
                f"(1 | gr(g, cov={name})), or leave it out"
            )
    table = with_given_levels(formula, table)
    if formula.terms.omits_missing:
        own = [name for name in formula.observed if name in table.columns]
        table = table.without_missing(own, drop=True)
    columns = Model(formula, about, table, known=frames).of_categories().all_columns
    imputed = {each.predicts for each in formula.imputed}
    complete = [name for name in columns if name not in imputed]
    kept = with_filled(formula, table.without_missing(complete, drop=drop_missing))
    model = Model(formula, about, kept, known=frames).of_categories()
    formula, about = model.formula, model.family
    check_model(model, priors)
    if isinstance(centered, bool):
        others = (*model.parameters, *model.imputed)
        of_parameters = (its.name for each in others for its in each.effects)
        named = (*(term.group for term in formula.groups), *of_parameters)
        centered = dict.fromkeys(named, centered)
    stated = stated_priors(given or {}, model)
    linear = linear_predictors(model, priors, centered or {}, stated)
    auxiliary = with_stated(auxiliary_parameters(about, priors, model), stated)
    parts = parts_of(model, linear, auxiliary)
    if not any(part.parameters for part in parts):
        raise ConfigError(
            f"formula {text!r}: its priors fix every parameter, so there is nothing to sample; "
            "give one parameter a density"
        )
    program = write_program(formula, about, parts, rows=linear[0].rows, note=priors.note)
    digest = digest_of(
        program, PredictionRule.model_validate(prediction_of(formula.terms, about, parts))
    )
    declared = declaration_of(formula, about, parts, priors=priors.name, sha256=digest)
    if given:
        declared["formula"] |= {
            "given": {name: str(read_stated(name, its)) for name, its in given.items()},
            "stated": {place: str(its) for place, its in stated.items()},
        }
    return name_of(text, family), program, declared


_SIGNS = {
    "||": "apart",
    "<=": "upto",
    ">=": "from",
    "==": "is",
    "!=": "not",
    "<": "below",
    ">": "above",
    "^": "power",
    "**": "power",
    "*": "times",
    ":": "by",
    "/": "over",
    "-": "minus",
    ";": "with",
}
"""Words for the marks that distinguish formulas with the same columns."""


def digest_of(program: str, rule: PredictionRule | None) -> str:
    """Return the digest that shows whether a program and its ``[prediction]`` are unedited."""
    how = ""
    if rule is not None:
        # A key that a formula does not use must not change the digest of its program.
        unused = {name for name in ("censored", "response") if not getattr(rule, name)}
        how = rule.model_dump_json(exclude=unused)
    return hashlib.sha256(f"{program}\0{how}".encode()).hexdigest()


def name_of(text: str, family: str) -> str:
    """Return the name of a formula's program: its words, and the family unless it is gaussian."""
    for sign, word in _SIGNS.items():
        text = text.replace(sign, f" {word} ")
    name = "_".join(re.findall(r"[A-Za-z0-9]+", text))
    if len(name) > 60 or re.search(r"[^\W_]", re.sub(r"[A-Za-z0-9]", "", text)):
        name = f"{name[:52].strip('_')}_{hashlib.sha256(text.encode()).hexdigest()[:7]}"
    if not name[:1].isalpha():
        name = f"formula_{name}"
    if family != "gaussian":
        name = "_".join([name, *re.findall(r"\w+", family)])
    return name
