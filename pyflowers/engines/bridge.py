"""A program's log density, gradient and transforms, through BridgeStan's C interface.

Two libraries have this interface: the library that :mod:`pyflowers.toolchain.build` compiles from a
program, and the library of the interpreter stanli, which runs in a separate process because it may
crash. ``bridgestan.StanModel`` is not used, for three reasons: it requires the complete interface;
it releases Python's global lock, which must be held to protect Stan's autodiff stack; and its calls
take ten times as long.

References
----------
.. [1] Roualdes, Ward, Carpenter, Seyboldt and Axen (2023), BridgeStan: efficient in-memory access
   to the methods of a Stan model, Journal of Open Source Software 8(87), 5236.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.source import Source
from pyflowers.toolchain.build import compile_library

FloatArray = NDArray[np.float64]

_POINTER, _FLAG, _TEXT = ctypes.c_void_p, ctypes.c_bool, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "bs_model_construct": (_POINTER, [_TEXT, ctypes.c_uint, _POINTER]),
    "bs_model_destruct": (None, [_POINTER]),
    "bs_free_error_msg": (None, [_TEXT]),
    "bs_param_names": (_TEXT, [_POINTER, _FLAG, _FLAG]),
    "bs_param_unc_names": (_TEXT, [_POINTER]),
    "bs_log_density": (ctypes.c_int, [_POINTER, _FLAG, _FLAG, *[_POINTER] * 3]),
    "bs_log_density_gradient": (ctypes.c_int, [_POINTER, _FLAG, _FLAG, *[_POINTER] * 4]),
    "bs_param_constrain": (ctypes.c_int, [_POINTER, _FLAG, _FLAG, *[_POINTER] * 4]),
    "bs_param_unconstrain": (ctypes.c_int, [_POINTER] * 4),
}


class Density(Protocol):
    """A log density on the unconstrained scale, with values in Stan's flat order.

    Each method takes one point per row and, on failure, raises RuntimeError with Stan's message.
    In :meth:`evaluate`, a rejection is not a failure.
    """

    names: tuple[str, ...]
    elements: tuple[str, ...]

    def evaluate(self, points: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        """Return log densities and gradients, which are −∞ and 0 at points that are rejected.

        Gradients are computed only if `gradient` is true; otherwise their values are arbitrary.
        """

    def constrain(self, points: FloatArray) -> FloatArray:
        """Return the elements of parameters and transformed parameters at each point."""

    def unconstrain(self, values: FloatArray) -> FloatArray:
        """Return the unconstrained points for given elements of parameters."""


class Bridge:
    """A model in a library with BridgeStan's C interface.

    Parameters
    ----------
    path : str
        The path of the library.
    model : int
        The address of the model.
    owner : object, optional
        The object that owns the model. A reference to it is kept, because the model is deleted
        with its owner.
    forgiving : bool
        Whether every failure of :meth:`evaluate` counts as a rejection. This is needed for the
        interpreter, which does not distinguish rejections from other failures.

    Attributes
    ----------
    names : tuple of str
        The names of the unconstrained parameters.
    elements : tuple of str
        The names of the elements of parameters and transformed parameters, such as
        ``theta.1.2``.
    """

    def __init__(self, path: str, model: int, owner: Any = None, forgiving: bool = False) -> None:
        self._library, self._model, self._owner = _load(path), model, owner
        self._forgiving = forgiving
        self._error = ctypes.c_char_p()
        self.names = _listed(self._library.bs_param_unc_names(model))
        self.elements = _listed(self._library.bs_param_names(model, True, False))

    def evaluate(self, points: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        """See :class:`Density`."""
        log_density, gradients = np.empty(len(points)), np.empty_like(points)
        function, found = self._library.bs_log_density, [log_density]
        if gradient:
            function, found = self._library.bs_log_density_gradient, [log_density, gradients]
        for row in self._failures(function, (True, True), [points, *found]):
            if not self._forgiving:
                raise self._failure()
            self._failure()
            log_density[row], gradients[row] = -np.inf, 0
        return log_density, gradients

    def constrain(self, points: FloatArray) -> FloatArray:
        """See :class:`Density`."""
        values = np.empty((len(points), len(self.elements)))
        function = self._library.bs_param_constrain
        for _ in self._failures(function, (True, False), [points, values], (None,)):
            raise self._failure()
        return values

    def unconstrain(self, values: FloatArray) -> FloatArray:
        """See :class:`Density`."""
        points = np.empty((len(values), len(self.names)))
        for _ in self._failures(self._library.bs_param_unconstrain, (), [values, points]):
            raise self._failure()
        return points

    def _failures(
        self, function: Any, flags: tuple[bool, ...], arrays: list[Any], more: tuple[Any, ...] = ()
    ) -> Iterator[int]:
        """Call a function with each row of the arrays; yield the rows for which it fails."""
        # The buffer protocol returns an address five times as fast as array.ctypes.data.
        starts = [ctypes.addressof((ctypes.c_double * 0).from_buffer(array)) for array in arrays]
        strides = [array.strides[0] for array in arrays]
        error = ctypes.byref(self._error)
        for row in range(len(arrays[0])):
            where = [start + row * stride for start, stride in zip(starts, strides, strict=True)]
            if function(self._model, *flags, *where, *more, error):
                yield row

    def _failure(self) -> RuntimeError:
        """Return Stan's last message as an exception, and free the memory of the message."""
        message = (self._error.value or b"no message").decode(errors="replace")
        self._library.bs_free_error_msg(self._error)
        self._error.value = None
        return RuntimeError(message)


def compiled(source: Source, data: str, seed: int) -> Bridge:
    """Return a program's density from a library that is compiled once.

    Raises
    ------
    CompileError, ToolchainError
        See :func:`pyflowers.toolchain.build.compile_library`.
    RuntimeError
        If the data do not match the program's declarations; the message is Stan's.
    """
    path = str(compile_library(source))
    library, error = _load(path), ctypes.c_char_p()
    model = library.bs_model_construct(data.encode(), seed, ctypes.byref(error))
    if model is None:
        message = (error.value or b"no message").decode(errors="replace")
        library.bs_free_error_msg(error)
        raise RuntimeError(message)
    bridge = Bridge(path, model)
    weakref.finalize(bridge, library.bs_model_destruct, model)
    return bridge


def _load(path: str) -> Any:
    """Load a library.

    ``PyDLL`` holds Python's global lock during a call, which is necessary because the library has a
    single autodiff stack. Calls are also faster if the lock is not released.
    """
    library = ctypes.PyDLL(path)
    for name, (result, arguments) in _SIGNATURES.items():
        getattr(library, name).restype = result
        getattr(library, name).argtypes = arguments
    return library


def _listed(names: bytes) -> tuple[str, ...]:
    if names:
        return tuple(names.decode().split(","))
    return ()
