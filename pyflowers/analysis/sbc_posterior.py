"""Simulations for posterior SBC: whether the computation is right at one data set.

Parameters are drawn from the posterior given y, new data y_new of the same design from them, and
the model is fitted to both. The parameters are then a draw of its posterior given (y, y_new) as
well, so that their ranks are uniform. Prior SBC averages over all data that the prior implies; this
asks at the data that were observed, and needs no proper prior.

A program with an effect of each observation, such as b[N], has one of each new row, too. It is
drawn where the new rows are in the data and left out of the likelihood, by ``held_out``.

References
----------
.. [1] Säilynoja, Schmitt, Bürkner and Vehtari (2025), Posterior SBC: Simulation-based calibration
   checking conditional on data, arXiv:2502.03279, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.engines import Engine, SamplerOptions, find_engine
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit
from pyflowers.fits.sampling import fit_data
from pyflowers.programs import Capability, Data, Program


@dataclass(frozen=True, eq=False)
class Augmented:
    """Draws of a posterior, and the observed data with new ones behind them for each draw.

    Attributes
    ----------
    program : Program
        Whose posterior it is.
    data : Data
        The design of old and new rows together, hyperparameters included.
    draws : mapping of str to array, shape (chain, draw, …)
        Every quantity.
    y_rep : array, shape (chain, draw, 2 N)
        Observed values, then new ones.
    priors : mapping of str to float
        Hyperparameters as used.
    drawn_by : str
        The engine.
    notes : tuple of str
        What qualifies the draws.
    """

    program: Program
    data: Data
    draws: Mapping[str, NDArray[np.float64]]
    y_rep: NDArray[np.float64]
    priors: Mapping[str, float]
    drawn_by: str
    notes: tuple[str, ...]


def simulate_from_posterior(
    program: Program,
    data: Data,
    options: SamplerOptions,
    *,
    priors: Mapping[str, float] | None = None,
    engine: str | Engine = "auto",
    cmdstan: Any = None,
) -> Augmented:
    """Draw parameters given the observed data, and new data from each draw.

    Parameters
    ----------
    program : Program
        Has ``y_rep`` and observed data.
    data : Data
        Its data block, priors left out.
    options : SamplerOptions
        Of the fit of the observed data.
    priors, engine, cmdstan
        As :func:`pyflowers.fit` takes them.

    Raises
    ------
    ConfigError
        If the program cannot replicate data, or rows cannot be added to its data block.
    """
    program.require(Capability.Y_REP)
    program.require(Capability.OBSERVED)
    role = program.declaration.roles.held_out
    leaves_out = program.python.pointwise is None and role in program.source.blocks.data
    size = _size_of_rows(program, leaves_out)
    values, _ = program.fill(data, program.resolve_priors(priors, data))
    num_obs = values.num_obs
    if leaves_out:
        twice = _twice(program, values, size)
        held_out = np.repeat([0, 1], num_obs)
        data = replace(twice, values={**twice.values, role: held_out}, table=None, labels={})
    chosen = find_engine(engine, cmdstan) if isinstance(engine, str) else engine
    fit = fit_data(program, data, options, priors=priors, engine=chosen)
    y_new = program.y_rep(fit.draws, fit.data, np.random.default_rng([options.seed, 3]))
    y_new = y_new[..., -num_obs:]
    y_old = np.broadcast_to(values.y, y_new.shape)
    whole = fit.data
    if leaves_out:
        whole = replace(whole, values={**whole.values, role: np.zeros(2 * num_obs, np.int64)})
    else:
        whole = _twice(program, whole, size)
    both = np.concatenate([y_old, y_new], -1)
    return Augmented(
        program, whole, fit.draws, both, fit.record.priors, fit.record.engine.name, _notes(fit)
    )


def _notes(fit: Fit) -> tuple[str, ...]:
    if fit.diagnostics.passed:
        return ()
    return (
        "the diagnostics of the fit to the observed data fail, so the parameters that were drawn "
        "from it may not be its posterior's",
    )


def _size_of_rows(program: Program, leaves_out: bool) -> str:
    """Return the data variable that counts the observations.

    Raises
    ------
    ConfigError
        If no rows can be added: another size depends on it, or a parameter does.
    """
    blocks = program.source.blocks
    observed = blocks.data[program.declaration.roles.observed]
    size = observed.sizes[0] if observed.ndim == 1 else ""
    if size not in blocks.data or blocks.data[size].ndim:
        raise ConfigError(
            f"{program.name}: posterior SBC adds new observations, and the size of {observed.name} "
            f"is not a variable of the data block; declare it as array[N] or vector[N], with int N"
        )
    for name, variable in blocks.data.items():
        if any(_mentions(size, each) for each in variable.sizes[1:]) or (
            variable.ndim and _mentions(size, variable.sizes[0]) and variable.sizes[0] != size
        ):
            raise ConfigError(
                f"{program.name}: posterior SBC adds new observations, and how {name} grows with "
                f"{size} is not plain; declare it with {size} as its first size, or none"
            )
    each = [n for n, v in blocks.parameters.items() if any(_mentions(size, s) for s in v.sizes)]
    if each and not leaves_out:
        raise ConfigError(
            f"{program.name}: {each[0]} has a value for each observation, so that new ones need "
            f"values of their own; {Capability.HELD_OUT.remedy}"
        )
    return size


def _mentions(name: str, expression: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", expression) is not None


def _twice(program: Program, data: Data, size: str) -> Data:
    """Return a data block with every row in it twice."""
    values = dict(data.values)
    for name, variable in program.source.blocks.data.items():
        if variable.ndim and variable.sizes[0] == size:
            values[name] = np.concatenate([np.asarray(values[name])] * 2)
    values[size] = 2 * int(values[size])
    return replace(data, values=values)
