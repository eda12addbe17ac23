"""The log of p(y), the integral of a density over its parameters.

The mean of the ratios of density to proposal estimates it, with a standard error. In one or two
dimensions the trapezoidal rule on a lattice along the axes of the density gives it almost
without error, because the rule converges exponentially for smooth functions that fall to 0 on all
sides [1]. The exponential tail of the log of a standard deviation would need hundreds of points, so
it is shortened first: x = centre + spread · sinh(BEND · t) / BEND, which is analytic, so that the
rule still converges exponentially in t (the section on changes of variables in [1]). The new
coordinates of importance sampling have short tails, too, but a kink in their second derivative,
which would leave errors of about 1e-5.

References
----------
.. [1] Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review
   56(3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines.integrated.importance import LogDensity

FloatArray = NDArray[np.float64]

MOST_DIMENSIONS = 2
"""The largest number of dimensions in which a lattice is used."""

STEP = 0.3
"""The distance between points along each axis, in units of the density's spread."""

NEGLIGIBLE = 32.0
"""How far the log density has fallen from its maximum where the lattice ends."""

BEND = 0.3
"""How strongly the tails of slow coordinates are shortened."""

_FIRST_REACH = 5.5


def with_short_tails(
    log_density: LogDensity, centre: FloatArray, spread: FloatArray, is_slow: NDArray[np.bool_]
) -> LogDensity:
    """Return a log density in coordinates t in which exponential tails are short.

    Parameters
    ----------
    log_density : callable
        The log density of coordinates x.
    centre, spread : array, shape (d,)
        The mode, which becomes 0 in the slow coordinates, and the spread around it.
    is_slow : array of bool, shape (d,)
        Whether each coordinate has an exponential tail; only these coordinates change.
    """

    def shortened(points: FloatArray) -> FloatArray:
        t = points[:, is_slow]
        moved = points.copy()
        moved[:, is_slow] = centre[is_slow] + spread[is_slow] * np.sinh(BEND * t) / BEND
        log_slope: FloatArray = np.log(spread[is_slow] * np.cosh(BEND * t)).sum(axis=1)
        return log_density(moved) + log_slope

    return shortened


def lattice_integral(
    log_density: LogDensity, centre: FloatArray, axes: FloatArray, most: int
) -> tuple[float, float] | None:
    """Return the log of an integral and its error, from the trapezoidal rule.

    Parameters
    ----------
    log_density : callable
        The log density.
    centre : array, shape (d,)
        The mode; d is at most `MOST_DIMENSIONS`.
    axes : array, shape (d, d)
        Axes along which the density has a spread of about 1, as columns.
    most : int
        The largest number of points.

    Returns
    -------
    tuple of (float, float), or None
        The log of the integral, and its difference from the result on a lattice with twice the
        step, which is far larger than the actual error. None if more points would be needed to
        cover the density.
    """
    reaches = np.full((2, len(centre)), _FIRST_REACH)
    while True:
        nums = np.ceil(reaches / STEP).astype(int)
        if np.prod(nums.sum(axis=0) + 1.0) > most:
            return None
        steps = [np.arange(-low, high + 1) for low, high in nums.T]
        grid = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1)
        points = centre + STEP * grid.reshape(-1, len(centre)) @ axes.T
        logs = log_density(points).reshape(grid.shape[:-1])
        largest = logs.max()
        is_open = False
        for axis in range(len(centre)):
            for side, end in enumerate((0, -1)):
                if np.take(logs, end, axis=axis).max() > largest - NEGLIGIBLE:
                    reaches[side, axis] *= 1.6
                    is_open = True
        if not is_open:
            values = np.exp(logs - largest)
            is_coarse = (grid % 2 == 0).all(axis=-1)
            cell = len(centre) * math.log(STEP) + float(np.linalg.slogdet(axes)[1])
            fine, coarse = float(values.sum()), float(values[is_coarse].sum())
            error = abs(math.log(fine) - math.log(coarse) - len(centre) * math.log(2))
            return float(largest) + math.log(fine) + cell, error
