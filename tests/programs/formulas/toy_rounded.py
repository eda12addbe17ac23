"""A toy term of the response in one file: ``y | rounded(w)``, numbers rounded to multiples of w.

The likelihood of a row is the probability of all values that are rounded to its response. A batch's
workers learn the term where this module is imported, as it has something to keep from each fit.
"""

import numpy as np

from pyflowers.programs.families._response import TERMS
from pyflowers.programs.families._response.term import (
    OnRows,
    ResponseTerm,
    Written,
    log_between,
)
from pyflowers.programs.families._response.trunc import tails_refusal


def log_lik(density, rows):
    half = 0.5 * np.asarray(rows.values["step"])
    return log_between(rows.tails(rows.y - half), rows.tails(rows.y + half))


def rounded(y_rep, data, rng, every):
    return np.asarray(data["step"]) * np.round(y_rep / data["step"])


def simulated(y, data):
    return {"y": rounded(y, data, None, data)}


def likelihood(row, lines):
    within = row.between("y[n] - 0.5 * step[n]", "y[n] + 0.5 * step[n]")
    return [f"{row.sink} = {within};"]


def written(given):
    column = given["step"]

    def wrongs(cells):
        yield f"{column} is {{step}}, but it must be above 0; correct it", cells.of["step"] <= 0

    return Written(
        variables=("step",),
        data=lambda family: [f"vector<lower=0>[N] step; // {column}"],
        sources=lambda of, table: {"step": {"column": column}},
        read=lambda table: {"step": table.numbers(column)},
        wrongs=wrongs,
        refusal=lambda family: tails_refusal("rounded", family),
        likelihood=likelihood,
        recorded=lambda family: ["y_rep[n] = step[n] * round(y_rep[n] / step[n]);"],
        about=lambda response: [f"{response} is rounded to multiples of {column}."],
    )


ROUNDED = ResponseTerm(
    "rounded",
    ("step",),
    "rounded(w), where w is a column",
    written,
    (
        OnRows(
            "rounded",
            ("step",),
            log_lik=log_lik,
            needs_tails=True,
            recorded=rounded,
            simulated=simulated,
            is_of_other_data=True,
            note="replicated data are rounded as {y} is",
        ),
    ),
)
TERMS[ROUNDED.name] = ROUNDED


def num_draws(fit):
    """Return a table with the number of draws."""
    return {"draws": [fit.num_draws]}
