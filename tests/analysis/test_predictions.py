"""Predictions against quadrature, and the capabilities that they need."""

import functools
import re

import numpy as np
import pandas as pd
import pytest
from own_programs import SECTIONS, TRIAL, visits
from quadrature import (
    predicted_by_iid_normal,
    predicted_by_multilevel_normal,
    predicted_by_multilevel_poisson,
)
from scipy.stats import norm
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers import convergence
from pyflowers.errors import ConfigError

PLANTS = [np.array(y, float) for y in ([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8])]
PROBS = (0.05, 0.25, 0.5, 0.75, 0.95)


@functools.cache
def lecture_fit(name, **priors):
    how = {"warmup": 1000, "draws": 5000, "adapt_delta": 0.95, "engine": "stanli"}
    return pyflowers.fit(name, seed=1, priors=priors, **how)


@functools.cache
def quadrature(name):
    """Return the predictive distribution functions of a model on the lecture's data."""
    models = {
        "iid_normal": predicted_by_iid_normal,
        "multilevel_normal": predicted_by_multilevel_normal,
        "multilevel_poisson": predicted_by_multilevel_poisson,
    }
    return models[name](PLANTS)


def errors(draws, values, exact):
    """Return shares of draws minus exact probabilities, in standard errors."""
    below = np.stack([draws <= value for value in values], axis=-1)
    assert convergence.ess_mean(below).min() > 400
    return (below.mean(axis=(0, 1)) - exact) / convergence.mcse_mean(below)


def part(fit, title, seed=None):
    return pyflowers.predict(fit, seed=seed).draws()[title]


def quantiles_of(draws):
    """Return values near the ends of the intervals, and at the median."""
    return np.quantile(draws, PROBS, method="inverted_cdf")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "title", "element", "exact"),
    [
        ("iid_normal", "next month", (), lambda found: found),
        *(
            (name, "next month", plant, lambda found, plant=plant: found[0][plant])
            for name in ("multilevel_normal", "multilevel_poisson")
            for plant in range(3)
        ),
        ("multilevel_normal", "mean of a new plant", 0, lambda found: found[1]),
        ("multilevel_poisson", "new plant", 0, lambda found: found[1]),
    ],
)
def test_predictions_are_those_of_quadrature(name, title, element, exact):
    draws = part(lecture_fit(name), title)[:, :, *np.atleast_1d(element).astype(int)]
    values = quantiles_of(draws)
    probs = exact(quadrature(name))(values)
    assert np.abs(errors(draws, values, probs)).max() < 4
    if name == "iid_normal":
        assert np.allclose(probs, PROBS, atol=0.03)  # the values are the intended quantiles


def test_the_comparison_would_find_a_population_that_is_left_out():
    """Negative control: a new plant has the population mean, without the population's variance."""
    fit = lecture_fit("multilevel_poisson")
    rng = np.random.default_rng(1)
    draws = rng.poisson(np.exp(fit.draws["mu"]))
    values = quantiles_of(part(fit, "new plant")[..., 0])
    exact = quadrature("multilevel_poisson")[1](values)
    assert np.abs(errors(draws, values, exact)).max() > 10


def test_a_new_plant_of_multilevel_normal_under_a_proper_prior():
    """Given mu and sigma2, a new plant's distribution has a closed form, compared by draw."""
    fit = lecture_fit("multilevel_normal", sigma2_plant_nu=5.0, sigma2_plant_scale=2.0)
    draws = part(fit, "new plant")[..., 0]
    rng = np.random.default_rng(2)
    mu, sigma2 = fit.draws["mu"], fit.draws["sigma2"]
    values = quantiles_of(draws)
    # y = mu + N(0, sigma2) + t_5 × scale: the normal part is integrated, the t part sampled
    # densely.
    steps = rng.standard_t(5, 2000) * 2.0
    thin = slice(None, None, 20)
    exact = [
        np.mean(norm.cdf((v - mu[:, thin, None] - steps) / np.sqrt(sigma2[:, thin, None])))
        for v in values
    ]
    assert np.abs(errors(draws, values, exact)).max() < 4


def test_the_table_holds_medians_and_both_intervals():
    fit = synthetic_fit("multilevel_poisson", table(["rose", "tulip", "iris"], 5))
    found = pyflowers.predict(fit)
    rows = found.table()
    assert list(rows.columns) == ["median", "5%", "25%", "75%", "95%", "mcse"]
    assert ("next month", "y_new[rose]") in rows.index
    assert ("new plant", "y_new[new plant]") in rows.index
    draws = found.draws()["next month"]
    for i, name in enumerate(("rose", "tulip", "iris")):
        row = rows.loc[("next month", f"y_new[{name}]")]
        for column, prob in zip(rows.columns[:5], (0.5, 0.05, 0.25, 0.75, 0.95), strict=True):
            value = row[column]
            assert value == np.floor(value)  # intervals of counts end at integers
            assert np.mean(draws[..., i] <= value) >= prob
            assert np.mean(draws[..., i] <= value - 1) < prob


def test_the_seed_repeats_and_changes_what_is_drawn():
    fit = synthetic_fit("iid_normal", table(["a", "b"], 4))
    first, again = part(fit, "next month"), part(fit, "next month")
    assert np.array_equal(first, again)
    assert not np.array_equal(first, part(fit, "next month", seed=2))


def test_a_flat_prior_predicts_no_observation_of_a_new_group_and_says_why():
    fit = synthetic_fit("multilevel_normal", table(["a", "b", "c"], 5))
    found = pyflowers.predict(fit)
    assert set(found.draws()) == {"next month", "mean of a new plant"}
    (note,) = found.notes
    assert "sigma2_plant has a flat prior, from which no value for a new plant can be drawn" in note
    assert "give --prior sigma2_plant_nu and --prior sigma2_plant_scale above 0" in note


Y_NEW = TRIAL.replace("int y_sim;", "int y_sim;\n  array[P] int y_next = poisson_log_rng(alpha);")


def test_a_program_of_ones_own_predicts_what_it_declares(own_program):
    declared = {**SECTIONS, "roles": {"y_rep": "y_sim", "y_new": "y_next"}}
    declared["dims"] = {**SECTIONS["dims"], "y_next": ["patient"]}
    program = own_program("trial", Y_NEW, declaration=declared)
    fit = pyflowers.fit(program, visits(), seed=1, chains=2, warmup=200, draws=100, engine="stanli")
    rows = pyflowers.predict(fit).table()
    assert list(rows.index) == [("new data", "y_next[Ann]"), ("new data", "y_next[Bob]")]
    assert np.array_equal(pyflowers.predict(fit).draws()["new data"], fit.draws["y_next"])


def test_a_program_without_predictions_is_told_what_to_add(own_program):
    program = own_program("trial", TRIAL, declaration=SECTIONS)
    fit = pyflowers.fit(program, visits(), seed=1, chains=1, warmup=50, draws=20, engine="stanli")
    output = "trial has no y_new, which is needed for predictions of new data: declare y_new"
    with pytest.raises(ConfigError, match=re.escape(output)):
        pyflowers.predict(fit)


def test_many_predictions_without_columns_are_shown_in_part():
    frame = pd.DataFrame({"y": np.arange(70.0)})
    options = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}
    found = pyflowers.predict(pyflowers.fit("y ~ 1", frame, **options))
    assert "10 more rows" in str(found)
    assert "10 more rows" in found._repr_html_()
