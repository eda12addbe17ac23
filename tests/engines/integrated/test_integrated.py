"""The engine `exact` for formulas: a fit like any other, judged by its weights."""

import functools
import json
import re

import numpy as np
import pandas as pd
import pytest
from mixed_models import check_against_nuts, posed, table
from scipy import stats

import pyflowers
from pyflowers.engines import EngineLacksError, integrated
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit

RATS = "weight ~ age + (age | rat)", "examples/rats/rats.csv"


@functools.cache
def rats():
    return pyflowers.fit(*RATS, seed=1, engine="exact")


def test_nuts_has_the_same_posterior():
    nuts = pyflowers.fit(*RATS, seed=2, engine="stanli", draws=2_000)
    check_against_nuts(rats(), nuts)
    with pytest.raises(AssertionError):
        check_against_nuts(rats(), nuts, scale=1.02)
    # lprior is that of Stan, with its constants.
    medians = [np.median(fit.draws["lprior"]) for fit in (rats(), nuts)]
    assert medians[0] == pytest.approx(medians[1], abs=0.02)


def test_the_fit_is_judged_recorded_and_saved(tmp_path):
    fit = rats()
    names = [check.name for check in fit.diagnostics.checks]
    assert names == [
        "draws",
        "infinite quantiles",
        "Pareto k",
        "weights' ESS",
        "error of the log integrals",
    ]
    assert fit.diagnostics.passed
    fit.save(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["weighted"]
    assert record["independent"]["pareto_k"] < 0.7
    assert record["independent"]["weights_ess"] > 2_000
    again = Fit.load(tmp_path / "run")
    assert np.array_equal(again.draws["r_rat"], fit.draws["r_rat"])


def test_a_seed_gives_the_same_draws_on_any_number_of_cores():
    one = pyflowers.fit(*RATS, seed=1, engine="exact", draws=200, cores=1)
    two = pyflowers.fit(*RATS, seed=1, engine="exact", draws=200, cores=2)
    assert all(np.array_equal(one.draws[name], two.draws[name]) for name in one.draws)


def test_checks_effects_and_predictions_follow():
    fit = rats()
    assert pyflowers.check(fit).verdict.data.checks
    assert "age" in str(pyflowers.effects(fit))
    new = pd.DataFrame({"rat": ["new"], "age": [20.0]})
    found = pyflowers.predict(fit, new).table()
    assert np.isfinite(found[["median", "5%", "95%"]].to_numpy(float)).all()


def test_poor_weights_fail_and_name_nuts():
    fit = rats()
    measures = {"pareto_k": 0.9, "weights_ess": 120.0, "points": 4_000.0, "integral_error": 0.0}
    record = fit.record.model_copy(update={"independent": measures})
    part = Fit(fit.program, fit.data, fit.draws, fit.stats, record).diagnostics
    assert [check.name for check in part.failed] == ["Pareto k", "weights' ESS"]
    assert "NUTS" in part.failed[0].advice
    assert 'engine="auto"' in part.failed[0].advice
    # An error that is not finite is not in the record.
    measures = {"pareto_k": 0.1, "weights_ess": 4_000.0, "points": 4_000.0}
    record = fit.record.model_copy(update={"independent": measures})
    part = Fit(fit.program, fit.data, fit.draws, fit.stats, record).diagnostics
    assert [check.name for check in part.failed] == ["error of the log integrals"]


def test_an_edited_program_is_refused(tmp_path):
    program = pyflowers.Program.from_formula(*RATS)
    path = program.write(tmp_path / "growth.stan")
    path.write_text(path.read_text().replace("normal_lpdf(b | 0, b_scale)", "0"))
    with pytest.raises(ConfigError, match="was edited"):
        pyflowers.fit(path, RATS[1], engine="exact")


def test_what_does_not_apply_is_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(integrated, "weighted_points", None)
    frame = table(40).assign(n=1)
    with pytest.raises(EngineLacksError, match=re.escape("leave out --engine exact")):
        pyflowers.fit("n ~ x + (1 | g) + (1 | h)", frame, family="poisson", engine="exact", seed=1)
    rows = np.arange(18_000)
    frame = pd.DataFrame({"a": rows % 9_000, "b": rows % 4_500, "y": rows % 7 + 0.1})
    with pytest.raises(EngineLacksError, match="4,501 coefficients and effects remain"):
        pyflowers.fit("y ~ 1 + (1 | a) + (1 | b)", frame, engine="exact", seed=1)


@pytest.mark.parametrize(
    "formula", ["y ~ x + (1 | g); sigma ~ z", "y ~ 1; sigma ~ offset(z) + x + I(x**2)"]
)
def test_a_formula_for_another_parameter_is_sampled(formula):
    exact = pyflowers.fit(formula, table(), engine="exact", seed=1)
    nuts = pyflowers.fit(formula, table(), engine="stanli", seed=2)
    check_against_nuts(exact, nuts)
    medians = [np.median(fit.draws["lprior"]) for fit in (exact, nuts)]
    assert medians[0] == pytest.approx(medians[1], abs=0.1)


@pytest.mark.parametrize(
    ("rhs", "has_intercept"),
    [("x; zi ~ z", True), ("x; zi ~ 1", True), ("x; zi ~ 0 + z", False), ("x; hu ~ z", True)],
)
def test_an_intercept_whose_default_prior_has_no_numbers_in_the_data_is_stated(rhs, has_intercept):
    family = "hurdle_poisson" if "hu" in rhs else "zero_inflated_poisson"
    frame = table(40).assign(n=np.arange(40) % 4)
    _, _, model = posed(f"n ~ {rhs}", frame, family=family, default_priors="brms")
    own = [its for its in model.coefficients if its.name.startswith(f"Intercept_{rhs[3:5]}")]
    assert len(own) == has_intercept
    for its in own:
        density = its.priors[0].log_density(np.array([0.3]))
        assert density == pytest.approx(stats.logistic.logpdf(0.3))


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("y ~ x + (1 | g); sigma ~ (1 | g)", "2 group terms"),
        (
            "y ~ x + (1 | g) + (1 | h); sigma ~ x",
            "2 group terms, and for the family gaussian with a formula for sigma only one",
        ),
        ("y ~ x + (x + z | g); sigma ~ x", "3 effects vary by group, and for the family gaussian"),
        ("y ~ x; sigma ~ (1 | g)", "group effects on sigma"),
        ("y ~ s(x); sigma ~ z", "with a formula for sigma, s_x cannot be integrated out"),
        (
            "y | se(s) ~ x",
            "for the family student, standard errors and precisions are not supported",
        ),
    ],
)
def test_effects_of_another_parameter_are_refused(formula, reason):
    family, frame = "student" if "student" in reason else "gaussian", table(40).assign(s=0.5)
    with pytest.raises(EngineLacksError, match=reason):
        pyflowers.fit(formula, frame, family=family, engine="exact", seed=1)


@pytest.mark.parametrize(
    ("formula", "family", "what"),
    [
        ("y ~ mo(k) + (1 | g)", "gaussian", "the term mo"),
        ("y ~ x + (1 | gr(g, dist = student))", "gaussian", "the term r_g"),
        ("y ~ x + (1 | gr(g, by = h))", "gaussian", "the term r_g"),
        ("size ~ x", "shifted_lognormal", "ndt, whose bounds depend on the data"),
    ],
)
def test_a_part_that_states_no_density_is_refused_by_name(formula, family, what):
    frame = table(60).assign(size=lambda d: np.exp(d.y / 4))
    frame["h"] = np.where(frame.g < "d", "u", "v")
    frame["k"] = np.arange(60) % 3
    with pytest.raises(ConfigError, match=f"does not support {what}"):
        pyflowers.fit(formula, frame, family=family, engine="exact", seed=1)


def test_another_link_of_the_normal_family_is_not_taken_for_the_identity():
    frame = table(60).assign(size=lambda d: np.exp(d.y / 8))
    fit = pyflowers.fit("size ~ x", frame, family="gaussian(log)", engine="exact", seed=1)
    nuts = pyflowers.fit("size ~ x", frame, family="gaussian(log)", engine="stanli", seed=2)
    check_against_nuts(fit, nuts)


@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_given_priors_count(family):
    priors = {
        "Intercept": "student_t(4, 3, 2)",
        "b[x]": "normal(0.2, 0.1)",
        "sd_g": "exponential(2)",
        "sigma": "normal(0, 0.7)",
    }
    how = {"family": family, "priors": priors}
    exact = pyflowers.fit("y ~ x + z + (1 | g)", table(), engine="exact", seed=1, **how)
    nuts = pyflowers.fit("y ~ x + z + (1 | g)", table(), engine="stanli", seed=2, **how)
    check_against_nuts(exact, nuts)
    medians = [np.median(fit.draws["lprior"]) for fit in (exact, nuts)]
    assert medians[0] == pytest.approx(medians[1], abs=0.1)


@pytest.mark.parametrize(
    ("priors", "what"),
    [
        ({"b[x]": "normal(0, 1) T[0, ]"}, "the term X b"),
        ({"sd_g": "constant(1)"}, "the fixed sd_g"),
        ({"sd_g": "normal(0, 1) T[0.1, ]"}, "the term r_g"),
        ({"Intercept": "normal(0, 1) T[0, ]"}, "the term Intercept"),
    ],
)
def test_given_priors_that_bound_are_refused(priors, what):
    with pytest.raises(ConfigError, match=f"does not support {what}"):
        pyflowers.fit("y ~ x + (1 | g)", table(), engine="exact", seed=1, priors=priors)


def test_given_priors_of_a_known_covariance_count_or_are_refused():
    labels = sorted(table().g.unique())
    known = pd.DataFrame(np.eye(len(labels)) + 0.3, index=labels, columns=labels)
    formula, how = "y ~ x + (1 | gr(g, cov = A))", {"known": {"A": known}}
    _, _, model = posed(formula, table(), priors={"sd_g": "exponential(2)"}, **how)
    (prior,) = model.effects[0].sd.priors
    assert prior.log_density(np.array(0.7)) == pytest.approx(np.log(2) - 1.4)
    with pytest.raises(ConfigError, match="does not support the term r_g"):
        posed(formula, table(), priors={"sd_g": "normal(0, 1) T[0.1, ]"}, **how)
    with pytest.raises(
        EngineLacksError, match="with a formula for sigma, r_g cannot be integrated"
    ):
        pyflowers.fit(f"{formula}; sigma ~ z", table(), engine="exact", seed=1, **how)


def test_a_given_prior_of_correlations_counts():
    priors = {"cor_rat": "lkj(30)"}
    exact = pyflowers.fit(*RATS, engine="exact", seed=1, priors=priors)
    nuts = pyflowers.fit(*RATS, engine="stanli", seed=2, priors=priors)
    check_against_nuts(exact, nuts)
    medians = [np.median(fit.draws["lprior"]) for fit in (exact, nuts)]
    assert medians[0] == pytest.approx(medians[1], abs=0.1)


def test_a_given_prior_of_one_correlation_is_refused():
    priors = {"cor_g[Intercept,x]": "normal(0, 0.3)"}
    with pytest.raises(ConfigError, match="does not support the term Z_g r_g"):
        pyflowers.fit("y ~ x + (x | g)", table(), engine="exact", seed=1, priors=priors)


def test_keep_is_refused():
    with pytest.raises(EngineLacksError, match="leave out --keep r_rat"):
        pyflowers.fit(*RATS, seed=1, engine="exact", keep=("r_rat",))


def test_few_draws_come_from_many_points():
    fit = pyflowers.fit(*RATS, seed=1, engine="exact", draws=100)
    assert fit.record.independent["points"] == 1_000
    assert fit.diagnostics.passed


def test_a_comparison_calls_the_draws_weighted():
    found = pyflowers.compare(nuts=rats(), approximations=False)
    assert found.reference == "weighted"
    assert "weighted" in str(found)


@pytest.mark.slow
def test_a_report_calls_the_draws_weighted(tmp_path):
    pyflowers.report([rats()], tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "4,000 weighted draws from the posterior" in page
    assert "independent draws from the posterior" not in page


def test_populations_are_predicted_in_closed_form():
    fit = rats()
    new = pd.DataFrame({"rat": ["new", "new"], "age": [10.0, 20.0]})
    found = pyflowers.predict(fit, new, groups="population").draws().values
    expected = fit.draws["Intercept"][..., None] + fit.draws["b"] * np.array([10.0, 20.0])
    np.testing.assert_allclose(found, expected)
    frame = table(60).assign(size=lambda d: np.exp(d.y / 4))
    fit = pyflowers.fit("size ~ (1 | g)", frame, family="lognormal", engine="exact", seed=1)
    found = pyflowers.predict(fit, pd.DataFrame({"g": ["new"]}), groups="population").draws()
    variance = fit.draws["sigma"] ** 2 + fit.draws["sd_g"][..., 0] ** 2
    np.testing.assert_allclose(found.values[..., 0], np.exp(fit.draws["Intercept"] + variance / 2))


def test_sensitivity_to_the_prior_is_that_of_a_fit_by_nuts():
    exact = pyflowers.fit("y ~ x + (1 | g)", table(), engine="exact", seed=1)
    nuts = pyflowers.fit("y ~ x + (1 | g)", table(), engine="stanli", seed=2)
    one, other = (pyflowers.sensitivity(fit).distances for fit in (exact, nuts))
    assert np.abs(one - other).max(axis=None) < 0.05
    assert one["prior"].max() > 0.05
