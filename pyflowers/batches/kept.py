"""What can be kept from a fit by a short name: its summary, its draws, ranks of true values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, stacked
from pyflowers.programs.declaration import free_name


def summary(
    fit: Fit, names: Sequence[str] | None = None, interval: float | None = None
) -> dict[str, NDArray[Any]]:
    """Return the columns of the summary table, and ``parameter`` before them.

    `names` and `interval` are as in :meth:`pyflowers.Fit.summary`.
    """
    table = fit.summary(names, interval=interval)
    columns = {str(name): table[name].to_numpy(float) for name in table}
    return {"parameter": np.array(table.index, dtype=object), **columns}


def draws(fit: Fit, names: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Return draws, a row for each.

    Parameters
    ----------
    fit : Fit
        The fit.
    names : sequence of str
        Variables of the posterior; all by default.

    Returns
    -------
    mapping of str to array, shape (chains × draws,)
        ``chain`` and ``draw``, from 0, and each element such as ``mu_plant[2]``; a quantity that
        is called ``chain`` itself is ``chain_``.

    Raises
    ------
    ConfigError
        For a name that the posterior does not have.
    """
    chosen = fit.posterior[_known(fit, names)]
    chain, draw = np.indices((fit.num_chains, fit.num_draws))
    found: dict[str, NDArray[Any]] = {"chain": chain.ravel(), "draw": draw.ravel()}
    for quantity in chosen.values():
        values = flat(quantity).reshape(fit.num_chains * fit.num_draws, -1)
        for name, column in zip(element_names(quantity), values.T, strict=True):
            found[free_name(name, found)] = column
    return found


def ranks(fit: Fit, true: Mapping[str, Any], thin: int = 1) -> dict[str, Any]:
    """Return the rank of each true value among the draws, as simulation-based calibration needs.

    Parameters
    ----------
    fit : Fit
        The fit.
    true : mapping of str to number or array
        The true value of each variable, shaped as the variable is.
    thin : int
        Take each `thin`-th draw of a chain.

    Returns
    -------
    mapping of str to array
        ``parameter``, its ``true`` value, its ``rank`` from 0 to ``num_draws``, and ``num_draws``.
        Equal values are ranked at random, by the fit's seed.

    Raises
    ------
    ConfigError
        For a name that the posterior does not have, or values of another shape.

    References
    ----------
    .. [1] Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
       algorithms with simulation-based calibration, arXiv:1804.06788, algorithm 1.
    """
    chosen = fit.posterior[_known(fit, list(true))]
    for name, quantity in zip(true, chosen.values(), strict=True):
        if np.shape(true[name]) != quantity.values.shape[2:]:
            raise ConfigError(
                f"true value of {name}: its shape is {np.shape(true[name])} and that of {name} is "
                f"{quantity.values.shape[2:]}; give one value for each element"
            )
    truth = np.concatenate([np.ravel(np.asarray(true[name], float)) for name in true])
    sample = stacked(chosen)[:, ::thin].reshape(-1, len(truth))
    ties = np.sum(sample == truth, axis=0)
    rng = np.random.default_rng([fit.options.seed, 2])
    return {
        "parameter": element_names(chosen),
        "true": truth,
        "rank": np.sum(sample < truth, axis=0) + rng.integers(0, ties, endpoint=True),
        "num_draws": len(sample),
    }


def _known(fit: Fit, names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in fit.posterior.data_vars:
            have = ", ".join(map(str, fit.posterior))
            raise ConfigError(f"{name} is no quantity of {fit.name}; it has {have}")
    return list(names) or list(map(str, fit.posterior))
