"""One task from end to end, in the process that fits: the same on this machine and on others."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyflowers.batches.keep import Columns, Keep
from pyflowers.batches.task import Outcome
from pyflowers.engines import Engine, ProcessLostError, SamplerOptions, find_engine
from pyflowers.engines.cmdstan import CmdStanEngine
from pyflowers.errors import PyflowersError, ToolchainError
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import fit_data
from pyflowers.programs import Data, Program, find_program


@dataclass(frozen=True)
class Work:
    """What a worker needs of a task besides its program."""

    data: Data
    options: SamplerOptions
    priors: Mapping[str, float]
    centered: bool | None
    inits: Any
    keep: tuple[Keep, ...]
    engine_key: str


class Bench:
    """The programs and engines of one process."""

    def __init__(self) -> None:
        self._ready: dict[str, _Ready] = {}

    def provide(self, program_id: str, shipment: bytes) -> None:
        """Unpack a program and its engine, and load it; doing so twice costs nothing."""
        if program_id in self._ready:
            return
        named, engine = pickle.loads(shipment)
        program = find_program(named)
        engine_key = refusal = ""
        try:
            engine = _here(engine)
            engine_key = engine.load(program).key
        except PyflowersError as error:
            refusal = str(error)
        self._ready[program_id] = _Ready(program, engine, engine_key, refusal)

    def perform(self, key: str, program_id: str, raw: bytes) -> Outcome:
        """Fit, judge, and keep what is wanted; a failure is an outcome as well."""
        started = time.perf_counter()
        lost = False
        try:
            fit, tables = _fitted(self._ready[program_id], pickle.loads(raw))
            verdict = ", ".join(each.name for each in fit.verdict.failed) or "passed"
            seconds = time.perf_counter() - started
            return Outcome(key, "", seconds, _versions(fit), verdict, tables)
        except PyflowersError as error:
            reason, lost = str(error), isinstance(error, ProcessLostError)
        except MemoryError:
            reason = "there was not enough memory; run fewer workers, or take fewer draws"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        return Outcome(key, reason, time.perf_counter() - started, lost=lost)


@dataclass(frozen=True)
class _Ready:
    """A program in this process: loaded, or the reason why it is not."""

    program: Program
    engine: Engine
    engine_key: str
    refusal: str


def _fitted(ready: _Ready, work: Work) -> tuple[Fit, dict[str, Columns]]:
    if ready.refusal:
        raise ToolchainError(ready.refusal)
    if ready.engine_key != work.engine_key:
        raise ToolchainError(
            f"this worker's {ready.engine.name} is not the one that the batch was planned with: "
            "its versions or its compiler differ; install the same on all machines"
        )
    fit = fit_data(
        ready.program,
        work.data,
        work.options,
        priors=work.priors,
        centered=work.centered,
        engine=ready.engine,
        inits=work.inits,
        cores=1,
    )
    return fit, {each.name: each.table_of(fit) for each in work.keep}


def _versions(fit: Fit) -> dict[str, str]:
    """Return the versions that tell results of one installation from those of another."""
    packages = {name: fit.record.packages[name] for name in ("numpy", "pyflowers")}
    return {"engine": fit.record.engine.name, **fit.record.engine.versions, **packages}


def _here(engine: Engine) -> Engine:
    """Return an engine as this machine has it: its CmdStan may be in another place."""
    if isinstance(engine, CmdStanEngine) and not engine.cmdstan.path.is_dir():
        embedded = engine.cmdstan.origin == "embedded"
        return find_engine("cmdstan", "embedded" if embedded else None)
    return engine
