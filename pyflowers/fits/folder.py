"""A run folder: the inputs and results of a fit.

draws.nc          InferenceData
summary.csv       the summary table
diagnostics.json  the verdict: computation, prior and data, with every check
run.json          program and data digests, engine, seed, every option, versions, times
plots/            figures
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Never

import pandas as pd

from pyflowers.errors import ConfigError, DataError, PyflowersError
from pyflowers.fits.record import FILE, RunRecord, read_record, run_changes
from pyflowers.fits.verdict import Verdict
from pyflowers.programs import Program
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.shipped import example_of, python_of
from pyflowers.programs.source import Source
from pyflowers.storage import FolderKind, check_folder, new_folder

DRAWS = "draws.nc"
_SUMMARY, _DIAGNOSTICS, PLOTS = "summary.csv", "diagnostics.json", "plots"


class RunFolder(NamedTuple):
    """What a run folder holds besides its plots."""

    draws: bytes
    summary: pd.DataFrame
    verdict: Verdict
    record: RunRecord


def _is_run(record: Mapping[str, Any]) -> bool:
    return "format" in record and "options" in record


def _files_of_format_1(folder: Path) -> Sequence[str]:
    """Name the files of a folder of pyflowers 0.1, whose run.json did not list them."""
    names = ("trace_first_chain", "trace", "pairs", "ranks")
    plots = [f"{PLOTS}/{name}.{suffix}" for name in names for suffix in ("png", "svg", "pdf")]
    return [DRAWS, _SUMMARY, _DIAGNOSTICS, FILE, *plots]


RUN_FOLDER = FolderKind("run folder", FILE, "run", _is_run, _files_of_format_1)


def check_run_folder(folder: str | Path) -> Path:
    """Refuse, before any work is done, a folder that cannot take a run; return its real path.

    Raises
    ------
    ConfigError
        If it is a file, holds files that pyflowers did not write, or cannot be written.
    """
    return check_folder(folder, RUN_FOLDER)


def refuse_other_run(folder: str | Path, now: RunRecord) -> None:
    """Refuse to replace a run unless the inputs are the same, which makes the same draws again.

    Raises
    ------
    ConfigError
        If the folder holds another run, or one that cannot be read.
    """
    target = Path(os.path.realpath(folder))
    if not (target / FILE).is_file():
        return
    try:
        changes = run_changes(read_record(target), now)
    except DataError:
        changes = ["it cannot be read"]
    if changes:
        refuse_to_replace(folder, changes)


def refuse_to_replace(folder: str | Path, changes: Sequence[str]) -> Never:
    """Refuse to replace a run, because the inputs have changed as described.

    Raises
    ------
    ConfigError
        Always.
    """
    raise ConfigError(
        f"run folder {folder}: it holds another run ({'; '.join(changes)}); name another folder, "
        "or replace that run with --overwrite (in Python, overwrite=True)"
    )


def save(
    run: RunFolder,
    folder: Path,
    plots: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a run folder, which appears whole or not at all.

    Parameters
    ----------
    run : Run
        What to write.
    folder : Path
        Where to write.
    plots : mapping of str to matplotlib.figure.Figure or bytes, optional
        Figures, or images, by file name, such as ``trace.png``.
    overwrite : bool
        Whether to replace a run of other inputs.

    Raises
    ------
    ConfigError
        If the folder holds something else or a run of other inputs, or cannot be written.
    """
    with new_folder(folder, RUN_FOLDER) as new:
        (new / DRAWS).write_bytes(run.draws)
        run.summary.to_csv(new / _SUMMARY, index_label="parameter")
        text = json.dumps(run.verdict.to_dict(), indent=2, ensure_ascii=False)
        (new / _DIAGNOSTICS).write_text(text + "\n", encoding="utf-8")
        (new / FILE).write_text(run.record.to_json(), encoding="utf-8")
        (new / PLOTS).mkdir()
        for name, figure in (plots or {}).items():
            if isinstance(figure, bytes):
                (new / PLOTS / name).write_bytes(figure)
            else:
                figure.savefig(new / PLOTS / name, dpi=150)
        if not overwrite:  # asked last: another process may have written a run meanwhile
            refuse_other_run(folder, run.record)
    return folder


def read_summary(folder: Path) -> pd.DataFrame:
    """Read the summary table of a run folder.

    Raises
    ------
    DataError
        If there is none, or it is damaged.
    """
    path = folder / _SUMMARY
    try:
        # As text first: Python reads back the double that was written, whatever pandas does.
        return pd.read_csv(path, index_col="parameter", dtype=str).astype(float)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: the summary cannot be read ({error}); fit again") from error


def program_of(record: RunRecord, folder: Path) -> Program:
    """Return the program of a run as it was then, its text and its declaration.

    What it can do in Python is that of the shipped program of its name, if it is one.

    Raises
    ------
    DataError
        If the record's declaration is damaged.
    """
    about = record.program
    where = f"{folder / FILE}: program.declaration"
    return Program(
        Source(Path(about.path), {name: text.encode() for name, text in about.files.items()}),
        Declaration.parse(about.declaration, where, DataError, "fit again"),
        where,
        about.reference,
        tuple(map(Path, about.include_paths)),
        python_of(about.reference),
        example_of(about.reference),
    )


def declared_now(
    program: Program, record: RunRecord, draws: Collection[str]
) -> tuple[Program, RunRecord]:
    """Return a run's program and record with the roles and parameters that were declared since.

    They say what the draws mean, and need no new ones, as long as the program's text is the same.

    Parameters
    ----------
    program : Program
        As :func:`program_of` returns it.
    record : RunRecord
        The record.
    draws : collection of str
        The quantities that the run has.
    """
    try:
        now = Program.open(program.path, include_paths=program.include_paths)
    except PyflowersError:  # it is gone, or is being edited
        return program, record
    if now.source.sha256 != record.program.sha256:
        return program, record
    then, there = program.declaration, {*program.source.blocks.data, *draws}
    given = now.declaration.roles.model_dump(exclude_unset=True)
    roles = {role: name for role, name in given.items() if name in there}
    declared = then.model_copy(
        update={
            "roles": then.roles.model_copy(update=roles),
            "parameters": {**then.parameters, **now.declaration.parameters},
        }
    )
    kept = declared.model_dump(mode="json", exclude_defaults=True)
    about = record.program.model_copy(update={"declaration": kept})
    return replace(program, declaration=declared), record.model_copy(update={"program": about})


__all__ = [
    "DRAWS",
    "RUN_FOLDER",
    "RunFolder",
    "check_run_folder",
    "declared_now",
    "program_of",
    "read_summary",
    "refuse_other_run",
    "refuse_to_replace",
    "save",
]
