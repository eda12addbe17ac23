"""Which elements of the parameters a figure shows when it cannot show them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.posterior import element_names, flat, varies

if TYPE_CHECKING:
    import xarray as xr

HEAVY_TAIL = 30.0
"""A positive parameter whose 99.5% quantile exceeds its 0.5% by this factor has a log axis."""


@dataclass(frozen=True)
class Element:
    """One number of a posterior.

    Attributes
    ----------
    name : str
        As in the summary, such as ``mu_plant[2]``.
    draws : array, shape (chain, draw)
        Its draws.
    """

    name: str
    draws: NDArray[np.float64]

    @property
    def is_heavy(self) -> bool:
        """Whether only a logarithmic axis shows both its bulk and its upper tail."""
        low, high = np.quantile(self.draws, (0.005, 0.995))
        return bool(self.draws.min() > 0 and high > HEAVY_TAIL * low)


@dataclass(frozen=True)
class Choice:
    """The elements to show, in the posterior's order, and a sentence about the others."""

    shown: tuple[Element, ...]
    note: str


def choose(fit: Fit, most: int, parameters: Sequence[str] | None = None) -> Choice:
    """Choose at most `most` elements: those asked for, or the scalars and the worst of the rest.

    Parameters
    ----------
    fit : Fit
        Has the draws.
    most : int
        How many a figure can show.
    parameters : sequence of str, optional
        Variables or elements, such as ``mu`` or ``mu_plant[2]``.

    Returns
    -------
    Choice
        Of vectors, the elements with the largest R-hat, as many of each vector; ties go to those
        that come first. What is the same in every draw is left out where anything else varies.
        The choice is the same every time.

    Raises
    ------
    ConfigError
        If a parameter is asked for that the posterior does not have.
    """
    posterior = fit.posterior
    names = element_names(posterior)
    wanted = _wanted(names, parameters)
    varying = {
        name
        for quantity in posterior.values()
        for name in itertools.compress(element_names(quantity), varies(quantity))
    }
    wanted = [name for name in wanted if name in varying] or wanted
    if len(wanted) <= most:
        return Choice(_take(posterior, wanted), "")
    r_hat = {str(name): float(value) for name, value in fit.summary()["r_hat"].items()}
    kept = set(_worst_of_each(wanted, r_hat, most))
    shown = [name for name in wanted if name in kept]
    note = (
        f"{len(shown)} of {len(wanted)} parameters are shown: of each vector the elements with the "
        f"largest R-hat. The other {len(wanted) - len(shown)} are in the summary table."
    )
    return Choice(_take(posterior, shown), note)


def _wanted(names: list[str], parameters: Sequence[str] | None) -> list[str]:
    if parameters is None:
        return names
    if not isinstance(parameters, Iterable):
        raise ConfigError(
            f"parameters: a {type(parameters).__name__} is not a list of names, such as ['mu']"
        )
    wanted: list[str] = []
    for parameter in [parameters] if isinstance(parameters, str) else parameters:
        found = [name for name in names if parameter in (name, name.partition("[")[0])]
        if not found:
            variables = dict.fromkeys(name.partition("[")[0] for name in names)
            raise ConfigError(
                f"parameter {parameter!r}: the fit has no parameter of that name; it has "
                f"{', '.join(variables)}"
            )
        wanted.extend(name for name in found if name not in wanted)
    return wanted


def _worst_of_each(wanted: list[str], r_hat: dict[str, float], most: int) -> list[str]:
    """Take scalars first, then from each vector in turn its worst element not taken yet."""
    queues: dict[str, list[str]] = {}
    for name in wanted:
        queues.setdefault(name.partition("[")[0], []).append(name)
    for queue in queues.values():
        # An R-hat that is not a number is worse than any; Python's sort keeps the order of ties.
        queue.sort(key=lambda name: -np.nan_to_num(r_hat[name], nan=np.inf))
    kept: list[str] = []
    ordered = sorted(queues.values(), key=lambda queue: len(queue) > 1)
    while len(kept) < most and any(ordered):
        for queue in ordered:
            if queue and len(kept) < most:
                kept.append(queue.pop(0))
    return kept


def _take(posterior: xr.Dataset, names: Sequence[str]) -> tuple[Element, ...]:
    wanted = set(names)
    found = {
        name: np.asarray(flat(quantity)[:, :, i], dtype=np.float64)
        for quantity in posterior.values()
        for i, name in enumerate(element_names(quantity))
        if name in wanted
    }
    return tuple(Element(name, found[name]) for name in names)
