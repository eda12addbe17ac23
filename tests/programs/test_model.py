"""The model as posed: what it answers from the declared rule, and its columns."""

import ast

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import pyflowers
from pyflowers.errors import ConfigError
from pyflowers.plots import conditional_effects
from pyflowers.programs import Capability, Model, Program, prediction
from pyflowers.programs import model as model_module
from pyflowers.programs.families import find_family

RNG = np.random.default_rng(1)
NUM = 60
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=NUM),
        "z": RNG.gamma(3, size=NUM),
        "sex": RNG.choice(["f", "m"], NUM),
        "site": RNG.choice(list("abcde"), NUM),
        "n": RNG.integers(3, 9, NUM),
    }
)
FRAME["y"] = RNG.poisson(np.exp(0.2 + 0.3 * FRAME.x))
FRAME["s"] = RNG.binomial(FRAME.n, 0.4)
SHORT = {"chains": 2, "warmup": 100, "draws": 50, "seed": 1, "engine": "stanli"}


def posed(formula, **how):
    """Return the model of a formula, without a fit."""
    program = Program.from_formula(formula, FRAME, **how)
    return Model(program, program.fill(program.read(FRAME), program.resolve_priors())[0])


def test_the_columns_of_a_model():
    found = posed("s | trials(n) ~ x * sex + log(z) + offset(z) + (x | site)", family="binomial")
    assert (found.trials, found.has_trials, found.is_ordinal) == ("n", True, False)
    assert list(found.covariates) == ["x", "sex", "z"]
    assert "log" in found.covariates["z"]
    assert found.groups == {"site": "site"}
    assert found.levels == {"sex": ["f", "m"]}
    assert found.interacting("x") == ["sex"]
    assert found.interacting("z") == []
    assert found.varying == {"site": {"x"}}
    assert found.design_columns == {"X": ("x", "sexm", "log(z)", "x:sexm")}
    only = posed("y ~ sex + offset(log(z)) + (1 | site)", family="poisson")
    assert list(only.covariates) == ["sex"]
    assert list(only.covariates_and_offsets) == ["sex", "z"]
    assert list(only.labels) == ["site"]
    assert only.trials == ""
    fixed = posed("s | trials(9) ~ x", family="binomial")
    assert (fixed.trials, fixed.fixed_trials) == ("", 9.0)
    assert not fixed.has_effects


def test_the_coefficients_of_a_formula_may_have_flat_priors():
    assert posed("y ~ x", default_priors="brms").flat_coefficients == ("b",)
    assert posed("y ~ x").flat_coefficients == ()


def test_a_program_without_a_rule_has_no_groups_and_no_family(own_program):
    text = "data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }"
    program = own_program("bare", text)
    found = Model(program, program.read({"N": 2, "y": [1.0, 2.0]}))
    assert (found.groups, found.trials, found.is_ordinal, found.predicts_rows) == (
        {},
        "",
        False,
        False,
    )
    with pytest.raises(ConfigError, match=r"bare does not declare how rows .* add \[prediction\]"):
        _ = found.family


def test_rule_and_levels_are_computed_once(monkeypatch):
    counts = {"frozen": 0, "parse": 0}
    frozen, parse = prediction.frozen, ast.parse

    def counted_frozen(data):
        counts["frozen"] += 1
        return frozen(data)

    def counted_parse(text, *args, **named):
        counts["parse"] += text.strip() == fit.model.rule.linear_predictor
        return parse(text, *args, **named)

    how = {"family": "poisson", **SHORT}
    fit = pyflowers.fit("y ~ x + sex + (x | site)", FRAME, **how)
    prediction._parsed.cache_clear()
    monkeypatch.setattr(model_module, "frozen", counted_frozen)
    monkeypatch.setattr(ast, "parse", counted_parse)
    pyflowers.effects(fit)
    pyplot.close(conditional_effects(fit, "x"))
    pyflowers.check(fit)
    assert counts == {"frozen": 1, "parse": 1}


RATES = """
data { int<lower=0> N; int<lower=1> P; array[N] int<lower=1, upper=P> g;
  array[N] int<lower=0> y; }
parameters { real mu; real<lower=0> tau; vector[P] a; }
model { mu ~ normal(0, 2); tau ~ normal(0, 1); a ~ normal(mu, tau); y ~ poisson_log(a[g]); }
"""
RULE = """
data = { g = { column = "site", index = true } }
table = { group = "site" }
roles = { group_mean = "a" }
[prediction]
family = "poisson"
linear_predictor = "a[g]"
effects = { a = "normal(mu, tau)" }
"""


@pytest.fixture
def rates(own_program):
    return pyflowers.fit(own_program("rates", RATES, RULE), FRAME, **SHORT)


def test_a_program_of_ones_own_is_checked_and_compared_by_its_rule(rates):
    eta = rates.draws["a"][..., rates.data["g"] - 1]
    wanted = find_family("poisson").log_lik(rates.data.y, eta, {})
    np.testing.assert_allclose(rates.log_likelihood(), wanted, rtol=1e-12)
    assert "group_outlier" in pyflowers.check(rates).table().index
    assert np.isfinite(pyflowers.loo([rates]).best.elpd)


def test_the_next_observation_of_a_group_and_of_a_new_one(rates):
    parts = {part.title: part.quantity.values for part in pyflowers.predict(rates).parts}
    assert list(parts) == ["new observation", "new site", "mean of a new site"]
    assert [its.shape for its in parts.values()] == [(2, 50, 5), (2, 50, 1), (2, 50, 1)]
    many = {name: np.repeat(its[:1, :1], 20_000, axis=1) for name, its in rates.draws.items()}
    log_rate = np.log(rates.model.new_group(many, 1).expected()[0, :, 0])
    mu, tau = many["mu"][0, 0], many["tau"][0, 0]
    assert abs(log_rate.mean() - mu) < 5 * tau / np.sqrt(20_000)
    assert log_rate.std() == pytest.approx(tau, rel=0.03)
    next_one = rates.model.next_of_groups(many, np.random.default_rng(2))[0]
    mean = np.exp(many["a"][0, 0])
    assert (np.abs(next_one.mean(axis=0) - mean) < 5 * np.sqrt(mean / 20_000)).all()


def test_a_group_is_not_left_out_without_its_density(rates):
    assert rates.program.can(Capability.HELD_OUT)
    with pytest.raises(ConfigError, match="rates has no new_group, the density of a group"):
        pyflowers.leave_one_group_out([rates])


def test_a_rule_with_covariates_predicts_rows(own_program):
    text = RATES.replace("y; }", "y; vector[N] x; }").replace("a[g]", "a[g] + x")
    program = own_program("more", text, RULE.replace('"a[g]"', '"a[g] + x"'))
    assert not program.predicts_groups
    assert program.answers_by_rule("y_rep")
