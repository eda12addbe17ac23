"""The tables that are kept from a fit, and the ingredients of a key."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflowers.batches.keep import Keep, frame_of, keeps, packed, unpacked
from pyflowers.batches.task import seed_of
from pyflowers.digests import digest_of
from pyflowers.errors import ConfigError, FitError

FRAME = pd.DataFrame({"mean": [1.5, 2.5]})
TWO_LEVELS = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])


def returned(fit):
    """Return the argument; the tests pass a table instead of a fit."""
    return fit


def kept(table):
    return frame_of(unpacked(Keep.of(returned).table_of(table)))


INDICES = [
    (None, {}),
    ([0, 1], {}),
    (["mu", "tau"], {"index": ["mu", "tau"]}),
    ([1, 2], {"index": [1, 2]}),
    ([0.0, 1.0], {"index": [0.0, 1.0]}),
    (pd.Index(["mu", "tau"], name="parameter"), {"parameter": ["mu", "tau"]}),
    (pd.RangeIndex(2, name="row"), {"row": [0, 1]}),
    (pd.RangeIndex(2, name=0), {"0": [0, 1]}),
    (TWO_LEVELS, {"level_0": ["a", "b"], "level_1": [1, 2]}),
    (TWO_LEVELS.set_names(["site", None]), {"site": ["a", "b"], "level_1": [1, 2]}),
]


@pytest.mark.parametrize(("index", "expected"), INDICES, ids=range(len(INDICES)))
def test_an_index_is_kept_unless_it_counts_the_rows(index, expected):
    found = kept(FRAME if index is None else FRAME.set_axis(index))
    assert found.to_dict("list") == {**expected, "mean": [1.5, 2.5]}
    assert list(found) == [*expected, "mean"]


def test_an_index_beside_a_column_of_its_name_and_columns_of_two_levels():
    found = kept(pd.DataFrame({"index": [1, 2]}, index=["a", "b"]))
    assert found.to_dict("list") == {"level_0": ["a", "b"], "index": [1, 2]}
    found = kept(pd.DataFrame([[1, 2]], index=["a"], columns=TWO_LEVELS))
    assert list(found) == ["index", "('a', 1)", "('b', 2)"]


REFUSED = [
    ({"key": [1]}, "the table's column key has the same name as a column of the batch; rename it"),
    (
        {"verdict": [1]},
        "the table's column verdict has the same name as a column of the batch; rename it",
    ),
    (
        FRAME.set_axis(pd.Index(["a", "b"], name="task")),
        "the table's column task has the same name as a column of the batch",
    ),
    ({1: [1.0], "1": [2.0]}, "2 of the table's columns or index levels are named 1; rename them"),
    (
        FRAME.rename_axis("mean"),
        "2 of the table's columns or index levels are named mean; rename them",
    ),
    ({"a\0": [1]}, r"the table's column 'a\\x00' has a NUL character in its name; rename it"),
    ({"a": ["b", "c\0d"]}, "the table's column a contains a NUL character; remove the"),
    ({"a": "c\0d"}, "the table's column a contains a NUL character; remove the"),
    ({"a": np.array([1, 2**63], "u8")}, f"the table's column a has a number above {2**63 - 1};"),
    (FRAME["mean"], "the function must return a DataFrame or a mapping, got Series"),
]


@pytest.mark.parametrize(("table", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_table(table, sentence):
    with pytest.raises(FitError, match=f"keep returned: .*{sentence}"):
        kept(table)


def test_large_numbers_without_a_sign():
    found = kept({"a": np.array([0, 2**63 - 1], "u8"), "b": np.zeros(2, "u1")})
    assert found["a"].tolist() == [0, 2**63 - 1]
    assert kept({"a": np.array([], "u8")})["a"].dtype == "i8"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.quick
@given(PLAIN, PLAIN)
def test_different_values_have_different_digests(a, b):
    same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    assert (digest_of(a) == digest_of(b)) == same


EQUAL = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([1, 2], (1, 2)),
    (1, np.int64(1)),
    (0.5, np.float64(0.5)),
    (["own", np.int64(5)], ["own", 5]),
    (np.array([1, 2], "i4"), np.array([1, 2], ">i8")),
    (np.array([[1.0, 2.0]], order="F"), np.array([[1.0, 2.0]], order="C")),
]


@pytest.mark.parametrize("pair", EQUAL, ids=range(len(EQUAL)))
def test_how_a_value_is_stored_does_not_matter(pair):
    assert digest_of(pair[0]) == digest_of(pair[1])


DIFFERENT = [
    (1, 1.0),
    (1, True),
    (1, "1"),
    (["ab"], ["a", "b"]),
    ([[1], [2]], [[1, 2]]),
    (np.array([1, 2]), np.array([1.0, 2.0])),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (0.0, -0.0),
]


@pytest.mark.parametrize("pair", DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_a_value_is_matters(pair):
    assert digest_of(pair[0]) != digest_of(pair[1])


def test_digests_are_the_same_in_another_process():
    value = {"a": [1, 2.5, "é"], "b": None}
    code = f"from pyflowers.digests import digest_of; print(digest_of({value!r}))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == digest_of(value)


def test_seeds_fill_their_range():
    seeds = np.array([seed_of(1, str(i)) for i in range(4000)], float)
    assert seeds.max() < 2**32
    # Five standard errors of the mean of uniform numbers, 1 / sqrt(12 n).
    assert abs(seeds.mean() / 2**32 - 0.5) < 5 / np.sqrt(12 * 4000)
    assert len(set(seeds)) >= 3998  # one equal pair is expected in 500 such samples
    assert seed_of(1, "a") != seed_of(2, "a")


def test_a_function_is_known_by_its_file_and_its_options(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_a.py").write_text("def f(fit, n=1):\n    return {'n': n}\n")
    (tmp_path / "mine_b.py").write_text("def f(fit, n=1):\n    return {'n': n + 1}\n")
    digests = {
        Keep.of(Keep("mine_a:f", options)).digest for options in ({}, {"n": 1}, {"n": 2})
    } | {Keep.of("mine_b:f").digest}
    assert len(digests) == 4


def test_an_edited_file_is_noticed_by_a_process_that_has_imported_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "mine_edited.py"
    file.write_text("def f(fit):\n    return {'n': 1}\n")
    before = Keep.of("mine_edited:f")
    one, two = packed({"n": [1]}), packed({"n": [2]})
    assert before.table_of(None) == one
    file.write_text("def f(fit):\n    return {'n': 1 + 1}\n")
    after = Keep.of("mine_edited:f")
    assert after.digest != before.digest
    assert before.table_of(None) == one  # the old module is still loaded
    assert after.table_of(None) == two
    with pytest.raises(FitError, match="keep f: the file of mine_edited was edited after the task"):
        before.table_of(None)
    file.unlink()
    with pytest.raises(ConfigError, match=r"mine_edited\.py cannot be read \(No such file"):
        Keep.of("mine_edited:f")


WRONG = [
    ("nothing", "is not a function; choose one of summary, draws, ranks, or module:function"),
    ("no.such:function", "cannot be imported"),
    ("json:absent", "cannot be imported"),
    ("json:__doc__", "is not a function; choose one of"),
    (lambda fit: {}, "cannot be imported by the workers"),
    (Keep("summary", name="a b"), "letters, digits and underscores"),
]


@pytest.mark.parametrize(("what", "sentence"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_kept(what, sentence):
    with pytest.raises(ConfigError, match=sentence):
        keeps([what])


def test_two_tables_of_one_name():
    with pytest.raises(ConfigError, match="two tables have this name"):
        keeps(["draws:a", "draws:b"])


def test_a_table_of_many_columns_comes_back():
    columns = {f"theta[{i}]": np.arange(3.0) + i for i in range(1_000)}
    back = frame_of(unpacked(packed(columns)))
    assert list(back) == list(columns)
    assert back["theta[999]"].tolist() == [999.0, 1000.0, 1001.0]
