"""What every Python runner of the race shares: its command line, its clock and its files.

A runner says how to prepare a sampler and how to read mu, sigma2 and mu_plant from what that
returns. It is run as ``python -m benchmarks.peers.runners.NAME --data FILE --out FOLDER …`` by the
Python of the peer's own environment, so this module needs NumPy and nothing else.

``timings.json`` is written twice, after the first posterior and after the further one, so that a
run that is stopped between them still has its first. ``draws.bin`` follows: doubles in C order,
(chain, draw, element), the elements mu, sigma2 and each mu_plant.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 500
"""Plants that are written at once: all draws at once could be more than memory holds."""

PRIORS = {"mu_mean": 0.0, "mu_sd": 100.0, "sigma2_nu": 1.0, "sigma2_scale": 2.0}
"""mu ~ N(0, 100²) and sigma2 ~ scaled-inv-χ²(1, 2²), as in stan/multilevel_poisson.toml."""

SIGMA2_SHAPE = PRIORS["sigma2_nu"] / 2
"""The same prior as an inverse gamma distribution (BDA3, table A.1): its shape …"""

SIGMA2_RATE = PRIORS["sigma2_nu"] * PRIORS["sigma2_scale"] ** 2 / 2
"""… and its scale, which PyMC calls beta and NumPyro rate."""


@dataclass(frozen=True)
class Job:
    """What a runner is asked for.

    Attributes
    ----------
    num_plants : int
        Number of plants.
    plant : array, shape (N,)
        Of each observation, from 0.
    y : array, shape (N,)
        Flowers of each observation.
    chains, warmup, draws, cores, seed : int
        As for ``pyflowers.fit``.
    scratch : Path
        A folder for what the runner compiles; empty when it starts.
    """

    num_plants: int
    plant: NDArray[np.int64]
    y: NDArray[np.int64]
    chains: int
    warmup: int
    draws: int
    cores: int
    seed: int
    scratch: Path


@dataclass(frozen=True)
class Posterior:
    """Draws of the parameters, shaped (chain, draw) and (chain, draw, plant).

    ``summary`` takes the place of mu_plant where a sampler only summarises it: columns as
    :func:`pyflowers.convergence.statistics` names them, a row for each plant.
    """

    mu: NDArray[np.floating]
    sigma2: NDArray[np.floating]
    mu_plant: NDArray[np.floating] | None
    num_divergent: int = 0
    summary: Mapping[str, NDArray[np.float64]] | None = None


Sampler = Callable[[int], Any]
"""Takes a seed, and returns when all draws are in memory."""


def race(
    prepare: Callable[[Job], Sampler],
    posterior: Callable[[Any], Posterior],
    packages: Sequence[str],
    *arguments: str,
) -> None:
    """Sample twice, timing both, then write the second's draws.

    Parameters
    ----------
    prepare : callable
        Builds the model; its time is part of the first posterior's.
    posterior : callable
        Reads the parameters from what the sampler returned; not timed.
    packages : sequence of str
        Distributions whose versions are recorded.
    *arguments : str
        Instead of the command line's.
    """
    begun = time.time()
    given = command_line().parse_args(arguments or None)
    job = read_job(given)
    known: dict[str, Any] = {"begun_at": begun, "reading": time.time() - begun}
    known["versions"] = {name: version(name) for name in packages}
    sampler = prepare(job)
    sampler(job.seed)
    known["first_at"] = time.time()
    write(given.out / "timings.json", known)
    start = time.perf_counter()
    drawn = sampler(job.seed + 1)
    known["further"] = time.perf_counter() - start
    write(given.out / "timings.json", known)
    save(posterior(drawn), given.out)


def command_line() -> argparse.ArgumentParser:
    """Return the options that every runner has, those in R included."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    for name in ("chains", "warmup", "draws", "cores", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--option", default="", help="what the method hands to its runner")
    return parser


def read_job(given: argparse.Namespace) -> Job:
    """Read the data file."""
    block = json.loads(given.data.read_text(encoding="utf-8"))
    return Job(
        num_plants=block["num_plants"],
        plant=np.asarray(block["plant"]) - 1,
        y=np.asarray(block["y"]),
        chains=given.chains,
        warmup=given.warmup,
        draws=given.draws,
        cores=given.cores,
        seed=given.seed,
        scratch=given.out,
    )


def plant_totals(job: Job) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the months and the flowers of each plant, which are sufficient."""
    months = np.bincount(job.plant, minlength=job.num_plants)
    total = np.bincount(job.plant, job.y, minlength=job.num_plants)
    return months, total.astype(np.int64)


def save(found: Posterior, out: Path) -> None:
    """Write ``draws.bin`` and, last, ``posterior.json``, which says how to read it."""
    num_chains, num_draws = found.mu.shape
    kept = 0 if found.mu_plant is None else found.mu_plant.shape[-1]
    shape = (num_chains, num_draws, 2 + kept)
    draws = np.memmap(out / "draws.bin", dtype="<f8", mode="w+", shape=shape)
    draws[..., 0], draws[..., 1] = found.mu, found.sigma2
    for start in range(0, kept, BLOCK):
        assert found.mu_plant is not None  # kept counts its plants
        stop = min(start + BLOCK, kept)
        draws[..., 2 + start : 2 + stop] = found.mu_plant[..., start:stop]
    draws.flush()
    about: dict[str, Any] = {"shape": shape, "num_divergent": found.num_divergent}
    if found.summary is not None:
        about["summary"] = {key: values.tolist() for key, values in found.summary.items()}
    write(out / "posterior.json", about)


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON that is there whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content), encoding="utf-8")
    unfinished.replace(path)
