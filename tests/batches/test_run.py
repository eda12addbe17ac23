"""From tasks to a ledger and tables; valid and invalid tasks."""

import json
import os
import random
import re
import signal
import sqlite3
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers import Batch, ConfigError, Keep, Task, batch
from pyflowers.batches.database import FILE
from pyflowers.batches.ledger import Ledger
from pyflowers.batches.pool import Pool
from pyflowers.batches.task import Planner
from pyflowers.engines import find_engine
from pyflowers.engines.workers import Worker, close_workers
from pyflowers.fits.spec import Spec
from pyflowers.programs import find_program

QUICK = {"chains": 2, "warmup": 100, "draws": 50}


@pytest.fixture
def run(pool):
    def run(tasks, out, **how):
        executor = None if "workers" in how else pool
        usual = {"seed": 1, "engine": "stanli", "executor": executor}
        return batch(tasks, out=out, **{**usual, **how})

    return run


def same_tables(a, b, names=("summary", "draws")):
    for name in names:
        pd.testing.assert_frame_equal(a.table(name), b.table(name), check_exact=True)


def children():
    """Return the processes that this one has started."""
    lists = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return {pid for pids in lists for pid in pids}


def test_a_task_is_the_fit_with_its_seed(run, tasks, normal, tmp_path):
    batch = run(tasks(3), tmp_path / "out")
    ledger = batch.ledger()
    assert not len(batch.failures), batch.failures.iloc[0]
    assert ledger["outcome"].tolist() == ["done"] * 3
    assert ledger["seed"].nunique() == 3
    fit = pyflowers.fit(
        normal, {"m": 1.0}, seed=int(ledger.loc["site 1", "seed"]), engine="stanli", **QUICK
    )
    draws = batch.table("draws").query("task == 'site 1'")
    assert np.array_equal(draws["x"].to_numpy(), fit.draws["x"].ravel())
    kept = batch.table().query("task == 'site 1'").set_index("parameter")
    kept = kept.drop(columns=["task", "verdict"])
    pd.testing.assert_frame_equal(kept, fit.summary().rename_axis("parameter"), check_exact=True)
    row = ledger.loc["site 1"]
    assert row["verdict"] == ("passed" if fit.diagnostics.passed else "doubtful")
    failing = ", ".join(check.name for check in fit.diagnostics.failed)
    assert ledger["failed_checks"].fillna("")["site 1"] == failing
    assert row["seconds"] > 0
    assert row["versions"]["engine"] == "stanli"


def test_results_do_not_depend_on_workers_or_order(run, tasks, tmp_path):
    first = run(tasks(8), tmp_path / "a", workers=1)
    shuffled = tasks(8)
    random.Random(1).shuffle(shuffled)
    second = run(shuffled, tmp_path / "b", workers=2)
    by = ["task", "parameter"]
    pd.testing.assert_frame_equal(
        first.table().sort_values(by, ignore_index=True),
        second.table().sort_values(by, ignore_index=True),
        check_exact=True,
    )
    other = run(tasks(8), tmp_path / "c", seed=2)
    assert not np.array_equal(first.table()["mean"], other.table()["mean"])


def test_the_lectures_fit_is_that_of_a_fit_alone(run, tmp_path):
    task = Task("multilevel_poisson", keep=["summary", "draws"], **QUICK)
    batch = run([task], tmp_path / "out")
    seed = int(batch.ledger()["seed"].iloc[0])
    fit = pyflowers.fit("multilevel_poisson", seed=seed, engine="stanli", **QUICK)
    draws = batch.table("draws")
    assert np.array_equal(draws["mu"], fit.draws["mu"].ravel())
    assert np.array_equal(draws["mu_plant[2]"], fit.draws["mu_plant"][..., 1].ravel())
    kept = batch.table().drop(columns=["task", "verdict"]).set_index("parameter")
    pd.testing.assert_frame_equal(kept, fit.summary().rename_axis("parameter"), check_exact=True)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc")
def test_a_worker_is_its_own_interpreter(run, tasks, tmp_path):
    again = run(tasks(1, keep=["studies:fitted_again"]), tmp_path / "out")
    assert not len(again.failures), again.failures.iloc[0]
    found = again.table("fitted_again")
    assert found["same"].tolist() == [True, True]
    # Another thread has a separate interpreter process, because threads do not share one.
    assert found["processes"].tolist() == [0, 1]


def test_a_second_run_does_nothing_and_a_changed_task_is_run_again(run, tasks, tmp_path):
    out = tmp_path / "out"
    before = run(tasks(4), out).ledger()
    pd.testing.assert_frame_equal(run(tasks(4), out).ledger(), before)
    changed = [*tasks(3), *tasks(1, first=3, draws=60)]
    after = run(changed, out)
    assert len(after.ledger()) == 4
    assert (after.ledger()["key"] == before["key"]).tolist() == [True, True, True, False]
    assert after.table("draws").groupby("task").size().tolist() == [100, 100, 100, 120]


def test_names_are_no_reason_to_fit_again(run, tasks, tmp_path):
    before = run(tasks(2), tmp_path / "out").ledger()
    renamed = [Task(t.spec, name="new " + t.name, keep=t.keep) for t in tasks(2)]
    batch = run(renamed, tmp_path / "out")
    assert batch.ledger()["key"].tolist() == before["key"].tolist()
    assert batch.table()["task"].unique().tolist() == ["new site 0", "new site 1"]


def test_the_seed_of_the_first_run_is_kept(run, tasks, tmp_path):
    first = run(tasks(2), tmp_path / "out", seed=None)
    again = run(tasks(2), tmp_path / "out", seed=None)
    assert first.ledger().equals(again.ledger())


def test_repeats_differ_and_equal_tasks_have_equal_results(run, tasks, tmp_path, caplog):
    others = [*tasks(1, name="again", repeat=1), *tasks(1, name="seeded", seed=5)]
    equal = [task for name in "abc" for task in tasks(1, name=name)]
    bad = [task for name in "de" for task in tasks(1, name=name, priors={"tau": 1})]
    run(equal[1:2], tmp_path / "out")  # b is there before its copies are
    batch = run([*equal, *others, *bad], tmp_path / "out")
    ledger = batch.ledger()
    assert ledger.index.tolist() == ["a", "b", "c", "again", "seeded", "d", "e"]
    assert ledger["key"].is_unique
    assert ledger["seed"].iloc[:5].nunique() == 3
    assert "2 of 7 tasks have the same inputs as an earlier task, and so the same" in caplog.text
    assert "(the first is b); in Python, a different repeat=… gives" in caplog.text
    assert (batch.progress.done, batch.progress.failed, batch.progress.total) == (5, 2, 7)
    draws = {task: table["x"].tolist() for task, table in batch.table("draws").groupby("task")}
    assert draws["a"] == draws["b"] == draws["c"] != draws["again"]
    again = run([*bad, *others, *reversed(equal)], tmp_path / "out")
    assert sorted(again.ledger()["seconds"]) == sorted(ledger["seconds"])  # no new fits
    assert again.ledger().index.tolist() == ["d", "e", "again", "seeded", "c", "b", "a"]


def test_tasks_that_are_the_same_in_name_too_are_all_counted(run, tasks, tmp_path):
    bad = tasks(1, priors={"tau": 1})
    batch = run([*tasks(1), *tasks(1), *bad, *tasks(1), *bad], tmp_path / "out")
    assert batch.table("draws")["task"].tolist() == ["site 0"] * 300
    assert batch.progress.failed == 2


FAILURES = [
    ({"keep": ["studies:fails"]}, "keep fails: ZeroDivisionError: on purpose"),
    (
        {"keep": ["studies:ragged"]},
        "keep ragged: ValueError: the table's columns have 2 and 3 rows",
    ),
    ({"keep": ["studies:no_memory"]}, "not enough memory"),
    ({"keep": ["draws:z"]}, "z is not a quantity of normal"),
    ({"keep": ["studies:absent"]}, "cannot be imported"),
    ({"priors": {"tau": 1}}, "normal declares no priors"),
    ({"program": "nosuch"}, "no program is named 'nosuch'"),
    ({"program": "multilevel_poisson", "data": "no.csv"}, "no.csv"),
    ({"data": {"m": "text"}}, "m"),
]


def test_a_failing_task_is_a_row(run, tasks, normal, tmp_path):
    bad = [
        Task(**{"program": normal, "data": {"m": 0.0}, **QUICK, "name": str(i), **what})
        for i, (what, _) in enumerate(FAILURES)
    ]
    batch = run([*bad, *tasks(2)], tmp_path / "out")
    assert batch.progress.done == 2
    for i, (_, sentence) in enumerate(FAILURES):
        assert sentence in batch.failures[str(i)]
    assert "\n" not in "".join(batch.failures)


def test_stan_error_is_a_row(run, tasks, own_program, tmp_path):
    stuck = own_program("stuck", "parameters { real x; } model { reject(1); }\n")
    batch = run([Task(stuck.path, **QUICK), *tasks(1)], tmp_path / "out")
    assert batch.failures["0"].startswith("no starting point found")
    assert batch.progress.done == 1


def test_retry_failed(run, tasks, tmp_path):
    marked = Keep("studies:crash_once", {"marker": str(tmp_path / "marker")})
    works = [*tasks(1, keep=[marked]), *tasks(1, 1)]
    batch = run(works, tmp_path / "out", retries=0)
    assert "killed by signal SIGSEGV" in batch.failures["site 0"]
    assert batch.progress.done == 1
    assert run(works, tmp_path / "out").progress.failed == 1
    batch = run(works, tmp_path / "out", retry_failed=True)
    assert (batch.progress.done, batch.progress.failed) == (2, 0)


@pytest.mark.slow
def test_a_crash_is_retried_and_then_a_row(run, tasks, tmp_path):
    marked = Keep("studies:crash_once", {"marker": str(tmp_path / "marker")})
    works = [
        *tasks(1, keep=[marked]),
        *tasks(1, 1, keep=["studies:crash"]),
        *tasks(4, 2),
    ]
    ledger = run(works, tmp_path / "out").ledger()
    assert ledger["outcome"].tolist() == ["done", "failed", "done", "done", "done", "done"]
    assert ledger["attempts"].tolist() == [2, 3, 1, 1, 1, 1]
    assert "SIGKILL" in ledger.loc["site 1", "error"]


class Lost:
    """Kills the interpreter that the client has, or is about to have, a number of times."""

    def __init__(self, monkeypatch, times):
        self.times = times
        send = Worker.send

        def killing(worker, question):
            send(worker, question)
            if threading.current_thread() is threading.main_thread() and self.times:
                self.times -= 1
                os.kill(worker.pid, signal.SIGKILL)

        monkeypatch.setattr("pyflowers.engines.workers.Worker.send", killing)


def plan_with_kills(tasks, monkeypatch, times, retries):
    close_workers()
    planner = Planner(1, find_engine("stanli"), retries=retries)
    with monkeypatch.context() as patch:
        left = Lost(patch, times)
        job = planner.plan(tasks(1)[0], 0)
    return job, times - left.times


def test_a_killed_interpreter_of_the_planner_is_retried(tasks, monkeypatch):
    job, kills = plan_with_kills(tasks, monkeypatch, times=2, retries=2)
    assert (job.refused, kills) == ("", 2)
    assert job.key == Planner(1, find_engine("stanli")).plan(tasks(1)[0], 0).key


def test_after_its_retries_a_task_whose_planning_is_lost_is_a_row(
    run, tasks, tmp_path, monkeypatch
):
    job, kills = plan_with_kills(tasks, monkeypatch, times=9, retries=2)
    assert "the Stan interpreter was killed by signal SIGKILL" in job.refused
    assert (job.attempts, kills) == (3, 3)
    monkeypatch.setattr(Planner, "plan", lambda *_: job)
    ledger = run(tasks(1), tmp_path / "out").ledger()
    assert ledger["outcome"].tolist() == ["failed"]
    assert ledger["attempts"].tolist() == [3]


def test_a_time_limit_is_each_tasks_own(run, tasks, tmp_path):
    sleeper = Keep("studies:slow", {"seconds": 60})
    others = tasks(3, 1, time_limit=100)
    batch = run([*tasks(1, keep=[sleeper]), *others], tmp_path / "out", time_limit=2)
    assert batch.failures.to_dict() == {
        "site 0": "it exceeded its time limit of 2 s; raise the limit, or take fewer draws"
    }
    assert batch.progress.done == 3


def test_a_function_of_the_users(run, tasks, tmp_path):
    wide = Keep("studies:interval", {"level": 0.9}, name="wide")
    batch = run(tasks(2, keep=["studies:interval", wide]), tmp_path / "out")
    half, most = batch.table("interval"), batch.table("wide")
    assert (most["low"] < half["low"]).all()
    assert half["said"].tolist() == ["é", "é"]
    assert half["odd"].dtype == bool


def test_workers_that_stay_open_notice_an_edited_function(tasks, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file, how = tmp_path / "mine_of_workers.py", {"seed": 1, "engine": "stanli"}
    with Pool(1) as pool:
        for text, value in (("1", 1), ("1 + 1", 2)):
            file.write_text(f"def f(fit):\n    return {{'n': {text}}}\n")
            works = tasks(2, keep=["mine_of_workers:f"])
            batch = pyflowers.batch(works, out=tmp_path / "out", executor=pool, **how)
            assert batch.table("f")["n"].tolist() == [value] * 2


def test_ranks_of_true_values(run, tasks, normal, tmp_path):
    low, high = (Keep("ranks", {"true": {"x": value}}) for value in (-50.0, 50.0))
    batch = run([*tasks(1, keep=[low]), *tasks(1, keep=[high])], tmp_path / "out")
    assert batch.table("ranks")["rank"].tolist() == [0, 100]
    wrong = Keep("ranks", {"true": {"x": [1.0, 2.0]}})
    batch = run(tasks(1, keep=[wrong]), tmp_path / "wrong")
    assert "its shape is (2,)" in batch.failures.iloc[0]


def test_shipped_programs_and_labels(run, tmp_path):
    frame = pd.DataFrame(
        {"plant": ["é", "é", "b", "b"], "month": [1, 2, 1, 2], "flowers": [3, 4, 5, 6]}
    )
    batch = run(
        [
            Task("multilevel_poisson", frame, **QUICK),
            Task("iid_normal", frame, priors={"mu_mean": 3}, **QUICK),
        ],
        tmp_path / "out",
    )
    assert not len(batch.failures), batch.failures.tolist()
    table = batch.table()
    assert table["task"].unique().tolist() == ["0", "1"]
    assert any("é" in name for name in table["parameter"])


@pytest.mark.slow
def test_cmdstan_as_the_engine(run, cmdstan, executables, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    tasks = [Task("iid_normal", keep=["draws:mu"], repeat=i, **QUICK) for i in range(2)]
    batch = run(tasks, tmp_path / "out", engine="cmdstan", cmdstan="embedded", workers=2)
    assert not list((tmp_path / "tmp").iterdir())
    assert not len(batch.failures), batch.failures.iloc[0]
    row = batch.ledger().iloc[0]
    assert row["versions"]["engine"] == "cmdstan"
    fit = pyflowers.fit("iid_normal", seed=int(row["seed"]), cmdstan="embedded", **QUICK)
    draws = batch.table("draws").query("task == '0'")["mu"]
    assert np.array_equal(draws, fit.draws["mu"].ravel())


@pytest.mark.slow
def test_a_generator_and_nothing_left(run, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    close_workers()
    started = children()
    before = {p.name for p in Path("/proc/self/fd").iterdir()}
    batch = run((task for task in tasks(5)), tmp_path / "out", workers=2)
    assert batch.progress.total == 5
    close_workers()
    assert {p.name for p in Path("/proc/self/fd").iterdir()} == before
    assert children() <= started
    assert not list((tmp_path / "tmp").iterdir())
    assert [path.name for path in (tmp_path / "out").iterdir()] == [FILE]


@pytest.mark.slow
def test_interrupted_it_keeps_what_is_done(run, tasks, tmp_path, caplog):
    def interrupted():
        yield from tasks(9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted(), tmp_path / "out")
    assert "run the same batch again to resume" in caplog.text
    batch = Batch(tmp_path / "out")
    done = batch.ledger().query("outcome == 'done'")
    assert 0 < len(done) < 9
    finished = run(tasks(9), tmp_path / "out")
    assert finished.progress.done == 9
    same_tables(finished, run(tasks(9), tmp_path / "other"))


def test_an_interrupted_run_hides_no_earlier_results(run, tasks, tmp_path, monkeypatch, caplog):
    out = tmp_path / "out"
    before = run(tasks(9), out)
    ledger = before.ledger()

    def no_bar(total):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pyflowers.batches.run._shown", no_bar)
        with pytest.raises(KeyboardInterrupt):
            run(tasks(9), out)
    assert "out holds what has been done so far; run the same batch again" in caplog.text
    assert (before.progress.done, before.progress.earlier, before.progress.total) == (9, 9, 9)

    def failing(**changes):
        yield from tasks(3, **changes)
        raise OSError("connection lost")

    with pytest.raises(OSError, match="connection lost"):
        run(failing(), out)
    assert (before.progress.done, before.progress.earlier) == (9, 6)
    pd.testing.assert_frame_equal(before.ledger(), ledger)
    with pytest.raises(OSError, match="connection lost"):
        run(failing(repeat=1), out)  # new results supersede those with the same name
    assert before.ledger().index.tolist() == ledger.index.tolist()
    assert (before.ledger()["key"] == ledger["key"]).tolist() == [False] * 3 + [True] * 6
    assert before.progress.earlier == 6
    assert len(run(tasks(2), out).ledger()) == 2
    assert before.progress.earlier == 0


OPTIONS = [
    ({"time_limit": 0}, "time_limit must be"),
    ({"retries": -1}, "retries must be"),
    ({"workers": 0}, "workers must be"),
    ({"seed": -1}, "seed"),
    ({"engine": "none"}, "engine must be"),
    ({"executor": Pool(1), "workers": 1}, "workers=… applies only to this machine"),
]


@pytest.mark.parametrize(("how", "sentence"), OPTIONS, ids=[next(iter(h)) for h, _ in OPTIONS])
def test_wrong_options(run, tasks, tmp_path, how, sentence):
    with pytest.raises(ConfigError, match=sentence):
        run(tasks(1), tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()


def test_folders_that_are_refused(run, tasks, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something other than a batch"):
        run(tasks(1), tmp_path)
    with pytest.raises(ConfigError, match="is a file"):
        run(tasks(1), tmp_path / "notes.txt")
    with pytest.raises(ConfigError, match=r"has no ledger\.sqlite, so it is not a batch folder"):
        Batch(tmp_path).ledger()
    other = tmp_path / "other"
    other.mkdir()
    for kind, sentence in (
        (0, "does not hold a batch; name another folder"),
        (7, "something other than a batch"),
    ):
        with sqlite3.connect(other / FILE) as database:
            database.execute(f"PRAGMA application_id = {kind}")
            database.execute("CREATE TABLE IF NOT EXISTS t (a)")
        database.close()
        with pytest.raises(ConfigError, match=sentence):
            run(tasks(1), other)
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / FILE).touch()  # left by a client that was killed before it created its tables
    assert run(tasks(1), killed).progress.done == 1


def test_two_clients_at_one_batch(run, tasks, tmp_path):
    ledger = Ledger(tmp_path / "out")
    try:
        assert Batch(tmp_path / "out").progress.running
        with pytest.raises(ConfigError, match="the batch is already running"):
            run(tasks(1), tmp_path / "out")
    finally:
        ledger.close()
    assert not Batch(tmp_path / "out").progress.running


def test_numbers_of_numpy_name_and_seed_tasks(run, normal, tmp_path):
    """NumPy's numbers are accepted, such as group-by keys and integers from a generator."""
    tasks = [
        Task(normal, {"m": 1.0}, name=np.int64(i), seed=np.int64(5), repeat=i, **QUICK)
        for i in range(2)
    ]
    batch = run(tasks, tmp_path / "out")
    assert not len(batch.failures)
    assert batch.ledger().index.tolist() == ["0", "1"]
    assert batch.ledger()["seed"].tolist() == [5, 5]
    assert set(batch.table()["task"]) == {"0", "1"}


def test_initial_values_count_by_what_is_in_their_file(run, normal, tmp_path):
    inits = tmp_path / "inits.json"
    inits.write_text(json.dumps({"x": 1.0}))
    task = Task(normal, {"m": 1.0}, inits=str(inits), **QUICK)
    keys = [run([task], tmp_path / "out").ledger()["key"].tolist() for _ in range(2)]
    assert keys[0] == keys[1]
    inits.write_text(json.dumps({"x": 2.0}))
    assert run([task], tmp_path / "out").ledger()["key"].tolist() != keys[0]
    inits.write_text("{")
    (reason,) = run([task], tmp_path / "out").failures
    assert "inits.json is not a JSON file" in reason


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"chains": 0}, "chains must be at least 1, got 0"),
        ({"drwas": 5}, "unknown key drwas; did you mean draws?"),
        ({"time_order": "name"}, "time_order must be 'value' or 'appearance', got 'name'"),
        ({"engine": "exact"}, "engine is chosen for the whole batch; leave engine out"),
    ],
)
def test_inputs_are_checked_when_a_task_is_made(normal, inputs, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Task(normal, {"m": 1.0}, **inputs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time_limit": "60"}, "time_limit must be a finite number of seconds above 0, got '60'"),
        ({"time_limit": np.nan}, "time_limit must be a finite number of seconds above 0, got nan"),
    ],
)
def test_a_mistaken_task_is_a_row_and_the_others_are_fitted(
    run, normal, tmp_path, changes, message
):
    usual = {"data": {"m": 1.0}, **QUICK}
    tasks = [Task(normal, **{**usual, **changes}), Task(normal, **usual)]
    batch = run(tasks, tmp_path / "out")
    assert batch.ledger()["outcome"].tolist() == ["failed", "done"]
    assert message in batch.failures.iloc[0]


def test_a_table_is_read_anew_for_each_program_whatever_its_address(tmp_path, monkeypatch):
    """After a program is deleted, the next one may have the same address, and so the same id."""
    monkeypatch.setattr("pyflowers.batches.task.id", lambda _: 1, raising=False)
    rng, path = np.random.default_rng(1), tmp_path / "table.csv"
    pd.DataFrame({name: rng.normal(size=20) for name in "yxz"}).to_csv(path, index=False)
    planner = Planner(1, find_engine("stanli"))
    for column in "xzx":
        formula = f"y ~ {column}"
        program = find_program(formula, data=path)
        assert planner._read(Spec(formula, path), program).coords["X"] == (column,)


def test_what_only_formulas_take_is_refused_also_of_a_program_that_is_open():
    planner = Planner(1, find_engine("stanli"))
    assert not planner.plan(Task("iid_normal"), 0).refused
    for option in ({"known": {"K": "k.csv"}}, {"family": "poisson"}, {"default_priors": "brms"}):
        job = planner.plan(Task("iid_normal", **option), 1)
        assert "iid_normal is not a formula" in job.refused
