"""Declarations: the same from a file and from Python, and one sentence for each mistake."""

import tomllib

import pytest
from own_programs import DECLARATION, SECTIONS, TRIAL

from pyflowers.errors import ConfigError
from pyflowers.programs import Program
from pyflowers.programs.declaration import Column, Columns, Declaration, Size, Value

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
    # Given in Python, the file is not read.
    path = tmp_path / "trial.stan"
    assert Program.open(path, declaration={}).declaration == Declaration()
    assert Program.open(path).declaration == from_file


def test_every_kind_of_source_and_its_columns(own_program):
    declared = own_program("trial", TRIAL, DECLARATION).declaration
    assert declared.data["y"] == Column(column="seizures")
    assert declared.data["patient"] == Column(column="patient", index=True)
    assert declared.data["x"] == Columns(columns=("treated", "base"))
    assert declared.data["age"] == Column(column="age", per="patient")
    assert declared.label_columns == ("patient", "visit")
    assert declared.number_columns == ("seizures", "treated", "base", "age")
    assert declared.columns == (*declared.number_columns, *declared.label_columns)
    assert list(declared.matrices) == ["x"]
    parsed = Declaration.parse(
        {"data": {"N": {"size": "obs"}, "P": {"size": "plot"}, "k": {"value": [1, 2]}}}, "here"
    )
    assert parsed.data == {"N": Size(size="obs"), "P": Size(size="plot"), "k": Value(value=[1, 2])}
    assert parsed.label_columns == ("plot",)


def test_a_prior_is_a_number_or_a_table():
    parsed = Declaration.parse({"priors": {"a": 1, "b": {"value": 2.5, "above": 0}}}, "here")
    assert [parsed.priors[name].value for name in "ab"] == [1.0, 2.5]
    assert [parsed.priors[name].above for name in "ab"] == [None, 0.0]


def test_a_declaration_comes_back_from_its_record():
    """As run.json keeps it: plain values, defaults left out."""
    declared = Declaration.parse(SECTIONS, "here")
    plain = declared.model_dump(mode="json", exclude_defaults=True)
    assert Declaration.parse(plain, "run.json") == declared


WRONG = [
    # Not what a declaration is made of
    ("[dta]\ny = 1", "unknown key dta; did you mean data?"),
    ("zzz = 1", "unknown key zzz; the keys here are "),
    ("[roles]\nylep = 'z'", "unknown key roles.ylep; did you mean y_rep?"),
    ("[table]\ngruop = 'z'", "unknown key table.gruop; did you mean group?"),
    ("[parameters.mu]\nunits = 'm'", "unknown key parameters.mu.units; did you mean unit?"),
    ("[priors.s]\nvalue = 1\nbelow = 2", "unknown key priors.s.below"),
    ("[priors.s]\nlower = 1", "the key priors.s.value is missing"),
    ("[priors]\ns = 'wide'", "priors.s.value must be a number"),
    ("[priors]\ns = nan", "priors.s.value must be a finite number, was nan"),
    ("[data]\ny = 'flowers'", "data.y must be a table with the key column, columns, size"),
    (
        "[data]\ny = { of = 'a' }",
        'data.y must be a table with the key column, columns, size or value, such as { column = "',
    ),
    ("[data]\ny = { colunm = 'a' }", "unknown key data.y.colunm; did you mean column?"),
    ("[data]\nN = { Size = 'a' }", "unknown key data.N.Size; did you mean size?"),
    ("[data]\ny = {}", "data.y must be a table with the key column, columns, size"),
    ("[data]\ny = { column = 3 }", "data.y.column must be a string, was 3"),
    ("[data]\ny = { column = 'a', size = 'b' }", "unknown key data.y.size; the keys here are col"),
    ("[data]\ny = { columns = [] }", "data.y.columns must name at least one"),
    ("[data]\nN = { size = 'a', of = 1 }", "unknown key data.N.of; the keys here are size"),
    ("[data]\nN = { size = 3 }", "data.N.size must be a string, was 3"),
    ("[dims]\nmu = 'a'", "dims.mu must be a list, was 'a'"),
    ("data = 3", "data must be a table, was 3"),
    ("omit = 'mu'", "omit must be a list, was 'mu'"),
    ("[data]\ns = { value = 1 }\n[priors]\ns = 2", "s is both data and a prior; declare it once"),
    ("[data", "it is not valid TOML: "),
    ("x = " + "[" * 5000, "it is not valid TOML: "),
    # Not what the program has
    ("[data]\nz = { column = 'a' }", "[data] names z, which the program does not declare in its"),
    ("[priors]\nz = 1", "[priors] names z, which the program does not declare in its data block"),
    ("[dims]\nz = ['a']", "[dims] names z, which the program does not declare"),
    ("[parameters.y]\nunit = 'm'", "[parameters] names y, which the program does not declare"),
    ("omit = ['z']", "[omit] names z, which the program does not declare"),
    ("[dims]\ny = ['a', 'b']", "[dims] gives y 2 dimensions and the program 1; name one for each"),
    ("[dims]\nmu = ['a']", "[dims] gives mu 1 dimensions and the program 0"),
    ("[data]\nN = { column = 'a' }", "[data] N is a scalar in the program, and this entry gives a"),
    (
        "[data]\ny = { size = 'a' }",
        "[data] y is a vector in the program, and this entry gives a sc",
    ),
    (
        "[data]\ny = { columns = ['a'] }",
        "[data] y is a vector in the program, and this entry gives",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_is_one_sentence_with_file_and_key(own_program, tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        own_program("small", SMALL, text)
    output = str(caught.value)
    assert output.startswith(f"{tmp_path / 'small.toml'}: {message}")
    assert "\n" not in output
    assert len(output) < 400


def test_a_mistake_in_a_source_is_answered_with_the_nearest_key(own_program):
    with pytest.raises(ConfigError, match=r"unknown key data\.y\.idnex; did you mean index\?"):
        own_program("small", SMALL, "[data]\ny = { column = 'a', idnex = true }")


def test_bytes_that_are_no_text(own_program, tmp_path):
    own_program("small", SMALL)
    (tmp_path / "small.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ConfigError, match=r"small\.toml: it is not valid TOML"):
        Program.open(tmp_path / "small.stan")
