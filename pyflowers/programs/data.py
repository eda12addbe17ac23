"""The data of a program: the values of its data block, and the labels behind them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.data import Labels, Table, from_frame, read_table
from pyflowers.data.columns import number_of, plain_text
from pyflowers.data.labels import has_order, rows_before, shared
from pyflowers.data.table import listed
from pyflowers.digests import digest
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.declaration import (
    OBS,
    Column,
    Counts,
    Declaration,
    Declaring,
    Size,
    Terms,
    complete,
    dims_of,
)
from pyflowers.programs.design import design
from pyflowers.programs.families._response import simulated
from pyflowers.programs.source import Blocks, Declared, Variable
from pyflowers.programs.terms import is_coded
from pyflowers.records import recordable
from pyflowers.text import in_words

TABLE_ROLES = ("group", "time", "value")
"""Short names for columns of the declaration, as in ``--group plot``."""

LONGEST_KEY = 32
"""The largest number of characters of a key such as ``1 = none to 4 = severe`` after a name."""

_DIMENSIONS = {0: "no dimensions", 1: "one dimension"}

OF_A_FILE = ("sep", "decimal", "encoding")
"""The options that determine how a file is read."""

READING = (*OF_A_FILE, "time_order", "drop_missing")
"""The options, other than columns, that determine how a table is read."""


@dataclass(frozen=True, eq=False, repr=False)
class Data(Shown):
    """The values of a program's data block, and the labels behind them.

    :meth:`pyflowers.Program.read` returns data; ``data["y"]`` is the variable ``y``.

    Attributes
    ----------
    values : mapping of str to array or number
        Each variable of the data block, in the table's units; indexes count from 1, as in Stan.
    dims : mapping of str to tuple of str
        The dimensions of the variables and of the quantities of a draw, if they have any.
    labels : mapping of str to Labels
        The columns that were read as labels, by their names in the declaration. The labels are the
        coordinates of dimensions with these names.
    coords : mapping of str to tuple of str
        The labels of other dimensions, such as the columns of a matrix.
    table : Table or None
        The columns of the table that are used; None for JSON or a mapping.
    columns : mapping of str to str
        The table's name for each column of the declaration.
    source : str or None
        Origin of the data: a path, ``the data frame`` or ``the mapping``.
    sha256 : str
        Digest of the table's columns, of the JSON file or of the mapping.
    notes : tuple of str
        Notes on how the data were read, one sentence each.
    declaration : Declaration
        The declaration, completed with the dimensions, columns and sizes that were inferred.
    reading : mapping of str to str
        The reading options that differ from the default: ``sep``, ``time_order`` and so on.
    whole : Data or None
        The data block with all rows that were read, if :meth:`complete` left some out.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import pyflowers
    >>> program = pyflowers.Program.open("examples/pumps/pumps.stan")
    >>> data = program.read("examples/pumps/pumps.csv")
    >>> data["y"].tolist()
    [5, 1, 5, 14, 3, 19, 1, 1, 4, 22]
    >>> data.where(0)
    'examples/pumps/pumps.csv, row 2'
    >>> data.at(np.array([9, 0]))["y"].tolist()
    [22, 5]

    Read the same table in another order, and with another name for a column:

    >>> frame = pd.read_csv("examples/pumps/pumps.csv")
    >>> other = program.read(frame[::-1])
    >>> data.describes_same(other), data.is_reordered(other)
    (False, True)
    >>> program.read(frame.rename(columns={"pump": "unit"}), group="unit").name_of("pump")
    'unit'

    Build new data with the same declaration from known values:

    >>> values = {**data.values, "t": 2 * data["t"]}
    >>> doubled = pyflowers.Data.of_table(
    ...     data.declaration, values, data.columns, labels=data.labels, table=data.table
    ... )
    >>> doubled["t"][:2].tolist()
    [188.6, 31.4]

    Select the rows in which no predictor is missing, and look up their positions among all rows:

    >>> frame = pd.DataFrame({"y": [1.0, 2, 4, 3], "x": [0.1, None, 0.9, 0.4]})
    >>> data = pyflowers.Program.from_formula("y ~ mi(x); x | mi() ~ 1", frame).read(frame)
    >>> complete = data.complete()
    >>> complete["y"].tolist(), complete.rows_in_whole().tolist()
    ([1.0, 4.0, 3.0], [0, 2, 3])
    """

    values: Mapping[str, Any]
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)
    coords: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: Table | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    sha256: str = ""
    notes: tuple[str, ...] = ()
    declaration: Declaration = field(default_factory=Declaration)
    reading: Mapping[str, str] = field(default_factory=dict)
    whole: Data | None = None

    @classmethod
    def of_table(
        cls,
        declared: Declaration,
        values: Mapping[str, Any],
        columns: Mapping[str, str],
        **rest: Any,
    ) -> Data:
        """Return the data block of a table that a complete declaration describes.

        Parameters
        ----------
        declared : Declaration
            The declaration, complete with dimensions.
        values : mapping of str to array or number
            Each variable of the data block.
        columns : mapping of str to str
            The table's name for each column of the declaration.
        **rest
            The other attributes, such as ``labels``, ``coords``, ``table`` and ``source``.

        Returns
        -------
        Data
            The data block, with the dimensions and coordinates of the declaration.
        """
        coords = {**declared.coords, **rest.get("coords", {})}
        rest |= {"dims": dict(declared.dims), "coords": coords, "declaration": declared}
        return cls(values, columns=columns, **rest)

    def contents(self) -> list[Line]:
        """Return a description of the data block: values of scalars, sizes of other variables."""
        rows = {name: _described(value) for name, value in self.values.items()}
        return [
            heading(str(self.source or "data"), f"{self.num_obs} observations"),
            pd.DataFrame({"value": rows}).rename_axis("variable"),
            *(f"note: {note}" for note in self.notes),
        ]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def has_table(self) -> bool:
        """Whether the data come from a table, with rows, columns and labels."""
        return self.table is not None

    @property
    def observed(self) -> str:
        """The variable that the model describes; empty if there is none."""
        role = self.declaration.roles.observed
        if role in self.values:
            return role
        return ""

    @property
    def group(self) -> str:
        """The declaration's column that groups the rows; empty if there is none."""
        return self._in_role("group")

    @property
    def time(self) -> str:
        """The declaration's column that orders the rows of a group; empty if there is none."""
        return self._in_role("time")

    @property
    def value(self) -> str:
        """The declaration's column of the observed values; empty if there is none."""
        return self._in_role("value")

    def _in_role(self, role: str) -> str:
        if self.has_table:
            return self.declaration.in_role[role]
        return ""

    @property
    def y(self) -> NDArray[np.float64]:
        """The observed values, shape (N,); empty if no variable is observed.

        The counts of the categories of one observation are consecutive elements.
        """
        if not self.observed:
            return np.empty(0)
        return np.ravel(np.asarray(self.values[self.observed], dtype=np.float64))

    @property
    def counted(self) -> tuple[str, ...]:
        """The user's names for the categories if an observation is a row of counts."""
        source = self.declaration.data.get(self.declaration.roles.observed)
        return tuple(map(self.name_of, getattr(source, "counts", ())))

    @property
    def num_obs(self) -> int:
        """The number of observations; a row of counts of categories is one observation."""
        return int(self.y.size) // (len(self.counted) or 1)

    @property
    def rows_of_y(self) -> NDArray[np.float64]:
        """The observed values of each observation, shape (N, 1) or, for counts, (N, category)."""
        return self.y.reshape(-1, len(self.counted) or 1)

    @property
    def by_group(self) -> Labels | None:
        """The labels that group the rows; None if the program has no such column."""
        return self.labels.get(self.group)

    @property
    def by_time(self) -> Labels | None:
        """The labels that order the rows of a group; None if there are none."""
        return self.labels.get(self.time)

    @property
    def value_name(self) -> str:
        """The user's name for the observed values, followed by their numbering if they are labels.

        Labels other than 1, 2, 3 and so on are numbered in their order, as in ``pain (1 = none to
        4 = severe)``.
        """
        numbers, positions = self._numbers_of_labels, range(1, len(self._numbers_of_labels) + 1)
        return self._named(is_numbered=numbers != (*positions,))

    @property
    def scored_name(self) -> str:
        """The user's name for the observed values in predictions, which use the :attr:`scores`."""
        return self._named(is_numbered=bool(np.isnan(self._numbers_of_labels).any()))

    @property
    def scores(self) -> NDArray[np.float64] | None:
        """The number of each rating in predictions; None if the observed values are not labels.

        They are the user's own numbers, such as -3 to 3, or 1, 2, 3 and so on if a label is not a
        number.
        """
        numbers = np.array(self._numbers_of_labels)
        if not numbers.size:
            return None
        if np.isnan(numbers).any():
            return np.arange(1.0, numbers.size + 1)
        return numbers

    @property
    def _numbers_of_labels(self) -> tuple[float, ...]:
        """The labels of the observed values as numbers; NaN for a label that is not a number."""
        found = self.labels.get(self.value)
        if found is None:
            return ()
        return tuple(map(number_of, found.names))

    @property
    def category_name(self) -> str:
        """The user's name for an observed category; ``category`` if a row counts categories."""
        return "category" if self.counted else self.response_name

    @property
    def response_name(self) -> str:
        """The user's name for the observed values, without the numbering of labels."""
        if self.counted:
            return f"counts of {in_words(self.counted)}"
        return self.name_of(self.value) or self.observed

    def _named(self, *, is_numbered: bool) -> str:
        """Return the user's name for the observed values, followed by their numbering."""
        if not is_numbered:
            return self.response_name
        names = self.labels[self.value].names
        ends = f"1 = {names[0]} to {len(names)} = {names[-1]}"
        if len(ends) > LONGEST_KEY:
            ends = f"numbered 1 to {len(names)}"
        return f"{self.response_name} ({ends})"

    def describes_same(self, other: Data, rows: Any = ..., its: Any = ...) -> bool:
        """Return whether two data blocks hold the same observations in the same order.

        Parameters
        ----------
        other : Data
            The other data block, which may belong to another program.
        rows, its : array of int, optional
            Positions of the observations to compare, from 0: `rows` in these data, `its` in the
            other data. Default: all.

        Returns
        -------
        bool
            True if the observed values are equal, and the labels of the rows are equal in all
            columns that both data blocks read as labels.
        """
        pairs = [(self.rows_of_y, other.rows_of_y), *self._labels_of_both(other)]
        return all(np.array_equal(mine[rows], theirs[its]) for mine, theirs in pairs)

    def is_reordered(self, other: Data) -> bool:
        """Return whether other data hold the same observations, in the same or another order.

        Parameters
        ----------
        other : Data
            The other data block.

        Returns
        -------
        bool
            True if observed values and common labels are the same after sorting the rows.
        """
        if len(self.counted) != len(other.counted):
            return False
        of_y = zip(self.rows_of_y.T, other.rows_of_y.T, strict=True)
        mine, theirs = zip(*of_y, *self._labels_of_both(other), strict=True)
        return sorted(zip(*mine, strict=True)) == sorted(zip(*theirs, strict=True))

    def _labels_of_both(self, other: Data) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return the labels of the rows in each column that both data blocks read as labels."""
        mine = {found.column: found.of_rows for found in self.labels.values()}
        theirs = {found.column: found.of_rows for found in other.labels.values()}
        return [(mine[column], theirs[column]) for column in mine if column in theirs]

    def at(self, rows: NDArray[np.int64]) -> Data:
        """Return the data block with some of the observations.

        This is for computations that treat observations one by one: the groups, labels and table
        still describe all rows.

        Parameters
        ----------
        rows : array of int
            Positions of the observations, from 0, in the order of the result.

        Returns
        -------
        Data
            A copy in which variables with one value for each observation have only these rows.
        """
        of_rows = {
            name: np.asarray(value)[rows]
            for name, value in self.values.items()
            if self.dims.get(name, ())[:1] == (OBS,)
        }
        return replace(self, values={**self.values, **of_rows})

    def complete(self) -> Data:
        """Return the data block with only the rows in which no predictor is missing.

        If a predictor is imputed in some rows, results for single rows cover only the other rows.

        Returns
        -------
        Data
            The same data block if no predictor is imputed; otherwise one with fewer rows.
        """
        if not self.declaration.imputed or self.table is None or self.whole is not None:
            return self
        rows = self._complete_rows
        found, declared = self.at(rows), self.declaration.data
        sizes = {
            name: len(rows)
            for name, its in declared.items()
            if isinstance(its, Size) and its.size == OBS
        }
        # The categories of the response, and the labels that members share, are unchanged.
        kept = {self.value, *(name for columns in self.declaration.shared for name in columns)}
        labels = {
            name: replace(its, codes=its.codes[rows]) if name in kept else its.at(rows)
            for name, its in self.labels.items()
        }
        return replace(
            found,
            values={**found.values, **sizes},
            labels=labels,
            table=self.table.at(rows),
            whole=self,
        )

    @property
    def with_all_rows(self) -> Data:
        """The data block with all rows that were read, those with imputed predictors included."""
        return self.whole or self

    @property
    def _complete_rows(self) -> NDArray[np.int64]:
        """The positions of the rows in which no predictor is missing."""
        absent = [np.asarray(self.values[name]) - 1 for name in self.declaration.imputed]
        return np.setdiff1d(np.arange(self.num_obs), np.concatenate(absent))

    def rows_in_whole(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64] | None:
        """Return the positions of rows among all rows that were read; None stands for all.

        Parameters
        ----------
        rows : array of int, optional
            Positions of rows in these data. Default: all.

        Returns
        -------
        array of int or None
            The positions, from 0.
        """
        if self.whole is None:
            return rows
        every = self.whole._complete_rows
        return every if rows is None else every[rows]

    def name_of(self, column: str) -> str:
        """Return the user's name for a column of the declaration.

        Parameters
        ----------
        column : str
            The declaration's name.

        Returns
        -------
        str
            The table's name.
        """
        return self.columns.get(column, column)

    def where(self, row: int) -> str:
        """Return the place of an observation for a message: source and row number.

        Parameters
        ----------
        row : int
            Position of the observation, from 0.

        Returns
        -------
        str
            A place such as ``data/flowers.csv, row 2``; without a table, ``the mapping, value 0``.
        """
        if self.table is not None:
            return self.table.where(row)
        return f"{self.source}, value {row}"


def _described(value: Any) -> str:
    """Return a number as text, and the size of any other value."""
    shape = np.shape(value)
    if not shape:
        return str(value)
    return f"{' × '.join(map(str, shape))} values"


def read_data(
    program: Declaring, data: Any, columns: Any, time_order: str, design_only: bool, reading: Any
) -> Data:
    """Read data in any form; see :meth:`pyflowers.programs.program.Program.read`."""
    if time_order not in ("value", "appearance"):
        raise ConfigError(f"time_order must be value or appearance, got {time_order!r}")
    if not isinstance(columns, Mapping | None):
        raise ConfigError(
            'columns must be a mapping of names, such as {"plant": "Beet"}, got '
            f"{type(columns).__name__}"
        )
    how = {key: value for key, value in reading.items() if value is not None}
    names = {key: name for key, name in (columns or {}).items() if name is not None}
    names |= {role: how.pop(role) for role in TABLE_ROLES if role in how}
    for key, name in names.items():
        for wrong in (name, key):
            if not isinstance(wrong, str):
                raise ConfigError(f"{key}: the name of a column must be text, got {wrong!r}")
    drop_missing = bool(how.pop("drop_missing", False))
    of_rows = dict[str, str]()
    if time_order != "value":
        of_rows["time_order"] = time_order
    if drop_missing:
        of_rows["drop_missing"] = "True"
    given = next(iter((*names, *how, *of_rows)), None)
    if isinstance(data, Data):
        if given:
            raise ConfigError(f"{given}: the data have already been read; leave {given} out")
        return data
    if data is None:
        data = program.example
    if how and isinstance(data, Table | pd.DataFrame):
        name = next(iter(how))
        raise ConfigError(
            f"{name} is only valid with a file, but the data are not a file; leave {name} out"
        )
    table = as_table(data, how)
    if table is not None:
        found = _from_table(program, table, names, time_order, design_only, drop_missing)
        return replace(found, reading={**table.reading, **of_rows})
    if given:
        raise ConfigError(
            f"{given} is only valid with a table, but {program.called} was given none; leave "
            f"{given} out"
        )
    block = _from_json(data, program.declaration, program.source.blocks)
    if design_only:
        return _design_block(block, program.source.blocks)
    return block


def read_once(data: Any, reading: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a file or a DataFrame as a table, and the reading options that remain.

    The program of a formula is then written from the same table from which its data are read.
    """
    if isinstance(data, Data):
        return data, dict(reading)
    how = {name: reading[name] for name in OF_A_FILE if reading.get(name) is not None}
    if how and not isinstance(data, str | Path):
        return data, dict(reading)  # rejected when the data are read
    table = as_table(data, how)
    if table is None:
        return data, dict(reading)
    return table, {name: value for name, value in reading.items() if name not in how}


def as_table(data: Any, reading: Mapping[str, Any]) -> Table | None:
    """Return data in any form as a table; None for a data block, or if there are no data."""
    if isinstance(data, Table):
        return data
    if isinstance(data, pd.DataFrame):
        return from_frame(data)
    if data is None or isinstance(data, Mapping):
        return None
    if not isinstance(data, str | Path):
        raise DataError(f"data must be a file, a DataFrame or a mapping, got {type(data).__name__}")
    path = recordable(data, "data", DataError)
    if path.suffix.lower() == ".json":
        # A JSON file that begins with a list is a table of records.
        with suppress(OSError), path.open(encoding="utf-8-sig", errors="replace") as file:
            if file.read(4096).lstrip().startswith("["):
                return read_table(path, **reading)
        return None
    return read_table(path, **reading)


def _check_roles(table: Table, declared: Declaration, names: Mapping[str, str]) -> None:
    """Reject a table that lacks the column of a role, and show how to name another column.

    Raises
    ------
    DataError
        If there is no column with the declared name.
    """
    absent = {
        role: column
        for role, column in declared.in_role.items()
        if column and names[column] == column and column not in table.columns
    }
    if not absent or ":" in "".join(absent.values()) or len(table.columns) == 1:
        return
    options = in_words([f"--{role}" for role in absent])
    remedy = f"name the columns to use with {options}"
    if len(absent) == 1:
        remedy = f"name the column to use with {options}"
    column = next(iter(absent.values()))
    raise table.refusal(f"there is no column {column!r}; {listed(table.columns)}; {remedy}")


def _from_table(
    program: Declaring,
    table: Table,
    columns: Mapping[str, str],
    time_order: str,
    design_only: bool,
    drop_missing: bool,
) -> Data:
    """Fill a data block from a table; `columns` holds the table's names for columns and roles."""
    written, blocks = program.declaration, program.source.blocks
    in_role = written.in_role
    for key in columns:
        if key in in_role and not in_role[key]:
            raise ConfigError(
                f"{key}: {program.called} declares no column in that role; leave --{key} out, or "
                f"declare one in {program.declared_in}"
            )
    names = {in_role.get(key, key): theirs for key, theirs in columns.items()}
    omitting = [names.get(column, column) for column in written.table.omit_missing]
    table = table.without_missing([its for its in omitting if its in table.columns], drop=True)
    if design_only:
        table = _design_table(table, written, blocks, names)
    read_by = {*written.columns, *blocks.data}
    back = {theirs: name for name, theirs in names.items() if name in read_by}
    known = [back.get(column, column) for column in table.columns]
    declared, dims = complete(written, blocks, known, program.declared_in)
    # A requested column counts as present, so that its absence is reported as an error.
    declared = declared.for_columns({dims.get(column, column) for column in (*known, *names)})
    for column in written.table.omit_missing:
        if dims.get(column, column) not in declared.columns:
            raise ConfigError(
                f"{program.declared_in}: table.omit_missing names {column}, which no variable "
                "reads; correct the name, or leave it out"
            )
    for key in columns:
        if not {key, dims.get(key, key)} & {*TABLE_ROLES, *declared.columns}:
            before = {dim: column for column, dim in dims.items()}
            have = ", ".join(before.get(column, column) for column in declared.columns)
            if not have:
                raise ConfigError(f"column {key}: {program.called} reads no columns; leave it out")
            raise ConfigError(f"column {key}: {program.called} reads no such column, only {have}")
    names = {dim: names.get(column, column) for column, dim in dims.items()} | names
    names = {column: names.get(column, column) for column in declared.columns}
    group, time, value = declared.in_role.values()
    used = [names[column] for column in dict.fromkeys((group, time, value)) if column]
    if len(set(used)) < len(used):
        raise DataError(
            f"{table.source}: group, time and value must be different columns, got "
            f"{', '.join(used)}"
        )
    _check_roles(table, declared, names)
    table = table.only(tuple(dict.fromkeys(names.values())))
    imputed = [names[column] for column in declared.imputed.values()]
    if drop_missing:
        others = [name for name in table.columns if name not in imputed]
        table = table.without_missing(others, drop=True)
    missing = {name: np.flatnonzero(table.is_missing(name)) for name in imputed}
    table = table.filled(imputed)
    written, labels = written.with_labels(dims), dict[str, Labels]()
    for column in declared.label_columns:
        if column == time:
            labels[column] = table.labels(names[column], order=time_order)
            continue
        # An inferred index may be a factor, whose order has no meaning.
        order_asked = written.label_order(column) == "value"
        order = declared.label_order(column)
        labels[column] = table.labels(names[column], order=order, order_asked=order_asked)
    for columns_of_set in declared.shared:
        its = shared([labels[column] for column in columns_of_set])
        labels |= dict(zip(columns_of_set, its, strict=True))
    if group and time:
        leave = "leave --time out"
        if declared.reads_time:
            leave = "leave time out of [table] in the declaration"
        elif names[time] == time:
            leave = f"rename the column {time}"
        table.refuse_repeats(labels[group], labels[time], leave)
    of_rows = declared.coords.get(OBS)
    if of_rows is not None and len(of_rows) != len(table):
        raise DataError(
            f"{table.source} has {len(table)} rows, but {OBS} in the declaration's [coords] has "
            f"the length {len(of_rows)}; give a label for each row, or none"
        )
    rows = Rows(table, declared, names, labels, missing)
    values = {n: source.read(n, blocks.data[n], rows) for n, source in declared.data.items()}
    # True and False that are read as numbers are 1 and 0; labels stay as they are written.
    of_labels = {found.column: found for found in labels.values()}
    parsed = {n: its for n, its in rows.parsed.items() if n not in of_labels}
    for name, where in missing.items():
        parsed[name] = np.array(parsed[name], dtype=np.float64)
        parsed[name][where] = np.nan
    table = table.with_cells(parsed)
    return Data.of_table(
        declared,
        values,
        names,
        labels=labels,
        coords=rows.coords,
        table=table,
        source=table.source,
        sha256=table.sha256(tuple(table.columns), spelled(of_labels.values())),
        notes=tuple(table.notes),
    )


def spelled(labels: Iterable[Labels]) -> list[str]:
    """Return the columns with labels such as 01, which count as text in digests.

    Their text is not determined by their value as a number.
    """
    return [its.column for its in labels if tuple(map(plain_text, its.names)) != its.names]


@dataclass(frozen=True)
class Rows:
    """A table that is being read according to a declaration.

    Attributes
    ----------
    table : Table
        The columns that are used.
    declared : Declaration
        The whole declaration.
    names : mapping of str to str
        The user's name for each column of the declaration.
    labels : mapping of str to Labels
        The columns that are read as labels.
    absent : mapping of str to array of int
        The positions of the rows in which each imputed column is missing, by the user's name for
        the column.
    parsed : dict of str to array
        The numbers that have been read, by the user's name for the column.
    designs : dict of str to (array, tuple of str)
        The design matrices that have been built, by their terms.
    """

    table: Table
    declared: Declaration
    names: Mapping[str, str]
    labels: Mapping[str, Labels]
    absent: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    parsed: dict[str, NDArray[Any]] = field(default_factory=dict)
    designs: dict[str, tuple[NDArray[np.float64], tuple[str, ...]]] = field(default_factory=dict)

    @cached_property
    def coords(self) -> dict[str, tuple[str, ...]]:
        """The names of each variable's columns or elements."""
        return {name: self.declared.data[name].names(self) for name in self.declared.named}

    def design(self, source: Terms) -> tuple[NDArray[np.float64], tuple[str, ...]]:
        """Return the design matrix of a sum of terms, and its column names."""
        terms = source.terms
        if terms not in self.designs:
            cells = {column: self._numbers_or_factor(column, source) for column in source.cells}
            self.parsed.update(
                {self.names[c]: its for c, its in cells.items() if isinstance(its, np.ndarray)}
            )
            self.designs[terms] = design(
                terms,
                cells,
                source.levels,
                state=source.state,
                refuse=self.table.refusal,
            )
        return self.designs[terms]

    def _numbers_or_factor(self, column: str, source: Terms) -> Any:
        """Return a column of the terms as numbers or, if it holds labels, as a factor."""
        is_mixed = is_coded(column, [source.terms])
        levels = source.levels.get(column)
        return self.table.numbers_or_factor(self.names[column], levels, is_mixed=is_mixed)

    def first_rows(self, source: Terms) -> NDArray[np.int64]:
        """Return the first row of each label of ``per``; reject labels with different values."""
        assert source.per is not None
        labels = self.labels[source.per]
        # A column that is part of the label cannot vary within it.
        for column in set(source.cells) - set(source.per.split(":")):
            cells = self._numbers_or_factor(column, source)
            _, differs = labels.first_of_each(getattr(cells, "codes", cells))
            if differs.size:
                label = labels.names[labels.codes[differs[0]]]
                raise DataError(
                    f"{self.table.where(differs[0])}: {labels.column} {label!r} has more than one "
                    f"{self.names[column]}; give it only one"
                )
        return np.unique(labels.codes, return_index=True)[1]

    def positions(self, column: str, per: str | None) -> NDArray[np.int64]:
        """Return the position of the column's label in each row, or for each label of `per`."""
        outer = self.labels[column]
        if per is None:
            return outer.codes
        inner = self.labels[per]
        chosen, differs = inner.first_of_each(outer.codes)
        if differs.size:
            label = inner.names[inner.codes[differs[0]]]
            raise DataError(
                f"{self.table.where(differs[0])}: {inner.column} {label!r} has more than one "
                f"{outer.column}; give it only one"
            )
        return chosen

    def before(self, times: str | None, series: str | None) -> NDArray[np.int64]:
        """Return the position of each row's predecessor in its series; a first row gets its own."""
        when = None if times is None else self.labels[times]
        if when is not None and not has_order(when.names):
            raise DataError(
                f"{self.table.source}: the times in {when.column}, such as {when.names[0]!r}, have "
                "no order; give numbers or dates"
            )
        own = None if series is None else self.labels[series]
        rows, repeated = rows_before(len(self.table), when, own)
        if when is not None and repeated >= 0:
            whose = f" of {own.column} {own.of_rows[repeated]}" if own is not None else ""
            remedy = "correct the time, or leave a row out"
            if own is None:
                remedy = (
                    f"{remedy}; if the rows belong to several series, name the column of the series"
                )
            raise DataError(
                f"{self.table.where(repeated)}: another row{whose} has the {when.column} "
                f"{when.of_rows[repeated]}, too; {remedy}"
            )
        return rows

    def missing(self, column: str) -> NDArray[np.int64]:
        """Return the positions of the rows in which an imputed column is missing."""
        return self.absent[self.names[column]]

    def numbers_of_rows(self, rows: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the row numbers, in the table, of the rows at these positions."""
        return tuple(map(str, self.table.rows[rows].tolist()))

    def outcomes(self, column: str, outcomes: Sequence[str]) -> NDArray[np.int64]:
        """Return 1 for each row with the second of two labels, and 0 for the first."""
        found = self.table.labels(self.names[column], order=outcomes)
        return np.array([outcomes.index(each) for each in found.names])[found.codes]

    def coded(self, column: str, codes: Mapping[str, float]) -> NDArray[np.int64]:
        """Return the number that stands for the word in each row."""
        called = self.names[column]
        texts = self.table.texts(called).tolist()
        for row, text in enumerate(texts):
            if text not in codes:
                raise DataError(
                    f"{self.table.where(row)}: {called} is {text!r}, which is not one of "
                    f"{', '.join(codes)}; rewrite the column"
                )
        return np.array([codes[text] for text in texts]).astype(np.int64)

    def numbers(
        self,
        column: str,
        name: str,
        variable: Variable,
        per: str | None = None,
        lower: float | None = None,
        instead: str = "",
    ) -> NDArray[Any]:
        """Return one number per row, or per label of `per`, for the variable `name`.

        `instead` is an additional remedy for a column of labels.
        """
        called = self.names[column]
        if_text = f"if it holds labels, make it a column of 0 and 1{instead}"
        if_missing = "fill it in, or write a program in which missing values are parameters"
        if name == self.declared.roles.observed:
            if_text = "name a column of numbers, or code two labels as 0 and 1"
            option = worded("--drop-missing")
            if_missing = f"fill it in, or leave the row out ({option}) if nothing was observed"
        if lower is None:
            lower = variable.lowest
        found = self.table.numbers(
            called, whole=variable.is_int, lower=lower, if_missing=if_missing, if_text=if_text
        )
        self.parsed[called] = found
        if per is not None:
            found = self.table.one_per_label(called, found, self.labels[per])
        if variable.is_int:
            return found.astype(np.int64)
        return found


def _from_json(data: Any, declared: Declaration, blocks: Blocks) -> Data:
    """Read CmdStan JSON from a path, or a mapping of the data block's variables."""
    declared, _ = declared.with_plain_dims(blocks)
    about: dict[str, Any] = {"dims": dims_of(declared, blocks), "coords": declared.coords}
    about |= {"declaration": declared}
    if data is None:
        return Data({}, sha256=digest(), **about)
    if isinstance(data, Mapping):
        values = {str(name): _plain(name, value) for name, value in data.items()}
        text = json.dumps(values, sort_keys=True, default=np.ndarray.tolist)
        return Data(values, source="the mapping", sha256=digest(text), **about)
    path = Path(data).resolve()
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = json.loads(text)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}); check its permissions"
        ) from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); correct it") from error
    except RecursionError as error:
        raise DataError(f"{path} is not JSON (nested too deeply); correct it") from error
    if not isinstance(values, dict):
        raise DataError(
            f'{path}: CmdStan JSON must be an object, such as {{"N": 2, "y": [1, 2]}}, got '
            f"{type(values).__name__}; correct it"
        )
    return Data(values, source=str(path), sha256=digest(text), **about)


def _plain(name: Any, value: Any) -> Any:
    """Return a value as numbers; Stan's tuples remain mappings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", part) for key, part in value.items()}
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.size:
            if any(each is None for each in array.flat):
                raise TypeError("None is not a number")
            array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"data {name} is not an array of numbers ({error}); give numbers"
        ) from error
    kind = array.dtype.kind
    if kind == "c":
        pairs: Any = np.stack([array.real, array.imag], -1)
        return pairs
    if kind in "US":
        raise DataError(
            f"data {name} holds text, but a data block holds numbers; for a table, give "
            "pandas.DataFrame(...)"
        )
    if kind not in "biuf":
        raise DataError(f"data {name} holds {array.dtype}, not numbers; give numbers")
    if kind == "b":
        return array.astype(np.int64)
    return array


def _design_table(
    table: Table, declared: Declaration, blocks: Blocks, names: Mapping[str, str]
) -> Table:
    """Set the observed columns of a table, even missing ones, to 0 or a lower bound above 0.

    If no column is declared for the observed variable, the column with the variable's name is used.
    A column of two outcomes is set to the first. A column of labels, such as ordered ratings, is
    left as it is.
    """
    observed = declared.roles.observed
    if observed not in blocks.data:
        return table
    if declared.prediction is not None and simulated(declared.prediction.response) is not None:
        return table  # simulated data need the responses, which are times of censoring
    source = declared.data.get(observed, Column(column=observed))
    if isinstance(source, Counts):
        return table  # their totals are part of the design
    value: Any = max(_smallest(blocks.data[observed]), getattr(source, "lower", None) or 0.0)
    if isinstance(source, Column) and source.outcomes:
        value = source.outcomes[0]
    cells = np.full(len(table), value)
    return table.with_cells({names.get(column, column): cells for column in source.numbers})


def _design_block(data: Data, blocks: Blocks) -> Data:
    """Set the observed values of a data block, even missing ones, to 0 or a lower bound above 0.

    Raises
    ------
    DataError
        If a size of the variable is unknown: it is neither a number nor in the data, and the
        variable is missing or has too few dimensions.
    """
    name = data.declaration.roles.observed
    if name not in blocks.data:
        return data
    variable = blocks.data[name]
    sizes = list[int]()
    if name in data.values:
        sizes = list(np.shape(data[name]))
    for size in variable.sizes[len(sizes) :]:
        try:
            sizes.append(int(data.values.get(size, size)))
        except (TypeError, ValueError):
            remedy = f"add {name} to the data"
            if name in data.values:
                remedy = f"give {name} {variable.ndim} dimensions"
            elif size.isidentifier():
                remedy = f"add {size} or {name} to the data"
            raise DataError(
                f"{data.source or 'the data'}: the size {size} of {name} is not known; {remedy}"
            ) from None
    values: NDArray[Any] = np.full(sizes, _smallest(variable))
    if variable.is_int:
        values = values.astype(np.int64)
    return replace(data, values={**data.values, name: values})


def _smallest(variable: Variable) -> float:
    """Return 0, or the lower bound if it is above 0."""
    return max(0.0, variable.lowest or 0.0)


def check_shapes(values: Mapping[str, Any], declared: Declared, source: str, program: str) -> None:
    """Reject a value whose shape or index contradicts the program's declaration.

    Parameters
    ----------
    values : mapping
        The data block.
    declared : mapping of str to Variable
        The declarations of the program. Sizes that are neither numbers nor data are not checked.
    source, program : str
        Origin of the values, and the program, for the message.

    Raises
    ------
    DataError
        If a value does not match; the message names the variable.
    """
    # Engines read values sequentially: a transposed matrix, or a list of lists where a vector is
    # declared, would be accepted as a different value.
    for name, variable in declared.items():
        value = values.get(name)
        is_other = isinstance(value, Mapping) or variable.kind.startswith(("complex", "tuple"))
        if value is None or is_other:
            continue
        try:
            shape = np.shape(value)
        except ValueError as error:
            raise DataError(
                f"{source}: the rows of {name} differ in length; make them equally long"
            ) from error
        if shape == (0,) and variable.ndim:
            continue  # in JSON, an empty array looks like this for any number of dimensions
        if len(shape) != variable.ndim:
            has, wants = (
                _DIMENSIONS.get(n, f"{n} dimensions") for n in (len(shape), variable.ndim)
            )
            raise DataError(
                f"{source}: {name} has {has}, but {program} declares {wants}; correct one of them"
            )
        for i, (has, size) in enumerate(zip(shape, variable.sizes, strict=True), start=1):
            wanted = np.asarray(values.get(size))
            if size.isdecimal():
                wanted = np.asarray(int(size))
            if wanted.ndim == 0 and wanted.dtype.kind in "iu" and has != wanted:
                expected = size
                if not size.isdecimal():
                    expected = f"{size}, which is {wanted}"
                raise DataError(
                    f"{source}: {name} has size {has} in dimension {i}, but {program} declares "
                    f"{expected}; correct one of them"
                )
        most = values.get(variable.upper or "")
        if variable.is_int and variable.lower == "1" and most is not None:
            positions = np.asarray(value)
            beyond = positions[(positions < 1) | (positions > most)]
            if beyond.size:
                raise DataError(
                    f"{source}: {name} holds {beyond.flat[0]}, but {program} declares values from "
                    f"1 to {variable.upper}, which is {most}; correct one of them"
                )


def to_frame(data: Data) -> pd.DataFrame:
    """Return the columns of the table that are used: labels as text, values as numbers."""
    if data.table is None:
        raise DataError(
            "the data are a data block, not a table, so they have no columns; give a table"
        )
    cells = {labels.column: labels.of_rows for labels in data.labels.values()}
    for name in data.table.columns:
        if name not in cells:
            cells[name] = data.table.numbers_or_factor(name)
    return pd.DataFrame({name: cells[name] for name in data.table.columns})
