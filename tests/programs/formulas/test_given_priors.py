"""Priors that a user gives as distributions: their text, their programs and their draws."""

import json
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from command_line import run
from scipy import stats
from test_density import interpreted
from test_parameters import simulated

import pyflowers
from pyflowers import Program
from pyflowers.errors import ConfigError
from pyflowers.fits.commands import inputs_of, shell_words
from pyflowers.fits.diagnostics import examine_prior
from pyflowers.programs.densities import read_stated

pytestmark = pytest.mark.usefixtures("in_a_shell")

FRAME = simulated(num=80)
GIVEN = {
    "b": "normal(0, 1)",
    "b[z]": "normal(0, 1) T[0, ]",
    "Intercept": "normal(2, 1)",
    "sd_g[x]": "gamma(2, 4)",
    "cor_g[Intercept,x]": "normal(0.3, 0.3)",
    "b_sigma": "double_exponential(0, 1)",
}
FORMULA = "y ~ x + z + w + (x | g); sigma ~ w"


# The joint density


def points(seed, num=20):
    """Yield parameters of FORMULA."""
    rng = np.random.default_rng(seed)
    for _ in range(num):
        point = {
            "Intercept": rng.normal(1, 1),
            "b": rng.normal(1, 0.5, 3),
            "Intercept_sigma": rng.normal(0, 0.5),
            "b_sigma": rng.normal(0.5, 0.3, 1),
            "sd_g": rng.gamma(2, 0.5, 2),
            "cor": rng.uniform(-0.9, 0.9),
            "z": rng.normal(size=(2, 16)),
        }
        point["b"][1] = abs(point["b"][1])
        yield point


def in_order(point):
    """Return a point as the program samples it, column by column."""
    r = point["cor"]
    factor = [[1.0, 0.0], [r, np.sqrt(1 - r**2)]]
    parts = [point[name] for name in ("Intercept", "b", "Intercept_sigma", "b_sigma", "sd_g")]
    parts += [factor, point["z"]]
    return np.concatenate([np.ravel(each, order="F") for each in parts])


def log_density(point, numbers, frame, *, given):
    """Return the log joint density of FORMULA by its definition, at the covariates' means."""
    x, z, w = (frame[name] - frame[name].mean() for name in "xzw")
    r, sd = point["cor"], point["sd_g"]
    factor = np.diag(sd) @ [[1.0, 0.0], [r, np.sqrt(1 - r**2)]]
    effects = (factor @ point["z"]).T
    g = [int(name[1:]) for name in frame.g]
    order = pd.Series(g).drop_duplicates().tolist()
    g = [order.index(each) for each in g]
    eta = point["Intercept"] + np.stack([x, z, w], axis=1) @ point["b"]
    eta = eta + effects[g, 0] + effects[g, 1] * frame.x
    sigma = np.exp(point["Intercept_sigma"] + point["b_sigma"][0] * w)
    total = stats.norm.logpdf(frame.y, eta, sigma).sum() + stats.norm.logpdf(point["z"]).sum()
    total += stats.t.logpdf(
        point["Intercept_sigma"],
        3,
        numbers["Intercept_sigma_location"].value,
        numbers["Intercept_sigma_scale"].value,
    )
    if not given:
        return total + log_default_priors(point, numbers)
    total += stats.norm.logpdf(point["Intercept"], 2, 1)
    total += stats.norm.logpdf(point["b"]).sum() + stats.laplace.logpdf(point["b_sigma"]).sum()
    total += stats.t.logpdf(sd[0], 3, 0, numbers["sd_g_scale[Intercept]"].value)
    return total + stats.gamma.logpdf(sd[1], 2, scale=1 / 4) + stats.norm.logpdf(r, 0.3, 0.3)


def log_default_priors(point, numbers):
    number = {name: its.value for name, its in numbers.items()}
    total = stats.t.logpdf(
        point["Intercept"], 3, number["Intercept_location"], number["Intercept_scale"]
    )
    scales = [number[f"b_scale[{name}]"] for name in "xzw"]
    total += stats.norm.logpdf(point["b"], 0, scales).sum()
    total += stats.norm.logpdf(point["b_sigma"], 0, number["b_sigma_scale[w]"]).sum()
    for sd, name in zip(point["sd_g"], ("Intercept", "x"), strict=True):
        total += stats.t.logpdf(sd, 3, 0, number[f"sd_g_scale[{name}]"])
    return total + (number["cor_g_eta"] - 1) * np.log(1 - point["cor"] ** 2)


@pytest.mark.parametrize("given", [GIVEN, None], ids=["given", "default"])
def test_the_log_joint_density_is_its_definition(given):
    """The points differ by what the definition says; of a wrong definition they do not."""
    program = Program.from_formula(FORMULA, FRAME, priors=given, centered=False)
    data, _ = program.fill(program.read(FRAME), program.resolve_priors())
    density, chosen = interpreted(program, data), list(points(3))
    values = np.array([in_order(point) for point in chosen])
    found, _ = density.evaluate(density.unconstrain(values), False)
    jacobian = [
        np.log(its["sd_g"]).sum()
        + np.log(1 - its["cor"] ** 2)
        + (np.log(its["b"][1]) if given else 0.0)
        for its in chosen
    ]
    numbers = program.declaration.priors
    expected = [log_density(its, numbers, FRAME, given=bool(given)) for its in chosen]
    apart = found - jacobian - expected
    assert np.ptp(apart) < 1e-9 * np.abs(expected).max()
    wrong = [log_density(its, numbers, FRAME.assign(w=0.0), given=bool(given)) for its in chosen]
    assert np.ptp(found - jacobian - wrong) > 1


# The program


def statements(program):
    return [
        line.strip() for line in program.source.text.splitlines() if line.startswith("  lprior +=")
    ]


def test_the_program_has_the_priors_as_a_person_would_write_them():
    program = Program.from_formula(FORMULA, FRAME, priors=GIVEN)
    assert statements(program) == [
        "lprior += normal_lpdf(Intercept_at_means | 2, 1);",
        "lprior += normal_lpdf(b[{1, 3}] | 0, 1);",
        "lprior += normal_lpdf(b[2] | 0, 1);",
        "lprior += student_t_lpdf(Intercept_sigma_at_means | 3, Intercept_sigma_location, "
        "Intercept_sigma_scale);",
        "lprior += double_exponential_lpdf(b_sigma | 0, 1);",
        "lprior += student_t_lpdf(sd_g[1] | 3, 0, sd_g_scale);",
        "lprior += gamma_lpdf(sd_g[2] | 2, 4);",
        "lprior += normal_lpdf(L_g[2, 1] | 0.3, 0.3);",
    ]
    assert "b_scale[x]" not in program.declaration.priors
    assert "vector<lower=b_lower>[K] b;" in program.source.text
    assert program.declaration.formula.given == GIVEN


CASES = [
    ("y ~ x + (1 | g)", {"sigma": "constant(1)"}, "sigma = 1"),
    ("y ~ x + (x | g)", {"sd_g": "constant(0.5)"}, "sd_g[x] = 0.5"),
    ("y ~ x + (x | g)", {"cor": "lkj(5)"}, "cor_g_eta = 5"),
    ("y ~ x + (x | g)", {"cor_g[Intercept,x]": "constant(0.4)"}, "cor_g[Intercept,x] = 0.4"),
    ("y ~ x + z + (x | g)", {"b[x]": "constant(-0.5)"}, ""),
    ("y ~ x + z", {"b": "constant(0)", "b[x]": "normal(0, 1) T[0, ]"}, ""),
    ("y ~ x + I(x**2) + z", {"b[z]": "constant(2)"}, ""),
    ("y ~ x + z", {"b[x]": "uniform(0, 3)", "sigma": "normal(0, 1) T[0.5, 4]"}, ""),
    ("y ~ x + I(x**2) + z", {"b[x]": "normal(2, 1)"}, ""),
    ("y ~ x", {"b": "std_normal()", "Intercept": "uniform(-5, 5)", "sigma": "weibull(2, 1)"}, ""),
    ("y ~ 0 + f + x", {"b[fa]": "logistic(0, 1)", "b[x]": "cauchy(0, 1)"}, ""),
    ("y ~ x + (1 | g)", {"sd_g[Intercept]": "normal(0, 1) T[0.1, ]"}, ""),
]


@pytest.mark.parametrize(("formula", "given", "fixed"), CASES)
def test_priors_of_each_kind(formula, given, fixed, cmdstan, tmp_path):
    """The program is valid, samples, and draws the prior that it states, also when read again."""
    program = Program.from_formula(formula, FRAME, priors=given)
    path = program.write(tmp_path / "program.stan")
    stanc = [cmdstan.path / "bin" / "stanc", "--auto-format", path]
    checked = subprocess.run(stanc, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    lines = [line for line in checked.stdout.splitlines() if line.strip()]
    assert lines == program.source.text.splitlines()
    numbers = [f"{name} = {its.value:g}" for name, its in program.declaration.priors.items()]
    assert not fixed or fixed in numbers
    how = {"seed": 1, "engine": "stanli", "warmup": 200, "draws": 100}
    fit = pyflowers.fit(program, FRAME, **how)
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    assert examine_prior(fit.model, fit.summary(), fit.draws).checks
    drawn = pyflowers.prior(program, FRAME, draws=300, seed=2).draws
    again = pyflowers.prior(Program.open(path), FRAME, draws=300, seed=2).draws
    for name, draws in drawn.items():
        assert np.array_equal(draws, again[name]), name
    for element, text in program.declaration.formula.stated.items():
        name, _, place = element.partition("[")
        if name not in drawn or name in ("Intercept", "cor_g"):
            continue
        own = drawn[name].ravel() if not place else drawn[name][..., int(place[:-1]) - 1].ravel()
        if text.startswith("constant("):
            assert (own == float(text[9:-1])).all()
            continue
        lower = 0.0 if name.startswith(("sd_", "sigma")) else None
        quantile = read_stated(element, text).density(lower).quantile
        assert stats.kstest(own, np.vectorize(lambda x: inverse(quantile, x))).pvalue > 1e-4  # noqa: B023


def inverse(quantile, value):
    """Return the probability below a value, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if quantile(middle) < value:
            low = middle
        else:
            high = middle
    return low


def test_informative_priors_move_the_posterior():
    how = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 300}
    fit = pyflowers.fit("y ~ x + z", FRAME, priors=["b[x] ~ normal(-3, 0.05)"], **how)
    summary = fit.summary()
    assert abs(summary["mean"]["b[x]"] + 3) < 0.5
    assert not fit.verdict.prior.passed
    text = str(fit.verdict.prior)
    assert "with --prior 'b[x] ~ …'" in text
    bounded = pyflowers.fit("y ~ x + z", FRAME, priors={"b[z]": "normal(0, 1) T[ , 0]"}, **how)
    assert (bounded.draws["b"][..., 1] <= 0).all()


def test_old_numbers_keep_working_beside_densities():
    how = {"seed": 1, "engine": "stanli", "warmup": 50, "draws": 50}
    priors = {"b[x]": "normal(0.5, 0.2)", "b_scale[z]": 1, "sd_g_scale": 3}
    fit = pyflowers.fit("y ~ x + z + (1 | g)", FRAME, priors=priors, **how)
    assert fit.record.priors["b_scale[z]"] == 1
    assert fit.record.priors["sd_g_scale"] == 3
    assert "b_scale[x]" not in fit.record.priors


def test_a_program_that_is_written_takes_no_densities():
    program = Program.from_formula("y ~ x", FRAME, priors={"sigma": "normal(0, 1)"})
    assert pyflowers.Spec(program, FRAME, priors={"sigma": "normal(0,1)"}).open() is program
    program.resolve_priors({"sigma": "normal(0,1)"})  # the one that it has
    with pytest.raises(ConfigError, match=r"sigma ~ normal\(0, 2\): y ~ x.* has already been"):
        program.resolve_priors({"sigma": "normal(0, 2)"})
    message = (
        "a density can be given only for a formula; in iid_normal, set the prior of mu with mu_mean"
    )
    with pytest.raises(ConfigError, match=rf"^prior mu ~ normal\(0, 2\): {message} and mu_sd$"):
        pyflowers.fit("iid_normal", priors=["mu ~ normal(0, 2)"], engine="stanli")


# What is refused

FORMULA_OF_BAD = "y ~ x + (x | g); sigma ~ w"
BAD = [
    ("b[q]", "normal(0, 1)", "the formula has no b[q]; did you mean b[x]?"),
    ("beta", "normal(0, 1)", "the formula has no beta; "),
    ("sigma", "normal(0, 1)", "the formula has no sigma; "),
    ("sd_h", "normal(0, 1)", "the formula has no sd_h; did you mean sd_g?"),
    ("b", "nromal(0, 1)", "nromal is not one of the densities that can be stated; did you mean"),
    ("b", "normal(0)", "normal takes 2 arguments, got 1"),
    ("b", "normal()", "normal takes 2 arguments, got 0"),
    ("b", "normal(0, 0)", "argument 2 of normal must be above 0, got 0"),
    ("b", "normal(0, -1)", "argument 2 of normal must be above 0, got -1"),
    ("b", "student_t(0, 0, 1)", "argument 1 of student_t must be above 0, got 0"),
    ("b", "normal(0, sd(y))", "write a density with numbers, such as normal(0, 1)"),
    ("b", "normal(0, tau)", "write a number below 1e100 instead of 'tau'"),
    ("b", "normal(0, inf)", "write a number below 1e100 instead of 'inf'"),
    ("b", "normal(0, 1e300)", "write a number below 1e100 instead of '1e300'"),
    ("b", "normal(0, 1) T[1, 0]", "no value lies between the bounds; correct them"),
    ("b", "normal(0, 1) T[a, ]", "write a number below 1e100 instead of 'a'"),
    ("b", "uniform(2, 1)", "the first bound of uniform must be below the second"),
    ("b", "lkj(2)", "lkj(…) is a prior for the correlations of a group; give b a density"),
    ("cor", "normal(0, 1)", "correlations have the prior lkj(…); write cor ~ lkj(2)"),
    ("cor_g[Intercept,x]", "beta(2, 2)", "a correlation lies between -1 and 1, and its density"),
    ("cor", "lkj(0)", "argument 1 of lkj must be above 0, got 0"),
    ("cor", "lkj(2) T[0, ]", "lkj cannot be truncated; leave T[0, ] out"),
    ("b[x]", "constant(x)", "write a number below 1e100 instead of 'x'"),
    ("b[x]", "constant(1) T[0, ]", "constant cannot be truncated; leave T[0, ] out"),
    ("b[x]", "constant()", "constant takes 1 argument, got 0"),
    ("sd_g[x]", "constant(0)", "sd_g[x] must be above 0; give another value"),
    ("sd_g", "constant(-1)", "must be above 0; give another value"),
    ("cor_g[Intercept,x]", "constant(1)", "cor_g[Intercept,x] must be below 1; give another"),
    ("cor_g[Intercept,x]", "constant(-1)", "cor_g[Intercept,x] must be above -1; give another"),
    ("sd_g", "uniform(-2, -1)", "must be above 0, where this density is 0; give"),
    ("b", "", "write a density with numbers"),
    ("b", "normal(0, 1); } print(1", "write a density with numbers"),
    ("b", "normal(0, 1));\n target += 1; //", "write a density with numbers"),
    ("b", "normal(0, __import__('os').getpid())", "write a density with numbers"),
    ("b", "normal(0, 1)\n#include x.stan", "write a density with numbers"),
    ("b", "normal(0, 1) // comment", "write a density with numbers"),
    ("b", "normal(0, ١)", "write a density with numbers"),
    ("b", "normal(0, 1) T[0, exec(1)]", "write a number below 1e100 instead of 'exec(1)'"),
    ("b", "reject(1)", "reject is not one of the densities that can be stated"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_prior_is_one_sentence_with_a_remedy(name, text, message):
    with pytest.raises(ConfigError) as caught:
        Program.from_formula(FORMULA_OF_BAD, FRAME, priors={name: text})
    said = str(caught.value)
    assert said.startswith(f"prior {name} ~ {text}: ")
    assert message in said
    assert not said.endswith(".")


def test_a_list_of_priors_names_what_has_them():
    for bad in ("normal(0, 1)", "b ~", "~ normal(0, 1)", 3):
        with pytest.raises(ConfigError, match="write a name, ~ and a density"):
            Program.from_formula("y ~ x", FRAME, priors=[bad])


# The table


def test_the_table_of_priors():
    program = Program.from_formula(FORMULA, FRAME, priors=GIVEN)
    table = program.priors
    assert table.loc["b[z]", ["prior", "default"]].tolist() == ["normal(0, 1) T[0, ]", "no"]
    assert table.loc["b[z]", "95%"] == pytest.approx(stats.halfnorm.ppf(0.95), rel=1e-6)
    assert table.loc["sd_g[Intercept]", "default"] == "yes"
    words = table["on the response's scale"]
    assert words["b_sigma[w]"] == "changes sigma by a factor of 0.1 to 10"
    assert words["Intercept"] == "expected y from 0.355 to 3.64"
    assert words["Intercept_sigma"].startswith("sigma from ")
    counts = FRAME.assign(n=np.arange(80) % 7)
    table = Program.from_formula("n ~ x", counts, family="negbinomial").priors
    low, high = stats.norm.ppf([0.05, 0.95], scale=2.5 / counts.x.std())
    text = f"changes expected n by a factor of {np.exp(low):.3g} to {np.exp(high):.3g}"
    assert words_match(table.loc["b[x]", "on the response's scale"], text)
    correlated = Program.from_formula("y ~ x + (x | g)", FRAME, priors=["cor ~ lkj(4)"]).priors
    assert correlated.loc["cor_g", ["prior", "default"]].tolist() == ["lkj(4)", "no"]
    assert correlated.loc["cor_g", "95%"] == pytest.approx(2 * stats.beta.ppf(0.95, 4, 4) - 1)


def test_the_table_has_the_priors_of_thresholds_and_of_shares():
    """Their elements have no prior each, so there are no quantiles."""
    frame = FRAME.assign(rating=np.arange(80) % 4 + 1, level=np.arange(80) % 3)
    given = ["threshold ~ normal(0, 3)"]
    for terms, priors, row in (
        ("x", None, ["student_t(3, 0, 2.5)", "yes"]),
        ("1", None, ["student_t(3, 0, 2.5)", "yes"]),
        ("x", given, ["normal(0, 3)", "no"]),
    ):
        formula = f"rating ~ {terms} + mo(level)"
        program = Program.from_formula(formula, frame, family="cumulative", priors=priors)
        table = program.priors
        assert table.loc["threshold", ["prior", "default"]].tolist() == row
        assert table.loc["share_level", ["prior", "default"]].tolist() == ["dirichlet(1, 1)", "yes"]
        assert table.loc[["threshold", "share_level"], ["5%", "95%"]].isna().all(axis=None)
        assert table.index.is_unique


def words_match(found, expected):
    """Whether two sentences are equal but for the last digit of numbers."""
    ours, theirs = (
        [*map(float, its.split("factor of ")[1].split(" to "))] for its in (found, expected)
    )
    return np.allclose(ours, theirs, rtol=0.02)


def test_the_command_lists_priors(tmp_path, capsys):
    file = tmp_path / "rows.csv"
    FRAME.to_csv(file, index=False)
    given = ["--prior", "b[x] ~ normal(0.5, 0.2)"]
    assert run("prior", "y ~ x + (1 | g)", file, "--list", "--json", *given) == 0
    rows = {row["parameter"]: row for row in json.loads(capsys.readouterr().out)["priors"]}
    assert rows["b[x]"]["prior"] == "normal(0.5, 0.2)"
    assert rows["Intercept"]["default"] == "yes"
    assert run("prior", "y ~ x + (1 | g)", file, "--list", *given) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^b\[x\] +normal\(0\.5, 0\.2\) +0\.171 +0\.829 +no", shown, re.MULTILINE)
    assert "  b[x]: effects on expected y: x; changes expected y by 0.171 to 0.829\n" in shown


def test_a_refit_repeats_the_given_priors(tmp_path):
    file = tmp_path / "rows.csv"
    FRAME.to_csv(file, index=False)
    how = {"seed": 1, "engine": "stanli", "warmup": 50, "draws": 50}
    fit = pyflowers.fit("y ~ x", file, priors={"b[x]": "normal(0.5, 0.2)"}, **how)
    fit.save(tmp_path / "run")
    back = pyflowers.Fit.load(tmp_path / "run")
    assert back.program.declaration.formula.given == {"b[x]": "normal(0.5, 0.2)"}
    words = shell_words(inputs_of(back))
    assert "b[x] ~ normal(0.5, 0.2)" in words


@pytest.mark.parametrize("how", ["", "gr(g, dist=student)"])
def test_group_terms_with_options_draw_given_sds(how):
    formula = f"y ~ x + (1 | {how or 'g'})"
    program = Program.from_formula(formula, FRAME, priors=["sd ~ uniform(2, 3)"])
    sd = pyflowers.prior(program, FRAME, draws=200, seed=1).draws["sd_g"]
    assert 2 <= sd.min() < 2.1 < 2.9 < sd.max() <= 3
    fixed = Program.from_formula(formula, FRAME, priors=["sd ~ constant(2)"])
    draws = pyflowers.prior(fixed, FRAME, draws=200, seed=1).draws
    assert "sd_g" not in draws
    assert 1.5 < np.median(np.abs(draws["r_g"])) / 0.6745 < 2.7


def test_the_engine_exact_names_the_parameter_that_is_fixed():
    with pytest.raises(ConfigError, match="does not support the fixed sigma; leave"):
        pyflowers.fit("y ~ x + (1 | g)", FRAME, priors=["sigma ~ constant(1)"], engine="exact")


def test_a_fixed_correlation_is_that_of_new_and_of_prior_effects():
    program = Program.from_formula(
        "y ~ x + (x | g)", FRAME, priors={"cor_g[Intercept,x]": "constant(0.4)"}
    )
    prior = pyflowers.prior(program, FRAME, draws=4000, seed=1).draws
    assert "cor_g" not in prior
    effects = prior["r_g"][0] / prior["sd_g"][0][:, None]
    assert abs(np.corrcoef(effects[:, 0].T)[0, 1] - 0.4) < 0.06
    how = {"seed": 1, "engine": "stanli", "warmup": 300, "draws": 1000}
    fit = pyflowers.fit(program, FRAME, **how)
    new = pd.DataFrame({"x": [0.0, 1.0], "g": "new"})
    drawn = fit.predict(new, kind="linear").draws().values
    slope = drawn[..., 1] - drawn[..., 0] - fit.draws["b"][..., 0]
    z = [drawn[..., 0] - fit.draws["Intercept"], slope] / np.moveaxis(fit.draws["sd_g"], -1, 0)
    assert abs(np.corrcoef(z.reshape(2, -1))[0, 1] - 0.4) < 0.06
