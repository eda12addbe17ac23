"""The terms of a response, such as ``y | cens(c)``: one module for each, listed in `TERMS`.

The module of a term defines how it is written and checked, what it adds to a program, and how it
changes the likelihood and the replicates of rows in NumPy; see :mod:`.term`. The functions here
combine the terms that a response has. In a program, terms are identified by the names of their
variables in the data block, which ``response`` of ``[prediction]`` lists; a variable has one value
for each row or a single value for all rows. :mod:`.residuals` is for rows that depend on each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.errors import ConfigError
from pyflowers.programs.families import Family, FloatArray, Values, find_family
from pyflowers.programs.families._response import cens, mi, se, trials, trunc, weights
from pyflowers.programs.families._response.residuals import (
    OF_OTHER_ROWS,
    along_series,
    in_units,
    with_series,
    with_units,
)
from pyflowers.programs.families._response.term import (
    WITH_SIGMA,
    OnRows,
    ResponseTerm,
    Rows,
    with_known,
)

TERMS: dict[str, ResponseTerm] = {
    each.name: each for each in (trials.TERM, cens.TERM, trunc.TERM, se.TERM, weights.TERM, mi.TERM)
}
"""The terms by name, in the order in which they change the likelihood of a row."""


def names_of_terms() -> list[str]:
    """Return the variables that the terms may have."""
    return [*(name for each in TERMS.values() for name in each.variables), *OF_OTHER_ROWS]


def reserved_names() -> set[str]:
    """Return the names that terms use in a program, which no group may have."""
    found = {name for each in TERMS.values() for name in (*each.variables, *each.local_names)}
    return found - {its.known for its in _every()}


def _every() -> list[OnRows]:
    """Return the effects of all terms on rows."""
    return list(chain.from_iterable(each.on_rows for each in TERMS.values()))


def on_rows(response: Collection[str]) -> list[OnRows]:
    """Return the effects that the terms with these variables have on rows."""
    return [its for its in _every() if not set(its.variables).isdisjoint(response)]


def family_of(text: str, response: Sequence[str] = ()) -> Family:
    """Return a family whose likelihood includes the terms of the response.

    Parameters
    ----------
    text : str
        The family, as for :func:`.find_family`.
    response : sequence of str
        The variables of the response's terms.
    """
    return _family_of(text, tuple(response))


@cache
def _family_of(text: str, response: tuple[str, ...]) -> Family:
    family, names = find_family(text), names_of_terms()
    unknown = next((name for name in response if name not in names), None)
    if unknown is not None:
        raise ConfigError(
            f"[prediction] response: {unknown!r} is not a variable of a response term; write "
            f"{', '.join(names)}"
        )
    terms, ends = on_rows(response), _ends(response)
    for its in terms:
        if its.known:
            family = with_known(family, its.known)
    if "previous" in response:
        return with_series(family)
    if "unit" in response:
        return with_units(family)
    changes = [its.log_lik for its in terms if its.log_lik is not None]
    if not changes:
        return family
    if family.tails is None and any(its.needs_tails for its in terms):
        raise ConfigError(
            f"[prediction] response: family {family.name} has no distribution function here, so "
            "its responses cannot be censored or truncated; correct the key response"
        )

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = family.log_lik(y, eta, values)
        rows = Rows(family, y, eta, values, response, ends)
        for change in changes:
            found = change(found, rows)
        return np.asarray(found)

    return replace(family, log_lik=log_lik, totals=None, as_normal=None)


def _ends(response: Collection[str]) -> tuple[str, str]:
    """Return the variables that hold the lower and the upper bounds of rows; empty for no bound."""
    pairs = [its.ends for its in on_rows(response)]
    lower, upper = (next((its[i] for its in pairs if its[i] in response), "") for i in (0, 1))
    return lower, upper


def has_dependent_rows(response: Collection[str]) -> bool:
    """Return whether the rows of a response with these variables depend on each other."""
    return not set(OF_OTHER_ROWS).isdisjoint(response)


def can_be_series(family: Family, response: Sequence[str]) -> bool:
    """Return whether the residuals of a response with these variables can be autoregressive."""
    is_normal = family.name in WITH_SIGMA and family.link == "identity"
    is_density = all(its.log_lik is None for its in on_rows(response))
    return is_normal and is_density and not has_dependent_rows(response)


def has_terms(family: Family, response: Sequence[str]) -> bool:
    """Return whether a family supports response terms with these variables."""
    if has_dependent_rows(response):
        return False  # families are compared on some of the rows, which depend on other rows
    for its in on_rows(response):
        if its.needs_tails and family.tails is None:
            return False
        if its.needs_sigma and family.name not in WITH_SIGMA:
            return False
    return True


def given_rows(family: Family, response: Sequence[str], rows: Values) -> Family:
    """Return a family whose likelihood uses given values of the response's terms.

    Parameters
    ----------
    family : Family
        The family that :func:`family_of` returns.
    response : sequence of str
        The variables of the terms.
    rows : mapping of str to array, shape (N,)
        Their values.
    """
    terms = on_rows(response)

    def log_lik(y: FloatArray, eta: FloatArray, values: Values) -> FloatArray:
        own = {**values, **{name: rows[name] for name in response}}
        for its in terms:
            own |= {name: changed(own[name], rows) for name, changed in its.parameters.items()}
        return family.log_lik(y, eta, own)

    return replace(family, log_lik=log_lik)


def replicated(
    family: Family, response: Sequence[str], eta: FloatArray, values: Values, rng: Generator
) -> FloatArray:
    """Draw responses with their terms, before they are, for example, recorded as censored."""
    if "unit" in response:
        normal = rng.standard_normal(eta.shape)
        rngs = [rng] * int(np.max(values["unit"]))
        return in_units(family, eta, values, normal, rngs)
    found = family.draw(eta, values, rng)
    if "previous" in response:
        return eta + along_series(found - eta, values)
    for its in on_rows(response):
        if its.drawn is not None:
            found = its.drawn(Rows(family, found, eta, values, response, _ends(response)), rng)
    return found


def recorded(
    y_rep: FloatArray,
    response: Sequence[str],
    data: Mapping[str, Any],
    rng: Generator,
    every: Mapping[str, Any] | None = None,
) -> FloatArray:
    """Return replicates as they would have been recorded.

    Parameters
    ----------
    y_rep : array, shape (chain, draw, N)
        The replicates.
    response : sequence of str
        The variables of the response's terms.
    data : mapping of str to array
        The response and the values of the terms in these rows.
    rng : numpy.random.Generator
        The generator.
    every : mapping of str to array, optional
        The values of all rows. Default: `data`.
    """
    for its in on_rows(response):
        if its.recorded is not None:
            y_rep = its.recorded(y_rep, data, rng, data if every is None else every)
    return y_rep


def simulated(response: Sequence[str]) -> Callable[[FloatArray, Mapping[str, Any]], Any] | None:
    """Return the function that gives the variables of simulated data; None if only y is set."""
    return next((its.simulated for its in on_rows(response) if its.simulated is not None), None)
