"""PSIS-LOO against leaving each observation out in truth, and against ArviZ's own comparison."""

import functools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from example_fits import example_fit
from scipy.special import logsumexp
from scipy.stats import norm
from synthetic_fits import synthetic_fit, table

from pyflowers.analysis.elpd import LooComparison, ModelLoo, loo
from pyflowers.errors import ConfigError
from pyflowers.fits.idata import arviz
from pyflowers.programs import find_program
from pyflowers.resources import flowers_csv


def by_grid(y, priors):
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


@functools.cache
def exact_loo(name):
    """Log p(y[n] | the others) of a lecture's model: evidence of all rows over that of the others.

    A row's likelihood is all that separates the two, so constants of the priors cancel.
    """
    program, rows = find_program(name), pd.read_csv(flowers_csv())

    def log_evidence(some):
        data, _ = program.fill(program.read(some), program.resolve_priors())
        return program.python.closed_form.exact(data).log_evidence

    whole = log_evidence(rows)
    return np.array([whole - log_evidence(rows.drop(index=i)) for i in rows.index])


def test_two_ways_to_leave_one_out_agree(lecture_fits):
    fit = lecture_fits["iid_normal"]
    grid = by_grid(fit.data.y, fit.record.priors)
    assert np.allclose(exact_loo("iid_normal"), grid, atol=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        "iid_normal",
        pytest.param("multilevel_normal", marks=pytest.mark.slow),
        "multilevel_poisson",
    ],
)
def test_psis_loo_is_leave_one_out(lecture_fits, name):
    fit = lecture_fits[name]
    exact = exact_loo(name)
    (found,) = loo([fit]).models
    # Monte Carlo error of a term is about sqrt(var(w)/S) < 0.03 at 4,000 draws and k-hat < 0.5; of
    # multilevel_normal, whose plants have four observations each, k-hat is up to 0.7.
    assert found.elpd == pytest.approx(exact.sum(), abs=0.5 if found.worst_k > 0.57 else 0.15)
    assert found.worst_k < found.good_k
    assert found.se == pytest.approx(np.sqrt(exact.size * exact.var()), rel=0.1)
    # What is not left out fits better: the check above would see it.
    log_lik = fit.log_likelihood().reshape(-1, fit.data.num_obs)
    within = (logsumexp(log_lik, axis=0) - np.log(len(log_lik))).sum()
    assert within - exact.sum() > 0.6


def test_the_difference_of_two_models_is_that_of_leaving_one_out(lecture_fits):
    comparison = loo(list(lecture_fits.values()))
    assert comparison.best.name == "multilevel_poisson"
    for model in comparison.models[1:]:
        apart = exact_loo(model.name) - exact_loo("multilevel_poisson")
        assert model.difference == pytest.approx(apart.sum(), abs=0.6)
        assert model.difference_se == pytest.approx(np.sqrt(apart.size * apart.var()), rel=0.15)


def test_a_users_log_lik_is_compared(executables):
    """Of Pumps, whose pumps have one row each, leaving a pump out leaves its rate to the prior."""
    fit = example_fit("pumps")
    (found,) = loo([fit]).models
    log_lik = fit.draws["log_lik"].reshape(-1, 10)
    within = (logsumexp(log_lik, axis=0) - np.log(len(log_lik))).sum()
    assert found.name == "pumps"
    assert found.elpd < within - 2
    assert found.p_loo == pytest.approx(within - found.elpd)
    assert found.num_bad > 3


def test_it_agrees_with_arviz(lecture_fits):
    comparison = loo(list(lecture_fits.values()))
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pointwise = arviz().loo(lecture_fits[model.name].idata, pointwise=True)
        assert model.terms == pytest.approx(pointwise.loo_i.values.ravel(), rel=1e-10)
        assert model.k_hat == pytest.approx(pointwise.pareto_k.values.ravel(), rel=1e-9, abs=1e-10)
        assert model.good_k == pointwise.good_k


def test_fits_of_different_data_are_not_compared():
    first = synthetic_fit("iid_normal", table(["a", "b"], 4))
    second = synthetic_fit("multilevel_poisson", table(["a", "c"], 4))
    with pytest.raises(ConfigError, match="were fitted to different data"):
        loo([first, second])
    with pytest.raises(ConfigError, match="a model appears twice"):
        loo([first, first])
    with pytest.raises(ConfigError, match="no fit to compare"):
        loo([])


def model(name, difference, k_hat=0.1, **changed):
    none = np.empty(0, dtype=int)
    about = {
        "name": name,
        "elpd": -10 + difference,
        "se": 1.0,
        "mcse": 0.1,
        "p_loo": 2.0,
        "p_loo_se": 0.1,
        "num_parameters": 3,
        "difference": difference,
        "difference_se": 1.0,
        "k_hat": np.array([k_hat, 0.2]),
        "good_k": 0.7,
        "terms": np.full(2, (-10 + difference) / 2),
        "refitted": none,
        "failed": none,
        "no_refit": "",
        "weight": 1.0,
    }
    return ModelLoo(**{**about, **changed})


FEW = "b: a large k-hat of a model of few parameters, here 3, points to outliers"


@pytest.mark.parametrize(
    ("models", "num_obs", "words"),
    [
        ([model("a", 0), model("b", -9)], 12, ["12 observations are too few for this conclusion"]),
        ([model("a", 0), model("b", -9)], 100, []),
        ([model("a", 0), model("b", -3)], 500, ["The difference to b is below 4"]),
        (
            [model("a", 0), model("b", -9, mcse=5.0)],
            500,
            ["The difference to b is within its Monte Carlo error"],
        ),
        # A missing error says nothing.
        ([model("a", 0), model("b", -9, mcse=np.nan)], 500, []),
        (
            [model("a", 0), model("b", -9, k_hat=0.8)],
            500,
            [
                "b: k-hat of 1 of 500 observations is above 0.70, so its elpd is likely too high; "
                "pyflowers loo fits again without each of them.",
                FEW,
            ],
        ),
        (
            [model("b", 0, k_hat=0.8, no_refit="b has no held_out: declare it")],
            500,
            ["b: k-hat of 1 of 500 observations is above 0.70, .*; b has no held_out: decl", FEW],
        ),
        (
            [model("b", 0, k_hat=0.8, refitted=np.array([0]), failed=np.array([0]))],
            500,
            ["b: 1 of 1 refits failed their diagnostics, without observation 1; refits", FEW],
        ),
        (
            [model("b", 0, k_hat=0.8, refitted=np.array([0]))],
            12,
            ["b: its 3 parameters are many for 12 observations, so a large k-hat need not"],
        ),
        (
            [model("a", 0, p_loo=3.4)],
            12,
            ["a: p_loo 3.4.* is above the number of its parameters, 3, so"],
        ),
        # Above it by less than two standard errors, as every other good model is.
        ([model("a", 0, p_loo=3.1)], 12, []),
        ([model("a", 0)], 12, []),
    ],
)
def test_cautions(models, num_obs, words):
    cautions = LooComparison(tuple(models), num_obs).cautions
    assert len(cautions) == len(words)
    for caution, expected in zip(cautions, words, strict=True):
        assert re.match(expected, caution)
