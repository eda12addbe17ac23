"""Figures: a fit in, matplotlib figures out; nothing is written, printed or set globally.

>>> figure = pyflowers.plots.trace(fit)
>>> figure.savefig("trace.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyflowers.plots.chains import ranks, trace, trace_first_chain
from pyflowers.plots.comparison import elpd_differences
from pyflowers.plots.pairs import pairs
from pyflowers.plots.predictive import predictive
from pyflowers.plots.prior import prior_posterior
from pyflowers.plots.shrinkage import shrinkage
from pyflowers.plots.style import DARK, LIGHT, Theme, alt_text
from pyflowers.plots.table import observations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.fitting import Fit

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "alt_text",
    "elpd_differences",
    "observations",
    "pairs",
    "predictive",
    "prior_posterior",
    "ranks",
    "run_figures",
    "shrinkage",
    "trace",
    "trace_first_chain",
]


def run_figures(fit: Fit, suffix: str = "png") -> dict[str, Figure]:
    """Return the figures of a run folder by file name.

    Parameters
    ----------
    fit : Fit
        What to draw.
    suffix : str
        ``png``, ``svg`` or ``pdf``.
    """
    if not fit.posterior.data_vars:
        return {}
    return {
        f"trace_first_chain.{suffix}": trace_first_chain(fit),
        f"trace.{suffix}": trace(fit),
        f"pairs.{suffix}": pairs(fit),
        f"ranks.{suffix}": ranks(fit),
    }
