"""Reading tables as labelled columns; each bad table gives an error of one sentence."""

import datetime
import gzip
import json
import re
import sys
from decimal import Decimal

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflowers.data import from_frame, read_table
from pyflowers.errors import DataError, PyflowersError
from pyflowers.programs import Program, find_program
from pyflowers.programs.data import to_frame
from pyflowers.resources import flowers_csv

HEADER = "plant,month,flowers\n"


def read(table):
    """Return a table for the shipped programs: two columns of labels and one of numbers."""
    return find_program("iid_normal").read(table)


def column(values, name="x"):
    """Return a table with one column of any objects."""
    series = pd.Series(values, dtype=object) if isinstance(values, list) else values
    return from_frame(pd.DataFrame({name: series}))


def output(call, *values, **options):
    """Return the message, one sentence, of the error that a call raises."""
    with pytest.raises(DataError) as caught:
        call(*values, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def sheet(path, *sheets):
    """Write rows of cells as the sheets of an Excel file."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        page = book.create_sheet(title)
        for row in rows:
            page.append(row)
    book.save(path)
    return path


# --- Files ----------------------------------------------------------------------------------------


def test_the_lectures_data_are_those_of_the_lecture():
    data = read(flowers_csv())
    table = to_frame(data).pivot(index="plant", columns="month", values="flowers")
    assert table.to_numpy().tolist() == [[4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8]]


BAD_TABLES = [
    ("", "the file is empty; a header and at least one row are needed"),
    (HEADER, "there are no rows below the header; add observations"),
    (
        "plant,month\na,1\n",
        "there is no column 'flowers'; the columns are plant, month; name "
        "the column to use with --value",
    ),
    (
        "a,b,c\n1,2,3\n",
        "there is no column 'plant'; the columns are a, b, c; name the columns to "
        "use with --group and --value",
    ),
    (
        HEADER + "a,1,4\na,2,\n",
        "row 3: flowers is blank; fill it in, or leave the row out (drop_missing=True) if ",
    ),
    (HEADER + "a,1,4\n,2,3\n", "row 3: plant is blank; give it a label"),
    (HEADER + "a,  ,4\n", "row 2: month is blank"),
    (HEADER + "a,1,4\na,2,four\n", "row 3: flowers is 'four', not a finite number; correct it"),
    (HEADER + "a,1,four\n", "row 2: flowers is 'four', not a finite number; name a column of "),
    (HEADER + "a,1,NaN\n", "row 2: flowers is 'NaN', not a finite number; fill it in, or leave"),
    (HEADER + "a,1,4\na,2,NA\n", "row 3: flowers is 'NA', not a finite number; fill it in, or"),
    (HEADER + "a,1,1\nb,1,inf\n", "row 3: flowers is 'inf', not a finite number"),
    (HEADER + "a,1,-Infinity\n", "row 2: flowers is '-Infinity', not a finite number"),
    (HEADER + "a,1,1_000\n", "row 2: flowers is '1_000', not a finite number"),
    (HEADER + "a,1,4\nb,1,True\n", "row 3: flowers is 'True', not a finite number"),
    (HEADER + "a,1,0x10\n", "row 2: flowers is '0x10', not a finite number"),
    (HEADER + f"a,1,{'x' * 99}\n", f"row 2: flowers is '{'x' * 57}...', not a finite number"),
    (HEADER + "a,1,4\nb,1,2\na,1,5\n", "row 4: plant 'a' already has month '1' in row 2; if "),
    ("\n  \n", "the file is empty; a header and at least one row are needed"),
    (HEADER + "a,1,4,9\n", "row 2: the number of cells is 4, but it is 3 in row 1; remove the"),
    ("\n" + HEADER + "\na,1,4\nb,1,5,\n", "row 5: the number of cells is 4, but it is 3 in row 2"),
    (
        "# seen in May\n" + HEADER,
        "row 2: the number of cells is 3, but it is 1 in row 1; remove any",
    ),
    ("# by A, B\n" + HEADER, "but it is 2 in row 1; remove any title or comment above the column"),
    (
        "#" + HEADER + "a,1,4\nb,1,5,6\n",
        "row 3: the number of cells is 4, but it is 3 in row 1; re",
    ),
    ("\r\n" + HEADER + 'a,1,4\nb,1,"5\nc,1,6\n', "row 4: a cell begins with a quotation mark that"),
    ("\nplant,plant\na,1\n", "row 2: column 'plant' appears twice; rename one"),
    ("plant,month,flowers,flowers\na,1,4,5\n", "row 1: column 'flowers' appears twice; rename one"),
    (HEADER + "\n\na,1,x\n", "row 4: flowers is 'x'"),
    ("plant;month;flowers\na;1;4\n", "add --sep ';'"),
    ("plant;month;flowers\na;1;4,5\n", "add --sep ';'"),
    ("plant\tmonth\tflowers\na\t1\t4\n", "add --sep tab"),
    ("plant|month|flowers\na|1|4\n", "add --sep '|'"),
    (
        HEADER + 'a,1,"4,5"\n',
        "not a finite number; if the comma is its decimal mark, add --decimal",
    ),
    (HEADER + 'a,1,"4,500"\n', "; remove the commas between thousands or, if the comma is its dec"),
    (HEADER + 'a,1,"4,500.5"\n', "not a finite number; remove the commas between thousands"),
    (HEADER + "a,1,NA\nb,1,nan\nc,1,4\nd,1,-\n", "row 5: flowers is '-', not a finite number; c"),
    ((HEADER + "é,1,4\n").encode("latin-1"), "not UTF-8 text; name its encoding with --encoding"),
    ((HEADER + "a,1,4\n").encode("utf-16"), "is UTF-16 text; add --encoding utf-16"),
    ((HEADER + "a,1,4\n").encode("utf-16-le"), "is not text; save it as CSV in UTF-8"),
    (b"plant\xff\x00\x01\n", "is not text; save it as CSV in UTF-8"),
    (gzip.compress(HEADER.encode(), mtime=0), "is compressed with gzip; add .gz to its name"),
    (
        b"PK\x03\x04\x14\x00",
        "is an Excel file or a zip archive; rename it to end in .xlsx, or unpa",
    ),
]


@pytest.mark.parametrize(("content", "message"), BAD_TABLES)
def test_a_bad_table_is_one_sentence_with_file_row_and_column(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    sentence = output(read, path)
    assert message in sentence
    assert sentence.startswith(str(path))


WHOLE = gzip.compress(flowers_csv().read_bytes(), mtime=0)
BAD_FILES = [
    ("absent.csv", None, "no such file; check the path"),
    ("absent.xls", None, "does not show the format; use .csv"),
    ("folder.csv", "a folder", "is not a file"),
    ("bad\0name.csv", None, "bad\x00name.csv"),
    ("t.json", b'{"plant": "a"}', "list of records"),
    ("t.json", b"[1, 2]", "list of records"),
    ("t.json", b" \n", "the file is empty; a list of records is needed"),
    ("t.json", b"[]", "there are no rows"),
    ("t.json", b"[{", "cannot be read as JSON"),
    ("t.json", b"[" * 100_000, "cannot be read as JSON"),
    ("t.json.gz", gzip.compress(b"[]", mtime=0), "does not show the format"),
    ("t.parquet", b"PAR1 and no more", "cannot be read as PARQUET"),
    *(
        ("t.csv.gz", content, "is damaged or not a gzip file")
        for content in (HEADER.encode(), WHOLE[:-20], WHOLE[:30] + b"x" * 30, b"\x1f\x8b")
    ),
    (
        "t.csv.gz",
        gzip.compress("plant;é\n1;2\n".encode("latin-1"), mtime=0),
        "is not UTF-8 text",
    ),
    *(("t.xlsx", content, "is not an Excel file") for content in (b"", b"PK", b"plant,month\n")),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_missing_unreadable_and_damaged_files(tmp_path, name, content, message):
    path = tmp_path / name
    if content == "a folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    sentence = output(read_table, path)
    assert message in sentence
    assert sentence.startswith(str(path))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", '"." is a folder; give the path of a table'),
        ("-", "-: the file name does not show the format; save the input in a file whose name en"),
        ("/dev/stdin", "save the input in a file whose name ends in .csv, "),
        ("/dev/fd/63", "save the input in a file whose name ends in .csv, "),
    ],
)
def test_an_empty_name_and_a_pipe_are_refused(path, message):
    assert message in output(read_table, path)


@pytest.mark.parametrize("above", ["\n\n", "\r\n \r\n", ",,\n\n"])
def test_blank_lines_above_the_header_count_as_rows(tmp_path, above):
    path = tmp_path / "t.csv"
    path.write_bytes((above + HEADER + "\na,1,4\nb,1,5\n").encode())
    table = read_table(path)
    assert list(table.cells) == ["plant", "month", "flowers"]
    assert table.rows.tolist() == [5, 6]
    rows = [[], [None], NAMES, ["a", 1, 4]]
    assert read_table(sheet(tmp_path / "t.xlsx", ("Beete", rows))).rows.tolist() == [4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"x": {"0": 1}, "y": {"0": 2}}', "must be a list of records"),
        ("3", "must be a list of records"),
        ("", "the file is empty"),
        (None, "no such file"),
    ],
)
def test_a_formula_tells_why_a_json_file_is_no_table(tmp_path, content, message):
    path = tmp_path / "t.json"
    if content is not None:
        path.write_text(content)
    assert output(Program.from_formula, "y ~ x", path).startswith(f"{path}: ")
    assert message in output(Program.from_formula, "y ~ x", path)


@pytest.mark.parametrize("formula", ["y ~ x", "x ~ y"])
def test_the_cell_that_makes_marks_of_missing_values_text_is_named(tmp_path, formula):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,1\n2,2\n3,nan\n4,3\n5,2\n6,-\n")
    sentence = output(Program.from_formula, formula, path, drop_missing=True)
    assert sentence.startswith(f"{path}, row 7: y is '-', ")


POINTED = ("1.234", "5.", "12.345,5", "1.234.567", "0.25", ".5", "-1.5e3", "1.234,")


@pytest.mark.parametrize("cell", POINTED)
def test_a_number_with_a_point_is_refused_if_the_decimal_mark_is_a_comma(tmp_path, cell):
    path = tmp_path / "t.csv"
    path.write_text(f"x\n1,5\n{cell}\n", encoding="utf-8")
    table = read_table(path, sep=";", decimal=",")
    complaint = rf"row 3: x is '{re.escape(cell)}', but with --decimal ',' numbers have no points"
    with pytest.raises(DataError, match=complaint):
        table.numbers("x")


def test_numbers_with_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y\n1,5;v1.2\n-2;1.2.2024\n3e2;a\n", encoding="utf-8")
    table = read_table(path, sep=";", decimal=",")
    assert table.numbers("x").tolist() == [1.5, -2, 300]
    assert list(table.numbers_or_factor("y")) == ["v1.2", "1.2.2024", "a"]


def test_parquet_keeps_categories_and_text(tmp_path):
    frame = pd.DataFrame({"dose": pd.Categorical(["low", "mid", "high"], ["low", "mid", "high"])})
    frame["zone"], frame["text"] = pd.Categorical(["1", "2", "10"]), ["1", "2", "10"]
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").levels == from_frame(frame).levels


@pytest.mark.parametrize(("suffix", "package"), [("xlsx", "openpyxl"), ("parquet", "pyarrow")])
def test_a_format_whose_package_is_missing(tmp_path, monkeypatch, suffix, package):
    path = tmp_path / f"t.{suffix}"
    pd.DataFrame({"x": [1]}).to_parquet(path)
    monkeypatch.setitem(sys.modules, package, None)
    assert f"cannot be read without {package}; run pip install 'pyflowers[{suffix}]'" in output(
        read_table, path
    )


def test_every_format_gives_the_same_data(tmp_path):
    frame = pd.read_csv(flowers_csv(), dtype={"plant": str, "month": str})
    frame.to_csv(tmp_path / "f.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "f.parquet")
    (tmp_path / "f.json").write_text(json.dumps(frame.to_dict("records")))
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + flowers_csv().read_bytes())
    (tmp_path / "f.csv.gz").write_bytes(WHOLE)
    frame.to_excel(tmp_path / "text.xlsx", index=False)
    frame.astype(float).to_excel(tmp_path / "f.xlsx", index=False)
    digests = {read(path).sha256 for path in tmp_path.iterdir()}
    assert digests == {read(flowers_csv()).sha256} == {read(frame).sha256}


def test_a_table_is_unpacked_up_to_a_limit(tmp_path, monkeypatch):
    content = b"plant,month,flowers\n" + b"1,1,1\n" * 1000
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr("pyflowers.data.files.LARGEST", len(content))
    assert len(read_table(tmp_path / "f.csv.gz")) == 1000
    monkeypatch.setattr("pyflowers.data.files.LARGEST", len(content) - 1)
    with pytest.raises(DataError, match=r"f\.csv\.gz is larger than .* unpacked; divide it into"):
        read_table(tmp_path / "f.csv.gz")


def test_a_sheet_is_read_by_its_own_rows(tmp_path):
    day = datetime.datetime(2024, 2, 1)
    rows = [["plot", "day", None, "height"], ["Süd 1", day, "?", 4.5], [], [1, day, None, 3]]
    table = read_table(sheet(tmp_path / "t.xlsx", ("Beete", rows), ("Notizen", [["x"]])))
    assert list(table.cells) == ["plot", "day", "height"]
    assert table.labels("plot").names == ("Süd 1", "1")
    assert table.labels("day").names == ("2024-02-01",)
    assert table.numbers("height").tolist() == [4.5, 3]
    assert table.where(1) == f"{tmp_path / 't.xlsx'}, row 4"
    assert table.notes == [f"{tmp_path / 't.xlsx'}: only its first sheet, 'Beete', is read"]


NAMES = ["plant", "month", "flowers"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([NAMES, ["a", 1, "vier"], ["a", 2, 3]], "row 2: flowers is 'vie"),
        ([NAMES, ["a", 1, 4], [], ["a", 2, None]], "row 4: flowers is bla"),
        ([NAMES, ["a", 1, 4], ["b", 1, True]], "row 3: flowers is 'True', not a finite"),
        ([NAMES, ["a", 1, "#DIV/0!"]], "row 2: flowers is '#DIV/0!', not a finite"),
        ([[*NAMES, None], ["a", 1, 4], [None, None, None, "?"]], "row 3: plant is blank"),
        ([["plant", "month", "month"], ["a", 1, 4]], "row 1: column 'month' appears twice; rename"),
        ([NAMES], "there are no rows below the header; add observations"),
        ([], "the file is empty; a header and at least one row are needed"),
    ],
)
def test_a_bad_sheet_is_one_sentence(tmp_path, rows, message):
    path = sheet(tmp_path / "t.xlsx", ("Beete", rows))
    sentence = output(read, path)
    assert message in sentence
    assert sentence.startswith(str(path))


ROWS = 'plant;month;flowers\nRosé;1,5;4,5\nRosé;1.234;"1234,5"\n'


@pytest.mark.parametrize(
    ("name", "sep", "encoding"),
    [
        ("t.csv", ";", "latin-1"),
        ("t.csv", ";", "utf-16"),
        *(("t.csv", tab, None) for tab in ("tab", "\\t", "\t")),
        ("t.csv.gz", ";", "latin-1"),
    ],
)
def test_a_table_with_decimal_commas_is_read_as_told(tmp_path, name, sep, encoding):
    content = (ROWS if sep == ";" else ROWS.replace(";", "\t")).encode(encoding or "utf-8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    table = read_table(tmp_path / name, sep=sep, decimal=",", encoding=encoding)
    for of_table in (table, table.only(("flowers",))):
        assert of_table.numbers("flowers").tolist() == [4.5, 1234.5]
    # Labels stay as they are written.
    assert table.labels("plant").names == ("Rosé",)
    assert table.labels("month").names == ("1,5", "1.234")
    same = from_frame(pd.DataFrame({"flowers": ["4.5", "1234.50"]}))
    assert table.sha256(("flowers",)) == same.sha256(("flowers",))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("t.csv", {"sep": ";;"}, "--sep must be one printable character or 'tab', got ';;'"),
        ("t.csv", {"sep": ""}, "--sep must be one printable character or 'tab', got ''"),
        ("t.csv", {"decimal": ";"}, "--decimal must be '.' or ',', got ';'"),
        ("t.csv", {"encoding": "utf-99"}, "such as utf-8, latin-1 or cp1252, got 'utf-99'"),
        (
            "t.csv",
            {"encoding": ""},
            "--encoding must be the name of a text encoding, such as utf-8",
        ),
        ("t.csv", {"encoding": "ascii"}, "is not ascii text; name its encoding"),
        ("t.csv", {"encoding": "utf-16"}, "is not utf-16 text"),
        ("t.json", {"sep": ";"}, "--sep applies to CSV and TSV files only; leave it out"),
        ("t.json", {"decimal": ","}, "--decimal applies to CSV and TSV files only"),
        ("t.parquet", {"encoding": "utf-8"}, "--encoding applies to text files only"),
    ],
)
def test_a_reading_that_cannot_be_is_refused(tmp_path, name, options, message):
    (tmp_path / name).write_text(HEADER + "é,1,4\n", encoding="utf-8")
    assert message in output(read_table, tmp_path / name, **options)


# --- Labels ---------------------------------------------------------------------------------------


def test_labels_are_kept_as_written_and_in_order_of_appearance(tmp_path):
    path = tmp_path / "labels.csv"
    text = 'Größe,tag,n\n"Rose, rot",z,1\n007,a,2\nNA,z,3\n"O""Hara 🌼",z,4\n007,z,5\n'
    path.write_text(text, encoding="utf-8")
    plants, months = (read_table(path).labels(name) for name in ("Größe", "tag"))
    assert plants.names == ("Rose, rot", "007", "NA", 'O"Hara 🌼')
    assert months.names == ("z", "a")
    assert plants.codes.tolist() == [0, 1, 2, 3, 1]
    assert plants.counts.tolist() == [1, 2, 1, 1]
    assert plants.of_rows.tolist() == ["Rose, rot", "007", "NA", 'O"Hara 🌼', "007"]
    assert (plants.column, len(plants)) == ("Größe", 4)


@pytest.mark.parametrize(
    ("written", "ordered"),
    [
        (["10", "9", "-1.5", "9"], ["-1.5", "9", "10"]),
        (["2024-10-01", "2023-12-31", "2024-09-30"], ["2023-12-31", "2024-09-30", "2024-10-01"]),
        (["2024-10", "2024-09"], ["2024-09", "2024-10"]),
        # Week 21 comes before week 27 even if the first plant lacks the first weeks.
        (["KW 27", "KW 9", "KW 21"], ["KW 9", "KW 21", "KW 27"]),
        (["t10s", "t9s"], ["t9s", "t10s"]),
        (["M09", "M10", "M1"], ["M1", "M09", "M10"]),
        (["x" + "9" * 5000, "x1" + "0" * 5000, "x7"], ["x7", "x" + "9" * 5000, "x1" + "0" * 5000]),
        # Times of different kinds stay in order of appearance, with a note.
        *((["June", "April"], None), (["2", "1", "late"], None), (["KW 27", "week 9"], None)),
        *((["2024-10-01", "9"], None), (["a2b3", "a1b4"], None), (["2", "inf"], None)),
    ],
    ids=lambda labels: labels[0][:9] if labels else "",
)
def test_times_are_ordered_by_value_where_they_have_one(written, ordered):
    table = column(written, "week")
    appearance = list(dict.fromkeys(written))
    for _ in range(2):
        labels = table.labels("week", order="value")
        assert list(labels.names) == (ordered or appearance)
        assert labels.of_rows.tolist() == written
        assert len(table.notes) == (ordered is None)
    assert all("the week labels are in order of appearance" in note for note in table.notes)
    assert list(table.labels("week").names) == appearance


NOON = pd.to_datetime(["2024-02-01 12:00", "2024-02-01 00:00"])


@pytest.mark.parametrize(
    ("days", "names"),
    [
        (pd.to_datetime(["2024-02-01", "2024-01-31"]).to_series(), ("2024-01-31", "2024-02-01")),
        ([datetime.date(2024, 2, 1)], ("2024-02-01",)),
        (NOON.to_series(), ("2024-02-01", "2024-02-01 12:00:00")),
        (NOON.to_series().to_list(), ("2024-02-01", "2024-02-01 12:00:00")),
        (NOON.to_series().dt.tz_localize("UTC"), ("2024-02-01", "2024-02-01 12:00:00+00:00")),
    ],
)
def test_dates_are_labels_without_a_midnight_that_nobody_wrote(days, names):
    assert column(days).labels("x", order="value").names == names


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ([0.1 * 3, 0.3, 2.0, 2], ("0.3", "2")),
        (["0.30000000000000004", "0.3"], ("0.3",)),
        # Text stays as it is written unless it has more digits than a number.
        (["1.10", "1.1", "007", "12345678901234567", "1234567890123.x"], None),
        ([1e300, 2.0**60, -0.0, 0], ("1e+300", "1.152921504606847e+18", "0")),
        ([NOON[0], NOON[1], pd.Timestamp("2024-02-01")], ("2024-02-01 12:00:00", "2024-02-01")),
        ([True, "TRUE", 1], ("True", "TRUE", "1")),
    ],
)
@pytest.mark.parametrize("others", [[], [None], ["text"], [NOON[0] + pd.Timedelta("1s")]])
def test_the_text_of_a_cell_does_not_depend_on_other_cells(cells, names, others):
    expected = names or tuple(cells)
    texts = column([*others, *cells]).texts("x").tolist()[len(others) :]
    assert tuple(dict.fromkeys(texts)) == expected
    assert [column([cell]).texts("x")[0] for cell in cells] == texts


def test_levels_that_differ_by_rounding_are_one_level():
    found = column(pd.Series(pd.Categorical([0.1 * 3, 0.3, 0.2]))).numbers_or_factor("x")
    assert (list(found.categories), list(found)) == (["0.2", "0.3"], ["0.3", "0.3", "0.2"])


@pytest.mark.parametrize(
    "alike",
    [
        *(("1", "1.0"), ("TRUE", "True"), ("2024-01-01", "2024-01-01 00:00:00")),
        *(("a", "a "), ("a b", "a  b"), ("é", "e\u0301"), (" a", "a"), ("a\xa0b", "a b")),
        *(("a", "A"), ("rose", "Rose", "rose ")),
        ("aa",),  # differs visibly from the others
    ],
)
def test_labels_that_look_alike_are_noted_and_kept_apart(alike):
    table = column([alike[0], "other", "á", *alike[1:]], "plant")
    assert table.labels("plant").names == (alike[0], "other", "á", *alike[1:])
    named = f"{', '.join(map(repr, alike[:-1]))} and {alike[-1]!r}"
    expected = [f"the data frame: plant {named} look alike but are different labels"]
    assert [note.partition(";")[0] for note in table.notes] == expected[: len(alike) - 1]


def test_each_set_of_labels_that_look_alike_is_noted():
    table = column(["TRUE", "True", "b", "a", "A", " a"])
    table.labels("x")
    named = [note.partition(": x ")[2].partition(" look")[0] for note in table.notes]
    assert named == ["'TRUE' and 'True'", "'a', 'A' and ' a'"]


@pytest.mark.parametrize(
    "label", [None, np.nan, pd.NA, pd.NaT, "", "  ", "\t", "a\0", "\ud800"], ids=repr
)
def test_a_label_that_is_missing_or_that_no_file_can_keep(tmp_path, label):
    sentence = output(column(["b", label]).labels, "x")
    sentence.encode()
    assert sentence.startswith("the data frame, row 2: x is ")
    if isinstance(label, str) and label.strip():
        path = tmp_path / "t.json"
        path.write_text(json.dumps([{"x": label}]))
        assert "row 1: x is " in output(read_table(path).labels, "x")
    else:
        assert sentence.endswith(" is blank; give it a label")


# --- Numbers --------------------------------------------------------------------------------------

NOT_NUMBERS = [
    *(1 + 2j, np.complex64(1), True, np.bool_(False), [1], {"a": 1}, (1,), b"1", 10**400),
    *(pd.Timestamp("2024-01-01"), datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1)),
    *(np.datetime64("2024-01-01"), pd.Period("2024-01"), pd.Timedelta("1h")),
    *(datetime.timedelta(1), np.timedelta64(3, "h")),
]
OTHER_TYPES = [
    pd.to_datetime(pd.Series(["2024-01-01", "2024-01-02"])),
    pd.to_timedelta(pd.Series([1, 2], dtype="int64"), unit="h"),
    pd.Series([1 + 0j, 2 + 1j]),
]


@pytest.mark.parametrize(
    ("values", "row", "end"),
    [
        # pandas would convert some of them to floats.
        *(([1.5, value], 2, "not a finite number; correct it") for value in NOT_NUMBERS),
        *((series, 1, "not a finite number; make the column numeric") for series in OTHER_TYPES),
        *(
            ([present, missing], 2, "; fill it in")
            for present in (1.5, 2, "3", Decimal("4.5"))
            for missing in (None, np.nan, pd.NA, pd.NaT, "")
        ),
    ],
    ids=lambda value: repr(list(value) if isinstance(value, pd.Series) else value)[:40],
)
def test_what_is_no_number_is_refused(values, row, end):
    sentence = output(column(values).numbers, "x")
    assert sentence.startswith(f"the data frame, row {row}: x is ")
    assert sentence.endswith(end)


@pytest.mark.parametrize(
    "series",
    [
        *(pd.Series([1, 0, 3], dtype=kind) for kind in ("Int64", "float32", "uint8", "category")),
        pd.Series([1, 0, 3], dtype=pd.SparseDtype("int64", 0)),
        pd.Series([1.0, 0.0, 3.0], dtype="Sparse[float]"),
        pd.Series(["1", " 0", "3e0"]),
        pd.Series([Decimal(1), Decimal(0), Decimal(3)]),
        pd.Series([1, "0", 3.0], dtype=object),
    ],
    ids=lambda series: str(series.dtype),
)
def test_numbers_of_any_storage_are_taken(series):
    found = column(series).numbers("x")
    assert found.dtype == np.float64
    assert found.tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    "series",
    [
        *(pd.Series([True, False], dtype=kind) for kind in ("bool", "boolean", "category")),
        pd.Series(["TRUE", " False "]),
    ],
)
def test_true_and_false_are_one_and_zero_but_still_labels_of_a_factor(series):
    table = column(series)
    assert table.numbers("x").tolist() == [1, 0]
    assert table.is_factor("x")


def test_a_missing_value_among_true_and_false_is_named():
    sentence = output(column(pd.Series([True, None, False])).numbers, "x")
    assert sentence.startswith("the data frame, row 2: x is ")
    assert sentence.endswith("; fill it in")


@pytest.mark.parametrize(
    ("value", "checks", "message"),
    [
        (-2, {"whole": True, "lower": 0}, "x is -2, but counts cannot be negative"),
        (2.5, {"whole": True, "lower": 0}, "x is 2.5, but counts are whole numbers"),
        (2**31, {"whole": True, "lower": 0}, "x is 2147483648, but Stan's int cannot hold"),
        (
            1e300,
            {"whole": True},
            "x is 1e+300, but Stan's int cannot hold numbers beyond ±2147483647;",
        ),
        (0.5, {"lower": 1}, "x is 0.5, but must be at least 1;"),
        (0.25, {"lower": 0.5}, "x is 0.25, but must be at least 0.5;"),
    ],
)
def test_numbers_out_of_range(value, checks, message):
    assert f"row 2: {message}" in output(column([1, value]).numbers, "x", **checks)
    assert column([1, 2**31 - 1]).numbers("x", **checks).tolist() == [1, 2**31 - 1]


# --- Frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "column 'x' appears twice; rename one"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "column '1' appears twice; rename one"),
        (pd.DataFrame({"x": []}), "there are no rows below the header; add observations"),
        (pd.DataFrame(), "there are no rows below the header; add observations"),
    ],
)
def test_a_frame_that_is_no_table(frame, message):
    assert output(from_frame, frame) == f"the data frame: {message}"


def test_columns_are_found_by_name_and_rows_by_place():
    table = from_frame(pd.DataFrame({"x": [1, "two"], "y": [2, 3]}, index=[7, 7]))
    assert "the data frame, row 2: x is 'two'" in output(table.numbers, "x")
    assert table.only(("y",)).cells.keys() == {"y"}
    assert output(table.column, "z") == (
        "the data frame: there is no column 'z'; the columns are x, y"
    )
    table = from_frame(pd.DataFrame({" x": [1], "y ": [2], "plant height": [3]}))
    assert output(table.column, "x").endswith("the columns are ' x', 'y ', plant height")


# --- Digests --------------------------------------------------------------------------------------


def test_the_digest_tells_tables_apart():
    frame = pd.DataFrame({"plant": ["a", "b"], "month": [1, 1], "flowers": [1, 2]})
    changed = [frame.assign(flowers=[1, 3]), frame.assign(plant=["a", "c"]), frame.iloc[::-1]]
    assert len({read(f).sha256 for f in [frame, *changed]}) == 4
    # The digest covers the text of labels and the values of numbers.
    numbered = frame.assign(plant=["1", "2"])
    spelled = [numbered.assign(plant=plants) for plants in (["1.0", "2.0"], ["01", "02"])]
    assert len({read(f).sha256 for f in [numbered, *spelled]}) == 3
    assert read(numbered).sha256 == read(frame.assign(plant=[1, 2])).sha256
    assert read(frame.assign(flowers=["1.0", "2"])).sha256 == read(frame).sha256
    # A column that is not read is not part of the digest.
    assert read(frame.assign(gardener="x")).sha256 == read(frame).sha256


WRITABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.tuples(st.text(WRITABLE, min_size=1).filter(str.strip), st.integers(0, 30)),
        st.integers(0, 2**31 - 1),
        min_size=1,
    )
)
def test_any_table_survives_the_way_through_a_frame(cells):
    frame = pd.DataFrame([{"plant": p, "month": t, "flowers": v} for (p, t), v in cells.items()])
    back = to_frame(read(frame))
    assert back["plant"].tolist() == frame["plant"].tolist()
    assert back["month"].tolist() == frame["month"].astype(str).tolist()
    assert np.array_equal(back["flowers"], frame["flowers"])


def test_a_formula_hints_at_another_separator(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b\n1;2\n2;3\n")
    with pytest.raises(PyflowersError, match=r"there is no column 'a'; .* add --sep ';'"):
        Program.from_formula("b ~ a", path)


def test_none_is_a_label_among_labels_and_missing_among_numbers(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_text("bags,doors\nNone,2\nDriver,none\nNA,4\nnull,2\n,NaN\n")
    table = read_table(path)
    assert table.is_missing("bags").tolist() == [False, False, True, False, True]
    assert table.is_missing("doors").tolist() == [False, True, False, False, True]
    assert table.without_missing(["bags"], drop=True).labels("bags").names == (
        *("None", "Driver"),
        "null",
    )
    with pytest.raises(DataError, match=r"lack bags \(rows 4, 6; read as missing: 'NA'\)"):
        table.without_missing(["bags"], drop=False)
    levels = pd.Categorical(["NA", "EU", None], categories=["EU", "NA"])
    table = from_frame(pd.DataFrame({"region": levels}))
    assert table.is_missing("region").tolist() == [False, False, True]


QUOTED = [
    # Cells of numbers in quotes are text if other cells have none.
    ('"a","b","y"\n"1","x",3\n"10","y",4\n"2","z",5\n', {}, {"a": ("1", "10", "2")}),
    ('"a","b","y"\n"1","x",3\nNA,"y",4\n,"z",5\n"","z",5\n', {}, {"a": ("1",)}),
    ('\n\n"a",y\r\n"1",2\r\n\r\n"2",3', {}, {"a": ("1", "2")}),
    ('a,b,y\n"1","say ""hi"", you",2\n"3","x\ny",4\n', {}, {"a": ("1", "3")}),
    ('a;y\n"1,5";3\n"2,5";4\n', {"sep": ";", "decimal": ","}, {"a": ("1,5", "2,5")}),
    # Some programs quote every cell, and a decimal comma needs quotes.
    ('"a","y"\n"1","3"\n"2","4"\n', {}, {}),
    ('"a","y"\n"1",\n"2","4"\n', {}, {}),
    ('a,y\n"1,5",x\n"2,5",z\n', {"decimal": ","}, {}),
    ('a,y\n"1",2\n3,4\n', {}, {}),
    ('a,y\n"1",2\n"b",4\n', {}, {}),
    ('a\n"1"\n"2"\n', {}, {}),
]


@pytest.mark.parametrize(("text", "reading", "levels"), QUOTED, ids=range(len(QUOTED)))
def test_cells_in_quotes_are_text_if_others_are_not(text, reading, levels, tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_bytes(text.encode())
    table = read_table(path, **reading)
    assert table.levels == levels
    for name in levels:
        assert list(table.quoted) == [name]
        present = table.at(~table.is_missing(name))
        assert tuple(present.numbers_or_factor(name).categories) == levels[name]
        assert f"{name} is a factor, because its cells are in quotes" in str(present.notes)


def test_a_column_in_quotes_can_still_be_the_response(tmp_path):
    path = tmp_path / "quoted.csv"
    rows = "".join(f'"{i * i % 7}",{i},"{i % 3}"\n' for i in range(20))
    path.write_text('"y","x","f"\n' + rows)
    data = Program.from_formula("y ~ x + f", path).read(path)
    assert data.values["y"][:4].tolist() == [0, 1, 4, 2]
    assert data.coords["X"] == ("x", "f1", "f2")
    predicted = Program.from_formula("y ~ x + C(f)", path).read(path)
    np.testing.assert_array_equal(predicted.values["X"], data.values["X"])
