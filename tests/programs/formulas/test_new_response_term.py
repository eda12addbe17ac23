"""A term of the response is one record; what follows a fit needs no more."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st
from toy_runs import answers, batch_medians, reported

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.families._response import TERMS
from pyflowers.programs.formulas.edits import with_terms
from pyflowers.programs.model import Model

FORMULA = "y | rounded(w) ~ x"
HOW = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 400}
TRUTH = {"b[x]": 2, "sigma": 0.5}


@pytest.fixture
def with_toy_term(monkeypatch):
    """List the toy term for one test."""
    monkeypatch.setitem(TERMS, "rounded", None)
    TERMS["rounded"] = import_module("toy_rounded").ROUNDED


@pytest.fixture(scope="module")
def frame():
    """Return rows of which half are rounded to multiples of 2, whose own sd is 0.58."""
    rng, num = np.random.default_rng(1), 200
    x, w = rng.normal(size=num), np.resize([0.2, 2.0], num)
    y = 1 + 2 * x + 0.5 * rng.normal(size=num)
    return pd.DataFrame({"x": x, "w": w, "y": w * np.round(y / w)})


def test_a_new_term_has_a_likelihood_and_replicates(with_toy_term, frame):
    program = Program.from_formula(FORMULA, frame)
    assert "y is rounded to multiples of w." in program.declaration.story
    assert program.source.text.count("log_diff_exp(") == 2  # of the model, and for each row
    data, _ = program.fill(program.read(frame), program.resolve_priors())
    draws = {"Intercept": np.array([[1.2]]), "b": np.array([[[1.7]]]), "sigma": np.array([[0.8]])}
    model = Model(program, data)
    its = st.norm(1.2 + 1.7 * frame.x, 0.8)
    expected = np.log(its.cdf(frame.y + frame.w / 2) - its.cdf(frame.y - frame.w / 2))
    np.testing.assert_allclose(model.log_lik(draws)[0, 0], expected, rtol=1e-9)
    made = model.y_rep(draws, np.random.default_rng(1))[0, 0] / frame.w
    np.testing.assert_allclose(made, np.round(made), atol=1e-9)
    np.testing.assert_allclose(model.recorded(frame.y + 0.4 * frame.w)["y"], frame.y, atol=1e-9)
    assert with_terms(FORMULA, ["x"], "sigma") == f"{FORMULA}; sigma ~ x"


def test_a_new_term_refuses_rows_and_families(with_toy_term, frame):
    with pytest.raises(DataError, match="w is 0, but it must be above 0"):
        Program.from_formula(FORMULA, frame.assign(w=0))
    with pytest.raises(ConfigError, match=r"skew_normal takes no rounded\(\)"):
        Program.from_formula(FORMULA, frame, family="skew_normal")
    with pytest.raises(ConfigError, match=r"rounded\(\) has no step; write rounded\(w\)"):
        Program.from_formula("y | rounded() ~ x", frame)


@pytest.mark.slow
def test_a_new_term_needs_one_record(with_toy_term, frame, tmp_path):
    fit = pyflowers.fit(FORMULA, frame, **HOW)
    summary = fit.summary()
    for name, true in TRUTH.items():
        assert abs(summary["median"][name] - true) < 4 * summary["sd"][name], name
        assert summary["sd"][name] < 0.1
    assert abs(answers(fit, frame.head(3), "x") - 2) < 0.2
    assert "replicated data are rounded as y is" in str(pyflowers.check(fit))
    without = pyflowers.fit("y ~ x", frame, name="without", **HOW)
    with pytest.raises(ConfigError, match=r"has rounded\(\), but the response of"):
        pyflowers.loo([fit, without])
    with pytest.raises(ConfigError, match=r"has rounded\(\), and posterior SBC does not"):
        pyflowers.sbc(FORMULA, frame, out=tmp_path / "sbc", sims=4, posterior=True, **HOW)
    pilot = {"effects": {"b[x]": 1}, "rows": 50, **HOW}
    with pytest.raises(ConfigError, match=r"has rounded\(\), so its data cannot"):
        pyflowers.design(FORMULA, frame, out=tmp_path / "design", **pilot)
    with pytest.raises(ConfigError, match=r"does not support rounded\(\), with which"):
        pyflowers.fit(FORMULA, frame, seed=1, engine="exact")
    assert "y is rounded to multiples of w." in reported(fit, tmp_path)
    program = Program.from_formula(FORMULA, frame)
    medians = batch_medians(fit, program, frame, tmp_path, keep=["toy_rounded:num_draws"])
    assert abs(medians["sigma"] - 0.5) < 0.1


def test_without_its_record_there_is_no_term(frame):
    """Negative control."""
    with pytest.raises(ConfigError, match=r"rounded\(\) is not a term of a response"):
        Program.from_formula(FORMULA, frame)
