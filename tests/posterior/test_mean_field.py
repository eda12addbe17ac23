"""What a result can be asked, and every refusal as a table of (call, error, message)."""
# A factor is a Distribution, and which one the test knows.
# mypy: disable-error-code="attr-defined"

import numpy as np
import pytest
from scipy import stats

from pyflowers import vb
from pyflowers.errors import ConfigError, DataError
from pyflowers.vb import (
    MultilevelPrior,
    Normal,
    NormalPrior,
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
    (lambda: fit_normal([1.0], max_iter=0), ConfigError, "max_iter is 0, but must be a whole"),
    (lambda: fit_normal([1.0], init=start(sd=0.0)), ConfigError, "init must hold"),
    (lambda: fit_normal([1.0], init=start(mean=[0.0, 1])), ConfigError, "init's shape"),
    (lambda: fit_normal(np.ones((2, 3)), NormalPrior(np.zeros(4))), ConfigError, "broadcast"),
    (lambda: fit_normal([1.0]).mean("mu"), ConfigError, "no parameter 'mu', it has theta, sigma2"),
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
    (lambda: MultilevelPrior(sigma2_plant_nu=1), ConfigError, "both must be positive and finite"),
    (lambda: MultilevelPrior(sigma2_plant_scale=1), ConfigError, "or -2 and 0 for the flat"),
    (lambda: multilevel([4, 2], [1, 1]), DataError, "plant b: 2 observations leave sigma2_plant"),
    (lambda: multilevel([4, 0], [1, 0]), DataError, "plant b: 0 observations leave sigma2_plant"),
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
