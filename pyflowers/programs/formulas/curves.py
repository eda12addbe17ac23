"""The parts of curves along a column: smooths, monotonic effects and Gaussian processes.

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

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from pyflowers.programs.formulas.part import Draws, Number, Part, Values, declared
from pyflowers.programs.formulas.predictor import LinearPredictor, Monotonic, Process, Smooth


def smooth(linear: LinearPredictor, its: Smooth) -> Part:
    """Return the part of the curves of a smooth; its lines are terms of the population."""
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
        draw=partial(_draw_smooth, name),
    )
    if its.levels:
        return _with_levels(part, its, name)
    return part


def _with_levels(part: Part, its: Smooth, name: str) -> Part:
    """Give each level of a factor its own curve, with its own standard deviation."""
    s, k, sds, level = f"s_{name}", f"K_s_{name}", f"sds_{name}", f"level_s_{name}"
    num, levels = len(its.levels), f"levels_s_{name}"
    of_column = np.repeat(np.arange(num) + 1, its.num).tolist()
    return replace(
        part,
        data=[
            *part.data,
            f"int<lower=1> N_{level}; // levels of {its.by}",
            f"array[{k}] int<lower=1, upper=N_{level}> {level}; // the level of each column",
        ],
        parameters=[
            f"vector<lower=0>[N_{level}] {sds}; // sds of the curves, one for each level",
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


def monotonic(linear: LinearPredictor, its: Monotonic) -> Part:
    """Return the part of a monotonic effect.

    The effect of level j is that of the lowest level plus the first j - 1 steps. The steps have one
    sign, and the shares of their total have a Dirichlet prior.
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


def process(linear: LinearPredictor, its: Process) -> Part:
    """Return the part of a Gaussian process with a squared exponential covariance.

    It is a sum of sines. The variance of the coefficient of each is the spectral density of the
    process at its frequency.
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
    )


def _draw_smooth(name: str, values: Values, num: int, rng: Generator) -> Draws:
    """Draw the standard deviations and the coefficients of a smooth."""
    level, size = values.get(f"level_s_{name}"), int(values[f"K_s_{name}"])
    shape = (1, num) if level is None else (1, num, int(np.max(level)))
    sds = np.abs(rng.standard_t(3, shape)) * values[f"sds_{name}_scale"]
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
    root = np.sqrt(np.sqrt(2 * np.pi) * length)[..., None]
    root = root * np.exp(-0.25 * np.square(length[..., None] * omega))
    coefficients = sd[..., None] * root * rng.normal(size=(1, num, len(omega)))
    return {f"sdgp_{name}": sd, f"lscale_{name}": length, f"gp_{name}": coefficients}
