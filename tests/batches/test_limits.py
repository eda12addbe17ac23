"""The behaviour of a batch if the disk or the memory is full."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pyflowers
from pyflowers import Batch, Task
from pyflowers.batches import Pool
from pyflowers.engines.workers import close_workers

QUICK = {"chains": 1, "warmup": 20, "draws": 20}
CLIENT = """
import resource, sys
from pyflowers import ConfigError, Task, batch
from pyflowers.batches import ledger
program, out, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
ledger.SECONDS_BETWEEN_WRITES = 0.1
options = {"chains": 2, "warmup": 4000, "draws": 50}
tasks = [
    Task(program, {"m": i / 7}, name=str(i), keep=["summary", "draws:x"], **options)
    for i in range(300)
]
try:
    batch(tasks, out=out, seed=1, engine="stanli", workers=2)
except ConfigError as error:
    sys.exit(f"error: {error}")
"""


def client(program, out, limit=0):
    words = [sys.executable, "-c", CLIENT, str(program), str(out), str(limit)]
    return subprocess.run(words, capture_output=True, text=True)


def check_resumed(normal, out):
    """Check that a stopped batch resumes and has lost no results."""
    done = Batch(out).ledger().query("outcome == 'done'")
    assert 0 < len(done) < 300
    again = client(normal, out)
    assert again.returncode == 0, again.stderr
    ledger = Batch(out).ledger()
    assert (ledger["outcome"] == "done").all()
    same = ["key", "seed", "seconds", "outcome"]
    assert ledger.loc[done.index, same].equals(done[same])
    assert Batch(out).table("draws")["task"].nunique() == 300


@pytest.mark.slow
def test_files_that_may_not_grow(normal, tmp_path):
    stopped = client(normal, tmp_path / "out", 150_000)
    assert stopped.returncode == 1
    assert stopped.stderr.startswith(f"error: batch folder {tmp_path / 'out'} cannot be written")
    check_resumed(normal, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root mounts")
def test_a_full_disk(normal, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk]).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        stopped = client(normal, disk / "out")
        assert stopped.returncode == 1
        assert "cannot be written" in stopped.stderr
        assert "run the batch again to resume" in stopped.stderr
        subprocess.run(["mount", "-o", "remount,size=40m", disk], check=True)
        check_resumed(normal, disk / "out")
    finally:
        subprocess.run(["umount", disk], check=True)


def resident(pid):
    """Return the resident memory of a process and its children in MB."""
    pids, found = [pid], 0.0
    while pids:
        each = pids.pop()
        pages = int(Path(f"/proc/{each}/statm").read_text().split()[1])
        found += pages * resource.getpagesize() / 1e6
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            pids += map(int, path.read_text().split())
    return found


def own(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def num_open(pids):
    """Return the number of open handles of processes."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def least_open(pids):
    """Return the least of several counts: a worker may have a file open at the moment of one."""
    counts = []
    for _ in range(5):
        counts.append(num_open(pids))
        time.sleep(0.01)
    return min(counts)


def check_memory(normal, out, number, after, growth):
    """Check the memory and the handles of the client and of the workers after a given task."""
    sizes, handles = {"client": [], "workers": []}, []
    close_workers()
    before = num_open([os.getpid()])
    with Pool(2) as pool:

        def tasks():
            for i in range(number):
                if i > after and i % 100 == 0:
                    sizes["client"].append(own(os.getpid()))
                    pids = [worker.pid for worker in (*pool._idle, *pool._busy)]
                    sizes["workers"].append(sum(map(resident, pids)))
                    handles.append(least_open([os.getpid(), *pids]))
                yield Task(normal, {"m": 0.0}, repeat=i, **QUICK)

        batch = pyflowers.batch(tasks(), out=out, executor=pool, seed=1, engine="stanli")
    assert batch.progress.done == number
    for whose, found in sizes.items():
        print(f"{whose}: {min(found):.1f} to {max(found):.1f} MB from task {after} to {number}")
        assert max(found) - min(found) < growth, (whose, found)
    assert len(set(handles)) == 1, handles
    close_workers()
    assert num_open([os.getpid()]) == before


@pytest.mark.slow
def test_memory_over_ten_thousand_tasks(normal, tmp_path):
    check_memory(normal, tmp_path / "out", number=10_000, after=500, growth=50)
