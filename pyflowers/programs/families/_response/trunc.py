"""The term ``trunc(lb, ub)``: rows below ``lb`` or above ``ub`` never enter the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.data import Table
from pyflowers.programs.families import (
    TRIALS,
    Family,
    FloatArray,
    family_names,
    find_family,
)
from pyflowers.programs.families._response.term import (
    Cells,
    Given,
    OnRows,
    ResponseTerm,
    RowInStan,
    Rows,
    Written,
    is_number,
    log_between,
    of_rows,
)

MOST_REDRAWN = 10
"""How many times values outside the bounds are redrawn before their distribution is inverted."""

_STEPS = 80
"""The number of bisections of an interval, after which the relative error is below 1e-15."""


# In NumPy


def _log_lik(found: FloatArray, rows: Rows) -> FloatArray:
    """Return the log likelihood given that a row is within its bounds."""
    start, end = rows.below, rows.upto
    if start is not None and end is not None:
        return found - log_between(start, end)
    if start is not None:
        return found - start[1]
    assert end is not None
    return found - end[0]


def _drawn(rows: Rows, rng: Generator) -> FloatArray:
    """Return the responses, with those outside the bounds redrawn."""
    family, eta = rows.family, rows.eta
    found: FloatArray = rows.y
    ends: list[Any] = [-np.inf, np.inf]
    for place, name in enumerate(rows.ends):
        if name:
            ends[place] = np.asarray(rows.values[name], dtype=float)
    low, high = (np.broadcast_to(end, eta.shape) for end in ends)
    for _ in range(MOST_REDRAWN):
        outside = (found < low) | (found > high)
        if not outside.any():
            return found
        found = np.where(outside, family.draw(eta, rows.values, rng), found)
    outside = (found < low) | (found > high)
    names = [*(each.name for each in family.auxiliary), *[family.known] * bool(family.known)]
    names += [TRIALS] * family.has_trials
    own = {name: np.broadcast_to(rows.values[name], eta.shape)[outside] for name in names}
    at = Rows(family, found[outside], eta[outside], own)
    found[outside] = _inverted(at, (low[outside], high[outside]), rng)
    return found


def _inverted(rows: Rows, bounds: tuple[FloatArray, FloatArray], rng: Generator) -> FloatArray:
    """Draw responses within bounds; each is a quantile of a random probability, found by bisection.

    Bisection works on a scale that is linear near 0 and logarithmic far from it.
    """
    family, (lower, upper), step = rows.family, bounds, 0.0
    if family.is_discrete:
        step = 1.0
    least, most = np.clip(family.limits, -1e300, 1e300)
    low, high = np.maximum(lower - step, least - step), np.minimum(upper, most)
    start = rows.tails(low)
    target = np.log(rng.random(rows.eta.shape)) + log_between(start, rows.tails(high))
    below, above = np.arcsinh(low), np.arcsinh(high)
    for _ in range(_STEPS):
        middle = 0.5 * (below + above)
        is_above = log_between(start, rows.tails(np.sinh(middle))) >= target
        below, above = np.where(is_above, below, middle), np.where(is_above, middle, above)
    found: FloatArray = np.sinh(above)
    if family.is_discrete:
        # The probability jumps at a whole number, which bisection approaches from above.
        found = np.floor(found + 1e-6 * np.maximum(1.0, np.abs(found)))
    return np.asarray(np.clip(found, lower, upper))


ON_ROWS = OnRows(
    "trunc",
    ("lb", "ub"),
    log_lik=_log_lik,
    needs_tails=True,
    ends=("lb", "ub"),
    drawn=_drawn,
    cut="truncated",
)


# In a formula


def written(given: Given) -> Written:
    """Return what the term adds to a program."""
    bounds = {name: given[name] for name in ("lb", "ub") if name in given}

    def data(family: Family) -> list[str]:
        kind, lines = "real", []
        if family.is_discrete:
            kind = "int"
        for name, its in bounds.items():
            about = f"the {_WORDS[name]} bound of what is in the table"
            if is_number(its):
                lines.append(f"{kind} {name}; // {about}")
            else:
                lines.append(of_rows(family, name, f"{its}: {about}"))
        return lines

    def about(response: str) -> list[str]:
        return [
            f"The table has no {response} outside the bounds of trunc(), and replicated data have "
            "none either; predictions are for the distribution without these bounds."
        ]

    return Written(
        variables=tuple(bounds),
        data=data,
        sources=lambda of, table: {name: bound_source(its) for name, its in bounds.items()},
        read=lambda table: {name: bound(its, table) for name, its in bounds.items()},
        wrongs=lambda cells: _wrongs(cells, list(bounds)),
        refusal=lambda family: tails_refusal("trunc", family),
        likelihood=_likelihood,
        bounds=(_in_stan(bounds, "lb"), _in_stan(bounds, "ub")),
        about=about,
    )


_WORDS = {"lb": "lower", "ub": "upper"}


def bound(given: str, table: Table) -> FloatArray:
    """Return the bound of each row: the values of a column, or a number that is repeated."""
    if is_number(given):
        return np.full(len(table), float(given))
    return table.numbers(given, if_missing="fill it in, with any number where it does not apply")


def bound_source(given: str) -> dict[str, Any]:
    """Return the source in the declaration for a bound: a column or a number."""
    if not is_number(given):
        return {"column": given}
    number = float(given)
    if number == int(number):
        return {"value": int(number)}
    return {"value": number}


def _in_stan(bounds: Given, name: str) -> str:
    """Return a bound of row n as Stan code; empty if there is none."""
    if name not in bounds:
        return ""
    if is_number(bounds[name]):
        return name
    return f"{name}[n]"


def tails_refusal(name: str, family: Family) -> str:
    """Return why a family cannot have a term that needs its distribution function."""
    if family.tails is not None:
        return ""
    others = [each for each in family_names() if find_family(each).tails is not None]
    return (
        f"takes no {name}(), as Stan has no accurate distribution function for it; choose one of "
        f"{', '.join(others)}"
    )


def _wrongs(cells: Cells, bounds: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield messages about wrong values, each with the rows to which it applies."""
    of, y, response, is_discrete = cells.of, cells.y, cells.response, cells.family.is_discrete
    if "lb" in bounds and "ub" in bounds:
        yield (
            "the lower bound {lb} is not below the upper bound {ub}; correct one of them",
            of["lb"] >= of["ub"],
        )
    remedy = "correct it or the bound, or leave the row out"
    if "lb" in bounds:
        yield f"{response} is {{y}}, below the bound {{lb}} of trunc(); {remedy}", y < of["lb"]
    if "ub" in bounds:
        yield f"{response} is {{y}}, above the bound {{ub}} of trunc(); {remedy}", y > of["ub"]
    for name in bounds:
        if is_discrete:
            yield (
                f"the bound {{{name}}} of trunc() is not a whole number, as {response} is; "
                "round it",
                of[name] != np.floor(of[name]),
            )
    if "cens" not in of:
        return
    if "lb" in bounds:
        yield (
            f"{response} is left-censored at {{y}}, which is the bound {{lb}} of trunc(); leave "
            "the row out",
            (of["cens"] == -1) & (y <= of["lb"]) & (not is_discrete),
        )
    if "ub" in bounds:
        yield (
            f"{response} is right-censored at {{y}}, which is the bound {{ub}} of trunc(); leave "
            "the row out",
            (of["cens"] == 1) & (y >= of["ub"]),
        )


def _likelihood(row: RowInStan, lines: Sequence[str]) -> list[str]:
    """Return the statements of a row, given that it is within its bounds."""
    return [*lines, f"{row.sink} -= {row.between(row.below, row.upper)};"]


TERM = ResponseTerm(
    "trunc",
    ("lb", "ub"),
    "trunc(lb = 0), trunc(ub = 10) or both, where a bound is a number or a column",
    written,
    (ON_ROWS,),
    needs_first=False,
    may_be_number=is_number,
)
