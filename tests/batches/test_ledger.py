"""The ledger's file: read by many while one writes, and where nobody may write."""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyflowers import Batch, ConfigError
from pyflowers.batches.ledger import FILE, Ledger, reading
from pyflowers.batches.task import Job, Outcome

HERE = str(Path(__file__).resolve().parent)
ODD = "a #?%41 é"
"""A folder whose name would be something else in an address, were it not quoted."""

posix = pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked there")


def note(ledger, number=1):
    for i in range(number):
        ledger.expect(Job(f"key {i}", f"name {i}", "program", i, i), again=False)
    ledger.write([Outcome(f"key {i}", "it broke") for i in range(number)])


def finished(out, number=1):
    ledger = Ledger(out)
    note(ledger, number)
    ledger.close()


def seen(out):
    """Return what reading could change: names, sizes and times."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in out.iterdir()}


def in_a_thread(enter, seconds):
    """Enter a context in a thread, and leave it some time after this returns."""
    entered = threading.Event()

    def hold():
        with enter():
            entered.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(10)
    return thread


def test_a_finished_ledger_is_read_without_a_trace(tmp_path):
    finished(tmp_path / ODD)
    before = seen(tmp_path / ODD)
    assert set(before) == {FILE, "shards"}
    # Bytes 18 and 19 of SQLite's header are 2 where a log is needed to read it.
    assert (tmp_path / ODD / FILE).read_bytes()[18:20] == b"\1\1"
    batch = Batch(tmp_path / ODD)
    assert batch.progress.failed == 1
    assert batch.failures.tolist() == ["it broke"]
    assert seen(tmp_path / ODD) == before


def test_reading_a_killed_clients_ledger_leaves_it_to_the_next_run(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_ledger import *; note(Ledger(Path(sys.argv[1]))); os.kill(os.getpid(), 9)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "out"), HERE]
    assert subprocess.run(words).returncode == -9
    before = set(seen(tmp_path / "out"))
    assert f"{FILE}-wal" in before
    assert Batch(tmp_path / "out").progress.failed == 1
    assert set(seen(tmp_path / "out")) == before
    Ledger(tmp_path / "out").close()
    assert set(seen(tmp_path / "out")) == {FILE, "shards"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root mounts")
def test_a_disk_that_nobody_may_write(tmp_path):
    finished(tmp_path / "out")
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


def test_one_who_reads_at_the_end_is_waited_for(tmp_path):
    ledger = Ledger(tmp_path / "out")
    note(ledger)
    reader = in_a_thread(lambda: reading(tmp_path / "out"), 0.3)
    ledger.close()
    reader.join()
    assert set(seen(tmp_path / "out")) == {FILE, "shards"}


@posix
def test_one_who_asks_is_no_client_and_refuses_none(tmp_path):
    import fcntl

    finished(tmp_path / "out")

    @contextmanager
    def asking():
        descriptor = os.open(tmp_path / "out", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(descriptor)

    with asking():
        assert not Batch(tmp_path / "out").progress.running
        with pytest.raises(ConfigError, match="another pyflowers is running"):
            Ledger(tmp_path / "out")
    asker = in_a_thread(asking, 0.03)
    Ledger(tmp_path / "out").close()
    asker.join()


def test_a_damaged_page_is_a_sentence(tmp_path):
    finished(tmp_path / "out", 2000)
    path = tmp_path / "out" / FILE
    raw = bytearray(path.read_bytes())
    assert len(raw) > 100_000
    raw[-50_000:] = b"\xff" * 50_000
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"ledger\.sqlite: it cannot be read .*; check the disk"):
        Batch(tmp_path / "out").ledger()
