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
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from pyflowers.programs.capabilities import Capable, Draws
from pyflowers.programs.data import Data
from pyflowers.programs.densities import PriorDensity, prior_density, value_of
from pyflowers.programs.families import Auxiliary, Family, find_family
from pyflowers.programs.prediction import Predictor, function_of, indices_of, names_of
from pyflowers.programs.source import Variable

FloatArray = NDArray[np.float64]

_INVERSES: Mapping[str, Callable[[Any], Any]] = {"exp": np.log, "log": np.exp, "sqrt": np.square}


class Stating(Capable, Protocol):
    """The attributes of a program that a stated prior uses."""

    @property
    def internal(self) -> frozenset[str]:
        """The quantities that are not part of the results."""

    @property
    def stated_priors(self) -> dict[str, str]:
        """The priors that the declaration states, and those that the program adds to lprior."""

    def kept(self) -> list[str]:
        """Return the quantities whose draws are kept."""

    def prior_of(self, parameter: str, values: Mapping[str, Any]) -> PriorDensity | None:
        """Return the declared prior of a parameter; None if there is none."""


EDGES = (0.05, 0.95)
"""The probabilities of the quantiles in the table of priors."""


def prior_table(program: Stating, values: Mapping[str, Any]) -> pd.DataFrame:
    """Return the priors of a program; see :attr:`pyflowers.Program.priors`.

    Parameters
    ----------
    program : Stating
        The program.
    values : mapping
        The hyperparameters, as variables of the data block.
    """
    declared = program.declaration
    rows = list[dict[str, Any]]()
    for name, its in declared.parameters.items():
        if not its.prior:
            continue
        words = [word for word in re.findall(r"[A-Za-z_]\w*", its.prior) if word in values]
        vector = next((word for word in words if np.ndim(values[word])), "")
        labels = [""]
        if vector:
            labels = [each.removeprefix(vector) for each in declared.prior_elements[vector]]
        for label in labels:
            text = its.prior
            for word in words:
                number = values[word]
                if np.ndim(number):
                    number = np.ravel(number)[labels.index(label)]
                text = re.sub(rf"\b{word}\b", f"{number:g}", text)
            element = f"{name}{label}"
            rows.append(_row(program, element, text, its.description, bool(words), values))
    for name, size in _correlations(program).items():
        # A correlation under LKJ has a beta distribution on (-1, 1); Lewandowski, Kurowicka and
        # Joe (2009), section 2.4.
        eta = float(values[f"{name}_eta"])
        shape = eta - 1 + size / 2
        half = prior_density(f"beta({shape}, {shape})", {})
        assert half.quantile is not None
        low, high = (2 * half.quantile(prob) - 1 for prob in EDGES)
        about = declared.formula
        is_default = about is None or name not in about.stated
        row = _cells(name, f"lkj({eta:g})", low, high, is_default)
        rows.append(row | {"meaning": declared.parameters[name].description})
    for sampled, text in _joint(program).items():
        for word in re.findall(r"[A-Za-z_]\w*", text):
            if word in values:
                numbers = ", ".join(f"{number:g}" for number in np.ravel(values[word]))
                text = re.sub(rf"\b{word}\b", numbers, text)
        name, about = sampled.replace("_at_means", ""), declared.formula
        is_default = about is None or name not in about.stated
        row = _cells(name, text, np.nan, np.nan, is_default)
        rows.append(row | {"meaning": declared.parameters[sampled].description})
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.set_index("parameter")


_COLUMNS = ("parameter", "prior", "5%", "95%", "default", "on the response's scale", "meaning")


def _cells(name: str, text: str, low: float, high: float, is_default: bool) -> dict[str, Any]:
    return {
        "parameter": name,
        "prior": text,
        "5%": low,
        "95%": high,
        "default": "yes" if is_default else "no",
        "on the response's scale": "",
    }


def _row(
    program: Stating,
    element: str,
    text: str,
    meaning: str,
    is_default: bool,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the row of the table for a parameter or for an element of a vector."""
    density = program.prior_of(element, values)
    value, low, high = value_of(text), np.nan, np.nan
    if value is not None:
        low = high = value
    if density is not None and density.quantile is not None:
        low, high = map(density.quantile, EDGES)
    name = element
    if program.declaration.formula is not None:  # as the user names it
        name = element.replace("_at_means", "").replace("b_adjusted", "b")
    row = _cells(name, text, low, high, is_default)
    rule = program.declaration.prediction
    if (
        program.declaration.formula is not None
        and rule is not None
        and value is None
        and np.isfinite([low, high]).all()
    ):
        about = program.declaration.formula.text
        response = about.partition("~")[0].partition("|")[0].strip()
        family = find_family(rule.family)
        # No prediction depends on the parameters of an imputed predictor.
        known = names_of(rule) | {each.name for each in family.auxiliary}
        if name.partition("[")[0] in known:
            row["on the response's scale"] = _implied(name, low, high, family, response)
    return row | {"meaning": meaning}


def _implied(name: str, low: float, high: float, family: Family, response: str) -> str:
    """Return, in words, what the central 90% of a prior implies for the response."""
    kind, target = name.partition("[")[0], f"expected {response}"
    is_log, is_logit = family.link == "log" or family.scale == "log", family.link == "logit"
    own: Auxiliary | None = None
    for each in family.auxiliary:
        if kind == each.name:
            return f"{kind} from {low:.3g} to {high:.3g}"
        if kind.endswith(f"_{each.name}") and each.link is not None:
            own = each
    if own is not None and own.link is not None:
        kind, target = kind.removesuffix(f"_{own.name}"), own.name
        is_log = own.is_predictor or "exp" in own.link.inverse
        if own.is_predictor:  # the coefficient of one category; the description names it
            target = "the odds"
        is_logit = "inv_logit" in own.link.inverse
    if family.is_ordinal and own is None:
        target = f"a higher {response}"
    if kind == "Intercept":
        if own is not None and own.link is not None and not own.is_predictor:
            low, high = (float(own.link.from_linear(np.array(x), 0.0)) for x in (low, high))
        elif is_log:
            low, high = np.exp(low), np.exp(high)
        elif is_logit:
            low, high = 1 / (1 + np.exp(-low)), 1 / (1 + np.exp(-high))
            target = f"probability of {response}" if family.is_discrete else target
        return f"{target} from {low:.3g} to {high:.3g}"
    if kind not in ("b",) and not kind.startswith("sd_"):
        return ""
    change = "changes" if kind == "b" else "typically changes"
    if is_log or is_logit:
        what = f"odds of {target}" if is_logit else target
        return f"{change} {what} by a factor of {np.exp(low):.3g} to {np.exp(high):.3g}"
    return f"{change} {target} by {low:.3g} to {high:.3g}"


def _correlations(program: Stating) -> dict[str, int]:
    """Return the correlations with an LKJ prior in a formula, each with the number of effects."""
    if program.declaration.formula is None:
        return {}
    coords = program.declaration.coords
    names = [
        name
        for name in program.declaration.parameters
        if f"{name}_eta" in program.declaration.priors
    ]
    return {name: len(coords[f"effects_{name.removeprefix('cor_')}"]) for name in names}


def _joint(program: Stating) -> dict[str, str]:
    """Return the priors of the ordered vectors and simplexes of a formula.

    They have no quantiles in the table, because those of an element depend on the other elements.
    """
    if program.declaration.formula is None:
        return {}
    kinds = {name: its.kind for name, its in program.source.blocks.parameters.items()}
    stated = program.stated_priors
    return {n: text for n, text in stated.items() if kinds.get(n) in ("ordered", "simplex")}


class Posed(Protocol):
    """The attributes of a model that a stated prior uses."""

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
    """Return whether a parameter has a declared prior that is the same for all its elements."""
    data = program.source.blocks.data
    text = getattr(program.declaration.parameters.get(variable.name), "prior", "")
    is_bounded = variable.lower is not None and variable.lowest is None
    is_cut = variable.upper is not None and not text.startswith(("beta(", "uniform("))
    by_element = any(word in data and data[word].ndim for word in re.findall(r"\w+", text))
    is_sized = all(size.isdecimal() or size in data for size in variable.sizes)
    is_plain = variable.kind in ("real", "vector") and is_sized and not is_bounded and not is_cut
    return bool(text) and is_plain and not by_element


def _derived(program: Stating) -> dict[str, tuple[Callable[[Any], Any], str]]:
    """Return the quantities that follow from a parameter, each with function and parameter."""
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
            assert prior.draw is not None  # the caller rejects improper priors
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
