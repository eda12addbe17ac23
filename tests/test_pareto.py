"""Pareto smoothing equals ArviZ's psislw, and k-hat detects heavy tails."""

import numpy as np
import pytest
from arviz_calls import IS_1, psislw

from pyflowers.convergence import good_k, pareto_smooth

RNG = np.random.default_rng(7)
SETS = {
    "light": 0.1 * RNG.normal(size=(4, 1000)),
    "wide": 3 * RNG.normal(size=(3, 4000)),
    "heavy": RNG.standard_exponential((5, 2000)) / 1.2,
    "bounded": np.log(RNG.random((2, 500))),
    "few draws": RNG.normal(size=(2, 26)),
    "ties": np.round(RNG.normal(size=(3, 400)), 1),
    "one stands out": np.r_[np.zeros(399), 50.0][None],
    "underflow": np.r_[np.full(300, -2000.0), RNG.normal(size=100)][None],
}


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("r_eff", [1.0, 0.3])
def test_it_equals_arviz(kind, r_eff):
    ratios = SETS[kind]
    weights, k_hat = pareto_smooth(ratios, r_eff=r_eff)
    for row, mine, k in zip(ratios, weights, k_hat, strict=True):
        if IS_1 and kind in ("few draws", "ties", "one stands out"):
            pytest.skip("ArviZ 1 has one ratio more or less in the tail, and refuses short ones")
        reference, their_k = psislw(row.copy(), r_eff)
        if IS_1:
            assert k == pytest.approx(their_k, abs=0.03)
            np.testing.assert_allclose(mine, reference, atol=0.05)
            continue
        if kind == "ties":  # which of equal ratios comes first is arbitrary
            mine, reference = np.sort(mine), np.sort(reference)
        np.testing.assert_allclose(mine, reference, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(k, their_k, rtol=1e-10)


def test_any_shape_is_taken_and_the_input_stays():
    ratios = RNG.normal(size=(2, 3, 300))
    before = ratios.copy()
    weights, k_hat = pareto_smooth(ratios)
    assert (weights.shape, k_hat.shape) == ((2, 3, 300), (2, 3))
    np.testing.assert_allclose(np.exp(weights).sum(axis=-1), 1, rtol=1e-12)
    np.testing.assert_array_equal(ratios, before)
    alone, k_alone = pareto_smooth(ratios[1, 2])
    np.testing.assert_array_equal(alone, weights[1, 2])
    assert k_alone == k_hat[1, 2]


def test_equal_ratios_have_equal_weights_and_no_tail():
    weights, k_hat = pareto_smooth([[-3.0] * 400, [0.0] * 399 + [1.0]])
    np.testing.assert_allclose(weights[0], -np.log(400))
    np.testing.assert_array_equal(k_hat, [np.nan, np.inf])


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_k_hat_is_the_shape_of_a_pareto_tail(k):
    """Ratios whose logs are k times an exponential are Pareto with shape k."""
    ratios = k * np.random.default_rng(1).standard_exponential((40, 20_000))
    k_hat = pareto_smooth(ratios)[1]
    error = k_hat.std() / np.sqrt(k_hat.size)
    # The weak prior of weight 10 pulls k-hat towards 0.5.
    num = np.ceil(3 * np.sqrt(20_000))
    expected = (num * k + 5) / (num + 10)
    assert abs(k_hat.mean() - expected) < 4 * error + 0.01
    assert (k_hat.mean() > good_k(20_000)) == (k == 0.9)


def test_the_threshold_grows_with_the_draws():
    assert good_k(100) == pytest.approx(0.5)
    assert good_k(10**6) == 0.7
    assert good_k(1) == good_k(4) == good_k(10) == 0
