"""Designs are simulated from the pilot fit: their covariates, responses, shares and refusals."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run

import pyflowers
from pyflowers.analysis.designs import _Tasks, _true_values, sizes
from pyflowers.errors import ConfigError
from pyflowers.plots.results import figures_of

OPTIONS = {"seed": 1, "effects": {"b[x]": 0.5}, "workers": 1}


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    """A file with 12 rows of pilot data in 4 groups, of which two are treated."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"g": np.repeat(list("abcd"), 3), "x": rng.normal(size=12)})
    frame["treated"] = frame.g.isin(["a", "b"]).astype(int)
    frame["y"] = frame.x + rng.normal(size=12)
    path = tmp_path_factory.mktemp("pilot") / "pilot.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def found(pilot):
    """Three simulations of tables with 10 and 40 rows."""
    out = pilot.with_name("design")
    return pyflowers.design("y ~ x", pilot, rows="10:40:30", sims=3, out=out, **OPTIONS)


@pytest.fixture(scope="module")
def tasks(pilot):
    """The tasks of a design with groups, with values that are easily told apart."""
    fit = pyflowers.fit(
        "y ~ x + treated + (1 | g)", pilot, seed=1, engine="stanli", chains=2, warmup=200, draws=50
    )
    spec = pyflowers.Spec("y ~ x + treated + (1 | g)", pilot, seed=1)
    at, _ = _true_values(fit, {"b[x]": 3.0, "sd_g[Intercept]": 2.0, "sigma": 0.5})
    return _Tasks(fit, spec, "g", ((7, 5),), at, 100, ("b[x]",))


def test_the_table_summarises_the_intervals(found):
    table, intervals = found.table(), found.intervals
    assert table.index.tolist() == [(10, "b[x]"), (40, "b[x]")]
    assert table["fits"].tolist() == [3, 3]
    for (rows, _), its in table.iterrows():
        own = intervals[intervals["rows"] == rows]
        width = own["high"] - own["low"]
        assert its["width"] == pytest.approx(width.mean())
        assert its["excludes 0"] == pytest.approx(((own["low"] > 0) | (own["high"] < 0)).mean())
        assert its["covers"] == pytest.approx(own["low"].le(0.5).mul(own["high"].ge(0.5)).mean())
    assert table["width"].is_monotonic_decreasing
    inside = replace(found, region=(-9.0, 9.0)).table()
    assert (inside["in region"] == 1).all()
    assert list(figures_of(found)) == ["design.png"]


def test_the_notes_say_which_values_were_used(pilot, found):
    fit = pyflowers.fit("y ~ x", pilot, seed=1, engine="exact")
    assert found.engine == "exact"
    assert found.values == pytest.approx(fit.summary(["Intercept", "sigma"])["median"].to_dict())
    assert "b[x] = 0.5 as given" in found.notes[0]
    assert "posterior medians of the fit to the pilot data" in found.notes[0]


def test_the_command_resumes_and_more_simulations_keep_the_first(pilot, found, capsys):
    folder = found.batch.folder
    words = ("design", "y ~ x", "--data", pilot, "--rows", "10,40", "--effect", "b[x]=0.5")
    before = found.batch.ledger()
    assert run(*words, "--sims", 4, "--workers", 1, "--seed", 1, "--out", folder, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["fits"] for each in printed["designs"]] == [4, 4]
    after = found.batch.ledger()
    assert after.loc[before.index, "key"].equals(before["key"])
    assert after.loc[before.index, "seconds"].equals(before["seconds"])
    assert {"design.json", "design.csv", "design.png"} <= {each.name for each in folder.iterdir()}


def test_covariates_are_those_of_the_pilot_in_turn(tasks):
    frame = pd.read_csv(tasks.pilot.data.source)
    made = tasks._design(7, 5)
    assert made.groupby("g").size().tolist() == [5] * 7
    assert not set(made["g"]) & set(frame["g"])
    pairs = set(frame[["x", "treated"]].itertuples(index=False, name=None))
    assert set(made[["x", "treated"]].itertuples(index=False, name=None)) <= pairs
    assert made.groupby("g")["treated"].nunique().eq(1).all()
    # 7 of 4 groups in turn are 3 or 4 of the two that are treated; 5 of 3 rows, 1 or 2 of each.
    assert made.groupby("g")["treated"].first().sum() in (3, 4)
    assert made.groupby("g")["x"].value_counts().isin([1, 2]).all()


def test_responses_have_the_values_that_were_set(tasks):
    table = tasks._design(7, 5)
    y = np.array(list(tasks._responses(table, [7, 5])))
    assert y.shape == (100, 35)
    slope = tasks.at["b"][0] * table["x"] + tasks.at["b"][1] * table["treated"]
    assert tasks.at["b"][0] == 3
    rest = y - tasks.at["Intercept"] - slope.to_numpy()
    of_group = rest.reshape(100, 7, 5)
    within, between = of_group.var(axis=2, ddof=1).mean(), of_group.mean(axis=2).var()
    # 700 group effects with sd 2, and 3,500 errors with sd 0.5, each within 4 standard errors.
    assert within == pytest.approx(0.25, rel=4 * np.sqrt(2 / 2800))
    assert between == pytest.approx(4 + 0.05, rel=4 * np.sqrt(2 / 700))
    assert rest.mean() == pytest.approx(0, abs=4 * np.sqrt(4.05 / 700))


NAMES = ("poor", "fair", "good")


def ratings():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=30)})
    code = np.digitize(frame["x"] + rng.logistic(size=30), [-1, 1])
    ordered = pd.Categorical.from_codes(code, NAMES, ordered=True)
    return frame.assign(score=10 * code, ordered=ordered, text=np.array(NAMES)[code])


@pytest.mark.parametrize(
    ("response", "column", "values"),
    [
        ("score", "score", {0, 10, 20}),
        ("ordered", "ordered", {*NAMES}),
        (f"C(text, levels={list(NAMES)})", "text", {*NAMES}),
    ],
)
def test_simulated_ratings_replace_those_of_the_pilot(response, column, values):
    how = {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 100, "draws": 50}
    formula, frame = f"{response} ~ x", ratings()
    fit = pyflowers.fit(formula, frame, family="cumulative", **how)
    at, _ = _true_values(fit, {"b[x]": 0.0})
    spec = pyflowers.Spec(formula, frame, family="cumulative", seed=1)
    first, second = (task.spec.data for task in _Tasks(fit, spec, "", ((0, 30),), at, 2, ("b[x]",)))
    assert set(first.columns) <= set(frame.columns)
    drawn = [table[column].astype(frame[column].dtype) for table in (first, second)]
    assert all(set(each) == values for each in drawn)
    assert (drawn[0] != drawn[1]).any()
    again = pyflowers.fit(formula, first, family="cumulative", **how)
    assert again.data.labels[again.data.value].names == fit.data.labels[fit.data.value].names


def test_categories_without_an_order_are_refused(tmp_path):
    how = {"rows": 30, "sims": 2, "seed": 1, "engine": "stanli", "draws": 50, "warmup": 50}
    with pytest.raises(ConfigError, match=r"categories of text have no order.* family bernoulli"):
        pyflowers.design(
            "text ~ x",
            ratings(),
            family="categorical",
            effects={"b_mugood[x]": 1},
            out=tmp_path,
            **how,
        )


@pytest.mark.parametrize(
    ("given", "expected"),
    [(5, (5,)), ("5,10", (5, 10)), ("20:80:20", (20, 40, 60, 80)), ("3:5", (3, 4, 5)), ([2], (2,))],
)
def test_sizes(given, expected):
    assert sizes(given, "rows") == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": "5;10"}, "rows: '5;10' is not a size"),
        ({"rows": "10:5:1"}, "rows: '10:5:1' is not a size"),
        ({"rows": "1:2:3:4"}, "rows: '1:2:3:4' is not a size"),
        ({"rows": 0}, "rows must be a whole number of at least 1"),
        ({"sims": 0}, "sims must be a whole number of at least 1"),
        ({"effects": {}}, "no effect is given; give at least one"),
        ({"effects": {"b[z]": 1}}, r"effect: y ~ x has no parameter 'b\[z\]'"),
        ({"effects": {"b[x]": "much"}}, r"effect: b\[x\] must be a number"),
        ({"effects": {"sigma": -1}}, "effect: sigma is -1, but must be ≥ 0"),
        ({"region": (1, 0)}, "region must be two numbers, the smaller first"),
        ({"groups": 5}, "y_x has no group effects, so only the number of rows"),
        ({"unit": "g"}, "y_x has no group effects, so only the number of rows"),
    ],
)
def test_mistaken_requests_are_refused(pilot, tmp_path, given, message):
    how = {"rows": 10, "sims": 2, **OPTIONS, "engine": "exact", **given}
    with pytest.raises(ConfigError, match=message):
        pyflowers.design("y ~ x", pilot, out=tmp_path / "design", **how)


@pytest.mark.parametrize(
    ("formula", "family", "effects", "message"),
    [
        ("share ~ x", "zero_inflated_beta", {"zi": 1.5}, "effect: zi is 1.5, but must be ≤ 1"),
        (
            "rating ~ x",
            "cumulative",
            {"threshold[2]": -9},
            r"elements of threshold do not increase",
        ),
        (
            "rating ~ 1",
            "cumulative",
            {"threshold[2]": -9},
            r"elements of threshold do not increase",
        ),
        ("y ~ mo(rating)", "gaussian", {"mo_rating": 0.9}, r"not simulated from mo_rating.* step_"),
        (
            "y ~ x + (x | g)",
            "gaussian",
            {"cor_g[Intercept,x]": 1.5},
            "are impossible; change them",
        ),
    ],
)
def test_values_that_a_parameter_cannot_have_are_refused(
    pilot, tmp_path, formula, family, effects, message
):
    frame = pd.read_csv(pilot).assign(rating=[1, 2, 3] * 4, share=[0, 0.4, 0.7] * 4)
    how = {"engine": "stanli", "chains": 1, "draws": 50, "warmup": 50, "workers": 1, "seed": 1}
    groups = 4 if "g)" in formula else None
    with pytest.raises(ConfigError, match=message):
        pyflowers.design(
            formula,
            frame,
            out=tmp_path / "design",
            family=family,
            effects=effects,
            rows=12,
            groups=groups,
            sims=2,
            **how,
        )


@pytest.mark.parametrize("response", ["y | trunc(lb = -5)", "y | cens(none)", "y | weights(twice)"])
def test_responses_that_are_not_predicted_as_they_are_observed_are_refused(
    pilot, tmp_path, response
):
    frame = pd.read_csv(pilot).assign(none=0, twice=2)
    how = {"rows": 10, "sims": 2, **OPTIONS, "engine": "stanli", "draws": 50, "warmup": 50}
    with pytest.raises(ConfigError, match=r"has \w+\(\), so its data cannot be simulated"):
        pyflowers.design(f"{response} ~ x", frame, out=tmp_path, **how)


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, "has effects that vary by g; give"), ({"groups": 5, "unit": "h"}, "no effects vary")],
)
def test_the_groups_must_be_given(pilot, tmp_path, given, message):
    how = {"rows": 10, "sims": 2, **OPTIONS, "engine": "stanli", "chains": 1, "draws": 50}
    with pytest.raises(ConfigError, match=message):
        pyflowers.design("y ~ x + (1 | g)", pilot, out=tmp_path, warmup=50, **how, **given)


def test_a_group_that_is_also_a_covariate_is_refused(pilot, tmp_path):
    frame = pd.read_csv(pilot).assign(year=np.repeat([2001, 2002, 2003, 2005], 3))
    how = {"seed": 1, "rows": 3, "groups": 4, "sims": 2, "effects": {"b[year]": 0.5}, "workers": 1}
    fast = {"engine": "stanli", "chains": 1, "draws": 50, "warmup": 50}
    with pytest.raises(ConfigError, match="groups: year is also a covariate, for which a new"):
        pyflowers.design("y ~ year + (1 | year)", frame, out=tmp_path, **how, **fast)


# Pilot data whose rows fall into cells of equal covariates and groups. The theory of the first
# three designs is known: they have the same rows, or whole copies of the pilot's groups.
KNOWN = {
    "two groups": ("y ~ treated", {"treated": [0, 1] * 20}),
    "slope": ("y ~ x", {"x": [-2, -1, 0, 1, 2] * 8}),
    "clusters": (
        "y ~ treated + (1 | g)",
        {"g": np.repeat(list("abcdefgh"), 10), "treated": np.repeat([0, 1] * 4, 10)},
    ),
    "offset": (
        "y ~ treated + offset(log(hours))",
        {"hours": [1, 2, 3, 4] * 10, "treated": [0, 0, 1, 1] * 10},
    ),
}


def known_design(kind, out):
    """Return a simulated design, with the coefficient's degrees of freedom and standard error.

    With equal clusters, the coefficient is that of a regression of their means, whose variance is
    1 + 1 / 10 here. This is the variance of a row, 2, times the design effect 1 + 9 / 2, over 10.
    """
    formula, columns = KNOWN[kind]
    frame = pd.DataFrame(columns)
    frame["y"] = np.random.default_rng(5).normal(size=len(frame))
    name = frame.columns[-2]
    size, true, spread, num = {"rows": len(frame)}, {"sigma": 1.0}, 1.0, len(frame)
    x = frame[name]
    if kind == "clusters":
        size, true, spread, num = (
            {"rows": 10, "groups": 24},
            {**true, "sd_g[Intercept]": 1.0},
            1.1,
            24,
        )
        x = np.tile([0, 1], 12)
    error = np.sqrt(spread / (num * np.var(x)))
    made = pyflowers.design(
        formula,
        frame,
        effects={f"b[{name}]": 2.6 * error, **true},
        **size,
        engine="exact",
        interval=0.95,
        sims=400,
        seed=2,
        workers=1,
        out=out,
    )
    return made.table().xs(f"b[{name}]", level="parameter").iloc[0], num - 2, error


@pytest.mark.slow
@pytest.mark.parametrize("kind", KNOWN)
def test_each_table_is_fitted_with_the_pilots_coefficients(kind, tmp_path):
    """Labels of cells of equal rows replace neither a covariate nor the labels of new groups."""
    formula, columns = KNOWN[kind]
    frame = pd.DataFrame(columns).assign(y=lambda d: np.arange(len(d)) % 7.0)
    name, groups = frame.columns[-2], None  # before y
    if kind == "clusters":
        groups = 12  # more than the pilot has
    how = {"effects": {f"b[{name}]": 0.5}, "seed": 1, "engine": "exact", "draws": 200}
    made = pyflowers.design(
        formula, frame, rows=10, groups=groups, sims=2, workers=1, out=tmp_path / "design", **how
    )
    assert made.batch.failures.tolist() == []
    assert made.table()["fits"].tolist() == [2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two groups", "slope", "clusters"])
def test_power_width_and_coverage_agree_with_theory(kind, tmp_path):
    """Within 3 Monte Carlo errors of the noncentral t distribution.

    The default prior of a standard deviation is nearly flat where the likelihood is. Under a flat
    one, the interval of a coefficient with f degrees of freedom is its estimate ± q standard
    errors, with q = sqrt(f / (f - 1)) times the quantile of t with f - 1.
    """
    from scipy.special import gammaln
    from scipy.stats import nct, t

    row, df, error = known_design(kind, tmp_path / "design")
    q = np.sqrt(df / (df - 1)) * t.ppf(0.975, df - 1)
    mean_of_s = np.sqrt(2 / df) * np.exp(gammaln((df + 1) / 2) - gammaln(df / 2))
    assert row["fits"] == 400
    assert row["width"] == pytest.approx(2 * q * error * mean_of_s, abs=3 * row["width mcse"])
    for share, expected in {
        "excludes 0": nct.sf(q, df, 2.6) + nct.cdf(-q, df, 2.6),
        "covers": 1 - 2 * t.sf(q, df),
    }.items():
        mcse = np.sqrt(expected * (1 - expected) / 400)
        assert row[share] == pytest.approx(expected, abs=3 * mcse)
