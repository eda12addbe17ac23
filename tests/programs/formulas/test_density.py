"""The written programs have brms' log density, in both engines, and NumPy's log likelihood."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from formula_cases import CASES, table
from stanio import dump_stan_json

from pyflowers import Program
from pyflowers.engines.bridge import Interpreted, compiled
from pyflowers.programs.program import read_formula

BRMS = json.loads((Path(__file__).parent / "brms.json").read_text(encoding="utf-8"))
REFERENCE = {case["name"]: case for case in BRMS["cases"]}
FACTOR = {"factornum2": "num2", "factornum3": "num3"}
QUICK = ("slopes", "nested", "zinb", "cumulative")
"""Compiled in the quick tests; the others take 15 s each."""


def written(case, **centered):
    """Return a case's program and its data block, with brms' priors."""
    groups = [group.replace("_", ":") for group in REFERENCE[case.name]["groups"]]
    parametrisations = {group: bool(centered.get(group, False)) for group in groups}
    program, read = read_formula(
        case.formula, table(), family=case.family, centered=parametrisations
    )
    labels = read.coords.get("X", ())
    theirs = [name for name in case.hyperparameters if name.startswith("b_scale[")]
    assert len(labels) == len(theirs) == len(REFERENCE[case.name]["b_labels"])
    named = dict(zip(theirs, (f"b_scale[{label}]" for label in labels), strict=True))
    priors = {named.get(name, name): value for name, value in case.hyperparameters.items()}
    whole, _ = program.fill(read, program.resolve_priors(priors))
    return program, whole


def values_of(program, data, case, point):
    """Return the parameters' values in Stan's order, and log sd of effects that are not z."""
    found, log_sd = [], 0.0
    for name, variable in program.source.blocks.parameters.items():
        kind, _, group = name.partition("_")
        given = point.get(name, point.get(f"{name}_at_means"))
        if name == "Intercept":
            given = point["Intercept_at_means"]
        if kind in ("r", "z"):
            about = REFERENCE[case.name]["groups"][group]
            labels = data.labels[group.replace("_", ":")].names
            order = [about["labels"].index(label.replace(":", "_")) for label in labels]
            given = np.array(point[f"z_{group}"])[:, order]
            if kind == "r":
                given = point[f"sd_{group}"][0] * given[0]
                log_sd += len(order) * np.log(point[f"sd_{group}"][0])
        assert given is not None, name
        found.append(np.ravel(np.asarray(given, dtype=float), order="F"))
    return np.concatenate(found), log_sd


def log_densities(program, data, case, open_density):
    """Return log densities without Jacobians of all points of a case."""
    density = open_density(program.source, dump_stan_json(program.stan_values(data)), 1)
    points = REFERENCE[case.name]["points"]
    found = []
    for point in points:
        values, log_sd = values_of(program, data, case, point)
        unconstrained = density.unconstrain(values[None])
        with_jacobian, _ = density.evaluate(unconstrained, False)
        found.append(with_jacobian[0] - log_jacobian(program, values) + log_sd)
    return np.array(found)


def log_jacobian(program, values):
    raise NotImplementedError
