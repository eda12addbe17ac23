"""What runs in a Dask worker: it owns the processes that fit, and passes jobs on to them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from distributed import WorkerPlugin, get_worker

from pyflowers.batches.process import Worker, finished
from pyflowers.batches.task import Job, Outcome

_PLACE = "pyflowers_host"


class Host:
    """The worker processes of one Dask worker, one for each of its threads that fits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._shipments: dict[str, bytes] = {}
        self._is_closed = False

    def provide(self, program_id: str, shipment: bytes) -> None:
        """Keep a program for the processes; doing so twice costs nothing."""
        self._shipments[program_id] = shipment

    def fit(self, job: Job) -> Outcome:
        """Run a job, again if its process has ended."""
        attempts = 0
        while True:
            attempts += 1
            worker = self._taken()
            try:
                outcome = finished(worker, job, self._shipments)
            finally:
                self._put_back(worker)
            if not outcome.lost or attempts > job.retries or self._is_closed:
                return replace(outcome, attempts=attempts)

    def close(self) -> None:
        """End the processes; another Dask worker runs their jobs again."""
        with self._lock:
            self._is_closed = True
            workers = [*self._idle, *self._busy]
            self._idle = []
        for worker in workers:
            worker.end()

    def _taken(self) -> Worker:
        with self._lock:
            worker = self._idle.pop() if self._idle else Worker()
            self._busy.append(worker)
        return worker

    def _put_back(self, worker: Worker) -> None:
        with self._lock:
            self._busy.remove(worker)
            if worker.is_idle and not self._is_closed:
                self._idle.append(worker)
                return
        worker.kill()


def fit_on_worker(job: Job) -> Outcome:
    """Run one job; called in a thread of a Dask worker."""
    host: Host = getattr(get_worker(), _PLACE)
    return host.fit(job)


class Provision(WorkerPlugin):  # type: ignore[misc]
    """Brings a program to each Dask worker; a second one of its name costs nothing.

    Parameters
    ----------
    program_id : str
        Digest of the program and its engine.
    shipment : bytes
        Both, pickled.
    """

    idempotent = True

    def __init__(self, program_id: str, shipment: bytes) -> None:
        self.name = f"pyflowers-{program_id}"
        self._program_id, self._shipment = program_id, shipment

    def setup(self, worker: Any) -> None:
        """Keep the program in the worker."""
        if not hasattr(worker, _PLACE):
            setattr(worker, _PLACE, Host())
        getattr(worker, _PLACE).provide(self._program_id, self._shipment)

    def teardown(self, worker: Any) -> None:
        """End the worker's processes with it."""
        getattr(worker, _PLACE).close()
