"""Coefficients that a prior fixes, ``b[x] ~ constant(0.5)``."""

import numpy as np
import pytest
from curves_by_hand import (
    assert_density,
    assert_engines_agree,
    assert_predicts_when_loaded,
    assert_prior_when_written,
    half_t,
    points_of,
    prior_of_line,
    table,
    with_factors,
)
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError
from pyflowers.fits.diagnostics import examine_prior
from pyflowers.programs.model import Model
from pyflowers.reports.sections.models import priors_of

pytestmark = pytest.mark.usefixtures("in_a_shell")

HOW = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 300}
FORMULA = "y ~ x + z + (x | g)"
GIVEN = {"b[x]": "constant(0.5)"}
LINKED = "y ~ x + I(x**2) + z"
"""The first two coefficients have a joint prior."""


def posed(formula=FORMULA, given=None, **how):
    program = Program.from_formula(formula, table(), priors=given or GIVEN, **how)
    data, _ = program.fill(program.read(table()), program.resolve_priors())
    return program, data


def posed_points():
    program, data = posed(centered=False)
    return program, data, with_factors(points_of(program, data))


def by_hand(data, its):
    """Return the log joint density of FORMULA, in which the coefficient of x is 0.5."""
    frame, numbers = table(), data.values
    own = {**its, "b": its["b_free"]}
    total = prior_of_line(own, numbers) + half_t(its["sigma"], numbers["sigma_scale"])
    total += half_t(its["sd_g"][0], numbers["sd_g_scale"][0])
    total += half_t(its["sd_g"][1], numbers["sd_g_scale"][1])
    total += 2 * (numbers["cor_g_eta"] - 1) * np.log(its["L_g"][1, 1])
    total += stats.norm.logpdf(its["z_g"]).sum()
    effects = (np.diag(its["sd_g"]) @ its["L_g"] @ its["z_g"]).T[data.labels["g"].codes]
    x, z = (frame[name] - frame[name].mean() for name in "xz")
    eta = its["Intercept_at_means"] + 0.5 * x + its["b_free"][0] * z
    eta = eta + effects[:, 0] + effects[:, 1] * frame.x
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


def test_the_density_is_that_of_the_definition():
    program, data, points = posed_points()
    assert_density(program, data, points, lambda its: by_hand(data, its))


def of_linked(data, its):
    """Return the log joint density of LINKED, in which the coefficient of z is -1."""
    frame, numbers = table(), data.values
    own = {**its, "b": its["b_free"]}
    total = prior_of_line(own, numbers) + half_t(its["sigma"], numbers["sigma_scale"])
    x, z = frame.x - frame.x.mean(), frame.z - frame.z.mean()
    square = frame.x**2 - (frame.x**2).mean()
    rest = square - np.polyval(np.polyfit(x, square, 1), x)
    eta = its["Intercept_at_means"] + its["b_free"][0] * x + its["b_free"][1] * rest - z
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


def test_others_keep_their_joint_prior():
    program, data = posed(LINKED, {"b[z]": "constant(-1)"})
    points = points_of(program, data)
    assert_density(program, data, points, lambda its: of_linked(data, its))


@pytest.mark.slow
def test_both_engines_have_one_density_and_gradient():
    assert_engines_agree(*posed_points())


def test_the_program_states_the_value_as_a_person_would():
    program, _ = posed()
    lines = [line.strip() for line in program.source.text.splitlines()]
    assert "vector<multiplier=b_unit>[1] b_free; // elements of b that are not fixed" in lines
    assert "vector[1] b_unit = sqrt(N ./ columns_dot_self(X_centered[ : , {2}])');" in lines
    at = lines.index("b[{2}] = b_free;")
    assert lines[at + 1] == "b[1] = 0.5; // x, fixed"
    assert "lprior += normal_lpdf(b[2] | 0, b_scale);" in lines
    assert "b_scale[x]" not in program.declaration.priors
    whole, _ = posed("y ~ x", {"b": "constant(0.5)"})
    assert "b_free" not in whole.source.text
    assert "b_unit" not in whole.source.text


def test_prior_draws_are_those_of_the_definition(tmp_path):
    program, data = posed()
    draws = assert_prior_when_written(program, table(), 2000, tmp_path / "again.stan")
    assert (draws["b"][..., 0] == 0.5).all()
    z = draws["b"][0, :, 1] / data.values["b_scale"][0]
    assert stats.kstest(z, "norm").pvalue > 1e-4
    at_means = draws["Intercept"] + draws["b"] @ data.values["X_mean"]
    location, scale = (data.values[f"Intercept_{name}"] for name in ("location", "scale"))
    assert stats.kstest((at_means[0] - location) / scale, stats.t(3).cdf).pvalue > 1e-4
    linked, _ = posed(LINKED, {"b[z]": "constant(-1)"})
    draws = assert_prior_when_written(linked, table(), 50, tmp_path / "linked.stan")
    assert (draws["b"][..., 2] == -1).all()


def test_the_table_of_priors_has_the_value():
    row = posed()[0].priors.loc["b[x]"]
    assert row[["prior", "5%", "95%", "default"]].tolist() == ["constant(0.5)", 0.5, 0.5, "no"]
    assert row["on the response's scale"] == ""


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit(FORMULA, table(), priors=GIVEN, **HOW)


def test_predictions_are_the_definition(fit):
    frame, its = table().head(4), fit.draws
    r = its["r_g"][:, :, fit.data.labels["g"].codes[:4]]
    line = its["Intercept"][..., None] + 0.5 * frame.x.to_numpy()
    line = line + its["b"][..., [1]] * frame.z.to_numpy()
    own = line + r[..., 0] + r[..., 1] * frame.x.to_numpy()
    found = pyflowers.predict(fit, frame, kind="linear").draws()
    np.testing.assert_allclose(found, own, rtol=1e-10, atol=1e-10)
    typical = pyflowers.predict(fit, frame, kind="linear", groups="none").draws()
    np.testing.assert_allclose(typical, line, rtol=1e-10, atol=1e-10)
    new = pyflowers.predict(fit, frame.assign(g="new"), kind="linear").draws()
    assert np.isfinite(new).all()


def test_all_that_follows_a_fit(fit, tmp_path):
    summary = fit.summary()
    assert summary.loc["b[x]", ["mean", "sd"]].tolist() == [0.5, 0.0]
    assert "b[x]: the same in every draw" in str(summary.attrs["notes"])
    names = [check.name for check in examine_prior(fit.model, summary, fit.draws).checks]
    assert "median of b[x]" not in names
    assert "median of b[z]" in names
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    effects = pyflowers.effects(fit).table()
    np.testing.assert_allclose(effects["median"].iloc[0], 0.5, rtol=1e-6)
    assert any(str(each).startswith("b[z]") for each in pyflowers.sensitivity(fit).table().index)
    assert priors_of(fit)["b[x]"] == "constant(0.5)"
    assert_predicts_when_loaded(fit, table(), tmp_path / "run")
    pyflowers.report(fit, tmp_path / "report.html")
    assert "constant(0.5)" in (tmp_path / "report.html").read_text()


def test_what_the_likelihood_says_of_others_is_given_the_value(fit):
    """It is that of a fit to the response without the fixed part."""
    frame = table()
    rest = frame.assign(y=frame.y - 0.5 * frame.x)
    other = pyflowers.fit("y ~ z + (x | g)", rest, **HOW)
    found, expected = (
        each.program.python.likelihood_alone(each.draws, each.data)["b"] for each in (fit, other)
    )
    assert found.variance[0] == 0
    assert found.estimate[0] == 0.5
    np.testing.assert_allclose(found.estimate[1], expected.estimate[0], atol=0.02)
    np.testing.assert_allclose(found.variance[1], expected.variance[0], rtol=0.2)


@pytest.mark.parametrize(
    ("formula", "given", "family"),
    [
        ("count ~ x + z", {"b[z]": "constant(0.1)"}, "poisson"),
        ("level ~ x + z", {"b[z]": "constant(0.1)"}, "cumulative"),
        ("f ~ x + z", {"b[z]": "constant(0.1)", "b_mub[x]": "constant(0)"}, "categorical"),
        ("y ~ x; sigma ~ x + z", {"b_sigma[z]": "constant(0.1)"}, "gaussian"),
        ("y ~ x", {"b[x]": "constant(0)"}, "gaussian"),
        ("y ~ 0 + f", {"b[fb]": "constant(0.3)"}, "gaussian"),
    ],
)
def test_other_families_and_predictors_sample(formula, given, family):
    how = {**HOW, "warmup": 100, "draws": 50}
    fit = pyflowers.fit(formula, table(), family=family, priors=given, **how)
    name, text = next(iter(given.items()))
    if family == "categorical":
        name = name.replace("b[", "b_muc[")
    row = fit.summary(all=True).loc[name]
    np.testing.assert_allclose([row["mean"], row["sd"]], [float(text[9:-1]), 0], atol=1e-12)
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert fit.verdict is not None


def test_a_formula_without_anything_to_sample_is_refused():
    with pytest.raises(ConfigError, match="its priors fix every parameter, so there is nothing"):
        posed("count ~ 0 + x", {"b": "constant(1)"}, family="poisson")


def test_others_may_have_flat_priors():
    program, data = posed("y ~ x + z", default_priors="brms")
    assert Model(program, data).flat_coefficients == ("b",)


def test_the_engine_exact_names_the_coefficient():
    with pytest.raises(ConfigError, match=r"does not support the fixed b\[x\]; leave"):
        pyflowers.fit("y ~ x", table(), priors=GIVEN, engine="exact")
