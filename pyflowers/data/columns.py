"""A column of a table: its cells as they were read, and the numbers and texts that they hold.

The text of a cell depends on this cell alone: text stays as it is written, and a number is written
with 15 digits, so 0.1 * 3 is 0.3, and 1.0 is 1.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MISSING = {"", "na", "n/a", "nan", "<na>", "none", "null"}
"""Marks of a missing value in a column of numbers, as in R, pandas, databases and spreadsheets."""

_MISSING_LABEL = {"", "NA", "N/A", "NaN", "<NA>"}
"""Marks of a missing value in a column of labels; not ``None``, which may be a label."""

_TRUTH = {"true": 1.0, "false": 0.0}

COMMA_NUMBER = re.compile(r"\s*[-+]?\d+(,\d*)?([eE][-+]?\d+)?\s*")
POINT_NUMBER = re.compile(r"\s*[-+]?(\d+\.\d*|\.\d+|\d{1,3}(\.\d{3})+(,\d*)?)([eE][-+]?\d+)?\s*")
"""Numbers with a decimal comma, and numbers with decimal points or points between thousands."""

_DECIMAL = re.compile(r"[-+]?\d*\.\d*([eE][-+]?\d+)?")
_MIDNIGHT = re.compile(r"(\d{4}-\d{2}-\d{2})[ T]00:00(:00(\.0+)?)?")


@dataclass(frozen=True, eq=False)
class TypedColumn:
    """The cells of a column, parsed once.

    Attributes
    ----------
    cells : array, shape (N,)
        The cells as they were read; text stays text.
    numbers : array of float, shape (N,)
        The number that each cell holds; NaN for other cells.
    """

    cells: NDArray[Any]
    numbers: NDArray[np.float64]

    @classmethod
    def read(cls, cells: NDArray[Any], decimal: str = ".") -> TypedColumn:
        """Parse the cells of a column; `decimal` is the decimal mark of numbers in text."""
        if cells.dtype.kind in "iuf":
            return cls(cells, np.asarray(cells, dtype=np.float64))
        if decimal == "," and cells.dtype == object:
            pointed = np.array(list(map(decimal_point, cells)), dtype=object)
            return cls(cells, to_numbers(pointed))
        return cls(cells, to_numbers(cells))

    @classmethod
    def of_labels(cls, labels: Collection[str]) -> TypedColumn:
        """Return a column of labels, none of which is a number."""
        return cls(np.array(labels, dtype=object), np.full(len(labels), np.nan))

    def at(self, rows: NDArray[Any]) -> TypedColumn:
        """Return some of the cells."""
        return TypedColumn(self.cells[rows], self.numbers[rows])

    @cached_property
    def coded(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """A code for each cell, and the distinct cells as text in order of appearance.

        The text of a missing cell is empty.
        """
        return _distinct(self.cells)

    @property
    def texts(self) -> NDArray[Any]:
        """The text of each cell, shape (N,)."""
        codes, names = self.coded
        return np.asarray(names, dtype=object)[codes]

    @cached_property
    def lookalikes(self) -> list[list[str]]:
        """The sets of texts that differ only in case, spaces, zeros or the encoding of accents."""
        variants: dict[str, list[str]] = {}
        for name in self.coded[1]:
            plain = " ".join(unicodedata.normalize("NFC", name).casefold().split())
            variants.setdefault(comparable(plain), []).append(name)
        return [alike for alike in variants.values() if len(alike) > 1]

    @cached_property
    def is_mark(self) -> NDArray[np.bool_]:
        """Whether each cell holds, instead of a number, a mark of a missing value."""
        if not np.isnan(self.numbers).any():
            return np.zeros(len(self.cells), dtype=bool)
        codes, names = self.coded
        return np.array([name.strip().lower() in MISSING for name in names])[codes]

    @cached_property
    def holds_labels(self) -> bool:
        """Whether some cell is neither a number nor a mark of a missing value."""
        return bool((np.isnan(self.numbers) & ~self.is_mark).any())

    def is_missing(self, levels: Collection[str] | None) -> NDArray[np.bool_]:
        """Return which cells hold no value; `levels` are the levels if the column is a factor."""
        if levels is None and not self.holds_labels:
            return self.is_mark
        codes, names = self.coded
        marks = _MISSING_LABEL.difference(levels or ())
        return np.array([name.strip() in marks for name in names])[codes]

    @cached_property
    def numbers_or_truth(self) -> NDArray[np.float64]:
        """The number in each cell; in a column of only True and False, these count as 1 and 0."""
        if not np.isnan(self.numbers).all():
            return self.numbers
        codes, names = self.coded
        truth = np.array([_TRUTH.get(name.strip().lower(), np.nan) for name in names])[codes]
        is_other = np.isnan(truth) & ~self.is_missing(None)
        if is_other.any():
            return self.numbers
        return truth


def to_numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers, including those in text, as floats; other cells, such as dates, are NaN."""
    kind = _kind(cells)
    if kind in ("integer", "floating"):
        with suppress(OverflowError):  # an integer may be larger than any floating-point number
            return cells.astype(np.float64)
    if kind != "string":
        cells = cells.astype(object)
        cells[[not _may_be_number(cell) for cell in cells]] = None
    return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=np.float64)


def number_of(text: str) -> float:
    """Return the number that a string represents, or NaN if it represents none."""
    return float(to_numbers(np.array([text], dtype=object))[0])


def decimal_point(cell: Any) -> Any:
    """Rewrite a number with a decimal comma in Python's notation; return other cells unchanged."""
    if isinstance(cell, str) and COMMA_NUMBER.fullmatch(cell):
        return cell.replace(",", ".")
    return cell


def number_text(value: float) -> str:
    """Return a number as a label, with 15 digits, or without a decimal point if it is whole."""
    value = float(value)
    if not value.is_integer():
        return f"{value:.15g}"
    if abs(value) < 2**53:
        return str(int(value))
    return repr(value)


def label_text(cell: Any) -> str:
    """Return a cell as a label; numbers have 15 digits, and a time at midnight becomes a date."""
    if isinstance(cell, str):
        # With more digits, one number could become several labels, as with 0.1 * 3 and 0.3.
        digits = cell.partition("e")[0].partition("E")[0]
        is_long = len(digits) > 15 and _DECIMAL.fullmatch(cell) is not None
        if is_long and any(map(str.isdecimal, cell)):
            return number_text(float(cell))
        return cell
    if isinstance(cell, float | np.floating):
        return number_text(float(cell))
    if isinstance(cell, np.datetime64):
        cell = pd.Timestamp(cell)
    if isinstance(cell, datetime) and cell is not pd.NaT:
        # pandas reads dates as datetimes at midnight.
        if pd.Timestamp(cell).normalize() == cell:
            return str(cell.date())
        return str(cell)
    return str(cell)


def plain_text(text: str) -> str:
    """Return a number as :func:`number_text` writes it, and other text unchanged."""
    try:
        return number_text(float(text))
    except ValueError:
        return text


def comparable(text: str) -> str:
    """Return a text in a form that is the same for equal numbers, truth values and dates.

    Zeros at the end of a decimal fraction, capitals in ``TRUE`` and a time of 00:00:00 do not
    matter; zeros at the beginning do.
    """
    if text.lower() in _TRUTH:
        return text.lower()
    if midnight := _MIDNIGHT.fullmatch(text):
        return midnight[1]
    number = re.fullmatch(r"(-?\d+)(\.\d*?)0*", text)
    if number is None:
        return text
    return number[1] + number[2].removesuffix(".")


def as_written(texts: Collection[str], known: Collection[str]) -> list[str]:
    """Return texts, each replaced by the known text with the same :func:`comparable` form.

    A text that matches no known text, or several, is returned unchanged.
    """
    num = Counter(map(comparable, known))
    written = {comparable(label): label for label in known if num[comparable(label)] == 1}
    return [text if text in known else written.get(comparable(text), text) for text in texts]


def _distinct(cells: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code for each cell, and the distinct cells as text; see `TypedColumn.coded`."""
    cells = np.where(pd.isna(cells), "", cells.astype(object))
    if _kind(cells) not in ("string", "integer", "floating", "datetime", "datetime64"):
        cells = np.array(list(map(label_text, cells)), dtype=object)
    # Format each distinct value once, instead of once per cell.
    codes, found = pd.factorize(cells)
    texts = list(map(label_text, found))
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return np.array([place[text] for text in texts], dtype=np.int64)[codes], tuple(place)


def _kind(cells: NDArray[Any]) -> str:
    return pd.api.types.infer_dtype(cells, skipna=False)


def _may_be_number(cell: Any) -> bool:
    """Whether a cell is text or a number in the range of a double, not a boolean or a duration."""
    if isinstance(cell, int) and abs(cell) > sys.float_info.max:
        return False
    return isinstance(cell, str | Decimal | Real) and not isinstance(cell, bool | np.timedelta64)
