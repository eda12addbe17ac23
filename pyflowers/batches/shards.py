"""Tables of many tasks in one netCDF file, written whole and renamed.

A shard has the coordinate ``task``, the keys of its tasks, and a group for each table: its rows are
those of all tasks, one after another, with the position of their task in ``task_index``. Texts are
written once each and referred to by number. Tasks whose tables have other columns have a group of
their own.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.batches.keep import Columns
from pyflowers.errors import DataError
from pyflowers.records import storable_text

FOLDER = "shards"
_PART = ".part"
_ROW, _TASK, _INDEX, _TABLE = "row", "task", "task_index", "table"


def write(folder: Path, number: int, tables: Mapping[str, Mapping[str, Columns]]) -> str:
    """Write the tables of some tasks, and return the file's name.

    Parameters
    ----------
    folder : Path
        Where shards are.
    number : int
        Of the shard; with a random part after it, so that a name is never used twice.
    tables : mapping of str to mapping
        For each key its tables by name.

    Raises
    ------
    OSError
        If it cannot be written; then nothing of it is left.
    """
    name = f"{number:06d}-{secrets.token_hex(4)}.nc"
    part = folder / f"{name}{_PART}"
    # In memory first: writing HDF5 straight to a full disk can end the process.
    raw = _encoded(tables)
    try:
        with part.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        part.rename(folder / name)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync(folder)
    return name


def sync(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear(folder: Path, known: Iterable[str]) -> None:
    """Remove what a killed client left: shards that the ledger does not know."""
    listed = set(known)
    for path in folder.iterdir():
        is_ours = path.name.endswith((".nc", f".nc{_PART}"))
        if is_ours and path.name not in listed:
            path.unlink()


def read(path: Path, table: str) -> Iterator[pd.DataFrame]:
    """Yield one table of a shard: frames with a column ``key``, one for each set of columns.

    Raises
    ------
    DataError
        If the shard is missing or damaged.
    """
    import h5netcdf

    try:
        with h5netcdf.File(path, "r") as file:
            keys = _texts(file.variables[_TASK])
            for group in file.groups.values():
                if group.attrs[_TABLE] == table:
                    yield _frame(group, keys)
    except (OSError, KeyError, ValueError, RuntimeError, AttributeError) as error:
        raise DataError(
            f"{path}: it cannot be read ({error}); remove it from the batch with its tasks, or run "
            "the batch in a new folder"
        ) from error


def _encoded(tables: Mapping[str, Mapping[str, Columns]]) -> bytes:
    import h5netcdf

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        keys = list(tables)
        file.dimensions[_TASK] = len(keys)
        _put_texts(file, _TASK, (_TASK,), keys)
        for i, ((table, _), parts) in enumerate(_alike(tables).items()):
            group = file.create_group(f"{table}_{i}")
            group.attrs[_TABLE] = table
            _put_table(group, parts)
    return buffer.getvalue()


def _alike(
    tables: Mapping[str, Mapping[str, Columns]],
) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, Columns]]]:
    """Gather tables of the same name, columns and kinds of values."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, Columns]]] = {}
    for index, of_task in enumerate(tables.values()):
        for name, columns in of_task.items():
            kinds = tuple((column, values.dtype.kind) for column, values in columns.items())
            found.setdefault((name, kinds), []).append((index, columns))
    return found


def _put_table(group: Any, parts: list[tuple[int, Columns]]) -> None:
    rows = [len(next(iter(columns.values()), ())) for _, columns in parts]
    group.dimensions[_ROW] = sum(rows)
    index = np.repeat([index for index, _ in parts], rows).astype("i4")
    group.create_variable(_INDEX, (_ROW,), data=index)
    for i, name in enumerate(parts[0][1]):
        values = np.concatenate([columns[name] for _, columns in parts])
        # A column may be called anything; a variable may not.
        variable = f"column_{i}"
        if values.dtype == object:
            codes, texts = pd.factorize(values)
            group.dimensions[f"{variable}_text"] = len(texts)
            _put_texts(group, f"{variable}_text", (f"{variable}_text",), list(texts))
            values = codes.astype("i4")
        made = group.create_variable(variable, (_ROW,), data=_storable(values))
        made.attrs["name"] = storable_text(name)
        made.attrs["kind"] = parts[0][1][name].dtype.kind


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype("i1") if values.dtype == bool else values


def _put_texts(group: Any, name: str, dims: tuple[str, ...], texts: list[str]) -> None:
    import h5py

    data = np.array([storable_text(text).encode() for text in texts], dtype=object)
    group.create_variable(name, dims, dtype=h5py.string_dtype(), data=data)


def _texts(variable: Any) -> NDArray[Any]:
    values = [v.decode() if isinstance(v, bytes) else v for v in variable[:]]
    return np.array(values, dtype=object)


def _frame(group: Any, keys: NDArray[Any]) -> pd.DataFrame:
    columns: dict[str, NDArray[Any]] = {"key": keys[group.variables[_INDEX][:]]}
    i = 0
    while f"column_{i}" in group.variables:
        variable = group.variables[f"column_{i}"]
        values, kind = variable[:], variable.attrs["kind"]
        if kind == "O":
            values = _texts(group.variables[f"column_{i}_text"])[values]
        columns[variable.attrs["name"]] = values.astype(bool) if kind == "b" else values
        i += 1
    return pd.DataFrame(columns)
