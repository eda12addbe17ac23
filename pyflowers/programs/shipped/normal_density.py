"""The normal log density in NumPy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LOG_2_PI = math.log(2 * math.pi)


def log_pdf(
    y: NDArray[np.float64], mean: NDArray[np.float64], var: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return log N(y | mean, var)."""
    return np.asarray(-0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var))
