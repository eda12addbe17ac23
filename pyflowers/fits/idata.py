"""Draws and data in ArviZ's groups, written to a netCDF file and read back.

The groups are ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data`` and, if the
program has them, ``log_likelihood``, ``posterior_predictive``, ``predictions`` and ``log_prior``.

The file has the same form as xarray's files, so that ``arviz.from_netcdf`` and
``xarray.open_dataset`` read it: missing floats are NaN, booleans are bytes with the attribute
``dtype``, and coordinates that are not dimensions are named in the attribute ``coordinates`` of
their variables. It is written with h5netcdf, because xarray's writer imports much of Dask if Dask
is installed.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.data import Labels, Table
from pyflowers.engines.base import Keep
from pyflowers.errors import DataError
from pyflowers.fits.posterior import (
    OF_DRAWS,
    Arrays,
    as_dataset,
    axes,
    dataset,
    labels_of_rows,
    text,
    variable_name,
)
from pyflowers.programs import Data, Program
from pyflowers.programs.declaration import OBS, dims_of, free_name

if TYPE_CHECKING:
    import xarray as xr

    from pyflowers.fits.folder import RunRecord

STAT_NAMES = {
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
"""ArviZ's names of the sampler statistics, by Stan's names."""

_STAN_NAMES = {theirs: stan for stan, theirs in STAT_NAMES.items()}
_STAT_TYPES = {"diverging": np.bool_, "tree_depth": np.int64, "n_steps": np.int64}
_ROW = "row"

_Groups = Mapping[str, Mapping[str, NDArray[Any]]]


def to_groups(
    program: Program,
    data: Data,
    draws: Mapping[str, Any],
    stats: Mapping[str, Any],
    keep: Keep | None = None,
) -> dict[str, xr.Dataset]:
    """Return the groups of a fit.

    For the arguments, see :class:`~pyflowers.fits.fit.Fit`; for `keep`, see
    :func:`~pyflowers.fits.posterior.dataset`.
    """
    places = _places(program, draws, data.observed or "y")
    called = {name: variable for name, (_, variable) in places.items()}
    members: dict[str, dict[str, Any]] = {}
    for name, (group, _) in places.items():
        members.setdefault(group, {})[name] = draws[name]
    found = {group: dataset(its, data, keep, called) for group, its in members.items()}
    if stats:
        named = {STAT_NAMES.get(name, name.rstrip("_")): its for name, its in stats.items()}
        arrays: Arrays = {}
        for name, its in named.items():
            arrays[name] = (OF_DRAWS, its.astype(_STAT_TYPES.get(name, np.float64), copy=False))
        found["sample_stats"] = as_dataset(arrays, {})
    if data.observed in data.values:
        found["observed_data"] = as_dataset(*_constants(data, [data.observed]))
    rest = _constant_data(data, program)
    if any(rest):
        found["constant_data"] = as_dataset(*rest)
    return found


def pointwise(values: NDArray[Any], data: Data) -> xr.Dataset:
    """Return values for each observation, shape (chain, draw, N), as a group."""
    name, dims = data.observed or "y", data.dims.get(data.observed, ())
    along = dims if len(dims) == 1 else (f"{data.observed}_dim_0",)
    return dataset({name: values}, replace(data, dims={name: along}))


def _places(program: Program, names: Iterable[str], observed: str) -> dict[str, tuple[str, str]]:
    """Return the group of each quantity, and its name in that group.

    As ArviZ expects, quantities that describe the observed variable have its name.
    """
    roles, known = program.declaration.roles, program.source.blocks.draws
    of_observed = {
        roles.log_lik: "log_likelihood",
        roles.y_rep: "posterior_predictive",
        roles.y_new: "predictions",
    }
    group_of = {roles.y_new_group: "predictions", roles.lprior: "log_prior"}
    return {
        name: (of_observed[name], observed)
        if name in of_observed
        else (group_of.get(name, "posterior"), variable_name(name, known))
        for name in names
    }


def _constants(data: Data, names: Iterable[str]) -> tuple[Arrays, Arrays]:
    """Return variables of the data block, and the labels of their dimensions."""
    arrays, coords = Arrays(), Arrays()
    all_dims = {OBS, *data.labels, *(dim for dims in data.dims.values() for dim in dims)}
    for name in names:
        if isinstance(data[name], Mapping):
            continue  # a tuple in Stan is not an array, so it is not kept
        array = np.asarray(data[name])
        dims, labels = axes(name, array.shape, data)
        arrays[_beside_labels(name, data.values) if name in all_dims else name] = (dims, array)
        coords |= {dim: ((dim,), its) for dim, its in zip(dims, labels, strict=True)}
    return arrays, coords | labels_of_rows(coords, data)


def _constant_data(data: Data, program: Program) -> tuple[Arrays, Arrays]:
    """Return the arrays of the data block except the observed variable, and their labels.

    If there is a table, the arrays include all that :func:`data_of` needs to rebuild it.
    """
    arrays, coords = _constants(data, (name for name in data.values if name != data.observed))
    coords = {name: at for name, at in coords.items() if at[0] == (name,)}
    if data.table is not None:
        coords |= {name: ((name,), text(its.names)) for name, its in data.labels.items()}
        arrays |= {
            _index_named(name, program): ((OBS,), its.codes) for name, its in data.labels.items()
        }
        arrays[_of_rows_named(_ROW, program, data.labels)] = ((OBS,), data.table.rows)
        for column in program.declaration.transformed:
            cells = data.table.column(data.name_of(column))
            is_text = cells.dtype.kind == "O"
            arrays[_cells_named(column, program)] = ((OBS,), text(cells) if is_text else cells)
            if is_text and column not in program.declaration.levels:
                factor = data.table.numbers_or_factor(data.name_of(column))
                if isinstance(factor, pd.Categorical):
                    levels = _levels_named(column, program)
                    coords[levels] = ((levels,), text(factor.categories))
    return arrays, coords


def _beside_labels(name: str, block: Container[str]) -> str:
    """Return another name for a data variable that has the name of a dimension."""
    return free_name(f"{name}_data", block)


def _of_rows_named(name: str, program: Program, labels: Collection[str]) -> str:
    """Return a name for an array of row values, distinct from data variables and dimensions."""
    return free_name(name, {*program.source.blocks.data, *labels})


def _cells_named(column: str, program: Program) -> str:
    return _of_rows_named(f"{column}_cells", program, program.declaration.label_columns)


def _levels_named(column: str, program: Program) -> str:
    return _of_rows_named(f"{column}_levels", program, program.declaration.label_columns)


def _index_named(column: str, program: Program) -> str:
    return _of_rows_named(f"{column}_index", program, program.declaration.label_columns)


# The file


def to_bytes(groups: Mapping[str, xr.Dataset]) -> bytes:
    """Return groups as a netCDF file.

    It is built in memory, because writing netCDF directly to a full disk can crash the process.
    """
    import h5netcdf

    buffer = BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        for name, group in groups.items():
            _write(file.create_group(name), group)
    return buffer.getvalue()


def _write(node: Any, group: xr.Dataset) -> None:
    import h5py

    node.dimensions = dict(group.sizes)
    for name, variable in group.variables.items():
        values, attributes, fill = variable.values, dict[str, str](), None
        if values.dtype.kind == "b":
            values, attributes["dtype"] = values.astype(np.int8), "bool"
        elif values.dtype.kind in "UO":
            values = values.astype(object)
        if name not in group.coords:
            fill = np.nan if values.dtype.kind == "f" else None
            others = group[name].coords.keys() - set(variable.dims)
            if others:
                attributes["coordinates"] = " ".join(sorted(map(str, others)))
        stored = h5py.string_dtype() if values.dtype.kind == "O" else values.dtype
        made = node.create_variable(name, variable.dims, dtype=stored, data=values, fillvalue=fill)
        for key, value in attributes.items():
            made.attrs[key] = value


def from_file(path: Path) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the arrays in a netCDF file by group and name, and close the file.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    import h5netcdf

    try:
        with h5netcdf.File(path, "r") as file:
            return {
                group: {name: _decoded(each) for name, each in node.variables.items()}
                for group, node in file.groups.items()
            }
    except (OSError, ValueError, KeyError, AttributeError, RuntimeError, TypeError) as error:
        raise DataError(f"{path}: the draws cannot be read ({error}); refit the model") from error


def _decoded(variable: Any) -> NDArray[Any]:
    values = np.asarray(variable[...])
    if variable.attrs.get("dtype") == "bool":
        return values.astype(bool)
    if values.dtype.kind != "O":
        return values
    read = [each.decode() if isinstance(each, bytes) else str(each) for each in values.flat]
    return np.array(read, dtype=np.str_).reshape(values.shape)


# Reading back


def draws_of(
    groups: _Groups,
    program: Program,
    path: Path,
    *,
    has_stats: bool = True,
    keep: Collection[str] | None = None,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return draws and sampler statistics under Stan's names.

    Parameters
    ----------
    groups : mapping of str to mapping of str to array
        As :func:`from_file` returns them.
    program : Program
        The program.
    path : Path
        The file, which error messages name.
    has_stats : bool
        Whether the sampler has statistics.
    keep : collection of str, optional
        The quantities that must be in the file. Default: all that the program keeps.

    Raises
    ------
    DataError
        If a group or a quantity of the program is missing.
    """
    known = dict.fromkeys([*program.kept(), *program.source.blocks.draws])
    has_posterior = not program.internal.issuperset(known)
    for group, must in (("posterior", has_posterior), ("sample_stats", has_stats)):
        if must and group not in groups:
            raise DataError(f"{path} has no group {group}; refit the model")
    observed = program.declaration.roles.observed if "observed_data" in groups else "y"
    roles = program.declaration.roles
    in_python = {roles.log_lik, roles.y_rep} if program.python.pointwise is not None else set()
    draws = {
        name: groups[group][variable]
        for name, (group, variable) in _places(program, known, observed).items()
        if variable in groups.get(group, {}) and name not in in_python
    }
    sizes = groups.get("constant_data", {})
    for name in program.kept() if keep is None else keep:
        if name not in draws and not _may_be_absent(program, name, sizes):
            raise DataError(f"{path}: the draws of {name} are missing; refit the model")
    stats = {
        _STAN_NAMES.get(name, f"{name}__"): np.asarray(values, dtype=np.float64)
        for name, values in groups.get("sample_stats", {}).items()
        if name not in OF_DRAWS
    }
    return draws, stats


def _may_be_absent(program: Program, name: str, values: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a quantity may have no draws, because it may have no elements or is a tuple."""
    variable = program.source.blocks.draws[name]
    sizes = [int(size if size.isdecimal() else values.get(size, 0)) for size in variable.sizes]
    return 0 in sizes or variable.kind == "tuple"


def data_of(groups: _Groups, program: Program, record: RunRecord, path: Path) -> Data:
    """Rebuild the data of a fit from the arrays that are stored with its draws.

    Raises
    ------
    DataError
        If something is missing or damaged.
    """
    constant, columns = groups.get("constant_data", {}), record.data.columns
    declared = program.declaration
    about: dict[str, Any] = {
        "source": record.data.source,
        "sha256": record.data.sha256,
        "notes": record.notes,
        "reading": record.data.reading,
    }
    try:
        kept, block = {**constant, **groups.get("observed_data", {})}, program.source.blocks.data
        values: dict[str, Any] = {}
        for name, variable in block.items():
            array = kept.get(_beside_labels(name, block), kept.get(name))
            if array is not None:
                values[name] = array.item() if variable.ndim == array.ndim == 0 else array
        row = _of_rows_named(_ROW, program, declared.label_columns)
        if not columns and row not in constant:  # the data were not a table
            dims = dims_of(declared, program.source.blocks)
            return Data(values, dims, declaration=declared, **about)
        labels = {
            column: Labels(
                columns[column],
                tuple(map(str, constant[column])),
                np.asarray(constant[_index_named(column, program)], dtype=np.int64),
            )
            for column in declared.label_columns
        }
        own = {name: constant[_cells_named(name, program)] for name in declared.transformed}
        cells = own | _cells(program, values, labels)
        known = {
            column: tuple(map(str, constant[levels]))
            for column in declared.transformed
            if (levels := _levels_named(column, program)) in constant
        }
        table = Table(
            {columns[name]: cells[name] for name in declared.columns},
            str(record.data.source),
            np.asarray(constant[row], dtype=np.int64),
            # Text such as 1 and 2 may be numbers; only the levels show that a column is a factor.
            levels={
                columns[column]: levels
                for column, levels in {**known, **declared.levels}.items()
                if cells[column].dtype.kind not in "iuf"
            },
        )
        coords = {name: tuple(map(str, constant[name])) for name in declared.matrices}
        about |= {"labels": labels, "table": table, "coords": coords}
        return Data.of_table(declared, values, dict(columns), **about)
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"{path}: the data cannot be read ({error}); refit the model") from error


def _cells(
    program: Program, values: Mapping[str, Any], labels: Mapping[str, Labels]
) -> dict[str, NDArray[Any]]:
    """Return the values of each row, by the declaration's names for the columns."""
    cells: dict[str, NDArray[Any]] = {}
    for name, source in program.declaration.data.items():
        if source.numbers:
            per = source.labels.get("per")
            read = np.asarray(values[name]).reshape(-1, len(source.numbers))
            of_rows = read if per is None else read[labels[per].codes]
            cells |= dict(zip(source.numbers, of_rows.T, strict=True)) | cells
    return {column: found.of_rows for column, found in labels.items()} | cells
