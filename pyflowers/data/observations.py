"""Observations by row: every cell that is wrong is named by source, row and column."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data.cells import (
    COMMA_NUMBER,
    UNFIT,
    decimal_point,
    distinct,
    other_separator,
    quoted,
    sort_key,
    text_of,
    to_numbers,
)
from pyflowers.data.labels import Labels
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import DataError

LARGEST_INT = 2**31 - 1
"""The largest value that a Stan ``int`` holds."""

_MISSING = {"", "na", "n/a", "nan", "<na>", "none", "null"}
"""What R, pandas, databases and spreadsheets write where there is no value."""


@dataclass(frozen=True, eq=False, repr=False)
class Table(Shown):
    """Observations by row, cells as they were read.

    Attributes
    ----------
    cells : mapping of str to array, shape (N,)
        Each column; text as text.
    source : str
        Where it came from, for messages: a path, or ``the data frame``.
    rows : array of int, shape (N,)
        Row numbers in `source`, as a spreadsheet counts them.
    notes : list of str
        What a reader should know of how the cells were taken.
    decimal : str
        The decimal mark of numbers that are text.
    """

    cells: Mapping[str, NDArray[Any]]
    source: str
    rows: NDArray[np.int64]
    notes: list[str] = field(default_factory=list)
    decimal: str = "."

    def contents(self) -> list[Line]:
        """Return the rows as they were read, and how the cells were taken."""
        cells = {str(name): list(map(str, values)) for name, values in self.cells.items()}
        return [
            heading(self.source, f"{len(self)} rows"),
            pd.DataFrame(cells, index=pd.Index(self.rows, name="row")),
            *(f"note: {note}" for note in self.notes),
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, row: int) -> str:
        """Say where row `row`, from 0, is: source and row number."""
        return f"{self.source}, row {self.rows[row]}"

    def column(self, name: str) -> pd.Series[Any]:
        """Return a column.

        Raises
        ------
        DataError
            If there is no column of that name.
        """
        if name not in self.cells:
            have = ", ".join(map(str, self.cells))
            raise DataError(
                f"{self.source}: there is no column {name!r}; the columns are {have}{self._hint()}"
            )
        return pd.Series(self.cells[name], dtype=object)

    def labels(self, name: str, *, order: str = "appearance", order_asked: bool = True) -> Labels:
        """Return a column as labels.

        Parameters
        ----------
        name : str
            The column.
        order : str
            ``appearance``: in order of the rows; ``value``: numbers, dates and numbered labels by
            value, others by appearance.
        order_asked : bool
            Whether to note that there is no order by value.

        Raises
        ------
        DataError
            If a cell is blank, or no file could keep it.
        """
        codes, texts = distinct(self.column(name))
        for code, text in enumerate(texts):
            is_blank = not text.strip()
            if is_blank or UNFIT.search(text):
                wrong = (
                    "blank; give it a label"
                    if is_blank
                    else f"{quoted(text)}, with a character that cannot be saved; give it another "
                    "label"
                )
                row = int(np.argmax(codes == code))
                raise DataError(f"{self.where(row)}: {name} is {wrong}")
        names = tuple(texts)
        self._note_lookalikes(name, names)
        if order == "value":
            key = sort_key(names)
            if key is None and order_asked:
                self._note(
                    f"{self.source}: the {name} labels are in order of appearance, since they "
                    "are neither numbers nor dates nor all numbered in the same way"
                )
            if key is not None:
                by_value = sorted(range(len(names)), key=key.__getitem__)
                position = np.empty(len(names), dtype=np.int64)
                position[by_value] = np.arange(len(names))
                names, codes = tuple(names[i] for i in by_value), position[codes]
        return Labels(name, names, codes)

    def numbers(
        self,
        name: str,
        *,
        whole: bool = False,
        lower: float | None = None,
        if_missing: str = "fill it in",
        if_text: str = "make it numbers",
    ) -> NDArray[np.float64]:
        """Return a column as finite numbers, shape (N,).

        Parameters
        ----------
        name : str
            The column.
        whole : bool
            Whether they must be whole numbers that Stan's int holds.
        lower : float, optional
            The smallest that they may be.
        if_missing, if_text : str
            For the messages, what to do about a cell without a value, and about a column of text.

        Raises
        ------
        DataError
            Naming the first cell that is something else.
        """
        cells = self.column(name)
        values = self._numbers_of(cells)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            cell = cells.iloc[bad[0]]
            text = "" if cell is None or cell is pd.NaT else str(cell).strip()
            complaint = (
                f"{name} is {quoted(text)}, not a finite number" if text else f"{name} is blank"
            )
            remedy = "correct it"
            if text.lower() in _MISSING:
                remedy = if_missing
            elif not np.isfinite(values).any():
                remedy = if_text
            if self.decimal == "." and "," in text and COMMA_NUMBER.fullmatch(text):
                remedy = "if the comma is its decimal mark, add --decimal ','"
            raise DataError(f"{self.where(bad[0])}: {complaint}; {remedy}")
        counts = whole and lower == 0
        checks = []
        if lower is not None:
            few = "but counts cannot be negative" if counts else f"but must be at least {lower:g}"
            checks.append((values < lower, few))
        if whole:
            kind = "counts" if counts else "the values"
            checks += [
                (values != np.floor(values), f"but {kind} are whole numbers"),
                (np.abs(values) > LARGEST_INT, f"but Stan holds {kind} up to {LARGEST_INT} only"),
            ]
        for wrong, complaint in checks:
            bad = np.flatnonzero(wrong)
            if bad.size:
                raise DataError(
                    f"{self.where(bad[0])}: {name} is {values[bad[0]]:.15g}, {complaint}; correct "
                    "it or choose another program"
                )
        return values

    def sha256(self, columns: tuple[str, ...], spelled: Collection[str] = ()) -> str:
        """Return a digest of some columns' values, independent of the file's format.

        Numbers count by their values, but in the columns that are `spelled` by their texts: of
        labels ``1.0`` is not ``1``.
        """
        total = hashlib.sha256()
        for name in columns:
            cells = self.column(name)
            values = self._numbers_of(cells)
            total.update(name.encode("utf-8", "surrogatepass") + b"\x1e")
            if name not in spelled and np.isfinite(values).all():
                total.update(values.tobytes())
            else:
                text = "\x1f".join(text_of(cells))
                total.update(text.encode("utf-8", "surrogatepass"))
        return total.hexdigest()

    def only(self, columns: tuple[str, ...]) -> Table:
        """Return the table with some of its columns."""
        cells = {name: self.cells[name] for name in columns}
        return replace(self, cells=cells)

    def refuse_repeats(self, group: Labels, time: Labels, leave: str) -> None:
        """Refuse a group that has the same time twice.

        Parameters
        ----------
        group, time : Labels
            The rows' groups and times.
        leave : str
            What a user does who has no times, for the message.

        Raises
        ------
        DataError
            Naming both rows.
        """
        pair = group.codes * len(time) + time.codes
        first = np.unique(pair, return_index=True)[1]
        if first.size == pair.size:
            return
        again = int(np.setdiff1d(np.arange(pair.size), first)[0])
        before = int(np.flatnonzero(pair == pair[again])[0])
        raise DataError(
            f"{self.where(again)}: {group.column} {group.names[group.codes[again]]!r} already has "
            f"{time.column} {time.names[time.codes[again]]!r} in row {self.rows[before]}; if both "
            f"were observed, {leave} (rows of one {group.column} are then replicates) or name "
            f"with --time a column that numbers the rows of each {group.column}; if one was "
            "entered by mistake, correct it"
        )

    def one_per_label(self, name: str, labels: Labels, **checks: Any) -> NDArray[np.float64]:
        """Return a column that has one value for each label, shape (len(labels),).

        Raises
        ------
        DataError
            If the rows of a label disagree.
        """
        values = self.numbers(name, **checks)
        first = np.full(len(labels), -1, dtype=np.int64)
        first[labels.codes[::-1]] = np.arange(len(values))[::-1]
        chosen = values[first]
        differs = np.flatnonzero(values != chosen[labels.codes])
        if differs.size:
            row = int(differs[0])
            label = labels.names[labels.codes[row]]
            raise DataError(
                f"{self.where(row)}: {name} is {values[row]:.15g} and was "
                f"{chosen[labels.codes[row]]:.15g} for the same {labels.column}, {label!r}; it "
                "must be one value for each"
            )
        return chosen

    def _numbers_of(self, cells: pd.Series[Any]) -> NDArray[np.float64]:
        """Return cells as numbers, NaN where they are not."""
        return to_numbers(cells.map(decimal_point) if self.decimal == "," else cells)

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _note_lookalikes(self, column: str, names: tuple[str, ...]) -> None:
        """Note labels that differ only in capitals, spaces or the coding of accents."""
        variants: dict[str, list[str]] = {}
        for name in names:
            plain = " ".join(unicodedata.normalize("NFC", name).casefold().split())
            variants.setdefault(plain, []).append(repr(name))
        alike = next((found for found in variants.values() if len(found) > 1), None)
        if alike is not None:
            self._note(
                f"{self.source}: {column} {', '.join(alike[:-1])} and {alike[-1]} look alike but "
                "are different labels; if they are the same, write them the same way"
            )

    def _hint(self) -> str:
        """Say what may be wrong when the whole header is one column."""
        return other_separator(next(iter(self.cells))) if len(self.cells) == 1 else ""
