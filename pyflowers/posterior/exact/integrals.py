"""Σ_p log I_p(mu, u) over many plants at once: what the samplers ask of either model.

The integrals are those of :mod:`.plants`, here for arrays of plants. Plants with equal sufficient
statistics have equal integrals and are computed once. They are added up in blocks, so that memory
does not grow with their number.

Accuracy: log I within 1e-9, mostly 1e-12, of composite Gauss-Legendre rules in extended precision
(tests/posterior/exact/test_integrals.py); of plants made `rough`, the sum within 1e-5 where the
posterior is.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats

IntArray = npt.NDArray[np.intp]

DROP = 30.0
"""Rules leave out what is below e^-30, which is 1e-13, of an integrand's maximum."""


class Plants(Protocol):
    """Plants of one model, those with equal sufficient statistics merged."""

    @property
    def size(self) -> int:
        """How many different plants there are."""

    centre: FloatArray
    spread: FloatArray
    power: FloatArray
    multiplicity: FloatArray
    log_constant: float  # of all integrals, left out of them

    def some(self, index: IntArray) -> "Plants":
        """Select some of the different plants, each once."""

    def rough(self) -> "Plants":
        """Return fewer plants, with rules of fewer nodes, whose sum is nearly the same."""

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return Σ_p log I_p - log_constant, shape (U, M); `mu` (U, M), `u` (U,)."""


def merged(*columns: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the different rows of some columns, and how often each occurs."""
    rows, multiplicity = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return [np.ascontiguousarray(column) for column in rows.T], as_floats(multiplicity)
