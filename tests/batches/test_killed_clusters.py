"""SIGKILL to Dask's workers, their processes, the scheduler and the client."""

import time
from pathlib import Path

import pytest
from clusters import Processes
from kills import MARK, Client, check_undisturbed, descendants, kill, marked, run_with_kills
from studies import of_kills

from pyflowers import batch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc"),
]


def check(program, tmp_path, pool, number, num_workers, kills, seed, event):
    """Run a batch on a disturbed cluster, and compare it with an undisturbed batch.

    ``event(processes, client, number of the event, random numbers)`` disturbs it.
    """
    environment = {MARK: str(tmp_path), "TMPDIR": str(tmp_path)}
    with Processes(tmp_path / "dask", num_workers, environment=environment) as processes:
        client = Client(program, tmp_path / "killed", number, tmp_path, processes.address)
        run_with_kills(client, kills, seed, lambda i, rng: event(processes, client, i, rng))
        client.finish()
    client.check_nothing_left()
    end = time.monotonic() + 10
    while marked(str(tmp_path)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not marked(str(tmp_path))
    batch(of_kills(program, number), out=tmp_path / "whole", seed=1, engine="stanli", executor=pool)
    check_undisturbed(tmp_path / "killed", tmp_path / "whole", number)


def kill_one(processes, client, i, rng):
    """Kill, in turn, a Dask worker, a process that fits, the scheduler, a worker, the client."""
    kind = ("worker", "fitting", "scheduler", "worker", "client")[i % 5]
    chosen = rng.randrange(len(processes.workers))
    if kind == "worker":
        processes.kill_worker(chosen)
    elif kind == "fitting":
        below = descendants(processes.workers[chosen].pid)
        if below:
            kill(rng.choice(below))
    elif kind == "scheduler":
        processes.kill_scheduler()
        processes.wait_for_workers_to_end(30)  # workers end if there is no scheduler
        processes.start_scheduler()
    else:
        client.kill()
    processes.keep(2)


def test_twenty_kills_in_two_thousand_tasks(normal, tmp_path, pool):
    check(normal, tmp_path, pool, 2000, 2, 20, 3, kill_one)


def come_or_go(processes, client, i, rng):
    """Add, dismiss or kill a worker, so that there are at most four."""
    processes.keep(0)
    num = len(processes.workers)
    if num == 4 or (num > 1 and rng.random() < 0.5):
        chosen = rng.randrange(num)
        leave = processes.kill_worker if rng.random() < 0.5 else processes.dismiss_worker
        leave(chosen)
    else:
        processes.add_worker()


def test_four_workers_that_come_and_go(normal, tmp_path, pool):
    check(normal, tmp_path, pool, 1000, 4, 12, 4, come_or_go)
