"""elpd: how well a model predicts an observation, or a group, that it has not seen.

elpd_loo = Σ_n log p(y[n] | y without y[n]), where each term is estimated from the draws of one fit
by Pareto-smoothed importance sampling. Models of the same data are compared observation by
observation: a difference in elpd has the standard error sqrt(N var_n(d[n])). If the k-hat of an
observation is too large, its term can be computed by a refit instead. Stacking finds the weights
for which the mixture of the models' predictive distributions has the largest elpd.

elpd has a Monte Carlo error. To first order, draw s, with weight w[n, s], changes term n by

    w[n, s] (p(y[n] | draw s) / p(y[n] | y without y[n]) − 1).

The squares of these changes sum to the variance of an importance-sampling estimate ([2]_, section
2.3). All terms are computed from the same draws, so the changes are added up over n before they are
squared, and their effective sample size replaces the number of draws. The errors of refits are
added as if they were independent, although the refits share the draws of the full fit.

Densities and probabilities have no common scale: a density may exceed 1. If models of integers are
compared with models of real numbers, the latter predict the rounded response: their elpd uses
P(y[n] − 1/2 < y < y[n] + 1/2 | y without y[n]), integrated by Gauss-Legendre quadrature.

Leave-one-group-out tests the population distribution of a multilevel model: it measures how well
the model predicts a new plant, not one more month of a known plant [5]_. elpd = Σ_g log p(y_g | y
without group g), where y_g is all observations of group g; the parameters of the new group are
integrated over the population. Each term comes from a refit. Importance sampling from the full fit
does not work here, because the posterior of a group's parameters is entirely different without the
group.

The engine ``exact`` integrates the effects of a group out. In its fits of formulas, the densities
of single observations and of whole groups are conditional on all other quantities, with these
effects integrated out; see :mod:`pyflowers.engines.integrated.held_out`. Importance weights can
then be trusted in both cases, so only groups with a large k-hat are refitted.

The standard error is computed over groups, as sqrt(G var_g), since groups are the sampling units.

References
----------
.. [1] Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC, Statistics and Computing 27(5), eqs. 10, 23 and 24; the glossary of
   their R package loo for the meaning of a p_loo above the number of parameters.
.. [2] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR
   25(72), for the threshold of k-hat, min(1 − 1/log10(S), 0.7).
.. [3] Sivula, Magnusson, Matamoros and Vehtari (2020), Uncertainty in Bayesian leave-one-out
   cross-validation based model comparison, arXiv:2008.10296: the standard error is unreliable when
   observations are few, about 100 or fewer, or the difference is below 4.
.. [4] Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive
   distributions, Bayesian Analysis 13(3), eq. 4 and section 3.1.
.. [5] Merkle, Furr and Rabe-Hesketh (2019), Bayesian comparison of latent variable models,
   Psychometrika 84(3), for the density of a new cluster with its parameters integrated out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import is_in_shell
from pyflowers.analysis.explained_variance import Explained, explained
from pyflowers.analysis.refits import HeldOutDensity, predict_held_out
from pyflowers.convergence import ess_mean, good_k
from pyflowers.cores import usable_cores
from pyflowers.data import Labels
from pyflowers.display import Line, Result, heading, in_file
from pyflowers.errors import ConfigError, PyflowersError
from pyflowers.fits.fit import (
    Fit,
    checked_fits,
    held_out_weights,
    model_names,
    refuse_same_names,
)
from pyflowers.fits.posterior import element_names
from pyflowers.programs import Capability
from pyflowers.progress import duration, stage
from pyflowers.text import counted, in_words, shortened

if TYPE_CHECKING:
    from pyflowers.engines.integrated.held_out import HeldOut

FEW_OBSERVATIONS = 100
SMALL_DIFFERENCE = 4.0

MOST_REFITS = 10
"""If more observations than this have a large k-hat, folds need fewer refits."""
AGAIN = (
    "refits use the options of the fit, so repeat the fit with more warm-up and draws, or with a "
    "larger adapt_delta"
)
FEW_GROUPS = 20
"""The number of groups below which a standard error over groups is unreliable."""

LARGE_ERROR = 0.5
"""The Monte Carlo standard error of an elpd above which a caution is given."""

_MOST_STEPS = 10_000
_MOST_VALUES = 4_000_000  # the most pointwise likelihoods in memory at a time
_NODES_OF_HALF = 24  # Gauss-Legendre nodes in each half of the interval y ± 0.5


_CHECK = {True: "pyflowers check", False: "pyflowers.check"}
_REFIT = {True: "pyflowers loo --refit", False: "pyflowers.loo with refit=True"}
_FOLDS = {
    True: f"pyflowers loo --folds {MOST_REFITS}",
    False: f"pyflowers.k_fold with {MOST_REFITS} folds",
}
"""The commands or calls in notes, by whether the caller is a shell command."""


@dataclass(frozen=True, kw_only=True)
class ModelElpd:
    """How well one model predicts observations or groups that it has not seen.

    Attributes
    ----------
    name : str
        The name of the model.
    elpd, se : float
        Expected log predictive density, the sum of `terms`, and its standard error, which is due
        to the finite number of observations or groups.
    difference, difference_se : float
        elpd minus the elpd of the best model, at most 0, and its standard error.
    terms : array
        Log predictive density of each observation, or of each group as a whole.
    mcse : float or array
        Monte Carlo standard error of elpd, or of each term: the error due to the finite number of
        draws.
    """

    name: str
    elpd: float
    se: float
    difference: float
    difference_se: float
    terms: NDArray[np.float64] = field(repr=False)
    mcse: float | NDArray[np.float64] = field(repr=False)

    @property
    def total_mcse(self) -> float:
        """The Monte Carlo standard error of elpd."""
        return float(np.sqrt(np.sum(np.square(self.mcse))))

    @property
    def columns(self) -> dict[str, float]:
        """The additional columns of the table, which depend on the kind of comparison."""
        return {"refits": self.terms.size}

    def of_failed(self, failed: Sequence[object], num: int, left_out: str = "") -> list[str]:
        """Return the caution that some of `num` refits failed, with the units they left out."""
        if not failed:
            return []
        return [
            f"{self.name}: {len(failed)} of {num} refits failed their diagnostics (without "
            f"{left_out}{shortened(list(map(str, failed)))}); {AGAIN}."
        ]

    def of_error(self) -> list[str]:
        """Return the caution that the refits have too few draws."""
        if self.total_mcse <= LARGE_ERROR:
            return []
        return [
            f"{self.name}: its elpd has a Monte Carlo standard error of {self.total_mcse:.2g}; "
            "refit the model with more draws to reduce this error."
        ]


@dataclass(frozen=True, repr=False)
class ElpdComparison(Result):
    """Models of the same data, best first."""

    holds: ClassVar[str] = "loo"

    models: tuple[ModelElpd, ...]
    called: Mapping[str, tuple[str, str]] = field(default_factory=dict, kw_only=True)
    dependent: tuple[str, ...] = field(default=(), kw_only=True)
    """The models in which the density of a row is conditional on the rows before it."""

    @property
    def best(self) -> ModelElpd:
        """The model with the largest elpd."""
        return self.models[0]

    @property
    def left_out(self) -> str:
        """The units that are left out, in words."""
        raise NotImplementedError

    @property
    def cautions(self) -> list[str]:
        """The limitations of the comparison, one sentence each."""
        raise NotImplementedError

    def of_few(self, num: int, *, is_of_groups: bool) -> list[str]:
        """Return the caution that there are too few observations or groups for a comparison."""
        if len(self.models) < 2:
            return []
        if is_of_groups and num < FEW_GROUPS:
            return [
                f"With {num} groups, the standard error of a difference is itself unreliable; "
                f"compare the models on {FEW_GROUPS} or more groups."
            ]
        if not is_of_groups and num < FEW_OBSERVATIONS:
            return [
                f"{num} observations are too few for a reliable comparison: with fewer than about "
                f"{FEW_OBSERVATIONS}, the standard error of a difference is itself unreliable and "
                "usually too small (Sivula et al. 2020)."
            ]
        return []

    def of_dependent(self) -> list[str]:
        """Return the caution that rows are predicted from the rows before them."""
        if not self.dependent:
            return []
        return [
            f"In {in_words(self.dependent)}, the elpd of a row is conditional on the rows before "
            "it in its series or unit, not on all other rows, which usually makes it smaller; a "
            "model without ar() or cosy() that ranks higher may not predict better."
        ]

    def of_close(self) -> list[str]:
        """Return the note on models that predict about as well as the best."""
        close = [each.name for each in self.models[1:] if abs(each.difference) < SMALL_DIFFERENCE]
        if not close:
            return []
        return [
            f"The difference from {in_words(close)} is below {SMALL_DIFFERENCE:g}: such models "
            "predict about equally well."
        ]

    def table(self) -> pd.DataFrame:
        """Return a table with a row for each model, best first."""
        rows = {
            model.name: {
                "elpd": model.elpd,
                "se": model.se,
                "mcse": model.total_mcse,
                "difference": model.difference,
                "its se": model.difference_se,
                **model.columns,
            }
            for model in self.models
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")

    def contents(self) -> list[Line]:
        """Return the models, the table, and the limitations of the comparison."""
        notes = (f"note: {caution}" for caution in self.cautions)
        table = self.table().drop(columns="mcse")
        if len(self.models) == 1:  # nothing is compared
            table = table.drop(columns=["difference", "its se", "weight"], errors="ignore")
        if not table["refits"].any():
            table = table.drop(columns="refits")
        names = [
            f"{name}: {formula} ({family})"
            for name, (formula, family) in self.called.items()
            if name != formula
        ]
        return [
            heading("elpd", f"one of {self.left_out}"),
            *names,
            in_file(table, "loo.csv"),
            *notes,
        ]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the table by the name of its file."""
        return {"loo.csv": self.table()}

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, for JSON."""
        rows = self.table().to_dict(orient="index")
        models = {
            model.name: {**rows[model.name], **self._terms_of(model)} for model in self.models
        }
        for name, (formula, family) in self.called.items():
            if name != formula:
                models[name] |= {"formula": formula, "family": family}
        return {**self._compared, "models": models, "cautions": self.cautions}

    @property
    def _compared(self) -> dict[str, Any]:
        """The observations or groups that are compared, for JSON."""
        raise NotImplementedError

    def _terms_of(self, model: Any) -> dict[str, Any]:
        """Return the elpd of each observation or group, for JSON."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ModelLoo(ModelElpd):
    """The PSIS-LOO results of one model.

    Attributes
    ----------
    name : str
        The name of the model.
    elpd, se : float
        Expected log predictive density, the sum of `terms`, in nats, and its standard error.
    difference, difference_se : float
        elpd minus the elpd of the best model, at most 0, and its standard error.
    terms : array, shape (N,)
        Log predictive density of each observation given the others.
    mcse : float
        Monte Carlo standard error of elpd: the error due to the finite number of draws. NaN if a
        k-hat is too large and the term of its observation does not come from a refit.
    p_loo, p_loo_se : float
        Effective number of parameters, and its standard error.
    num_parameters : int
        Number of scalar parameters of the program or, if the draws of some parameters were not
        kept, number of elements of all quantities.
    k_hat : array, shape (N,)
        Pareto shape of each observation's importance weights.
    good_k : float
        The k-hat up to which the estimate can be trusted.
    refitted : array of int
        Observations whose term comes from a refit without them, counted from 0.
    failed : tuple of str
        Observations in `refitted` whose refit failed its diagnostics, such as ``row 2``.
    no_refit : str
        Why observations with a large k-hat were not left out by refits although refits were
        requested.
    weight : float
        Stacking weight of the model; 1 for a single model.
    passed : bool
        Whether the fit passed its diagnostics.
    seconds : float
        Expected time of a refit.
    num_integrated : int
        How many of the parameters are effects that are integrated out, so that they do not make
        k-hat large.

    See Also
    --------
    pyflowers.loo : Compare models by PSIS-LOO.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> model = pyflowers.loo(fit).best
    >>> round(model.elpd), round(model.p_loo)
    (-26, 2)
    >>> bool(model.worst_k < model.good_k)
    True
    """

    mcse: float
    p_loo: float
    p_loo_se: float
    num_parameters: int
    k_hat: NDArray[np.float64] = field(repr=False)
    good_k: float
    refitted: NDArray[np.int64] = field(repr=False)
    failed: tuple[str, ...] = field(repr=False)
    no_refit: str
    weight: float
    passed: bool
    seconds: float = 0.0
    num_integrated: int = 0

    @property
    def refit_time(self) -> str:
        """The expected time of the refits for observations whose k-hat is too large, in words."""
        return duration(self.num_bad * self.seconds)

    @property
    def worst_k(self) -> float:
        """The largest k-hat."""
        return float(np.fmax.reduce(self.k_hat))

    @property
    def num_bad(self) -> int:
        """The number of observations with a k-hat that is too large and no term from a refit."""
        return int((self.k_hat > self.good_k).sum()) - self.refitted.size

    @property
    def columns(self) -> dict[str, float]:
        """The additional columns of the table."""
        own = {"p_loo": self.p_loo, "weight": self.weight, "worst k": self.worst_k}
        return {**own, "refits": self.refitted.size}


@dataclass(frozen=True, repr=False)
class LooComparison(ElpdComparison):
    """Models of the same data, compared by PSIS-LOO.

    Attributes
    ----------
    models : tuple of ModelLoo
        The models, best first.
    num_obs : int
        Number of observations that are compared.
    num_fitted : mapping of str to int
        Number of observations that each model was fitted to, by the name of the model.
    rounded : tuple of str
        Models of real numbers that are compared by the probability of the rounded response.
    weighted : tuple of str
        Models whose weights multiply the log likelihood.
    explained : Explained or None
        How much of the variance the models explain; None unless it was requested.
    called : mapping of str to tuple of str
        The formula or program of each model, and its family, by the model's name in tables.
    dependent : tuple of str
        Models in which the distribution of a row depends on other rows.

    See Also
    --------
    pyflowers.loo : Compare models by PSIS-LOO.
    pyflowers.plots.elpd_differences : Draw the differences.

    Examples
    --------
    >>> import pyflowers
    >>> counts = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> normal = pyflowers.fit("multilevel_normal", seed=1, engine="exact")
    >>> found = pyflowers.loo([counts, normal])
    >>> found.best.name
    'multilevel_poisson'
    >>> found.cautions[1]
    '12 observations are too few for a reliable comparison: ...'
    """

    models: tuple[ModelLoo, ...]
    num_obs: int
    num_fitted: Mapping[str, int]
    rounded: tuple[str, ...] = ()
    weighted: tuple[str, ...] = ()
    explained: Explained | None = None

    def contents(self) -> list[Line]:
        """Return the table, its limitations, and how much of the variance the models explain."""
        if self.explained is None:
            return super().contents()
        return [*super().contents(), *self.explained.contents()]

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the tables by file name."""
        if self.explained is None:
            return super().files()
        return {**super().files(), **self.explained.files()}

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, for JSON."""
        if self.explained is None:
            return super().to_dict()
        return {**super().to_dict(), **self.explained.to_dict()}

    @property
    def _compared(self) -> dict[str, Any]:
        return {"observations": self.num_obs, "fitted": dict(self.num_fitted)}

    def _terms_of(self, model: ModelLoo) -> dict[str, Any]:
        return {"refitted": model.refitted + 1, "k_hat": model.k_hat, "terms": model.terms}

    @property
    def left_out(self) -> str:
        """The units that are left out, in words."""
        return f"{self.num_obs} observations left out at a time"

    @property
    def cautions(self) -> list[str]:
        """The limitations of the comparison, one sentence each."""
        best, *others = self.models
        noisy = [m.name for m in others if abs(m.difference) < 2 * np.hypot(m.mcse, best.mcse)]
        fitted = ", ".join(f"{name} to {num}" for name, num in self.num_fitted.items())
        of_all = (
            (
                bool(self.rounded),
                f"The elpd of {in_words(self.rounded)} is computed from probabilities of "
                "the rounded response, y ± 0.5, because a density cannot be compared with the "
                "probability of an integer.",
            ),
            (
                bool(self.weighted),
                f"In {in_words(self.weighted)}, weights multiply the log likelihood of each row, "
                "so a row is left out together with all observations that it represents; compare "
                "only models that have the same weights.",
            ),
            (
                max(self.num_fitted.values()) > self.num_obs,
                f"The models are compared on the {self.num_obs} rows that all of them were fitted "
                f"to ({fitted}); for a comparison on equal terms, fit them to the same rows.",
            ),
        )
        sentences = [sentence for applies, sentence in of_all if applies] + self.of_dependent()
        sentences += [*self.of_few(self.num_obs, is_of_groups=False), *self.of_close()]
        if noisy:
            sentences.append(
                f"The difference from {in_words(noisy)} is within its Monte Carlo error, so "
                "other draws may rank these models differently: refit them with more draws."
            )
        return sentences + [each for model in self.models for each in self._of_model(model)]

    def _of_model(self, model: ModelLoo) -> list[str]:
        """Return the limitations of one model's estimate, and what they show about the model."""
        name, num = model.name, model.num_parameters
        sentences = []
        if not model.passed:
            sentences.append(
                f"{name}: the fit failed its diagnostics, so its elpd cannot be trusted; see "
                f"{_CHECK[is_in_shell()]}, and refit the model."
            )
        if model.num_bad:
            remedy = model.no_refit or (
                f"{_REFIT[is_in_shell()]} refits the model without each of them "
                f"({counted(model.num_bad, 'refit')}, about {model.refit_time})"
            )
            if model.num_bad > MOST_REFITS and not model.no_refit:
                remedy = (
                    f"{_FOLDS[is_in_shell()]} needs {MOST_REFITS} refits (about "
                    f"{duration(MOST_REFITS * model.seconds)}) instead of the {model.num_bad} "
                    f"that {_REFIT[is_in_shell()]} needs"
                )
            sentences.append(
                f"{name}: k-hat of {model.num_bad} of {self.num_obs} observations is above "
                f"{model.good_k:.2f}, so the model's elpd is likely too high; {remedy}. "
                "This concerns LOO only, not estimates and effects."
            )
        sentences += model.of_failed(model.failed, model.refitted.size)
        # The limit allows for the standard error: for a good model with a weak prior, p_loo is
        # about the number of parameters, and exceeds it for half of all data sets.
        if model.p_loo - 2 * model.p_loo_se > num:
            sentences.append(
                f"{name}: p_loo {model.p_loo:.3g} is above the model's number of parameters, "
                f"{num}, so the model is likely misspecified; for example, observations may vary "
                f"more than it allows (Vehtari et al. 2017); see {_CHECK[is_in_shell()]}."
            )
        elif (model.k_hat > model.good_k).any():
            num -= model.num_integrated
            if num > self.num_obs / 5:
                why = (
                    f"with {num} parameters and {self.num_obs} observations, a few large k-hats "
                    "are expected."
                )
            else:
                few = f"few parameters, here {num}"
                if model.num_integrated:
                    few = f"{few} in addition to the effects that are integrated out"
                why = (
                    f"a large k-hat in a model with {few}, points to outliers or "
                    f"misspecification; see {_CHECK[is_in_shell()]}."
                )
            sentences.append(f"{name}: {why}")
        return sentences


def loo(fits: Fit | Sequence[Fit], *, refit: bool = False, explains: bool = False) -> LooComparison:
    """Compare models of the same data by PSIS-LOO.

    If some models describe integers and others real numbers, the latter are compared by the
    probability of the rounded response, y ± 0.5.

    Parameters
    ----------
    fits : Fit or sequence of Fit
        One fit for each model, all to the same data. Fits that left out different rows of one
        table, such as rows with missing values, are compared on the rows that all of them have.
    refit : bool
        Whether to refit a model without each observation whose k-hat is too large. If that is not
        possible, the estimates stay as they are and ``cautions`` gives the reason. The number of
        refits and their expected time are written to the log.
    explains : bool
        Whether the result also has R² and the share of the variance between groups; see
        :func:`pyflowers.explained`.

    Returns
    -------
    LooComparison
        The models, best first, with elpd, differences, stacking weights and k-hat.

    Raises
    ------
    ConfigError
        If there is no fit, a program has no ``log_lik``, the data differ, two models have the same
        name, or a density cannot be integrated over the rounded response.

    See Also
    --------
    pyflowers.leave_one_group_out : Compare models by how well they predict new groups.
    pyflowers.plots.elpd_differences : Draw the differences.

    References
    ----------
    Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27(5), eqs. 10, 23 and 24; Vehtari, Simpson,
    Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72).

    Examples
    --------
    >>> import pyflowers
    >>> counts = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> normal = pyflowers.fit("multilevel_normal", seed=1, engine="exact")
    >>> pyflowers.loo([counts, normal]).table()[["elpd", "difference", "weight"]].round()
                        elpd  difference  weight
    model
    multilevel_poisson -26.0         0.0     1.0
    multilevel_normal  -34.0        -8.0     0.0
    """
    fits = checked_comparable(fits)
    found = compare_named(fits, model_names(fits), refit=refit)
    if explains:
        found = replace(found, explained=explained(fits))
    return found


def compare_named(
    fits: Sequence[Fit], names: Sequence[str], *, refit: bool = False
) -> LooComparison:
    """Compare models under given names, which must differ; see :func:`loo`."""
    for fit in fits:
        fit.program.require(Capability.LOG_LIK)
    rows = common_rows(fits)
    kept = np.all([f.is_in_likelihood[its] for f, its in zip(fits, rows, strict=True)], axis=0)
    if not kept.any():
        raise ConfigError(
            "loo: no row is in the likelihood of every fit; refit so that at least one row is in "
            "all of them"
        )
    rows = [its[kept] for its in rows]
    rounded = _are_rounded(fits)
    found = [
        _psis(fit, refit, its, is_rounded=is_rounded)
        for fit, its, is_rounded in zip(fits, rows, rounded, strict=True)
    ]
    terms = [elpd for elpd, _ in found]
    best = max(terms, key=np.sum)
    weights = stacking_weights(np.stack(terms))
    models = (
        ModelLoo(**standing(name, elpd, best), **own, weight=float(weight))
        for name, (elpd, own), weight in zip(names, found, weights, strict=True)
    )
    ordered = tuple(sorted(models, key=lambda model: -model.elpd))
    num_fitted = {name: fit.data.num_obs for name, fit in zip(names, fits, strict=True)}
    multiplied = [fit.model.multiplies_likelihood for fit in fits]
    return LooComparison(
        ordered,
        best.size,
        num_fitted,
        rounded=tuple(compress(names, rounded)),
        weighted=tuple(compress(names, multiplied)),
        called=described(fits, names),
        dependent=with_dependent_rows(fits, names),
    )


def with_dependent_rows(fits: Sequence[Fit], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of models in which the distribution of a row depends on other rows."""
    return tuple(compress(names, (fit.model.has_dependent_rows for fit in fits)))


def _are_rounded(fits: Sequence[Fit]) -> list[bool]:
    """Return which models describe real numbers but are compared with models of integers."""
    found = [not fit.program.counts for fit in fits]
    if all(found):
        return [False] * len(fits)
    for fit in compress(fits, found):
        if not fit.model.evaluates:
            raise ConfigError(
                f"loo: {fit.called} has densities, other models have probabilities of integers, "
                f"and the density of {fit.called}, which is computed in Stan, cannot be integrated "
                "over the rounded response; compare models of the same kind"
            )
    return found


def _log_probability(fit: Fit, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return log P(y[n] ± 0.5 | draw), shape (chain, draw, row).

    Both halves of the interval are integrated, because a density may have a narrow peak at y[n].
    """
    model = fit.model.at(rows)
    name, total = model.data.observed, np.asarray(-np.inf)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES_OF_HALF)
    for sign in (-1, 1):
        for node, weight in zip(0.25 * (nodes + 1), 0.25 * weights, strict=True):
            shifted = model.data.y + sign * node
            moved = replace(model.data, values={**model.data.values, name: shifted})
            log_lik = replace(model, data=moved).log_lik(fit.draws)
            total = np.logaddexp(total, np.log(weight) + log_lik)
    return total


def standing(name: str, terms: NDArray[np.float64], best: NDArray[np.float64]) -> dict[str, Any]:
    """Return fields of :class:`ModelElpd`, computed from a model's terms and the best model's."""
    return {
        "name": name,
        "elpd": float(terms.sum()),
        "se": error_of_sum(terms),
        "difference": float((terms - best).sum()),
        "difference_se": error_of_sum(terms - best),
        "terms": terms,
    }


def stacking_weights(elpd: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of the models in the mixture that predicts best.

    The weights maximise Σ_n log Σ_k w_k p(y[n] | y without y[n], model k), a concave function. They
    are found by the EM steps for the proportions of a mixture, which never decrease the function.

    Parameters
    ----------
    elpd : array, shape (model, N)
        Each model's log predictive density of each observation.

    Returns
    -------
    array, shape (model,)
        The weights, which sum to 1.
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


def _psis(
    fit: Fit, refit: bool, rows: NDArray[np.int64], *, is_rounded: bool
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return log p(y[n] | the other rows) for rows of a fit, and fields of :class:`ModelLoo`."""
    num_obs, num_draws = rows.size, fit.num_chains * fit.num_draws
    elpd, k_hat, within = np.empty((3, num_obs))
    limit, changes = good_k(num_draws), np.zeros(num_draws)
    integrated = None
    if not is_rounded:
        integrated = _integrated(fit)
    if integrated is not None:
        of_rows = integrated.of_rows()
    step = max(1, _MOST_VALUES // num_draws)
    for first in range(0, num_obs, step):
        part = slice(first, first + step)
        log_lik = given_effects = _log_lik(fit, rows[part])
        if integrated is not None:
            log_lik = of_rows[..., rows[part]]
        log_weights, k_hat[part] = held_out_weights(fit, log_lik)
        predicted = log_lik
        if is_rounded:
            predicted = given_effects = _log_probability(fit, rows[part])
        by_row = np.moveaxis(predicted, -1, 0).reshape(log_weights.shape)
        elpd[part] = np.logaddexp.reduce(log_weights + by_row, axis=1)
        within[part] = np.logaddexp.reduce(given_effects, axis=(0, 1)) - np.log(num_draws)
        good = ~(k_hat[part] > limit)
        relative = np.exp(log_weights + by_row - elpd[part, None]) - np.exp(log_weights)
        changes += relative[good].sum(axis=0)
    found, no_refit = list[HeldOutDensity](), ""
    bad = np.flatnonzero(k_hat > limit)
    if is_rounded:
        no_refit = "refits give densities, not probabilities of the rounded response"
    elif bad.size and refit:
        try:
            found = _refits(fit, [rows[bad[[i]]] for i in range(bad.size)])
        except PyflowersError as error:
            no_refit = str(error)
    refitted = bad[: len(found)]  # all of them, or none
    elpd[refitted] = [each.elpd for each in found]
    of_draws = _error_of_draws(fit, changes)
    is_bad = np.array([not each.passed for each in found], dtype=bool)
    errors = [of_draws, *(each.mcse for each in found)]
    names = fit.program.source.blocks.parameters
    num_parameters = len(element_names(fit.posterior))
    if all(name in fit.draws for name in names):  # otherwise, all quantities are counted
        num_parameters = sum(int(np.prod(fit.draws[name].shape[2:])) for name in names)
    return elpd, {
        "mcse": float(np.linalg.norm(errors)) if refitted.size == bad.size else np.nan,
        "p_loo": float((within - elpd).sum()),
        "p_loo_se": error_of_sum(within - elpd),
        "num_parameters": num_parameters,
        "k_hat": k_hat,
        "good_k": limit,
        "refitted": refitted,
        "failed": tuple(
            fit.data.where(row).rpartition(", ")[2] for row in rows[refitted[is_bad]].tolist()
        ),
        "no_refit": no_refit,
        "passed": not fit.diagnostics.failed,
        "seconds": _seconds_of_refit(fit),
        "num_integrated": 0 if integrated is None else integrated.num_effects,
    }


def _integrated(fit: Fit) -> HeldOut | None:
    """Return the densities with effects integrated out; None unless the draws are weighted."""
    if not fit.record.weighted:
        return None
    from pyflowers.engines.integrated.held_out import integrating

    return integrating(fit.program, fit.data, fit.draws)


def _refits(fit: Fit, sets: Sequence[NDArray[np.int64]]) -> list[HeldOutDensity]:
    """Return the densities of sets of rows, each predicted by a refit without them."""
    words = f"{counted(len(sets), 'refit')} of {fit.called}"
    seconds = duration(len(sets) * _seconds_of_refit(fit))
    with stage(f"{words}, about {seconds}", len(sets)) as advance:
        return predict_held_out(fit, sets, advance=lambda: advance(1))


def _seconds_of_refit(fit: Fit) -> float:
    """Return the expected time of a refit, in seconds; refits run on all cores."""
    return sum(chain["total"] for chain in fit.record.times.chains) / usable_cores()


def _log_lik(fit: Fit, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log likelihood of rows, shape (chain, draw, row); reject NaN and infinity."""
    of_all = rows.size == fit.data.num_obs
    log_lik = fit.model.log_lik(fit.draws, None if of_all else rows)
    odd = np.argwhere(~np.isfinite(log_lik))
    if odd.size:
        num = len(np.unique(odd[:, :2], axis=0))
        raise ConfigError(
            f"loo: log_lik of {fit.called} is not finite in {num} of "
            f"{fit.num_chains * fit.num_draws} draws, first for "
            f"{fit.data.where(int(rows[odd[0, 2]]))}; correct the code that computes it"
        )
    return log_lik


def error_of_sum(terms: NDArray[np.float64]) -> float:
    """Return the standard error of the sum of independent terms, [1]_ eq. 23; NaN for one term."""
    if terms.size > 1:
        return float(np.sqrt(terms.size * terms.var(ddof=1)))
    return np.nan


def checked_comparable(fits: Fit | Iterable[Fit]) -> list[Fit]:
    """Return fits as a list; reject fits whose predictions cannot be compared.

    Raises
    ------
    ConfigError
        If there is no fit, a program has no ``log_lik``, two fits have the same name, or only some
        fits have a censored or weighted response.
    """
    fits = checked_fits(fits, "loo")
    if not fits:
        raise ConfigError("loo: there is no fit to compare; give at least one")
    for fit in fits:
        fit.program.require(Capability.LOG_LIK)
    refuse_same_names(fits, "loo")
    for term in sorted({term for fit in fits for term in fit.model.terms_of_data}):
        _check_terms(term, [fit for fit in fits if term in fit.model.terms_of_data], fits)
    return fits


def _check_terms(term: str, having: Sequence[Fit], fits: Sequence[Fit]) -> None:
    """Check that all responses, or none, have a term that changes the data of the likelihood."""
    lacking = [fit for fit in fits if fit not in having]
    if having and lacking:
        raise ConfigError(
            f"loo: the response of {having[0].called} has {term}, but the response of "
            f"{lacking[0].called} does not, so their likelihoods describe different "
            "data; write the same term in both formulas"
        )


def common_rows(fits: Sequence[Fit]) -> list[NDArray[np.int64]]:
    """Return, for each fit, the positions of the observations that all fits share.

    Raises
    ------
    ConfigError
        If the fits do not describe the same data.
    """
    first = fits[0].data
    if all(fit.data.describes_same(first) for fit in fits):
        return [np.arange(first.num_obs)] * len(fits)
    tables = [fit.data.table for fit in fits if fit.data.table is not None]
    found: list[NDArray[np.int64]] = []
    is_one = len(tables) == len(fits) and len({table.source for table in tables}) == 1
    if is_one and all(fit.data.num_obs == len(t) for fit, t in zip(fits, tables, strict=True)):
        common = reduce(np.intersect1d, [table.rows for table in tables])
        found = [np.flatnonzero(np.isin(table.rows, common)) for table in tables]
    for i, fit in enumerate(fits[1:], 1):
        if not found and fit.data.describes_same(first):
            continue
        if found and found[0].size and fit.data.describes_same(first, found[i], found[0]):
            continue
        order = fit.data.is_reordered(first)
        if order:
            why = "to the same rows in a different order"
        else:
            why = "to different data"
        nums = fit.data.num_obs, first.num_obs
        sizes = ""
        if nums[0] != nums[1]:
            sizes = f" ({nums[0]} and {nums[1]} rows)"
        raise ConfigError(
            f"loo: {fit.called} and {fits[0].called} were fitted {why}{sizes}, so their elpd "
            "cannot be compared row by row; fit both to the same rows of one file"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class ModelGroups(ModelElpd):
    """How well one model predicts each group from the others.

    Attributes
    ----------
    name : str
        The name of the model.
    elpd, se : float
        Expected log predictive density, the sum of `terms`, in nats, and its standard error.
    difference, difference_se : float
        elpd minus the elpd of the best model, at most 0, and its standard error.
    terms : array, shape (G,)
        Log predictive density of all observations of each group, given the other groups.
    mcse : array, shape (G,)
        Monte Carlo standard error of each term.
    failed : tuple of str
        Groups for which the refit without the group failed its diagnostics.
    num_refits : int
        The number of refits: one for each group, unless effects were integrated out.

    See Also
    --------
    pyflowers.leave_one_group_out : Compare models by how well they predict new groups.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> model = pyflowers.leave_one_group_out([fit]).best
    >>> model.terms.round().tolist()
    [-9.0, -10.0, -11.0]
    >>> model.failed
    ()
    """

    mcse: NDArray[np.float64] = field(repr=False)
    failed: tuple[str, ...]
    num_refits: int

    @property
    def columns(self) -> dict[str, float]:
        """The additional columns of the table."""
        return {"refits": self.num_refits}


@dataclass(frozen=True, repr=False)
class GroupComparison(ElpdComparison):
    """Models of the same data, compared by leave-one-group-out.

    Attributes
    ----------
    models : tuple of ModelGroups
        The models, best first.
    column : str
        The name of the column of groups in the table.
    groups : tuple of str
        The labels of the groups.
    called : mapping of str to tuple of str
        The formula or program of each model, and its family, by the model's name in tables.

    See Also
    --------
    pyflowers.leave_one_group_out : Compare models by how well they predict new groups.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.leave_one_group_out([fit])
    >>> found.column, found.groups
    ('plant', ('1', '2', '3'))
    >>> found.table()[["elpd", "refits"]].round()
                        elpd  refits
    model
    multilevel_poisson -30.0       3
    """

    models: tuple[ModelGroups, ...]
    column: str
    groups: tuple[str, ...]

    @property
    def _compared(self) -> dict[str, Any]:
        return {"column": self.column}

    def _terms_of(self, model: ModelGroups) -> dict[str, Any]:
        return {
            "terms": dict(zip(self.groups, model.terms, strict=True)),
            "mcse of terms": dict(zip(self.groups, model.mcse, strict=True)),
        }

    @property
    def left_out(self) -> str:
        """The units that are left out, in words."""
        return f"{len(self.groups)} groups left out at a time ({self.column})"

    @property
    def cautions(self) -> list[str]:
        """The limitations of the comparison, one sentence each."""
        sentences = self.of_few(len(self.groups), is_of_groups=True) + self.of_close()
        for model in self.models:
            sentences += model.of_failed(model.failed, model.num_refits, f"{self.column} ")
            sentences += model.of_error()
        return sentences


def leave_one_group_out(
    fits: Sequence[Fit],
    *,
    column: str | None = None,
    advance: Callable[[], object] = lambda: None,
) -> GroupComparison:
    """Compare models by how well they predict each group from the others, by exact refits.

    If the engine ``exact`` fitted a formula and integrated the effects of the groups out, only
    groups whose k-hat is too large need a refit.

    Parameters
    ----------
    fits : sequence of Fit
        One fit for each model, all to the same data.
    column : str, optional
        The name of the column of groups in the table. Default: the column by which the program
        groups its rows.
    advance : callable
        Function without arguments, called after each refit, for example to show progress.

    Returns
    -------
    GroupComparison
        The models, best first, with elpd and differences.

    Raises
    ------
    ConfigError
        If there is no fit, two models have the same name, the data differ, there is no such column,
        there are fewer than two groups, or a program cannot leave a group out.
    PyflowersError
        If a refit does not finish.

    See Also
    --------
    pyflowers.loo : Compare models by how well they predict single observations.

    References
    ----------
    Merkle, Furr and Rabe-Hesketh (2019), Bayesian comparison of latent variable models,
    Psychometrika 84(3), for the density of a new group.

    Examples
    --------
    >>> import pyflowers
    >>> iid = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> normal = pyflowers.fit(
    ...     "multilevel_normal", seed=1, engine="exact",
    ...     priors={"sigma2_plant_nu": 1, "sigma2_plant_scale": 0.8},
    ... )
    >>> found = pyflowers.leave_one_group_out([iid, normal])
    >>> found.table()[["elpd", "difference"]].round(1)
                       elpd  difference
    model
    multilevel_normal -30.2         0.0
    iid_normal        -33.5        -3.3
    """
    fits = checked_comparable(fits)
    for fit, rows in zip(fits, common_rows(fits), strict=True):
        if rows.size < fit.data.num_obs:
            raise ConfigError(
                f"loo: {fit.called} was fitted to {fit.data.num_obs} rows, but only {rows.size} "
                "of them are used by all models, so a left-out group would differ between models; "
                "fit all models to the same rows of one file"
            )
    of_counts = [fit.called for fit in fits if fit.program.counts]
    of_reals = [fit.called for fit in fits if not fit.program.counts]
    if of_counts and of_reals:
        raise ConfigError(
            f"loo: {of_counts[0]} gives probabilities and {of_reals[0]} gives densities, which "
            "have no common scale for whole groups; compare models of the same kind, or leave out "
            "single observations"
        )
    labels = group_labels(fits[0], column)
    sets = [np.flatnonzero(labels.codes == g) for g in range(len(labels))]
    names = model_names(fits)
    found = {
        name: _held_out_groups(fit, sets, labels.codes, advance)
        for name, fit in zip(names, fits, strict=True)
    }
    terms = {name: np.array([each.elpd for each in each_set]) for name, each_set in found.items()}
    best = max(terms.values(), key=np.sum)
    models = [
        ModelGroups(
            **standing(name, own, best),
            mcse=np.array([each.mcse for each in found[name]]),
            failed=tuple(compress(labels.names, (not each.passed for each in found[name]))),
            num_refits=sum(each.is_refit for each in found[name]),
        )
        for name, own in terms.items()
    ]
    models.sort(key=lambda model: -model.elpd)
    called = described(fits, names)
    return GroupComparison(tuple(models), labels.column, labels.names, called=called)


def described(fits: Sequence[Fit], names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the formula or program, and the family, of the models with these names."""
    return {
        name: (fit.program.called, getattr(fit.program.declaration.formula, "family", ""))
        for name, fit in zip(names, fits, strict=True)
    }


def _held_out_groups(
    fit: Fit,
    sets: Sequence[NDArray[np.int64]],
    codes: NDArray[np.int64],
    advance: Callable[[], object],
) -> list[HeldOutDensity]:
    """Return the densities of groups, by importance weights if effects are integrated out."""
    integrated = _integrated(fit)
    if integrated is None or not integrated.divides_as(codes):
        return predict_held_out(fit, sets, advance=advance)
    log_lik = integrated.of_labels(codes)
    log_weights, k_hat = held_out_weights(fit, log_lik)
    by_group = np.moveaxis(log_lik, -1, 0).reshape(log_weights.shape)
    elpd = np.logaddexp.reduce(log_weights + by_group, axis=1)
    changes = np.exp(log_weights + by_group - elpd[:, None]) - np.exp(log_weights)
    found = [
        HeldOutDensity(rows, float(own), _error_of_draws(fit, change), passed=True, is_refit=False)
        for rows, own, change in zip(sets, elpd, changes, strict=True)
    ]
    bad = np.flatnonzero(k_hat > good_k(by_group[0].size)).tolist()
    again = predict_held_out(fit, [sets[i] for i in bad], advance=advance)
    for i, each in zip(bad, again, strict=True):
        found[i] = each
    for _ in range(len(sets) - len(bad)):
        advance()
    return found


def _error_of_draws(fit: Fit, changes: NDArray[np.float64]) -> float:
    """Return the Monte Carlo error of an elpd, given how much each weighted draw changes it."""
    if not np.ptp(changes):
        return 0.0
    ess = ess_mean(changes.reshape(fit.num_chains, fit.num_draws, 1))[0]
    return float(changes.size * changes.std() / np.sqrt(ess))


def group_labels(fit: Fit, column: str | None = None) -> Labels:
    """Return the labels of the groups to leave out.

    Raises
    ------
    ConfigError
        If there is no such column, or it has a single group.
    """
    by_name = fit.model.labels
    labels = fit.data.by_group
    if column is not None:
        labels = by_name.get(column)
    if labels is None:
        have = ", ".join(by_name) or "none"
        if column:
            wanted = f"no column {column!r} of labels"
        else:
            wanted = "no column that groups its rows"
        raise ConfigError(
            f"{fit.called} has {wanted} (it has {have}); name a column of groups: --column NAME"
        )
    if len(labels) < 2:
        raise ConfigError(
            f"{fit.called}: {labels.column} has a single group, and leaving it out leaves no data; "
            "name another column of groups: --column NAME"
        )
    return labels
