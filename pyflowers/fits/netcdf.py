"""Groups as a netCDF file, which readers see as if xarray had written it, without importing it.

h5netcdf writes the file and reads it. The conventions are xarray's own, so that
``arviz.from_netcdf`` and ``xarray.open_dataset`` read it alike: missing floats are NaN, truth
values are bytes with the attribute ``dtype``, and coordinates that are no dimension are named by
the attribute ``coordinates`` of the variables that they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import DataError
from pyflowers.fits.groups import Group


def to_bytes(groups: Mapping[str, Group]) -> bytes:
    """Return groups as a netCDF file that ``arviz.from_netcdf`` reads.

    The file is made in memory: writing netCDF straight to a full disk can end the process.
    """
    import h5netcdf

    buffer = BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        for name, group in groups.items():
            _write(file.create_group(name), group)
    return buffer.getvalue()


def from_file(path: Path) -> dict[str, dict[str, NDArray[Any]]]:
    """Read the arrays of each group of a netCDF file by their names, and close it.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    import h5netcdf

    try:
        with h5netcdf.File(path, "r") as file:
            found = {
                group: {name: _decoded(each) for name, each in node.variables.items()}
                for group, node in file.groups.items()
            }
    except (OSError, ValueError, KeyError, AttributeError, RuntimeError, TypeError) as error:
        raise DataError(f"{path}: no draws can be read from it ({error}); fit again") from error
    return found


def _decoded(variable: Any) -> NDArray[Any]:
    """Return an array as it was before :func:`_encoded`."""
    values = np.asarray(variable[...])
    if variable.attrs.get("dtype") == "bool":
        return values.astype(bool)
    if values.dtype.kind != "O":
        return values
    text = [each.decode() if isinstance(each, bytes) else str(each) for each in values.flat]
    return np.array(text, dtype=np.str_).reshape(values.shape)


def _write(node: Any, group: Group) -> None:
    """Write one group, its dimensions first."""
    every = group.coords | group.variables
    for dims, values in every.values():
        for dim, size in zip(dims, values.shape, strict=True):
            if dim not in node.dimensions:
                node.dimensions[dim] = size
    labels = {name: dims for name, (dims, _) in group.coords.items() if dims != (name,)}
    for name, (dims, values) in every.items():
        stored, attributes = _encoded(values)
        fill = np.nan if stored.dtype.kind == "f" and name not in group.coords else None
        variable = node.create_variable(
            name, dims, dtype=_stored_type(stored), data=stored, fillvalue=fill
        )
        along = [other for other, its in labels.items() if set(its) <= set(dims)]
        if along and name not in group.coords:
            attributes["coordinates"] = " ".join(sorted(along))
        for key, value in attributes.items():
            variable.attrs[key] = value


def _encoded(values: NDArray[Any]) -> tuple[NDArray[Any], dict[str, str]]:
    """Return an array as netCDF can hold it, and what says how to read it back."""
    if values.dtype.kind == "b":
        return values.astype(np.int8), {"dtype": "bool"}
    return (values.astype(object) if values.dtype.kind == "U" else values), {}


def _stored_type(values: NDArray[Any]) -> Any:
    """Return the type on disk: text has any length."""
    import h5py

    return h5py.string_dtype() if values.dtype.kind == "O" else values.dtype
