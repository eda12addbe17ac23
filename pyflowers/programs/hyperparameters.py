"""Hyperparameters: a program's defaults, what was given instead, and what makes a prior proper."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pyflowers.errors import ConfigError
from pyflowers.programs.data import Data
from pyflowers.programs.declaration import Prior

if TYPE_CHECKING:
    from pyflowers.programs.program import Program


def resolve_priors(
    program: Program, given: Mapping[str, float] | None, data: Data | None
) -> dict[str, float]:
    """Fill in the defaults and check what was given, see :meth:`.Program.resolve_priors`.

    Raises
    ------
    ConfigError
        For a name that the program does not have or a value out of its range.
    """
    if not isinstance(given, Mapping | None):
        raise ConfigError(
            f"priors: a {type(given).__name__} is not a mapping of names to numbers, such as "
            '{"mu_sd": 10}'
        )
    in_data = {} if data is None or data.has_table else data.values
    priors = program.declaration.priors
    values = {name: prior.value for name, prior in priors.items()}
    in_data = {name: _scalar(value) for name, value in in_data.items() if name in priors}
    for name, value in {**in_data, **(given or {})}.items():
        if name not in priors:
            raise ConfigError(f"prior {name}: {_known_priors(program)}")
        values[name] = _checked_prior(program, name, value, priors[name])
    program.python.check_priors(values)
    return values


def improper_priors(program: Program, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters whose prior is improper, each with a remedy."""
    found, declared = {}, set()
    for name in program.declaration.parameters:
        prior = program.prior_of(name, values)
        if prior is not None and prior.density is None:
            found[name] = f"its prior is {prior.text}; {_proper(program, name)}"
        elif prior is not None:
            declared.add(name)
    if program.python.prior is not None:
        return found
    roles = program.declaration.roles
    for name in program.source.flat_parameters(roles.prior_only):
        if name not in declared:
            found.setdefault(
                name,
                "it has a flat prior on an unbounded support; add one to the model, "
                f"outside the guard of {roles.prior_only}, such as {name} ~ normal(0, 1)",
            )
    return found


def prior_on_scale(program: Program, parameter: str, data: Data) -> str:
    """Say how to give a parameter a prior on the scale of the data."""
    y = data.y
    seen = f"the values of {data.value_name} have mean {y.mean():.4g} and sd {y.std():.3g}; "
    advice = (seen if y.size else "") + "choose a prior by what is known beforehand"
    suggested, names = program.python.priors_on_scale(data), _arguments(program, parameter)
    if suggested.keys() & names:
        options = " ".join(f"--prior {name}={value:g}" for name, value in suggested.items())
        return f"{advice}, or a wide one on the scale of the data: {options}"
    if not names:
        return f"{advice}: change it in {program.path.name} and in {program.declared_in}"
    return f"{advice}, with {' and '.join(f'--prior {name}=…' for name in names)}"


def _proper(program: Program, parameter: str) -> str:
    """Say how to give a parameter a proper prior: the hyperparameters in its expression."""
    names = _arguments(program, parameter)
    if not names:
        expression = program.declaration.parameters[parameter].prior
        return f"correct {expression} in {program.declared_in}, or the data that it names"
    return f"give a proper one, such as {' '.join(f'--prior {name}=1' for name in names)}"


def _arguments(program: Program, parameter: str) -> list[str]:
    """Return the hyperparameters in a parameter's prior."""
    expression = program.declaration.parameters[parameter].prior
    return [n for n in program.declaration.priors if re.search(rf"\b{n}\b", expression)]


def _known_priors(program: Program) -> str:
    priors = ", ".join(program.declaration.priors)
    if priors:
        return f"{program.name} has no such prior; it has {priors}"
    return (
        f"{program.name} declares no priors; list those of its data block under [priors] in "
        f"{program.declared_in}"
    )


def _checked_prior(program: Program, name: str, value: Any, prior: Prior) -> float:
    lower = prior.lower
    if lower is None and prior.above is None:
        bound = program.source.blocks.data[name].lower
        lower = float(bound) if bound and _is_number(bound) else None
    fine = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if fine and program.source.blocks.data[name].is_int and value != int(value):
        raise ConfigError(f"prior {name}: it must be a whole number, was {value!r}")
    below = fine and (
        (lower is not None and value < lower) or (prior.above is not None and value <= prior.above)
    )
    if not fine or below:
        limit = f" and at least {lower:g}" if lower is not None else ""
        limit = f" and above {prior.above:g}" if prior.above is not None else limit
        raise ConfigError(f"prior {name}: it must be a finite number{limit}, was {value!r}")
    return float(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _scalar(value: Any) -> Any:
    """Return the number that an array without dimensions holds."""
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value
