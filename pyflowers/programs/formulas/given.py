"""The priors that a user gives, such as ``b[x] ~ normal(0.5, 0.2)``, and their parameters.

A prior belongs to one element, ``b[x]``; to a vector, ``b`` or ``sd_g``; to all sds or all
correlations of group effects, ``sd`` or ``cor``; or to all sds of smooths, ``sds``. The more
specific prior takes precedence. In the linear predictor of another parameter, names end with the
name of the parameter: ``b_sigma[x]``, ``sd_sigma``.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pyflowers.errors import ConfigError
from pyflowers.programs.densities import CONSTANT, LKJ, StatedPrior, read_stated
from pyflowers.programs.families import Auxiliary
from pyflowers.programs.formulas.model import Effects, Model
from pyflowers.text import in_words, suggestion

Stated = Mapping[str, StatedPrior]
"""Priors by the element in the program, such as ``b[2]`` or ``sigma``."""


@dataclass(frozen=True)
class _Element:
    """A parameter, or an element of one, that can be given a prior.

    Attributes
    ----------
    name : str
        Its name for users, such as ``b[x]``.
    place : str
        Its name in the program, such as ``b[2]``.
    classes : tuple of str
        Its other names, the most specific first.
    lower, upper : float or None
        Its bounds.
    remedy : str
        What to write instead of a fixed value; empty if it can be fixed.
    refusal : str
        Why it has no prior of its own, and what to write instead; empty if it can be given one.
    """

    name: str
    place: str
    classes: tuple[str, ...] = ()
    lower: float | None = None
    remedy: str = ""
    upper: float | None = None
    refusal: str = ""

    def names(self) -> tuple[str, ...]:
        """Return the names of the element, the most specific first."""
        return self.name, *self.classes


def stated_priors(given: Mapping[str, str], model: Model) -> dict[str, StatedPrior]:
    """Return the priors that a user gives, by element in the program.

    Parameters
    ----------
    given : mapping of str to str
        The priors as text, by the user's name for the parameter.
    model : Model
        The model.

    Raises
    ------
    ConfigError
        If the formula has no parameter with a given name, or the prior does not suit it.
    """
    elements, found = list(_elements(model)), dict[str, tuple[int, StatedPrior]]()
    known = dict.fromkeys(name for each in elements for name in each.names())
    for name, text in given.items():
        own = [each for each in elements if name in each.names()]
        if not own:
            hint = suggestion(name, list(known))
            raise ConfigError(f"prior {name} ~ {text}: the formula has no {name}; {hint}")
        prior = read_stated(name, text)
        for each in own:
            _refuse_unsuitable(prior, name, text, each, len(own))
            rank = each.names().index(name)
            if each.place not in found or rank < found[each.place][0]:
                found[each.place] = rank, prior
    for predictor in _predictors_of(model):
        for its in predictor.effects:
            _refuse_apart(its, found)
    return {place: prior for place, (_, prior) in found.items()}


def _refuse_apart(its: Effects, found: Collection[str]) -> None:
    """Reject priors on single correlations that do not share an effect.

    The correlations of one effect with others are independent under the LKJ prior, so that each can
    have a prior of its own; other correlations are not.
    """
    pairs = itertools.combinations(its.effects, 2)
    places = (f"cor_{its.name}[{i}]" for i in itertools.count(1))
    given = [pair for pair, place in zip(pairs, places, strict=False) if place in found]
    if len(given) > 1 and not set[str].intersection(*map(set, given)):
        names = [f"cor_{its.name}[{','.join(pair)}]" for pair in given]
        raise ConfigError(
            f"priors of {in_words(names)}: correlations with priors of their own must share an "
            f"effect, because only the correlations of one effect with the others can vary "
            f"independently; give priors only to correlations of {given[0][0]}"
        )


def _predictors_of(model: Model) -> tuple[Model, ...]:
    """Return the models of all linear predictors."""
    if model.family.has_categories:
        return model.parameters
    return (model, *model.parameters, *model.imputed)


def _elements(model: Model) -> Iterator[_Element]:
    """Yield everything that can be given a prior."""
    for each in _predictors_of(model):
        # A quantity that exists for every category also has a name without the category.
        of_all = each.parameter is not None and each.parameter.is_predictor
        tag = each.tag
        if each.has_intercept and not (each.family.is_ordinal and each.parameter is None):
            classes = ("Intercept",) * of_all
            yield _Element(f"Intercept{tag}", f"Intercept{tag}", classes)
        for i, column in enumerate(each.population_design[1], 1):
            classes = (f"b{tag}", *(f"b[{column}]", "b") * of_all)
            yield _Element(f"b{tag}[{column}]", f"b{tag}[{i}]", classes)
        for its in each.effects:
            yield from _sds(each, its, of_all)
            if its.pairs:
                yield from _correlations(each, its, of_all)
        for curve, name in each.curves:
            if curve.function != "s":
                continue
            sds, remedy, levels = f"sds_{name}{tag}", "give it a density", tuple[str, ...]()
            if curve.by and each.is_factor(curve.by):
                levels = each.levels(curve.terms)[curve.by.strip("`")]
            if not levels:
                yield _Element(sds, sds, (f"sds{tag}",), 0.0, remedy)
            for i, level in enumerate(levels, 1):
                yield _Element(f"{sds}[{level}]", f"{sds}[{i}]", (sds, f"sds{tag}"), 0.0, remedy)
    for each in model.imputed:
        yield _Element(f"sigma{each.tag}", f"sigma{each.tag}", (), 0.0)
    predicted = {each.predicts for each in model.formula.parameters}
    for about in model.family.auxiliary:
        if about.name not in predicted and about.given is None:
            is_known = about.declared.startswith("real") and not np.isnan(about.bounds).any()
            remedy = "" if is_known else "give it a density"
            yield _Element(about.name, about.name, (), about.lower, remedy)


def _sds(model: Model, its: Effects, of_all: bool) -> Iterator[_Element]:
    """Yield the sds of a group term: one for each effect, or for each effect in each level."""
    sd = f"sd_{its.name}"
    classes = sd, f"sd{model.tag}", *("sd",) * of_all
    if not its.term.by:
        for i, effect in enumerate(its.effects, 1):
            yield _Element(f"{sd}[{effect}]", f"{sd}[{i}]", classes, 0.0)
        return
    for i, level in enumerate(model.levels_of(its.term.by), 1):
        for j, effect in enumerate(its.effects, 1):
            name, place = f"{sd}[{level},{effect}]", f"{sd}[{i},{j}]"
            if its.is_intercept:
                name, place = f"{sd}[{level}]", f"{sd}[{i}]"
            yield _Element(name, place, (f"{sd}[{effect}]", *classes), 0.0)


def _correlations(model: Model, its: Effects, of_all: bool) -> Iterator[_Element]:
    """Yield the correlations of a group term; those of all levels share one prior."""
    cor = f"cor_{its.name}"
    classes = f"cor{model.tag}", *("cor",) * of_all
    if its.term.by:
        refusal = f"the correlations in all levels of {its.term.by} share a prior; write {cor} ~ "
        levels = ("", *(f"{level}," for level in model.levels_of(its.term.by)))
        for level, pair in itertools.product(levels, its.pairs):
            name = f"{cor}[{level}{pair}]"
            yield _Element(name, name, refusal=f"{refusal}{LKJ}(2)")
    else:
        alone = ""
        if len(its.pairs) > 1:
            alone = "give it a narrow density, such as normal(0.4, 0.05)"
        for i, pair in enumerate(its.pairs, 1):
            yield _Element(f"{cor}[{pair}]", f"{cor}[{i}]", (), -1.0, alone, 1.0)
    remedy = "write || instead of | for effects without correlations"
    yield _Element(cor, cor, classes, -1.0, remedy)


def _refuse_unsuitable(prior: StatedPrior, name: str, text: str, its: _Element, num: int) -> None:
    """Reject a prior that does not suit its parameter."""
    about = f"prior {name} ~ {text}: "
    if its.refusal:
        raise ConfigError(f"{about}{its.refusal}")
    is_matrix = its.place.startswith("cor") and not its.place.endswith("]")
    if (prior.name == LKJ) != is_matrix:
        what = f"{LKJ}(…) is a prior for the correlations of a group; give {name} a density"
        if is_matrix:
            what = f"correlations have the prior {LKJ}(…); write {name} ~ {LKJ}(2)"
        raise ConfigError(f"{about}{what}")
    is_correlation = its.place.startswith("cor") and not is_matrix
    if is_correlation and not (prior.lower is None and prior.upper is None):
        raise ConfigError(
            f"{about}a correlation lies between -1 and 1, and its density cannot be truncated "
            "further; give a density without bounds, such as normal(0, 0.5)"
        )
    if prior.name == CONSTANT:
        if its.remedy:
            raise ConfigError(f"{about}{its.name} cannot be fixed; {its.remedy}")
        if its.lower is not None and prior.arguments[0] <= its.lower:
            raise ConfigError(f"{about}{its.name} must be above {its.lower:g}; give another value")
        if its.upper is not None and prior.arguments[0] >= its.upper:
            raise ConfigError(f"{about}{its.name} must be below {its.upper:g}; give another value")
        return
    if its.lower is not None and prior.upper is not None and prior.upper <= its.lower:
        raise ConfigError(
            f"{about}{its.name} must be above {its.lower:g}, where this density is 0; give another "
            "density"
        )


def of_elements(stated: Stated, name: str, *sizes: int) -> tuple[StatedPrior | None, ...]:
    """Return the given prior of each element of an array, by row; empty if there is none."""
    places = itertools.product(*(map(str, range(1, size + 1)) for size in sizes))
    found = tuple(stated.get(f"{name}[{','.join(place)}]") for place in places)
    return found if any(found) else ()


def with_stated(auxiliary: Sequence[Auxiliary], stated: Stated) -> tuple[Auxiliary, ...]:
    """Return the other parameters of a family with the priors that are given to them."""
    found = []
    for each in auxiliary:
        prior = stated.get(each.name)
        if prior is not None:
            if prior.name == CONSTANT:
                each = replace(each, given=prior.arguments[0])
            else:
                declared = each.declared
                if each.declared.startswith("real") and not np.isnan(each.bounds).any():
                    declared = bounded("real", each.declared, each.lower, prior)
                each = replace(each, prior=str(prior), values={}, declared=declared)
        found.append(each)
    return tuple(found)


def bounded(kind: str, declared: str, lower: float | None, prior: StatedPrior) -> str:
    """Return a Stan type with the bounds of a prior, or `declared` if they are not tighter."""
    ends = {}
    if prior.lower is not None and (lower is None or prior.lower > lower):
        ends["lower"] = prior.lower
    upper = 1.0 if "upper=1" in declared else None
    if prior.upper is not None and (upper is None or prior.upper < upper):
        ends["upper"] = prior.upper
    if not ends:
        return declared
    if lower is not None:
        ends.setdefault("lower", lower)
    if upper is not None:
        ends.setdefault("upper", upper)
    return f"{kind}<{', '.join(f'{key}={ends[key]:.10g}' for key in sorted(ends))}>"
