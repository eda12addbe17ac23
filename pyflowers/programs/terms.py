"""Reading and checking a sum of terms such as ``year * height + log(x)``, without evaluating it.

Only columns, ``offset`` and the functions in `FUNCTIONS` may be named. This is checked on the
syntax tree of each term, so that a formula in an untrusted file cannot run code. The columns of a
sum are computed in :mod:`pyflowers.programs.design`.

A sum that names ``1`` has a column of ones, called Intercept. A sum that names neither 1 nor 0 has
no such column, but codes its factors as if there were an intercept, by contrasts with their first
level. After ``0 +`` the first factor has a column for each of its levels.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyflowers.data.columns import number_text
from pyflowers.data.table import listed
from pyflowers.errors import ConfigError
from pyflowers.text import in_words, nearest

INTERCEPT = "Intercept"

OF_CURVES: Mapping[str, tuple[str, ...]] = {
    "s": ("s", "S", "K_s", "sds", "level_s", "levels_s", "N_level_s", "curves"),
    "gp": ("gp", "z_gp", "K_gp", "Phi", "omega", "sdgp", "lscale", "sines"),
    "mo": ("mo", "K_mo", "passed", "share", "step", "steps"),
}
"""Functions that give the columns of a curve, whose coefficients have a prior of their own, each
with the prefixes of the curve's variables."""

_OF_NUMBERS = ("log", "log2", "log10", "exp", "sqrt", "scale", "center")

FUNCTIONS = (*_OF_NUMBERS, "poly", "bs", "ns", "cc", "I", "C", *OF_CURVES)
"""Functions in terms.

``I`` is for arithmetic or a comparison; ``C(x, ref="a", levels=["b", "a"])`` makes a column a
factor.
"""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "C": ("ref", "levels"),
    "poly": ("degree",),
    "bs": ("df", "degree"),
    "ns": ("df",),
    "cc": ("df", "period"),
    "s": ("k", "bs", "period"),
    "gp": ("k", "c"),
    "mo": ("levels",),
}
"""The options of functions, which follow the column."""

SECOND: Mapping[str, str] = {"poly": "degree", "bs": "df", "ns": "df", "cc": "df"}
"""The option that the second argument of a function sets, if it has no name."""

DEFAULT_SIZES: Mapping[str, int] = {"ns": 4, "cc": 4, "s": 10, "gp": 25}
"""The default number of columns of a function; for ``s``, an upper limit."""

LONGEST = 2_000
"""The maximum number of characters in a sum or formula; longer texts may exhaust a parser."""

MOST_COLUMNS = 1_000
"""The maximum number of columns of a design; a factor with more levels should be a group."""

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)

_SIGNS = (ast.UAdd, ast.USub)

_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)

_POWER = re.compile(r"\)\s*(?:\*\*|\^)\s*([2-9])(?![\w.])")
"""The power of a sum in brackets: all products of up to that many of its terms."""

_DOTTED = r"(?<![\w.])([^\W\d]\w*(?:\.\w+)+)(?![\w.(])"
"""A column name with dots, as in R."""

_QUOTES = r"\"[^\"]*\"|'[^']*'"

OF_LEVELS = ("C", "mo")
"""Functions that take the levels of a column, which may be numbers."""

SEVERAL = ("poly", "bs", "ns", "cc", "C", *OF_CURVES)
"""Functions that give several columns, and so cannot be used inside another function."""

COLUMN = re.compile(r"column__\d+_")
"""Substitute for a column in backticks; other names cannot contain two underscores."""


@dataclass(frozen=True)
class Terms:
    """A sum of terms that has been checked.

    Attributes
    ----------
    text : str
        The expanded sum without offsets, which begins with ``1`` or ``0``.
    columns : tuple of str
        The columns that it names.
    offsets : tuple of str
        The expressions in ``offset(...)``.
    has_intercept : bool
        Whether it has an intercept, named or by default.
    is_empty : bool
        Whether it has no terms except an intercept and offsets.
    interactions : tuple of tuple of str
        The columns of each product of columns.
    """

    text: str
    columns: tuple[str, ...]
    offsets: tuple[str, ...]
    has_intercept: bool
    is_empty: bool
    interactions: tuple[tuple[str, ...], ...] = ()


@lru_cache(maxsize=256)
def read_terms(text: str) -> Terms:
    """Read and check a sum of terms.

    Raises
    ------
    ConfigError
        If the sum is not allowed; the message names the part that is not allowed.
    """
    _refuse_unreadable(text)
    # formulaic takes most of a second to import, and only formulas and terms need it.
    from formulaic import Formula
    from formulaic.errors import FormulaicError
    from formulaic.parser.types import Factor

    hidden, quoted = hide_columns(text)
    try:
        found = [list(term.factors) for term in Formula(hidden)]
    except (FormulaicError, AttributeError, SyntaxError, ValueError, RecursionError):
        remedy = _WELL_FORMED
        keywords = list(filter(keyword.iskeyword, _WORD.findall(hidden)))
        if keywords:
            remedy = f"put the column {keywords[0]!r} in backticks"
        raise ConfigError(f"{of_terms(text)} cannot be read; {remedy}") from None
    columns, offsets, kept = dict[str, None](), list[str](), list[str]()
    products = list[tuple[str, ...]]()
    for factors in found:
        of_term = dict[str, None]()
        shown = [show_columns(factor.expr, quoted) for factor in factors]
        held = [_offset_of(factor.expr) for factor in factors]
        for factor, own, offset in zip(factors, shown, held, strict=True):
            if factor.eval_method is Factor.EvalMethod.LOOKUP:
                of_term[quoted.get(factor.expr, factor.expr)] = None
            elif factor.expr not in ("0", "1"):
                names = _columns_of(offset or factor.expr, own, text)
                of_term |= dict.fromkeys(quoted.get(name, name) for name in names)
        columns |= of_term
        if len(factors) > 1 and len(of_term) > 1:
            products.append(tuple(of_term))
        if any(held):
            if len(factors) > 1:
                raise ConfigError(
                    f"{of_terms(text)}: an offset must be a term by itself; leave : and * out"
                )
            offsets += [show_columns(offset, quoted) for offset in held]
        elif shown != ["1"]:
            kept.append(":".join(map(quote, shown)))
    calls = {_normal(factor.expr) for factors in found for factor in factors}
    for call in _calls(hidden):
        if _normal(call) not in calls:
            shown_call, offset = show_columns(call, quoted), show_columns(_offset_of(call), quoted)
            why = f"no other term contains it; leave {shown_call} out"
            if offset:
                why = f"offsets can only be added; write offset(I(-({offset})))"
            raise ConfigError(f"{of_terms(text)}: {shown_call} is subtracted, but {why}")
    named = _POWER.sub(")", _outside_calls(hidden))
    words = {quoted.get(word, word) for word in _WORD.findall(named)}
    for name in sorted(words - {*columns, "_", "0", "1"}):
        raise ConfigError(
            f"{of_terms(text)}: {name} is subtracted, but no other term contains it; leave {name} "
            "out"
        )
    if INTERCEPT in columns:
        raise ConfigError(
            f"{of_terms(text)}: {INTERCEPT} is the name of the column of ones; write 1 for this "
            "column, or rename the table's column of this name"
        )
    has_ones = any([factor.expr for factor in factors] == ["1"] for factors in found)
    text = " + ".join([str(int(has_ones)), *kept])
    return Terms(text, tuple(columns), tuple(offsets), has_ones, not kept, tuple(products))


def of_terms(text: str) -> str:
    """Return the beginning of a message about a sum, without the 0 or 1 that was put before it."""
    return f"terms {re.sub(r'^[01] [+] ', '', text)!r}"


def refuse_unknown(text: str, columns: Collection[str]) -> None:
    """Reject a sum that names a column which the table does not have.

    Raises
    ------
    ConfigError
        If there is such a column; the message names it and a similar one.
    """
    for name in read_terms(text).columns:
        if name not in columns:
            hint = hint_of(name, columns)
            raise ConfigError(f"{of_terms(text)}: there is no column {name!r}; {hint}")


def hint_of(name: str, columns: Collection[str]) -> str:
    """Return a hint about the column that a name may refer to."""
    known = {str(column).casefold(): str(column) for column in columns}
    near = nearest(name.casefold(), known)
    if near:
        return f"did you mean {known[near]}?"
    return listed(columns)


EDIT_PROGRAM = (
    "write the program of a simpler formula with pyflowers new, and edit it (see the guide to "
    "editing a program)"
)
"""The remedy for what a formula cannot express."""

IMPUTE = (
    "write mi(x) as a term by itself, outside products and group terms, with a formula of x after "
    "a semicolon, as in y ~ mi(x) + z; x | mi() ~ z"
)
"""The remedy for ``mi(x)`` where it is not allowed."""

_OF_BRMS = {
    "ar": "write it as a term by itself, such as y ~ x + ar(time = t, gr = g)",
    **dict.fromkeys(("ma", "arma", "unstr", "sar", "car"), EDIT_PROGRAM),
    **dict.fromkeys(("me", "cs", "t2", "te", "ti"), EDIT_PROGRAM),
    "mi": IMPUTE,
    "cosy": "write it as a term by itself, such as y ~ x + cosy(gr = g)",
    "mm": "write it as a group, (1 | mm(g1, g2))",
    "cr": "write ns(x, df=4) for a natural cubic spline, or s(x) for a penalised one",
    "cut": "make a column of intervals, for example with pandas.cut",
}
"""Terms of brms and functions of R, each with the remedy."""

_WORD = re.compile(r"[\w.]+")

_WELL_FORMED = "join columns by + - : * and close each bracket and quote"


def _refuse_unreadable(text: str) -> None:
    """Reject a text with forbidden parts or too many terms, before it is parsed."""
    if len(text) > LONGEST:
        raise ConfigError(f"terms have more than {LONGEST} characters; shorten them")
    where, plain = f"{of_terms(text)}: ", re.sub(rf"`[^`]+`|{_QUOTES}", "_", text)
    if re.search(r"``|\\", text):
        raise ConfigError(f"{where}there is a backslash or an empty name; leave it out")
    if "__" in plain:
        raise ConfigError(f"{where}there is a name with __; put it in backticks, such as `lp__`")
    allowed = re.sub(r"(?<==)\s*\[[^\[\]()]*\]|!=|[<>]", "", plain)
    wrong = re.search(r"[^\w\s.+\-*/:,=()^]|(?<![\w.])\.(?!\d)", allowed)
    if wrong:
        raise ConfigError(
            f"{where}{wrong[0]!r} is not allowed; terms are columns, or functions of columns "
            f"({', '.join(FUNCTIONS)}, offset), joined by + - : *"
        )
    if factor := re.search(r"\bas\.(?:factor|ordered)\(", plain):
        raise ConfigError(f"{where}{factor[0]}) is not supported; write C(x) for a factor")
    apart = _outside_calls(text)
    comparison = re.search(r"[<>]=?|[=!]=", apart)
    if comparison:
        raise ConfigError(
            f"{where}a comparison must be inside I(...); write I(x {comparison[0]} 2), which is 1 "
            "where it is true, and 0 elsewhere"
        )
    sums = _POWER.sub(")", apart)
    if "**" in sums or plain.count("^") > apart.count("^") or "^" in sums:
        raise ConfigError(
            f"{where}only a sum in brackets can have a power, from 2 to 9, such as (a + b)**2 for "
            "a + b + a:b; write I(x**2) for a power of a column"
        )
    depth = 0
    for mark in plain:
        depth += (mark == "(") - (mark == ")")
        if depth > 10:
            raise ConfigError(f"{where}brackets are nested too deeply; write the terms out")
    level = next((q for q in re.findall(_QUOTES, text) if _is_open(q)), "")
    if level:
        raise ConfigError(
            f"{where}the level {level} has an unmatched bracket; rename the level, or make it the "
            "first category of a pandas Categorical"
        )
    if re.search(r"(?<!\w)\(\s*\)", plain):
        raise ConfigError(f"{where}there are empty brackets; leave them out")
    number = re.search(r"(?<![\w.])(?![01](?![\w.]))\d[\d.]*(?![\w.])", sums)
    if number:
        raise ConfigError(
            f"{where}{number[0]} is not a term; put arithmetic into I(...), such as I(2 * x)"
        )
    if re.search(r"[\w)]\s+[\w(]|\)\w", sums):
        raise ConfigError(f"{where}a sign such as + is missing between two terms; {_WELL_FORMED}")
    # To Python's parser, a power looks like an index: (a + b)[_, _].
    counted = _POWER.sub(lambda its: f")[{', '.join('_' * int(its[1]))}]", plain)
    try:
        num = _num_terms(ast.parse(_WORD.sub("_", counted).replace(":", "**").strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"{where}the terms cannot be read; {_WELL_FORMED}") from None
    if num > MOST_COLUMNS:
        raise ConfigError(
            f"{where}the products have {num:,} terms, more than {MOST_COLUMNS:,}; write only "
            "those that you need, joined by :"
        )


def _is_open(text: str) -> bool:
    """Return whether a text has an unmatched bracket."""
    while (shorter := re.sub(r"\([^()[\]]*\)|\[[^()[\]]*\]", "", text)) != text:
        text = shorter
    return re.search(r"[()[\]]", text) is not None


def _num_terms(node: ast.AST) -> int:
    """Return the largest possible number of terms of an expanded sum.

    ``**`` stands for ``:``, and an index for a power.
    """
    if isinstance(node, ast.Expression):
        return _num_terms(node.body)
    if isinstance(node, ast.UnaryOp):
        return _num_terms(node.operand)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        num, power = _num_terms(node.value), len(node.slice.elts)
        return sum(math.comb(num, i) for i in range(1, power + 1))
    if not isinstance(node, ast.BinOp):
        return 1
    left, right = _num_terms(node.left), _num_terms(node.right)
    if isinstance(node.op, ast.Pow):
        return left * right
    if isinstance(node.op, ast.Mult):
        return left * right + left + right
    return left + right


def around(column: str, text: str) -> dict[str, ast.expr]:
    """Return the functions, and the operators ``**`` and ``/``, that are applied to a column.

    Parameters
    ----------
    column : str
        The column.
    text : str
        A sum of terms that can be read.

    Returns
    -------
    dict of str to expr
        The last call or operation of each kind, by the name of the function or the operator.
    """
    hidden, quoted = hide_columns(text)
    own = next((word for word, name in quoted.items() if name == column), column)
    plain = re.sub(rf"({_QUOTES})|:", lambda match: match[1] or "*", hidden)
    found: dict[str, ast.expr] = {}
    for node in ast.walk(ast.parse(plain.strip(), mode="eval")):
        if own in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}:
            match node:
                case ast.Call(ast.Name(id=name)):
                    found[name] = node
                case ast.BinOp(op=ast.Pow()):
                    found["**"] = node
                case ast.BinOp(op=ast.Div()):
                    found["/"] = node
    return found


def is_coded(column: str, sums: Iterable[str]) -> bool:
    """Return whether a sum of terms treats a column as a factor, as ``C(...)`` does."""
    of_levels = "|".join(OF_LEVELS)
    pattern = rf"\b(?:{of_levels})\(\s*`?{re.escape(column)}`?\s*[,)]"
    return any(re.search(pattern, text) for text in sums)


def given_levels(sums: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the levels that sums of terms give for columns, as ``C(x, levels=["b", "a"])`` does.

    Raises
    ------
    ConfigError
        If a column is given different levels.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in sums:
        hidden, quoted = hide_columns(text)
        for call in map(_parsed_call, _calls(hidden)):
            for node in ast.walk(call) if call is not None else ():
                if not (isinstance(node, ast.Call) and node.args):
                    continue
                for each in node.keywords:
                    if each.arg == "levels" and isinstance(node.args[0], ast.Name):
                        name = quoted.get(node.args[0].id, node.args[0].id)
                        levels = _levels_in(each.value)
                        if found.setdefault(name, levels) != levels:
                            raise ConfigError(
                                f"{of_terms(text)}: {name} is given two orders of levels; give the "
                                "same order each time"
                            )
    return found


def _parsed_call(call: str) -> ast.expr | None:
    """Return a call as Python parses it; None if it cannot be read."""
    try:
        return ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _levels_in(node: ast.expr) -> tuple[str, ...]:
    """Return the levels in a list; empty if it is not a list of levels and numbers."""
    if not isinstance(node, ast.List):
        return ()
    found = []
    for each in node.elts:
        number = _number(each)
        if number is not None and number <= 1e15:
            found.append(number_text(number))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.append(each.value)
        else:
            return ()
    return tuple(found)


def hide_columns(text: str) -> tuple[str, dict[str, str]]:
    """Substitute words for columns with backticks or dots; also return the column of each word."""
    words: dict[str, str] = {}

    def word(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is None:
            return match[0]
        if _is_plain(name):
            return name
        return words.setdefault(name, f"column__{len(words)}_")

    parts = rf"{_QUOTES}|`([^`]*)`|{_DOTTED}"
    return re.sub(parts, word, text), {w: name for name, w in words.items()}


def show_columns(expression: str, quoted: Mapping[str, str]) -> str:
    """Replace the words of `hide_columns` by the columns, in backticks."""
    named = {word: f"`{column}`" for word, column in quoted.items()}
    return COLUMN.sub(lambda match: named.get(match[0], match[0]), expression)


def _is_plain(name: str) -> bool:
    """Return whether a column needs no backticks."""
    is_word = name.isidentifier() and not keyword.iskeyword(name) and "__" not in name
    return is_word and name not in FUNCTIONS and unicodedata.normalize("NFKC", name) == name


def _outside_calls(text: str) -> str:
    """Replace each call and each quotation by _; keep the brackets around terms."""
    plain = re.sub(rf"`[^`]*`|{_QUOTES}", "_", text)
    while call := next(_calls(plain), ""):
        plain = plain.replace(call, "_", 1)
    return plain


def _calls(text: str) -> Iterator[str]:
    """Yield the calls in a sum of terms, except those inside other calls."""
    start = 0
    while (call := re.compile(r"[\w.]+\(").search(text, start)) is not None:
        depth, start = 1, call.end()
        while depth and start < len(text):
            depth += (text[start] == "(") - (text[start] == ")")
            start += 1
        yield text[call.start() : start]


def _normal(expression: str) -> str:
    """Return a term as Python writes it, or unchanged if Python cannot read it."""
    try:
        return ast.unparse(ast.parse(expression.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return expression


def outside_brackets(text: str) -> str:
    """Replace each call and each quotation by _, and other brackets by blanks."""
    return re.sub(r"[()]", " ", _outside_calls(text))


def _offset_of(factor: str) -> str:
    """Return the expression in an offset; empty if a factor is not an offset."""
    match = re.fullmatch(r"offset\((.+)\)", factor, re.DOTALL)
    if match:
        return match[1]
    return ""


def quote(name: str) -> str:
    """Return a factor as it is written in a sum, with backticks around a column that needs them."""
    is_written = name.startswith("`") or re.match(r"[^\W\d]\w*\(", name) or _is_plain(name)
    if is_written or name in ("0", "1"):
        return name
    return f"`{name}`"


def _columns_of(expression: str, shown: str, text: str) -> list[str]:
    """Return the columns that a factor names; reject all but known functions and arithmetic."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(
            f"{of_terms(text)}: {shown} cannot be read; put a column whose name is a Python "
            "keyword in backticks"
        ) from None
    names = list(_names(tree, shown, text, allows_arithmetic=False))
    if not names:
        raise ConfigError(f"{of_terms(text)}: {shown} names no column; give it one")
    return names


def _names(node: ast.expr, factor: str, text: str, *, allows_arithmetic: bool) -> Iterator[str]:
    """Yield the columns in an expression; reject all but known functions and arithmetic."""
    if isinstance(node, ast.Name) and node.id not in FUNCTIONS:
        yield node.id
    elif (number := _number(node)) is not None:
        if not abs(number) <= 1e15:
            raise ConfigError(
                f"{of_terms(text)}: {number:g} in {factor} is too large; use a number up to 1e15"
            )
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if allows_arithmetic and node.func.id in SEVERAL:
            raise ConfigError(
                f"{of_terms(text)}: {node.func.id}() must be a term by itself; take it out of "
                f"{factor}"
            )
        yield from _arguments(node, node.func.id, factor, text)
    elif allows_arithmetic and isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        left = list(_names(node.left, factor, text, allows_arithmetic=True))
        if isinstance(node.op, ast.Pow) and not (left and _is_small(node.right)):
            raise ConfigError(
                f"{of_terms(text)}: in a power such as {factor}, the base must contain a column, "
                "and the exponent must be a number up to 10"
            )
        yield from left
        yield from _names(node.right, factor, text, allows_arithmetic=True)
    elif allows_arithmetic and isinstance(node, ast.UnaryOp) and isinstance(node.op, _SIGNS):
        yield from _names(node.operand, factor, text, allows_arithmetic=True)
    else:
        raise ConfigError(
            f"{of_terms(text)}: {factor} is not supported in a term; put arithmetic on columns "
            "into I(...), such as I(x**2), and put names that are not plain words in backticks"
        )


def _arguments(call: ast.Call, name: str, factor: str, text: str) -> Iterator[str]:
    """Yield the columns in the arguments of a call."""
    where = f"{of_terms(text)}: "
    if name == "offset":
        raise ConfigError(f"{where}{factor} is not an offset of a column; write offset(log(x))")
    if name not in FUNCTIONS:
        if name in _OF_BRMS:
            raise ConfigError(f"{where}{name}() is not supported; {_OF_BRMS[name]}")
        hint = "make its values a column of the table"
        near = nearest(name.lower(), (*FUNCTIONS, "offset"))
        if near:
            hint = f"did you mean {near}?"
        if name in ("factor", "ordered"):
            hint = "write C(...)"
        raise ConfigError(
            f"{where}{name}() is not one of the functions that terms can use: "
            f"{', '.join(FUNCTIONS)} and offset; {hint}"
        )
    if any(isinstance(each, ast.Starred) for each in call.args):
        raise ConfigError(f"{where}an argument of {factor} begins with *; leave the * out")
    if not call.args:
        raise ConfigError(f"{where}{factor} names no column; give it one")
    if name in OF_LEVELS and not isinstance(call.args[0], ast.Name):
        raise ConfigError(f"{where}{name}() takes a single column; correct {factor}")
    if name == "I" and isinstance(call.args[0], ast.Compare):
        yield from _compared(call.args[0], factor, text)
    else:
        yield from _names(call.args[0], factor, text, allows_arithmetic=True)
    # A second argument that is not a constant, as in poly(x, z), is another column and no option.
    second = SECOND.get(name)
    options = [(second if isinstance(e, ast.Constant) else None, e) for e in call.args[1:]]
    options += [(keyword.arg, keyword.value) for keyword in call.keywords]
    known = OPTIONS.get(name, ())
    found: dict[str | None, Any] = {}
    for key, value in options:
        is_known = key in known and key not in found
        if is_known and key == "levels":
            found[key] = _levels_in(value)
            _refuse_levels(found[key], factor, where)
            continue
        if not is_known:
            takes = in_words([f"{each}=…" for each in known]) or "nothing"
            takes += " in addition to its column"
            if name == "C":
                takes += (
                    ", where … is a number or a level in quotes or, for levels=…, a list of them"
                )
            raise ConfigError(f"{where}{name} takes {takes}; correct {factor}")
        if not isinstance(value, ast.Constant) or not _is_allowed(str(key), value.value):
            raise ConfigError(f"{where}{factor}: {key} must be {_ALLOWED[str(key)]}")
        found[key] = value.value
    if name == "bs" and found.get("df", 50) < (degree := found.get("degree", 3)):
        raise ConfigError(f"{where}{factor}: df must be at least the degree, {degree}")
    is_periodic = name == "cc" or found.get("bs") == "cc"
    if is_periodic and "period" not in found:
        raise ConfigError(
            f"{where}{factor} needs the period; add period=…, such as period=12 for months"
        )
    if "period" in found and not is_periodic:
        raise ConfigError(
            f'{where}{factor}: period=… needs bs="cc"; add bs="cc", or leave period=… out'
        )


def _compared(node: ast.Compare, factor: str, text: str) -> Iterator[str]:
    """Yield the columns in a comparison of numbers."""
    where = f"{of_terms(text)}: "
    if len(node.ops) > 1:
        raise ConfigError(
            f"{where}{factor} compares more than two values; write a product, such as "
            "I(x > 1):I(x < 3)"
        )
    sides = (node.left, node.comparators[0])
    is_label = any(isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides)
    if is_label:
        raise ConfigError(
            f"{where}{factor} compares labels, but I(...) takes numbers; write C(...), which has a "
            "column for each level"
        )
    if not isinstance(node.ops[0], _COMPARISONS):
        raise ConfigError(
            f"{where}{factor} is not a comparison of numbers; write one of < <= > >= == !="
        )
    found = [*itertools.chain(*(_names(s, factor, text, allows_arithmetic=True) for s in sides))]
    if not found:
        raise ConfigError(f"{where}{factor} names no column; give it one")
    yield from found


def _refuse_levels(levels: tuple[str, ...], factor: str, where: str) -> None:
    """Reject what is not a list of at least two different levels."""
    if len(levels) < 2:
        raise ConfigError(
            f"{where}{factor}: levels must be a list of at least two levels, such as "
            'levels=["low", "high"]; correct it'
        )
    twice = next((level for level in levels if levels.count(level) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}{factor} has the level {twice!r} twice; keep one")


def _is_real(value: Any) -> bool:
    """Return whether a value is a number, which True is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


_ALLOWED: Mapping[str, str] = {
    "ref": "a number, or a level in quotes",
    "df": "a whole number from 1 to 50",
    "degree": "a whole number from 1 to 50",
    "k": "a whole number from 4 to 200",
    "bs": '"cr" (a natural cubic spline) or "cc" (a periodic one), in quotes, or left out',
    "period": "a number above 0",
    "c": "a number above 1, such as 1.5",
}
"""The values that each option of a function may have."""


def _is_allowed(option: str, value: Any) -> bool:
    """Return whether an option may have a value; see `_ALLOWED`."""
    if option == "ref":
        return _is_real(value) or isinstance(value, str)
    if option == "bs":
        return value in ("cr", "cc")
    if option == "period":
        return _is_real(value) and 0 < value <= 1e15
    if option == "c":
        return _is_real(value) and 1 < value <= 100
    least, most = (4, 200) if option == "k" else (1, 50)
    return type(value) is int and least <= value <= most


def _number(node: ast.expr) -> float | None:
    """Return the number in an expression; None if it is not a number."""
    if not isinstance(node, ast.Constant):
        return None
    value = node.value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if value < 1e300:
        return float(value)
    return math.inf


def _is_small(power: ast.expr) -> bool:
    if isinstance(power, ast.UnaryOp) and isinstance(power.op, _SIGNS):
        power = power.operand
    number = _number(power)
    return number is not None and number <= 10
