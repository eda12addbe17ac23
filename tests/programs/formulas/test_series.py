"""Residuals that depend on the previous ones, ``ar(time, gr)``, by definition."""

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
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.formulas.edits import with_terms

HOW = {"seed": 1, "engine": "stanli", "warmup": 400, "draws": 400}
FORMULA = "y ~ x + ar(time = t, gr = g)"


def rows(num=12, labels=6, ar=0.7, seed=5):
    """Return series of which some have gaps, in a random order of the rows."""
    rng, found = np.random.default_rng(seed), []
    for g in range(labels):
        e = 0.0
        for t in range(num):
            e = ar * e + rng.normal(0, 0.5)
            x = rng.normal()
            found.append((f"g{g}", 2 * t + (t > 5) + g % 2, x, 1 + 0.5 * x + e))
    frame = pd.DataFrame(found, columns=["g", "t", "x", "y"]).round(4)
    frame = frame.sample(frac=1, random_state=1).reset_index(drop=True)
    frame["s"] = rng.uniform(0.1, 0.5, len(frame)).round(3)
    return frame


def before(frame, gr="g"):
    """Return the position of the row before each row; -1 for the first of a series."""
    found = np.full(len(frame), -1)
    groups = [frame] if gr is None else [own for _, own in frame.groupby(gr)]
    for own in groups:
        order = own.index[np.argsort(own.t.to_numpy(), kind="stable")]
        found[order[1:]] = order[:-1]
    return found


def conditional(frame, eta, ar, y):
    """Return the mean of each row, given the row before."""
    place = before(frame)
    return eta + np.where(place < 0, 0.0, ar * (y - eta)[..., place])


CASES = {
    "gaussian": FORMULA,
    "student": FORMULA,
    "known": "y | se(s, sigma = TRUE) ~ x + ar(time = t, gr = g)",
    "group": "y ~ x + ar(time = t, gr = g) + (1 | g)",
    "spread": "y ~ x + ar(t, g); sigma ~ x",
}


def posed(name):
    family = "student" if name == "student" else "gaussian"
    program = Program.from_formula(CASES[name], rows(), family=family)
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    return program, data


def points(program, data):
    found = points_of(program, data)
    for point in found:
        point["ar"] = np.tanh(point["ar"])
        if "nu" in point:
            point["nu"] = 1.5 + np.abs(point["nu"])
    return found


def by_hand(name, data, its):
    """Return the log joint density by definition."""
    frame, numbers = rows(), data.values
    total = prior_of_line(its, numbers) - np.log(2)
    x = frame.x.to_numpy() - frame.x.mean()
    eta = its["Intercept_at_means"] + x * its["b"]
    if name == "group":
        total += stats.norm.logpdf(its["r_g"], 0, its["sd_g"][0]).sum()
        total += half_t(its["sd_g"], numbers["sd_g_scale"])
        eta = eta + frame.g.map(dict(zip(data.labels["g"].names, its["r_g"], strict=True)))
    eta = conditional(frame, np.asarray(eta), its["ar"], frame.y.to_numpy())
    if name == "spread":
        total += prior_of_log_sigma(its, numbers)
        sigma = np.exp(its["Intercept_sigma_at_means"] + x * its["b_sigma"])
        return total + stats.norm.logpdf(frame.y, eta, sigma).sum()
    total += half_t(its["sigma"], numbers["sigma_scale"])
    if name == "student":
        total += stats.gamma.logpdf(its["nu"], 2, scale=1 / 0.1)
        return total + stats.t.logpdf(frame.y, its["nu"], eta, its["sigma"]).sum()
    sigma = np.hypot(frame.s, its["sigma"]) if name == "known" else its["sigma"]
    return total + stats.norm.logpdf(frame.y, eta, sigma).sum()


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
def fit():
    return pyflowers.fit(FORMULA, rows(), **HOW)


def linear(fit, frame):
    return fit.draws["Intercept"][..., None] + fit.draws["b"] * frame.x.to_numpy()


def test_a_row_has_the_likelihood_given_the_row_before(fit):
    frame, y = rows(), rows().y.to_numpy()
    mean = conditional(frame, linear(fit, frame), fit.draws["ar"][..., None], y)
    expected = stats.norm.logpdf(y, mean, fit.draws["sigma"][..., None])
    np.testing.assert_allclose(fit.model.log_lik(fit.draws), expected, rtol=1e-10)
    some = np.array([7, 0, 40])
    found = fit.model.log_lik(fit.draws, some)
    np.testing.assert_allclose(found, expected[..., some], rtol=1e-10)


def test_the_expected_response_has_no_residuals(fit):
    frame = rows().head(5)
    found = pyflowers.predict(fit, frame[["x"]], kind="expected").draws()
    np.testing.assert_allclose(found, linear(fit, frame), rtol=1e-10)


def test_replicates_and_observations_follow_each_other(fit):
    frame, rng = rows(), np.random.default_rng(1)
    found = pyflowers.predict(fit, frame, kind="observation").draws().values
    for y in (fit.model.y_rep(fit.draws, rng), found):
        mean = conditional(frame, linear(fit, frame), fit.draws["ar"][..., None], y)
        z = (y - mean) / fit.draws["sigma"][..., None]
        assert stats.kstest(z.ravel()[::7], "norm").pvalue > 1e-4
        place = before(frame)
        later = np.flatnonzero(place >= 0)
        assert abs(np.corrcoef(z[..., later].ravel(), z[..., place[later]].ravel())[0, 1]) < 0.02
    # The order of the rows of a table does not matter.
    order = rng.permutation(len(frame))
    again = pyflowers.predict(fit, frame.iloc[order], kind="observation").draws().values
    np.testing.assert_allclose(again, found[..., order], rtol=1e-10)


def test_the_written_program_draws_and_evaluates_as_the_rule_does(fit, tmp_path):
    program = Program.from_formula(FORMULA, rows())
    path = program.write(tmp_path / "edited.stan")
    path.write_text(path.read_text().replace("// residual sd", "// sd of the errors"))
    edited = pyflowers.fit(str(path), rows(), **HOW)
    assert program.declaration.equation.startswith("y ~ N(eta + ar e[previous], sigma²), eta")
    assert edited.program.declaration.equation == ""
    np.testing.assert_allclose(edited.draws["log_lik"], fit.model.log_lik(edited.draws), rtol=1e-8)
    y, frame = edited.draws["y_rep"], rows()
    mean = conditional(frame, linear(edited, frame), edited.draws["ar"][..., None], y)
    z = (y - mean) / edited.draws["sigma"][..., None]
    assert stats.kstest(z.ravel()[::7], "norm").pvalue > 1e-4


def test_all_that_follows_a_fit(fit, tmp_path):
    table = pyflowers.check(fit).table()
    assert table.loc["autocorrelation[t]", "passed"]
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert set(pyflowers.effects(fit).table().index.get_level_values(0)) == {"x"}
    assert "ar" in pyflowers.sensitivity(fit).table().index
    assert np.isfinite(pyflowers.k_fold(fit, 2).table()["elpd"]).all()
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")


def test_a_prior_of_the_autocorrelation_is_cut_off_at_its_bounds():
    program = Program.from_formula(FORMULA, rows(), priors={"ar": "normal(0.5, 1)"})
    assert "normal_lpdf(ar | 0.5, 1)" in program.source.text
    draws = pyflowers.prior(program, rows(), draws=2000, seed=1).draws["ar"]
    assert np.abs(draws).max() < 1
    p = stats.kstest(draws.ravel(), stats.truncnorm(-1.5, 0.5, 0.5, 1).cdf).pvalue
    assert p > 1e-4
    half = Program.from_formula(FORMULA, rows(), priors={"ar": "uniform(0, 0.9)"})
    assert "real<lower=0, upper=0.9> ar;" in half.source.text
    fixed = Program.from_formula(FORMULA, rows(), priors={"ar": "constant(0.5)"})
    assert "real<lower=-1, upper=1> ar;" in fixed.source.text.partition("parameters {")[0]


@pytest.mark.parametrize(
    ("formula", "gr", "time"),
    [("y ~ ar(time = t, gr = g)", "g", "t"), ("y ~ ar(gr = g)", "g", ""), ("y ~ x + ar()", "", "")],
)
def test_times_and_series_can_be_left_out(formula, gr, time):
    frame = rows()
    program = Program.from_formula(formula, frame)
    own = frame if time else frame.assign(t=np.arange(len(frame)))
    place = before(own, gr or None)
    expected = np.where(place < 0, np.arange(len(frame)), place) + 1
    np.testing.assert_array_equal(program.read(frame)["previous"], expected)


def test_dates_are_times():
    frame = rows()
    dated = frame.assign(t=pd.Timestamp("2024-01-01") + pd.to_timedelta(frame.t, unit="D"))
    dated["t"] = dated.t.dt.strftime("%Y-%m-%d")
    one, other = (Program.from_formula(FORMULA, each).read(each) for each in (frame, dated))
    np.testing.assert_array_equal(one["previous"], other["previous"])


@pytest.mark.parametrize(
    ("formula", "family", "message"),
    [
        ("y ~ ar(time = t, gr = g, p = 2)", "gaussian", "has the order 2, but only order 1 is"),
        ("y ~ ar(t, g, cov = TRUE)", "gaussian", "cov = TRUE is not supported, as the first row"),
        ("y ~ ar(t, gr = g, q = 1)", "gaussian", "cannot have q = 1; write ar(time = t, gr = g)"),
        ("y ~ ar(t + 1)", "gaussian", "time is 't + 1', which is not a column; write ar(time = t"),
        ("y ~ ar(t, g) + ar(x, g)", "gaussian", "ar(x, g) is a second term for the residuals;"),
        ("y ~ ar(when, g)", "gaussian", "there is no column 'when'"),
        ("y ~ x * ar(t, g)", "gaussian", "write it as a term by itself, such as y ~ x + ar("),
        ("y ~ x; sigma ~ ar(t, g)", "gaussian", "describes the residuals of the response; move"),
        ("n ~ ar(t, g)", "poisson", "family poisson has no residuals for ar(); choose gaussian"),
        ("p ~ ar(t, g)", "gaussian(log)", "ar() needs the link identity, not log; leave one of"),
        ("y | cens(c) ~ ar(t, g)", "gaussian", "cannot be combined with cens(), trunc() or"),
        ("y | weights(n) ~ ar(t, g)", "gaussian", "cannot be combined with cens(), trunc() or"),
    ],
)
def test_a_bad_term_is_one_sentence_with_a_remedy(formula, family, message):
    frame = rows().assign(n=3, c=0, p=2.0 + np.arange(72))
    assert_one_sentence(message, formula, frame, family=family)


def test_bad_times_are_one_sentence_with_a_remedy():
    frame = rows()
    for its, message in (
        (frame.assign(t=1), r"another row of g g\d has the t 1, too; correct the time, or leave a"),
        (frame.assign(t=[f"a{'b' * i}" for i in range(72)]), "have no order; give numbers or"),
    ):
        with pytest.raises(DataError, match=message):
            Program.from_formula(FORMULA, its).read(its)
    with pytest.raises(DataError, match="if the rows belong to several series, name the column"):
        Program.from_formula("y ~ ar(time = t)", frame).read(frame)


def test_the_engine_exact_says_that_it_has_no_series():
    with pytest.raises(ConfigError, match=r"does not support ar\(\), with which a row depends on"):
        pyflowers.fit(FORMULA, rows(), engine="exact", seed=1)


def test_advice_keeps_the_series():
    text = "y ~ x + ar(time = t, gr = g) + (1 | g)"
    assert with_terms(text, ["z"]) == "y ~ x + ar(time = t, gr = g) + z + (1 | g)"
    assert with_terms("y ~ x", ["ar(gr = g)"]) == "y ~ x + ar(gr = g)"


@pytest.mark.parametrize(
    ("formula", "better"),
    [
        ("y ~ x + t + (1 | g)", "y ~ x + t + ar(time = t, gr = g) + (1 | g)"),
        ("y ~ x + (1 | g)", "y ~ x + ar(gr = g) + (1 | g)"),
    ],
)
def test_the_remedy_of_autocorrelation_is_a_formula_that_passes(formula, better):
    frame = rows(num=30, ar=0.8).sort_values(["g", "t"], ignore_index=True)
    found = pyflowers.check(pyflowers.fit(formula, frame, **HOW))
    advice = " ".join(str(each.advice) for each in found.checks if not each.passed)
    assert f'refit with the formula "{better}"' in advice
    again = pyflowers.check(pyflowers.fit(better, frame, **HOW))
    assert not [each for each in again.checks if "autocorrelation" in each.name and not each.passed]


@pytest.mark.campaign
@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_the_ranks_of_true_values_are_uniform(family, tmp_path):
    program = Program.from_formula(FORMULA, rows(), family=family)
    priors = {"sigma_scale": 1, "Intercept_scale": 1}
    assert_calibrated(program, rows(), priors, tmp_path / "sbc")
