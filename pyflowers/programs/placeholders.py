"""A design without its observations: the smallest values that they may have, in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pyflowers.data import Table
from pyflowers.errors import DataError
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Column, Columns, Declaration
from pyflowers.programs.source import Blocks, Variable


def in_table(
    table: Table, declared: Declaration, blocks: Blocks, names: Mapping[str, str]
) -> Table:
    """Return a table whose observed columns, there or not, hold the smallest value allowed.

    Parameters
    ----------
    table : Table
        The design.
    declared : Declaration
        Which columns are observed; without a word on it, the one of the variable's name.
    blocks : Blocks
        What the program declares.
    names : mapping of str to str
        The table's names of the declaration's columns.
    """
    observed = declared.roles.observed
    if observed not in blocks.data:
        return table
    source = declared.data.get(observed, Column(column=observed))
    if isinstance(source, Column):
        columns: tuple[str, ...] = (source.column,)
    else:
        columns = source.columns if isinstance(source, Columns) else ()
    value = _smallest(blocks.data[observed])
    if isinstance(source, Column) and source.lower is not None:
        value = max(value, source.lower)
    cells = np.full(len(table), value, dtype=object)
    return replace(
        table, cells={**table.cells, **{names.get(name, name): cells for name in columns}}
    )


def in_block(data: Data, blocks: Blocks) -> Data:
    """Return a data block whose observed variable, there or not, holds the smallest value allowed.

    Raises
    ------
    DataError
        If the variable is not there and its size cannot be told.
    """
    name = data.declaration.roles.observed
    if name not in blocks.data:
        return data
    variable = blocks.data[name]
    if name in data.values:
        shape = np.shape(data[name])
    else:
        shape = tuple(_size(size, name, data) for size in variable.sizes)
    kind = np.int64 if variable.is_int else np.float64
    values = np.full(shape, _smallest(variable), dtype=kind)
    return replace(data, values={**data.values, name: values}, observed=name)


def _size(text: str, name: str, data: Data) -> int:
    value = data.values.get(text, text)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise DataError(
            f"{data.source or 'the data'}: the size {text} of {name} is not known; add {text} to "
            "the data"
        ) from None


def _smallest(variable: Variable) -> float:
    """Return 0, or the bound next to it."""
    try:
        return max(0.0, float(variable.lower or 0))
    except ValueError:
        return 0.0
