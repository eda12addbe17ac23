"""Predictions of rows against definitions, quadrature and simulations; unreadable tables."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from row_fits import FRAME, NEW, NUM, b, fit_of
from scipy.special import expit, ndtri
from scipy.stats import norm, poisson

import pyflowers
from pyflowers.advice import in_shell
from pyflowers.analysis.predictions import predictor_of
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.prediction import Predictor


def of_site(fit, column=None):
    sites = sorted(set(FRAME.site), key=list(dict.fromkeys(FRAME.site)).index)
    index = [sites.index(each) for each in NEW.site]
    found = fit.draws["r_site"][:, :, index]
    return found if column is None else found[..., column]


def by_hand(fit, formula):
    """Return the expected values of NEW, computed from the draws as by brms' posterior_epred."""
    d, x = fit.draws, NEW.x.to_numpy()
    one = d["Intercept"][..., None] if "Intercept" in d else 0.0
    is_ = {name: (NEW.dose == name).to_numpy(float) for name in ("low", "zero", "high")}
    match formula:
        case "y ~ x":
            return one + b(fit, "x") * x
        case "y ~ dose * x":
            its = one + b(fit, "x") * x
            for name in ("low", "zero"):
                its = its + is_[name] * (b(fit, f"dose{name}") + b(fit, f"dose{name}:x") * x)
            return its
        case "y ~ scale(x) + (x | site)":
            z = (x - FRAME.x.mean()) / FRAME.x.std(ddof=1)
            return one + b(fit, "scale(x)") * z + of_site(fit, 0) + of_site(fit, 1) * x
        case "y ~ 0 + dose":
            return sum(is_[name] * b(fit, f"dose{name}") for name in is_)
        case "y ~ C(year, ref=96)":
            year = NEW.year.to_numpy()
            return one + sum((year == each) * b(fit, f"year{each}") for each in (95, 97))
        case "count ~ log(`positive x`) + offset(log(hours)) + (1 | site)":
            eta = one + b(fit, "log(`positive x`)") * np.log(NEW["positive x"].to_numpy())
            return np.exp(eta + np.log(NEW.hours.to_numpy()) + of_site(fit))
        case "hit ~ x + sex":
            return expit(one + b(fit, "x") * x + b(fit, "sexm") * (NEW.sex == "m").to_numpy())
        case "hits | trials(n) ~ I(x**2)":
            return NEW.n.to_numpy() * expit(one + b(fit, "I(x ** 2)") * x**2)
        case "count ~ x" if "zi" in d:
            return (1 - d["zi"][..., None]) * np.exp(one + b(fit, "x") * x)
        case "size ~ sex":
            return np.exp(one + b(fit, "sexm") * (NEW.sex == "m").to_numpy())
        case "share ~ x + (1 | site)":
            return expit(one + b(fit, "x") * x + of_site(fit))
        case "rating ~ x":
            edges = d["threshold"][..., None] - (b(fit, "x") * x)[:, :, None]
            below = np.concatenate([np.zeros_like(edges[:, :, :1]), expit(edges)], axis=2)
            above = np.concatenate([below[:, :, 1:], np.ones_like(below[:, :, :1])], axis=2)
            return (np.arange(1, 4)[:, None] * (above - below)).sum(axis=2)
    raise AssertionError(formula)


CASES = [
    ("y ~ x", "gaussian"),
    ("y ~ dose * x", "gaussian"),
    ("y ~ scale(x) + (x | site)", "gaussian"),
    ("y ~ 0 + dose", "student"),
    ("y ~ C(year, ref=96)", "gaussian"),
    ("count ~ log(`positive x`) + offset(log(hours)) + (1 | site)", "negbinomial"),
    ("hit ~ x + sex", "bernoulli"),
    ("hits | trials(n) ~ I(x**2)", "binomial"),
    ("count ~ x", "zero_inflated_poisson"),
    ("size ~ sex", "gamma"),
    ("share ~ x + (1 | site)", "beta"),
    ("rating ~ x", "cumulative"),
]


@pytest.mark.parametrize(("formula", "family"), CASES)
def test_expected_values_are_those_of_the_definition(formula, family):
    fit = fit_of(formula, family)
    found = pyflowers.predict(fit, NEW)
    draws = np.asarray(found.draws())
    np.testing.assert_allclose(draws, by_hand(fit, formula), rtol=1e-10, atol=1e-12)
    table = found.table()
    np.testing.assert_allclose(table["median"], np.median(draws, axis=(0, 1)), rtol=1e-12)
    assert table.index.get_level_values("row").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("formula", "family"), CASES)
def test_the_datas_own_rows_give_the_density_and_the_replicates_of_the_fit(formula, family):
    fit = fit_of(formula, family)
    predictor = predictor_of(fit)
    np.testing.assert_allclose(
        predictor.log_lik(fit.data.y), fit.log_likelihood(), rtol=1e-10, atol=1e-10
    )
    # Replicates have the same distribution: their means and their shares below the median agree.
    own = np.asarray(pyflowers.predict(fit, kind="observation", seed=3).draws())
    theirs = fit.program.y_rep(fit.draws, fit.data, np.random.default_rng(4))
    num = own[..., 0].size
    for statistic in (np.mean, lambda values, axis: (values <= np.median(theirs)).mean(axis=axis)):
        one, other = statistic(own, axis=2).ravel(), statistic(theirs, axis=2).ravel()
        se = np.hypot(one.std(), other.std()) / np.sqrt(num)
        assert abs(one.mean() - other.mean()) < 4.5 * se + 1e-12


@pytest.mark.parametrize("kind", ["expected", "linear", "observation"])
@pytest.mark.parametrize("groups", ["data", "none", "population"])
def test_no_order_part_or_block_of_the_table_matters(kind, groups, monkeypatch):
    from pyflowers.analysis import predictions

    fit = fit_of("count ~ scale(x) + dose + (x | site)", "negbinomial")
    rng = np.random.default_rng(1)
    new = pd.DataFrame(
        {
            "x": rng.normal(size=40).round(3),
            "dose": rng.choice(["low", "high", "zero"], 40),
            "site": rng.choice(["a", "b", "new", "newer"], 40),
        }
    )
    how = {"kind": kind, "groups": groups}
    whole = np.asarray(pyflowers.predict(fit, new, **how).draws())
    order = rng.permutation(40)
    shuffled = pyflowers.predict(fit, new.iloc[order], **how).draws()
    np.testing.assert_allclose(shuffled, whole[..., order], rtol=1e-12)
    parts = [np.asarray(pyflowers.predict(fit, new[i::3], **how).draws()) for i in range(3)]
    for i, part in enumerate(parts):
        np.testing.assert_allclose(part, whole[..., i::3], rtol=1e-12)
    monkeypatch.setattr(predictions, "LARGEST_BLOCK", 200 * 7)
    np.testing.assert_allclose(pyflowers.predict(fit, new, **how).draws(), whole, rtol=1e-12)
    assert len({tuple(each) for each in whole.reshape(-1, 40).T}) > 20


def test_rows_of_a_new_label_have_one_draw_of_its_effects_and_two_labels_have_two():
    fit = fit_of("y ~ x + (x | site)", draws=1500)
    new = pd.DataFrame({"x": [0.0, 0.0, 1.0, 0.0], "site": ["new", "new", "new", "newer"]})
    draws = np.asarray(pyflowers.predict(fit, new, kind="linear").draws())
    assert np.array_equal(draws[..., 0], draws[..., 1])
    d = fit.draws
    at_0 = draws[..., 0] - d["Intercept"]
    slope = draws[..., 2] - draws[..., 0] - d["b"][..., 0]
    other = draws[..., 3] - d["Intercept"]
    z = np.stack([at_0 / d["sd_site"][..., 0], slope / d["sd_site"][..., 1]])
    rho = d["cor_site"][..., 0]
    # Standardised with the correlation of its draw, each pair is two independent standard normals.
    apart = np.stack([z[0], (z[1] - rho * z[0]) / np.sqrt(1 - rho**2)]).reshape(2, -1)
    num = apart.shape[1]
    assert abs(apart.mean(axis=1)).max() < 4.5 / np.sqrt(num)
    assert abs((apart**2).mean(axis=1) - 1).max() < 4.5 * np.sqrt(2 / num)
    assert abs((apart[0] * apart[1]).mean()) < 4.5 / np.sqrt(num)
    unlike = (other / d["sd_site"][..., 0] * z[0]).mean()
    assert abs(unlike) < 4.5 / np.sqrt(num)
    observed = np.asarray(pyflowers.predict(fit, new, kind="observation").draws())
    assert not np.array_equal(observed[..., 0], observed[..., 1])


@pytest.mark.parametrize(
    ("formula", "family"),
    [("y ~ x + (x | site)", "gaussian"), ("count ~ x + (1 | site)", "poisson")],
)
def test_new_groups_are_their_population_by_quadrature(formula, family):
    fit = fit_of(formula, family, draws=1500)
    new = pd.DataFrame({"x": [1.5], "site": ["new"]})
    drawn = np.asarray(pyflowers.predict(fit, new, kind="observation").draws()).ravel()
    d = fit.draws
    eta = (d["Intercept"] + 1.5 * d["b"][..., 0]).ravel()
    sd = d["sd_site"].reshape(eta.size, -1)
    variance = sd[:, 0] ** 2
    if sd.shape[1] == 2:
        rho = d["cor_site"].ravel()
        variance = variance + 2 * 1.5 * rho * sd[:, 0] * sd[:, 1] + (1.5 * sd[:, 1]) ** 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    latent = eta[:, None] + np.sqrt(variance)[:, None] * nodes
    for at in np.quantile(drawn, [0.1, 0.5, 0.9]):
        if family == "gaussian":
            its = norm.cdf(at, eta, np.sqrt(variance + d["sigma"].ravel() ** 2))
        else:
            its = (poisson.cdf(at, np.exp(latent)) * weights).sum(axis=1)
        error = (drawn <= at) - its  # one for each draw, with expectation 0
        assert abs(error.mean()) < 4 * error.std() / np.sqrt(error.size)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x + (x | site)", "gaussian"),
        ("count ~ x + (x || site) + (1 | dose)", "poisson"),
        ("hit ~ x + (x | site)", "bernoulli"),
    ],
)
def test_population_is_the_mean_of_200_000_simulated_groups(formula, family):
    fit = fit_of(formula, family)
    found = np.asarray(pyflowers.predict(fit, NEW[["x"]], groups="population").draws())
    rng, num, d = np.random.default_rng(5), 200_000, fit.draws
    inverse = {"gaussian": lambda eta: eta, "poisson": np.exp, "bernoulli": expit}[family]
    for chain, draw in ((0, 3), (1, 50)):
        sd = d["sd_site"][chain, draw]
        rho = d["cor_site"][chain, draw, 0] if "cor_site" in d else 0.0
        z = rng.standard_normal((2, num))
        one, slope = sd[0] * z[0], sd[1] * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])
        if "sd_dose" in d:
            one = one + d["sd_dose"][chain, draw, 0] * rng.standard_normal(num)
        for row, x in enumerate(NEW.x):
            at = d["Intercept"][chain, draw] + (d["b"][chain, draw, 0] + slope) * x + one
            its = inverse(at)
            assert abs(found[chain, draw, row] - its.mean()) < 4.5 * its.std() / np.sqrt(num)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("hit ~ x + (1 | site)", "bernoulli"),
        ("count ~ x + (1 | site)", "poisson"),
        ("rating ~ x + (1 | site)", "cumulative"),
    ],
)
def test_population_is_integrated_for_any_spread_of_the_groups(formula, family):
    frame = FRAME.assign(rating=1 + np.arange(len(FRAME)) % 4)
    fit = fit_of(formula, family, frame=frame)
    predictor = predictor_of(fit, NEW[["x"]], "population")
    eta, z = predictor.linear(), np.linspace(-9, 9, 20_001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    for sd in (0.2, 3.0, 20.0, 30.0 if family == "poisson" else 60.0):
        draws = {**predictor.draws, "sd_site": np.full_like(predictor.draws["sd_site"], sd)}
        found = replace(predictor, draws=draws).expected()[0, 0]
        if family == "poisson":
            np.testing.assert_allclose(found, np.exp(eta[0, 0] + sd**2 / 2), rtol=1e-12)
            continue
        at = eta[0, 0][:, None] + sd * z
        thresholds = fit.draws["threshold"][0, 0] if family == "cumulative" else [0.0]
        expected = sum(expit(at - each) @ weights for each in thresholds)
        np.testing.assert_allclose(found, expected + (family == "cumulative"), atol=1e-6)


def test_population_refuses_what_is_not_linear_in_a_groups_effects():
    """The quadrature assumes that the linear predictor is normal over the population."""
    fit = fit_of("count ~ x + (1 | site)", "poisson")
    predictor = predictor_of(fit, NEW[["x"]], "population")
    rule = predictor.rule.model_copy(update={"linear_predictor": "Intercept + exp(r_site[site])"})
    with pytest.raises(ConfigError, match="the linear predictor is not linear in r_site"):
        replace(predictor, rule=rule).expected()


def test_an_observation_takes_no_more_than_its_own_rows_parameters(monkeypatch):
    """Each row needs only its own sd; otherwise N rows would take N squared evaluations."""
    fit = pyflowers.fit("multilevel_normal", seed=1, chains=2, warmup=300, draws=100)
    sizes = []
    real = Predictor.parameter

    def parameter(self, name):
        value = real(self, name)
        sizes.append(value.shape[-1])
        return value

    monkeypatch.setattr(Predictor, "parameter", parameter)
    pyflowers.predict(
        fit, pd.DataFrame({"plant": ["1", "2", "3"] * 10}), kind="observation"
    ).draws()
    assert len(sizes) == 30
    assert set(sizes) == {1}


def test_without_groups_is_at_the_mean_of_the_population():
    fit = fit_of("count ~ x + (x | site)", "poisson")
    found = pyflowers.predict(fit, NEW[["x"]], groups="none").draws()
    eta = fit.draws["Intercept"][..., None] + fit.draws["b"] * NEW.x.to_numpy()
    np.testing.assert_allclose(found, np.exp(eta), rtol=1e-12)


def test_averages_are_weighted_means_of_rows():
    fit = fit_of("y ~ dose * x")
    rows = np.asarray(pyflowers.predict(fit, NEW).draws())
    found = pyflowers.predict(fit, NEW, by="sex", weights="n")
    assert found.table().index.tolist() == ["f", "m"]
    draws = np.asarray(found.draws())
    for i, sex in enumerate(("f", "m")):
        its = (NEW.sex == sex).to_numpy()
        mean = np.average(rows[..., its], axis=2, weights=NEW.n[its])
        np.testing.assert_allclose(draws[..., i], mean, rtol=1e-12)
    both = pyflowers.predict(fit, NEW, by=["sex", "dose"]).table()
    assert both.index.names == ["sex", "dose"]
    assert len(both) == 4
    everything = np.asarray(pyflowers.predict(fit, NEW, weights="n").draws())[..., 0]
    np.testing.assert_allclose(everything, np.average(rows, axis=2, weights=NEW.n), rtol=1e-12)


@pytest.mark.parametrize("groups", ["data", "none", "population"])
def test_a_saved_fit_with_an_offset_averages_by_its_group(groups, tmp_path):
    formula = "count ~ log(`positive x`) + offset(log(hours)) + (1 | site)"
    fit = fit_of(formula, "negbinomial")
    back = pyflowers.Fit.load(fit.save(tmp_path / "run", overwrite=True))
    found = pyflowers.predict(back, by="site", groups=groups)
    assert sorted(found.table().index) == ["a", "b", "c", "d", "e", "f"]
    rows = np.asarray(pyflowers.predict(fit, kind="expected", groups=groups).draws())
    for i, site in enumerate(found.table().index):
        mean = rows[..., (FRAME.site == site).to_numpy()].mean(axis=2)
        np.testing.assert_allclose(np.asarray(found.draws())[..., i], mean, rtol=1e-10)


@pytest.mark.parametrize("name", ["iid_normal", "semiconjugate_normal", "multilevel_normal"])
def test_shipped_normal_programs_predict_rows(name):
    fit = pyflowers.fit(name, seed=1, chains=2, warmup=300, draws=500, engine="stanli")
    new = pd.DataFrame({"plant": ["1", "3"]})
    found = np.asarray(pyflowers.predict(fit, new).draws())
    mean = {"iid_normal": "mu", "semiconjugate_normal": "theta"}.get(name)
    its = fit.draws["mu_plant"][..., [0, 2]] if mean is None else fit.draws[mean][..., None]
    np.testing.assert_allclose(found, np.broadcast_to(its, found.shape), rtol=1e-12)
    observed = np.asarray(pyflowers.predict(fit, new, kind="observation").draws())
    sigma2 = fit.draws.get("sigma2_plant", fit.draws["sigma2"][..., None])
    z = (observed - its) / np.sqrt(sigma2[..., [0, -1]])
    assert abs(z.mean()) < 4.5 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) < 4.5 * np.sqrt(2 / z.size)


def test_a_new_plant_of_the_multilevel_poisson_is_of_its_population():
    fit = pyflowers.fit("multilevel_poisson", seed=1, warmup=500, draws=2000, engine="stanli")
    new = pd.DataFrame({"plant": ["another"]})
    eta = np.asarray(pyflowers.predict(fit, new, kind="linear").draws())[..., 0]
    z = (eta - fit.draws["mu"]) / np.sqrt(fit.draws["sigma2"])
    assert abs(z.mean()) < 4.5 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) < 4.5 * np.sqrt(2 / z.size)
    table = pyflowers.predict(fit, new).table()
    own = pyflowers.predict(fit).table().loc["mean of a new plant"]
    assert table["median"].iloc[0] == pytest.approx(own["median"].iloc[0], rel=0.15)


def test_what_a_flat_prior_cannot_give_is_said():
    fit = pyflowers.fit("multilevel_normal", seed=1, chains=2, warmup=300, draws=300)
    new = pd.DataFrame({"plant": ["1", "another"]})
    with pytest.raises(ConfigError, match="sigma2_plant has a flat prior"):
        pyflowers.predict(fit, new, kind="observation").table()
    with pytest.raises(ConfigError, match="use groups 'data' or 'population'"):
        pyflowers.predict(fit, new, kind="observation", groups="none").table()


def test_a_program_of_ones_own_predicts_as_it_declares(tmp_path):
    """The rule must give the log likelihood that the program computes."""
    program = pyflowers.Program.from_formula("y ~ x + (x | site)", FRAME)
    path = tmp_path / "mine.stan"
    program.write(path)
    path.write_text(path.read_text() + "// edited\n")
    how = {"chains": 2, "warmup": 200, "draws": 100, "seed": 1, "engine": "stanli"}
    fit = pyflowers.fit(path, FRAME, **how)
    assert not fit.model.evaluates
    expected = np.asarray(pyflowers.predict(fit, NEW).draws())
    one = fit.draws["Intercept"][..., None] + b(fit, "x") * NEW.x.to_numpy()
    np.testing.assert_allclose(
        expected, one + of_site(fit, 0) + of_site(fit, 1) * NEW.x.to_numpy(), rtol=1e-10
    )
    declared = path.with_suffix(".toml")
    text = declared.read_text()
    for right, wrong in (
        ("Intercept + X * b", "Intercept - X * b"),
        ('family = "gaussian"\nlinear', 'family = "student"\nlinear'),
    ):
        assert right in text
        declared.write_text(text.replace(right, wrong))
        again = pyflowers.fit(path, FRAME, **how)
        with pytest.raises(
            ConfigError, match=r"a density that differs from the program's log_lik|names nu"
        ):
            pyflowers.predict(again, NEW)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('linear_predictor = "Intercept + b"', "b"),
        ('linear_predictor = "Intercept + missing"', "names missing, which is neither in the"),
        ('linear_predictor = "Intercept +"', "cannot be read as an expression"),
        ('linear_predictor = "__import__(1)"', "is not supported; write quantities"),
        ('linear_predictor = "Intercept.real"', "is not supported; write quantities"),
        ('linear_predictor = "[Intercept for x in X]"', "is not supported; write quantities"),
        ('linear_predictor = "Intercept + r_site[x]"', "x is not an index of a column's labels"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(rule, words, tmp_path):
    program = pyflowers.Program.from_formula("y ~ x + (1 | site)", FRAME)
    path = tmp_path / "mine.stan"
    program.write(path)
    declared = path.with_suffix(".toml")
    text = re.sub(r"linear_predictor = .*", lambda _: rule, declared.read_text())
    declared.write_text(text)
    fit = pyflowers.fit(path, FRAME, chains=1, warmup=100, draws=20, seed=1, engine="stanli")
    with pytest.raises(ConfigError, match=re.escape(words)):
        pyflowers.predict(fit, NEW).table()


def test_numbers_of_levels_and_groups_are_read_as_they_were():
    frame = FRAME.assign(site=FRAME.site.map({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}))
    fit = fit_of("y ~ C(year) + (1 | site)", frame=frame)
    whole = pyflowers.predict(fit, frame).draws()
    one = pyflowers.predict(fit, frame[frame.year == 97]).draws()
    np.testing.assert_allclose(one, np.asarray(whole)[..., (frame.year == 97).to_numpy()])
    # Years are floats in a table that has a missing value elsewhere.
    np.testing.assert_allclose(
        pyflowers.predict(fit, frame.assign(year=frame.year * 1.0)).draws(), whole
    )


def test_a_factor_whose_levels_are_numbers_is_a_factor_in_a_saved_fit(tmp_path):
    frame = FRAME.assign(year=FRAME.year.astype(str))
    fit = fit_of("y ~ year + x", frame=frame)
    loaded = pyflowers.Fit.load(fit.save(tmp_path / "saved"))
    for new in (None, frame.iloc[3:9]):
        np.testing.assert_allclose(
            pyflowers.predict(loaded, new, kind="expected").draws(),
            pyflowers.predict(fit, new, kind="expected").draws(),
        )


def test_a_vector_of_constants_is_the_same_for_each_row(own_program, monkeypatch):
    program = own_program(
        "shift",
        "data { int N; vector[N] x; vector[N] y; vector[2] m; } parameters { real a; }"
        "model { a ~ normal(0, 1); y ~ normal(a + x - m[2], 1); }"
        "generated quantities { vector[N] log_lik; real sigma = 1;"
        "for (n in 1 : N) log_lik[n] = normal_lpdf(y[n] | a + x[n] - m[2], 1); }",
        '[data]\nm = { value = [1, 2] }\n[prediction]\nfamily = "gaussian"\n'
        'linear_predictor = "a + x - m[2]"\n',
    )
    fit = pyflowers.fit(program, FRAME, chains=1, warmup=100, draws=20, seed=1, engine="stanli")
    monkeypatch.setattr("pyflowers.analysis.predictions.LARGEST_BLOCK", 20)  # one row per block
    np.testing.assert_allclose(
        pyflowers.predict(fit, NEW, kind="expected").draws(),
        fit.draws["a"][..., None] + NEW.x.to_numpy() - 2,
    )


def bad(**changes):
    return NEW.assign(**changes)


def cell(column, value, row=2):
    values = NEW[column].tolist()
    values[row] = value
    return bad(**{column: values})


FORMULA = "y ~ x + log(`positive x`) + dose + C(year) + bs(hours, df=4) + (x | site)"
BAD = [
    *(
        (NEW.drop(columns=each), each)
        for each in ("x", "positive x", "dose", "year", "hours", "site")
    ),
    *((cell(each, None), each) for each in ("x", "positive x", "dose", "year", "hours", "site")),
    *((cell(each, "NA"), each) for each in ("dose", "site")),
    *((cell(each, "many"), each) for each in ("x", "positive x", "hours")),
    *((cell(each, np.inf), each) for each in ("x", "positive x", "hours", "year")),
    *((cell(each, 1e300), each) for each in ("x", "hours")),
    (cell("positive x", 0.0), "positive x"),
    (cell("positive x", -1.0), "positive x"),
    (cell("dose", "huge"), "dose"),
    (cell("dose", "Low"), "dose"),
    (cell("dose", " low"), "dose"),
    (cell("dose", "3"), "dose"),
    (cell("year", 98), "year"),
    (cell("year", 95.5), "year"),
    (cell("year", "ninety"), "year"),
    (cell("hours", 100.0), "hours"),
    (cell("hours", -3.0), "hours"),
    (cell("site", ""), "site"),
    (cell("site", "  "), "site"),
    (cell("site", "a\0b"), "site"),
    (bad(x=["1,5", "2", "3", "4"]), "x"),
    (bad(x=["a", "b", "c", "d"]), "x"),
    (bad(x=[True, False, True, True]).assign(x=["yes", "no", "yes", "no"]), "x"),
    (bad(dose=[1, 2, 3, 4]), "dose"),
    (bad(year=["a", "b", "c", "d"]), "year"),
    (NEW.rename(columns={"x": "X"}), "x"),
    (NEW.iloc[:0], ""),
]


def test_there_are_40_bad_tables():
    assert len(BAD) >= 40


@pytest.mark.parametrize("case", range(len(BAD)))
def test_a_bad_table_is_refused_in_a_sentence_with_row_and_column(case):
    table, column = BAD[case]
    fit = fit_of(FORMULA)
    with pytest.raises(DataError) as caught:
        pyflowers.predict(fit, table).table()
    sentence = str(caught.value)
    assert column in sentence
    assert "\n" not in sentence
    if len(table) and column in table:
        differs = [a != b for a, b in zip(table[column], NEW[column], strict=True)]
        assert f"row {table.index[np.argmax(differs)] + 1}" in re.sub(r"rows? ", "row ", sentence)


def test_other_mistakes_are_named():
    fit = fit_of("y ~ dose * x")
    for options, words in (
        ({"kind": "mean"}, "one of expected, linear, observation, probability, got 'mean'"),
        ({"groups": "all"}, "groups must be one of data, none, population, got 'all'"),
    ):
        with pytest.raises(ConfigError, match=words):
            pyflowers.predict(fit, NEW, **options)
    for options, words in (
        ({"by": "colour"}, "there is no column 'colour'"),
        ({"weights": "people"}, "there is no column 'people'"),
        ({"weights": "dose"}, "dose is 'zero', not a finite number"),
        ({"weights": "x"}, "row 3: x is -1, but weights must be at least 0"),
    ):
        with pytest.raises(DataError, match=re.escape(words)):
            pyflowers.predict(fit, NEW, **options)
    with pytest.raises(DataError, match="n is 0 in all rows of f"):
        pyflowers.predict(fit, NEW.assign(n=[0, 1, 1, 0]), by="sex", weights="n")
    with pytest.raises(ConfigError, match="by=… and weights=… take names of columns, got Series"):
        pyflowers.predict(fit, NEW, weights=NEW.n)
    with pytest.raises(DataError, match=r"no column 'site'.*or predict without it: groups=.none"):
        pyflowers.predict(fit_of("y ~ x + (x | site)"), NEW[["x"]])
    with pytest.raises(DataError, match="a data block is not a table"):
        pyflowers.predict(fit, {"x": 1})
    edited = fit_of("y ~ x")
    assert edited.program.declaration.prediction is not None


def test_the_command_writes_rows_draws_and_figure(tmp_path, capfd):
    FRAME.to_csv(tmp_path / "table.csv", index=False)
    NEW.to_csv(tmp_path / "new.csv", sep=";", decimal=",", index=False)
    out = tmp_path / "run"
    what = ("y ~ dose * x", "--data", tmp_path / "table.csv", "--engine", "stanli")
    how = ("--draws", 100, "--warmup", 200, "--seed", 1, "--plots", "none")
    assert run("fit", *what, *how, "--out", out) == 0
    capfd.readouterr()
    how = ("--new", tmp_path / "new.csv", "--sep", ";", "--decimal", ",")
    assert run("predict", out, *how, "--draws", "--out", tmp_path / "predictions", "--json") == 0
    record = json.loads(capfd.readouterr().out)
    assert [each["row"] for each in record["predictions"]] == [2, 3, 4, 5]
    assert [each["dose"] for each in record["predictions"]] == NEW.dose.tolist()
    folder = tmp_path / "predictions"
    kept = {"predictions.csv", "predictions.json", "predictions.nc", "predictions.png"}
    assert {path.name for path in folder.iterdir()} == kept
    import xarray as xr

    with xr.open_dataset(
        folder / "predictions.nc", group="predictions", engine="h5netcdf"
    ) as found:
        medians = found["expected"].median(("chain", "draw")).values
        assert found["row"].values.tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(medians, [each["median"] for each in record["predictions"]])
    assert run("predict", out, "--draws") == 2
    assert "add --out" in capfd.readouterr().err
    # A model given by a formula has no next observation, so by default its rows are predicted.
    assert run("predict", out, "--json") == 0
    assert len(json.loads(capfd.readouterr().out)["predictions"]) == NUM


def test_a_table_is_summarised_as_each_row_is():
    fit = fit_of("y ~ dose * x")
    table = pyflowers.predict(fit, from_frame(NEW)).table()
    assert list(table.columns) == ["median", "5%", "25%", "75%", "95%", "mcse"]
    draws = np.asarray(pyflowers.predict(fit, NEW).draws())
    for name, prob in (("5%", 0.05), ("25%", 0.25), ("75%", 0.75), ("95%", 0.95)):
        np.testing.assert_allclose(table[name], np.quantile(draws, prob, axis=(0, 1)), rtol=1e-12)
    assert ndtri(0.975) * table["mcse"].max() < table["95%"].sub(table["5%"]).max()


OF_PLOTS = """
data {
  int<lower=0> N;
  int<lower=1> P;
  int<lower=1> K;
  int<lower=1> A;
  vector[N] y;
  array[N] int<lower=1, upper=P> plot;
  array[N] int<lower=1, upper=A> arm;
  matrix[P, K] X;
}
parameters {
  vector[A] alpha;
  vector[K] b;
  vector[P] r;
  real<lower=0> tau;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, 5);
  b ~ normal(0, 5);
  tau ~ normal(0, 2);
  sigma ~ normal(0, 2);
  r ~ normal(0, tau);
  vector[P] mean_ = X * b + r;
  y ~ normal(alpha[arm] + mean_[plot], sigma);
}
"""

DECLARED = {
    "data": {
        "plot": {"column": "plot", "index": True},
        "arm": {"column": "arm", "index": True},
        "X": {"terms": "slope", "per": "plot"},
    },
    "prediction": {
        "family": "gaussian",
        "linear_predictor": "alpha[arm] + X * b + r[plot]",
        "effects": {"r": "normal(0, tau)"},
    },
}

SHORT = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 100, "draws": 50}


def plots():
    rng = np.random.default_rng(1)
    slope = rng.normal(size=8)
    frame = pd.DataFrame({"plot": np.repeat(list("abcdefgh"), 5), "arm": ["t", "c"] * 20})
    frame["slope"] = np.repeat(slope, 5)
    frame["y"] = 3 * frame.slope + 0.3 * rng.normal(size=40)
    return frame


def open_plots(tmp_path, declared=DECLARED):
    path = tmp_path / "plots.stan"
    path.write_text(OF_PLOTS, encoding="utf-8")
    return pyflowers.Program.open(path, declaration=declared)


def test_each_row_has_the_covariate_of_its_group_without_the_group(tmp_path):
    frame = plots()
    fit = pyflowers.fit(open_plots(tmp_path), frame, **SHORT)
    rows = frame.iloc[[0, 6, 10, 16]]
    arm = [["t", "c"].index(each) for each in rows.arm]
    d = fit.draws
    eta = d["alpha"][..., arm] + d["b"] * rows.slope.to_numpy()
    for groups in ("none", "population"):
        of_rows = pyflowers.predict(fit, rows, groups=groups)
        np.testing.assert_allclose(of_rows.draws(), eta, rtol=1e-12)
        # The effect of a new plot is integrated out; each row keeps its arm.
        drawn = predictor_of(fit, rows, groups).observed()
        assert abs(drawn - eta).max() < 8 * (d["sigma"] + 3 * d["tau"]).max()
    spread = (predictor_of(fit, rows, "population").observed() - eta).std()
    expected = np.sqrt((d["sigma"] ** 2 + d["tau"] ** 2).mean())
    assert spread == pytest.approx(expected, rel=0.2)


def test_a_group_has_one_value_of_each_term(tmp_path):
    frame = plots()
    frame.loc[1, "slope"] = 7.0
    with pytest.raises(DataError, match="row 2: plot 'a' has more than one slope; give it only"):
        open_plots(tmp_path).read(frame)


def test_a_matrix_has_no_offset_and_names_a_column(tmp_path):
    for terms, message in (
        ("slope + offset(log(y))", "a matrix cannot have an offset; declare a vector"),
        ("1", "name no column; name one"),
    ):
        declared = {**DECLARED, "data": {**DECLARED["data"], "X": {"terms": terms, "per": "plot"}}}
        with pytest.raises(ConfigError, match=message):
            open_plots(tmp_path, declared).read(plots())


@pytest.mark.parametrize(
    ("known", "new", "is_known"),
    [
        ("100000000000000048", "100000000000000051", False),
        (10**17 + 48, 10**17 + 51, False),
        ("007", "7", False),
        ("7", "7.0", True),
        (7.0, 7, True),
        ("7.50", "7.5", True),
    ],
)
def test_a_number_is_a_known_group_if_it_is_written_alike(known, new, is_known):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"id": [known] * 5 + [1] * 5 + [2] * 5, "y": rng.normal(size=15)})
    fit = pyflowers.fit("y ~ 1 + (1 | id)", frame, **SHORT)
    rows = pd.DataFrame({"id": [new]})
    assert ("not in the fit" in str(pyflowers.predict(fit, rows))) != is_known


def test_columns_that_a_prediction_does_not_use_are_not_demanded():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": np.repeat(list("abcd"), 6), "x": rng.normal(size=24), "n": 9})
    frame["slope"], frame["y"] = rng.normal(size=24), rng.binomial(9, 0.4, 24)
    fit = pyflowers.fit("y | trials(n) ~ x + (slope | g)", frame, family="binomial", **SHORT)
    whole = pyflowers.predict(fit, frame, groups="none").draws()
    new = frame.drop(columns=["g", "slope"])
    np.testing.assert_allclose(pyflowers.predict(fit, new, groups="none").draws(), whole)
    linear = pyflowers.predict(fit, frame, kind="linear").draws()
    new = frame.drop(columns="n")
    np.testing.assert_array_equal(pyflowers.predict(fit, new, kind="linear").draws(), linear)
    for missing, groups, kind in (("n", "none", "expected"), ("slope", "population", "linear")):
        with pytest.raises(DataError, match=f"there is no column '{missing}'"):
            pyflowers.predict(fit, frame.drop(columns=missing), groups=groups, kind=kind)
    lacks = "1 of 24 rows lacks g .* leave this row out, or predict without it: groups=.none. or"
    with pytest.raises(DataError, match=lacks):
        pyflowers.predict(fit, frame.assign(g=[None, *frame.g[1:]]))
    with pytest.raises(DataError, match=r"lacks x .* leave this row out$"):
        pyflowers.predict(fit, frame.assign(x=[None, *frame.x[1:]]))


STAMPS = pd.date_range("2024-01-01", periods=3, freq="12h")


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ([1, 2, 3], [1.0, "1.0", "1"]),
        ([0.3, 2.5, 4.5], [0.1 * 3, "0.30"]),
        ([True, False], ["TRUE", "true", True]),
        (["TRUE", "FALSE"], [True]),
        (STAMPS, [STAMPS[0], "2024-01-01", "2024-01-01 00:00:00"]),
        (STAMPS[::2], [STAMPS[0], "2024-01-01T00:00"]),
        (["2024-01-01 00:00:00", "2024-01-01 12:00:00"], [STAMPS[0]]),
    ],
    ids=lambda cells: str(cells[0]),
)
def test_a_label_is_the_same_in_groups_and_factors_and_among_other_rows(known, new):
    """A new row has the prediction of the row of the fit with its label, alone or with others."""
    y = np.repeat(np.arange(len(known)) * 9.0, 4)
    frame = pd.DataFrame({"f": pd.Categorical(np.repeat(known, 4), list(known)), "y": y})
    frame["g"] = frame.f.astype(object)
    for formula in ("y ~ f", "y ~ 1 + (1 | g)"):
        fit = pyflowers.fit(formula, frame.assign(y=y + np.tile([0, 1, 2, 3], len(known))), **SHORT)
        rows = pd.concat([pd.DataFrame({"f": new, "g": new}, dtype=object), frame[["f", "g"]]])
        expected = np.asarray(pyflowers.predict(fit).draws())[..., :1]
        together = np.asarray(pyflowers.predict(fit, rows).draws())[..., : len(new)]
        np.testing.assert_array_equal(together, np.repeat(expected, len(new), axis=2))
        for i in range(len(new)):
            alone = pyflowers.predict(fit, rows.iloc[[i]].astype(object)).draws()
            np.testing.assert_array_equal(alone, expected)


def test_levels_of_a_comparison_are_those_of_the_fit():
    frame = pd.DataFrame(
        {"f": np.tile([True, False], 8), "y": np.random.default_rng(1).normal(size=16)}
    )
    fit = pyflowers.fit("y ~ f", frame, **SHORT)
    found = pyflowers.effects(fit, "f", between=("FALSE", "TRUE"))
    np.testing.assert_allclose(np.ravel(found.draws()), np.ravel(fit.draws["b"]))


def test_levels_of_an_own_program_are_saved(tmp_path):
    rng = np.random.default_rng(1)
    frame = plots().assign(x=rng.normal(size=40))
    frame["slope"] = pd.Categorical(np.repeat(["10", "2", "1", "10"], 10), ["1", "2", "10"])
    frame["size"] = pd.Categorical(
        np.repeat(["low", "mid", "high", "mid"], 10), ["low", "mid", "high"]
    )
    declared = {
        **DECLARED,
        "data": {**DECLARED["data"], "X": {"terms": "slope + size", "per": "plot"}},
    }
    fit = pyflowers.fit(open_plots(tmp_path, declared), frame, **SHORT)
    assert fit.data.coords["X"] == ("slope2", "slope10", "sizemid", "sizehigh")
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    for new in (None, frame.head(3)):
        of_fit, of_file = (pyflowers.predict(each, new).draws() for each in (fit, again))
        np.testing.assert_array_equal(of_fit, of_file)


def test_no_label_is_reported_new_where_groups_are_not_read():
    fit = pyflowers.fit("y ~ slope + (1 | plot)", plots(), **SHORT)
    rows = pd.DataFrame({"plot": ["a", "z"], "slope": [0.0, 1.0]})
    drawn = "so their effects are drawn from the population: plot z\n"
    # A line that is broken goes on after blanks.
    assert drawn in re.sub(r"\n +", " ", str(pyflowers.predict(fit, rows)))
    for groups in ("none", "population"):
        printed = str(pyflowers.predict(fit, rows, groups=groups))
        assert "not in the fit" not in " ".join(printed.split())


def test_a_group_with_fixed_effects_as_well_is_read(tmp_path):
    frame = plots()
    both = {**DECLARED["data"], "arm": {"column": "plot", "index": True}}
    fit = pyflowers.fit(open_plots(tmp_path, {**DECLARED, "data": both}), frame, **SHORT)
    rows = frame.iloc[[0, 6]]
    eta = fit.draws["alpha"][..., :2] + fit.draws["b"] * rows.slope.to_numpy()
    np.testing.assert_allclose(pyflowers.predict(fit, rows, groups="none").draws(), eta, rtol=1e-12)


REPEATED = pd.DataFrame(
    {
        "x": np.tile([0, 1, 2, 3], 30),
        "z": np.tile([0, 1], 60),
        "g": np.repeat(list("abc"), 40),
        "b": np.tile(np.repeat([1, 2], 20), 3),
    }
)
REPEATED["count"] = np.random.default_rng(1).poisson(np.exp(0.5 * REPEATED.x))
"""A table in which most rows share covariates and groups, so that totals of cells are fitted."""


@pytest.mark.parametrize(
    "formula", ["count ~ x + z", "count ~ x + (1 | g)", "count ~ x + (1 | g/b)"]
)
@pytest.mark.parametrize("groups", ["data", "none", "population"])
def test_rows_of_cells_are_predicted_one_by_one(formula, groups):
    fit = fit_of(formula, "poisson", REPEATED)
    assert "cell" in fit.data.values
    own = np.asarray(pyflowers.predict(fit, groups=groups).draws())
    new = REPEATED if groups == "data" else REPEATED[["x", "z"]]
    np.testing.assert_allclose(own, pyflowers.predict(fit, new, groups=groups).draws())
    shuffled = new.sample(frac=1, random_state=1)
    its = np.asarray(pyflowers.predict(fit, shuffled, groups=groups).draws())
    np.testing.assert_allclose(its[..., np.argsort(shuffled.index)], own)
    found = pyflowers.effects(fit, "x", groups=groups, step=1)
    moved = pyflowers.predict(fit, new.assign(x=new.x + 1), groups=groups)
    change = (np.asarray(moved.draws()) - own).mean(axis=2)
    np.testing.assert_allclose(np.asarray(found.draws())[..., 0], change)


def test_the_curve_of_a_covariate_of_cells_is_not_flat():
    fit = fit_of("count ~ x + (1 | g)", "poisson", REPEATED)
    at = pyflowers.predict(fit, pd.DataFrame({"x": [0, 3]}), groups="none").table()["median"]
    for spread in (None, "g"):
        drawn = pyflowers.plots.conditional_effects(fit, "x", spread=spread)
        said = re.search(r"median is (\S+) at 0 and (\S+) at 3", pyflowers.plots.alt_text(drawn))
        assert said
        np.testing.assert_allclose([float(each) for each in said.groups()], at, rtol=0.01)


def test_labels_of_nested_groups_are_those_of_the_fit():
    fit = fit_of("count ~ x + (1 | g:b)", "poisson", REPEATED)
    new = pd.DataFrame({"x": [0, 1, 2], "g": ["a", "b", "c"], "b": [1, 2, 1]})
    whole = pyflowers.predict(fit, new)
    assert whole.draws().shape[2] == 3
    np.testing.assert_array_equal(
        whole.draws(), pyflowers.predict(fit, new.astype({"b": float})).draws()
    )
    with pytest.raises(DataError, match="there is no column 'b'; the columns are x, g; add"):
        pyflowers.predict(fit, new[["x", "g"]])
    # A new label of an inner group may occur in several outer groups.
    frame = REPEATED.assign(brood=REPEATED.g + REPEATED.b.astype(str))
    fit = fit_of("count ~ x + (1 | g) + (1 | brood)", "poisson", frame)
    new = pd.DataFrame({"x": [0, 0], "g": ["a", "b"], "brood": ["new", "new"]})
    assert np.isfinite(pyflowers.predict(fit, new).draws()).all()


def test_a_polynomial_of_few_values_is_predicted():
    fit = fit_of("y ~ poly(x, 2) + C(year)")
    rows = pd.DataFrame({"x": [0.5, -1.0, 3.0], "year": [95, 96, 97]})
    whole = np.asarray(pyflowers.predict(fit, rows).draws())
    each = [pyflowers.predict(fit, rows[i : i + 1]).draws() for i in range(3)]
    np.testing.assert_allclose(np.concatenate(each, axis=2), whole, rtol=1e-10)
    both = np.asarray(pyflowers.predict(fit, rows.assign(year=95)[:2]).draws())
    found = pyflowers.effects(fit, "x", between=(-1.0, 0.5))
    assert found.table()["median"].iloc[0] == pytest.approx(np.median(both[..., 0] - both[..., 1]))


def test_sets_of_rows_have_names_of_their_own():
    fit = fit_of("y ~ x")
    new = NEW.assign(draw=["1", "1.0", "2", "2"])
    found = pyflowers.predict(fit, new, by="draw")
    assert found.draws().dims == ("chain", "draw", "draw_")
    assert found.draws().shape == (*fit.draws["sigma"].shape, 3)
    assert found.table().index.tolist() == ["1", "1.0", "2"]


def test_a_quantile_regression_says_that_its_mean_is_not_its_quantile():
    frame = pd.DataFrame({"y": np.random.default_rng(2).gamma(2, size=60)})
    how = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    fit = pyflowers.fit("y ~ 1", frame, family="asym_laplace", priors={"quantile": 0.9}, **how)
    said = " ".join(str(pyflowers.predict(fit, frame)).split())
    assert 'this is the mean; kind="linear" predicts the quantile of y' in said
    assert "this is the mean" not in str(pyflowers.predict(fit, frame, kind="linear"))
    logs = pyflowers.fit("y ~ 1", frame, family="asym_laplace", link="log", **how)
    with in_shell():
        said = " ".join(str(pyflowers.predict(logs, frame)).split())
    assert "this is the mean; --kind linear predicts the log of the quantile of y" in said
    about = logs.program.declaration.parameters["Intercept"]
    assert about.description == "log of the quantile of y"


def test_columns_with_the_names_of_the_table_are_renamed():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "y": rng.normal(size=60),
            "row": rng.choice(list("abcd"), 60),
            "median": rng.normal(size=60),
            "5%": rng.choice(list("uv"), 60),
        }
    )
    fit = pyflowers.fit("y ~ median + `5%` + (1 | row)", frame, seed=1, engine="exact")
    found = pyflowers.predict(fit).table()
    assert found.index.names == ["row", "median_", "5%_", "row_"]
    assert found.index.get_level_values("row_").tolist() == frame.row.tolist()
    assert pyflowers.effects(fit, "median", by="5%").table().index.names[-1] == "5%_"


def test_what_is_asked_with_a_new_table_is_named():
    fit = fit_of("y ~ x + sex")
    with pytest.raises(ConfigError, match=r"^balanced and new=TABLE both give the rows"):
        pyflowers.effects(fit, "sex", means=True, balanced=True, new=FRAME)
