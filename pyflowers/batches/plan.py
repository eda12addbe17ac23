"""Tasks made ready: programs opened once, data read, keys and seeds derived.

    key  = digest(format, pyflowers, program, engine's key, data, priors, options, keep,
                  batch's seed or the task's own)
    seed = the first 32 bits of SHA-256(batch's seed, key)

Order and number of workers are in neither.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

from pyflowers.batches.keep import keeps
from pyflowers.batches.keys import digest_of, seed_of
from pyflowers.batches.perform import Work
from pyflowers.batches.task import Job, Task
from pyflowers.engines import Engine, SamplerOptions
from pyflowers.engines.cmdstan import values_of
from pyflowers.errors import ConfigError, PyflowersError, ToolchainError
from pyflowers.fits.record import package_versions
from pyflowers.programs import Data, Program, find_program, shipped_names
from pyflowers.programs.data import READING
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.source import Source

FORMAT = 1
"""Part of every key: raise it when a change of pyflowers changes results."""


@dataclass
class Planner:
    """Makes tasks ready for workers.

    Attributes
    ----------
    seed : int
        The batch's.
    engine : Engine
        What samples.
    time_limit : float or None
        Seconds that a task may take which has no limit of its own.
    retries : int
        How often a task is begun again.
    shipments : mapping of str to bytes
        Each program that workers need, pickled, by its digest.
    """

    seed: int
    engine: Engine
    time_limit: float | None = None
    retries: int = 2
    shipments: dict[str, bytes] = field(default_factory=dict)
    _programs: dict[Any, _Opened] = field(default_factory=dict)
    _last_read: tuple[Any, Data] | None = None
    _last_declared: tuple[Declaration, str] | None = None

    def plan(self, task: Task, position: int) -> Job:
        """Make one task ready; an error in it is part of the result.

        Raises
        ------
        ToolchainError
            If there is no engine: no task could be fitted.
        """
        name = str(position) if task.name == "" else str(task.name)
        try:
            return self._planned(task, name, position)
        except ToolchainError:
            raise
        except PyflowersError as error:
            reason, of = str(error), str(getattr(task.program, "name", task.program))
            key = digest_of([FORMAT, "refused", name, of, reason, self.seed])
            return Job(key, name, of, position, seed_of(self.seed, key), refused=reason)

    def _planned(self, task: Task, name: str, position: int) -> Job:
        _refuse_misplaced(task)
        opened = self._open(task)
        program = opened.program
        data = self._read(task, program)
        options = SamplerOptions.of(seed=0 if task.seed is None else task.seed, **task.options)
        priors = program.resolve_priors(task.priors, data)
        whole, _ = program.fill(data, priors, centered=task.centered)
        kept = keeps(task.keep)
        inits = values_of(task.inits)
        packages = package_versions()
        own_seed = ["batch", self.seed] if task.seed is None else ["own", task.seed]
        key = digest_of(
            {
                "format": [FORMAT, packages["pyflowers"], packages["numpy"]],
                "program": [program.source.sha256, opened.capabilities],
                "declaration": self._digest_of(data.declaration),
                "engine": opened.engine_key,
                "data": [data.sha256, data.columns, data.reading],
                "values": program.stan_values(whole),
                "options": options.model_dump(exclude={"seed"}),
                "inits": inits,
                "keep": [each.digest for each in kept],
                "repeat": task.repeat,
                "seed": own_seed,
            }
        )
        seed = seed_of(self.seed, key) if task.seed is None else options.seed
        work = Work(
            data,
            options.model_copy(update={"seed": seed}),
            dict(task.priors),
            task.centered,
            inits,
            kept,
            opened.engine_key,
        )
        raw = pickle.dumps(work, protocol=5)
        return Job(
            key,
            name,
            program.name,
            position,
            seed,
            opened.program_id,
            raw,
            time_limit=self.time_limit if task.time_limit is None else task.time_limit,
            retries=self.retries,
        )

    def _open(self, task: Task) -> _Opened:
        """Open a program once in a batch, however many tasks name it."""
        reference = task.program
        includes = tuple(map(str, task.include_paths))
        known_by = (
            reference if isinstance(reference, Program) else str(reference),
            isinstance(reference, Path),
            includes,
        )
        if known_by not in self._programs:
            program = find_program(reference, includes)
            loaded = self.engine.load(program)
            shipment = _shipment(program, self.engine)
            program_id = hashlib.sha256(shipment).hexdigest()
            self.shipments[program_id] = shipment
            capabilities = "" if _is_shipped(program) else digest_of(_pickled(program.python))
            self._programs[known_by] = _Opened(program, program_id, loaded.key, capabilities)
        return self._programs[known_by]

    def _digest_of(self, declaration: Declaration) -> str:
        """Return a declaration's digest; the last one is remembered, as data often share it."""
        if self._last_declared is None or self._last_declared[0] is not declaration:
            declared = declaration.model_dump(mode="json", exclude_defaults=True)
            self._last_declared = declaration, digest_of(declared)
        return self._last_declared[1]

    def _read(self, task: Task, program: Program) -> Data:
        """Read data; the last file is remembered, as tasks often share it."""
        how: dict[str, Any] = {"columns": dict(task.columns), **task.reading}
        if not isinstance(task.data, str | Path | None):
            return program.read(task.data, **how)
        path = Path(task.data) if task.data is not None else program.example
        try:
            known_by = (id(program), str(path), digest_of(how), _stamp(path))
        except OSError:
            return program.read(task.data, **how)  # which says what is wrong
        if self._last_read is None or self._last_read[0] != known_by:
            self._last_read = known_by, program.read(task.data, **how)
        return self._last_read[1]


def check_limit(time_limit: Any) -> None:
    """Refuse a time limit that is no number of seconds.

    Raises
    ------
    ConfigError
        Unless it is None or above 0.
    """
    if time_limit is not None and not (
        isinstance(time_limit, Real) and 0 < float(time_limit) < math.inf
    ):
        raise ConfigError(f"time_limit must be a number of seconds above 0, was {time_limit!r}")


def _refuse_misplaced(task: Task) -> None:
    """Refuse what would otherwise be no more than a wrong argument somewhere below."""
    check_limit(task.time_limit)
    if "seed" in task.options:
        raise ConfigError("options: the seed is not one of them; give it to the task itself")
    for key in task.reading:
        if key not in READING:
            raise ConfigError(f"reading: there is no {key}; it takes {', '.join(READING)}")


@dataclass(frozen=True)
class _Opened:
    """A program, its identifier for the workers, and its part of the key."""

    program: Program
    program_id: str
    engine_key: str
    capabilities: str


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """Return what changes when a file is written."""
    if path is None:
        return None
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _shipment(program: Program, engine: Engine) -> bytes:
    """Pickle a program and its engine; shipped programs are where pyflowers is, by their names."""
    if _is_shipped(program):
        return pickle.dumps((program.name, engine), protocol=5)
    _pickled(program.python)
    # What was derived from the source is derived again.
    plain = replace(program, source=Source(program.source.path, dict(program.source.files)))
    return pickle.dumps((plain, engine), protocol=5)


def _is_shipped(program: Program) -> bool:
    return program.reference in shipped_names() and find_program(program.reference) is program


def _pickled(capabilities: Any) -> bytes:
    try:
        return pickle.dumps(capabilities, protocol=4)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the program's capabilities cannot be sent to workers ({error}); define their "
            "functions at the top level of a module"
        ) from error
