"""The ledger of a batch: one SQLite file with the results, which only the client writes.

Each task has one row, identified by its key. The row and the tables that were kept from the fit are
written in one transaction. So the row of a finished fit is never without its tables, no matter how
the client ended.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyflowers.batches.keep import frame_of, unpacked
from pyflowers.batches.task import Job, Outcome
from pyflowers.errors import ConfigError, DataError
from pyflowers.records import storable_text

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE = "ledger.sqlite"
KIND = 0x70796662
"""The application_id that marks our ledgers among SQLite files: "pyfb"."""
FORMAT = 2

SECONDS_BETWEEN_WRITES = 5.0
BYTES_BETWEEN_WRITES = 16_000_000
"""Bytes of outcomes that may be lost if the client is killed; their tasks are then refitted."""

SECONDS_TO_WAIT = 60.0
"""Seconds for which a writer waits for readers, and a reader for a writer."""

_TABLES = f"""
PRAGMA application_id = {KIND};
PRAGMA user_version = {FORMAT};
CREATE TABLE batch (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL, program TEXT NOT NULL, seed INTEGER NOT NULL,
    position INTEGER NOT NULL, run INTEGER NOT NULL,
    verdict TEXT NOT NULL DEFAULT 'waiting', failed_checks TEXT, error TEXT,
    seconds REAL, attempts INTEGER, versions TEXT, finished REAL
);
CREATE TABLE kept (
    task INTEGER NOT NULL REFERENCES tasks, name TEXT NOT NULL, rows BLOB NOT NULL,
    PRIMARY KEY (task, name)
);
"""

RECENT = 100
"""The number of latest outcomes from which the current rate is computed."""

_LEDGER = """
SELECT name, program, iif(verdict IN ('passed', 'doubtful'), 'done', verdict) AS outcome, verdict,
       failed_checks, seed, seconds, attempts, error, versions, key
"""


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
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if fcntl is None:
            raise ConfigError(
                "a batch needs file locks, which this system lacks; run it on Linux or macOS, or "
                "on Windows in WSL"
            )
        self._bytes, self._written = 0, time.monotonic()
        with writing(folder), ExitStack() as opened:
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
            # Otherwise readers would wait for the end of a large transaction.
            self._database.execute("PRAGMA cache_spill = OFF")
            if self._database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                self._database.executescript(f"BEGIN; {_TABLES} COMMIT;")
            _check_format(self._database, folder)
            known = _values(self._database)
            last = known.get("run", 0)
            self.run = last + 1
            # A ledger of an earlier version holds no oldest run: it showed its last run alone.
            self.remember({"run": self.run, "oldest": known.get("oldest", max(last, 1))})
            self.close = opened.pop_all().close

    @property
    def seed(self) -> int | None:
        """The batch's seed, if an earlier run had one."""
        return _values(self._database).get("seed")

    def remember(self, values: Mapping[str, float | None]) -> None:
        """Record values of the batch itself."""
        for each in values.items():
            self._execute("REPLACE INTO batch VALUES (?, ?)", *each)
        self.write()

    def state(self, key: str) -> tuple[str, int]:
        """Return the state of a task and the last run that contained it.

        The state is ``passed``, ``doubtful``, ``failed`` or ``waiting``, or ``new``, with run 0, if
        the task is not in the ledger.
        """
        found = self._database.execute("SELECT verdict, run FROM tasks WHERE key = ?", (key,))
        return found.fetchone() or ("new", 0)

    def expect(self, job: Job, *, again: bool) -> None:
        """Record that a task belongs to this run; discard its outcome if it is to run `again`."""
        name, program = storable_text(job.name), storable_text(job.program)
        self._execute(
            "INSERT INTO tasks (key, name, program, position, run, seed) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET "
            "name = excluded.name, position = excluded.position, run = excluded.run",
            *(job.key, name, program, job.position, self.run, job.seed),
        )
        if again:
            forget = "UPDATE tasks SET verdict = 'waiting', error = NULL WHERE key = ?"
            self._execute(forget, job.key)
        self._write_if_due()

    def take(self, outcome: Outcome) -> None:
        """Record an outcome; outcomes are written together, once they are old or large enough."""
        # Tables are written before the outcome, so that an interruption between the two leaves no
        # finished task without its tables.
        for name, rows in outcome.tables.items():
            put = "REPLACE INTO kept SELECT id, ?, ? FROM tasks WHERE key = ?"
            self._execute(put, name, rows, outcome.key)
            self._bytes += len(rows)
        self._execute(
            "UPDATE tasks SET verdict = ?, failed_checks = ?, seconds = ?, attempts = ?, "
            "versions = ?, error = ?, finished = ? WHERE key = ?",
            *(outcome.verdict, outcome.failed_checks or None, outcome.seconds, outcome.attempts),
            *(json.dumps(dict(outcome.versions), sort_keys=True),),
            *(storable_text(outcome.error) or None, time.time(), outcome.key),
        )
        self._write_if_due()

    def write(self) -> None:
        """Write the recorded outcomes, all or none.

        Raises
        ------
        ConfigError
            If the disk is full or the folder is gone; the ledger is then unchanged.
        """
        self._bytes, self._written = 0, time.monotonic()
        with writing(self.folder):
            self._database.commit()

    def _write_if_due(self) -> None:
        seconds = time.monotonic() - self._written
        if seconds > SECONDS_BETWEEN_WRITES or self._bytes > BYTES_BETWEEN_WRITES:
            self.write()

    def _execute(self, statement: str, *values: Any) -> None:
        """Execute a statement in the transaction that :meth:`write` ends."""
        with writing(self.folder):
            self._database.execute(statement, values)


def is_batch(folder: Path) -> bool:
    """Whether a folder holds a ledger, judged by file name and header; it may still be empty."""
    with suppress(OSError):
        with (folder / FILE).open("rb") as file:
            header = file.read(100)
        # Bytes 68 to 71 of SQLite's header are the application_id, 0 if none was set. A new file is
        # empty.
        is_sqlite = header.startswith(b"SQLite format 3\0")
        return header == b"" or (is_sqlite and int.from_bytes(header[68:72], "big") in (0, KIND))
    return False


def is_running(folder: Path) -> bool:
    """Whether a client is running the batch in a folder now; on Windows, none can."""
    if fcntl is None:
        return False
    # The lock is shared, so that two status queries do not mistake each other for the client.
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


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield the ledger for reading, even while a client writes to it.

    Raises
    ------
    ConfigError
        If there is no ledger, or it cannot be read.
    """
    if not is_batch(folder):
        raise ConfigError(f"{folder} is not a batch folder: it has no {FILE}; name another")
    # The mode is not read-only, so that SQLite can roll back the transaction of a killed client.
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
            f"{folder / FILE} cannot be read ({error}); check that the file is neither damaged nor "
            "locked, and that you may write to it"
        ) from error


def _values(database: sqlite3.Connection) -> dict[str, Any]:
    """Return values of the batch.

    They are the last run, the oldest run whose rows are shown, the seed, the number of tasks, and
    the start of the last run.
    """
    return dict(database.execute("SELECT name, value FROM batch").fetchall())


def _rows(database: sqlite3.Connection) -> str:
    """Return a query for the rows that are shown.

    Until the last run has planned all of its tasks, it is not known which rows of earlier runs it
    will use again. So these are shown, too, unless a later run has a row with the same name and
    program.
    """
    known = _values(database)
    last = known.get("run", 0)
    oldest = known.get("oldest", last)
    if oldest == last:  # ten times as fast as the other query
        return f"(SELECT * FROM tasks WHERE run >= {last})"
    return (
        "(SELECT * FROM (SELECT *, max(run) OVER (PARTITION BY name, program) AS latest "
        f"FROM tasks WHERE run >= {oldest}) WHERE run = latest)"
    )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an error of the system or of SQLite during a write into one sentence.

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
            f"batch folder {folder} cannot be written ({reason}); free disk space, or copy "
            "the folder elsewhere and name the copy; then run the batch again to resume"
        ) from error


def _check_format(database: sqlite3.Connection, folder: Path) -> None:
    kind, found = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if kind != KIND:
        raise ConfigError(f"{folder / FILE} does not hold a batch; name another folder")
    if found != FORMAT:
        earlier = "read it with pyflowers 0.2, or " if found == 1 else ""
        raise ConfigError(
            f"{folder / FILE} is a ledger of format {found}, but this version of pyflowers reads "
            f"only format {FORMAT}; {earlier}run the batch in another folder"
        )


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
        The number of fits that fail each check, with the most frequent check first.
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
        with reading(self.folder) as database:
            known = _values(database)
            counts = database.execute(
                "SELECT verdict, failed_checks, run < ?, count(*) "
                f"FROM {_rows(database)} GROUP BY 1, 2, 3",
                (known.get("run", 0),),
            ).fetchall()
            last = database.execute(
                "SELECT finished FROM tasks WHERE finished > ? ORDER BY finished DESC LIMIT ?",
                (known.get("started", 0), RECENT),
            ).fetchall()
        running = is_running(self.folder)
        earlier, verdicts, checks = 0, Counter[str](), Counter[str]()
        for verdict, failing, is_earlier, number in counts:
            verdicts[verdict] += number
            earlier += number if is_earlier and verdict != "waiting" else 0
            checks.update(dict.fromkeys(failing.split(", ") if failing else (), number))
        since = (time.time() if running else last[0][0]) - last[-1][0] if last else 0
        return Progress(
            verdicts["passed"],
            verdicts["doubtful"],
            verdicts["failed"],
            dict(checks.most_common()),
            known.get("total"),
            (len(last) - 1) / since if len(last) > 1 and since > 0 else None,
            running,
            earlier,
        )

    @property
    def seed(self) -> int | None:
        """The batch's seed; None if the batch ended before it had one."""
        with reading(self.folder) as database:
            return _values(database).get("seed")

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
        with reading(self.folder) as database:
            found = database.execute(f"{_LEDGER} FROM {_rows(database)} ORDER BY position")
            columns = [each[0] for each in found.description]
            # pandas.read_sql_query would raise its own kind of error for a damaged file.
            frame = pd.DataFrame.from_records(found.fetchall(), columns=columns, coerce_float=True)
        versions = [json.loads(text) if isinstance(text, str) else {} for text in frame["versions"]]
        return frame.assign(versions=versions).set_index("name")

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
            If a table is damaged.
        """
        with reading(self.folder) as database:
            found = database.execute(
                f"SELECT tasks.name, verdict, rows FROM {_rows(database)} AS tasks "
                "JOIN kept ON tasks.id = kept.task "
                "WHERE verdict IN ('passed', 'doubtful') AND kept.name = ? ORDER BY position",
                (name,),
            ).fetchall()
        if not found:
            failures = self.failures
            if len(failures) and not self.progress.done:
                raise ConfigError(
                    f"{self.folder}: no task is done, and {len(failures)} failed, the first with: "
                    f"{failures.iloc[0]}"
                )
            raise ConfigError(
                f"{self.folder}: no finished fit has a table {name}; name one that was kept"
            )
        try:
            parts = [(task, verdict, unpacked(rows)) for task, verdict, rows in found]
        except (ValueError, EOFError) as error:
            raise DataError(
                f"{self.folder / FILE}: a table {name} is damaged ({error}); run the batch in a "
                "new folder"
            ) from error
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
