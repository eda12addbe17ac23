"""Progress of long-running work: a bar on a terminal, elsewhere a few lines in the log."""

import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from pyflowers.text import counted

logger = logging.getLogger("pyflowers")


SECONDS = 60.0
"""The number of seconds between log lines on the steps of a stage, if there is no terminal."""

FIRST = 30.0
"""The number of seconds until the first log line on other work; it doubles with each line."""

TICK = 1.0
"""The number of seconds between updates of a clock on the terminal."""


def duration(seconds: float) -> str:
    """Return a time in words, such as ``4 minutes``."""
    if seconds < 90:
        num, unit = max(1, round(seconds)), "second"
    elif seconds < 90 * 60:
        num, unit = round(seconds / 60), "minute"
    else:
        num, unit = round(seconds / 3600), "hour"
    return counted(num, unit)


@contextmanager
def heartbeat(
    title: str, *, has_clock: bool = False, so_far: Callable[[], str] = str
) -> Iterator[None]:
    """Write a line in the log after 30 seconds of work, after 60, 120 and so on.

    Parameters
    ----------
    title : str
        What is done, as shown to the user.
    has_clock : bool
        Whether to show a clock on the terminal instead, for work that draws no bars.
    so_far : callable
        Function that returns what has been done, to be added to the line.
    """
    if has_clock:
        with stage(title):
            yield
        return
    # Nothing is logged where a bar on the terminal shows the progress, or in other threads, whose
    # work belongs to a stage.
    is_main = threading.current_thread() is threading.main_thread()
    if not logger.isEnabledFor(logging.INFO) or not is_main:
        yield
        return
    started = time.monotonic()

    def beat() -> None:
        logger.info("%s, after %s%s", title, duration(time.monotonic() - started), so_far())

    with _repeatedly(beat, pauses()):
        yield


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each log line; the elapsed time doubles with each line."""
    yield FIRST
    for power in itertools.count():
        yield FIRST * 2**power


@contextmanager
def _repeatedly(call: Callable[[], object], pauses: Iterable[float]) -> Iterator[None]:
    """Call a function in another thread after each of several pauses, given in seconds."""
    done = threading.Event()

    def wait() -> None:
        for pause in pauses:
            if done.wait(pause):
                return
            call()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Minutes:
    """Lines in the log about work that is in progress, at most one a minute."""

    def __init__(self) -> None:
        self.started = self.last = time.monotonic()

    def report(self, what: str) -> None:
        """Write a line on what is done, unless the last line is less than a minute old."""
        now = time.monotonic()
        if now - self.last >= SECONDS:
            self.last = now
            logger.info("%s, after %s", what, duration(now - self.started))


@contextmanager
def _ticking(bar: "tqdm[Any]", *, is_needed: bool) -> Iterator[None]:
    """Redraw a bar every second, so that its clock keeps running while nothing advances it."""
    if bar.disable or not is_needed:
        yield
        return
    with _repeatedly(bar.refresh, itertools.repeat(TICK)):
        yield


@contextmanager
def stage(title: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show one stage of long-running work and yield the function that advances it.

    In a process that is forked during the stage, the function does nothing, because the bar belongs
    to the parent.

    Parameters
    ----------
    title : str
        What the stage does, as shown to the user.
    total : int, optional
        Number of steps. If it is not known, a clock takes the place of the bar.
    """
    logger.info("%s", title)
    off = None  # draws the bar on a terminal only
    if not logger.isEnabledFor(logging.WARNING):
        off = True
    of_total, form = "", "{desc} [{elapsed}]"
    if total:
        of_total, form = f" of {total}", "{l_bar}{bar}{r_bar}"
    bar = tqdm(total=total, desc=title, disable=off, leave=False, file=sys.stderr, bar_format=form)
    with bar, _ticking(bar, is_needed=not total):
        own, minutes, num = os.getpid(), Minutes(), 0

        def advance(steps: int) -> None:
            nonlocal num
            if os.getpid() == own:
                bar.update(steps)
                num += steps
                minutes.report(f"{title}: {num}{of_total} done")

        yield advance
