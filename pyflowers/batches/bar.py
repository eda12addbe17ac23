"""The progress of a batch, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """Counts tasks by verdict; the rate and the time left are those of this run alone."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._poor = {"doubtful": 0, "failed": 0}

    def skip(self, verdict: str) -> None:
        """Count a task of an earlier run, which took none of this run's time."""
        if not self._bar.disable:
            self._bar.initial += 1
        self.advance(verdict)

    def advance(self, verdict: str) -> None:
        """Count a task of this run."""
        if verdict in self._poor:
            self._poor[verdict] += 1
            told = ", ".join(f"{number} {what}" for what, number in self._poor.items() if number)
            self._bar.set_postfix_str(told, refresh=False)
        self._bar.update(1)


@contextmanager
def shown(total: int | None) -> Iterator[Bar]:
    """Show finished, doubtful and failed fits, rate and time left, where stderr is a terminal."""
    from tqdm import tqdm

    # smoothing=0: the mean rate of the run, whose forecast does not jump about with each task.
    with tqdm(
        total=total,
        desc="fits",
        unit="fit",
        smoothing=0,
        disable=None,
        leave=False,
        file=sys.stderr,
    ) as bar:
        yield Bar(bar)
