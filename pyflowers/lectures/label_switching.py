"""Label switching in mixtures: explained, detected, and undone where that is possible.

A mixture's density stays the same when its components swap numbers, and so does a posterior under
exchangeable priors: it has K! copies of every mode. The mean of component 1 over all of them is the
mean of *any* component. A chain that stays in one copy looks converged; two chains in two copies
disagree in everything that has a component's number, and agree in everything that has none, such as
the density of y. That is the signature that :func:`detect` looks for: R-hat fails on labelled
quantities and passes once each draw's components are sorted by their means.

Sorting is enough where the components are well apart in their means. Where they overlap it cuts
modes in two, and quantities without labels are what remains ([1]_, section 3).

References
----------
.. [1] Jasra, Holmes and Stephens (2005), Markov chain Monte Carlo methods and the label switching
   problem in Bayesian mixture modeling, Statistical Science 20(1), 50–67.
.. [2] Stephens (2000), Dealing with label switching in mixture models, JRSS B 62(4), 795–809.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyflowers.fits.diagnostics import R_HAT_AT_MOST
from pyflowers.lectures.measures import FloatArray, largest_r_hat


@dataclass(frozen=True)
class LabelSwitching:
    """Whether and how the labels of a mixture's components switched.

    Attributes
    ----------
    orders : tuple of tuples of int
        The distinct orders of the components by their means, the most frequent first, as
        components counted from 1 in increasing order of mean.
    switched : float
        The part of the draws whose order is not the most frequent one.
    within_chains : int
        How often a chain changed its order from one draw to the next.
    r_hat, r_hat_sorted : float
        The largest R-hat of the components' means, as labelled and sorted.
    """

    orders: tuple[tuple[int, ...], ...]
    switched: float
    within_chains: int
    r_hat: float
    r_hat_sorted: float

    @property
    def detected(self) -> bool:
        """Whether labels explain what R-hat finds: it fails as labelled and passes sorted."""
        return self.switched > 0 and self.r_hat_sorted <= R_HAT_AT_MOST < self.r_hat

    def __str__(self) -> str:
        if self.detected:
            return (
                f"label switching: {len(self.orders)} orders of the components among the draws; "
                f"R-hat {self.r_hat:.2f} as labelled, {self.r_hat_sorted:.3f} once sorted"
            )
        if self.r_hat > R_HAT_AT_MOST:
            return (
                f"no convergence that labels explain: R-hat {self.r_hat:.2f} as labelled and "
                f"{self.r_hat_sorted:.2f} once sorted"
            )
        return f"no label switching: R-hat {self.r_hat:.3f} as labelled"


def detect(means: FloatArray) -> LabelSwitching:
    """Look for label switching in draws of the components' means.

    Parameters
    ----------
    means : array, shape (chain, draw, K)
    """
    order = np.argsort(means, axis=-1) + 1
    distinct, index, counts = np.unique(
        order.reshape(-1, means.shape[-1]), axis=0, return_inverse=True, return_counts=True
    )
    by_chain = index.reshape(means.shape[:2])
    by_frequency = [tuple(map(int, distinct[i])) for i in np.argsort(-counts)]
    return LabelSwitching(
        tuple(by_frequency),
        float(1 - counts.max() / counts.sum()),
        int((np.diff(by_chain, axis=1) != 0).sum()),
        _r_hat(means),
        _r_hat(np.sort(means, axis=-1)),
    )


def _r_hat(means: FloatArray) -> float:
    return largest_r_hat({str(k): means[..., k] for k in range(means.shape[-1])})
