"""Priors that a user gives to the sds of levels, ``sd_g[a,x] ~ exponential(1)`` with ``by=f``."""

import subprocess
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from curves_by_hand import (
    LABELS,
    assert_density,
    assert_engines_agree,
    assert_one_sentence,
    assert_predicts_when_loaded,
    assert_prior_when_written,
    half_t,
    points_of,
    prior_of_line,
    prior_of_log_sigma,
    table,
)
from scipy import stats

import pyflowers
from pyflowers import Program

HOW = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 300}
SITE = dict(zip(LABELS, "abccba", strict=True))
BOTH = "y ~ x + (x | gr(g, by=site))"
APART = "y ~ x + (x || gr(g, by=site))"
ALONE = "y ~ x + (1 | gr(g, by=site))"
OF_SIGMA = "y ~ x; sigma ~ x + (x || gr(g, by=site))"

# The priors of each case, and by level the densities that they mean: those of the intercept's sd
# and of the slope's, where None is the default and a number a fixed value.
RATE, SHAPE, HALF = stats.expon(), stats.gamma(2, scale=1 / 3), stats.halfnorm()
CUT = stats.truncnorm(0.1, 4)
CASES: dict[str, tuple[str, dict[str, str], list[list[Any]]]] = {
    "all": (BOTH, {"sd_g": "exponential(1)"}, [[RATE, RATE]] * 3),
    "class": (APART, {"sd": "gamma(2, 3)"}, [[SHAPE, SHAPE]] * 3),
    "effect": (BOTH, {"sd_g[x]": "exponential(1)"}, [[None, RATE]] * 3),
    "element": (
        BOTH,
        {"sd_g[b,x]": "exponential(1)"},
        [[None, None], [None, RATE], [None, None]],
    ),
    "nested": (
        BOTH,
        {"sd": "exponential(1)", "sd_g[x]": "gamma(2, 3)", "sd_g[c,x]": "normal(0, 1)"},
        [[RATE, SHAPE], [RATE, SHAPE], [RATE, HALF]],
    ),
    "bounds": (
        APART,
        {"sd_g[b,x]": "normal(0, 1) T[0.1, 4]", "sd_g[a,Intercept]": "gamma(2, 3)"},
        [[SHAPE, None], [None, CUT], [None, None]],
    ),
    "one_bound": (BOTH, {"sd_g": "normal(0, 1) T[0.1, 4]"}, [[CUT, CUT]] * 3),
    "fixed": (
        BOTH,
        {"sd_g[c,x]": "constant(0.5)", "sd_g[Intercept]": "exponential(1)"},
        [[RATE, None], [RATE, None], [RATE, 0.5]],
    ),
    "all_fixed": (BOTH, {"sd_g": "constant(0.5)"}, [[0.5, 0.5]] * 3),
    "alone": (ALONE, {"sd_g[b]": "exponential(1)"}, [[None], [RATE], [None]]),
    "alone_all": (ALONE, {"sd_g[Intercept]": "exponential(1)"}, [[RATE]] * 3),
    "alone_fixed": (ALONE, {"sd_g[a]": "constant(0.5)"}, [[0.5], [None], [None]]),
    "sigma": (
        OF_SIGMA,
        {"sd_g_sigma[x]": "exponential(1)", "sd_g_sigma[b,x]": "gamma(2, 3)"},
        [[None, RATE], [None, SHAPE], [None, RATE]],
    ),
}


def rows():
    frame = table()
    frame["site"] = frame.g.map(SITE)
    return frame


def posed(name, **how):
    formula, given, _ = CASES[name]
    program = Program.from_formula(formula, rows(), priors=given, **how)
    data, _ = program.fill(program.read(rows()), program.resolve_priors())
    return program, data


def tag_of(name):
    return "_sigma" if name == "sigma" else ""


def posed_points(name):
    """Return a program, its data, and points whose sds are between their bounds."""
    program, data = posed(name)
    points = points_of(program, data)
    for i, point in enumerate(points):
        for sds in (its for its in point if its.startswith("sd_")):
            point[sds] = np.clip(point[sds], 0.11 + 0.01 * i, 3.9)
        if "L_g" in point:
            cors = np.tanh([0.3 * (i - 10), 0.2 * (5 - i), 0.1 * i])
            point["L_g"] = np.array([[[1.0, 0.0], [r, np.sqrt(1 - r**2)]] for r in cors])
    return program, data, points


def sds_of(name, its):
    """Return the sds of the levels, shape (level, effect), from those that are sampled."""
    priors, tag = CASES[name][2], tag_of(name)
    if f"sd_g{tag}" in its:
        return np.reshape(its[f"sd_g{tag}"], (3, -1))
    free = iter(its.get(f"sd_g{tag}_free", ()))
    return np.array(
        [[own if isinstance(own, float) else next(free) for own in level] for level in priors]
    )


def by_hand(name, data, its):
    """Return the log joint density by definition."""
    frame, numbers, tag, priors = rows(), data.values, tag_of(name), CASES[name][2]
    sds, total = sds_of(name, its), prior_of_line(its, numbers)
    scales = default_scales(name)
    for i, level in enumerate(priors):
        for j, own in enumerate(level):
            if own is None:
                total += half_t(sds[i, j], scales[j])
            elif not isinstance(own, float):
                total += own.logpdf(sds[i, j])
    z = np.reshape(its[f"z_g{tag}"], (-1, 6))
    total += stats.norm.logpdf(z).sum()
    if "L_g" in its:
        total += sum(2 * (numbers["cor_g_eta"] - 1) * np.log(factor[1, 1]) for factor in its["L_g"])
    effects = []
    for j, label in enumerate(data.labels["g"].names):
        level = "abc".index(SITE[label])
        factor = np.diag(sds[level])
        if "L_g" in its:
            factor = factor @ its["L_g"][level]
        effects.append(factor @ z[:, j])
    own = np.array(effects)[data.labels["g"].codes]
    varying = own[:, 0] + (own[:, 1] * frame.x if own.shape[1] == 2 else 0.0)
    x = frame.x - frame.x.mean()
    eta = its["Intercept_at_means"] + x * its["b"]
    if name == "sigma":
        total += prior_of_log_sigma(its, numbers)
        log_sigma = its["Intercept_sigma_at_means"] + x * its["b_sigma"] + varying
        return total + stats.norm.logpdf(frame.y, eta, np.exp(log_sigma)).sum()
    total += half_t(its["sigma"], numbers["sigma_scale"])
    return total + stats.norm.logpdf(frame.y, eta + varying, its["sigma"]).sum()


def default_scales(name):
    """Return the scales of the default priors, which the program without given priors has."""
    program = Program.from_formula(CASES[name][0], rows())
    its = program.prior_values(program.resolve_priors())[f"sd_g{tag_of(name)}_scale"]
    return np.broadcast_to(its, len(CASES[name][2][0]))


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_definition(name):
    program, data, points = posed_points(name)
    assert_density(program, data, points, partial(by_hand, name, data))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nested", "bounds", "alone"])
def test_both_engines_have_one_density_and_gradient(name):
    assert_engines_agree(*posed_points(name))


def statements(program, *words):
    lines = [line.strip() for line in program.source.text.splitlines()]
    return [line for line in lines if any(word in line for word in words)]


def test_the_program_has_the_priors_as_a_person_would_write_them():
    program, _ = posed("nested")
    assert statements(program, "lprior += e", "lprior += g", "lprior += n") == [
        "lprior += normal_lpdf(b | 0, b_scale);",
        "lprior += exponential_lpdf(sd_g[ : , 1] | 1);",
        "lprior += gamma_lpdf(sd_g[{1, 2}, 2] | 2, 3);",
        "lprior += normal_lpdf(sd_g[3, 2] | 0, 1);",
    ]
    assert "sd_g_scale" not in program.source.text
    program, _ = posed("fixed")
    assert statements(program, "sd_g[3, 2]", "student_t_lpdf(sd_g") == [
        "sd_g[3, 2] = 0.5; // fixed",
        "lprior += student_t_lpdf(sd_g[{1, 2}, 2] | 3, 0, sd_g_scale[1]);",
    ]
    assert list(program.declaration.priors)[-3:-1] == ["sd_g_scale[x]", "cor_g_eta"]


@pytest.mark.parametrize("name", CASES)
def test_the_program_is_written_as_stanc_prints_it(name, cmdstan, tmp_path):
    program, _ = posed(name)
    path = program.write(tmp_path / "program.stan")
    stanc = [cmdstan.path / "bin" / "stanc", "--auto-format", path]
    checked = subprocess.run(stanc, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    lines = [line for line in checked.stdout.splitlines() if line.strip()]
    assert lines == program.source.text.splitlines()


@pytest.mark.parametrize("name", CASES)
def test_prior_draws_are_those_of_the_definition(name, tmp_path):
    program, data = posed(name)
    draws, tag = assert_prior_when_written(program, rows(), 3000, tmp_path / "s.stan"), tag_of(name)
    sds, scales = draws[f"sd_g{tag}"][0], default_scales(name)
    effects = draws[f"r_g{tag}"][0]
    if name.startswith("alone"):
        sds, effects = sds[..., None], effects[..., None]
    for i, level in enumerate(CASES[name][2]):
        for j, own in enumerate(level):
            if isinstance(own, float):
                assert (sds[:, i, j] == own).all()
                continue
            if own is None:
                shares = 2 * stats.t(3, 0, scales[j]).cdf(sds[:, i, j]) - 1
            else:
                shares = own.cdf(sds[:, i, j])
            assert stats.kstest(shares, "uniform").pvalue > 1e-4
    for g, label in enumerate(data.labels["g"].names):
        z = effects[:, g] / sds[:, "abc".index(SITE[label])]
        for j in range(z.shape[-1]):
            assert stats.kstest(z[:, j], "norm").pvalue > 1e-4


def test_a_number_of_the_default_prior_changes_what_is_left_of_it():
    program, _ = posed("alone")
    wide = pyflowers.prior(program, rows(), draws=2000, seed=1, priors={"sd_g_scale": 50})
    medians = np.median(wide.draws["sd_g"][0], axis=0)
    np.testing.assert_allclose(medians, [38.2, np.log(2), 38.2], rtol=0.15)
    program, _ = posed("element", default_priors="brms")
    assert list(program.declaration.priors)[-4:-1] == [
        "sd_g_scale[Intercept]",
        "sd_g_scale[x]",
        "cor_g_eta",
    ]


def test_the_table_has_a_row_for_each_prior():
    program, data = posed("element")
    found = program.priors
    assert found.loc["sd_g[b,x]", ["prior", "default"]].tolist() == ["exponential(1)", "no"]
    assert found.loc["sd_g[b,x]", "95%"] == pytest.approx(stats.expon.ppf(0.95))
    assert found.loc["sd_g[x]", "prior"].startswith("student_t(3, 0, ")
    assert found.loc["sd_g[x]", "default"] == "yes"
    assert found.index.is_unique
    assert program.prior_of("sd_g", data.values) is None
    assert program.prior_of("sd_g[b,x]", data.values).text == "Exponential(1)"
    assert program.prior_of("sd_g[a,x]", data.values).text.startswith("t(3, 0, ")
    for name in ("alone", "alone_fixed"):
        program, data = posed(name)
        assert program.prior_of("sd_g", data.values) is None
        assert program.prior_of("sd_g[c]", data.values).text.startswith("t(3, 0, ")
    fixed = posed("all_fixed")[0].priors
    assert fixed.loc["sd_g[a,x]", ["prior", "default"]].tolist() == ["constant(0.5)", "no"]
    together = Program.from_formula(BOTH, rows(), priors={"cor": "lkj(5)"})
    assert together.priors.loc["cor_g", ["prior", "default"]].tolist() == ["lkj(5)", "no"]


def test_a_class_reaches_all_group_terms():
    frame = rows().assign(h=lambda its: [f"h{i % 5}" for i in range(len(its))])
    program = Program.from_formula(f"{ALONE} + (1 | h)", frame, priors={"sd": "exponential(1)"})
    names = ["sd_g[a]", "sd_g[b]", "sd_g[c]", "sd_h[Intercept]"]
    assert program.priors.loc[names, "prior"].tolist() == ["exponential(1)"] * 4
    assert program.declaration.formula.given == {"sd": "exponential(1)"}
    assert set(program.declaration.formula.stated) == {"sd_g[1]", "sd_g[2]", "sd_g[3]", "sd_h[1]"}


def test_all_that_follows_a_fit(tmp_path):
    given = {"sd_g[a,x]": "normal(0.9, 0.01) T[0.5, ]", "sd_g[b,x]": "constant(0.5)"}
    fit = pyflowers.fit(BOTH, rows(), priors=given, **HOW)
    summary = fit.summary()
    assert abs(summary["mean"]["sd_g[a,x]"] - 0.9) < 0.02
    assert summary["sd"]["sd_g[b,x]"] == 0
    assert "sd_g_free[1]" not in summary.index
    about = fit.program.declaration.formula
    assert about.given == given
    assert about.stated == {"sd_g[1,2]": given["sd_g[a,x]"], "sd_g[2,2]": given["sd_g[b,x]"]}
    assert pyflowers.check(fit) is not None
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert fit.verdict.prior is not None
    assert any(str(each).startswith("sd_g") for each in pyflowers.sensitivity(fit).table().index)
    assert fit.program.python.likelihood_alone(fit.draws, fit.data)["sd_g"].estimate.shape == (6,)
    assert_predicts_when_loaded(fit, rows(), tmp_path / "run")
    new = pd.DataFrame({"x": [0.0, 1.0], "g": "new", "site": "b"})
    drawn = pyflowers.predict(fit, new, kind="linear").draws().values
    slopes = drawn[..., 1] - drawn[..., 0] - fit.draws["b"][..., 0]
    assert stats.kstest(slopes.ravel() / 0.5, "norm").pvalue > 1e-4


@pytest.mark.parametrize(
    ("formula", "name", "text", "message"),
    [
        (BOTH, "sd_g[d,x]", "exponential(1)", "the formula has no sd_g[d,x]; did you mean sd_g["),
        (BOTH, "sd_g[b,z]", "exponential(1)", "the formula has no sd_g[b,z]; did you mean sd_g["),
        (BOTH, "sd_g[z]", "exponential(1)", "the formula has no sd_g[z]; did you mean sd_g[x]?"),
        (ALONE, "sd_g[d]", "exponential(1)", "the formula has no sd_g[d]; did you mean sd_g["),
        (BOTH, "sd_h", "exponential(1)", "the formula has no sd_h; did you mean sd_g?"),
        (BOTH, "sd_g[b,x]", "constant(0)", "sd_g[b,x] must be above 0; give another value"),
        (BOTH, "sd_g[x]", "uniform(-2, -1)", "must be above 0, where this density is 0; give"),
        (BOTH, "sd_g[b,x]", "lkj(2)", "is a prior for the correlations of a group; give sd_g[b,x]"),
        (
            BOTH,
            "cor_g[a,Intercept,x]",
            "normal(0, 0.3)",
            "the correlations in all levels of site share a prior; write cor_g ~ lkj(2)",
        ),
        (BOTH, "cor_g[Intercept,x]", "constant(0.3)", "share a prior; write cor_g ~ lkj(2)"),
        (BOTH, "cor_g", "normal(0, 1)", "correlations have the prior lkj(…); write cor_g ~ lkj(2)"),
        (APART, "cor_g", "lkj(2)", "the formula has no cor_g; "),
    ],
)
def test_what_cannot_be_given_is_one_sentence(formula, name, text, message):
    assert_one_sentence(message, formula, rows(), priors={name: text})
