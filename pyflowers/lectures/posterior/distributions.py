"""Shared parts: two families of distributions, the priors, and normal sufficient statistics.

The parameters of both families are arrays that broadcast, so one object can hold a factor of the
variational approximation q for a single fit, for a batch of fits or for all plants. The scaled
inverse chi-square distribution is parametrised as in Stan: `scale` is s, and the density of
v = sigma2 with nu degrees of freedom is

    p(v) = (nu/2)^(nu/2) / Γ(nu/2) · s^nu · v^(-(nu/2 + 1)) · exp(-nu s² / (2 v)),

so nu s² / v ~ χ²(nu), E[1/v] = 1/s² and E[log v] = log(nu s² / 2) - ψ(nu/2).

Updates of q use only the sufficient statistics, so the cost of an update does not depend on the
number of observations. All sums are taken about the first observation of each group. Therefore, no
precision is lost if the mean is large compared with the spread, and the sum of squares of equal
observations is exactly 0.

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., appendix A, table A.1.
Stan Functions Reference, "Scaled inverse chi-square distribution".
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pyflowers.errors import ConfigError, DataError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
LOG_2PI = math.log(2 * math.pi)


def as_floats(x: Any) -> FloatArray:
    """Convert any array-like to an array of doubles.

    Raises
    ------
    DataError
        If `x` cannot be converted.
    """
    try:
        return np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{str(x)[:40]!r} is not an array of numbers ({error})") from error


def checked_probability(p: npt.ArrayLike) -> FloatArray:
    """Return `p` as an array; raise ConfigError unless every value lies within [0, 1]."""
    p_array = np.asarray(p, dtype=np.float64)
    if not np.all((p_array >= 0) & (p_array <= 1)):
        raise ConfigError(f"p is {p!r}, but a probability must be between 0 and 1")
    return p_array


@dataclass(frozen=True)
class Normal:
    """Normal distributions.

    Parameters
    ----------
    mean : array, shape (...)
        Means.
    sd : array, shape (...)
        Positive standard deviations, in the unit of `mean` and of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.vb import Normal
    >>> normal = Normal(mean=np.array(5.0), sd=np.array(2.0))
    >>> normal.quantile([0.025, 0.975]).round(2)  # 5 ± 1.96 · 2
    array([1.08, 8.92])
    >>> round(float(normal.cdf(7)), 3)
    0.841
    >>> bool(np.isclose(normal.logpdf(5), -np.log(2 * np.sqrt(2 * np.pi))))
    True
    >>> bool(np.isclose(normal.entropy(), np.log(2 * np.sqrt(2 * np.pi * np.e))))
    True
    >>> normal.sample(np.random.default_rng(1), 10).shape
    (10,)
    """

    mean: FloatArray
    sd: FloatArray

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        """Return the log density.

        Parameters
        ----------
        x : float or array
            Values, which broadcast against the parameters.

        Returns
        -------
        array
            The log density at each value.
        """
        z = (as_floats(x) - self.mean) / self.sd
        return as_floats(-0.5 * (LOG_2PI + z**2) - np.log(self.sd))

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """Return the probability that the variable is at most `x`.

        Parameters
        ----------
        x : float or array
            Values, which broadcast against the parameters.

        Returns
        -------
        array
            Probabilities.
        """
        from scipy import special

        return as_floats(special.ndtr((as_floats(x) - self.mean) / self.sd))

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Return quantiles.

        Parameters
        ----------
        p : float or array
            Probabilities between 0 and 1.

        Returns
        -------
        array, shape (*shape of `p`, *shape of the parameters)
            The quantiles, in the unit of the mean.
        """
        from scipy import special

        return as_floats(self.mean + np.multiply.outer(special.ndtri(as_floats(p)), self.sd))

    def entropy(self) -> FloatArray:
        """Return the differential entropy, log(2 pi e sd²) / 2.

        Returns
        -------
        array, shape of the parameters
            The entropy, in nats.
        """
        return as_floats(0.5 * (LOG_2PI + 1) + np.log(self.sd))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return independent draws.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        size : int or tuple of int
            Number of draws, or the shape of their array.

        Returns
        -------
        array, shape (*size, *shape of the parameters)
            The draws.
        """
        shape = *np.atleast_1d(size), *self.mean.shape
        return as_floats(self.mean + self.sd * rng.standard_normal(shape))


@dataclass(frozen=True)
class ScaledInvChiSquare:
    """Scaled inverse chi-square distributions of a variance, Stan's `scaled_inv_chi_square`.

    Parameters
    ----------
    dof : array, shape (...)
        Degrees of freedom nu, positive.
    scale : array, shape (...)
        The scale s (not s²), positive.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.vb import ScaledInvChiSquare
    >>> variance = ScaledInvChiSquare(dof=np.array(10.0), scale=np.array(2.0))
    >>> float(variance.mean)  # nu s² / (nu - 2)
    5.0
    >>> variance.quantile([0.05, 0.5, 0.95]).round(2)
    array([ 2.18,  4.28, 10.15])
    >>> round(float(variance.cdf(4.28)), 2)
    0.5

    The entropy is the mean of the negative log density:

    >>> draws = variance.sample(np.random.default_rng(1), 100_000)
    >>> bool(abs(variance.entropy() + variance.logpdf(draws).mean()) < 0.02)
    True
    """

    dof: FloatArray
    scale: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The mean nu s² / (nu - 2); NaN where nu <= 2, because no mean exists."""
        above = np.where(self.dof > 2, self.dof - 2, np.nan)
        return as_floats(self.dof / above * self.scale**2)

    @property
    def sd(self) -> FloatArray:
        """The standard deviation, mean · sqrt(2 / (nu - 4)); NaN where nu <= 4."""
        above = np.where(self.dof > 4, self.dof - 4, np.nan)
        return as_floats(self.mean * np.sqrt(2 / above))

    @cached_property
    def mean_log(self) -> FloatArray:
        """E[log sigma2]."""
        from scipy import special

        half = self.dof / 2
        return as_floats(np.log(half) + 2 * np.log(self.scale) - special.digamma(half))

    @property
    def mean_inverse(self) -> FloatArray:
        """E[1 / sigma2] = 1 / s²."""
        return as_floats(self.scale**-2.0)

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        """Return the log density of the variance.

        Parameters
        ----------
        x : float or array
            Variances, which broadcast against the parameters.

        Returns
        -------
        array
            The log density at each variance; -inf at and below 0.
        """
        x = as_floats(x)
        log_x = np.log(np.where(x > 0, x, 1.0))
        value = log_density_of_log(log_x, self.dof, self.scale) - log_x
        return np.where(x > 0, value, -np.inf)

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """Return the probability that the variance is at most `x`.

        Parameters
        ----------
        x : float or array
            Variances, which broadcast against the parameters.

        Returns
        -------
        array
            Probabilities.
        """
        from scipy import special

        x = as_floats(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            upper = special.gammaincc(self.dof / 2, self.dof * self.scale**2 / (2 * x))
        return as_floats(np.where(x > 0, upper, 0.0))

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Return quantiles.

        Parameters
        ----------
        p : float or array
            Probabilities between 0 and 1.

        Returns
        -------
        array, shape (*shape of `p`, *shape of the parameters)
            The quantiles of the variance.
        """
        from scipy import special

        half = self.dof / 2
        with np.errstate(divide="ignore"):
            each = np.multiply.outer(as_floats(p), np.ones_like(half))
            return as_floats(half * self.scale**2 / special.gammainccinv(half, each))

    def entropy(self) -> FloatArray:
        """Return the differential entropy of sigma2, E[-log density].

        Returns
        -------
        array, shape of the parameters
            The entropy, in nats.
        """
        half = self.dof / 2
        return as_floats((half + 1) * self.mean_log + half - log_constant(self.dof, self.scale))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Return independent draws.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        size : int or tuple of int
            Number of draws, or the shape of their array.

        Returns
        -------
        array, shape (*size, *shape of the parameters)
            The draws of the variance.
        """
        chi_square = rng.chisquare(self.dof, size=(*np.atleast_1d(size), *self.dof.shape))
        # With few degrees of freedom, a χ² variable may underflow to 0, and then the variance
        # overflows.
        with np.errstate(divide="ignore"):
            return as_floats(self.dof * self.scale**2 / chi_square)


Distribution = Normal | ScaledInvChiSquare
"""The type of a factor of q."""


def log_constant(dof: npt.ArrayLike, scale: npt.ArrayLike) -> FloatArray:
    """Return the log of the constant that multiplies v^(-(nu/2 + 1)) exp(-nu s² / (2 v)).

    The result is 0 if nu <= 0: such a prior is improper and is left unnormalised. Its density is
    then v^(-(nu/2 + 1)), which is 1/v for nu = 0 and flat for nu = -2.
    """
    dof, scale = as_floats(dof), as_floats(scale)
    half = np.where(dof > 0, dof, 1.0) / 2
    log_scale = np.log(np.where(dof > 0, scale, 1.0))
    if half.size == 1:  # avoids importing SciPy, which would delay every fit
        log_gamma: Any = math.lgamma(half.item())
    else:
        from scipy import special

        log_gamma = special.gammaln(half)
    return np.where(dof > 0, half * np.log(half) - log_gamma + 2 * half * log_scale, 0.0)


def log_density_of_log(u: FloatArray, dof: npt.ArrayLike, scale: npt.ArrayLike) -> FloatArray:
    """Return the log density of u = log v; for improper densities, see :func:`log_constant`."""
    dof, scale = as_floats(dof), as_floats(scale)
    with np.errstate(divide="ignore", over="ignore"):
        exponent = np.exp(2 * np.log(scale) - u)
    return as_floats(log_constant(dof, scale) - dof / 2 * (u + exponent))


@dataclass(frozen=True)
class NormalPrior:
    """The prior theta ~ N(mu0, tau0²), sigma2 ~ scaled-inv-χ²(nu0, sigma0²).

    Parameters
    ----------
    mu0 : float or array, shape of the batch
        Prior mean of theta, in units of the data.
    tau0 : float or array, shape of the batch
        Prior standard deviation of theta, in units of the data; inf for a flat prior.
    nu0 : float or array, shape of the batch
        Prior degrees of freedom of sigma2; 0 for p(sigma2) = 1 / sigma2.
    sigma0 : float or array, shape of the batch
        Prior scale (not its square) of sigma2, in units of the data; ignored where `nu0` is 0.

    Raises
    ------
    ConfigError
        If a hyperparameter is out of range.

    Examples
    --------
    Under the flat prior, the posterior mean is the mean of the data:

    >>> import numpy as np
    >>> from pyflowers import vb
    >>> flat = vb.NormalPrior(tau0=np.inf, nu0=0)
    >>> round(float(vb.fit_normal([4, 5, 6, 9], flat).mean("theta")), 6)
    6.0
    >>> informative = vb.NormalPrior(mu0=0, tau0=1)
    >>> bool(vb.fit_normal([4, 5, 6, 9], informative).mean("theta") < 6)
    True
    """

    mu0: float | FloatArray = 0.0
    tau0: float | FloatArray = 100.0
    nu0: float | FloatArray = 1.0
    sigma0: float | FloatArray = 2.0

    def __post_init__(self) -> None:
        mu0, tau0, nu0, sigma0 = map(as_floats, (self.mu0, self.tau0, self.nu0, self.sigma0))
        within = (tau0 >= 1e-150) & (tau0 <= 1e150)
        squarable = (nu0 == 0) | ((sigma0 >= 1e-150) & (sigma0 <= 1e150))
        for name, value, good, rule in (
            ("mu0", mu0, np.abs(mu0) <= 1e150, "finite and within ±1e150"),
            ("tau0", tau0, within | np.isposinf(tau0), "from 1e-150 to 1e150, or inf if flat"),
            ("nu0", nu0, (nu0 >= 0) & (nu0 <= 1e12), "from 0 to 1e12"),
            ("sigma0", sigma0, np.isfinite(sigma0) & (sigma0 >= 0), "finite and 0 or more"),
            ("sigma0", sigma0, squarable, "from 1e-150 to 1e150 when nu0 is positive"),
        ):
            if not np.all(good):
                first = float(np.broadcast_to(value, good.shape)[~good].ravel()[0])
                raise ConfigError(f"prior {name} is {first!r}, but must be {rule}")


@dataclass(frozen=True)
class MultilevelPrior:
    """Hyperparameters of the multilevel normal model, named as in the Stan program.

    Parameters
    ----------
    mu_mean, mu_sd : float
        mu ~ N(mu_mean, mu_sd²), in units of the data.
    sigma2_nu, sigma2_scale : float
        sigma2 ~ scaled-inv-χ²(sigma2_nu, sigma2_scale²), with the scale in units of the data.
    sigma2_plant_nu, sigma2_plant_scale : float
        The same hyperparameters for every sigma2_plant; -2 and 0 give the flat prior on (0, inf).

    Raises
    ------
    ConfigError
        If a hyperparameter is out of range.

    Examples
    --------
    A plant whose observations are all equal needs a proper prior on its variance:

    >>> from pyflowers import vb
    >>> statistics, plants = vb.SufficientStatistics.from_groups([5, 5, 5, 4, 6, 8], list("aaabbb"))
    >>> prior = vb.MultilevelPrior(sigma2_plant_nu=1, sigma2_plant_scale=2)
    >>> fit = vb.fit_multilevel_normal(statistics, prior, plants=plants)
    >>> bool(fit.converged)
    True
    """

    mu_mean: float = 0.0
    mu_sd: float = 100.0
    sigma2_nu: float = 1.0
    sigma2_scale: float = 2.0
    sigma2_plant_nu: float = -2.0
    sigma2_plant_scale: float = 0.0

    def __post_init__(self) -> None:
        if not abs(self.mu_mean) <= 1e100:
            raise ConfigError(f"prior mu_mean is {self.mu_mean!r}, but must be within ±1e100")
        for name in ("mu_sd", "sigma2_nu", "sigma2_scale"):
            value = getattr(self, name)
            if not 1e-100 <= value <= 1e100:
                raise ConfigError(
                    f"prior {name} is {value!r}, but must be positive, from 1e-100 to 1e100"
                )
        nu, scale = self.sigma2_plant_nu, self.sigma2_plant_scale
        proper = 0 < nu <= 1e100 and 1e-100 <= scale <= 1e100
        if not (proper or (-2 <= nu <= 0 and scale == 0)):
            raise ConfigError(
                f"prior sigma2_plant_nu is {nu!r} with sigma2_plant_scale {scale!r}: give nu above "
                "0 and at most 1e100 with a scale from 1e-100 to 1e100, or nu from -2 to 0 with "
                "scale 0 (-2 is flat)"
            )


# Squares of data, and n times such squares, must neither overflow nor lose digits to underflow.
LARGEST = 1e150
SMALLEST_SS = 1e-301


@dataclass(frozen=True)
class SufficientStatistics:
    """Counts, means and sums of squares of one or more groups.

    Parameters
    ----------
    num : array, shape (...)
        Number of observations.
    mean : array, shape (...)
        Mean of the observations; taken as 0 where `num` is 0.
    ss : array, shape (...)
        Sum of squared deviations from the mean.

    Raises
    ------
    DataError
        If the shapes do not broadcast, a count is negative or not a whole number, a mean or sum of
        squares is out of range, or a sum of squares contradicts its count.

    Examples
    --------
    >>> from pyflowers.vb import SufficientStatistics
    >>> statistics = SufficientStatistics.from_array([1, 2, 3])
    >>> float(statistics.num), float(statistics.mean), float(statistics.ss)
    (3.0, 2.0, 2.0)
    >>> plants, labels = SufficientStatistics.from_groups([1, 2, 3, 5, 7], list("aaabb"))
    >>> labels, plants.mean
    (('a', 'b'), array([2., 6.]))
    """

    num: FloatArray
    mean: FloatArray
    ss: FloatArray

    def __post_init__(self) -> None:
        try:
            num, mean, ss = np.broadcast_arrays(*map(as_floats, (self.num, self.mean, self.ss)))
        except ValueError as error:
            raise DataError(
                "num, mean and ss must broadcast to one shape, but have shapes "
                f"{np.shape(self.num)}, {np.shape(self.mean)} and {np.shape(self.ss)}"
            ) from error
        mean = np.where(num == 0, 0.0, mean)
        refuse(~(np.isfinite(num) & (num >= 0) & (num == np.floor(num))), num, "num", WHOLE)
        refuse(~(np.abs(mean) <= LARGEST), mean, "mean", _FINITE)
        refuse(~((ss >= 0) & (ss <= LARGEST**2 * np.maximum(num, 1))), ss, "ss", _SQUARES)
        refuse((ss > 0) & (ss < SMALLEST_SS), ss, "ss", _TINY)
        refuse((ss > 0) & (num <= 1), ss, "ss", "must be 0 when num is 0 or 1")
        for name, value in (("num", num), ("mean", mean), ("ss", ss)):
            object.__setattr__(self, name, as_floats(value))

    @classmethod
    def from_array(cls, x: npt.ArrayLike) -> SufficientStatistics:
        """Return the statistics along the last axis.

        Parameters
        ----------
        x : array, shape (..., n)
            Observations; the leading axes index separate data sets. n may be 0.

        Returns
        -------
        SufficientStatistics, shape (...)
            The statistics of each data set.

        Raises
        ------
        DataError
            If `x` is a single number, a value is not finite, or the statistics are out of range.
        """
        x = as_floats(x)
        if x.ndim == 0:
            raise DataError("x must be an array of observations, not a single number")
        num = x.shape[-1]
        if not num:
            return cls(*np.zeros((3, *x.shape[:-1])))
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = x - x[..., :1]
            shift = beyond.mean(axis=-1)
            beyond -= shift[..., None]
            ss = np.einsum("...i,...i->...", beyond, beyond)
        if not np.all(np.isfinite(ss)):
            refuse(~(np.abs(x) <= LARGEST), x, "x", _FINITE)
        return cls(np.full(ss.shape, float(num)), x[..., 0] + shift, ss)

    @classmethod
    def from_groups(
        cls, y: npt.ArrayLike, group: Sequence[Hashable] | npt.NDArray[np.generic]
    ) -> tuple[SufficientStatistics, tuple[Hashable, ...]]:
        """Return the statistics of each group, and the groups' labels in order of appearance.

        Parameters
        ----------
        y : array, shape (N,)
            Observations, in any order.
        group : sequence, shape (N,)
            The label of each observation's group.

        Returns
        -------
        statistics : SufficientStatistics, shape (groups,)
            The statistics of each group.
        labels : tuple
            The label of each group.

        Raises
        ------
        DataError
            If `y` and `group` differ in length, a value is not finite or is beyond ±1e150, or a sum
            of squares is out of range.
        """
        y, index, labels = grouped(y, group, "groups")
        refuse(~(np.abs(y) <= LARGEST), y, "y", _FINITE)
        first = y[np.unique(index, return_index=True)[1]]
        num = np.bincount(index)
        beyond = y - first[index]
        shift = np.bincount(index, beyond) / num
        ss = np.bincount(index, (beyond - shift[index]) ** 2)
        return cls(as_floats(num), first + shift, as_floats(ss)), labels


def grouped(
    y: npt.ArrayLike, group: Sequence[Hashable] | npt.NDArray[np.generic], what: str
) -> tuple[FloatArray, IntArray, tuple[Hashable, ...]]:
    """Return `y`, each value's group number, and the labels in order of appearance."""
    y = as_floats(y)
    number: dict[Hashable, int] = {}
    labels = group.tolist() if isinstance(group, np.ndarray) else group
    index = np.asarray([number.setdefault(label, len(number)) for label in labels], dtype=np.intp)
    if y.shape != index.shape:
        raise DataError(
            f"y has shape {y.shape}, but the labels of its {what} have shape {index.shape}: give "
            "one label per value"
        )
    return y, index, tuple(number)


WHOLE = "must be a whole number, 0 or more"
_FINITE = "must be finite and within ±1e150: correct the value, or rescale the data"
_SQUARES = (
    "must be finite, 0 or more and at most 1e300 per observation: correct the value, or rescale "
    "the data"
)
_TINY = "must be 0 or at least 1e-301 to keep all its digits: rescale the data"


def refuse(bad: BoolArray, value: FloatArray, name: str, rule: str) -> None:
    """Raise a DataError that names the first bad value and its position, if any value is bad."""
    if np.any(bad):
        where = np.unravel_index(int(np.argmax(bad)), np.shape(bad))
        place = f"[{', '.join(str(int(i)) for i in where)}]" if where else ""
        raise DataError(f"{name}{place} is {float(value[where])!r}, but {rule}")


def checked_labels(
    statistics: SufficientStatistics,
    prior: MultilevelPrior,
    plants: Sequence[Hashable] | None,
) -> tuple[Hashable, ...]:
    """Return the labels of the plants, by default 1 … P, and reject an improper posterior.

    sigma2_plant can be integrated out only if n + nu > 0, because of its upper tail. This leaves
    (S + n (ȳ - mu_plant)²)^(-(n + nu)/2), which is integrable only if S > 0, because of the pole at
    mu_plant = ȳ. With a proper prior, S becomes nu c² + S, so the posterior is always proper.

    Raises
    ------
    DataError
        If the statistics do not have one entry for each plant, there are no plants, or a plant's
        posterior is improper. The message names the first such plant and the remedy.
    ConfigError
        If the number of labels differs from the number of plants.
    """
    num = statistics.num
    if num.ndim != 1 or num.size == 0:
        raise DataError(f"statistics have shape {num.shape}, but must have one entry per plant")
    labels = tuple(range(1, num.size + 1)) if plants is None else tuple(plants)
    if len(labels) != num.size:
        raise ConfigError(f"{len(labels)} plant labels for {num.size} plants: give one per plant")
    few, constant = num + prior.sigma2_plant_nu <= 0, statistics.ss == 0
    if prior.sigma2_plant_nu > 0 or not np.any(few | constant):
        return labels
    remedy = "give sigma2_plant a proper prior, such as sigma2_plant_nu=1 with sigma2_plant_scale=2"
    if np.any(few):
        p = int(np.argmax(few))
        raise DataError(
            f"plant {labels[p]}: too few observations ({num[p]:g}) for a proper posterior of "
            f"sigma2_plant under its improper prior; add observations or {remedy}"
        )
    raise DataError(
        f"plant {labels[int(np.argmax(constant))]}: all observations are equal, so "
        f"sigma2_plant has no proper posterior under its improper prior; {remedy}"
    )
