"""Metropolis, Hamiltonian Monte Carlo and Stan's NUTS on 0.3 N(−2, 1) + 0.7 N(2, 1).

The lecture takes 2,000 draws with each of three samplers: Metropolis with steps of up to 5, and
Hamiltonian Monte Carlo with ε = 0.5, L = 10 and with ε = 0.2, L = 10. A path of length ε L = 2
stays in its mode more often than a path of length 5. The cost of an effective draw is
measured in two ways: in evaluations of the gradient (of the density for Metropolis), which is the
cost of the algorithm, and in seconds, which is the cost of the implementation.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5.
.. [2] Hoffman & Gelman (2014), The No-U-Turn Sampler, JMLR 15, 1593–1623.
"""

from __future__ import annotations

from pyflowers.lectures import measures
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import Draws, Statistics
from pyflowers.lectures.metropolis_bimodal import by_nuts, exact, histogram, starts
from pyflowers.lectures.samplers.hmc import HMC
from pyflowers.lectures.samplers.kernels import Kernel
from pyflowers.lectures.samplers.metropolis import Metropolis, UniformStep
from pyflowers.lectures.samplers.targets import NormalMixture
from pyflowers.plots.style import Axes

NUM_CHAINS = 4
NUM_DRAWS = 2_000
WARMUP = 100
NUTS = "Stan's NUTS"


def hmc_bimodal(settings: Settings) -> Lecture:
    """Compare four samplers on one bimodal density.

    Raises
    ------
    PyflowersError
        If Stan's NUTS cannot be run.
    """
    lecture = Lecture("hmc-bimodal", "Hamiltonian Monte Carlo on two modes", settings)
    target = NormalMixture.lecture_hmc()
    # Each sampler, with its number of evaluations per transition.
    kernels: dict[str, tuple[Kernel, int]] = {
        "Metropolis, step 5": (Metropolis(target, UniformStep(5.0)), 1),
        "HMC, ε = 0.5, L = 10": (HMC(target, 0.5, 10), 10),
        "HMC, ε = 0.2, L = 10": (HMC(target, 0.2, 10), 10),
    }
    draws: dict[str, Draws] = {}
    costs: list[Row] = []
    for stream, (name, (kernel, each)) in enumerate(kernels.items()):
        how = (settings.rng(stream), starts(target), NUM_DRAWS, WARMUP)
        points, cost = measures.timed_run(kernel, each, *how)
        draws[name] = {"x": points[..., 0]}
        costs.append(measures.efficiency(name, draws[name], *cost))
    fit = by_nuts(target, settings, NUM_DRAWS)
    draws[NUTS] = {"x": fit.posterior["x"].values}
    costs.append(measures.efficiency(NUTS, draws[NUTS], *measures.nuts_cost(fit)))
    statistics = {name: measures.statistics(values["x"]) for name, values in draws.items()}
    lecture.results.update(exact=exact(target), statistics=statistics)
    lecture.tables[f"{NUM_CHAINS} chains of {NUM_DRAWS:,} draws"] = costs
    say_what_agrees(lecture, draws, exact(target), statistics[NUTS])
    per_evaluation, per_second = measures.most_efficient(costs)
    lecture.say(f"{per_evaluation}.", f"{per_second}; Stan's seconds include writing the draws.")

    def panel(ax: Axes, values: Draws) -> None:
        histogram(target, 2.6, ax, values["x"])
        text = f"{measures.smallest_ess(values):,.0f} effective"
        ax.text(0.02, 0.9, text, transform=ax.transAxes)

    alt = "Histograms of four samplers' draws over the exact bimodal density."
    note = f"Each from {NUM_CHAINS} chains of {NUM_DRAWS:,} draws."
    labels = ("x", "density")
    lecture.figures["histograms"] = measures.panel_figure(
        draws, panel, 1.75, alt, note, columns=2, labels=labels, share="xy"
    )
    lecture.figures["efficiency"] = measures.efficiency_figure(costs)
    return lecture


def say_what_agrees(
    lecture: Lecture, draws: dict[str, Draws], known: Statistics, by_stan: Statistics
) -> None:
    """Compare each well-mixing sampler with the exact density and, if NUTS mixes, with NUTS.

    If a chain rarely crosses between the modes, the estimate of its Monte Carlo error is poor.
    """
    for name, values in draws.items():
        if not measures.mixes(values):
            lecture.say(
                f"{name} does not mix well enough to be judged: R-hat "
                f"{measures.largest_r_hat(values):.3f}, {measures.smallest_ess(values):.0f} "
                f"effective draws out of {values['x'].size:,}."
            )
            continue
        references = {"the exact density": known}
        if name != NUTS and measures.mixes(draws[NUTS]):
            references[NUTS] = by_stan
        for what, reference in references.items():
            found = measures.compare_draws(values, {"x": reference})
            lecture.say(measures.agreement(found, f"{name} and {what}"))
