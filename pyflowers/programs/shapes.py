"""Whether a data block's values have the shapes that a program declares, and indexes their range.

Engines read the values in a row, so that a matrix given on its side, or as a list of lists where a
vector is declared, would pass as another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyflowers.errors import DataError
from pyflowers.programs.source import Declared

_OTHER_SHAPES = ("complex", "tuple")
"""Types whose values have another shape in Stan's JSON than in a program."""


def check_shapes(values: Mapping[str, Any], declared: Declared, source: str, program: str) -> None:
    """Refuse a value whose shape or index differs from what is declared, as far as that is known.

    Parameters
    ----------
    values : mapping
        The data block.
    declared : mapping of str to Variable
        What the program declares; sizes that are neither numbers nor data are not looked at.
    source, program : str
        Where the values come from, and the program, for the message.

    Raises
    ------
    DataError
        Naming the variable.
    """
    for name, variable in declared.items():
        value = values.get(name)
        if value is None or isinstance(value, Mapping) or variable.kind.startswith(_OTHER_SHAPES):
            continue
        try:
            shape = np.shape(value)
        except ValueError as error:
            raise DataError(
                f"{source}: the rows of {name} differ in length; make them equal"
            ) from error
        if shape == (0,) and variable.ndim:
            continue  # how JSON writes an array without elements, however many dimensions it has
        if len(shape) != variable.ndim:
            raise DataError(
                f"{source}: {name} has {_dimensions(len(shape))}, and {program} declares "
                f"{_dimensions(variable.ndim)}; correct one of them"
            )
        for i, (has, size) in enumerate(zip(shape, variable.sizes, strict=True), start=1):
            wanted = int(size) if size.isdecimal() else values.get(size)
            if isinstance(wanted, int | np.integer) and has != wanted:
                expected = size if size.isdecimal() else f"{size}, which is {wanted}"
                raise DataError(
                    f"{source}: {name} has size {has} in dimension {i}, and {program} declares "
                    f"{expected}; correct one of them"
                )
        most = values.get(variable.upper or "")
        if variable.is_int and variable.lower == "1" and most is not None:
            positions = np.asarray(value)
            beyond = positions[(positions < 1) | (positions > most)]
            if beyond.size:
                raise DataError(
                    f"{source}: {name} holds {beyond.flat[0]}, and {program} declares it from 1 to "
                    f"{variable.upper}, which is {most}; correct one of them"
                )


def _dimensions(num: int) -> str:
    if num == 0:
        return "no dimensions"
    return "one dimension" if num == 1 else f"{num} dimensions"
