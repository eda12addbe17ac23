"""What is kept from each simulated fit: the ranks of the true values, and how well the fit went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyflowers.batches.keep import function_of, ranks
from pyflowers.convergence import ess_bulk
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import stacked
from pyflowers.programs import Capability

LOG_LIK = "log_lik"
"""The log likelihood of all observations together."""


def of_fit(
    fit: Fit, true: Mapping[str, Any], thin: int, functions: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a row for each quantity.

    Parameters
    ----------
    fit : Fit
        The fit of simulated data.
    true : mapping of str to array
        The parameters that the data were simulated with.
    thin : int
        Take each `thin`-th draw of a chain.
    functions : sequence of str
        More test quantities, each ``module:function``: (draws, data) to an array (chain, draw).

    Returns
    -------
    mapping of str to array
        ``parameter``, ``true``, ``rank``, ``num_draws``, posterior ``mean`` and ``sd``, and the
        same for all rows: the smallest effective sample size and the number of divergences.

    References
    ----------
    .. [1] Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2023),
       Simulation-based calibration checking for Bayesian computation: the choice of test
       quantities shapes sensitivity, Bayesian Analysis, for the likelihood as a test quantity.
    """
    found = ranks(fit, true, thin)
    draws = stacked(fit.posterior[list(true)])
    columns: dict[str, list[Any]] = {
        "parameter": list(found["parameter"]),
        "true": list(found["true"]),
        "rank": list(found["rank"]),
        "mean": list(draws.mean((0, 1))),
        "sd": list(draws.std((0, 1), ddof=1)),
    }
    rng = np.random.default_rng([fit.options.seed, 4])
    for name, values, truth in _test_quantities(fit, true, functions):
        kept = values[:, ::thin].ravel()
        below, ties = int((kept < truth).sum()), int((kept == truth).sum())
        columns["parameter"].append(name)
        columns["true"].append(truth)
        columns["rank"].append(below + int(rng.integers(0, ties, endpoint=True)))
        columns["mean"].append(float(values.mean()))
        columns["sd"].append(float(values.std(ddof=1)))
    return {
        **{name: np.asarray(column) for name, column in columns.items()},
        "num_draws": found["num_draws"],
        "ess": float(np.min(ess_bulk(draws))),
        "divergent": int(fit.stats["divergent__"].sum()) if "divergent__" in fit.stats else 0,
    }


def _test_quantities(fit: Fit, true: Mapping[str, Any], functions: Sequence[str]) -> Any:
    """Yield name, draws and true value of each quantity that is computed from the parameters."""
    at_truth = {name: np.asarray(value, dtype=float)[None, None] for name, value in true.items()}
    # Stan's own log_lik cannot be evaluated at the true parameters.
    if fit.program.can(Capability.LOG_LIK) and fit.program.python.pointwise is not None:
        total = fit.log_likelihood().sum(-1)
        truth = fit.program.log_lik(at_truth, fit.data).sum(-1)
        yield LOG_LIK, total, float(truth[0, 0])
    for reference in functions:
        function = function_of(reference)
        values = np.asarray(function(fit.draws, fit.data), dtype=float)
        yield reference.rpartition(":")[2], values, float(function(at_truth, fit.data)[0, 0])
