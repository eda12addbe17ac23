"""Statistics of data that a prior implies: one value for each draw, and quantiles over draws.

Such data may span hundreds of orders of magnitude. Quantiles are therefore draws and not averages
of draws, and what no floating-point number holds is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.display import interval_quantiles
from pyflowers.errors import ConfigError
from pyflowers.programs import Data

FloatArray = NDArray[np.float64]

Statistic = Callable[[FloatArray], FloatArray]
"""Takes data, shape (draw, N), to a value for each draw, shape (draw,)."""

WIDE = 0.98
"""Probability of the wider interval: how far the prior goes at all."""


def of_each_draw(
    y_rep: FloatArray, data: Data, counts: bool, more: Mapping[str, Statistic]
) -> dict[str, FloatArray]:
    """Return statistics of the implied data by name, each shaped (chain, draw).

    Parameters
    ----------
    y_rep : array, shape (chain, draw, N)
        Implied data.
    data : Data
        The design, for statistics of groups.
    counts : bool
        Whether they are counts, whose zeros matter.
    more : mapping of str to callable
        Statistics that the user names.

    Raises
    ------
    ConfigError
        If one of the user's returns another shape.
    """
    shape = y_rep.shape[:2]
    rows = y_rep.reshape(-1, y_rep.shape[2])
    found: dict[str, FloatArray] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for name, statistic in {**_usual(data, counts), **more}.items():
            values = np.asarray(statistic(rows), dtype=np.float64)
            if values.shape != (len(rows),):
                raise ConfigError(
                    f"statistic {name}: it must return a number for each of {len(rows)} draws, "
                    f"shape ({len(rows)},), and returned shape {values.shape}"
                )
            # ∞ − ∞ is what an overflow leaves of a spread.
            found[name] = np.where(np.isnan(values), np.inf, values).reshape(shape)
    return found


def _usual(data: Data, counts: bool) -> dict[str, Statistic]:
    usual: dict[str, Statistic] = {
        "mean": lambda y: y.mean(axis=1),
        "sd": lambda y: y.std(axis=1, ddof=1) if y.shape[1] > 1 else np.zeros(len(y)),
        "minimum": lambda y: y.min(axis=1),
        "maximum": lambda y: y.max(axis=1),
    }
    if counts:
        usual["share of zeros"] = lambda y: (y == 0).mean(axis=1)
    groups = data.by_group
    if groups is not None and len(groups) > 1 and len(groups) < data.num_obs:
        by_group = np.zeros((data.num_obs, len(groups)))
        by_group[np.arange(data.num_obs), groups.codes] = 1 / groups.counts[groups.codes]
        usual[f"sd of {groups.column} means"] = lambda y: (y @ by_group).std(axis=1, ddof=1)
    return usual


def quantile_table(values: Mapping[str, FloatArray], index: str, interval: float) -> pd.DataFrame:
    """Return a row of quantiles for each name: the median and the ends of two intervals.

    Parameters
    ----------
    values : mapping of str to array
        Draws by name, of any shape.
    index : str
        What the names are.
    interval : float
        Probability of the interval that is shown beside that of 98%.
    """
    quantiles = interval_quantiles(WIDE, interval)
    probs = list(quantiles.values())
    rows = [np.quantile(np.ravel(each), probs, method="inverted_cdf") for each in values.values()]
    names = pd.Index(list(values), name=index)
    return pd.DataFrame(np.reshape(rows, (-1, len(probs))), index=names, columns=list(quantiles))
