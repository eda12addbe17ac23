"""Groups with options, ``gr(g, by=f)``, ``cov=A`` and ``dist=student``, by definition."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from curves_by_hand import (
    KINSHIP,
    LABELS,
    Interpreted,
    assert_density,
    assert_engines_agree,
    assert_one_sentence,
    assert_predicts_when_loaded,
    assert_prior_when_written,
    flat,
    half_t,
    points_of,
    prior_of_line,
    table,
    with_factors,
)
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError, DataError
from pyflowers.workflow.config import read_config

HOW = {"seed": 1, "engine": "stanli", "warmup": 400, "draws": 400}
ORDER = [3, 0, 5, 1, 4, 2]
SHUFFLED = KINSHIP.iloc[ORDER, ORDER[::-1]]


def rows():
    frame = table()
    frame["site"] = frame.g.map(dict(zip(LABELS, "aabbba", strict=True)))
    return frame


def of_levels(frame, labels, its, numbers):
    site = dict(zip(LABELS, "aabbba", strict=True))
    sd = dict(zip(sorted("ab"), its["sd_g"], strict=True))
    effects = {g: sd[site[g]] * z for g, z in zip(labels, its["z_g"], strict=True)}
    return effects, stats.norm.logpdf(its["z_g"]).sum() + half_t(its["sd_g"], numbers["sd_g_scale"])


def of_covariance(frame, labels, its, numbers):
    matrix = KINSHIP.loc[list(labels), list(labels)].to_numpy()
    effects = its["sd_g"][0] * np.linalg.cholesky(matrix) @ its["z_g"]
    # The density of the effects with the Jacobian of the standardised ones is that of normal z.
    prior = stats.multivariate_normal.logpdf(effects, cov=its["sd_g"][0] ** 2 * matrix)
    prior += 6 * np.log(its["sd_g"][0])
    prior += half_t(its["sd_g"], numbers["sd_g_scale"])
    return dict(zip(labels, effects, strict=True)), prior


def of_student(frame, labels, its, numbers):
    prior = stats.t.logpdf(its["r_g"], its["df_g"], 0, its["sd_g"][0]).sum()
    prior += half_t(its["sd_g"], numbers["sd_g_scale"])
    prior += stats.gamma.logpdf(its["df_g"], 2, scale=1 / 0.1)
    return dict(zip(labels, its["r_g"], strict=True)), prior


CASES = {
    "by": ("y ~ x + (1 | gr(g, by=site))", of_levels, None),
    "cov": ("y ~ x + (1 | gr(g, cov=A))", of_covariance, {"A": SHUFFLED}),
    "student": ("y ~ x + (1 | gr(g, dist=student))", of_student, None),
    "by_count": ("count ~ x + (1 | gr(g, by=site))", of_levels, None),
}


def posed(name):
    formula, _, known = CASES[name]
    family = "poisson" if "count" in name else "gaussian"
    program = Program.from_formula(formula, rows(), family=family, known=known, centered=None)
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    return program, data


def by_hand(name, data, its):
    """Return the log joint density by definition."""
    frame, numbers = rows(), data.values
    effects, total = CASES[name][1](frame, data.labels["g"].names, its, numbers)
    total += prior_of_line(its, numbers)
    eta = its["Intercept_at_means"] + (frame.x - frame.x.mean()) * its["b"] + frame.g.map(effects)
    if name == "by_count":
        return total + stats.poisson.logpmf(frame["count"], np.exp(eta)).sum()
    total += half_t(its["sigma"], numbers["sigma_scale"])
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_definition(name):
    program, data = posed(name)
    points = points_of(program, data)
    for point in points:
        if "df_g" in point:
            point["df_g"] = 1.5 + np.abs(point["df_g"])
    assert_density(program, data, points, partial(by_hand, name, data))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by", "cov", "student"])
def test_both_engines_have_one_density_and_gradient(name):
    program, data = posed(name)
    points = points_of(program, data)
    for point in points:
        if "df_g" in point:
            point["df_g"] = 1.5 + np.abs(point["df_g"])
    assert_engines_agree(program, data, points)


@pytest.fixture(scope="module")
def fits():
    found = {}

    def fit(name):
        if name not in found:
            formula, _, known = CASES[name]
            found[name] = pyflowers.fit(formula, rows(), known=known, **HOW)
        return found[name]

    return fit


@pytest.mark.parametrize("name", ["by", "cov", "student"])
def test_predictions_are_the_definition(name, fits):
    fit, frame = fits(name), rows().head(4)
    its = fit.draws
    r = its["r_g"][..., fit.data.labels["g"].codes[:4]]
    line = its["Intercept"][..., None] + its["b"] * frame.x.to_numpy()
    found = pyflowers.predict(fit, frame, kind="linear").draws()
    np.testing.assert_allclose(found, line + r, rtol=1e-10, atol=1e-10)
    typical = pyflowers.predict(fit, frame, kind="linear", groups="none").draws()
    np.testing.assert_allclose(typical, line, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["by", "cov", "student"])
def test_a_new_label_is_drawn_from_its_population(name, fits):
    fit = fits(name)
    frame = pd.DataFrame({"x": 5.0, "g": [f"new{i}" for i in range(40)], "site": "b"})
    its = fit.draws
    line = its["Intercept"][..., None] + its["b"] * 5
    effects = (pyflowers.predict(fit, frame, kind="linear").draws().values - line) / (
        its["sd_g"][..., [-1]]
    )
    if name == "student":
        p = stats.kstest(stats.t.cdf(effects, its["df_g"][..., None]).ravel(), "uniform").pvalue
    else:
        p = stats.kstest(effects.ravel(), "norm").pvalue
    assert p > 1e-4
    # One label has one effect in all its rows.
    twice = pd.concat([frame.head(1), frame.head(1)])
    found = pyflowers.predict(fit, twice, kind="linear").draws().values
    np.testing.assert_array_equal(found[..., 0], found[..., 1])


@pytest.mark.parametrize("name", ["by", "cov", "student"])
def test_all_that_follows_a_fit(name, fits, tmp_path):
    fit = fits(name)
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert len(pyflowers.effects(fit).table()) == 1
    assert any(str(each).startswith("sd_g") for each in pyflowers.sensitivity(fit).table().index)
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")


@pytest.mark.parametrize("name", CASES)
def test_prior_draws_are_those_of_the_definition(name, tmp_path):
    program, data = posed(name)
    draws = assert_prior_when_written(program, rows(), 4000, tmp_path / "again.stan")
    r, sd = draws["r_g"][0], draws["sd_g"][0]
    if name == "cov":
        labels = list(data.labels["g"].names)
        found = np.cov((r / sd).T)
        np.testing.assert_allclose(found, KINSHIP.loc[labels, labels], atol=0.12)
    elif name == "student":
        df = draws["df_g"][0]
        assert df.min() > 1
        p = stats.kstest(stats.t.cdf(r[:, 0] / sd[:, 0], df), "uniform").pvalue
        assert p > 1e-4
    else:
        label = data.labels["g"].names[2]
        level = "ab".index(dict(zip(LABELS, "aabbba", strict=True))[label])
        assert stats.kstest(r[:, 2] / sd[:, level], "norm").pvalue > 1e-4


def test_without_a_closed_form_the_population_is_refused():
    frame, formula = rows(), "count ~ x + (1 | gr(g, dist=student))"
    fit = pyflowers.fit(formula, frame, family="poisson", **HOW)
    with pytest.raises(ConfigError, match="is a Student t distribution, over which"):
        pyflowers.predict(fit, frame.head(2), groups="population", kind="expected").table()


def test_a_known_covariance_from_a_file(tmp_path):
    KINSHIP.to_csv(tmp_path / "kinship.csv")
    formula, frame = CASES["cov"][0], rows()
    one = Program.from_formula(formula, frame, known={"A": tmp_path / "kinship.csv"})
    other = Program.from_formula(formula, frame, known={"A": SHUFFLED})
    assert one.declaration == other.declaration


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (KINSHIP.drop(index="g2"), "there is no row for 'g2', which is a label of g; add it"),
        (KINSHIP.drop(columns="g0"), "there is no column for 'g0', which is a label of g"),
        (KINSHIP.assign(g1=1.0), "or differs from the covariance of"),
        (KINSHIP.assign(g1="x"), "a cell is not a number; correct it"),
        (KINSHIP * 0 + 1, "is not positive definite, so some labels are combinations of others"),
        (pd.concat([KINSHIP, KINSHIP.head(1)]), "the row 'g0' occurs twice; keep one"),
        (np.eye(6), "give a DataFrame or a CSV file with the labels as its index and its"),
        ("missing.csv", "missing.csv cannot be read as a CSV file"),
        ("http://127.0.0.1:9/a.csv", "cannot be read as a CSV file ([Errno 2] No such file"),
    ],
)
def test_a_bad_covariance_is_one_sentence(bad, message):
    assert_one_sentence(message, CASES["cov"][0], rows(), known={"A": bad})


def test_a_covariance_that_no_term_names_is_refused():
    with pytest.raises(ConfigError, match="no term of the formula names A"):
        Program.from_formula("y ~ x", rows(), known={"A": KINSHIP})
    with pytest.raises(ConfigError, match="--known: iid_normal is not a formula"):
        pyflowers.fit("iid_normal", known={"A": KINSHIP})


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ (1 | gr(g, cov=A))", "A is not given; name its table with --known A=FILE"),
        ("y ~ (1 | gr(g, by=f))", "needs one f for each g; write (0 + f || g), or correct"),
        ("y ~ (1 | gr(g, by=w))", "there is no column 'w'"),
        ("y ~ (1 | gr(g, by=same))", "same is '5' in every row; leave by=same out"),
        (
            "y ~ (1 | gr(g, id=1))",
            "takes by=f, cov=A or dist=student after the group; correct id=1",
        ),
        ("y ~ (1 | gr(g, dist=cauchy))", "write dist=student, or leave dist= out"),
        ("y ~ (1 | gr(g, by=site, dist=student))", "takes only one of by=, cov= and dist=; leave"),
        ("y ~ (1 | gr(g, f))", "takes by=f, cov=A or dist=student after the group; correct f"),
        ("y ~ (1 | gr(g/f))", "takes one group; write gr(g), where g is a column or a:b"),
        ("y ~ (1 | gr())", "takes one group; write gr(g)"),
        ("y ~ (1 | gr(g, by=site)) + (0 + x | g)", "a term with options must be the only"),
    ],
)
def test_a_bad_option_is_one_sentence_with_a_remedy(formula, message):
    with pytest.raises((ConfigError, DataError)) as caught:
        Program.from_formula(formula, rows().assign(same=5))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)


def test_gr_without_options_is_the_plain_group():
    one, other = (Program.from_formula(f"y ~ (1 | {g})", rows()) for g in ("gr(g)", "g"))
    header = one.source.text.index("data {")
    assert one.source.text[header:] == other.source.text[other.source.text.index("data {") :]


def test_an_experiment_file_names_a_known_covariance(tmp_path):
    KINSHIP.to_csv(tmp_path / "kinship.csv")
    rows().to_csv(tmp_path / "rows.csv", index=False)
    lines = [
        'models = ["y ~ x + (1 | gr(g, cov=A))", "y ~ x"]',
        'known = { A = "kinship.csv" }',
        "[data]",
        'file = "rows.csv"',
    ]
    (tmp_path / "experiment.toml").write_text("\n".join(lines))
    experiment = read_config(tmp_path / "experiment.toml")
    one, other = (
        experiment.spec_of(model, experiment.data, tmp_path / "rows.csv").open()
        for model in experiment.models
    )
    assert "known_g" in one.source.blocks.data
    assert "known_g" not in other.source.blocks.data


SLOPES = {
    "cov": ("y ~ x + (x | gr(g, cov=A))", {"A": SHUFFLED}),
    "apart": ("y ~ x + (x || gr(g, cov=A))", {"A": SHUFFLED}),
    "student": ("y ~ x + (x | gr(g, dist=student))", None),
    "student_apart": ("y ~ x + (x || gr(g, dist=student))", None),
}


def posed_slopes(name):
    formula, known = SLOPES[name]
    program = Program.from_formula(formula, rows(), known=known)
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    points = points_of(program, data)
    if "L_g" in points[0]:
        points = with_factors(points)
    for point in points:
        if "df_g" in point:
            point["df_g"] = 1.5 + np.abs(point["df_g"])
            point["u_g"] = np.exp(point["u_g"])
    return program, data, points


def of_slopes(data, its):
    """Return the effects of each label, shape (label, 2), and the log density of their priors."""
    numbers, labels = data.values, list(data.labels["g"].names)
    total = half_t(its["sd_g"][0], numbers["sd_g_scale"][0])
    total += half_t(its["sd_g"][1], numbers["sd_g_scale"][1])
    total += stats.norm.logpdf(its["z_g"]).sum()
    factor = np.diag(its["sd_g"])
    if "L_g" in its:
        factor = factor @ its["L_g"]
        total += 2 * (numbers["cor_g_eta"] - 1) * np.log(its["L_g"][1, 1])
    effects = (factor @ its["z_g"]).T
    if "known_g" in numbers:
        effects = np.linalg.cholesky(KINSHIP.loc[labels, labels].to_numpy()) @ effects
    else:
        total += stats.gamma.logpdf(its["df_g"], 2, scale=1 / 0.1)
        # u is the inverse of a χ², whose log density has the Jacobian -2 log u.
        total += (stats.chi2.logpdf(1 / its["u_g"], its["df_g"]) - 2 * np.log(its["u_g"])).sum()
        effects = effects * np.sqrt(its["df_g"] * its["u_g"])[:, None]
    return effects, total


@pytest.mark.parametrize("name", SLOPES)
def test_the_density_of_several_effects_is_that_of_the_definition(name):
    program, data, points = posed_slopes(name)
    ours, _ = Interpreted(program, data).evaluate(flat(points))
    frame, numbers, theirs = rows(), data.values, []
    for its in points:
        effects, total = of_slopes(data, its)
        total += prior_of_line(its, numbers)
        eta = its["Intercept_at_means"] + (frame.x - frame.x.mean()) * its["b"]
        own = effects[data.labels["g"].codes]
        eta = eta + own[:, 0] + own[:, 1] * frame.x
        total += half_t(its["sigma"], numbers["sigma_scale"])
        theirs.append(total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum())
    assert np.ptp(ours - theirs) < 1e-9 * np.abs(ours).max()
    assert np.ptp(ours) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOPES)
def test_both_engines_have_one_density_and_gradient_of_several_effects(name):
    program, data, points = posed_slopes(name)
    assert_engines_agree(program, data, points)


@pytest.mark.parametrize("name", ["cov", "student"])
def test_several_effects_are_predicted_by_their_definition(name, tmp_path):
    formula, known = SLOPES[name]
    fit, frame = pyflowers.fit(formula, rows(), known=known, **HOW), rows().head(4)
    its = fit.draws
    own = its["r_g"][:, :, fit.data.labels["g"].codes[:4]]
    line = its["Intercept"][..., None] + its["b"] * frame.x.to_numpy()
    found = pyflowers.predict(fit, frame, kind="linear").draws()
    expected = line + own[..., 0] + own[..., 1] * frame.x.to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    new = pd.DataFrame({"x": [0.0, 1.0], "g": "new"})
    drawn = pyflowers.predict(fit, new, kind="linear").draws().values
    slope = drawn[..., 1] - drawn[..., 0] - its["b"][..., 0]
    both = np.stack([drawn[..., 0] - its["Intercept"], slope], -1) / its["sd_g"]
    cdf = stats.norm.cdf(both) if name == "cov" else stats.t.cdf(both, its["df_g"][..., None])
    for j in range(2):
        assert stats.kstest(cdf[..., j].ravel(), "uniform").pvalue > 1e-4
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert set(pyflowers.effects(fit).table().index.get_level_values(0)) == {"x"}
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")


@pytest.mark.parametrize("name", SLOPES)
def test_prior_draws_of_several_effects_are_those_of_the_definition(name, tmp_path):
    program, data, _ = posed_slopes(name)
    draws = assert_prior_when_written(program, rows(), 4000, tmp_path / "again.stan")
    r = draws["r_g"][0] / draws["sd_g"][0][:, None]
    if "student" in name:
        p = stats.t.cdf(r, draws["df_g"][0][:, None, None])
        assert stats.kstest(p[:, 2, 1], "uniform").pvalue > 1e-4
        return
    labels = list(data.labels["g"].names)
    for j in range(2):
        found = np.cov(r[..., j].T)
        np.testing.assert_allclose(found, KINSHIP.loc[labels, labels], atol=0.12)
    if name == "cov":
        product = (r[..., 0] * r[..., 1]).mean(axis=1)
        correlation = draws["cor_g"][0][:, 0]
        assert np.corrcoef(product, correlation)[0, 1] > 0.2


@pytest.mark.parametrize(
    ("formula", "family", "asked", "name"),
    [
        ("y ~ x + (1 | gr(g, cov=A))", "gaussian", {"g": True}, "g"),
        ("y ~ x; sigma ~ (1 | gr(g, cov=A))", "gaussian", {"g_sigma": True}, "g_sigma"),
        ("site ~ x + (1 | gr(g, cov=A))", "categorical", {"g": True}, "g"),
        ("site ~ x + (1 | gr(g, cov=A))", "categorical", {"g_mub": True}, "g_mub"),
    ],
)
def test_effects_that_are_sampled_standardised_only_cannot_be_centred(formula, family, asked, name):
    with pytest.raises(ConfigError, match=f"centered {name}: the effects of .* standardised form"):
        Program.from_formula(formula, rows(), family=family, known={"A": KINSHIP}, centered=asked)
    Program.from_formula(
        formula, rows(), family=family, known={"A": KINSHIP}, centered=dict.fromkeys(asked, False)
    )
