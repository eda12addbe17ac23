"""Ranks and the binomial's quantiles in NumPy.

SciPy's statistics take longer to import than most figures take to draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of values from 1 on, in their shape; equal values share their average."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - 0.5 * (counts - 1))[where].reshape(values.shape))


def binomial_interval(level: float, num: int, share: float) -> tuple[int, int]:
    """Return the quantiles of Binomial(num, share) that hold `level` between equal tails."""
    k = np.arange(num)
    steps = np.log(num - k) - np.log(k + 1) + np.log(share) - np.log1p(-share)
    log_pmf = num * np.log1p(-share) + np.concatenate([[0.0], np.cumsum(steps)])
    cdf = np.cumsum(np.exp(log_pmf))
    tails = (0.5 * (1 - level), 0.5 * (1 + level))
    low, high = (min(int(np.searchsorted(cdf, tail)), num) for tail in tails)
    return low, high
