"""Curves along a column: smooths, monotonic effects and Gaussian processes.

Each kind of curve has a record, which is made from a model or read from the data block of its
program. The part of the model is written from this record. `KINDS` lists the kinds.

References
----------
Wood (2017), Generalized Additive Models, 2nd edition, section 5.8, for a smooth as a line and
curves with normal coefficients. Bürkner and Charpentier (2020), Modelling monotonic effects of
ordinal predictors in Bayesian regression models, British Journal of Mathematical and Statistical
Psychology 73(3), section 2, for monotonic effects. Riutort-Mayol, Bürkner, Andersen, Solin and
Vehtari (2023), Practical Hilbert space approximate Bayesian Gaussian processes for probabilistic
programming, Statistics and Computing 33, section 3, for the approximate process.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
from numpy.random import Generator

from pyflowers.programs.bases import frequencies
from pyflowers.programs.data import Data
from pyflowers.programs.densities import StatedPrior, prior_densities, priors_of_elements
from pyflowers.programs.formulas.centring import is_curve_known
from pyflowers.programs.formulas.given import Stated, bounded, of_elements
from pyflowers.programs.formulas.grammar import CurveTerm
from pyflowers.programs.formulas.model import Model
from pyflowers.programs.formulas.part import (
    Draws,
    Number,
    Part,
    Sum,
    Target,
    Values,
    declared,
    is_density_of_sd,
    vector_priors,
    with_given_draws,
)
from pyflowers.programs.formulas.priors import DefaultPriors, rounded, scale_of_column
from pyflowers.programs.linear import FloatArray, Parameter, Penalised

WIDEST, SHORTEST = 2.0, 1.75
"""Limits between which the prior on the length scale of a process has 98% of its mass.

The unit of the upper limit is half the range of the column. The unit of the lower limit is half the
width of the interval, divided by the number of basis functions.

With k functions on an interval of half width L, length scales shorter than 1.75 L / k cannot be
distinguished (Riutort-Mayol et al. 2023, section 4). Length scales longer than the range give
curves that are nearly straight.
"""


class Predictor(Protocol):
    """What the part for a curve needs from a linear predictor."""

    @property
    def target(self) -> Target:
        """What it predicts."""

    @property
    def parameter(self) -> str:
        """The parameter of the family that it predicts; empty for the response."""

    @property
    def tag(self) -> str:
        """The end of its variables' names."""

    @property
    def rows(self) -> str:
        """Its size in the program."""

    @property
    def meaning(self) -> str:
        """What a coefficient changes."""


@dataclass(frozen=True)
class Defaults:
    """The default priors and the parametrisations of curves.

    Attributes
    ----------
    priors : DefaultPriors
        The default priors.
    scale : float
        The scale of the priors on standard deviations.
    parametrisations : mapping of str to bool
        Whether a smooth, by a name such as ``s_x``, is centred, if the user decides this.
    """

    priors: DefaultPriors
    scale: float
    parametrisations: Mapping[str, bool]


@dataclass(frozen=True)
class Smooth:
    """The penalised curves of a smooth, about its unpenalised lines.

    Attributes
    ----------
    name : str
        The end of its variables' names, without the tag.
    text : str
        The term, as it is shown to users.
    terms : Sum
        The terms with the columns of the curves.
    num : int
        The number of columns of each curve.
    by : str
        The factor whose levels have separate curves; empty if there is one curve.
    levels : tuple of str
        The levels of `by`.
    scale : float
        The scale of the prior on the standard deviations of the curves.
    is_periodic : bool
        Whether the curves have a period.
    centered : bool
        Whether the coefficients are sampled as they are, and not in units of their sds.
    given : tuple of StatedPrior or None
        The prior that the user gives to the sd of each curve; None for the default prior, and
        empty if all have it.
    """

    matrix: ClassVar[str] = "S"
    coefficients: ClassVar[str] = "s"

    name: str
    text: str
    terms: Sum
    num: int
    by: str = ""
    levels: tuple[str, ...] = ()
    scale: float = 1.0
    is_periodic: bool = False
    centered: bool = False
    given: tuple[StatedPrior | None, ...] = ()

    @classmethod
    def of_model(cls, model: Model, curve: CurveTerm, name: str, defaults: Defaults) -> Smooth:
        """Return the smooth for a term of the formula."""
        by, levels = "", tuple[str, ...]()
        if curve.by and model.is_factor(curve.by):
            by = curve.by.strip("`")
            levels = model.levels(curve.terms)[by]
        num = model.design(curve.terms)[0].shape[1] // max(len(levels), 1)
        terms = Sum(str(curve), model.source(curve.terms))
        centered = defaults.parametrisations.get(f"s_{name}{model.tag}")
        if centered is None:
            centered = model.parameter is None and is_curve_known(model, curve.terms)
        scale, is_periodic = defaults.scale, curve.is_periodic
        return cls(name, str(curve), terms, num, by, levels, scale, is_periodic, centered)

    @classmethod
    def of_data(cls, data: Data, curve: CurveTerm, name: str, tag: str) -> Smooth:
        """Return the smooth that a data block describes."""
        levels = data.declaration.coords.get(f"levels_s_{name}{tag}", ())
        num = int(data.values[f"K_s_{name}{tag}"]) // max(len(levels), 1)
        return cls(name, str(curve), Sum(curve.terms, {}), num, curve.by, tuple(levels))

    def with_given(self, stated: Stated, tag: str) -> Smooth:
        """Return the smooth with the priors that the user gives to its sds."""
        sds = f"sds_{self.name}{tag}"
        if sds in stated:
            return replace(self, given=(stated[sds],))
        return replace(self, given=of_elements(stated, sds, len(self.levels)))

    def part(self, linear: Predictor) -> Part:
        """Return the part of the model that has its coefficients."""
        return smooth(linear, self)


@dataclass(frozen=True)
class Monotonic:
    """A monotonic effect of a column with levels in order.

    Attributes
    ----------
    name, text, terms : str, str, Sum
        See :class:`Smooth`.
    column : str
        The column with the levels.
    steps : tuple of str
        The names of the steps between levels.
    scale : float or None
        The sd of the normal prior on the mean step; None for a flat prior.
    """

    matrix: ClassVar[str] = "passed"
    coefficients: ClassVar[str] = "step"

    name: str
    text: str
    terms: Sum
    column: str
    steps: tuple[str, ...]
    scale: float | None = None

    @classmethod
    def of_model(cls, model: Model, curve: CurveTerm, name: str, defaults: Defaults) -> Monotonic:
        """Return the monotonic effect for a term of the formula."""
        column = curve.argument.strip("`")
        levels = model.levels(curve.terms)[column]
        steps = tuple(f"{low} to {high}" for low, high in itertools.pairwise(levels))
        total = model.design(curve.terms)[0].sum(axis=1)
        scale = scale_of_column(model, total, defaults.priors)
        terms = Sum(str(curve), model.source(curve.terms))
        return cls(name, str(curve), terms, column, steps, scale)

    @classmethod
    def of_data(cls, data: Data, curve: CurveTerm, name: str, tag: str) -> Monotonic:
        """Return the monotonic effect that a data block describes."""
        steps = data.declaration.coords[f"steps_{name}{tag}"]
        scale = data.values.get(f"mo_{name}{tag}_scale")
        return cls(name, str(curve), Sum(curve.terms, {}), curve.argument, tuple(steps), scale)

    def with_given(self, stated: Stated, tag: str) -> Monotonic:
        """Return the effect unchanged, because users cannot give it priors."""
        return self

    def part(self, linear: Predictor) -> Part:
        """Return the part of the model that has its coefficients."""
        return monotonic(linear, self)


@dataclass(frozen=True)
class Process:
    """A Gaussian process, approximated by basis functions.

    Attributes
    ----------
    name, text, terms : str, str, Sum
        See :class:`Smooth`.
    column : str
        The column, or the expression, along which the process runs.
    frequencies : tuple of float
        The frequencies of the basis functions.
    scale : float
        The scale of the prior on the standard deviation of the process.
    length : tuple of (float, float)
        The location and the scale of the lognormal prior on the length scale.
    """

    matrix: ClassVar[str] = "Phi"
    coefficients: ClassVar[str] = "gp"

    name: str
    text: str
    terms: Sum
    column: str
    frequencies: tuple[float, ...]
    scale: float = 1.0
    length: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of_model(cls, model: Model, curve: CurveTerm, name: str, defaults: Defaults) -> Process:
        """Return the process for a term of the formula."""
        terms = Sum(str(curve), model.source(curve.terms))
        num = model.design(curve.terms)[0].shape[1]
        state = next(iter(model.state(curve.terms).values()))
        boundary = state["boundary"]
        half = boundary / state["factor"]
        low, high = np.log(SHORTEST * boundary / num), np.log(WIDEST * half)
        length = rounded((low + high) / 2), rounded((high - low) / (2 * 2.326))
        own = tuple(frequencies(num, boundary).tolist())
        return cls(name, str(curve), terms, curve.argument, own, defaults.scale, length)

    @classmethod
    def of_data(cls, data: Data, curve: CurveTerm, name: str, tag: str) -> Process:
        """Return the process that a data block describes."""
        omega = tuple(data.values[f"omega_{name}{tag}"])
        return cls(name, str(curve), Sum(curve.terms, {}), curve.argument, omega)

    def with_given(self, stated: Stated, tag: str) -> Process:
        """Return the process unchanged, because users cannot give it priors."""
        return self

    def part(self, linear: Predictor) -> Part:
        """Return the part of the model that has its coefficients."""
        return process(linear, self)


Curve = Smooth | Monotonic | Process

KINDS: Mapping[str, type[Smooth] | type[Monotonic] | type[Process]] = {
    "s": Smooth,
    "mo": Monotonic,
    "gp": Process,
}
"""The kinds of curves, by their functions in a formula, in the order in which they are sampled."""


def curves_of(model: Model, defaults: Defaults) -> tuple[Curve, ...]:
    """Return the curves of a linear predictor."""
    return tuple(
        kind.of_model(model, curve, name, defaults)
        for function, kind in KINDS.items()
        for curve, name in model.curves
        if curve.function == function
    )


def curves_in(
    data: Data, curves: Sequence[CurveTerm], names: Sequence[str], tag: str
) -> tuple[Curve, ...]:
    """Return the curves of a linear predictor, given the data block."""
    return tuple(
        kind.of_data(data, curve, name, tag)
        for function, kind in KINDS.items()
        for curve, name in zip(curves, names, strict=True)
        if curve.function == function
    )


def switches(model: Model) -> list[str]:
    """Return the names by which the parametrisations of the smooths are chosen."""
    return [f"s_{name}{model.tag}" for curve, name in model.curves if curve.function == "s"]


def smooth(linear: Predictor, its: Smooth) -> Part:
    """Return the part for the curves of a smooth, whose lines are terms of the population."""
    name = f"{its.name}{linear.tag}"
    s, x, k, sds = f"s_{name}", f"S_{name}", f"K_s_{name}", f"sds_{name}"
    curves, switch = f"curves_{name}", f"centered_{s}"
    about = "its mean" if its.is_periodic else "a line"
    scale = f"{sds}_scale"
    number = Number(its.scale, f"scale of the half-t prior on {sds}")
    prior = f"student_t(3, 0, {scale})"
    part = Part(
        target=linear.target,
        data=[
            f"int<lower=1> {k}; // columns of {x}",
            f"matrix[{linear.rows}, {k}] {x}; // {its.text}: its curves about {about}",
            f"int<lower=0, upper=1> {switch}; // 1: sample {s}; 0: sample it standardised",
        ],
        settings=declared({scale: number}),
        parameters=[
            f"real<lower=0> {sds}; // sd of the curve about {about}, in the mean of the rows",
            f"vector<multiplier=({switch} ? 1 : {sds})>[{k}] {s}; // coefficients of the curves",
        ],
        priors={sds: prior},
        model=[f"{s} ~ normal(0, {sds});"],
        eta=f"{x} * {s}",
        sources={x: its.terms.source, switch: {"value": int(its.centered)}},
        numbers={scale: number},
        dims={s: [curves]},
        coords={curves: [str(i + 1) for i in range(its.num)]},
        meanings={
            sds: {"description": f"sd of {its.text} about {about}", "prior": prior},
            s: {"description": f"coefficients of the curves of {its.text}", "log_axis": False},
        },
        predicted=f"{x} * {s}",
        shown=its.text,
        story=f"{its.text} is a smooth curve.",
        draw=partial(_draw_smooth, name, its.given),
    )
    if all(map(is_density_of_sd, its.given)):
        part = replace(part, stated=partial(_smooth_stated, name, its.given, linear.parameter))
    if its.levels:
        return _with_levels(part, its, name)
    if not its.given or its.given[0] is None:
        return part
    given = its.given[0]
    sd, coefficients = part.parameters
    kind = bounded("real", "real<lower=0>", 0.0, given)
    return replace(
        part,
        settings=(),
        numbers={},
        parameters=[sd.replace("real<lower=0>", kind), coefficients],
        priors={sds: given.stan},
        meanings={**part.meanings, sds: {**part.meanings[sds], "prior": str(given)}},
    )


def _with_levels(part: Part, its: Smooth, name: str) -> Part:
    """Give each level of a factor its own curve, with its own standard deviation."""
    s, k, sds, level = f"s_{name}", f"K_s_{name}", f"sds_{name}", f"level_s_{name}"
    num, levels = len(its.levels), f"levels_s_{name}"
    of_column = np.repeat(np.arange(num) + 1, its.num).tolist()
    kind = "vector<lower=0>"
    if its.given:
        about = str(part.meanings[sds]["description"])
        default = part.priors[sds]
        own = vector_priors(sds, its.levels, its.given, default, about, 0.0)
        kind = f"vector<{own.bounds}>"
        meanings = {**part.meanings, **own.meanings}
        if not own.others:
            part = replace(part, settings=(), numbers={})
            meanings[sds] = {"description": about}
        part = replace(part, transformed_data=own.bounds_data, priors=own.priors, meanings=meanings)
    return replace(
        part,
        data=[
            *part.data,
            f"int<lower=1> N_{level}; // levels of {its.by}",
            f"array[{k}] int<lower=1, upper=N_{level}> {level}; // the level of each column",
        ],
        parameters=[
            f"{kind}[N_{level}] {sds}; // sds of the curves, one for each level",
            f"vector<multiplier=to_vector({sds}[{level}] .^ (1 - centered_{s}))>[{k}] {s};",
        ],
        model=[f"{s} ~ normal(0, {sds}[{level}]);"],
        sources={
            **part.sources,
            f"N_{level}": {"value": num},
            level: {"value": of_column},
        },
        dims={**part.dims, sds: [levels]},
        coords={
            levels: list(its.levels),
            f"curves_{name}": [f"{one}:{i + 1}" for one in its.levels for i in range(its.num)],
        },
        story=f"{its.text} is a smooth curve for each level of {its.by}.",
    )


def monotonic(linear: Predictor, its: Monotonic) -> Part:
    """Return the part for a monotonic effect.

    The effect of level j is the effect of the lowest level plus the first j - 1 steps. All steps
    have the same sign, and their shares of the total have a Dirichlet prior.
    """
    name, rows = f"{its.name}{linear.tag}", linear.rows
    mo, k, passed = f"mo_{name}", f"K_mo_{name}", f"passed_{name}"
    share, step = f"share_{name}", f"step_{name}"
    steps = f"steps_{name}"
    of_share = f"parameters of the Dirichlet prior on {share}"
    numbers = {f"{share}_alpha[{name}]": Number(1.0, f"{of_share}: {name}") for name in its.steps}
    settings = [f"vector<lower=0>[{k}] {share}_alpha; // {of_share}"]
    priors = {share: f"dirichlet({share}_alpha)"}
    about = {"description": f"mean step of {its.column}"}
    if its.scale is not None:
        scale = {f"{mo}_scale": Number(its.scale, f"sd of the normal prior on {mo}")}
        numbers, settings = {**scale, **numbers}, [*declared(scale), *settings]
        priors = {mo: f"normal(0, {mo}_scale)", **priors}
        about["prior"] = priors[mo]
    return Part(
        target=linear.target,
        data=[
            f"int<lower=1> {k}; // steps between the levels of {its.column}",
            f"matrix[{rows}, {k}] {passed}; // 1: {its.column} is above the step; 0: it is not",
        ],
        settings=settings,
        parameters=[
            f"real {mo}; // mean step of {its.column}",
            f"simplex[{k}] {share}; // share of each step in the sum of the steps",
        ],
        transformed_parameters=[
            f"vector[{k}] {step}; // steps, all in one direction",
            f"{step} = {k} * {mo} * {share};",
        ],
        priors=priors,
        eta=f"{passed} * {step}",
        sources={passed: its.terms.source},
        numbers=numbers,
        dims={share: [steps], step: [steps], f"{share}_alpha": [steps]},
        coords={steps: list(its.steps)},
        meanings={
            mo: about,
            share: {"description": f"shares of the steps of {its.column}; Dirichlet prior"},
            step: {"description": f"steps of {linear.meaning}", "log_axis": False},
        },
        predicted=f"{passed} * {step}",
        shown=its.text,
        story=f"The effect of {its.column} is monotonic.",
        draw=partial(_draw_monotonic, name),
    )


def process(linear: Predictor, its: Process) -> Part:
    """Return the part for a Gaussian process with a squared exponential covariance.

    The process is a sum of sines. The variance of the coefficient of a sine is the spectral density
    of the process at the frequency of the sine.
    """
    name = f"{its.name}{linear.tag}"
    gp, x, k, omega = f"gp_{name}", f"Phi_{name}", f"K_gp_{name}", f"omega_{name}"
    sd, length = f"sdgp_{name}", f"lscale_{name}"
    numbers = {
        f"{sd}_scale": Number(its.scale, f"scale of the half-t prior on {sd}"),
        f"{length}_location": Number(
            its.length[0], f"location of the lognormal prior on {length}", is_positive=False
        ),
        f"{length}_scale": Number(its.length[1], f"scale of the lognormal prior on {length}"),
    }
    priors = {
        sd: f"student_t(3, 0, {sd}_scale)",
        length: f"lognormal({length}_location, {length}_scale)",
    }
    return Part(
        target=linear.target,
        data=[
            f"int<lower=1> {k}; // basis functions of {its.text}",
            f"matrix[{linear.rows}, {k}] {x}; // sines of {its.column}",
            f"vector<lower=0>[{k}] {omega}; // their frequencies",
        ],
        settings=declared(numbers),
        parameters=[
            f"real<lower=0> {sd}; // sd of the process at one value of {its.column}",
            f"real<lower=0> {length}; // length scale of the process",
            f"vector[{k}] z_{gp}; // standardised coefficients",
        ],
        transformed_parameters=[
            f"vector[{k}] {gp}; // coefficients: z times the root of the spectral density",
            f"{gp} = exp(-0.25 * square({length} * {omega})) .* z_{gp};",
            f"{gp} *= {sd} * sqrt(sqrt(2 * pi()) * {length});",
        ],
        model=[f"z_{gp} ~ std_normal();"],
        priors=priors,
        eta=f"{x} * {gp}",
        sources={x: its.terms.source, omega: {"value": list(its.frequencies)}},
        numbers=numbers,
        dims={gp: [f"sines_{name}"]},
        coords={f"sines_{name}": [str(i + 1) for i in range(len(its.frequencies))]},
        omit=[f"z_{gp}"],
        meanings={
            sd: {"description": f"sd of {its.text}", "prior": priors[sd]},
            length: {"description": f"length scale of {its.text}", "prior": priors[length]},
            gp: {"description": f"coefficients of the sines of {its.text}", "log_axis": False},
        },
        predicted=f"{x} * {gp}",
        shown=its.text,
        story=f"{its.text} is a Gaussian process.",
        draw=partial(_draw_process, name),
        stated=partial(_process_stated, name, linear.parameter),
    )


def _smooth_stated(
    name: str, given: Sequence[StatedPrior | None], target: str, values: Values
) -> Penalised:
    """Return the coefficients of the curves of a smooth."""
    columns, level = (
        np.asarray(values[f"S_{name}"], dtype=np.float64),
        values.get(f"level_s_{name}"),
    )
    of_column = np.zeros(columns.shape[1], dtype=np.int64)
    if level is not None:
        of_column = np.asarray(level) - 1
    sds = f"sds_{name}"
    given = given or (None,) * (int(of_column.max()) + 1)
    priors = priors_of_elements(f"student_t(3, 0, {sds}_scale)", values, given)
    sd = Parameter(sds, priors, lower=0.0, is_scalar=level is None)
    return Penalised(f"s_{name}", columns, (sd,), lambda its: its[sds][:, of_column], target=target)


def _process_stated(name: str, target: str, values: Values) -> Penalised:
    """Return the coefficients of the sines of a process."""
    omega, sd, length = np.asarray(values[f"omega_{name}"]), f"sdgp_{name}", f"lscale_{name}"
    (prior,) = prior_densities(f"student_t(3, 0, {sd}_scale)", values, 1)
    (of_length,) = prior_densities(f"lognormal({length}_location, {length}_scale)", values, 1)
    parameters = (Parameter(sd, (prior,), lower=0.0), Parameter(length, (of_length,), lower=0.0))
    columns = np.asarray(values[f"Phi_{name}"], dtype=np.float64)
    scales = partial(_scales_of_sines, omega, sd, length)
    return Penalised(f"gp_{name}", columns, parameters, scales, target=target)


def _scales_of_sines(
    omega: FloatArray, sd: str, length: str, values: Mapping[str, FloatArray]
) -> FloatArray:
    """Return the square roots of a process's spectral density at frequencies, shape (T, K)."""
    root = values[sd] * np.sqrt(np.sqrt(2 * np.pi) * values[length])
    return np.asarray(root * np.exp(-0.25 * np.square(values[length] * omega)))


def _draw_smooth(
    name: str,
    given: Sequence[StatedPrior | None],
    values: Values,
    num: int,
    rng: Generator,
) -> Draws:
    """Draw the standard deviations and the coefficients of a smooth."""
    level, size = values.get(f"level_s_{name}"), int(values[f"K_s_{name}"])
    shape = (1, num) if level is None else (1, num, int(np.max(level)))
    others = shape
    if given and level is not None:
        others = (1, num, given.count(None))
    sds = np.abs(rng.standard_t(3, others)) * values.get(f"sds_{name}_scale", 1.0)
    if level is not None:
        sds = with_given_draws(sds, given, 0.0, rng)
    elif given and given[0] is not None:
        sds = given[0].draw(rng, shape, 0.0)
    of_column = sds[..., None]
    if level is not None:
        of_column = sds[..., np.asarray(level) - 1]
    return {f"sds_{name}": sds, f"s_{name}": rng.normal(size=(1, num, size)) * of_column}


def _draw_monotonic(name: str, values: Values, num: int, rng: Generator) -> Draws:
    """Draw the mean step of a monotonic effect, and the shares of its steps."""
    size = int(values[f"K_mo_{name}"])
    mean = rng.normal(size=(1, num)) * values[f"mo_{name}_scale"]
    share = rng.dirichlet(values[f"share_{name}_alpha"], (1, num))
    step = size * mean[..., None] * share
    return {f"mo_{name}": mean, f"share_{name}": share, f"step_{name}": step}


def _draw_process(name: str, values: Values, num: int, rng: Generator) -> Draws:
    """Draw the standard deviation, the length scale and the coefficients of a process."""
    omega = np.asarray(values[f"omega_{name}"])
    sd = np.abs(rng.standard_t(3, (1, num))) * values[f"sdgp_{name}_scale"]
    z = rng.normal(size=(1, num))
    length = np.exp(values[f"lscale_{name}_location"] + values[f"lscale_{name}_scale"] * z)
    own = {"sd": sd[..., None], "length": length[..., None]}
    root = _scales_of_sines(omega, "sd", "length", own)
    coefficients = root * rng.normal(size=(1, num, len(omega)))
    return {f"sdgp_{name}": sd, f"lscale_{name}": length, f"gp_{name}": coefficients}
