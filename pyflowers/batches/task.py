"""A task: one fit of a batch, the tables to keep from it, and its preparation for a worker.

    key  = digest(format, versions of pyflowers and NumPy, key of the fit without its seed,
                  program's Python code, keep, repeat, batch's seed or the task's own)
    seed = the task's own, or the first 32 bits of SHA-256(batch's seed, key)

Neither depends on the order of the tasks or the number of workers.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any, cast

from pyflowers.batches.keep import Keep, keeps
from pyflowers.digests import digest_of
from pyflowers.engines import Engine, LoadedProgram, ProcessLostError
from pyflowers.engines.base import read_inits
from pyflowers.errors import ConfigError, PyflowersError, ToolchainError
from pyflowers.fits.sampling import prepare
from pyflowers.fits.spec import Spec
from pyflowers.programs import Data, Program, find_program, shipped_names
from pyflowers.programs.program import is_formula
from pyflowers.programs.source import Source
from pyflowers.resources import working_folder

FORMAT = 2
"""Part of every key: increase it when a change in pyflowers changes results."""


class Task:
    """One fit in a batch.

    Parameters
    ----------
    program : str, Path, Program or Spec
        The program, or a Spec with all inputs at once; inputs that are also given here replace
        those of the Spec.
    data : path, DataFrame, Table, mapping or Data, optional
        The data, as for :func:`pyflowers.fit`.
    name : str
        Name in the ledger and the tables. Default: the task's position in the batch. A new name
        does not cause a new fit.
    repeat : int
        A number that distinguishes tasks that are otherwise the same, so that their seeds differ.
        Without it, such tasks have the same results.
    keep : sequence of str, function or Keep
        The tables to keep: ``summary``, ``draws`` (all), ``draws:mu,sigma2``, or functions of the
        fit; see :class:`pyflowers.Keep`.
    time_limit : float, optional
        Time limit in seconds, not counting the start of the worker and the loading of the
        program. Default: the batch's limit.
    **inputs
        The other inputs of the fit, such as ``priors`` and ``draws``; see :class:`pyflowers.Spec`.
        If no seed is given, it is derived from the batch's seed and the task's key. The engine is
        chosen for the whole batch.

    Raises
    ------
    ConfigError
        If there is no input of a given name, or a value is out of its range.

    See Also
    --------
    pyflowers.batch : Run tasks.

    Examples
    --------
    The same model for two of the three plants, with the draws of `mu`:

    >>> import pandas as pd
    >>> import pyflowers
    >>> flowers = pd.read_csv("data/flowers.csv")
    >>> tasks = [
    ...     pyflowers.Task("iid_normal", table, name=f"plant {plant}", keep=["draws:mu"])
    ...     for plant, table in flowers[flowers["plant"] < 3].groupby("plant")
    ... ]
    >>> batch = pyflowers.batch(tasks, out="results/plants", seed=1, engine="exact")
    >>> list(batch.table("draws").columns)
    ['task', 'verdict', 'chain', 'draw', 'mu']
    >>> batch.table("draws").groupby("task").size().to_dict()
    {'plant 1': 4000, 'plant 2': 4000}
    """

    def __init__(
        self,
        program: str | Path | Program | Spec,
        data: Any = None,
        *,
        name: str = "",
        repeat: int = 0,
        keep: Sequence[str | Callable[..., Any] | Keep] = ("summary",),
        time_limit: float | None = None,
        **inputs: Any,
    ) -> None:
        self.spec = Spec.of_call(program, data, **inputs)
        self.spec.refuse(("engine", "cmdstan", "interval"), "is chosen for the whole batch")
        if name == "" and self.spec.name is not None:
            name = self.spec.name
        self.name, self.repeat, self.keep, self.time_limit = name, repeat, keep, time_limit


@dataclass(frozen=True)
class Job:
    """A task prepared for a worker.

    Attributes
    ----------
    key : str
        Digest of everything that determines the result. If several tasks in a batch have the same
        digest, ``/1``, ``/2``, … is appended to the keys of the second and later ones.
    name, program : str
        The names of the task and of its program.
    position : int
        Position of the task in the batch, from 0.
    seed : int
        Seed of the fit.
    work : bytes
        Pickled input of the worker; empty if the task was rejected. It is unpickled separately from
        the job, so that a failure to unpickle it affects only this task.
    refused : str
        Why the task cannot be fitted at all; empty if it can.
    time_limit : float or None
        Time limit in seconds.
    retries : int
        How many times the task is started again after its process has ended unexpectedly.
    attempts : int
        How many times planning was attempted.
    folder : str
        The working folder where the task was planned. Its modules may define functions to keep.
    """

    key: str
    name: str
    program: str
    position: int
    seed: int
    work: bytes = b""
    refused: str = ""
    time_limit: float | None = None
    retries: int = 0
    attempts: int = 1
    folder: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task.

    Attributes
    ----------
    key : str
        The task's key.
    error : str
        Why the task failed, in one sentence; empty if it is done.
    failed_checks : str
        The names of the checks of the verdict that failed, separated by commas, or empty.
    seconds : float
        Elapsed time of the fit and of computing the kept tables.
    versions : mapping of str to str
        The engine, and the versions of Stan and of packages.
    tables : mapping of str to bytes
        The kept tables, packed.
    attempts : int
        How many times the task was started.
    lost : bool
        Whether the task's process ended unexpectedly, though possibly not because of this task.
    """

    key: str
    error: str = ""
    failed_checks: str = ""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, bytes] = field(default_factory=dict)
    attempts: int = 1
    lost: bool = False

    @property
    def verdict(self) -> str:
        """``passed``; ``doubtful`` if a check of the verdict failed; or ``failed``."""
        if self.error:
            return "failed"
        if self.failed_checks:
            return "doubtful"
        return "passed"


class Planner:
    """Prepares tasks for workers.

    Parameters
    ----------
    seed : int
        The batch's seed.
    engine : Engine
        The engine that samples.
    time_limit : float or None
        Time limit in seconds for a task that sets no limit itself.
    retries : int
        How many times a task is started again.
    """

    def __init__(
        self, seed: int, engine: Engine, time_limit: float | None = None, retries: int = 2
    ) -> None:
        self._seed, self._engine = seed, engine
        self._time_limit, self._retries = time_limit, retries
        self._programs: dict[Any, tuple[Program, LoadedProgram, str, bytes]] = {}
        self._last_read: tuple[Program, Any, Data] | None = None

    def plan(self, task: Task, position: int) -> Job:
        """Prepare one task; an error in the task is recorded in its job.

        If the process that reads the program ends unexpectedly, the task is planned again, as often
        as a fit would be started again.

        Raises
        ------
        ToolchainError
            If there is no engine, so that no task could be fitted.
        """
        name = str(position) if task.name == "" else str(task.name)
        reason, attempts = "", 0
        while attempts <= self._retries:
            attempts += 1
            try:
                return self._planned(task, name, position)
            except ToolchainError:
                raise
            except PyflowersError as error:
                reason = str(error)
                if not isinstance(error, ProcessLostError):
                    break
        of = str(getattr(task.spec.program, "name", task.spec.program))
        key = digest_of([FORMAT, "refused", name, of, reason, self._seed])
        seed = seed_of(self._seed, key)
        return Job(key, name, of, position, seed, refused=reason, attempts=attempts)

    def _planned(self, task: Task, name: str, position: int) -> Job:
        check_limit(task.time_limit)
        spec = task.spec
        program, loaded, code, shipment = self._opened(spec)
        fit = prepare(spec, program, self._read(spec, program), self._engine)
        kept = keeps(task.keep)
        record = fit.record_with(loaded)
        versions = [record.packages[name] for name in ("pyflowers", "numpy")]
        parts = {
            "format": [FORMAT, *versions],
            "fit": record.key.digest(seeded=False),
            "code": code,
            "keep": [each.digest for each in kept],
            "repeat": task.repeat,
        }
        if spec.seed is None:
            key = digest_of({**parts, "seed": ["batch", self._seed]})
            seed = seed_of(self._seed, key)
        else:
            key = digest_of({**parts, "seed": ["own", spec.seed]})
            seed = spec.seed
        # The worker has the program and the engine.
        inputs = {
            "data": fit.data,
            "notes": fit.notes,
            "priors": fit.priors,
            "options": fit.options.model_copy(update={"seed": seed}),
            "inits": read_inits(fit.inits),
        }
        time_limit = task.time_limit
        if time_limit is None:
            time_limit = self._time_limit
        return Job(
            key,
            name,
            program.name,
            position,
            seed,
            pickle.dumps((shipment, loaded.key, inputs, kept), protocol=5),
            time_limit=time_limit,
            retries=self._retries,
            folder=working_folder(),
        )

    def _opened(self, spec: Spec) -> tuple[Program, LoadedProgram, str, bytes]:
        """Open a program once per batch, no matter how many tasks name it.

        The program of a formula is written for each task. The result is the program, the program
        as the engine loads it, a digest of its Python code, and the pickled input for workers.
        """
        reference = spec.program
        if is_formula(reference):
            return self._sent(spec.open())
        called = reference
        if not isinstance(reference, Program):
            called = str(reference)
        of_formulas = spec.family, spec.default_priors, *spec.known  # Stan programs reject these
        how = map(str, (*spec.include_paths, *of_formulas))
        known_by = called, isinstance(reference, Path), *how
        if known_by not in self._programs:
            self._programs[known_by] = self._sent(spec.open())
        return self._programs[known_by]

    def _sent(self, program: Program) -> tuple[Program, LoadedProgram, str, bytes]:
        """Pack a program for workers; a shipped program is sent by name."""
        loaded = self._engine.load(program)
        code, sent = "", cast(Any, program.name)
        named = program.reference
        if named not in shipped_names() or find_program(named) is not program:
            try:
                code = digest_of(pickle.dumps(program.python, protocol=4))
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ConfigError(
                    f"the program's capabilities cannot be sent to workers ({error}); define "
                    "their functions at the top level of a module"
                ) from error
            # Values derived from the source are not sent; workers compute them again.
            source = Source(program.source.path, dict(program.source.files), program.source.formula)
            sent = replace(program, source=source)
        return program, loaded, code, pickle.dumps((sent, self._engine), protocol=5)

    def _read(self, spec: Spec, program: Program) -> Data:
        """Read data; keep the last file in memory, because tasks often share it."""
        path = spec.data
        if path is None:
            path = program.example
        if not isinstance(path, str | Path):
            return spec.read(program)
        try:
            found = Path(path).stat()
        except OSError:
            return spec.read(program)  # raises the error again, with its message
        known_by = str(path), digest_of(spec.reading), found.st_mtime_ns, found.st_size
        last = self._last_read
        # Compare the program itself and not its id, which Python may reuse once the program is
        # gone.
        if last is None or last[0] is not program or last[1] != known_by:
            self._last_read = last = program, known_by, spec.read(program)
        return last[2]


def check_limit(time_limit: Any) -> None:
    """Reject a time limit that is not a number of seconds.

    Raises
    ------
    ConfigError
        Unless it is None or a finite number above 0.
    """
    if time_limit is not None and not (
        isinstance(time_limit, Real)
        and not isinstance(time_limit, bool)
        and 0 < float(time_limit) < math.inf
    ):
        raise ConfigError(
            f"time_limit must be a finite number of seconds above 0, got {time_limit!r}"
        )


def seed_of(batch_seed: int, key: str) -> int:
    """Return the seed of a task, which depends only on the batch's seed and the task's key."""
    raw = hashlib.sha256(f"{batch_seed}:{key}".encode()).digest()
    return int.from_bytes(raw[:4], "big")
