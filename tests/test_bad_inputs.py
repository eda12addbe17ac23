"""Every bad input is one sentence, exit status 1 or 2, and nothing is written."""

import contextlib
import io
import json
import shutil

import pytest
from bad_calls import calls
from bad_inputs import RUN, cases, records, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_fits import synthetic_fit, table

from pyflowers.cli.main import main
from pyflowers.errors import PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.programs import find_program


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A whole run, to be damaged in copies."""
    fit = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 4), draws=20)
    return fit.save(tmp_path_factory.mktemp("whole") / "run")


def prepare(case, folder, run):
    """Write a case's files."""
    if RUN in case.files:
        shutil.copytree(run, folder / "run")
    for name, content in case.files.items():
        if name != RUN:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name).write_bytes(data)


def end_of(words):
    """Run a command line here; return its exit status and what it says on the standard error."""
    output = io.StringIO()
    with (
        contextlib.redirect_stderr(output),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(words))
    return ended.value.code, output.getvalue()


def complaint(status, output):
    """Return what is wrong with how a command ended; nothing if it is as it must be."""
    lines = [line for line in output.splitlines() if line.strip()]
    if status not in (1, 2):
        return f"exit status {status}"
    if "bug in pyflowers" in output or "Traceback" in output:
        return "a defect"
    if status == 2:
        return "" if lines[-1].startswith("Error: ") else "no usage error"
    errors = [line for line in lines if line.startswith("error: ")]
    if len(errors) != 1:
        return f"{len(errors)} errors"
    # A compiler's words follow the sentence that announces them.
    if lines[-1] != errors[0] and not errors[0].endswith("does not compile:"):
        return "more than one sentence"
    return "" if len(errors[0].split()) > 4 else "no words"


def marked(cases, every):
    """Return cases for pytest, all slow but each `every`-th, with names that any terminal shows."""
    return [
        pytest.param(
            case,
            marks=[] if i % every == 0 else pytest.mark.slow,
            id=f"{i} {case.name.encode('ascii', 'replace').decode()}",
        )
        for i, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", marked(cases(), every=20))
def test_a_bad_input_is_one_sentence_and_nothing_is_written(
    case, run_folder, tmp_path, monkeypatch
):
    prepare(case, tmp_path, run_folder)
    before = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    status, output = end_of(case.words)
    if case.may_succeed and status in (0, 3):
        return
    assert complaint(status, output) == "", output
    assert written(tmp_path) == before


CELLS = st.one_of(
    st.sampled_from(["1", "a", "", " ", "-1", "nan", "1e400", '"', ",", "\n", "\0", "\u2028", "é"]),
    st.text(max_size=6),
)


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


def failing(some_calls):
    """Make calls; return those that end in anything but one sentence of ours."""
    wrong = {}
    for name, call in some_calls:
        try:
            call()
            wrong[name] = "nothing is said"
        except PyflowersError as error:
            if "\n" in str(error) and "does not compile:" not in str(error):
                wrong[name] = str(error)
        except Exception as error:
            wrong[name] = repr(error)
    return wrong


def test_a_bad_call_is_an_exception_of_ours(run_folder, tmp_path):
    every = list(calls(tmp_path, Fit.load(run_folder)))
    before = written(tmp_path)
    assert failing(every) == {}
    assert written(tmp_path) == before


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_a_record_with_any_value_changed_loads_or_is_one_sentence(run_folder, tmp_path, every):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    whole = json.loads((folder / "run.json").read_text())
    refused = 0
    for name, record in list(records(whole))[::every]:
        (folder / "run.json").write_text(json.dumps(record))
        output = ""
        try:
            Fit.load(folder)
        except PyflowersError as error:
            output = str(error)
            refused += 1
        assert "\n" not in output, name
    assert refused > 1000 / every
