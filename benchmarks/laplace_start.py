"""Compare the metric ``laplace`` with Stan's warm-up: effective draws per second of a whole fit.

Usage: .venv/bin/python benchmarks/laplace_start.py [CASE,…] [SEEDS] [METRIC,…]

Each seed has a fit with 4 × 1,000 draws for each metric. The measure is the smallest bulk effective
sample size of any parameter, divided by the seconds of the call of ``fit``. The interpreter is
started before the first fit. The table of VerbAgg comes from R's package lme4. Decision 40 has the
figures.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import pyflowers
from pyflowers.convergence.estimates import ess_bulk

TABLES = Path(__file__).parents[1] / "tests" / "programs" / "formulas" / "data"
CASES = {
    "grouseticks": (
        "grouseticks",
        "TICKS ~ YEAR + scale(HEIGHT) + (1 | BROOD) + (1 | LOCATION)",
        "negbinomial",
    ),
    "VerbAgg": (
        "VerbAgg",
        "r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)",
        "bernoulli",
    ),
    "epilepsy": ("epilepsy", "count ~ zAge + zBase * Trt + (1 | patient) + (1 | obs)", "poisson"),
    "epil": ("epilepsy", "count ~ zAge + zBase * Trt + (1 | patient)", "poisson"),
    "sleepstudy": ("sleepstudy", "Reaction ~ Days + (Days | Subject)", "gaussian"),
}
LABELS = ("YEAR", "BROOD", "LOCATION", "Trt", "patient", "obs", "Subject", "id", "item")


def table_of(name: str) -> pd.DataFrame:
    """Return a table of the tests or of lme4."""
    path = TABLES / f"{name}.csv"
    with tempfile.TemporaryDirectory() as folder:
        if not path.is_file():
            path = Path(folder) / "table.csv"
            code = f"write.csv(lme4::{name}, '{path}', row.names = FALSE)"
            subprocess.run(["Rscript", "-e", code], check=True)
        return pd.read_csv(path, dtype=dict.fromkeys(LABELS, str))


def least_ess(fit: pyflowers.Fit) -> float:
    """Return the smallest bulk effective sample size of any parameter that is not fixed."""
    found = []
    for name, draws in fit.draws.items():
        if name in fit.program.source.blocks.parameters:
            each = draws.reshape(*draws.shape[:2], -1)
            moving = each[:, :, each.std(axis=(0, 1)) > 1e-12]
            found += list(ess_bulk(moving))
    return float(np.min(found))


def main(cases: str = ",".join(CASES), seeds: str = "7", metrics: str = "diag_e,laplace") -> None:
    """Print a line for each fit, and the medians for each metric."""
    pyflowers.fit("iid_normal", seed=1, engine="stanli", draws=50)
    for case in cases.split(","):
        table, formula, family = CASES[case]
        data = table_of(table)
        rates: dict[str, list[float]] = {metric: [] for metric in metrics.split(",")}
        for seed in range(1, int(seeds) + 1):
            for metric, its in rates.items():
                start = time.perf_counter()
                fit = pyflowers.fit(
                    formula, data, family=family, seed=seed, engine="stanli", metric=metric
                )
                seconds, ess = time.perf_counter() - start, least_ess(fit)
                its.append(ess / seconds)
                words = f"{ess:.0f} effective draws in {seconds:.1f} s, {its[-1]:.1f} per second"
                print(f"{case}, seed {seed}, {metric}: {words}", flush=True)
        medians = {metric: f"{statistics.median(its):.1f}" for metric, its in rates.items()}
        print(f"{case}: medians per second {medians}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
