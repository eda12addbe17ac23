"""Which draws a fit keeps when it does not keep them all: ``--keep mu_plant[2]``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines.base import Keep
from pyflowers.errors import ConfigError
from pyflowers.fits.posterior import labels_of
from pyflowers.programs import Capability, Data, Program

STREAMED = "only some groups' draws were kept; fit with fewer draws or groups, or without keep"

NEEDS_ALL_DRAWS = (
    *(Capability.LOG_LIK, Capability.Y_REP, Capability.GROUP_MEAN),
    *(Capability.EXACT, Capability.VB),
)
"""What a program can do only with the draws of all groups: they are used, or compared with."""


def without_draws(program: Program) -> Program:
    """Return a program whose draws are not all there."""
    from dataclasses import replace

    withheld = {name: STREAMED for name in NEEDS_ALL_DRAWS if program.can(name)}
    return replace(program, withheld=withheld)


def kept_elements(names: Sequence[str], program: Program, data: Data) -> Keep:
    """Return the quantities that are kept, and the positions of the elements of each.

    Parameters
    ----------
    names : sequence of str
        Quantities and elements; none is all of them. What is named of one quantity is kept of all
        that are named and have the same dimension, so that they have the same labels.
    program : Program
        Has the quantities.
    data : Data
        Has the labels.

    Raises
    ------
    ConfigError
        If the program has no such quantity, or it no such element.
    """
    if not names:
        return dict.fromkeys(program.kept())
    wanted: dict[str, set[int] | None] = {}
    for name in names:
        variable, bracket, label = name.partition("[")
        if variable not in program.kept():
            known = ", ".join(program.kept())
            raise ConfigError(f"keep {name}: {program.name} has no such quantity; it has {known}")
        if not bracket:
            wanted[variable] = None
            continue
        position = _position(name, variable, label.removesuffix("]"), program, data)
        places = wanted.setdefault(variable, set())
        if places is not None:
            places.add(position)
    return {name: _positions(name, wanted, program) for name in wanted}


def _positions(
    name: str, wanted: dict[str, set[int] | None], program: Program
) -> NDArray[np.int64] | None:
    """Return the positions named for any quantity that is sized like this one."""
    sizes = program.source.blocks.draws
    alike = [places for other, places in wanted.items() if sizes[other].sizes == sizes[name].sizes]
    if None in alike:
        return None
    return np.array(sorted({i for places in alike if places is not None for i in places}), np.int64)


def _position(name: str, variable: str, label: str, program: Program, data: Data) -> int:
    sizes = program.source.blocks.draws[variable].sizes
    if len(sizes) != 1:
        raise ConfigError(f"keep {name}: only elements of vectors can be named; name {variable}")
    size = int(data.values[sizes[0]]) if sizes[0] in data.values else int(sizes[0])
    dims = data.dims.get(variable, ())
    labels = labels_of(dims[0] if dims else "", size, data)
    if label not in labels:
        raise ConfigError(
            f"keep {name}: {variable} has no element {label!r}; it has {labels[0]} to {labels[-1]}"
        )
    return labels.index(label)
