"""Metropolis and Hamiltonian Monte Carlo on 0.3 N(−2, 1) + 0.7 N(2, 1), beside Stan's NUTS.

The lecture draws 2,000 samples each by Metropolis with steps of up to 5 and by Hamiltonian Monte
Carlo with ε = 0.5, L = 10 and ε = 0.2, L = 10. A path of length ε L = 2 stays in its mode more
often than one of length 5. What an effective draw costs is what tells the samplers apart: in
gradients, which is the algorithm's cost, and in seconds, which is the implementation's.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5.
.. [2] Hoffman & Gelman (2014), The No-U-Turn Sampler, JMLR 15, 1593–1623.
"""

from __future__ import annotations

from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import (
    Efficiency,
    FloatArray,
    agreement,
    compare,
    efficiency,
    efficiency_figure,
    ess,
    largest_r_hat,
    mixes,
    most_efficient,
    statistics,
    timed_run,
)
from pyflowers.lectures.metropolis_bimodal import by_nuts, draw_histogram, exact, starts
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, styled
from pyflowers.samplers import HMC, Kernel, Metropolis, NormalMixture, UniformStep

NUM_CHAINS = 4
NUM_DRAWS = 2_000
WARMUP = 100


def hmc_bimodal(settings: Settings) -> Lecture:
    """Compare four samplers on one bimodal density.

    Raises
    ------
    PyflowersError
        If Stan's NUTS cannot be run.
    """
    target = NormalMixture.lecture_hmc()
    # Each sampler with the evaluations that one of its transitions takes.
    samplers: dict[str, tuple[Kernel, int]] = {
        "Metropolis, step 5": (Metropolis(target, UniformStep(5.0)), 1),
        "HMC, ε = 0.5, L = 10": (HMC(target, 0.5, 10), 10),
        "HMC, ε = 0.2, L = 10": (HMC(target, 0.2, 10), 10),
    }
    draws: dict[str, FloatArray] = {}
    costs: list[Efficiency] = []
    for stream, (name, (kernel, each)) in enumerate(samplers.items()):
        rng = settings.rng(stream)
        result, seconds = timed_run(kernel, rng, starts(target), NUM_DRAWS, WARMUP)
        draws[name] = result.draws[..., 0]
        costs.append(efficiency(name, result, {"x": draws[name]}, each, seconds))
    stan = by_nuts(target, settings, NUM_DRAWS)
    draws["Stan's NUTS"] = stan.variable("x")
    costs.append(stan.efficiency({"x": draws["Stan's NUTS"]}))
    per_evaluation, per_second = most_efficient(costs)
    findings = [
        *_agreements(draws, target),
        f"{per_evaluation}.",
        f"{per_second}; Stan's seconds include writing the draws.",
    ]
    return Lecture(
        "hmc-bimodal",
        "Hamiltonian Monte Carlo on two modes",
        settings,
        findings,
        {f"{NUM_CHAINS} chains of {NUM_DRAWS:,} draws": [cost.row() for cost in costs]},
        {"histograms": _histograms(target, draws), "efficiency": efficiency_figure(costs)},
        {
            "exact": exact(target),
            "statistics": {name: statistics(values) for name, values in draws.items()},
        },
    )


def _agreements(draws: dict[str, FloatArray], target: NormalMixture) -> list[str]:
    """Compare each sampler that mixes with the exact density and with NUTS; name those that do not.

    A chain that rarely crosses between the modes estimates its own Monte Carlo error badly.
    """
    sentences = []
    known, by_stan = exact(target), statistics(draws["Stan's NUTS"])
    for name, values in draws.items():
        if not mixes({"x": values}):
            sentences.append(
                f"{name} does not mix well enough to be judged: R-hat "
                f"{largest_r_hat({'x': values}):.3f}, {ess(values):.0f} effective draws of "
                f"{values.size:,}."
            )
            continue
        found = statistics(values)
        sentences.append(agreement(compare("x", found, known), f"{name} and the exact density"))
        if name != "Stan's NUTS":
            sentences.append(agreement(compare("x", found, by_stan), f"{name} and Stan's NUTS"))
    return sentences


@styled
def _histograms(target: NormalMixture, draws: dict[str, FloatArray]) -> StyledFigure:
    figure, axes = panels(len(draws), 2, 1.75, LIGHT, sharex=True, sharey=True)
    for ax, (name, values) in zip(axes, draws.items(), strict=True):
        draw_histogram(ax, target, values, 2.6)
        ax.set_title(name)
        ax.text(0.02, 0.9, f"{ess(values):,.0f} effective", transform=ax.transAxes)
    for ax in axes[2:]:
        ax.set_xlabel("x")
    for ax in axes[::2]:
        ax.set_ylabel("density")
    alt = "Histograms of four samplers' draws over the exact bimodal density."
    return finish(figure, alt, f"Each from {NUM_CHAINS} chains of {NUM_DRAWS:,} draws.")
