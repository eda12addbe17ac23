"""A finite Markov chain: Metropolis on a few states, with its whole transition matrix.

A state is a number of flowers, 0 to 9, with a Poisson weight π_i ∝ λⁱ/i!. From i, propose i − 1 or
i + 1 on a ring, ½ each, and accept with probability min(1, π_j/π_i). Then π_i P_ij = π_j P_ji
(detailed balance), so π P = π, and π₀ Pᵗ goes to π from any start as fast as |λ₂|ᵗ.

References
----------
.. [1] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109.
.. [2] Diaconis & Stroock (1991), Geometric bounds for eigenvalues of Markov chains, Annals of
   Applied Probability 1, 36–61, proposition 3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import FloatArray
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, plain_ticks, styled
from pyflowers.samplers import markov

NUM_STATES = 10
RATE = 5.0
NUM_STEPS = 80
START = NUM_STATES - 1


def markov_chain(settings: Settings) -> Lecture:
    """Show a chain's matrix, its detailed balance and its way to the limit from every start."""
    weights = np.array([RATE**i / math.factorial(i) for i in range(NUM_STATES)])
    pi = weights / weights.sum()
    matrix = markov.metropolis_matrix(weights, markov.ring_walk(NUM_STATES))
    paths = np.stack([markov.distributions(matrix, row, NUM_STEPS) for row in np.eye(NUM_STATES)])
    num_chains = settings.size(20_000, 2_000)
    start = np.full(num_chains, START)
    states = markov.simulate(settings.rng(0), matrix, start, NUM_STEPS)
    counts = np.bincount(states[:, -1], minlength=NUM_STATES)
    results = {
        "pi": pi,
        "matrix": matrix,
        "detailed_balance_error": markov.detailed_balance_error(matrix, pi),
        "stationary_error": float(np.abs(markov.stationary_distribution(matrix) - pi).max()),
        "rate": markov.convergence_rate(matrix),
        "total_variation": markov.total_variation(paths, pi),
        "simulated": counts / num_chains,
        "chi_square": float(((counts - num_chains * pi) ** 2 / (num_chains * pi)).sum()),
        "num_chains": num_chains,
    }
    rows = [
        {
            "flowers": state,
            "π": float(pi[state]),
            f"after {NUM_STEPS} steps from {START}, simulated": float(counts[state] / num_chains),
            "stays with probability": float(matrix[state, state]),
        }
        for state in range(NUM_STATES)
    ]
    figures = {
        "matrix": _matrix_figure(matrix, pi),
        "convergence": _convergence_figure(results),
        "distributions": _distributions_figure(paths, pi),
    }
    title = "A finite Markov chain and its limit"
    tables = {"States": rows}
    return Lecture("markov-chain", title, settings, _findings(results), tables, figures, results)


def bound(pi: FloatArray, rate: float, num_steps: int) -> FloatArray:
    """Return ½ √((1 − π_i)/π_i) |λ₂|ᵗ for each start and step, shape (state, step)."""
    front = 0.5 * np.sqrt((1 - pi) / pi)
    curve: FloatArray = front[:, None] * rate ** np.arange(num_steps + 1)
    return curve


def _findings(results: dict[str, Any]) -> list[str]:
    from scipy.stats import chi2

    distance = results["total_variation"]
    slowest = int(distance[:, NUM_STEPS // 2].argmax())
    p_value = float(chi2.sf(results["chi_square"], NUM_STATES - 1))
    half = math.log(2) / -math.log(results["rate"])
    return [
        f"Detailed balance holds to {results['detailed_balance_error']:.1e}, and the stationary "
        f"distribution solved for equals π to {results['stationary_error']:.1e}.",
        f"The second eigenvalue is {results['rate']:.4f}: in the long run the distance to the "
        f"limit halves every {half:.1f} steps, whatever the start.",
        f"After {NUM_STEPS} steps the total variation distance is at most "
        f"{distance[:, -1].max():.2e}; the slowest start is {slowest}.",
        f"{results['num_chains']:,} simulated chains, all from {START}, have the limit's "
        f"frequencies (chi-square p = {p_value:.2f}).",
    ]


@styled
def _matrix_figure(matrix: FloatArray, pi: FloatArray) -> StyledFigure:
    figure, axes = panels(2, 2, 2.75, LIGHT)
    for ax, values, title, form in (
        (axes[0], matrix, "Transition matrix, %", "{:.0f}"),
        (axes[1], pi[:, None] * matrix, "Flow π P, %: symmetric", "{:.1f}"),
    ):
        ax.imshow(values, cmap="Blues", vmin=0, vmax=values.max() * 2)
        for i, j in zip(*np.nonzero(values > 5e-4), strict=True):
            ax.text(j, i, form.format(100 * values[i, j]), ha="center", va="center", fontsize=6)
        ax.set(xlabel="to", title=title, xticks=range(NUM_STATES), yticks=range(NUM_STATES))
        ax.grid(False)
    axes[0].set_ylabel("from")
    alt = "The transition matrix in shades, and the flow between states, equal both ways."
    return finish(figure, alt)


@styled
def _convergence_figure(results: dict[str, Any]) -> StyledFigure:
    figure, (ax,) = panels(1, 1, 2.6, LIGHT)
    steps = np.arange(NUM_STEPS + 1)
    limit = bound(results["pi"], results["rate"], NUM_STEPS)
    for colour, start in zip(LIGHT.chains, (0, 3, 5, 9), strict=False):
        distance = results["total_variation"][start]
        ax.plot(steps, distance, color=colour, label=f"from {start} flowers")
        ax.plot(steps, np.minimum(limit[start], 1), color=colour, ls=":", lw=1)
    ax.set(yscale="log", xlabel="step", ylabel="total variation distance to π")
    ax.set(xlim=(0, NUM_STEPS), title="From any start to the limit")
    plain_ticks(ax.yaxis)
    ax.legend(loc="lower left")
    alt = "Total variation distance falls geometrically from every start."
    return finish(figure, alt, "Dotted: the bound of Diaconis and Stroock (1991).")


@styled
def _distributions_figure(paths: FloatArray, pi: FloatArray) -> StyledFigure:
    shown = (1, 8, 20, NUM_STEPS)
    figure, axes = panels(len(shown), 4, 1.75, LIGHT, sharey=True)
    for ax, step in zip(axes, shown, strict=True):
        ax.bar(range(NUM_STATES), paths[START, step], color=LIGHT.chains[4])
        ax.step(range(NUM_STATES), pi, where="mid", color=LIGHT.ink)
        ax.set(xlabel="flowers", title=f"step {step}", xticks=range(0, NUM_STATES, 3))
    axes[0].set_ylabel("probability")
    alt = f"The chain's distribution after {', '.join(map(str, shown))} steps, ending on π."
    return finish(figure, alt, f"All from {START} flowers. Line: π.")
