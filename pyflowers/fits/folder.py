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
from typing import TYPE_CHECKING, Any, Never

import pandas as pd

from pyflowers.errors import ConfigError, DataError, PyflowersError
from pyflowers.fits import idata
from pyflowers.fits.record import FILE, ProgramRecord, RunRecord, read_record, run_changes
from pyflowers.programs import Program
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.shipped import example_of, python_of
from pyflowers.programs.source import Source
from pyflowers.storage import FolderKind, check_folder, new_folder

if TYPE_CHECKING:
    from pyflowers.fits.fit import Fit

DRAWS = "draws.nc"
_SUMMARY, _DIAGNOSTICS, PLOTS = "summary.csv", "diagnostics.json", "plots"


RUN_FOLDER = FolderKind(
    "run folder", FILE, "run", lambda record: {"format", "options"} <= record.keys()
)


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


def save(fit: Fit, folder: Path, plots: Mapping[str, Any], *, overwrite: bool) -> None:
    """Write a run folder, which appears whole or not at all; see ``Fit.save``.

    Raises
    ------
    ConfigError
        If the folder holds something else or a run of other inputs, or cannot be written.
    """
    record = fit.record.model_copy(update={"omitted_groups": fit.omitted_groups})
    verdict = json.dumps(fit.verdict.to_dict(), indent=2, ensure_ascii=False)
    draws = idata.to_bytes(fit.groups())
    with new_folder(folder, RUN_FOLDER) as new:
        (new / DRAWS).write_bytes(draws)
        fit.summary().to_csv(new / _SUMMARY, index_label="parameter")
        (new / _DIAGNOSTICS).write_text(verdict + "\n", encoding="utf-8")
        (new / FILE).write_text(record.to_json(), encoding="utf-8")
        (new / PLOTS).mkdir()
        for name, figure in plots.items():
            if isinstance(figure, bytes):
                (new / PLOTS / name).write_bytes(figure)
            else:
                figure.savefig(new / PLOTS / name, dpi=150)
        if not overwrite:  # asked last: another process may have written a run meanwhile
            refuse_other_run(folder, record)


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
    declaration = Declaration.parse(about.declaration, where, DataError, "fit again")
    try:
        return _program(about, declaration, where)
    except ConfigError as error:  # it does not fit the text, as after an edit by hand
        raise DataError(f"{error}; fit again") from error


def _program(about: ProgramRecord, declaration: Declaration, where: str) -> Program:
    return Program(
        Source(Path(about.path), {name: text.encode() for name, text in about.files.items()}),
        declaration,
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
