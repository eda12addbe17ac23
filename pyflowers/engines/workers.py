"""Worker processes: starting them, sending them requests, and ending them.

A worker is a Python process that runs a module. It reads requests from its standard input and
writes responses to its standard output, as pickled messages. A worker runs in a separate session,
so that Ctrl-C reaches only its owner. The worker's main thread does the work. A second thread reads
the requests, and ends the process as soon as the input ends, which happens when the owner ends for
any reason.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakSet

from pyflowers.cores import PROCESS_LIMIT, is_process_limit
from pyflowers.errors import ToolchainError
from pyflowers.resources import worker_command

MOST_IDLE = 2
"""The maximum number of idle workers that are kept; the number of busy workers is not limited."""

SECONDS_TO_STOP = 2.0

_STARTED = b"<started>"
"""Text that a worker writes to its standard error before it responds to its first request."""


class WorkerEndedError(Exception):
    """A worker ended before it responded; the message describes how.

    Attributes
    ----------
    status : int
        The worker's exit status, as :mod:`subprocess` reports it.
    """

    def __init__(self, status: int) -> None:
        super().__init__(how_it_ended(status))
        self.status = status


class Worker:
    """A worker process, as its owner uses it.

    Parameters
    ----------
    module : str
        The module that the worker runs, whose main program calls :func:`serve`.
    **environment : str
        Environment variables for the worker, in addition to those of this process.
    """

    def __init__(self, module: str, **environment: str) -> None:
        # Errors go to a file, because a full pipe that is not read would block the process.
        self._errors = _scratch()
        self._process = subprocess.Popen(
            worker_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        self._to = cast(IO[bytes], self._process.stdin)
        self.answers = cast(IO[bytes], self._process.stdout)
        _open.add(self)

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def send(self, question: Any) -> None:
        """Send a request; if the process has ended, :meth:`receive` will report this."""
        with suppress(OSError):
            pickle.dump(question, self._to, protocol=5)
            self._to.flush()

    def receive(self) -> Any:
        """Wait for a message.

        Raises
        ------
        WorkerEndedError
            If the process has ended.
        ToolchainError
            If the process could not start.
        """
        try:
            message = pickle.load(self.answers)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._end()
            self._errors.seek(0)
            written = self._errors.read().strip()
            self.kill()
            if written and not written.endswith(_STARTED):
                text = written.decode("utf-8", "replace")
                if is_process_limit(text):
                    raise ToolchainError(PROCESS_LIMIT) from error
                reason = text.splitlines()[-1]
                raise ToolchainError(
                    f"a worker process could not start ({reason}); reinstall pyflowers"
                ) from error
            raise WorkerEndedError(self._process.returncode) from error
        return message

    def stop(self) -> None:
        """Ask the process to end, and kill it if it does not."""
        self.send(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_STOP)
        self.kill()

    def kill(self) -> None:
        """Kill the process and clean up after it."""
        self._end()
        for stream in (self._to, self.answers, self._errors):
            with suppress(OSError):
                stream.close()

    def terminate(self) -> None:
        """Kill the process, from a thread other than the one that waits for its response."""
        with suppress(OSError):
            self._process.kill()

    def forget(self) -> None:
        """Close the pipes in a forked child, whose parent keeps the worker."""
        for stream in (self._to, self.answers, self._errors):
            with suppress(OSError):
                cast(Any, stream).raw.close()

    def _end(self) -> None:
        self.terminate()
        self._process.wait()


def _scratch() -> IO[bytes]:
    """Return a temporary file for a worker's errors, or the null device if no file can be made."""
    try:
        return cast(IO[bytes], tempfile.TemporaryFile())
    except OSError:
        return Path(os.devnull).open("r+b")


_open: WeakSet[Worker] = WeakSet()
_idle: list[Worker] = []


@contextmanager
def borrowed(module: str) -> Iterator[Worker]:
    """Yield a worker, possibly from an earlier call; it is killed if the block fails."""
    worker = None
    while worker is None or not worker.is_alive:
        if worker is not None:
            worker.kill()
        try:
            worker = _idle.pop()
        except IndexError:
            worker = Worker(module)
    try:
        yield worker
    except BaseException:
        worker.kill()
        raise
    if len(_idle) < MOST_IDLE:
        _idle.append(worker)
    else:
        worker.kill()


def close_workers() -> None:
    """End the idle workers."""
    while _idle:
        _idle.pop().kill()


def serve(begin: Callable[[Callable[[Any], None]], Callable[[Any], Any]]) -> None:
    """Respond to requests until there are no more: the main loop of a worker.

    Output of the process and its children is discarded, except errors that occur before
    `begin` returns.

    Parameters
    ----------
    begin : callable
        Function that takes a function for sending extra messages, and returns the function that
        responds to a request.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked, to = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def receive() -> None:
        question: Any = ...
        while question is not None:
            try:
                question = pickle.load(asked)
            except (EOFError, OSError, pickle.UnpicklingError):
                os._exit(0)  # no one is waiting for a response
            questions.put(question)

    def send(message: Any) -> None:
        try:
            pickle.dump(message, to, protocol=5)
            to.flush()
        except OSError:
            os._exit(0)

    answer = begin(send)
    threading.Thread(target=receive, daemon=True).start()
    os.write(2, _STARTED)  # messages printed before this do not explain a later crash
    os.dup2(nowhere, 2)
    for question in iter(questions.get, None):
        send(answer(question))


def how_it_ended(code: int) -> str:
    """Describe how a process ended, given its exit status from :mod:`subprocess`."""
    if code >= 0:
        return f"ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    if -code == signal.SIGKILL:
        hint = ", which often means that memory ran out"
    else:
        hint = ""
    return f"was killed by signal {name}{hint}"


def _after_fork() -> None:
    """Forget the parent's workers in a forked child."""
    for worker in list(_open):
        worker.forget()
    _open.clear()
    _idle.clear()


atexit.register(close_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
