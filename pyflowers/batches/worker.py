"""The process that fits tasks: ``python -m pyflowers.batches.worker DESCRIPTOR``.

It is asked and answers over one socket. The main thread works; another reads the socket and ends
the process at once when it closes, since nobody is waiting for an answer. The interpreter runs in
this process itself, as a crash of it costs one task. CmdStan's processes end with this one.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from pyflowers.engines.stanli.pool import close_workers
from pyflowers.engines.stanli.worker import interpret_here
from pyflowers.storage import end_lasting

READY = "ready"
STOP = "stop"


def main() -> None:
    """Answer until told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Connection(int(sys.argv[1]))
    from pyflowers.batches.perform import Bench

    interpret_here()
    bench = Bench()
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(line, questions), daemon=True).start()
    _send(READY, line)
    while (question := questions.get()) != STOP:
        kind, *arguments = question
        if kind == "provide":
            bench.provide(*arguments)
            _send(READY, line)
        else:
            _send(bench.perform(*arguments), line)
    close_workers()
    end_lasting()
    sys.stdout.flush()
    os._exit(0)  # the thread that reads would delay Python's own exit


def _receive(line: Connection, questions: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            questions.put(pickle.loads(line.recv_bytes()))
        except (EOFError, OSError):
            os._exit(0)


def _send(message: Any, line: Connection) -> None:
    try:
        line.send_bytes(pickle.dumps(message, protocol=5))
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main()
