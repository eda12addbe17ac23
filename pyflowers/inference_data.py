"""Draws and data as ArviZ ``InferenceData``: the one place that knows ArviZ's format.

Groups: ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data`` and, on demand,
``log_likelihood`` and ``posterior_predictive``. Dimensions are ``chain``, ``draw``, ``plant``,
``month`` and ``obs``; their labels are the user's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.data import Columns, FlowerData
from pyflowers.errors import DataError
from pyflowers.models import Model
from pyflowers.sampling import Sample

if TYPE_CHECKING:
    import xarray as xr

InferenceData = Any
"""``arviz.InferenceData``, which is imported only when needed."""

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

_WHOLE_STATS = {"tree_depth", "n_steps"}
_USER_GROUPS = {"log_lik": "log_likelihood", "y_rep": "posterior_predictive"}


def arviz() -> Any:
    """Import ArviZ without the one notice that its 0.23 gives of its own future."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\nArviZ is undergoing", FutureWarning)
        import arviz
    return arviz


def from_model(sample: Sample, model: Model, data: FlowerData, priors: Mapping[str, float]) -> Any:
    """Label a sample of one of our models.

    Parameters
    ----------
    sample : Sample
        What the sampler wrote.
    model : Model
        Says which variables to keep and what their dimensions are.
    data : FlowerData
        Gives the labels and the observed and constant data.
    priors : mapping
        Hyperparameters, kept in ``constant_data``.
    """
    import xarray as xr

    posterior = {
        parameter.name: (("chain", "draw", *parameter.dims), sample.draws[parameter.name])
        for parameter in model.parameters
    }
    num_chains, num_draws = sample.draws[model.parameters[0].name].shape[:2]
    coords: dict[str, Any] = {"chain": np.arange(num_chains), "draw": np.arange(num_draws)}
    if any("plant" in parameter.dims for parameter in model.parameters):
        coords["plant"] = _text(data.plants)
    return arviz().InferenceData(
        posterior=xr.Dataset(posterior, coords),
        sample_stats=_stats(sample),
        observed_data=xr.Dataset({"y": ("obs", data.y)}, obs_coords(data)),
        constant_data=_constant_data(data, priors),
    )


def from_program(sample: Sample, info: Mapping[str, Any]) -> Any:
    """Label a sample of a user's own program by what ``stanc --info`` says of it.

    Variables called ``log_lik`` and ``y_rep`` go to the groups where ArviZ looks for them.
    """
    import xarray as xr

    declared = {**info.get("parameters", {}), **info.get("transformed parameters", {})}
    declared |= info.get("generated quantities", {})
    groups: dict[str, Any] = {"posterior": {}}
    for name, values in sample.draws.items():
        group = _USER_GROUPS.get(name, "posterior")
        dims = [f"{name}_dim_{i}" for i in range(values.ndim - 2)]
        whole = declared.get(name, {}).get("type") == "int"
        array = values.astype(np.int64) if whole else values
        groups.setdefault(group, {})["y" if group != "posterior" else name] = (
            ("chain", "draw", *dims),
            array,
        )
    datasets = {name: xr.Dataset(variables) for name, variables in groups.items()}
    for name, dataset in datasets.items():
        datasets[name] = dataset.assign_coords(
            {dim: np.arange(size) for dim, size in dataset.sizes.items()}
        )
    return arviz().InferenceData(**datasets, sample_stats=_stats(sample))


def add_group(idata: Any, group: str, values: NDArray[Any], data: FlowerData) -> None:
    """Add ``log_likelihood`` or ``posterior_predictive``, values shaped (chain, draw, N)."""
    import xarray as xr

    posterior = idata.posterior
    coords = {"chain": posterior.chain, "draw": posterior.draw, **obs_coords(data)}
    dataset = xr.Dataset({"y": (("chain", "draw", "obs"), values)}, coords)
    idata.add_groups({group: dataset}, warn_on_custom_groups=True)


def obs_coords(data: FlowerData) -> dict[str, Any]:
    """Return the coordinates of ``obs``: its number, and which plant and month it is."""
    return {
        "obs": np.arange(data.num_obs),
        "plant": ("obs", _text(np.asarray(data.plants, dtype=object)[data.plant])),
        "month": ("obs", _text(np.asarray(data.months, dtype=object)[data.month])),
    }


def to_flower_data(idata: Any) -> FlowerData:
    """Rebuild the data of a fit from what is kept with its draws."""
    constant = idata.constant_data
    columns = Columns(*(str(constant.attrs[f"{field}_column"]) for field in Columns._fields))
    return FlowerData(
        y=np.asarray(idata.observed_data["y"].values, dtype=np.float64),
        plant=np.asarray(constant["plant_index"].values, dtype=np.int64),
        month=np.asarray(constant["month_index"].values, dtype=np.int64),
        plants=tuple(map(str, constant["plant"].values)),
        months=tuple(map(str, constant["month"].values)),
        columns=columns,
        source=str(constant.attrs["source"]),
        rows=np.asarray(constant["row"].values, dtype=np.int64),
    )


def write(idata: Any, path: Path) -> None:
    """Write InferenceData to a netCDF file."""
    idata.to_netcdf(str(path))


def read(path: Path) -> Any:
    """Read InferenceData from a netCDF file and close the file.

    Raises
    ------
    DataError
        If the file is none that ArviZ reads.
    """
    az = arviz()
    try:
        with az.rc_context({"data.load": "eager"}):
            return az.from_netcdf(str(path))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: no draws can be read from it ({error}); fit again") from error


def _constant_data(data: FlowerData, priors: Mapping[str, float]) -> xr.Dataset:
    import xarray as xr

    attrs = {f"{field}_column": name for field, name in data.columns._asdict().items()}
    variables: dict[str, Any] = {name: ((), value) for name, value in priors.items()}
    variables |= {
        "plant_index": ("obs", data.plant),
        "month_index": ("obs", data.month),
        "row": ("obs", data.rows),
    }
    coords = {
        "obs": np.arange(data.num_obs),
        "plant": _text(data.plants),
        "month": _text(data.months),
    }
    return xr.Dataset(variables, coords, {**attrs, "source": data.source})


def _stats(sample: Sample) -> xr.Dataset:
    import xarray as xr

    variables = {}
    for stan_name, values in sample.stats.items():
        name = STAT_NAMES.get(stan_name, stan_name.rstrip("_"))
        if name == "diverging":
            values = values.astype(bool)
        elif name in _WHOLE_STATS:
            values = values.astype(np.int64)
        variables[name] = (("chain", "draw"), values)
    shape = next(iter(sample.stats.values())).shape
    return xr.Dataset(variables, {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])})


def _text(labels: Any) -> NDArray[Any]:
    """Return labels as an array of text, which netCDF keeps for any Unicode."""
    return np.asarray(list(labels), dtype=np.str_)
