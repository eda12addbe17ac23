"""Declarations from a file and from Python, and parts that can be left out.

Each mistake gives an error of one sentence, with the lines to add if something is missing.
"""

import re
import tomllib

import pandas as pd
import pytest
from own_programs import DECLARATION, SECTIONS, TRIAL, visits

from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import Program
from pyflowers.programs.declaration import (
    Column,
    Columns,
    Declaration,
    Kind,
    Size,
    Value,
    complete,
    dims_of,
)
from pyflowers.programs.source import read_blocks

SMALL = """
data { int<lower=0> N; vector[N] y; real<lower=0> s; }
parameters { real mu; }
model { mu ~ normal(0, s); y ~ normal(mu, 1); }
"""


def test_a_file_and_keyword_arguments_are_one_declaration(own_program, tmp_path):
    from_file = own_program("trial", TRIAL, DECLARATION).declaration
    in_python = own_program("trial", TRIAL, folder=tmp_path / "other", declaration=SECTIONS)
    assert in_python.declaration == from_file
    assert tomllib.loads(DECLARATION) == SECTIONS
    # If the declaration is given in Python, the file is not read.
    path = tmp_path / "trial.stan"
    assert Program.open(path, declaration={}).declaration == Declaration()
    assert Program.open(path).declaration == from_file


class Code(Kind):
    """A kind that `KINDS` does not have, with a new key for labels."""

    code: str
    per: str
    order: str

    @property
    def labels(self):
        return {"code": self.code, "per": self.per}


def test_every_kind_of_source_and_its_columns(own_program):
    declared = own_program("trial", TRIAL, DECLARATION).declaration
    assert declared.data["y"] == Column(column="seizures")
    assert declared.data["patient"] == Column(column="patient", index=True)
    assert declared.data["x"] == Columns(columns=("treated", "base"))
    assert declared.data["age"] == Column(column="age", per="patient")
    assert declared.label_columns == ("patient", "visit")
    assert declared.number_columns == ("seizures", "treated", "base", "age")
    assert declared.columns == (*declared.number_columns, *declared.label_columns)
    assert list(declared.named) == ["x"]
    parsed = Declaration.parse(
        {"data": {"N": {"size": "obs"}, "P": {"size": "plot"}, "k": {"value": [1, 2]}}}, "here"
    )
    assert parsed.data == {"N": Size(size="obs"), "P": Size(size="plot"), "k": Value(value=[1, 2])}
    assert parsed.label_columns == ("plot",)


def test_labels_under_a_key_of_a_kinds_own_are_read_as_labels():
    data = {"P": Size(size="site"), "k": Code(code="plot", per="site", order="value")}
    declared = Declaration().model_copy(update={"data": data})
    assert declared.label_columns == declared.columns == ("plot", "site")
    assert declared.label_order("plot") == "value"
    assert [data["k"].index_of, data["P"].index_of] == ["plot", None]


def test_a_declaration_comes_back_from_its_record():
    """In run.json, it has plain values without defaults; a prior is a number or a table."""
    priors = {"priors": {"tau_scale": 1, "b": {"value": 2.5, "above": 0}}}
    declared = Declaration.parse({**SECTIONS, **priors}, "here")
    assert [(prior.value, prior.above) for prior in declared.priors.values()] == [
        (1.0, None),
        (2.5, 0.0),
    ]
    plain = declared.model_dump(mode="json", exclude_defaults=True)
    assert Declaration.parse(plain, "run.json") == declared


WRONG = [
    # Not valid parts of a declaration
    ("[dta]\ny = 1", "unknown key dta; did you mean data?"),
    ("zzz = 1", "unknown key zzz; the keys here are "),
    ("[roles]\nylep = 'z'", "unknown key roles.ylep; did you mean y_rep?"),
    ("[table]\ngruop = 'z'", "unknown key table.gruop; did you mean group?"),
    ("[parameters.mu]\nunits = 'm'", "unknown key parameters.mu.units; did you mean unit?"),
    ("[priors.s]\nvalue = 1\nbelow = 2", "unknown key priors.s.below"),
    ("[priors.s]\nlower = 1", "the key priors.s.value is missing"),
    ("[priors]\ns = 'wide'", "priors.s.value must be a number"),
    ("[priors]\ns = nan", "priors.s.value must be a finite number, got nan"),
    ("[data]\ny = 'flowers'", "data.y must be a table with the key column, columns, counts"),
    (
        "[data]\ny = { of = 'a' }",
        "data.y must be a table with the key column, columns, counts, total, terms, size",
    ),
    ("[data]\ny = { colunm = 'a' }", "unknown key data.y.colunm; did you mean column?"),
    ("[data]\nN = { Size = 'a' }", "unknown key data.N.Size; did you mean size?"),
    ("[data]\ny = {}", "data.y must be a table with the key column, columns, counts"),
    ("[data]\ny = { column = 3 }", "data.y.column must be a string, got 3"),
    ("[data]\ny = { column = 'a', size = 'b' }", "unknown key data.y.size; the keys here are col"),
    ("[data]\ny = { columns = [] }", "data.y.columns must name at least one"),
    ("[data]\nN = { size = 'a', of = 1 }", "unknown key data.N.of; the keys here are size"),
    ("[data]\nN = { size = 3 }", "data.N.size must be a string, got 3"),
    ("[dims]\nmu = 'a'", "dims.mu must be a list, got 'a'"),
    ("data = 3", "data must be a table, got 3"),
    ("omit = 'mu'", "omit must be a list, got 'mu'"),
    ("[data]\ns = { value = 1 }\n[priors]\ns = 2", "s is both data and a prior; declare it once"),
    ("[data", "not valid TOML: "),
    ("x = " + "[" * 5000, "not valid TOML: "),
    # Names that the program does not declare
    ("[data]\nz = { column = 'a' }", "[data] names z, which is not declared in the"),
    ("[priors]\nz = 1", "[priors] names z, which is not declared in the program's data block"),
    ("[dims]\nz = ['a']", "[dims] names z, which is not declared"),
    ("[parameters.y]\nunit = 'm'", "[parameters] names y, which is not declared"),
    ("omit = ['z']", "[omit] names z, which is not declared"),
    (
        "[dims]\ny = ['a', 'b']",
        "[dims] lists 2 names for y, which has 1 dimension in the program; list one name for each",
    ),
    ("[dims]\nmu = ['a']", "[dims] lists 1 name for mu, which has 0 dimensions in the program"),
    ("[data]\nN = { column = 'a' }", "[data] N is a scalar in the program, but this entry gives a"),
    ("[data]\ny = { size = 'a' }", "[data] y is a vector in the program, but this entry gives a s"),
    ("[data]\ny = { columns = ['a'] }", "[data] y is a vector in the program, but this entry giv"),
    ("[data]\ny = { column = 'a', idnex = true }", "unknown key data.y.idnex; did you mean index?"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_is_one_sentence_with_file_and_key(own_program, tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        own_program("small", SMALL, text)
    output = str(caught.value)
    assert output.startswith(str(tmp_path / "small.toml"))
    assert message in output
    assert "\n" not in output
    assert len(output) < 400


def test_bytes_that_are_no_text(own_program, tmp_path):
    own_program("small", SMALL)
    (tmp_path / "small.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ConfigError, match=r"small\.toml is not valid TOML"):
        Program.open(tmp_path / "small.stan")


# --- Parts that can be left out -------------------------------------------------------------------


def completed(data, columns, declaration=None):
    """Complete a declaration of a data block."""
    blocks = read_blocks(f"data {{ {data} }}")
    return complete(Declaration.parse(declaration or {}, "d.toml"), blocks, columns, "d.toml")[0]


ROWS, Y = Size(size="obs"), Column(column="y")
PLOT = Column(column="plot", index=True, order="value")
INDEX = "int N; int P; array[N] int<lower=1, upper=P> plot; vector[N] y;"
INFERRED = [
    # A column with a variable's name fills that variable; its size is the number of rows.
    ("int<lower=0> N; vector[N] y;", ["y", "z"], {}, {"N": ROWS, "y": Y}),
    # An integer array is an index of labels if its lower bound is 1 and its upper bound a size, the
    # number of labels.
    (INDEX, ["y", "plot"], {}, {"N": ROWS, "P": Size(size="plot"), "plot": PLOT, "y": Y}),
    # If the upper bound is not a size, the array is a column of numbers.
    (
        "int N; array[N] int<lower=1, upper=5> stars;",
        ["stars"],
        {},
        {"N": ROWS, "stars": Column(column="stars")},
    ),
    # prior_only is off by default.
    (
        "int N; vector[N] y; int<lower=0, upper=1> prior_only;",
        ["y"],
        {},
        {"N": ROWS, "y": Y, "prior_only": Value(value=0)},
    ),
    # A column with a scalar's name does not fill the scalar.
    ("int N; vector[N] y;", ["y", "N"], {}, {"N": ROWS, "y": Y}),
    # What is declared is not inferred.
    (
        "int N; int P; array[N] int<lower=1, upper=P> g; vector[N] y; vector[P] age;",
        ["y", "g", "age", "rat"],
        {
            "y": {"column": "weight"},
            "g": {"column": "rat", "index": True},
            "age": {"column": "age", "per": "rat"},
        },
        {
            "N": ROWS,
            "P": Size(size="rat"),
            "g": Column(column="rat", index=True),
            "y": Column(column="weight"),
            "age": Column(column="age", per="rat"),
        },
    ),
    # An ordinal outcome is not a label, because numbering by order of appearance would change it.
    (
        "int N; int K; array[N] int<lower=1, upper=K> y;",
        ["y"],
        {"K": {"value": 5}},
        {"N": ROWS, "K": Value(value=5), "y": Y},
    ),
    # A matrix determines two sizes.
    (
        "int N; int K; matrix[N, K] x;",
        ["a", "b"],
        {"x": {"columns": ["a", "b"]}},
        {"N": ROWS, "K": Size(size="x"), "x": Columns(columns=("a", "b"))},
    ),
]


@pytest.mark.parametrize(("data", "columns", "declared", "expected"), INFERRED)
def test_what_the_text_and_the_columns_make_plain(data, columns, declared, expected):
    found = completed(data, columns, {"data": declared})
    assert found.data == expected
    assert list(found.data) == list(expected)


def test_a_prior_is_not_looked_for_in_the_table():
    block = "int N; vector[N] y; real<lower=0> s; int K;"
    found = completed(block, ["y", "s"], {"priors": {"s": 1.0, "K": 2}})
    assert set(found.data) == {"N", "y"}


def test_an_inferred_index_counts_in_order_of_value(own_program):
    """A factor of names gets a note only if an order was requested."""
    text = """
    data { int N; int T; array[N] int<lower=1, upper=T> t; vector[N] y; }
    parameters { vector[T] g; }
    """
    program = own_program("walk", text)
    numbers = pd.DataFrame({"t": [10, 2, 1, 10], "y": [1.0, 2.0, 3.0, 4.0]})
    data = program.read(numbers)
    assert data.values["t"].tolist() == [3, 2, 1, 3]
    assert data.labels["t"].names == ("1", "2", "10")
    index = {"column": "t", "index": True}
    by_rows = Program.open(program.path, declaration={"data": {"t": index}})
    assert by_rows.read(numbers).values["t"].tolist() == [1, 2, 3, 1]
    names = pd.DataFrame({"t": ["b", "a"], "y": [1.0, 2.0]})
    assert program.read(names).notes == ()
    for asked in ({"data": {"t": {**index, "order": "value"}}}, {"table": {"time": "t"}}):
        (note,) = Program.open(program.path, declaration=asked).read(names).notes
        assert "the t labels are in order of appearance" in note


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
        # A repeated dimension has no labels.
        "S": ("S_dim_0", "S_dim_1"),
        "c": ("c_dim_0",),
        "log_lik": ("obs",),
        "z": ("obs", "plot"),
    }
    declared = Declaration.parse({"dims": {"c": ["bound"]}}, "d.toml")
    assert dims_of(declared, blocks)["c"] == ("bound",)


def test_the_error_prints_lines_that_a_declaration_takes():
    """The lines are valid once they are in the file and the columns are filled in."""
    block = read_blocks(TRIAL)
    columns = ["patient", "visit", "seizures", "treated", "base", "age"]
    with pytest.raises(ConfigError) as caught:
        complete(Declaration(), block, columns, "trial.toml")
    first, *lines = str(caught.value).splitlines()
    assert first == (
        "trial.toml: the data variables K, y, x, tau_scale have no matching column; the columns "
        "are patient, visit, seizures, treated, base, age. Add to trial.toml:"
    )
    assert lines[0].strip() == "[data]"
    text = "\n".join(lines)
    pasted = text.replace('"...", "..."', '"treated", "base"').replace('"..."', '"seizures"')
    values = tomllib.loads(re.sub(r"\n *K = .*", "", pasted))
    whole, _ = complete(Declaration.parse(values, "trial.toml"), block, columns, "trial.toml")
    assert set(whole.data) == set(block.data)
    again, _ = complete(whole, block, [], "trial.toml")
    assert again.data == whole.data


def test_the_error_lists_a_limited_number_of_variables():
    """A draft of a line looks at all variables, so that 20,000 lines took minutes."""
    block = read_blocks("data {" + "".join(f"int v{i};" for i in range(20_000)) + "}")
    with pytest.raises(ConfigError, match=r" v98, v99 and 19900 more have no matching") as caught:
        complete(Declaration(), block, ["other"], "many.toml")
    assert str(caught.value).count("\n") == 1 + 100


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ("int N; vector[N] y;", 'y = { column = "..." }'),
        ("int P; int N; array[N] int<lower=1, upper=P> g;", 'g = { column = "...", index = true }'),
        ("matrix[3, 2] x;", 'x = { columns = ["...", "..."] }'),
        ("array[2, 3, 4] real a;", "a = { value = [...] }"),
        ("real<lower=0> s;", "s = { value = 1 }  # or under [priors], to be changed by --prior"),
        ("int N; vector[N] y;", 'N = { size = "obs" }  # or the column whose labels it counts, or'),
        ("int K; array[3] int<lower=1, upper=K> y;", 'K = { size = "..." }  # the column whose'),
    ],
)
def test_the_line_for_each_shape(data, line):
    with pytest.raises(ConfigError, match="no matching column; the columns are o") as e:
        completed(data, ["other"])
    assert f"\n    {line}" in str(e.value)
    assert ("variable " in str(e.value)) == (str(e.value).count("\n") == 2)


def test_labels_of_rows_must_suit_the_table(own_program):
    labelled = DECLARATION + '\n[coords]\nobs = ["a", "b", "c"]\n'
    program = own_program("trial", TRIAL, labelled)
    with pytest.raises(
        DataError, match=r"has 5 rows, but obs in the declaration's \[coords\] has "
    ):
        program.read(visits())
    right = labelled.replace('"c"', '"c", "d", "e"')
    assert own_program("trial", TRIAL, right).read(visits()).coords["obs"] == tuple("abcde")
    with pytest.raises(ConfigError, match=r"coords\.obs has the same label twice"):
        own_program("trial", TRIAL, labelled.replace('"c"', '"a"'))


@pytest.mark.parametrize("example", ["../t.csv", "{folder}/t.csv", "a/../../t.csv", "link/t.csv"])
def test_an_example_outside_the_folder_of_the_program_is_refused(own_program, tmp_path, example):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "link").symlink_to(outside)
    example = example.format(folder=outside)
    with pytest.raises(ConfigError, match="is outside the program's folder; name a table in"):
        own_program("small", SMALL, f"example = {example!r}")
    assert own_program("small", SMALL, "example = 'a/t.csv'").example == tmp_path / "a" / "t.csv"
