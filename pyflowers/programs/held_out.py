"""Data with some observations left out of the likelihood, and those observations themselves.

A program that declares ``held_out`` leaves them out itself, and its ``log_lik`` still has them.
Where the likelihood is written in Python the rows leave the table instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.programs.capabilities import Capability, Draws
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import OBS, Column
from pyflowers.programs.program import Program


@dataclass(frozen=True)
class HeldOut:
    """Observations that a fit is not to see.

    Attributes
    ----------
    program : Program
        The program.
    rows : array of int
        The observations, counted from 0.
    training : Data
        The data block without them, priors left out.
    whole : Data
        The data block with them, priors included.
    """

    program: Program
    rows: NDArray[np.int64]
    training: Data
    whole: Data

    def log_density(self, draws: Draws, *, of_whole: bool = False) -> NDArray[np.float64]:
        """Return the log joint density of what was held out at each draw, shape (chain, draw).

        Parameters
        ----------
        draws : mapping
            Draws from the posterior of the training data.
        of_whole : bool
            Whether they are from the posterior of the whole data instead.

        Raises
        ------
        ConfigError
            If a group that is held out whole has no density.
        """
        pointwise = self.program.python.pointwise
        if pointwise is None:
            of_rows = self.program.log_lik(draws, self.whole)[..., self.rows]
            return np.asarray(of_rows.sum(-1))
        held, is_new = _at_labels(self.whole, self.rows, self.training)
        if not is_new:
            if of_whole:
                held, _ = _at_labels(self.whole, self.rows, self.whole)
            return np.asarray(pointwise.log_lik(draws, held).sum(-1))
        if pointwise.new_group is None:
            raise ConfigError(
                f"{self.program.name}: its likelihood in Python has no new_group, the density of a "
                "group that the fit has not seen; give Pointwise one"
            )
        return pointwise.new_group(draws, held)


def hold_out(program: Program, whole: Data, rows: NDArray[np.int64]) -> HeldOut:
    """Leave observations out of a data block.

    Parameters
    ----------
    program : Program
        The program.
    whole : Data
        Its data block, filled.
    rows : array of int
        The observations, counted from 0.

    Raises
    ------
    ConfigError
        If the program cannot leave them out, or nothing would be left.
    """
    program.require(Capability.HELD_OUT)
    rows = np.unique(np.asarray(rows, dtype=np.int64))
    if rows.size >= whole.num_obs:
        raise ConfigError(
            f"{program.name}: with all {rows.size} observations left out, none remain"
        )
    if program.python.pointwise is None:
        role = program.declaration.roles.held_out
        mask = np.array(whole.values[role], dtype=np.int64)
        mask[rows] = 1
        return HeldOut(program, rows, replace(whole, values={**whole.values, role: mask}), whole)
    if whole.table is None:
        raise ConfigError(
            f"{program.name}: observations can only be left out of a table, and this fit was given "
            "a data block; fit the table instead"
        )
    kept = whole.table.at(np.delete(np.arange(len(whole.table)), rows))
    time_order = whole.reading.get("time_order", "value")
    declared = replace(program, declaration=whole.declaration)
    training = declared.read(kept, columns=whole.columns, time_order=time_order)
    return HeldOut(program, rows, training, whole)


def _at_labels(whole: Data, rows: NDArray[np.int64], training: Data) -> tuple[Data, bool]:
    """Return the held-out rows with the training data's indexes, and whether a group is new."""
    values: dict[str, Any] = dict(whole.values)
    is_new = False
    for name, source in whole.declaration.data.items():
        if whole.dims.get(name) != (OBS,):
            continue
        values[name] = np.asarray(whole.values[name])[rows]
        if isinstance(source, Column) and source.index:
            position = {label: i for i, label in enumerate(training.labels[source.column].names)}
            labels = whole.labels[source.column]
            known = [position.get(labels.names[labels.codes[row]]) for row in rows]
            is_new |= source.column == whole.group and None in known
            values[name] = np.array([0 if i is None else i for i in known]) + 1
    return replace(whole, values=values), is_new
