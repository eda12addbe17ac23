"""Whether the effects of each group term are sampled in the centred parametrisation.

A term is centred if the data determine its effects better than the population does: if the variance
between its groups is large compared with the squared error of a group's mean.

References
----------
Papaspiliopoulos, Roberts and Sköld (2007), Statistical Science 22(1), section 2, for the
parametrisations. DerSimonian and Laird (1986), Controlled Clinical Trials 7(3), for the variance
between groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.errors import ConfigError
from pyflowers.programs.formulas.model import Effects, Model

FloatArray = NDArray[np.float64]

KNOWN, KNOWN_WITHIN, WELL_KNOWN = 2.0, 1.0, 5.0
"""Factors for centring: a term is centred if the 95% lower limit of the variance between its groups
is more than the term's factor times the squared error of a group's mean.

The first factor is the usual one. The second is for a term whose groups are nested in those of
another term, and the third for a term with other groups nested in its groups; see decision 16.
"""

KNOWN_AROUND = 1.5
"""A term nested in outer groups is not centred if this factor is reached for the outer groups."""


@dataclass(frozen=True)
class Centring:
    """How the effects of a group term are sampled.

    Attributes
    ----------
    effects : Effects
        The effects.
    centered : bool
        Whether they are sampled in the centred parametrisation.
    anchored : frozenset of str
        The effects that are sampled as sums with the population's coefficients, if the term is
        centred. If an effect were sampled separately, the mean of the effect and the coefficient
        would be nearly unidentified.
    within : str
        The program's name for a coarser group. If the term is centred, its effects are sampled as
        sums with the effects of that group. Empty if there is none.
    """

    effects: Effects
    centered: bool
    anchored: frozenset[str] = frozenset()
    within: str = ""


def refuse_unknown_groups(model: Model, asked: Mapping[str, bool]) -> None:
    """Reject names of groups that the formula does not have."""
    known = [its.term.group for its in model.effects]
    for name in asked:
        if name not in known:
            named = ", ".join(known) or "none"
            raise ConfigError(
                f"centered {name}: the formula has no such group (its groups: {named}); correct "
                "the name"
            )


def centrings(model: Model, asked: Mapping[str, bool]) -> list[Centring]:
    """Return how each group term is sampled; terms on which others are centred come first.

    Parameters
    ----------
    model : Model
        The model.
    asked : mapping of str to bool
        Whether the term of a group is centred, if the user decides this.

    Raises
    ------
    ConfigError
        If the user names a group that the formula does not have.
    """
    refuse_unknown_groups(model, asked)
    groups = _Groups(model)
    variances = [groups.known(its) for its in model.effects]
    outer = [groups.outer(its) for its in model.effects]
    centered = []
    for its, (ratio, _), place in zip(model.effects, variances, outer, strict=True):
        chosen = asked.get(its.term.group)
        if chosen is None:
            least = KNOWN
            if groups.inner(its):
                least = WELL_KNOWN
            elif place is not None:
                least = KNOWN_WITHIN
            is_around = place is not None and variances[place][0] >= KNOWN_AROUND
            is_explained = len(its.effects) > 1 and groups.has_group_columns(its)
            chosen = ratio > least and not is_around and not is_explained
        if asked.get(its.term.group):
            _refuse_standardised(its, its.term.group)
        centered.append(bool(chosen) and not _is_standardised(its))
    # Each coefficient is added to at most one centred term, the one whose mean the data determine
    # least precisely. A term whose groups are nested in those of another term gets no coefficient;
    # if both terms have only an intercept, the nested term is centred on the other term.
    spread = [variance for _, variance in variances]
    takers = [i for i in np.argsort(spread)[::-1] if outer[i] is None and centered[i]]
    coefficients = list(model.population_design[1])
    if model.has_intercept and not model.family.is_ordinal:
        coefficients.insert(0, "Intercept")
    anchored: list[set[str]] = [set() for _ in model.effects]
    for effect in coefficients:
        taker = next((i for i in takers if effect in model.effects[i].effects), None)
        if taker is not None:
            anchored[taker].add(effect)
    found = []
    for i, (its, place) in enumerate(zip(model.effects, outer, strict=True)):
        within = ""
        is_plain = place is not None and model.effects[place].term.is_plain
        if (
            place is not None
            and is_plain
            and its.is_intercept
            and model.effects[place].is_intercept
        ):
            within = model.effects[place].name
        found.append(Centring(its, centered[i], frozenset(anchored[i]), within))
    return sorted(found, key=lambda its: groups.size(its.effects) if its.within else 0)


def centrings_asked(model: Model, asked: Mapping[str, bool]) -> list[Centring]:
    """Return how each group term is sampled if terms are centred only at the user's request.

    Parameters
    ----------
    model : Model
        The model of another parameter, or of one of several linear predictors of the response.
    asked : mapping of str to bool
        Whether a term is centred, by the end of its variables' names or, for predictors of the
        response, by its group.

    Raises
    ------
    ConfigError
        If centring is requested for a term whose effects can be sampled only in standardised form.
    """
    found = []
    for its in model.effects:
        names = [its.name, *[its.term.group] * model.predicts_response]
        name = next((name for name in names if name in asked), "")
        if asked.get(name):
            _refuse_standardised(its, name)
        found.append(Centring(its, asked.get(name, False)))
    return found


def _is_standardised(its: Effects) -> bool:
    """Whether the effects of a term can be sampled only in standardised form."""
    has_several = its.term.is_student and not its.is_intercept
    return bool(its.term.by or its.term.covariance or has_several)


def _refuse_standardised(its: Effects, name: str) -> None:
    """Reject centring for a term whose effects can be sampled only in standardised form."""
    if _is_standardised(its):
        raise ConfigError(
            f"centered {name}: the effects of {its.term} can be sampled only in standardised form; "
            "leave the option out"
        )


@dataclass(frozen=True)
class _Groups:
    """The groups of a model, for computing the variance between the labels of each group."""

    model: Model

    @cached_property
    def _codes(self) -> dict[str, NDArray[np.int64]]:
        """The position of each row's label, by group."""
        terms = [its.term for its in self.model.effects]
        return {term.group: self.model.labels_of(term).codes for term in terms}

    def size(self, its: Effects) -> int:
        """Return the number of labels of a term's group."""
        return int(self._codes[its.term.group].max()) + 1

    def known(self, its: Effects) -> tuple[float, float]:
        """Return how well the data determine a term's effects, and the variance of their mean.

        The first value is the ratio of the 95% lower limit of the variance between groups to the
        squared error of a group's mean; for several effects, it is the smallest of their ratios.
        """
        matrix, effects = self.model.design(its.terms)
        means, error = self._means_and_errors(its)
        around = self._around(its)
        between = _between(means, error, around)
        ratio = float(between / np.median(error))
        if len(effects) > 1:
            ratio = self._smallest_ratio(its, matrix, around)
        return ratio * _lower_limit(len(means) - int(around.max())), between / len(means)

    def has_group_columns(self, its: Effects) -> bool:
        """Return whether a term's columns determine another population column within each group.

        An example is ``days:treated`` for ``(days | subject)``, where each subject has one
        treatment. If the effects are centred, the sampler can move the coefficient of that column
        only as fast as it moves all the effects together.
        """
        matrix, effects = self.model.design(its.terms)
        columns, names = self.model.population_design
        others = [i for i, name in enumerate(names) if name not in effects]
        columns = columns[:, others]
        if self.model.has_intercept and "Intercept" not in effects:
            columns = np.hstack([np.ones((len(columns), 1)), columns])
        rest = np.array(columns)
        codes = self._codes[its.term.group]
        for rows in pd.Series(codes).groupby(codes).indices.values():
            own = np.linalg.lstsq(matrix[rows], columns[rows], rcond=None)[0]
            rest[rows] -= matrix[rows] @ own
        size = np.linalg.norm(columns, axis=0)
        return bool((np.linalg.norm(rest, axis=0) < 1e-8 * size).any())

    def outer(self, its: Effects) -> int | None:
        """Return the position of the finest term in which a term's groups are nested, or None.

        Groups of a term with several members are never nested in others, nor others in them.
        """
        if its.term.members:
            return None
        codes, own = list(self._codes.values()), self._codes[its.term.group]
        alone = [i for i, each in enumerate(self.model.effects) if not each.term.members]
        outer = [i for i in alone if _lies_within(own, codes[i])]
        return max(outer, key=lambda i: codes[i].max(), default=None)

    def _around(self, its: Effects) -> NDArray[np.int64]:
        """Return the position of the finest group that contains each group; 0 if there is none."""
        place, own = self.outer(its), self._codes[its.term.group]
        codes = np.zeros_like(own)
        if place is not None:
            codes = list(self._codes.values())[place]
        return codes[np.unique(own, return_index=True)[1]]

    def inner(self, its: Effects) -> list[NDArray[np.int64]]:
        """Return the position of each row's label in every group nested in a term's groups."""
        if its.term.members:
            return []
        own, others = self._codes[its.term.group], (each.term for each in self.model.effects)
        codes = (self._codes[term.group] for term in others if not term.members)
        return [inside for inside in codes if _lies_within(inside, own)]

    @cached_property
    def _fitted(self) -> FloatArray:
        """The least-squares fit of the population's terms and curves to the response `linked`."""
        model = self.model
        curves = [model.design(curve.terms)[0] for curve, _ in model.curves]
        ones = np.ones((len(model.table), 1))
        fixed = np.hstack([ones, model.population_design[0], *curves])
        return np.asarray(fixed @ np.linalg.lstsq(fixed, model.linked, rcond=None)[0])

    def _smallest_ratio(self, its: Effects, matrix: FloatArray, around: NDArray[np.int64]) -> float:
        """Return the smallest ratio of variance between groups to error among a term's effects.

        The effects of each group and their errors come from one step of weighted least squares,
        which starts from the population's fit or, with a logit link, the overall share of successes
        (McCullagh and Nelder 1989, Generalized Linear Models, section 2.5). The ratio is 0 if the
        rows of a group do not determine its effects.
        """
        model = self.model
        group, fitted = self._codes[its.term.group], self._fitted
        residual, weight = model.linked - fitted, np.ones(len(group))
        is_count = model.family.counts_events or model.family.counts_successes
        if is_count:
            if model.family.counts_events:
                mean = np.exp(np.clip(fitted + model.offset, -20, 20))
                weight = mean = mean * (model.y.sum() + 0.5) / (mean.sum() + 0.5)
            else:
                share = (model.y.sum() + 0.5) / (model.trials.sum() + 1)
                mean = model.trials * share
                weight = mean * (1 - share) + 1e-9
            residual = (model.y - mean) / weight
        num, size = int(group.max()) + 1, matrix.shape[1]
        squares, products = np.zeros((num, size, size)), np.zeros((num, size))
        np.add.at(squares, group, weight[:, None, None] * matrix[:, :, None] * matrix[:, None, :])
        np.add.at(products, group, (weight * residual)[:, None] * matrix)
        dof = len(group) - num * size
        if dof <= 0 or np.linalg.matrix_rank(squares, hermitian=True).min() < size:
            return 0.0
        covariance = np.linalg.inv(squares)
        effects = np.einsum("gij,gj->gi", covariance, products)
        rest = residual - np.sum(effects[group] * matrix, axis=1)
        scale = float(np.sum(weight * rest**2)) / dof
        if is_count:
            scale = max(scale, 1.0)
        errors = np.diagonal(covariance, axis1=1, axis2=2) * scale
        return min(
            _between(own, error, around) / float(np.median(error))
            for own, error in zip(effects.T, errors.T, strict=True)
        )

    def _means_and_errors(self, its: Effects) -> tuple[FloatArray, FloatArray]:
        """Return group means on the scale of the linear predictor, and their squared errors.

        The result is approximate: covariates enter by least squares, effects of coarser groups are
        subtracted, and rows of a finer group within this one are combined. If the means vary much
        more than their errors (see `KNOWN`), the data determine the effects better than the
        population does, and the term is centred.
        """
        model = self.model
        group, within = self._codes[its.term.group], self.inner(its)
        coarser = [
            codes
            for codes in self._codes.values()
            if codes.max() < group.max() and not _lies_within(group, codes)
        ]
        unit = min(within, key=lambda codes: int(codes.max()), default=np.arange(len(group)))
        group = group[np.unique(unit, return_index=True)[1]]
        fitted = self._fitted
        residual = model.linked - fitted
        if model.family.counts_events:
            means, error = self._of_counts(unit if within else group, coarser, fitted)
            if not within:
                return means, error
            residual = means[unit]
        for codes in coarser:
            residual = residual - _means(residual, codes)[codes]
        residual = _means(residual, unit)
        means, sizes = _means(residual, group), np.bincount(group)
        if model.family.counts_successes:
            share = (model.y.sum() + 0.5) / (model.trials.sum() + 1)
            trials = np.bincount(group, np.bincount(unit, model.trials))
            return means, 1 / (np.maximum(trials, 0.5) * share * (1 - share))
        dof, square = len(group) - len(means), np.inf
        if dof:
            square = float(np.sum((residual - means[group]) ** 2)) / dof
        return means, square / sizes

    def _of_counts(
        self, group: NDArray[np.int64], coarser: list[NDArray[np.int64]], fitted: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the log of observed over expected counts for each group, and its squared error."""
        model = self.model
        expected = np.exp(np.clip(fitted + model.offset, -20, 20))
        for codes in (np.zeros(len(group), dtype=np.int64), *coarser):
            ratio = (np.bincount(codes, model.y) + 0.5) / (np.bincount(codes, expected) + 0.5)
            expected = expected * ratio[codes]
        total = np.bincount(group, model.y) + 0.5
        ratio = total / (np.bincount(group, expected) + 0.5)
        mean, dof = expected * ratio[group], len(group) - len(total)
        # Effects of single rows absorb all variation beyond that of Poisson counts.
        if any(codes.max() + 1 == len(codes) for codes in self._codes.values()):
            dof = 0
        dispersion = 1.0
        if dof:
            dispersion = max(float(np.sum((model.y - mean) ** 2 / mean)) / dof, 1.0)
        return np.asarray(np.log(ratio)), np.asarray(dispersion / total)


def is_curve_known(model: Model, terms: str) -> bool:
    """Return whether the data determine the coefficients of a smooth better than their sd does.

    The mean square that the curves explain comes from a least-squares fit to the response `linked`,
    within the labels of the largest group for which there are enough rows. As for groups, the 95%
    lower limit of this mean square is compared with its error.

    Parameters
    ----------
    model : Model
        The model.
    terms : str
        The terms with the columns of the smooth.
    """
    own, _ = model.design(terms)
    others = [model.design(curve.terms)[0] for curve, _ in model.curves if curve.terms != terms]
    ones, num = np.ones((len(own), 1)), own.shape[1]
    whole = np.hstack([own, model.linked[:, None], ones, model.population_design[0], *others])
    dof = len(own) - whole.shape[1] + 1
    sizes = {its.name: len(model.labels_of(its.term)) for its in model.effects}
    for its in sorted(model.effects, key=lambda its: -sizes[its.name]):
        within, _ = model.design(its.terms)
        if sizes[its.name] * within.shape[1] <= (dof - num) / 2:
            codes = model.labels_of(its.term).codes
            dof -= sizes[its.name] * within.shape[1]
            for rows in pd.Series(codes).groupby(codes).indices.values():
                fit = np.linalg.lstsq(within[rows], whole[rows], rcond=None)[0]
                whole[rows] -= within[rows] @ fit
            break
    curves, y, rest = whole[:, :num], whole[:, num], whole[:, num + 1 :]
    both = np.column_stack([curves, y])
    both = both - rest @ np.linalg.lstsq(rest, both, rcond=None)[0]
    curves, y = both[:, :num], both[:, num]
    if dof <= 0 or np.linalg.matrix_rank(curves) < num:
        return False
    fitted = curves @ np.linalg.lstsq(curves, y, rcond=None)[0]
    square = float(np.sum((y - fitted) ** 2)) / dof
    # The mean square that the curves explain, in units of its error, is 1 without a curve.
    ratio = float(np.sum(fitted**2)) / num / max(square, 1e-300) - 1
    return bool(ratio * _lower_limit(num) > KNOWN)


def _between(means: FloatArray, error: FloatArray, around: NDArray[np.int64]) -> float:
    """Return the variance between groups in excess of their errors (DerSimonian and Laird 1986).

    For groups that are nested in other groups, whose positions are `around`, it is the variance
    within the outer groups.
    """
    weight, num = 1 / error, len(means) - 1 - int(around.max())
    total = np.bincount(around, weight)
    if num < 1 or not np.isfinite(error).all() or not total.all():
        return 0.0
    centre = np.bincount(around, weight * means) / total
    spread = float(np.sum(weight * (means - centre[around]) ** 2))
    return float((spread - num) / (weight.sum() - np.sum(np.bincount(around, weight**2) / total)))


def _lower_limit(num: int) -> float:
    """Return the ratio of the 95% lower limit of a variance to its estimate from `num` values."""
    from scipy.special import chdtri

    if num < 2:
        return 0.0
    return float((num - 1) / chdtri(num - 1, 0.05))


def _lies_within(inner: NDArray[np.int64], outer: NDArray[np.int64]) -> bool:
    """Whether each inner group is in one outer group, and there are more inner groups than outer.

    Inner groups do not count if every one of them is a single row.
    """
    num = int(inner.max()) + 1
    if not outer.max() + 1 < num < len(inner):
        return False
    around = np.empty(num, dtype=np.int64)
    around[inner] = outer
    return bool((around[inner] == outer).all())


def _means(values: FloatArray, codes: NDArray[np.int64]) -> FloatArray:
    """Return the mean of the values of each group."""
    return np.asarray(np.bincount(codes, weights=values) / np.bincount(codes), dtype=np.float64)
