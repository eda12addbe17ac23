"""Predicting the rows of another table in NumPy, as ``[prediction]`` declares.

Levels, transformations and means are taken from the fit, so that a row has the same meaning alone
and in any table. The effects of a label that is not in the data are drawn from their population,
with a separate generator for each label. They are therefore the same for all rows with that label,
in any order of the rows and in any part of a table.
"""

from __future__ import annotations

import ast
import operator
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data import Table
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.capabilities import Draws
from pyflowers.programs.data import Data, as_table, read_data
from pyflowers.programs.declaration import Column, Declaration, PredictionRule, Terms, Value
from pyflowers.programs.design import state_of
from pyflowers.programs.families import Family, find_family
from pyflowers.programs.terms import around

if TYPE_CHECKING:
    from pyflowers.programs.program import Program

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Groups = Literal["data", "none", "population"]
"""How group effects enter: the group's own, at the population's mean, or integrated out."""

GROUPS = ("data", "none", "population")

NODES = 48
"""Nodes of the quadrature over groups, which is exact to rounding for exp(eta) up to an sd of 3."""

_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt}
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
        The labels of the fit, followed by the new ones.
    known : mapping of str to int
        The number of labels of the fit.
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
        values = {k: v[rows] if np.ndim(v) else v for k, v in self.values.items()}
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
    """Return the random number generator of a row or a label."""
    total = blake2b(digest_size=16)
    for part in key:
        total.update(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))
        total.update(b"\x1e")
    words = np.frombuffer(total.digest(), dtype=np.uint32)
    return np.random.Generator(np.random.SFC64([seed, *words.tolist()]))


def frozen(data: Data) -> Declaration:
    """Return the declaration of a fit's data, with the levels and means of its table."""
    declared, table = data.declaration, data.table
    found = dict(declared.data)
    for name, source in found.items():
        if isinstance(source, Terms) and table is not None:
            cells = {c: table.numbers_or_factor(data.name_of(c)) for c in source.cells}
            levels = {
                column: tuple(map(str, its.categories))
                if isinstance(its, pd.Categorical)
                else tuple(f"{value:.15g}" for value in np.unique(its))
                for column, its in cells.items()
                if isinstance(its, pd.Categorical) or "C" in around(column, source.terms)
            }
            levels = {**levels, **source.levels}
            state = source.state or state_of(source.terms, cells, levels)
            found[name] = source.model_copy(update={"levels": levels, "state": state})
    return declared.model_copy(update={"data": found})


def read_rows(
    program: Program,
    data: Data,
    new: Any = None,
    *,
    groups: Groups = "data",
    reading: Mapping[str, Any] | None = None,
) -> NewRows:
    """Read the rows of a table for a fit's program.

    Parameters
    ----------
    program : Program
        A program with ``[prediction]`` in its declaration.
    data : Data
        The data to which it was fitted.
    new : path, DataFrame or Table, optional
        The table. Default: the table of the fit. Observed values are not needed and not read.
    groups : str
        ``data`` reads the columns of groups; ``none`` and ``population`` do not.
    reading : mapping, optional
        How a file is read: ``sep``, ``decimal``, ``encoding``.

    Raises
    ------
    DataError
        If a column or a cell is missing, a cell does not suit its column in the fit, or a factor
        has a new level.
    ConfigError
        If the program declares no prediction, or was not fitted to a table.
    """
    rule = rule_of(program)
    if data.table is None:
        raise ConfigError(
            f"{program.name} was fitted to a data block; to predict the rows of a table, fit the "
            "program to a table"
        )
    table = data.table if new is None else as_table(new, reading or {})
    if table is None:
        raise DataError("new: a data block is not a table; give a file or a DataFrame")
    declared, given = frozen(data), table
    of_groups = group_columns(rule, declared)
    wanted = tuple(dict.fromkeys(map(data.name_of, _needed(rule, declared))))
    apart = set(of_groups) - {c for s in declared.data.values() for c in (*s.numbers, *s.cells)}
    fixed = {index for name, index in _indices(rule) if name not in rule.effects}
    apart -= {
        c for index in fixed & declared.data.keys() for c in declared.data[index].labels.values()
    }
    hidden = set() if groups == "data" else {data.name_of(column) for column in apart}
    for name in wanted:
        if name not in hidden:
            _refuse_missing(table, name, name in {data.name_of(each) for each in apart})
    if data.value and new is not None:
        table = _with_placeholders(table, data, {data.value})
    if groups != "data":
        table = _with_placeholders(table, data, apart)
    table = _with_labels_of(data, table, of_groups) if new is not None else table
    table = table.without_missing(wanted, drop=False, option="") if new is not None else table
    _refuse_text(table, data, declared)
    levels = {
        data.name_of(column): tuple(its)
        for column, its in declared.levels.items()
        if data.table.is_factor(data.name_of(column))
    }
    levelled = replace(table, levels=levels, notes=[])
    if groups != "data":  # each row is a separate group, for which other columns have a value
        numbers = np.array(list(map(str, range(len(table)))), dtype=object)
        each = dict.fromkeys(map(data.name_of, apart), numbers)
        levelled = replace(levelled, cells={**levelled.cells, **each})
    if not declared.reads_time:  # then only figures use the time, and times may be repeated
        roles = declared.table.model_copy(update={"time": ""})
        declared = declared.model_copy(update={"table": roles})
    names = {column: data.name_of(column) for column in declared.columns}
    like = replace(program, declaration=declared)
    read = _read(like, levelled, names)
    blocks = program.source.blocks.data
    for name, its in data.coords.items():
        is_matrix = name in declared.matrices and blocks[name].ndim == 2
        if is_matrix and name in read.coords and read.coords[name] != its:
            raise DataError(
                f"{table.source}: {name} has the columns {', '.join(read.coords[name])}, but in "
                f"the fit it had {', '.join(its)}; correct the table"
            )
    found = _rows_of(rule, data, read, table, declared)
    columns = tuple(name for name in wanted if name not in hidden)
    return replace(found, table=given, columns=columns)


def _read(program: Program, table: Table, columns: Mapping[str, str]) -> Data:
    """Read a table; if that fails, report the first row that cannot be read."""

    def read(part: Table) -> Data:
        return read_data(program, part, columns, "value", True, {})

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
        text = re.sub(r"observation 1: ", "", text.removeprefix(f"{table.source}: "))
        raise DataError(f"{table.where(row)}: {text}") from None


def rule_of(program: Program) -> PredictionRule:
    """Return the rule by which a program predicts.

    Raises
    ------
    ConfigError
        If the program does not declare one.
    """
    rule = program.declaration.prediction
    if rule is None:
        raise ConfigError(
            f"{program.name} does not declare how rows of a table are predicted; add [prediction] "
            f'with family = "..." and linear_predictor = "..." to {program.declared_in} (see the '
            "guide to predictions)"
        )
    return rule


def group_columns(rule: PredictionRule, declared: Declaration) -> dict[str, str]:
    """Return the index variable of each column whose labels have effects from a population."""
    found = {}
    for name, index in _indices(rule):
        if name in rule.effects:
            source = declared.data.get(index)
            if not (isinstance(source, Column) and source.index):
                raise ConfigError(
                    f"[prediction] {name}[{index}]: {index} is not an index of a column's labels; "
                    f"declare {index} = {{ column = ..., index = true }}"
                )
            found[source.column] = index
    return found


def _indices(rule: PredictionRule) -> list[tuple[str, str]]:
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
    return names | ({"trials"} if find_family(rule.family).has_trials else set())


def _needed(rule: PredictionRule, declared: Declaration) -> list[str]:
    """Return the columns of the declaration that predictions need."""
    names = names_of(rule)
    found: list[str] = []
    for name, source in declared.data.items():
        if name in names:
            found += [*source.numbers, *source.cells]
            found += [source.index_of] if source.index_of else []
    return list(dict.fromkeys(found))


def _refuse_missing(table: Table, name: str, is_group: bool) -> None:
    """Refuse a table that lacks a column; groups can be left out instead."""
    try:
        table.column(name)
    except DataError as error:
        without = "; add the column, or predict without it: --groups none or --groups population"
        hint = without if is_group else ""
        raise DataError(f"{error}{hint}") from None


def _with_placeholders(table: Table, data: Data, columns: set[str]) -> Table:
    """Return a table in which some columns hold a single label, because they are not used."""
    cells = dict(table.cells)
    for column in columns:
        name = data.name_of(column)
        first = data.labels[column].names[0] if column in data.labels else "-"
        cells[name] = np.full(len(table), first, dtype=object)
    return replace(table, cells=cells)


def _with_labels_of(data: Data, table: Table, columns: Iterable[str]) -> Table:
    """Return a table with numbers in group columns written as in the fit: 1 instead of 1.0.

    Only zeros at the end of a fraction are ignored: 07 and 7 are different labels.
    """
    cells = dict(table.cells)
    for column in columns:
        name, known = data.name_of(column), data.labels[column].names
        plain = Counter(map(_plain, known))
        written = {_plain(label): label for label in known if plain[_plain(label)] == 1}
        texts = [str(cell) for cell in table.column(name)]
        of_fit = set(known)
        same = [text if text in of_fit else written.get(_plain(text), text) for text in texts]
        if same != texts and name in cells:
            cells[name] = np.array(same, dtype=object)
    return replace(table, cells=cells)


def _plain(text: str) -> str:
    """Return a number without zeros at the end of its fraction, and other text unchanged."""
    number = re.fullmatch(r"(-?\d+)(\.\d*?)0*", text)
    return text if number is None else number[1] + number[2].removesuffix(".")


def _refuse_text(table: Table, data: Data, declared: Declaration) -> None:
    """Refuse text in a column that was numeric in the fit."""
    assert data.table is not None
    for column in declared.transformed:
        name = data.name_of(column)
        if not data.table.is_factor(name):
            table.numbers(name, if_text="it held numbers in the fit")


def _rows_of(
    rule: PredictionRule, data: Data, read: Data, table: Table, declared: Declaration
) -> NewRows:
    """Return the data block of each row, with positions of labels among those of the fit."""
    values, codes, labels, known = dict[str, Any](), {}, {}, {}
    effects = set(group_columns(rule, declared).values())
    used = names_of(rule)
    for name, source in declared.data.items():
        if isinstance(source, Value) and np.ndim(source.value):
            continue  # not a value for each row: it is read from the fit's data block
        value = read.values[name]
        if isinstance(source, Column) and source.index:
            column = next(c for c in read.labels if c == source.column)
            its, theirs = data.labels[column], read.labels[column]
            added = [label for label in theirs.names if label not in set(its.names)]
            place = {label: i for i, label in enumerate((*its.names, *added))}
            codes[name] = np.array([place[each] for each in theirs.names])[theirs.codes]
            labels[name], known[name] = (*its.names, *added), len(its.names)
            if added and name in used - effects:
                row = int(np.argmax(codes[name] >= known[name]))
                raise DataError(
                    f"{table.where(row)}: {theirs.column} is {added[0]!r}, which is not in the "
                    "fit; give one of the labels that are: "
                    f"{', '.join(its.names[:10])}{', …' * (len(its) > 10)}"
                )
            continue
        per = getattr(source, "per", None)
        if per and np.ndim(value):
            value = np.asarray(value)[read.labels[per].codes]
        values[name] = value
    return NewRows(table, values, codes, labels, known, len(table), _keys(table))


def rows_of(data: Data) -> NewRows:
    """Return the rows of the fit's own data block, whose labels are all known."""
    values, codes = dict[str, Any](), dict[str, IntArray]()
    declared = data.declaration.data
    index_of = {
        source.column: np.asarray(data[name]) - 1
        for name, source in declared.items()
        if isinstance(source, Column) and source.index and not source.per and name in data.values
    }
    for name, value in data.values.items():
        source = declared.get(name)
        per = getattr(source, "per", None)
        found = np.asarray(value)[index_of[per]] if per in index_of and np.ndim(value) else value
        values[name] = found
        if isinstance(source, Column) and source.index:
            codes[name] = np.asarray(found) - 1
    return NewRows(data.table, values, codes, {}, {}, data.num_obs)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"[prediction] {text!r} cannot be read as an expression") from None


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predictions of a program for rows, in each draw.

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
    unit : (str, int, float) or None
        Name and position of a group effect, and the amount by which it is raised above its mean to
        determine how it enters the linear predictor.
    """

    rule: PredictionRule
    draws: Draws
    constants: Mapping[str, Any]
    rows: NewRows
    seed: int = 0
    groups: Groups = "data"
    unit: tuple[str, int, float] | None = None

    @property
    def family(self) -> Family:
        """The family of the response."""
        return find_family(self.rule.family)

    @property
    def group_indices(self) -> list[str]:
        """The index variables of the labels that have effects."""
        return [index for name, index in _indices(self.rule) if name in self.rule.effects]

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
        """Return the expected response, shape (chain, draw, N)."""
        if self.groups != "population" or not self.rule.effects:
            return self._spread(self.family.mean(self.linear(), self.parameters))
        eta, sd = self.linear(), np.sqrt(self._variance())
        total = np.zeros_like(eta)
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            total += weight * self.family.mean(eta + node * sd, self.parameters)
        return total

    def observed(self) -> FloatArray:
        """Return a random response for each row, shape (chain, draw, N)."""
        if self.groups == "population":
            return self._each_its_own().observed()
        eta, found = self.linear(), np.empty((*self.lead, len(self.rows)))
        for n, key in enumerate(self.rows.keys):
            row, rng = slice(n, n + 1), generator(self.seed, "row", key)
            found[..., row] = self.family.draw(eta[..., row], self.at(row).parameters, rng)
        return found

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
        """The family's other parameters, and trials; each is evaluated when it is used."""
        return _Parameters(self)

    def parameter(self, name: str) -> Any:
        """Return a parameter, shape (chain, draw, its dimensions, 1 or N), or trials, (N,)."""
        if name == "trials":
            return np.asarray(self.rows.values["trials"])
        if name in self.draws and self.draws[name].ndim > 2:
            return self.draws[name][..., None]
        return self._value(ast.Name(id=name))

    def _variance(self) -> FloatArray:
        """Return the variance of the linear predictor over groups, shape (chain, draw, 1 or N)."""
        total: Any = 0.0
        at_mean = self.linear()
        predictor = _parsed(self.rule.linear_predictor)
        named = {each.id for each in ast.walk(predictor) if isinstance(each, ast.Name)}
        for name in sorted(named & self.rule.effects.keys()):
            _, scale = self._population(name)
            enters = []
            for m in range(scale.shape[-1]):
                once, twice = (replace(self, unit=(name, m, by)).linear() for by in (1.0, 2.0))
                enters.append(once - at_mean)
                if not np.allclose(twice - once, once - at_mean, rtol=1e-6, atol=1e-9):
                    raise ConfigError(
                        f"groups 'population': the linear predictor is not linear in {name}, so "
                        "it is not normal over the population; use groups 'data' or 'none'"
                    )
            for j in range(scale.shape[-1]):
                column = sum(scale[..., i, j, None] * each for i, each in enumerate(enters))
                total = total + np.square(column)
        return np.asarray(total)

    def _population(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return mean and Cholesky factor of a new label's effects, with chain and draw first."""
        text = self.rule.effects[name]
        call = _parsed(text)
        size = self._size(name) or 1
        arguments = [self._value(each) for each in getattr(call, "args", [])]
        kind = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if kind == "normal" and len(arguments) == 2:
            location, scale = (np.broadcast_to(each, (*self.lead, 1)) for each in arguments)
            return location, scale[..., None]
        if kind == "multi_normal" and len(arguments) in (1, 2):
            correlation = _matrix(arguments[1] if arguments[1:] else None, size)
            factor = np.linalg.cholesky(correlation)
            return np.zeros((1, 1, size)), arguments[0][..., :, None] * factor
        if kind == "scaled_inv_chi_square":
            raise ConfigError(
                f"observations depend on {name}, which has no value without a group; use groups "
                "'data' or 'population', or kind 'expected'"
            )
        raise ConfigError(
            f"[prediction.effects] {name} = {text!r}: write normal(mean, sd), multi_normal(sd), "
            "multi_normal(sd, correlations) or scaled_inv_chi_square(nu, scale)"
        )

    def _size(self, name: str) -> int:
        """Return the number of effects that a label has jointly; 0 for a scalar effect."""
        values = self._named(name)
        return int(values.shape[3]) if values.ndim > 3 else 0

    def _new(self, name: str, index: str) -> FloatArray:
        """Return the effects of new labels, shape (chain, draw, label[, M])."""
        labels = self.rows.labels[index][self.rows.known[index] :]
        call = _parsed(self.rule.effects[name])
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "scaled_inv_chi_square":
            nu, scale = (self._value(each) for each in call.args)
            if not (np.all(nu > 0) and np.all(scale > 0)):
                raise ConfigError(
                    f"{name} has a flat prior, from which no value for a new {index} can be drawn; "
                    "fit with a proper prior"
                )
            made = [
                nu
                * scale**2
                / generator(self.seed, index, label, name).chisquare(nu, (*self.lead, 1))
                for label in labels
            ]
            return np.concatenate(made, axis=2)
        location, factor = self._population(name)
        shape = (*self.lead, factor.shape[-1], 1)
        made = []
        for label in labels:
            z = generator(self.seed, index, label, name).standard_normal(shape)
            made.append(location + (factor @ z)[..., 0])
        stacked = np.stack(made, axis=2)
        return stacked if self._size(name) else stacked[..., 0]

    def _spread(self, value: Any) -> FloatArray:
        """Return a value for each draw and each row."""
        return np.array(np.broadcast_to(value, (*self.lead, len(self.rows))), dtype=np.float64)

    def _value(self, node: ast.AST) -> Any:
        """Return the value of an expression: chain and draw first, rows or elements last."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return self._named(name)
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
            return draws[..., None] if draws.ndim == 2 else draws
        if name in self.rule.where:
            return self._value(_parsed(self.rule.where[name]))
        for values in (self.rows.values, self.constants):
            if name in values:
                return np.asarray(values[name], dtype=np.float64)
        raise ConfigError(
            f"[prediction] names {name}, which is neither in the draws nor in the data; correct "
            "the name"
        )

    def _indexed(self, name: str, index: str) -> Any:
        """Return the element of a quantity for the label of each row."""
        if name in self.rule.effects and self.groups != "data":
            mean = self._population(name)[0][..., None, :]
            if self.unit is not None and self.unit[0] == name:
                mean = mean + self.unit[2] * np.eye(mean.shape[-1])[self.unit[1]]
            return mean if self._size(name) else mean[..., 0]
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
        few = replace(self, rows=replace(self.rows, labels=labels))
        found = np.where(codes < num, codes, num + np.searchsorted(there, codes))
        return np.concatenate([values, few._new(name, index)], axis=2), found


class _Parameters(dict[str, Any]):
    """The parameters of a family, evaluated only when used, because some may have no value."""

    def __init__(self, of: Predictor) -> None:
        super().__init__()
        self.of = of

    def __missing__(self, name: str) -> Any:
        self[name] = found = self.of.parameter(name)
        return found


def _matrix(correlations: Any, size: int) -> FloatArray:
    """Return correlation matrices, given upper triangles by row, matrices, or None for 0."""
    if correlations is None:
        return np.eye(size)
    if np.ndim(correlations) == 4:
        return np.asarray(correlations)
    found = np.zeros((*correlations.shape[:2], size, size))
    above = np.triu_indices(size, 1)
    found[..., above[0], above[1]] = correlations
    return found + np.swapaxes(found, -1, -2) + np.eye(size)
