"""The term ``cens(c)``: rows for which only a bound, or an interval, of the response is known.

Its variables are ``cens`` and ``y2``. ``cens`` is 0 for rows that are not censored, 1 for right-,
-1 for left- and 2 for interval-censored rows, whose responses are in (y, y2].

References
----------
Davison and Hinkley (1997), Bootstrap Methods and their Application, section 3.5, algorithm 3.2: how
replicates are censored where a row's time of censoring is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.data import Table
from pyflowers.errors import DataError
from pyflowers.programs.families import Family, FloatArray
from pyflowers.programs.families._response.term import (
    Cells,
    Columns,
    Given,
    OnRows,
    ResponseTerm,
    RowInStan,
    Rows,
    Written,
    log_between,
    of_rows,
)
from pyflowers.programs.families._response.trunc import bound, bound_source, tails_refusal

CODES = {"none": 0, "right": 1, "left": -1, "interval": 2}
"""The words in a column that states which rows are censored, each with its number."""


# In NumPy


def _log_lik(density: FloatArray, rows: Rows) -> FloatArray:
    """Return the log likelihood of rows, some of which are censored, within their bounds."""
    cens, here = rows.values["cens"], rows.tails(rows.y)
    start, end = rows.below, rows.upto
    below, above = here
    if end is not None:
        above = log_between(here, end)
    if start is not None:
        below = log_between(start, here)
    found = np.where(cens == 1, above, density)
    found = np.where(cens == -1, below, found)
    if "y2" in rows.response:
        within = log_between(here, rows.tails(rows.values["y2"]))
        found = np.where(cens == 2, within, found)
    return found


def as_censored(
    y_rep: FloatArray,
    data: Mapping[str, Any],
    rng: Generator,
    every: Mapping[str, Any] | None = None,
) -> FloatArray:
    """Return replicates of uncensored responses as they would have been recorded.

    A right-censored row ends at its own time of censoring. For any other row, this time is only
    known to be later than its response, so it is drawn from the Kaplan-Meier estimate of the times
    of all rows, given that it is later. Left-censored rows are treated as the mirror image. An
    interval-censored row is recorded as the lower end of an interval; all intervals are as long as
    the row's own, which is one of them.

    Parameters
    ----------
    y_rep : array, shape (chain, draw, N)
        The replicates.
    data : mapping of str to array
        The values of these rows: ``y``, ``cens`` and perhaps ``y2``.
    rng : numpy.random.Generator
        The generator of the times of censoring.
    every : mapping of str to array, optional
        The values of all rows, from which the times are estimated. Default: `data`.
    """
    every = data if every is None else every
    all_y, all_cens = np.asarray(every["y"], dtype=np.float64), np.asarray(every["cens"])
    y, cens = np.asarray(data["y"], dtype=np.float64), np.asarray(data["cens"])
    found = y_rep
    if "y2" in data:
        own = cens == 2
        width = np.where(own, np.asarray(data["y2"], dtype=np.float64) - y, 1.0)
        cell = np.ceil((found - y) / width) - 1
        found = np.where(own, y + cell * width, found)
    upper = _limits(y, cens == 1, found.shape, rng, (all_y, all_cens == 1))
    lower = -_limits(-y, cens == -1, found.shape, rng, (-all_y, all_cens == -1))
    return np.maximum(np.minimum(found, upper), lower)


def recorded(y: FloatArray, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of simulated responses, some of which are censored.

    The time of censoring is known for the rows that are censored in the data block. Such a row is
    censored if its response is beyond this time; no other row is censored.

    Parameters
    ----------
    y : array, shape (N,)
        The responses without censoring.
    data : mapping of str to array
        The data block.
    """
    limit, cens = np.asarray(data["y"]), np.asarray(data["cens"])
    above, below = (cens == 1) & (y > limit), (cens == -1) & (y < limit)
    kinds = above.astype(np.int64) - below.astype(np.int64)
    return {"y": np.where(kinds != 0, limit, y), "cens": kinds}


def _limits(
    y: FloatArray,
    censored: Any,
    shape: tuple[int, ...],
    rng: Generator,
    every: tuple[FloatArray, Any],
) -> FloatArray:
    """Return a time of right-censoring for each row of each replicate.

    It is infinite for a row that is never censored. `every` has the responses of all rows, and
    whether each of them is censored.
    """
    all_y, all_censored = every
    found = np.full(shape, np.inf)
    if not all_censored.any():
        return found
    times, num = np.unique(all_y[all_censored], return_counts=True)
    at_risk = len(all_y) - np.searchsorted(np.sort(all_y), times)
    beyond = np.concatenate([[1.0], np.cumprod(1 - num / at_risk)])  # P(C > each time)
    reached = beyond[np.searchsorted(times, y)]  # P(C >= y)
    place = np.searchsorted(-beyond[1:], -reached * rng.random(shape))
    found = np.append(times, np.inf)[place]
    return np.where(censored, y, found)


ON_ROWS = OnRows(
    "cens",
    ("cens", "y2"),
    log_lik=_log_lik,
    needs_tails=True,
    recorded=as_censored,
    simulated=recorded,
    is_of_other_data=True,
    cut="censored",
    note=(
        "replicated data are censored as the data are: a censored {y} ends at its own limit, and "
        "the limits of the other rows are drawn from their Kaplan-Meier estimate"
    ),
    kinds={number: f"{word}-censored" for word, number in CODES.items() if number},
)


# In a formula


def written(given: Given) -> Written:
    """Return what the term adds to a program."""
    column, y2 = given["censored"], given.get("y2", "")

    def data(family: Family) -> list[str]:
        highest, interval = 1, ""
        if y2:
            highest, interval = 2, ", 2: interval-"
        lines = [
            f"array[N] int<lower=-1, upper={highest}> cens; // {column}: 1: right-, -1: "
            f"left-{interval}censored; 0: not"
        ]
        if y2:
            lines.append(of_rows(family, "y2", f"{y2}: the upper ends of intervals"))
        return lines

    def sources(of: Columns, table: Table) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"cens": {"column": column}}
        if _has_words(column, table):
            found["cens"]["codes"] = dict(CODES)
        if y2:
            found["y2"] = bound_source(y2)
        return found

    def read(table: Table) -> dict[str, FloatArray]:
        found = {"cens": _codes(column, table)}
        if y2:
            found["y2"] = bound(y2, table)
        return found

    def about(response: str) -> list[str]:
        return [
            f"Where {column} marks {response} as censored, the likelihood is the probability "
            "of all values that it may have, and replicated data are censored as the data are."
        ]

    names = ["cens"]
    if y2:
        names.append("y2")
    return Written(
        variables=tuple(names),
        data=data,
        sources=sources,
        read=read,
        wrongs=lambda cells: _wrongs(cells, column, y2),
        refusal=lambda family: tails_refusal("cens", family),
        likelihood=lambda row, lines: _likelihood(row, lines, has_intervals=bool(y2)),
        recorded=lambda family: _recorded(family, has_intervals=bool(y2)),
        about=about,
    )


def _has_words(column: str, table: Table) -> bool:
    """Return whether the column has words; True and False are numbers, too."""
    return bool(np.isnan(table.typed(column).numbers_or_truth).any())


def _codes(column: str, table: Table) -> FloatArray:
    """Return the number that stands for each row's kind of censoring."""
    if not _has_words(column, table):
        return table.numbers(column)
    texts = table.texts(column)
    wrong = ~np.isin(texts, list(CODES))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{table.where(row)}: {column} is {texts[row]!r}, but cens() reads left, none, right, "
            "interval, True and False; rewrite the column"
        )
    return np.array([CODES[text] for text in texts], dtype=np.float64)


def _wrongs(cells: Cells, name: str, y2: str) -> Iterator[tuple[str, Any]]:
    """Yield messages about wrong values, each with the rows to which it applies."""
    cens, y, response = cells.of["cens"], cells.y, cells.response
    yield (
        f"{name} is {{cens}}, but cens() reads 0 for rows that are not censored, 1 for right-, "
        "-1 for left- and 2 for interval-censored ones; recode it",
        ~np.isin(cens, list(CODES.values())),
    )
    if not y2:
        yield (
            f"{name} marks an interval, but its upper end is not known; name its column, "
            f"cens({name}, y2 = …)",
            cens == 2,
        )
    else:
        yield (
            f"{response} is {{y}} and {y2} is {{y2}}, but an interval begins at "
            f"{response} and ends above it, at {y2}; correct one of them",
            (cens == 2) & (cells.of["y2"] <= y),
        )
    yield (
        f"{name} marks every row as censored; give at least one row that is not, or another column",
        np.full(len(y), bool((cens == 1).all() or (cens == -1).all())),
    )


def _likelihood(row: RowInStan, lines: Sequence[str], *, has_intervals: bool) -> list[str]:
    """Return the statements of a row that may be censored."""
    found = [
        "if (cens[n] == 1) {",
        f"  {row.sink} = {row.between('y[n]', row.upper)};",
        "} else if (cens[n] == -1) {",
        f"  {row.sink} = {row.between(row.below, 'y[n]')};",
    ]
    if has_intervals:
        within = row.between("y[n]", "y2[n]")
        found += ["} else if (cens[n] == 2) {", f"  {row.sink} = {within};"]
    return [*found, "} else {", *(f"  {line}" for line in lines), "}"]


def _recorded(family: Family, *, has_intervals: bool) -> list[str]:
    """Return the statements that censor the draw for a row in the way the row is censored."""
    least, most = "fmin", "fmax"
    if family.is_discrete:
        least, most = "min", "max"
    lines = [
        "if (cens[n] == 1) {",
        f"  y_rep[n] = {least}(y_rep[n], y[n]);",
        "} else if (cens[n] == -1) {",
        f"  y_rep[n] = {most}(y_rep[n], y[n]);",
    ]
    if has_intervals:
        start = "y[n] + (ceil((y_rep[n] - y[n]) / width) - 1) * width"
        if family.is_discrete:
            start = f"to_int({start})"
        lines += [
            "} else if (cens[n] == 2) {",
            "  real width = y2[n] - y[n];",
            f"  y_rep[n] = {start};",
        ]
    return [*lines, "}"]


TERM = ResponseTerm(
    "cens",
    ("censored", "y2"),
    "cens(c), where c is a column of -1, 0, 1 and 2, or of left, none, right and interval",
    written,
    (ON_ROWS,),
    local_names=("width",),
)
