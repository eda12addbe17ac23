"""The linear predictor of a formula as plain values, with everything that its parts need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyflowers.programs.densities import StatedPrior, read_stated
from pyflowers.programs.families import Auxiliary
from pyflowers.programs.formulas.centring import (
    Centring,
    centrings,
    centrings_asked,
    refuse_unknown_groups,
)
from pyflowers.programs.formulas.curves import Curve, Defaults, curves_of, switches
from pyflowers.programs.formulas.given import Stated, of_elements, with_stated
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.part import ETA, Sum, Target
from pyflowers.programs.formulas.priors import (
    DefaultPriors,
    auxiliary_parameters,
    coefficients,
    rounded,
    scales_of_sds,
)


@dataclass(frozen=True)
class Population:
    """The terms of the population, without the intercept.

    Attributes
    ----------
    terms : Sum
        The sum of terms.
    columns : tuple of str
        The names of the columns that the terms give.
    means : tuple of float
        The columns' means.
    scales : tuple of float
        The sds of the normal priors on the coefficients that are sampled; empty for flat priors.
    adjustment : array, shape (K, K), or None
        See :class:`~pyflowers.programs.formulas.coefficients.CoefficientPrior`.
    given : tuple of StatedPrior or None
        The prior that the user gives to each coefficient; None for one with the normal prior, and
        empty if all have it. `scales` has only the scales of the normal priors.
    """

    terms: Sum
    columns: tuple[str, ...]
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    adjustment: NDArray[np.float64] | None = None
    given: tuple[StatedPrior | None, ...] = ()


@dataclass(frozen=True)
class Group:
    """A group term.

    Attributes
    ----------
    name : str
        The name of the group in the program, with which the names of its variables end.
    by : str
        The column of its labels.
    index : str
        The name of the variable with each row's label.
    terms : Sum
        The terms whose coefficients vary.
    effects : tuple of str
        The effects that vary.
    pairs : tuple of str
        The pairs of effects that are correlated.
    scale : float
        The scale of the priors on the sds of the effects.
    scales : tuple of float
        The scale for each effect, if the scales differ; otherwise empty.
    correlations : float
        The parameter of the LKJ prior on the correlations.
    centered, anchored, within : bool, frozenset of str, str
        See :class:`~pyflowers.programs.formulas.centring.Centring`.
    outer : str
        The column of the group `within`; empty if there is none.
    has_index : bool
        Whether the index belongs to this term, and not to a term of another linear predictor.
    factor : str
        The column whose levels have standard deviations and correlations of their own; empty if
        there is none.
    levels : tuple of str
        The levels of `factor`.
    is_student : bool
        Whether the effects have a Student t distribution.
    labels : tuple of str
        The labels, in the order of `covariance`.
    covariance : array, shape (L, L), or None
        The known covariance of the labels, up to a factor.
    members, weights, is_scaled : tuple of str, tuple of str, bool
        See :class:`~pyflowers.programs.formulas.grammar.GroupTerm`.
    given : tuple of StatedPrior or None
        The prior that the user gives to each sd: one for each effect or, level by level, one for
        each effect in each level; see :class:`Population`.
    given_correlations : tuple of StatedPrior or None
        The prior that the user gives to each correlation; empty if all have the LKJ prior.
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
    factor: str = ""
    levels: tuple[str, ...] = ()
    is_student: bool = False
    labels: tuple[str, ...] = ()
    covariance: NDArray[np.float64] | None = None
    members: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    is_scaled: bool = True
    given: tuple[StatedPrior | None, ...] = ()
    given_correlations: tuple[StatedPrior | None, ...] = ()

    @property
    def given_correlation(self) -> StatedPrior | None:
        """The prior that the user gives to the only correlation."""
        return self.given_correlations[0] if len(self.given_correlations) == 1 else None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the array of sds: the number of levels, of effects, or both."""
        if not self.levels:
            return (len(self.effects),)
        if self.is_intercept:
            return (len(self.levels),)
        return len(self.levels), len(self.effects)

    @property
    def dim(self) -> str:
        """The column whose labels are the dimension of the effects."""
        return self.members[0] if self.members else self.by

    @property
    def indices(self) -> list[str]:
        """The names of the index variables: one, or one for each member of a row."""
        return [f"{self.index}_{i}" for i in range(1, len(self.members) + 1)] or [self.index]

    @property
    def weight_names(self) -> list[str]:
        """The names of the variables for the members' weights."""
        return [f"weight_{self.name}_{i}" for i in range(1, len(self.weights) + 1)]

    def shares(self, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the index of each member of a row and its weight: a number, or one for each row.

        Parameters
        ----------
        values : mapping of str to array
            The data block.
        """
        weights: list[Any] = [1 / len(self.indices)] * len(self.indices)
        if self.weights:
            weights = [np.asarray(values[name], dtype=np.float64) for name in self.weight_names]
        if self.weights and self.is_scaled:
            total = np.sum(weights, axis=0)
            weights = [own / total for own in weights]
        return list(zip(self.indices, weights, strict=True))

    @property
    def is_intercept(self) -> bool:
        """Whether the only effect is the intercept."""
        return self.effects == ("Intercept",)


@dataclass(frozen=True)
class Imputed:
    """A predictor of the response that is imputed where it is missing.

    Attributes
    ----------
    column : str
        Its column.
    position : int
        Its place among the columns of X, from 1.
    sigma : Auxiliary
        The standard deviation of its residuals.
    """

    column: str
    position: int
    sigma: Auxiliary


@dataclass(frozen=True)
class LinearPredictor:
    """A linear predictor.

    Attributes
    ----------
    target : Target
        What it predicts.
    meaning : str
        The quantity that a coefficient changes, such as ``expected y``.
    rows : str
        Its size in the program: ``N``, or ``D`` for cells of rows that share a value.
    per : str
        The columns of the cells, joined by colons; empty if there are no cells.
    intercept : tuple of (float, float), or None
        The location and the scale of the prior on the intercept; None if there is no intercept.
    population : Population or None
        The terms of the population; None if there are none.
    offsets : tuple of Sum
        The offsets, terms whose coefficient is 1.
    curves : tuple of Curve
        The smooths, monotonic effects and processes.
    groups : tuple of Group
        The group terms; terms on which others are centred come first.
    is_shifted : bool
        Whether the columns are used minus their means. The intercept, or the thresholds in its
        place, are then sampled for terms at their means.
    given_intercept : StatedPrior or None
        The prior that the user gives to the intercept.
    imputed : Imputed or None
        The predictor whose values it predicts; None if it predicts the response or a parameter of
        the family.
    """

    target: Target
    meaning: str
    rows: str = "N"
    per: str = ""
    intercept: tuple[float, float] | None = None
    population: Population | None = None
    offsets: tuple[Sum, ...] = ()
    curves: tuple[Curve, ...] = ()
    groups: tuple[Group, ...] = ()
    is_shifted: bool = False
    given_intercept: StatedPrior | None = None
    imputed: Imputed | None = None

    @property
    def parameter(self) -> str:
        """The parameter of the family that it predicts; empty if it predicts the response."""
        return "" if self.target == ETA else self.target.name

    @property
    def tag(self) -> str:
        """The end of its variables' names: nothing for ``eta``, and ``_sigma`` for sigma."""
        if self.target == ETA:
            return ""
        return f"_{self.target.name}"


def linear_predictors(
    model: Model,
    priors: DefaultPriors,
    parametrisations: Mapping[str, bool],
    stated: Stated | None = None,
) -> list[LinearPredictor]:
    """Return the linear predictors of the response and of other parameters.

    Parameters
    ----------
    model : Model
        The model.
    priors : DefaultPriors
        The default priors.
    parametrisations : mapping of str to bool
        Whether a term is centred, if the user decides this, by the name of its group or, for a
        smooth, by a name such as ``s_x``. Terms of other parameters are centred only if they are
        requested by a name such as ``g_sigma``.
    stated : mapping of str to StatedPrior, optional
        The priors that the user gives, by element.
    """
    stated = stated or {}
    others = (*model.parameters, *model.imputed)
    tagged = {its.name for each in others for its in each.effects}
    tagged |= {name for each in others for name in switches(each)}
    own = {name: its for name, its in parametrisations.items() if name not in tagged}
    found = list[LinearPredictor]()
    if model.family.has_categories:
        refuse_unknown_groups(model, own)
    else:
        found.append(_of_response(model, priors, own, stated))
    for parameter in model.parameters:
        written = _of_response if parameter.predicts_response else _of_parameter
        found.append(written(parameter, priors, parametrisations, stated))
    for its in model.imputed:
        found.append(_of_imputed(model, its, priors, parametrisations, stated))
    found = [with_given(each, stated) for each in found]
    seen = set[str]()
    for i, each in enumerate(found):
        groups = [replace(its, has_index=its.index not in seen) for its in each.groups]
        found[i] = replace(each, groups=tuple(groups))
        seen |= {its.index for its in groups}
    return found


def with_given(linear: LinearPredictor, stated: Stated) -> LinearPredictor:
    """Return a linear predictor with the priors that the user gives."""
    tag, population, groups = linear.tag, linear.population, list[Group]()
    if population is not None:
        own = of_elements(stated, f"b{tag}", len(population.columns))
        population = replace(population, given=own)
    for its in linear.groups:
        correlations = stated.get(f"cor_{its.name}")
        group = replace(
            its,
            given=of_elements(stated, f"sd_{its.name}", *its.sizes),
            given_correlations=of_elements(stated, f"cor_{its.name}", len(its.pairs)),
        )
        if correlations is not None:
            group = replace(group, correlations=correlations.arguments[0])
        groups.append(group)
    return replace(
        linear,
        population=population,
        groups=tuple(groups),
        curves=tuple(its.with_given(stated, tag) for its in linear.curves),
        given_intercept=stated.get(f"Intercept{tag}", linear.given_intercept),
    )


def _of_response(
    model: Model,
    priors: DefaultPriors,
    parametrisations: Mapping[str, bool],
    stated: Stated,
) -> LinearPredictor:
    """Return the linear predictor on which the response depends, or one of several."""
    scale, intercept, target = priors.scale(model), None, ETA
    if model.parameter is None and not model.imputes:
        of_curves = switches(model)
        of_groups = {name: its for name, its in parametrisations.items() if name not in of_curves}
        centred = centrings(model, of_groups)
    else:
        centred = centrings_asked(model, parametrisations)
    if model.parameter is not None:
        target = Target(model.parameter.name)
    if model.has_intercept and not model.family.is_ordinal:
        intercept = (priors.location(model), scale)
    return LinearPredictor(
        target=target,
        meaning=_meaning(model),
        rows="D" if model.cell else "N",
        per=model.cell,
        intercept=intercept,
        population=_population(model, priors, stated),
        offsets=_offsets(model),
        curves=curves_of(model, Defaults(priors, scale, parametrisations)),
        groups=_groups(model, priors, centred, scale),
        is_shifted=model.has_intercept and bool(model.population),
    )


def _of_imputed(
    model: Model,
    its: Model,
    priors: DefaultPriors,
    parametrisations: Mapping[str, bool],
    stated: Stated,
) -> LinearPredictor:
    """Return the linear predictor of a predictor that is imputed."""
    linear = _of_response(its, priors, parametrisations, stated)
    (sigma,) = auxiliary_parameters(its.family, priors, its)
    column = its.formula.response
    sigma = replace(sigma, name=f"sigma{its.tag}", description=f"residual sd of {column}")
    (sigma,) = with_stated([sigma], stated)
    position = model.population_design[1].index(column) + 1
    return replace(linear, target=Target(its.imputes), imputed=Imputed(column, position, sigma))


def _of_parameter(
    model: Model,
    priors: DefaultPriors,
    parametrisations: Mapping[str, bool],
    stated: Stated,
) -> LinearPredictor:
    """Return the linear predictor of another parameter of the family."""
    about = model.parameter
    assert about is not None
    assert about.link is not None
    how = centrings_asked(model, parametrisations)
    intercept = None
    if model.has_intercept:
        intercept = priors.intercept(model, about)
    return LinearPredictor(
        target=Target(about.name, about.link.inverse),
        meaning=about.link.meaning.format(about.name),
        intercept=intercept,
        population=_population(model, priors, stated),
        offsets=_offsets(model),
        curves=curves_of(model, Defaults(priors, priors.scale_of_parameters, parametrisations)),
        groups=_groups(model, priors, how, priors.scale_of_parameters),
        is_shifted=model.has_intercept and bool(model.population),
        given_intercept=default_intercept(priors, about.name),
    )


def default_intercept(priors: DefaultPriors, parameter: str) -> StatedPrior | None:
    """Return the default prior on the intercept of another parameter; None for a t distribution."""
    own = priors.intercepts.get(parameter)
    return None if own is None else read_stated(f"Intercept_{parameter}", own)


def _offsets(model: Model) -> tuple[Sum, ...]:
    """Return the offsets of a linear predictor."""
    return tuple(_sum(model, f"0 + {expression}", expression) for expression in model.offsets)


def _meaning(model: Model) -> str:
    """Return a description of a linear predictor in words."""
    family, y = model.family, model.formula.response
    if model.parameter is not None:
        place = family.predictors.index(model.parameter.name) + 1
        return f"log odds of {model.categories[place]} against {model.categories[0]}"
    if family.is_ordinal and family.link == "logit":
        return f"log odds of a higher {y}"
    if family.is_ordinal:
        return f"latent value of {y}"
    if family.meaning:
        return family.meaning.format(y)
    if family.scale == "log" and family.link == "identity":
        return f"expected log {y}"
    return family.link_in_words.format(y)


def _population(model: Model, priors: DefaultPriors, stated: Stated) -> Population | None:
    """Return the terms of the population; None if there are none."""
    if not model.population:
        return None
    matrix, columns = model.population_design
    means = tuple(float(f"{mean:.12g}") for mean in matrix.mean(axis=0))
    terms = _sum(model, model.population)
    own = of_elements(stated, f"b{model.tag}", len(columns))
    given = [i for i, its in enumerate(own) if its is not None]
    if len(given) == len(columns):
        return Population(terms, columns, means)
    prior = coefficients(model, priors, given)
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
        its, labels, covariance, levels = how.effects, tuple[str, ...](), None, tuple[str, ...]()
        if its.term.covariance:
            labels, covariance = model.covariance(its.term)
        if its.term.by:
            levels = model.levels_of(its.term.by)
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
            factor=its.term.by,
            levels=levels,
            is_student=its.term.is_student,
            labels=labels,
            covariance=covariance,
            members=its.term.members,
            weights=its.term.weights,
            is_scaled=its.term.is_scaled,
        )
        found.append(group)
    return tuple(found)


def _sum(model: Model, terms: str, text: str = "") -> Sum:
    """Return a sum of terms with its source; it is shown as `text`, if that is given."""
    return Sum(text or terms, model.source(terms))
