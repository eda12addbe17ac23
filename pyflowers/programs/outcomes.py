"""Probabilities of events of the response, such as P(y = 2) and P(y > 0), from its density.

The probability of one number is exp(log p(y)). Probabilities of several numbers are sums: P(y <= k)
adds up the probabilities of 0 to k, and P(y > k) = 1 - P(y <= k). A rating has finitely many
values, so the probability of each event is a sum over its ratings.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyflowers.errors import ConfigError
from pyflowers.programs.families import TRIALS, Family, FloatArray, Values, find_family

MOST_VALUES = 10_000
"""The largest number of values whose probabilities are added up."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Outcome:
    """An event of the response, such as ``> 0``.

    Attributes
    ----------
    comparison : str
        ``=``, ``<=``, ``>=``, ``<`` or ``>``.
    value : float
        The number with which the response is compared.
    label : str
        The category or the rating with this number, if categories or ratings are labels.
    is_counted : bool
        Whether the number of units with this category is predicted, instead of its probability.
    """

    comparison: str
    value: float
    label: str = ""
    is_counted: bool = False

    @classmethod
    def of(cls, given: Any, labels: Sequence[str] = ()) -> Outcome:
        """Return the event that a text such as ``> 0`` or ``>= fair``, or a number, stands for.

        Parameters
        ----------
        given : text, number or Outcome
            The event.
        labels : sequence of str
            The labels of the numbers from 1, such as those of ratings.

        Raises
        ------
        ConfigError
            If it cannot be read, or the number is not an integer.
        """
        if isinstance(given, Outcome):
            return given
        found = re.fullmatch(r"\s*(<=|>=|==|=|<|>|)\s*(.*?)\s*", str(given), re.DOTALL)
        assert found is not None
        comparison, written = (found[1] or "=").replace("==", "="), found[2]
        if written in labels:
            return cls(comparison, labels.index(written) + 1.0, written)
        try:
            value = float(written)
        except ValueError:
            value = np.nan
        if not value.is_integer():
            raise ConfigError(
                f"outcome must be an integer with =, <, <=, > or >= before it, such as '> 0', got "
                f"{given!r}"
            )
        label = ""
        if 1 <= value <= len(labels):
            label = labels[int(value) - 1]
        return cls(comparison, value, label)

    def __str__(self) -> str:
        if self.label and self.comparison == "=":
            return self.label
        if self.label:
            return f"{self.comparison} {self.label}"
        return f"{self.comparison} {self.value:g}"

    def holds(self, values: Any) -> Any:
        """Return whether the event holds for each value of the response."""
        return _COMPARISONS[self.comparison](values, self.value)


def has_outcomes(family: Family) -> bool:
    """Return whether single values of a family's response have probabilities, as integers do."""
    return family.is_discrete


def family_of_outcome(family: Family, outcome: Outcome) -> Family:
    """Return a family whose expected response is the probability of an event.

    If a row counts the units in each category, the event is that a unit is in the category of
    `outcome`.
    """
    if family.has_columns:
        family = find_family(family.of_unit)

    def probability(eta: FloatArray, values: Values) -> FloatArray:
        if family.is_ordinal:
            scores = np.asarray(values["scores"])
            ratings = np.flatnonzero(outcome.holds(scores)) + 1
            return _sum(family, ratings, eta, values)
        if outcome.comparison == "=":
            return _sum(family, np.array([outcome.value]), eta, values)
        # The probability of any other event is P(y <= k), or 1 minus it.
        last = outcome.value - (outcome.comparison in ("<", ">="))
        if last >= MOST_VALUES:
            raise ConfigError(
                f"the probability of outcome '{outcome}' is a sum over {last + 1:.0f} values, more "
                f"than {MOST_VALUES}; choose a smaller number"
            )
        below = _sum(family, np.arange(0.0, last + 1), eta, values)
        return below if outcome.comparison in ("<", "<=") else np.maximum(1 - below, 0.0)

    width = 1.0
    if not family.is_ordinal:
        width = 1 / np.sqrt(1 + max(outcome.value, 0.0))
    return replace(
        family, mean=probability, shape_of_mean="curved", width_of_mean=width, scale="fixed"
    )


def _sum(family: Family, responses: Any, eta: FloatArray, values: Values) -> FloatArray:
    """Return the probability that the response is one of several numbers."""
    total = np.zeros(np.shape(eta))
    low, high = family.limits
    if family.has_trials:
        high = values[TRIALS]
    for response in responses:
        possible = (response >= low) & (response <= high)
        if np.any(possible):
            y = np.broadcast_to(np.minimum(float(response), high), np.shape(eta)[-1:])
            total = total + np.where(possible, np.exp(family.log_lik(y, eta, values)), 0.0)
    return np.minimum(total, 1.0)
