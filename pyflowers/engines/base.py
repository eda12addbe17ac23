"""The seam between programs and what samples them.

An engine loads a program once and samples it often. What it cannot do it says with
:class:`EngineLacksError`; nothing above this package asks which engine it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyflowers.display import INTERVAL
from pyflowers.engines.options import SamplerOptions
from pyflowers.errors import FitError
from pyflowers.programs import Program
from pyflowers.programs.source import Source

Keep = Mapping[str, NDArray[np.int64] | None]
"""Variables, and of each the positions of the elements; None is all of them."""


class EngineLacksError(FitError):
    """An engine cannot do what is asked of it, and another can."""


class ProcessLostError(FitError):
    """The process that ran Stan ended before it answered; the program may not be at fault."""


@dataclass(frozen=True)
class Sample:
    """What a sampler returned.

    Attributes
    ----------
    draws : mapping
        Each variable of the program, shaped (chain, draw, …).
    stats : mapping
        Each sampler statistic by Stan's name, shaped (chain, draw).
    messages : mapping or None
        What Stan said while it rejected proposals, and how often it said each; None where the
        engine does not report them.
    failures : mapping
        What Stan said of draws whose generated quantities failed, and how often.
    chain_times : tuple of mapping
        Seconds of each chain: ``warmup`` and ``sampling``.
    wall_time : float
        Seconds for all chains.
    streamed : mapping of str to mapping of str to array, shape (element,)
        For each quantity whose draws are not all kept, what
        :func:`pyflowers.convergence.statistics` says of all its elements.
    independent : mapping of str to float, or None
        Measurements by a sampler of independent draws; None for Markov chains.
    """

    draws: Mapping[str, NDArray[np.float64]]
    stats: Mapping[str, NDArray[np.float64]]
    messages: Mapping[str, int] | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    chain_times: tuple[Mapping[str, float], ...] = ()
    wall_time: float = 0.0
    streamed: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)
    independent: Mapping[str, float] | None = None


class LoadedProgram(Protocol):
    """A program that an engine has made ready."""

    @property
    def engine(self) -> str:
        """The engine's name."""

    @property
    def key(self) -> str:
        """Digest of all that determines draws, besides data and options."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Stan, of the engine and of what it was built with."""

    @property
    def source(self) -> Source:
        """The program."""

    def sample(
        self,
        data: Mapping[str, Any],
        options: SamplerOptions,
        *,
        cores: int | None = None,
        inits: Any = None,
        keep: Keep | None = None,
        interval: float = INTERVAL,
        show_progress: bool = False,
    ) -> Sample:
        """Run the chains, as many at once as there are usable cores.

        Parameters
        ----------
        data : mapping
            The data block.
        options : SamplerOptions
            How to sample.
        cores : int, optional
            How many to use: chains that run at once, or threads that draw independently.
        inits
            Initial values as CmdStanPy takes them.
        keep : mapping of str to array of int or None, optional
            Variables to return, and of each the positions of the elements; None is all of them.
            All variables by default.
        interval : float
            Probability of the central interval in the summaries of what is not kept.
        show_progress : bool
            Whether to draw a bar for each chain.

        Raises
        ------
        FitError
            If any chain fails, with Stan's message; there is no result with fewer chains.
        EngineLacksError
            If this engine cannot do it.
        """


class Engine(Protocol):
    """What samples programs."""

    @property
    def name(self) -> str:
        """``cmdstan``, ``stanli`` or ``exact``."""

    @property
    def uses(self) -> frozenset[str]:
        """The options that mean something to it.

        Those of :class:`SamplerOptions`, and of a fit ``centered``, ``inits`` and ``cores``.
        """

    def load(self, program: Program) -> LoadedProgram:
        """Make a program ready.

        Raises
        ------
        CompileError
            If it is not a valid program.
        ToolchainError
            If the engine itself is not available.
        EngineLacksError
            If the program is valid and this engine cannot run it.
        ConfigError
            If the program lacks the capability that this engine needs.
        """


def variables_of(
    columns: Iterable[str], draws: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return the variables of draws shaped (chain, draw, column), by their names in Stan's CSV."""
    import stanio

    header = ",".join(columns)
    return {
        name: np.ascontiguousarray(variable.extract_reshape(draws))
        for name, variable in (stanio.parse_header(header) if header else {}).items()
    }
