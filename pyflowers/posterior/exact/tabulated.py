"""A marginal distribution from its density on an even grid.

The grid is even in a variable t, and the parameter is a smooth increasing function of t: a
hyperbolic sine for locations, which is even near the centre and geometric far out, and the
exponential of t for variances. In t the density is smooth and falls to nothing at both ends, so
sums over the grid are integrals to almost rounding error (Trefethen and Weideman 2014), and a
cubic spline through it gives the distribution function.

References
----------
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56(3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import interpolate

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SinhScale:
    """x = centre + unit sinh(t)."""

    centre: float
    unit: float

    def x(self, t: FloatArray) -> FloatArray:
        """Return the parameter at t."""
        return self.centre + self.unit * np.sinh(t)

    def t(self, x: FloatArray) -> FloatArray:
        """Invert :meth:`x`."""
        return np.asarray(np.arcsinh((x - self.centre) / self.unit))

    def log_slope(self, t: FloatArray) -> FloatArray:
        """Return log dx/dt."""
        return np.asarray(np.log(0.5 * self.unit) + np.logaddexp(t, -t))


@dataclass(frozen=True)
class Tabulated:
    """A distribution by its density in t.

    Parameters
    ----------
    t : array, shape (G,)
        Even grid.
    density : array, shape (G,)
        Density of t, not necessarily normalised.
    x : callable
        The parameter as a function of t, increasing.
    slope : callable
        Its derivative dx/dt.
    tail_power : float or None
        If x is exp(t) with a density that falls as x^(-(tail_power + 1)): this power, used to
        add what moments gain beyond the grid.
    """

    t: FloatArray
    density: FloatArray
    x: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]
    tail_power: float | None = None

    @cached_property
    def _cdf(self) -> interpolate.PPoly:
        return interpolate.CubicSpline(self.t, self.density, bc_type="natural").antiderivative()

    def quantile(self, p: FloatArray) -> FloatArray:
        """Quantiles, of the shape of `p`."""
        flat = np.clip(p, 0, 1).ravel()
        total = self._cdf(self.t[-1])
        # Monotone on the knots but for rounding in the tails; Newton within a bracket of one cell.
        knots = np.maximum.accumulate(self._cdf(self.t))
        cell = np.clip(np.searchsorted(knots, flat * total, side="right") - 1, 0, self.t.size - 2)
        low, high = self.t[cell], self.t[cell + 1]
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self._cdf(middle) < flat * total
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        value = np.asarray(self.x(0.5 * (low + high)), dtype=np.float64)
        return value.reshape(p.shape)

    def moment(self, power: int) -> float:
        """E[x^power], where the caller knows that it exists."""
        values = self.density * self.x(self.t) ** power
        total = float(values.sum() / self.density.sum())
        if self.tail_power is not None and power < self.tail_power:
            step = float(self.t[1] - self.t[0])
            beyond = 1 / (step * (self.tail_power - power)) - 0.5
            total += float(values[-1] / self.density.sum()) * beyond
        return total

    def marginal(self) -> tuple[FloatArray, FloatArray]:
        """Return the grid and the density in x."""
        step = float(self.t[1] - self.t[0])
        # Where x underflows, so does its slope, and the density in x is beyond all numbers.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            density = self.density / (self.density.sum() * step * self.slope(self.t))
        return self.x(self.t), density


def even_grid(
    log_density: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    num: int,
    near: Tabulated | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Lay an even grid over the part of [low, high] where a density matters, and its values.

    Zooms in on where the density is within e^-30 of its maximum, so that the ends may be generous.

    Parameters
    ----------
    log_density : callable
        Of t.
    low, high : float
        Where to look.
    num : int
        Points of the grid.
    near : Tabulated, optional
        A coarser result for the same density: its ends serve again, without another search.

    Returns
    -------
    t, density : array, shape (num,)
        The density is relative to its maximum.
    """
    if near is not None:
        low, high = float(near.t[0]), float(near.t[-1])
    for _ in range(0 if near is not None else 20):
        t = np.linspace(low, high, 64)
        log_value = log_density(t)
        inside = np.flatnonzero(log_value > log_value.max() - 30.0)
        before = high - low
        low, high = float(t[max(inside[0] - 1, 0)]), float(t[min(inside[-1] + 1, 63)])
        if high - low > 0.8 * before:
            break
    t = np.linspace(low, high, num)
    log_value = log_density(t)
    return t, np.exp(log_value - log_value.max())
