"""Signals that end the command line: SIGTERM and SIGHUP clean up like Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS_TO_CLEAN_UP = 1.5
"""After that the process exits without cleaning up; the next command removes what it left."""

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Terminated(BaseException):
    """The process was asked to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Let the signals raise exceptions in the block, but for those ignored, as under nohup.

    Afterwards the earlier handlers are restored, except after such an exception: the process is
    then ending, and a second signal must not interrupt its cleaning up.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            if signal.getsignal(signum) in (signal.SIG_DFL, signal.default_int_handler):
                before[signum] = signal.signal(signum, _unwind)
    try:
        yield
    finally:
        for signum, handler in before.items():
            if signal.getsignal(signum) is _unwind:
                signal.signal(signum, handler)


def _unwind(signum: int, _: Any) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # once is enough: cleaning up must not be cut short
    # An exception may be lost, in a destructor or a callback, or wait for a thread.
    timer = threading.Timer(SECONDS_TO_CLEAN_UP, os._exit, (128 + signum,))
    timer.daemon = True
    timer.start()
    raise KeyboardInterrupt if signum == signal.SIGINT else Terminated(signum)
