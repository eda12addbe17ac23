"""Fits and executables that many tests share; each is made once a session."""

from pathlib import Path

import pytest

import pyflowers
from pyflowers.cmdstan import compile_program, find_cmdstan
from pyflowers.cmdstan.build import compile_programs
from pyflowers.models import FLOWER_MODELS

HERE = Path(__file__).resolve().parent
CONFORMANCE = HERE / "conformance"


@pytest.fixture(scope="session")
def cmdstan():
    """The embedded CmdStan."""
    return find_cmdstan("embedded")


@pytest.fixture(scope="session")
def executables(cmdstan):
    """Compile every program that the tests use, as many at once as there are cores."""
    programs = [model.program for model in pyflowers.MODELS.values()]
    programs += sorted((HERE / "lecture").glob("*.stan"))
    programs += sorted((CONFORMANCE / "programs").glob("*.stan"))
    built = compile_programs(programs, cmdstan)
    return {executable.program: executable for executable in built}


@pytest.fixture(scope="session")
def driver_program(executables):
    """Return a conformance program's executable by name."""

    def path_of(name):
        return executables[CONFORMANCE / "programs" / f"{name}.stan"].path

    return path_of


@pytest.fixture(scope="session")
def lecture_fits(executables, cmdstan):
    """The three models on the lecture's data, seed 1."""
    names = [model.name for model in FLOWER_MODELS]
    return {name: pyflowers.fit(name, seed=1, cmdstan="embedded") for name in names}


@pytest.fixture(scope="session")
def compiled(cmdstan):
    """Compile a program given as text, in a folder of its own."""

    def compile_text(folder, name, text):
        path = folder / f"{name}.stan"
        path.write_text(text, encoding="utf-8")
        return compile_program(path, cmdstan=cmdstan)

    return compile_text
