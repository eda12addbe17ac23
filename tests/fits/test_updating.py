"""An updated fit is the fit of the changed question; everything else is as it was."""

import numpy as np
import pandas as pd
import pytest
from command_line import run

import pyflowers
from pyflowers.errors import ConfigError, UnusedOptionError
from pyflowers.fits.sampling import prepare_spec
from pyflowers.fits.updating import asked_again

SHORT = {"engine": "stanli", "seed": 4, "chains": 2, "warmup": 150, "draws": 100}
FORMULA = "y ~ x + (1 | g)"
GIVEN = {"b[x]": "normal(0, 2)", "sigma_scale": 3.0}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    made = pd.DataFrame({"g": np.repeat(list("abcdef"), 6), "x": rng.normal(size=36)})
    made["z"] = rng.normal(size=36)
    return made.assign(y=np.round(5 + made.x + rng.normal(size=36), 3))


@pytest.fixture(scope="module")
def fit(frame):
    """A fit with inputs that are not the defaults."""
    return pyflowers.fit(FORMULA, frame, priors=GIVEN, adapt_delta=0.95, interval=0.5, **SHORT)


def key_of(*args, **inputs):
    """Return the key of a fit that is not sampled."""
    return prepare_spec(pyflowers.Spec(*args, **inputs)).record.key


WHOLE = {**SHORT, "adapt_delta": 0.95, "interval": 0.5}


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({}, {}),
        ({"seed": 9}, {"seed": 9}),
        ({"adapt_delta": 0.99, "draws": 50}, {"adapt_delta": 0.99, "draws": 50}),
        ({"priors": {"sigma_scale": 1.0}}, {"priors": {**GIVEN, "sigma_scale": 1.0}}),
        ({"priors": {"sigma_scale": None}}, {"priors": {"b[x]": "normal(0, 2)"}}),
        (
            {"priors": {"b[x]": "normal(1, 1)"}},
            {"priors": {"b[x]": "normal(1, 1)", "sigma_scale": 3.0}},
        ),
        ({"family": "student"}, {"family": "student"}),
        ({"program": "y ~ x + (x | g)"}, {"program": "y ~ x + (x | g)"}),
        ({"centered": True}, {"centered": True}),
        ({"inits": 0.5}, {"inits": 0.5}),
    ],
)
def test_an_updated_question_has_the_key_of_the_whole_one(fit, frame, change, asked):
    whole = {"program": FORMULA, "priors": GIVEN, **WHOLE, **asked}
    expected = key_of(whole.pop("program"), frame, **whole)
    found = prepare_spec(asked_again(fit, change)).record.key
    assert found.changes_since(expected) == []
    assert found.digest() == expected.digest()


def test_other_data_give_other_default_priors(fit, frame):
    other = frame.assign(y=10 * frame.y)
    found = prepare_spec(asked_again(fit, {"data": other})).record
    assert found.key.digest() == key_of(FORMULA, other, priors=GIVEN, **WHOLE).digest()
    assert found.priors["sigma_scale"] == 3
    assert found.priors["Intercept_scale"] != fit.record.priors["Intercept_scale"]


def test_a_column_that_the_fit_did_not_use_needs_the_data(fit, frame):
    with pytest.raises(ConfigError, match="no column 'z'"):
        asked_again(fit, {"program": "y ~ z"}).open()
    change = {"program": "y ~ z + (1 | g)", "data": frame}
    with pytest.raises(ConfigError, match=r"the formula has no b\[x\]"):
        asked_again(fit, change).open()
    asked = asked_again(fit, {**change, "priors": {"b[x]": None}})
    expected = key_of("y ~ z + (1 | g)", frame, priors={"sigma_scale": 3.0}, **WHOLE)
    assert prepare_spec(asked).record.key.digest() == expected.digest()


def test_the_method_samples_the_changed_question(fit, frame, tmp_path):
    again = fit.update(seed=9, draws=50, out=tmp_path / "run")
    expected = pyflowers.fit(FORMULA, frame, priors=GIVEN, **{**WHOLE, "seed": 9, "draws": 50})
    assert again.posterior.equals(expected.posterior)
    assert again.interval == 0.5
    loaded = pyflowers.Fit.load(tmp_path / "run")
    assert asked_again(loaded, {}).open().source.sha256 == fit.program.source.sha256


def test_a_shipped_program_keeps_its_columns():
    table = pd.DataFrame({"site": [1, 1, 2, 2], "week": [1, 2, 1, 2], "n": [3, 4, 5, 9]})
    names = {"group": "site", "time": "week", "value": "n"}
    how = {"seed": 1, "engine": "exact", **names}
    fit = pyflowers.fit("multilevel_poisson", table, **how, priors={"mu_sd": 2})
    twice = table.assign(n=2 * table.n)
    found = prepare_spec(asked_again(fit, {"data": twice})).record.key
    assert (
        found.digest() == key_of("multilevel_poisson", twice, priors={"mu_sd": 2}, **how).digest()
    )
    narrow = fit.update(priors={"mu_mean": 1})
    assert {n: narrow.record.priors[n] for n in ("mu_mean", "mu_sd")} == {"mu_mean": 1, "mu_sd": 2}


def test_a_data_block_keeps_the_priors_that_it_holds():
    table = pd.DataFrame({"plant": [1, 1, 1], "month": [1, 2, 3], "flowers": [1, 2, 4]})
    first = pyflowers.fit("iid_normal", table, seed=1, engine="exact", priors={"mu_sd": 7})
    values = dict(first.program.stan_values(first.data))
    fit = pyflowers.fit("iid_normal", values, seed=1, engine="exact")
    again = fit.update(seed=1, draws=10)
    assert again.options.draws == 10
    assert again.data["mu_sd"] == 7


def test_nothing_to_change_and_inputs_that_there_are_not(fit):
    with pytest.raises(ConfigError, match="no input is changed"):
        fit.update()
    with pytest.raises(ConfigError, match="nothing"):
        fit.update(nothing=1)


def test_a_known_covariance_must_be_given_again(frame):
    labels = sorted(set(frame.g))
    known = pd.DataFrame(np.eye(6), labels, labels)
    formula = "y ~ x + (1 | gr(g, cov=K))"
    fit = pyflowers.fit(formula, frame, known={"K": known}, **SHORT)
    with pytest.raises(ConfigError, match="does not hold the covariance K"):
        asked_again(fit, {"family": "student"})
    asked = asked_again(fit, {"family": "student", "known": {"K": known}})
    expected = key_of(formula, frame, known={"K": known}, family="student", **SHORT)
    assert prepare_spec(asked).record.key.digest() == expected.digest()
    assert prepare_spec(asked_again(fit, {"seed": 2})).record.key.options["seed"] == 2


def test_the_command_takes_the_inputs_of_a_run(tmp_path, capsys):
    first = tmp_path / "first"
    words = ("--engine", "exact", "--plots", "none", "--quiet")
    assert (
        run("fit", "multilevel_poisson", "--seed", 1, "--prior", "mu_sd=5", "--out", first, *words)
        == 0
    )
    second = tmp_path / "second"
    assert run("fit", "--from", first, "--prior", "mu_mean=1", "--out", second, *words) == 0
    fit = pyflowers.Fit.load(second)
    assert {n: fit.record.priors[n] for n in ("mu_mean", "mu_sd")} == {"mu_mean": 1, "mu_sd": 5}
    assert fit.options.seed == 1
    assert run("fit", "--from", first, "--config", tmp_path / "no.toml") == 2
    assert "leave out --from" in capsys.readouterr().err


def test_another_engine_leaves_out_what_it_does_not_use():
    how = {"seed": 1, "draws": 200}
    fit = pyflowers.fit("multilevel_poisson", engine="exact", keep=("mu_plant",), **how)
    other = fit.update(engine="stanli", warmup=200)
    assert other.record.engine.name == "stanli"
    again = other.update(engine="exact")
    assert again.record.engine.name == "exact"
    with pytest.raises(UnusedOptionError, match="warmup is not used by the engine exact"):
        fit.update(warmup=100)
