"""Residuals that are correlated in pairs within units, ``cosy(gr)``, by definition."""

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
    half_t,
    points_of,
    prior_of_line,
    prior_of_log_sigma,
)
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError

HOW = {"seed": 1, "engine": "stanli", "warmup": 400, "draws": 400}
FORMULA = "y ~ x + cosy(gr = g)"


def rows(num=60, labels=14, cosy=0.6):
    """Return units of different sizes, one of them of a single row, in a random order."""
    rng = np.random.default_rng(3)
    unit = np.concatenate([[0], rng.integers(1, labels, num - 1)])
    shared, own = rng.normal(size=labels)[unit], rng.normal(size=num)
    frame = pd.DataFrame({"g": [f"g{i}" for i in unit], "x": rng.normal(size=num)})
    frame["y"] = 1 + 0.5 * frame.x + np.sqrt(cosy) * shared + np.sqrt(1 - cosy) * own
    frame["s"] = rng.uniform(0.1, 0.5, num)
    frame["w"] = rng.uniform(0.5, 2, num)
    return frame.round(4).sample(frac=1, random_state=1).reset_index(drop=True)


CASES = {
    "gaussian": FORMULA,
    "student": FORMULA,
    "spread": "y ~ x + cosy(g); sigma ~ x",
    "known": "y | se(s, sigma = TRUE) ~ x + cosy(g)",
    "precision": "y | weights(w, kind = precision) ~ x + cosy(g)",
}


def posed(name):
    family = "student" if name == "student" else "gaussian"
    program = Program.from_formula(CASES[name], rows(), family=family)
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    return program, data


def points(program, data):
    found = points_of(program, data)
    for point in found:
        point["cosy"] = stats.norm.cdf(point["cosy"])
        if "nu" in point:
            point["nu"] = 1.5 + np.abs(point["nu"])
    return found


def joint(frame, eta, sigma, cosy, nu=None):
    """Return the log density of all units by the matrix of their covariance."""
    total, sigma = 0.0, np.broadcast_to(sigma, len(frame))
    for _, own in frame.groupby("g"):
        i, num = own.index, len(own)
        matrix = (1 - cosy) * np.eye(num) + cosy
        matrix = matrix * np.outer(sigma[i], sigma[i])
        if nu is None:
            total += stats.multivariate_normal.logpdf(frame.y[i], eta[i], matrix)
        else:
            total += stats.multivariate_t.logpdf(frame.y[i], eta[i], matrix, df=nu)
    return total


def by_hand(name, data, its):
    """Return the log joint density by definition."""
    frame, numbers = rows(), data.values
    total = prior_of_line(its, numbers)
    x = frame.x.to_numpy() - frame.x.mean()
    eta, nu = its["Intercept_at_means"] + x * its["b"], its.get("nu")
    if name == "spread":
        total += prior_of_log_sigma(its, numbers)
        sigma = np.exp(its["Intercept_sigma_at_means"] + x * its["b_sigma"])
        return total + joint(frame, eta, sigma, its["cosy"])
    total += half_t(its["sigma"], numbers["sigma_scale"])
    sigma = its["sigma"]
    if name == "known":
        sigma = np.hypot(frame.s, sigma).to_numpy()
    if name == "precision":
        sigma = (sigma / np.sqrt(frame.w)).to_numpy()
    if nu is not None:
        total += stats.gamma.logpdf(nu, 2, scale=1 / 0.1)
    return total + joint(frame, eta, sigma, its["cosy"], nu)


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_definition(name):
    program, data = posed(name)
    values = points(program, data)
    assert_density(program, data, values, partial(by_hand, name, data))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "student", "spread"])
def test_both_engines_have_one_density_and_gradient(name):
    program, data = posed(name)
    assert_engines_agree(program, data, points(program, data))


@pytest.fixture(scope="module")
def fits():
    found = {}

    def fit(family):
        if family not in found:
            found[family] = pyflowers.fit(FORMULA, rows(), family=family, **HOW)
        return found[family]

    return fit


@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_the_likelihoods_of_rows_sum_to_that_of_their_units(family, fits):
    fit, frame = fits(family), rows()
    its = {name: draws[0, ::100] for name, draws in fit.draws.items()}
    found = fit.model.log_lik(fit.draws)[0, ::100].sum(axis=-1)
    for i, total in enumerate(found):
        eta = its["Intercept"][i] + its["b"][i] * frame.x.to_numpy()
        nu = its["nu"][i] if family == "student" else None
        expected = joint(frame, eta, its["sigma"][i], its["cosy"][i], nu)
        np.testing.assert_allclose(total, expected, rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_replicates_and_observations_have_the_correlation(family, fits, tmp_path):
    fit, frame = fits(family), rows()
    program = Program.from_formula(FORMULA, frame, family=family)
    path = program.write(tmp_path / "edited.stan")
    path.write_text(path.read_text().replace("// residual sd", "// sd"))
    edited = pyflowers.fit(str(path), frame, **HOW)
    np.testing.assert_allclose(edited.draws["log_lik"], fit.model.log_lik(edited.draws), rtol=1e-7)
    drawn = pyflowers.predict(fit, frame, kind="observation").draws().values
    replicated = fit.model.y_rep(fit.draws, np.random.default_rng(1))
    first, second = (own.index[:2] for _, own in [*frame.groupby("g")][3:5])
    for y, of in ((drawn, fit), (replicated, fit), (edited.draws["y_rep"], edited)):
        eta = of.draws["Intercept"][..., None] + of.draws["b"] * frame.x.to_numpy()
        z = ((y - eta) / of.draws["sigma"][..., None]).reshape(-1, len(frame))
        if family == "gaussian":
            assert stats.kstest(z[:, 0], "norm").pvalue > 1e-4
        rank = stats.rankdata(z, axis=0)
        within = np.corrcoef(rank[:, first].T)[0, 1]
        assert abs(within - of.draws["cosy"].mean()) < 0.1
        assert abs(np.corrcoef(rank[:, [first[0], second[0]]].T)[0, 1]) < 0.1


@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_all_that_follows_a_fit(family, fits, tmp_path):
    fit = fits(family)
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert set(pyflowers.effects(fit).table().index.get_level_values(0)) == {"x"}
    assert "cosy" in pyflowers.sensitivity(fit).table().index
    found = pyflowers.predict(fit, rows()[["x"]].head(3), kind="expected").draws()
    line = fit.draws["Intercept"][..., None] + fit.draws["b"] * rows().x.to_numpy()[:3]
    np.testing.assert_allclose(found, line, rtol=1e-10)
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")


def test_a_normal_response_has_the_posterior_of_group_effects():
    """With a correlation above 0, cosy(g) is (1 | g): cosy is sd² / (sd² + sigma²)."""
    fit = pyflowers.fit(FORMULA, rows(), **HOW, priors={"cosy": "beta(1, 1)"})
    other = pyflowers.fit("y ~ x + (1 | g)", rows(), **HOW)
    sd, sigma = other.draws["sd_g"][..., 0], other.draws["sigma"]
    share = sd**2 / (sd**2 + sigma**2)
    assert abs(np.median(fit.draws["cosy"]) - np.median(share)) < 0.1
    assert abs(fit.draws["b"].mean() - other.draws["b"].mean()) < 0.03


def test_the_elpd_of_a_row_is_not_said_to_be_that_given_all_others(fits):
    """The sum over rows is the density of their units, so that of a row is given earlier rows."""
    fit = fits("gaussian")
    other = pyflowers.fit("y ~ x + (1 | g)", rows(), **HOW)
    found = pyflowers.loo([fit, other])
    said, (first, last) = " ".join(found.cautions), found.models
    assert (first.name, last.name) == ("Model 2", "Model 1")
    assert last.difference < -2 * last.difference_se
    assert "In Model 1, the elpd of a row is conditional on the rows before it" in said
    assert "conditional on the rows before" not in " ".join(pyflowers.loo(other).cautions)
    folds = " ".join(pyflowers.k_fold(fit, 2).cautions)
    assert "a model without ar() or cosy() that ranks higher may not predict better" in folds
    # All rows of a unit have their joint density.
    assert "conditional on the rows before" not in " ".join(
        pyflowers.k_fold(fit, 2, column="g").cautions
    )


@pytest.mark.parametrize(
    ("formula", "family", "message"),
    [
        ("y ~ cosy()", "gaussian", "cannot be read; write cosy(gr = g), where g is the column of"),
        ("y ~ cosy(time = t)", "gaussian", "cannot be read; write cosy(gr = g)"),
        ("y ~ cosy(h)", "gaussian", "there is no column 'h'"),
        (
            "y ~ cosy(g) + ar(gr = g)",
            "gaussian",
            "is a second term for the residuals; keep",
        ),
        ("y ~ x:cosy(g)", "gaussian", "write it as a term by itself, such as y ~ x + cosy(gr = g)"),
        ("y ~ x; sigma ~ cosy(g)", "gaussian", "describes the residuals of the response; move it"),
        ("n ~ cosy(g)", "poisson", "family poisson has no residuals for cosy(); choose gaussian"),
        ("p ~ cosy(g)", "gaussian(log)", "cosy() needs the link identity, not log; leave one of"),
        ("y | cens(c) ~ cosy(g)", "gaussian", "cosy() cannot be combined with cens(), trunc() or"),
        (
            "y ~ cosy(g); cosy ~ x",
            "gaussian",
            "cosy cannot have terms; in family gaussian, only sigma",
        ),
        ("y ~ cosy(g); nu ~ x", "student", "nu cannot have terms; in family student, only sigma"),
    ],
)
def test_a_bad_term_is_one_sentence_with_a_remedy(formula, family, message):
    frame = rows().assign(n=3, c=0, p=2.0 + np.arange(60))
    assert_one_sentence(message, formula, frame, family=family)


def test_the_engine_exact_says_that_it_has_no_units():
    with pytest.raises(ConfigError, match=r"does not support cosy\(\), with which a row depends"):
        pyflowers.fit(FORMULA, rows(), engine="exact", seed=1)


@pytest.mark.campaign
@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_the_ranks_of_true_values_are_uniform(family, tmp_path):
    program = Program.from_formula(FORMULA, rows(), family=family)
    priors = {"sigma_scale": 1, "Intercept_scale": 1}
    assert_calibrated(program, rows(), priors, tmp_path / "sbc")


def test_groups_with_names_of_the_programs_variables_are_renamed():
    frame = rows().assign(unit=lambda its: its.g, previous=lambda its: its.g)
    program = Program.from_formula("y ~ x + cosy(unit) + (1 | unit)", frame)
    assert {"unit", "unit_group"} <= program.source.blocks.data.keys()
    program = Program.from_formula("y ~ x + ar(gr = previous) + (1 | previous)", frame)
    assert {"previous", "previous_group"} <= program.source.blocks.data.keys()
    program = Program.from_formula("y ~ x + (1 | unit) + (1 | previous)", frame)
    assert {"unit", "previous"} <= program.source.blocks.data.keys()
