"""Draws of a posterior whose prior or likelihood is raised to a power, by importance sampling.

With p(θ | y) ∝ p(y | θ) p(θ), scaling a component c by the power alpha gives the importance ratios
c(θ)^(alpha − 1): prior p(θ), or likelihood p(y | θ). The ratios are Pareto smoothed.

References
----------
.. [1] Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and
   likelihood sensitivity with power-scaling, Statistics and Computing 34, 57,
   doi 10.1007/s11222-023-10366-5: sections 2.1 (power-scaling) and 2.2 (importance ratios).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyflowers.convergence import good_k, pareto_smooth

FloatArray = NDArray[np.float64]

LOCAL = (0.99, 1.01)
"""Powers from which distances and changes per doubling are computed: a derivative at 1."""

SHOWN = (0.8, 1.25)
"""Powers at which the conclusions themselves are shown: far enough for a reader to see a move."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """One component of the posterior, scaled by several powers.

    Attributes
    ----------
    component : str
        ``prior`` or ``likelihood``.
    weights : mapping of float to array, shape (S,)
        Weights of the draws by the power; only of powers whose k-hat is good.
    k_hat : mapping of float to float
        Pareto shape by the power; NaN where the component is constant, so that all weights are
        equal.
    limit : float
        The k-hat up to which weights can be trusted.
    refusal : str
        Why this component cannot be scaled; empty if it can.
    """

    component: str
    weights: Mapping[float, FloatArray]
    k_hat: Mapping[float, float]
    limit: float
    refusal: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether the component is the same in every draw, as a flat prior is."""
        return not self.refusal and all(np.isnan(k) for k in self.k_hat.values())

    @property
    def worst_k(self) -> float:
        """The larger k-hat of the two powers of the derivative."""
        return max((self.k_hat[alpha] for alpha in LOCAL if alpha in self.k_hat), default=np.nan)


def power_scale(
    component: str, log_density: FloatArray, alphas: Sequence[float] = (*LOCAL, *SHOWN)
) -> Scaled:
    """Weight draws as if a component of their posterior had been raised to a power.

    Parameters
    ----------
    component : str
        ``prior`` or ``likelihood``.
    log_density : array, shape (S,)
        Its logarithm at each draw, up to a constant.
    alphas : sequence of float
        The powers.

    Returns
    -------
    Scaled
        With a refusal where the log density is not finite, or k-hat at 0.99 or 1.01 is too large.
    """
    limit = good_k(log_density.size)
    odd = int(np.count_nonzero(~np.isfinite(log_density)))
    if odd:
        why = f"the log {component} is not finite in {odd} of {log_density.size} draws"
        remedy = "correct what computes it, or give priors that keep those draws finite"
        return Scaled(component, {}, {}, limit, f"{why}; {remedy}")
    spread = float(np.ptp(log_density))
    if spread <= 1e-10 * max(1.0, float(np.abs(log_density).max())):
        equal = np.full(log_density.size, 1 / log_density.size)
        return Scaled(component, dict.fromkeys(alphas, equal), dict.fromkeys(alphas, np.nan), limit)
    powers = np.asarray(alphas)
    log_weights, k_hat = pareto_smooth((powers[:, None] - 1) * log_density)
    by_power = dict(zip(alphas, map(float, k_hat), strict=True))
    weights = {
        alpha: np.exp(row)
        for alpha, row in zip(alphas, log_weights, strict=True)
        if by_power[alpha] <= limit
    }
    worst = max(by_power[alpha] for alpha in LOCAL)
    refusal = (
        f"the largest k-hat is {worst:.2f} and must be at most {limit:.2f}, so importance "
        "weights cannot say what a scaled posterior is; take more draws, or fit again with other "
        "priors and compare"
        if worst > limit
        else ""
    )
    return Scaled(component, weights, by_power, limit, refusal)
