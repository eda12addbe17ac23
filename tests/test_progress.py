"""Progress off a terminal: a line in the log each minute."""

import logging
import time

import pytest

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
