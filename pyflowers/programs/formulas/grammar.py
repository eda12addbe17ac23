"""Parsing the text of a formula into response, population and groups; nothing is evaluated.

    response ~ population + s(x) + mo(x) + gp(x) + (effects | group) + (effects || group);
    parameter ~ …

Brackets with a bar, and curves, are extracted here. The remainder, and the part of each bracket
before its bar, are sums of terms for :mod:`pyflowers.programs.terms`. The formulas of other
parameters follow the formula of the response after semicolons, or on lines of their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyflowers.errors import ConfigError
from pyflowers.programs.families._response.term import NAME as _NAME
from pyflowers.programs.formulas.response import (
    ResponseTerms,
    read_terms_of_response,
    split_at,
    with_series,
)
from pyflowers.programs.terms import (
    LONGEST,
    OF_CURVES,
    SEVERAL,
    given_levels,
    hide_columns,
    read_terms,
    show_columns,
)
from pyflowers.text import counted, quoted

_RESPONSE = re.compile(rf"\s*({_NAME})\s*(?:\|(?!\|)(.*))?", re.DOTALL)
_GROUP = re.compile(rf"\s*{_NAME}\s*(?:[:/]\s*{_NAME}\s*)*")
_QUOTES = r"`[^`]*`|\"[^\"]*\"|'[^']*'"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class GroupTerm:
    """Effects that vary between the labels of a column.

    Attributes
    ----------
    effects : str
        The effects, as a sum of terms.
    group : str
        The column, or several columns joined by a colon for their combinations.
    correlated : bool
        Whether the effects of a label are correlated.
    is_merged : bool
        Whether the term was written as several terms.
    by : str
        The column whose levels have standard deviations and correlations of their own, in
        ``gr(g, by=f)``.
    covariance : str
        The name of the known covariance of the labels, in ``gr(g, cov=A)``.
    is_student : bool
        Whether the effects have a Student t distribution, in ``gr(g, dist=student)``.
    members : tuple of str
        The columns of a row's members, in ``mm(g1, g2)``; empty if a row has one label.
    weights : tuple of str
        The columns of the members' weights; empty if all members have the same weight.
    is_scaled : bool
        Whether the weights of a row are divided by their sum.
    """

    effects: str
    group: str
    correlated: bool
    is_merged: bool = False
    by: str = ""
    covariance: str = ""
    is_student: bool = False
    members: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    is_scaled: bool = True

    @property
    def columns(self) -> list[str]:
        """The columns whose combination is the group, or the columns of its members."""
        return list(self.members) or self.group.split(":")

    @property
    def others(self) -> list[str]:
        """The columns of weights, and the column in ``by=``."""
        return [*self.weights, *[self.by] * bool(self.by)]

    @property
    def is_plain(self) -> bool:
        """Whether each row has one label, and there are no options."""
        return not self.options and not self.members

    @property
    def options(self) -> list[str]:
        """The options in ``gr``, as they are written."""
        found = [f"by={self.by}"] if self.by else []
        found += [f"cov={self.covariance}"] if self.covariance else []
        return [*found, "dist=student"] if self.is_student else found

    def __str__(self) -> str:
        bar, group = "|" if self.correlated else "||", self.group
        if self.options:
            group = f"gr({', '.join([self.group, *self.options])})"
        if self.members:
            weights = [f"weights=cbind({', '.join(self.weights)})"] * bool(self.weights)
            scale = ["scale=FALSE"] * (not self.is_scaled)
            group = f"mm({', '.join([*self.members, *weights, *scale])})"
        return f"({self.effects} {bar} {group})"


@dataclass(frozen=True)
class CurveTerm:
    """A curve along a column: a smooth ``s``, a monotonic effect ``mo`` or a process ``gp``.

    Attributes
    ----------
    function : str
        The name of the function: ``s``, ``mo`` or ``gp``.
    call : str
        The call without `by`, which is also a term that gives the columns of the curve.
    argument : str
        The column, or the expression of a column, along which the curve runs.
    by : str
        The column of labels or numbers by which the curve varies; empty if there is none.
    """

    function: str
    call: str
    argument: str
    by: str = ""

    @property
    def terms(self) -> str:
        """The sum of terms with the columns of the curve."""
        if self.by:
            return f"0 + {self.call}:{self.by}"
        return f"0 + {self.call}"

    @property
    def is_periodic(self) -> bool:
        """Whether the curve has a period."""
        return "period=" in self.call

    def __str__(self) -> str:
        if self.by:
            return f"{self.call[:-1]}, by={self.by})"
        return self.call


@dataclass(frozen=True)
class FurtherFormula:
    """A formula that follows that of the response: ``sigma ~ x`` or ``x | mi() ~ z``.

    Attributes
    ----------
    text : str
        The formula.
    predicts : str
        The parameter of the family, or the column of the predictor that is imputed.
    population, groups, curves
        See :class:`Formula`.
    """

    text: str
    predicts: str
    population: str
    groups: tuple[GroupTerm, ...]
    curves: tuple[CurveTerm, ...] = ()


@dataclass(frozen=True)
class Formula:
    """A formula in parts.

    Attributes
    ----------
    text : str
        The formula, with the formulas of other parameters.
    response : str
        The column of the response.
    terms : ResponseTerms
        The terms after the response and a bar.
    population : str
        The sum of terms of the population; ``1`` if there are none.
    groups : tuple of GroupTerm
        The group terms.
    parameters : tuple of FurtherFormula
        The formulas of other parameters of the family.
    curves : tuple of CurveTerm
        The smooths, monotonic effects and processes.
    levels : tuple of str
        The labels of the response in their order, if they are given, as in
        ``C(y, levels=["low", "high"]) ~ x``.
    counted : tuple of str
        The columns of a response of counts, ``cbind(a, b, c)``; `response` is then this call.
    imputed : tuple of FurtherFormula
        The formulas of the predictors in ``mi(x)``; these are also plain terms of the population.
    """

    text: str
    response: str
    terms: ResponseTerms
    population: str
    groups: tuple[GroupTerm, ...]
    parameters: tuple[FurtherFormula, ...] = ()
    curves: tuple[CurveTerm, ...] = ()
    levels: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    imputed: tuple[FurtherFormula, ...] = ()

    def with_predictors(self, names: Sequence[str]) -> Formula:
        """Return the formula with a formula for the linear predictor of each category.

        Predictors without a formula of their own have the terms of the response.
        """
        text = split(self.text)[0]
        usual = {
            name: FurtherFormula(text, name, self.population, self.groups, self.curves)
            for name in names
        }
        own = {each.predicts: each for each in self.parameters}
        return replace(self, parameters=tuple({**usual, **own}.values()))

    def at(self, own: FurtherFormula) -> Formula:
        """Return the formula with the terms of one of the formulas that follow it."""
        return replace(
            self,
            text=own.text,
            population=own.population,
            groups=own.groups,
            curves=own.curves,
            parameters=(),
            imputed=(),
        )

    @property
    def all_groups(self) -> list[GroupTerm]:
        """The group terms of all linear predictors."""
        return [*self.groups, *(term for each in self.others for term in each.groups)]

    @property
    def others(self) -> list[FurtherFormula]:
        """The formulas after that of the response."""
        return [*self.parameters, *self.imputed]

    @property
    def observed(self) -> tuple[str, ...]:
        """The columns of the response."""
        return self.counted or (self.response,)

    @property
    def response_columns(self) -> list[str]:
        """The columns of the response and of its terms."""
        return list(dict.fromkeys((*self.observed, *self.terms.columns)))

    @property
    def trials(self) -> str:
        """The column with the number of trials, or a number; empty without ``| trials(n)``."""
        return self.terms.trials


def parse(text: str) -> Formula:
    """Parse a formula, and the formulas of other parameters that follow it.

    Raises
    ------
    ConfigError
        If it is not a formula; the message names the part that is wrong.
    """
    if len(text) > LONGEST:
        raise ConfigError(f"formula has more than {LONGEST} characters; shorten it")
    if re.match(r"\s*bf\(", text):
        raise ConfigError(
            f"formula {text!r}: bf() is not supported; leave it out, and join several formulas by "
            "semicolons, as in y ~ x; sigma ~ z"
        )
    first, *others = split(text)
    of_imputed = [each for each in others if _IMPUTED.match(each)]
    formula = _of_response(first, "; ".join([first, *others]))
    parameters = tuple(_of_parameter(each) for each in others if each not in of_imputed)
    formula = _with_imputed(formula, first, tuple(map(_of_imputed, of_imputed)))
    names = [each.predicts for each in parameters]
    for each in parameters:
        if names.count(each.predicts) > 1:
            raise ConfigError(
                f"formula {each.text!r}: {each.predicts} has two formulas; write all its terms "
                "in one"
            )
    return replace(formula, parameters=parameters)


def split(text: str) -> list[str]:
    """Return the formulas in a text: a semicolon, or a line with its own ~, begins another one.

    Each formula is returned on one line, with single blanks outside quotes.
    """
    found, start = list[str](), 0
    plain = _outside_quotes(text)
    for mark in re.finditer(r"[;\n]", plain):
        following = plain[mark.end() :].partition("\n")[0].partition(";")[0]
        if mark[0] == ";" or "~" in following:
            found.append(text[start : mark.start()])
            start = mark.end()
    found.append(text[start:])
    found = [re.sub(rf"({_QUOTES})|\s+", lambda its: its[1] or " ", each) for each in found]
    return [each.strip() for each in found if each.strip()] or [""]


def _sides(text: str) -> tuple[str, str]:
    """Return the two sides of a formula."""
    if not text.isprintable():
        raise ConfigError(
            f"formula {text!r}: a name or a level contains a line break or other control "
            "character; change it in the table"
        )
    plain = _outside_quotes(text)
    if of_parameter := re.search(r",\s*([^\W\d]\w*)\s*~", plain):
        raise ConfigError(
            f"formula {text!r}: a comma comes before the formula of {of_parameter[1]}; write a "
            "semicolon there"
        )
    if plain.count("~") != 1:
        many, none = "more than one ~; keep only one", "no ~ between response and terms; add it"
        raise ConfigError(f"formula {text!r} has {many if '~' in plain else none}")
    at = plain.index("~")
    left, right = text[:at], text[at + 1 :]
    if not right.strip(" +"):
        raise ConfigError(
            f"formula {text!r}: no term follows the ~; write 1 for the intercept alone"
        )
    _refuse_unbalanced(text, right)
    return left, right


def _of_response(text: str, whole: str) -> Formula:
    """Return the formula of the response; `whole` is the text with the formulas of parameters."""
    left, right = _sides(text)
    if not left.strip():
        raise ConfigError(
            f"formula {text!r}: there is no response before the ~; name its column there"
        )
    _refuse_transformed(text, left)
    left, levels = _without_levels(text, left)
    columns, counted, rest = _without_counted(text, left)
    match = _RESPONSE.fullmatch(rest)
    if match is None:
        raise ConfigError(
            f"formula {text!r}: the response {left.strip()!r} is neither a column nor a column "
            "with terms, such as y | trials(n); transform it in the table, or choose a family "
            "for its scale"
        )
    terms = ResponseTerms()
    if match[2] is not None:
        terms = read_terms_of_response(text, match[2])
    rest, groups = _without_brackets(text, right)
    rest, calls = _without_series(rest)
    for call in calls:
        terms = with_series(terms, text, call)
    population, curves = _without_curves(text, rest)
    return Formula(
        text=whole,
        response=columns or _bare(match[1]),
        terms=terms,
        population=population,
        groups=groups,
        curves=curves,
        levels=levels,
        counted=counted,
    )


def _without_counted(text: str, left: str) -> tuple[str, tuple[str, ...], str]:
    """Return ``cbind(…)`` and its columns, if any, and the left side with its first column."""
    if not re.match(r"\s*cbind\(", left):
        return "", (), left
    begin, end = next(_top_brackets(left), (0, 0))
    call = left[: end + 1].strip()
    columns = split_at(left[begin + 1 : end], ",")
    for each in columns:
        if failures := re.fullmatch(rf"({_NAME})\s*-\s*{re.escape(columns[0])}", each):
            raise ConfigError(
                f"formula {text!r}: successes and failures are written as successes and trials; "
                f"write {columns[0]} | trials({failures[1]}) ~ … with family binomial"
            )
        if not re.fullmatch(_NAME, each):
            raise ConfigError(
                f"formula {text!r}: cbind() joins columns of counts, but {quoted(each)} is "
                "not the name of one; write cbind(a, b, c) with your columns"
            )
        if columns.count(each) > 1:
            raise ConfigError(f"formula {text!r}: {call} names {each} twice; keep only one")
    if len(columns) < 2:
        raise ConfigError(
            f"formula {text!r}: {call} has one column, but counts of categories need at least two; "
            "add the other columns, or write this column by itself"
        )
    return call, tuple(map(_bare, columns)), columns[0] + left[end + 1 :]


def _without_levels(text: str, left: str) -> tuple[str, tuple[str, ...]]:
    """Return the response without ``C(…, levels=…)``, and the labels that it gives in order."""
    if not re.match(r"\s*C\(", left):
        return left, ()
    begin, end = next(_top_brackets(left), (0, 0))
    call = left[: end + 1].strip()
    columns = read_terms(f"0 + {call}").columns
    levels = given_levels([call])
    if not levels or "ref=" in _outside_quotes(left[begin:end]):
        raise ConfigError(
            f"formula {text!r}: as a response, {call} must give the labels in their order, and no "
            f'reference level; write C({columns[0]}, levels=["low", "high"]) with your labels'
        )
    name = columns[0] if re.fullmatch(_NAME, columns[0]) else f"`{columns[0]}`"
    return name + left[end + 1 :], levels[columns[0]]


def _refuse_transformed(text: str, left: str) -> None:
    """Reject a function of the response, with an error that shows what to write instead."""
    if re.match(r"\s*mvbind\(", left):
        raise ConfigError(
            f"formula {text!r}: several responses are not supported; for counts of categories, "
            "write cbind(a, b, c) ~ … and choose family multinomial"
        )
    if survival := re.match(rf"\s*Surv\(\s*({_NAME})", left):
        raise ConfigError(
            f"formula {text!r}: Surv() is not supported; write {survival[1]} | cens(c) ~ …, where "
            "the column c is 1 in a row that is censored and 0 at an event, the reverse of a "
            "status in Surv()"
        )
    if share := re.fullmatch(rf"\s*({_NAME})\s*/\s*({_NAME})\s*(?:\|.*)?", left):
        raise ConfigError(
            f"formula {text!r}: the response is a ratio; for successes in trials, write "
            f"{share[1]} | trials({share[2]}) ~ … with family binomial; for any other ratio, make "
            "a column of it in the table"
        )
    found = re.fullmatch(r"\s*(log|log2|log10|exp|sqrt|scale|center|I)\((.*)\)\s*", left)
    if found is None:
        return
    what = found[2].strip() if found[1] == "I" else left.strip()
    remedy = f"make a column of {what} in the table"
    if found[1] == "log" and re.fullmatch(rf"\s*{_NAME}\s*", found[2]):
        remedy = (
            f"write {found[2].strip()} ~ … with family lognormal (--family lognormal), which is "
            f"the same model with predictions in the unit of {_bare(found[2])}"
        )
    raise ConfigError(
        f"formula {text!r}: the response must be a column, but {left.strip()} is a function of "
        f"one; {remedy}"
    )


def _of_parameter(text: str) -> FurtherFormula:
    """Return the formula of a parameter."""
    left, right = _sides(text)
    name = left.strip()
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise ConfigError(
            f"formula {text!r}: the formulas after the first belong to other parameters, and "
            f"{quoted(name)} is not the name of one; write a name such as sigma before the ~"
        )
    return _further(text, name, right)


def _further(text: str, predicts: str, right: str) -> FurtherFormula:
    """Return a formula after that of the response, given its right-hand side."""
    rest, groups = _without_brackets(text, right)
    for call in _without_series(rest)[1]:
        raise ConfigError(
            f"formula {text!r}: {call} describes the residuals of the response; move it to the "
            "first formula"
        )
    population, curves = _without_curves(text, rest)
    return FurtherFormula(text, predicts, population, groups, curves)


_IMPUTED = re.compile(rf"\s*({_NAME})\s*\|\s*mi\(([^)]*)\)\s*~")
_IN_MI = re.compile(rf"mi\(\s*({_NAME})\s*\)")


def _of_imputed(text: str) -> FurtherFormula:
    """Return the formula of a predictor with missing values."""
    found = _IMPUTED.match(text)
    assert found is not None
    if found[2].strip():
        raise ConfigError(
            f"formula {text!r}: mi() takes no argument before the ~, because values that are not "
            f"missing count as exact; write {found[1]} | mi() ~ …"
        )
    return _further(text, _bare(found[1]), _sides(text)[1])


def _with_imputed(formula: Formula, text: str, imputed: tuple[FurtherFormula, ...]) -> Formula:
    """Return a formula in which ``mi(x)`` is the term x, with the formulas of such predictors.

    Raises
    ------
    ConfigError
        If a predictor has a formula but no term, or the reverse.
    """
    columns, rest = list[str](), list[str]()
    for sign, term in summands(formula.population):
        found = _IN_MI.fullmatch(term)
        if found and sign == "+":
            columns.append(_bare(found[1]))
            term = found[1]
        rest.append(f"{sign} {term}")
    of = [each.predicts for each in imputed]
    for column in columns:
        if columns.count(column) > 1 or of.count(column) > 1:
            raise ConfigError(
                f"formula {formula.text!r}: mi({column}) or its formula occurs twice; keep only one"
            )
        if column not in of:
            raise ConfigError(
                f"formula {text!r}: the missing values of {column} need a formula; add it, as in "
                f"{formula.text}; {column} | mi() ~ 1"
            )
    for each in imputed:
        if each.predicts not in columns:
            raise ConfigError(
                f"formula {each.text!r}: {each.predicts} is imputed, so the first formula needs it "
                f"as a term by itself; write mi({each.predicts}) there"
            )
    if not columns:
        return formula
    if formula.terms.series:
        raise ConfigError(
            f"formula {text!r}: {formula.terms.series[0]} cannot be combined with "
            f"mi({columns[0]}), because a residual may depend on that of a row whose predictor "
            "is missing; leave one of the terms out"
        )
    population = re.sub(r"^\+ ", "", " ".join(rest))
    return replace(formula, population=population, imputed=imputed)


def _without_brackets(text: str, right: str) -> tuple[str, tuple[GroupTerm, ...]]:
    """Return the sum of terms without the group terms, and the group terms."""
    rest, groups, start = "", list[GroupTerm](), 0
    for begin, end in _top_brackets(right):
        inside = right[begin + 1 : end]
        bar = _first_bar(inside)
        before = right[start:begin].rstrip()
        if bar is None:  # a call, or terms in parentheses
            _refuse_slash_for_bar(text, before, inside)
            continue
        if re.search(r"[\w.`)]$", before) or (start and not before):
            raise ConfigError(
                f"formula {text!r}: a + is missing before the group term ({inside}); add it"
            )
        if before and before[-1] != "+":
            raise ConfigError(
                f"formula {text!r}: {before[-1]} comes before the group term "
                f"({inside}); group terms can only be added with +"
            )
        groups += _group_terms(text, inside, bar)
        rest += before.removesuffix("+") + " "
        start = end + 1
    if start and re.match(r"\s*[^\s+-]", right[start:]):
        raise ConfigError(
            f"formula {text!r}: {right[start:].strip()!r} directly follows a group term; put "
            "a + between them"
        )
    rest = re.sub(r"^\s*\+", "", rest + right[start:]).strip()
    if "|" in re.sub(_QUOTES, "", rest):
        raise ConfigError(
            f"formula {text!r}: a group term needs separate brackets, such as (1 | group)"
        )
    if rest.endswith("+"):
        raise ConfigError(f"formula {text!r} ends with +; add a term or leave the + out")
    return rest or "1", _merged(text, groups)


_SLASH = re.compile(rf"\s*(1\b[^/]*)/({_GROUP.pattern})\s*")


def _refuse_slash_for_bar(text: str, before: str, inside: str) -> None:
    """Reject ``(1 / g)``, which is meant as ``(1 | g)``; nobody nests an intercept."""
    slashed = _SLASH.fullmatch(inside)
    if slashed and not re.search(r"[\w.`]$", before):
        raise ConfigError(
            f"formula {text!r}: ({inside}) has a / where a group term has a bar; did you mean "
            f"({slashed[1].strip()} | {slashed[2].strip()})?"
        )


_CURVE = re.compile(rf"(?<![\w.])({'|'.join(OF_CURVES)})\(")


def _without_curves(text: str, terms: str) -> tuple[str, tuple[CurveTerm, ...]]:
    """Return the sum of terms without the curves, and the curves."""
    if not _CURVE.search(_outside_quotes(terms)):
        return terms, ()
    rest, curves = list[str](), list[CurveTerm]()
    for sign, term in summands(terms):
        called = _CURVE.search(_outside_quotes(term))
        if called is None:
            rest.append(f"{sign} {term}")
            continue
        ends = [end for _, end in _top_brackets(term)]
        if called.start() or ends != [len(term) - 1]:
            example = f"{called[1]}(x)"
            remedy = f"write {example} + …"
            if called[1] == "s":
                remedy = "write s(x, by=z) for a curve that varies with z"
            raise ConfigError(
                f"formula {text!r}: {called[1]}() must be a term by itself, but it is in "
                f"{term}; {remedy}"
            )
        if sign == "-":
            raise ConfigError(
                f"formula {text!r}: {term} is subtracted, but a curve can only be added; leave it "
                "out, or write +"
            )
        curve = _curve(text, term, called[1])
        if curve in curves:
            raise ConfigError(f"formula {text!r}: {term} occurs twice; keep only one")
        curves.append(curve)
    left = re.sub(r"^\+ ", "", " ".join(rest)).strip()
    return left or "1", tuple(curves)


_SERIES = re.compile(r"(?:ar|cosy)\(.*\)")


def _without_series(terms: str) -> tuple[str, list[str]]:
    """Remove ``ar(…)`` and ``cosy(…)`` from a sum of terms; return the sum and these calls."""
    every = list(summands(terms))
    calls = [term for sign, term in every if sign == "+" and _SERIES.fullmatch(term)]
    if not calls:
        return terms, []
    rest = " ".join(f"{sign} {term}" for sign, term in every if term not in calls)
    return re.sub(r"^\+ ", "", rest) or "1", calls


def summands(terms: str) -> Iterator[tuple[str, str]]:
    """Yield each term of a sum outside brackets, with the sign before it."""
    depth, start, sign = 0, 0, "+"
    plain = _outside_quotes(terms)
    for i, mark in enumerate(f"{plain}+"):
        depth += (mark in "([{") - (mark in ")]}")
        if mark in "+-" and depth == 0:
            if terms[start:i].strip():
                yield sign, terms[start:i].strip()
            sign, start = mark, i + 1


def _curve(text: str, term: str, function: str) -> CurveTerm:
    """Return a curve, given its call."""
    hidden, quoted = hide_columns(term)
    where = f"formula {text!r}: "
    try:
        call = ast.parse(hidden, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(
            f"{where}{term} cannot be read; write {function}(x), where x is a column"
        ) from None
    assert isinstance(call, ast.Call)
    if len(call.args) > 1 and isinstance(call.args[1], ast.Name):
        raise ConfigError(
            f"{where}{term} has several columns, but a curve takes one; write a term for each "
            "column"
        )
    by = next((each.value for each in call.keywords if each.arg == "by"), None)
    if by is not None and function != "s":
        raise ConfigError(
            f"{where}{term}: {function}() does not vary with another column; leave by= out, or use "
            "s(x, by=…)"
        )
    if by is not None and not isinstance(by, ast.Name):
        raise ConfigError(f"{where}{term}: by= must be a column; correct it")
    options = [*call.args[1:], *(each for each in call.keywords if each.arg != "by")]
    argument = ""
    if call.args:
        argument = show_columns(ast.unparse(call.args[0]), quoted)
    arguments = ", ".join([argument, *(ast.unparse(each) for each in options)])
    found = CurveTerm(
        function=function,
        call=f"{function}({arguments})",
        argument=argument,
        by="" if by is None else show_columns(ast.unparse(by), quoted),
    )
    read_terms(found.terms)  # rejects what cannot be a column or an option
    return found


def _group_terms(text: str, inside: str, bar: int) -> Iterator[GroupTerm]:
    """Yield the group terms of a bracket: ``a/b`` means ``a`` and ``a:b``."""
    effects, is_double = inside[:bar].strip(), inside[bar : bar + 2] == "||"
    group = inside[bar + 1 + is_double :].strip()
    options = dict[str, str]()
    if call := re.fullmatch(r"gr\((.*)\)", group):
        group, options = _options_of_group(text, inside, call[1])
    members = re.fullmatch(r"mm\((.*)\)", group)
    if correlated := re.fullmatch(r"(\w+)\s*\|\s*([^|]+)", group):
        raise ConfigError(
            f"formula {text!r}: effects cannot be correlated between formulas by |{correlated[1]}|"
            f"; write ({effects} | {correlated[2].strip()}), whose effects are correlated with "
            "each other"
        )
    if not effects or not (members or _GROUP.fullmatch(group)):
        raise ConfigError(
            f"formula {text!r}: the group term ({inside}) cannot be read; write (effects | group), "
            "where group is a column, a:b or a/b, and effects are terms such as 1 + x"
        )
    if curve := _CURVE.search(_outside_quotes(effects)):
        raise ConfigError(
            f"formula {text!r}: {curve[1]}() cannot vary by group, but it is in ({inside}); "
            f"for a curve for each label, write s(x, by={group})"
        )
    if members:
        yield _of_members(text, inside, effects, members[1], not is_double)
        return
    outer: list[str] = []
    for nested in re.findall(r"(?:`[^`]*`|[^`/])+", group):
        outer = [*outer, *(_bare(part) for part in re.findall(_NAME, nested))]
        if any(":" in name for name in outer):
            raise ConfigError(
                f"formula {text!r}: a group's name cannot have a colon, which joins columns; "
                "rename the column in the table"
            )
        repeated = next((name for name in outer if outer.count(name) > 1), None)
        if repeated is not None:
            raise ConfigError(f"formula {text!r}: ({inside}) names {repeated} twice; keep only one")
        term = GroupTerm(
            effects,
            ":".join(outer),
            not is_double,
            by=options.get("by", ""),
            covariance=options.get("cov", ""),
            is_student="dist" in options,
        )
        yield term


def _of_members(
    text: str, inside: str, effects: str, arguments: str, correlated: bool
) -> GroupTerm:
    """Return the term of a group for rows with several members."""
    where = f"formula {text!r}: mm() in ({inside}) "
    example = "mm(g1, g2) or mm(g1, g2, weights=cbind(w1, w2))"
    members, weights, scale = list[str](), list[str](), "TRUE"
    for part in split_at(arguments, ","):
        key, equals, value = (its.strip() for its in part.partition("="))
        if not equals:
            members.append(part)
        elif key == "weights" and (call := re.fullmatch(r"(?:cbind|c)\((.*)\)", value)):
            weights = split_at(call[1], ",")
        elif key == "scale" and value in _TRUTH:
            scale = value
        else:
            raise ConfigError(
                f"{where}takes columns, weights=cbind(…) and scale=FALSE, not {part}; write "
                f"{example}"
            )
    wrong = next((its for its in (*members, *weights) if not re.fullmatch(_NAME, its)), None)
    if wrong is not None:
        raise ConfigError(f"{where}has {quoted(wrong)} instead of a column; write {example}")
    columns = tuple(map(_bare, members))
    if len(set(columns)) < max(len(columns), 2):
        raise ConfigError(
            f"{where}needs two or more different columns, each with one member of the row; for "
            "one column, write (1 | g)"
        )
    if weights and len(weights) != len(columns):
        raise ConfigError(
            f"{where}has {counted(len(columns), 'column')} and {counted(len(weights), 'weight')}; "
            "give a column of weights for each column of members"
        )
    if _TRUTH[scale] is False and not weights:
        raise ConfigError(f"{where}has no weights that could be scaled; leave scale= out")
    return GroupTerm(
        effects,
        f"mm({','.join(columns)})",
        correlated,
        members=columns,
        weights=tuple(map(_bare, weights)),
        is_scaled=_TRUTH[scale],
    )


_TRUTH = {"TRUE": True, "T": True, "True": True, "FALSE": False, "F": False, "False": False}


def _options_of_group(text: str, inside: str, arguments: str) -> tuple[str, dict[str, str]]:
    """Return the group in ``gr(...)``, and its options."""
    where = f"formula {text!r}: "
    plain = re.sub(rf"({_QUOTES})|,", lambda match: match[1] or "\0", arguments)
    group, *given = (part.strip() for part in plain.split("\0"))
    if not _GROUP.fullmatch(group) or "/" in re.sub(_QUOTES, "", group):
        raise ConfigError(
            f"{where}gr() in ({inside}) takes one group; write gr(g), where g is a column or a:b"
        )
    options = dict[str, str]()
    for each in given:
        key, _, value = (part.strip() for part in each.partition("="))
        if key not in _OF_GROUPS or key in options or not value:
            raise ConfigError(
                f"{where}gr() in ({inside}) takes by=f, cov=A or dist=student after the group; "
                f"correct {each}"
            )
        options[key] = _bare(value.strip("\"'"))
    if options.get("dist", "student") != "student":
        raise ConfigError(
            f"{where}dist={options['dist']} in ({inside}): the distribution of effects is student "
            f"or, without dist=, gaussian; write dist=student, or leave dist= out"
        )
    if len(options) > 1:
        raise ConfigError(
            f"{where}gr() in ({inside}) takes only one of by=, cov= and dist=; leave the others out"
        )
    return group, options


_OF_GROUPS = ("by", "cov", "dist")
"""The options of ``gr``."""


def _merged(text: str, groups: list[GroupTerm]) -> tuple[GroupTerm, ...]:
    """Reject repeated terms; merge ``(1 | g) + (0 + x | g)`` into ``(1 + x || g)``."""
    found: dict[tuple[str, ...], GroupTerm] = {}
    for term in groups:
        key = tuple(sorted(term.columns)) if not term.members else (term.group,)
        before = found.get(key)
        if before is None:
            found[key] = term
            continue
        if not (before.is_plain and term.is_plain):
            raise ConfigError(
                f"formula {text!r}: {before} and {term} are two terms of {term.group}, but a term "
                "with options must be the only term of its group; leave one of the two out"
            )
        parts = sorted((before, term), key=lambda t: not read_terms(t.effects).has_intercept)
        own = [read_terms(part.effects).text.removeprefix("0 + ") for part in parts]
        if read_terms(parts[1].effects).has_intercept:
            raise ConfigError(
                f"formula {text!r}: {before} and {term} both have an intercept for each "
                f"{term.group}; write (1 + x | {term.group}), or, for uncorrelated effects, "
                f"(1 | {term.group}) + (0 + x | {term.group})"
            )
        for part, effects in zip(parts, own, strict=True):
            if part.correlated and re.search(rf"[+*:/]|^(?:{'|'.join(SEVERAL)})\(", effects):
                raise ConfigError(
                    f"formula {text!r}: the effects of {part} are correlated, but not with those "
                    f"of the other term of {part.group}; write one term, with | for all "
                    "correlations or with || for none"
                )
        effects = f"{parts[0].effects} + {own[1]}"
        found[key] = replace(before, effects=effects, correlated=False, is_merged=True)
    alone = {term.group for term in groups if not term.members}
    for term in groups:
        both = next((name for name in term.members if name in alone), None)
        if both is not None:
            raise ConfigError(
                f"formula {text!r}: {both} is both the group of a term and a column of members in "
                f"{term}; copy {both} under another name in the table, and use the copy in one of "
                "the two terms"
            )
    return tuple(found.values())


def _refuse_unbalanced(text: str, right: str) -> None:
    """Reject unbalanced brackets, which would end a term in the wrong place."""
    open_: list[str] = []
    for mark in _outside_quotes(right):
        if mark in "([{":
            open_.append(mark)
        elif mark in _BRACKETS and (not open_ or open_.pop() != _BRACKETS[mark]):
            raise ConfigError(f"formula {text!r}: {mark} closes nothing; balance the brackets")
    if open_:
        raise ConfigError(f"formula {text!r}: {open_[-1]} is not closed; balance the brackets")


def _outside_quotes(text: str) -> str:
    """Return a text of the same length in which quoted parts are blanks."""
    return re.sub(_QUOTES, lambda match: " " * len(match[0]), text)


def _top_brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions at which each outermost bracket begins and ends."""
    depth = begin = 0
    for i, mark in enumerate(_outside_quotes(text)):
        if mark in "([{":
            if depth == 0:
                begin = i
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth == 0:
                yield begin, i


def _first_bar(inside: str) -> int | None:
    """Return the position of the first bar outside inner brackets; None if there is none."""
    depth = 0
    for i, mark in enumerate(_outside_quotes(inside)):
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "|" and depth == 0:
            return i
    return None


def _bare(name: str) -> str:
    """Return the name of a column without backticks."""
    return name.strip().strip("`")
