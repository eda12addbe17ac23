"""A metric from pilot runs, which replaces Stan's warm-up where the posterior is simple enough.

A short pilot of each chain gives draws and gradients of the log density on the unconstrained scale.
The inverse metric of a parameter is the standard deviation of its draws, divided by that of its
gradients [1]_. If the posterior is Gaussian with independent parameters, this ratio is the
variance, however few draws it comes from, so the chains agree on it. Correlations, and scales that
vary within the posterior, make the chains disagree. If they agree, the metric is held fixed, and
only the step size is tuned. If not, the pilots are discarded.

References
----------
.. [1] Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by minimizing
   Fisher divergence, arXiv:2603.18845, on the diagonal estimator.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyflowers.engines.bridge import Density

STAGES = ((20, 6), (15, 10))
"""Warm-up iterations and draws of each stage of a pilot; the second uses the first one's metric."""

TUNING = 60
"""Iterations that tune the step size; Stan does not adapt the metric in fewer than 150
iterations."""

MOST_SPREAD = 0.4
"""The largest standard deviation, among chains, of the logarithm of a parameter's inverse metric
at which the metric is held.

The standard deviation was at most 0.27 in 31 pilots of Poisson models with 200, 1,000 and 10,000
groups, where a fixed metric gains most. It was at least 0.46 in 132 pilots of posteriors where a
fixed metric may cost effective draws (decision 18).
"""

_LARGEST_DEPTH = 6
"""The maximum tree depth of a pilot, which limits its cost where the posterior is difficult."""


def held_metric(
    model: Any, density: Density, parameters: Collection[str], **options: Any
) -> dict[str, Any] | None:
    """Run the pilots, and return the starting points of the chains and their fixed metric.

    Parameters
    ----------
    model : stanli.Model
        The model with its data.
    density : Density
        The log density of the same model.
    parameters : collection of str
        The names of the program's parameters.
    **options
        Options of ``stanli.Model.sample`` that the pilots share with the chains.

    Returns
    -------
    dict or None
        Options of ``stanli.Model.sample``; None if the chains disagree on the metric, or if it
        cannot be computed.
    """
    options["max_depth"] = min(options["max_depth"], _LARGEST_DEPTH)
    inits = options.pop("inits", None)
    metrics: NDArray[np.float64] | None = None
    for warmup, samples in STAGES:
        fit = model.sample(
            inits=inits, inv_metric=metrics, warmup=warmup, samples=samples, delta=0.8, **options
        )
        try:
            draws = unconstrained_draws(fit, density, parameters)
        except RuntimeError:  # a draw at a boundary, in floating point
            return None
        _, gradients = density.evaluate(draws.reshape(-1, draws.shape[-1]), gradient=True)
        gradients = gradients.reshape(draws.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            metrics = draws.std(axis=1) / gradients.std(axis=1)
        if not (np.isfinite(metrics) & (metrics > 0)).all():  # a chain did not move
            return None
        inits = draws[:, -1]
    if metrics is None or len(metrics) == 1:
        return None
    if np.log(metrics).std(axis=0, ddof=1).max() > MOST_SPREAD:
        return None
    return {"inits": inits, "inv_metric": metrics}


def unconstrained_draws(
    fit: Any, density: Density, parameters: Collection[str]
) -> NDArray[np.float64]:
    """Return the draws of a ``stanli.Fit`` on the unconstrained scale, shape (chain, draw, n).

    Raises
    ------
    RuntimeError
        If a draw is at a boundary.
    """
    own = [i for i, name in enumerate(csv_names(fit.names)) if variable_of(name) in parameters]
    draws = fit.draws()[:, :, own]
    found = density.unconstrain(np.ascontiguousarray(draws.reshape(-1, len(own))))
    return found.reshape(*draws.shape[:2], -1)


def csv_names(names: Iterable[str]) -> list[str]:
    """Return the interpreter's names as in Stan's CSV files: ``theta.1.2`` for ``theta[1,2]``."""
    # The interpreter renames variables that are keywords of C++, such as class.
    plain = (name.removeprefix("_stan_") for name in names)
    return [re.sub(r"\[([\d,]+)\]", lambda m: f".{m[1].replace(',', '.')}", n) for n in plain]


def variable_of(column: str) -> str:
    """Return the name of the variable to which a column belongs."""
    return re.split(r"[.:]", column, maxsplit=1)[0]
