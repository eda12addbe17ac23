"""The locked packages: digests for all, and the lowest versions that pyproject.toml allows."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "locks").glob("*/*.lock"))


def pins(lock):
    """Return the version of each package in a lock, by its normalised name."""
    found = re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: f"{lock.parent.name}/{lock.name}")
def test_each_locked_package_has_a_digest(lock):
    entries = re.split(r"\n(?=\S)", lock.read_text().rstrip())
    assert len(entries) == len(pins(lock)) > 0
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry


def test_the_lowest_versions_of_pyproject_are_those_of_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    locked = pins(ROOT / "locks" / "3.11" / "lowest.lock")
    for requirement in [*project["dependencies"], *extras["parquet"], *extras["xlsx"]]:
        name, lowest = re.match(r"([\w-]+)(?:>=|==)([\d.]*\d)", requirement).groups()
        version = locked[name]
        assert version == lowest or re.fullmatch(rf"{re.escape(lowest)}(\.0)*", version), name


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_pyflowers_works_with_its_lowest_versions(tmp_path):
    python = shutil.which("python3.11")
    if python is None or subprocess.run([python, "-c", ""]).returncode:
        pytest.skip("there is no Python 3.11, for which the lowest versions are locked")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    # A warning of a package, such as a FutureWarning, would appear in the output of a command.
    env["PYTHONWARNINGS"] = "default::FutureWarning"

    def run(*words):
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode in (0, 3), f"{words}\n{done.stdout}\n{done.stderr}"  # 3: a check
        assert "Warning" not in done.stderr, f"{words}\n{done.stderr}"

    bin_folder = tmp_path / "venv" / "bin"
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [bin_folder / "python", "-m", "pip", "install", "--quiet"]
    lock = ROOT / "locks" / "3.11" / "lowest.lock"
    subprocess.run([*pip, "--require-hashes", "-r", lock], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", ROOT], check=True)
    run(bin_folder / "python", "-m", "pip", "check")
    pyflowers, formula = bin_folder / "pyflowers", "weight ~ age + (age | rat)"
    rats = ROOT / "examples" / "rats" / "rats.csv"
    sampled = ["--engine", "stanli", "--chains", "2", "--warmup", "300", "--draws", "300"]
    run(pyflowers, "models")
    run(pyflowers, "fit", "multilevel_poisson", *sampled, "--seed", "1", "--out", "poisson")
    run(pyflowers, "fit", formula, "--data", rats, *sampled, "--seed", "1", "--out", "rats")
    run(pyflowers, "vb", "semiconjugate_normal", "--out", "vb")
    for command in ("check", "predict", "loo"):
        run(pyflowers, command, "rats", "--out", command)
    run(pyflowers, "contrast", "poisson", "mu_plant")
    run(pyflowers, "report", "rats", "--out", "report.html")
