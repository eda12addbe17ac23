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
from numpy.typing import NDArray

from pyflowers.lectures.figures import log_ticks
from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, styled
from pyflowers.samplers import (
    INTEGRATORS,
    ORDERS,
    GradLogDensity,
    Integrator,
    Mass,
    NormalMixture,
    PhasePoint,
    StandardNormal,
    flip,
    hamiltonian,
    phase_point,
    trajectory,
)

FloatArray = NDArray[np.float64]

TIME = 2.0
PICTURE_STEP, PICTURE_STEPS = 0.3, 20
NUM_FITTED = 4
"""Step sizes, the smallest ones, that orders are fitted on."""

_NAMES = {"euler": "Euler", "modified_euler": "modified Euler", "leapfrog": "leapfrog"}


def leapfrog_example(settings: Settings) -> Lecture:
    """Fit each integrator's order on the bimodal density and draw its path in phase space."""
    target = NormalMixture.lecture_hmc()
    rng = settings.rng(0)
    num_points = settings.size(200, 50)
    start = phase_point(
        target, target.sample(rng, num_points), rng.standard_normal((num_points, 1))
    )
    num_steps = np.array([8, 16, 32, 64, 128, 256, 512][: settings.size(7, 6)])
    errors = {
        name: _errors(integrator, target, start, num_steps)
        for name, integrator in INTEGRATORS.items()
    }
    rows = [_row(name, target, start, num_steps, errors[name]) for name in INTEGRATORS]
    energy = _picture_energies()
    return Lecture(
        "leapfrog",
        "Three ways to follow Hamilton's equations",
        settings,
        _findings(rows, energy),
        {f"Errors at time {TIME:g} on 0.3 N(−2, 1) + 0.7 N(2, 1)": rows},
        {
            "energy-error": _error_figure(num_steps, errors),
            "phase-space": _phase_figure(),
        },
        {
            "step_sizes": TIME / num_steps,
            "energy_error": {name: pair[0] for name, pair in errors.items()},
            "position_error": {name: pair[1] for name, pair in errors.items()},
            "picture_energy": energy,
        },
    )


def fitted_order(step_sizes: FloatArray, errors: FloatArray) -> float:
    """Return the slope of log error on log step size over the smallest steps."""
    smallest = np.argsort(step_sizes)[:NUM_FITTED]
    return float(np.polyfit(np.log(step_sizes[smallest]), np.log(errors[smallest]), 1)[0])


def _errors(
    integrator: Integrator, target: GradLogDensity, start: PhasePoint, num_steps: NDArray[np.int_]
) -> tuple[FloatArray, FloatArray]:
    """Return root mean square errors of energy and position at T, for each number of steps."""
    mass = Mass()
    fine = trajectory(INTEGRATORS["leapfrog"], target, mass, start, TIME / 20_000, 20_000)[-1]
    energies, positions = [], []
    for num in num_steps:
        end = trajectory(integrator, target, mass, start, TIME / num, int(num))[-1]
        energies.append(_rms(hamiltonian(mass, end) - hamiltonian(mass, start)))
        positions.append(_rms(end.position - fine.position))
    return np.array(energies), np.array(positions)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def reversal_error(
    integrator: Integrator, target: GradLogDensity, start: PhasePoint, num_steps: int
) -> float:
    """Return how far from its start a path ends that is run, flipped, run again and flipped."""
    mass, step = Mass(), TIME / num_steps
    end = trajectory(integrator, target, mass, start, step, num_steps)[-1]
    back = flip(trajectory(integrator, target, mass, flip(end), step, num_steps)[-1])
    return float(np.abs(back.position - start.position).max())


def _row(
    name: str,
    target: GradLogDensity,
    start: PhasePoint,
    num_steps: NDArray[np.int_],
    errors: tuple[FloatArray, FloatArray],
) -> dict[str, Any]:
    sizes = TIME / num_steps
    return {
        "integrator": _NAMES[name],
        "order in theory": ORDERS[name],
        "fitted order of energy": fitted_order(sizes, errors[0]),
        "fitted order of position": fitted_order(sizes, errors[1]),
        "reversal error": reversal_error(INTEGRATORS[name], target, start, int(num_steps[2])),
    }


def _picture_path(name: str) -> tuple[FloatArray, FloatArray]:
    """Return positions and momenta of Neal's figure 5.1: q = 0, p = 1, ε = 0.3, 20 steps."""
    start = phase_point(StandardNormal(), [[0.0]], [[1.0]])
    path = trajectory(
        INTEGRATORS[name], StandardNormal(), Mass(), start, PICTURE_STEP, PICTURE_STEPS
    )
    return (
        np.array([point.position[0, 0] for point in path]),
        np.array([point.momentum[0, 0] for point in path]),
    )


def _picture_energies() -> dict[str, FloatArray]:
    """Return ½ q² + ½ p² along each path of the picture, which starts at ½."""
    paths = {name: _picture_path(name) for name in INTEGRATORS}
    return {name: 0.5 * (q**2 + p**2) for name, (q, p) in paths.items()}


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
    num_steps: NDArray[np.int_], errors: dict[str, tuple[FloatArray, FloatArray]]
) -> StyledFigure:
    figure, axes = panels(2, 2, 2.6, LIGHT)
    sizes = TIME / num_steps
    for which, (ax, title) in enumerate(
        zip(axes, ("Error of the energy", "Error of the position"), strict=True)
    ):
        for colour, (name, pair) in zip(LIGHT.chains, errors.items(), strict=False):
            ax.plot(sizes, pair[which], "o-", ms=4, color=colour, label=_NAMES[name])
            middle = len(sizes) // 2
            above = name == "euler"
            ax.annotate(
                f"order {fitted_order(sizes, pair[which]):.2f}",
                (sizes[middle], pair[which][middle]),
                xytext=(-4, 6) if above else (6, -10),
                textcoords="offset points",
                ha="right" if above else "left",
                color=colour,
            )
        ax.set(xscale="log", yscale="log", xlabel="step size ε", title=title)
        log_ticks(ax)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    axes[0].set_ylabel(f"root mean square at time {TIME:g}")
    alt = "Energy and position error against step size: slope 1 for both Euler methods, 2 leapfrog."
    return finish(figure, alt)


@styled
def _phase_figure() -> StyledFigure:
    figure, axes = panels(3, 3, 2.25, LIGHT, sharex=True, sharey=True)
    angle = np.linspace(0, 2 * np.pi, 200)
    for ax, colour, name in zip(axes, LIGHT.chains, INTEGRATORS, strict=False):
        ax.plot(np.cos(angle), np.sin(angle), color=LIGHT.muted, lw=0.9)
        ax.plot(*_picture_path(name), "o-", ms=2.8, lw=0.8, color=colour)
        ax.set(xlabel="position q", title=_NAMES[name], aspect="equal")
    axes[0].set_ylabel("momentum p")
    alt = "Paths in phase space: Euler spirals outwards, the others stay near the circle."
    note = f"N(0, 1), ε = {PICTURE_STEP:g}, {PICTURE_STEPS} steps from q = 0, p = 1. "
    return finish(figure, alt, f"{note}Grey: the exact path.")
