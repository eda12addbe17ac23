"""pyflowers on a formula, with its own priors and the engine of ``--option``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import pyflowers
from benchmarks.peers.runners.common import Job, Regressed, Sampler, command_line, race


def prepare(engine: str, job: Job) -> Sampler:
    """Return ``pyflowers.fit``, which writes the program of the formula in each call."""
    frame = pd.DataFrame(dict(job.frame))
    given: dict[str, Any] = {"engine": engine, "chains": job.chains, "draws": job.draws}
    if engine != "exact":
        given |= {"warmup": job.warmup, "cores": job.cores}
    at = pd.DataFrame(dict(job.at))
    return lambda seed: (
        pyflowers.fit(job.formula, frame, family=job.family, seed=seed, **given),
        at,
    )


def posterior(found: tuple[pyflowers.Fit, pd.DataFrame]) -> Regressed:
    """Read a fit; everything that is not a coefficient comes after the coefficients."""
    fit, at = found
    draws = {name: values for name, values in fit.draws.items() if name != "lprior"}
    coefficients: dict[str, NDArray[np.floating]] = {}
    for names in (("Intercept", "threshold", "b"), ("Intercept_sigma", "Intercept_zi", "b_sigma")):
        for name in (name for name in names if name in draws):
            coefficients |= numbered(name, draws.pop(name))
    others: list[NDArray[np.floating]] = list(draws.values())
    if len(at):
        others += coefficients.values()
        curve = np.asarray(pyflowers.predict(fit, at, kind="linear").draws())
        coefficients = numbered("curve", curve)
    divergent = fit.stats.get("divergent__", np.zeros(1))
    return Regressed(coefficients, others, int(np.sum(divergent)))


def numbered(name: str, draws: NDArray[np.floating]) -> dict[str, NDArray[np.floating]]:
    """Return each element of draws, shape (chain, draw, …), by its name, such as ``b[1]``."""
    if draws.ndim == 2:
        return {name: draws}
    return {f"{name}[{i}]": of for i, of in enumerate(np.moveaxis(draws, -1, 0), 1)}


if __name__ == "__main__":
    option = command_line().parse_args().option
    packages = ("pyflowers", "cmdstanpy", "stanli", "numpy", "scipy")
    race(lambda job: prepare(option, job), posterior, packages)
