"""The data: how many observations there are, and a figure and a table of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from markupsafe import Markup

from pyflowers import plots
from pyflowers.display import upper_first
from pyflowers.programs import Data
from pyflowers.programs.model import Model
from pyflowers.reports.markup import fill, isolated, join, number, paragraph, with_minus
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, Table
from pyflowers.text import counted, shortened

MOST_CELLS = 400
"""The largest number of cells, groups by times, in a table of the observations."""

MOST_TIMES = 40
"""The largest number of columns in a table of the observations."""


def content(material: Material) -> Iterator[Block]:
    """Yield what the data consist of, a figure and a table."""
    data = material.data.with_all_rows
    if not data.num_obs:
        yield paragraph(
            "The program declares no observed variable, so its data are not shown here."
        )
    else:
        model = material.best.model.with_all_rows
        notes = [fill("{}.", isolated(upper_first(each))) for each in model.notes_on_response()]
        yield paragraph(join([_size(model), _completeness(data), *notes]))
    caption = "The observations."
    if _num_missing(data):
        caption += " A cross at the foot of a panel marks a missing observation."
    yield Picture("data", caption)
    table = data_table(data)
    if table is not None:
        yield table


def _size(model: Model) -> Markup:
    """Return the numbers of observations, groups and times, and the range of the values."""
    data, where = model.data, Markup()
    if data.by_group is not None:
        column = isolated(data.by_group.column)
        where += fill(" in {} ({})", counted(len(data.by_group), "group"), column)
    if data.by_time is not None:
        column = isolated(data.by_time.column)
        where += fill(" at {} ({})", counted(len(data.by_time), "time"), column)
    if model.has_categories:
        num = model.frequencies.tolist()
        each = [f"{name}: {n}" for name, n in zip(model.categories, num, strict=True)]
        return fill(
            "The data consist of {}{}; the numbers in each category are {}.",
            counted(data.num_obs, "observation"),
            where,
            isolated(shortened(each)),
        )
    return fill(
        "The data consist of {}{}, with values between {} and {} and an average of {}.",
        counted(data.num_obs, "observation"),
        where,
        with_minus(f"{data.y.min():g}"),
        with_minus(f"{data.y.max():g}"),
        number(float(data.y.mean())),
    )


def _num_missing(data: Data) -> int:
    """Return the number of combinations of group and time without an observation."""
    if data.by_group is None or data.by_time is None:
        return 0
    return len(data.by_group) * len(data.by_time) - data.num_obs


def _completeness(data: Data) -> Markup:
    """Return how many combinations of group and time are missing."""
    groups, times, num = data.by_group, data.by_time, _num_missing(data)
    if groups is None or times is None:
        return Markup()
    both = fill("{} and {}", isolated(groups.column), isolated(times.column))
    if not num:
        return fill("No combination of {} is missing.", both)
    are = "are"
    if num == 1:
        are = "is"
    short = int((groups.counts < len(times)).sum())
    what = counted(num, "combination")
    return fill("{} of {} {} missing, in {} of the groups.", what, both, are, short)


def data_table(data: Data) -> Table | None:
    """Return the observations as a table if they fit into one."""
    groups, times = data.by_group, data.by_time
    if groups is None or times is None or not data.num_obs:
        return None
    if len(groups) * len(times) > MOST_CELLS or len(times) > MOST_TIMES:
        return None
    values = np.full((len(groups), len(times)), np.nan)
    values[groups.codes, times.codes] = data.y
    rows = [
        [group, *map(_cell, row)] for group, row in zip(groups.names, values.tolist(), strict=True)
    ]
    caption = f"{data.value_name} by {groups.column} and {times.column}"
    return Table(caption, [groups.column, *times.names], rows)


def _cell(value: float) -> str:
    if np.isnan(value):
        return "missing"
    return f"{value:g}"


def figures(material: Material) -> Drawings:
    """Return the figure of the observations, if they have groups and are not categories.

    The numbers that stand for categories have no order and no average.
    """
    data = material.data.with_all_rows
    if data.by_group is None or not data.num_obs or material.best.model.has_categories:
        return {}
    return {"data": partial(plots.observations, data)}


DATA = Section("data", lambda _: "The data", content, figures)
