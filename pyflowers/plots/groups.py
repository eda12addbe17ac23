"""Figures with a row or panel per group: observations, the posterior of means, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pyflowers.data import Labels
from pyflowers.display import interval_quantiles, percent
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, labels_of, own_dims
from pyflowers.plots import style
from pyflowers.plots.posterior import kernel_density
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, Theme, finish, fitted, label, styled
from pyflowers.programs import Capability, Data
from pyflowers.text import in_words

if TYPE_CHECKING:
    from pyflowers.analysis.checks import PredictiveChecks
    from pyflowers.analysis.predictions import Predictions, RowPredictions

MOST_ROWS = 30
MOST_EYES = 10
"""The largest number of rows that are drawn with densities."""

MOST_DISCRETE = 30
"""Draws with at most this many distinct values, such as ranks, are drawn without a density."""

ROW, ROW_OF_EYE = 0.24, 0.5
"""Heights in inches of a row without a density and of a row with one."""

HEIGHT_OF_EYE = 0.75
"""Height of a density's highest point, as a share of the row's height."""

LEAST_OF_EYE = 0.02
"""A density is drawn only if the 50% interval is longer than this share of the 99% interval."""

MOST_PANELS = 24
MOST_TICKS = 6
MOST_INSIDE = 0.75
"""If a larger share of observed means is within 50% intervals, the figure warns that this is not
evidence of a good fit."""

NEAR_ZERO = 0.2
"""The largest ratio of the smallest to the largest observation for which an axis includes 0."""

ROW_CHARACTERS = 66
"""Characters that fit below a row of panels; longer labels are drawn vertically."""


@styled
def forest(fit: Fit, quantity: str | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw the posterior of each group or coefficient: medians with two intervals.

    The intervals have probability 50% and the fit's ``interval``, 90% by default. Groups are sorted
    by their medians. Coefficients are in the order of the formula; those of numeric terms are per
    standard deviation of the term, so that they can be compared.

    Parameters
    ----------
    fit : Fit
        The fit.
    quantity : str, optional
        A vector of the posterior. Default: the means of the groups, or the coefficients of a design
        matrix if there are none. If there are more than 30 elements, those with the 15 largest and
        the 15 smallest medians are drawn.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row for each element.

    Raises
    ------
    ConfigError
        If the posterior has no such vector.

    See Also
    --------
    pyflowers.plots.shrinkage : Compare the posterior of each group with its average.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.forest(fit)
    >>> figure.savefig("forest.png")
    """
    effects = coefficients(fit)
    if quantity is None and not effects:
        fit.program.require(Capability.GROUP_MEAN)
    quantity = quantity or fit.program.declaration.roles.group_mean or effects[0]
    found = fit.posterior.data_vars.get(quantity)
    if found is None or len(own_dims(found)) != 1:
        names = [str(name) for name, each in fit.posterior.items() if len(own_dims(each)) == 1]
        vectors = ", ".join(names) or "none"
        raise ConfigError(
            f"forest: {quantity!r} is not a vector of {fit.called}; it has these vectors: {vectors}"
        )
    draws, all_names = flat(found), list(map(str, labels_of(found)[0]))
    elements = element_names(found)
    unit, of_rows = fit.program.unit_of(quantity, fit.data), fit.data.name_of(own_dims(found)[0])
    per_sd = ""
    if quantity in effects:
        unit, of_rows = unit or fit.program.description_of(quantity), ""
        scales = _scales(fit, quantity, len(all_names))
        draws = draws * scales
        all_names = [
            f"{name}, per sd" if scale != 1 else name
            for name, scale in zip(all_names, scales.tolist(), strict=True)
        ]
        if np.any(scales != 1):
            per_sd = "Per sd: for one standard deviation of the term."
        elements = [
            f"{element} per sd" if scale != 1 else element
            for element, scale in zip(elements, scales.tolist(), strict=True)
        ]
    levels = np.quantile(draws, interval_probs(fit.interval), axis=(0, 1))
    shown, note = np.arange(len(all_names)), ""
    if quantity not in effects or len(all_names) > MOST_ROWS:
        shown, note = extremes(-levels[2])
    names = [all_names[i] for i in shown]
    figure, ax = named_rows(names, of_rows, theme)
    if quantity in effects:
        ax.axvline(0, color=theme.muted, lw=0.8, zorder=0)
    ax.set_xlabel(fitted(unit or quantity, 3.4))
    style.legend(figure, intervals_of_rows(ax, levels[:, shown], theme, fit.interval))
    top, bottom = (elements[int(np.argmax(s * levels[2]))] for s in (1, -1))
    medians = (
        f"largest median is {levels[2].max():.3g}, for {top}, and the smallest is "
        f"{levels[2].min():.3g}, for {bottom}."
    )
    if levels.shape[1] == 1:
        medians = f"median is {levels[2, 0]:.3g}, for {top}."
    return finish(figure, f"Forest plot of {quantity} of {fit.called}: the {medians}", per_sd, note)


def _scales(fit: Fit, quantity: str, num: int) -> NDArray[np.float64]:
    """Return the standard deviations of a design matrix's numeric columns, and 1 for the others.

    Columns with two distinct values, such as those of the levels of a factor, are not scaled.
    """
    (matrix,) = fit.data.declaration.dims[quantity]
    values = np.asarray(fit.data.values.get(matrix, ()), dtype=float)
    if values.ndim != 2 or values.shape[1] != num:
        return np.ones(num)
    numeric = [len(np.unique(column)) > 2 for column in values.T]
    return np.where(numeric, values.std(axis=0), 1.0)


def coefficients(fit: Fit) -> list[str]:
    """Return the names of the posterior's vectors of coefficients of a design matrix."""
    declared = fit.data.declaration
    blocks = fit.program.source.blocks.data
    matrices = [(name,) for name in declared.named if blocks[name].ndim == 2]
    return [
        name for name, dims in declared.dims.items() if dims in matrices and name in fit.posterior
    ]


@styled
def group_intervals(checks: PredictiveChecks, *, theme: Theme = LIGHT) -> Figure:
    """Draw each group's observed mean on the interval of its replicated means.

    Parameters
    ----------
    checks : PredictiveChecks
        The checks of a fit to grouped data, by a model without a separate mean for each group:
        otherwise each replicated mean would follow the observed one, and no group would stand out.
        If there are more than 30 groups, the 30 whose observed means are the most extreme compared
        with their replicated means are drawn.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row for each group: the observed mean and two intervals of replicated means.

    Raises
    ------
    ConfigError
        If the rows are not grouped.

    See Also
    --------
    pyflowers.check : Compute the checks.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> figure = pyflowers.plots.group_intervals(pyflowers.check(fit))
    >>> pyflowers.plots.alt_text(figure)
    'Observed means of 3 groups and means replicated by iid_normal. The number of observed means
    outside their 90% intervals is 1.'
    """
    groups, fit = checks.groups, checks.fit
    if groups is None:
        raise ConfigError(
            f"plots: the data of {fit.called} have no groups to draw; fit a model with groups"
        )
    observed, num = groups.observed, groups.observed.size
    levels = np.quantile(groups.replicated, interval_probs(fit.interval), axis=0)
    width = np.maximum(levels[4] - levels[0], 1e-300)
    shown = np.sort(np.argsort(-np.abs(observed - levels[2]) / width, kind="stable")[:MOST_ROWS])
    inside = (observed >= levels[1]) & (observed <= levels[3])
    notes = []
    if inside.mean() > MOST_INSIDE:
        notes.append(
            f"{int(inside.sum())} of {num} observed means are in their 50% intervals. This happens "
            "if a model has a mean for each group, however badly it fits otherwise."
        )
    if shown.size < num:
        notes.append(
            f"{shown.size} of {num} groups are shown: those whose observed means are the most "
            "extreme compared with their replicated means."
        )
    figure, ax = named_rows([groups.labels.names[i] for i in shown], groups.labels.column, theme)
    handles = intervals_of_rows(ax, levels[:, shown], theme, fit.interval, "replicated, ")
    dot: dict[str, Any] = {"marker": "o", "mfc": theme.paper, "mec": theme.data}
    ax.plot(observed[shown], np.arange(shown.size), ls="", ms=6, mew=1.3, **dot)
    ax.set_xlabel(fitted(f"mean of {fit.data.value_name}", 3.4))
    style.legend(figure, [style.key("observed", ls="", **dot), *handles])
    outside = (observed < levels[0]) | (observed > levels[4])
    alt = (
        f"Observed means of {num} groups and means replicated by {fit.called}. The number of "
        f"observed means outside their {percent(fit.interval)} intervals is {int(outside.sum())}."
    )
    return finish(figure, alt, *notes)


@styled
def predictions(found: Predictions | RowPredictions, *, theme: Theme = LIGHT) -> Figure:
    """Draw predictions: medians with two intervals, new groups last.

    The intervals have probability 50% and the fit's ``interval``, 90% by default.

    Parameters
    ----------
    found : Predictions or RowPredictions
        The predictions. If there are more than 30 groups or rows, those with the 15 largest and the
        15 smallest medians are drawn.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row for each group, or for each row or average of the table.

    See Also
    --------
    pyflowers.predict : Compute predictions.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.predictions(pyflowers.predict(fit))
    >>> figure.savefig("predictions.png")
    """
    from pyflowers.analysis.predictions import RowPredictions

    fit = found.fit
    if isinstance(found, RowPredictions):
        return _row_predictions(found, theme)
    mean = fit.program.declaration.roles.group_mean
    parts = [part for part in found.parts if part.quantity.name != mean] or list(found.parts)
    draws = np.concatenate([flat(part.quantity) for part in parts], axis=2)
    levels = np.quantile(draws, interval_probs(fit.interval), axis=(0, 1))
    names = [
        ", ".join(element[len(str(part.quantity.name)) :].strip("[]").split(",")) or part.title
        for part in parts
        for element in element_names(part.quantity)
    ]
    num = len(element_names(parts[0].quantity))
    groups, note = np.arange(num), ""
    if num > MOST_ROWS:
        groups, note = extremes(-levels[2, :num])
    shown = np.concatenate([groups, np.arange(num, len(names))])
    figure, ax = named_rows([names[i] for i in shown], "", theme)
    style.legend(figure, intervals_of_rows(ax, levels[:, shown], theme, fit.interval))
    # The tail of a new group may be so long that nothing else would be readable.
    low, inner_low, _, inner_high, high = levels[:, shown]
    span = float(inner_high.max() - inner_low.min()) or 1.0
    right = min(float(high.max()), float(inner_high.max()) + 2 * span)
    left = max(float(low.min()), float(inner_low.min()) - 2 * span)
    ax.set_xlim(left - 0.04 * (right - left), right + 0.04 * (right - left))
    beyond = ""
    if (high > right).any() or (low < left).any():
        beyond = "Some intervals extend beyond the axis; their ends are in the table."
    titles = in_words([part.title for part in parts])
    ax.set_xlabel(fitted(f"{observed_unit(fit)}, {titles}", 4.4))
    alt = (
        f"Predictions of {fit.called} for the {titles}: medians from {levels[2].min():.3g} to "
        f"{levels[2].max():.3g}, with intervals of 50% and {percent(fit.interval)}."
    )
    return finish(figure, alt, beyond, note)


def _row_predictions(found: RowPredictions, theme: Theme) -> Figure:
    """Draw predictions for the rows of a table, or averages over these rows."""
    table, interval = found.table(), found.fit.interval
    columns = {prob: name for name, prob in interval_quantiles(0.5, interval).items()}
    levels = table[[columns[round(prob, 12)] for prob in interval_probs(interval)]].to_numpy().T
    rows = [each if isinstance(each, tuple) else (each,) for each in table.index]
    is_row = found.sets is None
    # Columns with one value in all rows, as in a grid, are named below the figure.
    shared = [i for i, its in enumerate(zip(*rows, strict=True)) if i and len(set(its)) == 1]
    if len(rows) == 1:
        shared = []
    own = [i for i in range(len(rows[0])) if i not in shared]
    fixed = [f"{table.index.names[i]} = {_rounded(rows[0][i])}" for i in shared]
    # A grid needs no row numbers.
    without = {tuple(row[i] for i in own[1:]) for row in rows}
    if is_row and len(own) > 1 and len(without) == len(rows):
        own, is_row = own[1:], False
    if found.kind == "probability" and shared and shared[-1] == len(rows[0]) - 1:
        fixed[-1] = f"{observed_unit(found.fit)} {rows[0][-1]}"  # an outcome, such as y > 0
    held = f"In all rows: {', '.join(fixed)}." if fixed else ""

    def joined(parts: Sequence[Any]) -> str:
        first, *more = (_rounded(parts[i]) for i in own)
        if is_row and more:
            return f"{first}: {', '.join(more)}"
        return ", ".join([first, *more])

    names = list(map(joined, rows))
    shown, note = np.arange(len(names)), ""
    if len(names) > MOST_ROWS:
        shown, note = extremes(-levels[2])
    figure, ax = named_rows([names[i] for i in shown], joined(table.index.names), theme)
    style.legend(figure, intervals_of_rows(ax, levels[:, shown], theme, interval))
    what = {
        "expected": "expected value",
        "linear": "linear predictor",
        "observation": "observation",
        "probability": "probability",
    }
    of = found.parameter or observed_unit(found.fit)
    ax.set_xlabel(fitted(f"{of}, {what[found.kind]}", 4.4))
    alt = (
        f"Predictions of {found.fit.called} for {len(names)} rows: medians from "
        f"{levels[2].min():.3g} to {levels[2].max():.3g}, with intervals of 50% and "
        f"{percent(interval)}."
    )
    return finish(figure, alt, held, note)


def _rounded(value: Any) -> str:
    """Return a label; a number with many digits is rounded to three significant digits."""
    text = str(value)
    try:
        number = float(text)
    except ValueError:
        return text
    if len(text) > 7:
        return f"{number:.3g}"
    return text


@styled
def values_of_result(
    names: Sequence[str],
    draws: NDArray[np.float64],
    *,
    interval: float,
    what: str,
    of_rows: str = "",
    sort: Literal["", "down", "up"] = "",
    null: float | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Draw a row for each value of a result: a caterpillar plot if the medians are sorted.

    At most 10 values are drawn as half-eyes, with the density above the intervals.

    Parameters
    ----------
    names : sequence of str
        The names of the values.
    draws : array, shape (chain, draw, value)
        Their draws. If there are more than 30 values, those with the 15 largest and the 15 smallest
        medians are drawn.
    interval : float
        Probability of the wider interval; the narrower interval has probability 50%.
    what : str
        The label of the values on the axis.
    of_rows : str
        The title of the rows, such as the name of a column or of a vector.
    sort : str
        ``down`` or ``up`` to sort the rows by their medians. Default: the order of the names,
        unless there are more than 30 values.
    null : float, optional
        A value that means no effect, which is marked by a line.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A median and two intervals for each value.
    """
    levels = np.quantile(draws, interval_probs(interval), axis=(0, 1))
    shown, note = np.arange(len(names)), ""
    if sort or len(names) > MOST_ROWS:
        shown, note = extremes(levels[2] if sort == "up" else -levels[2])
    own = [names[i] for i in shown.tolist()]
    is_discrete = all(len(np.unique(draws[..., i])) <= MOST_DISCRETE for i in shown.tolist())
    has_eyes = len(own) <= MOST_EYES and not is_discrete
    figure, ax = named_rows(own, of_rows, theme, row=ROW_OF_EYE if has_eyes else ROW)
    if has_eyes:
        half_eyes(ax, draws[..., shown], theme)
    if is_discrete:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if null is not None:
        ax.axvline(null, color=theme.muted, lw=0.8, zorder=0)
    ax.set_xlabel(fitted(what, 4.4))
    style.legend(figure, intervals_of_rows(ax, levels[:, shown], theme, interval))
    alt = (
        f"{what} of {len(names)} rows: medians from {levels[2].min():.3g}, for "
        f"{names[int(levels[2].argmin())]}, to {levels[2].max():.3g}, for "
        f"{names[int(levels[2].argmax())]}."
    )
    return finish(figure, alt, note)


@styled
def shrinkage(fit: Fit, *, theme: Theme = LIGHT) -> Figure:
    """Draw each group's average and the posterior median to which it is shrunk.

    The dashed line is the value towards which the model shrinks averages: the posterior median of a
    group that is not in the data or, if the program cannot draw new groups, the average of all
    observations.

    Parameters
    ----------
    fit : Fit
        A fit to a table, of a program with the role ``group_mean``. If there are more than 30
        groups, the 15 with the lowest and the 15 with the highest averages are drawn.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A row for each group: its average, and its posterior median with an interval.

    Raises
    ------
    ConfigError
        If the program has no group means, or the data are not a table.

    See Also
    --------
    pyflowers.plots.forest : Draw only the posterior of each group.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.shrinkage(fit)
    >>> figure.savefig("shrinkage.png")
    """
    fit.program.require(Capability.GROUP_MEAN)
    groups = fit.data.by_group
    if groups is None:
        raise ConfigError(
            f"plots: the groups of {fit.called} are not known; fit it to a table, and name the "
            "groups' column under [table] group"
        )
    unpooled = np.bincount(groups.codes, fit.data.y) / groups.counts
    mean = fit.program.declaration.roles.group_mean
    centre, line = float(fit.data.y.mean()), "average of all"
    if fit.program.predicts_groups:
        anew = fit.model.new_group(fit.draws, fit.record.options.seed)
        centre, line = float(np.median(anew.expected())), "median of a new group"
    draws = flat(fit.posterior[mean])
    low, _, median, _, high = np.quantile(draws, interval_probs(fit.interval), axis=(0, 1))
    shown, note = np.arange(len(groups)), ""
    if len(groups) > MOST_ROWS:
        shown, _ = extremes(unpooled)
        note = (
            f"{MOST_ROWS} of {len(groups)} {label(groups.column)} labels are shown: the "
            f"{MOST_ROWS // 2} with the lowest and the {MOST_ROWS // 2} with the highest averages. "
            "The others are left out, but are in the summary table."
        )
    rows = np.arange(shown.size)
    figure, ax = named_rows([groups.names[i] for i in shown], groups.column, theme)
    ax.axvline(centre, color=theme.prior, ls=style.DASHED, lw=1.1)
    ax.hlines(rows, low[shown], high[shown], color=theme.model, lw=2.2, alpha=0.45)
    ax.hlines(rows, unpooled[shown], median[shown], color=theme.muted, lw=0.8)
    own: dict[str, Any] = {"marker": "o", "ls": "", "mfc": theme.paper, "mec": theme.data}
    ax.plot(unpooled[shown], rows, ms=8.5, mew=1.1, **own)
    ax.plot(median[shown], rows, "o", ms=5, color=theme.model)
    ax.set_xlabel(fitted(observed_unit(fit), 3.0))
    median_key = {"marker": "o", "color": theme.model, "lw": 2.2}
    handles = [
        style.key("own average", ms=8, **own),
        style.key(f"posterior median, {percent(fit.interval)}", **median_key),
        style.key(line, color=theme.prior, ls=style.DASHED),
    ]
    style.legend(figure, handles)
    away = unpooled - centre
    far = np.abs(away) > 1e-12
    if far.any():
        share = float(np.median(1 - (median - centre)[far] / away[far]))
    else:
        share = 0.0
    most = int(np.argmax(np.abs(median - unpooled)))
    alt = (
        f"Shrinkage of the group means of {fit.called}: the posterior median typically lies "
        f"{share:.0%} of the way from a label's average to the {line}, {centre:.3g} (the median "
        f"over {len(groups)} {groups.column} labels). {groups.names[most]} moves most, from "
        f"{unpooled[most]:.3g} to {median[most]:.3g}."
    )
    return finish(figure, alt, note)


@styled
def observations(data: Data, *, theme: Theme = LIGHT) -> Figure:
    """Draw each group's observations over time, with a panel for each group.

    If a group has no observation at a time at which another group has one, a cross at the bottom of
    its panel and a gap in its line mark that time. Without times, all groups are in one panel, with
    a dot for each observation.

    Parameters
    ----------
    data : Data
        The data of a table with groups, such as ``fit.data``. If there are more than 24 groups, 24
        are drawn, evenly spaced in the order of their averages.
    theme : Theme
        Colours of the figure.

    Returns
    -------
    Figure
        A panel for each group; without times, one panel with a row for each group.

    Raises
    ------
    ConfigError
        If the data have no groups or no observations.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figure = pyflowers.plots.observations(fit.data)
    >>> figure.savefig("observations.png")
    """
    groups, times = data.by_group, data.by_time
    if groups is None or not data.num_obs:
        raise ConfigError(
            "plots: the data have no groups or no observations; name the groups' column under "
            "[table] group, and the observed variable under [roles] observed"
        )
    if data.counted:
        raise ConfigError(
            "plots: a row has the counts of several categories, so the rows of a group have no "
            "average; draw one of the columns"
        )
    averages, num = np.bincount(groups.codes, data.y) / groups.counts, len(groups)
    shown, note = np.arange(num), ""
    if num > MOST_PANELS:
        at = np.unique(np.linspace(0, num - 1, MOST_PANELS).round().astype(int))
        shown = np.argsort(averages, kind="stable")[at]
        note = (
            f"{at.size} of {num} {label(groups.column)} labels are shown, evenly spaced from the "
            "lowest average to the highest; the other labels are left out."
        )
    low, high = float(data.y.min()), float(data.y.max())
    if times is None:
        figure = _dots(data, groups, shown, theme)
        what = f"{groups.column}, {num} groups: {data.num_obs} observations"
        missing = ""
    else:
        table = np.full((num, len(times)), np.nan)
        table[groups.codes, times.codes] = data.y
        figure = _time_panels(data, table, shown, theme)
        num_missing = int(np.isnan(table).sum())
        if num_missing:
            missing = f"; {num_missing} missing"
        else:
            missing = "; none missing"
        what = f"{groups.column} and {times.column}, {num} panels: {data.num_obs} observations"
    lowest, highest = int(np.argmin(averages)), int(np.argmax(averages))
    alt = (
        f"{data.value_name} by {what} between {low:g} and {high:g}{missing}. The average is "
        f"lowest for {groups.names[lowest]}, {averages[lowest]:.3g}, and highest for "
        f"{groups.names[highest]}, {averages[highest]:.3g}."
    )
    return finish(figure, alt, note)


def _limits(data: Data) -> tuple[float, float]:
    """Return limits that contain all observations, and 0 if the smallest one is near 0."""
    low, high = float(data.y.min()), float(data.y.max())
    if 0 < low < NEAR_ZERO * high:
        low = 0.0
    margin = 0.09 * ((high - low) or 1.0)
    return low - margin, high + margin


def _dots(data: Data, groups: Labels, shown: NDArray[np.int64], theme: Theme) -> StyledFigure:
    """Draw a row of dots for each group, at different heights so that equal values stay visible."""
    most = int(groups.counts[shown].max())
    size, of_row = 1.8, 0.3
    if most <= 24:
        size = 3.6
    if most == 1:
        size, of_row = 5.0, 0.2
    height = max(shown.size, 4) * of_row
    figure = style.new_figure(0.6 + height, theme)
    ax = figure.subplots()
    rows = [np.flatnonzero(groups.codes == group) for group in shown]
    at = [i + 0.3 * np.linspace(-1, 1, r.size + 2)[1:-1] for i, r in enumerate(rows)]
    ax.plot(data.y[np.concatenate(rows)], np.concatenate(at), "o", ms=size, color=theme.model)
    _name_rows(ax, [groups.names[group] for group in shown], groups.column, height)
    ax.grid(axis="y", visible=True)
    ax.set_xlabel(fitted(data.value_name, 3.0))
    ax.set_xlim(_limits(data))
    return figure


def _time_panels(
    data: Data, table: NDArray[np.float64], shown: NDArray[np.int64], theme: Theme
) -> StyledFigure:
    """Draw a panel over time for each group, with missing observations marked."""
    groups, times = data.by_group, data.by_time
    assert groups is not None  # observations() has checked this
    assert times is not None
    columns = min(4, max(shown.size, 1))
    height = 1.25
    if shown.size <= 4:
        height = 1.75
    figure, axes = style.panels(shown.size, columns, height, theme, sharex=True, sharey=True)
    names = [groups.names[group] for group in shown]
    whole = [f"{groups.column} {name}" for name in names]
    if groups.are_titles or max(map(len, whole)) > 14:
        titles = names
    else:
        titles = whole
    at = np.arange(0, len(times), -(-len(times) // MOST_TICKS))
    ticks = [label(times.names[i], 9) for i in at]
    upright = sum(map(len, ticks)) + len(ticks) > ROW_CHARACTERS / columns
    room = style.panel_width(columns)
    steps, size = np.arange(len(times)), 1.8
    if len(times) <= 24:
        size = 3.6
    cross: dict[str, Any] = {"marker": "x", "color": theme.alarm}
    for i, (ax, values) in enumerate(zip(axes, table[shown], strict=True)):
        ax.plot(steps, values, "o-", ms=size, lw=0.9, color=theme.model)
        missing = steps[np.isnan(values)]
        if missing.size:
            foot = ax.get_xaxis_transform()
            place = np.full(missing.size, 0.03)
            ax.scatter(missing, place, transform=foot, s=18, lw=1.2, clip_on=False, **cross)
        ax.set_xlim(-0.5, len(times) - 0.5)
        ax.set_ylim(_limits(data))
        ax.grid(axis="x", visible=False)
        ax.set_title(fitted(titles[i], room, size=9, bold=True), pad=3, fontsize=9)
        ax.set_xticks(at, ticks)
        if upright:
            ax.tick_params(axis="x", rotation=90)
        if i + columns >= len(axes):  # the lowest panel of its column
            ax.tick_params(labelbottom=True)
            # In panels above the last row, the labels extend into the empty space below the panel,
            # without changing the row's height.
            ax.xaxis.set_in_layout(i // columns == (len(axes) - 1) // columns)
            ax.set_xlabel(fitted(times.column, room))
    num_rows = -(-shown.size // columns)
    figure.supylabel(fitted(data.value_name, height * num_rows), fontsize=9)
    if np.isnan(table).any():
        style.legend(figure, [style.key("missing", ls="", **cross)])
    return figure


def observed_unit(fit: Fit) -> str:
    """Return the unit of an observation: the unit of the group mean, or else the column's name."""
    mean = fit.program.declaration.roles.group_mean
    return fit.program.unit_of(mean, fit.data) or fit.data.value_name


def interval_probs(interval: float) -> tuple[float, ...]:
    """Return the probabilities of five quantiles: the ends of two intervals, and the median."""
    return ((1 - interval) / 2, 0.25, 0.5, 0.75, (1 + interval) / 2)


def extremes(order_by: NDArray[np.float64]) -> tuple[NDArray[np.int64], str]:
    """Return the rows in order, or only the first and last if there are too many, with a note."""
    order = np.argsort(order_by, kind="stable")
    if order.size <= MOST_ROWS:
        return order, ""
    half = MOST_ROWS // 2
    note = (
        f"The {half} largest and the {half} smallest of {order.size} medians are shown; the others "
        "are left out."
    )
    return np.concatenate([order[:half], order[-half:]]), note


def half_eyes(ax: Axes, draws: NDArray[np.float64], theme: Theme) -> None:
    """Draw the density of the draws above each row; shape (chain, draw, row).

    A density with such long tails that half of the draws lie in a tiny part of their range is left
    out: the axis would have to be so long that the intervals on it could not be seen.
    """
    for row, values in enumerate(np.moveaxis(draws, 2, 0)):
        low, inner_low, inner_high, high = np.quantile(values, (0.005, 0.25, 0.75, 0.995))
        if not inner_high - inner_low > LEAST_OF_EYE * (high - low):
            continue
        grid = np.linspace(low, high, 200)
        density = kernel_density(values.ravel(), grid)
        top = row - HEIGHT_OF_EYE * density / density.max()
        ax.fill_between(grid, row, top, color=theme.model, alpha=0.25, lw=0)


def named_rows(
    names: Sequence[str], what: str, theme: Theme, *, row: float = ROW
) -> tuple[StyledFigure, Axes]:
    """Return a figure and its axes, with a row for each name; each row is `row` inches high."""
    height = row * max(len(names), 3)
    if row > ROW:
        height = row * max(len(names), 2)
    figure = style.new_figure(1.15 + height, theme)
    ax = figure.subplots()
    _name_rows(ax, names, what, height)
    if row > ROW:
        ax.set_ylim(len(names) - 0.6, -0.9)  # densities are above their rows
    return figure, ax


def _name_rows(ax: Axes, names: Sequence[str], what: str, height: float) -> None:
    ax.set_yticks(np.arange(len(names)), [fitted(label(name), 2.0, size=8) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    if style.text_width(label(what, 80)) <= height:
        ax.set_ylabel(fitted(what, height))
    else:
        ax.set_title(fitted(what, 2.8), fontsize=9, fontweight="normal", pad=3)
    ax.grid(axis="y", visible=False)


def intervals_of_rows(
    ax: Axes, levels: NDArray[np.float64], theme: Theme, interval: float, what: str = ""
) -> list[Any]:
    """Draw two intervals per row, and medians unless `what` is given; return legend handles."""
    rows = np.arange(levels.shape[1])
    wide: dict[str, Any] = {"color": theme.model, "lw": 1.6, "alpha": 0.55}
    narrow: dict[str, Any] = {"color": theme.model, "lw": 4.2, "alpha": 0.8}
    ax.hlines(rows, levels[0], levels[4], **wide)
    ax.hlines(rows, levels[1], levels[3], **narrow)
    if not what:
        ax.plot(levels[2], rows, "o", ms=5, mfc=theme.paper, mec=theme.model, mew=1.2)
    return [style.key(f"{what}50%", **narrow), style.key(f"{what}{percent(interval)}", **wide)]
