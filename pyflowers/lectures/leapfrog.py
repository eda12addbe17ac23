"""Euler, modified Euler and leapfrog: energy error, order, reversibility, phase space.

All three follow dq/dt = p, dp/dt = ∇ log π(q) for the same time T = L ε. The error at T is of order
ε for both Euler methods and ε² for the leapfrog; here the orders are fitted, as slopes of log error
on log ε, and not assumed. Euler also gains energy without bound: on N(0, 1) a step multiplies
H − min H by 1 + ε², so it spirals outwards; the other two keep volume and stay.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5, section 5.2 and figure 5.1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import FloatArray
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, plain_ticks, styled
from pyflowers.samplers import NormalMixture, StandardNormal
from pyflowers.samplers.integrators import (
    INTEGRATORS,
    ORDERS,
    UNIT_MASS,
    Integrator,
    PhasePoint,
    flip,
    hamiltonian,
    phase_point,
    trajectory,
)
from pyflowers.samplers.kernels import GradLogDensity

TIME = 2.0
PICTURE_STEP, PICTURE_STEPS = 0.3, 20
NUM_FITTED = 4
"""Step sizes, the smallest ones, that orders are fitted on."""

NAMES = {"euler": "Euler", "modified_euler": "modified Euler", "leapfrog": "leapfrog"}


def leapfrog(settings: Settings) -> Lecture:
    """Fit each integrator's order on the bimodal density and draw its path in phase space."""
    target = NormalMixture.lecture_hmc()
    rng = settings.rng(0)
    num_points = settings.size(200, 50)
    position = target.sample(rng, num_points)
    start = phase_point(target, position, rng.standard_normal((num_points, 1)))
    num_steps = np.array([8, 16, 32, 64, 128, 256, 512][: settings.size(7, 6)])
    sizes = TIME / num_steps
    exact = path(INTEGRATORS["leapfrog"], target, start, 20_000)[-1]
    rows, errors = [], {}
    for name, integrator in INTEGRATORS.items():
        ends = [path(integrator, target, start, int(num))[-1] for num in num_steps]
        energy = [_rms(hamiltonian(UNIT_MASS, x) - hamiltonian(UNIT_MASS, start)) for x in ends]
        position_error = [_rms(x.position - exact.position) for x in ends]
        errors[name] = np.array(energy), np.array(position_error)
        rows.append(
            {
                "integrator": NAMES[name],
                "order in theory": ORDERS[name],
                "fitted order of energy": fitted_order(sizes, errors[name][0]),
                "fitted order of position": fitted_order(sizes, errors[name][1]),
                "reversal error": reversal_error(integrator, target, start, int(num_steps[2])),
            }
        )
    # Neal's figure 5.1: q = 0, p = 1. Its energy starts at ½.
    begin = phase_point(StandardNormal(), [[0.0]], [[1.0]])
    paths = {
        name: path(integrator, StandardNormal(), begin, PICTURE_STEPS, PICTURE_STEP)
        for name, integrator in INTEGRATORS.items()
    }
    picture = {
        name: np.array([(x.position.item(), x.momentum.item()) for x in points]).T
        for name, points in paths.items()
    }
    energies = {name: 0.5 * (q**2 + p**2) for name, (q, p) in picture.items()}
    return Lecture(
        "leapfrog",
        "Three ways to follow Hamilton's equations",
        settings,
        _findings(rows, energies),
        {f"Errors at time {TIME:g} on 0.3 N(−2, 1) + 0.7 N(2, 1)": rows},
        {"energy-error": _error_figure(sizes, errors), "phase-space": _phase_figure(picture)},
        {
            "step_sizes": sizes,
            "energy_error": {name: pair[0] for name, pair in errors.items()},
            "position_error": {name: pair[1] for name, pair in errors.items()},
            "picture_energy": energies,
        },
    )


def path(
    integrator: Integrator,
    target: GradLogDensity,
    start: PhasePoint,
    num_steps: int,
    step_size: float | None = None,
) -> list[PhasePoint]:
    """Return the path of that many steps, up to :data:`TIME` unless their size is given."""
    size = TIME / num_steps if step_size is None else step_size
    return trajectory(integrator, target, UNIT_MASS, start, size, num_steps)


def fitted_order(step_sizes: FloatArray, errors: FloatArray) -> float:
    """Return the slope of log error on log step size over the smallest steps."""
    smallest = np.argsort(step_sizes)[:NUM_FITTED]
    return float(np.polyfit(np.log(step_sizes[smallest]), np.log(errors[smallest]), 1)[0])


def reversal_error(
    integrator: Integrator, target: GradLogDensity, start: PhasePoint, num_steps: int
) -> float:
    """Return how far from its start a path ends that is run, flipped, run again and flipped."""
    end = path(integrator, target, start, num_steps)[-1]
    back = path(integrator, target, flip(end), num_steps)[-1]
    return float(np.abs(back.position - start.position).max())


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _findings(rows: list[dict[str, Any]], energy: dict[str, FloatArray]) -> list[str]:
    orders = ", ".join(f"{row['integrator']} {row['fitted order of energy']:.2f}" for row in rows)
    reversal = ", ".join(f"{row['integrator']} {row['reversal error']:.1e}" for row in rows)
    growth = all(after > before for before, after in pairwise(energy["euler"]))
    return [
        f"Fitted orders of the energy error: {orders}; a path costs the same gradients with each.",
        f"Run forwards, flipped and run again, a path misses its start by: {reversal}; only the "
        "leapfrog is reversible.",
        f"On N(0, 1) with ε = {PICTURE_STEP:g}, {PICTURE_STEPS} steps take Euler's energy from "
        f"{energy['euler'][0]:.2f} to {energy['euler'][-1]:.2f}"
        f"{', growing with every step' if growth else ''}; modified Euler stays within "
        f"{np.ptp(energy['modified_euler']):.3f} and the leapfrog within "
        f"{np.ptp(energy['leapfrog']):.3f}.",
    ]


@styled
def _error_figure(
    sizes: FloatArray, errors: dict[str, tuple[FloatArray, FloatArray]]
) -> StyledFigure:
    figure, axes = panels(2, 2, 2.6, LIGHT)
    middle = len(sizes) // 2
    for which, ax in enumerate(axes):
        for colour, (name, pair) in zip(LIGHT.chains, errors.items(), strict=False):
            ax.plot(sizes, pair[which], "o-", ms=4, color=colour, label=NAMES[name])
            above = name == "euler"
            where = {"xytext": (-4, 6) if above else (6, -10), "ha": "right" if above else "left"}
            text, point = f"order {fitted_order(sizes, pair[which]):.2f}", pair[which][middle]
            style = {"textcoords": "offset points", "color": colour}
            ax.annotate(text, (sizes[middle], point), **where, **style)
        title = ("Error of the energy", "Error of the position")[which]
        ax.set(xscale="log", yscale="log", xlabel="step size ε", title=title)
        plain_ticks(ax.xaxis)
        plain_ticks(ax.yaxis)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    axes[0].set_ylabel(f"root mean square at time {TIME:g}")
    alt = "Energy and position error against step size: slope 1 for both Euler methods, 2 leapfrog."
    return finish(figure, alt)


@styled
def _phase_figure(picture: dict[str, FloatArray]) -> StyledFigure:
    figure, axes = panels(3, 3, 2.25, LIGHT, sharex=True, sharey=True)
    angle = np.linspace(0, 2 * np.pi, 200)
    for ax, colour, (name, points) in zip(axes, LIGHT.chains, picture.items(), strict=False):
        ax.plot(np.cos(angle), np.sin(angle), color=LIGHT.muted, lw=0.9)
        ax.plot(*points, "o-", ms=2.8, lw=0.8, color=colour)
        ax.set(xlabel="position q", title=NAMES[name], aspect="equal")
    axes[0].set_ylabel("momentum p")
    alt = "Paths in phase space: Euler spirals outwards, the others stay near the circle."
    note = f"N(0, 1), ε = {PICTURE_STEP:g}, {PICTURE_STEPS} steps from q = 0, p = 1. "
    return finish(figure, alt, f"{note}Grey: the exact path.")
