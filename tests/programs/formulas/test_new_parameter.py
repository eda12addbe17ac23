"""A distributional parameter is an `Auxiliary` of its family; a formula of it needs no more."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_runs import answers, batch_medians, reported

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError
from pyflowers.programs import families

FORMULA = "y ~ x; alpha ~ w"
HOW = {"seed": 1, "engine": "stanli", "warmup": 400, "draws": 400}


@pytest.fixture
def with_toy_family(monkeypatch):
    """Add the folder of the toy family to those of the families."""
    folder = str(Path(__file__).with_name("toy_families"))
    monkeypatch.setattr(families, "__path__", [*families.__path__, folder])


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["x", "w"])
    return frame.assign(y=rng.logistic(1 + 0.5 * frame.x, np.exp(0.5 + 0.4 * frame.w)))


@pytest.mark.slow
def test_a_new_parameter_has_a_formula(with_toy_family, frame, tmp_path):
    fit = pyflowers.fit(FORMULA, frame, family="logistic", **HOW)
    summary = fit.summary()
    for name, true in {"b[x]": 0.5, "b_alpha[w]": 0.4, "Intercept_alpha": 0.5}.items():
        assert abs(summary["median"][name] - true) < 4 * summary["sd"][name]
    assert answers(fit, frame.head(3), "x") > 0
    assert "log of alpha" in reported(fit, tmp_path)
    program = Program.from_formula(FORMULA, frame, family="logistic")
    medians = batch_medians(fit, program, frame, tmp_path, keep=["toy_keep:num_draws"])
    assert abs(medians["b_alpha[w]"] - 0.4) < 0.2


def test_without_its_file_there_is_no_parameter(frame):
    """Negative control."""
    with pytest.raises(ConfigError, match="family 'logistic' does not exist"):
        Program.from_formula(FORMULA, frame, family="logistic")
