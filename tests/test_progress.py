"""Progress off a terminal: a few lines in the log."""

import io
import itertools
import logging
import sys
import threading
import time
from functools import partial

import pytest
from command_line import run
from tqdm import TMonitor

from pyflowers import progress
from pyflowers.progress import duration, heartbeat, pauses, stage


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


@pytest.mark.quick
def test_work_without_steps_is_logged_ever_more_rarely(caplog, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.05)
    # An earlier test of a command may have set the level.
    with caplog.at_level(logging.WARNING, logger="pyflowers"), heartbeat("Sampling quietly"):
        time.sleep(0.2)
    with caplog.at_level(logging.INFO, logger="pyflowers"), heartbeat("Sampling"):
        time.sleep(0.4)
    assert set(caplog.messages) == {"Sampling, after 1 second"}
    num = len(caplog.messages)
    assert 1 <= num <= 4  # after 0.05, 0.1, 0.2 and, on a busy machine, 0.4 seconds
    time.sleep(0.5)
    assert len(caplog.messages) == num  # it ends with the work


def test_what_has_been_done_is_added_to_the_line(caplog, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.02)
    with (
        caplog.at_level(logging.INFO, logger="pyflowers"),
        heartbeat("Sampling", so_far=lambda: "\n  chain 1: warm-up"),
    ):
        time.sleep(0.1)
    assert caplog.messages[0] == "Sampling, after 1 second\n  chain 1: warm-up"


def test_a_fit_of_half_a_minute_is_silent():
    assert list(itertools.islice(itertools.accumulate(pauses()), 4)) == [30, 60, 120, 240]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.quick
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
