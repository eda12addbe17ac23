"""The design matrix of a sum of terms, computed from the columns of a table.

The sum has been read by :mod:`pyflowers.programs.terms`; formulaic expands the terms and codes the
factors.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data.columns import number_text
from pyflowers.errors import DataError
from pyflowers.programs import bases
from pyflowers.programs.terms import (
    COLUMN,
    DEFAULT_SIZES,
    INTERCEPT,
    MOST_COLUMNS,
    OF_LEVELS,
    SECOND,
    SEVERAL,
    given_levels,
    hide_columns,
    of_terms,
    outside_brackets,
    quote,
    read_terms,
    show_columns,
)
from pyflowers.text import counted, shortened

FloatArray = NDArray[np.float64]

LARGEST = 1e100
"""Larger covariates are rejected as mistakes, because their squares may overflow."""

_ROWS_OF_FACTOR = re.compile(r"\[(?:T\.)?(.*?)\](?=:|$)", re.DOTALL)

_FACTOR_OF_ERROR = re.compile(r"Unable to evaluate factor `(.*?)`\. \[", re.DOTALL)

_VALUE = r"'[^']*'|\"[^\"]*\"|[^()'\"]"
_FACTOR_CALL = re.compile(rf"C\(([^(),]+)(?:, (?:ref|levels)=(?:{_VALUE})*)?\)(?=\[)")


_DEGREES = {"poly": 1, "bs": 3}
"""The degree if none is given."""


def _refusal(sentence: str, row: int | None = None) -> DataError:
    if row is None:
        return DataError(sentence)
    return DataError(f"observation {row + 1}: {sentence}")


@dataclass(frozen=True, eq=False)
class Design:
    """The design matrix of a sum of terms.

    Attributes
    ----------
    matrix : array, shape (N, K)
        The matrix, with a column for each effect.
    names : tuple of str
        The names of the columns in the style of brms: ``year96``, ``treated:base``.
    state : dict
        The values that terms computed from all rows; see :func:`state_of`.
    """

    matrix: FloatArray
    names: tuple[str, ...]
    state: dict[str, Any]


def design(
    text: str,
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]] | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    refuse: Callable[..., Exception] = _refusal,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the matrix and the names of a design; see :func:`evaluate`."""
    found = evaluate(text, cells, levels, state=state, refuse=refuse)
    return found.matrix, found.names


def evaluate(
    text: str,
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]] | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    refuse: Callable[..., Exception] = _refusal,
) -> Design:
    """Return the design of a sum of terms.

    Parameters
    ----------
    text : str
        The sum.
    cells : mapping of str to array or Categorical
        Numbers or a factor for each column that the sum names.
    levels : mapping of str to sequence of str, optional
        The levels of each numeric column that ``C(...)`` converts to a factor. Default: all values
        of the column, in order.
    state : mapping, optional
        Values that ``scale``, ``poly``, ``s`` and other functions computed from the rows of the
        fit, to be reused for other rows; see :func:`state_of`. Default: computed from these rows.
    refuse : callable
        Function that takes a sentence about the data and, if the sentence is about one row, the
        position of that row. Returns the exception to raise.

    Returns
    -------
    Design
        The matrix, the names of its columns, and the state of its terms.
    """
    terms = read_terms(text)
    made = _evaluated(terms.text, cells, levels or {}, state or {}, refuse)
    frame = pd.DataFrame(made)
    has_ones = re.search(r"(?:^|\+)\s*1\s*(?:$|[+-])", outside_brackets(text)) is not None
    if not has_ones:
        frame = frame.drop(columns=INTERCEPT, errors="ignore")
    values = frame.to_numpy(dtype=np.float64).reshape(_num_rows(cells), frame.shape[1])
    quoted = hide_columns(terms.text)[1]
    names = [_plain_name(str(name), quoted) for name in frame.columns]
    if len(set(names)) < len(names):
        names = [show_columns(str(name), quoted) for name in frame.columns]
    bad = np.argwhere(~(np.abs(values) < LARGEST))
    if bad.size:
        row, column = map(int, bad[0])
        raise refuse(
            f"{names[column]} is {values[row, column]:g}; correct the column, or the term", row
        )
    return Design(values, tuple(names), _plain(made.model_spec.transform_state))


@dataclass(frozen=True)
class Origin:
    """The term from which a column of a design matrix was computed.

    Attributes
    ----------
    factors : tuple of str
        The term's factors, such as ``f`` and ``I(x**2)``.
    columns : frozenset of str
        The table's columns that they name.
    """

    factors: tuple[str, ...]
    columns: frozenset[str]

    def is_relative_of(self, other: Origin) -> bool:
        """Return whether two terms share a column, and one of them is a product or ``I(…)``."""
        factors = (*self.factors, *other.factors)
        is_arithmetic = len(factors) > 2 or any(factor.startswith("I(") for factor in factors)
        return self != other and is_arithmetic and not self.columns.isdisjoint(other.columns)

    def is_power_with(self, other: Origin) -> bool:
        """Return whether neither term is a product."""
        return len(self.factors) == len(other.factors) == 1


def origins_of(text: str, cells: Mapping[str, Any]) -> tuple[Origin, ...]:
    """Return the origin of each column of a design matrix, except the intercept."""
    made = _evaluated(read_terms(text).text, cells, {}, {}, DataError)
    quoted, found = hide_columns(text)[1], list[Origin]()
    for term, positions in made.model_spec.term_indices.items():
        factors = tuple(show_columns(factor.expr, quoted) for factor in term.factors)
        if factors != ("1",):
            columns = (read_terms(f"0 + {quote(factor)}").columns for factor in factors)
            origin = Origin(factors, frozenset(itertools.chain.from_iterable(columns)))
            found += [origin] * len(positions)
    return tuple(found)


def state_of(
    text: str, cells: Mapping[str, Any], levels: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """Return the values that terms compute from all rows, such as the mean in ``center(x)``.

    The values are plain numbers, listed by function call. A declaration stores them, so that the
    same columns can be computed from another table.
    """
    made = _evaluated(read_terms(text).text, cells, levels or {}, {}, DataError)
    found: dict[str, Any] = _plain(made.model_spec.transform_state)
    return found


def _plain(value: Any) -> Any:
    """Return a state in a form that TOML can hold, without entries that are None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(its) for key, its in value.items() if its is not None}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _restored(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state in formulaic's form: with numbers as keys, and None for a missing scale."""

    def keyed(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        whole = {int(key): keyed(its) for key, its in value.items() if key.isdecimal()}
        return whole | {key: keyed(its) for key, its in value.items() if not key.isdecimal()}

    return {call: {"scale": None, **keyed(its)} for call, its in state.items()}


def offset(
    expression: str,
    cells: Mapping[str, Any],
    *,
    refuse: Callable[..., Exception] = _refusal,
) -> FloatArray:
    """Return the value that an offset adds to each row, shape (N,)."""
    values, names = design(f"0 + {expression}", cells, refuse=refuse)
    if len(names) != 1:
        raise refuse(f"offset({expression}) has {len(names)} columns; give it a column of numbers")
    return values[:, 0]


def _evaluated(
    text: str,
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]],
    state: Mapping[str, Any],
    refuse: Callable[..., Exception],
) -> Any:
    """Return the columns that formulaic computes from the cells, with their specification."""
    # formulaic takes most of a second to import; see pyflowers.programs.terms.
    from formulaic import Formula, ModelSpec
    from formulaic.errors import FormulaicError

    hidden, quoted = hide_columns(text)
    formula = Formula(hidden)
    factors = {name: its for name, its in cells.items() if isinstance(its, pd.Categorical)}
    for name, its in factors.items():
        if len(its.categories) > MOST_COLUMNS:
            raise refuse(
                f"{name} has {len(its.categories)} levels, more than {MOST_COLUMNS}; write a "
                f"group term, (1 | {name}), or use numbers"
            )
        if len(its.categories) < 2:
            raise refuse(f"{name} is {its.categories[0]!r} in every row; leave it out")
    _refuse_unfit(formula, quoted, cells, levels, state, refuse)
    placeholders = {name: hidden for hidden, name in quoted.items()}
    frame = pd.DataFrame(
        {placeholders.get(name, name): its for name, its in cells.items()},
        index=pd.RangeIndex(_num_rows(cells)),
    )
    context: dict[str, Any] = {"sqrt": np.sqrt, "log10": np.log10, "log2": np.log2}
    context |= {name: _transform(function) for name, function in bases.FUNCTIONS.items()}

    def uncoded(values: Any, given: Any) -> pd.Series:
        its = pd.Series(values)
        name = quoted.get(str(its.name), str(its.name))
        return _in_order(as_factor(its.rename(name), levels.get(name)), given)

    def factor(values: Any, ref: Any = None, levels: Any = None) -> Any:
        return _coded(uncoded(values, levels), ref)

    def steps(values: Any, levels: Any = None) -> Any:
        return _columns_of(bases.steps(uncoded(values, levels)))

    context |= {"C": factor, "mo": steps, "I": _arithmetic}

    try:
        with np.errstate(all="ignore"):
            spec = ModelSpec(formula=formula, transform_state=_restored(state), na_action="ignore")
            return spec.get_model_matrix(frame, context=context)
    except (FormulaicError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        where = "a term"
        cause: BaseException = error
        while cause.__cause__ is not None:
            found = _FACTOR_OF_ERROR.match(str(cause))
            if found:
                where = show_columns(found[1], quoted)
            cause = cause.__cause__
        reason = f"{where} cannot be computed; correct the term or its columns"
        if "beyond upper and/or lower bounds" in str(cause):
            reason = (
                f"{where} is not defined outside the range of the data for which it was written; "
                "give values within that range"
            )
        if isinstance(cause, DataError):
            reason = str(cause)
        raise refuse(f"{of_terms(text)}: {reason}") from None


def _num_rows(cells: Mapping[str, Any]) -> int:
    """Return the number of rows; 0 without columns."""
    return len(next(iter(cells.values()), ()))


def _transform(function: Callable[..., FloatArray]) -> Any:
    """Wrap a function of :mod:`.bases` for formulaic, which stores the function's state.

    With the stored state, rows of another table are evaluated like the rows of the fit.
    """
    from formulaic.utils.stateful_transforms import stateful_transform

    def made(x: Any, *args: Any, _state: Any = None, **options: Any) -> Any:
        return _columns_of(function(x, *args, state=_state, **options))

    return stateful_transform(made)


def _columns_of(matrix: FloatArray) -> Any:
    """Return a matrix as the columns of a factor in formulaic."""
    from formulaic.materializers.types import FactorValues

    columns = {i + 1: matrix[:, i] for i in range(matrix.shape[1])}
    return FactorValues(columns, kind="numerical", spans_intercept=False, format="{name}[{field}]")


def _refuse_unfit(
    formula: Any,
    quoted: Mapping[str, str],
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]],
    state: Mapping[str, Any],
    refuse: Callable[..., Exception],
) -> None:
    """Reject unsuitable cells, and too many columns, before the columns are computed."""
    num = 0
    for term in formula:
        factors = (factor.expr for factor in term.factors)
        widths = [_width(each, quoted, cells, levels, state, refuse) for each in factors]
        num += math.prod(widths)
    if num > MOST_COLUMNS:
        raise refuse(f"the terms have {num:,} columns, more than {MOST_COLUMNS:,}; leave some out")


def _width(
    expression: str,
    quoted: Mapping[str, str],
    cells: Mapping[str, Any],
    levels: Mapping[str, Sequence[str]],
    state: Mapping[str, Any],
    refuse: Callable[..., Exception],
) -> int:
    """Return the largest number of columns that a factor of a term can produce."""
    name = quoted.get(expression, expression)
    if name in cells or expression in ("0", "1"):
        if isinstance(cells.get(name), pd.Categorical):
            return len(cells[name].categories)
        return 1
    call = ast.parse(expression, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return 1
    own = call.func.id
    inside = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)} - {own}
    its = {name: cells[name] for each in inside if (name := quoted.get(each, each)) in cells}
    name, values = next(iter(its.items()), (expression, np.empty(0)))
    if own in OF_LEVELS:
        known = getattr(values, "categories", levels.get(name))
        if known is None:
            known = levels_of_numbers(values)
        in_order = given_levels([show_columns(expression, quoted)]).get(name, known)
        unknown = next((level for level in known if level not in in_order), None)
        if unknown is not None:
            row = next((i for i, each in enumerate(values) if _text(each) == unknown), None)
            raise refuse(
                f"{name} is {unknown!r}, which is not one of the levels that "
                f"{show_columns(expression, quoted)} gives; add it to them, or correct the cell",
                row,
            )
        num = len(known)
        if num < 2:
            raise refuse(f"{name} is {number_text(values[0])} in every row; leave it out")
        return num
    for name, values in its.items():
        if isinstance(values, pd.Categorical):
            raise refuse(
                f"{name} holds labels, such as {values.categories[0]!r}, but "
                f"{show_columns(expression, quoted)} takes numbers; write {name} by itself"
            )
    given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    given |= {SECOND.get(own): ast.literal_eval(v) for v in call.args[1:]}
    degree = given.get("degree", _DEGREES.get(own, 1))
    is_new = own == "poly" and expression not in state and len(values) > 0
    if is_new and (num := len(np.unique(values))) <= degree:
        remedy = "leave out the term"
        if num > 1:
            remedy = f"lower the degree to {num - 1}, or leave out the term"
        raise refuse(
            f"{name} has only {counted(num, 'distinct value')}, but "
            f"{show_columns(expression, quoted)} needs at least {degree + 1}; {remedy}"
        )
    if own in SEVERAL:
        return int(given.get("df", given.get("k", DEFAULT_SIZES.get(own, degree))))
    return 1


def _text(value: Any) -> str:
    """Return a level, or a number as a level."""
    return value if isinstance(value, str) else number_text(value)


def _arithmetic(values: Any) -> Any:
    """Return the values of ``I(...)`` as numbers: a comparison is 1 where it is true."""
    return values * 1.0


def _in_order(values: pd.Series, given: Sequence[Any] | None) -> pd.Series:
    """Return a factor with its levels in the order in which a term gives them."""
    if given is None:
        return values
    known = set(values.cat.categories)
    ordered = [level for level in map(_text, given) if level in known]
    return values.cat.set_categories(ordered)


def levels_of_numbers(values: Any) -> tuple[str, ...]:
    """Return the levels of a column of numbers: its distinct values as text, in order."""
    return tuple(dict.fromkeys(map(number_text, np.unique(values))))


def as_factor(values: pd.Series, levels: Sequence[str] | None = None) -> pd.Series:
    """Convert numbers to a factor with levels such as "96"; return a factor unchanged.

    Raises
    ------
    DataError
        If a value is not one of the levels.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values
    texts = [number_text(value) for value in values]
    known = levels or levels_of_numbers(values)
    unknown = next(iter(sorted({*texts} - {*known}, key=texts.index)), None)
    if unknown is not None:
        raise DataError(
            f"{values.name} is {unknown}, which is not one of its levels: {shortened(known)}; "
            "correct it"
        )
    return pd.Series(pd.Categorical(texts, categories=list(known)), name=values.name)


def _coded(values: pd.Series, ref: Any) -> Any:
    """Return the contrasts of a factor with reference level `ref`, by default the first one."""
    from formulaic.transforms import TRANSFORMS

    levels = list(values.cat.categories)
    base = ref
    if ref is None:
        base = levels[0]
    if isinstance(base, int | float):
        base = number_text(float(base))
    if base not in levels:
        raise DataError(
            f"ref={ref!r} is not a level of {values.name}; choose one of {shortened(levels)}"
        )
    return TRANSFORMS["C"](values, TRANSFORMS["contr"].treatment(base))


def _plain_name(column: str, quoted: Mapping[str, str]) -> str:
    """Return the name of a column in the style of brms: ``year96`` for ``C(year)[T.96]``."""
    plain = _ROWS_OF_FACTOR.sub(r"\1", _FACTOR_CALL.sub(r"\1", column))
    by_itself = re.sub(
        rf"(?:(?<=^)|(?<=:)){COLUMN.pattern}", lambda m: quoted.get(m[0], m[0]), plain
    )
    return show_columns(by_itself, quoted)
