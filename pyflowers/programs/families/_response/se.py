"""The term ``se(s)``: standard errors, each the sd of a response or, with a sigma, a part of it.

Its variable is ``se`` if sigma is estimated in addition, and otherwise ``sigma``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pyflowers.programs.families import Family
from pyflowers.programs.families._response.term import (
    NAME,
    WITH_SIGMA,
    Cells,
    Given,
    OnRows,
    ResponseTerm,
    Written,
)

ADDED = OnRows(
    "se",
    ("se",),
    parameters={"sigma": lambda sigma, rows: np.hypot(rows["se"], sigma)},
    needs_sigma=True,
    role="se",
)
KNOWN = OnRows("se", ("sigma",), known="sigma", needs_sigma=True, role="se")


def written(given: Given) -> Written:
    """Return what the term adds to a program."""
    column, adds_sigma = given["se"], given.get("sigma") == "TRUE"

    def wrongs(cells: Cells) -> Iterator[tuple[str, Any]]:
        yield (
            f"{column} is {{se}}, but a standard error must be above 0; correct it or "
            "leave the row out",
            cells.of["se"] <= 0,
        )

    found = Written(
        refusal=_refusal,
        read=lambda table: {"se": table.numbers(column, if_text="give a column of numbers")},
        wrongs=wrongs,
    )
    if adds_sigma:
        return replace(
            found,
            variables=("se",),
            data=lambda family: [f"vector<lower=0>[N] se; // {column}: the standard errors"],
            sources=lambda of, table: {"se": {"column": column}},
            stands_for={"sigma": lambda sigma: f"hypot(se[{{row}}], {sigma})"},
            predicted={"sigma": _with_sigma},
            about=lambda y: [f"The variance of a row is sigma² plus the square of {column}."],
        )
    return replace(
        found,
        variables=("sigma",),
        data=lambda family: [f"vector<lower=0>[N] sigma; // {column}: the standard errors"],
        sources=lambda of, table: {"sigma": {"column": column}},
        stands_for={"sigma": lambda sigma: "sigma[{row}]"},
        known="sigma",
        estimated=_estimated,
        remedy="se() gives it; write se(…, sigma = TRUE)",
        about=lambda y: [f"The sd of a row is known: {column}."],
    )


def _refusal(family: Family) -> str:
    """Return why a family cannot have standard errors."""
    if family.name in WITH_SIGMA:
        return ""
    return "takes no se(); choose gaussian or student"


def _with_sigma(sigma: str) -> str:
    """Return the sd of a row in ``[prediction]``."""
    if not sigma.isidentifier():
        sigma = f"({sigma})"
    return f"sqrt(se * se + {sigma} * {sigma})"


def _estimated(text: str) -> str:
    """Return the text of a response in which sigma is estimated in addition."""
    known = rf"\bse\(\s*(?:se\s*=\s*)?({NAME})[^)]*\)"
    return re.sub(known, r"se(\1, sigma = TRUE)", text, count=1)


def _truth(value: str) -> str:
    """Return ``TRUE`` for true, and an empty text for false."""
    if value.upper() not in ("TRUE", "FALSE", "T", "F"):
        raise ValueError(f"sigma in se() is {value}; write TRUE or FALSE")
    return "TRUE" if value.upper().startswith("T") else ""


TERM = ResponseTerm(
    "se",
    ("se", "sigma"),
    "se(s), where s is a column of standard errors, or se(s, sigma = TRUE)",
    written,
    (ADDED, KNOWN),
    options={"sigma": _truth},
)
