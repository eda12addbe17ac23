"""Integrators: orders, reversibility, volume and the physics of the harmonic oscillator."""

import numpy as np
import pytest

from pyflowers.samplers import (
    INTEGRATORS,
    ORDERS,
    StandardNormal,
    UnitMass,
    euler,
    hamiltonian,
    leapfrog,
    modified_euler,
    phase_point,
    trajectory,
)
from pyflowers.samplers.densities import FloatArray
from pyflowers.samplers.integrators import Integrator

from .checks import SKEWED, SKEWED_MASS, check_order, check_reversible, skewed_begin

OSCILLATOR = StandardNormal()


@pytest.mark.parametrize("name", INTEGRATORS)
def test_order_as_fitted(name: str) -> None:
    check_order(INTEGRATORS[name], ORDERS[name])


def test_leapfrog_is_reversible() -> None:
    check_reversible(leapfrog)


@pytest.mark.parametrize("integrator", [euler, modified_euler])
def test_the_others_are_not(integrator: Integrator) -> None:
    with pytest.raises(AssertionError):
        check_reversible(integrator)


def jacobian(integrator: Integrator) -> FloatArray:
    """Return ∂(q′, p′)/∂(q, p) of one step on the skewed target, by central differences."""
    begin = skewed_begin()
    start = np.concatenate([begin.position[0], begin.momentum[0]])

    def ends(direction: FloatArray) -> FloatArray:
        state = start + 1e-5 * direction
        point = phase_point(SKEWED, state[None, :2], state[None, 2:])
        end = integrator(SKEWED, SKEWED_MASS, point, 0.3)
        return np.concatenate([end.position[0], end.momentum[0]])

    return np.array([(ends(row) - ends(-row)) / 2e-5 for row in np.eye(4)]).T


@pytest.mark.parametrize(
    ("integrator", "keeps"), [(euler, False), (modified_euler, True), (leapfrog, True)]
)
def test_volume(integrator: Integrator, keeps: bool) -> None:
    change = abs(np.linalg.det(jacobian(integrator)) - 1)
    assert change < 1e-8 if keeps else change > 0.01


def test_euler_gains_energy_by_its_factor() -> None:
    """On N(0, 1), q² + p² grows by 1 + ε² in every step."""
    path = trajectory(euler, OSCILLATOR, UnitMass(), phase_point(OSCILLATOR, [[1]], [[0]]), 0.3, 9)
    energies = [(point.position**2 + point.momentum**2).item() for point in path]
    assert np.allclose(energies, 1.09 ** np.arange(10))


@pytest.mark.parametrize(
    ("integrator", "error"), [(euler, np.inf), (modified_euler, 0.3), (leapfrog, 0.05)]
)
def test_energy_over_a_long_path(integrator: Integrator, error: float) -> None:
    """Euler's leaves every bound; that of the other two oscillates, without a drift."""
    begin = phase_point(OSCILLATOR, [[1.0]], [[1.0]])
    path = trajectory(integrator, OSCILLATOR, UnitMass(), begin, 0.3, 5_000)
    energy = np.array([hamiltonian(UnitMass(), point)[0] for point in path])
    change = np.abs(energy - energy[0])
    if np.isinf(error):
        assert not change[-1] < 1e6
    else:
        assert change.max() < error
        assert np.isclose(change[:1_000].max(), change[-1_000:].max(), rtol=0.01)


def test_leapfrog_keeps_the_oscillators_modified_energy() -> None:
    """On N(0, 1), p² + q² (1 − ε²/4) is kept exactly, as one multiplies out."""
    begin = phase_point(OSCILLATOR, [[1.0]], [[0.4]])
    path = trajectory(leapfrog, OSCILLATOR, UnitMass(), begin, 0.9, 50)
    kept = [(point.momentum**2 + point.position**2 * (1 - 0.9**2 / 4)).item() for point in path]
    assert np.allclose(kept, kept[0], rtol=1e-12)


def test_a_step_size_for_each_chain() -> None:
    begin = phase_point(OSCILLATOR, [[1.0], [1.0]], [[0.4], [0.4]])
    both = leapfrog(OSCILLATOR, UnitMass(), begin, np.array([[0.1], [0.7]]))
    for chain, step_size in enumerate((0.1, 0.7)):
        alone = leapfrog(OSCILLATOR, UnitMass(), begin, step_size)
        assert np.array_equal(both.position[chain], alone.position[chain])
        assert np.array_equal(both.momentum[chain], alone.momentum[chain])
