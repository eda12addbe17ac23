"""Every command prints valid JSON with --json, and nothing with --quiet; its status is the same."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.cli.main import COMMANDS, cli, main
from pyflowers.display import records_of
from pyflowers.workflow import doctor

STRANGE = ["\x7f\x9b2J", "\u202e\"'\\", "nan"]
"""Labels that JSON, a terminal or a reader of tables could mistake for something else."""

QUICK = ("--engine", "stanli", "--warmup", "50", "--draws", "20", "--seed", "1", "--plots", "none")
EXACT = ("--engine", "exact", "--seed", "1")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a run that passes, one that fails and a table."""
    folder = tmp_path_factory.mktemp("project")
    data = table(["rose", "tulip", *STRANGE], 6)
    synthetic_fit("multilevel_poisson", data).save(folder / "run")

    def constant(draws, stats):
        draws["mu"][...] = 1e-20
        stats["energy__"][...] = 1.0

    synthetic_fit("multilevel_poisson", data, change=constant).save(folder / "bad")
    rows = [f"{plant},{month},{month}" for plant in "ab" for month in (1, 2, 3)]
    (folder / "few.csv").write_text("plant,month,flowers\n" + "\n".join(rows) + "\n")
    how = {"chains": 1, "warmup": 100, "draws": 50, "seed": 1, "engine": "stanli"}
    few = folder / "few.csv"
    pyflowers.fit("flowers ~ month", few, family="poisson", **how).save(folder / "formula")
    return folder


WORDS = {
    "models": ("models",),
    "model": ("models", "iid_normal"),
    "new": ("new", "OUT/mine", "--from", "iid_normal"),
    "new declaration": ("new", "OUT/own.stan", "--data", "few.csv"),
    "prior": ("prior", "multilevel_poisson", *EXACT[2:], "--engine", "stanli", "--draws", "50"),
    "fit": ("fit", "iid_normal", *QUICK, "--check", "--out", "OUT/r"),
    "fit --config": ("fit", "--config", "OUT/e.toml", "--plots", "none", *QUICK[:2], "--check"),
    "sensitivity": ("sensitivity", "run"),
    "vb": ("vb", "iid_normal"),
    "compare": ("compare", "iid_normal", *EXACT, "--out", "OUT/c"),
    "check": ("check", "bad"),
    "predict": ("predict", "run"),
    "predict --new": ("predict", "formula", "--new", "few.csv"),
    "effects": ("effects", "formula", "--slopes"),
    "contrast": ("contrast", "run", "mu_plant[nan]", "mu > 0"),
    "loo": ("loo", "run", "--no-refit"),
    "table": ("table", "run", "formula", "--inline"),
    "improve": ("improve", "formula", "--out", "OUT/i"),
    "report": ("report", "run", "--out", "OUT/r.html"),
    "lecture": ("lecture", "markov-chain", "--quick", "--out", "OUT/l"),
    "lectures": ("lecture", "--list"),
    "doctor": ("doctor",),
    "repair": ("doctor", "--repair", "OUT"),
    "error": ("check", "OUT"),
}
OWN = "data { int N; array[N] int flowers; } parameters { real m; } model { m ~ normal(0, 1); }"
CONFIG = "models = ['iid_normal']\n[sampler]\nseed = 1\nwarmup = 50\ndraws = 20\n"


@pytest.fixture
def run(project, tmp_path, monkeypatch, capsys):
    """Run the command line as a shell does; return what it printed and its status."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("fit", "none", False)])

    def command(*words):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        (tmp_path / "own.stan").write_text(OWN)
        (tmp_path / "e.toml").write_text(CONFIG)
        with pytest.raises(SystemExit) as ended:
            main([word.replace("OUT", str(tmp_path)) for word in words])
        printed = capsys.readouterr()
        return printed.out, printed.err, ended.value.code

    return command


SLOW = ("compare", "lecture", "report")
NAMES = [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in WORDS]


@pytest.mark.parametrize("name", NAMES)
def test_json_is_alone_and_quiet_prints_nothing(run, name):
    words = WORDS.get(name, name)
    text, _, status = run(*words)
    record, _, json_status = run(*words, "--json")
    silent, errors, quiet_status = run(*words, "--quiet")
    assert json_status == quiet_status == status
    assert silent == ""
    if status == 1 and name == "error":
        assert text == record == ""
        assert len(errors.splitlines()) == 1
        return
    assert text
    assert not errors
    values = json.loads(record, parse_constant=pytest.fail)
    assert values
    assert record.isascii()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", record)


def test_every_command_is_in_the_table_or_cannot_be_run_here():
    tested = {words[0] for words in WORDS.values()}
    assert set(COMMANDS) - tested == {"setup", "compile", "batch", "sbc", "design", "replay"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_both_options(name):
    shown = CliRunner().invoke(cli, [name, "--help"]).stdout
    assert len(re.findall(r"^ +--json ", shown, re.MULTILINE)) == 1
    assert len(re.findall(r"^ +--quiet ", shown, re.MULTILINE)) == 1


def test_the_record_of_a_fit(run, tmp_path):
    printed, _, status = run(*WORDS["fit"], "--json")
    record = json.loads(printed)
    assert status == 3  # twenty draws cannot pass
    assert record["run"] == str(tmp_path / "r")
    assert (record["program"], record["seed"], record["engine"]) == ("iid_normal", 1, "stanli")
    rows = {row["parameter"]: row for row in record["summary"]}
    assert rows["mu"]["5%"] < rows["mu"]["median"] < rows["mu"]["95%"]
    assert record["verdict"]["computation"]["status"] == "failed"
    experiment = json.loads(run(*WORDS["fit --config"], "--json")[0])
    assert [model["program"] for model in experiment["models"]] == ["iid_normal"]
    assert experiment["models"][0]["refitted"] == ["there is no run yet"]


def test_strange_labels_and_numbers_come_back(run):
    values = json.loads(run("predict", "run", "--json")[0])
    names = {row["value"] for row in values["predictions"]}
    assert {f"y_new[{label}]" for label in STRANGE} <= names
    numbers = pd.DataFrame({"x": [np.nan, np.inf, 1e-20, 0.25]}, index=["a", "b", "c", "d"])
    assert [row["x"] for row in records_of(numbers)] == [None, None, 1e-20, 0.25]


def test_json_is_printed_where_both_are_asked_for(run):
    printed, errors, _ = run("vb", "--quiet", "--json")
    assert json.loads(printed)["program"] == "semiconjugate_normal"
    assert not errors


@pytest.mark.slow
def test_commands_that_take_longer(run, project, executables):
    program = next(path for path in executables if path.stem == "simulate")
    fit = ("fit", "iid_normal", *QUICK, "--out", str(project / "again"))
    assert run(*fit)[2] == 0
    for words in (
        ("compile", str(program), "--cmdstan", "embedded"),
        ("replay", "again"),
        ("sbc", "iid_normal", "--sims", "20", *EXACT, "--draws", "400", "--out", "OUT/s"),
        ("setup",),
    ):
        test_json_is_alone_and_quiet_prints_nothing(run, words)
