"""Finding a program by its name, its path or its formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pyflowers.advice import worded
from pyflowers.errors import ConfigError
from pyflowers.programs.program import Program, densities_of, is_formula
from pyflowers.programs.shipped import python_of, shipped_names
from pyflowers.records import recordable
from pyflowers.resources import data_path, stan_folder
from pyflowers.text import suggestion


def find_program(
    reference: str | Path | Program,
    include_paths: Sequence[str | Path] = (),
    *,
    data: Any = None,
    family: str | None = None,
    centered: bool | Mapping[str, bool] | None = None,
    default_priors: str | None = None,
    known: Mapping[str, Any] | None = None,
    priors: Mapping[str, Any] | None = None,
    **reading: Any,
) -> Program:
    """Open a program by its name or path, or write the program of a formula.

    Parameters
    ----------
    reference : str, Path or Program
        The name of a shipped program, the path of a ``.stan`` file, an open program, or a formula.
    include_paths : sequence of path
        Folders that are searched for included files.
    data, family, centered, default_priors, known, priors, **reading
        For a formula: its table, the family of the response, the parametrisation, the source of
        the default priors, known covariances and how the table is read; see
        :meth:`Program.from_formula`. For any other reference, a family, default priors and known
        covariances are rejected and the other options are ignored.

    Raises
    ------
    ConfigError
        If there is no such program, it cannot be used, or an option does not apply to it.
    CompileError
        If an included file is missing.
    DataError
        If a formula cannot be fitted to its table.
    """
    if isinstance(include_paths, str | bytes) or not isinstance(include_paths, Sequence):
        raise ConfigError(
            f"include_paths must be a list of folders, got {type(include_paths).__name__}"
        )
    if is_formula(reference):
        how = {**reading, "centered": centered, "default_priors": default_priors}
        how["known"] = known or None
        how["priors"] = densities_of(priors) or None
        return _of_formula(str(reference), include_paths, data, family, how)
    for option, given in {
        "--family": family,
        "--priors": default_priors,
        "--known": known,
    }.items():
        if given:
            if isinstance(reference, Program):
                reference = reference.name
            raise ConfigError(f"{option}: {reference} is not a formula; leave {option} out")
    if isinstance(reference, Program):
        return reference
    if not isinstance(reference, str | Path):
        raise ConfigError(
            f"program must be a name, a path or a formula, got {type(reference).__name__}; choose "
            f"one of {', '.join(shipped_names())}, or give a formula or the path of a .stan file"
        )
    recordable(reference, "program", ConfigError)
    if isinstance(reference, Path) or reference.endswith(".stan"):
        return Program.open(reference, include_paths=include_paths)
    if include_paths:
        raise ConfigError(
            f"--include: {reference} is not the path of a .stan file; leave --include out"
        )
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
            raise ConfigError(f"--{name}: a formula names its own columns; leave --{name} out")
    if include_paths:
        raise ConfigError("--include: a formula includes no files; leave --include out")
    if data is None:
        raise ConfigError(f"program {formula!r}: a formula needs data; {worded('add --data FILE')}")
    return Program.from_formula(formula, data, family=family or "gaussian", **how)


@cache
def shipped_program(name: str) -> Program:
    """Open a shipped program.

    Raises
    ------
    ConfigError
        If no shipped program has that name.
    """
    names = shipped_names()
    if name not in names:
        hint = suggestion(name, names)
        if "=" in name or "+" in name:
            hint = "a formula has a ~ after the response"
        with suppress(OSError, ValueError):  # a name that is too long is not that of a folder
            if Path(name).is_dir():
                hint = "this is a folder"
        raise ConfigError(
            f"no program is named {name!r}; {hint} (for your own program, "
            "give its path, which ends in .stan)"
        )
    opened = Program.open(stan_folder() / f"{name}.stan", python=python_of(name))
    example = opened.declaration.example
    if example:
        return replace(opened, reference=name, example=data_path(example))
    return replace(opened, reference=name, example=None)


def example_of(reference: str) -> Path | None:
    """Return the default table of a shipped program; None for any other name."""
    if reference in shipped_names():
        return shipped_program(reference).example
    return None
