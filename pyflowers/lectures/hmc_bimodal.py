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

from typing import Any

import numpy as np

from pyflowers.lectures.bimodal import by_nuts, draw_histogram, exact, range_of
from pyflowers.lectures.figures import efficiency_figure
from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import (
    Efficiency,
    FloatArray,
    agreement,
    compare,
    efficiency,
    ess,
    largest_r_hat,
    mixes,
    statistics,
    timed_run,
)
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
    draws: dict[str, FloatArray] = {}
    costs: list[Efficiency] = []
    for stream, (name, kernel, evaluations) in enumerate(_samplers(target)):
        start = np.resize(target.means, NUM_CHAINS)[:, None]
        result, seconds = timed_run(kernel, settings.rng(stream), start, NUM_DRAWS, WARMUP)
        draws[name] = result.draws[..., 0]
        costs.append(efficiency(name, result, {"x": draws[name]}, evaluations, seconds))
    stan = by_nuts(target, settings, NUM_DRAWS)
    draws["Stan's NUTS"] = stan.variable("x")
    costs.append(stan.efficiency({"x": draws["Stan's NUTS"]}))
    found = {name: statistics(values) for name, values in draws.items()}
    return Lecture(
        "hmc-bimodal",
        "Hamiltonian Monte Carlo on two modes",
        settings,
        [*_agreements(draws, found, target), *_cost_findings(costs)],
        {f"{NUM_CHAINS} chains of {NUM_DRAWS:,} draws": [cost.row() for cost in costs]},
        {"histograms": _histograms(target, draws), "efficiency": efficiency_figure(costs)},
        {"exact": exact(target), "statistics": found},
    )


def _samplers(target: NormalMixture) -> list[tuple[str, Kernel[Any], int]]:
    """Return each sampler with the evaluations that one of its transitions takes."""
    return [
        ("Metropolis, step 5", Metropolis(target, UniformStep(5.0)), 1),
        ("HMC, ε = 0.5, L = 10", HMC(target, 0.5, 10), 10),
        ("HMC, ε = 0.2, L = 10", HMC(target, 0.2, 10), 10),
    ]


def _agreements(
    draws: dict[str, FloatArray],
    found: dict[str, dict[str, tuple[float, float]]],
    target: NormalMixture,
) -> list[str]:
    """Compare each sampler that mixes with the exact density and with NUTS; name those that do not.

    A chain that rarely crosses between the modes estimates its own Monte Carlo error badly.
    """
    sentences = []
    for name, values in draws.items():
        if not mixes({"x": values}):
            sentences.append(
                f"{name} does not mix well enough to be judged: R-hat "
                f"{largest_r_hat({'x': values}):.3f}, {ess(values):.0f} effective draws of "
                f"{values.size:,}."
            )
            continue
        comparison = compare("x", found[name], exact(target))
        sentences.append(agreement(comparison, f"{name} and the exact density"))
        if name != "Stan's NUTS":
            comparison = compare("x", found[name], found["Stan's NUTS"])
            sentences.append(agreement(comparison, f"{name} and Stan's NUTS"))
    return sentences


def _cost_findings(costs: list[Efficiency]) -> list[str]:
    by_gradient = max(costs, key=lambda cost: cost.ess / cost.evaluations)
    by_second = max(costs, key=lambda cost: cost.ess / cost.seconds)
    return [
        f"Most effective draws per evaluation: {by_gradient.sampler}, "
        f"{1000 * by_gradient.ess / by_gradient.evaluations:.0f} per 1,000.",
        f"Most per second of one core: {by_second.sampler}, "
        f"{by_second.ess / by_second.seconds:,.0f}; Stan's seconds include writing the draws.",
    ]


@styled
def _histograms(target: NormalMixture, draws: dict[str, FloatArray]) -> StyledFigure:
    figure, axes = panels(len(draws), 2, 1.75, LIGHT, sharex=True, sharey=True)
    limits = range_of(exact(target), 2.6)
    for ax, (name, values) in zip(axes, draws.items(), strict=True):
        draw_histogram(ax, target, values, limits)
        ax.set_title(name)
        ax.text(0.02, 0.9, f"{ess(values):,.0f} effective", transform=ax.transAxes)
    for ax in axes[2:]:
        ax.set_xlabel("x")
    for ax in axes[::2]:
        ax.set_ylabel("density")
    alt = "Histograms of four samplers' draws over the exact bimodal density."
    return finish(figure, alt, f"Each from {NUM_CHAINS} chains of {NUM_DRAWS:,} draws.")
