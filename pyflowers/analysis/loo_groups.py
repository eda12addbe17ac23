"""Leave one group out: how well each model predicts a group that it has not seen.

This is the question that a multilevel model answers with its population: a new plant, not one more
month of a plant that is known. elpd = Σ_g log p(y_g | y without group g), with y_g all observations
of group g at once; the new group's own parameters are integrated over their population. Each term
comes from a refit. Importance sampling from the full fit cannot reach that far: without a group the
posterior of its parameters is entirely different.

The standard error is over groups, sqrt(G var_g), since groups are what is sampled.

References
----------
.. [1] Vehtari, Gelman and Gabry (2017), Statistics and Computing 27(5), section 2 and eq. 23.
.. [2] Merkle, Furr and Rabe-Hesketh (2019), Bayesian comparison of latent variable models,
   Psychometrika 84(3), for the density of a new cluster with its parameters integrated out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.analysis.elpd import AGAIN, checked_comparable, error_of_sum, first_ten
from pyflowers.analysis.refits import predict_held_out
from pyflowers.data import Labels
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import ConfigError
from pyflowers.fits.fit import Fit

FEW_GROUPS = 20
"""Groups below which a standard error over them says little."""

LARGE_ERROR = 0.5
"""Monte Carlo standard error of an elpd above which the reader is warned."""


@dataclass(frozen=True)
class ModelGroups:
    """How well one model predicts each group from the others.

    Attributes
    ----------
    name : str
        The model.
    elpd, se : float
        Sum over groups, and its standard error.
    difference, difference_se : float
        elpd minus that of the best model, at most 0, and its standard error.
    terms : array, shape (G,)
        Log joint predictive density of each group.
    mcse : array, shape (G,)
        Monte Carlo standard error of each.
    failed : tuple of str
        Groups whose refit, the one without them, failed its diagnostics.
    """

    name: str
    elpd: float
    se: float
    difference: float
    difference_se: float
    terms: NDArray[np.float64] = field(repr=False)
    mcse: NDArray[np.float64] = field(repr=False)
    failed: tuple[str, ...]

    @property
    def total_mcse(self) -> float:
        """The Monte Carlo standard error of elpd."""
        return float(np.sqrt((self.mcse**2).sum()))


@dataclass(frozen=True, repr=False)
class GroupComparison(Shown):
    """Models of the same data, the best first.

    Attributes
    ----------
    column : str
        What the table calls the groups.
    groups : tuple of str
        Their labels.
    models : tuple of ModelGroups
        One for each fit.
    """

    column: str
    groups: tuple[str, ...]
    models: tuple[ModelGroups, ...]

    @property
    def best(self) -> ModelGroups:
        """The model with the largest elpd."""
        return self.models[0]

    def table(self) -> pd.DataFrame:
        """Return a row for each model, the best first."""
        rows = {
            model.name: {
                "elpd": model.elpd,
                "se": model.se,
                "mcse": model.total_mcse,
                "difference": model.difference,
                "its se": model.difference_se,
                "refits": model.terms.size,
            }
            for model in self.models
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")

    def contents(self) -> list[Line]:
        """Return the table and its limitations."""
        return [
            heading("elpd", f"one of {len(self.groups)} groups left out at a time ({self.column})"),
            self.table(),
            *(f"note: {caution}" for caution in self.cautions),
        ]

    @property
    def cautions(self) -> list[str]:
        """Return the limitations of the comparison, a sentence each."""
        sentences = []
        if len(self.groups) < FEW_GROUPS and len(self.models) > 1:
            sentences.append(
                f"with {len(self.groups)} groups the standard error of a difference is itself "
                f"unreliable; compare over {FEW_GROUPS} or more"
            )
        for model in self.models:
            if model.failed:
                sentences.append(
                    f"{model.name}: {len(model.failed)} of {len(self.groups)} refits failed their "
                    f"diagnostics, without {self.column} {first_ten(model.failed)}; {AGAIN}"
                )
            if model.total_mcse > LARGE_ERROR:
                sentences.append(
                    f"{model.name}: its elpd has a Monte Carlo standard error of "
                    f"{model.total_mcse:.2g}; fit it again with more draws to reduce it"
                )
        return sentences


def leave_one_group_out(
    fits: Sequence[Fit],
    *,
    column: str | None = None,
    advance: Callable[[], object] = lambda: None,
) -> GroupComparison:
    """Compare models by how well they predict each group from the others, by exact refits.

    Parameters
    ----------
    fits : sequence of Fit
        One for each model, all of the same data.
    column : str, optional
        The user's name of the column of groups; by default the one that the program groups by.
    advance : callable
        Called after each refit.

    Raises
    ------
    ConfigError
        If there is no fit, the data differ, there are fewer than two groups, or a program cannot
        leave observations out.
    PyflowersError
        If a refit does not finish.
    """
    fits = checked_comparable(fits)
    labels = group_labels(fits[0], column)
    sets = [np.flatnonzero(labels.codes == g) for g in range(len(labels))]
    found = {fit.name: predict_held_out(fit, sets, advance=advance) for fit in fits}
    terms = {name: np.array([each.elpd for each in each_set]) for name, each_set in found.items()}
    best = max(terms, key=lambda name: float(terms[name].sum()))
    models = [
        ModelGroups(
            name=name,
            elpd=float(own.sum()),
            se=error_of_sum(own),
            difference=float((own - terms[best]).sum()),
            difference_se=error_of_sum(own - terms[best]),
            terms=own,
            mcse=np.array([each.mcse for each in found[name]]),
            failed=tuple(
                group
                for group, each in zip(labels.names, found[name], strict=True)
                if not each.passed
            ),
        )
        for name, own in terms.items()
    ]
    models.sort(key=lambda model: -model.elpd)
    return GroupComparison(labels.column, labels.names, tuple(models))


def group_labels(fit: Fit, column: str | None = None) -> Labels:
    """Return the labels of the groups to leave out.

    Raises
    ------
    ConfigError
        If there is no such column, or it has a single group.
    """
    by_name = {labels.column: labels for labels in fit.data.labels.values()}
    labels = fit.data.by_group if column is None else by_name.get(column)
    if labels is None:
        have = ", ".join(by_name) or "none"
        wanted = f"no column {column!r} of labels" if column else "no column that groups its rows"
        raise ConfigError(
            f"{fit.name} has {wanted} (it has {have}); name the one to leave out by: --column NAME"
        )
    if len(labels) < 2:
        raise ConfigError(
            f"{fit.name}: {labels.column} has a single group, and leaving it out leaves no data"
        )
    return labels
