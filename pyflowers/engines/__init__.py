"""Engines that sample programs: CmdStan, the interpreter stanli, and ``exact``.

The caller may name the engine. Otherwise compiled Stan is used for a program whose executable is
ready, and the interpreter for all others, so that fits do not wait for a compiler. Only
programs that the interpreter cannot run are compiled.
``exact`` is used only if it is named, because its draws do not come from a Markov chain.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pyflowers.engines.base import (
    ENGINES,
    LARGEST_SEED,
    NUTS_USES,
    Engine,
    EngineLacksError,
    Identity,
    LoadedProgram,
    ProcessLostError,
    Sample,
    SamplerOptions,
    new_seed,
    refuse_unused,
)
from pyflowers.engines.stanli import StanliEngine, stanli_is_installed
from pyflowers.errors import ConfigError, ToolchainError
from pyflowers.programs import Program

__all__ = [
    "LARGEST_SEED",
    "AutoEngine",
    "Engine",
    "EngineLacksError",
    "Identity",
    "LoadedProgram",
    "ProcessLostError",
    "Sample",
    "SamplerOptions",
    "find_engine",
    "new_seed",
    "refuse_unused",
]

logger = logging.getLogger("pyflowers")


def find_engine(
    name: str | Engine = "auto",
    cmdstan: str | Path | None = None,
    program: Program | None = None,
) -> Engine:
    """Return the engine to sample with.

    Parameters
    ----------
    name : str or Engine
        One of :data:`~pyflowers.engines.base.ENGINES`. With ``auto``, CmdStan is used if
        `cmdstan` is given, or if an executable of `program` exists. Otherwise stanli is used, and
        CmdStan only for requests that stanli cannot satisfy. An Engine is returned unchanged.
    cmdstan : str or Path, optional
        See :func:`pyflowers.toolchain.find_cmdstan`.
    program : Program, optional
        The program to sample. Without it, ``auto`` does not look for an executable.

    Raises
    ------
    ConfigError
        If no engine has that name, or if `cmdstan` is given with an engine other than CmdStan.
    ToolchainError
        If the engine is CmdStan, and it cannot be used or built.
    """
    if not isinstance(name, str) and callable(getattr(name, "load", None)):
        return name
    if not isinstance(name, str) or name not in ENGINES:
        raise ConfigError(f"engine must be one of {', '.join(ENGINES)}, got {name!r}")
    if name not in ("auto", "cmdstan"):
        if cmdstan is not None:
            raise ConfigError(
                f"--cmdstan: the engine {name} does not use CmdStan; leave out --cmdstan, or use "
                "--engine cmdstan"
            )
        found: Engine = import_module(f"pyflowers.engines.{name}").ENGINE
        return found
    # Neither the interpreter nor exact needs the toolchain.
    from pyflowers.engines.cmdstan import CmdStanEngine
    from pyflowers.toolchain import find_cmdstan

    if name == "cmdstan" or cmdstan is not None:
        return CmdStanEngine(find_cmdstan(cmdstan))
    if program is not None and (ready := _compiled(program)) is not None:
        return ready
    if stanli_is_installed():
        return AutoEngine()
    return CmdStanEngine(find_cmdstan())


def _compiled(program: Program) -> Engine | None:
    """Return the CmdStan engine if a program has an executable; nothing is built."""
    from pyflowers.engines.cmdstan import CmdStanEngine
    from pyflowers.toolchain import available_cmdstan, executable_of
    from pyflowers.toolchain.build import is_intact

    try:
        found = available_cmdstan()
        if found is not None and is_intact(executable_of(program.source, found).path):
            return CmdStanEngine(found)
    except ToolchainError as error:  # no compiler, or a CmdStan that cannot be used
        logger.debug("no compiled Stan: %s", error)
    return None


def uses_of(engine: str | Engine) -> frozenset[str]:
    """Return the options that an engine uses, without a search for CmdStan."""
    if engine in ("auto", "cmdstan"):
        return NUTS_USES
    return find_engine(engine).uses


class AutoEngine:
    """The interpreter, with CmdStan for programs and options that it does not support."""

    name = "stanli"
    uses = NUTS_USES

    def identify(self, program: Program) -> Identity:
        """Return what identifies the draws of the interpreter, which is tried first."""
        return StanliEngine().identify(program)

    def load(self, program: Program) -> LoadedProgram:
        """Load a program with the interpreter, or compile it if the interpreter cannot run it."""
        return _EitherProgram(program)


class _EitherProgram:
    """A program that is interpreted, or compiled if the interpreter lacks a feature for it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        try:
            self._take(StanliEngine().load(program))
        except EngineLacksError as lack:
            self._compile(lack)

    def _take(self, loaded: LoadedProgram) -> None:
        self._loaded = loaded
        self.engine, self.key = loaded.engine, loaded.key
        self.versions, self.source = loaded.versions, loaded.source

    def _compile(self, lack: EngineLacksError) -> None:
        from pyflowers.engines.cmdstan import CmdStanEngine
        from pyflowers.toolchain import find_cmdstan

        logger.warning("%s; using CmdStan instead", lack)
        self._take(CmdStanEngine(find_cmdstan()).load(self._program))

    def sample(self, data: Mapping[str, Any], options: SamplerOptions, **run: Any) -> Sample:
        """See :class:`~pyflowers.engines.base.LoadedProgram`."""
        try:
            return self._loaded.sample(data, options, **run)
        except EngineLacksError as lack:
            if self.engine == "cmdstan":
                raise
            self._compile(lack)
            return self._loaded.sample(data, options, **run)
