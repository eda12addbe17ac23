"""What a group of ``InferenceData`` holds, as plain arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Arrays = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
"""Arrays by name, each with the names of its dimensions."""


class Group(NamedTuple):
    """Variables and the coordinates of their dimensions: what xarray calls a dataset."""

    variables: Arrays
    coords: Arrays
