"""The statistics of a block of elements: R-hat, effective sample sizes, Monte Carlo errors.

Each takes a :class:`~pyflowers.convergence.block.Block` and returns an array shaped (element,).

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np

from pyflowers.convergence.block import Block, split
from pyflowers.convergence.effective_size import effective_size
from pyflowers.convergence.ranks import FloatArray, sorted_quantile, threshold

_Options = ParamSpec("_Options")
_Statistic = Callable[Concatenate[Block, _Options], FloatArray]

# What ArviZ takes for Φ(-1) and Φ(1): the bounds of one standard error either side.
_ONE_ERROR = (0.1586553, 0.8413447)


def _diagnostic(statistic: _Statistic[_Options]) -> _Statistic[_Options]:
    """Leave a statistic missing where a half of a chain would have fewer than two draws."""

    @wraps(statistic)
    def guarded(block: Block, /, *args: _Options.args, **kwargs: _Options.kwargs) -> FloatArray:
        if block.draws.shape[-1] < 4:
            return np.full(len(block.draws), np.nan)
        return statistic(block, *args, **kwargs)

    return guarded


def mean(block: Block) -> FloatArray:
    """Return the mean of the pooled draws."""
    return np.asarray(block.pooled.mean(axis=-1))


def sd(block: Block) -> FloatArray:
    """Return the standard deviation of the pooled draws, with divisor S - 1."""
    squares = block.squared_deviations
    value: FloatArray = np.sqrt(squares.sum(axis=-1) / (np.float64(squares.shape[-1]) - 1))
    return value


def quantile(block: Block, prob: float) -> FloatArray:
    """Return a quantile of the pooled draws."""
    return sorted_quantile(block.ascending, prob)


@_diagnostic
def r_hat(block: Block) -> FloatArray:
    """Return the larger of bulk and folded R-hat, [1]_ section 4.2; missing for one chain."""
    if block.draws.shape[-2] < 2:
        return np.full(len(block.draws), np.nan)
    bulk, folded = _r_hat(block.scores), _r_hat(block.folded_scores)
    # Two values a and b, in equal shares, have equal distances from the median: no folded R-hat.
    return np.where(folded > bulk, folded, bulk)


def _r_hat(chains: FloatArray) -> FloatArray:
    """Return sqrt(var⁺ / W), [1]_ eqs. 1 to 4, of chains shaped (element, chain, draw)."""
    num_draws = chains.shape[-1]
    between = num_draws * chains.mean(axis=-1).var(axis=-1, ddof=1)
    within = chains.var(axis=-1, ddof=1).mean(axis=-1)
    value: FloatArray = np.sqrt((between / within + num_draws - 1) / num_draws)
    return value


@_diagnostic
def ess_bulk(block: Block) -> FloatArray:
    """Return the ESS of the normal scores, [1]_ section 4.1."""
    return effective_size(block.scores)


@_diagnostic
def ess_mean(block: Block) -> FloatArray:
    """Return the ESS of the draws."""
    return effective_size(block.halves)


@_diagnostic
def ess_sd(block: Block) -> FloatArray:
    """Return the ESS of the squared deviations."""
    return effective_size(split(block.squared_deviations.reshape(block.draws.shape)))


@_diagnostic
def ess_quantile(block: Block, prob: float) -> FloatArray:
    """Return the ESS of the indicator of the draws up to a quantile, [1]_ eq. 16."""
    below = block.halves <= threshold(block.ascending, prob)[:, None, None]
    return effective_size(below.astype(np.float64))


@_diagnostic
def ess_tail(block: Block, probs: tuple[float, float]) -> FloatArray:
    """Return the smaller ESS of two quantiles, [1]_ section 4.3."""
    return np.minimum(ess_quantile(block, probs[0]), ess_quantile(block, probs[1]))


@_diagnostic
def mcse_mean(block: Block) -> FloatArray:
    """Return sd / sqrt(ESS), [1]_ eq. 5."""
    return sd(block) / np.sqrt(ess_mean(block))


@_diagnostic
def mcse_sd(block: Block) -> FloatArray:
    """Return sqrt(Var(s²) / s²) / 2, the error of s by the delta method, with s² over S."""
    squares = block.squared_deviations
    variance = squares.mean(axis=-1)
    error = ((squares**2).mean(axis=-1) - variance**2) / ess_sd(block)
    value: FloatArray = np.sqrt(error / variance / 4)
    return value


@_diagnostic
def mcse_quantile(block: Block, prob: float) -> FloatArray:
    """Return half the distance between two order statistics, [1]_ section 4.4 and eq. 20."""
    from scipy.special import betaincinv  # takes longer to import than most summaries to compute

    ess = ess_quantile(block, prob)
    last = block.ascending.shape[-1] - 1
    below, above = (
        betaincinv(ess * prob + 1, ess * (1 - prob) + 1, p) * (last + 1) - 1 for p in _ONE_ERROR
    )
    rows = np.arange(len(ess))
    lower = block.ascending[rows, np.floor(np.fmax(below, 0)).astype(int)]
    upper = block.ascending[rows, np.ceil(np.fmin(above, last)).astype(int)]
    return np.asarray((upper - lower) / 2)
