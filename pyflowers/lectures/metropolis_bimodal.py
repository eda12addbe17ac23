"""Random-walk Metropolis on two modes, and what a proposal that is not symmetric does to it.

The lecture's target, up to its constant √(2π), is

    p̂(m) = 0.7 exp(−(m − 1.5)²/2) + 0.3 exp(−(m + 1.5)²/2).

A symmetric proposal m′ = m + s z, z ~ N(0, 1), accepts with probability min(1, p̂(m′)/p̂(m)). With
a
small s almost every move is accepted and leads nowhere; with a large s almost none is.

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

from pyflowers.lectures.bimodal import by_nuts, draw_histogram, exact, range_of
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import (
    FloatArray,
    agreement,
    compare,
    ess,
    mixes,
    r_hat,
    statistics,
)
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, plain_ticks, styled
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
SEPARATED = ((0.7, 0.3), (6.0, -6.0), (1.0, 1.0))
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
    grid = np.geomspace(0.01, 300, settings.size(16, 7))
    runs = {scale: _metropolis(target, scale, settings, num_draws) for scale in grid}
    shown = {scale: _metropolis(target, scale, settings, num_draws) for scale in SHOWN_SCALES}
    rows = [_row(scale, result) for scale, result in runs.items()]
    good = statistics(shown[SHOWN_SCALES[1]].draws[..., 0])
    by_stan = statistics(by_nuts(target, settings, 2 * num_draws // 4).variable("x"))
    handout = _handout(target, settings, num_draws)
    separated = _separated(settings, num_draws)
    findings = [
        _scale_finding(rows),
        agreement(compare("m", good, exact(target)), "Metropolis at scale 3 and the exact density"),
        agreement(compare("m", good, by_stan), "Metropolis at scale 3 and Stan's NUTS"),
        *_handout_findings(handout, target),
        _separated_finding(separated),
    ]
    return Lecture(
        "metropolis-bimodal",
        "Metropolis on two modes",
        settings,
        findings,
        {"The proposal's scale": rows, "The handout's proposal": _handout_rows(handout, target)},
        {
            "samples": _samples_figure(target, shown),
            "scales": _scales_figure(rows),
            "handout": _handout_figure(target, handout),
            "separated": _separated_figure(separated),
        },
        {"exact": exact(target), "metropolis": good, "nuts": by_stan},
    )


def _start(target: NormalMixture) -> FloatArray:
    """Return chains that start at the modes alternately."""
    return np.resize(target.means, NUM_CHAINS)[:, None]


def _metropolis(
    target: NormalMixture, scale: float, settings: Settings, num_draws: int
) -> Run[Any]:
    kernel = Metropolis(target, GaussianStep(scale))
    return run(kernel, settings.rng(1), _start(target), num_draws, num_warmup=500)


def _row(scale: float, result: Run[Any]) -> dict[str, Any]:
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


def _handout(target: NormalMixture, settings: Settings, num_draws: int) -> dict[str, Run[Any]]:
    """Run the handout's proposal as it is, with its Hastings correction, and with a fair sign."""
    kernels: dict[str, Kernel[Any]] = {
        "as in the handout": Metropolis(target, OneSidedStep(HANDOUT_SCALE)),
        "with its Hastings correction": MetropolisHastings(target, OneSidedStep(HANDOUT_SCALE)),
        "with a fair sign": Metropolis(target, SignedStep(HANDOUT_SCALE)),
    }
    return {
        name: run(kernel, settings.rng(2), _start(target), num_draws)
        for name, kernel in kernels.items()
    }


def _handout_rows(handout: dict[str, Run[Any]], target: NormalMixture) -> list[Row]:
    rows: list[Row] = []
    for name, result in handout.items():
        draws = result.draws[..., 0]
        rows.append(
            {
                "proposal": name,
                "acceptance": float(result.sample_stats["accepted"].mean()),
                "mean": float(draws.mean()),
                "exact mean": float(target.mean[0]),
                "moves left": int((np.diff(draws, axis=1) < 0).sum()),
                "mixes": mixes({"m": draws}),
            }
        )
    return rows


def _handout_findings(handout: dict[str, Run[Any]], target: NormalMixture) -> list[str]:
    plain, corrected, repaired = _handout_rows(handout, target)
    last = handout["with a fair sign"].draws[..., 0]
    sentence = agreement(
        compare("m", statistics(last), exact(target)),
        "The handout's step with a fair sign and the exact density",
    )
    return [
        f"The handout's one-sided proposal never moves left ({plain['moves left']} moves to the "
        f"left): its mean is {plain['mean']:.2f} where the target's is {plain['exact mean']:.2f}.",
        f"With its Hastings correction it accepts {corrected['acceptance']:.0%} of its moves: each "
        "chain stays where it starts.",
        f"{sentence} It accepts {repaired['acceptance']:.0%}.",
    ]


def _separated(settings: Settings, num_draws: int) -> dict[float, FloatArray]:
    """Run Metropolis on modes twelve sds apart, with a local and with a wide proposal."""
    target = NormalMixture(*SEPARATED)
    return {
        scale: _metropolis(target, scale, settings, num_draws).draws[..., 0]
        for scale in (1.0, 12.0)
    }


def _separated_finding(separated: dict[float, FloatArray]) -> str:
    (local, narrow), (wide, broad) = separated.items()
    crossings = int((np.diff(np.sign(narrow), axis=1) != 0).sum())
    return (
        f"With modes at −6 and 6, a proposal of scale {local:g} crosses between them {crossings} "
        f"times in {narrow.size:,} draws (R-hat {r_hat(narrow):.2f}): each chain looks settled and "
        f"knows one mode. Scale {wide:g} jumps across (R-hat {r_hat(broad):.3f}, "
        f"{(broad > 0).mean():.0%} of draws in the mode of weight {SEPARATED[0][0]:.0%})."
    )


@styled
def _samples_figure(target: NormalMixture, shown: dict[float, Run[Any]]) -> StyledFigure:
    figure, axes = panels(6, 3, 1.75, LIGHT, sharex=False)
    limits = range_of(exact(target), 3.2)
    for column, (scale, result) in enumerate(shown.items()):
        draws = result.draws[..., 0]
        top, bottom = axes[column], axes[column + 3]
        draw_histogram(top, target, draws, limits)
        rate = result.sample_stats["accepted"].mean()
        top.set_title(f"scale {scale:g}\naccepts {rate:.1%}", fontsize=9)
        top.set_yticks([])
        top.set_xlabel("m")
        for chain, values in enumerate(draws[:, :1000]):
            bottom.plot(values, lw=0.5, color=LIGHT.chains[chain])
        bottom.set(xlabel="draw", ylim=limits, xlim=(0, 1000))
        if column:
            bottom.tick_params(labelleft=False)
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
    for ax, column, title in zip(
        axes,
        ("acceptance", "ESS per draw"),
        ("Acceptance rate", "Effective draws per draw"),
        strict=True,
    ):
        ax.plot(scales, [row[column] for row in rows], "o-", color=LIGHT.model, ms=4)
        ax.set(xscale="log", yscale="log", xlabel="scale of the proposal", title=title)
        plain_ticks(ax.xaxis)
        plain_ticks(ax.yaxis)
    alt = "Acceptance falls as the proposal widens; the effective sample size has its peak between."
    return finish(figure, alt)


@styled
def _handout_figure(target: NormalMixture, handout: dict[str, Run[Any]]) -> StyledFigure:
    figure, axes = panels(3, 3, 2.2, LIGHT)
    for ax, (name, result) in zip(axes, handout.items(), strict=True):
        draws = result.draws[..., 0]
        for chain, values in enumerate(draws[:, :300]):
            ax.plot(values, lw=0.8, color=LIGHT.chains[chain])
        ax.axhline(float(target.mean[0]), color=LIGHT.ink, lw=0.8, ls="--")
        ax.set_title(name.replace("with its ", "with its\n").replace("as in ", "as in\n"))
        ax.set(xlabel="draw", ylim=(-5, 7), xlim=(0, 300))
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
        for chain, values in enumerate(draws[:, :1500]):
            ax.plot(values, lw=0.5, color=LIGHT.chains[chain])
        ax.set(xlabel="draw", title=f"scale {scale:g}: R-hat {r_hat(draws):.2f}", xlim=(0, 1500))
    axes[0].set_ylabel("m")
    alt = "Traces on two far modes: with a local proposal no chain leaves its mode."
    return finish(figure, alt)
