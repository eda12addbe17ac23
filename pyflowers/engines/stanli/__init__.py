"""The engine ``stanli``: a Stan interpreter with Stan's own NUTS, in a separate process.

The interpreter needs no compiler. It is alpha software by a single author, so its version is pinned
and it runs only in worker processes. A request that it cannot satisfy raises an error; the engine
``auto`` then uses CmdStan.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np
from tqdm import tqdm

from pyflowers.cores import usable_cores
from pyflowers.digests import digest
from pyflowers.display import INTERVAL
from pyflowers.engines.base import (
    ESTIMATED,
    NUTS_USES,
    ChainProgress,
    EngineLacksError,
    Keep,
    ProcessLostError,
    Sample,
    SamplerOptions,
    State,
    Watch,
    no_start,
    read_inits,
    state_of,
    variables_of,
)
from pyflowers.engines.stanli.messages import UNAVAILABLE, Answer, Question
from pyflowers.engines.workers import Worker, WorkerEndedError, borrowed
from pyflowers.errors import CompileError, ConfigError, FitError, ToolchainError
from pyflowers.programs import Program
from pyflowers.programs.source import Source
from pyflowers.resources import version

MODULE = "pyflowers.engines.stanli.worker"

STEPS_SHOWN, STEPS_WATCHED = 100, 25
"""The number of progress messages from each chain, with and without a progress bar.

A hundred messages added 3 ms to a fit.
"""

_here: Callable[[Question], Answer] | None = None
"""The function that calls the interpreter in this process, or None if only workers may do so."""


def _ignored(progress: ChainProgress) -> None:
    """Do nothing."""


def ask(
    kind: str,
    source: Source,
    *,
    worker: Worker | None = None,
    bars: int = 0,
    report: Callable[[ChainProgress], object] = _ignored,
    **values: Any,
) -> Answer:
    """Call the interpreter, in a worker or, after :func:`interpret_here`, in this process.

    Parameters
    ----------
    kind : str
        The name of the interpreter's method.
    source : Source
        The program.
    worker : Worker, optional
        A worker that keeps its state between calls.
    bars : int
        Number of chains with a progress bar.
    report : callable
        Function that is called with the progress of each chain.
    **values
        The arguments of the interpreter's method.

    Raises
    ------
    ProcessLostError
        If the worker ends before it returns a result.
    """
    question = kind, source.text, source.sha256, values
    # In each process, only the main thread calls the interpreter.
    is_main = threading.current_thread() is threading.main_thread()
    if worker is None and _here is not None and is_main:
        return _here(question)
    if worker is None:
        with borrowed(MODULE) as one:
            return ask(kind, source, worker=one, bars=bars, report=report, **values)
    with _bars(bars) as show:
        worker.send(question)
        try:
            while isinstance(message := worker.receive(), ChainProgress):
                show(message)
                report(message)
        except WorkerEndedError as ended:
            raise ProcessLostError(
                f"the Stan interpreter {ended}; run again, or use --engine cmdstan"
            ) from ended
        answer: Answer = message
        return answer


def interpret_here() -> None:
    """Run the interpreter in this process from now on; if it crashes, the process ends.

    This applies to calls from the main thread without a worker.
    """
    from pyflowers.engines.stanli.worker import Interpreter

    global _here
    _here = Interpreter().answer


@contextmanager
def _bars(chains: int) -> Iterator[Callable[[ChainProgress], None]]:
    """Yield a function that shows a :class:`ChainProgress` in the bar of its chain."""
    if not chains:
        yield lambda _: None
        return
    bars = [tqdm(total=1, desc=f"chain {i + 1}", leave=False) for i in range(chains)]

    def show(progress: ChainProgress) -> None:
        bar = bars[progress.chain - 1]
        bar.total = progress.total
        phase = "sampling"
        if progress.is_warmup:
            phase = "warm-up"
        bar.set_postfix_str(phase, refresh=False)
        bar.update(progress.iteration - bar.n)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()


def _reporting(watch: Watch | None) -> Callable[[ChainProgress], object]:
    """Return a function that takes the progress of one chain and reports the progress of all."""
    if watch is None:
        return _ignored
    latest: dict[int, ChainProgress] = {}

    def report(progress: ChainProgress) -> None:
        latest[progress.chain] = progress
        watch([latest[chain] for chain in sorted(latest)])

    return report


@cache
def stanli_is_installed() -> bool:
    """Whether the interpreter is installed."""
    return find_spec("stanli") is not None


@dataclass(frozen=True)
class StanliEngine:
    """The engine that interprets programs."""

    name: str = "stanli"
    uses: frozenset[str] = NUTS_USES

    def identify(self, program: Program) -> StanliProgram:
        """Return the program, which is not checked, with the build of the interpreter."""
        _require()
        import stanli

        return StanliProgram(program.source, stanli.build_id())

    def load(self, program: Program) -> StanliProgram:
        """Check and load a program; see :func:`interpreted`."""
        return interpreted(program.source)


ENGINE = StanliEngine()


def interpreted(source: Source) -> StanliProgram:
    """Check a program's text and load it.

    Raises
    ------
    CompileError
        If the program is not valid; the message is stanc's.
    EngineLacksError
        If the program is valid, but the interpreter cannot run it.
    ToolchainError
        If the interpreter is not installed.
    """
    _require()
    values, error = ask("load", source)
    if error:
        message = error.replace("'string'", source.path.name).strip()
        raise lack(source, error) or CompileError(f"{source.path} does not compile:\n{message}")
    reused = source.reused_counters()
    if reused:  # stanli 0.24 confuses the loop variable with an int of the same name
        raise EngineLacksError(
            f"the interpreter stanli confuses the loop variable {reused[0]} of "
            f"{source.called} with the variable of the same name in transformed data, but "
            "CmdStan does not; to use stanli, rename one of them"
        )
    if not source.blocks.parameters:
        raise EngineLacksError(
            f"{source.called} has no parameters, and the interpreter stanli cannot run such a "
            "program; CmdStan can"
        )
    return StanliProgram(source, values["build"])


def _require() -> None:
    """Raise an error if the interpreter is not installed."""
    if not stanli_is_installed():
        raise ToolchainError(
            "the engine stanli is not installed; run pip install stanli, or use --engine cmdstan"
        )


@dataclass(frozen=True)
class StanliProgram:
    """An interpreted program, ready to sample."""

    source: Source
    build: str
    engine: str = "stanli"

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the interpreter and of its components."""
        return {"stanli": version("stanli"), "build": self.build}

    @cached_property
    def key(self) -> str:
        """Digest of the program's name and text, and of the interpreter's version and build."""
        return digest(self.source.name, self.source.sha256, version("stanli"), self.build)

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
        """See :class:`~pyflowers.engines.base.LoadedProgram`."""
        if options.metric in ESTIMATED and not options.warmup:
            raise ConfigError(
                f"metric {options.metric} needs a warm-up, during which the step size is tuned; "
                "set --warmup above 0, or use --metric diag_e"
            )
        started = time.perf_counter()
        given: dict[str, Any] = {}
        if isinstance(inits, State):
            options = inits.shortened(options)
            # The interpreter takes one step size for all chains, from which each tunes its own.
            given["step_size"] = float(inits.step_size.mean())
            if inits.inv_metric is not None:
                given["inv_metric"] = inits.inv_metric
        kept: tuple[str, ...] | None = None
        if keep is not None:
            kept = tuple(keep)
        bars = refresh = 0
        if show_progress:
            bars = options.chains
            refresh = max(1, (options.warmup + options.draws) // STEPS_SHOWN)
        elif watch is not None:
            refresh = max(1, (options.warmup + options.draws) // STEPS_WATCHED)
        values, error = ask(
            "sample",
            self.source,
            bars=bars,
            report=_reporting(watch),
            data=dict(data),
            keep=kept,
            refresh=refresh,
            parallel_chains=min(cores or usable_cores(), options.chains),
            parameters=tuple(self.source.blocks.parameters),
            seed=options.seed,
            chains=options.chains,
            max_depth=options.max_treedepth,
            thin=options.thin,
            run={
                "samples": options.draws,
                "delta": options.adapt_delta,
                "adapt_engaged": options.warmup > 0,
                **options.model_dump(include={"warmup", "metric"}),
                **given,
            },
            **_start(inits, options.chains, self.source),
        )
        if error:
            words = next(iter(error.strip().splitlines()), "no message")
            sentence = f"Stan stopped early: {words}"
            if "initialization failed" in words:
                sentence = no_start(filter(None, [words.partition("first error: ")[2]]))
            raise lack(self.source, error) or FitError(sentence)
        if values["num_lost"]:
            raise EngineLacksError(
                f"{self.source.called}: the interpreter stanli drops draws whose generated "
                f"quantities fail (number of such draws: {values['num_lost']}), but CmdStan keeps "
                "their parameters"
            )
        stats = {
            name: np.ascontiguousarray(values["stats"][:, :, i])
            for i, name in enumerate(values["stat_names"])
        }
        return Sample(
            variables_of(values["names"], values["draws"]),
            stats,
            chain_times=tuple(values["times"]),
            wall_time=time.perf_counter() - started,
            metric_held=values["metric_held"],
            end=state_of(
                values["parameter_names"],
                values["last"],
                self.source.blocks.parameters,
                values["step_size"],
                values["inv_metric"],
            ),
        )


def _start(inits: Any, chains: int, source: Source) -> dict[str, Any]:
    """Return initial values, or the radius within which they are drawn, for the interpreter.

    Raises
    ------
    ConfigError
        If they are in none of the forms that CmdStanPy accepts, or if a list has the wrong length.
    EngineLacksError
        If only some parameters have values.
    """
    if isinstance(inits, State):
        # The interpreter also needs values for parameters without elements.
        none = dict.fromkeys(source.blocks.parameters, np.empty(0))
        return {"inits": [none | one for one in inits.inits]}
    found = read_inits(inits)
    if found is None:
        return {"inits": None}
    if isinstance(found, Real) and not isinstance(found, bool):
        if not (np.isfinite(float(found)) and float(found) >= 0):
            raise ConfigError(f"inits: a radius must be finite and at least 0, got {inits!r}")
        return {"inits": None, "init_radius": float(found)}
    each = found
    if not isinstance(found, list):
        each = [found]
    if len(each) not in (1, chains):
        raise ConfigError(
            f"inits: the number of entries ({len(each)}) differs from the number of chains "
            f"({chains}); give one entry for each chain"
        )
    for values in each:
        if not isinstance(values, Mapping):
            raise ConfigError(
                "inits must be a radius, a mapping of parameters, or one mapping for each chain, "
                f"got {type(values).__name__}"
            )
        missing = [name for name in source.blocks.parameters if name not in values]
        if missing:
            raise EngineLacksError(
                f"inits: {missing[0]} has no value, and the interpreter stanli needs values for "
                "all parameters or for none; CmdStan draws the missing values at random"
            )
    arrays = [{str(k): np.asarray(value) for k, value in one.items()} for one in each]
    return {"inits": arrays * (chains // len(arrays))}


def lack(source: Source, printed: str) -> EngineLacksError | None:
    """Return the error for a feature that the interpreter lacks; None for other messages."""
    if not any(sign in printed for sign in ("unsupported", "partial inits:", UNAVAILABLE)):
        return None
    first = printed.strip().splitlines()[0]
    return EngineLacksError(
        f"the interpreter stanli cannot run {source.called} ({first}); CmdStan can"
    )
