"""Posterior summaries: what a statistician reads first.

Mean, sd and their Monte Carlo error are left blank where the posterior does not have them; the
table then leads with the median and says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.inference_data import arviz

QUANTILES = (0.05, 0.5, 0.95)
MOMENTS = ("mean", "sd", "mcse_mean")
COLUMNS = ("mean", "sd", "median", "5%", "95%", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")
MEDIAN_FIRST = ("median", "5%", "95%", "mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")


def summarize(posterior: Any, missing_moments: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Summarise every element of every variable.

    Parameters
    ----------
    posterior : xarray.Dataset
        Draws, with dimensions chain, draw and the variable's own.
    missing_moments : mapping, optional
        For a variable without a posterior mean or variance, the reason.

    Returns
    -------
    DataFrame
        A row for each element, such as ``mu_plant[2]``. ``attrs["notes"]`` holds a sentence for
        each variable whose moments do not exist.

    Notes
    -----
    R-hat is the rank-normalised split R-hat; ``ess_bulk`` and ``ess_tail`` are those of Vehtari,
    Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16(2), eqs. 4, 10 and
    section 4.3; ``mcse_mean`` is sd / sqrt(ESS of the mean).
    """
    missing = dict(missing_moments or {})
    dims = ("chain", "draw")
    quantiles = posterior.quantile(list(QUANTILES), dims)
    columns = {
        "mean": posterior.mean(dims),
        "sd": posterior.std(dims, ddof=1),
        "median": quantiles.sel(quantile=0.5),
        "5%": quantiles.sel(quantile=0.05),
        "95%": quantiles.sel(quantile=0.95),
    }
    index = [label for name in posterior.data_vars for label, _ in elements(posterior[name])]
    statistics = {name: flatten(values) for name, values in columns.items()}
    table = pd.DataFrame({**statistics, **convergence(posterior)}, index=index)
    for name, reason in missing.items():
        rows = [label for label, _ in elements(posterior[name])]
        absent = list(MOMENTS) if "mean does not exist" in reason else ["sd", "mcse_mean"]
        table.loc[rows, absent] = np.nan
    table = table[list(MEDIAN_FIRST if missing else COLUMNS)]
    table.attrs["notes"] = [
        f"{name}: {reason}; read its median" for name, reason in missing.items()
    ]
    return table


def convergence(posterior: Any) -> dict[str, NDArray[np.float64]]:
    """Return R-hat, effective sample sizes and the Monte Carlo error of each element.

    Not a number where an element never varies.
    """
    az = arviz()
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "mcse_mean": flatten(az.mcse(posterior, method="mean")),
            "ess_bulk": flatten(az.ess(posterior, method="bulk")),
            "ess_tail": flatten(az.ess(posterior, method="tail")),
            "r_hat": flatten(az.rhat(posterior)),
        }


def elements(variable: Any) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the name of each element of a variable, such as ``mu_plant[2]``, and its position."""
    dims = [dim for dim in variable.dims if dim not in ("chain", "draw")]
    if not dims:
        yield str(variable.name), {}
        return
    labels = [[str(label) for label in variable[dim].values] for dim in dims]
    positions = itertools.product(*(range(variable.sizes[dim]) for dim in dims))
    for position in positions:
        text = ",".join(names[i] for names, i in zip(labels, position, strict=True))
        yield f"{variable.name}[{text}]", dict(zip(dims, position, strict=True))


def flatten(dataset: Any) -> NDArray[np.float64]:
    """Return the values of all variables in the order of :func:`elements`."""
    parts = [np.ravel(np.asarray(variable.values, float)) for variable in dataset.values()]
    return np.concatenate(parts) if parts else np.empty(0)


def format_number(value: float) -> str:
    """Return three significant digits, as tables print them; a missing moment is a dash."""
    if np.isnan(value):
        return "–"
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    digits = 2 - int(np.floor(np.log10(abs(value))))
    return f"{value:.3g}" if not -4 < digits <= 6 else f"{value:.{max(digits, 0)}f}"


def format_cell(column: str, value: float) -> str:
    """Return a number of the summary table as it is printed: R-hat to three decimals, whole ESS."""
    if not np.isfinite(value):
        return format_number(value)
    if column.startswith("ess"):
        return f"{value:.0f}"
    return f"{value:.3f}" if column == "r_hat" else format_number(value)
