"""The SQLite file of a ledger: its tables, their digests, and how the file is opened and read.

SQLite does not notice a changed byte in a row. Therefore the row of a task contains a digest of its
values, which include the digests of its kept tables, and the row of the batch contains the number
of tasks and a digest. The digests are compared whenever a row or a table is read, and a damaged
ledger is rejected. They protect against accidents, not against a person who writes a new digest.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from pyflowers.errors import ConfigError, DataError, PyflowersError

FILE = "ledger.sqlite"
KIND = 0x70796662
"""The application_id that distinguishes ledgers from other SQLite files: "pyfb"."""
FORMAT = 3

_READ_BY = {2: "0.3"}
"""The version of pyflowers that reads each earlier format."""

SECONDS_TO_WAIT = 60.0
"""Seconds for which a writer waits for readers, and a reader for a writer."""

_TABLES = f"""
PRAGMA application_id = {KIND};
PRAGMA user_version = {FORMAT};
CREATE TABLE batch (id INTEGER PRIMARY KEY, run, oldest, seed, total, started, tasks, digest);
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL, program TEXT NOT NULL, seed INTEGER NOT NULL,
    position INTEGER NOT NULL, run INTEGER NOT NULL,
    verdict TEXT NOT NULL, failed_checks TEXT, error TEXT,
    seconds REAL, attempts INTEGER, versions TEXT, finished REAL, tables TEXT,
    digest TEXT NOT NULL
);
CREATE TABLE kept (
    task INTEGER NOT NULL REFERENCES tasks, name TEXT NOT NULL, rows BLOB NOT NULL,
    PRIMARY KEY (task, name)
);
"""

SMALLEST_ROW = 64
"""A lower limit for the size of a task's row, in bytes; the digest alone takes this many."""


class Values(NamedTuple):
    """The row of the batch, without its digest.

    Attributes
    ----------
    run, oldest : int
        The last run, and the oldest run whose rows are shown.
    seed, total, started : number or None
        The batch's seed, the number of tasks in the last run, and the time at which that run
        started.
    tasks : int
        The number of rows in the table of tasks.
    """

    run: int = 0
    oldest: int = 1
    seed: int | None = None
    total: int | None = None
    started: float | None = None
    tasks: int = 0


class Row(NamedTuple):
    """The row of a task, without its digest; `tables` has the digests of the kept tables."""

    id: int | None
    key: str
    name: str
    program: str
    seed: int
    position: int
    run: int
    verdict: str = "waiting"
    failed_checks: str | None = None
    error: str | None = None
    seconds: float | None = None
    attempts: int | None = None
    versions: str | None = None
    finished: float | None = None
    tables: str | None = None


def digest_of_row(values: tuple[Any, ...]) -> str:
    """Return a digest of the values of a row."""
    # Unlike repr, ascii gives the same text in every version of Python.
    return hashlib.sha256(ascii(tuple(values)).encode()).hexdigest()


def digest_of_table(rows: bytes) -> str:
    """Return a digest of a packed table."""
    return hashlib.sha256(rows).hexdigest()


_TEXT, _WHOLE, _NUMBER = (str, NoneType), (int, NoneType), (int, float, NoneType)
_KINDS_OF_VALUES = (int, int, _WHOLE, _WHOLE, _NUMBER, int)
_KINDS_OF_ROW = (
    *(int, str, str, str, int, int, int, str),
    *(_TEXT, _TEXT, _NUMBER, _WHOLE, _TEXT, _NUMBER, _TEXT),
)
_SELECT_VALUES = f"SELECT {', '.join(Values._fields)}, digest FROM batch LIMIT 2"
SELECT_ROWS = f"SELECT {', '.join(Row._fields)}, digest FROM tasks"
REPLACE_ROW = f"REPLACE INTO tasks VALUES ({', '.join('?' * (len(Row._fields) + 1))})"
REPLACE_VALUES = f"REPLACE INTO batch VALUES (1, {', '.join('?' * (len(Values._fields) + 1))})"

_NEW = Values()
CREATE = f"""{_TABLES}
INSERT INTO batch (id, run, oldest, tasks, digest)
VALUES (1, {_NEW.run}, {_NEW.oldest}, {_NEW.tasks}, '{digest_of_row(_NEW)}');
"""
"""The statements that create a new ledger."""


def is_batch(folder: Path) -> bool:
    """Whether a folder holds a ledger, judged by file name and header; it may still be empty.

    Raises
    ------
    ConfigError
        If the ledger or a file of SQLite next to it is not a regular file.
    OSError
        If the ledger cannot be read.
    """
    for suffix in ("", "-journal", "-wal"):
        file = folder / f"{FILE}{suffix}"
        try:
            mode = file.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        # SQLite would wait for a pipe, and follow a link to a file elsewhere.
        if not stat.S_ISREG(mode):
            raise ConfigError(
                f"{file} is not a regular file but a link, folder, pipe or device; remove it, or "
                "name another folder"
            )
        if suffix == "-wal" or (suffix and _names_a_file(file)):
            raise ConfigError(
                f"{file} was not written by pyflowers; remove it, or name another folder"
            )
    try:
        with (folder / FILE).open("rb") as opened:
            header = opened.read(100)
    except (FileNotFoundError, NotADirectoryError):
        return False
    # Bytes 68 to 71 of SQLite's header are the application_id, 0 if none was set. A new file is
    # empty.
    # Bytes 18 and 19 are 1 in a file that has a journal.
    is_sqlite = header.startswith(b"SQLite format 3\0") and header[18:20] == b"\1\1"
    return header == b"" or (is_sqlite and int.from_bytes(header[68:72], "big") in (0, KIND))


def _names_a_file(journal: Path) -> bool:
    """Whether a journal names a super-journal, which SQLite may delete in whatever folder it is."""
    with suppress(FileNotFoundError), journal.open("rb") as file:  # a client may just have ended
        file.seek(max(0, file.seek(0, os.SEEK_END) - 8))
        return file.read() == bytes.fromhex("d9d505f920a163d7")
    return False


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield the ledger for reading, even while a client writes to it.

    Everything that is read within the block comes from the same state of the ledger.

    Raises
    ------
    ConfigError
        If there is no ledger, or it cannot be read.
    DataError
        If it is damaged.
    """
    with guarded(folder, TO_READ):
        if not is_batch(folder):
            if (folder / FILE).exists():
                raise ConfigError(
                    f"{folder / FILE} does not hold a batch, or is damaged; name another folder, "
                    "or put back an undamaged copy of the file"
                )
            raise ConfigError(f"{folder} has no {FILE}, so it is not a batch folder; name another")
        # The mode is not read-only, so that SQLite can roll back the transaction of a killed
        # client.
        address = f"{(folder / FILE).absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            address, uri=True, isolation_level=None, timeout=SECONDS_TO_WAIT
        )
        with closing(connection) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("BEGIN")
            check_format(database, folder)
            yield database


TO_READ = (
    "{file} cannot be read ({reason}); check that you may read and write it, and that no other "
    "program has locked it"
)
TO_WRITE = (
    "batch folder {folder} cannot be written ({reason}); free disk space, or copy the folder "
    "elsewhere and name the copy; then run the batch again to resume"
)

_ENVIRONMENT = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""SQLite's errors whose cause is the disk or another program, and not the ledger itself."""


@contextmanager
def guarded(folder: Path, sentence: str) -> Iterator[None]:
    """Turn any error in a read or write of a ledger into one sentence.

    Parameters
    ----------
    folder : Path
        The batch's folder.
    sentence : str
        The message for a system error, with placeholders for the file, the folder and the reason.

    Raises
    ------
    ConfigError
        If the system or another program is the cause.
    DataError
        If the ledger is damaged.
    """
    try:
        yield
    except PyflowersError:
        raise
    except (OSError, sqlite3.Error, ValueError, TypeError, EOFError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        # The lower byte of SQLite's code is the kind of error.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if isinstance(error, OSError) or code in _ENVIRONMENT:
            told = sentence.format(file=folder / FILE, folder=folder, reason=reason)
            raise ConfigError(told) from error
        raise DataError(
            f"{folder / FILE} is damaged ({reason}); put back an undamaged copy of the file, or "
            "run the batch in another folder"
        ) from error


def check_format(database: sqlite3.Connection, folder: Path) -> None:
    """Reject a file that is not a ledger of this format, or that has other tables."""
    kind, found = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if kind != KIND:
        raise ConfigError(f"{folder / FILE} does not hold a batch; name another folder")
    if found != FORMAT:
        if found in _READ_BY:
            earlier = f"read it with pyflowers {_READ_BY[found]}, or "
        else:
            earlier = ""
        raise ConfigError(
            f"{folder / FILE} is a ledger of format {found}, but this version of pyflowers reads "
            f"only format {FORMAT}; {earlier}run the batch in another folder"
        )
    # A view instead of a table could be endless, and a trigger could change what is written.
    if _schema(database) != _own_schema():
        raise ValueError("its tables are not those that pyflowers creates")


def check_pages(database: sqlite3.Connection) -> None:
    """Reject a file whose pages and indexes do not match: a write could destroy other pages."""
    ((found,),) = database.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        raise ValueError(str(found).splitlines()[-1])


def _schema(database: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return the definitions of the tables and other objects in a database, at most ten."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 10"
    return sorted(database.execute(query).fetchall(), key=repr)


@cache
def _own_schema() -> list[tuple[Any, ...]]:
    """Return the definitions in a new ledger."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_TABLES)
        return _schema(database)


def _is_of(values: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
    return all(map(isinstance, values, kinds))


def values_of(database: sqlite3.Connection) -> Values:
    """Return the values of the batch; raise ValueError if they are damaged."""
    found = database.execute(_SELECT_VALUES).fetchall()
    if len(found) == 1:
        *values, digest = found[0]
        if digest_of_row(tuple(values)) == digest and _is_of(tuple(values), _KINDS_OF_VALUES):
            return Values(*values)
    raise ValueError("the row of the batch does not match its digest")


def checked(found: tuple[Any, ...], key: str | None = None) -> Row:
    """Return the row of a task; raise ValueError if it is damaged, or belongs to another key."""
    if key not in (None, found[1]):
        raise ValueError(f"its index leads to the wrong row, {found[0]}")
    if digest_of_row(found[1:-1]) != found[-1] or not _is_of(found[:-1], _KINDS_OF_ROW):
        raise ValueError(f"the row of task {found[0]} does not match its digest")
    return Row(*found[:-1])


def rows_of(database: sqlite3.Connection, folder: Path, values: Values) -> Iterator[Row]:
    """Yield the rows of all tasks; raise ValueError if one of them is damaged or missing."""
    if not 0 <= values.tasks * SMALLEST_ROW <= (folder / FILE).stat().st_size:
        raise ValueError(f"a file of its size cannot hold {values.tasks} tasks")
    number = 0
    # Without the limit, a file whose pages contain each other would yield rows forever.
    query = f"{SELECT_ROWS} ORDER BY id LIMIT ?"
    for found in database.execute(query, (values.tasks + 1,)):
        number += 1
        row = checked(found)
        if row.id != number:
            raise ValueError(f"the row of task {number} is missing")
        yield row
    if number != values.tasks:
        raise ValueError(f"it has {number} tasks instead of {values.tasks}")


def shown(values: Values, rows: Iterable[Row]) -> Iterable[Row]:
    """Return the rows that are shown.

    Until the last run has planned all of its tasks, it is not known which rows of earlier runs it
    will use again. Rows of earlier runs are therefore also shown, unless a later run has a row with
    the same name and program.
    """
    recent = (row for row in rows if row.run >= values.oldest)
    if values.oldest == values.run:
        return recent
    kept = list(recent)
    latest: dict[tuple[str, str], int] = {}
    for row in kept:
        named = row.name, row.program
        latest[named] = max(row.run, latest.get(named, 0))
    return [row for row in kept if row.run == latest[row.name, row.program]]


def kept_rows(database: sqlite3.Connection, row: Row, name: str, digest: str) -> bytes:
    """Return a packed table of a task; raise ValueError if it is damaged or missing."""
    query = "SELECT rows FROM kept WHERE task = ? AND name = ?"
    found = database.execute(query, (row.id, name)).fetchone()
    if found is None or not isinstance(found[0], bytes) or digest_of_table(found[0]) != digest:
        raise ValueError(f"the table {name} of task {row.name} does not match its digest")
    return found[0]
