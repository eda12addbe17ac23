"""Intercepts, and some of several sds, that a prior fixes: ``Intercept ~ constant(0.3)``."""

import numpy as np
import pytest
from curves_by_hand import (
    KINSHIP,
    assert_density,
    assert_engines_agree,
    assert_predicts_when_loaded,
    assert_prior_when_written,
    half_t,
    points_of,
    table,
    with_factors,
)
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError
from pyflowers.fits.diagnostics import examine_prior

pytestmark = pytest.mark.usefixtures("in_a_shell")

HOW = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 300}
FORMULA = "y ~ x + (x | g)"
GIVEN = {"Intercept": "constant(0.3)", "sd_g[Intercept]": "constant(0.7)"}
KNOWN = {"A": KINSHIP}


def posed(formula=FORMULA, given=None, **how):
    program = Program.from_formula(formula, table(), priors=given or GIVEN, **how)
    data, _ = program.fill(program.read(table()), program.resolve_priors())
    return program, data


def posed_points():
    program, data = posed(centered=False)
    return program, data, with_factors(points_of(program, data))


def by_hand(data, its):
    """Return the log joint density of FORMULA, where the intercept at the mean of x is 0.3."""
    frame, numbers = table(), data.values
    total = stats.norm.logpdf(its["b"], 0, numbers["b_scale"]).sum()
    total += half_t(its["sigma"], numbers["sigma_scale"])
    total += half_t(its["sd_g_free"], numbers["sd_g_scale"])
    total += 2 * (numbers["cor_g_eta"] - 1) * np.log(its["L_g"][1, 1])
    total += stats.norm.logpdf(its["z_g"]).sum()
    sds = np.diag([0.7, its["sd_g_free"][0]])
    effects = (sds @ its["L_g"] @ its["z_g"]).T[data.labels["g"].codes]
    eta = 0.3 + its["b"][0] * (frame.x - frame.x.mean())
    eta = eta + effects[:, 0] + effects[:, 1] * frame.x
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


def test_the_density_is_that_of_the_definition():
    program, data, points = posed_points()
    assert_density(program, data, points, lambda its: by_hand(data, its))


@pytest.mark.slow
def test_both_engines_have_one_density_and_gradient():
    assert_engines_agree(*posed_points())


def test_the_program_states_the_values_as_a_person_would():
    program, _ = posed()
    lines = [line.strip() for line in program.source.text.splitlines()]
    assert "real Intercept_at_means = 0.3; // fixed at the covariates' means" in lines
    assert "vector<lower=0>[1] sd_g_free; // sds of the effects by g that are not fixed" in lines
    at = lines.index("sd_g[{2}] = sd_g_free;")
    assert lines[at + 1] == "sd_g[1] = 0.7; // Intercept, fixed"
    assert "lprior += student_t_lpdf(sd_g[2] | 3, 0, sd_g_scale);" in lines
    assert {"Intercept_scale", "sd_g_scale[Intercept]"}.isdisjoint(program.declaration.priors)
    alone, _ = posed("y ~ 1", {"Intercept": "constant(-2)"})
    assert "real Intercept = -2; // fixed" in alone.source.text


def test_prior_draws_are_those_of_the_definition(tmp_path):
    program, data = posed()
    draws = assert_prior_when_written(program, table(), 2000, tmp_path / "again.stan")
    at_means = draws["Intercept"] + draws["b"] @ data.values["X_mean"]
    np.testing.assert_allclose(at_means, 0.3, atol=1e-10)
    assert (draws["sd_g"][..., 0] == 0.7).all()
    t = draws["sd_g"][0, :, 1] / data.values["sd_g_scale"][0]
    assert stats.kstest(t, lambda x: 2 * stats.t(3).cdf(x) - 1).pvalue > 1e-4
    assert stats.kstest(draws["r_g"][0, :, 0, 0] / 0.7, "norm").pvalue > 1e-4


def test_the_table_of_priors_has_the_values():
    found = posed("y ~ 1 + (x | g)")[0].priors
    for name, value in (("Intercept", 0.3), ("sd_g[Intercept]", 0.7)):
        row = found.loc[name, ["prior", "5%", "95%", "default"]].tolist()
        assert row == [f"constant({value})", value, value, "no"]


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit(FORMULA, table(), priors=GIVEN, **HOW)


def test_predictions_are_the_definition(fit):
    frame, its = table().head(4), fit.draws
    x, b = frame.x.to_numpy(), its["b"][..., [0]]
    r = its["r_g"][:, :, fit.data.labels["g"].codes[:4]]
    line = 0.3 + b * (x - table().x.mean())
    found = pyflowers.predict(fit, frame, kind="linear").draws()
    np.testing.assert_allclose(found, line + r[..., 0] + r[..., 1] * x, rtol=1e-10, atol=1e-10)
    typical = pyflowers.predict(fit, frame, kind="linear", groups="none").draws()
    np.testing.assert_allclose(typical, line, rtol=1e-10, atol=1e-10)
    new = pyflowers.predict(fit, frame.assign(g="new", x=0.0), kind="linear").draws()
    drawn = (new[..., 0] - its["Intercept"]) / 0.7
    assert stats.kstest(np.ravel(drawn), "norm").pvalue > 1e-4


def test_all_that_follows_a_fit(fit, tmp_path):
    summary = fit.summary()
    assert summary.loc["sd_g[Intercept]", ["mean", "sd"]].tolist() == [0.7, 0.0]
    names = [check.name for check in examine_prior(fit.model, summary, fit.draws).checks]
    assert not [name for name in names if "Intercept" in name and "cor" not in name]
    assert "median of b[x]" in names
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert np.isfinite(pyflowers.effects(fit).table()["median"]).all()
    rows = [str(each) for each in pyflowers.sensitivity(fit).table().index]
    assert any(row.startswith("b[x]") for row in rows)
    assert_predicts_when_loaded(fit, table(), tmp_path / "run")
    pyflowers.report(fit, tmp_path / "report.html")
    assert "constant(0.7)" in (tmp_path / "report.html").read_text()


def test_what_the_likelihood_says_of_others_is_given_the_intercept():
    """It is that of a fit without an intercept to the rest of the response."""
    frame = table()
    rest = frame.assign(y=frame.y - 0.3, x=frame.x - frame.x.mean())
    found = pyflowers.fit("y ~ x + (1 | g)", frame, priors={"Intercept": "constant(0.3)"}, **HOW)
    other = pyflowers.fit("y ~ 0 + x + (1 | g)", rest, **HOW)
    one, two = (its.program.python.likelihood_alone(its.draws, its.data) for its in (found, other))
    assert not [name for name in one if name.startswith("Intercept")]
    np.testing.assert_allclose(one["b"].estimate, two["b"].estimate, atol=0.02)
    np.testing.assert_allclose(one["b"].variance, two["b"].variance, rtol=0.2)


@pytest.mark.parametrize(
    ("formula", "given", "family", "how"),
    [
        ("count ~ 1", {"Intercept": "constant(0)", "shape": "exponential(1)"}, "negbinomial", {}),
        ("f ~ x", {"Intercept_mub": "constant(0)"}, "categorical", {}),
        ("f ~ x", {"Intercept": "constant(0)"}, "categorical", {}),
        ("y ~ x; sigma ~ x", {"Intercept_sigma": "constant(-1)"}, "gaussian", {}),
        ("y ~ x + (1 | g)", {"Intercept": "constant(0)"}, "gaussian", {"centered": True}),
        ("y ~ x + (x | g)", GIVEN, "gaussian", {"centered": True}),
        ("y ~ x + (x || g)", {"sd_g[x]": "constant(0.1)"}, "gaussian", {}),
        ("y ~ (x + z | g)", {"sd_g": "constant(1)", "sd_g[z]": "normal(0, 1)"}, "gaussian", {}),
        ("y ~ (x | gr(g, dist=student))", {"sd_g[x]": "constant(0.1)"}, "gaussian", {}),
        ("y ~ (x | gr(g, cov=A))", {"sd_g[x]": "constant(0.1)"}, "gaussian", {"known": KNOWN}),
        ("y ~ (x | gr(g, cov=A))", {"sd_g": "uniform(0, 2)"}, "gaussian", {"known": KNOWN}),
        ("y ~ (1 | gr(g, cov=A))", {"sd_g": "uniform(0, 2)"}, "gaussian", {"known": KNOWN}),
        ("y ~ (x | g)", {"sd_g[x]": "constant(0.1)", "sd_g": "uniform(0, 2)"}, "gaussian", {}),
    ],
)
def test_other_formulas_sample(formula, given, family, how):
    how = {**how, **HOW, "warmup": 60, "draws": 20, "chains": 1}
    fit = pyflowers.fit(formula, table(), family=family, priors=given, **how)
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    fixed = {name: text[9:-1] for name, text in given.items() if text.startswith("constant(")}
    found = pyflowers.prior(fit.program, table(), draws=20, seed=1).draws
    for name, value in fixed.items():
        name, _, label = name.partition("[")
        its = found.get(name)
        if label and its is not None:
            place = fit.data.coords[f"effects_{name[3:]}"].index(label[:-1])
            assert (its[..., place] == float(value)).all()


def test_sds_can_be_fixed_at_different_values():
    """All of them are then numbers of the data block, as if one value were given."""
    given = {"sd_g": "constant(2)", "sd_g[x]": "constant(0.5)"}
    program, data = posed("y ~ (x | g)", given)
    assert data.values["sd_g"].tolist() == [2.0, 0.5]
    draws = pyflowers.prior(program, table(), draws=2000, seed=1).draws["r_g"]
    np.testing.assert_allclose(draws[0, :, 0].std(axis=0), [2.0, 0.5], rtol=0.1)


def test_the_engine_exact_names_the_intercept():
    given = {"Intercept": "constant(0)"}
    with pytest.raises(ConfigError, match=r"does not support the fixed Intercept; leave"):
        pyflowers.fit("y ~ x", table(), priors=given, engine="exact")
