"""Every bad input in the table gives one sentence and exit status 1 or 2; nothing is written."""

import contextlib
import copy
import io
import json
import random
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from bad_calls import calls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_fits import synthetic_fit, table

from pyflowers.cli.main import main
from pyflowers.errors import PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.programs import find_program

TABLE = tomllib.loads(Path(__file__).with_name("bad_inputs.toml").read_text(encoding="utf-8"))
TEXTS = TABLE["texts"] | {
    "LONG": "x" * 5000,
    "DIGITS": "9" * 400,
    "MANY DIGITS": "9" * 9000,
    "DEEP": "[" * 100_000,
    "BRACES": "{" * 5000 + "}" * 5000,
    "NESTED": '{"a":' * 5000 + "1" + "}" * 5000,
    "COLUMNS": ",".join(map(str, range(5_000))),
    "SURROGATE": "\udcff",
}


def expanded(text):
    """Replace names in angle brackets with their texts."""
    while found := re.search(f"<({'|'.join(TEXTS)})>", text):
        text = text.replace(found[0], TEXTS[found[1]])
    return text


def cases(group):
    """Yield the name, the words and the files of each case of a group."""
    inputs = group["inputs"]
    named = inputs if isinstance(inputs, dict) else {text: text for text in inputs}
    for line in group["words"]:
        for name, text in named.items():
            case = line.replace("INPUT", shlex.quote(text)) if "INPUT" in line else f"{line} {name}"
            if case in group.get("fine", ()):
                continue
            put = expanded(text)
            words = [word.replace("INPUT", put) for word in shlex.split(expanded(line))]
            files = {
                file.replace("INPUT", put): expanded(content).replace("INPUT", put)
                for file, content in group.get("files", {}).items()
            }
            yield case, words, files


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """An intact run, copies of which are damaged."""
    fit = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 4), draws=20)
    return fit.save(tmp_path_factory.mktemp("whole") / "run")


def written(folder):
    """Return the contents of a folder, for a comparison with its later contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def end_of(words):
    """Run a command line here; return its exit status and its standard error."""
    output = io.StringIO()
    with (
        contextlib.redirect_stderr(output),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(words))
    return ended.value.code, output.getvalue()


def complaint(status, output):
    """Return what is wrong with the end of a command; empty if nothing is wrong."""
    lines = [line for line in output.splitlines() if line.strip()]
    if status not in (1, 2):
        return f"exit status {status}"
    if "bug in pyflowers" in output or "Traceback" in output:
        return "a defect"
    errors = [line for line in lines if line.startswith("error: ")]
    if len(errors) != 1:
        return f"{len(errors)} errors"
    # The message of the compiler follows the sentence that announces it.
    if lines[-1] != errors[0] and not errors[0].endswith("does not compile:"):
        return "more than one sentence"
    return "" if len(errors[0].split()) > 4 else "no words"


def judged(words, files, folder, *, may_succeed=False, says="", encoding="utf-8"):
    """Run a command line in a folder with files; return what is wrong with its end, if anything."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode(encoding)
        (folder / name).write_bytes(data)
    before = written(folder)
    with contextlib.chdir(folder):
        status, output = end_of(words)
    if may_succeed and status in (0, 3):
        return ""
    if written(folder) != before:
        return "something was written"
    wrong = complaint(status, output)
    wrong = wrong or ("" if re.search(says, output) else f"not {says}")
    return f"{wrong}: {output[-500:]}" if wrong else ""


@pytest.mark.parametrize("group", TABLE["group"], ids=lambda group: group["name"])
def test_a_bad_input_is_one_sentence_and_nothing_is_written(group, run_folder, tmp_path):
    how = {key: group[key] for key in ("may_succeed", "says", "encoding") if key in group}
    wrong, says = {}, how.get("says")
    for number, (name, words, files) in enumerate(cases(group)):
        folder = tmp_path / str(number)
        folder.mkdir()
        if "run" in words:
            shutil.copytree(run_folder, folder / "run")
        if isinstance(says, list):
            how["says"] = says[number]
        wrong[name] = judged(words, files, folder, **how)
        shutil.rmtree(folder)
    assert {name: said for name, said in wrong.items() if said} == {}


def words_of(name):
    return shlex.split(expanded(name))


FRAME = pd.read_csv(io.StringIO(expanded("<FLOWERS>")))
COLUMNS = {
    "no rows": FRAME.iloc[:0],
    "no columns": FRAME[[]],
    "dates": FRAME.assign(flowers=pd.Timestamp("2024-01-01")),
    "lists": FRAME.assign(flowers=[[1]] * len(FRAME)),
    "bytes": FRAME.assign(flowers=b"4"),
    "missing": FRAME.assign(flowers=[None] * len(FRAME)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_parquet_table_of_odd_values(name, tmp_path):
    buffer = io.BytesIO()
    COLUMNS[name].to_parquet(buffer)
    files = {"t.parquet": buffer.getvalue()}
    assert judged(words_of("<FIT> --data t.parquet"), files, tmp_path) == ""


@pytest.mark.parametrize(
    ("words", "file", "num", "alphabet"),
    [
        ("<POISSON>", "t.csv", 40, bytes(range(256))),
        ("<FIT> --data t.parquet", "t.parquet", 10, bytes(range(256))),
        ("<OWN> d.csv", "p.stan", 20, b"{}();~[]<>=0x\0\xe9"),
    ],
)
def test_changed_bytes_anywhere_in_a_file(words, file, num, alphabet, tmp_path):
    rng = random.Random(1)
    parquet = io.BytesIO()
    FRAME.to_parquet(parquet)
    files = {
        "t.csv": expanded("<FLOWERS>").encode(),
        "t.parquet": parquet.getvalue(),
        "p.stan": expanded("<STAN>").encode(),
        "p.toml": expanded("<DECLARATION>").encode(),
        "d.csv": b"y\n1\n2\n3\n",
    }
    for number in range(num):
        changed = bytearray(files[file])
        for _ in range(rng.randint(1, 5)):
            changed[rng.randrange(len(changed))] = rng.choice(alphabet)
        folder = tmp_path / str(number)
        folder.mkdir()
        damaged = {**files, file: bytes(changed)}
        assert judged(words_of(words), damaged, folder, may_succeed=True) == "", bytes(changed)


CELLS = st.one_of(
    st.sampled_from(["1", "a", "", " ", "-1", "nan", "1e400", '"', ",", "\n", "\0", "\u2028", "é"]),
    st.text(max_size=6),
)


@pytest.mark.quick
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.lists(st.lists(CELLS, max_size=4).map(",".join), max_size=6).map(
            lambda rows: "\n".join(["plant,month,flowers", *rows]).encode("utf-8", "replace")
        ),
    ),
    ending=st.sampled_from(["csv", "tsv", "csv.gz", "json", "parquet", "xlsx"]),
)
def test_any_bytes_are_a_table_or_one_sentence(content, ending, tmp_path):
    file = tmp_path / f"t.{ending}"
    file.write_bytes(content)
    program = find_program("multilevel_poisson")
    output = ""
    try:
        program.fill(program.read(file), program.resolve_priors())
    except PyflowersError as error:
        output = str(error)
    assert "\n" not in output


def test_a_bad_call_is_an_exception_of_ours(run_folder, tmp_path):
    every = list(calls(tmp_path, Fit.load(run_folder)))
    before = written(tmp_path)
    wrong = {}
    for name, call in every:
        try:
            call()
            wrong[name] = "no error"
        except PyflowersError as error:
            if "\n" in str(error) and "does not compile:" not in str(error):
                wrong[name] = str(error)
        except Exception as error:
            wrong[name] = repr(error)
    assert wrong == {}
    assert written(tmp_path) == before


ODD = (None, [], {}, "x", True, -1, 1.5, [[1]], float("nan"), 10**400)


def places(values, above=()):
    """Yield the path to each value of a record; for a list, to its first value."""
    for key, value in values.items() if isinstance(values, dict) else enumerate(values[:1]):
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def changes(whole):
    """Yield a record with each value removed, or changed to each of several odd values."""
    for *above, key in places(whole):
        for value in (..., *ODD):
            changed = copy.deepcopy(whole)
            inner = changed
            for part in above:
                inner = inner[part]
            if value is ...:
                del inner[key]
            else:
                inner[key] = value
            yield changed


@pytest.mark.quick
@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_a_record_with_any_value_changed_loads_or_is_one_sentence(run_folder, tmp_path, every):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    whole = json.loads((folder / "run.json").read_text())
    whole["files"] = list(whole["files"])  # without digests, which would refuse any change
    refused = 0
    for record in list(changes(whole))[::every]:
        (folder / "run.json").write_text(json.dumps(record))
        output = ""
        try:
            Fit.load(folder)
        except PyflowersError as error:
            output = str(error)
            refused += 1
        assert "\n" not in output, record
    assert refused > 1000 / every
