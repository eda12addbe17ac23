"""Worker processes that run the interpreter: started when needed, kept for the next call.

A worker is asked over its standard input and answers over its standard output, in pickled messages
whose arrays are binary. It lives in a session of its own, so that Ctrl-C reaches this process
alone, and exits when its input ends, which happens when this process ends for any reason.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, cast

from pyflowers.engines.base import ProcessLostError
from pyflowers.modules import module_command, module_environment

MOST_IDLE = 2
"""Workers kept for later; more exist while as many threads ask at once."""


@dataclass(frozen=True)
class Request:
    """A question to a worker.

    Attributes
    ----------
    kind : str
        ``load``, ``sample``, or ``open_density`` and the requests to an open one: ``evaluate``,
        ``constrain``, ``unconstrain``.
    text : str
        The program with its includes in place.
    key : str
        Its digest, by which a worker remembers it.
    data : mapping
        The data block, as NumPy values.
    options : mapping
        How to sample, or what to evaluate.
    keep : tuple of str or None
        Variables to return.
    """

    kind: str
    text: str
    key: str
    data: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    keep: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Answer:
    """What a worker found.

    Attributes
    ----------
    values : mapping
        The result; empty after an error.
    error : str
        What the interpreter said of a failure; empty if there was none.
    console : str
        What it printed.
    """

    values: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    console: str = ""


@dataclass(frozen=True)
class Progress:
    """The progress of a chain."""

    chain: int
    iteration: int
    total: int
    is_warmup: bool


class Worker:
    """One worker process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            module_command("pyflowers.engines.stanli.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=module_environment(),
        )
        self._to = cast(IO[bytes], self._process.stdin)
        self._from = cast(IO[bytes], self._process.stdout)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, request: Request, bars: Any = None) -> Answer:
        """Send a request and wait for the answer.

        Raises
        ------
        ProcessLostError
            If the worker dies.
        """
        try:
            pickle.dump(request, self._to, protocol=5)
            self._to.flush()
            while True:
                message = pickle.load(self._from)
                if isinstance(message, Answer):
                    return message
                if bars is not None:
                    bars(message)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError, ConnectionError) as error:
            self._process.wait()
            raise ProcessLostError(_died(self._process.returncode)) from error

    def kill(self) -> None:
        """Kill the process and clean up after it."""
        with suppress(OSError):
            self._process.kill()
        with suppress(OSError):
            self._process.wait()
        for stream in (self._to, self._from):
            with suppress(OSError):
                stream.close()

    def forget(self) -> None:
        """Let go of the pipes in a forked child, whose parent keeps the worker."""
        for stream in (self._to, self._from):
            with suppress(OSError, ValueError):
                os.close(stream.fileno())


_lock = threading.Lock()
_idle: list[Worker] = []
_all: set[Worker] = set()
_here: Callable[[Request], Answer] | None = None
"""The interpreter of this process itself, if it has one."""


def ask(request: Request, *, show_progress: int = 0) -> Answer:
    """Ask a worker, a new one if all are busy.

    Parameters
    ----------
    request : Request
        The question.
    show_progress : int
        Number of chains to draw a bar for; 0 for none.

    Raises
    ------
    ProcessLostError
        If the worker dies.
    """
    # The interpreter is called by one thread of a process, and by the same one each time.
    if _here is not None and threading.current_thread() is threading.main_thread():
        return _here(request)
    with _bars(show_progress) as bars, _worker() as worker:
        return worker.ask(request, bars)


def answer_by(interpreter: Callable[[Request], Answer]) -> None:
    """Let the main thread's requests be answered in this process, whose progress is not shown."""
    global _here
    _here = interpreter


def close_workers() -> None:
    """End all workers."""
    with _lock:
        workers = list(_all)
        _all.clear()
        _idle.clear()
    for worker in workers:
        worker.kill()


@contextmanager
def _worker() -> Iterator[Worker]:
    """Yield a worker, kept afterwards unless the block was cut short."""
    with _lock:
        while _idle and not _idle[-1].is_alive:
            dead = _idle.pop()
            _all.discard(dead)
            dead.kill()
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = Worker()
        with _lock:
            _all.add(worker)
    try:
        yield worker
    except BaseException:
        with _lock:
            _all.discard(worker)
        worker.kill()
        raise
    with _lock:
        keep = worker in _all and len(_idle) < MOST_IDLE
        if keep:
            _idle.append(worker)
        else:
            _all.discard(worker)
    if not keep:
        worker.kill()


@contextmanager
def _bars(chains: int) -> Iterator[Any]:
    """Yield what takes each :class:`Progress`: a bar for each chain."""
    if not chains:
        yield None
        return
    from tqdm import tqdm

    bars = [tqdm(total=1, desc=f"chain {i + 1}", leave=False) for i in range(chains)]

    def show(progress: Progress) -> None:
        bar = bars[progress.chain - 1]
        bar.total = progress.total
        bar.set_postfix_str("warm-up" if progress.is_warmup else "sampling", refresh=False)
        bar.update(progress.iteration - bar.n)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()


def _died(code: int | None) -> str:
    return f"the Stan interpreter {how_it_ended(code)}; run again, or use --engine cmdstan"


def how_it_ended(code: int | None) -> str:
    """Say how a process ended, by its exit status as :mod:`subprocess` gives it."""
    if code is None or code >= 0:
        return f"ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = ", which often means that memory ran out" if -code == signal.SIGKILL else ""
    return f"was killed by signal {name}{hint}"


def _after_fork() -> None:
    """Forget the parent's workers in a forked child."""
    global _lock, _here
    _lock, _here = threading.Lock(), None
    for worker in list(_all):
        worker.forget()
    _all.clear()
    _idle.clear()


atexit.register(close_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
