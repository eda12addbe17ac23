"""Predictions of new data: rows of a table, the next observation of each group, and a new group.

Rows of a table are predicted as the program's ``[prediction]`` declares; see
:mod:`pyflowers.programs.prediction`. Weighted averages over rows predict averages over populations.

For each posterior draw, the next observation of group p is drawn from p(y_new | group p's
parameters). For a new group, the parameters are first drawn from the population, given the same
posterior draw. In both cases, the results are draws from the posterior predictive distribution, so
their quantiles give its intervals.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.advice import worded
from pyflowers.analysis.grids import Grid, grid_of
from pyflowers.analysis.pooled import of_each_table, pooled_columns
from pyflowers.cores import in_order
from pyflowers.data import Labels, Table
from pyflowers.data.columns import label_text, number_of, number_text
from pyflowers.data.labels import has_order
from pyflowers.display import Line, Result, in_file, interval_quantiles, records_of
from pyflowers.engines import SamplerOptions
from pyflowers.errors import ConfigError, DataError, FitError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.idata import to_bytes
from pyflowers.fits.imputed import PooledFit
from pyflowers.fits.posterior import dataset, element_names, flat
from pyflowers.programs import Capability
from pyflowers.programs.declaration import free_name
from pyflowers.programs.outcomes import Outcome
from pyflowers.programs.prediction import GROUPS, Groups, Predictor
from pyflowers.programs.terms import hint_of
from pyflowers.text import counted, shortened, suggestion

if TYPE_CHECKING:
    import xarray as xr

Kind = Literal["expected", "linear", "observation", "probability"]
KINDS: Mapping[Kind, Callable[[Predictor], NDArray[np.float64]]] = {
    "expected": Predictor.expected,
    "linear": Predictor.linear,
    "observation": Predictor.observed,
    "probability": Predictor.expected,
}
"""Kinds of predictions for a row: expected value, linear predictor, a new observation, or the
probabilities of outcomes, which are the expected values of a predictor with an outcome."""

OF_TRIALS = " (successes out of each row's trials)"
"""Text that is added to the name of a binomial response."""

LARGEST_BLOCK = 4_000_000
"""The largest number of draws, over all rows of a block, that one thread holds in memory."""

OF_TABLES = (
    *("row", "column", "change", "at", "groups", "outcome"),
    *("median", "mcse", "mcse_median", "ess_bulk"),
)
"""Names of columns in the tables of predictions and effects. A user's column that has one of these
names is renamed in these tables."""

_QUANTILE = re.compile(r"(mcse_)?[\d.]+%")

T = TypeVar("T")

INNER = 0.5
"""Probability of the narrower of the two intervals of a prediction."""

NEW = "new"


@dataclass(frozen=True, eq=False)
class Prediction:
    """One part of the predictions that need no table.

    Attributes
    ----------
    title : str
        The name of the part, such as ``next month``.
    quantity : DataArray, shape (chain, draw, ...)
        The draws, with the labels of the groups.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> first = pyflowers.predict(fit).parts[0]
    >>> first.title, first.quantity.shape
    ('next month', (4, 1000, 3))
    """

    title: str
    quantity: xr.DataArray = field(repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Result):
    """Predictions of the next observation of each group and of a new group.

    Attributes
    ----------
    fit : Fit
        The fit.
    parts : tuple of Prediction
        The observation of each group at the next time (a new observation if there are no times),
        an observation of a new group, and the mean of a new group. For a program that draws
        ``y_new`` and ``y_new_group`` in Stan, these two quantities.
    seed : int
        Seed of the predictions.
    notes : tuple of str
        What was left out, and why.

    See Also
    --------
    pyflowers.predict : Compute predictions.
    pyflowers.plots.predictions : Draw them.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.predict(fit)
    >>> found.table().loc["next month", ["median", "5%", "95%"]]
              median   5%   95%
    value
    y_new[1]     4.0  1.0   9.0
    y_new[2]     2.0  0.0   6.0
    y_new[3]     8.0  3.0  13.0
    >>> found.draws()["new plant"].shape
    (4, 1000, 1)
    """

    holds: ClassVar[str] = "predictions"

    fit: Fit
    parts: tuple[Prediction, ...]
    seed: int
    notes: tuple[str, ...]

    def draws(self) -> dict[str, np.ndarray]:
        """Return the draws of each part by its title, shape (chain, draw, ...)."""
        return {part.title: part.quantity.values for part in self.parts}

    def table(self) -> pd.DataFrame:
        """Return the median of each value, two intervals, and the median's Monte Carlo error.

        The intervals have probability 50% and the fit's ``interval``. Each quantile of counts is
        one of the draws: the smallest value whose cumulative probability is at least the level of
        the quantile.
        """
        return pd.concat([_summary(each, self.fit.interval) for each in self.parts])

    def contents(self) -> list[Line]:
        """Return the table, its notes, and the fit's verdict if it is negative."""
        judged = self.fit.verdict
        lines: list[Line] = [
            self.fit.heading,
            in_file(self.table(), "predictions.csv"),
            *(f"note: {note}" for note in self.notes),
        ]
        if not judged.passed:
            lines.append(judged.line)
        return [*lines, f"seed: {self.seed}"]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return a mapping of the file name to the table."""
        return {"predictions.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the predictions as plain values, for JSON."""
        return {
            **self.fit.identity(),
            "seed": self.seed,
            "predictions": records_of(self.table()),
            "notes": list(self.notes),
        }


def cell_text(cell: Any) -> str:
    """Return a cell of a table as text: 3 for 3.0, and other numbers to six significant digits."""
    if not isinstance(cell, float) and not _WHOLE.fullmatch(str(cell)):
        return label_text(cell)
    number = float(cell)
    if number.is_integer():
        return number_text(number)
    return f"{number:.6g}"


_WHOLE = re.compile(r"-?\d{1,15}\.0+")
"""An integer written with a decimal point, as in a column with a missing cell."""


@dataclass(frozen=True, eq=False)
class RowSets:
    """Sets of rows over which predictions are averaged.

    Attributes
    ----------
    index : Index
        The names of the sets.
    codes : array of int, shape (N,)
        The position of each row's set in `index`.
    shares : array, shape (N,)
        The weight of each row in the average of its set; the weights of a set sum to 1.
    """

    index: pd.Index
    codes: NDArray[np.int64]
    shares: NDArray[np.float64]

    def average(self, blocks: Iterator[tuple[slice, NDArray[np.float64]]]) -> Any:
        """Return the weighted averages over each set, shape (chain, draw, set).

        The argument yields slices of rows, and their values of shape (chain, draw, row).
        """
        total: Any = 0.0
        for rows, values in blocks:
            codes = self.codes[rows]
            matrix = np.zeros((len(codes), len(self.index)))
            matrix[np.arange(len(codes)), codes] = self.shares[rows]
            total = total + values @ matrix
        return total


def names_in(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one name, or several, as a tuple without duplicates."""
    if isinstance(by, str):
        return (by,)
    return tuple(dict.fromkeys(by or ()))


def row_sets(
    table: Table,
    by: str | Sequence[str] | None,
    weights: str | None,
    *,
    is_of_fit: bool = False,
) -> RowSets:
    """Return the sets of rows that have the same labels in some columns.

    Parameters
    ----------
    table : Table
        The rows.
    by : str or sequence of str, optional
        The columns. Default: all rows are one set.
    weights : str, optional
        A column with a nonnegative weight for each row. Default: equal weights.
    is_of_fit : bool
        Whether the table belongs to a fit, which keeps only the columns that it uses.

    Raises
    ------
    ConfigError
        If `by` or `weights` contains anything other than names of columns.
    DataError
        If there is no such column, a weight is negative, or all rows of a set have weight 0.
    """
    columns = names_in(by)
    read = [*columns]
    if weights is not None:
        read.append(weights)
    for name in read:
        if not isinstance(name, str):
            raise ConfigError(
                f"by=… and weights=… take names of columns, got {type(name).__name__}"
            )
    for column in filter(None, read):
        if is_of_fit and column not in table.cells:
            whole = next((name for name in table.cells if column in name.split(":")), "")
            kept = "does not use this column and has not kept it"
            hint = f" ({hint_of(column, table.cells)})"
            if whole:
                kept, hint = f"has kept this column only as part of {whole}", ""
            raise DataError(
                f"{column}: the fit {kept}; "
                + worded("give a table with this column as --new TABLE")
                + hint
            )
    codes, index = np.zeros(len(table), dtype=np.int64), pd.Index(["all"], name="rows")
    if columns:
        labels = [_by_level(table, column) for column in columns]
        several = np.stack([each.codes for each in labels], axis=1)
        different, codes = np.unique(several, axis=0, return_inverse=True)
        codes = codes.ravel()  # only NumPy 2.0 returns a column
        texts = [[cell_text(name) for name in its.names] for its in labels]
        # Labels with the same text, such as 1 and 1.0, keep their names.
        shown = [
            its.names if len(set(text)) < len(text) else text
            for text, its in zip(texts, labels, strict=True)
        ]
        names = [tuple(its[i] for its, i in zip(shown, row, strict=True)) for row in different]
        titles = list(map(title_of, columns))
        index = pd.MultiIndex.from_tuples(names, names=titles)
        if len(columns) == 1:
            index = index.get_level_values(0)
    weight = np.ones(len(table))
    if weights is not None:
        weight = table.numbers(weights)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise DataError(
            f"{table.where(row)}: {weights} is {weight[row]:g}, but weights must be at least 0"
        )
    weight = weight / (weight.max() or 1.0)  # so that no sum is infinite
    total = np.bincount(codes := codes.ravel(), weight, len(index))
    if not (total > 0).all():
        which = index[int(np.argmin(total > 0))]
        raise DataError(
            f"{table.source}: {weights} is 0 in all rows of {which}; leave these rows out"
        )
    return RowSets(index, codes, weight / total[codes])


def _by_level(table: Table, column: str) -> Labels:
    """Return a column as labels: factors in the order of their levels, numbers by value."""
    found = table.labels(column, order="value", order_asked=False)
    if has_order(found.names) and column not in table.levels:
        return found
    names = sorted(found.names, key=(table.levels.get(column) or sorted(found.names)).index)
    place = np.array([names.index(name) for name in found.names])
    return Labels(column, tuple(names), place[found.codes])


def in_blocks(
    predictor: Predictor, function: Callable[[Predictor], T]
) -> Iterator[tuple[slice, T]]:
    """Apply a function to blocks of rows on all cores, and yield blocks and results in order."""
    num, size = len(predictor.rows), max(1, LARGEST_BLOCK // prod(predictor.lead))
    blocks = [slice(begin, min(begin + size, num)) for begin in range(0, num, size)]
    tasks = [lambda rows=rows: function(predictor.at(rows)) for rows in blocks]
    yield from zip(blocks, in_order(tasks), strict=True)


@dataclass(frozen=True, eq=False, repr=False)
class RowPredictions(Result):
    """Predictions of the rows of a table, or of averages over them.

    Attributes
    ----------
    fit : Fit
        The fit.
    predictor : Predictor
        The rows, and how they are predicted.
    kind : str
        ``expected`` (value), ``linear`` (predictor), ``observation`` or ``probability``.
    sets : RowSets or None
        The sets of rows that are averaged; None for predictions of single rows.
    weights : str or None
        The column that weights the rows in the averages.
    parameter : str or None
        The parameter of the family that is predicted; None for the response.
    outcomes : tuple of Outcome
        The events whose probabilities are predicted; empty for other kinds.
    pooled : PooledFit or None
        The fits to completed tables from which the predictions are pooled; `fit` is then the first.
    tables : tuple of RowPredictions
        The predictions of each completed table; empty for a single fit.

    See Also
    --------
    pyflowers.predict : Compute predictions.
    pyflowers.plots.predictions : Draw them.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> table = pd.DataFrame({"plant": ["2", "3"]})
    >>> found = pyflowers.predict(fit, table, kind="observation")
    >>> found.table()[["median", "5%", "95%"]]
               median   5%   95%
    row plant
    1   2         2.0  0.0   6.0
    2   3         8.0  3.0  13.0
    >>> found.draws().shape
    (4, 1000, 2)
    >>> found.save("predictions.nc")
    """

    holds: ClassVar[str] = "predictions"

    fit: Fit
    predictor: Predictor
    kind: Kind
    sets: RowSets | None = None
    weights: str | None = None
    parameter: str | None = None
    outcomes: tuple[Outcome, ...] = ()
    pooled: PooledFit | None = None
    tables: tuple[RowPredictions, ...] = ()

    def draws(self) -> xr.DataArray:
        """Return the draws, shape (chain, draw, row) or (chain, draw, set of rows).

        Probabilities have the shape (chain, draw, outcome, row or set of rows). Draws of completed
        tables are appended as further chains.
        """
        import xarray as xr

        if self.sets is not None:
            dim, index = self.sets.index.name or "set", self.sets.index
        else:
            dim, index = "row", pd.Index(self._table.rows)
        labels = [", ".join(each) if isinstance(each, tuple) else each for each in index]
        dim = free_name(str(dim), {"chain", "draw", "outcome", *KINDS})
        values = [self._values(each) for each in self._events]
        if not self.outcomes:
            return xr.DataArray(values[0], {dim: labels}, ("chain", "draw", dim), self.kind)
        coords = {"outcome": list(map(str, self.outcomes)), dim: labels}
        dims = ("chain", "draw", "outcome", dim)
        return xr.DataArray(np.stack(values, axis=2), coords, dims, self.kind)

    @property
    def _events(self) -> tuple[Outcome | None, ...]:
        """The outcomes whose probabilities are predicted; for other kinds, a single None."""
        return self.outcomes or (None,)

    def _predictor(self, outcome: Outcome | None) -> Predictor:
        """Return the predictor, for one outcome unless it is None."""
        if outcome is None:
            return self.predictor
        return replace(self.predictor, outcome=outcome)

    def _blocks(self, outcome: Outcome | None) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the draws for blocks of rows, with completed tables as further chains."""
        if not self.tables:
            yield from in_blocks(self._predictor(outcome), KINDS[self.kind])
            return
        of_tables = (each._blocks(outcome) for each in self.tables)
        for blocks in zip(*of_tables, strict=True):
            yield blocks[0][0], np.concatenate([values for _, values in blocks])

    def _values(self, outcome: Outcome | None) -> NDArray[np.float64]:
        """Return the draws for each row, or for each set of rows."""
        if self.sets is None:
            return np.concatenate([block for _, block in self._blocks(outcome)], axis=2)
        if not self.tables:
            return np.asarray(self.sets.average(self._blocks(outcome)))
        return np.concatenate([each._values(outcome) for each in self.tables])

    def save(self, path: str | Path) -> None:
        """Write the draws to the group ``predictions`` of a netCDF file.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced.

        Raises
        ------
        FitError
            If the disk has no room for the draws.
        """
        import h5netcdf

        if self.sets is not None or self.outcomes or self.tables:
            Path(path).write_bytes(to_bytes({"predictions": self.draws().to_dataset()}))
            return
        sizes = dict(zip(("chain", "draw", "row"), (*self.predictor.lead, self.num), strict=True))
        size = 8 * prod(sizes.values())
        # If a write fails halfway, the netCDF library may end the process.
        if shutil.disk_usage(Path(path).parent).free < 1.05 * size:
            raise FitError(
                f"{path}: the draws need {size / 1e9:.1f} GB, which is more than the disk has "
                "free; free some space"
            )
        with h5netcdf.File(path, "w") as file:
            node = file.create_group("predictions")
            node.dimensions = sizes
            node.create_variable("row", ("row",), data=self._table.rows)
            made = node.create_variable(self.kind, tuple(sizes), dtype=np.float64)
            for rows, values in in_blocks(self.predictor, KINDS[self.kind]):
                made[:, :, rows] = values

    def table(self) -> pd.DataFrame:
        """Return the median, two intervals and the Monte Carlo error of each row or each average.

        Rows keep the order of the table. The index contains their numbers in the table and the
        columns on which the prediction depends. For completed tables, it contains only columns
        that are the same in all of them, and ``between`` is the share of the variance that lies
        between the tables.
        """
        return self._summaries

    @property
    def num(self) -> int:
        """The number of rows."""
        return len(self.predictor.rows)

    @property
    def _table(self) -> Table:
        assert self.predictor.rows.table is not None
        return self.predictor.rows.table

    @cached_property
    def _summaries(self) -> pd.DataFrame:
        found = [self._summary(each) for each in self._events]
        if not self.outcomes:
            return found[0]
        # The outcomes of a row are consecutive.
        num, texts = len(found[0]), list(map(str, self.outcomes))
        order = np.arange(num * len(texts)).reshape(len(texts), num).T.ravel()
        index = found[0].index.repeat(len(texts))
        levels = [index.get_level_values(i) for i in range(index.nlevels)]
        names = [*index.names, "outcome"]
        several = pd.MultiIndex.from_arrays([*levels, texts * num], names=names)
        return pd.concat(found).iloc[order].set_axis(several)

    def _summary(self, outcome: Outcome | None) -> pd.DataFrame:
        """Return the table of one outcome."""
        if self.sets is not None:
            return pd.DataFrame(self._columns(self._values(outcome)), self.sets.index)
        if self.tables:
            found = [self._columns(values) for _, values in self._blocks(outcome)]
        else:
            of_rows = KINDS[self.kind]
            parts = in_blocks(self._predictor(outcome), lambda each: self._columns(of_rows(each)))
            found = [each for _, each in parts]
        columns = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        cells = {name: self._cells(name) for name in self.predictor.rows.columns}
        cells = {
            title_of(name): shown
            for name, shown in cells.items()
            if all(each._cells(name) == shown for each in self.tables)
        }
        index = pd.Index(self._table.rows, name="row")
        if cells:
            index = pd.MultiIndex.from_frame(pd.DataFrame({"row": self._table.rows, **cells}))
        return pd.DataFrame(columns, index)

    def _cells(self, name: str) -> list[str]:
        """Return the cells of a column as text."""
        return [cell_text(cell) for cell in self._table.column(name).tolist()]

    def _columns(self, draws: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return the columns of the table for draws of shape (chain, draw, value)."""
        describe = partial(summary, interval=self.fit.interval)
        columns = describe(draws)
        if self.tables:
            columns |= pooled_columns(draws, len(self.tables), describe)
        return columns

    def files(self) -> dict[str, pd.DataFrame]:
        """Return a mapping of the file name to the table."""
        return {"predictions.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the predictions as plain values, for JSON."""
        return {
            **self.fit.identity(),
            "seed": self.predictor.seed,
            "of": self.kind,
            **({"parameter": self.parameter} if self.parameter else {}),
            **({"tables": len(self.tables)} if self.tables else {}),
            "groups": self.predictor.groups,
            "predictions": records_of(self.table()),
        }

    def contents(self) -> list[Line]:
        """Return the predicted quantity, the table, and the fit's verdict if it is negative."""
        asked, one = self.pooled or self.fit, "a new observation"
        judged = asked.verdict
        if self.sets is not None:
            one = "new observations"
        linear = "linear predictor"
        if self.parameter:
            linear = f"linear predictor of {self.parameter}"
        what = {
            "expected": self.parameter or f"expected {self.fit.data.scored_name}",
            "linear": linear,
            "observation": f"{one} of {self.fit.data.scored_name}",
            "probability": f"probability of each {what_of_outcomes(self.fit)}",
        }[self.kind]
        of_groups = {
            "data": "",
            "none": ", with the effects of groups at their mean",
            "population": ", integrated over the population of groups",
        }[self._groups]
        of_response = self.kind in ("expected", "observation") and not self.parameter
        of_response = of_response and not self.outcomes  # counts of categories
        if self.fit.model.has_trials and of_response:
            what += OF_TRIALS
        of = " of"
        if self.sets is not None:
            what, of = f"average of {what}", ", over"
        if self.weights:
            what += f", weighted by {self.weights}"
        lines: list[Line] = [
            asked.heading,
            f"{what}{of} {self._source}{of_groups}",
            in_file(self.table(), "predictions.csv"),
        ]
        if self.predictor.new_labels:
            new = (
                f"{self.fit.model.column_of(index)} {shortened(labels, 5)}"
                for index, labels in self.predictor.new_labels.items()
            )
            lines.append(
                "note: these labels are not in the fit, so their effects are drawn from the "
                f"population: {', '.join(new)}"
            )
        if self.kind == "expected" and not self.parameter:
            lines += _about_mean(self.fit)
        if not judged.passed:
            lines.append(judged.line)
        return [*lines, f"seed: {self.predictor.seed}"]

    @property
    def _source(self) -> str:
        """The rows, in words."""
        rows = counted(self.num, "row")
        if self.tables and self._table is self.fit.data.table:
            return f"{rows} of each of {len(self.tables)} completed tables"
        return f"{rows} of {self._table.source}"

    @property
    def _groups(self) -> str:
        """How the effects of groups are treated; ``data`` if there are none."""
        if self.fit.model.has_effects:
            return self.predictor.groups
        return "data"


def _of_tables(fit: PooledFit, found: list[Predictions | RowPredictions]) -> RowPredictions:
    """Pool the predictions of rows from the fits to several completed tables."""
    of_rows = [each for each in found if isinstance(each, RowPredictions)]
    if len(of_rows) < len(found):
        raise ConfigError(
            "predict: only predictions of rows can be pooled; "
            + worded("give --new TABLE, or --kind KIND to predict the rows of the completed tables")
        )
    first = of_rows[0]
    for number, each in enumerate(of_rows[1:], 2):
        if each._table.rows.tolist() != first._table.rows.tolist():
            raise DataError(
                f"predict: tables 1 and {number} have different rows; give the rows to predict as "
                + worded("one table, --new TABLE")
            )
        if first.sets is not None and each.sets is not None:
            apart = each.sets.index.symmetric_difference(first.sets.index)
            if len(apart):
                label = ", ".join(map(str, apart.to_frame().iloc[0]))
                raise DataError(
                    f"predict: tables 1 and {number} have different labels by which rows are "
                    f"averaged, such as {label}; average by columns that are not imputed"
                )
    return replace(first, pooled=fit, tables=tuple(of_rows))


@of_each_table(_of_tables)
def predict(
    fit: Fit | PooledFit,
    new: Any = None,
    *,
    kind: Kind | None = None,
    groups: Groups | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    parameter: str | None = None,
    outcome: Any = None,
    grid: Any = None,
    balanced: bool = False,
    seed: int | None = None,
    interval: float | None = None,
    **reading: Any,
) -> Predictions | RowPredictions:
    """Predict the rows of a table or, without one, each group's next observation and a new group.

    Parameters
    ----------
    fit : Fit or PooledFit
        A fit whose program declares ``[prediction]``, as every formula does, or, if no rows are to
        be predicted, has ``y_new``. The predictions of rows from the fits to several completed
        tables are pooled.
    new : path, DataFrame or Table, optional
        The rows to predict, with every column that the program reads except the observed one.
        Default: the fit's rows if `kind`, `by` or `weights` is given, or the program declares
        ``[prediction]`` and has no ``y_new``; otherwise no table.
    kind : str, optional
        ``expected`` for the expected value, ``linear`` for the linear predictor, ``observation``
        for a new observation, or ``probability`` for the probabilities of outcomes if the response
        is a rating, a number of successes, a count or a category. Default: ``probability`` for
        categories or if `outcome` is given; otherwise ``expected``.
    groups : str, optional
        ``data``: each row has the effects of its group. The effects of a label that is not in
        the fit are drawn from their population, once per draw for all rows with the label.
        ``none``: the effects are at the mean of their population. ``population``: the effects are
        integrated over their population, so that a row represents all possible groups. Default:
        ``data``; for a grid that does not name all columns of groups, ``none``.
    by : str or sequence of str, optional
        Average over the rows that have the same labels in these columns.
    weights : str, optional
        A numeric column with the weight of each row in the averages, such as the number of people
        in a census whom the row represents.
    parameter : str, optional
        A parameter of the family, such as ``sigma``, to be predicted instead of the response.
    outcome : str, number or sequence, optional
        The outcomes whose probabilities are predicted, such as ``"> 0"``, ``"<= 2"`` or ``3``.
        Default: each rating or category; ``1`` for a response of 0 and 1; ``> 0`` for counts.
    grid : str or mapping, optional
        Predict all combinations of values of some columns, such as ``"x = 0:10:5, f = *"``, with
        the other columns held fixed, instead of the rows of a table; see :func:`pyflowers.grid`.
    balanced : bool
        Whether the grid also contains all levels of the other factors, and both values of columns
        with two distinct numbers; without `grid`, a grid of the values of all factors and all such
        columns is used. Predictions are then averaged over these values, with equal weights, unless
        `by` is given.
    seed : int, optional
        Seed of the predictions. Default: the fit's seed. Each new label and each row has separate
        random numbers, so that the prediction of a row does not depend on the other rows or on
        their order. The seed has no effect on ``y_new`` and ``y_new_group`` if a program draws
        them in Stan.
    interval : float, optional
        Probability of the wider interval of the table. Default: the fit's.
    **reading
        How to read a file: ``sep``, ``decimal``, ``encoding``.

    Returns
    -------
    RowPredictions or Predictions
        The draws and their table, for the rows, or for the next observation of each group and a
        new group.

    Raises
    ------
    ConfigError
        If the program does not declare how it predicts, an option is unknown, or the interval does
        not lie between 0 and 1.
    DataError
        If a cell of the table is missing or does not suit its column, or a level of a factor was
        not in the fit.

    See Also
    --------
    pyflowers.effects : Compare the predictions of each row for two values of a column.
    pyflowers.plots.predictions : Draw predictions.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> table = pd.DataFrame({"plant": ["2", "3"]})
    >>> pyflowers.predict(fit, table).table()["median"].round(1).tolist()
    [2.5, 7.8]
    >>> pyflowers.predict(fit).table().loc["next month", "median"].tolist()
    [4.0, 2.0, 8.0]
    """
    fit = checked_fits([fit], "predict")[0].with_interval(interval)
    asked = (new, kind, by, weights, parameter, outcome, grid)
    has_next = fit.program.can(Capability.Y_NEW) or not fit.model.has_rule
    if any(each is not None for each in asked) or balanced or not has_next:
        made = grid_asked(fit, new, grid, balanced)
        if made is not None:
            new = made.table
            groups = groups or ("data" if made.has_groups else "none")
            if balanced and by is None:
                by = made.named
        kind = kind or usual_kind(fit, outcome, parameter)
        groups = groups or "data"
        return _predict_rows(fit, new, kind, groups, by, weights, parameter, outcome, seed, reading)
    of_rows_only = [*reading]
    if groups not in (None, "data"):
        of_rows_only.insert(0, "groups")
    if of_rows_only:
        raise ConfigError(
            f"{of_rows_only[0]} applies only to rows of a table; "
            + worded("give --new TABLE, or --kind KIND to predict the rows of the fit")
        )
    fit.program.require(Capability.Y_NEW)
    seed = _seed_of(fit, seed)
    notes: list[str] = []
    group, next_time = "group", "new observation"
    if fit.data.group:
        group = fit.data.name_of(fit.data.group)
    if fit.data.time:
        next_time = f"next {fit.data.name_of(fit.data.time)}"
    roles = fit.program.declaration.roles
    if not fit.program.predicts_groups:
        titles = {roles.y_new: "new data", roles.y_new_group: f"new {group}"}
        parts = [
            Prediction(title, dataset({name: fit.draws[name]}, fit.data)[name])
            for name, title in titles.items()
            if name in fit.draws
        ]
        return Predictions(fit, tuple(parts), seed, ())
    mean = fit.posterior.data_vars.get(roles.group_mean)
    values = fit.model.next_of_groups(fit.draws, np.random.default_rng([seed, 4]))
    if mean is None:
        quantity = _labelled("y_new", values[..., 0])
    else:
        quantity = mean.copy(data=values).rename("y_new")
    parts = [Prediction(next_time, quantity)]
    if fit.program.can(Capability.NEW_GROUP):
        label, predictor = f"{NEW} {group}", fit.model.new_group(fit.draws, seed)
        try:
            values = predictor.observed()
            parts.append(Prediction(f"new {group}", _labelled("y_new", values, label)))
        except ConfigError as error:  # a parameter of a new group has a flat prior
            notes.append(f"no observation of a new {group} is predicted: {error}")
        its_mean = _labelled(roles.group_mean, predictor.expected(), label)
        parts.append(Prediction(f"mean of a new {group}", its_mean))
    return Predictions(fit, tuple(parts), seed, tuple(notes))


def _predict_rows(
    fit: Fit,
    new: Any,
    kind: Kind,
    groups: Groups,
    by: str | Sequence[str] | None,
    weights: str | None,
    parameter: str | None,
    outcome: Any,
    seed: int | None,
    reading: Mapping[str, Any],
) -> RowPredictions:
    """Predict the rows of a table; see :func:`predict`."""
    if kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if fit.model.has_columns and parameter is None and kind in ("expected", "observation"):
        named = _categories_of(fit, outcome)
        outcomes = tuple(replace(each, is_counted=True) for each in named)
    else:
        outcomes = outcomes_of(fit, kind, outcome, parameter)
    if parameter is not None and kind == "observation":
        raise ConfigError(
            f"kind 'observation' applies only to the response, not to {parameter}; choose another "
            "kind, or leave out the option parameter"
        )
    predictor = predictor_of(fit, new, groups, seed, reading, kind, parameter)
    table = predictor.rows.table
    assert table is not None
    averaged = by is not None or weights is not None
    return RowPredictions(
        fit,
        predictor,
        kind,
        row_sets(table, by, weights, is_of_fit=new is None) if averaged else None,
        weights,
        parameter,
        outcomes,
    )


def what_of_outcomes(fit: Fit) -> str:
    """Return the words for what has a probability, such as ``outcome of y``."""
    if fit.model.has_categories:
        return f"category{_of_response(fit)}"
    return f"outcome of {fit.data.scored_name}"


def _of_response(fit: Fit) -> str:
    """Return words such as `` of y``; empty if each category has a column of counts."""
    return "" if fit.model.has_columns else f" of {fit.data.category_name}"


def _about_mean(fit: Fit) -> Iterator[str]:
    """Yield a note on the option for predicting the modelled quantity, if this is not the mean."""
    if fit.model.has_rule and fit.model.family.instead_of_mean:
        own = fit.model.family.link_in_words.format(fit.data.value_name)
        yield f"note: this is the mean; {worded('--kind linear')} predicts the {own}"


def usual_kind(fit: Fit, outcome: Any, parameter: str | None) -> Literal["expected", "probability"]:
    """Return the default kind of prediction.

    Raises
    ------
    ConfigError
        If outcomes of the response are requested, but a parameter is predicted.
    """
    if outcome is not None and parameter is not None:
        raise ConfigError(
            f"the option outcome applies only to the response, not to {parameter}; leave out the "
            "option outcome or the option parameter"
        )
    of_categories = fit.model.has_categories and parameter is None
    return "probability" if of_categories or outcome is not None else "expected"


def title_of(column: str) -> str:
    """Return the title of a user's column in tables of predictions and effects."""
    title = free_name(column, OF_TABLES)
    if _QUANTILE.fullmatch(title):
        return f"{title}_"
    return title


def grid_asked(fit: Fit, new: Any, grid: Any, balanced: bool) -> Grid | None:
    """Return the rows of the requested grid; None if no grid is requested."""
    if grid is None:
        if not balanced:
            return None
        grid = {}
    if new is not None:
        asked = "--grid GRID"
        if balanced:
            asked = "--balanced"
        raise ConfigError(
            worded(f"{asked} and --new TABLE both give the rows to predict; leave out one of them")
        )
    return grid_of(fit, grid, balanced=balanced)


def outcomes_of(
    fit: Fit, kind: str, outcome: Any, parameter: str | None = None
) -> tuple[Outcome, ...]:
    """Return the outcomes whose probabilities are requested; none for other kinds.

    Raises
    ------
    ConfigError
        If the response has no probabilities, or an outcome is not valid.
    """
    model = fit.model
    if model.has_categories and parameter is None and kind != "probability":
        one = model.family.predictors[0]
        raise ConfigError(
            f"kind {kind!r}: the categories{_of_response(fit)} have no order, "
            "so there is nothing to average; use kind 'probability', or choose a linear predictor, "
            + worded(f"such as --parameter {one}")
        )
    if kind != "probability":
        if outcome is not None:
            raise ConfigError(
                f"the option outcome applies only to kind 'probability', not to kind {kind!r}; "
                "leave out the option outcome or the option kind"
            )
        return ()
    if parameter is not None:
        raise ConfigError(
            f"kind 'probability' applies only to the response, not to {parameter}; choose another "
            "kind, or leave out the option parameter"
        )
    family = fit.model.family
    if not family.is_discrete:
        raise ConfigError(
            f"kind 'probability' needs ratings, successes or counts, but family {family.name} "
            "describes real numbers; use kind 'observation', and compute the probability from the "
            "draws"
        )
    scores = fit.data.scores
    if model.has_categories:
        return _categories_of(fit, outcome)
    if outcome is None:
        if scores is not None:
            outcome = scores.tolist()
        elif family.is_ordinal:
            outcome = range(1, fit.draws["threshold"].shape[2] + 2)
        else:
            outcome = "= 1" if family.limits[1] == 1 else "> 0"
    if isinstance(outcome, str) or np.ndim(outcome) == 0:
        outcome = (outcome,)
    labels = _labels_of_ratings(fit)
    found = tuple(dict.fromkeys(Outcome.of(each, labels) for each in outcome))
    if not found:
        raise ConfigError("outcome is empty; give at least one, such as '> 0'")
    return found


def _labels_of_ratings(fit: Fit) -> tuple[str, ...]:
    """Return the labels of ratings in their order; none if ratings are numbers."""
    ratings = fit.data.labels.get(fit.data.value)
    if ratings is None or not np.isnan(list(map(number_of, ratings.names))).all():
        return ()
    return ratings.names


def _categories_of(fit: Fit, outcome: Any) -> tuple[Outcome, ...]:
    """Return the requested categories, by default all."""
    names = fit.model.categories
    if outcome is None:
        outcome = names
    if isinstance(outcome, str) or np.ndim(outcome) == 0:
        outcome = (outcome,)
    found = list[Outcome]()
    for each in dict.fromkeys(map(str, outcome)):
        label = each if each in names else each.removeprefix("=").removeprefix("=").strip()
        if label not in names:
            raise ConfigError(
                f"outcome {each!r} is not a category{_of_response(fit)}; {suggestion(label, names)}"
            )
        found.append(Outcome("=", names.index(label) + 1.0, label))
    if not found:
        raise ConfigError(f"outcome is empty; give at least one, such as {names[0]!r}")
    return tuple(found)


def predictor_of(
    fit: Fit,
    new: Any = None,
    groups: Groups = "data",
    seed: int | None = None,
    reading: Mapping[str, Any] | None = None,
    kind: Kind = "expected",
    parameter: str | None = None,
    *,
    is_varying: bool = False,
) -> Predictor:
    """Return the predictor of the rows of a table, by default of the fit's rows.

    For the `kind` ``linear``, the rows need no trials. If `is_varying`, labels may be given their
    own effects later. With a `parameter`, that parameter of the family is predicted.
    """
    if groups not in GROUPS:
        raise ConfigError(f"groups must be one of {', '.join(GROUPS)}, got {groups!r}")
    _refuse_other_density(fit)
    return fit.model.of_parameter(parameter).predictor_of(
        fit.draws,
        new,
        seed=_seed_of(fit, seed),
        groups=groups,
        reading=reading,
        is_linear=kind == "linear" or (kind == "probability" and fit.model.has_columns),
        is_varying=is_varying,
        is_observed=kind == "observation",
    )


def _refuse_other_density(fit: Fit) -> None:
    """Reject a prediction rule whose log likelihood differs from the program's."""
    name = fit.program.declaration.roles.log_lik
    theirs = fit.draws.get(name)
    if fit.model.evaluates or theirs is None or fit.data.table is None:
        return
    step = max(1, theirs.shape[1] // 3)
    few = {each: values[:, ::step] for each, values in fit.draws.items()}
    ours = fit.model.predictor(few).log_lik(fit.data.y)
    theirs = few[name].reshape(ours.shape)
    # A program may omit constants, so only differences between draws are compared.
    apart = np.abs((ours - ours[:1, :1]) - (theirs - theirs[:1, :1]))
    wrong = (apart > 1e-6 * (1 + np.abs(ours))) & ~fit.model.is_marked
    if wrong.any():
        row = int(np.argwhere(wrong)[0][2])
        raise ConfigError(
            f"[prediction] in {fit.program.declared_in} gives a density that differs from the "
            f"program's {name}, for example for {fit.data.where(row)}; correct the keys "
            "'family', 'linear_predictor' or 'where', or set the key 'censored' to a variable "
            "that marks censored rows (see the guide to editing a program)"
        )


def _labelled(name: str, values: Any, *groups: str) -> xr.DataArray:
    """Return draws of a single number or of labelled groups as a DataArray."""
    import xarray as xr

    if groups:
        return xr.DataArray(values, {"group": list(groups)}, ("chain", "draw", "group"), name)
    return xr.DataArray(values, None, ("chain", "draw"), name)


def _seed_of(fit: Fit, seed: int | None) -> int:
    """Return a seed after checking it; by default, the fit's seed."""
    if seed is None:
        return fit.options.seed
    return SamplerOptions.of(seed=seed).seed


def _summary(part: Prediction, interval: float) -> pd.DataFrame:
    columns = summary(np.asarray(flat(part.quantity), dtype=np.float64), interval)
    index = pd.MultiIndex.from_product(
        [[part.title], element_names(part.quantity)], names=["prediction", "value"]
    )
    return pd.DataFrame(columns, index=index)


def summary(draws: NDArray[np.float64], interval: float) -> dict[str, NDArray[np.float64]]:
    """Return the median of predictions, its Monte Carlo error, and the intervals.

    Parameters
    ----------
    draws : array, shape (chain, draw, value)
        The draws. If they are integers, each quantile is one of the draws.
    interval : float
        Probability of the wider interval.
    """
    probs = interval_quantiles(INNER, interval)
    levels = list(probs.values())
    if np.all(draws == np.floor(draws)):
        quantiles = np.quantile(draws, levels, axis=(0, 1), method="inverted_cdf")
    else:
        quantiles = convergence.quantiles(draws, levels)
    mcse = convergence.mcse_quantile(draws, 0.5)
    return {**dict(zip(probs, quantiles, strict=True)), "mcse": mcse}
