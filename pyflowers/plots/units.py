"""What a parameter measures, in the user's own words."""

from __future__ import annotations

from pyflowers.data import Columns
from pyflowers.fitting import Fit
from pyflowers.plots.style import label

_LOG_SCALE = {("multilevel_poisson", "mu"), ("multilevel_poisson", "sigma2")}


def rate(columns: Columns) -> str:
    """Return the unit of an observation, such as ``flowers per month``."""
    return f"{label(columns.value, 24)} per {label(columns.time, 16)}"


def unit(fit: Fit, parameter: str) -> str:
    """Return the unit of a parameter, such as ``(flowers per month)²``; of a program's own, none.

    Parameters
    ----------
    fit : Fit
        Says what model and columns these are.
    parameter : str
        With or without an element, such as ``mu_plant[2]``.
    """
    if fit.data is None:
        return ""
    name = parameter.partition("[")[0]
    per_month = rate(fit.data.columns)
    if (fit.name, name) in _LOG_SCALE:
        return f"(log {per_month})²" if name == "sigma2" else f"log {per_month}"
    return f"({per_month})²" if name.startswith("sigma2") else per_month
