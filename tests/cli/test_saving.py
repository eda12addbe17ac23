"""Commands save before they print, and check the destination before they work."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pyflowers.cli.main import cli
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import Prepared

QUICK = ("--seed", "1", "--warmup", "100", "--draws", "50", "--cmdstan", "embedded")
FIT = ("fit", "iid_normal", *QUICK, "--plots", "none", "--out")


def pyflowers(*words, shell="", **options):
    """Run the command line in a shell that redirects or pipes its output."""
    command = ["/bin/bash", "-c", f'"$@" {shell}', "bash", sys.executable, "-m", "pyflowers"]
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, **options)


def invoke(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "status"),
    [
        ("| head -1; exit ${PIPESTATUS[0]}", 141),
        ("| true; exit ${PIPESTATUS[0]}", 141),
        ("> /dev/full", 1),
        (">&-", 1),
    ],
)
def test_what_the_terminal_does_never_loses_a_run(executables, tmp_path, shell, status):
    done = pyflowers(*FIT, tmp_path / "b", shell=shell)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert len(re.findall("error", done.stderr)) == (status == 1)
    assert Fit.load(tmp_path / "b").num_draws == 50
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.slow
def test_an_experiment_whose_reader_left_is_finished(executables, tmp_path):
    config = tmp_path / "e.toml"
    config.write_text(
        "models = ['iid_normal', 'multilevel_poisson']\n[sampler]\nseed=1\nwarmup=100\ndraws=50\n"
        "[output]\nfolder = 'out'\nreport = 'r.html'\n"
    )
    words = ("fit", "--config", config, "--cmdstan", "embedded")
    done = pyflowers(*words, shell="| head -1; exit ${PIPESTATUS[0]}")
    assert done.returncode == 141, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("iid_normal", "multilevel_poisson")
    }
    assert (tmp_path / "r.html").is_file()


def test_a_model_that_fails_loses_nothing_of_those_before(executables, tmp_path, monkeypatch):
    config = tmp_path / "e.toml"
    config.write_text(
        "models = ['iid_normal', 'multilevel_poisson']\n[sampler]\nseed=1\nwarmup=100\ndraws=50\n"
        "[output]\nfolder = 'out'\n"
    )
    # A file appears in the second folder after the first model has been fitted.
    real = Prepared.sample

    def and_a_file(prepared, **options):
        if prepared.program.name == "multilevel_poisson":
            folder = tmp_path / "out" / "multilevel_poisson"
            folder.mkdir()
            (folder / "notes.md").write_text("mine")
        return real(prepared, **options)

    monkeypatch.setattr(Prepared, "sample", and_a_file)
    with pytest.raises(ConfigError, match=r"contains notes\.md"):
        invoke("fit", "--config", config, "--cmdstan", "embedded")
    Fit.load(tmp_path / "out" / "iid_normal")


@pytest.mark.slow
def test_a_report_does_not_replace_the_record_of_a_run(lecture_fits, tmp_path):
    folder = lecture_fits["iid_normal"].save(tmp_path / "run")
    before = (folder / "run.json").read_bytes()
    with pytest.raises(ConfigError, match="is not one that pyflowers wrote"):
        invoke("report", folder, "--out", folder / "run.json")
    assert (folder / "run.json").read_bytes() == before
    invoke("report", folder, "--out", tmp_path / "r.html")
    invoke("report", folder, "--out", tmp_path / "r.html")


@pytest.mark.slow
def test_a_comparison_replaces_its_own(executables, tmp_path):
    words = ("compare", "iid_normal", "--seed", "4", "--cmdstan", "embedded", "--out")
    for _ in range(2):
        invoke(*words, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert {"table.csv", "methods.csv", "nuts/draws.nc"} <= set(record["files"])
    Fit.load(tmp_path / "out" / "nuts")
    (tmp_path / "out" / "notes.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"contains notes\.md"):
        invoke(*words, tmp_path / "out")


def test_an_executable_replaces_executables_only(executables, tmp_path):
    program = next(path for path in executables if path.stem == "simulate")
    target = tmp_path / "thesis"
    target.write_text("stan_version_major")
    with pytest.raises(ConfigError, match="is not one that pyflowers wrote"):
        invoke("compile", program, "--cmdstan", "embedded", "-o", target)
    assert target.read_text() == "stan_version_major"
    for _ in range(2):
        invoke("compile", program, "--cmdstan", "embedded", "-o", tmp_path)
    assert subprocess.run([tmp_path / "simulate", "info"], capture_output=True).returncode == 0


def test_doctor_clears_what_kills_left(tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    left = [
        tmp_path / "cache" / "executables" / ".pyflowers-0123abcd.tmp",
        tmp_path / "temporary" / ".pyflowers-0123abce.tmp",
        tmp_path / "results" / ".pyflowers-0123abcf.tmp",
    ]
    kept = [tmp_path / "temporary" / "pyflowers-mine", tmp_path / "results" / ".pyflowers-mine"]
    for folder in (*left, *kept):
        folder.mkdir(parents=True, mode=0o700)
    for folder in left:
        (folder / "new").mkdir()
        (folder / "new" / "half").write_text("x")
    done = invoke("doctor", "--repair", tmp_path / "results")
    assert sorted(done.output.splitlines()) == sorted(f"{folder}: cleared" for folder in left)
    assert not any(folder.exists() for folder in left)
    assert all(folder.exists() for folder in kept)
    assert invoke("doctor", "--repair", tmp_path / "results").output == "nothing was left behind\n"
