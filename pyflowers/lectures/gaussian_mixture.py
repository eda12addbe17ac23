"""A mixture of three normal components: NUTS, ADVI, and label switching.

The data are 1,000 points, shipped as ``data/gaussian_mixture.csv``, from

    0.5 N(1, 1) + 0.3 N(5, 2) + 0.2 N(10, 4)     (means and *variances*).

``stan/gaussian_mixture.stan`` marginalizes out the components and orders their means. The same
program without the ordering constraint shows why the constraint is needed: chains that start with
different labels rarely agree. Mean-field ADVI is compared with NUTS. ADVI's spread is too small,
because the weights and means of neighbouring components are correlated.

The density of a mixture does not change when its components swap numbers. Nor does a posterior with
exchangeable priors, so it has K! copies of every mode. Averaged over all copies, component 1 has
the same mean as *any* other component. A chain that stays in one copy looks converged. Two chains
in different copies disagree in every quantity that refers to a component by its number, and agree
in all others, such as the density of y. :func:`detect` looks for this signature: R-hat fails on
labelled quantities, but passes after the components of each draw are sorted by their means. Sorting
is enough if the means of the components are well separated. If they overlap, sorting cuts modes in
two, and only quantities without labels can be judged ([3]_, section 3).

References
----------
.. [1] Stan User's Guide 2.35, chapter "Finite mixtures".
.. [2] Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), Automatic differentiation variational
   inference, JMLR 18(14).
.. [3] Jasra, Holmes and Stephens (2005), Markov chain Monte Carlo methods and the label switching
   problem in Bayesian mixture modeling, Statistical Science 20(1), 50–67.
.. [4] Stephens (2000), Dealing with label switching in mixture models, JRSS B 62(4), 795–809.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from pyflowers.engines.approximate import Approximation
from pyflowers.fits.diagnostics import R_HAT_AT_MOST
from pyflowers.fits.fit import Fit
from pyflowers.lectures import measures
from pyflowers.lectures.lecture import Lecture, Settings
from pyflowers.lectures.measures import FloatArray, panel_figure
from pyflowers.plots.style import LIGHT, Axes
from pyflowers.resources import gaussian_mixture_csv

WEIGHTS, MEANS, VARIANCES = (0.5, 0.3, 0.2), (1.0, 5.0, 10.0), (1.0, 2.0, 4.0)
NUM_POINTS = 1_000
DATA_SEED = 20_240_501
PRIORS = {"weight_alpha": 1, "mu_mean": 0, "mu_sd": 10, "sigma2_nu": 1, "sigma2_scale": 1}
VARIABLES = {"mu": MEANS, "sigma2": VARIANCES, "weight": WEIGHTS}
"""The estimated variables, with the values from which the data were drawn."""


def gaussian_mixture(settings: Settings) -> Lecture:
    """Fit the mixture with ordered means by NUTS and ADVI, and with unordered means by NUTS.

    Raises
    ------
    PyflowersError
        If Stan cannot be run.
    """
    title = "A Gaussian mixture, and the names of its components"
    lecture = Lecture("gaussian-mixture", title, settings)
    y = pd.read_csv(gaussian_mixture_csv())["y"].to_numpy()
    draws = settings.size(1_000, 300)
    options: dict[str, Any] = {"warmup": draws, "draws": draws, "engine": measures.OF_ADVI}
    fit = measures.nuts("gaussian_mixture", stan_data(y), settings, **options)
    approximation = measures.advi("gaussian_mixture", stan_data(y), settings)
    # Without the ordering constraint, each chain starts at a different permutation of three
    # quantiles of y, and thus with different labels.
    start = np.quantile(y, (0.2, 0.6, 0.9))
    others = {"mu_ordered": [], "sigma2": [1.0] * 3, "weight": [1 / 3] * 3}
    orders = list(permutations(range(3)))[:4]
    options["inits"] = [{"mu_free": start[list(order)].tolist(), **others} for order in orders]
    unordered = stan_data(y, is_ordered=False)
    free = measures.nuts("gaussian_mixture", unordered, settings, **options)
    ordered, switching = (detect(each.posterior["mu"].values) for each in (fit, free))
    lecture.results.update(
        seconds=fit.record.times.wall_seconds,
        iterations=2 * draws * fit.num_chains,
        k_hat=approximation.k_hat,
        labels={"ordered": vars(ordered), "free": vars(switching)},
    )
    lecture.say(f"NUTS with ordered means: {fit.diagnostics}; {ordered}.")
    _compare(lecture, fit, approximation)
    density = _density_draws(free, np.array([MEANS[1]]))[..., 0]
    lecture.say(
        f"Without the ordering constraint, {switching}. The chains start with different labels; "
        f"the number of label changes within chains is {switching.within_chains}.",
        f"The density at y = {MEANS[1]:g}, which does not depend on the labels, has R-hat "
        f"{measures.r_hat(density):.3f} over those chains.",
    )
    _show_posterior(lecture, fit, approximation)
    _show_density(lecture, y, fit)
    _show_labels(lecture, free.posterior["mu"].values)
    return lecture


def simulate() -> pd.DataFrame:
    """Draw the shipped data: each point and the number of its component, from 1."""
    rng = np.random.default_rng(DATA_SEED)
    component = rng.choice(len(WEIGHTS), size=NUM_POINTS, p=WEIGHTS)
    y = rng.normal(np.array(MEANS)[component], np.sqrt(VARIANCES)[component])
    return pd.DataFrame({"component": component + 1, "y": y.round(6)})


def stan_data(y: FloatArray, is_ordered: bool = True) -> dict[str, Any]:
    """Return the program's data with the lecture's priors."""
    return {"N": len(y), "y": y, "K": len(MEANS), "is_ordered": int(is_ordered), **PRIORS}


@dataclass(frozen=True)
class LabelSwitching:
    """Whether and how the labels of a mixture's components switched.

    Attributes
    ----------
    orders : tuple of tuples of int
        The distinct orders of the components, the most frequent first. Each order lists the
        components, numbered from 1, by increasing mean.
    switched : float
        The share of draws whose order is not the most frequent one.
    within_chains : int
        The number of times that a chain changed its order from one draw to the next.
    r_hat, r_hat_sorted : float
        The largest R-hat of the components' means, as labelled and after sorting.
    """

    orders: tuple[tuple[int, ...], ...]
    switched: float
    within_chains: int
    r_hat: float
    r_hat_sorted: float

    @property
    def detected(self) -> bool:
        """Whether labels explain a large R-hat: it fails with labels and passes after sorting."""
        return self.switched > 0 and self.r_hat_sorted <= R_HAT_AT_MOST < self.r_hat

    def __str__(self) -> str:
        if self.detected:
            return (
                f"label switching: {len(self.orders)} orders of the components among the draws; "
                f"R-hat {self.r_hat:.2f} as labelled, {self.r_hat_sorted:.3f} after sorting"
            )
        if self.r_hat > R_HAT_AT_MOST:
            return (
                f"no convergence, and labels do not explain it: R-hat {self.r_hat:.2f} as labelled "
                f"and {self.r_hat_sorted:.2f} after sorting"
            )
        if self.switched > 0:
            return (
                f"the components have a different order in {self.switched:.1%} of the draws, but "
                f"R-hat passes as labelled: {self.r_hat:.3f}"
            )
        return f"no label switching: R-hat {self.r_hat:.3f} as labelled"


def detect(means: FloatArray) -> LabelSwitching:
    """Look for label switching in draws of the components' means, shape (chain, draw, K)."""
    order = np.argsort(means, axis=-1) + 1
    distinct, index, counts = np.unique(
        order.reshape(-1, means.shape[-1]), axis=0, return_inverse=True, return_counts=True
    )
    by_chain = index.reshape(means.shape[:2])
    r_hats = [
        measures.largest_r_hat({str(k): values[..., k] for k in range(means.shape[-1])})
        for values in (means, np.sort(means, axis=-1))
    ]
    return LabelSwitching(
        tuple(tuple(map(int, distinct[i])) for i in np.argsort(-counts)),
        float(1 - counts.max() / counts.sum()),
        int((np.diff(by_chain, axis=1) != 0).sum()),
        *r_hats,
    )


def _compare(lecture: Lecture, fit: Fit, approximation: Approximation) -> None:
    """Compare NUTS and ADVI with the truth."""
    rows: list[dict[str, Any]] = []
    for name, truth in VARIABLES.items():
        for k, value in enumerate(truth):
            draws = fit.posterior[name].values[..., k]
            approximate = approximation.draws[name][..., k]
            rows.append(
                {
                    "quantity": f"{name}[{k + 1}]",
                    "truth": value,
                    "NUTS mean": float(draws.mean()),
                    "NUTS sd": float(draws.std(ddof=1)),
                    "ADVI mean": float(approximate.mean()),
                    "ADVI sd": float(approximate.std(ddof=1)),
                    "ADVI sd / NUTS sd": float(approximate.std() / draws.std()),
                    "R-hat": measures.r_hat(draws),
                    "ESS": measures.ess(draws),
                }
            )
    lecture.tables["NUTS, ADVI and the truth"] = rows
    off = max(abs(row["truth"] - row["NUTS mean"]) / row["NUTS sd"] for row in rows)
    narrow = min(rows, key=lambda row: float(row["ADVI sd / NUTS sd"]))
    lecture.say(
        f"All true values are within {off:.1f} posterior sds of the posterior means.",
        f"Relative to NUTS, mean-field ADVI is narrowest for {narrow['quantity']}, where its sd "
        f"is {narrow['ADVI sd / NUTS sd']:.2f} times NUTS's. ADVI's k-hat is "
        f"{approximation.k_hat:.2f} ({approximation.k_hat_verdict}).",
    )


def _density_draws(fit: Fit, grid: FloatArray) -> FloatArray:
    """Return the mixture density of each draw on a grid, shape (chain, draw, grid)."""
    mu, sigma2, weight = (fit.posterior[name].values[..., None] for name in VARIABLES)
    parts = weight * np.exp(-0.5 * (grid - mu) ** 2 / sigma2) / np.sqrt(2 * np.pi * sigma2)
    total: FloatArray = parts.sum(axis=-2)
    return total


def _show_posterior(lecture: Lecture, fit: Fit, approximation: Approximation) -> None:
    titles = {"mu": "mean", "sigma2": "variance", "weight": "weight"}
    shown = {f"{titles[name]} {k + 1}": (name, k) for name in VARIABLES for k in range(3)}

    def histograms(ax: Axes, which: tuple[str, int]) -> None:
        name, k = which
        for method, colour, draws in (
            ("NUTS", LIGHT.model, fit.posterior[name].values),
            ("mean-field ADVI", LIGHT.chains[1], approximation.draws[name]),
        ):
            counts, edges = np.histogram(draws[..., k], bins=40, density=True)
            ax.stairs(counts, edges, color=colour, fill=True, alpha=0.45, label=method)
            ax.stairs(counts, edges, color=colour, lw=0.8)
        ax.axvline(VARIABLES[name][k], color=LIGHT.ink, lw=1, ls="--", label="truth")
        ax.set_yticks([])
        ax.locator_params(axis="x", nbins=4)

    alt = "Histograms of means, variances and weights by NUTS and ADVI, with the true values."
    figure = panel_figure(shown, histograms, 1.35, alt, columns=3, legend="upper right")
    lecture.figures["posterior"] = figure


def _show_density(lecture: Lecture, y: FloatArray, fit: Fit) -> None:
    grid = np.linspace(y.min() - 0.5, y.max() + 0.5, 250)

    def density(ax: Axes, draws: FloatArray) -> None:
        ax.hist(y, bins=60, density=True, color=LIGHT.grid, label="1,000 points")
        low, high = np.quantile(draws, (0.025, 0.975), axis=0)
        ax.fill_between(grid, low, high, color=LIGHT.model, alpha=0.3, lw=0, label="95% interval")
        ax.plot(grid, draws.mean(axis=0), color=LIGHT.model, label="posterior mean")
        ax.set_xlim(grid[0], grid[-1])
        ax.legend(loc="upper right")

    shown = {"The density": _density_draws(fit, grid)[:, ::10].reshape(-1, grid.size)}
    alt = "The data's histogram under the posterior of the mixture's density."
    lecture.figures["density"] = panel_figure(shown, density, 2.4, alt, labels=("y", "density"))


def _show_labels(lecture: Lecture, mu: FloatArray) -> None:
    shown = {"Mean of component 1": mu, "Smallest of the means": np.sort(mu, axis=-1)}

    def traces(ax: Axes, means: FloatArray) -> None:
        measures.draw_traces(ax, means[..., 0], 300)

    alt = "Without ordering, each chain has its own labels; after sorting, the chains agree."
    note, labels = "Four chains, is_ordered = 0.", ("draw", "y")
    figure = panel_figure(shown, traces, 2.4, alt, note, labels=labels)
    figure.axes[1].set_ylim(figure.axes[0].get_ylim())
    lecture.figures["label-switching"] = figure
