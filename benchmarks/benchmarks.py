"""The benchmarks behind ``scripts/bench``: each returns rows of (what, measured, target).

A comparison is the ratio of two times that are measured alternately in one run; each is the best of
several rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import stanio

import pyflowers
from pyflowers.convergence import statistics
from pyflowers.data import Table
from pyflowers.engines import SamplerOptions
from pyflowers.engines.approximate import approximate
from pyflowers.engines.cmdstan import SIGNIFICANT_FIGURES, CmdStanProgram
from pyflowers.exact import NormalSampler, PoissonSampler
from pyflowers.lectures.gaussian_mixture import stan_data as mixture_data
from pyflowers.programs import Data, find_program
from pyflowers.resources import arviz, gaussian_mixture_csv, program_path
from pyflowers.samplers import GaussianStep, Metropolis, StandardNormal, StanDensity, run
from pyflowers.toolchain import compile_program, find_cmdstan
from pyflowers.vb import SufficientStatistics, fit_multilevel_normal, fit_normal

Row = tuple[str, str, str]
ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("pyflowers")


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def counts(num_plants: int, num_months: int) -> Table:
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


def filled(name: str, table: Table | None = None) -> Data:
    """Return the data block of a shipped program, with default priors."""
    program = find_program(name)
    return program.fill(program.read(table), program.resolve_priors())[0]


def compiled(name: str) -> CmdStanProgram:
    """Return a shipped program, compiled by CmdStan."""
    return CmdStanProgram(compile_program(find_program(name).path, cmdstan=find_cmdstan()))


def overhead() -> list[Row]:
    """Compare ``pyflowers.fit`` with bare runs of the executable, including reading the draws."""
    name, table = "multilevel_poisson", counts(200, 48)
    program = find_program(name)
    executable = compiled(name).executable
    stan_data = program.stan_values(filled(name, table))

    def bare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/data.json"
            stanio.write_stan_json(file, stan_data)

            def chain(number: int) -> None:
                arguments = (
                    f"id={number} random seed=1 data file={file} "
                    f"output file={folder}/{number}.csv sig_figs={SIGNIFICANT_FIGURES} "
                    "method=sample adapt delta=0.9"
                )
                command = [str(executable.path), *arguments.split()]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

            with ThreadPoolExecutor(2) as executor:
                list(executor.map(chain, range(1, 5)))
            for number in range(1, 5):
                pd.read_csv(f"{folder}/{number}.csv", comment="#")

    def whole() -> None:
        pyflowers.fit(name, table, seed=1, cores=2, engine="cmdstan")

    whole()  # not timed: imports
    rounds = [(seconds(whole), seconds(bare)) for _ in range(5)]
    fit, run = min(a for a, _ in rounds), min(b for _, b in rounds)
    return [
        ("overhead of fit, 200 × 48", f"{fit / run:.2f} × ({fit:.2f} s / {run:.2f} s)", "1.3 ×")
    ]


def engines() -> list[Row]:
    """Compare a fit by the interpreter with one by CmdStan, and with a bare interpreter call."""
    import stanli

    rows: list[Row] = []
    name, program = "multilevel_poisson", find_program("multilevel_poisson")
    for num_plants, num_months in ((200, 48), (1000, 100)):
        table = counts(num_plants, num_months)
        data = program.read(table)
        values = {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in program.stan_values(filled(name, table)).items()
        }

        def bare(values: dict[str, object] = values) -> None:
            model = stanli.Model(stan_file=program.path, data=values)
            model.sample(seed=1, delta=0.9, parallel_chains=2, refresh=0)

        def fit(engine: str, data: Data = data) -> None:
            pyflowers.fit(name, data, seed=1, cores=2, engine=engine)

        fit("stanli")  # not timed: imports, and the start of the worker
        fit("cmdstan")
        rounds = [
            (seconds(lambda: fit("stanli")), seconds(lambda: fit("cmdstan")), seconds(bare))
            for _ in range(3)
        ]
        interpreted, compiled_, alone = (min(times) for times in zip(*rounds, strict=True))
        size = f"{num_plants} × {num_months}"
        rows += [
            (
                f"fit by stanli, {size}",
                f"1/{compiled_ / interpreted:.2f} of CmdStan's {compiled_:.2f} s",
                "1/2",
            ),
            (
                f"fit by stanli over its bare call, {size}",
                f"{interpreted / alone:.2f} × ({interpreted:.2f} s / {alone:.2f} s)",
                "1.2 ×",
            ),
        ]
    return rows


def scale() -> list[Row]:
    """Compare the sampling times of a table and of one with a hundred times as many rows."""
    program, executable = find_program("multilevel_poisson"), compiled("multilevel_poisson")
    times: dict[int, list[tuple[float, float]]] = {}
    for _ in range(3):
        for num_months in (10, 1000):
            data = filled("multilevel_poisson", counts(1000, num_months))
            stan_data = program.stan_values(data)
            done = executable.sample(stan_data, SamplerOptions(seed=1), cores=2)
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
    """Measure how long a user waits for the command line when everything is cached."""

    def run(*arguments: str, rounds: int = 5) -> float:
        command = [str(COMMAND), *arguments]
        return best(lambda: subprocess.run(command, check=True, capture_output=True), rounds)

    def demo() -> None:
        subprocess.run(["scripts/demo"], check=True, capture_output=True)

    with tempfile.TemporaryDirectory() as folder:
        fit = run(
            "fit", "iid_normal", "--seed", "1", "--engine", "cmdstan", "--out", f"{folder}/run"
        )
        refit = ["fit", "--config", "examples/flowers.toml", "--engine", "cmdstan", "--out"]
        anew = min(run(*refit, f"{folder}/{i}", rounds=1) for i in range(2))
        answer = ["fit", "multilevel_poisson", "--seed", "1", "--out", f"{folder}/answer"]
        printed = run(*answer, "--plots", "none")
        drawn = run(*answer)
    start, draw = imports("numpy, pandas"), imports("matplotlib.pyplot")
    demo()
    return [
        ("a Python loop of 10 million additions, this machine", f"{best(additions):.2f} s", ""),
        ("import arviz, which no command needs", f"{imports('arviz'):.2f} s", ""),
        ("pyflowers --help", f"{run('--help'):.2f} s", "0.3 s"),
        ("pyflowers fit iid_normal, warm", f"{fit:.2f} s", "4 s"),
        (
            "pyflowers fit multilevel_poisson --plots none, warm",
            f"{printed:.2f} s, {printed - start:.2f} s more than numpy and pandas ({start:.2f} s)",
            "1.0 s more",
        ),
        (
            "time added by its plots",
            f"{drawn - printed:.2f} s, {(drawn - printed) / draw:.2f} × import matplotlib.pyplot",
            "2.5 ×",
        ),
        ("scripts/demo, run again", f"{best(demo, 1):.1f} s", "20 s"),
        ("the demo's three fits and their plots, run again", f"{anew:.1f} s", "20 s"),
    ]


def report() -> list[Row]:
    """Measure the time of a report from finished fits and from the table, and its size."""

    def run(*arguments: str) -> float:
        command = [str(COMMAND), *arguments]
        return seconds(lambda: subprocess.run(command, check=True, capture_output=True))

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        table = ["report", "--seed", "1", "--out", str(page)]
        whole = min(run(*table, "--runs", f"{folder}/{i}") for i in range(3))
        runs = [str(run) for run in sorted(Path(folder, "0").iterdir())]
        finished = min(run("report", *runs, "--out", str(page)) for _ in range(3))
        size = page.stat().st_size / 1e6
    return [
        (
            "pyflowers report of three finished fits",
            f"{finished:.1f} s, {size:.1f} MB",
            "8 s, 3 MB",
        ),
        ("pyflowers report from the table, engine warm", f"{whole:.1f} s", "12 s"),
    ]


def lecture() -> list[Row]:
    """Time the lecture on neural networks, and check whether its chains agree on the function."""
    name = "neural-network"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        command = [str(COMMAND), "lecture", name, "--out", str(out)]
        elapsed = seconds(lambda: subprocess.run(command, check=True, capture_output=True))
        found = json.loads((out / "results.json").read_text(encoding="utf-8"))
    checks = found["results"]["denoising"]["verdicts"]["NUTS"]["function"]["checks"]
    r_hat = next(check["value"] for check in checks if check["name"] == "R-hat")
    return [
        (f"pyflowers lecture {name}", f"{elapsed:.0f} s", "240 s"),
        ("R-hat of f under NUTS, 5 units", f"{r_hat:.2f}", "1.05"),
    ]


def additions() -> None:
    """Keep one core busy for a while, to measure the speed of the machine."""
    total = 0
    for i in range(10_000_000):
        total += i


def imports(module: str) -> float:
    """Time the import of a module in a separate Python process."""
    command = [sys.executable, "-W", "ignore", "-c", f"import {module}"]
    return best(lambda: subprocess.run(command, check=True))


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest of several timings."""
    return min(seconds(work) for _ in range(rounds))


def variational() -> list[Row]:
    """Measure closed-form VB at scale, and compare it with NUTS and ADVI on smaller posteriors."""
    rng = np.random.default_rng(1)
    x = rng.normal(1, 3, size=(100_000, 100))
    batch = best(lambda: fit_normal(x))
    plants = rng.normal(rng.normal(7, 2, (100_000, 1)), 3, size=(100_000, 48))
    sufficient = SufficientStatistics.from_array(plants)
    large = best(lambda: fit_multilevel_normal(sufficient))
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


def _beside(name: str, table: Table, size: str) -> Row:
    """Time VB, NUTS and ADVI on one posterior."""
    program, loaded, data = find_program(name), compiled(name), filled(name, table)
    closed_form = program.python.closed_form.vb
    assert closed_form is not None  # this benchmark uses only programs that have it
    stan_data = program.stan_values(data)
    options = SamplerOptions(seed=1)
    vb = best(lambda: closed_form(data))
    nuts = best(lambda: loaded.sample(stan_data, options, cores=2), 1)
    advi = best(lambda: approximate(loaded.executable, stan_data, "advi_meanfield", seed=1), 1)
    measured = f"{vb:.4f} s; NUTS {nuts / vb:,.0f} ×, ADVI {advi / vb:,.0f} × as long"
    return (f"VB against NUTS and ADVI, {name}, {size}", measured, "")


def samplers() -> list[Row]:
    """Measure the rate of transitions of 1,000 parallel Metropolis chains whose draws are kept."""
    kernel = Metropolis(StandardNormal(), GaussianStep(2.4))
    start = np.zeros((1_000, 1))
    elapsed = best(lambda: run(kernel, np.random.default_rng(0), start, 4_000))
    rate = 4_000_000 / elapsed / 1e6
    program = find_program("iid_normal")
    target = StanDensity(program.path, program.stan_values(filled("iid_normal")))
    points = np.random.default_rng(1).normal(size=(4, 1, 2))

    def one_at_a_time() -> None:
        for _ in range(25_000):
            for point in points:
                target.log_density_gradient(point)

    gradients = 100_000 / best(one_at_a_time)
    return [
        ("Metropolis, 1,000 chains, N(0, 1)", f"{rate:.1f} million/s", "2 million/s"),
        ("StanDensity, iid_normal, one point per call", f"{gradients:,.0f}/s", "100,000/s"),
    ]


def mixture() -> list[Row]:
    """Run NUTS on the lecture's Gaussian mixture: four chains of 2,000 iterations."""
    data = mixture_data(pd.read_csv(gaussian_mixture_csv())["y"].to_numpy())
    fit = pyflowers.fit(program_path("gaussian_mixture"), data, seed=1, cores=2, engine="cmdstan")
    elapsed = fit.record.times.wall_seconds
    return [("Gaussian mixture, 1,000 points, 4 × 2,000", f"{elapsed:.1f} s", "60 s")]


def diagnostics() -> list[Row]:
    """Compare R-hat, ESS and the error of the mean with ArviZ on the same draws."""
    az = arviz()
    draws = np.random.default_rng(1).normal(size=(4, 1_000, 5_000))
    dataset = az.convert_to_dataset({"x": draws})

    def theirs() -> None:
        az.rhat(dataset)
        az.ess(dataset, method="bulk")
        az.ess(dataset, method="tail")
        az.mcse(dataset, method="mean")

    rounds = [(seconds(lambda: statistics(draws)), seconds(theirs)) for _ in range(3)]
    here, there = (min(times) for times in zip(*rounds, strict=True))
    measured = f"1/{there / here:.1f} of ArviZ's time ({here:.2f} s / {there:.1f} s)"
    what = "R-hat, ESS, MCSE and quantiles, 5,000 elements × 4 × 1,000"
    return [(what, measured, "1/10")]


def exact() -> list[Row]:
    """Time the setup and the drawing of independent draws from the exact posteriors."""
    rows = []
    for num_plants, num_months, num_draws in (
        (3, 4, 20_000), (200, 48, 4_000), (1_000, 100, 4_000), (10_000, 20, 1_000)
    ):  # fmt: skip
        rng = np.random.default_rng(1)
        num = np.full(num_plants, float(num_months))
        totals = rng.poisson(num * np.exp(rng.normal(1.5, 0.8, num_plants))).astype(float)
        mean = rng.normal(rng.normal(7, 2, num_plants), 3 / np.sqrt(num))
        statistics = SufficientStatistics(num, mean, 9 * rng.chisquare(num - 1))
        size = f"{num_plants:,} × {num_months}"
        for name, make in (
            ("multilevel_poisson", partial(PoissonSampler, totals, num)),
            ("multilevel_normal", partial(NormalSampler, statistics)),
        ):
            setup = best(make)
            drawing = best(partial(_draw_all, make(), num_draws))
            measured = f"{num_draws / drawing:,.0f} draws/s after {setup:.3f} s"
            rows.append((f"exact draws, {name}, {size}", measured, ""))
    return [*rows, *beside_nuts(), *many_plants()]


def beside_nuts() -> list[Row]:
    """Compare independent draws with NUTS, by effective draws of the worst parameter per second."""
    rows = []
    for size, bar in (((3, 4), 5), ((200, 48), 5), ((1_000, 100), 3), ((10_000, 20), 8)):
        table = counts(*size)

        def rate(engine: str, table: Table = table) -> float:
            done = pyflowers.fit("multilevel_poisson", table, seed=1, engine=engine)
            return float(done.summary(all=True)["ess_bulk"].min()) / done.record.times.wall_seconds

        rates: dict[str, float] = {}
        for _ in range(7 if size[0] < 1_000 else 1):
            for engine in ("exact", "stanli", "cmdstan"):
                rates[engine] = max(rate(engine), rates.get(engine, 0.0))
        here = rates.pop("exact")
        best_engine = max(rates, key=rates.__getitem__)
        ratio = here / rates[best_engine]
        rows.append(
            (
                f"min-ESS/s, exact over NUTS, multilevel_poisson, {size[0]:,} × {size[1]}",
                f"{ratio:.1f} × ({here:,.0f} / {rates[best_engine]:,.0f} by {best_engine})",
                f"{bar} ×",
            )
        )
    return rows


FUNNELS = {
    "centered": "parameters { real v; vector[9] x; } "
    "model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }",
    "non-centered": "parameters { real v; vector[9] z; } "
    "transformed parameters { vector[9] x = exp(v / 2) * z; } "
    "model { v ~ normal(0, 3); z ~ std_normal(); }",
}
"""Neal (2003), Slice sampling, Annals of Statistics 31(3), section 8."""


def pilot_cases(folder: Path) -> dict[str, tuple[float, dict[str, Any]]]:
    """Return the target and ``fit`` arguments for each posterior on which pilot runs are tested."""
    tables = ROOT / "tests" / "programs" / "formulas" / "data"
    ticks = "TICKS ~ YEAR + HEIGHT + (1 | BROOD) + (1 | LOCATION)"
    cases: dict[str, tuple[float, dict[str, Any]]] = {
        f"multilevel_poisson, {plants:,} × {months}": (
            bar,
            {"program": "multilevel_poisson", "data": counts(plants, months)},
        )
        for plants, months, bar in ((200, 48, 1.8), (1_000, 100, 2.5), (10_000, 20, 2.0))
    }
    for name in ("iid_normal", "multilevel_normal", "multilevel_poisson"):
        cases[f"{name}, 3 × 4"] = 0.95, {"program": name}
    for name in ("epil", "pumps", "rats", "seeds"):
        example = ROOT / "examples" / name
        cases[name] = 0.95, {"program": example / f"{name}.stan", "data": example / f"{name}.csv"}
    for name, formula, family in (
        ("sleepstudy", "Reaction ~ Days + (Days | Subject)", "gaussian"),
        ("grouseticks", ticks, "negbinomial"),
        ("epilepsy", "count ~ zAge + zBase * Trt + (1 | patient)", "poisson"),
    ):
        table = tables / f"{name}.csv"
        cases[name] = 0.95, {"program": formula, "family": family, "data": table}
    for name, program in FUNNELS.items():
        path = folder / f"{name.replace('-', '_')}.stan"
        path.write_text(program)
        cases[f"{name} funnel"] = 0.95, {"program": path}
    return cases


def pilots() -> list[Row]:
    """Compare the metric of pilot runs with Stan's warm-up, by effective draws per second.

    The ratios are medians over seven seeds; the times of warm-up and pilot runs are included.
    """
    with tempfile.TemporaryDirectory() as folder:
        return [pilot_row(name, *case) for name, case in pilot_cases(Path(folder)).items()]


def pilot_row(name: str, bar: float, given: Mapping[str, Any]) -> Row:
    """Compare the two metrics on one posterior."""
    rates: dict[str, list[float]] = {"pilot": [], "diag_e": []}
    least: dict[str, list[float]] = {"pilot": [], "diag_e": []}
    num_held = 0
    for seed in range(8):  # the first is not timed: imports, and the start of the worker
        # The order alternates, because the speed of a machine changes from one fit to the next.
        for metric in sorted(rates, reverse=bool(seed % 2)):
            done = pyflowers.fit(**given, seed=seed, engine="stanli", metric=metric)
            if seed:
                ess = float(done.summary(all=True)["ess_bulk"].min())
                least[metric].append(ess)
                rates[metric].append(ess / done.record.times.wall_seconds)
                num_held += bool(done.record.metric_held)
    ratios = np.divide(rates["pilot"], rates["diag_e"])
    pilot, diagonal = (float(np.median(its)) for its in rates.values())
    draws = " / ".join(f"{np.median(its):,.0f}" for its in least.values())
    return (
        f"min-ESS/s, metric pilot over diag_e, {name}",
        f"{np.median(ratios):.2f} × ({pilot:,.0f} / {diagonal:,.0f}; min-ESS {draws}; "
        f"held for {num_held} of 7 seeds)",
        f"{bar} ×",
    )


def many_plants() -> list[Row]:
    """Draw 100,000 plants and summarise them all, in a separate process to measure its memory."""
    code = (
        "import resource, time, pyflowers\n"
        "from benchmarks import counts\n"
        "data = counts(100_000, 48)\n"
        "begin = time.perf_counter()\n"
        "fit = pyflowers.fit('multilevel_poisson', data, seed=1, engine='exact', chains=1)\n"
        "assert len(fit.summary()) == 100_002\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20\n"
        "print(f'{time.perf_counter() - begin:.0f} s, {peak:.1f} GB')"
    )
    folder = Path(__file__).parent
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    what = "1,000 exact draws and summaries of 100,000 plants × 48"
    return [(what, done.stdout.strip(), "60 s, 4 GB")]


def _num_stuck(fit: pyflowers.Fit) -> int:
    """Return how many chains seldom move, or have a mean or sd unlike the other chains'."""
    draws = np.stack([fit.posterior[name].values for name in ("Intercept", "sd_plant")])
    draws = draws.reshape(2, fit.num_chains, -1)
    means, sds = draws.mean(axis=2), draws.std(axis=2)
    usual_mean, usual_sd = (np.median(its, axis=1, keepdims=True) for its in (means, sds))
    is_apart = (np.abs(means - usual_mean) > 3 * usual_sd) | (sds < usual_sd / 3)
    seldom_moves = (np.diff(draws[0], axis=1) != 0).mean(axis=1) < 0.5
    return int((is_apart.any(axis=0) | seldom_moves).sum())


def formulas() -> list[Row]:
    """Compare a formula's default parametrisation with both fixed ones and a shipped program."""
    formula = "flowers ~ 1 + (1 | plant)"
    rows: list[Row] = []
    shipped: dict[str, Any] = {
        "program": "multilevel_poisson",
        "priors": {"mu_mean": 1.5, "mu_sd": 2.5},
    }
    for num_plants, num_months in ((1_000, 4), (1_000, 100), (30, 1_000)):
        table = counts(num_plants, num_months)
        written: dict[str, Any] = {"program": formula, "family": "poisson"}
        options = {
            "by default": written,
            "centered": {**written, "centered": True},
            "non-centered": {**written, "centered": False},
            "multilevel_poisson": shipped,
        }
        rates: dict[str, list[float]] = {name: [] for name in options}
        num_failed = num_stuck = 0
        for seed in range(1, 21):
            for name, its in options.items() if seed <= 3 else [("by default", written)]:
                done = pyflowers.fit(data=table, seed=seed, engine="stanli", **its)
                rate = done.summary(all=True)["ess_bulk"].min() / done.record.times.wall_seconds
                rates[name].append(float(rate))
                if name == "by default":
                    num_failed += not done.verdict.computation.passed
                    num_stuck += _num_stuck(done)
        middle = {name: float(np.median(its)) for name, its in rates.items()}
        ours, size = middle.pop("by default"), f"{num_plants:,} × {num_months:,}"
        best_fixed = max(("centered", "non-centered"), key=middle.__getitem__)
        rows += [
            (
                f"min-ESS/s, formula by default over {other}, {size}",
                f"{ours / middle[other]:.2f} × ({ours:,.0f} / {middle[other]:,.0f})",
                "0.7 ×",
            )
            for other in (best_fixed, "multilevel_poisson")
        ]
        stuck = f"{num_stuck} of 80 chains; {num_failed} of 20 verdicts failed"
        rows.append((f"stuck chains, formula by default, {size}", stuck, "0"))
    return rows


def _draw_all(sampler: PoissonSampler | NormalSampler, num_draws: int) -> None:
    """Draw all plants, one block at a time."""
    rng = np.random.default_rng(1)
    for _ in sampler.blocks(sampler.draw_hyper(num_draws, rng), rng):
        pass


def many() -> list[Row]:
    """Measure thousands of fits; see ``benchmarks/benchmarks_many.py``."""
    from benchmarks_many import many as measured

    rows: list[Row] = measured()
    return rows


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "overhead": overhead,
    "engines": engines,
    "scale": scale,
    "command_line": command_line,
    "report": report,
    "diagnostics": diagnostics,
    "variational": variational,
    "samplers": samplers,
    "mixture": mixture,
    "lecture": lecture,
    "exact": exact,
    "pilots": pilots,
    "formulas": formulas,
    "many": many,
}


def main() -> None:
    """Run the named benchmarks, or all, and print a Markdown table."""
    names = sys.argv[1:] or list(BENCHMARKS)
    print("| what | measured | target |\n|---|---|---|")
    for name in names:
        for what, measured, bar in BENCHMARKS[name]():
            print(f"| {what} | {measured} | {bar} |", flush=True)


if __name__ == "__main__":
    main()
