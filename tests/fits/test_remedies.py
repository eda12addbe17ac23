"""Remedies for failed sampling are tried before they are advised."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run, unwrapped

import pyflowers
from pyflowers.advice import Advice
from pyflowers.engines import SamplerOptions
from pyflowers.fits import remedies
from pyflowers.fits.diagnostics import after_trials
from pyflowers.fits.fit import Fit
from pyflowers.fits.folder import Trial
from pyflowers.fits.remedies import QUICK, refit, with_trials
from pyflowers.fits.verdict import Check, Part

pytestmark = pytest.mark.usefixtures("in_a_shell")

FUNNEL = {"engine": "stanli", "seed": 3, "chains": 2, "warmup": 500, "draws": 500}


@pytest.fixture(autouse=True, scope="module")
def with_remedies():
    """Try remedies, which conftest.py prevents for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remedies, "MOST_TRIALS", 3)
        yield


def groups():
    """Return groups that hardly differ, with which a sampler of centred effects diverges."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"g": np.repeat(list("abcdefgh"), 3), "x": rng.normal(4, 2, 24)})
    return frame.assign(y=rng.normal(size=24))


@pytest.fixture(scope="module")
def diverged():
    """A fit with so low a target acceptance that it diverges."""
    fit = pyflowers.fit("y ~ 1 + (1 | g)", groups(), adapt_delta=0.5, **FUNNEL)
    assert "divergences" in [check.name for check in fit.diagnostics.failed]
    return fit


def test_the_advised_refit_was_tried_and_passes(diverged):
    said = []
    tried = with_trials(diverged, said.append)
    assert len(said) == len(tried.record.trials) >= 1
    assert "trying --adapt-delta 0.9" in said[0]
    last = tried.record.trials[-1]
    assert last.status == "passed"
    advice = {check.advice for check in (*tried.diagnostics.failed, *tried.diagnostics.imprecise)}
    (only,) = advice
    assert isinstance(only, Advice)
    assert only.endswith("this was tried, and all 6 diagnostics pass")
    assert f"--adapt-delta {last.change['adapt_delta']}" in only
    assert dict(only.change) == last.change
    # The refit has the same seed, so what was tried is what the command does.
    assert refit(diverged, last.change).diagnostics.status == "passed"
    assert tried.draws == diverged.draws


def test_a_run_keeps_what_was_tried(diverged, tmp_path):
    tried = with_trials(diverged)
    loaded = Fit.load(tried.save(tmp_path / "run"))
    assert loaded.record.trials == tried.record.trials
    assert loaded.diagnostics.failed[0].advice == tried.diagnostics.failed[0].advice
    assert loaded.verdict.to_dict() == tried.verdict.to_dict()


def test_nothing_is_tried_after_a_fit_that_is_slow_or_passes(diverged):
    times = diverged.record.times.model_copy(update={"wall_seconds": QUICK + 1})
    slow = replace(diverged, record=diverged.record.model_copy(update={"times": times}))
    assert with_trials(slow) is slow
    good = pyflowers.fit("iid_normal", seed=1, engine="exact")
    assert with_trials(good) is good


def test_a_refit_with_a_centred_covariate_is_that_of_the_formula():
    few = {**FUNNEL, "warmup": 100, "draws": 50}
    fit = pyflowers.fit("y ~ x + (x | g)", groups(), priors={"b_scale[x]": 0.5}, **few)
    formula = fit.program.python.rescaling(fit.data, 1.0).change["program"]
    assert formula == "y ~ center(x) + (center(x) | g)"
    again = refit(fit, {"program": formula})
    expected = pyflowers.fit(formula, groups(), **few)
    np.testing.assert_array_equal(again.draws["b"], expected.draws["b"])


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (
            [("failed", {"adapt_delta": 0.95}, "divergences 2"), ("passed", {"draws": 9}, "fine")],
            "refit with --draws 9: this was tried, and fine",
        ),
        (
            [("imprecise", {"adapt_delta": 0.99}, "treedepth hits 7")],
            "this was tried, and only treedepth hits 7 remains imprecise",
        ),
        (
            [("failed", {"adapt_delta": 0.95}, "divergences 2")],
            "tried in vain (with --adapt-delta 0.95: divergences 2); use narrower priors",
        ),
        (
            [("passed", {"program": "y ~ center(x)"}, "all pass")],
            'refit with the formula "y ~ center(x)": this was tried, and all pass',
        ),
    ],
)
def test_advice_after_trials(trials, words):
    check = Check("divergences", 9, 0, "≤", False, "", "a source", "refit")
    made = [Trial(change=change, status=status, result=result) for status, change, result in trials]
    (found,) = after_trials(Part("computation", (check,)), made).checks
    assert words in found.advice


@pytest.mark.slow
def test_the_command_line_tries_and_the_printed_command_passes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    groups().to_csv("g.csv", index=False)
    few = [f"--{name}={value}" for name, value in FUNNEL.items()]
    made = ["y ~ 1 + (1 | g)", "--data", "g.csv", "--adapt-delta", "0.5", "--plots", "none", *few]
    assert run("fit", *made, "--check", "--out", "run") == 3
    printed = unwrapped(capsys.readouterr().out)
    assert "to see whether it helps" in " ".join(printed.split())
    (command,) = re.findall(r"pyflowers fit .*", printed)
    assert run(*shlex.split(command)[1:], "--plots", "none", "--check") == 0
    # What nobody reads is not tried.
    assert run("fit", *made, "--out", "quiet", "--quiet") == 0
    assert not Fit.load("quiet").record.trials
    assert SamplerOptions.of(seed=1).adapt_delta == 0.9


def test_where_nothing_helps_the_engine_without_chains_is_tried(monkeypatch):
    """Four districts hardly determine their sd, so that NUTS diverges near 0."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"d": np.repeat(list("abcd"), 6), "x": rng.normal(size=24)})
    frame["y"] = rng.poisson(np.exp(3 + 0.3 * frame.x))
    how = {"family": "poisson", "engine": "stanli", "seed": 1, "adapt_delta": 0.6}
    fit = pyflowers.fit("y ~ x + (1 | d)", frame, centered={"d": True}, **how)
    assert fit.diagnostics.status == "failed"
    monkeypatch.setattr(remedies, "_advised", lambda part: {})
    (trial,) = with_trials(fit).record.trials
    assert trial.change == {"engine": "exact"}
    assert trial.status == "passed"
    exact = fit.update(engine="exact")  # without the options that only NUTS has
    assert exact.record.engine.name == "exact"
    assert exact.diagnostics.passed
