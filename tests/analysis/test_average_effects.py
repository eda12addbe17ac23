"""Average effects against definitions computed from the draws, and refused input."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from row_fits import FRAME, NUM, b, fit_of
from scipy.special import expit

import pyflowers
from pyflowers import plots
from pyflowers.analysis import average_effects
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.prediction import Predictor
from pyflowers.programs.terms import around
from pyflowers.reports import render_report

X = FRAME.x.to_numpy()
MALE = (FRAME.sex == "m").to_numpy()

FAST = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}


def in_one_line(found):
    """Return what is printed of a result, without line breaks."""
    return " ".join(str(found).split())


def draws(fit, *columns, **options):
    return np.asarray(pyflowers.effects(fit, *columns, **options).draws())


def coefficients(fit, *names):
    return [b(fit, name)[..., 0] for name in names]


def site_of(fit, frame=FRAME):
    sites = list(dict.fromkeys(FRAME.site))
    return fit.draws["r_site"][:, :, [sites.index(each) for each in frame.site]]


def eta_of(fit, x, male):
    """Return the linear predictor of ``hit ~ x * sex + (1 | site)``."""
    one, slope, sex, both = (
        each[..., None]
        for each in (fit.draws["Intercept"], *coefficients(fit, "x", "sexm", "x:sexm"))
    )
    return one + slope * x + sex * male + both * x * male + site_of(fit)


LOGISTIC = ("hit ~ x * sex + (1 | site)", "bernoulli")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_comparisons_of_numbers():
    fit = fit_of(*LOGISTIC)

    def mean(x):
        return expit(eta_of(fit, x, MALE)).mean(axis=2)

    close(draws(fit, "x")[..., 0], mean(X + 1) - mean(X))
    close(draws(fit, "x", step=-0.25)[..., 0], mean(X - 0.25) - mean(X))
    half = FRAME.x.std(ddof=1) / 2
    close(draws(fit, "x", step="sd")[..., 0], mean(X + half) - mean(X - half))
    close(draws(fit, "x", between=(1, 3))[..., 0], mean(3 + 0 * X) - mean(1 + 0 * X))
    close(draws(fit, "x", between=(1, 3), scale="ratio")[..., 0], mean(3 + 0 * X) / mean(1 + 0 * X))
    high, low = mean(X + 1), mean(X)
    odds = high / (1 - high) / (low / (1 - low))
    close(draws(fit, "x", scale="odds ratio")[..., 0], odds)


def test_comparisons_of_levels():
    fit = fit_of(*LOGISTIC)
    one, zero = np.ones(NUM), np.zeros(NUM)
    close(
        draws(fit, "sex")[..., 0],
        (expit(eta_of(fit, X, one)) - expit(eta_of(fit, X, zero))).mean(axis=2),
    )
    assert pyflowers.effects(fit).table().index.tolist() == [("x", "+ 1"), ("sex", "m - f")]
    linear = fit_of("y ~ dose * x")
    low, zero_dose = coefficients(linear, "doselow", "dosezero")
    low_x, zero_x = coefficients(linear, "doselow:x", "dosezero:x")
    found = draws(linear, "dose")
    close(found[..., 0], low + low_x * X.mean())
    close(found[..., 1], zero_dose + zero_x * X.mean())
    close(draws(linear, "dose", between=("zero", "low"))[..., 0], found[..., 0] - found[..., 1])


def test_a_level_may_be_given_as_a_number():
    frame = FRAME.assign(year=np.where(FRAME.sex == "m", 96.0, 95.0))
    fit = fit_of("y ~ C(year)", frame=frame)
    (effect,) = pyflowers.effects(fit, "year", between=(95.0, 96.0)).table().index
    assert effect == ("year", "96 - 95")


def test_a_reference_level_that_was_chosen_is_that_of_comparisons():
    fit = fit_of("y ~ C(year, ref=96)")
    found = pyflowers.effects(fit)
    assert [change for _, change in found.table().index] == ["95 - 96", "97 - 96"]
    close(np.asarray(found.draws()), np.stack(coefficients(fit, "year95", "year97"), axis=-1))


@pytest.mark.parametrize(
    ("formula", "family", "column", "derivative"),
    [
        (*LOGISTIC, "x", None),
        (
            "count ~ log(`positive x`) + offset(log(hours)) + (1 | site)",
            "negbinomial",
            "positive x",
            lambda fit: (
                np.exp(
                    fit.draws["Intercept"][..., None]
                    + b(fit, "log(`positive x`)") * np.log(FRAME["positive x"].to_numpy())
                    + np.log(FRAME.hours.to_numpy())
                    + site_of(fit)
                )
                * b(fit, "log(`positive x`)")
                / FRAME["positive x"].to_numpy()
            ),
        ),
        (
            "y ~ I(x**2) + x",
            "gaussian",
            "x",
            lambda fit: 2 * b(fit, "I(x ** 2)") * X + b(fit, "x"),
        ),
        (
            "y ~ scale(x) * dose",
            "gaussian",
            "x",
            lambda fit: (
                (
                    b(fit, "scale(x)")
                    + b(fit, "scale(x):doselow") * (FRAME.dose == "low").to_numpy()
                    + b(fit, "scale(x):dosezero") * (FRAME.dose == "zero").to_numpy()
                )
                / FRAME.x.std(ddof=1)
            ),
        ),
    ],
)
def test_slopes_are_derivatives(formula, family, column, derivative):
    fit = fit_of(formula, family)
    if derivative is None:
        p = expit(eta_of(fit, X, MALE))
        slope, both = (each[..., None] for each in coefficients(fit, "x", "x:sexm"))
        expected = (p * (1 - p) * (slope + both * MALE)).mean(axis=2)
    else:
        expected = derivative(fit).mean(axis=2)
    found = draws(fit, column, slopes=True)[..., 0]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_slopes_of_a_spline_stay_where_it_has_values():
    """A spline that is a single cubic has the slopes of that cubic, even at the ends."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"t": np.linspace(0, 1, 40)})
    frame["y"] = 1 + 2 * frame.t - 3 * frame.t**2 + rng.normal(0, 0.05, 40)
    fit = fit_of("y ~ bs(t, df=3)", frame=frame)
    # Without inner knots, each draw of the spline is one cubic; fit it and differentiate it.
    values = np.asarray(pyflowers.predict(fit, frame).draws()).reshape(-1, 40)
    expected = [
        np.polynomial.Polynomial.fit(frame.t, row, 3).deriv()(frame.t).mean() for row in values
    ]
    found = draws(fit, "t", slopes=True).ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    label = pyflowers.effects(fit, "t").table().index[0][1]
    assert label == "0.75 - 0.25"


def test_averages_by_a_column_and_over_a_census():
    fit = fit_of(*LOGISTIC)
    at = expit(eta_of(fit, X + 1, MALE)) - expit(eta_of(fit, X, MALE))
    found = draws(fit, "x", by="sex")
    table = pyflowers.effects(fit, "x", by="sex").table()
    assert table.index.names == ["column", "change", "sex"]
    for i, (_, _, sex) in enumerate(table.index):
        close(found[..., i], at[..., (FRAME.sex == sex).to_numpy()].mean(axis=2))
    census = FRAME.assign(people=np.arange(1.0, NUM + 1))
    weighted = draws(fit, "x", new=census, weights="people")[..., 0]
    close(weighted, np.average(at, axis=2, weights=census.people))
    few = FRAME.iloc[:5]
    close(draws(fit, "x", new=few)[..., 0], at[..., :5].mean(axis=2))


def test_odds_of_counts_are_those_of_their_probabilities():
    fit = fit_of("hits | trials(n) ~ x", "binomial")
    slope = coefficients(fit, "x")[0]
    one = FRAME.iloc[:1]
    close(draws(fit, "x", scale="odds ratio", new=one)[..., 0], np.exp(slope))
    fixed = fit_of("hits | trials(50) ~ x", "binomial")
    slope = coefficients(fixed, "x")[0]
    close(draws(fixed, "x", scale="odds ratio", new=one)[..., 0], np.exp(slope))


def test_groups_are_the_datas_or_none_or_the_population():
    fit = fit_of("count ~ x + (1 | site)", "poisson")
    one, slope = fit.draws["Intercept"][..., None], b(fit, "x")
    at = np.exp(one + slope * (X + 1)) - np.exp(one + slope * X)
    close(draws(fit, groups="none")[..., 0], at.mean(axis=2))
    close(draws(fit)[..., 0], (at * np.exp(site_of(fit))).mean(axis=2))
    raised = np.exp(fit.draws["sd_site"] ** 2 / 2)  # E exp(r) for normal r
    np.testing.assert_allclose(
        draws(fit, groups="population")[..., 0], (at * raised).mean(axis=2), rtol=1e-6
    )


def slopes_of(fit, group, labels):
    """Return each row's intercept and slope of a group, and their population's sds and correlation.

    The shapes are (chain, draw, N) and (chain, draw, 1).
    """
    order = list(dict.fromkeys(FRAME[group]))
    of_row = fit.draws[f"r_{group}"][:, :, [order.index(each) for each in labels]]
    sd, cor = fit.draws[f"sd_{group}"], fit.draws[f"cor_{group}"]
    return of_row[..., 0], of_row[..., 1], sd[..., :1], sd[..., 1:], cor[..., :1]


VARYING = {
    "gaussian": ("y ~ x + dose + (x | site)", "gaussian", ("site",)),
    "poisson": ("count ~ x + dose + (x | site)", "poisson", ("site",)),
    "bernoulli": ("hit ~ x + dose + (x | site)", "bernoulli", ("site",)),
    "two factors": ("count ~ x + dose + (x | site) + (x | sex)", "poisson", ("site", "sex")),
}


def expected_by_hand(fit, family, groups, x, dose, way):
    """Return the expected responses of all rows, with x and dose replaced."""
    eta, variance = fit.draws["Intercept"][..., None] + b(fit, "x") * x, 0.0
    for level in ("low", "zero"):
        eta = eta + b(fit, f"dose{level}") * (dose == level)
    for group in groups:
        one, slope, sd_one, sd_slope, cor = slopes_of(fit, group, FRAME[group])
        if way == "data":
            eta = eta + one + slope * x
        else:
            both = 2 * cor * sd_one * sd_slope * x
            variance = variance + sd_one**2 + both + (sd_slope * x) ** 2
    if family == "gaussian":
        return eta
    if family == "poisson":
        return np.exp(eta + variance / 2)  # the mean of a lognormal distribution
    # The trapezoidal rule over the normal distribution of the linear predictor.
    z = np.linspace(-9, 9, 201)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    sd = np.sqrt(np.asarray(variance) + 0 * eta)
    return sum(p * expit(eta + sd * at) for at, p in zip(z, density, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARYING)
def test_an_effect_that_varies_is_given_in_the_population_and_for_these_groups(name):
    formula, family, groups = VARYING[name]
    fit = fit_of(formula, family)
    found = pyflowers.effects(fit)
    dose = FRAME.dose.to_numpy()
    rows = found.table().reset_index()
    assert rows.groups[:2].tolist() == ["population", "data"]
    its = np.asarray(found.draws())
    # The quadrature under a logit link is exact only where the sd over groups is small.
    well = np.ones(its.shape[:2], dtype=bool)
    if family == "bernoulli":
        _, _, sd_one, sd_slope, _ = slopes_of(fit, "site", FRAME.site)
        well = (sd_one + sd_slope * np.abs(X + 1).max()).max(axis=2) < 2.5
        assert well.sum() >= 20
    for way, place in (("population", 0), ("data", 1)):
        at = [expected_by_hand(fit, family, groups, x, dose, way) for x in (X + 1, X)]
        mean = (at[0] - at[1]).mean(axis=2)
        np.testing.assert_allclose(its[well, place], mean[well], rtol=2e-6, atol=1e-8)
        close(draws(fit, "x", groups=way)[..., 0], its[..., place])
    # The effect of dose is not that of groups: where the link is the identity, it is one number.
    expected = ["either"] if family == "gaussian" else ["population", "data"]
    assert rows[rows.change == "low - high"].groups.tolist() == expected
    for i in rows.index[rows.change == "low - high"]:
        way = "data" if rows.groups[i] == "either" else rows.groups[i]
        at = [expected_by_hand(fit, family, groups, X, level, way) for level in ("low", "high")]
        mean = (at[0] - at[1]).mean(axis=2)
        np.testing.assert_allclose(its[well, i], mean[well], rtol=2e-6, atol=1e-8)
    text = str(found)
    assert f"population: in the population of groups ({', '.join(groups)})" in text
    these = "these 6 groups (site)" if len(groups) == 1 else "these groups (6 of site, 2 of sex)"
    assert f"data: for {these}" in text


@pytest.mark.parametrize(
    "name", ["gaussian", *(pytest.param(n, marks=pytest.mark.slow) for n in list(VARYING)[1:])]
)
def test_a_report_begins_with_the_effect_in_the_population(name, tmp_path):
    fit = fit_of(*VARYING[name][:2])
    page = pyflowers.report(fit, tmp_path / "report.html").read_text(encoding="utf-8")
    answer = page[page.index('<section id="answer"') :].partition("<figure")[0]
    assert f"in the population of groups ({', '.join(VARYING[name][2])})" in answer
    first = page[page.index('<ul class="effects">') :].partition("</li>")[0]
    shown = [float(value) for value in re.findall(r'<data value="([^"]+)">', first)]
    population, data = (
        np.quantile(draws(fit, "x", groups=way), [0.5, 0.05, 0.95])
        for way in ("population", "data")
    )
    ratios = pyflowers.effects(fit, "x").ratios
    if ratios is not None:  # the ratio comes first
        np.testing.assert_allclose(shown.pop(0), np.median(ratios[..., 0]), rtol=1e-6)
    np.testing.assert_allclose(shown[:3], population, rtol=1e-6)
    np.testing.assert_allclose(shown[-3:], data, rtol=1e-6)
    assert re.search(r"For these .*\((6 of )?site.*\).* alone: ", first)


def test_the_effects_of_the_groups_that_a_user_asks_for_are_those_of_these_groups():
    fit = fit_of(*VARYING["gaussian"][:2])
    found = pyflowers.effects(fit, "x", by="site")
    assert found.groups == "data"
    assert found.table().index.names == ["column", "change", "site"]
    assert pyflowers.effects(fit, "x", by="dose").groups == "both"
    none = pyflowers.effects(fit, "x", groups="none")
    assert "with the effects of groups (site) at their mean" in in_one_line(none)
    # Varying intercepts shift the response, but no effect on the linear predictor.
    same = pyflowers.effects(fit_of("count ~ x + (1 | site)", "poisson"), "x")
    assert same.groups == "data"
    assert "60 rows of the data frame, for these 6 groups (site)" in in_one_line(same)


def test_the_default_uses_fewer_draws_where_integrals_take_long(monkeypatch):
    fit = fit_of(*VARYING["bernoulli"][:2])
    whole = draws(fit, "x")
    monkeypatch.setattr(average_effects, "MOST_INTEGRATED", 40 * NUM)
    monkeypatch.setattr(average_effects, "FEWEST_DRAWS", 20)
    found = pyflowers.effects(fit, "x")
    close(np.asarray(found.draws()), whole[:, ::5])
    assert "note: computed from 1 in 5 draws" in str(found)
    close(draws(fit, "x", groups="population")[..., 0], whole[..., 0])
    assert pyflowers.effects(fit_of(*VARYING["poisson"][:2]), "x").step == 1  # a closed form


def test_equal_rows_are_predicted_once(monkeypatch):
    fit = fit_of("hit ~ sex + dose + (sex | site)", "bernoulli")
    frame = pd.concat([FRAME, FRAME.iloc[:20]])
    sizes, real = [], Predictor.expected

    def expected(self):
        sizes.append(len(self.rows))
        return real(self)

    monkeypatch.setattr(Predictor, "expected", expected)
    weights = np.arange(1.0, 81)
    found = pyflowers.effects(
        fit, "sex", new=frame.assign(n=weights), weights="n", groups="population"
    )
    assert sizes == [3, 3]  # one row for each dose
    monkeypatch.undo()
    at = [
        np.asarray(pyflowers.predict(fit, frame.assign(sex=sex), groups="population").draws())
        for sex in "mf"
    ]
    close(np.asarray(found.draws())[..., 0], np.average(at[0] - at[1], axis=2, weights=weights))


def test_probabilities_are_shares_of_draws():
    fit = fit_of("y ~ dose * x")
    found = pyflowers.effects(fit, "x", rope=(-0.1, 0.55))
    its, table = np.asarray(found.draws()), found.table()
    assert table["P(> 0)"].iloc[0] == (its > 0).mean()
    assert table["P(outside)"].iloc[0] == ((its < -0.1) | (its > 0.55)).mean()
    count = fit_of("count ~ x + (1 | site)", "poisson")
    ratio = pyflowers.effects(count, "x", scale="ratio")
    assert ratio.table()["P(> 1)"].iloc[0] == (np.asarray(ratio.draws()) > 1).mean()
    assert list(table.columns)[:6] == ["median", "5%", "25%", "75%", "95%", "mcse"]


def test_a_column_of_two_numbers_is_compared_at_both():
    frame = FRAME.assign(treated=(FRAME.sex == "m") * 1)
    fit = fit_of("y ~ treated", frame=frame)
    assert pyflowers.effects(fit).table().index.tolist() == [("treated", "1 - 0")]
    assert pyflowers.effects(fit, step=1).table().index.tolist() == [("treated", "+ 1")]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (("site",), {}, "site is a group; compare its labels with pyflowers"),
        (("y",), {}, "'y' is not a covariate of hit ~ x * sex + (1 | site); its"),
        (("y",), {}, "its covariates are x, sex"),
        (("x", "sex"), {"between": (1, 2)}, "compares two values of a column; name"),
        (("x",), {"between": ("low", "high")}, "between must be two numbers for x"),
        (("sex",), {"between": ("f", "x")}, "'x' is not a level of sex; choose two of f, m"),
        (("sex",), {"between": ("f",)}, "between must be two levels of sex, got ('f',)"),
        (("sex",), {"between": "fm"}, "between must be two levels of sex, got 'fm'"),
        (("x",), {"step": "mean"}, "step must be a finite number other than 0, or 'sd', got"),
        (("x",), {"step": 0}, "step must be a finite number other than 0, or 'sd', got 0"),
        (("sex",), {"slopes": True}, "effects: --slopes does not apply to sex, which is a factor"),
        (("x",), {"slopes": True, "scale": "ratio"}, "slopes are derivatives, so the options"),
        (
            ("x",),
            {"scale": "log"},
            "scale must be one of difference, ratio, average ratio, odds ratio, got 'log'",
        ),
        (("x",), {"rope": (1, -1)}, "rope must be two numbers, the smaller first"),
        (("x",), {"groups": "some"}, "groups must be one of data, none, population"),
    ],
)
def test_what_cannot_be_compared_is_refused(columns, options, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        pyflowers.effects(fit_of(*LOGISTIC), *columns, **options)


def test_scales_need_what_they_compare():
    with pytest.raises(ConfigError, match="family gaussian with the link identity; use"):
        pyflowers.effects(fit_of("y ~ x"), scale="odds ratio")
    with pytest.raises(ConfigError, match="needs expected values above 0; use scale"):
        pyflowers.effects(fit_of("y ~ x"), between=(-300, 300), scale="ratio")
    none = "has no covariates other than groups, offsets and trials; "
    with pytest.raises(ConfigError, match=f"{none}compare groups with pyflowers contrast"):
        pyflowers.effects(fit_of("y ~ 1 + (1 | site)"))
    with pytest.raises(ConfigError, match=f"{none}name one of the formula's offsets: x"):
        pyflowers.effects(fit_of("y ~ 1 + offset(x) + (1 | site)"))
    with pytest.raises(ConfigError, match=f"{none}add a covariate to the model"):
        pyflowers.effects(fit_of("y ~ 1"))
    with pytest.raises(DataError, match=r"sexx: the fit does not use .*did you mean sex\?"):
        pyflowers.effects(fit_of("y ~ x + sex"), by="sexx")
    with pytest.raises(DataError, match=r"colour: the fit does not use this column.*new=TABLE"):
        pyflowers.effects(fit_of("y ~ x"), by="colour")
    # A spline is not defined beyond the data.
    for formula in ("y ~ bs(hours, df=4)", "y ~ bs(hours, df=4) - 1"):
        with pytest.raises(ConfigError, match=r"hours \+ 5; .*: terms '(bs\(.*\))': \1 is not"):
            pyflowers.effects(fit_of(formula), "hours", step=5)


def test_a_group_called_mu_and_labels_with_blanks_in_contrasts():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"mu": np.repeat(["a", " a", "b ", "c"], 6), "x": rng.normal(size=24)})
    frame["y"] = np.repeat([0.0, 5.0, 9.0, 3.0], 6) + 0.1 * frame.x
    fit = pyflowers.fit("y ~ 1 + (1 | mu)", frame, **FAST)
    rows = pyflowers.predict(fit).draws()
    for text, row in (("a", 0), ("  a", 6), ("   b ", 12), (" c", 18), ("   c", 18)):
        (found,) = pyflowers.contrast(fit, f"mu[mu{'' if text[0] == ' ' else ' '}{text}]").derived
        np.testing.assert_allclose(found, rows[..., row])
    (found,) = pyflowers.contrast(fit, "mu").derived
    np.testing.assert_allclose(found, rows.mean("row"))
    with pytest.raises(ConfigError, match=r"needs one of the labels of mu, such as mu\[mu a\]"):
        pyflowers.contrast(fit, "rank(mu[mu])")
    with pytest.raises(ConfigError, match=r"'r_mu\[c\] & mu' is not allowed"):
        pyflowers.contrast(fit, "r_mu[c] & mu")


def test_weights_of_any_size_give_averages():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.1, 0.9, 2.2, 2.8]})
    fit = pyflowers.fit("y ~ x", frame, **FAST)
    for size in (1.0, 1e308, 1e-300):
        new = frame.assign(w=np.array([1, 1, 0.5, 0]) * size)
        found = pyflowers.predict(fit, new, weights="w").draws()[..., 0]
        expected = pyflowers.predict(fit).draws().values @ [0.4, 0.4, 0.2, 0]
        np.testing.assert_allclose(found, expected)


def test_expected_responses_in_contrasts():
    fit = fit_of(*LOGISTIC)
    at = expit(eta_of(fit, X, MALE))
    found = pyflowers.contrast(
        fit, "mu[site a] - mu[site b]", "mu", "mu[sex m, site a] > 0.5", "sd_site[1]"
    )
    draws = [np.asarray(each) for each in found.derived]
    in_a, in_b = (FRAME.site == "a").to_numpy(), (FRAME.site == "b").to_numpy()
    close(draws[0], at[..., in_a].mean(axis=2) - at[..., in_b].mean(axis=2))
    close(draws[1], at.mean(axis=2))
    assert np.array_equal(draws[2], at[..., in_a & MALE].mean(axis=2) > 0.5)
    year = fit_of("y ~ C(year) + (1 | site)")
    assert len(pyflowers.contrast(year, "mu[year 97.0] - mu[year 95]").numbers()) == 1
    for text, words in (
        (
            "mu[site z]",
            "no row has site 'z'; choose one of a, b, c, d, e, f, or predict other rows",
        ),
        ("mu[place a]", "'place a' names no column"),
        ("mu[site a", "the bracket after mu is not closed"),
        ("mu[]", "names no column"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)):
            pyflowers.contrast(fit, text)


def test_ranks_are_probabilities():
    fit = fit_of("y ~ x + (1 | site)")
    found = pyflowers.contrast(fit, "rank(r_site)")
    assert len(found.numbers()) == 0
    table, r = found.ranks(), fit.draws["r_site"]
    ranks = 1 + (r[..., None, :] > r[..., :, None]).sum(-1)
    for name, holds in (("first", ranks == 1), ("top 3", ranks <= 3), ("last", ranks == 6)):
        np.testing.assert_allclose(table[f"P({name})"], holds.mean(axis=(0, 1)), rtol=1e-12)
    assert table["P(first)"].sum() == pytest.approx(1)
    assert table["P(top 3)"].sum() == pytest.approx(3)


def test_a_column_whose_name_begins_a_factors_name_stays_numbers():
    frame = FRAME.rename(columns={"positive x": "ye"})
    fit = fit_of("y ~ C(year, ref=97) + ye", frame=frame)
    changes = [change for _, change in pyflowers.effects(fit).table().index]
    assert changes == ["95 - 97", "96 - 97", "+ 1"]
    assert around("a:b", 'C(`a:b`, ref="c:d"):x + bs(z, df=4)').keys() == {"C"}
    assert around("z", "x:bs(z, df=4) + I(z**2 / 3)").keys() == {"bs", "I", "**", "/"}


def dots_of(figure):
    return [line for line in figure.axes[0].lines if line.get_marker() == "."]


def test_observations_have_the_levels_at_which_factors_are_fixed():
    fit = fit_of("y ~ x + dose + sex + (1 | site)")
    sex = FRAME.sex.mode()[0]
    there = ((FRAME.dose == "zero") & (FRAME.sex == sex)).to_numpy()
    figure = plots.conditional_effects(fit, "x")
    (dots,) = dots_of(figure)
    assert sorted(dots.get_xdata()) == sorted(X[there])
    note = f"Observations with dose = zero, sex = {sex} are drawn: {there.sum()} of {NUM}."
    assert note in plots.alt_text(figure)
    rows = plots.conditional_effects(fit, "dose")
    assert sorted(dots_of(rows)[0].get_xdata()) == sorted(FRAME.y[FRAME.sex == sex])
    by = dots_of(plots.conditional_effects(fit, "x", by="dose"))
    assert sum(len(line.get_xdata()) for line in by) == (FRAME.sex == sex).sum()
    # Numbers are fixed at their mean, which no observation need have: all are drawn.
    alone = plots.conditional_effects(fit_of("y ~ x + hours"), "x")
    assert len(dots_of(alone)[0].get_xdata()) == NUM
    assert "are drawn" not in plots.alt_text(alone)


def rings_of(ax):
    return [line for line in ax.lines if line.get_marker() == "o" and line.get_mfc() == "none"]


def test_censored_observations_are_rings():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": np.tile(np.linspace(0, 1, 20), 3), "g": np.repeat(list("abc"), 20)})
    frame["f"] = np.where(np.arange(60) % 2, "odd", "even")
    frame["t"] = rng.exponential(np.exp(frame.x)).clip(max=1.5)
    frame["c"] = np.where(frame.t == 1.5, "right", "none")
    frame.loc[0, "c"] = "left"
    limits = frame[frame.c != "none"]
    assert 5 < len(limits) < 40
    fit = pyflowers.fit("t | cens(c) ~ x + (1 | g)", frame, family="exponential", **FAST)
    figure = plots.conditional_effects(fit, "x")
    (rings,), (dots,) = rings_of(figure.axes[0]), dots_of(figure)
    assert sorted(rings.get_data()[1]) == sorted(limits.t)
    assert len(dots.get_xdata()) == len(frame) - len(limits)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[:2] == ["observed", "censored"]
    lines = plots.group_lines(fit, "x")
    assert sum(len(its.get_xdata()) for ax in lines.axes for its in rings_of(ax)) == len(limits)
    by_level = pyflowers.fit("t | cens(c) ~ f", frame, family="exponential", **FAST)
    rows = plots.conditional_effects(by_level, "f")
    (rings,) = (line for line in rings_of(rows.axes[0]) if line.get_label().startswith("_"))
    assert sorted(rings.get_xdata()) == sorted(limits.t)


def test_of_levels_that_are_equally_frequent_the_first_is_fixed():
    frame = pd.DataFrame({"dose": ["b", "c", "a"] * 8, "z": [10.0, 9.0] * 12})
    frame["x"], frame["y"] = np.random.default_rng(1).normal(size=(2, 24))
    fit = pyflowers.fit("y ~ x + dose + z", frame, **FAST)
    assert "Fixed: dose = a, z = 9." in plots.alt_text(plots.conditional_effects(fit, "x"))


@pytest.mark.parametrize("theme", [plots.LIGHT, plots.DARK])
def test_figures_of_conditional_effects(theme):
    fit = fit_of("count ~ dose * x + offset(log(hours)) + (x | site)", "poisson")
    figure = plots.conditional_effects(fit, "x", by="dose", theme=theme)
    ax = figure.axes[0]
    # The curve is the median at the mean of hours, without groups.
    eta = (
        fit.draws["Intercept"][..., None]
        + b(fit, "x") * np.linspace(X.min(), X.max(), 61)
        + np.log(FRAME.hours.mean())
    )
    curves = [line.get_ydata() for line in ax.lines if line.get_linewidth() == 1.8]
    assert len(curves) == 3
    # The observations of a level have the colour of its curve.
    colours = [line.get_color() for line in ax.lines if line.get_linewidth() == 1.8]
    dots = [line for line in ax.lines if line.get_marker() == "."]
    assert [line.get_color() for line in dots] == colours
    for line, level in zip(dots, ("high", "low", "zero"), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), X[FRAME.dose == level])
    np.testing.assert_allclose(curves[0], np.median(np.exp(eta), axis=(0, 1)), rtol=1e-10)
    spread = plots.conditional_effects(fit, "x", spread="site", theme=theme).axes[0]
    thin = [line for line in spread.lines if line.get_linewidth() == 0.6]
    assert len(thin) == 6
    # Each thin line is the median for one site, at the most frequent dose.
    assert FRAME.dose.mode()[0] == "zero"
    x, first = np.linspace(X.min(), X.max(), 61), fit.draws["r_site"][:, :, 0]
    at = eta + b(fit, "dosezero") + b(fit, "dosezero:x") * x
    at += first[..., :1] + first[..., 1:] * x
    np.testing.assert_allclose(thin[0].get_ydata(), np.median(np.exp(at), axis=(0, 1)), rtol=1e-10)
    rows = plots.conditional_effects(fit, "dose", theme=theme)
    assert [each.get_text() for each in rows.axes[0].get_yticklabels()] == ["high", "low", "zero"]
    for options, words in (
        ({"by": "site"}, "by=… must be a covariate other than x"),
        ({"by": "x"}, "by=… must be a covariate other than x"),
        ({"by": "dose", "spread": "site"}, "by=… and spread=… cannot be combined"),
        ({"spread": "dose"}, "spread=… must be a column of groups (site), got 'dose'"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)):
            plots.conditional_effects(fit, "x", **options)
    with pytest.raises(
        ConfigError, match=r"'site' is not a covariate of .*; its covariates are dose, x, hours"
    ):
        plots.conditional_effects(fit, "site")


@pytest.mark.slow
def test_command_and_report(tmp_path, capfd):
    FRAME.to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "run"
    what = ("hit ~ x * sex + (1 | site)", "--family", "bernoulli", "--data", tmp_path / "table.csv")
    how = ("--engine", "stanli", "--draws", 200, "--warmup", 300, "--seed", 1, "--plots", "none")
    run("fit", *what, *how, "--out", out)
    capfd.readouterr()
    folder = tmp_path / "effects"
    assert (
        run("effects", out, "--by", "sex", "--rope", "-0.1", "0.1", "--out", folder, "--json") == 0
    )
    record = json.loads(capfd.readouterr().out)
    assert [each["change"] for each in record["effects"]] == ["+ 1", "+ 1", "m - f", "m - f"]
    assert {"median", "5%", "95%", "mcse", "P(> 0)", "P(outside)"} <= record["effects"][0].keys()
    kept = {"effects.csv", "effects.json", "effects.png", "effect-x.png", "effect-sex.png"}
    assert {path.name for path in folder.iterdir()} == kept
    assert run("effects", out, "x", "--between", "1", "3", "--scale", "odds ratio") == 0
    assert "odds ratio of the average probabilities of hit" in capfd.readouterr().out
    page = tmp_path / "report.html"
    assert run("report", out, "--out", page) == 0
    html = page.read_text()
    text = re.sub(r"<[^>]+>|[\u2066-\u2069]", "", html)
    assert "are averages over the 60 observations, each with the effects of its site" in text
    fit = pyflowers.Fit.load(out)
    median = pyflowers.effects(fit, "x").table()["median"].iloc[0]
    assert f'value="{float(median)!r}"' in html
    assert "per unit of x" in html
    assert "Expected hit over x" in html


@pytest.mark.slow
def test_a_report_names_the_covariates_whose_effects_it_leaves_out(tmp_path):
    rng = np.random.default_rng(1)
    names = list("abcdefgh")
    frame = pd.DataFrame(rng.normal(size=(40, 8)), columns=names).assign(y=rng.normal(size=40))
    how = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 100, "draws": 50}
    fit = pyflowers.fit(f"y ~ {' + '.join(names)}", frame, **how)
    path = pyflowers.report(fit, tmp_path / "report.html")
    page = re.sub(r"<[^>]+>|[\u2066-\u2069]", "", path.read_text(encoding="utf-8"))
    assert "The effects of g and h are not shown here; pyflowers effects shows them." in page


def test_columns_of_offsets_and_of_like_names_have_figures(tmp_path, capfd):
    FRAME.rename(columns={"positive x": "x!"}).assign(**{"x?": FRAME.x}).to_csv(
        tmp_path / "table.csv", index=False
    )
    out, folder = tmp_path / "run", tmp_path / "effects"
    formula = "count ~ `x!` + `x?` + offset(log(hours))"
    how = ("--engine", "stanli", "--draws", 100, "--warmup", 200, "--seed", 1, "--plots", "none")
    what = (formula, "--family", "poisson", "--data", tmp_path / "table.csv")
    run("fit", *what, *how, "--out", out)
    assert run("effects", out, "--out", folder) == 0
    kept = {"effects.csv", "effects.json", "effects.png", "effect-x_.png", "effect-x__.png"}
    assert {path.name for path in folder.iterdir()} == kept
    assert run("effects", out, "hours", "--out", folder) == 0
    assert (folder / "effect-hours.png").is_file()
    figure = plots.conditional_effects(pyflowers.Fit.load(out), "x?")
    assert re.search(r"Fixed: x! = [-\d.]+, hours = [-\d.]+", plots.alt_text(figure))
    capfd.readouterr()


def test_a_report_says_why_it_has_no_effects(tmp_path):
    """A report is written even if an edited program's prediction rule contradicts its density."""
    program = pyflowers.Program.from_formula("y ~ x", FRAME)
    path = tmp_path / "mine.stan"
    program.write(path)
    path.write_text(path.read_text() + "// edited\n")
    declared = path.with_suffix(".toml")
    declared.write_text(declared.read_text().replace("Intercept + X * b", "Intercept - X * b"))
    fit = pyflowers.fit(path, FRAME, chains=2, warmup=200, draws=200, seed=1, engine="stanli")
    page = pyflowers.report(fit, tmp_path / "report.html").read_text()
    assert "Average effects are not shown: [prediction] in" in page
    assert '<ul class="effects">' not in page


@pytest.mark.parametrize("parts", ["dose:half", "half:dose"])
def test_a_change_of_a_column_moves_each_row_to_the_group_with_the_new_label(parts):
    frame = FRAME.assign(half=np.arange(NUM) % 2)
    fit = fit_of(f"y ~ dose + x + (1 | {parts})", frame=frame)
    one = pyflowers.effects(fit, "dose", groups="data")
    other = pyflowers.effects(fit, "dose", new=frame, groups="data")
    np.testing.assert_allclose(one.draws(), other.draws())
    level, base = str(one.index[0][1]).split(" - ")
    predicted = [
        pyflowers.predict(fit, frame.assign(dose=its)).draws().mean("row") for its in (level, base)
    ]
    np.testing.assert_allclose(one.draws()[..., 0], predicted[0] - predicted[1])
    slope = pyflowers.effects(fit, "x", slopes=True).draws()[..., 0]
    np.testing.assert_allclose(slope, np.squeeze(b(fit, "x"), -1), rtol=1e-6)
    assert one.moved == (parts,)
    assert "the change also moves each row to another observed group" in in_one_line(one)
    assert pyflowers.effects(fit, "x").moved == ()


@pytest.mark.slow
def test_the_effects_of_plots_do_not_pass_for_that_of_the_variety(tmp_path):
    """In a split plot without an effect of the variety, the effect's interval must contain 0."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"block": np.repeat(list("ABCDE"), 12), "variety": ["old", "new"] * 30})
    plots_of = (frame.block + frame.variety).astype("category").cat.codes
    frame["y"] = 50 + rng.normal(0, 10, 10)[plots_of] + rng.normal(0, 2, 60)
    fit = pyflowers.fit("y ~ variety + (1 | block:variety)", frame, **FAST)
    note = "also moves each row to another observed group"
    default = pyflowers.effects(fit, "variety")
    assert f"the change of the effects labelled data {note}" in in_one_line(default)
    whole = pyflowers.effects(fit, "variety", groups="population")
    np.testing.assert_allclose(whole.draws()[..., 0], b(fit, "varietyold")[..., 0], rtol=1e-6)
    close(default.draws()[..., 0], whole.draws()[..., 0])
    assert default.table().index[0] == ("variety", "old - new", "population")
    assert whole.table()["5%"].item() < 0 < whole.table()["95%"].item()
    assert note not in in_one_line(whole)
    page = pyflowers.report([fit], tmp_path / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>|[\u2066-\u2069]", "", page)
    assert "over the 60 observations, in the population of groups (block:variety)." in text
    assert "alone:" not in text
    assert "each with the effects of its" not in page


def test_a_group_whose_labels_hold_colons_needs_the_table_to_be_changed():
    frame = FRAME.assign(half=np.where(np.arange(NUM) % 2, "1:a", "2:a"))
    fit = fit_of("y ~ dose + (1 | dose:half)", frame=frame)
    with pytest.raises(DataError, match=r"contain colons, so dose cannot be changed"):
        pyflowers.effects(fit, "dose")
    assert len(pyflowers.effects(fit, "dose", new=frame, groups="data").table()) == 2


def test_slopes_outside_the_range_of_a_spline_are_refused():
    fit = fit_of("y ~ bs(x, df=4)")
    with pytest.raises(DataError, match=r"row 2: x is 99, but bs\(x\) is defined only from"):
        pyflowers.effects(fit, "x", slopes=True, new=pd.DataFrame({"x": [1.0, 99.0]}))


SHIFTED = """
data {
  int<lower=1> N;
  int<lower=1> G;
  int<lower=1> H;
  vector[N] x;
  array[N] int<lower=1, upper=G> g;
  array[N] int<lower=1, upper=H> h;
  vector[N] y;
}
parameters {
  real beta;
  real mu;
  real<lower=0> tau;
  real<lower=0> sd_h;
  real<lower=0> sigma;
  vector<offset=mu, multiplier=tau>[G] eff;
  vector<multiplier=sd_h>[H] other;
}
model {
  beta ~ normal(0, 5);
  mu ~ normal(0, 5);
  tau ~ normal(0, 2);
  sd_h ~ normal(0, 2);
  sigma ~ normal(0, 2);
  eff ~ normal(mu, tau);
  other ~ normal(0, sd_h);
  y ~ normal(eff[g] + other[h] + beta * x, sigma);
}
"""
OF_SHIFTED = """
[data]
y = { column = "y" }
x = { column = "x" }
g = { column = "g", index = true }
h = { column = "h", index = true }
[table]
group = "g"
[prediction]
family = "gaussian"
linear_predictor = "eff[g] + other[h] + beta * x"
effects = { eff = "normal(mu, tau)", other = "normal(0, sd_h)" }
"""


def test_curves_of_labels_are_those_of_any_program(own_program):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"g": np.repeat(list("abcd"), 12), "h": np.tile(list("uvw"), 16)})
    frame["x"] = rng.normal(size=48)
    at = frame.g.map(dict(zip("abcd", (5, 7, 9, 11), strict=True)))
    frame["y"] = at + frame.x + rng.normal(0, 0.3, 48)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 200}
    fit = pyflowers.fit(own_program("shifted", SHIFTED, OF_SHIFTED), frame, **how)
    grid = np.array([0.0, 1.0])
    for group, name, mean in (("g", "eff", 0.0), ("h", "other", fit.draws["mu"][..., None])):
        found = plots.conditional._of_labels(fit, "x", group, grid)
        own = np.median(fit.draws[name] + mean, axis=(0, 1))
        np.testing.assert_allclose(found[0, 0], own, atol=0.15)
    drawn = plots.conditional_effects(fit, "x", spread="g")
    assert "expected y over x" in plots.alt_text(drawn).lower()


@pytest.mark.parametrize("by", ["median", "change", "column", "groups", ["row", "row"]])
def test_rows_may_be_divided_by_columns_with_names_of_the_tables(by):
    rng = np.random.default_rng(1)
    names = ["median", "change", "column", "row", "groups"]
    frame = pd.DataFrame(rng.integers(0, 2, (30, 5)), columns=names)
    frame["x"], frame["y"] = rng.normal(size=(2, 30))
    fit = pyflowers.fit("y ~ x + median + change + column + row + groups", frame, **FAST)
    for found in (pyflowers.effects(fit, "x", by=by), pyflowers.predict(fit, by=by)):
        table = found.table().reset_index()
        assert table[f"{by}_" if isinstance(by, str) else "row_"].tolist() == ["0", "1"]
        assert str(found)
        assert found.draws().sizes["draw"] == fit.num_draws


def test_a_change_without_predictions_is_blamed_and_not_the_table():
    frame = pd.DataFrame({"z": [0.2, 1.5, 3.0], "y": [1.0, 2.0, 2.5]})
    fit = pyflowers.fit("y ~ log(z)", frame, **FAST)
    with pytest.raises(ConfigError, match="no prediction can be computed for z - 1; choose other"):
        pyflowers.effects(fit, "z", step=-1)


def test_an_unused_rating_does_not_change_the_scale():
    """Five points, of which 3 is never chosen; proportions that no prior moves by much."""
    frame = pd.DataFrame({"group": np.repeat(["a", "b"], 400)})
    frame["rating"] = np.tile(np.repeat([1, 2, 4, 5], 100), 2)
    frame.loc[400:, "rating"] = np.repeat([1, 2, 4, 5], [54, 79, 110, 157])
    fit = pyflowers.fit("rating ~ group", frame, family="cumulative", **FAST)
    means = frame.groupby("group").rating.mean()
    found = pyflowers.predict(fit, by="group").draws().mean(("chain", "draw"))
    np.testing.assert_allclose(found, means, atol=0.1)


def test_ratings_with_other_numbers_are_named_so_and_have_no_ratios():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=60)})
    frame["pain"] = 10 * np.digitize(frame.x + rng.logistic(size=60), [-1, 0, 1])
    fit = pyflowers.fit("pain ~ x", frame, family="cumulative", **FAST)
    found = pyflowers.predict(fit), pyflowers.effects(fit, "x")
    assert all("expected pain" in str(each) and "numbered" not in str(each) for each in found)
    # The same draws, numbered 1 to 4, give expected ratings on another scale.
    above = 1 / (1 + np.exp(fit.draws["threshold"] - fit.draws["b"] * frame.x[0]))
    np.testing.assert_allclose(found[0].draws()[..., 0], 10 * above.sum(axis=-1))
    seen = np.unique(pyflowers.predict(fit, kind="observation").draws())
    assert seen.tolist() == [0, 10, 20, 30]
    average = pyflowers.contrast(fit, "mu").derived[0].values
    np.testing.assert_allclose(average, found[0].draws().mean("row"))
    assert plots.conditional_effects(fit, "x").axes[0].get_ylim()[1] > 20
    assert [t.get_text() for t in plots.predictive(fit).axes[0].get_xticklabels()] == [
        *("0", "10", "20", "30")
    ]
    implied = in_one_line(pyflowers.prior(fit.program, frame, seed=1))
    assert "pain (1 = 0 to 4 = 30) in each draw" in implied
    assert "share of zeros" not in implied
    with pytest.raises(ConfigError, match="'ratio' has no meaning for the mean of ratings"):
        pyflowers.effects(fit, "x", scale="ratio")
    with pytest.raises(
        ConfigError, match="'odds ratio' has no meaning for the mean of ratings; us"
    ):
        pyflowers.effects(fit, "x", scale="odds ratio")
    plain = pyflowers.fit(
        "pain ~ x", frame.assign(pain=frame.pain // 10 + 1), family="cumulative", **FAST
    )
    assert plain.data.value_name == "pain"


def test_a_level_called_none_is_a_level_in_every_table(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"bags": np.repeat(["None", "Driver", "Both"], 20)})
    frame["x"], frame["y"] = rng.normal(size=60), rng.normal(size=60) + (frame.bags == "None")
    frame.to_csv(tmp_path / "cars.csv", index=False)
    alone = pd.DataFrame({"bags": ["None"], "x": [0.0]})
    for formula in ("y ~ x + bags", "y ~ x + (1 | bags)"):
        fit = pyflowers.fit(formula, tmp_path / "cars.csv", **FAST)
        both = pd.concat([alone, alone.assign(bags="Both")])
        one, two = (pyflowers.predict(fit, its).draws()[..., 0] for its in (alone, both))
        np.testing.assert_allclose(one, two)
        assert plots.conditional_effects(fit, "x")
    changes = pyflowers.effects(
        pyflowers.fit("y ~ x + bags", tmp_path / "cars.csv", **FAST), "bags"
    )
    assert [change for _, change in changes.index] == ["Driver - Both", "None - Both"]
    with pytest.raises(DataError, match="lacks bags"):
        pyflowers.predict(fit, alone.assign(bags="NA"))


def test_effects_of_groups_that_are_not_in_the_fit_are_noted():
    frame = FRAME.assign(half=np.where(FRAME.dose == "low", 0, np.arange(NUM) % 2))
    fit = fit_of("y ~ dose + (1 | dose:half)", frame=frame)
    found = pyflowers.effects(fit, "dose", groups="data")
    assert found.drawn == ("dose:half",)
    assert "note: some labels of dose:half are not in the fit" in in_one_line(found)
    whole = fit_of("y ~ dose + (1 | site)")
    assert "note:" not in str(pyflowers.effects(whole, "dose"))


def test_the_line_of_a_label_has_its_own_sex():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"g": np.repeat(list("abcdef"), 10), "x": np.tile(np.arange(10.0), 6)})
    frame["sex"] = np.where(frame.g < "c", "f", "m")
    frame["y"] = frame.x + 20 * (frame.sex == "m") + rng.normal(size=60)
    fit = pyflowers.fit("y ~ x * sex + (1 | g)", frame, **FAST)
    figure = plots.conditional_effects(fit, "x", spread="g")
    lines = [line for line in figure.axes[0].lines if line.get_linewidth() == 0.6]
    ends = pd.DataFrame({"g": list("abcdef"), "x": 0.0, "sex": list("ffmmmm")})
    expected = pyflowers.predict(fit, ends).table()["median"]
    drawn = [line.get_ydata()[0] for line in lines]
    np.testing.assert_allclose(drawn, expected, atol=0.05)
    assert "Fixed: sex = m; effects of groups at their mean. If a column" in plots.alt_text(figure)
    # The lines of both sexes are drawn, and so are their observations.
    assert len(dots_of(figure)[0].get_xdata()) == 60


def test_the_curve_of_two_factors_has_a_row_for_each_combination():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.choice(list("pq"), 60), "b": rng.choice(list("uvw"), 60)})
    frame["y"] = rng.normal(size=60) + 2 * ((frame.a == "p") & (frame.b == "v"))
    fit = pyflowers.fit("y ~ a * b", frame, **FAST)
    axes = plots.conditional_effects(fit, "b", by="a").axes[0]
    names = [each.get_text() for each in axes.get_yticklabels()]
    assert names == ["u, p", "u, q", "v, p", "v, q", "w, p", "w, q"]
    table = pd.DataFrame([name.split(", ") for name in names], columns=["b", "a"])
    medians = pyflowers.predict(fit, table).table()["median"]
    drawn = next(line for line in axes.lines if line.get_marker() == "o")
    np.testing.assert_allclose(drawn.get_xdata(), medians, rtol=1e-6)
    dots = next(line for line in axes.lines if line.get_marker() == ".")
    row = np.round(dots.get_ydata()).astype(int)
    of_row = {name: dots.get_xdata()[row == i] for i, name in enumerate(names)}
    for levels, y in frame.groupby(["b", "a"]).y:
        assert sorted(of_row[", ".join(levels)]) == sorted(y)
    with pytest.raises(ConfigError, match="spread=… needs a numeric column with at least three"):
        plots.conditional_effects(fit, "b", spread="a")


def test_effects_on_the_log_scale_are_drawn_as_ratios():
    found = pyflowers.effects(fit_of("count ~ x + dose", "poisson"))
    axes = plots.effects(found).axes
    assert axes[-1].get_xlabel() == "ratio of the average expected count"
    (line,) = (line for line in axes[0].lines if list(line.get_ydata()) == [0, 1])
    assert list(line.get_xdata()) == [1, 1]
    dot = next(line for line in axes[0].lines if line.get_marker() == "o")
    np.testing.assert_allclose(dot.get_xdata()[0], found.table()["ratio"].iloc[0])


def test_a_density_with_a_long_tail_does_not_hide_the_intervals():
    fit = fit_of("count ~ x + dose", "poisson")
    found = pyflowers.effects(fit)
    usual = len(plots.effects(found).axes[0].collections)
    ratios = found.ratios.copy()
    # Means over a normal population of logs: the largest are far from all others.
    ratios[0, ::20, 0] = 1e13
    figure = plots.effects(replace(found, ratios=ratios))
    assert len(figure.axes[0].collections) == usual - 1
    assert figure.axes[0].get_xlim()[1] < 10


RATIOS = [  # median, low and high of a ratio, and its words with those of its interval
    ((0.73, 0.55, 0.93), ("27% fewer", "7% to 45% fewer")),
    ((1.1, 0.98, 1.25), ("10% more", "2% fewer to 25% more")),
    ((0.95, 0.9, 1.2), ("5% fewer", "10% fewer to 20% more")),
    ((1.2, 1.05, 1.5), ("20% more", "5% to 50% more")),
    ((0.004, 0.001, 0.02), ("99.6% fewer", "98% to 99.9% fewer")),
    ((2.0, 0.9, 4.25), ("2 times as many", "0.9 to 4.25 times")),
    ((1.0, 0.99996, 1.0002), ("0% more", "0.004% fewer to 0.02% more")),
]


@pytest.mark.parametrize(("quantiles", "words"), RATIOS)
def test_ratios_in_words(quantiles, words):
    assert average_effects._ratio_in_words(quantiles, "more", "fewer") == words


def test_a_response_of_0_and_1_is_higher_or_lower_and_counts_are_more_or_fewer():
    assert pyflowers.effects(fit_of(*LOGISTIC)).directions == ("higher", "lower")
    frame = pd.DataFrame({"x": range(20), "y": np.tile([0, 1, 3, 0, 2], 4), "n": 5})
    for formula, family in (("y ~ x", "poisson"), ("y | trials(n) ~ x", "binomial")):
        fit = pyflowers.fit(formula, frame, family=family, **FAST)
        assert pyflowers.effects(fit).directions == ("more", "fewer")


@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian"])
def test_differences_of_log_linear_means_are_also_ratios(family):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": np.tile(["a", "b"], 30)})
    frame["y"] = 1 + rng.poisson(np.exp(1 + 0.3 * frame.x - 0.4 * (frame.g == "b")))
    fit = pyflowers.fit("y ~ x + g", frame, family=family, **FAST)
    found = pyflowers.effects(fit)
    if family == "gaussian":
        assert found.ratios is None
        assert found.sentences() == []
        assert "ratio" not in found.table()
        assert pyflowers.effects(fit, slopes=True).ratios is None
        return
    ratio = pyflowers.effects(fit, scale="ratio")
    np.testing.assert_allclose(found.ratios, ratio.draws())
    columns = {"median": "ratio", "5%": "ratio_5%", "95%": "ratio_95%"}
    np.testing.assert_allclose(found.table()[[*columns.values()]], ratio.table()[[*columns]])
    assert ratio.ratios is None
    fewer = "fewer" if family == "poisson" else "lower"
    share = 100 * (1 - ratio.table()["median"].loc[("g", "b - a")])
    (sentence,) = (each for each in found.sentences() if "g = b" in each)
    assert f"expected y: {share:.2g}% {fewer} for g = b compared with a (90%" in sentence
    assert sentence in in_one_line(found)
    assert found.table().loc[("g", "b - a"), "ratio"] < 1


def test_the_report_tells_ratios_with_differences():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"g": np.tile(["a", "b"], 30)})
    frame["y"] = rng.poisson(np.where(frame.g == "b", 2.0, 4.0))
    fit = pyflowers.fit("y ~ g", frame, family="poisson", **FAST)
    found = pyflowers.effects(fit)
    ((median, ends),) = found.ratios_in_words()
    ratio, difference = (np.median(each) for each in (found.ratios, found.draws()))
    page = render_report(fit)
    told = page[page.index('<ul class="effects">') :].partition("</li>")[0]
    assert f'value="{float(ratio)!r}">{median}</data></strong>' in told
    assert f'(90% interval {ends}), or <data value="{float(difference)!r}">' in told


@pytest.mark.parametrize(("offset", "scale"), [(1e9, 1e7), (1e8, 1.0)])
def test_a_large_mean_does_not_hide_the_effect_in_the_population(offset, scale):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"g": np.repeat(list("abcdefgh"), 15), "x": rng.normal(size=120)})
    of_groups = rng.normal(0, 0.6, 8)[pd.factorize(frame.g)[0]]
    y = of_groups + 0.8 * frame.x + rng.normal(0, 0.5, 120)
    fit = pyflowers.fit(
        "y ~ x + (x || g)", frame.assign(y=offset + scale * y), seed=1, engine="exact"
    )
    found = pyflowers.effects(fit, "x").table()
    assert found.index.get_level_values("groups").tolist() == ["population", "data"]
    assert found["median"].to_numpy() / scale == pytest.approx([0.8, 0.8], abs=0.3)


def test_a_factor_that_decides_the_population_of_a_group_is_changed_in_the_population():
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(20), 6)
    frame = pd.DataFrame({"x": rng.normal(size=120), "g": np.char.add("g", codes.astype(str))})
    frame["f"] = np.where(codes < 9, "c", "t")
    frame["y"] = rng.normal(size=20)[codes] + 0.5 * (frame.f == "t") + rng.normal(size=120)
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 300, "draws": 200}
    fit = pyflowers.fit("y ~ x + f + (1 | gr(g, by = f))", frame, **how)
    found = pyflowers.effects(fit)
    assert found.groups == "population"
    assert found.table().index.get_level_values("column").tolist() == ["x", "f"]
    same = pyflowers.effects(fit, "f", groups="population").table()["median"]
    assert pyflowers.effects(fit, "f").table()["median"].to_numpy() == pytest.approx(same)
    means = pyflowers.contrast(fit, "mean[f = t] - mean[f = c]").numbers()["median"]
    assert means.to_numpy() == pytest.approx(same.to_numpy())
    with pytest.raises(ConfigError, match=r'use groups="population" \('):
        pyflowers.effects(fit, "f", groups="data")
