"""Another Python process that imports what this one imports.

``python -m`` puts the working folder before everything else, so that a user's ``random.py`` there
would be taken for the standard library's. Without that (``-P``), and with this process's path as
``PYTHONPATH``, both find the same modules.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module."""
    return [sys.executable, "-P", "-m", name, *arguments]


def module_environment(**more: str) -> dict[str, str]:
    """Return this process's environment and import path for such a command, with `more` in it."""
    path = os.pathsep.join(dict.fromkeys(entry or str(Path.cwd()) for entry in sys.path))
    return {**os.environ, **more, "PYTHONPATH": path}
