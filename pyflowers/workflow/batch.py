"""A batch as one small TOML file: programs, tables, variants, and the tables to keep.

The tasks are all combinations of program, table, variant and repeat. As in
:mod:`pyflowers.workflow.config`, paths are relative to the file's folder, unknown keys are errors,
and the file cannot name an executable. ``keep`` can name a Python function, whose module is then
imported.
"""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from pyflowers.batches import Task
from pyflowers.batches.keep import Keep, is_short, keeps
from pyflowers.data import Table, read_table
from pyflowers.data.examples import PREFIX, is_example
from pyflowers.errors import ConfigError
from pyflowers.programs import find_program
from pyflowers.programs.data import OF_A_FILE
from pyflowers.programs.program import is_formula
from pyflowers.records import Record, read_toml, within_record
from pyflowers.workflow.config import DataConfig, Models, SamplerConfig, refuse_twice

MOST_TASKS = 10_000_000
"""The largest number of tasks in a batch; a ledger with more would exceed 10 GB."""


class BatchData(DataConfig):
    """The tables: one file, all files that match patterns, or the parts of one file.

    Attributes
    ----------
    files : tuple of str
        Patterns such as ``sites/*.csv``, each of which must match a file, and ``example:NAME``.
        Each file is one table.
    by : str or None
        A column of `file`. The rows with the same label form one table.
    """

    files: tuple[str, ...] = ()
    by: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.files and (self.file is not None or self.by is not None):
            raise ValueError("give either files = […], or file = … with or without by = …")
        if self.by is not None and self.file is None:
            raise ValueError(
                "by = … names a column of a file, but there is no file = …; add the file"
            )
        return self


class Variant(Record):
    """The changes that define one variant of the batch.

    Attributes
    ----------
    name : str
        The variant's name, which is part of the names of its tasks.
    priors : mapping of str to float
        Hyperparameters to change.
    sampler : mapping
        Keys of the section ``sampler`` to change, except ``seed`` and ``engine``.
    """

    name: Annotated[str, Field(min_length=1)]
    priors: dict[str, float | str] = Field(default_factory=dict)
    sampler: dict[str, Any] = Field(default_factory=dict)

    @field_validator("sampler")
    @classmethod
    def _known(cls, options: dict[str, Any]) -> dict[str, Any]:
        within_record(SamplerConfig.parse, options, "sampler")
        for key in ("seed", "engine"):
            if key in options:
                raise ValueError(f"{key} applies to the whole batch; a variant cannot change it")
        return options


class BatchConfig(Models):
    """The contents of a batch file.

    Attributes
    ----------
    models : tuple of str
        Names of shipped programs, paths of ``.stan`` files, and formulas. Every model is fitted to
        every table.
    family, link, default_priors : str or None
        The family of the formulas' response, its link, and ``brms`` for the default priors of brms.
    known : mapping of str to path
        Known covariances between labels, by the names that follow ``cov=`` in formulas.
    include_paths : tuple of path
        Folders to search for the files that the programs include.
    priors : mapping of str to mapping
        For each model, the hyperparameters to change.
    data, sampler, variants : table
        See the section with this name.
    keep : tuple of str
        The tables to keep from each fit: ``summary``, ``draws``, ``draws:mu,sigma2``,
        ``module:function``. The last form imports the module, which runs its code.
    repeats : int
        How many times each combination is fitted, each time with a different seed.
    time_limit : float or None
        Time limit for a fit in seconds. Default: no limit.
    retries : int
        How many times a fit is started again after its process has ended unexpectedly.
    folder : path or None
        The batch's folder; ``--out`` overrides it.
    """

    models: Annotated[tuple[str, ...], Field(min_length=1)]
    data: BatchData = BatchData()
    variants: tuple[Variant, ...] = ()
    keep: Annotated[tuple[str, ...], Field(min_length=1)] = ("summary",)
    repeats: Annotated[int, Field(ge=1, strict=True)] = 1
    time_limit: Annotated[float | None, Field(gt=0)] = None
    retries: Annotated[int, Field(ge=0, strict=True)] = 2
    folder: Path | None = None

    of_models: ClassVar[str] = "tasks"

    @field_validator("variants")
    @classmethod
    def _each_variant_once(cls, variants: tuple[Variant, ...]) -> tuple[Variant, ...]:
        names = (variant.name for variant in variants)
        refuse_twice(names, "variant", "tasks are named after the variants")
        return variants

    @field_validator("keep")
    @classmethod
    def _known_tables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Check the short names; :func:`import_kept` imports the other functions."""
        for name in names:
            if is_short(name):
                within_record(Keep.of, name)
        return names

    @model_validator(mode="after")
    def _priors_of_models(self) -> Self:
        names = self.names()
        for name in self.priors:
            if name not in names.values():
                raise ValueError(
                    f"priors.{name} names none of the batch's models; name one of "
                    f"{', '.join(names.values())}"
                )
        for model, name in names.items():
            if model == name and name in self.priors:  # a shipped program
                within_record(find_program(model).resolve_priors, self.priors[name])
        return self


@dataclass(frozen=True)
class Tasks:
    """The tasks of a batch, created one by one."""

    config: BatchConfig
    tables: Sequence[tuple[str, Any]]
    source: str

    def __post_init__(self) -> None:
        """Reject a number of tasks that no batch could finish."""
        if self._number > MOST_TASKS:
            raise ConfigError(
                f"{self.source}: models × tables × variants × repeats is more than "
                f"{MOST_TASKS:,} tasks; lower repeats, or divide the file into several batches"
            )

    @property
    def _number(self) -> int:
        config = self.config
        variants = len(config.variants) or 1
        return len(config.models) * len(self.tables) * variants * config.repeats

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Task]:
        config = self.config
        variants = config.variants or (Variant.model_construct(name="", priors={}, sampler={}),)
        repeats = range(config.repeats)
        # itertools.product would store all the repeats.
        for model, table, variant in itertools.product(config.models, self.tables, variants):
            for repeat in repeats:
                yield self._task(model, table, variant, repeat)

    def _task(self, model: str, table: tuple[str, Any], variant: Variant, repeat: int) -> Task:
        config, (label, data) = self.config, table
        program = config.names()[model]
        called = model if is_formula(model) else program
        parts = [label, variant.name]
        if len(config.models) > 1:
            parts.insert(0, called)
        if config.repeats > 1:
            parts.append(str(repeat))
        of_batch = {"seed": None, "engine": None}
        priors = {**config.priors.get(program, {}), **variant.priors}
        more = {**variant.sampler, "priors": priors, **of_batch}
        if isinstance(data, Table):  # already read
            more |= dict.fromkeys(OF_A_FILE)
        return Task(
            config.spec_of(model, config.data, data, **more),
            name="/".join(filter(None, parts)) or called,
            repeat=repeat,
            keep=config.keep,
        )


def read_batch(path: str | Path) -> tuple[BatchConfig, Tasks]:
    """Read a batch from a TOML file.

    Raises
    ------
    ConfigError
        If the file is invalid; the message names the file and the key.
    DataError
        If the file that is to be divided into tables cannot be read.
    """
    path = Path(path)
    config = BatchConfig.parse(read_toml(path), str(path)).relative_to(Path.cwd() / path.parent)
    return config, Tasks(config, _tables(config.data, path), str(path))


def import_kept(config: BatchConfig, path: str | Path) -> None:
    """Import the functions that compute the kept tables, which runs their code.

    Call this after everything else in the file has been checked.

    Raises
    ------
    ConfigError
        If a function cannot be imported, or two tables have the same name; the message names the
        file.
    """
    try:
        keeps(config.keep)
    except ConfigError as error:
        raise ConfigError(f"{path}: keep: {error}") from error


def _tables(data: BatchData, path: Path) -> list[tuple[str, Any]]:
    """Return each table with its label."""
    if data.by is not None and data.file is not None:
        how = {name: how for name, how in data.reading.items() if name in OF_A_FILE}
        table = read_table(data.file, **how)
        labels = table.labels(data.by)
        return [(name, table.at(labels.codes == i)) for i, name in enumerate(labels.names)]
    if not data.files:
        return [("", data.file)]
    found = sorted({file for entry in data.files for file in _matching(entry, path)})
    names = [file.stem.removeprefix(PREFIX) for file in found]
    if len(set(names)) < len(names):
        names = [str(file) for file in found]
    return list(zip(names, found, strict=True))


def _matching(entry: str, path: Path) -> list[Path]:
    """Return the table that an entry names, or the files that match it as a pattern.

    The entry is relative to the folder of the batch file, whose name may contain any characters.
    """
    if is_example(entry):
        return [Path(entry)]
    folder = Path.cwd() / path.parent
    named = Path(os.path.normpath(folder / entry))
    if named.is_file():
        return [named]
    pattern = Path(os.path.normpath(Path(glob.escape(str(folder))) / entry))
    found = list(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    if not found:
        remedy = "correct or remove this entry"
        if "[" in entry:
            remedy = "[ begins a set of characters, so write [[] where a name contains ["
        raise ConfigError(f"{path}: data.files: no file matches {entry}; {remedy}")
    return found
