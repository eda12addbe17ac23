"""The programs that ship with pyflowers: each a ``.stan`` file, a declaration, its capabilities.

A program is here when ``stan/`` holds ``NAME.stan`` and ``NAME.toml``. What it can do in NumPy is
``CAPABILITIES`` of the module ``pyflowers.programs.shipped.NAME``, where there is one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyflowers.errors import ConfigError
from pyflowers.programs.capabilities import Capabilities
from pyflowers.programs.program import Program, is_formula
from pyflowers.records import recordable
from pyflowers.resources import data_path, stan_folder

LECTURE = ("iid_normal", "multilevel_normal", "multilevel_poisson")
"""The lecture's three models of the flowers, from the simplest on: the usual experiment."""

COMPARED = "semiconjugate_normal"
"""The program of the usual comparison of methods: its mean field is closed form."""


def shipped_names() -> tuple[str, ...]:
    """Return the names of the programs that ship with pyflowers."""
    return tuple(sorted(path.stem for path in stan_folder().glob("*.toml")))


def find_program(
    reference: str | Path | Program,
    include_paths: Sequence[str | Path] = (),
    *,
    data: Any = None,
    family: str | None = None,
    centered: bool | Mapping[str, bool] | None = None,
    **reading: Any,
) -> Program:
    """Open a program by its name or path, or write that of a formula.

    Parameters
    ----------
    reference : str, Path or Program
        The name of a shipped program, the path of a ``.stan`` file, a program already open, or a
        formula.
    include_paths : sequence of path
        Where a program's included files are.
    data, family, centered, **reading
        Of a formula: its table, the response's family, the parametrisation and how the table is
        read, see :meth:`Program.from_formula`. All but the family is not used otherwise.

    Raises
    ------
    ConfigError
        If there is none, or its declaration cannot be used.
    """
    if isinstance(include_paths, str | bytes) or not isinstance(include_paths, Sequence):
        raise ConfigError(
            f"include_paths: a {type(include_paths).__name__} is not a list of folders"
        )
    if is_formula(reference):
        how = {**reading, "centered": centered}
        return _of_formula(str(reference), include_paths, data, family, how)
    if family:
        raise ConfigError(f"--family: {reference} is not a formula; leave it out")
    if isinstance(reference, Program):
        return reference
    if not isinstance(reference, str | Path):
        raise ConfigError(
            f"program: a {type(reference).__name__} is neither a name nor a path; choose one of "
            f"{', '.join(shipped_names())}, or give the path of a .stan file"
        )
    recordable(reference, "program", ConfigError)
    if isinstance(reference, Path) or reference.endswith(".stan"):
        return Program.open(reference, include_paths=include_paths)
    if include_paths:
        raise ConfigError(f"--include: {reference} includes no files; leave it out")
    return shipped_program(reference)


def _of_formula(
    formula: str,
    include_paths: Sequence[str | Path],
    data: Any,
    family: str | None,
    reading: Mapping[str, Any],
) -> Program:
    how = {name: value for name, value in reading.items() if value is not None}
    for name in ("columns", "group", "time", "value", "time_order"):
        if how.pop(name, None):
            raise ConfigError(f"--{name}: a formula names its columns itself; leave it out")
    if include_paths:
        raise ConfigError("--include: a formula includes no files; leave it out")
    if data is None:
        raise ConfigError(
            f"program {formula!r}: a formula needs the table that it is written for; name it, or "
            "write the program with pyflowers new NAME.stan FORMULA --data FILE and give that"
        )
    return Program.from_formula(formula, data, family=family or "gaussian", **how)


@cache
def shipped_program(name: str) -> Program:
    """Open a shipped program.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    names = shipped_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
        raise ConfigError(
            f"no program is named {name!r}: {hint} (a program of your own is a path that ends in "
            ".stan)"
        )
    opened = Program.open(stan_folder() / f"{name}.stan", python=python_of(name))
    example = data_path(opened.declaration.example) if opened.declaration.example else None
    return replace(opened, reference=name, example=example)


def example_of(reference: str) -> Path | None:
    """Return the table that a shipped program is fitted to by default; None for any other name."""
    return shipped_program(reference).example if reference in shipped_names() else None


def python_of(name: str) -> Capabilities:
    """Return what is written in Python for a shipped program; nothing for any other name."""
    if not name.isidentifier() or name not in shipped_names():
        return Capabilities()
    module = f"{__name__}.{name}"
    if find_spec(module) is None:
        return Capabilities()
    found: Capabilities = import_module(module).CAPABILITIES
    return found
