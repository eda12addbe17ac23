"""Making the embedded CmdStan: from the wheel alone, once, and again after any interruption.

Slow: it compiles the front end, in caches of its own.
"""

import os
import platform
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pyflowers
from pyflowers.toolchain import embedded as stan

pytestmark = pytest.mark.slow

SETUP = [sys.executable, "-m", "pyflowers", "setup"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The pinned wheel as a file, as an air-gapped machine has it."""
    pinned = stan.wheel_for(platform.system(), platform.machine())
    file = stan.download(pinned, tmp_path_factory.mktemp("wheel"))
    stan.check_wheel(file, pinned)
    return file


def environment(cache, **more):
    # What a killed process leaves in its temporary folder goes with pytest's own.
    temporary = cache.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "PYFLOWERS_CACHE": str(cache), "TMPDIR": str(temporary), **more}


def interrupt_when(condition, wheel, cache, how):
    """Start ``pyflowers setup`` and stop it as soon as `condition` holds."""
    process = subprocess.Popen(
        [*SETUP, "--wheel", wheel], env=environment(cache), start_new_session=True
    )
    deadline = time.monotonic() + 300
    while not condition() and time.monotonic() < deadline:
        assert process.poll() is None, "setup ended before it could be interrupted"
        time.sleep(0.02)
    if how == signal.SIGKILL:
        process.kill()  # make and its compilers are left behind, as after a power cut
    else:
        os.killpg(process.pid, how)
    return process.wait(60)


def staging(cache, name, *below):
    """Whether a folder being filled has got as far as `below`."""
    return any(cache.glob("/".join([f".pyflowers-{name}*", "new", *below])))


def test_interrupted_anywhere_it_starts_over_cleanly(wheel, tmp_path):
    cache = tmp_path / "cache ü, with spaces"
    unpacking = interrupt_when(
        lambda: staging(cache, "stan", "httpstan", "include"), wheel, cache, signal.SIGKILL
    )
    assert unpacking != 0
    assert not list(cache.glob("stan-*"))
    compiling = interrupt_when(
        lambda: staging(cache, "cmdstan", "build", "default", "**", "*.o"),
        wheel,
        cache,
        signal.SIGINT,
    )
    assert compiling == 130
    assert list(cache.glob("stan-*"))
    assert not list(cache.glob("cmdstan-*"))
    # No network is needed: an index that does not exist is never asked. Two at once do it once.
    offline = environment(cache, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    with ThreadPoolExecutor() as executor:
        runs = [
            executor.submit(
                subprocess.run,
                [*SETUP, "--wheel", str(wheel)],
                env=offline,
                capture_output=True,
                text=True,
            )
            for _ in range(2)
        ]
    for run in runs:
        assert run.result().returncode == 0, run.result().stderr
    output = "".join(run.result().stderr for run in runs)
    assert output.count("Compiling CmdStan's front end") == 1
    assert output.count("Compiling multilevel_poisson") == 1
    assert not list(cache.glob(".pyflowers-*"))
    code = "import pyflowers; print(pyflowers.fit('iid_normal', seed=1).diagnostics.passed)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


def test_without_index_or_wheel_the_remedy_is_said(tmp_path):
    nowhere = environment(tmp_path / "cache", PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    nowhere.pop("PIP_FIND_LINKS", None)
    done = subprocess.run(SETUP, env=nowhere, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pyflowers setup --wheel FILE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wheel_of_pyflowers_works_without_a_checkout(tmp_path, cmdstan):
    """Programs and data are found in an installed wheel, whose folder may be read-only."""
    root = Path(pyflowers.__file__).parent.parent
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, "-w", str(tmp_path), str(root)], check=True)
    (file,) = tmp_path.glob("*.whl")
    target = tmp_path / "site ü"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, file],
        check=True,
    )
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    code = (
        "import pyflowers, sys; "
        "fit = pyflowers.fit('iid_normal', seed=1, cmdstan='embedded'); "
        "print(pyflowers.__file__, fit.record.program.path)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(str(target)) == 2
