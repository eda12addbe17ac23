"""The command that reproduces a fit, or repeats it with some inputs changed.

The inputs of a fit that differ from the defaults are collected once, under their names in
:func:`pyflowers.fit`. They are written as the options of a shell command or, where the data came
from Python or no run folder is known, as a call in Python.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pyflowers.advice import Advice, is_in_shell
from pyflowers.data.examples import is_named
from pyflowers.display import INTERVAL
from pyflowers.engines import SamplerOptions, uses_of
from pyflowers.errors import ConfigError, DataError
from pyflowers.fits.folder import RunRecord
from pyflowers.fits.spec import INPUTS, option_of
from pyflowers.programs import Data, Program
from pyflowers.programs.formulas.grammar import parse
from pyflowers.programs.program import is_formula

FRAME = "data.csv"
"""The file name that a shell command uses for data that came from Python."""

_OF_PROGRAM = ("include_paths", "group", "time", "value", "columns", "time_order", "centered")
"""Inputs that apply only to a Stan program, and are dropped if a formula replaces it."""


class Fitted(Protocol):
    """The attributes of a fit that are needed to write a command that repeats it."""

    @property
    def program(self) -> Program:
        """The program."""

    @property
    def data(self) -> Data:
        """The data block and its labels."""

    @property
    def whole(self) -> Data:
        """The data with all rows."""

    @property
    def record(self) -> RunRecord:
        """The record of the inputs."""

    @property
    def folder(self) -> Path | None:
        """The run folder, if there is one."""


_YES_OR_NO = {True: "yes", False: "no"}
"""How a command writes whether effects are centred; :func:`as_bool` reads it."""

ShowPath = Callable[[str | Path], str]


def shown_path(path: str | Path) -> str:
    """Return a path in a form that may be shared: relative, or only the name.

    A path in the current folder is made relative to it. Other absolute paths are reduced to the
    name, because their folders may be in a user's home.
    """
    whole = Path(path)
    if not whole.is_absolute():
        return str(path)
    if whole.is_relative_to(Path.cwd()):
        return str(whole.relative_to(Path.cwd()))
    return whole.name


def inputs_of(fit: Fitted, path: ShowPath = str) -> dict[str, Any]:
    """Return the program, seed and engine of a fit, and the inputs that differ from the defaults.

    Parameters
    ----------
    fit : Fitted
        The fit.
    path : callable
        Function that converts a path into the form in which it is shown.

    Returns
    -------
    dict of str to Any
        The values, by the names of the arguments of :func:`pyflowers.fit`. Initial values are
        included only if they are a radius or a file. The file of a known covariance K is assumed to
        be K.csv, because the record does not name it.
    """
    record, data = fit.record, fit.data
    # The user's names for group, time and value, if they differ from the declaration's.
    declared = {"group": data.group, "time": data.time, "value": data.value}
    called = {role: data.name_of(column) for role, column in declared.items() if column}
    roles = {role: name for role, name in called.items() if name != declared[role]}
    columns = record.data.columns.items()
    others = {c: name for c, name in columns if name not in (c, *roles.values())}
    if is_formula(record.program.reference):  # a formula names its own columns
        roles, others = {}, {}
    source, inits = record.data.source, record.inits
    usual = SamplerOptions.of(seed=record.options.seed).model_dump()
    options = record.options.model_dump(exclude_unset=True).items()
    reading = dict(record.data.reading)
    is_dropped = bool(reading.pop("drop_missing", None))
    hyperparameters = fit.program.declaration.priors
    priors: dict[str, float | str] = {
        name: value
        for name, value in record.priors.items()
        if name in hyperparameters and value != hyperparameters[name].value
    }
    formula = fit.program.declaration.formula
    if formula is not None and is_formula(record.program.reference):
        priors = {**formula.given, **priors}
    found: dict[str, Any] = {
        "program": path(record.program.reference),
        "include_paths": tuple(map(path, record.program.include_paths)),
        "inits": None,
        "data": None,
        **roles,
        "columns": others,
        **reading,
        **_of_formula(fit),
        **{key: value for key, value in options if key == "seed" or value != usual[key]},
        "drop_missing": is_dropped,
        "engine": record.engine.name,
        "interval": None,
        "name": record.name or None,
        "priors": priors,
    }
    if isinstance(inits, str):
        found["inits"] = path(inits)
    elif isinstance(inits, int | float):
        found["inits"] = inits
    if source is not None and source != str(fit.program.example):
        found["data"] = path(source)
        if not is_named(source):
            found["data"] = FRAME
    if record.interval != INTERVAL:
        found["interval"] = record.interval
    return _given(found)


def _given(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that are given; False is the default of a flag, so it is left out."""
    return {n: v for n, v in inputs.items() if not (v is None or v is False or v in ((), {}))}


def _of_formula(fit: Fitted) -> dict[str, Any]:
    """Return the inputs that determine a formula's program, and any non-default parametrisation."""
    record, formula = fit.record, fit.program.declaration.formula
    about: dict[str, Any] = {}
    if formula and is_formula(record.program.reference):
        about = {"family": formula.family, "default_priors": formula.priors or None}
        if formula.family == "gaussian":
            del about["family"]
        names = (term.covariance for term in parse(formula.text).all_groups)
        about["known"] = {name: f"{name}.csv" for name in names if name}
    if isinstance(record.centered, bool):
        usual, _ = fit.program.fill(fit.whole, record.priors)
        if usual.values["centered"] != record.centered:
            about["centered"] = _YES_OR_NO[record.centered]
    elif record.centered:
        own = fit.program.declaration.data
        about["centered"] = changed = {}
        for key, its in record.centered.items():
            name = key
            if key in own:
                name = fit.data.name_of(str(own[key].index_of))
            changed[name] = _YES_OR_NO[its]
    return about


def shell_words(inputs: Mapping[str, Any]) -> list[str]:
    """Return inputs as the options of a shell command, without the program."""
    words = list[str]()
    for name, value in inputs.items():
        if name == "program":
            continue
        option = f"--{name}"
        if name in INPUTS:
            option = option_of(name)
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            is_density = name == "priors"
            words += _each(option, (_named(key, its, is_density) for key, its in value.items()))
        elif isinstance(value, list | tuple):
            words += _each(option, map(str, value))
        elif name == "interval":
            words += [option, f"{value:g}"]
        else:
            words += [option, str(value)]
    return words


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _named(key: str, value: object, is_density: bool) -> str:
    """Return a named value, such as ``tau=1``, or a density as ``tau ~ normal(0, 1)``."""
    if is_density and isinstance(value, str):
        return f"{key} ~ {value}"
    return f"{key}={_text(value)}"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return repr(value)


def python_call(inputs: Mapping[str, Any], function: str = "pyflowers.fit") -> str:
    """Return inputs as a call in Python; the variable ``data`` stands for data without a file."""
    values = dict(inputs)
    first = [_literal(values.pop("program"))]
    file = values.pop("data", None)
    if file == FRAME:
        first.append("data")
    elif file is not None:
        first.append(_literal(file))
    if "centered" in values:
        values["centered"] = as_bool(values["centered"])
    return f"{function}({', '.join([*first, *(f'{k}={_literal(v)}' for k, v in values.items())])})"


def as_bool(value: Any) -> Any:
    """Convert yes or no, given for all groups or for each group, into True or False."""
    if isinstance(value, Mapping):
        return {group: its == "yes" for group, its in value.items()}
    return value == "yes"


def _literal(value: Any) -> str:
    """Return a value as Python writes it, with text in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
    return repr(value)


def changed_inputs(fit: Fitted, change: Mapping[str, Any], path: ShowPath = str) -> dict[str, Any]:
    """Return the inputs of a fit with some of them changed.

    Inputs that do not apply to a changed program are left out.

    Parameters
    ----------
    fit : Fitted
        The fit.
    change : mapping of str to Any
        The new values, by the names of the arguments of :func:`pyflowers.fit`. Hyperparameters in
        ``priors`` are changed one by one; None restores the default.
    path : callable
        Function that converts a path into the form in which it is shown.
    """
    inputs = inputs_of(fit, path)
    inputs.pop("name", None)  # another fit needs another name
    priors = {**inputs.get("priors", {}), **change.get("priors", {})}
    is_new = "program" in change or "family" in change
    if is_new and not is_formula(inputs["program"]):
        file = inputs.get("data", FRAME)
        if "data" not in inputs and fit.program.example:
            file = path(str(fit.program.example))
        inputs = {name: its for name, its in inputs.items() if name not in _OF_PROGRAM}
        inputs, priors = {"program": inputs["program"], "data": file, **inputs}, {}
    inputs = {k: v for k, v in inputs.items() if not (is_new and k == "centered")}
    if is_new and inputs["engine"] == "exact":  # it does not apply to every formula
        del inputs["engine"]
    if is_new and priors:
        priors = _known_priors(fit, {**inputs, **change}, priors)
    whole = {**inputs, **change, "priors": {k: v for k, v in priors.items() if v is not None}}
    if whole.get("family") == "gaussian":
        del whole["family"]
    return _given(without_unused(whole, change))


def without_unused(inputs: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs without those, given for another engine, that their engine does not use."""
    used = uses_of(inputs.get("engine", "auto"))
    unused = {*SamplerOptions.fields(), "centered", "inits"}.difference(used, change)
    return {name: its for name, its in inputs.items() if name not in unused}


def _known_priors(
    fit: Fitted, inputs: Mapping[str, Any], priors: Mapping[str, float | str]
) -> dict[str, float | str]:
    """Return the priors that another formula keeps: all densities, and its hyperparameters."""
    names = ("family", "default_priors")
    made = {name: inputs[name] for name in names if name in inputs}
    try:
        program = Program.from_formula(inputs["program"], fit.whole.table, **made)
    except (ConfigError, DataError):  # the formula needs a table that the fit does not keep
        return dict(priors)
    known = program.declaration.priors
    return {
        name: value for name, value in priors.items() if name in known or isinstance(value, str)
    }


def command_of(
    fit: Fitted, advice: Advice, path: ShowPath = str, others: Sequence[str] = ()
) -> str:
    """Return the complete command that carries out advice on a fit; empty if there is none.

    In a shell, the command is a shell command if the data came from a file and the fit is in a run
    folder. Otherwise, it is a call in Python.

    Parameters
    ----------
    fit : Fitted
        The fit.
    advice : Advice
        The advice.
    path : callable
        Function that converts a path into the form in which it is shown.
    others : sequence of str
        Commands that were already given. A command with other inputs writes to a different run
        folder.
    """
    source, folder = fit.record.data.source, fit.folder
    is_shell = is_in_shell() and folder is not None and (source is None or is_named(source))
    if advice.step == "fit":
        inputs = changed_inputs(fit, advice.change, path)
        if folder is None or not is_shell:
            return python_call(inputs)
        words = ["pyflowers", "fit", inputs["program"], *shell_words(inputs), "--out"]
        taken = {shlex.split(other)[-1] for other in others if other}
        target = _next_folder(folder)
        while (made := shlex.join([*words, path(target)])) not in others and path(target) in taken:
            target = _next_folder(target)
        return made
    if advice.step == "new":
        return _new_program(fit, is_shell, path)
    if advice.step == "sensitivity":
        if folder is None or not is_shell:
            return "pyflowers.sensitivity(fit)"
        return shlex.join(["pyflowers", "sensitivity", path(folder)])
    return ""


def _new_program(fit: Fitted, is_shell: bool, path: ShowPath) -> str:
    """Return the command that writes the program of a fit for the user to edit."""
    inputs = inputs_of(fit, path)
    if not is_formula(inputs["program"]):
        if inputs["program"].endswith(".stan"):
            return ""
        return f"pyflowers new my_{fit.program.name} --from {inputs['program']}"
    names = ("program", "data", "family", "default_priors", "known", "priors", "drop_missing")
    made: dict[str, Any] = {name: inputs[name] for name in names if name in inputs}
    if not is_shell:
        reading = ("sep", "decimal", "encoding")
        made |= {name: inputs[name] for name in reading if name in inputs}
        call = python_call(made, "pyflowers.Program.from_formula")
        return f'{call}.write("{fit.program.name}.stan")'
    words = [f"{fit.program.name}.stan", made["program"], *shell_words(made)]
    return shlex.join(["pyflowers", "new", *words])


def _next_folder(folder: Path) -> Path:
    """Return a new path next to a run folder, such as ``rats-2`` next to ``rats``."""
    stem, number = folder.name, 2
    if numbered := re.fullmatch(r"(.+)-(\d+)", stem):
        stem, number = numbered[1], int(numbered[2]) + 1
    while (found := folder.with_name(f"{stem}-{number}")).exists():
        number += 1
    return found
