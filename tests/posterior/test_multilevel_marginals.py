"""The multilevel posteriors against a brute-force sum over plain, dense grids."""

import numpy as np
import pytest
from scipy import interpolate, special, stats

from pyflowers.errors import ConfigError, DataError
from pyflowers.exact import exact_multilevel_normal, exact_multilevel_poisson
from pyflowers.posterior.normal_plants import NormalPlants
from pyflowers.posterior.poisson_plants import PoissonPlants
from pyflowers.vb import MultilevelPrior, SufficientStatistics

LECTURE = [np.array(y, float) for y in ([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8])]
UNBALANCED = [np.array(y, float) for y in ([4, 5, 6, 4, 9, 1], [2], [8, 8, 8], [1, 7])]
ZEROS = [np.array(y, float) for y in ([0, 0, 0], [3, 1], [2, 0, 1, 1, 4])]
PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)
DEFAULT = MultilevelPrior()
P = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def flatten(groups):
    return np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(y) for y in groups])


def fit_normal_model(groups, prior):
    return exact_multilevel_normal(SufficientStatistics.from_groups(*flatten(groups))[0], prior)


def fit_poisson_model(groups, prior):
    return exact_multilevel_poisson(*flatten(groups), prior)  # type: ignore[call-arg]


def log_inverse_chi_square(w, nu, scale):
    """Density of w = log v, or of the flat density of v."""
    if nu <= 0:
        return w
    return stats.invgamma.logpdf(np.exp(w), nu / 2, scale=nu * scale**2 / 2) + w


def normal_likelihood(y, prior, x):
    """Log p(y | mu_plant = x) and E[sigma2_plant <= .], by a dense sum over log sigma2_plant."""
    w = np.linspace(-12, 60, 1500)
    squares = ((y[:, None] - x) ** 2).sum(axis=0)
    terms = (
        -0.5 * len(y) * (np.log(2 * np.pi) + w)
        - 0.5 * squares[:, None] * np.exp(-w)
        + log_inverse_chi_square(w, prior.sigma2_plant_nu, prior.sigma2_plant_scale)
    )
    return special.logsumexp(terms, axis=1) + np.log(w[1] - w[0])


def poisson_likelihood(y, prior, x):
    del prior
    return stats.poisson.logpmf(y[:, None], np.exp(np.minimum(x, 300))).sum(axis=0)


def sinh_grid(scale, reach, num):
    """Points scale (1 + sinh t), t even within ±reach, and their weights scale cosh(t) dt."""
    t = np.linspace(-reach, reach, num)
    return scale * (1 + np.sinh(t)), scale * np.cosh(t) * (t[1] - t[0])


def brute_force(groups, prior, likelihood, x_scale):
    """Posterior of (mu, log sigma2) and of each plant's x, on plain grids; no adaptation at all."""
    mu, mu_weight = sinh_grid(x_scale, 6, 241)
    x, x_weight = sinh_grid(x_scale, 9, 1201)
    u = np.linspace(-4.5, 24, 150)
    logs = np.stack([likelihood(y, prior, x) for y in groups], axis=1)
    scaled = np.exp(logs - logs.max(axis=0)) * x_weight[:, None]
    joint = np.empty((u.size, mu.size))
    integrals = np.empty((u.size, mu.size, len(groups)))
    for i, one in enumerate(u):
        kernel = stats.norm.pdf((x - mu[:, None]) / np.exp(one / 2)) / np.exp(one / 2)
        integrals[i] = kernel @ scaled
        joint[i] = np.log(np.maximum(integrals[i], 1e-300)).sum(axis=1) + logs.max(axis=0).sum()
    joint += log_inverse_chi_square(u, prior.sigma2_nu, prior.sigma2_scale)[:, None]
    joint += stats.norm.logpdf(mu, prior.mu_mean, prior.mu_sd) + np.log(mu_weight)
    log_evidence = special.logsumexp(joint) + np.log(u[1] - u[0])
    weights = np.exp(joint - special.logsumexp(joint))
    plant = np.zeros((len(groups), x.size))
    for i, one in enumerate(u):
        kernel = stats.norm.pdf((x - mu[:, None]) / np.exp(one / 2)) / np.exp(one / 2)
        rest = weights[i][:, None] / np.maximum(integrals[i], 1e-300)
        plant += (kernel.T @ rest * scaled).T
    return {
        "log_evidence": log_evidence,
        "mu": (mu, weights.sum(axis=0)),
        "sigma2": (u, weights.sum(axis=1)),
        "plants": [(x, one) for one in plant],
    }


def quantiles_of(grid, mass, p):
    """Quantiles from trapezoidal masses, whose sum the spline turns into an integral."""
    index = np.arange(mass.size)
    cdf = interpolate.CubicSpline(index, mass).antiderivative()
    at = np.linspace(0, index[-1], 40 * mass.size)
    where = np.interp(p * cdf(index[-1]), cdf(at), at)
    return interpolate.CubicSpline(index, grid)(where)


def assert_close(found, others):
    """Within 1e-4 of the quantiles' own spread."""
    assert np.max(np.abs(found - others)) <= 1e-4 * (others[-1] - others[0])


def check_against_brute_force(fit, likelihood, groups, prior, x_scale):
    posterior = fit(groups, prior)
    reference = brute_force(groups, prior, likelihood, x_scale)
    poisson = likelihood is poisson_likelihood
    assert posterior.log_evidence == pytest.approx(reference["log_evidence"], abs=2e-5)
    assert posterior.refinement <= 1e-5
    assert_close(posterior.quantile("mu", P), quantiles_of(*reference["mu"], P))  # type: ignore[call-arg]
    assert_close(np.log(posterior.quantile("sigma2", P)), quantiles_of(*reference["sigma2"], P))  # type: ignore[call-arg]
    for p, one in enumerate(reference["plants"]):
        found = posterior.quantile("mu_plant", P)[:, p]
        assert_close(np.log(found) if poisson else found, quantiles_of(*one, P))  # type: ignore[call-arg]


BRUTE = [
    (fit_normal_model, normal_likelihood, LECTURE, DEFAULT, 5.0),
    (fit_normal_model, normal_likelihood, UNBALANCED, PROPER, 4.0),
    (fit_poisson_model, poisson_likelihood, LECTURE, DEFAULT, 1.5),
    (fit_poisson_model, poisson_likelihood, ZEROS, MultilevelPrior(0, 3, 4, 1), 1.0),
]


@pytest.mark.parametrize(("fit", "likelihood", "groups", "prior", "x_scale"), BRUTE)
def test_against_brute_force(fit, likelihood, groups, prior, x_scale):
    check_against_brute_force(fit, likelihood, groups, prior, x_scale)


def test_negative_control_one_degree_of_freedom(monkeypatch):
    right = NormalPlants._log_h
    monkeypatch.setattr(
        NormalPlants, "_log_h", lambda self, w, block: right(self, w, block) - w / 2
    )
    with pytest.raises(AssertionError):
        check_against_brute_force(*BRUTE[0])


def test_negative_control_jacobian_of_sigma2(monkeypatch):
    right = PoissonPlants.sum_log_integrals
    monkeypatch.setattr(
        PoissonPlants,
        "sum_log_integrals",
        lambda self, mu, u: right(self, mu, u) + self.size * u[:, None] / 3,
    )
    with pytest.raises(AssertionError):
        check_against_brute_force(*BRUTE[2])


def gibbs(y, prior, num_chains, num_iter, rng):
    """The conjugate Gibbs sampler of BDA3 section 11.6, many chains at once."""
    mean, ss, num = y.mean(axis=1), ((y - y.mean(axis=1, keepdims=True)) ** 2).sum(1), y.shape[1]
    mu, sigma2 = np.full(num_chains, y.mean()), np.full(num_chains, 5.0)
    plant_var = np.tile(ss / num + 1, (num_chains, 1))
    for _ in range(num_iter):
        precision = num / plant_var + 1 / sigma2[:, None]
        plant = (num * mean / plant_var + (mu / sigma2)[:, None]) / precision
        plant += rng.normal(size=plant.shape) / np.sqrt(precision)
        plant_var = (ss + num * (mean - plant) ** 2) / rng.chisquare(num - 2, plant.shape)
        precision = len(mean) / sigma2 + prior.mu_sd**-2
        mu = plant.sum(1) / sigma2 / precision + rng.normal(size=num_chains) / np.sqrt(precision)
        squares = prior.sigma2_nu * prior.sigma2_scale**2 + ((plant - mu[:, None]) ** 2).sum(1)
        sigma2 = squares / rng.chisquare(prior.sigma2_nu + len(mean), num_chains)
    return {"mu": mu, "sigma2": sigma2, "mu_plant": plant, "sigma2_plant": plant_var}


def check_against_gibbs(posterior):
    """Each quantile's share of 40,000 independent chains, within 4.5 standard errors."""
    draws = gibbs(np.array(LECTURE), DEFAULT, 40_000, 150, np.random.default_rng(31))
    for name, values in draws.items():
        share = np.mean(values[None] <= posterior.quantile(name, P)[:, None], axis=1)
        error = np.abs(share - (P if share.ndim == 1 else P[:, None]))
        assert np.all(error <= 4.5 * np.sqrt(0.25 / 40_000))


def test_all_marginals_against_a_gibbs_sampler():
    check_against_gibbs(fit_normal_model(LECTURE, DEFAULT))


def test_negative_control_gibbs_sees_another_prior():
    with pytest.raises(AssertionError):
        check_against_gibbs(fit_normal_model(LECTURE, MultilevelPrior(sigma2_scale=2.2)))


def test_moments_agree_with_the_marginals():
    posterior = fit_normal_model(UNBALANCED, PROPER)
    for name in posterior.names:
        grid, density = posterior.marginal(name)
        grid, density = np.atleast_2d(grid), np.atleast_2d(density)
        mass = np.trapezoid(density, grid, axis=1)
        mean = np.trapezoid(grid * density, grid, axis=1)
        np.testing.assert_allclose(mass, 1, rtol=2e-3)
        good = ~np.isnan(np.atleast_1d(posterior.mean(name)))
        np.testing.assert_allclose(mean[good], np.atleast_1d(posterior.mean(name))[good], rtol=2e-2)


def test_moments_that_do_not_exist():
    posterior = fit_normal_model(LECTURE, DEFAULT)
    assert np.isfinite(posterior.mean("sigma2"))
    assert np.isnan(posterior.sd("sigma2"))
    assert np.all(np.isnan(posterior.mean("sigma2_plant")))
    assert "sigma2_plant has no posterior mean for plant 1, 2, 3" in posterior.missing_moments["sigma2_plant", "mean"]  # fmt: skip  # noqa: E501
    zeros = fit_poisson_model([np.zeros(2), np.zeros(3), np.ones(2)], DEFAULT)
    assert np.isnan(zeros.mean("sigma2"))
    assert np.all(np.isfinite(zeros.mean("mu_plant")))


def test_a_plant_without_data_is_predicted():
    data = SufficientStatistics([4, 0, 4], [5, 0, 8], [3, 0, 8])
    posterior = exact_multilevel_normal(data, PROPER, plants=["a", "b", "c"])
    sigma2_plant = stats.invgamma(1.0, scale=2.0 * 1.2**2 / 2)
    np.testing.assert_allclose(
        posterior.quantile("sigma2_plant", P)[:, 1], sigma2_plant.ppf(P), rtol=1e-4
    )
    assert posterior.sd("mu_plant")[1] > posterior.sd("mu_plant")[0]
    # mu_plant[b] is N(mu, sigma2) given the others, so its variance is var mu + E sigma2.
    expected = posterior.sd("mu") ** 2 + posterior.mean("sigma2")
    assert posterior.sd("mu_plant")[1] ** 2 == pytest.approx(float(expected), rel=1e-4)


def test_narrow_priors_pool_completely():
    """With sigma2 near zero there is one mean: plants are samples of different variance."""
    posterior = fit_normal_model(LECTURE, MultilevelPrior(sigma2_nu=1e3, sigma2_scale=5e-3))
    assert_close(posterior.quantile("mu_plant", P)[:, 1], posterior.quantile("mu", P))


ERRORS = [
    (lambda: exact_multilevel_normal(SufficientStatistics([2], [0], [1])), DataError,
     "plant 1: 2 observations leave sigma2_plant without a proper posterior"),
    (lambda: exact_multilevel_normal(SufficientStatistics([4], [0], [0]), plants=["rose"]),
     DataError, "plant rose: all observations are equal"),
    (lambda: exact_multilevel_normal(SufficientStatistics(4, 0, 1)), DataError, "entry a plant"),
    (lambda: exact_multilevel_poisson([1, 2.5], [1, 1]), DataError, r"y\[1\] is 2.5, but must be"),
    (lambda: exact_multilevel_poisson([1, -2], [1, 1]), DataError, r"y\[1\] is -2.0"),
    (lambda: exact_multilevel_poisson([1, np.nan], [1, 1]), DataError, r"y\[1\] is nan"),
    (lambda: exact_multilevel_poisson([], []), DataError, "y is empty"),
    (lambda: exact_multilevel_poisson([1, 2], [1]), DataError, "give one each"),
    (lambda: fit_poisson_model(LECTURE, DEFAULT).mean("sigma2_plant"), ConfigError,
     "no parameter 'sigma2_plant', it has mu, sigma2, mu_plant"),
    (lambda: fit_poisson_model(LECTURE, DEFAULT).quantile("mu", 2), ConfigError, "p is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.slow
def test_a_few_dozen_plants():
    rng = np.random.default_rng(4)
    sizes = rng.integers(3, 30, 36)
    groups = [rng.normal(m, 2, n) for m, n in zip(rng.normal(5, 2, 36), sizes, strict=True)]
    assert fit_normal_model(groups, DEFAULT).refinement <= 1e-5
    counts = [np.floor(np.abs(y)) for y in groups]
    assert fit_poisson_model(counts, DEFAULT).refinement <= 1e-5
