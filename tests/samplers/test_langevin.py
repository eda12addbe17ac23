"""MALA; its exactness is in test_exactness.py, its likeness to HMC in test_hmc.py."""

import numpy as np

from pyflowers.samplers import MALA, run

from .checks import CORRELATED, SKEWED, check_chains_are_independent, check_state_is_fresh


def test_state_is_fresh_and_chains_are_independent() -> None:
    kernel = MALA(CORRELATED, 0.6)
    check_state_is_fresh(kernel, CORRELATED)
    check_chains_are_independent(kernel, CORRELATED)


def test_first_proposal_has_the_drift_and_the_variance() -> None:
    """Tiny steps are all accepted, so that moves show the proposal."""
    step_size = 1e-6
    start = np.tile([0.5, -1.0], (200_000, 1))
    kernel = MALA(SKEWED, step_size)
    moved, info = kernel(np.random.default_rng(1), kernel.init(start))
    moves = moved.position - start
    assert info.acceptance_rate.min() > 0.999
    assert np.allclose(moves.var(axis=0), step_size, rtol=0.02)
    drift = 0.5 * step_size * kernel.init(start).gradient[0]
    assert np.all(np.abs(moves.mean(axis=0) - drift) < 5 * np.sqrt(step_size / len(start)))


def test_leaving_for_where_nothing_can_be_computed_is_rejected() -> None:
    result = run(MALA(SKEWED, 1e8), np.random.default_rng(2), np.zeros((10, 2)), 5)
    assert not result.sample_stats["accepted"].any()
