"""The posterior of a straight line with flat priors, and its exact form.

    y_i ~ N(α + β x_i, σ²),   i = 1, …, N,

in the coordinates θ = (α, β, log σ). Let c = 0 if the prior is flat in log σ (the textbook's
p(σ) ∝ 1/σ), c = 1 if it is flat in σ (what a Stan program without a prior on σ has: the Jacobian of
the logarithm adds log σ). Then, with S(α, β) = Σ (y_i − α − β x_i)²,

    log p(θ | y) = −(N − c) log σ − S(α, β) / (2σ²) + constant.

Let X be the N × 2 design, (α̂, β̂) least squares, V = (XᵀX)⁻¹, ν = N − 2 − c and s² = S(α̂, β̂)/ν:

    σ² ~ scaled-inv-χ²(ν, s²),   (α, β) | σ² ~ N((α̂, β̂), σ² V),
    β ~ t_ν(β̂, s² V_ββ),   and α likewise ([1]_, section 14.2, for c = 0).

References
----------
.. [1] Gelman, Carlin, Stern, Dunson, Vehtari & Rubin (2013), Bayesian Data Analysis, third edition.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.errors import ConfigError
from pyflowers.samplers import _checks
from pyflowers.samplers.densities import FloatArray, IntArray


class LinearRegression:
    """The posterior of (α, β, log σ): a target, also by mini-batches, with its exact draws.

    Parameters
    ----------
    x, y : arrays, shape (N,)
    flat_in : "log_sigma" or "sigma"
        Where the prior is flat: it decides the degrees of freedom, N − 2 or N − 3.

    Raises
    ------
    ConfigError
        x and y differ in length, are too few, all x are equal, or all points are on a line.
    """

    dim = 3
    names = ("alpha", "beta", "log_sigma")

    def __init__(
        self, x: ArrayLike, y: ArrayLike, flat_in: Literal["log_sigma", "sigma"] = "log_sigma"
    ) -> None:
        self.x, self.y = _checks.vector("x", x), _checks.vector("y", y)
        if len(self.x) != len(self.y):
            raise ConfigError(
                f"x and y must be of one length, but have {len(self.x)} and {len(self.y)}"
            )
        if flat_in not in ("log_sigma", "sigma"):
            raise ConfigError(f"flat_in must be 'log_sigma' or 'sigma', was {flat_in!r}")
        self._jacobian = 1 if flat_in == "sigma" else 0
        self.num_obs = len(self.x)
        self.degrees_of_freedom = self.num_obs - 2 - self._jacobian
        if self.degrees_of_freedom < 1:
            raise ConfigError(
                f"x and y must hold at least {3 + self._jacobian} points for a proper posterior, "
                f"but hold {self.num_obs}"
            )
        self._fit_least_squares()

    def _fit_least_squares(self) -> None:
        """Find (α̂, β̂), V and S(α̂, β̂)."""
        design = np.column_stack([np.ones(self.num_obs), self.x])
        if np.ptp(self.x) == 0:
            raise ConfigError(f"x must vary for a slope to exist, but all of it is {self.x[0]}")
        self.coefficients = np.linalg.lstsq(design, self.y, rcond=None)[0]
        self._unscaled_covariance = np.linalg.inv(design.T @ design)
        residual = self.y - design @ self.coefficients
        self._sum_of_squares = float(residual @ residual)
        if self._sum_of_squares <= 1e-24 * float(self.y @ self.y):
            raise ConfigError("y must not be on a line exactly: sigma's posterior is then improper")

    @property
    def residual_variance(self) -> float:
        """s², the scale of σ²."""
        return self._sum_of_squares / self.degrees_of_freedom

    @property
    def mean(self) -> FloatArray:
        """α̂, β̂ and ½ (log(ν s²/2) − ψ(ν/2)), shape (3,); the first two exist if ν > 1."""
        from scipy.special import digamma

        half = self.degrees_of_freedom / 2
        mean_log_sigma = 0.5 * (np.log(self._sum_of_squares / 2) - digamma(half))
        slopes = self.coefficients if self.degrees_of_freedom > 1 else [np.nan, np.nan]
        return np.append(slopes, mean_log_sigma)

    @property
    def variance(self) -> FloatArray:
        """Those of t_ν, infinite if ν ≤ 2, and ¼ ψ′(ν/2) for log σ; shape (3,)."""
        from scipy.special import polygamma

        nu = self.degrees_of_freedom
        inflation = self._sum_of_squares / (nu - 2) if nu > 2 else np.inf
        return np.append(
            inflation * np.diag(self._unscaled_covariance), 0.25 * polygamma(1, nu / 2)
        )

    def marginal(self, name: Literal["alpha", "beta"]) -> Any:
        """Return the exact t posterior of a coefficient, as a frozen `scipy.stats.t`."""
        from scipy.stats import t

        if name not in self.names[:2]:
            raise ConfigError(f"name must be 'alpha' or 'beta', was {name!r}")
        index = self.names.index(name)
        scale = np.sqrt(self.residual_variance * self._unscaled_covariance[index, index])
        return t(self.degrees_of_freedom, self.coefficients[index], scale)

    def log_density(self, theta: FloatArray, /) -> FloatArray:
        """Return −(N − c) log σ − S(α, β)/(2σ²), shape (chain,); not normalised."""
        squares: FloatArray = (self._residuals(theta) ** 2).sum(axis=-1)
        log_sigma = theta[..., 2]
        power = self.num_obs - self._jacobian
        return -power * log_sigma - 0.5 * squares * np.exp(-2 * log_sigma)

    def log_density_gradient(self, theta: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return the log density and its gradient in (α, β, log σ)."""
        everyone = np.arange(self.num_obs)
        gradient = self.log_prior_gradient(theta) + self.log_lik_gradient(theta, everyone)
        return self.log_density(theta), gradient

    def log_prior_gradient(self, theta: FloatArray, /) -> FloatArray:
        """Return (0, 0, c), shape (chain, 3)."""
        gradient = np.zeros_like(theta)
        gradient[..., 2] = self._jacobian
        return gradient

    def log_lik_gradient(self, theta: FloatArray, batch: IntArray, /) -> FloatArray:
        """Return Σ_batch (r/σ², r x/σ², r²/σ² − 1) with r = y − α − β x, shape (chain, 3).

        Parameters
        ----------
        theta : array, shape (chain, 3)
        batch : array of observation numbers, shape (chain, n), or (n,) for all chains alike
        """
        residual = self._residuals(theta, batch)
        precision = np.exp(-2 * theta[..., 2])
        return np.stack(
            [
                precision * residual.sum(axis=-1),
                precision * (residual * self.x[batch]).sum(axis=-1),
                precision * (residual**2).sum(axis=-1) - residual.shape[-1],
            ],
            axis=-1,
        )

    def _residuals(self, theta: FloatArray, batch: IntArray | slice = slice(None)) -> FloatArray:
        """Return y − α − β x, shape (chain, n)."""
        return self.y[batch] - theta[..., 0:1] - theta[..., 1:2] * self.x[batch]

    def sample(self, rng: np.random.Generator, num_draws: int) -> FloatArray:
        """Return independent exact draws of (α, β, log σ), shape (num_draws, 3)."""
        sigma = np.sqrt(self._sum_of_squares / rng.chisquare(self.degrees_of_freedom, num_draws))
        z = rng.standard_normal((num_draws, 2))
        factor = np.linalg.cholesky(self._unscaled_covariance)
        line = self.coefficients + sigma[:, None] * (z @ factor.T)
        return np.column_stack([line, np.log(sigma)])
