"""Tables in, labelled data out; each bad table is one sentence."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflowers.data import from_frame, read_data
from pyflowers.errors import DataError
from pyflowers.resources import flowers_csv

HEADER = "plant,month,flowers\n"


def test_the_lectures_data_are_those_of_the_lecture():
    data = read_data(flowers_csv())
    table = data.to_frame().pivot(index="plant", columns="month", values="flowers")
    assert table.to_numpy().tolist() == [[4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8]]


BAD_TABLES = [
    ("", "the file is empty; a header and one row are needed"),
    (HEADER, "there are no rows below the header"),
    ("plant,month\na,1\n", "there is no column 'flowers'; the columns are plant, month"),
    (HEADER + "a,1,4\na,2,\n", "row 3: flowers is blank"),
    (HEADER + "a,1,4\n,2,3\n", "row 3: plant is blank"),
    (HEADER + "a,  ,4\n", "row 2: month is blank"),
    (HEADER + "a,1,four\n", "row 2: flowers is 'four', not a finite number"),
    (HEADER + "a,1,NaN\n", "row 2: flowers is 'NaN', not a finite number"),
    (HEADER + "a,1,1\nb,1,inf\n", "row 3: flowers is 'inf', not a finite number"),
    (HEADER + "a,1,-Infinity\n", "row 2: flowers is '-Infinity', not a finite number"),
    (HEADER + "a,1,1_000\n", "row 2: flowers is '1_000', not a finite number"),
    (HEADER + "a,1,True\n", "row 2: flowers is 'True', not a finite number"),
    (HEADER + "a,1,4\nb,1,2\na,1,5\n", "row 4: plant 'a' already has month '1' in row 2"),
    (HEADER + "a,1,4,9\n", "cannot be read as CSV"),
    ("plant,month,flowers,flowers\na,1,4,5\n", "row 1: column 'flowers' stands twice"),
    (HEADER + "\n\na,1,x\n", "row 4: flowers is 'x'"),
]


@pytest.mark.parametrize(("text", "message"), BAD_TABLES)
def test_a_bad_table_is_one_sentence_with_file_row_and_column(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_data(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_data(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="cannot tell the format"):
        read_data(tmp_path / "absent.xlsx")
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + "é,1,4\n".encode("latin-1"))
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read_data(tmp_path / "latin.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_data(tmp_path / "folder.csv")
    (tmp_path / "object.json").write_text('{"plant": "a"}')
    with pytest.raises(DataError, match="list of records"):
        read_data(tmp_path / "object.json")
    (tmp_path / "broken.json").write_text("[{")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        read_data(tmp_path / "broken.json")


def test_labels_are_kept_as_written_and_in_order_of_appearance(tmp_path):
    path = tmp_path / "labels.csv"
    text = 'Größe,tag,n\n"Rose, rot",z,1\n007,a,2\nNA,z,3\n"O""Hara 🌼",z,4\n007,z,5\n'
    path.write_text(text, encoding="utf-8")
    data = read_data(path, group="Größe", time="tag", value="n")
    assert data.plants == ("Rose, rot", "007", "NA", 'O"Hara 🌼')
    assert data.months == ("z", "a")
    assert data.plant.tolist() == [0, 1, 2, 3, 1]
    assert data.columns == ("Größe", "tag", "n")


def test_every_format_gives_the_same_data(tmp_path):
    frame = pd.read_csv(flowers_csv(), dtype={"plant": str, "month": str})
    frame.to_csv(tmp_path / "f.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "f.parquet")
    (tmp_path / "f.json").write_text(json.dumps(frame.to_dict("records")))
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + flowers_csv().read_bytes())
    digests = {read_data(tmp_path / f).sha256 for f in ("f.tsv", "f.parquet", "f.json", "bom.csv")}
    assert digests == {read_data(flowers_csv()).sha256} == {from_frame(frame).sha256}


def test_the_digest_tells_tables_apart():
    frame = pd.DataFrame({"plant": ["a", "b"], "month": [1, 1], "flowers": [1, 2]})
    changed = [
        frame.assign(flowers=[1, 3]),
        frame.assign(plant=["a", "c"]),
        frame.iloc[::-1],
    ]
    assert len({from_frame(f).sha256 for f in [frame, *changed]}) == 4


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.tuples(st.text(min_size=1, max_size=6).filter(lambda s: s.strip()), st.integers(0, 30)),
        st.integers(0, 2**31 - 1),
        min_size=1,
    )
)
def test_any_table_survives_the_way_through_a_frame(cells):
    frame = pd.DataFrame([{"plant": p, "month": t, "flowers": v} for (p, t), v in cells.items()])
    back = from_frame(frame).to_frame()
    assert back["plant"].tolist() == frame["plant"].tolist()
    assert back["month"].tolist() == frame["month"].astype(str).tolist()
    assert np.array_equal(back["flowers"], frame["flowers"])
