"""The ledger of a batch: one SQLite file, written by the client alone, and what is read from it.

Each task has one row, by its key. A row and the tables that were kept of its fit become known
together, in one transaction: whatever ends the client, a row that says ``done`` has its results.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.batches.keep import frame_of, unpacked
from pyflowers.batches.task import Job, Outcome
from pyflowers.errors import ConfigError, DataError
from pyflowers.records import storable_text

if sys.platform != "win32":
    import fcntl

FILE = "ledger.sqlite"
KIND = 0x70796662
"""SQLite's application_id of our ledgers: "pyfb"."""
FORMAT = 2

SECONDS_BETWEEN_WRITES = 5.0
BYTES_BETWEEN_WRITES = 16_000_000
"""What the end of the client may cost: outcomes that are not yet in the ledger are fitted again."""

SECONDS_TO_WAIT = 60.0
"""How long one who writes waits for those who read, and the other way round."""

_TABLES = f"""
PRAGMA application_id = {KIND};
PRAGMA user_version = {FORMAT};
CREATE TABLE batch (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    program TEXT NOT NULL,
    position INTEGER NOT NULL,
    run INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('waiting', 'done', 'failed')),
    seconds REAL,
    attempts INTEGER,
    versions TEXT,
    verdict TEXT,
    error TEXT,
    finished REAL
);
CREATE TABLE kept (
    task INTEGER NOT NULL REFERENCES tasks,
    name TEXT NOT NULL,
    rows BLOB NOT NULL,
    PRIMARY KEY (task, name)
);
"""

JUDGED = """CASE WHEN tasks.outcome <> 'done' THEN tasks.outcome
WHEN tasks.verdict = 'passed' THEN 'passed' ELSE 'doubtful' END"""
"""What users are told of a task: ``passed``, ``doubtful``, ``failed`` or ``waiting``.

The column ``verdict`` holds ``passed`` or the diagnostics that fail, as :class:`Outcome` does.
"""


RECENT = 100
"""Outcomes from whose times the present rate is told."""

_FAILED_CHECKS = "CASE WHEN tasks.outcome = 'done' THEN nullif(tasks.verdict, 'passed') END"

_LEDGER = f"""
SELECT name, program, outcome, {JUDGED} AS verdict, {_FAILED_CHECKS} AS failed_checks,
       seed, seconds, attempts, error, versions, key
FROM tasks
WHERE run = ? ORDER BY position
"""


class Ledger:
    """The ledger of a batch, open for writing and locked against another client.

    Parameters
    ----------
    folder : Path
        The batch's folder, made if it is not there.

    Raises
    ------
    ConfigError
        If the folder holds something else, cannot be written, or another client is at it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._expected: dict[str, tuple[Any, ...]] = {}
        self._again: list[str] = []
        self._unwritten: list[Outcome] = []
        self._bytes = 0
        self._written = time.monotonic()
        with writing(folder):
            _refuse_foreign(folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
            try:
                self._database = sqlite3.connect(
                    folder / FILE, isolation_level=None, timeout=SECONDS_TO_WAIT
                )
                self._begin()
            except BaseException:
                self.close()
                raise

    def _begin(self) -> None:
        if self._database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            self._database.executescript(f"BEGIN; {_TABLES} COMMIT;")
        _check_format(self._database, self.folder)
        self.run = int(self.value("run") or 0) + 1
        self.remember({"run": str(self.run)})

    def value(self, name: str) -> str | None:
        """Return a value of the batch itself by its name."""
        return batch_value(self._database, name)

    def remember(self, values: Mapping[str, str]) -> None:
        """Keep values of the batch itself."""
        with writing(self.folder), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("REPLACE INTO batch VALUES (?, ?)", values.items())

    def state(self, key: str) -> tuple[str, int]:
        """Return what is known of a task and the run that last asked for it.

        ``passed``, ``doubtful``, ``failed`` or ``waiting``; ``new`` and 0 without any.
        """
        if key in self._expected:
            return "waiting", self.run
        found = self._database.execute(f"SELECT {JUDGED}, run FROM tasks WHERE key = ?", (key,))
        return found.fetchone() or ("new", 0)

    def expect(self, job: Job, *, again: bool) -> None:
        """Note that a task belongs to this run, and whether an earlier outcome no longer counts."""
        name, program = storable_text(job.name), storable_text(job.program)
        self._expected[job.key] = job.key, name, program, job.position, self.run, job.seed
        if again:
            self._again.append(job.key)
        self._write_if_due()

    def take(self, outcome: Outcome) -> None:
        """Note an outcome; it is written with others, once they are old or large enough."""
        self._unwritten.append(outcome)
        self._bytes += sum(map(len, outcome.tables.values()))
        self._write_if_due()

    def _write_if_due(self) -> None:
        if (
            time.monotonic() - self._written > SECONDS_BETWEEN_WRITES
            or self._bytes > BYTES_BETWEEN_WRITES
        ):
            self.write()

    def write(self) -> None:
        """Write what was noted, all or nothing.

        Raises
        ------
        ConfigError
            If the disk is full or the folder is gone; the ledger is unchanged.
        """
        self._written = time.monotonic()
        with writing(self.folder), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(
                "INSERT INTO tasks (key, name, program, position, run, seed, outcome) "
                "VALUES (?, ?, ?, ?, ?, ?, 'waiting') ON CONFLICT (key) DO UPDATE SET "
                "name = excluded.name, position = excluded.position, run = excluded.run",
                self._expected.values(),
            )
            self._database.executemany(
                "UPDATE tasks SET outcome = 'waiting', error = NULL WHERE key = ?",
                [(key,) for key in self._again],
            )
            self._database.executemany(
                "UPDATE tasks SET outcome = ?, seconds = ?, attempts = ?, versions = ?, "
                "verdict = ?, error = ?, finished = ? WHERE key = ?",
                map(self._row, self._unwritten),
            )
            self._database.executemany(
                "REPLACE INTO kept SELECT id, ?, ? FROM tasks WHERE key = ?",
                [
                    (n, rows, each.key)
                    for each in self._unwritten
                    for n, rows in each.tables.items()
                ],
            )
        self._expected.clear()
        self._again.clear()
        self._unwritten.clear()
        self._bytes = 0

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_database"):
            self._database.close()
        os.close(self._lock)

    def _row(self, outcome: Outcome) -> tuple[Any, ...]:
        return (
            "failed" if outcome.error else "done",
            outcome.seconds,
            outcome.attempts,
            json.dumps(dict(outcome.versions), sort_keys=True),
            outcome.verdict or None,
            storable_text(outcome.error) or None,
            time.time(),
            outcome.key,
        )


def is_batch(folder: Path) -> bool:
    """Whether a folder holds a ledger written by pyflowers."""
    with suppress(OSError):
        with (folder / FILE).open("rb") as file:
            header = file.read(100)
        # Bytes 68 to 71 of SQLite's header are the application_id. A new file is empty.
        return header == b"" or int.from_bytes(header[68:72], "big") in (0, KIND)
    return False


def is_running(folder: Path) -> bool:
    """Whether a client is running a batch now."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Shared, so that one who asks is not taken for a client by another who asks.
        return not _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield the ledger to read, also while a client writes it.

    Raises
    ------
    ConfigError
        If there is none, or it cannot be read.
    """
    if not is_batch(folder):
        raise ConfigError(f"{folder}: it holds no {FILE}; name the folder of a batch")
    # Not read-only: what a killed client has left half written is to be taken back.
    address = f"{(folder / FILE).absolute().as_uri()}?mode=rw"
    try:
        database = sqlite3.connect(address, uri=True, isolation_level=None, timeout=SECONDS_TO_WAIT)
        try:
            _check_format(database, folder)
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise ConfigError(
            f"{folder / FILE}: it cannot be read ({error}); check the disk"
        ) from error


def batch_value(database: sqlite3.Connection, name: str) -> str | None:
    """Return a value of the batch itself from a ledger, by its name."""
    row = database.execute("SELECT value FROM batch WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the errors of the system and SQLite for a failed write into one sentence.

    Raises
    ------
    ConfigError
        Instead of OSError and sqlite3.Error.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"batch folder {folder}: it cannot be written ({reason}); free space or name another "
            "place, then run the batch again: it goes on where it stopped"
        ) from error


def _check_format(database: sqlite3.Connection, folder: Path) -> None:
    kind, found = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if (kind, found) != (KIND, FORMAT):
        raise ConfigError(
            f"{folder / FILE}: it is not a ledger that this pyflowers can read (format {found}, "
            f"not {FORMAT}); read one of format 1 with pyflowers 0.2, or run the batch in another "
            "folder"
        )


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"batch folder {folder}: it is a file; name a folder")
    if folder.is_dir() and not is_batch(folder) and any(folder.iterdir()):
        raise ConfigError(
            f"batch folder {folder}: it contains something other than a batch; name another folder"
        )


def _locked(folder: Path) -> int:
    """Lock a folder itself; the system releases it when this process ends for any reason."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(20):  # who only asks whether a client is running locks it for a moment
        if _lock(descriptor, fcntl.LOCK_EX):
            return descriptor
        time.sleep(0.005)
    os.close(descriptor)
    raise ConfigError(
        f"batch folder {folder}: another pyflowers is running this batch; wait for it, or see its "
        f"progress with pyflowers batch --status {folder}"
    )


def _lock(descriptor: int, kind: int) -> bool:
    """Lock an open folder if no other process forbids it, and return whether it is locked."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
        DataError
            If one is damaged.
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
        try:
            tables = [(task, verdict, unpacked(rows)) for task, verdict, rows in found]
        except (ValueError, EOFError) as error:
            raise DataError(
                f"{self.folder / FILE}: a table {name} is damaged ({error}); run the batch in a "
                "new folder"
            ) from error
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
