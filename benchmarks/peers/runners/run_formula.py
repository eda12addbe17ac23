"""pyflowers on a formula, with its own priors and the engine of ``--option``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import pyflowers
from benchmarks.peers.runners.common import Job, Regressed, Sampler, command_line, race


def prepare(engine: str, job: Job) -> Sampler:
    """Return ``pyflowers.fit``, which writes the program of the formula in each call."""
    frame = pd.DataFrame(dict(job.frame))
    given: dict[str, Any] = {"engine": engine, "chains": job.chains, "draws": job.draws}
    if engine != "exact":
        given |= {"warmup": job.warmup, "cores": job.cores}
    return lambda seed: pyflowers.fit(job.formula, frame, family=job.family, seed=seed, **given)


def posterior(fit: pyflowers.Fit) -> Regressed:
    """Read a fit."""
    columns = enumerate(np.moveaxis(fit.draws["b"], -1, 0), 1)
    coefficients = {"Intercept": fit.draws["Intercept"]} | {f"b[{i}]": of for i, of in columns}
    rest = ("sd_", "cor_", "r_", "sigma", "shape")
    others = [values for name, values in fit.draws.items() if name.startswith(rest)]
    divergent = fit.stats.get("divergent__", np.zeros(1))
    return Regressed(coefficients, others, int(np.sum(divergent)))


if __name__ == "__main__":
    option = command_line().parse_args().option
    packages = ("pyflowers", "cmdstanpy", "stanli", "numpy", "scipy")
    race(lambda job: prepare(option, job), posterior, packages)
