"""Formulas with more terms, for use in advice: curves, products and effects that vary by group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pyflowers.programs.formulas.grammar import (
    CurveTerm,
    Formula,
    FurtherFormula,
    GroupTerm,
    parse,
    split,
)
from pyflowers.programs.terms import quote

_NAME = r"`[^`]*`|[\w.]+"


def with_terms(text: str, terms: Sequence[str], parameter: str = "") -> str:
    """Return a formula with more terms, for the response or for another parameter of the family.

    Parameters
    ----------
    text : str
        The formula.
    terms : sequence of str
        The terms: ``x``, ``I(x**2)``, ``s(x)``, ``C(x)``, ``bs(x, df=4)``, ``x * z``, ``(x | g)``,
        ``(1 | g)``, ``ar(time = t, gr = g)``. A curve takes the place of a simpler one along the
        same column.
    parameter : str
        The parameter, such as ``sigma``; empty for the response.

    Examples
    --------
    >>> from pyflowers.programs.formulas.edits import with_terms
    >>> with_terms("y ~ x + sex + (1 | g)", ["(x | g)", "x * sex"])
    'y ~ x * sex + (x | g)'
    >>> with_terms("y ~ x + (1 | g)", ["x", "(1 | g)"], "sigma")
    'y ~ x + (1 | g); sigma ~ x + (1 | g)'
    """
    formula = parse(text)
    texts = {_left(each): each for each in split(text)}
    response = next(iter(texts))
    if not parameter:
        texts[response] = _added(response, formula, terms)
        return "; ".join(texts.values())
    known = formula.terms.that_gives(parameter)
    if known is not None and known.estimated is not None:
        texts[response] = known.estimated(texts[response])
    own = next((its for its in formula.parameters if its.predicts == parameter), None)
    if own is None:
        own = FurtherFormula("", parameter, "1", ())
    texts[parameter] = _added(parameter, own, terms)
    return "; ".join(texts.values())


def has_imputed(text: str, terms: Sequence[str]) -> bool:
    """Whether terms name a predictor that the formula imputes, which can be in no other term."""
    imputed = {each.predicts for each in parse(text).imputed}
    named = {name.strip("`") for term in terms for name in re.findall(_NAME, term)}
    return not imputed.isdisjoint(named)


def with_student_effects(text: str, column: str) -> str:
    """Return a formula in which the effects of a group have a Student t distribution.

    The result is empty if the group has options, or if no term has this group.
    """
    formula = parse(text)
    groups = [
        replace(its, is_student=True) if its.group == column else its for its in formula.groups
    ]
    changed = [its for its in formula.groups if its.group == column]
    if not changed or any(its.options for its in changed):
        return ""
    first, *others = split(text)
    left = _left(first)
    population = [*_population(formula), *formula.terms.series]
    found = _joined(left, population, formula.curves, groups)
    return "; ".join([found, *others])


def _left(text: str) -> str:
    """Return the left-hand side of a formula."""
    plain = re.sub(r"`[^`]*`", lambda match: "_" * len(match[0]), text)
    return text[: plain.index("~")].strip()


def _added(left: str, formula: Formula | FurtherFormula, terms: Sequence[str]) -> str:
    """Return the formula of the response, or of another parameter, with more terms."""
    groups, curves = list(formula.groups), list(formula.curves)
    population = _summands(formula.population)
    if isinstance(formula, Formula):
        population = [*_population(formula), *formula.terms.series]
    for term in terms:
        if of_group := re.fullmatch(r"\((.*) \| (.*)\)", term):
            groups = _with_effect(groups, of_group[1], of_group[2].replace("`", ""))
        elif of_curve := re.fullmatch(rf"s\(({_NAME}).*\)", term):
            x = of_curve[1]
            curves = [each for each in curves if each.argument != x or each.by]
            curves.append(CurveTerm("s", term, x))
            population = [each for each in population if not _is_along(each, x)]
        else:
            population = _with_term(population, term)
    return _joined(left, population, curves, groups)


def _population(formula: Formula) -> list[str]:
    """Return the terms of the population as the user writes them."""
    imputed = {each.predicts for each in formula.imputed}
    terms = _summands(formula.population)
    return [f"mi({each})" if each.strip("`") in imputed else each for each in terms]


def _with_effect(groups: list[GroupTerm], effect: str, column: str) -> list[GroupTerm]:
    """Return group terms with one more effect, which varies between the labels of a column."""
    found = [its for its in groups if its.group == column]
    if not found:
        return [*groups, GroupTerm(effect, column, correlated=True)]
    if effect == "1":
        return groups
    old = found[-1]
    effects = f"{old.effects} + {effect}"
    if old.effects.strip() == "1":
        effects = effect
    new = replace(old, effects=effects, by="", covariance="", is_student=False)
    return [new if its is old else its for its in groups]


def _with_term(population: list[str], term: str) -> list[str]:
    """Return a sum with one more term."""
    parts = term.split(" * ")
    calls = re.fullmatch(rf"(?:bs|C)\(({_NAME}).*\)", term)
    if term in population:
        return population
    if len(parts) == 2 and all(part in population for part in parts):
        made = [term if each == parts[0] else each for each in population]
        made.remove(parts[1])
        return made
    if len(parts) == 2:
        return [*population, ":".join(parts)]
    if calls is not None and any(calls[1] in each.split(" * ") for each in population):
        return [
            " * ".join(term if part == calls[1] else part for part in each.split(" * "))
            for each in population
        ]
    old = calls and f"bs({calls[1]},"
    return [*(each for each in population if not (old and each.startswith(old))), term]


def _is_along(term: str, x: str) -> bool:
    """Whether a term is a line or another curve along a column, and nothing else."""
    call = re.fullmatch(r"(?:I|C|bs|ns|poly|scale|center)\((.*)\)", term)
    names = re.findall(rf"(?:{_NAME})", call[1]) if call else []
    words = {name for name in names if re.match(r"[^\W\d]|`", name)} - {"df", "degree", "ref"}
    return term == x or words == {x}


def _joined(
    left: str, population: list[str], curves: Sequence[CurveTerm], groups: Sequence[GroupTerm]
) -> str:
    """Return a formula as text; an intercept is written only if it is the only term."""
    terms = [each for each in population if each != "1"]
    terms += [*map(str, curves), *map(_written, groups)]
    return f"{left} ~ {' + '.join(terms or ['1'])}"


def _written(term: GroupTerm) -> str:
    """Return a group term in which names are quoted where necessary."""
    group = ":".join(map(quote, term.columns))
    members, weights = (tuple(map(quote, its)) for its in (term.members, term.weights))
    by = quote(term.by) if term.by else ""
    return str(replace(term, group=group, by=by, members=members, weights=weights))


def _summands(population: str) -> list[str]:
    """Return the terms between the plus signs outside brackets and quotes."""
    found, depth, start, quoted = list[str](), 0, 0, False
    for i, mark in enumerate(population):
        quoted ^= mark == "`"
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "+" and not depth and not quoted:
            found.append(population[start:i])
            start = i + 1
    return [each.strip() for each in [*found, population[start:]]]
