"""Fits and executables that many tests share, created once per session."""

import math
import signal
from pathlib import Path

import pytest
import tiers

import pyflowers
from pyflowers.fits import remedies, sampling
from pyflowers.programs import LECTURE, Program, find_program, shipped_names
from pyflowers.programs.source import read_source
from pyflowers.toolchain import compile_program, find_cmdstan
from pyflowers.toolchain.build import compile_sources

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE / "conformance"

# SIGHUP is ignored under nohup, and SIGINT in the background jobs of a script; children inherit
# this. The tests need both signals to end processes.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


tiers.guard()

FIRST = (
    *("test_windows", "test_examples_held_out", "test_site", "test_scale", "test_kills"),
    *("test_density", "test_commands", "test_examples", "test_stan_density", "test_installed"),
    "test_damages",
)
"""The files that take longest. If one of them came last, the other worker would wait for it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put the longest files first, mark units, and give slow tests a longer time limit.

    What only scripts/campaigns and scripts/check-engine run is slow.
    """
    items.sort(key=lambda item: item.path.stem not in FIRST)
    for item in items:
        if tiers.is_unit(item):
            item.add_marker("unit")
        if any(map(item.get_closest_marker, ("campaign", "density"))):
            item.add_marker("slow")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let unit tests start no process."""
    tiers.running(item)
    try:
        return (yield)
    finally:
        tiers.running(None)


@pytest.fixture(autouse=True, scope="session")
def without_remedies():
    """Try no remedies after the commands' short fits: up to three refits, most of the suite's time.

    tests/fits/test_remedies.py tries them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remedies, "MOST_TRIALS", 0)
        yield


@pytest.fixture(autouse=True, scope="session")
def without_notes_on_time():
    """Say nothing about long fits, whatever else the machine does; tests/fits/test_pace.py does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "SECONDS_FIRST", math.inf)
        yield


@pytest.fixture(scope="module")
def in_a_shell():
    """Advice as a command gives it; without this fixture, it is that of a caller in Python."""
    from pyflowers.advice import in_shell

    with in_shell():
        yield


@pytest.fixture(scope="session")
def cmdstan():
    """The embedded CmdStan."""
    return find_cmdstan("embedded")


@pytest.fixture(scope="session")
def executables(cmdstan):
    """Compile every program that the tests use, one per core at a time."""
    sources = [find_program(name).source for name in shipped_names()]
    others = [
        *sorted((HERE / "lecture").glob("*.stan")),
        *sorted((CONFORMANCE / "programs").glob("*.stan")),
    ]
    sources += [read_source(path) for path in others]
    built = compile_sources(sources, cmdstan)
    return {executable.source.path: executable for executable in built}


@pytest.fixture(scope="session")
def driver_program(executables):
    """Return a conformance program's executable by name."""

    def path_of(name):
        return executables[CONFORMANCE / "programs" / f"{name}.stan"].path

    return path_of


@pytest.fixture(scope="session")
def lecture_fits(executables, cmdstan):
    """The three models on the lecture's data, seed 1."""
    return {name: pyflowers.fit(name, seed=1, cmdstan="embedded") for name in LECTURE}


@pytest.fixture(scope="session")
def compiled(cmdstan):
    """Compile a program that is given as text, in a separate folder."""

    def compile_text(folder, name, text):
        path = folder / f"{name}.stan"
        path.write_text(text, encoding="utf-8")
        return compile_program(path, cmdstan=cmdstan)

    return compile_text


@pytest.fixture
def own_program(tmp_path):
    """Write a user program with its declaration, and open it."""

    def opened(name, text, toml=None, folder=tmp_path, **how):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.stan"
        path.write_text(text, encoding="utf-8")
        if toml is not None:
            path.with_suffix(".toml").write_text(toml, encoding="utf-8")
        return Program.open(path, **how)

    return opened
