"""``pyflowers.improve``: follow the advice on failed checks, and write one page on the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pyflowers.analysis.improvements import Improvement, follow_advice
from pyflowers.fits.commands import shown_path
from pyflowers.fits.fit import Fit
from pyflowers.progress import logger
from pyflowers.records import as_path
from pyflowers.reports.markup import command
from pyflowers.reports.material import Material
from pyflowers.reports.page import check_report, report
from pyflowers.reports.section import Block, Section, section_of
from pyflowers.reports.sections.checks import CHECKS
from pyflowers.reports.sections.comparison import COMPARISON
from pyflowers.reports.sections.provenance import PROVENANCE
from pyflowers.reports.sections.verdict import VERDICT

PAGE = "improvement.html"
"""The page, in the folder with the runs of the models that were tried."""


def improve(
    fit: Fit,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    announce: Callable[[str], object] = logger.info,
) -> Improvement:
    """Refit a model as the advice on failed checks recommends, and choose one of the fits.

    For each failed check, the model is refitted with the recommended formula, family or option, and
    with the seed, the engine and the other inputs of the fit. The refits are checked and compared,
    and the advice on them is followed in turn, up to 8 refits in all. Of the models that pass all
    checks and predict about as well as the best of them by PSIS-LOO, the one that was tried first
    is chosen. A fit that passes is not changed.

    Parameters
    ----------
    fit : Fit
        The fit. Other formulas can use only those columns of its table that the fit used.
    out : path, optional
        Folder for the page ``improvement.html`` and for a run folder of each refit.
        If the folder already holds such runs, they are read and not refitted.
    overwrite : bool
        Whether to replace runs in the folder that have other inputs.
    announce : callable
        Function that is called with a line before each refit. Default: the line is logged.

    Returns
    -------
    Improvement
        What failed, which models were tried, which one was chosen, and what it costs to fit.

    Raises
    ------
    PyflowersError
        If the fit cannot be checked, or the folder cannot be written.

    See Also
    --------
    pyflowers.check : Check a fit, with advice on what fails.
    pyflowers.loo : Compare models by how well they predict.

    Examples
    --------
    These counts vary more than Poisson counts:

    >>> import numpy as np, pandas as pd, pyflowers
    >>> rng = np.random.default_rng(1)
    >>> table = pd.DataFrame({"g": np.repeat(list("abcdefghij"), 12)})
    >>> table["y"] = rng.negative_binomial(2, 0.3, len(table))
    >>> formula = "y ~ 1 + (1 | g)"
    >>> fit = pyflowers.fit(formula, table, family="poisson", seed=1, engine="stanli")
    >>> found = pyflowers.improve(fit)
    >>> found.sentence
    'y ~ 1 + (1 | g), negbinomial passes all checks'
    >>> found.chosen.name
    'y_1_1_g_negbinomial'
    """
    folder = None
    if out is not None:
        folder = as_path(out, "out")
        check_report(folder / PAGE)
    found = follow_advice(fit, out=folder, overwrite=overwrite, announce=announce)
    if folder is not None:
        sections = [_section(found), VERDICT, CHECKS, COMPARISON, PROVENANCE]
        report(found.fits, folder / PAGE, sections=sections)
    return found


def _section(found: Improvement) -> Section:
    """Return the section on the result, with a command that does not show the user's folders."""
    whole = section_of(found, "What failed, what was tried, and what passes")

    def content(material: Material) -> Iterator[Block]:
        blocks = list(whole.content(material))
        if not found.command:
            yield from blocks
            return
        yield from blocks[:-1]
        yield command(found.command_with(shown_path))

    return replace(whole, content=content)
