"""Random-walk Metropolis on two modes, and what a proposal that is not symmetric does to it.

The lecture's target, up to its constant √(2π), is

    p̂(m) = 0.7 exp(−(m − 1.5)²/2) + 0.3 exp(−(m + 1.5)²/2).

A symmetric proposal m′ = m + s z, z ~ N(0, 1), accepts with probability min(1, p̂(m′)/p̂(m)). With
a small s almost every move is accepted and leads nowhere; with a large s almost none is.

Where the lecture is wrong: the handout's proposal m + x · U(0, 1) moves only right, so q(m | m′) is
0 and the ratio without q, which the handout uses, is not that of detailed balance. The chain never
comes back. Its Hastings correction rejects every move: exact, and useless. A fair sign repairs it.

References
----------
.. [1] Metropolis, Rosenbluth, Rosenbluth, Teller & Teller (1953), Journal of Chemical Physics 21.
.. [2] Hastings (1970), Biometrika 57, section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import (
    FloatArray,
    Statistics,
    agreement,
    compare,
    draw_traces,
    ess,
    exact_statistics,
    mixes,
    r_hat,
    statistics,
)
from pyflowers.lectures.stan import Nuts, nuts
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, finish, panels, plain_ticks, styled
from pyflowers.samplers import (
    GaussianStep,
    Kernel,
    Metropolis,
    MetropolisHastings,
    NormalMixture,
    OneSidedStep,
    Run,
    SignedStep,
    run,
)

SHOWN_SCALES = (0.05, 3.0, 100.0)
HANDOUT_SCALE = 3.0
SEPARATED = NormalMixture((0.7, 0.3), (6.0, -6.0), (1.0, 1.0))
NUM_CHAINS = 4


def metropolis_bimodal(settings: Settings) -> Lecture:
    """Show acceptance, effective sample size and mixing as the proposal's scale grows.

    Raises
    ------
    PyflowersError
        If Stan's NUTS, for comparison, cannot be run.
    """
    target = NormalMixture.lecture_metropolis()
    num_draws = settings.size(20_000, 4_000)

    def walk(scale: float, on: NormalMixture = target) -> Run:
        kernel = Metropolis(on, GaussianStep(scale))
        return run(kernel, settings.rng(1), starts(on), num_draws, num_warmup=500)

    grid = np.geomspace(0.01, 300, settings.size(16, 7))
    rows = [_row(scale, walk(scale)) for scale in grid]
    shown = {scale: walk(scale) for scale in SHOWN_SCALES}
    separated = {scale: walk(scale, SEPARATED).draws[..., 0] for scale in (1.0, 12.0)}
    good = statistics(shown[3.0].draws[..., 0])
    by_stan = statistics(by_nuts(target, settings, num_draws // 2).variable("x"))
    steps: dict[str, Kernel] = {
        "as in the handout": Metropolis(target, OneSidedStep(HANDOUT_SCALE)),
        "with its Hastings correction": MetropolisHastings(target, OneSidedStep(HANDOUT_SCALE)),
        "with a fair sign": Metropolis(target, SignedStep(HANDOUT_SCALE)),
    }
    handout = {
        name: run(kernel, settings.rng(2), starts(target), num_draws)
        for name, kernel in steps.items()
    }
    handout_rows = [_handout_row(name, result, target) for name, result in handout.items()]
    findings = [
        _scale_finding(rows),
        agreement(compare("m", good, exact(target)), "Metropolis at scale 3 and the exact density"),
        agreement(compare("m", good, by_stan), "Metropolis at scale 3 and Stan's NUTS"),
        *_handout_findings(handout_rows, handout["with a fair sign"].draws[..., 0], target),
        _separated_finding(separated),
    ]
    return Lecture(
        "metropolis-bimodal",
        "Metropolis on two modes",
        settings,
        findings,
        {"The proposal's scale": rows, "The handout's proposal": handout_rows},
        {
            "samples": _samples_figure(target, shown),
            "scales": _scales_figure(rows),
            "handout": _handout_figure(target, handout),
            "separated": _separated_figure(separated),
        },
        {"exact": exact(target), "metropolis": good, "nuts": by_stan},
    )


def starts(target: NormalMixture) -> FloatArray:
    """Return chains that start at the modes alternately."""
    return np.resize(target.means, NUM_CHAINS)[:, None]


def exact(target: NormalMixture) -> Statistics:
    """Return mean, sd and quantiles of the mixture; its quantiles by root finding."""
    from scipy.optimize import brentq

    far = 12 * float(target.sds.max())
    low, high = float(target.means.min()) - far, float(target.means.max()) + far

    def quantile(p: float) -> float:
        return float(brentq(lambda x: float(target.cdf(np.array(x))) - p, low, high))

    return exact_statistics(target.mean[0], np.sqrt(target.variance[0]), quantile)


def by_nuts(target: NormalMixture, settings: Settings, draws: int) -> Nuts:
    """Sample the mixture with Stan's NUTS, 4 chains of `draws`."""
    parts = {"weight": target.weights, "location": target.means, "scale": target.sds}
    data = {"K": len(target.weights), **parts}
    return nuts("normal_mixture_density", data, settings, draws=draws)


def _row(scale: float, result: Run) -> dict[str, Any]:
    draws = result.draws[..., 0]
    return {
        "scale": float(scale),
        "acceptance": float(result.sample_stats["accepted"].mean()),
        "ESS per draw": ess(draws) / draws.size,
        "R-hat": r_hat(draws),
        "mixes": mixes({"m": draws}),
    }


def _scale_finding(rows: list[dict[str, Any]]) -> str:
    first, last = rows[0], rows[-1]
    best = max(rows, key=lambda row: float(row["ESS per draw"]))
    return (
        f"Acceptance falls from {first['acceptance']:.1%} at scale {first['scale']:g} to "
        f"{last['acceptance']:.2%} at scale {last['scale']:g}; the effective sample size is "
        f"largest at scale {best['scale']:.3g}, where {best['acceptance']:.0%} of moves are "
        "accepted."
    )


def _handout_row(name: str, result: Run, target: NormalMixture) -> Row:
    draws = result.draws[..., 0]
    return {
        "proposal": name,
        "acceptance": float(result.sample_stats["accepted"].mean()),
        "mean": float(draws.mean()),
        "exact mean": float(target.mean[0]),
        "moves left": int((np.diff(draws, axis=1) < 0).sum()),
        "mixes": mixes({"m": draws}),
    }


def _handout_findings(rows: list[Row], signed: FloatArray, target: NormalMixture) -> list[str]:
    plain, corrected, repaired = rows
    comparisons = compare("m", statistics(signed), exact(target))
    sentence = agreement(comparisons, "The handout's step with a fair sign and the exact density")
    return [
        f"The handout's one-sided proposal never moves left ({plain['moves left']} moves to the "
        f"left): its mean is {plain['mean']:.2f} where the target's is {plain['exact mean']:.2f}.",
        f"With its Hastings correction it accepts {corrected['acceptance']:.0%} of its moves: each "
        "chain stays where it starts.",
        f"{sentence} It accepts {repaired['acceptance']:.0%}.",
    ]


def _separated_finding(separated: dict[float, FloatArray]) -> str:
    """Say what a local and a wide proposal do with modes twelve sds apart."""
    (local, narrow), (wide, broad) = separated.items()
    crossings = int((np.diff(np.sign(narrow), axis=1) != 0).sum())
    return (
        f"With modes at −6 and 6, a proposal of scale {local:g} crosses between them {crossings} "
        f"times in {narrow.size:,} draws (R-hat {r_hat(narrow):.2f}): each chain looks settled and "
        f"knows one mode. Scale {wide:g} jumps across (R-hat {r_hat(broad):.3f}, "
        f"{(broad > 0).mean():.0%} of draws in the mode of weight {SEPARATED.weights[0]:.0%})."
    )


def draw_histogram(ax: Axes, target: NormalMixture, draws: FloatArray, reach: float) -> None:
    """Draw draws as a histogram over the target's density, as many sds from the mean."""
    (mean, _), (sd, _) = exact(target)["mean"], exact(target)["sd"]
    limits = mean - reach * sd, mean + reach * sd
    grid = np.linspace(*limits, 400)
    counts, edges = np.histogram(draws.ravel(), bins=60, range=limits)
    ax.stairs(counts / (draws.size * np.diff(edges)), edges, fill=True, color=LIGHT.chains[4])
    ax.plot(grid, np.exp(target.log_density(grid[:, None])), color=LIGHT.ink, lw=1.3)
    ax.set_xlim(*limits)
    ax.set_ylim(bottom=0)


@styled
def _samples_figure(target: NormalMixture, shown: dict[float, Run]) -> StyledFigure:
    figure, axes = panels(6, 3, 1.75, LIGHT, sharex=False)
    for top, bottom, (scale, result) in zip(axes, axes[3:], shown.items(), strict=False):
        draws = result.draws[..., 0]
        draw_histogram(top, target, draws, 3.2)
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
        "proposals too narrow, right and too wide."
    )
    return finish(figure, alt)


@styled
def _scales_figure(rows: list[dict[str, Any]]) -> StyledFigure:
    figure, axes = panels(2, 2, 2.2, LIGHT)
    scales = [row["scale"] for row in rows]
    titles = {"acceptance": "Acceptance rate", "ESS per draw": "Effective draws per draw"}
    for ax, (column, title) in zip(axes, titles.items(), strict=True):
        ax.plot(scales, [row[column] for row in rows], "o-", color=LIGHT.model, ms=4)
        ax.set(xscale="log", yscale="log", xlabel="scale of the proposal", title=title)
        plain_ticks(ax.xaxis)
        plain_ticks(ax.yaxis)
    alt = "Acceptance falls as the proposal widens; the effective sample size has its peak between."
    return finish(figure, alt)


@styled
def _handout_figure(target: NormalMixture, handout: dict[str, Run]) -> StyledFigure:
    figure, axes = panels(3, 3, 2.2, LIGHT)
    for ax, (name, result) in zip(axes, handout.items(), strict=True):
        draw_traces(ax, result.draws[..., 0], 300, first=0, width=0.8)
        ax.axhline(float(target.mean[0]), color=LIGHT.ink, lw=0.8, ls="--")
        ax.set_title(name.replace("with its ", "with its\n").replace("as in ", "as in\n"))
        ax.set(xlabel="draw", ylim=(-5, 7))
    axes[0].set_ylabel("m")
    for ax in axes[1:]:
        ax.tick_params(labelleft=False)
    alt = (
        "Traces of four chains: the one-sided step runs right, corrected it stays, signed it mixes."
    )
    return finish(figure, alt, "Dashed: the target's mean.")


@styled
def _separated_figure(separated: dict[float, FloatArray]) -> StyledFigure:
    figure, axes = panels(2, 2, 2.2, LIGHT, sharey=True)
    for ax, (scale, draws) in zip(axes, separated.items(), strict=True):
        draw_traces(ax, draws, 1500, first=0)
        ax.set(xlabel="draw", title=f"scale {scale:g}: R-hat {r_hat(draws):.2f}")
    axes[0].set_ylabel("m")
    alt = "Traces on two far modes: with a local proposal no chain leaves its mode."
    return finish(figure, alt)
