"""The ledger of a batch: one SQLite file, written by the client alone.

Each task has one row, by its key. A row and the shard with its tables become known together, in
one transaction after the shard is on the disk: whatever ends the client, a row that says ``done``
has its results, and a shard that the ledger does not name is removed by the next run.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyflowers.batches import shards
from pyflowers.batches.task import Job, Outcome
from pyflowers.errors import ConfigError
from pyflowers.records import storable_text

if sys.platform != "win32":
    import fcntl

FILE = "ledger.sqlite"
KIND = 0x70796662
"""SQLite's application_id of our ledgers: "pyfb"."""
FORMAT = 1

SECONDS_FOR_READERS = 1.0
"""How long a client that is done waits for those who are reading."""
SECONDS_FOR_LOCK = 0.1
"""How long a client waits for the lock, which :func:`is_running` takes for a moment."""

_TABLES = f"""
PRAGMA application_id = {KIND};
PRAGMA user_version = {FORMAT};
CREATE TABLE batch (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (id INTEGER PRIMARY KEY, said TEXT NOT NULL UNIQUE);
CREATE TABLE shards (id INTEGER PRIMARY KEY, file TEXT NOT NULL UNIQUE);
CREATE TABLE tasks (
    key TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    program TEXT NOT NULL,
    position INTEGER NOT NULL,
    run INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('waiting', 'done', 'failed')),
    seconds REAL,
    attempts INTEGER,
    versions INTEGER REFERENCES versions,
    verdict TEXT,
    error TEXT,
    shard INTEGER REFERENCES shards,
    finished REAL
) WITHOUT ROWID;
"""

JUDGED = """CASE WHEN tasks.outcome <> 'done' THEN tasks.outcome
WHEN tasks.verdict = 'passed' THEN 'passed' ELSE 'doubtful' END"""
"""What users are told of a task: ``passed``, ``doubtful``, ``failed`` or ``waiting``.

The column ``verdict`` holds ``passed`` or the diagnostics that fail, as :class:`Outcome` does.
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
        self._waiting: dict[str, tuple[Job, bool]] = {}
        with writing(folder):
            _refuse_foreign(folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
            try:
                self._database = _connected(folder)
                try:
                    self._begin()
                except BaseException:
                    self._database.close()
                    raise
            except BaseException:
                os.close(self._lock)
                raise

    def _begin(self) -> None:
        """Make the tables of a new ledger, or clear what the last client left in an old one."""
        if _is_empty(self._database):
            self._database.executescript(f"BEGIN; {_TABLES} COMMIT;")
        _check_format(self._database, self.folder)
        (self.folder / shards.FOLDER).mkdir(exist_ok=True)
        shards.sync(self.folder)
        shards.clear(self.folder / shards.FOLDER, self._shard_files())
        self.run = int(self.value("run") or 0) + 1
        self.remember({"run": str(self.run)})

    def value(self, name: str) -> str | None:
        """Return a value of the batch itself by its name."""
        return batch_value(self._database, name)

    def remember(self, values: Mapping[str, str]) -> None:
        """Keep values of the batch itself."""
        with writing(self.folder), self._transaction():
            self._database.executemany("REPLACE INTO batch VALUES (?, ?)", values.items())

    def state(self, key: str) -> tuple[str, int]:
        """Return what is known of a task and the run that last asked for it.

        ``passed``, ``doubtful``, ``failed`` or ``waiting``; ``new`` and 0 without any.
        """
        if key in self._waiting:
            return "waiting", self.run
        found = self._database.execute(f"SELECT {JUDGED}, run FROM tasks WHERE key = ?", (key,))
        return found.fetchone() or ("new", 0)

    def expect(self, job: Job, *, again: bool) -> None:
        """Note that a task belongs to this run.

        Parameters
        ----------
        job : Job
            The task.
        again : bool
            Whether an earlier outcome no longer counts.
        """
        self._waiting[job.key] = (replace(job, work=b""), again)

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Write the tables of outcomes, then their rows, all or nothing.

        Raises
        ------
        ConfigError
            If the disk is full or the folder is gone; the ledger is unchanged.
        """
        if not outcomes and not self._waiting:
            return
        with writing(self.folder):
            tables = {each.key: each.tables for each in outcomes if each.tables}
            number = self._database.execute("SELECT coalesce(max(id), 0) + 1 FROM shards")
            shard = int(number.fetchone()[0]) if tables else None
            folder = self.folder / shards.FOLDER
            file = shards.write(folder, shard, tables) if shard is not None else None
            with self._transaction():
                self._database.executemany(
                    "INSERT INTO tasks (key, name, program, position, run, seed, outcome) "
                    "VALUES (?, ?, ?, ?, ?, ?, 'waiting') ON CONFLICT (key) DO UPDATE SET "
                    "name = excluded.name, position = excluded.position, run = excluded.run",
                    [self._expected(job) for job, _ in self._waiting.values()],
                )
                self._database.executemany(
                    "UPDATE tasks SET outcome = 'waiting', error = NULL WHERE key = ?",
                    [(key,) for key, (_, again) in self._waiting.items() if again],
                )
                if file is not None:
                    self._database.execute("INSERT INTO shards VALUES (?, ?)", (shard, file))
                self._database.executemany(
                    "UPDATE tasks SET outcome = ?, seconds = ?, attempts = ?, versions = ?, "
                    "verdict = ?, error = ?, shard = ?, finished = ? WHERE key = ?",
                    [self._row(each, shard) for each in outcomes],
                )
            self._waiting.clear()

    def close(self) -> None:
        """Close the file, so that nothing is left beside it; a reader may keep it from that."""
        with suppress(sqlite3.Error):
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._leave_log()
        self._database.close()
        os.close(self._lock)

    def _leave_log(self) -> None:
        """Leave no write-ahead log: with one, who may not write the folder could not read it."""
        end = time.monotonic() + SECONDS_FOR_READERS
        while time.monotonic() < end:
            # SQLite does not wait here for readers, however long its timeout.
            with suppress(sqlite3.Error):
                self._database.execute("PRAGMA journal_mode = DELETE")
                return
            time.sleep(SECONDS_FOR_READERS / 100)

    def _expected(self, job: Job) -> tuple[Any, ...]:
        name, program = storable_text(job.name), storable_text(job.program)
        return job.key, name, program, job.position, self.run, job.seed

    def _row(self, outcome: Outcome, shard: int | None) -> tuple[Any, ...]:
        return (
            "failed" if outcome.error else "done",
            outcome.seconds,
            outcome.attempts,
            self._version(outcome.versions),
            outcome.verdict or None,
            storable_text(outcome.error) or None,
            shard if outcome.tables else None,
            time.time(),
            outcome.key,
        )

    def _version(self, versions: Mapping[str, str]) -> int | None:
        """Return the number of a set of versions, which thousands of rows share."""
        if not versions:
            return None
        text = json.dumps(dict(versions), sort_keys=True)
        self._database.execute("INSERT OR IGNORE INTO versions (said) VALUES (?)", (text,))
        found = self._database.execute("SELECT id FROM versions WHERE said = ?", (text,))
        return int(found.fetchone()[0])

    def _shard_files(self) -> list[str]:
        return [name for (name,) in self._database.execute("SELECT file FROM shards")]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise


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
        return not _lock(descriptor, shared=True)
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
    try:
        database = _connected_to_read(folder)
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


def _connected(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / FILE, isolation_level=None, timeout=30)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    return database


def _connected_to_read(folder: Path) -> sqlite3.Connection:
    """Open a ledger that may be another's, in a folder that cannot be written."""
    address = f"{(folder / FILE).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=30)


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def _is_empty(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _check_format(database: sqlite3.Connection, folder: Path) -> None:
    kind, found = _pragma(database, "application_id"), _pragma(database, "user_version")
    if (kind, found) != (KIND, FORMAT):
        raise ConfigError(
            f"{folder / FILE}: it is not a ledger that this pyflowers can read (format {found}, "
            f"not {FORMAT}); "
            "name another folder"
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
    try:
        end = time.monotonic() + SECONDS_FOR_LOCK
        while not _lock(descriptor, shared=False):
            if time.monotonic() > end:
                raise ConfigError(
                    f"batch folder {folder}: another pyflowers is running this batch; wait for "
                    f"it, or see its progress with pyflowers batch --status {folder}"
                )
            time.sleep(SECONDS_FOR_LOCK / 20)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, *, shared: bool) -> bool:
    """Lock an open folder if no other process forbids it, and return whether it is locked."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
