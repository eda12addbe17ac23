"""Worker processes: how they are started, asked and ended, whatever they do.

A worker is ``python -m MODULE``. It is asked over its standard input and answers over its standard
output, in pickled messages whose arrays are binary. It lives in a session of its own, so that
Ctrl-C reaches its owner alone. Its main thread works; another one reads, and ends the process at
once when the input ends, which happens when its owner ends for any reason.
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

from pyflowers.errors import ToolchainError
from pyflowers.resources import module_command, module_environment

MOST_IDLE = 2
"""Workers kept for later; more exist while as many threads ask at once."""

SECONDS_TO_STOP = 2.0

_STARTED = b"<started>"
"""What a worker writes to its errors before it answers its first question."""


class WorkerEndedError(Exception):
    """A worker ended before it answered; the message says how.

    Attributes
    ----------
    status : int
        Its exit status, as :mod:`subprocess` gives it.
    """

    def __init__(self, status: int) -> None:
        super().__init__(how_it_ended(status))
        self.status = status


class Worker:
    """A worker process as its owner sees it.

    Parameters
    ----------
    module : str
        What it runs; the module's main calls :func:`serve`.
    **environment : str
        Variables of its environment besides this process's.
    """

    def __init__(self, module: str, **environment: str) -> None:
        # A file, because a pipe that nobody reads holds the process up when it is full.
        self._errors = _scratch()
        self._process = subprocess.Popen(
            module_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env=module_environment(**environment),
        )
        self._to = cast(IO[bytes], self._process.stdin)
        self.answers = cast(IO[bytes], self._process.stdout)
        _open.add(self)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def send(self, question: Any) -> None:
        """Send a question; if the process has ended, that is found when it is to answer."""
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
            If it could not even start.
        """
        try:
            message = pickle.load(self.answers)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._end()
            self._errors.seek(0)
            written = self._errors.read().strip()
            self.kill()
            if written and not written.endswith(_STARTED):
                reason = written.decode("utf-8", "replace").splitlines()[-1]
                raise ToolchainError(
                    f"a worker process could not start ({reason}); reinstall pyflowers"
                ) from error
            raise WorkerEndedError(self._process.returncode) from error
        return message

    def stop(self) -> None:
        """Let the process end by itself, and end it if it does not."""
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
        """Kill the process from another thread than the one that waits for its answer."""
        with suppress(OSError):
            self._process.kill()

    def forget(self) -> None:
        """Let go of the pipes in a forked child, whose parent keeps the worker."""
        for stream in (self._to, self.answers, self._errors):
            with suppress(OSError):
                cast(Any, stream).raw.close()

    def _end(self) -> None:
        self.terminate()
        self._process.wait()


def _scratch() -> IO[bytes]:
    """Return a file for what a worker says until it has started, or one that keeps nothing."""
    try:
        return cast(IO[bytes], tempfile.TemporaryFile())
    except OSError:
        return Path(os.devnull).open("r+b")


_open: WeakSet[Worker] = WeakSet()
_idle: list[Worker] = []


@contextmanager
def borrowed(module: str) -> Iterator[Worker]:
    """Yield a worker, perhaps one of an earlier call; it is ended if the block is cut short."""
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
    """End the workers that are kept for later."""
    while _idle:
        _idle.pop().kill()


def serve(begin: Callable[[Callable[[Any], None]], Callable[[Any], Any]]) -> None:
    """Answer questions until there are no more: what a worker's main does.

    Whatever the process or what it starts prints is discarded.

    Parameters
    ----------
    begin : callable
        Takes what sends a message besides the answer, and returns what answers a question.
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
                os._exit(0)  # nobody is waiting for an answer
            questions.put(question)

    def send(message: Any) -> None:
        try:
            pickle.dump(message, to, protocol=5)
            to.flush()
        except OSError:
            os._exit(0)

    answer = begin(send)
    os.write(2, _STARTED)  # what it said until now is not why it ends later
    os.dup2(nowhere, 2)
    threading.Thread(target=receive, daemon=True).start()
    for question in iter(questions.get, None):
        send(answer(question))


def how_it_ended(code: int) -> str:
    """Say how a process ended, by its exit status as :mod:`subprocess` gives it."""
    if code >= 0:
        return f"ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = ", which often means that memory ran out" if -code == signal.SIGKILL else ""
    return f"was killed by signal {name}{hint}"


def _after_fork() -> None:
    """Forget the parent's workers in a forked child."""
    for worker in list(_open):
        worker.forget()
    _open.clear()
    _idle.clear()


atexit.register(close_workers)
os.register_at_fork(after_in_child=_after_fork)
