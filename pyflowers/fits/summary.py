"""Posterior summaries: what a statistician reads first.

Mean, sd and their Monte Carlo error are left blank where the posterior does not have them; the
table then says why. The median comes first, as every posterior has one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pyflowers.convergence import statistics
from pyflowers.display import INTERVAL, interval_quantiles
from pyflowers.fits.posterior import element_names, flat, stacked, varies
from pyflowers.programs import MissingMoment

if TYPE_CHECKING:
    import xarray as xr


def summarize(
    posterior: xr.Dataset,
    missing: Sequence[MissingMoment] = (),
    streamed: pd.DataFrame | None = None,
    interval: float = INTERVAL,
) -> pd.DataFrame:
    """Summarise every element of every quantity.

    Parameters
    ----------
    posterior : Dataset
        The draws.
    missing : sequence of MissingMoment, optional
        Means and variances that the posterior does not have.
    streamed : DataFrame, optional
        Rows of quantities that were summarised as they were drawn; of these, `posterior` may have
        draws of some elements.
    interval : float
        Probability of the central interval whose ends are shown; that of `streamed`, if given.

    Returns
    -------
    DataFrame
        A row for each element, such as ``mu_plant[2]``: median, the ends of the interval, mean, sd,
        ``mcse_mean``, ``ess_bulk``, ``ess_tail`` and ``r_hat``. ``attrs["notes"]`` holds a sentence
        for each quantity whose moments do not exist, or of which some draws are not finite. What is
        the same in every draw, such as an element that a type fixes, has neither ESS nor R-hat.

    Notes
    -----
    R-hat is the rank-normalised split R-hat; ``ess_bulk`` and ``ess_tail`` are those of Vehtari,
    Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 4, 10 and
    section 4.3; ``mcse_mean`` is sd / sqrt(ESS of the mean).
    """
    quantiles = interval_quantiles(interval)
    order = [*quantiles, "mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"]
    if not posterior:
        return pd.DataFrame(columns=order)
    names = element_names(posterior)
    columns = statistics(stacked(posterior), list(quantiles.values()))
    rows_of = {str(name): element_names(quantity) for name, quantity in posterior.items()}
    if streamed is not None:
        later = list(map(str, streamed.index))
        by_quantity = itertools.groupby(later, lambda row: row.partition("[")[0])
        rows_of |= {name: list(rows) for name, rows in by_quantity}
        of_draws = ~np.isin(names, later)  # of which some are summarised with the others
        names = [*itertools.compress(names, of_draws), *later]
        columns = {
            name: np.concatenate([values[of_draws], streamed[name].to_numpy(float)])
            for name, values in columns.items()
        }
    place = {name: row for row, name in enumerate(names)}
    reported = [moment for moment in missing if moment.parameter in rows_of]
    notes = []
    for moment in reported:
        rows = rows_of[moment.parameter]
        some = moment.elements is not None and not moment.elements.all()
        if moment.elements is not None:
            rows = list(itertools.compress(rows, np.ravel(moment.elements)))
        for column in ("mean", "sd", "mcse_mean") if moment.lacks_mean else ("sd", "mcse_mean"):
            columns[column][[place[row] for row in rows]] = np.nan
        subject = _some(rows) if some else moment.parameter
        notes.append(f"{subject}: {moment.reason}; read its median")
    fixed = list[str]()
    for quantity in posterior.values():
        elements = element_names(quantity)
        fixed += itertools.compress(elements, ~varies(quantity))
        odd = np.ravel(~np.isfinite(flat(quantity)).all((0, 1)))
        if odd.any():
            found = _some(list(itertools.compress(elements, odd)))
            notes.append(f"{found}: some draws are missing or infinite")
    fixed = [name for name in fixed if name in place]
    if 0 < len(fixed) < len(names):  # where nothing varies it is the sampler that is stuck
        columns["ess_bulk"][[place[name] for name in fixed]] = np.nan
        columns["ess_tail"][[place[name] for name in fixed]] = np.nan
        notes.append(f"{_some(fixed)}: the same in every draw, so without ESS and R-hat")
    # At once: a DataFrame that is changed step by step takes longer than the statistics.
    index = pd.Index(names, name="parameter")
    table = pd.DataFrame({column: columns[column] for column in order}, index=index)
    table.attrs["notes"] = notes
    return table


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
