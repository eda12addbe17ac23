"""Pooled results of the fits to several completed tables: the chains of all fits are combined.

The draws of a quantity that depends on the table, such as an average over its rows, are computed
from each fit and its own table. Chains of one table must agree with each other, but chains of
different tables need not, so Monte Carlo errors are computed for each table.

References
----------
Gelman, Carlin, Stern, Dunson, Vehtari and Rubin (2013), Bayesian Data Analysis, 3rd edition,
section 18.2, for the variances within and between imputations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines import LARGEST_SEED
from pyflowers.fits.fit import Fit
from pyflowers.fits.imputed import PooledFit, share_between

if TYPE_CHECKING:
    import xarray as xr

Columns = dict[str, NDArray[np.float64]]
Question = TypeVar("Question", bound=Callable[..., Any])


def of_each_table(pool: Callable[[PooledFit, list[Any]], Any]) -> Callable[[Question], Question]:
    """Return a decorator that makes a function of a fit accept pooled fits, too.

    Parameters
    ----------
    pool : callable
        Function of the pooled fits and the list of their results that returns one result.
    """

    def extended(question: Question) -> Question:
        @wraps(question)
        def asked(fit: Fit | PooledFit, *args: Any, **how: Any) -> Any:
            if not isinstance(fit, PooledFit):
                return question(fit, *args, **how)
            answers = list[Any]()
            for number, each in enumerate(fit.fits):
                own, seed = dict(how), how.get("seed")
                if isinstance(seed, Integral):  # each table has its own random numbers
                    own["seed"] = (int(seed) + number) % (LARGEST_SEED + 1)
                answers.append(question(each, *args, **own))
            return pool(fit, answers)

        return cast(Question, asked)

    return extended


def as_chains(draws: Sequence[xr.DataArray]) -> xr.DataArray:
    """Return the draws from several tables with all chains combined, shape (chain, draw, …)."""
    import xarray as xr  # slow to import

    return xr.concat([its.drop_vars("chain", errors="ignore") for its in draws], dim="chain")


def pooled_columns(
    draws: NDArray[np.float64], num_tables: int, describe: Callable[[NDArray[np.float64]], Columns]
) -> Columns:
    """Return the columns of a summary that depend on the table to which each draw belongs.

    Parameters
    ----------
    draws : array, shape (chain, draw, value)
        The draws; each table has the same number of successive chains.
    num_tables : int
        The number of tables.
    describe : callable
        Function of the draws of one table that returns the columns of its summary.

    Returns
    -------
    dict of str to array
        The Monte Carlo errors, for the average of the tables' values; the effective sample sizes,
        which are sums over the tables; and ``between``, the share of the variance that lies between
        the tables.
    """
    tables = np.split(draws, num_tables)
    columns = [describe(its) for its in tables]
    found: dict[str, Any] = {}
    for name in columns[0]:
        values = np.array([its[name] for its in columns])
        if name.startswith("mcse"):
            found[name] = np.sqrt(np.sum(values**2, axis=0)) / num_tables
        elif name.startswith("ess"):
            found[name] = values.sum(axis=0)
    means = np.array([its.mean(axis=(0, 1)) for its in tables])
    variances = np.array([its.var(axis=(0, 1), ddof=1) for its in tables])
    found["between"] = share_between(means, variances)
    return found
