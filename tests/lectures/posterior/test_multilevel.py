"""The multilevel posteriors: quadrature against brute force, and independent draws against it."""

import functools

import numpy as np
import pytest
from scipy import interpolate, special, stats

from pyflowers.errors import ConfigError, DataError, FitError
from pyflowers.exact import (
    NormalExact,
    NormalSampler,
    PoissonSampler,
    draw_normal,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.lectures.posterior import poisson_plants
from pyflowers.lectures.posterior.hyper import Density, HyperSampler
from pyflowers.lectures.posterior.normal_plants import NormalPlants
from pyflowers.lectures.posterior.poisson_plants import PoissonPlants
from pyflowers.vb import MultilevelPrior, NormalPrior, SufficientStatistics

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
    """Return the log density of w = log v; v is scaled inverse chi-square or has a flat density."""
    if nu <= 0:
        return w
    return stats.invgamma.logpdf(np.exp(w), nu / 2, scale=nu * scale**2 / 2) + w


def normal_likelihood(y, prior, x):
    """Return log p(y | mu_plant = x), by a dense sum over log sigma2_plant."""
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
    """Return points scale (1 + sinh t), with t even within ±reach, and weights scale cosh(t) dt."""
    t = np.linspace(-reach, reach, num)
    return scale * (1 + np.sinh(t)), scale * np.cosh(t) * (t[1] - t[0])


def brute_force(groups, prior, likelihood, x_scale):
    """Return the posterior of (mu, log sigma2) and of each plant's x, on grids without adapting."""
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
    """Return quantiles from the masses of a trapezoidal grid, which a spline integrates."""
    index = np.arange(mass.size)
    cdf = interpolate.CubicSpline(index, mass).antiderivative()
    at = np.linspace(0, index[-1], 40 * mass.size)
    where = np.interp(p * cdf(index[-1]), cdf(at), at)
    return interpolate.CubicSpline(index, grid)(where)


def assert_close(found, others):
    """Check that quantiles differ by at most 1e-4 of their spread."""
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


@pytest.mark.slow
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
    """Run the conjugate Gibbs sampler of BDA3 section 11.6, with many parallel chains."""
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
    """Check the share of 40,000 independent chains below each quantile, within 4.5 errors."""
    draws = gibbs(np.array(LECTURE), DEFAULT, 40_000, 150, np.random.default_rng(31))
    for name, values in draws.items():
        share = np.mean(values[None] <= posterior.quantile(name, P)[:, None], axis=1)
        error = np.abs(share - (P if share.ndim == 1 else P[:, None]))
        assert np.all(error <= 4.5 * np.sqrt(0.25 / 40_000))


@pytest.mark.quick
def test_all_marginals_against_a_gibbs_sampler():
    check_against_gibbs(fit_normal_model(LECTURE, DEFAULT))


@pytest.mark.quick
def test_negative_control_gibbs_sees_another_prior():
    with pytest.raises(AssertionError):
        check_against_gibbs(fit_normal_model(LECTURE, MultilevelPrior(sigma2_scale=2.2)))


@pytest.mark.quick
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


@pytest.mark.quick
def test_moments_that_do_not_exist():
    posterior = fit_normal_model(LECTURE, DEFAULT)
    assert np.isfinite(posterior.mean("sigma2"))
    assert np.isnan(posterior.sd("sigma2"))
    assert np.all(np.isnan(posterior.mean("sigma2_plant")))
    assert "sigma2_plant has no posterior mean for plants 1, 2, 3" in posterior.missing_moments["sigma2_plant", "mean"]  # fmt: skip  # noqa: E501
    zeros = fit_poisson_model([np.zeros(2), np.zeros(3), np.ones(2)], DEFAULT)
    assert np.isnan(zeros.mean("sigma2"))
    assert np.all(np.isfinite(zeros.mean("mu_plant")))


@pytest.mark.quick
def test_a_plant_without_data_is_predicted():
    data = SufficientStatistics([4, 0, 4], [5, 0, 8], [3, 0, 8])
    posterior = exact_multilevel_normal(data, PROPER, plants=["a", "b", "c"])
    sigma2_plant = stats.invgamma(1.0, scale=2.0 * 1.2**2 / 2)
    np.testing.assert_allclose(
        posterior.quantile("sigma2_plant", P)[:, 1], sigma2_plant.ppf(P), rtol=1e-4
    )
    assert posterior.sd("mu_plant")[1] > posterior.sd("mu_plant")[0]
    # Given mu and sigma2, mu_plant[b] is N(mu, sigma2), so its variance is var mu + E sigma2.
    expected = posterior.sd("mu") ** 2 + posterior.mean("sigma2")
    assert posterior.sd("mu_plant")[1] ** 2 == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.quick
def test_narrow_priors_pool_completely():
    """With sigma2 near zero there is one mean, and plants are samples with different variances."""
    posterior = fit_normal_model(LECTURE, MultilevelPrior(sigma2_nu=1e3, sigma2_scale=5e-3))
    assert_close(posterior.quantile("mu_plant", P)[:, 1], posterior.quantile("mu", P))


@pytest.mark.slow
def test_a_few_dozen_plants():
    rng = np.random.default_rng(4)
    sizes = rng.integers(3, 30, 36)
    groups = [rng.normal(m, 2, n) for m, n in zip(rng.normal(5, 2, 36), sizes, strict=True)]
    assert fit_normal_model(groups, DEFAULT).refinement <= 1e-5
    counts = [np.floor(np.abs(y)) for y in groups]
    assert fit_poisson_model(counts, DEFAULT).refinement <= 1e-5


NUM = 40_000
TAILS = np.array([0.05, 0.5, 0.95])
LECTURE_ROWS = ([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8])
UNBALANCED_ROWS = ([4, 5, 6, 4, 9, 1], [2], [8, 8, 8], [1, 7])
ZERO_ROWS = ([0, 0, 0], [3, 1], [2, 0, 1, 1, 4])
NOTHING = ([0, 0, 0], [0, 0])
ONE_PLANT = ([4, 5, 6, 4],)
ONE_MONTH = ([4], [2], [8])
FAR = MultilevelPrior(-30.0, 1.0, 5.0, 0.1)
FAR_PROPER = MultilevelPrior(-30.0, 1.0, 5.0, 0.1, 3.0, 1.0)
TIGHT = MultilevelPrior(0, 3, 4, 1)

CASES = {
    "normal, lecture": ("normal", LECTURE_ROWS, DEFAULT),
    "normal, unbalanced": ("normal", UNBALANCED_ROWS, PROPER),
    "normal, one plant": ("normal", ONE_PLANT, PROPER),
    "normal, one plant, flat": ("normal", ONE_PLANT, MultilevelPrior(0, 20, 3, 2)),
    "normal, one month": ("normal", ONE_MONTH, PROPER),
    "normal, far prior": ("normal", LECTURE_ROWS, FAR_PROPER),
    "poisson, lecture": ("poisson", LECTURE_ROWS, DEFAULT),
    "poisson, unbalanced": ("poisson", UNBALANCED_ROWS, DEFAULT),
    "poisson, zeros": ("poisson", ZERO_ROWS, TIGHT),
    "poisson, nothing but zeros": ("poisson", NOTHING, TIGHT),
    "poisson, one plant": ("poisson", ONE_PLANT, DEFAULT),
    "poisson, one month": ("poisson", ONE_MONTH, DEFAULT),
    "poisson, far prior": ("poisson", LECTURE_ROWS, FAR),
}


@functools.cache
def quadrature(case):
    model, groups, prior = CASES[case]
    return {"poisson": fit_poisson_model, "normal": fit_normal_model}[model](groups, prior)


def sampler(case):
    model, groups, prior = CASES[case]
    if model == "poisson":
        totals, counts = [sum(y) for y in groups], [len(y) for y in groups]
        log_factorials = special.gammaln(flatten(groups)[0] + 1.0).sum()
        return PoissonSampler(totals, counts, prior, log_factorials)
    return NormalSampler(SufficientStatistics.from_groups(*flatten(groups))[0], prior)


def draw(case, num_draws=NUM, seed=1):
    return sampler(case).draw(num_draws, np.random.default_rng(seed))


def check_quantiles(draws, posterior):
    """Check the shares of draws below the exact quantiles, within 4 standard errors."""
    for name, values in draws.items():
        quantiles = posterior.quantile(name, TAILS)[:, None]
        share = np.mean(values[None] <= quantiles, axis=1)
        p = TAILS.reshape((-1,) + (1,) * (share.ndim - 1))
        assert np.all(np.abs(share - p) <= 4 * np.sqrt(p * (1 - p) / len(values))), name


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_quantiles(case):
    posterior = quadrature(case)
    result = draw(case)
    assert set(result.draws) == set(posterior.names)
    check_quantiles(result.draws, posterior)
    assert sampler(case).log_evidence == pytest.approx(posterior.log_evidence, abs=1e-4)
    assert result.diagnostics["hyper_acceptance"] > 0.5
    assert result.diagnostics["plant_acceptance"] > 0.25
    assert result.diagnostics["largest_excess"] <= 1e-6


@pytest.mark.quick
def test_hyperparameters_jointly():
    """Compare E[tanh(mu) tanh(log sigma2)], both centred, with the grid, to detect correlation."""
    for case in ("normal, unbalanced", "poisson, zeros", "poisson, one month"):
        posterior, draws = quadrature(case), draw(case).draws
        grid = posterior.grid
        (low, mid, high) = posterior.quantile("mu", TAILS)
        middle = np.log(posterior.quantile("sigma2", 0.5))

        def both(mu, u, mid=mid, width=high - low, middle=middle):
            return np.tanh(4 * (mu - mid) / width) * np.tanh(u - middle)

        expected = float((grid.weights * both(grid.mu, grid.u[:, None])).sum())
        seen = both(draws["mu"], np.log(draws["sigma2"]))
        assert abs(seen.mean() - expected) <= 4 * seen.std() / np.sqrt(NUM)


def ranks_of_rates(draws, groups):
    """Return each draw's and plant's distribution function of log mu_plant given mu and sigma2."""
    x = np.linspace(-15, 6, 2001)
    result = []
    for p, y in enumerate(groups):
        log_f = sum(y) * x - len(y) * np.exp(x)
        log_f = log_f - (x - draws["mu"][:, None]) ** 2 / (2 * draws["sigma2"][:, None])
        f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
        cdf = np.cumsum(0.5 * (f[:, 1:] + f[:, :-1]), axis=1)
        at = np.log(draws["mu_plant"][:, p])
        result.append([np.interp(a, x[1:], c / c[-1]) for a, c in zip(at, cdf, strict=True)])
    return np.transpose(result)


def check_ranks(ranks, others):
    """Check that ranks are uniform and uncorrelated with each other and with `others`."""
    for column in ranks.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
    columns = np.column_stack([ranks, *others])
    correlation = stats.spearmanr(columns).statistic
    num = ranks.shape[1]
    off = [abs(correlation[i, j]) for i in range(num) for j in range(i + 1, columns.shape[1])]
    assert max(off) < 4.5 / np.sqrt(len(ranks))


@pytest.mark.quick
def test_plants_given_mu_and_sigma2():
    draws = draw("poisson, zeros", 4000).draws
    others = (draws["mu"], draws["sigma2"])
    check_ranks(ranks_of_rates(draws, ZERO_ROWS), others)
    # Negative control: plants of the previous draw have the right marginals, but fail.
    lagged = draws | {"mu_plant": np.roll(draws["mu_plant"], 1, axis=0)}
    with pytest.raises(AssertionError):
        check_ranks(ranks_of_rates(lagged, ZERO_ROWS), others)


def test_normal_plants_given_all_else():
    draws = draw("normal, unbalanced", 4000).draws
    data = SufficientStatistics.from_groups(*flatten(UNBALANCED_ROWS))[0]
    mu, sigma2 = draws["mu"][:, None], draws["sigma2"][:, None]
    precision = data.num / draws["sigma2_plant"] + 1 / sigma2
    mean = (data.num * data.mean / draws["sigma2_plant"] + mu / sigma2) / precision
    z = (draws["mu_plant"] - mean) * np.sqrt(precision)
    others = (draws["mu"], draws["sigma2"], draws["sigma2_plant"])
    check_ranks(special.ndtr(z), others)
    nu, scale = PROPER.sigma2_plant_nu, PROPER.sigma2_plant_scale
    squares = data.ss + data.num * (data.mean - draws["mu_plant"]) ** 2 + nu * scale**2
    given = stats.chi2.sf(squares / draws["sigma2_plant"], data.num + nu)
    check_ranks(given, (draws["mu"], draws["sigma2"], draws["mu_plant"]))


@pytest.mark.parametrize("case", ["normal, lecture", "poisson, zeros"])
def test_draws_are_independent_of_each_other(case):
    for values in draw(case).draws.values():
        columns = stats.rankdata(values.reshape(NUM, -1), axis=0) / NUM - 0.5
        lagged = 12 * np.mean(columns[1:] * columns[:-1], axis=0)
        assert np.all(np.abs(lagged) <= 4 / np.sqrt(NUM))


# Planted bugs, which the same check must detect.


def planted(monkeypatch, target, name, bug):
    monkeypatch.setattr(target, name, bug(getattr(target, name)))


BUGS = {
    "the Jacobian of log sigma2 is lost": (
        Density, "log_prior", lambda f: lambda self, t, u: f(self, t, u) - u,
    ),
    "the Jacobian of t is lost": (
        Density, "log_slope", lambda f: lambda self, t, u: 0 * f(self, t, u),
    ),
    "sigma for sigma2 in the plants' integrals": (
        poisson_plants, "_log_integrals", lambda f: lambda n, s, mu, u: f(n, s, mu, 0.5 * u),
    ),
    "sigma for sigma2 in the plants' conditionals": (
        HyperSampler, "draw", lambda f: lambda self, n, rng: _with_root(f(self, n, rng)),
    ),
}  # fmt: skip


def _with_root(hyper):
    object.__setattr__(hyper, "sigma2", np.sqrt(hyper.sigma2))
    return hyper


@pytest.mark.parametrize("bug", BUGS)
def test_negative_control_of_draws(bug, monkeypatch):
    case = "poisson, zeros"  # where rates of plants depend on sigma2
    posterior = quadrature(case)
    planted(monkeypatch, *BUGS[bug])
    draws = draw(case).draws
    if "conditionals" in bug:
        draws.pop("sigma2")
    with pytest.raises(AssertionError):
        check_quantiles(draws, posterior)


@pytest.mark.parametrize("model", ["poisson", "normal"])
def test_without_any_months_mu_and_sigma2_are_their_priors(model):
    none, rng = np.zeros(3), np.random.default_rng(1)
    prior = MultilevelPrior(1.0, 2.0, 3.0, 1.5, 2.0, 1.2)
    if model == "poisson":
        draws = PoissonSampler(none, none, prior).draw(NUM, rng).draws
    else:
        statistics = SufficientStatistics(none, none, none)
        draws = NormalSampler(statistics, prior).draw(NUM, rng).draws
    assert stats.kstest((draws["mu"] - 1.0) / 2.0, "norm").pvalue > 1e-4
    assert stats.kstest(3.0 * 1.5**2 / draws["sigma2"], "chi2", (3.0,)).pvalue > 1e-4


# One normal distribution

NORMAL_CASES = [
    ([4, 5, 6, 4, 0, 2, 5, 3], NormalPrior()),
    ([4, 5, 6, 4, 0, 2, 5, 3], NormalPrior(50, 0.5, 1, 2)),
    ([4, 5, 6, 4], NormalPrior(0, np.inf, 0, 0)),
    ([4, 5, 6, 4], NormalPrior(0, 10, 0, 0)),
    ([3], NormalPrior(0, 1, 3, 1)),
    ([], NormalPrior(0, 1, 3, 1)),
    (np.random.default_rng(3).normal(1e6, 1e-3, 500), NormalPrior(1e6, 1, 1, 1)),
    ([1e-7, 3e-7, 2e-7], NormalPrior(0, 1e-7, 1, 1e-7)),
]


@pytest.mark.parametrize(("x", "prior"), NORMAL_CASES)
def test_normal_quantiles(x, prior):
    result = draw_normal(x, prior, NUM, np.random.default_rng(2), location="mu")
    posterior = NormalExact(x, prior, location="mu")
    assert result.log_evidence == posterior.log_evidence
    check_quantiles(result.draws, posterior)


def test_negative_control_normal_sees_another_scale():
    x, prior = NORMAL_CASES[0]
    draws = draw_normal(x, NormalPrior(sigma0=2.3), NUM, np.random.default_rng(2)).draws
    with pytest.raises(AssertionError):
        check_quantiles(draws, NormalExact(x, prior))


# Interface


def simulated(num_plants, num_months, seed=4):
    rng = np.random.default_rng(seed)
    counts = np.full(num_plants, float(num_months))
    return rng.poisson(counts * np.exp(rng.normal(1.5, 0.8, num_plants))).astype(float), counts


def test_same_seed_same_draws():
    for case in ("normal, lecture", "poisson, lecture"):
        one, again, other = draw(case, 100).draws, draw(case, 100).draws, draw(case, 100, 2).draws
        for name in one:
            np.testing.assert_array_equal(one[name], again[name])
            assert np.all(one[name] != other[name])


def test_blocks_are_the_draws():
    totals, counts = simulated(2000, 5)
    whole = PoissonSampler(totals, counts).draw(100, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    one = PoissonSampler(totals, counts)
    hyper = one.draw_hyper(100, rng)
    seen = 0
    for plants, block in one.blocks(hyper, rng):
        np.testing.assert_array_equal(block["mu_plant"], whole.draws["mu_plant"][:, plants])
        seen += block["mu_plant"].shape[1]
    assert seen == 2000
    np.testing.assert_array_equal(hyper.mu, whole.draws["mu"])


def check_many(draws, rate, se):
    """Check that plants' posterior means recover the true ones, with z scores of unit variance."""
    z = (np.log(draws["mu_plant"]).mean(axis=0) - np.log(rate)) / se(draws)
    assert abs(np.mean(z)) <= 4 / np.sqrt(z.size)
    assert abs(np.var(z) - 1) <= 4 * np.sqrt(2 / z.size)


def test_many_plants_cover_the_truth():
    """The scouts and Newton's method find the peak; posterior and truth agree on average."""
    rng = np.random.default_rng(9)
    rate = np.exp(rng.normal(1.5, 0.8, 3000))
    counts = np.full(3000, 20.0)
    totals = rng.poisson(counts * rate).astype(float)
    draws = PoissonSampler(totals, counts).draw(400, rng).draws
    check_many(draws, rate, lambda d: np.log(d["mu_plant"]).std(axis=0))
    assert abs(draws["mu"].mean() - 1.5) <= 4 * draws["mu"].std()
    assert abs(np.log(draws["sigma2"] / 0.64).mean()) <= 4 * np.log(draws["sigma2"]).std()
    with pytest.raises(AssertionError):  # the variance instead of the sd
        check_many(draws, rate, lambda d: np.log(d["mu_plant"]).var(axis=0))


def test_many_plants_against_few_scouts(monkeypatch):
    """Draws have the same distribution whether all plants or only some locate the region."""
    totals, counts = simulated(400, 3)
    some = PoissonSampler(totals, counts)
    monkeypatch.setattr("pyflowers.lectures.posterior.hyper._SCOUTS", 10_000)
    all_plants = PoissonSampler(totals, counts)
    assert some.log_evidence == pytest.approx(all_plants.log_evidence, abs=1e-4)
    first, second = (s.draw_hyper(NUM, np.random.default_rng(1)) for s in (some, all_plants))
    for name in ("mu", "sigma2"):
        assert stats.ks_2samp(getattr(first, name), getattr(second, name)).pvalue > 1e-4


def test_an_outlier_among_many_plants():
    """A single plant has a thousand times as many flowers as any other."""
    totals, counts = simulated(300, 4)
    totals[17] = 4e6
    draws = PoissonSampler(totals, counts).draw(500, np.random.default_rng(1)).draws
    np.testing.assert_allclose(draws["mu_plant"][:, 17].mean(), 1e6, rtol=1e-3)


def test_large_counts():
    totals, counts = np.array([4e12, 5e12, 3e12]), np.array([4.0, 4.0, 4.0])
    draws = PoissonSampler(totals, counts).draw(2000, np.random.default_rng(1)).draws
    z = (draws["mu_plant"] * counts - totals) / np.sqrt(totals)
    assert stats.kstest(z[:, 0], "norm").pvalue > 1e-4


def test_a_plant_without_months_is_predicted():
    draws = PoissonSampler([19, 0, 32], [4, 0, 4], TIGHT).draw(NUM, np.random.default_rng(1)).draws
    z = (np.log(draws["mu_plant"][:, 1]) - draws["mu"]) / np.sqrt(draws["sigma2"])
    assert stats.kstest(z, "norm").pvalue > 1e-4
    data = SufficientStatistics([4, 0, 4], [5, 0, 8], [3, 0, 8])
    variance = NormalSampler(data, PROPER).draw(NUM, np.random.default_rng(1)).draws
    prior = stats.invgamma(1.0, scale=2.0 * 1.2**2 / 2)
    assert stats.kstest(variance["sigma2_plant"][:, 1], prior.cdf).pvalue > 1e-4


def rng():
    return np.random.default_rng(0)


ERRORS = [
    (lambda: exact_multilevel_normal(SufficientStatistics([2], [0], [1])), DataError,
     r"plant 1: too few observations \(2\) for a proper posterior of sigma2_plant"),
    (lambda: exact_multilevel_normal(SufficientStatistics([4], [0], [0]), plants=["rose"]),
     DataError, "plant rose: all observations are equal"),
    (lambda: exact_multilevel_normal(SufficientStatistics(4, 0, 1)), DataError, "entry per plant"),
    (lambda: exact_multilevel_poisson([1, 2.5], [1, 1]), DataError, r"y\[1\] is 2.5, but must be"),
    (lambda: exact_multilevel_poisson([1, -2], [1, 1]), DataError, r"y\[1\] is -2.0"),
    (lambda: exact_multilevel_poisson([1, np.nan], [1, 1]), DataError, r"y\[1\] is nan"),
    (lambda: exact_multilevel_poisson([], []), DataError, "y is empty"),
    (lambda: exact_multilevel_poisson([1, 2], [1]), DataError, "one label per value"),
    (lambda: fit_poisson_model(LECTURE, DEFAULT).mean("sigma2_plant"), ConfigError,
     "no parameter 'sigma2_plant'; it has mu, sigma2, mu_plant"),
    (lambda: fit_poisson_model(LECTURE, DEFAULT).quantile("mu", 2), ConfigError, "p is 2"),
    (lambda: PoissonSampler([1, 2], [1]).draw(5, rng()), DataError, "one entry per plant"),
    (lambda: PoissonSampler([], []).draw(5, rng()), DataError, "one entry per plant"),
    (lambda: PoissonSampler([1, 2.5], [1, 1]).draw(5, rng()), DataError,
     r"totals\[1\] is 2.5, but must be a whole number"),
    (lambda: PoissonSampler([1, 2], [1, -1]).draw(5, rng()), DataError, r"counts\[1\]"),
    (lambda: PoissonSampler([1, 2], [1, 0]).draw(5, rng()), DataError, "no months"),
    (lambda: PoissonSampler([1, 2], [1, 1]).draw(0, rng()), ConfigError,
     "num_draws must be a whole"),
    (lambda: NormalSampler(SufficientStatistics([2], [0], [1])).draw(5, rng()),
     DataError, r"plant 1: too few observations \(2\) for a proper posterior of sigma2_plant"),
    (lambda: NormalSampler(SufficientStatistics([3, 3], [1e7, 5], [9, 2])).draw(5, rng()),
     FitError, "too irregular for independent draws: use NUTS instead"),
    (lambda: draw_normal([[1.0, 2.0]], None, 5, rng()), DataError, "one data set"),
    (lambda: draw_normal([1.0, 2.0], NormalPrior(mu0=np.zeros(2)), 5, rng()), ConfigError,
     "prior contains arrays"),
    (lambda: draw_normal([1.0, 2.0], None, 0, rng()), ConfigError, "num_draws must be a whole"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
