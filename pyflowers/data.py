"""A table in, validated and labelled :class:`FlowerData` out.

A table is tidy: one row for each observation, a column for the group (plant), one for the time
(month) and one for the value (flowers). Labels are kept as written and in order of appearance.
Everything that can be wrong with a table by itself is found here; what a particular model asks of
its data (counts, enough months) is found in :mod:`pyflowers.models`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.errors import DataError


class Columns(NamedTuple):
    """The names of a table's columns, as the user wrote them."""

    group: str = "plant"
    time: str = "month"
    value: str = "flowers"


@dataclass(frozen=True, eq=False)
class FlowerData:
    """Repeated counts or measurements in groups.

    Attributes
    ----------
    y : array, shape (N,)
        Flowers of each observation, in the order of the rows.
    plant, month : array of int, shape (N,)
        Position of each observation's plant in `plants` and of its month in `months`.
    plants, months : tuple of str
        Labels as written, in order of appearance.
    columns : Columns
        What the user calls group, time and value.
    source : str
        Where the table came from, for messages.
    rows : array of int, shape (N,)
        Row numbers in `source`, as a spreadsheet counts them.
    """

    y: NDArray[np.float64]
    plant: NDArray[np.int64]
    month: NDArray[np.int64]
    plants: tuple[str, ...]
    months: tuple[str, ...]
    columns: Columns
    source: str
    rows: NDArray[np.int64]

    @property
    def num_obs(self) -> int:
        """Number of observations, N."""
        return len(self.y)

    @property
    def num_plants(self) -> int:
        """Number of plants, P."""
        return len(self.plants)

    @property
    def months_per_plant(self) -> NDArray[np.int64]:
        """Observations of each plant, shape (P,)."""
        return np.bincount(self.plant, minlength=self.num_plants)

    @property
    def constant_plants(self) -> NDArray[np.bool_]:
        """Whether all observations of a plant are equal, shape (P,)."""
        low = np.full(self.num_plants, np.inf)
        high = np.full(self.num_plants, -np.inf)
        np.minimum.at(low, self.plant, self.y)
        np.maximum.at(high, self.plant, self.y)
        return np.asarray(low == high)

    @property
    def sha256(self) -> str:
        """A digest of labels and values, independent of the file's format."""
        digest = hashlib.sha256()
        for part in (self.columns, self.plants, self.months):
            digest.update("\x1f".join(part).encode() + b"\x1e")
        for array in (self.plant, self.month, self.y):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def where(self, index: int) -> str:
        """Say where observation `index` stands: file and row."""
        return f"{self.source}, row {self.rows[index]}"

    def to_frame(self) -> pd.DataFrame:
        """Return the observations as a tidy table with the user's column names."""
        return pd.DataFrame(
            {
                self.columns.group: np.asarray(self.plants, dtype=object)[self.plant],
                self.columns.time: np.asarray(self.months, dtype=object)[self.month],
                self.columns.value: self.y,
            }
        )


def read_data(
    path: str | Path, *, group: str = "plant", time: str = "month", value: str = "flowers"
) -> FlowerData:
    """Read a tidy table from a CSV, TSV, JSON (records) or Parquet file.

    Parameters
    ----------
    path : str or Path
        The file; its ending says its format.
    group, time, value : str
        Names of the columns.

    Raises
    ------
    DataError
        With one sentence that names file, row and column, for anything wrong in the file.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise DataError(f"{path}: cannot tell the format; use .csv, .tsv, .json or .parquet")
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path")
    try:
        table, rows = _READERS[suffix](path)
    except DataError:
        raise
    except (OSError, UnicodeError, ValueError, TypeError) as error:
        # pandas' parser errors are ValueErrors; its first line names the row.
        detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{path}: cannot be read as {suffix[1:].upper()}: {detail}") from error
    return _from_table(table, Columns(group, time, value), str(path), rows)


def from_frame(
    frame: pd.DataFrame, *, group: str = "plant", time: str = "month", value: str = "flowers"
) -> FlowerData:
    """Take a tidy table from a data frame; rows are numbered from 1 in messages.

    Raises
    ------
    DataError
        With one sentence that names row and column, for anything wrong in the table.
    """
    return _from_table(frame, Columns(group, time, value), "the data frame", _count(frame))


def _read_delimited(path: Path, separator: str) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Read all cells as text, so that labels stay as written; the header is row 1."""
    try:
        cells = pd.read_csv(
            path,
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            skip_blank_lines=False,
            encoding="utf-8-sig",
        )
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path}: the file is empty; a header and one row are needed") from error
    header = [str(name) for name in cells.iloc[0]]
    repeated = {name for name in header if header.count(name) > 1 and name}
    if repeated:
        raise DataError(f"{path}, row 1: column {sorted(repeated)[0]!r} stands twice; rename one")
    table = cells.iloc[1:].fillna("")
    table.columns = pd.Index(header)
    # Blank lines, at the end most often, are no observations; row numbers stay those of the file.
    table = table[~(table == "").all(axis=1)]
    return table, np.asarray(table.index, dtype=np.int64) + 1


def _read_json(path: Path) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    import json

    records = json.loads(path.read_text(encoding="utf-8-sig"))
    if not (isinstance(records, list) and all(isinstance(r, dict) for r in records)):
        example = '[{"plant": "a", "month": 1, "flowers": 4}]'
        raise DataError(f"{path}: JSON must hold a list of records, such as {example}")
    table = pd.DataFrame(records, dtype=object)
    return table, _count(table)


def _read_parquet(path: Path) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{path}: Parquet needs pyarrow; install it with pip install 'pyflowers[parquet]'"
        ) from error
    table = pd.read_parquet(path)
    return table, _count(table)


def _count(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return row numbers, from 1, for a table that has none of its own."""
    return np.arange(1, len(table) + 1, dtype=np.int64)


_Reader = Callable[[Path], tuple[pd.DataFrame, NDArray[np.int64]]]
_READERS: dict[str, _Reader] = {
    ".csv": lambda path: _read_delimited(path, ","),
    ".tsv": lambda path: _read_delimited(path, "\t"),
    ".tab": lambda path: _read_delimited(path, "\t"),
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def _from_table(
    table: pd.DataFrame, columns: Columns, source: str, rows: NDArray[np.int64]
) -> FlowerData:
    """Validate a table cell by cell and encode its labels."""
    for name in columns:
        if name not in table.columns:
            have = ", ".join(map(str, table.columns))
            raise DataError(f"{source}: there is no column {name!r}; the columns are {have}")
    if len(set(columns)) < len(columns):
        raise DataError(f"{source}: group, time and value must be three columns, got {columns}")
    if table.empty:
        raise DataError(f"{source}: there are no rows below the header; add observations")
    plants = _labels(table[columns.group], columns.group, source, rows)
    months = _labels(table[columns.time], columns.time, source, rows)
    y = _numbers(table[columns.value], columns.value, source, rows)
    plant, plant_labels = pd.factorize(plants)
    month, month_labels = pd.factorize(months)
    data = FlowerData(
        y=y,
        plant=plant.astype(np.int64),
        month=month.astype(np.int64),
        plants=tuple(plant_labels),
        months=tuple(month_labels),
        columns=columns,
        source=source,
        rows=rows,
    )
    _check_pairs(data)
    return data


def _labels(cells: pd.Series[Any], column: str, source: str, rows: NDArray[np.int64]) -> Any:
    """Return labels as text, or say which cell is blank."""
    missing = cells.isna()
    text = cells.astype(object).where(~missing, "").map(str)
    blank = np.flatnonzero(text.str.strip() == "")
    if blank.size:
        raise DataError(f"{source}, row {rows[blank[0]]}: {column} is blank; give it a label")
    return text.to_numpy(dtype=object)


def _numbers(
    cells: pd.Series[Any], column: str, source: str, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return values as finite numbers, or say which cell is none."""
    booleans = cells.map(lambda cell: isinstance(cell, (bool, np.bool_)))
    numeric = pd.to_numeric(cells.mask(booleans), errors="coerce")
    values = np.asarray(numeric, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        cell = cells.iloc[bad[0]]
        text = "" if cell is None else str(cell).strip()
        said = f"{column} is {text!r}, not a finite number" if text else f"{column} is blank"
        raise DataError(f"{source}, row {rows[bad[0]]}: {said}; correct it or remove the row")
    return values


def _check_pairs(data: FlowerData) -> None:
    """Refuse a plant that has the same month twice."""
    pair = data.plant * len(data.months) + data.month
    first = np.unique(pair, return_index=True)[1]
    if first.size == pair.size:
        return
    again = int(np.setdiff1d(np.arange(pair.size), first)[0])
    before = int(np.flatnonzero(pair == pair[again])[0])
    group, time = data.columns.group, data.columns.time
    raise DataError(
        f"{data.where(again)}: {group} {data.plants[data.plant[again]]!r} already has {time} "
        f"{data.months[data.month[again]]!r} in row {data.rows[before]}; remove one of them"
    )
