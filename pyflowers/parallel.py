"""Work that is shared by forked processes.

A child has all that the parent has in memory, imports included, so that it starts within
milliseconds. Each process takes the next task when it has done one. Without fork, with a single
core, or when another thread is running (which a fork would interrupt), the tasks are done here,
one after another.

The threads of BLAS spin while they wait for each other. Were there as many in each process as there
are cores, small problems would take ten times as long, so each process has one. That holds for
libraries which are loaded before the fork: import SciPy first where tasks need it.

Python's garbage collector leaves alone what was there before the fork: to look through it, again
and again, takes a tenth of the time of a figure, and copies the pages that parent and child share.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tqdm import TMonitor

from pyflowers.cores import limited, usable_cores

R = TypeVar("R")
T = TypeVar("T")

_BYTES = 4
"""Of a task's number in the queue."""

_MOST_NUMBERS = 1_000
"""Numbers in the queue, a pipe, which holds at least 4 KiB: of more tasks a number is several."""


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
    return _shared(lambda: None, tasks, processes(len(tasks)) - 1)[1]


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
    return _shared(work, tasks, processes(len(tasks) + 1) - 1)


def _shared(
    work: Callable[[], R], tasks: Sequence[Callable[[], T]], num_children: int
) -> tuple[R, list[T]]:
    """Fork children that do tasks, `work` and then help; each has one core, BLAS included."""
    if num_children < 1:
        return work(), [task() for task in tasks]
    from threadpoolctl import threadpool_limits

    results: dict[int, T] = {}
    with limited(1), threadpool_limits(1), _frozen(), _queue(len(tasks)) as (queue, step):

        def take() -> dict[int, T]:
            done = {}
            while taken := os.read(queue, _BYTES):
                for i in range(int.from_bytes(taken, "little"), len(tasks), step):
                    done[i] = tasks[i]()
            return done

        with _forked(take, num_children) as receivers:
            own = work()
            results |= take()
            for receiver in receivers:
                results |= _received(receiver)
    for i, task in enumerate(tasks):
        if i not in results:  # of a child that died
            results[i] = task()
    return own, [results[i] for i in range(len(tasks))]


@contextmanager
def _frozen() -> Iterator[None]:
    """Hide what is in memory from the garbage collector; what a caller has frozen stays so."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _queue(num_tasks: int) -> Iterator[tuple[int, int]]:
    """Yield a pipe of numbers that processes take, and the step from a number's task to its next.

    A read takes a number whole and for itself; the pipe ends when all are taken. No process can
    die with a lock that the others wait for.
    """
    step = max(1, min(num_tasks, _MOST_NUMBERS))
    queue, into = os.pipe()
    try:
        for number in range(min(num_tasks, step)):
            os.write(into, number.to_bytes(_BYTES, "little"))
        os.close(into)
        yield queue, step
    finally:
        os.close(queue)


@contextmanager
def _forked(work: Callable[[], Any], num: int) -> Iterator[list[Any]]:
    """Fork children that do `work`, and yield the pipes that they answer by."""
    context: Any = multiprocessing.get_context("fork")
    parent_ended, lifeline = os.pipe()
    children = []
    try:
        for _ in range(num):
            receiver, sender = context.Pipe(duplex=False)
            pipes = sender, parent_ended, lifeline
            child = context.Process(target=_answer, args=(work, *pipes), daemon=True)
            child.start()
            sender.close()
            children.append((receiver, child))
        yield [receiver for receiver, _ in children]
    finally:
        os.close(lifeline)  # which ends the children that still work
        os.close(parent_ended)
        for receiver, child in children:
            receiver.close()
            child.join()


def processes(num_tasks: int) -> int:
    """Return how many processes share so many tasks, this one included."""
    return min(_usable(), num_tasks)


def _usable() -> int:
    """Return how many processes may share work."""
    for thread in threading.enumerate():
        if isinstance(thread, TMonitor):
            thread.exit()  # tqdm starts it with its first bar, and again when it needs it
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return 1
    return usable_cores()


def _answer(work: Callable[[], Any], pipe: Any, parent_ended: int, lifeline: int) -> None:
    """Do a child's work and send what it returns, or what it raised."""
    os.close(lifeline)
    threading.Thread(target=_end_with_parent, args=(parent_ended,), daemon=True).start()
    try:
        answer: tuple[Any, Exception | None] = (work(), None)
    except Exception as error:
        answer = (None, error)
    pipe.send(answer)


def _end_with_parent(parent_ended: int) -> None:
    """Wait for the end of a pipe whose other end the parent alone holds, whatever ends it."""
    os.read(parent_ended, 1)
    os._exit(1)


def _received(pipe: Any) -> dict[int, Any]:
    """Return a child's results, none of one that died."""
    try:
        results, error = pipe.recv()
    except EOFError:
        return {}
    if error is not None:
        raise error
    done: dict[int, Any] = results
    return done
