"""The number of usable cores, and functions that divide work among threads or forked processes.

NumPy and SciPy let other threads run while they compute. So work that consists mostly of operations
on arrays of a few thousand elements runs in one thread per core, within one process.

A forked child inherits the parent's memory, imports included, so it starts within milliseconds.
Without fork, with a single core, or while another thread is running (which makes a fork unsafe),
the tasks are done in this process, one after another.

The threads of BLAS spin while they wait for each other. If each process had as many BLAS threads as
there are cores, small problems would take ten times as long, so each process has only one. This
limit applies only to libraries that are loaded before the fork: import SciPy first if tasks need
it.

In the children, Python's garbage collector ignores objects that existed before the fork, because
inspecting them would copy the memory pages that parent and child share.
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
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

R = TypeVar("R")
T = TypeVar("T")

PROCESS_LIMIT = (
    "the system's limit on processes and threads is reached; end other programs, or raise it with "
    "ulimit -u"
)

_SIGNS_OF_LIMIT = ("can't start new thread", "pthread_create failed", "fork")
"""The messages of Python, OpenBLAS and shells at the limit; see `is_process_limit`."""


def is_process_limit(message: str) -> bool:
    """Whether an error message says that no further process or thread could be started."""
    return any(sign in message for sign in _SIGNS_OF_LIMIT)


_FEW_PROCESSES = 64
"""The limit on processes below which a library may fail to start a thread for each core."""


def has_few_processes() -> bool:
    """Whether a limit on processes and threads may keep libraries from starting their threads."""
    try:
        import resource
    except ImportError:  # on Windows
        return False
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return limit != resource.RLIM_INFINITY and limit < _FEW_PROCESSES


_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def usable_cores() -> int:
    """Return the number of cores on which this process may run, regardless of any CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limited(cores: int | None) -> Iterator[None]:
    """Limit the number of cores that :func:`in_order` uses; None leaves the limit unchanged."""
    token = _limit.set(cores or _limit.get())
    try:
        yield
    finally:
        _limit.reset(token)


def in_order(tasks: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Yield the results in the order of the tasks, regardless of the number of threads.

    A task begins only when all but a few of the results before it have been consumed, so that few
    results are in memory at a time.

    Parameters
    ----------
    tasks : sequence of callable
        The tasks. None of them may change data that another one reads.

    Raises
    ------
    Exception
        The first exception that a task raised, in the order of the tasks.
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
"""The largest number of entries in the queue, a pipe that holds at least 4 KiB.

If there are more tasks, an entry stands for several of them.
"""

_take: Callable[[], dict[int, Any]]
"""The function that forked children run. They find it in memory, so it need not be pickled."""


def each(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Do every task and return the results in the order of the tasks.

    Parameters
    ----------
    tasks : sequence of callable
        The tasks. Their results must be picklable.

    Raises
    ------
    Exception
        An exception that a task raised.
    """
    return alongside(_nothing, tasks)[1]


def alongside(work: Callable[[], R], tasks: Sequence[Callable[[], T]]) -> tuple[R, list[T]]:
    """Do `work` in this process while other processes do the tasks, then help with the tasks.

    Parameters
    ----------
    work : callable
        The work for this process. Its result need not be picklable.
    tasks : sequence of callable
        The tasks. Their results must be picklable. They must not depend on changes that `work`
        makes, because only the tasks that are done in this process would see these changes.

    Returns
    -------
    done : object
        The result of `work`.
    results : list
        The results of the tasks, in the order of the tasks.

    Raises
    ------
    Exception
        The exception that `work` raised, or one that a task raised.
    """
    global _take
    if work is _nothing:
        num = processes(len(tasks))
    else:
        num = processes(len(tasks) + 1)
    if num < 2:
        return work(), [task() for task in tasks]

    # pyflowers --help imports this module and forks nothing.
    import multiprocessing

    from threadpoolctl import threadpool_limits

    queue, into = os.pipe()
    step = min(len(tasks), _MOST_NUMBERS)
    os.write(into, b"".join(number.to_bytes(4, "little") for number in range(step)))
    os.close(into)

    def take() -> dict[int, T]:
        """Do tasks until none is left. Each read takes one whole entry out of the pipe."""
        done = {}
        while taken := os.read(queue, 4):
            for number in range(int.from_bytes(taken, "little"), len(tasks), step):
                done[number] = tasks[number]()
        return done

    _take = take
    parent_ended, lifeline = os.pipe()
    context = multiprocessing.get_context("fork")
    children: list[tuple[BaseProcess, Connection]] = []
    try:
        with limited(1), threadpool_limits(1):
            # If the system allows no more processes, those that have started share the tasks.
            with suppress(BlockingIOError):
                for _ in range(num - 1):
                    answers, to = context.Pipe(duplex=False)
                    args = to, parent_ended, lifeline
                    child: BaseProcess = context.Process(target=_share, args=args)
                    child.start()
                    to.close()  # the child holds the other copy
                    children.append((child, answers))
            done, results = work(), take()
            for _, answers in children:
                with suppress(EOFError):  # a child was killed; its tasks are done below
                    others, error = answers.recv()
                    if error is not None:
                        raise error
                    results |= others
            results |= {i: task() for i, task in enumerate(tasks) if i not in results}
    finally:
        os.close(lifeline)  # ends the children that are still working
        for pipe in (parent_ended, queue):
            os.close(pipe)
        for child, answers in children:
            answers.close()
            child.join()
    return done, [results[number] for number in range(len(tasks))]


def _nothing() -> None:
    """Do nothing."""


def processes(num_tasks: int) -> int:
    """Return how many processes, including this one, share `num_tasks` tasks."""
    return min(_usable(), num_tasks)


def _usable() -> int:
    """Return how many processes may share work."""
    import multiprocessing

    from tqdm import TMonitor

    for thread in threading.enumerate():
        if isinstance(thread, TMonitor):
            thread.exit()  # tqdm starts this thread with its first bar, and again when needed
    if "fork" not in multiprocessing.get_all_start_methods() or threading.active_count() > 1:
        return 1
    return usable_cores()


def _share(to: Connection, parent_ended: int, lifeline: int) -> None:
    """Do tasks in a child, and send their results, or the exception that one of them raised.

    The child ends when its parent ends for any reason, and ends silently on Ctrl-C.
    """
    os.close(lifeline)
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        threading.Thread(target=_end_with_parent, args=(parent_ended,), daemon=True).start()
    except RuntimeError:  # the limit on threads is reached; the parent does the tasks
        os._exit(1)
    gc.freeze()
    error = None
    done: dict[int, Any] = {}
    try:
        done = _take()
    except Exception as raised:
        error = raised
    with suppress(OSError):  # the parent has stopped waiting
        to.send((done, error))


def _end_with_parent(parent_ended: int) -> None:
    """Exit when the pipe closes; only the parent holds its other end."""
    os.read(parent_ended, 1)
    os._exit(1)
