"""What an average effect compares: levels or values of a column, or the slope along it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.data import Table
from pyflowers.data.columns import as_written, number_text
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.fit import Fit
from pyflowers.programs.model import Model

FloatArray = NDArray[np.float64]

MOST_CODES = 4
"""If a column has at most this many distinct whole numbers, these are compared with each other by
default. They may be codes, so that another number, such as the largest plus 1, has no meaning."""

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


@dataclass(frozen=True)
class How:
    """How columns are changed, as given by the arguments of :func:`pyflowers.effects`."""

    slopes: bool = False
    step: float | str | None = None
    between: Sequence[Any] | None = None
    pairs: bool = False
    means: bool = False


def changes_of(
    fit: Fit,
    model: Model,
    table: Table,
    columns: Sequence[str],
    how: How,
    *,
    is_of_mean: bool,
) -> list[Change]:
    """Return the changes in the chosen columns, by default in all covariates."""
    every = model.covariates_and_offsets
    of_group = model.groups.keys() - every.keys()
    wanted = list(columns) or list(model.covariates_of_mean if is_of_mean else model.covariates)
    subject, remedy = fit.called, "add a covariate to the model"
    if model.parameter:
        subject = f"{model.parameter} of {fit.called}"
        remedy = f"add a covariate to its formula, as in {model.parameter} ~ x"
    if not wanted:
        if of_group:
            remedy = "compare groups with pyflowers contrast"
        if every:
            remedy = f"name one of the formula's offsets: {', '.join(every)}"
        raise ConfigError(
            f"effects: {subject} has no covariates other than groups, offsets and trials; {remedy}"
        )
    for column in wanted:
        if column in of_group:
            raise ConfigError(
                f"effects: {column} is a group; compare its labels with pyflowers contrast, or "
                "average the effects of other columns over the rows of each label, with this group "
                + worded("as --by COLUMN")
            )
        if column not in every:
            raise ConfigError(
                f"effects: {column!r} is not a covariate of {subject}; its covariates are "
                f"{', '.join(every) or 'none'}"
            )
    if how.between is not None and len(wanted) != 1:
        raise ConfigError(
            worded("--between VALUES compares two values of a column; name that column")
        )
    levels = model.levels
    found: list[Change] = []
    for column in wanted:
        functions = every[column]
        if column not in levels:
            found += _of_numbers(fit, table, column, functions, how, is_asked=bool(columns))
        elif how.slopes or (columns and how.step is not None):
            if columns:
                option = "--step"
                if how.slopes:
                    option = "--slopes"
                raise ConfigError(
                    f"effects: {option} does not apply to {column}, which is a factor; leave "
                    f"{option} out"
                )
        else:
            found += _of_levels(fit, table, column, functions, levels[column], how)
    if not found:
        raise ConfigError("slopes: no covariate is numeric; leave --slopes out")
    return found


def _of_levels(
    fit: Fit,
    table: Table,
    column: str,
    functions: Mapping[str, ast.expr],
    levels: Sequence[str],
    how: How,
) -> list[Change]:
    """Return the comparisons of a factor's levels with its reference level, or of all pairs."""
    assert fit.data.table is not None
    base = _reference_of(functions.get("C")) or levels[0]
    levels = list(levels)
    if how.between is not None:
        between = how.between
        if isinstance(between, str) or len(between) != 2:
            raise ConfigError(f"between must be two levels of {column}, got {between!r}")
        asked = [number_text(v) if isinstance(v, float) else str(v) for v in between]
        asked = as_written(asked, levels)
        unknown = next((each for each in asked if each not in levels), None)
        if unknown is not None:
            raise ConfigError(
                f"between: {unknown!r} is not a level of {column}; choose two of "
                f"{', '.join(levels)}"
            )
        base, levels = asked[0], asked
    cells = np.array(levels, dtype=object)
    if not fit.data.table.is_factor(column):
        cells = cells.astype(float)
    return _among(column, levels, cells, base, len(table), how)


def _among(
    column: str,
    labels: Sequence[str],
    cells: NDArray[Any],
    base: str,
    num: int,
    how: How,
) -> list[Change]:
    """Return the changes between values of a column; all `num` rows are set to the same value."""
    at = {label: np.full(num, cell) for label, cell in zip(labels, cells, strict=True)}
    if how.means:
        return [Change(column, label, f"at {column} = {label}", (at[label],)) for label in at]
    if how.pairs:
        pairs = [(level, other) for other, level in combinations(at, 2)]
    else:
        pairs = [(level, base) for level in at if level != base]
        if how.between is not None:
            pairs = [(labels[1], base)]
    return [
        Change(
            column,
            f"{level} - {other}",
            f"for {column} = {level} compared with {other}",
            (at[level], at[other]),
        )
        for level, other in pairs
    ]


def _reference_of(call: ast.expr | None) -> str:
    """Return the reference level in a call of ``C``; empty if there is none."""
    if not isinstance(call, ast.Call):
        return ""
    for each in call.keywords:
        if each.arg == "ref":
            level = ast.literal_eval(each.value)
            if isinstance(level, str):
                return level
            return number_text(float(level))
    return ""


def _of_numbers(
    fit: Fit,
    table: Table,
    column: str,
    functions: Mapping[str, ast.expr],
    how: How,
    *,
    is_asked: bool,
) -> list[Change]:
    """Return the comparisons or the derivative for a column of numbers."""
    slopes, step, between = how.slopes, how.step, how.between
    assert fit.data.table is not None
    own, values = fit.data.table.numbers(column), table.numbers(column)
    sd, different = float(own.std(ddof=1)), np.unique(own)
    within = -np.inf, np.inf
    limited = next((name for name in ("bs", "gp") if name in functions), "")
    if limited:
        within = different[0], different[-1]
    if slopes:
        beyond = np.flatnonzero((values < within[0]) | (values > within[1]))
        if beyond.size:
            raise DataError(
                f"{table.where(beyond[0])}: {column} is {number_text(values[beyond[0]])}, but "
                f"{limited}({column}) is defined only from {number_text(within[0])} to "
                f"{number_text(within[1])}, the range of the fit; leave the row out"
            )
        is_limited = bool(functions.keys() & _LIMITED)
        return [_derivative(column, values, sd, within, is_limited=is_limited)]
    is_code = 2 <= len(different) <= MOST_CODES and bool((different == np.round(different)).all())
    if between is None and step is None and len(different) <= 2:
        is_code = True
    if (how.means or (how.pairs and is_asked)) and not is_code and between is None:
        raise ConfigError(
            f"effects: {column} has {len(different)} distinct numbers, but pairs of levels and "
            f"marginal means need a factor or at most {MOST_CODES} whole numbers; compare two "
            + worded("values with --between VALUES, or predict with a grid of values")
        )
    is_whole = len(different) > 2 or how.means
    if between is None and step is None and is_code and is_whole and np.isinf(within[0]):
        labels = [number_text(each) for each in different]
        return _among(column, labels, different, labels[0], len(table), how)
    if between is not None:
        try:
            low, high = map(float, between)
        except (TypeError, ValueError):
            raise ConfigError(
                f"between must be two numbers for {column}, got {between!r}"
            ) from None
    elif step is not None or (len(different) != 2 and np.isinf(within[0])):
        if step == "sd":
            words = f"per sd ({sd:.4g}) of {column}"
            return [Change(column, "+ 1 sd", words, (values + sd / 2, values - sd / 2))]
        num = 1.0
        if step is not None:
            try:
                num = float(step)
            except ValueError:
                num = np.nan
        if not np.isfinite(num) or num == 0:
            raise ConfigError(f"step must be a finite number other than 0, or 'sd', got {step!r}")
        sign = "+"
        if num < 0:
            sign = "-"
        label = f"{sign} {abs(num):g}"
        words = f"per unit of {column}"
        if num != 1:
            words = f"for {column} {label} compared with {column}"
        return [Change(column, label, words, (values + num, values))]
    elif len(different) == 2:
        low, high = different
    else:
        low, high = (float(f"{each:.6g}") for each in np.quantile(own, [0.25, 0.75]))
    labels = [number_text(low), number_text(high)]
    how = replace(how, between=labels)
    return _among(column, labels, np.array([low, high]), labels[0], len(table), how)


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
    size = np.full(values.shape, sd)
    if is_limited:
        size = np.where(values == 0, sd, np.minimum(sd, np.abs(values)))
    width = STEP * size
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
