"""A worker process as its owner sees it: jobs go over a socket, and it is watched and ended."""

from __future__ import annotations

import pickle
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from pyflowers.batches.task import Job, Outcome
from pyflowers.batches.worker import READY, STOP
from pyflowers.engines.stanli.pool import how_it_ended
from pyflowers.errors import ToolchainError
from pyflowers.modules import module_command, module_environment

SECONDS_TO_STOP = 2.0
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "STAN_NUM_THREADS"), "1"
)
"""One core a fit: no library of a worker starts threads of its own."""


class WorkerEndedError(Exception):
    """A worker's process is gone; the message says how it ended."""


class Worker:
    """One worker process and the jobs that it has been given.

    It lives in a session of its own, so that Ctrl-C reaches this process alone.
    """

    def __init__(self) -> None:
        own_end, worker_end = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with worker_end:
            self._process = subprocess.Popen(
                module_command("pyflowers.batches.worker", str(worker_end.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
                pass_fds=(worker_end.fileno(),),
                env=module_environment(**_ONE_THREAD),
            )
        self.line = Connection(own_end.detach())
        self.jobs: deque[Job] = deque()
        self.is_ready = False
        self._loading: deque[str] = deque()
        self._since = time.monotonic()
        self._provided: set[str] = set()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def give(self, job: Job, shipments: Mapping[str, bytes]) -> None:
        """Send a job, with its program if the worker has not had it; its death is found later."""
        if not self.jobs:
            self._since = time.monotonic()
        self.jobs.append(job)
        with suppress(OSError):
            if job.program_id not in self._provided:
                self._provided.add(job.program_id)
                self._loading.append(job.key)
                self._send(("provide", job.program_id, shipments[job.program_id]))
            self._send(("perform", job.key, job.program_id, job.work))

    def receive(self) -> Outcome | None:
        """Take what the worker sent: its first job's outcome, or nothing but that it is ready.

        Raises
        ------
        WorkerEndedError
            If the process has ended.
        """
        try:
            message = pickle.loads(self.line.recv_bytes())
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self.kill()
            raise WorkerEndedError(how_it_ended(self._process.returncode)) from error
        self._since = time.monotonic()
        if message == READY:
            if self.is_ready:
                self._loading.popleft()
            self.is_ready = True
            return None
        self.jobs.popleft()
        outcome: Outcome = message
        return outcome

    @property
    def seconds_left(self) -> float | None:
        """How long its first job may still take: None without a limit, or before it has begun."""
        if not self.jobs or self.jobs[0].time_limit is None or not self.is_ready:
            return None
        if self._loading and self._loading[0] == self.jobs[0].key:
            return None
        return max(0.0, self._since + self.jobs[0].time_limit - time.monotonic())

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a job."""
        return not self.jobs and not self.line.closed

    def end(self) -> None:
        """Let whoever waits for it know that it has ended."""
        with suppress(OSError):
            self._process.kill()

    def stop(self) -> None:
        """Let the process end by itself, and end it if it does not."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self._send(STOP)
            self._process.wait(SECONDS_TO_STOP)
        self.kill()

    def kill(self) -> None:
        """Kill the process and clean up after it."""
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        self.line.close()
        if not self.is_ready and not self._errors.closed:
            self._errors.seek(0)
            self.last_words = self._errors.read().decode("utf-8", "replace").strip()
        self._errors.close()

    def refuse_false_start(self) -> None:
        """Raise if the process could not even start.

        Raises
        ------
        ToolchainError
            With the last line that it wrote.
        """
        if not self.is_ready and self.last_words:
            reason = self.last_words.splitlines()[-1]
            raise ToolchainError(
                f"a worker process could not start ({reason}); reinstall pyflowers"
            )

    last_words = ""

    def _send(self, message: Any) -> None:
        self.line.send_bytes(pickle.dumps(message, protocol=5))


def finished(worker: Worker, job: Job, shipments: Mapping[str, bytes]) -> Outcome:
    """Give a job to an idle worker and wait for its outcome.

    Raises
    ------
    ToolchainError
        If the process could not even start.
    """
    worker.give(job, shipments)
    while True:
        try:
            if not worker.line.poll(worker.seconds_left):
                worker.kill()
                return out_of_time(job)
            outcome = worker.receive()
        except WorkerEndedError as ended:
            worker.refuse_false_start()
            return crashed(job, str(ended))
        if outcome is not None:
            return outcome


def out_of_time(job: Job) -> Outcome:
    """Return the outcome of a job whose time is up."""
    limit = job.time_limit or 0.0
    reason = f"it exceeded its time limit of {limit:g} s; raise the limit, or take fewer draws"
    return Outcome(job.key, reason, limit)


def crashed(job: Job, how: str) -> Outcome:
    """Return the outcome of a job whose process has ended."""
    reason = f"its worker process {how}; run it alone with pyflowers fit to see why"
    return Outcome(job.key, reason, lost=True)
