"""A program's log density by the interpreter, in a worker of its own."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines.stanli import MODULE, ask, interpreted, lack
from pyflowers.engines.workers import Worker
from pyflowers.errors import FitError
from pyflowers.programs.source import Source

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Shapes:
    """What a density is of.

    Attributes
    ----------
    names : tuple of str
        The coordinates of the unconstrained scale.
    dims : dict of str to tuple of int
        The shape of each parameter and transformed parameter, in the program's order.
    """

    names: tuple[str, ...]
    dims: dict[str, tuple[int, ...]]


class InterpretedDensity:
    """The log density of a program and its data, Jacobian included.

    Parameters
    ----------
    source : Source
        The program.
    data : str
        Its data as CmdStan JSON.
    seed : int
        For random numbers in the program's transformed data.

    Raises
    ------
    CompileError, EngineLacksError, ToolchainError
        See :func:`pyflowers.engines.stanli.interpreted`.
    ValueError
        If the data are not what the program declares, with Stan's message.
    """

    def __init__(self, source: Source, data: str, seed: int) -> None:
        interpreted(source)
        self._source = source
        self._worker = Worker(MODULE)
        weakref.finalize(self, self._worker.kill)
        values, error = ask("open_density", source, worker=self._worker, data=data, seed=seed)
        if error:
            raise lack(source, error) or ValueError(error)
        self.shapes = Shapes(
            tuple(values["unconstrained"]),
            _dims(values["variables"], source),
        )

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log density and gradient at points shaped (point, dim).

        A point that the program rejects has a log density of −∞ and gradient 0.
        """
        found = self._ask("evaluate", points=points)
        return found["log_density"], found["gradient"]

    def constrain(self, points: FloatArray) -> FloatArray:
        """Return parameters and transformed parameters, flat, in the order of Stan's output."""
        values: FloatArray = self._ask("constrain", points=points)["values"]
        return values

    def unconstrain(self, values: FloatArray) -> FloatArray:
        """Return the points of parameters given flat, in the order of Stan's output.

        Raises
        ------
        FitError
            If they are outside their constraints, with Stan's message.
        """
        points: FloatArray = self._ask("unconstrain", values=values)["points"]
        return points

    def _ask(self, kind: str, **arrays: Any) -> dict[str, Any]:
        values, error = ask(kind, self._source, worker=self._worker, **arrays)
        if error:
            raise FitError(f"{self._source.path.name}: {' '.join(error.split())}")
        return values


def _dims(names: list[str], source: Source) -> dict[str, tuple[int, ...]]:
    """Return each variable's shape from its elements' names, such as ``theta.1.2``.

    A variable of size 0 has no elements: its shape is given as zeros.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        base, *index = name.split(".")
        here = tuple(map(int, index))
        found[base] = tuple(map(max, found.get(base, here), here))
    declared = {**source.blocks.parameters, **source.blocks.transformed_parameters}
    return {name: found.get(name, (0,) * variable.ndim) for name, variable in declared.items()}
