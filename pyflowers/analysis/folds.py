"""K-fold cross-validation: models are refitted K times, each time without a fold of rows or groups.

elpd = Σ_u log p(y_u | y without the fold of u), where a unit u is a row or, by group, all rows of a
group. The density of a unit is the mean of its likelihood over the draws of the refit, as in [1]_,
section 2.2. If a unit is a whole fold, its density is computed by bridge sampling, as in
:mod:`.refits`. With one fold for each group, K-fold cross-validation is leave-one-group-out.

Folds of rows are stratified: rows are ordered by the response, and every K consecutive rows go to
different folds. Folds of groups have about the same number of rows.

References
----------
.. [1] Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC, Statistics and Computing 27(5).
.. [2] Roberts et al. (2017), Cross-validation strategies for data with temporal, spatial,
   hierarchical, or phylogenetic structure, Ecography 40(8), for folds of whole groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.analysis.elpd import (
    ElpdComparison,
    ModelElpd,
    checked_comparable,
    common_rows,
    described,
    group_labels,
    standing,
    with_dependent_rows,
)
from pyflowers.analysis.refits import HeldOut, log_mean, log_ratio, refit_without
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit, model_names

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ModelFolds(ModelElpd):
    """How well one model predicts the rows or groups of each fold from the other folds.

    Attributes
    ----------
    name : str
        The name of the model.
    elpd, se : float
        Expected log predictive density, the sum of `terms`, in nats, and its standard error.
    difference, difference_se : float
        elpd minus the elpd of the best model, at most 0, and its standard error.
    terms : array, shape (N,) or (G,)
        Log predictive density of each row, or of all rows of each group, given the other folds.
    mcse : array
        Monte Carlo standard error of each term.
    failed : tuple of int
        Folds, counted from 1, whose refits failed their diagnostics.
    folds : int
        The number of folds, each of which needs a refit.

    See Also
    --------
    pyflowers.k_fold : Compare models by K-fold cross-validation.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> model = pyflowers.k_fold(fit, 3).best
    >>> model.folds, model.terms.shape, model.failed
    (3, (12,), ())
    """

    mcse: NDArray[np.float64] = field(repr=False)
    failed: tuple[int, ...]
    folds: int

    @property
    def columns(self) -> dict[str, float]:
        """The additional columns of the table."""
        return {"refits": self.folds}


@dataclass(frozen=True, repr=False)
class FoldComparison(ElpdComparison):
    """Models of the same data, compared by K-fold cross-validation.

    Attributes
    ----------
    models : tuple of ModelFolds
        The models, best first.
    fold : array of int
        The fold of each row or of each group, from 1.
    column : str
        The column of the groups; empty for folds of rows.
    groups : tuple of str
        The labels of the groups; empty for folds of rows.
    called : mapping of str to tuple of str
        The formula or program of each model, and its family, by the model's name in tables.
    dependent : tuple of str
        Models in which the distribution of a row depends on other rows.

    See Also
    --------
    pyflowers.k_fold : Compare models by K-fold cross-validation.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> found = pyflowers.k_fold(fit, 3)
    >>> found.fold.tolist().count(1), found.table()["refits"].tolist()
    (4, [3])
    """

    models: tuple[ModelFolds, ...]
    fold: IntArray
    column: str = ""
    groups: tuple[str, ...] = ()

    @property
    def _compared(self) -> dict[str, Any]:
        about = {"folds": self.models[0].folds, "fold": self._of_units(self.fold)}
        if self.column:
            about["column"] = self.column
        return about

    def _terms_of(self, model: ModelFolds) -> dict[str, Any]:
        return {"terms": self._of_units(model.terms), "mcse of terms": self._of_units(model.mcse)}

    def _of_units(self, values: NDArray[Any]) -> Any:
        """Return a value for each row or, by its label, for each group."""
        if self.column:
            return dict(zip(self.groups, values.tolist(), strict=True))
        return values.tolist()

    @property
    def left_out(self) -> str:
        """The units that are left out, in words."""
        num = self.models[0].folds
        if self.column:
            return f"{num} folds of {len(self.groups)} groups left out at a time ({self.column})"
        return f"{num} folds of {len(self.fold)} observations left out at a time"

    @property
    def cautions(self) -> list[str]:
        """The limitations of the comparison, one sentence each."""
        found = [] if self.column else self.of_dependent()
        found += self.of_few(len(self.fold), is_of_groups=bool(self.column)) + self.of_close()
        for model in self.models:
            found += model.of_failed(model.failed, model.folds, "fold ")
            found += model.of_error()
        return found


def k_fold(
    fits: Fit | Sequence[Fit],
    folds: int = 10,
    *,
    column: str | None = None,
    seed: int | None = None,
    advance: Callable[[], object] = lambda: None,
) -> FoldComparison:
    """Compare models by how well they predict rows or groups that are left out, in K folds.

    Parameters
    ----------
    fits : Fit or sequence of Fit
        One fit for each model, all to the same data.
    folds : int
        The number of folds, K. Each model is refitted K times.
    column : str, optional
        A column of groups, which are left out as a whole. Default: rows are left out, in folds that
        are stratified by the response.
    seed : int, optional
        Seed of the assignment to folds. Default: that of the first fit.
    advance : callable
        Function without arguments, called after each refit, for example to show progress.

    Returns
    -------
    FoldComparison
        The models, best first, with elpd and differences.

    Raises
    ------
    ConfigError
        If there is no fit, the data differ, there is no such column, K is not between 2 and the
        number of rows or groups, or a program cannot leave rows out.
    PyflowersError
        If a refit does not finish.

    See Also
    --------
    pyflowers.loo : Compare models without refits.
    pyflowers.leave_one_group_out : Leave out one group at a time.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> pyflowers.k_fold(fit, 3, column="plant").table()["elpd"].round().tolist()
    [-30.0]
    """
    found = checked_comparable(fits)
    for fit, common in zip(found, common_rows(found), strict=True):
        if common.size < fit.data.num_obs:
            raise ConfigError(
                f"loo: {fit.called} was fitted to {fit.data.num_obs} rows, but only {common.size} "
                "of them are used by all models; fit all models to the same rows of one file"
            )
    kinds = {fit.program.counts for fit in found}
    if len(kinds) > 1:
        raise ConfigError(
            "loo: some models give probabilities and others densities, which have no common scale "
            "in folds; compare models of the same kind, or leave out single observations"
        )
    kept = np.flatnonzero(np.all([fit.is_in_likelihood for fit in found], axis=0))
    if seed is None:
        seed = found[0].options.seed
    rng = np.random.default_rng([seed, 11])
    labels = group_labels(found[0], column) if column is not None else None
    names: tuple[str, ...] = ()
    if labels is None:
        units = [kept[[i]] for i in range(kept.size)]
        what = f"{kept.size} rows"
    else:
        present = np.unique(labels.codes[kept])  # the rows of a group may all be held out
        units = [kept[labels.codes[kept] == g] for g in present]
        names = tuple(labels.names[g] for g in present)
        what = f"{len(units)} groups"
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= len(units):
        raise ConfigError(
            f"loo: folds must be an integer from 2 to the number of units ({what}), got {folds!r}"
        )
    if labels is None:
        fold = _stratified(found[0].data.rows_of_y[kept, 0], folds, rng)
    else:
        fold = _balanced([unit.size for unit in units], folds, rng)
    of_fold = [np.flatnonzero(fold == k) for k in range(folds)]
    sets = [np.sort(np.concatenate([units[u] for u in its])) for its in of_fold]
    members = {tuple(rows.tolist()): its for rows, its in zip(sets, of_fold, strict=True)}
    models, terms = list[ModelFolds](), dict[str, Any]()
    called = model_names(found)
    for model, fit in zip(called, found, strict=True):
        use = partial(_densities, fit, units, members, labels is not None)
        terms[model] = refit_without(fit, sets, use, advance=advance)
    elpd = {name: np.empty(len(units)) for name in terms}
    mcse = {name: np.empty(len(units)) for name in terms}
    for name, each in terms.items():
        for its, (values, errors, _) in zip(of_fold, each, strict=True):
            elpd[name][its], mcse[name][its] = values, errors
    best = max(elpd.values(), key=np.sum)
    for name, own in elpd.items():
        failed = tuple(compress(range(1, folds + 1), (not passed for *_, passed in terms[name])))
        standings = standing(name, own, best)
        models.append(ModelFolds(**standings, mcse=mcse[name], failed=failed, folds=folds))
    models.sort(key=lambda model: -model.elpd)
    return FoldComparison(
        tuple(models),
        fold + 1,
        column or "",
        names,
        called=described(found, called),
        dependent=with_dependent_rows(found, called),
    )


def _stratified(y: NDArray[np.float64], folds: int, rng: np.random.Generator) -> IntArray:
    """Return a fold for each row; rows with similar responses are in different folds."""
    order = np.lexsort((rng.random(y.size), y))
    found = np.empty(y.size, dtype=np.int64)
    for first in range(0, y.size, folds):
        part = order[first : first + folds]
        found[part] = rng.permutation(folds)[: part.size]
    return found


def _balanced(sizes: Sequence[int], folds: int, rng: np.random.Generator) -> IntArray:
    """Return a fold for each group, so that folds have about the same number of rows."""
    order = np.lexsort((rng.random(len(sizes)), -np.asarray(sizes)))
    total, found = np.zeros(folds), np.empty(len(sizes), dtype=np.int64)
    for group in order.tolist():
        found[group] = int(np.argmin(total))
        total[found[group]] += sizes[group]
    return found


def _densities(
    fit: Fit,
    units: Sequence[IntArray],
    members: dict[tuple[int, ...], IntArray],
    is_of_groups: bool,
    part: HeldOut,
    again: Fit,
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Return the log density of each unit of a fold, its error, and whether the refit passed."""
    its = members[tuple(part.rows.tolist())]
    if len(its) == 1:
        whole = part.log_density(fit.draws, of_whole=True)
        found = [log_ratio(part.log_density(again.draws), whole)]
    elif is_of_groups:
        own = (HeldOut(part.program, units[u], part.training, part.whole) for u in its)
        found = [log_mean(each.log_density(again.draws)) for each in own]
    else:
        # The held-out rows of a part have the same order as the units of its fold.
        found = [log_mean(each) for each in np.moveaxis(part.log_liks(again.draws), -1, 0)]
    elpd, mcse = (np.array(each) for each in zip(*found, strict=True))
    return elpd, mcse, again.diagnostics.passed
