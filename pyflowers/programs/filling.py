"""The whole data block: what was read, priors and choices, checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.data import Data
from pyflowers.programs.shapes import check_shapes

if TYPE_CHECKING:
    from pyflowers.programs.program import Program


def fill(
    program: Program, data: Data, priors: Mapping[str, float], centered: bool | None
) -> tuple[Data, list[str]]:
    """Complete a data block and check it, see :meth:`.Program.fill`.

    Raises
    ------
    ConfigError
        If the program has no choice that was made.
    DataError
        If something is missing, or the data are of no use to the program.
    """
    block = program.source.blocks.data
    numbers = {name: int(v) if block[name].is_int else v for name, v in priors.items()}
    whole = replace(data, values={**data.values, **numbers})
    missing = [n for n in block if n not in whole.values and n not in program.python.choices]
    if missing:
        columns = {np.shape(value) for value in data.values.values()}
        is_table = not data.has_table and len(columns) == 1 and () not in columns
        of_table = "; if they are a table, give pandas.DataFrame(...)" if is_table else ""
        raise DataError(
            f"{data.source or 'the data'}: the data variable {missing[0]} is missing, which "
            f"{program.path.name} declares; add it{of_table}"
        )
    source = str(data.source or "the data")
    check_shapes(whole.values, block, source, program.path.name)
    chosen = {
        name: choose(whole)
        for name, choose in program.python.choices.items()
        if data.has_table or name not in data.values
    }
    if centered is not None:
        if "centered" not in program.source.blocks.data:
            raise ConfigError(
                f"centered: {program.name} has no such choice; it would be int centered in its "
                "data block"
            )
        if not isinstance(centered, bool | np.bool_):
            raise ConfigError(f"centered must be True, False or None, was {centered!r}")
        chosen["centered"] = int(centered)
    whole = replace(whole, values={**whole.values, **chosen})
    notes = program.python.check(whole)
    return whole, [*data.notes, *notes]
