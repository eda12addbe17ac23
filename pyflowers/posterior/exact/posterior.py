"""The interface of every exact posterior, and its distance to an approximation."""

from collections.abc import Mapping
from typing import Protocol

import numpy.typing as npt

from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.results import VBResult


class ExactPosterior(Protocol):
    """A posterior by quadrature; a parameter is one number or one a plant, shape () or (P,)."""

    names: tuple[str, ...]
    log_evidence: float

    @property
    def missing_moments(self) -> Mapping[tuple[str, str], str]:
        """Why a moment does not exist, by (name, "mean" or "sd")."""

    def mean(self, name: str) -> FloatArray:
        """Posterior mean, nan where it does not exist."""

    def sd(self, name: str) -> FloatArray:
        """Posterior standard deviation, nan where it does not exist."""

    def quantile(self, name: str, p: npt.ArrayLike) -> FloatArray:
        """Posterior quantiles, shape (*shape of p, *shape of the parameter)."""

    def marginal(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return a grid and the marginal density on it, shape (*shape of the parameter, G)."""


def kl_divergence(q: VBResult, posterior: ExactPosterior) -> float:
    """KL(q ‖ posterior) = log evidence - ELBO, exact to rounding, for one data set and prior.

    Both must be of the same model, data and prior; Bishop (2006), eq. 10.2.
    """
    return posterior.log_evidence - float(q.elbo)
