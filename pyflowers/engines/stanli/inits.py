"""Initial values, in the forms that CmdStanPy takes, as requests to the interpreter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from pyflowers.engines.base import EngineLacksError
from pyflowers.errors import ConfigError
from pyflowers.programs.source import Source


def unconstrained_requests(inits: Any, chains: int, source: Source) -> dict[str, Any]:
    """Return the ``init_radius`` or ``inits`` that the worker needs.

    Parameters
    ----------
    inits : None, number, mapping, path, or a sequence of mappings or paths
        A radius, values for all chains, or values for each.
    chains : int
        Number of chains.
    source : Source
        The program, whose parameters must all be there.

    Raises
    ------
    ConfigError
        If they are none of these.
    EngineLacksError
        If some parameters have no value.
    """
    if inits is None:
        return {}
    if isinstance(inits, Real) and not isinstance(inits, bool):
        if not (np.isfinite(float(inits)) and float(inits) >= 0):
            raise ConfigError(f"inits: a radius is a number of at least 0, was {inits!r}")
        return {"init_radius": float(inits)}
    each = inits if isinstance(inits, Sequence) and not isinstance(inits, str) else [inits]
    if len(each) not in (1, chains):
        raise ConfigError(f"inits: there are {len(each)} for {chains} chains; give one for each")
    found = [_values(one) for one in each]
    for values in found:
        missing = [name for name in source.blocks.parameters if name not in values]
        if missing:
            raise EngineLacksError(
                f"inits: {missing[0]} has no value, and the interpreter stanli takes values for "
                "all parameters or for none; CmdStan draws the others at random"
            )
    return {"inits": found * (chains // len(found))}


def _values(one: Any) -> dict[str, Any]:
    if isinstance(one, str | Path):
        try:
            one = json.loads(Path(one).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"inits {one}: it is not a JSON file ({error})") from error
    if not isinstance(one, Mapping):
        raise ConfigError(
            f"inits: a {type(one).__name__} is not initial values; give a radius, a mapping of "
            "parameters, or one mapping for each chain"
        )
    return {str(name): np.asarray(value) for name, value in one.items()}
