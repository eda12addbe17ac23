"""Observations by row: every cell that is wrong is named by source, row and column."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.display import Line, Shown, heading
from pyflowers.errors import DataError
from pyflowers.records import storable_text

LARGEST_INT = 2**31 - 1
"""The largest value that a Stan ``int`` holds."""

MOST_NAMED = 5
"""Rows with missing values that a message names."""

_MISSING = {"", "na", "n/a", "nan", "<na>", "none", "null"}
"""What R, pandas, databases and spreadsheets write where there is no value."""

_COMMA_NUMBER = re.compile(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?([eE][-+]?\d+)?\s*")
_ISO_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?")
_NUMBERED = re.compile(r"([^0-9]*)0*([0-9]+)([^0-9]*)")


@dataclass(frozen=True, eq=False)
class Labels:
    """A column as labels.

    Attributes
    ----------
    column : str
        Its name, as the user wrote it.
    names : tuple of str
        The different labels.
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
        """Rows of each label, shape (len(self),)."""
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def of_rows(self) -> NDArray[Any]:
        """The label of each row, shape (N,)."""
        return np.asarray(self.names, dtype=object)[self.codes]

    def first_of_each(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the value of each label's first row, and the rows that differ from it."""
        chosen = values[np.unique(self.codes, return_index=True)[1]]
        return chosen, np.flatnonzero(values != chosen[self.codes])

    @property
    def are_titles(self) -> bool:
        """Whether a reader knows what they are without the column's name before them.

        This is so if a label begins with that name, as ``Beet 3`` of ``Beet`` does: with the name
        before it, it would read as another label.
        """
        return any(name.casefold().startswith(self.column.casefold()) for name in self.names)


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
    levels : mapping of str to tuple of str
        The columns that are factors whatever they look like, with their levels in order: those of
        a data frame that are categories, or text although each cell is a number.

    Raises
    ------
    DataError
        If there are no rows.
    """

    cells: Mapping[str, NDArray[Any]]
    source: str
    rows: NDArray[np.int64]
    notes: list[str] = field(default_factory=list)
    decimal: str = "."
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError(f"{self.source}: there are no rows below the header; add observations")

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

    def column(self, name: str) -> NDArray[Any]:
        """Return the cells of a column; of ``a:b``, if there is none, those of both together.

        Raises
        ------
        DataError
            If there is no column of that name.
        """
        parts = name.split(":")
        if name not in self.cells and len(parts) > 1 and self.cells.keys() >= set(parts):
            texts = (_distinct(self.cells[part]) for part in parts)
            columns = [np.asarray(names, dtype=object)[codes] for codes, names in texts]
            return np.array([":".join(row) for row in zip(*columns, strict=True)], dtype=object)
        if name not in self.cells:
            have = ", ".join(map(str, self.cells))
            hint = other_separator(next(iter(self.cells))) if len(self.cells) == 1 else ""
            raise DataError(
                f"{self.source}: there is no column {name!r}; the columns are {have}{hint}"
            )
        return self.cells[name]

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
        codes, names = _distinct(self.column(name))
        for code, text in enumerate(names):
            # A file of draws keeps neither NUL nor halves of characters.
            if not text.strip() or "\0" in text or storable_text(text) != text:
                wrong = (
                    f"{_quoted(text)}, with a character that cannot be saved; give it another label"
                    if text.strip()
                    else "blank; give it a label"
                )
                raise DataError(f"{self.where(int(np.argmax(codes == code)))}: {name} is {wrong}")
        self._note_lookalikes(name, names)
        if order == "value":
            key = _sort_key(names)
            if key is not None:
                by_value = sorted(range(len(names)), key=key.__getitem__)
                names, codes = [names[i] for i in by_value], np.argsort(by_value)[codes]
            elif order_asked:
                self._note(
                    f"{self.source}: the {name} labels are in order of appearance, since they "
                    "are neither numbers nor dates nor all numbered in the same way"
                )
        return Labels(name, tuple(names), codes)

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
        values = self._numbers_of(name)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            cell = self.cells[name][bad[0]]
            text = "" if cell is None or cell is pd.NaT else str(cell).strip()
            complaint = f"is {_quoted(text)}, not a finite number" if text else "is blank"
            remedy = "correct it"
            if text.lower() in _MISSING:
                remedy = if_missing
            elif not np.isfinite(values).any():
                remedy = if_text
            if self.decimal == "." and "," in text and _COMMA_NUMBER.fullmatch(text):
                remedy = "if the comma is its decimal mark, add --decimal ','"
            raise DataError(f"{self.where(bad[0])}: {name} {complaint}; {remedy}")
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
            if wrong.any():
                row = int(np.argmax(wrong))
                raise DataError(
                    f"{self.where(row)}: {name} is {values[row]:.15g}, {complaint}; correct it or "
                    "choose another program"
                )
        return values

    def is_factor(self, name: str) -> bool:
        """Whether a column holds labels: some cell is neither a number nor missing."""
        if name in self.levels:
            return True
        return bool((np.isnan(self._numbers_of(name)) & ~self.is_missing(name)).any())

    def is_missing(self, name: str) -> NDArray[np.bool_]:
        """Tell which cells of a column hold no value, shape (N,)."""
        codes, names = _distinct(self.column(name))
        return np.array([text.strip().lower() in _MISSING for text in names])[codes]

    def numbers_or_factor(self, name: str, levels: Sequence[str] | None = None) -> Any:
        """Return a column as numbers, or, where it holds labels, as a factor.

        Parameters
        ----------
        name : str
            The column.
        levels : sequence of str, optional
            The levels in their order; the column's, sorted, by default.

        Raises
        ------
        DataError
            If a cell is missing or, of a factor, none of the levels.
        """
        missing = np.flatnonzero(self.is_missing(name))
        if missing.size:
            raise DataError(
                f"{self.where(missing[0])}: {name} is missing; fill it in, or leave the row out"
            )
        if not self.is_factor(name):
            return self.numbers(name)
        if not levels and name not in self.levels:
            self._refuse_mixed(name)
        found = self.labels(name)
        known = tuple(levels or self.levels.get(name) or sorted(found.names))
        unknown = next((label for label in found.names if label not in known), None)
        if unknown is not None:
            row = int(np.argmax(found.codes == found.names.index(unknown)))
            raise DataError(
                f"{self.where(row)}: {name} is {unknown!r}, which is none of its levels: "
                f"{', '.join(known)}"
            )
        return pd.Categorical(found.of_rows, categories=list(known))

    def _refuse_mixed(self, name: str) -> None:
        """Refuse a column of numbers in which a few cells are text, as by a slip of the pen."""
        is_text = np.isnan(self._numbers_of(name))
        if 2 * is_text.sum() < len(self):
            row = int(np.argmax(is_text))
            raise DataError(
                f"{self.where(row)}: {name} is {_quoted(str(self.cells[name][row]))}, but most of "
                f"its cells are numbers; correct it, or, if {name} is a factor, make text of the "
                "numbers, such as level1"
            )

    def sha256(self, columns: tuple[str, ...], spelled: Collection[str] = ()) -> str:
        """Return a digest of some columns' values, independent of the file's format.

        Numbers count by their values, but in the columns that are `spelled` by their texts: of
        labels ``1.0`` is not ``1``.
        """
        total = hashlib.sha256()
        for name in columns:
            total.update(name.encode("utf-8", "surrogatepass") + b"\x1e")
            if name not in spelled and np.isfinite(values := self._numbers_of(name)).all():
                total.update(values.tobytes())
            else:
                text = "\x1f".join(_text_of(self.column(name)))
                total.update(text.encode("utf-8", "surrogatepass"))
        return total.hexdigest()

    def only(self, columns: tuple[str, ...]) -> Table:
        """Return the table with some of its columns."""
        return replace(self, cells={name: self.column(name) for name in columns})

    def at(self, rows: NDArray[Any]) -> Table:
        """Return the table with some of its rows, by a mask or by positions."""
        cells = {name: cells[rows] for name, cells in self.cells.items()}
        return replace(self, cells=cells, rows=self.rows[rows], notes=list(self.notes))

    def without_missing(
        self, columns: Collection[str], *, drop: bool, option: str = " with --drop-missing"
    ) -> Table:
        """Return the table without the rows in which a column has no value, and note them.

        Parameters
        ----------
        columns : collection of str
            The columns.
        drop : bool
            Whether there may be such rows.
        option : str
            For the message, how a user drops them.

        Raises
        ------
        DataError
            Naming the rows, if there may be none, or if no row is left.
        """
        where = {name: self.is_missing(name) for name in columns}
        missing = np.any([np.zeros(len(self), dtype=bool), *where.values()], axis=0)
        if not missing.any():
            return self
        rows = ", ".join(map(str, self.rows[missing][:MOST_NAMED]))
        rows += ", …" if missing.sum() > MOST_NAMED else ""
        lacking = ", ".join(name for name, found in where.items() if found.any())
        one = missing.sum() == 1
        what = (
            f"{self.source}: {missing.sum()} of {len(self)} rows {'lacks' if one else 'lack'} "
            f"{lacking} ({'row' if one else 'rows'} {rows})"
        )
        if not drop:
            raise DataError(f"{what}; fill them in, or leave these rows out{option}")
        if missing.all():
            raise DataError(f"{what}, so that none is left")
        kept = self.at(~missing)
        kept._note(f"{what}; they are left out")
        return kept

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
        pairs = pd.Series(group.codes * len(time) + time.codes)
        repeats = pairs.duplicated()
        if not repeats.any():
            return
        again = int(repeats.argmax())
        before = int((pairs == pairs[again]).argmax())
        raise DataError(
            f"{self.where(again)}: {group.column} {group.names[group.codes[again]]!r} already has "
            f"{time.column} {time.names[time.codes[again]]!r} in row {self.rows[before]}; if both "
            f"were observed, {leave} (rows of one {group.column} are then replicates) or name "
            f"with --time a column that numbers the rows of each {group.column}; if one was "
            "entered by mistake, correct it"
        )

    def one_per_label(
        self, name: str, values: NDArray[np.float64], labels: Labels
    ) -> NDArray[np.float64]:
        """Return a column's numbers, which have one value for each label, shape (len(labels),).

        Raises
        ------
        DataError
            If the rows of a label disagree.
        """
        chosen, differs = labels.first_of_each(values)
        if differs.size:
            row, code = differs[0], labels.codes[differs[0]]
            raise DataError(
                f"{self.where(row)}: {name} is {values[row]:.15g} and was {chosen[code]:.15g} for "
                f"the same {labels.column}, {labels.names[code]!r}; it must be one value for each"
            )
        return chosen

    def _numbers_of(self, name: str) -> NDArray[np.float64]:
        """Return cells as numbers, NaN where they are not."""
        cells = self.column(name)
        if self.decimal == "," and cells.dtype == object:
            cells = np.array(list(map(_decimal_point, cells)), dtype=object)
        return _to_numbers(cells)

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _note_lookalikes(self, column: str, names: Collection[str]) -> None:
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


def from_frame(frame: pd.DataFrame) -> Table:
    """Take a tidy table from a data frame; rows are numbered from 1 in messages.

    Raises
    ------
    DataError
        If two columns have one name, or there are no rows.
    """
    levels = {}
    for i, name in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, i]
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels[name] = tuple(map(str, column.cat.categories))
        elif pd.api.types.infer_dtype(column, skipna=True) == "string":
            texts = sorted(set(map(str, column.dropna())))
            if np.isfinite(_to_numbers(np.array(texts, dtype=object))).all():
                levels[name] = tuple(texts)
    return table_of(frame, "the data frame", "the data frame", levels=levels)


def table_of(
    frame: pd.DataFrame,
    source: str,
    header: str,
    rows: Any = None,
    decimal: str = ".",
    levels: Mapping[str, tuple[str, ...]] | None = None,
) -> Table:
    """Return a table of a frame's cells, whose column names stand in `header`."""
    names = [str(name) for name in frame.columns]
    repeated = sorted(name for name, num in Counter(names).items() if num > 1 and name)
    if repeated:
        raise DataError(f"{header}: column {repeated[0]!r} appears twice; rename one")
    columns = (np.asarray(frame.iloc[:, i].astype(object)) for i in range(len(names)))
    numbers = np.arange(1, len(frame) + 1) if rows is None else np.asarray(rows, dtype=np.int64)
    cells = dict(zip(names, columns, strict=True))
    return Table(cells, source, numbers, decimal=decimal, levels=levels or {})


def are_dates(names: Sequence[str]) -> bool:
    """Whether labels are all ISO dates."""
    return all(map(_ISO_DATE.fullmatch, names))


def has_order(names: Sequence[str]) -> bool:
    """Whether labels have an order by value: numbers, dates, or numbered alike."""
    return _sort_key(list(names)) is not None


def is_plain(text: str) -> bool:
    """Whether a number is written as it usually is, so that its value says its text."""
    if text.isdecimal() and text.isascii() and len(text) <= 15:
        return text[0] != "0" or text == "0"
    try:
        return f"{float(text):.15g}" == text
    except ValueError:
        return False


def other_separator(header: str) -> str:
    """Ask for the separator that a header has."""
    for separator, name in ((";", "--sep ';'"), ("\t", "--sep tab"), ("|", "--sep '|'")):
        if separator in header:
            return f" (is {separator!r} the separator? then add {name})"
    return ""


def _kind(cells: NDArray[Any]) -> str:
    return pd.api.types.infer_dtype(cells, skipna=False)


def _decimal_point(cell: Any) -> Any:
    """Write a number with a decimal comma as Python does; anything else stays as it is."""
    if isinstance(cell, str) and _COMMA_NUMBER.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell


def _text_of(cells: NDArray[Any]) -> NDArray[Any]:
    """Return cells as text, dates without a time of midnight that was never written."""
    kind = _kind(cells)
    if kind in ("datetime", "datetime64", "date"):
        stamps = pd.to_datetime(cells)
        if (stamps == stamps.normalize()).all():
            cells = stamps.date
    return cells if kind == "string" else np.array(list(map(str, cells)), dtype=object)


def _distinct(cells: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return each cell's number, and the different cells' texts in order of appearance.

    A missing cell's text is empty.
    """
    cells = np.where(pd.isna(cells), "", cells.astype(object))
    if _kind(cells) not in ("string", "integer"):
        cells = _text_of(cells)
    # Those that are equal have equal texts, which are fewer to make than one for each cell.
    codes, found = pd.factorize(cells)
    return np.asarray(codes, dtype=np.int64), list(map(str, found))


def _to_numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return cells as numbers; others, also truth values, dates and complex numbers, are NaN."""
    kind = _kind(cells)
    if kind in ("integer", "floating"):
        with suppress(OverflowError):  # of a whole number beyond all floating-point numbers
            return cells.astype(np.float64)
    if kind != "string":
        cells = cells.astype(object)
        cells[[not _may_be_number(cell) for cell in cells]] = None
    return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=np.float64)


def _may_be_number(cell: Any) -> bool:
    """Whether a cell is a number or text, and no truth value, duration or larger than a double."""
    if isinstance(cell, int) and abs(cell) > sys.float_info.max:
        return False
    return isinstance(cell, str | Decimal | Real) and not isinstance(cell, bool | np.timedelta64)


def _quoted(text: str) -> str:
    """Return a cell for a message, its end left out if it is long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _sort_key(names: list[str]) -> list[Any] | None:
    """Return what orders labels by value: numbers, ISO dates or labels numbered alike."""
    numbers = _to_numbers(np.array(names, dtype=object))
    if np.isfinite(numbers).all():
        return list(numbers)
    if are_dates(names):
        return names
    parts = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    if len(parts) == len(names) and len({(part[1], part[3]) for part in parts}) == 1:
        # Of more digits than Python makes a number of, too.
        return [(len(part[2]), part[2]) for part in parts]
    return None
