"""Installed resources: Stan programs and example data, from a checkout or a wheel, and versions.

The module also builds commands that start another Python process, which imports the same modules as
this process.

``python -m`` puts the working folder first on the path, so a user's ``random.py`` there would
replace the standard library's. With ``-P``, and with this process's path as ``PYTHONPATH``, both
processes find the same modules.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflowers.errors import ConfigError

if TYPE_CHECKING:
    import xarray as xr

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """Return the folder `name`: package data in a wheel, next to the package in a checkout."""
    packaged = _PACKAGE / f"_{name}"
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def stan_folder() -> Path:
    """Return the folder of the Stan programs and their declarations."""
    return _folder("stan")


def data_path(name: str) -> Path:
    """Return the path of an example data file."""
    return _folder("data") / name


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
    """Return the command that runs a module."""
    return [sys.executable, "-P", "-m", name, *arguments]


def module_environment(**more: str) -> dict[str, str]:
    """Return this process's environment with `more` added and its import path in PYTHONPATH."""
    path = os.pathsep.join(dict.fromkeys(entry or str(Path.cwd()) for entry in sys.path))
    return {**os.environ, **more, "PYTHONPATH": path}


def arviz() -> Any:
    """Import ArviZ without the notice about its future that version 0.23 prints."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
        import arviz
    return arviz


def in_arviz(groups: Mapping[str, xr.Dataset]) -> Any:
    """Return groups as the installed ArviZ holds them: InferenceData, or DataTree from 1.0 on."""
    az = arviz()
    if version("arviz").startswith("0."):
        return az.InferenceData(**groups)
    import xarray as xr

    return xr.DataTree.from_dict(dict(groups))
