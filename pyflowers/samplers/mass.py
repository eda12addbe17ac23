"""Mass matrices: the covariance of the momentum in Hamiltonian Monte Carlo.

    p ~ N(0, M),   K(p) = ½ pᵀ M⁻¹ p,   dq/dt = M⁻¹ p.

Sampling with mass M is sampling Mᐟ²-scaled positions with unit mass ([1]_, section 5.4.1), so
M = Σ⁻¹ makes a target of covariance Σ round. Stan's `inv_metric` is M⁻¹, an estimate of Σ; so is
the preconditioner of MALA.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5, equation 5.6.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.samplers import _checks
from pyflowers.samplers.densities import FloatArray


class Mass(Protocol):
    """A symmetric positive definite M, applied to each chain's row."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return p ~ N(0, M) of shape (chain, dim)."""
        ...

    def velocity(self, momentum: FloatArray, /) -> FloatArray:
        """Return M⁻¹ p, shape (chain, dim)."""
        ...

    def momentum(self, velocity: FloatArray, /) -> FloatArray:
        """Return M v, shape (chain, dim)."""
        ...


def kinetic_energy(mass: Mass, momentum: FloatArray) -> FloatArray:
    """Return K(p) = ½ pᵀ M⁻¹ p, shape (chain,)."""
    energy: FloatArray = 0.5 * np.einsum("...i,...i->...", momentum, mass.velocity(momentum))
    return energy


class UnitMass:
    """M = I."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return p ~ N(0, I) of shape (chain, dim)."""
        return rng.standard_normal(shape)

    def velocity(self, momentum: FloatArray, /) -> FloatArray:
        """Return p."""
        return momentum

    def momentum(self, velocity: FloatArray, /) -> FloatArray:
        """Return v."""
        return velocity


class DiagonalMass:
    """M = diag(m₁, …, m_d).

    Parameters
    ----------
    diagonal : array, shape (dim,), positive

    Raises
    ------
    ConfigError
        `diagonal` is not a vector of positive numbers.
    """

    def __init__(self, diagonal: ArrayLike) -> None:
        self.diagonal = _checks.positive_array("diagonal", _checks.vector("diagonal", diagonal))
        self._sqrt = np.sqrt(self.diagonal)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return p ~ N(0, M) of shape (chain, dim)."""
        return self._sqrt * rng.standard_normal(shape)

    def velocity(self, momentum: FloatArray, /) -> FloatArray:
        """Return M⁻¹ p."""
        return momentum / self.diagonal

    def momentum(self, velocity: FloatArray, /) -> FloatArray:
        """Return M v."""
        return velocity * self.diagonal


class DenseMass:
    """M = L Lᵀ, any symmetric positive definite matrix.

    Parameters
    ----------
    matrix : array, shape (dim, dim)

    Raises
    ------
    ConfigError
        `matrix` is not square, symmetric and positive definite.
    """

    def __init__(self, matrix: ArrayLike) -> None:
        self._factor = _checks.cholesky("matrix", matrix)
        self.matrix = self._factor @ self._factor.T  # exactly symmetric: rows and columns agree
        inverse = np.linalg.inv(self.matrix)
        self._inverse = 0.5 * (inverse + inverse.T)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return p = L z ~ N(0, M) of shape (chain, dim)."""
        return rng.standard_normal(shape) @ self._factor.T

    def velocity(self, momentum: FloatArray, /) -> FloatArray:
        """Return M⁻¹ p."""
        return momentum @ self._inverse

    def momentum(self, velocity: FloatArray, /) -> FloatArray:
        """Return M v."""
        return velocity @ self.matrix
