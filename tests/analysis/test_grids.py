"""Grids against tables written by hand, probabilities against their definitions, and refusals."""

import numpy as np
import pandas as pd
import pytest
from row_fits import FRAME, NEW, NUM, b, fit_of
from scipy import stats
from scipy.special import expit

import pyflowers
from pyflowers.errors import ConfigError, DataError


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def draws(fit, **options):
    return np.asarray(pyflowers.predict(fit, **options).draws())


MIXED = "y ~ x * dose + sex + (1 | site)"


def test_a_grid_is_all_combinations_with_the_rest_held_fixed():
    fit = fit_of(MIXED)
    found = pyflowers.grid(fit, x="0:3:1.5", dose="*")
    by_hand = pd.DataFrame(
        {
            "x": np.repeat([0.0, 1.5, 3.0], 3),
            "dose": ["high", "low", "zero"] * 3,
            "sex": FRAME.sex.mode()[0],
        }
    )
    pd.testing.assert_frame_equal(found, by_hand)
    expected = draws(fit, new=by_hand, groups="none")
    close(draws(fit, grid="x = 0:3:1.5, dose"), expected)
    close(draws(fit, grid={"x": [0, 1.5, 3], "dose": "*"}), expected)
    assert pyflowers.grid(fit, dose="low|zero")["x"].tolist() == [FRAME.x.mean()] * 2


def test_a_grid_that_names_the_groups_has_their_effects():
    fit = fit_of(MIXED)
    by_hand = pyflowers.grid(fit, x=1).drop(columns="x").assign(x=1.0)
    every = pd.concat(
        [by_hand.assign(site=site) for site in dict.fromkeys(FRAME.site)], ignore_index=True
    )
    close(draws(fit, grid="x = 1, site = *"), draws(fit, new=every))
    assert "site" not in pyflowers.grid(fit, x=1)


def test_a_grid_has_the_columns_that_only_effects_of_groups_need():
    frame = FRAME.assign(half=FRAME.site.map(dict(zip("abcdef", [7, 7, 8, 8, 9, 9], strict=True))))
    frame["other"] = np.roll(frame.site, 1)
    by_half = fit_of("y ~ x + (1 | gr(site, by=half))", frame=frame)
    found = pyflowers.grid(by_half, x=1, site="*")
    halves = frame.groupby("site").half.first()
    assert dict(zip(found.site, found.half, strict=True)) == halves.to_dict()
    close(draws(by_half, grid="x = 1, site = *"), draws(by_half, new=found))
    close(
        draws(by_half, grid="x = 1")[..., 0], by_half.draws["Intercept"] + b(by_half, "x")[..., 0]
    )
    rows = pd.DataFrame({"x": 1.0, "half": [7, 8, 9]})
    expected = draws(by_half, new=rows, groups="population")
    close(draws(by_half, grid="x = 1, half = *", groups="population"), expected)
    of_two = fit_of("y ~ x + (1 | mm(site, other, weights = cbind(n, hours)))", frame=frame)
    means = draws(of_two, grid="x = 1", groups="population")
    rows = pd.DataFrame({"x": [1.0], "n": [frame.n.mean()], "hours": [frame.hours.mean()]})
    close(means, draws(of_two, new=rows, groups="population"))


def test_a_grid_has_the_columns_that_only_observations_need():
    fit = fit_of("y | se(hours) ~ x")
    new = pd.DataFrame({"x": [1.0, 2.0], "hours": FRAME.hours.mean()})
    found = draws(fit, grid="x = 1:2:1", kind="observation")
    close(found, draws(fit, new=new, kind="observation"))
    wide = draws(fit, grid="x = 1, hours = 50", kind="observation")
    assert wide.std() > 10 * found.std()
    assert "hours" not in pyflowers.predict(fit, grid="x = 1").table().index.names


def test_a_balanced_grid_gives_all_levels_equal_weight():
    fit = fit_of(MIXED)
    found = pyflowers.predict(fit, grid="dose = low|high", balanced=True)
    assert sorted(found.table().index) == ["high", "low"]
    rows = pd.DataFrame(
        [(FRAME.x.mean(), dose, sex) for dose in ("high", "low") for sex in "fm"],
        columns=["x", "dose", "sex"],
    )
    by_hand = draws(fit, new=rows, groups="none").reshape(2, 100, 2, 2).mean(axis=3)
    order = found.table().index.get_indexer(["high", "low"])
    close(np.asarray(found.draws())[..., order], by_hand)


def test_a_balanced_grid_has_both_values_of_a_column_with_two_numbers():
    each = np.arange(NUM)
    frame = FRAME.assign(treated=(each % 3 == 0).astype(int), hours=each % 2 + 1.0)
    fit = fit_of("y ~ dose + treated + x + offset(hours)", frame=frame)
    made = pyflowers.grid(fit, dose="low|high", balanced=True)
    assert made[["dose", "treated"]].to_numpy().tolist() == [
        ["low", 0],
        ["low", 1],
        ["high", 0],
        ["high", 1],
    ]
    assert pyflowers.grid(fit, dose="low")["treated"].tolist() == [0]
    assert pyflowers.effects(fit, "dose", means=True, balanced=True).source == "6 rows of the grid"


def test_descending_and_inexact_steps_end_where_they_should():
    fit = fit_of(MIXED)
    close(pyflowers.grid(fit, x="0:0.3:0.1")["x"], [0, 0.1, 0.2, 0.3])
    close(pyflowers.grid(fit, x="3:0:-1.5")["x"], [3, 1.5, 0])
    close(pyflowers.grid(fit, x="0:1:0.4")["x"], [0, 0.4, 0.8])


def eta_of(fit, frame=NEW):
    return fit.draws["Intercept"][..., None] + b(fit, "x") * frame.x.to_numpy()


def rating_by_hand(fit):
    below = expit(
        fit.draws["threshold"][..., None, :] - (b(fit, "x") * NEW.x.to_numpy())[..., None]
    )
    edges = np.pad(below, [(0, 0)] * 3 + [(1, 1)], constant_values=(0, 1))
    edges[..., -1] = 1
    return np.moveaxis(np.diff(edges, axis=3), 3, 2)


def test_the_probabilities_of_ratings():
    fit = fit_of("rating ~ x", "cumulative")
    every = rating_by_hand(fit)
    found = pyflowers.predict(fit, NEW, kind="probability")
    close(found.draws(), every)
    assert found.table().index.names[-1] == "outcome"
    assert found.table().index.get_level_values("outcome")[:4].tolist() == [
        "= 1",
        "= 2",
        "= 3",
        "= 1",
    ]
    np.testing.assert_allclose(
        found.table()["median"].to_numpy().reshape(4, 3), np.median(every, axis=(0, 1)).T
    )
    two = draws(fit, new=NEW, kind="probability", outcome=["<= 2", "> 1"])
    close(two[:, :, 0], every[:, :, :2].sum(axis=2))
    close(two[:, :, 1], every[:, :, 1:].sum(axis=2))


COUNTS = [
    ("count ~ x", "poisson", lambda fit, eta: stats.poisson(np.exp(eta))),
    (
        "count ~ x",
        "negbinomial",
        lambda fit, eta: stats.nbinom(
            fit.draws["shape"][..., None],
            fit.draws["shape"][..., None] / (fit.draws["shape"][..., None] + np.exp(eta)),
        ),
    ),
    (
        "hits | trials(n) ~ x",
        "binomial",
        lambda fit, eta: stats.binom(NEW.n.to_numpy(), expit(eta)),
    ),
    ("hit ~ x", "bernoulli", lambda fit, eta: stats.bernoulli(expit(eta))),
]


@pytest.mark.parametrize(("formula", "family", "of"), COUNTS)
def test_the_probabilities_of_counts(formula, family, of):
    fit = fit_of(formula, family)
    exact = of(fit, eta_of(fit))
    events = {
        "= 2": exact.pmf(2),
        "3": exact.pmf(3),
        "<= 3": exact.cdf(3),
        "< 3": exact.cdf(2),
        "> 0": exact.sf(0),
        ">= 2": exact.sf(1),
        "= -1": exact.pmf(-1),
        "> 30": exact.sf(30),
    }
    found = draws(fit, new=NEW, kind="probability", outcome=list(events))
    for i, expected in enumerate(events.values()):
        # With a shape of 1e7, the density of a negative binomial is rounded to about 1e-10.
        np.testing.assert_allclose(found[:, :, i], expected, rtol=1e-9, atol=1e-9)
    default = draws(fit, new=NEW, kind="probability")
    usual = exact.pmf(1) if family == "bernoulli" else exact.sf(0)
    np.testing.assert_allclose(default[:, :, 0], usual, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("outcome", ["= 0", "> 25"])
def test_probabilities_are_integrated_over_the_population(outcome):
    fit = fit_of("count ~ x + (1 | site)", "poisson")
    found = draws(fit, new=NEW, kind="probability", outcome=outcome, groups="population")
    z = np.linspace(-9, 9, 3001)
    sd = fit.draws["sd_site"].reshape(2, 100, 1)[:, :10, :, None]
    exact = stats.poisson(np.exp(eta_of(fit)[:, :10, :, None] + sd * z))
    values = exact.pmf(0) if outcome == "= 0" else exact.sf(25)
    by_hand = np.average(values, axis=3, weights=stats.norm.pdf(z))
    np.testing.assert_allclose(found[:, :10, 0], by_hand, rtol=1e-8, atol=1e-12)


def test_averages_of_probabilities_and_their_file(tmp_path):
    fit = fit_of("rating ~ x + sex", "cumulative")
    rows = draws(fit, kind="probability", outcome="= 2")
    found = pyflowers.predict(fit, by="sex", kind="probability", outcome="= 2")
    male = (FRAME.sex == "m").to_numpy()
    close(found.draws().sel(sex="m").values[..., 0], rows[:, :, 0, male].mean(axis=2))
    found.save(tmp_path / "p.nc")
    assert "probability of each outcome of rating" in str(found)


BAD = [
    (MIXED, "gaussian", {"grid": "z = 1"}, "'z' is not a column"),
    (MIXED, "gaussian", {"grid": ""}, "names no column"),
    (MIXED, "gaussian", {"grid": "x ="}, "x has no values"),
    (MIXED, "gaussian", {"grid": "x = low"}, "x is numeric"),
    (MIXED, "gaussian", {"grid": "x = 0:10"}, "x is numeric"),
    (MIXED, "gaussian", {"grid": "x = 0:10:-1"}, "never reaches 10"),
    (MIXED, "gaussian", {"grid": "x = 0:10:0"}, "never reaches 10"),
    (MIXED, "gaussian", {"grid": "x = 0:1:0.000001"}, "choose a larger step"),
    (MIXED, "gaussian", {"grid": "x = 1, x = 2"}, "appears twice"),
    (MIXED, "gaussian", {"grid": "dose = medium"}, "'medium' is not a level of dose"),
    (MIXED, "gaussian", {"grid": {"x": []}}, "x has no values"),
    (MIXED, "gaussian", {"grid": {"hours": 1}}, "do not depend on 'hours'"),
    (MIXED, "gaussian", {"grid": 3}, "text or a mapping"),
    (MIXED, "gaussian", {"grid": "x = 1", "new": NEW}, "leave out one of them"),
    (MIXED, "gaussian", {"balanced": True, "new": NEW}, "leave out one of them"),
    (MIXED, "gaussian", {"kind": "probability"}, "family gaussian describes real numbers"),
    (MIXED, "gaussian", {"kind": "linear", "outcome": 1}, "applies only to kind 'probability'"),
    ("count ~ x", "poisson", {"outcome": "many"}, "outcome must be an integer"),
    ("count ~ x", "poisson", {"outcome": "> 1.5"}, "outcome must be an integer"),
    ("count ~ x", "poisson", {"outcome": []}, "outcome is empty"),
    ("count ~ x", "poisson", {"outcome": "> 20000"}, "choose a smaller number"),
    (
        "count ~ x",
        "negbinomial",
        {"kind": "probability", "parameter": "shape"},
        "applies only to the response, not to shape",
    ),
    (
        "count ~ x",
        "negbinomial",
        {"outcome": "> 0", "parameter": "shape"},
        "outcome applies only to the response, not to shape; leave out the option outcome or",
    ),
]


@pytest.mark.parametrize(("formula", "family", "options", "words"), BAD)
def test_what_no_grid_or_outcome_can_be_is_refused_in_a_sentence(formula, family, options, words):
    with pytest.raises((ConfigError, DataError)) as refused:
        pyflowers.predict(fit_of(formula, family), **options).table()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
