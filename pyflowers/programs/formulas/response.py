"""The terms of a response in a formula, such as ``time | cens(c)``, taken together.

Each term is defined, in Stan and in NumPy, by its module in
:mod:`pyflowers.programs.families._response`. The terms of residuals are defined here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pyflowers.advice import worded
from pyflowers.data import Table
from pyflowers.data.columns import number_text
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.families import Family, FloatArray
from pyflowers.programs.families._response import TERMS
from pyflowers.programs.families._response.residuals import with_series as of_series
from pyflowers.programs.families._response.residuals import with_units
from pyflowers.programs.families._response.term import (
    NAME,
    WITH_SIGMA,
    Cells,
    Columns,
    ResponseTerm,
    RowInStan,
    Written,
    called_at,
    with_known,
)
from pyflowers.programs.terms import EDIT_PROGRAM, quote
from pyflowers.text import in_words, quoted, suggestion

_TERM = re.compile(r"([^\W\d]\w*)\s*\((.*)\)", re.DOTALL)

_OF_BRMS = {
    "rate": "add offset(log(n)) to the terms, where n is the column in rate(n)",
    "subset": "leave the rows out of the table",
}
"""Terms of brms that are not supported, each with what to write instead."""

OF_RESIDUALS = {
    "ar": [
        "previous",
        "follows",
        "in_time",
        "residual",
        "row",
        "before",
        "next",
        "place",
        "seen",
        "drawn",
    ],
    "cosy": [
        "unit",
        "N_unit",
        "given",
        "given_earlier",
        "shared",
        "spread",
        "middle",
        "width",
        "z",
    ],
}
"""Names of the variables that these terms for residuals add to a program."""


@dataclass(frozen=True)
class ResponseTerms:
    """The terms after the response and a bar, and the term of the residuals.

    Attributes
    ----------
    given : mapping of str to mapping of str to str
        The terms, each with its arguments by name.
    residuals : str
        How residuals depend on each other, by the term: ``ar``, in ``ar(time, gr)``, or
        ``cosy``, in ``cosy(gr)``; empty if they are independent.
    time, gr : str
        The columns of the times and of the series; empty for the order of the rows and for a single
        series.
    """

    given: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    residuals: str = ""
    time: str = ""
    gr: str = ""

    @cached_property
    def written(self) -> list[Written]:
        """What each term adds to the program, in the order in which they change the likelihood."""
        return [its.written(self.given[name]) for name, its in TERMS.items() if name in self.given]

    @property
    def trials(self) -> str:
        """The column with the number of trials, or a number; empty if neither is given."""
        return self.given.get("trials", {}).get("n", "")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the terms read."""
        own = [its.columns(self.given[name]) for name, its in TERMS.items() if name in self.given]
        found = [*(column for columns in own for column in columns), self.time, self.gr]
        return tuple(dict.fromkeys(filter(None, found)))

    @property
    def series(self) -> list[str]:
        """The term of the residuals as it is written among the other terms, if there is one."""
        if not self.residuals:
            return []
        given = [
            f"{key} = {quote(its)}" for key, its in (("time", self.time), ("gr", self.gr)) if its
        ]
        return [f"{self.residuals}({', '.join(given)})"]

    @property
    def is_likelihood(self) -> bool:
        """Whether a row's likelihood can differ from its density, as for a censored row."""
        return any(its.likelihood is not None for its in self.written)

    @property
    def separates_rows(self) -> bool:
        """Whether rows with the same covariates differ, so that their totals do not suffice."""
        return bool(self.residuals) or any(its.separates_rows for its in self.written)

    @property
    def omits_missing(self) -> bool:
        """Whether rows in which the response is missing are left out."""
        return any(its.omits_missing for its in self.written)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the terms that ``response`` in ``[prediction]`` names."""
        of_residuals = {"ar": ["previous"], "cosy": ["unit"]}.get(self.residuals, [])
        return (*(name for its in self.written for name in its.variables), *of_residuals)

    def that_gives(self, parameter: str) -> Written | None:
        """Return the term that gives a parameter of the family; None if it is estimated."""
        return next((its for its in self.written if its.known == parameter), None)


# Reading


def read_terms_of_response(formula: str, text: str) -> ResponseTerms:
    """Return the terms that follow the bar.

    Parameters
    ----------
    formula : str
        The whole formula, for messages.
    text : str
        The terms, joined by +.

    Raises
    ------
    ConfigError
        If they cannot be read; the message names the term and how to write it.
    """
    found, about = dict[str, dict[str, str]](), f"formula {formula!r}: "
    names = list(TERMS)
    for term in split_at(text, "+"):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ConfigError(
                f"{about}only {in_words([f'{each}()' for each in names])}, joined by +, may "
                f"follow the response and |, not {quoted(term)}; correct it"
            )
        name, inside = match[1], match[2]
        if name in _OF_BRMS:
            raise ConfigError(f"{about}{name}() is not supported; {_OF_BRMS[name]}")
        if name not in names:
            raise ConfigError(
                f"{about}{name}() is not a term of a response; {suggestion(name, names)}"
            )
        if name in found:
            raise ConfigError(f"{about}{name}() follows the response twice; keep only one")
        found[name] = _arguments(about, TERMS[name], inside)
    return ResponseTerms(found)


def split_at(text: str, mark: str) -> list[str]:
    """Split a text at a mark outside brackets and backticks."""
    found, depth, start, quoted = list[str](), 0, 0, False
    for i, each in enumerate(text):
        quoted ^= each == "`"
        depth += (each in "([{") - (each in ")]}")
        if each == mark and not depth and not quoted:
            found.append(text[start:i])
            start = i + 1
    return [part.strip() for part in (*found, text[start:])]


def _arguments(about: str, term: ResponseTerm, inside: str) -> dict[str, str]:
    """Return the arguments of a term by their names."""
    names, found, called = term.arguments, dict[str, str](), f"{about}{term.name}()"
    how = f"write {term.example}"
    if inside.strip() and not names:
        raise ConfigError(f"{called} has no arguments, but {inside.strip()!r} is given; {how}")
    for place, part in enumerate(split_at(inside, ",") if inside.strip() else []):
        name, equals, value = part.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            name, value = names[place] if place < len(names) else "", part
        if not equals and not name:
            raise ConfigError(f"{called} has more than {len(names)} arguments; {how}")
        if name not in names:
            usual = f"{term.name}() has the arguments {in_words(names)}"
            hint = term.hints.get(name, usual)
            raise ConfigError(f"{called} has no argument {name}; {hint}")
        if name in found:
            raise ConfigError(f"{called} has {name} twice; keep only one")
        if not value:
            raise ConfigError(f"{called} has no value for {name}; {how}")
        found[name] = value
    if names and names[0] not in found and (term.needs_first or not found):
        raise ConfigError(f"{called} has no {names[0]}; {how}")
    return {name: _read(about, term, name, value) for name, value in found.items()}


def with_series(terms: ResponseTerms, formula: str, call: str) -> ResponseTerms:
    """Return a response's terms with ``ar(…)`` or ``cosy(…)``, written among the other terms.

    Parameters
    ----------
    terms : ResponseTerms
        The terms after the response.
    formula : str
        The whole formula, for messages.
    call : str
        The call of ``ar`` or ``cosy``, as it is written.
    """
    name, _, inside = call.removesuffix(")").partition("(")
    about, how = f"formula {formula!r}: ", "write ar(time = t, gr = g), where t and g are columns"
    if terms.residuals:
        raise ConfigError(
            f"{about}{call} is a second term for the residuals; keep one ar() or cosy()"
        )
    if name == "cosy":
        return _with_units(terms, about, call, inside)
    found, names = dict[str, str](), ("time", "gr", "p", "cov")
    for place, part in enumerate(split_at(inside, ",") if inside.strip() else []):
        key, equals, value = (its.strip() for its in part.partition("="))
        if not equals:
            key, value = names[min(place, 3)], part
        if key not in names or key in found:
            raise ConfigError(f"{about}{call} cannot have {part}; {how}")
        found[key] = value
    order, cov = found.pop("p", "1"), found.pop("cov", "FALSE")
    if order != "1":
        raise ConfigError(
            f"{about}{call} has the order {order}, but only order 1 is supported; leave p= out, "
            f"or {EDIT_PROGRAM}"
        )
    if cov not in ("FALSE", "F"):
        raise ConfigError(
            f"{about}{call}: cov = {cov} is not supported, as the first row of a series has the sd "
            "sigma; leave cov= out"
        )
    for key, value in found.items():
        if re.fullmatch(NAME, value) is None:
            raise ConfigError(f"{about}{call}: {key} is {value!r}, which is not a column; {how}")
    time, gr = (found.get(key, "NA").strip("`") for key in ("time", "gr"))
    return replace(
        terms, residuals="ar", time="" if time == "NA" else time, gr="" if gr == "NA" else gr
    )


def _with_units(terms: ResponseTerms, about: str, call: str, inside: str) -> ResponseTerms:
    """Return the terms of a response with ``cosy(gr)``."""
    found = re.fullmatch(rf"\s*(?:gr\s*=\s*)?({NAME})\s*", inside)
    if found is None:
        raise ConfigError(
            f"{about}{call} cannot be read; write cosy(gr = g), where g is the column of the units"
        )
    return replace(terms, residuals="cosy", gr=found[1].strip("`"))


def _read(about: str, term: ResponseTerm, name: str, value: str) -> str:
    """Return an argument: an option, a number where one is allowed, or a column."""
    if name in term.options:
        try:
            return term.options[name](value)
        except ValueError as error:
            raise ConfigError(f"{about}{error}") from None
    if term.may_be_number(value):
        return value
    if re.fullmatch(NAME, value) is None:
        raise ConfigError(
            f"{about}{name} in {term.name}() is {value!r}, which is not the name of a column; "
            f"compute the column in the table, and write {term.example}"
        )
    return value.strip("`")


# The family


def family_with(terms: ResponseTerms, family: Family, formula: str) -> Family:
    """Return the family of a response with terms; reject a family that cannot have them.

    Raises
    ------
    ConfigError
        If the family has no such terms; the message names families that have them.
    """
    for its in terms.written:
        if refusal := its.refusal(family):
            raise ConfigError(f"formula {formula!r}: family {family.name} {refusal}")
        if its.known:
            family = with_known(family, its.known)
    if not terms.residuals:
        return family
    _refuse_series(terms, family, f"formula {formula!r}: ")
    if terms.residuals == "ar":
        return of_series(family)
    return with_units(family)


def _refuse_series(terms: ResponseTerms, family: Family, about: str) -> None:
    """Reject a response whose residuals cannot depend on each other."""
    if family.name not in WITH_SIGMA:
        raise ConfigError(
            f"{about}family {family.name} has no residuals for {terms.residuals}(); choose "
            "gaussian or student, or add a group term or a curve of the time, such as gp(t)"
        )
    if family.link != "identity":
        raise ConfigError(
            f"{about}{terms.residuals}() needs the link identity, not {family.link}; leave one of "
            "them out"
        )
    if terms.residuals == "ar" and terms.omits_missing:
        raise ConfigError(
            f"{about}ar() cannot be combined with mi(), as the residual after a missing row is not "
            f"known; remove these rows from the table, or use {worded('--drop-missing')}, which "
            "treats the rows before and after them as neighbours"
        )
    if terms.is_likelihood:
        raise ConfigError(
            f"{about}{terms.residuals}() cannot be combined with cens(), trunc() or weights of "
            "rows, with which the residual of a row is not known; leave one of them out"
        )


# The columns


def read_values(
    terms: ResponseTerms, family: Family, table: Table, response: str, y: FloatArray
) -> Columns:
    """Return the values of the terms; reject those that contradict the response.

    Parameters
    ----------
    terms, family
        The terms, and the family that :func:`family_with` returned.
    table : Table
        The rows.
    response : str
        The column of the response.
    y : array, shape (N,)
        Its values.

    Returns
    -------
    mapping of str to array, shape (N,)
        The values in each row by the names of the variables; a number is repeated.

    Raises
    ------
    DataError
        If a value is wrong; the message names its row, its column and a remedy.
    """
    found = {name: its for each in terms.written for name, its in each.read(table).items()}
    cells = Cells(family, response, y, found)
    for message, wrong in (pair for its in terms.written for pair in its.wrongs(cells)):
        if np.any(wrong):
            row = int(np.argmax(wrong))
            for key, each in {**found, "y": y}.items():
                message = message.replace(f"{{{key}}}", number_text(each[row]))
            raise DataError(f"{table.where(row)}: {message}")
    return found


# The program


def data_lines(terms: ResponseTerms, family: Family) -> list[str]:
    """Return the declarations of the terms' variables, with comments."""
    lines = [line for its in terms.written for line in its.data(family)]
    if terms.residuals == "cosy":
        lines.append("int<lower=1> N_unit; // units")
        lines.append(f"array[N] int<lower=1, upper=N_unit> unit; // {terms.gr}")
    if terms.residuals == "ar":
        lines.append(
            f"array[N] int<lower=1, upper=N> previous; // the row before it, {_when(terms)}"
        )
    return lines


def _when(terms: ResponseTerms) -> str:
    """Return the words for the times and the series by which rows are ordered."""
    found = f"by {terms.time}" if terms.time else "by the order of the rows"
    return f"{found} in each {terms.gr}" if terms.gr else found


def sources_of(terms: ResponseTerms, values: Columns, table: Table) -> dict[str, dict[str, Any]]:
    """Return the sources of the terms' variables."""
    found: dict[str, dict[str, Any]] = {}
    for its in terms.written:
        found |= its.sources(values, table)
    if terms.residuals == "cosy":
        found["unit"] = {"column": terms.gr, "index": True}
    if terms.residuals == "ar":
        found["previous"] = {"previous": terms.time or "obs"}
        if terms.gr:
            found["previous"]["within"] = terms.gr
    return found


def parameters_in_stan(terms: ResponseTerms, stands_for: Mapping[str, str]) -> dict[str, str]:
    """Return the expressions that replace the family's parameters; ``{row}`` stands for a row."""
    found = dict(stands_for)
    for its in terms.written:
        found |= {name: of(found.get(name, name)) for name, of in its.stands_for.items()}
    return found


def parameters_predicted(terms: ResponseTerms, where: Mapping[str, str]) -> dict[str, str]:
    """Return ``where`` in ``[prediction]``, with the parameters that terms change in some rows."""
    found = dict(where)
    for its in terms.written:
        found |= {name: of(found.get(name, name)) for name, of in its.predicted.items()}
    return found


def row_likelihood(
    terms: ResponseTerms, family: Family, density: str, cumulative: str, sink: str
) -> list[str]:
    """Return the statements that set a variable to the log likelihood of row n.

    Parameters
    ----------
    terms, family
        The terms of the response and its family.
    density, cumulative : str
        Stan code for the distribution of the row: for its density, and for its functions ``_lcdf``
        and ``_lccdf``.
    sink : str
        The variable that the statements set.
    """
    row = RowInStan(family, density, cumulative, sink, *_bounds(terms))
    lines = [f"{sink} = {row.own};"]
    for its in terms.written:
        if its.likelihood is not None:
            lines = its.likelihood(row, lines)
    return lines


def _bounds(terms: ResponseTerms) -> tuple[str, str]:
    """Return the bounds of row n as Stan code; empty if there are none."""
    pairs = [its.bounds for its in terms.written if any(its.bounds)]
    return pairs[0] if pairs else ("", "")


def row_replicate(terms: ResponseTerms, family: Family, rng: str) -> list[str]:
    """Return the statements that draw ``y_rep[n]`` within its bounds, and record it."""
    lower, upper = _bounds(terms)
    lines = [f"y_rep[n] = {rng};"]
    outside = [f"y_rep[n] < {lower}"] * bool(lower) + [f"y_rep[n] > {upper}"] * bool(upper)
    if outside:
        condition = outside[0]
        if len(outside) > 1:
            condition = f"({' || '.join(outside)})"
        lines = [
            "int tries = 0;",
            *lines,
            f"while ({condition} && tries < 10000) {{",
            f"  y_rep[n] = {rng};",
            "  tries += 1;",
            "}",
        ]
    for its in terms.written:
        if its.recorded is not None:
            lines += its.recorded(family)
    return lines


IN_TIME = """
vector[N] follows; // 1: another row comes before it in its series; 0: none does
array[N] int in_time; // the rows, each after the one before it
{
  array[N] int next = zeros_int_array(N);
  int place = 0;
  for (n in 1 : N) {
    follows[n] = previous[n] != n;
    if (previous[n] != n) {
      next[previous[n]] = n;
    }
  }
  for (n in 1 : N) {
    int row = previous[n] == n ? n : 0;
    while (row > 0) {
      place += 1;
      in_time[place] = row;
      row = next[row];
    }
  }
}"""
"""Statements of the transformed data for rows that depend on the rows before them."""

AFTER_PREVIOUS = [
    "vector[N] residual = y - eta;",
    "eta += ar * (follows .* residual[previous]); // given the row before",
]
"""Statements that precede the likelihood of rows that depend on the rows before them."""


def rows_in_series(
    distribution: Callable[[str, str], str], rng: Callable[[str, str], str]
) -> list[str]:
    """Return the statements for each row of a series, which depends on the row before it in time.

    Parameters
    ----------
    distribution, rng : callable
        Functions of Stan code for a linear predictor and a row that return Stan code for the
        distribution and for a draw.
    """
    return [
        "int row = in_time[n];",
        "int before = previous[row];",
        "real seen = eta[row]; // given the response before, and given its replicate",
        "real drawn = eta[row];",
        "if (before != row) {",
        "  seen += ar * (y[before] - eta[before]);",
        "  drawn += ar * (y_rep[before] - eta[before]);",
        "}",
        f"log_lik[row] = {called_at(distribution('seen', 'row'), 'lpdf', 'y[row]')};",
        f"y_rep[row] = {rng('drawn', 'row')};",
    ]


def rows_in_units(family: Family, sigma: str) -> dict[str, list[str]]:
    """Return the statements of a likelihood whose residuals are correlated within units.

    Parameters
    ----------
    family : Family
        The family, gaussian or student.
    sigma : str
        Stan code for the family's sigma in row n.

    Returns
    -------
    mapping of str to list of str
        The statements of the `likelihood` and, in the generated quantities, those before the loop
        over rows, `before_pointwise`, and those for each row, `pointwise`.
    """
    is_student = family.name == "student"
    columns, own, nu, first = 2, "normal", "", ""
    if is_student:
        columns, own, nu, first = 3, "student_t", ", nu", "given[n, 3], "
    if " " in sigma.partition("(")[0]:
        sigma = f"({sigma})"
    of_row = [
        f"real middle = eta[n] + {sigma} * given[n, 1];",
        f"real width = {sigma} * given[n, 2];",
    ]
    given = [
        f"matrix[N, {columns}] given;",
        "{",
        "  vector[N] z;",
        "  for (n in 1 : N) {",
        f"    z[n] = (y[n] - eta[n]) / {sigma};",
        "  }",
        f"  given = given_earlier(z, unit, cosy{nu});",
        "}",
    ]
    shared = [
        "vector[N_unit] shared; // what the residuals of a unit have in common",
        *["vector[N_unit] spread;"] * is_student,
        "for (j in 1 : N_unit) {",
        "  shared[j] = normal_rng(0, 1);",
        *["  spread[j] = sqrt(nu / chi_square_rng(nu));"] * is_student,
        "}",
    ]
    times = " * spread[unit[n]]" * is_student
    return {
        "likelihood": [
            *given,
            "for (n in kept) {",
            *(f"  {line}" for line in of_row),
            f"  y[n] ~ {own}({first}middle, width);",
            "}",
        ],
        "before_pointwise": [*given, *shared],
        "pointwise": [
            *of_row,
            f"log_lik[n] = {own}_lpdf(y[n] | {first}middle, width);",
            "y_rep[n] = sqrt(cosy) * shared[unit[n]] + normal_rng(0, sqrt(1 - cosy));",
            f"y_rep[n] = eta[n] + {sigma} * y_rep[n]{times};",
        ],
    }


def about_terms(terms: ResponseTerms, response: str) -> Sequence[str]:
    """Return sentences that say what the terms mean."""
    found = [sentence for its in terms.written for sentence in its.about(response)]
    if terms.residuals == "cosy":
        found.append(
            f"Any two residuals of a {terms.gr} have the correlation cosy; the log likelihood of a "
            f"row is conditional on the rows before it in its {terms.gr}."
        )
    if terms.residuals == "ar":
        found.append(
            f"The residual of a row is ar times that of the row before it, {_when(terms)}, plus an "
            "error with the distribution of the family; the log likelihood of a row is conditional "
            "on the row before it."
        )
    return found
