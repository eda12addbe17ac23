"""The benchmarks behind ``scripts/bench``: each returns rows of (what, measured, bar).

Comparisons are ratios of two things measured in one run, in turn, the best of several rounds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

import pyflowers
from pyflowers.approximate import approximate
from pyflowers.cmdstan import compile_program, find_cmdstan
from pyflowers.compare import variational as closed_form
from pyflowers.data import FlowerData
from pyflowers.lecture.gaussian_mixture import stan_data as mixture_data
from pyflowers.resources import flowers_csv, gaussian_mixture_csv, program_path
from pyflowers.samplers import GaussianStep, Metropolis, StandardNormal, StanDensity, run
from pyflowers.sampling import SIGNIFICANT_FIGURES, SamplerOptions, data_file, sample
from pyflowers.vb import SufficientStatistics, fit_multilevel_normal, fit_normal

Row = tuple[str, str, str]
COMMAND = Path(sys.executable).with_name("pyflowers")


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def counts(num_plants: int, num_months: int) -> FlowerData:
    """Simulate a multilevel Poisson table."""
    rng = np.random.default_rng(1)
    rate = np.exp(rng.normal(1.5, 0.8, num_plants))
    plant = np.repeat(np.arange(num_plants), num_months)
    month = np.tile(np.arange(num_months), num_plants)
    frame = pd.DataFrame(
        {
            "plant": plant.astype(str),
            "month": month.astype(str),
            "flowers": rng.poisson(rate[plant]),
        }
    )
    return pyflowers.from_frame(frame)


def overhead() -> list[Row]:
    """``pyflowers.fit`` against the bare executable, two chains at once, and reading its CSV."""
    data = counts(200, 48)
    model = pyflowers.get_model("multilevel_poisson")
    executable = compile_program(model.program, cmdstan=find_cmdstan())
    stan_data = model.stan_data(data, model.resolve_priors())

    def bare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = data_file(stan_data, Path(folder))

            def chain(number: int) -> None:
                arguments = (
                    f"id={number} random seed=1 data file={file} "
                    f"output file={folder}/{number}.csv sig_figs={SIGNIFICANT_FIGURES} "
                    "method=sample adapt delta=0.9"
                )
                command = [executable.path, *arguments.split()]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

            with ThreadPoolExecutor(2) as executor:
                list(executor.map(chain, range(1, 5)))
            for number in range(1, 5):
                pd.read_csv(f"{folder}/{number}.csv", comment="#")

    def ours() -> None:
        pyflowers.fit(model, data, seed=1, cores=2)

    ours()  # imports
    rounds = [(seconds(ours), seconds(bare)) for _ in range(5)]
    fit, run = min(a for a, _ in rounds), min(b for _, b in rounds)
    return [
        ("overhead of fit, 200 × 48", f"{fit / run:.2f} × ({fit:.2f} s / {run:.2f} s)", "1.3 ×")
    ]


def scale() -> list[Row]:
    """Compare sampling times at a hundred times as many rows."""
    model = pyflowers.get_model("multilevel_poisson")
    executable = compile_program(model.program, cmdstan=find_cmdstan())
    times = {}
    for _ in range(3):
        for num_months in (10, 1000):
            data = counts(1000, num_months)
            stan_data = model.stan_data(data, model.resolve_priors())
            done = sample(executable, stan_data, SamplerOptions(seed=1), cores=2)
            leapfrogs = done.stats["n_leapfrog__"].sum()
            total = sum(chain["sampling"] for chain in done.chain_times)
            times.setdefault(num_months, []).append((total, total / leapfrogs))
    small, large = (min(t for t, _ in times[n]) for n in (10, 1000))
    step = min(t for _, t in times[1000]) / min(t for _, t in times[10])
    return [
        (
            "sampling time, 1,000 × 1,000 rows against 1,000 × 10",
            f"{large / small:.2f} × ({large:.2f} s / {small:.2f} s); a leapfrog step {step:.2f} ×",
            "1 ± 0.1 ×",
        )
    ]


def command_line() -> list[Row]:
    """How long a user waits for the command line when everything is cached."""

    def run(*arguments: str, rounds: int = 5) -> float:
        command = [COMMAND, *arguments]
        return best(lambda: subprocess.run(command, check=True, capture_output=True), rounds)

    def demo() -> None:
        subprocess.run(["scripts/demo"], check=True, capture_output=True)

    with tempfile.TemporaryDirectory() as folder:
        fit = run("fit", "iid_normal", "--seed", "1", "--out", f"{folder}/run")
        refit = ["fit", "--config", "configs/flowers.toml", "--out"]
        anew = min(run(*refit, f"{folder}/{i}", rounds=1) for i in range(2))
    demo()
    return [
        ("a Python loop of 10 million additions, this machine", f"{best(additions):.2f} s", ""),
        ("import arviz, within each fit", f"{imports('arviz'):.2f} s", ""),
        ("pyflowers --help", f"{run('--help'):.2f} s", "0.3 s"),
        ("pyflowers fit iid_normal, warm", f"{fit:.2f} s", "4 s"),
        ("scripts/demo again", f"{best(demo, 1):.1f} s", "20 s"),
        ("the demo's three fits and their plots, anew", f"{anew:.1f} s", "20 s"),
    ]


def additions() -> None:
    """Keep one core busy for a while, as a measure of the machine."""
    total = 0
    for i in range(10_000_000):
        total += i


def imports(module: str) -> float:
    """Time the import of a module in a Python of its own."""
    command = [sys.executable, "-W", "ignore", "-c", f"import {module}"]
    return best(lambda: subprocess.run(command, check=True))


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest of several timings."""
    return min(seconds(work) for _ in range(rounds))


def variational() -> list[Row]:
    """Closed-form VB at scale, and beside NUTS and ADVI on posteriors that all can do."""
    rng = np.random.default_rng(1)
    x = rng.normal(1, 3, size=(100_000, 100))
    batch = best(lambda: fit_normal(x))
    plants = rng.normal(rng.normal(7, 2, (100_000, 1)), 3, size=(100_000, 48))
    statistics = SufficientStatistics.from_array(plants)
    large = best(lambda: fit_multilevel_normal(statistics))
    rows = [
        ("VB, 100,000 normal data sets × 100", f"{batch:.2f} s", "1 s"),
        ("VB, multilevel, 100,000 plants × 48", f"{large:.2f} s", "5 s"),
    ]
    one = pd.DataFrame({"plant": "a", "month": np.arange(100), "flowers": x[0]})
    rows.append(_beside("semiconjugate_normal", pyflowers.from_frame(one), "100 observations"))
    table = pd.DataFrame(
        {
            "plant": np.repeat(np.arange(1000), 48),
            "month": np.tile(np.arange(48), 1000),
            "flowers": plants[:1000].ravel(),
        }
    )
    rows.append(_beside("multilevel_normal", pyflowers.from_frame(table), "1,000 plants × 48"))
    return rows


def _beside(name: str, data: FlowerData, size: str) -> Row:
    """Time VB, NUTS and ADVI on one posterior."""
    model = pyflowers.get_model(name)
    priors = model.resolve_priors()
    executable = compile_program(model.program, cmdstan=find_cmdstan())
    stan_data = model.stan_data(data, priors)
    options = SamplerOptions(seed=1)
    vb = best(lambda: closed_form(model, data, priors))
    nuts = best(lambda: sample(executable, stan_data, options, cores=2), 1)
    advi = best(lambda: approximate(executable, stan_data, "advi_meanfield", seed=1), 1)
    measured = f"{vb:.4f} s; NUTS {nuts / vb:,.0f} ×, ADVI {advi / vb:,.0f} × as long"
    return (f"VB beside NUTS and ADVI, {name}, {size}", measured, "")


def samplers() -> list[Row]:
    """Transitions of 1,000 Metropolis chains at once, the draws kept."""
    kernel = Metropolis(StandardNormal(), GaussianStep(2.4))
    start = np.zeros((1_000, 1))
    elapsed = best(lambda: run(kernel, np.random.default_rng(0), start, 4_000))
    rate = 4_000_000 / elapsed / 1e6
    model = pyflowers.get_model("iid_normal")
    stan_data = model.stan_data(pyflowers.read_data(flowers_csv()), model.resolve_priors())
    target = StanDensity(model.program, stan_data)
    points = np.random.default_rng(1).normal(size=(4, 1, 2))

    def one_at_a_time() -> None:
        for _ in range(25_000):
            for point in points:
                target.log_density_gradient(point)

    gradients = 100_000 / best(one_at_a_time)
    return [
        ("Metropolis, 1,000 chains, N(0, 1)", f"{rate:.1f} million/s", "2 million/s"),
        ("StanDensity, iid_normal, a point a call", f"{gradients:,.0f}/s", "100,000/s"),
    ]


def mixture() -> list[Row]:
    """Run NUTS on the lecture's Gaussian mixture: four chains of 2,000 iterations."""
    data = mixture_data(pd.read_csv(gaussian_mixture_csv())["y"].to_numpy())
    fit = pyflowers.fit(program_path("gaussian_mixture"), data, seed=1, cores=2)
    elapsed = fit.record["times"]["wall_seconds"]
    return [("Gaussian mixture, 1,000 points, 4 × 2,000", f"{elapsed:.1f} s", "60 s")]


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "overhead": overhead,
    "scale": scale,
    "command_line": command_line,
    "variational": variational,
    "samplers": samplers,
    "mixture": mixture,
}


def main() -> None:
    """Run the benchmarks named, or all, and print a Markdown table."""
    names = sys.argv[1:] or list(BENCHMARKS)
    print("| what | measured | bar |\n|---|---|---|")
    for name in names:
        for what, measured, bar in BENCHMARKS[name]():
            print(f"| {what} | {measured} | {bar} |", flush=True)


if __name__ == "__main__":
    main()
