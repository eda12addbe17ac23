"""The terms of a response, such as ``time | cens(c)``: their text, columns and Stan code.

:mod:`pyflowers.programs.families._response` has them in NumPy, by the names of the variables here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import Table
from pyflowers.data.columns import number_text
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.families import Family, family_names, find_family
from pyflowers.programs.families._response import WITH_SIGMA, with_known, with_units
from pyflowers.programs.families._response import with_series as of_series
from pyflowers.programs.terms import EDIT_PROGRAM, quote
from pyflowers.text import in_words, suggestion

FloatArray = NDArray[np.float64]

NAME = r"(?:[^\W\d][\w.]*|`[^`]+`)"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TERM = re.compile(r"([^\W\d]\w*)\s*\((.*)\)", re.DOTALL)

_ARGUMENTS = {
    "trials": ("n",),
    "cens": ("censored", "y2"),
    "trunc": ("lb", "ub"),
    "se": ("se", "sigma"),
    "weights": ("weights", "kind"),
}
"""The terms, each with its arguments in the order in which they may be given without names."""

_EXAMPLES = {
    "trials": "trials(n), where n is a column or a whole number",
    "cens": "cens(c), where c is a column of -1, 0, 1 and 2, or of left, none, right and interval",
    "trunc": "trunc(lb = 0), trunc(ub = 10) or both, where a bound is a number or a column",
    "se": "se(s), where s is a column of standard errors, or se(s, sigma = TRUE)",
    "weights": "weights(w), where w is a column, or weights(w, kind = precision)",
}

_OF_BRMS = {
    "mi": f"leave out the rows with --drop-missing, or {EDIT_PROGRAM}",
    "rate": "add offset(log(n)) to the terms, where n is the column in rate(n)",
    "subset": "leave the rows out of the table",
}
"""Other terms of brms, each with its remedy."""

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
"""Names of variables in programs with these terms of the residuals."""

CODES = {"none": 0, "right": 1, "left": -1, "interval": 2}
"""The words in a column that says which rows are censored, each with its number."""

KINDS = ("rows", "precision", "survey")
"""What weights may be."""

_MEANINGS = {
    "rows": "the number of rows for which the row stands",
    "precision": "the row's precision, by which its variance is divided",
    "survey": "the number of units of a population for which the row stands",
}


@dataclass(frozen=True)
class ResponseTerms:
    """What follows the response and a bar; a column or a number is empty if it is not given.

    Attributes
    ----------
    trials : str
        The column of the trials, or their number.
    cens, y2 : str
        The column that says which rows are censored, and that of the upper ends of intervals.
    lb, ub : str
        The columns of the bounds of truncation, or their numbers.
    se : str
        The column of standard errors.
    adds_sigma : bool
        Whether sigma is estimated in addition to the standard errors.
    weights : str
        The column of weights.
    kind : str
        What they are: `rows`, `precision` or `survey`.
    residuals : str
        How residuals depend on each other, as a term says: ``ar``, in ``ar(time, gr)``, or
        ``cosy``, in ``cosy(gr)``; empty if they are independent.
    time, gr : str
        The columns of its times and of its series; empty for the order of the rows, and for one
        series.
    """

    trials: str = ""
    cens: str = ""
    y2: str = ""
    lb: str = ""
    ub: str = ""
    se: str = ""
    adds_sigma: bool = False
    weights: str = ""
    kind: str = "rows"
    residuals: str = ""
    time: str = ""
    gr: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the terms read."""
        found = [self.trials, self.cens, self.y2, self.lb, self.ub, self.se, self.weights]
        found += [self.time, self.gr]
        return tuple(dict.fromkeys(each for each in found if each and not is_number(each)))

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
        """Whether a row's likelihood differs from its density: censored, truncated or weighted."""
        multiplies = self.weights and self.kind != "precision"
        return bool(self.cens or self.lb or self.ub or multiplies)

    @property
    def separates_rows(self) -> bool:
        """Whether rows with the same covariates differ, so that their totals do not suffice."""
        return bool(self.cens or self.lb or self.ub or self.se or self.weights or self.residuals)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the terms in the program, without the trials."""
        found = [name for name in ("cens", "y2", "lb", "ub") if getattr(self, name)]
        if self.se:
            found.append("se" if self.adds_sigma else "sigma")
        if self.weights:
            own = {"rows": ["weights"], "precision": ["precision"]}
            found += own.get(self.kind, ["weights", "weights_mean"])
        of_residuals = {"ar": ["previous"], "cosy": ["unit"]}
        return (*found, *of_residuals.get(self.residuals, []))


def is_number(text: str) -> bool:
    """Whether an argument is a number, and not a column."""
    return re.fullmatch(_NUMBER, text) is not None


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
    found, about = ResponseTerms(), f"formula {formula!r}: "
    seen = set[str]()
    for term in split_at(text, "+"):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ConfigError(
                f"{about}only {in_words([f'{each}()' for each in _ARGUMENTS])}, joined by +, may "
                f"follow the response and |, not {term or 'nothing'!r}; correct it"
            )
        name, inside = match[1], match[2]
        if name in _OF_BRMS:
            raise ConfigError(f"{about}{name}() is not supported; {_OF_BRMS[name]}")
        if name not in _ARGUMENTS:
            raise ConfigError(
                f"{about}{name}() after the response does not exist; "
                f"{suggestion(name, list(_ARGUMENTS))}"
            )
        if name in seen:
            raise ConfigError(f"{about}{name}() follows the response twice; keep only one")
        seen.add(name)
        found = replace(found, **_fields(name, _arguments(about, name, inside), about))
    return found


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


def _arguments(about: str, term: str, inside: str) -> dict[str, str]:
    """Return the arguments of a term by their names."""
    names, found = _ARGUMENTS[term], dict[str, str]()
    how = f"write {_EXAMPLES[term]}"
    for place, part in enumerate(split_at(inside, ",") if inside.strip() else []):
        name, equals, value = part.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            name, value = names[place] if place < len(names) else "", part
        if not equals and not name:
            raise ConfigError(f"{about}{term}() has more than {len(names)} arguments; {how}")
        if name not in names:
            hint = f"{term}() has the arguments {in_words(names)}"
            if (term, name) == ("weights", "scale"):
                hint = "write kind = survey, with which weights have the mean 1"
            raise ConfigError(f"{about}{term}() has no argument {name}; {hint}")
        if name in found:
            raise ConfigError(f"{about}{term}() has {name} twice; keep only one")
        if not value:
            raise ConfigError(f"{about}{term}() has no value of {name}; {how}")
        found[name] = value
    is_given = names[0] in found or (term == "trunc" and found)
    if not is_given:
        raise ConfigError(f"{about}{term}() has no {names[0]}; {how}")
    return found


def with_series(terms: ResponseTerms, formula: str, call: str) -> ResponseTerms:
    """Return the terms of a response with ``ar(…)``, which stands among the other terms.

    Parameters
    ----------
    terms : ResponseTerms
        The terms after the response.
    formula : str
        The whole formula, for messages.
    call : str
        The call.
    """
    name, _, inside = call.removesuffix(")").partition("(")
    about, how = f"formula {formula!r}: ", "write ar(time = t, gr = g), where t and g are columns"
    if terms.residuals:
        raise ConfigError(
            f"{about}{call} is a second term of the residuals; keep one ar() or cosy()"
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
            f"{about}{call} has the order {order}, but only that of 1 is supported; leave p out, "
            f"or {EDIT_PROGRAM}"
        )
    if cov not in ("FALSE", "F"):
        raise ConfigError(
            f"{about}{call}: cov = {cov} is not supported, as the first row of a series has the sd "
            "sigma; leave cov out"
        )
    for key, value in found.items():
        if re.fullmatch(NAME, value) is None:
            raise ConfigError(f"{about}{call}: {key} is {value!r}, which is no column; {how}")
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


def _fields(term: str, given: Mapping[str, str], about: str) -> dict[str, Any]:
    """Return the fields of :class:`ResponseTerms` that a term sets."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if (term, name) == ("se", "sigma"):
            found["adds_sigma"] = _truth(value, about)
        elif (term, name) == ("weights", "kind"):
            if (kind := value.strip("\"'")) not in KINDS:
                raise ConfigError(
                    f"{about}weights have no kind {kind!r}; {suggestion(kind, KINDS)}"
                )
            found["kind"] = kind
        else:
            found[{"n": "trials", "censored": "cens"}.get(name, name)] = _column(
                term, name, value, about
            )
    return found


def _truth(value: str, about: str) -> bool:
    """Return whether a value is true."""
    if value.upper() not in ("TRUE", "FALSE", "T", "F"):
        raise ConfigError(f"{about}sigma in se() is {value}; write TRUE or FALSE")
    return value.upper().startswith("T")


def _column(term: str, name: str, value: str, about: str) -> str:
    """Return a column, or a number where one is allowed."""
    if term == "trunc" and is_number(value):
        return value
    if term == "trials" and value.isdecimal():
        return value
    if re.fullmatch(NAME, value) is None:
        raise ConfigError(
            f"{about}{name} in {term}() is {value!r}, which is not the name of a column; compute "
            f"the column in the table, and write {_EXAMPLES[term]}"
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
    about = f"formula {formula!r}: family {family.name} "
    has_sigma = family.name in WITH_SIGMA
    for name, is_given in (("cens", terms.cens), ("trunc", terms.lb or terms.ub)):
        if is_given and family.tails is None:
            others = [each for each in family_names() if find_family(each).tails is not None]
            raise ConfigError(
                f"{about}takes no {name}(), as Stan has no accurate distribution function; choose "
                f"one of {', '.join(others)}"
            )
    if terms.se and not has_sigma:
        raise ConfigError(f"{about}takes no se(); choose gaussian or student")
    if terms.weights and terms.kind == "precision" and not has_sigma:
        raise ConfigError(
            f"{about}takes no weights of the kind precision, which divide a variance sigma²; "
            "choose gaussian or student, or another kind"
        )
    if terms.residuals:
        _refuse_series(terms, family, f"formula {formula!r}: ")
        family = of_series(family) if terms.residuals == "ar" else with_units(family)
    if terms.se and not terms.adds_sigma and terms.weights and terms.kind == "precision":
        raise ConfigError(
            f"{about}has no sigma that weights of the kind precision could change, as se() gives "
            "it; write se(…, sigma = TRUE), or leave one of them out"
        )
    if terms.se and not terms.adds_sigma:
        return with_known(family, "sigma")
    return family


def _refuse_series(terms: ResponseTerms, family: Family, about: str) -> None:
    """Refuse a response whose residuals cannot be autoregressive."""
    if family.name not in WITH_SIGMA:
        raise ConfigError(
            f"{about}family {family.name} has no residuals for {terms.residuals}(); choose "
            "gaussian or student, or add a group term or a curve along the time, such as gp(t)"
        )
    if family.link != "identity":
        raise ConfigError(
            f"{about}{terms.residuals}() needs the link identity, not {family.link}; leave one of "
            "them out"
        )
    is_weighted = terms.weights and terms.kind != "precision"
    if terms.cens or terms.lb or terms.ub or is_weighted:
        raise ConfigError(
            f"{about}{terms.residuals}() cannot be combined with cens(), trunc() or weights of "
            "rows, with which the residual of a row is not known; leave one of them out"
        )


# The columns


@dataclass(frozen=True)
class ResponseValues:
    """The values of the terms in each row; a number is repeated.

    Attributes
    ----------
    of : mapping of str to array, shape (N,)
        The values by the names of the variables.
    has_words : bool
        Whether the column of censored rows has words.
    """

    of: Mapping[str, FloatArray] = field(default_factory=dict)
    has_words: bool = False


def read_values(
    terms: ResponseTerms, family: Family, table: Table, response: str, y: FloatArray
) -> ResponseValues:
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

    Raises
    ------
    DataError
        If a value is wrong; the message names its row, its column and a remedy.
    """
    found = dict[str, FloatArray]()
    has_words = False
    if terms.cens:  # True and False are numbers, too
        has_words = bool(np.isnan(table.typed(terms.cens).numbers_or_truth).any())
    if terms.cens:
        found["cens"] = _codes(terms.cens, table, has_words)
    for name in ("y2", "lb", "ub"):
        given = getattr(terms, name)
        if given:
            found[name] = _bound(given, table)
    for name in ("se", "weights"):
        given = getattr(terms, name)
        if given:
            found[name] = table.numbers(given, if_text="give a column of numbers")
    values = ResponseValues(found, has_words)
    for message, wrong in _wrongs(terms, family, response, y, found):
        if np.any(wrong):
            row = int(np.argmax(wrong))
            for key, each in {**found, "y": y}.items():
                message = message.replace(f"{{{key}}}", number_text(each[row]))
            raise DataError(f"{table.where(row)}: {message}")
    if terms.weights and not found["weights"].any():
        raise DataError(
            f"{table.source}: {terms.weights} is 0 in every row, so no row counts; correct it"
        )
    return values


def _codes(column: str, table: Table, has_words: bool) -> FloatArray:
    """Return the number of each row's kind of censoring."""
    if not has_words:
        return table.numbers(column)
    texts = table.texts(column)
    wrong = ~np.isin(texts, list(CODES))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{table.where(row)}: {column} is {texts[row]!r}, but cens() reads left, none, right, "
            "interval, True and False; rewrite the column"
        )
    return np.array([CODES[text] for text in texts], dtype=np.float64)


def _bound(given: str, table: Table) -> FloatArray:
    """Return a column, or a number for each row."""
    if is_number(given):
        return np.full(len(table), float(given))
    return table.numbers(given, if_missing="fill it in, with any number where it does not apply")


def _wrongs(
    terms: ResponseTerms, family: Family, response: str, y: FloatArray, of: Mapping[str, FloatArray]
) -> Iterator[tuple[str, Any]]:
    """Yield messages on wrong values, each with the rows to which it applies."""
    if terms.cens:
        cens, name = of["cens"], terms.cens
        yield (
            f"{name} is {{cens}}, but cens() reads 0 for rows that are not censored, 1 for right-, "
            "-1 for left- and 2 for interval-censored ones; recode it",
            ~np.isin(cens, list(CODES.values())),
        )
        if not terms.y2:
            yield (
                f"{name} marks an interval, but its upper end is not known; name its column, "
                f"cens({name}, y2 = …)",
                cens == 2,
            )
        else:
            yield (
                f"{response} is {{y}} and {terms.y2} is {{y2}}, but an interval begins at "
                f"{response} and ends above it, at {terms.y2}; correct one of them",
                (cens == 2) & (of["y2"] <= y),
            )
        yield (
            f"{name} marks every row as censored; give at least one row that is not, or another "
            "column",
            np.full(len(y), bool((cens == 1).all() or (cens == -1).all())),
        )
    if terms.lb and terms.ub:
        yield (
            "the lower bound {lb} is not below the upper bound {ub}; correct one of them",
            of["lb"] >= of["ub"],
        )
    remedy = "correct it, the bound, or leave the row out"
    if terms.lb:
        yield f"{response} is {{y}}, below the bound {{lb}} of trunc(); {remedy}", y < of["lb"]
    if terms.ub:
        yield f"{response} is {{y}}, above the bound {{ub}} of trunc(); {remedy}", y > of["ub"]
    for bound in ("lb", "ub"):
        if getattr(terms, bound) and family.is_discrete:
            yield (
                f"the bound {{{bound}}} of trunc() is not a whole number, as {response} is; "
                "round it",
                of[bound] != np.floor(of[bound]),
            )
    if terms.lb and terms.cens:
        yield (
            f"{response} is left-censored at {{y}}, which is the bound {{lb}} of trunc(); leave "
            "the row out",
            (of["cens"] == -1) & (y <= of["lb"]) & (not family.is_discrete),
        )
    if terms.ub and terms.cens:
        yield (
            f"{response} is right-censored at {{y}}, which is the bound {{ub}} of trunc(); leave "
            "the row out",
            (of["cens"] == 1) & (y >= of["ub"]),
        )
    if terms.se:
        yield (
            f"{terms.se} is {{se}}, but a standard error must be above 0; correct it or "
            "leave the row out",
            of["se"] <= 0,
        )
    if terms.weights:
        least = "0 or above"
        if terms.kind == "precision":
            least = "above 0"
        wrong = of["weights"] < 0
        if terms.kind == "precision":
            wrong = of["weights"] <= 0
        yield (
            f"{terms.weights} is {{weights}}, but a weight must be {least}; correct it or "
            "leave the row out",
            wrong,
        )


# The program


def data_lines(terms: ResponseTerms, family: Family) -> list[str]:
    """Return the declarations of the terms' variables, with comments."""
    lines, kind = [], "int" if family.is_discrete else "real"
    if terms.trials:
        lines.append(f"array[N] int<lower=0> trials; // {terms.trials}")
    if terms.cens:
        highest, interval = (2, ", 2: interval-") if terms.y2 else (1, "")
        lines.append(
            f"array[N] int<lower=-1, upper={highest}> cens; // {terms.cens}: 1: right-, -1: "
            f"left-{interval}censored; 0: not"
        )
    if terms.y2:
        own = "array[N] int" if family.is_discrete else "vector[N]"
        lines.append(f"{own} y2; // {terms.y2}: the upper ends of intervals")
    for name, which in (("lb", "lower"), ("ub", "upper")):
        given = getattr(terms, name)
        if given and is_number(given):
            lines.append(f"{kind} {name}; // the {which} bound of what is in the table")
        elif given:
            own = "array[N] int" if family.is_discrete else "vector[N]"
            lines.append(f"{own} {name}; // {given}: the {which} bound of what is in the table")
    if terms.se and terms.adds_sigma:
        lines.append(f"vector<lower=0>[N] se; // {terms.se}: the standard errors")
    elif terms.se:
        lines.append(f"vector<lower=0>[N] sigma; // {terms.se}: the standard errors")
    if terms.weights:
        name = "precision" if terms.kind == "precision" else "weights"
        lines.append(f"vector<lower=0>[N] {name}; // {terms.weights}: {_MEANINGS[terms.kind]}")
    if terms.weights and terms.kind == "survey":
        lines.append("real<lower=0> weights_mean; // their mean")
    if terms.residuals == "cosy":
        lines.append("int<lower=1> N_unit; // units")
        lines.append(f"array[N] int<lower=1, upper=N_unit> unit; // {terms.gr}")
    if terms.residuals == "ar":
        lines.append(
            f"array[N] int<lower=1, upper=N> previous; // the row before it, {_when(terms)}"
        )
    return lines


def _when(terms: ResponseTerms) -> str:
    """Return by which times, and in which series, a row comes before another one."""
    found = f"by {terms.time}" if terms.time else "by the order of the rows"
    return f"{found} in each {terms.gr}" if terms.gr else found


def sources_of(terms: ResponseTerms, values: ResponseValues) -> dict[str, dict[str, Any]]:
    """Return the sources of the terms' variables."""
    found = dict[str, dict[str, Any]]()
    if terms.trials:
        found["trials"] = {"column": terms.trials}
        if terms.trials.isdecimal():
            found["trials"] = {"value": int(terms.trials)}
    if terms.cens:
        found["cens"] = {"column": terms.cens}
        if values.has_words:
            found["cens"]["codes"] = dict(CODES)
    for name in ("y2", "lb", "ub"):
        given = getattr(terms, name)
        if given:
            found[name] = {"column": given}
            if is_number(given):
                number = float(given)
                found[name] = {"value": int(number) if number == int(number) else number}
    if terms.se:
        found["se" if terms.adds_sigma else "sigma"] = {"column": terms.se}
    if terms.weights:
        name = "precision" if terms.kind == "precision" else "weights"
        found[name] = {"column": terms.weights}
    if terms.weights and terms.kind == "survey":
        mean = float(np.mean(values.of["weights"]))
        found["weights_mean"] = {"value": float(f"{mean:.12g}")}
    if terms.residuals == "cosy":
        found["unit"] = {"column": terms.gr, "index": True}
    if terms.residuals == "ar":
        found["previous"] = {"previous": terms.time or "obs"}
        if terms.gr:
            found["previous"]["within"] = terms.gr
    return found


def sigma_in_stan(terms: ResponseTerms, stands_for: Mapping[str, str]) -> dict[str, str]:
    """Return what the likelihood names instead of the family's parameters; ``{row}`` is a row."""
    found = dict(stands_for)
    sigma = found.get("sigma", "sigma")
    if terms.se and terms.adds_sigma:
        sigma = f"hypot(se[{{row}}], {sigma})"
    elif terms.se:
        sigma = "sigma[{row}]"
    if terms.weights and terms.kind == "precision":
        sigma = f"{sigma} ./ sqrt(precision[{{row}}])"
    if sigma != "sigma":
        found["sigma"] = sigma
    return found


def sigma_predicted(terms: ResponseTerms, sigma: str = "sigma") -> str:
    """Return sigma of a row in ``[prediction]``; empty if no term changes it."""
    found = sigma
    if terms.se and terms.adds_sigma:
        found = f"sqrt(se * se + ({sigma}) * ({sigma}))"
    if terms.weights and terms.kind == "precision":
        found = f"{found} / sqrt(precision)"
    if found == sigma:
        return ""
    return found.replace("(sigma)", "sigma")


def row_likelihood(
    terms: ResponseTerms, family: Family, density: str, cumulative: str, sink: str
) -> list[str]:
    """Return the statements that set a variable to the log likelihood of row n.

    Parameters
    ----------
    terms, family
        The terms and the family.
    density, cumulative : str
        The distributions of the row, of which the second has ``_lcdf`` and ``_lccdf``.
    sink : str
        The variable.
    """
    lower, upper = _bound_of(terms.lb, "lb"), _bound_of(terms.ub, "ub")
    below = lower
    if lower and family.is_discrete:
        below = f"{lower} - 1"
    kind = "lpmf" if family.is_discrete else "lpdf"
    own = _call(density, kind, "y[n]")

    def between(low: str, high: str) -> str:
        """Return the log probability of values above `low` and up to `high`; both may be empty."""
        if not high:
            return _call(cumulative, "lccdf", low)
        if not low:
            return _call(cumulative, "lcdf", high)
        ends = _call(cumulative, "lcdf", high), _call(cumulative, "lcdf", low)
        return f"log_diff_exp({ends[0]}, {ends[1]})"

    lines = [f"{sink} = {own};"]
    if terms.cens:
        lines = [
            "if (cens[n] == 1) {",
            f"  {sink} = {between('y[n]', upper)};",
            "} else if (cens[n] == -1) {",
            f"  {sink} = {between(below, 'y[n]')};",
        ]
        if terms.y2:
            lines += ["} else if (cens[n] == 2) {", f"  {sink} = {between('y[n]', 'y2[n]')};"]
        lines += ["} else {", f"  {sink} = {own};", "}"]
    if lower or upper:
        lines.append(f"{sink} -= {between(below, upper)};")
    if terms.weights and terms.kind == "rows":
        lines.append(f"{sink} *= weights[n];")
    elif terms.weights and terms.kind == "survey":
        lines.append(f"{sink} *= weights[n] / weights_mean;")
    return lines


def row_replicate(terms: ResponseTerms, family: Family, rng: str) -> list[str]:
    """Return the statements that draw ``y_rep[n]``, cut off as the row is."""
    lower, upper = _bound_of(terms.lb, "lb"), _bound_of(terms.ub, "ub")
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
    if not terms.cens:
        return lines
    least, most = ("min", "max") if family.is_discrete else ("fmin", "fmax")
    lines += [
        "if (cens[n] == 1) {",
        f"  y_rep[n] = {least}(y_rep[n], y[n]);",
        "} else if (cens[n] == -1) {",
        f"  y_rep[n] = {most}(y_rep[n], y[n]);",
    ]
    if terms.y2:
        start = "y[n] + (ceil((y_rep[n] - y[n]) / width) - 1) * width"
        if family.is_discrete:
            start = f"to_int({start})"
        lines += [
            "} else if (cens[n] == 2) {",
            "  real width = y2[n] - y[n];",
            f"  y_rep[n] = {start};",
        ]
    return [*lines, "}"]


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
"""Statements before a likelihood of rows that depend on the rows before them."""


def rows_in_series(
    distribution: Callable[[str, str], str], rng: Callable[[str, str], str]
) -> list[str]:
    """Return the statements for each row, in the order of time, of rows that depend on others.

    Parameters
    ----------
    distribution, rng : callable
        Functions of a linear predictor and a row that return the distribution, and a draw.
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
        f"log_lik[row] = {_call(distribution('seen', 'row'), 'lpdf', 'y[row]')};",
        f"y_rep[row] = {rng('drawn', 'row')};",
    ]


def rows_in_units(family: Family, sigma: str) -> dict[str, list[str]]:
    """Return the statements of a likelihood whose residuals are correlated within units.

    Parameters
    ----------
    family : Family
        The family, gaussian or student.
    sigma : str
        Its sigma in row n.

    Returns
    -------
    mapping of str to list of str
        The `likelihood`, and of the generated quantities, what comes `before_pointwise`, and the
        statements for each row, `pointwise`.
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


def _bound_of(given: str, name: str) -> str:
    """Return a bound of row n in Stan; empty if there is none."""
    if not given:
        return ""
    return name if is_number(given) else f"{name}[n]"


def _call(distribution: str, kind: str, at: str) -> str:
    """Return a distribution's density or distribution function at a value, in Stan."""
    name, _, arguments = distribution.partition("(")
    return f"{name}_{kind}({at} | {arguments}"


def about_terms(terms: ResponseTerms, response: str) -> Sequence[str]:
    """Return sentences that say what the terms mean."""
    found = []
    if terms.cens:
        found.append(
            f"Where {terms.cens} marks {response} as censored, the likelihood is the probability "
            "of all values that it may have, and replicated data are censored as the data are."
        )
    if terms.lb or terms.ub:
        found.append(
            f"The table has no {response} outside the bounds of trunc(), and replicated data have "
            "none either; predictions are those without these bounds."
        )
    if terms.se and terms.adds_sigma:
        found.append(f"The variance of a row is sigma² plus the square of {terms.se}.")
    elif terms.se:
        found.append(f"The sd of a row is known: {terms.se}.")
    if terms.weights:
        found.append(_ABOUT_WEIGHTS[terms.kind].format(w=terms.weights))
    if terms.residuals == "cosy":
        found.append(
            f"Any two residuals of a {terms.gr} have the correlation cosy; the log likelihood of a "
            f"row is that given the rows before it in its {terms.gr}."
        )
    if terms.residuals == "ar":
        found.append(
            f"The residual of a row is ar times that of the row before it, {_when(terms)}, plus an "
            "error with the distribution of the family; its log likelihood is that given the row "
            "before."
        )
    return found


_ABOUT_WEIGHTS = {
    "rows": (
        "A row counts as {w} equal rows: its log likelihood is multiplied by {w}, LOO leaves all "
        "of them out together, and replicated data have one value for them."
    ),
    "precision": ("The variance of a row is divided by {w}, in LOO and in replicated data, too."),
    "survey": (
        "The log likelihood of a row is multiplied by {w} over its mean, which estimates what a "
        "fit to the whole population would give; the design of the survey is not known, so "
        "intervals and LOO's standard errors may be too narrow, and replicated data are those of "
        "the sample without weights."
    ),
}
