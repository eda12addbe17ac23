"""The data of a report: a figure, sentences and, of few, a table."""

from __future__ import annotations

from functools import partial

import numpy as np
from markupsafe import Markup

from pyflowers import plots
from pyflowers.programs import Data
from pyflowers.reports.embed import Drawing
from pyflowers.reports.material import Table
from pyflowers.reports.numbers import isolated, number

MOST_CELLS = 400
"""Groups times times up to which the observations are a table, too."""


def data_drawings(data: Data) -> list[Drawing]:
    """Return the figure of the observations, where they are grouped."""
    if data.by_group is None or not data.num_obs:
        return []
    caption = "The observations."
    if _num_missing(data):
        caption += " A cross at the foot of a panel is a missing observation."
    return [(partial(plots.observations, data), caption)]


def _num_missing(data: Data) -> int:
    """Return how many combinations of group and time were not observed."""
    if data.by_group is None or data.by_time is None:
        return 0
    return len(data.by_group) * len(data.by_time) - data.num_obs


def data_sentences(data: Data) -> list[Markup]:
    """Say how many observations there are, and what is missing."""
    if not data.num_obs:
        return [Markup("The program names no observed variable, so its data are not shown here.")]
    summary = Markup(_some(data.num_obs, "observation"))
    groups, times = data.by_group, data.by_time
    if groups is not None:
        summary += Markup(" in {} ({})").format(
            _some(len(groups), "group"), isolated(groups.column)
        )
    if times is not None:
        summary += Markup(" at {} ({})").format(_some(len(times), "time"), isolated(times.column))
    whole = Markup("{}, between {} and {}, on average {}.").format(
        *(summary, f"{data.y.min():g}", f"{data.y.max():g}", number(float(data.y.mean())))
    )
    if groups is None or times is None:
        return [whole]
    missing = _num_missing(data)
    if not missing:
        return [whole, Markup("No combination of the two is missing.")]
    lacking = int((groups.counts < len(times)).sum())
    of_both = Markup("{} of {} and {} {} missing, in {} of the groups.").format(
        *(_some(missing, "combination"), isolated(groups.column), isolated(times.column)),
        *("is" if missing == 1 else "are", lacking),
    )
    return [whole, of_both]


def _some(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def data_table(data: Data) -> Table | None:
    """Return the observations as a table, where they fit into one."""
    groups, times = data.by_group, data.by_time
    if groups is None or times is None or not data.num_obs:
        return None
    if len(groups) * len(times) > MOST_CELLS or len(times) > 40:
        return None
    values = np.full((len(groups), len(times)), np.nan)
    values[groups.codes, times.codes] = data.y
    rows: list[list[Markup | str]] = [
        [group, *("missing" if np.isnan(value) else f"{value:g}" for value in row)]
        for group, row in zip(groups.names, values, strict=True)
    ]
    caption = f"{data.value_name} by {groups.column} and {times.column}"
    return Table(caption, [groups.column, *times.names], rows)
