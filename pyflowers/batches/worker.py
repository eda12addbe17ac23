"""The process that fits tasks; :mod:`pyflowers.engines.workers` starts it.

The same process is used on all machines. The Stan interpreter runs within it, because a crash of
the interpreter costs only one task. CmdStan's processes end with this process.
"""

from __future__ import annotations

import pickle
import signal
import time
from functools import lru_cache

from pyflowers.batches.task import Job, Outcome
from pyflowers.engines import Engine, ProcessLostError, find_engine
from pyflowers.engines.cmdstan import CmdStanEngine
from pyflowers.engines.stanli import interpret_here
from pyflowers.engines.workers import serve
from pyflowers.errors import FitError, PyflowersError, ToolchainError
from pyflowers.fits.sampling import Prepared
from pyflowers.programs import Program, find_program
from pyflowers.resources import named_in

LONGEST_ALARM = 1e9
"""Longest alarm in seconds; the system's timers are limited to a few centuries."""

LARGEST_TABLE = 900_000_000
"""The largest size of a kept table in bytes; a cell of SQLite holds at most 10⁹ bytes."""


def perform(job: Job) -> Outcome:
    """Run a job: fit, judge, and compute the tables to keep. A failure is also an outcome."""
    started = time.perf_counter()
    lost = False
    try:
        shipment, engine_key, inputs, kept = pickle.loads(job.work)
        ready = _ready(shipment)
        if isinstance(ready, PyflowersError):
            raise ready
        program, engine, own_key = ready
        if own_key != engine_key:
            raise ToolchainError(
                f"this worker's {engine.name} differs in its versions or its compiler from the "
                "engine for which the batch was planned; use the same versions and compiler on all "
                "machines"
            )
        started = time.perf_counter()
        # The system ends this process when the time is up, even in the middle of Stan's code.
        signal.setitimer(signal.ITIMER_REAL, min(float(job.time_limit or 0), LONGEST_ALARM))
        fit = Prepared(program, engine=engine, **inputs).sample(cores=1)
        with named_in(job.folder):
            tables = {each.name: table for each in kept if (table := each.table_of(fit))}
        for name, table in tables.items():
            if len(table) > LARGEST_TABLE:
                raise FitError(
                    f"keep {name}: the table has {len(table):,} bytes, which is too many for the "
                    "ledger; keep fewer draws or quantities"
                )
        failed = ", ".join(each.name for each in fit.verdict.failed)
        # These versions distinguish the results of different installations.
        packages = {name: fit.record.packages[name] for name in ("numpy", "pyflowers")}
        versions = {"engine": fit.record.engine.name, **fit.record.engine.versions, **packages}
        return Outcome(job.key, "", failed, time.perf_counter() - started, versions, tables)
    except PyflowersError as error:
        reason, lost = str(error), isinstance(error, ProcessLostError)
    except MemoryError:
        reason = "there was not enough memory; run fewer workers, or take fewer draws"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Outcome(job.key, reason, seconds=time.perf_counter() - started, lost=lost)


@lru_cache(maxsize=64)
def _ready(shipment: bytes) -> tuple[Program, Engine, str] | PyflowersError:
    """Unpack a program and its engine, load the program, and return it with the engine's key.

    If loading fails once, it is not tried again, so that on a machine without a compiler each task
    fails immediately.
    """
    named, engine = pickle.loads(shipment)
    try:
        # CmdStan may be in a different place on this machine.
        if isinstance(engine, CmdStanEngine) and not engine.cmdstan.path.is_dir():
            if engine.cmdstan.origin == "embedded":
                engine = find_engine("cmdstan", "embedded")
            else:
                engine = find_engine("cmdstan")
        program = find_program(named)
        return program, engine, engine.load(program).key
    except PyflowersError as error:
        return error


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    interpret_here()
    serve(lambda _: perform)
