"""The two families of the closed forms: normal and scaled inverse chi-square.

Both hold arrays and broadcast, so that one object is a factor of a single fit, of a batch of fits
or of all plants at once. The scaled inverse chi-square is written as in Stan: `scale` is s, and
the density of v = sigma2 with nu degrees of freedom is

    p(v) = (nu/2)^(nu/2) / Γ(nu/2) · s^nu · v^(-(nu/2 + 1)) · exp(-nu s² / (2 v)),

so nu s² / v ~ χ²(nu), E[1/v] = 1/s² and E[log v] = log(nu s² / 2) - ψ(nu/2).

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., appendix A, table A.1.
Stan Functions Reference, "Scaled inverse chi-square distribution".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from pyflowers.errors import DataError

FloatArray = npt.NDArray[np.float64]
LOG_2PI = float(np.log(2 * np.pi))


class Distribution(Protocol):
    """The interface of a factor of q; shapes follow its own parameters."""

    @property
    def mean(self) -> FloatArray:
        """The mean, nan where it does not exist."""

    @property
    def sd(self) -> FloatArray:
        """The standard deviation, nan where it does not exist."""

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log density at `x`."""

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """Probability of a value up to `x`."""

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Invert `cdf`; `p` takes new leading axes."""

    def entropy(self) -> FloatArray:
        """E[-log density]."""

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Draws, shape (*size, *shape of the parameters)."""


def as_floats(x: Any) -> FloatArray:
    """Turn any array-like into an array of doubles.

    Raises
    ------
    DataError
        If it holds anything but numbers.
    """
    try:
        return np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{str(x)[:40]!r} is not an array of numbers ({error})") from error


def _leading(p: npt.ArrayLike, like: FloatArray) -> FloatArray:
    """Give `p` trailing axes of length one, to broadcast against `like`."""
    p_array = as_floats(p)
    return p_array.reshape(p_array.shape + (1,) * like.ndim)


def _draw_shape(size: int | tuple[int, ...], like: FloatArray) -> tuple[int, ...]:
    return (size if isinstance(size, tuple) else (size,)) + like.shape


@dataclass(frozen=True)
class Normal:
    """Normal distributions.

    Parameters
    ----------
    mean, sd : array, shape (...)
        Means and standard deviations, of one shape.
    """

    mean: FloatArray
    sd: FloatArray

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log density at `x`, broadcast against the parameters."""
        z = (as_floats(x) - self.mean) / self.sd
        return as_floats(-0.5 * (LOG_2PI + z**2) - np.log(self.sd))

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """Probability of a value up to `x`."""
        return as_floats(special.ndtr((as_floats(x) - self.mean) / self.sd))

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Quantiles, shape (*shape of p, *shape of the parameters)."""
        return as_floats(self.mean + self.sd * special.ndtri(_leading(p, self.mean)))

    def entropy(self) -> FloatArray:
        """Differential entropy, log(2 pi e sd²) / 2."""
        return as_floats(0.5 * (LOG_2PI + 1) + np.log(self.sd))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Draws, shape (*size, *shape of the parameters)."""
        return as_floats(self.mean + self.sd * rng.standard_normal(_draw_shape(size, self.mean)))


@dataclass(frozen=True)
class ScaledInvChiSquare:
    """Scaled inverse chi-square distributions of a variance, Stan's `scaled_inv_chi_square`.

    Parameters
    ----------
    dof : array, shape (...)
        Degrees of freedom nu, positive.
    scale : array, shape (...)
        The scale s, not s², positive.
    """

    dof: FloatArray
    scale: FloatArray

    @cached_property
    def _digamma(self) -> FloatArray:
        return as_floats(special.digamma(self.dof / 2))

    @cached_property
    def _log_gamma(self) -> FloatArray:
        return as_floats(special.gammaln(self.dof / 2))

    def rescaled(self, scale: FloatArray) -> "ScaledInvChiSquare":
        """Return the same degrees of freedom with another scale.

        What costs most in entropy and E[log sigma2] depends on the former alone and is kept.
        """
        other = ScaledInvChiSquare(self.dof, scale)
        other.__dict__.update(_digamma=self._digamma, _log_gamma=self._log_gamma)
        return other

    @property
    def mean(self) -> FloatArray:
        """The mean nu s² / (nu - 2); nan where nu <= 2, since it does not exist."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return as_floats(
                np.where(self.dof > 2, self.dof / (self.dof - 2) * self.scale**2, np.nan)
            )

    @property
    def sd(self) -> FloatArray:
        """The mean times sqrt(2 / (nu - 4)); nan where nu <= 4, since it does not exist."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return as_floats(
                np.where(self.dof > 4, self.mean * np.sqrt(2 / (self.dof - 4)), np.nan)
            )

    @property
    def mean_log(self) -> FloatArray:
        """E[log sigma2]."""
        return as_floats(np.log(self.dof / 2) + 2 * np.log(self.scale) - self._digamma)

    @property
    def mean_inverse(self) -> FloatArray:
        """E[1 / sigma2] = 1 / s²."""
        return as_floats(self.scale**-2.0)

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log density at the variance `x`; -inf at and below zero."""
        x = as_floats(x)
        half = self.dof / 2
        log_x = np.log(np.where(x > 0, x, 1.0))
        with np.errstate(over="ignore"):
            exponent = half * np.exp(2 * np.log(self.scale) - log_x)
        constant = half * np.log(half) - special.gammaln(half) + self.dof * np.log(self.scale)
        return as_floats(np.where(x > 0, constant - (half + 1) * log_x - exponent, -np.inf))

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """Probability of a variance up to `x`."""
        x = as_floats(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            upper = special.gammaincc(self.dof / 2, self.dof * self.scale**2 / (2 * x))
        return as_floats(np.where(x > 0, upper, 0.0))

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Quantiles, shape (*shape of p, *shape of the parameters)."""
        half = self.dof / 2
        with np.errstate(divide="ignore"):
            return as_floats(
                half * self.scale**2 / special.gammainccinv(half, _leading(p, self.dof))
            )

    def entropy(self) -> FloatArray:
        """Differential entropy of sigma2."""
        half = self.dof / 2
        return as_floats(
            half
            + np.log(half)
            + 2 * np.log(self.scale)
            + self._log_gamma
            - (1 + half) * self._digamma
        )

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Draws, shape (*size, *shape of the parameters)."""
        chi_square = rng.chisquare(self.dof, size=_draw_shape(size, self.dof))
        return as_floats(self.dof * self.scale**2 / chi_square)


def log_variance_prior_constant(dof: FloatArray, scale: FloatArray) -> FloatArray:
    """Log of what multiplies v^(-(nu/2 + 1)) exp(-nu s² / (2 v)) in the density.

    Zero where nu <= 0: such a prior is improper and is left unnormalised, with density
    v^(-(nu/2 + 1)); nu = 0 is 1/v and nu = -2 is flat.
    """
    proper = dof > 0
    half = np.where(proper, dof, 1.0) / 2
    log_scale = np.log(np.where(proper, scale, 1.0))
    constant = half * np.log(half) - special.gammaln(half) + 2 * half * log_scale
    return as_floats(np.where(proper, constant, 0.0))
