"""The term ``weights(w)``: how much a row counts, or how precise it is.

The log likelihood of a row is multiplied by ``weights`` or, with ``weights_mean``, by ``weights``
divided by this mean. The variance of a row is divided by ``precision``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pyflowers.data import Table
from pyflowers.errors import DataError
from pyflowers.programs.families import Family, FloatArray
from pyflowers.programs.families._response.term import (
    WITH_SIGMA,
    Columns,
    Given,
    OnRows,
    ResponseTerm,
    RowInStan,
    Rows,
    Written,
)
from pyflowers.text import suggestion

KINDS = ("rows", "precision", "survey")
"""The kinds of weights."""

_MEANINGS = {
    "rows": "the number of rows for which the row stands",
    "precision": "the row's precision, by which its variance is divided",
    "survey": "the number of units of a population for which the row stands",
}

_ABOUT = {
    "rows": (
        "A row counts as {w} equal rows: its log likelihood is multiplied by {w}, LOO leaves all "
        "of them out together, and replicated data have one value for them."
    ),
    "precision": "The variance of a row is divided by {w}, also for LOO and replicated data.",
    "survey": (
        "The log likelihood of a row is multiplied by {w} divided by its mean, which estimates "
        "what a fit to the whole population would give; the design of the survey is not known, so "
        "intervals and LOO's standard errors may be too narrow, and replicated data are those of "
        "the sample without weights."
    ),
}


def _factors(of: Mapping[str, Any]) -> FloatArray:
    """Return the factor by which the log likelihood of each row is multiplied."""
    return np.asarray(of["weights"] / of.get("weights_mean", 1.0))


def _log_lik(found: FloatArray, rows: Rows) -> FloatArray:
    """Return the log likelihood of rows whose weights may differ from 1."""
    own = {name: rows.values[name] for name in MULTIPLIED.variables if name in rows.response}
    return np.asarray(found * _factors(own))


MULTIPLIED = OnRows(
    "weights",
    ("weights", "weights_mean"),
    log_lik=_log_lik,
    weighs=_factors,
    is_of_other_data=True,
    note="replicated data have one {y} for each row, regardless of its weight",
    unjudged=(
        "the checks count each row once, whatever its weight; if the weights are numbers of equal "
        "rows, repeat each row as often, and leave out weights()"
    ),
)
PRECISION = OnRows(
    "weights",
    ("precision",),
    parameters={"sigma": lambda sigma, rows: sigma / np.sqrt(rows["precision"])},
    needs_sigma=True,
    role="precision",
)


def written(given: Given) -> Written:
    """Return what the term adds to a program."""
    column, kind = given["weights"], given.get("kind", "rows")
    if kind == "precision":
        return Written(
            variables=("precision",),
            data=lambda family: [_declared("precision", column, kind)],
            sources=lambda of, table: {"precision": {"column": column}},
            read=lambda table: {"weights": _numbers(column, table)},
            wrongs=lambda cells: _wrongs(column, cells.of["weights"] <= 0, "above 0"),
            refusal=_refusal,
            stands_for={"sigma": lambda sigma: f"{sigma} ./ sqrt(precision[{{row}}])"},
            predicted={"sigma": lambda sigma: f"{sigma} / sqrt(precision)"},
            about=lambda y: [_ABOUT[kind].format(w=column)],
        )
    variables, lines, factor = ["weights"], [_declared("weights", column, kind)], "weights[n]"
    if kind == "survey":
        variables.append("weights_mean")
        lines.append("real<lower=0> weights_mean; // their mean")
        factor = "weights[n] / weights_mean"

    def sources(of: Columns, table: Table) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weights": {"column": column}}
        if kind == "survey":
            found["weights_mean"] = {"value": float(f"{float(np.mean(of['weights'])):.12g}")}
        return found

    def read(table: Table) -> dict[str, FloatArray]:
        weights = _numbers(column, table)
        if not weights.any():
            raise DataError(
                f"{table.source}: {column} is 0 in every row, so no row counts; correct it"
            )
        return {"weights": weights}

    def likelihood(row: RowInStan, statements: Sequence[str]) -> list[str]:
        return [*statements, f"{row.sink} *= {factor};"]

    return Written(
        variables=tuple(variables),
        data=lambda family: lines,
        sources=sources,
        read=read,
        wrongs=lambda cells: _wrongs(column, cells.of["weights"] < 0, "0 or above"),
        likelihood=likelihood,
        about=lambda y: [_ABOUT[kind].format(w=column)],
    )


def _declared(name: str, column: str, kind: str) -> str:
    """Return the declaration of weights."""
    return f"vector<lower=0>[N] {name}; // {column}: {_MEANINGS[kind]}"


def _numbers(column: str, table: Table) -> FloatArray:
    """Return the column of weights."""
    return table.numbers(column, if_text="give a column of numbers")


def _wrongs(column: str, wrong: Any, least: str) -> Iterator[tuple[str, Any]]:
    """Yield the message about weights that are too small."""
    yield (
        f"{column} is {{weights}}, but a weight must be {least}; correct it or leave the row out",
        wrong,
    )


def _refusal(family: Family) -> str:
    """Return the reason why a family cannot take precisions, which change its sigma."""
    if family.name not in WITH_SIGMA:
        return (
            "takes no weights with kind = precision, which divide a variance sigma²; choose "
            "gaussian or student, or another kind of weights"
        )
    if family.known == "sigma":
        return (
            "has no sigma that weights with kind = precision could change, as se() gives it; write "
            "se(…, sigma = TRUE), or leave out se() or weights()"
        )
    return ""


def _kind(value: str) -> str:
    """Return a kind of weights."""
    kind = value.strip("\"'")
    if kind not in KINDS:
        raise ValueError(f"weights have no kind {kind!r}; {suggestion(kind, KINDS)}")
    return kind


TERM = ResponseTerm(
    "weights",
    ("weights", "kind"),
    "weights(w), where w is a column, or weights(w, kind = precision)",
    written,
    (MULTIPLIED, PRECISION),
    options={"kind": _kind},
    hints={"scale": "write kind = survey, which divides weights by their mean"},
)
