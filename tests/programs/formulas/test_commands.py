"""Formulas with every command, unedited and after an edit."""

import itertools
import json
import tomllib
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from formula_cases import CASES, table

import pyflowers
from pyflowers import Fit, Program
from pyflowers.data.table import from_frame
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs import Capability
from pyflowers.programs.families import family_names, find_family
from pyflowers.programs.formulas.checks import check_design
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.priors import BRMS, PYFLOWERS
from pyflowers.resources import flowers_csv

pytestmark = pytest.mark.usefixtures("in_a_shell")

COMMANDS = ("check", "loo", "sensitivity", "replay", "predict", "effects")
QUICK_CASES = ("slopes", "zinb")
COMPILED = ("crossed_slopes", "cumulative", "binomial")
"""The cases that are compiled in the slow tests; scripts/check-engine compiles the others."""
LONG = [
    *("factor_by_numeric", "cell_means", "poly", "nested", "crossed_slopes", "factor_in_group"),
    *("student", "lognormal", "gamma", "beta", "bernoulli", "binomial", "poisson", "cumulative"),
    *("slopes", "zinb"),
]
HOW = ("--chains", 2, "--warmup", 300, "--draws", 300, "--seed", 1)


@pytest.fixture(scope="module")
def frame_csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "table.csv"
    table().to_csv(path, index=False)
    return path


def named(name):
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        (name, engine)
        if name in QUICK_CASES and engine == "stanli"
        else pytest.param(
            *(name, engine),
            marks=[pytest.mark.slow]
            if engine == "stanli" or name in COMPILED
            else [pytest.mark.density],
        )
        for name, engine in itertools.product(LONG, ("stanli", "cmdstan"))
    ],
)
def test_every_command_takes_a_formula(name, engine, frame_csv, tmp_path, capfd):
    case, out = named(name), tmp_path / "run"
    what = (case.formula, "--family", case.family, "--data", frame_csv, "--engine", engine)
    assert run("fit", *what, "--out", out, *HOW) == 0
    capfd.readouterr()
    fit = Fit.load(out)
    assert fit.record.program.reference == case.formula
    assert {Capability.LOG_LIK, Capability.Y_REP, Capability.LPRIOR} <= fit.program.capabilities
    for command in COMMANDS:
        status = run(command, out, "--json")
        printed = capfd.readouterr()
        assert status in (0, 3), (command, printed.err)
        assert printed.err == "", (command, printed.err)
        assert json.loads(printed.out)
    drawn = ("--draws", 200, "--seed", 1, "--json")
    assert run("prior", case.formula, "--family", case.family, "--data", frame_csv, *drawn) == 0
    assert json.loads(capfd.readouterr().out)
    first = next(
        name for name in fit.summary().index if name.startswith(("b[", "Intercept", "thr"))
    )
    assert run("contrast", out, f"{first} > 0") == 0
    assert run("report", out, "--out", tmp_path / "report.html") == 0
    # The program in a file gives the same draws, and so does an edited program.
    program = tmp_path / "mine.stan"
    assert run("new", program, case.formula, "--family", case.family, "--data", frame_csv) == 0
    again = pyflowers.fit(program, frame_csv, engine=engine, **options_of(fit))
    assert all(np.array_equal(again.draws[name], its) for name, its in fit.draws.items())
    program.write_text(program.read_text() + "// edited\n")
    edited = pyflowers.fit(program, frame_csv, engine=engine, **options_of(fit))
    assert not edited.model.evaluates
    theirs = edited.draws["log_lik"]
    np.testing.assert_allclose(fit.program.log_lik(edited.draws, fit.data), theirs, rtol=1e-7)
    pyflowers.check(edited)
    capfd.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_many_fits_and_other_methods_take_a_formula(name, frame_csv, tmp_path, capfd):
    case = named(name)
    what = (case.formula, "--family", case.family, "--data", frame_csv)
    of_stanli = ("--engine", "stanli", "--seed", 1)
    out = tmp_path / "compared"
    assert run("compare", *what, *of_stanli, "--out", out) in (0, 3)
    assert len(pd.read_csv(out / "table.csv")) > 0
    assert run("sbc", *what, *of_stanli, "--sims", 4, "--out", tmp_path / "sbc") in (0, 3)
    (tmp_path / "batch.toml").write_text(
        f"models = [{json.dumps(case.formula)}]\nfamily = '{case.family}'\n"
        f"data.file = '{frame_csv}'\n"
        "sampler = { seed = 1, engine = 'stanli', chains = 2, warmup = 300, draws = 300 }\n"
    )
    assert run("batch", tmp_path / "batch.toml", "--out", tmp_path / "batch") in (0, 3)
    capfd.readouterr()
    batch = pyflowers.Batch(tmp_path / "batch")
    assert not len(batch.failures)
    assert len(batch.table("summary")) > 0


def options_of(fit):
    return {"seed": 1, "chains": 2, "warmup": 300, "draws": 300}


@pytest.mark.slow
def test_a_formula_is_simulated_from_its_prior(frame_csv, tmp_path, capfd):
    what = ("count ~ x + (x | g)", "--family", "negbinomial", "--data", frame_csv)
    assert run("prior", *what, "--seed", 1, "--out", tmp_path / "prior") == 0
    assert "drawn by: numpy" in capfd.readouterr().out
    few = ("--chains", 2, "--warmup", 100, "--draws", 100)
    sims = ("--sims", 4, "--engine", "stanli", "--seed", 1, *few)
    assert run("sbc", *what, *sims, "--out", tmp_path / "sbc") in (0, 3)
    capfd.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_prior_draws_are_those_of_the_program(name):
    """Compare draws in NumPy with draws of NUTS without the likelihood, by quantiles."""
    case = named(name)
    program = Program.from_formula(case.formula, table(), family=case.family)
    priors = {k: v for k, v in case.hyperparameters.items() if not k.startswith("b_scale")}
    ours = pyflowers.prior(program, table(), priors=priors, draws=20_000, seed=1).draws
    data = program.read(table())
    values = {name: 0 for name in data.values if name.startswith("centered_")}
    data = replace(data, values={**data.values, **values, "prior_only": 1})
    fit = pyflowers.fit(
        program, data, priors=priors, seed=1, draws=4000, adapt_delta=0.99, engine="stanli"
    )
    for quantity, draws in ours.items():
        if quantity.startswith("r_"):
            continue
        by_stan = fit.draws[quantity].reshape(-1, *draws.shape[2:])
        for element in np.ndindex(*draws.shape[2:]):
            theirs, mine = by_stan[:, *element], draws[0, :, *element]
            for prob in (0.25, 0.5, 0.75):
                at = np.quantile(theirs, prob)
                assert abs(np.mean(mine < at) - prob) < 0.06, (quantity, element, prob)


@pytest.mark.slow
def test_a_formula_is_fitted_with_the_priors_of_brms(frame_csv, tmp_path, capfd):
    what = ("y ~ x + (1 | g)", "--data", frame_csv, "--priors", "brms")
    how = ("--seed", 1, "--engine", "stanli", "--plots", "none")
    assert run("fit", *what, *how, "--out", tmp_path / "run") == 0
    fit = Fit.load(tmp_path / "run")
    assert fit.program.declaration.formula.priors == "brms"
    assert "b_scale[x]" not in fit.record.priors
    for command in ("check", "loo", "sensitivity", "replay"):
        assert run(command, tmp_path / "run") in (0, 3), command
    assert run("report", tmp_path / "run", "--out", tmp_path / "report.html") == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<span class="option">--priors</span> brms' in page
    assert "flat for b" in page
    assert run("new", tmp_path / "mine.stan", *what) == 0
    assert (tmp_path / "mine.stan").read_text("utf-8") == fit.program.source.text
    capfd.readouterr()
    assert run("fit", "iid_normal", "--priors", "brms", "--out", tmp_path / "no") == 1
    assert "iid_normal is not a formula; leave --priors out" in capfd.readouterr().err
    assert run("new", tmp_path / "other", "--from", "iid_normal", "--priors", "brms") == 2
    assert "--priors applies only to a FORMULA" in capfd.readouterr().err


def test_the_parametrisation_is_chosen_by_the_group(frame_csv, tmp_path, capfd):
    what = ("count ~ x + (x | g) + (1 | h)", "--family", "poisson", "--data", frame_csv)
    how = ("--chains", 1, "--warmup", 100, "--draws", 50, "--seed", 1, "--engine", "stanli")
    how += ("--plots", "none")
    for given, expected in (
        (("--centered", "yes"), {"g": True, "h": True}),
        (("--centered", "g=no", "--centered", "h=yes"), {"g": False, "h": True}),
    ):
        assert run("fit", *what, *how, *given, "--out", tmp_path / "run", "--overwrite") == 0
        fit = Fit.load(tmp_path / "run")
        assert fit.record.centered == expected
        assert {g: bool(fit.data[f"centered_{g}"]) for g in expected} == expected
    capfd.readouterr()
    assert run("replay", tmp_path / "run") == 0
    assert "bitwise equal" in capfd.readouterr().out
    # The same holds for a program from Program.from_formula.
    program = Program.from_formula(what[0], table(), family="poisson", centered=False)
    read = program.read(table())
    for asked in ({"g": True}, True):
        whole, _ = program.fill(read, program.resolve_priors(), centered=asked)
        assert (whole["centered_g"], whole["centered_h"]) == (1, int(asked is True))
    with pytest.raises(
        ConfigError, match=r"centered q: count ~ x .* offers no choice for q, only for g, h"
    ):
        program.fill(read, program.resolve_priors(), centered={"q": True})


@pytest.mark.slow
def test_formulas_in_an_experiment_and_in_a_batch(frame_csv, tmp_path, capfd):
    text = """
models = ["count ~ x", "count ~ x + (1 | g)"]
family = "poisson"
[data]
file = "FILE"
[priors.count_x_poisson]
"b_scale[x]" = 0.5
[sampler]
engine = "stanli"
chains = 1
warmup = 100
draws = 50
seed = 1
"""
    text = text.replace("FILE", str(frame_csv))
    file = tmp_path / "formulas.toml"
    file.write_text(f"{text}\n[output]\nfolder = 'runs'\nplots = 'none'\n")
    assert run("fit", "--config", file) == 0
    fits = {name: Fit.load(tmp_path / "runs" / name) for name in ("count_x_poisson",)}
    assert fits["count_x_poisson"].record.priors["b_scale[x]"] == 0.5
    assert (tmp_path / "runs" / "count_x_1_g_poisson" / "run.json").is_file()
    capfd.readouterr()
    assert run("fit", "--config", file) == 0
    assert capfd.readouterr().out.count("nothing changed") == 2
    # The record of a run can also serve as an experiment, with the same program.
    again = ("--config", tmp_path / "runs/count_x_poisson/run.json", "--out", tmp_path / "again")
    assert run("fit", *again, "--plots", "none") == 0
    second = Fit.load(tmp_path / "again" / "count_x_poisson")
    assert np.array_equal(second.draws["b"], fits["count_x_poisson"].draws["b"])
    file.write_text(text)
    assert run("batch", file, "--out", tmp_path / "batch") == 0
    assert "2 of 2 finished" in (printed := capfd.readouterr().out)
    assert "0 failed" in printed
    file.write_text(text.replace('"count ~ x", "count ~ x + (1 | g)"', '"iid_normal"'))
    assert run("fit", "--config", file) == 1
    assert "family: none of the models is a formula; leave family out" in capfd.readouterr().err


def test_formulas_of_the_same_columns_have_names_of_their_own(frame_csv):
    texts = ["y ~ x + z", "y ~ x * z", "y ~ x:z", "y ~ x - z + (x | g)", "y ~ x + (z || g)"]
    texts += ["y ~ x + (z | g)", "y ~ (1 | school / cohort)", "y ~ (1 | school:cohort)"]
    names = {Program.from_formula(text, table()).name for text in texts if "- z" not in text}
    assert len(names) == len(texts) - 1


def test_a_covariate_that_is_called_centred_is_no_choice(tmp_path):
    (tmp_path / "own.stan").write_text(
        "data { int<lower=0> N; vector[N] centered_x; vector[N] y; }\n"
        "parameters { real b; }\nmodel { b ~ normal(0, 1); y ~ normal(b * centered_x, 1); }\n"
    )
    values = {"N": 2, "centered_x": [-1.0, 1.0], "y": [0.0, 1.0]}
    how = {"seed": 1, "warmup": 50, "draws": 20, "chains": 1, "engine": "stanli"}
    fit = pyflowers.fit(tmp_path / "own.stan", values, **how)
    assert fit.record.centered is None
    with pytest.raises(ConfigError, match="own offers no choice"):
        pyflowers.fit(tmp_path / "own.stan", values, centered=True, **how)


def test_dates_are_noted_and_one_fit_is_enough_for_loo(frame_csv):
    frame = table().assign(day=lambda its: its["f"].map({"a": "2024-05-01", "b": "2024-05-02"}))
    frame = frame.dropna()
    how = {"seed": 1, "warmup": 50, "draws": 20, "chains": 1, "engine": "stanli"}
    fit = pyflowers.fit("y ~ day + x", frame, **how)
    assert any("day is a factor whose 2 levels are dates" in note for note in fit.notes)
    lasting = frame.assign(day=pd.to_timedelta(frame["x"].gt(0).astype(int), unit="D"))
    (note,) = pyflowers.fit("y ~ day", lasting, **how).notes
    assert note.endswith(
        "levels are durations; for a trend, convert it to a number, such as the number of days"
    )
    assert [model.name for model in pyflowers.loo(fit).models] == [fit.called]
    other = pyflowers.fit("y ~ x", table(), **how)
    with pytest.raises(
        ConfigError, match=rf"different data \({len(table())} and {len(frame)} rows"
    ):
        pyflowers.loo([fit, other])


@pytest.mark.slow
def test_a_report_draws_the_coefficients(frame_csv, tmp_path):
    how = {"seed": 1, "warmup": 50, "draws": 20, "chains": 1, "engine": "stanli"}
    fit = pyflowers.fit("y ~ x + z + (1 | g)", frame_csv, **how)
    figure = pyflowers.plots.forest(fit)
    ax = figure.axes[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["x, per sd", "z, per sd"]
    frame = pd.read_csv(frame_csv)
    (medians,) = (line.get_xdata() for line in ax.lines if line.get_marker() == "o")
    theirs = np.median(fit.draws["b"], axis=(0, 1)) * [np.std(frame.x), np.std(frame.z)]
    np.testing.assert_allclose(medians, theirs)
    name = "xz"[int(np.argmax(theirs))]
    alt = pyflowers.plots.alt_text(figure)
    assert f"the largest median is {theirs.max():.3g}, for b[{name}] per sd" in alt
    assert ax.get_xlabel() == "effects on expected y"
    path = pyflowers.report(fit, tmp_path / "report.html")
    assert "Forest plot of b of this model" in path.read_text()
    without = pyflowers.fit("y ~ 1 + (1 | g)", frame_csv, **how)
    with pytest.raises(ConfigError, match="group_mean"):
        pyflowers.plots.forest(without)


@pytest.mark.parametrize("family", ["bernoulli", "binomial", "beta"])
@pytest.mark.parametrize("eta", [-30.0, 30.0])
def test_log_densities_keep_their_digits_in_the_tails(family, eta):
    from pyflowers.programs.families import find_family

    y = 0.3 if family == "beta" else 1.0
    values = {"phi": np.float64(4.0), "trials": np.array([3.0])}
    found = find_family(family).log_lik(np.array([y]), np.array([eta]), values)[0]
    smaller = np.exp(-abs(eta))  # the smaller of m and 1 - m, up to a relative error of 1e-13
    toward, away = (0.7, 0.3) if eta < 0 else (0.3, 0.7)
    exact = {
        # log m = -log(1 + exp(-eta)).
        "bernoulli": np.log(smaller) if eta < 0 else -smaller,
        "binomial": np.log(3) + (np.log(smaller) if eta < 0 else 2 * np.log(smaller)),
        # The smaller shape s is nearly 0, so B(s, 4) is nearly 1 / s.
        "beta": 3 * np.log(toward) - np.log(away) + np.log(4 * smaller),
    }[family]
    np.testing.assert_allclose(found, exact, rtol=1e-11)
    drawn = find_family("beta").draw(np.full(9, 100 * eta), values, np.random.default_rng(1))
    assert ((drawn > 0) & (drawn < 1)).all()


def test_population_first_in_tables(frame_csv):
    how = {"seed": 1, "warmup": 50, "draws": 20, "chains": 1, "engine": "stanli"}
    names = list(pyflowers.fit("y ~ x + (x | g)", frame_csv, **how).summary(all=True).index)
    first = ["Intercept", "b[x]", "sd_g[Intercept]", "sd_g[x]", "cor_g[Intercept,x]", "sigma"]
    assert names[:6] == first
    assert names[6].startswith("r_g[")


def test_the_declaration_is_read_back(tmp_path):
    program = Program.from_formula("y ~ f * x + (x | g) + (1 | school/cohort)", table())
    path = program.write(tmp_path / "mine.stan")
    again = Program.open(path)
    assert again.declaration == program.declaration
    assert again.is_as_written
    written = tomllib.loads(path.with_suffix(".toml").read_text())
    assert written["data"]["X"]["levels"] == {"f": ["a", "b", "c"]}
    assert written["priors"]["b_scale[fb:x]"]["value"] > 0
    with pytest.raises(ConfigError, match=r"mine\.stan already exists"):
        program.write(path)


def test_a_table_with_fewer_levels_has_the_same_columns():
    frame = table()
    program = Program.from_formula("y ~ f + x", frame)
    fewer = program.read(frame[frame["f"] != "b"])
    assert fewer.coords["X"] == ("fb", "fc", "x")
    assert (np.asarray(fewer["X"])[:, 0] == 0).all()
    with pytest.raises(DataError, match=r"f is 'new', which is not one of its levels: a, b, c"):
        program.read(frame.assign(f="new"))


STATEFUL = ("scale(x)", "center(x)", "poly(x, 2)", "bs(x, df=4)", "log(scale(x) + 9)")


@pytest.mark.parametrize("term", STATEFUL)
def test_a_transformation_is_that_of_the_table_it_was_written_for(term, tmp_path):
    """A subset of the rows gets the same numbers, even if the program is read from its file."""
    frame = table()
    program = Program.from_formula(f"y ~ {term} + ({term} | g)", frame)
    part = frame[frame["x"].between(*frame["x"].quantile([0.2, 0.7]))]
    whole = {name: np.asarray(program.read(frame)[name]) for name in ("X", "Z_g")}
    again = Program.open(program.write(tmp_path / "mine.stan"))
    for each in (program, again):
        read = each.read(part)
        for name, matrix in whole.items():
            np.testing.assert_allclose(read[name], matrix[part.index], rtol=1e-9, atol=1e-12)
    fresh = Program.from_formula(f"y ~ {term} + ({term} | g)", part).read(part)
    # A program that is written for the subset alone gives it different numbers.
    assert not np.allclose(fresh["X"], whole["X"][part.index])


def test_ratings_have_an_order():
    frame = table().assign(
        text=lambda its: its["rating"].map({1: "low", 2: "mid", 3: "up", 4: "x"})
    )
    frame["ordered"] = pd.Categorical(frame["text"], ["low", "mid", "up", "x"], ordered=True)
    frame["mixed"] = frame["rating"].astype(str).replace("3", "3+")
    for name, odd in (("mixed", r"3\+"), ("text", "low")):
        with pytest.raises(DataError, match=f"{name} has labels without an order, .* '{odd}'"):
            Program.from_formula(f"{name} ~ x", frame, family="cumulative")
    Program.from_formula("ordered ~ x", frame, family="cumulative")
    program = Program.from_formula("rating ~ x", frame, family="cumulative")
    assert program.read(frame).y.tolist() == frame["rating"].tolist()


@pytest.mark.parametrize("name", ["offset_1", "centered_g", "sd_g", "r_g", "N_g", "cor_h"])
def test_a_group_called_as_a_variable_of_another_is_apart_from_it(name):
    frame = table().assign(**{name: table()["h"]})
    fit = pyflowers.fit(
        f"count ~ x + offset(log(hours)) + (x | g) + (1 | {name})",
        frame,
        family="poisson",
        seed=1,
        warmup=50,
        draws=20,
        chains=1,
        engine="stanli",
    )
    rows = replace(fit.data, values={**fit.data.values, "N_pointwise": fit.data.num_obs})
    bare = replace(fit.program, python=pyflowers.programs.Capabilities(check=lambda data: []))
    other = pyflowers.fit(bare, rows, seed=1, warmup=50, draws=20, chains=1, engine="stanli")
    theirs = other.draws["log_lik"]
    np.testing.assert_allclose(fit.program.log_lik(other.draws, rows), theirs, rtol=1e-7)


def test_priors_are_changed_by_element_or_all_at_once():
    frame = table()
    program = Program.from_formula("y ~ x + z", frame)
    data = program.read(frame)
    for given, expected in (({"b_scale[x]": 9.0}, 9.0), ({"b_scale": 7}, 7.0)):
        whole, _ = program.fill(data, program.resolve_priors(given))
        assert whole["b_scale"][0] == expected
        assert program.prior_of("b[x]", whole.values).text == f"N(0, {expected:g}²)"
    with pytest.raises(ConfigError, match=r"b_scale\[q\]: .* has no such prior; it has"):
        program.resolve_priors({"b_scale[q]": 1})
    with pytest.raises(ConfigError, match=r"b_scale\[x\] must be a finite number and above 0"):
        program.resolve_priors({"b_scale[x]": 0})


def priors_of(formula, frame, family="gaussian"):
    program = Program.from_formula(formula, frame, family=family)
    return {name: prior.value for name, prior in program.declaration.priors.items()}


RESPONSES = {
    **dict.fromkeys(["beta", "zero_inflated_beta", "ordered_beta"], "share"),
    "von_mises": "angle",
    "bernoulli": "bit",
}
HU, ZI = {"hu_alpha": 1, "hu_beta": 1}, {"zi_alpha": 1, "zi_beta": 1}
SHAPE, PHI = {"shape_alpha": 0.4, "shape_beta": 0.3}, {"phi_alpha": 2, "phi_beta": 0.1}
AUXILIARY = {
    "acat": {"threshold_scale": 2.5},
    "sratio": {"threshold_scale": 2.5},
    "asym_laplace": {"quantile": 0.5},
    "beta_binomial": PHI,
    "hurdle_poisson": HU,
    "hurdle_negbinomial": {**SHAPE, **HU},
    "hurdle_gamma": {**SHAPE, **HU},
    "hurdle_lognormal": HU,
    "zero_inflated_binomial": ZI,
    "zero_inflated_beta": {**PHI, **ZI},
    "ordered_beta": {
        **PHI,
        "cutzero_location": -2,
        "cutzero_scale": 2,
        "cutone_location": 1.4,
        "cutone_scale": 0.7,
    },
    "skew_normal": {"alpha_location": 0, "alpha_scale": 4},
    "von_mises": {"kappa_rate": 0.1},
    "weibull": {"shape_location": 0, "shape_scale": 1},
    "student": {"nu_alpha": 2, "nu_beta": 0.1},
    "gamma": {"shape_alpha": 0.4, "shape_beta": 0.3},
    "negbinomial": {"shape_alpha": 0.4, "shape_beta": 0.3},
    "beta": {"phi_alpha": 2, "phi_beta": 0.1},
    "zero_inflated_poisson": {"zi_alpha": 1, "zi_beta": 1},
    "zero_inflated_negbinomial": {
        "shape_alpha": 0.4,
        "shape_beta": 0.3,
        "zi_alpha": 1,
        "zi_beta": 1,
    },
    "cumulative": {"threshold_scale": 2.5},
}


ONE_PREDICTOR = [name for name in family_names() if not find_family(name).has_categories]


@pytest.mark.parametrize("family", ONE_PREDICTOR)
def test_the_default_priors_are_those_of_the_guide(family):
    """The priors are the numbers in docs/how-to/formulas.md, which are rounded to three digits."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(3, 2, 60), "g": np.repeat(list("abcdef"), 10)})
    frame["num"] = rng.normal(40, 12, 60)
    frame["positive"] = np.exp(frame.num / 2)
    frame["share"], frame["bit"] = rng.uniform(0.1, 0.9, 60), rng.integers(0, 2, 60)
    frame["count"], frame["hits"] = rng.poisson(9, 60), rng.integers(0, 8, 60)
    frame["rating"] = rng.integers(1, 5, 60)
    frame["angle"] = rng.uniform(-3, 3, 60)
    its = find_family(family)
    response = RESPONSES.get(family, "count" if its.is_discrete else "positive")
    if its.has_trials:
        response = "hits | trials(7)"
    elif its.is_ordinal:
        response = "rating"
    elif its.scale == "y":
        response = "num"
    program = Program.from_formula(f"{response} ~ x + (x | g)", frame, family=family)
    linked = {
        "num": frame.num,
        "positive": np.log(frame.positive),
        "count": np.log(frame["count"] + 0.1),
    }
    y = linked.get(response, pd.Series(np.zeros(60)))
    scale = max(2.5, 1.4826 * (y - y.median()).abs().median())
    unit = frame.num.std() if response == "num" else 1
    expected = {"b_scale[x]": 2.5 * unit / frame.x.std(), "cor_g_eta": 2}
    expected |= {"sd_g_scale[Intercept]": scale, "sd_g_scale[x]": scale / frame.x.std()}
    if not its.is_ordinal:
        expected |= {"Intercept_location": y.median(), "Intercept_scale": scale}
    if any(each.name == "sigma" for each in its.auxiliary):
        expected["sigma_scale"] = scale
    if family == "exgaussian":
        expected["beta_scale"] = scale
    if family == "shifted_lognormal":
        expected["ndt_scale"] = frame.positive.median()
    if family == "inverse_gaussian":
        expected |= {"shape_alpha": 0.4, "shape_beta": 0.3 * frame.positive.median()}
    expected |= AUXILIARY.get(family, {})
    assert program.resolve_priors() == pytest.approx(expected, rel=0.006)
    text = program.source.text
    assert "lkj_corr_cholesky" in text
    kinds = {"nu": "gamma", "shape": "inv_gamma", "phi": "gamma", "zi": "beta"}
    for name, kind in kinds.items():
        assert (f"{kind}_lpdf({name} | {name}_alpha, {name}_beta)" in text) == (
            f"{name}_alpha" in expected
        )


def test_priors_without_an_intercept_have_room_for_the_mean():
    """Each coefficient is then a mean, as in a cell-means model, and not a difference."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": list("abc") * 10, "y": 1000 + rng.normal(size=30)})
    assert priors_of("y ~ g", frame)["b_scale[gb]"] < 10
    assert min(priors_of("y ~ 0 + g", frame).values()) == 2.5  # the scale of sigma
    assert all(priors_of("y ~ 0 + g", frame)[f"b_scale[g{g}]"] > 2500 for g in "abc")
    fit = pyflowers.fit("y ~ 0 + g", frame, seed=1, engine="stanli", chains=2)
    np.testing.assert_allclose(
        fit.posterior["b"].mean(("chain", "draw")), frame.groupby("g").y.mean(), rtol=1e-3
    )
    counts = frame.assign(y=rng.poisson(1e6, 30))
    assert priors_of("y ~ 0 + g", counts, "poisson")["b_scale[ga]"] > 2 * np.log(1e6)


def test_the_intercepts_prior_is_centred_on_the_data():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": 12345 + rng.normal(size=30), "x": rng.normal(size=30)})
    for formula in ("y ~ 1", "y ~ x"):
        assert abs(priors_of(formula, frame)["Intercept_location"] - 12345) < 1
    small = frame.assign(y=1e-9 * rng.gamma(5, 0.2, 30))
    location = priors_of("y ~ x", small, "gamma")["Intercept_location"]
    assert location == pytest.approx(np.log(small.y.median()), abs=0.1)


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
def test_the_prior_of_the_intercept_is_examined(formula):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": 100 + rng.normal(size=200), "x": rng.normal(size=200) + 3})
    how = {"seed": 1, "engine": "stanli", "chains": 4, "warmup": 300, "draws": 300}
    fit = pyflowers.fit(formula, frame, **how)
    assert fit.verdict.prior.passed
    away = {"Intercept_location": 60, "sigma_scale": 1}
    (failed,) = pyflowers.fit(formula, frame, priors=away, **how).verdict.prior.failed
    assert failed.name.startswith("median of Intercept")
    assert failed.value == pytest.approx(100, abs=1)


def test_ratings_and_levels_that_get_other_numbers_are_noted():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40), "y": rng.integers(0, 5, 40)})
    how = {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 20, "draws": 20}

    def notes(formula, frame, family):
        return pyflowers.fit(formula, frame, family=family, **how).notes

    (note,) = notes("y ~ x", frame, "cumulative")
    on_scale = "in the program; predictions are on the scale of y"
    assert note == f"the ratings 0, 1, 2, 3, 4 of y are numbered 1 to 5 {on_scale}"
    for ratings in (frame.y + 1, frame.y + 1.0, (frame.y + 1).astype(str)):
        assert not notes("y ~ x", frame.assign(y=ratings), "cumulative")
    found = notes("y ~ x", frame.assign(y=2 * frame.y + 1), "cumulative")
    assert found == [
        f"the ratings 1, 3, 5, 7, 9 of y are numbered 1 to 5 {on_scale}",
        "ratings 2, 4, 6, 8 of y have no rows and no threshold, so their probabilities are 0",
    ]
    words = pd.Categorical.from_codes(frame.y, ["no", "low", "mid", "high", "top", "max"], True)
    assert notes("y ~ x", frame.assign(y=words), "cumulative") == [
        "the ratings no, low, mid, high, top of y are numbered 1 to 5, in predictions as well",
        "rating max of y has no rows and no threshold, so its probability is 0",
    ]
    frame["g"] = pd.Categorical(list("abcd") * 10, list("abcd"))
    for left, columns in (("a", ("gc", "gd")), ("d", ("gb", "gc"))):
        part = frame[frame.g != left]
        fit = pyflowers.fit("y ~ g", part, **how)
        assert fit.data.coords["X"] == columns
        assert fit.notes == [f"level {left} of g has no rows and is left out"]


def test_ratings_are_in_the_order_of_an_ordered_categorical(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=40), "n": rng.integers(0, 3, 40)})
    names = ["poor", "fair", "good"]
    frame["y"] = pd.Categorical.from_codes(frame.n, names, ordered=True)
    how = {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 50, "draws": 20}
    by_number, fit = (
        pyflowers.fit(f"{y} ~ x", frame, family="cumulative", **how) for y in ("n", "y")
    )
    np.testing.assert_array_equal(fit.draws["threshold"], by_number.draws["threshold"])
    assert fit.data.labels[fit.data.value].names == tuple(names)
    fit.save(tmp_path / "run")
    again = pyflowers.Fit.load(tmp_path / "run")
    for each in (fit, again):
        assert "expected y (1 = poor to 3 = good)" in str(pyflowers.predict(each))
        expected = 1 + pyflowers.predict(by_number).draws()
        np.testing.assert_allclose(pyflowers.predict(each).draws(), expected)
    # Without an order, or with another label, there is nothing to number.
    for column in (frame.y.astype(str), pd.Categorical(frame.y.astype(str))):
        with pytest.raises(DataError, match=r"y has labels without an order, such as '.*'; wri"):
            Program.from_formula("y ~ x", frame.assign(y=column), family="cumulative")
    with pytest.raises(DataError, match="row 1: y is 'bad', which is not one of poor, fair, good"):
        fit.program.read(pd.DataFrame({"y": ["bad"], "x": [0.0]}))


def test_a_column_in_c_may_hold_numbers_and_labels():
    rng = np.random.default_rng(1)
    cells = np.tile(["0", "1", "2", "3+", "0", "1"], 5)
    frame = pd.DataFrame({"n": cells, "z": np.tile([0, 1, "2", 3.5, 4, "x"], 5)})
    frame["y"] = rng.normal(size=30)
    how = {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 50, "draws": 20}
    fit = pyflowers.fit("y ~ C(n)", frame, **how)
    assert fit.data.coords["X"] == ("n1", "n2", "n3+")
    rows = pyflowers.predict(fit, pd.DataFrame({"n": ["3+", 0]})).draws()
    np.testing.assert_allclose(rows, np.asarray(pyflowers.predict(fit).draws())[..., [3, 0]])
    fit = pyflowers.fit("y ~ C(z)", frame, **how)
    assert fit.data.coords["X"] == ("z1", "z2", "z3.5", "z4", "zx")
    with pytest.raises(DataError, match=r"n is '3\+', but most .* if n is a factor, write C\(n\)"):
        Program.from_formula("y ~ n", frame)


def test_a_factor_with_too_many_levels_is_named_and_not_the_innocent_column():
    rng = np.random.default_rng(1)
    days = pd.date_range("2024-01-01", periods=30)
    frame = pd.DataFrame({"x": rng.normal(size=30), "y": rng.normal(size=30), "when": days})
    frame["id"], frame["two"] = [f"p{i}" for i in range(30)], 2 * frame.x
    dates = "when is a factor whose 30 levels are dates and leave nothing .* convert it to a number"
    with pytest.raises(DataError, match=dates):
        Program.from_formula("y ~ when + x", frame)
    with pytest.raises(DataError, match=r"id is a factor whose 30 levels leave .*\(1 \| id\)"):
        Program.from_formula("y ~ x + id", frame)
    pairs = frame.assign(when=np.repeat(days[:15], 2), x=np.repeat(np.arange(15.0), 2))
    with pytest.raises(DataError, match="when is a factor whose 15 levels are dates"):
        Program.from_formula("y ~ when + x", pairs)
    # If other columns are redundant by themselves, a factor is not to blame.
    with pytest.raises(DataError, match="two is a combination of others"):
        Program.from_formula("y ~ x + two + when", pairs.assign(x=frame.x, two=frame.two))


def test_columns_far_from_zero_are_not_redundant():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": rng.normal(size=30), "second": 1.7e9 + np.arange(30.0)})
    frame["year"], frame["one"] = 2010 + np.arange(30) % 14, 5.1
    Program.from_formula("y ~ second", frame)
    Program.from_formula("y ~ year + I(year**2) + I(year**3)", frame)
    for terms in ("second + I(2 * second)", "year + I(year + 3)"):
        with pytest.raises(DataError, match="is a combination of others"):
            Program.from_formula(f"y ~ {terms}", frame)
    with pytest.raises(DataError, match=r"one is 5\.1 in every row"):
        Program.from_formula("y ~ x1 + one", frame.assign(x1=frame.y + 1))
    frame["a"], frame["b"] = list("pqr") * 10, list("uuv") * 10
    frame.loc[:2, "b"] = "v"
    with pytest.raises(DataError, match=r"ar:bv is a combination .* replace the factors with"):
        Program.from_formula("y ~ a * b", frame)


def test_missing_values_are_refused_or_left_out(tmp_path):
    frame = pd.DataFrame({"y": [1, None, 3, 4, 6], "x": [1.0, 2, None, 4, 4], "u": [None] * 5})
    lacks = r"2 of 5 rows lack y, x \(rows 2, 3\); fill in what is missing, or leave these rows out"
    with pytest.raises(DataError, match=lacks):
        pyflowers.fit("y ~ x", frame, seed=1)
    fit = pyflowers.fit("y ~ x", frame, seed=1, drop_missing=True, engine="stanli")
    assert fit.data.num_obs == 3
    assert any("2 of 5 rows lack y, x (rows 2, 3); they are left out" in n for n in fit.notes)
    # The same holds for a program in a file.
    program = Program.from_formula("y ~ x", frame, drop_missing=True)
    program.write(tmp_path / "mine.stan")
    read = Program.open(tmp_path / "mine.stan").read(frame, drop_missing=True)
    assert read.num_obs == 3
    with pytest.raises(DataError, match="so no row is left"):
        Program.from_formula("y ~ u", frame, drop_missing=True)


@pytest.mark.parametrize("family", ["gaussian", "lognormal", "poisson", "bernoulli", "binomial"])
def test_totals_give_the_density_of_the_rows(family):
    """The density from totals of rows with equal covariates and groups is the sum over the rows."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": np.repeat(list("abcd"), 12), "f": np.tile(["u", "v"], 24)})
    y = rng.integers(0, 2, 48)
    frame["y"] = y if family == "bernoulli" else y + rng.integers(1, 4, 48)
    response = "y | trials(9)" if family == "binomial" else "y"
    program = Program.from_formula(f"{response} ~ f + (1 | g)", frame, family=family)
    data, _ = program.fill(program.read(frame), program.resolve_priors())
    assert data["D"] == 8
    fit = pyflowers.fit(program, data, seed=1, chains=1, draws=50, engine="stanli")
    lp = fit.stats["lp__"][0]
    by_rows = fit.log_likelihood().sum(-1)[0] + fit.draws["lprior"][0]
    sd = fit.draws["sd_g"][0, :, 0]
    effects = -0.5 * np.sum((fit.draws["r_g"][0] / sd[:, None]) ** 2, -1)
    if not data["centered_g"]:
        jacobian = np.log(sd)
    else:
        effects, jacobian = effects - 4 * np.log(sd), np.log(sd)
    if "sigma" in fit.draws:
        jacobian = jacobian + np.log(fit.draws["sigma"][0])
    assert np.ptp(lp - by_rows - effects - jacobian) < 1e-8 * np.abs(lp).max()


def test_the_flower_models_have_their_formula():
    """The plants of the formula and of the shipped program agree, with priors of similar width."""
    frame = pd.read_csv(flowers_csv())
    how = {"seed": 1, "draws": 4000, "engine": "stanli"}
    fit = pyflowers.fit("flowers ~ 1 + (1 | plant)", frame, family="poisson", **how)
    priors = {"mu_mean": 1.5, "mu_sd": 2.5}
    shipped = pyflowers.fit("multilevel_poisson", priors=priors, **how)
    ours = np.exp(fit.draws["Intercept"][..., None] + fit.draws["r_plant"])
    theirs = shipped.draws["mu_plant"]
    for plant in range(3):
        mine, other = ours[..., plant].ravel(), theirs[..., plant].ravel()
        assert abs(np.median(mine) - np.median(other)) < 0.5 * other.std()
        assert abs(np.median(mine) - np.median(other)) < 1.5 * mine.std()


def test_the_normal_flower_models_have_their_formulas():
    """With priors that hardly inform, the means and standard deviations agree."""
    frame = pd.read_csv(flowers_csv())
    how = {"seed": 1, "draws": 4000, "engine": "stanli"}
    fit = pyflowers.fit("flowers ~ 1", frame, priors={"Intercept_scale": 100}, **how)
    shipped = pyflowers.fit("iid_normal", **how)
    mine, theirs = fit.draws["Intercept"], shipped.draws["mu"]
    assert abs(mine.mean() - theirs.mean()) < 0.15 * theirs.std()
    assert 0.7 < mine.std() / theirs.std() < 1.3
    assert 0.7 < np.median(fit.draws["sigma"] ** 2) / np.median(shipped.draws["sigma2"]) < 1.3


def test_few_groups_and_labels_of_two_groups_are_noted():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": rng.normal(size=60), "g": np.repeat(list("abcdef"), 10)})
    frame["few"], frame["outer"] = np.tile(list("uvw"), 20), np.repeat(list("pq"), 30)
    frame["inner"] = [*np.tile(list("rstuv"), 6), *np.tile(list("uvwxy"), 6)]
    for formula, said in (
        ("y ~ 1 + (1 | g)", ""),
        ("y ~ 1 + (1 | few)", "few has 3 labels, so sd_few depends mostly on its prior"),
        (
            "y ~ 1 + (1 | outer/inner)",
            "labels of inner, such as u, occur in more than one outer; in outer:inner",
        ),
        ("y ~ 1 + (1 | outer) + (1 | inner)", "some labels of inner occur in more than one outer;"),
    ):
        fit = pyflowers.fit(formula, frame, seed=1, chains=1, warmup=50, draws=20, engine="stanli")
        about_labels = [note for note in fit.notes if "labels" in note]
        assert any(said in note for note in about_labels) if said else not about_labels


def test_what_a_formula_does_not_take_is_one_sentence(frame_csv):
    for option in ({"group": "g"}, {"columns": {"y": "z"}}, {"time": "h"}):
        with pytest.raises(ConfigError, match=f"--{next(iter(option))}: a formula names its"):
            pyflowers.fit("y ~ x", frame_csv, **option)
    with pytest.raises(ConfigError, match="--include: a formula includes no files"):
        pyflowers.fit("y ~ x", frame_csv, include_paths=["."])
    with pytest.raises(ConfigError, match="--family: iid_normal is not a formula"):
        pyflowers.fit("iid_normal", family="poisson")
    with pytest.raises(ConfigError, match="a formula needs data; add --data FILE"):
        pyflowers.fit("y ~ x")


def test_fits_to_different_data_are_named_and_rows_without_trials_give_no_warning():
    rng = np.random.default_rng(1)
    how = {"seed": 1, "engine": "stanli", "chains": 1, "warmup": 50, "draws": 20}
    frames = [pd.DataFrame({"x": rng.normal(size=n), "y": rng.normal(size=n)}) for n in (12, 15)]
    first = pyflowers.fit("y ~ x", frames[0], **how)
    other = pyflowers.fit("y ~ 1 + x", frames[1], **how)
    message = r"y ~ 1 \+ x and y ~ x were fitted to different data \(15 and 12 rows\)"
    with pytest.raises(ConfigError, match=message):
        pyflowers.loo([first, other])
    frame = pd.DataFrame({"n": [0, 0, 9, 9, 9, 9], "y": [0, 0, 3, 4, 5, 6], "g": list("aabbcc")})
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        Program.from_formula("y | trials(n) ~ 1 + (1 | g)", frame, family="binomial")


def test_separation_is_noted_where_the_coefficient_depends_on_it():
    frame = pd.DataFrame({"f": ["u"] * 20 + ["v"] * 20, "y": [0, 1] * 10 + [0] * 20})
    for formula in ("y ~ f", "y ~ 0 + f"):
        fit = pyflowers.fit(formula, frame, family="bernoulli", engine="stanli", seed=1)
        note = "where fv is 1, 0 of 20 are successes, so that b[fv] rests on its prior"
        assert [each for each in fit.notes if "successes" in each] == [note]
    frame["x"] = np.where(frame.y == 1, 3.0, 0.0) + np.linspace(0, 1, 40)
    fit = pyflowers.fit("y ~ x", frame, family="bernoulli", engine="stanli", seed=1)
    assert "x perfectly predicts some successes or failures, so that b[x] rests on its prior" in (
        fit.notes
    )
    how = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 100, "draws": 100}
    flat = pyflowers.fit("y ~ x", frame, family="bernoulli", default_priors="brms", **how)
    assert any("the prior of b[x] is flat, so nothing limits it" in note for note in flat.notes)
    counts = pyflowers.fit("y ~ f", frame, family="poisson", **how)
    assert "where fv is 1, every y is 0, so that b[fv] rests on its prior" in counts.notes
    assert not any("every y is 0" in note for note in pyflowers.fit("y ~ x", frame, **how).notes)


@pytest.mark.parametrize(
    ("x", "is_separated"),
    [
        ([0, 0, 1, 1, 2, 2], True),
        ([2, 2, 1, 1, 1, 0], True),
        ([0, 0, 0, 0, 0, 1], True),  # only the highest rating
        ([0, 0, 0, 1, 0, 0], False),
        ([0, 1, 0, 2, 1, 2], False),
    ],
)
def test_separated_ratings_are_noted(x, is_separated):
    frame = pd.DataFrame({"x": x, "y": [1, 1, 2, 2, 3, 3]})
    how = {"engine": "stanli", "seed": 1, "chains": 1, "warmup": 50, "draws": 20}
    fit = pyflowers.fit("y ~ x", frame, family="cumulative", **how)
    note = "x perfectly separates ratings of y, so that b[x] rests on its prior"
    assert (note in fit.notes) == is_separated


def test_separation_by_several_columns_names_them():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["u", "v", "w"])
    frame["g"] = rng.choice(list("abc"), 300)

    def notes(formula, y, family="bernoulli", frame=frame, priors=PYFLOWERS):
        rows = from_frame(frame.assign(y=y))
        model = Model(parse(formula), find_family(family), rows)
        return [note for note in check_design(model, priors) if "b[" in note]

    assert notes("y ~ u", np.zeros(300), "poisson") == []
    line = (frame.u > frame.v).astype(int)
    found = (
        "a combination of u and v perfectly predicts some successes or failures, so that b[u] and "
    )
    assert notes("y ~ w + u + v", line) == [f"{found}b[v] rest on their priors"]
    flipped = np.where(frame.index < 3, 1 - line, line)
    assert notes("y ~ w + u + v", flipped) == []
    # Rows at the reference level of a factor are 0 in the columns of all other levels.
    noise = rng.poisson(3, 300) + 1
    zeros = np.where(frame.g == "a", 0, noise)
    found = "a combination of gb and gc marks rows in which every y is 0, so that b[gb] and b[gc]"
    assert notes("y ~ u + g", zeros, "poisson") == [f"{found} rest on their priors"]
    assert notes("y ~ u + g", noise, "poisson") == []
    assert notes("y ~ u + I(u**2)", np.where(frame.u > 0, 0, noise), "poisson") == []
    # Without the rows of level b, the columns of b are 0, and so nothing is known about them.
    zeros = np.where(frame.g == "b", 0, noise)
    [note] = notes("y ~ u * g", zeros, "poisson")
    assert note == "where gb is 1, every y is 0, so that b[gb] rests on its prior"
    frame["n"] = np.where(frame.g == "a", 5, 9)
    y = np.where(frame.g == "a", 5, rng.integers(1, 9, 300))
    [note] = notes("y | trials(n) ~ g", y, "binomial")
    assert note.startswith(
        "a combination of gb and gc perfectly predicts some successes or failures"
    )
    y = np.where(frame.g == "a", 0, np.where(frame.g == "b", 1, rng.integers(0, 2, 300)))
    assert notes("y ~ g", y, priors=BRMS) == [
        f"where gb is 1, {sum(frame.g == 'b')} of {sum(frame.g == 'b')} are successes, and the "
        "prior of b[gb] is flat, so nothing limits it; leave out --priors brms",
        "a combination of gc and the intercept perfectly predicts some successes or failures, and "
        "the prior of b[gc] is flat, so nothing limits it; leave out --priors brms",
    ]
    # The search begins with some of the rows; rows that it has not seen may contradict them.
    many = pd.DataFrame(rng.normal(size=(3_000, 2)), columns=["u", "v"])
    line = (many.u > many.v).astype(int)
    assert len(notes("y ~ u + v", line, frame=many)) == 1
    flipped = np.where(many.index >= 2_990, 1 - line, line)
    assert notes("y ~ u + v", flipped, frame=many) == []


def test_flat_priors_are_not_said_to_be_examined(tmp_path):
    frame = table()
    how = {"engine": "stanli", "seed": 1, "default_priors": "brms"}
    prior = pyflowers.fit("y ~ x", frame, **how).verdict.prior
    assert prior.claim.endswith("(the coefficients, whose priors are flat, were not examined)")
    ratings = pyflowers.fit("rating ~ x", frame, family="cumulative", **how).verdict.prior
    assert ratings.note == "the coefficients have flat priors, with which nothing can be compared"
    # A user who edits the program may give the coefficients a prior.
    program = Program.from_formula("y ~ x", frame, default_priors="brms").write(tmp_path / "m.stan")
    text = program.read_text(encoding="utf-8")
    program.write_text(text.replace("target += lprior;", "target += lprior; b ~ normal(0, 2);"))
    prior = pyflowers.fit(program, frame, engine="stanli", seed=1).verdict.prior
    assert "flat" not in prior.claim


def test_a_factor_is_also_a_group_only_if_its_effects_can_be_told_apart():
    frame = table()
    with pytest.raises(DataError, match="num is both a factor outside the group terms and the"):
        Program.from_formula("y ~ C(num) + (1 | num)", frame)
    program = Program.from_formula("y ~ g + x + (0 + x | g)", frame)
    assert "vector<lower=0>[M_g] sd_g" in program.source.text


def test_the_scale_of_mostly_equal_responses_is_their_deviation():
    frame = pd.DataFrame({"y": [0.0] * 30 + [1000.0, 4000.0] * 10})
    program = Program.from_formula("y ~ 1", frame)
    assert program.resolve_priors()["sigma_scale"] == pytest.approx(frame.y.std(ddof=0), rel=0.01)


@pytest.mark.parametrize("unit", [1e-4, 1, 1e4])
def test_the_units_of_covariates_do_not_matter(unit):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(2, 1, 100) * unit, "z": rng.normal(-1, 1, 100) * unit})
    eta = 3 + (frame.x - frame.z / 2) / unit
    frame["y"] = rng.gamma(4, np.exp(eta) / 4)
    fit = pyflowers.fit("y ~ x + z", frame, family="gamma", seed=1, engine="stanli")
    assert fit.verdict.computation.passed
    b = fit.draws["b"].mean(axis=(0, 1)) * unit
    np.testing.assert_allclose(b, [1, -0.5], atol=0.25)


@pytest.mark.parametrize("family", ["negbinomial", "zero_inflated_negbinomial"])
def test_a_shape_that_may_be_infinite_has_no_mean(family):
    frame = pd.DataFrame({"y": np.random.default_rng(1).poisson(3, 40)})
    options = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    for alpha, missing in ((0.4, ["mean", "sd"]), (1.5, ["sd"]), (2.5, [])):
        fit = pyflowers.fit("y ~ 1", frame, family=family, priors={"shape_alpha": alpha}, **options)
        row = fit.summary().loc["shape"]
        assert [name for name in ("mean", "sd") if np.isnan(row[name])] == missing
    gamma = pyflowers.fit("y ~ 1", frame.assign(y=frame.y + 1.0), family="gamma", **options)
    assert np.isfinite(gamma.summary().loc["shape", ["mean", "sd"]]).all()


@pytest.mark.parametrize(
    ("family", "response", "said"),
    [
        ("poisson", "none", "none is 0 in every row, so the data only bound the parameters"),
        ("bernoulli", "one", "one is 1 in every row"),
        ("binomial", "four | trials(4)", "four is equal to its trials in every row"),
        ("binomial", "none | trials(4)", "none is 0 in every row"),
        ("gaussian", "x", ""),
    ],
)
def test_a_response_with_one_value_is_noted(family, response, said):
    frame = pd.DataFrame({"none": 0, "one": 1, "four": 4, "x": np.arange(6.0)})
    options = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    fit = pyflowers.fit(f"{response} ~ 1", frame, family=family, **options)
    assert said in " ".join(fit.notes)
    assert ("in every row" in " ".join(fit.notes)) == bool(said)
    assert "in every row" not in str(pyflowers.prior(fit.program, frame, seed=1))


def test_a_response_in_too_large_a_unit_is_noted_with_a_factor():
    frame = pd.DataFrame({"y": np.random.default_rng(1).normal(size=30)})
    options = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    for unit, said in ((1e-5, "the default priors have scales of at least 2.5"), (0.1, "")):
        fit = pyflowers.fit("y ~ 1", frame * unit, **options)
        assert said in " ".join(fit.notes)
        assert bool(fit.notes) == bool(said)
        if said:
            factor = float(fit.notes[0].rpartition(" by ")[2])
            assert 1 <= factor * float((frame.y * unit).std(ddof=0)) < 10


def test_the_advice_on_a_prior_of_a_log_rate_does_not_quote_the_mean_of_counts():
    frame = pd.DataFrame({"x": np.arange(40.0) / 20, "y": np.arange(40) ** 2})
    options = {"seed": 1, "engine": "stanli", "priors": {"b_scale": 0.05}}
    fit = pyflowers.fit("y ~ x", frame, family="poisson", **options)
    (check,) = (each for each in fit.verdict.prior.failed if "b[x]" in each.finding)
    assert check.advice.startswith("choose a prior from what is known beforehand, with --prior")
