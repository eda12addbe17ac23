"""Reading a table as the data block of a program, with every kind of source."""

import json
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from own_programs import DECLARATION, TRIAL, visits

from pyflowers import fit
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import Data, find_program
from pyflowers.programs.data import to_frame
from pyflowers.programs.declaration import OBS, Declaration, Kind


@pytest.fixture
def trial(own_program):
    return own_program("trial", TRIAL, DECLARATION)


def test_a_table_fills_the_data_block(trial):
    data = trial.read(visits())
    values = {name: np.asarray(value).tolist() for name, value in data.values.items()}
    assert values == {
        "N": 5,
        "P": 2,
        "K": 2,
        "y": [5, 2, 3, 0, 4],
        "patient": [1, 2, 1, 2, 1],
        "x": [[1, 0.5], [0, 1.5], [1, 0.5], [0, 1.5], [1, 0.5]],
        "age": [31, 44],
        "prior_only": 0,
    }
    assert data["y"].dtype.kind == "i"
    assert data["age"].dtype.kind == "f"
    whole, notes = trial.fill(data, trial.resolve_priors({"tau_scale": 2}))
    assert notes == []
    assert set(trial.stan_values(whole)) == {*values, "tau_scale"}
    assert whole["tau_scale"] == 2


def test_labels_are_kept_and_positions_are_stans(trial):
    data = trial.read(visits())
    assert data.by_group.names == ("Ann", "Bob")
    # Visits are ordered by number: 1, 2, 10, although 2 comes first in the table.
    assert data.by_time.names == ("1", "2", "10")
    assert trial.read(visits(), time_order="appearance").by_time.names == ("2", "1", "10")
    assert data.coords == {"x": ("treated", "base")}
    assert data.dims["alpha"] == ("patient",)
    assert data.dims["beta"] == ("x",)
    assert data.dims["eta"] == data.dims["y"] == ("obs",)
    assert (data.observed, data.group, data.time, data.value) == (
        *("y", "patient", "visit", "seizures"),
    )
    assert data.num_obs == 5
    assert data.y.tolist() == [5, 2, 3, 0, 4]
    assert data.where(2) == "the data frame, row 3"


def test_columns_of_other_names(trial):
    renamed = visits().rename(
        columns={"patient": "Patientin", "visit": "Besuch", "seizures": "Anfälle", "base": "vorher"}
    )
    roles = {"group": "Patientin", "time": "Besuch", "value": "Anfälle"}
    data = trial.read(renamed, columns={**roles, "base": "vorher"})
    assert data.values["x"][1].tolist() == [0, 1.5]
    assert data.coords == {"x": ("treated", "vorher")}
    assert data.by_group.column == "Patientin"
    assert data.value_name == "Anfälle"
    assert data.name_of("patient") == "Patientin"
    assert trial.unit_of("tau", data) == "Anfälle per Besuch and Patientin"
    by_name = {"patient": "Patientin", "visit": "Besuch", "seizures": "Anfälle", "base": "vorher"}
    assert trial.read(renamed, columns=by_name).sha256 == data.sha256
    used = ["Anfälle", "treated", "vorher", "age", "Patientin", "Besuch"]
    assert list(to_frame(data).columns) == used


def test_a_variable_that_was_renamed_is_found_by_its_own_name(own_program):
    """An undeclared column has the variable's name, or the user's name for it."""
    program = own_program("plain", "data { int N; vector[N] y; } parameters { real mu; }")
    data = program.read(pd.DataFrame({"weight": [1, 2.5]}), columns={"y": "weight"})
    assert data.y.tolist() == [1, 2.5]
    assert data.value_name == "weight"


OLD = ["old", "new", "old", "new", "old"]
BAD_CELLS = [
    ("seizures", [5, 2, -3, 0, 4], "row 3: seizures is -3, but counts cannot be negative"),
    ("seizures", [5, 2, 3.5, 0, 4], "row 3: seizures is 3.5, but counts are whole numbers"),
    ("base", [0.5, 1.5, None, 1.5, 0.5], "row 3: base is 'nan', not a finite number; fill it in, "),
    ("base", list("abaca"), "row 1: base is 'a', not a finite number; if it holds labels, make"),
    (
        *("age", OLD),
        "row 1: age is 'old', not a finite number; if it holds labels, make it a column of 0 "
        'and 1, or declare array[P] int age in the program and age = { column = "age", index = '
        'true, per = "patient" } in its .toml file',
    ),
    (
        "age",
        [31, 44, 31, 45, 31],
        "row 4: age is 45, but was 44 in an earlier row for the same patient, 'Bob'",
    ),
    ("patient", ["Ann", "Bob", " ", "Bob", "Ann"], "row 3: patient is blank"),
    ("visit", [2, 1, 2, 2, 10], "row 3: patient 'Ann' already has visit '2' in row 1"),
    ("treated", [True, False, True, "no", True], "row 1: treated is 'True', not a finite"),
]


@pytest.mark.parametrize(("column", "cells", "message"), BAD_CELLS)
def test_what_is_wrong_in_a_cell_is_named(trial, column, cells, message):
    with pytest.raises(DataError) as caught:
        trial.read(visits().assign(**{column: cells}))
    assert str(caught.value).startswith(f"the data frame, {message}")


def test_rows_are_replicates_where_a_table_has_no_times(trial):
    twins = visits().drop(columns="visit")
    data = trial.read(twins)
    assert (data.by_time, data.time) == (None, "")
    assert "visit" not in data.columns
    assert data.num_obs == 5
    assert trial.unit_of("tau", data) == "seizures"
    assert trial.read(visits()).by_time is not None
    with pytest.raises(DataError, match="there is no column 'week'"):
        trial.read(twins, columns={"time": "week"})


TREND = """
data { int N; vector[N] y; int P; array[N] int<lower=1, upper=P> plot; vector[N] week; }
parameters { real mu; }
"""


def test_times_that_the_model_reads_are_not_left_out(own_program):
    program = own_program("trend", TREND, '[table]\ngroup = "plot"\ntime = "week"')
    frame = pd.DataFrame({"y": [1, 2.0], "plot": ["a", "a"], "week": [1, 1]})
    with pytest.raises(ConfigError, match="week has no matching column"):
        program.read(frame.drop(columns="week"))
    with pytest.raises(DataError, match=r"leave time out of \[table\] in the declaration"):
        program.read(frame)


@pytest.mark.parametrize(
    ("columns", "remedy"),
    [({"time": "year"}, "leave --time out"), ({}, "rename the column visit")],
)
def test_repeated_times_are_no_reason_to_remove_a_row(trial, columns, remedy):
    with pytest.raises(DataError) as caught:
        trial.read(visits().assign(year=95, visit=1), columns=columns)
    assert f"if both were observed, {remedy} (rows of one patient are then" in str(caught.value)
    assert "remove" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"base": "absent"}, DataError, "there is no column 'absent'; the columns are patient"),
        ({"basis": "base"}, ConfigError, "column basis: trial reads no such column, only seizures"),
        ({"group": "visit", "time": "visit"}, DataError, "group, time and value must be different"),
        ({"value": "patient"}, DataError, "group, time and value must be different columns"),
        ("base", ConfigError, "columns must be a mapping of names"),
        ({"base": 3}, ConfigError, "base: the name of a column must be text, got 3"),
    ],
)
def test_columns_that_cannot_be(trial, columns, error, message):
    with pytest.raises(error, match=message):
        trial.read(visits(), columns=columns)


def test_a_role_that_is_not_declared_is_no_option(own_program):
    program = own_program("plain", "data { int N; vector[N] y; } parameters { real mu; }")
    for role in ("group", "time"):
        with pytest.raises(ConfigError, match=rf"{role}: plain declares no column in that role"):
            program.read(pd.DataFrame({"y": [1.0]}), columns={role: "y"})


NESTED = """
data {
  int N; int P; int R;
  vector[N] y;
  array[N] int<lower=1, upper=P> plot;
  array[P] int<lower=1, upper=R> region;
}
parameters { real mu; }
"""
OF_PLOTS = '[data]\nregion = { column = "region", index = true, per = "plot" }'


def test_an_index_of_groups_in_groups(own_program):
    program = own_program("nested", NESTED, OF_PLOTS)
    frame = pd.DataFrame({"y": [1, 2, 3.0], "plot": [*"aba"], "region": ["s", "n", "s"]})
    data = program.read(frame)
    assert data["plot"].tolist() == [1, 2, 1]
    assert data["region"].tolist() == [1, 2]
    assert (data["N"], data["P"], data["R"]) == (3, 2, 2)
    assert data.dims["region"] == ("plot",)
    with pytest.raises(
        DataError, match="row 3: plot 'a' has more than one region; give it only one"
    ):
        program.read(frame.assign(region=["s", "n", "n"]))


def test_sizes_of_a_tables_labels_and_constants(own_program):
    text = (
        "data { int N; int G; int M; int k; matrix[M, 2] w; vector[N] y; } parameters { real a; }"
    )
    declaration = """
    [data]
    G = { size = "plot" }
    k = { value = 7 }
    M = { value = 2 }
    w = { value = [[1, 2], [3, 4]] }
    """
    program = own_program("sizes", text, declaration)
    data = program.read(pd.DataFrame({"y": [1, 2, 3.0], "plot": [*"aba"]}))
    assert (data["G"], data["k"], data["M"], data["w"]) == (2, 7, 2, [[1, 2], [3, 4]])


def test_a_lower_bound_of_the_text_or_of_the_declaration(own_program):
    text = "data { int N; vector<lower=0.5>[N] y; } parameters { real a; }"
    frame = pd.DataFrame({"y": [1, 0.4]})
    with pytest.raises(DataError, match=r"row 2: y is 0\.4, but must be at least 0\.5"):
        own_program("bound", text).read(frame)
    declaration = '[data]\ny = { column = "y", lower = 0.8 }'
    with pytest.raises(DataError, match=r"row 2: y is 0\.7, but must be at least 0\.8"):
        own_program("bound", text, declaration).read(frame.assign(y=[1, 0.7]))
    # A bound that is a variable is checked by Stan, not when the table is read.
    text = "data { int N; real a; vector<lower=a>[N] y; } parameters { real b; }"
    assert own_program("named", text, "[priors]\na = 3").read(frame).num_obs == 2


class Squares(Kind):
    """The squares of columns as a matrix."""

    fills: ClassVar = (2, "a matrix")
    is_named: ClassVar = True
    squares: tuple[str, ...]

    @property
    def cells(self):
        return self.squares

    def names(self, rows):
        return tuple(rows.names[column] for column in self.squares)

    def sizes_of(self, name, variable):
        return {variable.sizes[1]: name, variable.sizes[0]: OBS}

    def read(self, name, variable, rows):
        found = [rows.numbers(column, name, variable) for column in self.squares]
        return np.stack(found, axis=1) ** 2


def test_a_new_kind_of_source_is_one_class(own_program):
    text = "data { int N; int K; matrix[N, K] x; vector[N] y; } parameters { vector[K] b; }"
    plain = own_program("squares", text)
    data = {"x": Squares(squares=("v", "w"))}
    program = replace(plain, declaration=Declaration().model_copy(update={"data": data}))
    frame = pd.DataFrame({"y": [1.0, 2.0], "v": [3, 4], "weight": [5, 6]})
    found = program.read(frame, columns={"w": "weight"})
    assert found["x"].tolist() == [[9, 25], [16, 36]]
    assert (found["N"], found["K"]) == (2, 2)
    assert found.coords == {"x": ("v", "weight")}
    assert found.dims["b"] == ("x",)
    with pytest.raises(DataError, match="row 2: v is 'a', not a finite number; correct it"):
        program.read(frame.assign(v=[3, "a"]), columns={"w": "weight"})


# --- A data block instead of a table --------------------------------------------------------------


def test_json_and_a_mapping_are_the_data_block(trial, tmp_path):
    values = {"N": 1, "P": 1, "K": 1, "y": [3], "patient": [1], "x": [[1.5]], "age": [30.0]}
    values |= {"tau_scale": 3.0, "prior_only": 0}
    (tmp_path / "data.json").write_text(json.dumps(values))
    for given in (values, tmp_path / "data.json"):
        data = trial.read(given)
        assert not data.has_table
        assert data.by_group is None
        assert data.y.tolist() == [3]
        assert trial.resolve_priors(None, data)["tau_scale"] == 3.0
        assert trial.resolve_priors({"tau_scale": 2}, data)["tau_scale"] == 2.0
        whole, _ = trial.fill(data, trial.resolve_priors(None, data))
        assert np.array_equal(trial.stan_values(whole)["x"], [[1.5]])
    assert trial.read(values).sha256 == trial.read(dict(reversed(values.items()))).sha256
    assert trial.read(values).sha256 != trial.read({**values, "y": [4]}).sha256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("3", "CmdStan JSON must be an object, such as"),
        ('"a"', "got str; correct it"),
        ('{"a":' * 100_000, "is not JSON \\(nested too deeply\\)"),
        ('{"N": ' + "1" * 5000 + "}", "is not JSON"),
    ],
    ids=lambda text: text[:12],
)
def test_json_that_is_no_data_block(trial, tmp_path, text, message):
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        trial.read(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": "a"}, "data y holds text"),
        ({"y": ["a"]}, "data y holds text, but a data block holds numbers"),
        ({"y": [[1], [1, 2]]}, "data y is not an array of numbers"),
        ({"y": [None]}, "data y is not an array of numbers"),
        ({"y": [1, None]}, "data y is not an array of numbers"),
        ({"y": np.array(["2024-01-01"], "datetime64[D]")}, "data y holds datetime64"),
        ({"y": np.array([3], "timedelta64[D]")}, "data y holds timedelta64"),
        ({"y": {1, 2}}, "data y is not an array of numbers"),
        ({"y": object()}, "data y is not an array of numbers"),
        ([1, 2], "data must be a file, a DataFrame or a mapping, got list"),
        (3, "data must be a file, a DataFrame or a mapping, got int"),
        (np.zeros(3), "data must be a file, a DataFrame or a mapping, got ndarray"),
    ],
)
def test_what_is_no_data(trial, data, message):
    with pytest.raises(DataError, match=message):
        trial.read(data)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"N": 1}, "the mapping: the data variable P, which multilevel_poisson.stan declares"),
        (
            {"plant": [1, 1], "flowers": [4, 5]},
            "the data variable N, which multilevel_poisson.stan declares, is missing; add it; if "
            "the data are a table, give pandas.DataFrame(...)",
        ),
        ({"N": 2, "P": 2, "y": [3, 4], "plant": 3}, "the mapping: plant has no dimensions"),
        ({"N": 2, "P": 2, "y": [3, 4], "plant": [1, 7]}, "the mapping: plant holds 7, but multi"),
        ({"N": 2, "P": 2, "y": [3], "plant": [1, 1]}, "y has size 1 in dimension 1, but multilev"),
    ],
)
def test_a_data_block_that_is_none_is_one_sentence(values, message):
    with pytest.raises(DataError) as caught:
        fit("multilevel_poisson", values)
    assert message in str(caught.value)


def test_no_option_of_a_table_is_ignored_without_one(trial):
    values = {"N": 1, "y": [3]}
    for options in ({"columns": {"group": "a"}}, {"sep": ";"}, {"time_order": "appearance"}):
        name = next(iter(options.get("columns", options)))
        with pytest.raises(ConfigError, match=f"{name} is only valid with a table, but trial"):
            trial.read(values, **options)
        read = trial.read(visits())
        assert isinstance(read, Data)
        assert trial.read(read) is read
        with pytest.raises(ConfigError, match=f"{name}: the data have already been read"):
            trial.read(read, **options)
    for table in (visits(), from_frame(visits())):
        with pytest.raises(ConfigError, match="sep is only valid with a file, but"):
            trial.read(table, sep=";")
    with pytest.raises(ConfigError, match="time_order must be value or appearance, got 'name'"):
        trial.read(visits(), time_order="name")


def test_some_rows_are_taken_of_what_is_observed_alone(trial):
    rows = np.array([4, 0])
    data = trial.read(visits()).at(rows)
    assert data.y.tolist() == [4, 5]
    assert data["patient"].tolist() == [1, 1]
    assert data["x"].tolist() == [[1, 0.5], [1, 0.5]]
    assert data["age"].tolist() == [31, 44]
    plain = find_program("multilevel_poisson").read(
        {"N": 3, "P": 3, "plant": [1, 2, 3], "y": [4, 5, 6], "centered": 1}
    )
    assert plain.at(np.array([2])).y.tolist() == [6]
    assert plain.at(np.array([2]))["plant"].tolist() == [3]


RATINGS = """
data { int N; int K; int P; array[N] int<lower=1, upper=K> y; array[N] int<lower=1, upper=P> obs; }
parameters { vector[P] tau; }
model { tau ~ std_normal(); }
"""


def test_dimensions_have_names_that_nothing_else_has(own_program):
    """Labels of the column obs have a different dimension from the rows; ratings stay values."""
    program = own_program("ratings", RATINGS, "[data]\nK = { value = 5 }\n[dims]\ntau = ['tau']")
    frame = pd.DataFrame({"y": [5, 3, 5], "obs": ["b", "a", "b"]})
    data = program.read(frame)
    assert np.asarray(data["y"]).tolist() == [5, 3, 5]
    assert (data["N"], data["P"], data["obs"].tolist()) == (3, 2, [1, 2, 1])
    assert dict(data.dims) == {"y": ("obs",), "obs": ("obs",), "tau": ("tau_",)}
    assert data.labels["obs_"].names == ("b", "a")
    renamed = program.read(frame.rename(columns={"obs": "bee"}), columns={"obs": "bee"})
    assert renamed.labels["obs_"].column == "bee"
    again = program.read(frame, columns=data.columns)
    assert again.columns == data.columns
    with pytest.raises(ConfigError, match=r"bee: ratings reads no such column, only y, obs$"):
        program.read(frame, columns={"bee": "obs"})


# --- A design without its observations ------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "source", "expected"),
    [
        ("array[N] int<lower=0> y;", {}, {"y": [0, 0]}),
        ("array[N] int<lower=2> y;", {}, {"y": [2, 2]}),
        ("vector<lower=-1>[N] y;", {}, {"y": [0, 0]}),
        ("vector<lower=N>[N] y;", {}, {"y": [0, 0]}),
        ("vector[N] y;", {"column": "y", "lower": 3.0}, {"y": [3, 3]}),
        ("vector[N] y;", {"column": "new"}, {"new": [0, 0]}),
        ("matrix[N, 2] y;", {"columns": ["y", "z"]}, {"y": [0, 0], "z": [0, 0]}),
    ],
)
def test_the_observed_columns_of_a_design_hold_the_smallest_value_allowed(
    own_program, y, source, expected
):
    text = f"data {{ int N; {y} }} parameters {{ real mu; }}"
    program = own_program("design", text, declaration={"data": {"y": source} if source else {}})
    frame = pd.DataFrame({"y": [7, 8], "z": [9, 9]})
    assert to_frame(program.read(frame, design_only=True)).to_dict("list") == expected
    assert program.read(frame[["z"]], design_only=True).num_obs == 2 * len(expected)


def test_a_column_of_another_name_and_no_observed_variable(own_program):
    text = "data { int N; vector[N] y; vector[N] z; } parameters { real mu; }"
    frame = pd.DataFrame({"z": [7, 8], "w": [9, 9]})
    found = own_program("design", text).read(frame, columns={"y": "w"}, design_only=True)
    assert (found.y.tolist(), found["z"].tolist()) == ([0, 0], [7, 8])
    none = own_program("none", "data { int N; vector[N] z; } parameters { real mu; }")
    assert none.read(frame, design_only=True)["z"].tolist() == [7, 8]
    assert dict(none.read({"N": 2}, design_only=True).values) == {"N": 2}


def test_a_block_gets_values_of_the_size_that_it_names(own_program):
    text = "data {{ int N; array[{}] int<lower=1> y; }} parameters {{ real mu; }}"
    program = own_program("block", text.format("N"))
    found = program.read({"N": 3}, design_only=True)
    assert (found.observed, found["y"].dtype, found["y"].tolist()) == ("y", np.int64, [1, 1, 1])
    assert program.read({"N": 2, "y": [4, 5]}, design_only=True)["y"].tolist() == [1, 1]
    with pytest.raises(DataError, match=r"the size 2 . N of y is not known; add y to the data"):
        own_program("block", text.format("2 * N")).read({"N": 2}, design_only=True)
