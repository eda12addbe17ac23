"""Skewed targets: gamma variables, on their own scale and on the log scale.

| target | log density |
|---|---|
| :class:`Gamma` | Σ a log b − log Γ(a) + (a − 1) log x − b x, on x > 0 |
| :class:`LogGamma` | Σ a log b − log Γ(a) + a y − b exp(y), where y = log x and x is gamma |

Both are normalised.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers import _checks
from pyflowers.samplers.densities import FloatArray


class Gamma:
    """Independent gamma coordinates: skewed, and with an edge at 0.

    Parameters
    ----------
    shape, rate : numbers, or arrays of shape (dim,), positive
        `shape` gives the number of coordinates; one rate may serve all.

    Raises
    ------
    ConfigError
        `shape` or `rate` is not positive, or their lengths differ.
    """

    def __init__(self, shape: ArrayLike, rate: ArrayLike = 1.0) -> None:
        shapes = np.atleast_1d(_checks.positive_array("shape", shape))
        rates = np.atleast_1d(_checks.positive_array("rate", rate))
        if shapes.ndim != 1 or rates.ndim != 1 or (1 < len(rates) != len(shapes)):
            raise ConfigError(
                "shape and rate must be numbers or vectors of one length, but their shapes were "
                f"{shapes.shape} and {rates.shape}"
            )
        self.shape: FloatArray = shapes
        self.rate: FloatArray = np.broadcast_to(rates, shapes.shape)
        self.dim = len(shapes)
        log_gamma = [math.lgamma(value) for value in self.shape]
        self._log_constant = float((self.shape * np.log(self.rate) - log_gamma).sum())

    @property
    def mean(self) -> FloatArray:
        """a/b, shape (dim,)."""
        return self.shape / self.rate

    @property
    def variance(self) -> FloatArray:
        """a/b², shape (dim,)."""
        return self.shape / self.rate**2

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return Σ (a − 1) log x − b x and its constant, −inf unless all x > 0; shape (chain,)."""
        inside = (x > 0).all(axis=-1)
        safe = np.where(x > 0, x, 1.0)
        terms = (self.shape - 1) * np.log(safe) - self.rate * safe
        return np.where(inside, terms.sum(axis=-1) + self._log_constant, -np.inf)

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and (a − 1)/x − b, which is 0 outside the support."""
        safe = np.where(x > 0, x, 1.0)
        gradient = np.where(x > 0, (self.shape - 1) / safe - self.rate, 0.0)
        return self.log_density(x), gradient

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws, shape (num_draws, dim)."""
        return rng.gamma(self.shape, 1 / self.rate, size=(num_draws, self.dim))


class LogGamma(Gamma):
    """y = log x of gamma coordinates x: skewed, and on the whole line, as Stan would sample it.

    The change of variables multiplies the density by its Jacobian dx/dy = exp(y), so a − 1 in the
    gamma's exponent becomes a.

    Parameters
    ----------
    shape, rate : numbers, or arrays of shape (dim,), positive
        Of the gamma. The smaller the shape, the longer the left tail.
    """

    @property
    def mean(self) -> FloatArray:
        """ψ(a) − log b, shape (dim,)."""
        from scipy.special import digamma

        values: FloatArray = digamma(self.shape) - np.log(self.rate)
        return values

    @property
    def variance(self) -> FloatArray:
        """ψ′(a), shape (dim,)."""
        from scipy.special import polygamma

        values: FloatArray = polygamma(1, self.shape)
        return values

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return Σ a y − b exp(y) and its constant, shape (chain,)."""
        kernel: FloatArray = (self.shape * x - self.rate * np.exp(x)).sum(axis=-1)
        return kernel + self._log_constant

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and a − b exp(y)."""
        return self.log_density(x), self.shape - self.rate * np.exp(x)

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws, shape (num_draws, dim).

        Log Gamma(a) = log Gamma(a + 1) + log(U)/a in distribution, which cannot underflow however
        small a is [1]_.

        References
        ----------
        .. [1] Marsaglia & Tsang (2000), A simple method for generating gamma variables, ACM
           Transactions on Mathematical Software 26, 363–372: the remark on a < 1.
        """
        size = (num_draws, self.dim)
        log_uniform = -rng.standard_exponential(size)
        boosted = np.log(rng.standard_gamma(self.shape + 1, size=size))
        return boosted + log_uniform / self.shape - np.log(self.rate)
