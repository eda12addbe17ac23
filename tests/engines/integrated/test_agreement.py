"""Quantiles of the engine `exact` equal those of long NUTS runs; ranks are uniform."""

import numpy as np
import pandas as pd
import pytest
from mixed_models import check_against_nuts, of_family
from tiers import mostly_campaign

import pyflowers
from pyflowers.programs.families import family_names, find_family


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
    frame = frame.assign(s=rng.uniform(0.3, 1, num), w=rng.uniform(0.5, 3, num))
    frame["positive"] = np.exp(frame.y / 4)
    labels = {name: [f"{name}{code}" for code in frame[name]] for name in ("a", "b", "few", "none")}
    return frame.assign(**labels)


def of_neighbours(labels):
    """Return a covariance that falls with the distance of labels."""
    places = np.arange(len(labels))
    return pd.DataFrame(0.7 ** np.abs(places[:, None] - places), index=labels, columns=labels)


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
    "y ~ x + (1 | a); sigma ~ z",
    "y ~ x + (x | b); sigma ~ z",
    "y ~ s(x, k = 6) + (1 | a)",
    "y ~ s(x, by = few, k = 5) + (1 | b)",
    "y ~ gp(z, k = 8) + (x | a)",
    "y ~ x + (x | gr(b, cov = A)) + (1 | a)",
    "y | se(s) ~ x + (1 | a)",
    "y | se(s, sigma = TRUE) ~ x + (1 | a) + (1 | b)",
    "y | weights(w, kind = precision) ~ x + (1 | a)",
]


OFTEN = (
    "y ~ x + (1 | a) + (1 | b)",
    "y ~ x + (x | a) + (1 | b)",
    "y ~ x + (1 | a); sigma ~ z",
    "y ~ s(x, k = 6) + (1 | a)",
    "y ~ x + (x | gr(b, cov = A)) + (1 | a)",
)
"""The formulas that the slow tests compare; the others are left to scripts/campaigns."""


@pytest.mark.parametrize("formula", mostly_campaign(NORMAL, OFTEN))
def test_normal_models_agree_with_nuts(formula):
    frame = normal_table()
    known = {"A": of_neighbours(sorted(frame.b.unique()))} if "cov" in formula else {}
    exact = pyflowers.fit(formula, frame, known=known, seed=1, engine="exact")
    assert exact.diagnostics.passed
    how = {"draws": 10_000, "adapt_delta": 0.98, "known": known}
    nuts = pyflowers.fit(formula, frame, seed=2, engine="stanli", **how)
    check_against_nuts(exact, nuts)


@pytest.mark.slow
def test_a_lognormal_model_agrees_with_nuts():
    how = {"family": "lognormal"}
    exact = pyflowers.fit("positive ~ x + (1 | a)", normal_table(), seed=1, engine="exact", **how)
    nuts = pyflowers.fit(
        "positive ~ x + (1 | a)", normal_table(), seed=2, engine="stanli", draws=10_000, **how
    )
    check_against_nuts(exact, nuts)


# The bounds of shifted_lognormal depend on the data; the likelihood of asym_laplace has kinks; and
# categories have several linear predictors.
APART = {"gaussian", "lognormal", "shifted_lognormal", "asym_laplace"}
APART |= {"categorical", "multinomial"}


OF_FAMILIES = [
    (name, terms)
    for name in family_names()
    for terms in ("x", "x + (1 | g)", "x + (0 + x | g)")
    if name not in APART
]
OFTEN_OF_FAMILIES = [(name, "x + (1 | g)") for name in ("bernoulli", "negbinomial", "cumulative")]


@pytest.mark.parametrize(("family", "terms"), mostly_campaign(OF_FAMILIES, OFTEN_OF_FAMILIES))
def test_families_agree_with_nuts(family, terms):
    response = "y | trials(8)" if find_family(family).has_trials else "y"
    question = f"{response} ~ {terms}", of_family(family)
    exact = pyflowers.fit(*question, family=family, seed=1, engine="exact")
    assert exact.diagnostics.passed
    nuts = pyflowers.fit(
        *question, family=family, seed=2, engine="stanli", draws=10_000, adapt_delta=0.95
    )
    check_against_nuts(exact, nuts)


CUT = [
    ("time | cens(lost) ~ x + (1 | g)", "weibull"),
    ("time | cens(sort, y2 = end) ~ x + (x | g)", "lognormal"),
    ("y | cens(lost) ~ x + (1 | g)", "gaussian"),
    ("y | cens(lost) ~ x", "student"),
    ("n | trunc(lb = 1) ~ x + (1 | g)", "poisson"),
    ("n | cens(lost) + trunc(lb = 1) ~ x + (0 + x | g)", "poisson"),
]


def cut_table(num=120, seed=8):
    """Return a table with responses of which some are known only to be above a limit."""
    frame, rng = of_family("gaussian", num), np.random.default_rng(seed)
    frame["time"] = np.minimum(np.exp(frame.y / 2), 3.5)
    frame["lost"] = np.where(rng.random(num) < 0.2, "right", "none")
    frame.loc[frame.time == 3.5, "lost"] = "right"
    frame["sort"] = np.where(frame.time == 3.5, 1, rng.choice([-1, 0, 0, 2], num))
    frame["end"] = frame.time + rng.uniform(0.2, 1, num)
    return frame.assign(n=1 + rng.poisson(np.exp(frame.y / 4)))


@pytest.mark.parametrize(("formula", "family"), mostly_campaign(CUT, (CUT[0], CUT[4])))
def test_censored_and_truncated_responses_agree_with_nuts(formula, family):
    how = {"family": family}
    exact = pyflowers.fit(formula, cut_table(), seed=1, engine="exact", **how)
    assert exact.diagnostics.passed
    how |= {"draws": 10_000, "adapt_delta": 0.95}
    nuts = pyflowers.fit(formula, cut_table(), seed=2, engine="stanli", **how)
    check_against_nuts(exact, nuts)


RANKED = [
    ("y ~ x + (1 | a) + (1 | few)", "gaussian"),
    ("y ~ x + (x | eight)", "gaussian"),
    ("y ~ x + (1 | few); sigma ~ z", "gaussian"),
    ("n ~ x + (1 | few)", "bernoulli"),
    ("n ~ x + (1 | eight)", "poisson"),
    ("n ~ z + (0 + x | five)", "negbinomial"),
]


@pytest.mark.campaign
@pytest.mark.parametrize(("formula", "family"), RANKED)
def test_ranks_are_uniform(formula, family, tmp_path):
    frame = normal_table(48).assign(n=lambda d: np.arange(len(d)) % 2)
    for name, num in (("five", 5), ("eight", 8)):
        frame[name] = np.resize([f"{name}{i}" for i in range(num)], len(frame))
    found = pyflowers.sbc(
        formula, frame, family=family, engine="exact", sims=1_000, seed=1, out=tmp_path / "sbc"
    )
    assert not found.failed
