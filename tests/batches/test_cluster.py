"""The same batches on a Dask cluster of separate processes."""

import threading
import time

import pandas as pd
import pytest
from clusters import Processes

from pyflowers import ConfigError, Keep, ToolchainError, batch
from pyflowers.batches import cluster as dask_cluster
from pyflowers.batches.cluster import Cluster, connected
from pyflowers.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with Processes(tmp_path_factory.mktemp("dask")) as processes:
        yield processes


@pytest.fixture(scope="module")
def client(processes):
    with connected(processes.address) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def run(tasks, out, **how):
    return batch(tasks, out=out, **{"seed": 1, "engine": "stanli", **how})


def same(batch, other):
    for table in ("summary", "draws"):
        pd.testing.assert_frame_equal(batch.table(table), other.table(table), check_exact=True)


@pytest.mark.slow
def test_the_results_are_those_of_the_pool(client, pool, tasks, tmp_path):
    batch = run(tasks(12), tmp_path / "dask", executor=client)
    assert batch.progress.done == 12
    same(batch, run(tasks(12), tmp_path / "pool", executor=pool))
    again = run(tasks(12), tmp_path / "dask", executor=client)
    assert again.ledger().equals(batch.ledger())


def test_failures_are_rows(client, tasks, tmp_path):
    works = [
        *tasks(1, keep=[Keep("studies:slow", {"seconds": 60})], time_limit=2),
        *tasks(1, 1, keep=["studies:crash"]),
        *tasks(1, 2, keep=["studies:fails"]),
        *tasks(1, 3, keep=[Keep("studies:crash_once", {"marker": str(tmp_path / "marker")})]),
        *tasks(3, 4),
    ]
    batch = run(works, tmp_path / "out", executor=client)
    assert batch.progress.done == 4
    output = batch.failures
    assert "time limit of 2 s" in output["site 0"]
    assert "SIGKILL" in output["site 1"]
    assert "ZeroDivisionError: on purpose" in output["site 2"]
    assert batch.ledger()["attempts"].tolist() == [1, 3, 1, 2, 1, 1, 1]


def test_nothing_stays_at_the_scheduler(client, tasks, tmp_path):
    run(tasks(4), tmp_path / "out", executor=Cluster(client))
    end = time.monotonic() + 10
    while time.monotonic() < end:
        held = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if not held:
            return
        time.sleep(0.1)
    pytest.fail(f"the scheduler holds {held} tasks")


def test_an_executor_that_is_none(tasks, tmp_path):
    with pytest.raises(ConfigError, match=r"executor must be .*, got str"):
        run(tasks(1), tmp_path / "out", executor="tcp://127.0.0.1:1")


def test_a_scheduler_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dask_cluster, "SECONDS_TO_CONNECT", 0.5)
    (tmp_path / "b.toml").write_text('models = ["iid_normal"]\n')
    words = [str(tmp_path / "b.toml"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(["batch", *words, "--scheduler", "tcp://127.0.0.1:1"])
    assert ended.value.code == 1
    output = capsys.readouterr().err
    assert "error: scheduler tcp://127.0.0.1:1 cannot be reached" in output


@pytest.mark.slow
def test_a_scheduler_that_is_gone_for_good(tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_cluster, "SECONDS_TO_RETURN", 5.0)
    with Processes(tmp_path, 2) as processes, connected(processes.address) as client:
        client.wait_for_workers(2, timeout=60)
        timer = threading.Timer(4, processes.kill_scheduler)
        timer.start()
        with pytest.raises(ToolchainError, match="is gone; start it and its workers"):
            run(tasks(5000), tmp_path / "out", executor=client)
        timer.join()
    batch = run(tasks(40), tmp_path / "out", workers=2)
    assert batch.progress.done == 40


@pytest.mark.slow
def test_a_worker_lost(tasks, tmp_path, pool):
    kept = ["summary", "draws:x", Keep("studies:slow", {"seconds": 0.1})]
    with Processes(tmp_path, 2) as processes, connected(processes.address) as client:
        client.wait_for_workers(2, timeout=60)
        timer = threading.Timer(1.5, processes.kill_worker)
        timer.start()
        batch = run(tasks(60, keep=kept), tmp_path / "dask", executor=client)
        timer.join()
    assert batch.progress.done == 60
    same(batch, run(tasks(60, keep=kept), tmp_path / "pool", executor=pool))
