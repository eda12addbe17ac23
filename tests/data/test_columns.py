"""Columns of a table, whose cells are parsed once for all questions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers.data import columns, from_frame, read_table
from pyflowers.errors import DataError
from pyflowers.programs import find_program

NUM = 40
CSV = pd.DataFrame(
    {
        "y": [f"{i % 7}" for i in range(NUM)],
        "x": [f"{i / 8}" for i in range(NUM)],
        "z": ["TRUE" if i % 3 else "FALSE" for i in range(NUM)],
        "dose": ["low", "mid", "high", "3+"] * (NUM // 4),
        "code": [f"{i % 9:02d}" for i in range(NUM)],
        "when": [f"2024-01-{1 + i // 2:02d}" for i in range(NUM)],
    }
)


@pytest.fixture
def table(tmp_path):
    CSV.to_csv(tmp_path / "t.csv", index=False)
    return read_table(tmp_path / "t.csv")


@pytest.fixture
def parsed(monkeypatch):
    """The lengths of the arrays whose cells were parsed as numbers, and as text."""
    lengths = {"to_numbers": [], "_distinct": []}

    def counted(name):
        function = getattr(columns, name)

        def call(cells):
            lengths[name].append(len(cells))
            return function(cells)

        return call

    for name in lengths:
        monkeypatch.setattr(columns, name, counted(name))
    return lengths


def ask(table):
    """Ask a table all that can be asked of it."""
    for name in table.columns:
        table.texts(name), table.labels(name, order="value"), table.is_missing(name)
        if table.is_factor(name):
            table.numbers_or_factor(name)
        else:
            table.numbers(name), table.numbers_or_factor(name, is_mixed=True)
        table.plain_texts(name)
    table.labels("dose:code"), table.texts("dose:code")
    table.sha256(tuple(table.columns))


def test_each_cell_is_parsed_once_for_all_questions(parsed, tmp_path):
    CSV.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    num = len(table.columns)
    for _ in range(3):
        ask(table)
    ask(table.only(tuple(table.columns)))
    ask(replace(table, levels={"dose": ("3+", "low", "mid", "high")}))
    assert parsed["to_numbers"].count(NUM) == num
    assert parsed["_distinct"].count(NUM) <= num + 3  # and the joined column of three tables


def test_a_part_of_a_table_is_not_parsed_again(table, parsed):
    rows = np.arange(0, NUM, 3)
    part = table.at(rows)
    ask(part)
    again = read_table(table.source).at(rows)
    assert parsed["to_numbers"].count(len(rows)) == 0
    assert [part.numbers("x").tolist(), part.sha256(("code", "when"))] == [
        (rows / 8).tolist(),
        again.sha256(("code", "when")),
    ]


def test_a_part_of_a_table_is_numbers_or_labels_by_its_own_cells():
    table = from_frame(pd.DataFrame({"x": [1, 2, "three", None], "y": [1, 2, 3, 4]}))
    assert table.is_factor("x")
    assert not table.at(np.array([0, 1])).is_factor("x")
    assert table.at(np.array([0, 1])).numbers("x").tolist() == [1, 2]
    assert table.at(np.array([0, 3])).is_missing("x").tolist() == [False, True]


def test_only_new_cells_are_parsed(table, parsed):
    ask(table.with_cells({"x": np.full(NUM, "7", dtype=object)}))
    assert parsed["to_numbers"].count(NUM) == 1
    ask(table.with_cells({"x": np.arange(NUM) / 2}))
    assert parsed["to_numbers"].count(NUM) == 1  # floats are numbers already


def test_what_a_table_returns_may_be_changed(table):
    for question in (table.numbers, table.is_missing, table.texts):
        found = question("y")
        before = found.copy()
        found[:] = found[::-1]
        assert question("y").tolist() == before.tolist()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((3.0, "3"), (-0.0, "0"), (0.1 * 3, "0.3"), (1e15, "1000000000000000")),
        *((2.0**60, "1.152921504606847e+18"), (1e300, "1e+300"), (-2.5, "-2.5"), (1e-7, "1e-07")),
        *((np.float32(0.5), "0.5"), (7, "7"), (float("inf"), "inf")),
    ],
)
def test_a_number_is_written_in_one_way(value, text):
    assert columns.number_text(value) == text
    assert columns.plain_text(repr(float(value))) == text


@pytest.mark.parametrize("text", ["01", "1.0", "TRUE", "3+", "1_000", "", " 1", "1e3"])
def test_a_label_keeps_its_text(text):
    table = from_frame(pd.DataFrame({"x": [text, "b"]}))
    assert table.texts("x").tolist() == [text, "b"]


def test_a_fit_and_its_effects_parse_the_cells_of_a_table_once(parsed, tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "y": rng.poisson(4, NUM).astype(str),
            "x": rng.normal(size=NUM).round(2).astype(str),
            "dose": CSV.dose,
            "plot": [f"plot {i % 5}" for i in range(NUM)],
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    fast = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 100, "draws": 50}
    fit = pyflowers.fit("y ~ x + dose + (1 | plot)", table, family="poisson", **fast)
    assert parsed["to_numbers"].count(NUM) == len(table.columns)
    parsed["to_numbers"].clear()
    pyflowers.effects(fit)
    assert parsed["to_numbers"].count(NUM) == frame.dose.nunique()  # a new column for each level
    parsed["to_numbers"].clear()
    pyflowers.plots.conditional_effects(fit, "x", by="dose")
    pyflowers.predict(fit)
    assert parsed["to_numbers"].count(NUM) == 0


def test_a_fit_reads_and_parses_a_file_once(parsed, tmp_path):
    path = tmp_path / "t.csv"
    CSV.to_csv(path, index=False, sep=";")
    how = {"sep": ";", "seed": 1, "engine": "stanli", "chains": 2, "warmup": 100, "draws": 50}
    fit = pyflowers.fit("y ~ x + dose", path, **how)
    assert parsed["to_numbers"].count(NUM) == len(CSV.columns)
    assert fit.record.data.reading == {"sep": ";"}


def test_a_table_knows_how_it_was_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("y;g\n1,5;ä\n2,5;b\n", encoding="latin-1")
    how = {"sep": ";", "decimal": ",", "encoding": "latin-1"}
    table = read_table(path, **how)
    assert table.reading == table.at(np.array([0])).reading == how
    # A fit to the table can then be replayed from the file.
    read = pyflowers.Program.from_formula("y ~ 1", table).read(table)
    assert read.reading == how
    assert read_table(path, sep=";", decimal=".", encoding="latin-1").reading.keys() == {
        *("sep", "encoding")
    }


def test_labels_may_have_points_where_numbers_have_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("release;month;flowers\n1.234;1;1,5\n0.25;1;2,5\n1.234;2;3,5\n")
    table = read_table(path, sep=";", decimal=",")
    read = find_program("iid_normal").read(table, group="release")
    assert read.by_group.names == ("1.234", "0.25")
    assert not table.is_missing("release").any()
    for question in (table.numbers, table.numbers_or_factor):
        with pytest.raises(DataError, match="remove the points between thousands, and write deci"):
            question("release")
