"""Tables from data frames, and from cells that are read already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data.observations import Table
from pyflowers.errors import DataError


def from_frame(frame: pd.DataFrame) -> Table:
    """Take a tidy table from a data frame; rows are numbered from 1 in messages.

    Raises
    ------
    DataError
        If two columns have one name, or there are no rows.
    """
    names = [str(name) for name in frame.columns]
    repeated = sorted(name for name, num in Counter(names).items() if num > 1)
    if repeated:
        raise DataError(f"the data frame: column {repeated[0]!r} appears twice; rename one")
    cells = {name: _dense(frame.iloc[:, i]) for i, name in enumerate(names)}
    return observed(cells, "the data frame", row_numbers(len(frame)))


def _dense(column: pd.Series[Any]) -> NDArray[Any]:
    return np.asarray(column.astype(object), dtype=object)


def observed(
    cells: Mapping[str, NDArray[Any]], source: str, rows: NDArray[np.int64], decimal: str = "."
) -> Table:
    """Return a table of cells.

    Raises
    ------
    DataError
        If there are no rows.
    """
    if not rows.size:
        raise DataError(f"{source}: there are no rows below the header; add observations")
    return Table(cells, source, rows, decimal=decimal)


def row_numbers(num: int) -> NDArray[np.int64]:
    """Return row numbers, from 1, for a table that has none of its own."""
    return np.arange(1, num + 1, dtype=np.int64)
