"""Which engine is used, and what happens if it lacks something."""

import logging
from typing import get_args

import pytest

import pyflowers
from pyflowers.engines import find_engine
from pyflowers.engines.base import ENGINES, EngineName
from pyflowers.errors import ConfigError, FitError

SIMULATE = "generated quantities { real x = normal_rng(0, 1); }"


@pytest.fixture
def no_cmdstan(monkeypatch):
    monkeypatch.setattr("pyflowers.toolchain.available_cmdstan", lambda: None)


def test_a_cmdstan_that_is_there_is_taken(cmdstan):
    assert find_engine("auto", "embedded").name == "cmdstan"


def test_without_one_the_interpreter_is_taken_and_says_so(no_cmdstan, caplog):
    caplog.set_level(logging.INFO, "pyflowers")
    assert find_engine("auto").name == "stanli"
    assert "pyflowers setup" in caplog.text


def test_each_name_of_an_engine_has_its_help():
    assert set(get_args(EngineName)) == set(ENGINES)


@pytest.mark.parametrize(
    ("name", "cmdstan", "output"),
    [
        ("nuts", None, "engine must be one of cmdstan, stanli, exact, auto, got 'nuts'"),
        ("stanli", "embedded", "--cmdstan: the engine stanli does not use CmdStan"),
        ("exact", "embedded", "--cmdstan: the engine exact does not use CmdStan"),
    ],
)
def test_a_wrong_engine_is_refused(name, cmdstan, output):
    with pytest.raises(ConfigError, match=output):
        find_engine(name, cmdstan)
    with pytest.raises(ConfigError, match=output):
        pyflowers.fit("iid_normal", engine=name, cmdstan=cmdstan)


def test_what_the_interpreter_lacks_goes_to_cmdstan(no_cmdstan, cmdstan, caplog, tmp_path):
    (tmp_path / "simulate.stan").write_text(SIMULATE)
    caplog.set_level(logging.INFO, "pyflowers")
    fit = pyflowers.fit(tmp_path / "simulate.stan", seed=1)
    assert fit.record.engine.name == "cmdstan"
    assert "no parameters" in caplog.text


def test_an_engine_that_is_named_is_not_left(tmp_path):
    (tmp_path / "simulate.stan").write_text(SIMULATE)
    with pytest.raises(FitError, match="no parameters"):
        pyflowers.fit(tmp_path / "simulate.stan", seed=1, engine="stanli")
