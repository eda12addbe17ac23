"""The log density of an interpreted program, in a process that keeps the program loaded."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines.stanli import MODULE, ask, interpreted, lack
from pyflowers.engines.workers import Worker
from pyflowers.programs.source import Source

FloatArray = NDArray[np.float64]


class Interpreted:
    """The density of an interpreted program, in a worker that keeps the program loaded.

    Raises
    ------
    CompileError, EngineLacksError, ToolchainError
        See :func:`pyflowers.engines.stanli.interpreted`.
    RuntimeError
        If the data do not match the program's declarations; the message is Stan's.
    """

    def __init__(self, source: Source, data: str, seed: int) -> None:
        interpreted(source)
        self._source, self._worker = source, Worker(MODULE)
        weakref.finalize(self, self._worker.kill)
        opened = self._ask("open_density", data=data, seed=seed)
        self.names: tuple[str, ...] = opened["names"]
        self.elements: tuple[str, ...] = opened["elements"]

    def evaluate(self, points: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        """See :class:`~pyflowers.engines.bridge.Density`."""
        log_density, gradients = self._call("evaluate", points, gradient)
        return log_density, gradients

    def constrain(self, points: FloatArray) -> FloatArray:
        """See :class:`~pyflowers.engines.bridge.Density`."""
        return np.asarray(self._call("constrain", points))

    def unconstrain(self, values: FloatArray) -> FloatArray:
        """See :class:`~pyflowers.engines.bridge.Density`."""
        return np.asarray(self._call("unconstrain", values))

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._ask("density", method=method, arguments=arguments)["result"]

    def _ask(self, kind: str, **question: Any) -> dict[str, Any]:
        values, error = ask(kind, self._source, worker=self._worker, **question)
        if error:
            raise lack(self._source, error) or RuntimeError(error)
        return values
