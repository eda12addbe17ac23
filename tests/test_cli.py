"""The command line: exit statuses, one-line errors, and the first steps of a newcomer."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from test_bad_inputs import complaint, end_of

import pyflowers
from pyflowers.cli.main import COMMANDS, cli
from pyflowers.cores import usable_cores

PYFLOWERS = [sys.executable, "-m", "pyflowers"]


def run(*arguments, **environment):
    return subprocess.run(
        [*PYFLOWERS, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_help_lists_every_command_and_imports_nothing_heavy():
    code = (
        "import sys; from pyflowers.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'arviz', 'matplotlib', 'scipy', 'pandas', 'numpy', 'cmdstanpy', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name in COMMANDS:
        assert len(re.findall(rf"^  {name} ", done.stdout, re.MULTILINE)) == 1


def test_a_fit_leaves_a_run_folder_and_a_verdict(executables, tmp_path):
    out = tmp_path / "run"
    done = run(
        *("fit", "multilevel_poisson", "--seed", 1, "--cmdstan", "embedded"),
        *("--check", "--out", out),
    )
    assert done.returncode == 0, done.stderr
    assert "verdict: the sampling converged" in done.stdout
    assert "mu_plant[3]" in done.stdout
    assert json.loads((out / "run.json").read_text())["options"]["seed"] == 1
    plots = {path.name for path in (out / "plots").iterdir()}
    assert {"trace_first_chain.png", "trace.png", "pairs.png", "ranks.png"} <= plots
    other = (
        *("fit", "multilevel_poisson", "--seed", 1, "--cmdstan", "embedded"),
        *("--draws", 50, "--warmup", 10, "--check", "--out", out),
    )
    assert "draws was 1000 and is 50" in run(*other).stderr
    again = run(*other, "--overwrite")
    assert again.returncode == 3
    assert "verdict: do not trust this fit" in again.stdout
    assert json.loads((out / "run.json").read_text())["options"]["draws"] == 50


def test_a_users_table_and_columns(executables, tmp_path):
    table = tmp_path / "garden.csv"
    table.write_text("plot,week,blossoms\n[red]A[/red],1,4\n[red]A[/red],2,3\nB,1,9\nB,2,7\n")
    done = run(
        *("fit", "multilevel_normal", "--data", table, "--group", "plot", "--time", "week"),
        *("--value", "blossoms", "--seed", 0, "--cmdstan", "embedded", "--out", tmp_path / "run"),
        *("--plots", "none", "--prior", "sigma2_plant_nu=1", "--prior", "sigma2_plant_scale=2"),
    )
    assert done.returncode == 0, done.stderr
    assert "mu_plant[[red]A[/red]]" in done.stdout
    assert "seed 0, engine" in done.stdout


def test_no_command_speaks_of_times_that_a_table_does_not_have(tmp_path, monkeypatch):
    """Chicks of a brood are replicates: there is no next observation, and none is missing."""
    monkeypatch.chdir(tmp_path)
    Path("chicks.csv").write_text("brood,ticks\na,1\na,3\na,3\nb,0\nb,1\nc,5\nc,7\nc,4\n")
    table = ("chicks.csv", "--group", "brood", "--value", "ticks")
    few = ("--chains", "2", "--warmup", "300", "--draws", "300", "--engine", "stanli")
    program, run = "multilevel_poisson", "runs/chicks"
    said = {}
    for words in (
        ("fit", program, "--data", *table, "--seed", "1", *few, "--plots", "none", "--out", run),
        *((command, run) for command in ("check", "predict", "loo", "replay", "sensitivity")),
        ("prior", program, *table),
        ("vb", "semiconjugate_normal", "--data", *table),
        ("report", run, "--out", "report.html"),
    ):
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, (words, done.output)
        said[words[0]] = done.output
    assert "new observation" in said["predict"]
    said["report"] = re.sub(
        r"<(style|svg|details).*?</\1>|data:[^\"]*",
        "",
        Path("report.html").read_text(),
        flags=re.DOTALL,
    )
    for command, text in said.items():
        assert not re.search(r"month|\bnext\b|missing", text), command
    assert "How many ticks can be expected for each brood?" in re.sub(r"<.*?>", "", said["report"])
    assert "8 observations in 3 groups" in said["report"]


ERRORS = """
fit iid_normal --data absent.csv       | 1 | error: absent.csv: no such file
fit iid_norml                          | 1 | named 'iid_norml'; did you mean iid_normal?
fit iid_normal --prior tau=1           | 1 | error: prior tau: iid_normal has no such
fit iid_normal --seed -1               | 1 | error: seed must be at least 0
fit iid_normal --group pot             | 1 | there is no column 'pot'; the columns are
fit iid_normal --cmdstan /nowhere      | 1 | /nowhere is not a CmdStan folder
fit own.stan                           | 1 | no such Stan program; check the path
compile own.stan                       | 1 | no such Stan program; check the path
setup --wheel absent.whl               | 1 | --wheel absent.whl: no such file
fit iid_normal --prior tau             | 2 | must be NAME=VALUE with a number, or
fit iid_normal --sede 1                | 2 | error: no such option --sede; did you mean --seed?
fit iid_normal --zzz                   | 2 | error: no such option --zzz; see pyflowers fit --help
fit iid_normal --seed x                | 2 | error: --seed: 'x' is not a valid integer; see
fit iid_normal --engine x              | 2 | error: --engine: 'x' is not one of
check                                  | 2 | missing argument 'RUN'; see pyflowers check
fit iid_normal --prior mu=normal(0,1)  | 1 | set the prior of mu with mu_mean and mu_sd
fit iid_normal --value x               | 1 | there is no column 'x'; the columns are plant
fit y~x                                | 1 | a formula needs data; add --data FILE
fit iid_normal --engine stanli --cmdstan x | 1 | --cmdstan: the engine
fit multilevel_poisson --engine exact --thin 2 | 2 | thin is not used by the engine exact
fit iid_normal --engine stanli --centered yes | 1 | iid_normal offers no choice of parametrisation
fit iid_normal --engine stanli --inits no.json | 1 | no.json cannot be read
fit iid_normal --column flowers        | 2 | must be NAME=COLUMN
replay absent                          | 1 | there is no folder absent; name a folder
new mine                               | 2 | give a FORMULA and its --data, --from NAME for a copy
new y~x --data d.csv                   | 2 | the program needs a name: pyflowers new NAME 'y~x'
fit                                    | 2 | there is no model to fit; name a shipped model
loo run --by-group --no-refit          | 2 | leave out --no-refit or --by-group
report run --out r.html --chains 4     | 1 | error: --chains: a report on
report run --out r.html --runs runs    | 1 | error: --runs: a report on
report run --out r.html --column time=month | 1 | error: --column: a report on
report run --out r.html --plots none   | 1 | error: --plots: a report on
setup --official 2.35.0 --wheel w.whl  | 2 | leave out --wheel or --official
ftt                                    | 2 | error: no such command 'ftt'; did you mean fit?
"""


@pytest.mark.parametrize("row", ERRORS.strip().splitlines())
def test_an_error_is_one_line_and_leaves_nothing_behind(tmp_path, monkeypatch, row):
    words, status, message = (part.strip() for part in row.split(" | "))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYFLOWERS_CACHE", str(tmp_path / "cache"))
    out = ["--out", "run"] if words.startswith("fit") else []
    ended, said = end_of([*words.split(), *out])
    assert ended == int(status)
    assert message in said
    assert complaint(ended, said) == ""
    assert not Path("run").exists()


def test_debug_shows_the_traceback():
    done = run("--debug", "fit", "iid_norml", "--out", "run")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(("words", "cores"), [([], usable_cores()), (["--jobs", "3"], 3)])
def test_the_official_cmdstan_is_built_with_as_many_jobs_as_the_help_says(
    monkeypatch, tmp_path, words, cores
):
    asked = []

    def install(**how):
        asked.append(how)
        return True

    stand_in = SimpleNamespace(install_cmdstan=install, cmdstan_path=lambda: str(tmp_path))
    monkeypatch.setattr("pyflowers.engines.cmdstan.import_cmdstanpy", lambda: stand_in)
    done = CliRunner().invoke(cli, ["setup", "--official", "latest", *words])
    assert done.exit_code == 0, done.output
    assert asked == [{"version": None, "cores": cores}]


def test_compile_copies_the_executable_where_it_is_told(executables, tmp_path):
    program = next(path for path in executables if path.stem == "simulate")
    done = run("compile", program, "--cmdstan", "embedded", "-o", tmp_path / "simulate it")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "simulate it")
    info = subprocess.run([tmp_path / "simulate it", "info"], capture_output=True, text=True)
    assert "stan_version_minor = 35" in info.stdout
    refused = run("compile", program, "--cmdstan", "embedded", "-o", tmp_path / "no" / "where")
    assert refused.returncode == 1
    assert "cannot be written" in refused.stderr


def test_every_public_name_is_there():
    import pyflowers

    modules = ["analysis", "batches", "data", "exact", "plots", "programs", "samplers", "vb"]
    assert sorted([*pyflowers.__all__, *modules, "__version__"]) == dir(pyflowers)
    for name in [*dir(pyflowers), "Capabilities", "ClosedForm", "Sensitivity", "Table"]:
        assert getattr(pyflowers, name) is not None
    assert "Capabilities" not in dir(pyflowers)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pyflowers.nothing


def test_a_module_of_the_working_folder_stands_in_for_nothing(tmp_path):
    """Neither the command nor its processes import the random.py of the working folder."""
    (tmp_path / "random.py").write_text("raise RuntimeError('of the user')\n", encoding="utf-8")
    config = "models = ['iid_normal']\nfolder = 'out'\n[sampler]\nengine = 'stanli'\n"
    (tmp_path / "b.toml").write_text(config, encoding="utf-8")
    command = Path(sys.executable).with_name("pyflowers")
    fit = ["fit", "iid_normal", "--engine", "stanli", "--plots", "none", "--out", "run"]
    for words in (fit, ["batch", "b.toml"]):
        done = subprocess.run([command, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a file cannot be")
def test_a_file_whose_name_is_not_utf_8_is_refused_before_the_fit(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    Path(os.fsdecode(name)).write_text("plant,month,flowers\na,1,2\na,2,3\na,3,4\n")
    words = ["fit", "iid_normal", "--engine", "stanli", "--data", name, "--out", tmp_path / "run"]
    done = subprocess.run([*PYFLOWERS, *words], capture_output=True)
    assert done.returncode == 1
    assert b"caf\\udce9.csv: its name is not UTF-8; rename it" in done.stderr


@pytest.mark.slow
def test_a_function_of_the_working_folder_is_found(tmp_path):
    """The installed command finds the function, although sys.path lacks the working folder."""
    pyflowers.fit("iid_normal", seed=1, engine="exact").save(tmp_path / "run")
    code = "def spread(y):\n    return y.max() - y.min()\n"
    (tmp_path / "ours.py").write_text(code, encoding="utf-8")
    words = [Path(sys.executable).with_name("pyflowers"), "check", tmp_path / "run"]
    words += ["--statistic", "ours:spread"]
    here = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "spread" in here.stdout, here.stderr
    (tmp_path / "empty").mkdir()
    elsewhere = subprocess.run(words, cwd=tmp_path / "empty", capture_output=True, text=True)
    assert elsewhere.returncode == 1
    assert "ours cannot be imported" in elsewhere.stderr
