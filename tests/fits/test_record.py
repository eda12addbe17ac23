"""``run.json``: its contents, and an error of one sentence for each kind of damage."""

import copy
import json
import shutil

import numpy as np
import pytest
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.errors import DataError
from pyflowers.fits.folder import FORMAT, RunRecord, plain_inits, read_record


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4), draws=50)
    return fit.save(tmp_path_factory.mktemp("record") / "run")


def test_a_record_comes_back_as_it_was(folder, lecture_fits):
    record = read_record(folder)
    assert record.format == FORMAT == 2
    text = (folder / "run.json").read_text(encoding="utf-8")
    assert record.to_json() == text
    for fit in lecture_fits.values():
        again = RunRecord.parse(json.loads(fit.record.to_json()), "here")
        assert again == fit.record
        about = fit.record
        assert about.program.reference == fit.name
        assert next(iter(about.program.files.values())) == fit.program.path.read_text()
        assert about.engine.name == "cmdstan"
        assert about.engine.versions["stan"] == "2.35.0"
        assert len(about.times.chains) == 4
        assert about.times.wall_seconds > 0
        assert {"numpy", "pyflowers"} <= set(about.packages)
        assert about.data.rows == 12


def edited(folder, path, value):
    """Return the text of a record with one key changed, or removed if `value` is ``...``."""
    values = json.loads((folder / "run.json").read_text())
    values["files"] = list(values["files"])  # without digests, as in an early version
    *sections, key = path.split(".")
    inner = values
    for section in sections:
        inner = inner[section]
    if value is ...:
        del inner[key]
    else:
        inner[key] = copy.deepcopy(value)
    return json.dumps(values)


DAMAGES = [
    ("format", ..., "format None, but this version of pyflowers reads format 2; refit the model"),
    ("format", 1, "has format 1, but this version of pyflowers reads format 2; refit the model"),
    ("format", "2", "has format '2', but this version of pyflowers reads format 2"),
    ("format", 3, "has format 3, but this version of pyflowers reads format 2"),
    ("program", ..., "the key program is missing; refit the model"),
    ("program", [], "program must be a"),
    ("program.name", 3, "program.name must be a string, got 3; refit the model"),
    ("program.reference", ..., "the key program.reference is missing"),
    ("program.declaration", None, "program.declaration must be a table"),
    ("program.declaration", {"data": 3}, "program.declaration: data must be a table, got 3"),
    ("program.declaration", {"zzz": 3}, "program.declaration: unknown key zzz"),
    ("program.files", {}, "program.files must name at least one"),
    ("program.files", {"a.stan": 3}, "program.files.a.stan must be a string"),
    ("data", None, "data must be a"),
    ("data.columns", [], "data.columns must be a table"),
    ("data.columns", {}, "the data cannot be read"),
    ("data.rows", "many", "data.rows must be a whole number"),
    ("engine", "cmdstan", "engine must be a"),
    ("engine.versions", {"stan": 2.35}, "engine.versions.stan must be a string"),
    ("options", ..., "the key options is missing"),
    ("options.seed", -1, "options.seed must be at least 0, got -1"),
    ("options.chains", True, "options.chains must be a whole number, got True"),
    ("options.zzz", 1, "unknown key options.zzz"),
    ("options", [[[[]]]], "options must be a"),
    ("priors", None, "priors must be a table"),
    ("priors.mu_sd", None, "priors.mu_sd must be a number, got None"),
    ("priors.mu_sd", float("nan"), "priors.mu_sd must be a finite number, got nan"),
    ("priors.mu_sd", "wide", "priors.mu_sd must be a number, got 'wide'"),
    ("centered", "x", "centered must be a boolean, got 'x'"),
    ("times", {}, "the key times.wall_seconds is missing"),
    ("messages", {"a": "b"}, "messages.a must be a whole number"),
    ("notes", 3, "notes must be a list, got 3"),
    ("packages", None, "packages must be a table"),
    ("zzz", 1, "unknown key zzz"),
]


NO_RECORD = "run.json cannot be read ("
TEXTS = [
    ("", NO_RECORD),
    ("{", NO_RECORD),
    (b"\xff\xfe\x00", NO_RECORD),
    ("[" * 100_000, NO_RECORD),
    ('{"format": ' + "1" * 5000 + "}", NO_RECORD),
    ("[]", "has format None, but this version of pyflowers reads format 2"),
    ("3", "has format None"),
    ("null", "has format None"),
    ("{}", "has format None"),
    ('{"format": 2}', "the key program is missing"),
]


def refusal(folder, target, text):
    """Return the message for the run with a different ``run.json``."""
    shutil.copytree(folder, target)
    (target / "run.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        pyflowers.Fit.load(target)
    output = str(caught.value)
    assert "\n" not in output
    assert output.startswith(str(target))
    return output


@pytest.mark.parametrize(("path", "value", "message"), DAMAGES)
def test_a_damaged_record_is_one_sentence(folder, tmp_path, path, value, message):
    output = refusal(folder, tmp_path / "run", edited(folder, path, value))
    assert message in output
    assert output.endswith("refit the model")


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=lambda text: str(text)[:12])
def test_what_is_no_record_is_one_sentence(folder, tmp_path, text, message):
    output = refusal(folder, tmp_path / "run", text)
    assert message in output
    assert len(output) < 600


def test_deep_nesting_in_a_record_is_one_sentence(folder, tmp_path):
    deep = edited(folder, "inits", "DEEP").replace('"DEEP"', "[" * 100_000 + "]" * 100_000)
    refusal(folder, tmp_path / "run", deep)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"is not a run folder, as it has no run\.json; name"):
        pyflowers.Fit.load(tmp_path)
    for name in ("absent", "a\0b", "x" * 300, "a\0b/c"):
        with pytest.raises(DataError, match=r"there is no folder .*; name a folder that pyflowers"):
            pyflowers.Fit.load(tmp_path / name)


def test_a_misspelt_folder_is_answered_by_the_run_that_is_meant(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "runs" / "wheat")
    (tmp_path / "runs" / "whete").mkdir()
    with pytest.raises(DataError, match=r"there is no folder .*whet; did you mean .*runs/wheat\?"):
        pyflowers.Fit.load(tmp_path / "runs" / "whet")
    with pytest.raises(DataError, match=r"whete is not a run folder.*did you mean .*runs/wheat\?"):
        pyflowers.Fit.load(tmp_path / "runs" / "whete")


@pytest.mark.parametrize(
    ("inits", "plain"),
    [
        (None, None),
        (2, 2),
        (0.5, 0.5),
        ({"a": np.arange(2), "b": np.float64(1)}, {"a": [0, 1], "b": 1.0}),
        ([{"a": 1}, {"a": np.array(2)}], [{"a": 1}, {"a": 2}]),
        ("inits.json", "inits.json"),
    ],
)
def test_initial_values_as_json_has_them(inits, plain):
    assert plain_inits(inits) == plain
    json.dumps(plain_inits(inits))
