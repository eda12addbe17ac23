"""Parts shared by all Python runners of the race: command line, clock and files.

A runner defines how to prepare a sampler and how to read mu, sigma2 and mu_plant from its result.
It is run as ``python -m benchmarks.peers.runners.NAME --data FILE --out FOLDER …`` by the Python of
the peer's environment, so this module needs only NumPy.

``timings.json`` is written twice, after the first posterior and after the further one, so that the
first time is available even if a run is stopped in between. Then ``draws.bin`` is written: doubles
in C order, (chain, draw, element), where the elements are mu, sigma2 and each mu_plant or, for a
regression, its coefficients and then its other parameters.
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
"""Number of plants that are written at a time, because all draws may not fit into memory."""

PRIORS = {"mu_mean": 0.0, "mu_sd": 100.0, "sigma2_nu": 1.0, "sigma2_scale": 2.0}
"""mu ~ N(0, 100²) and sigma2 ~ scaled-inv-χ²(1, 2²), as in stan/multilevel_poisson.toml."""

SIGMA2_SHAPE = PRIORS["sigma2_nu"] / 2
"""The shape of the prior on sigma2 as an inverse gamma distribution (BDA3, table A.1)."""

SIGMA2_RATE = PRIORS["sigma2_nu"] * PRIORS["sigma2_scale"] ** 2 / 2
"""The scale of this distribution, which PyMC calls beta and NumPyro rate."""


@dataclass(frozen=True)
class Job:
    """The input of a runner.

    Attributes
    ----------
    num_plants : int
        Number of plants; 0 for a regression.
    plant : array, shape (N,)
        The plant of each observation, from 0.
    y : array, shape (N,)
        The flowers of each observation.
    formula, family : str
        The formula and the family of a regression; empty for counts.
    bambi : str
        Bambi's formula of this model.
    frame : mapping of str to list
        The columns of the regression's data.
    at : mapping of str to list
        Covariates for which a curve is compared; empty if coefficients are compared.
    chains, warmup, draws, cores, seed : int
        As for ``pyflowers.fit``.
    scratch : Path
        A folder for files that the runner compiles; empty when it starts.
    """

    num_plants: int
    plant: NDArray[np.int64]
    y: NDArray[np.int64]
    formula: str
    family: str
    bambi: str
    frame: Mapping[str, list[Any]]
    at: Mapping[str, list[float]]
    chains: int
    warmup: int
    draws: int
    cores: int
    seed: int
    scratch: Path

    def of_pymc(self, seed: int) -> dict[str, Any]:
        """Return the arguments of PyMC's ``sample``, which Bambi's ``fit`` also takes."""
        sizes = {"draws": self.draws, "tune": self.warmup, "chains": self.chains}
        return sizes | {"cores": self.cores, "random_seed": seed, "progressbar": False}


@dataclass(frozen=True)
class Posterior:
    """Draws of the parameters, shaped (chain, draw) and (chain, draw, plant).

    ``summary`` replaces mu_plant if a sampler only summarises it: it has a row for each plant, and
    columns with the names of :func:`pyflowers.convergence.statistics`.
    """

    mu: NDArray[np.floating]
    sigma2: NDArray[np.floating]
    mu_plant: NDArray[np.floating] | None
    num_divergent: int = 0
    summary: Mapping[str, NDArray[np.float64]] | None = None


@dataclass(frozen=True)
class Regressed:
    """Draws of a regression.

    Attributes
    ----------
    coefficients : mapping of str to array, shape (chain, draw)
        The intercept, where all covariates are 0, or the thresholds, and then each coefficient, in
        R's order; then the same for another parameter of the family. Alternatively, a curve.
    others : sequence of array, shape (chain, draw, ...)
        Standard deviations, correlations, group effects and parameters of the family.
    num_divergent : int
        Divergent draws.
    """

    coefficients: Mapping[str, NDArray[np.floating]]
    others: Sequence[NDArray[np.floating]]
    num_divergent: int


Sampler = Callable[[int], Any]
"""Function of a seed that returns when all draws are in memory."""


def race(
    prepare: Callable[[Job], Sampler],
    posterior: Callable[[Any], Posterior | Regressed],
    packages: Sequence[str],
    *arguments: str,
) -> None:
    """Sample twice, measure both times, then write the draws of the second run.

    Parameters
    ----------
    prepare : callable
        Function that builds the model; its time counts towards the first posterior.
    posterior : callable
        Function that reads the parameters from the sampler's result; not timed.
    packages : sequence of str
        Distributions whose versions are recorded.
    *arguments : str
        Arguments that replace those of the command line.
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
    found = posterior(drawn)
    if isinstance(found, Posterior):
        save(found, given.out)
    else:
        save_regressed(found, given.out)


def command_line() -> argparse.ArgumentParser:
    """Return the options of all runners, including those in R."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    for name in ("chains", "warmup", "draws", "cores", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--option", default="", help="option that the method passes on")
    return parser


def read_job(given: argparse.Namespace) -> Job:
    """Read the data file."""
    block = json.loads(given.data.read_text(encoding="utf-8"))
    return Job(
        num_plants=block.get("num_plants", 0),
        plant=np.asarray(block.get("plant", [])) - 1,
        y=np.asarray(block.get("y", [])),
        formula=block.get("formula", ""),
        family=block.get("family", ""),
        bambi=block.get("bambi") or block.get("formula", ""),
        frame=block.get("frame", {}),
        at=block.get("at", {}),
        chains=given.chains,
        warmup=given.warmup,
        draws=given.draws,
        cores=given.cores,
        seed=given.seed,
        scratch=given.out,
    )


def plant_totals(job: Job) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the months and the flowers of each plant, which are sufficient statistics."""
    months = np.bincount(job.plant, minlength=job.num_plants)
    total = np.bincount(job.plant, job.y, minlength=job.num_plants)
    return months, total.astype(np.int64)


def save(found: Posterior, out: Path) -> None:
    """Write ``draws.bin`` and then ``posterior.json``, which describes its layout."""
    num_chains, num_draws = found.mu.shape
    kept = 0 if found.mu_plant is None else found.mu_plant.shape[-1]
    shape = (num_chains, num_draws, 2 + kept)
    draws = np.memmap(out / "draws.bin", dtype="<f8", mode="w+", shape=shape)
    draws[..., 0], draws[..., 1] = found.mu, found.sigma2
    for start in range(0, kept, BLOCK):
        assert found.mu_plant is not None  # `kept` is the number of plants
        stop = min(start + BLOCK, kept)
        draws[..., 2 + start : 2 + stop] = found.mu_plant[..., start:stop]
    draws.flush()
    about: dict[str, Any] = {"shape": shape, "num_divergent": found.num_divergent}
    if found.summary is not None:
        about["summary"] = {key: values.tolist() for key, values in found.summary.items()}
    write(out / "posterior.json", about)


def save_regressed(found: Regressed, out: Path) -> None:
    """Write the draws of a regression, the coefficients first."""
    values = [*found.coefficients.values(), *found.others]
    draws = np.concatenate([each.reshape(*each.shape[:2], -1) for each in values], axis=-1)
    np.ascontiguousarray(draws, dtype="<f8").tofile(out / "draws.bin")
    about = {"coefficients": list(found.coefficients), "num_divergent": found.num_divergent}
    write(out / "posterior.json", about | {"shape": draws.shape})


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file completely, or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content), encoding="utf-8")
    unfinished.replace(path)
