"""Building the embedded CmdStan: only from the wheel, once, and again after any interruption.

The slow tests compile the front end, in separate caches.
"""

import hashlib
import os
import platform
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pyflowers
from pyflowers.errors import ToolchainError
from pyflowers.toolchain import embedded as stan

SETUP = [sys.executable, "-m", "pyflowers", "setup"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The pinned wheel as a file, as on a machine without a network."""
    pinned = stan.wheel_for(platform.system(), platform.machine())
    file = stan.download(pinned, tmp_path_factory.mktemp("wheel"))
    stan.check_wheel(file, pinned)
    return file


def environment(cache, **more):
    # Leftovers of a killed process in its temporary folder are removed with pytest's folder.
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


def staging(cache, *below):
    """Whether a folder that is being filled already contains `below`."""
    return any(cache.glob("/".join([".pyflowers-*", "new", *below])))


@pytest.mark.slow
def test_interrupted_anywhere_it_starts_over_cleanly(wheel, tmp_path):
    cache = tmp_path / "cache ü, with spaces"
    unpacking = interrupt_when(
        lambda: staging(cache, "httpstan", "include"), wheel, cache, signal.SIGKILL
    )
    assert unpacking != 0
    assert not list(cache.glob("stan-*"))
    compiling = interrupt_when(
        lambda: staging(cache, "build", "default", "**", "*.o"),
        wheel,
        cache,
        signal.SIGINT,
    )
    assert compiling == 130
    assert list(cache.glob("stan-*"))
    assert not list(cache.glob("cmdstan-*"))
    # The build needs no network (pip has no index), and only one of the two processes builds.
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
    begun = "Compiling CmdStan's front end (about a minute)"  # more lines follow, one a minute
    assert output.splitlines().count(begun) == 1
    assert output.count("Compiling multilevel_poisson") == 1
    assert not list(cache.glob(".pyflowers-*"))
    code = "import pyflowers; print(pyflowers.fit('iid_normal', seed=1).diagnostics.passed)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


@pytest.mark.slow
def test_without_index_or_wheel_the_remedy_is_said(tmp_path):
    nowhere = environment(tmp_path / "cache", PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    nowhere.pop("PIP_FIND_LINKS", None)
    done = subprocess.run(SETUP, env=nowhere, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pyflowers setup --wheel FILE" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
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


# An index that serves several files of one version, whose names differ only in the order of tags

TAGS = (
    "manylinux2014_x86_64.manylinux_2_17_x86_64",
    "manylinux_2_17_x86_64.manylinux2014_x86_64",
)


@pytest.fixture
def wheels(tmp_path):
    """Build two wheels whose names differ only in the order of their tags."""
    files = []
    for tag in TAGS:
        name = f"httpstan-4.13.0-cp311-cp311-{tag}.whl"
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            metadata = "Metadata-Version: 2.1\nName: httpstan\nVersion: 4.13.0\n"
            archive.writestr("httpstan-4.13.0.dist-info/METADATA", metadata)
            wheel = f"Wheel-Version: 1.0\nTag: cp311-cp311-{tag}\n"
            archive.writestr("httpstan-4.13.0.dist-info/WHEEL", wheel)
            archive.writestr("httpstan-4.13.0.dist-info/RECORD", "")
        files.append(tmp_path / name)
    return files


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def serve(files, folder, monkeypatch):
    """Build a package index of `files`, in this order, as the only one that pip sees."""
    page = folder / "simple" / "httpstan" / "index.html"
    page.parent.mkdir(parents=True)
    links = (f'<a href="{file.as_uri()}#sha256={sha256(file)}">{file.name}</a>' for file in files)
    page.write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (folder / "simple").as_uri())


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["one order", "the other"])
@pytest.mark.parametrize("pinned", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_an_ambiguous_index_gives_a_pinned_wheel(wheels, pinned, reverse, tmp_path, monkeypatch):
    serve(wheels[::-1] if reverse else wheels, tmp_path, monkeypatch)
    wanted = stan.Pinned("manylinux2014_x86_64", tuple(sha256(wheels[i]) for i in pinned))
    target = tmp_path / "downloaded"
    target.mkdir()
    file = stan.download(wanted, target)
    stan.check_wheel(file, wanted)
    assert sha256(file) in wanted.digests


def test_an_index_without_the_pinned_wheel_is_refused(wheels, tmp_path, monkeypatch):
    serve(wheels, tmp_path, monkeypatch)
    target = tmp_path / "downloaded"
    target.mkdir()
    with pytest.raises(ToolchainError, match="pyflowers setup --wheel FILE"):
        stan.download(stan.Pinned("manylinux2014_x86_64", ("0" * 64,)), target)


def test_either_build_is_taken_from_a_file_and_no_other(wheels):
    both = stan.Pinned("manylinux2014_x86_64", tuple(map(sha256, wheels)))
    for file in wheels:
        stan.check_wheel(file, both)
    with pytest.raises(ToolchainError, match="has SHA-256"):
        stan.check_wheel(wheels[0], stan.Pinned(both.tag, both.digests[1:]))


@pytest.mark.parametrize(
    ("machine", "release", "tag", "num"),
    [
        (("Linux", "x86_64"), "", "manylinux2014_x86_64", 2),
        (("Darwin", "arm64"), "14.7.1", "macosx_14_0_arm64", 1),
        (("Darwin", "arm64"), "15.1", "macosx_15_0_arm64", 2),
        (("Darwin", "x86_64"), "14.7.1", "macosx_13_0_x86_64", 1),
    ],
)
def test_each_machine_has_its_wheels(machine, release, tag, num, monkeypatch):
    monkeypatch.setattr(platform, "mac_ver", lambda: (release, ("", "", ""), ""))
    pinned = stan.wheel_for(*machine)
    assert pinned.tag == tag
    assert len(set(pinned.digests)) == num


def test_a_machine_without_a_wheel_is_told_what_to_do():
    with pytest.raises(ToolchainError, match="setup --official"):
        stan.wheel_for("Linux", "aarch64")
