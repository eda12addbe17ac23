"""What a program is fitted to: the values of its data block, and the labels behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data import Labels, Table
from pyflowers.data.table import is_plain
from pyflowers.digests import digest
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import DataError
from pyflowers.programs.blocks import Blocks, Variable
from pyflowers.programs.declaration import OBS, Column, Columns, Declaration, Size, Value
from pyflowers.programs.inference import dimension_names, dims_of


@dataclass(frozen=True, eq=False, repr=False)
class Data(Shown):
    """The data block of a program, filled.

    Attributes
    ----------
    values : mapping of str to array or scalar
        Each variable of the data block; indexes count from 1, as Stan's do.
    dims : mapping of str to tuple of str
        The dimensions of each variable that has some, and of each quantity of a draw.
    labels : mapping of str to Labels
        The columns that were read as labels, by the name that the declaration gives them. Those
        that are dimensions have their names as coordinates.
    coords : mapping of str to tuple of str
        Labels of the other dimensions with labels: the columns of a matrix.
    table : Table or None
        The columns of the table that are used; None for plain JSON or a mapping.
    columns : mapping of str to str
        For each column of the declaration the user's name of it.
    observed : str
        The variable that the model describes; empty if there is none.
    group, time, value : str
        The declaration's columns that group the rows, order them and hold the observed values;
        empty where it has none.
    source : str or None
        Where the data came from.
    sha256 : str
        A digest of what was read: of the table's columns, or of the file.
    notes : tuple of str
        What a reader should know about how the data were read.
    declaration : Declaration
        The declaration, with what was inferred.
    reading : mapping of str to str
        How the file was read, as far as that is not the usual: ``sep``, ``time_order`` and so on.
    """

    values: Mapping[str, Any]
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)
    coords: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: Table | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    observed: str = ""
    group: str = ""
    time: str = ""
    value: str = ""
    source: str | None = None
    sha256: str = ""
    notes: tuple[str, ...] = ()
    declaration: Declaration = field(default_factory=Declaration)
    reading: Mapping[str, str] = field(default_factory=dict)

    def contents(self) -> list[Line]:
        """Return what the data block holds: single values, and how many values of the others."""
        shapes = {name: " × ".join(map(str, np.shape(v))) for name, v in self.values.items()}
        rows = {name: f"{n} values" if n else str(self.values[name]) for name, n in shapes.items()}
        return [
            heading(str(self.source or "data"), f"{self.num_obs} observations"),
            pd.DataFrame({"value": rows}).rename_axis("variable"),
            *(f"note: {note}" for note in self.notes),
        ]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def has_table(self) -> bool:
        """Whether rows, columns and labels are known."""
        return self.table is not None

    @property
    def y(self) -> NDArray[np.float64]:
        """The observed values, shape (N,); empty if no variable is observed."""
        if self.observed not in self.values:
            return np.empty(0)
        return np.ravel(np.asarray(self.values[self.observed], dtype=np.float64))

    @property
    def num_obs(self) -> int:
        """Number of observed values."""
        return int(self.y.size)

    @property
    def by_group(self) -> Labels | None:
        """The labels that group the rows, where the program has such a column."""
        return self.labels.get(self.group)

    @property
    def by_time(self) -> Labels | None:
        """The labels that order the rows of a group."""
        return self.labels.get(self.time)

    @property
    def value_name(self) -> str:
        """What the user calls the observed values."""
        return self.name_of(self.value) if self.value else self.observed

    def describes_same(self, other: Data) -> bool:
        """Whether two programs describe the same observations.

        Values are equal, and so are the labels of the rows in columns that both read.
        """
        mine = {labels.column: labels.of_rows for labels in self.labels.values()}
        theirs = {labels.column: labels.of_rows for labels in other.labels.values()}
        return np.array_equal(self.y, other.y) and all(
            np.array_equal(mine[column], theirs[column]) for column in mine if column in theirs
        )

    def is_reordered(self, other: Data) -> bool:
        """Whether another's rows are these in another order, as far as both read them."""
        mine = {labels.column: labels.of_rows for labels in self.labels.values()}
        theirs = {labels.column: labels.of_rows for labels in other.labels.values()}
        both = sorted(mine.keys() & theirs.keys())
        rows, others = (
            sorted(zip(data.y.tolist(), *(found[column] for column in both), strict=True))
            for data, found in ((self, mine), (other, theirs))
        )
        return rows == others

    def at(self, rows: NDArray[np.int64]) -> Data:
        """Return the values of some rows only, in the order of `rows`; groups stay as they are.

        It is for what is computed observation by observation: the labels and the table are those of
        all rows still.
        """
        values = {
            name: np.asarray(value)[rows] if self.dims.get(name, ())[:1] == (OBS,) else value
            for name, value in self.values.items()
        }
        return replace(self, values=values)

    def name_of(self, column: str) -> str:
        """Return what the user calls a column of the declaration."""
        return self.columns.get(column, column)

    def where(self, row: int) -> str:
        """Say where row `row` is: source and row number."""
        return self.table.where(row) if self.table is not None else f"{self.source}, value {row}"


def from_table(
    table: Table,
    declared: Declaration,
    written: Declaration,
    blocks: Blocks,
    columns: Mapping[str, str],
    time_order: str = "value",
) -> Data:
    """Fill a program's data block from a table, its priors left out.

    Parameters
    ----------
    table : Table
        The table.
    declared : Declaration
        A complete declaration, see :func:`pyflowers.programs.inference.complete`.
    written : Declaration
        What the user wrote of it.
    blocks : Blocks
        What the program declares.
    columns : mapping of str to str
        The user's names of the declaration's columns, where they differ.
    time_order : str
        ``value`` or ``appearance``, of the time's labels.

    Raises
    ------
    DataError
        For anything wrong in the table.
    """
    names = {column: columns.get(column, column) for column in declared.columns}
    _refuse_shared(names, declared, table)
    table = table.only(tuple(_existing(table, dict.fromkeys(names.values()))))
    time = declared.table.time
    labels = {
        column: table.labels(
            names[column],
            order=time_order if column == time else declared.label_order(column),
            # An inferred index may be a factor, whose order means nothing.
            order_asked=column == time or written.label_order(column) == "value",
        )
        for column in declared.label_columns
    }
    if declared.table.group and time:
        leave = "leave --time out" if names[time] != time else f"rename the column {time}"
        if declared.reads_time:
            leave = "leave time out of [table] in the declaration"
        table.refuse_repeats(labels[declared.table.group], labels[time], leave)
    values: dict[str, Any] = {}
    for name, source in declared.data.items():
        variable = blocks.data[name]
        lower = _number(variable.lower)
        if isinstance(source, Column) and source.index:
            values[name] = _index(labels, source) + 1
        elif isinstance(source, Column | Columns):
            if isinstance(source, Column) and source.lower is not None:
                lower = source.lower
            checks = {"whole": variable.is_int, "lower": lower}
            remedies = _remedies(name, source, variable, declared)
            values[name] = _numbers(table, labels, names, source, {**checks, **remedies})
        elif isinstance(source, Size):
            values[name] = _size(source, table, labels, declared)
        elif isinstance(source, Value):
            values[name] = _constant(source.value, variable.ndim, len(table))
    observed = declared.roles.observed if declared.roles.observed in values else ""
    observed_source = declared.data.get(observed)
    return Data(
        values=values,
        dims=dict(declared.dims),
        labels=labels,
        coords={
            name: tuple(names[column] for column in matrix.columns)
            for name, matrix in declared.matrices.items()
        },
        table=table,
        columns=names,
        observed=observed,
        group=declared.table.group,
        time=time,
        value=observed_source.column if isinstance(observed_source, Column) else "",
        source=table.source,
        sha256=table.sha256(
            tuple(table.cells),
            [
                names[column]
                for column, found in labels.items()
                if not all(map(is_plain, found.names))
            ],
        ),
        notes=tuple(table.notes),
        declaration=declared,
    )


def from_json(data: Any, declared: Declaration, blocks: Blocks) -> Data:
    """Take CmdStan JSON, as a path, or a mapping of the data block's variables.

    Raises
    ------
    DataError
        If the file does not exist or is not a JSON object, or the mapping holds anything other
        than numbers.
    """
    declared, _ = dimension_names(declared, blocks)
    dims, observed = dims_of(declared, blocks), declared.roles.observed
    if data is None:
        return Data({}, dims, sha256=digest(), declaration=declared)
    if isinstance(data, Mapping):
        values = {str(name): _plain(name, value) for name, value in data.items()}
        text = json.dumps(_as_lists(values), sort_keys=True)
        source, sha256 = "the mapping", digest(text)
    else:
        path = Path(data).resolve()
        values, text = _json_object(path)
        source, sha256 = str(path), digest(text)
    return Data(
        values,
        dims,
        source=source,
        sha256=sha256,
        observed=observed if observed in values else "",
        declaration=declared,
    )


def _json_object(path: Path) -> tuple[dict[str, Any], str]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; without a declaration a program takes CmdStan JSON")
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error) if not isinstance(error, RecursionError) else "nested too deeply"
        raise DataError(f"{path}: it is not JSON ({reason}); correct it") from error
    if not isinstance(found, dict):
        raise DataError(
            f'{path}: CmdStan JSON is an object, such as {{"N": 2, "y": [1, 2]}}, and this is '
            f"a {type(found).__name__}; for a table of records declare the program's data in "
            "a .toml file beside it"
        )
    return found, text


def _plain(name: Any, value: Any) -> Any:
    """Return a value as numbers; tuples of Stan stay mappings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", part) for key, part in value.items()}
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.size:
            if any(each is None for each in array.flat):
                raise TypeError("None is not a number")
            array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"data {name}: it is not an array of numbers ({error})") from error
    if array.dtype.kind == "c":
        pairs: Any = np.stack([array.real, array.imag], -1)
        return pairs
    if array.dtype.kind in "US":
        raise DataError(
            f"data {name}: it holds text, and a data block holds numbers; of a table, give "
            "pandas.DataFrame(...)"
        )
    if array.dtype.kind not in "biuf":
        raise DataError(f"data {name}: it holds {array.dtype}, not numbers")
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _as_lists(value: Any) -> Any:
    """Return arrays, and those in mappings, as lists."""
    if isinstance(value, Mapping):
        return {key: _as_lists(part) for key, part in value.items()}
    return np.asarray(value).tolist()


def _existing(table: Table, names: Mapping[str, None]) -> list[str]:
    for name in names:
        table.column(name)  # which says what is missing
    return list(names)


def _refuse_shared(names: Mapping[str, str], declared: Declaration, table: Table) -> None:
    """Refuse one column for two of the table's roles: group, time and value differ."""
    roles = [c for c in (declared.table.group, declared.table.time) if c]
    observed = declared.data.get(declared.roles.observed)
    if isinstance(observed, Column):
        roles.append(observed.column)
    given = [names[column] for column in dict.fromkeys(roles)]
    if len(set(given)) < len(given):
        raise DataError(
            f"{table.source}: group, time and value must be different columns, got "
            f"{', '.join(given)}"
        )


def _index(labels: Mapping[str, Labels], source: Column) -> NDArray[np.int64]:
    """Return the position of each row's label, or of each `per` label's."""
    if source.per is None:
        return labels[source.column].codes
    inner, outer = labels[source.per], labels[source.column]
    chosen = np.zeros(len(inner), dtype=np.int64)
    chosen[inner.codes] = outer.codes
    differs = np.flatnonzero(outer.codes != chosen[inner.codes])
    if differs.size:
        label = inner.names[inner.codes[differs[0]]]
        raise DataError(
            f"{inner.column} {label!r} has more than one {outer.column}; it must have one"
        )
    return chosen


def _numbers(
    table: Table,
    labels: Mapping[str, Labels],
    names: Mapping[str, str],
    source: Column | Columns,
    checks: Mapping[str, Any],
) -> NDArray[Any]:
    def read(column: str) -> NDArray[np.float64]:
        if source.per is not None:
            return table.one_per_label(names[column], labels[source.per], **checks)
        return table.numbers(names[column], **checks)

    found = (
        read(source.column)
        if isinstance(source, Column)
        else np.stack([read(column) for column in source.columns], axis=1)
    )
    return found.astype(np.int64) if checks["whole"] else found


def _remedies(
    name: str, source: Column | Columns, variable: Variable, declared: Declaration
) -> dict[str, str]:
    """Say what to do where a column of numbers has a cell without one."""
    if name == declared.roles.observed:
        return {
            "if_missing": "fill it in, or leave the row out if nothing was observed",
            "if_text": "name a column of numbers, or make it one, of 0 and 1 for two labels",
        }
    as_labels = "make it a column of 0 and 1"
    if isinstance(source, Column):
        per = f', per = "{source.per}"' if source.per else ""
        as_labels += (
            f", or declare array[{variable.sizes[0]}] int {name} in the program and "
            f'{name} = {{ column = "{source.column}", index = true{per} }} in its .toml file'
        )
    return {
        "if_missing": "fill it in, or write a program in which missing values are parameters",
        "if_text": f"if it holds labels, {as_labels}",
    }


def _size(source: Size, table: Table, labels: Mapping[str, Labels], declared: Declaration) -> int:
    if source.size == OBS:
        return len(table)
    if source.size in declared.matrices:
        return len(declared.matrices[source.size].columns)
    return len(labels[source.size])


def _constant(value: Any, ndim: int, num_obs: int) -> Any:
    """Return a constant; a number for a vector is the same for every row."""
    return np.full(num_obs, value) if ndim == 1 and np.ndim(value) == 0 else value


def _number(text: str | None) -> float | None:
    """Return a bound that is a number; others, such as the name of a variable, are for Stan."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def to_frame(data: Data) -> pd.DataFrame:
    """Return the table's columns as they are used: labels as text, values as numbers."""
    if data.table is None:
        raise DataError("these data are not a table")
    of_labels = {labels.column: labels.of_rows for labels in data.labels.values()}
    return pd.DataFrame(
        {
            name: of_labels[name] if name in of_labels else data.table.numbers(name)
            for name in data.table.cells
        }
    )
