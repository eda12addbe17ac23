"""Posterior summaries: what a statistician reads first.

Mean, sd and their Monte Carlo error are left blank where the posterior does not have them; the
table then leads with the median and says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import statistics
from pyflowers.fits.posterior import Posterior, element_names, stacked
from pyflowers.programs import MissingMoment

QUANTILES = (0.05, 0.5, 0.95)
COLUMNS = ("mean", "sd", "median", "5%", "95%", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")
MEDIAN_FIRST = ("median", "5%", "95%", "mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")


def summarize(
    posterior: Posterior,
    missing: Sequence[MissingMoment] = (),
    streamed: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Summarise every element of every quantity.

    Parameters
    ----------
    posterior : mapping of str to Quantity
        The draws.
    missing : sequence of MissingMoment, optional
        Means and variances that the posterior does not have.
    streamed : DataFrame, optional
        Rows of quantities that were summarised as they were drawn; of these, `posterior` may have
        draws of some elements.

    Returns
    -------
    DataFrame
        A row for each element, such as ``mu_plant[2]``. ``attrs["notes"]`` holds a sentence for
        each quantity whose moments do not exist, or of which some draws are not finite.

    Notes
    -----
    R-hat is the rank-normalised split R-hat; ``ess_bulk`` and ``ess_tail`` are those of Vehtari,
    Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 4, 10 and
    section 4.3; ``mcse_mean`` is sd / sqrt(ESS of the mean).
    """
    if not posterior:
        return pd.DataFrame(columns=list(COLUMNS))
    names = element_names(posterior)
    columns = statistics(stacked(posterior))
    rows_of = {name: list(quantity.elements) for name, quantity in posterior.items()}
    if streamed is not None:
        rows_of |= _rows_by_quantity(streamed)
        names, columns = _with_streamed(names, columns, streamed)
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
    for quantity in posterior.values():
        odd = np.ravel(~np.isfinite(quantity.flat).all((0, 1)))
        if odd.any():
            found = _some(list(itertools.compress(quantity.elements, odd)))
            notes.append(f"{found}: some draws are missing or infinite")
    order = MEDIAN_FIRST if reported else COLUMNS
    # At once: a DataFrame that is changed step by step takes longer than the statistics.
    table = pd.DataFrame({column: columns[column] for column in order}, index=names)
    table.attrs["notes"] = notes
    return table


def _with_streamed(
    names: list[str], columns: Mapping[str, NDArray[np.float64]], streamed: pd.DataFrame
) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
    """Append the rows of what was summarised as it was drawn, in place of rows of some draws."""
    later = list(map(str, streamed.index))
    of_draws = ~np.isin(names, later)
    return [*itertools.compress(names, of_draws), *later], {
        name: np.concatenate([values[of_draws], streamed[name].to_numpy(float)])
        for name, values in columns.items()
    }


def _rows_by_quantity(table: pd.DataFrame) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for name in map(str, table.index):
        rows.setdefault(name.partition("[")[0], []).append(name)
    return rows


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def format_number(value: float) -> str:
    """Return three significant digits, as tables print them; a missing moment is a dash."""
    if np.isnan(value):
        return "–"
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    digits = 2 - int(np.floor(np.log10(abs(value))))
    return f"{value:.3g}" if not -4 < digits <= 6 else f"{value:.{max(digits, 0)}f}"


def format_elpd(value: float) -> str:
    """Return an elpd or what is compared with one: models are told apart by a few units."""
    return f"{value:.1f}" if 100 <= abs(value) < np.inf else format_number(value)


def format_cell(column: str, value: float) -> str:
    """Return a number of the summary table as it is printed: R-hat to three decimals, whole ESS."""
    if not np.isfinite(value):
        return format_number(value)
    if column.startswith("ess"):
        return f"{value:.0f}"
    return f"{value:.3f}" if column == "r_hat" else format_number(value)
