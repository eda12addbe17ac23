"""Gamma draws, and rejection, repeated for the elements of an array until each has its draw."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pyflowers.closed_form.exact.tabulated import FloatArray
from pyflowers.closed_form.vb.distributions import as_floats
from pyflowers.errors import FitError

Index = npt.NDArray[np.intp] | slice
Accepted = tuple[FloatArray, npt.NDArray[np.bool_]]

_MAX_ROUNDS = 100_000


def until_accepted(propose: Callable[[Index], Accepted], size: int) -> tuple[FloatArray, int]:
    """Draw one value for each of `size` elements.

    Whether an element is proposed again depends on its own proposals alone, so accepted draws are
    independent of each other and of how many rounds they took.

    Parameters
    ----------
    propose : callable
        Of an index into the elements: a proposal for each, and whether it is accepted.
    size : int
        Number of elements.

    Returns
    -------
    values : array, shape (size,)
        The first accepted proposal of each.
    num_proposals : int
        How many there were in all.

    Raises
    ------
    FitError
        If an element has not accepted one of 100,000 proposals.
    """
    values, accepted = propose(slice(None))
    num_proposals = size
    left = np.flatnonzero(~accepted)
    for _ in range(_MAX_ROUNDS):
        if not left.size:
            return values, num_proposals
        again, accepted = propose(left)
        num_proposals += left.size
        values[left[accepted]] = again[accepted]
        left = left[~accepted]
    raise FitError(
        f"{left.size} draws of plants' parameters were rejected 100,000 times, since the priors "
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
    return as_floats(x - np.where(small, rng.standard_exponential(shape.size) / shape, 0.0))
