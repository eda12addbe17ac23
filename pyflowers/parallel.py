"""Work that is split between forked processes.

A child has all that the parent has in memory, imports included, so that it starts within
milliseconds. Without fork, with a single core, or when another thread is running (which a fork
would interrupt), the tasks are done here, one after another.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tqdm import TMonitor

T = TypeVar("T")


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
    num = processes(len(tasks))
    if num < 2:
        return [task() for task in tasks]
    context: Any = multiprocessing.get_context("fork")
    parent_ended, lifeline = os.pipe()
    children = []
    results: dict[int, T] = {}
    try:
        for first in range(1, num):
            receiver, sender = context.Pipe(duplex=False)
            pipes = sender, parent_ended, lifeline
            child = context.Process(target=_answer, args=(tasks[first::num], *pipes), daemon=True)
            child.start()
            sender.close()
            children.append((first, receiver, child))
        results.update(
            zip(range(0, len(tasks), num), [task() for task in tasks[::num]], strict=True)
        )
        for first, receiver, _ in children:
            done = _received(receiver, tasks[first::num])
            results.update(zip(range(first, len(tasks), num), done, strict=True))
    finally:
        os.close(lifeline)  # which ends the children that still work
        os.close(parent_ended)
        for _, receiver, child in children:
            receiver.close()
            child.join()
    return [results[i] for i in range(len(tasks))]


def processes(num_tasks: int) -> int:
    """Return how many processes :func:`each` shares so many tasks between, this one included."""
    return min(_usable(), num_tasks)


def _usable() -> int:
    """Return how many processes may share work."""
    for thread in threading.enumerate():
        if isinstance(thread, TMonitor):
            thread.exit()  # tqdm starts it with its first bar, and again when it needs it
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _answer(
    tasks: Sequence[Callable[[], Any]], pipe: Any, parent_ended: int, lifeline: int
) -> None:
    """Do the tasks of a child and send what they return, or what one of them raised."""
    os.close(lifeline)
    threading.Thread(target=_end_with_parent, args=(parent_ended,), daemon=True).start()
    try:
        answer: tuple[Any, Exception | None] = ([task() for task in tasks], None)
    except Exception as error:
        answer = (None, error)
    pipe.send(answer)


def _end_with_parent(parent_ended: int) -> None:
    """Wait for the end of a pipe whose other end the parent alone holds, whatever ends it."""
    os.read(parent_ended, 1)
    os._exit(1)


def _received(pipe: Any, tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Return a child's results; the tasks of a child that died are done here."""
    try:
        results, error = pipe.recv()
    except EOFError:
        return [task() for task in tasks]
    if error is not None:
        raise error
    done: list[T] = results
    return done
