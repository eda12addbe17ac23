"""A column as labels, and the order of labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.data.columns import to_numbers

_ISO_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?")
_DURATION = re.compile(r"-?\d+ days( [+-]?\d+:\d{2}:\d{2}.*)?")
_NUMBERED = re.compile(r"([^0-9]*)0*([0-9]+)([^0-9]*)")


@dataclass(frozen=True, eq=False)
class Labels:
    """A column as labels.

    Attributes
    ----------
    column : str
        The column's name, as the user wrote it.
    names : tuple of str
        The distinct labels.
    codes : array of int, shape (N,)
        Position of each row's label in `names`.
    """

    column: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows with each label, shape (len(self),)."""
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def of_rows(self) -> NDArray[Any]:
        """The label of each row, shape (N,)."""
        return np.asarray(self.names, dtype=object)[self.codes]

    def first_of_each(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the value of each label's first row, and the rows that differ from it."""
        chosen = values[np.unique(self.codes, return_index=True)[1]]
        return chosen, np.flatnonzero(values != chosen[self.codes])

    def at(self, rows: NDArray[np.int64]) -> Labels:
        """Return the labels of some rows; labels that none of these rows has are left out."""
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        return Labels(self.column, tuple(self.names[i] for i in present), codes)

    @property
    def are_titles(self) -> bool:
        """Whether the labels can be understood without the column's name before them.

        This is so if a label begins with the name of the column, such as ``Beet 3`` in the column
        ``Beet``: ``Beet Beet 3`` would look like another label.
        """
        return any(name.casefold().startswith(self.column.casefold()) for name in self.names)


def shared(columns: Sequence[Labels]) -> list[Labels]:
    """Return the columns with codes that refer to one set of labels, in order of appearance."""
    names = tuple(dict.fromkeys(name for each in columns for name in each.names))
    place = {name: i for i, name in enumerate(names)}
    return [
        Labels(each.column, names, np.array([place[name] for name in each.names])[each.codes])
        for each in columns
    ]


def rows_before(
    num: int, times: Labels | None = None, series: Labels | None = None
) -> tuple[NDArray[np.int64], int]:
    """Return each row's predecessor in its series, and the first row with a repeated time.

    Parameters
    ----------
    num : int
        The number of rows.
    times : Labels, optional
        The times: numbers, dates or numbered labels. Default: the order of the rows.
    series : Labels, optional
        The series of each row. Default: all rows are one series.

    Returns
    -------
    rows : array of int, shape (num,)
        The position of each row's predecessor, from 0; for the first row of a series, its own.
    repeated : int
        The first row that has the same time as another row of its series; -1 if there is none.
    """
    when, own = np.arange(num, dtype=float), np.zeros(num, dtype=np.int64)
    if series is not None:
        own = series.codes
    if times is not None:
        keys = sort_key(times.names)
        assert keys is not None  # times have an order
        rank = {key: i for i, key in enumerate(sorted(set(keys)))}
        when = np.array([rank[key] for key in keys])[times.codes]
    order = np.lexsort((when, own))
    later, before = order[1:], order[:-1]
    is_same = own[later] == own[before]
    rows = np.arange(num)
    rows[later[is_same]] = before[is_same]
    repeated = later[is_same & (when[later] == when[before])]
    return rows, int(repeated.min(initial=num)) if repeated.size else -1


def _are_dates(names: Sequence[str]) -> bool:
    """Whether labels are all ISO dates."""
    return all(map(_ISO_DATE.fullmatch, names))


def times_in(names: Sequence[str]) -> tuple[str, str]:
    """Return the kind of times that labels are, and a number to use instead; empty if neither."""
    if _are_dates(names):
        return "dates", "the number of days since the first date"
    if all(map(_DURATION.fullmatch, names)):
        return "durations", "the number of days"
    return "", ""


def has_order(names: Sequence[str]) -> bool:
    """Whether labels can be ordered by value: numbers, dates, or labels numbered alike."""
    return sort_key(names) is not None


def sort_key(names: Sequence[str]) -> Sequence[Any] | None:
    """Return keys that sort names by value; None if they have no such order."""
    numbers = to_numbers(np.array(names, dtype=object))
    if np.isfinite(numbers).all():
        return list(numbers)
    if _are_dates(names):
        return names
    parts = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    if len(parts) == len(names) and len({(part[1], part[3]) for part in parts}) == 1:
        # Compare digits by length and then as text, because Python does not convert numbers with
        # very many digits.
        return [(len(part[2]), part[2]) for part in parts]
    return None
