"""Functions that compute the kept tables in the tests, and that workers import."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import pyflowers

COLUMNS = {"a": 1.0}


def of_kills(program, number):
    """Return tasks that take about ten milliseconds, for batches whose processes are killed."""
    options = {"chains": 2, "warmup": 4000, "draws": 50}
    return [
        pyflowers.Task(program, {"m": i / 7}, name=str(i), keep=["summary", "draws:x"], **options)
        for i in range(number)
    ]


def interval(fit, level=0.5):
    draws = fit.draws["x"].ravel()
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return {"low": low, "high": high, "odd": low > 0, "said": "é"}


def fails(fit):
    raise ZeroDivisionError("on purpose")


def ragged(fit):
    return {"a": [1, 2], "b": [1, 2, 3]}


def no_memory(fit):
    np.empty(2**47)


def slow(fit, seconds):
    time.sleep(seconds)
    return COLUMNS


def crash_once(fit, marker):
    """End the worker with a signal, but only the first time."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return COLUMNS


def crash(fit):
    os.kill(os.getpid(), signal.SIGKILL)


def fitted_again(fit):
    """Repeat the fit with the interpreter, in this thread and in another one."""

    def again():
        options = fit.options.model_dump(exclude={"keep"})
        found = pyflowers.fit(fit.program, fit.data, engine="stanli", cores=1, **options)
        return np.array_equal(found.draws["x"], fit.draws["x"]), _num_children()

    here = again()
    with ThreadPoolExecutor(1) as thread:
        there = thread.submit(again).result()
    return {"same": [here[0], there[0]], "processes": [here[1], there[1]]}


def _num_children():
    lists = Path("/proc/self/task").glob("*/children")
    return sum(len(path.read_text().split()) for path in lists)
