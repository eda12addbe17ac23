"""Grids: tables of the combinations of chosen values, with all other columns held fixed.

A grid gives the values of some columns. Its rows are all combinations of these values. Each other
column is fixed at its mean or, if it is a factor or has two distinct numbers, at its most frequent
value. In a balanced grid, each of these factors and two-valued columns instead takes all of its
values, so that averages over the grid give every value the same weight (Searle, Speed and Milliken
1980, Population marginal means in the linear model, The American Statistician 34(4)).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from pyflowers.data import Table
from pyflowers.data.columns import as_written, label_text
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.programs.design import levels_of_numbers
from pyflowers.text import shortened, suggestion

MOST_ROWS = 100_000
"""The largest number of rows of a grid."""

EVERY = "*"
"""Stands for all levels of a factor, all labels of a group, or all distinct numbers of a column."""

_SYNTAX = "such as 'x = 0:10:5, f = *', where 0:10:5 is from 0 to 10 in steps of 5"


@dataclass(frozen=True, eq=False)
class Grid:
    """The rows of a grid.

    Attributes
    ----------
    table : Table
        The rows. Columns of groups are left out unless they are named.
    named : tuple of str
        The columns whose values were chosen.
    has_groups : bool
        Whether the values of all columns of groups were chosen.
    """

    table: Table
    named: tuple[str, ...]
    has_groups: bool


def grid(fit: Fit, *, balanced: bool = False, **columns: Any) -> pd.DataFrame:
    """Return a table of all combinations of chosen values, in which other columns are held fixed.

    Parameters
    ----------
    fit : Fit
        A fit to a table. Its program must declare ``[prediction]``, as every formula does.
    balanced : bool
        Whether unnamed factors, and unnamed columns with two distinct numbers, take all of their
        values instead of only the most frequent one.
    **columns
        The values of a column: one value, a sequence, or text such as ``"0:10:5"``, for 0, 5 and
        10; ``"low|high"``, for two labels; or ``"*"``, for all levels of a factor, labels of a
        group or distinct numbers. If the name of a column is not a valid name in Python, write
        ``**{"the name": values}``.

    Returns
    -------
    DataFrame
        The rows, which :func:`pyflowers.predict` and :func:`pyflowers.effects` accept as ``new``.
        Other numeric columns are at their means, and factors and columns with two distinct numbers
        at their most frequent values. The number of trials is 1. Columns of groups are left out
        unless they are named.

    Raises
    ------
    ConfigError
        If predictions do not depend on a column, or a value does not suit its column.

    See Also
    --------
    pyflowers.predict : Predict the rows of a grid, with the argument ``grid``.

    Examples
    --------
    >>> import pandas as pd, pyflowers
    >>> y = [1.0, 2.9, 5.1, 7.0, 8.9, 11.1]
    >>> frame = pd.DataFrame({"dose": [0, 1, 2, 3, 4, 5], "y": y})
    >>> fit = pyflowers.fit("y ~ dose", frame, seed=1, engine="stanli")
    >>> pyflowers.grid(fit, dose="0:10:5")["dose"].tolist()
    [0.0, 5.0, 10.0]
    >>> pyflowers.predict(fit, grid={"dose": [0, 10]}).table()["median"].round().tolist()
    [1.0, 21.0]
    """
    fit = checked_fits([fit], "grid")[0]
    made = grid_of(fit, columns, balanced=balanced).table
    return pd.DataFrame({name: cells.tolist() for name, cells in made.cells.items()})


def grid_of(fit: Fit, asked: str | Mapping[str, Any], *, balanced: bool = False) -> Grid:
    """Return the rows of a grid; see :func:`grid`. Text is parsed by :func:`parse_grid`."""
    own = fit.data.table
    if own is None:
        raise ConfigError("grid: the model was fitted to a data block; fit it to a table")
    known = _columns(fit)
    if isinstance(asked, str):
        asked = parse_grid(asked, known)
    elif not isinstance(asked, Mapping):
        raise ConfigError(f"grid must be text or a mapping of columns to values, got {asked!r}")
    for name in asked:
        if name not in known:
            raise ConfigError(
                f"grid: predictions of {fit.called} do not depend on {name!r}; "
                f"{suggestion(str(name), known)}"
            )
    values = {name: _values(fit, name, its) for name, its in asked.items()}
    named = tuple(values)
    if balanced:
        for name in fit.model.covariates:
            if name not in values and _is_categorical(fit, name):
                values[name] = _every(fit, name)
    num = prod(map(len, values.values()))
    if num > MOST_ROWS:
        raise ConfigError(
            f"grid: the values have {num} combinations, more than {MOST_ROWS}; choose fewer values"
        )
    combinations = list(product(*values.values()))
    cells = {
        name: np.array(column, dtype=object if isinstance(column[0], str) else float)
        for name, column in zip(values, zip(*combinations, strict=True), strict=True)
    }
    for group, factor in fit.model.levels_of_groups.items():
        if group in cells and factor not in cells:
            cells[factor] = _of_labels(own, factor, group, cells[group])
    made = reference(fit, num, **cells)
    groups = fit.model.groups.keys()
    chosen = {name for name in groups if name in values or {*name.split(":")} <= values.keys()}
    kept = {name: its for name, its in made.cells.items() if name not in groups - values.keys()}
    # Predictions do not depend on the response; the chosen columns come first.
    needed = {*known, *values}
    order = [*named, *(name for name in kept if name in needed and name not in named)]
    about = {"reading": own.reading, "levels": own.levels, "ordered": own.ordered}
    table = Table.of_cells({name: kept[name] for name in order}, "the grid", made.rows, **about)
    return Grid(table, named, len(chosen) == len(groups))


def _of_labels(own: Table, factor: str, group: str, labels: Any) -> Any:
    """Return the level of each label in the table of the fit; for new labels, the most frequent."""
    column = own.column(factor)
    levels = dict(zip(own.texts(group).tolist(), column.tolist(), strict=True))
    common = _most_frequent(own, factor, [])
    return np.array([levels.get(label, common) for label in labels], dtype=column.dtype)


def _columns(fit: Fit) -> list[str]:
    """Return the columns on which predictions depend."""
    model = fit.model
    found = [*model.covariates_and_offsets, *model.groups]
    if model.trials:
        found.append(model.trials)
    found += [part for name in model.groups for part in name.split(":")]
    found += model.columns_of_rows
    return list(dict.fromkeys(found))


def parse_grid(text: str, known: Sequence[str]) -> dict[str, str]:
    """Return the values of each column in a text such as ``x = 0:10:5, f = low|high, g``.

    A comma separates columns only if one of the `known` names follows it; labels may therefore
    contain commas. A name without values stands for all values of the column.

    Raises
    ------
    ConfigError
        If the text cannot be parsed, or names a column twice.
    """
    names = sorted(known, key=len, reverse=True)
    one = "|".join(map(re.escape, names)) or "(?!)"
    places = list(re.finditer(rf"(?:^|,)\s*({one})\s*(=|(?=,|$))", text))
    if not places or places[0].start() != 0:
        first = re.split(r"[=,]", text)[0].strip()
        if not first:
            raise ConfigError(f"grid {text!r} names no column; write columns and values, {_SYNTAX}")
        raise ConfigError(
            f"grid {text!r}: {first!r} is not a column on which predictions depend; "
            f"{suggestion(first, names)}"
        )
    found = dict[str, str]()
    ends = [*(place.start() for place in places[1:]), len(text)]
    for place, end in zip(places, ends, strict=True):
        name, values = place[1], text[place.end() : end].strip()
        if name in found:
            raise ConfigError(f"grid {text!r}: {name} appears twice; give its values once")
        if place[2] and not values:
            raise ConfigError(f"grid {text!r}: {name} has no values; write them, {_SYNTAX}")
        if not place[2] and text[place.end() : end].strip():
            raise ConfigError(f"grid {text!r} cannot be read after {name}; write values {_SYNTAX}")
        found[name] = values or EVERY
    return found


def _values(fit: Fit, name: str, asked: Any) -> list[Any]:
    """Return the values of a column as cells of the table."""
    if isinstance(asked, str) and asked.strip() == EVERY:
        return _every(fit, name)
    if isinstance(asked, str):
        parts: list[Any] = [part.strip() for part in asked.split("|")]
    elif np.ndim(asked) == 0:
        parts = [asked]
    else:
        parts = list(asked)
    if not parts:
        raise ConfigError(f"grid: {name} has no values; give at least one")
    own = fit.data.table
    assert own is not None
    is_label = name in fit.model.groups or (name in own.cells and own.is_factor(name))
    if name in fit.model.levels:
        texts = as_written([label_text(part) for part in parts], fit.model.levels[name])
        unknown = next((each for each in texts if each not in fit.model.levels[name]), None)
        if unknown is not None:
            raise ConfigError(
                f"grid: {unknown!r} is not a level of {name}; choose among "
                f"{shortened(fit.model.levels[name])}"
            )
        return _distinct(texts) if is_label else [float(each) for each in _distinct(texts)]
    if is_label or name not in own.cells:
        return _distinct([label_text(part) for part in parts])
    return _distinct([number for part in parts for number in _numbers(name, part)])


def _numbers(name: str, part: Any) -> list[float]:
    """Return the numbers that a part of the values stands for, such as 0:10:5."""
    ends = [part]
    if isinstance(part, str):
        ends = part.split(":")
    try:
        numbers = [float(each) for each in ends]
    except (TypeError, ValueError):
        numbers = [np.nan]
    if not np.isfinite(numbers).all() or len(numbers) not in (1, 3):
        raise ConfigError(
            f"grid: {name} is numeric, so {part!r} cannot be its value; write numbers, {_SYNTAX}"
        )
    if len(numbers) == 1:
        return numbers
    first, last, step = numbers
    if step == 0 or (last - first) / step < 0:
        raise ConfigError(
            f"grid: {name} = {part} never reaches {last:g}; write start:stop:step with a step "
            "towards the stop"
        )
    num = int(np.floor((last - first) / step * (1 + 1e-12) + 1e-9)) + 1
    if num > MOST_ROWS:
        raise ConfigError(
            f"grid: {name} = {part} has {num} values, more than {MOST_ROWS}; choose a larger step"
        )
    return [first + i * step for i in range(num)]


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values, in the order of their first occurrence."""
    return list(dict.fromkeys(values))


def _every(fit: Fit, name: str) -> list[Any]:
    """Return all levels of a factor, labels of a group or distinct numbers of a column."""
    own = fit.data.table
    assert own is not None
    if name not in own.cells:  # a part of a joined column of groups
        whole = next(each for each in fit.model.groups if name in each.split(":"))
        place = whole.split(":").index(name)
        return _distinct([label.split(":")[place] for label in own.texts(whole).tolist()])
    if name in fit.model.levels:
        levels = fit.model.levels[name]
        return list(levels) if own.is_factor(name) else [float(level) for level in levels]
    if name in fit.model.groups or own.is_factor(name):
        return list(own.labels(name, order="value", order_asked=False).names)
    return [float(each) for each in levels_of_numbers(own.numbers(name))]


def reference(fit: Fit, num: int, **cells: Any) -> Table:
    """Return a table of `num` rows with fixed values in all columns except the given ones.

    Numbers are fixed at their means; factors, and columns with two distinct numbers, at their most
    frequent values; and the number of trials at 1.
    """
    own = fit.data.table
    assert own is not None
    levels, found = fit.model.levels, dict[str, Any]()
    trials = fit.model.trials
    for name in own.cells:
        if name == trials:
            found[name] = np.ones(num)
        elif _is_categorical(fit, name):
            common = _most_frequent(own, name, levels.get(name, []))
            found[name] = np.full(num, common, dtype=own.column(name).dtype)
        else:
            found[name] = np.full(num, own.numbers(name).mean())
    about = {"reading": own.reading, "levels": own.levels, "ordered": own.ordered}
    return Table.of_cells({**found, **cells}, own.source, np.arange(1, num + 1), **about)


def _is_categorical(fit: Fit, name: str) -> bool:
    """Return whether a column is a factor or has two distinct numbers, such as 0 and 1."""
    own = fit.data.table
    assert own is not None
    of_groups = fit.model.levels_of_groups.values()
    if name in fit.model.levels or own.is_factor(name) or name in of_groups:
        return True
    return len(set(own.column(name).tolist())) == 2


def _most_frequent(table: Table, name: str, levels: list[str]) -> Any:
    """Return the most frequent value of a column; if tied, the first level or the lowest number."""
    counts = Counter(table.column(name).tolist())
    if not levels:
        return min(counts, key=lambda value: (-counts[value], value))
    texts = dict(zip(table.column(name).tolist(), table.plain_texts(name), strict=True))
    return min(counts, key=lambda value: (-counts[value], levels.index(texts[value])))
