"""An engine is its module and its name in a list; all that follows a fit works with it."""

import sys

import numpy as np
import pandas as pd
import pytest
import toy_engine
from toy_runs import answers, batch_medians, reported

import pyflowers
from pyflowers.engines import base, find_engine
from pyflowers.errors import ConfigError

HOW = {"seed": 1, "warmup": 200, "draws": 250}
FORMULA = "y ~ 0 + x + z"


@pytest.fixture
def with_toy_engine(monkeypatch):
    """Add the toy engine as a module of the package and as a name in the list."""
    monkeypatch.setitem(sys.modules, "pyflowers.engines.toy", toy_engine)
    monkeypatch.setitem(base.ENGINES, "toy", "toy (one file of the tests)")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["x", "z"])
    return frame.assign(y=2 * frame.x - frame.z + rng.normal(0, 0.5, 40))


def test_a_new_engine_is_one_module(with_toy_engine, frame):
    fit = pyflowers.fit(FORMULA, frame, engine="toy", **HOW)
    assert fit.record.engine.name == "toy"
    assert not fit.verdict.failed
    reference = pyflowers.fit(FORMULA, frame, engine="stanli", seed=1).summary()
    for name, found in fit.summary().iterrows():
        assert abs(found["median"] - reference["median"][name]) < 0.3 * reference["sd"][name]
        assert abs(found["sd"] / reference["sd"][name] - 1) < 0.2
    assert abs(answers(fit, frame.head(3), "x") - 2) < 0.4


@pytest.mark.slow
def test_reports_and_batches_take_a_new_engine(with_toy_engine, frame, tmp_path):
    fit = pyflowers.fit(FORMULA, frame, engine="toy", **HOW)
    assert "toy" in reported(fit, tmp_path)
    medians = batch_medians(fit, FORMULA, frame, tmp_path)
    assert abs(medians["b[x]"] - fit.summary()["median"]["b[x]"]) < 0.05


def test_its_options_are_those_that_it_states(with_toy_engine, frame):
    with pytest.raises(ConfigError, match="adapt_delta is not used by the engine toy"):
        pyflowers.fit(FORMULA, frame, engine="toy", adapt_delta=0.99)
    with pytest.raises(ConfigError, match="the engine toy does not use CmdStan"):
        pyflowers.fit(FORMULA, frame, engine="toy", cmdstan="embedded")


def test_without_its_name_in_the_list_it_is_not_there(monkeypatch):
    """Negative control."""
    monkeypatch.setitem(sys.modules, "pyflowers.engines.toy", toy_engine)
    with pytest.raises(ConfigError, match="engine must be one of cmdstan, stanli, exact, auto"):
        find_engine("toy")
