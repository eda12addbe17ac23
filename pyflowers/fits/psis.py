"""Weights that turn the draws of a fit into those of a fit without one observation.

The weight of a draw is 1 / p(y[n] | draw), Pareto-smoothed. The tail that is smoothed is longer
where draws depend on each other.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72);
Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC, Statistics and Computing 27(5), section 2.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyflowers import convergence
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import stacked

FloatArray = NDArray[np.float64]


def held_out_weights(fit: Fit, log_lik: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights without each observation.

    Parameters
    ----------
    fit : Fit
        Whose draws are weighted.
    log_lik : array, shape (chain, draw, n)
        log p(y[n] | draw) of some of its observations.

    Returns
    -------
    log_weights : array, shape (n, chain × draw)
        The weights of each observation sum to 1.
    k_hat : array, shape (n,)
        Pareto shape of each observation's weights.
    """
    by_row = np.moveaxis(log_lik, -1, 0).reshape(log_lik.shape[-1], -1)
    return convergence.pareto_smooth(-by_row, r_eff=_relative_efficiency(fit))


def _relative_efficiency(fit: Fit) -> float:
    """Return ESS over draws, averaged over the posterior's elements, as ArviZ's PSIS-LOO has it."""
    if fit.num_chains == 1:
        return 1.0
    ess = convergence.ess_mean(stacked(fit.posterior))
    return float(np.nanmean(ess) / (fit.num_chains * fit.num_draws)) if ess.size else 1.0
