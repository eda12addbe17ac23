"""Draws in blocks of elements, with the intermediate results that the statistics of a block share.

Each block is laid out as (element, chain, draw), so that every step runs along contiguous draws and
memory is bounded whatever the number of elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.convergence.ranks import FloatArray, IntArray, median, normal_scores, sort_with_order
from pyflowers.errors import DataError

BoolArray = NDArray[np.bool_]

# Of draws in a block: few enough for a cache. The statistics of a block take a dozen times that.
_BLOCK_BYTES = 2**20
_TILE = 256


def validated(draws: ArrayLike, dims: tuple[str, ...]) -> FloatArray:
    """Return draws as an array of floats with the dimensions given.

    Raises
    ------
    DataError
        Unless it has these dimensions, a chain and a draw.
    """
    array = np.asarray(draws, dtype=np.float64)
    if array.ndim != len(dims) or 0 in array.shape[:2]:
        raise DataError(
            f"draws have shape {array.shape}, but must be shaped ({', '.join(dims)}) "
            "with one chain and one draw at least"
        )
    return array


def blocks(draws: FloatArray) -> Iterator[tuple[slice, Block]]:
    """Yield draws shaped (chain, draw, element) in blocks, each with its place."""
    num_chains, num_draws, num_elements = draws.shape
    step = max(1, _BLOCK_BYTES // (8 * num_chains * num_draws))
    # Once so much has been freed, glibc keeps freed memory for the next step instead of returning
    # it to the system page by page, which takes longer than the arithmetic.
    np.empty(2 * _BLOCK_BYTES)
    for begin in range(0, num_elements, step):
        place = slice(begin, begin + step)
        part = draws[:, :, place].transpose(2, 0, 1)
        block = np.empty(part.shape)
        # In tiles that fit the cache: a transpose in one go misses it at every number.
        for tile in range(0, num_draws, _TILE):
            block[:, :, tile : tile + _TILE] = part[:, :, tile : tile + _TILE]
        yield place, Block(block)


class Block:
    """The draws of some elements, and what several statistics share of them."""

    def __init__(self, draws: FloatArray) -> None:
        self.draws = draws  # (element, chain, draw)

    @cached_property
    def pooled(self) -> FloatArray:
        """The draws, shape (element, chain × draw)."""
        return self.draws.reshape(len(self.draws), -1)

    @cached_property
    def squared_deviations(self) -> FloatArray:
        """The squares of the pooled draws less their mean."""
        squares: FloatArray = np.square(self.pooled - self.pooled.mean(axis=-1, keepdims=True))
        return squares

    @cached_property
    def ascending(self) -> FloatArray:
        """The pooled draws, sorted."""
        if self.draws.shape[-1] % 2:
            return np.sort(self.pooled, axis=-1)
        return self.sorted_halves[0]

    @cached_property
    def has_nan(self) -> BoolArray:
        """Which elements have a draw that is NaN."""
        return np.asarray(np.isnan(self.pooled).any(axis=-1))

    @cached_property
    def halves(self) -> FloatArray:
        """The split chains, shape (element, 2 × chain, draw // 2)."""
        return split(self.draws)

    @cached_property
    def sorted_halves(self) -> tuple[FloatArray, IntArray]:
        """The sorted draws of the split chains, and their positions in the flattened halves."""
        return sort_with_order(self.halves.reshape(len(self.halves), -1))

    @cached_property
    def scores(self) -> FloatArray:
        """The normal scores of the split chains."""
        ascending, order = self.sorted_halves
        return self._placed(normal_scores(ascending), order)

    @cached_property
    def folded_scores(self) -> FloatArray:
        """The normal scores of the distances from the median."""
        flat = self.halves.reshape(len(self.halves), -1)
        distance = np.abs(flat - median(self.sorted_halves[0])[:, None])
        distance, order = sort_with_order(distance)
        scores = normal_scores(distance)
        scores[np.isnan(distance[:, -1])] = np.nan
        return self._placed(scores, order)

    def _placed(self, values: FloatArray, positions: IntArray) -> FloatArray:
        """Return sorted values in the order of the split chains."""
        placed = np.empty(values.size)
        placed[positions] = values
        return placed.reshape(self.halves.shape)


def split(chains: FloatArray) -> FloatArray:
    """Return the halves of each chain as chains of their own, without the middle draw if any.

    Parameters
    ----------
    chains : array, shape (element, chain, draw)

    Returns
    -------
    array, shape (element, 2 × chain, draw // 2)
    """
    half = chains.shape[-1] // 2
    return np.concatenate([chains[..., :half], chains[..., -half:]], axis=-2)
