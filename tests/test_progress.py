"""Progress off a terminal: a line in the log each minute."""

import io
import logging
import sys
import threading
import time
from functools import partial

import pytest
from command_line import run
from tqdm import TMonitor

from pyflowers import progress
from pyflowers.progress import duration, heartbeat, stage


def test_a_stage_is_logged_each_minute(caplog, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with caplog.at_level(logging.INFO, logger="pyflowers"), stage("Refits", 9) as advance:
        for seconds in (20, 39, 2, 30, 70):
            now[0] += seconds
            advance(1)
    assert caplog.messages == [
        "Refits",
        "Refits: 3 of 9 done, after 61 seconds",
        "Refits: 5 of 9 done, after 3 minutes",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 second"), (61, "61 seconds"), (100, "2 minutes"), (3 * 3600, "3 hours")],
)
def test_a_time_in_words(seconds, words):
    assert duration(seconds) == words


def test_work_without_steps_is_logged_each_minute(caplog, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.05)
    # An earlier test of a command may have set the level.
    with caplog.at_level(logging.WARNING, logger="pyflowers"), heartbeat("Sampling quietly"):
        time.sleep(0.2)
    with caplog.at_level(logging.INFO, logger="pyflowers"), heartbeat("Sampling"):
        time.sleep(0.4)
    assert set(caplog.messages) == {"Sampling, after 1 second"}
    num = len(caplog.messages)
    time.sleep(0.15)
    assert len(caplog.messages) == num  # it ends with the work


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("work", [stage, partial(heartbeat, has_clock=True)])
def test_on_a_terminal_work_without_steps_has_a_clock_that_goes_on(work, caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "TICK", 0.05)
    before = num_threads()
    with caplog.at_level(logging.WARNING, logger="pyflowers"), work("Compiling x"):
        time.sleep(0.4)
    drawn = sys.stderr.getvalue()
    assert drawn.count("Compiling x [00:00]") >= 3
    assert num_threads() == before


def num_threads():
    """Return the number of threads without those of tqdm, which watches its bars."""
    return sum(not isinstance(each, TMonitor) for each in threading.enumerate())


@pytest.mark.parametrize(("is_terminal", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_the_log_is_written_unless_bars_are_drawn(is_terminal, level, monkeypatch):
    """Standard output may be a pipe while the errors go to a terminal; no bars are drawn then."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal() if is_terminal else io.StringIO())
    assert run("models", "iid_normal") == 0
    assert logging.getLogger("pyflowers").level == level
