"""Formulas of a family's other parameters, such as ``sigma ~ x``."""

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError
from pyflowers.programs.formulas.edits import with_terms
from pyflowers.samplers import StanDensity

HOW = {"seed": 1, "engine": "stanli", "warmup": 500, "draws": 500}
OF_SIGMA = "y ~ x + z + (1 | g); sigma ~ w + (1 | g)"


def simulated(seed=1, num=400, sd_sigma=0.4):
    """Return rows in which the log of sigma is -0.5 + 0.6 w plus an effect of each of 16 groups."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(num, 3)), columns=["x", "z", "w"])
    group = np.arange(num) % 16
    frame["g"] = [f"g{i}" for i in group]
    frame["f"] = np.where(rng.random(num) < 0.5, "a", "b")
    sigma = np.exp(-0.5 + 0.6 * frame.w + rng.normal(0, sd_sigma, 16)[group])
    mean = 1 + 2 * frame.x + 1.5 * frame.z + rng.normal(0, 0.7, 16)[group]
    frame["y"] = mean + sigma * rng.normal(size=num)
    return frame


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit(OF_SIGMA, simulated(), **HOW)


def test_the_parameters_are_recovered(fit):
    truth = {
        "b[x]": 2,
        "b[z]": 1.5,
        "Intercept_sigma": -0.5,
        "b_sigma[w]": 0.6,
        "sd_g_sigma[Intercept]": 0.4,
    }
    summary = fit.summary()
    for name, true in truth.items():
        assert abs(summary["median"][name] - true) < 4 * summary["sd"][name], name
        assert summary["sd"][name] < 0.5
    assert fit.verdict.prior.passed


def test_the_equation_names_the_parameter(fit):
    equation = fit.program.declaration.equation
    assert equation.endswith("sigma = exp(Intercept_sigma + X_sigma b_sigma + r_g_sigma)")
    story = fit.program.declaration.story
    assert "The linear predictor of sigma includes w for the whole population." in story
    assert "Intercept of sigma varies by g, with a normal distribution." in story


def test_what_follows_a_fit_uses_sigma_of_each_row(fit):
    draws, rows = fit.draws, fit.data.table
    w, g = np.array(rows.numbers("w")), np.asarray(fit.data["g"]) - 1
    eta_sigma = draws["Intercept_sigma"][..., None] + draws["b_sigma"] * w
    sigma = np.exp(eta_sigma + draws["r_g_sigma"][..., g])
    columns = np.stack([rows.numbers("x"), rows.numbers("z")])
    eta = draws["Intercept"][..., None] + draws["b"] @ columns + draws["r_g"][..., g]
    expected = stats.norm.logpdf(rows.numbers("y"), eta, sigma)
    assert np.abs(fit.model.log_lik(draws) / expected - 1).max() < 1e-10
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert pyflowers.check(fit).passed
    wide = pd.DataFrame({"x": 0.0, "z": 0.0, "w": [-2.0, 2.0], "g": "g1"})
    table = pyflowers.predict(fit, wide, kind="observation").table()
    assert np.diff(table["95%"] - table["5%"])[0] > 2
    kept = pyflowers.sensitivity(fit).table().index
    assert {"b_sigma[w]", "Intercept_sigma", "sd_g_sigma[Intercept]"} <= {*kept}


def test_new_groups_have_new_effects_on_sigma(fit):
    """The residual of a label that is not in the data varies with its own sigma."""
    draws = fit.draws
    one = pd.DataFrame({"x": 0.0, "z": 0.0, "w": 0.0, "g": ["other"]})
    predictor = fit.model.predictor_of(draws, one, seed=5)
    sigma = predictor.parameter("sigma")[..., 0]
    known = np.exp(draws["Intercept_sigma"])
    sd = np.log(sigma / known) / draws["sd_g_sigma"][..., 0]
    assert abs(np.std(sd) - 1) < 0.1
    rng = np.random.default_rng(1)
    columns = fit.model.y_of_new_groups("g", draws, rng)
    assert columns.shape == (4, 500, 400)


PROGRAMS = [
    ("y ~ x; sigma ~ 1", "gaussian"),
    ("y ~ x + (x | g); sigma ~ 0 + f", "gaussian"),
    ("y ~ 1; sigma ~ 0 + offset(w)", "gaussian"),
    ("heavy ~ x; sigma ~ w + offset(z) + (w || g); nu ~ x", "student"),
    ("pos ~ x; sigma ~ w + (w | g)", "lognormal"),
    ("pos ~ x; shape ~ w + (1 | g)", "gamma"),
    ("share ~ x; phi ~ w + (1 | g)", "beta"),
    ("count ~ x; shape ~ w + (1 | g)", "negbinomial"),
    ("count ~ x; zi ~ w + (1 | g)", "zero_inflated_poisson"),
    ("count ~ x; zi ~ w; shape ~ (1 | g)", "zero_inflated_negbinomial"),
]


def of_families():
    """Return rows with a response for each family."""
    frame = simulated(num=160)
    rng = np.random.default_rng(2)
    frame["heavy"] = frame.y + rng.standard_t(3, 160)
    frame["pos"] = np.exp(0.3 * frame.y)
    frame["share"] = 1 / (1 + np.exp(-0.4 * frame.y))
    frame["count"] = rng.poisson(frame.pos) * (rng.random(160) < 0.8)
    return frame


LONG = [
    ("y ~ x; sigma ~ w + I(w**2) + (1 | g) + (w + z + x | f)", "gaussian"),
    ("y ~ x; sigma ~ offset(w) + offset(z) + offset(x) + w; nu ~ x + (w | g)", "student"),
]


@pytest.mark.parametrize(("formula", "family"), PROGRAMS + LONG)
def test_programs_are_valid_and_formatted(formula, family, cmdstan, tmp_path):
    program = Program.from_formula(formula, of_families(), family=family)
    path = tmp_path / "program.stan"
    path.write_text(program.source.text, encoding="utf-8")
    stanc = [cmdstan.path / "bin" / "stanc", "--auto-format", path]
    checked = subprocess.run(stanc, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    lines = [line for line in checked.stdout.splitlines() if line.strip()]
    assert lines == program.source.text.splitlines()


@pytest.mark.parametrize(("formula", "family"), PROGRAMS)
def test_the_rule_gives_the_log_lik_of_stan(formula, family):
    """Negative control: with another sigma, it does not."""
    frame = of_families()
    program = Program.from_formula(formula, frame, family=family)
    fit = pyflowers.fit(program, frame, seed=1, engine="stanli", warmup=100, draws=4, chains=1)
    edited = Program(
        program.source,
        program.declaration.model_copy(update={"formula": None}),
        "edited",
        "edited.stan",
    )
    stan = pyflowers.fit(edited, frame, seed=1, engine="stanli", warmup=100, draws=4, chains=1)
    ours, theirs = fit.model.log_lik(stan.draws), stan.draws["log_lik"]
    assert np.abs(ours - theirs).max() < 1e-8
    moved = {**stan.draws}
    name = next(its for its in moved if its.startswith(("b_", "Intercept")))
    moved[name] = moved[name] + 0.1
    assert np.abs(fit.model.log_lik(moved) - theirs).max() > 1e-3


@pytest.mark.parametrize(("formula", "family"), PROGRAMS)
def test_the_prior_is_drawn(formula, family):
    frame = of_families()
    program = Program.from_formula(formula, frame, family=family)
    draws = pyflowers.prior(program, frame, draws=50, seed=1).draws
    assert {*program.kept()} - program.internal == {*draws} - program.internal
    assert all(np.isfinite(its).all() for its in draws.values())


def test_a_list_of_formulas_is_one_text():
    frame = simulated(num=60)
    one = Program.from_formula(OF_SIGMA, frame)
    two = Program.from_formula(OF_SIGMA.split("; "), frame)
    three = Program.from_formula(OF_SIGMA.replace("; ", "\n"), frame)
    assert one.source.text == two.source.text == three.source.text
    assert one.reference == two.reference == three.reference == OF_SIGMA
    assert pyflowers.Spec(OF_SIGMA.split("; "), frame).open().name == one.name
    with pytest.raises(ConfigError, match="'sigma' is not a formula; write y ~ terms"):
        Program.from_formula(["y ~ x", "sigma"], frame)


def test_names_of_groups_do_not_collide_with_tagged_names():
    frame = simulated(num=60).rename(columns={"g": "b_sigma"})
    frame["g_sigma"] = frame["g"] = frame["b_sigma"]
    frame["other"] = np.where(frame.f == "a", frame.g, "z")
    formula = "y ~ x + (1 | b_sigma); sigma ~ w + (1 | other)"
    text = Program.from_formula(formula, frame).source.text
    assert "r_b_sigma_group" in text
    frame["g_sigma"] = [f"h{i % 7}" for i in range(60)]
    text = Program.from_formula("y ~ (1 | g) + (1 | g_sigma); sigma ~ (1 | g)", frame).source.text
    assert "r_g_sigma_group[g_sigma_group]" in text
    assert "r_g_sigma[g]" in text


def test_a_group_of_two_predictors_has_one_index(fit):
    text = fit.program.source.text
    assert text.count("array[N] int<lower=1, upper=N_g> g;") == 1
    assert "r_g[g]" in text
    assert "r_g_sigma[g]" in text
    assert fit.model.groups == {"g": "g"}


def test_sigma_has_no_prior_of_its_own(fit):
    assert "sigma_scale" not in fit.program.declaration.priors
    assert fit.program.declaration.priors["b_sigma_scale[w]"].value == pytest.approx(1, abs=0.05)
    assert fit.program.declaration.priors["sd_g_sigma_scale"].value == 1


def test_the_prior_follows_the_unit_of_the_response():
    """A response in another unit moves the prior of the log of sigma, and nothing else of it."""
    frame = simulated(num=100)
    frame["mm"] = 1000 * frame.y
    numbers = [
        Program.from_formula(f"{y} ~ x; sigma ~ w", frame).declaration.priors for y in ("y", "mm")
    ]
    location, scale = (
        [each[f"Intercept_sigma_{name}"].value for each in numbers]
        for name in ("location", "scale")
    )
    assert location[1] - location[0] == pytest.approx(np.log(1000), abs=0.01)
    assert scale == [2.5, 2.5]


# Effects and predictions of a parameter


def test_predictions_of_a_parameter_are_its_definition(fit):
    draws = fit.draws
    rows = pd.DataFrame({"w": [0.3, -1.2], "g": ["g3", "g7"]})  # without the columns of eta
    g = [list(fit.data.labels["g"].names).index(name) for name in rows.g]
    own = draws["Intercept_sigma"][..., None] + draws["b_sigma"] * np.array(rows.w)
    own_groups = own + draws["r_g_sigma"][..., g]
    found = pyflowers.predict(fit, rows, parameter="sigma").draws().values
    assert np.abs(found / np.exp(own_groups) - 1).max() < 1e-10
    linear = pyflowers.predict(fit, rows, parameter="sigma", kind="linear").draws().values
    assert np.abs(linear - own_groups).max() < 1e-10
    typical = pyflowers.predict(fit, rows, parameter="sigma", groups="none").draws().values
    assert np.abs(typical / np.exp(own) - 1).max() < 1e-10
    whole = pyflowers.predict(fit, rows, parameter="sigma", groups="population").draws().values
    variance = draws["sd_g_sigma"][..., 0] ** 2
    assert np.abs(whole / np.exp(own + variance[..., None] / 2) - 1).max() < 1e-10
    text = str(pyflowers.predict(fit, rows, parameter="sigma"))
    assert "\nsigma of 2 rows of" in text


def test_effects_on_a_parameter(fit):
    found = pyflowers.effects(fit, parameter="sigma", scale="ratio", groups="data")
    assert list(found.table().index) == [("w", "+ 1")]
    draws, table = fit.draws, fit.data.table
    own = np.exp(
        draws["Intercept_sigma"][..., None]
        + draws["b_sigma"] * np.array(table.numbers("w"))
        + draws["r_g_sigma"][..., np.asarray(fit.data["g"]) - 1]
    ).mean(axis=-1)
    ratio = np.exp(draws["b_sigma"][..., 0])
    assert np.abs(found.draws().values[..., 0] / ratio - 1).max() < 1e-10
    assert (own > 0).all()
    assert "ratio of the average sigma, over 400 rows" in str(found)
    mean = pyflowers.effects(fit)  # w changes nothing of the expected response
    assert set(mean.table().index.get_level_values("column")) == {"x", "z"}


def test_effects_and_predictions_refuse_other_parameters(fit):
    for call, message in [
        ({"parameter": "nu"}, "family gaussian has no such parameter; choose sigma"),
        ({"parameter": 3}, "parameter must be a name such as 'sigma', got 3"),
    ]:
        with pytest.raises(ConfigError, match=message):
            pyflowers.effects(fit, **call)
        with pytest.raises(ConfigError, match=message):
            pyflowers.predict(fit, **call)
    with pytest.raises(ConfigError, match="kind 'observation' applies only to the response, not"):
        pyflowers.predict(fit, kind="observation", parameter="sigma")
    with pytest.raises(ConfigError, match="scale 'odds ratio' applies only to the"):
        pyflowers.effects(fit, scale="odds ratio", parameter="sigma")
    with pytest.raises(ConfigError, match=r"'x' is not a covariate of sigma of y ~ .*; its covari"):
        pyflowers.effects(fit, "x", parameter="sigma")


def test_a_parameter_without_terms_can_be_predicted():
    frame = simulated(num=60)
    fit = pyflowers.fit("y ~ x", frame, seed=1, engine="stanli", draws=100)
    found = pyflowers.predict(fit, frame.head(3), parameter="sigma").draws().values
    assert np.array_equal(found, np.repeat(fit.draws["sigma"][..., None], 3, axis=-1))
    message = "sigma of y ~ x has no covariates .*; add a covariate to its formula, as in sigma ~ x"
    with pytest.raises(ConfigError, match=message):
        pyflowers.effects(fit, parameter="sigma")


def test_the_mean_is_integrated_over_the_effects_on_zi():
    frame = of_families()
    program = Program.from_formula(
        "count ~ x + (1 | g); zi ~ w + (1 | g)", frame, family="zero_inflated_poisson"
    )
    fit = pyflowers.fit(program, frame, seed=1, engine="stanli", warmup=200, draws=50, chains=1)
    rows, draws = pd.DataFrame({"x": [0.2], "w": [-0.4]}), fit.draws
    found = pyflowers.predict(fit, rows, groups="population").draws().values[..., 0]
    rng = np.random.default_rng(1)
    z = rng.standard_normal((2, 40_000))
    eta = draws["Intercept"] + draws["b"][..., 0] * 0.2
    zi = draws["Intercept_zi"] + draws["b_zi"][..., 0] * -0.4
    rate = np.exp(eta + 0.5 * draws["sd_g"][..., 0] ** 2)
    counts = 1 / (1 + np.exp(zi[..., None] + draws["sd_g_zi"] * z[0]))
    error = rate * counts.std(axis=-1) / 200
    assert (np.abs(found - rate * counts.mean(axis=-1)) < 5 * error).all()
    assert (error < 0.05 * found).all()


def test_an_infinite_mean_is_refused():
    frame = of_families()
    program = Program.from_formula("pos ~ x; sigma ~ w + (1 | g)", frame, family="lognormal")
    fit = pyflowers.fit(program, frame, seed=1, engine="stanli", warmup=100, draws=20, chains=1)
    with pytest.raises(ConfigError, match="the expected response of family lognormal is infinite"):
        pyflowers.predict(fit, groups="population").table()


def assert_same_density(path, data):
    """Compare the log density and its gradient, of which a program may omit a constant."""
    compiled = StanDensity(path, data, engine="compiled")
    interpreted = StanDensity(path, data, engine="interpreted")
    points = compiled.start(np.random.default_rng(1), 50, radius=1.0)
    values, gradients = zip(
        *(density.log_density_gradient(points) for density in (compiled, interpreted)), strict=True
    )
    assert np.allclose(*values, rtol=1e-10, atol=0)
    scale = np.abs(gradients[0]).max(axis=1, keepdims=True)
    assert (np.abs(gradients[0] - gradients[1]) <= 1e-10 * scale).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family"), [PROGRAMS[1], PROGRAMS[3], PROGRAMS[5], PROGRAMS[9]]
)
def test_both_engines_have_the_same_density(formula, family, tmp_path):
    frame = of_families()
    program = Program.from_formula(formula, frame, family=family)
    path = program.write(tmp_path / "program.stan")
    data, _ = program.fill(program.read(frame), program.resolve_priors())
    assert_same_density(path, program.stan_values(data))


@pytest.mark.slow
def test_unequal_spread_of_orthodont_is_that_of_nlme():
    """Compare with lme and varIdent; published.R prints its numbers."""
    frame = pd.read_csv(Path(__file__).parent / "data" / "Orthodont.csv")
    formula = "distance ~ age * Sex + (1 | Subject); sigma ~ Sex"
    fit = pyflowers.fit(formula, frame, seed=1, engine="stanli", warmup=1000, draws=2000)
    summary, draws = fit.summary(), fit.draws
    assert (summary["r_hat"] < 1.02).all()
    # Levels are sorted, so Female is the reference here; nlme's is Male.
    male = draws["b"][
        ..., list(summary.index[summary.index.str.startswith("b[")]).index("b[SexMale]")
    ]
    slope = draws["b"]
    ours = {
        "intercept of males": draws["Intercept"] + male,
        "ratio of sds": np.exp(-draws["b_sigma"][..., 0]),
        "sigma of males": np.exp(draws["Intercept_sigma"] + draws["b_sigma"][..., 0]),
        "sd of subjects": draws["sd_Subject"][..., 0],
    }
    names = [name for name in summary.index if name.startswith("b[")]
    ours["slope of males"] = (
        slope[..., names.index("b[age]")] + slope[..., names.index("b[age:SexMale]")]
    )
    theirs = {  # estimate and standard error; those of sds by the delta method from their logs
        "intercept of males": (16.34062, 1.14509),
        "slope of males": (0.7843750, 0.0933459),
        "ratio of sds": (0.4678944, 0.4678944 * 0.02607368**0.5),
        "sigma of males": (1.669823, 1.669823 * 0.01038245**0.5),
        "sd of subjects": (1.847570, 1.847570 * 0.02493277**0.5),
    }
    for name, (estimate, error) in theirs.items():
        combined = np.hypot(error, ours[name].std())
        assert abs(np.median(ours[name]) - estimate) < 4 * combined, name
        assert abs(np.median(ours[name]) - estimate) < combined, name  # in fact much nearer
    assert abs(np.median(ours["ratio of sds"]) - 1) > 3 * ours["ratio of sds"].std()


FOR_CALIBRATION = [
    "Intercept ~ normal(0, 2)",
    "b ~ normal(0, 1)",
    "sd ~ exponential(1)",
    "Intercept_sigma ~ normal(0, 0.5)",
    "b_sigma ~ normal(0, 0.5)",
    "sd_sigma ~ exponential(2)",
]
"""With the default priors, some simulations have spreads of many orders of magnitude, from which
chains of this length do not converge."""


@pytest.mark.campaign
def test_sigma_with_group_effects_is_calibrated(tmp_path):
    x = np.tile(np.linspace(-1.5, 1.5, 8), 12)
    frame = pd.DataFrame({"x": x, "g": np.repeat([f"g{i}" for i in range(12)], 8)})
    frame["y"] = 1 + x + np.random.default_rng(7).normal(size=96)
    found = pyflowers.sbc(
        "y ~ x + (1 | g); sigma ~ x + (1 | g)",
        frame,
        sims=300,
        chains=1,
        warmup=500,
        draws=500,
        priors=FOR_CALIBRATION,
        engine="stanli",
        seed=11,
        out=tmp_path / "sbc",
    )
    assert not found.failed


@pytest.mark.parametrize(
    ("formula", "family", "prior"),
    [
        ("y ~ x; sigma ~ w", "gaussian", "student_t_lpdf(Intercept_sigma_at_means | 3, "),
        (
            "count ~ x; zi ~ w",
            "zero_inflated_poisson",
            "logistic_lpdf(Intercept_zi_at_means | 0, 1)",
        ),
        ("heavy ~ x; nu ~ 1", "student", "normal_lpdf(Intercept_nu | 2.7, 0.8)"),
    ],
)
def test_the_default_priors_of_brms(formula, family, prior):
    frame = of_families()
    program = Program.from_formula(formula, frame, family=family, default_priors="brms")
    assert prior in program.source.text
    numbers = program.declaration.priors
    assert not any(name.startswith("b_") for name in numbers)
    if "sigma ~" in formula:
        assert numbers["Intercept_sigma_location"].value == 0
        assert numbers["Intercept_sigma_scale"].value == 2.5


def test_advice_keeps_the_formulas_of_other_parameters():
    assert with_terms("y ~ 1 + (1 | g); sigma ~ w", ["x"]) == "y ~ x + (1 | g); sigma ~ w"
