"""Compare chains of NUTS that start from a Laplace approximation with chains that start as usual.

Usage: .venv/bin/python benchmarks/laplace_start.py CASE [SEEDS]

The standard deviations are set to the mode of their Laplace approximation, and all other parameters
to their mode given these values. The initial values are drawn from a normal distribution at this
point. Its covariance is the inverse metric, which is fixed while a short warm-up tunes the step
size. The measure is the smallest bulk effective sample size per 1,000 gradients, warm-up included;
the gradients that the approximation needs are printed, but not included. Decision 40 has the
figures.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import stanio
import stanli
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import pyflowers
from pyflowers.convergence.estimates import ess_bulk
from pyflowers.engines.base import WARM_UP
from pyflowers.engines.stanli.pilot import csv_names, variable_of
from pyflowers.engines.stanli.worker import NEVER
from pyflowers.fits.sampling import prepare_spec

FloatArray = NDArray[np.float64]
TABLES = Path(__file__).parents[1] / "tests" / "programs" / "formulas" / "data"
CHAINS, DRAWS = 4, 1000
SCALES = ("sd", "shape", "sigma", "L")
"""The first words of the names of standard deviations, shapes and Cholesky factors."""

CASES = {
    "grouseticks": (
        "grouseticks",
        "TICKS ~ YEAR + scale(HEIGHT) + (1 | BROOD) + (1 | LOCATION)",
        "negbinomial",
    ),
    "epilepsy": ("epilepsy", "count ~ zAge + zBase * Trt + (1 | patient) + (1 | obs)", "poisson"),
    "epil": ("epilepsy", "count ~ zAge + zBase * Trt + (1 | patient)", "poisson"),
    "sleepstudy": ("sleepstudy", "Reaction ~ Days + (Days | Subject)", "gaussian"),
}
LABELS = ("YEAR", "BROOD", "LOCATION", "Trt", "patient", "obs", "Subject")


class Laplace:
    """The Laplace approximation of a model of the interpreter."""

    def __init__(self, model: Any, names: list[str], block: Mapping[str, Any]) -> None:
        self.model, self.gradients = model, 0
        scales = [variable_of(name).partition("_")[0] in SCALES for name in names]
        self.outer, self.inner = np.flatnonzero(scales), np.flatnonzero(~np.array(scales))
        self.point = np.zeros(len(names))
        for i in self.outer:  # half of the prior's scale: far below it, the density is flat
            scale = block.get(f"{variable_of(names[i])}_scale", 1.0)
            self.point[i] = np.log(np.mean(scale) / 2)

    def density(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density and its gradient."""
        self.gradients += 1
        value: tuple[float, FloatArray] = self.model.log_prob_grad(x)
        return value

    def curvature(self, x: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """Return rows of the negative Hessian, by central differences."""
        steps = 1e-4 * np.eye(len(x))[rows]
        pairs = [(self.density(x - step)[1], self.density(x + step)[1]) for step in steps]
        return np.array([(low - high) / 2e-4 for low, high in pairs])

    def inner_mode(self, scales: FloatArray) -> tuple[float, Any]:
        """Move to the mode given the scales; return the log density and the Cholesky factor."""
        x = self.point.copy()
        x[self.outer] = scales
        value, gradient = self.density(x)
        for _ in range(50):
            hessian = self.curvature(x, self.inner)[:, self.inner]
            hessian = (hessian + hessian.T) / 2
            ridge = max(0.0, 0.01 - float(np.linalg.eigvalsh(hessian)[0]))
            factor = cho_factor(hessian + ridge * np.eye(len(hessian)))
            move = cho_solve(factor, gradient[self.inner])
            gain, size = gradient[self.inner] @ move, 1.0
            if gain < 1e-6:
                self.point = x
                return value, factor
            while True:
                there = x.copy()
                there[self.inner] += size * move
                reached, slope = self.density(there)
                if reached >= value or size < 1e-6:
                    break
                size /= 2
            x, value, gradient = there, reached, slope
        raise RuntimeError("no mode was found")

    def cost(self, scales: FloatArray) -> float:
        """Return the approximate negative log density of the scales."""
        value, factor = self.inner_mode(scales)
        return float(np.log(np.diag(factor[0])).sum() - value)

    def covariance(self) -> FloatArray:
        """Move to the mode and return the covariance there."""
        k = len(self.outer)
        start = self.point[self.outer]
        simplex = np.vstack([start, start + 0.5 * np.eye(k)])
        options = {"xatol": 0.02, "fatol": 0.005, "initial_simplex": simplex}
        best = minimize(self.cost, start, method="Nelder-Mead", options=options).x
        h = 0.1 * np.eye(k)
        hessian = [
            [
                self.cost(best + a + b)
                - self.cost(best + a - b)
                - self.cost(best - a + b)
                + self.cost(best - a - b)
                for a in h
            ]
            for b in h
        ]
        values, vectors = np.linalg.eigh(np.array(hessian) / 0.04)
        outer = vectors @ np.diag(1 / np.maximum(values, 0.25)) @ vectors.T
        _, factor = self.inner_mode(best)
        follows = -cho_solve(factor, self.curvature(self.point, self.outer)[:, self.inner].T)
        whole = np.zeros((len(self.point), len(self.point)))
        whole[np.ix_(self.outer, self.outer)] = outer
        whole[np.ix_(self.inner, self.outer)] = follows @ outer
        whole[np.ix_(self.outer, self.inner)] = (follows @ outer).T
        own = cho_solve(factor, np.eye(len(self.inner)))
        whole[np.ix_(self.inner, self.inner)] = own + follows @ outer @ follows.T
        return whole


def main(case: str, seeds: int = 5) -> None:
    """Print a line for each start and seed."""
    table, formula, family = CASES[case]
    kinds = dict.fromkeys(LABELS, str)
    data = pd.read_csv(TABLES / f"{table}.csv", dtype=kinds)
    spec = pyflowers.Spec(formula, data, family=family, seed=1, engine="stanli")
    ready = prepare_spec(spec)
    values = dict(ready.program.stan_values(ready.data))
    block = stanio.dump_stan_json(values)
    mir = stanli.stan_to_mir(ready.program.source.text)
    model = stanli.Model(mir=mir, data=block, seed=1)
    names = stanli.bridgestan_model(mir=mir, data=block, seed=1).param_unc_names()
    laplace = Laplace(model, names, values)
    covariance = laplace.covariance()
    print(f"{case}: {len(names)} parameters, {laplace.gradients:,} gradients for the mode")
    square = np.tile(covariance, (CHAINS, 1, 1))
    starts: dict[str, dict[str, Any]] = {
        "as usual": {"warmup": 1000},
        "as usual, dense": {"warmup": 1000, "metric": "dense_e"},
        "Laplace, diagonal": {"warmup": WARM_UP, "inv_metric": np.diagonal(square, 0, 1, 2)},
        "Laplace, dense": {"warmup": WARM_UP, "inv_metric": square, "metric": "dense_e"},
    }
    steps = stanli.SAMPLER_COLUMNS.index("n_leapfrog__")
    for seed in range(1, seeds + 1):
        rng = np.random.default_rng(seed)
        inits = rng.multivariate_normal(laplace.point, covariance, CHAINS, method="cholesky")
        for name, options in starts.items():
            if "inv_metric" in options:
                options = {**options, "inits": inits}
            its = {"chains": CHAINS, "samples": DRAWS, "seed": seed, "delta": 0.9, "refresh": NEVER}
            with contextlib.redirect_stdout(io.StringIO()):  # progress
                fit = model.sample(**its, save_warmup=True, **options)
            columns = [variable_of(column) for column in csv_names(fit.names)]
            parameters = ready.program.source.blocks.parameters
            own = [i for i, column in enumerate(columns) if column in parameters]
            draws = fit.draws()[:, -DRAWS:, own]
            moving = draws[:, :, draws.std(axis=(0, 1)) > 1e-12]  # without fixed elements
            least, gradients = ess_bulk(moving).min(), fit.sampler_stats[:, :, steps].sum()
            per = f"{1000 * least / gradients:.2f} per 1,000 of {gradients:,.0f} gradients"
            print(f"{case}, seed {seed}, {name}: least effective draws {least:.0f}, {per}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
