"""What a caller may put into a task: NumPy's numbers, files, and mistakes."""

import json

import numpy as np
import pytest

from pyflowers import Task, batch
from pyflowers.digests import digest_of

QUICK = {"chains": 2, "warmup": 100, "draws": 50}


def run(tasks, out, pool):
    return batch(tasks, out=out, seed=1, engine="stanli", executor=pool)


def test_numbers_of_numpy_name_and_seed_tasks(normal, pool, tmp_path):
    """As the keys of a group-by and a generator's integers are."""
    tasks = [
        Task(normal, {"m": 1.0}, name=np.int64(i), seed=np.int64(5), repeat=i, options=QUICK)
        for i in range(2)
    ]
    batch = run(tasks, tmp_path / "out", pool)
    assert not len(batch.failures)
    assert batch.ledger().index.tolist() == ["0", "1"]
    assert batch.ledger()["seed"].tolist() == [5, 5]
    assert set(batch.table()["task"]) == {"0", "1"}


def test_initial_values_count_by_what_is_in_their_file(normal, pool, tmp_path):
    inits = tmp_path / "inits.json"
    inits.write_text(json.dumps({"x": 1.0}))
    task = Task(normal, {"m": 1.0}, options=QUICK, inits=str(inits))
    keys = [run([task], tmp_path / "out", pool).ledger()["key"].tolist() for _ in range(2)]
    assert keys[0] == keys[1]
    inits.write_text(json.dumps({"x": 2.0}))
    assert run([task], tmp_path / "out", pool).ledger()["key"].tolist() != keys[0]
    inits.write_text("{")
    (reason,) = run([task], tmp_path / "out", pool).failures
    assert "inits.json: it is not a JSON file" in reason


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"seed": 1}}, "the seed is not one of them; give it to the task itself"),
        (
            {"data": "x.csv", "time_order": "name"},
            "time_order must be value or appearance, was 'na",
        ),
        ({"time_limit": "60"}, "time_limit must be a number of seconds above 0, was '60'"),
        ({"time_limit": np.nan}, "time_limit must be a number of seconds above 0, was nan"),
    ],
)
def test_a_mistaken_task_is_a_row_and_the_others_are_fitted(
    normal, pool, tmp_path, changes, message
):
    usual = {"data": {"m": 1.0}, "options": QUICK}
    tasks = [Task(normal, **{**usual, **changes}), Task(normal, **usual)]
    batch = run(tasks, tmp_path / "out", pool)
    assert batch.ledger()["outcome"].tolist() == ["failed", "done"]
    assert message in batch.failures.iloc[0]


def test_a_key_takes_numbers_of_numpy_as_pythons():
    assert digest_of(["own", np.int64(5)]) == digest_of(["own", 5])
