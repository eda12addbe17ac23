"""Power-scaling against closed forms, against ArviZ and against fits at the scaled prior."""

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_calls import add_group, psens
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers.analysis.prior_sensitivity import (
    LOCAL,
    SHOWN,
    THRESHOLD,
    conclusions,
    cumulative_jensen_shannon,
    names_of,
    power_scale,
    sensitivities_of,
    sensitivity,
)
from pyflowers.programs import Capability, shipped_names

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

KNOWN_VARIANCE = """
data {
  int<lower=0> N;
  vector[N] y;
  real mu_sd;
}
parameters {
  real mu;
}
transformed parameters {
  real lprior = normal_lpdf(mu | 0, mu_sd);
}
model {
  target += lprior;
  y ~ normal(mu, 2);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, 2);
}
"""
Y = np.array([3.1, 5.2, 4.4, 6.0, 2.3])


def normal_posterior(mu_sd, prior=1.0, likelihood=1.0):
    """Return mean and sd of mu for y ~ N(mu, 2²), mu ~ N(0, mu_sd²), each density to a power."""
    precision = prior / mu_sd**2 + likelihood * Y.size / 4
    return likelihood * Y.sum() / 4 / precision, precision**-0.5


def analytic_distance(before, after, low, high):
    """Return the distance between two normal distributions over a range, by the trapezoid rule."""
    from scipy.stats import norm

    x = np.linspace(low, high, 200_001)
    found = []
    for sign in (1, -1):
        p = norm.cdf(sign * (x - before[0]) / before[1])
        q = norm.cdf(sign * (x - after[0]) / after[1])
        middle = (p + q) / 2
        divergence = np.trapezoid(p * np.log2(p / middle) + q * np.log2(q / middle), x)
        found.append(np.sqrt(divergence / np.trapezoid(p + q, x)))
    return max(found)


@pytest.mark.parametrize("mu_sd", [1.0, 4.0])
@pytest.mark.parametrize("component", ["prior", "likelihood"])
@pytest.mark.parametrize("alpha", [*LOCAL, *SHOWN])
def test_distances_of_the_normal_model_are_the_analytic_ones(mu_sd, component, alpha):
    before = normal_posterior(mu_sd)
    draws = np.random.default_rng(3).normal(*before, 100_000)
    log_density = {
        "prior": -0.5 * (draws / mu_sd) ** 2,
        "likelihood": -0.5 * ((Y[:, None] - draws) ** 2).sum(axis=0) / 4,
    }[component]
    scaled = power_scale(component, log_density)
    order = np.argsort(draws)
    found = cumulative_jensen_shannon(draws[order][:, None], scaled.weights[alpha][order][:, None])[
        0
    ]
    after = normal_posterior(mu_sd, **{component: alpha})
    assert found == pytest.approx(analytic_distance(before, after, draws.min(), draws.max()), 0.03)
    weights = scaled.weights[alpha][order]
    mean, sd = conclusions(draws[order][:, None], weights[:, None])[0, 3:5]
    assert (mean, sd) == pytest.approx(after, rel=0.01)


@pytest.mark.parametrize("mu_sd", [1.0, 100.0])
def test_the_sensitivity_of_a_fit_is_the_analytic_one(own_program, mu_sd):
    program = own_program("known", KNOWN_VARIANCE, "[priors]\nmu_sd = 1.0")
    data = pd.DataFrame({"y": Y})
    fit = pyflowers.fit(
        program, data, priors={"mu_sd": mu_sd}, seed=1, draws=10_000, engine="stanli"
    )
    found = sensitivity(fit)
    before, draws = normal_posterior(mu_sd), fit.draws["mu"]
    for component in ("prior", "likelihood"):
        expected = np.mean(
            [
                analytic_distance(
                    before, normal_posterior(mu_sd, **{component: alpha}), draws.min(), draws.max()
                )
                / abs(np.log2(alpha))
                for alpha in LOCAL
            ]
        )
        assert found.distances.loc["mu", component] == pytest.approx(expected, rel=0.03)
    assert (found.sensitive == ["mu"]) == (mu_sd == 1)
    if mu_sd == 1:
        # A stronger prior with mean 0 pulls mu, which is positive, towards 0.
        assert found.moves().loc[("mu", "mean"), "moves"] == "falls"
        assert found.table().loc["mu", "diagnosis"] == "possible prior-data conflict"
        assert "give reasons for that prior" in found.sentence
    else:
        assert found.moves().empty
        assert "The results hardly depend on the prior" in found.sentence


def test_the_sensitivity_of_what_is_computed_from_draws():
    """That of a parameter is its own; that of some draws is by the weights of these draws."""
    fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    found = sensitivity(fit)
    prior, draws = found.components[0], fit.draws["sigma2"][..., None]
    whole = found.distances.loc["sigma2", "prior"]
    assert sensitivities_of(prior, draws).item() == pytest.approx(whole, rel=1e-12)
    few, expected = draws[:, ::4], []
    order = np.argsort(few.ravel())
    for alpha in LOCAL:
        weights = prior.weights[alpha].reshape(fit.num_chains, -1)[:, ::4].ravel()
        of_few = (weights / weights.sum())[order][:, None]
        away = cumulative_jensen_shannon(few.ravel()[order][:, None], of_few).item()
        expected.append(away / abs(np.log2(alpha)))
    assert sensitivities_of(prior, few, 4).item() == pytest.approx(np.mean(expected), rel=1e-12)


def of_each_chain(values, weigh=None):
    """Return the conclusions from each chain alone, shape (chain, 6)."""
    found = []
    for i, chain in enumerate(values):
        order = np.argsort(chain)
        weights = np.full(chain.size, 1 / chain.size) if weigh is None else weigh[i]
        found.append(conclusions(chain[order][:, None], weights[order][:, None])[0])
    return np.array(found)


def differs(one, other):
    """Return which averages over chains differ by more than 4 standard errors."""
    error = np.hypot(*(each.std(axis=0, ddof=1) / np.sqrt(len(each)) for each in (one, other)))
    return np.abs(one.mean(axis=0) - other.mean(axis=0)) > 4 * error + 1e-9


@pytest.mark.parametrize("alpha", SHOWN)
def test_conclusions_agree_with_refits_at_the_scaled_prior(alpha):
    """N(m, s²)^alpha is N(m, s²/alpha); scaled-inv-χ²(nu, s²)^alpha is also scaled-inv-χ²."""
    how = {"chains": 12, "draws": 2000, "engine": "stanli"}
    fit = pyflowers.fit("iid_normal", seed=1, priors={"mu_sd": 1.0, "sigma2_nu": 4.0}, **how)
    prior = fit.record.priors
    nu = alpha * (prior["sigma2_nu"] + 2) - 2
    scale = np.sqrt(alpha * prior["sigma2_nu"] * prior["sigma2_scale"] ** 2 / nu)
    scaled = {"mu_sd": 1 / np.sqrt(alpha), "sigma2_nu": nu, "sigma2_scale": scale}
    refit = pyflowers.fit("iid_normal", seed=2, priors=scaled, **how)
    weights = [
        power_scale("prior", chain).weights[alpha]
        for chain in fit.program.lprior(fit.draws, fit.data)
    ]
    shown = sensitivity(fit).conclusions.xs("prior", level="component")[f"at {alpha:g}"]
    for parameter in ("mu", "sigma2"):
        from_weights = of_each_chain(fit.draws[parameter], weights)
        from_refit = of_each_chain(refit.draws[parameter])
        assert not differs(from_weights, from_refit).any()
        np.testing.assert_allclose(shown[parameter], from_weights.mean(axis=0), rtol=0.02)
        # Negative control: the unscaled posterior differs.
        assert differs(of_each_chain(fit.draws[parameter]), from_refit).any()


@pytest.mark.parametrize("name", shipped_names())
def test_lprior_of_a_shipped_program_is_that_of_its_generated_quantities(name, own_program):
    """The density in Stan is in the generated quantities that ship with the program."""
    shipped = pyflowers.Program.open(pyflowers.programs.find_program(name).path)
    quantities = (shipped.path.parent / "quantities" / f"{name}.stan").read_text()
    declaration = shipped.path.with_suffix(".toml").read_text()
    whole = own_program(name, shipped.path.read_text() + quantities, declaration)
    data = pyflowers.programs.find_program(name).example
    proper = {"sigma2_plant_nu": 2.0, "sigma2_plant_scale": 1.5}
    for priors in ({}, proper) if name == "multilevel_normal" else ({},):
        fit = pyflowers.fit(
            whole, data, priors=priors, seed=1, chains=2, warmup=200, draws=50, engine="stanli"
        )
        found = pyflowers.programs.find_program(name).lprior(fit.draws, fit.data)
        np.testing.assert_allclose(found, fit.draws["lprior"], rtol=1e-5)


def test_distances_equal_arvizs(lecture_fits):
    """ArviZ uses 1/1.01 instead of 0.99, which hardly affects the derivative."""
    fit = lecture_fits["multilevel_poisson"]
    found = sensitivity(fit)
    idata = fit.idata.copy()
    lprior = fit.program.lprior(fit.draws, fit.data)
    add_group(idata, "log_prior", xr.Dataset({"lprior": (("chain", "draw"), lprior)}))
    for component in ("prior", "likelihood"):
        reference = psens(idata, component)
        expected = np.concatenate([np.ravel(reference[name]) for name in fit.posterior])
        np.testing.assert_allclose(found.distances[component], expected, rtol=2e-3)


def heavy(draws, stats):
    """Insert draws whose prior density varies by hundreds of nats, too much to be reweighted."""
    rng = np.random.default_rng(1)
    draws["mu"] = draws["mu"] + 2e5 * rng.standard_t(1, size=draws["mu"].shape)


def test_a_k_hat_that_is_too_high_is_refused():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4), change=heavy, priors={"mu_sd": 1.0})
    found = sensitivity(fit)
    prior = found.components[0]
    assert prior.worst_k > prior.limit
    assert found.distances["prior"].isna().all()
    assert found.moves().empty
    (output,) = [note for note in found.notes if note.startswith("prior: ")]
    assert "must be at most" in output
    assert "could not be determined" in found.sentence
    good = sensitivity(synthetic_fit("iid_normal", table(["a", "b"], 4)))
    assert good.distances["prior"].notna().all()


def test_a_log_density_that_is_not_finite_is_refused():
    log_density = np.zeros(1_000)
    log_density[:3] = -np.inf
    found = power_scale("likelihood", log_density, (0.8, 1.25))
    assert found.weights == {}
    assert found.refusal == (
        "the log likelihood is not finite in 3 of 1000 draws; correct the code that computes it, "
        "or refit with other priors"
    )


def test_few_draws_are_refused_and_not_guessed_at():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4), chains=1, draws=20)
    assert sensitivity(fit).components[0].worst_k == np.inf


def test_moments_that_do_not_exist_are_blank():
    found = sensitivity(synthetic_fit("multilevel_poisson", table(["a", "b", "c"], 4)))
    sigma2 = found.conclusions.xs("prior", level="component").loc["sigma2"]
    assert np.isnan(sigma2.loc["sd", "per_doubling"])
    assert sigma2.loc["sd", "moves"] == ""
    assert np.isfinite(sigma2.loc["median", "per_doubling"])


def test_changes_per_doubling_are_those_of_many_more_draws():
    """A quantile of few draws, weighted by powers near 1, moves from one draw to the next."""

    def changes(seed, draws):
        fit = pyflowers.fit("iid_normal", seed=seed, draws=draws, engine="exact")
        found = sensitivity(fit).conclusions.xs("prior").xs("mu").loc[["5%", "median", "95%"]]
        change = (found["at 1.25"] - found["at 0.8"]) / np.log2(1.25 / 0.8)
        assert found["per_doubling"].to_numpy() == pytest.approx(change.to_numpy())
        return found["per_doubling"].to_numpy()

    expected = changes(9, 100_000)
    assert all(changes(seed, 1000) == pytest.approx(expected, abs=0.06) for seed in (1, 2, 3, 4))


def test_a_flat_prior_is_left_out_of_the_conclusion():
    rows = {"y": [0, 3, 1, 4, 2, 0, 5, 3], "x": [0.1, 0.4, 0.2, 0.9, 0.5, 0.3, 0.8, 0.6]}
    fit = pyflowers.fit(
        "y ~ 1", pd.DataFrame(rows), family="zero_inflated_poisson", seed=1, engine="stanli"
    )
    found = sensitivity(fit)
    assert found.flat == ("zi",)
    assert found.sensitive or found.sentence.endswith("; the flat prior of zi cannot be scaled.")
    other = pyflowers.fit(
        "y ~ 1",
        pd.DataFrame(rows),
        family="zero_inflated_poisson",
        priors={"zi_beta": 3},
        seed=1,
        engine="stanli",
    )
    assert sensitivity(other).flat == ()
    rows["y"] = [0.2, 0.2, 0.5, 0.9, 0.4, 0.5, 0.5, 0.7]
    brms = pyflowers.fit(
        "y ~ x", pd.DataFrame(rows), default_priors="brms", seed=1, engine="stanli"
    )
    assert sensitivity(brms).flat == ("b",)


def test_a_program_without_lprior_is_told_what_to_add(own_program):
    text = KNOWN_VARIANCE.replace("lprior", "its_density")
    program = own_program("plain", text, "[priors]\nmu_sd = 1.0")
    fit = pyflowers.fit(
        program, pd.DataFrame({"y": Y}), seed=1, warmup=100, draws=50, engine="stanli"
    )
    with pytest.raises(pyflowers.ConfigError, match=r"plain has no lprior, .* declare real lprior"):
        sensitivity(fit)


def test_a_flat_prior_and_a_lacking_likelihood_are_said(own_program):
    text = KNOWN_VARIANCE.replace("normal_lpdf(mu | 0, mu_sd)", "mu_sd").split("generated")[0]
    program = own_program("flat", text, "[priors]\nmu_sd = 1.0")
    fit = pyflowers.fit(
        program, pd.DataFrame({"y": Y}), seed=1, warmup=100, draws=100, engine="stanli"
    )
    found = sensitivity(fit)
    assert found.distances.to_numpy().tolist() == [[0.0]]
    assert "flat" in found.sentence
    assert any("the program has no log_lik" in note for note in found.notes)


@functools.cache
def example(name):
    folder = EXAMPLES / name
    return sensitivity(
        pyflowers.fit(
            folder / f"{name}.stan",
            folder / f"{name}.csv",
            seed=1,
            warmup=500,
            draws=500,
            engine="stanli",
        )
    )


SENSITIVE = {
    "epil": (set(), {"a0", "alpha_Base", "alpha_Trt", "alpha_BT", "alpha_Age", "alpha_V4"}),
    "pumps": ({"alpha", "beta"}, set()),
    "rats": (set(), {"alpha_c", "beta_c", "tau_c", "alpha0"}),
    "seeds": ({"tau", "sigma"}, set()),
}
"""Quantities for which the BUGS prior matters, such as Gamma(0.001, 0.001) on the precision of few
plates, and quantities for which it does not."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SENSITIVE)
def test_the_examples_of_bugs(name):
    found = example(name)
    assert [c.component for c in found.components] == ["prior", "likelihood"]
    assert all(c.worst_k < c.limit for c in found.components)
    assert np.isfinite(found.distances.to_numpy()).all()
    likelihood = found.distances["likelihood"]
    groups = [p for p in likelihood.index if p.startswith(("theta[", "b[", "b1[", "alpha["))]
    assert likelihood[groups].median() > THRESHOLD
    does, does_not = SENSITIVE[name]
    assert does <= set(found.sensitive)
    assert does_not.isdisjoint(found.sensitive)


def test_columns_of_the_conclusions():
    found = sensitivity(synthetic_fit("iid_normal", table(["a", "b"], 4)))
    names = list(found.conclusions.index.get_level_values("conclusion").unique())
    assert names == names_of() == ["median", "5%", "95%", "mean", "sd", "P(> 0)"]
    assert set(found.conclusions["moves"]) <= {"rises", "falls", ""}
    assert found.name == "iid_normal"
    assert pyflowers.programs.find_program("iid_normal").can(Capability.LPRIOR)
