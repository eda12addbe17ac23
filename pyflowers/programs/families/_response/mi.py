"""The term ``mi()``: a response that may be missing; the rows without it are left out.

If responses are missing at random, given the predictors, the likelihood of such a row, integrated
over its response, is 1.
"""

from __future__ import annotations

from pyflowers.programs.families._response.term import Given, ResponseTerm, Written


def written(given: Given) -> Written:
    """Return what the term adds to a program."""
    return Written(
        separates_rows=False,
        omits_missing=True,
        about=lambda response: [
            f"Rows in which {response} is missing are left out, assuming that they are missing "
            "at random."
        ],
    )


TERM = ResponseTerm(
    "mi",
    (),
    "mi(), and se(s, sigma = TRUE) for a response with known standard errors s",
    written,
)
