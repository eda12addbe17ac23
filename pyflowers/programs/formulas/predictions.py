"""Likelihood and replicated data of a formula's program in NumPy, so that Stan need not write them.

The program is as it was written, so that its data and draws have the names of
:mod:`pyflowers.programs.formulas.writer`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from pyflowers.programs.capabilities import Capabilities, Draws, Pointwise
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.families import Family, FloatArray, find_family


def capabilities_of(declaration: Declaration) -> Capabilities:
    """Return what is known in NumPy of a formula's program that was not edited."""
    assert declaration.formula is not None
    family = declaration.formula.family
    return Capabilities(
        pointwise=Pointwise(partial(_log_lik, family), partial(_y_rep, family)),
        choices={"N_pointwise": _none},
    )


def _none(data: Data) -> int:
    return 0


def _log_lik(name: str, draws: Draws, data: Data) -> FloatArray:
    family = find_family(name)
    return family.log_lik(data.y, linear_predictor(draws, data), _values(family, draws, data))


def _y_rep(name: str, draws: Draws, data: Data, rng: Generator) -> FloatArray:
    family = find_family(name)
    return family.draw(linear_predictor(draws, data), _values(family, draws, data), rng)


def _values(family: Family, draws: Draws, data: Data) -> dict[str, Any]:
    """Return the auxiliary parameters, shaped to meet the rows, and the trials."""
    found: dict[str, Any] = {each.name: draws[each.name][..., None] for each in family.auxiliary}
    return {**found, "trials": data["trials"]} if family.has_trials else found


def linear_predictor(draws: Draws, data: Data) -> FloatArray:
    """Return the linear predictor of each row, shape (chain, draw, N)."""
    values, is_row = data.values, slice(None)
    rows = np.asarray(values["cell"]) - 1 if "cell" in values else is_row
    num = len(np.asarray(values["y"]))
    shape = next(iter(draws.values())).shape[:2]
    eta = np.zeros((*shape, num))
    if "Intercept" in draws:
        eta += draws["Intercept"][..., None]
    if "X" in values:
        eta += draws["b"] @ np.asarray(values["X"], dtype=np.float64)[rows].T
    for name in values:
        if name.startswith("offset_"):
            eta += np.asarray(values[name])[rows]
        if name.startswith("centered_"):
            group = name.removeprefix("centered_")
            codes = np.asarray(values[group])[rows] - 1
            effects = draws[f"r_{group}"][:, :, codes]
            if f"Z_{group}" in values:
                of_rows = np.asarray(values[f"Z_{group}"])[rows]
                effects = np.einsum("cdnm,nm->cdn", effects, of_rows)
            eta += effects
    return eta
