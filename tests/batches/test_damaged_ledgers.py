"""Damaged and strange ledgers: a sentence or the same numbers, never another answer."""

import os
import random
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pyflowers import Batch, ConfigError, DataError, PyflowersError
from pyflowers.batches.database import (
    FILE,
    REPLACE_ROW,
    REPLACE_VALUES,
    SELECT_ROWS,
    Row,
    Values,
    digest_of_row,
)
from pyflowers.batches.keep import packed
from pyflowers.batches.ledger import Ledger
from pyflowers.batches.task import Job, Outcome
from pyflowers.cli.main import main

NUM_TASKS = 60
PAGE = 4096


def job(i):
    return Job(f"key {i}", f"name {i}", "program", i, 1000 + i)


def outcome(i):
    table = {"a": np.arange(40.0) + i, "t": np.array([f"text {i}"] * 40, object)}
    if i % 10 == 9:
        return Outcome(f"key {i}", f"it broke for {i}")
    checks = "bulk ESS, R-hat" if i % 10 == 8 else ""
    tables = {"t": packed(table), "u": packed({"b": float(i)})}
    return Outcome(f"key {i}", "", checks, 1.5, {"engine": "exact"}, tables)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a finished batch."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with closing(Ledger(out)) as ledger:
        ledger.remember({"seed": 7, "total": NUM_TASKS, "started": 0.0})
        for i in range(NUM_TASKS):
            ledger.expect(job(i), again=False)
            ledger.take(outcome(i))
        ledger.remember({"oldest": ledger.run})
    return out


def status(out):
    found = Batch(out)
    return str(found.progress), found.seed, found.ledger().to_json()


def tables(out):
    return Batch(out).table("t").to_json(), Batch(out).table("u").to_json()


def resumed(out):
    """Run the batch again: one new task, the others as they were."""
    with closing(Ledger(out)) as ledger:
        seed, states = ledger.seed, []
        for i in range(NUM_TASKS):
            states.append(ledger.state(f"key {i}")[0])
            ledger.expect(job(i), again=False)
        extra = Job("key x", "name x", "program", NUM_TASKS, 5)
        if ledger.state("key x")[0] == "new":
            ledger.expect(extra, again=False)
            ledger.take(Outcome("key x", tables={"t": packed({"a": np.zeros(900)})}))
        ledger.remember({"oldest": ledger.run})
    progress = replace(Batch(out).progress, rate=None)
    return seed, states, str(progress), Batch(out).ledger().drop("name x").to_json(), tables(out)


USES = (status, tables, resumed)


@pytest.fixture(scope="module")
def right(whole, tmp_path_factory):
    """What each use finds in the undamaged ledger."""
    folder = tmp_path_factory.mktemp("right")
    return {use: use(shutil.copytree(whole, folder / use.__name__)) for use in USES}


def messages_of(damaged, right, folder):
    """Return why uses of a damaged ledger were refused; check that the others find the same."""
    messages = []
    for use in USES:
        shutil.rmtree(folder / "copy", ignore_errors=True)
        try:
            found = use(shutil.copytree(damaged, folder / "copy"))
        except PyflowersError as error:
            messages.append(str(error))
        else:
            assert found == right[use]
    return messages


def mutated(raw, rng, kind):
    """Return the bytes of a ledger after an accident."""
    raw, at = bytearray(raw), rng.randrange(len(raw))
    pages = len(raw) // PAGE
    one, two = (rng.randrange(pages) * PAGE for _ in range(2))
    if kind == "bit":
        raw[at] ^= 1 << rng.randrange(8)
    elif kind == "head":  # of a page, where the cells are counted
        raw[one + (100 if one == 0 else 0) + rng.randrange(16)] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        end = min(len(raw), at + rng.choice([1, 16, 512, PAGE]))
        raw[at:end] = bytes(end - at)
    elif kind == "cut":
        del raw[rng.choice([max(1, at), max(PAGE, one)]) :]
    elif kind == "swap":
        raw[one : one + PAGE], raw[two : two + PAGE] = raw[two : two + PAGE], raw[one : one + PAGE]
    elif kind == "copy":
        raw[one : one + PAGE] = raw[two : two + PAGE]
    else:
        raw += rng.randbytes(rng.choice([1, 100, PAGE]))
    return bytes(raw)


KINDS = ("bit", "head", "zeros", "cut", "swap", "copy", "more")


def campaign(number, whole, right, tmp_path):
    """Damage a ledger in many ways; return the share of the uses that were refused."""
    raw, rng, messages = (whole / FILE).read_bytes(), random.Random(5), []
    assert len(raw) > 15 * PAGE
    (tmp_path / "source").mkdir()
    for i in range(number):
        (tmp_path / "source" / FILE).write_bytes(mutated(raw, rng, KINDS[i % len(KINDS)]))
        messages += messages_of(tmp_path / "source", right, tmp_path)
    assert not [message for message in messages if "\n" in message or "copy" not in message]
    return len(messages) / number / len(USES)


def test_a_few_accidents(whole, right, tmp_path):
    assert 0.2 < campaign(14, whole, right, tmp_path) < 1


@pytest.mark.slow
def test_two_hundred_accidents(whole, right, tmp_path):
    assert 0.2 < campaign(200, whole, right, tmp_path) < 1


EDITS = [
    "UPDATE tasks SET seed = 1 WHERE id = 3",
    "UPDATE tasks SET key = 'key y' WHERE id = 3",
    "UPDATE tasks SET name = 'other' WHERE id = 3",
    "UPDATE tasks SET program = 'other' WHERE id = 3",
    "UPDATE tasks SET position = 4000 WHERE id = 3",
    "UPDATE tasks SET run = 0 WHERE id = 3",
    "UPDATE tasks SET verdict = 'doubtful' WHERE id = 3",
    "UPDATE tasks SET verdict = 'waiting' WHERE id = 3",
    "UPDATE tasks SET failed_checks = NULL WHERE id = 9",
    "UPDATE tasks SET error = 'fine' WHERE id = 10",
    "UPDATE tasks SET seconds = 9 WHERE id = 3",
    "UPDATE tasks SET attempts = 9 WHERE id = 3",
    "UPDATE tasks SET versions = '{}' WHERE id = 3",
    "UPDATE tasks SET versions = '{' WHERE id = 3",
    "UPDATE tasks SET finished = 'yesterday' WHERE id = 3",
    "UPDATE tasks SET tables = '{}' WHERE id = 3",
    "UPDATE tasks SET digest = 'x' WHERE id = 3",
    "UPDATE tasks SET id = 1000 WHERE id = 3",
    f"DELETE FROM tasks WHERE id = {NUM_TASKS}",
    "INSERT INTO tasks SELECT 61, 'key z', name, program, seed, position, run, verdict, "
    "failed_checks, error, seconds, attempts, versions, finished, tables, digest "
    "FROM tasks WHERE id = 1",
    "DELETE FROM batch",
    "UPDATE batch SET seed = 8",
    "UPDATE batch SET seed = NULL",
    "UPDATE batch SET total = 5",
    "UPDATE batch SET run = 'a'",
    "UPDATE batch SET oldest = '1) UNION SELECT 1 --'",
    "UPDATE batch SET started = 5e12",
    "UPDATE batch SET tasks = 59",
    "INSERT INTO batch SELECT 2, run, oldest, seed, total, started, tasks, digest FROM batch",
]
"""Changes that every use must notice."""

EDITS_OF_TABLES = [
    "DELETE FROM kept WHERE task = 3",
    "UPDATE kept SET task = 1000 WHERE task = 3; UPDATE kept SET task = 3 WHERE task = 4; "
    "UPDATE kept SET task = 4 WHERE task = 1000",
    "UPDATE kept SET name = 'v' WHERE name = 't' AND task = 3",
    "UPDATE kept SET rows = (SELECT rows FROM kept WHERE task = 4 AND name = 't') "
    "WHERE task = 3 AND name = 't'",
    "UPDATE kept SET rows = 'text' WHERE task = 3 AND name = 't'",
]

EDITS_OF_SCHEMA = [
    "CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM kept; END",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TABLE other (a)",
    "CREATE INDEX i ON tasks (name)",
    "CREATE VIRTUAL TABLE v USING rtree(id, a, b)",
    "ALTER TABLE tasks ADD COLUMN other",
    "ALTER TABLE kept RENAME COLUMN rows TO columns",
    "DROP TABLE kept",
    "ALTER TABLE tasks RENAME TO old; CREATE VIEW tasks AS "
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, * FROM n, old",
    "ALTER TABLE batch RENAME TO old; CREATE VIEW batch AS "
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n, old",
]


def edited(whole, out, statements):
    shutil.copytree(whole, out)
    with closing(sqlite3.connect(out / FILE)) as database:
        database.executescript(statements)
    return out


def is_refused(out):
    """Check that every use of a ledger says that it is damaged."""
    for use in (lambda: Batch(out).progress, lambda: Batch(out).ledger(), lambda: Ledger(out)):
        with pytest.raises(DataError, match=r"ledger\.sqlite is damaged \(.*\); put back an und"):
            use()


@pytest.mark.parametrize("statements", [*EDITS, *EDITS_OF_SCHEMA])
def test_edited_rows_and_definitions_are_refused(whole, tmp_path, statements):
    is_refused(edited(whole, tmp_path / "source", statements))


@pytest.mark.parametrize("statements", EDITS_OF_TABLES)
def test_edited_tables_are_refused(whole, tmp_path, statements):
    source = edited(whole, tmp_path / "source", statements)
    message = r"ledger\.sqlite is damaged \(the table t of task name \d+ does not match its digest"
    with pytest.raises(DataError, match=message):
        Batch(source).table("t")
    assert status(source) == status(whole)


def forged(whole, out, *, values=None, row=None):
    """Return a copy of a ledger with other values and the digests that belong to them."""
    shutil.copytree(whole, out)
    with closing(sqlite3.connect(out / FILE)) as database:
        if values is not None:
            found = database.execute(f"SELECT {', '.join(Values._fields)} FROM batch").fetchone()
            new = Values(*found)._replace(**values)
            database.execute(REPLACE_VALUES, (*new, digest_of_row(new)))
        if row is not None:
            found = database.execute(f"{SELECT_ROWS} WHERE id = 3").fetchone()
            new = Row(*found[:-1])._replace(**row)
            database.execute(REPLACE_ROW, (*new, digest_of_row(new[1:])))
        database.commit()
    return out


@pytest.mark.parametrize(
    "values", [{"run": "a"}, {"oldest": None}, {"tasks": 10**17}, {"tasks": -9}, {"started": "x"}]
)
def test_values_of_the_wrong_kind_are_refused_whatever_their_digest(whole, tmp_path, values):
    is_refused(forged(whole, tmp_path / "source", values=values))


@pytest.mark.parametrize("row", [{"verdict": b"passed"}, {"failed_checks": b"1"}, {"seed": "a"}])
def test_rows_of_the_wrong_kind_are_refused_whatever_their_digest(whole, tmp_path, row):
    is_refused(forged(whole, tmp_path / "source", row=row))


@pytest.mark.parametrize("column", ["versions", "tables"])
@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, '{"t": 1}'])
def test_texts_that_are_not_the_json_expected(whole, tmp_path, column, text):
    source = forged(whole, tmp_path / "source", row={column: text})
    for use in (lambda: Batch(source).table("t"), lambda: Batch(source).ledger()):
        with suppress(DataError):
            use()


def test_the_status_of_a_damaged_ledger_is_one_sentence(whole, tmp_path, capsys):
    source = edited(whole, tmp_path / "source", EDITS[0])
    with pytest.raises(SystemExit) as ended:
        main(["batch", "--status", str(source)])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert "ledger.sqlite is damaged (the row of task 3 does not match its digest); put" in error
    assert "bug" not in error


def test_the_journal_of_a_stranger_deletes_nothing(whole, tmp_path):
    """SQLite deletes the super-journal that a journal names, which may be any file."""
    out, mine = tmp_path / "out", tmp_path / "mine.txt"
    shutil.copytree(whole, out)
    mine.write_text("mine")
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(mine).encode()
    pages = (out / FILE).stat().st_size // PAGE
    head = (magic + struct.pack(">5I", 0, 0, pages, 512, PAGE)).ljust(512, b"\0")
    end = struct.pack(">2I", len(name), sum(name)) + magic
    journal = head + struct.pack(">I", 2**30 // PAGE + 1) + name + end
    (out / f"{FILE}-journal").write_bytes(journal)
    for use in (lambda: Batch(out).progress, lambda: Ledger(out)):
        with pytest.raises(ConfigError, match=r"-journal was not written by pyflowers; remove it"):
            use()
    assert mine.read_text() == "mine"
    # Without the refusal, SQLite would do it.
    with closing(sqlite3.connect(out / FILE)) as database:
        database.execute("SELECT * FROM batch").fetchall()
    assert not mine.exists()


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "device"])
def test_special_files_are_refused(whole, tmp_path, suffix, kind):
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    path = out / f"{FILE}{suffix}"
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(whole / FILE if kind == "link" else "/dev/zero")
    for use in (lambda: Batch(out).progress, lambda: Ledger(out)):
        with pytest.raises(ConfigError, match=rf"{path.name} is not a regular file but a link"):
            use()


def test_a_write_ahead_log_is_refused(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "out")
    (tmp_path / "out" / f"{FILE}-wal").write_bytes(b"x" * 100)
    with pytest.raises(ConfigError, match=r"-wal was not written by pyflowers; remove it"):
        Batch(tmp_path / "out").ledger()


@contextmanager
def as_nobody():
    """Give up root's right to read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such permissions")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_ledger_that_may_not_be_read(whole, what):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        shutil.copytree(whole, out)
        for path in (Path(folder), out):
            path.chmod(0o755)
        (out if what == "folder" else out / FILE).chmod(0)
        try:
            with as_nobody():
                for use in (lambda: Batch(out).progress, lambda: Batch(out).seed):
                    with pytest.raises(ConfigError, match=r"cannot be read \(Permission denied\)"):
                        use()
                with pytest.raises(ConfigError, match="Permission denied"):
                    Ledger(out)
        finally:
            out.chmod(0o700)
