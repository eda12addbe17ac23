"""Metropolis, HMC and NUTS on the multilevel Poisson posterior of the flowers.

The target is ``stan/multilevel_poisson.stan`` with the lecture's three plants and four months, in
the coordinates of :class:`~pyflowers.samplers.StanDensity`: x = (mu, log sigma2, one coordinate for
each plant). Stan adapts the step size and the mass during its warm-up. For the other two samplers,
a pilot run of HMC with unit mass estimates the covariance Σ of the posterior, and then

    Metropolis proposes N(x, 2.38²/d Σ)  ([1]_),     HMC takes the mass diag(Σ)⁻¹.

With only three plants, the posteriors of sigma2 and mu have heavy tails, so they are compared by
their quantiles.

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
from pyflowers.lectures import measures
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import Draws
from pyflowers.lectures.samplers.hmc import HMC, Mass
from pyflowers.lectures.samplers.kernels import Kernel, run
from pyflowers.lectures.samplers.metropolis import GaussianStep, Metropolis
from pyflowers.lectures.samplers.stan_density import StanDensity
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, plain_ticks, styled
from pyflowers.programs import find_program

MODEL = "multilevel_poisson"
NUM_CHAINS = 4
NUTS = "Stan's NUTS"
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
    lecture = Lecture("flowers-by-hand", "The flowers' posterior, sampled by hand", settings)
    target = flower_density()
    pilot = run(
        HMC(target, PILOT_STEP, PILOT_STEPS),
        settings.rng(0),
        target.start(settings.rng(0), NUM_CHAINS),
        num_draws=1_500,
        num_warmup=500,
    )
    covariance = np.cov(pilot.draws.reshape(-1, target.dim), rowvar=False)
    lecture.results.update(coordinates=target.names, pilot_covariance=covariance)
    factor = np.linalg.cholesky(2.38**2 / target.dim * covariance)
    hmc = HMC(target, HMC_STEP, HMC_STEPS, Mass(1 / np.diag(covariance)), HMC_JITTER)
    num_draws = settings.size(10_000, 2_500)
    # Each sampler, with its number of draws and its number of evaluations per transition.
    kernels: dict[str, tuple[Kernel, int, int]] = {
        "Metropolis": (Metropolis(target, GaussianStep(factor)), 4 * num_draws, 1),
        "HMC": (hmc, num_draws, HMC_STEPS),
    }
    draws: dict[str, Draws] = {}
    costs: list[Row] = []
    for stream, (name, (kernel, num, each)) in enumerate(kernels.items(), start=1):
        how = (settings.rng(stream), pilot.state.position, num, 500)
        points, cost = measures.timed_run(kernel, each, *how)
        draws[name] = by_name(target.constrain(points))
        costs.append(measures.efficiency(name, draws[name], *cost))
    stan = fit(MODEL, seed=settings.seed, draws=num_draws // 2, cmdstan=settings.cmdstan)
    values = {name: stan.posterior[name].values for name in ("mu", "sigma2", "mu_plant")}
    draws[NUTS] = by_name(values)
    costs.append(measures.efficiency(NUTS, draws[NUTS], *measures.nuts_cost(stan)))
    lecture.tables["Efficiency, by the quantity with the smallest ESS"] = costs
    lecture.tables["Median and 90% interval"] = [_row(name, draws) for name in draws["HMC"]]
    lecture.say(f"{NUTS}: {stan.diagnostics}.".replace("\n", "; "))
    by_stan = {name: measures.statistics(values) for name, values in draws[NUTS].items()}
    for name in kernels:
        comparisons = measures.compare_draws(draws[name], by_stan, HEAVY_TAILED)
        sentence = measures.agreement(comparisons, f"{name} and {NUTS}")
        state = "mixes" if measures.mixes(draws[name]) else "does NOT mix"
        lecture.say(f"{name} {state} (R-hat {measures.largest_r_hat(draws[name]):.3f}). {sentence}")
    per_evaluation, per_second = measures.most_efficient(costs)
    lecture.say(
        f"{per_evaluation}. Metropolis needs no gradient; this count ignores the additional "
        "cost of a gradient.",
        f"{per_second}. Stan's seconds include writing the draws; the seconds of the other "
        "samplers include Python.",
    )
    lecture.figures["traces"] = _trace_figure(draws)
    lecture.figures["efficiency"] = measures.efficiency_figure(costs)
    return lecture


def flower_density() -> StanDensity:
    """Return the multilevel Poisson posterior for the lecture's flowers, as a target."""
    program = find_program(MODEL)
    data, _ = program.fill(program.read(), program.resolve_priors())
    return StanDensity(program.path, program.stan_values(data))


def by_name(values: Draws) -> Draws:
    """Return draws of mu, sigma2 and each mu_plant by their names in Stan, shaped (chain, draw)."""
    plants = find_program(MODEL).read().labels["plant"].names
    named = {f"mu_plant[{plant}]": values["mu_plant"][..., i] for i, plant in enumerate(plants)}
    return {"mu": values["mu"], "sigma2": values["sigma2"], **named}


def _row(quantity: str, draws: dict[str, Draws]) -> Row:
    row = {"quantity": quantity}
    for sampler, values in draws.items():
        found = measures.statistics(values[quantity], moments=False)
        low, middle, high = (found[p][0] for p in ("5%", "50%", "95%"))
        row[sampler] = f"{middle:.3g} ({low:.3g} to {high:.3g})"
    return row


@styled
def _trace_figure(draws: dict[str, Draws]) -> StyledFigure:
    figure, axes = panels(6, 3, 1.5, LIGHT, sharey="row")
    for top, bottom, (name, values) in zip(axes, axes[3:], draws.items(), strict=False):
        measures.draw_traces(top, values["sigma2"], 500)
        top.set(title=name, yscale="log")
        plain_ticks(top.yaxis)
        top.tick_params(labelbottom=False)
        measures.draw_traces(bottom, values["mu_plant[1]"], 500)
        bottom.set_xlabel("draw")
    axes[0].set_ylabel("sigma2")
    axes[3].set_ylabel("mu_plant[1]")
    alt = "Traces of sigma2 and of the first plant's rate, four chains, by three samplers."
    return finish(figure, alt, "The first 500 draws of each chain after warm-up.")
