"""``pyflowers.batch``: tasks in, a ledger and tables out, without losing results."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pyflowers.batches.ledger import SECONDS_BETWEEN_WRITES, Batch, Ledger
from pyflowers.batches.pool import Pool
from pyflowers.batches.task import Job, Outcome, Planner, Task, check_limit
from pyflowers.engines import Engine, SamplerOptions, find_engine, new_seed
from pyflowers.errors import ConfigError
from pyflowers.progress import logger
from pyflowers.storage import recover

Count = Callable[..., None]
"""Counts a task by its verdict for the bar of progress."""


@runtime_checkable
class Executor(Protocol):
    """What runs jobs: this machine's cores, or a Dask cluster.

    An outcome is the same whatever runs it; only its seconds and attempts differ.
    """

    def room(self) -> int:
        """Return how many jobs it can take now; more would only wait there."""

    def submit(self, job: Job) -> None:
        """Take a job."""

    def wait(self, seconds: float) -> list[Outcome]:
        """Return outcomes as soon as there are some, and none after so many seconds.

        Raises
        ------
        ToolchainError
            If no job can be run any more.
        """

    def abandon(self) -> None:
        """Forget the jobs in progress, and end the processes that run them."""

    def close(self) -> None:
        """Close it, leaving no process, thread or file."""


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
        The batch's folder, which holds its ledger and what was kept.
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
    check_limit(time_limit)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigError(f"retries must be a whole number of at least 0, was {retries!r}")
    if seed is not None:
        SamplerOptions.of(seed=seed)
    chosen = find_engine(engine, cmdstan)
    total = len(tasks) if isinstance(tasks, Sized) else None
    with _running(executor, workers) as runner:
        ledger = Ledger(folder)
        try:
            known = ledger.value("seed")
            batch_seed = seed if seed is not None else int(known) if known else new_seed()
            planner = Planner(batch_seed, chosen, time_limit, retries)
            ledger.remember(
                {
                    "seed": str(batch_seed),
                    "total": "" if total is None else str(total),
                    "started": str(time.time()),
                }
            )
            with _shown(total) as count:
                jobs = _jobs(tasks, planner, ledger, count, retry_failed)
                number = _run(jobs, runner, ledger, count)
            ledger.remember({"total": str(number)})
        finally:
            ledger.close()
    return Batch(folder)


def _jobs(
    tasks: Iterable[Task],
    planner: Planner,
    ledger: Ledger,
    count: Count,
    retry_failed: bool,
) -> Iterator[Job | None]:
    """Yield the tasks that are to be run, and None for each that has an outcome."""
    for position, task in enumerate(tasks):
        job = planner.plan(task, position)
        state, run = ledger.state(job.key)
        if run == ledger.run:
            logger.warning(
                "task %s: it is the same as an earlier one and is not run twice; to run it "
                "twice, give it another repeat",
                job.name,
            )
            continue
        again = state == "failed" and retry_failed
        ledger.expect(job, again=again)
        if state in ("passed", "doubtful", "failed") and not again:
            count(state, earlier=True)
            yield None
        elif job.refused:
            refused = Outcome(job.key, job.refused)
            ledger.take(refused)
            count(refused.judged)
            yield None
        else:
            yield job


def _run(jobs: Iterator[Job | None], executor: Executor, ledger: Ledger, count: Count) -> int:
    """Run jobs and return the number of tasks; what is done is written whatever ends this."""
    number = under_way = 0
    exhausted = False
    try:
        while under_way or not exhausted:
            while not exhausted and executor.room():
                try:
                    job = next(jobs)
                except StopIteration:
                    exhausted = True
                    break
                number += 1
                if job is not None:
                    executor.submit(job)
                    under_way += 1
            if under_way:
                for outcome in executor.wait(SECONDS_BETWEEN_WRITES):
                    under_way -= 1
                    ledger.take(outcome)
                    count(outcome.judged)
        ledger.write()
    except BaseException as error:
        with suppress(ConfigError):  # the disk is full: that is the error under way
            ledger.write()
        if not isinstance(error, Exception):
            logger.warning(
                "%s holds what is done so far; run the same batch again to go on", ledger.folder
            )
        raise
    return number


@contextmanager
def _running(given: Any, workers: int | None) -> Iterator[Executor]:
    """Yield what runs the jobs, and leave nothing under way; what was given stays open."""
    executor = given
    if given is None:
        executor = Pool(workers)
    elif workers is not None:
        raise ConfigError(
            "workers: it applies to this machine only; leave it out when you give an executor"
        )
    elif type(given).__module__.partition(".")[0] == "distributed":
        from pyflowers.batches.cluster import Cluster

        executor = Cluster(given)
    elif not isinstance(given, Executor):
        raise ConfigError(
            f"executor: a {type(given).__name__} runs no tasks; give a pyflowers.batches.Pool or a "
            "distributed.Client"
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


@contextmanager
def _shown(total: int | None) -> Iterator[Count]:
    """Show finished, doubtful and failed fits, rate and time left, where stderr is a terminal."""
    from tqdm import tqdm

    poor: Counter[str] = Counter()
    # smoothing=0: the mean rate of the run, whose forecast does not jump about with each task.
    with tqdm(
        total=total,
        desc="fits",
        unit="fit",
        smoothing=0,
        disable=None,
        leave=False,
        file=sys.stderr,
    ) as bar:

        def count(verdict: str, *, earlier: bool = False) -> None:
            """Count a task; one of an earlier run took none of this run's time."""
            if earlier and not bar.disable:
                bar.initial += 1
            if verdict != "passed":
                poor[verdict] += 1
                told = ", ".join(f"{number} {what}" for what, number in sorted(poor.items()))
                bar.set_postfix_str(told, refresh=False)
            bar.update(1)

        yield count
