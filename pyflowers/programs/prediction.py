"""Predictions for the rows of another table in NumPy, as ``[prediction]`` declares.

Levels, transformations and means are taken from the fit, so that a row has the same meaning on
its own as in any table. The effects of a label that is not in the data are drawn from their
population, with a separate generator for each label. They are therefore the same for all rows with
that label, in any order of the rows and in any part of a table.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.data import Table
from pyflowers.data.columns import as_written
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.capabilities import Draws
from pyflowers.programs.data import Data, Rows, as_table
from pyflowers.programs.declaration import (
    Declaration,
    Declaring,
    PredictionRule,
    TableRoles,
    Terms,
    Value,
)
from pyflowers.programs.design import levels_of_numbers, state_of
from pyflowers.programs.families import (
    IDENTITY,
    TRIALS,
    Family,
    Link,
    average_inv_logit,
    find_family,
)
from pyflowers.programs.families._response import family_of, on_rows, recorded, replicated
from pyflowers.programs.families._response.residuals import OF_OTHER_ROWS, along_series, in_units
from pyflowers.programs.outcomes import Outcome, family_of_outcome
from pyflowers.programs.terms import is_coded
from pyflowers.text import in_words

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_Found = TypeVar("_Found")

Groups = Literal["data", "none", "population"]
"""How group effects enter: as each group's own, as the population's mean, or integrated out."""

GROUPS = ("data", "none", "population")

NUM_NODES = 32
"""The number of nodes with which effects on a parameter of the family are integrated out."""

LEAST_WEIGHT = 1e-12
"""Nodes with a smaller weight are left out."""

NODES_OF_CATEGORIES = {2: (16, 1e-6), 3: (8, 1e-5)}
"""For two or three linear predictors of categories, the number of nodes of each and the smallest
weight. The error of a probability is below 0.001 for sds up to 3."""

NUM_QUASI_RANDOM = 256
"""The number of points, to which their mirror images are added, for four or more linear predictors
of categories. The error of a probability is about 0.001 for sds up to 1.5, and below 0.01 for sds
up to 3."""


def _log(x: Any) -> Any:
    """Return the log, which is -inf for a rate that underflowed to 0."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def _inv_logit(x: Any) -> Any:
    """Return the share whose log odds are x."""
    return average_inv_logit(x, 0)


_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "log": _log,
    "sqrt": np.sqrt,
    "inv_logit": _inv_logit,
}
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows to be predicted, in the form of the program's data block.

    Attributes
    ----------
    table : Table
        The table, with all columns.
    values : mapping of str to array
        Each variable of the data block for each row, shape (N,) or (N, K), or a single
        number for all rows.
    codes : mapping of str to array of int, shape (N,)
        Position of each row's label among the labels of the fit, by index variable. New labels
        follow those of the fit.
    labels : mapping of str to tuple of str
        The labels of the fit, followed by the new ones, by index variable.
    known : mapping of str to int
        The number of labels of the fit, by index variable.
    num : int
        The number of rows, N.
    keys : list of bytes
        A key that identifies each row, regardless of its position in the table.
    columns : tuple of str
        The columns of the table on which the predictions depend.
    """

    table: Table | None
    values: Mapping[str, Any]
    codes: Mapping[str, IntArray]
    labels: Mapping[str, tuple[str, ...]]
    known: Mapping[str, int]
    num: int
    keys: list[bytes] = field(default_factory=list)
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.num

    def at(self, rows: slice) -> NewRows:
        """Return a selection of the rows."""
        of_rows = {name: its[rows] for name, its in self.values.items() if np.ndim(its)}
        values = {**self.values, **of_rows}
        codes = {name: its[rows] for name, its in self.codes.items()}
        num, keys = len(range(self.num)[rows]), self.keys[rows]
        return replace(self, values=values, codes=codes, num=num, keys=keys)


def _keys(table: Table) -> list[bytes]:
    """Return a key that identifies each row, regardless of its position.

    The key consists of the row's cells, ordered by column name, and a number that distinguishes
    equal rows.
    """
    names = sorted(table.cells)
    cells = (map(str, table.cells[name].tolist()) for name in names)
    seen: dict[str, int] = {}
    found = []
    for row in zip(*cells, strict=True):
        text = "\x1f".join(row)
        seen[text] = seen.get(text, 0) + 1
        found.append(f"{text}\x1e{seen[text]}".encode("utf-8", "surrogatepass"))
    return found


def generator(seed: int, *key: str | bytes) -> np.random.Generator:
    """Return the random number generator for a row or a label."""
    total = blake2b(digest_size=16)
    for part in key:
        if isinstance(part, str):
            part = part.encode("utf-8", "surrogatepass")
        total.update(part + b"\x1e")
    words = np.frombuffer(total.digest(), dtype=np.uint32)
    return np.random.Generator(np.random.SFC64([seed, *words.tolist()]))


def frozen(data: Data) -> Declaration:
    """Return the declaration of a fit's data, with the levels and means of its table."""
    declared, table = data.declaration, data.table
    found = dict(declared.data)
    for name, source in found.items():
        if isinstance(source, Terms) and table is not None:
            cells = {
                c: table.numbers_or_factor(
                    data.name_of(c), source.levels.get(c), is_mixed=is_coded(c, [source.terms])
                )
                for c in source.cells
            }
            levels = dict[str, tuple[str, ...]]()
            for column, its in cells.items():
                if isinstance(its, pd.Categorical):
                    levels[column] = tuple(map(str, its.categories))
                elif is_coded(column, [source.terms]):
                    levels[column] = levels_of_numbers(its)
            levels |= source.levels
            state = source.state or state_of(source.terms, cells, levels)
            found[name] = source.model_copy(update={"levels": levels, "state": state})
    return declared.model_copy(update={"data": found})


class Predicting(Protocol):
    """The attributes of a model that are used to read rows."""

    @property
    def program(self) -> Declaring:
        """The program."""

    @property
    def data(self) -> Data:
        """The data to which the model was fitted."""

    @property
    def rule(self) -> PredictionRule:
        """The declared rule."""

    @property
    def frozen(self) -> Declaration:
        """The declaration with the levels and means of the table."""


def read_rows(
    model: Predicting,
    new: Any = None,
    *,
    groups: Groups = "data",
    reading: Mapping[str, Any] | None = None,
    is_linear: bool = False,
    is_varying: bool = False,
    is_observed: bool = True,
) -> NewRows:
    """Read the rows of a table that a model is to predict.

    Parameters
    ----------
    model : Predicting
        A program with ``[prediction]`` in its declaration, and the data to which it was fitted.
    new : path, DataFrame or Table, optional
        The table. Default: the table of the fit. Observed values are not needed and not read.
    groups : str
        ``data`` reads the columns of groups; ``none`` and ``population`` do not.
    reading : mapping, optional
        Options for reading a file: ``sep``, ``decimal``, ``encoding``.
    is_linear : bool
        Whether only the linear predictor is needed, and therefore no trials.
    is_varying : bool
        Whether labels may be given their own effects later; see :attr:`Predictor.varying`.
    is_observed : bool
        Whether observations are drawn, which requires the columns of the response's terms.

    Raises
    ------
    DataError
        If a column or a cell is missing, a cell does not suit its column in the fit, or a factor
        has a new level.
    ConfigError
        If the program declares no prediction, or was not fitted to a table.
    """
    program, data, rule = model.program, model.data, model.rule
    if data.table is None:
        raise ConfigError(
            f"{program.called} was fitted to a data block; to predict the rows of a table, fit the "
            "program to a table"
        )
    table: Table | None = data.table
    if new is not None:
        table = as_table(new, reading or {})
    if table is None:
        raise DataError("new: a data block is not a table; give a file or a DataFrame")
    every, known_labels = model.frozen, data.with_all_rows.labels
    of_groups = group_columns(rule, every)
    declared, without = (
        _for_rows(
            rule,
            every,
            its,
            is_linear=is_linear,
            is_varying=is_varying,
            is_observed=is_observed and not is_linear,
        )
        for its in (groups, "none")
    )
    names = {column: data.name_of(column) for column in declared.columns}
    for column, name in names.items():
        _refuse_missing(table, name, column in of_groups.keys() - {*without.columns})
    given, wanted = table, tuple(names[column] for column in _columns(declared))
    levels = {
        data.name_of(column): tuple(its)
        for column, its in every.levels.items()
        if data.table.is_factor(data.name_of(column))
    }
    if new is not None:
        of_fit = {its.column: its.names for its in known_labels.values()} | levels
        read_as_text = {names[c] for c in (*declared.label_columns, *declared.levels) if c in names}
        table = _as_in_fit(table, {name: of_fit[name] for name in read_as_text & of_fit.keys()})
        # A label of the fit that looks like a missing value, such as None, is also a label here.
        read = replace(table, levels=of_fit)
        lacking = [name for name in wanted if read.is_missing(name).any()]
        of_others = {names[column] for column in without.columns}
        option = _WITHOUT
        if of_others.intersection(lacking):
            option = ""
        read.without_missing(wanted, drop=False, option=option)
    _refuse_text(table, data, declared)
    blocks = program.source.blocks.data

    def read_part(part: Table) -> tuple[Rows, dict[str, Any]]:
        labels = {column: part.labels(names[column]) for column in declared.label_columns}
        rows = Rows(part, declared, names, labels)
        return rows, {n: its.read(n, blocks[n], rows) for n, its in declared.data.items()}

    rows, values = _read(read_part, replace(table, levels=levels, notes=[]))
    for name in declared.named:
        if blocks[name].ndim == 2 and rows.coords[name] != data.coords[name]:
            raise DataError(
                f"{table.source}: {name} has the columns {', '.join(rows.coords[name])}, but in "
                f"the fit it had {', '.join(data.coords[name])}; correct the table"
            )
    codes, labels, known = dict[str, IntArray](), dict[str, tuple[str, ...]](), dict[str, int]()
    for name, source in every.data.items():
        labelled = source.index_of
        if labelled and name in names_of(rule):
            its = known_labels[labelled].names
            codes[name], labels[name] = np.zeros(len(table), dtype=np.int64), its
            known[name] = len(its)
            if name not in values:
                continue  # the effects of this group are not used
            del values[name]
            theirs, fits = rows.labels[labelled], set(its)
            added = [label for label in theirs.names if label not in fits]
            place = {label: i for i, label in enumerate((*its, *added))}
            codes[name] = np.array([place[each] for each in theirs.names])[theirs.codes]
            labels[name] = (*its, *added)
            if added and name not in of_groups.values():
                row = int(np.argmax(codes[name] >= known[name]))
                raise DataError(
                    f"{table.where(row)}: {theirs.column} is {added[0]!r}, which is not in the "
                    f"fit; give one of the fit's labels: {', '.join(its[:10])}"
                    f"{', …' * (len(its) > 10)}"
                )
    found = NewRows(given, values, codes, labels, known, len(table), _keys(table), wanted)
    _refuse_zero_divisors(rule, found)
    if groups == "data":
        _refuse_other_levels(model, found)
    return found


def _refuse_other_levels(model: Predicting, rows: NewRows) -> None:
    """Reject a label whose level differs from its level in the fit, or that has two levels.

    The effects of a label come from the population of its level.
    """
    assert rows.table is not None
    rule, declared, data = model.rule, model.frozen.data, model.data
    for name, index in indices_of(rule):
        level = level_in(rule.effects[name]) if name in rule.effects else ""
        if not level:
            continue
        codes, levels, known = rows.codes[index], rows.codes[level], rows.known[index]
        expected = np.zeros(len(rows.labels[index]), dtype=np.int64)
        expected[codes[::-1]] = levels[::-1]  # the first row of a new label determines its level
        expected[:known] = np.asarray(data.values[level]) - 1
        wrong = np.flatnonzero(levels != expected[codes])
        if wrong.size:
            row = int(wrong[0])
            code, (here, there) = codes[row], (levels[row], expected[codes[row]])
            group, factor = (data.name_of(str(declared[each].index_of)) for each in (index, level))
            raise DataError(
                f"{rows.table.where(row)}: {group} {rows.labels[index][code]} has {factor} "
                f"{rows.labels[level][here]} here and {rows.labels[level][there]} in "
                f"{'the fit' if code < known else 'another row'}, but its effects come from "
                f"the population of one {factor}; correct the row, or give {group} a new label"
            )


def _refuse_zero_divisors(rule: PredictionRule, rows: NewRows) -> None:
    """Reject a row in which a divisor of the rule, such as a sum of weights, is 0."""
    assert rows.table is not None
    for text in (rule.linear_predictor, *rule.where.values()):
        for node in ast.walk(_parsed(text)):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
                continue
            divisor = ast.unparse(node.right)
            if not _names_in(node.right) or not _names_in(node.right) <= rows.values.keys():
                continue
            values = Predictor(rule, {}, {}, rows)._value(node.right)
            if np.ndim(values) == 1 and not np.all(values):
                raise DataError(
                    f"{rows.table.where(int(np.argmin(values != 0)))}: {divisor} is 0, but the "
                    "prediction is divided by it; correct the row, or leave it out"
                )


def _for_rows(
    rule: PredictionRule,
    declared: Declaration,
    groups: Groups,
    *,
    is_linear: bool,
    is_varying: bool,
    is_observed: bool,
) -> Declaration:
    """Return the declaration of the variables that a prediction needs, read row by row.

    Constant arrays are not values of rows. They are left out and read from the fit's data block.
    """
    needed, indices = names_of(rule), indices_of(rule)
    if is_linear:
        needed.discard(TRIALS)
    if is_observed:
        known = {its.known for its in on_rows(rule.response)}
        needed |= {*known, *OF_OTHER_ROWS}.intersection(rule.response)
    else:
        needed -= set(rule.response) - _names_in(_parsed(rule.linear_predictor))
    if groups != "data":
        needed -= {index for _, index in indices}
        needed |= {index for name, index in indices if name not in rule.effects}
    if groups == "none" and not is_varying:
        needed -= only_of_effects(rule)
    data = {}
    for name, source in declared.data.items():
        is_array = isinstance(source, Value) and np.ndim(source.value)
        if name in needed and not is_array:
            data[name] = source.per_row()
    return declared.model_copy(update={"data": data, "table": TableRoles()})


def only_of_effects(rule: PredictionRule, indices: Collection[str] | None = None) -> set[str]:
    """Return the data that only multiply group effects, and so are not needed without groups.

    Parameters
    ----------
    rule : PredictionRule
        The rule.
    indices : collection of str, optional
        The indices of the effects. Default: all.
    """
    texts = (rule.linear_predictor, *rule.where.values(), *rule.effects.values())
    names = Counter(
        node.id for text in texts for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name)
    )
    found = Counter(
        name for text in texts for name in _factors_of_effects(_parsed(text), rule, indices)
    )
    return {name for name, num in found.items() if num == names[name]}


def _factors_of_effects(
    node: ast.AST, rule: PredictionRule, indices: Collection[str] | None
) -> Iterator[str]:
    """Yield the names, except indices, in the parts of an expression that effects multiply."""
    if not _is_effect(node, rule):
        for child in ast.iter_child_nodes(node):
            yield from _factors_of_effects(child, rule, indices)
        return
    inside = [each for each in ast.walk(node) if isinstance(each, ast.Subscript)]
    if indices is not None and not {ast.unparse(each.slice) for each in inside} <= {*indices}:
        return
    indexed = {its for each in inside for its in ast.walk(each)}
    calls = {each.func for each in ast.walk(node) if isinstance(each, ast.Call)}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each not in indexed | calls:
            yield each.id


def _function_of(text: str) -> str:
    """Return the function of an expression that is a call, such as ``normal``; otherwise ""."""
    call = _parsed(text)
    if isinstance(call, ast.Call):
        return ast.unparse(call.func)
    return ""


def function_of(text: str) -> tuple[str, str]:
    """Return the function and the argument of a call such as ``log(mu)``; empty for others."""
    match _parsed(text):
        case ast.Call(ast.Name(id=function), [ast.Name(id=name)]):
            return function, name
    return "", ""


def level_in(population: str) -> str:
    """Return the index of the level on which a population depends, as in ``normal(0, sd[by])``.

    It is empty if the population depends on no level.
    """
    arguments = getattr(_parsed(population), "args", [])
    return next((ast.unparse(its.slice) for its in arguments if _is_by_level(its)), "")


def _is_by_level(node: ast.AST) -> bool:
    """Return whether an argument of a population differs between the levels of a factor."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name)


def varying_columns(rule: PredictionRule) -> list[tuple[str, str]]:
    """Return each index in a linear predictor, with the matrix whose effects vary with it.

    The name of the matrix is empty for an effect that has none.
    """
    tree = _parsed(rule.linear_predictor)
    products = {
        ast.unparse(node.args[1]): ast.unparse(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) == 2
    }
    return [
        (ast.unparse(node.slice), products.get(ast.unparse(node), ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
    ]


def _is_effect(node: ast.AST, rule: PredictionRule) -> bool:
    """Return whether an expression is 0 when group effects are at their population mean, 0."""
    match node:
        case ast.Subscript(ast.Name(id=name)):
            return re.match(r"multi_|normal\(0,", rule.effects.get(name, "")) is not None
        case ast.BinOp(left, ast.Mult(), right):
            return _is_effect(left, rule) or _is_effect(right, rule)
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            return _is_effect(left, rule) and _is_effect(right, rule)
        case ast.BinOp(left, ast.Div()):
            return _is_effect(left, rule)
        case ast.Call(ast.Name(id="rows_dot_product"), [_, other]):
            return _is_effect(other, rule)
    return False


def _columns(declared: Declaration) -> list[str]:
    """Return the columns of a declaration in the order of its variables."""
    sources = declared.data.values()
    found = (column for s in sources for column in (*s.numbers, *s.cells, *s.labels.values()))
    return list(dict.fromkeys(found))


def columns_of_rows(rule: PredictionRule, declared: Declaration) -> list[str]:
    """Return all columns that predictions of rows may need, including those for observations."""
    how = {"is_linear": False, "is_varying": False, "is_observed": True}
    return _columns(_for_rows(rule, declared, "data", **how))


def _read(read: Callable[[Table], _Found], table: Table) -> _Found:
    """Read a table; if that fails, report the first row that cannot be read."""

    def refusal(part: Table) -> str:
        try:
            read(part)
        except DataError as error:
            return str(error)
        return ""

    try:
        return read(table)
    except DataError as error:
        text = str(error)
        if text.startswith(f"{table.source}, row"):
            raise
        rows = np.arange(len(table))
        row = bisect_left(rows, True, key=lambda i: bool(refusal(table.at(rows[: i + 1]))))
        text = refusal(table.at(rows[row : row + 1]))
        if not text:
            raise
        raise table.refusal(text.removeprefix(f"{table.source}: "), row) from None


def rule_of(program: Declaring) -> PredictionRule:
    """Return the prediction rule of a program.

    Raises
    ------
    ConfigError
        If the program does not declare one.
    """
    rule = program.declaration.prediction
    if rule is None:
        raise ConfigError(
            f"{program.called} does not declare how rows of a table are predicted; add "
            f'[prediction] with family = "..." and linear_predictor = "..." to '
            f"{program.declared_in} (see the guide to predictions)"
        )
    return rule


def rule_of_parameter(rule: PredictionRule, name: str) -> tuple[PredictionRule, Link]:
    """Return a rule that predicts a parameter of the family, and the parameter's link.

    The link is the identity for a parameter that the rule does not define by its usual link.

    Raises
    ------
    ConfigError
        If the family has no such parameter with one value for each row.
    """
    known = [its for its in find_family(rule.family).auxiliary if its.declared.startswith("real")]
    about = next((its for its in known if its.name == name), None)
    if about is None:
        names = in_words([its.name for its in known])
        remedy = f"choose {names}" if known else "predict the response instead"
        raise ConfigError(
            f"parameter {name!r}: family {rule.family} has no such parameter; {remedy}"
        )
    text, link = rule.where.get(name, name), about.link or IDENTITY
    before, after = link.inverse.split("{}")
    inside = text.removeprefix(before).removesuffix(after)
    whole = ast.parse(f"{before}({inside}){after}".strip(), mode="eval").body if inside else None
    if whole is None or ast.dump(whole) != ast.dump(_parsed(text)):
        inside, link = text, IDENTITY
    needed, seen = [inside], set[str]()
    while needed:
        added = _names_in(_parsed(needed.pop())) - seen
        seen |= added
        needed += [rule.where[each] for each in added if each in rule.where and each != name]
        needed += [rule.effects[each] for each in added if each in rule.effects]
    changes = {
        "linear_predictor": inside,
        "where": {key: its for key, its in rule.where.items() if key in seen - {name}},
        "effects": {key: its for key, its in rule.effects.items() if key in seen},
    }
    return rule.model_copy(update=changes), link


def _names_in(tree: ast.AST) -> set[str]:
    """Return the names in an expression."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def group_columns(rule: PredictionRule, declared: Declaration) -> dict[str, str]:
    """Return the index variable of each column whose labels have effects from a population."""
    found = {}
    for name, index in indices_of(rule):
        if name in rule.effects:
            column = getattr(declared.data.get(index), "index_of", None)
            if column is None:
                raise ConfigError(
                    f"[prediction] {name}[{index}]: {index} is not an index of a column's labels; "
                    f"declare {index} = {{ column = ..., index = true }}"
                )
            found[column] = index
    return found


def indices_of(rule: PredictionRule) -> list[tuple[str, str]]:
    """Return the quantities that have an index in a prediction, each with its index."""
    texts = (rule.linear_predictor, *rule.where.values())
    nodes = [node for text in texts for node in ast.walk(_parsed(text))]
    found = [node for node in nodes if isinstance(node, ast.Subscript)]
    pairs = ((ast.unparse(node.value), ast.unparse(node.slice)) for node in found)
    return list(dict.fromkeys(pairs))


def names_of(rule: PredictionRule) -> set[str]:
    """Return the names on which a prediction depends."""
    texts = [rule.linear_predictor, *rule.where.values(), *rule.effects.values()]
    names = {n.id for t in texts for n in ast.walk(_parsed(t)) if isinstance(n, ast.Name)}
    if find_family(rule.family).has_trials:
        names.add(TRIALS)
    return names


_WITHOUT = ", or predict without it: --groups none or --groups population"


def _refuse_missing(table: Table, name: str, is_group: bool) -> None:
    """Reject a table that lacks a column; for a column of groups, name options without it."""
    try:
        table.column(name)
    except DataError as error:
        if not is_group:
            raise
        raise DataError(f"{error}; add the column{worded(_WITHOUT)}") from None


def _as_in_fit(table: Table, known: Mapping[str, Iterable[str]]) -> Table:
    """Return a table with labels written as in the fit: 1 instead of 1.0, True instead of TRUE.

    07 and 7 are different labels. In joined columns such as ``a:b`` this applies to each part.
    """
    cells = dict[str, NDArray[Any]]()
    for name, of_column in known.items():
        parts, of_fit = [name], [[label] for label in of_column]
        if name not in table.columns:
            parts, of_fit = name.split(":"), [label.split(":") for label in of_column]
        if any(len(label) != len(parts) for label in of_fit):
            continue  # the labels of the parts contain colons
        for i, part in enumerate(parts):
            texts = table.texts(part).tolist()
            same = as_written(texts, {label[i] for label in of_fit})
            if same != texts:
                cells[part] = np.array(same, dtype=object)
    return table.with_cells(cells)


def _refuse_text(table: Table, data: Data, declared: Declaration) -> None:
    """Reject text in a column that was numeric in the fit."""
    assert data.table is not None
    for column in declared.transformed:
        name = data.name_of(column)
        if not data.table.is_factor(name):
            table.numbers(name, if_text="it held numbers in the fit")


def rows_of(data: Data) -> NewRows:
    """Return the rows of the fit's own data block, whose labels are all known."""
    values, codes = dict[str, Any](), dict[str, IntArray]()
    declared = data.declaration.data
    index_of = {
        source.index_of: np.asarray(data[name]) - 1
        for name, source in declared.items()
        if source.index_of and "per" not in source.labels and name in data.values
    }
    for name, value in data.values.items():
        source = declared.get(name)
        values[name], per = value, getattr(source, "per", None)
        if per in index_of and np.ndim(value):
            values[name] = np.asarray(value)[index_of[per]]
        if source is not None and source.index_of:
            codes[name] = np.asarray(values[name]) - 1
    return NewRows(data.table, values, codes, {}, {}, data.num_obs)


@cache
def _parsed(text: str) -> ast.expr:
    """Return the syntax tree of a rule's expression; the same text is parsed only once."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(
            f"[prediction] {text!r} cannot be read as an expression; correct it"
        ) from None


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predictions of a program for given rows, in each draw.

    Attributes
    ----------
    rule : PredictionRule
        The declared rule.
    draws : mapping of str to array, shape (chain, draw, …)
        Draws of the program's quantities.
    constants : mapping of str to array
        The data block of the fit, which holds the hyperparameters.
    rows : NewRows
        The rows.
    seed : int
        Seed for the effects of new labels, and for observations.
    groups : str
        See :data:`Groups`.
    unit : (str, int, float, str) or None
        A group effect that is raised above its mean, to determine how it enters the linear
        predictor: its name, its position, the amount by which it is raised, and the index for whose
        labels it is raised, which is empty for all labels.
    varying : str
        Index variable of a group whose labels have their own effects, regardless of `groups`.
    scores : array, shape (J,), or None
        The number of each rating in expected values and observations. Default: 1, 2, 3 and so on.
    link : Link or None
        The link of the parameter that the rule predicts; None if it predicts the response.
    outcome : Outcome or None
        The event whose probability takes the place of the expected response.
    """

    rule: PredictionRule
    draws: Draws
    constants: Mapping[str, Any]
    rows: NewRows
    seed: int = 0
    groups: Groups = "data"
    unit: tuple[str, int, float, str] | None = None
    varying: str = ""
    scores: FloatArray | None = None
    link: Link | None = None
    outcome: Outcome | None = None

    @property
    def family(self) -> Family:
        """The family of the response; its mean is the probability of the outcome, if any.

        An outcome is an event of the response before censoring or truncation.
        """
        if self.outcome is not None:
            return family_of_outcome(find_family(self.rule.family), self.outcome)
        return family_of(self.rule.family, self.rule.response)

    @property
    def group_indices(self) -> list[str]:
        """The index variables of the labels that have effects."""
        return [index for name, index in indices_of(self.rule) if name in self.rule.effects]

    @property
    def new_labels(self) -> dict[str, tuple[str, ...]]:
        """The labels that are not in the fit, whose effects are drawn, by index variable."""
        if self.groups != "data":
            return {}
        found = {
            name: self.rows.labels.get(name, ())[self.rows.known.get(name, 0) :]
            for name in self.group_indices
        }
        return {name: labels for name, labels in found.items() if labels}

    @property
    def lead(self) -> tuple[int, int]:
        """The numbers of chains and draws."""
        return next(iter(self.draws.values())).shape[:2]

    def at(self, rows: slice) -> Predictor:
        """Return the predictions for a selection of the rows."""
        return replace(self, rows=self.rows.at(rows))

    def linear(self) -> FloatArray:
        """Return the linear predictor, shape (chain, draw, N)."""
        return self._spread(self._value(_parsed(self.rule.linear_predictor)))

    def expected(self) -> FloatArray:
        """Return the expected response, or the parameter, shape (chain, draw, N).

        Raises
        ------
        ConfigError
            If the response is a category, which has no mean.
        """
        if self.link is None and self.outcome is None and self.family.has_categories:
            raise ConfigError(
                "categories without an order have no mean; predict the probability of each (kind "
                f"'probability'), or a linear predictor, such as {self.family.predictors[0]}"
            )
        eta, values = self.linear(), self.parameters
        if self.link is not None:
            return self._spread(self.link.from_linear(eta, values["sd_eta"]))
        mean = self.family.expected(eta, values)
        varying = [name for name in self.varying_parameters if name in values]  # in the mean
        if self.groups == "population" and varying:
            mean = self._integrated(eta, varying)
        if self.outcome is not None and self.outcome.is_counted:
            mean = mean * values[TRIALS]
        return self._spread(mean)

    @property
    def varying_parameters(self) -> list[str]:
        """The parameters of the family whose linear predictors contain group effects."""
        parsed = {name: _parsed(self.rule.where[name]) for name in self.rule.where}
        own = (its.name for its in self.family.auxiliary if its.name in parsed)
        return [name for name in own if _names_in(parsed[name]) & self.rule.effects.keys()]

    def _integrated(self, eta: FloatArray, names: list[str]) -> Any:
        """Return the expected response, integrated over the group effects on these parameters."""
        # The mean of a lognormal variable grows like exp(sigma² / 2).
        if "sigma" in names and self.family.shape_of_mean in ("exp", "averaged"):
            raise ConfigError(
                "groups 'population': sigma varies between groups without an upper "
                f"bound, so the expected response of family {self.family.name} is infinite; use "
                "groups 'data' or 'none'"
            )
        at: dict[str, Any] = {}
        total: Any = 0.0
        for name in names:
            rule, link = rule_of_parameter(self.rule, name)
            of = replace(self, rule=rule, link=link)
            at[name] = link, of.linear(), np.sqrt(of._variance())
        for point, weight in _normal_nodes(len(names), self.family.has_categories):
            values = _Parameters(self)
            for name, node in zip(names, point.tolist(), strict=True):
                link, linear, sd = at[name]
                values[name] = link.from_linear(linear + sd * node, 0.0)
            total = total + weight * self.family.expected(eta, values)
        return total

    def observed(self) -> FloatArray:
        """Return a random response for each row, shape (chain, draw, N).

        Counts of categories are consecutive, shape (chain, draw, N × categories); with an
        `outcome`, only the counts of its category are returned.
        """
        if self.outcome is not None:
            whole = replace(self, outcome=None)
            return whole.observed()[..., int(self.outcome.value) - 1 :: whole.family.width]
        if self.groups == "population":
            return self._each_its_own().observed()
        eta, width = self.linear(), self.family.width
        found = np.empty((*self.lead, len(self.rows) * width))
        if "unit" in self.rule.response:
            return self._of_units(eta)
        for n, key in enumerate(self.rows.keys):
            row, rng = slice(n, n + 1), generator(self.seed, "row", key)
            drawn = self.family.draw(eta[..., row], self.at(row).parameters, rng)
            found[..., n * width : (n + 1) * width] = drawn
        if "previous" in self.rule.response:  # rows depend on earlier rows of the same table
            found = eta + along_series(found - eta, self.parameters)
        if self.scores is None:
            return found
        return self.scores[found.astype(np.int64) - 1]

    def _of_units(self, eta: FloatArray) -> FloatArray:
        """Return a random response for each row, whose residuals are correlated within units."""
        rngs = [generator(self.seed, "row", key) for key in self.rows.keys]
        normal = np.stack([rng.standard_normal(self.lead) for rng in rngs], axis=-1)
        units, first = np.asarray(self.rows.values["unit"]), dict[int, bytes]()
        for unit, key in zip(units.tolist(), self.rows.keys, strict=True):
            first[unit] = min(key, first.get(unit, key))
        own = [generator(self.seed, "unit", first[unit]) for unit in sorted(first)]
        return in_units(self.family, eta, self.parameters, normal, own)

    def replicated(self, rng: np.random.Generator, *, is_recorded: bool = True) -> FloatArray:
        """Return a random response for each row, shape (chain, draw, N), from one generator.

        Responses of the data block's rows are truncated and, if `is_recorded`, censored like the
        observed ones.
        """
        names, values = self.rule.response, self.rows.values
        if not names:
            return self.family.draw(self.linear(), self.parameters, rng)
        found = replicated(self.family, names, self.linear(), self.parameters, rng)
        if not is_recorded:
            return found
        return recorded(found, names, values, rng, self.constants)

    def _each_its_own(self) -> Predictor:
        """Return the predictions with a separate new label for each row."""
        old = self.rows.codes
        own = {index: int(old[index].max()) + 1 for index in self.group_indices if index in old}
        known = {index: self.rows.known.get(index, num) for index, num in own.items()}
        codes = {index: num + np.arange(len(self.rows)) for index, num in known.items()}
        labels: dict[str, Any] = {i: (*[""] * num, *self.rows.keys) for i, num in known.items()}
        rows = replace(
            self.rows,
            codes={**old, **codes},
            labels={**self.rows.labels, **labels},
            known={**self.rows.known, **known},
        )
        return replace(self, rows=rows, groups="data")

    def log_lik(self, y: FloatArray) -> FloatArray:
        """Return the log density of responses, shape (chain, draw, N)."""
        return self.family.log_lik(y, self.linear(), self.parameters)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The family's other parameters, and the trials; each is evaluated when it is used."""
        return _Parameters(self)

    def parameter(self, name: str) -> Any:
        """Return a parameter, shape (chain, draw, its dimensions, 1 or N), or trials, (N,)."""
        if name == TRIALS or (name in self.rule.response and name not in self.rule.where):
            return np.asarray(self.rows.values[name])
        if name == "sd_eta":
            is_averaged = self.groups == "population" and self.rule.effects
            if is_averaged:
                return np.sqrt(self._variance())
            return 0.0
        if name == "scores":
            num = self.draws["threshold"].shape[2] + 1
            if self.scores is None:
                return np.arange(1.0, num + 1)
            return self.scores
        if name in self.rule.where:  # also for a quantity of this name: sigma = "sigma[sex]"
            return self._value(_parsed(self.rule.where[name]))
        if name in self.draws and self.draws[name].ndim > 2:
            own = next((each for each in self.family.auxiliary if each.name == name), None)
            if own is not None and own.declared.startswith("real"):
                raise ConfigError(
                    f"[prediction] {name} has {self.draws[name][0, 0].size} elements, but a row "
                    f"has one {name}; choose the element of each row, for example with where = "
                    f'{{ {name} = "{name}[g]" }}, where g is an index in the data'
                )
            return self.draws[name][..., None]
        return self._value(ast.Name(id=name))

    def _variance(self) -> FloatArray:
        """Return the variance of the linear predictor over groups, shape (chain, draw, 1 or N)."""
        return np.asarray(sum(self.variances().values(), np.zeros((1, 1, 1))))

    def variances(self) -> dict[str, FloatArray]:
        """Return the variance that each group effect adds to the linear predictor of each row.

        Each array has the shape (chain, draw, 1 or N).

        Raises
        ------
        ConfigError
            If the linear predictor is not normal over the population of groups.
        """
        found = dict[str, FloatArray]()
        for name in self._linear_effects:
            self._refuse_student(name)
            _, scale = self._population(name)
            total, level = np.zeros((1, 1, 1)), self._level_of_rows(name)
            # Members of one row, in several indices of the same effects, are different labels.
            for factors in (self._factors_of(name, its) for its in self._indices_of(name)):
                for j in range(scale.shape[-1]):
                    column = sum(scale[..., level, i, j] * each for i, each in enumerate(factors))
                    total = total + np.square(column)
            found[name] = total
        return found

    def _refuse_student(self, name: str) -> None:
        """Reject averages over effects with a Student t distribution."""
        if _function_of(self.rule.effects[name]) in _STUDENT:
            raise ConfigError(
                f"groups 'population': the population of {name} is a Student t distribution, over "
                "which the expected response may be infinite; use groups 'data' or 'none'"
            )

    def _indices_of(self, name: str) -> list[str]:
        """Return the indices with which effects enter the linear predictor."""
        rule = self.rule.model_copy(update={"where": {}})
        return [index for own, index in indices_of(rule) if own == name]

    def _factors_of(self, name: str, index: str = "") -> list[FloatArray]:
        """Return what one unit of each of a label's effects adds to the linear predictor."""
        at_mean, found = self.linear(), []
        # A change of 1 would be lost in the rounding of a large linear predictor.
        step = 2.0 ** math.ceil(math.log2(max(1.0, float(np.abs(at_mean).max(initial=0.0)))))
        for m in range(self._size(name) or 1):
            with np.errstate(over="ignore", invalid="ignore"):  # if it is not linear
                once, twice = (
                    replace(self, unit=(name, m, by, index)).linear() for by in (step, 2 * step)
                )
                change, more = once - at_mean, twice - once
            found.append(change / step)
            if not np.allclose(more, change, rtol=1e-6, atol=1e-9 * step):
                raise ConfigError(
                    f"groups 'population': the linear predictor is not linear in {name}, so "
                    "it is not normal over the population; use groups 'data' or 'none'"
                )
        return found

    @property
    def _linear_effects(self) -> list[str]:
        """The group effects in the linear predictor."""
        predictor = _parsed(self.rule.linear_predictor)
        named = {each.id for each in ast.walk(predictor) if isinstance(each, ast.Name)}
        return sorted(named & self.rule.effects.keys())

    def factors(self) -> FloatArray:
        """Return what one unit of each group effect adds to the linear predictor of each row.

        Returns
        -------
        array, shape (effect, N)
            The amounts in the first draw, such as 1 for an intercept and x for a slope of x.

        Raises
        ------
        ConfigError
            If the linear predictor is not normal over the population of groups.
        """
        first = {name: values[:1, :1] for name, values in self.draws.items()}
        for name in self._linear_effects:
            self._refuse_student(name)
        at_mean = replace(self, draws=first, groups="none")
        found = [each for name in self._linear_effects for each in at_mean._factors_of(name)]
        return np.array([each[0, 0] for each in found])

    def _population(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return a mean and Cholesky factors for a new label's effects, chain and draw first.

        There is one factor, shape (…, 1, M, M), or one for each level that has its own population.
        """
        text = self.rule.effects[name]
        size = self._size(name) or 1
        arguments = self._arguments(name)
        kind = _function_of(text)
        if kind in _STUDENT and len(arguments) > 1:
            kind, arguments = _STUDENT[kind], arguments[1:]
        if kind == "normal" and len(arguments) == 2:
            location, scale = (
                np.broadcast_to(each, (*self.lead, *(np.shape(each)[2:] or (1,))))
                for each in arguments
            )
            return location, scale[..., None, None]
        if kind == "multi_normal" and len(arguments) in (1, 2):
            sd, *correlations = arguments
            if not level_in(text):
                sd = sd[..., None, :]
                correlations = [_matrix(each, size)[..., None, :, :] for each in correlations]
            elif correlations:
                correlations = [_of_triangles(correlations[0], size)]
            factor: Any = np.eye(size)
            if correlations:
                factor = np.linalg.cholesky(correlations[0])
            return np.zeros((1, 1, size)), sd[..., :, None] * factor
        if kind == "scaled_inv_chi_square":
            raise ConfigError(
                f"observations depend on {name}, which has no value without a group; use groups "
                "'data' or 'population', or kind 'expected'"
            )
        raise ConfigError(
            f"[prediction.effects] {name} = {text!r}: write normal(mean, sd), "
            "student_t(nu, mean, scale), multi_normal(sd), multi_normal(sd, correlations), "
            "multi_student_t(nu, scale), multi_student_t(nu, scale, correlations) or "
            "scaled_inv_chi_square(nu, scale)"
        )

    def _arguments(self, name: str) -> list[Any]:
        """Return the arguments of the population of an effect, for all levels of a factor."""
        found = getattr(_parsed(self.rule.effects[name]), "args", [])
        return [
            self._named(ast.unparse(each.value)) if _is_by_level(each) else self._value(each)
            for each in found
        ]

    def _level_of_rows(self, name: str) -> IntArray:
        """Return the position of each row's level among the populations of an effect."""
        level = level_in(self.rule.effects[name])
        if not level:
            return np.zeros(1, dtype=np.int64)
        return self.rows.codes[level]

    def _size(self, name: str) -> int:
        """Return the number of correlated effects of each label; 0 for a scalar effect."""
        values = self._named(name)
        if values.ndim > 3:
            return int(values.shape[3])
        return 0

    def with_new_effects(self, index: str, rng: np.random.Generator) -> Predictor:
        """Return the predictions with newly drawn effects for all labels of an index."""
        its = [n for n, i in indices_of(self.rule) if i == index and n in self.rule.effects]
        for name in its:  # before anything is drawn
            if _function_of(self.rule.effects[name]) == "scaled_inv_chi_square":
                self._refuse_flat(name, index)
        anew = {name: self.drawn(name, index, self._named(name).shape[2], rng) for name in its}
        return replace(self, draws={**self.draws, **anew})

    def _refuse_flat(self, name: str, index: str) -> list[Any]:
        """Return the arguments of a scaled inverse χ² population, which must be above 0."""
        arguments = getattr(_parsed(self.rule.effects[name]), "args", [])
        values = [self._value(each) for each in arguments]
        if not all(np.all(value > 0) for value in values):
            options = " and ".join(f"--prior {ast.unparse(each)}" for each in arguments)
            raise ConfigError(
                f"{name} has a flat prior, from which no value for a new {index} can be drawn; "
                f"fit with a proper prior: give {options} above 0"
            )
        return values

    def _new(self, name: str, index: str) -> FloatArray:
        """Return the effects of new labels, shape (chain, draw, label[, M])."""
        known = self.rows.known[index]
        labels = self.rows.labels[index][known:]
        # A label has the same effects in all columns of members.
        key = next(its for own, its in indices_of(self.rule) if own == name)
        rngs = [generator(self.seed, key, label, name) for label in labels]
        own = (self.drawn(name, index, 1, rng, known + i) for i, rng in enumerate(rngs))
        return np.concatenate(list(own), axis=2)

    def drawn(
        self, name: str, index: str, num: int, rng: np.random.Generator, start: int = 0
    ) -> FloatArray:
        """Return the effects of `num` labels from their population, (chain, draw, num[, M]).

        The positions of the labels begin at `start`, which matters only if the population depends
        on the level of a label.
        """
        if _function_of(self.rule.effects[name]) == "scaled_inv_chi_square":
            nu, scale = self._refuse_flat(name, index)
            return np.asarray(nu * scale**2 / rng.chisquare(nu, (*self.lead, num)))
        location, factor = self._population(name)
        z = rng.standard_normal((*self.lead, num, factor.shape[-1]))
        if _function_of(self.rule.effects[name]) in _STUDENT:
            nu = np.broadcast_to(self._arguments(name)[0], (*self.lead, 1))[..., None]
            z = z / np.sqrt(rng.chisquare(nu, (*self.lead, num, 1)) / nu)
        if level_in(self.rule.effects[name]):
            codes, level = self.rows.codes[index], self._level_of_rows(name)
            labels = range(start, start + num)
            own = [level[int(np.argmax(codes == label))] for label in labels]
            spread = (factor[..., own, :, :] @ z[..., None])[..., 0]
        else:
            spread = z @ np.swapaxes(factor[..., 0, :, :], -1, -2)
        found = np.asarray(location[..., None, :] + spread)
        if self._size(name):
            return found
        return found[..., 0]

    def _spread(self, value: Any) -> FloatArray:
        """Return a value repeated for each draw and each row, shape (chain, draw, N)."""
        return np.array(np.broadcast_to(value, (*self.lead, len(self.rows))), dtype=np.float64)

    def _value(self, node: ast.AST) -> Any:
        """Return the value of an expression; chain and draw come first, rows or elements last."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return self._named(name)
            case ast.BinOp() | ast.Call() if (
                self.groups == "none"
                and not self.varying
                and self.unit is None
                and _is_effect(node, self.rule)
            ):
                return np.zeros((1, 1, 1))
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                one, other = self._value(left), self._value(right)
                if isinstance(op, ast.Mult) and np.ndim(one) == 2:
                    return other @ one.T
                return _OPERATORS[type(op)](one, other)
            case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._value(operand))
            case ast.Subscript(ast.Name(id=name), ast.Constant(value=int() as place)):
                return self._named(name)[..., place - 1 : place]
            case ast.Subscript(ast.Name(id=name), ast.Name(id=index)):
                return self._indexed(name, index)
            case ast.Call(ast.Name(id=name), [argument]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](self._value(argument))
            case ast.Call(ast.Name(id="rows_dot_product"), [one, other]):
                left, right = self._value(one), self._value(other)
                return sum(left[:, m] * right[..., m] for m in range(left.shape[1]))
        raise ConfigError(
            f"[prediction] {ast.unparse(node)!r} is not supported; write quantities, + - * /, "
            f"r[index], {', '.join(_FUNCTIONS)} and rows_dot_product"
        )

    def _named(self, name: str) -> Any:
        if name in self.draws:
            draws = self.draws[name]
            if draws.ndim == 2:
                return draws[..., None]
            return draws
        # A fixed sigma is data, and sigma = "sqrt(se * se + sigma * sigma)" names it.
        for values in (self.rows.values, self.constants):
            if name in values:
                return np.asarray(values[name], dtype=np.float64)
        if name in self.rule.where:
            return self._value(_parsed(self.rule.where[name]))
        raise ConfigError(
            f"[prediction] names {name}, which is neither in the draws nor in the data; correct "
            "the name"
        )

    def _indexed(self, name: str, index: str) -> Any:
        """Return the element of a quantity for the label of each row."""
        if name in self.rule.effects and self.groups != "data" and index != self.varying:
            mean = self._population(name)[0][..., None, :]
            if self.unit is not None and self.unit[0] == name and self.unit[3] in ("", index):
                mean = mean + self.unit[2] * np.eye(mean.shape[-1])[self.unit[1]]
            if self._size(name):
                return mean
            return mean[..., 0]
        if index not in self.rows.codes:
            raise ConfigError(
                f"[prediction] {name}[{index}]: {index} is not an index of a column's labels; "
                f"declare {index} = {{ column = ..., index = true }}"
            )
        values, codes = self._named(name), self.rows.codes[index]
        if index in self.rows.known and (codes >= self.rows.known[index]).any():
            values, codes = self._with_new(name, index, values)
        return np.take(values, codes, axis=2)

    def _with_new(self, name: str, index: str, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return effects, including those of new labels in these rows, and the rows' codes."""
        num, codes = self.rows.known[index], self.rows.codes[index]
        there = np.unique(codes[codes >= num])
        names = self.rows.labels[index]
        labels = {**self.rows.labels, index: (*names[:num], *(names[i] for i in there))}
        found = np.where(codes < num, codes, num + np.searchsorted(there, codes))
        own = {**self.rows.codes, index: found}
        few = replace(self, rows=replace(self.rows, labels=labels, codes=own))
        return np.concatenate([values, few._new(name, index)], axis=2), found


def _normal_nodes(num: int, has_categories: bool) -> Iterator[tuple[FloatArray, float]]:
    """Yield the nodes, shape (num,), and weights with which independent normals are integrated.

    They are products of Gauss-Hermite nodes or, for many categories, a Sobol sequence.
    """
    if has_categories and num > max(NODES_OF_CATEGORIES):
        from scipy.special import ndtri
        from scipy.stats.qmc import Sobol

        shift = np.random.default_rng(1).random(num)
        points = (Sobol(num, scramble=False).random(NUM_QUASI_RANDOM) + shift) % 1
        for node in ndtri(points):
            yield node, 0.5 / NUM_QUASI_RANDOM
            yield -node, 0.5 / NUM_QUASI_RANDOM
        return
    each, least = NUM_NODES, LEAST_WEIGHT
    if has_categories:
        each, least = NODES_OF_CATEGORIES.get(num, (each, least))
    nodes, weights = np.polynomial.hermite_e.hermegauss(each)
    places = np.array(list(itertools.product(range(each), repeat=num)))
    shares = np.prod(weights[places] / weights.sum(), axis=1)
    kept = shares > least
    shares = shares[kept] / shares[kept].sum()
    yield from zip(nodes[places[kept]], shares.tolist(), strict=True)


class _Parameters(dict[str, Any]):
    """The parameters of a family, evaluated only when used, because some may have no value."""

    def __init__(self, of: Predictor) -> None:
        super().__init__()
        self.of = of

    def __missing__(self, name: str) -> Any:
        self[name] = found = self.of.parameter(name)
        return found


_STUDENT = {"student_t": "normal", "multi_student_t": "multi_normal"}
"""The distribution from which each Student t is drawn: a normal divided by sqrt(χ²(nu) / nu)."""


def _matrix(correlations: Any, size: int) -> FloatArray:
    """Return correlation matrices; `correlations` holds upper triangles by row, or the matrices."""
    if np.ndim(correlations) == 4:
        return np.asarray(correlations)
    if np.ndim(correlations) == 1:  # fixed ones are data
        correlations = correlations[None, None]
    return _of_triangles(correlations, size)


def _of_triangles(correlations: FloatArray, size: int) -> FloatArray:
    """Return the correlation matrices with these upper triangles by row."""
    found = np.zeros((*correlations.shape[:-1], size, size))
    above = np.triu_indices(size, 1)
    found[..., above[0], above[1]] = correlations
    return found + np.swapaxes(found, -1, -2) + np.eye(size)
