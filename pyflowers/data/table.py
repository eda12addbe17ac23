"""Observations by row; every wrong cell is reported with source, row and column."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.data.columns import (
    COMMA_NUMBER,
    MISSING,
    POINT_NUMBER,
    TypedColumn,
    label_text,
    number_text,
)
from pyflowers.data.labels import Labels, sort_key
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import DataError
from pyflowers.records import storable_text
from pyflowers.text import in_words

LARGEST_INT = 2**31 - 1
"""The largest value that a Stan ``int`` holds."""

MOST_NAMED = 5
"""The maximum number of items, such as rows with missing values, that a message names."""

_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*")


@dataclass(frozen=True, eq=False, repr=False)
class Table(Shown):
    """Observations by row, with cells as they were read.

    :func:`pyflowers.read_table` and :func:`pyflowers.from_frame` return tables. The methods of a
    table read a column as numbers, as labels or as a factor; errors name source, row and column.

    Attributes
    ----------
    columns : mapping of str to TypedColumn
        The columns, each with its cells as they were read and the numbers that they hold.
    source : str
        Origin of the table, for messages: a path, or ``the data frame``.
    rows : array of int, shape (N,)
        Row numbers in `source`, from 1; a header in a file is row 1.
    notes : list of str
        Sentences on how the cells were read.
    reading : mapping of str to str
        The options with which a file was read, if they differ from the defaults: ``sep``,
        ``decimal`` and ``encoding``.
    levels : mapping of str to tuple of str
        Levels, in order, of the columns that are factors even if their cells look like numbers:
        categorical columns of a data frame, and columns of text whose cells are all numbers.
    ordered : collection of str
        The columns whose levels have an order, as in an ordered Categorical.
    quoted : collection of str
        The columns of a text file that are factors, although their cells look like numbers, because
        the cells are in quotes and those of other columns are not.

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

    >>> import numpy as np
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

    Parts of a table; the rows keep their numbers in the file:

    >>> many = table.only(("plant", "flowers")).at(counts > 7)
    >>> len(many), many.where(0)
    (3, 'data/flowers.csv, row 10')
    >>> print(many.refusal("flowers is 8, more than the 7 that the pot holds; correct it", 0))
    data/flowers.csv, row 10: flowers is 8, more than the 7 that the pot holds; correct it

    A table with other cells in a column, and how the cells of a column are written and parsed:

    >>> more = table.with_cells({"flowers": counts + 0.5})
    >>> more.plain_texts("flowers")[:2].tolist()
    ['4.5', '5.5']
    >>> more.typed("flowers").numbers[:2].tolist()
    [4.5, 5.5]
    >>> doses = np.array(["low", "3+"], dtype=object)
    >>> pyflowers.Table.of_cells({"dose": doses}, "the doses", np.array([1, 2]))
    <pyflowers.Table: the doses  2 rows>

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

    Placeholders for the numbers that a model imputes:

    >>> frame = pd.DataFrame({"age": [20, None, 40, None]})
    >>> filled = pyflowers.from_frame(frame).filled(["age"])
    >>> filled.numbers("age").tolist(), filled.notes[0][:33]
    ([20.0, 20.0, 40.0, 40.0], 'the data frame: 2 of 4 rows have ')

    A digest that does not depend on the format of the file:

    >>> columns = ("plant", "flowers")
    >>> of_frame = pyflowers.from_frame(pd.read_csv("data/flowers.csv")).sha256(columns)
    >>> of_frame == pyflowers.read_table("data/flowers.csv").sha256(columns)
    True

    One value for each group, such as the age of a patient:

    >>> table = pyflowers.read_table("example:epilepsy")
    >>> table.one_per_label("age", table.numbers("age"), table.labels("patient")).shape
    (59,)
    """

    columns: Mapping[str, TypedColumn]
    source: str
    rows: NDArray[np.int64]
    notes: list[str] = field(default_factory=list)
    reading: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ordered: Collection[str] = ()
    quoted: Collection[str] = ()
    _joined: dict[str, TypedColumn] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError(f"{self.source}: there are no rows below the header; add observations")

    @classmethod
    def of_cells(
        cls, cells: Mapping[str, NDArray[Any]], source: str, rows: NDArray[np.int64], **rest: Any
    ) -> Table:
        """Return a table made of the cells of some columns, each of which is parsed once.

        Parameters
        ----------
        cells : mapping of str to array, shape (N,)
            The cells of each column.
        source : str
            Origin of the table, for messages.
        rows : array of int, shape (N,)
            Row numbers in `source`, from 1.
        **rest
            The other attributes, such as ``reading`` and ``levels``.

        Returns
        -------
        Table
            The table.
        """
        decimal = rest.get("reading", {}).get("decimal", ".")
        columns = {name: TypedColumn.read(its, decimal) for name, its in cells.items()}
        return cls(columns, source, rows, **rest)

    @property
    def decimal(self) -> str:
        """Decimal mark of numbers that are written as text."""
        return self.reading.get("decimal", ".")

    @cached_property
    def cells(self) -> dict[str, NDArray[Any]]:
        """The cells of each column as they were read, shape (N,); text stays text."""
        return {name: column.cells for name, column in self.columns.items()}

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
        """Return an error whose message is a sentence about the table.

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
        if row is None:
            return DataError(f"{self.source}: {sentence}")
        return DataError(f"{self.where(row)}: {sentence}")

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
        return self.typed(name).cells

    def typed(self, name: str) -> TypedColumn:
        """Return a column with the numbers and texts that its cells hold; see :meth:`column`.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        TypedColumn
            The column, which has been parsed.

        Raises
        ------
        DataError
            As for :meth:`column`.
        """
        if name in self.columns:
            return self.columns[name]
        if name not in self._joined:
            self._joined[name] = self._join(name)
        return self._joined[name]

    def _join(self, name: str) -> TypedColumn:
        """Return the column of joined labels that a name such as ``a:b`` stands for."""
        parts = name.split(":")
        absent = [part for part in parts if part not in self.columns]
        if absent:
            if len(absent) < len(parts):
                name = absent[0]
            raise DataError(f"{self.source}: there is no column {name!r}; {listed(self.columns)}")
        rows = list(zip(*map(self.texts, parts), strict=True))
        joined = list(map(":".join, rows))
        first = dict(zip(reversed(joined), reversed(rows), strict=True))
        for row, label in enumerate(joined):
            if first[label] != rows[row]:
                raise DataError(
                    f"{self.where(row)}: {name} is {label!r}, as in an earlier row whose "
                    f"labels of {' and '.join(parts)} are different; remove the colons from the "
                    "labels"
                )
        return TypedColumn.of_labels(joined)

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
        return self.typed(name).texts

    def plain_texts(self, name: str) -> NDArray[Any]:
        """Return a column as text: labels as they are written, and numbers by their value.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        array of str, shape (N,)
            The text of each cell; numbers such as ``3.0`` are written as ``3``.

        Raises
        ------
        DataError
            If there is no column of that name, or a cell is missing.
        """
        if self.is_factor(name):
            return self.texts(name)
        values, place = np.unique(self.numbers(name), return_inverse=True)
        return np.array(list(map(number_text, values)), dtype=object)[place]

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
        codes, names = self.typed(name).coded
        for code, text in enumerate(names):
            wrong = _wrong_label(text)
            if wrong:
                raise DataError(f"{self.where(int(np.argmax(codes == code)))}: {name} is {wrong}")
        self._note_lookalikes(name)
        if order == "appearance":
            return Labels(name, names, codes)
        if isinstance(order, str):
            key = sort_key(names)
        else:
            key = self._places(name, names, order)
        if key is not None:
            by_value = sorted(range(len(names)), key=key.__getitem__)
            return Labels(name, tuple(names[i] for i in by_value), np.argsort(by_value)[codes])
        if order_asked:
            self._note(
                f"{self.source}: the {name} labels are in order of appearance, since they "
                "are neither numbers nor dates nor all numbered in the same way"
            )
        return Labels(name, names, codes)

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
            Remedies in the messages about a cell without a value and about a column of text.

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
        self._refuse_points(name)
        values = self.typed(name).numbers_or_truth.copy()
        if not np.isfinite(values).all():
            raise self._not_finite(name, values, if_missing, if_text)
        for wrong, limit in _limits(values, whole, lower):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise DataError(
                    f"{self.where(row)}: {name} is {number_text(values[row])}, but {limit}; "
                    "correct it or choose another model"
                )
        return values

    def _not_finite(
        self, name: str, values: NDArray[np.float64], if_missing: str, if_text: str
    ) -> DataError:
        """Return the error for a column in which some cell is not a finite number."""
        row = self._first_wrong(name, ~np.isfinite(values))
        cell = self.column(name)[row]
        text, complaint = "", "is blank"
        if cell is not None and cell is not pd.NaT:
            text = str(cell).strip()
        if text:
            complaint = f"is {_quoted(text)}, not a finite number"
        remedy = "correct it"
        if text.lower() in MISSING:
            remedy = if_missing
        elif not np.isfinite(values).any():
            remedy = if_text
        if self.decimal == "." and "," in text:
            remedies = []
            if _THOUSANDS.fullmatch(text):
                remedies.append("remove the commas between thousands")
            if COMMA_NUMBER.fullmatch(text):
                remedies.append("if the comma is its decimal mark, add --decimal ','")
            remedy = " or, ".join(remedies) or remedy
        return DataError(f"{self.where(row)}: {name} {complaint}; {remedy}")

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
        return name in self.levels or self.typed(name).holds_labels

    def is_missing(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column hold no value.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        array of bool, shape (N,)
            True for blank cells. In a column of numbers, also True for ``NA``, ``NaN``, ``None``,
            ``null`` and the like in upper or lower case; in a column of labels, also for ``NA``,
            ``N/A``, ``NaN`` and ``<NA>``, unless they are among the column's `levels`.

        Raises
        ------
        DataError
            If there is no column of that name.
        """
        return self.typed(name).is_missing(self.levels.get(name)).copy()

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
        if name in self.quoted and not is_mixed:
            self._note(
                f"{self.source}: {name} is a factor, because its cells are in quotes; for numbers, "
                "remove the quotes"
            )
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
        """Return the place of each label in an order; reject labels that are not in it."""
        place = {label: i for i, label in enumerate(order)}
        unknown = next((label for label in names if label not in place), None)
        if unknown is not None:
            row = int(np.argmax(self.texts(name) == unknown))
            raise DataError(
                f"{self.where(row)}: {name} is {unknown!r}, which is not one of {', '.join(order)}"
            )
        return [place[label] for label in names]

    def _refuse_mixed(self, name: str) -> None:
        """Reject a column if fewer than half of its cells are text, which is probably a mistake."""
        is_text = np.isnan(self.typed(name).numbers)
        if 2 * is_text.sum() < len(self):
            row = self._first_wrong(name, is_text)
            raise DataError(
                f"{self.where(row)}: {name} is {_quoted(str(self.column(name)[row]))}, but most of "
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
            other columns, only the value of a number matters.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        total = hashlib.sha256()
        for name in columns:
            total.update(name.encode("utf-8", "surrogatepass") + b"\x1e")
            column = self.typed(name)
            if name not in spelled and np.isfinite(column.numbers).all():
                total.update(column.numbers.tobytes())
            else:
                total.update("\x1f".join(column.texts).encode("utf-8", "surrogatepass"))
        return total.hexdigest()

    def only(self, columns: tuple[str, ...]) -> Table:
        """Return the table with only some of its columns.

        Parameters
        ----------
        columns : tuple of str
            The columns, in the order of the new table.

        Returns
        -------
        Table
            A new table with the same rows.
        """
        return replace(self, columns={name: self.typed(name) for name in columns})

    def with_cells(self, cells: Mapping[str, NDArray[Any]]) -> Table:
        """Return the table with other cells in some columns, or with new columns.

        Parameters
        ----------
        cells : mapping of str to array, shape (N,)
            The cells of each changed or new column.

        Returns
        -------
        Table
            A new table with the same rows; only the given cells are parsed.
        """
        read = {name: TypedColumn.read(its, self.decimal) for name, its in cells.items()}
        return replace(self, columns={**self.columns, **read})

    def at(self, rows: NDArray[Any]) -> Table:
        """Return the table with only some of its rows, which keep their numbers.

        Whether a column without levels holds numbers or labels depends only on the cells of these
        rows.

        Parameters
        ----------
        rows : array of bool, shape (N,), or array of int
            A mask, or the positions of the rows, from 0.

        Returns
        -------
        Table
            A new table with the same columns.
        """
        columns = {name: column.at(rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, rows=self.rows[rows], notes=list(self.notes))

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
            Text at the end of the message that states how to leave such rows out.

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
        num = int(missing.sum())
        rows = ", ".join(map(str, self.rows[missing][:MOST_NAMED]))
        if num > MOST_NAMED:
            rows += ", …"
        lacking = ", ".join(name for name, found in where.items() if found.any())
        cells = {text for name, found in where.items() for text in self.texts(name)[found]}
        marks = ", ".join(_quoted(cell) for cell in sorted(cells) if cell.strip())
        if marks:
            rows += f"; read as missing: {marks}"
        what = f"{self.source}: {num} of {len(self)} rows lack {lacking} (rows {rows})"
        which, they = "these rows", "they are"
        if num == 1:
            what = f"{self.source}: 1 of {len(self)} rows lacks {lacking} (row {rows})"
            which, they = "this row", "it is"
        if not drop:
            raise DataError(
                f"{what}; fill in what is missing, or leave {which} out{worded(option)}"
            )
        if missing.all():
            raise DataError(f"{what}, so no row is left; fill in some values")
        kept = self.at(~missing)
        kept._note(f"{what}; {they} left out")
        return kept

    def filled(self, columns: Sequence[str]) -> Table:
        """Return the table with the missing cells of some columns filled in, and add a note.

        The numbers are copied from the column's other cells in turn, so that the column's mean and
        standard deviation stay roughly the same. They stand for values that a model imputes.

        Parameters
        ----------
        columns : sequence of str
            The columns.

        Returns
        -------
        Table
            A new table with the same rows.

        Raises
        ------
        DataError
            If a cell of such a column is not a number, or all are missing.
        """
        where = {name: self.is_missing(name) for name in columns}
        missing = np.any([np.zeros(len(self), dtype=bool), *where.values()], axis=0)
        if not missing.any():
            return self
        cells = {}
        for name, lacks in where.items():
            if lacks.all():
                raise DataError(f"{self.source}: {name} is missing in every row; give some values")
            known = self.at(~lacks).numbers(name)
            cells[name] = np.empty(len(self))
            cells[name][~lacks] = known
            cells[name][lacks] = np.resize(known, int(lacks.sum()))
        lacking = in_words([name for name, lacks in where.items() if lacks.any()])
        num, left = int(missing.sum()), int((~missing).sum())
        filled = self.with_cells(cells)
        filled._note(
            f"{self.source}: {num} of {len(self)} rows have imputed values of {lacking}; "
            f"checks, effects, predictions and elpd of rows use only the other {left} rows"
        )
        return filled

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
                f"{self.where(row)}: {name} is {number_text(values[row])}, but was "
                f"{number_text(chosen[code])} in an earlier row for the same {labels.column}, "
                f"{labels.names[code]!r}; each {labels.column} must have one value"
            )
        return chosen

    def _first_wrong(self, name: str, wrong: NDArray[np.bool_]) -> int:
        """Return the first wrong row, preferably one whose cell is not a mark of a missing value.

        Without such a cell, the column would be numeric, and its marks would be read as missing.
        """
        unmarked = wrong & ~self.typed(name).is_mark
        if unmarked.any():
            return int(np.argmax(unmarked))
        return int(np.argmax(wrong))

    def _refuse_points(self, name: str) -> None:
        """Reject numbers with points if the decimal mark is a comma: 1.234 may mean 1234."""
        if self.decimal != ",":
            return
        for row, cell in enumerate(self.column(name)):
            if isinstance(cell, str) and "." in cell and POINT_NUMBER.fullmatch(cell):
                raise DataError(
                    f"{self.where(row)}: {name} is {_quoted(cell)}, but with --decimal ',' numbers "
                    "have no points; remove the points between thousands, and write decimal points "
                    "as commas"
                )

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _note_lookalikes(self, name: str) -> None:
        """Add a note on each set of labels that look alike."""
        for alike in self.typed(name).lookalikes[:MOST_NAMED]:
            *others, last = map(repr, alike)
            self._note(
                f"{self.source}: {name} {', '.join(others)} and {last} look alike but "
                "are different labels; if they mean the same, write them in the same way"
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


def table_of(
    frame: pd.DataFrame,
    source: str,
    header: str,
    rows: Any = None,
    *,
    reading: Mapping[str, str] | None = None,
    typed: bool = False,
) -> Table:
    """Return a frame as a table; messages name `header` as the place of the column names.

    `typed` states that the user chose the types of the frame's columns, such as Categorical.
    """
    names = [str(name) for name in frame.columns]
    repeated = sorted(name for name, num in Counter(names).items() if num > 1 and name)
    if repeated:
        raise DataError(f"{header}: column {repeated[0]!r} appears twice; rename one")
    if rows is None:
        rows = np.arange(1, len(frame) + 1)
    numbers = np.asarray(rows, dtype=np.int64)
    given = {name: frame.iloc[:, i] for i, name in enumerate(names)}
    cells = {name: np.asarray(its.astype(object)) for name, its in given.items()}
    table = Table.of_cells(cells, source, numbers, reading=reading or {})
    if not typed:
        return table
    levels = {name: _levels_of(its, table.columns[name]) for name, its in given.items()}
    return replace(
        table,
        levels={name: its for name, its in levels.items() if its is not None},
        ordered=[name for name, its in given.items() if getattr(its.dtype, "ordered", False)],
    )


def _levels_of(given: pd.Series, column: TypedColumn) -> tuple[str, ...] | None:
    """Return the levels of a Categorical, or of text that could be read as numbers."""
    if isinstance(given.dtype, pd.CategoricalDtype):
        return tuple(dict.fromkeys(map(label_text, given.cat.categories)))
    is_text = pd.api.types.infer_dtype(given, skipna=True) == "string"
    if is_text and np.isfinite(column.numbers[given.notna().to_numpy()]).all():
        return text_levels(column)
    return None


def text_levels(column: TypedColumn) -> tuple[str, ...]:
    """Return the levels of a column of text whose cells are all numbers or missing."""
    names = np.asarray(column.coded[1], dtype=object)
    return tuple(sorted(name for name in names if name.strip().lower() not in MISSING))


def listed(columns: Collection[str]) -> str:
    """Return the list of columns that ends a message about an unknown column."""
    names = list(map(str, columns))
    shown = ", ".join(map(_visible, names))
    if len(names) == 1:
        shown += other_separator(names[0])
    return f"the columns are {shown}"


def _visible(name: str) -> str:
    """Return the name of a column, in quotation marks if it begins or ends with a space."""
    if name == name.strip():
        return name
    return repr(name)


def other_separator(header: str) -> str:
    """Return a hint if a header seems to have another separator; otherwise an empty string."""
    for separator, name in ((";", "--sep ';'"), ("\t", "--sep tab"), ("|", "--sep '|'")):
        if separator in header:
            return f" (if {separator!r} is the separator, add {name})"
    return ""


def _quoted(text: str) -> str:
    """Return a cell for a message, shortened if it is long."""
    if len(text) > 60:
        text = f"{text[:57]}..."
    return repr(text)


def _limits(
    values: NDArray[np.float64], whole: bool, lower: float | None
) -> list[tuple[NDArray[np.bool_], str]]:
    """Return which numbers are beyond each limit, and the limit in words."""
    if not whole:
        if lower is None:
            return []
        return [(values < lower, f"must be at least {number_text(lower)}")]
    is_fraction, is_large = values != np.floor(values), np.abs(values) > LARGEST_INT
    largest = (is_large, f"Stan's int cannot hold numbers beyond ±{LARGEST_INT}")
    if lower == 0:
        fraction = (is_fraction, "counts are whole numbers")
        return [(values < 0, "counts cannot be negative"), fraction, largest]
    at_least = _limits(values, False, lower)
    return [*at_least, (is_fraction, "must be a whole number"), largest]


def _wrong_label(text: str) -> str:
    """Return what is wrong with a label, with the remedy; empty if nothing is."""
    if not text.strip():
        return "blank; give it a label"
    # A file of draws can hold neither NUL nor lone surrogates.
    if "\0" in text or storable_text(text) != text:
        return f"{_quoted(text)}, which has a character that cannot be saved; give it another label"
    return ""
