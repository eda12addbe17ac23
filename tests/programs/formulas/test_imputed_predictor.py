"""Predictors that are imputed where they are missing: ``y ~ mi(x) + z; x | mi() ~ z``."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from curves_by_hand import (
    assert_density,
    assert_engines_agree,
    assert_one_sentence,
    assert_predicts_when_loaded,
    assert_prior_when_written,
    half_t,
    points_of,
)
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.formulas.edits import with_terms

FORMULA = "y ~ mi(x) + z + (1 | g); x | mi() ~ z + (1 | g)"
HOW = {"engine": "stanli", "seed": 1, "warmup": 500, "draws": 500}


def table(num=80, lost=20, seed=1):
    """Return rows of which some lack x; `whole` is x in all rows."""
    rng = np.random.default_rng(seed)
    z, g = rng.normal(size=num), rng.permutation(np.resize(list("abcde"), num))
    effect = pd.Series(rng.normal(size=5), index=list("abcde"))[g].to_numpy()
    x = 20 + 3 * z + effect + rng.normal(0, 2, num)
    y = 1 + 0.5 * x - z + effect + rng.normal(size=num)
    frame = pd.DataFrame({"y": y, "x": x, "z": z, "g": g, "whole": x}).round(4)
    frame["count"] = rng.poisson(np.exp(0.1 * x - 1))
    frame["rating"] = pd.cut(frame["y"], 4, labels=False) + 1
    frame["w"] = (rng.normal(size=num) + 0.3 * z).round(4)
    frame.loc[rng.choice(num, lost, replace=False), "x"] = None
    frame.loc[rng.choice(num, 10, replace=False), "w"] = None
    return frame


def posed(formula=FORMULA, **how):
    program = Program.from_formula(formula, table(), **how)
    return program, program.fill(program.read(table()), program.resolve_priors())[0]


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit(FORMULA, table(), **HOW)


def log_joint(data, its, eta_more=0.0):
    """Return the log joint density of FORMULA without centring, from its definition."""
    frame, numbers = table(), data.values
    codes, z = data.labels["g"].codes, frame.z.to_numpy()
    x = frame.x.to_numpy().copy()
    x[np.isnan(x)] = its["imputed_x"]
    total = 0.0
    for tag, columns in (("", [x, z]), ("_x", [z])):
        location, scale = (numbers[f"Intercept{tag}_{n}"] for n in ("location", "scale"))
        total += stats.t.logpdf((its[f"Intercept{tag}_at_means"] - location) / scale, 3)
        total += stats.norm.logpdf(its[f"b{tag}"], 0, numbers[f"b{tag}_scale"]).sum()
        total += half_t(its[f"sd_g{tag}"], numbers[f"sd_g{tag}_scale"])
        total += half_t(its[f"sigma{tag}"], numbers[f"sigma{tag}_scale"])
        total += stats.norm.logpdf(its[f"r_g{tag}"], 0, its[f"sd_g{tag}"]).sum()
        eta = its[f"Intercept{tag}_at_means"] + its[f"r_g{tag}"][codes]
        for value, mean, b in zip(columns, numbers[f"X{tag}_mean"], its[f"b{tag}"], strict=True):
            eta = eta + b * (value - mean)
        observed = frame.y if not tag else x
        total += stats.norm.logpdf(observed, eta, its[f"sigma{tag}"]).sum()
    return total


def test_the_density_is_that_of_the_definition():
    program, data = posed(centered=True)
    assert_density(program, data, points_of(program, data), lambda its: log_joint(data, its))


@pytest.mark.slow
def test_both_engines_have_one_density_and_gradient():
    program, data = posed(centered=True)
    assert_engines_agree(program, data, points_of(program, data))


def test_the_numbers_in_missing_cells_do_not_matter():
    """The density depends on the means of X, but on no number that stands in a missing cell."""
    program, data = posed(centered=True)
    filled = np.array(data.values["X"])
    filled[np.asarray(data.values["missing_x"]) - 1, 0] = 17.0
    other = replace(data, values={**data.values, "X": filled})
    points = points_of(program, data)
    assert_density(program, other, points, lambda its: log_joint(data, its))


def test_the_program_states_what_a_person_would():
    program, _ = posed()
    lines = [line.strip() for line in program.source.text.splitlines()]
    assert "*     x ~ N(Intercept_x + X_x b_x + r_g_x, sigma_x²)" in lines
    assert "filled_x[missing_x] = imputed_x;" in lines
    assert "filled_x ~ normal(mu_x, sigma_x);" in lines
    assert program.declaration.prediction.linear_predictor == "Intercept + X * b + r_g[g]"


def test_predictions_and_likelihood_of_complete_rows_are_their_definitions(fit):
    frame, draws = table(), fit.draws
    frame = frame[frame.x.notna()]
    effects = draws["r_g"][..., [fit.data.labels["g"].names.index(g) for g in frame.g]]
    eta = draws["Intercept"][..., None] + effects
    eta = eta + draws["b"] @ frame[["x", "z"]].to_numpy().T
    np.testing.assert_allclose(pyflowers.predict(fit).draws(), eta, rtol=1e-10, atol=1e-10)
    log_lik = stats.norm.logpdf(frame.y.to_numpy(), eta, draws["sigma"][..., None])
    np.testing.assert_allclose(fit.model.log_lik(draws), log_lik, rtol=1e-9, atol=1e-9)
    assert fit.data.table.rows.tolist() == (frame.index + 1).tolist()


def test_imputed_values_are_those_of_their_rows(fit):
    """Given the parameters, an imputed value is normal: both formulas inform on it."""
    frame, draws, whole = table(), fit.draws, fit.whole
    lost = frame[frame.x.isna()]
    assert list(fit.summary("imputed_x").index) == [f"imputed_x[{i + 1}]" for i in lost.index]
    codes = whole.labels["g"].codes[lost.index]
    z = lost.z.to_numpy()
    mu = draws["Intercept_x"][..., None] + draws["b_x"] * z + draws["r_g_x"][..., codes]
    others = draws["Intercept"][..., None] + draws["b"][..., 1:] * z + draws["r_g"][..., codes]
    slope, sigma = draws["b"][..., :1], draws["sigma"][..., None]
    precision = draws["sigma_x"][..., None] ** -2 + (slope / sigma) ** 2
    from_y = slope * (lost.y.to_numpy() - others) / sigma**2
    mean = (mu * draws["sigma_x"][..., None] ** -2 + from_y) / precision
    scaled = (draws["imputed_x"] - mean) * np.sqrt(precision)
    assert np.abs(scaled.mean(axis=(0, 1))).max() < 0.15
    assert np.abs(scaled.std(axis=(0, 1)) - 1).max() < 0.1


def test_more_rows_than_the_complete_ones_count():
    """Where x is missing depends on y: the complete rows are biased, and imputation is not."""
    rng = np.random.default_rng(5)
    num = 400
    z = rng.normal(size=num)
    x = z + rng.normal(size=num)
    y = x + rng.normal(size=num)
    lost = rng.random(num) < 1 / (1 + np.exp(-2 * y))
    frame = pd.DataFrame({"y": y, "x": np.where(lost, np.nan, x), "z": z})
    how = {"engine": "stanli", "seed": 2, "warmup": 400, "draws": 400}
    imputed = pyflowers.fit("y ~ mi(x); x | mi() ~ z", frame, **how)
    complete = pyflowers.fit("y ~ x", frame, drop_missing=True, **how)
    z_of = [
        (float(each.draws["b"].mean()) - 1) / float(each.draws["b"].std())
        for each in (imputed, complete)
    ]
    assert abs(z_of[0]) < 2.5
    assert z_of[1] < -2.5


def test_a_note_says_for_which_rows_questions_are_answered(fit):
    said = "20 of 80 rows have imputed values of x; checks, effects, predictions and elpd of rows"
    assert any(said in note for note in fit.data.notes)
    assert "80 rows" in str(fit)


@pytest.mark.slow
def test_questions_are_answered_for_complete_rows(fit, tmp_path):
    complete = pyflowers.fit("y ~ x + z + (1 | g)", table(), drop_missing=True, **HOW)
    assert pyflowers.check(fit).table().loc["mean", "observed"] == pytest.approx(
        pyflowers.check(complete).table().loc["mean", "observed"]
    )
    compared = pyflowers.loo({"mi": fit, "complete": complete}.values()).table()
    assert compared["difference"].abs().max() < 5
    assert "60 rows" in str(pyflowers.effects(fit))
    assert pyflowers.report(fit, tmp_path / "report.html").is_file()


def test_all_rows_and_groups_were_analysed():
    """Tables and sentences count what the model was fitted to, not only the complete rows."""
    frame = table()
    frame.loc[frame.g == "b", "x"] = None
    fit = pyflowers.fit(FORMULA, frame, seed=1, engine="stanli", adapt_delta=0.99)
    assert "(80 rows; g: 5)" in str(fit)
    sizes = pyflowers.table([fit]).to_dict()["models"][0]
    assert (sizes["observations"], sizes["groups"]) == (80, {"g": 5})
    said = " ".join(str(fit.methods_draft()).split())
    num = int(frame.x.isna().sum())
    assert said.startswith("We analysed 80 observations of y in 5 groups (g)")
    assert f"{num} observations have imputed values of x; checks, average effects and elpd" in said
    assert "for the coefficient of z in the formula of x" in said


def test_folds_leave_out_complete_rows_only(fit):
    """The refits keep the rows in which x is imputed, and leave out those of the fold."""
    found = pyflowers.k_fold(fit, 4)
    assert found.table()["refits"].tolist() == [4]
    assert abs(found.table()["elpd"].iloc[0] - pyflowers.loo(fit).table()["elpd"].iloc[0]) < 8


def test_it_is_saved_and_updated(fit, tmp_path):
    again = pyflowers.Fit.load(fit.save(tmp_path / "run"))
    assert again.summary(all=True).equals(fit.summary(all=True))
    np.testing.assert_array_equal(again.whole.values["missing_x"], fit.whole.values["missing_x"])
    assert (again.whole.num_obs, again.data.num_obs) == (80, 60)
    updated = again.update(priors={"b[x]": "normal(0.5, 0.001)"})
    assert updated.draws["b"][..., 0].std() < 0.002
    assert updated.whole.num_obs == 80
    assert_predicts_when_loaded(fit, table().assign(x=1.0), tmp_path / "other")


def test_an_edited_program_has_its_own_likelihood(fit, tmp_path):
    program, _ = posed()
    path = program.write(tmp_path / "imputed.stan")
    text = path.read_text().replace("normal_lpdf(y[n]", "normal_lpdf(0.001 + y[n]")
    path.write_text(text)
    edited = pyflowers.fit(Program.open(path), table(), **HOW)
    np.testing.assert_allclose(
        edited.model.log_lik(edited.draws).mean(), fit.model.log_lik(fit.draws).mean(), rtol=0.05
    )
    assert edited.model.log_lik(edited.draws).shape[-1] == 60


def test_prior_draws_are_those_of_the_definition(tmp_path):
    program, _ = posed(priors={"b_x[z]": "normal(2, 0.1)", "sigma_x": "exponential(1)"})
    draws = assert_prior_when_written(program, table(), 4000, tmp_path / "imputed.stan")
    assert np.abs(draws["b_x"].mean() - 2) < 0.01
    assert np.abs(draws["sigma_x"].mean() - 1) < 0.06
    lost = table()[table().x.isna()]
    residual = (
        draws["imputed_x"] - draws["Intercept_x"][..., None] - draws["b_x"] * lost.z.to_numpy()
    )
    codes = program.read(table()).labels["g"].codes[lost.index]
    scaled = (residual - draws["r_g_x"][..., codes]) / draws["sigma_x"][..., None]
    assert np.abs(scaled.mean(axis=(0, 1))).max() < 0.07
    assert np.abs(scaled.std(axis=(0, 1)) - 1).max() < 0.06


OTHERS = [
    ("count ~ mi(x) + z; x | mi() ~ 1", "poisson"),
    ("y ~ mi(x) + mi(w); x | mi() ~ z; w | mi() ~ s(z)", "gaussian"),
    ("y ~ mi(x) + s(z); sigma ~ z; x | mi() ~ z + (z | g)", "student"),
    ("y ~ 0 + mi(x) + z; x | mi() ~ 0 + g", "gaussian"),
    ("rating ~ mi(x) + z; x | mi() ~ gp(z)", "cumulative"),
]


@pytest.mark.parametrize(("formula", "family"), OTHERS)
def test_it_stands_with_other_terms(formula, family):
    how = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 150, "draws": 50}
    fit = pyflowers.fit(formula, table(), family=family, **how)
    frame = table().drop(columns="g") if "g" not in formula else table()
    imputed = [name for name in ("x", "w") if f"mi({name})" in formula]
    assert fit.data.num_obs == len(frame.dropna(subset=imputed))
    assert np.isfinite(fit.model.log_lik(fit.draws)).all()
    pyflowers.check(fit)
    pyflowers.effects(fit, "x")


def test_a_group_without_the_predictor_is_in_the_fit_and_not_in_the_answers(tmp_path):
    frame = table()
    frame.loc[frame.g == "b", "x"] = None
    how = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 300, "draws": 200}
    fit = pyflowers.fit(FORMULA, frame, **how)
    assert sorted(fit.posterior["g"].values) == list("abcde")
    assert sorted(fit.data.labels["g"].names) == list("acde")
    pyflowers.check(fit)
    found = pyflowers.predict(fit, frame.assign(x=20.0)[frame.g == "b"])
    draws = fit.draws
    position = fit.whole.labels["g"].names.index("b")
    z = frame.z[frame.g == "b"].to_numpy()
    eta = draws["Intercept"] + draws["r_g"][..., position] + 20 * draws["b"][..., 0]
    expected = eta[..., None] + draws["b"][..., 1:] * z
    np.testing.assert_allclose(found.draws(), expected, rtol=1e-10, atol=1e-10)


def test_tables_without_missing_cells_are_fitted_too():
    how = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 300, "draws": 200}
    fit = pyflowers.fit("y ~ mi(x) + z; x | mi() ~ z", table(lost=0), **how)
    assert "imputed_x" not in fit.draws
    assert fit.data.num_obs == 80
    assert np.abs(fit.draws["b"][..., 0].mean() - 0.5) < 0.2


@pytest.mark.parametrize("name", ["body mass", "sigma", "scale", "mean"])
def test_a_predictor_may_be_called_anything(name):
    frame = table().rename(columns={"x": name})
    how = {"engine": "stanli", "seed": 1, "chains": 1, "warmup": 50, "draws": 10}
    fit = pyflowers.fit(f"y ~ mi(`{name}`) + z; `{name}` | mi() ~ z; sigma ~ z", frame, **how)
    assert f"b[{name}]" in fit.summary("b").index
    assert np.isfinite(fit.model.log_lik(fit.draws)).all()


BAD = [
    ("y ~ mi(x) + z", "the missing values of x need a formula; add it, as in y ~ mi(x) + z; x |"),
    ("y ~ x + z; x | mi() ~ z", "write mi(x) there"),
    ("y ~ mi(x) * z; x | mi() ~ z", "write mi(x) there"),
    ("y ~ mi(x) + (mi(x) | g); x | mi() ~ z", "write mi(x) as a term by itself"),
    ("y ~ mi(x) + x:z; x | mi() ~ z", "so it can be only in the term mi(x); leave x out"),
    ("y ~ mi(x) + s(x); x | mi() ~ z", "so it can be only in the term mi(x); leave x out"),
    ("y ~ mi(x); sigma ~ x; x | mi() ~ z", "so it can be only in the term mi(x); leave x out"),
    ("y ~ mi(x) + mi(x); x | mi() ~ z", "occurs twice"),
    ("y ~ mi(x); x | mi() ~ z; x | mi() ~ 1", "occurs twice"),
    ("y ~ mi(x); x | mi(z) ~ z", "mi() takes no argument before the ~"),
    ("y ~ mi(x); x | mi() ~ y", "y cannot predict x"),
    ("y ~ mi(x) + mi(w); x | mi() ~ w; w | mi() ~ z", "w cannot predict x"),
    ("y ~ mi(x) + mi(w); x | mi() ~ mi(w); w | mi() ~ z", "write mi(x) as a term by itself"),
    ("y ~ mi(x) + ar(); x | mi() ~ z", "ar() cannot be combined with mi(x)"),
    ("y ~ mi(x) + cosy(gr = g); x | mi() ~ z", "cosy(gr = g) cannot be combined with mi(x)"),
    ("y ~ mi(x); x | mi() ~ z + ar()", "ar() describes the residuals of the response"),
    ("y ~ mi(nothing); nothing | mi() ~ 1", "there is no column 'nothing'"),
    ("y ~ mi(lost); lost | mi() ~ 1", "lost is missing in every row"),
    ("y ~ mi(word); word | mi() ~ 1", "word holds labels, but mi() imputes numbers"),
]


@pytest.mark.parametrize(("formula", "message"), BAD)
def test_what_cannot_be_imputed_is_said_in_one_sentence(formula, message):
    frame = table().assign(lost=np.nan, word="a")
    frame.loc[0, "word"] = None
    assert_one_sentence(message, formula, frame)


def test_categories_are_refused():
    message = "mi() needs one linear predictor, but family categorical has one for each category"
    assert_one_sentence(message, "g ~ mi(x); x | mi() ~ z", table(), family="categorical")


def test_a_predictor_of_an_imputed_one_must_be_complete():
    frame = table()
    frame.loc[3, "z"] = None
    with pytest.raises(DataError, match="1 of 80 rows lacks z"):
        Program.from_formula(FORMULA, frame)
    fit = pyflowers.fit(FORMULA, frame, drop_missing=True, **{**HOW, "warmup": 100, "draws": 10})
    assert fit.whole.num_obs == 79


def test_new_rows_need_the_predictor(fit):
    with pytest.raises(DataError, match="20 of 80 rows lack x"):
        pyflowers.predict(fit, table())


def test_what_needs_a_distribution_of_all_data_is_refused(fit, tmp_path):
    with pytest.raises(ConfigError, match="the engine exact does not support the term mi"):
        pyflowers.fit(FORMULA, table(), engine="exact")
    with pytest.raises(ConfigError, match="sbc: values of x are imputed"):
        pyflowers.sbc(FORMULA, table(), sims=4, out=tmp_path / "sbc", engine="stanli")
    asked = {"groups": 5, "rows": 4, "effects": {"b[x]": 0.3}, "sims": 2}
    with pytest.raises(ConfigError, match="design: missing values of x are imputed"):
        pyflowers.design(FORMULA, table(), out=tmp_path / "design", engine="stanli", **asked)
    notes = pyflowers.sensitivity(fit).notes
    assert any(
        "the likelihood is not scaled, as the likelihood of rows with imputed x" in n for n in notes
    )


def test_priors_of_the_imputation_say_nothing_about_the_response():
    found = posed()[0].priors["on the response's scale"]
    assert found["sd_g"] == "typically changes expected y by 0.17 to 7.96"
    assert not any(found[name] for name in ("Intercept_x", "b_x[z]", "sd_g_x", "sigma_x"))


def test_advice_keeps_the_term():
    formula = "y ~ mi(x) + z; x | mi() ~ z"
    assert with_terms(formula, ["s(z)"]) == "y ~ mi(x) + s(z); x | mi() ~ z"
    assert with_terms(formula, ["z"], "sigma") == f"{formula}; sigma ~ z"
