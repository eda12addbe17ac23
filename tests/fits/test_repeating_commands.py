"""The command that reproduces a fit, or that follows the advice on it."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run, unwrapped

import pyflowers
from pyflowers.advice import Advice
from pyflowers.fits.commands import changed_inputs, command_of, python_call, shell_words, shown_path
from pyflowers.fits.fit import Fit
from pyflowers.fits.verdict import Check, Part, Verdict
from pyflowers.reports.material import Material
from pyflowers.reports.provenance import reproduction

pytestmark = pytest.mark.usefixtures("in_a_shell")

FAST = {"engine": "stanli", "chains": 2, "warmup": 300, "draws": 300}
SLEEP = Path(__file__).parents[1] / "programs" / "formulas" / "data" / "sleepstudy.csv"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counts():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=60), "my g": np.repeat(list("abcdef"), 10)})
    return frame.assign(y=rng.poisson(np.exp(1 + 0.3 * frame.x)))


@pytest.fixture(scope="module")
def of_file(tmp_path_factory):
    """A fit with inputs that are not the defaults, loaded from a run folder."""
    folder = tmp_path_factory.mktemp("here")
    counts().to_csv(folder / "it's.csv", index=False, sep=";")
    fit = pyflowers.fit(
        "y ~ x + (1 | `my g`)",
        folder / "it's.csv",
        family="poisson",
        seed=0,
        sep=";",
        drop_missing=True,
        priors={"b_scale[x]": 0.5},
        centered={"my g": True},
        inits=0.1,
        interval=0.95,
        **FAST,
    )
    fit.save(folder / "run")
    return Fit.load(folder / "run")


def test_the_command_repeats_a_fit_with_every_input(of_file, here):
    command = shlex.split(command_of(of_file, Advice("again", "fit")))
    out = Path(command[command.index("--out") + 1])
    assert out == of_file.folder.with_name("run-2")
    assert run(*command[1:], "--plots", "none") == 0
    again = Fit.load(out)
    for name, draws in of_file.draws.items():
        np.testing.assert_array_equal(draws, again.draws[name])
    assert again.interval == of_file.interval
    # The folder of the next command is free, too.
    assert "run-3" in command_of(of_file, Advice("again", "fit"))


def test_another_command_writes_another_folder(of_file):
    given = []
    for change in ({"family": "negbinomial"}, {"program": "y ~ x"}, {"family": "negbinomial"}):
        given.append(of_file.advised(Advice("refit", **change), given).command)
    assert given[0] == given[2] != given[1]
    outs = [Path(shlex.split(each)[-1]) for each in given]
    first = of_file.folder.with_name(f"run-{2 + of_file.folder.with_name('run-2').exists()}")
    assert outs[0] == first
    assert outs[1] == first.with_name(f"run-{int(first.name[-1]) + 1}")


def test_commands_of_one_check_write_folders_of_their_own(here):
    rng = np.random.default_rng(1)
    drift = 20 + rng.normal(size=60).cumsum()
    pd.DataFrame({"y": np.r_[np.exp(rng.normal(size=60)), drift]}).to_csv("drift.csv", index=False)
    pyflowers.fit("y ~ 1", "drift.csv", seed=1, **FAST).save("run")
    checks = Fit.load("run").check().checks
    commands = dict.fromkeys(check.judged.command for check in checks if check.judged.command)
    outs = [shlex.split(command)[-1] for command in commands]
    assert outs == ["run-2", "run-3"]


def test_a_call_in_python_repeats_a_fit_of_a_file(of_file):
    call = command_of(replace(of_file, folder=None), Advice("again", "fit"))
    again = eval(call, {"pyflowers": pyflowers})
    assert isinstance(again, Fit)
    for name, draws in of_file.draws.items():
        np.testing.assert_array_equal(draws, again.draws[name])


def test_advice_changes_only_its_own_inputs(of_file):
    before = changed_inputs(of_file, {})
    change = {"adapt_delta": 0.99, "priors": {"b_scale[x]": None, "sd_my_g_scale": 2.0}}
    after = changed_inputs(of_file, change)
    assert after["adapt_delta"] == 0.99
    assert after["priors"] == {"sd_my_g_scale": 2.0}
    both = before.keys() - {"priors"}
    assert {name: after[name] for name in both} == {name: before[name] for name in both}
    # A hyperparameter that another formula does not have is left out.
    assert "priors" not in changed_inputs(of_file, {"program": "y ~ bs(x, df=4) + (1 | `my g`)"})


def test_data_from_python_have_a_call_in_python(here):
    fit = pyflowers.fit("y ~ x", counts(), family="poisson", seed=2, **FAST)
    advice = Advice("refit", program="y ~ x + (1 | `my g`)", family="negbinomial")
    expected = (
        'pyflowers.fit("y ~ x + (1 | `my g`)", data, family="negbinomial", seed=2, chains=2, '
        'warmup=300, draws=300, engine="stanli")'
    )
    assert command_of(fit, advice) == expected
    loaded = Fit.load(fit.save("run"))
    assert command_of(loaded, advice) == expected
    assert command_of(fit, Advice("edit", "new")) == (
        'pyflowers.Program.from_formula("y ~ x", data, family="poisson").write("y_x_poisson.stan")'
    )
    assert command_of(fit, Advice("see", "sensitivity")) == "pyflowers.sensitivity(fit)"
    assert command_of(fit, Advice("look at the rows")) == ""


def test_a_formula_replaces_a_shipped_model():
    fit = pyflowers.fit("multilevel_poisson", engine="exact", seed=1, priors={"mu_sd": 1})
    fit = replace(fit, folder=Path("runs/flowers"))
    advice = Advice("refit", program="flowers ~ 1 + (1 | plant)", family="negbinomial")
    words = shlex.split(command_of(fit, advice, shown_path))
    assert words[:5] == ["pyflowers", "fit", advice.change["program"], "--data", "data/flowers.csv"]
    assert words[5:] == ["--seed", "1", "--family", "negbinomial", "--out", "runs/flowers-2"]
    copy = command_of(fit, Advice("edit", "new"))
    assert copy == "pyflowers new my_multilevel_poisson --from multilevel_poisson"


def test_options_and_arguments_have_their_own_names():
    inputs = {
        "program": "y ~ x",
        "columns": {"y": "my y"},
        "default_priors": "brms",
        "priors": {"b_scale[x]": 0.1},
        "drop_missing": True,
        "centered": {"g": "yes"},
    }
    assert shell_words(inputs) == [
        *("--column", "y=my y", "--priors", "brms", "--prior", "b_scale[x]=0.1"),
        *("--drop-missing", "--centered", "g=yes"),
    ]
    assert python_call(inputs) == (
        'pyflowers.fit("y ~ x", columns={"y": "my y"}, default_priors="brms", '
        'priors={"b_scale[x]": 0.1}, drop_missing=True, centered={"g": True})'
    )


def test_a_command_is_printed_once():
    def failed(name, advice):
        return Check(name, 1.0, 0.0, "≤", False, "", "a source", advice)

    first, second = (
        Advice("refit so", "fit", "pyflowers fit 1"),
        Advice("or so", "fit", "pyflowers fit 2"),
    )
    again = Advice("refit for another reason", "fit", "pyflowers fit 1")
    whole = Verdict(
        Part("computation", (failed("a", first), failed("b", first), failed("c", second))),
        Part("prior", (failed("d", again),)),
        Part("data"),
    )
    for text in (str(whole), whole._repr_html_()):
        assert text.count("pyflowers fit 1") == 1
        assert text.count("pyflowers fit 2") == 1
        assert text.count("refit for another reason") == 1


@pytest.mark.slow
def test_the_printed_command_for_sleepstudy_passes_what_failed(here, capsys):
    few = {"engine": "stanli", "chains": 2, "warmup": 500, "draws": 500}
    made = ["--seed", "1", "--plots", "none", *shell_words(few)]
    assert run("fit", "Reaction ~ Days + (1 | Subject)", "--data", SLEEP, *made, "--out", "a") == 0
    capsys.readouterr()
    assert run("check", "a") == 3
    printed = unwrapped(capsys.readouterr().out)
    (command,) = set(re.findall(r"pyflowers fit .*Subject\)'.*", printed))
    assert "'Reaction ~ Days + (Days | Subject)'" in command
    assert command.endswith("--out a-2")
    assert run(*shlex.split(command)[1:], "--plots", "none") == 0
    capsys.readouterr()
    run("check", "a-2", "--json")
    passed = {
        each["check"]: each["passed"] for each in json.loads(capsys.readouterr().out)["checks"]
    }
    assert "slopes[Days | Subject]" not in passed
    assert passed["minimum"]


def test_json_has_the_command_of_each_check(here, capsys):
    skewed = pd.DataFrame({"y": np.random.default_rng(1).exponential(size=80)})
    skewed.to_csv("skewed.csv", index=False)
    pyflowers.fit("y ~ 1", "skewed.csv", seed=1, **FAST).save("run")
    assert run("check", "run", "--json") == 3
    found = json.loads(capsys.readouterr().out)["checks"]
    assert all(each["command"].startswith("pyflowers") for each in found if not each["passed"])
    assert any(each["command"] == "" for each in found if each["passed"])


def test_the_command_of_a_fit_with_a_known_covariance_expects_its_file(here):
    frame = counts().rename(columns={"my g": "g"})
    frame.to_csv("data.csv", index=False)
    labels = list("abcdef")
    pd.DataFrame(np.eye(6) + 0.2, index=labels, columns=labels).to_csv("K.csv")
    what = {"family": "poisson", "known": {"K": "K.csv"}, "priors": {"b_scale[x]": 0.5}}
    short = {**FAST, "warmup": 50, "draws": 50}
    formula = "y ~ x + (1 | gr(g, cov=K))"
    fit = pyflowers.fit(formula, "data.csv", seed=1, out=here / "run", **what, **short)
    command = command_of(fit, Advice("again", "fit"))
    assert "--known K=K.csv" in command
    assert run(*shlex.split(command)[1:]) == 0
    again = Fit.load(here / "run-2")
    np.testing.assert_array_equal(again.draws["b"], fit.draws["b"])
    of_report = reproduction(Material([fit], {}, [], Path("r.html")))
    assert "--known K=K.csv" in of_report.command
    assert of_report.covariances == ("K.csv",)
    # Advice on another formula keeps the priors, as only its program would show which it has.
    changed = changed_inputs(fit, {"program": "y ~ x + I(x**2) + (1 | gr(g, cov=K))"})
    assert (changed["known"], changed["priors"]) == ({"K": "K.csv"}, {"b_scale[x]": 0.5})
