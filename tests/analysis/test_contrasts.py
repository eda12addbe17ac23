"""Contrasts: the grammar and its refusals, labels, intervals, probabilities and their errors."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from synthetic_fits import synthetic_fit, table

import pyflowers
from pyflowers import convergence
from pyflowers.analysis.contrasts import evaluate
from pyflowers.data import from_frame
from pyflowers.errors import ConfigError
from pyflowers.fits.posterior import element_names


@pytest.fixture(scope="module")
def fit():
    return synthetic_fit("multilevel_poisson", table(["rose", "tulip", "iris"], 5))


def value(fit, text):
    return evaluate(text, fit.posterior).values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mu", lambda d: d["mu"]),
        ("mu_plant[3] - mu_plant[1]", lambda d: d["mu_plant"][..., 2] - d["mu_plant"][..., 0]),
        ("mu_plant[iris] / mu_plant[rose]", lambda d: d["mu_plant"][..., 2]
         / d["mu_plant"][..., 0]),
        ("mu_plant['tulip'] * 2", lambda d: d["mu_plant"][..., 1] * 2),
        ("mu_plant - mu_plant[rose]", lambda d: d["mu_plant"] - d["mu_plant"][..., :1]),
        ("exp(mu + sigma2 / 2) ** 0.5", lambda d: np.sqrt(np.exp(d["mu"] + d["sigma2"] / 2))),
        ("-abs(mu - 1)", lambda d: -np.abs(d["mu"] - 1)),
        ("mean(mu_plant) + max(mu_plant)", lambda d: d["mu_plant"].mean(-1)
         + d["mu_plant"].max(-1)),
        ("sd(mu_plant) - var(mu_plant)", lambda d: d["mu_plant"].std(-1, ddof=1)
         - d["mu_plant"].var(-1, ddof=1)),
        ("mu_plant[1] < mu_plant[2] < mu_plant[3]", lambda d: (d["mu_plant"][..., 0]
         < d["mu_plant"][..., 1]) & (d["mu_plant"][..., 1] < d["mu_plant"][..., 2])),
        ("mu > 0 and not sigma2 > 1 or mu > 3", lambda d: ((d["mu"] > 0) & (d["sigma2"] <= 1))
         | (d["mu"] > 3)),
        ("sum(mu_plant > 5)", lambda d: (d["mu_plant"] > 5).sum(-1)),
        ("log(sqrt(sigma2))", lambda d: 0.5 * np.log(d["sigma2"])),
    ],
    ids=range(13),
)  # fmt: skip
def test_an_expression_is_evaluated_in_every_draw(fit, text, expected):
    assert np.allclose(value(fit, text), expected(fit.draws), rtol=1e-12)


def test_ranks_count_from_the_largest(fit):
    ranks, draws = value(fit, "rank(mu_plant)"), fit.draws["mu_plant"]
    assert np.array_equal(ranks, 1 + (draws[..., None, :] > draws[..., :, None]).sum(-1))
    first = element_names(evaluate("rank(mu_plant)", fit.posterior))
    assert first == [f"rank(mu_plant)[{label}]" for label in ("rose", "tulip", "iris")]


def posterior(**quantities):
    """Return draws as a posterior; each quantity is given with the labels of its dimensions."""
    found = {
        name: (("chain", "draw", *labels), draws) for name, (draws, labels) in quantities.items()
    }
    return xr.Dataset(found, {k: v for _, labels in quantities.values() for k, v in labels.items()})


def test_a_label_comes_before_a_position():
    labels = ["2", "10", "a] - mu", "b c", "1,2"]
    draws = np.arange(10.0).reshape(1, 2, 5)
    given = posterior(m=(draws, {"g": labels}))
    for text, position in (
        *(("m[2]", 0), ("m[10]", 1), ("m[3]", 2), ("m[a] - mu]", 2), ("m[b c]", 3)),
        *(("m[1,2]", 4), ('m["b c"]', 3), ("m [5]", 4)),
    ):
        assert np.array_equal(evaluate(text, given).values, draws[..., position]), text


def test_a_number_among_numbered_labels_is_no_position():
    """Group 1 does not exist, and the first group, 32, must not be used instead."""
    given = posterior(m=(np.arange(6.0).reshape(1, 2, 3), {"g": ["32", "4", "8"]}))
    assert evaluate("m[4]", given).values[0, 0] == 1
    with pytest.raises(
        ConfigError, match=r"m has no element \[1\]; name a label, such as m\[32\]$"
    ):
        evaluate("m[1]", given)


def test_a_matrix_is_named_by_both_labels():
    draws = np.arange(6.0).reshape(1, 1, 2, 3)
    given = posterior(b=(draws, {"g": ["x", "y"], "h": ["p", "q", "r"]}))
    assert evaluate("b[y,q]", given).values == 4
    assert evaluate("b[2, 3]", given).values == 5


def test_vectors_of_different_elements_are_not_combined():
    draws = np.arange(6.0).reshape(1, 2, 3)
    given = posterior(a=(draws, {"g": ["x", "y", "z"]}), b=(draws[..., :2], {"h": ["p", "q"]}))
    with pytest.raises(ConfigError, match="combines 3 elements with 2 others; select single"):
        evaluate("a - b", given)
    assert np.array_equal(evaluate("a - b[p]", given).values, draws - draws[..., :1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read|invalid syntax"),
        ("mu +", "invalid syntax"),
        ("1 + 1", "names no quantity; name one, such as mu"),
        ("nu", "the posterior has no 'nu'; it has mu, sigma2, mu_plant"),
        ("mu_plant[9]", "mu_plant has no element [9]; name a label, such as mu_plant[rose]"),
        ("mu_plant[0]", "mu_plant has no element [0]"),
        ("mu_plant[-1]", "mu_plant has no element [-1]"),
        ("mu_plant[1", "the bracket after mu_plant is not closed"),
        ("mu[1]", "is not allowed"),
        ("__import__('os')", "is not a function that expressions can use; choose one of abs"),
        ("mu.mean()", "is not a function that expressions can use"),
        ("(lambda: mu)()", "is not a function that expressions can use"),
        ("[mu for mu in (1,)]", "is not allowed"),
        ("f'{mu}'", "is not allowed"),
        ("mu if mu > 0 else 1", "is not allowed"),
        ("(mu := 1)", "is not allowed"),
        ("'text' + mu", "is not allowed"),
        ("True + mu", "is not allowed"),
        ("1j * mu", "is not allowed"),
        ("mu @ mu", "is not allowed"),
        ("mu in mu_plant", "is not allowed"),
        ("mean(mu)", "mean takes a vector"),
        ("rank(mu)", "rank takes a vector"),
        ("exp(mu, 2)", "exp takes one argument"),
        ("mu and 1", "'and', 'or' and 'not' combine conditions"),
        ("not mu", "'and', 'or' and 'not' combine conditions"),
        ("(mu > 0) + 1", "a condition is not a number"),
        ("log(mu - 1000)", "is not a finite number in 2000 of 2000 values"),
        ("mu / 0", "is not a finite number"),
        ("mu + 1 / 0", "rewrite the expression so that it is defined"),
        ("mu ** 9e9 ** 9e9 ** 9e9", "is not a finite number|rewrite it"),
        ("_element_0", "the posterior has no '_element_0'"),
        ("(" * 60 + "mu" + ")" * 60 + "+ (" * 60, "cannot be read|too many|never closed|nested"),
        ("-" * 80 + "mu", "nested too deeply"),
        ("mu" + " + mu" * 1000, "expression has more than 2000 characters"),
    ],
    ids=range(35),
)
def test_what_is_not_of_the_grammar_is_refused(fit, text, message):
    with pytest.raises(ConfigError) as caught:
        pyflowers.contrast(fit, text)
    output = str(caught.value)
    assert any(part in output for part in message.split("|")), output
    assert "\n" not in output


def test_no_expression_is_an_error(fit):
    with pytest.raises(ConfigError, match=re.escape("contrast: there is no expression")):
        pyflowers.contrast(fit)


def test_numbers_have_intervals_and_errors(fit):
    found = pyflowers.contrast(fit, "mu_plant[3] - mu_plant[1]", "mu_plant[1] > 3")
    draws = (fit.draws["mu_plant"][..., 2] - fit.draws["mu_plant"][..., 0])[..., None]
    row = found.numbers().loc["mu_plant[3] - mu_plant[1]"]
    for column, prob in {"5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95}.items():
        assert row[column] == pytest.approx(np.quantile(draws, prob))
    assert row["mcse"] == pytest.approx(convergence.mcse_quantile(draws, 0.5)[0])
    assert row["mcse_95%"] == pytest.approx(convergence.mcse_quantile(draws, 0.95)[0])
    holds = fit.draws["mu_plant"][..., :1] > 3
    held = found.conditions().loc["mu_plant[1] > 3"]
    assert held["probability"] == np.mean(holds)
    assert 0 < held["mcse"] == pytest.approx(convergence.mcse_mean(holds)[0])


@pytest.mark.quick
def test_the_error_of_a_probability_is_that_of_repeated_samples():
    """Over independent fits of one posterior, the spread of the estimates is the reported error."""
    data = table(["a", "b", "c"], 5)
    found = [
        pyflowers.contrast(synthetic_fit("iid_normal", data, seed=seed, draws=100), "mu > 6")
        .conditions()
        .iloc[0]
        for seed in range(200)
    ]
    output = np.mean([row["mcse"] for row in found])
    assert np.std([row["probability"] for row in found]) == pytest.approx(output, rel=0.2)


def test_what_always_holds_has_no_error_that_could_be_estimated(fit):
    row = pyflowers.contrast(fit, "mu_plant[1] > 0").conditions().iloc[0]
    assert row["probability"] == 1
    assert np.isnan(row["mcse"])
    (record,) = pyflowers.contrast(fit, "mu_plant[1] > 0").records()
    found = {"probability": 1.0, "mcse": None, "ess": None}
    assert record == {"expression": "mu_plant[1] > 0", "kind": "condition", **found}


def test_labels_that_are_odd_are_named_as_they_are():
    names = ["it's", "a + b", "x[1]", "ü 東"]
    rows = [(name, month, month + 1) for name in names for month in range(4)]
    data = from_frame(pd.DataFrame(rows, columns=["plant", "month", "flowers"]))
    fit = synthetic_fit("multilevel_poisson", data)
    for i, name in enumerate(names):
        assert np.array_equal(value(fit, f"mu_plant[{name}]"), fit.draws["mu_plant"][..., i])


@pytest.mark.parametrize(
    ("labels", "written"),
    [
        ([str(10**17 + i) for i in range(3)], None),
        (["07", "7", "8"], None),
        ([True, False], ["True", "False"]),
        (pd.to_datetime(["2020-01-01", "2020-02-01"]), ["2020-01-01", "2020-02-01"]),
        ([7.0, 8.5], ["7", "8.5"]),
    ],
)
def test_rows_are_named_by_labels_as_they_are_written(labels, written, tmp_path):
    rng = np.random.default_rng(1)
    num = len(labels)
    frame = pd.DataFrame({"id": list(labels) * 10, "y": np.tile(5.0 * np.arange(num), 10)})
    frame["y"] += 0.1 * rng.normal(size=len(frame))
    how = {"engine": "stanli", "seed": 1, "chains": 2, "warmup": 100, "draws": 50}
    fit = pyflowers.fit("y ~ 1 + (1 | id)", frame, **how)
    fit.save(tmp_path / "run")
    for each in (fit, pyflowers.Fit.load(tmp_path / "run")):
        found = [
            float(pyflowers.contrast(each, f"mu[id {label}]").numbers()["median"].iloc[0])
            for label in written or labels
        ]
        np.testing.assert_allclose(found, 5.0 * np.arange(num), atol=0.5)


def test_a_list_of_expressions_is_refused_in_a_sentence(fit):
    with pytest.raises(ConfigError, match=r"an expression must be text, got \['mu'\]"):
        pyflowers.contrast(fit, ["mu"])
