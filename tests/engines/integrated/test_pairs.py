"""Integrals of two effects of each label, against a grid; posteriors, against NUTS."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mixed_models import check_against_nuts, posed
from scipy import stats
from scipy.special import logsumexp

import pyflowers
from pyflowers.engines.integrated import method_of
from pyflowers.engines.integrated.pairs import PairIntegrals


def of_pairs(num_labels=8, num=6, seed=5):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(num_labels), num)
    x = rng.normal(size=len(codes))
    effects = rng.multivariate_normal([0, 0], [[0.5, 0.2], [0.2, 0.3]], num_labels)[codes]
    eta = 0.8 + 0.4 * x + effects[:, 0] + effects[:, 1] * x
    n = rng.poisson(np.exp(eta))
    n[codes == 0] = 0  # whose integrand falls slowly to one side
    k = rng.binomial(4, 1 / (1 + np.exp(-eta)))
    return pd.DataFrame({"n": n, "k": k, "x": x, "g": [f"g{code}" for code in codes]})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("n ~ x + (x | g)", "poisson"),
        ("n ~ x + (x || g)", "negbinomial"),
        ("k | trials(4) ~ x + (x | g)", "binomial"),
        ("n ~ x + (x | g)", "student"),
    ],
)
def test_the_likelihood_is_that_of_a_grid(formula, family):
    _, _, model = posed(formula, of_pairs(), family=family)
    method: Any = method_of(model, "test")
    method.num_nodes = 25
    point = method.start[None] + 0.2
    values, log_prior, _ = method.coordinates.values(point)
    found = float((method.log_density(point) - log_prior)[0])
    (effect,) = model.effects
    factor, eta = values[effect.name][0], method.linear(values)[0]
    side = np.linspace(-7, 7, 281)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    log_weight = stats.norm.logpdf(grid).sum(axis=1) + 2 * np.log(side[1] - side[0])
    at = grid @ factor.T @ method.z.T
    repeated = {name: np.repeat(its, len(grid), axis=0) for name, its in values.items()}
    rows = method.times * method.log_lik(eta + at, repeated)
    labels = np.add.reduceat(rows, method.starts, axis=1)
    expected = logsumexp(labels + log_weight[:, None], axis=0).sum()
    assert found == pytest.approx(expected, abs=2e-3)


@pytest.mark.quick
def test_drawn_effects_have_the_moments_of_a_grid():
    _, _, model = posed("n ~ x + (x | g)", of_pairs(), family="poisson")
    method: Any = method_of(model, "test")
    point = method.start[None]
    values, *_ = method.coordinates.values(point)
    drawn = method.draw(point, np.array([20_000]), np.random.default_rng(2))["r_g"]
    factor, eta = values["r_g"][0], method.linear(values)[0]
    side = np.linspace(-7, 7, 281)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    effects = grid @ factor.T
    repeated = {name: np.repeat(its, len(grid), axis=0) for name, its in values.items()}
    rows = method.times * method.log_lik(eta + effects @ method.z.T, repeated)
    logs = np.add.reduceat(rows, method.starts, axis=1)
    logs += stats.norm.logpdf(grid).sum(axis=1)[:, None]
    weights = np.exp(logs - logsumexp(logs, axis=0))
    mean = weights.T @ effects
    square = weights.T @ effects**2
    sd = np.sqrt(square - mean**2)
    assert np.abs((drawn.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(20_000)
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("n ~ x + (x | g)", "poisson"),
        ("n ~ x + (x || g)", "negbinomial"),
        ("k | trials(4) ~ x + (x | g)", "binomial"),
    ],
)
def test_the_posterior_is_that_of_nuts(formula, family):
    frame = of_pairs(20)
    # More draws than usual, because the error of a quantile in the tail is itself uncertain.
    exact = pyflowers.fit(formula, frame, family=family, engine="exact", seed=1, draws=4_000)
    assert exact.diagnostics.passed
    nuts = pyflowers.fit(
        formula, frame, family=family, engine="stanli", seed=2, draws=10_000, adapt_delta=0.98
    )
    check_against_nuts(exact, nuts)


def test_the_curvature_of_a_label_with_one_row_can_be_inverted():
    its = object.__new__(PairIntegrals)
    its.z, its.of = np.array([[[1.0, 3.0]]]), SimpleNamespace(starts=np.array([0]))
    for bend in (0.0, 2.0, 1e30):  # with the last, the matrix itself is singular in floats
        a, b, c, det = its._curvature(np.array([[bend]]))[:, 0, 0]
        assert (a, b, c) == (1 + bend, 3 * bend, 1 + 9 * bend)
        assert det == pytest.approx(1 + 10 * bend)
