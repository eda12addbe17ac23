"""A pool of worker processes on this machine, each of which fits on one core."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import cast

from pyflowers.batches.process import Worker, WorkerEndedError, crashed, out_of_time
from pyflowers.batches.task import Job, Outcome
from pyflowers.cores import usable_cores
from pyflowers.errors import ConfigError

AHEAD = 2
"""Jobs that a worker has been given: one under way, and one so that it need not wait."""


class Pool:
    """Worker processes, one for each core; they start when there is work and stay until closed.

    Parameters
    ----------
    num_workers : int, optional
        How many; the usable cores by default.

    Raises
    ------
    ConfigError
        If it is no such number.
    """

    def __init__(self, num_workers: int | None = None) -> None:
        number = usable_cores() if num_workers is None else num_workers
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ConfigError(f"workers must be a whole number of at least 1, was {number!r}")
        self._num_workers = number
        self._workers: list[Worker] = []
        self._again: deque[Job] = deque()
        self._attempts: Counter[str] = Counter()
        self._shipments: Mapping[str, bytes] = {}
        self._outcomes: list[Outcome] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The workers' process numbers."""
        return [worker.pid for worker in self._workers]

    def room(self) -> int:
        """See :class:`~pyflowers.batches.executor.Executor`."""
        given = sum(len(worker.jobs) for worker in self._workers) + len(self._again)
        return max(0, self._num_workers * AHEAD - given)

    def submit(self, job: Job, shipments: Mapping[str, bytes]) -> None:
        """See :class:`~pyflowers.batches.executor.Executor`."""
        self._shipments = shipments
        self._again.append(job)
        self._hand_out()

    def wait(self, seconds: float) -> list[Outcome]:
        """See :class:`~pyflowers.batches.executor.Executor`."""
        self._hand_out()
        limits = [worker.seconds_left for worker in self._workers]
        soonest = min([seconds, *(left for left in limits if left is not None)])
        lines = {worker.line: worker for worker in self._workers}
        for line in wait(list(lines), soonest):
            self._receive(lines[cast(Connection, line)])
        for worker in list(self._workers):
            if worker.seconds_left == 0:
                self._end(worker, out_of_time)
        self._hand_out()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def abandon(self) -> None:
        """See :class:`~pyflowers.batches.executor.Executor`."""
        for worker in [worker for worker in self._workers if worker.jobs]:
            worker.kill()
            self._workers.remove(worker)
        self._again.clear()
        self._attempts.clear()
        self._outcomes.clear()

    def close(self) -> None:
        """See :class:`~pyflowers.batches.executor.Executor`."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def _hand_out(self) -> None:
        """Give waiting jobs to the workers with the fewest, and start workers for them."""
        while self._again:
            if len(self._workers) < self._num_workers:
                self._workers.append(Worker())
            idlest = min(self._workers, key=lambda worker: len(worker.jobs))
            if len(idlest.jobs) >= AHEAD:
                return
            idlest.give(self._again.popleft(), self._shipments)

    def _receive(self, worker: Worker) -> None:
        job = worker.jobs[0] if worker.jobs else None
        try:
            outcome = worker.receive()
        except WorkerEndedError as ended:
            worker.refuse_false_start()
            self._end(worker, partial(crashed, how=str(ended)))
            return
        if outcome is not None and job is not None:
            self._settle(job, outcome)

    def _settle(self, job: Job, outcome: Outcome) -> None:
        """Pass an outcome on, or begin again if a process was lost."""
        self._attempts[job.key] += 1
        if outcome.lost and self._attempts[job.key] <= job.retries:
            self._again.appendleft(job)
        else:
            self._outcomes.append(replace(outcome, attempts=self._attempts.pop(job.key)))

    def _end(self, worker: Worker, outcome_of: Callable[[Job], Outcome]) -> None:
        """Replace a worker; another one runs the jobs that it had not started."""
        worker.kill()
        self._workers.remove(worker)
        if worker.jobs:
            job = worker.jobs.popleft()
            self._settle(job, outcome_of(job))
        self._again.extendleft(reversed(worker.jobs))
