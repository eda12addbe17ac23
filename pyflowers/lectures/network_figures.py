"""Figures of the neural networks: predictions with bands, training likelihood, weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyflowers.lectures.measures import FloatArray, r_hat
from pyflowers.lectures.network_methods import Posterior
from pyflowers.lectures.networks import Task
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, styled


@styled
def prediction_figure(task: Task, posteriors: Sequence[Posterior]) -> StyledFigure:
    """Draw the predictive mean with ±2 sd, epistemic and total, a panel a method."""
    figure, axes = panels(len(posteriors), 3, 2.4, LIGHT, sharex=True, sharey=True)
    network, grid = task.network, task.grid
    curve = task.curve(grid)
    for ax, posterior in zip(axes, posteriors, strict=True):
        mean, epistemic, total = posterior.bands(grid)
        for sd, alpha, label in ((total, 0.2, "total"), (epistemic, 0.45, "epistemic")):
            low, high = mean - 2 * sd, mean + 2 * sd
            ax.fill_between(grid, low, high, color=LIGHT.model, alpha=alpha, lw=0, label=label)
        size = 4.0 if len(network.x) < 100 else 1.2
        ax.plot(network.x, network.y, ".", color=LIGHT.muted, ms=size, zorder=1.5)
        ax.plot(grid, curve, color=LIGHT.ink, ls="--", lw=0.9, label="truth")
        ax.plot(grid, mean, color=LIGHT.model, label="mean")
        ax.set(title=posterior.method, xlabel="x", xlim=(grid[0], grid[-1]))
    spread = np.ptp(curve)
    axes[0].set_ylim(curve.min() - 0.5 * spread, curve.max() + 0.5 * spread)
    axes[0].set_ylabel("y")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    alt = f"Predictive mean and ±2 sd bands of {task.title} by three methods."
    return finish(figure, alt, "Bands: mean ± 2 sd of f (epistemic) and of y (total).")


@styled
def likelihood_figure(task: Task, log_likelihoods: dict[str, FloatArray]) -> StyledFigure:
    """Draw the training log likelihood per iteration, a panel a method."""
    figure, axes = panels(len(log_likelihoods), 2, 2.1, LIGHT)
    titles = {"NUTS": "NUTS, after warm-up", "HMC": "HMC, from random starts"}
    xlabels = {"NUTS": "draw", "HMC": "every fifth transition"}
    for ax, (name, values) in zip(axes, log_likelihoods.items(), strict=True):
        for chain, colour in zip(values, LIGHT.chains, strict=False):
            ax.plot(np.arange(1, chain.size + 1), chain, lw=0.7, color=colour)
        ax.set(xlabel=xlabels[name], title=titles[name], xlim=(1, values.shape[1]))
        settled = values[:, values.shape[1] // 8 :]
        low, high = float(settled.min()), float(settled.max())
        ax.set_ylim(low - 0.15 * (high - low), high + 0.1 * (high - low))
    axes[0].set_ylabel("training log likelihood")
    return finish(figure, f"Training log likelihood of {task.title} per iteration, four chains.")


@styled
def weights_figure(task: Task, fit: Posterior) -> StyledFigure:
    """Draw a weight and the function at a point, four chains each: one fails, one need not."""
    figure, axes = panels(2, 2, 2.1, LIGHT)
    weight = fit.weights["hidden_weight"][..., 0]
    middle = task.judged[[len(task.judged) // 3]]
    value = fit.functions(middle)[..., 0]
    for ax, draws, title in (
        (axes[0], weight, "First hidden weight"),
        (axes[1], value, f"f({middle[0]:.2f})"),
    ):
        for chain, colour in zip(draws, LIGHT.chains, strict=False):
            ax.plot(np.arange(1, chain.size + 1), chain, lw=0.5, color=colour)
        ax.set(xlabel="draw", title=f"{title}: R-hat {r_hat(draws):.2f}", xlim=(1, draws.shape[1]))
    alt = f"Traces of a weight and of the function of {task.title}: chains differ in the weight."
    return finish(figure, alt)
