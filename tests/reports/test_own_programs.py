"""Reports on user programs: their names, their quantities, and plain English."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from example_fits import QUICK, SLOW, example_fit
from pages import REPORTED, Page, faults, report, text_of
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.analysis.checks import check
from pyflowers.display import format_cell
from pyflowers.fits.commands import shown_path
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names
from pyflowers.resources import flowers_csv

HOW = {"seed": 1, "warmup": 500, "draws": 500, "engine": "cmdstan", "cmdstan": "embedded"}

RATE = """data {
  int<lower=0> N;
  array[N] int<lower=0> y;
}
parameters {
  real<lower=0> rate;
}
model {
  rate ~ gamma(1, 0.1);
  y ~ poisson(rate);
}
generated quantities {
  vector[N] log_lik;
  array[N] int y_rep;
  for (n in 1 : N) {
    log_lik[n] = poisson_lpmf(y[n] | rate);
    y_rep[n] = poisson_rng(rate);
  }
}
"""
SPREAD = """data {
  int<lower=0> N;
  vector[N] y;
}
parameters {
  real mu;
  real<lower=0> sigma;
}
model {
  mu ~ normal(0, 100);
  sigma ~ exponential(0.1);
  y ~ normal(mu, sigma);
}
"""
OF_FLOWERS = """
title = "One rate for all"
[table]
group = "plant"
time = "month"
[data]
y = { column = "flowers" }
[parameters.rate]
description = "Expected flowers of any plant in a month"
unit = "{value} per {time}"
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("There are 1 observations.", "a plural of one"),
        ("Under <code>m</code>, it is None.", "a value of the program's"),
        ("It stands.. there.", "punctuation"),
        ("It is is there.", "a word twice"),
        ("is there.", "no capital"),
        ("It is there", "no full stop"),
    ],
)
def test_faulty_english_would_be_seen(text, fault):
    """The negative control for all reports in this module."""
    page = Page(
        f"<!DOCTYPE html><html><head><title>t</title></head><body><p>{text}</p></body></html>"
    )
    assert [what for what, _ in faults(page)] == [fault]


@pytest.fixture(
    scope="module",
    params=[*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def example(request, executables, tmp_path_factory):
    """A fit of an example, loaded from its run folder, and its report."""
    folder = tmp_path_factory.mktemp("run") / request.param
    fit = Fit.load(example_fit(request.param).save(folder))
    return fit, report(fit)


ABOUT = {
    "pumps": (
        "failures by pump",
        "10 observations in 10 groups (pump), with values between 1 and 22",
    ),
    "seeds": ("germinated by plate", "21 observations in 21 groups (plate), with values between"),
    "rats": (
        "weight by rat and age",
        "150 observations in 30 groups (rat) at 5 times (age), with values between",
    ),
    "epil": ("seizures by patient and visit", "236 observations in 59 groups (patient) at 4 times"),
}


@pytest.mark.slow
def test_an_example_is_reported_in_the_users_words(example):
    fit, page = example
    title, data = ABOUT[fit.name]
    question = text_of(page.nodes("h1")[0])
    assert question.startswith(("What do the data say about", "What is the", "What are the"))
    subtitle = text_of(page.nodes("p")[1])
    assert subtitle.startswith(f"{fit.program.title}; ")
    assert subtitle.endswith(f" of {title}")
    assert data in page.output("data")
    lectures = re.compile(r"\b(?:flowers?|plants?|months?)\b")
    for section in REPORTED[:-1]:
        output = page.output(section).replace("power plant", "")
        assert not lectures.search(output), lectures.search(output)
    assert fit.program.title in page.output("models")


def shown(value):
    """Return a number as the page shows it, with a real minus sign."""
    return format_cell("", value).replace("-", "\u2212")


def test_the_answer_names_each_single_number_with_its_meaning(example):
    fit, page = example
    summary = fit.summary()
    items = [text_of(node) for node in page.nodes("li")]
    scalars = [name for name, quantity in fit.posterior.items() if quantity.ndim == 2]
    assert scalars
    for name in scalars:
        row = summary.loc[name]
        median, low, high = (shown(row[key]) for key in ("median", "5%", "95%"))
        (output,) = [item for item in items if item.startswith(f"{name}, ")]
        meaning = fit.program.declaration.parameters[name].description
        assert meaning[1:] in output
        assert f": {median}" in output
        assert output.endswith(f"(90% interval {low} to {high})")
    assert f"All {len(summary)} parameters are in the summary table." in page.output("answer")


def test_the_answer_states_each_vector(example):
    """Short vectors are stated in full, long ones by their lowest and highest median.

    The answer names the twelve shortest quantities; of the fourteen in epil it leaves two out.
    """
    fit, page = example
    summary, answer = fit.summary(), page.output("answer")
    by_length = sorted(fit.posterior.values(), key=lambda quantity: quantity.size)
    vectors = [quantity for quantity in by_length[:12] if quantity.ndim > 2]
    left_out = [f"for {element_names(quantity)[0]}" for quantity in by_length[12:]]
    assert not any(each in answer for each in left_out)
    for quantity in vectors:
        rows = element_names(quantity)
        medians = summary.loc[rows, "median"]
        ends = (medians.idxmin(), medians.idxmax())
        for row in rows if len(rows) <= 6 else ends:
            low, high = (shown(summary.loc[row, key]) for key in ("5%", "95%"))
            assert f"(90% interval {low} to {high}) for {row}" in answer
        assert len(rows) <= 6 or f"{len(rows)} numbers, from" in answer
    assert vectors


def test_the_page_holds_the_program_and_no_folder(example):
    fit, page = example
    folded = [text_of(node) for node in page.nodes("details")]
    programs = [text for text in folded if text.startswith("The program: ")]
    assert [" ".join(text.split()) for text in fit.record.program.files.values()] == [
        text.removeprefix(f"The program: {fit.name}.stan ") for text in programs
    ]
    whole = text_of(page.tree)
    for folder in (Path(fit.record.program.path).parent, Path.home(), Path.cwd()):
        assert f"{folder}{os.sep}" not in whole
    assert Path(fit.record.program.path).is_absolute()  # so the report could have shown it


def test_files_of_the_current_folder_are_named_from_it_and_messages_name_no_folder(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "data" / "x.csv") == str(Path("data", "x.csv"))
    assert shown_path("../x.csv") == "../x.csv"
    assert shown_path(tmp_path.parent / "x.csv") == "x.csv"
    fit = synthetic_fit("iid_normal", table(["a", "b", "c"], 8))
    refused = {"m": f"{Path.home() / 'x.csv'}, row 3: it is bad; {tmp_path / 'y.csv'} is not"}
    page = report(fit, refused=refused)
    assert "m was not fitted. x.csv, row 3: it is bad; y.csv is not." in page.output("verdict")


def test_what_does_not_apply_is_not_there(example):
    fit, page = example
    output = text_of(page.tree)
    for word in ("closed-form", "Shrinkage", "side by side", "these fits"):
        assert word not in output
    verdict = check(fit).verdict
    doubts = {"prior": "whose prior contradicts the data", "data": "which does not reproduce"}
    for part in (verdict.prior, verdict.data):
        assert (doubts[part.name] in page.output("banner")) == bool(part.failed)
    assert ("This fit can be trusted." in page.output("banner")) == verdict.trusted
    assert "All 6 diagnostics pass." in page.output("banner")
    assert "How well the model predicts" in page.output("comparison")
    program = shown_path(fit.record.program.reference)
    assert f"pyflowers report --model {program} --data" in output
    names = ["predictive", "predictive checks", "sensitivity", "trace", "rank", "pair", "prior"]
    chapter = page.alts[1:]
    assert len(chapter) == len(names)
    assert all(name in alt.lower() for name, alt in zip(names, chapter, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two programs: one with declaration, ``log_lik`` and ``y_rep``, one without."""
    path = tmp_path_factory.mktemp("mine")
    (path / "rate.stan").write_text(RATE)
    (path / "rate.toml").write_text(OF_FLOWERS)
    (path / "spread.stan").write_text(SPREAD)
    (path / "alike.stan").write_text(SPREAD)
    (path / "alike.toml").write_text('[data]\ny = { column = "flowers" }\n')
    return path


@pytest.mark.slow
def test_own_and_shipped_programs_of_one_table(folder, lecture_fits):
    own = pyflowers.fit(folder / "rate.stan", flowers_csv(), **HOW)
    page = report(own, lecture_fits["multilevel_poisson"], lecture_fits["iid_normal"])
    answer = page.output("answer")
    expected = "How many flowers per month can be expected for each plant, and which model"
    assert text_of(page.nodes("h1")[0]).startswith(expected)
    assert "multilevel_poisson predicts new observations best" in answer
    assert re.search(r"that of rate is lower by [\d.]+ \(90% interval", answer)
    assert "These fits can be trusted. All 18 diagnostics of 3 fits pass." in page.output("banner")
    assert "PSIS-LOO does not clearly rank" not in page.output("banner")
    command = text_of(page.nodes("pre")[-1])
    assert f"pyflowers fit rate.stan --data {shown_path(flowers_csv())} --seed 1" in command
    assert len(page.alts) == 1 + 4 + 6 + 5 + 2 + 1 + 1
    assert "One rate for all rate" in page.output("models")


@pytest.mark.slow
def test_a_program_without_log_lik_is_left_out_of_the_ranking_alone(folder, lecture_fits):
    bare = pyflowers.fit(folder / "alike.stan", flowers_csv(), **HOW)
    page = report(bare, lecture_fits["multilevel_poisson"], lecture_fits["iid_normal"])
    assert "multilevel_poisson predicts new observations best" in page.output("answer")
    assert "alike is left out, because its program has no log_lik." in page.output("comparison")
    alone = report(bare)
    comparison = alone.output("comparison")
    assert "There is no estimate of how well the model predicts: alike has no log_lik" in comparison
    two = pyflowers.fit(folder / "spread.stan", {"N": 12, "y": bare.data.y}, **HOW)
    answer = report(bare, two).output("answer")
    assert "The models are not ranked: alike has no log_lik" in answer


@pytest.mark.slow
def test_data_without_groups_or_times(folder):
    frame = pd.DataFrame({"y": [1.0, 2.5, 4.0, 3.0, 2.0, 5.5]})
    page = report(pyflowers.fit(folder / "spread.stan", frame, **HOW))
    assert text_of(page.nodes("h1")[0]) == "What do the data say about y?"
    assert "6 observations, with values between 1 and 5.5 and an average of 3.00." in page.output(
        "data"
    )
    assert "mu: " in page.output("answer")
    assert len(page.alts) == 3  # no figures of the data, or of capabilities that the program lacks


def test_groups_without_times(folder):
    """Rows of a group are replicates; a single group is named in the singular."""
    frame = pd.DataFrame({"bed": ["Süd"] * 3 + ["Nord"], "flowers": [3, 4, 5, 2]})
    (folder / "beds.stan").write_text(RATE)
    (folder / "beds.toml").write_text(OF_FLOWERS.replace('time = "month"\n', ""))
    fit = pyflowers.fit(folder / "beds.stan", frame, group="bed", **HOW)
    page = report(fit)
    said = "4 observations in 2 groups (bed), with values between 2 and 5 and an average of 3.50."
    assert said in page.output("data")
    assert "missing" not in page.output("data")
    assert text_of(page.nodes("h1")[0]) == "What do the data say about flowers by bed?"
    one = pyflowers.fit(folder / "beds.stan", frame[:3], group="bed", **HOW)
    assert "3 observations in 1 group (bed)" in report(one).output("data")


def test_plain_json(folder, tmp_path):
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"N": 5, "y": [1, 2, 4, 3, 2]}))
    fit = pyflowers.fit(folder / "spread.stan", file, **HOW)
    page = report(Fit.load(fit.save(tmp_path / "run")))
    question = "What does the posterior say, and can it be trusted?"
    assert text_of(page.nodes("h1")[0]) == question
    answer = page.output("answer")
    for name in ("mu", "sigma"):
        median = format_cell("", fit.summary().loc[name, "median"])
        assert f"{name}: {median} (90% interval" in answer
    assert "5 observations, with values between 1 and 4 and an average of 2.40." in page.output(
        "data"
    )
    assert "--data data.json" in page.output("provenance")


def test_a_program_that_observes_nothing(folder):
    (folder / "nothing.stan").write_text(
        "data {\n  int<lower=0> N;\n  vector[N] x;\n}\nparameters {\n  vector[N] mu;\n}\n"
        "model {\n  x ~ normal(mu, 1);\n  mu ~ normal(0, 1);\n}\n"
    )
    fit = pyflowers.fit(folder / "nothing.stan", {"N": 2, "x": [1.0, 2.0]}, **HOW)
    page = report(fit)
    assert "declares no observed variable" in page.output("data")
    assert "for mu[1] and " in page.output("answer")


ALONE = """
import subprocess, sys
from pyflowers.fits.fit import Fit
from pyflowers.reports import render_report
import pyflowers.plots.style

fits = [Fit.load(folder) for folder in sys.argv[1:]]
seen = []
watched = {"subprocess.Popen", "os.posix_spawn", "os.exec", "socket.connect"}
sys.addaudithook(lambda event, _: seen.append(event) if event in watched else None)
html = render_report(fits)
print(len(html), seen)
subprocess.run([sys.executable, "-c", ""])
print(seen)
"""


@pytest.mark.slow
def test_the_report_only_reads(lecture_fits, tmp_path):
    """A report starts no program, does not build CmdStan, opens no connection and leaves no file.

    Its forks, which draw the figures, do not count as programs.
    """
    folders = [str(fit.save(tmp_path / name)) for name, fit in lecture_fits.items()]
    home = tmp_path / "home"
    work = tmp_path / "work"
    for made in (home, work):
        made.mkdir()
    environment = {**os.environ, "PYFLOWERS_CACHE": str(home / "cache"), "TMPDIR": str(work)}
    environment["PYTHONPATH"] = str(Path(pyflowers.__file__).parent.parent)
    command = [sys.executable, "-c", ALONE, *folders]
    done = subprocess.run(
        command, cwd=work, env=environment, check=True, capture_output=True, text=True
    )
    report_line, control = done.stdout.splitlines()
    length, _, started = report_line.partition(" ")
    assert int(length) > 100_000
    assert started == "[]"
    assert "subprocess.Popen" in control  # the negative control: a child would be seen
    assert list(home.iterdir()) == []
    assert list(work.iterdir()) == []


@pytest.mark.slow
def test_a_report_of_formulas_ranks_only_what_is_clear_and_has_the_whole_model_for_a_paper():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=90), "g": np.repeat(list("abcdef"), 15)})
    frame["Rating"] = 1 + np.digitize(frame.x + rng.logistic(size=90), [-1, 0, 1])
    how = {"family": "cumulative", "seed": 1, "engine": "stanli", "adapt_delta": 0.95}
    fits = [pyflowers.fit(f"Rating ~ x + {g}", frame, **how) for g in ("(x | g)", "(1 | g)")]
    page = report(*fits)
    best, other = (each.name for each in pyflowers.loo(fits).models)
    assert f"PSIS-LOO does not clearly rank {best} above {other}." in page.output("banner")
    (said,) = (text_of(quote) for quote in page.nodes("blockquote", under="provenance"))
    assert all(each.diagnostics.passed for each in fits)
    for part in (
        *("We analysed 90 observations of Rating in 6 groups (g)", "N(0, "),
        " for the coefficient of x",
        "t(3, 0, 2.5) for the thresholds at the means of the terms",
        "for the standard deviation between the labels of g",
    ):
        assert part in said


@pytest.mark.slow
def test_an_effect_that_depends_on_another_column_is_drawn_by_that_column():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": np.tile(["a", "b"], 30), "n": 9})
    frame["Hits"] = rng.binomial(9, 0.5, 60)
    how = {"family": "binomial", "seed": 1, "draws": 200, "engine": "stanli"}
    fit = pyflowers.fit("Hits | trials(n) ~ x * g", frame, **how)
    shown = report(fit).output("answer")
    assert "over the 60 observations (successes out of each row's trials)." in shown
    assert "Share of Hits over x, for each value of g. The effect of x depends on g." in shown
    plain = report(pyflowers.fit("Hits | trials(n) ~ x + g", frame, **how)).output("answer")
    assert "Share of Hits over x, for each value of g." in plain
    assert "depends on" not in plain


@pytest.mark.slow
def test_categories_have_probabilities_instead_of_numbers():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=80), "g": np.repeat(list("abcd"), 20)})
    eta = np.stack([0 * frame.x, frame.x, -frame.x], axis=1) + rng.gumbel(size=(80, 3))
    frame["Way"] = np.array(["bus", "car", "walk"])[eta.argmax(axis=1)]
    how = {"seed": 1, "draws": 200, "warmup": 300, "engine": "stanli"}
    page = report(pyflowers.fit("Way ~ x + (1 | g)", frame, family="categorical", **how))
    whole = text_of(page.tree)
    assert "What is the effect of x on Way?" in whole
    assert "80 observations of Way in 4 groups (g)" in page.output("provenance")
    assert "(numbered" not in whole
    assert not any("average is lowest" in alt for alt in page.alts)
    for label in ("bus", "car", "walk"):
        assert f" probability of Way = {label} per unit of x" in page.output("answer")
    assert "How often each category was observed" in page.output("checks")
    for label in ("car", "walk"):
        assert f"(effects on log odds of {label} against bus)" in page.output("models")
        for prior in ("the coefficient of x in", "the intercept in", "between the labels of g in"):
            assert f"{prior} mu{label}" in page.output("provenance")
    lines = "".join(page.nodes("pre", under="models")[0].itertext()).splitlines()
    assert [line.partition(" = ")[0] for line in lines[1:3]] == ["mucar", "muwalk"]
    (each,) = (alt for alt in page.alts if alt.startswith("Average difference"))
    assert "(+ 1, walk) to " in each
