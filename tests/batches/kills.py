"""Batches whose processes are killed at random moments, and checks for leftovers.

The client is a separate process. All of its children inherit a mark in the environment, by which
leftover processes are found, even if their parents are gone.
"""

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pytest

from pyflowers import Batch, ConfigError

HERE = Path(__file__).resolve().parent
MARK = "PYFLOWERS_TEST_MARK"
CLIENT = """
import sys
from pyflowers import batch
from pyflowers.batches import ledger
from studies import of_kills
program, out, number, scheduler = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ledger.SECONDS_BETWEEN_WRITES = 0.5
how = {"out": out, "seed": 1, "engine": "stanli", "retry_failed": True, "retries": 5}
if scheduler:
    from pyflowers.batches.cluster import connected
    with connected(scheduler) as client:
        batch(of_kills(program, number), executor=client, **how)
else:
    batch(of_kills(program, number), workers=2, **how)
"""


class Client:
    """A batch in a separate process, which is started again after it has been killed."""

    def __init__(self, program, out, number, folder, scheduler=""):
        self.out, self.number = out, number
        self._words = [str(program), str(out), str(number), scheduler]
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.mark = secrets.token_hex(8)
        self.begin()

    def begin(self):
        """Start the process, for the first time or again."""
        changed = {MARK: self.mark, "TMPDIR": str(self.temporary)}
        changed["PYTHONPATH"] = os.pathsep.join([str(HERE), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", CLIENT, *self._words],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **changed},
        )

    @property
    def is_running(self):
        """Whether the process has not ended."""
        return self.process.poll() is None

    def workers(self):
        """Return the processes that it has started."""
        return descendants(self.process.pid)

    def kill(self):
        """Kill the process, check that its children end, and start again."""
        below = self.workers()
        kill(self.process.pid)
        self.process.communicate()
        wait_for(lambda: not any(map(alive, below)), 10)
        self.begin()

    def finish(self, seconds=900):
        """Wait for the end of the batch."""
        _, output = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, output

    def num_done(self):
        """Return the number of finished tasks in the ledger."""
        with suppress(ConfigError):
            return Batch(self.out).progress.done
        return 0

    def check_nothing_left(self):
        """Check that no process, temporary file or partial result is left."""
        wait_for(lambda: not marked(self.mark), 10)
        assert not list(self.temporary.iterdir())
        assert [path.name for path in self.out.iterdir()] == ["ledger.sqlite"]


def run_with_kills(client, kills, seed, kill_one):
    """Run a batch to its end, with kills at random moments spread over the whole run.

    ``kill_one(number of the kill, random numbers)`` kills a process.
    """
    rng = random.Random(seed)
    for i in range(kills):
        # Kills follow progress, not time, because a fast machine would finish before the last kill.
        due = round(0.8 * client.number * i / kills)
        wait_for(lambda due=due: client.num_done() >= due or not client.is_running, 300)
        time.sleep(rng.uniform(0, 0.2))
        if not client.is_running:
            client.finish(0.1)
            pytest.fail(f"the batch was done before kill {i + 1} of {kills}")
        kill_one(i, rng)


def check_undisturbed(out, whole, number):
    """Check that a batch has each task once, with the results of an undisturbed batch."""
    batch, whole = Batch(out), Batch(whole)
    ledger = batch.ledger()
    assert ledger.index.is_unique
    assert ledger["key"].nunique() == len(ledger) == number
    assert (ledger["outcome"] == "done").all()
    assert (ledger["seed"] == whole.ledger()["seed"]).all()
    for table in ("summary", "draws"):
        pd.testing.assert_frame_equal(batch.table(table), whole.table(table), check_exact=True)


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid):
    """Return the descendants of a process."""
    with suppress(psutil.Error):
        return [each.pid for each in psutil.Process(pid).children(recursive=True)]
    return []


def marked(mark):
    """Return the processes that have a mark in their environment and have not ended."""
    found = psutil.process_iter(["pid", "environ"])
    pids = [each.pid for each in found if (each.info["environ"] or {}).get(MARK) == mark]
    return list(filter(alive, pids))


def alive(pid):
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("it took too long")
