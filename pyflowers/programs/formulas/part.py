"""A part of a formula's model: a record of what a term or a parameter adds to the program.

The program, its declaration, the draws from its prior and the equation that readers see are
assembled from a list of parts. A new kind of term needs only a function that returns a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.programs.densities import CONSTANT, StatedPrior, tighter
from pyflowers.programs.linear import Stated

FloatArray = NDArray[np.float64]
Values = Mapping[str, Any]
"""The data block, hyperparameters included."""

Draws = dict[str, FloatArray]
"""Draws by quantity, each shaped (1, draw, …)."""


Source = Mapping[str, Any]
"""The source of a variable, as in ``[data]`` of a declaration."""


@dataclass(frozen=True)
class Target:
    """The target of a linear predictor.

    Attributes
    ----------
    name : str
        ``eta``, on which the response depends, or a parameter of the family.
    inverse_link : str
        Stan code for the target, where ``{}`` stands for the sum of terms.
    """

    name: str
    inverse_link: str = "{}"

    def of(self, total: str) -> str:
        """Return Stan code for the target, given Stan code for the sum of terms."""
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
        The source of the columns, as in ``[data]`` of a declaration.
    """

    text: str
    source: Source


def _nothing(*_: object) -> Draws:
    """Return no draws."""
    return {}


@dataclass(frozen=True)
class Number:
    """The default of a hyperparameter.

    Attributes
    ----------
    value : float
        The default value.
    meaning : str
        A description of the hyperparameter.
    is_positive : bool
        Whether it must be above 0.
    """

    value: float
    meaning: str
    is_positive: bool = True


@dataclass(frozen=True)
class Part:
    """Everything that one part of a formula adds to its program, declaration and prior draws.

    Lines are Stan statements, with their comments. Mappings have the names of the program's
    variables as keys.

    Attributes
    ----------
    target : Target or None
        The linear predictor to which the part belongs; None if it belongs to none.
    data, transformed_data, parameters, transformed_parameters, model : sequence of str
        Lines of these blocks.
    settings : sequence of str
        Lines of the data block that declare switches and the numbers in the priors.
    generated_quantities : sequence of str
        Lines of this block.
    priors : mapping of str to str
        The prior of each parameter that counts in ``lprior``, as a distribution in Stan.
    lprior : sequence of str
        Lines that add to ``lprior`` the priors that `priors` cannot state, such as those in a loop.
    eta : str
        The part's summand in the linear predictor; empty if there is none.
    is_constant : bool
        Whether the summand is one number for all rows.
    stands_for : mapping of str to str
        The expression that replaces a parameter of the family in the likelihood; ``{row}`` stands
        for the index of a row.
    likelihood, before_pointwise, pointwise : sequence of str
        Lines of the likelihood and, in the generated quantities, lines before the loop over rows n
        and lines in the loop. They can use the linear predictors.
    sources : mapping of str to Source
        Where the data come from.
    numbers : mapping of str to Number
        The hyperparameters, by element.
    dims, coords : mapping of str to sequence of str
        The dimensions of variables, and the labels of dimensions.
    meanings : mapping of str to mapping
        The entry of each quantity in ``[parameters]``.
    omit : sequence of str
        Quantities that a fit does not keep.
    predicted : str
        The part's summand in the linear predictor of ``[prediction]``; empty if there is none.
    effects : mapping of str to str
        The distribution of effects that differ between labels, as in ``[prediction]``.
    shown : str
        The part's summand in the equation that readers see; empty if there is none.
    story : str
        A sentence about the part; empty if there is none.
    draw : callable
        Function of (values, num, rng) that draws the part's parameters from their priors.
    derive : callable
        Function of (values, draws) that computes quantities from the draws of all parameters.
    stated : callable or None
        Function of the data block that returns what the part adds to a
        :class:`~pyflowers.programs.linear.LinearModel`; None if this cannot be stated.
    """

    target: Target | None = None
    data: Sequence[str] = ()
    settings: Sequence[str] = ()
    transformed_data: Sequence[str] = ()
    parameters: Sequence[str] = ()
    transformed_parameters: Sequence[str] = ()
    model: Sequence[str] = ()
    generated_quantities: Sequence[str] = ()
    priors: Mapping[str, str] = field(default_factory=dict)
    lprior: Sequence[str] = ()
    eta: str = ""
    is_constant: bool = False
    stands_for: Mapping[str, str] = field(default_factory=dict)
    likelihood: Sequence[str] = ()
    before_pointwise: Sequence[str] = ()
    pointwise: Sequence[str] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[str]] = field(default_factory=dict)
    meanings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    omit: Sequence[str] = ()
    predicted: str = ""
    effects: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""
    story: str = ""
    draw: Callable[[Values, int, Generator], Draws] = _nothing
    derive: Callable[[Values, Draws], Draws] = _nothing
    stated: Callable[[Values], Stated] | None = None


@dataclass(frozen=True)
class VectorPriors:
    """The priors of a vector's elements, some of which the user gives.

    Attributes
    ----------
    bounds : str
        The bounds in the type of the elements that are not fixed, such as ``lower=0``; empty if
        there are none.
    bounds_data : sequence of str
        Lines of the transformed data that compute bounds which differ between elements.
    priors : mapping of str to str
        See :class:`Part`.
    others : tuple of int
        The positions, from 0, of the elements with the default prior.
    meanings : mapping of str to mapping
        The entries in ``[parameters]`` of the elements whose priors are given.
    """

    bounds: str
    bounds_data: Sequence[str]
    priors: Mapping[str, str]
    others: tuple[int, ...]
    meanings: Mapping[str, Mapping[str, Any]]


def priors_by_index(given: Sequence[StatedPrior | None], default: str) -> dict[str, str]:
    """Return the priors of a vector's elements that are not fixed, by their index in Stan.

    The index is ``2`` for one element, ``{1, 3}`` for several, and empty for all.

    Parameters
    ----------
    given : sequence of StatedPrior or None
        The prior that the user gives to each element; None for the default prior.
    default : str
        The default prior, as a distribution in Stan; empty if it is flat.
    """
    places = dict[str, list[int]]()
    for i, its in enumerate(given):
        if not is_constant(its):
            places.setdefault(default if its is None else str(its), []).append(i)
    stan = {str(its): its.stan for its in given if its is not None}
    priors = {}
    for text, own in places.items():
        index, listed = "", ", ".join(str(i + 1) for i in own)
        if len(own) == 1 and len(given) > 1:
            index = listed
        elif len(own) < len(given):
            index = f"{{{listed}}}"
        if text:
            priors[index] = stan.get(text, text)
    return priors


def vector_priors(
    name: str,
    labels: Sequence[str],
    given: Sequence[StatedPrior | None],
    default: str,
    meaning: str,
    lower: float | None = None,
    shown: str = "",
) -> VectorPriors:
    """Return the priors of a vector's elements; fixed elements have none.

    Parameters
    ----------
    name : str
        The name of the vector in the program.
    labels : sequence of str
        The names of its elements.
    given : sequence of StatedPrior or None
        The prior that the user gives to each element; None for the default prior.
    default : str
        The default prior, as a distribution in Stan; empty if it is flat.
    meaning : str
        What the elements are.
    lower : float, optional
        The lower bound of the elements.
    shown : str, optional
        The name of the vector in tables. Default: `name`.
    """
    by_index = priors_by_index(given, default)
    priors = {f"{name}[{at}]" if at else name: text for at, text in by_index.items()}
    free = [its for its in given if not is_constant(its)]
    lowers = [lower if its is None else tighter(lower, its.lower, max) for its in free]
    uppers = [None if its is None else its.upper for its in free]
    ends, lines = [], []
    for end, values, none in (
        ("lower", lowers, "negative_infinity()"),
        ("upper", uppers, "positive_infinity()"),
    ):
        texts = [none if value is None else f"{value:.10g}" for value in values]
        if set(texts) <= {none}:
            continue
        if len(set(texts)) == 1:
            ends.append(f"{end}={texts[0]}")
            continue
        about = f"{end} bounds of the elements of {name}"
        lines.append(f"vector[{len(texts)}] {name}_{end} = [{', '.join(texts)}]'; // {about}")
        ends.append(f"{end}={name}_{end}")
    meanings = {
        f"{shown or name}[{label}]": {"description": f"{meaning}: {label}", "prior": str(its)}
        for label, its in zip(labels, given, strict=True)
        if its is not None
    }
    others = tuple(i for i, its in enumerate(given) if its is None)
    return VectorPriors(", ".join(ends), lines, priors, others, meanings)


def with_given_draws(
    others: FloatArray,
    given: Sequence[StatedPrior | None],
    lower: float | None,
    rng: Generator,
) -> FloatArray:
    """Return draws of a vector, given draws of its elements with the default prior."""
    if not given:
        return others
    found = np.empty((*others.shape[:2], len(given)))
    found[..., [i for i, its in enumerate(given) if its is None]] = others
    for i, its in enumerate(given):
        if its is not None:
            found[..., i] = its.draw(rng, others.shape[:2], lower)
    return found


def is_constant(given: StatedPrior | None) -> bool:
    """Whether the user fixes an element at a value."""
    return given is not None and given.name == CONSTANT


def is_density_of_sd(given: StatedPrior | None) -> bool:
    """Whether an sd has the default prior, or a density that covers all values above 0."""
    if given is None:
        return True
    return not is_constant(given) and given.upper is None and (given.lower or 0.0) <= 0


def joined(parts: Iterable[Part], name: str) -> list[str]:
    """Return the lines of all parts for one field."""
    return [line for part in parts for line in getattr(part, name)]


def merged(parts: Iterable[Part], name: str) -> dict[str, Any]:
    """Return the mappings of all parts for one field as one mapping."""
    return {key: value for part in parts for key, value in getattr(part, name).items()}


def targets(parts: Iterable[Part]) -> list[Target]:
    """Return the targets of the linear predictors, each once."""
    return list(dict.fromkeys(part.target for part in parts if part.target is not None))


def summands(parts: Iterable[Part], target: Target, name: str) -> list[str]:
    """Return the summands of a linear predictor for one field, such as ``eta`` or ``shown``."""
    own = (getattr(part, name) for part in parts if part.target == target)
    return [summand for summand in own if summand]


def predictors_first(parts: Iterable[Part]) -> list[Part]:
    """Return the parts in the order of tables: those of linear predictors come first."""
    return sorted(parts, key=lambda part: part.target is None)


def declared(numbers: Mapping[str, Number]) -> list[str]:
    """Return the lines of the data block that declare scalar hyperparameters."""
    lines = []
    for name, its in numbers.items():
        bound = "<lower=0>" if its.is_positive else ""
        lines.append(f"real{bound} {name}; // {its.meaning}")
    return lines
