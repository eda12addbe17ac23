"""The methods compared on each of several fits, for a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyflowers.compare import Comparison, compare_methods
from pyflowers.errors import PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names

MOST_ELEMENTS = 130
"""Quantities up to which the methods are compared: the exact posterior takes its time."""


def compare_all(
    fits: Sequence[Fit], cmdstan: str | Path | None = None
) -> dict[str, Comparison | str]:
    """Compare the methods on each fit; what cannot be compared has the reason instead.

    Parameters
    ----------
    fits : sequence of Fit
        Finished fits.
    cmdstan : str or Path, optional
        For Stan's approximations; by default the embedded one if a fit used it, else what there is.
    """
    found: dict[str, Comparison | str] = {}
    for fit in fits:
        num = len(element_names(fit.posterior))
        if num > MOST_ELEMENTS:
            found[fit.name] = f"with {num} quantities this takes long; run pyflowers compare"
            continue
        embedded = fit.record.engine.versions.get("cmdstan", "").startswith("embedded")
        try:
            found[fit.name] = compare_methods(
                nuts=fit,
                cmdstan=cmdstan or ("embedded" if embedded else None),
                # Minutes of compiling would surprise a user who asks for a report.
                make_cmdstan=cmdstan is not None,
            )
        except PyflowersError as error:
            found[fit.name] = str(error)
    return found
