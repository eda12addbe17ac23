"""A task: one fit of many, and what is to be kept from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyflowers.batches.keep import Columns, Keep
from pyflowers.programs import Program


@dataclass(frozen=True, eq=False)
class Task:
    """One fit of many.

    Attributes
    ----------
    program : str, Path or Program
        As :func:`pyflowers.fit` takes it.
    data : path, DataFrame, mapping or Data, optional
        As :func:`pyflowers.fit` takes it.
    name : str
        What the ledger and the tables call it; its position by default. A new name is no reason
        to fit again.
    repeat : int
        Tells tasks apart that are otherwise the same, and so gives them different seeds.
    seed : int, optional
        Of Stan's random numbers; by default it follows from the batch's seed and the task's key.
    priors : mapping of str to float
        Hyperparameters to change.
    options : mapping
        ``chains``, ``warmup``, ``draws``, ``thin``, ``adapt_delta``, ``max_treedepth``,
        ``metric``.
    columns : mapping of str to str
        The table's names of the declaration's columns, ``group``, ``time`` and ``value`` included.
    reading : mapping of str to str
        ``sep``, ``decimal``, ``encoding`` and ``time_order`` of a file.
    centered : bool, optional
        The parametrisation.
    inits
        Initial values as CmdStanPy takes them.
    include_paths : sequence of path
        Where a program's included files are.
    keep : sequence of str, function or Keep
        What to keep: ``summary``, ``draws`` (all), ``draws:mu,sigma2``, or functions of the fit,
        see :mod:`pyflowers.batches.keep`.
    time_limit : float, optional
        Seconds that it may take, its worker's start not counted; the batch's by default.
    """

    program: str | Path | Program
    data: Any = None
    name: str = ""
    repeat: int = 0
    seed: int | None = None
    priors: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)
    centered: bool | None = None
    inits: Any = None
    include_paths: Sequence[str | Path] = ()
    keep: Sequence[str | Callable[..., Any] | Keep] = ("summary",)
    time_limit: float | None = None


@dataclass(frozen=True)
class Job:
    """A task made ready for a worker.

    Attributes
    ----------
    key : str
        Digest of all that determines the result.
    name, program : str
        The task's name and its program's.
    position : int
        Of the task in the batch, from 0.
    seed : int
        Of Stan's random numbers.
    program_id : str
        Digest of the program and its engine, by which workers know them.
    work : bytes
        A pickled :class:`~pyflowers.batches.perform.Work`; empty if the task was refused.
    refused : str
        Why it cannot be fitted at all.
    time_limit : float or None
        Seconds that it may take.
    retries : int
        How often it is begun again when its process has ended under it.
    """

    key: str
    name: str
    program: str
    position: int
    seed: int
    program_id: str = ""
    work: bytes = b""
    refused: str = ""
    time_limit: float | None = None
    retries: int = 0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task.

    Attributes
    ----------
    key : str
        The task's.
    error : str
        Why it failed, in one sentence; empty if it is done.
    seconds : float
        Wall time of the fit and of what is kept of it.
    versions : mapping of str to str
        Engine, versions of Stan and of packages.
    verdict : str
        ``passed``, or the diagnostics that failed.
    tables : mapping of str to mapping of str to array
        What is kept.
    attempts : int
        How often it was begun.
    lost : bool
        Whether a process died of it, which may have had nothing to do with it.
    """

    key: str
    error: str = ""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    verdict: str = ""
    tables: Mapping[str, Columns] = field(default_factory=dict)
    attempts: int = 1
    lost: bool = False

    @property
    def judged(self) -> str:
        """``passed``, ``doubtful`` or ``failed``, as the ledger tells them apart."""
        if self.error:
            return "failed"
        return "passed" if self.verdict == "passed" else "doubtful"

    @property
    def size(self) -> int:
        """About how many bytes its tables take."""
        return sum(v.nbytes for columns in self.tables.values() for v in columns.values())
