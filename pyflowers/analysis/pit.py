"""Probability integral transforms (PITs) under leave-one-out prediction.

PIT[n] = Pr(y_new[n] < y[n] | y without y[n]) + v Pr(y_new[n] = y[n] | y without y[n]), with v
uniform on (0, 1), so that PITs of counts are continuous as well [1]_. Where the model predicts well
they are uniform. The predictive distribution without y[n] is that of the replicated values,
weighted by Pareto-smoothed importance weights 1 / p(y[n] | draw) [2]_.

The band of :mod:`.ecdf` takes PITs as independent. Those of leave-one-out share the other
observations; where these are many for each parameter that hardly matters, and where they are few
the PITs are more even than independent ones, so that the check is lenient.

References
----------
.. [1] Czado, Gneiting and Held (2009), Predictive model assessment for count data, Biometrics
   65(4), section 2.1, and Smith (1985), Diagnostic checks of non-standard time series models,
   Journal of Forecasting 4(3), for the randomised PIT.
.. [2] Gabry, Simpson, Vehtari, Betancourt and Gelman (2019), Visualization in Bayesian workflow,
   JRSS A 182(2), section 5; Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25(72).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyflowers.analysis import ecdf
from pyflowers.convergence import good_k
from pyflowers.fits.fit import Fit
from pyflowers.fits.psis import held_out_weights
from pyflowers.programs import Capability

MOST_VALUES = 4_000_000
"""Pointwise likelihoods in memory at once; of more observations, PITs are taken of a sample."""

BAND_PROB = 0.99
"""Probability of the simultaneous band that PITs must not leave."""


@dataclass(frozen=True, eq=False)
class LooPit:
    """PITs of observations under leave-one-out prediction.

    Attributes
    ----------
    values : array, shape (n,)
        The PITs.
    rows : array of int, shape (n,)
        Positions of their observations: all, or an even sample of many.
    num_obs : int
        Observations in all.
    num_draws : int
        S, the draws of which each is made, and with it the PITs' resolution.
    k_hat : array, shape (n,)
        Pareto shape of each observation's importance weights.
    good_k : float
        The k-hat up to which a PIT can be trusted.
    """

    values: NDArray[np.float64]
    rows: NDArray[np.int64]
    num_obs: int
    num_draws: int
    k_hat: NDArray[np.float64]
    good_k: float

    @cached_property
    def band(self) -> ecdf.Band:
        """The simultaneous band of uniform values."""
        return ecdf.uniform_band(self.values.size, num_draws=self.num_draws, prob=BAND_PROB)

    @cached_property
    def p_value(self) -> float:
        """The probability that uniform values stray as far, see :func:`.ecdf.p_value`."""
        return ecdf.p_value(self.values, num_draws=self.num_draws)

    @property
    def num_bad(self) -> int:
        """PITs whose k-hat is too large."""
        return int((self.k_hat > self.good_k).sum())


def loo_pit(fit: Fit, rng: np.random.Generator) -> LooPit:
    """Return the PITs of a fit's observations under leave-one-out prediction.

    Parameters
    ----------
    fit : Fit
        Of a program with ``log_lik``, ``y_rep`` and observed data.
    rng : Generator
        Draws v, and where the program is written in NumPy the replicated values.

    Raises
    ------
    ConfigError
        If the program lacks one of these.
    """
    for capability in (Capability.LOG_LIK, Capability.Y_REP, Capability.OBSERVED):
        fit.program.require(capability)
    num_draws = fit.num_chains * fit.num_draws
    rows = _sample(fit.data.num_obs, max(1, MOST_VALUES // num_draws))
    log_lik = fit.program.log_lik(fit.draws, fit.data, rows)
    y_rep = fit.program.y_rep(fit.draws, fit.data, rng, rows)
    by_row = (rows.size, num_draws)
    log_weights, k_hat = held_out_weights(fit, log_lik)
    weights = np.exp(log_weights)
    replicated, y = np.moveaxis(y_rep, -1, 0).reshape(by_row), fit.data.y[rows, None]
    below = np.sum(weights, axis=1, where=replicated < y)
    equal = np.sum(weights, axis=1, where=replicated == y)
    values = np.clip(below + rng.random(rows.size) * equal, 0, 1)
    return LooPit(values, rows, fit.data.num_obs, num_draws, k_hat, good_k(num_draws))


def _sample(num_obs: int, most: int) -> NDArray[np.int64]:
    """Return all positions, or `most` that are spread evenly."""
    if num_obs <= most:
        return np.arange(num_obs)
    return np.linspace(0, num_obs - 1, most).astype(np.int64)
