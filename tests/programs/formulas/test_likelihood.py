"""What the likelihood alone says does not depend on the prior, and finds a prior that wins."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from family_cases import NEW
from tiers import mostly_campaign

import pyflowers
from pyflowers.data.table import LARGEST_INT
from pyflowers.engines import SamplerOptions, find_engine
from pyflowers.fits.sampling import fit_data
from pyflowers.programs import Program
from pyflowers.programs.families import family_names, find_family

HOW = {"seed": 1, "engine": "stanli", "chains": 2, "warmup": 500, "draws": 500}

NUM_ROWS = 120
FAMILIES = [name for name in family_names() if name not in NEW]

SHIFTS = {
    "gaussian": 3,
    "student": 3,
    "poisson": 0.5,
    "negbinomial": 0.8,
    "lognormal": 1,
    "gamma": 1,
}

NEAR, BETWEEN = 0.05, 1.0
"""Scales of a prior, in standard errors, whose posterior is near the prior, or in between."""


def data_of(family):
    """Return data of a family in which x and arm matter."""
    rng = np.random.default_rng([99, FAMILIES.index(family)])
    x, arm = rng.normal(4, 2, NUM_ROWS), rng.integers(0, 2, NUM_ROWS)
    values = {
        "sigma": 1.0,
        "nu": 5.0,
        "phi": 6.0,
        "shape": 2.0,
        "zi": 0.2,
        "trials": np.full(NUM_ROWS, 8.0),
        "threshold": np.array([-1.0, 0.3, 1.4])[None, None, :, None],
    }
    # Bits and ratings say less than other values.
    slope = 1.2 if family in ("bernoulli", "cumulative") else 0.5
    eta = slope * (x - 4) + 0.6 * arm + SHIFTS.get(family, 0)
    its = find_family(family)
    y = np.asarray(its.draw(eta[None, None], values, rng))[0, 0]
    y = y if family in ("gaussian", "student", "lognormal", "gamma", "beta") else y.astype(int)
    return pd.DataFrame({"x": x, "arm": np.array(["a", "b"])[arm], "y": y, "n": 8})


def fit_of(family, **priors):
    formula = "y | trials(n) ~ x + arm" if family == "binomial" else "y ~ x + arm"
    return pyflowers.fit(formula, data_of(family), family=family, priors=priors, **HOW)


def alone(fit, name):
    """Return the estimate of the first element, and its standard error."""
    found = fit.program.python.likelihood_alone(fit.draws, fit.data)[name]
    return float(np.ravel(found.estimate)[0]), float(np.sqrt(np.ravel(found.variance)[0]))


@pytest.mark.parametrize("family", ["gaussian", "negbinomial", "beta"])
def test_other_parameters_do_not_make_up_for_a_prior_that_wins(family):
    """With b[x] held at 0, sigma is too large, or shape and phi too small."""
    estimate, error = alone(fit_of(family), "b")
    held = fit_of(family, **{"b_scale[x]": NEAR * error})
    assert alone(held, "b") == pytest.approx((estimate, error), rel=0.05)


@pytest.mark.parametrize("family", mostly_campaign(FAMILIES, ("poisson", "cumulative")))
def test_every_planted_conflict_is_named(family):
    """Of twelve families, a coefficient and the intercept, near the prior and in between."""
    usual = fit_of(family)
    assert not usual.verdict.prior.failed
    estimate, error = alone(usual, "b")
    assert abs(estimate) / error > 5  # between prior and data, it is 1/√2 as far
    planted = [("b[x]", {"b_scale[x]": scale * error}) for scale in (NEAR, BETWEEN)]
    if family != "cumulative":
        estimate, error = alone(usual, "Intercept_at_means")
        # A t prior with 3 degrees of freedom gives way to data that are less far.
        away = {"Intercept_location": estimate - 25 * error}
        planted += [
            ("Intercept_at_means", {**away, "Intercept_scale": scale * error})
            for scale in (NEAR, BETWEEN)
        ]
    for parameter, priors in planted:
        failed = fit_of(family, **priors).verdict.prior.failed
        assert any(parameter in check.name for check in failed), (parameter, priors)


FROM_PRIORS = [
    ("y ~ x + (1 | g)", "gaussian"),
    ("y ~ x + (x | g)", "gaussian"),
    ("y ~ year * arm", "gaussian"),
    ("y ~ x + (1 | g)", "poisson"),
    ("y ~ x + (1 | g)", "bernoulli"),
    ("y ~ x + arm", "negbinomial"),
    ("y ~ x + arm", "bernoulli"),
    ("y ~ x + arm", "cumulative"),
]


@pytest.mark.campaign
def test_the_prior_is_seldom_accused_of_data_drawn_from_it():
    """Of 63 data sets for each of eight formulas, 504 in all, at most 2% raise an alarm."""
    found = [prior_alarms(formula, family) for formula, family in FROM_PRIORS]
    alarms, num = (sum(each) for each in zip(*found, strict=True))
    assert num >= 480
    assert alarms <= 0.02 * num, found


def prior_alarms(formula, family):
    """Return the number of alarms, and the number of data sets that Stan can represent."""
    rng = np.random.default_rng([5, *map(ord, formula + family)])
    frame = pd.DataFrame({"x": rng.normal(size=60), "year": np.tile(np.arange(2005, 2020), 4)})
    frame["arm"], frame["g"] = rng.choice(["a", "b"], 60), np.repeat(list("abcdefghijkl"), 5)
    frame["y"] = rng.integers(0, 2, 60) if family == "bernoulli" else rng.integers(1, 5, 60)
    program = Program.from_formula(formula, frame, family=family)
    design, _ = program.fill(program.read(frame), program.resolve_priors())
    drawn = program.python.prior.draw(design, 63, rng)
    alarms, num, engine = 0, 0, find_engine("stanli")
    for i in range(63):
        one = {quantity: draws[:, i : i + 1] for quantity, draws in drawn.items()}
        y = np.ravel(one["y_rep"] if "y_rep" in one else program.y_rep(one, design, rng))
        if program.source.blocks.data[design.observed].is_int:
            if y.max() > LARGEST_INT:  # beyond what Stan can represent
                continue
            y = y.astype(np.int64)
        data = replace(design, values={**design.values, design.observed: y})
        options = SamplerOptions(seed=i, chains=2, warmup=300, draws=300)
        found = fit_data(program, data, options, engine=engine)
        num += 1
        alarms += bool(found.verdict.prior.failed)
    return alarms, num


def test_a_share_of_zeros_that_may_be_0_contradicts_no_prior():
    """Counts of one level are never 0, so their share of excess zeros has no lower limit."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"f": np.repeat(["some", "none"], 60), "g": np.tile(list("abcdef"), 20)})
    frame["y"] = rng.poisson(12, 120) * np.where(frame.f == "some", rng.random(120) > 0.3, 1)
    fit = pyflowers.fit(
        "y ~ 1 + (1 | g); zi ~ C(f, levels=['some', 'none'])",
        frame,
        family="zero_inflated_poisson",
        seed=1,
        engine="exact",
    )
    alone = fit.program.python.likelihood_alone(fit.draws, fit.data)["b_zi"]
    assert alone.estimate[0] < -8
    assert alone.variance[0] > 1e4
    assert fit.verdict.prior.passed
