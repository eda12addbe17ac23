"""Tasks on a Dask cluster: each Dask worker owns worker processes, as a pool does.

A fit never runs in a Dask worker itself. The Dask worker only passes jobs on, so it stays in
contact with its scheduler during a fit, and continues if the fit crashes or exceeds its time limit.

``submit(key=…, pure=True)`` names each future by its task's key, and a future is released as soon
as its outcome has arrived, so that the scheduler's memory does not grow with the batch.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyflowers.batches.pool import Pool
from pyflowers.batches.task import Job, Outcome
from pyflowers.errors import ConfigError, ToolchainError

try:
    from distributed import CancelledError, Client, Future, WorkerPlugin, get_worker
    from distributed.scheduler import KilledWorker
except ImportError as error:
    raise ConfigError("Dask is not installed; install pyflowers with its extra dask") from error

AHEAD = 3
"""Number of jobs that are submitted for each thread of the cluster."""

SECONDS_TO_RETURN = 60.0
"""The longest time in seconds for which a cluster may be without any worker."""

SECONDS_TO_CONNECT = 15.0

_GO_ON = "then run the batch again: it resumes where it stopped"


class Cluster:
    """A Dask cluster as the executor of a batch.

    Parameters
    ----------
    client : distributed.Client
        A connected client. Its workers should have one thread each (``--nthreads 1``), or
        `resources` should limit the number of simultaneous fits to the number of cores.
    resources : mapping of str to float, optional
        The amount of each of a Dask worker's resources that one fit uses.
    """

    def __init__(self, client: Client, *, resources: Mapping[str, float] | None = None) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._resources = dict(resources or {}) or None
        self._under_way: dict[str, tuple[Job, Future]] = {}
        self._ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._again: deque[Job] = deque()
        self._is_known = False
        self._threads = 0
        self._counted = -float("inf")
        self._seen = time.monotonic()

    def room(self) -> int:
        """See :class:`~pyflowers.batches.Pool`."""
        self._count_threads()
        given = len(self._under_way) + len(self._again)
        return max(0, max(1, self._threads) * AHEAD - given)

    def submit(self, job: Job) -> None:
        """See :class:`~pyflowers.batches.Pool`."""
        self._again.append(job)
        self._hand_over()

    def wait(self, seconds: float) -> list[Outcome]:
        """See :class:`~pyflowers.batches.Pool`."""
        self._count_threads()
        self._hand_over()
        outcomes = []
        with suppress(queue.Empty):
            outcomes += self._settled(self._ended.get(timeout=min(seconds, 1.0)))
            while True:
                outcomes += self._settled(self._ended.get_nowait())
        return outcomes

    def abandon(self) -> None:
        """See :class:`~pyflowers.batches.Pool`."""
        futures = [future for _, future in self._under_way.values()]
        self._under_way.clear()
        self._again.clear()
        if futures and self._client.status == "running":
            with suppress(OSError, RuntimeError):  # the scheduler is gone
                self._client.cancel(futures, force=True)

    def _count_threads(self) -> None:
        """Update the number of threads from time to time, because workers come and go.

        Raises
        ------
        ToolchainError
            If the scheduler is gone, or has had no worker for `SECONDS_TO_RETURN` seconds.
        """
        if self._client.status not in ("running", "connecting", "newly-created"):
            raise ToolchainError(
                f"the Dask scheduler {self._address} is gone; start it and its workers, {_GO_ON}"
            )
        if self._client.status != "running":
            return
        if time.monotonic() - self._counted >= 1:
            with suppress(OSError, RuntimeError):
                self._threads = sum(self._client.nthreads().values())
            self._counted = time.monotonic()
            if self._threads:
                self._seen = self._counted
        if time.monotonic() - self._seen > SECONDS_TO_RETURN:
            raise ToolchainError(
                f"the Dask scheduler {self._address} has had no worker for {SECONDS_TO_RETURN:g} "
                f"s; start some with dask worker {self._address} --nthreads 1, {_GO_ON}"
            )

    def _hand_over(self) -> None:
        """Submit waiting jobs; while the scheduler is unreachable, they keep waiting."""
        while self._again and self._client.status == "running":
            job = self._again[0]
            try:
                if not self._is_known:
                    self._client.register_plugin(_Processes())
                    self._is_known = True
                future = self._client.submit(
                    fit_on_worker,
                    job,
                    key=f"pyflowers-{job.key}",
                    pure=True,
                    retries=job.retries,
                    resources=self._resources,
                )
            except OSError:
                return
            self._again.popleft()
            self._under_way[job.key] = job, future
            future.add_done_callback(self._ended.put)

    def _settled(self, future: Future) -> list[Outcome]:
        """Return the outcome of a finished future; if its result is lost, queue the job again."""
        key = str(future.key).removeprefix("pyflowers-")
        if key not in self._under_way or self._under_way[key][1] is not future:
            return []
        job, _ = self._under_way[key]
        try:
            outcomes = []
            if not future.cancelled():
                outcomes.append(self._result(job, future))
        except TimeoutError:
            self._ended.put(future)
            return []
        except (OSError, RuntimeError, CancelledError):  # the scheduler and the result are gone
            outcomes = []
        del self._under_way[key]
        future.release()
        if not outcomes:
            self._is_known = False  # a new scheduler has no plugins
            self._again.appendleft(job)
        return outcomes

    def _result(self, job: Job, future: Future) -> Outcome:
        if future.status != "error":
            outcome: Outcome = future.result(timeout=SECONDS_TO_RETURN)
            return outcome
        error = future.exception(timeout=SECONDS_TO_RETURN)
        if isinstance(error, KilledWorker):
            reason = "every Dask worker that tried this task ended; look at the workers' logs"
        else:
            reason = f"the Dask worker could not run this task ({type(error).__name__}: {error})"
        return Outcome(job.key, reason, attempts=job.retries + 1)


class _Processes(WorkerPlugin):  # type: ignore[misc]
    """The processes of one Dask worker: a pool with a single process for each of its threads."""

    name = "pyflowers"
    idempotent = True  # registering it again has no effect

    def setup(self, worker: Any) -> None:
        """Begin without processes."""
        self._idle, self._all = list[Pool](), list[Pool]()
        self._is_ending = False

    def teardown(self, worker: Any) -> None:
        """End the processes; another Dask worker runs their jobs again."""
        self._is_ending = True
        for pool in self._all:
            pool.end()

    def fit(self, job: Job) -> Outcome:
        """Run a job, and run it again if its process ends unexpectedly and retries are left."""
        try:
            pool = self._idle.pop()
        except IndexError:
            pool = Pool(1)
            self._all.append(pool)
        pool.submit(job)
        outcomes: list[Outcome] = []
        while not outcomes and not self._is_ending:
            outcomes = pool.wait(1.0)
        if self._is_ending:
            raise RuntimeError("this Dask worker is ending")
        self._idle.append(pool)
        return outcomes[0]


def fit_on_worker(job: Job) -> Outcome:
    """Run one job; called in a thread of a Dask worker."""
    outcome: Outcome = get_worker().plugins[_Processes.name].fit(job)
    return outcome


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Yield a client that is connected to a Dask scheduler.

    Raises
    ------
    ToolchainError
        If the scheduler cannot be reached.
    """
    try:
        client = Client(address, set_as_default=False, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ToolchainError(
            f"scheduler {address} cannot be reached ({error}); check the address, and that a Dask "
            "scheduler is running there"
        ) from error
    with client:
        yield client
