"""Pareto smoothing of many sets of importance weights at once.

The largest ratios of a set are replaced by the expected order statistics of a generalised Pareto
distribution fitted to them. Its estimated shape, k-hat, shows whether the weights can be trusted.

References
----------
.. [1] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72): algorithm 1, and section 3.2.4 for the threshold.
.. [2] Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
   distribution, Technometrics 51(3), with the weak prior on k from [1], appendix G.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

FEWEST_IN_TAIL = 5
"""The smallest number of ratios in a tail to which a Pareto distribution is fitted."""

_PRIOR_SCALE = 3
_PRIOR_DRAWS = 10
_LEAST = np.log(np.finfo(float).tiny)
_EPS = np.finfo(float).eps


def good_k(num_draws: int) -> float:
    """Return the k-hat up to which the importance weights of `num_draws` draws can be trusted.

    Parameters
    ----------
    num_draws : int
        Number of draws, S.

    Returns
    -------
    float
        min(1 − 1 / log₁₀ S, 0.7), and 0 for up to 10 draws.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
    25(72), section 3.2.4.

    Examples
    --------
    >>> from pyflowers import convergence
    >>> float(convergence.good_k(100))
    0.5
    >>> float(convergence.good_k(4_000))
    0.7
    """
    return min(1 - 1 / float(np.log10(max(num_draws, 10))), 0.7)


def pareto_smooth(log_ratios: ArrayLike, *, r_eff: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Smooth the largest importance ratios of each set.

    Parameters
    ----------
    log_ratios : array, shape (…, S)
        Logarithms of the ratios of S draws; each set is known up to a constant.
    r_eff : float
        Effective sample size divided by S: the smaller it is, the longer the tail that is smoothed.

    Returns
    -------
    log_weights : array, shape (…, S)
        Smoothed log weights; the weights of each set sum to 1.
    k_hat : array, shape (…)
        Shape of each tail. It is infinite where the tail has fewer than 5 ratios, and NaN where all
        ratios are equal, because the draws then need no weights.

    See Also
    --------
    pyflowers.convergence.good_k : The largest k-hat that can be trusted.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
    25(72), algorithm 1.

    Examples
    --------
    Ratios exp(k E), where E is exponential with mean 1, have a Pareto tail of shape k:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> log_ratios = 0.5 * np.random.default_rng(1).standard_exponential(4_000)
    >>> log_weights, k_hat = convergence.pareto_smooth(log_ratios)
    >>> bool(0.3 < k_hat < 0.7), bool(np.isclose(np.exp(log_weights).sum(), 1))
    (True, True)
    """
    ratios = np.asarray(log_ratios, dtype=np.float64)
    rows = ratios.reshape(-1, ratios.shape[-1])
    rows = rows - rows.max(axis=1, keepdims=True)
    length = int(np.ceil(min(rows.shape[1] / 5, 3 * np.sqrt(rows.shape[1] / r_eff))))
    k_hat = np.where(rows.any(axis=1), np.inf, np.nan)
    if 0 < length < rows.shape[1]:
        order = np.argsort(rows, axis=1, kind="stable")
        cut = np.maximum(np.take_along_axis(rows, order, 1)[:, -length - 1], _LEAST)
        # Ratios equal to the cut are not in the tail, so tails differ in length.
        num_tail = (rows > cut[:, None]).sum(axis=1)
        for num in np.unique(num_tail[num_tail >= FEWEST_IN_TAIL]):
            chosen = np.flatnonzero(num_tail == num)
            places = order[chosen, -num:]
            tail = np.take_along_axis(rows[chosen], places, 1)
            smoothed, k_hat[chosen] = _smoothed(tail, cut[chosen])
            rows[chosen[:, None], places] = smoothed
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return rows.reshape(ratios.shape), k_hat.reshape(ratios.shape[:-1])


def _smoothed(tail: FloatArray, cut: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return smoothed log ratios, at most 0, and k-hat for ascending tails of equal length."""
    threshold = np.exp(cut)[:, None]
    k, sigma = _fit_generalised_pareto(np.exp(tail) - threshold)
    num = tail.shape[1]
    probs = (np.arange(num) + 0.5) / num
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        exponential = np.abs(k) < _EPS
        shape = np.where(exponential, 1.0, k)[:, None]
        quantile = np.where(
            exponential[:, None], -np.log1p(-probs), np.expm1(-shape * np.log1p(-probs)) / shape
        )
        smooth = np.log(quantile * sigma[:, None] + threshold)
    fitted = np.isfinite(k) & (sigma > 0)
    return np.minimum(np.where(fitted[:, None], smooth, tail), 0.0), k


def _fit_generalised_pareto(excess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit shape and scale to each row of ascending positive numbers ([2]; [1], appendix G).

    The shape is k in the survival function (1 + k x / sigma)^(−1/k); it is large for heavy tails.
    """
    num = excess.shape[1]
    num_grid = 30 + int(np.sqrt(num))
    steps = 1 - np.sqrt(num_grid / (np.arange(1, num_grid + 1) - 0.5))
    quartile = excess[:, int(num / 4 + 0.5) - 1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        b = steps / (_PRIOR_SCALE * quartile)[:, None] + (1 / excess[:, -1])[:, None]
        # A loop over the grid holds one array like `excess` at a time instead of the whole grid.
        k = np.stack([np.log1p(-each[:, None] * excess).mean(axis=1) for each in b.T], axis=1)
        profile = num * (np.log(-b / k) - k - 1)
        weights = 1 / np.exp(profile[:, None, :] - profile[:, :, None]).sum(axis=2)
        weights = np.where(weights >= 10 * _EPS, weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        mean_b = (b * weights).sum(axis=1)
        shape = np.log1p(-mean_b[:, None] * excess).mean(axis=1)
        sigma = -shape / mean_b
    return (num * shape + 0.5 * _PRIOR_DRAWS) / (num + _PRIOR_DRAWS), sigma
