"""Mass matrices."""

import numpy as np
import pytest

from pyflowers.samplers import DenseMass, DiagonalMass, Mass, UnitMass
from pyflowers.samplers.densities import FloatArray
from pyflowers.samplers.mass import kinetic_energy

from .checks import check_mass

MATRIX = np.array([[2.0, 0.9], [0.9, 1.0]])


@pytest.mark.parametrize(
    ("mass", "matrix"),
    [
        (UnitMass(), np.eye(2)),
        (DiagonalMass([2.0, 0.5]), np.diag([2.0, 0.5])),
        (DenseMass(MATRIX), MATRIX),
    ],
)
def test_mass(mass: Mass, matrix: FloatArray) -> None:
    check_mass(mass, matrix)
    momentum = np.array([[1.0, -2.0]])
    expected = 0.5 * (momentum @ np.linalg.inv(matrix) @ momentum.T).item()
    assert np.isclose(kinetic_energy(mass, momentum)[0], expected)


def test_a_wrong_mass_is_seen() -> None:
    with pytest.raises(AssertionError):
        check_mass(DiagonalMass([2.0, 0.5]), np.diag([0.5, 2.0]))
    with pytest.raises(AssertionError):
        check_mass(UnitMass(), MATRIX)
