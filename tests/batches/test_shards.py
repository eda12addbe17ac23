"""Shards and the ledger: whole or not there."""

import errno
import os
import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflowers.batches import Batch, shards
from pyflowers.batches.ledger import FILE, Ledger
from pyflowers.batches.task import Job, Outcome
from pyflowers.errors import ConfigError, DataError

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.floats(width=64)
TABLE = st.dictionaries(
    TEXT.filter(lambda name: name != "key"), st.sampled_from("fbiO"), min_size=1, max_size=4
)


def values(kind, rows, rng):
    if kind == "O":
        return np.array([rng.choice(["", "a", "é\n"]) for _ in range(rows)], dtype=object)
    made = rng.normal(size=rows)
    return {"f": made, "b": made > 0, "i": (made * 1e6).astype("i8")}[kind]


@settings(deadline=None, max_examples=25)
@given(st.lists(TABLE, min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_tables_come_back_as_they_were(tmp_path_factory, kinds, rows, seed):
    folder, rng = tmp_path_factory.mktemp("shards"), np.random.default_rng(seed)
    written = {
        f"key {i}": {"t": {name: values(kind, rows, rng) for name, kind in columns.items()}}
        for i, columns in enumerate(kinds)
    }
    name = shards.write(folder, 1, written)
    found = {}
    for frame in shards.read(folder / name, "t"):
        found.update({key: part.drop(columns="key") for key, part in frame.groupby("key")})
    for key, tables in written.items():
        if rows:
            frame = pd.DataFrame(tables["t"])
            assert list(found[key].columns) == list(frame.columns)
            for column in frame:
                assert found[key][column].tolist() == frame[column].tolist()
                assert found[key][column].dtype.kind == frame[column].dtype.kind


def job(i):
    return Job(f"key {i}", f"name {i}", "program", i, i)


def outcome(i):
    return Outcome(f"key {i}", "", 1.0, {"v": "1"}, "passed", {"t": {"a": np.array([float(i)])}})


def note(ledger, *numbers):
    for i in numbers:
        ledger.expect(job(i), again=False)
    ledger.write([outcome(i) for i in numbers])


def test_texts_that_are_not_utf_8(tmp_path):
    ledger = Ledger(tmp_path / "out")
    for i in range(2):
        ledger.expect(Job(f"key {i}", f"caf\udce9 {i}", "\udce9.stan", i, i), again=False)
    texts = np.array(["\udce9", "é"], dtype=object)
    done = Outcome("key 0", tables={"t": {"caf\udce9": np.array([1.0, 2.0]), "said": texts}})
    ledger.write([done, Outcome("key 1", "caf\udce9.csv: no column month")])
    ledger.close()
    batch = Batch(tmp_path / "out")
    assert batch.ledger().index.tolist() == ["caf\\udce9 0", "caf\\udce9 1"]
    assert batch.ledger()["program"].tolist() == ["\\udce9.stan"] * 2
    assert batch.failures.tolist() == ["caf\\udce9.csv: no column month"]
    assert batch.table("t").to_dict("list") == {
        "task": ["caf\\udce9 0"] * 2,
        "verdict": ["doubtful"] * 2,
        "caf\\udce9": [1.0, 2.0],
        "said": ["\\udce9", "é"],
    }


def test_a_column_verdict_of_an_older_batch_is_not_replaced(tmp_path):
    ledger = Ledger(tmp_path / "out")
    ledger.expect(job(0), again=False)
    ledger.write([Outcome("key 0", verdict="R-hat", tables={"t": {"verdict": np.array([7.0])}})])
    ledger.close()
    batch = Batch(tmp_path / "out")
    assert batch.table("t").to_dict("list") == {"task": ["name 0"], "verdict": [7.0]}
    assert batch.ledger()["verdict"].tolist() == ["doubtful"]


def test_a_damaged_shard_is_named(tmp_path):
    path = tmp_path / "000001-0.nc"
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="it cannot be read"):
        list(shards.read(path, "t"))


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "out")
    note(ledger, 0, 1)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError, match=r"No space left on device.*it goes on where it"):
            note(ledger, 2)
    assert len(list((tmp_path / "out" / "shards").iterdir())) == 1
    assert [ledger.state(f"key {i}")[0] for i in range(4)] == ["passed", "passed", "waiting", "new"]
    note(ledger, 3)
    ledger.close()
    assert Batch(tmp_path / "out").table("t")["a"].tolist() == [0.0, 1.0, 3.0]


def test_a_row_and_its_shard_are_known_together(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "out")
    note(ledger, 0)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_row", lambda *_: (1, 2))
        with pytest.raises(ConfigError, match="cannot be written"):
            note(ledger, 1)
    ledger.close()
    files = {path.name for path in (tmp_path / "out" / "shards").iterdir()}
    assert len(files) == 2  # one of them unknown
    ledger = Ledger(tmp_path / "out")
    assert len(list((tmp_path / "out" / "shards").iterdir())) == 1
    assert ledger.state("key 1")[0] == "new"
    ledger.close()


def test_a_ledger_of_another_format(tmp_path):
    Ledger(tmp_path / "out").close()
    with sqlite3.connect(tmp_path / "out" / FILE) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    for use in (lambda: Ledger(tmp_path / "out"), lambda: Batch(tmp_path / "out").ledger()):
        with pytest.raises(ConfigError, match="format 99, not 1"):
            use()


def test_progress_of_a_running_batch(tmp_path):
    ledger = Ledger(tmp_path / "out")
    ledger.remember({"total": "10", "started": "0"})
    note(ledger, 0, 1, 2)
    ledger.expect(job(3), again=False)
    ledger.write([Outcome("key 3", "it broke")])
    progress = Batch(tmp_path / "out").progress
    assert (progress.done, progress.failed, progress.total) == (3, 1, 10)
    assert progress.running
    assert progress.seconds_left > 0
    ledger.close()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [FILE, "shards"]
