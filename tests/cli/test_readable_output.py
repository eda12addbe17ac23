"""The output of a regression: short, no wider than 80 columns, and with readable names."""

import ast
import json
import shlex
import textwrap

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from command_line import run

import pyflowers
from pyflowers.cli.main import cli
from pyflowers.display import command_lines, wrapped
from pyflowers.fits.commands import python_call
from pyflowers.fits.verdict import Check, Part, Verdict
from pyflowers.workflow.config import read_config

FORMULA = "Reaction ~ Days + (Days | Subject)"
SLUG = "Reaction_Days"


def output(*words):
    """Return what a command prints."""
    done = CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False)
    return done.output


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run folder of a regression with slopes that vary, and what the command printed."""
    folder = tmp_path_factory.mktemp("runs") / "sleep"
    words = ("--data", "example:simulated_sleep", "--seed", 1, "--engine", "stanli")
    printed = output("fit", FORMULA, *words, "--plots", "none", "--out", folder)
    return folder, printed


def test_a_fit_with_slopes_is_twenty_lines(fitted):
    lines = fitted[1].splitlines()
    assert len(lines) <= 20
    assert lines[:4] == [
        f"Formula: {FORMULA}",
        "Family:  gaussian",
        "Data:    example:simulated_sleep (180 rows; Subject: 18)",
        "Draws:   4 chains × 1,000 (seed 1, engine stanli)",
    ]


@pytest.mark.parametrize("command", ["fit", "check", "effects", "loo", "sensitivity"])
def test_no_line_is_wider_than_a_terminal_and_none_has_a_slug(fitted, command):
    folder, printed = fitted
    if command != "fit":
        printed = output(command, folder)
    assert max(map(len, printed.splitlines())) <= 80
    assert SLUG not in printed
    assert FORMULA in printed


def test_effects_of_groups_are_printed_on_request_and_always_saved(fitted):
    folder, printed = fitted
    assert "r_Subject[S" not in printed
    assert "36 effects of Subject not shown: add --all" in printed
    again = ("fit", FORMULA, "--data", "example:simulated_sleep", "--engine", "stanli")
    whole = output(*again, "--plots", "none", "--out", folder, "--all")
    assert whole.count("\nr_Subject[") == 36
    assert "not shown" not in whole
    record = json.loads(output(*again, "--plots", "none", "--out", folder, "--json"))
    names = list(pd.read_csv(folder / "summary.csv")["parameter"])
    assert [row["parameter"] for row in record["summary"]] == names
    assert len(names) == 42
    fit = pyflowers.Fit.load(folder)
    assert list(fit.summary().index) == names[:6]
    assert list(fit.summary(all=True).index) == names
    assert len(fit.summary("r_Subject")) == 36
    assert "36 effects of Subject not shown: summary(all=True)" in str(fit)
    assert "r_Subject[S" not in fit._repr_html_()
    assert "r_Subject[S01" not in output("sensitivity", folder)
    assert "r_Subject[S01" in output("sensitivity", folder, "--all")


def test_coefficients_are_never_cut():
    """Only effects of groups are left out, however many coefficients there are."""
    rng = np.random.default_rng(1)
    level = np.repeat([f"L{i:02}" for i in range(70)], 3)
    frame = pd.DataFrame({"f": level, "y": rng.normal(size=level.size)})
    fit = pyflowers.fit("y ~ f", frame, seed=1, engine="exact")
    assert str(fit).count("\nb[f") == 69
    assert "more row" not in str(fit)


def test_models_are_called_by_their_families_or_numbers():
    frame = pyflowers.example("seeds").assign(rate=lambda f: f.germinated / f.seeds)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    normal = pyflowers.fit("rate ~ cucumber", frame, **how)
    student = pyflowers.fit("rate ~ cucumber", frame, family="student", **how)
    found = pyflowers.loo([normal, student])
    assert set(found.table().index) == {"gaussian", "student"}
    other = pyflowers.fit("rate ~ cucumber + aegyptiaco_73", frame, **how)
    compared = pyflowers.loo([normal, other])
    assert set(compared.table().index) == {"Model 1", "Model 2"}
    text = str(compared)
    assert "Model 1: rate ~ cucumber (gaussian)" in text
    assert "Model 2: rate ~ cucumber + aegyptiaco_73 (gaussian)" in text
    assert max(map(len, text.splitlines())) <= 80
    assert compared.to_dict()["models"]["Model 2"]["formula"] == "rate ~ cucumber + aegyptiaco_73"
    alone = str(pyflowers.loo(normal))
    assert "rate ~ cucumber  " in alone
    assert "difference" not in alone


def test_advice_is_in_the_language_of_the_caller(tmp_path):
    frame = pyflowers.example("seeds")
    frame.to_csv(tmp_path / "seeds.csv", index=False)
    how = {"seed": 1, "engine": "stanli", "warmup": 200, "draws": 400, "chains": 1}
    fit = pyflowers.fit("germinated ~ cucumber", tmp_path / "seeds.csv", **how)
    saved = fit.save(tmp_path / "run")
    text = str(pyflowers.Fit.load(saved).verdict)
    assert "(chains=4)" in text
    assert "pyflowers.fit(" in text
    assert "--" not in text
    assert "call pyflowers.check(fit)" in text
    printed = output("check", saved)
    assert "(--chains 4)" in printed
    assert "pyflowers fit 'germinated ~ cucumber'" in printed


def test_a_long_command_still_runs_when_it_is_copied():
    words = ["pyflowers", "fit", "y ~ x + z + (x + z | group) + (1 | other)", "--data", "table.csv"]
    words += ["--family", "negbinomial", "--adapt-delta", "0.99", "--out", "runs/second"]
    command = shlex.join(words)
    from pyflowers.advice import Advice

    check = Check("c", 2.0, 1.0, "≤", False, "", "", Advice("refit", command=command))
    text = str(Verdict(Part("computation", (check,)), Part("prior"), Part("data")))
    copied = text[text.index("pyflowers fit") :].partition("\n  prior")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert copied.count("\n") >= 1
    assert shlex.split(copied.replace("\\\n", "")) == words


def test_a_path_that_is_longer_than_a_line_does_not_break_a_command():
    words = ["pyflowers", "fit", "y ~ x", "--data", f"/home/{'long/' * 16}table.csv", "--seed", "1"]
    printed = wrapped(f"→ run longer\n{command_lines(shlex.join(words), 8)}\n  prior  passed")
    copied = printed[printed.index("pyflowers") :].partition("\n  prior")[0]
    assert copied.count("\n") >= 2
    assert shlex.split(copied.replace("\\\n", "")) == words
    assert wrapped("pyflowers check " + "long/" * 16) == "pyflowers check " + "long/" * 16


def test_a_long_call_still_runs_when_it_is_copied():
    formula = 'y | cens(c) ~ C(f, levels=["low", "mid and high"]) + (1 | gr(g, dist=student)); '
    given = {"program": formula + "sigma ~ x", "priors": {"b[x]": "normal(0, 1)"}, "seed": 1}
    call = python_call(given)
    printed = wrapped(f"→ run longer\n{command_lines(call, 8)}")
    assert max(map(len, printed.splitlines())) <= 80
    copied = ast.parse(textwrap.dedent(printed.partition("\n")[2]))
    assert ast.dump(copied) == ast.dump(ast.parse(call))


def test_numbers_of_a_summary_are_rounded_only_where_they_are_shown(fitted):
    fit = pyflowers.Fit.load(fitted[0])
    table = fit.summary()
    value = float(table.loc["sigma", "median"])
    assert f"{value:.6f}" not in repr(table) + table._repr_html_()
    assert f"{value:.1f}" in repr(table)
    assert f"{value:.1f}" in table._repr_html_()
    assert table["median"].equals(fit.summary(all=True).loc[table.index, "median"])
    assert type(table.round(1)) is pd.DataFrame


def test_only_lines_that_are_too_long_are_wrapped():
    assert wrapped("short  and  spaced") == "short  and  spaced"
    made = wrapped("    " + "word " * 30)
    assert max(map(len, made.splitlines())) <= 80
    assert all(line.startswith("      ") for line in made.splitlines()[1:])
    assert wrapped("x" * 100) == "x" * 100


def test_effects_with_ratios_fit_into_a_terminal():
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    table = pyflowers.example("seeds")
    fit = pyflowers.fit("germinated ~ cucumber + seeds", table, family="poisson", **how)
    found = pyflowers.effects(fit)
    assert max(map(len, str(found).splitlines())) <= 80
    assert "ratio" in str(found)
    assert {"25%", "75%"} <= {*found.table()}
    half = pyflowers.effects(fit, interval=0.5)
    assert "25%" in str(half)


LONG = ["slept at home", "slept in the laboratory alone", "did not sleep (control condition)"]


@pytest.fixture(scope="module")
def with_labels(tmp_path_factory):
    """A table, and run folders of two models, one with a long name, of a factor of long labels."""
    folder = tmp_path_factory.mktemp("labels")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"SleepingCondition": np.repeat(LONG, 20), "days": np.tile(range(10), 6)})
    frame["reaction"] = 250 + 10 * frame["days"] + rng.normal(0, 25, size=60)
    frame.to_csv(folder / "t.csv", index=False)
    how = {"engine": "exact", "seed": 1, "draws": 250}
    formula = "reaction ~ days * SleepingCondition"
    fit = pyflowers.fit(formula, folder / "t.csv", **how)
    name = "Without an interaction of condition and days"
    other = pyflowers.fit("reaction ~ days + SleepingCondition", folder / "t.csv", name=name, **how)
    return folder / "t.csv", fit.save(folder / "a"), other.save(folder / "b")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "RUN"),
        ("predict", "RUN", "--grid", "days = 0|7, SleepingCondition = *"),
        ("effects", "RUN"),
        ("effects", "RUN", "--by", "SleepingCondition"),
        ("contrast", "RUN", f"mean[SleepingCondition = {LONG[0]}]", "b[days] > 0"),
        ("loo", "RUN", "OTHER", "--explained"),
        ("sensitivity", "RUN"),
        ("table", "RUN", "OTHER"),
        ("prior", "reaction ~ days * SleepingCondition", "TABLE", "--list"),
        ("models", "multilevel_poisson"),
    ],
)
def test_long_labels_and_names_make_no_line_wider_than_a_terminal(words, with_labels, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    places = dict(zip(("TABLE", "RUN", "OTHER"), map(str, with_labels), strict=True))
    lines = output(*(places.get(word, word) for word in words)).splitlines()
    wide = [line for line in lines if len(line) > 80 and not line.strip().startswith("/")]
    assert wide == []  # but for the path of a program
    assert len(lines) > 5


def test_improve_with_long_names_prints_no_line_wider_than_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"experimental_garden": np.repeat(list("abcdefghij"), 12)})
    frame["number_of_flowers_in_the_plot"] = rng.negative_binomial(2, 0.3, len(frame))
    formula = "number_of_flowers_in_the_plot ~ 1 + (1 | experimental_garden)"
    how = {"family": "poisson", "engine": "stanli", "seed": 1, "chains": 4, "warmup": 300}
    fit = pyflowers.fit(formula, frame, draws=300, **how)
    lines = output("improve", fit.save(tmp_path / "run")).splitlines()
    # A formula in a command is one word of the shell, which must not be broken.
    wide = [line for line in lines if len(line) > 80 and "pyflowers fit" not in line]
    assert wide == []
    assert ": trying " in " ".join(line.strip() for line in lines)


def test_a_table_of_models_uses_their_names(with_labels):
    _, run, other = with_labels
    fits = [pyflowers.Fit.load(run), pyflowers.Fit.load(other)]
    found = pyflowers.table(fits)
    assert list(found.to_frame().columns) == ["Model 1", fits[1].name]


def test_the_errors_of_the_ends_of_intervals_are_in_the_file_of_a_contrast(with_labels, tmp_path):
    printed = output("contrast", with_labels[1], "b[days]", "--out", tmp_path / "c")
    assert "mcse" in printed
    assert not {"ess", "bulk"} & {*printed.split()}
    saved = pd.read_csv(tmp_path / "c" / "numbers.csv")
    assert {"mcse", "mcse_5%", "mcse_95%", "ess_bulk"} <= {*saved.columns}


@pytest.mark.parametrize("option", ["--options", "--control", "--iter"])
def test_an_option_for_those_of_the_sampler_names_them(option, capsys):
    assert run("fit", "iid_normal", option, "9") == 2
    assert capsys.readouterr().err == (
        f"error: no such option {option}; each option of the sampler is a separate option, "
        "such as --draws 2000\n"
    )
    assert run("doctor", option, "9") == 2
    assert "--draws" not in capsys.readouterr().err


def test_a_name_may_be_given_in_a_file(tmp_path):
    (tmp_path / "e.toml").write_text('models = ["iid_normal"]\nname = "flowers"\n')
    assert read_config(tmp_path / "e.toml").specs()[0].name == "flowers"
