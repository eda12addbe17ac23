"""``pyflowers.methods_draft``: the report's draft for a methods section, in formats for papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyflowers.analysis.paper_formats import Prose
from pyflowers.display import Line, Result, wrapped
from pyflowers.fits.fit import Fit, checked_fits
from pyflowers.reports.material import Material
from pyflowers.reports.sections.provenance import methods_sentences


@dataclass(frozen=True, repr=False)
class MethodsDraft(Result):
    """A paragraph on how models were fitted, checked and compared.

    Attributes
    ----------
    prose : Prose
        The sentences of the paragraph.

    See Also
    --------
    pyflowers.methods_draft : Write the paragraph for one or several fits.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.methods_draft(fit)
    >>> str(found).startswith("We analysed 12 observations of flowers in 3 groups (plant)")
    True
    >>> found.to_docx().save("methods.docx")  # doctest: +SKIP
    """

    holds: ClassVar[str] = "methods"

    prose: Prose

    def to_markdown(self) -> str:
        """Return the paragraph in Markdown, on one line."""
        return self.prose.markdown()

    def to_latex(self) -> str:
        """Return the paragraph for LaTeX, with a line for each sentence."""
        return self.prose.latex()

    def to_docx(self) -> Any:
        """Return a python-docx document; its ``save`` writes a file for Word.

        Raises
        ------
        ConfigError
            If python-docx is not installed.
        """
        return self.prose.docx()

    def contents(self) -> list[Line]:
        """Return the paragraph."""
        return [wrapped(str(self.prose), 0)]

    def to_dict(self) -> dict[str, Any]:
        """Return the paragraph as plain text, for JSON."""
        return {"methods": str(self.prose)}


def methods_draft(fits: Fit | Sequence[Fit], *, interval: float | None = None) -> MethodsDraft:
    """Draft a paragraph for the methods section of a paper, as in the report.

    It describes the data, the model with its priors, the sampler and its diagnostics, the
    predictive checks, the sensitivity to the prior and the comparison with the other models. If
    there are several models, it describes the one with the largest elpd by PSIS-LOO.

    Parameters
    ----------
    fits : Fit or sequence of Fit
        Fits to the same data, one for each model.
    interval : float, optional
        Probability of the intervals that the paper shows. Default: the fits' interval.

    Returns
    -------
    MethodsDraft
        The paragraph, with ``to_markdown``, ``to_latex`` and ``to_docx``.

    Raises
    ------
    ConfigError
        If there is no fit, if the fits use different data, or if two fits are of the same model.

    See Also
    --------
    pyflowers.report : Write the whole report.
    pyflowers.table : Make a table for a paper.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> found = pyflowers.methods_draft(fit, interval=0.8)
    >>> found.to_dict()["methods"].endswith("Intervals are central 80% intervals.")
    True
    """
    found = [each.with_interval(interval) for each in checked_fits(fits, "methods_draft")]
    material = Material(found, {}, ())
    material.judge()
    return MethodsDraft(Prose(tuple(methods_sentences(material))))
