"""Counts of several categories in a row: `categorical`, but each row counts units."""

import json
import re
from dataclasses import replace

import mpmath
import numpy as np
import pandas as pd
import pytest
from command_line import run
from mpmath import mpf
from scipy.special import softmax
from scipy.stats import multinomial
from test_categories import prior_and_predictors, values_at
from test_family_densities import interpreted, points_of

import pyflowers
from pyflowers import Program
from pyflowers.analysis.statistics import differences_of_shares
from pyflowers.errors import DataError, PyflowersError
from pyflowers.programs import Capabilities
from pyflowers.programs.families import find_family

NAMES = ("walk", "bus", "own car")
HOW = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 200}
RESPONSE = "cbind(walk, bus, `own car`)"
FORMULA = f"{RESPONSE} ~ x + (1 | g)"
NUM_POINTS = 20


def table(num=60, of_rows=0.0):
    """Return counts whose shares depend on x, the label of g and the row; the first row has none.

    `of_rows` is the sd of the effects of rows.
    """
    rng = np.random.default_rng(7)
    codes = np.resize(np.arange(8), num)
    frame = pd.DataFrame({"x": rng.normal(size=num), "g": np.array(list("abcdefgh"))[codes]})
    frame["f"] = rng.choice(["u", "v"], num)
    effects = rng.normal(0, 0.8, (2, 8))
    bus = 0.4 + 0.9 * frame.x + effects[0][codes]
    car = -0.3 - 0.5 * frame.x + effects[1][codes]
    if of_rows:
        bus = bus + rng.normal(0, of_rows, num)
    share = softmax(np.stack([np.zeros(num), bus, car], axis=1), axis=1)
    frame["n"] = np.r_[0, rng.integers(1, 20, num - 1)]
    frame[list(NAMES)] = rng.multinomial(frame.n, share)
    return frame.round(6)


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit(FORMULA, table(), family="multinomial", **HOW)


def written(formula, frame):
    """Return the program of a formula, and its data block."""
    program = Program.from_formula(formula, frame, family="multinomial")
    return program, program.fill(program.read(frame), program.resolve_priors({}))[0]


# The density


def log_joint(program, data, given):
    """Return the log joint density at 50 digits, without constants, on the unconstrained scale."""
    total, etas = prior_and_predictors(program, data, given)
    for n, counts in enumerate(np.asarray(data["y"], dtype=int).tolist()):
        weights = [mpmath.exp(eta[n]) for eta in etas]
        for count, weight in zip(counts, weights, strict=True):
            total += count * mpmath.log(weight / sum(weights))
    return total


@pytest.mark.parametrize(
    "formula",
    [
        f"{RESPONSE} ~ 1",
        f"{RESPONSE} ~ x + f",
        f"{RESPONSE} | trials(n) ~ x + (1 | g)",
        f"{RESPONSE} ~ x + (1 | g); mubus ~ 1",
        "cbind(`own car`, walk) ~ 0 + x",
    ],
)
def test_the_log_density_is_the_definition(formula):
    program, data = written(formula, table(16))
    values, rows = points_of(interpreted(program, data), NUM_POINTS)
    with mpmath.workdps(50):
        exact = [log_joint(program, data, values_at(program, data, row)) for row in rows]
        apart = [mpf(float(found)) - each for found, each in zip(values, exact, strict=True)]
        assert float(max(apart) - min(apart)) < 1e-9 * float(max(map(abs, exact)))
        assert float(max(exact) - min(exact)) > 0.5  # otherwise the test is empty


def test_the_density_and_draws_of_the_family_are_those_of_scipy():
    family = find_family("multinomial(mub, muc)")
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(2, 1, 4, 5))
    values = {"mub": eta[0], "muc": eta[1], "trials": np.array([0, 1, 6, 30, 900])}
    share = np.moveaxis(softmax(np.stack([np.zeros((1, 4, 5)), *eta]), axis=0), 0, -1)
    counts = rng.multinomial(values["trials"], [0.2, 0.3, 0.5])
    found = family.log_lik(counts.ravel().astype(float), np.zeros((1, 1, 1)), values)
    np.testing.assert_allclose(
        found, multinomial.logpmf(counts, values["trials"], share), rtol=1e-9, atol=1e-9
    )
    many = np.broadcast_to(eta[:, :, :1], (2, 1, 4000, 5))
    drawn = family.draw(
        np.zeros((1, 4000, 1)), {**values, "mub": many[0], "muc": many[1]}, rng
    ).reshape(4000, 5, 3)
    np.testing.assert_array_equal(drawn.sum(axis=2), np.tile(values["trials"], (4000, 1)))
    expected = values["trials"][:, None] * share[0, 0]
    error = np.sqrt(expected * (1 - share[0, 0]) / 4000)
    assert (np.abs(drawn.mean(axis=0) - expected) <= 4.5 * error + 1e-12).all()
    assert family.text == "multinomial(mub, muc)"
    assert (family.of_unit, family.width) == ("categorical(mub, muc)", 3)


def test_units_of_the_family_categorical_have_the_same_posterior():
    """The log densities of counts, and of a row for each unit, differ by a constant."""
    frame = table(12)
    units = frame[["x"]].loc[frame.index.repeat(frame.n)]
    units["way"] = [name for row in frame[list(NAMES)].to_numpy() for name in np.repeat(NAMES, row)]
    found = []
    for formula, data, family in (
        (f"{RESPONSE} ~ 0 + x", frame, "multinomial"),
        (f"C(way, levels={json.dumps(NAMES)}) ~ 0 + x", units, "categorical"),
    ):
        prior = {"b[x]": "normal(0, 1)"}
        program = Program.from_formula(formula, data, family=family, priors=prior)
        block, _ = program.fill(program.read(data), program.resolve_priors({}))
        scale = np.sqrt(np.mean(np.square(data.x)))  # the sampler moves b in this unit
        points = np.random.default_rng(1).normal(0, 0.5, (10, 2)) * scale
        found.append(interpreted(program, block).evaluate(points, False)[0])
    np.testing.assert_allclose(np.diff(found[0]), np.diff(found[1]), rtol=1e-9)


def test_log_lik_and_replicates_in_stan_are_those_in_numpy():
    program, data = written(FORMULA, table(24))
    bare = replace(program, python=Capabilities(check=lambda data: []))
    data = replace(data, values={**data.values, "N_pointwise": data.num_obs})
    by_stan = pyflowers.fit(bare, data, engine="stanli", seed=2, chains=1, warmup=50, draws=50)
    ours = program.log_lik(by_stan.draws, data)
    np.testing.assert_allclose(ours, by_stan.draws["log_lik"], rtol=1e-8, atol=1e-8)
    y_rep = by_stan.draws["y_rep"]
    assert y_rep.shape == (1, 50, 24, 3)
    np.testing.assert_array_equal(y_rep.sum(axis=3)[0], np.tile(data["trials"], (50, 1)))


def test_the_written_program_reads_as_the_model():
    program, data = written(FORMULA, table())
    for line in (
        f" *     {RESPONSE} ~ multinomial(trials, softmax(0, mubus, muowncar))",
        "  array[N, J] int<lower=0> y; // cbind(walk, bus, `own car`): 1: walk, 2: bus, 3: own car",
        "  array[N] int<lower=0> trials; // the total of each row",
        "      y[n] ~ multinomial_logit([0, mubus[n], muowncar[n]]');",
    ):
        assert line in program.source.text
    assert (data.num_obs, data.y.shape, data["J"]) == (60, (180,), 3)
    assert data.dims["y"] == ("obs", "category")
    assert data.value_name == "counts of walk, bus and own car"
    # A group called category keeps its name.
    frame = table().rename(columns={"g": "category"})
    _, data = written(f"{RESPONSE} ~ x + (1 | category)", frame)
    assert data.dims["y"] == ("obs", "category_")


def test_trials_must_be_the_totals():
    frame = table()
    of_total, of_column = (
        written(f"{RESPONSE}{trials} ~ x", frame)[1] for trials in ("", " | trials(n)")
    )
    np.testing.assert_array_equal(of_total["trials"], of_column["trials"])
    frame.loc[4, "n"] += 1
    message = r"row 5: walk, bus and own car sum to \d+, but the number of trials is \d+; correct"
    with pytest.raises(DataError, match=message):
        written(f"{RESPONSE} | trials(n) ~ x", frame)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (-1, "row 4: bus is -1, but for family multinomial it cannot be negative; correct it or"),
        (0.5, "row 4: bus is 0.5, but for family multinomial it must be a whole number; correct "),
        ("a", "row 4: bus is 'a', not a finite number; correct it"),
        (None, "1 of 60 rows lacks bus (row 4); fill in what is missing, or leave this row out"),
    ],
)
def test_a_cell_that_is_no_count_is_one_sentence(cell, message):
    frame = table().astype({"bus": object})
    frame.loc[3, "bus"] = cell
    with pytest.raises(DataError, match=re.escape(message)) as error:
        written(FORMULA, frame)
    assert "\n" not in str(error.value)


def test_a_category_without_units_is_noted():
    frame = table()
    frame["late"] = (frame.index > 30) * 1
    frame["never"] = 0
    frame.loc[frame.late == 1, "bus"] = 0
    program = Program.from_formula("cbind(walk, bus, never) ~ late", frame, family="multinomial")
    _, notes = program.fill(program.read(frame), program.resolve_priors({}))
    assert "never is 0 in every row, so its log odds depend only on their priors" in notes
    assert "where late is 1, every bus is 0, so that b_mubus[late] rests on its prior" in notes


# What follows from a fit


def linear_predictors(fit, rows):
    """Return the linear predictors by hand, shape (category, chain, draw, row)."""
    found = [np.zeros((*fit.draws["b_mubus"].shape[:2], len(rows)))]
    codes = [list("abcdefgh").index(g) for g in rows.g]
    for name in ("mubus", "muowncar"):
        eta = fit.draws[f"Intercept_{name}"][..., None]
        eta = eta + fit.draws[f"b_{name}"] * rows.x.to_numpy()
        found.append(eta + fit.draws[f"r_g_{name}"][..., codes])
    return np.stack(found)


def test_predictions_are_the_definition(fit):
    rows = table().head(5)
    share = np.moveaxis(softmax(linear_predictors(fit, rows), axis=0), 0, 2)
    found = pyflowers.predict(fit, rows[["x", "g"]])  # which needs no counts
    assert found.kind == "probability"
    np.testing.assert_allclose(found.draws().to_numpy(), share, rtol=1e-10, atol=1e-10)
    counts = pyflowers.predict(fit, rows, kind="expected").draws()
    np.testing.assert_allclose(counts, share * rows.n.to_numpy(), rtol=1e-10, atol=1e-10)
    assert counts.outcome.to_numpy().tolist() == list(NAMES)
    drawn = pyflowers.predict(fit, rows, kind="observation").draws().to_numpy()
    assert (drawn.sum(axis=2) == rows.n.to_numpy()).all()
    one = pyflowers.predict(fit, rows, kind="observation", outcome="bus").draws().to_numpy()
    np.testing.assert_array_equal(one[:, :, 0], drawn[:, :, 1])
    apart = np.abs((drawn - counts.to_numpy()).mean(axis=(0, 1)))
    sd = np.sqrt((share * (1 - share)).mean(axis=(0, 1)) * rows.n.to_numpy() / 400)
    assert (apart <= 4.5 * sd + 1e-12).all()


def test_effects_are_differences_of_probabilities(fit):
    found = pyflowers.effects(fit, "x")
    frame = table()
    low, high = (
        softmax(linear_predictors(fit, frame.assign(x=frame.x + by)), axis=0) for by in (0, 1)
    )
    expected = (high - low).mean(axis=-1)
    np.testing.assert_allclose(found.effects.to_numpy(), np.moveaxis(expected, 0, -1), atol=1e-10)
    assert found.index.get_level_values("outcome").tolist() == list(NAMES)
    assert "probability of each category, over" in str(found)


def test_loo_leaves_out_rows(fit):
    share = np.moveaxis(softmax(linear_predictors(fit, table()), axis=0), 0, -1)
    by_hand = multinomial.logpmf(table()[list(NAMES)].to_numpy(), table().n.to_numpy(), share)
    np.testing.assert_allclose(fit.log_likelihood(), by_hand, rtol=1e-8, atol=1e-8)
    assert pyflowers.loo(fit).num_obs == 60


def test_checks_are_of_shares_and_find_rows_that_differ(fit):
    found = pyflowers.check(fit)
    names = [each.name for each in found.checks]
    assert names[:3] == [f"share[{name}]" for name in NAMES]
    assert {"shares_of_rows", "shares_between", "curvature[x]"} <= set(names)
    frame = table()
    assert found.table()["observed"].iloc[0] == pytest.approx(frame.walk.sum() / frame.n.sum())
    assert found.passed
    other = pyflowers.fit(f"{RESPONSE} ~ x", table(of_rows=1.5), family="multinomial", **HOW)
    failed = {each.name: each for each in pyflowers.check(other).failed}
    assert "differ more between rows than" in failed["shares_of_rows"].finding
    assert "a label for each row, such as (1 | row)" in failed["shares_of_rows"].advice


def test_differences_of_shares_are_pearsons_statistic():
    from scipy.stats import chi2_contingency

    counts = np.random.default_rng(2).integers(0, 9, (4, 6, 3)).astype(float)
    counts[:, 0] = 0  # a row without units says nothing
    expected = [chi2_contingency(each[1:]) for each in counts]
    np.testing.assert_allclose(
        differences_of_shares(counts), [its.statistic / its.dof for its in expected]
    )


def test_a_saved_run_is_the_same(fit, tmp_path):
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    np.testing.assert_array_equal(again.data["y"], fit.data["y"])
    np.testing.assert_array_equal(again.log_likelihood(), fit.log_likelihood())
    groups = again.groups()
    assert groups["posterior_predictive"]["y"].dims == ("chain", "draw", "obs", "category")
    assert groups["posterior_predictive"]["category"].to_numpy().tolist() == list(NAMES)
    assert groups["log_likelihood"]["y"].dims == ("chain", "draw", "obs")
    assert groups["observed_data"]["y"].dims == ("obs", "category")
    ours, theirs = (pyflowers.predict(each, kind="expected").table() for each in (fit, again))
    pd.testing.assert_frame_equal(ours, theirs)


def test_the_prior_implies_shares_of_the_same_totals():
    made = pyflowers.prior(FORMULA, table(), family="multinomial", seed=1, draws=200)
    y_rep = made.y_rep.reshape(-1, 60, 3)
    np.testing.assert_array_equal(y_rep.sum(axis=2), np.tile(table().n.to_numpy(), (len(y_rep), 1)))
    assert list(made.implied().index) == [f"share of {name}" for name in NAMES]
    known = made.program.priors
    assert known.loc["b_mubus[x]", "meaning"].startswith("effects on log odds of bus against walk")


def test_what_has_no_meaning_is_one_sentence(fit):
    calls = [
        (
            lambda: pyflowers.predict(fit, kind="linear"),
            "choose a linear predictor, such as par",
        ),
        (
            lambda: pyflowers.predict(fit, outcome="car"),
            "'car' is not a category; did you mean own",
        ),
        (lambda: pyflowers.predict(fit, table()[["x", "g"]], kind="expected"), "no column 'walk'"),
        (lambda: pyflowers.effects(fit, kind="expected"), "have no order, so there is nothing to"),
        (
            lambda: pyflowers.explained(fit),
            "categories without an order, for which no explained variance",
        ),
        (lambda: pyflowers.plots.observations(fit.data), "the rows of a group have no average"),
        (
            lambda: pyflowers.fit(FORMULA, table(), family="multinomial", engine="exact"),
            "the engine exact does not support a linear predictor for each category; leave out",
        ),
    ]
    for call, message in calls:
        with pytest.raises(PyflowersError, match=re.escape(message)) as error:
            call()
        assert "\n" not in str(error.value)


def test_every_command_takes_counts(fit, tmp_path, capfd):
    out, data = tmp_path / "run", tmp_path / "table.csv"
    fit.save(out)
    table().to_csv(data, index=False)
    capfd.readouterr()
    commands = [
        ["check", out],
        ["loo", out],
        ["predict", out, "--by", "g"],
        ["predict", out, "--kind", "observation"],
        ["sensitivity", out],
        ["effects", out, "--out", tmp_path / "effects"],
        ["contrast", out, "b_mubus[x] - b_muowncar[x]"],
        ["prior", FORMULA, "--family", "multinomial", "--data", data, "--draws", 50],
    ]
    for command in commands:
        status = run(*command, "--json")
        shown = capfd.readouterr()
        assert status in (0, 3), (command, shown.err)
        assert json.loads(shown.out)
    assert (tmp_path / "effects" / "effect-x.png").exists()


@pytest.mark.slow
def test_a_report_and_a_copy_of_the_program(fit, tmp_path):
    out, data = tmp_path / "run", tmp_path / "table.csv"
    fit.save(out)
    table().to_csv(data, index=False)
    assert run("report", out, "--out", tmp_path / "report.html") == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    counts = table()[list(NAMES)].sum()
    numbers = ", ".join(f"{name}: {counts[name]}" for name in NAMES)
    assert f"the numbers in each category are {numbers}" in words
    assert "multinomial(trials, softmax(0, mubus, muowncar))" in words
    for name in NAMES:
        assert re.search(rf"(lower|higher) probability of {name} per unit of x", words)
    what = (FORMULA, "--family", "multinomial", "--data", data)
    assert run("new", tmp_path / "mine.stan", *what) == 0
    again = pyflowers.fit(tmp_path / "mine.stan", data, **HOW)
    for name, draws in fit.draws.items():
        np.testing.assert_array_equal(again.draws[name], draws)


@pytest.mark.slow
def test_both_engines_have_the_same_posterior(fit):
    by_cmdstan = pyflowers.fit(
        FORMULA, table(), family="multinomial", **{**HOW, "engine": "cmdstan"}
    )
    for name in ("b_mubus", "b_muowncar", "Intercept_mubus", "Intercept_muowncar"):
        ours, theirs = fit.draws[name], by_cmdstan.draws[name]
        error = np.hypot(ours.std(), theirs.std()) / np.sqrt(50)  # at least 50 effective draws
        assert abs(ours.mean() - theirs.mean()) < 4 * error
