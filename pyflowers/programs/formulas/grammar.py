"""Parsing the text of a formula into response, population and groups; nothing is evaluated.

    response ~ population + (effects | group) + (effects || group); parameter ~ …

Brackets with a bar are extracted here. The remainder, and the part of each bracket before its bar,
are sums of terms for :mod:`pyflowers.programs.terms`. The formulas of other parameters follow that
of the response after semicolons, or on lines of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyflowers.errors import ConfigError
from pyflowers.programs.terms import EDIT_PROGRAM, LONGEST, SEVERAL, read_terms

_NAME = r"(?:[^\W\d][\w.]*|`[^`]+`)"
_RESPONSE = re.compile(rf"\s*({_NAME})\s*(?:\|\s*trials\(\s*({_NAME}|\d+)\s*\)\s*)?")
_GROUP = re.compile(rf"\s*{_NAME}\s*(?:[:/]\s*{_NAME}\s*)*")
_QUOTES = r"`[^`]*`|\"[^\"]*\"|'[^']*'"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


_AFTER_BAR = {
    "cens": EDIT_PROGRAM,
    "trunc": EDIT_PROGRAM,
    "weights": f"repeat rows that stand for several, or {EDIT_PROGRAM}",
    "se": EDIT_PROGRAM,
    "mi": f"leave out the rows with --drop-missing, or {EDIT_PROGRAM}",
    "rate": "add offset(log(n)) to the terms, where n is the column in rate(n)",
    "subset": "leave the rows out of the table",
}
"""What may follow the response in brms, each with its remedy."""


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
    """

    effects: str
    group: str
    correlated: bool
    is_merged: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns whose combination is the group."""
        return self.group.split(":")

    def __str__(self) -> str:
        return f"({self.effects} {'|' if self.correlated else '||'} {self.group})"


@dataclass(frozen=True)
class ParameterFormula:
    """The formula of another parameter of the family, such as ``sigma ~ x``.

    Attributes
    ----------
    text : str
        The formula.
    parameter : str
        The parameter.
    population, groups
        See :class:`Formula`.
    """

    text: str
    parameter: str
    population: str
    groups: tuple[GroupTerm, ...]


@dataclass(frozen=True)
class Formula:
    """A formula in parts.

    Attributes
    ----------
    text : str
        The formula, with the formulas of other parameters.
    response : str
        The column of the response.
    trials : str
        The column of the trials, or their number; empty without ``| trials(n)``.
    population : str
        The sum of terms of the population; ``1`` if there are none.
    groups : tuple of GroupTerm
        The group terms.
    parameters : tuple of ParameterFormula
        The formulas of other parameters of the family.
    """

    text: str
    response: str
    trials: str
    population: str
    groups: tuple[GroupTerm, ...]
    parameters: tuple[ParameterFormula, ...] = ()

    @property
    def response_columns(self) -> list[str]:
        """The columns of the response and of its trials."""
        if self.trials and not self.trials.isdecimal():
            return [self.response, self.trials]
        return [self.response]


def parse(text: str) -> Formula:
    """Parse a formula, and those of other parameters that follow it.

    Raises
    ------
    ConfigError
        If it is not a formula; the message names the part that is wrong.
    """
    if len(text) > LONGEST:
        raise ConfigError(f"formula has more than {LONGEST} characters; shorten it")
    first, *others = split(text)
    formula = _of_response(first, "; ".join([first, *others]))
    parameters = tuple(map(_of_parameter, others))
    names = [each.parameter for each in parameters]
    for each in parameters:
        if names.count(each.parameter) > 1:
            raise ConfigError(
                f"formula {each.text!r}: {each.parameter} has two formulas; write all its terms "
                "in one"
            )
    return replace(formula, parameters=parameters)


def split(text: str) -> list[str]:
    """Return the formulas in a text: a semicolon, or a line with its own ~, begins another one.

    Each is on one line, with single blanks outside quotes.
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
    """Return the formula of the response; `whole` is the text with those of parameters."""
    left, right = _sides(text)
    if not left.strip():
        raise ConfigError(
            f"formula {text!r}: there is no response before the ~; name its column there"
        )
    match = _RESPONSE.fullmatch(left)
    asked = re.search(r"\|.*?\b([^\W\d]\w*)\(", left)
    if match is None and asked and asked[1] in _AFTER_BAR:
        raise ConfigError(
            f"formula {text!r}: {asked[1]}() is not supported; {_AFTER_BAR[asked[1]]}"
        )
    if match is None and re.fullmatch(rf"\s*{_NAME}\s*\|.*", left):
        raise ConfigError(
            f"formula {text!r}: only trials(n) may follow the response and |, where n is a "
            "column or a whole number; correct it"
        )
    if match is None:
        raise ConfigError(
            f"formula {text!r}: the response {left.strip()!r} is neither a column nor column | "
            "trials(n); transform it in the table, or choose a family for its scale"
        )
    population, groups = _without_brackets(text, right)
    return Formula(whole, _bare(match[1]), _bare(match[2] or ""), population, groups)


def _of_parameter(text: str) -> ParameterFormula:
    """Return the formula of a parameter."""
    left, right = _sides(text)
    name = left.strip()
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise ConfigError(
            f"formula {text!r}: the formulas after the first are those of other parameters, and "
            f"{name or 'nothing'!r} is not the name of one; write a name such as sigma before the ~"
        )
    population, groups = _without_brackets(text, right)
    return ParameterFormula(text, name, population, groups)


def _without_brackets(text: str, right: str) -> tuple[str, tuple[GroupTerm, ...]]:
    """Return the sum of terms without the group terms, and the group terms."""
    rest, groups, start = "", list[GroupTerm](), 0
    for begin, end in _top_brackets(right):
        inside = right[begin + 1 : end]
        bar = _first_bar(inside)
        before = right[start:begin].rstrip()
        if bar is None:  # a call, or terms in parentheses
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


def _group_terms(text: str, inside: str, bar: int) -> Iterator[GroupTerm]:
    """Yield the group terms of a bracket: ``a/b`` means ``a`` and ``a:b``."""
    effects, is_double = inside[:bar].strip(), inside[bar : bar + 2] == "||"
    group = inside[bar + 1 + is_double :].strip()
    if not effects or not _GROUP.fullmatch(group):
        raise ConfigError(
            f"formula {text!r}: the group term ({inside}) cannot be read; write (effects | group), "
            "where group is a column, a:b or a/b, and effects are terms such as 1 + x"
        )
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
        yield GroupTerm(effects, ":".join(outer), not is_double)


def _merged(text: str, groups: list[GroupTerm]) -> tuple[GroupTerm, ...]:
    """Refuse repeated terms; merge ``(1 | g) + (0 + x | g)`` into ``(1 + x || g)``."""
    found: dict[tuple[str, ...], GroupTerm] = {}
    for term in groups:
        key = tuple(sorted(term.columns))
        before = found.get(key)
        if before is None:
            found[key] = term
            continue
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
    return tuple(found.values())


def _refuse_unbalanced(text: str, right: str) -> None:
    """Refuse unbalanced brackets, which would end a term in the wrong place."""
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
