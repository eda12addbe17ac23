"""What one plant's data say about mu and sigma2: the one-dimensional integrals.

Both classes give, for x = mu_plant (normal) or x = log mu_plant (Poisson),

    log I(mu, u) = log ∫ p(y_p | x) N(x; mu, e^u) dx,   u = log sigma2,

and log p(y_p | x). In the normal model sigma2_plant is what is left to integrate: given it, x is
normal and integrates out. With w = log sigma2_plant, n observations of mean ȳ and sum of squares
S, and the prior scaled-inv-χ²(nu, c²) of sigma2_plant,

    I = ∫ h(w) N(ȳ; mu, e^u + e^w / n) dw,
    h(w) ∝ (2 pi)^(-(n-1)/2) n^(-1/2) e^(-(n - 1 + nu) w / 2) exp(-(S + nu c²) e^(-w) / 2),

and the other way about p(y_p | x) ∝ (S + nu c² + n (ȳ - x)²)^(-(n + nu)/2), a Student t (BDA3
section 3.2). In w everything is smooth on a scale of one, so the trapezoidal rule serves.

In the Poisson model the log of the integrand is concave in x with mode x*. With b = n e^(x*),
c = e^(-u) and δ = x - x*, relative to its maximum it is -c δ² / 2 - b (e^δ - 1 - δ), which is
integrated by Gauss-Legendre on both sides of the mode, each to where it has fallen by e^-36. This
is the Laplace transform of a lognormal (Asmussen, Jensen and Rojas-Nandayapa 2016).

References
----------
Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., sections 3.2 and 11.6.
Asmussen, Jensen and Rojas-Nandayapa (2016), On the Laplace transform of the lognormal
distribution, Methodology and Computing in Applied Probability 18(2).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from pyflowers.posterior.vb.distributions import LOG_2PI, as_floats, log_variance_prior_constant

FloatArray = npt.NDArray[np.float64]

_DROP = 36.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


class Plant(Protocol):
    """One plant's data, as the integrals see them."""

    @property
    def centre(self) -> float:
        """A rough estimate of x."""

    @property
    def spread(self) -> float:
        """Its rough standard error."""

    @property
    def weight(self) -> float:
        """Which power of 1/sigma the integral falls by as sigma grows, from 0 to 1."""

    def log_integral(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return log I, shape (U, M), for `mu` of shape (M,) and `u` of shape (U,)."""

    def log_likelihood(self, x: FloatArray) -> FloatArray:
        """Return log p(y_p | x), of the shape of `x`."""


@dataclass(frozen=True)
class NormalPlant:
    """A plant of the multilevel normal model; `nu`, `scale` are those of sigma2_plant's prior."""

    num: float
    mean: float
    ss: float
    nu: float
    scale: float

    @property
    def dof(self) -> float:
        """Degrees of freedom of sigma2_plant given x."""
        return float(self.num + self.nu)

    @property
    def known_ss(self) -> float:
        """S + nu c²."""
        return self.ss + self.nu * self.scale**2

    @property
    def centre(self) -> float:
        """See :class:`Plant`."""
        return self.mean

    @property
    def spread(self) -> float:
        """See :class:`Plant`."""
        return float(np.sqrt(self.known_ss / self.dof / self.num)) if self.num else 0.0

    @property
    def weight(self) -> float:
        """See :class:`Plant`; the likelihood's tail is too heavy to integrate when dof <= 1."""
        return min(1.0, self.dof) if self.num else 0.0

    @property
    def _constant(self) -> float:
        prior = log_variance_prior_constant(as_floats(self.nu), as_floats(self.scale))
        return float(prior - 0.5 * ((self.num - 1) * LOG_2PI + np.log(self.num)))

    def log_integral(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """See :class:`Plant`."""
        if not self.num:
            return np.zeros((u.size, mu.size))
        w, step = self._nodes(mu, float(u.max()))
        log_h = self._log_h(w) + np.log(step)
        square = (mu[:, None] - self.mean) ** 2
        result = np.empty((u.size, mu.size))
        for i, one in enumerate(u):
            var = np.exp(one) + np.exp(w) / self.num
            log_terms = (log_h - 0.5 * (LOG_2PI + np.log(var))) - square * (0.5 / var)
            peak = log_terms.max(axis=1, keepdims=True)
            log_terms -= peak
            result[i] = peak[:, 0] + np.log(np.exp(log_terms, out=log_terms).sum(axis=1))
        return result

    def log_likelihood(self, x: FloatArray) -> FloatArray:
        """See :class:`Plant`."""
        if not self.num:
            return np.zeros_like(x)
        half = 0.5 * self.dof
        squares = self.known_ss + self.num * (x - self.mean) ** 2
        # The integral over w of h(w) N(ȳ; x, e^w / n).
        constant = self._constant + 0.5 * (np.log(self.num) - LOG_2PI) + special.gammaln(half)
        return as_floats(constant - half * np.log(0.5 * squares))

    def log_joint_variance(self, w: FloatArray, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Log of the integrand of I at w = log sigma2_plant; arguments broadcast."""
        if not self.num:
            prior = log_variance_prior_constant(as_floats(self.nu), as_floats(self.scale))
            return prior - 0.5 * (self.nu * w + self.known_ss * np.exp(-w)) + 0.0 * (mu + u)
        var = np.exp(u) + np.exp(w) / self.num
        return as_floats(
            self._log_h(w) - 0.5 * (LOG_2PI + np.log(var) + (mu - self.mean) ** 2 / var)
        )

    def _log_h(self, w: FloatArray) -> FloatArray:
        return as_floats(self._constant - 0.5 * ((self.dof - 1) * w + self.known_ss * np.exp(-w)))

    def variance_range(self, mu: FloatArray, largest_u: float) -> tuple[float, float]:
        """Return ends of log sigma2_plant that hold all of its posterior."""
        if self.num:
            nodes, _ = self._nodes(mu, largest_u)
            return float(nodes[0]), float(nodes[-1])
        centre, reach = np.log(self.scale**2), 2 * _DROP / self.nu
        return float(centre - np.log1p(reach) - 5), float(centre + reach + np.sqrt(2 * reach))

    def _nodes(self, mu: FloatArray, largest_u: float) -> tuple[FloatArray, float]:
        """Even nodes in w that serve all of `mu` and every u up to the largest, and their step."""
        dof, start = self.dof, np.log(self.known_ss / self.dof)
        left = 1.0
        for _ in range(60):  # of e^x - 1 - x = 2 drop / dof
            left = float(np.log1p(2 * _DROP / dof + left))
        right = 2 * _DROP / dof + np.sqrt(4 * _DROP / dof)
        misfit = float(np.max(np.abs(mu - self.mean)))
        top = float(np.log(self.known_ss + self.num * misfit**2) - np.log(dof))
        # Up to w = log n + u the factor N is flat, and h alone falls, by one power less.
        plateau = 2 * _DROP / (dof - 1) if dof > 1 else np.inf
        top = max(top, min(np.log(self.num) + largest_u, top + plateau))
        step = min(0.35, 0.7 * float(np.sqrt(2 / dof)))
        num = int(np.ceil((top + right - start + left) / step)) + 1
        return start - left + step * np.arange(num), step


@dataclass(frozen=True)
class PoissonPlant:
    """A plant of the multilevel Poisson model: months, total count and Σ log y!."""

    num: float
    total: float
    log_factorials: float

    @property
    def centre(self) -> float:
        """See :class:`Plant`."""
        return float(np.log((self.total + 0.5) / self.num)) if self.num else 0.0

    @property
    def spread(self) -> float:
        """See :class:`Plant`."""
        return float((self.total + 0.5) ** -0.5) if self.num else 0.0

    @property
    def weight(self) -> float:
        """See :class:`Plant`; zeros cannot tell a small mean from a smaller one."""
        return 1.0 if self.total else 0.0

    def log_likelihood(self, x: FloatArray) -> FloatArray:
        """See :class:`Plant`."""
        with np.errstate(over="ignore"):
            rate = self.num * np.exp(x) if self.num else np.zeros_like(x)
        return as_floats(self.total * x - rate - self.log_factorials)

    def log_integral(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """See :class:`Plant`."""
        return self.log_integral_at(mu, u[:, None])

    def log_integral_at(self, mu: FloatArray, u: FloatArray) -> FloatArray:
        """Return log I at each of several points; arguments broadcast."""
        mu, u = np.broadcast_arrays(mu, u)
        if not self.num:
            return np.zeros(mu.shape)
        c = np.exp(-u)
        mode = self._mode(mu, c)
        log_b = np.log(self.num) + mode
        left, right = falls(c, log_b, -1.0), falls(c, log_b, 1.0)
        tilt = self.total - np.exp(log_b) - c * (mode - mu)  # zero but for rounding
        mass = np.zeros_like(mode)
        for node, weight in zip(0.5 * (_NODES + 1), 0.5 * _WEIGHTS, strict=True):
            for side in (-left, right):
                delta = node * side
                fall = 0.5 * c * delta**2 + excess(log_b, delta) - tilt * delta
                mass += weight * np.abs(side) * np.exp(-fall)
        at_mode = self.log_likelihood(mode) - 0.5 * (LOG_2PI + u + c * (mode - mu) ** 2)
        return as_floats(at_mode + np.log(mass))

    def _mode(self, mu: FloatArray, c: FloatArray) -> FloatArray:
        """Solve total - n e^x = c (x - mu), by the Wright omega function and Newton's method."""
        reach = mu + self.total / c
        x = reach - np.real(special.wrightomega(reach + np.log(self.num) - np.log(c)))
        if self.total:
            # Where the counts rule, that difference cancels and x is near the counts' own mode.
            x = np.where(self.total > 1e4 * c, np.log(self.total / self.num), x)
        for _ in range(4):
            rate = self.num * np.exp(x)
            x = x + (self.total - rate - c * (x - mu)) / (rate + c)
        return as_floats(x)


def excess(log_b: FloatArray, delta: FloatArray) -> FloatArray:
    """Return b (e^δ - 1 - δ), also where b underflows but b e^δ does not."""
    small = log_b < -200
    if not np.any(small):
        return as_floats(np.exp(log_b) * (np.expm1(delta) - delta))
    usual = np.exp(log_b) * (np.expm1(np.where(small, 0.0, delta)) - delta)
    return np.where(small, np.exp(log_b + delta), usual)


def falls(c: FloatArray, log_b: FloatArray, sign: float) -> FloatArray:
    """How far from the mode c δ² / 2 + b (e^δ - 1 - δ) reaches the drop, on one side."""
    log_share = np.log(_DROP) - log_b
    # e^-x - 1 + x > x - 1, e^x - 1 - x > x² / 2, and log(1 + r) + 1 is beyond e^x - 1 - x = r.
    linear = 1 + np.exp(np.minimum(log_share, 690.0))
    square = np.sqrt(2.0) * np.exp(np.minimum(0.5 * log_share, 690.0))
    bound = linear if sign < 0 else np.minimum(square, np.logaddexp(0, log_share) + 1)
    x = np.minimum(np.sqrt(2 * _DROP / c), bound)
    for _ in range(8):  # Newton from above on a convex function stays above
        value = 0.5 * c * x**2 + excess(log_b, sign * x) - _DROP
        slope = c * x + np.abs(np.exp(log_b + sign * x) - np.exp(log_b))
        x = x - value / slope
    return as_floats(x)
