"""Plants of a multilevel model given (mu, sigma2), for any likelihood, and rejection sampling.

Each likelihood is a subclass of :class:`Plants`. Its integrals over the parameters of a plant are
used for quadrature, for draws of (mu, sigma2) and for held-out groups. Given (mu, sigma2), the
parameters of the plants are drawn by rejection sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import ClassVar, Self

import numpy as np

from pyflowers.errors import FitError
from pyflowers.lectures.posterior.distributions import (
    BoolArray,
    FloatArray,
    IntArray,
    MultilevelPrior,
    as_floats,
)

Index = IntArray | tuple[IntArray, ...] | EllipsisType
"""An index that selects some or all elements."""
Accepted = tuple[FloatArray, BoolArray]
Drawer = Callable[[slice, np.random.Generator], tuple[dict[str, FloatArray], int]]
"""A function that takes a slice of plants and a random number generator, and returns the draws of
each quantity, shape (draw, plant), and the number of proposals."""

DROP = 30.0
"""Quadrature rules leave out the part of an integrand below e^-30 ≈ 1e-13 of its maximum."""

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
        Number of plants with each set of statistics.

    Attributes
    ----------
    names : tuple of str
        The quantities of a plant. The first one is x or, if `log_scale` is true, e^x.
    centre, spread : array, shape (K,)
        A rough estimate of each x, and its standard error.
    power : array, shape (K,)
        The power of 1/sigma with which the integral falls as sigma grows, at most 1.
    log_constant : float
        The constant that the sum of the log integrals leaves out.
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
        """Select some of the plants, each with multiplicity 1."""
        return type(self)(self.prior, *(column[index] for column in self.columns))

    def merged(self) -> Self:
        """Return the distinct plants that have months, sorted, with their multiplicity."""
        seen = [column[self.seen] for column in self.columns]
        rows = np.stack(seen, axis=1)[np.lexsort(seen[::-1])]
        first = np.ones(len(rows), dtype=bool)
        first[1:] = np.any(rows[1:] != rows[:-1], axis=1)
        times = as_floats(np.diff(np.append(np.flatnonzero(first), len(rows))))
        columns = np.ascontiguousarray(rows[first].T)
        return type(self)(self.prior, *columns, multiplicity=times)

    def sum_log_integrals(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return Σ log I over all plants, minus log_constant, shape (U, M).

        `mu` has shape (U, M), and `u` has shape (U,). The sum is computed in blocks, so that memory
        does not grow with the number of plants.
        """
        raise NotImplementedError

    def log_likelihood(self, plant: int, x: FloatArray) -> FloatArray:
        """Return log p(y | x) of a plant, up to a constant."""
        raise NotImplementedError

    def tails(self, tail_dof: float) -> dict[str, FloatArray]:
        """Return the power below which each quantity has moments.

        `tail_dof` is the number of degrees of freedom of sigma2's upper tail.
        """
        raise NotImplementedError

    def drawer(self, mu: FloatArray, sigma2: FloatArray) -> Drawer:
        """Return a function that draws plants given draws of mu and sigma2, shape (draw,)."""
        raise NotImplementedError


def until_accepted(propose: Callable[[Index], Accepted]) -> tuple[FloatArray, int]:
    """Draw one value for each element of an array, and count the proposals.

    Whether an element is proposed again depends only on its own proposals, so accepted draws are
    independent of each other and of the number of rounds.

    Parameters
    ----------
    propose : callable
        A function that takes an index of elements, and returns a proposal for each of them and
        whether the proposal is accepted.

    Raises
    ------
    FitError
        If 100,000 proposals for an element were all rejected.
    """
    values, accepted = propose(...)
    num_proposals, rounds = values.size, 1
    left = np.unravel_index(np.flatnonzero(~accepted), accepted.shape)  # faster than np.nonzero
    while left[0].size:
        if rounds == _MAX_ROUNDS:
            raise FitError(
                f"all {_MAX_ROUNDS:,} proposals for {left[0].size} of the plant parameters were "
                "rejected, because the priors and the data are too far apart for independent "
                "draws: use NUTS instead"
            )
        rounds += 1
        again, accepted = propose(left)
        num_proposals += again.size
        values[tuple(axis[accepted] for axis in left)] = again[accepted]
        left = tuple(axis[~accepted] for axis in left)
    return values, num_proposals


def log_gamma_draws(shape: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw logarithms of Gamma(shape) variables, which do not underflow for small shapes."""
    if shape.size and shape.min() >= 0.5:
        draws = rng.standard_gamma(shape)
        return as_floats(np.log(draws, out=draws))
    small = shape < 0.5
    x = np.log(rng.standard_gamma(np.where(small, shape + 1, shape)))
    # A Gamma(a) variable is distributed as a Gamma(a + 1) variable times U^(1/a), with U uniform.
    return as_floats(x - np.where(small, rng.standard_exponential(shape.shape) / shape, 0.0))
