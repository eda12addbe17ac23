"""Labelled draws as an xarray dataset, the names of its elements, and their summary.

Dimensions are ``chain``, ``draw``, ``obs`` and the dimensions of the declaration. Their coordinates
are the user's labels, or numbers from 1 as in Stan; chains, draws and observations are numbered
from 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import statistics
from pyflowers.display import INTERVAL, format_cell, interval_quantiles, left_out, text_table
from pyflowers.engines.base import Keep
from pyflowers.errors import ConfigError
from pyflowers.programs import Capability, Data, MissingMoment, Program
from pyflowers.programs.declaration import OBS, free_name
from pyflowers.text import and_more

if TYPE_CHECKING:
    import xarray as xr

Arrays = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
"""Arrays by name, each with its dimensions."""

OF_DRAWS = ("chain", "draw")
"""The dimensions that all draws have; variables cannot have these names."""

STREAMED = (
    "only some groups' draws were kept; refit with fewer draws or groups, or without --keep (in "
    "Python, keep=…)"
)

NEEDS_ALL_DRAWS = (
    *(Capability.LOG_LIK, Capability.Y_REP, Capability.GROUP_MEAN),
    *(Capability.EXACT, Capability.VB),
)
"""Capabilities that need the draws of all groups."""


def dataset(
    draws: Mapping[str, NDArray[Any]],
    data: Data,
    keep: Keep | None = None,
    called: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Label draws, shaped (chain, draw, …), with the labels of the data.

    A dimension is numbered if its labels are unknown or do not match its size. If only some
    elements of a quantity are kept, `keep` gives their positions. `called` gives new names
    for some variables. A variable called ``chain`` or ``draw`` becomes ``chain_`` or ``draw_``.
    """
    arrays, coords = Arrays(), Arrays()
    for name, values in draws.items():
        dims, labels = axes(name, values.shape[2:], data, (keep or {}).get(name))
        as_called = (called or {}).get(name) or variable_name(name, draws)
        arrays[as_called] = ((*OF_DRAWS, *dims), values)
        coords |= {dim: ((dim,), its) for dim, its in zip(dims, labels, strict=True)}
    return as_dataset(arrays, coords | labels_of_rows(coords, data))


def as_dataset(arrays: Arrays, coords: Arrays) -> xr.Dataset:
    """Return arrays as a dataset, with chains and draws numbered from 0."""
    import xarray as xr

    sizes = {dim: n for dims, a in arrays.values() for dim, n in zip(dims, a.shape, strict=True)}
    numbers = {dim: ((dim,), np.arange(sizes[dim])) for dim in OF_DRAWS if dim in sizes}
    # The fast path does not change the arrays. The usual path first imports Dask's arrays if Dask
    # is installed, which takes longer than everything else that a fit does with xarray.
    data_vars, labels = (
        {name: xr.Variable(dims, values, fastpath=True) for name, (dims, values) in part.items()}
        for part in (arrays, coords | numbers)
    )
    return xr.Dataset(data_vars, labels)


def variable_name(name: str, known: Container[str]) -> str:
    """Return the name of a quantity in a dataset with the dimensions chain and draw."""
    if name in OF_DRAWS:
        return free_name(f"{name}_", known)
    return name


def name_in(posterior: xr.Dataset, name: str) -> str:
    """Return the name that a quantity called `name` in Stan has in an existing posterior."""
    if name not in OF_DRAWS:
        return name
    called = [other for other in map(str, posterior.data_vars) if other.rstrip("_") == name]
    return max(called, key=len, default=name)


def labels_of_rows(dims: Container[str], data: Data) -> Arrays:
    """Return the labels of each row as coordinates, if rows are a dimension."""
    if OBS not in dims:
        return {}
    return {
        name: ((OBS,), text(of.of_rows)) for name, of in data.labels.items() if name not in dims
    }


def axes(
    name: str, shape: tuple[int, ...], data: Data, positions: NDArray[np.int64] | None = None
) -> tuple[tuple[str, ...], list[NDArray[Any]]]:
    """Return the dimensions of a variable, and the labels along each."""
    dims = data.dims.get(name, ())
    if positions is not None:
        dim = next(iter(dims), f"{name}_dim_0")
        least = int(positions.max(initial=0)) + 1
        return (dim,), [labels_along(dim, _size_of(dim, data) or least, data)[positions]]
    sizes = (_size_of(dim, data) for dim in dims)
    if len(dims) != len(shape) or any(
        known not in (None, size) for known, size in zip(sizes, shape, strict=True)
    ):
        dims = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
    return dims, [labels_along(dim, size, data) for dim, size in zip(dims, shape, strict=True)]


def labels_along(dim: str, size: int, data: Data) -> NDArray[Any]:
    """Return the labels along a dimension as text, or numbers if it has none."""
    if dim in data.labels:
        return text(data.labels[dim].names)
    if dim in data.coords:
        return text(data.coords[dim])
    return np.arange(size) + (dim != OBS)


def text(labels: Any) -> NDArray[Any]:
    """Return labels as an array of text, a type in which netCDF can store any Unicode."""
    return np.asarray(list(labels), dtype=np.str_)


def _size_of(dim: str, data: Data) -> int | None:
    """Return the number of labels along a dimension, or of the table's rows; None if unknown."""
    if dim == OBS and data.table is not None:
        return len(data.table)
    names = data.labels.get(dim, data.coords.get(dim))
    if names is None:
        return None
    return len(names)


def own_dims(quantity: xr.DataArray) -> tuple[str, ...]:
    """Return the dimensions of a quantity except chain and draw."""
    return tuple(map(str, quantity.dims[2:]))


def labels_of(quantity: xr.DataArray) -> tuple[tuple[str, ...], ...]:
    """Return the labels along each dimension except chain and draw; numbers start at 1."""
    found = []
    for dim in own_dims(quantity):
        labels = quantity[dim].values
        if dim == OBS:  # rows are numbered from 0 in the dataset
            labels = labels + 1
        found.append(tuple(map(str, labels.tolist())))
    return tuple(found)


def element_names(of: xr.DataArray | xr.Dataset) -> list[str]:
    """Return the name of every element, such as ``mu_plant[2]``, in row-major order."""
    import xarray as xr

    if isinstance(of, xr.Dataset):
        return [name for quantity in of.values() for name in element_names(quantity)]
    if of.ndim == len(OF_DRAWS):
        return [str(of.name)]
    return [f"{of.name}[{','.join(each)}]" for each in itertools.product(*labels_of(of))]


def flat(quantity: xr.DataArray) -> NDArray[Any]:
    """Return the draws of all elements of a quantity, shape (chain, draw, element)."""
    values = quantity.values
    return values.reshape(*values.shape[:2], -1)


def stacked(posterior: xr.Dataset) -> NDArray[np.float64]:
    """Return the draws of every element, shape (chain, draw, element)."""
    return np.concatenate([np.asarray(flat(q), float) for q in posterior.values()], axis=2)


def varies(quantity: xr.DataArray) -> NDArray[np.bool_]:
    """Whether each element varies between draws; an element with a NaN counts as varying."""
    values = flat(quantity)
    return np.asarray((values != values[:1, :1]).any((0, 1)))


# The summary


class Rounded(pd.DataFrame):
    """A table that displays rounded numbers, but whose cells hold the exact ones.

    Tables that pandas derives from it are ordinary DataFrames.
    """

    def _shown(self) -> pd.DataFrame:
        """Return the table with its numbers as text."""
        cells = {
            name: [format_cell(str(name), value) for value in column]
            for name, column in self.items()
        }
        return pd.DataFrame(cells, index=self.index)

    @classmethod
    def of(cls, table: pd.DataFrame) -> Rounded:
        """Return a copy of a table, with its attributes."""
        made = cls(table.copy())
        made.attrs = dict(table.attrs)
        return made

    def __repr__(self) -> str:
        return f"{text_table(self).rstrip()}\n{left_out(self)}".rstrip()

    def _repr_html_(self) -> str:
        return str(self._shown()._repr_html_())  # type: ignore[operator]


def summary_columns(interval: float) -> list[str]:
    """Return the column names of a summary with a given interval."""
    of_draws = ("mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")
    return [*interval_quantiles(interval), *of_draws]


def summarize(
    posterior: xr.Dataset,
    missing: Sequence[MissingMoment] = (),
    streamed: pd.DataFrame | None = None,
    interval: float = INTERVAL,
) -> pd.DataFrame:
    """Summarise every element of every quantity.

    Parameters
    ----------
    posterior : Dataset
        The draws.
    missing : sequence of MissingMoment, optional
        Means and variances that the posterior does not have.
    streamed : DataFrame, optional
        Rows for quantities that were summarised during sampling. `posterior` may hold the draws of
        some of their elements.
    interval : float
        Probability of the central interval whose ends are shown; the same as in `streamed`, if
        that is given.

    Returns
    -------
    DataFrame
        A row for each element, such as ``mu_plant[2]``: median, the ends of the interval, mean, sd,
        ``mcse_mean``, ``ess_bulk``, ``ess_tail`` and ``r_hat``. ``attrs["notes"]`` holds sentences
        on moments that do not exist, draws that are not finite, and constant elements. An element
        that is the same in every draw, for example because its type fixes it, has no R-hat and, if
        other elements vary, no ESS.

    Notes
    -----
    R-hat is the rank-normalised split R-hat. R-hat, ``ess_bulk`` and ``ess_tail`` are defined by
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 4 and 10
    and section 4.3; ``mcse_mean`` is sd / sqrt(ESS of the mean).
    """
    quantiles, order = interval_quantiles(interval), summary_columns(interval)
    if not posterior:
        return pd.DataFrame(columns=order)
    names = element_names(posterior)
    columns = statistics(stacked(posterior), list(quantiles.values()))
    rows_of = {str(name): element_names(quantity) for name, quantity in posterior.items()}
    if streamed is not None:
        later = list(map(str, streamed.index))
        by_quantity = itertools.groupby(later, lambda row: row.partition("[")[0])
        rows_of |= {name: list(rows) for name, rows in by_quantity}
        of_draws = ~np.isin(names, later)  # the rows that are summarised from draws
        names = [*itertools.compress(names, of_draws), *later]
        columns = {
            name: np.concatenate([values[of_draws], streamed[name].to_numpy(float)])
            for name, values in columns.items()
        }
    place = {name: row for row, name in enumerate(names)}
    reported = [moment for moment in missing if moment.parameter in rows_of]
    notes = []
    for moment in reported:
        rows = rows_of[moment.parameter]
        subject = moment.parameter
        if moment.elements is not None:
            rows = list(itertools.compress(rows, np.ravel(moment.elements)))
            if not moment.elements.all():
                subject = and_more(rows)
        lacking = ["sd", "mcse_mean"]
        if moment.lacks_mean:
            lacking.append("mean")
        for column in lacking:
            columns[column][[place[row] for row in rows]] = np.nan
        notes.append(f"{subject}: {moment.reason}; use its median")
    fixed = list[str]()
    for quantity in posterior.values():
        elements = element_names(quantity)
        fixed += itertools.compress(elements, ~varies(quantity))
        odd = np.ravel(~np.isfinite(flat(quantity)).all((0, 1)))
        if odd.any():
            found = and_more(list(itertools.compress(elements, odd)))
            notes.append(f"{found}: some draws are missing or infinite")
    fixed = [name for name in fixed if name in place]
    if 0 < len(fixed) < len(names):  # if nothing varies, the sampler is stuck
        columns["ess_bulk"][[place[name] for name in fixed]] = np.nan
        columns["ess_tail"][[place[name] for name in fixed]] = np.nan
        notes.append(f"{and_more(fixed)}: the same in every draw, so ESS and R-hat are undefined")
    # The table is made in one step, because changing a DataFrame column by column takes longer than
    # computing the statistics.
    index = pd.Index(names, name="parameter")
    table = pd.DataFrame({column: columns[column] for column in order}, index=index)
    table.attrs["notes"] = notes
    return table


# Large fits keep the draws of some elements only, as with ``--keep mu_plant[2]``


def without_draws(program: Program) -> Program:
    """Return a program without the capabilities that need all draws."""
    return replace(program, withheld={n: STREAMED for n in NEEDS_ALL_DRAWS if program.can(n)})


def kept_elements(names: Sequence[str], program: Program, data: Data) -> Keep:
    """Return the quantities that are kept, and the positions of the kept elements of each.

    Parameters
    ----------
    names : sequence of str
        Quantities and elements; if there are none, all are kept. Named quantities with the same
        dimension keep the same elements, so that they have the same labels.
    program : Program
        The program, with the quantities.
    data : Data
        The data, with the labels.

    Raises
    ------
    ConfigError
        If the program has no such quantity, or the quantity has no such element.
    """
    if not names:
        return dict.fromkeys(program.kept())
    declared = program.source.blocks.draws
    whole: set[tuple[str, ...]] = set()  # the sizes of quantities that are named as a whole
    places: dict[tuple[str, ...], set[int]] = {}
    wanted = list(dict.fromkeys(name.partition("[")[0] for name in names))
    for name in names:
        variable, bracket, label = name.partition("[")
        if variable not in program.kept():
            known = ", ".join(program.kept())
            raise ConfigError(f"keep {name}: {program.called} has no such quantity; it has {known}")
        sizes = tuple(declared[variable].sizes)
        if bracket:
            position = _position(name, variable, label.removesuffix("]"), program, data)
            places.setdefault(sizes, set()).add(position)
        else:
            whole.add(sizes)
    kept: dict[str, NDArray[np.int64] | None] = dict.fromkeys(wanted)
    for name in wanted:
        sizes = tuple(declared[name].sizes)
        if sizes not in whole:
            kept[name] = np.array(sorted(places[sizes]), np.int64)
    return kept


def _position(name: str, variable: str, label: str, program: Program, data: Data) -> int:
    sizes = program.source.blocks.draws[variable].sizes
    if len(sizes) != 1:
        raise ConfigError(
            f"keep {name}: only elements of vectors can be named; keep all of {variable}"
        )
    if sizes[0] in data.values:
        size = int(data.values[sizes[0]])
    else:
        size = int(sizes[0])
    dims = data.dims.get(variable, ())
    along = labels_along(next(iter(dims), ""), size, data)
    if dims[:1] == (OBS,):  # rows are numbered from 0 in the dataset
        along = along + 1
    labels = along.astype(str).tolist()
    if label not in labels:
        raise ConfigError(
            f"keep {name}: {variable} has no element {label!r}; its elements are {labels[0]} to "
            f"{labels[-1]}"
        )
    return int(labels.index(label))
