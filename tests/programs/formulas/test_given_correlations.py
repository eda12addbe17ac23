"""Priors of some of several correlations, ``cor_g[Intercept,x] ~ normal(0.3, 0.2)``."""

import numpy as np
import pytest
from curves_by_hand import (
    assert_density,
    assert_engines_agree,
    assert_one_sentence,
    assert_prior_when_written,
    half_t,
    points_of,
    table,
)
from scipy import stats

import pyflowers
from pyflowers import Program

FORMULA = "y ~ 1 + (x + z | g)"
PRIORS = {
    "first": {"cor_g[Intercept,x]": "normal(0.3, 0.2)"},
    "others": {"cor_g[x,z]": "normal(-0.4, 0.3)"},
    "two": {"cor_g[Intercept,z]": "normal(0.3, 0.2)", "cor_g[x,z]": "student_t(4, 0, 0.3)"},
}
PLACES = {"cor_g[Intercept,x]": (0, 1), "cor_g[Intercept,z]": (0, 2), "cor_g[x,z]": (1, 2)}
DENSITIES = {
    "normal(0.3, 0.2)": stats.norm(0.3, 0.2),
    "normal(-0.4, 0.3)": stats.norm(-0.4, 0.3),
    "student_t(4, 0, 0.3)": stats.t(4, 0, 0.3),
}
ETA = 2.0


def posed(name):
    program = Program.from_formula(FORMULA, table(), priors=PRIORS[name], centered=False)
    data, _ = program.fill(program.read(table()), program.resolve_priors())
    points, rng = points_of(program, data), np.random.default_rng(3)
    for point in points:
        own = rng.normal(size=(3, 5))
        point["L_g"] = np.linalg.cholesky(np.corrcoef(own))
    return program, data, points


def by_hand(name, data, its):
    """Return the log joint density: that of LKJ, with other marginals of some correlations."""
    frame, numbers = table(), data.values
    location, scale = (numbers[f"Intercept_{end}"] for end in ("location", "scale"))
    total = stats.t.logpdf((its["Intercept"] - location) / scale, 3)
    total += half_t(its["sigma"], numbers["sigma_scale"]) + stats.norm.logpdf(its["z_g"]).sum()
    total += sum(half_t(sd, s) for sd, s in zip(its["sd_g"], numbers["sd_g_scale"], strict=True))
    matrix = its["L_g"] @ its["L_g"].T
    # The Jacobian of the Cholesky factor is the product of its diagonal, each to the power K - k.
    total += (ETA - 1) * np.log(np.linalg.det(matrix)) + np.log(its["L_g"][1, 1])
    for element, text in PRIORS[name].items():
        r = matrix[PLACES[element]]
        total += DENSITIES[text].logpdf(r) - (ETA - 1 + 3 / 2 - 1) * np.log(1 - r**2)
    effects = (np.diag(its["sd_g"]) @ its["L_g"] @ its["z_g"]).T[data.labels["g"].codes]
    eta = its["Intercept"] + effects[:, 0] + effects[:, 1] * frame.x + effects[:, 2] * frame.z
    return total + stats.norm.logpdf(frame.y, eta, its["sigma"]).sum()


@pytest.mark.parametrize("name", PRIORS)
def test_the_density_is_that_of_the_definition(name):
    program, data, points = posed(name)
    assert_density(program, data, points, lambda its: by_hand(name, data, its))


@pytest.mark.quick
def test_the_marginal_of_the_joint_density_is_the_prior():
    """The others are integrated out on a grid."""
    at = np.linspace(-0.995, 0.995, 200)
    a, b, c = np.meshgrid(at, at, at, indexing="ij", sparse=True)
    joint = np.maximum(1 + 2 * a * b * c - a**2 - b**2 - c**2, 0) ** (ETA - 1)
    shape = ETA - 1 + 3 / 2
    own = joint.sum(axis=(1, 2)) / (1 - at**2) ** (shape - 1)
    np.testing.assert_allclose(own[20:-20] / own[100], 1, rtol=1e-3)
    # Two correlations of one effect are independent, so that both can be replaced.
    both = joint.sum(axis=2)
    outer = np.outer(both.sum(axis=1), both.sum(axis=0)) / both.sum()
    np.testing.assert_allclose(both[20:-20:20, 20:-20:20], outer[20:-20:20, 20:-20:20], rtol=2e-2)


@pytest.mark.slow
def test_both_engines_have_one_density_and_gradient():
    assert_engines_agree(*posed("two"))


@pytest.mark.parametrize("name", PRIORS)
def test_prior_draws_are_those_of_the_definition(name, tmp_path):
    program, _, _ = posed(name)
    draws = assert_prior_when_written(program, table(), 3000, tmp_path / "again.stan")
    cor, pairs = draws["cor_g"][0], list(PLACES)
    for element, text in PRIORS[name].items():
        its = DENSITIES[text]
        ends = its.cdf([-1, 1])
        own = (its.cdf(cor[:, pairs.index(element)]) - ends[0]) / np.diff(ends)
        assert stats.kstest(own, "uniform").pvalue > 1e-4
    # The partial correlation of the others has the distribution that it has under LKJ.
    root, one, other = {"first": (0, 1, 2), "others": (1, 0, 2), "two": (2, 0, 1)}[name]
    place = {value: i for i, value in enumerate(PLACES.values())}
    r = {pair: cor[:, i] for pair, i in place.items()}
    r |= {pair[::-1]: its for pair, its in r.items()}
    rest = (r[one, other] - r[root, one] * r[root, other]) / np.sqrt(
        (1 - r[root, one] ** 2) * (1 - r[root, other] ** 2)
    )
    shape = ETA - 1 + 1
    assert stats.kstest((1 + rest) / 2, stats.beta(shape, shape).cdf).pvalue > 1e-4


def test_all_that_follows_a_fit(tmp_path):
    how = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 300}
    given = {"cor_g[x,z]": "normal(0.8, 0.02)"}
    fit = pyflowers.fit(FORMULA, table(), priors=given, **how)
    assert abs(fit.summary()["mean"]["cor_g[x,z]"] - 0.8) < 0.02
    assert fit.program.priors.loc["cor_g[x,z]", "default"] == "no"
    assert fit.program.priors.loc["cor_g", "prior"] == "lkj(2)"
    assert fit.program.prior_of("cor_g[x,z]", fit.data.values).sd < 0.021
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    np.testing.assert_array_equal(again.draws["cor_g"], fit.draws["cor_g"])
    assert any(str(each).startswith("cor_g") for each in pyflowers.sensitivity(fit).table().index)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"cor_g[Intercept,x]": "normal(0, 1)", "cor_g[z,w]": "normal(0, 1)"},
            "priors of cor_g[Intercept,x] and cor_g[z,w]: correlations with priors of their own",
        ),
        (
            dict.fromkeys(PLACES, "normal(0, 1)"),
            "must share an effect, because only the correlations of one effect with the others can",
        ),
        ({"cor_g[x,z]": "constant(0.3)"}, "cannot be fixed; give it a narrow density, such as"),
        ({"cor_g[x,z]": "normal(0, 1) T[0, ]"}, "a correlation lies between -1 and 1, and its"),
        ({"cor_g[x,z]": "lkj(2)"}, "lkj(…) is a prior for the correlations of a group; give"),
    ],
)
def test_what_cannot_be_given_is_one_sentence(given, message):
    frame = table().assign(w=lambda its: its.x**2)
    assert_one_sentence(message, "y ~ (x + z + w | g)", frame, priors=given)
