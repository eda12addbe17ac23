"""PSIS-LOO against leaving each observation out in truth, and against ArviZ's own comparison."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from synthetic_fits import synthetic_fit, table

from pyflowers.errors import ConfigError
from pyflowers.inference_data import arviz
from pyflowers.loo import LooComparison, ModelLoo, compare_models


def exact_loo(y, priors):
    """Log p(y[n] | the others) of the iid normal model, by quadrature over mu and log sigma2."""
    mu, log_sigma2 = np.meshgrid(np.linspace(-15, 25, 801), np.linspace(-3, 8, 551))
    nu, scale = priors["sigma2_nu"], priors["sigma2_scale"]
    sigma2 = np.exp(log_sigma2)
    # scaled-inv-χ² (BDA3 table A.1) and the Jacobian of the logarithm; constants cancel.
    log_prior = norm.logpdf(mu, priors["mu_mean"], priors["mu_sd"])
    log_prior = log_prior - nu / 2 * log_sigma2 - nu * scale**2 / (2 * sigma2)
    terms = np.stack([norm.logpdf(value, mu, np.sqrt(sigma2)) for value in y])
    total = log_prior + terms.sum(axis=0)
    return np.array([logsumexp(total) - logsumexp(total - term) for term in terms])


def test_psis_loo_is_leave_one_out(lecture_fits):
    fit = lecture_fits["iid_normal"]
    exact = exact_loo(fit.data.y, fit.record["priors"])
    (found,) = compare_models([fit]).models
    # Monte Carlo error of a term is about sqrt(var(w)/S) < 0.03 at 4,000 draws and k-hat < 0.5.
    assert found.elpd == pytest.approx(exact.sum(), abs=0.15)
    assert found.worst_k < found.good_k
    # What is not left out fits better: the check above would see it.
    log_lik = fit.log_likelihood().reshape(-1, fit.data.num_obs)
    within = (logsumexp(log_lik, axis=0) - np.log(len(log_lik))).sum()
    assert within - exact.sum() > 0.5


def test_it_agrees_with_arviz(lecture_fits):
    comparison = compare_models(list(lecture_fits.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = arviz().compare({name: fit.idata for name, fit in lecture_fits.items()})
    assert [model.name for model in comparison.models] == list(expected.index)
    for model in comparison.models:
        row = expected.loc[model.name]
        assert model.elpd == pytest.approx(row["elpd_loo"])
        assert model.se == pytest.approx(row["se"])
        assert -model.difference == pytest.approx(row["elpd_diff"])
        assert model.difference_se == pytest.approx(row["dse"])


def test_fits_of_different_data_are_not_compared():
    first = synthetic_fit("iid_normal", table(["a", "b"], 4))
    second = synthetic_fit("multilevel_poisson", table(["a", "c"], 4))
    with pytest.raises(ConfigError, match="were fitted to different data"):
        compare_models([first, second])
    with pytest.raises(ConfigError, match="a model stands twice"):
        compare_models([first, first])
    with pytest.raises(ConfigError, match="no fit to compare"):
        compare_models([])


def model(name, difference, k_hat=0.1):
    return ModelLoo(name, -10 + difference, 1.0, 2.0, difference, 1.0, np.array([k_hat, 0.2]), 0.7)


@pytest.mark.parametrize(
    ("models", "num_obs", "words"),
    [
        ([model("a", 0), model("b", -9)], 12, ["12 observations cannot carry this conclusion"]),
        ([model("a", 0), model("b", -9)], 100, []),
        ([model("a", 0), model("b", -3)], 500, ["The difference to b is below 4"]),
        ([model("a", 0), model("b", -9, k_hat=0.8)], 500, ["b: k-hat of 1 of 500 observations"]),
        ([model("a", 0)], 12, []),
    ],
)
def test_cautions(models, num_obs, words):
    cautions = LooComparison(tuple(models), num_obs).cautions
    assert len(cautions) == len(words)
    for caution, expected in zip(cautions, words, strict=True):
        assert caution.startswith(expected)
