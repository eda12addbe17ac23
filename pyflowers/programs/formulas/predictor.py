"""The linear predictor of a formula as plain values: all that its parts need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.families._links import LINKS
from pyflowers.programs.formulas.centring import Centring, centrings
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.priors import (
    DefaultPriors,
    coefficients,
    rounded,
    scales_of_sds,
)

Source = Mapping[str, Any]
"""The source of a variable, as in ``[data]`` of a declaration."""


@dataclass(frozen=True)
class Target:
    """What a linear predictor predicts.

    Attributes
    ----------
    name : str
        ``eta``, on which the response depends, or a parameter of the family.
    inverse_link : str
        The target in Stan for ``{}``, the sum.
    """

    name: str
    inverse_link: str = "{}"

    def of(self, total: str) -> str:
        """Return the expression of the target, given that of the sum."""
        return self.inverse_link.format(total)


ETA = Target("eta")


@dataclass(frozen=True)
class Sum:
    """A sum of terms, or the expression of an offset.

    Attributes
    ----------
    text : str
        The terms.
    source : mapping of str to object
        The source of its columns.
    """

    text: str
    source: Source


@dataclass(frozen=True)
class Population:
    """The terms of the population, without the intercept.

    Attributes
    ----------
    terms : Sum
        The terms.
    columns : tuple of str
        The names of their columns.
    means : tuple of float
        The columns' means.
    scales : tuple of float
        The sds of the normal priors on the coefficients that are sampled; empty for flat priors.
    adjustment : array, shape (K, K), or None
        See :class:`~pyflowers.programs.formulas.coefficients.CoefficientPrior`.
    """

    terms: Sum
    columns: tuple[str, ...]
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    adjustment: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Group:
    """A group term.

    Attributes
    ----------
    name : str
        The name of the group in the program, which ends the names of its variables.
    by : str
        The column of its labels.
    index : str
        The name of the index of the labels.
    terms : Sum
        The terms whose coefficients vary.
    effects : tuple of str
        The effects that vary.
    pairs : tuple of str
        The pairs of effects that are correlated.
    scale : float
        The scale of the priors on the sds of the effects.
    scales : tuple of float
        The scale for each effect, if they differ; otherwise empty.
    correlations : float
        The parameter of the LKJ prior on the correlations.
    centered, anchored, within : bool, frozenset of str, str
        See :class:`~pyflowers.programs.formulas.centring.Centring`.
    outer : str
        The column of the group `within`; empty if there is none.
    has_index : bool
        Whether the index belongs to this term, and not to that of another linear predictor.
    """

    name: str
    by: str
    index: str
    terms: Sum
    effects: tuple[str, ...]
    pairs: tuple[str, ...] = ()
    scale: float = 1.0
    scales: tuple[float, ...] = ()
    correlations: float = 1.0
    centered: bool = False
    anchored: frozenset[str] = frozenset()
    within: str = ""
    outer: str = ""
    has_index: bool = True

    @property
    def is_intercept(self) -> bool:
        """Whether the only effect is the intercept."""
        return self.effects == ("Intercept",)


@dataclass(frozen=True)
class LinearPredictor:
    """A linear predictor.

    Attributes
    ----------
    target : Target
        What it predicts.
    meaning : str
        What a coefficient changes, such as ``expected y``.
    rows : str
        Its size in the program: ``N``, or ``D`` for cells of rows that share a value.
    per : str
        The columns of the cells, joined by colons; empty if there are no cells.
    intercept : tuple of (float, float), or None
        The location and the scale of the prior on the intercept; None if there is no intercept.
    population : Population or None
        The terms of the population; None if there are none.
    offsets : tuple of Sum
        The offsets.
    groups : tuple of Group
        The group terms; terms on which others are centred come first.
    is_shifted : bool
        Whether the columns are sampled minus their means, so that the intercept, or the thresholds
        in its place, are those where the terms have their means.
    """

    target: Target
    meaning: str
    rows: str = "N"
    per: str = ""
    intercept: tuple[float, float] | None = None
    population: Population | None = None
    offsets: tuple[Sum, ...] = ()
    groups: tuple[Group, ...] = ()
    is_shifted: bool = False

    @property
    def tag(self) -> str:
        """The end of its variables' names: nothing for ``eta``, and ``_sigma`` for sigma."""
        if self.target == ETA:
            return ""
        return f"_{self.target.name}"


def linear_predictors(
    model: Model, priors: DefaultPriors, parametrisations: Mapping[str, bool]
) -> list[LinearPredictor]:
    """Return the linear predictor of the response and those of other parameters.

    Parameters
    ----------
    model : Model
        The model.
    priors : DefaultPriors
        The default priors.
    parametrisations : mapping of str to bool
        Whether the term of a group is centred, where the user decides this; the terms of other
        parameters are not centred unless they are asked for by their names, such as ``g_sigma``.
    """
    tagged = {its.name for each in model.parameters for its in each.effects}
    own = {name: its for name, its in parametrisations.items() if name not in tagged}
    found = [_of_response(model, priors, own)]
    found += [_of_parameter(each, priors, parametrisations) for each in model.parameters]
    seen = set[str]()
    for i, each in enumerate(found):
        groups = [replace(its, has_index=its.index not in seen) for its in each.groups]
        found[i] = replace(each, groups=tuple(groups))
        seen |= {its.index for its in groups}
    return found


def _of_response(
    model: Model, priors: DefaultPriors, parametrisations: Mapping[str, bool]
) -> LinearPredictor:
    """Return the linear predictor on which the response depends."""
    scale, intercept = priors.scale(model), None
    if model.has_intercept and not model.family.is_ordinal:
        intercept = (priors.location(model), scale)
    return LinearPredictor(
        target=ETA,
        meaning=_meaning(model),
        rows="D" if model.cell else "N",
        per=model.cell,
        intercept=intercept,
        population=_population(model, priors),
        offsets=_offsets(model),
        groups=_groups(model, priors, centrings(model, parametrisations), scale),
        is_shifted=model.has_intercept and bool(model.population),
    )


def _of_parameter(
    model: Model, priors: DefaultPriors, parametrisations: Mapping[str, bool]
) -> LinearPredictor:
    """Return the linear predictor of another parameter of the family."""
    about = model.parameter
    assert about is not None
    assert about.link is not None
    how = [Centring(its, parametrisations.get(its.name, False)) for its in model.effects]
    intercept = None
    if model.has_intercept:
        intercept = priors.intercept(model, about)
    return LinearPredictor(
        target=Target(about.name, about.link.inverse),
        meaning=about.link.meaning.format(about.name),
        intercept=intercept,
        population=_population(model, priors),
        offsets=_offsets(model),
        groups=_groups(model, priors, how, priors.scale_of_parameters),
        is_shifted=model.has_intercept and bool(model.population),
    )


def _offsets(model: Model) -> tuple[Sum, ...]:
    """Return the offsets of a linear predictor."""
    return tuple(_sum(model, f"0 + {expression}", expression) for expression in model.offsets)


def _meaning(model: Model) -> str:
    """Return what a linear predictor is, in words."""
    family, y = model.family, model.formula.response
    if family.is_ordinal and family.link == "logit":
        return f"log odds of a higher {y}"
    if family.is_ordinal:
        return f"latent value of {y}"
    if family.meaning:
        return family.meaning.format(y)
    if family.scale == "log" and family.link == "identity":
        return f"expected log {y}"
    return LINKS[family.link].meaning.format(y)


def _population(model: Model, priors: DefaultPriors) -> Population | None:
    """Return the terms of the population; None if there are none."""
    if not model.population:
        return None
    matrix, columns = model.population_design
    means = tuple(float(f"{mean:.12g}") for mean in matrix.mean(axis=0))
    terms = _sum(model, model.population)
    prior = coefficients(model, priors)
    if prior is None:
        return Population(terms, columns, means)
    scales = tuple(rounded(float(scale)) for scale in prior.scales)
    return Population(terms, columns, means, scales, prior.adjustment)


def _groups(
    model: Model, priors: DefaultPriors, centred: Sequence[Centring], scale: float
) -> tuple[Group, ...]:
    """Return the group terms."""
    by = {its.name: its.term.group for its in model.effects}
    found = []
    for how in centred:
        its = how.effects
        group = Group(
            name=its.name,
            by=its.term.group,
            index=its.index,
            terms=_sum(model, its.terms, its.term.effects),
            effects=its.effects,
            pairs=its.pairs,
            scale=scale,
            scales=scales_of_sds(model, its, priors, scale),
            correlations=priors.correlations,
            centered=how.centered,
            anchored=how.anchored,
            within=how.within,
            outer=by.get(how.within, ""),
        )
        found.append(group)
    return tuple(found)


def _sum(model: Model, terms: str, text: str = "") -> Sum:
    """Return a sum of terms with its source; it is shown as `text`, if that is given."""
    levels = {name: list(its) for name, its in model.levels(terms).items()}
    source = {"terms": terms, "per": model.cell, "levels": levels, "state": model.state(terms)}
    return Sum(text or terms, {key: value for key, value in source.items() if value})
