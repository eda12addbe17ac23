"""pyflowers with the engine of ``--option``; two options are not engines.

With ``pilot``, stanli uses the fixed metric of pilot runs; with ``lecture``, CmdStan runs the
lecture's program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pyflowers
from benchmarks.peers.runners.common import Job, Posterior, Sampler, command_line, race

LECTURE = Path(__file__).resolve().parents[3] / "tests" / "lecture" / "multilevel_poisson.stan"
USUAL_DELTA = 0.8
"""The adapt_delta of CmdStan and of most peers; pyflowers' own default is higher."""


def prepare(option: str, job: Job) -> Sampler:
    """Return ``pyflowers.fit`` for the table; its cache keeps compiled programs."""
    month = np.arange(len(job.y)) - np.searchsorted(job.plant, job.plant)
    table = pd.DataFrame({"plant": job.plant + 1, "month": month + 1, "flowers": job.y})
    given: dict[str, Any] = {"engine": option, "chains": job.chains, "draws": job.draws}
    if option == "pilot":
        given |= {"engine": "stanli", "metric": "pilot", "adapt_delta": USUAL_DELTA}
    if option != "exact":
        given |= {"warmup": job.warmup, "cores": job.cores}
    return lambda seed: pyflowers.fit("multilevel_poisson", table, seed=seed, **given)


def prepare_lecture(job: Job) -> Sampler:
    """Return CmdStan on the lecture's program, which loops over the observations."""
    block = {"N": len(job.y), "P": job.num_plants, "y": job.y}
    return lambda seed: pyflowers.fit(
        LECTURE,
        block,
        seed=seed,
        engine="cmdstan",
        chains=job.chains,
        warmup=job.warmup,
        draws=job.draws,
        cores=job.cores,
        adapt_delta=USUAL_DELTA,
    )


def posterior(fit: pyflowers.Fit) -> Posterior:
    """Read a fit, in which mu_plant may only be summarised."""
    summary = None
    if fit.streamed is not None:
        rows = fit.streamed.loc[[str(row).startswith("mu_plant") for row in fit.streamed.index]]
        summary = {str(name): rows[name].to_numpy() for name in rows.columns}
    divergent = fit.stats.get("divergent__", np.zeros(1))
    return Posterior(
        mu=fit.draws["mu"],
        sigma2=fit.draws["sigma2"],
        mu_plant=fit.draws.get("mu_plant"),
        num_divergent=int(np.sum(divergent)),
        summary=summary,
    )


if __name__ == "__main__":
    option = command_line().parse_args().option
    packages = ("pyflowers", "cmdstanpy", "stanli", "numpy", "scipy")
    if option == "lecture":
        race(prepare_lecture, posterior, packages)
    else:
        race(lambda job: prepare(option, job), posterior, packages)
