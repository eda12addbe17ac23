"""The term ``trials(n)``: the numbers of trials, of which the response counts the successes.

The families with trials define how trials enter the likelihood of a row.
"""

from __future__ import annotations

from typing import Any

from pyflowers.programs.families import TRIALS
from pyflowers.programs.families._response.term import Given, ResponseTerm, Written


def written(given: Given) -> Written:
    """Return what the term adds to a program."""
    trials = given["n"]
    source: dict[str, Any] = {"column": trials}
    if trials.isdecimal():
        source = {"value": int(trials)}
    return Written(
        data=lambda family: [f"array[N] int<lower=0> trials; // {trials}"],
        sources=lambda of, table: {TRIALS: source},
        separates_rows=False,
    )


TERM = ResponseTerm(
    "trials",
    ("n",),
    "trials(n), where n is a column or a whole number",
    written,
    may_be_number=str.isdecimal,
    local_names=(TRIALS,),
)
