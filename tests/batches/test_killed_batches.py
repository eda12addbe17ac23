"""SIGKILL at random moments, to workers and the client: nothing is lost."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kills import Client, alive, check_undisturbed, descendants, kill, run_with_kills, wait_for
from studies import of_kills

from pyflowers import Batch, ConfigError, batch

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc")


def check_kills(program, tmp_path, pool, number, kills, seed):
    client = Client(program, tmp_path / "killed", number, tmp_path)

    def kill_one(i, rng):
        workers = client.workers()
        if i % 3 == 1 or not workers:
            client.kill()
        else:
            kill(rng.choice(workers))

    run_with_kills(client, kills, seed, kill_one)
    client.finish()
    client.check_nothing_left()
    batch(of_kills(program, number), out=tmp_path / "whole", seed=1, engine="stanli", executor=pool)
    check_undisturbed(tmp_path / "killed", tmp_path / "whole", number)


@pytest.mark.slow
def test_a_few_kills(normal, tmp_path, pool):
    check_kills(normal, tmp_path, pool, number=120, kills=2, seed=1)


@pytest.mark.slow
def test_twenty_kills_in_two_thousand_tasks(normal, tmp_path, pool):
    check_kills(normal, tmp_path, pool, number=2000, kills=20, seed=2)


def num_done(out):
    try:
        return Batch(out).progress.done
    except ConfigError:
        return 0


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(normal, tmp_path):
    (tmp_path / "many.toml").write_text(
        'models = ["normal.stan"]\nrepeats = 100000\nfolder = "out"\n'
        '[data]\nfiles = ["m.json"]\n'
        '[sampler]\nseed = 1\nengine = "stanli"\nchains = 1\nwarmup = 100\ndraws = 100\n'
    )
    (tmp_path / "m.json").write_text('{"m": 1}')
    command = [sys.executable, "-m", "pyflowers", "batch", str(tmp_path / "many.toml")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(lambda: num_done(tmp_path / "out") > 0, 60)
    below = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "run the same batch again to resume" in output
    wait_for(lambda: not any(alive(pid) for pid in below), 5)
    progress = Batch(tmp_path / "out").progress
    assert 0 < progress.done < 100_000
    assert not progress.running
