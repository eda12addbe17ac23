"""Quantiles of the engine `exact` equal those of long NUTS runs; ranks are uniform."""

import numpy as np
import pandas as pd
import pytest
from test_integrated import check_against_nuts

import pyflowers

pytestmark = pytest.mark.slow


def normal_table(num=160, seed=6):
    """Return crossed and nested groups of 3 to 40 labels; the effects of `none` are 0."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 40, num),
            "b": rng.integers(0, 12, num),
            "few": rng.integers(0, 3, num),
            "none": rng.integers(0, 9, num),
            "x": rng.normal(2, 1.5, num),
            "z": rng.normal(size=num),
        }
    )
    frame["y"] = 3 + 0.5 * frame.x + rng.normal(0, 1, 40)[frame.a] + rng.normal(0, 0.7, 12)[frame.b]
    frame["y"] += rng.normal(0, 1, 3)[frame.few] + rng.normal(0, 0.4, 40)[frame.a] * frame.x
    frame["y"] += rng.normal(0, 0.8, num)
    frame["positive"] = np.exp(frame.y / 4)
    labels = {name: [f"{name}{code}" for code in frame[name]] for name in ("a", "b", "few", "none")}
    return frame.assign(**labels)


NORMAL = [
    "y ~ x + z",
    "y ~ 0 + x",
    "y ~ x + (1 | a)",
    "y ~ x + (1 | few)",
    "y ~ x + (1 | none)",
    "y ~ x + (1 | a) + (1 | b)",
    "y ~ x + (1 | a) + (1 | b) + (1 | few) + (1 | none)",
    "y ~ x + (1 | few/b)",
    "y ~ x + (x | a)",
    "y ~ x + (x || a)",
    "y ~ x + (x | a) + (1 | b)",
    "y ~ x + offset(z) + (1 | a) + (0 + x | b)",
    "y ~ x + I(x**2) + z + (1 | a)",
    "y ~ few + (1 | a)",
]


@pytest.mark.parametrize("formula", NORMAL)
def test_normal_models_agree_with_nuts(formula):
    frame = normal_table()
    exact = pyflowers.fit(formula, frame, seed=1, engine="exact")
    assert exact.diagnostics.passed
    nuts = pyflowers.fit(formula, frame, seed=2, engine="stanli", draws=10_000, adapt_delta=0.98)
    check_against_nuts(exact, nuts)


def test_a_lognormal_model_agrees_with_nuts():
    how = {"family": "lognormal"}
    exact = pyflowers.fit("positive ~ x + (1 | a)", normal_table(), seed=1, engine="exact", **how)
    nuts = pyflowers.fit(
        "positive ~ x + (1 | a)", normal_table(), seed=2, engine="stanli", draws=10_000, **how
    )
    check_against_nuts(exact, nuts)


def family_table(num=120, seed=4):
    """Return responses of all families, with effects of 15 labels."""
    rng = np.random.default_rng(seed)
    codes, x = rng.integers(0, 15, num), rng.normal(1, 1, num)
    eta = 0.5 + 0.6 * x + rng.normal(0, 0.6, 15)[codes]
    share = 1 / (1 + np.exp(-eta))
    frame = pd.DataFrame({"g": [f"g{code}" for code in codes], "x": x})
    frame["student"] = eta + 0.3 * rng.standard_t(3, num)
    frame["gamma"] = rng.gamma(2, np.exp(eta) / 2)
    frame["beta"] = np.clip(rng.beta(5 * share, 5 * (1 - share)), 1e-6, 1 - 1e-6)
    frame["bernoulli"] = (rng.random(num) < share) * 1
    frame["binomial"] = rng.binomial(8, share)
    frame["poisson"] = rng.poisson(np.exp(eta))
    frame["negbinomial"] = rng.poisson(rng.gamma(2, np.exp(eta) / 2))
    is_zero = rng.random(num) < 0.25
    frame["zero_inflated_poisson"] = np.where(is_zero, 0, rng.poisson(np.exp(eta + 0.5)))
    frame["zero_inflated_negbinomial"] = np.where(is_zero, 0, frame.negbinomial)
    cuts = np.array([-0.5, 0.7, 2.0])
    frame["cumulative"] = 1 + (eta[:, None] + rng.logistic(size=(num, 1)) > cuts).sum(axis=1)
    return frame


FAMILIES = [name for name in family_table() if name not in ("g", "x")]


@pytest.mark.parametrize("terms", ["x", "x + (1 | g)", "x + (0 + x | g)"])
@pytest.mark.parametrize("family", FAMILIES)
def test_families_agree_with_nuts(family, terms):
    response = "binomial | trials(8)" if family == "binomial" else family
    question = f"{response} ~ {terms}", family_table()
    exact = pyflowers.fit(*question, family=family, seed=1, engine="exact")
    assert exact.diagnostics.passed
    nuts = pyflowers.fit(
        *question, family=family, seed=2, engine="stanli", draws=10_000, adapt_delta=0.95
    )
    check_against_nuts(exact, nuts)


@pytest.mark.parametrize(
    ("formula", "family"),
    [("y ~ x + (1 | a) + (1 | few)", "gaussian"), ("n ~ x + (1 | few)", "bernoulli")],
)
def test_ranks_are_uniform(formula, family, tmp_path):
    frame = normal_table(48).assign(n=lambda d: np.arange(len(d)) % 2)
    found = pyflowers.sbc(
        formula, frame, family=family, engine="exact", sims=1_000, seed=1, out=tmp_path / "sbc"
    )
    assert not found.failed
