"""The reference engine: CmdStanPy with an official CmdStan or the embedded one."""

from __future__ import annotations

import logging
import re
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import stanio

from pyflowers.cores import usable_cores
from pyflowers.display import INTERVAL
from pyflowers.engines.base import (
    ESTIMATED,
    NUTS_USES,
    VALUE,
    ChainProgress,
    Keep,
    Sample,
    SamplerOptions,
    State,
    Watch,
    no_start,
    read_inits,
    state_of,
    variables_of,
)
from pyflowers.errors import FitError
from pyflowers.programs import Program
from pyflowers.programs.source import Source
from pyflowers.storage import temporary_folder
from pyflowers.toolchain import CmdStan, Executable, compile_source, executable_of
from pyflowers.toolchain.compiler import compiler_version
from pyflowers.toolchain.processes import interruptible, mortal

SIGNIFICANT_FIGURES = 18
"""Significant digits of each draw, enough to recover the same double from text."""


SECONDS_BETWEEN = 5.0
"""The time in seconds between two readings of the running chains' files."""


@dataclass(frozen=True)
class CmdStanEngine:
    """The engine that compiles programs with CmdStan."""

    cmdstan: CmdStan
    name: str = "cmdstan"
    uses: frozenset[str] = NUTS_USES

    def identify(self, program: Program) -> CmdStanProgram:
        """Return the program with its executable, which may not have been built yet."""
        return CmdStanProgram(executable_of(program.source, self.cmdstan))

    def load(self, program: Program) -> CmdStanProgram:
        """Return the compiled program, compiling it first if necessary."""
        return CmdStanProgram(compile_source(program.source, cmdstan=self.cmdstan))


@dataclass(frozen=True)
class CmdStanProgram:
    """A compiled program, ready to sample."""

    executable: Executable
    engine: str = "cmdstan"

    @property
    def key(self) -> str:
        """Digest of the program, the options for compiling it, CmdStan and the compiler."""
        return self.executable.key

    @property
    def source(self) -> Source:
        """The program."""
        return self.executable.source

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Stan, CmdStan and the compiler."""
        cmdstan = self.executable.cmdstan
        return {
            "stan": cmdstan.version,
            "cmdstan": f"{cmdstan.origin} ({cmdstan.identity})",
            "compiler": compiler_version(),
        }

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
        given: dict[str, Any] = {"inits": read_inits(inits)}
        if isinstance(inits, State):
            options = inits.shortened(options)
            given = {"inits": inits.inits, "step_size": inits.step_size.tolist()}
            if inits.inv_metric is not None:
                given["inv_metric"] = list(inits.inv_metric)
        arguments = {
            **given,
            **options.model_dump(include={"chains", "seed"}),
            **_sampler(options, has_parameters=bool(self.source.blocks.parameters)),
            "iter_sampling": options.draws,
            "parallel_chains": min(cores or usable_cores(), options.chains),
            "show_progress": show_progress,
        }
        with running(self.executable, data) as (model, common, folder):
            started = time.perf_counter()
            with _watched(folder, options, watch):
                mcmc = interruptible(lambda: model.sample(**common, **arguments))
            wall_time = time.perf_counter() - started
            sample = _read(mcmc, folder, keep, options.thin, wall_time)
            return replace(sample, end=_end(mcmc.runset.csv_files, self.source))


@contextmanager
def _watched(folder: Path, options: SamplerOptions, watch: Watch | None) -> Iterator[None]:
    """Report the progress of the chains.

    A chain writes a line for each draw, but none during the warm-up, so progress can be reported
    only after the warm-up.
    """
    if watch is None:
        yield
        return
    done, total = threading.Event(), options.warmup + options.draws
    read = dict[Path, tuple[int, int]]()

    def progress(file: Path) -> ChainProgress:
        read[file] = num, _ = _draws_written(file, *read.get(file, (0, 0)))
        chain = 1
        if options.chains > 1:
            chain = int(file.stem.rpartition("_")[2])
        in_warmup = num == 0
        return ChainProgress(chain, options.warmup + num, total, in_warmup, not in_warmup)

    def report() -> None:
        while not done.wait(SECONDS_BETWEEN):
            watch(sorted(map(progress, folder.glob("*.csv"))))

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _draws_written(file: Path, num: int, end: int) -> tuple[int, int]:
    """Return the number of draws in a chain's file, and the position where the last one ends.

    An earlier call read the file up to `end` and found `num` draws.
    """
    with file.open("rb") as lines:
        lines.seek(end)
        for line in lines:
            if not line.endswith(b"\n"):  # it is being written
                break
            end += len(line)
            num += not line.startswith((b"#", b"lp__"))
    return num, end


def _sampler(options: SamplerOptions, *, has_parameters: bool) -> dict[str, Any]:
    """Return CmdStanPy's options for NUTS, or for a program without parameters."""
    if not has_parameters:
        return {"fixed_param": True, "iter_warmup": 0, "adapt_engaged": False}
    found: dict[str, Any] = {
        "iter_warmup": options.warmup,
        "max_treedepth": options.max_treedepth,
        "metric": options.metric,
        "adapt_engaged": options.warmup > 0,
    }
    if options.metric in ESTIMATED:  # the engine auto may choose CmdStan, which has none of them
        found["metric"] = "diag_e"
    if options.warmup:
        found["adapt_delta"] = options.adapt_delta
    return found


def import_cmdstanpy() -> Any:
    """Import CmdStanPy only when it is needed, because the import takes a third of a second."""
    with warnings.catch_warnings():
        # In a notebook without ipywidgets, tqdm warns and draws its bars as text.
        warnings.filterwarnings("ignore", message="IProgress not found")
        import cmdstanpy
    return cmdstanpy


_calls: list[None] = []
"""One entry for each running call of CmdStanPy, in any thread."""


def _is_wanted(_: logging.LogRecord) -> bool:
    return not _calls


@contextmanager
def running(
    executable: Executable, data: Mapping[str, Any], what: str = ""
) -> Iterator[tuple[Any, dict[str, Any], Path]]:
    """Yield CmdStanPy's model, the arguments common to its methods, and the output folder.

    CmdStanPy's log is silenced, because the problems that it reports are raised as errors.

    Raises
    ------
    FitError
        If Stan stops; the message is `what` followed by Stan's message.
    """
    with temporary_folder() as folder, mortal(executable.path, folder) as program:
        # The import also creates a folder under TMPDIR; temporary_folder() has checked TMPDIR.
        cmdstanpy = import_cmdstanpy()
        # Adding the same filter twice has no effect, so it is added in every call.
        logging.getLogger("cmdstanpy").addFilter(_is_wanted)
        _calls.append(None)
        try:
            options: dict[str, Any] = {"output_dir": str(folder), "sig_figs": SIGNIFICANT_FIGURES}
            if data:  # written once for all chains
                options["data"] = str(folder / "data.json")
                stanio.write_stan_json(options["data"], data)
            yield cmdstanpy.CmdStanModel(exe_file=program), options, folder
        except (RuntimeError, ValueError) as error:
            words = last_words(consoles(folder))
            reason = words or f"Stan stopped early: {str(error).splitlines()[0]}"
            raise FitError(what + reason) from error
        finally:
            _calls.pop()


def _read(
    mcmc: Any, folder: Path, keep: Collection[str] | None, thin: int, wall_time: float
) -> Sample:
    """Read the chains' files, which CmdStanPy has checked for completeness.

    pandas reads them four times as fast as CmdStanPy, and reads only the columns that are kept.
    """

    def wanted(column: str) -> bool:
        name = column.partition(".")[0]
        return keep is None or name.endswith("__") or name in keep

    files = mcmc.runset.csv_files
    chains = [pd.read_csv(file, comment="#", usecols=wanted) for file in files]
    array = np.stack([chain.to_numpy(np.float64) for chain in chains])
    values = variables_of(chains[0].columns, array)
    draws = {name: its[:, ::thin] for name, its in values.items() if not name.endswith("__")}
    stats = {name: value for name, value in values.items() if name.endswith("__")}
    messages = count_messages(consoles(folder))
    return Sample(draws, stats, *messages, tuple(mcmc.time), wall_time)


_INVERSE = re.compile(r"# (Diagonal e|E)lements of inverse mass matrix:")


def _end(files: Iterable[str], source: Source) -> State | None:
    """Return the final state of the chains; None without adaptation."""
    lasts, metrics, names = list[list[float]](), list[Any](), list[str]()
    for file in files:
        with Path(file).open(encoding="utf-8") as lines:
            comments, rows = list[str](), deque[str](maxlen=1)
            for line in lines:
                if line.startswith("#"):
                    comments.append(line)
                elif line.startswith("lp__"):
                    names = line.strip().split(",")
                elif line.strip():
                    rows.append(line)
        lasts.append([float(value) for value in rows[0].split(",")])
        if (metric := _inv_metric(comments)) is not None:
            metrics.append(metric)
    last, inv_metric = np.array(lasts), None
    if metrics:
        inv_metric = np.array(metrics)
    elif not any("metric = unit_e" in line for line in comments):
        return None
    step_size = last[:, names.index("stepsize__")]
    return state_of(names, last, source.blocks.parameters, step_size, inv_metric)


def _inv_metric(comments: Iterable[str]) -> list[Any] | None:
    """Return the inverse metric in the comments of a chain's file; None if there is none."""
    lines = iter(comments)
    found = next(filter(None, map(_INVERSE.match, lines)), None)
    if found is None:
        return None
    rows = list[list[float]]()
    for line in lines:
        try:
            rows.append([float(value) for value in line.removeprefix("#").split(",")])
        except ValueError:  # the next comments are the times
            break
    if found[1] == "E":
        return rows
    return rows[0]


def consoles(folder: Path) -> list[str]:
    """Return Stan's console output: the text of each console file in a folder."""
    files = sorted(folder.glob("*.txt"))
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


_SETTING = re.compile(r"\s*\w+ = ")
_REJECTION = re.compile(r"Informational Message: .* proposal")
_AT_INITIAL = "  Error evaluating the log probability at the initial value."
_STAN_SAID = re.compile(
    r"exception|error|reject|initialization|failed|cannot|must be|not found|does not|no space",
    re.IGNORECASE,
)


def count_messages(consoles: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Count Stan's messages during sampling, after removing values and locations in the program.

    Messages about rejected initial values are not counted, because Stan then draws new ones.

    Returns
    -------
    rejections : dict of str to int
        The messages for rejected proposals.
    failures : dict of str to int
        The messages for draws whose generated quantities failed; these draws are kept.
    """
    rejections, failures = Counter[str](), Counter[str]()
    for console in consoles:
        before = ""
        for line in console.splitlines():
            if re.match("(Exception|Error): ", line) and before != _AT_INITIAL:
                message = re.sub(r" \(in .*$", "", line.partition(": ")[2]).strip()
                message = VALUE.sub(" is …", message)
                if _REJECTION.match(before):
                    rejections[message] += 1
                else:
                    failures[message] += 1
            before = line
    return dict(rejections), dict(failures)


def last_words(consoles: Iterable[str], most: int = 6) -> str:
    """Return why Stan stopped: a sentence if no chain could start, otherwise Stan's last messages.

    The result is empty if Stan printed no reason.
    """
    texts = list(consoles)
    if any("Initialization failed." in text for text in texts):
        lines = [line for text in texts for line in text.splitlines()]
        return no_start(
            line.removeprefix("Exception: ")
            for before, line in pairwise(lines)
            if before == _AT_INITIAL
        )
    sentences: dict[str, None] = {}
    for console in texts:
        for line in console.splitlines():
            if _STAN_SAID.search(line) and not _SETTING.match(line):
                sentences.setdefault(line.strip())
    if sentences:
        return f"Stan stopped early: {' | '.join(list(sentences)[-most:])}"
    return ""
