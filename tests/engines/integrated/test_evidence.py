"""The log of p(y), against integrals by SciPy and conjugate posteriors."""

import itertools
import math

import numpy as np
import pytest
from mixed_models import posed, table
from scipy import stats
from scipy.integrate import dblquad, quad

import pyflowers
from pyflowers.engines.integrated import drawn, method_of
from pyflowers.engines.integrated.evidence import lattice_integral, with_short_tails


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
@pytest.mark.parametrize("family", ["gaussian", "lognormal"])
def test_groups_have_the_evidence_of_quadrature(family):
    frame = table(30)
    frame["y"] = np.exp(frame.y / 5) if family == "lognormal" else frame.y
    model, result = found("y ~ 0 + x + (1 | g)", frame, family=family)
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
    assert whole == pytest.approx(1, abs=2e-6)
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
