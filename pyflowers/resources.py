"""Installed resources: Stan programs and example data, from a checkout or a wheel, and versions.

The module also determines the folders from which modules are imported.

A command does not import from the working folder: a ``random.py`` or a folder ``bottleneck`` there
would replace an installed module, or an optional one that is not installed. The folder is in the
path only while :func:`imported` imports a module that the user has named.

Another Python process is started with ``-P``, which keeps the working folder out of its path, and
gets this process's path as arguments, so that both find the same modules. The new process sets its
path itself, because a ``sitecustomize.py`` in a folder of ``PYTHONPATH`` would be run as soon as
Python starts. If a script or a notebook has its own folder in the path, so does each process that
it starts.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    import xarray as xr

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """Return the folder `name`: package data in a wheel, next to the package in a checkout."""
    packaged = _PACKAGE / f"_{name}"
    if packaged.is_dir():
        return packaged
    return _PACKAGE.parent / name


def stan_folder() -> Path:
    """Return the folder of the Stan programs and their declarations."""
    return _folder("stan")


_IN_EXAMPLES = {
    "epilepsy": "epil/epil.csv",
    "rats": "rats/rats.csv",
    "seeds": "seeds/seeds.csv",
}
"""The tables that are next to their programs in a checkout, in ``examples/``."""


def data_path(name: str) -> Path:
    """Return the path of an example data file."""
    return _folder("data") / name


def example_tables() -> dict[str, Path]:
    """Return the paths of the example tables by their names."""
    found = {path.stem: path for path in _folder("data").glob("*.csv")}
    elsewhere = {name: _PACKAGE.parent / "examples" / path for name, path in _IN_EXAMPLES.items()}
    return dict(sorted({**elsewhere, **found}.items()))


def program_path(name: str) -> Path:
    """Return the path of the shipped Stan program `name`.

    Raises
    ------
    ConfigError
        If no program has that name.
    """
    path = stan_folder() / f"{name}.stan"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.stan")))
        raise ConfigError(f"no Stan program is named {name!r}; choose one of {known}")
    return path


def flowers_csv() -> Path:
    """Return the path of the lecture's data: flower counts of three plants in four months."""
    return data_path("flowers.csv")


def gaussian_mixture_csv() -> Path:
    """Return the path of the lecture's mixture: 1,000 points, each with its true component."""
    return data_path("gaussian_mixture.csv")


@cache
def version(package: str) -> str:
    """Return the version of an installed package, given its name on the package index.

    The version is looked up only once, because reading the metadata takes milliseconds.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        If the package is not installed.
    """
    return metadata.version(package)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the Python installation."""
    return [sys.executable, "-P", "-m", name, *arguments]


_START = """
import runpy, sys
_, module, *sys.path = sys.argv
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""The main program of a process that imports the same modules as this process."""


def worker_command(module: str) -> list[str]:
    """Return the command that runs a module with the import path of this process."""
    return [sys.executable, "-P", "-c", _START, module, *sys.path]


def working_folder() -> str:
    """Return the working folder; empty if it has been removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


_named_in: ContextVar[str | None] = ContextVar("named_in", default=None)


@contextmanager
def named_in(folder: str) -> Iterator[None]:
    """Within the block, look in `folder` for modules that the user names, as in a worker."""
    token = _named_in.set(folder)
    try:
        yield
    finally:
        _named_in.reset(token)


@contextmanager
def importable() -> Iterator[None]:
    """Within the block, put the folder of the user's modules at the end of the import path.

    It is the working folder, unless :func:`named_in` has set another one.
    """
    folder = _named_in.get()
    if folder is None:
        folder = working_folder()
    is_new = bool(folder) and folder not in sys.path
    if is_new:
        sys.path.append(folder)
    try:
        yield
    finally:
        if is_new and folder in sys.path:
            sys.path.remove(folder)


def imported(module: str) -> ModuleType:
    """Import a module that a user has named; it may be a file in the working folder.

    An installed module takes precedence, and is imported without that folder in the path.
    """
    top = module.partition(".")[0]
    if top in sys.modules or find_spec(top) is not None:
        return import_module(module)
    with importable():
        return import_module(module)


def late_import(error: Exception) -> str:
    """Return the remedy if a user's function failed to import a module; else an empty string."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return f"; import {error.name} at the top of the function's file"


def arviz() -> Any:
    """Import ArviZ without the notice about its future that version 0.23 prints."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
        try:
            import arviz
        except FileNotFoundError:
            # Version 0.23 notes the date of its notice in a file, and fails if another process
            # moves that file into place at the same moment.
            import arviz
    return arviz


def in_arviz(groups: Mapping[str, xr.Dataset]) -> Any:
    """Return groups as the installed ArviZ holds them: InferenceData, or DataTree from 1.0 on."""
    az = arviz()
    if version("arviz").startswith("0."):
        return az.InferenceData(**groups)
    import xarray as xr

    return xr.DataTree.from_dict(dict(groups))
