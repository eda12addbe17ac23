"""The throughput of many fits, ``scripts/bench many``: ratios of rates measured in one run.

The candidates take turns in many short rounds, so that other load on the machine affects all of
them alike. Each figure is the median over rounds of the ratio within a round, with the range of the
middle half of the ratios. All workers have started and completed a fit before the clock starts.

- *bare*: `stanli.Model(data)` and its `sample`, four chains one after another, with draws as
  arrays. The program is translated once, beforehand.
- *one core*: client and worker pinned to the core of the bare calls.
- *two cores*: two workers, in addition to the client.
- *both*: bare calls in two parallel processes, each pinned to a core, compared with one of them
  while the other is idle. Half the ratio is the efficiency of two cores of this machine for
  independent work.
- *loop*: `pyflowers.fit(…, engine="cmdstan").summary()` in a loop, with chains on all cores, which
  is the default, and pinned to one core.

``PYFLOWERS_BENCH_TASKS`` sets the number of tasks of each two-core batch over all rounds, by
default 1,000.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import stanio

import pyflowers
from pyflowers.batches import Pool, Task
from pyflowers.batches.database import FILE
from pyflowers.batches.keep import packed
from pyflowers.batches.ledger import Ledger
from pyflowers.batches.task import Job, Outcome
from pyflowers.programs import find_program

Row = tuple[str, str, str]
NAME = "multilevel_poisson"
TASKS = int(os.environ.get("PYFLOWERS_BENCH_TASKS", "1000"))
ROUNDS = 20
_fresh = itertools.count()


def many() -> list[Row]:
    """Compare the fits per second of the pool, Dask, the bare interpreter and a loop of fits."""
    with Pool(1) as one, Pool(2) as two, _dask() as client, _processes() as processes:
        with _pinned():
            batch(one, 4)
            bare(2)
        for executor in (two, client):
            batch(executor, 8)
        loop(1)
        both(processes, 2)
        number = max(10, TASKS // ROUNDS)
        rounds = [
            _round(one, two, client, number)
            | {"alone": alone(processes, number // 4), "both": both(processes, number // 4)}
            for _ in range(ROUNDS)
        ]
        with _without_work():
            passing = rate(lambda n: batch(client, n), 2 * TASKS)
    with _Nothing() as nothing:
        planning = rate(lambda n: batch(nothing, n), 5 * TASKS)
    return [
        *_bars({name: [each[name] for each in rounds] for name in rounds[0]}),
        ("many fits: the client alone, no fits", f"{planning:,.0f} tasks/s", ""),
        ("many fits: client and Dask, no fits", f"{passing:,.0f} tasks/s", ""),
        *_bytes(),
    ]


def _round(one: Pool, two: Pool, client: Any, number: int) -> dict[str, float]:
    """Measure each candidate once, in fits per second."""
    with _pinned():
        pinned = {
            "bare": rate(bare, number // 4),
            "one": rate(lambda n: batch(one, n), number // 2),
            "loop on one core": rate(loop, max(2, number // 20)),
        }
    return pinned | {
        "two": rate(lambda n: batch(two, n), number),
        "dask": rate(lambda n: batch(client, n), number),
        "loop": rate(loop, max(2, number // 20)),
    }


def _bars(rates: Mapping[str, list[float]]) -> list[Row]:
    usual = {name: statistics.median(found) for name, found in rates.items()}
    each = f"{usual['two']:.1f} a second on 2 cores, {usual['one']:.1f} on 1"
    rows = [(f"many fits, {NAME}", each, "")]
    for what, above, below, scale, bar in (
        ("efficiency on 2 cores", "two", "one", 0.5, "at least 0.85"),
        ("the same of bare calls in two processes", "both", "alone", 0.5, ""),
        ("over the engine's bare calls, one core", "bare", "one", 1, "at most 1.25"),
        ("against fit by CmdStan in a loop, all cores", "two", "loop", 1, "at least 4"),
        ("against that loop on one core", "two", "loop on one core", 1, "at least 4"),
        ("pool against Dask, 2 workers", "two", "dask", 1, "at most 1.15"),
    ):
        ratios = [scale * a / b for a, b in zip(rates[above], rates[below], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        measured = f"{middle:.2f} × ({low:.2f} to {high:.2f}; "
        measured += f"{usual[above]:.1f}/s and {usual[below]:.1f}/s)"
        rows.append((f"many fits: {what}", measured, bar))
    return rows


def _cores() -> list[int]:
    """Return the numbers of the usable cores, if the system reports them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


@contextmanager
def _pinned(core: int | None = None) -> Iterator[None]:
    """Pin this thread, and the processes that it starts, to one core, by default the first."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_cores()[0] if core is None else core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


def batch(executor: Any, number: int) -> None:
    """Run a batch of tasks that are in no earlier batch."""
    start = next(_fresh) * 1_000_000
    tasks = [Task(NAME, repeat=start + i) for i in range(number)]
    with tempfile.TemporaryDirectory() as folder:
        done = pyflowers.batch(
            tasks, out=Path(folder) / "batch", executor=executor, seed=1, engine="stanli"
        )
        if done.progress.done != number:
            raise RuntimeError(done.failures.iloc[0])


def bare(number: int) -> None:
    """Call the interpreter as a script would, one chain after another."""
    import stanli

    mir, values = _translated()
    for seed in range(1, number + 1):
        model = stanli.Model(mir=mir, data=values, seed=seed)
        model.sample(seed=seed, delta=0.9, parallel_chains=1, refresh=0).draws()


def alone(processes: ProcessPoolExecutor, number: int) -> float:
    """Return the bare calls per second of one process on a core, while the other core is idle."""
    return processes.submit(_bare_on, _cores()[0], number).result()


def both(processes: ProcessPoolExecutor, number: int) -> float:
    """Return the bare calls per second of two parallel processes, each on a separate core."""
    running = [processes.submit(_bare_on, core, number) for core in (_cores() * 2)[:2]]
    return sum(one.result() for one in running)


def _bare_on(core: int, number: int) -> float:
    with _pinned(core):
        return rate(bare, number)


def _processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@cache
def _translated() -> tuple[str, str]:
    """Return the program in the interpreter's form, and its data."""
    import stanli

    program = find_program(NAME)
    data = program.fill(program.read(), program.resolve_priors())[0]
    return stanli.stan_to_mir(program.source.text), stanio.dump_stan_json(program.stan_values(data))


def loop(number: int) -> None:
    """Run one fit after another with CmdStan, with chains on all available cores."""
    for seed in range(1, number + 1):
        pyflowers.fit(NAME, seed=seed, engine="cmdstan").summary()


def rate(work: Callable[[int], None], number: int) -> float:
    """Return the rate per second."""
    begin = time.perf_counter()
    work(number)
    return number / (time.perf_counter() - begin)


def no_work(job: Job) -> Outcome:
    """Return immediately an outcome that is as large as the outcome of a fit."""
    names = np.array([f"mu_plant[{i}]" for i in range(5)], dtype=object)
    table = {"parameter": names, **{f"column {i}": np.full(5, float(i)) for i in range(9)}}
    return Outcome(job.key, "", "", 0.1, {"stan": "1"}, {"summary": packed(table)})


@contextmanager
def _without_work() -> Iterator[None]:
    """Make the workers of a cluster fit nothing, so that only the communication is measured."""
    from pyflowers.batches import cluster

    usual = vars(cluster)["fit_on_worker"]
    vars(cluster)["fit_on_worker"] = no_work
    try:
        yield
    finally:
        vars(cluster)["fit_on_worker"] = usual


class _Nothing:
    """An executor that does nothing."""

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def room(self) -> int:
        """Return a capacity of a hundred jobs."""
        return 100 - len(self._outcomes)

    def submit(self, job: Job) -> None:
        """Finish the job immediately."""
        self._outcomes.append(no_work(job))

    def wait(self, _: float) -> list[Outcome]:
        """Return the outcomes of submitted jobs."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def abandon(self) -> None:
        """Discard all jobs."""
        self._outcomes = []

    def close(self) -> None:
        """Do nothing, because nothing is open."""


@contextmanager
def _dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _bytes() -> list[Row]:
    """Measure the size of a task on disk, and the speed at which its row is written."""
    number = 10_000
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "batch")
        keys = [f"{i:064x}" for i in range(number)]
        jobs = [Job(key, str(i), NAME, i, i) for i, key in enumerate(keys)]
        for job in jobs:
            ledger.expect(job, again=False)
        outcomes = [no_work(job) for job in jobs]
        begin = time.perf_counter()
        for outcome in outcomes:
            ledger.take(outcome)
        ledger.write()
        seconds = time.perf_counter() - begin
        ledger.close()
        size = (Path(folder) / "batch" / FILE).stat().st_size / number
    return [
        ("ledger, 10,000 tasks at once", f"{number / seconds:,.0f} tasks/s", ""),
        ("bytes per task", f"{size:.0f} in the ledger", ""),
    ]
