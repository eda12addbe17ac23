"""Any Stan program as a target: its log density and gradient on the unconstrained scale.

A program declares parameters θ with constraints. Stan samples unconstrained parameters x, where
θ = T(x), with the log density

    log π(x) = log p(T(x), data) + log |det ∂T/∂x| + constant.

This is `lp__` in CmdStan's output, which omits terms of `~` statements that contain no parameter.
Unless it is interpreted, the program is compiled once by the embedded toolchain. The result is a
shared library with a C interface, which is cached like an executable; see
:mod:`pyflowers.toolchain.build`.

>>> import numpy as np
>>> from pyflowers.resources import program_path
>>> from pyflowers.samplers import HMC, StanDensity, run
>>> rng = np.random.default_rng(1)
>>> data = {"N": 4, "x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0, 5.0], "log_flat": 1}
>>> target = StanDensity(program_path("linear_regression"), data)
>>> result = run(HMC(target, 0.1, 20), rng, target.start(rng, num_chains=4), num_draws=1_000)
>>> draws = target.constrain(result.draws)
>>> draws["sigma"].shape
(4, 1000)

References
----------
.. [1] Stan Reference Manual 2.35, chapter "Constraint transforms", for T and its Jacobian.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pyflowers.engines.bridge import Density, compiled
from pyflowers.engines.stanli.density import Interpreted
from pyflowers.errors import ConfigError, DataError, FitError, PyflowersError, ToolchainError
from pyflowers.lectures.samplers.kernels import FloatArray
from pyflowers.programs.source import Source, read_source

_START_ATTEMPTS = 100


class StanDensity:
    """The posterior of a Stan program and its data, as a target for the samplers.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    data : mapping, or path of a CmdStan JSON file, optional
        The program's data. Default: no data.
    seed : int
        Seed for random numbers in the program's transformed data.
    include_paths : sequence of path
        Folders of the program's included files, in addition to the program's folder.
    engine : str
        ``compiled``, ``interpreted`` or ``auto``. The interpreter, stanli, needs no compiler, but
        it is slower than compiled code and treats every failure of the program as a rejection.
        ``auto`` means ``compiled`` if there is a compiler, and ``interpreted`` otherwise.

    Attributes
    ----------
    names : tuple of str, length dim
        Stan's names for the coordinates, such as ``mu`` and ``theta.1``. For an array of
        vectors, Stan's names are not in the order of the coordinates: use :meth:`constrain`.
    dim : int
        The number of coordinates.
    dims : dict of str to tuple of int
        The shape of each parameter and transformed parameter.

    Raises
    ------
    ConfigError
        If `engine` is unknown, or the program's file cannot be used.
    CompileError, ToolchainError, EngineLacksError
        If the program cannot be compiled or, with the interpreter, cannot be run.
    DataError
        If the data do not match the program's declarations, or the interpreter cannot read them;
        the message is usually Stan's.

    Examples
    --------
    >>> import numpy as np
    >>> from pyflowers.resources import program_path
    >>> from pyflowers.samplers import StanDensity
    >>> data = {"N": 4, "x": [0, 1, 2, 3], "y": [1, 2, 4, 5], "log_flat": 1}
    >>> target = StanDensity(program_path("linear_regression"), data, engine="interpreted")
    >>> target.names
    ('alpha', 'beta', 'sigma')

    The samplers work with log σ; :meth:`unconstrain` and :meth:`constrain` convert between σ and
    log σ:

    >>> x = target.unconstrain({"alpha": [1.0], "beta": [1.5], "sigma": [1.0]})
    >>> x
    array([[1. , 1.5, 0. ]])
    >>> target.constrain(x)["sigma"]
    array([1.])
    >>> target.log_density(x)  # −S / 2, where S = ½² + ½²
    array([-0.25])
    >>> _, gradient = target.log_density_gradient(x)
    >>> gradient
    array([[-1. , -2. , -3.5]])

    Starting points for four chains:

    >>> target.start(np.random.default_rng(1), num_chains=4).shape
    (4, 3)
    """

    def __init__(
        self,
        program: str | Path,
        data: Mapping[str, Any] | str | Path | None = None,
        *,
        seed: int = 0,
        include_paths: Sequence[str | Path] = (),
        engine: str = "auto",
    ) -> None:
        text = _data_text(data)
        self.source = read_source(program, include_paths)
        self._density = _open(self.source, text, seed, engine)
        self.names = self._density.names
        self.dim = len(self.names)
        self.dims = _dims(self._density.elements, self.source)
        own = self.source.blocks.parameters  # the parts of a tuple t are t.1, …
        self._parameters = [name for name in self.dims if name.partition(".")[0] in own]

    def log_density(self, x: FloatArray, /) -> FloatArray:
        """Return log π(x) up to a constant.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Unconstrained positions of the chains.

        Returns
        -------
        array, shape (chain,)
            The log density at each position; −inf where the program rejects the position.

        Raises
        ------
        ConfigError
            If `x` is not shaped (chain, dim).
        FitError
            If the program failed for a reason other than a rejection, such as an index out of
            range.
        """
        return self._evaluate(x, gradient=False)[0]

    def log_density_gradient(self, x: FloatArray, /) -> tuple[FloatArray, FloatArray]:
        """Return log π(x) and ∇ log π(x) for all chains in one call.

        Parameters
        ----------
        x : array, shape (chain, dim)
            Unconstrained positions of the chains.

        Returns
        -------
        log_density : array, shape (chain,)
            The log density up to a constant; −inf where the program rejects the position, for
            example because a scale is 0. Stan's samplers treat rejections in the same way.
        gradient : array, shape (chain, dim)
            The gradient at each position; 0 where the program rejects the position.

        Raises
        ------
        ConfigError
            If `x` is not shaped (chain, dim).
        FitError
            If the program failed for a reason other than a rejection, such as an index out of
            range.
        """
        return self._evaluate(x, gradient=True)

    def _evaluate(self, x: FloatArray, gradient: bool) -> tuple[FloatArray, FloatArray]:
        points = np.array(x, dtype=np.float64, order="C")
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ConfigError(f"x must be shaped (chain, {self.dim}), got {points.shape}")
        try:
            return self._density.evaluate(points, gradient)
        except RuntimeError:  # a context manager per call would cost as much as a small gradient
            with _explained(FitError, self.source.path.name):
                raise

    def constrain(self, x: ArrayLike) -> dict[str, FloatArray]:
        """Return the parameters and transformed parameters at unconstrained positions.

        Parameters
        ----------
        x : array, shape (…, dim)
            Unconstrained positions, such as draws of shape (chain, draw, dim).

        Returns
        -------
        dict of str to array, shape (…, *shape of the parameter)
            The values by name.

        Raises
        ------
        ConfigError
            If `x` has the wrong number of coordinates.
        FitError
            If a transformed parameter cannot be computed; the message is Stan's.
        """
        points = np.array(x, dtype=np.float64, order="C")
        leading, num = points.shape[:-1], math.prod(points.shape[:-1])
        if points.ndim == 0 or points.shape[-1] != self.dim:
            raise ConfigError(f"x must be shaped (…, {self.dim}), got {points.shape}")
        with _explained(FitError, self.source.path.name):
            values = self._density.constrain(points.reshape(num, self.dim))
        found, position = {}, 0
        for name, shape in self.dims.items():
            part = values[:, position : position + math.prod(shape)]
            # In Stan's output the first index varies fastest.
            by_last = part.reshape((num, *reversed(shape)))
            value = by_last.transpose(0, *range(len(shape), 0, -1))
            found[name] = value.reshape((*leading, *shape))
            position += math.prod(shape)
        return found

    def unconstrain(self, parameters: Mapping[str, ArrayLike]) -> FloatArray:
        """Return the unconstrained positions that correspond to parameter values.

        Parameters
        ----------
        parameters : mapping of str to array, shape (…, *shape of the parameter)
            All parameters of the program by name; other names are ignored.

        Returns
        -------
        array, shape (…, dim)
            Unconstrained positions.

        Raises
        ------
        ConfigError
            If a parameter is missing, has the wrong shape, or violates its constraint; for a
            violated constraint, the message is Stan's.
        """
        columns = []
        leading: tuple[int, ...] = ()
        for name in self._parameters:
            if name not in parameters:
                raise ConfigError(f"parameters must include {name}, which the program declares")
            value, shape = np.asarray(parameters[name], dtype=np.float64), self.dims[name]
            leading = value.shape[: value.ndim - len(shape)]
            if value.shape != (*leading, *shape):
                sizes = ", ".join(map(str, shape))
                raise ConfigError(f"{name} must be shaped (…, {sizes}), got {value.shape}")
            flat = value.reshape((math.prod(leading), *shape))
            by_last = flat.transpose(0, *range(len(shape), 0, -1))
            columns.append(by_last.reshape(len(flat), math.prod(shape)))
        values = np.ascontiguousarray(np.concatenate(columns, axis=1))
        with _explained(ConfigError, self.source.path.name):
            points = self._density.unconstrain(values)
        return points.reshape((*leading, self.dim))

    def start(self, rng: np.random.Generator, num_chains: int, radius: float = 2.0) -> FloatArray:
        """Return starting points, drawn as Stan draws them.

        Each coordinate is uniform in (−radius, radius); a rejected point is replaced by a new draw.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of the points.
        num_chains : int
            Number of chains.
        radius : float
            Half the width of the range, on the unconstrained scale.

        Returns
        -------
        array, shape (chain, dim)
            A point of positive density for each chain.

        Raises
        ------
        FitError
            If no point of positive density was found for a chain in 100 attempts.
        """
        points = rng.uniform(-radius, radius, (num_chains, self.dim))
        for _ in range(_START_ATTEMPTS):
            rejected = ~np.isfinite(self.log_density(points))
            if not rejected.any():
                return points
            points[rejected] = rng.uniform(-radius, radius, (int(rejected.sum()), self.dim))
        raise FitError(
            f"{self.source.path.name}: all {_START_ATTEMPTS} random starting points of a chain "
            "were rejected; compute starting points with unconstrain()"
        )


def _open(source: Source, data: str, seed: int, engine: str) -> Density:
    """Open the density with the requested engine or, for ``auto``, with an available one."""
    if engine not in ("auto", "compiled", "interpreted"):
        raise ConfigError(f"engine must be auto, compiled or interpreted, got {engine!r}")
    with _explained(DataError, f"data of {source.path.name}"):
        if engine != "interpreted":
            try:
                return compiled(source, data, seed)
            except ToolchainError:
                if engine == "compiled":
                    raise
        try:
            return Interpreted(source, data, seed)
        except RuntimeError:
            _check_for_interpreter(source, data)
            raise


def _check_for_interpreter(source: Source, text: str) -> None:
    """Reject data for which the interpreter's own message would not name the mistake."""
    data = None
    with suppress(json.JSONDecodeError):
        data = json.loads(text)
    if not isinstance(data, dict):
        return
    where = f"data of {source.path.name}"
    missing = [name for name in source.blocks.data if name not in data]
    if missing:
        raise DataError(f"{where}: the data variable {missing[0]} is missing; add it")
    for name, value in data.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise DataError(
                f"{where}: {name} contains a value that is not a finite number, which the "
                "interpreter cannot read; correct the value, or keep it and set engine='compiled'"
            ) from error


@contextmanager
def _explained(kind: type[PyflowersError], what: str) -> Iterator[None]:
    """Raise Stan's error as `kind`, in one line, naming the program without its folder."""
    try:
        yield
    except RuntimeError as error:
        text = " ".join(str(error).split())
        text = re.sub(r"'/[^']*/([^'/]+\.stan)'", r"'\1'", text)
        raise kind(f"{what}: {text}") from error


def _dims(elements: Sequence[str], source: Source) -> dict[str, tuple[int, ...]]:
    """Return the shape of each variable, given names of elements such as ``theta.1.2``.

    ``t:2.1`` is an element of the variable ``t.2``, a part of the tuple ``t``; a complex number is
    a pair of elements. A variable of size 0 has no elements, so its shape is returned as zeros.
    """
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for element in elements:
        first, *parts = element.split(":")
        base, *index = first.split(".")
        name = base
        for part in parts:
            number, *more = part.split(".")
            name, index = f"{name}.{number}", index + more
        here = tuple({"real": 1, "imag": 2}.get(each) or int(each) for each in index)
        shapes = found.setdefault(base, {})
        shapes[name] = tuple(map(max, shapes.get(name, here), here))
    dims: dict[str, tuple[int, ...]] = {}
    for name, variable in {
        **source.blocks.parameters,
        **source.blocks.transformed_parameters,
    }.items():
        dims |= found.get(name) or {name: (0,) * variable.ndim}
    return dims


def _data_text(data: Mapping[str, Any] | str | Path | None) -> str:
    """Return the program's data as CmdStan JSON."""
    if data is None:
        return "{}"
    if isinstance(data, Mapping):
        return json.dumps({name: _plain(name, value) for name, value in data.items()})
    path = Path(data)
    if not path.is_file():
        raise DataError(f"{path}: no such file; give the path of a CmdStan JSON file")
    return path.read_text(encoding="utf-8", errors="replace")


def _plain(name: str, value: Any) -> Any:
    """Return a value in JSON's types: numbers or lists of numbers, with booleans as 0 and 1."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(
            f"data: {name} has rows of different lengths; make their lengths equal"
        ) from error
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"data: {name} has the type {array.dtype}, but a Stan program takes only numbers; "
            "convert it to numbers"
        )
    return (array.astype(int) if array.dtype == np.bool_ else array).tolist()
