"""Closed-form VB and the exact posterior beside each of several fits, for a report."""

from __future__ import annotations

from collections.abc import Sequence

from pyflowers.analysis.methods import Comparison, compare
from pyflowers.errors import PyflowersError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names
from pyflowers.programs import Capability

MOST_ELEMENTS = 130
"""Quantities up to which the methods are compared: the exact posterior takes its time."""


def compare_all(fits: Sequence[Fit]) -> dict[str, Comparison | str]:
    """Compare each fit with closed-form VB where its program has one.

    What cannot be compared has the reason instead. Stan's approximations are left to
    ``pyflowers compare``: of most posteriors they show how they fail, which is for who asks.
    """
    found: dict[str, Comparison | str] = {}
    for fit in fits:
        if not fit.program.can(Capability.VB):
            continue
        num = len(element_names(fit.posterior))
        if num > MOST_ELEMENTS:
            found[fit.name] = f"with {num} quantities this takes long; run pyflowers compare"
            continue
        try:
            found[fit.name] = compare(nuts=fit, approximations=False)
        except PyflowersError as error:
            found[fit.name] = str(error)
    return found
