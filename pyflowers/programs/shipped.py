"""The shipped programs, each with a ``.stan`` file, a declaration and capabilities.

A program is shipped if ``stan/`` holds ``NAME.stan`` and ``NAME.toml``. Its capabilities in NumPy
are ``CAPABILITIES`` in the module ``pyflowers.lectures.shipped.NAME``, if that module exists. The
module is imported by that name only when the program is opened, because ``pyflowers.lectures``
itself imports the rest of the package.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from pyflowers.programs.capabilities import Capabilities
from pyflowers.resources import stan_folder

LECTURE = ("iid_normal", "multilevel_normal", "multilevel_poisson")
"""The lecture's three models of the flowers, simplest first; the default experiment fits them."""

_HOME = "pyflowers.lectures.shipped"

COMPARED = "semiconjugate_normal"
"""The default program for comparing methods, which has a closed-form mean-field approximation."""


def shipped_names() -> tuple[str, ...]:
    """Return the names of the programs that ship with pyflowers."""
    return tuple(sorted(path.stem for path in stan_folder().glob("*.toml")))


def python_of(name: str) -> Capabilities:
    """Return a shipped program's capabilities in Python; empty for any other name."""
    if not name.isidentifier() or name not in shipped_names():
        return Capabilities()
    module = f"{_HOME}.{name}"
    if find_spec(module) is None:
        return Capabilities()
    found: Capabilities = import_module(module).CAPABILITIES
    return found
