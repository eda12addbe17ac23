"""Mean fields against mpmath, the exact evidence, the definition of each factor and Monte Carlo.

Each check takes its subject as an argument, so that negative controls can pass a planted bug.
"""
# Factors are typed as Distribution, but the tests use attributes of the subclasses.
# mypy: disable-error-code="attr-defined"

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pyflowers import vb
from pyflowers.errors import ConfigError, DataError
from pyflowers.exact import NormalExact, exact_multilevel_normal, kl_divergence
from pyflowers.lectures.posterior.mean_field import MultilevelModel, NormalModel
from pyflowers.vb import (
    MultilevelPrior,
    Normal,
    NormalPrior,
    NotConvergedWarning,
    ScaledInvChiSquare,
    SufficientStatistics,
    fit_multilevel_normal,
    fit_normal,
)

LECTURE = np.array([4, 5, 6, 4, 0, 2, 5, 3, 8, 6, 10, 8.0])


def test_public_names():
    assert sorted(vb.__all__) == [
        "Distribution", "MultilevelPrior", "MultilevelVB", "Normal", "NormalPrior", "NormalVB",
        "NotConvergedWarning", "ScaledInvChiSquare", "State", "SufficientStatistics", "VBResult",
        "fit_multilevel_normal", "fit_normal",
    ]  # fmt: skip
    assert all(hasattr(vb, name) for name in vb.__all__)


def test_moments_quantiles_and_density():
    q = fit_normal(LECTURE)
    theta = stats.norm(q.mean("theta"), q.sd("theta"))
    assert q.quantile("theta", [0.05, 0.95]) == pytest.approx(theta.ppf([0.05, 0.95]), rel=1e-12)
    dof, scale = float(q["sigma2"].dof), float(q["sigma2"].scale)
    sigma2 = stats.invgamma(dof / 2, scale=dof * scale**2 / 2)
    assert q.mean("sigma2") == pytest.approx(sigma2.mean(), rel=1e-12)
    assert q.sd("sigma2") == pytest.approx(sigma2.std(), rel=1e-12)
    assert q.log_q(5.0, 7.0) == pytest.approx(theta.logpdf(5) + sigma2.logpdf(7), rel=1e-12)


def test_draws_have_the_asked_shape_and_seed():
    q = fit_multilevel_normal(SufficientStatistics.from_array(LECTURE.reshape(3, 4)))
    draws = q.sample(np.random.default_rng(0), (4, 100))
    assert {name: d.shape for name, d in draws.items()} == {
        "mu": (4, 100), "sigma2": (4, 100), "mu_plant": (4, 100, 3), "sigma2_plant": (4, 100, 3),
    }  # fmt: skip
    again = q.sample(np.random.default_rng(0), (4, 100))
    np.testing.assert_array_equal(draws["mu_plant"], again["mu_plant"])
    assert q.quantile("mu_plant", [0.1, 0.5]).shape == (2, 3)


def test_inference_data():
    q = fit_multilevel_normal(
        SufficientStatistics.from_array(LECTURE.reshape(3, 4)), plants=["a", "b", "c"]
    )
    data = q.to_inference_data(np.random.default_rng(0), num_draws=50, num_chains=2)
    assert data.posterior["mu_plant"].dims == ("chain", "draw", "plant")
    assert data.posterior["plant"].values.tolist() == ["a", "b", "c"]
    assert data.posterior.attrs["elbo"] == q.elbo
    batch = fit_normal(LECTURE.reshape(3, 4)).to_inference_data(np.random.default_rng(0))
    assert dict(batch.posterior.sizes) == {"chain": 1, "draw": 4000, "dataset": 3}


def multilevel(num, ss, **prior):
    data = SufficientStatistics(num, np.arange(len(num)), ss)
    return fit_multilevel_normal(data, MultilevelPrior(**prior), plants=list("abc")[: len(num)])


def start(mean=0.0, sd=1.0, dof=2.0, scale=1.0):
    return Normal(np.array(mean), np.array(sd)), ScaledInvChiSquare(np.array(dof), np.array(scale))


FLAT = NormalPrior(0, np.inf)
JEFFREYS = NormalPrior(nu0=0)
ERRORS = [
    (lambda: fit_normal([], FLAT), DataError, "no observations: give a finite tau0"),
    (lambda: fit_normal([], JEFFREYS), DataError, "no observations: give a positive nu0"),
    (lambda: fit_normal([1.0], JEFFREYS), DataError, "one observation or only equal ones"),
    (lambda: fit_normal([2.0, 2.0], JEFFREYS), DataError, "posterior is improper under a flat"),
    (lambda: fit_normal([[1.0, 2], [2, 2]], JEFFREYS), DataError, "data set 1: the posterior"),
    (lambda: fit_normal([1.0], NormalPrior(nu0=1e12, sigma0=1e150)), DataError, "too extreme"),
    (lambda: fit_normal([1.0, np.nan]), DataError, r"x\[1\] is nan"),
    (lambda: fit_normal([1.0], tol=0), ConfigError, "tol is 0, but must lie between 0 and 1"),
    (lambda: fit_normal([1.0], max_iter=0), ConfigError, "max_iter must be a whole number of at"),
    (lambda: fit_normal([1.0], init=start(sd=0.0)), ConfigError, "init must hold"),
    (lambda: fit_normal([1.0], init=start(mean=[0.0, 1])), ConfigError, "init's shape"),
    (lambda: fit_normal(np.ones((2, 3)), NormalPrior(np.zeros(4))), ConfigError, "broadcast"),
    (lambda: fit_normal([1.0]).mean("mu"), ConfigError, "no parameter 'mu'; it has theta, sigma2"),
    (lambda: fit_normal([1.0]).quantile("theta", 1.5), ConfigError, "p is 1.5, but a probability"),
    (lambda: NormalPrior(mu0=np.nan), ConfigError, "prior mu0 is nan, but must be finite"),
    (lambda: NormalPrior(tau0=0), ConfigError, "prior tau0 is 0.0, but must be from 1e-150"),
    (lambda: NormalPrior(tau0=[1, -2]), ConfigError, "prior tau0 is -2.0"),
    (lambda: NormalPrior(nu0=-1), ConfigError, "prior nu0 is -1.0, but must be from 0"),
    (lambda: NormalPrior(sigma0=0), ConfigError, "prior sigma0 is 0.0.*when nu0 is positive"),
    (lambda: NormalPrior(sigma0=np.inf), ConfigError, "prior sigma0 is inf"),
    (lambda: MultilevelPrior(mu_mean=np.inf), ConfigError, "prior mu_mean is inf"),
    (lambda: MultilevelPrior(mu_sd=0), ConfigError, "prior mu_sd is 0, but must be positive"),
    (lambda: MultilevelPrior(sigma2_nu=np.nan), ConfigError, "prior sigma2_nu is nan"),
    (lambda: MultilevelPrior(sigma2_plant_nu=1), ConfigError, "give nu above 0 and at most 1e100"),
    (lambda: MultilevelPrior(sigma2_plant_scale=1), ConfigError, "or nu from -2 to 0 with scale 0"),
    (lambda: multilevel([4, 2], [1, 1]), DataError, r"plant b: too few observations \(2\)"),
    (lambda: multilevel([4, 0], [1, 0]), DataError, r"plant b: too few observations \(0\)"),
    (lambda: multilevel([4, 4], [0, 1]), DataError, "plant a: all observations are equal"),
    (lambda: multilevel([1], [0], sigma2_plant_nu=0), DataError, "plant a: all observations are"),
    (lambda: multilevel([], []), DataError, r"statistics have shape \(0,\), but must have one"),
    (
        lambda: fit_multilevel_normal(SufficientStatistics([4], [0], [1]), plants=["a", "b"]),
        ConfigError,
        "2 plant labels for 1 plants",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_what_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


def random_problem(rng, num=None):
    num = int(rng.integers(1, 60)) if num is None else num
    unit = 10 ** rng.uniform(-3, 3)
    x = unit * (rng.normal(rng.normal(0, 3), 1, size=num))
    prior = NormalPrior(
        mu0=unit * rng.normal(0, 3),
        tau0=unit * 10 ** rng.uniform(-1, 2),
        nu0=10 ** rng.uniform(-0.5, 1.5),
        sigma0=unit * 10 ** rng.uniform(-1, 1),
    )
    return x, prior


def random_batch(rng, num_sets):
    """Return statistics of `num_sets` data sets and a prior for each."""
    unit = 10 ** rng.uniform(-5, 5, num_sets)
    num = rng.integers(1, 200, num_sets).astype(float)
    ss = np.where(num > 1, unit**2 * rng.chisquare(np.maximum(num - 1, 1)), 0.0)
    data = SufficientStatistics(num, unit * rng.normal(0, 4, num_sets), ss)
    prior = NormalPrior(
        unit * rng.normal(0, 4, num_sets),
        unit * 10 ** rng.uniform(-2, 3, num_sets),
        10 ** rng.uniform(-0.5, 2, num_sets),
        unit * 10 ** rng.uniform(-2, 1, num_sets),
    )
    return data, prior


def mpmath_fixed_points(x, prior):
    """Return all positive roots of the fixed point's cubic to 50 digits: (mu_n, tau_n, sigma_n)."""
    with mp.workdps(50):
        data = [mp.mpf(float(v)) for v in x]
        n, mean = len(data), mp.fsum(data) / len(data)
        m0, a, nu0 = mp.mpf(prior.mu0), 1 / mp.mpf(prior.tau0) ** 2, mp.mpf(prior.nu0)
        known = nu0 * mp.mpf(prior.sigma0) ** 2 + mp.fsum((v - mean) ** 2 for v in data)
        nu, d2 = nu0 + n, (mean - m0) ** 2
        # With lambda = y nu / known, the coefficients have similar sizes.
        b, e = a * known / nu, d2 * nu / known
        cubic = [
            nu * n**2,
            n * (2 * nu * b + n) - nu * n**2,
            nu * b**2 + n * b**2 * e + n * b - 2 * nu * n * b,
            -nu * b**2,
        ]
        found = []
        for root in np.roots([float(c) for c in cubic]):
            if abs(root.imag) < 1e-9 * abs(root) and root.real > 0:
                y = mp.findroot(
                    lambda v: ((cubic[0] * v + cubic[1]) * v + cubic[2]) * v + cubic[3],
                    mp.mpf(float(root.real)),
                )
                rate = y * nu / known
                tau2 = 1 / (n * rate + a)
                found.append((tau2 * (n * rate * mean + a * m0), mp.sqrt(tau2), 1 / mp.sqrt(rate)))
        return found


def check_fixed_point(fit):
    rng = np.random.default_rng(11)
    for _ in range(200):
        x, prior = random_problem(rng)
        q = fit(x, prior)
        computed = (q.mean("theta"), q.sd("theta"), q["sigma2"].scale)
        errors = [
            max(float(abs(mp.mpf(float(v)) / r - 1)) for v, r in zip(computed, root, strict=True))
            for root in mpmath_fixed_points(x, prior)
        ]
        assert min(errors) <= 1e-12


def check_degrees_of_freedom(fit):
    """Check for nu0 + n; theta adds none, because its prior does not depend on sigma2."""
    assert fit(LECTURE, NormalPrior(nu0=3.0))["sigma2"].dof == 15


def check_elbo_never_falls(fit):
    rng = np.random.default_rng(12)
    for _ in range(10):
        data, prior = random_batch(rng, 1000)
        trace = fit(data, prior, record=True).elbo_trace
        assert np.all(np.diff(trace, axis=0) >= -1e-10 * np.maximum(1, np.abs(trace[1:])))


def check_elbo_below_evidence(fit):
    rng = np.random.default_rng(13)
    for _ in range(150):
        x, prior = random_problem(rng)
        evidence = NormalExact(x, prior).log_evidence
        assert fit(x, prior).elbo <= evidence + 1e-10 * max(1, abs(evidence))


def check_elbo_monte_carlo(fit):
    """Compare with E_q[log p - log q] over 20,000 draws, by SciPy, within 4 standard errors."""
    rng = np.random.default_rng(14)
    for _ in range(20):
        x, prior = random_problem(rng, num=12)
        q = fit(x, prior)
        theta, sigma2 = q.sample(rng, 20_000).values()
        dof, scale = float(q["sigma2"].dof), float(q["sigma2"].scale)
        values = (
            stats.norm.logpdf(x, theta[:, None], np.sqrt(sigma2)[:, None]).sum(axis=1)
            + stats.norm.logpdf(theta, prior.mu0, prior.tau0)
            + stats.invgamma.logpdf(sigma2, prior.nu0 / 2, scale=prior.nu0 * prior.sigma0**2 / 2)
            - stats.norm.logpdf(theta, q.mean("theta"), q.sd("theta"))
            - stats.invgamma.logpdf(sigma2, dof / 2, scale=dof * scale**2 / 2)
        )
        standard_error = values.std(ddof=1) / np.sqrt(values.size)
        assert abs(values.mean() - q.elbo) <= 4 * standard_error


CHECKS = [
    check_fixed_point,
    check_degrees_of_freedom,
    check_elbo_never_falls,
    check_elbo_below_evidence,
    check_elbo_monte_carlo,
]


@pytest.mark.quick
@pytest.mark.parametrize("check", CHECKS)
def test_check(check):
    check(fit_normal)


def n_plus_one_degrees_of_freedom(right):
    return property(lambda model: model.nu0 + model.num + 1)


def dropped_variance_of_theta(right):
    return lambda model, q: right(model, q | {"theta": replace(q["theta"], sd=0 * q["theta"].sd)})


def flipped_sign_in_elbo(right):
    return lambda model, q: right(model, q) - 2 * q["theta"].entropy()


@pytest.mark.parametrize(
    ("name", "bug", "check"),
    [
        ("dof", n_plus_one_degrees_of_freedom, check_degrees_of_freedom),
        ("dof", n_plus_one_degrees_of_freedom, check_fixed_point),
        ("update_sigma2", dropped_variance_of_theta, check_fixed_point),
        ("update_sigma2", dropped_variance_of_theta, check_elbo_never_falls),
        ("elbo", flipped_sign_in_elbo, check_elbo_monte_carlo),
        ("elbo", flipped_sign_in_elbo, check_elbo_never_falls),
    ],
)
def test_negative_control(name, bug, check, monkeypatch):
    monkeypatch.setattr(NormalModel, name, bug(getattr(NormalModel, name)))
    with pytest.raises(AssertionError):
        check(fit_normal)


def test_states_after_every_half_update():
    init = (Normal(np.array(0.0), np.array(3.0)), ScaledInvChiSquare(np.array(2.0), np.array(9.0)))
    q = fit_normal(LECTURE, init=init)
    names = [state.updated for state in q.states]
    assert names == ["start"] + ["theta", "sigma2"] * q.num_iter
    assert q.states[0].factors["sigma2"].dof == 2
    assert q.states[1].factors["sigma2"].scale == 9
    assert q.states[1].factors["theta"].mean == q.states[2].factors["theta"].mean
    elbos = np.array([state.elbo for state in q.states])
    assert np.all(np.diff(elbos) >= -1e-12)
    np.testing.assert_array_equal(q.elbo_trace, elbos[::2])
    assert q.states[-1].elbo == q.elbo
    assert q.elbo == pytest.approx(fit_normal(LECTURE).elbo, rel=1e-13)


def test_a_batch_is_its_data_sets():
    rng = np.random.default_rng(5)
    x = rng.normal(3, 2, size=(2, 3, 9))
    mu0 = rng.normal(size=(2, 3))
    batch = fit_normal(x, NormalPrior(mu0=mu0))
    assert batch.elbo.shape == batch.converged.shape == (2, 3)
    assert batch.elbo_trace.shape == (0, 2, 3)
    for i, j in np.ndindex(2, 3):
        one = fit_normal(x[i, j], NormalPrior(mu0=mu0[i, j]))
        assert batch.mean("theta")[i, j] == pytest.approx(float(one.mean("theta")), rel=1e-13)
        assert batch["sigma2"].scale[i, j] == pytest.approx(float(one["sigma2"].scale), rel=1e-13)
        assert batch.elbo[i, j] == pytest.approx(float(one.elbo), rel=1e-13)


def test_of_two_maxima_the_higher_is_found():
    x, prior = [10, 10.1, 9.9, 10.05], NormalPrior(0, 1, 0.5, 0.1)
    near_data = (Normal(np.array(10.0), np.array(0.1)), ScaledInvChiSquare(np.array(4.5), np.array(0.1)))  # fmt: skip  # noqa: E501
    lower = fit_normal(x, prior, init=near_data)
    higher = fit_normal(x, prior)
    assert lower.converged
    assert higher.elbo > lower.elbo + 1
    assert len(mpmath_fixed_points(x, prior)) == 3


def test_no_data_gives_the_prior_back():
    q = fit_normal([], NormalPrior(1.0, 2.0, 3.0, 4.0))
    assert [q.mean("theta"), q.sd("theta")] == [1, 2]
    assert (q["sigma2"].dof, q["sigma2"].scale) == (3, 4)
    assert q.elbo == pytest.approx(0, abs=1e-14)


def test_one_observation_and_constant_data():
    for x in ([3.0], [3.0] * 20):
        q = fit_normal(x)
        assert q.converged
        assert q.elbo < NormalExact(x).log_evidence


@pytest.mark.parametrize("exponent", [-498, -300, -20, 20, 300, 495])
def test_units_do_not_matter(exponent):
    """Scaling data and prior by 2**k scales the fit, and lowers the ELBO by n log(2**k)."""
    unit, prior = 2.0**exponent, NormalPrior(1.0, 2.0, 3.0, 4.0)
    q, one = fit_normal(LECTURE, prior), NormalPrior(unit, 2 * unit, 3.0, 4 * unit)
    scaled = fit_normal(LECTURE * unit, one)
    assert scaled.mean("theta") == pytest.approx(float(q.mean("theta")) * unit, rel=1e-14)
    assert scaled.sd("theta") == pytest.approx(float(q.sd("theta")) * unit, rel=1e-14)
    assert scaled["sigma2"].scale == pytest.approx(float(q["sigma2"].scale) * unit, rel=1e-14)
    assert scaled.elbo == pytest.approx(float(q.elbo) - 12 * np.log(unit), rel=1e-12)


@pytest.mark.parametrize("tau0", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e149])
def test_scales_that_have_nothing_in_common(tau0, unit):
    x, prior = LECTURE * unit, NormalPrior(0, tau0, 2, unit)
    q, exact = fit_normal(x, prior), NormalExact(x, prior)
    assert q.converged
    assert 0 <= exact.log_evidence - q.elbo + 1e-10 * abs(q.elbo) < 1


def test_flat_limits_are_limits():
    flat, wide = (
        fit_normal(LECTURE, NormalPrior(0, np.inf)),
        fit_normal(LECTURE, NormalPrior(0, 1e9)),
    )
    assert flat.mean("theta") == pytest.approx(LECTURE.mean(), rel=1e-15)
    assert flat["sigma2"].scale == pytest.approx(float(wide["sigma2"].scale), rel=1e-12)
    # Near the data the flat density is 1, and the wide one 1 / (sqrt(2 pi) 1e9).
    assert flat.elbo == pytest.approx(float(wide.elbo) + np.log(1e9 * np.sqrt(2 * np.pi)), rel=1e-9)
    none, little = (fit_normal(LECTURE, NormalPrior(nu0=nu)) for nu in (0.0, 1e-9))
    assert none["sigma2"].scale == pytest.approx(float(little["sigma2"].scale), rel=1e-8)
    both = fit_normal(LECTURE, NormalPrior(0, np.inf, 0))
    s2 = LECTURE.var(ddof=1)
    assert both["sigma2"].scale ** 2 == pytest.approx(s2, rel=1e-13)


def test_the_cap_is_a_flag_and_a_warning():
    with pytest.warns(
        NotConvergedWarning, match="had not converged after 2 sweeps: raise max_iter"
    ):
        q = fit_normal([3.0], NormalPrior(nu0=0.01), max_iter=1)
    assert not q.converged
    data = np.array([[3.0], [3.0]])
    with pytest.warns(NotConvergedWarning, match="1 of 2 fits"):
        q = fit_normal(data, NormalPrior(nu0=np.array([0.01, 1e9])), max_iter=2)
    assert q.converged.tolist() == [False, True]


def test_a_slow_fixed_point_is_reached_all_the_same():
    x, prior = np.array([3.0]), NormalPrior(nu0=0.01)
    q = fit_normal(x, prior)
    (_, _, scale), *_ = mpmath_fixed_points(x, prior)
    assert q.converged
    assert q["sigma2"].scale == pytest.approx(float(scale), rel=1e-12)


@given(
    x=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    shift=st.floats(-1e3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_order_and_origin_do_not_matter(x, shift, seed):
    x = np.round(np.array(x), 3)
    prior, moved = NormalPrior(1.0, 50.0, 2.0, 3.0), NormalPrior(1.0 + shift, 50.0, 2.0, 3.0)
    q = fit_normal(x, prior)
    other = fit_normal(np.random.default_rng(seed).permutation(x) + shift, moved)
    assert other.elbo == pytest.approx(float(q.elbo), rel=1e-7)
    tolerance = 1e-7 * float(q.sd("theta")) + 1e-10 * np.abs(x).max()
    assert other.mean("theta") - shift == pytest.approx(float(q.mean("theta")), abs=tolerance)


PLANTS = [np.array(y, float) for y in ([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8])]
UNBALANCED = [np.array(y, float) for y in ([4, 5, 6, 4, 9, 1], [2.5], [8, 8, 8], [1, 7])]
PROPER = MultilevelPrior(1.0, 10.0, 3.0, 1.5, 2.0, 1.2)
MULTILEVEL_CASES = [(PLANTS, MultilevelPrior()), (UNBALANCED, PROPER)]


def statistics(groups):
    labels = np.repeat(np.arange(len(groups)), [len(y) for y in groups])
    return SufficientStatistics.from_groups(np.concatenate(groups), labels)[0]


def mean_inverse(factor, p=None):
    """Return E[1/v] of a scaled inverse chi-square by numerical integration of SciPy's density."""
    dof, scale = ((f if p is None else f[p]) for f in (factor.dof, factor.scale))
    density = stats.invgamma(dof / 2, scale=dof * scale**2 / 2).pdf
    centre = np.log(scale**2)

    def integrand(u):
        return density(np.exp(u))  # the v in dv = v du cancels 1/v

    return integrate.quad(integrand, centre - 8, centre + 90, points=[centre], limit=400,
                          epsabs=0, epsrel=1e-11)[0]  # fmt: skip


def expectation_normal(h, mean, sd):
    """Return E[h(x)] for normal x by Gauss-Hermite, which is exact for the quadratics used here."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    return sum(w * h(mean + sd * z) for z, w in zip(nodes, weights, strict=True)) / np.sqrt(
        2 * np.pi
    )


def log_targets(groups, prior, q):
    """Yield E[log p], from the raw data, as a function of each mean and of each log variance."""
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
    """Check that each factor's density is exp E[log p], normalised, to 1e-6 of the peak."""
    for groups, prior in MULTILEVEL_CASES:
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


def check_multilevel_elbo_never_falls(fit):
    rng = np.random.default_rng(21)
    for _ in range(40):
        groups = [
            rng.normal(rng.normal(0, 3), 10 ** rng.uniform(-1, 1), rng.integers(3, 9))
            for _ in range(rng.integers(1, 9))
        ]
        q = fit(statistics(groups), record=True)
        elbos = np.array([state.elbo for state in q.states])
        assert np.all(np.diff(elbos) >= -1e-10 * np.maximum(1, np.abs(elbos[1:])))


def check_multilevel_elbo_monte_carlo(fit):
    rng = np.random.default_rng(22)
    for groups, prior in MULTILEVEL_CASES:
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


MULTILEVEL_CHECKS = [
    check_factors_on_a_grid,
    check_multilevel_elbo_never_falls,
    check_multilevel_elbo_monte_carlo,
]


@pytest.mark.quick
@pytest.mark.parametrize("check", MULTILEVEL_CHECKS)
def test_multilevel_check(check):
    check(fit_multilevel_normal)


def one_more_degree_of_freedom(model, q, right):
    return ScaledInvChiSquare(right.dof + 1, right.scale)


def dropped_variance_of_mu(model, q, right):
    ss = right.dof * right.scale**2 - model.num_plants * q["mu"].sd ** 2
    return ScaledInvChiSquare(right.dof, np.sqrt(ss / right.dof))


def flipped_sign_in_multilevel_elbo(model, q, right):
    return right - 2 * q["mu"].entropy()


@pytest.mark.parametrize(
    ("name", "wrong", "check"),
    [
        ("update_sigma2_plant", one_more_degree_of_freedom, check_factors_on_a_grid),
        ("update_sigma2_plant", one_more_degree_of_freedom, check_multilevel_elbo_never_falls),
        ("update_sigma2", dropped_variance_of_mu, check_factors_on_a_grid),
        ("update_sigma2", dropped_variance_of_mu, check_multilevel_elbo_never_falls),
        ("elbo", flipped_sign_in_multilevel_elbo, check_multilevel_elbo_monte_carlo),
    ],
)
def test_multilevel_negative_control(name, wrong, check, monkeypatch):
    right = getattr(MultilevelModel, name)
    monkeypatch.setattr(MultilevelModel, name, lambda self, q: wrong(self, q, right(self, q)))
    with pytest.raises(AssertionError):
        check(fit_multilevel_normal)


@pytest.mark.quick
@pytest.mark.parametrize(("groups", "prior"), MULTILEVEL_CASES)
def test_elbo_stays_below_the_evidence(groups, prior):
    data = statistics(groups)
    assert 0 < kl_divergence(fit_multilevel_normal(data, prior), exact_multilevel_normal(data, prior)) < 5  # fmt: skip  # noqa: E501


def test_flat_prior_leaves_n_minus_two_degrees_of_freedom():
    q = fit_multilevel_normal(statistics(PLANTS))
    assert q["sigma2_plant"].dof.tolist() == [2, 2, 2]
    assert q["sigma2"].dof == 4


@pytest.mark.quick
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
    q = fit_multilevel_normal(statistics(PLANTS))
    sweep = ["mu_plant", "sigma2_plant", "mu", "sigma2"]
    assert [state.updated for state in q.states] == ["start"] + sweep * q.num_iter
    np.testing.assert_array_equal(q.elbo_trace, [state.elbo for state in q.states[::4]])
    assert fit_multilevel_normal(statistics(PLANTS), record=False).states == ()


def test_a_plant_without_data_follows_the_others():
    data = SufficientStatistics([6, 0, 5], [3, np.nan, 5], [4, 0, 9])
    q = fit_multilevel_normal(data, PROPER)
    assert q.mean("mu_plant")[1] == pytest.approx(float(q.mean("mu")), rel=1e-8)
    assert q.sd("mu_plant")[1] == pytest.approx(float(q["sigma2"].scale), rel=1e-8)
    assert q["sigma2_plant"].scale[1] == pytest.approx(1.2, rel=1e-12)


@pytest.mark.quick
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


def test_the_cap_of_a_multilevel_fit_is_a_flag_and_a_warning():
    with pytest.warns(NotConvergedWarning, match="the fit had not converged after 2 sweeps"):
        q = fit_multilevel_normal(statistics(PLANTS), max_iter=2)
    assert not q.converged
