"""Convergence diagnostics of all elements of a posterior at once.

With M chains of N draws each, B the variance between and W the variance within chains,

    var⁺  = (N - 1)/N W + B/N,          R-hat = sqrt(var⁺ / W)
    ρ_t   = 1 - (W - mean over chains of s²_m ρ_{t,m}) / var⁺
    ESS   = M N / τ,                    τ = -1 + 2 Σ P_t,       P_t = ρ_{2t} + ρ_{2t+1}
    MCSE  = sd / sqrt(ESS of the mean)

where the sum stops before the first P_t that is not positive, and P_t never rises. Every chain is
split in half first; R-hat and bulk ESS see the normal scores of the draws' ranks, tail ESS the
indicators of the tails. All values equal those of ArviZ 0.23 to rounding, and are NaN where its
are: where a draw is NaN, or a chain has fewer than four draws; R-hat also with a single chain, or
where the draws never vary. Two values are themselves a matter of rounding, there and here: R-hat
where every chain stands still at its own value, which is infinite, and ESS where a P_t is exactly
zero, which a few integer draws can bring about.

Draws are shaped (chain, draw, element) and results (element,). The work goes through the elements
in blocks, each laid out as (element, chain, draw), so that memory is bounded and every step runs
along contiguous draws.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
.. [2] Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7(4), section 3.3.
.. [3] Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo, arXiv:1604.00695, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.convergence import formulas
from pyflowers.convergence.block import Block, blocks, validated
from pyflowers.convergence.ranks import FloatArray
from pyflowers.display import percent
from pyflowers.errors import ConfigError

_Statistic = Callable[[Block], FloatArray]

_TAILS = (0.05, 0.95)


def r_hat(draws: ArrayLike) -> FloatArray:
    """Return the rank-normalised split R-hat: the larger of bulk and folded.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)

    Returns
    -------
    array, shape (element,)
        NaN for a single chain and for draws that never vary. Where each chain stands still at a
        value of its own R-hat is infinite, and the number is whatever rounding leaves of that.

    Raises
    ------
    DataError
        Unless draws has three dimensions with a chain and a draw at least.

    References
    ----------
    Vehtari et al. (2021) [1]_, eqs. 1 to 4, 14 and 15.
    """
    return _of_each(draws, formulas.r_hat)


def ess_bulk(draws: ArrayLike) -> FloatArray:
    """Return the effective sample size of the ranks' normal scores.

    Vehtari et al. (2021) [1]_, eqs. 10 to 14. For parameters see :func:`r_hat`.
    """
    return _of_each(draws, formulas.ess_bulk)


def ess_tail(draws: ArrayLike, probs: tuple[float, float] = _TAILS) -> FloatArray:
    """Return the smaller of the effective sample sizes of two quantiles.

    Vehtari et al. (2021) [1]_, section 4.3. For parameters see :func:`ess_quantile`.
    """
    return _of_each(
        draws, partial(formulas.ess_tail, probs=(_checked(probs[0]), _checked(probs[1])))
    )


def ess_mean(draws: ArrayLike) -> FloatArray:
    """Return the effective sample size for the mean.

    Vehtari et al. (2021) [1]_, eqs. 10 to 13. For parameters see :func:`r_hat`.
    """
    return _of_each(draws, formulas.ess_mean)


def ess_sd(draws: ArrayLike) -> FloatArray:
    """Return the effective sample size for the sd: that of the squared deviations.

    For parameters see :func:`r_hat`.
    """
    return _of_each(draws, formulas.ess_sd)


def ess_quantile(draws: ArrayLike, prob: float) -> FloatArray:
    """Return the effective sample size for a quantile; for the median, prob is 0.5.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
    prob : float
        Between 0 and 1.

    Returns
    -------
    array, shape (element,)

    Raises
    ------
    ConfigError
        Unless prob lies between 0 and 1.
    DataError
        Unless draws has three dimensions with a chain and a draw at least.

    References
    ----------
    Vehtari et al. (2021) [1]_, eq. 16.
    """
    return _of_each(draws, partial(formulas.ess_quantile, prob=_checked(prob)))


def mcse_mean(draws: ArrayLike) -> FloatArray:
    """Return the Monte Carlo standard error of the mean.

    Vehtari et al. (2021) [1]_, eq. 5. For parameters see :func:`r_hat`.
    """
    return _of_each(draws, formulas.mcse_mean)


def mcse_sd(draws: ArrayLike) -> FloatArray:
    """Return the Monte Carlo standard error of the sd, by the delta method from its square.

    For parameters see :func:`r_hat`.
    """
    return _of_each(draws, formulas.mcse_sd)


def mcse_quantile(draws: ArrayLike, prob: float) -> FloatArray:
    """Return the Monte Carlo standard error of a quantile; for the median, prob is 0.5.

    Half the distance between the draws at the 16% and 84% points of the quantile's own
    distribution: Vehtari et al. (2021) [1]_, eq. 20. For parameters see :func:`ess_quantile`.
    """
    return _of_each(draws, partial(formulas.mcse_quantile, prob=_checked(prob)))


def quantiles(draws: ArrayLike, probs: Sequence[float]) -> FloatArray:
    """Return quantiles of the pooled chains, interpolated linearly as NumPy does.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
    probs : sequence of float
        Each between 0 and 1.

    Returns
    -------
    array, shape (len(probs), element)

    Raises
    ------
    ConfigError
        Unless every one of probs lies between 0 and 1.
    DataError
        Unless draws has three dimensions with a chain and a draw at least.
    """
    wanted = {str(i): partial(formulas.quantile, prob=_checked(p)) for i, p in enumerate(probs)}
    found = list(_evaluate(draws, wanted).values())
    return np.stack(found) if found else np.empty((0, np.shape(draws)[-1]))


def statistics(
    draws: ArrayLike, probs: Sequence[float] = (0.05, 0.5, 0.95)
) -> dict[str, FloatArray]:
    """Return what a posterior summary shows, in one pass that shares the sorted draws.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
    probs : sequence of float
        The quantiles, each between 0 and 1.

    Returns
    -------
    dict of str to array, shape (element,)
        ``mean``, ``sd``, a key such as ``5%`` for each quantile (``median`` for one half),
        ``mcse_mean``, ``ess_bulk``, ``ess_tail`` and ``r_hat``.

    Raises
    ------
    ConfigError
        Unless every one of probs lies between 0 and 1.
    DataError
        Unless draws has three dimensions with a chain and a draw at least.
    """
    of_quantiles = {
        "median" if p == 0.5 else percent(p): partial(formulas.quantile, prob=_checked(p))
        for p in probs
    }
    return _evaluate(
        draws,
        {
            "mean": formulas.mean,
            "sd": formulas.sd,
            **of_quantiles,
            "mcse_mean": formulas.mcse_mean,
            "ess_bulk": formulas.ess_bulk,
            "ess_tail": partial(formulas.ess_tail, probs=_TAILS),
            "r_hat": formulas.r_hat,
        },
    )


def e_bfmi(energy: ArrayLike) -> FloatArray:
    """Return each chain's estimated Bayesian fraction of missing information.

    Parameters
    ----------
    energy : array, shape (chain, draw)
        The Hamiltonian at each draw of NUTS or HMC.

    Returns
    -------
    array, shape (chain,)

    Raises
    ------
    DataError
        Unless energy has two dimensions with a chain and a draw at least.

    References
    ----------
    Betancourt (2016) [3]_, E-BFMI.
    """
    values = validated(energy, ("chain", "draw"))
    if values.shape[-1] < 2:
        return np.full(len(values), np.nan)
    with np.errstate(all="ignore"):
        change = np.square(np.diff(values)).mean(axis=-1)
        return np.asarray(change / values.var(axis=-1, ddof=1))


def _of_each(draws: ArrayLike, statistic: _Statistic) -> FloatArray:
    """Return one statistic of every element."""
    return _evaluate(draws, {"": statistic})[""]


def _evaluate(draws: ArrayLike, wanted: Mapping[str, _Statistic]) -> dict[str, FloatArray]:
    """Return several statistics of every element, block by block."""
    array = validated(draws, ("chain", "draw", "element"))
    found = {name: np.empty(array.shape[-1]) for name in wanted}
    # Infinite draws, and constant ones, are answered by infinite or missing values.
    with np.errstate(all="ignore"):
        for place, block in blocks(array):
            for name, statistic in wanted.items():
                found[name][place] = np.where(block.has_nan, np.nan, statistic(block))
    return found


def _checked(prob: float) -> float:
    """Return a probability, or raise ConfigError."""
    if not 0 <= prob <= 1:
        raise ConfigError(f"prob is {prob!r}, but a probability lies between 0 and 1")
    return float(prob)
