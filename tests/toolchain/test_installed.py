"""The sdist and the wheel, installed outside the checkout, run the README's story.

The tests are slow, because each fresh environment takes its packages from the package index.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from pyflowers.resources import example_tables

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
VERSION = "{}.{}".format(*sys.version_info)
LOCK = ROOT / "locks" / VERSION / "requirements.lock"


def blocks(section):
    """Return the code blocks of a section of the README as (language, text)."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    body = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^```(\w+)\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL)


def commands_of(console):
    """Return the commands of a block, as words, without their comments."""
    lines = console.replace("\\\n", "").splitlines()
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


def run(command, **how):
    done = subprocess.run(command, capture_output=True, text=True, **how)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    hatchling = [sys.executable, "-m", "hatchling", "build", "--directory", folder]
    run([*hatchling, "--target", "sdist"], cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    (folder / "unpacked").mkdir()  # with tar, because tarfile has no filters before Python 3.11.4
    run(["tar", "-xzf", sdist, "-C", "unpacked"], cwd=folder)
    (source,) = (folder / "unpacked").iterdir()
    run([*hatchling, "--target", "wheel"], cwd=source)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def versions_in(lock):
    """Return the pinned versions of a lock; with its hashes, pip would want one of our own file."""
    return re.findall(r"^[\w.-]+==[\w.+!-]+", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)


def install(distribution, folder):
    """Install the file with its dependencies in a separate environment."""
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
    probe = subprocess.run([*pip, "--dry-run", "hatchling"], capture_output=True, cwd=folder)
    if probe.returncode:
        pytest.skip("no package index can be reached")
    (folder / "constraints.txt").write_text("\n".join(versions_in(LOCK)))
    run([*pip, "--constraint", "constraints.txt", distribution], cwd=folder)
    return folder / "bin"


def test_a_wheel_holds_the_package_and_what_it_reads(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tables = {f"pyflowers/_data/{name}.csv" for name in example_tables()}
    assert {"pyflowers/py.typed", "pyflowers/_data/README.md", *tables} <= names
    assert "pyflowers/_stan/multilevel_poisson.stan" in names
    assert {name.partition("/")[0] for name in names} == {"pyflowers"}


def test_an_sdist_holds_the_tests_and_nothing_that_was_made_here(distributions):
    with tarfile.open(distributions[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"tests/conftest.py", "locks/3.11/requirements.lock", "CITATION.cff"} <= names
    assert not [name for name in names if re.search(r"(^|/)(results|\.venv|\.git|_build)/", name)]


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
@pytest.mark.parametrize("compiler", [True, False], ids=["with g++", "without g++"])
def test_the_story_runs_outside_a_checkout(distributions, kind, compiler, tmp_path, request):
    bin_folder = install(distributions[("sdist", "wheel").index(kind)], tmp_path / "env")
    work = tmp_path / "work ü"
    work.mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CMDSTAN")}
    if compiler:
        request.getfixturevalue("cmdstan")  # built, or already in the cache
        environment["PATH"] = f"{bin_folder}{os.pathsep}{environment['PATH']}"
    else:
        environment |= {"PATH": str(bin_folder), "HOME": str(tmp_path)}
        environment["PYFLOWERS_CACHE"] = str(tmp_path / "cache")
        assert shutil.which("g++", path=environment["PATH"]) is None
    how = {"cwd": work, "env": environment}
    (pip,) = commands_of(dict(blocks("Install"))["console"])
    assert pip[:2] == ["pip", "install"]
    example = blocks("Example")
    code = "".join(text for kind, text in example if kind == "python")
    run([bin_folder / "python", "-c", code], **how)
    assert (work / "epilepsy.png").is_file()
    for name, *arguments in commands_of(dict(example)["console"]):
        assert name == "pyflowers"
        run([bin_folder / name, *arguments], **how)
    assert (work / "epilepsy.html").is_file()
    engine = "import json; print(json.load(open('runs/epilepsy/run.json'))['engine']['name'])"
    # A formula waits for no compiler.
    assert run([bin_folder / "python", "-c", engine], **how).strip() == "stanli"
