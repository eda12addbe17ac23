"""Data in any form for a program: a table, a file, a data frame or the data block itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pyflowers.data import Table, from_frame, read_table
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import data as data_block
from pyflowers.programs import placeholders
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Column, Declaration
from pyflowers.programs.inference import complete, dimension_names
from pyflowers.records import recordable

if TYPE_CHECKING:
    from pyflowers.programs.program import Program

TABLE_ROLES = ("group", "time", "value")
"""Short names for columns of the declaration, as in ``--group plot``."""


READING = ("sep", "decimal", "encoding", "time_order")
"""What says how a file is read, beside the columns."""


def read_data(
    program: Program,
    data: Any,
    columns: Mapping[str, str],
    time_order: str,
    reading: Mapping[str, Any],
    *,
    design_only: bool = False,
) -> Data:
    """Take data in any form, see :meth:`.Program.read` and :meth:`.Program.read_design`.

    Parameters
    ----------
    program : Program
        What the data are for.
    data : path, DataFrame, Table, Data, mapping or None
        The data.
    columns : mapping of str to str
        The table's names of the declaration's columns.
    time_order : str
        ``value`` or ``appearance``.
    reading : mapping
        How a file is read, and the table's names of the columns in the roles of
        :data:`TABLE_ROLES`.
    design_only : bool
        Whether to leave the observed values alone.

    Raises
    ------
    DataError
        For anything wrong in the data.
    ConfigError
        If the declaration does not fit program and table.
    """
    if time_order not in ("value", "appearance"):
        raise ConfigError(f"time_order must be value or appearance, was {time_order!r}")
    roles = {role: reading[role] for role in TABLE_ROLES if reading.get(role) is not None}
    reading = {name: how for name, how in reading.items() if name not in TABLE_ROLES}
    # What is no mapping is refused below.
    named = {**columns, **roles} if isinstance(columns, Mapping) else columns or roles
    renamed = _renamed(named)
    of_file = [k for k, v in reading.items() if v is not None]
    given = [*renamed, *of_file, *(["time_order"] if time_order != "value" else [])]
    if isinstance(data, Data):
        if given:
            raise ConfigError(f"{given[0]}: the data have been read already; leave it out")
        return data
    if data is None and program.example is not None:
        data = program.example
    if of_file and isinstance(data, Table | pd.DataFrame):
        raise ConfigError(
            f"{of_file[0]}: it describes a file, and these data are not one; leave it out"
        )
    table = _as_table(data, reading)
    if table is None:
        if given:
            raise ConfigError(
                f"{given[0]}: it describes a table, and {program.name} is given no table; leave "
                "it out"
            )
        block = data_block.from_json(data, program.declaration, program.source.blocks)
        return placeholders.in_block(block, program.source.blocks) if design_only else block
    names = _column_names(program, renamed)
    if design_only:
        table = placeholders.in_table(table, program.declaration, program.source.blocks, names)
    read_by = {*program.declaration.columns, *program.source.blocks.data}
    back = {theirs: name for name, theirs in names.items() if name in read_by}
    known = [back.get(column, column) for column in table.cells]
    declared, dims = dimension_names(program.declaration, program.source.blocks, known)
    declared = complete(declared, program.source.blocks, known, program.declared_in)
    # A column that is asked for by name is missed if it is not there.
    declared = declared.for_columns({dims.get(column, column) for column in (*known, *names)})
    _refuse_unused(program, renamed, declared, dims)
    names = {dim: names.get(column, column) for column, dim in dims.items()} | names
    written = program.declaration.with_labels(dims)
    read = data_block.from_table(table, declared, written, program.source.blocks, names, time_order)
    how = {**reading, "time_order": time_order if time_order != "value" else None}
    return replace(read, reading={k: str(v) for k, v in how.items() if v is not None})


def _column_names(program: Program, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the user's name of each column of the declaration."""
    table = program.declaration.table
    observed = program.declaration.data.get(program.declaration.roles.observed)
    roles = {
        "group": table.group,
        "time": table.time,
        "value": observed.column if isinstance(observed, Column) else "",
    }
    names = {}
    for key, theirs in renamed.items():
        if key in roles and not roles[key]:
            raise ConfigError(
                f"{key}: {program.name} declares no column in that role; leave --{key} out, or "
                f"declare it in {program.declared_in}"
            )
        names[roles.get(key) or key] = theirs
    return names


def _refuse_unused(
    program: Program, renamed: Mapping[str, str], declared: Declaration, dims: Mapping[str, str]
) -> None:
    columns = {dim: column for column, dim in dims.items()}
    for key in renamed:
        if not {key, dims.get(key, key)} & {*TABLE_ROLES, *declared.columns}:
            have = ", ".join(columns.get(column, column) for column in declared.columns)
            raise ConfigError(f"column {key}: {program.name} reads {have}")


def _renamed(columns: Any) -> dict[str, str]:
    """Return the names of columns that are given."""
    if not isinstance(columns, Mapping | None):
        raise ConfigError(
            f"columns: a {type(columns).__name__} is not a mapping of names, such as "
            '{"plant": "Beet"}'
        )
    given = {key: name for key, name in (columns or {}).items() if name is not None}
    for key, name in given.items():
        if not (isinstance(key, str) and isinstance(name, str)):
            raise ConfigError(f"{key}: the name of a column is text, and {name!r} is not")
    return given


def _as_table(data: Any, reading: Mapping[str, Any]) -> Table | None:
    """Return data as a table; None for a data block, or for nothing."""
    if isinstance(data, Table):
        return data
    if isinstance(data, pd.DataFrame):
        return from_frame(data)
    if data is None or isinstance(data, Mapping):
        return None
    if not isinstance(data, str | Path):
        raise DataError(
            f"data: a {type(data).__name__} is not a table; give a file, a DataFrame or a mapping"
        )
    path = recordable(data, "data", DataError)
    if path.suffix.lower() == ".json" and not _holds_records(path):
        return None
    return read_table(path, **reading)


def _holds_records(path: Path) -> bool:
    """Whether a JSON file begins as a list, which a table of records is."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            start = file.read(4096).lstrip()
    except OSError:
        return False
    return start.startswith("[")
