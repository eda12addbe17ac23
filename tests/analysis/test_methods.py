"""Comparison of methods: each one is right, and the table shows their differences."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import pyflowers
from pyflowers.analysis.methods import METHOD_NAMES, compare, of_functions
from pyflowers.cli.main import cli
from pyflowers.convergence import mcse_quantile
from pyflowers.engines.approximate import METHODS, approximate, k_hat_verdict, pareto_k_hat
from pyflowers.errors import ConfigError, FitError
from pyflowers.fits.posterior import element_names, flat
from pyflowers.plots.methods import comparison_figures, coordinate_ascent, elbo_trace
from pyflowers.plots.style import alt_text
from pyflowers.programs import find_program, shipped_names
from pyflowers.workflow.experiment import compare_all

pytestmark = pytest.mark.usefixtures("in_a_shell")

NORMAL = """
parameters { vector[2] x; real<lower=0> unused; }
model { x[1] ~ normal(3, 2); x[2] ~ normal(x[1], 1); unused ~ lognormal(0, 1); }
"""


@pytest.fixture(scope="module")
def comparisons(executables):
    """The comparison of methods for every model, on the lecture's data."""
    return {name: compare(name, seed=1, cmdstan="embedded") for name in shipped_names()}


def filled(name, given=None, centered=None):
    """Return a shipped program and its data block on the lecture's flowers."""
    program = find_program(name)
    data, _ = program.fill(program.read(), program.resolve_priors(given), centered=centered)
    return program, data


@pytest.mark.parametrize("method", METHODS)
def test_a_normal_posterior_is_found_by_every_method(compiled, tmp_path, method):
    """A posterior that is normal on the unconstrained scale is found, up to ADVI's noise."""
    done = approximate(compiled(tmp_path, "normal", NORMAL), {}, method, seed=2)
    x = done.draws["x"][0]
    assert x.shape == (4000, 2)
    if method in ("laplace", "pathfinder"):
        assert done.k_hat_verdict == "good"
        error = 5 * np.sqrt([4, 5]) / np.sqrt(2000)
        assert np.all(np.abs(x.mean(0) - 3) < error)
        np.testing.assert_allclose(np.cov(x.T), [[4, 4], [4, 5]], rtol=0.15)
    if method == "advi_meanfield":
        # The mean-field approximation of a correlated normal has the normal's conditional variances
        # (Bishop, 10.1.2).
        np.testing.assert_allclose(x.var(0), [0.8, 1.0], rtol=0.3)
        assert abs(np.corrcoef(x.T)[0, 1]) < 0.1
    if method == "advi_fullrank":
        # A full covariance can represent this posterior, up to the noise of stochastic ascent.
        np.testing.assert_allclose(x.mean(0), [3, 3], atol=0.5)
        np.testing.assert_allclose(x.var(0), [4, 5], rtol=0.35)
        assert abs(np.corrcoef(x.T)[0, 1] - 4 / np.sqrt(20)) < 0.1


def test_a_laplace_approximation_of_something_else_is_called_bad(compiled, tmp_path):
    program = "parameters { real x; } model { x ~ cauchy(0, 1); }"
    done = approximate(compiled(tmp_path, "cauchy", program), {}, "laplace", seed=2)
    assert done.k_hat_verdict == "bad"
    assert "use NUTS instead" in done.warnings[-1]


def test_k_hat_is_that_of_known_ratios():
    """The k-hat of a Pareto sample is the shape of its tail, 1 / alpha."""
    rng = np.random.default_rng(1)
    for shape in (0.3, 0.9):
        ratios = rng.pareto(1 / shape, 100_000) + 1
        assert abs(pareto_k_hat(np.log(ratios)) - shape) < 0.1
    assert pareto_k_hat(np.array([0.0, np.nan])) == np.inf
    assert [k_hat_verdict(k) for k in (0.2, 0.6, 0.8)] == ["good", "usable", "bad"]


def test_failures_and_unknown_methods_are_sentences(compiled, tmp_path):
    program = 'parameters { real x; } model { x ~ normal(0, 1); reject("never"); }'
    executable = compiled(tmp_path, "never", program)
    with pytest.raises(FitError, match="laplace: no starting point found"):
        approximate(executable, {}, "laplace", seed=1)
    with pytest.raises(ConfigError, match="no approximation is called 'advi'"):
        approximate(executable, {}, "advi", seed=1)


def log_joint(program, draws, data):
    """Return log p(y, parameters) with every constant, plus the log Jacobian of the transforms."""
    name, priors = program.name, data.values
    total = program.log_lik(draws, data).sum(-1)
    sigma2 = draws["sigma2"]
    nu, scale = priors["sigma2_nu"], priors["sigma2_scale"]
    inverse_gamma = stats.invgamma(nu / 2, scale=nu * scale**2 / 2)
    total = total + inverse_gamma.logpdf(sigma2) + np.log(sigma2)
    total = total + stats.norm.logpdf(draws["mu"], priors["mu_mean"], priors["mu_sd"])
    mean, sd = draws["mu"][..., None], np.sqrt(sigma2)[..., None]
    if name == "multilevel_normal":
        total = total + stats.norm.logpdf(draws["mu_plant"], mean, sd).sum(-1)
        total = total + np.log(draws["sigma2_plant"]).sum(-1)
        if priors["sigma2_plant_nu"] > 0:
            nu, scale = priors["sigma2_plant_nu"], priors["sigma2_plant_scale"]
            plant = stats.invgamma(nu / 2, scale=nu * scale**2 / 2)
            total = total + plant.logpdf(draws["sigma2_plant"]).sum(-1)
    if name == "multilevel_poisson":
        total = total + stats.norm.logpdf(np.log(draws["mu_plant"]), mean, sd).sum(-1)
    return total[0]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("iid_normal", {}),
        ("multilevel_normal", {}),
        ("multilevel_normal", {"sigma2_plant_nu": 3.0, "sigma2_plant_scale": 1.5}),
        ("multilevel_poisson", {"mu_sd": 2.0}),
    ],
)
def test_what_the_programs_drop_is_accounted_for(executables, name, given):
    """ADVI's log p is the log joint minus :attr:`ClosedForm.log_constant`."""
    multilevel = name.startswith("multilevel")
    program, data = filled(name, given, centered=True if multilevel else None)
    values = program.stan_values(data)
    done = approximate(executables[program.path], values, "advi_meanfield", seed=3)
    constant = program.python.closed_form.log_constant(data)
    want = log_joint(program, done.draws, data) - constant
    np.testing.assert_allclose(done.log_p, want, rtol=1e-9)


@pytest.mark.slow
def test_the_understatement_of_the_mean_field_is_shown(comparisons):
    """The ratio of the sds of the mean field and NUTS is the exact one, up to Monte Carlo error."""
    comparison = comparisons["semiconjugate_normal"]
    table = comparison.table()
    for name in ("theta", "sigma2"):
        exact = float(comparison.vb.sd(name) / comparison.exact.sd(name))
        row = table.loc[(name, "vb")]
        assert exact < 0.95
        assert 0 < row["sd_ratio_mcse"] < 0.1
        assert abs(row["sd_ratio"] - exact) < 4 * row["sd_ratio_mcse"]
        assert table.loc[(name, "nuts"), "sd_ratio"] == 1


def test_the_divergence_is_that_of_draws_from_q(comparisons):
    """KL(q ‖ p) = E_q[log q − log p], by Monte Carlo."""
    comparison = comparisons["semiconjugate_normal"]
    draws = comparison.vb.sample(np.random.default_rng(1), 100_000)
    log_q = sum(comparison.vb.logpdf(name, draws[name]) for name in draws)
    values = log_q - comparison.exact.logpdf(draws["theta"], draws["sigma2"])
    error = values.std() / np.sqrt(values.size)
    assert abs(values.mean() - comparison.results["vb"].kl) < 4 * error


def test_every_method_that_applies_is_there(comparisons):
    for name, comparison in comparisons.items():
        expected = [m for m in METHOD_NAMES if m not in ("independent", "weighted")]
        if name == "multilevel_poisson":
            expected.remove("vb")
        assert list(comparison.results) == expected, comparison.failures
        assert comparison.failures == {}
        table = comparison.table()
        assert set(table.index.get_level_values("method")) == set(expected)
        assert table[["5%", "median", "95%"]].notna().all(axis=None)
    assert comparisons["iid_normal"].nuts.diagnostics.passed


def test_a_report_asks_for_no_approximation_and_no_cmdstan(monkeypatch):
    def made(path=None):
        raise AssertionError("a CmdStan was made")

    monkeypatch.setattr("pyflowers.analysis.methods.find_cmdstan", made)
    fit = pyflowers.fit("iid_normal", seed=1, engine="stanli")
    (comparison,) = compare_all([fit]).values()
    assert comparison.failures == {}
    assert list(comparison.results) == ["exact", "nuts", "vb"]
    assert compare_all([pyflowers.fit("multilevel_poisson", seed=1, engine="stanli")]) == {}
    with pytest.raises(AssertionError, match="was made"):
        compare(nuts=fit)


def test_one_posterior_under_two_names(comparisons):
    one, other = comparisons["iid_normal"], comparisons["semiconjugate_normal"]
    assert one.results["vb"].elbo == other.results["vb"].elbo
    assert one.exact.log_evidence == other.exact.log_evidence
    assert one.vb.mean("mu") == other.vb.mean("theta")


def worst_median(posterior, exact):
    """Return a median's largest deviation from the exact one, in Monte Carlo standard errors."""
    worst = 0.0
    for quantity in posterior.values():
        medians = np.median(flat(quantity), axis=(0, 1))
        apart = np.abs(medians - exact["median"][element_names(quantity)].to_numpy())
        worst = max(worst, float((apart / mcse_quantile(flat(quantity), 0.5)).max()))
    return worst


def test_nuts_agrees_with_the_exact_posterior(comparisons):
    for name, comparison in comparisons.items():
        exact = comparison.results["exact"].quantities
        assert worst_median(comparison.nuts.posterior, exact) < 4.5, name
    # Negative control: the exact answer for a different prior is rejected.
    program, data = filled("multilevel_poisson", {"sigma2_scale": 3.0})
    posterior = comparisons["multilevel_poisson"].nuts.posterior
    wrong = of_functions(program.python.closed_form.exact(data), posterior)
    assert worst_median(posterior, wrong) > 4.5


def test_figures_say_what_they_show(comparisons):
    figures = comparison_figures(comparisons["semiconjugate_normal"])
    assert set(figures) == {
        *("marginals.png", "intervals.png", "elbo.png"),
        *("ascent_precision.png", "ascent_variance.png"),
    }
    kl = comparisons["semiconjugate_normal"].results["vb"].kl
    afar = comparisons["semiconjugate_normal"].vb_from_afar
    assert f"{kl:.4f}" in alt_text(figures["elbo.png"])
    assert f"{float(afar.states[0].elbo):.3f}" in alt_text(figures["ascent_precision.png"])
    assert set(comparison_figures(comparisons["multilevel_poisson"])) == {
        *("marginals.png", "intervals.png"),
    }
    with pytest.raises(ConfigError, match="single normal distribution"):
        coordinate_ascent(comparisons["multilevel_normal"])


def test_an_elbo_is_shown_without_an_exact_answer(comparisons):
    found = comparisons["semiconjugate_normal"]
    without = {name: of for name, of in found.results.items() if name != "exact"}
    drawn = elbo_trace(replace(found, results=without))
    assert len(drawn.axes) == 1
    assert alt_text(drawn).endswith("sweeps. The log evidence is not known.")


def test_the_command_line_of_vb():
    done = CliRunner().invoke(cli, ["vb", "--json"])
    printed = json.loads(done.output)
    program, data = filled("semiconjugate_normal")
    q = program.python.closed_form.vb(data)
    assert printed["elbo"] == float(q.elbo)
    assert printed["converged"] is True
    assert printed["kl"] == printed["log_evidence"] - printed["elbo"] > 0
    assert printed["parameters"]["theta"]["median"] == pytest.approx(float(q.mean("theta")))
    assert printed["factors"]["theta"] == {
        "family": "Normal",
        "mean": float(q.mean("theta")),
        "sd": float(q.sd("theta")),
    }
    sigma2 = printed["factors"]["sigma2"]
    assert sigma2["dof"] == float(q["sigma2"].dof)
    assert sigma2["scale"] == float(q["sigma2"].scale)
    table = CliRunner().invoke(cli, ["vb", "multilevel_normal"])
    assert "sigma2_plant[3]" in table.output
    assert "KL(q ‖ posterior)" in table.output


@pytest.mark.slow
def test_vb_says_in_a_note_what_is_missing(tmp_path):
    table = tmp_path / "far.csv"
    rows = "a,1,10000000\na,2,10000003\na,3,9999999\nb,1,5\nb,2,4\nb,3,6\nb,4,5\nb,5,5\n"
    table.write_text("plant,month,flowers\n" + rows, encoding="utf-8")
    words = ["vb", "multilevel_normal", "--data", str(table)]
    output = CliRunner().invoke(cli, words, catch_exceptions=False).output  # no warning
    unbroken = re.sub(r"\n +", " ", output)  # a line that is broken goes on after blanks
    notes = [line for line in unbroken.splitlines() if line.startswith("note: ")]
    assert "NOT converged in" in output
    assert "KL(q ‖ posterior)" not in output
    only = "a mean exists only above 2 degrees of freedom and an sd only above 4"
    assert notes[1:3] == [
        f"note: sigma2: {only}, but its factor has 3; use its median",
        f"note: sigma2_plant: {only}, but its factor has 1; use its median",
    ]
    assert notes[3].startswith("note: the log evidence and KL are unknown, since the last ")
    assert len(notes) == 4
    printed = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert printed["log_evidence"] is printed["kl"] is None


def test_the_command_line_of_compare(executables, tmp_path):
    arguments = ["compare", "iid_normal", "--seed", "4", "--cmdstan", "embedded"]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "closed-form" not in done.output
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"nuts", "table.csv", "methods.csv", "elbo.png", "ascent_precision.png"} <= files
    refused = CliRunner().invoke(cli, ["vb", "multilevel_poisson"])
    assert isinstance(refused.exception, ConfigError)
    assert "multilevel_poisson has no vb" in str(refused.exception)
