"""What a sampler needs from its target: a log density, and perhaps its gradient.

A target is known through log π(x) up to a constant, and through ∇ log π(x). Positions carry a chain
axis in front, so that one call moves every chain: x is shaped (chain, dim), log π(x) is (chain,).

A target that knows only one point at a time (a Stan program, say) goes into :class:`OneAtATime`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


class LogDensity(Protocol):
    """All that Metropolis and Metropolis–Hastings need."""

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return log π(x) up to a constant.

        Parameters
        ----------
        x : array, shape (chain, dim)

        Returns
        -------
        array, shape (chain,)
            −inf outside the support.
        """
        ...


class GradLogDensity(LogDensity, Protocol):
    """What Hamiltonian Monte Carlo and Langevin samplers need."""

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return log π(x) *and* ∇ log π(x): who works out the second has the first at hand.

        Parameters
        ----------
        x : array, shape (chain, dim)

        Returns
        -------
        log_density : array, shape (chain,)
        gradient : array, shape (chain, dim)
        """
        ...


class ExactTarget(GradLogDensity, Protocol):
    """A target whose moments and draws are known without a Markov chain."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def mean(self) -> FloatArray:
        """E x, shape (dim,)."""
        ...

    @property
    def variance(self) -> FloatArray:
        """Var x of each coordinate, shape (dim,)."""
        ...

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent exact draws, shape (num_draws, dim)."""
        ...


class PointDensity(Protocol):
    """A target that takes one point, shape (dim,), at a time."""

    def log_density(self, x: FloatArray, /) -> float:
        """Return log π(x) up to a constant."""
        ...

    def log_density_gradient(self, x: FloatArray, /) -> tuple[float, FloatArray]:
        """Return log π(x) and ∇ log π(x), shape (dim,)."""
        ...


@dataclass(frozen=True)
class OneAtATime:
    """A chain axis for a target that has none: a loop over the chains.

    Parameters
    ----------
    point : PointDensity
        The target of one point. For Metropolis alone, its `log_density` is enough.
    """

    point: PointDensity

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return log π of each row of x, shape (chain,)."""
        return np.array([self.point.log_density(row) for row in x], dtype=np.float64)

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return log π, shape (chain,), and ∇ log π, shape (chain, dim), of each row of x."""
        log_density = np.empty(len(x))
        gradient = np.empty_like(x)
        for chain, row in enumerate(x):
            log_density[chain], gradient[chain] = self.point.log_density_gradient(row)
        return log_density, gradient
