"""A finite Markov chain: Metropolis on a few states, with its whole transition matrix.

A state is a number of flowers, 0 to 9, with a Poisson weight π_i ∝ λⁱ/i!. From i, propose
j = i − 1 or i + 1 on a ring, with probability ½ each, and accept with probability min(1, π_j/π_i).
Then π_i P_ij = π_j P_ji (detailed balance), so π P = π, and π₀ Pᵗ converges to π from any start at
the rate |λ₂|ᵗ.

References
----------
.. [1] Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications,
   Biometrika 57, 97–109.
.. [2] Diaconis & Stroock (1991), Geometric bounds for eigenvalues of Markov chains, Annals of
   Applied Probability 1, 36–61, proposition 3.
"""

from __future__ import annotations

import math

import numpy as np

from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import FloatArray, panel_figure
from pyflowers.lectures.samplers import markov
from pyflowers.plots.style import LIGHT, Axes, StyledFigure, plain_ticks

NUM_STATES = 10
RATE = 5.0
NUM_STEPS = 80
START = NUM_STATES - 1


def markov_chain(settings: Settings) -> Lecture:
    """Show the matrix of a chain, its detailed balance and its convergence from every start."""
    from scipy.stats import chi2

    lecture = Lecture("markov-chain", "A finite Markov chain and its limit", settings)
    weights = np.array([RATE**i / math.factorial(i) for i in range(NUM_STATES)])
    pi = weights / weights.sum()
    matrix = markov.metropolis_matrix(weights, markov.ring_walk(NUM_STATES))
    balance = markov.detailed_balance_error(matrix, pi)
    stationary = float(np.abs(markov.stationary_distribution(matrix) - pi).max())
    lecture.figures["matrix"] = _matrix_figure(matrix, pi)
    paths = np.stack([markov.distributions(matrix, row, NUM_STEPS) for row in np.eye(NUM_STATES)])
    distance, rate = markov.total_variation(paths, pi), markov.convergence_rate(matrix)
    lecture.figures["convergence"] = _convergence_figure(distance, bound(pi, rate, NUM_STEPS))
    lecture.figures["distributions"] = _distributions_figure(paths, pi)
    num_chains = settings.size(20_000, 2_000)
    start = np.full(num_chains, START)
    states = markov.simulate(settings.rng(0), matrix, start, NUM_STEPS)
    counts = np.bincount(states[:, -1], minlength=NUM_STATES)
    chi_square = float(((counts - num_chains * pi) ** 2 / (num_chains * pi)).sum())
    lecture.say(
        f"Detailed balance holds to within {balance:.1e}, and the computed stationary distribution "
        f"equals π to within {stationary:.1e}.",
        f"The second largest eigenvalue is {rate:.4f} in modulus: in the long run the distance to "
        f"the limit halves every {math.log(2) / -math.log(rate):.1f} steps, from any start.",
        f"After {NUM_STEPS} steps the total variation distance is at most "
        f"{distance[:, -1].max():.2e}; the slowest start is "
        f"state {int(distance[:, NUM_STEPS // 2].argmax())}.",
        f"A chi-square test of {num_chains:,} simulated chains, all started at {START}, against "
        f"the limit's frequencies gives p = {chi2.sf(chi_square, NUM_STATES - 1):.2g}. This is the "
        "probability of a deviation at least this large if the chains have reached the limit, so p "
        "is below 0.01 for about 1 in 100 seeds by chance.",
    )
    lecture.tables["States"] = [
        {
            "flowers": state,
            "π": float(pi[state]),
            f"after {NUM_STEPS} steps from {START}, simulated": float(counts[state] / num_chains),
            "stays with probability": float(matrix[state, state]),
        }
        for state in range(NUM_STATES)
    ]
    lecture.results.update(pi=pi, matrix=matrix, detailed_balance_error=balance)
    lecture.results.update(stationary_error=stationary, rate=rate, total_variation=distance)
    simulated = {"simulated": counts / num_chains, "chi_square": chi_square}
    lecture.results.update(simulated, num_chains=num_chains)
    return lecture


def bound(pi: FloatArray, rate: float, num_steps: int) -> FloatArray:
    """Return ½ √((1 − π_i)/π_i) |λ₂|ᵗ for each start and step, shape (state, step)."""
    front = 0.5 * np.sqrt((1 - pi) / pi)
    curve: FloatArray = front[:, None] * rate ** np.arange(num_steps + 1)
    return curve


def _matrix_figure(matrix: FloatArray, pi: FloatArray) -> StyledFigure:
    def shades(ax: Axes, shown: tuple[FloatArray, str]) -> None:
        values, form = shown
        ax.imshow(values, cmap="Blues", vmin=0, vmax=values.max() * 2)
        for i, j in zip(*np.nonzero(values > 5e-4), strict=True):
            ax.text(j, i, form.format(100 * values[i, j]), ha="center", va="center", fontsize=6)
        ax.set(xticks=range(NUM_STATES), yticks=range(NUM_STATES))
        ax.grid(False)

    shown = {
        "Transition matrix, %": (matrix, "{:.0f}"),
        "Flow π P, %: symmetric": (pi[:, None] * matrix, "{:.1f}"),
    }
    alt = "The transition matrix in shades, and the flow between states, equal in both directions."
    return panel_figure(shown, shades, 2.75, alt, labels=("to", "from"))


def _convergence_figure(distances: FloatArray, limit: FloatArray) -> StyledFigure:
    def curves(ax: Axes, distances: FloatArray) -> None:
        for colour, start in zip(LIGHT.chains, (0, 3, 5, 9), strict=False):
            ax.plot(distances[start], color=colour, label=f"from {start} flowers")
            ax.plot(np.minimum(limit[start], 1), color=colour, ls=":", lw=1)
        ax.set(yscale="log", xlim=(0, NUM_STEPS))
        plain_ticks(ax.yaxis)
        ax.legend(loc="lower left")

    shown = {"From any start to the limit": distances}
    alt = "Total variation distance falls geometrically from every start."
    note = "Dotted: the bound of Diaconis and Stroock (1991)."
    labels = ("step", "total variation distance to π")
    return panel_figure(shown, curves, 2.6, alt, note, labels=labels)


def _distributions_figure(paths: FloatArray, pi: FloatArray) -> StyledFigure:
    def bars(ax: Axes, probabilities: FloatArray) -> None:
        ax.bar(range(NUM_STATES), probabilities, color=LIGHT.chains[4])
        ax.step(range(NUM_STATES), pi, where="mid", color=LIGHT.ink)
        ax.set_xticks(range(0, NUM_STATES, 3))

    steps = (1, 8, 20, NUM_STEPS)
    shown = {f"step {step}": paths[START, step] for step in steps}
    alt = f"The chain's distribution after {', '.join(map(str, steps))} steps, ending at π."
    note, labels = f"All from {START} flowers. Line: π.", ("flowers", "probability")
    return panel_figure(shown, bars, 1.75, alt, note, labels=labels, share="y")
