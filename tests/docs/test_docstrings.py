"""Each example in a docstring is run, and gives the output that it shows."""

import doctest
import importlib
import pkgutil
import shutil
from pathlib import Path

import pytest

import pyflowers

ROOT = Path(__file__).resolve().parents[2]
FINDER = doctest.DocTestFinder(exclude_empty=True)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules():
    yield "pyflowers"
    for info in pkgutil.walk_packages(pyflowers.__path__, "pyflowers."):
        if info.name != "pyflowers.__main__":
            yield info.name


def examples():
    for name in modules():
        module = importlib.import_module(name)
        yield from (test for test in FINDER.find(module) if test.examples)


@pytest.mark.slow
def test_every_example_in_a_docstring_runs(tmp_path, monkeypatch, cmdstan):
    for name in ("data", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    found = list(examples())
    for example in found:
        runner.run(example)
    assert len(found) >= 8
    assert runner.failures == 0, runner.summarize()
