"""Agreement of posteriors: means and quantiles compared with a long run of exact draws.

The mean, the 5% and the 95% quantile of mu, log sigma2 and every mu_plant are compared, by their
differences in combined Monte Carlo standard errors. sigma2 is compared on the log scale, because
its variance is infinite for the lecture's data, so that its mean has no standard error. The largest
difference must be below a bound that chance alone exceeds at most once in ten thousand comparisons
of posteriors (Bonferroni). ``shift`` is the largest difference of means in posterior standard
deviations, because a significant difference may still be small.

The packages' own priors differ for a regression, so its posteriors are only roughly the same. The
mean of each coefficient, or of a smooth's curve at some points, is compared with its estimate by
maximum likelihood; ``Regression.reference`` states which estimate.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.methods import RUNNERS
from benchmarks.peers.runners.common import BLOCK, PRIORS
from benchmarks.peers.sizes import Size, counts
from pyflowers.convergence import mcse_quantile, statistics
from pyflowers.exact import PoissonSampler
from pyflowers.vb import MultilevelPrior

PROBS = (0.05, 0.95)
CHANCE = 1e-4
REFERENCE_SEED = 2_718_281
FEWEST, MOST, TOTAL = 4_000, 40_000, 80_000_000
"""Exact draws of the reference: minimum, maximum, and the target total over all plants."""

FloatArray = NDArray[np.float64]
Summary = dict[str, FloatArray]
"""Statistics of mu, log sigma2 and each mu_plant: arrays of P + 2."""
Reference = Any
"""A summary of exact draws, or estimates of a regression's coefficients or curve."""

ROUGHLY = 0.5
"""Posterior standard deviations by which a coefficient's mean may differ from its estimate."""

COMPARED = (("mean", "mcse_mean"), ("5%", "mcse_5%"), ("95%", "mcse_95%"))


def summarised(draws: NDArray[np.floating], logarithms: tuple[int, ...] = (1,)) -> Summary:
    """Return statistics of draws.

    Parameters
    ----------
    draws : array, shape (chain, draw, element)
        mu, sigma2 and plants; may be mapped from a file, and is read in blocks.
    logarithms : tuple of int
        Elements, all in the first block, whose logarithm is taken.
    """

    def blocks() -> Iterator[FloatArray]:
        for start in range(0, draws.shape[-1], BLOCK):
            block = np.array(draws[..., start : start + BLOCK], dtype=float)
            if start == 0:
                for element in logarithms:
                    block[..., element] = np.log(block[..., element])
            yield block

    return joined([_statistics(block) for block in blocks()])


def _statistics(block: FloatArray) -> Summary:
    errors = {f"mcse_{100 * p:g}%": mcse_quantile(block, p) for p in PROBS}
    return statistics(block, PROBS) | errors


def joined(parts: Sequence[Mapping[str, FloatArray]]) -> Summary:
    """Return the statistics of all parts, concatenated."""
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def compare(found: Summary, reference: Summary) -> dict[str, Any]:
    """Return whether two posteriors agree, and the statistic that differs most.

    Returns
    -------
    dict
        ``agrees``; ``z``, the largest difference in standard errors; ``bound``, the limit of z;
        ``of`` and ``statistic``, the element and statistic with this difference; ``shift``, the
        largest difference of means in posterior standard deviations; and the largest ``r_hat``.
    """
    columns = [(name, error) for name, error in COMPARED if name in found and error in found]
    z = np.stack([_standardised(found, reference, *column) for column in columns])
    bound = NormalDist().inv_cdf(1 - CHANCE / (2 * z.size))
    row, element = np.unravel_index(np.argmax(z), z.shape)
    shift = np.abs(found["mean"] - reference["mean"]) / reference["sd"]
    r_hat = found["r_hat"]
    return {
        "agrees": bool(np.all(z < bound)),
        "z": float(z[row, element]),
        "bound": bound,
        "of": name_of(int(element)),
        "statistic": columns[row][0],
        "shift": float(np.nanmax(shift)),
        "r_hat": float(np.nanmax(r_hat)) if np.any(np.isfinite(r_hat)) else None,
    }


def _standardised(found: Summary, reference: Summary, name: str, error: str) -> FloatArray:
    """Return differences in combined standard errors; infinite if there is no standard error."""
    with np.errstate(all="ignore"):
        combined = np.hypot(found[error], reference[error])
        z = np.abs(found[name] - reference[name]) / combined
    return np.where(np.isfinite(z), z, np.inf)


def compare_estimates(estimates: Mapping[str, Any], reference: Summary) -> dict[str, Any]:
    """Return the distance of estimates from the posterior means, in posterior sds."""
    with np.errstate(divide="ignore"):  # a variance that was estimated as 0
        log_sigma2 = np.log(float(estimates["sigma2"]))
    values = np.concatenate([[estimates["mu"], log_sigma2], np.asarray(estimates["mu_plant"])])
    shift = np.abs(values - reference["mean"]) / reference["sd"]
    element = int(np.argmax(shift))
    return {"agrees": None, "shift": float(shift[element]), "of": name_of(element)}


def compare_coefficients(
    found: Summary, names: Sequence[str], estimates: Sequence[float]
) -> dict[str, Any]:
    """Return the largest distance of a coefficient's mean from its estimate, in posterior sds.

    Raises
    ------
    ValueError
        If there is not one estimate per coefficient.
    """
    num = len(names)
    if len(estimates) != num:
        raise ValueError(f"{len(estimates)} estimates for the coefficients {', '.join(names)}")
    shift = np.abs(found["mean"][:num] - estimates) / found["sd"][:num]
    largest = int(np.argmax(shift))
    return {
        "agrees": bool(shift[largest] < ROUGHLY),
        "of": names[largest],
        "shift": float(shift[largest]),
        "r_hat": float(np.nanmax(found["r_hat"])),
    }


def estimates_of(data: Path, folder: Path) -> list[float]:
    """Return the estimates for a regression's data file, which are cached in a file."""
    path = folder / data.name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as out:
            script = str(RUNNERS / "estimate_formula.R")
            subprocess.run(
                ["Rscript", "--no-save", script, "--data", str(data), "--out", out],
                env=os.environ | {"RUNNERS": str(RUNNERS)},
                check=True,
            )
            path.write_bytes(Path(out, "estimates.json").read_bytes())
    return list(json.loads(path.read_text(encoding="utf-8")))


def name_of(element: int) -> str:
    """Return the name of an element of the summaries."""
    return ("mu", "log sigma2")[element] if element < 2 else f"mu_plant[{element - 1}]"


def reference_of(size: Size, folder: Path) -> Summary:
    """Return the reference of a size, which is cached in a file."""
    path = folder / f"{size.key}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished.npz")
        np.savez(unfinished, allow_pickle=False, **draw_reference(size))
        unfinished.replace(path)
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def draw_reference(size: Size) -> Summary:
    """Draw many exact posterior draws, one block of plants at a time."""
    plant, y = counts(size)
    rng = np.random.default_rng(REFERENCE_SEED)
    num = int(np.clip(TOTAL // size.num_plants, FEWEST, MOST)) // 4 * 4
    totals = np.bincount(plant, y).astype(float)
    months = np.bincount(plant).astype(float)
    sampler = PoissonSampler(totals, months, MultilevelPrior(**PRIORS))
    hyper = sampler.draw_hyper(num, rng)
    shape = (4, num // 4, -1)
    population = np.stack([hyper.mu, np.log(hyper.sigma2)], axis=-1)
    plants = (block["mu_plant"].reshape(shape) for _, block in sampler.blocks(hyper, rng))
    return joined([_statistics(population.reshape(shape)), *map(_statistics, plants)])
