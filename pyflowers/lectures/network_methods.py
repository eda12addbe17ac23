"""Three ways to the posterior of a network: NUTS, mean-field ADVI, and the lecture's HMC.

A chain that starts in a mode which fits worse stays there. So each NUTS chain starts from the best
of several ascents from random points, each chain with points of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from pyflowers.fits.diagnostics import diagnose
from pyflowers.fits.posterior import dataset
from pyflowers.fits.summary import summarize
from pyflowers.fits.verdict import Part
from pyflowers.lectures.lecture import Settings
from pyflowers.lectures.measures import FloatArray
from pyflowers.lectures.networks import Network, Task, Weights
from pyflowers.lectures.stan import advi, nuts
from pyflowers.parallel import each, processes
from pyflowers.programs import Data
from pyflowers.progress import stage
from pyflowers.resources import program_path
from pyflowers.samplers import HMC, StanDensity, run

PROGRAM = "neural_network"
NUM_CHAINS = 4
HMC_STEP, HMC_STEPS = 0.002, 50
"""The lecture's ε and L."""

HMC_BLOCK = 100
"""Transitions of HMC after which the progress is shown."""

ASCENT_STEPS = 500
FEW_ASCENTS = 3
"""Ascents of each chain in a quick run."""


@dataclass(frozen=True)
class Posterior:
    """Draws of a network's weights by one method.

    Attributes
    ----------
    method : str
    network : Network
    weights : mapping of arrays, shaped (chain, draw, …)
    verdict : Part or None
        On the weights; ADVI's single set of independent draws has none.
    seconds : float
    gradients : int
        0 where they are not counted.
    acceptance : float
        Mean acceptance rate of the kept draws; not a number for ADVI.
    ascents : array, shape (chain, ascent)
        Log densities in which the ascents before NUTS ended, the best of each chain first; empty
        for the other methods.
    """

    method: str
    network: Network
    weights: Weights
    verdict: Part | None
    seconds: float
    gradients: int = 0
    acceptance: float = float("nan")
    ascents: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def functions(self, x: FloatArray) -> FloatArray:
        """Return each draw's f at x, shape (chain, draw, n)."""
        return self.network.predict(self.weights, x)

    def function_verdict(self, x: FloatArray) -> Part | None:
        """Judge R-hat and ESS of f at x, which does not depend on the copy that the weights are in.

        ADVI's draws are independent and have no verdict.
        """
        return None if self.verdict is None else judge({"f": self.functions(x)})

    def bands(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the predictive mean, its epistemic sd and its total sd at x.

        The draws' f have the epistemic spread; the noise adds to it: Var y = Var f + E sd².
        """
        f = self.functions(x)
        variance = f.var(axis=(0, 1))
        noise = float((self.network.sd(self.weights) ** 2).mean())
        return f.mean(axis=(0, 1)), np.sqrt(variance), np.sqrt(variance + noise)


def value(verdict: Part | None, name: str) -> float:
    """Return one statistic of a verdict, or not a number without one."""
    checks = verdict.checks if verdict else ()
    return next((check.value for check in checks if check.name == name), float("nan"))


def judge(draws: dict[str, FloatArray]) -> Part:
    """Judge R-hat and ESS of draws shaped (chain, draw, …)."""
    posterior = dataset(draws, Data({}))
    return diagnose(posterior, {}, summarize(posterior))


def by_nuts(task: Task, density: StanDensity, settings: Settings) -> Posterior:
    """Sample with Stan's NUTS, each chain from the best of several ascents."""
    warmup = settings.size(500, 150)
    starts, ascents = best_starts(task, density, settings)
    fit = nuts(
        PROGRAM,
        task.network.stan_data(),
        settings,
        chains=NUM_CHAINS,
        warmup=warmup,
        draws=settings.size(task.num_draws, 150),
        max_treedepth=settings.size(task.max_treedepth, 6),
        metric=task.metric,
        inits=_inits(density, starts),
        title=f"{task.title}: NUTS",
    )
    weights = {name: fit.variable(name) for name in _names(density)}
    wall = float(fit.fit.record.times.wall_seconds)
    acceptance = float(fit.fit.stats["accept_stat__"].mean())
    found = (fit.verdict, wall, fit.gradients, acceptance, ascents)
    return Posterior("NUTS", task.network, weights, *found)


def by_advi(task: Task, settings: Settings) -> Posterior:
    """Approximate by mean-field ADVI."""
    with stage(f"{task.title}: ADVI", 1) as advance:
        found = advi(PROGRAM, task.network.stan_data(), settings)
        advance(1)
    names = ("hidden_weight", "output_weight", "output_bias", "sigma")
    weights = {name: found.draws[name] for name in names if name in found.draws}
    return Posterior("mean-field ADVI", task.network, weights, None, found.wall_time)


def by_hmc(task: Task, density: StanDensity, settings: Settings) -> tuple[Posterior, FloatArray]:
    """Run the lecture's HMC from random starts; also return the log likelihood from the first draw.

    The first half of the transitions is warm-up. Every fifth draw is kept: neighbours are alike.
    """
    num = settings.size(2_000, 300)
    started = time.perf_counter()
    start = density.start(settings.rng(11), NUM_CHAINS, radius=1.0)
    streams = settings.rng(12).spawn(NUM_CHAINS)
    with stage(f"{task.title}: HMC", NUM_CHAINS * num) as advance:
        at_once = processes(NUM_CHAINS)
        chains = each(
            [
                partial(_hmc_chain, density, rng, at[None], num, lambda n: advance(n * at_once))
                for rng, at in zip(streams, start, strict=True)
            ]
        )
    draws, accepted = (np.concatenate(parts) for parts in zip(*chains, strict=True))
    seconds = time.perf_counter() - started
    thinned = density.constrain(draws[:, ::5])
    half = thinned["output_bias"].shape[1] // 2
    kept = {name: values[:, half:] for name, values in thinned.items()}
    gradients = NUM_CHAINS * num * HMC_STEPS
    acceptance = float(accepted[:, num // 2 :].mean())
    found = (judge(kept), seconds, gradients, acceptance)
    posterior = Posterior("HMC", task.network, kept, *found)
    return posterior, task.network.log_likelihood(thinned)


def open_density(network: Network) -> StanDensity:
    """Return the log density of a network's weights."""
    return StanDensity(program_path(PROGRAM), network.stan_data())


def best_starts(
    task: Task, density: StanDensity, settings: Settings
) -> tuple[FloatArray, FloatArray]:
    """Return where the best ascent of each chain ended, and how high all of them came.

    Returns
    -------
    starts : array, shape (chain, dim)
        On the unconstrained scale.
    ascents : array, shape (chain, ascent)
        Log densities, the best first.
    """
    import scipy.optimize  # noqa: F401  # before the fork: see pyflowers.parallel

    num = settings.size(task.num_ascents, FEW_ASCENTS)
    streams = settings.rng(10).spawn(NUM_CHAINS)
    with stage(f"{task.title}: looking for starts", NUM_CHAINS * num) as advance:
        at_once = processes(NUM_CHAINS)
        found = each(
            [partial(ascend, density, rng, num, lambda: advance(at_once)) for rng in streams]
        )
    return np.stack([end for end, _ in found]), np.stack([heights for _, heights in found])


def ascend(
    density: StanDensity,
    rng: np.random.Generator,
    num: int,
    advance: Callable[[], object] = lambda: None,
) -> tuple[FloatArray, FloatArray]:
    """Return where the best of `num` ascents from random starts ended, and all log densities."""
    from scipy.optimize import minimize

    def downhill(x: FloatArray) -> tuple[float, FloatArray]:
        log_density, gradient = density.log_density_gradient(x[None])
        return -float(np.clip(log_density[0], -1e100, None)), -gradient[0]

    ends = []
    for start in density.start(rng, num):
        options = {"maxiter": ASCENT_STEPS}
        ends.append(minimize(downhill, start, jac=True, method="L-BFGS-B", options=options))
        advance()
    ends.sort(key=lambda end: float(end.fun))
    heights = -np.array([end.fun for end in ends], dtype=np.float64)
    return np.asarray(ends[0].x, dtype=np.float64), heights


def _hmc_chain(
    density: StanDensity,
    rng: np.random.Generator,
    start: FloatArray,
    num: int,
    advance: Callable[[int], object],
) -> tuple[FloatArray, FloatArray]:
    """Return the draws of one chain, shape (1, num, dim), and its acceptance rates, (1, num)."""
    kernel = HMC(density, HMC_STEP, HMC_STEPS)
    draws, accepted = [], []
    for first in range(0, num, HMC_BLOCK):
        block = min(HMC_BLOCK, num - first)
        done = run(kernel, rng, start, block)
        draws.append(done.draws)
        accepted.append(done.sample_stats["acceptance_rate"])
        start = done.state.position
        advance(block)
    return np.concatenate(draws, axis=1), np.concatenate(accepted, axis=1)


def _names(density: StanDensity) -> list[str]:
    return [name for name, shape in density.dims.items() if 0 not in shape]


def _inits(density: StanDensity, starts: FloatArray) -> list[dict[str, Any]]:
    found = [density.constrain(start) for start in starts]
    return [{name: value.tolist() for name, value in one.items()} for one in found]
