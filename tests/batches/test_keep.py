"""What becomes of what a function returned."""

import numpy as np
import pandas as pd
import pytest

from pyflowers.batches.keep import Keep
from pyflowers.errors import FitError

FRAME = pd.DataFrame({"mean": [1.5, 2.5]})
TWO_LEVELS = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])


def returned(fit):
    """Return what stands for the fit, as a function that keeps it would."""
    return fit


def kept(table):
    return Keep.of(returned).table_of(table)


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
    assert {name: values.tolist() for name, values in found.items()} == {
        **expected,
        "mean": [1.5, 2.5],
    }
    assert list(found) == [*expected, "mean"]


def test_an_index_beside_a_column_of_its_name_and_columns_of_two_levels():
    found = kept(pd.DataFrame({"index": [1, 2]}, index=["a", "b"]))
    assert {name: values.tolist() for name, values in found.items()} == {
        "level_0": ["a", "b"],
        "index": [1, 2],
    }
    found = kept(pd.DataFrame([[1, 2]], index=["a"], columns=TWO_LEVELS))
    assert list(found) == ["index", "('a', 1)", "('b', 2)"]


REFUSED = [
    ({"key": [1]}, "its column key is called as one of the batch's own; rename it"),
    ({"verdict": [1]}, "its column verdict is called as one of the batch's own; rename it"),
    (FRAME.set_axis(pd.Index(["a", "b"], name="task")), "its column task is called"),
    ({1: [1.0], "1": [2.0]}, "2 of its columns, or of its index, are 1; rename them"),
    (FRAME.rename_axis("mean"), "2 of its columns, or of its index, are mean; rename them"),
    ({"a\0": [1]}, r"its column 'a\\x00' has a NUL character in its name; rename it"),
    ({"a": ["b", "c\0d"]}, "its column a has a text with a NUL character; remove it"),
    ({"a": "c\0d"}, "its column a has a text with a NUL character; remove it"),
    ({"a": np.array([1, 2**63], "u8")}, f"its column a has a number above {2**63 - 1}; give it"),
    (FRAME["mean"], "it returned a Series; return a DataFrame or a mapping"),
]


@pytest.mark.parametrize(("table", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_table(table, sentence):
    with pytest.raises(FitError, match=f"keep returned: .*{sentence}"):
        kept(table)


def test_large_numbers_without_a_sign():
    found = kept({"a": np.array([0, 2**63 - 1], "u8"), "b": np.zeros(2, "u1")})
    assert found["a"].tolist() == [0, 2**63 - 1]
    assert kept({"a": np.array([], "u8")})["a"].dtype == "i8"
