"""Mean, sd and quantiles of each parameter, whatever the form in which a method gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.convergence import mcse_sd
from pyflowers.display import INTERVAL, interval_quantiles
from pyflowers.fits.posterior import element_names, stacked
from pyflowers.programs import MissingMoment

if TYPE_CHECKING:
    import xarray as xr

    from pyflowers.exact import ExactPosterior
    from pyflowers.vb import VBResult


def of_draws(
    posterior: xr.Dataset, missing: Sequence[MissingMoment] = (), interval: float = INTERVAL
) -> pd.DataFrame:
    """Summarise draws: median, the ends of an interval, mean, sd, and the error of sd.

    `missing` are given for draws of the posterior itself, whose mean or sd may not exist: those are
    left out. An approximation's own always exist.
    """
    draws = stacked(posterior)
    # An approximation's draws may be so far away that their squares are beyond a float: sd is ∞.
    with np.errstate(over="ignore", invalid="ignore"):
        values = [
            *np.quantile(draws, list(interval_quantiles(interval).values()), axis=(0, 1)),
            draws.mean((0, 1)),
            draws.std((0, 1), ddof=1),
            mcse_sd(draws),
        ]
    table = pd.DataFrame(np.transpose(values), element_names(posterior), _columns(interval))
    for moment in missing:
        if moment.parameter in posterior:
            names = np.asarray(element_names(posterior[moment.parameter]), dtype=object)
            rows = names if moment.elements is None else names[np.ravel(moment.elements)]
            lost = ["sd", "sd_mcse", *(["mean"] if moment.lacks_mean else [])]
            table.loc[list(rows), lost] = np.nan
    return table


def element_of(draws: Any, position: tuple[int, ...]) -> NDArray[np.float64]:
    """Return all draws of one element of a parameter, its chains in a row."""
    return np.asarray(draws[(slice(None), slice(None), *position)], dtype=np.float64).ravel()


def of_functions(
    source: ExactPosterior | VBResult, posterior: xr.Dataset, interval: float = INTERVAL
) -> pd.DataFrame:
    """Tabulate an exact posterior or the factors of an approximation.

    Parameters
    ----------
    source : ExactPosterior or VBResult
        Has mean, sd and quantiles of each parameter.
    posterior : Dataset
        Gives the parameters and the names of their elements.
    interval : float
        Probability of the central interval.
    """
    levels = list(interval_quantiles(interval).values())
    rows: dict[str, list[float]] = {}
    for name, quantity in posterior.items():
        elements = element_names(quantity)
        num = len(elements)
        columns = [
            *np.reshape(np.asarray(source.quantile(str(name), levels)), (len(levels), num)),
            np.ravel(source.mean(str(name))),
            np.ravel(source.sd(str(name))),
        ]
        each = np.transpose([np.broadcast_to(column, num) for column in columns])
        rows |= {e: [*v, 0.0] for e, v in zip(elements, each.tolist(), strict=True)}
    return pd.DataFrame(list(rows.values()), list(rows), _columns(interval), dtype=float)


def _columns(interval: float) -> list[str]:
    return [*interval_quantiles(interval), "mean", "sd", "sd_mcse"]
