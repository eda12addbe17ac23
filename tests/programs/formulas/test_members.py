"""Groups of which each row has several members, ``mm(g1, g2)``, by definition."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from curves_by_hand import (
    assert_calibrated,
    assert_density,
    assert_engines_agree,
    assert_one_sentence,
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
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.declaration import Value

HOW = {"seed": 1, "engine": "stanli", "warmup": 400, "draws": 400}


def rows():
    frame, rng = table(), np.random.default_rng(8)
    frame["g2"] = rng.choice(["g1", "g4", "h1", "h2"], len(frame))
    frame["w1"], frame["w2"] = rng.uniform(0.1, 2, (2, len(frame))).round(3)
    return frame


def equal(frame):
    return np.full((2, len(frame)), 0.5)


def scaled(frame):
    weights = frame[["w1", "w2"]].to_numpy().T
    return weights / weights.sum(axis=0)


def unscaled(frame):
    return frame[["w1", "w2"]].to_numpy().T


WEIGHTS = "weights = cbind(w1, w2)"
CASES = {
    "equal": ("y ~ x + (1 | mm(g, g2))", equal),
    "scaled": (f"y ~ x + (1 | mm(g, g2, {WEIGHTS}))", scaled),
    "unscaled": (f"y ~ x + (1 | mm(g, g2, {WEIGHTS}, scale = FALSE))", unscaled),
    "slopes": ("y ~ x + (x || mm(g, g2))", equal),
    "weighted_slopes": (f"y ~ x + (x || mm(g, g2, {WEIGHTS}))", scaled),
    "count": ("count ~ x + (1 | mm(g, g2))", equal),
}


def posed(name):
    family = "poisson" if name == "count" else "gaussian"
    program = Program.from_formula(CASES[name][0], rows(), family=family)
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    return program, data


def of_members(name, labels, frame, effects):
    """Return the mean of the members' effects in each row, given those of labels: (label, M)."""
    place = {label: i for i, label in enumerate(labels)}
    columns = np.stack([np.ones(len(frame)), frame.x], axis=1)[:, : effects.shape[-1]]
    found = 0.0
    for column, weight in zip(["g", "g2"], CASES[name][1](frame), strict=True):
        own = effects[..., frame[column].map(place), :]
        found = found + weight * (own * columns).sum(axis=-1)
    return found


def by_hand(name, data, its):
    """Return the log joint density by definition."""
    frame, numbers, sd = rows(), data.values, its["sd_mm_g_g2"]
    if "z_mm_g_g2" in its:
        effects = (sd[:, None] * its["z_mm_g_g2"]).T
        total = stats.norm.logpdf(its["z_mm_g_g2"]).sum()
    else:
        effects = its["r_mm_g_g2"][:, None]
        total = stats.norm.logpdf(effects, 0, sd[0]).sum()
    total += half_t(sd, numbers["sd_mm_g_g2_scale"])
    total += prior_of_line(its, numbers)
    eta = its["Intercept_at_means"] + (frame.x - frame.x.mean()) * its["b"]
    eta = eta + of_members(name, data.labels["g"].names, frame, effects)
    if name == "count":
        return total + stats.poisson.logpmf(frame["count"], np.exp(eta)).sum()
    total += half_t(its["sigma"], numbers["sigma_scale"])
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_definition(name):
    program, data = posed(name)
    points = points_of(program, data)
    assert_density(program, data, points, partial(by_hand, name, data))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equal", "weighted_slopes"])
def test_both_engines_have_one_density_and_gradient(name):
    program, data = posed(name)
    assert_engines_agree(program, data, points_of(program, data))


@pytest.fixture(scope="module")
def fits():
    found = {}

    def fit(name):
        if name not in found:
            found[name] = pyflowers.fit(CASES[name][0], rows(), **HOW)
        return found[name]

    return fit


@pytest.mark.parametrize("name", ["equal", "weighted_slopes"])
def test_predictions_are_the_definition(name, fits):
    fit, frame = fits(name), rows().head(6)
    its, labels = fit.draws, fit.data.labels["g"].names
    assert labels == fit.data.labels["g2"].names
    line = its["Intercept"][..., None] + its["b"] * frame.x.to_numpy()
    effects = its["r_mm_g_g2"].reshape(*line.shape[:2], len(labels), -1)
    expected = line + of_members(name, labels, frame, effects)
    found = pyflowers.predict(fit, frame, kind="linear").draws()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    typical = pyflowers.predict(fit, frame[["x"]], kind="linear", groups="none").draws()
    np.testing.assert_allclose(typical, line, rtol=1e-10, atol=1e-10)


def test_a_new_label_has_one_effect_in_all_columns(fits):
    fit = fits("equal")
    new = pd.DataFrame({"x": 0.0, "g": ["new", "g1", "new"], "g2": ["g1", "new", "new"]})
    found = pyflowers.predict(fit, new, kind="linear").draws().values
    np.testing.assert_array_equal(found[..., 0], found[..., 1])
    own = found[..., 2] - fit.draws["Intercept"]
    known = fit.draws["r_mm_g_g2"][..., fit.data.labels["g"].names.index("g1")]
    expected = fit.draws["Intercept"] + (own + known) / 2
    np.testing.assert_allclose(found[..., 0], expected, rtol=1e-10)
    p = stats.kstest((own / fit.draws["sd_mm_g_g2"][..., 0]).ravel(), "norm").pvalue
    assert p > 1e-4
    assert "population: g new, g2 new" in " ".join(str(pyflowers.predict(fit, new)).split())
    assert "some labels of g are not in the fit" in str(pyflowers.effects(fit, "x", new=new))


def test_the_population_has_members_that_differ(fits):
    fit = fits("weighted_slopes")
    frame = rows().head(5)
    predictor = fit.model.predictor_of(fit.draws, frame, groups="population")
    (variance,) = predictor.variances().values()
    square = np.square(scaled(frame)).sum(axis=0)
    sd = fit.draws["sd_mm_g_g2"]
    expected = square * (sd[..., [0]] ** 2 + sd[..., [1]] ** 2 * frame.x.to_numpy() ** 2)
    np.testing.assert_allclose(variance, expected, rtol=1e-8)
    drawn = pyflowers.predict(fit, frame, groups="population", kind="observation").draws().values
    sigma = fit.draws["sigma"][..., None]
    line = fit.draws["Intercept"][..., None] + fit.draws["b"] * frame.x.to_numpy()
    z = (drawn - line) / np.sqrt(expected + sigma**2)
    assert stats.kstest(z[..., 0].ravel(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("name", ["equal", "weighted_slopes"])
def test_all_that_follows_a_fit(name, fits, tmp_path):
    fit = fits(name)
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert fit.model.covariates.keys() == {"x"}  # weights are no covariates
    assert set(pyflowers.effects(fit).table().index.get_level_values(0)) == {"x"}
    shares = pyflowers.explained(fit).table()
    assert any("g and g2" in str(key) for key in shares.index)
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")


def test_new_rows_have_a_weight_above_0(fits):
    new = rows().head(3).assign(w1=[1, 0, 0], w2=[0, 1, 0])
    message = "row 3: weight_mm_g_g2_1 + weight_mm_g_g2_2 is 0, but the prediction is divided by it"
    with pytest.raises(DataError, match=re.escape(message)):
        pyflowers.predict(fits("weighted_slopes"), new)
    assert pyflowers.predict(fits("weighted_slopes"), new.head(2)).table().notna().all(axis=None)
    without = pyflowers.predict(fits("weighted_slopes"), new, groups="none").table()
    assert without.notna().all(axis=None)


def test_members_are_not_nested_in_another_group():
    """Only the labels of the first column are nested in those of k."""
    rng = np.random.default_rng(1)
    g, g2 = rng.choice(list("abcdefgh"), (2, 400))
    frame = pd.DataFrame({"g": g, "g2": g2, "k": np.where(g < "e", "low", "high"), "i": g + g2})
    effects = dict(zip("abcdefgh", rng.normal(0, 5, 8), strict=True))
    frame["y"] = (frame.g.map(effects) + frame.g2.map(effects)) / 2 + rng.normal(0, 0.1, 400)
    for formula in ("y ~ (1 | mm(g, g2)) + (1 | k)", "y ~ (1 | mm(g, g2)) + (1 | i)"):
        program = Program.from_formula(formula, frame)
        assert "outer_" not in program.source.text
        assert program.read(frame).declaration.data["centered_mm_g_g2"] == Value(value=1)


@pytest.mark.parametrize("name", ["equal", "weighted_slopes"])
def test_a_written_program_is_read_with_the_labels_of_another_table(name, tmp_path):
    program, _ = posed(name)
    again = Program.open(program.write(tmp_path / "again.stan"))
    assert again.declaration == program.declaration
    other = rows().assign(g="new")
    assert again.read(other).labels["g2"].names == ("new", *dict.fromkeys(other.g2))
    assert_prior_when_written(program, rows(), 50, tmp_path / "prior.stan")


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("(1 | mm(g))", "needs two or more different columns, each with one member of the row"),
        ("(1 | mm(g, g))", "needs two or more different columns"),
        ("(1 | mm())", "has nothing instead of a column; write mm(g1, g2) or"),
        ("(1 | mm(g, g2 + x))", "has 'g2 + x' instead of a column; write mm(g1, g2) or"),
        ("(1 | mm(g, g2, weights=w1))", "takes columns, weights=cbind(…) and scale=FALSE, not"),
        ("(1 | mm(g, g2, by=f))", "not by=f; write mm(g1, g2) or mm(g1, g2, weights=cbind(w1"),
        ("(1 | mm(g, g2, weights=c(w1)))", "has 2 columns and 1 weight; give a column of"),
        ("(1 | mm(g, g2, scale=FALSE))", "has no weights that could be scaled; leave scale= out"),
        ("(1 | mm(g, g3))", "there is no column 'g3'; did you mean g?"),
        ("(1 | mm(g, g2, weights=c(w1, w3)))", "there is no column 'w3'; the columns are"),
        ("(1 | mm(g, g2)) + (0 + x | mm(g, g2))", "are two terms of mm(g,g2), but a term with"),
        ("(1 | mm(g, g2)) + (1 | g)", "g is both the group of a term and a column of members"),
        ("(1 | mm(g, g2, weights=c(w1, low)))", "low is -1, but a weight in (1 | mm(g, g2"),
        ("(1 | mm(g, g2, weights=c(none, none)))", "all weights in (1 | mm(g, g2, weights=cbind("),
        ("mm(g, g2)", "write it as a group, (1 | mm(g1, g2))"),
        ("(s(x) | mm(g, g2))", "cannot vary by group"),
    ],
)
def test_a_bad_group_is_one_sentence_with_a_remedy(term, message):
    assert_one_sentence(message, f"y ~ x + {term}", rows().assign(low=-1, none=0))


def test_the_engine_exact_says_that_it_has_no_members():
    with pytest.raises(ConfigError, match="the engine exact does not support the term r_mm_g_g2"):
        pyflowers.fit(CASES["equal"][0], rows(), engine="exact", seed=1)


@pytest.mark.campaign
def test_the_ranks_of_true_values_are_uniform(tmp_path):
    program = Program.from_formula(CASES["scaled"][0], rows())
    priors = {"sigma_scale": 1, "sd_mm_g_g2_scale": 1, "Intercept_scale": 1}
    assert_calibrated(program, rows(), priors, tmp_path / "sbc")
