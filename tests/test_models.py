"""Priors, checks, likelihoods: what the models know without Stan."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pyflowers.compare import exact_posterior
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError, DataError
from pyflowers.models import FLOWER_MODELS, MODELS, get_model

LECTURE = [[4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8]]


def table(rows):
    cells = [(p, t, y) for p, row in enumerate(rows) for t, y in enumerate(row)]
    return from_frame(pd.DataFrame(cells, columns=["plant", "month", "flowers"]))


BAD_DATA = [
    ("multilevel_poisson", [[1, 2, -2]], "row 3: flowers is -2, but counts cannot be negative"),
    ("multilevel_poisson", [[1, 2.5, 2]], "row 2: flowers is 2.5, but counts are whole numbers"),
    ("multilevel_poisson", [[2**31, 1]], "row 1: flowers is 2147483648, but Stan holds counts"),
    ("multilevel_normal", [[1, 2, 3], [1, 2]], "plant '1' has 2 of the 3 observations"),
    ("multilevel_normal", [[1, 2, 3], [0, 0, 0]], "all observations of plant '1' are 0"),
]


@pytest.mark.parametrize(("name", "rows", "message"), BAD_DATA)
def test_data_that_a_model_cannot_use_are_refused(name, rows, message):
    model = get_model(name)
    with pytest.raises(DataError, match=None) as caught:
        model.check(table(rows), model.resolve_priors())
    assert message in str(caught.value)


def test_a_proper_prior_lifts_the_refusal():
    model = get_model("multilevel_normal")
    priors = model.resolve_priors({"sigma2_plant_nu": 1, "sigma2_plant_scale": 2})
    assert model.check(table([[1, 2], [0, 0, 0], [5]]), priors) == []


def test_the_largest_count_and_real_values_are_allowed():
    assert get_model("multilevel_poisson").check(table([[2**31 - 1], [0]]), {}) == []
    assert get_model("iid_normal").check(table([[-1.5, 2e9]]), {}) == []


def test_a_single_plant_is_warned_about_in_multilevel_models_only():
    data = table([[1, 2, 4]])
    assert "single plant" in get_model("multilevel_poisson").check(data, {})[0]
    assert get_model("iid_normal").check(data, {}) == []


BAD_PRIORS = [
    ("iid_normal", {"tau": 1.0}, "prior tau: iid_normal has no such prior; it has mu_mean"),
    ("iid_normal", {"mu_sd": 0.0}, "prior mu_sd: it must be a finite number and above 0, was 0"),
    ("iid_normal", {"mu_mean": np.inf}, "prior mu_mean: it must be a finite number, was inf"),
    ("iid_normal", {"sigma2_nu": np.nan}, "prior sigma2_nu: it must be a finite number and above"),
    ("multilevel_normal", {"sigma2_plant_nu": 1.0}, "needs both above 0"),
    ("multilevel_normal", {"sigma2_plant_scale": 1.0}, "needs both above 0"),
    ("multilevel_normal", {"sigma2_plant_nu": -3.0}, "at least -2, was -3"),
]


@pytest.mark.parametrize(("name", "priors", "message"), BAD_PRIORS)
def test_a_bad_prior_is_one_sentence(name, priors, message):
    with pytest.raises(ConfigError) as caught:
        get_model(name).resolve_priors(priors)
    assert message in str(caught.value)


def test_the_defaults_are_the_lectures():
    for model in FLOWER_MODELS:
        priors = model.resolve_priors()
        assert (priors["mu_mean"], priors["mu_sd"]) == (0, 100)
        assert (priors["sigma2_nu"], priors["sigma2_scale"]) == (1, 2)


# Quantiles of a single plant's posterior are hard to integrate; its moments need no integral.
@pytest.mark.filterwarnings("ignore::pyflowers.exact.NotRefinedWarning")
@pytest.mark.parametrize("name", ["iid_normal", "multilevel_normal", "multilevel_poisson"])
@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2, 4]],
        [[1, 2, 4, 4]],
        [[1, 2, 4], [3, 5, 9]],
        [[1, 2, 4, 4, 5], [3, 5, 9, 9, 9, 10], [0, 1, 0, 0, 2, 1, 3]],
        [
            [1, 2, 4, 4, 5, 3, 4],
            [0, 0, 0, 0, 0, 1, 0],
            [2, 1, 0, 3, 0, 2, 1],
            [4, 5, 4, 5, 4, 5, 3],
        ],
    ],
)
def test_missing_moments_are_those_of_the_exact_posterior(name, rows):
    """The summary and the quadrature say the same of every mean and variance."""
    model, data = get_model(name), table(rows)
    priors = model.resolve_priors()
    exact = set(exact_posterior(model, data, priors).missing_moments)
    said = {
        (parameter, moment)
        for parameter, reason in model.missing_moments(data, priors).items()
        for moment in (("mean", "sd") if "mean does not exist" in reason else ("sd",))
    }
    assert said == exact


def test_plants_without_flowers_do_not_bound_sigma2():
    model = get_model("multilevel_poisson")
    priors = model.resolve_priors()
    four = [[4, 5], [1, 2], [8, 3], [2, 2]]
    assert model.missing_moments(table(four), priors) == {}
    assert "infinite" in model.missing_moments(table([*four[:3], [0, 0]]), priors)["sigma2"]
    few = model.missing_moments(table([four[0], [0, 0], [0, 0]]), priors)
    assert "mean does not exist" in few["sigma2"]


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean multilevel_poisson"):
        get_model("multilevel_poison")


def draws_for(model, num_plants, rng):
    shape = (2, 5)
    draws = {"mu": rng.normal(size=shape), "sigma2": rng.gamma(2, size=shape)}
    draws["mu_plant"] = rng.gamma(3, size=(*shape, num_plants))
    draws["sigma2_plant"] = rng.gamma(3, size=(*shape, num_plants))
    return draws


NAMES = [model.name for model in FLOWER_MODELS]


@pytest.mark.parametrize("name", NAMES)
def test_log_likelihood_is_that_of_scipy(name):
    data = table([[4, 5], [0, 2, 5], [8]])
    draws = draws_for(MODELS[name], 3, np.random.default_rng(1))
    got = MODELS[name].log_likelihood(draws, data)
    mean, var = draws["mu_plant"][..., data.plant], draws["sigma2_plant"][..., data.plant]
    want = {
        "iid_normal": stats.norm.logpdf(
            data.y, draws["mu"][..., None], np.sqrt(draws["sigma2"])[..., None]
        ),
        "multilevel_normal": stats.norm.logpdf(data.y, mean, np.sqrt(var)),
        "multilevel_poisson": stats.poisson.logpmf(data.y, mean),
    }[name]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_have_the_models_mean_and_variance(name):
    """Replicates of one draw: their mean and variance within 5 standard errors."""
    data, rng = table([[4, 5], [0, 2, 5]]), np.random.default_rng(2)
    one = {k: v[:1, :1] for k, v in draws_for(MODELS[name], 2, rng).items()}
    many = {k: np.repeat(v, 20_000, axis=1) for k, v in one.items()}
    y_rep = MODELS[name].predict(many, data, rng)[0]
    mean = one["mu"].ravel() if name == "iid_normal" else one["mu_plant"][0, 0, data.plant]
    var = {
        "iid_normal": one["sigma2"].ravel(),
        "multilevel_normal": one["sigma2_plant"][0, 0, data.plant],
        "multilevel_poisson": mean,
    }[name]
    assert np.all(np.abs(y_rep.mean(0) - mean) < 5 * np.sqrt(var / 20_000))
    kurtosis_bound = np.sqrt((3 + 1 / var.min()) / 20_000)
    assert np.all(np.abs(y_rep.var(0) / var - 1) < 5 * kurtosis_bound)


@pytest.mark.parametrize(
    ("num_months", "nu", "missing"),
    [(3, -2, "mean"), (4, -2, "mean"), (5, -2, "variance"), (6, -2, "variance"), (7, -2, None)],
)
def test_sigma2_plant_says_which_moments_it_lacks(num_months, nu, missing):
    rows = [list(range(p, p + num_months)) for p in range(12)]
    said = get_model("multilevel_normal").missing_moments(
        table(rows), {"sigma2_plant_nu": nu, "sigma2_nu": 1.0}
    )
    assert ("sigma2_plant" in said) == (missing is not None)
    if missing:
        assert missing in said["sigma2_plant"]
