"""Observations by row; every wrong cell is reported with source, row and column."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
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
"""The maximum number of items, such as rows with missing values, that a message names."""

_MISSING = {"", "na", "n/a", "nan", "<na>", "none", "null"}
"""Marks of a missing value among numbers, in R, pandas, databases and spreadsheets."""

_MISSING_LABEL = {"", "NA", "N/A", "NaN", "<NA>"}
"""Marks of a missing value among labels; ``None`` is not one, because it may be a label."""

_COMMA_NUMBER = re.compile(r"\s*[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d*)?([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*")
_ISO_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?")
_NUMBERED = re.compile(r"([^0-9]*)0*([0-9]+)([^0-9]*)")
_DECIMAL = re.compile(r"[-+]?\d*\.\d*([eE][-+]?\d+)?")
_MIDNIGHT = re.compile(r"(\d{4}-\d{2}-\d{2})[ T]00:00(:00(\.0+)?)?")


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

    @property
    def are_titles(self) -> bool:
        """Whether the labels can be understood without the column's name before them.

        This is so if a label begins with the name of the column, such as ``Beet 3`` in the column
        ``Beet``: ``Beet Beet 3`` would look like another label.
        """
        return any(name.casefold().startswith(self.column.casefold()) for name in self.names)


@dataclass(frozen=True, eq=False, repr=False)
class Table(Shown):
    """Observations by row, with cells as they were read.

    :func:`pyflowers.read_table` and :func:`pyflowers.from_frame` return tables. The methods of a
    table read a column as numbers, as labels or as a factor; errors name source, row and column.

    Attributes
    ----------
    cells : mapping of str to array, shape (N,)
        The cells of each column; text stays text.
    source : str
        Origin of the table, for messages: a path, or ``the data frame``.
    rows : array of int, shape (N,)
        Row numbers in `source`, from 1; a header in a file is row 1.
    notes : list of str
        Sentences on how the cells were read.
    decimal : str
        Decimal mark of numbers that are written as text.
    levels : mapping of str to tuple of str
        Levels, in order, of the columns that are factors even if their cells look like numbers:
        categorical columns of a data frame, and columns of text whose cells are all numbers.
    ordered : collection of str
        The columns whose levels have an order, as those of an ordered Categorical do.

    Raises
    ------
    DataError
        If there are no rows.

    See Also
    --------
    pyflowers.Program.read : Turn a table into the data block of a program.

    Examples
    --------
    Columns as numbers, labels or factors:

    >>> import pandas as pd
    >>> import pyflowers
    >>> table = pyflowers.read_table("data/flowers.csv")
    >>> table.column("flowers")[:3].tolist()
    ['4', '5', '6']
    >>> table.texts("month")[:2].tolist()
    ['1', '2']
    >>> counts = table.numbers("flowers", whole=True, lower=0)
    >>> counts[:3].tolist()
    [4.0, 5.0, 6.0]
    >>> plants, months = table.labels("plant"), table.labels("month", order="value")
    >>> plants.names, plants.counts.tolist()
    (('1', '2', '3'), [4, 4, 4])
    >>> table.refuse_repeats(plants, months, "leave --time out")

    Parts of a table; its rows keep their numbers in the file:

    >>> many = table.only(("plant", "flowers")).at(counts > 7)
    >>> len(many), many.where(0)
    (3, 'data/flowers.csv, row 10')
    >>> print(many.refusal("flowers is 8, more than the 7 that the pot holds; correct it", 0))
    data/flowers.csv, row 10: flowers is 8, more than the 7 that the pot holds; correct it

    Missing values and factors:

    >>> frame = pd.DataFrame({"plot": ["a", "b", "b"], "height": [3.5, 4.0, None]})
    >>> table = pyflowers.from_frame(frame)
    >>> table.is_factor("plot"), table.is_missing("height").tolist()
    (True, [False, False, True])
    >>> table = table.without_missing(["height"], drop=True)
    >>> table.numbers_or_factor("height").tolist()
    [3.5, 4.0]
    >>> list(table.numbers_or_factor("plot").categories)
    ['a', 'b']

    A digest that does not depend on the format of the file:

    >>> columns = ("plant", "flowers")
    >>> of_frame = pyflowers.from_frame(pd.read_csv("data/flowers.csv")).sha256(columns)
    >>> of_frame == pyflowers.read_table("data/flowers.csv").sha256(columns)
    True

    One value for each group, such as the age of a patient:

    >>> table = pyflowers.read_table("examples/epil/epil.csv")
    >>> table.one_per_label("age", table.numbers("age"), table.labels("patient")).shape
    (59,)
    """

    cells: Mapping[str, NDArray[Any]]
    source: str
    rows: NDArray[np.int64]
    notes: list[str] = field(default_factory=list)
    decimal: str = "."
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ordered: Collection[str] = ()

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError(f"{self.source}: there are no rows below the header; add observations")

    def contents(self) -> list[Line]:
        """Return the rows as they were read, and the notes on how the cells were read."""
        cells = {str(name): list(map(str, values)) for name, values in self.cells.items()}
        return [
            heading(self.source, f"{len(self)} rows"),
            pd.DataFrame(cells, index=pd.Index(self.rows, name="row")),
            *(f"note: {note}" for note in self.notes),
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, row: int) -> str:
        """Return the place of a row for a message: the source and the row's number in it.

        Parameters
        ----------
        row : int
            Position of the row, from 0.

        Returns
        -------
        str
            The place, such as ``data/flowers.csv, row 2``.
        """
        return f"{self.source}, row {self.rows[row]}"

    def refusal(self, sentence: str, row: int | None = None) -> DataError:
        """Return the error for a sentence about the table.

        Parameters
        ----------
        sentence : str
            What is wrong, and the remedy.
        row : int, optional
            Position of the row that is wrong, from 0.

        Returns
        -------
        DataError
            The error; its message begins with the source and, if `row` is given, the row's number.
        """
        return DataError(f"{self.source if row is None else self.where(row)}: {sentence}")

    def column(self, name: str) -> NDArray[Any]:
        """Return the cells of a column as they were read.

        Parameters
        ----------
        name : str
            The column. ``a:b`` stands for the cells of the columns ``a`` and ``b``, joined by a
            colon, unless a column has this name.

        Returns
        -------
        array, shape (N,)
            The cells.

        Raises
        ------
        DataError
            If there is no column of that name, or two different combinations are equal once they
            are joined.
        """
        parts = name.split(":")
        if name not in self.cells and len(parts) > 1 and self.cells.keys() >= set(parts):
            rows = list(zip(*map(self.texts, parts), strict=True))
            joined = [":".join(row) for row in rows]
            if len(set(joined)) < len(set(rows)):
                first: dict[str, tuple[str, ...]] = {}
                row = next(
                    i for i, its in enumerate(rows) if first.setdefault(joined[i], its) != its
                )
                raise DataError(
                    f"{self.where(row)}: {name} is {joined[row]!r}, as in an earlier row whose "
                    f"labels of {' and '.join(parts)} are different; remove the colons from the "
                    "labels"
                )
            return np.array(joined, dtype=object)
        if name not in self.cells:
            absent = [part for part in parts if part not in self.cells]
            which = absent[0] if len(absent) < len(parts) else name
            raise DataError(f"{self.source}: there is no column {which!r}; {listed(self.cells)}")
        return self.cells[name]

    def texts(self, name: str) -> NDArray[Any]:
        """Return the cells of a column as text, in the form of labels; missing cells are empty.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        array of str, shape (N,)
            The text of each cell.

        Raises
        ------
        DataError
            If there is no column of that name.
        """
        codes, names = _distinct(self.column(name))
        return np.asarray(names, dtype=object)[codes]

    def labels(
        self, name: str, *, order: str | Sequence[str] = "appearance", order_asked: bool = True
    ) -> Labels:
        """Return a column as labels.

        Parameters
        ----------
        name : str
            The column.
        order : str or sequence of str
            ``appearance``: in the order of the rows; ``value``: numbers, dates and numbered labels
            by value, others by appearance. A sequence lists all labels in their order.
        order_asked : bool
            Whether to add a note if `order` is ``value`` and the labels have no such order.

        Returns
        -------
        Labels
            The distinct labels, and the position of each row's label among them.

        Raises
        ------
        DataError
            If a cell is blank, has a character that a file of draws cannot hold, or is not in the
            given order.
        """
        codes, names = _distinct(self.column(name))
        for code, text in enumerate(names):
            # A file of draws can hold neither NUL nor lone surrogates.
            if not text.strip() or "\0" in text or storable_text(text) != text:
                wrong = (
                    f"{_quoted(text)}, which has a character that cannot be saved; give it another "
                    "label"
                    if text.strip()
                    else "blank; give it a label"
                )
                raise DataError(f"{self.where(int(np.argmax(codes == code)))}: {name} is {wrong}")
        self._note_lookalikes(name, names)
        if order != "appearance":
            key = _sort_key(names) if isinstance(order, str) else self._places(name, names, order)
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
        if_text: str = "make the column numeric",
    ) -> NDArray[np.float64]:
        """Return a column as finite numbers; True and False are 1 and 0.

        Parameters
        ----------
        name : str
            The column.
        whole : bool
            Whether the numbers must be whole and fit into Stan's int.
        lower : float, optional
            The smallest allowed value, in the column's unit. Default: no bound.
        if_missing, if_text : str
            Remedies in the messages on a cell without a value and on a column of text.

        Returns
        -------
        array of float, shape (N,)
            The numbers, in the column's unit.

        Raises
        ------
        DataError
            If a cell is not such a number; the message names the first such cell that is not a
            mark of a missing value or, if all are such marks, the first.
        """
        values = self._numbers_of(name)
        if np.isnan(values).all():
            present = ~self.is_missing(name)
            words = [str(cell).strip().lower() for cell in self.column(name)[present]]
            if set(words) <= {"true", "false"}:
                values[present] = [word == "true" for word in words]
        if not np.isfinite(values).all():
            bad = self._first_wrong(name, ~np.isfinite(values))
            cell = self.column(name)[bad]
            text = "" if cell is None or cell is pd.NaT else str(cell).strip()
            complaint = f"is {_quoted(text)}, not a finite number" if text else "is blank"
            remedy = "correct it"
            if text.lower() in _MISSING:
                remedy = if_missing
            elif not np.isfinite(values).any():
                remedy = if_text
            if self.decimal == "." and "," in text:
                options = {
                    _THOUSANDS: "remove the commas between thousands",
                    _COMMA_NUMBER: "if the comma is its decimal mark, add --decimal ','",
                }
                fitting = [text_of for its, text_of in options.items() if its.fullmatch(text)]
                remedy = " or, ".join(fitting) or remedy
            raise DataError(f"{self.where(bad)}: {name} {complaint}; {remedy}")
        self._note_thousands(name)
        counts = whole and lower == 0
        checks = []
        if lower is not None:
            few = "but counts cannot be negative" if counts else f"but must be at least {lower:g}"
            checks.append((values < lower, few))
        if whole:
            whole_only = "but counts are whole numbers" if counts else "but must be a whole number"
            most = f"but Stan's int holds no numbers beyond ±{LARGEST_INT}"
            checks += [
                (values != np.floor(values), whole_only),
                (np.abs(values) > LARGEST_INT, most),
            ]
        for wrong, complaint in checks:
            if wrong.any():
                row = int(np.argmax(wrong))
                raise DataError(
                    f"{self.where(row)}: {name} is {values[row]:.15g}, {complaint}; correct it or "
                    "choose another model"
                )
        return values

    def is_factor(self, name: str) -> bool:
        """Return whether a column holds labels.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        bool
            True if some cell is neither a number nor missing, or the column is in `levels`.
        """
        if name in self.levels:
            return True
        return bool((np.isnan(self._numbers_of(name)) & ~self.is_missing(name)).any())

    def is_missing(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column hold no value.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        array of bool, shape (N,)
            True for blank cells. In a column of numbers, also true for ``NA``, ``NaN``, ``None``,
            ``null`` and the like in upper or lower case; in a column of labels, also for ``NA``,
            ``N/A``, ``NaN`` and ``<NA>``, unless they are among the column's `levels`.
        """
        codes, names = _distinct(self.column(name))
        marked = np.array([text.strip().lower() in _MISSING for text in names])
        if name in self.levels or np.isnan(self._numbers_of(name)[~marked[codes]]).any():
            marks = _MISSING_LABEL.difference(self.levels.get(name, ()))
            marked = np.array([text.strip() in marks for text in names])
        return marked[codes]

    def numbers_or_factor(
        self, name: str, levels: Sequence[str] | None = None, *, is_mixed: bool = False
    ) -> Any:
        """Return a column as numbers or, if it holds labels, as a factor.

        Parameters
        ----------
        name : str
            The column.
        levels : sequence of str, optional
            The levels of a factor in their order. Default: the table's `levels` of the column, or
            else its labels, sorted.
        is_mixed : bool
            Whether numbers may be levels in addition to labels, as in ``C(...)``.

        Returns
        -------
        array of float or pandas.Categorical, shape (N,)
            The numbers or the factor.

        Raises
        ------
        DataError
            If a cell is missing, if a label is not one of the levels, or if the levels are not
            known and fewer than half of the cells are text.
        """
        missing = np.flatnonzero(self.is_missing(name))
        if missing.size:
            raise DataError(
                f"{self.where(missing[0])}: {name} is missing; fill it in, or leave the row out"
            )
        if not self.is_factor(name):
            return self.numbers(name)
        if not levels and name not in self.levels and not is_mixed:
            self._refuse_mixed(name)
        found = self.labels(name)
        known = tuple(levels or self.levels.get(name) or sorted(found.names))
        unknown = next((label for label in found.names if label not in known), None)
        if unknown is not None:
            row = int(np.argmax(found.codes == found.names.index(unknown)))
            raise DataError(
                f"{self.where(row)}: {name} is {unknown!r}, which is not one of its levels: "
                f"{', '.join(known)}"
            )
        return pd.Categorical(found.of_rows, categories=list(known))

    def _places(self, name: str, names: Sequence[str], order: Sequence[str]) -> list[int]:
        """Return the place of each label in an order; refuse labels that are not in it."""
        place = {label: i for i, label in enumerate(order)}
        unknown = next((label for label in names if label not in place), None)
        if unknown is not None:
            row = int(np.argmax(self.texts(name) == unknown))
            raise DataError(
                f"{self.where(row)}: {name} is {unknown!r}, which is not one of {', '.join(order)}"
            )
        return [place[label] for label in names]

    def _refuse_mixed(self, name: str) -> None:
        """Refuse a column if fewer than half of its cells are text, which is probably a mistake."""
        is_text = np.isnan(self._numbers_of(name))
        if 2 * is_text.sum() < len(self):
            row = self._first_wrong(name, is_text)
            raise DataError(
                f"{self.where(row)}: {name} is {_quoted(str(self.cells[name][row]))}, but most of "
                f"its cells are numbers; correct it, or, if {name} is a factor, write C({name})"
            )

    def sha256(self, columns: tuple[str, ...], spelled: Collection[str] = ()) -> str:
        """Return a digest of some columns that does not depend on the file's format.

        Parameters
        ----------
        columns : tuple of str
            The columns; their order matters.
        spelled : collection of str
            The columns whose numbers count as text, so that ``1.0`` differs from ``1``. In all
            other columns, numbers count by their value.

        Returns
        -------
        str
            64 hexadecimal digits.
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
        """Return the table with some of its columns.

        Parameters
        ----------
        columns : tuple of str
            The columns, in the order of the new table.

        Returns
        -------
        Table
            A new table with the same rows.
        """
        return replace(self, cells={name: self.column(name) for name in columns})

    def at(self, rows: NDArray[Any]) -> Table:
        """Return the table with some of its rows, which keep their numbers.

        Parameters
        ----------
        rows : array of bool, shape (N,), or array of int
            A mask, or the positions of the rows, from 0.

        Returns
        -------
        Table
            A new table with the same columns.
        """
        cells = {name: cells[rows] for name, cells in self.cells.items()}
        return replace(self, cells=cells, rows=self.rows[rows], notes=list(self.notes))

    def without_missing(
        self, columns: Collection[str], *, drop: bool, option: str = " with --drop-missing"
    ) -> Table:
        """Return the table without the rows that lack a value in some column, and note them.

        Parameters
        ----------
        columns : collection of str
            The columns in which values may be missing.
        drop : bool
            Whether to leave such rows out; otherwise, they cause an error.
        option : str
            Words at the end of the message that state how to leave such rows out.

        Returns
        -------
        Table
            The rows without missing values.

        Raises
        ------
        DataError
            If there are such rows and they are not left out, or if no row remains; the message
            names the first rows.
        """
        where = {name: self.is_missing(name) for name in columns}
        missing = np.any([np.zeros(len(self), dtype=bool), *where.values()], axis=0)
        if not missing.any():
            return self
        rows = ", ".join(map(str, self.rows[missing][:MOST_NAMED]))
        rows += ", …" if missing.sum() > MOST_NAMED else ""
        lacking = ", ".join(name for name, found in where.items() if found.any())
        cells = {text for name, found in where.items() for text in self.texts(name)[found]}
        marks = ", ".join(_quoted(cell) for cell in sorted(cells) if cell.strip())
        rows += f"; read as missing: {marks}" if marks else ""
        one = missing.sum() == 1
        what = (
            f"{self.source}: {missing.sum()} of {len(self)} rows {'lacks' if one else 'lack'} "
            f"{lacking} ({'row' if one else 'rows'} {rows})"
        )
        if not drop:
            which = "this row" if one else "these rows"
            raise DataError(f"{what}; fill in what is missing, or leave {which} out{option}")
        if missing.all():
            raise DataError(f"{what}, so no row is left; fill in some values")
        kept = self.at(~missing)
        kept._note(f"{what}; {'it is' if one else 'they are'} left out")
        return kept

    def refuse_repeats(self, group: Labels, time: Labels, leave: str) -> None:
        """Raise an error if a group has the same time twice.

        Parameters
        ----------
        group, time : Labels
            Groups and times of the rows, as :meth:`labels` returns them.
        leave : str
            The remedy that the message gives if the rows have no times.

        Raises
        ------
        DataError
            If a group has the same time twice; the message names both rows.
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
        """Return the one value that a column has for each label.

        Parameters
        ----------
        name : str
            The column, for the message.
        values : array of float, shape (N,)
            Its numbers, as :meth:`numbers` returns them.
        labels : Labels
            The labels of the rows.

        Returns
        -------
        array of float, shape (len(labels),)
            The value of each label, in the order of ``labels.names``.

        Raises
        ------
        DataError
            If the rows of a label have different values.
        """
        chosen, differs = labels.first_of_each(values)
        if differs.size:
            row, code = differs[0], labels.codes[differs[0]]
            raise DataError(
                f"{self.where(row)}: {name} is {values[row]:.15g} and was {chosen[code]:.15g} for "
                f"the same {labels.column}, {labels.names[code]!r}; each {labels.column} must have "
                "one value"
            )
        return chosen

    def _numbers_of(self, name: str) -> NDArray[np.float64]:
        """Return cells as numbers, with NaN for cells that are not numbers."""
        cells = self.column(name)
        if self.decimal == "," and cells.dtype == object:
            self._refuse_both_points(name)
            cells = np.array(list(map(_decimal_point, cells)), dtype=object)
        return _to_numbers(cells)

    def _first_wrong(self, name: str, wrong: NDArray[np.bool_]) -> int:
        """Return the first wrong row whose cell is no mark of a missing value, or else the first.

        In a column of numbers, the marks would be read as missing but for such a cell.
        """
        marked = np.array([text.strip().lower() in _MISSING for text in self.texts(name)])
        return int(np.argmax(wrong & ~marked if (wrong & ~marked).any() else wrong))

    def _note_thousands(self, name: str) -> None:
        """Add a note if all points in a column are read as separators of thousands."""
        if self.decimal == ",":
            texts = [cell for cell in self.column(name) if isinstance(cell, str)]
            pointed = [text for text in texts if "." in text and _COMMA_NUMBER.fullmatch(text)]
            if pointed and not any("," in text for text in texts):
                self._note(
                    f"{self.source}: with --decimal ',' the points in {name} separate thousands, "
                    f"so {pointed[0]!r} is {number_of(_decimal_point(pointed[0])):.15g}; if they "
                    "are decimal marks, write them as commas"
                )

    def _refuse_both_points(self, name: str) -> None:
        """Refuse a column that has points both as decimal marks and between thousands."""
        cells = self.column(name)
        points = [i for i, cell in enumerate(cells) if isinstance(cell, str) and "." in cell]
        thousands = [i for i in points if _COMMA_NUMBER.fullmatch(cells[i])]
        others = sorted(set(points) - set(thousands)) if thousands else []
        marks = [i for i in others if np.isfinite(_to_numbers(cells[[i]])[0])]
        if marks:
            raise DataError(
                f"{self.where(marks[0])}: {name} is {_quoted(cells[marks[0]])}, but with --decimal "
                f"',' the point in {_quoted(cells[thousands[0]])} separates thousands; write all "
                "numbers in the column the same way"
            )

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _note_lookalikes(self, column: str, names: Collection[str]) -> None:
        """Add a note on labels that differ only in capitals, spaces, accents' encoding or zeros."""
        variants: dict[str, list[str]] = {}
        for name in names:
            plain = " ".join(unicodedata.normalize("NFC", name).casefold().split())
            plain = comparable(plain)
            variants.setdefault(plain, []).append(repr(name))
        for alike in [found for found in variants.values() if len(found) > 1][:MOST_NAMED]:
            self._note(
                f"{self.source}: {column} {', '.join(alike[:-1])} and {alike[-1]} look alike but "
                "are different labels; if they are the same, write them the same way"
            )


def from_frame(frame: pd.DataFrame) -> Table:
    """Create a table from a tidy data frame.

    Parameters
    ----------
    frame : DataFrame
        One row for each observation. Its index is not used.

    Returns
    -------
    Table
        The table; messages number its rows from 1. Categorical columns, and columns of text whose
        cells are all numbers, are factors.

    Raises
    ------
    DataError
        If two columns have the same name, or there are no rows.

    See Also
    --------
    pyflowers.read_table : Read a table from a file.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyflowers
    >>> frame = pd.DataFrame({"plant": ["a", "a", "b"], "flowers": [4, 5, 0]})
    >>> table = pyflowers.from_frame(frame)
    >>> table
    <pyflowers.Table: the data frame  3 rows>
    >>> table.labels("plant").names
    ('a', 'b')
    """
    return table_of(frame, "the data frame", "the data frame", typed=True)


def levels_of(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the levels of categorical columns and of text that could be read as numbers."""
    levels = {}
    for i, name in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, i]
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels[name] = tuple(dict.fromkeys(map(_text, column.cat.categories)))
        elif pd.api.types.infer_dtype(column, skipna=True) == "string":
            texts = sorted(set(map(_text, column.dropna())))
            if np.isfinite(_to_numbers(np.array(texts, dtype=object))).all():
                levels[name] = tuple(texts)
    return levels


def table_of(
    frame: pd.DataFrame,
    source: str,
    header: str,
    rows: Any = None,
    decimal: str = ".",
    *,
    typed: bool = False,
) -> Table:
    """Return a frame as a table; messages name `header` as the place of the column names.

    `typed` states that the types of the frame's columns are the user's, such as Categorical.
    """
    names = [str(name) for name in frame.columns]
    repeated = sorted(name for name, num in Counter(names).items() if num > 1 and name)
    if repeated:
        raise DataError(f"{header}: column {repeated[0]!r} appears twice; rename one")
    columns = (np.asarray(frame.iloc[:, i].astype(object)) for i in range(len(names)))
    numbers = np.arange(1, len(frame) + 1) if rows is None else np.asarray(rows, dtype=np.int64)
    cells = dict(zip(names, columns, strict=True))
    levels = levels_of(frame) if typed else {}
    kinds = zip(names, frame.dtypes, strict=True)
    ordered = [name for name, kind in kinds if getattr(kind, "ordered", False)]
    return Table(cells, source, numbers, decimal=decimal, levels=levels, ordered=ordered)


def are_dates(names: Sequence[str]) -> bool:
    """Whether labels are all ISO dates."""
    return all(map(_ISO_DATE.fullmatch, names))


def has_order(names: Sequence[str]) -> bool:
    """Whether labels can be ordered by value: numbers, dates, or labels numbered in one way."""
    return _sort_key(list(names)) is not None


def is_plain(text: str) -> bool:
    """Whether a number is written in the usual way, so that its value determines its text."""
    if text.isdecimal() and text.isascii() and len(text) <= 15:
        return text[0] != "0" or text == "0"
    try:
        return f"{float(text):.15g}" == text
    except ValueError:
        return False


def number_of(text: str) -> float:
    """Return the number that a string represents, or NaN if it represents none."""
    return float(_to_numbers(np.array([text], dtype=object))[0])


def listed(columns: Collection[str]) -> str:
    """Return the list of columns with which a message on an unknown column ends."""
    names = (name if name == name.strip() else repr(name) for name in map(str, columns))
    hint = other_separator(str(next(iter(columns)))) if len(columns) == 1 else ""
    return f"the columns are {', '.join(names)}{hint}"


def other_separator(header: str) -> str:
    """Return a hint if a header seems to have another separator; otherwise an empty string."""
    for separator, name in ((";", "--sep ';'"), ("\t", "--sep tab"), ("|", "--sep '|'")):
        if separator in header:
            return f" (if {separator!r} is the separator, add {name})"
    return ""


def as_written(texts: Collection[str], known: Collection[str]) -> list[str]:
    """Return texts with each one written like the only known text that is comparable with it."""
    num = Counter(map(comparable, known))
    written = {comparable(label): label for label in known if num[comparable(label)] == 1}
    return [text if text in known else written.get(comparable(text), text) for text in texts]


def _kind(cells: NDArray[Any]) -> str:
    return pd.api.types.infer_dtype(cells, skipna=False)


def _decimal_point(cell: Any) -> Any:
    """Rewrite a number with a decimal comma in Python's notation; return other cells unchanged."""
    if isinstance(cell, str) and _COMMA_NUMBER.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell


def _text_of(cells: NDArray[Any]) -> NDArray[Any]:
    """Return cells as text; the text of a cell does not depend on other cells."""
    return np.array(list(map(_text, cells)), dtype=object)


def _text(cell: Any) -> str:
    """Return a cell as text: floating-point numbers with 15 digits, and midnight as a date."""
    if isinstance(cell, str):
        # Written with more digits, one number would be several labels, as 0.1 * 3 and 0.3.
        digits = cell.partition("e")[0].partition("E")[0]
        is_long = len(digits) > 15 and _DECIMAL.fullmatch(cell) is not None
        return number_text(float(cell)) if is_long and any(map(str.isdecimal, cell)) else cell
    if isinstance(cell, float | np.floating):
        return number_text(float(cell))
    if isinstance(cell, np.datetime64):
        cell = pd.Timestamp(cell)
    if isinstance(cell, datetime) and cell is not pd.NaT:
        # pandas reads dates as datetimes at midnight.
        return str(cell.date()) if pd.Timestamp(cell).normalize() == cell else str(cell)
    return str(cell)


def number_text(value: float) -> str:
    """Return a number as a label: with 15 digits, and whole numbers without a decimal point."""
    if value.is_integer():
        return str(int(value)) if abs(value) < 2**53 else repr(value)
    return f"{value:.15g}"


def comparable(text: str) -> str:
    """Return a text in a form that is equal for equal numbers, truth values and dates.

    Zeros at the end of a decimal fraction, capitals in ``TRUE`` and a time of 00:00:00 do not
    matter; zeros at the beginning do.
    """
    if text.lower() in ("true", "false"):
        return text.lower()
    if midnight := _MIDNIGHT.fullmatch(text):
        return midnight[1]
    number = re.fullmatch(r"(-?\d+)(\.\d*?)0*", text)
    return text if number is None else number[1] + number[2].removesuffix(".")


def _distinct(cells: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return a code for each cell, and the distinct cells as text in order of appearance.

    The text of a missing cell is empty.
    """
    cells = np.where(pd.isna(cells), "", cells.astype(object))
    if _kind(cells) not in ("string", "integer", "floating", "datetime", "datetime64"):
        cells = _text_of(cells)
    # Format each distinct value once, instead of once per cell.
    codes, found = pd.factorize(cells)
    texts = list(map(_text, found))
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return np.array([place[text] for text in texts], dtype=np.int64)[codes], list(place)


def _to_numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers, including those in text, as floats; other cells, such as dates, are NaN."""
    kind = _kind(cells)
    if kind in ("integer", "floating"):
        with suppress(OverflowError):  # an integer may be larger than any floating-point number
            return cells.astype(np.float64)
    if kind != "string":
        cells = cells.astype(object)
        cells[[not _may_be_number(cell) for cell in cells]] = None
    return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=np.float64)


def _may_be_number(cell: Any) -> bool:
    """Whether a cell is text or a number in the range of a double, not a boolean or a duration."""
    if isinstance(cell, int) and abs(cell) > sys.float_info.max:
        return False
    return isinstance(cell, str | Decimal | Real) and not isinstance(cell, bool | np.timedelta64)


def _quoted(text: str) -> str:
    """Return a cell for a message, shortened if it is long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _sort_key(names: list[str]) -> list[Any] | None:
    """Return keys that sort names by value; None if they are not numbers, dates or numbered."""
    numbers = _to_numbers(np.array(names, dtype=object))
    if np.isfinite(numbers).all():
        return list(numbers)
    if are_dates(names):
        return names
    parts = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    if len(parts) == len(names) and len({(part[1], part[3]) for part in parts}) == 1:
        # Compare digits by length and then as text, because Python does not convert numbers with
        # very many digits.
        return [(len(part[2]), part[2]) for part in parts]
    return None
