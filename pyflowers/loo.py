"""PSIS-LOO, which says how well each model predicts an observation that it has not seen.

elpd_loo = Σ_n log p(y[n] | y without y[n]), each term estimated from the draws of one fit by
Pareto-smoothed importance sampling. Models of the same data are compared observation by
observation: the difference of two elpd has the standard error sqrt(N var_n(d[n])).

References
----------
.. [1] Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC, Statistics and Computing 27(5), eqs. 10, 23 and 24.
.. [2] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72), for the threshold of k-hat, min(1 − 1/log10(S), 0.7).
.. [3] Sivula, Magnusson, Matamoros and Vehtari (2020), Uncertainty in Bayesian leave-one-out
   cross-validation based model comparison, arXiv:2008.10296: the standard error is unreliable when
   observations are few, about 100, or the difference is below 4.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.fitting import LARGEST_GROUP, Fit
from pyflowers.inference_data import arviz

FEW_OBSERVATIONS = 100
SMALL_DIFFERENCE = 4.0


@dataclass(frozen=True)
class ModelLoo:
    """What PSIS-LOO says of one model.

    Attributes
    ----------
    name : str
        The model.
    elpd, se : float
        Expected log pointwise predictive density, and its standard error.
    p_loo : float
        Effective number of parameters.
    difference, difference_se : float
        elpd minus that of the best model, at most 0, and its standard error.
    k_hat : array, shape (N,)
        Pareto shape of each observation's importance weights.
    good_k : float
        The k-hat up to which the estimate can be trusted.
    """

    name: str
    elpd: float
    se: float
    p_loo: float
    difference: float
    difference_se: float
    k_hat: NDArray[np.float64]
    good_k: float

    @property
    def worst_k(self) -> float:
        """The largest k-hat."""
        return float(self.k_hat.max())

    @property
    def num_bad(self) -> int:
        """Observations whose k-hat is too large."""
        return int((self.k_hat > self.good_k).sum())


@dataclass(frozen=True)
class LooComparison:
    """Models of the same data, the best first."""

    models: tuple[ModelLoo, ...]
    num_obs: int

    @property
    def best(self) -> ModelLoo:
        """The model with the largest elpd."""
        return self.models[0]

    @property
    def cautions(self) -> list[str]:
        """Return what keeps the comparison from carrying a conclusion, a sentence each."""
        said = []
        if self.num_obs < FEW_OBSERVATIONS and len(self.models) > 1:
            said.append(
                f"{self.num_obs} observations cannot carry this conclusion: below about "
                f"{FEW_OBSERVATIONS} the standard error of a difference is itself unreliable and "
                "most often too small (Sivula et al. 2020)."
            )
        close = [m.name for m in self.models[1:] if abs(m.difference) < SMALL_DIFFERENCE]
        if close:
            said.append(
                f"The difference to {' and '.join(close)} is below {SMALL_DIFFERENCE:g}: such "
                f"models predict about equally well."
            )
        said.extend(
            f"{m.name}: k-hat of {m.num_bad} of {self.num_obs} observations is above "
            f"{m.good_k:.2f}, so that its elpd is an overestimate; refit without these "
            "observations to know it."
            for m in self.models
            if m.num_bad
        )
        return said


def compare_models(fits: Sequence[Fit]) -> LooComparison:
    """Compare models of the same data by PSIS-LOO.

    Parameters
    ----------
    fits : sequence of Fit
        One for each model, all of the same data.

    Raises
    ------
    ConfigError
        If there is no fit, the data differ, two have one name, or the pointwise likelihood is too
        large to be held.
    """
    if not fits:
        raise ConfigError("PSIS-LOO: there is no fit to compare; give at least one")
    _check_comparable(fits)
    found = [_loo(fit) for fit in fits]
    best = max(range(len(found)), key=lambda i: found[i].elpd_loo)
    pointwise = [np.asarray(loo.loo_i.values, dtype=np.float64) for loo in found]
    models = []
    for fit, loo, terms in zip(fits, found, pointwise, strict=True):
        apart = terms - pointwise[best]
        models.append(
            ModelLoo(
                name=fit.name,
                elpd=float(loo.elpd_loo),
                se=float(loo.se),
                p_loo=float(loo.p_loo),
                difference=float(apart.sum()),
                difference_se=float(np.sqrt(apart.size * apart.var())),
                k_hat=np.asarray(loo.pareto_k.values, dtype=np.float64),
                good_k=float(loo.good_k),
            )
        )
    models.sort(key=lambda model: -model.elpd)
    return LooComparison(tuple(models), len(pointwise[0]))


def _check_comparable(fits: Sequence[Fit]) -> None:
    for fit in fits:
        if fit.data is None:
            raise ConfigError(f"PSIS-LOO: {fit.name} is your own program, without data to compare")
        if fit.data.sha256 != fits[0].data.sha256:  # type: ignore[union-attr]
            raise ConfigError(
                f"PSIS-LOO: {fit.name} and {fits[0].name} were fitted to different data, which "
                "makes their elpd incomparable; fit both to one table"
            )
        if fit.num_predictions > LARGEST_GROUP:
            raise ConfigError(
                f"PSIS-LOO: {fit.num_predictions} pointwise likelihoods are more than "
                f"{LARGEST_GROUP}; keep fewer draws with --draws"
            )
    names = [fit.name for fit in fits]
    if len(set(names)) < len(names):
        raise ConfigError("PSIS-LOO: a model stands twice; give each once")


def _loo(fit: Fit) -> Any:
    with warnings.catch_warnings():
        # ArviZ warns of a large k-hat; here that is a value, and LooComparison.cautions says it.
        warnings.filterwarnings("ignore", message="Estimated shape parameter", category=UserWarning)
        return arviz().loo(fit.idata, pointwise=True)
