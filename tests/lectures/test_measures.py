"""Agreement and efficiency: right where the answer is known, and able to fail."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.lectures.gaussian_mixture import detect
from pyflowers.lectures.measures import (
    Efficiency,
    agreement,
    compare,
    compare_draws,
    efficiency,
    ess,
    exact_statistics,
    largest_r_hat,
    mixes,
    smallest_ess,
    statistics,
    timed_run,
    worst,
)
from pyflowers.samplers import HMC, StandardNormal

NORMAL = exact_statistics(0.0, 1.0, stats.norm.ppf)


def independent(seed, shift=0.0, scale=1.0):
    return shift + scale * np.random.default_rng(seed).normal(size=(4, 2000))


@pytest.mark.parametrize("seed", range(5))
def test_draws_agree_with_their_own_distribution(seed):
    assert all(each.agrees for each in compare("x", statistics(independent(seed)), NORMAL))


@pytest.mark.parametrize("planted", [{"shift": 0.12}, {"scale": 1.1}])
def test_draws_of_another_distribution_disagree(planted):
    comparisons = compare("x", statistics(independent(1, **planted)), NORMAL)
    assert not worst(comparisons).agrees
    assert "DISAGREE" in agreement(comparisons, "These")


def test_z_is_in_combined_standard_errors():
    (comparison,) = compare("x", {"mean": (1.0, 0.3)}, {"mean": (0.0, 0.4), "sd": (1.0, 0.1)})
    assert np.isclose(comparison.z, 1 / 0.5)


def test_not_a_number_is_the_worst():
    estimates = {"mean": (np.nan, 0.1), "sd": (5.0, 0.1)}
    far = worst(compare("x", estimates, NORMAL))
    assert far.statistic == "mean"
    assert not far.agrees


def test_heavy_tails_are_compared_by_quantiles():
    rng = np.random.default_rng(3)
    first, second = (np.abs(rng.standard_cauchy((4, 4000))) for _ in range(2))
    found = compare_draws({"s": first}, {"s": second}, heavy_tailed=["s"])
    assert [each.statistic for each in found] == ["5%", "50%", "95%"]
    assert worst(found).agrees


def test_mixing_is_judged_by_r_hat_and_ess():
    draws = independent(4)
    assert mixes({"x": draws})
    assert not mixes({"x": draws, "y": draws + np.arange(4)[:, None]})
    assert not mixes({"x": draws[:, :50]})
    assert not mixes({"stuck": np.ones((4, 100))})
    assert largest_r_hat({"stuck": np.ones((4, 100))}) == np.inf


def test_the_quantity_with_least_counts():
    slow = np.cumsum(independent(5), axis=1)
    assert smallest_ess({"fast": independent(6), "slow": slow}) == ess(slow) < 100


def test_costs_are_counted_for_every_chain():
    kernel = HMC(StandardNormal(), 0.5, 3)
    rng = np.random.default_rng(7)
    result, seconds = timed_run(kernel, rng, np.zeros((4, 1)), 500, warmup=10)
    cost = efficiency("HMC", result, {"x": result.draws[..., 0]}, 3, seconds)
    assert (cost.num_draws, cost.evaluations) == (2000, 6000)
    assert 0 < cost.seconds < 10
    assert 0.5 < cost.acceptance <= 1


def test_a_row_divides_by_what_it_says():
    row = Efficiency("s", 0.5, 100, ess=50.0, evaluations=2000, seconds=0.25).row()
    assert row["ESS per 1,000 evaluations"] == 25
    assert row["ESS per second"] == 200


def means(seed=1, num_draws=500):
    noise = 0.1 * np.random.default_rng(seed).normal(size=(4, num_draws, 3))
    return np.array([1.0, 5.0, 10.0]) + noise


def test_ordered_means_have_none():
    found = detect(means())
    assert not found.detected
    assert found.orders == ((1, 2, 3),)
    assert found.switched == 0
    assert str(found).startswith("no label switching")


def test_chains_with_other_labels_are_found():
    draws = means()
    draws[1] = draws[1][:, [1, 0, 2]]
    draws[3] = draws[3][:, [2, 0, 1]]
    found = detect(draws)
    assert found.detected
    assert found.switched == 0.5
    assert found.within_chains == 0
    assert found.orders[0] == (1, 2, 3)
    assert set(found.orders) == {(1, 2, 3), (2, 1, 3), (2, 3, 1)}
    assert found.r_hat > 1.5 > 1.01 > found.r_hat_sorted


def test_switches_within_a_chain_are_counted():
    draws = means()
    draws[0, 200:] = draws[0, 200:][:, [1, 0, 2]]
    assert detect(draws).within_chains == 1


def test_chains_in_different_places_are_no_label_switching():
    draws = means() + np.array([0, 0, 0, 2.0])[:, None, None]
    draws[1] = draws[1][:, [1, 0, 2]]
    found = detect(draws)
    assert not found.detected
    assert "no convergence that labels explain" in str(found)
