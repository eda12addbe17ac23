"""pyflowers without the POSIX features that Windows lacks; see without_posix/sitecustomize.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PARTS = ("data", "programs", "fits", "plots", "workflow")
"""The parts that start processes, or read and write files."""
NUMERICAL = "tests/programs/formulas"
"""The tests of formulas compute, on any system alike, and take longer than all others together."""
WITHOUT = (
    *("priors_of_brms_apply_everywhere", "a_calibration_names_the_formula"),
    *("a_special_file_is_refused", "is_being_replaced"),
)
"""Tests of these parts that need a batch, a pipe or a fork."""


@pytest.fixture
def run(tmp_path):
    """Run a module of Python without POSIX.

    It has its own folder for temporary files: other processes, which cannot see its locks, would
    remove the files that it is using.
    """
    path = os.pathsep.join((str(HERE / "without_posix"), str(HERE.parent)))
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}

    def started(*words):
        command = [sys.executable, *map(str, words)]
        how = {"cwd": HERE.parent, "env": env, "capture_output": True, "text": True}
        return subprocess.run(command, check=False, **how)

    return started


def test_what_is_taken_away(run):
    code = "import os, fcntl"
    done = run("-c", code)
    assert "ModuleNotFoundError: import of fcntl halted" in done.stderr
    assert "no attribute 'fork'" in run("-c", "import os; os.fork()").stderr


@pytest.mark.slow
def test_a_fit_with_figures(run, tmp_path):
    done = run(
        "-m", "pyflowers", "fit", "iid_normal", "--engine", "stanli", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "plots" / "trace.png").is_file()


def test_a_batch_is_refused(run, tmp_path):
    done = run("-m", "pyflowers", "sbc", "iid_normal", "--sims", "10", "--out", tmp_path / "sbc")
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "error: a batch needs file locks, which this system lacks; run it on Linux or macOS, or on "
        "Windows in WSL"
    )
    assert not (tmp_path / "sbc").exists()


@pytest.mark.slow
def test_the_suite(run):
    quick = ["-m", "not slow and not browser", "-n", "auto", "--dist", "loadfile", "-q"]
    quick += ["-k", " and ".join(f"not {name}" for name in WITHOUT)]
    parts = [f"tests/{part}" for part in PARTS]
    done = run("-m", "pytest", *quick, "--ignore", NUMERICAL, *parts)
    assert done.returncode == 0, done.stdout[-5000:]
