"""What a key depends on, and what it does not."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflowers.batches.keep import Keep, keeps
from pyflowers.batches.task import seed_of
from pyflowers.digests import digest_of
from pyflowers.errors import ConfigError, FitError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(PLAIN, PLAIN)
def test_different_values_have_different_digests(a, b):
    same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    assert (digest_of(a) == digest_of(b)) == same


EQUAL = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([1, 2], (1, 2)),
    (1, np.int64(1)),
    (0.5, np.float64(0.5)),
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
    # The mean of uniform numbers has a standard error of 1 / sqrt(12 n): five of them.
    assert abs(seeds.mean() / 2**32 - 0.5) < 5 / np.sqrt(12 * 4000)
    assert len(set(seeds)) >= 3998  # two equal ones are expected in 500 such samples
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
    assert before.table_of(None)["n"].tolist() == [1]
    file.write_text("def f(fit):\n    return {'n': 1 + 1}\n")
    after = Keep.of("mine_edited:f")
    assert after.digest != before.digest
    assert before.table_of(None)["n"].tolist() == [1]  # planned with what is still there
    assert after.table_of(None)["n"].tolist() == [2]
    with pytest.raises(FitError, match="keep f: the file of mine_edited was edited since the task"):
        before.table_of(None)
    file.unlink()
    with pytest.raises(ConfigError, match=r"mine_edited\.py cannot be read \(No such file"):
        Keep.of("mine_edited:f")


WRONG = [
    ("nothing", "must be one of summary, draws, ranks, or module:function"),
    ("no.such:function", "cannot be imported"),
    ("json:absent", "cannot be imported"),
    ("json:__doc__", "must be one of"),
    (lambda fit: {}, "the workers cannot import it"),
    (Keep("summary", name="a b"), "letters, digits and underscores"),
]


@pytest.mark.parametrize(("what", "sentence"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_kept(what, sentence):
    with pytest.raises(ConfigError, match=sentence):
        keeps([what])


def test_two_tables_of_one_name():
    with pytest.raises(ConfigError, match="two tables have this name"):
        keeps(["draws:a", "draws:b"])
