"""The ledger is complete or absent, and can be read if it is read-only or is being written."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflowers import Batch, ConfigError, DataError
from pyflowers.batches.database import FILE, reading
from pyflowers.batches.keep import OWN_COLUMNS, frame_of, packed, unpacked
from pyflowers.batches.ledger import Ledger
from pyflowers.batches.task import Job, Outcome

HERE = str(Path(__file__).resolve().parent)
ODD = "a #?%41 é"
"""A folder whose name must be quoted in an address."""

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
NAME = TEXT.filter(lambda name: name not in OWN_COLUMNS)  # those are refused, as another test shows
TABLE = st.dictionaries(NAME, st.sampled_from("fbiO"), min_size=1, max_size=4)
ODD_NUMBERS = [-0.0, np.inf, -np.inf, np.nan, 5e-324]


def values(kind, rows, rng):
    if kind == "O":
        return np.array([rng.choice(["", "a", "é\n", " "]) for _ in range(rows)], dtype=object)
    made = np.where(rng.random(rows) < 0.5, rng.choice(ODD_NUMBERS, rows), rng.normal(size=rows))
    return {"f": made, "b": made > 0, "i": rng.integers(-(2**63), 2**63 - 1, rows)}[kind]


@settings(deadline=None, max_examples=50)
@given(TABLE, st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_a_table_comes_back_bit_for_bit(kinds, rows, seed):
    rng = np.random.default_rng(seed)
    table = {name: values(kind, rows, rng) for name, kind in kinds.items()}
    found = frame_of(unpacked(packed(table)))
    assert list(found) == list(table)
    for name, column in table.items():
        if kinds[name] == "O":
            assert found[name].tolist() == column.tolist()
        else:
            assert found[name].to_numpy().dtype == column.dtype
            assert found[name].to_numpy().tobytes() == column.tobytes()


def job(i):
    return Job(f"key {i}", f"name {i}", "program", i, i)


def note(ledger, *outcomes):
    for i, outcome in enumerate(outcomes):
        ledger.expect(job(i), again=False)
        ledger.take(outcome)
    ledger.write()


def done(i, **columns):
    tables = {"t": packed(columns or {"a": np.array([float(i)])})}
    return Outcome(f"key {i}", seconds=1.0, versions={"v": "1"}, tables=tables)


def failed(i):
    return Outcome(f"key {i}", "it broke")


def finished(out, *outcomes):
    ledger = Ledger(out)
    note(ledger, *outcomes)
    ledger.close()
    return Batch(out)


def seen(out):
    """Return everything that reading could change: names, sizes and times."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in out.iterdir()}


def test_tasks_whose_tables_differ(tmp_path):
    floats, texts = {"a": np.array([0.5])}, {"a": np.array(["x"], object), "b": np.array([True])}
    whole = {"a": np.array([1, 2])}
    tables = [done(0, **floats), done(1, **whole), done(2, **texts), done(3, **texts)]
    found = finished(tmp_path / "out", *tables).table("t")
    assert found["task"].tolist() == ["name 0", "name 1", "name 1", "name 2", "name 3"]
    assert found["a"].tolist() == [0.5, 1.0, 2.0, "x", "x"]
    assert found["b"].tolist()[3:] == [True, True]
    assert finished(tmp_path / "two", *tables[:2]).table("t")["a"].dtype == float


def test_texts_that_are_not_utf_8(tmp_path):
    ledger = Ledger(tmp_path / "out")
    for i in range(2):
        ledger.expect(Job(f"key {i}", f"caf\udce9 {i}", "\udce9.stan", i, i), again=False)
    texts = np.array(["\udce9", "é"], dtype=object)
    ledger.take(done(0, **{"caf\udce9": np.array([1.0, 2.0]), "said": texts}))
    ledger.take(Outcome("key 1", "caf\udce9.csv: no column month"))
    ledger.write()
    ledger.close()
    batch = Batch(tmp_path / "out")
    assert batch.ledger().index.tolist() == ["caf\\udce9 0", "caf\\udce9 1"]
    assert batch.ledger()["program"].tolist() == ["\\udce9.stan"] * 2
    assert batch.failures.tolist() == ["caf\\udce9.csv: no column month"]
    assert batch.table("t").to_dict("list") == {
        "task": ["caf\\udce9 0"] * 2,
        "verdict": ["passed"] * 2,
        "caf\\udce9": [1.0, 2.0],
        "said": ["\\udce9", "é"],
    }


@pytest.mark.parametrize("moment", ["done", "rows"])
def test_a_row_and_its_tables_are_known_together(tmp_path, monkeypatch, moment):
    """If Ctrl-C comes between a row and its tables, neither is recorded; earlier outcomes are."""
    whole = Ledger._execute

    def broken(self, statement, *values):
        if statement.startswith("REPLACE INTO tasks") == (moment == "done"):
            raise KeyboardInterrupt
        whole(self, statement, *values)

    ledger = Ledger(tmp_path / "out")
    note(ledger, done(0))
    ledger.expect(job(1), again=False)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_execute", broken)
        with pytest.raises(KeyboardInterrupt):
            ledger.take(done(1))
    assert ledger.state("key 1")[0] == "waiting"
    ledger.write()
    assert Batch(tmp_path / "out").table("t")["a"].tolist() == [0.0]
    ledger.take(done(1))
    ledger.write()
    ledger.close()
    assert Batch(tmp_path / "out").table("t")["a"].tolist() == [0.0, 1.0]


def test_a_write_that_fails_may_be_tried_again(tmp_path):
    with closing(Ledger(tmp_path / "out")) as ledger:
        note(ledger, done(0))
        ledger._database.execute("PRAGMA max_page_count = 1")
        large = done(1, a=np.zeros(100_000))
        ledger.expect(job(1), again=False)
        with pytest.raises(ConfigError, match=r"cannot be written .*run the batch again to resume"):
            ledger.take(large)
        ledger.write()
        assert Batch(tmp_path / "out").table("t")["a"].tolist() == [0.0]
        assert Batch(tmp_path / "out").progress.done == 1


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (1, "run"),
        (2, "read it with pyflowers 0.3, or run"),
        (99, "run"),
    ],
)
def test_a_ledger_of_another_format(tmp_path, number, remedy):
    Ledger(tmp_path / "out").close()
    with sqlite3.connect(tmp_path / "out" / FILE) as database:
        database.execute(f"PRAGMA user_version = {number}")
    database.close()
    for use in (lambda: Ledger(tmp_path / "out"), lambda: Batch(tmp_path / "out").ledger()):
        with pytest.raises(
            ConfigError, match=f"format {number}, .* reads only format 3; {remedy} the batch in"
        ):
            use()


def test_progress_of_a_running_batch(tmp_path):
    ledger = Ledger(tmp_path / "out")
    ledger.remember({"total": 10, "started": 0})
    note(ledger, done(0), done(1), done(2), failed(3))
    progress = Batch(tmp_path / "out").progress
    assert (progress.done, progress.failed, progress.total) == (3, 1, 10)
    assert progress.running
    assert progress.seconds_left > 0
    ledger.close()


def test_a_finished_ledger_is_read_without_a_trace(tmp_path):
    batch = finished(tmp_path / ODD, failed(0))
    before = seen(tmp_path / ODD)
    assert set(before) == {FILE}
    assert batch.progress.failed == 1
    assert batch.failures.tolist() == ["it broke"]
    assert seen(tmp_path / ODD) == before


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["after", "within"])
def test_what_a_killed_client_leaves_can_be_read_and_resumed(tmp_path, moment):
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_ledger import *\n"
        "ledger = Ledger(Path(sys.argv[1])); note(ledger, failed(0))\n"
        "if sys.argv[3] == 'within':\n"
        "    ledger._database.execute('PRAGMA cache_spill = 1')\n"
        "    for i in range(2000): ledger.expect(job(i), again=False)\n"
        "os.kill(os.getpid(), 9)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "out"), HERE, moment]
    assert subprocess.run(words).returncode == -9
    assert (f"{FILE}-journal" in seen(tmp_path / "out")) == (moment == "within")
    assert Batch(tmp_path / "out").progress.failed == 1
    assert len(Batch(tmp_path / "out").ledger()) == 1
    Ledger(tmp_path / "out").close()
    assert set(seen(tmp_path / "out")) == {FILE}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root mounts")
def test_a_disk_that_nobody_may_write(tmp_path):
    finished(tmp_path / "out", failed(0))
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "--bind", tmp_path / "out", disk]).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", disk], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (disk / "a").touch()
        assert Batch(disk).progress.failed == 1
        assert not Batch(disk).progress.running
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def in_a_thread(enter, seconds):
    """Enter a context in a thread, which leaves it `seconds` later; return once it is entered."""
    entered = threading.Event()

    def hold():
        with enter():
            entered.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(10)
    return thread


def test_one_who_writes_waits_for_one_who_reads(tmp_path):
    @contextmanager
    def holding():
        with reading(tmp_path / "out") as database:
            database.execute("SELECT * FROM tasks").fetchall()
            yield

    ledger = Ledger(tmp_path / "out")
    reader = in_a_thread(holding, 0.3)
    note(ledger, failed(0))
    reader.join()
    ledger.close()
    assert Batch(tmp_path / "out").progress.failed == 1


def test_one_who_asks_is_no_client_and_refuses_none(tmp_path):
    import fcntl

    batch = finished(tmp_path / "out", failed(0))

    @contextmanager
    def asking():
        descriptor = os.open(tmp_path / "out", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(descriptor)

    with asking():
        assert not batch.progress.running
        with pytest.raises(ConfigError, match="the batch is already running"):
            Ledger(tmp_path / "out")
    asker = in_a_thread(asking, 0.03)
    Ledger(tmp_path / "out").close()
    asker.join()


def test_a_table_that_is_not_packed(tmp_path):
    broken = Outcome("key 0", tables={"t": b"nonsense"})
    with pytest.raises(DataError, match=r"is damaged \(.*\); put back an undamaged copy"):
        finished(tmp_path / "broken", broken).table("t")
