"""Group integrals and the effects drawn from them, against integrals by SciPy."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from mixed_models import of_family, posed
from scipy.integrate import quad

from pyflowers.engines import EngineLacksError
from pyflowers.engines.integrated import drawn, method_of
from pyflowers.engines.integrated.importance import approximated
from pyflowers.engines.integrated.integrals import Integrals
from pyflowers.engines.integrated.quadrature import OneFactorModel

FAMILIES = ["student", "gamma", "beta", "bernoulli", "poisson", "negbinomial", "cumulative"]


def table(num=40, labels=8):
    """Return responses of all kinds; the last labels have few rows, and one has only zeros."""
    rng = np.random.default_rng(5)
    codes = np.sort(rng.integers(0, labels, num) ** 2 // labels)
    x = rng.normal(1, 1, num)
    eta = 0.3 + 0.4 * x + rng.normal(0, 0.8, labels)[codes]
    share = 1 / (1 + np.exp(-eta))
    frame = pd.DataFrame({"g": [f"g{code}" for code in codes], "x": x})
    frame["student"] = eta + 0.2 * rng.standard_t(2, num)
    frame["gamma"] = rng.gamma(2, np.exp(eta) / 2)
    frame["beta"] = np.clip(rng.beta(4 * share, 4 * (1 - share)), 1e-6, 1 - 1e-6)
    frame["bernoulli"] = (rng.random(num) < share) * 1
    frame["binomial"] = rng.binomial(5, share)
    frame["poisson"] = rng.poisson(np.exp(eta)) * (codes != codes.max())
    frame["negbinomial"] = frame["poisson"]
    frame["counts"], frame["end"] = 1 + frame["poisson"], frame["student"] + 0.7
    frame["least"] = frame["student"] - rng.uniform(0.5, 3, num)
    frame["sort"] = rng.choice([-1, 0, 0, 1, 2], num)
    frame["side"] = np.where(frame["sort"] == 2, 0, frame["sort"])
    frame["cumulative"] = 1 + (eta[:, None] + rng.logistic(size=(num, 1)) > [-0.5, 1.0]).sum(axis=1)
    return frame.sample(frac=1, random_state=1, ignore_index=True)


def method(family, rhs="x + (1 | g)", response=""):
    _, _, model = posed(f"{response or family} ~ {rhs}", table(), family=family)
    found = method_of(model, "test")
    assert isinstance(found, OneFactorModel)
    stretch, _, first = approximated(found.log_density, found.start, found.coordinates.slow_sides)
    found.prepare(stretch, first)
    return model, found, stretch(first.centre[None])[0]


def integrand(model, values, label):
    """Return the function of an effect whose integral is the likelihood of a label."""
    (term,) = model.effects
    own = np.flatnonzero(term.codes[model.rows] == label)
    rows = model.rows[own]
    eta = model.offset[rows]
    for its in model.coefficients:
        eta = eta + its.columns[rows] @ values[its.name][0]
    given = {its.role: values[its.name][None] for its in model.parameters}
    given = {k: v[..., None] if k == "threshold" else v for k, v in given.items()}
    given |= {name: its[own] for name, its in model.of_rows.items()}
    sd = float(values[term.sd.name][0, 0])

    def density(u):
        here = (eta + term.columns[rows, 0] * u)[None, None]
        log_lik = model.family.log_lik(model.y[own], here, given).sum()
        return np.exp(log_lik - 0.5 * (u / sd) ** 2) / sd / np.sqrt(2 * np.pi)

    return density, sd


@pytest.mark.quick
@pytest.mark.parametrize("rhs", ["x + (1 | g)", "x + (0 + x | g)"])
@pytest.mark.parametrize(
    ("family", "response"),
    [
        *((family, family) for family in FAMILIES),
        ("binomial", "binomial | trials(5)"),
        ("gaussian", "student | cens(sort, y2 = end)"),
        ("student", "student | trunc(lb = least)"),
        ("weibull", "gamma | cens(side)"),
        ("negbinomial", "counts | trunc(lb = 1)"),
    ],
)
def test_the_density_is_that_of_integrals_by_scipy(family, response, rhs):
    model, found, mode = method(family, rhs, response)
    points = mode + [[0.0], [0.3]] * np.linspace(-1, 1, mode.shape[1])
    values, log_prior, _ = found.coordinates.values(points)
    logs = found.log_density(points) - log_prior
    expected = np.zeros(2)
    for i in range(2):
        here = {name: its[i : i + 1] for name, its in values.items()}
        for label in range(model.effects[0].num_labels):
            density, sd = integrand(model, here, label)
            edges = np.linspace(-9 * sd, 9 * sd, 25)
            whole = sum(quad(density, a, b, epsabs=0)[0] for a, b in itertools.pairwise(edges))
            expected[i] += np.log(whole)
    assert logs == pytest.approx(expected, abs=2e-3)
    assert logs[1] - logs[0] == pytest.approx(expected[1] - expected[0], abs=1e-3)
    assert found.error(points) < 1e-3


@pytest.mark.quick
@pytest.mark.parametrize("family", ["student", "bernoulli", "poisson"])
def test_effects_have_their_one_dimensional_distributions(family):
    model, found, mode = method(family)
    num = 20_000
    drawn = found.draw(mode, np.array([num]), np.random.default_rng(1))
    values, *_ = found.coordinates.values(mode)
    (term,) = model.effects
    for label in range(term.num_labels):
        density, sd = integrand(model, values, label)
        grid = np.linspace(-9 * sd, 9 * sd, 4_001)
        below = np.cumsum([density(u) for u in grid])
        for prob in (0.02, 0.25, 0.5, 0.75, 0.98):
            at = np.interp(prob, below / below[-1], grid)
            share = np.mean(drawn[term.name][:, label, 0] <= at)
            assert abs(share - prob) < 4.5 * np.sqrt(prob * (1 - prob) / num) + 2e-3


def test_equal_rows_are_counted_and_give_the_same_density():
    frame = table()
    _, _, model = posed("bernoulli ~ 1 + (1 | g)", frame, family="bernoulli")
    found = method_of(model, "test")
    assert isinstance(found, OneFactorModel)
    assert len(found.y) < len(model.y)
    assert found.times.sum() == len(model.y)
    _, _, apart = posed("bernoulli ~ x + (1 | g)", frame, family="bernoulli")
    other = method_of(apart, "test")
    assert isinstance(other, OneFactorModel)
    assert len(other.y) == len(frame)


def test_labels_without_observations_have_effects_from_their_population():
    _, _, model = posed("poisson ~ 1 + (1 | g)", table(), family="poisson")
    (term,) = model.effects
    keep = term.codes[model.rows] != 0
    less = type(model)(
        **{**model.__dict__, "y": model.y[keep], "rows": model.rows[keep]},
    )
    found = method_of(less, "test")
    drawn = found.draw(found.start[None], np.array([20_000]), np.random.default_rng(2))
    sd = drawn[term.sd.name][0, 0]
    assert drawn[term.name][:, 0, 0].std() == pytest.approx(sd, rel=0.03)


@pytest.mark.parametrize(
    ("formula", "family", "reason"),
    [
        ("n ~ x + (1 | g) + (1 | h)", "poisson", "2 group terms, and for the family poisson only"),
        ("n ~ x + (x + I(x**2) | g)", "poisson", "3 effects vary by group, and for the family poi"),
        (
            "student | cens(side) ~ x + (1 | g) + (1 | h)",
            "gaussian",
            "2 group terms, and for the family gaussian with a censored or truncated response only",
        ),
    ],
)
def test_the_reason_against_the_method_is_given(formula, family, reason):
    frame = table().assign(h=np.tile(list("abcd"), 10)).rename(columns={"poisson": "n"})
    _, _, model = posed(formula, frame, family=family)
    with pytest.raises(EngineLacksError, match=re.escape(reason)):
        method_of(model, "test")


@pytest.mark.parametrize("family", FAMILIES[1:])  # with Student t there may be several modes
def test_modes_are_found_from_anywhere(family):
    _, found, mode = method(family)
    points = mode + np.random.default_rng(2).normal(0, 0.7, (50, mode.shape[1]))
    values, *_ = found.coordinates.values(points)
    eta, sd = found.linear(values), values[found.effect.sd.name]
    near = Integrals(found, values, eta, sd, found.near(points))
    start = np.random.default_rng(3).normal(0, 1.5, near.modes.shape)
    far = Integrals(found, values, eta, sd, start)
    assert np.abs(far.modes - near.modes).max() < 0.05 * near.widths.max()
    np.testing.assert_allclose(far.log_integrals, near.log_integrals, atol=1e-3)
    for move in (-0.05, 0.05):  # the modes are maxima
        falls = near.log_joint(near.modes) - near.log_joint(near.modes + move * near.widths)
        assert falls.min() > -1e-3


@pytest.mark.parametrize("family", ["exgaussian", "zero_inflated_negbinomial"])
def test_weights_are_good_where_a_part_of_the_distribution_may_be_absent(family):
    _, _, model = posed("y ~ x", of_family(family), family=family)
    rngs = map(np.random.default_rng, range(6))
    found = [drawn(method_of(model, "test"), 4_000, rng).weighted for rng in rngs]
    assert max(each.k_hat for each in found) < 0.5
