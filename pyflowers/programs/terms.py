"""A sum of terms such as ``year * height + log(x)``: a table's columns in, a design matrix out.

Only columns and the functions of `FUNCTIONS` may be named. That is checked on the syntax tree of
each term before anything is evaluated, so that a formula in a stranger's file can run no code. The
algebra of terms and the coding of factors are formulaic's.

A sum that names ``1`` has a column of ones, called Intercept. One that names neither 1 nor 0 has
none, and codes its factors as beside an intercept, by contrasts with their first level; after
``0 +`` the first factor has a column for each of its levels.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.errors import ConfigError, DataError

INTERCEPT = "Intercept"
FUNCTIONS = ("log", "log2", "log10", "exp", "sqrt", "scale", "center", "poly", "bs", "I", "C")
"""What a term may call. ``I`` holds arithmetic; ``C(x, ref="a")`` makes a factor of a column."""

MOST_CROSSED = 8
"""Signs that multiply terms, each of which may double their number."""

MOST_COLUMNS = 1_000
"""Columns of a design; a factor with more levels is a group."""

LARGEST = 1e100
"""A covariate beyond this is a mistake, and its square may be no number."""

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_SIGNS = (ast.UAdd, ast.USub)
_ROWS_OF_FACTOR = re.compile(r"\[(?:T\.)?(.*?)\](?=:|$)")
_FACTOR_CALL = re.compile(r"C\(([^(),]+)(?:, ref=(?:'[^']*'|\"[^\"]*\"|[^()]*))?\)(?=\[)")
_QUOTED = re.compile(r"`([^`]*)`")

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """A sum of terms that has been checked.

    Attributes
    ----------
    text : str
        The sum without offsets.
    columns : tuple of str
        The columns that it names.
    offsets : tuple of str
        What ``offset(...)`` holds.
    has_intercept : bool
        Whether it asks for an intercept, or leaves one to be.
    is_empty : bool
        Whether it has no term but an intercept.
    """

    text: str
    columns: tuple[str, ...]
    offsets: tuple[str, ...]
    has_intercept: bool
    is_empty: bool


@lru_cache(maxsize=256)
def read_terms(text: str) -> Terms:
    """Check a sum of terms.

    Raises
    ------
    ConfigError
        Naming what it may not hold.
    """
    _refuse_unreadable(text)
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    try:
        found = list(Formula(text))
        terms = [[factor.expr for factor in term.factors] for term in found]
    except (FormulaicError, AttributeError, SyntaxError, ValueError, RecursionError) as error:
        reason = re.sub(r"\x1b\[[\d;]*m|[⧛⧚]|\.? \(tip.*", "", str(error).strip().splitlines()[0])
        raise ConfigError(
            f"terms {text!r}: they cannot be read ({reason.rstrip('. ')}); correct them"
        ) from None
    columns, offsets, kept = dict[str, None](), list[str](), list[str]()
    for factors in terms:
        held = [_offset_of(factor) for factor in factors]
        for factor, offset in zip(factors, held, strict=True):
            columns |= dict.fromkeys(_columns_of(offset or factor, text))
        if any(held):
            if len(factors) > 1:
                raise ConfigError(
                    f"terms {text!r}: an offset is a term by itself; leave : and * out"
                )
            offsets += [offset for offset in held if offset]
        elif factors != ["1"]:
            kept.append(":".join(map(_quote, factors)))
    one = ["1"] if ["1"] in terms else ["0"]
    return Terms(" + ".join(one + kept), tuple(columns), tuple(offsets), one == ["1"], not kept)


def design(
    text: str,
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]] | None = None,
    *,
    refuse: Callable[[str], Exception] = DataError,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the design matrix of a sum of terms, and what its columns are called.

    Parameters
    ----------
    text : str
        The sum.
    cells : mapping of str to array or Categorical
        Numbers, or a factor, of each column that it names.
    levels : mapping of str to sequence of str, optional
        The levels of a column of numbers that ``C(...)`` makes a factor; all of its values, in
        their order, by default.
    refuse : callable
        Makes the exception of a sentence about the data.

    Returns
    -------
    matrix : array, shape (N, K)
        With a column for each effect.
    names : tuple of str
        As brms users know them: ``year96``, ``treated:base``.
    """
    terms = read_terms(text)
    num = len(next(iter(cells.values()))) if cells else 0
    found = _evaluated(terms.text, cells, levels or {}, refuse)
    has_ones = re.search(r"(?:^|\+)\s*1\s*(?:$|[+-])", _outside_brackets(text)) is not None
    frame = found if has_ones or INTERCEPT not in found else found.drop(columns=INTERCEPT)
    values = frame.to_numpy(dtype=np.float64).reshape(num, frame.shape[1])
    names = [_plain_name(str(name)) for name in frame.columns]
    names = names if len(set(names)) == len(names) else list(map(str, frame.columns))
    bad = np.argwhere(~(np.abs(values) < LARGEST))
    if bad.size:
        raise refuse(
            f"observation {bad[0][0] + 1}: {names[bad[0][1]]} is {values[tuple(bad[0])]:g}; "
            "correct the column, or the term"
        )
    return values, tuple(names)


def offset(expression: str, cells: Mapping[str, Any]) -> FloatArray:
    """Return what an offset adds to each row, shape (N,)."""
    values, names = design(f"0 + {expression}", cells)
    if len(names) != 1:
        raise DataError(f"offset({expression}): it is {len(names)} columns; an offset is numbers")
    return values[:, 0]


def refuse_unknown(text: str, columns: Collection[str]) -> None:
    """Refuse a sum that names a column which the table does not have.

    Raises
    ------
    ConfigError
        Naming the column, and one that it may be meant for.
    """
    for name in read_terms(text).columns:
        if name not in columns:
            alike = {column.casefold(): column for column in columns}
            near = difflib.get_close_matches(name.casefold(), alike, n=1)
            hint = (
                f"did you mean {alike[near[0]]}?"
                if near
                else f"the columns are {', '.join(columns)}"
            )
            raise ConfigError(f"terms {text!r}: there is no column {name!r}; {hint}")


def _evaluated(
    text: str,
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]],
    refuse: Callable[[str], Exception],
) -> pd.DataFrame:
    """Return the columns that formulaic makes of the cells."""
    from formulaic import Formula, model_matrix
    from formulaic.errors import FormulaicError

    num = len(next(iter(cells.values()))) if cells else 0
    factors = {name: its for name, its in cells.items() if isinstance(its, pd.Categorical)}
    for name, its in factors.items():
        if len(its.categories) > MOST_COLUMNS:
            raise refuse(
                f"{name} has {len(its.categories)} levels; more than {MOST_COLUMNS} are a group, "
                f"(1 | {name}), or numbers"
            )
        if len(its.categories) < 2:
            raise refuse(f"{name} is {its.categories[0]!r} in every row; leave it out")
    frame = pd.DataFrame(dict(cells), index=pd.RangeIndex(num))
    context = {"sqrt": np.sqrt, "log10": np.log10, "log2": np.log2}

    def factor(values: Any, ref: Any = None) -> Any:
        its = pd.Series(values)
        return _coded(as_factor(its, levels.get(str(its.name))), ref)

    try:
        with np.errstate(all="ignore"):
            made = model_matrix(
                Formula(text), frame, context=context | {"C": factor}, na_action="ignore"
            )
    except FormulaicError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
        raise refuse(
            f"terms {text!r}: {reason.rstrip('.')}; correct the term or the column"
        ) from None
    except (TypeError, ValueError, KeyError, np.linalg.LinAlgError) as error:
        raise refuse(f"terms {text!r}: {error}; correct the term or the column") from None
    return pd.DataFrame(made)


def as_factor(values: pd.Series, levels: Sequence[str] | None = None) -> pd.Series:
    """Return numbers as a factor with their texts as levels; a factor stays what it is.

    Raises
    ------
    ValueError
        For a value that is none of the levels.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values
    texts = [f"{value:.15g}" for value in values]
    known = levels or [f"{value:.15g}" for value in np.unique(values)]
    unknown = next((text for text in texts if text not in set(known)), None)
    if unknown is not None:
        raise ValueError(f"{values.name} is {unknown}, and its levels are {', '.join(known)}")
    return pd.Series(pd.Categorical(texts, categories=list(known)), name=values.name)


def _coded(values: pd.Series, ref: Any) -> Any:
    """Return a factor's contrasts with the level `ref`, the first by default."""
    from formulaic.transforms import TRANSFORMS

    levels = list(values.cat.categories)
    base = levels[0] if ref is None else f"{ref:.15g}" if isinstance(ref, int | float) else ref
    if base not in levels:
        raise ValueError(f"ref={ref!r} is not a level; they are {', '.join(map(str, levels))}")
    return TRANSFORMS["C"](values, TRANSFORMS["contr"].treatment(base))


def _refuse_unreadable(text: str) -> None:
    """Refuse, before it is parsed, what no sum of terms holds."""
    plain = re.sub(r"`[^`]*`|\"[^\"]*\"|'[^']*'", "_", text)
    wrong = re.search(r"[^\w\s.+\-*/:,=()]|__|(?<![\w.])\.(?!\d)", plain)
    if wrong:
        raise ConfigError(
            f"terms {text!r}: {wrong[0]!r} has no meaning there; terms are columns, "
            f"{', '.join(FUNCTIONS)} and offset of columns, joined by + - : *"
        )
    outside = _outside_brackets(text)
    if "**" in outside:
        raise ConfigError(
            f"terms {text!r}: a power of terms is not read; write a * b, or I(x**2) for a power "
            "of a column"
        )
    if len(re.findall(r"[*/]", plain)) > MOST_CROSSED:
        raise ConfigError(
            f"terms {text!r}: more than {MOST_CROSSED} products; write those that you need with :"
        )
    depth = 0
    for mark in plain:
        depth += (mark == "(") - (mark == ")")
        if depth > 10:
            raise ConfigError(f"terms {text!r}: brackets are nested too deeply; write it out")


def _outside_brackets(text: str) -> str:
    """Return a text without calls and quotes; a bracket of terms is not a call."""
    plain = re.sub(r"`[^`]*`|\"[^\"]*\"|'[^']*'", "_", text)
    before = ""
    while plain != before:
        before = plain
        plain = re.sub(r"\w\([^()]*\)", "_", re.sub(r"(?<!\w)\(([^()]*)\)", r" \1 ", plain))
    return plain


def _offset_of(factor: str) -> str:
    """Return what an offset holds; empty if a factor is none."""
    match = re.fullmatch(r"offset\((.*)\)", factor, re.DOTALL)
    return match[1] if match else ""


def _quote(name: str) -> str:
    """Return a factor as it is written: a column whose name is no identifier in backticks."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) or re.match(r"[^\W\d]\w*\(", name)
    return name if is_plain else f"`{name}`"


def _columns_of(factor: str, text: str) -> Iterator[str]:
    """Yield the columns that a factor names, once it is known to do nothing else."""
    if factor in ("1", "0"):
        return
    if not re.match(r"[^\W\d]\w*\(", factor) and not re.search(r"[+\-*/(),=]", factor):
        yield factor
        return
    quoted: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        quoted[name := f"quoted{len(quoted)}"] = match[1]
        return name

    try:
        tree = ast.parse(_QUOTED.sub(placeholder, factor), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"terms {text!r}: {factor} cannot be read; correct it") from None
    names = list(_names(tree, factor, text, allows_arithmetic=False))
    if not names:
        raise ConfigError(f"terms {text!r}: {factor} names no column; give it one")
    yield from (quoted.get(name, name) for name in names)


def _names(node: ast.expr, factor: str, text: str, *, allows_arithmetic: bool) -> Iterator[str]:
    """Yield the names of columns in an expression; refuse all but closed list and arithmetic."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        if isinstance(node.value, int | float) and not abs(float(node.value)) <= 1e15:
            raise ConfigError(f"terms {text!r}: {node.value} in {factor} is too large a number")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _arguments(node, node.func.id, factor, text)
    elif allows_arithmetic and isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        is_power = isinstance(node.op, ast.Pow)
        if is_power and not (isinstance(node.right, ast.Constant) and _is_small(node.right.value)):
            raise ConfigError(f"terms {text!r}: the power in {factor} must be a number up to 10")
        for part in (node.left, node.right):
            yield from _names(part, factor, text, allows_arithmetic=True)
    elif allows_arithmetic and isinstance(node, ast.UnaryOp) and isinstance(node.op, _SIGNS):
        yield from _names(node.operand, factor, text, allows_arithmetic=True)
    else:
        raise ConfigError(
            f"terms {text!r}: {ast.unparse(node)} is not read in a term; arithmetic of columns "
            "goes into I(...), such as I(x**2)"
        )


def _arguments(call: ast.Call, name: str, factor: str, text: str) -> Iterator[str]:
    """Yield the columns in the arguments of a call."""
    if name not in FUNCTIONS:
        raise ConfigError(
            f"terms {text!r}: {name}() is not one of the functions of terms: "
            f"{', '.join(FUNCTIONS)}; make its values a column of the table"
        )
    if not call.args or any(isinstance(each, ast.Starred) for each in call.args):
        raise ConfigError(f"terms {text!r}: {factor} names no column; give it one")
    yield from _names(call.args[0], factor, text, allows_arithmetic=True)
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    known = {"C": {"ref"}, "poly": {"degree"}, "bs": {"df", "degree"}}.get(name, set())
    for key, value in [*((None, each) for each in call.args[1:]), *options.items()]:
        is_known = key in known or (key is None and name in ("poly", "bs"))
        if not is_known or not isinstance(value, ast.Constant):
            given = ast.unparse(value) if key is None else f"{key}={ast.unparse(value)}"
            takes = ", ".join(f"{each}=" for each in sorted(known)) or "nothing"
            raise ConfigError(
                f"terms {text!r}: {given} in {factor}: {name} takes {takes} beside its column"
            )
        if key != "ref" and not (isinstance(value.value, int) and 1 <= value.value <= 50):
            raise ConfigError(f"terms {text!r}: {factor}: a degree is a whole number from 1 to 50")


def _is_small(power: Any) -> bool:
    return isinstance(power, int | float) and math.fabs(power) <= 10


def _plain_name(column: str) -> str:
    """Return a column's name as brms users know it: ``year96`` of ``C(year)[T.96]``."""
    return _ROWS_OF_FACTOR.sub(r"\1", _FACTOR_CALL.sub(r"\1", column))
