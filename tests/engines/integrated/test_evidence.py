"""The log of p(y), against integrals by SciPy and conjugate posteriors."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest
import stanli
from mixed_models import posed, table
from scipy import stats
from scipy.integrate import dblquad, quad
from scipy.special import logsumexp
from stanio import dump_stan_json

import pyflowers
from pyflowers.engines.integrated import drawn, method_of
from pyflowers.engines.integrated.evidence import lattice_integral, with_short_tails
from pyflowers.engines.stanli.pilot import unconstrained_draws
from pyflowers.engines.stanli.worker import _density_of


def found(formula, frame, **how):
    _, _, model = posed(formula, frame, **how)
    return model, drawn(method_of(model, "test"), 4_000, np.random.default_rng(1))


@pytest.mark.quick
def test_a_normal_sample_has_the_evidence_of_quadrature():
    frame = table(20)[["y"]]
    model, result = found("y ~ 1", frame)
    (intercept,), (sigma,) = model.coefficients[0].priors, model.parameters[0].priors
    top = stats.norm.logpdf(model.y, model.y.mean(), model.y.std()).sum()

    def density(mu, log_sd):
        sd = np.exp(log_sd)
        logs = stats.norm.logpdf(model.y, mu, sd).sum() + log_sd + np.log(2)
        return np.exp(logs - top + intercept.log_density(mu) + sigma.log_density(sd))

    mean, sd = model.y.mean(), model.y.std()
    whole, _ = dblquad(
        density, np.log(sd) - 2, np.log(sd) + 3, mean - 12 * sd, mean + 12 * sd, epsabs=1e-13
    )
    assert result.log_evidence == pytest.approx(top + np.log(whole), abs=1e-6)
    assert result.log_evidence_error < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "terms", "seed"),
    [
        ("gaussian", "x + (1 | g)", 1),
        ("lognormal", "x + (1 | g)", 1),
        ("gaussian", "z + (1 | h)", 2),
        ("gaussian", "x + (1 | h)", 3),
        ("lognormal", "z + (1 | h)", 4),
    ],
)
def test_groups_have_the_evidence_of_quadrature(family, terms, seed):
    frame = table(30, seed)
    frame["y"] = np.exp(frame.y / 5) if family == "lognormal" else frame.y
    model, result = found(f"y ~ 0 + {terms}", frame, family=family)
    (term,), (b,) = model.effects, model.coefficients
    z = np.eye(term.num_labels)[term.codes[model.rows]]
    x = b.columns[model.rows, 0]
    response = np.log(model.y) if family == "lognormal" else model.y
    moved = -response.sum() if family == "lognormal" else 0.0
    known = z @ z.T
    slope = b.priors[0].student[1] ** 2 * np.outer(x, x)

    def log_density(log_sd, log_sigma):
        sd, sigma = np.exp(log_sd), np.exp(log_sigma)
        covariance = slope + sd**2 * known + sigma**2 * np.eye(len(x))
        logs = stats.multivariate_normal.logpdf(response, np.zeros(len(x)), covariance)
        logs += term.sd.priors[0].log_density(sd) + log_sd + np.log(2)
        return logs + model.parameters[0].priors[0].log_density(sigma) + log_sigma + np.log(2)

    top = result.log_evidence - moved
    edges = np.linspace(-25, 6, 40)

    def inner(log_sigma):
        pieces = itertools.pairwise(edges)
        return sum(
            quad(lambda u: np.exp(log_density(u, log_sigma) - top), a, b, epsabs=1e-10)[0]
            for a, b in pieces
        )

    # The trapezoidal rule for sigma, whose density falls to 0 on both sides.
    grid = np.linspace(-3, 3, 61)
    whole = sum(map(inner, grid)) * (grid[1] - grid[0])
    assert whole == pytest.approx(1, abs=1e-6)
    assert result.log_evidence_error < 1e-6


def test_weights_and_lattice_agree_within_the_error():
    model, result = found("y ~ x + (1 | g)", table(50))
    weights = result.weighted
    constant = method_of(model, "test").log_constant
    gap = weights.log_mean + constant - result.log_evidence
    assert abs(gap) < 4 * weights.log_mean_error < 0.1


def test_counts_with_a_gamma_like_evidence():
    frame = table(25).assign(n=lambda d: np.arange(len(d)) % 4)
    model, result = found("n ~ 1", frame, family="poisson")
    (prior,) = model.coefficients[0].priors

    def density(eta):
        logs = stats.poisson.logpmf(model.y, np.exp(eta)).sum() + prior.log_density(eta)
        return np.exp(logs - result.log_evidence)

    assert quad(density, -3, 3, epsabs=1e-12)[0] == pytest.approx(1, abs=1e-6)


def test_a_lattice_has_the_integral_of_a_skewed_density():
    def log_gammas(points):
        return np.sum([2.0, 0.7] * points - np.exp(points), axis=1)

    axes = np.array([[0.7, 0.1], [0.0, 1.2]])
    log_integral, error = lattice_integral(log_gammas, np.log([2.0, 0.7]), axes, 40_000)
    assert log_integral == pytest.approx(math.lgamma(2.0) + math.lgamma(0.7), abs=1e-9)
    assert error < 1e-5


def test_flat_priors_have_no_evidence():
    fit = pyflowers.fit("y ~ x", table(30), default_priors="brms", engine="exact", seed=1)
    assert "log_evidence" not in fit.record.independent
    fit = pyflowers.fit("y ~ x", table(30), engine="exact", seed=1)
    assert "log_evidence" in fit.record.independent


def test_a_density_that_ends_far_away_is_left_to_the_weights():
    evaluated = []

    def log_density(points):
        evaluated.append(len(points))
        return -0.2 * np.abs(points).sum(axis=1)

    assert lattice_integral(log_density, np.zeros(2), np.eye(2), 40_000) is None
    assert sum(evaluated) < 80_000


def test_an_exponential_tail_is_covered_by_few_points():
    """A log of an sd falls as exp(x) below its mode: hundreds of steps without short tails."""
    evaluated = []

    def log_density(points):
        evaluated.append(len(points))
        return np.sum(points - 0.5 * np.exp(2 * points), axis=1)

    is_slow = np.array([True, False])

    def both(points):
        return log_density(points[:, :1]) - 0.5 * points[:, 1] ** 2

    centre, spread = np.zeros(2), np.array([0.7, 1.0])
    shortened = with_short_tails(both, centre, spread, is_slow)
    log_integral, error = lattice_integral(shortened, centre, np.eye(2), 10_000)
    # ∫ exp(x - exp(2x) / 2) dx = ∫ exp(-s² / 2) ds over s > 0
    assert abs(log_integral - math.log(math.pi)) < error < 1e-3
    assert sum(evaluated) < 15_000


def with_constants(text):
    """Return a Stan program whose density keeps the constants that its ~ statements drop."""

    def stated(match):
        variate, name, given = match.groups()
        kind = "lpmf" if "poisson" in name or "binomial" in name else "lpdf"
        return f"target += {name}_{kind}({' | '.join(filter(None, (variate, given)))});"

    return re.sub(r"(\S[^;{}\n]*?)\s+~ (\w+)\(([^;]*)\);", stated, text)


def bridge_sampled(log_density, draws, rng, num_steps=200):
    """Return the log of the integral of a density, from draws of it.

    Meng and Wong (1996), Statistica Sinica 6, equation 4.1: the normal distribution that is fitted
    to one half of the draws is the bridge to the other half.
    """
    first, draws = np.array_split(draws, 2)
    normal = stats.multivariate_normal(first.mean(axis=0), np.cov(first.T))
    of_draws, of_normal = (
        log_density(points) - normal.logpdf(points)
        for points in (draws, normal.rvs(len(draws), random_state=rng))
    )
    found = np.median(of_draws)
    for _ in range(num_steps):
        above = logsumexp(of_normal - np.logaddexp(of_normal, found))
        found = above - logsumexp(-np.logaddexp(of_draws, found))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family", "num_half"),
    [
        ("n ~ x + (1 | g)", "poisson", 1),
        ("k | trials(4) ~ x + (1 | g)", "binomial", 1),
        ("y ~ x + (1 | g) + (1 | h)", "gaussian", 3),
        ("n ~ x + (x || g)", "negbinomial", 2),
    ],
)
def test_the_evidence_is_that_of_bridge_sampling(formula, family, num_half):
    """Each of eight chains of NUTS gives an estimate; the program's half-t priors lack log 2."""
    rng, frame = np.random.default_rng(3), table(40)
    effects = pd.Series(rng.normal(0, 0.5, 8), list("abcdefgh"))
    eta = 0.3 + 0.2 * (frame.x - 3) + frame.g.map(effects)
    frame["n"], frame["k"] = rng.poisson(np.exp(eta)), rng.binomial(4, 1 / (1 + np.exp(-eta)))
    program, data, model = posed(formula, frame, family=family)
    exact = drawn(method_of(model, "test"), 4_000, np.random.default_rng(1))
    mir = stanli.stan_to_mir(with_constants(program.source.text))
    text = dump_stan_json(program.stan_values(data))
    density = _density_of(mir, text, 1)
    sampled = stanli.Model(mir=mir, data=text, seed=1).sample(
        chains=8, samples=3_000, seed=1, delta=0.9, refresh=10_000
    )
    found = [
        bridge_sampled(lambda points: density.evaluate(points, False)[0], draws, rng)
        for draws in unconstrained_draws(sampled, density, program.source.blocks.parameters)
    ]
    estimate = np.mean(found) + num_half * np.log(2)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert error < 0.03
    assert abs(estimate - exact.log_evidence) < 4 * np.hypot(error, exact.log_evidence_error)
