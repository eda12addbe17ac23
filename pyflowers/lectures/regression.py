"""A straight line through 30 points: Metropolis, SGLD and NUTS against the exact posterior.

    y = −1 + 2x + N(0, 0.5²),   p(α, β, σ) flat,

so α and β are t distributed with N − 3 = 27 degrees of freedom about least squares. Metropolis
takes steps of sd 0.02 in (α, β, log σ) from a start far away: its burn-in is on view. Stochastic
gradient Langevin dynamics (SGLD) moves by

    θ′ = θ + (ε/2) ĝ + η,     η ~ N(0, ε),

with ĝ from mini-batches of 10. It has no accept step, so a small bias of order ε stays.

Where the lecture is wrong: the handout's SGLD adds noise of sd α, its step size, where Langevin
needs √α. The draws then are narrower than the posterior by about √α. Both are run here.

References
----------
.. [1] Gelman et al. (2013), Bayesian Data Analysis, third edition, section 14.2.
.. [2] Welling & Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML,
   equation 4.
"""

from __future__ import annotations

import numpy as np

from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import (
    Draws,
    FloatArray,
    Statistics,
    agreement,
    compare,
    draw_traces,
    exact_statistics,
    largest_r_hat,
    mixes,
    smallest_ess,
    statistics,
)
from pyflowers.lectures.stan import nuts
from pyflowers.plots.style import LIGHT, StyledFigure, finish, panels, styled
from pyflowers.samplers import (
    SGLD,
    GaussianStep,
    Kernel,
    LinearRegression,
    Metropolis,
    handout_noise_sd,
    run,
)

TRUTH = {"alpha": -1.0, "beta": 2.0, "sigma": 0.5}
NUM_POINTS = 30
METROPOLIS_SCALE = 0.02
SGLD_STEP = 4e-4
BATCH_SIZE = 10
NUM_CHAINS = 8
START = (0.0, 0.0, 0.0)
BURN_IN = 5_000
FULL = "handout's SGLD, full gradients"
SHOWN = ("Metropolis", "SGLD", "handout's SGLD")


def regression(settings: Settings) -> Lecture:
    """Set three samplers beside the exact t posterior.

    Raises
    ------
    PyflowersError
        If Stan's NUTS cannot be run.
    """
    target = simulated_posterior(settings.rng(0))
    kernels: dict[str, Kernel] = {
        "Metropolis": Metropolis(target, GaussianStep(METROPOLIS_SCALE)),
        "SGLD": SGLD(target, SGLD_STEP, BATCH_SIZE),
        "handout's SGLD": SGLD(target, SGLD_STEP, BATCH_SIZE, noise_sd=handout_noise_sd),
        FULL: SGLD(target, SGLD_STEP, noise_sd=handout_noise_sd),
    }
    num_draws, start = settings.size(60_000, 20_000), np.tile(START, (NUM_CHAINS, 1))
    paths = {
        name: run(kernel, settings.rng(stream), start, num_draws).draws
        for stream, (name, kernel) in enumerate(kernels.items(), start=1)
    }
    kept: dict[str, Draws] = {
        name: {each: draws[:, BURN_IN:, i] for i, each in enumerate(target.names)}
        for name, draws in paths.items()
    }
    data = {"N": target.num_obs, "x": target.x, "y": target.y, "log_flat": 0}
    stan = nuts("linear_regression", data, settings, draws=settings.size(5_000, 2_000))
    kept["NUTS"] = {
        "alpha": stan.variable("alpha"),
        "beta": stan.variable("beta"),
        "log_sigma": np.log(stan.variable("sigma")),
    }
    exact = _exact(target)
    rows = [_row(name, draws, exact) for name, draws in kept.items()]
    return Lecture(
        "regression",
        "A straight line: three samplers and the exact posterior",
        settings,
        _findings(kept, exact, rows),
        {"Spread of each posterior, as a part of the exact sd": rows},
        {
            "burn-in": _burn_in_figure(paths, exact["beta"]),
            "posteriors": _posterior_figure(target, kept),
            "line": _line_figure(target, kept["NUTS"]),
        },
        {"x": target.x, "y": target.y, "truth": TRUTH, "exact": exact},
    )


def simulated_posterior(rng: np.random.Generator) -> LinearRegression:
    """Draw the points and return their posterior with a prior flat in σ."""
    x = np.linspace(-1, 1, NUM_POINTS)
    y = TRUTH["alpha"] + TRUTH["beta"] * x + rng.normal(0, TRUTH["sigma"], NUM_POINTS)
    return LinearRegression(x, y, flat_in="sigma")


def _exact(target: LinearRegression) -> dict[str, Statistics]:
    """Return the exact statistics of α, β and log σ = −½ log(χ²_ν / S)."""
    from scipy.stats import chi2

    nu = target.degrees_of_freedom
    sum_of_squares = target.residual_variance * nu
    quantiles = {
        "alpha": target.marginal("alpha").ppf,
        "beta": target.marginal("beta").ppf,
        "log_sigma": lambda p: 0.5 * np.log(sum_of_squares / chi2.isf(p, nu)),
    }
    return {
        name: exact_statistics(target.mean[i], np.sqrt(target.variance[i]), quantiles[name])
        for i, name in enumerate(target.names)
    }


def _row(name: str, draws: Draws, exact: dict[str, Statistics]) -> Row:
    spread = {
        f"sd of {each}": float(values.std(ddof=1) / exact[each]["sd"][0])
        for each, values in draws.items()
    }
    ess, r_hat = smallest_ess(draws), largest_r_hat(draws)
    return {"sampler": name, **spread, "ESS": ess, "R-hat": r_hat, "mixes": mixes(draws)}


def _findings(kept: dict[str, Draws], exact: dict[str, Statistics], rows: list[Row]) -> list[str]:
    def agree(name: str, reference: dict[str, Statistics], what: str) -> str:
        comparisons = []
        for each, values in kept[name].items():
            comparisons += compare(each, statistics(values), reference[each])
        return agreement(comparisons, what)

    by_stan = {name: statistics(values) for name, values in kept["NUTS"].items()}
    ratio = {row["sampler"]: row["sd of beta"] for row in rows}
    return [
        agree("NUTS", exact, "Stan's NUTS and the exact posterior"),
        agree("Metropolis", exact, "Metropolis and the exact posterior"),
        agree("Metropolis", by_stan, "Metropolis and Stan's NUTS"),
        f"SGLD with noise of variance ε = {SGLD_STEP:g} has {ratio['SGLD']:.2f} of the exact sd of "
        "beta: mini-batches and the missing accept step leave a small bias.",
        f"The handout's noise of sd ε leaves {ratio[FULL]:.3f} of it with full gradients, as "
        f"√ε = {np.sqrt(SGLD_STEP):.3f} says, and {ratio[SHOWN[2]]:.3f} with mini-batches, nearly "
        "all of which is the mini-batches' own noise: an optimiser, not a sampler.",
        f"From {START}, the first {BURN_IN:,} draws are burn-in and thrown away.",
    ]


@styled
def _burn_in_figure(paths: dict[str, FloatArray], beta: Statistics) -> StyledFigure:
    figure, axes = panels(len(SHOWN), 3, 2.2, LIGHT, sharey=True)
    mean, sd = beta["mean"][0], beta["sd"][0]
    for ax, name in zip(axes, SHOWN, strict=True):
        ax.axhspan(mean - 2 * sd, mean + 2 * sd, color=LIGHT.grid, lw=0)
        draw_traces(ax, paths[name][:4, :, 1], 2 * BURN_IN)
        ax.axvline(BURN_IN, color=LIGHT.ink, lw=0.8, ls="--")
        ax.set(xlabel="draw", title=name, xticks=(0, BURN_IN, 2 * BURN_IN))
    axes[0].set_ylabel("beta, four chains")
    alt = "Traces of beta from a start far away, for Metropolis and for SGLD right and wrong."
    return finish(figure, alt, "Grey: exact mean ± 2 sd. Dashed: the end of the burn-in.")


@styled
def _posterior_figure(target: LinearRegression, kept: dict[str, Draws]) -> StyledFigure:
    figure, axes = panels(len(SHOWN) + 1, 4, 1.9, LIGHT, sharex=True)
    exact = target.marginal("beta")
    grid = np.linspace(exact.ppf(1e-4), exact.ppf(1 - 1e-4), 300)
    for ax, name in zip(axes, (*SHOWN, "NUTS"), strict=True):
        ax.hist(kept[name]["beta"].ravel(), bins=50, density=True, color=LIGHT.chains[4])
        ax.plot(grid, exact.pdf(grid), color=LIGHT.ink)
        ax.set(xlabel="beta", title=name, yticks=[], xlim=(grid[0], grid[-1]))
    axes[0].set_ylabel("density")
    alt = "Histograms of beta over its exact t density; the handout's SGLD is far too narrow."
    return finish(figure, alt, "Line: the exact t density.")


@styled
def _line_figure(target: LinearRegression, draws: Draws) -> StyledFigure:
    figure, (ax,) = panels(1, 1, 2.5, LIGHT)
    grid = np.linspace(-1.1, 1.1, 60)
    alpha, beta = draws["alpha"].ravel(), draws["beta"].ravel()
    low, high = np.quantile(alpha[:, None] + beta[:, None] * grid, (0.025, 0.975), axis=0)
    ax.fill_between(grid, low, high, color=LIGHT.model, alpha=0.25, lw=0, label="95% of lines")
    ax.plot(grid, alpha.mean() + beta.mean() * grid, color=LIGHT.model, label="posterior mean")
    truth = TRUTH["alpha"] + TRUTH["beta"] * grid
    ax.plot(grid, truth, color=LIGHT.ink, ls="--", lw=0.9, label="truth")
    ax.plot(target.x, target.y, "o", color=LIGHT.data, ms=3.5)
    ax.set(xlabel="x", ylabel="y", title="The points and the line", xlim=(-1.1, 1.1))
    ax.legend(loc="upper left")
    return finish(figure, "The points, the true line and the posterior's lines.")
