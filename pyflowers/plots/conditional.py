"""Conditional effects: the expected response over one column, with the others held fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pyflowers.data import Labels, Table
from pyflowers.display import percent, upper_first
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.plots import style
from pyflowers.plots.groups import (
    MOST_EYES,
    MOST_ROWS,
    ROW_OF_EYE,
    extremes,
    half_eyes,
    interval_probs,
    intervals_of_rows,
    named_rows,
)
from pyflowers.plots.style import LIGHT, Theme, finish, fitted, label, styled
from pyflowers.programs.design import levels_of_numbers
from pyflowers.programs.outcomes import Outcome
from pyflowers.text import counted

if TYPE_CHECKING:
    from pyflowers.programs.prediction import Predictor

NUM_POINTS = 61
"""Number of points of a curve."""

MOST_CURVES = 6
"""The largest number of levels or distinct numbers of a column for which curves are drawn."""

MOST_LINES = 12
"""The largest number of panels, one for each label of a group."""

MOST_LABELS = 200
"""The largest number of thin lines, one for each label of a group."""

MOST_SPREAD = 1.5
"""Distant observations are left out if they would lengthen the axis by more than this factor."""

MOST_OBSERVATIONS = 2000
"""The largest number of observations that are drawn; they are evenly spaced over the rows."""

_RING: dict[str, Any] = {"marker": "o", "ls": "", "mfc": "none", "mew": 0.8}
"""The look of a censored observation."""


@styled
def conditional_effects(
    fit: Fit,
    column: str,
    *,
    by: str | None = None,
    spread: str | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Draw the expected response over a column's values, with the observations.

    A censored observation, of which only a limit or an interval is known, is drawn as a ring.

    For categories without an order, draw the probability of each, without observations.

    Other numeric columns are fixed at their means; factors, and columns with two distinct numbers,
    are fixed at their most frequent values, and only observations with these values are drawn.
    Effects of groups are left out, and the number of trials is 1.

    Parameters
    ----------
    fit : Fit
        A fit to a table, of a program that declares ``[prediction]``, as every formula does.
    column : str
        A covariate. A factor, or a column with two distinct numbers, has a row for each level; if
        there are more than 30 levels, those with the 15 largest and the 15 smallest medians are
        drawn. For any other numeric column, a curve is drawn.
    by : str, optional
        A second column: a factor or a numeric column, with at most 6 levels or distinct numbers.
        Each value has a separate curve or, if `column` has rows, a separate row for each level.
    spread : str, optional
        A column of groups. The median for each of its labels is drawn as a thin line. If another
        column is constant within a label, such as the sex of a person, the label's line uses that
        value.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        Medians, 50% intervals and intervals of probability ``fit.interval``, drawn over the
        observations.

    Raises
    ------
    ConfigError
        If the program declares no ``[prediction]``, the response does not depend on the column, or
        `by` or `spread` cannot be used with it.

    See Also
    --------
    pyflowers.effects : Compute average effects of columns.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> figure = pyflowers.plots.conditional_effects(fit, "dose")
    >>> pyflowers.plots.alt_text(figure)
    'Expected y over dose: the median is 0.97... at 0 and 11 at 5. Bands: 50% and 90%.'
    """
    names, levels = list(fit.model.covariates_and_offsets), fit.model.levels
    if fit.data.table is None:
        raise ConfigError(
            f"conditional_effects: {fit.called} was fitted to values of the data block; fit "
            "the model to a table"
        )
    if column not in names:
        raise ConfigError(
            f"conditional_effects: {column!r} is not a covariate of {fit.called}; its covariates "
            f"are {', '.join(names) or 'none'}"
        )
    few = {**_few_numbers(fit, names, MOST_CURVES), **levels}
    if by is not None and (by == column or not 0 < len(few.get(by, [])) <= MOST_CURVES):
        raise ConfigError(
            f"by=… must be a covariate other than {column}, with at most {MOST_CURVES} levels or "
            f"distinct numbers, got {by!r}"
        )
    levels = {**_few_numbers(fit, names, 2), **levels}
    if by and spread:
        raise ConfigError("by=… and spread=… cannot be combined; choose one")
    if fit.model.has_categories:
        if by or spread:
            raise ConfigError(
                f"conditional_effects: each category has a curve, so "
                f"{'by' if by else 'spread'}=… does not apply; leave it out, or use "
                "pyflowers.predict with a grid"
            )
        return _of_categories(fit, column, levels.get(column), theme)
    if column in levels:
        if spread:
            raise ConfigError(
                f"spread=… needs a numeric column with at least three values, but {column} has "
                "fewer; leave spread=… out"
            )
        rows = {name: few[name] for name in (column, by) if name}
        return _of_levels(fit, {**rows, column: levels[column]}, theme)
    return _of_numbers(fit, column, by, spread, theme)


def num_levels(fit: Fit, column: str) -> int | None:
    """Return the number of levels of a covariate that is drawn as rows; None for a curve.

    Parameters
    ----------
    fit : Fit
        A fit to a table.
    column : str
        A covariate.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> from pyflowers.plots.conditional import num_levels
    >>> frame = pd.DataFrame({"sex": list("fmfm"), "dose": [0, 1, 2, 3], "y": [1.0, 2.9, 5.1, 7.0]})
    >>> fit = pyflowers.fit("y ~ dose + sex", frame, seed=1, engine="stanli")
    >>> num_levels(fit, "sex"), num_levels(fit, "dose")
    (2, None)
    """
    levels = {**_few_numbers(fit, [column], 2), **fit.model.levels}
    if column in levels:
        return len(levels[column])
    return None


def _few_numbers(fit: Fit, names: list[str], most: int) -> dict[str, list[str]]:
    """Return the values of each numeric column that has few distinct values."""
    own = fit.data.table
    assert own is not None
    found = {
        name: list(levels_of_numbers(own.numbers(name)))
        for name in names
        if not own.is_factor(name)
    }
    return {name: values for name, values in found.items() if len(values) <= most}


def _drawn(fit: Fit, *but: str, group: str | None = None) -> tuple[NDArray[np.intp], str]:
    """Return the rows whose observations are drawn, and a note if these are not all rows.

    These rows have the values at which factors, and columns with two distinct numbers, are fixed.
    If a line is drawn for each label of a group, columns that are constant within the labels are
    not fixed.
    """
    own, fixed = fit.data.table, _reference(fit, 1)
    assert own is not None
    names = [name for name in fit.model.covariates_and_offsets if name not in but]
    few = {**_few_numbers(fit, names, 2), **fit.model.levels}
    kept, held = np.ones(len(own), dtype=bool), []
    for name in names:
        if name not in few or (group is not None and _is_constant(own, name, group)):
            continue
        value = fixed.plain_texts(name)[0]
        kept &= own.plain_texts(name) == value
        held.append(f"{name} = {value}")
    rows = np.flatnonzero(kept)
    if len(rows) == len(own):
        return rows, ""
    which = label(", ".join(held), 90)
    return rows, f"Observations with {which} are drawn: {len(rows)} of {len(own)}."


def _is_constant(table: Table, name: str, group: str) -> bool:
    """Return whether each label of a group has only one value in a column."""
    pairs = set(zip(table.texts(group).tolist(), table.plain_texts(name).tolist(), strict=True))
    return len(pairs) == len(set(table.texts(group).tolist()))


def _observed(fit: Fit) -> NDArray[np.float64]:
    """Return the observed values: for trials, the shares of successes; for ratings, the scores."""
    own, trials = fit.data.table, fit.model.trials
    assert own is not None
    if fit.data.scores is not None:
        return fit.data.scores[fit.data.y.astype(np.int64) - 1]
    if trials:
        return fit.data.y / np.maximum(own.numbers(trials), 1)
    return fit.data.y


def _draw_observed(
    ax: Axes, x: Any, y: Any, is_censored: NDArray[np.bool_], *, ms: float, **look: Any
) -> None:
    """Draw observations as dots, and censored ones as rings."""
    ax.plot(x[~is_censored], y[~is_censored], ".", ms=ms, **look)
    if is_censored.any():
        ax.plot(x[is_censored], y[is_censored], **_RING, ms=ms, **look)


def _keys_of_observed(is_censored: NDArray[np.bool_], theme: Theme) -> list[Line2D]:
    """Return the keys of observations in a legend."""
    keys = [style.key("observed", marker=".", ls="", color=theme.data)]
    if is_censored.any():
        keys.append(style.key("censored", **_RING, ms=5, color=theme.data))
    return keys


def _reference(fit: Fit, num: int, **fixed: Any) -> Table:
    from pyflowers.analysis.grids import reference

    return reference(fit, num, **fixed)


def _predictor(fit: Fit, table: Table, groups: Any = "none", **how: Any) -> Predictor:
    from pyflowers.analysis.predictions import predictor_of

    return predictor_of(fit, table, groups, **how)


def value_name(fit: Fit) -> str:
    """Return the name of the quantity in a figure of effects: the mean, or the share of trials."""
    if fit.model.trials:
        return f"share of {fit.data.scored_name}"
    return f"expected {fit.data.scored_name}"


def _cells(table: Table, column: str, texts: Sequence[str]) -> NDArray[Any]:
    """Return text as cells of a column: labels of a factor, or numbers."""
    if table.is_factor(column):
        return np.array(texts, dtype=object)
    return np.array(texts, dtype=float)


def _of_levels(fit: Fit, every: Mapping[str, list[str]], theme: Theme) -> Figure:
    """Draw a row for each combination of the levels of one column or two."""
    own = fit.data.table
    assert own is not None
    combinations = list(product(*every.values()))
    cells = {
        name: _cells(own, name, its)
        for name, its in zip(every, zip(*combinations, strict=True), strict=True)
    }
    draws = _predictor(fit, _reference(fit, len(combinations), **cells)).expected()
    quantiles = np.quantile(draws, interval_probs(fit.interval), axis=(0, 1))
    shown, note = np.arange(len(combinations)), ""
    if len(combinations) > MOST_ROWS:
        shown, note = extremes(-quantiles[2])
    levels, column = list(map(", ".join, combinations)), ", ".join(every)
    each_draw, is_eye = draws[..., shown], len(shown) <= MOST_EYES
    rows_of = {"row": ROW_OF_EYE} if is_eye else {}
    figure, ax = named_rows([levels[i] for i in shown], column, theme, **rows_of)
    if is_eye:
        half_eyes(ax, each_draw, theme)
    rng, y = np.random.default_rng(1), _observed(fit)
    texts = list(map(", ".join, zip(*(own.plain_texts(name) for name in every), strict=True)))
    place = {levels[i]: row for row, i in enumerate(shown)}
    kept, drawn = _drawn(fit, *every)
    at = [i for i in kept.tolist() if texts[i] in place]
    at = at[:: -(-len(at) // MOST_OBSERVATIONS) or 1]
    below = (0.08, 0.3) if is_eye else (-0.22, 0.22)
    rows = np.array([place[texts[i]] for i in at]) + rng.uniform(*below, len(at))
    is_censored = fit.model.is_censored[at]
    _draw_observed(ax, y[at], rows, is_censored, ms=3, color=theme.data, alpha=0.35, zorder=1)
    low, high = _limits(y[at], quantiles[:, shown])
    ax.set_xlim(low, high)
    far = _beyond(y[at], quantiles[:, shown], low, high)
    handles = intervals_of_rows(ax, quantiles[:, shown], theme, fit.interval)
    style.legend(figure, [*_keys_of_observed(is_censored, theme), *handles])
    ax.set_xlabel(fitted(value_name(fit), 4.4))
    each = "combinations"
    if len(every) == 1:
        each = "levels"
    alt = (
        f"{upper_first(value_name(fit))} at each of {len(levels)} {each} of {column}: medians "
        f"from {quantiles[2].min():.3g} to {quantiles[2].max():.3g}."
    )
    return finish(figure, alt, _held(fit, *every), drawn, far, note)


def _of_numbers(fit: Fit, column: str, by: str | None, spread: str | None, theme: Theme) -> Figure:
    own = fit.data.table
    assert own is not None
    values, y = own.numbers(column), _observed(fit)
    grid = np.linspace(values.min(), values.max(), NUM_POINTS)
    figure = style.new_figure(3.4, theme)
    ax = figure.subplots()
    kept, drawn = _drawn(fit, column, *filter(None, [by]), group=spread)
    seen, is_censored = kept[:: -(-len(kept) // MOST_OBSERVATIONS) or 1], fit.model.is_censored
    handles = _keys_of_observed(is_censored[seen], theme)
    if spread is not None:
        (curves,) = _of_labels(fit, column, spread, grid)
        ax.plot(grid, curves, color=theme.muted, lw=0.6, alpha=0.6, zorder=2)
        which = f"{MOST_LABELS} labels of"
        if curves.shape[1] < MOST_LABELS:
            which = "each"
        handles.append(style.key(f"{which} {label(spread)}, median", color=theme.muted, lw=0.8))
    levels: Sequence[str | None] = [None]
    if by:
        levels = {**_few_numbers(fit, [by], MOST_CURVES), **fit.model.levels}[by]
    quantiles = []
    for level, color in zip(levels, _colours(theme, len(levels)), strict=True):
        fixed: dict[str, Any] = {column: grid}
        here, dots, name = seen, theme.data, "median"
        if by is not None and level is not None:
            fixed[by] = _cells(own, by, [level] * NUM_POINTS)
            here, dots = seen[own.plain_texts(by)[seen] == level], color
            name = (
                f"{label(by, 18)} = {label(level, 18)}" if _is_number(level) else label(level, 18)
            )
        look = {"color": dots, "alpha": 0.45, "zorder": 1}
        _draw_observed(ax, values[here], y[here], is_censored[here], ms=4, **look)
        draws = _predictor(fit, _reference(fit, NUM_POINTS, **fixed)).expected()
        quantiles.append(np.quantile(draws, interval_probs(fit.interval), axis=(0, 1)))
        low, inner_low, median, inner_high, high = quantiles[-1]
        ax.fill_between(grid, low, high, color=color, alpha=0.16, lw=0, zorder=3)
        ax.fill_between(grid, inner_low, inner_high, color=color, alpha=0.3, lw=0, zorder=3)
        ax.plot(grid, median, color=color, lw=1.8, zorder=4)
        handles.append(style.key(name, color=color, lw=1.8))
    low, high = _limits(y[kept], np.concatenate(quantiles, axis=1))
    ax.set_ylim(low, high)
    far = _beyond(y[kept], np.concatenate(quantiles, axis=1), low, high)
    style.legend(figure, handles)
    ax.set_xlabel(fitted(column, 4.4))
    ax.set_ylabel(fitted(value_name(fit), 3.0))
    low, high = quantiles[0][2][[0, -1]]
    alt = (
        f"{upper_first(value_name(fit))} over {column}: the median is {low:.3g} at {grid[0]:.3g} "
        f"and {high:.3g} at {grid[-1]:.3g}."
    )
    held = _held(fit, column, *filter(None, [by]))
    if spread is not None:
        held += (
            f" If a column is constant within one {label(spread)}, the line of that "
            f"{label(spread)} uses that value."
        )
    bands = f"Bands: 50% and {percent(fit.interval)}."
    return finish(figure, alt, bands, held, drawn, far)


def _of_categories(fit: Fit, column: str, levels: list[str] | None, theme: Theme) -> Figure:
    """Draw the probabilities of categories: curves over numbers, or rows for each level."""
    own = fit.data.table
    assert own is not None
    num, note = fit.model.frequencies, ""
    names = fit.model.categories
    shown = np.arange(len(names))
    if len(names) > MOST_CURVES:
        shown = np.sort(np.argsort(-num, kind="stable")[:MOST_CURVES])
        note = f"The {MOST_CURVES} most frequent of {len(names)} categories are drawn."
    if levels is None:
        values = own.numbers(column)
        at: NDArray[Any] = np.linspace(values.min(), values.max(), NUM_POINTS)
    else:
        at = _cells(own, column, levels)
    predictor = _predictor(fit, _reference(fit, len(at), **{column: at}), kind="probability")
    found = {}
    for i in shown:
        outcome = Outcome("=", i + 1.0, names[i])
        draws = replace(predictor, outcome=outcome).expected()
        found[names[i]] = np.quantile(draws, interval_probs(fit.interval), axis=(0, 1))
    what = f"probability of each {fit.data.category_name}"
    if levels is None:
        figure = style.new_figure(3.4, theme)
        ax, handles = figure.subplots(), []
        for color, (name, quantiles) in zip(
            _colours(theme, len(found)), found.items(), strict=True
        ):
            low, inner_low, median, inner_high, high = quantiles
            ax.fill_between(at, low, high, color=color, alpha=0.16, lw=0)
            ax.fill_between(at, inner_low, inner_high, color=color, alpha=0.3, lw=0)
            ax.plot(at, median, color=color, lw=1.8)
            handles.append(style.key(label(name, 18), color=color, lw=1.8))
        ax.set_ylim(0, 1)
        ax.set_xlabel(fitted(column, 4.4))
        ax.set_ylabel(fitted(what, 3.0))
        style.legend(figure, handles)
        note = f"Bands: 50% and {percent(fit.interval)}. {note}".strip()
    else:
        rows = [f"{level}, {name}" for level in levels for name in found]
        every = np.stack(list(found.values()), axis=-1).reshape(5, -1)
        figure, ax = named_rows(rows, column, theme)
        style.legend(figure, intervals_of_rows(ax, every, theme, fit.interval))
        ax.set_xlabel(fitted(what, 4.4))
    ends = "; ".join(f"{name} {its[2, 0]:.2g} to {its[2, -1]:.2g}" for name, its in found.items())
    alt = f"{upper_first(what)} over {column}, medians from its first to its last value: {ends}."
    return finish(figure, alt, _held(fit, column), note)


def _limits(y: NDArray[np.float64], quantiles: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of an axis that shows the 50% intervals and most observations.

    It shows all intervals and observations, unless a few distant observations or a wide band would
    squeeze the rest.
    """
    inner, low, high = quantiles[1:4], float(quantiles.min()), float(quantiles.max())
    if len(y):
        first, last = np.quantile(y, [0.05, 0.95])
        near = (min(float(first), inner.min()), max(float(last), inner.max()))
        low, high = min(low, float(y.min())), max(high, float(y.max()))
        if high - low > MOST_SPREAD * (near[1] - near[0]) > 0:
            margin = 0.2 * (near[1] - near[0])
            low, high = max(low, near[0] - margin), min(high, near[1] + margin)
    margin = 0.05 * ((high - low) or 1.0)
    return low - margin, high + margin


def _beyond(y: NDArray[np.float64], quantiles: NDArray[np.float64], low: float, high: float) -> str:
    """Return a note on the observations and the intervals that are beyond an axis."""
    num, notes = int(np.sum((y < low) | (y > high))), list[str]()
    if num:
        are = "is" if num == 1 else "are"
        notes.append(f"{counted(num, 'observation')} {are} beyond the axis.")
    if quantiles.min() < low or quantiles.max() > high:
        notes.append("Some intervals extend beyond the axis.")
    return " ".join(notes)


def _is_number(level: str) -> bool:
    """Return whether a level is a number, which has no meaning without the name of its column."""
    return level.lstrip("-").replace(".", "", 1).isdigit()


def _colours(theme: Theme, num: int) -> list[str]:
    if num == 1:
        return [theme.model]
    return list(theme.chains[:num])


def _of_labels(
    fit: Fit,
    column: str,
    group: str,
    grid: NDArray[np.float64],
    chosen: NDArray[np.int64] | None = None,
    probs: Sequence[float] = (0.5,),
) -> NDArray[np.float64]:
    """Return quantiles of each group label's curve, with other groups' effects at their means.

    The shape is (quantile, point, label).
    """
    variables = fit.model.groups
    if group not in variables:
        raise ConfigError(
            f"spread=… must be a column of groups ({', '.join(variables) or 'there are none'}), "
            f"got {group!r}"
        )
    index = variables[group]
    its = _labels_of(fit, group)
    if chosen is None:
        num = min(len(its), MOST_LABELS)
        chosen = np.unique(np.linspace(0, len(its) - 1, num).astype(np.int64))
    thin = {name: its[:, :: max(1, its.shape[1] // 200)] for name, its in fit.draws.items()}
    own = fit.data.table
    assert own is not None
    others = [name for name in fit.model.covariates_and_offsets if name != column]
    # Predictors are keyed by the values that are constant within a label.
    curves, predictors = [], dict[Any, Any]()
    for code in chosen:
        there = own.at(np.flatnonzero(its.codes == code))
        values = {name: there.column(name) for name in others}
        same = {name: cells[:1] for name, cells in values.items() if len(set(cells.tolist())) == 1}
        key = tuple((name, str(cells[0])) for name, cells in same.items())
        if key not in predictors:
            fixed = {name: np.repeat(cells, len(grid)) for name, cells in same.items()}
            table = _reference(fit, len(grid), **{**fixed, column: grid})
            predictors[key] = _predictor(fit, table, is_varying=True)
        predictor = predictors[key]
        codes = {**predictor.rows.codes, index: np.full(len(grid), code)}
        rows = replace(predictor.rows, codes=codes)
        draws = replace(predictor, rows=rows, draws=thin, varying=index).expected()
        curves.append(np.quantile(draws, probs, axis=(0, 1)))
    return np.stack(curves, axis=2)


@styled
def group_lines(fit: Fit, column: str, *, group: str | None = None, theme: Theme = LIGHT) -> Figure:
    """Draw each group's observations with its fitted line, with a panel for each group.

    Parameters
    ----------
    fit : Fit
        A fit to a table, of a program that declares ``[prediction]``, as every formula does.
    column : str
        A numeric covariate that varies within the groups.
    group : str, optional
        A column of groups. Default: the first one in which the covariate varies. If there are more
        than 12 groups, 12 are drawn, evenly spaced in the order of their averages.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each group: its observations, and the median and the fit's ``interval`` of the
        expected response. Other columns are fixed, as in :func:`conditional_effects`.

    Raises
    ------
    ConfigError
        If the column does not vary within groups.

    See Also
    --------
    pyflowers.plots.conditional_effects : Draw the expected response without effects of groups.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit(
    ...     "weight ~ age + (age | rat)", "examples/rats/rats.csv", seed=1, engine="stanli"
    ... )
    >>> figure = pyflowers.plots.group_lines(fit, "age")
    >>> pyflowers.plots.alt_text(figure)
    'Observed weight and fitted lines over age for 12 labels of rat. 12 of 30 labels are drawn,
    evenly spaced by their averages.'
    """
    groups = groups_with_lines(fit, column)
    if group is None and groups:
        group = groups[0]
    if group is None or group not in groups:
        raise ConfigError(
            f"group_lines: {column} does not vary within {group or 'groups'}; choose a numeric "
            f"covariate and a group within which it varies ({', '.join(groups) or 'there is none'})"
        )
    own, y = fit.data.table, _observed(fit)
    assert own is not None
    its = _labels_of(fit, group)
    averages = np.bincount(its.codes, y) / np.maximum(its.counts, 1)
    at = np.unique(np.linspace(0, len(its) - 1, min(len(its), MOST_LINES)).round().astype(int))
    chosen = np.sort(np.argsort(averages, kind="stable")[at])
    values = own.numbers(column)
    grid = np.linspace(values.min(), values.max(), NUM_POINTS)
    ends = interval_probs(fit.interval)
    curves = _of_labels(fit, column, group, grid, chosen, (ends[0], 0.5, ends[-1]))
    figure, axes = style.panels(
        len(chosen), min(4, len(chosen)), 1.35, theme, sharex=True, sharey=True
    )
    kept, drawn = _drawn(fit, column, group=group)
    is_kept, is_censored = np.isin(np.arange(len(own)), kept), fit.model.is_censored
    look = {"color": theme.data, "alpha": 0.6}
    for i, code in enumerate(chosen.tolist()):
        ax, here = axes[i], np.flatnonzero((its.codes == code) & is_kept)
        low, median, high = curves[:, :, i]
        ax.fill_between(grid, low, high, color=theme.model, alpha=0.2, lw=0)
        ax.plot(grid, median, color=theme.model, lw=1.4)
        _draw_observed(ax, values[here], y[here], is_censored[here], ms=4, **look)
        room = style.panel_width(min(4, len(chosen)))
        ax.set_title(fitted(str(its.names[code]), room, size=9, bold=True), pad=3, fontsize=9)
    figure.supylabel(fitted(value_name(fit), 3.0), fontsize=9)
    for ax in axes[-min(4, len(chosen)) :]:
        ax.set_xlabel(fitted(column, style.panel_width(4)))
        ax.tick_params(labelbottom=True)
    median_key = style.key(f"median and {percent(fit.interval)}", color=theme.model, lw=1.4)
    style.legend(figure, [*_keys_of_observed(is_censored[kept], theme), median_key])
    note = ""
    if len(chosen) < len(its):
        note = f"{len(chosen)} of {len(its)} labels are drawn, evenly spaced by their averages."
    alt = (
        f"Observed {fit.data.scored_name} and fitted lines over {column} for "
        f"{len(chosen)} labels of {group}."
    )
    return finish(figure, alt, note, _held(fit, column, group=group), drawn)


def groups_with_lines(fit: Fit, column: str) -> list[str]:
    """Return the columns of groups within which a numeric covariate varies.

    :func:`group_lines` can draw the covariate for each of them. Groups for which a row has several
    labels, as with ``mm``, are left out, because the row would not fit into the panel of one label.

    Parameters
    ----------
    fit : Fit
        A fit to a table.
    column : str
        A covariate.
    """
    own, names = fit.data.table, fit.model.covariates_and_offsets
    if own is None or column not in names or num_levels(fit, column) is not None:
        return []
    if fit.model.has_categories:
        return []
    groups = [group for group in fit.model.partitions if group in own.cells]
    return [group for group in groups if not _is_constant(own, column, group)]


def _labels_of(fit: Fit, group: str) -> Labels:
    """Return the labels of a column of groups."""
    return next(its for name, its in fit.data.labels.items() if fit.data.name_of(name) == group)


def _held(fit: Fit, *but: str, group: str | None = None) -> str:
    """Return a note on the columns that are held fixed.

    In a figure of the labels of `group`, columns that are constant within them are not fixed.
    """
    row, own = _reference(fit, 1), fit.data.table
    assert own is not None

    def value(name: str) -> str:
        if own.is_factor(name):
            return str(row.texts(name)[0])
        number, largest = float(row.numbers(name)[0]), float(np.abs(own.numbers(name)).max())
        if abs(number) <= 1e-12 * largest:  # the mean of a centred column is 0 up to rounding
            return "0"
        return f"{number:.3g}"

    others = [
        f"{name} = {value(name)}"
        for name in fit.model.covariates_and_offsets
        if name not in but and not (group and _is_constant(own, name, group))
    ]
    held = []
    if others:
        held.append(f"Fixed: {label(', '.join(others), 90)}")
    if group is None and fit.model.has_effects:
        held.append("effects of groups at their mean")
    if group is not None and len(fit.model.groups) > 1:
        held.append("effects of other groups at their mean")
    if not held:
        return ""
    return f"{upper_first('; '.join(held))}."
