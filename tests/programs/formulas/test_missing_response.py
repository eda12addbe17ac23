"""Responses that are missing in some rows, `y | mi() ~ x`: such rows are left out."""

import tomllib

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st

import pyflowers
from pyflowers import Program
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.formulas import to_toml, write_formula

QUICK = {"engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
LOST = [3, 10, 11]


def table():
    """Return rows of which three lack a response; two of these also lack the term of censoring."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=40).round(3)
    frame = pd.DataFrame({"x": x, "g": np.resize(list("abcd"), 40)})
    frame["y"] = (1 + x + rng.normal(size=40)).round(3)
    frame["c"] = np.resize([0.0, 0, 0, 1], 40)
    frame["count"] = rng.poisson(3, 40).astype(float)
    frame["other"] = rng.poisson(3, 40).astype(float)
    frame["third"] = 1.0
    frame["word"] = np.resize(["yes", "no", "no"], 40)
    frame["rating"] = np.resize(["1", "2", "3"], 40)
    frame.loc[LOST, ["y", "count", "word", "rating"]] = None
    frame.loc[LOST[:2], "c"] = None
    return frame


@pytest.fixture(scope="module")
def fits():
    """Fits to the rows with a response: those that mi() keeps, and a table without the others."""
    whole = pyflowers.fit("y | mi() ~ x + (1 | g)", table(), seed=1, **QUICK)
    return whole, pyflowers.fit("y ~ x + (1 | g)", table().drop(index=LOST), seed=1, **QUICK)


def test_the_posterior_is_that_of_the_other_rows(fits):
    whole, without = fits
    assert whole.draws.keys() == without.draws.keys()
    for name, its in without.draws.items():
        np.testing.assert_array_equal(whole.draws[name], its, err_msg=name)
    said = "3 of 40 rows lack y (rows 4, 11, 12); they are left out"
    assert any(said in note for note in whole.data.notes)


def test_the_likelihood_is_its_definition(fits):
    fit = fits[0]
    draws, kept = fit.draws, table().drop(index=LOST)
    effects = draws["r_g"][..., pd.factorize(kept.g)[0]]
    eta = draws["Intercept"][..., None] + draws["b"] * kept.x.to_numpy() + effects
    expected = st.norm.logpdf(kept.y.to_numpy(), eta, draws["sigma"][..., None])
    np.testing.assert_allclose(fit.model.log_lik(draws), expected, rtol=1e-10, atol=1e-10)


def test_the_missing_values_are_predicted(fits):
    """The rows of the whole table are predicted, also where it has no response."""
    fit, frame = fits[0], table()
    found = pyflowers.predict(fit, frame)
    draws = fit.draws
    effects = draws["r_g"][..., pd.factorize(frame.g)[0]]
    eta = draws["Intercept"][..., None] + draws["b"] * frame.x.to_numpy() + effects
    assert found.table().shape[0] == 40
    np.testing.assert_allclose(found.draws(), eta, rtol=1e-10, atol=1e-10)


def test_the_questions_about_a_fit_are_about_the_rows_that_it_has(fits, tmp_path):
    whole = fits[0]
    one, other = (pyflowers.loo(each).table()["elpd"].iloc[0] for each in fits)
    assert one == other
    pits = [pyflowers.check(each).pit.values for each in fits]
    np.testing.assert_array_equal(*pits)
    effects = [pyflowers.effects(each, "x").table() for each in fits]
    pd.testing.assert_frame_equal(*effects)
    again = pyflowers.Fit.load(whole.save(tmp_path / "run"))
    assert again.data.num_obs == 37
    assert pyflowers.predict(again, table().drop(columns="y")).table().shape[0] == 40


CASES = [
    ("count | mi() ~ x", "poisson"),
    ("word | mi() ~ x", "bernoulli"),
    ("rating | mi() ~ x", "cumulative"),
    ("rating | mi() ~ x", "categorical"),
    ("cbind(count, other, third) | mi() ~ x", "multinomial"),
    ("y | cens(c) + mi() ~ x", "gaussian"),
    ("y | mi() ~ x + cosy(gr = g)", "gaussian"),
    ("y | mi() ~ x; sigma ~ x", "gaussian"),
]


@pytest.mark.parametrize(("formula", "family"), CASES, ids=lambda its: str(its))
def test_the_program_and_its_data_are_those_of_the_other_rows(formula, family):
    """What is computed from a table, such as the scales of priors, depends on no row without y."""
    plain = formula.replace(" + mi()", "").replace(" | mi()", "")
    kept = table().drop(index=LOST)
    one = Program.from_formula(formula, table(), family=family)
    other = Program.from_formula(plain, kept, family=family)
    after = "Written by pyflowers"
    assert one.source.text.partition(after)[2] == other.source.text.partition(after)[2]
    values, expected = one.read(table()).values, other.read(kept).values
    assert values.keys() == expected.keys()
    for name, its in expected.items():
        np.testing.assert_array_equal(values[name], its, err_msg=name)
    assert one.resolve_priors({}) == other.resolve_priors({})


def test_a_term_in_the_other_rows_is_still_needed():
    frame = table().assign(x=lambda its: its.x.where(its.index != 20))
    with pytest.raises(DataError, match=r"1 of 37 rows lacks x \(row 21\); fill in what is missin"):
        Program.from_formula("y | mi() ~ x", frame)
    program = Program.from_formula("y | mi() ~ x", frame, drop_missing=True)
    assert program.read(frame, drop_missing=True).num_obs == 36


def test_a_table_in_which_nothing_is_missing_is_read_whole():
    """A formula may be fitted to several tables, of which some are complete."""
    program = Program.from_formula("y | mi() ~ x", table())
    assert program.read(table().fillna({"y": 0.0})).num_obs == 40
    assert Program.from_formula("y | mi() ~ x", table().drop(index=LOST))


def test_a_table_without_any_response_is_refused():
    with pytest.raises(DataError, match=r"40 of 40 rows lack y .*so no row is left; fill in some"):
        Program.from_formula("y | mi() ~ x", table().assign(y=np.nan))


def test_the_prior_is_that_of_the_rows_with_a_response():
    program = Program.from_formula("y | mi() ~ x", table())
    assert program.read(table(), design_only=True).num_obs == 37
    assert program.read(table().drop(columns="y"), design_only=True).num_obs == 40


def test_the_declaration_says_so_and_any_program_may_say_it(tmp_path):
    name, text, declared = write_formula("y | mi() ~ x", from_frame(table()))
    assert tomllib.loads(to_toml(declared))["table"] == {"omit_missing": ["y"]}
    story = declared["story"]
    assert "Rows in which y is missing are left out, assuming that they are missing" in story
    path = tmp_path / f"{name}.stan"
    path.write_text(text)
    assert Program.open(path, declaration=declared).read(table()).num_obs == 37
    declared["table"]["omit_missing"] = ["yy"]
    program = Program.open(path, declaration=declared)
    with pytest.raises(ConfigError, match="omit_missing names yy, which no variable reads; correc"):
        program.read(table())
