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

import numpy as np

from pyflowers.fits.sampling import fit
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import (
    Draws,
    Efficiency,
    FloatArray,
    agreement,
    compare_draws,
    draw_traces,
    efficiency,
    efficiency_figure,
    largest_r_hat,
    mixes,
    most_efficient,
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
    pilot = run(
        HMC(target, PILOT_STEP, PILOT_STEPS),
        settings.rng(0),
        target.start(settings.rng(0), NUM_CHAINS),
        num_draws=1_500,
        num_warmup=500,
    )
    covariance = np.cov(pilot.draws.reshape(-1, target.dim), rowvar=False)
    factor = np.linalg.cholesky(2.38**2 / target.dim * covariance)
    hmc = HMC(target, HMC_STEP, HMC_STEPS, Mass(1 / np.diag(covariance)), HMC_JITTER)
    num_draws = settings.size(10_000, 2_500)
    # Each sampler with its draws and the evaluations that one of its transitions takes.
    samplers: dict[str, tuple[Kernel, int, int]] = {
        "Metropolis": (Metropolis(target, GaussianStep(factor)), 4 * num_draws, 1),
        "HMC": (hmc, num_draws, HMC_STEPS),
    }
    draws: dict[str, Draws] = {}
    costs: list[Efficiency] = []
    for stream, (name, (kernel, num, each)) in enumerate(samplers.items(), start=1):
        rng = settings.rng(stream)
        result, seconds = timed_run(kernel, rng, pilot.state.position, num, warmup=500)
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
            "Median and 90% interval": [_row(name, draws) for name in draws["HMC"]],
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
    plants = find_program(MODEL).read().labels["plant"].names
    named = {f"mu_plant[{plant}]": values["mu_plant"][..., i] for i, plant in enumerate(plants)}
    return {"mu": values["mu"], "sigma2": values["sigma2"], **named}


def _findings(draws: dict[str, Draws], costs: list[Efficiency], stan: Nuts) -> list[str]:
    found = [f"Stan's NUTS: {stan.verdict}.".replace("\n", "; ")]
    for name in ("Metropolis", "HMC"):
        comparisons = compare_draws(draws[name], draws["Stan's NUTS"], HEAVY_TAILED)
        state = "mixes" if mixes(draws[name]) else "does NOT mix"
        sentence = agreement(comparisons, f"{name} and Stan's NUTS")
        found.append(f"{name} {state} (R-hat {largest_r_hat(draws[name]):.3f}). {sentence}")
    per_evaluation, per_second = most_efficient(costs)
    return [
        *found,
        f"{per_evaluation}; Metropolis needs no gradient, whose cost beside a density's is not "
        "counted here.",
        f"{per_second}. Stan's seconds include writing the draws; those of the other samplers "
        "include Python.",
    ]


def _row(quantity: str, draws: dict[str, Draws]) -> Row:
    row = {"quantity": quantity}
    for sampler, values in draws.items():
        found = statistics(values[quantity], moments=False)
        low, middle, high = (found[p][0] for p in ("5%", "50%", "95%"))
        row[sampler] = f"{middle:.3g} ({low:.3g} to {high:.3g})"
    return row


@styled
def _trace_figure(draws: dict[str, Draws]) -> StyledFigure:
    figure, axes = panels(6, 3, 1.5, LIGHT, sharey="row")
    for top, bottom, (name, values) in zip(axes, axes[3:], draws.items(), strict=False):
        draw_traces(top, values["sigma2"], 500)
        top.set(title=name, yscale="log")
        plain_ticks(top.yaxis)
        top.tick_params(labelbottom=False)
        draw_traces(bottom, values["mu_plant[1]"], 500)
        bottom.set_xlabel("draw")
    axes[0].set_ylabel("sigma2")
    axes[3].set_ylabel("mu_plant[1]")
    alt = "Traces of sigma2 and of the first plant's rate, four chains, by three samplers."
    return finish(figure, alt, "The first 500 draws of each chain after warm-up.")
