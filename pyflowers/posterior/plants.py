"""Plants of a multilevel model given (mu, sigma2), whichever their likelihood, and rejection.

A likelihood is a subclass of :class:`Plants`: integrals over a plant's parameters serve quadrature,
draws of (mu, sigma2) and groups left out; draws given (mu, sigma2) are made by rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import ClassVar, Self

import numpy as np

from pyflowers.errors import FitError
from pyflowers.posterior.distributions import (
    BoolArray,
    FloatArray,
    IntArray,
    MultilevelPrior,
    as_floats,
)

Index = IntArray | tuple[IntArray, ...] | EllipsisType
"""Some elements, or all of them."""
Accepted = tuple[FloatArray, BoolArray]
Drawer = Callable[[slice, np.random.Generator], tuple[dict[str, FloatArray], int]]
"""Some plants to draws of each of their quantities, (draw, plant), and the number of proposals."""

DROP = 30.0
"""Rules leave out what is below e^-30, which is 1e-13, of an integrand's maximum."""

_MAX_ROUNDS = 100_000


class Plants:
    """Plants with their sufficient statistics.

    Parameters
    ----------
    prior : MultilevelPrior
        All hyperparameters.
    columns : array, shape (K,)
        Sufficient statistics of each plant; the first is its number of months.
    multiplicity : array, shape (K,), optional
        How many plants are like it.

    Attributes
    ----------
    names : tuple of str
        A plant's quantities, the first of which is x or, if `log_scale`, e^x.
    centre, spread : array, shape (K,)
        A rough estimate of each x, and its standard error.
    power : array, shape (K,)
        Which power of 1/sigma the integral falls by as sigma grows, at most 1.
    log_constant : float
        What the sum of the integrals leaves out.
    """

    names: ClassVar[tuple[str, ...]]
    log_scale: ClassVar[bool]
    log_constant = 0.0
    centre: FloatArray
    spread: FloatArray
    power: FloatArray

    def __init__(
        self, prior: MultilevelPrior, *columns: FloatArray, multiplicity: FloatArray | None = None
    ) -> None:
        self.prior, self.columns, self.num, self.size = prior, columns, columns[0], columns[0].size
        self.multiplicity = np.ones(self.size) if multiplicity is None else multiplicity
        self.seen = self.num > 0

    def some(self, index: IntArray | BoolArray) -> Self:
        """Select some of the plants, each once."""
        return type(self)(self.prior, *(column[index] for column in self.columns))

    def merged(self) -> Self:
        """Return the different plants that have months, sorted, and how many are like each."""
        seen = [column[self.seen] for column in self.columns]
        rows = np.stack(seen, axis=1)[np.lexsort(seen[::-1])]
        first = np.ones(len(rows), dtype=bool)
        first[1:] = np.any(rows[1:] != rows[:-1], axis=1)
        times = as_floats(np.diff(np.append(np.flatnonzero(first), len(rows))))
        columns = np.ascontiguousarray(rows[first].T)
        return type(self)(self.prior, *columns, multiplicity=times)

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return Σ log I - log_constant over all plants, shape (U, M); `mu` (U, M), `u` (U,).

        In blocks, so that memory does not grow with the number of plants.
        """
        raise NotImplementedError

    def log_likelihood(self, plant: int, x: FloatArray) -> FloatArray:
        """Return log p(y | x) of a plant, up to a constant."""
        raise NotImplementedError

    def tails(self, tail_dof: float) -> dict[str, FloatArray]:
        """Below which power each quantity has a moment, sigma2's tail having `tail_dof`."""
        raise NotImplementedError

    def drawer(self, mu: FloatArray, sigma2: FloatArray) -> Drawer:
        """Return what draws some plants given draws of mu and sigma2, shape (draw,)."""
        raise NotImplementedError


def until_accepted(propose: Callable[[Index], Accepted]) -> tuple[FloatArray, int]:
    """Draw one value for each element of an array, and count the proposals.

    Whether an element is proposed again depends on its own proposals alone, so accepted draws are
    independent of each other and of how many rounds they took.

    Parameters
    ----------
    propose : callable
        Of an index into the elements: a proposal for each, and whether it is accepted.

    Raises
    ------
    FitError
        If an element has not accepted one of 100,000 proposals.
    """
    values, accepted = propose(...)
    num_proposals = values.size
    left = np.unravel_index(np.flatnonzero(~accepted), accepted.shape)  # as np.nonzero, but sooner
    for _ in range(_MAX_ROUNDS):
        if not left[0].size:
            return values, num_proposals
        again, accepted = propose(left)
        num_proposals += again.size
        values[tuple(axis[accepted] for axis in left)] = again[accepted]
        left = tuple(axis[~accepted] for axis in left)
    raise FitError(
        f"{left[0].size} draws of plants' parameters were rejected 100,000 times, since the priors "
        "and the data are too far apart for independent draws: use NUTS instead"
    )


def log_gamma_draws(shape: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw logarithms of Gamma(shape), which themselves do not underflow where shapes are small."""
    if shape.size and shape.min() >= 0.5:
        draws = rng.standard_gamma(shape)
        return as_floats(np.log(draws, out=draws))
    small = shape < 0.5
    x = np.log(rng.standard_gamma(np.where(small, shape + 1, shape)))
    # Gamma(a) is Gamma(a + 1) times U^(1/a).
    return as_floats(x - np.where(small, rng.standard_exponential(shape.shape) / shape, 0.0))
