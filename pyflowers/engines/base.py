"""The interface between programs and engines, and the sampler's options.

An engine loads a program once and samples it any number of times. If it cannot do what is
requested, it raises an error, such as :class:`EngineLacksError`, so callers need not know which
engine they use.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import stanio
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, Strict

from pyflowers.advice import worded
from pyflowers.digests import digest_of
from pyflowers.display import INTERVAL
from pyflowers.errors import ConfigError, FitError, UnusedOptionError
from pyflowers.programs import Program
from pyflowers.programs.source import Declared, Source
from pyflowers.records import Record, asked

EngineName = Literal["auto", "cmdstan", "stanli", "exact"]

ENGINES: dict[str, str] = {
    "cmdstan": "cmdstan",
    "stanli": "stanli (a Stan interpreter that needs no compiler)",
    "exact": "exact (draws without a Markov chain, for programs and formulas that allow it)",
    "auto": "or auto (cmdstan for a program whose executable is ready, otherwise stanli)",
}
"""The help text for each engine, in the order in which the help lists them.

The module named after an engine in this package defines its ``ENGINE``. ``find_engine`` treats only
two names as special cases: ``cmdstan``, which needs a CmdStan installation, and ``auto``, which
chooses between ``cmdstan`` and ``stanli``.
"""

COMPILED_STAN = (
    "You need no compiler: a Stan interpreter is included. For large data, and for work that you "
    "publish, pyflowers setup adds compiled Stan (CmdStan), and --engine cmdstan uses it."
)
"""When to use CmdStan: the text in the help, ``pyflowers doctor``, the README and the docs."""

LARGEST_SEED = 2**32 - 1
"""The largest seed; Stan's seeds are unsigned 32-bit integers."""

_MANY = 2**31 - 1


def _of_python(value: Any) -> Any:
    """Return a NumPy number as a Python number; return any other value unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    return value


Whole = Annotated[int, Strict(), BeforeValidator(_of_python)]
"""A whole number of a Python or NumPy type."""

_Float = Annotated[float, Strict(), BeforeValidator(_of_python)]


ESTIMATED = ("pilot", "laplace")
"""The metrics that the engine ``stanli`` estimates before the chains run. If that fails, they run
with ``diag_e``."""


class SamplerOptions(Record):
    """Options of the sampler.

    Attributes
    ----------
    seed : int
        Seed of all random numbers, 0 to 2³² − 1; 0 has no special meaning.
    chains : int
        Number of chains.
    warmup, draws : int
        Iterations of each chain during adaptation and after it.
    thin : int
        Keep every `thin`-th of the `draws` iterations. Divergences, tree depth and E-BFMI refer to
        all iterations.
    adapt_delta : float
        Target acceptance statistic of the step size adaptation.
    max_treedepth : int
        Maximum depth of a NUTS tree.
    metric : str
        Form of NUTS's inverse metric: ``diag_e``, a variance for each parameter; ``dense_e``, a
        covariance matrix, which suits strongly correlated posteriors of up to a few hundred
        parameters; or ``unit_e``, the identity, which is not adapted. The engine ``stanli`` has two
        more, which are not adapted, so that the warm-up only tunes the step size: ``pilot``, a
        variance for each parameter from short pilot runs of all chains, and ``laplace``, the
        covariance matrix of a Laplace approximation, from which the initial values are drawn. If
        the pilot runs disagree, if no mode is found, or if ``laplace`` has more than 1,000
        parameters, the chains run as with ``diag_e``.
    keep : tuple of str
        For the engine ``exact``: quantities, or elements such as ``mu_plant[2]``, whose draws are
        kept; other group quantities are only summarised. If empty, all draws of group quantities
        are kept, or none if there are more than 50 million.
    """

    seed: Whole = Field(ge=0, le=LARGEST_SEED)
    chains: Whole = Field(default=4, ge=1, le=10_000, description="Number of chains.")
    warmup: Whole = Field(default=1000, ge=0, le=_MANY, description="Warm-up iterations per chain.")
    draws: Whole = Field(
        default=1000, ge=1, le=_MANY, description="Iterations per chain after warm-up."
    )
    thin: Whole = Field(
        default=1, ge=1, le=_MANY, description="Keep only every n-th iteration after warm-up."
    )
    adapt_delta: _Float = Field(default=0.9, gt=0, lt=1, description="Target acceptance statistic.")
    max_treedepth: Whole = Field(default=10, ge=1, le=30, description="Maximum NUTS tree depth.")
    metric: Literal["diag_e", "dense_e", "unit_e", "pilot", "laplace"] = Field(
        default="diag_e",
        description="Inverse metric of NUTS: diagonal, dense or the identity. With the engine "
        "stanli, two more replace most of the warm-up: diagonal from short pilot runs, for simple "
        "posteriors, or dense from a Laplace approximation, for correlated ones.",
    )
    keep: tuple[str, ...] = asked(
        "For the engine exact: quantities or elements whose draws are kept; other group quantities "
        "are only summarised.",
        (),
        unset="all draws, or none if there are more than 50 million",
        metavar="NAME",
    )

    @classmethod
    def of(cls, seed: int | None = None, **options: Any) -> Self:
        """Return options, with a new seed if none is given.

        Raises
        ------
        ConfigError
            If an option cannot be used; the message names it.
        """
        if seed is None:
            seed = new_seed()
        return cls.parse({"seed": seed, **options}, "")

    def of_engine(self, used: Collection[str]) -> Self:
        """Return the options that an engine uses, each set explicitly, for a record."""
        return type(self)(**{name: getattr(self, name) for name in self.fields() if name in used})

    @classmethod
    def fields(cls) -> frozenset[str]:
        """Return the names of all options."""
        return frozenset(cls.model_fields)


NUTS_USES = (SamplerOptions.fields() - {"keep"}) | {"centered", "inits", "cores"}
"""The options that Stan's NUTS uses."""


def refuse_unused(engine: str, used: Collection[str], given: Collection[str]) -> None:
    """Reject given options that an engine does not use.

    Raises
    ------
    UnusedOptionError
        If there is such an option; the message names the first one.
    """
    for name in given:
        if name not in used:
            known = ", ".join(sorted(used))
            raise UnusedOptionError(
                f"{name} is not used by the engine {engine}, which takes {known}; leave it out"
            )


def read_inits(inits: Any) -> Any:
    """Return initial values, reading those that are given as files; a sequence becomes a list.

    Files are read here, because CmdStan assumes R's format for a file whose name does not end in
    .json, and skips contents that it cannot read.

    Raises
    ------
    ConfigError
        If a file cannot be read or is not a JSON object.
    """
    if isinstance(inits, list | tuple):
        return [read_inits(each) for each in inits]
    if not isinstance(inits, str | Path):
        return inits
    try:
        values = json.loads(Path(inits).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"inits {inits} cannot be read ({error.strerror}); check the path"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"inits {inits} is not a JSON file ({error}); correct it") from error
    if not isinstance(values, Mapping):
        raise ConfigError(f"inits {inits}: expected a JSON object of parameter values; correct it")
    return values


def new_seed() -> int:
    """Draw a seed from the full range, using the operating system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])


Keep = Mapping[str, NDArray[np.int64] | None]
"""Variables to keep, each with the positions of the kept elements; None means all elements."""


class ChainProgress(NamedTuple):
    """The progress of a chain.

    Attributes
    ----------
    chain : int
        Its number, from 1.
    iteration : int
        The number of iterations done, or an upper limit if `is_exact` is False.
    total : int
        The total number of iterations, including the warm-up.
    is_warmup : bool
        Whether the chain is in its warm-up.
    is_exact : bool
        Whether `iteration` is exact. An engine that cannot count the iterations of the warm-up
        reports all of them as done.
    """

    chain: int
    iteration: int
    total: int
    is_warmup: bool
    is_exact: bool = True


Watch = Callable[[Sequence[ChainProgress]], object]
"""Function that is called while chains run, in any thread, with the progress of each chain that has
started."""


class EngineLacksError(FitError):
    """An engine cannot do what was requested, but another engine can."""


class ProcessLostError(FitError):
    """The process that ran Stan ended without a result, perhaps for an external reason."""


WARM_UP = 100
"""The maximum number of warm-up iterations for chains that start from a :class:`State`. They tune
the step size; Stan does not adapt the metric in fewer than 150 iterations."""


@dataclass(frozen=True)
class State:
    """Where the chains of a fit ended, with step sizes and metrics: a start for other chains.

    Attributes
    ----------
    values : mapping of str to array, shape (chain, …)
        The last value of each parameter that has elements, including those that no table shows,
        such as standardised effects.
    step_size : array, shape (chain,)
        The step size of each chain.
    inv_metric : array, shape (chain, n) or (chain, n, n), or None
        The inverse metric of each chain for its n unconstrained parameters; None for the identity.
    fit : str
        The name of the fit in messages: its run folder or its model.
    """

    values: Mapping[str, NDArray[np.float64]]
    step_size: NDArray[np.float64]
    inv_metric: NDArray[np.float64] | None
    fit: str = ""

    @property
    def inits(self) -> list[dict[str, NDArray[np.float64]]]:
        """The initial values of each chain: the last values of the chain that it continues."""
        num = len(self.step_size)
        return [{name: its[i] for name, its in self.values.items()} for i in range(num)]

    @property
    def metric(self) -> str:
        """The form of the metric, as in :class:`SamplerOptions`."""
        if self.inv_metric is None:
            return "unit_e"
        return {2: "diag_e", 3: "dense_e"}[self.inv_metric.ndim]

    @property
    def sha256(self) -> str:
        """Digest of everything through which this state affects the chains that start from it."""
        return digest_of([self.values, self.step_size, self.inv_metric, WARM_UP])

    def shortened(self, options: SamplerOptions) -> SamplerOptions:
        """Return options with the short warm-up of chains that start from a state."""
        return options.model_copy(update={"warmup": min(options.warmup, WARM_UP)})


def state_of(
    columns: Sequence[str],
    last: NDArray[np.float64],
    parameters: Declared,
    step_size: NDArray[np.float64],
    inv_metric: NDArray[np.float64] | None,
) -> State | None:
    """Return the final state of the chains; None if a parameter is a tuple or complex.

    Parameters
    ----------
    columns : sequence of str
        The names of the columns of a draw, as in Stan's CSV files.
    last : array, shape (chain, column)
        The last draw of each chain.
    parameters : mapping of str to Variable
        The program's parameters, by name.
    step_size, inv_metric
        See :class:`State`.
    """
    kinds = {variable.kind for variable in parameters.values()}
    if any(kind == "tuple" or kind.startswith("complex") for kind in kinds):
        return None
    own = [i for i, name in enumerate(columns) if name.partition(".")[0] in parameters]
    found = variables_of([columns[i] for i in own], last[:, None, own])
    return State({name: its[:, 0] for name, its in found.items()}, step_size, inv_metric)


@dataclass(frozen=True)
class Sample:
    """The result of a sampler.

    Attributes
    ----------
    draws : mapping
        Draws of each variable that was kept, shaped (chain, draw, …).
    stats : mapping
        Each sampler statistic by Stan's name, shaped (chain, iteration); empty without Markov
        chains. Thinning leaves out draws, but no statistics.
    messages : mapping or None
        Stan's messages for rejected proposals, each with its count; None if the engine does not
        report them.
    failures : mapping
        Stan's messages for draws whose generated quantities failed, each with its count.
    chain_times : tuple of mapping
        Times of each chain in seconds: ``warmup``, ``sampling`` and ``total``.
    wall_time : float
        Elapsed time for all chains, in seconds.
    streamed : mapping of str to mapping of str to array, shape (element,)
        For each quantity whose draws are not all kept, the results of
        :func:`pyflowers.convergence.statistics` for all elements of the quantity.
    independent : mapping of str to float, or None
        Measurements that a sampler without Markov chains reports; None for Markov chains.
    weighted : bool
        Whether the draws were resampled from weighted points, and so are not independent.
    metric_held : bool or None
        Whether an estimated metric was held: pilot runs agreed, or a Laplace approximation was
        found; None for other metrics.
    end : State or None
        The final state of the chains; None if other chains cannot start from it.
    """

    draws: Mapping[str, NDArray[np.float64]]
    stats: Mapping[str, NDArray[np.float64]]
    messages: Mapping[str, int] | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    chain_times: tuple[Mapping[str, float], ...] = ()
    wall_time: float = 0.0
    streamed: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)
    independent: Mapping[str, float] | None = None
    weighted: bool = False
    metric_held: bool | None = None
    end: State | None = None


class Identity(Protocol):
    """What identifies an engine's draws from a program, apart from the data and the options."""

    @property
    def engine(self) -> str:
        """The engine's name."""

    @property
    def key(self) -> str:
        """Digest of everything that determines the draws, except data and options."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Stan, the engine and the tools that built it."""


class LoadedProgram(Identity, Protocol):
    """A program that an engine has loaded."""

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
        watch: Watch | None = None,
    ) -> Sample:
        """Run the chains, as many at a time as `cores` allows.

        Parameters
        ----------
        data : mapping
            The data block.
        options : SamplerOptions
            Options of the sampler.
        cores : int, optional
            Number of cores, for chains that run at the same time or for threads of the engine
            ``exact``. Default: all usable cores.
        inits
            Initial values in any form that CmdStanPy accepts, or a :class:`State`. Default: random.
        keep : mapping of str to array of int or None, optional
            Variables to return, each with the positions of the elements to return; None means all
            elements. Default: all variables.
        interval : float
            Probability of the central interval in summaries of quantities whose draws are not all
            kept.
        show_progress : bool
            Whether to show progress bars, one for each chain if there are chains.
        watch : callable, optional
            See :data:`Watch`. It is not called without Markov chains.

        Raises
        ------
        FitError
            If any chain fails; the message is Stan's. A result always has all chains.
        EngineLacksError
            If this engine cannot do what is requested.
        ConfigError
            If the initial values or the program's closed form cannot be used.
        """


class Engine(Protocol):
    """An engine, which loads programs for sampling."""

    @property
    def name(self) -> str:
        """The engine's name, a key of :data:`ENGINES`."""

    @property
    def uses(self) -> frozenset[str]:
        """The options that this engine uses.

        Each is an option of :class:`SamplerOptions`, or ``centered``, ``inits`` or ``cores``.
        """

    def identify(self, program: Program) -> Identity:
        """Return what identifies the draws, without compiling, interpreting or checking a program.

        Raises
        ------
        ToolchainError
            If the engine itself is not available.
        ConfigError
            If the program lacks the capability that this engine needs.
        """

    def load(self, program: Program) -> LoadedProgram:
        """Load a program.

        Raises
        ------
        CompileError
            If the program is not valid.
        ToolchainError
            If the engine itself is not available.
        EngineLacksError
            If the program is valid, but this engine cannot run it.
        ConfigError
            If the program lacks the capability that this engine needs.
        """


VALUE = re.compile(r" is -?\d[\d.e+-]*(?=[, ]|$)")
"""A value in a message from Stan."""


def no_start(reasons: Iterable[str]) -> str:
    """Return the message for chains without valid initial values, with the most common reason."""
    counts = Counter(VALUE.sub(" is …", reason) for reason in reasons)
    if counts:
        reason = max(counts, key=counts.__getitem__)
    else:
        reason = "the log density or its gradient is not finite"
    return (
        f"no starting point found: a chain's initial values were all rejected, most often with "
        f"{reason!r}; constrain the parameter or correct the data that caused this, or give "
        + worded("initial values with --inits")
    )


def variables_of(
    columns: Iterable[str], draws: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return the variables in draws of shape (chain, draw, column), given the CSV column names."""
    header = ",".join(columns)
    if not header:
        return {}
    return {
        name: np.ascontiguousarray(variable.extract_reshape(draws))
        for name, variable in stanio.parse_header(header).items()
    }
