"""After a kill, an earlier result is whole, no process is left, and the command works again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pyflowers.cli.main import main
from pyflowers.fits.fit import Fit

SECONDS_TO_DIE = 2
PYFLOWERS = [sys.executable, "-m", "pyflowers"]
PROGRAM = "parameters { real x; } model { x ~ normal(0, 1); }\n"
KILLS = [
    ("SIGKILL", os.kill),
    ("SIGTERM", os.kill),
    ("SIGHUP", os.kill),
    ("SIGINT", os.kill),
    ("SIGINT", os.killpg),
]

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are seen in /proc")


def processes_with(variable):
    """Return the processes that have inherited a variable of the environment, except zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def kill_after(seconds, command, signum, send, environment, folder=None):
    """Start a command, kill it, and check that no process of it is left two seconds later."""
    mark = f"PYFLOWERS_TEST={random.getrandbits(64)}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment, name: value},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(seconds)
    if process.poll() is None:
        send(process.pid, getattr(signal, signum))
    end = time.monotonic() + SECONDS_TO_DIE
    while time.monotonic() < end and (process.poll() is None or processes_with(mark)):
        time.sleep(0.02)
    left = processes_with(mark)
    process.kill()
    process.wait()
    assert left == []


def unfinished(folder):
    return [path for path in folder.rglob("*") if "pyflowers-" in path.name]


def compile_with_kills(cmdstan, tmp_path, kills, seed):
    rng = random.Random(seed)
    (tmp_path / "temporary").mkdir()
    environment = {
        "PYFLOWERS_CACHE": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    (tmp_path / "x.stan").write_text(PROGRAM)
    command = [*PYFLOWERS, "compile", str(tmp_path / "x.stan"), "--cmdstan", str(cmdstan.path)]
    command += ["-o", str(tmp_path / "x")]
    for signum, send in kills:
        kill_after(rng.uniform(0.2, 5), command, signum, send, environment)
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "x", "info"], capture_output=True).returncode == 0
    assert not unfinished(tmp_path)


@pytest.mark.slow
def test_a_killed_compilation(cmdstan, tmp_path):
    compile_with_kills(cmdstan, tmp_path, KILLS, seed=1)


@pytest.mark.slow
def test_killed_compilations(cmdstan, tmp_path):
    compile_with_kills(cmdstan, tmp_path, KILLS * 4, seed=2)


SAVING = """
import sys
from pathlib import Path
from pyflowers.cli.main import unwinding_on_signals
from pyflowers.fits.fit import Fit
from pyflowers.plots import run_figures
fit = Fit.load(sys.argv[1])
figures = run_figures(fit, "svg")
with unwinding_on_signals():
    while True:
        fit.save(sys.argv[2], figures)
"""


def save_with_kills(fit, tmp_path, kills, seed):
    rng = random.Random(seed)
    source, target = fit.save(tmp_path / "source"), tmp_path / "out" / "run"
    fit.save(target)
    command = [sys.executable, "-c", SAVING, str(source), str(target)]
    for signum, send in kills:
        kill_after(rng.uniform(3, 7), command, signum, send, {})
        again = Fit.load(target)
        assert again.draws.keys() == fit.draws.keys()
        assert all(np.array_equal(again.draws[name], fit.draws[name]) for name in fit.draws)
        fit.save(target)
        assert not unfinished(tmp_path / "out")
        assert [path.name for path in target.parent.iterdir()] == ["run"]


@pytest.mark.slow
def test_killed_saves(lecture_fits, tmp_path):
    save_with_kills(lecture_fits["iid_normal"], tmp_path, KILLS * 4, seed=2)


# --- Whole commands -------------------------------------------------------------------------------

STANLI = ("--engine", "stanli", "--seed", "1", "--chains", "2")
COMMANDS = {
    "fit": ("fit", "multilevel_poisson", *STANLI, "--refit", "--out", "out/run"),
    "report": ("report", "source", "--out", "out/r.html"),
    "compare": ("compare", "iid_normal", *STANLI[:4], "--out", "out/comparison"),
}


def state(out):
    """Return what is in a command's output, and check that it is whole."""
    if out.suffix == ".html":
        text = out.read_text(encoding="utf-8")
        assert text.rstrip().endswith("</html>")
        return text
    run = out if (out / "run.json").is_file() else out / "nuts"
    fit = Fit.load(run)
    record = json.loads(next(out.glob("*.json")).read_text())
    assert all((out / name).is_file() or (out / name).is_dir() for name in record.get("files", ()))
    return {name: values.sum() for name, values in fit.draws.items()}


def commands_with_kills(fit, command, tmp_path, kills, seed):
    """Kill a command that replaces its own earlier output, again and again."""
    rng = random.Random(seed)
    fit.save(tmp_path / "source")
    (tmp_path / "temporary").mkdir()
    environment = {"TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [*PYFLOWERS, *COMMANDS[command]]
    out = tmp_path / COMMANDS[command][-1]

    def whole():
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not unfinished(tmp_path)

    started = time.monotonic()
    whole()
    seconds = time.monotonic() - started
    before = state(out)
    for i, (signum, send) in enumerate(kills):
        kill_after(rng.uniform(0.1, seconds), words, signum, send, environment, tmp_path)
        assert state(out) == before
        if i % 5 == 4:
            whole()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_commands(lecture_fits, tmp_path, command):
    commands_with_kills(lecture_fits["iid_normal"], command, tmp_path, KILLS * 2, seed=2)


@pytest.mark.slow
def test_killed_setups(tmp_path):
    rng = random.Random(3)
    (tmp_path / "temporary").mkdir()
    environment = {
        "PYFLOWERS_CACHE": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    words = [*PYFLOWERS, "setup"]
    for signum, send in KILLS * 2:
        kill_after(rng.uniform(0.5, 30), words, signum, send, environment)
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not unfinished(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "status"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_the_exit_status_says_which_signal(cmdstan, tmp_path, signum, status):
    (tmp_path / "x.stan").write_text(PROGRAM)
    process = subprocess.Popen(
        [*PYFLOWERS, "compile", str(tmp_path / "x.stan"), "--cmdstan", str(cmdstan.path)],
        env={**os.environ, "PYFLOWERS_CACHE": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if "Compiling" in line:
            break
    time.sleep(0.3)
    process.send_signal(getattr(signal, signum))
    assert process.wait(SECONDS_TO_DIE) == status
    output = process.stderr.read().split()
    process.stderr.close()
    assert output == ["interrupted" if signum == "SIGINT" else "terminated"]
    assert not unfinished(tmp_path)


def test_signals_mean_what_they_did_once_the_command_has_ended():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(SystemExit):
        main(["models"])
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before
