"""Draws with labels: the quantities of a posterior, and the names of their elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.data import Data
from pyflowers.programs.declaration import OBS


@dataclass(frozen=True, eq=False)
class Quantity:
    """The draws of one variable.

    Attributes
    ----------
    name : str
        Its name in the program.
    values : array, shape (chain, draw, …)
        Its draws.
    dims : tuple of str
        The names of its own dimensions.
    labels : tuple of tuple of str
        The labels along each of them.
    """

    name: str
    values: NDArray[np.float64]
    dims: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """The name of each element, such as ``mu_plant[2]``, in row-major order."""
        if not self.dims:
            return (self.name,)
        return tuple(f"{self.name}[{','.join(each)}]" for each in itertools.product(*self.labels))

    @property
    def flat(self) -> NDArray[np.float64]:
        """The draws of all elements, shape (chain, draw, element)."""
        return self.values.reshape(*self.values.shape[:2], -1)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether each element differs between draws; one that is not a number counts as such."""
        flat = self.flat
        return np.asarray((flat != flat[:1, :1]).any((0, 1)))

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.values.dtype.kind in "iu"


Posterior = Mapping[str, Quantity]
"""The quantities of a posterior by name."""


def quantities(
    draws: Mapping[str, NDArray[np.float64]],
    data: Data,
    names: Iterator[str] | list[str],
    keep: Mapping[str, NDArray[np.int64] | None] | None = None,
) -> dict[str, Quantity]:
    """Label draws by what is known of the data.

    A dimension whose labels are unknown, or are not as many as the draws have, is numbered from 1,
    as Stan does. `keep` has the positions of the elements that are there, where not all are.
    """
    kept = keep or {}
    return {
        name: quantity(name, draws[name], data, kept.get(name)) for name in names if name in draws
    }


def quantity(
    name: str,
    values: NDArray[np.float64],
    data: Data,
    positions: NDArray[np.int64] | None = None,
) -> Quantity:
    """Label the draws of one variable, or of the elements of a vector at some positions."""
    if positions is not None:
        dims = data.dims.get(name, (f"{name}_dim_0",))
        least = int(positions.max(initial=0)) + 1
        known = labels_of(dims[0], size_of(dims[0], data) or least, data)
        return Quantity(name, values, dims, (tuple(known[i] for i in positions),))
    shape = values.shape[2:]
    dims = data.dims.get(name, ())
    if len(dims) != len(shape) or any(
        known is not None and known != size
        for known, size in zip((size_of(d, data) for d in dims), shape, strict=False)
    ):
        dims = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
    labels = tuple(labels_of(dim, size, data) for dim, size in zip(dims, shape, strict=True))
    return Quantity(name, values, dims, labels)


def size_of(dim: str, data: Data) -> int | None:
    """Return the size of a dimension that has labels; None for others."""
    if dim == OBS and data.table is not None:
        return len(data.table)
    if dim in data.labels:
        return len(data.labels[dim])
    return len(data.coords[dim]) if dim in data.coords else None


def labels_of(dim: str, size: int, data: Data) -> tuple[str, ...]:
    """Return the labels along a dimension; without any they are numbers from 1."""
    if dim in data.labels:
        return data.labels[dim].names
    if dim in data.coords:
        return data.coords[dim]
    return tuple(map(str, range(1, size + 1)))


def element_names(posterior: Posterior) -> list[str]:
    """Return the name of every element."""
    return [name for quantity in posterior.values() for name in quantity.elements]


def stacked(posterior: Posterior) -> NDArray[np.float64]:
    """Return the draws of every element, shape (chain, draw, element)."""
    return np.concatenate([np.asarray(q.flat, float) for q in posterior.values()], axis=2)
