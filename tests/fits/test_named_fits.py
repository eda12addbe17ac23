"""A fit is called by the name that it is given, else by its formula, and never by a slug."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import pyflowers
from pyflowers import ConfigError, plots
from pyflowers.cli.main import cli
from pyflowers.programs import Capability
from pyflowers.workflow.config import Experiment, read_config

FORMULA = "weight ~ age + (1 | rat)"
SLUG = "weight_age"
HOW = {"engine": "exact", "seed": 1, "chains": 2, "draws": 250}
WORDS = ("--data", "example:rats", "--engine", "exact", "--seed", 1, "--chains", 2, "--draws", 250)


def output(*words):
    """Return what a command prints."""
    return CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False).output


@pytest.fixture(scope="module")
def fit():
    """A fit without a name of its own."""
    return pyflowers.fit(FORMULA, "example:rats", **HOW)


@pytest.fixture(scope="module")
def growth():
    """A fit with a name of its own."""
    return pyflowers.fit(FORMULA, "example:rats", name="Growth of rats", **HOW)


def test_results_are_headed_by_the_name_and_the_formula(growth):
    lines = str(growth).splitlines()
    assert lines[:2] == ["Name:    Growth of rats", f"Formula: {FORMULA}"]
    assert repr(growth).startswith("<pyflowers.Fit of Growth of rats: ")
    head = f"Growth of rats  {FORMULA}  gaussian"
    for found in (growth.check(), growth.effects("age"), growth.predict(), growth.sensitivity()):
        assert str(found).splitlines()[0] == head
    for record in (growth.to_dict(), growth.identity()):
        assert record["name"] == "Growth of rats"
        assert record["program"].startswith(SLUG)


def test_the_name_is_in_the_run_and_not_in_its_key(fit, growth, tmp_path):
    assert growth.record.key.digest() == fit.record.key.digest()
    folder = growth.save(tmp_path / "run")
    assert pyflowers.Fit.load(folder).called == "Growth of rats"
    again = {**HOW, "out": folder}
    assert pyflowers.fit(FORMULA, "example:rats", **again).called == "Growth of rats"
    renamed = pyflowers.fit(FORMULA, "example:rats", name="Rats", **again)
    assert renamed.called == "Rats"
    assert renamed.record.key.digest() == fit.record.key.digest()


def test_the_command_names_the_run_folder_and_what_it_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("fit", FORMULA, *WORDS, "--plots", "none")
    assert "Name:    growth" in output(*words, "--name", "growth")
    folder = Path("runs/growth")
    assert json.loads((folder / "run.json").read_text())["name"] == "growth"
    assert output("check", folder).startswith("growth  ")
    assert "growth: not refitted" in output(*words, "--name", "growth")
    shown = output(*words, "--name", "curve", "--out", folder)  # another name is no other fit
    assert "curve: not refitted" in shown
    assert pyflowers.Fit.load(folder).called == "curve"
    assert sorted(each.name for each in Path("runs").iterdir()) == ["growth"]


@pytest.mark.parametrize("name", ["", "a/b", "..", 51 * "x"])
def test_a_name_that_cannot_be_used_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["fit", "iid_normal", "--engine", "exact", "--name", name])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("name: ")
    assert not Path("runs").exists()


def test_fits_of_one_program_share_a_table_under_their_names(fit, growth):
    narrow = fit.update(priors={"b[age]": "normal(6, 0.1)"}, name="narrow")
    with pytest.raises(ConfigError, match=r"two fits have the name weight ~ age .* its own name$"):
        pyflowers.loo([fit, fit])
    found = pyflowers.loo([growth, narrow])
    assert set(found.table().index) == {"Growth of rats", "narrow"}
    assert "Growth of rats: weight ~ age + (1 | rat) (gaussian)" in str(found)
    assert "Growth of rats" in plots.alt_text(plots.elpd_differences(found))
    shares = pyflowers.explained([growth, narrow]).table()
    assert {"Growth of rats", "narrow"} == {label[0] for label in shares.index}


def test_another_fit_does_not_inherit_the_name(growth):
    changed = growth.update(priors={"b[age]": "normal(6, 0.1)"})
    assert changed.record.name == ""
    assert growth.with_name(None) is growth
    assert growth.with_name("rats").called == "rats"
    with pytest.raises(ConfigError, match="name: it is empty"):
        growth.with_name(" ")


def test_a_task_of_a_batch_has_the_name_of_its_question():
    spec = pyflowers.Spec("iid_normal", name="flowers")
    assert pyflowers.Task(spec).name == "flowers"
    assert pyflowers.Task(spec, name="first").name == "first"


def test_an_experiment_of_one_model_may_have_a_name(growth, tmp_path):
    folder = growth.save(tmp_path / "run")
    assert read_config(folder / "run.json").specs()[0].name == "Growth of rats"
    values = {"models": ["iid_normal", "multilevel_normal"], "name": "both"}
    with pytest.raises(ConfigError, match=r"^name: one name cannot stand for 2 models; leave it"):
        Experiment.parse(values, "")


DRAWN = [
    plots.pairs,
    plots.ranks,
    plots.trace,
    plots.trace_first_chain,
    plots.forest,
    lambda fit: plots.group_intervals(fit.check()),
    lambda fit: plots.group_lines(fit, "age"),
    plots.predictive,
    plots.density_overlay,
    plots.prior_posterior,
    lambda fit: plots.conditional_effects(fit, "age"),
    lambda fit: plots.effects(fit.effects("age")),
    lambda fit: plots.predictive_checks(fit.check()),
    lambda fit: plots.pit_ecdf(fit.check()),
    lambda fit: plots.predictions(fit.predict(grid="age = 8:36:14")),
    lambda fit: plots.power_scaling(fit.sensitivity()),
]


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWN)
def test_figures_name_the_formula_or_the_name(draw, fit, growth):
    assert SLUG not in plots.alt_text(draw(fit))
    assert SLUG not in plots.alt_text(draw(growth))


def test_messages_name_the_formula(fit):
    with pytest.raises(ConfigError) as raised:
        pyflowers.fit(FORMULA, "example:rats", group="rat", **HOW)
    assert SLUG not in str(raised.value)
    with pytest.raises(ConfigError) as raised:
        fit.program.require(Capability.VB)
    assert str(raised.value).startswith(FORMULA)


@pytest.mark.slow
def test_a_calibration_names_the_formula_and_its_family(fit, tmp_path):
    table = pyflowers.example("rats").head(25)
    how = {**HOW, "sims": 3, "workers": 1, "priors": {"b[age]": "normal(6, 1)"}}
    found = pyflowers.sbc(FORMULA, table, out=tmp_path / "sbc", **how)
    called = f"{FORMULA} (gaussian)"
    assert str(found).startswith(f"{called}  3 fits")
    again = pyflowers.Calibration.load(tmp_path / "sbc")
    assert again.called == called
    assert f"Ranks of the true values of {called}" in plots.alt_text(plots.calibration(again))
    named = replace(again, called="Growth of rats")
    assert str(named).startswith("Growth of rats  3 fits")
