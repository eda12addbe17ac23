"""Targets whose moments and exact draws are known: for demonstrating and testing samplers.

| target | log density |
|---|---|
| :class:`StandardNormal` | −½ Σ x² − (d/2) log 2π |
| :class:`Gaussian` | −½ (x − μ)ᵀ Σ⁻¹ (x − μ) − ½ log det 2πΣ |
| :class:`NormalMixture` | log Σₖ wₖ N(x; μₖ, sₖ²), one coordinate |

All are normalised. Skewed targets are in :mod:`pyflowers.samplers.gamma`, the regression posterior
is in :mod:`pyflowers.samplers.regression`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers import _checks
from pyflowers.samplers.densities import FloatArray

_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class StandardNormal:
    """N(0, I) in `dim` coordinates."""

    dim: int = 1

    def __post_init__(self) -> None:
        _checks.count("dim", self.dim)

    @property
    def mean(self) -> FloatArray:
        """0, shape (dim,)."""
        return np.zeros(self.dim)

    @property
    def variance(self) -> FloatArray:
        """1, shape (dim,)."""
        return np.ones(self.dim)

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return −½ Σ x² − (d/2) log 2π, shape (chain,)."""
        squares: FloatArray = np.einsum("...i,...i->...", x, x)
        return -0.5 * (squares + self.dim * _LOG_2PI)

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and −x."""
        return self.log_density(x), -x

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws, shape (num_draws, dim)."""
        return rng.standard_normal((num_draws, self.dim))


class Gaussian:
    """N(μ, Σ), correlated as Σ says.

    Parameters
    ----------
    mean : array, shape (dim,)
    covariance : array, shape (dim, dim), symmetric and positive definite

    Raises
    ------
    ConfigError
        `covariance` is not a covariance, or its shape does not fit the mean.
    """

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        self.mean = _checks.vector("mean", mean)
        self.dim = len(self.mean)
        self._factor = _checks.cholesky("covariance", covariance)
        if self._factor.shape != (self.dim, self.dim):
            raise ConfigError(
                f"covariance must be shaped {(self.dim, self.dim)} as the mean has {self.dim} "
                f"coordinates, but its shape was {self._factor.shape}"
            )
        self.covariance = np.array(covariance, dtype=np.float64)
        self._precision = np.linalg.inv(self.covariance)
        log_det = 2 * np.log(np.diag(self._factor)).sum()
        self._log_normaliser = 0.5 * (self.dim * _LOG_2PI + log_det)

    @property
    def variance(self) -> FloatArray:
        """The diagonal of Σ, shape (dim,)."""
        return np.diag(self.covariance).copy()

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return −½ (x − μ)ᵀ Σ⁻¹ (x − μ) − ½ log det 2πΣ, shape (chain,)."""
        return self.log_density_gradient(x)[0]

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and −Σ⁻¹ (x − μ)."""
        centred = x - self.mean
        gradient = -centred @ self._precision
        return 0.5 * (centred * gradient).sum(axis=-1) - self._log_normaliser, gradient

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return μ + L z with L Lᵀ = Σ, shape (num_draws, dim)."""
        return self.mean + rng.standard_normal((num_draws, self.dim)) @ self._factor.T


class NormalMixture:
    """Σₖ wₖ N(μₖ, sₖ²) in one coordinate.

    Both of the lectures' bimodal targets are of this kind: :meth:`lecture_metropolis` and
    :meth:`lecture_hmc`.

    Parameters
    ----------
    weights : sequence of K positive numbers that sum to 1
    means, sds : sequences of K numbers, the sds positive

    Raises
    ------
    ConfigError
        The three differ in length, or hold what a mixture cannot.
    """

    dim = 1

    def __init__(
        self, weights: Sequence[float], means: Sequence[float], sds: Sequence[float]
    ) -> None:
        self.weights = _checks.positive_array("weights", _checks.vector("weights", weights))
        self.means = _checks.vector("means", means)
        self.sds = _checks.positive_array("sds", _checks.vector("sds", sds))
        if not len(self.weights) == len(self.means) == len(self.sds):
            raise ConfigError(
                "weights, means and sds must be of one length, but have "
                f"{len(self.weights)}, {len(self.means)} and {len(self.sds)}"
            )
        if not math.isclose(self.weights.sum(), 1, rel_tol=1e-9):
            raise ConfigError(f"weights must sum to 1, but sum to {self.weights.sum()}")
        self._log_heights = np.log(self.weights / self.sds) - 0.5 * _LOG_2PI

    @classmethod
    def lecture_metropolis(cls) -> "NormalMixture":
        """Return p̂(m) = 0.7 exp(−(m−1.5)²/2) + 0.3 exp(−(m+1.5)²/2), divided by its √2π."""
        return cls((0.7, 0.3), (1.5, -1.5), (1.0, 1.0))

    @classmethod
    def lecture_hmc(cls) -> "NormalMixture":
        """Return 0.3 N(−2, 1) + 0.7 N(2, 1)."""
        return cls((0.3, 0.7), (-2.0, 2.0), (1.0, 1.0))

    @property
    def mean(self) -> FloatArray:
        """Σ w μ, shape (1,)."""
        return np.array([self.weights @ self.means])

    @property
    def variance(self) -> FloatArray:
        """Σ w (s² + μ²) − (Σ w μ)², shape (1,)."""
        return self.weights @ (self.sds**2 + self.means**2) - self.mean**2

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return log Σₖ wₖ N(x; μₖ, sₖ²), shape (chain,)."""
        return self._log_sum(x)[0]

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and Σₖ P(k | x) (μₖ − x)/sₖ²."""
        log_density, responsibilities = self._log_sum(x)
        pulls = (self.means - x) / self.sds**2
        return log_density, (responsibilities * pulls).sum(axis=-1, keepdims=True)

    def _log_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log π(x), shape (chain,), and P(component | x), shape (chain, K)."""
        terms = self._log_heights - 0.5 * ((x - self.means) / self.sds) ** 2
        highest = terms.max(axis=-1, keepdims=True)  # keeps exp from underflowing everywhere
        scaled = np.exp(terms - highest)
        total = scaled.sum(axis=-1, keepdims=True)
        return (highest + np.log(total))[..., 0], scaled / total

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return P(X ≤ x) of each element of x, in the shape of x."""
        from scipy.special import ndtr

        values: FloatArray = ndtr((np.asarray(x)[..., None] - self.means) / self.sds) @ self.weights
        return values

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws, shape (num_draws, 1): a component, then a normal."""
        component = rng.choice(len(self.weights), size=num_draws, p=self.weights)
        return rng.normal(self.means[component], self.sds[component])[:, None]
