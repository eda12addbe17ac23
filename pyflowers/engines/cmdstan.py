"""The reference engine: CmdStanPy on an official or the embedded CmdStan."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pyflowers.cores import usable_cores
from pyflowers.display import INTERVAL
from pyflowers.engines.base import Keep, Sample
from pyflowers.engines.options import NUTS_USES, SamplerOptions
from pyflowers.engines.words import count_messages, last_words
from pyflowers.errors import ConfigError, FitError
from pyflowers.programs import Program
from pyflowers.programs.source import Source
from pyflowers.storage import lasting_folder, temporary_folder
from pyflowers.toolchain import CmdStan, Executable, compile_source
from pyflowers.toolchain.compiler import compiler_version
from pyflowers.toolchain.processes import interruptible, mortal

SIGNIFICANT_FIGURES = 18
"""Digits of each draw: enough that text gives back the same double."""


@dataclass(frozen=True)
class CmdStanEngine:
    """Programs compiled by a CmdStan."""

    cmdstan: CmdStan
    name: str = "cmdstan"
    uses: frozenset[str] = NUTS_USES

    def load(self, program: Program) -> CmdStanProgram:
        """Return the program's executable, compiled if need be."""
        return CmdStanProgram(compile_source(program.source, cmdstan=self.cmdstan))


@dataclass(frozen=True)
class CmdStanProgram:
    """An executable, ready to sample."""

    executable: Executable
    engine: str = "cmdstan"

    @property
    def key(self) -> str:
        """Digest of program, options, CmdStan and compiler."""
        return self.executable.key

    @property
    def source(self) -> Source:
        """The program."""
        return self.executable.source

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Stan, CmdStan and compiler."""
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
    ) -> Sample:
        """See :class:`~pyflowers.engines.base.LoadedProgram`."""
        cmdstanpy = import_cmdstanpy()
        with (
            quiet_cmdstanpy(),
            temporary_folder() as folder,
            mortal(self.executable.path, folder) as program,
        ):
            fixed = not self.source.blocks.parameters
            started = time.perf_counter()
            try:
                model = cmdstanpy.CmdStanModel(exe_file=program)
                arguments = {
                    **_arguments(options, fixed),
                    "data": data_file(data, folder),
                    "parallel_chains": min(cores or usable_cores(), options.chains),
                    "inits": values_of(inits),
                    "output_dir": str(folder),
                    "show_progress": show_progress,
                }
                mcmc = interruptible(lambda: model.sample(**arguments))
            except (RuntimeError, ValueError) as error:
                raise FitError(stan_messages(folder, error)) from error
            wall_time = time.perf_counter() - started
            return _read(mcmc, folder, keep, wall_time)


def _arguments(options: SamplerOptions, fixed: bool) -> dict[str, Any]:
    """Return the options as CmdStanPy takes them; without parameters there is nothing to adapt."""
    return {
        "chains": options.chains,
        "seed": options.seed,
        "iter_warmup": 0 if fixed else options.warmup,
        "iter_sampling": options.draws,
        "thin": options.thin,
        "fixed_param": fixed,
        "max_treedepth": None if fixed else options.max_treedepth,
        "metric": None if fixed else options.metric,
        "adapt_engaged": not fixed and options.warmup > 0,
        "adapt_delta": None if fixed or not options.warmup else options.adapt_delta,
        "sig_figs": SIGNIFICANT_FIGURES,
    }


class _Later(ModuleType):
    """Stands for a module that is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


_importing = threading.Lock()


def import_cmdstanpy() -> Any:
    """Import CmdStanPy, but xarray only when CmdStanPy uses it.

    It imports xarray, which takes longer than all else it needs, in case draws are asked for in
    that form. And it makes a temporary folder, which would outlive a process that is killed.
    """
    with _importing:
        if "cmdstanpy" not in sys.modules:
            with (
                _xarray_later(),
                _temporary_files_in(lasting_folder()),
                warnings.catch_warnings(),
            ):
                # In a notebook without ipywidgets tqdm says so; its bars are then drawn as text.
                warnings.filterwarnings("ignore", message="IProgress not found")
                import_module("cmdstanpy")
    return import_module("cmdstanpy")


@contextmanager
def _xarray_later() -> Iterator[None]:
    """Let what is imported in the block import xarray later."""
    if "xarray" in sys.modules:
        yield
        return
    sys.modules["xarray"] = _Later("xarray")
    try:
        yield
    finally:
        del sys.modules["xarray"]


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Let what is made in the block without the name of a folder be made in this one."""
    usual = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = usual


class _Quiet(logging.Filter):
    """Drops CmdStanPy's log while pyflowers is calling it from any thread."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        return self.calls == 0

    def add(self, number: int) -> None:
        with self.lock:
            self.calls += number


_quiet = _Quiet()


@contextmanager
def quiet_cmdstanpy() -> Iterator[None]:
    """Silence CmdStanPy's log: what it reports reaches the user as a pyflowers error."""
    # Adding a filter twice adds it once, so that nothing has to be remembered between calls.
    logging.getLogger("cmdstanpy").addFilter(_quiet)
    _quiet.add(1)
    try:
        yield
    finally:
        _quiet.add(-1)


def values_of(inits: Any) -> Any:
    """Return initial values with those of files read.

    CmdStan takes a file whose name does not end in .json for one of R, and skips what it cannot
    read.

    Raises
    ------
    ConfigError
        If a file is not a JSON object.
    """
    if isinstance(inits, list | tuple):
        return [values_of(each) for each in inits]
    if not isinstance(inits, str | Path):
        return inits
    try:
        values = json.loads(Path(inits).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"inits {inits}: it is not a JSON file ({error}); correct it") from error
    if not isinstance(values, Mapping):
        raise ConfigError(f"inits {inits}: it must be a JSON object of parameters; correct it")
    return values


def data_file(data: Mapping[str, Any], folder: Path) -> str | None:
    """Write the program's data once for all chains."""
    if not data:
        return None
    cmdstanpy = import_cmdstanpy()
    path = folder / "data.json"
    cmdstanpy.write_stan_json(str(path), dict(data))
    return str(path)


def _read(mcmc: Any, folder: Path, keep: Collection[str] | None, wall_time: float) -> Sample:
    """Read the chains' files; CmdStanPy has checked that they are whole.

    pandas reads them four times as fast as CmdStanPy does, and only the columns that are kept.
    """
    import pandas as pd
    import stanio

    def wanted(column: str) -> bool:
        name = column.partition(".")[0]
        return keep is None or name.endswith("__") or name in keep

    files = mcmc.runset.csv_files
    chains = [pd.read_csv(file, comment="#", usecols=wanted) for file in files]
    array = np.stack([chain.to_numpy(np.float64) for chain in chains])
    variables = stanio.parse_header(",".join(chains[0].columns))
    values = {name: np.asarray(var.extract_reshape(array)) for name, var in variables.items()}
    draws = {name: value for name, value in values.items() if not name.endswith("__")}
    stats = {name: value for name, value in values.items() if name.endswith("__")}
    messages = count_messages(_consoles(folder))
    return Sample(draws, stats, *messages, tuple(mcmc.time), wall_time)


def _consoles(folder: Path) -> list[str]:
    files = sorted(folder.glob("*.txt"))
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


def stan_messages(folder: Path, error: Exception) -> str:
    """Return why Stan stopped."""
    return last_words(_consoles(folder)) or f"Stan stopped early: {str(error).splitlines()[0]}"
