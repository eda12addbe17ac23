"""``pyflowers report``: from a table, from its earlier runs, and from run folders."""

import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pages import SECTIONS

from pyflowers.cli.main import cli
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.reports.material import Material
from pyflowers.reports.provenance import reproduction


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def sections(path):
    return re.findall(r'<section id="(\w+)"', path.read_text(encoding="utf-8"))


def command_of(html):
    """Return the command on the page that reproduces the report, which follows those of advice."""
    *_, command = re.findall(r'aria-label="Command">(.*?)</pre>', html, re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", command))


QUICK = ("--seed", "3", "--warmup", "200", "--draws", "200", "--cmdstan", "embedded")


@pytest.mark.slow
def test_a_table_becomes_a_report_and_its_runs_are_used_again(tmp_path, executables):
    out = tmp_path / "flowers.html"
    first = run("report", *QUICK, "--out", out)
    assert first.output.count("fitted, because there is no run yet") == 3
    assert first.output.endswith(f"report: {out}\n")
    assert sections(out) == SECTIONS
    html = out.read_text(encoding="utf-8")
    second = run("report", *QUICK, "--out", out)
    assert second.output.count("not refitted, because nothing changed; read from") == 3
    # Loading draws may change the last bit of a sum; the printed numbers are the same.
    assert re.sub(r' value="[^"]*"', "", out.read_text(encoding="utf-8")) == re.sub(
        r' value="[^"]*"', "", html
    )


@pytest.mark.slow
def test_a_model_that_refuses_the_table_is_said_and_the_others_reported(tmp_path, executables):
    data = tmp_path / "data.csv"
    data.write_text("plant,month,flowers\na,1,4\na,2,6\nb,1,1\nb,2,0\nb,3,2\n")
    out = tmp_path / "r.html"
    run("report", "--data", data, *QUICK, "--out", out)
    html = out.read_text(encoding="utf-8")
    assert sections(out) == SECTIONS
    assert "<code>multilevel_normal</code> was not fitted." in html
    assert "has 2 of the 3 observations" in html


def test_run_folders_become_a_report(lecture_fits, tmp_path):
    folders = [fit.save(tmp_path / name) for name, fit in lecture_fits.items()]
    out = tmp_path / "r.html"
    run("report", *folders[1:], "--out", out)
    assert sections(out) == SECTIONS
    command = command_of(out.read_text(encoding="utf-8"))
    assert "--model multilevel_normal --model multilevel_poisson" in command


@pytest.mark.slow
def test_the_command_of_a_formula_reproduces_its_draws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{'abcde'[i % 5]},{(i * 7) % 5 + i % 3},{i / 20}" for i in range(20)]
    Path("counts.csv").write_text("\n".join(["g,y,x", *rows, "a,2,"]) + "\n", encoding="utf-8")
    how = ("--data", "counts.csv", "--family", "poisson", "--drop-missing", "--centered", "g=yes")
    quick = ("--seed", "1", "--engine", "stanli", "--warmup", "200", "--draws", "100")
    run("fit", "y ~ x + (1 | g)", *how, *quick, "--plots", "none", "--out", "first")
    run("report", "first", "--out", "r.html")
    command = command_of(Path("r.html").read_text(encoding="utf-8"))
    run(*shlex.split(command)[1:], "--runs", "again")
    (again,) = Path("again").iterdir()
    for name, draws in Fit.load("first").draws.items():
        np.testing.assert_array_equal(draws, Fit.load(again).draws[name])


def test_the_command_names_a_chosen_parametrisation_and_initial_values(lecture_fits):
    old = lecture_fits["multilevel_poisson"]
    chosen = old.record.centered

    def found(**changes):
        record = old.record.model_copy(update=changes)
        fit = Fit(old.program, old.data, old.draws, old.stats, record)
        again = reproduction(Material([fit], {}, [], Path("r.html")))
        return again.command, again.lacks_inits

    assert "--centered" not in found()[0]
    assert f"--centered {'no' if chosen else 'yes'}" in found(centered=not chosen)[0]
    command, lacks_inits = found(inits=0.5)
    assert "pyflowers fit multilevel_poisson --inits 0.5" in command
    assert not lacks_inits
    command, lacks_inits = found(inits={"mu": 1.0})
    assert "--inits" not in command
    assert lacks_inits


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{run}", "--seed", "1"], "--seed: a report on run folders takes no fitting options"),
        (
            ["{run}", "--prior", "mu_sd=1"],
            "--prior: a report on run folders takes no fitting options",
        ),
        (["--prior", "mu_std=1"], "prior mu_std: none of iid_normal, multilevel_normal"),
        (["--model", "iid_norml"], "no program is named 'iid_norml'; did you mean iid_normal"),
        (["--chains", "0"], "sampler.chains must be at least 1, got 0"),
        (["{run}", "{run}"], "report: two fits have the name iid_normal"),
    ],
)
def test_wrong_usage_is_one_sentence(lecture_fits, tmp_path, words, message):
    folder = lecture_fits["iid_normal"].save(tmp_path / "run")
    words = [word.format(run=folder) for word in words]
    with pytest.raises(ConfigError, match=re.escape(message)):
        run("report", *words, "--out", tmp_path / "r.html")


@pytest.mark.slow
def test_a_calibration_goes_from_its_folder_into_the_report(lecture_fits, tmp_path):
    folder = lecture_fits["iid_normal"].save(tmp_path / "run")
    words = ["sbc", "iid_normal", "--sims", "20", "--seed", "1", "--engine", "stanli"]
    words += ["--chains", "2", "--warmup", "200", "--draws", "300"]
    for prior in ("mu_mean=5", "mu_sd=2", "sigma2_nu=6"):
        words += ["--prior", prior]
    assert run(*words, "--out", tmp_path / "sbc").exit_code == 0
    out = tmp_path / "r.html"
    run("report", folder, "--calibration", tmp_path / "sbc", "--out", out)
    html = out.read_text(encoding="utf-8")
    assert "is calibrated: over 20 data sets, all 3 quantities stay inside the 99.99% band" in html
    assert "--calibration sbc" in command_of(html)
    with pytest.raises(ConfigError, match=r"holds no finished calibration .*; name a folder"):
        run("report", folder, "--calibration", tmp_path / "run", "--out", out)
