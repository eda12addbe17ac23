"""``pyflowers.batch``: run tasks, and record them in a ledger and tables without losing results.

Jobs run in a :class:`Pool` of processes on this machine, or on a Dask cluster
(:mod:`pyflowers.batches.cluster`). The outcome of a task does not depend on where the task runs,
except for its time and its number of attempts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflowers.batches.ledger import SECONDS_BETWEEN_WRITES, Batch, Ledger
from pyflowers.batches.pool import Pool
from pyflowers.batches.task import Outcome, Planner, Task, check_limit
from pyflowers.checked import whole_number
from pyflowers.engines import Engine, SamplerOptions, find_engine, new_seed
from pyflowers.errors import ConfigError, PyflowersError
from pyflowers.progress import logger
from pyflowers.storage import recover

if TYPE_CHECKING:
    from pyflowers.batches.cluster import Cluster


def batch(
    tasks: Iterable[Task],
    *,
    out: str | Path,
    executor: Any = None,
    seed: int | None = None,
    engine: str | Engine = "auto",
    cmdstan: str | Path | None = None,
    workers: int | None = None,
    time_limit: float | None = None,
    retries: int = 2,
    retry_failed: bool = False,
) -> Batch:
    """Fit many tasks, one core for each, and keep tables of their results.

    A second run with the same tasks and the same folder resumes the batch. It runs only tasks that
    are new, have changed or have not finished.

    Parameters
    ----------
    tasks : iterable of Task
        The tasks. They are taken one by one when workers are free, so a generator may yield
        millions of them.
    out : path
        The batch's folder, with the ledger and the kept tables.
    executor : Pool, distributed.Client or Cluster, optional
        Where to fit, such as a :class:`pyflowers.batches.Pool` that stays open between batches.
        Default: a new pool on this machine.
    seed : int, optional
        Seed of the batch, from which the seeds of the tasks are derived. Default: the seed of an
        earlier run in `out`, or else a new one, which is recorded.
    engine : str or Engine
        ``auto``, ``cmdstan``, ``stanli`` or ``exact``; see :func:`pyflowers.fit`.
    cmdstan : str or Path, optional
        A CmdStan folder or ``"embedded"``; see :func:`pyflowers.fit`.
    workers : int, optional
        Number of processes on this machine. Default: the number of usable cores.
    time_limit : float, optional
        Time limit for a task in seconds, not counting the start of its worker and the loading of
        its program. Default: no limit.
    retries : int
        How many times a task is started again after its process has ended unexpectedly.
    retry_failed : bool
        Whether to also run the tasks that failed in an earlier run.

    Returns
    -------
    Batch
        The ledger and the tables. A failed task raises no exception; its row holds the error.

    Raises
    ------
    ConfigError
        If an option is wrong, or the folder cannot be used or written, for example because the disk
        is full.
    DataError
        If the folder's ledger is damaged.
    ToolchainError
        If there is no engine, workers cannot start, or a Dask cluster is gone.

    See Also
    --------
    pyflowers.Task : A fit in a batch.

    Examples
    --------
    >>> import pyflowers
    >>> tasks = [
    ...     pyflowers.Task("multilevel_poisson", name="narrow", priors={"mu_sd": 1}),
    ...     pyflowers.Task("multilevel_poisson", name="wide", priors={"mu_sd": 100}),
    ... ]
    >>> batch = pyflowers.batch(tasks, out="results/priors", seed=1, engine="exact")
    >>> table = batch.table("summary")
    >>> table.loc[table["parameter"] == "mu", ["task", "median"]].round(1)
         task  median
    0  narrow     0.9
    5    wide     1.5
    """
    folder = Path(out)
    check_limit(time_limit)
    whole_number("retries", retries, at_least=0)
    if seed is not None:
        SamplerOptions.of(seed=seed)
    chosen = find_engine(engine, cmdstan)
    total = len(tasks) if isinstance(tasks, Sized) else None
    with _running(executor, workers) as runner, closing(Ledger(folder)) as ledger:
        try:
            batch_seed = ledger.seed
            if seed is not None:
                batch_seed = seed
            elif batch_seed is None:
                batch_seed = new_seed()
            ledger.remember({"seed": batch_seed, "total": total, "started": time.time()})
            planner = Planner(batch_seed, chosen, time_limit, retries)
            with _shown(total) as count:
                _run(tasks, planner, runner, ledger, count, retry_failed)
        except BaseException as error:
            # If this write also fails, as on a full disk, the first error is still raised.
            with suppress(PyflowersError):
                ledger.write()
                if not isinstance(error, Exception):
                    logger.warning(
                        "%s holds what has been done so far; run the same batch again to resume",
                        folder,
                    )
            raise
    return Batch(folder)


def _run(
    tasks: Iterable[Task],
    planner: Planner,
    runner: Pool | Cluster,
    ledger: Ledger,
    count: Callable[..., None],
    retry_failed: bool,
) -> None:
    """Run tasks; tasks with equal inputs have equal seeds and results, but separate rows."""
    number = under_way = 0
    copies: Counter[str] = Counter()
    first_copy = ""

    def receive() -> int:
        outcomes = runner.wait(SECONDS_BETWEEN_WRITES)
        for outcome in outcomes:
            ledger.take(outcome)
            count(outcome.verdict)
        return len(outcomes)

    for position, task in enumerate(tasks):
        job = planner.plan(task, position)
        known, run = ledger.state(job.key)
        if run == ledger.run:
            first_copy = first_copy or job.name
            copies[job.key] += 1
            job = replace(job, key=f"{job.key}/{copies[job.key]}")
            known, _ = ledger.state(job.key)
        number += 1
        again = known == "failed" and retry_failed
        ledger.expect(job, again=again)
        if known in ("passed", "doubtful", "failed") and not again:
            count(known, earlier=True)
        elif job.refused:
            ledger.take(Outcome(job.key, job.refused, attempts=job.attempts))
            count("failed")
        else:
            runner.submit(job)
            under_way += 1
        while not runner.room():
            under_way -= receive()
    ledger.remember({"oldest": ledger.run, "total": number})
    if copies:
        logger.warning(
            "%d of %d tasks %s the same inputs as an earlier task, and so the same results (the "
            "first is %s); in Python, a different repeat=… gives a task a different seed",
            *(copies.total(), number, "has" if copies.total() == 1 else "have", first_copy),
        )
    while under_way:
        under_way -= receive()
    ledger.write()


@contextmanager
def _running(given: Any, workers: int | None) -> Iterator[Pool | Cluster]:
    """Yield the executor; if the block fails, abandon its jobs. A user's executor stays open."""
    executor = given
    if given is None:
        executor = Pool(workers)
    elif workers is not None:
        raise ConfigError(
            "workers=… applies only to this machine; leave it out, or leave executor=… out"
        )
    elif type(given).__module__.partition(".")[0] == "distributed":
        from pyflowers.batches.cluster import Cluster

        executor = Cluster(given)
    elif not hasattr(given, "room"):
        raise ConfigError(
            "executor must be a pyflowers.batches.Pool or a distributed.Client, got "
            f"{type(given).__name__}"
        )
    try:
        yield executor
    except BaseException:
        executor.abandon()
        raise
    finally:
        if given is None:
            executor.close()
            # Remove CmdStan files that killed workers left behind.
            recover(Path(tempfile.gettempdir()).resolve())


@contextmanager
def _shown(total: int | None) -> Iterator[Callable[..., None]]:
    """Show the progress of the fits, their rate and the time left, if stderr is a terminal."""
    from tqdm import tqdm

    poor: Counter[str] = Counter()
    # smoothing=0 uses the mean rate of the run, so that the forecast does not jump with each task.
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
            """Count a task; a task that finished in an earlier run took no time in this run."""
            if earlier and not bar.disable:
                bar.initial += 1
            if verdict != "passed":
                poor[verdict] += 1
                told = ", ".join(f"{number} {what}" for what, number in sorted(poor.items()))
                bar.set_postfix_str(told, refresh=False)
            bar.update(1)

        yield count
