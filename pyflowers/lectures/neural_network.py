"""Bayesian neural networks, judged by the function that they define and not by their weights.

There are two tasks, both with ``stan/neural_network.stan``:

| task | data | network | priors |
|---|---|---|---|
| denoising | x + 0.3 sin 2π(x+ε) + 0.3 sin 4π(x+ε), 1,000 points in two intervals | \
5 tanh units | weights N(0, 10²), σ ~ Gamma(0.5, 1), noise of sd σ² |
| cubed sine | sin³(6x), 34 points in two intervals | 1–10–10–1 tanh | \
weights N(0, 1), noise sd 0.1 |

NUTS and the lecture's HMC (ε = 0.002, L = 50) draw from the posterior of the weights; mean-field
ADVI approximates it. Predictions average over draws. The band of mean ± 2 sd of f shows the
uncertainty about the function (epistemic); with the noise added, it shows the uncertainty about the
next point (total).

A chain that starts in a mode with a poor fit stays there. So each NUTS chain starts from the best
of several ascents from random points, with different points for each chain.

The weights have symmetries, so their posterior has 3,840 or more copies of each mode, and chains
rarely or never cross between the copies. Therefore R-hat fails for the weights, as the findings
report. The function is the same in all copies. If chains disagree on the function, they are in
different modes or have moved too little along a ridge, which the findings also show.

On the first task, four remedies were tried, with seed 1 and a maximum tree depth of 8, which nearly
every draw reaches. A third of all ascents end more than 200 nats below the best one. From the best
of 3 ascents per chain, R-hat of f was 1.58. From the best of 40, all chains started within 2 nats
of each other, and R-hat was 1.30 after 270 draws, because the ridges are long and narrow. A dense
metric follows them better: after 500 draws, as in the lecture, R-hat was 1.12 on one machine and
1.20 on another, which rounds differently; after 1,000 iterations of warm-up and 1,000 draws it was
still 1.09. A maximum tree depth of 9, in twice the time, gave 1.15. Four units shape the curve. The
fifth unit is at an end or next to another unit. Its place differs between chains and rarely changes
within a chain, and a change shifts f by half the sd of f. So the draws of the function do not
converge within the time of a lecture, and the verdict reports this.

The lecture's ε for HMC is too large for the first task: its chains get stuck, as their acceptance
rate shows.

The lecture's notation is misleading: the sd of its observations is σ², the usual symbol for a
variance, so the *variance* of the noise is σ⁴. The model is valid and is kept.

References
----------
.. [1] Neal (1996), Bayesian Learning for Neural Networks, chapters 2 and 3.
.. [2] Blundell, Cornebise, Kavukcuoglu & Wierstra (2015), Weight uncertainty in neural networks,
   ICML, section 5.2, for the denoising curve.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pyflowers.cores import each, processes
from pyflowers.display import format_number
from pyflowers.fits.diagnostics import diagnose
from pyflowers.fits.posterior import dataset, summarize
from pyflowers.fits.verdict import Part
from pyflowers.lectures import measures
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import FloatArray, draw_traces, panel_figure
from pyflowers.lectures.networks import Network, RegressionTask, Weights, cubed_sine, denoising
from pyflowers.lectures.samplers.hmc import HMC
from pyflowers.lectures.samplers.kernels import run
from pyflowers.lectures.samplers.stan_density import StanDensity
from pyflowers.plots.style import LIGHT, Axes
from pyflowers.programs import Data
from pyflowers.progress import stage
from pyflowers.resources import program_path

PROGRAM = "neural_network"
NUM_CHAINS = 4
HMC_STEP, HMC_STEPS = 0.002, 50
"""The lecture's ε and L."""

HMC_BLOCK = 100
"""The number of HMC transitions between updates of the progress bar."""

ASCENT_STEPS = 500
FEW_ASCENTS = 3
"""Number of ascents per chain in a quick run."""

NEAR = 3.0
"""Distance in nats within which an ascent counts as about as high as the best one."""


def neural_network(settings: Settings) -> Lecture:
    """Fit both networks by three methods and judge the functions.

    Raises
    ------
    PyflowersError
        If Stan cannot be run.
    """
    lecture = Lecture("neural-network", "Bayesian neural networks", settings)
    points = settings.size(1_000, 200)
    for task in denoising(settings.rng(0), points), cubed_sine(settings.rng(1)):
        density = open_density(task.network)
        fit, ascents = by_nuts(task, density, settings)
        hmc, hmc_log_likelihood = by_hmc(task, density, settings)
        posteriors = (fit, by_advi(task, settings), hmc)
        log_likelihood = {
            "NUTS": task.network.log_likelihood(fit.weights),
            "HMC": hmc_log_likelihood,
        }
        error = symmetry_error(task, density, fit)
        rows = _rows(task, posteriors)
        lecture.tables[task.title.capitalize()] = rows
        lecture.say(*_findings(task, fit, hmc, rows, ascents, error))
        _show_predictions(lecture, task, posteriors)
        _show_likelihood(lecture, task, log_likelihood)
        _show_weights(lecture, task, fit)
        lecture.results[task.name] = {
            "num_weights": task.network.num_weights,
            "num_copies": task.network.num_copies,
            "symmetry_error": error,
            "ascents": ascents,
            "verdicts": {one.method: one.verdicts(task) for one in posteriors},
            "mean_log_likelihood": {
                name: values.mean(axis=1) for name, values in log_likelihood.items()
            },
        }
    return lecture


@dataclass(frozen=True)
class NetworkDraws:
    """Draws of a network's weights by one method.

    Attributes
    ----------
    method : str
        The name of the method.
    network : Network
        The network and its training points.
    weights : mapping of arrays, shaped (chain, draw, …)
        The draws of the weights, by the names in the Stan program.
    verdict : Part or None
        The verdict on the weights; None for the independent draws of ADVI.
    seconds : float
        Wall-clock time of the method, in seconds.
    gradients : int
        Number of gradients, for NUTS without those of the warm-up; 0 if they are not counted.
    acceptance : float
        Mean acceptance rate after warm-up; NaN for ADVI.
    """

    method: str
    network: Network
    weights: Weights
    verdict: Part | None
    seconds: float
    gradients: int = 0
    acceptance: float = float("nan")

    def functions(self, x: FloatArray) -> FloatArray:
        """Return f at x in each draw, shape (chain, draw, n)."""
        return self.network.predict(self.weights, x)

    def function_verdict(self, x: FloatArray) -> Part | None:
        """Judge R-hat and ESS of f at x; f is the same in all copies of a mode.

        ADVI's draws are independent and have no verdict.
        """
        return None if self.verdict is None else judge({"f": self.functions(x)})

    def verdicts(self, task: RegressionTask) -> dict[str, Any]:
        """Return both verdicts in a form that JSON can hold."""
        both = {"function": self.function_verdict(task.judged), "weights": self.verdict}
        return {what: verdict.to_dict() if verdict else None for what, verdict in both.items()}

    def bands(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the predictive mean, the epistemic sd and the total sd at x.

        The spread of f between draws is epistemic, and the noise adds to it: Var y = Var f + E sd².
        """
        f = self.functions(x)
        variance = f.var(axis=(0, 1))
        noise = float((self.network.sd(self.weights) ** 2).mean())
        return f.mean(axis=(0, 1)), np.sqrt(variance), np.sqrt(variance + noise)


def judge(draws: dict[str, FloatArray]) -> Part:
    """Judge R-hat and ESS of draws shaped (chain, draw, …)."""
    posterior = dataset(draws, Data({}))
    return diagnose(posterior, {}, summarize(posterior))


def open_density(network: Network) -> StanDensity:
    """Return the log density of a network's weights."""
    return StanDensity(program_path(PROGRAM), network.stan_data())


def by_nuts(
    task: RegressionTask, density: StanDensity, settings: Settings
) -> tuple[NetworkDraws, FloatArray]:
    """Sample with NUTS, starting each chain at its best ascent; also return all log densities."""
    starts, ascents = best_starts(task, density, settings)
    points = [density.constrain(start) for start in starts]
    fit = measures.nuts(
        PROGRAM,
        task.network.stan_data(),
        settings,
        chains=NUM_CHAINS,
        warmup=settings.size(500, 150),
        draws=settings.size(task.num_draws, 150),
        max_treedepth=settings.size(task.max_treedepth, 6),
        metric=task.metric,
        inits=[{name: value.tolist() for name, value in point.items()} for point in points],
        engine=measures.OF_ADVI,
        title=f"{task.title}: NUTS",
    )
    names = [name for name, shape in density.dims.items() if 0 not in shape]
    weights = {name: fit.posterior[name].values for name in names}
    acceptance, gradients, _ = measures.nuts_cost(fit)
    found = (fit.diagnostics, float(fit.record.times.wall_seconds), gradients, acceptance)
    return NetworkDraws("NUTS", task.network, weights, *found), ascents


def by_advi(task: RegressionTask, settings: Settings) -> NetworkDraws:
    """Approximate the posterior of the weights by mean-field ADVI."""
    with stage(f"{task.title}: ADVI", 1) as advance:
        found = measures.advi(PROGRAM, task.network.stan_data(), settings)
        advance(1)
    names = ("hidden_weight", "output_weight", "output_bias", "sigma")
    weights = {name: found.draws[name] for name in names if name in found.draws}
    return NetworkDraws("mean-field ADVI", task.network, weights, None, found.wall_time)


def by_hmc(
    task: RegressionTask, density: StanDensity, settings: Settings
) -> tuple[NetworkDraws, FloatArray]:
    """Run the lecture's HMC from random starts; also return log likelihoods, warm-up included.

    The first half of the transitions is warm-up. Every fifth draw is kept, because neighbouring
    draws are similar.
    """
    num = settings.size(2_000, 300)
    started = time.perf_counter()
    starts = density.start(settings.rng(11), NUM_CHAINS, radius=1.0)
    streams = settings.rng(12).spawn(NUM_CHAINS)
    found = _each_chain(
        f"{task.title}: HMC",
        num,
        [partial(_hmc_chain, density, *one, num) for one in zip(streams, starts, strict=True)],
    )
    draws, accepted = (np.stack(parts) for parts in zip(*found, strict=True))
    seconds = time.perf_counter() - started
    thinned = density.constrain(draws[:, ::5])
    half = thinned["output_bias"].shape[1] // 2
    kept = {name: values[:, half:] for name, values in thinned.items()}
    cost = (seconds, NUM_CHAINS * num * HMC_STEPS, float(accepted[:, num // 2 :].mean()))
    log_likelihood = task.network.log_likelihood(thinned)
    return NetworkDraws("HMC", task.network, kept, judge(kept), *cost), log_likelihood


def _each_chain(title: str, steps: int, tasks: Sequence[Callable[..., Any]]) -> list[Any]:
    """Run a task for each chain in parallel and show progress; tasks call `advance(steps)`."""
    with stage(title, len(tasks) * steps) as advance:
        at_once = processes(len(tasks))
        return list(each([partial(task, lambda n: advance(n * at_once)) for task in tasks]))


def _hmc_chain(
    density: StanDensity,
    rng: np.random.Generator,
    start: FloatArray,
    num: int,
    advance: Callable[[int], object],
) -> tuple[FloatArray, FloatArray]:
    """Return one chain's draws, shape (num, dim), and its acceptance rates, shape (num,)."""
    kernel, position = HMC(density, HMC_STEP, HMC_STEPS), start[None]
    draws, accepted = [], []
    for first in range(0, num, HMC_BLOCK):
        block = min(HMC_BLOCK, num - first)
        done = run(kernel, rng, position, block)
        draws.append(done.draws[0])
        accepted.append(done.sample_stats["acceptance_rate"][0])
        position = done.state.position
        advance(block)
    return np.concatenate(draws), np.concatenate(accepted)


def best_starts(
    task: RegressionTask, density: StanDensity, settings: Settings
) -> tuple[FloatArray, FloatArray]:
    """Return the end of each chain's best ascent, and the log densities of all ascents.

    Returns
    -------
    starts : array, shape (chain, dim)
        The ends of the best ascents, on the unconstrained scale.
    ascents : array, shape (chain, ascent)
        Log densities at the ends, the best first.
    """
    import scipy.optimize  # noqa: F401  # before the fork: see pyflowers.cores

    num = settings.size(task.num_ascents, FEW_ASCENTS)
    ascents = [partial(ascend, density, rng, num) for rng in settings.rng(10).spawn(NUM_CHAINS)]
    found = _each_chain(f"{task.title}: looking for starts", num, ascents)
    starts, heights = (np.stack(parts) for parts in zip(*found, strict=True))
    return starts, heights


def ascend(
    density: StanDensity, rng: np.random.Generator, num: int, advance: Callable[[int], object]
) -> tuple[FloatArray, FloatArray]:
    """Return the end of the best of `num` ascents from random starts, and all log densities."""
    from scipy.optimize import minimize

    def downhill(x: FloatArray) -> tuple[float, FloatArray]:
        log_density, gradient = density.log_density_gradient(x[None])
        return -float(np.clip(log_density[0], -1e100, None)), -gradient[0]

    ends = []
    for start in density.start(rng, num):
        options = {"maxiter": ASCENT_STEPS}
        ends.append(minimize(downhill, start, jac=True, method="L-BFGS-B", options=options))
        advance(1)
    ends.sort(key=lambda end: float(end.fun))
    heights = -np.array([end.fun for end in ends], dtype=np.float64)
    return np.asarray(ends[0].x, dtype=np.float64), heights


def symmetry_error(task: RegressionTask, density: StanDensity, posterior: NetworkDraws) -> float:
    """Return the absolute difference in log density between a draw and one of its copies."""
    draw = {name: values[0, -1] for name, values in posterior.weights.items()}
    empty = {name: np.zeros(shape) for name, shape in density.dims.items() if 0 in shape}
    both = [draw, task.network.another_copy(draw)]
    here, there = density.log_density(
        np.stack([density.unconstrain({**one, **empty}) for one in both])
    )
    return float(abs(here - there))


def _rows(task: RegressionTask, posteriors: Sequence[NetworkDraws]) -> list[Row]:
    """Return a row for each method.

    A row holds the error of the mean function, the distance from NUTS, convergence and time.
    """

    def value(verdict: Part | None, name: str) -> float:
        checks = verdict.checks if verdict else ()
        return next((check.value for check in checks if check.name == name), float("nan"))

    at = task.judged
    nuts_mean, nuts_sd, _ = posteriors[0].bands(at)
    table: list[Row] = []
    for one in posteriors:
        mean, epistemic, total = one.bands(at)
        verdict, by_chain = one.function_verdict(at), one.functions(at).mean(axis=1)
        table.append(
            {
                "method": one.method,
                "acceptance": one.acceptance,
                "error of the mean": float(np.sqrt(np.mean((mean - task.curve(at)) ** 2))),
                "epistemic sd": float(epistemic.mean()),
                "total sd": float(total.mean()),
                "mean: off NUTS, in its sds": float((np.abs(mean - nuts_mean) / nuts_sd).max()),
                "sd / NUTS sd": float(np.median(epistemic / nuts_sd)),
                "chains apart, in total sds": float((np.ptp(by_chain, axis=0) / total).max()),
                "R-hat of f": value(verdict, "R-hat"),
                "ESS of f": value(verdict, "bulk ESS"),
                "R-hat of weights": value(one.verdict, "R-hat"),
                "seconds": one.seconds,
            }
        )
    return table


def _findings(
    task: RegressionTask,
    fit: NetworkDraws,
    hmc: NetworkDraws,
    rows: list[Row],
    ascents: FloatArray,
    symmetry: float,
) -> list[str]:
    """Report the starts of NUTS, the verdicts, and their reasons."""
    of_nuts, of_advi, of_hmc = rows
    best, others = ascents[:, 0], ascents[:, 1:].ravel()
    heights = ", ".join(f"{height:.1f}" for height in np.sort(best))
    near = int((others > best.max() - NEAR).sum())
    if fit.verdict is None or fit.verdict.passed:
        why = ""
    else:
        why = (
            f": each of their modes has {task.network.num_copies:,} copies, and chains rarely or "
            "never cross between them"
        )
    # Neal (2011), section 5.4.4, recommends an acceptance rate of 0.65.
    too_long = ": ε is too large for this posterior, and chains get stuck"
    return [
        f"{task.title}: each chain of NUTS starts from the best of {ascents.shape[1]} "
        f"ascents. The chains start at log densities {heights}; of "
        f"the other {others.size} ascents, whose median is {np.median(others):.1f}, {near} came "
        f"within {NEAR:g} nats of the best.",
        f"{task.title}: NUTS's verdict on f, judged at {len(task.judged)} points in the range of "
        f"the data, {_brief(fit.function_verdict(task.judged))}; its verdict on the weights "
        f"{_brief(fit.verdict)}{why}. Two copies of one draw differ by {symmetry:.0e} in log "
        "density.",
        f"{task.title}: the means of f in NUTS's chains are at most "
        f"{of_nuts['chains apart, in total sds']:.2f} total sds apart.",
        f"{task.title}: HMC with ε = {HMC_STEP:g}, L = {HMC_STEPS} accepts "
        f"{hmc.acceptance:.0%} of its moves in the second half"
        f"{too_long if hmc.acceptance < 0.4 else ''}. It took {hmc.gradients:,} gradients "
        f"(NUTS took {fit.gradients:,} after warm-up); its R-hat of f is "
        f"{of_hmc['R-hat of f']:.2f}, its mean differs from NUTS's by up to "
        f"{of_hmc['mean: off NUTS, in its sds']:.1f} posterior sds, and its sd is "
        f"{of_hmc['sd / NUTS sd']:.2f} times NUTS's.",
        f"{task.title}: the mean of mean-field ADVI differs from NUTS's by up to "
        f"{of_advi['mean: off NUTS, in its sds']:.1f} posterior sds, and its sd is "
        f"{of_advi['sd / NUTS sd']:.2f} times NUTS's: an approximation with "
        "independent weights cannot represent the posterior of the function.",
    ]


def _brief(verdict: Part | None) -> str:
    """Return whether a verdict passes, with the numbers that fail."""
    if verdict is None or verdict.passed:
        return "passes"
    return f"fails ({', '.join(f'{c.name} {format_number(c.value)}' for c in verdict.failed)})"


def _show_predictions(
    lecture: Lecture, task: RegressionTask, posteriors: Sequence[NetworkDraws]
) -> None:
    """Draw the predictive mean with ±2 sd, epistemic and total, in one panel per method."""
    network, grid = task.network, task.grid
    curve = task.curve(grid)
    spread = np.ptp(curve)

    def bands(ax: Axes, posterior: NetworkDraws) -> None:
        mean, epistemic, total = posterior.bands(grid)
        for sd, alpha, label in ((total, 0.2, "total"), (epistemic, 0.45, "epistemic")):
            low, high = mean - 2 * sd, mean + 2 * sd
            ax.fill_between(grid, low, high, color=LIGHT.model, alpha=alpha, lw=0, label=label)
        size = 4.0 if len(network.x) < 100 else 1.2
        ax.plot(network.x, network.y, ".", color=LIGHT.muted, ms=size, zorder=1.5)
        ax.plot(grid, curve, color=LIGHT.ink, ls="--", lw=0.9, label="truth")
        ax.plot(grid, mean, color=LIGHT.model, label="mean")
        ax.set_xlim(grid[0], grid[-1])
        ax.set_ylim(curve.min() - 0.5 * spread, curve.max() + 0.5 * spread)

    shown = {posterior.method: posterior for posterior in posteriors}
    alt = f"Predictive mean and ±2 sd bands of {task.title} by three methods."
    note = "Bands: mean ± 2 sd of f (epistemic) and of y (total)."
    labels, legend = ("x", "y"), "upper right"
    figure = panel_figure(shown, bands, 2.4, alt, note, labels=labels, legend=legend, share="xy")
    lecture.figures[f"{task.name}-predictions"] = figure


def _show_likelihood(
    lecture: Lecture, task: RegressionTask, log_likelihoods: dict[str, FloatArray]
) -> None:
    """Draw the training log likelihood per iteration, in one panel per method."""

    def traces(ax: Axes, values: FloatArray) -> None:
        draw_traces(ax, values, values.shape[1], width=0.7)
        settled = values[:, values.shape[1] // 8 :]
        low, high = float(settled.min()), float(settled.max())
        ax.set_ylim(low - 0.15 * (high - low), high + 0.1 * (high - low))

    titles = {"NUTS": "NUTS, after warm-up", "HMC": "HMC, from random starts"}
    shown = {titles[name]: values for name, values in log_likelihoods.items()}
    alt = f"Training log likelihood of {task.title} per iteration, four chains."
    figure = panel_figure(shown, traces, 2.1, alt, labels=("draw", "training log likelihood"))
    figure.axes[1].set_xlabel("every fifth transition")
    lecture.figures[f"{task.name}-likelihood"] = figure


def _show_weights(lecture: Lecture, task: RegressionTask, fit: NetworkDraws) -> None:
    """Draw traces of a weight, which fails to converge, and of the function at a point."""
    middle = task.judged[[len(task.judged) // 3]]
    shown = {
        "First hidden weight": fit.weights["hidden_weight"][..., 0],
        f"f({middle[0]:.2f})": fit.functions(middle)[..., 0],
    }
    titled = {f"{name}: R-hat {measures.r_hat(draws):.2f}": draws for name, draws in shown.items()}
    alt = f"Traces of a weight and of the function of {task.title}: chains differ in the weight."
    traces = partial(draw_traces, num=fit.weights["hidden_weight"].shape[1])
    figure = panel_figure(titled, traces, 2.1, alt, labels=("draw", ""))
    lecture.figures[f"{task.name}-weights"] = figure
