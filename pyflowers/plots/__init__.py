"""Figures: a fit in, matplotlib figures out; nothing is written, printed or set globally.

The figures of checks, comparisons and priors import those when they are drawn: a run folder has
none of them, and their imports would take as long as one of its figures.

>>> import pyflowers
>>> fit = pyflowers.fit("iid_normal", seed=1)
>>> figure = pyflowers.plots.trace(fit)
>>> figure.savefig("trace.png")
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyflowers.cores import each
from pyflowers.plots.conditional import conditional_effects
from pyflowers.plots.groups import forest, group_intervals, observations, predictions, shrinkage
from pyflowers.plots.posterior import pairs, prior_posterior, ranks, trace, trace_first_chain
from pyflowers.plots.predictive import (
    calibration,
    density_overlay,
    elpd_differences,
    pit_ecdf,
    predictive,
    predictive_checks,
)
from pyflowers.plots.priors import power_scaling, prior_figures, prior_implied, prior_parameters
from pyflowers.plots.style import DARK, LIGHT, Theme, alt_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyflowers.fits.fit import Fit

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "alt_text",
    "calibration",
    "conditional_effects",
    "density_overlay",
    "elpd_differences",
    "forest",
    "group_intervals",
    "observations",
    "pairs",
    "pit_ecdf",
    "power_scaling",
    "predictions",
    "predictive",
    "predictive_checks",
    "prior_figures",
    "prior_implied",
    "prior_parameters",
    "prior_posterior",
    "ranks",
    "run_figures",
    "run_images",
    "shrinkage",
    "trace",
    "trace_first_chain",
]


def __dir__() -> list[str]:
    return __all__


def run_figures(fit: Fit, suffix: str = "png") -> dict[str, Figure]:
    """Return the figures of a run folder by file name.

    Parameters
    ----------
    fit : Fit
        What to draw.
    suffix : str
        ``png``, ``svg`` or ``pdf``.
    """
    drawn = RUN_FIGURES if fit.posterior else ()
    return {f"{draw.__name__}.{suffix}": draw(fit) for draw in drawn}


def run_images(fit: Fit, suffix: str = "png") -> dict[str, bytes]:
    """Return the files of :func:`run_figures`, drawn by all usable cores."""
    drawn = RUN_FIGURES if fit.posterior else ()
    # Level 4 takes two thirds of the time of 6, PNG's usual one, for a hundredth more bytes.
    level: dict[str, Any] = {"pil_kwargs": {"compress_level": 4}} if suffix == "png" else {}

    def image(draw: Callable[[Fit], Figure]) -> bytes:
        buffer = BytesIO()
        draw(fit).savefig(buffer, format=suffix, dpi=FILE_DPI, **level)
        return buffer.getvalue()

    names = [f"{draw.__name__}.{suffix}" for draw in drawn]
    return dict(zip(names, each([partial(image, draw) for draw in drawn]), strict=True))


RUN_FIGURES = (pairs, trace, trace_first_chain, ranks)
"""The figures of a run folder; in this order two cores, which take turns, end together."""


FILE_DPI = 150
"""Dots an inch of a run folder's figures."""
