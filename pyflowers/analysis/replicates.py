"""Replicated data sets, a block of draws at a time, so that memory does not grow with their number.

For a million observations and 4,000 draws all of them would be 32 GB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pyflowers.fits.fit import Fit
from pyflowers.programs import Draws

BLOCK_VALUES = 1_000_000
"""Replicated values in memory at once: 8 MB, and a few times that while they are made. Larger
blocks are slower: freed memory goes back to the system, which returns it page by page."""

MAKE = Callable[[Draws, np.random.Generator], NDArray[np.float64]]


def chosen_draws(fit: Fit, most: int | None) -> NDArray[np.int64]:
    """Return positions of draws, chains one after the other: all, or `most` evenly spaced."""
    total = fit.num_chains * fit.num_draws
    if most is None or most >= total:
        return np.arange(total)
    return np.unique(np.linspace(0, total - 1, most).astype(np.int64))


def blocks(
    fit: Fit, positions: NDArray[np.int64], make: MAKE, rng: np.random.Generator
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield replicated data sets with their places among `positions`, shape (R, N) each.

    Parameters
    ----------
    fit : Fit
        Has the draws.
    positions : array of int
        Which draws, see :func:`chosen_draws`.
    make : callable
        (draws, rng) to data sets, shape (chain, draw, N).
    rng : Generator
        Advances from block to block.
    """
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in fit.draws.items()}
    step = max(1, BLOCK_VALUES // max(1, fit.data.num_obs))
    for begin in range(0, positions.size, step):
        place = slice(begin, min(begin + step, positions.size))
        draws = {name: values[positions[place]][None] for name, values in flat.items()}
        yield place, make(draws, rng)[0]
