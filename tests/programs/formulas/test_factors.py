"""Factors and labels as data have them: given levels, ordered labels, responses of two labels."""

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError

NUM = 40
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "y": RNG.normal(size=NUM),
        "x": RNG.normal(size=NUM),
        "parity": np.tile(["0", "1", "2", "3+"], NUM // 4),
        "dose": np.tile(["mid", "low", "high", "low"], NUM // 4),
        "died": np.where(RNG.random(NUM) < 0.4, "yes", "no"),
        "is_old": RNG.random(NUM) < 0.5,
        "whole": pd.array(np.tile([1, 2, 3, 4], NUM // 4), dtype="Int64"),
        "g": np.repeat(list("abcdefgh"), NUM // 8),
    }
)
FRAME["rated"] = pd.Categorical(FRAME["dose"], ["low", "mid", "high"], ordered=True)
ORDER = 'levels=["low", "mid", "high"]'
HOW = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 50, "draws": 50}


@pytest.fixture(scope="module", params=["frame", "file"])
def table(request, tmp_path_factory):
    """The same cells with pandas' types, and as a file of text."""
    if request.param == "frame":
        return FRAME
    path = tmp_path_factory.mktemp("factors") / "factors.csv"
    FRAME.to_csv(path, index=False)
    return path


def design(formula, table, **how):
    program = Program.from_formula(formula, table, **how)
    data = program.read(table)
    rows = np.asarray(data.values.get("cell", np.arange(NUM) + 1)) - 1
    return np.asarray(data.values["X"])[rows], data.coords["X"]


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("C(parity)", ["parity1", "parity2", "parity3+"]),
        ('C(parity, levels=["3+", 2, 1, 0])', ["parity2", "parity1", "parity0"]),
        (f"C(dose, {ORDER})", ["dosemid", "dosehigh"]),
        (f"C(rated, {ORDER})", ["ratedmid", "ratedhigh"]),
        ("C(whole)", ["whole2", "whole3", "whole4"]),
        ("C(whole, levels=[4, 3, 2, 1])", ["whole3", "whole2", "whole1"]),
        ("whole", ["whole"]),
        ("is_old", ["is_oldTrue"]),
        ('C(is_old, levels=["True", "False"])', ["is_oldFalse"]),
        (f"x:dose + C(dose, {ORDER})", ["dosemid", "dosehigh", "x:doselow", "x:dosemid"]),
    ],
)
def test_levels_have_the_order_of_the_formula_or_the_table(term, names, table):
    matrix, found = design(f"y ~ {term}", table)
    assert found[: len(names)] == tuple(names)
    for name, column in zip(found, matrix.T, strict=True):
        own = name.removeprefix("x:")
        of = next(each for each in FRAME.columns if own.startswith(each) and each != "x")
        level = own.removeprefix(of)
        expected = FRAME[of].astype(float) if not level else FRAME[of].astype(str) == level
        np.testing.assert_allclose(column, expected * (FRAME["x"] if "x:" in name else 1.0))


@pytest.mark.parametrize(
    ("given", "declared", "family", "name"),
    [
        (f"y ~ C(dose, {ORDER})", "y ~ rated", "gaussian", "b"),
        (f"C(dose, {ORDER}) ~ x", "rated ~ x", "cumulative", "threshold"),
    ],
)
def test_given_levels_are_those_of_an_ordered_categorical(given, declared, family, name, table):
    """The draws are the same, for a factor and for ratings."""
    ours = pyflowers.fit(given, table, family=family, **HOW)
    theirs = pyflowers.fit(declared, FRAME, family=family, **HOW)
    np.testing.assert_array_equal(ours.draws[name], theirs.draws[name])


def test_a_monotonic_effect_has_the_order_of_the_formula(table):
    ours = Program.from_formula(f"y ~ mo(dose, {ORDER})", table).read(table).values
    theirs = Program.from_formula("y ~ mo(rated)", FRAME).read(FRAME).values
    np.testing.assert_array_equal(ours["passed_dose"], theirs["passed_rated"])


def test_predictions_keep_the_levels_of_the_fit(table, tmp_path):
    """Also in a run that is read again, and for rows that have some of the levels only."""
    fit = pyflowers.fit(f"y ~ C(dose, {ORDER}) + I(x > 0)", table, **HOW)
    fit.save(tmp_path / "run")
    new = pd.DataFrame({"dose": ["high", "low"], "x": [-1.0, 1.0]})
    b, intercept = np.asarray(fit.draws["b"]), np.asarray(fit.draws["Intercept"])
    expected = np.stack([intercept + b[..., 1], intercept + b[..., 2]], axis=-1)
    for each in (fit, pyflowers.Fit.load(tmp_path / "run")):
        np.testing.assert_allclose(pyflowers.predict(each, new).draws(), expected, rtol=1e-10)
    with pytest.raises(DataError, match=r"row 1: dose is 'huge', which is not one of its levels"):
        pyflowers.predict(fit, new.assign(dose="huge"))


def test_a_response_of_two_labels_is_0_and_1(table, tmp_path):
    numbers = FRAME.assign(died=(FRAME["died"] == "yes").astype(int))
    by_number = pyflowers.fit("died ~ x + (1 | g)", numbers, family="bernoulli", **HOW)
    fit = pyflowers.fit("died ~ x + (1 | g)", table, family="bernoulli", **HOW)
    assert any("died is 1 where it is 'yes', and 0 where it is 'no'" in n for n in fit.record.notes)
    np.testing.assert_array_equal(fit.draws["b"], by_number.draws["b"])
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    expected = pyflowers.loo(by_number).table()["elpd"]
    np.testing.assert_allclose(pyflowers.loo(again).table()["elpd"], expected)
    swapped = Program.from_formula(
        'C(died, levels=["yes", "no"]) ~ x', table, family="bernoulli"
    ).read(table)
    np.testing.assert_array_equal(swapped.values["y"], 1 - numbers["died"])


@pytest.mark.parametrize("response", ["died", 'C(died, levels=["yes", "no"])'])
def test_the_prior_of_a_response_of_two_labels(response, table):
    """It needs no response, so a table without the column has the same prior."""
    formula, numbers = f"{response} ~ x", FRAME.assign(died=(FRAME["died"] == "yes").astype(int))
    program = Program.from_formula(formula, table, family="bernoulli")
    by_number = Program.from_formula("died ~ x", numbers, family="bernoulli")
    expected = pyflowers.prior(by_number, numbers, draws=20, seed=1).draws
    for given in (table, FRAME.drop(columns="died")):
        draws = pyflowers.prior(program, given, draws=20, seed=1).draws
        np.testing.assert_array_equal(draws["b"], expected["b"])


def test_given_levels_of_truth_values_and_numbers_order_the_response(table):
    program = Program.from_formula(
        'C(is_old, levels=["True", "False"]) ~ x', table, family="bernoulli"
    )
    np.testing.assert_array_equal(program.read(table).values["y"], ~FRAME["is_old"])
    program = Program.from_formula("C(whole, levels=[4, 3, 2, 1]) ~ x", table, family="cumulative")
    np.testing.assert_array_equal(program.read(table).values["y"], 5 - FRAME["whole"].astype(int))


def test_a_table_with_another_label_is_refused(table):
    """The program of one table reads the outcomes of another by their labels."""
    program = Program.from_formula("died ~ x", table, family="bernoulli")
    assert program.read(FRAME.assign(died="yes")).values["y"].tolist() == [1] * NUM
    with pytest.raises(DataError, match="row 1: died is 'lost', which is not one of no, yes"):
        program.read(FRAME.assign(died="lost"))


def test_of_two_similar_groups_the_one_with_the_exact_name_keeps_it():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": rng.normal(size=40), "g g": [*"abcd"] * 10, "g_g": [*"pqrst"] * 8})
    program = pyflowers.Program.from_formula("y ~ (1 | `g g`) + (1 | g_g)", frame)
    assert program.declaration.data["g_g"].index_of == "g_g"
    assert program.declaration.data["g_g_group"].index_of == "g g"


def test_dates_in_a_curve_are_to_be_converted():
    frame = pd.DataFrame({"y": range(30), "t": pd.date_range("2024-01-01", periods=30)})
    message = "t holds dates, such as '2024-01-01', but .* number"
    with pytest.raises(ConfigError, match=message):
        pyflowers.Program.from_formula("y ~ s(t)", frame)
