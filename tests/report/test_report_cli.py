"""``pyflowers report``: from a table, from its earlier runs, and from run folders."""

import re

import pytest
from click.testing import CliRunner

import pyflowers
from pyflowers.cli.main import cli
from pyflowers.errors import ConfigError
from pyflowers.fitting import Fit
from pyflowers.report import render_report


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def sections(path):
    return re.findall(r'<section id="(\w+)"', path.read_text(encoding="utf-8"))


SEVEN = ["answer", "verdict", "data", "models", "comparison", "methods", "provenance"]
QUICK = ("--seed", "3", "--warmup", "200", "--draws", "200", "--cmdstan", "embedded")


def test_a_table_becomes_a_report_and_its_runs_are_used_again(tmp_path, executables):
    out = tmp_path / "flowers.html"
    first = run("report", *QUICK, "--out", out)
    assert first.output.count("fitted, because there is no run yet") == 3
    assert first.output.endswith(f"report: {out}\n")
    assert sections(out) == SEVEN
    html = out.read_text(encoding="utf-8")
    second = run("report", *QUICK, "--out", out)
    assert second.output.count("nothing changed, taken from") == 3
    # Reading draws back may change the last bit of a sum; what is printed is the same.
    assert re.sub(r' value="[^"]*"', "", out.read_text(encoding="utf-8")) == re.sub(
        r' value="[^"]*"', "", html
    )


def test_a_model_that_refuses_the_table_is_said_and_the_others_reported(tmp_path, executables):
    data = tmp_path / "data.csv"
    data.write_text("plant,month,flowers\na,1,4\na,2,6\nb,1,1\nb,2,0\nb,3,2\n")
    out = tmp_path / "r.html"
    run("report", "--data", data, *QUICK, "--out", out)
    html = out.read_text(encoding="utf-8")
    assert sections(out) == SEVEN
    assert "<code>multilevel_normal</code> was not fitted." in html
    assert "has 2 of the 3 observations" in html


def test_run_folders_become_a_report(lecture_fits, tmp_path):
    folders = [fit.save(tmp_path / name) for name, fit in lecture_fits.items()]
    out = tmp_path / "r.html"
    run("report", *folders[1:], "--out", out)
    assert sections(out) == SEVEN
    html = out.read_text(encoding="utf-8")
    assert "--model multilevel_normal --model multilevel_poisson" in html


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{run}", "--seed", "1"], "--seed: a report of run folders takes no options of a fit"),
        (["{run}", "--prior", "mu_sd=1"], "--prior: a report of run folders takes no options"),
        (["--prior", "mu_std=1"], "prior mu_std: none of iid_normal, multilevel_normal"),
        (["--model", "iid_norml"], "no model is named 'iid_norml': did you mean iid_normal"),
        (["--chains", "0"], "sampler.chains must be at least 1, was 0"),
        (["{run}", "{run}"], "report: two fits are of iid_normal"),
    ],
)
def test_wrong_usage_is_one_sentence(lecture_fits, tmp_path, words, message):
    folder = lecture_fits["iid_normal"].save(tmp_path / "run")
    words = [word.format(run=folder) for word in words]
    with pytest.raises(ConfigError, match=re.escape(message)):
        run("report", *words, "--out", tmp_path / "r.html")


def test_a_users_own_program_has_a_report(tmp_path, executables):
    program, data = tmp_path / "mine.stan", tmp_path / "mine.json"
    program.write_text(
        "data { int N; vector[N] y; }\nparameters { real mu; }\nmodel { mu ~ normal(0, 9); "
        "y ~ normal(mu, 1); }\n"
    )
    data.write_text('{"N": 3, "y": [1, 2, 4]}')
    fit = pyflowers.fit(program, data, seed=1, draws=200, warmup=200, cmdstan="embedded")
    html = render_report([Fit.load(fit.save(tmp_path / "run"))])
    assert re.findall(r'<section id="(\w+)"', html) == SEVEN
    assert f"pyflowers fit {program}" in html
