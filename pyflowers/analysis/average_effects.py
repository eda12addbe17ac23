"""Average effects: how the expected response changes with a column, averaged over rows.

An average comparison predicts every row twice, with two values of the column, and averages the
differences over the rows. An average slope averages derivatives. Comparisons and slopes are
computed for every posterior draw, so the results are draws from their posterior.

References
----------
Gelman and Pardoe (2007), Average predictive comparisons for models with nonlinearity, interactions,
and variance components, Sociological Methodology 37(1), section 2; Arel-Bundock, Greifer and Heiss
(2024), How to interpret statistical models using marginaleffects for R and Python, Journal of
Statistical Software 111(9), sections 4 and 5, for comparisons, slopes and their averages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.analysis.changes import Change, How, changes_of
from pyflowers.analysis.findings import is_binary
from pyflowers.analysis.pooled import as_chains, of_each_table, pooled_columns
from pyflowers.analysis.predictions import (
    OF_TRIALS,
    Kind,
    RowSets,
    grid_asked,
    in_blocks,
    names_in,
    outcomes_of,
    predictor_of,
    row_sets,
    usual_kind,
    what_of_outcomes,
)
from pyflowers.analysis.summaries import joint_columns, number_columns
from pyflowers.data import Table
from pyflowers.display import (
    Line,
    Result,
    in_file,
    interval_quantiles,
    percent,
    records_of,
)
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.fits.imputed import PooledFit
from pyflowers.programs.data import as_table
from pyflowers.programs.families import Family
from pyflowers.programs.model import Model
from pyflowers.programs.outcomes import Outcome
from pyflowers.programs.prediction import Groups, Predictor

if TYPE_CHECKING:
    import xarray as xr

FloatArray = NDArray[np.float64]

Scale = Literal["difference", "ratio", "average ratio", "odds ratio"]
SCALES = ("difference", "ratio", "average ratio", "odds ratio")

BOTH = "both"
"""Effects in the population of groups and for the groups of the rows."""

EITHER = "either"
"""Label of an effect that is the same in the population and for the groups of the rows."""

MOST_INTEGRATED = 1_000_000
"""The largest product of distinct rows and draws for which all draws are used if averages over the
population of groups are numerical integrals, as with a logit link. If the product is larger, fewer
draws are used, unless the user gives ``groups="population"``."""

FEWEST_DRAWS = 500
"""Despite this limit, at least this many draws are used, over all chains, if there are as many."""

MOST_AS_PERCENT = 2.0
"""Ratios of at least this size are written as ``2.4 times as many``, not as ``140% more``."""

MOST_SENTENCES = 12
"""The largest number of effects that are also described in sentences."""

_WHERE = {
    "population": " in the population of groups",
    "data": " for the groups of the rows",
    EITHER: "",
}
"""The words for the groups that an effect describes."""

_MANY = {"more": "many", "higher": "high"}


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Result):
    """Average effects of columns on the expected response.

    Attributes
    ----------
    fit : Fit
        The fit.
    scale : str
        ``difference``, ``ratio``, ``average ratio`` or ``odds ratio``; ``slope`` for slopes, and
        ``mean`` for marginal means.
    effects : DataArray, shape (chain, draw, effect)
        The draws. Differences are in the unit of the response; slopes are in this unit per unit
        of the column; ratios have no unit.
    index : MultiIndex
        The column of each effect and its ``change`` or, for a marginal mean, the level ``at``
        which it is taken. If there are several sets of rows, the index also has the labels of the
        set over which the effect is averaged.
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
        How the effects of groups are treated: ``data``, ``none``, ``population``, or ``both`` if
        the table has the effects for ``population`` and for ``data``.
    moved : tuple of str
        The groups that are defined by a changed column and other columns, such as
        ``block:variety``, if each row moves to the group with the new label.
    whose : mapping of str to str
        For ``population``, ``data`` and ``none``, the words for the groups and for how they are
        treated.
    step : int
        1 if all draws are used; 4 if every fourth draw is used, and so on.
    ratios : DataArray or None, shape (chain, draw, effect)
        If the log of the mean is modelled and the effects are differences, the draws of the same
        effects as ratios; otherwise None.
    parameter : str or None
        The parameter of the family that changes; None for the expected response.
    outcomes : tuple of Outcome
        The outcomes whose probabilities change; empty for the expected response.
    joint : bool
        Whether the table has intervals that contain all effects at once.
    all_pairs : bool
        Whether all pairs of levels are compared.
    pooled : PooledFit or None
        The fits to completed tables from which the effects are pooled; `fit` is then the first.

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

    If the log of the mean is modelled, differences in the mean are also shown as ratios:

    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "seizures": [30, 22, 14, 9, 8, 4]})
    >>> fit = pyflowers.fit("seizures ~ dose", frame, family="poisson", seed=1, engine="stanli")
    >>> found = pyflowers.effects(fit, "dose")
    >>> found.sentences()
    ['expected seizures: 32% fewer per unit of dose (90% interval 23% to 39% fewer)']
    >>> found.ratios_in_words()
    [('32% fewer', '23% to 39% fewer')]
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
    ratios: xr.DataArray | None = None
    parameter: str | None = None
    outcomes: tuple[Outcome, ...] = ()
    joint: bool = False
    all_pairs: bool = False
    pooled: PooledFit | None = None

    @property
    def null(self) -> float:
        """The value that means no effect: 1 for ratios, 0 otherwise."""
        return float("ratio" in self.scale)

    @property
    def is_of_data(self) -> NDArray[np.bool_]:
        """Whether each effect is for the groups of the rows.

        All are False unless the table also has effects in the population.
        """
        if self.groups != BOTH:
            return np.zeros(len(self.index), dtype=bool)
        return np.asarray(self.index.get_level_values("groups") == "data")

    def draws(self) -> xr.DataArray:
        """Return the draws, shape (chain, draw, effect)."""
        return self.effects

    def table(self) -> pd.DataFrame:
        """Return the median, intervals, Monte Carlo errors and probabilities of each effect.

        The column ``P(> 0)``, or ``P(> 1)`` for ratios, is the share of draws above this value; a
        share of 1 means every draw. With a region of practical equivalence, ``P(outside)`` is the
        share of draws outside it. If the log of the mean is modelled, as with family ``poisson``,
        the table of differences also has the ``ratio`` of the averages with its interval.
        Comparisons of all pairs also have ``P(< 0)``. The columns ``joint low`` and
        ``joint high`` are the ends of intervals that contain all effects of the table at once.
        For completed tables, ``between`` is the share of the variance that lies between them.
        """
        values = self.effects.values
        describe = partial(number_columns, interval=self.fit.interval)
        columns = describe(values)
        if self.pooled is not None:
            columns |= pooled_columns(values, len(self.pooled.fits), describe)
        if self.ratios is not None:
            for name, prob in interval_quantiles(self.fit.interval).items():
                columns[f"ratio_{name}".removesuffix("_median")] = np.quantile(
                    self.ratios.values, prob, axis=(0, 1)
                )
        if self.joint:
            columns |= joint_columns(values, self.fit.interval)
        if self.scale != "mean":
            columns[f"P(> {self.null:g})"] = (values > self.null).mean(axis=(0, 1))
        if self.all_pairs:
            columns[f"P(< {self.null:g})"] = (values < self.null).mean(axis=(0, 1))
        if self.rope is not None:
            low, high = self.rope
            columns["P(outside)"] = ((values < low) | (values > high)).mean(axis=(0, 1))
        return pd.DataFrame(columns, self.index)

    @property
    def of_trials(self) -> str:
        """The unit of a response that is a number of successes, in words; otherwise empty."""
        if self.fit.model.has_trials and not self.parameter and not self.outcomes:
            return OF_TRIALS
        return ""

    @property
    def response(self) -> str:
        """The quantity that changes, such as ``expected y`` or ``sigma``."""
        if self.outcomes:
            return f"probability of each {what_of_outcomes(self.fit)}"
        return self.parameter or f"expected {self.fit.data.scored_name}"

    @property
    def _of_groups(self) -> str:
        """The words for the groups that the effects describe."""
        if self.groups == BOTH:
            return "".join(f"\n  {way}: {self.whose[way]}" for way in ("population", "data"))
        if self.groups in self.whose:
            return f", {self.whose[self.groups]}"
        return ""

    @property
    def meaning(self) -> str:
        """The effects in words, such as ``average difference of the expected y``."""
        what = f"{self.response}{self.of_trials}"
        the = what if self.parameter else f"the {what}"
        odds = f"probabilities of {self.fit.data.scored_name}"
        if self.fit.model.has_categories:
            odds = self.response
        return {
            "odds ratio": f"odds ratio of the average {odds}",
            "ratio": f"ratio of the average {what}",
            "average ratio": f"average of the rows' ratios of {the}",
            "mean": f"marginal mean of {the}",
        }.get(self.scale, f"average {self.scale} of {the}")

    def contents(self) -> list[Line]:
        """Return the averaged quantity, the table, and the fit's verdict if it is negative."""
        asked: Fit | PooledFit = self.fit
        if self.pooled is not None:
            asked = self.pooled
        judged = asked.verdict
        what = f"{self.meaning}, over {self.source}"
        if self.weights:
            what = f"{what}, weighted by {self.weights}"
        elif self.fit.model.unjudged:
            what = f"{what}, each of which counts once, whatever its weight"
        shown, change = self.table(), "the change"
        if self.groups == BOTH:
            change = "the change of the effects labelled data"
        extra = [name for name in shown.columns if name.startswith(("mcse", "ess"))]
        if self.ratios is not None and self.fit.interval != 0.5:  # the table would be too wide
            extra += [name for name in ("25%", "75%") if name in shown]
        lines: list[Line] = [
            asked.heading,
            f"{what}{self._of_groups}",
            in_file(shown.drop(columns=extra), "effects.csv"),
            *self.sentences(),
            *(
                f"note: some labels of {name} are not in the fit, so their effects are drawn from "
                "the population"
                for name in self.drawn
            ),
            *(
                f"note: the groups {name} depend on a changed column, so "
                f"{change} also moves each row to another observed group"
                for name in self.moved
            ),
        ]
        if self.joint:
            lines.append(
                f"joint interval: with probability {percent(self.fit.interval)}, all "
                f"{len(shown)} rows of the table lie between joint low and joint high"
            )
        if self.step > 1:
            lines.append(
                f"note: computed from 1 in {self.step} draws, because integrating over the "
                "population of groups takes a long time; with --groups, all draws are used"
            )
        if not judged.passed:
            lines.append(judged.line)
        return lines

    def sentences(self) -> list[str]:
        """Return a sentence for each ratio; none if there are no ratios, or too many to read."""
        if self.ratios is None or len(self.words) > MOST_SENTENCES:
            return []
        percentage = percent(self.fit.interval)
        value = self.fit.data.scored_name
        return [
            f"expected {value}: {median} {words}{where} ({percentage} interval {ends})"
            for words, where, (median, ends) in zip(
                self.words, self._places(), self.ratios_in_words(), strict=True
            )
        ]

    def _places(self) -> list[str]:
        """Return the groups and the rows that each effect describes, in words."""
        names = self.index.names[2:]
        places = []
        for key in self.index:
            labels = list(zip(names, key[2:], strict=True))
            place = ""
            if self.groups == BOTH:
                place = _WHERE[labels.pop(0)[1]]
            places.append(place + "".join(f", {name} = {label}" for name, label in labels))
        return places

    @property
    def directions(self) -> tuple[str, str]:
        """The words for an increase and a decrease of the response."""
        is_count = self.fit.program.counts and not self.fit.model.is_ordinal
        if is_count and not self.outcomes and not is_binary(self.fit):
            return "more", "fewer"
        return "higher", "lower"

    def ratios_in_words(self) -> list[tuple[str, str]]:
        """Return the median and the interval of each ratio in words, such as ``30% fewer``."""
        if self.ratios is None:
            return []
        more, fewer = self.directions
        probs = list(interval_quantiles(self.fit.interval).values())
        quantiles = zip(*np.quantile(self.ratios.values, probs, axis=(0, 1)).tolist(), strict=True)
        return [_ratio_in_words(each, more, fewer) for each in quantiles]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by file name."""
        return {"effects.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the effects as plain values, for JSON."""
        about: dict[str, Any] = {"scale": self.scale, "rows": self.source, "groups": self.groups}
        if self.parameter:
            about["parameter"] = self.parameter
        if self.outcomes:
            about["kind"] = "probability"
        if self.step > 1:
            about["draws used"] = f"1 in {self.step}"
        if self.pooled is not None:
            about["tables"] = len(self.pooled.fits)
        return {**self.fit.identity(), **about, "effects": records_of(self.table())}


def _of_tables(fit: PooledFit, found: list[Effects]) -> Effects:
    """Pool the effects from several completed tables, which are averages over each table's rows."""
    first, num = found[0], len(found)
    for number, each in enumerate(found[1:], 2):
        apart = each.index.symmetric_difference(first.index)
        if len(apart):
            label = ", ".join(map(str, apart.to_frame().iloc[0]))
            raise DataError(
                f"effects: tables 1 and {number} have different changes, such as {label}; give the "
                + worded("change as --step STEP or --between VALUES, for all tables")
            )
    ratios = [each.ratios for each in found if each.ratios is not None]
    source = first.source
    if any(each.source != source for each in found):
        source = f"the rows of each of {num} completed tables"
    return replace(
        first,
        effects=as_chains([each.effects for each in found]),
        source=source,
        drawn=tuple(dict.fromkeys(name for each in found for name in each.drawn)),
        ratios=as_chains(ratios) if len(ratios) == num else None,
        pooled=fit,
    )


@of_each_table(_of_tables)
def effects(
    fit: Fit | PooledFit,
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
    parameter: str | None = None,
    pairs: bool = False,
    means: bool = False,
    differences: bool = False,
    joint: bool = False,
    kind: Literal["expected", "probability"] | None = None,
    outcome: Any = None,
    grid: Any = None,
    balanced: bool = False,
    seed: int | None = None,
    interval: float | None = None,
    **reading: Any,
) -> Effects:
    """Compute how the expected response changes with columns of a table, on average over its rows.

    Parameters
    ----------
    fit : Fit or PooledFit
        A fit to a table. Its program must declare ``[prediction]``, as every formula does. For
        fits to several completed tables, effects are averaged over the rows of each table and
        then pooled.
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
        compared at these two values; the values of a column with three or four distinct whole
        numbers, which may be codes, are compared with the lowest; and a column in ``bs(...)`` or
        ``gp(...)``, which cannot be extrapolated, is compared at its quartiles.
    between : two values, optional
        Two values of a single column. The second is compared with the first.
    scale : str
        ``difference`` of the averages, ``ratio`` of the averages, ``average ratio`` of each row's
        two expected values, or ``odds ratio`` of the averages for probabilities and responses with
        a logit link.
    groups : str, optional
        How the effects of groups are treated: ``data``, ``none`` or ``population``; see
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
    parameter : str, optional
        A parameter of the family, such as ``sigma``, whose changes are computed instead of those
        of the expected response.
    pairs : bool
        Whether all pairs of levels are compared, instead of each level with the reference.
    means : bool
        Whether to compute marginal means instead of comparisons: averages of the expected response
        with all rows set to each level of the named columns.
    differences : bool
        Whether the effects of the sets of rows that `by` defines are also compared with each other:
        differences of differences or, for ratios, ratios of ratios.
    joint : bool
        Whether the table also has intervals that contain all effects at once with probability
        `interval`: simultaneous intervals.
    kind : str
        ``expected`` for the expected response, or ``probability`` for the probabilities of outcomes
        if the response is a rating, a number of successes, a count or a category. Default:
        ``probability`` for categories or if `outcome` is given; otherwise ``expected``.
    outcome : str, number or sequence, optional
        The outcomes whose probabilities change; see :func:`pyflowers.predict`.
    grid : str or mapping, optional
        Average over the rows of a grid instead of the rows of a table, separately for each
        combination of the values that the grid names; see :func:`pyflowers.grid`. By default, the
        effects of groups are then at their mean, and the columns that the grid does not name are
        changed.
    balanced : bool
        Whether the grid also contains all levels of the other factors, and both values of columns
        with two distinct numbers, with equal weights.
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
        reference level, unless `pairs` or `means` is true.

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
    >>> y = [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": y})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> pyflowers.effects(fit, "dose").table()["median"].round(1).tolist()
    [2.0]
    >>> pyflowers.effects(fit, "dose", between=(0, 5)).table()["median"].round().tolist()
    [10.0]
    """
    fit = checked_fits([fit], "effects")[0].with_interval(interval)
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    model = fit.model.of_parameter(parameter)
    kind = kind or usual_kind(fit, outcome, parameter)
    if kind not in ("expected", "probability"):
        raise ConfigError(f"kind must be expected or probability, got {kind!r}")
    outcomes = outcomes_of(fit, kind, outcome, parameter)
    _check_scale(model.family, scale, parameter, is_probability=bool(outcomes))
    how = How(slopes, step, between, pairs, means)
    _check_how(how, columns, scale, has_region=bool(rope))
    region = None
    if rope is not None:
        region = _region(rope)
    if fit.data.table is None:
        raise ConfigError("effects: the model was fitted to a data block; fit it to a table")
    table: Table | None = fit.data.table
    made = grid_asked(fit, new, grid, balanced)
    if made is not None:
        table = made.table
        groups = groups or ("data" if made.has_groups else "none")
        if not columns:
            others = [name for name in model.covariates_of_mean if name not in made.named]
            columns = tuple(others)
        if by is None:
            by = [name for name in made.named if name not in columns]
    elif new is not None:
        table = as_table(new, reading)
    if table is None:
        raise DataError("new: a data block is not a table; give a file or a DataFrame")
    sets = row_sets(table, by, weights, is_of_fit=new is None and made is None)
    if differences and len(sets.index) < 2:
        raise ConfigError(
            worded(
                "--differences compares the effects between sets of rows; add --by COLUMN, with a "
                "column that has at least two values"
            )
        )
    changes = changes_of(fit, model, table, columns, how, is_of_mean=not outcomes)
    of: str = scale
    if slopes:
        of = "slope"
    if means:
        of = "mean"
    shown, found = "", list[_Effect]()
    for each in outcomes or (None,):
        averages = _Averages(fit, parameter, table, sets, changes, slopes, seed, each)
        shown = groups or averages.default_groups(by)
        ways: tuple[Groups, ...] = ("population", "data")
        if shown != BOTH:
            ways = (cast(Groups, shown),)
        if groups is None and "population" in ways:
            averages.use_fewer_draws()
        found += [its for change in changes for its in averages.effects(change, ways, of)]
    labels = [its if isinstance(its, tuple) else (its,) for its in sets.index]
    if differences:
        found = [_with_differences(its, "ratio" in of) for its in found]
        sign = "/" if "ratio" in of else "-"
        labels += [_apart(one, other, sign) for one, other in combinations(labels, 2)]
    titles = [*(["groups"] if shown == BOTH else []), *(["outcome"] if outcomes else [])]
    change = "at" if means else "change"
    index = _index(found, labels if by else [()], [change, *titles], sets.index.names if by else [])
    return Effects(
        fit,
        of,
        _labelled(np.concatenate([each.draws for each in found], axis=2), index),
        index,
        tuple(each.change.words for each in found for _ in labels),
        f"{len(table)} rows of {table.source}",
        weights,
        region,
        tuple(dict.fromkeys(map(model.column_of, averages.drawn))),
        shown,
        averages.moved if "data" in ways else (),
        _whose(fit, model, of_new=new is not None or made is not None),
        averages.every,
        _ratios(found, index),
        parameter,
        outcomes,
        joint,
        pairs,
    )


def _with_differences(effect: _Effect, is_ratio: bool) -> _Effect:
    """Return the effects of sets of rows, followed by the comparisons of all pairs of sets."""
    values = effect.draws
    compare = np.divide if is_ratio else np.subtract
    pairs = combinations(range(values.shape[2]), 2)
    apart = [compare(values[..., other], values[..., one])[..., None] for one, other in pairs]
    return replace(effect, draws=np.concatenate([values, *apart], axis=2), ratio=None)


def _apart(one: Sequence[Any], other: Sequence[Any], sign: str) -> tuple[str, ...]:
    """Return the labels of the comparison of two sets of rows, such as ``b - a`` or ``b / a``."""
    pairs = zip(one, other, strict=True)
    return tuple(str(a) if a == b else f"{b} {sign} {a}" for a, b in pairs)


def _check_how(how: How, columns: Sequence[str], scale: str, *, has_region: bool) -> None:
    """Reject incompatible options for how columns are changed."""
    if how.slopes and (how.between is not None or how.step is not None or scale != "difference"):
        raise ConfigError(
            "slopes are derivatives, so the options step, between and scale do not apply; leave "
            "them out"
        )
    if how.means and (
        how.slopes or how.pairs or how.step is not None or scale != "difference" or has_region
    ):
        raise ConfigError(
            "marginal means are not comparisons, so the options slopes, pairs, step, scale and "
            "rope do not apply; leave them out"
        )
    if how.pairs and (how.slopes or how.step is not None or how.between is not None):
        raise ConfigError(
            worded("--pairs compares all levels")
            + ", so the options slopes, step and between do not apply; leave them out"
        )
    if how.means and not columns:
        raise ConfigError(
            "marginal means need at least one column; name the column for whose levels they are "
            "computed"
        )


def _check_scale(
    family: Family, scale: str, parameter: str | None, *, is_probability: bool
) -> None:
    """Reject an unknown scale, and one that does not suit the family or the parameter."""
    if scale not in SCALES:
        raise ConfigError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if scale == "odds ratio" and parameter is not None:
        raise ConfigError(
            f"scale 'odds ratio' applies only to the expected response, not to {parameter}; use "
            "scale 'difference' or 'ratio'"
        )
    if is_probability:
        return
    if scale != "difference" and family.is_ordinal:
        raise ConfigError(
            f"scale '{scale}' has no meaning for the mean of ratings; use scale 'difference' or "
            "kind 'probability'"
        )
    if scale == "odds ratio" and family.link != "logit":
        raise ConfigError(
            "scale 'odds ratio' needs a probability with a logit link, but the model has family "
            f"{family.name} with the link {family.link}; use scale 'difference'"
        )


@dataclass(frozen=True)
class _Effect:
    """The draws of an effect, shape (chain, draw, set of rows).

    `way` is how group effects are treated, or ``either``; `ratio` is the same effect as a ratio.
    """

    change: Change
    way: str
    draws: FloatArray
    ratio: FloatArray | None = None
    outcome: Outcome | None = None


class _Averages:
    """The expected responses of changed tables, averaged over sets of rows.

    The values of changed columns are keyed by identity, so that each changed column is parsed only
    once, and the averages for a reference level are computed only once.
    """

    def __init__(
        self,
        fit: Fit,
        parameter: str | None,
        table: Table,
        sets: RowSets,
        changes: Sequence[Change],
        slopes: bool,
        seed: int | None,
        outcome: Outcome | None,
    ) -> None:
        self.outcome = outcome
        self.fit, self.table, self.sets, self.changes = fit, table, sets, changes
        self.parameter, self.model = parameter, fit.model.of_parameter(parameter)
        self.slopes, self.seed, self.every = slopes, seed, 1
        self.drawn = dict[str, tuple[str, ...]]()
        changed = {id(values): (each.column, values) for each in changes for values in each.values}
        self.tables = {key: table.with_cells({name: its}) for key, (name, its) in changed.items()}
        self.joined = [name for name in self.model.groups if ":" in name]
        columns = {change.column for change in changes}
        self.moved: tuple[str, ...] = ()
        if not slopes:  # for a derivative, a row stays in its group
            self.moved = tuple(name for name in self.joined if columns & {*name.split(":")})
        self._averages = dict[tuple[int, Groups], FloatArray]()

    def default_groups(self, by: str | Sequence[str] | None) -> str:
        """Return how group effects are treated if the user does not choose.

        The result is ``both`` if an effect varies between groups, and ``population`` if a changed
        factor decides from which population a group comes.
        """
        of_groups = self.model.groups.keys()
        if not of_groups or of_groups & {*names_in(by)}:
            return "data"
        if self.model.factors_of_groups & {each.column for each in self.changes}:
            return "population"  # the effects of a label apply only to its own level
        if self.moved or any(
            _varies(self.fit, self.parameter, each, self.tables) for each in self.changes
        ):
            return BOTH
        return "data"

    def use_fewer_draws(self) -> None:
        """Use fewer draws if integrating over the population of groups would take a long time."""
        # The means of other families are not integrated numerically.
        if self.fit.model.family.scale != "fixed" and self.outcome is None:
            return
        predictor = self._of_table("population")
        rows, _ = _distinct(predictor, self.sets)
        num, most = self.fit.num_chains * self.fit.num_draws, MOST_INTEGRATED // len(rows.rows)
        self.every = max(1, num // max(FEWEST_DRAWS, most))

    def effects(self, change: Change, ways: Sequence[Groups], scale: str) -> list[_Effect]:
        """Return an effect for each way of treating groups, or a single one if all are equal."""
        found = [self._effect(change, way, scale) for way in ways]
        if len(found) > 1 and _same(*(each.draws for each in found)):
            found = [replace(found[0], way=EITHER)]
        return [replace(each, outcome=self.outcome) for each in found]

    def _effect(self, change: Change, way: Groups, scale: str) -> _Effect:
        if scale == "slope":
            weighted = zip(change.values, change.weights, strict=True)
            draws = sum(self._average(change, values, way, each) for values, each in weighted)
            return _Effect(change, way, np.asarray(draws))
        if scale == "mean":
            return _Effect(change, way, self._expected(change, change.values[0], way))
        if scale == "average ratio":
            return _Effect(change, way, self._average_ratio(change, way))
        one, other = (self._expected(change, values, way) for values in change.values)
        if scale == "difference":
            ratio = None
            is_log = self.parameter is None and self.fit.model.family.scale == "log"
            if is_log and self.outcome is None and (one > 0).all() and (other > 0).all():
                ratio = one / other
            return _Effect(change, way, one - other, ratio)
        trials = np.ones(len(self.sets.index))
        if self.outcome is None:
            trials = _mean_trials(self.fit, self.table, self.sets)
        return _Effect(change, way, _ratio(one, other, scale, trials))

    def _average_ratio(self, change: Change, way: Groups) -> FloatArray:
        """Return the averages of the rows' ratios."""
        one, other = (
            in_blocks(self._thinned(change, values, way), Predictor.expected)
            for values in change.values
        )

        def ratios() -> Iterator[tuple[slice, FloatArray]]:
            for (rows, above), (_, below) in zip(one, other, strict=True):
                _refuse_not_positive(above, below, "average ratio")
                yield rows, above / below

        return np.asarray(self.sets.average(ratios()))

    def _expected(self, change: Change, values: NDArray[Any], way: Groups) -> FloatArray:
        key = id(values), way
        if key not in self._averages:
            self._averages[key] = self._average(change, values, way)
        return self._averages[key]

    def _average(
        self, change: Change, values: NDArray[Any], way: Groups, weight: Any = 1.0
    ) -> FloatArray:
        predictor = self._thinned(change, values, way)
        weighted = replace(self.sets, shares=self.sets.shares * weight)
        distinct, of_distinct = _distinct(predictor, weighted)
        return np.asarray(of_distinct.average(in_blocks(distinct, Predictor.expected)))

    def _thinned(self, change: Change, values: NDArray[Any], way: Groups) -> Predictor:
        """Return the predictor of a changed table, with only the draws that are used."""
        predictor = self._predictor(change, self._changed(change, values, way), way)
        self.drawn.update(predictor.new_labels)
        if self.every > 1:
            few = {name: its[:, :: self.every] for name, its in predictor.draws.items()}
            predictor = replace(predictor, draws=few)
        return predictor

    def _changed(self, change: Change, values: NDArray[Any], way: Groups) -> Table:
        """Return the changed table; a comparison may move a row to another group."""
        changed = self.tables[id(values)]
        if way != "data":
            return changed
        if self.slopes:
            own = {name: self.table.typed(name) for name in self.joined}
            return replace(changed, columns={**changed.columns, **own})
        for name in self.joined:
            if change.column in name.split(":"):
                changed = _with_parts(changed, name, change.column)
        return changed

    def _of_table(self, way: Groups) -> Predictor:
        return self._of(self.table, way)

    def _of(self, table: Table, way: Groups) -> Predictor:
        kind: Kind = "expected" if self.outcome is None else "probability"
        found = predictor_of(self.fit, table, way, self.seed, kind=kind, parameter=self.parameter)
        return replace(found, outcome=self.outcome)

    def _predictor(self, change: Change, changed: Table, way: Groups) -> Predictor:
        try:
            return self._of(changed, way)
        except DataError as error:
            # If this succeeds, the change is the only cause of the error.
            self._of_table(way)
            if self.slopes:
                raise
            remedy = "choose other values as --step STEP or --between VALUES"
            if change.column in self.model.factors_of_groups:
                remedy = "use --groups population"
            raise ConfigError(
                f"effects: no prediction can be computed for {change.column} {change.label}; "
                f"{worded(remedy)} ({error})"
            ) from None


def _ratios(found: Sequence[_Effect], index: pd.MultiIndex) -> xr.DataArray | None:
    """Return all effects as ratios; None if one of them has no ratio."""
    ratios = [each.ratio for each in found if each.ratio is not None]
    if len(ratios) < len(found):
        return None
    return _labelled(np.concatenate(ratios, axis=2), index)


def _index(
    found: Sequence[_Effect],
    labels: Sequence[tuple[Any, ...]],
    titles: Sequence[str],
    of_sets: Sequence[Any],
) -> pd.MultiIndex:
    """Return the index of the effects, with an entry for each effect and each set of rows."""
    names = []
    for each in found:
        label = each.change.label
        own = {"change": label, "at": label, "groups": each.way, "outcome": str(each.outcome)}
        before = each.change.column, *(own[title] for title in titles)
        names += [(*before, *of_set) for of_set in labels]
    return pd.MultiIndex.from_tuples(names, names=["column", *titles, *of_sets])


def _distinct(predictor: Predictor, sets: RowSets) -> tuple[Predictor, RowSets]:
    """Return a predictor and sets in which equal rows are merged, with the sum of their weights.

    Only rows of the same set are merged. In a table of factors, or if group effects are not used,
    many rows are equal.
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


def _varies(fit: Fit, parameter: str | None, change: Change, tables: Mapping[int, Table]) -> bool:
    """Return whether the effect of a change on the linear predictor depends on the group.

    The result is False if groups have no normal population over which to average the effect.
    """
    ends = [tables[id(values)] for values in (change.values[0], change.values[-1])]
    try:
        one, other = (
            predictor_of(fit, each, "none", parameter=parameter, is_varying=True).factors()
            for each in ends
        )
    except (ConfigError, DataError):
        return False
    return not np.allclose(one, other, rtol=1e-9, atol=1e-12)


def _same(one: FloatArray, other: FloatArray) -> bool:
    """Return whether effects are equal up to rounding."""
    return np.allclose(one, other, rtol=1e-6, atol=1e-9 * float(np.abs(one).max()))


def _whose(fit: Fit, model: Model, *, of_new: bool) -> dict[str, str]:
    """Return words for the groups, by how they are treated; empty if there are no groups."""
    num = {
        name: len(its)
        for column, its in fit.data.labels.items()
        if (name := fit.data.name_of(column)) in model.groups
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
                + worded("them; give a table with separate columns as --new TABLE")
            )
        cells = {
            part: np.array([label[parts.index(part)] for label in labels], dtype=object)
            for part in missing
        }
    columns = {column: its for column, its in table.columns.items() if column != name}
    return replace(table, columns=columns).with_cells(cells)


def average_at(fit: Fit, cells: Mapping[str, Any]) -> FloatArray:
    """Return the expected response averaged over the fit's rows, all of which are set to `cells`.

    The result has the shape (chain, draw).
    """
    table = fit.data.table
    assert table is not None
    num, own = len(table), table
    for column, cell in cells.items():
        kind = object if isinstance(cell, str) else float
        table = table.with_cells({column: np.full(num, cell, dtype=kind)})
        for name in fit.model.groups:
            if ":" in name and column in name.split(":"):
                table = _with_parts(table, name, column)
    way: Groups = "data"
    if fit.model.factors_of_groups & cells.keys():
        way = "population"
    blocks = in_blocks(predictor_of(fit, table, way), Predictor.expected)
    return np.asarray(row_sets(own, None, None).average(blocks))[..., 0]


def _region(rope: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = map(float, rope)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low < high:
        raise ConfigError(f"rope must be two numbers, the smaller first, got {rope!r}")
    return low, high


def _ratio(one: FloatArray, other: FloatArray, scale: str, trials: FloatArray) -> FloatArray:
    """Return the ratio of averages, or of their odds."""
    if scale == "odds ratio":
        one, other = one / trials, other / trials
        return np.asarray(one * (1 - other) / (other * (1 - one)))
    _refuse_not_positive(one, other, scale)
    return one / other


def _refuse_not_positive(one: FloatArray, other: FloatArray, scale: str) -> None:
    """Reject ratios of numbers that are not above 0."""
    if (one <= 0).any() or (other <= 0).any():
        raise ConfigError(f"scale '{scale}' needs expected values above 0; use scale 'difference'")


def _mean_trials(fit: Fit, table: Table, sets: RowSets) -> FloatArray:
    """Return the average number of trials in each set of rows; 1 for families without trials."""
    model = fit.model
    if not model.has_trials:
        return np.ones(len(sets.index))
    trials = np.full(len(table), float(model.fixed_trials))
    if model.trials:
        trials = table.numbers(model.trials)
    values = trials * sets.shares
    return np.asarray(np.bincount(sets.codes, values, len(sets.index)), dtype=np.float64)


def _ratio_in_words(quantiles: Sequence[float], more: str, fewer: str) -> tuple[str, str]:
    """Return a ratio and its interval as percentages or, if it is large, as factors."""
    median, low, high = quantiles
    if median >= MOST_AS_PERCENT:
        return f"{median:.3g} times as {_MANY[more]}", f"{low:.3g} to {high:.3g} times"

    def way(ratio: float) -> str:
        if ratio >= 1:
            return more
        return fewer

    def size(ratio: float) -> str:
        share = abs(100 * (ratio - 1))
        if share < 99:
            return f"{share:.2g}%"
        if ratio > 1:
            return f"{share:.3g}%"
        return f"{share:.4g}%"  # 99.98% fewer

    ends = f"{size(low)} {way(low)} to {size(high)} {way(high)}"
    if way(low) == way(high):
        least, most = sorted((low, high), key=lambda ratio: abs(ratio - 1))
        ends = f"{size(least)} to {size(most)} {way(low)}"
    return f"{size(median)} {way(median)}", ends
