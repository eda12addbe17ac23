"""Draws and data as the groups of ArviZ's ``InferenceData``, and back.

Groups: ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data`` and, where the program
has them, ``log_likelihood``, ``posterior_predictive``, ``predictions`` and ``log_prior``.
Dimensions are ``chain``, ``draw``, ``obs`` and the declaration's own; their labels are the user's.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines.base import Keep
from pyflowers.errors import DataError
from pyflowers.fits.groups import Arrays, Group
from pyflowers.fits.posterior import Quantity, labels_of, quantity
from pyflowers.programs import Data, Program
from pyflowers.programs.declaration import OBS, Column, Columns
from pyflowers.table import Labels, Table

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
_NONE = Group({}, {})


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
        # What describes the observed variable has its name, as ArviZ expects.
        if name in (roles.log_lik, roles.y_rep, roles.y_new):
            observed = data.observed or "y"
            labelled = Quantity(observed, labelled.values, labelled.dims, labelled.labels)
        groups.setdefault(group, []).append(labelled)
    found = {name: _group(members, data) for name, members in groups.items()}
    found["sample_stats"] = _stats(stats)
    if data.observed in data.values:
        found["observed_data"] = _constants({data.observed: data[data.observed]}, data)
    found["constant_data"] = _constant_data(data)
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
    groups: Mapping[str, Group],
    program: Program,
    path: Path,
    *,
    has_stats: bool = True,
    keep: Collection[str] | None = None,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return draws and sampler statistics under Stan's names.

    Parameters
    ----------
    groups : mapping of str to Group
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
    roles = program.declaration.roles
    has_posterior = not program.internal.issuperset(program.source.blocks.draws)
    for group, must in (("posterior", has_posterior), ("sample_stats", has_stats)):
        if must and group not in groups:
            raise DataError(f"{path}: it has no group {group}; fit again")
    draws = {name: values for name, (_, values) in groups.get("posterior", _NONE).variables.items()}
    another = roles.y_new_group
    for group, name in (
        ("log_likelihood", roles.log_lik),
        ("posterior_predictive", roles.y_rep),
        ("predictions", roles.y_new),
        ("log_prior", roles.lprior),
    ):
        if group in groups and name in program.source.blocks.draws and name not in draws:
            kept = groups[group].variables.items()
            draws[name] = next(values for key, (_, values) in kept if key != another)
    if another in groups.get("predictions", _NONE).variables:
        draws[another] = groups["predictions"].arrays[another]
    sizes = groups.get("constant_data", _NONE).arrays
    for name in program.kept() if keep is None else keep:
        if name not in draws and not _may_be_absent(program, name, sizes):
            raise DataError(f"{path}: the draws of {name} are missing; fit again")
    stats = {
        _STAN_NAMES.get(name, f"{name}__"): np.asarray(values, dtype=np.float64)
        for name, (_, values) in groups.get("sample_stats", _NONE).variables.items()
    }
    return draws, stats


def _may_be_absent(program: Program, name: str, sizes: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a quantity may have no elements, so that Stan writes nothing of it."""
    variable = program.source.blocks.draws[name]
    known = [
        int(size) if size.isdecimal() else int(sizes[size]) if size in sizes else 0
        for size in variable.sizes
    ]
    return 0 in known or variable.kind == "tuple"


def data_of(
    groups: Mapping[str, Group],
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
    kept = [groups.get(name, _NONE) for name in ("observed_data", "constant_data")]
    constant = kept[1].arrays
    declared = program.declaration
    try:
        values = _kept_values(program, kept)
        if not columns and _ROW not in constant:  # there was no table
            from pyflowers.programs.inference import dims_of

            dims = dims_of(declared, program.source.blocks)
            name = declared.roles.observed if declared.roles.observed in values else ""
            return Data(values, dims, observed=name, declaration=declared, **about)
        labels = {
            column: Labels(
                columns[column],
                tuple(map(str, constant[column])),
                np.asarray(constant[_INDEX.format(column)], dtype=np.int64),
            )
            for column in declared.label_columns
        }
        return _data_with_table(program, columns, values, labels, constant, about)
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"{path}: its data cannot be read ({error}); fit again") from error


def _kept_values(program: Program, groups: Sequence[Group]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, variable in program.source.blocks.data.items():
        kept = next(
            (
                group.variables[key][1]
                for group in groups
                for key in (f"{name}_data", name)
                if key in group.variables
            ),
            None,
        )
        if kept is not None:
            values[name] = kept.item() if variable.ndim == 0 and kept.ndim == 0 else kept
    return values


def _data_with_table(
    program: Program,
    columns: Mapping[str, str],
    values: dict[str, Any],
    labels: dict[str, Labels],
    constant: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
) -> Data:
    declared = program.declaration
    rows = np.asarray(constant[_ROW], dtype=np.int64)
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
    source_of_y = declared.data.get(declared.roles.observed)
    return Data(
        values=values,
        dims=dict(declared.dims),
        labels=labels,
        coords={
            name: tuple(columns[column] for column in matrix.columns)
            for name, matrix in declared.matrices.items()
        },
        table=Table({name: cells[name] for name in used}, str(about["source"]), rows),
        columns=dict(columns),
        observed=declared.roles.observed if declared.roles.observed in values else "",
        group=declared.table.group,
        time=declared.table.time,
        value=source_of_y.column if isinstance(source_of_y, Column) else "",
        declaration=declared,
        **about,
    )


def _group(members: list[Quantity], data: Data) -> Group:
    """Return quantities with the labels of their dimensions."""
    coords: Arrays = {}
    variables: Arrays = {}
    if not members:
        return Group(variables, coords)
    for member in members:
        variables[member.name] = (("chain", "draw", *member.dims), member.values)
        for dim, labels in zip(member.dims, member.labels, strict=True):
            coords[dim] = ((dim,), _coordinate(dim, labels, data))
    return Group(variables, coords | _numbers(members[0].values) | _of_rows(coords, data))


def _numbers(values: NDArray[Any]) -> Arrays:
    """Return the coordinates of chains and draws."""
    dims = zip(("chain", "draw"), values.shape, strict=False)
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
    for name, value in values.items():
        if isinstance(value, Mapping):
            continue  # a tuple of Stan has no array to keep
        array = np.asarray(value)
        labelled = quantity(name, array[None, None], data)
        key = f"{name}_data" if name in (*labelled.dims, *data.labels, OBS) else name
        variables[key] = (labelled.dims, array)
        for dim, labels in zip(labelled.dims, labelled.labels, strict=True):
            coords[dim] = ((dim,), _coordinate(dim, labels, data))
    return Group(variables, coords | _of_rows(coords, data))


def _constant_data(data: Data) -> Group:
    """Return the rest of the data block, and what rebuilds the table."""
    rest = {name: value for name, value in data.values.items() if name != data.observed}
    found = _constants(rest, data)
    coords = {name: at for name, at in found.coords.items() if at[0] == (name,)}
    if data.table is None:
        return Group(found.variables, coords)
    coords |= {name: ((name,), _text(labels.names)) for name, labels in data.labels.items()}
    rows: Arrays = {_ROW: ((OBS,), data.table.rows)}
    rows |= {_INDEX.format(name): ((OBS,), labels.codes) for name, labels in data.labels.items()}
    return Group(found.variables | rows, coords)


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
