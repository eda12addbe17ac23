"""What computes a Stan program's log density: a compiled library, or the interpreter."""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pyflowers.engines.stanli.density import InterpretedDensity
from pyflowers.errors import ConfigError, DataError, FitError, PyflowersError
from pyflowers.programs.source import Source
from pyflowers.samplers.kernels import FloatArray
from pyflowers.toolchain.library import compile_library

_MESSAGE_SIZE = 2048
_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_SIGNATURES: Mapping[str, tuple[Any, list[Any]]] = {
    "density_new": (_POINTER, [_TEXT, ctypes.c_uint, _TEXT, _INT]),
    "density_delete": (None, [_POINTER]),
    "density_variables": (_TEXT, [_POINTER]),
    "density_unconstrained": (_TEXT, [_POINTER]),
    "density_message": (_TEXT, [_POINTER]),
    "density_log": (_INT, [_POINTER, _POINTER, _INT, _POINTER]),
    "density_gradient": (_INT, [_POINTER, _POINTER, _INT, _POINTER]),
    "density_constrain": (_INT, [_POINTER, _POINTER, _INT, _POINTER, _INT]),
    "density_unconstrain": (_INT, [_POINTER, _POINTER, _INT, _INT, _POINTER]),
}

# An array's address by the buffer protocol: a fifth of what array.ctypes.data costs.
_address: Callable[[Any], Any] = (ctypes.c_double * 0).from_buffer


class Backend(Protocol):
    """A log density on the unconstrained scale, with Stan's flat order of values."""

    names: tuple[str, ...]
    dims: dict[str, tuple[int, ...]]

    def evaluate(self, points: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        """Return log densities and gradients; without `gradient` the second is anything."""

    def constrain(self, points: FloatArray, width: int) -> FloatArray:
        """Return parameters and transformed parameters, shape (point, width)."""

    def unconstrain(self, values: FloatArray, dim: int) -> FloatArray:
        """Return the points of parameters, shape (point, dim)."""


class CompiledBackend:
    """A shared library made of the class that stanc generates."""

    def __init__(self, source: Source, data: bytes, seed: int) -> None:
        self._name = source.path.name
        self.library = compile_library(source)
        self._functions = _load(self.library.path)
        self._handle = self._new(data, seed)
        weakref.finalize(self, self._functions.density_delete, self._handle)
        self.names = tuple(self._functions.density_unconstrained(self._handle).decode().split())
        self.dims = _dims(self._functions.density_variables(self._handle).decode())

    def evaluate(self, points: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        """Fill `points` with the gradient."""
        functions = self._functions
        function = functions.density_gradient if gradient else functions.density_log
        log_density = np.empty(len(points))
        if function(self._handle, _address(points), len(points), _address(log_density)):
            raise self._failure(FitError)
        return log_density, points

    def constrain(self, points: FloatArray, width: int) -> FloatArray:
        """See :class:`Backend`."""
        values = np.empty((len(points), width))
        where = (points.ctypes.data, len(points), values.ctypes.data, width)
        if self._functions.density_constrain(self._handle, *where):
            raise self._failure(FitError)
        return values

    def unconstrain(self, values: FloatArray, dim: int) -> FloatArray:
        """See :class:`Backend`."""
        points = np.empty((len(values), dim))
        where = (values.ctypes.data, *values.shape, points.ctypes.data)
        if self._functions.density_unconstrain(self._handle, *where):
            raise self._failure(ConfigError)
        return points

    def _new(self, data: bytes, seed: int) -> int:
        message = ctypes.create_string_buffer(_MESSAGE_SIZE)
        handle: int | None = self._functions.density_new(data, seed, message, _MESSAGE_SIZE)
        if handle is None:
            raise DataError(f"data of {self._name}: {_one_line(message.value)}")
        return handle

    def _failure(self, kind: type[PyflowersError]) -> PyflowersError:
        """Return the exception for a call that failed, with Stan's message."""
        message = self._functions.density_message(self._handle)
        return kind(f"{self._name}: {_one_line(message)}")


class InterpretedBackend:
    """The interpreter stanli, in a process of its own."""

    def __init__(self, source: Source, data: bytes, seed: int) -> None:
        self._name = source.path.name
        try:
            self._density = InterpretedDensity(source, data.decode(), seed)
        except ValueError as error:
            raise DataError(f"data of {self._name}: {_one_line(str(error).encode())}") from error
        self.names = self._density.shapes.names
        self.dims = self._density.shapes.dims

    def evaluate(self, points: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        """See :class:`Backend`."""
        return self._density.evaluate(points)

    def constrain(self, points: FloatArray, width: int) -> FloatArray:
        """See :class:`Backend`."""
        return self._density.constrain(points) if len(points) else np.empty((0, width))

    def unconstrain(self, values: FloatArray, dim: int) -> FloatArray:
        """See :class:`Backend`."""
        try:
            return self._density.unconstrain(values)
        except FitError as error:
            raise ConfigError(str(error)) from error


def _load(path: Path) -> Any:
    """Load a library.

    ``PyDLL`` holds Python's lock during a call: Stan's autodiff stack is one for the library, and
    without the lock's hand-over a call is also faster.
    """
    functions = ctypes.PyDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        getattr(functions, name).restype = result
        getattr(functions, name).argtypes = arguments
    return functions


def _one_line(message: bytes) -> str:
    """Return Stan's message in one line, without the folder that the program was compiled in."""
    text = " ".join(message.decode(errors="replace").split())
    return re.sub(r"'/[^']*/([^'/]+\.stan)'", r"'\1'", text)


def _dims(variables: str) -> dict[str, tuple[int, ...]]:
    """Read a line a variable: its name and its dimensions."""
    lines = [line.split() for line in variables.splitlines()]
    return {name: tuple(map(int, shape)) for name, *shape in lines}
