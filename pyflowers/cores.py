"""How many cores this process may use, and work that its threads share.

NumPy and SciPy let other threads run while they compute, so what is mostly arrays of some thousand
elements is done by as many threads as there are cores, in one process and its memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

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
