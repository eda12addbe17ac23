"""Figures of fits, checks, comparisons, predictions and priors.

The drawing functions return matplotlib figures; :func:`run_images` returns the contents of files.
No function writes a file, prints or changes global settings. The figures of a run folder do not
need :mod:`pyflowers.analysis`, so its modules are imported only when another figure needs them.

>>> import pyflowers
>>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
>>> figure = pyflowers.plots.trace(fit)
>>> figure.savefig("trace.png")
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyflowers.cores import each
from pyflowers.plots.conditional import conditional_effects, group_lines
from pyflowers.plots.designs import design
from pyflowers.plots.eyes import effects
from pyflowers.plots.groups import (
    coefficients,
    forest,
    group_intervals,
    observations,
    predictions,
    shrinkage,
)
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
from pyflowers.plots.shares import explained
from pyflowers.plots.style import DARK, LIGHT, Theme, alt_text
from pyflowers.programs import Capability

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
    "design",
    "effects",
    "elpd_differences",
    "explained",
    "forest",
    "group_intervals",
    "group_lines",
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
    """Draw the figures of a run folder.

    Parameters
    ----------
    fit : Fit
        The fit.
    suffix : str
        File name extension: ``png``, ``svg`` or ``pdf``.

    Returns
    -------
    dict of str to Figure
        The figures by file name; empty if the fit has no parameters.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> figures = pyflowers.plots.run_figures(fit)
    >>> sorted(figures)
    ['forest.png', 'pairs.png', 'predictive.png', 'ranks.png', 'trace.png',
    'trace_first_chain.png']
    """
    drawn = _run_figures(fit)
    return {f"{draw.__name__}.{suffix}": draw(fit) for draw in drawn}


def run_images(fit: Fit, suffix: str = "png") -> dict[str, bytes]:
    """Draw the figures of a run folder on all usable cores, and return the contents of the files.

    Parameters
    ----------
    fit : Fit
        The fit.
    suffix : str
        File format: ``png``, ``svg`` or ``pdf``.

    Returns
    -------
    dict of str to bytes
        The contents of each file by file name; empty if the fit has no parameters.

    See Also
    --------
    pyflowers.plots.run_figures : Draw the same figures as matplotlib figures.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pyflowers
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> images = pyflowers.plots.run_images(fit, "pdf")
    >>> sorted(images)
    ['pairs.pdf', 'predictive.pdf', 'ranks.pdf', 'trace.pdf', 'trace_first_chain.pdf']
    >>> images["trace.pdf"][:4]
    b'%PDF'
    """
    drawn = _run_figures(fit)
    # Compared with level 6, the default for PNG, level 4 takes two thirds of the time and 1% more
    # bytes.
    level: dict[str, Any] = {}
    if suffix == "png":
        level = {"pil_kwargs": {"compress_level": 4}}

    def image(draw: Callable[[Fit], Figure]) -> bytes:
        buffer = BytesIO()
        draw(fit).savefig(buffer, format=suffix, dpi=FILE_DPI, **level)
        return buffer.getvalue()

    names = [f"{draw.__name__}.{suffix}" for draw in drawn]
    return dict(zip(names, each([partial(image, draw) for draw in drawn]), strict=True))


def _run_figures(fit: Fit) -> list[Callable[[Fit], Figure]]:
    """Return the functions that draw the figures of a run folder.

    They are ordered so that two cores finish at about the same time. The traceplot of a single
    chain is drawn only for programs with an example table, such as those of the lectures.
    """
    if not fit.posterior:
        return []
    drawn: list[Callable[[Fit], Figure]] = [pairs, trace]
    if fit.program.example is not None:
        drawn.append(trace_first_chain)
    drawn.append(ranks)
    if fit.has_replicates and fit.data.num_obs:
        drawn.append(predictive)
    if coefficients(fit) or fit.program.can(Capability.GROUP_MEAN):
        drawn.append(forest)
    return drawn


FILE_DPI = 150
"""Dots per inch of the figures in a run folder."""
