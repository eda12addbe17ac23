"""Metropolis, HMC and NUTS on the multilevel Poisson posterior of the flowers.

The target is ``stan/multilevel_poisson.stan`` with the lecture's three plants and four months, as
:class:`~pyflowers.samplers.StanDensity` gives it: x = (mu, log sigma2, and a coordinate a plant).
Stan finds step size and mass in its warm-up. By hand, a pilot run of HMC with unit mass gives the
posterior's covariance Σ, from which

    Metropolis proposes N(x, 2.38²/d Σ)  ([1]_),     HMC takes the mass diag(Σ)⁻¹.

With three plants sigma2 and mu have heavy tails: they are compared by quantiles.

References
----------
.. [1] Gelman, Roberts and Gilks (1996), Efficient Metropolis jumping rules, Bayesian Statistics 5,
   599–607.
.. [2] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5, section 5.4.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyflowers.fits.sampling import fit
from pyflowers.lectures.figures import draw_traces, efficiency_figure
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import (
    Draws,
    Efficiency,
    FloatArray,
    agreement,
    compare_draws,
    efficiency,
    largest_r_hat,
    mixes,
    statistics,
    timed_run,
)
from pyflowers.lectures.stan import Nuts
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, plain_ticks, styled
from pyflowers.programs import find_program
from pyflowers.samplers import HMC, GaussianStep, Kernel, Mass, Metropolis, StanDensity, run

MODEL = "multilevel_poisson"
NUM_CHAINS = 4
HEAVY_TAILED = ("mu", "sigma2")
HMC_STEP, HMC_STEPS, HMC_JITTER = 0.35, 8, 0.3
PILOT_STEP, PILOT_STEPS = 0.1, 20


def flowers_by_hand(settings: Settings) -> Lecture:
    """Compare three samplers on the flowers.

    Raises
    ------
    PyflowersError
        If Stan cannot be run.
    """
    target = flower_density()
    start, covariance = _pilot(target, settings)
    num_draws = settings.size(10_000, 2_500)
    draws: dict[str, Draws] = {}
    costs: list[Efficiency] = []
    for stream, (name, kernel, each) in enumerate(_samplers(target, covariance), start=1):
        num = num_draws * (1 if each > 1 else 4)
        result, seconds = timed_run(kernel, settings.rng(stream), start, num, warmup=500)
        draws[name] = named_draws(target, result.draws)
        costs.append(efficiency(name, result, draws[name], each, seconds))
    stan = Nuts(fit(MODEL, seed=settings.seed, draws=num_draws // 2, cmdstan=settings.cmdstan))
    draws["Stan's NUTS"] = stan.draws("mu", "sigma2", "mu_plant")
    costs.append(stan.efficiency(draws["Stan's NUTS"]))
    return Lecture(
        "flowers-by-hand",
        "The flowers' posterior, sampled by hand",
        settings,
        _findings(draws, costs, stan),
        {
            "Efficiency, by the quantity with the smallest ESS": [cost.row() for cost in costs],
            "Median and 90% interval": _rows(draws),
        },
        {"traces": _trace_figure(draws), "efficiency": efficiency_figure(costs)},
        {"coordinates": target.names, "pilot_covariance": covariance},
    )


def flower_density() -> StanDensity:
    """Return the multilevel Poisson posterior of the lecture's flowers."""
    program = find_program(MODEL)
    data, _ = program.fill(program.read(), program.resolve_priors())
    return StanDensity(program.path, program.stan_values(data))


def named_draws(target: StanDensity, draws: FloatArray) -> dict[str, FloatArray]:
    """Return mu, sigma2 and each mu_plant by Stan's names, shaped (chain, draw)."""
    values = target.constrain(draws)
    rates = values["mu_plant"]
    plants = find_program(MODEL).read().labels["plant"].names
    named = {f"mu_plant[{plant}]": rates[..., i] for i, plant in enumerate(plants)}
    return {"mu": values["mu"], "sigma2": values["sigma2"], **named}


def _pilot(target: StanDensity, settings: Settings) -> tuple[FloatArray, FloatArray]:
    """Return where chains can start, shape (chain, dim), and the covariance of x."""
    start = target.start(settings.rng(0), NUM_CHAINS)
    kernel = HMC(target, PILOT_STEP, PILOT_STEPS)
    pilot = run(kernel, settings.rng(0), start, num_draws=1_500, num_warmup=500)
    covariance = np.cov(pilot.draws.reshape(-1, target.dim), rowvar=False)
    return pilot.state.position, np.asarray(covariance, dtype=np.float64)


def _samplers(target: StanDensity, covariance: FloatArray) -> list[tuple[str, Kernel[Any], int]]:
    """Return each sampler with the evaluations that one of its transitions takes."""
    factor = np.linalg.cholesky(2.38**2 / target.dim * covariance)
    mass = Mass(1 / np.diag(covariance))
    return [
        ("Metropolis", Metropolis(target, GaussianStep(factor)), 1),
        ("HMC", HMC(target, HMC_STEP, HMC_STEPS, mass, HMC_JITTER), HMC_STEPS),
    ]


def _findings(draws: dict[str, Draws], costs: list[Efficiency], stan: Nuts) -> list[str]:
    reference = draws["Stan's NUTS"]
    found = [f"Stan's NUTS: {stan.verdict}.".replace("\n", "; ")]
    for name in ("Metropolis", "HMC"):
        sentence = agreement(
            compare_draws(draws[name], reference, HEAVY_TAILED), f"{name} and Stan's NUTS"
        )
        state = "mixes" if mixes(draws[name]) else "does NOT mix"
        found.append(f"{name} {state} (R-hat {largest_r_hat(draws[name]):.3f}). {sentence}")
    best = max(costs, key=lambda cost: cost.ess / cost.evaluations)
    fastest = max(costs, key=lambda cost: cost.ess / cost.seconds)
    return [
        *found,
        f"Most effective draws per evaluation: {best.sampler}, "
        f"{1000 * best.ess / best.evaluations:.0f} per 1,000; Metropolis needs no gradient, whose "
        "cost beside a density's is not counted here.",
        f"Most per second of one core: {fastest.sampler}, {fastest.ess / fastest.seconds:,.0f}. "
        "Stan's seconds include writing the draws; those of the other samplers include Python.",
    ]


def _rows(draws: dict[str, Draws]) -> list[Row]:
    rows: list[Row] = []
    for quantity in next(iter(draws.values())):
        row: dict[str, Any] = {"quantity": quantity}
        for sampler, values in draws.items():
            found = statistics(values[quantity], moments=False)
            low, middle, high = (found[p][0] for p in ("5%", "50%", "95%"))
            row[sampler] = f"{middle:.3g} ({low:.3g} to {high:.3g})"
        rows.append(row)
    return rows


@styled
def _trace_figure(draws: dict[str, Draws]) -> StyledFigure:
    figure, axes = panels(6, 3, 1.5, LIGHT, sharey="row")
    for column, (name, values) in enumerate(draws.items()):
        for row, quantity in enumerate(("sigma2", "mu_plant[1]")):
            ax = axes[3 * row + column]
            draw_traces(ax, values[quantity], 500)
            if row == 0:
                ax.set_title(name)
                ax.set_yscale("log")
                plain_ticks(ax.yaxis)
                ax.tick_params(labelbottom=False)
            if column == 0:
                ax.set_ylabel(quantity)
    for ax in axes[3:]:
        ax.set_xlabel("draw")
    alt = "Traces of sigma2 and of the first plant's rate, four chains, by three samplers."
    return finish(figure, alt, "The first 500 draws of each chain after warm-up.")
