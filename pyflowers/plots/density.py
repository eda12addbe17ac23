"""Densities of draws and data, smoothed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GRID = 400
"""Points at which a density is drawn."""

BINS_OF_A_KERNEL = 8
"""Bins of values in one standard deviation of a kernel, where it is that narrow."""


def kernel_density(values: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of values by Gaussian kernels, on binned values.

    The bandwidth is Silverman's robust one (1986, Density Estimation for Statistics and Data
    Analysis, eq. 3.31).

    Parameters
    ----------
    values : array, shape (n,)
        Draws or data.
    grid : array, shape (GRID,)
        Where to evaluate it, in even steps.
    """
    iqr = float(np.subtract(*np.quantile(values, (0.75, 0.25)))) / 1.349
    spread = min(s for s in (float(values.std()), iqr, np.inf) if s > 0)
    width = 0.9 * (spread if np.isfinite(spread) else 1.0) * values.size**-0.2
    first, last = grid[0] - 4 * width, grid[-1] + 4 * width  # whose kernels reach into the grid
    num_bins = int(np.clip((last - first) / (width / BINS_OF_A_KERNEL), GRID / 4, 4 * GRID))
    edges = np.linspace(first, last, num_bins + 1)
    count, _ = np.histogram(values, edges)
    middle = (edges[1:] + edges[:-1]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - middle[None, :]) / width) ** 2)
    return np.asarray(kernel @ count / (values.size * width * np.sqrt(2 * np.pi)))
