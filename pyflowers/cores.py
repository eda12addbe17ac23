"""How many cores this process may use, and work that threads or forked processes share.

NumPy and SciPy let other threads run while they compute, so what is mostly arrays of some thousand
elements is done by as many threads as there are cores, in one process and its memory.

A child has all that the parent has in memory, imports included, so that it starts within
milliseconds. Without fork, with a single core, or when another thread is running (which a fork
would interrupt), the tasks are done here, one after another.

The threads of BLAS spin while they wait for each other. Were there as many in each process as there
are cores, small problems would take ten times as long, so each process has one. That holds for
libraries which are loaded before the fork: import SciPy first where tasks need it.

In the children Python's garbage collector leaves alone what was there before the fork: to look
through it copies the pages that parent and child share.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

R = TypeVar("R")
T = TypeVar("T")

_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def usable_cores() -> int:
    """Return how many cores this process may use, which a container may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limited(cores: int | None) -> Iterator[None]:
    """Let :func:`in_order` use at most so many cores; None leaves it as it is."""
    token = _limit.set(_limit.get() if cores is None else cores)
    try:
        yield
    finally:
        _limit.reset(token)


def in_order(tasks: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Yield the tasks' results in their order, which does not depend on the number of threads.

    A task begins only when those more than a few before it have been taken, so that memory holds
    few results.

    Parameters
    ----------
    tasks : sequence of callable
        They must not change what another one reads.

    Raises
    ------
    Exception
        The first, in the tasks' order, that one raised.
    """
    num = min(_limit.get() or usable_cores(), len(tasks))
    if num < 2:
        for task in tasks:
            yield task()
        return
    executor = ThreadPoolExecutor(num)
    try:
        ahead: deque[Future[T]] = deque()
        for task in tasks:
            ahead.append(executor.submit(task))
            if len(ahead) > num:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


_MOST_NUMBERS = 1_000
"""Numbers in the queue, a pipe, which holds at least 4 KiB: of more tasks a number is several."""

_take: Callable[[], dict[int, Any]]
"""Do tasks until all are taken: what forked children find in memory, so that it is not pickled."""


def each(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Do every task and return the results in their order.

    Parameters
    ----------
    tasks : sequence of callable
        Their results must be picklable.

    Raises
    ------
    Exception
        The first that a task raised.
    """
    return beside(_nothing, tasks)[1]


def beside(work: Callable[[], R], tasks: Sequence[Callable[[], T]]) -> tuple[R, list[T]]:
    """Do `work` in this process while others do the tasks, then help them.

    Parameters
    ----------
    work : callable
        Its result need not be picklable.
    tasks : sequence of callable
        Their results must be; they do not see what `work` does.

    Returns
    -------
    done : object
        The result of `work`.
    results : list
        Those of the tasks, in their order.

    Raises
    ------
    Exception
        As from `work`, or the first that a task raised.
    """
    global _take
    num = processes(len(tasks)) if work is _nothing else processes(len(tasks) + 1)
    if num < 2:
        return work(), [task() for task in tasks]

    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    from threadpoolctl import threadpool_limits

    queue, into = os.pipe()
    step = min(len(tasks), _MOST_NUMBERS)
    os.write(into, b"".join(number.to_bytes(4, "little") for number in range(step)))
    os.close(into)

    def take() -> dict[int, T]:
        """Do tasks until all are taken; a read takes a number whole, and for itself."""
        done = {}
        while taken := os.read(queue, 4):
            for number in range(int.from_bytes(taken, "little"), len(tasks), step):
                done[number] = tasks[number]()
        return done

    _take = take
    parent_ended, lifeline = os.pipe()
    pipes = parent_ended, lifeline
    pool = ProcessPoolExecutor(num - 1, multiprocessing.get_context("fork"), _begin, pipes)
    try:
        with limited(1), threadpool_limits(1):
            children = [pool.submit(_taken) for _ in range(num - 1)]  # which forks all of them
            done, results = work(), take()
            for child in children:
                with suppress(BrokenProcessPool):  # it was killed: what it owes is done here
                    results |= child.result()
            results |= {i: task() for i, task in enumerate(tasks) if i not in results}
        pool.shutdown()
    finally:
        os.close(lifeline)  # which ends the children that still work
        for pipe in (parent_ended, queue):
            os.close(pipe)
        pool.shutdown(cancel_futures=True)
    return done, [results[number] for number in range(len(tasks))]


def _nothing() -> None:
    """Do nothing."""


def processes(num_tasks: int) -> int:
    """Return how many processes share so many tasks, this one included."""
    return min(_usable(), num_tasks)


def _usable() -> int:
    """Return how many processes may share work."""
    import multiprocessing

    from tqdm import TMonitor

    for thread in threading.enumerate():
        if isinstance(thread, TMonitor):
            thread.exit()  # tqdm starts it with its first bar, and again when it needs it
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return 1
    return usable_cores()


def _begin(parent_ended: int, lifeline: int) -> None:
    """Begin a child: it ends with its parent, whatever ends that, and silently on Ctrl-C."""
    os.close(lifeline)
    threading.Thread(target=_end_with_parent, args=(parent_ended,), daemon=True).start()
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    gc.freeze()


def _end_with_parent(parent_ended: int) -> None:
    """Wait for the end of a pipe whose other end the parent alone holds."""
    os.read(parent_ended, 1)
    os._exit(1)


def _taken() -> dict[int, Any]:
    return _take()
