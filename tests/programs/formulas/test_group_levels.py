"""Effects whose covariance depends on a level of their label, ``(x | gr(g, by=f))``."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from curves_by_hand import (
    LABELS,
    assert_density,
    assert_engines_agree,
    assert_predicts_when_loaded,
    assert_prior_when_written,
    half_t,
    points_of,
    prior_of_line,
    table,
)
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import DataError
from pyflowers.programs.model import Model

HOW = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 300}
SITE = dict(zip(LABELS, "aabbba", strict=True))
FORMULAS = {
    "together": "y ~ x + (x | gr(g, by=site))",
    "apart": "y ~ x + (x || gr(g, by=site))",
    "sigma": "y ~ x; sigma ~ x + (x | gr(g, by=site))",
}


def rows():
    frame = table()
    frame["site"] = frame.g.map(SITE)
    return frame


def posed(name):
    program = Program.from_formula(FORMULAS[name], rows())
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    return program, data


def posed_points(name):
    program, data = posed(name)
    points = points_of(program, data)
    for i, point in enumerate(points):
        for factor in (its for its in point if its.startswith("L_g")):
            angles = np.tanh([0.3 * (i - 10), 0.2 * (5 - i)])
            cholesky = [[[1.0, 0.0], [angle, np.sqrt(1 - angle**2)]] for angle in angles]
            point[factor] = np.array(cholesky)
    return program, data, points


def of_levels(data, its, tag=""):
    """Return the effects of each label, shape (label, 2), and the log density of their priors."""
    numbers, total = data.values, stats.norm.logpdf(its[f"z_g{tag}"]).sum()
    effects = []
    for j, label in enumerate(data.labels["g"].names):
        level = "ab".index(SITE[label])
        factor = np.diag(its[f"sd_g{tag}"][level])
        if f"L_g{tag}" in its:
            factor = factor @ its[f"L_g{tag}"][level]
        effects.append(factor @ its[f"z_g{tag}"][:, j])
    for level in range(2):
        scale = np.broadcast_to(numbers[f"sd_g{tag}_scale"], 2)
        total += sum(half_t(sd, s) for sd, s in zip(its[f"sd_g{tag}"][level], scale, strict=True))
        if f"L_g{tag}" in its:
            eta = numbers[f"cor_g{tag}_eta"]
            total += 2 * (eta - 1) * np.log(its[f"L_g{tag}"][level][1, 1])
    return np.array(effects), total


def by_hand(name, data, its):
    """Return the log joint density by definition."""
    frame, numbers = rows(), data.values
    x, codes = frame.x - frame.x.mean(), data.labels["g"].codes
    total, line = prior_of_line(its, numbers), its["Intercept_at_means"] + its["b"] * x
    if name == "sigma":
        effects, prior = of_levels(data, its, "_sigma")
        location, scale = (numbers[f"Intercept_sigma_{end}"] for end in ("location", "scale"))
        total += stats.t.logpdf((its["Intercept_sigma_at_means"] - location) / scale, 3)
        total += stats.norm.logpdf(its["b_sigma"], 0, numbers["b_sigma_scale"]).sum()
        log_sigma = its["Intercept_sigma_at_means"] + its["b_sigma"] * x
        log_sigma = log_sigma + effects[codes, 0] + effects[codes, 1] * frame.x
        return total + prior + stats.norm.logpdf(frame.y, line, np.exp(log_sigma)).sum()
    effects, prior = of_levels(data, its)
    total += prior + half_t(its["sigma"], numbers["sigma_scale"])
    eta = line + effects[codes, 0] + effects[codes, 1] * frame.x
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


@pytest.mark.parametrize("name", FORMULAS)
def test_the_density_is_that_of_the_definition(name):
    program, data, points = posed_points(name)
    assert_density(program, data, points, partial(by_hand, name, data))


@pytest.mark.slow
def test_both_engines_have_one_density_and_gradient():
    assert_engines_agree(*posed_points("together"))


def test_the_program_states_the_population_of_each_level():
    program, _ = posed("together")
    lines = [line.strip() for line in program.source.text.splitlines()]
    at = lines.index("for (j in 1 : N_g) {")
    assert lines[at + 1 : at + 4] == [
        "matrix[M_g, M_g] factor;",
        "factor = diag_pre_multiply(sd_g[by_g[j]], L_g[by_g[j]]);",
        "r_g[j] = (factor * z_g[ : , j])';",
    ]
    at = lines.index("for (l in 1 : N_by_g) {")
    assert lines[at + 1 : at + 3] == [
        "lprior += student_t_lpdf(sd_g[l] | 3, 0, sd_g_scale);",
        "lprior += lkj_corr_cholesky_lpdf(L_g[l] | cor_g_eta);",
    ]
    rule = program.declaration.prediction
    assert rule.effects == {"r_g": "multi_normal(sd_g[by_g], cor_g[by_g])"}
    assert program.priors.loc["sd_g[x]", "prior"].startswith("student_t(3, 0, ")
    assert program.priors.loc["cor_g", "prior"] == "lkj(2)"


@pytest.mark.parametrize("name", FORMULAS)
def test_prior_draws_are_those_of_the_definition(name, tmp_path):
    program, data = posed(name)
    draws = assert_prior_when_written(program, rows(), 3000, tmp_path / "again.stan")
    tag = "_sigma" if name == "sigma" else ""
    sd, r = draws[f"sd_g{tag}"][0], draws[f"r_g{tag}"][0]
    assert sd.shape[1:] == (2, 2)
    scale = np.broadcast_to(data.values[f"sd_g{tag}_scale"], 2)
    t = stats.t(3)
    assert stats.kstest(2 * t.cdf(sd[:, 1, 1] / scale[1]) - 1, "uniform").pvalue > 1e-4
    for j, label in enumerate(data.labels["g"].names):
        z = r[:, j] / sd[:, "ab".index(SITE[label])]
        assert stats.kstest(z[:, 1], "norm").pvalue > 1e-4
        if name != "apart":
            product = z[:, 0] * z[:, 1]
            own, other = (draws[f"cor_g{tag}"][0][:, i, 0] for i in ("ab".index(SITE[label]), 0))
            assert np.corrcoef(product, own)[0, 1] > 0.2
            if SITE[label] == "b":
                assert abs(np.corrcoef(product, other)[0, 1]) < 0.1


@pytest.fixture(scope="module")
def fits():
    found = {}

    def fit(name):
        if name not in found:
            found[name] = pyflowers.fit(FORMULAS[name], rows(), **HOW)
        return found[name]

    return fit


@pytest.mark.parametrize("name", ["together", "apart"])
def test_predictions_are_the_definition(name, fits):
    fit, frame = fits(name), rows().head(4)
    its, x = fit.draws, frame.x.to_numpy()
    r = its["r_g"][:, :, fit.data.labels["g"].codes[:4]]
    line = its["Intercept"][..., None] + its["b"] * x
    found = pyflowers.predict(fit, frame, kind="linear").draws()
    own = line + r[..., 0] + r[..., 1] * x
    np.testing.assert_allclose(found, own, rtol=1e-10, atol=1e-10)
    typical = pyflowers.predict(fit, frame, kind="linear", groups="none").draws()
    np.testing.assert_allclose(typical, line, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["together", "apart"])
def test_a_new_label_is_drawn_from_the_population_of_its_level(name, fits):
    fit, num = fits(name), 40
    new = [f"new{i}" for i in range(num)]
    frame = pd.DataFrame({"x": np.repeat([0.0, 1.0], num), "g": new * 2})
    frame["site"] = ["ab"[i % 2] for i in range(num)] * 2
    drawn = pyflowers.predict(fit, frame, kind="linear").draws().values
    its = fit.draws
    intercepts = drawn[..., :num] - its["Intercept"][..., None]
    slopes = drawn[..., num:] - drawn[..., :num] - its["b"]
    for level in range(2):
        sd = its["sd_g"][:, :, level]
        one = intercepts[..., level::2] / sd[..., :1]
        other = slopes[..., level::2] / sd[..., 1:]
        if name == "together":
            cor = its["cor_g"][:, :, level]
            other = (other - cor * one) / np.sqrt(1 - cor**2)
        assert stats.kstest(one.ravel(), "norm").pvalue > 1e-4
        assert stats.kstest(other.ravel(), "norm").pvalue > 1e-4
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02
    # A row has the same effects by itself as in a table.
    alone = pyflowers.predict(fit, frame.tail(1), kind="linear").draws().values
    np.testing.assert_array_equal(alone[..., 0], drawn[..., -1])


def test_the_variance_over_the_population_is_that_of_the_level(fits):
    fit = fits("together")
    predictor = Model(fit.program, fit.data).predictor(fit.draws)
    predictor = replace(predictor, groups="population")
    x, site = rows().x.to_numpy(), rows().site.map({"a": 0, "b": 1}).to_numpy()
    sd, cor = fit.draws["sd_g"][:, :, site], fit.draws["cor_g"][:, :, site, 0]
    expected = sd[..., 0] ** 2 + (sd[..., 1] * x) ** 2 + 2 * x * cor * sd[..., 0] * sd[..., 1]
    np.testing.assert_allclose(predictor.variances()["r_g"], expected, rtol=1e-8)


def test_all_that_follows_a_fit(fits, tmp_path):
    fit = fits("together")
    names = fit.summary().index
    assert "sd_g[b,x]" in names
    assert "cor_g[a,Intercept,x]" in names
    assert fit.program.prior_of("sd_g[b,x]", fit.data.values).text.startswith("t(3, 0, ")
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert len(pyflowers.effects(fit).table())
    assert any(str(each).startswith("sd_g") for each in pyflowers.sensitivity(fit).table().index)
    alone = fit.program.python.likelihood_alone(fit.draws, fit.data)
    assert alone["sd_g"].estimate.shape == (4,)
    wide = pyflowers.predict(fit, rows().head(3), kind="expected", groups="population")
    assert np.isfinite(wide.draws()).all()
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")
    path = pyflowers.report(fit, tmp_path / "report.html")
    assert "r_g ~ multi_normal(sd_g[by_g], cor_g[by_g])" in path.read_text()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            rows().query("site == 'a'").head(3).assign(site="b"),
            "has site b here and a in the fit, but its effects",
        ),
        (
            pd.DataFrame({"x": 1.0, "g": "new", "site": ["a", "b"]}),
            "row 2: g new has site b here and a in another row, but its effects come from",
        ),
        (pd.DataFrame({"x": 1.0, "g": ["new"]}), "no column 'site'"),
        (pd.DataFrame({"x": 1.0, "g": ["new"], "site": "c"}), "site is 'c', which is not in the"),
    ],
)
def test_a_level_that_is_not_that_of_the_label_is_refused(frame, message, fits):
    with pytest.raises(DataError) as caught:
        pyflowers.predict(fits("together"), frame)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
