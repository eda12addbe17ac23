"""The folder of ``pyflowers prior``.

draws.nc        InferenceData: prior, prior_predictive, constant_data
parameters.csv  quantiles of every parameter
implied.csv     quantiles of the statistics of the implied data
prior.json      program, hyperparameters, seed, what drew
plots/          figures
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflowers.analysis.priors import PriorPredictive
from pyflowers.fits import idata as inference_data
from pyflowers.storage import FolderKind, new_folder

if TYPE_CHECKING:
    import xarray as xr


def _is_own(record: Mapping[str, Any]) -> bool:
    return {"prior_of", "seed"} <= record.keys()


PRIOR_FOLDER = FolderKind("--out", "prior.json", "prior", _is_own)


def save_prior(
    prior: PriorPredictive, folder: str | Path, plots: Mapping[str, Any] | None = None
) -> Path:
    """Write the draws and their tables.

    Parameters
    ----------
    prior : PriorPredictive
        What to write.
    folder : str or Path
        Where to; what an earlier ``pyflowers prior`` wrote there is replaced.
    plots : mapping of str to matplotlib.figure.Figure, optional
        Figures by file name.

    Raises
    ------
    ConfigError
        If the folder holds something else, or cannot be written.
    """
    record = {
        "prior_of": prior.name,
        "program_sha256": prior.program.source.sha256,
        "design": prior.data.source,
        "priors": dict(prior.priors),
        "seed": prior.seed,
        "drawn_by": prior.drawn_by,
        "notes": list(prior.notes),
    }
    with new_folder(folder, PRIOR_FOLDER) as new:
        (new / "draws.nc").write_bytes(inference_data.to_bytes(groups(prior)))
        prior.summary().to_csv(new / "parameters.csv")
        prior.implied().to_csv(new / "implied.csv")
        (new / "prior.json").write_text(json.dumps(record), encoding="utf-8")
        (new / "plots").mkdir()
        for name, figure in (plots or {}).items():
            figure.savefig(new / "plots" / name, dpi=150)
    return Path(folder)


def groups(prior: PriorPredictive) -> dict[str, xr.Dataset]:
    """Return the draws as the groups of an ``InferenceData``."""
    found = inference_data.to_groups(prior.program, prior.data, {}, {})
    made = {"prior": prior.parameters, "constant_data": found["constant_data"]}
    if prior.y_rep is not None and prior.data.num_obs:
        made["prior_predictive"] = inference_data.pointwise(prior.y_rep, prior.data)
    return made
