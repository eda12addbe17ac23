"""Default priors do not depend on where a covariate has its zero, nor overrule linked columns."""

import numpy as np
import pandas as pd
import pytest
from tiers import mostly_campaign

import pyflowers
from pyflowers import Program
from pyflowers.programs.prediction import Predictor, rows_of

RATIOS = (1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
"""Mean of the covariate divided by its sd."""

VERSIONS = {
    "powers": ("y ~ x + I(x**2)", "y ~ center(x) + I(center(x)**2)", "y ~ poly(x, 2)"),
    "product": ("y ~ x * arm", "y ~ center(x) * arm", "y ~ poly(x, 1) * arm"),
}
ROWS = {"gaussian": 120, "poisson": 160, "bernoulli": 500}


def planted(seed, kind, family, ratio):
    """Return a table with a strong curve or a strong interaction."""
    rng = np.random.default_rng([52, seed])
    num, sd, sign = ROWS[family], rng.choice([0.5, 1, 4]), rng.choice([-1, 1])
    u = rng.uniform(-1.7, 1.7, num) if seed % 2 else rng.normal(size=num)
    arm = rng.integers(0, 2, num)
    eta = 0.4 * u + sign * 0.9 * (u**2 - 1 if kind == "powers" else u * arm)
    y = {
        "gaussian": lambda: 10 + 3 * eta + rng.normal(0, 1.5, num),
        "poisson": lambda: rng.poisson(np.exp(0.7 + 0.7 * eta)),
        "bernoulli": lambda: (rng.random(num) < 1 / (1 + np.exp(-1.5 * eta))).astype(int),
    }[family]()
    return pd.DataFrame({"x": sd * (u + ratio), "arm": np.array(["a", "b"])[arm], "y": y})


def curve(formula, frame, family, draws=1000, **options):
    """Return draws of the linear predictor at each row, shape (draw, N)."""
    program = Program.from_formula(formula, frame, family=family, **options)
    fit = pyflowers.fit(program, frame, seed=1, engine="stanli", draws=draws)
    assert not fit.verdict.computation.failed
    rule = program.declaration.prediction
    found = Predictor(rule, fit.draws, fit.data.values, rows_of(fit.data)).linear()
    return found.reshape(-1, found.shape[-1])


def apart(curve, other):
    """Return the largest difference of posterior means, in posterior sds."""
    return np.abs((curve.mean(0) - other.mean(0)) / other.std(0)).max()


@pytest.mark.parametrize(
    ("kind", "family", "ratio"), [("powers", "gaussian", 1000), ("product", "poisson", 100)]
)
def test_a_raw_covariate_has_the_posterior_of_a_centred_one(kind, family, ratio):
    frame = planted(4, kind, family, ratio)
    raw, centred, _ = (curve(formula, frame, family) for formula in VERSIONS[kind])
    assert apart(raw, centred) < 0.1


@pytest.mark.parametrize("seed", mostly_campaign(range(20), (0, 11, 19)))
def test_raw_centred_and_orthogonal_versions_have_one_posterior(seed):
    """Twenty planted tables: three families, ratios from 1 to 1,000, powers and products."""
    kind, family = list(VERSIONS)[seed // 10], list(ROWS)[seed % 3]
    frame = planted(seed, kind, family, RATIOS[seed % 10])
    raw, centred, orthogonal = (
        curve(formula, frame, family, draws=4000) for formula in VERSIONS[kind]
    )
    flat = curve(VERSIONS[kind][2], frame, family, draws=4000, default_priors="brms")
    assert apart(raw, orthogonal) < 0.1
    assert apart(centred, orthogonal) < 0.1
    assert apart(raw, flat) < 0.1


def years(num=16, units=16):
    """Return the raw interaction that an independent prior lost: 0.278 per year, as lm finds."""
    rng = np.random.default_rng(2005)
    frame = pd.DataFrame({"year": np.tile(np.arange(2005.0, 2005 + num), units)})
    frame["unit"] = np.repeat([f"u{i:02}" for i in range(units)], num)
    frame["arm"] = np.repeat(np.array(["a", "b"])[np.arange(units) % 2], num)
    slope = np.where(frame.arm == "b", 0.344, 0.067)
    effect = np.repeat(rng.normal(0, 1, units), num)
    frame["y"] = 20 + slope * (frame.year - 2012.5) + effect + rng.normal(0, 1, len(frame))
    return frame


def least_squares(frame):
    """Return the slopes' difference by least squares within units."""
    within = frame.assign(t=frame.year - 2012.5)
    y = within.y - within.groupby("unit").y.transform("mean")
    slope = within.assign(y=y).groupby("arm").apply(lambda g: (g.t @ g.y) / (g.t @ g.t))
    return slope["b"] - slope["a"]


def test_an_interaction_of_raw_years_is_not_lost():
    frame = years()
    expected = least_squares(frame)
    assert expected > 0.2
    for formula, name in (
        ("y ~ year * arm + (1 | unit)", "b[year:armb]"),
        ("y ~ log(year) * arm + (1 | unit)", "b[log(year):armb]"),
    ):
        fit = pyflowers.fit(formula, frame, seed=1, engine="stanli")
        found = fit.summary().loc[name, "median"]
        scale = 1 if "log" not in name else frame.year.mean()
        assert found / scale == pytest.approx(expected, abs=0.005)
        assert fit.verdict.computation.passed
        assert fit.verdict.prior.status == "passed"


def test_a_difference_of_nearly_equal_columns_is_not_lost():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"right": rng.normal(size=100)})
    frame["left"] = frame.right + rng.normal(0, 0.03, 100)
    frame["y"] = 60 * (frame.left - frame.right) + rng.normal(size=100)
    fit = pyflowers.fit("y ~ left + right", frame, seed=1, engine="stanli")
    columns = np.column_stack([np.ones(100), frame.left, frame.right])
    expected = np.linalg.lstsq(columns, frame.y)[0][1:]
    np.testing.assert_allclose(fit.summary(["b"])["mean"], expected, rtol=0.02)


@pytest.mark.parametrize(
    ("formula", "is_linked"),
    [
        ("y ~ x + z", False),
        ("y ~ poly(x, 3) * arm", False),
        ("y ~ center(x) * arm", False),
        ("y ~ x + I((x - 20)**2)", False),
        ("y ~ f * g", False),
        ("y ~ 0 + f + arm", False),
        ("y ~ bs(x, df=8)", False),
        ("y ~ I(x**2)", False),
        ("y ~ x + I(x**2)", True),
        ("y ~ x * arm", True),
        ("y ~ arm / x", True),
        ("y ~ x * arm * z", True),
        ("y ~ log(x) * arm", True),
        ("y ~ 0 + arm + arm:x", True),
        ("y ~ z + twin", True),
    ],
)
def test_only_linked_columns_have_a_joint_prior(formula, is_linked):
    program = Program.from_formula(formula, many_columns())
    assert ("adjustment" in program.declaration.data) == is_linked
    assert ("b_adjusted" in program.source.text) == is_linked


def many_columns():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.uniform(18, 22, 300), "z": rng.normal(size=300)})
    frame["twin"] = frame.z + rng.normal(0, 0.02, 300)
    for name, levels in (("arm", "ab"), ("f", "abcde"), ("g", "pqrstu")):
        frame[name] = rng.choice(list(levels), 300)
    return frame.assign(y=rng.normal(3, 2, 300))


def test_linked_columns_in_other_words_have_one_prior():
    """Prior draws of the curve have the same covariance, however the formula is written."""
    frame, found = many_columns(), []
    for formula in ("y ~ x * arm", "y ~ arm * x", "y ~ arm / x", "y ~ I(x + 500) * arm"):
        program = Program.from_formula(formula, frame)
        data, _ = program.fill(program.read(frame), program.resolve_priors())
        columns = np.asarray(data["X"]) - np.asarray(data["X_mean"])
        root = columns @ np.asarray(data["adjustment"]) * np.asarray(data["b_scale"])
        found.append(root @ root.T)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0.02, atol=0.01 * found[0].max())


def test_prior_draws_of_linked_coefficients_have_the_joint_prior():
    frame = many_columns()
    program = Program.from_formula("y ~ x + I(x**2)", frame)
    data, _ = program.fill(program.read(frame), program.resolve_priors())
    b = program.python.prior.draw(data, 20_000, np.random.default_rng(1))["b"][0]
    adjusted = np.linalg.solve(np.asarray(data["adjustment"]), b.T)
    np.testing.assert_allclose(adjusted.std(1), data["b_scale"], rtol=0.03)
    assert abs(np.corrcoef(adjusted)[0, 1]) < 0.03


def test_the_sd_of_slopes_has_the_unit_of_its_covariate():
    frame = pd.DataFrame({"nitrogen": np.tile([0.0, 40, 80, 120], 25)})
    frame["site"] = np.repeat([f"s{i}" for i in range(20)], 5)
    frame["y"] = np.random.default_rng(1).normal(5, 1.25, 100)
    priors = Program.from_formula("y ~ nitrogen + (nitrogen | site)", frame).resolve_priors()
    assert priors["sd_site_scale[Intercept]"] == 2.5
    assert priors["sd_site_scale[nitrogen]"] == pytest.approx(2.5 / frame.nitrogen.std(), rel=0.01)
    brms = Program.from_formula("y ~ (nitrogen | site)", frame, default_priors="brms")
    assert brms.resolve_priors()["sd_site_scale"] == 2.5


def test_the_sds_of_levels_have_the_unit_of_the_response():
    frame = many_columns()
    priors = Program.from_formula("y ~ (0 + arm | f)", frame).resolve_priors()
    assert priors["sd_f_scale[arma]"] == priors["sd_f_scale[armb]"] == priors["sigma_scale"]


@pytest.mark.slow
@pytest.mark.parametrize("centered", [False, True])
def test_linked_columns_beside_varying_slopes(centered):
    """Centred effects are sampled as sums with the coefficients of the columns, not adjusted."""
    frame = years(8, 12).assign(year=lambda its: its.year - 1998)
    formula = "y ~ year * arm + (year | unit)"
    program = Program.from_formula(formula, frame, centered=centered)
    assert "b_adjusted" in program.source.text
    fit = pyflowers.fit(program, frame, seed=1, engine="stanli")
    plain = pyflowers.fit(
        "y ~ center(year) * arm + (center(year) | unit)", frame, seed=1, engine="stanli"
    )
    found, expected = (each.summary(["b"])["mean"].iloc[-1] for each in (fit, plain))
    sd = plain.summary(["b"])["sd"].iloc[-1]
    assert abs(found - expected) < 0.25 * sd


@pytest.mark.slow
def test_thresholds_are_those_of_the_linked_columns():
    rng = np.random.default_rng(2)
    x = rng.uniform(30, 32, 400)
    latent = 3 * (x - 31) + 3 * (x - 31) ** 2 + rng.logistic(size=400)
    frame = pd.DataFrame({"x": x, "y": 1 + np.digitize(latent, [0, 1, 2.5])})
    found = []
    for formula in ("y ~ x + I(x**2)", "y ~ poly(x, 2)"):
        program = Program.from_formula(formula, frame, family="cumulative")
        fit = pyflowers.fit(program, frame, seed=1, engine="stanli")
        found.append(fit.log_likelihood().mean((0, 1)))
    np.testing.assert_allclose(found[0], found[1], atol=0.05)
