"""The shipped programs, each with a ``.stan`` file, a declaration and capabilities.

A program is shipped if ``stan/`` holds ``NAME.stan`` and ``NAME.toml``. Its capabilities in NumPy
are ``CAPABILITIES`` in the module ``pyflowers.programs.shipped.NAME``, if that module
exists.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from pyflowers.programs.capabilities import Capabilities
from pyflowers.resources import stan_folder

LECTURE = ("iid_normal", "multilevel_normal", "multilevel_poisson")
"""The lecture's three models of the flowers, simplest first; the default experiment fits them."""

COMPARED = "semiconjugate_normal"
"""The default program for comparing methods, which has a closed-form mean field."""


def shipped_names() -> tuple[str, ...]:
    """Return the names of the programs that ship with pyflowers."""
    return tuple(sorted(path.stem for path in stan_folder().glob("*.toml")))


def python_of(name: str) -> Capabilities:
    """Return the capabilities of a shipped program in Python; empty for any other name."""
    if not name.isidentifier() or name not in shipped_names():
        return Capabilities()
    module = f"{__name__}.{name}"
    if find_spec(module) is None:
        return Capabilities()
    found: Capabilities = import_module(module).CAPABILITIES
    return found
