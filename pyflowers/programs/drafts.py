"""New programs: a copy of a shipped one as a start, or the declaration of an existing one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from pyflowers.errors import ConfigError
from pyflowers.programs.capabilities import Capability
from pyflowers.programs.declaration import Declaration, Roles, Value, draft, entry
from pyflowers.programs.program import Program
from pyflowers.programs.shipped import shipped_program
from pyflowers.programs.source import read_source
from pyflowers.resources import stan_folder

TO_FILL_IN = "# to be filled in"
"""Marks the lines of a draft that only the user can complete."""


def copy_shipped(name: str, target: Path) -> dict[Path, str]:
    """Return the files of a program of one's own that begins as a shipped one.

    It has ``log_lik``, ``y_rep`` and ``lprior`` in Stan, where pyflowers computes them in NumPy for
    the shipped program.

    Parameters
    ----------
    name : str
        The shipped program.
    target : Path
        The new ``.stan`` file.

    Returns
    -------
    dict of Path to str
        Text by file: the program and its declaration.

    Raises
    ------
    ConfigError
        If no shipped program has that name.
    """
    program = shipped_program(name)
    text = program.path.read_text(encoding="utf-8")
    quantities = stan_folder() / "quantities" / f"{name}.stan"
    if quantities.is_file():
        text = text.rstrip("\n") + "\n" + quantities.read_text(encoding="utf-8")
    declaration = program.path.with_suffix(".toml").read_text(encoding="utf-8")
    declaration = re.sub(r"^example = .*\n", "", declaration, flags=re.MULTILINE)
    return {target: text, target.with_suffix(".toml"): declaration}


def draft_declaration(path: Path, columns: Collection[str], include_paths: tuple[str, ...]) -> str:
    """Return a declaration for an existing program and a table: what is known, and what to fill in.

    Parameters
    ----------
    path : Path
        The ``.stan`` file.
    columns : collection of str
        The table's columns.
    include_paths : tuple of str
        Where the program's included files are.

    Raises
    ------
    ConfigError
        If the program does not exist.
    """
    blocks = read_source(path, include_paths).blocks
    known = Declaration().with_columns(blocks, columns).with_sizes(blocks).data
    lines = [
        f"# How a table becomes the data of {path.name}. The columns of the table:",
        f"# {', '.join(' '.join(column.split()) for column in columns)}",
        'title = ""',
        'story = ""',
        "",
        "[data]",
    ]
    scalars = []
    for name, variable in blocks.data.items():
        if name in known:
            lines.append(f"{name} = {entry(known[name])}")
        elif not variable.ndim and not variable.is_int:
            scalars.append(name)
        else:
            lines.append(f"{draft(variable, blocks.data)}  {TO_FILL_IN}")
    if scalars:
        lines += ["", "[priors]  # scalars of the data block, changed with --prior"]
        lines += [f"{name} = 1.0  {TO_FILL_IN}: a default" for name in scalars]
    if Roles().observed not in blocks.data:
        values = [
            name
            for name, each in blocks.data.items()
            if each.ndim and not (isinstance(known.get(name), Value) or each.is_index(blocks.data))
        ]
        observed = values[0] if len(values) == 1 else "..."
        mark = "" if len(values) == 1 else f"  {TO_FILL_IN}: {', '.join(values)}"
        lines += ["", "[roles]  # the data variable that the model describes"]
        lines += [f'observed = "{observed}"{mark}']
    return "\n".join(lines) + "\n"


def write_new(files: Mapping[Path, str]) -> None:
    """Write files that do not exist yet.

    Raises
    ------
    ConfigError
        If one is there already, or cannot be written.
    """
    for path in files:
        if path.exists():
            raise ConfigError(f"{path}: it already exists; choose another name or move the file")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(
                f"{path}: it cannot be written ({error.strerror or error}); choose another place"
            ) from error


def lost_capabilities(program: Program) -> list[str]:
    """Return what a shipped program can do and its copy cannot: what is written in Python."""
    return [str(each) for each in (Capability.EXACT, Capability.VB) if program.can(each)]
