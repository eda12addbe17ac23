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

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
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
from pyflowers.programs.source import Variable

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
"""ArviZ's names for the sampler statistics, by Stan's names."""

_STAN_NAMES = {theirs: stan for stan, theirs in STAT_NAMES.items()}
_STAT_TYPES = {"diverging": np.bool_, "tree_depth": np.int64, "n_steps": np.int64}
_ROW = "row"

_MOST_EXPANDED = 10
"""The largest number of bytes in memory to which one byte of a file may expand.

pyflowers writes uncompressed arrays, but early versions compressed them.
"""

_NOT_A_COORDINATE = "_nc4_non_coord_"
"""Prefix, in HDF5, of a netCDF variable that has a dimension's name but is not its coordinate."""

_Groups = Mapping[str, Mapping[str, NDArray[Any]]]


_ALL = "_all"
"""Suffix of the names of statistics for all iterations, if thinning kept only some draws."""


def to_groups(
    program: Program,
    data: Data,
    draws: Mapping[str, Any],
    stats: Mapping[str, Any],
    keep: Keep | None = None,
    kept_stats: Mapping[str, Any] | None = None,
) -> dict[str, xr.Dataset]:
    """Return the ArviZ groups of a fit.

    For the arguments, see :class:`~pyflowers.fits.fit.Fit`; for `keep`, see
    :func:`~pyflowers.fits.posterior.dataset`. `stats` are the statistics of all iterations, and
    `kept_stats` are those of the kept draws; the default is `stats`. If they differ in length, both
    are stored.
    """
    places = _places(program, draws, data.observed or "y")
    called = {name: variable for name, (_, variable) in places.items()}
    members: dict[str, dict[str, Any]] = {}
    for name, (group, _) in places.items():
        members.setdefault(group, {})[name] = draws[name]
    found = {group: dataset(its, data, keep, called) for group, its in members.items()}
    if stats:
        arrays: Arrays = {}
        for stan_name, its in stats.items():
            name = STAT_NAMES.get(stan_name, stan_name.rstrip("_"))
            of_all = its.astype(_STAT_TYPES.get(name, np.float64), copy=False)
            of_draws = (kept_stats or stats)[stan_name]
            arrays[name] = (OF_DRAWS, of_draws.astype(of_all.dtype, copy=False))
            if of_draws.shape != its.shape:
                arrays[f"{name}{_ALL}"] = (("chain", "iteration"), of_all)
        found["sample_stats"] = as_dataset(arrays, {})
    if data.observed in data.values:
        found["observed_data"] = as_dataset(*_constants(data, [data.observed]))
    rest = _constant_data(data, program)
    if any(rest):
        found["constant_data"] = as_dataset(*rest)
    return found


def pointwise(values: NDArray[Any], data: Data) -> xr.Dataset:
    """Return values for each observation, shape (chain, draw, N), as a group.

    Values for each count, shape (chain, draw, N × categories), also have a category dimension.
    """
    name, dims = data.observed or "y", data.dims.get(data.observed, ())
    if data.counted:
        values = values.reshape(*values.shape[:2], data.num_obs, -1)
        dims = dims[: 2 if values.shape[3] == len(data.counted) else 1]
        values = values.reshape(*values.shape[:2], *([-1] if len(dims) == 1 else values.shape[2:]))
    if not dims or (len(dims) != 1 and not data.counted):
        dims = (f"{data.observed}_dim_0",)
    return dataset({name: values}, replace(data, dims={name: dims}))


def _places(program: Program, names: Iterable[str], observed: str) -> dict[str, tuple[str, str]]:
    """Return the group of each quantity, and its name in that group.

    As ArviZ expects, quantities that describe the observed variable have the name of that variable.
    """
    roles, known = program.declaration.roles, program.source.blocks.draws
    of_observed = {
        roles.log_lik: ("log_likelihood", observed),
        roles.y_rep: ("posterior_predictive", observed),
        roles.y_new: ("predictions", observed),
    }
    group_of = {roles.y_new_group: "predictions", roles.lprior: "log_prior"}
    others = {n: (group_of.get(n, "posterior"), variable_name(n, known)) for n in names}
    return {name: of_observed.get(name, place) for name, place in others.items()}


def _constants(data: Data, names: Iterable[str]) -> tuple[Arrays, Arrays]:
    """Return variables of the data block, and the labels of their dimensions."""
    arrays, coords = Arrays(), Arrays()
    all_dims = {OBS, *data.labels, *(dim for dims in data.dims.values() for dim in dims)}
    for name in names:
        if isinstance(data[name], Mapping):
            continue  # a tuple in Stan is not an array, so it is not kept
        array = np.asarray(data[name])
        dims, labels = axes(name, array.shape, data)
        called = name
        if name in all_dims:
            called = _beside_labels(name, data.values)
        arrays[called] = (dims, array)
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
            if cells.dtype.kind == "O":  # as labels, which levels are compared with
                cells = text(data.table.texts(data.name_of(column)))
            arrays[_cells_named(column, program)] = ((OBS,), cells)
    return arrays, coords


def _beside_labels(name: str, block: Container[str]) -> str:
    """Return another name for a data variable that has the name of a dimension."""
    return free_name(f"{name}_data", block)


def _of_rows_named(name: str, program: Program, labels: Collection[str]) -> str:
    """Return a name for an array of row values, distinct from data variables and dimensions."""
    return free_name(name, {*program.source.blocks.data, *labels})


def _cells_named(column: str, program: Program) -> str:
    return _of_rows_named(f"{column}_cells", program, program.declaration.label_columns)


def _index_named(column: str, program: Program) -> str:
    return _of_rows_named(f"{column}_index", program, program.declaration.label_columns)


# The file


def to_bytes(groups: Mapping[str, xr.Dataset]) -> memoryview:
    """Return groups as the contents of a netCDF file.

    It is built in memory, because writing netCDF directly to a full disk can crash the process.
    """
    import h5netcdf

    buffer = BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        for name, group in groups.items():
            _write(file.create_group(name), group)
    return buffer.getbuffer()  # getvalue() would copy it


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
            if values.dtype.kind == "f":
                fill = np.nan
            others = group[name].coords.keys() - set(variable.dims)
            if others:
                attributes["coordinates"] = " ".join(sorted(map(str, others)))
        if values.dtype.kind == "O":
            stored = h5py.string_dtype()
        else:
            stored = values.dtype
        made = node.create_variable(name, variable.dims, dtype=stored, data=values, fillvalue=fill)
        for key, value in attributes.items():
            made.attrs[key] = value


class _Stored(Mapping[str, NDArray[Any]]):
    """The arrays of one group in an open file; each array is read when it is accessed."""

    def __init__(self, datasets: Mapping[str, Any], path: Path, largest: int) -> None:
        self._datasets, self._path, self._largest = datasets, path, largest

    def __getitem__(self, name: str) -> NDArray[Any]:
        dataset = self._datasets[name]
        with _reading(self._path):
            return _decoded(dataset, self._largest)

    def __contains__(self, name: object) -> bool:
        return name in self._datasets

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)


@contextmanager
def opened(stored: BinaryIO, path: Path) -> Iterator[_Groups]:
    """Open a netCDF file that :func:`to_bytes` made.

    Parameters
    ----------
    stored : file
        The file, open.
    path : Path
        The path of the file, for error messages.

    Yields
    ------
    mapping of str to mapping of str to array
        The arrays by group and name. An array is read when it is accessed.

    Raises
    ------
    DataError
        If the file cannot be read, refers to another file, or would take much more memory than
        its size.
    """
    import h5py

    size = stored.seek(0, SEEK_END)
    largest = _MOST_EXPANDED * size
    with _reading(path):
        file = h5py.File(stored, "r")
    with file:
        with _reading(path):
            groups = {name: _datasets_in(node) for name, node in _members(file, h5py.Group)}
            total = sum(each.nbytes for group in groups.values() for each in group.values())
            if total > largest:
                raise ValueError(f"a file of {size:,} bytes cannot hold {total:,}")
        yield {name: _Stored(group, path, largest) for name, group in groups.items()}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn any error in reading a file into a DataError that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError, AttributeError, RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"{path}: the {path.stem} cannot be read ({reason}); refit the model"
        ) from error


def _members(node: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the members of a group of an HDF5 file.

    Soft and external links, and data that are stored elsewhere, are rejected: pyflowers does not
    write them, and they would let a file from a stranger show the contents of the user's files.

    Raises
    ------
    ValueError
        If a member is a link, or is not of this kind.
    """
    import h5py

    for name in node:
        if type(node.get(name, getlink=True)) is not h5py.HardLink:
            raise ValueError(f"{node.name.rstrip('/')}/{name} is a link, but no run contains links")
        member = node[name]
        if not isinstance(member, kind):
            raise ValueError(f"{member.name} is not a {kind.__name__.lower()}")
        yield name, member


def _datasets_in(group: Any) -> dict[str, Any]:
    """Return the datasets of a group of an HDF5 file, by their names in netCDF."""
    import h5py

    found = {}
    for name, member in _members(group, h5py.Dataset):
        if member.external or member.is_virtual:
            raise ValueError(f"{member.name} is stored in another file, not in the run")
        found[name.removeprefix(_NOT_A_COORDINATE)] = member
    return found


def _decoded(stored: Any, largest: int) -> NDArray[Any]:
    """Return the values of a dataset; text may take at most `largest` bytes."""
    values = np.asarray(stored[...])
    if values.dtype.kind != "O":
        if stored.attrs.get("dtype") == "bool":
            return values.astype(bool)
        return values
    read = [each.decode() if isinstance(each, bytes) else str(each) for each in values.flat]
    total = 4 * len(read) * max(map(len, read), default=0)  # each takes as much as the longest
    if total > largest:
        raise ValueError(f"{stored.name} would take {total:,} bytes")
    return np.array(read, dtype=np.str_).reshape(values.shape)


# Reading back


def draws_of(
    groups: _Groups, program: Program, record: RunRecord, path: Path
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return draws and sampler statistics under Stan's names.

    Parameters
    ----------
    groups : mapping of str to mapping of str to array
        As :func:`opened` yields them.
    program : Program
        The program.
    record : RunRecord
        The record of the run.
    path : Path
        The path of the file, for error messages.

    Raises
    ------
    DataError
        If a group or a quantity of the program is missing, or does not have the type and shape that
        the record and the program require.
    """
    known = dict.fromkeys([*program.kept(), *program.source.blocks.draws])
    has_posterior = not program.internal.issuperset(known)
    for group, must in (
        ("posterior", has_posterior),
        ("sample_stats", record.independent is None),
    ):
        if must and group not in groups:
            raise DataError(f"{path} has no group {group}; refit the model")
    if "observed_data" in groups:
        observed = program.declaration.roles.observed
    else:
        observed = "y"
    roles = program.declaration.roles
    in_python = {n for n in (roles.log_lik, roles.y_rep) if program.answers_by_rule(n)}
    draws = {
        name: groups[group][variable]
        for name, (group, variable) in _places(program, known, observed).items()
        if variable in groups.get(group, {}) and name not in in_python
    }
    sizes = groups.get("constant_data", {})
    wanted: Iterable[str] = program.kept()
    if record.streamed:
        wanted = {name.partition("[")[0] for name in record.options.keep}
    for name in wanted:
        if name not in draws and not _may_be_absent(program, name, sizes):
            raise DataError(f"{path}: the draws of {name} are missing; refit the model")
    options = record.options
    shape = (options.chains, -(-options.draws // options.thin))
    for name, values in draws.items():
        variable = program.source.blocks.draws[name]
        own: tuple[int | None, ...] | None = None
        if not record.streamed:
            own = sizes_of(variable, sizes)
        if own is None:
            own = (None,) * (values.ndim - 2)
        kinds = "f"
        if variable.is_int:
            kinds = "if"
        _check_array(values, kinds, (*shape, *own), f"{path}: the draws of {name}")
    saved = groups.get("sample_stats", {})
    stats: dict[str, NDArray[np.float64]] = {}
    for name in saved:
        if name in (*OF_DRAWS, "iteration") or name.endswith(_ALL):
            continue
        stan_name, of_all = _STAN_NAMES.get(name, f"{name}__"), f"{name}{_ALL}"
        values, of_stats = saved[name], shape
        if of_all in saved:
            values, of_stats = saved[of_all], (options.chains, options.draws)
        _check_array(values, "bif", of_stats, f"{path}: the values of {stan_name}")
        stats[stan_name] = np.asarray(values, dtype=np.float64)
    return draws, stats


def check_kept(draws: Mapping[str, NDArray[np.float64]], keep: Keep, path: Path) -> None:
    """Reject draws of a quantity that do not have as many elements as were kept.

    Raises
    ------
    DataError
        If the draws of a quantity do not have the number of elements in `keep`.
    """
    for name, positions in keep.items():
        if positions is not None and name in draws:
            shape = (None, None, len(positions))
            _check_array(draws[name], "f", shape, f"{path}: the draws of {name}")


def sizes_of(
    variable: Variable, values: Mapping[str, NDArray[Any]]
) -> tuple[int | None, ...] | None:
    """Return the sizes of a variable, with None for an expression; None if tuple or complex."""
    if variable.kind in ("tuple", "complex") or variable.kind.startswith("complex_"):
        return None
    return tuple(map(partial(_size, values=values), variable.sizes))


def _size(size: str, values: Mapping[str, NDArray[Any]]) -> int | None:
    """Return a size that is a number or a variable of the data block; None for an expression."""
    if size.isdecimal():
        return int(size)
    known = values.get(size)
    if known is None or known.dtype.kind != "i" or known.ndim:
        return None
    return int(known)


def _check_array(
    values: NDArray[Any], kinds: str, shape: tuple[int | None, ...], subject: str
) -> None:
    """Reject an array of another type or shape; None in `shape` stands for any size."""
    if values.dtype.kind not in kinds:
        raise DataError(f"{subject} have the wrong type, {values.dtype}; refit the model")
    fits = len(shape) == values.ndim and all(
        wanted in (None, size) for wanted, size in zip(shape, values.shape, strict=True)
    )
    if not fits:
        expected = ", ".join("any" if wanted is None else str(wanted) for wanted in shape)
        raise DataError(
            f"{subject} have the shape ({', '.join(map(str, values.shape))}), but the run needs "
            f"({expected}); refit the model"
        )


def _may_be_absent(program: Program, name: str, values: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a quantity may have no draws, because it is a tuple or may have no elements."""
    variable = program.source.blocks.draws[name]
    return variable.kind == "tuple" or any(
        _size(size, values) in (0, None) for size in variable.sizes
    )


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
        block = program.source.blocks.data
        values: dict[str, Any] = {}
        for name, variable in block.items():
            array = _first(
                (groups.get("observed_data", {}), constant), (_beside_labels(name, block), name)
            )
            if array is None:  # a tuple is not kept
                continue
            sizes = sizes_of(variable, constant)
            if sizes is None:
                sizes = (None,) * array.ndim
            subject = f"{path}: the data cannot be read, because the values of {name}"
            _check_array(array, "bif", sizes, subject)
            values[name] = array
            if array.ndim == 0:
                values[name] = array.item()
        row = _of_rows_named(_ROW, program, declared.label_columns)
        if not columns and row not in constant:  # the data were not a table
            dims = dims_of(declared, program.source.blocks)
            return Data(values, dims, declaration=declared, **about)
        labels = {
            column: _labels(columns[column], constant[column], constant[index])
            for column in declared.label_columns
            if (index := _index_named(column, program))
        }
        own = {name: constant[_cells_named(name, program)] for name in declared.transformed}
        cells = own | _cells(program, values, labels)
        rows = np.asarray(constant[row], dtype=np.int64)
        if any(np.shape(each) != rows.shape for each in cells.values()):
            raise ValueError("the columns have different numbers of rows")
        table = Table.of_cells(
            {columns[name]: cells[name] for name in declared.columns},
            str(record.data.source),
            rows,
            # Text such as 1 and 2 may be numbers; only the levels show that a column is a factor.
            levels={
                columns[column]: levels
                for column, levels in declared.levels.items()
                if cells[column].dtype.kind not in "iuf"
            }
            | record.data.levels,
            ordered=record.data.ordered,
        )
        coords = {name: tuple(map(str, constant[name])) for name in declared.named}
        about |= {"labels": labels, "table": table, "coords": coords}
        return Data.of_table(declared, values, dict(columns), **about)
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"{path}: the data cannot be read ({error}); refit the model") from error


def _first(
    groups: Sequence[Mapping[str, NDArray[Any]]], names: Sequence[str]
) -> NDArray[Any] | None:
    """Return the array with the first of these names that a group has."""
    found = (group[name] for name in names for group in groups if name in group)
    return next(found, None)


def _labels(column: str, names: NDArray[Any], codes: NDArray[Any]) -> Labels:
    """Return the labels of a column; reject repeated ones, and rows that have none.

    Raises
    ------
    ValueError
        If the labels are not distinct, or a position has no label.
    """
    found = tuple(map(str, names))
    if len(set(found)) < len(found):
        raise ValueError(f"a label of {column} occurs twice")
    if codes.dtype.kind != "i" or not np.isin(codes, np.arange(len(found))).all():
        raise ValueError(f"a row has no label of {column}")
    return Labels(column, found, codes.astype(np.int64))


def _cells(
    program: Program, values: Mapping[str, Any], labels: Mapping[str, Labels]
) -> dict[str, NDArray[Any]]:
    """Return the values of each row, by the declaration's names for the columns."""
    cells: dict[str, NDArray[Any]] = {}
    for name, source in program.declaration.data.items():
        if source.numbers:
            per = source.labels.get("per")
            read = np.asarray(values[name]).reshape(-1, len(source.numbers))
            if per is not None:
                read = read[labels[per].codes]
            cells |= dict(zip(source.numbers, read.T, strict=True)) | cells
    return {column: found.of_rows for column, found in labels.items()} | cells
