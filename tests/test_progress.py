"""Progress off a terminal: a line in the log each minute."""

import logging

import pytest

from pyflowers.progress import duration, stage


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
