"""``pyflowers.batch``: tasks in, a ledger and tables out, without losing results."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyflowers.batches.bar import Bar, shown
from pyflowers.batches.executor import Executor
from pyflowers.batches.ledger import Ledger
from pyflowers.batches.plan import Planner, check_limit
from pyflowers.batches.pool import Pool
from pyflowers.batches.results import Batch
from pyflowers.batches.task import Job, Outcome, Task
from pyflowers.engines import Engine, SamplerOptions, find_engine, new_seed
from pyflowers.errors import ConfigError
from pyflowers.progress import logger
from pyflowers.storage import recover

SECONDS_BETWEEN_WRITES = 5.0
BYTES_BETWEEN_WRITES = 16_000_000
"""What the end of the client may cost: outcomes that are not yet in the ledger are fitted again."""


def batch(
    tasks: Iterable[Task],
    *,
    out: str | Path,
    executor: Executor | Any = None,
    seed: int | None = None,
    engine: str | Engine = "auto",
    cmdstan: str | Path | None = None,
    workers: int | None = None,
    time_limit: float | None = None,
    retries: int = 2,
    retry_failed: bool = False,
) -> Batch:
    """Fit many tasks, one core for each, and keep from each what it asks for.

    Run again with the same tasks it goes on where it stopped; a task that has changed is run again.

    Parameters
    ----------
    tasks : iterable of Task
        Taken one by one as workers are free, so that it may be a generator of millions.
    out : path
        The batch's folder: its ledger, and shards of tables.
    executor : Executor or distributed.Client, optional
        Where to fit, such as a :class:`~pyflowers.batches.Pool` that stays open between batches; by
        default a pool on this machine's cores.
    seed : int, optional
        The batch's, from which each task's follows; by default that of an earlier run in `out`,
        else drawn, and recorded.
    engine, cmdstan
        As :func:`pyflowers.fit` takes them.
    workers : int, optional
        Processes on this machine; the usable cores by default.
    time_limit : float, optional
        Seconds that one task may take, its worker's start not counted.
    retries : int
        How often a task is begun again whose process has ended under it.
    retry_failed : bool
        Whether tasks that failed in an earlier run are run again.

    Returns
    -------
    Batch
        The ledger and the tables. A task that failed is a row with its sentence, not an exception.

    Raises
    ------
    ConfigError
        If an option is wrong, or the folder cannot be used or written, as on a full disk.
    ToolchainError
        If there is no engine, or no worker can be had.
    """
    folder = Path(out)
    _check(time_limit, retries)
    if seed is not None:
        SamplerOptions.of(seed=seed)
    chosen = find_engine(engine, cmdstan) if isinstance(engine, str) else engine
    with _running(executor, workers) as runner:
        ledger = Ledger(folder)
        try:
            known = ledger.value("seed")
            batch_seed = seed if seed is not None else int(known) if known else new_seed()
            planner = Planner(batch_seed, chosen, time_limit, retries)
            total = len(tasks) if isinstance(tasks, Sized) else None
            ledger.remember(
                {
                    "seed": str(batch_seed),
                    "total": "" if total is None else str(total),
                    "started": str(time.time()),
                }
            )
            with shown(total) as bar:
                _Run(ledger, runner, planner, retry_failed, bar).through(tasks)
        finally:
            ledger.close()
    return Batch(folder)


class _Run:
    """One run of a batch."""

    def __init__(
        self, ledger: Ledger, executor: Executor, planner: Planner, retry_failed: bool, bar: Bar
    ) -> None:
        self._ledger = ledger
        self._executor = executor
        self._planner = planner
        self._retry_failed = retry_failed
        self._bar = bar
        self._num_tasks = 0
        self._under_way = 0
        self._unwritten: list[Outcome] = []
        self._bytes = 0
        self._written = time.monotonic()

    def through(self, tasks: Iterable[Task]) -> None:
        """Run all tasks; if that is interrupted, the outcomes so far are written."""
        try:
            jobs = self._jobs(tasks)
            exhausted = False
            while not exhausted or self._under_way:
                exhausted = exhausted or self._fill(jobs)
                if self._under_way:
                    outcomes = self._executor.wait(SECONDS_BETWEEN_WRITES)
                    self._under_way -= len(outcomes)
                    self._take(outcomes)
            self._write(now=True)
        except BaseException as error:
            with suppress(ConfigError):  # the disk is full: that is the error under way
                self._write(now=True)
            if not isinstance(error, Exception):
                folder = self._ledger.folder
                logger.warning(
                    "%s holds what is done so far; run the same batch again to go on", folder
                )
            raise
        self._ledger.remember({"total": str(self._num_tasks)})

    def _fill(self, jobs: Iterator[Job]) -> bool:
        """Give the executor what it has room for; return whether that was the last."""
        while self._executor.room():
            job = next(jobs, None)
            if job is None:
                return True
            self._executor.submit(job, self._planner.shipments)
            self._under_way += 1
        return False

    def _jobs(self, tasks: Iterable[Task]) -> Iterator[Job]:
        """Yield the tasks that are to be run, and note the others."""
        for position, task in enumerate(tasks):
            job = self._planner.plan(task, position)
            state, run = self._ledger.state(job.key)
            if run == self._ledger.run:
                logger.warning(
                    "task %s: it is the same as an earlier one and is not run twice; to run it "
                    "twice, give it another repeat",
                    job.name,
                )
                continue
            self._num_tasks += 1
            again = state == "failed" and self._retry_failed
            self._ledger.expect(job, again=again)
            if state in ("passed", "doubtful", "failed") and not again:
                self._bar.skip(state)
                self._write(now=False)
            elif job.refused:
                self._take([Outcome(job.key, job.refused)])
            else:
                yield job

    def _take(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            self._unwritten.append(outcome)
            self._bytes += outcome.size
            self._bar.advance(outcome.judged)
        self._write(now=False)

    def _write(self, *, now: bool) -> None:
        """Write the outcomes so far: now, or once they are old or large enough."""
        late = time.monotonic() - self._written > SECONDS_BETWEEN_WRITES
        if now or late or self._bytes > BYTES_BETWEEN_WRITES:
            self._ledger.write(self._unwritten)
            self._unwritten, self._bytes = [], 0
            self._written = time.monotonic()


@contextmanager
def _running(given: Any, workers: int | None) -> Iterator[Executor]:
    """Yield what runs the jobs, and leave nothing under way; what was given stays open."""
    executor = Pool(workers) if given is None else _executor(given)
    if given is not None and workers is not None:
        raise ConfigError(
            "workers: it applies to this machine only; leave it out when you give an executor"
        )
    try:
        yield executor
    except BaseException:
        executor.abandon()
        raise
    finally:
        if given is None:
            executor.close()
            # What killed workers left of CmdStan's files.
            recover(Path(tempfile.gettempdir()).resolve())


def _executor(given: Any) -> Executor:
    if isinstance(given, Executor):
        return given
    if type(given).__module__.startswith("distributed"):
        from pyflowers.batches.cluster import Cluster

        return Cluster(given)
    raise ConfigError(
        f"executor: a {type(given).__name__} runs no tasks; give a pyflowers.batches.Pool or a "
        "distributed.Client"
    )


def _check(time_limit: float | None, retries: int) -> None:
    check_limit(time_limit)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigError(f"retries must be a whole number of at least 0, was {retries!r}")
