"""The ledger of a batch: one SQLite file with the results, which only the client writes.

Each task has one row, identified by its key. The row and the tables that were kept from the fit are
written in one transaction. So the row of a finished fit is never without its tables, no matter how
the client ended.
"""

from __future__ import annotations

import heapq
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.batches.database import (
    CREATE,
    FILE,
    REPLACE_ROW,
    REPLACE_VALUES,
    SECONDS_TO_WAIT,
    SELECT_ROWS,
    TO_READ,
    TO_WRITE,
    Row,
    check_format,
    check_pages,
    checked,
    digest_of_row,
    digest_of_table,
    guarded,
    is_batch,
    kept_rows,
    reading,
    rows_of,
    shown,
    values_of,
)
from pyflowers.batches.keep import frame_of, unpacked
from pyflowers.batches.task import Job, Outcome
from pyflowers.errors import ConfigError
from pyflowers.records import storable_text

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SECONDS_BETWEEN_WRITES = 5.0
BYTES_BETWEEN_WRITES = 16_000_000
"""Bytes of outcomes that may be lost if the client is killed; their tasks are then refitted."""

DONE = ("passed", "doubtful")
"""The verdicts of fits that finished, whose tables are kept."""

RECENT = 100
"""The number of latest outcomes from which the current rate is computed."""

_COLUMNS = (
    *("name", "program", "outcome", "verdict", "failed_checks", "seed", "seconds", "attempts"),
    *("error", "versions", "key"),
)
"""The columns of :meth:`Batch.ledger`."""


class Ledger:
    """The ledger of a batch, open for writing and locked against another client.

    Parameters
    ----------
    folder : Path
        The batch's folder, which is created if it does not exist.

    Raises
    ------
    ConfigError
        If the folder holds other files or a ledger of another format, cannot be written or is in
        use by another client, or if the system has no file locks.
    DataError
        If the ledger is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if fcntl is None:
            raise ConfigError(
                "a batch needs file locks, which this system lacks; run it on Linux or macOS, or "
                "on Windows in WSL"
            )
        self._bytes, self._written = 0, time.monotonic()
        with guarded(folder, TO_WRITE), ExitStack() as opened:
            if folder.exists() and not folder.is_dir():
                raise ConfigError(f"batch folder {folder} is a file; name a folder")
            if folder.is_dir() and not is_batch(folder) and any(folder.iterdir()):
                raise ConfigError(
                    f"batch folder {folder} contains something other than a batch; name "
                    "another folder"
                )
            folder.mkdir(parents=True, exist_ok=True)
            for _ in range(20):  # status queries lock the folder for a moment
                lock = _lock(folder, fcntl.LOCK_EX)
                if lock is not None:
                    opened.callback(os.close, lock)
                    break
                time.sleep(0.005)
            else:
                raise ConfigError(
                    f"batch folder {folder}: the batch is already running; wait until it ends, or "
                    f"see its progress with pyflowers batch --status {folder}"
                )
            connection = sqlite3.connect(folder / FILE, timeout=SECONDS_TO_WAIT)
            self._database = opened.enter_context(closing(connection))
            self._database.execute("PRAGMA trusted_schema = OFF")
            # Otherwise readers would wait for the end of a large transaction.
            self._database.execute("PRAGMA cache_spill = OFF")
            if self._database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                self._database.executescript(f"BEGIN; {CREATE} COMMIT;")
            check_format(self._database, folder)
            self._values = values_of(self._database)
            # Damage is found before hours of fits, and before anything is written.
            check_pages(self._database)
            for _ in rows_of(self._database, folder, self._values):
                pass
            self.run = self._values.run + 1
            self.remember({"run": self.run})
            self.close = opened.pop_all().close

    @property
    def seed(self) -> int | None:
        """The batch's seed, if an earlier run had one."""
        return self._values.seed

    def remember(self, values: Mapping[str, Any]) -> None:
        """Record values of the batch itself."""
        self._values = self._values._replace(**values)
        self.write()

    def state(self, key: str) -> tuple[str, int]:
        """Return the state of a task and the last run that contained it.

        The state is ``passed``, ``doubtful``, ``failed`` or ``waiting``, or ``new``, with run 0, if
        the task is not in the ledger.
        """
        row = self._row(key)
        if row is None:
            return "new", 0
        return row.verdict, row.run

    def expect(self, job: Job, *, again: bool) -> None:
        """Record that a task belongs to this run; discard its outcome if it is to run `again`."""
        name, program = storable_text(job.name), storable_text(job.program)
        row = self._row(job.key)
        if row is None:
            row = Row(None, job.key, name, program, job.seed, job.position, self.run)
        row = row._replace(name=name, position=job.position, run=self.run)
        if again:
            row = row._replace(verdict="waiting", error=None)
        self._put(row)
        self._write_if_due()

    def take(self, outcome: Outcome) -> None:
        """Record an outcome; outcomes are written together, once they are old or large enough."""
        row = self._row(outcome.key)
        if row is None:
            return  # its row was lost with a transaction that failed
        # Tables are written before the outcome, so that an interruption between the two leaves no
        # finished task without its tables.
        for name, rows in outcome.tables.items():
            self._execute("REPLACE INTO kept VALUES (?, ?, ?)", row.id, name, rows)
            self._bytes += len(rows)
        digests = {name: digest_of_table(rows) for name, rows in outcome.tables.items()}
        self._put(
            row._replace(
                verdict=outcome.verdict,
                failed_checks=outcome.failed_checks or None,
                error=storable_text(outcome.error) or None,
                seconds=float(outcome.seconds),
                attempts=outcome.attempts,
                versions=json.dumps(dict(outcome.versions), sort_keys=True),
                finished=time.time(),
                tables=json.dumps(digests, sort_keys=True),
            )
        )
        self._write_if_due()

    def write(self) -> None:
        """Write the recorded outcomes, all or none.

        Raises
        ------
        ConfigError
            If the disk is full or the folder is gone; the ledger is then unchanged.
        DataError
            If the ledger is damaged.
        """
        self._bytes, self._written = 0, time.monotonic()
        with guarded(self.folder, TO_WRITE):
            # Rows are never deleted, so that their numbers have no gaps.
            (last,) = self._database.execute("SELECT max(id) FROM tasks").fetchone()
            self._values = self._values._replace(tasks=last or 0)
            self._execute(REPLACE_VALUES, *self._values, digest_of_row(self._values))
            self._database.commit()

    def _row(self, key: str) -> Row | None:
        """Return the row of a task, if there is one."""
        with guarded(self.folder, TO_WRITE):
            found = self._database.execute(f"{SELECT_ROWS} WHERE key = ?", (key,)).fetchone()
            return found and checked(found, key)

    def _put(self, row: Row) -> None:
        """Insert or replace the row of a task."""
        self._execute(REPLACE_ROW, *row, digest_of_row(row[1:]))

    def _write_if_due(self) -> None:
        seconds = time.monotonic() - self._written
        if seconds > SECONDS_BETWEEN_WRITES or self._bytes > BYTES_BETWEEN_WRITES:
            self.write()

    def _execute(self, statement: str, *values: Any) -> None:
        """Execute a statement in the transaction that :meth:`write` ends."""
        with guarded(self.folder, TO_WRITE):
            self._database.execute(statement, values)


def is_running(folder: Path) -> bool:
    """Whether a client is running the batch in a folder now; on Windows, none can."""
    if fcntl is None:
        return False
    # The lock is shared, so that two status queries do not mistake each other for the client.
    with guarded(folder, TO_READ):
        lock = _lock(folder, fcntl.LOCK_SH)
        if lock is not None:
            os.close(lock)
        return lock is None


def _lock(folder: Path, kind: int) -> int | None:
    """Lock the folder itself; return the descriptor to close, or None if it is already locked.

    The system releases the lock when this process ends for any reason.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@dataclass(frozen=True)
class Progress:
    """The progress of a batch.

    Attributes
    ----------
    passed : int
        Fits whose verdict passes. All counts refer to the tasks of the last run, even if they were
        fitted in an earlier run. They include the tasks in `earlier`.
    doubtful : int
        Fits that finished, but whose verdict fails because of a diagnostic or the prior.
    failed : int
        Tasks that ended with an error.
    failed_checks : mapping of str to int
        The number of fits that fail each check, by the check's name, in decreasing order.
    total : int or None
        Number of tasks; None while it is not known, as for tasks from a generator.
    rate : float or None
        Recent rate in tasks per second; None if fewer than two tasks have finished in this run.
    running : bool
        Whether a client is running the batch now.
    earlier : int
        Tasks that finished in an earlier run and that the last run has not reached, because it is
        still planning its tasks or was interrupted. Their inputs may have changed since.
    """

    passed: int
    doubtful: int
    failed: int
    failed_checks: Mapping[str, int]
    total: int | None
    rate: float | None
    running: bool
    earlier: int

    @property
    def done(self) -> int:
        """The number of finished fits, whose tables were kept, including the doubtful ones."""
        return self.passed + self.doubtful

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the remaining tasks will take at the current rate; None if unknown."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.done - self.failed + self.earlier) / self.rate


@dataclass(frozen=True)
class Batch:
    """A batch on disk, which can be read while it runs.

    Attributes
    ----------
    folder : Path
        The batch's folder.

    See Also
    --------
    pyflowers.batch : Run or resume a batch.

    Examples
    --------
    >>> import pyflowers
    >>> tasks = [pyflowers.Task("iid_normal", name=f"site {i}", repeat=i) for i in (1, 2)]
    >>> _ = pyflowers.batch(tasks, out="results/two_sites", seed=1, engine="exact")

    Later, or in another session:

    >>> batch = pyflowers.Batch("results/two_sites")
    >>> batch.ledger()[["program", "outcome", "verdict"]]
               program outcome verdict
    name
    site 1  iid_normal    done  passed
    site 2  iid_normal    done  passed
    >>> batch.table("summary").shape[0]
    4
    >>> batch.progress.done, batch.progress.total, len(batch.failures)
    (2, 2, 0)
    """

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        object.__setattr__(self, "folder", Path(folder))

    @property
    def progress(self) -> Progress:
        """The batch's progress, even while it runs."""
        groups, times = Counter[tuple[str, str, bool]](), []
        with reading(self.folder) as database:
            known = values_of(database)
            started = known.started or 0
            for row in shown(known, rows_of(database, self.folder, known)):
                groups[row.verdict, row.failed_checks or "", row.run < known.run] += 1
                if row.finished is not None and row.finished > started:
                    times.append(row.finished)
        last = heapq.nlargest(RECENT, times)
        running = is_running(self.folder)
        earlier, verdicts, checks = 0, Counter[str](), Counter[str]()
        for (verdict, failing, is_earlier), number in sorted(groups.items()):
            verdicts[verdict] += number
            if is_earlier and verdict != "waiting":
                earlier += number
            if failing:
                checks.update(dict.fromkeys(failing.split(", "), number))
        return Progress(
            verdicts["passed"],
            verdicts["doubtful"],
            verdicts["failed"],
            dict(checks.most_common()),
            known.total,
            _rate(last, running),
            running,
            earlier,
        )

    @property
    def seed(self) -> int | None:
        """The batch's seed; None if the batch ended before it had one."""
        with reading(self.folder) as database:
            return values_of(database).seed

    def ledger(self) -> pd.DataFrame:
        """Return a row for each task of the last run.

        If the last run has not planned all of its tasks, because it is still running or was
        interrupted, the other rows are those of earlier runs.

        Returns
        -------
        DataFrame
            The tasks in the batch's order, indexed by name: ``program``; ``outcome`` (``done``,
            ``failed`` or ``waiting``); ``verdict`` (``passed``, ``doubtful`` if a fit is done but
            its verdict fails, ``failed`` or ``waiting``); ``failed_checks``; ``seed``, ``seconds``,
            ``attempts``, ``error``, ``versions`` and ``key``.
        """
        table = []
        with reading(self.folder) as database:
            for row in self._in_order(database):
                outcome = row.verdict
                if outcome in DONE:
                    outcome = "done"
                versions = json.loads(row.versions or "{}")
                task = row.name, row.program, outcome, row.verdict, row.failed_checks
                fit = row.seed, row.seconds, row.attempts, row.error, versions, row.key
                table.append((*task, *fit))
        frame = pd.DataFrame.from_records(table, columns=list(_COLUMNS), coerce_float=True)
        return frame.set_index("name")

    def _in_order(self, database: sqlite3.Connection) -> list[Row]:
        """Return the rows that are shown, in the batch's order."""
        known = values_of(database)
        rows = shown(known, rows_of(database, self.folder, known))
        return sorted(rows, key=lambda row: row.position)

    @property
    def failures(self) -> pd.Series[str]:
        """The errors of the failed tasks of the last run, by task name."""
        ledger = self.ledger()
        return ledger.loc[ledger["outcome"] == "failed", "error"]

    def table(self, name: str = "summary") -> pd.DataFrame:
        """Return a kept table, with the rows of all tasks in :meth:`ledger` that are done.

        Parameters
        ----------
        name : str
            The table's name, such as ``summary``, ``draws`` or ``ranks``.

        Returns
        -------
        DataFrame
            The rows of these tasks in the batch's order. The first columns are ``task``, the task's
            name, and ``verdict``: ``passed``, or ``doubtful`` where the verdict fails.

        Raises
        ------
        ConfigError
            If no finished fit has such a table, or the ledger cannot be read.
        DataError
            If the ledger or one of these tables is damaged.
        """
        with reading(self.folder) as database:
            found = []
            for row in self._in_order(database):
                digests = json.loads(row.tables or "{}")
                if row.verdict in DONE and name in digests:
                    rows = kept_rows(database, row, name, digests[name])
                    found.append((row.name, row.verdict, rows))
        if not found:
            failures = self.failures
            if len(failures) and not self.progress.done:
                raise ConfigError(
                    f"{self.folder}: no fit has finished ({len(failures)} failed); the first error "
                    f"is: {failures.iloc[0]}"
                )
            raise ConfigError(
                f"{self.folder}: no finished fit has a table {name}; name one that was kept"
            )
        with guarded(self.folder, TO_READ):
            return _joined([(task, verdict, unpacked(rows)) for task, verdict, rows in found])


def _rate(last: list[float], running: bool) -> float | None:
    """Return how many fits end per second, from the times of the last ones, newest first."""
    if len(last) < 2:
        return None
    now = last[0]
    if running:
        now = time.time()
    if now <= last[-1]:
        return None
    return (len(last) - 1) / (now - last[-1])


def _joined(parts: list[tuple[str, str, NDArray[Any]]]) -> pd.DataFrame:
    """Return the unpacked rows of several tasks as one table."""
    frames = []
    for _, alike in groupby(parts, lambda part: _kinds(part[2].dtype)):
        tasks, verdicts, rows = zip(*alike, strict=True)
        lengths = list(map(len, rows))
        table = frame_of(np.concatenate(rows))
        table.insert(0, "verdict", np.repeat(np.array(verdicts, object), lengths))
        table.insert(0, "task", np.repeat(np.array(tasks, object), lengths))
        frames.append(table)
    return pd.concat(frames, ignore_index=True)


def _kinds(columns: np.dtype[Any]) -> list[tuple[str, str]]:
    return [(name, columns[name].kind) for name in columns.names or ()]
