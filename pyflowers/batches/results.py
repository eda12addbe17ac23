"""A batch read back: which fits passed, are doubtful or failed, and the tables that were kept."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.batches.keep import frame_of, unpacked
from pyflowers.batches.ledger import JUDGED, batch_value, is_running, reading
from pyflowers.errors import ConfigError

RECENT = 100
"""Outcomes from whose times the present rate is told."""

_FAILED_CHECKS = "CASE WHEN tasks.outcome = 'done' THEN nullif(tasks.verdict, 'passed') END"

_LEDGER = f"""
SELECT name, program, outcome, {JUDGED} AS verdict, {_FAILED_CHECKS} AS failed_checks,
       seed, seconds, attempts, error, versions.said AS versions, key
FROM tasks LEFT JOIN versions ON versions.id = tasks.versions
WHERE run = ? ORDER BY position
"""


@dataclass(frozen=True)
class Progress:
    """The progress of a batch.

    Attributes
    ----------
    passed : int
        Fits whose verdict passes, of the batch as it was last asked for, earlier runs
        included.
    doubtful : int
        Fits that ended, but whose verdict fails: a diagnostic, or the prior.
    failed : int
        Tasks that have no fit.
    failed_checks : mapping of str to int
        For each diagnostic how many fits it fails for, the most frequent first.
    total : int or None
        All of its tasks; None if their number was not known beforehand.
    rate : float or None
        Tasks a second of late; None if there is nothing to tell it from.
    running : bool
        Whether a client is at it now.
    """

    passed: int
    doubtful: int
    failed: int
    failed_checks: Mapping[str, int]
    total: int | None
    rate: float | None
    running: bool

    @property
    def done(self) -> int:
        """Fits that ended and whose tables were kept, the doubtful ones among them."""
        return self.passed + self.doubtful

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest will take at the present rate."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.done - self.failed) / self.rate


@dataclass(frozen=True)
class Batch:
    """A batch on disk.

    Attributes
    ----------
    folder : Path
        Where it is.
    """

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        object.__setattr__(self, "folder", Path(folder))

    @property
    def progress(self) -> Progress:
        """Its progress, which can be asked for while the batch runs."""
        with reading(self.folder) as database:
            run = batch_value(database, "run") or "0"
            counts = database.execute(
                f"SELECT {JUDGED}, {_FAILED_CHECKS}, count(*) FROM tasks WHERE run = ? "
                "GROUP BY 1, 2",
                (run,),
            ).fetchall()
            last = database.execute(
                "SELECT finished FROM tasks WHERE run = ? AND finished > ? "
                "ORDER BY finished DESC LIMIT ?",
                (run, float(batch_value(database, "started") or 0), RECENT),
            ).fetchall()
            total = batch_value(database, "total")
        running = is_running(self.folder)
        verdicts: Counter[str] = Counter()
        checks: Counter[str] = Counter()
        for verdict, failing, number in counts:
            verdicts[verdict] += number
            checks.update(dict.fromkeys(failing.split(", ") if failing else (), number))
        return Progress(
            verdicts["passed"],
            verdicts["doubtful"],
            verdicts["failed"],
            dict(checks.most_common()),
            int(total) if total else None,
            _rate([when for (when,) in last], running),
            running,
        )

    @property
    def seed(self) -> int | None:
        """Its seed; None if it was ended before it had one."""
        with reading(self.folder) as database:
            known = batch_value(database, "seed")
        return None if known is None else int(known)

    def ledger(self) -> pd.DataFrame:
        """Return a row for each task, in the batch's order, indexed by name.

        ``program``; ``outcome`` (``done``, ``failed`` or ``waiting``); ``verdict`` (``passed``,
        ``doubtful`` where a fit is done but its verdict fails, ``failed`` or ``waiting``);
        ``failed_checks``; ``seed``, ``seconds``, ``attempts``, ``error``, ``versions`` and
        ``key``.
        """
        with reading(self.folder) as database:
            run = batch_value(database, "run")
            found = database.execute(_LEDGER, (run,))
            columns = [each[0] for each in found.description]
            # Not pandas.read_sql_query, whose error for a damaged file is its own.
            frame = pd.DataFrame.from_records(found.fetchall(), columns=columns, coerce_float=True)
        versions = [json.loads(text) if isinstance(text, str) else {} for text in frame["versions"]]
        return frame.assign(versions=versions).set_index("name")

    @property
    def failures(self) -> pd.Series[str]:
        """The error of each task that failed, by its name."""
        ledger = self.ledger()
        return ledger.loc[ledger["outcome"] == "failed", "error"]

    def table(self, name: str = "summary") -> pd.DataFrame:
        """Return what was kept under a name of all tasks that are done.

        Parameters
        ----------
        name : str
            Such as ``summary``, ``draws`` or ``ranks``.

        Returns
        -------
        DataFrame
            The rows of all tasks in the batch's order. The first columns are ``task``, the task's
            name, and ``verdict``: ``passed``, or ``doubtful`` where the verdict fails.

        Raises
        ------
        ConfigError
            If no task that is done has such a table.
        """
        with reading(self.folder) as database:
            run = batch_value(database, "run")
            found = database.execute(
                f"SELECT tasks.name, {JUDGED}, rows FROM kept JOIN tasks ON tasks.id = kept.task "
                "WHERE run = ? AND outcome = 'done' AND kept.name = ? ORDER BY position",
                (run, name),
            ).fetchall()
        if not found:
            self._refuse(name)
        tables = [(task, verdict, unpacked(rows)) for task, verdict, rows in found]
        frames = [_frame(list(alike)) for _, alike in groupby(tables, _kinds)]
        return pd.concat(frames, ignore_index=True)

    def _refuse(self, name: str) -> NoReturn:
        ledger = self.ledger()
        failures = self.failures
        if len(failures) and not (ledger["outcome"] == "done").any():
            raise ConfigError(
                f"{self.folder}: no task is done, and {len(failures)} failed, the first with: "
                f"{failures.iloc[0]}"
            )
        raise ConfigError(
            f"{self.folder}: no task that is done has a table {name}; name what was kept"
        )


_Part = tuple[str, str, NDArray[Any]]
"""A task, its verdict and its rows."""


def _kinds(part: _Part) -> list[tuple[str, str]]:
    kinds = part[2].dtype
    return [(name, kinds[name].kind) for name in kinds.names or ()]


def _frame(parts: list[_Part]) -> pd.DataFrame:
    """Return the table of tasks whose columns are alike."""
    tasks, verdicts, rows = zip(*parts, strict=True)
    table = frame_of(np.concatenate(rows))
    lengths = [len(each) for each in rows]
    table.insert(0, "verdict", np.repeat(np.array(verdicts, object), lengths))
    table.insert(0, "task", np.repeat(np.array(tasks, object), lengths))
    return table


def _rate(finished: list[float], running: bool) -> float | None:
    """Return tasks a second from when the last ones were written, newest first."""
    if len(finished) < 2:
        return None
    since = (time.time() if running else finished[0]) - finished[-1]
    return (len(finished) - 1) / since if since > 0 else None
