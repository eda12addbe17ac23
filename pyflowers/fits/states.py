"""The states of the chains of a fit: where they ended, and where they started.

A run folder keeps them in a small file, so that the chains of a changed fit can start from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.advice import worded
from pyflowers.engines import Engine, SamplerOptions
from pyflowers.engines.base import State
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits import idata
from pyflowers.fits.posterior import Arrays, as_dataset
from pyflowers.programs import Program

START, END = "start", "end"
"""The groups of the file, and the keys of :attr:`pyflowers.Fit.states`."""

_LAST = "last_"
"""The prefix of the names of parameter values in the file."""

_COLD = "leave out --warm"


def states_to_bytes(states: Mapping[str, State]) -> memoryview:
    """Return states as the contents of a netCDF file with a group for each."""
    return idata.to_bytes({when: as_dataset(_arrays(its), {}) for when, its in states.items()})


def _arrays(state: State) -> Arrays:
    """Return the arrays of a state with their dimensions."""
    found: Arrays = {"step_size": (("chain",), state.step_size)}
    if state.inv_metric is not None:
        dims = ("chain", "unconstrained", "unconstrained_2")[: state.inv_metric.ndim]
        found["inverse_metric"] = (dims, state.inv_metric)
    for name, values in state.values.items():
        own = (f"{name}_dim_{i}" for i in range(values.ndim - 1))
        found[f"{_LAST}{name}"] = (("chain", *own), values)
    return found


def states_of(stored: bytes, path: Path, fit: str) -> dict[str, State]:
    """Read states that :func:`states_to_bytes` made.

    Parameters
    ----------
    stored : bytes
        The contents of the file.
    path : Path
        The path of the file, for error messages.
    fit : str
        The fit from which the chains started, as messages name it.

    Raises
    ------
    DataError
        If the file cannot be read, or an array has the wrong type or shape.
    """
    found = {}
    with idata.opened(BytesIO(stored), path) as groups:
        for when, group in groups.items():
            arrays = {name: group[name] for name in group if name != "chain"}
            values = {
                name.removeprefix(_LAST): array
                for name, array in arrays.items()
                if name.startswith(_LAST)
            }
            metric, step_size = arrays.get("inverse_metric"), arrays.get("step_size")
            if step_size is None or not _agree(step_size, metric, values):
                raise DataError(
                    f"{path}: an array of the chains' {when} states is missing, or has the wrong "
                    "type or shape; refit the model"
                )
            found[when] = State(values, step_size, metric, fit if when == START else "")
    return found


def _agree(
    step_size: NDArray[Any], metric: NDArray[Any] | None, values: Mapping[str, NDArray[Any]]
) -> bool:
    """Whether the arrays of a state hold floats, all for the same number of chains."""
    arrays = [step_size, *values.values()]
    if metric is not None:
        arrays.append(metric)
        if metric.ndim not in (2, 3):
            return False
    floats = all(array.dtype.kind == "f" and array.ndim for array in arrays)
    return floats and step_size.ndim == 1 and len({len(array) for array in arrays}) == 1


def check_start(
    state: State,
    program: Program,
    block: Mapping[str, Any],
    options: SamplerOptions,
    engine: Engine,
) -> None:
    """Reject a state from which the chains of a fit cannot start.

    Parameters
    ----------
    state : State
        The state.
    program : Program
        The program of the fit.
    block : mapping of str to Any
        The program's data block, which determines the sizes of the parameters. Sizes that are
        expressions are checked by the engine instead.
    options : SamplerOptions
        The options of the fit.
    engine : Engine
        The engine of the fit.

    Raises
    ------
    ConfigError
        If the engine has no chains, the numbers of chains or the forms of the metric differ, or the
        parameters have other names or sizes.
    """
    if "inits" not in engine.uses:
        raise ConfigError(f"warm: the engine {engine.name} has no chains to start; {worded(_COLD)}")
    num = len(state.step_size)
    if num != options.chains:
        raise ConfigError(
            f"warm: {state.fit} has {num} chains, each of which starts one of the new fit, but "
            f"{options.chains} chains were requested; {worded(f'leave out --chains, or {_COLD}')}"
        )
    if state.metric != options.metric:
        raise ConfigError(
            f"warm: the metric of {state.fit} is {state.metric}, but {options.metric} was "
            f"requested; {worded(f'leave out --metric, or {_COLD}')}"
        )
    sizes = {name: np.asarray(its) for name, its in block.items() if not isinstance(its, Mapping)}
    wanted = {
        name: idata.sizes_of(variable, sizes)
        for name, variable in program.source.blocks.parameters.items()
    }
    wanted = {name: its for name, its in wanted.items() if its is None or 0 not in its}
    for name in {**wanted, **state.values}:
        if name not in wanted or name not in state.values:
            which = state.fit if name not in wanted else "the new fit"
            raise ConfigError(
                f"warm: the fits must have the same parameters, but only {which} has {name}; "
                f"{worded(_COLD)}"
            )
        own, its = state.values[name].shape[1:], wanted[name]
        if its is not None and not _fit(own, its):
            raise ConfigError(
                f"warm: the fits must have the same parameters, but the size of {name} is "
                f"{_shown(own)} in {state.fit} and {_shown(its)} in the new fit; {worded(_COLD)}"
            )


def _fit(own: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether a shape matches the required one, in which None stands for any size."""
    return len(own) == len(wanted) and all(
        size in (None, its) for its, size in zip(own, wanted, strict=True)
    )


def _shown(shape: tuple[int | None, ...]) -> str:
    """Return a shape as messages show it: ``3 × 2``, or ``1`` for a number."""
    return " × ".join("?" if size is None else str(size) for size in shape) or "1"
