"""How far weighted draws are from the same draws without weights: cumulative Jensen–Shannon.

With P and Q the distribution functions of the draws and of the weighted draws,

    CJS(P ‖ Q) = ∫ P log2(2 P / (P + Q)) dx + (1 / (2 ln 2)) ∫ (Q − P) dx,
    D(P, Q)² = (CJS(P ‖ Q) + CJS(Q ‖ P)) / ∫ (P + Q) dx,

the integrals over the range of the draws. D is between 0 and 1. It differs between x and −x, whose
distribution functions are 1 − P; the larger of the two counts.

References
----------
.. [1] Nguyen and Vreeken (2015), Non-parametric Jensen–Shannon divergence, ECML PKDD 2015, section
   3, for CJS and its bound.
.. [2] Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and
   likelihood sensitivity with power-scaling, Statistics and Computing 34, 57, section 2.3.1 and
   appendix on the divergence, for its use here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def cumulative_jensen_shannon(ascending: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the distance between draws and weighted draws, for each quantity.

    Parameters
    ----------
    ascending : array, shape (S, E)
        Draws of each of E quantities in ascending order.
    weights : array, shape (S, E)
        The weights of these draws in the same order; those of a quantity sum to 1.

    Returns
    -------
    array, shape (E,)
        D(P, Q), 0 for a quantity that does not vary.
    """
    num = len(ascending)
    widths = np.diff(ascending, axis=0)
    p = np.arange(1, num)[:, None] / num
    q = np.minimum(np.cumsum(weights, axis=0)[:-1], 1.0)
    # From above, so that the upper tail has its full precision.
    q_above = np.minimum(np.cumsum(weights[::-1], axis=0)[:-1][::-1], 1.0)
    return np.maximum(_distance(p, q, widths), _distance(1 - p, q_above, widths))


def _distance(p: FloatArray, q: FloatArray, widths: FloatArray) -> FloatArray:
    """Return D for distribution functions that are constant between draws."""
    middle = (p + q) / 2
    divergence = (widths * (_relative(p, middle) + _relative(q, middle))).sum(axis=0)
    bound = (widths * (p + q)).sum(axis=0)
    # The terms in ∫ (Q − P) of the two directions cancel.
    with np.errstate(invalid="ignore"):
        squared = np.where(bound > 0, divergence / bound, 0.0)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def _relative(p: FloatArray, middle: FloatArray) -> FloatArray:
    """Return p log2(p / middle), which is 0 at p = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log2(p / middle), 0.0)
