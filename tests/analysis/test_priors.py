"""Draws from the prior: their distribution, the design, refused input, and the command."""

import json
import warnings
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from arviz_calls import names_of_groups
from command_line import run
from matplotlib.text import Text
from scipy import stats

import pyflowers
from pyflowers import plots
from pyflowers.analysis.priors import prior
from pyflowers.engines.base import NUTS_USES
from pyflowers.programs import find_program, shipped_names
from pyflowers.resources import arviz

pytestmark = pytest.mark.usefixtures("in_a_shell")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROPER = {"sigma2_plant_nu": 3.0, "sigma2_plant_scale": 1.5}


def own(name):
    return EXAMPLES / name / f"{name}.stan", pd.read_csv(EXAMPLES / name / f"{name}.csv")


def priors_of(name):
    return PROPER if name == "multilevel_normal" else {}


@pytest.mark.parametrize("name", shipped_names())
def test_draws_of_a_shipped_program_have_its_declared_priors(name):
    made = prior(name, seed=1, priors=priors_of(name))
    values = {**made.data.values, **made.priors}
    declared = [p for p in made.draws if made.program.prior_of(p, values) is not None]
    assert {"sigma2"} < set(declared)
    for parameter in declared:
        density = made.program.prior_of(parameter, values).density
        draws = np.ravel(made.draws[parameter])
        inside = np.linspace(*np.quantile(draws, (0.25, 0.75)), 2001)
        mass = np.trapezoid(density(inside), inside)
        assert abs(mass - 0.5) < 4 * 0.5 / np.sqrt(draws.size)


def test_plants_come_from_their_population_and_data_from_their_plant():
    made = prior("multilevel_normal", seed=2, draws=20_000, priors=PROPER)
    draws = made.draws
    centred = (draws["mu_plant"] - draws["mu"][..., None]) / np.sqrt(draws["sigma2"])[..., None]
    assert stats.kstest(centred.ravel(), "norm").pvalue > 1e-4
    plant = np.asarray(made.data["plant"]) - 1
    sd = np.sqrt(draws["sigma2_plant"][..., plant])
    residual = (made.y_rep - draws["mu_plant"][..., plant]) / sd
    assert stats.kstest(residual.ravel()[::11], "norm").pvalue > 1e-4
    assert stats.kstest(centred.ravel(), stats.norm(0, 1.1).cdf).pvalue < 1e-6


def test_numpy_draws_agree_with_stans_of_the_same_prior(own_program):
    """NUTS samples a copy of the program whose likelihood can be switched off."""
    shipped = find_program("iid_normal")
    text = shipped.path.read_text()
    text = text.replace("data {", "data {\n  int<lower=0, upper=1> prior_only;", 1)
    text = text.replace("target +=", "if (prior_only == 0) target +=")
    program = own_program("copy", text, shipped.path.with_suffix(".toml").read_text())
    narrow = {"mu_sd": 1.0, "sigma2_nu": 6.0}
    data = shipped.example
    by_stan = prior(program, data, seed=1, priors=narrow, engine="stanli")
    by_numpy = prior("iid_normal", seed=1, priors=narrow)
    assert (by_stan.drawn_by, by_numpy.drawn_by) == ("stanli", "numpy")
    assert by_stan.verdict.passed
    for name in ("mu", "sigma2"):
        independent = [np.ravel(each.draws[name])[::8] for each in (by_stan, by_numpy)]
        assert stats.ks_2samp(*independent).pvalue > 1e-4
    implied = [np.ravel(each.statistics["mean"])[::8] for each in (by_stan, by_numpy)]
    assert stats.ks_2samp(*implied).pvalue > 1e-4


@pytest.mark.parametrize("name", ["multilevel_poisson", "seeds"])
def test_y_is_neither_read_nor_needed(name):
    """The draws are the same if the response has invalid values, or if its column is absent."""
    if name == "seeds":
        program, table = own(name)
        how = {"priors": {"coef_sd": 1, "tau_shape": 2, "tau_rate": 1}, "engine": "stanli"}
        column = find_program(program).declaration.in_role["value"]
    else:
        program, column, how = name, "flowers", {"priors": {"mu_sd": 1.0}}
        table = pd.read_csv(find_program(name).example)
    tables = [table, table.assign(**{column: "?"}), table.drop(columns=column)]
    first, *others = [prior(program, t, seed=1, draws=400, **how) for t in tables]
    assert first.y_rep.shape[2] == len(table)
    for other in others:
        np.testing.assert_array_equal(other.y_rep, first.y_rep)
        assert other.implied().equals(first.implied())
    longer = prior(program, table.iloc[:7], seed=1, draws=40, **how)
    assert longer.y_rep.shape[2] == 7


def test_a_data_block_needs_no_y_either():
    made = prior("iid_normal", {"N": 5}, seed=1, draws=100)
    assert made.y_rep.shape == (1, 100, 5)
    with pytest.raises(pyflowers.DataError, match="the size N of y is not known"):
        prior("iid_normal", {}, seed=1)


FLAT = """
data { int N; vector[N] y; vector[N] x; real width; int<lower=0, upper=1> prior_only; }
parameters { real alpha; real beta; real<lower=0> sigma; real<lower=0, upper=1> share; }
transformed parameters { vector[N] eta = alpha + beta * x * share; }
model {
  // alpha ~ normal(0, 1);
  BETA
  sigma ~ exponential(1);
  if (!prior_only) { y ~ normal(eta, sigma); }
}
"""
FLAT_TOML = '[priors]\nwidth = 1.0\n[parameters.beta]\nprior = "normal(0, width)"\n'
IMPROPER = [
    ("sigma2_plant", "multilevel_normal", {}, "--prior sigma2_plant_nu=1 --prior sigma2_plant"),
    ("mu", "iid_normal", {"mu_sd": float("inf")}, "--prior mu_sd=100"),
    ("theta", "semiconjugate_normal", {"tau0": float("inf")}, "--prior tau0=100"),
    ("sigma2", "multilevel_poisson", {"sigma2_nu": float("inf")}, "--prior sigma2_nu=1"),
]


@pytest.mark.parametrize(("parameter", "name", "priors", "remedy"), IMPROPER)
def test_an_improper_prior_is_refused_with_its_parameter_and_a_remedy(
    parameter, name, priors, remedy
):
    with pytest.raises(pyflowers.ConfigError) as caught:
        prior(name, priors=priors, engine=None)
    output = str(caught.value)
    assert f" {parameter} " in output
    assert "improper" in output
    assert remedy in output
    assert "\n" not in output


class NoEngine:
    """An engine that must not be used."""

    name = "none"
    uses = NUTS_USES

    def load(self, source):
        """Fail the test."""
        raise AssertionError("Stan was called")


def test_a_flat_parameter_of_ones_own_program_is_refused_before_stan(own_program):
    data = {"N": 2, "x": [0.0, 1.0], "width": 1.0}
    program = own_program("flat", FLAT.replace("BETA", "beta ~ normal(0, width);"), FLAT_TOML)
    with pytest.raises(pyflowers.ConfigError, match=r"flat: alpha has .* alpha ~ normal\(0, 1\)"):
        prior(program, data, engine=NoEngine())
    proper = FLAT.replace("BETA", "beta ~ normal(0, width);").replace("// alpha", "alpha")
    program = own_program("proper", proper, FLAT_TOML)
    with pytest.raises(AssertionError, match="Stan was called"):
        prior(program, data, engine=NoEngine())
    infinite = own_program(
        "wide",
        proper.replace("real width; ", ""),
        FLAT_TOML.replace("[priors]\nwidth = 1.0\n", "").replace("width", "inf"),
    )
    with pytest.raises(pyflowers.ConfigError, match=r"wide: beta has an improper prior"):
        prior(infinite, data, engine=NoEngine())


SUBJECTS = [
    ("a ~ normal(b, 1);", {"b"}),
    ("target += normal_lpdf(a | b, 1) + std_normal_lpdf(b);", set()),
    ("target += -square(a); b ~ normal(a, 1);", set()),
    ("for (n in 1:2) { a ~ normal(0, 1); } if (prior_only == 0) y ~ normal(b, 1);", {"b"}),
    ("if (!prior_only) for (n in 1:N) { y[n] ~ normal(b, 1); } a ~ normal(0, 1);", {"b"}),
    ("real s = a + b; s ~ normal(0, 1);", set()),
    ("if (prior_only == 0) { y ~ normal(a, 1); } else { } b ~ cauchy(0, 1);", {"a"}),
    ("", {"a", "b"}),
]


@pytest.mark.parametrize(("model", "flat"), SUBJECTS, ids=range(len(SUBJECTS)))
def test_which_parameters_have_a_prior(own_program, model, flat):
    text = (
        "data { int N; vector[N] y; int prior_only; }\n"
        "parameters { real a; real b; simplex[3] s; real<lower=0, upper=1> u; }\n"
        f"model {{ {model} }}\n"
    )
    program = own_program("subjects", text)
    assert set(program.improper_priors({})) == flat


@pytest.mark.parametrize("name", ["epil", "pumps", "rats", "seeds"])
def test_the_examples_of_bugs(name):
    program, table = own(name)
    narrow = {
        "pumps": {"beta_shape": 2.0},
        "rats": {"coef_sd": 10.0, "tau_shape": 3.0, "tau_rate": 3.0},
    }.get(name, {"coef_sd": 1.0, "tau_shape": 3.0, "tau_rate": 1.0})
    made = prior(program, table, seed=1, draws=400, priors=narrow, engine="stanli")
    assert made.y_rep.shape == (4, 100, len(table))
    assert np.isfinite(made.implied().to_numpy()).all()
    for figure in plots.prior_figures(made).values():
        assert plots.alt_text(figure)


def test_statistics_of_ones_own_and_a_wrong_one():
    more = {"range": lambda y: np.ptp(y, axis=1)}
    made = prior("iid_normal", seed=1, statistics=more)
    expected = np.ptp(made.y_rep, axis=2)
    np.testing.assert_array_equal(made.statistics["range"], expected)
    assert "range" in made.implied().index
    with pytest.raises(pyflowers.ConfigError, match="statistic all must return a number for"):
        prior("iid_normal", seed=1, statistics={"all": lambda y: y})


def test_a_simulator_in_python(own_program):
    def draw(data, num_draws, rng):
        mu = rng.normal(2, 1, (1, num_draws))
        return {"mu": mu, "y_rep": rng.normal(mu[..., None], 1, (1, num_draws, data.num_obs))}

    text = "data { int N; vector[N] y; }\nparameters { real mu; }\nmodel { y ~ normal(mu, 1); }"
    python = pyflowers.Capabilities(prior=pyflowers.PriorModel(draw))
    program = own_program("simulated", text, python=python)
    made = prior(program, {"N": 3}, seed=1, engine=NoEngine())
    assert made.y_rep.shape == (1, 4000, 3)
    assert made.summary().loc["mu", "median"] == pytest.approx(2, abs=0.08)
    plain = own_program("simulated", text)
    with pytest.raises(pyflowers.ConfigError, match="simulated has no prior_only"):
        prior(plain, {"N": 3})


def test_a_prior_that_is_far_too_wide_is_shown_and_said():
    made = prior("multilevel_poisson", seed=1)
    assert not np.isnan(made.implied().to_numpy()).any()
    assert any("far too wide" in note for note in made.notes)


def test_draws_near_the_largest_number_are_left_out_of_figures():
    made = prior("multilevel_poisson", seed=1)
    (shape,) = {each.shape for each in made.statistics.values()}
    huge = np.geomspace(1.0, 1e304, np.prod(shape)).reshape(shape)
    with warnings.catch_warnings(action="error"):
        figure = plots.prior_implied(replace(made, statistics={"mean": huge}))
        figure.savefig(BytesIO())
    shown = " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())
    assert "Draws beyond 1e+150 are left" in shown


def test_a_folder_holds_draws_tables_and_figures(tmp_path, capsys):
    out, words = tmp_path / "out", ["prior", "multilevel_normal", "--draws", "200", "--seed", "1"]
    words += [word for name, value in PROPER.items() for word in ("--prior", f"{name}={value}")]
    assert run(*words, "--out", out) == 0
    made = prior("multilevel_normal", seed=1, draws=200, priors=PROPER)
    idata = arviz().from_netcdf(out / "draws.nc")
    assert names_of_groups(idata) == {"prior", "prior_predictive", "constant_data"}
    assert list(idata.prior.mu_plant.plant.values) == list(made.data.labels["plant"].names)
    np.testing.assert_array_equal(idata.prior.mu.values, made.draws["mu"])
    assert {path.name for path in (out / "plots").iterdir()} == {"parameters.png", "implied.png"}
    record = json.loads((out / "prior.json").read_text())
    assert (record["seed"], record["priors"]["sigma2_plant_nu"]) == (1, 3.0)
    again = prior("multilevel_normal", seed=1, draws=200, priors=record["priors"])
    np.testing.assert_array_equal(again.y_rep, made.y_rep)
    assert run(*words, "--out", out) == 0
    (out / "mine.txt").write_text("mine")
    assert run(*words, "--out", out) == 1
    assert "mine.txt" in capsys.readouterr().err


def test_the_command_takes_other_names_of_columns(tmp_path, capsys):
    table = tmp_path / "garden.csv"
    table.write_text("plot,week\nrose,1\nrose,2\ntulip,1\n", encoding="utf-8")
    words = ["prior", "multilevel_poisson", table, "--group", "plot", "--time", "week"]
    assert run(*words, "--seed", "1", "--draws", "100") == 0
    output = capsys.readouterr().out
    assert "mu_plant[tulip]" in output
    assert "3 values" in output


def test_the_commands(tmp_path, capsys):
    program, _ = own("pumps")
    table = program.with_suffix(".csv")
    out = tmp_path / "prior"
    words = ["prior", program, table, "--prior", "beta_shape=2", "--seed", "1", "--draws", "200"]
    assert run(*words, "--engine", "stanli", "--out", out) == 0
    output = capsys.readouterr().out
    assert "share of zeros" in output
    assert "drawn by: stanli" in output
    assert (out / "plots" / "implied.png").is_file()
    assert run("prior", "multilevel_normal") == 1
    assert "sigma2_plant has an improper prior" in capsys.readouterr().err
    assert run("prior", "iid_normal", table, "--data", table) == 2

    sampled = tmp_path / "run"
    fitted = ["fit", "iid_normal", "--engine", "stanli", "--seed", "1", "--plots", "none"]
    assert run(*fitted, "--out", sampled) == 0
    capsys.readouterr()
    assert run("sensitivity", sampled, "--out", tmp_path / "sensitivity") == 0
    output = capsys.readouterr().out
    assert output.startswith("iid_normal  ")
    assert "\nsigma2 depends on the prior" in output
    assert "k-hat of the prior" in output
    written = pd.read_csv(tmp_path / "sensitivity" / "sensitivity.csv", index_col=0)
    assert written.loc["sigma2", "prior"] > 0.05
    assert (tmp_path / "sensitivity" / "sensitivity.png").stat().st_size > 1000
