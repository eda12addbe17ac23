"""Bayesian neural networks: judged on the function that they predict, not on their weights.

Two tasks, both with ``stan/neural_network.stan``:

| task | data | network | priors |
|---|---|---|---|
| denoising | x + 0.3 sin 2π(x+ε) + 0.3 sin 4π(x+ε), 1,000 points in two pieces | 5 tanh units | \
weights N(0, 10²), σ ~ Gamma(0.5, 1), noise of sd σ² |
| cubed sine | sin³(6x), 34 points in two pieces | 1–10–10–1 tanh | weights N(0, 1), noise sd 0.1 |

NUTS and the lecture's HMC (ε = 0.002, L = 50) draw from the posterior of the weights, mean-field
ADVI approximates it. Predictions average over draws: mean ± 2 sd of f is what is not known about
the function (epistemic), with the noise added what is not known about the next point (total).

The weights have symmetries, so their posterior has thousands of copies of each mode, between which
chains cross rarely or never. R-hat of the weights fails for that reason, and this is reported as
it is. The function has no copies; where chains still disagree on it, they are in different modes or
have moved too little along a ridge, and that is shown.

On the first task four things were tried for that, with seed 1 and trees of depth 8, which nearly
every draw reaches. A third of all ascents end more than 200 nats below the best one; from the best
of 3 ascents for each chain R-hat of f was 1.58. From the best of 40 all chains start within 2 nats
of each other, and it was 1.30 after 270 draws: the ridges are long and narrow. A dense metric
follows them better: 1.12 and 1.20 after 500 draws on two machines, as the lecture has it (which
round differently, and chains part), and still 1.09 after 1,000 of warm-up and 1,000 draws. Trees of
depth 9 for twice the time: 1.15. Four units shape the curve; where the fifth one goes, to an end or
beside another unit, differs between chains and rarely changes, and f with it by half its sd. So it
does not converge in the time of a lecture, and the verdict says so.

The lecture's ε for HMC is too long for the first task: its chains get stuck, as their acceptance
rate says.

Where the lecture misleads: the sd of its observations is σ², the usual sign of a variance. It is a
model like any other and is kept; the noise's *variance* is σ⁴.

References
----------
.. [1] Neal (1996), Bayesian Learning for Neural Networks, chapters 2 and 3.
.. [2] Blundell, Cornebise, Kavukcuoglu & Wierstra (2015), Weight uncertainty in neural networks,
   ICML, section 5.2, for the denoising curve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyflowers.display import format_number
from pyflowers.fits.verdict import Part
from pyflowers.lectures.lecture import Lecture, Row, Settings
from pyflowers.lectures.measures import FloatArray
from pyflowers.lectures.network_figures import likelihood_figure, prediction_figure, weights_figure
from pyflowers.lectures.network_methods import (
    HMC_STEP,
    HMC_STEPS,
    Posterior,
    by_advi,
    by_hmc,
    by_nuts,
    open_density,
    value,
)
from pyflowers.lectures.networks import Task, cubed_sine, denoising
from pyflowers.samplers import StanDensity

NEAR = 3.0
"""Nats below the best log density up to which an ascent ended about as high."""


@dataclass(frozen=True)
class Outcome:
    """What the three methods found on one task.

    Attributes
    ----------
    task : Task
    posteriors : tuple of Posterior
        NUTS, ADVI, HMC.
    log_likelihoods : dict of arrays, shape (chain, draw)
        Training log likelihood per iteration: of NUTS after warm-up, of HMC from its start.
    symmetry_error : float
        How much the log density changes between two copies of a draw.
    """

    task: Task
    posteriors: tuple[Posterior, ...]
    log_likelihoods: dict[str, FloatArray]
    symmetry_error: float


def neural_network(settings: Settings) -> Lecture:
    """Fit both networks by three methods and judge the functions.

    Raises
    ------
    PyflowersError
        If Stan cannot be run.
    """
    tasks = (
        denoising(settings.rng(0), settings.size(1_000, 200)),
        cubed_sine(settings.rng(1)),
    )
    outcomes = [_solve(task, settings) for task in tasks]
    figures = {}
    for outcome in outcomes:
        name = outcome.task.name
        figures[f"{name}-predictions"] = prediction_figure(outcome.task, outcome.posteriors)
        figures[f"{name}-likelihood"] = likelihood_figure(outcome.task, outcome.log_likelihoods)
        figures[f"{name}-weights"] = weights_figure(outcome.task, outcome.posteriors[0])
    tables = {outcome.task.title.capitalize(): rows(outcome) for outcome in outcomes}
    return Lecture(
        "neural-network",
        "Bayesian neural networks",
        settings,
        [sentence for outcome in outcomes for sentence in findings(outcome)],
        tables,
        figures,
        {outcome.task.name: _record(outcome) for outcome in outcomes},
    )


def _solve(task: Task, settings: Settings) -> Outcome:
    density = open_density(task.network)
    fit = by_nuts(task, density, settings)
    hmc, hmc_log_likelihood = by_hmc(task, density, settings)
    log_likelihoods = {
        "NUTS": task.network.log_likelihood(fit.weights),
        "HMC": hmc_log_likelihood,
    }
    error = symmetry_error(task, density, fit)
    return Outcome(task, (fit, by_advi(task, settings), hmc), log_likelihoods, error)


def symmetry_error(task: Task, density: StanDensity, posterior: Posterior) -> float:
    """Return how much the log density differs between a draw and one of its copies."""
    draw = {name: values[0, -1] for name, values in posterior.weights.items()}
    empty = {name: np.zeros(shape) for name, shape in density.dims.items() if 0 in shape}
    pair = [
        density.unconstrain({**each, **empty}) for each in (draw, task.network.another_copy(draw))
    ]
    here, there = density.log_density(np.stack(pair))
    return float(abs(here - there))


def rows(outcome: Outcome) -> list[Row]:
    """Return a row a method: how well it predicts and how far it is from NUTS."""
    task = outcome.task
    reference = outcome.posteriors[0].bands(task.judged)
    table: list[Row] = []
    for posterior in outcome.posteriors:
        mean, epistemic, total = posterior.bands(task.judged)
        verdict = posterior.function_verdict(task.judged)
        table.append(
            {
                "method": posterior.method,
                "acceptance": posterior.acceptance,
                "error of the mean": float(np.sqrt(np.mean((mean - task.curve(task.judged)) ** 2))),
                "epistemic sd": float(epistemic.mean()),
                "total sd": float(total.mean()),
                "mean: off NUTS, in its sds": float(
                    (np.abs(mean - reference[0]) / reference[1]).max()
                ),
                "sd / NUTS sd": float(np.median(epistemic / reference[1])),
                "chains apart, in total sds": float(
                    (np.ptp(posterior.functions(task.judged).mean(axis=1), axis=0) / total).max()
                ),
                "R-hat of f": value(verdict, "R-hat"),
                "ESS of f": value(verdict, "bulk ESS"),
                "R-hat of weights": value(posterior.verdict, "R-hat"),
                "seconds": posterior.seconds,
            }
        )
    return table


def findings(outcome: Outcome) -> list[str]:
    """Say what each verdict is, and why."""
    task, network = outcome.task, outcome.task.network
    fit, approximation, hmc = rows(outcome)
    nuts, _, by_hand = outcome.posteriors
    return [
        _starts(task, nuts),
        f"{task.title}: NUTS's verdict on f, judged at {len(task.judged)} points among the data, "
        f"{_brief(nuts.function_verdict(task.judged))}; its verdict on the weights "
        f"{_brief(nuts.verdict)}, since each of their modes has {network.num_copies:,} copies, "
        "and chains rarely or never cross between them. Two copies of one draw differ by "
        f"{outcome.symmetry_error:.0e} in log density.",
        f"{task.title}: the means of f of NUTS's chains are at most "
        f"{fit['chains apart, in total sds']:.2f} total sds apart.",
        f"{task.title}: HMC with ε = {HMC_STEP:g}, L = {HMC_STEPS} accepts "
        f"{by_hand.acceptance:.0%} in its second half"
        f"{_too_long(by_hand.acceptance)}. It took {by_hand.gradients:,} gradients (NUTS "
        f"{nuts.gradients:,} after warm-up); its R-hat of f is {hmc['R-hat of f']:.2f}, its mean "
        f"is off NUTS's by up to {hmc['mean: off NUTS, in its sds']:.1f} posterior sds, its sd is "
        f"{hmc['sd / NUTS sd']:.2f} of NUTS's.",
        f"{task.title}: mean-field ADVI is off by up to "
        f"{approximation['mean: off NUTS, in its sds']:.1f} posterior sds, its sd is "
        f"{approximation['sd / NUTS sd']:.2f} of NUTS's: independent weights cannot follow a "
        "function's posterior.",
    ]


def _starts(task: Task, nuts: Posterior) -> str:
    """Say where NUTS's chains start, and how much that choice matters."""
    best, others = nuts.ascents[:, 0], nuts.ascents[:, 1:].ravel()
    heights = ", ".join(f"{height:.1f}" for height in np.sort(best))
    near = int((others > best.max() - NEAR).sum())
    return (
        f"{task.title}: each chain of NUTS starts from the best of {nuts.ascents.shape[1]} "
        f"ascents. The chains start at log densities {heights}; of "
        f"the other {others.size} ascents, whose median is {np.median(others):.1f}, {near} came "
        f"within {NEAR:g} of the best."
    )


def _too_long(acceptance: float) -> str:
    """Say what a low acceptance rate of HMC means: Neal (2011), section 5.4.4, asks for 0.65."""
    return ": ε is too long for this posterior, and chains get stuck" if acceptance < 0.4 else ""


def _brief(verdict: Part | None) -> str:
    """Say whether a verdict passes, and by which numbers it does not."""
    if verdict is None or verdict.passed:
        return "passes"
    return f"fails ({', '.join(f'{c.name} {format_number(c.value)}' for c in verdict.failed)})"


def _record(outcome: Outcome) -> dict[str, object]:
    return {
        "num_weights": outcome.task.network.num_weights,
        "num_copies": outcome.task.network.num_copies,
        "symmetry_error": outcome.symmetry_error,
        "ascents": outcome.posteriors[0].ascents,
        "verdicts": {
            posterior.method: {
                what: verdict.to_dict() if verdict else None
                for what, verdict in (
                    ("function", posterior.function_verdict(outcome.task.judged)),
                    ("weights", posterior.verdict),
                )
            }
            for posterior in outcome.posteriors
        },
        "mean_log_likelihood": {
            name: values.mean(axis=1) for name, values in outcome.log_likelihoods.items()
        },
    }
