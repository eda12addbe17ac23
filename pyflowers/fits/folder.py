"""A run folder: the inputs and results of a fit, and their record.

draws.nc          InferenceData
chains.nc         the last states of the chains, with their step sizes and metrics
summary.csv       the summary table
diagnostics.json  the verdict: computation, prior and data, with every check
run.json          the record: program and data digests, engine, seed, options, versions, times
plots/            figures
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, Never

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, field_serializer

from pyflowers.advice import worded
from pyflowers.digests import digest_of
from pyflowers.display import INTERVAL
from pyflowers.engines import SamplerOptions
from pyflowers.engines.base import ESTIMATED
from pyflowers.errors import CompileError, ConfigError, DataError, PyflowersError
from pyflowers.fits.key import EngineRecord, Key, value_changes
from pyflowers.fits.posterior import summary_columns
from pyflowers.fits.verdict import Status
from pyflowers.programs import Program
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.find import example_of
from pyflowers.programs.program import is_formula
from pyflowers.programs.shipped import python_of
from pyflowers.programs.source import Source
from pyflowers.records import Record
from pyflowers.resources import version
from pyflowers.storage import (
    LARGEST_RECORD,
    FolderKind,
    check_folder,
    leftovers,
    open_file,
    read_bytes,
    record_digest,
    recover,
)
from pyflowers.text import nearest

FORMAT = 2
"""Version of the run folder's layout."""

FILE = "run.json"

_PACKAGES = ("arviz", "cmdstanpy", "numpy", "pandas", "pyflowers", "scipy", "stanli", "xarray")
DRAWS, CHAINS = "draws.nc", "chains.nc"
SUMMARY, DIAGNOSTICS, PLOTS = "summary.csv", "diagnostics.json", "plots"

_LARGEST_FILE = 32_000_000_000
"""The size, in bytes, above which ``draws.nc`` or ``summary.csv`` is not read."""

_PAUSES = (0.01, 0.03, 0.1, 0.3, 0.3)
"""Seconds to wait after each attempt to read a run that another process may be replacing."""

RUN_FOLDER = FolderKind(
    "run folder", FILE, "run", lambda record: {"format", "options"} <= record.keys()
)


class ProgramRecord(Record):
    """The program: how to reopen it, and its text at the time of the fit.

    Attributes
    ----------
    name : str
        The program's name.
    reference : str
        The name of a shipped program, a path or a formula.
    path : str
        The ``.stan`` file.
    sha256 : str
        Digest of the text of the program and of the files that it includes.
    declaration : mapping
        The contents of the program's declaration.
    include_paths : tuple of str
        Folders that were searched for included files.
    files : mapping of str to str
        The text of the program, then of the files that it includes.
    """

    name: str
    reference: str
    path: str
    sha256: str
    declaration: dict[str, Any]
    include_paths: tuple[str, ...] = ()
    files: Annotated[dict[str, str], Field(min_length=1)]


class DataRecord(Record):
    """The data: their origin, their digest, and how they were read.

    Attributes
    ----------
    source : str or None
        Origin of the data: a path, ``the data frame`` or ``the mapping``; None without data.
    sha256 : str
        Digest of the table's columns that were read, or of the JSON file or the mapping.
    rows : int or None
        Number of rows of the table.
    columns : mapping of str to str
        The table's name for each of the declaration's columns.
    cells : mapping of str to str
        Digest of each column of the table that was read.
    variables : mapping of str to str
        Digest of each variable of the data block, without priors and parametrisation.
    reading : mapping of str to str
        The reading options that differ from the default, such as ``sep``.
    levels : mapping of str to tuple of str
        The levels, in order, of the response and of covariates that are factors, unless the
        program's declaration has them.
    ordered : tuple of str
        The columns among them whose levels have an order, as in an ordered Categorical.
    """

    source: str | None
    sha256: str
    rows: int | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    cells: dict[str, str] = Field(default_factory=dict)
    variables: dict[str, str] = Field(default_factory=dict)
    reading: dict[str, str] = Field(default_factory=dict)
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    ordered: tuple[str, ...] = ()


class TimesRecord(Record):
    """Run times of the fit in seconds.

    Attributes
    ----------
    wall_seconds : float
        Total elapsed time of sampling.
    chains : tuple of mapping
        Times of each chain: ``warmup``, ``sampling`` and ``total``; empty without Markov chains.
    """

    model_config = ConfigDict(**{**Record.model_config, "allow_inf_nan": True})
    wall_seconds: float
    chains: tuple[dict[str, float], ...] = ()


class StartRecord(Record):
    """The fit from whose last states the chains started, and their warm-up.

    Attributes
    ----------
    fit : str
        The run folder of that fit, or its model if it was not saved. The states are kept in
        ``chains.nc`` of this run.
    warmup : int
        The number of warm-up iterations, at most the number in the options.
    """

    fit: str
    warmup: int


class Trial(Record):
    """A remedy for failed sampling, and the result of trying it.

    Attributes
    ----------
    change : mapping
        The inputs of the refit that differ from the fit's inputs.
    status : str
        The status of the refit's diagnostics: ``passed``, ``imprecise`` or ``failed``.
    result : str
        The diagnostics that do not pass, or a statement that all pass.
    """

    change: dict[str, Any]
    status: Status
    result: str


class RunRecord(Record):
    """Everything that is needed to understand and repeat a fit.

    Attributes
    ----------
    format : int
        Version of the run folder's layout.
    program, data, engine, times : table
        See the section with this name.
    options : table
        The sampler's options, as in an experiment file.
    priors : mapping
        The hyperparameters that were used.
    centered : bool or mapping or None
        The parametrisation that was used, by group if each group has its own choice; None if the
        program offers none or the engine does not use it.
    inits : value
        Initial values as they were given.
    inits_sha256 : str
        Digest of the initial values, read from a file if they were given as one.
    start : table or None
        The fit from whose last states the chains started, if there is one.
    notes : tuple of str
        Caveats that apply to the fit.
    messages : mapping of str to int, or None
        Stan's messages for rejected proposals, each with its count; None if the engine does not
        report them.
    independent : mapping of str to float, or None
        The sampler's measurements, if the draws do not come from Markov chains; None otherwise.
    weighted : bool
        Whether the draws are weighted points, resampled by their weights, as for formulas with the
        engine ``exact``.
    metric_held : bool or None
        Whether an estimated metric was held: pilot runs agreed, or a Laplace approximation was
        found; None for other metrics.
    streamed : bool
        Whether some quantities were summarised during sampling. For these quantities, only the
        draws of elements named in ``options.keep`` were kept.
    interval : float
        Probability of the intervals that tables and figures of the fit show.
    trials : tuple of table
        The remedies for failed sampling that were tried.
    name : str
        The name of the fit in tables and reports; empty if it is called by its formula or
        program.
    packages : mapping of str to str
        Versions of the packages on which a fit depends.
    omitted_groups : tuple of str
        Groups of the InferenceData that are left out, because they are too large or depend on
        draws that were not kept.
    files : mapping of str to str
        The SHA-256 digest of each file by its path in the run folder; an empty string for an empty
        folder. The digest of ``run.json`` is computed without its own entry. In runs of earlier
        versions, a list of the files.
    """

    format: Literal[2] = 2
    program: ProgramRecord
    data: DataRecord
    engine: EngineRecord
    options: SamplerOptions
    priors: dict[str, Annotated[float, Field(strict=True)]] = Field(default_factory=dict)
    centered: bool | dict[str, bool] | None = None
    inits: Any = None
    inits_sha256: str = ""
    start: StartRecord | None = None
    notes: tuple[str, ...] = ()
    messages: dict[str, int] | None = None
    times: TimesRecord
    independent: dict[str, Annotated[float, Field(strict=True)]] | None = None
    weighted: bool = False
    metric_held: bool | None = None
    streamed: bool = False
    interval: Annotated[float, Field(gt=0, lt=1)] = INTERVAL
    trials: tuple[Trial, ...] = ()
    name: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    omitted_groups: tuple[str, ...] = ()
    files: dict[str, str] | tuple[str, ...] = Field(default_factory=dict)

    @field_serializer("options")
    def _used(self, options: SamplerOptions) -> dict[str, Any]:
        """Write only the options that the engine uses."""
        return options.model_dump(mode="json", exclude_unset=True)

    @property
    def key(self) -> Key:
        """Everything that determines the draws."""
        engine = self.engine
        if self.options.metric in ESTIMATED:  # by pyflowers' code, not the engine's
            own = {"pyflowers": self.packages.get("pyflowers", "")}
            engine = engine.model_copy(update={"versions": {**engine.versions, **own}})
        return Key(
            program=self.program.name,
            path=self.program.path,
            text=self.program.sha256,
            declaration=digest_of(self.program.declaration),
            columns=self.data.cells,
            variables=self.data.variables,
            priors=self.priors,
            centered=self.centered,
            engine=engine,
            options=self.options.model_dump(mode="json", exclude_unset=True),
            inits=self.inits_sha256,
        )

    def to_json(self) -> str:
        """Return the record as the text of ``run.json``."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class SavedRun:
    """The contents of a run folder, which were written together.

    Attributes
    ----------
    folder : Path
        The run folder.
    record : RunRecord
        Its record.
    draws : file
        ``draws.nc``, open.
    summary : bytes
        ``summary.csv`` if the run was streamed. Other runs compute it from the draws.
    chains : bytes
        ``chains.nc``, which runs without chains and runs of earlier versions do not have.
    """

    folder: Path
    record: RunRecord
    draws: BufferedReader
    summary: bytes = b""
    chains: bytes = b""


@contextmanager
def reading_run(folder: Path) -> Iterator[SavedRun]:
    """Open a run folder, and check that its files were written with its record.

    A file that is open remains the same file when another process replaces the run.

    Raises
    ------
    DataError
        If a file is missing, damaged or replaced.
    """
    run = _opened(folder)
    with run.draws:
        yield run


def _opened(folder: Path) -> SavedRun:
    """Return the contents of a run folder, with the file of its draws open."""
    before = None
    for pause in _PAUSES:
        record = read_record(folder)
        try:
            summary = chains = b""
            if record.streamed:
                with _open_file(folder / SUMMARY, record) as file:
                    summary = file.read()
            if CHAINS in record.files:
                with _open_file(folder / CHAINS, record) as file:
                    chains = file.read()
            return SavedRun(folder, record, _open_file(folder / DRAWS, record), summary, chains)
        except DataError as error:
            failed = error
        if record == before:
            break
        before = record  # another process may have replaced the run after the record was read
        time.sleep(pause)
    raise failed


def _open_file(path: Path, record: RunRecord) -> BufferedReader:
    """Open a file of a run folder; reject it if its digest is not the one in the record."""
    what = f"{path}: the {path.stem} cannot be read"
    try:
        file = open_file(path, _LARGEST_FILE)
        found = file_digest(file, "sha256").hexdigest()
        file.seek(0)
    except OSError as error:
        raise DataError(f"{what} ({error.strerror or error}); refit the model") from error
    # An early version wrote no digests.
    if isinstance(record.files, dict) and found != record.files.get(path.name):
        file.close()
        raise DataError(
            f"{what} (it does not have the digest that {FILE} gives, so one of the two was changed "
            "after the run was written); restore both from a copy, or refit the model"
        )
    return file


def read_record(folder: Path) -> RunRecord:
    """Read the record of a run folder.

    Raises
    ------
    DataError
        If the record is missing, damaged, or written by another version.
    """
    path = folder / FILE
    try:
        values = json.loads(_record_bytes(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if os.path.lexists(path):
            raise DataError(
                f"{path} cannot be read ({reason}); check its permissions, or refit the model"
            ) from error
        raise DataError(_no_run(folder)) from error
    found = values.get("format") if isinstance(values, Mapping) else None
    if found != FORMAT:
        raise DataError(
            f"{path} has format {found!r}, but this version of pyflowers reads format {FORMAT}; "
            "refit the model"
        )
    record = RunRecord.parse(values, str(path), DataError, "refit the model")
    if isinstance(record.files, dict) and record_digest(values, FILE) != record.files.get(FILE):
        raise DataError(
            f"{path} was changed after the run was written (its digest is not the one that it "
            "records); restore it from a copy, or refit the model"
        )
    return record


def _no_run(folder: Path) -> str:
    """Return the message for a folder that holds no run; it suggests a run that may be meant."""
    runs, is_there = list[str](), False
    with suppress(OSError, ValueError):  # the name may be one that no file can have
        is_there = folder.exists()
        runs = [each.parent.name for each in folder.parent.glob(f"*/{FILE}")]
    near = nearest(folder.name, runs)
    remedy = "name a folder that pyflowers fit wrote"
    if near is not None:
        remedy = f"did you mean {folder.with_name(near)}?"
    if not is_there:
        return f"there is no folder {folder}; {remedy}"
    inside = sorted(each.parent.name for each in folder.glob(f"*/{FILE}"))
    if inside:
        remedy = f"name one of the runs in it, such as {folder / inside[0]}"
    return f"{folder} is not a run folder, as it has no {FILE}; {remedy}"


def _record_bytes(path: Path) -> bytes:
    """Read ``run.json``, which is absent for a moment while a process replaces the run."""
    parent = path.parent.resolve().parent
    for pause in _PAUSES:
        with suppress(FileNotFoundError):
            return read_bytes(path, LARGEST_RECORD)
        if not leftovers(parent):
            break
        recover(parent)  # the process may have been killed
        time.sleep(pause)
    return read_bytes(path, LARGEST_RECORD)


def run_changes(before: RunRecord, now: RunRecord) -> list[str]:
    """Describe how the inputs of two runs differ; return an empty list if they do not."""
    if now.data.variables and not before.data.variables:
        version = before.packages.get("pyflowers", "an earlier version")
        return [f"it was written by pyflowers {version}, which recorded no digests of the inputs"]
    found = now.key.changes_since(before.key)
    if before.streamed:  # quantities summarised during sampling keep their interval
        found += value_changes("", {"interval": before.interval}, {"interval": now.interval})
    return found


def package_versions() -> dict[str, str]:
    """Return the versions of the packages on which a fit depends."""
    return {package: version(package) for package in _PACKAGES}


def plain_inits(inits: Any) -> Any:
    """Return initial values as JSON types, in the form in which they were given."""
    if isinstance(inits, Mapping):
        return {str(name): np.asarray(value).tolist() for name, value in inits.items()}
    if isinstance(inits, list | tuple):
        return [plain_inits(each) for each in inits]
    if inits is None or isinstance(inits, int | float):
        return inits
    return str(inits)


# The folder


def check_run_folder(folder: str | Path) -> Path:
    """Reject a folder that cannot hold a run, before any work is done; return its real path.

    Raises
    ------
    ConfigError
        If it is a file, holds files that pyflowers did not write, or cannot be written.
    """
    return check_folder(folder, RUN_FOLDER)


def default_folder(program: Program, name: str | None) -> Path:
    """Return the run folder of a fit for which none is given: ``runs/NAME``."""
    return Path("runs", name or program.source.safe_name)


def refuse_other_run(folder: str | Path, now: RunRecord) -> None:
    """Raise an error if a folder holds a run with other inputs, and therefore other draws.

    Raises
    ------
    ConfigError
        If the folder holds such a run, or one that cannot be read.
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
    """Raise the error that states which inputs of a run have changed.

    Raises
    ------
    ConfigError
        Always.
    """
    raise ConfigError(
        f"run folder {folder} holds another run ({'; '.join(changes)}); name another folder, "
        + worded("or replace that run with --overwrite")
    )


def summary_of(run: SavedRun) -> pd.DataFrame:
    """Return the summary table of a streamed run.

    Raises
    ------
    DataError
        If it is damaged, or is not a summary with the run's interval.
    """
    path = run.folder / SUMMARY
    try:
        # The table is read as text first, because Python's conversion always recovers the double
        # that was written.
        text = pd.read_csv(BytesIO(run.summary), dtype=str, keep_default_na=False, na_values=[""])
    except ValueError as error:
        raise DataError(f"{path}: the summary cannot be read ({error}); refit the model") from error
    expected = ["parameter", *summary_columns(run.record.interval)]
    if list(text.columns) != expected:
        raise DataError(
            f"{path}: the columns of the summary are {', '.join(map(str, text.columns))}, but must "
            f"be {', '.join(expected)}; restore it from a copy, or refit the model"
        )
    table = text.set_index("parameter")
    repeated = table.index[table.index.duplicated() | table.index.isna()]
    if len(repeated):
        raise DataError(
            f"{path}: the summary has more than one row, or none, for {repeated[0]}; restore it "
            "from a copy, or refit the model"
        )
    try:
        return table.astype(float)
    except ValueError as error:
        raise DataError(f"{path}: the summary cannot be read ({error}); refit the model") from error


def program_of(record: RunRecord, folder: Path) -> Program:
    """Return the program of a run, with its text and declaration at the time of the run.

    The program has the Python capabilities of the shipped program with this name, or of its
    formula. The record does not hold the capabilities of other programs.

    Raises
    ------
    DataError
        If the record's declaration is damaged or does not match the program.
    """
    about = record.program
    where = f"{folder / FILE}: program.declaration"
    declaration = Declaration.parse(about.declaration, where, DataError, "refit the model")
    try:
        return Program(
            Source(
                Path(about.path),
                {name: text.encode("utf-8", "replace") for name, text in about.files.items()},
                about.reference if is_formula(about.reference) else "",
            ),
            declaration,
            where,
            about.reference,
            tuple(map(Path, about.include_paths)),
            python_of(about.reference),
            example_of(about.reference),
        )
    except ConfigError as error:  # the declaration does not match, perhaps after an edit
        raise DataError(f"{error}; refit the model") from error
    except CompileError as error:
        raise DataError(f"{folder / FILE}: program.files: {error}; refit the model") from error


def declared_now(
    program: Program, record: RunRecord, draws: Collection[str]
) -> tuple[Program, RunRecord]:
    """Return the program and record of a run, with roles and parameters as they are declared now.

    Roles and parameters only describe the draws, so no refit is needed if the program's text is
    the same.

    Parameters
    ----------
    program : Program
        The program, as :func:`program_of` returns it.
    record : RunRecord
        The record.
    draws : collection of str
        The quantities for which the run has draws.
    """
    try:
        now = Program.open(program.path, include_paths=program.include_paths)
    except PyflowersError:  # the file is gone, or is being edited
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
