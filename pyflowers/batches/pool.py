"""Worker processes on this machine that run the jobs of a batch."""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

from pyflowers.batches.task import Job, Outcome
from pyflowers.checked import whole_number
from pyflowers.cores import usable_cores
from pyflowers.engines.workers import Worker, WorkerEndedError

AHEAD = 2
"""Jobs for each worker: one in progress, and one that is ready to follow."""

_MODULE = "pyflowers.batches.worker"

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "STAN_NUM_THREADS"), "1"
)
"""Environment variables that keep a worker's libraries from starting threads: one core per fit."""


class Pool:
    """Worker processes, which start when there is work and stay until the pool is closed.

    Parameters
    ----------
    num_workers : int, optional
        Number of processes. Default: the number of usable cores.

    Raises
    ------
    ConfigError
        If the number is not a positive integer.
    """

    def __init__(self, num_workers: int | None = None) -> None:
        if num_workers is None:
            num_workers = usable_cores()
        self._num_workers = whole_number("workers", num_workers)
        self._idle: list[Worker] = []
        self._busy: dict[Worker, tuple[Job, int]] = {}
        self._waiting: deque[tuple[Job, int]] = deque()
        self._is_ending = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def room(self) -> int:
        """Return how many jobs the pool can take now; further jobs would only wait."""
        return max(0, self._num_workers * AHEAD - len(self._busy) - len(self._waiting))

    def submit(self, job: Job) -> None:
        """Accept a job, and start it if a worker is free."""
        self._waiting.append((job, 1))
        self._hand_out()

    def wait(self, seconds: float) -> list[Outcome]:
        """Return outcomes as soon as there are some, or an empty list after `seconds`.

        Raises
        ------
        ToolchainError
            If workers cannot start.
        """
        workers: dict[Any, Worker] = {worker.answers: worker for worker in self._busy}
        outcomes = []
        for answers in wait(list(workers), seconds):
            outcomes += self._received(workers[answers])
        self._hand_out()
        return outcomes

    def abandon(self) -> None:
        """Forget all jobs, and end the processes that are running jobs."""
        for worker in self._busy:
            worker.kill()
        self._busy.clear()
        self._waiting.clear()

    def end(self) -> None:
        """End the processes; called from a thread other than the one in :meth:`wait`."""
        self._is_ending = True
        for worker in (*self._idle, *self._busy):
            worker.terminate()

    def close(self) -> None:
        """End the processes and close all handles."""
        self.abandon()
        for worker in self._idle:
            worker.send(None)
        for worker in self._idle:
            worker.stop()
        self._idle.clear()

    def _hand_out(self) -> None:
        """Give waiting jobs to idle workers, and start workers for them."""
        while self._waiting and len(self._busy) < self._num_workers and not self._is_ending:
            while self._idle and not self._idle[-1].is_alive:
                self._idle.pop().kill()
            if self._idle:
                worker = self._idle.pop()
            else:
                worker = Worker(_MODULE, **_ONE_THREAD)
            self._busy[worker] = self._waiting.popleft()
            worker.send(self._busy[worker][0])

    def _received(self, worker: Worker) -> list[Outcome]:
        """Return a worker's outcome; queue its job again if the worker was lost, up to a limit."""
        job, attempt = self._busy[worker]
        try:
            outcome: Outcome = worker.receive()
            self._idle.append(worker)
        except WorkerEndedError as ended:
            reason = f"its worker process {ended}; run the task alone with pyflowers fit to see why"
            outcome = Outcome(job.key, reason, lost=True)
            if job.time_limit is not None and ended.status == -signal.SIGALRM:
                limit = f"its time limit of {job.time_limit:g} s"
                reason = f"it exceeded {limit}; raise the limit, or take fewer draws"
                outcome = Outcome(job.key, reason, seconds=job.time_limit)
        del self._busy[worker]
        if outcome.lost and attempt <= job.retries and not self._is_ending:
            self._waiting.appendleft((job, attempt + 1))
            return []
        return [replace(outcome, attempts=attempt)]
