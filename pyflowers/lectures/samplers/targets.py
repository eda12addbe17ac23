"""The lectures' targets, with known moments and exact draws.

| target | log density |
|---|---|
| :class:`StandardNormal` | −½ Σ x² − (d/2) log 2π |
| :class:`NormalMixture` | log Σₖ wₖ N(x; μₖ, sₖ²), one coordinate |
| :class:`Gamma` | Σ [a log b − log Γ(a) + (a − 1) log x − b x], on x > 0 |
| :class:`LinearRegression` | the posterior of a straight line; not normalised |

Each target has the attributes `mean` and `variance`, shape (dim,), and the method
`sample(rng, num_draws)`, which returns independent, exact draws of shape (num_draws, dim).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.checked import whole_number
from pyflowers.errors import ConfigError
from pyflowers.lectures.samplers.kernels import FloatArray, numbers, positive

_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class StandardNormal:
    """N(0, I) in `dim` coordinates.

    Parameters
    ----------
    dim : int
        Number of coordinates, at least 1.

    Raises
    ------
    ConfigError
        If `dim` is not a whole number of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import StandardNormal
    >>> target = StandardNormal(dim=2)
    >>> x = np.array([[3.0, 4.0]])
    >>> (target.log_density(x) + np.log(2 * np.pi)).round(10)  # −(3² + 4²) / 2
    array([-12.5])
    >>> _, gradient = target.log_density_gradient(x)
    >>> gradient
    array([[-3., -4.]])
    >>> target.sample(np.random.default_rng(1), num_draws=5).shape
    (5, 2)
    """

    dim: int = 1

    def __post_init__(self) -> None:
        whole_number("dim", self.dim)

    @property
    def mean(self) -> FloatArray:
        """The mean, 0 in each coordinate."""
        return np.zeros(self.dim)

    @property
    def variance(self) -> FloatArray:
        """The variance, 1 in each coordinate."""
        return np.ones(self.dim)

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return −½ Σ x² − (d/2) log 2π.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain,)
            The log density at each position.
        """
        squares: FloatArray = np.einsum("...i,...i->...", x, x)
        return -0.5 * (squares + self.dim * _LOG_2PI)

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and −x.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        log_density : array, shape (chain,)
            The log density at each position.
        gradient : array, shape (chain, dim)
            −x.
        """
        return self.log_density(x), -x

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        num_draws : int
            Number of draws.

        Returns
        -------
        array, shape (num_draws, dim)
            One draw in each row.
        """
        return rng.standard_normal((num_draws, self.dim))


class NormalMixture:
    """A mixture of normals, Σₖ wₖ N(μₖ, sₖ²), in one coordinate.

    The lectures' two bimodal targets are :meth:`lecture_metropolis` and :meth:`lecture_hmc`.

    Parameters
    ----------
    weights : array, shape (K,)
        wₖ, positive; they sum to 1.
    means : array, shape (K,)
        μₖ.
    sds : array, shape (K,)
        sₖ, positive, in the units of the means.

    Raises
    ------
    ConfigError
        If the three arrays differ in length, a weight or an sd is not positive, or the weights do
        not sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import NormalMixture
    >>> target = NormalMixture(weights=[0.5, 0.5], means=[-2, 2], sds=[1, 1])
    >>> target.mean, target.variance  # 0 and 1 + 2²
    (array([0.]), array([5.]))
    >>> target.cdf(np.array([0.0]))
    array([0.5])
    >>> log_density, gradient = target.log_density_gradient(np.zeros((1, 1)))
    >>> bool(np.isclose(np.exp(log_density[0]), np.exp(-2) / np.sqrt(2 * np.pi)))
    True
    >>> bool(log_density == target.log_density(np.zeros((1, 1)))), gradient
    (True, array([[0.]]))

    The lectures' targets:

    >>> NormalMixture.lecture_metropolis().mean.round(1)  # 0.7 · 1.5 − 0.3 · 1.5
    array([0.6])
    >>> draws = NormalMixture.lecture_hmc().sample(np.random.default_rng(1), num_draws=10_000)
    >>> round(float(draws.mean()), 1)  # 0.7 · 2 − 0.3 · 2
    0.8
    """

    dim = 1

    def __init__(self, weights: ArrayLike, means: ArrayLike, sds: ArrayLike) -> None:
        self.weights = positive("weights", weights, ndim=1)
        self.means, self.sds = numbers("means", means, ndim=1), positive("sds", sds, ndim=1)
        if not len(self.weights) == len(self.means) == len(self.sds):
            raise ConfigError(
                "weights, means and sds must have the same length, but have "
                f"{len(self.weights)}, {len(self.means)} and {len(self.sds)}"
            )
        if not math.isclose(self.weights.sum(), 1, rel_tol=1e-9):
            raise ConfigError(f"weights must sum to 1, but sum to {self.weights.sum()}")
        self.mean = np.array([self.weights @ self.means])
        self.variance = self.weights @ (self.sds**2 + self.means**2) - self.mean**2

    @classmethod
    def lecture_metropolis(cls) -> NormalMixture:
        """Return 0.7 N(1.5, 1) + 0.3 N(−1.5, 1).

        The handout omits the factor 1/√(2π): p̂(m) = 0.7 exp(−(m−1.5)²/2) + 0.3 exp(−(m+1.5)²/2).
        """
        return cls((0.7, 0.3), (1.5, -1.5), (1.0, 1.0))

    @classmethod
    def lecture_hmc(cls) -> NormalMixture:
        """Return 0.3 N(−2, 1) + 0.7 N(2, 1)."""
        return cls((0.3, 0.7), (-2.0, 2.0), (1.0, 1.0))

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return log Σₖ wₖ N(x; μₖ, sₖ²).

        Parameters
        ----------
        x : array, shape (chain, 1)
            Positions of the chains.

        Returns
        -------
        array, shape (chain,)
            The log density at each position.
        """
        return self._log_sum(x)[0]

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and Σₖ P(k | x) (μₖ − x)/sₖ².

        Parameters
        ----------
        x : array, shape (chain, 1)
            Positions of the chains.

        Returns
        -------
        log_density : array, shape (chain,)
            The log density at each position.
        gradient : array, shape (chain, 1)
            The gradient at each position.
        """
        log_density, responsibilities = self._log_sum(x)
        pulls = (self.means - x) / self.sds**2
        return log_density, (responsibilities * pulls).sum(axis=-1, keepdims=True)

    def _log_sum(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log π(x), shape (chain,), and P(component | x), shape (chain, K)."""
        log_heights = np.log(self.weights / self.sds) - 0.5 * _LOG_2PI
        terms = log_heights - 0.5 * ((x - self.means) / self.sds) ** 2
        highest = terms.max(axis=-1, keepdims=True)  # exp never underflows in all components
        scaled = np.exp(terms - highest)
        total = scaled.sum(axis=-1, keepdims=True)
        return (highest + np.log(total))[..., 0], scaled / total

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return P(X ≤ x) for each element of x.

        Parameters
        ----------
        x : array
            Values, in any shape.

        Returns
        -------
        array, shape of `x`
            Probabilities.
        """
        from scipy.special import ndtr

        values: FloatArray = ndtr((np.asarray(x)[..., None] - self.means) / self.sds) @ self.weights
        return values

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws; for each, draw a component and then a normal.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        num_draws : int
            Number of draws.

        Returns
        -------
        array, shape (num_draws, 1)
            One draw in each row.
        """
        component = rng.choice(len(self.weights), size=num_draws, p=self.weights)
        return rng.normal(self.means[component], self.sds[component])[:, None]


class Gamma:
    """Independent gamma coordinates with shape a and rate b, skewed and with a boundary at 0.

    Parameters
    ----------
    shape : number, or array of shape (dim,)
        a, positive. Its length is the number of coordinates.
    rate : number, or array of shape (dim,)
        b, positive; a single number applies to all coordinates.

    Raises
    ------
    ConfigError
        If `shape` or `rate` is not positive, or their lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import Gamma
    >>> target = Gamma(shape=3, rate=2)
    >>> target.mean, target.variance  # a / b and a / b²
    (array([1.5]), array([0.75]))
    >>> target.log_density(np.array([[1.0], [-1.0]])).round(4)  # log 4 − 2, and no density below 0
    array([-0.6137,    -inf])
    >>> log_density, gradient = target.log_density_gradient(np.array([[2.0]]))
    >>> gradient  # (3 − 1) / 2 − 2
    array([[-1.]])
    >>> draws = target.sample(np.random.default_rng(1), num_draws=10_000)
    >>> round(float(draws.mean()), 1)
    1.5
    """

    def __init__(self, shape: ArrayLike, rate: ArrayLike = 1.0) -> None:
        self.shape, rates = np.atleast_1d(positive("shape", shape)), positive("rate", rate)
        if self.shape.ndim > 1 or (rates.ndim and rates.shape != self.shape.shape):
            raise ConfigError(
                "shape must be a number or a vector, and rate must be a number or a vector of the "
                f"same length, but their shapes were {np.shape(shape)} and {rates.shape}"
            )
        self.rate: FloatArray = np.broadcast_to(rates, self.shape.shape)
        self.dim = len(self.shape)
        self.mean, self.variance = self.shape / self.rate, self.shape / self.rate**2
        log_gamma = np.array([math.lgamma(value) for value in self.shape])
        self._log_constant = float((self.shape * np.log(self.rate) - log_gamma).sum())

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return Σ [(a − 1) log x − b x] plus the constant, or −inf unless all x > 0.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        array, shape (chain,)
            The log density at each position.
        """
        safe = np.where(x > 0, x, 1.0)
        terms = (self.shape - 1) * np.log(safe) - self.rate * safe
        return np.where((x > 0).all(axis=-1), terms.sum(axis=-1) + self._log_constant, -np.inf)

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and (a − 1)/x − b.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Positions of the chains.

        Returns
        -------
        log_density : array, shape (chain,)
            The log density at each position.
        gradient : array, shape (chain, dim)
            The gradient at each position; 0 in coordinates that are not positive.
        """
        safe = np.where(x > 0, x, 1.0)
        gradient = np.where(x > 0, (self.shape - 1) / safe - self.rate, 0.0)
        return self.log_density(x), gradient

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent draws.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        num_draws : int
            Number of draws.

        Returns
        -------
        array, shape (num_draws, dim)
            One draw in each row.
        """
        return rng.gamma(self.shape, 1 / self.rate, size=(num_draws, self.dim))


class LinearRegression:
    """The posterior of a straight line with flat priors, which also supports mini-batches.

        y_i ~ N(α + β x_i, σ²),   i = 1, …, N,

    in the coordinates θ = (α, β, log σ). Let c = 0 if the prior is flat in log σ (p(σ) ∝ 1/σ, as in
    the textbook), and c = 1 if it is flat in σ, as in a Stan program without a prior on σ (the
    Jacobian of the logarithm adds log σ). Then, with S(α, β) = Σ (y_i − α − β x_i)²,

        log p(θ | y) = −(N − c) log σ − S(α, β) / (2σ²) + constant.

    Let X be the N × 2 design matrix, (α̂, β̂) the least-squares estimates, V = (XᵀX)⁻¹,
    ν = N − 2 − c and s² = S(α̂, β̂)/ν. Then

        σ² ~ scaled-inv-χ²(ν, s²),   (α, β) | σ² ~ N((α̂, β̂), σ² V),
        β ~ t_ν(β̂, s² V_ββ),   and α likewise ([1]_, section 14.2, for c = 0).

    Parameters
    ----------
    x : array, shape (N,)
        The covariate, not constant.
    y : array, shape (N,)
        The outcome.
    flat_in : "log_sigma" or "sigma"
        The scale on which the prior is flat. It determines the degrees of freedom, N − 2 or N − 3.

    Raises
    ------
    ConfigError
        If x and y differ in length, there are too few points, all x are equal, all points lie on a
        line, or `flat_in` is unknown.

    References
    ----------
    .. [1] Gelman, Carlin, Stern, Dunson, Vehtari & Rubin (2013), Bayesian Data Analysis, third
       edition.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.samplers import LinearRegression
    >>> target = LinearRegression(x=[0, 1, 2, 3, 4], y=[1, 2, 4, 5, 8])
    >>> target.coefficients.round(2), target.degrees_of_freedom
    (array([0.6, 1.7]), 3)
    >>> np.round(target.marginal("beta").interval(0.9), 2)  # 1.7 ± 2.353 · √(0.367 / 10)
    array([1.25, 2.15])

    At the least-squares line, the gradient is 0 except in log σ:

    >>> theta = np.array([[0.6, 1.7, 0.0]])  # α, β and log σ
    >>> target.log_density(theta).round(2)  # −S / 2
    array([-0.55])
    >>> _, gradient = target.log_density_gradient(theta)
    >>> gradient.round(2) + 0.0
    array([[ 0. ,  0. , -3.9]])
    >>> prior = target.log_prior_gradient(theta)
    >>> batches = [target.log_lik_gradient(theta, np.array(b)) for b in ([0, 1], [2, 3, 4])]
    >>> bool(np.allclose(prior + sum(batches), gradient))
    True

    Exact draws:

    >>> draws = target.sample(np.random.default_rng(1), num_draws=10_000)
    >>> round(float(np.median(draws[:, 1])), 1)
    1.7
    """

    dim = 3
    names = ("alpha", "beta", "log_sigma")

    def __init__(
        self, x: ArrayLike, y: ArrayLike, flat_in: Literal["log_sigma", "sigma"] = "log_sigma"
    ) -> None:
        self.x, self.y = numbers("x", x, ndim=1), numbers("y", y, ndim=1)
        if len(self.x) != len(self.y):
            raise ConfigError(
                f"x and y must have the same length, but have {len(self.x)} and {len(self.y)}"
            )
        if flat_in not in ("log_sigma", "sigma"):
            raise ConfigError(f"flat_in must be 'log_sigma' or 'sigma', got {flat_in!r}")
        self._jacobian = 1 if flat_in == "sigma" else 0
        self.num_obs = len(self.x)
        self.degrees_of_freedom = self.num_obs - 2 - self._jacobian
        if self.degrees_of_freedom < 1:
            raise ConfigError(
                f"x and y must have at least {3 + self._jacobian} points for a proper posterior, "
                f"but have {self.num_obs}"
            )
        if np.ptp(self.x) == 0:
            raise ConfigError(f"x must vary for a slope to exist, but all x are {self.x[0]}")
        design = np.column_stack([np.ones(self.num_obs), self.x])
        self.coefficients = np.linalg.lstsq(design, self.y, rcond=None)[0]
        self._unscaled_covariance = np.linalg.inv(design.T @ design)
        residual = self.y - design @ self.coefficients
        self._sum_of_squares = float(residual @ residual)
        if self._sum_of_squares <= 1e-24 * float(self.y @ self.y):
            raise ConfigError(
                "the points must not lie exactly on a line, because sigma's posterior would then "
                "be improper"
            )
        self.residual_variance = self._sum_of_squares / self.degrees_of_freedom

    @property
    def mean(self) -> FloatArray:
        """The posterior means of α, β and log σ, shape (3,).

        The means of α and β exist only if ν > 1, and are α̂ and β̂. The mean of log σ is
        ½ (log(ν s²/2) − ψ(ν/2)).
        """
        from scipy.special import digamma

        half = self.degrees_of_freedom / 2
        mean_log_sigma = 0.5 * (np.log(self._sum_of_squares / 2) - digamma(half))
        slopes = self.coefficients if self.degrees_of_freedom > 1 else [np.nan, np.nan]
        return np.append(slopes, mean_log_sigma)

    @property
    def variance(self) -> FloatArray:
        """The posterior variances of α, β and log σ, shape (3,).

        The first two are infinite if ν ≤ 2. The third is ¼ ψ′(ν/2).
        """
        from scipy.special import polygamma

        nu = self.degrees_of_freedom
        inflation = self._sum_of_squares / (nu - 2) if nu > 2 else np.inf
        slopes = inflation * np.diag(self._unscaled_covariance)
        return np.append(slopes, 0.25 * polygamma(1, nu / 2))

    def marginal(self, name: Literal["alpha", "beta"]) -> Any:
        """Return the exact posterior of a coefficient, which is a t distribution.

        Parameters
        ----------
        name : "alpha" or "beta"
            The coefficient.

        Returns
        -------
        frozen distribution of `scipy.stats.t`
            The t distribution with ν degrees of freedom; it has methods such as ``pdf`` and
            ``interval``.

        Raises
        ------
        ConfigError
            If `name` is not a coefficient.
        """
        from scipy.stats import t

        if name not in self.names[:2]:
            raise ConfigError(f"name must be 'alpha' or 'beta', got {name!r}")
        index = self.names.index(name)
        scale = np.sqrt(self.residual_variance * self._unscaled_covariance[index, index])
        return t(self.degrees_of_freedom, self.coefficients[index], scale)

    def log_density(self, theta: FloatArray, /) -> FloatArray:
        """Return −(N − c) log σ − S(α, β)/(2σ²), which is not normalised.

        Parameters
        ----------
        theta : array, shape (chain, 3)
            (α, β, log σ) of each chain.

        Returns
        -------
        array, shape (chain,)
            The log density at each position.
        """
        squares: FloatArray = (self._residuals(theta) ** 2).sum(axis=-1)
        log_sigma = theta[..., 2]
        power = self.num_obs - self._jacobian
        return -power * log_sigma - 0.5 * squares * np.exp(-2 * log_sigma)

    def log_density_gradient(self, theta: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and its gradient with respect to (α, β, log σ).

        Parameters
        ----------
        theta : array, shape (chain, 3)
            (α, β, log σ) of each chain.

        Returns
        -------
        log_density : array, shape (chain,)
            The log density at each position.
        gradient : array, shape (chain, 3)
            The gradient at each position.
        """
        everyone = np.arange(self.num_obs)
        gradient = self.log_prior_gradient(theta) + self.log_lik_gradient(theta, everyone)
        return self.log_density(theta), gradient

    def log_prior_gradient(self, theta: FloatArray, /) -> FloatArray:
        """Return (0, 0, c), the gradient of the log prior.

        Parameters
        ----------
        theta : array, shape (chain, 3)
            (α, β, log σ) of each chain.

        Returns
        -------
        array, shape (chain, 3)
            The gradient for each chain.
        """
        gradient = np.zeros_like(theta)
        gradient[..., 2] = self._jacobian
        return gradient

    def log_lik_gradient(self, theta: FloatArray, batch: NDArray[np.intp], /) -> FloatArray:
        """Return Σ_batch (r/σ², r x/σ², r²/σ² − 1) with r = y − α − β x.

        Parameters
        ----------
        theta : array, shape (chain, 3)
            (α, β, log σ) of each chain.
        batch : array of int, shape (chain, n) or (n,)
            Positions of the observations, from 0, for each chain or for all chains.

        Returns
        -------
        array, shape (chain, 3)
            The gradient of the batch's log likelihood.
        """
        residual = self._residuals(theta, batch)
        precision = np.exp(-2 * theta[..., 2])
        by_alpha = precision * residual.sum(axis=-1)
        by_beta = precision * (residual * self.x[batch]).sum(axis=-1)
        by_log_sigma = precision * (residual**2).sum(axis=-1) - residual.shape[-1]
        return np.stack([by_alpha, by_beta, by_log_sigma], axis=-1)

    def _residuals(self, theta: FloatArray, batch: Any = slice(None)) -> FloatArray:
        """Return y − α − β x, shape (chain, n)."""
        x, y = self.x[batch], self.y[batch]
        return np.asarray(y - theta[..., 0:1] - theta[..., 1:2] * x)

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent exact draws of (α, β, log σ).

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the draws.
        num_draws : int
            Number of draws.

        Returns
        -------
        array, shape (num_draws, 3)
            One draw in each row.
        """
        sigma = np.sqrt(self._sum_of_squares / rng.chisquare(self.degrees_of_freedom, num_draws))
        z = rng.standard_normal((num_draws, 2))
        factor = np.linalg.cholesky(self._unscaled_covariance)
        line = self.coefficients + sigma[:, None] * (z @ factor.T)
        return np.column_stack([line, np.log(sigma)])
