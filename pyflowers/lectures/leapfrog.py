"""Euler, modified Euler and leapfrog: energy error, order, reversibility, phase space.

All three follow dq/dt = p, dp/dt = ∇ log π(q) for the same time T = L ε. The error at T is of order
ε for both Euler methods and ε² for the leapfrog. Here the orders are not assumed, but fitted as
slopes of log error on log ε. Euler also gains energy without bound: on N(0, 1) a step multiplies
H − min H by 1 + ε², so the path spirals outwards. The other two preserve volume, and their energy
error stays bounded.

References
----------
.. [1] Neal (2011), MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo,
   chapter 5, section 5.2 and figure 5.1.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import FloatArray, panel_figure
from pyflowers.lectures.samplers import hmc, kernels
from pyflowers.lectures.samplers.hmc import INTEGRATORS, Integrator, PhasePoint
from pyflowers.lectures.samplers.targets import NormalMixture, StandardNormal
from pyflowers.plots.style import LIGHT, Axes, plain_ticks

TIME = 2.0
PICTURE_STEP, PICTURE_STEPS = 0.3, 20
NUM_FITTED = 4
"""The number of step sizes to which the orders are fitted; the smallest ones are used."""

NAMES = {"euler": "Euler", "modified_euler": "modified Euler", "leapfrog": "leapfrog"}


def leapfrog(settings: Settings) -> Lecture:
    """Fit each integrator's order on the bimodal density and draw its path in phase space."""
    lecture = Lecture("leapfrog", "Three ways to follow Hamilton's equations", settings)
    target, rng = NormalMixture.lecture_hmc(), settings.rng(0)
    num_points = settings.size(200, 50)
    position = target.sample(rng, num_points)
    start = hmc.phase_point(target, position, rng.standard_normal((num_points, 1)))
    num_steps = np.array([8, 16, 32, 64, 128, 256, 512][: settings.size(7, 6)])
    sizes = TIME / num_steps
    exact = path(INTEGRATORS["leapfrog"], target, start, 20_000)[-1]
    errors: dict[str, dict[str, FloatArray]] = {"energy": {}, "position": {}}
    rows = []
    for name, integrator in INTEGRATORS.items():
        ends = [path(integrator, target, start, int(num))[-1] for num in num_steps]
        energies = [hmc.hamiltonian(hmc.Mass(), point) for point in (start, *ends)]
        errors["energy"][name] = _rms([energy - energies[0] for energy in energies[1:]])
        errors["position"][name] = _rms([end.position - exact.position for end in ends])
        rows.append(
            {
                "integrator": NAMES[name],
                "order in theory": hmc.ORDERS[name],
                "fitted order of energy": fitted_order(sizes, errors["energy"][name]),
                "fitted order of position": fitted_order(sizes, errors["position"][name]),
                "reversal error": reversal_error(integrator, target, start, int(num_steps[2])),
            }
        )
    lecture.tables[f"Errors at time {TIME:g} on 0.3 N(−2, 1) + 0.7 N(2, 1)"] = rows
    lecture.results["step_sizes"] = sizes
    lecture.results.update({f"{what}_error": by_name for what, by_name in errors.items()})
    orders = ", ".join(f"{row['integrator']} {row['fitted order of energy']:.2f}" for row in rows)
    reversal = ", ".join(f"{row['integrator']} {row['reversal error']:.1e}" for row in rows)
    lecture.say(
        f"Fitted orders of the energy error: {orders}; a path needs the same number of gradients "
        "with each integrator.",
        "If a path is run, flipped and run again, the largest distances from the start are: "
        f"{reversal}. Only the leapfrog is reversible.",
    )
    _show_errors(lecture, sizes, errors)
    _show_phase_space(lecture)
    return lecture


def path(
    integrator: Integrator, target: kernels.GradLogDensity, start: PhasePoint, num_steps: int
) -> list[PhasePoint]:
    """Return a path with the given number of steps up to :data:`TIME`."""
    size = TIME / num_steps
    return hmc.trajectory(integrator, target, hmc.Mass(), start, size, num_steps)


def fitted_order(step_sizes: FloatArray, errors: FloatArray) -> float:
    """Return the slope of log error on log step size over the smallest steps."""
    smallest = np.argsort(step_sizes)[:NUM_FITTED]
    return float(np.polyfit(np.log(step_sizes[smallest]), np.log(errors[smallest]), 1)[0])


def reversal_error(
    integrator: Integrator, target: kernels.GradLogDensity, start: PhasePoint, num_steps: int
) -> float:
    """Return how far a path ends from its start after it is run, flipped and run again."""
    end = path(integrator, target, start, num_steps)[-1]
    back = path(integrator, target, hmc.flip(end), num_steps)[-1]
    return float(np.abs(back.position - start.position).max())


def _rms(differences: list[FloatArray]) -> FloatArray:
    """Return the root mean square of the differences for each step size."""
    return np.array([np.sqrt(np.mean(values**2)) for values in differences])


def _show_errors(
    lecture: Lecture, sizes: FloatArray, errors: dict[str, dict[str, FloatArray]]
) -> None:
    middle = len(sizes) // 2

    def slopes(ax: Axes, by_name: dict[str, FloatArray]) -> None:
        for colour, (name, values) in zip(LIGHT.chains, by_name.items(), strict=False):
            ax.plot(sizes, values, "o-", ms=4, color=colour, label=NAMES[name])
            above = name == "euler"
            where = {"xytext": (-4, 6) if above else (6, -10), "ha": "right" if above else "left"}
            text, style = f"order {fitted_order(sizes, values):.2f}", {"color": colour}
            point = (sizes[middle], values[middle])
            ax.annotate(text, point, textcoords="offset points", **style, **where)
        ax.set(xscale="log", yscale="log")
        plain_ticks(ax.xaxis)
        plain_ticks(ax.yaxis)

    alt = (
        "Errors of energy and position by step size: slope 1 for the Euler methods, 2 for leapfrog."
    )
    shown = {f"Error of the {which}": by_name for which, by_name in errors.items()}
    labels = ("step size ε", f"root mean square at time {TIME:g}")
    figure = panel_figure(shown, slopes, 2.6, alt, labels=labels, legend="upper left")
    lecture.figures["energy-error"] = figure


def _show_phase_space(lecture: Lecture) -> None:
    """Draw Neal's figure 5.1: paths from q = 0 and p = 1, with energy ½."""
    target, mass, shown = StandardNormal(), hmc.Mass(), {}
    begin = hmc.phase_point(target, [[0.0]], [[1.0]])
    for name, integrator in INTEGRATORS.items():
        points = hmc.trajectory(integrator, target, mass, begin, PICTURE_STEP, PICTURE_STEPS)
        shown[name] = np.array([(x.position.item(), x.momentum.item()) for x in points]).T
    energies = {name: 0.5 * (q**2 + p**2) for name, (q, p) in shown.items()}
    lecture.results["picture_energy"] = energies
    growth = all(after > before for before, after in pairwise(energies["euler"]))
    lecture.say(
        f"On N(0, 1) with ε = {PICTURE_STEP:g}, {PICTURE_STEPS} steps take Euler's energy from "
        f"{energies['euler'][0]:.2f} to {energies['euler'][-1]:.2f}"
        f"{', growing with every step' if growth else ''}; the energy of modified Euler varies by "
        f"{np.ptp(energies['modified_euler']):.3f} and the energy of the leapfrog by "
        f"{np.ptp(energies['leapfrog']):.3f}."
    )
    angle, colours = np.linspace(0, 2 * np.pi, 200), iter(LIGHT.chains)

    def spiral(ax: Axes, name: str) -> None:
        ax.plot(np.cos(angle), np.sin(angle), color=LIGHT.muted, lw=0.9)
        ax.plot(*shown[name], "o-", ms=2.8, lw=0.8, color=next(colours))
        ax.set_aspect("equal")

    alt = "Paths in phase space: Euler spirals outwards, the others stay near the circle."
    note = f"N(0, 1), ε = {PICTURE_STEP:g}, {PICTURE_STEPS} steps from q = 0, p = 1. "
    note += "Grey: the exact path."
    labels = ("position q", "momentum p")
    panels = {NAMES[name]: name for name in shown}
    figure = panel_figure(panels, spiral, 2.25, alt, note, labels=labels, share="xy")
    lecture.figures["phase-space"] = figure
