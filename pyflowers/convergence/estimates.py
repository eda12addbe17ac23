"""Convergence diagnostics for all elements of a posterior at once.

With M chains of N draws each, B the variance between and W the variance within chains,

    var⁺  = (N - 1)/N W + B/N,          R-hat = sqrt(var⁺ / W)
    ρ_t   = 1 - (W - mean over chains of s²_m ρ_{t,m}) / var⁺
    ESS   = M N / τ,                    τ = -1 + 2 Σ P_t,       P_t = ρ_{2t} + ρ_{2t+1}
    MCSE  = sd / sqrt(ESS of the mean)

where the sum stops before the first P_t that is not positive, and each P_t is capped at the one
before it. Every chain is split in half first. R-hat and bulk ESS are computed from the normal
scores of the ranks of the draws, and tail ESS from the indicators of the tails. R-hat, ESS and MCSE
agree with ArviZ 0.23 up to rounding, and are NaN in the same cases: if a draw is NaN or a chain has
fewer than four draws. R-hat is also NaN if there is a single chain or the draws never vary. In both
packages, rounding affects two results: R-hat if each chain is constant at a different value (in
exact arithmetic it is infinite), and ESS if a P_t is exactly zero, which can happen with a few
integer draws.

Draws have shape (chain, draw, element), and results have shape (element,). Elements are processed
in blocks, each laid out as (element, chain, draw), so that memory is bounded and every step runs
along contiguous draws. Geyer's initial positive sequence ends the sum before the first P_t that is
not positive; his initial monotone sequence caps each P_t at the one before it [2]_.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
.. [2] Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7(4), section 3.3.
.. [3] Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo, arXiv:1604.00695, section 3.
.. [4] Blom (1958), Statistical Estimates and Transformed Beta-Variables, Wiley.
.. [5] Hyndman and Fan (1996), Sample quantiles in statistical packages, The American Statistician
   50(4), definition 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyflowers.display import percent
from pyflowers.errors import ConfigError, DataError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

_TAILS = (0.05, 0.95)

# ArviZ's values for Φ(-1) and Φ(1): the bounds of one standard error on either side.
_ONE_ERROR = (0.1586553, 0.8413447)

# Draws within this range of each other count as constant, as in ArviZ.
_RESOLUTION = float(np.finfo(np.float64).resolution)

# Size of a block of draws, small enough for a cache. Computing the statistics of a block needs
# about 12 times as much memory.
_BLOCK_BYTES = 2**20


def r_hat(draws: ArrayLike) -> FloatArray:
    """Return the rank-normalised split R-hat: the larger of the bulk R-hat and the folded R-hat.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.

    Returns
    -------
    array, shape (element,)
        R-hat of each element. NaN for a single chain and for draws that never vary. If each chain
        is constant at a different value, R-hat is infinite in exact arithmetic, and the computed
        number depends on rounding.

    Raises
    ------
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 1 to 4, 14
    and 15.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 1))
    >>> bool(convergence.r_hat(draws)[0] < 1.01)
    True
    >>> draws[3] += 3  # one chain is elsewhere
    >>> bool(convergence.r_hat(draws)[0] > 1.1)
    True
    """
    return _of_each(draws, Block.r_hat)


def ess_bulk(draws: ArrayLike) -> FloatArray:
    """Return the effective sample size of the normal scores of the draws' ranks.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.

    Returns
    -------
    array, shape (element,)
        The bulk effective sample size of each element, in draws.

    Raises
    ------
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 10 to 14.

    Examples
    --------
    Each draw of an autoregression is 0.9 times the one before it plus noise, so 4,000 draws
    are worth about 4,000 (1 − 0.9) / (1 + 0.9) = 211 independent ones:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 1))
    >>> for t in range(1, 1_000):
    ...     draws[:, t] += 0.9 * draws[:, t - 1]
    >>> bool(150 < convergence.ess_bulk(draws)[0] < 300)
    True
    """
    return _of_each(draws, Block.ess_bulk)


def ess_mean(draws: ArrayLike) -> FloatArray:
    """Return the effective sample size of the draws, for estimates of the mean.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.

    Returns
    -------
    array, shape (element,)
        The effective sample size of each element, in draws.

    Raises
    ------
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 10 to 13.

    Examples
    --------
    The effective sample size of independent draws is about their number:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 1))
    >>> bool(3_500 < convergence.ess_mean(draws)[0] < 4_500)
    True
    """
    return _of_each(draws, Block.ess_mean)


def mcse_mean(draws: ArrayLike) -> FloatArray:
    """Return the Monte Carlo standard error of the mean.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.

    Returns
    -------
    array, shape (element,)
        The standard error of each element, in units of the draws.

    Raises
    ------
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eq. 5.

    Examples
    --------
    The error of the mean of 4,000 independent draws with sd 1 is about 1 / √4000 = 0.016:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 1))
    >>> convergence.mcse_mean(draws).round(3)
    array([0.016])
    """
    return _of_each(draws, Block.mcse_mean)


def mcse_sd(draws: ArrayLike) -> FloatArray:
    """Return the Monte Carlo standard error of the sd, by the delta method from the variance.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.

    Returns
    -------
    array, shape (element,)
        The standard error of each element, in units of the draws.

    Raises
    ------
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    Examples
    --------
    The error of the sd of 4,000 independent normal draws with sd 1 is about 1 / √8000 = 0.011:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 1))
    >>> bool(0.01 < convergence.mcse_sd(draws)[0] < 0.013)
    True
    """
    return _of_each(draws, Block.mcse_sd)


def mcse_quantile(draws: ArrayLike, prob: float) -> FloatArray:
    """Return the Monte Carlo standard error of a quantile.

    It is half the distance between the draws at the 16% and 84% points of the distribution of the
    estimated quantile.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.
    prob : float
        Probability of the quantile, such as 0.5 for the median.

    Returns
    -------
    array, shape (element,)
        The standard error of each element, in units of the draws.

    Raises
    ------
    ConfigError
        If `prob` does not lie between 0 and 1.
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eq. 20.

    Examples
    --------
    The error of the median of 4,000 independent standard normal draws is about √(π / 8000) = 0.02:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 1))
    >>> convergence.mcse_quantile(draws, 0.5).round(2)
    array([0.02])
    """
    probability = _checked(prob)
    return _of_each(draws, lambda block: block.mcse_quantile(probability))


def quantiles(draws: ArrayLike, probs: Sequence[float]) -> FloatArray:
    """Return quantiles of the pooled chains, interpolated linearly as in NumPy.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.
    probs : sequence of float
        The probabilities, each between 0 and 1.

    Returns
    -------
    array, shape (len(probs), element)
        The quantiles, in units of the draws.

    Raises
    ------
    ConfigError
        If a probability does not lie between 0 and 1.
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.arange(11.0).reshape(1, 11, 1)  # 0, 1, …, 10
    >>> convergence.quantiles(draws, [0.1, 0.5])
    array([[1.],
           [5.]])
    """
    wanted = {str(i): _quantile(p) for i, p in enumerate(probs)}
    found = list(_evaluate(draws, wanted).values())
    if found:
        return np.stack(found)
    return np.empty((0, np.shape(draws)[-1]))


def statistics(
    draws: ArrayLike, probs: Sequence[float] = (0.05, 0.5, 0.95)
) -> dict[str, FloatArray]:
    """Return the statistics of a posterior summary; the draws are sorted only once.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        The draws of each element.
    probs : sequence of float
        Probabilities of the quantiles, each between 0 and 1.

    Returns
    -------
    dict of str to array, shape (element,)
        ``mean``, ``sd``, a key such as ``5%`` for each quantile (``median`` for one half),
        ``mcse_mean``, ``ess_bulk``, ``ess_tail`` and ``r_hat``.

    Raises
    ------
    ConfigError
        If a probability does not lie between 0 and 1.
    DataError
        If `draws` does not have three dimensions with at least one chain and one draw.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> draws = np.random.default_rng(1).standard_normal((4, 1_000, 2))
    >>> found = convergence.statistics(draws)
    >>> list(found)
    ['mean', 'sd', '5%', 'median', '95%', 'mcse_mean', 'ess_bulk', 'ess_tail', 'r_hat']
    >>> found["sd"].round(1)
    array([1., 1.])
    """
    names = {0.5: "median"}
    return _evaluate(
        draws,
        {
            "mean": lambda block: block.pooled.mean(axis=-1),
            "sd": lambda block: block.sd,
            **{names.get(p) or percent(p): _quantile(p) for p in probs},
            "mcse_mean": Block.mcse_mean,
            "ess_bulk": Block.ess_bulk,
            "ess_tail": Block.ess_tail,
            "r_hat": Block.r_hat,
        },
    )


def e_bfmi(energy: ArrayLike) -> FloatArray:
    """Return each chain's estimated Bayesian fraction of missing information.

    Parameters
    ----------
    energy : array, shape (chain, draw)
        The Hamiltonian at each draw of NUTS or HMC, such as the statistic ``energy__`` of a fit.

    Returns
    -------
    array, shape (chain,)
        E-BFMI of each chain: the mean squared change of the energy divided by its variance. Low
        values, such as those below 0.3, mean that new momenta change the energy too little.
        E-BFMI is NaN for a single draw.

    Raises
    ------
    DataError
        If `energy` does not have two dimensions with at least one chain and one draw.

    References
    ----------
    Betancourt (2016), arXiv:1604.00695.

    Examples
    --------
    Independent energies have an E-BFMI of about 2, and a random walk has one near 0:

    >>> import numpy as np
    >>> from pyflowers import convergence
    >>> energy = np.random.default_rng(1).standard_normal((4, 1_000))
    >>> convergence.e_bfmi(energy).round()
    array([2., 2., 2., 2.])
    >>> bool((convergence.e_bfmi(energy.cumsum(axis=1)) < 0.1).all())
    True
    """
    values = _validated(energy, ("chain", "draw"))
    if values.shape[-1] < 2:
        return np.full(len(values), np.nan)
    with np.errstate(all="ignore"):
        change = np.square(np.diff(values)).mean(axis=-1)
        return np.asarray(change / values.var(axis=-1, ddof=1))


def _validated(draws: ArrayLike, dims: tuple[str, ...]) -> FloatArray:
    """Return draws as an array of floats with the given dimensions, or raise DataError."""
    array = np.asarray(draws, dtype=np.float64)
    if array.ndim != len(dims) or 0 in array.shape[:2]:
        raise DataError(
            f"draws have shape {array.shape}, but must be shaped ({', '.join(dims)}) "
            "with at least one chain and one draw"
        )
    return array


def _checked(prob: float) -> float:
    """Return a probability, or raise ConfigError."""
    if not 0 <= prob <= 1:
        raise ConfigError(f"prob is {prob!r}, but a probability must be between 0 and 1")
    return float(prob)


def _quantile(prob: float) -> Callable[[Block], FloatArray]:
    probability = _checked(prob)
    return lambda block: block.quantile(probability)


def _of_each(draws: ArrayLike, statistic: Callable[[Block], FloatArray]) -> FloatArray:
    """Return one statistic for every element."""
    return _evaluate(draws, {"": statistic})[""]


def _evaluate(
    draws: ArrayLike, wanted: Mapping[str, Callable[[Block], FloatArray]]
) -> dict[str, FloatArray]:
    """Return several statistics for every element, block by block."""
    array = _validated(draws, ("chain", "draw", "element"))
    num_chains, num_draws, num_elements = array.shape
    step = max(1, _BLOCK_BYTES // (8 * num_chains * num_draws))
    found = {name: np.empty(num_elements) for name in wanted}
    # Infinite and constant draws lead to infinite or missing values.
    with np.errstate(all="ignore"):
        for begin in range(0, num_elements, step):
            place = slice(begin, begin + step)
            block = Block(np.ascontiguousarray(array[:, :, place].transpose(2, 0, 1)))
            has_nan = np.isnan(block.pooled).any(axis=-1)
            for name, statistic in wanted.items():
                found[name][place] = np.where(has_nan, np.nan, statistic(block))
    return found


class Block:
    """The draws of some elements, shape (element, chain, draw), and their statistics."""

    def __init__(self, draws: FloatArray) -> None:
        self.draws = draws

    @cached_property
    def pooled(self) -> FloatArray:
        """The draws, shape (element, chain × draw)."""
        return self.draws.reshape(len(self.draws), -1)

    @cached_property
    def ascending(self) -> FloatArray:
        """The pooled draws, sorted."""
        odd = self.draws.shape[-1] % 2  # then the halves exclude the middle draw
        if odd:
            return np.sort(self.pooled, axis=-1)
        return self.sorted_halves[0]

    @cached_property
    def squared_deviations(self) -> FloatArray:
        """The squared deviations of the pooled draws from their mean."""
        squares: FloatArray = np.square(self.pooled - self.pooled.mean(axis=-1, keepdims=True))
        return squares

    @cached_property
    def sd(self) -> FloatArray:
        """The standard deviation of the pooled draws, with divisor S - 1."""
        squares = self.squared_deviations
        value: FloatArray = np.sqrt(squares.sum(axis=-1) / (np.float64(squares.shape[-1]) - 1))
        return value

    @cached_property
    def halves(self) -> FloatArray:
        """The split chains, shape (element, 2 × chain, draw // 2)."""
        return split(self.draws)

    @cached_property
    def sorted_halves(self) -> tuple[FloatArray, IntArray]:
        """The sorted draws of the split chains, and their positions."""
        return sort_with_order(self.halves)

    @cached_property
    def scores(self) -> FloatArray:
        """The normal scores of the split chains."""
        return normal_scores(*self.sorted_halves, self.halves.shape)

    @cached_property
    def mean_size(self) -> FloatArray:
        """The ESS of the draws."""
        return effective_size(self.halves)

    def quantile(self, prob: float) -> FloatArray:
        """Return a quantile, which equals :func:`numpy.quantile` to the last bit [5]_."""
        last = self.ascending.shape[-1] - 1
        position = last * prob
        lower = int(position)
        weight = position - lower
        below, above = self.ascending[:, lower], self.ascending[:, min(lower + 1, last)]
        step = above - below
        # Interpolate from the nearer end, so that the result is between the two.
        if weight < 0.5:
            value = below + step * weight
        else:
            value = above - step * (1 - weight)
        return np.asarray(value)

    def r_hat(self) -> FloatArray:
        """Return the larger of bulk and folded R-hat, [1]_ section 4.2.

        It is NaN for a single chain, or with fewer than four draws per chain.
        """
        if self.draws.shape[-2] < 2 or self.draws.shape[-1] < 4:
            return np.full(len(self.draws), np.nan)
        ascending, half = self.sorted_halves[0], self.halves[0].size // 2
        median = (ascending[:, half - 1] + ascending[:, half]) / 2
        distance = np.abs(self.halves - median[:, None, None])
        folded = _r_hat(normal_scores(*sort_with_order(distance), distance.shape))
        bulk = _r_hat(self.scores)
        # If the draws take two values equally often, both are equally far from the median, and the
        # folded R-hat is undefined.
        return np.where(folded > bulk, folded, bulk)

    def ess_bulk(self) -> FloatArray:
        """Return the ESS of the normal scores, [1]_ section 4.1."""
        if self.draws.shape[-1] < 2:
            return np.full(len(self.draws), np.nan)
        return effective_size(self.scores)

    def ess_mean(self) -> FloatArray:
        """Return the ESS of the draws."""
        return self.mean_size

    def ess_quantile(self, prob: float) -> FloatArray:
        """Return the ESS of the indicator of draws that are at most a quantile, [1]_ eq. 16.

        The quantile is interpolated as in ArviZ. Rounding decides whether draws that are equal to
        the quantile are in the tail, so the effective sample size depends on rounding if there are
        ties.
        """
        num_draws = self.ascending.shape[-1]
        if num_draws < 2:
            return np.full(len(self.draws), np.nan)
        position = num_draws * prob + (1 - prob)
        rank = int(min(max(position, 1), num_draws - 1))
        weight = min(max(position - rank, 0), 1)
        below, above = self.ascending[:, rank - 1], self.ascending[:, rank]
        limit = (1 - weight) * below + weight * above
        return effective_size((self.halves <= limit[:, None, None]).astype(np.float64))

    def ess_tail(self) -> FloatArray:
        """Return the smaller of the ESS of the 5% and 95% quantiles, [1]_ section 4.3."""
        low, high = _TAILS
        return np.minimum(self.ess_quantile(low), self.ess_quantile(high))

    def mcse_mean(self) -> FloatArray:
        """Return sd / sqrt(ESS), [1]_ eq. 5."""
        return np.asarray(self.sd / np.sqrt(self.mean_size))

    def mcse_sd(self) -> FloatArray:
        """Return sqrt(Var(s²) / s²) / 2, the error of s by the delta method; s² has divisor S."""
        squares = self.squared_deviations
        variance = squares.mean(axis=-1)
        size = effective_size(split(squares.reshape(self.draws.shape)))
        error = ((squares**2).mean(axis=-1) - variance**2) / size
        return np.asarray(np.sqrt(error / variance / 4))

    def mcse_quantile(self, prob: float) -> FloatArray:
        """Return half the distance between two order statistics, [1]_ section 4.4 and eq. 20."""
        from scipy.special import betaincinv  # its import takes longer than most summaries

        ess = self.ess_quantile(prob)
        last = self.ascending.shape[-1] - 1
        below, above = (
            betaincinv(ess * prob + 1, ess * (1 - prob) + 1, p) * (last + 1) - 1 for p in _ONE_ERROR
        )
        rows = np.arange(len(ess))
        lower = self.ascending[rows, np.floor(np.fmax(below, 0)).astype(int)]
        upper = self.ascending[rows, np.ceil(np.fmin(above, last)).astype(int)]
        return np.where(np.isnan(ess), np.nan, (upper - lower) / 2)


def split(chains: FloatArray) -> FloatArray:
    """Return the halves of chains, shape (element, chain, draw), leaving out a middle draw."""
    num_draws = chains.shape[-1]
    half = num_draws // 2
    return np.concatenate([chains[..., :half], chains[..., num_draws - half :]], axis=-2)


def _r_hat(chains: FloatArray) -> FloatArray:
    """Return sqrt(var⁺ / W), [1]_ eqs. 1 to 4, for chains of shape (element, chain, draw)."""
    num_draws = chains.shape[-1]
    between = num_draws * chains.mean(axis=-1).var(axis=-1, ddof=1)
    within = chains.var(axis=-1, ddof=1).mean(axis=-1)
    value: FloatArray = np.sqrt((between / within + num_draws - 1) / num_draws)
    return value


def sort_with_order(chains: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the sorted draws of each element, and their positions in the flattened array."""
    values = chains.reshape(len(chains), chains[:1].size)
    order = np.argsort(values, axis=-1) + values.shape[-1] * np.arange(len(values))[:, None]
    return values.ravel()[order], order


def normal_scores(ascending: FloatArray, order: IntArray, shape: tuple[int, ...]) -> FloatArray:
    """Return the normal scores of sorted draws, moved to the draws' original positions and shape.

    A score is Φ⁻¹((rank - 3/8) / (S + 1/4)) for S draws of an element ([1]_, eq. 14; [4]_). Tied
    draws share their mean rank. The scores of an element with a missing draw are NaN.
    """
    num_draws = ascending.shape[-1]
    table = score_table(num_draws)
    scores = np.broadcast_to(table[::2], ascending.shape)
    follows = np.zeros((len(ascending), num_draws + 1), dtype=bool)
    np.equal(ascending[:, 1:], ascending[:, :-1], out=follows[:, 1:-1])
    if follows.any():
        places = np.arange(num_draws)
        first = np.maximum.accumulate(np.where(follows[:, :-1], 0, places), axis=-1)
        until = np.where(follows[:, 1:], num_draws - 1, places)
        last = np.minimum.accumulate(until[:, ::-1], axis=-1)[:, ::-1]
        # Counting from 0, twice the mean rank of a run of ties is the sum of its first and last
        # rank.
        scores = table[first + last]
    placed = np.empty(ascending.size)
    placed[order] = scores
    placed = placed.reshape(shape)
    placed[np.isnan(ascending[:, -1:]).any(axis=-1)] = np.nan  # missing draws are sorted last
    return placed


@lru_cache(maxsize=4)
def score_table(num_draws: int) -> FloatArray:
    """Return the scores of the ranks 1, 1.5, 2, … up to the number of draws."""
    probs = (np.arange(2, num_draws + 2) / 2 - 3 / 8) / (num_draws + 1 / 4)
    # NormalDist is used because importing scipy.special takes longer than most summaries.
    lower = np.array([NormalDist().inv_cdf(p) for p in probs.tolist()])
    table = np.concatenate([lower, -lower[-2::-1]])
    table.flags.writeable = False
    return table


def effective_size(chains: FloatArray) -> FloatArray:
    """Return the effective sample size for the mean of each element.

    Parameters
    ----------
    chains : array, shape (element, chain, draw)
        Two or more split chains.

    Returns
    -------
    array, shape (element,)
        The effective sample size. It is the number of draws if they never vary, and NaN if a draw
        is infinite or there are fewer than two draws.
    """
    num_draws = chains.shape[-1]
    if num_draws < 2:
        return np.full(len(chains), np.nan)
    size = chains.shape[-2] * num_draws
    # Most sums end within a few lags, and fewer lags need a shorter transform.
    tau, ended = _autocorrelation_time(chains, min(num_draws, max(32, num_draws // 8)))
    if not ended.all():
        tau[~ended] = _autocorrelation_time(chains[~ended], num_draws)[0]
    # The bound on the ESS of antithetic chains, S log10(S): [1]_ section 3.2.
    tau = np.maximum(tau, 1 / np.log10(size))
    ranges = chains.max(axis=(-2, -1)) - chains.min(axis=(-2, -1))
    return np.where(ranges < _RESOLUTION, np.float64(size), size / tau)


def _autocorrelation_time(chains: FloatArray, num_lags: int) -> tuple[FloatArray, BoolArray]:
    """Return τ for each element, and whether its sum ends within `num_lags` lags."""
    num_draws = chains.shape[-1]
    covariance = _autocovariance(chains, num_lags)
    within = covariance[:, :1] * num_draws / (num_draws - 1)
    between = chains.mean(axis=-1).var(axis=-1, ddof=1)[:, None]
    rho = 1 - (within - covariance) / (within * (num_draws - 1) / num_draws + between)
    rho[:, 0] = 1
    return _geyer(rho, num_draws)


def _autocovariance(chains: FloatArray, num_lags: int) -> FloatArray:
    """Return the mean over chains of the autocovariance at each lag, shape (element, lag).

    The inverse transform is linear, so it is applied once, to the mean of the chains' spectra.
    """
    num_chains, num_draws = chains.shape[-2:]
    length = fast_length(num_draws + num_lags)
    centred = chains - chains.mean(axis=-1, keepdims=True)
    parts = np.fft.rfft(centred, n=length).view(np.float64)
    # Sum the squares of the alternating real and imaginary parts over chains.
    squares = np.einsum("ecf,ecf->ef", parts, parts)
    power = squares[:, ::2] + squares[:, 1::2]
    sums = np.fft.irfft(power, n=length)[:, :num_lags]
    return np.asarray(sums / (num_chains * num_draws))


def _geyer(rho: FloatArray, num_draws: int) -> tuple[FloatArray, BoolArray]:
    """Return τ for each element by Geyer's sequences, and whether its sum has ended.

    Of the last pair, only the even lag is added, and only if it is positive or the pair's sum is
    not negative. This is the mean of the sums that end before and after that lag ([1]_, section
    3.2).
    """
    # Like Stan and ArviZ, stop before the last lags.
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


def fast_length(least: int) -> int:
    """Return the smallest power of two that is at least `least`, or 3/4 of it if that suffices.

    SciPy's ``next_fast_len`` finds better sizes, but importing it takes longer than they save.
    """
    power = 1 << max(4, (least - 1).bit_length())
    if power * 3 // 4 >= least:
        return power * 3 // 4
    return power
