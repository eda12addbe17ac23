"""Convergence diagnostics for all elements of a posterior at once, in NumPy."""

from pyflowers.convergence.estimates import (
    e_bfmi,
    ess_bulk,
    ess_mean,
    mcse_mean,
    mcse_quantile,
    mcse_sd,
    quantiles,
    r_hat,
    statistics,
)
from pyflowers.convergence.pareto import good_k, pareto_smooth

__all__ = [
    "e_bfmi",
    "ess_bulk",
    "ess_mean",
    "good_k",
    "mcse_mean",
    "mcse_quantile",
    "mcse_sd",
    "pareto_smooth",
    "quantiles",
    "r_hat",
    "statistics",
]
