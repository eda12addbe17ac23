"""Random-walk Metropolis on two modes, and the effect of an asymmetric proposal.

The lecture's target, up to the constant factor √(2π), is

    p̂(m) = 0.7 exp(−(m − 1.5)²/2) + 0.3 exp(−(m + 1.5)²/2).

A symmetric proposal m′ = m + s z, z ~ N(0, 1), is accepted with probability min(1, p̂(m′)/p̂(m)).
With a small s almost every move is accepted, but the chain hardly moves; with a large s almost no
move is accepted.

An error in the lecture: the handout's proposal m + x · U(0, 1) moves only to the right, so
q(m | m′) is 0, and the ratio without q, which the handout uses, violates detailed balance. The
chain never comes back. With the Hastings correction every move is rejected, which is correct but
useless. A random sign repairs the proposal.

References
----------
.. [1] Metropolis, Rosenbluth, Rosenbluth, Teller & Teller (1953), Journal of Chemical Physics 21.
.. [2] Hastings (1970), Biometrika 57, section 2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyflowers.fits.fit import Fit
from pyflowers.lectures import measures
from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import FloatArray, Statistics, draw_traces, mixes, panel_figure
from pyflowers.lectures.samplers import metropolis
from pyflowers.lectures.samplers.kernels import Kernel, Run, run
from pyflowers.lectures.samplers.metropolis import Metropolis
from pyflowers.lectures.samplers.targets import NormalMixture
from pyflowers.plots.style import LIGHT, Axes, finish, panels, plain_ticks, styled

SHOWN_SCALES = (0.05, 3.0, 100.0)
HANDOUT_SCALE = 3.0
SEPARATED = NormalMixture((0.7, 0.3), (6.0, -6.0), (1.0, 1.0))
NUM_CHAINS = 4


def metropolis_bimodal(settings: Settings) -> Lecture:
    """Show acceptance, effective sample size and mixing as the proposal's scale grows.

    Raises
    ------
    PyflowersError
        If Stan's NUTS, which is run for comparison, fails.
    """
    lecture = Lecture("metropolis-bimodal", "Metropolis on two modes", settings)
    target, num_draws = NormalMixture.lecture_metropolis(), settings.size(20_000, 4_000)

    def walk(scale: float, on: NormalMixture = target) -> Run:
        kernel = Metropolis(on, metropolis.GaussianStep(scale))
        return run(kernel, settings.rng(1), starts(on), num_draws, num_warmup=500)

    shown = {scale: walk(scale) for scale in SHOWN_SCALES}
    _show_samples(lecture, target, shown)
    grid = np.geomspace(0.01, 300, 16)
    _show_scales(lecture, [_row(scale, walk(scale)) for scale in grid])
    nuts = by_nuts(target, settings, num_draws // 2)
    found = {
        "exact": exact(target),
        "metropolis": measures.statistics(shown[3.0].draws[..., 0]),
        "nuts": measures.statistics(nuts.posterior["x"].values),
    }
    lecture.results.update(found)
    for name, reference in (("the exact density", "exact"), ("Stan's NUTS", "nuts")):
        comparisons = measures.compare("m", found["metropolis"], found[reference])
        lecture.say(measures.agreement(comparisons, f"Metropolis at scale 3 and {name}"))
    _show_handout(lecture, target, num_draws)
    _show_separated(lecture, {scale: walk(scale, SEPARATED).draws[..., 0] for scale in (1, 12)})
    return lecture


def starts(target: NormalMixture) -> FloatArray:
    """Return starting points of the chains, which alternate between the modes."""
    return np.resize(target.means, NUM_CHAINS)[:, None]


def exact(target: NormalMixture) -> Statistics:
    """Return the mean, sd and quantiles of the mixture; the cdf is inverted for the quantiles."""
    from scipy.optimize import brentq

    far = 12 * float(target.sds.max())
    low, high = float(target.means.min()) - far, float(target.means.max()) + far

    def quantile(p: float) -> float:
        return float(brentq(lambda x: float(target.cdf(np.array(x))) - p, low, high))

    return measures.exact_statistics(target.mean[0], np.sqrt(target.variance[0]), quantile)


def by_nuts(target: NormalMixture, settings: Settings, draws: int) -> Fit:
    """Sample the mixture with Stan's NUTS, in 4 chains with `draws` draws each."""
    parts = {"weight": target.weights, "location": target.means, "scale": target.sds}
    data = {"K": len(target.weights), **parts}
    return measures.nuts("normal_mixture_density", data, settings, draws=draws)


def histogram(target: NormalMixture, reach: float, ax: Axes, draws: FloatArray) -> None:
    """Draw a histogram and the density of the target, up to `reach` sds from the mean."""
    mean, sd = target.mean[0], np.sqrt(target.variance[0])
    grid = np.linspace(mean - reach * sd, mean + reach * sd, 400)
    measures.draw_histogram(ax, draws, grid, np.exp(target.log_density(grid[:, None])))


def _row(scale: float, result: Run) -> dict[str, Any]:
    draws = result.draws[..., 0]
    return {
        "scale": float(scale),
        "acceptance": float(result.sample_stats["accepted"].mean()),
        "ESS per draw": measures.ess(draws) / draws.size,
        "R-hat": measures.r_hat(draws),
        "mixes": mixes({"m": draws}),
    }


@styled
def _show_samples(lecture: Lecture, target: NormalMixture, shown: dict[float, Run]) -> None:
    figure, axes = panels(6, 3, 1.75, LIGHT, sharex=False)
    for top, bottom, (scale, result) in zip(axes, axes[3:], shown.items(), strict=False):
        draws = result.draws[..., 0]
        histogram(target, 3.2, top, draws)
        rate = result.sample_stats["accepted"].mean()
        top.set_title(f"scale {scale:g}\naccepts {rate:.1%}", fontsize=9)
        top.set(yticks=[], xlabel="m")
        draw_traces(bottom, draws, 1000, first=0)
        bottom.set(xlabel="draw", ylim=top.get_xlim())
    for ax in axes[4:]:
        ax.tick_params(labelleft=False)
    axes[0].set_ylabel("density")
    axes[3].set_ylabel("m, four chains")
    alt = (
        "Histograms of Metropolis draws over the exact density and traces of four chains, for "
        "proposals that are too narrow, about right and too wide."
    )
    lecture.figures["samples"] = finish(figure, alt)


def _show_scales(lecture: Lecture, rows: list[dict[str, Any]]) -> None:
    lecture.tables["The proposal's scale"] = rows
    first, last = rows[0], rows[-1]
    best = max(rows, key=lambda row: float(row["ESS per draw"]))
    lecture.say(
        f"Acceptance falls from {first['acceptance']:.1%} at scale {first['scale']:g} to "
        f"{last['acceptance']:.2%} at scale {last['scale']:g}; of the {len(rows)} "
        f"scales tried, {best['scale']:.3g} gives the largest effective sample size, and there "
        f"{best['acceptance']:.0%} of moves are accepted."
    )

    def curve(ax: Axes, column: str) -> None:
        scales, values = zip(*((row["scale"], row[column]) for row in rows), strict=True)
        ax.plot(scales, values, "o-", color=LIGHT.model, ms=4)
        ax.set(xscale="log", yscale="log")
        plain_ticks(ax.xaxis)
        plain_ticks(ax.yaxis)

    columns = {"Acceptance rate": "acceptance", "Effective draws per draw": "ESS per draw"}
    alt = "Acceptance falls as the proposal widens; the effective sample size peaks in between."
    labels = ("scale of the proposal", "")
    lecture.figures["scales"] = panel_figure(columns, curve, 2.2, alt, labels=labels)


def _show_handout(lecture: Lecture, target: NormalMixture, num_draws: int) -> None:
    """Run the handout's proposal unchanged, with the Hastings correction and with a random sign."""
    one_sided, mean = metropolis.OneSidedStep(HANDOUT_SCALE), float(target.mean[0])
    kernels: dict[str, Kernel] = {
        "as in the handout": Metropolis(target, one_sided),
        "with its Hastings correction": metropolis.MetropolisHastings(target, one_sided),
        "with a fair sign": Metropolis(target, metropolis.SignedStep(HANDOUT_SCALE)),
    }
    rows, shown = [], {}
    for name, kernel in kernels.items():
        result = run(kernel, lecture.settings.rng(2), starts(target), num_draws)
        draws = result.draws[..., 0]
        rows.append(
            {
                "proposal": name,
                "acceptance": float(result.sample_stats["accepted"].mean()),
                "mean": float(draws.mean()),
                "exact mean": mean,
                "moves left": int((np.diff(draws, axis=1) < 0).sum()),
                "mixes": mixes({"m": draws}),
            }
        )
        shown[name.replace("with its ", "with its\n").replace("as in ", "as in\n")] = draws
    plain, corrected, repaired = rows
    what = "The handout's step with a fair sign and the exact density"
    comparisons = measures.compare("m", measures.statistics(draws), exact(target))
    lecture.tables["The handout's proposal"] = rows
    lecture.say(
        f"The handout's one-sided proposal never moves left ({plain['moves left']} moves to the "
        f"left): its mean is {plain['mean']:.2f}, and the exact mean is {plain['exact mean']:.2f}.",
        f"With its Hastings correction it accepts {corrected['acceptance']:.0%} of its moves: each "
        "chain stays where it starts.",
        f"{measures.agreement(comparisons, what)} It accepts {repaired['acceptance']:.0%}.",
    )

    def traces(ax: Axes, draws: FloatArray) -> None:
        draw_traces(ax, draws, 300, first=0, width=0.8)
        ax.axhline(mean, color=LIGHT.ink, lw=0.8, ls="--")
        ax.set_ylim(-5, 7)

    alt = (
        "Traces of four chains: the one-sided step runs to the right, the corrected one stays, and "
        "the signed one mixes."
    )
    note = "Dashed: the target's mean."
    figure = panel_figure(shown, traces, 2.2, alt, note, labels=("draw", "m"), share="y")
    lecture.figures["handout"] = figure


def _show_separated(lecture: Lecture, separated: dict[float, FloatArray]) -> None:
    """Report how a local and a wide proposal handle modes that are twelve sds apart."""
    (local, narrow), (wide, broad) = separated.items()
    crossings = int((np.diff(np.sign(narrow), axis=1) != 0).sum())
    if crossings:
        looks = ""
    else:
        looks = ": each chain looks settled but visits only one mode"
    lecture.say(
        f"With modes at −6 and 6 and a proposal of scale {local:g}, the number of crossings "
        f"between the modes is {crossings} in {narrow.size:,} draws (R-hat "
        f"{measures.r_hat(narrow):.2f}){looks}. "
        f"A proposal of scale {wide:g} jumps across (R-hat "
        f"{measures.r_hat(broad):.3f}, {(broad > 0).mean():.0%} of draws in the mode of weight "
        f"{SEPARATED.weights[0]:.0%})."
    )
    shown = {f"scale {s:g}: R-hat {measures.r_hat(d):.2f}": d for s, d in separated.items()}
    alt = "Traces on two distant modes: with a local proposal no chain leaves its mode."
    traces, labels = partial(draw_traces, num=1500, first=0), ("draw", "m")
    figure = panel_figure(shown, traces, 2.2, alt, labels=labels, share="y")
    lecture.figures["separated"] = figure
