"""PSIS-LOO, which says how well each model predicts an observation that it has not seen.

elpd_loo = Σ_n log p(y[n] | y without y[n]), each term estimated from the draws of one fit by
Pareto-smoothed importance sampling. Models of the same data are compared observation by
observation: the difference of two elpd has the standard error sqrt(N var_n(d[n])). Observations
whose k-hat is too large can be left out exactly instead, by refits. Stacking gives the weights of
a mixture of the models' predictive distributions that has the largest elpd.

References
----------
.. [1] Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC, Statistics and Computing 27(5), eqs. 10, 23 and 24.
.. [2] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72), for the threshold of k-hat, min(1 − 1/log10(S), 0.7).
.. [3] Sivula, Magnusson, Matamoros and Vehtari (2020), Uncertainty in Bayesian leave-one-out
   cross-validation based model comparison, arXiv:2008.10296: the standard error is unreliable when
   observations are few, about 100, or the difference is below 4.
.. [4] Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive
   distributions, Bayesian Analysis 13(3), eq. 4 and section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.compare.refits import predict_held_out
from pyflowers.convergence import good_k
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import LARGEST_GROUP, Fit, checked_fits
from pyflowers.fits.psis import held_out_weights
from pyflowers.programs import Capability

FEW_OBSERVATIONS = 100
SMALL_DIFFERENCE = 4.0
_MOST_STEPS = 10_000
_MOST_VALUES = 4_000_000  # pointwise likelihoods that are weighted at once


@dataclass(frozen=True)
class ModelLoo:
    """The PSIS-LOO results of one model.

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
    terms : array, shape (N,)
        Log predictive density of each observation.
    refitted : array of int
        Observations whose term comes from a refit without them, counted from 0.
    weight : float
        Its stacking weight; 1 for a single model.
    """

    name: str
    elpd: float
    se: float
    p_loo: float
    difference: float
    difference_se: float
    k_hat: NDArray[np.float64] = field(repr=False)
    good_k: float
    terms: NDArray[np.float64] = field(repr=False)
    refitted: NDArray[np.int64] = field(repr=False)
    weight: float

    @property
    def worst_k(self) -> float:
        """The largest k-hat."""
        return float(self.k_hat.max())

    @property
    def num_bad(self) -> int:
        """Observations whose k-hat is too large and that were not estimated by a refit."""
        return int((self.k_hat > self.good_k).sum()) - self.refitted.size


@dataclass(frozen=True, repr=False)
class LooComparison(Shown):
    """Models of the same data, the best first."""

    models: tuple[ModelLoo, ...]
    num_obs: int

    @property
    def best(self) -> ModelLoo:
        """The model with the largest elpd."""
        return self.models[0]

    def table(self) -> pd.DataFrame:
        """Return a row for each model, the best first."""
        rows = {
            model.name: {
                "elpd": model.elpd,
                "se": model.se,
                "difference": model.difference,
                "its se": model.difference_se,
                "p_loo": model.p_loo,
                "weight": model.weight,
                "worst k": model.worst_k,
                "refits": model.refitted.size,
            }
            for model in self.models
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")

    def contents(self) -> list[Line]:
        """Return the table and its limitations."""
        return [
            heading("elpd", f"one of {self.num_obs} observations left out at a time"),
            self.table(),
            *(f"note: {caution}" for caution in self.cautions),
        ]

    @property
    def cautions(self) -> list[str]:
        """Return the limitations of the comparison, a sentence each."""
        sentences = []
        if self.num_obs < FEW_OBSERVATIONS and len(self.models) > 1:
            sentences.append(
                f"{self.num_obs} observations are too few for this conclusion: below about "
                f"{FEW_OBSERVATIONS} the standard error of a difference is itself unreliable and "
                "most often too small (Sivula et al. 2020)."
            )
        close = [m.name for m in self.models[1:] if abs(m.difference) < SMALL_DIFFERENCE]
        if close:
            sentences.append(
                f"The difference to {' and '.join(close)} is below {SMALL_DIFFERENCE:g}: such "
                f"models predict about equally well."
            )
        sentences.extend(
            f"{m.name}: k-hat of {m.num_bad} of {self.num_obs} observations is above "
            f"{m.good_k:.2f}, so its elpd is an overestimate; pyflowers loo --refit fits again "
            "without each of them."
            for m in self.models
            if m.num_bad
        )
        return sentences


def compare_models(fits: Sequence[Fit], *, refit: bool = False) -> LooComparison:
    """Compare models of the same data by PSIS-LOO.

    Parameters
    ----------
    fits : sequence of Fit
        One for each model, all of the same data.
    refit : bool
        Whether to fit a model again without each observation whose k-hat is too large.

    Raises
    ------
    ConfigError
        If there is no fit, the data differ, two have one name, or the pointwise likelihood is too
        large to be held.
    PyflowersError
        If a refit does not finish.
    """
    fits = checked_comparable(fits)
    found = [_terms(fit, refit) for fit in fits]
    best = max(found, key=lambda terms: float(terms.elpd.sum())).elpd
    weights = stacking_weights(np.stack([terms.elpd for terms in found]))
    models = [
        ModelLoo(
            name=fit.name,
            elpd=float(terms.elpd.sum()),
            se=error_of_sum(terms.elpd),
            p_loo=float((terms.within - terms.elpd).sum()),
            difference=float((terms.elpd - best).sum()),
            difference_se=error_of_sum(terms.elpd - best),
            k_hat=terms.k_hat,
            good_k=terms.good_k,
            terms=terms.elpd,
            refitted=terms.refitted,
            weight=float(weight),
        )
        for fit, terms, weight in zip(fits, found, weights, strict=True)
    ]
    models.sort(key=lambda model: -model.elpd)
    return LooComparison(tuple(models), best.size)


def stacking_weights(elpd: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of the mixture of models that predicts best.

    They maximise Σ_n log Σ_k w_k p(y[n] | y without y[n], model k), which is concave, by the EM
    steps of a mixture's proportions: each step increases it.

    Parameters
    ----------
    elpd : array, shape (model, N)
        Each model's log predictive density of each observation.

    Returns
    -------
    array, shape (model,)
    """
    density = np.exp(elpd - elpd.max(0))
    weights = np.full(len(elpd), 1 / len(elpd))
    for _ in range(_MOST_STEPS):
        share = weights[:, None] * density
        new = (share / share.sum(0)).mean(1)
        if np.abs(new - weights).max() < 1e-10:
            break
        weights = new
    return weights


@dataclass(frozen=True)
class _Terms:
    """log p(y[n] | the others) of one model, and log p(y[n] | all) for comparison."""

    elpd: NDArray[np.float64]
    within: NDArray[np.float64]
    k_hat: NDArray[np.float64]
    good_k: float
    refitted: NDArray[np.int64]


def _terms(fit: Fit, refit: bool) -> _Terms:
    log_lik = fit.log_likelihood()
    num_obs, num_draws = log_lik.shape[-1], fit.num_chains * fit.num_draws
    elpd, k_hat, within = np.empty((3, num_obs))
    step = max(1, _MOST_VALUES // num_draws)
    for first in range(0, num_obs, step):
        rows = slice(first, first + step)
        log_weights, k_hat[rows] = held_out_weights(fit, log_lik[..., rows])
        by_row = np.moveaxis(log_lik[..., rows], -1, 0).reshape(log_weights.shape)
        elpd[rows] = np.logaddexp.reduce(log_weights + by_row, axis=1)
        within[rows] = np.logaddexp.reduce(by_row, axis=1) - np.log(num_draws)
    limit = good_k(num_draws)
    bad = np.flatnonzero(k_hat > limit) if refit else np.empty(0, np.int64)
    if bad.size:
        elpd[bad] = [
            found.elpd for found in predict_held_out(fit, [bad[[i]] for i in range(bad.size)])
        ]
    return _Terms(elpd, within, k_hat, limit, bad)


def error_of_sum(terms: NDArray[np.float64]) -> float:
    """Return the standard error of the sum of independent terms, eq. 23."""
    return float(np.sqrt(terms.size * terms.var()))


def checked_comparable(fits: Iterable[Fit]) -> list[Fit]:
    """Return fits as a list; refuse those whose predictions cannot be compared.

    Raises
    ------
    ConfigError
        If there is no fit, the data differ, two have one name, or the pointwise likelihood is too
        large to be held.
    """
    fits = checked_fits(fits, "PSIS-LOO")
    if not fits:
        raise ConfigError("PSIS-LOO: there is no fit to compare; give at least one")
    for fit in fits:
        fit.program.require(Capability.LOG_LIK)
        if not fit.data.describes_same(fits[0].data):
            raise ConfigError(
                f"PSIS-LOO: {fit.name} and {fits[0].name} were fitted to different data, so "
                "their elpd cannot be compared; fit both to the same table"
            )
        if fit.num_predictions > LARGEST_GROUP:
            raise ConfigError(
                f"PSIS-LOO: {fit.num_predictions} pointwise likelihoods are more than "
                f"{LARGEST_GROUP}; keep fewer draws with --draws"
            )
    names = [fit.name for fit in fits]
    if len(set(names)) < len(names):
        raise ConfigError("PSIS-LOO: a model appears twice; give each once")
    return fits
