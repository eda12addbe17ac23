"""What stands for an observed variable where data are yet to be simulated."""

import numpy as np
import pandas as pd
import pytest

from pyflowers.data import from_frame
from pyflowers.errors import DataError
from pyflowers.programs import Data
from pyflowers.programs.data import design_block, design_table
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.source import read_blocks

DESIGN = from_frame(pd.DataFrame({"plot": ["a", "b"], "y": [7, 8], "z": [9, 9]}))


def filled(y, declaration, names=None):
    """The cells of a table whose observed variable is declared as `y`."""
    blocks = read_blocks(f"data {{ int L; {y} }}")
    declared = Declaration.parse({"roles": {"observed": "y"}, **declaration}, "d.toml")
    cells = design_table(DESIGN, declared, blocks, names or {}).cells
    return {name: list(column) for name, column in cells.items() if name != "plot"}


@pytest.mark.parametrize(
    ("y", "source", "expected"),
    [
        ("array[2] int<lower=0> y;", {}, {"y": [0, 0], "z": [9, 9]}),
        ("array[2] int<lower=2> y;", {}, {"y": [2, 2], "z": [9, 9]}),
        ("vector<lower=-1>[2] y;", {}, {"y": [0, 0], "z": [9, 9]}),
        ("vector<lower=L>[2] y;", {}, {"y": [0, 0], "z": [9, 9]}),
        ("vector[2] y;", {"column": "y", "lower": 3.0}, {"y": [3, 3], "z": [9, 9]}),
        ("vector[2] y;", {"column": "new"}, {"y": [7, 8], "z": [9, 9], "new": [0, 0]}),
        ("matrix[2, 2] y;", {"columns": ["y", "z"]}, {"y": [0, 0], "z": [0, 0]}),
    ],
)
def test_a_column_holds_the_smallest_value_allowed(y, source, expected):
    assert filled(y, {"data": {"y": source}} if source else {}) == expected


def test_a_column_of_another_name_is_the_one_that_is_filled():
    assert filled("vector[2] y;", {}, {"y": "z"}) == {"y": [7, 8], "z": [0, 0]}


def test_without_an_observed_variable_a_table_stays_as_it_is():
    declared = Declaration.parse({}, "d.toml")
    assert design_table(DESIGN, declared, read_blocks("data { int N; }"), {}) is DESIGN


def block(text, values, observed="y"):
    declared = Declaration.parse({"roles": {"observed": observed}}, "d.toml")
    return design_block(Data(values, declaration=declared), read_blocks(f"data {{ {text} }}"))


def test_a_block_gets_values_of_the_size_that_it_names():
    found = block("int N; array[N] int<lower=1> y;", {"N": 3})
    assert found.observed == "y"
    assert found["y"].dtype == np.int64
    assert found["y"].tolist() == [1, 1, 1]


def test_values_that_are_there_are_replaced():
    assert block("int N; vector[N] y;", {"N": 2, "y": np.array([4.0, 5.0])})["y"].tolist() == [0, 0]


def test_a_block_without_the_variable_stays_as_it_is():
    assert dict(block("int N;", {"N": 2}).values) == {"N": 2}


def test_a_size_that_is_not_known_is_named():
    with pytest.raises(DataError, match=r"the size 2 . N of y is not known; add 2 . N to the data"):
        block("int N; vector[2 * N] y;", {"N": 2})
