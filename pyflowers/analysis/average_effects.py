"""Average effects: how the expected response changes with a column, averaged over rows.

An average comparison predicts every row twice, with two values of the column, and averages the
differences over the rows. An average slope averages derivatives. Both are computed in every draw,
which gives draws from their posterior.

References
----------
Gelman and Pardoe (2007), Average predictive comparisons for models with nonlinearity, interactions,
and variance components, Sociological Methodology 37(1), section 2; Arel-Bundock, Greifer and Heiss
(2024), How to interpret statistical models using marginaleffects for R and Python, Journal of
Statistical Software 111(9), sections 4 and 5, for comparisons, slopes and their averages.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.contrasts import number_columns
from pyflowers.analysis.predictions import (
    OF_TRIALS,
    RowSets,
    in_blocks,
    predictor_of,
    row_sets,
)
from pyflowers.data import Table
from pyflowers.data.columns import as_written, number_text
from pyflowers.display import Line, Result, heading, in_file, records_of
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.programs.data import as_table
from pyflowers.programs.prediction import Groups, Predictor

if TYPE_CHECKING:
    import xarray as xr

FloatArray = NDArray[np.float64]

Scale = Literal["difference", "ratio", "odds ratio"]
SCALES = ("difference", "ratio", "odds ratio")

BOTH = "both"
"""Effects in the population of groups and for the groups of the rows."""

EITHER = "either"
"""Label of an effect that is the same in the population and for the groups of the rows."""

MOST_INTEGRATED = 1_000_000
"""The largest number of different rows times draws for which the groups of a response with a logit
link are integrated out unless the user asks for it."""

FEWEST_DRAWS = 500
"""The smallest number of draws, in all chains, to which this limit reduces them."""

STEP = 0.01
"""Distance between a derivative's nodes, in sds of the column; the derivative then has a relative
error of about 1e-13."""

NUM_NODES = 7

_LIMITED = {"log", "log2", "log10", "sqrt", "**", "/"}
"""Functions that may be undefined at 0 or on one side of it."""


@dataclass(frozen=True, eq=False)
class Change:
    """A change in a column, and the values of the column at which rows are predicted.

    Attributes
    ----------
    column : str
        The column's name in the user's table.
    label : str
        The change, such as ``treated - control``.
    words : str
        The change as part of a sentence, such as ``for group = treated compared with
        control``.
    values : tuple of array, shape (N,)
        Values of the column: the new values and then the old ones, or the nodes of a derivative.
    weights : tuple of array, shape (N,)
        The weights of the nodes.
    """

    column: str
    label: str
    words: str
    values: tuple[NDArray[Any], ...]
    weights: tuple[FloatArray, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Result):
    """Average effects of columns on the expected response.

    Attributes
    ----------
    fit : Fit
        The fit.
    scale : str
        ``difference``, ``ratio`` or ``odds ratio``; ``slope`` for slopes.
    effects : DataArray, shape (chain, draw, effect)
        The draws. Differences are in the unit of the response; slopes are in this unit per unit
        of the column; ratios have no unit.
    index : MultiIndex
        The column and the change of each effect and, if there are several sets of rows, the labels
        of the set over which the effect is averaged.
    words : tuple of str
        The change of each effect, as part of a sentence.
    source : str
        The rows that the effects are averaged over, in words.
    weights : str or None
        The column that weights the rows.
    rope : (float, float) or None
        The ends of the region of practical equivalence, on the scale of the effects.
    drawn : tuple of str
        The groups for which some rows, before or after a change, have labels that are not in the
        fit. The effects of these labels are drawn from the population.
    groups : str
        How the effects of groups enter: ``data``, ``none``, ``population`` or, for the population
        and the data, ``both``.
    moved : tuple of str
        The groups that are defined by a changed column and others, such as ``block:variety``, if
        each row moves to the group with the new label.
    whose : mapping of str to str
        The groups that ``population`` and ``data`` stand for, in words.
    step : int
        1 if all draws are used; 4 if every fourth draw is used, and so on.

    See Also
    --------
    pyflowers.effects : Compute average effects.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> found = pyflowers.effects(fit, "dose", rope=(-1, 1))
    >>> found.table()[["median", "P(> 0)", "P(outside)"]].round(1)
                   median  P(> 0)  P(outside)
    column change
    dose   + 1        2.0     1.0         1.0
    >>> found.draws().shape
    (4, 1000, 1)
    """

    holds: ClassVar[str] = "effects"

    fit: Fit
    scale: str
    effects: xr.DataArray
    index: pd.MultiIndex
    words: tuple[str, ...]
    source: str
    weights: str | None = None
    rope: tuple[float, float] | None = None
    drawn: tuple[str, ...] = ()
    groups: str = "data"
    moved: tuple[str, ...] = ()
    whose: Mapping[str, str] = field(default_factory=dict)
    step: int = 1

    @property
    def null(self) -> float:
        """The value that means no effect: 1 for ratios, 0 otherwise."""
        return 1.0 if "ratio" in self.scale else 0.0

    @property
    def is_of_data(self) -> NDArray[np.bool_]:
        """Whether each effect is that for the groups of the rows, beside that in the population."""
        if self.groups != BOTH:
            return np.zeros(len(self.index), dtype=bool)
        return np.asarray(self.index.get_level_values("groups") == "data")

    def draws(self) -> xr.DataArray:
        """Return the draws, shape (chain, draw, effect)."""
        return self.effects

    def table(self) -> pd.DataFrame:
        """Return the median, intervals, Monte Carlo errors and probability of each effect.

        The column ``P(> 0)``, or ``P(> 1)`` for ratios, is the share of draws above this value; a
        share of 1 means every draw. With a region of practical equivalence, ``P(outside)`` is the
        share of draws outside it.
        """
        values = self.effects.values
        columns = number_columns(values, self.fit.interval)
        columns[f"P(> {self.null:g})"] = (values > self.null).mean(axis=(0, 1))
        if self.rope is not None:
            low, high = self.rope
            columns["P(outside)"] = ((values < low) | (values > high)).mean(axis=(0, 1))
        return pd.DataFrame(columns, self.index)

    @property
    def of_trials(self) -> str:
        """The unit of numbers of successes, in words; empty for other responses."""
        return OF_TRIALS if self.fit.model.has_trials else ""

    @property
    def _of_groups(self) -> str:
        """For which groups the effects are, in words."""
        if self.groups == BOTH:
            return "".join(f"\n  {way}: {self.whose[way]}" for way in ("population", "data"))
        return f", {self.whose[self.groups]}" if self.groups in self.whose else ""

    @property
    def _the_change(self) -> str:
        return "the change of the effects labelled data" if self.groups == BOTH else "the change"

    def contents(self) -> list[Line]:
        """Return the averaged quantity, the table, and the fit's verdict if it is negative."""
        judged, value = self.fit.verdict, self.fit.data.scored_name
        what = f"expected {value}{self.of_trials}"
        what = {
            "odds ratio": f"odds ratio of the average probabilities of {value}",
            "ratio": f"ratio of the average {what}",
        }.get(self.scale, f"average {self.scale} of the {what}")
        what = (
            f"{what}, over {self.source}{f', weighted by {self.weights}' if self.weights else ''}"
        )
        shown = self.table()
        extra = [name for name in shown.columns if name.startswith(("mcse_", "ess"))]
        return [
            heading(self.fit.name, self.fit.program.about),
            f"{what}{self._of_groups}",
            in_file(shown.drop(columns=extra), "effects.csv"),
            *(
                f"note: some labels of {name} are not in the fit, so their effects are drawn from "
                "the population"
                for name in self.drawn
            ),
            *(
                f"note: the groups {name} depend on a changed column, so "
                f"{self._the_change} also moves each row to another observed group"
                for name in self.moved
            ),
            *(
                [
                    f"note: computed from 1 in {self.step} draws, because integrating over the "
                    "population of groups takes long; with --groups, all draws are used"
                ]
                if self.step > 1
                else []
            ),
            *([] if judged.passed else [judged.line]),
        ]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by file name."""
        return {"effects.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the effects as plain values, for JSON."""
        about = {"scale": self.scale, "rows": self.source, "groups": self.groups}
        if self.step > 1:
            about["draws used"] = f"1 in {self.step}"
        return {**self.fit.identity(), **about, "effects": records_of(self.table())}


def effects(
    fit: Fit,
    *columns: str,
    new: Any = None,
    slopes: bool = False,
    step: float | Literal["sd"] | None = None,
    between: Sequence[Any] | None = None,
    scale: Scale = "difference",
    groups: Groups | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    rope: Sequence[float] | None = None,
    seed: int | None = None,
    interval: float | None = None,
    **reading: Any,
) -> Effects:
    """Compute how the expected response changes with columns of a table, on average over its rows.

    Parameters
    ----------
    fit : Fit
        A fit to a table, of a program that declares ``[prediction]``, as every formula does.
    *columns : str
        The columns to change. Default: all covariates, but no groups, offsets or trials.
    new : path, DataFrame or Table, optional
        The rows to average over. Default: the fit's rows.
    slopes : bool
        Whether to compute derivatives with respect to numeric columns instead of comparisons.
    step : float or "sd", optional
        The increase of a numeric column, in its unit. ``sd`` compares half a standard deviation
        above each value with half a standard deviation below it, where the standard deviation is
        computed from the fit's table. Default: 1. However, a column with exactly two values is
        compared at these two values, and a column in ``bs(...)``, which cannot be extrapolated, is
        compared at its quartiles.
    between : two values, optional
        Two values of a single column. The second is compared with the first.
    scale : str
        ``difference`` of the averages, ``ratio`` of the averages, or ``odds ratio`` of the averages
        for responses with a logit link.
    groups : str, optional
        How the effects of groups enter: ``data``, ``none`` or ``population``; see
        :func:`pyflowers.predict`. Default: ``data``. However, if the effect of a column varies
        between groups, as with ``(x | g)``, it is given both in the population of groups and for
        the groups of the rows, unless `by` names a column of groups.
    by : str or sequence of str, optional
        Average separately over the rows that have the same labels in these columns. Default: one
        average over all rows.
    weights : str, optional
        A numeric column with the weight of each row, such as the number of people in a census
        whom the row represents.
    rope : two numbers, optional
        The ends of the region of practical equivalence, on the scale of the effects.
    seed : int, optional
        Seed for the effects of labels that are not in the fit. Default: the fit's seed.
    interval : float, optional
        Probability of the wider interval of the table. Default: the fit's.
    **reading
        How to read a file: ``sep``, ``decimal``, ``encoding``.

    Returns
    -------
    Effects
        The draws of each effect and their table. The levels of a factor are compared with its
        reference level.

    Raises
    ------
    ConfigError
        If there is nothing to compare, or an option does not suit the columns.
    DataError
        If the table cannot be read, or a prediction cannot be computed.

    See Also
    --------
    pyflowers.predict : Predict rows of a table.
    pyflowers.plots.conditional_effects : Draw the expected response over a column.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> pyflowers.effects(fit, "dose").table()["median"].round(1).tolist()
    [2.0]
    >>> pyflowers.effects(fit, "dose", between=(0, 5)).table()["median"].round().tolist()
    [10.0]
    """
    fit = checked_fits([fit], "effects")[0].with_interval(interval)
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    if scale not in SCALES:
        raise ConfigError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    model, family = fit.model, fit.model.family
    if scale == "ratio" and family.is_ordinal:
        raise ConfigError(
            "scale 'ratio' has no meaning for ratings, whose zero is arbitrary; use scale "
            "'difference'"
        )
    if scale == "odds ratio" and (family.link != "logit" or family.is_ordinal):
        raise ConfigError(
            "scale 'odds ratio' needs a mean with a logit link, which family "
            f"{family.name} does not have; use scale 'difference'"
        )
    if slopes and (between is not None or step is not None or scale != "difference"):
        raise ConfigError(
            "step, between and scale cannot be combined with slopes, which are derivatives; leave "
            "them out"
        )
    region = None if rope is None else _region(rope)
    if fit.data.table is None:
        raise ConfigError("effects: the model was fitted to a data block; fit it to a table")
    table = fit.data.table if new is None else as_table(new, reading)
    if table is None:
        raise DataError("new: a data block is not a table; give a file or a DataFrame")
    sets = row_sets(table, by, weights, is_of_fit=new is None)
    changes = _changes(fit, table, columns, slopes, step, between)
    # Keyed by identity, so that each changed column is parsed, and a reference level predicted,
    # only once.
    changed = {id(values): (each.column, values) for each in changes for values in each.values}
    tables = {key: table.with_cells({name: its}) for key, (name, its) in changed.items()}
    of_groups, every = model.groups.keys(), 1
    joined = [name for name in of_groups if ":" in name]
    moved = [n for n in joined if not slopes and {c.column for c in changes} & {*n.split(":")}]
    own_groups = {by} if isinstance(by, str) else {*(by or ())}
    shown: str = groups or "data"
    if groups is None and of_groups:
        varies = bool(moved) or any(_varies(fit, each, tables) for each in changes)
        shown = BOTH if varies and not own_groups & of_groups else "data"
    ways: tuple[Groups, ...] = ("population", "data") if shown == BOTH else (groups or "data",)
    if shown == BOTH and family.scale == "fixed":  # the only mean that is integrated numerically
        rows, _ = _distinct(predictor_of(fit, table, "population", seed), sets)
        num, most = fit.num_chains * fit.num_draws, MOST_INTEGRATED // len(rows.rows)
        every = max(1, num // max(FEWEST_DRAWS, most))
    drawn = dict[str, tuple[str, ...]]()
    averages = dict[tuple[int, Groups], FloatArray]()

    def average(change: Change, values: NDArray[Any], way: Groups, weight: Any = 1.0) -> FloatArray:
        # For a derivative, a row stays in its group; a comparison may move it to another.
        of_data = joined if way == "data" else []
        changed = tables[id(values)]
        if slopes:
            own = {name: table.typed(name) for name in of_data}
            changed = replace(changed, columns={**changed.columns, **own})
        for name in of_data:
            if change.column in name.split(":") and not slopes:
                changed = _with_parts(changed, name, change.column)
        try:
            predictor = predictor_of(fit, changed, way, seed)
        except DataError as error:
            predictor_of(fit, table, way, seed)  # if this succeeds, only the change is to blame
            if slopes:
                raise
            raise ConfigError(
                f"effects: no prediction can be computed for {change.column} {change.label}; "
                f"choose other values with step or between ({error})"
            ) from None
        drawn.update(predictor.new_labels)
        if every > 1:
            few = {name: its[:, ::every] for name, its in predictor.draws.items()}
            predictor = replace(predictor, draws=few)
        distinct, of_distinct = _distinct(predictor, replace(sets, shares=sets.shares * weight))
        return np.asarray(of_distinct.average(in_blocks(distinct, Predictor.expected)))

    def effect(change: Change, way: Groups) -> FloatArray:
        if slopes:
            weighted = zip(change.values, change.weights, strict=True)
            return np.asarray(sum(average(change, values, way, each) for values, each in weighted))
        for values in change.values:
            if (id(values), way) not in averages:
                averages[id(values), way] = average(change, values, way)
        one, other = (averages[id(values), way] for values in change.values)
        if scale == "difference":
            return one - other
        return _ratio(one, other, scale, _mean_trials(fit, table, sets))

    made, names, words = [], [], list[str]()
    labels = [each if isinstance(each, tuple) else (each,) for each in sets.index]
    for change in changes:
        found: dict[str, FloatArray] = {way: effect(change, way) for way in ways}
        if shown == BOTH and _same(*found.values()):
            found = {EITHER: found["population"]}
        for way, draws in found.items():
            made.append(draws)
            words += [change.words] * len(sets.index)
            of_way = (way,) if shown == BOTH else ()
            names += [(change.column, change.label, *of_way, *(e if by else ())) for e in labels]
    titles = ["column", "change"] + ["groups"] * (shown == BOTH)
    index = pd.MultiIndex.from_tuples(names, names=[*titles, *(sets.index.names if by else ())])
    return Effects(
        fit,
        "slope" if slopes else scale,
        _labelled(np.concatenate(made, axis=2), index),
        index,
        tuple(words),
        f"{len(table)} rows of {table.source}",
        weights,
        region,
        tuple(drawn),
        shown,
        tuple(moved) if "data" in ways else (),
        _whose(fit, of_new=new is not None),
        every,
    )


def _distinct(predictor: Predictor, sets: RowSets) -> tuple[Predictor, RowSets]:
    """Return predictions with equal rows of a set as one row, whose weight is their sum.

    In a table of factors, or where the groups do not enter, many rows are equal.
    """
    rows = predictor.rows
    of_rows = [its for its in rows.values.values() if np.ndim(its)]
    several = np.column_stack([sets.codes, *rows.codes.values(), *of_rows])
    _, first, place = np.unique(several, axis=0, return_index=True, return_inverse=True)
    few = replace(
        rows,
        values={name: its[first] if np.ndim(its) else its for name, its in rows.values.items()},
        codes={name: its[first] for name, its in rows.codes.items()},
        num=len(first),
        keys=[rows.keys[i] for i in first],
    )
    total = np.bincount(place.ravel(), np.broadcast_to(sets.shares, len(rows)), len(first))
    shares = np.asarray(total, dtype=np.float64)
    return replace(predictor, rows=few), replace(sets, codes=sets.codes[first], shares=shares)


def _varies(fit: Fit, change: Change, tables: Mapping[int, Table]) -> bool:
    """Return whether the effect of a change on the linear predictor depends on the group.

    It is False if groups have no normal population, over which the effect could be averaged.
    """
    ends = [tables[id(values)] for values in (change.values[0], change.values[-1])]
    try:
        one, other = (predictor_of(fit, each, "none", is_varying=True).factors() for each in ends)
    except (ConfigError, DataError):
        return False
    return not np.allclose(one, other, rtol=1e-9, atol=1e-12)


def _same(one: FloatArray, other: FloatArray) -> bool:
    """Return whether effects are equal but for rounding."""
    return np.allclose(one, other, rtol=1e-6, atol=1e-9 * float(np.abs(one).max()))


def _whose(fit: Fit, *, of_new: bool) -> dict[str, str]:
    """Return the groups for which effects are computed, in words; empty if there are none."""
    num = {
        name: len(its)
        for column, its in fit.data.labels.items()
        if (name := fit.data.name_of(column)) in fit.model.groups
    }
    if not num:
        return {}
    columns = ", ".join(num)
    these = f"for the groups of these rows ({columns})"
    if not of_new and len(num) == 1:
        these = f"for these {num[columns]} groups ({columns})"
    elif not of_new:
        these = f"for these groups ({', '.join(f'{n} of {name}' for name, n in num.items())})"
    return {
        "population": f"in the population of groups ({columns})",
        "data": these,
        "none": f"with the effects of groups ({columns}) at their mean",
    }


def _labelled(values: FloatArray, index: pd.MultiIndex) -> xr.DataArray:
    import xarray as xr

    labels = [", ".join(map(str, each)) for each in index]
    return xr.DataArray(values, {"effect": labels}, ("chain", "draw", "effect"), "effects")


def _with_parts(table: Table, name: str, changed: str) -> Table:
    """Return a table whose joined column is rebuilt from its parts, one of which has changed."""
    parts, cells = name.split(":"), dict[str, NDArray[Any]]()
    missing = [part for part in parts if part not in table.columns and part != changed]
    if missing:  # the fit kept only the joined column
        labels = [label.split(":") for label in table.texts(name).tolist()]
        if any(len(label) != len(parts) for label in labels):
            raise DataError(
                f"effects: the labels of {name} contain colons, so {changed} cannot be changed in "
                "them; pass --new (in Python, new) a table with separate columns"
            )
        cells = {
            part: np.array([label[parts.index(part)] for label in labels], dtype=object)
            for part in missing
        }
    columns = {column: its for column, its in table.columns.items() if column != name}
    return replace(table, columns=columns).with_cells(cells)


def _region(rope: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = map(float, rope)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low < high:
        raise ConfigError(f"rope takes two numbers, the smaller first, got {rope!r}")
    return low, high


def _ratio(one: FloatArray, other: FloatArray, scale: str, trials: FloatArray) -> FloatArray:
    """Return the ratio of averages, or of their odds."""
    if scale == "odds ratio":
        one, other = one / trials, other / trials
        return np.asarray(one * (1 - other) / (other * (1 - one)))
    if (one <= 0).any() or (other <= 0).any():
        raise ConfigError("scale 'ratio' needs expected values above 0; use scale 'difference'")
    return one / other


def _mean_trials(fit: Fit, table: Table, sets: RowSets) -> FloatArray:
    """Return the average number of trials in each set of rows; 1 for families without trials."""
    model = fit.model
    if not model.has_trials:
        return np.ones(len(sets.index))
    fixed = np.full(len(table), model.fixed_trials)
    trials = table.numbers(model.trials) if model.trials else fixed
    values = trials * sets.shares
    return np.asarray(np.bincount(sets.codes, values, len(sets.index)), dtype=np.float64)


# The changes


def _changes(
    fit: Fit,
    table: Table,
    columns: Sequence[str],
    slopes: bool,
    step: float | str | None,
    between: Sequence[Any] | None,
) -> list[Change]:
    """Return the changes in the chosen columns, by default in all covariates."""
    every = fit.model.covariates_and_offsets
    of_group = fit.model.groups.keys() - every.keys()
    wanted = list(columns) or list(fit.model.covariates)
    if not wanted:
        remedy = "compare groups with contrast" if of_group else "add a covariate to the model"
        remedy = f"name a column of an offset: {', '.join(every)}" if every else remedy
        raise ConfigError(
            f"effects: {fit.name} has no covariates other than groups, offsets and trials; {remedy}"
        )
    for column in wanted:
        if column in of_group:
            raise ConfigError(
                f"effects: {column} is a group; compare its labels with contrast, or average the "
                f"effects of other columns over the rows of each label with by (--by {column})"
            )
        if column not in every:
            raise ConfigError(
                f"effects: {column!r} is not a covariate of {fit.name}; its covariates are "
                f"{', '.join(every) or 'none'}"
            )
    if between is not None and len(wanted) != 1:
        raise ConfigError("between compares two values of one column; name that column")
    levels = fit.model.levels
    found: list[Change] = []
    for column in wanted:
        functions = every[column]
        if column not in levels:
            of_column = _of_numbers(fit, table, column, functions, slopes, step, between)
            found.append(of_column)
        elif slopes or (columns and step is not None):
            if columns:
                option = "--slopes" if slopes else "--step"
                raise ConfigError(
                    f"effects: {option} does not apply to {column}, which is a factor; leave "
                    f"{option} out"
                )
        else:
            found += _of_levels(fit, table, column, functions, levels[column], between)
    if not found:
        raise ConfigError("slopes: no covariate is numeric; leave --slopes out")
    return found


def _of_levels(
    fit: Fit,
    table: Table,
    column: str,
    functions: Mapping[str, ast.expr],
    levels: Sequence[str],
    between: Sequence[Any] | None,
) -> list[Change]:
    """Return the comparisons of a factor's levels with its reference level."""
    assert fit.data.table is not None
    is_text = fit.data.table.is_factor(column)
    base = _reference_of(functions.get("C")) or levels[0]
    pairs = [(level, base) for level in levels if level != base]
    if between is not None:
        if isinstance(between, str) or len(between) != 2:
            raise ConfigError(f"between takes two levels of {column}, got {between!r}")
        asked = [number_text(v) if isinstance(v, float) else str(v) for v in between]
        base, level = as_written(asked, levels)
        unknown = next((each for each in (base, level) if each not in levels), None)
        if unknown is not None:
            raise ConfigError(
                f"between: {unknown!r} is not a level of {column}; choose two of "
                f"{', '.join(levels)}"
            )
        pairs = [(level, base)]

    def all_at(level: str) -> NDArray[Any]:
        if is_text:
            return np.full(len(table), level, dtype=object)
        return np.full(len(table), float(level))

    reference = all_at(base)
    return [
        Change(
            column,
            f"{level} - {base}",
            f"for {column} = {level} compared with {base}",
            (all_at(level), reference),
        )
        for level, base in pairs
    ]


def _reference_of(call: ast.expr | None) -> str:
    """Return the reference level in a call of ``C``; empty if there is none."""
    asked = {each.arg: each.value for each in call.keywords} if isinstance(call, ast.Call) else {}
    ref = ast.literal_eval(asked["ref"]) if "ref" in asked else ""
    return ref if isinstance(ref, str) else number_text(float(ref))


def _of_numbers(
    fit: Fit,
    table: Table,
    column: str,
    functions: Mapping[str, ast.expr],
    slopes: bool,
    step: float | str | None,
    between: Sequence[Any] | None,
) -> Change:
    """Return the comparison or the derivative for a column of numbers."""
    assert fit.data.table is not None
    own, values = fit.data.table.numbers(column), table.numbers(column)
    sd, different = float(own.std(ddof=1)), np.unique(own)
    within = (different[0], different[-1]) if "bs" in functions else (-np.inf, np.inf)
    if slopes:
        beyond = np.flatnonzero((values < within[0]) | (values > within[1]))
        if beyond.size:
            raise DataError(
                f"{table.where(beyond[0])}: {column} is {number_text(values[beyond[0]])}, but "
                f"bs({column}) is defined only from {number_text(within[0])} to "
                f"{number_text(within[1])}, the range of the fit; leave the row out"
            )
        is_limited = bool(functions.keys() & _LIMITED)
        return _derivative(column, values, sd, within, is_limited=is_limited)
    if between is not None:
        try:
            low, high = map(float, between)
        except (TypeError, ValueError):
            raise ConfigError(f"between takes two numbers for {column}, got {between!r}") from None
    elif step is not None or (len(different) > 2 and np.isinf(within[0])):
        if step == "sd":
            words = f"per sd ({sd:.4g}) of {column}"
            return Change(column, "+ 1 sd", words, (values + sd / 2, values - sd / 2))
        try:
            num = 1.0 if step is None else float(step)
        except ValueError:
            num = np.nan
        if not np.isfinite(num) or num == 0:
            raise ConfigError(f"step must be a finite number other than 0, or 'sd', got {step!r}")
        label = f"{'+' if num > 0 else '-'} {abs(num):g}"
        words = f"per unit of {column}"
        if num != 1:
            words = f"for {column} {label} compared with {column}"
        return Change(column, label, words, (values + num, values))
    elif len(different) == 2:
        low, high = different
    else:
        low, high = np.quantile(own, [0.25, 0.75])
    cells = np.full(len(table), high), np.full(len(table), low)
    words = f"for {column} = {high:.4g} compared with {low:.4g}"
    return Change(column, f"{high:.4g} - {low:.4g}", words, cells)


def _derivative(
    column: str,
    values: FloatArray,
    sd: float,
    within: tuple[float, float],
    *,
    is_limited: bool,
) -> Change:
    """Return the nodes and weights of a derivative with respect to a column, for each row.

    The nodes are equally spaced around each value. If one of them would be outside `within`, all
    are moved inside. The weights give the derivative of the polynomial through all nodes.
    """
    size = np.where(values == 0, sd, np.minimum(sd, np.abs(values))) if is_limited else sd
    width = STEP * np.broadcast_to(size, values.shape)
    half = NUM_NODES // 2
    center = np.clip(values, within[0] + half * width, within[1] - half * width)
    offsets = np.arange(-half, half + 1)
    at = (values - center) / width  # where the derivative is taken, in steps from the center
    powers = np.arange(NUM_NODES)
    # The weights satisfy sum_k w_k offset_k^p = p at^(p - 1), so they are exact for each power p.
    wanted = powers[:, None] * at ** np.maximum(powers - 1, 0)[:, None]
    weights = np.linalg.solve(np.power.outer(offsets, powers).T.astype(float), wanted) / width
    nodes = tuple(center + each * width for each in offsets)
    return Change(column, "slope", f"per unit of {column}", nodes, tuple(weights))
