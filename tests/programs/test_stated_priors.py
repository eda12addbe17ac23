"""Priors that are stated in a declaration: draws and log densities."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pyflowers
from pyflowers.programs import Capability, find_program

GROUPED = """
data { int<lower=0> N; int<lower=1> P; array[N] int<lower=1, upper=P> g; vector[N] y; real s; }
parameters { real mu; real<lower=0> tau; vector[P] a; real<lower=0> sigma; }
model {
  mu ~ normal(0, s); tau ~ normal(0, 1); a ~ normal(mu, tau); sigma ~ exponential(2);
  y ~ normal(a[g], sigma);
}
"""
DECLARED = """
data = { g = { column = "g", index = true } }
priors = { s = 3.0 }
[parameters]
mu = { prior = "normal(0, s)" }
tau = { prior = "normal(0, 1)" }
sigma = { prior = "exponential(2)" }
[prediction]
family = "gaussian"
linear_predictor = "a[g]"
effects = { a = "normal(mu, tau)" }
"""


@pytest.fixture
def grouped(own_program):
    return own_program("grouped", GROUPED, DECLARED)


def frame():
    return pd.DataFrame({"g": list("aabbcc"), "y": [1.0, 2, 3, 2, 5, 4]})


def test_a_program_of_ones_own_draws_its_declared_priors(grouped):
    made = pyflowers.prior(grouped, frame(), seed=1, draws=4000)
    assert made.drawn_by == "numpy"
    assert made.y_rep is not None
    assert made.y_rep.shape == (1, 4000, 6)
    for name, wanted in (
        ("mu", stats.norm(0, 3)),
        ("tau", stats.halfnorm()),
        ("sigma", stats.expon(scale=0.5)),
    ):
        assert stats.kstest(made.draws[name][0], wanted.cdf).pvalue > 1e-3
        # Negative control: a wider distribution is rejected.
        assert stats.kstest(made.draws[name][0] * 1.3, wanted.cdf).pvalue < 1e-3
    z = (made.draws["a"] - made.draws["mu"][..., None]) / made.draws["tau"][..., None]
    assert z.shape == (1, 4000, 3)
    assert stats.kstest(z.ravel(), stats.norm.cdf).pvalue > 1e-3
    e = (made.y_rep - made.draws["a"][..., [0, 0, 1, 1, 2, 2]]) / made.draws["sigma"][..., None]
    assert stats.kstest(e.ravel(), stats.norm.cdf).pvalue > 1e-3


def test_the_density_of_declared_priors_leaves_out_effects_of_groups(grouped):
    data, _ = grouped.fill(grouped.read(frame()), grouped.resolve_priors())
    rng = np.random.default_rng(1)
    draws = {"mu": rng.normal(size=(2, 5)), "tau": rng.gamma(2, size=(2, 5))}
    draws |= {"sigma": rng.gamma(2, size=(2, 5)), "a": rng.normal(size=(2, 5, 3))}
    wanted = stats.norm.logpdf(draws["mu"], 0, 3) + stats.halfnorm.logpdf(draws["tau"])
    wanted += stats.expon.logpdf(draws["sigma"], scale=0.5)
    np.testing.assert_allclose(grouped.lprior(draws, data), wanted, rtol=1e-6)


def test_stan_is_asked_if_the_program_can_switch_off_its_likelihood(own_program):
    text = GROUPED.replace("real s; }", "real s; int<lower=0, upper=1> prior_only; }")
    program = own_program("mine", text, DECLARED)
    assert program.states_prior
    assert not program.draws_prior
    assert program.can(Capability.PRIOR_ONLY)


@pytest.mark.parametrize("name", ["multilevel_poisson", "multilevel_normal"])
def test_the_density_of_shipped_programs_is_that_of_their_priors(name):
    program = find_program(name)
    proper = {"sigma2_plant_nu": 3.0, "sigma2_plant_scale": 0.8}
    priors = program.resolve_priors(proper if name == "multilevel_normal" else {})
    data, _ = program.fill(program.read(), priors)
    rng = np.random.default_rng(1)
    draws = {"mu": rng.normal(size=(2, 5)), "sigma2": rng.gamma(2, size=(2, 5))}
    draws |= {
        "mu_plant": rng.gamma(2, size=(2, 5, 3)),
        "sigma2_plant": rng.gamma(2, size=(2, 5, 3)),
    }

    def scaled_inv_chi2(x, nu, scale):
        return stats.invgamma.logpdf(x, nu / 2, scale=nu * scale**2 / 2)

    wanted = stats.norm.logpdf(draws["mu"], 0, 100) + scaled_inv_chi2(draws["sigma2"], 1, 2)
    if name == "multilevel_normal":
        wanted += scaled_inv_chi2(draws["sigma2_plant"], 3, 0.8).sum(axis=-1)
        flat, _ = program.fill(program.read(), program.resolve_priors())
        alone = program.lprior(draws, flat)
        np.testing.assert_allclose(program.lprior(draws, data) - alone, wanted - alone, rtol=1e-9)
    np.testing.assert_allclose(program.lprior(draws, data), wanted, rtol=1e-12)
