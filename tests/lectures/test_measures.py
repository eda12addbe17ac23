"""Measures of agreement and efficiency are right where the answer is known, and can fail."""

import numpy as np
import pytest
from scipy import stats

from pyflowers.lectures import measures
from pyflowers.lectures.gaussian_mixture import detect
from pyflowers.lectures.measures import agreement, compare, mixes, statistics, worst
from pyflowers.samplers import HMC, StandardNormal

NORMAL = measures.exact_statistics(0.0, 1.0, stats.norm.ppf)


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
    found = measures.compare_draws({"s": first}, {"s": statistics(second)}, ["s"])
    assert [each.statistic for each in found] == ["5%", "50%", "95%"]
    assert worst(found).agrees


def test_mixing_is_judged_by_r_hat_and_ess():
    draws = independent(4)
    assert mixes({"x": draws})
    assert not mixes({"x": draws, "y": draws + np.arange(4)[:, None]})
    assert not mixes({"x": draws[:, :50]})
    assert not mixes({"stuck": np.ones((4, 100))})
    assert measures.largest_r_hat({"stuck": np.ones((4, 100))}) == np.inf


def test_a_row_has_the_least_ess_and_what_it_cost():
    slow = np.cumsum(independent(5), axis=1)
    draws = {"fast": independent(6), "slow": slow}
    row = measures.efficiency("s", draws, 0.5, evaluations=2_000, seconds=0.25)
    assert row["ESS"] == measures.ess(slow) < 100
    assert row["draws"] == slow.size
    assert row["ESS per 1,000 evaluations"] == row["ESS"] / 2
    assert row["ESS per second"] == 4 * row["ESS"]


def test_costs_are_counted_for_every_chain():
    kernel, rng = HMC(StandardNormal(), 0.5, 3), np.random.default_rng(7)
    draws, cost = measures.timed_run(kernel, 3, rng, np.zeros((4, 1)), 500, warmup=10)
    acceptance, evaluations, seconds = cost
    assert (draws.shape, evaluations) == ((4, 500, 1), 6_000)
    assert 0 < seconds < 10
    assert 0.5 < acceptance <= 1


def means(seed=1, num_draws=500):
    noise = 0.1 * np.random.default_rng(seed).normal(size=(4, num_draws, 3))
    return np.array([1.0, 5.0, 10.0]) + noise


def permuted(draws, chain, order, first=0):
    """Renumber the components of one chain from draw `first` on."""
    draws[chain, first:] = draws[chain, first:][:, order]
    return draws


def test_ordered_means_have_none():
    found = detect(means())
    assert (found.detected, found.orders, found.switched) == (False, ((1, 2, 3),), 0)
    assert str(found).startswith("no label switching")


def test_chains_with_other_labels_are_found():
    found = detect(permuted(permuted(means(), 1, [1, 0, 2]), 3, [2, 0, 1]))
    assert (found.detected, found.switched, found.within_chains) == (True, 0.5, 0)
    assert found.orders[0] == (1, 2, 3)
    assert set(found.orders) == {(1, 2, 3), (2, 1, 3), (2, 3, 1)}
    assert found.r_hat > 1.5 > 1.01 > found.r_hat_sorted


def test_switches_within_a_chain_are_counted():
    assert detect(permuted(means(), 0, [1, 0, 2], first=200)).within_chains == 1


def test_chains_in_different_places_are_no_label_switching():
    shifted = means() + np.array([0, 0, 0, 2.0])[:, None, None]
    found = detect(permuted(shifted, 1, [1, 0, 2]))
    assert not found.detected
    assert "no convergence, and labels do not explain it" in str(found)
