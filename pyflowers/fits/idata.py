"""Draws and data as the groups of ArviZ's ``InferenceData``, and back.

Groups: ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data`` and, where the program
has them, ``log_likelihood``, ``posterior_predictive``, ``predictions`` and ``log_prior``.
Dimensions are ``chain``, ``draw``, ``obs`` and the declaration's own; their labels are the user's.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Collection, Container, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import Labels, Table
from pyflowers.engines.base import Keep
from pyflowers.errors import DataError
from pyflowers.fits.groups import Arrays, Group
from pyflowers.fits.posterior import Quantity, labels_of, quantity
from pyflowers.programs import Data, Program
from pyflowers.programs.declaration import OBS, Column, Columns, dims_of, free_name

if TYPE_CHECKING:
    import xarray as xr

STAT_NAMES = {
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
"""Stan's names of the sampler statistics, and ArviZ's."""

_STAN_NAMES = {theirs: stan for stan, theirs in STAT_NAMES.items()}
_WHOLE_STATS = {"tree_depth", "n_steps"}
_ROW = "row"
_INDEX = "{}_index"
_OF_DRAWS = ("chain", "draw")


def arviz() -> Any:
    """Import ArviZ without the one notice that its 0.23 gives of its own future."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\nArviZ is undergoing", FutureWarning)
        import arviz
    return arviz


def to_groups(
    program: Program,
    data: Data,
    draws: Mapping[str, Any],
    stats: Mapping[str, Any],
    keep: Keep | None = None,
) -> dict[str, Group]:
    """Return the groups of a fit.

    Parameters
    ----------
    program : Program
        Says which quantities belong to which group.
    data : Data
        The filled data block, with its labels.
    draws : mapping of str to array, shape (chain, draw, …)
        Every quantity that was kept.
    stats : mapping of str to array, shape (chain, draw)
        Sampler statistics by Stan's names.
    keep : mapping of str to array of int or None, optional
        The positions of the elements of a quantity, where not all are there.
    """
    kept = keep or {}
    roles = program.declaration.roles
    group_of = {
        roles.log_lik: "log_likelihood",
        roles.y_rep: "posterior_predictive",
        roles.y_new: "predictions",
        roles.y_new_group: "predictions",
        roles.lprior: "log_prior",
    }
    groups: dict[str, list[Quantity]] = {"posterior": []}
    for name, values in draws.items():
        labelled = quantity(name, values, data, kept.get(name))
        group = group_of.get(name, "posterior")
        key = _key(name, program.source.blocks.draws)
        # What describes the observed variable has its name, as ArviZ expects.
        if name in (roles.log_lik, roles.y_rep, roles.y_new):
            key = data.observed or "y"
        labelled = replace(labelled, name=key)
        groups.setdefault(group, []).append(labelled)
    found = {name: _group(members, data) for name, members in groups.items()}
    found["sample_stats"] = _stats(stats)
    if data.observed in data.values:
        found["observed_data"] = _constants({data.observed: data[data.observed]}, data)
    found["constant_data"] = _constant_data(data, program)
    return {name: group for name, group in found.items() if group.variables or group.coords}


def pointwise(values: NDArray[Any], data: Data) -> Group:
    """Return values for each observation, shape (chain, draw, N), as a group."""
    dims = data.dims.get(data.observed, ())
    dim = dims[0] if len(dims) == 1 else f"{data.observed}_dim_0"
    labels = labels_of(dim, values.shape[2], data)
    return _group([Quantity(data.observed or "y", values, (dim,), (labels,))], data)


def to_datasets(groups: Mapping[str, Group]) -> dict[str, xr.Dataset]:
    """Return groups as datasets of xarray."""
    import xarray as xr

    return {name: xr.Dataset(group.variables, group.coords) for name, group in groups.items()}


def to_inference_data(groups: Mapping[str, Group]) -> Any:
    """Return groups as ``arviz.InferenceData``."""
    return arviz().InferenceData(**to_datasets(groups))


def draws_of(
    groups: Mapping[str, Mapping[str, NDArray[Any]]],
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
        As :func:`.netcdf.from_file` returns them.
    program : Program
        The program.
    path : Path
        The file, for messages.
    has_stats : bool
        Whether the sampler has statistics of its own.
    keep : collection of str, optional
        The quantities that must be there; all that the program keeps by default.

    Raises
    ------
    DataError
        If a group or a quantity of the program is missing.
    """
    roles, known = program.declaration.roles, program.source.blocks.draws
    has_posterior = not program.internal.issuperset(known)
    for group, must in (("posterior", has_posterior), ("sample_stats", has_stats)):
        if must and group not in groups:
            raise DataError(f"{path}: it has no group {group}; fit again")
    posterior = groups.get("posterior", {})
    draws = {name: posterior[_key(name, known)] for name in known if _key(name, known) in posterior}
    observed = roles.observed if "observed_data" in groups else "y"
    for group, role, key in (
        ("log_likelihood", roles.log_lik, observed),
        ("posterior_predictive", roles.y_rep, observed),
        ("predictions", roles.y_new, observed),
        ("predictions", roles.y_new_group, roles.y_new_group),
        ("log_prior", roles.lprior, roles.lprior),
    ):
        if role in known and role not in draws and key in groups.get(group, {}):
            draws[role] = groups[group][key]
    sizes = groups.get("constant_data", {})
    for name in program.kept() if keep is None else keep:
        if name not in draws and not _may_be_absent(program, name, sizes):
            raise DataError(f"{path}: the draws of {name} are missing; fit again")
    stats = {
        _STAN_NAMES.get(name, f"{name}__"): np.asarray(values, dtype=np.float64)
        for name, values in groups.get("sample_stats", {}).items()
        if name not in _OF_DRAWS
    }
    return {name: draws[name] for name in known if name in draws}, stats


def _key(name: str, known: Container[str]) -> str:
    """Return the name of a quantity's variable, which is not that of a dimension of every draw."""
    return free_name(f"{name}_", known) if name in _OF_DRAWS else name


def _may_be_absent(program: Program, name: str, sizes: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a quantity may have no elements, so that Stan writes nothing of it."""
    variable = program.source.blocks.draws[name]
    known = [
        int(size) if size.isdecimal() else int(sizes[size]) if size in sizes else 0
        for size in variable.sizes
    ]
    return 0 in known or variable.kind == "tuple"


def data_of(
    groups: Mapping[str, Mapping[str, NDArray[Any]]],
    program: Program,
    columns: Mapping[str, str],
    about: Mapping[str, Any],
    path: Path,
) -> Data:
    """Rebuild the data of a fit from what is kept with its draws.

    Raises
    ------
    DataError
        If something is missing.
    """
    constant = groups.get("constant_data", {})
    declared = program.declaration
    try:
        values = _kept_values(program, {**constant, **groups.get("observed_data", {})})
        named = partial(_of_rows_named, program=program, labels=declared.label_columns)
        if not columns and named(_ROW) not in constant:  # there was no table
            dims = dims_of(declared, program.source.blocks)
            return Data(values, dims, declaration=declared, **about)
        labels = {
            column: Labels(
                columns[column],
                tuple(map(str, constant[column])),
                np.asarray(constant[named(_INDEX.format(column))], dtype=np.int64),
            )
            for column in declared.label_columns
        }
        rows = np.asarray(constant[named(_ROW)], dtype=np.int64)
        return _data_with_table(program, columns, values, labels, rows, about)
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"{path}: its data cannot be read ({error}); fit again") from error


def _kept_values(program: Program, kept: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    block = program.source.blocks.data
    for name, variable in block.items():
        array = kept.get(_beside_labels(name, block), kept.get(name))
        if array is not None:
            values[name] = array.item() if variable.ndim == 0 and array.ndim == 0 else array
    return values


def _beside_labels(name: str, block: Container[str]) -> str:
    """Return what a data variable is called beside a dimension of its name."""
    return free_name(f"{name}_data", block)


def _of_rows_named(name: str, program: Program, labels: Collection[str]) -> str:
    """Return what an array with a value for each row is called, beside data and dimensions."""
    return free_name(name, {*program.source.blocks.data, *labels})


def _data_with_table(
    program: Program,
    columns: Mapping[str, str],
    values: dict[str, Any],
    labels: dict[str, Labels],
    rows: NDArray[np.int64],
    about: Mapping[str, Any],
) -> Data:
    declared = program.declaration
    cells: dict[str, NDArray[Any]] = {}
    for name, source in declared.data.items():
        if not isinstance(source, Column | Columns):
            continue
        of_rows = np.asarray(values[name])
        if source.per is not None:
            of_rows = of_rows[labels[source.per].codes]
        if isinstance(source, Columns):
            for i, column in enumerate(source.columns):
                cells.setdefault(columns[column], of_rows[:, i])
        elif not source.index:
            cells.setdefault(columns[source.column], of_rows)
    for column, found in labels.items():
        cells.setdefault(columns[column], found.of_rows)
    used = [columns[column] for column in declared.columns]
    table = Table({name: cells[name] for name in used}, str(about["source"]), rows)
    return Data.of_table(declared, values, labels, table, dict(columns), **about)


def _group(members: list[Quantity], data: Data) -> Group:
    """Return quantities with the labels of their dimensions."""
    coords: Arrays = {}
    variables: Arrays = {}
    if not members:
        return Group(variables, coords)
    for member in members:
        variables[member.name] = ((*_OF_DRAWS, *member.dims), member.values)
        for dim, labels in zip(member.dims, member.labels, strict=True):
            coords[dim] = ((dim,), _coordinate(dim, labels, data))
    return Group(variables, coords | _numbers(members[0].values) | _of_rows(coords, data))


def _numbers(values: NDArray[Any]) -> Arrays:
    """Return the coordinates of chains and draws."""
    dims = zip(_OF_DRAWS, values.shape, strict=False)
    return {dim: ((dim,), np.arange(size)) for dim, size in dims}


def _of_rows(coords: Arrays, data: Data) -> Arrays:
    """Return each row's labels, where rows are a dimension."""
    if OBS not in coords:
        return {}
    return {
        name: ((OBS,), _text(labels.of_rows))
        for name, labels in data.labels.items()
        if name not in coords
    }


def _coordinate(dim: str, labels: tuple[str, ...], data: Data) -> NDArray[Any]:
    """Return numbers for numbered dimensions and text for labelled ones."""
    if dim in data.labels or dim in data.coords:
        return _text(labels)
    return np.array(labels, dtype=np.int64) - (dim == OBS)


def _constants(values: Mapping[str, Any], data: Data) -> Group:
    """Return variables of the data block with the labels of their dimensions."""
    variables: Arrays = {}
    coords: Arrays = {}
    dims = {OBS, *data.labels, *itertools.chain.from_iterable(data.dims.values())}
    for name, value in values.items():
        if isinstance(value, Mapping):
            continue  # a tuple of Stan has no array to keep
        array = np.asarray(value)
        labelled = quantity(name, array[None, None], data)
        key = _beside_labels(name, data.values) if name in dims else name
        variables[key] = (labelled.dims, array)
        for dim, labels in zip(labelled.dims, labelled.labels, strict=True):
            coords[dim] = ((dim,), _coordinate(dim, labels, data))
    return Group(variables, coords | _of_rows(coords, data))


def _constant_data(data: Data, program: Program) -> Group:
    """Return the rest of the data block, and what rebuilds the table."""
    rest = {name: value for name, value in data.values.items() if name != data.observed}
    found = _constants(rest, data)
    coords = {name: at for name, at in found.coords.items() if at[0] == (name,)}
    if data.table is None:
        return Group(found.variables, coords)
    coords |= {name: ((name,), _text(labels.names)) for name, labels in data.labels.items()}
    rows = {_INDEX.format(name): labels.codes for name, labels in data.labels.items()}
    of_rows: Arrays = {
        _of_rows_named(name, program, data.labels): ((OBS,), values)
        for name, values in {**rows, _ROW: data.table.rows}.items()
    }
    return Group(found.variables | of_rows, coords)


def _stats(stats: Mapping[str, NDArray[np.float64]]) -> Group:
    variables: Arrays = {}
    for stan_name, values in stats.items():
        name = STAT_NAMES.get(stan_name, stan_name.rstrip("_"))
        if name == "diverging":
            values = values.astype(bool)
        elif name in _WHOLE_STATS:
            values = values.astype(np.int64)
        variables[name] = (("chain", "draw"), values)
    return Group(variables, _numbers(next(iter(stats.values()))) if variables else {})


def _text(labels: Any) -> NDArray[Any]:
    """Return labels as an array of text, which netCDF keeps for any Unicode."""
    return np.asarray(list(labels), dtype=np.str_)
