"""The multilevel normal model's closed form, each factor against its definition."""
# A factor is a Distribution, and which one the test knows.
# mypy: disable-error-code="attr-defined"

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pyflowers.exact import exact_multilevel_normal, kl_divergence
from pyflowers.posterior.mean_field import MultilevelModel
from pyflowers.vb import (
    MultilevelPrior,
    NotConvergedWarning,
    ScaledInvChiSquare,
    SufficientStatistics,
    fit_multilevel_normal,
)

LECTURE = [np.array(y, float) for y in ([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8])]
UNBALANCED = [np.array(y, float) for y in ([4, 5, 6, 4, 9, 1], [2.5], [8, 8, 8], [1, 7])]
PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)
CASES = [(LECTURE, MultilevelPrior()), (UNBALANCED, PROPER)]


def statistics(groups):
    labels = np.repeat(np.arange(len(groups)), [len(y) for y in groups])
    return SufficientStatistics.from_groups(np.concatenate(groups), labels)[0]


def mean_inverse(factor, p=None):
    """E[1/v] of a scaled inverse chi-square by numerical integration of SciPy's density."""
    dof, scale = ((f if p is None else f[p]) for f in (factor.dof, factor.scale))
    density = stats.invgamma(dof / 2, scale=dof * scale**2 / 2).pdf
    centre = np.log(scale**2)

    def integrand(u):
        return density(np.exp(u))  # times v from du, times 1/v

    return integrate.quad(integrand, centre - 8, centre + 90, points=[centre], limit=400,
                          epsabs=0, epsrel=1e-11)[0]  # fmt: skip


def expectation_normal(h, mean, sd):
    """E[h(x)], x normal, by Gauss-Hermite: exact for the quadratics that occur."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    return sum(w * h(mean + sd * z) for z, w in zip(nodes, weights, strict=True)) / np.sqrt(
        2 * np.pi
    )


def log_targets(groups, prior, q):
    """E[log p] as a function of each parameter, from the raw data; the last two of log values."""
    inverse, mu, mu_sd = mean_inverse(q["sigma2"]), q.mean("mu"), q.sd("mu")
    m, s = q.mean("mu_plant"), q.sd("mu_plant")

    def log_variance_prior(u, nu, scale):  # density of u = log v, unnormalised
        return -0.5 * nu * (u + scale**2 * np.exp(-u))

    def target_mu(x):
        plants = sum(
            expectation_normal(lambda b: (b - x) ** 2, m[p], s[p]) for p in range(len(groups))
        )
        return -0.5 * inverse * plants - 0.5 * ((x - prior.mu_mean) / prior.mu_sd) ** 2

    def target_sigma2(u):
        plants = sum(
            expectation_normal(
                lambda b: expectation_normal(lambda a: (b - a) ** 2, mu, mu_sd), m[p], s[p]
            )
            for p in range(len(groups))
        )
        likelihood = -0.5 * len(groups) * u - 0.5 * np.exp(-u) * plants
        return likelihood + log_variance_prior(u, prior.sigma2_nu, prior.sigma2_scale)

    yield "mu", None, target_mu
    yield "sigma2", None, target_sigma2
    for p, y in enumerate(groups):
        plant_inverse = mean_inverse(q["sigma2_plant"], p)

        def target_mu_plant(x, y=y, plant_inverse=plant_inverse):
            likelihood = -0.5 * plant_inverse * sum((v - x) ** 2 for v in y)
            return likelihood - 0.5 * inverse * expectation_normal(
                lambda a: (x - a) ** 2, mu, mu_sd
            )

        def target_sigma2_plant(u, y=y, p=p):
            squares = sum(expectation_normal(lambda b, v=v: (v - b) ** 2, m[p], s[p]) for v in y)
            likelihood = -0.5 * len(y) * u - 0.5 * np.exp(-u) * squares
            return likelihood + log_variance_prior(
                u, prior.sigma2_plant_nu, prior.sigma2_plant_scale
            )

        yield "mu_plant", p, target_mu_plant
        yield "sigma2_plant", p, target_sigma2_plant


def check_factors_on_a_grid(fit):
    """Each factor's density equals exp E[log p], normalised numerically, to 1e-6 of its peak."""
    for groups, prior in CASES:
        q = fit(statistics(groups), prior)
        for name, p, target in log_targets(groups, prior, q):
            variance = name.startswith("sigma2")
            ends = np.array([q.quantile(name, v) for v in (1e-13, 1 - 1e-13)])
            low, high = ends if p is None else ends[:, p]
            grid = np.linspace(*(np.log([low, high]) if variance else [low, high]), 20_001)
            log_density = target(grid)
            density = np.exp(log_density - log_density.max())
            density /= integrate.simpson(density, x=grid)
            at = np.exp(grid)[:, None] if variance else grid[:, None]
            found = np.exp(q.logpdf(name, at)) * (at if variance else 1)
            found = found[:, 0 if p is None else p]
            assert np.max(np.abs(found - density)) <= 1e-6 * density.max()


def check_elbo_never_falls(fit):
    rng = np.random.default_rng(21)
    for _ in range(40):
        groups = [
            rng.normal(rng.normal(0, 3), 10 ** rng.uniform(-1, 1), rng.integers(3, 9))
            for _ in range(rng.integers(1, 9))
        ]
        q = fit(statistics(groups), record=True)
        elbos = np.array([state.elbo for state in q.states])
        assert np.all(np.diff(elbos) >= -1e-10 * np.maximum(1, np.abs(elbos[1:])))


def check_elbo_monte_carlo(fit):
    rng = np.random.default_rng(22)
    for groups, prior in CASES:
        q = fit(statistics(groups), prior)
        d = q.sample(rng, 20_000)
        value = -sum(q.logpdf(name, draws).reshape(20_000, -1).sum(1) for name, draws in d.items())
        for p, y in enumerate(groups):
            sd = np.sqrt(d["sigma2_plant"][:, p, None])
            value += stats.norm.logpdf(y, d["mu_plant"][:, p, None], sd).sum(axis=1)
        value += stats.norm.logpdf(
            d["mu_plant"], d["mu"][:, None], np.sqrt(d["sigma2"])[:, None]
        ).sum(axis=1)
        value += stats.norm.logpdf(d["mu"], prior.mu_mean, prior.mu_sd)
        pairs = [("sigma2", prior.sigma2_nu, prior.sigma2_scale)]
        if prior.sigma2_plant_nu > 0:
            pairs.append(("sigma2_plant", prior.sigma2_plant_nu, prior.sigma2_plant_scale))
        for name, nu, scale in pairs:
            logs = stats.invgamma.logpdf(d[name], nu / 2, scale=nu * scale**2 / 2)
            value += logs.reshape(20_000, -1).sum(axis=1)
        assert abs(value.mean() - q.elbo) <= 4 * value.std() / np.sqrt(20_000)


CHECKS = [check_factors_on_a_grid, check_elbo_never_falls, check_elbo_monte_carlo]


@pytest.mark.parametrize("check", CHECKS)
def test_check(check):
    check(fit_multilevel_normal)


def one_more_degree_of_freedom(model, q, right):
    return ScaledInvChiSquare(right.dof + 1, right.scale)


def dropped_variance_of_mu(model, q, right):
    ss = right.dof * right.scale**2 - model.num_plants * q["mu"].sd ** 2
    return ScaledInvChiSquare(right.dof, np.sqrt(ss / right.dof))


def flipped_sign_in_elbo(model, q, right):
    return right - 2 * q["mu"].entropy()


@pytest.mark.parametrize(
    ("name", "wrong", "check"),
    [
        ("update_sigma2_plant", one_more_degree_of_freedom, check_factors_on_a_grid),
        ("update_sigma2_plant", one_more_degree_of_freedom, check_elbo_never_falls),
        ("update_sigma2", dropped_variance_of_mu, check_factors_on_a_grid),
        ("update_sigma2", dropped_variance_of_mu, check_elbo_never_falls),
        ("elbo", flipped_sign_in_elbo, check_elbo_monte_carlo),
    ],
)
def test_negative_control(name, wrong, check, monkeypatch):
    right = getattr(MultilevelModel, name)
    monkeypatch.setattr(MultilevelModel, name, lambda self, q: wrong(self, q, right(self, q)))
    with pytest.raises(AssertionError):
        check(fit_multilevel_normal)


@pytest.mark.parametrize(("groups", "prior"), CASES)
def test_elbo_stays_below_the_evidence(groups, prior):
    data = statistics(groups)
    assert 0 < kl_divergence(fit_multilevel_normal(data, prior), exact_multilevel_normal(data, prior)) < 5  # fmt: skip  # noqa: E501


def test_flat_prior_leaves_n_minus_two_degrees_of_freedom():
    q = fit_multilevel_normal(statistics(LECTURE))
    assert q["sigma2_plant"].dof.tolist() == [2, 2, 2]
    assert q["sigma2"].dof == 4


def test_the_faster_ascent_ends_at_the_same_place():
    rng = np.random.default_rng(23)
    y = rng.normal(rng.normal(7, 0.3, (2000, 1)), 3, size=(2000, 12))
    data = SufficientStatistics.from_array(y)
    fast, plain = (fit_multilevel_normal(data, record=record) for record in (False, True))
    assert fast.num_iter < plain.num_iter / 2
    assert np.all(np.diff(fast.elbo_trace) >= -1e-10 * np.abs(fast.elbo_trace[1:]))
    assert fast.elbo == pytest.approx(float(plain.elbo), rel=1e-10)
    assert fast["sigma2"].scale == pytest.approx(float(plain["sigma2"].scale), rel=1e-6)
    np.testing.assert_allclose(fast.mean("mu_plant"), plain.mean("mu_plant"), rtol=1e-6)


def test_states_follow_the_sweep():
    q = fit_multilevel_normal(statistics(LECTURE))
    sweep = ["mu_plant", "sigma2_plant", "mu", "sigma2"]
    assert [state.updated for state in q.states] == ["start"] + sweep * q.num_iter
    np.testing.assert_array_equal(q.elbo_trace, [state.elbo for state in q.states[::4]])
    assert fit_multilevel_normal(statistics(LECTURE), record=False).states == ()


def test_a_plant_without_data_follows_the_others():
    data = SufficientStatistics([6, 0, 5], [3, np.nan, 5], [4, 0, 9])
    q = fit_multilevel_normal(data, PROPER)
    assert q.mean("mu_plant")[1] == pytest.approx(float(q.mean("mu")), rel=1e-8)
    assert q.sd("mu_plant")[1] == pytest.approx(float(q["sigma2"].scale), rel=1e-8)
    assert q["sigma2_plant"].scale[1] == pytest.approx(1.2, rel=1e-12)


@given(order=st.permutations(range(4)), unit=st.sampled_from([2.0**-60, 1.0, 2.0**60]))
@settings(max_examples=20, deadline=None)
def test_order_and_unit_of_plants_do_not_matter(order, unit):
    q = fit_multilevel_normal(statistics(UNBALANCED), PROPER)
    data = statistics([UNBALANCED[i] * unit for i in order])
    prior = MultilevelPrior(unit, 10 * unit, 3.0, 1.5 * unit, 2.0, 1.2 * unit)
    other = fit_multilevel_normal(data, prior)
    np.testing.assert_allclose(
        other.mean("mu_plant"), q.mean("mu_plant")[list(order)] * unit, rtol=1e-7
    )
    shift = sum(len(y) for y in UNBALANCED) * np.log(unit)
    assert other.elbo == pytest.approx(float(q.elbo) - shift, rel=1e-9)


def test_the_cap_is_a_flag_and_a_warning():
    with pytest.warns(NotConvergedWarning, match="the fit had not converged after 2 sweeps"):
        q = fit_multilevel_normal(statistics(LECTURE), max_iter=2)
    assert not q.converged
