"""The progress of a batch, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """Counts done and failed tasks; the rate and the time left are those of this run alone."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._failed = 0

    def skip(self, failed: bool) -> None:
        """Count a task of an earlier run, which took none of this run's time."""
        if not self._bar.disable:
            self._bar.initial += 1
        self._count(failed)

    def advance(self, failed: bool) -> None:
        """Count a task of this run."""
        self._count(failed)

    def _count(self, failed: bool) -> None:
        if failed:
            self._failed += 1
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update(1)


@contextmanager
def shown(total: int | None) -> Iterator[Bar]:
    """Show done, failed, rate and time left, where the standard error is a terminal."""
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
