"""A run folder: what went in and what came out.

draws.nc          InferenceData
summary.csv       the summary table
diagnostics.json  every check of the verdict
run.json          model, program and data digests, seed, every option, versions, times
plots/            figures
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pyflowers import inference_data
from pyflowers.diagnostics import Verdict
from pyflowers.errors import ConfigError, DataError

FORMAT = 1
"""Version of the run folder's layout."""


class Run(NamedTuple):
    """What a run folder holds besides its plots."""

    idata: Any
    summary: pd.DataFrame
    verdict: Verdict
    record: Mapping[str, Any]


def check_folder(folder: Path) -> None:
    """Refuse, before any work is done, a folder that holds something else.

    Raises
    ------
    ConfigError
        If `folder` is a file, or a folder with files that are no run.
    """
    if folder.is_file():
        raise ConfigError(f"run folder {folder}: it is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "run.json").is_file():
        raise ConfigError(
            f"run folder {folder}: it holds something that is no run; name a new folder"
        )


def save(run: Run, folder: Path, plots: Mapping[str, Any] | None = None) -> Path:
    """Write a run folder, which appears whole or not at all; an earlier run in it is replaced.

    Parameters
    ----------
    run : Run
        What to write.
    folder : Path
        Where to.
    plots : mapping of str to matplotlib.figure.Figure, optional
        Figures by file name, such as ``trace.png``.

    Raises
    ------
    ConfigError
        If the folder holds something else, or cannot be written.
    """
    check_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _write(run, staging, plots or {})
            staging.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            staging.replace(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            f"run folder {folder}: it cannot be written ({error.strerror or error}); name another"
        ) from error
    return folder


def load_draws(folder: Path) -> Any:
    """Read the draws of a run folder as InferenceData.

    Raises
    ------
    DataError
        If they cannot be read.
    """
    return inference_data.read(folder / "draws.nc")


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``run.json`` alone.

    Raises
    ------
    DataError
        If there is none, or one that another version wrote.
    """
    path = folder / "run.json"
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder}: it is no run folder ({error}); name one that has run.json"
        ) from error
    if record.get("format") != FORMAT:
        raise DataError(
            f"{path}: its format is {record.get('format')!r} and this pyflowers reads {FORMAT}; "
            "fit again"
        )
    return record


def _write(run: Run, folder: Path, plots: Mapping[str, Any]) -> None:
    inference_data.write(run.idata, folder / "draws.nc")
    run.summary.to_csv(folder / "summary.csv", index_label="parameter")
    _write_json(run.verdict.to_dict(), folder / "diagnostics.json")
    _write_json({"format": FORMAT, **run.record}, folder / "run.json")
    (folder / "plots").mkdir()
    for name, figure in plots.items():
        figure.savefig(folder / "plots" / name, dpi=150)


def _write_json(values: Mapping[str, Any], path: Path) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
