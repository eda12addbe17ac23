"""ArviZ's answers, for any installed version: 0.23, or 1 with its new names."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from pyflowers.resources import arviz, version

IS_1 = not version("arviz").startswith("0.")


def psislw(ratios: Any, r_eff: float) -> tuple[Any, Any]:
    """Return smoothed log weights and k-hat of log ratios."""
    if not IS_1:
        weights, k_hat = arviz().psislw(ratios, reff=r_eff)
        return np.asarray(weights), k_hat
    from arviz_stats.base import array_stats

    # From ArviZ 1.0 on, psislw takes the log likelihood, which is minus the log ratios, and
    # normalises the weights before it truncates the largest.
    weights, k_hat = array_stats.psislw(-np.asarray(ratios), r_eff=r_eff)
    return np.asarray(weights) - logsumexp(weights), k_hat


def psens(idata: Any, component: str) -> Any:
    """Return the sensitivity of each quantity to the prior or the likelihood."""
    if not IS_1:
        return arviz().psens(idata, component=component)
    found = arviz().psense(idata, group=component, alphas=(1 / 1.01, 1.01))
    return found if not hasattr(found, "dataset") else found.dataset


def names_of_groups(idata: Any) -> set[str]:
    """Return the names of the groups."""
    return set(idata.children if IS_1 else idata.groups())


def add_group(idata: Any, name: str, group: Any) -> None:
    """Add a group."""
    if IS_1:
        import xarray as xr

        idata[name] = xr.DataTree(group)
    else:
        idata.add_groups({name: group})


COLUMNS = (
    {"elpd": "elpd", "se": "se", "difference": "elpd_diff", "dse": "dse"}
    if IS_1
    else {"elpd": "elpd_loo", "se": "se", "difference": "elpd_diff", "dse": "dse"}
)
"""The names of the columns of a comparison."""


def elpd_of_each(found: Any) -> Any:
    """Return the elpd of each observation."""
    return (found.elpd_i if IS_1 else found.loo_i).values.ravel()
