"""The effective sample size of many elements' chains at once.

    ρ_t = 1 - (W - mean over chains of s²_m ρ_{t,m}) / var⁺            [1]_ eq. 10
    τ   = -1 + 2 Σ P_t,        P_t = ρ_{2t} + ρ_{2t+1}                 [1]_ eq. 13
    ESS = M N / τ                                                      [1]_ eq. 12

with M chains of N draws, W and var⁺ as in R-hat, and s²_m ρ_{t,m} the autocovariance of chain m.
Geyer's initial positive sequence ends the sum before the first P_t that is not positive; his
initial monotone sequence lets no P_t exceed the one before it [2]_.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
.. [2] Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7(4), section 3.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Draws within this range of each other count as constant, as in ArviZ.
_RESOLUTION = float(np.finfo(np.float64).resolution)


def effective_size(chains: FloatArray) -> FloatArray:
    """Return the effective sample size for the mean of each element.

    Parameters
    ----------
    chains : array, shape (element, chain, draw)
        Split chains: two or more, of two or more draws.

    Returns
    -------
    array, shape (element,)
        The number of draws where they never vary; NaN where one is infinite.
    """
    num_draws = chains.shape[-1]
    size = chains.shape[-2] * num_draws
    # Most sums end within a few lags, and fewer lags take a shorter transform.
    tau, ended = _autocorrelation_time(chains, min(num_draws, max(32, num_draws // 8)))
    if not ended.all():
        tau[~ended] = _autocorrelation_time(chains[~ended], num_draws)[0]
    # The bound on the ESS of antithetic chains, S log10(S): [1]_ section 3.2.
    tau = np.maximum(tau, 1 / np.log10(size))
    ranges = chains.max(axis=(-2, -1)) - chains.min(axis=(-2, -1))
    return np.where(ranges < _RESOLUTION, np.float64(size), size / tau)


def _autocorrelation_time(chains: FloatArray, num_lags: int) -> tuple[FloatArray, BoolArray]:
    """Return τ of each element, and whether its sum ends within that many lags."""
    num_draws = chains.shape[-1]
    covariance = _autocovariance(chains, num_lags)
    within = covariance[:, :1] * num_draws / (num_draws - 1)
    between = chains.mean(axis=-1).var(axis=-1, ddof=1)[:, None]
    rho = 1 - (within - covariance) / (within * (num_draws - 1) / num_draws + between)
    rho[:, 0] = 1
    return _geyer(rho, num_draws)


def _autocovariance(chains: FloatArray, num_lags: int) -> FloatArray:
    """Return the mean over chains of the autocovariance at each lag, shape (element, lag).

    The transform back is linear, so that one for the mean of the chains' spectra is enough.
    """
    num_chains, num_draws = chains.shape[-2:]
    length = _fast_length(num_draws + num_lags)
    centred = chains - chains.mean(axis=-1, keepdims=True)
    parts = np.fft.rfft(centred, n=length).view(np.float64)
    # Squares of the real and imaginary parts, which alternate, summed over chains.
    squares = np.einsum("ecf,ecf->ef", parts, parts)
    power = squares[:, ::2] + squares[:, 1::2]
    sums = np.fft.irfft(power, n=length)[:, :num_lags]
    return np.asarray(sums / (num_chains * num_draws))


def _geyer(rho: FloatArray, num_draws: int) -> tuple[FloatArray, BoolArray]:
    """Return τ of each element by Geyer's sequences, and whether its sum has ended.

    The last pair enters with its even lag alone, and that only if it is positive: the mean of the
    sums that end before and after the pair ([1]_, section 3.2).
    """
    # Stan and ArviZ stop short of the last lags.
    most_pairs = 1 + max(0, (num_draws - 3) // 2)
    num_pairs = min(most_pairs, rho.shape[-1] // 2)
    even, odd = rho[:, 0 : 2 * num_pairs : 2], rho[:, 1 : 2 * num_pairs : 2]
    pairs = even + odd
    ends = ~(pairs > 0)
    if num_pairs == most_pairs:
        ends[:, -1] = True
    last = ends.argmax(axis=-1)
    monotone = np.minimum.accumulate(pairs, axis=-1)
    monotone[np.arange(num_pairs) >= last[:, None]] = 0
    rows = np.arange(len(rho))
    final, sum_of_final = even[rows, last], pairs[rows, last]
    final = np.where((final > 0) | (sum_of_final >= 0), final, 0)
    tau = -1 + 2 * monotone.sum(axis=-1) + final
    return np.where(np.isnan(rho[:, 1]), np.nan, tau), ends[rows, last]


def _fast_length(least: int) -> int:
    """Return the smallest multiple of 16 with no prime factor above 5 that is large enough."""
    best = max(16, 1 << (least - 1).bit_length())
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << max(4, (-(-least // odd) - 1).bit_length()))
            odd *= 3
        five *= 5
    return best
