"""The prior as the declaration states it: draws from it, and its log density.

A prior is stated if every parameter has a declared prior with arguments from the data, such as
``[parameters.mu] prior = "normal(m, s)"``, or is an effect of groups with a population in
``[prediction]``. A quantity of which a parameter is a function, such as ``mu`` in
``where = { log_mu = "log(mu)" }``, follows from the parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.programs.capabilities import Capable, Draws
from pyflowers.programs.data import Data
from pyflowers.programs.densities import PriorDensity
from pyflowers.programs.prediction import Predictor, function_of, indices_of
from pyflowers.programs.source import Variable

FloatArray = NDArray[np.float64]

_INVERSES: Mapping[str, Callable[[Any], Any]] = {"exp": np.log, "log": np.exp, "sqrt": np.square}


class Stating(Capable, Protocol):
    """What a stated prior asks of a program."""

    @property
    def internal(self) -> frozenset[str]:
        """The quantities that are not part of the results."""

    def kept(self) -> list[str]:
        """Return the quantities whose draws are kept."""

    def prior_of(self, parameter: str, values: Mapping[str, Any]) -> PriorDensity | None:
        """Return the declared prior of a parameter; None if there is none."""


class Posed(Protocol):
    """What a stated prior asks of a model."""

    @property
    def program(self) -> Stating:
        """The program."""

    @property
    def data(self) -> Data:
        """The whole data block."""

    def predictor(self, draws: Draws) -> Predictor:
        """Return the predictions of the rows of the data block."""


def is_stated(program: Stating) -> bool:
    """Return whether the declaration states the prior of everything that a draw contains."""
    parameters, populations = program.source.blocks.parameters, _populations(program)
    every = all(
        name in populations or _has_prior(program, variable)
        for name, variable in parameters.items()
    )
    kept = {*program.kept()} - program.internal
    return bool(parameters) and every and kept <= {*parameters, *_derived(program)}


def _populations(program: Stating) -> dict[str, str]:
    """Return the index of each parameter that has a population in ``[prediction]``."""
    rule, parameters = program.declaration.prediction, program.source.blocks.parameters
    if rule is None:
        return {}
    return {n: i for n, i in indices_of(rule) if n in rule.effects and n in parameters}


def _has_prior(program: Stating, variable: Variable) -> bool:
    """Return whether a parameter's prior is declared, for each of its elements the same."""
    data = program.source.blocks.data
    text = getattr(program.declaration.parameters.get(variable.name), "prior", "")
    is_bounded = variable.lower is not None and variable.lowest is None
    is_cut = variable.upper is not None and not text.startswith(("beta(", "uniform("))
    by_element = any(word in data and data[word].ndim for word in re.findall(r"\w+", text))
    is_sized = all(size.isdecimal() or size in data for size in variable.sizes)
    is_plain = variable.kind in ("real", "vector") and is_sized and not is_bounded and not is_cut
    return bool(text) and is_plain and not by_element


def _derived(program: Stating) -> dict[str, tuple[Callable[[Any], Any], str]]:
    """Return the quantities that follow from a parameter, each with the function and it."""
    rule = program.declaration.prediction
    if rule is None:
        return {}
    found = {}
    for name, text in rule.where.items():
        function, argument = function_of(text)
        if name in program.source.blocks.parameters and function in _INVERSES:
            found[argument] = _INVERSES[function], name
    return found


def prior_draws(model: Posed, num_draws: int, rng: Generator) -> dict[str, FloatArray]:
    """Draw everything that a draw contains from the stated prior, shape (1, num_draws, …)."""
    program, values = model.program, model.data.values
    populations, found = _populations(program), dict[str, FloatArray]()
    parameters = program.source.blocks.parameters
    shapes = {
        name: tuple(int(values.get(size, size)) for size in variable.sizes)
        for name, variable in parameters.items()
    }
    for name, shape in shapes.items():
        if name in populations:
            continue
        prior = program.prior_of(name, values)
        if prior is not None:
            assert prior.draw is not None  # the caller refuses improper priors
            found[name] = prior.draw(rng, (1, num_draws, *shape))
    for name, index in populations.items():
        # The rule reads the shape of the effects from their draws.
        shape = (1, num_draws, *shapes[name])
        predictor = model.predictor({**found, name: np.zeros(shape)})
        found[name] = predictor.drawn(name, index, shape[2], rng)
    with np.errstate(over="ignore"):  # what overflows is infinite
        return found | {n: np.asarray(f(found[of])) for n, (f, of) in _derived(program).items()}


def log_prior(model: Posed, draws: Draws) -> FloatArray:
    """Return the log density of the declared priors, shape (chain, draw).

    Flat priors add nothing. The distribution of group effects, given their population, belongs to
    the model and is not included.
    """
    total: Any = 0.0
    for name in model.program.source.blocks.parameters:
        prior = model.program.prior_of(name, model.data.values)
        if prior is not None and prior.log_density is not None:
            values = prior.log_density(draws[name])
            total = total + values.reshape(*values.shape[:2], -1).sum(axis=-1)
    lead = next(iter(draws.values())).shape[:2]
    return np.array(np.broadcast_to(total, lead))
