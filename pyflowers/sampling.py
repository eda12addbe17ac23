"""Run Stan's sampler through CmdStanPy and read what it wrote."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.cmdstan import Executable
from pyflowers.cmdstan.build import quiet_cmdstanpy
from pyflowers.cmdstan.embedded import usable_cores
from pyflowers.errors import ConfigError, FitError

LARGEST_SEED = 2**32 - 1
"""Stan's seeds are unsigned 32-bit integers."""

SIGNIFICANT_FIGURES = 12
"""Digits of each draw; CmdStan's own six lose a variance that is small against its mean."""


@dataclass(frozen=True)
class SamplerOptions:
    """How to sample, as it is recorded with a fit.

    Attributes
    ----------
    seed : int
        Of Stan's random numbers, 0 to 2³² − 1; 0 is a seed like any other.
    chains : int
        Number of chains.
    warmup, draws : int
        Iterations of each chain for adaptation and kept.
    thin : int
        Keep each `thin`-th draw.
    adapt_delta : float
        Target acceptance statistic of the step size adaptation.
    max_treedepth : int
        Bound on the depth of NUTS's trees.
    """

    seed: int
    chains: int = 4
    warmup: int = 1000
    draws: int = 1000
    thin: int = 1
    adapt_delta: float = 0.9
    max_treedepth: int = 10

    def __post_init__(self) -> None:
        for name, low, high in (
            ("seed", 0, LARGEST_SEED),
            ("chains", 1, 10_000),
            ("warmup", 0, 2**31 - 1),
            ("draws", 1, 2**31 - 1),
            ("thin", 1, 2**31 - 1),
            ("max_treedepth", 1, 30),
        ):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not whole or not low <= value <= high:
                raise ConfigError(
                    f"{name} must be a whole number from {low} to {high}, was {value!r}"
                )
            object.__setattr__(self, name, int(value))
        if not isinstance(self.adapt_delta, Real) or not 0 < self.adapt_delta < 1:
            raise ConfigError(f"adapt_delta must lie between 0 and 1, was {self.adapt_delta!r}")


def new_seed() -> int:
    """Draw a seed over the full range from the operating system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])


@dataclass(frozen=True)
class Sample:
    """What the sampler wrote.

    Attributes
    ----------
    draws : mapping
        Each variable of the program, shaped (chain, draw, …).
    stats : mapping
        Each sampler statistic by Stan's name, shaped (chain, draw).
    messages : mapping
        Stan's informational messages and how often it gave each.
    chain_times : list
        Seconds of each chain: ``warmup`` and ``sampling``.
    wall_time : float
        Seconds for all chains.
    """

    draws: Mapping[str, NDArray[np.float64]]
    stats: Mapping[str, NDArray[np.float64]]
    messages: Mapping[str, int] = field(default_factory=dict)
    chain_times: tuple[Mapping[str, float], ...] = ()
    wall_time: float = 0.0


def sample(
    executable: Executable,
    stan_data: Mapping[str, Any] | Path | None,
    options: SamplerOptions,
    *,
    cores: int | None = None,
    inits: Any = None,
    keep: Collection[str] | None = None,
    show_progress: bool = False,
) -> Sample:
    """Run the chains, as many at once as there are usable cores.

    Parameters
    ----------
    executable : Executable
        The program.
    stan_data : mapping, Path or None
        Its data, or a CmdStan JSON file.
    options : SamplerOptions
        How to sample.
    cores : int, optional
        Chains to run at once.
    inits
        Initial values as CmdStanPy takes them.
    keep : collection of str, optional
        Variables to read; all by default.
    show_progress : bool
        Whether to draw a bar for each chain.

    Raises
    ------
    FitError
        If any chain fails, with Stan's message; there is no result with fewer chains.
    """
    import cmdstanpy

    with quiet_cmdstanpy(), tempfile.TemporaryDirectory(prefix="pyflowers-") as folder:
        data = data_file(stan_data, Path(folder))
        fixed = not executable.info.get("parameters")
        started = time.perf_counter()
        try:
            mcmc = cmdstanpy.CmdStanModel(exe_file=executable.path).sample(
                data=data,
                chains=options.chains,
                parallel_chains=min(cores or usable_cores(), options.chains),
                seed=int(options.seed),
                inits=inits,
                iter_warmup=0 if fixed else options.warmup,
                iter_sampling=options.draws,
                thin=options.thin,
                fixed_param=fixed,
                max_treedepth=None if fixed else options.max_treedepth,
                adapt_engaged=not fixed and options.warmup > 0,
                adapt_delta=None if fixed or not options.warmup else float(options.adapt_delta),
                sig_figs=SIGNIFICANT_FIGURES,
                output_dir=folder,
                show_progress=show_progress,
            )
        except (RuntimeError, ValueError) as error:
            raise FitError(stans_words(Path(folder), error)) from error
        wall_time = time.perf_counter() - started
        return _read(mcmc, Path(folder), keep, wall_time)


def data_file(stan_data: Mapping[str, Any] | Path | None, folder: Path) -> str | None:
    """Write the program's data once for all chains."""
    if stan_data is None or isinstance(stan_data, Path):
        return None if stan_data is None else str(stan_data)
    import cmdstanpy

    path = folder / "data.json"
    cmdstanpy.write_stan_json(str(path), dict(stan_data))
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
    return Sample(draws, stats, _messages(folder), tuple(mcmc.time), wall_time)


def _consoles(folder: Path) -> list[str]:
    files = sorted(folder.glob("*.txt"))
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


def _messages(folder: Path) -> dict[str, int]:
    """Count what Stan said while it rejected proposals, numbers left out."""
    counts: Counter[str] = Counter()
    for console in _consoles(folder):
        for line in re.findall(r"^(?:Exception|Error): .*$", console, re.MULTILINE):
            counts[re.sub(r" \(in .*$", "", line.partition(": ")[2]).strip()] += 1
    return dict(counts)


_SETTING = re.compile(r"\s*\w+ = ")
_STAN_SAID = re.compile(
    r"exception|error|reject|initialization|failed|cannot|must be|not found|does not", re.IGNORECASE
)


def stans_words(folder: Path, error: Exception) -> str:
    """Return Stan's own words about what failed, each said once."""
    said: dict[str, None] = {}
    for console in _consoles(folder):
        for line in console.splitlines():
            if _STAN_SAID.search(line) and not _SETTING.match(line):
                said.setdefault(line.strip())
    words = " | ".join(list(said)[-6:]) or str(error).splitlines()[0]
    return f"Stan stopped before it was done: {words}"
