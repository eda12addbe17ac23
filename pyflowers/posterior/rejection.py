"""Gamma draws, and rejection, repeated for the elements of an array until each has its draw."""

from collections.abc import Callable
from types import EllipsisType

import numpy as np

from pyflowers.errors import FitError
from pyflowers.posterior.distributions import BoolArray, FloatArray, IntArray, as_floats

Index = IntArray | tuple[IntArray, ...] | EllipsisType
"""Some elements, or all of them."""
Accepted = tuple[FloatArray, BoolArray]

_MAX_ROUNDS = 100_000


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
