"""How to sample: one declaration for Python, the command line, experiments and records."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import BeforeValidator, Field

from pyflowers.errors import ConfigError, UnusedOptionError
from pyflowers.records import Record

EngineName = Literal["auto", "cmdstan", "stanli", "exact"]

ENGINES: tuple[str, ...] = get_args(EngineName)
"""The engines by name; ``auto`` chooses between those that run Stan."""

LARGEST_SEED = 2**32 - 1
"""Stan's seeds are unsigned 32-bit integers."""

_MANY = 2**31 - 1


def _whole(value: Any) -> Any:
    """Take NumPy's whole numbers as Python's."""
    return int(value) if isinstance(value, np.integer) else value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, np.floating) else value


_Int = Annotated[int, BeforeValidator(_whole)]


class SamplerOptions(Record):
    """How to sample.

    Attributes
    ----------
    seed : int
        Of Stan's random numbers, 0 to 2³² − 1; 0 is a seed like any other.
    chains : int
        Number of chains.
    warmup, draws : int
        Iterations of each chain for adaptation, and after it.
    thin : int
        Keep every `thin`-th of the `draws` iterations.
    adapt_delta : float
        Target acceptance statistic of the step size adaptation.
    max_treedepth : int
        Bound on the depth of NUTS's trees.
    metric : str
        Form of NUTS's inverse metric: ``diag_e``, a variance for each parameter; ``dense_e``, a
        covariance matrix, which suits strongly correlated posteriors of up to a few hundred
        parameters; ``unit_e``, the identity, which is not adapted.
    keep : tuple of str
        Quantities, or elements such as ``mu_plant[2]``, whose draws are kept; the others are only
        summarised. Empty keeps all that fit in memory.
    """

    seed: Annotated[_Int, Field(ge=0, le=LARGEST_SEED, strict=True)]
    chains: Annotated[_Int, Field(ge=1, le=10_000, strict=True, description="Chains.")] = 4
    warmup: Annotated[
        _Int, Field(ge=0, le=_MANY, strict=True, description="Warm-up iterations of a chain.")
    ] = 1000
    draws: Annotated[
        _Int,
        Field(ge=1, le=_MANY, strict=True, description="Iterations of a chain after warm-up."),
    ] = 1000
    thin: Annotated[
        _Int,
        Field(ge=1, le=_MANY, strict=True, description="Keep every n-th of these iterations."),
    ] = 1
    adapt_delta: Annotated[
        float,
        BeforeValidator(_number),
        Field(gt=0, lt=1, strict=True, description="Target acceptance statistic."),
    ] = 0.9
    max_treedepth: Annotated[
        _Int, Field(ge=1, le=30, strict=True, description="Bound on the depth of NUTS's trees.")
    ] = 10
    metric: Annotated[
        Literal["diag_e", "dense_e", "unit_e"],
        Field(description="Form of NUTS's inverse metric, from a diagonal to a full matrix."),
    ] = "diag_e"
    keep: Annotated[
        tuple[str, ...],
        Field(
            description="Quantity or element whose draws are kept; the others are only summarised."
        ),
    ] = ()

    @classmethod
    def of(cls, seed: int | None = None, **options: Any) -> Self:
        """Return options, a seed drawn if none is given.

        Raises
        ------
        ConfigError
            Naming the option that cannot be used.
        """
        return cls.parse({"seed": new_seed() if seed is None else seed, **options}, "options")

    def of_engine(self, used: Collection[str]) -> Self:
        """Return these options as a record keeps them: those that an engine uses, all explicit."""
        return type(self)(**{name: getattr(self, name) for name in self.fields() if name in used})

    @classmethod
    def fields(cls) -> frozenset[str]:
        """Return the names of all options."""
        return frozenset(cls.model_fields)


NUTS_USES = (SamplerOptions.fields() - {"keep"}) | {"centered", "inits", "cores"}
"""The options that Stan's NUTS uses."""


def refuse_unused(engine: str, used: Collection[str], given: Collection[str]) -> None:
    """Refuse given options that an engine does not use.

    Raises
    ------
    UnusedOptionError
        Naming the first of them.
    """
    for name in given:
        if name not in used:
            known = ", ".join(sorted(used))
            raise UnusedOptionError(
                f"{name}: the engine {engine} has no use for it, it takes {known}; leave it out"
            )


def read_inits(inits: Any) -> Any:
    """Return initial values with those of files read, of several chains as a list.

    CmdStan takes a file whose name does not end in .json for one of R, and skips what it cannot
    read.

    Raises
    ------
    ConfigError
        If a file is not a JSON object.
    """
    if isinstance(inits, list | tuple):
        return [read_inits(each) for each in inits]
    if not isinstance(inits, str | Path):
        return inits
    try:
        values = json.loads(Path(inits).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"inits {inits}: it is not a JSON file ({error}); correct it") from error
    if not isinstance(values, Mapping):
        raise ConfigError(f"inits {inits}: it must be a JSON object of parameters; correct it")
    return values


def new_seed() -> int:
    """Draw a seed over the full range from the operating system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
