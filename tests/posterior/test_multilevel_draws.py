"""Independent draws against the quadrature, their own conditionals, and by simulation."""

import functools

import numpy as np
import pytest
from scipy import special, stats

from pyflowers.errors import ConfigError, DataError
from pyflowers.exact import (
    NormalExact,
    NormalSampler,
    PoissonSampler,
    draw_normal,
    exact_multilevel_normal,
    exact_multilevel_poisson,
)
from pyflowers.posterior import poisson_plants
from pyflowers.posterior.hyper import Density, HyperSampler
from pyflowers.vb import MultilevelPrior, NormalPrior, SufficientStatistics

NUM = 40_000
P = np.array([0.05, 0.5, 0.95])
LECTURE = ([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8])
UNBALANCED = ([4, 5, 6, 4, 9, 1], [2], [8, 8, 8], [1, 7])
ZEROS = ([0, 0, 0], [3, 1], [2, 0, 1, 1, 4])
NOTHING = ([0, 0, 0], [0, 0])
ONE_PLANT = ([4, 5, 6, 4],)
ONE_MONTH = ([4], [2], [8])
DEFAULT = MultilevelPrior()
PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)
FAR = MultilevelPrior(-30.0, 1.0, 5.0, 0.1)
FAR_PROPER = MultilevelPrior(-30.0, 1.0, 5.0, 0.1, 3.0, 1.0)
TIGHT = MultilevelPrior(0, 3, 4, 1)

CASES = {
    "normal, lecture": ("normal", LECTURE, DEFAULT),
    "normal, unbalanced": ("normal", UNBALANCED, PROPER),
    "normal, one plant": ("normal", ONE_PLANT, PROPER),
    "normal, one plant, flat": ("normal", ONE_PLANT, MultilevelPrior(0, 20, 3, 2)),
    "normal, one month": ("normal", ONE_MONTH, PROPER),
    "normal, far prior": ("normal", LECTURE, FAR_PROPER),
    "poisson, lecture": ("poisson", LECTURE, DEFAULT),
    "poisson, unbalanced": ("poisson", UNBALANCED, DEFAULT),
    "poisson, zeros": ("poisson", ZEROS, TIGHT),
    "poisson, nothing but zeros": ("poisson", NOTHING, TIGHT),
    "poisson, one plant": ("poisson", ONE_PLANT, DEFAULT),
    "poisson, one month": ("poisson", ONE_MONTH, DEFAULT),
    "poisson, far prior": ("poisson", LECTURE, FAR),
}


def flatten(groups):
    return np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(y) for y in groups])


@functools.cache
def quadrature(case):
    model, groups, prior = CASES[case]
    if model == "poisson":
        return exact_multilevel_poisson(*flatten(groups), prior)  # type: ignore[call-arg]
    return exact_multilevel_normal(SufficientStatistics.from_groups(*flatten(groups))[0], prior)


def sampler(case):
    model, groups, prior = CASES[case]
    if model == "poisson":
        totals = np.array([float(sum(y)) for y in groups])
        counts = np.array([float(len(y)) for y in groups])
        return PoissonSampler(
            totals, counts, prior, special.gammaln(flatten(groups)[0] + 1.0).sum()
        )
    return NormalSampler(SufficientStatistics.from_groups(*flatten(groups))[0], prior)


def draw(case, num_draws=NUM, seed=1):
    return sampler(case).draw(num_draws, np.random.default_rng(seed))


def check_quantiles(draws, posterior):
    """Shares below the exact quantiles, within 4 standard errors of an order statistic."""
    for name, values in draws.items():
        quantiles = posterior.quantile(name, P)[:, None]
        share = np.mean(values[None] <= quantiles, axis=1)
        p = P.reshape((-1,) + (1,) * (share.ndim - 1))
        assert np.all(np.abs(share - p) <= 4 * np.sqrt(p * (1 - p) / len(values))), name


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


def test_hyperparameters_jointly():
    """E[tanh(mu) tanh(log sigma2)] and the like, which see a correlation, against the grid."""
    for case in ("normal, unbalanced", "poisson, zeros", "poisson, one month"):
        posterior, draws = quadrature(case), draw(case).draws
        grid = posterior.grid
        (low, mid, high) = posterior.quantile("mu", P)
        middle = np.log(posterior.quantile("sigma2", 0.5))

        def both(mu, u, mid=mid, width=high - low, middle=middle):
            return np.tanh(4 * (mu - mid) / width) * np.tanh(u - middle)

        expected = float((grid.weights * both(grid.mu, grid.u[:, None])).sum())
        seen = both(draws["mu"], np.log(draws["sigma2"]))
        assert abs(seen.mean() - expected) <= 4 * seen.std() / np.sqrt(NUM)


def ranks_of_rates(draws, groups):
    """Distribution function of log mu_plant given mu and sigma2, at the draws, (draw, plant)."""
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
    """Uniform, and correlated neither with each other nor with what was given."""
    for column in ranks.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
    columns = np.column_stack([ranks, *others])
    correlation = stats.spearmanr(columns).statistic
    num = ranks.shape[1]
    off = [abs(correlation[i, j]) for i in range(num) for j in range(i + 1, columns.shape[1])]
    assert max(off) < 4.5 / np.sqrt(len(ranks))


def test_plants_given_mu_and_sigma2():
    draws = draw("poisson, zeros", 4000).draws
    others = (draws["mu"], draws["sigma2"])
    check_ranks(ranks_of_rates(draws, ZEROS), others)
    # Negative control: plants of the previous draw have the right marginals and fail.
    lagged = draws | {"mu_plant": np.roll(draws["mu_plant"], 1, axis=0)}
    with pytest.raises(AssertionError):
        check_ranks(ranks_of_rates(lagged, ZEROS), others)


def test_normal_plants_given_all_else():
    draws = draw("normal, unbalanced", 4000).draws
    data = SufficientStatistics.from_groups(*flatten(UNBALANCED))[0]
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


# Planted bugs: the same check must see them.


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
def test_negative_control(bug, monkeypatch):
    case = "poisson, zeros"  # where plants' rates depend on sigma2
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
    """The plants' posterior means recover what was simulated: z scores of unit variance."""
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
    with pytest.raises(AssertionError):  # variance for sd
        check_many(draws, rate, lambda d: np.log(d["mu_plant"]).var(axis=0))


def test_many_plants_against_few_scouts(monkeypatch):
    """The same draws, whether the region is found by all plants or by some."""
    totals, counts = simulated(400, 3)
    some = PoissonSampler(totals, counts)
    monkeypatch.setattr("pyflowers.posterior.hyper._SCOUTS", 10_000)
    all_plants = PoissonSampler(totals, counts)
    assert some.log_evidence == pytest.approx(all_plants.log_evidence, abs=1e-4)
    first, second = (s.draw_hyper(NUM, np.random.default_rng(1)) for s in (some, all_plants))
    for name in ("mu", "sigma2"):
        assert stats.ks_2samp(getattr(first, name), getattr(second, name)).pvalue > 1e-4


def test_an_outlier_among_many_plants():
    """One plant a thousand times as rich as all others."""
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
    (lambda: PoissonSampler([1, 2], [1]).draw(5, rng()), DataError, "one entry a plant"),
    (lambda: PoissonSampler([], []).draw(5, rng()), DataError, "one entry a plant"),
    (lambda: PoissonSampler([1, 2.5], [1, 1]).draw(5, rng()), DataError,
     r"totals\[1\] is 2.5, but must be a whole number"),
    (lambda: PoissonSampler([1, 2], [1, -1]).draw(5, rng()), DataError, r"counts\[1\]"),
    (lambda: PoissonSampler([1, 2], [1, 0]).draw(5, rng()), DataError, "no months"),
    (lambda: PoissonSampler([1, 2], [1, 1]).draw(0, rng()), ConfigError,
     "num_draws is 0"),
    (lambda: NormalSampler(SufficientStatistics([2], [0], [1])).draw(5, rng()),
     DataError, "plant 1: 2 observations leave sigma2_plant without a proper posterior"),
    (lambda: draw_normal([[1.0, 2.0]], None, 5, rng()), DataError, "one data set"),
    (lambda: draw_normal([1.0, 2.0], NormalPrior(mu0=np.zeros(2)), 5, rng()), ConfigError,
     "prior holds arrays"),
    (lambda: draw_normal([1.0, 2.0], None, 0, rng()), ConfigError, "num_draws is 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
