"""What a parameter measures, in the user's own words."""

from __future__ import annotations

from pyflowers.fits.fit import Fit


def unit(fit: Fit, parameter: str) -> str:
    """Return the unit of a parameter, such as ``(flowers per month)²``; empty if none is known.

    Parameters
    ----------
    fit : Fit
        Says what program and columns these are.
    parameter : str
        With or without an element, such as ``mu_plant[2]``.
    """
    return fit.program.unit_of(parameter, fit.data)


def observed_unit(fit: Fit) -> str:
    """Return the unit of an observation: that of a group's mean, or else what the user calls it."""
    return unit(fit, fit.program.declaration.roles.group_mean) or fit.data.value_name
