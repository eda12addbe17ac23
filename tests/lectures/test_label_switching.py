"""Label switching is told from convergence and from its failure for other reasons."""

import numpy as np

from pyflowers.lectures.label_switching import detect


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
