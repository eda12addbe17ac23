"""Cells as text, as numbers, and in order."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UNFIT = re.compile("[\0\ud800-\udfff]")
"""What netCDF does not keep: NUL, and halves of characters, which are no text."""

COMMA_NUMBER = re.compile(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?([eE][-+]?\d+)?\s*")


def decimal_point(cell: Any) -> Any:
    """Write a number with a decimal comma as Python does; anything else stays as it is."""
    if isinstance(cell, str) and COMMA_NUMBER.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell


def text_of(cells: pd.Series[Any]) -> NDArray[Any]:
    """Return cells as text, dates without a time of midnight that was never written."""
    kind = pd.api.types.infer_dtype(cells, skipna=False)
    if kind == "string":
        return cells.to_numpy(dtype=object)
    if kind in ("datetime", "datetime64", "date"):
        stamps = pd.to_datetime(cells)
        if (stamps == stamps.dt.normalize()).all():
            return stamps.dt.date.map(str).to_numpy(dtype=object)
    return np.asarray([str(cell) for cell in cells], dtype=object)


def is_plain(text: str) -> bool:
    """Whether a number is written as it usually is, so that its value says its text."""
    if text.isdecimal() and text.isascii() and len(text) <= 15:
        return text[0] != "0" or text == "0"
    try:
        return f"{float(text):.15g}" == text
    except ValueError:
        return False


def distinct(cells: pd.Series[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return each cell's number, and the different cells' texts in order of appearance.

    A missing cell's text is empty.
    """
    missing = cells.isna()
    if missing.any():
        cells = cells.where(~missing, "")
    if pd.api.types.infer_dtype(cells, skipna=False) in ("string", "integer"):
        # Those that are equal have equal texts, which are fewer to make than one for each cell.
        codes, found = pd.factorize(cells)
        texts = text_of(pd.Series(found, dtype=object))
    else:
        codes, texts = pd.factorize(text_of(cells))
    return np.asarray(codes, dtype=np.int64), [str(text) for text in texts]


def to_numbers(cells: pd.Series[Any]) -> NDArray[np.float64]:
    """Return cells as numbers; others, also truth values, dates and complex numbers, are NaN."""
    kind = pd.api.types.infer_dtype(cells, skipna=False)
    if kind in ("integer", "floating"):
        with suppress(OverflowError):  # of a whole number beyond all floating-point numbers
            return cells.to_numpy(dtype=np.float64)
    not_numbers = (
        bool,
        np.bool_,
        complex,
        np.complexfloating,
        pd.Timestamp,
        pd.Timedelta,
        np.datetime64,
        np.timedelta64,
        bytes,
        list,
        dict,
    )
    if kind != "string":
        cells = cells.mask(cells.map(_is_too_large))
        cells = cells.mask(cells.map(lambda cell: isinstance(cell, not_numbers)))
    return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=np.float64)


def _is_too_large(cell: Any) -> bool:
    """Whether a whole number is beyond all floating-point numbers."""
    return isinstance(cell, int) and abs(cell) > sys.float_info.max


def quoted(text: str) -> str:
    """Return a cell for a message, its end left out if it is long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


_NUMBERED = re.compile(r"([^0-9]*)0*([0-9]+)([^0-9]*)")


def sort_key(names: tuple[str, ...]) -> list[Any] | None:
    """Return what orders labels by value: numbers, ISO dates or labels numbered alike."""
    numbers = to_numbers(pd.Series(names, dtype=object))
    if np.isfinite(numbers).all():
        return list(numbers)
    if all(re.fullmatch(r"\d{4}-\d{2}(-\d{2})?([ T].*)?", name) for name in names):
        return list(names)
    parts = [_NUMBERED.fullmatch(name) for name in names]
    if all(parts) and len({(p[1], p[3]) for p in parts if p}) == 1:
        # Of more digits than Python makes a number of, too.
        return [(len(p[2]), p[2]) for p in parts if p]
    return None


def other_separator(header: str) -> str:
    """Ask for the separator that a header has."""
    for separator, name in ((";", "--sep ';'"), ("\t", "--sep tab"), ("|", "--sep '|'")):
        if separator in header:
            return f" (is {separator!r} the separator? then add {name})"
    return ""
