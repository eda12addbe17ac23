"""What a declaration need not say, and the lines to add where it must."""

import re
import tomllib

import pandas as pd
import pytest
from own_programs import DECLARATION, TRIAL

from pyflowers.errors import ConfigError
from pyflowers.programs import Program, find_program
from pyflowers.programs.declaration import Column, Declaration, Size, Value, complete, dims_of
from pyflowers.programs.source import read_blocks


def completed(data, columns, declaration=None):
    """Complete a declaration of a data block."""
    blocks = read_blocks(f"data {{ {data} }}")
    return complete(Declaration.parse(declaration or {}, "d.toml"), blocks, columns, "d.toml")[0]


def refusal(data, columns, declaration=None):
    with pytest.raises(ConfigError) as caught:
        completed(data, columns, declaration)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "columns", "expected"),
    [
        # A column of a variable's name is that variable; its size is the number of rows.
        (
            "int<lower=0> N; vector[N] y;",
            ["y", "z"],
            {"N": Size(size="obs"), "y": Column(column="y")},
        ),
        # What counts from 1 up to a size is an index of labels, and the size is their number.
        (
            "int N; int P; array[N] int<lower=1, upper=P> plot; vector[N] y;",
            ["y", "plot"],
            {
                "N": Size(size="obs"),
                "P": Size(size="plot"),
                "plot": Column(column="plot", index=True, order="value"),
                "y": Column(column="y"),
            },
        ),
        # Without an upper bound that is a size it is a column of numbers.
        (
            "int N; array[N] int<lower=1, upper=5> stars;",
            ["stars"],
            {"N": Size(size="obs"), "stars": Column(column="stars")},
        ),
        # prior_only is off unless it is asked for.
        (
            "int N; vector[N] y; int<lower=0, upper=1> prior_only;",
            ["y"],
            {"N": Size(size="obs"), "y": Column(column="y"), "prior_only": Value(value=0)},
        ),
        # A column of a scalar's name is no scalar.
        ("int N; vector[N] y;", ["y", "N"], {"N": Size(size="obs"), "y": Column(column="y")}),
    ],
)
def test_what_the_text_makes_plain(data, columns, expected):
    found = completed(data, columns)
    assert found.data == expected
    assert list(found.data) == list(expected)


def test_what_is_declared_is_not_inferred():
    block = "int N; int P; array[N] int<lower=1, upper=P> g; vector[N] y; vector[P] age;"
    declared = {
        "data": {
            "y": {"column": "weight"},
            "g": {"column": "rat", "index": True},
            "age": {"column": "age", "per": "rat"},
        }
    }
    found = completed(block, ["y", "g", "weight", "rat", "age"], declared).data
    assert found["y"] == Column(column="weight")
    assert found["g"].column == "rat"
    assert (found["N"], found["P"]) == (Size(size="obs"), Size(size="rat"))


def test_an_ordinal_outcome_is_no_label():
    """Its categories in order of appearance, or without those that do not occur, are others."""
    block = "int N; int K; array[N] int<lower=1, upper=K> y;"
    found = completed(block, ["y"], {"data": {"K": {"value": 5}}})
    assert found.data["y"] == Column(column="y")
    assert "K = { size" in refusal(block, ["y"])


def test_an_inferred_index_counts_in_order_of_value(own_program):
    text = """
    data { int N; int T; array[N] int<lower=1, upper=T> t; vector[N] y; }
    parameters { vector[T] g; }
    model { g[2:T] ~ normal(g[1:(T - 1)], 1); y ~ normal(g[t], 1); }
    """
    frame = pd.DataFrame({"t": [10, 2, 1, 10], "y": [1.0, 2.0, 3.0, 4.0]})
    program = find_program(own_program("walk", text))
    data = program.read(frame)
    assert data.values["t"].tolist() == [3, 2, 1, 3]
    assert data.labels["t"].names == ("1", "2", "10")
    declared = {"data": {"t": {"column": "t", "index": True}}}
    by_rows = Program.open(program.reference, declaration=declared).read(frame)
    assert by_rows.values["t"].tolist() == [1, 2, 3, 1]


def test_only_an_order_that_was_asked_for_is_missed_in_a_note(own_program):
    """A factor of names has none, and nobody is to read of it for each."""
    text = """
    data { int N; int T; array[N] int<lower=1, upper=T> t; vector[N] y; }
    parameters { vector[T] g; }
    """
    frame = pd.DataFrame({"t": ["b", "a"], "y": [1.0, 2.0]})
    program = find_program(own_program("factor", text))
    assert program.read(frame).notes == ()
    asked = {"data": {"t": {"column": "t", "index": True, "order": "value"}}}
    ordered = Program.open(program.reference, declaration=asked).read(frame)
    timed = Program.open(program.reference, declaration={"table": {"time": "t"}}).read(frame)
    for notes in (ordered.notes, timed.notes):
        assert len(notes) == 1
        assert "the t labels are in order of appearance" in notes[0]


def test_a_matrix_gives_two_sizes():
    block = "int N; int K; matrix[N, K] x;"
    found = completed(block, ["a", "b"], {"data": {"x": {"columns": ["a", "b"]}}})
    assert found.data["N"] == Size(size="obs")
    assert found.data["K"] == Size(size="x")
    assert found.dims["x"] == ("obs", "x")


def test_a_prior_is_not_looked_for_in_the_table():
    block = "int N; vector[N] y; real<lower=0> s; int K;"
    found = completed(block, ["y", "s"], {"priors": {"s": 1.0, "K": 2}})
    assert set(found.data) == {"N", "y"}


def test_dimensions_are_named_after_their_sizes():
    text = """
    data { int N; int P; array[N] int<lower=1, upper=P> plot; vector[N] y; }
    parameters { vector[P] alpha; matrix[P, 2] b; matrix[P, P] S; vector[P + 1] c; real mu; }
    generated quantities { vector[N] log_lik; array[N, P] real z; }
    """
    blocks = read_blocks(text)
    whole, _ = complete(Declaration(), blocks, ["plot", "y"], "d.toml")
    assert dims_of(whole, blocks) == {
        "plot": ("obs",),
        "y": ("obs",),
        "alpha": ("plot",),
        "b": ("plot", "b_dim_1"),
        # A dimension twice has no labels of its own.
        "S": ("S_dim_0", "S_dim_1"),
        "c": ("c_dim_0",),
        "log_lik": ("obs",),
        "z": ("obs", "plot"),
    }
    declared = Declaration.parse({"dims": {"c": ["bound"]}}, "d.toml")
    assert dims_of(declared, blocks)["c"] == ("bound",)


def test_the_error_prints_lines_that_a_declaration_takes():
    """Pasted into the file, with the columns filled in, they are right."""
    block = read_blocks(TRIAL)
    columns = ["patient", "visit", "seizures", "treated", "base", "age"]
    with pytest.raises(ConfigError) as caught:
        complete(Declaration(), block, columns, "trial.toml")
    first, *lines = str(caught.value).splitlines()
    assert first == (
        "trial.toml: the data variables K, y, x, tau_scale cannot be told from the table, whose "
        "columns are patient, visit, seizures, treated, base, age. Add to trial.toml:"
    )
    assert lines[0].strip() == "[data]"
    text = "\n".join(lines)
    pasted = text.replace('"...", "..."', '"treated", "base"').replace('"..."', '"seizures"')
    values = tomllib.loads(re.sub(r"\n *K = .*", "", pasted))
    whole, _ = complete(Declaration.parse(values, "trial.toml"), block, columns, "trial.toml")
    assert set(whole.data) == set(block.data)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("int N; vector[N] y;", 'y = { column = "..." }'),
        ("int P; int N; array[N] int<lower=1, upper=P> g;", 'g = { column = "...", index = true }'),
        ("matrix[3, 2] x;", 'x = { columns = ["...", "..."] }'),
        ("array[2, 3, 4] real a;", "a = { value = [...] }"),
        ("real<lower=0> s;", "s = { value = 1 }  # or under [priors], to be changed by --prior"),
        (
            "int N; vector[N] y;",
            'N = { size = "obs" }  # or the column whose labels it counts, or a value',
        ),
    ],
)
def test_the_line_for_each_shape(data, line):
    assert f"\n    {line}" in refusal(data, ["other"])


def test_one_variable_is_named_in_the_singular():
    output = refusal("int N; vector[N] y; real s;", ["y"])
    assert "the data variable s cannot be told from the table, whose columns are y." in output


def test_a_full_declaration_is_complete_as_it_is(own_program):
    program = own_program("trial", TRIAL, DECLARATION)
    whole, _ = complete(program.declaration, program.source.blocks, ["whatever"], "trial.toml")
    assert list(whole.data) == [n for n in program.source.blocks.data if n != "tau_scale"]
    again, _ = complete(whole, program.source.blocks, [], "trial.toml")
    assert again.data == whole.data
