"""Three ways to the posterior of a network: NUTS, mean-field ADVI, and the lecture's HMC."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyflowers.diagnostics import Verdict, diagnose
from pyflowers.inference_data import arviz
from pyflowers.lecture.lecture import Settings
from pyflowers.lecture.measures import FloatArray
from pyflowers.lecture.networks import Network, Task, Weights
from pyflowers.lecture.stan import advi, nuts
from pyflowers.resources import program_path
from pyflowers.samplers import HMC, StanDensity, run

PROGRAM = "bayesian_network"
NUM_CHAINS = 4
HMC_STEP, HMC_STEPS = 0.002, 50
"""The lecture's ε and L."""

ASCENT_STEPS = 500
ASCENT_STARTS = 3


@dataclass(frozen=True)
class Posterior:
    """Draws of a network's weights by one method.

    Attributes
    ----------
    method : str
    network : Network
    weights : mapping of arrays, shaped (chain, draw, …)
    verdict : Verdict or None
        On the weights; ADVI's single set of independent draws has none.
    seconds : float
    gradients : int
        0 where they are not counted.
    acceptance : float
        Mean acceptance rate of the kept draws; not a number for ADVI.
    """

    method: str
    network: Network
    weights: Weights
    verdict: Verdict | None
    seconds: float
    gradients: int = 0
    acceptance: float = float("nan")

    def functions(self, x: FloatArray) -> FloatArray:
        """Return each draw's f at x, shape (chain, draw, n)."""
        return self.network.predict(self.weights, x)

    def function_verdict(self, x: FloatArray) -> Verdict | None:
        """Judge R-hat and ESS of f at x: what the weights mean, whatever copy they are in.

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


def value(verdict: Verdict | None, name: str) -> float:
    """Return one statistic of a verdict, or not a number without one."""
    checks = verdict.checks if verdict else ()
    return next((check.value for check in checks if check.name == name), float("nan"))


def judge(draws: dict[str, FloatArray]) -> Verdict:
    """Judge R-hat and ESS of draws shaped (chain, draw, …)."""
    az = arviz()
    return diagnose(az.from_dict(posterior=draws, sample_stats={"lp": np.zeros((1, 1))}))


def by_nuts(task: Task, density: StanDensity, settings: Settings) -> Posterior:
    """Sample with Stan's NUTS from starts that a short ascent has found."""
    warmup = settings.size(500, 150)
    fit = nuts(
        PROGRAM,
        task.network.stan_data(),
        settings,
        chains=NUM_CHAINS,
        warmup=warmup,
        draws=settings.size(task.num_draws, 150),
        max_treedepth=settings.size(task.max_treedepth, 6),
        inits=_inits(density, settings.rng(10)),
    )
    weights = {name: fit.variable(name) for name in _names(density)}
    wall = float(fit.fit.record["times"]["wall_seconds"])
    acceptance = float(fit.fit.base.sample_stats["acceptance_rate"].mean())
    found = (fit.verdict, wall, fit.gradients, acceptance)
    return Posterior("NUTS", task.network, weights, *found)


def by_advi(task: Task, settings: Settings) -> Posterior:
    """Approximate by mean-field ADVI."""
    found = advi(PROGRAM, task.network.stan_data(), settings)
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
    result = run(HMC(density, HMC_STEP, HMC_STEPS), settings.rng(12), start, num)
    seconds = time.perf_counter() - started
    thinned = density.constrain(result.draws[:, ::5])
    half = thinned["output_bias"].shape[1] // 2
    kept = {name: values[:, half:] for name, values in thinned.items()}
    gradients = NUM_CHAINS * num * HMC_STEPS
    acceptance = float(result.sample_stats["acceptance_rate"][:, num // 2 :].mean())
    found = (judge(kept), seconds, gradients, acceptance)
    posterior = Posterior("HMC", task.network, kept, *found)
    return posterior, task.network.log_likelihood(thinned)


def open_density(network: Network) -> StanDensity:
    """Return the log density of a network's weights."""
    return StanDensity(program_path(PROGRAM), network.stan_data())


def ascend(density: StanDensity, rng: np.random.Generator) -> FloatArray:
    """Return the best of a few ascents from random starts, shape (dim,).

    Without it, some chain starts in a mode that fits worse and stays there.
    """
    from scipy.optimize import minimize

    def downhill(x: FloatArray) -> tuple[float, FloatArray]:
        log_density, gradient = density.log_density_gradient(x[None])
        return -float(np.clip(log_density[0], -1e100, None)), -gradient[0]

    starts = density.start(rng, ASCENT_STARTS)
    options = {"maxiter": ASCENT_STEPS}
    ends = [minimize(downhill, x, jac=True, method="L-BFGS-B", options=options) for x in starts]
    return np.asarray(min(ends, key=lambda end: float(end.fun)).x, dtype=np.float64)


def _names(density: StanDensity) -> list[str]:
    return [name for name, shape in density.dims.items() if 0 not in shape]


def _inits(density: StanDensity, rng: np.random.Generator) -> list[dict[str, Any]]:
    found = [density.constrain(ascend(density, rng)) for _ in range(NUM_CHAINS)]
    return [{name: value.tolist() for name, value in one.items()} for one in found]
