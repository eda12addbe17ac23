"""The C++ compiler and make that CmdStan needs."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess

from pyflowers.errors import ToolchainError

_PACKAGES = {"g++": "g++", "c++": "g++", "clang++": "clang", "make": "make"}


def compiler() -> str:
    """Return the C++ compiler's command: ``CXX``, or the platform's own."""
    return os.environ.get("CXX") or ("clang++" if platform.system() == "Darwin" else "g++")


def make() -> str:
    """Return the make command: ``MAKE``, which CmdStanPy reads too, or make."""
    return os.environ.get("MAKE") or "make"


def require_toolchain() -> None:
    """Check that the compiler and make are there.

    Raises
    ------
    ToolchainError
        Naming the package to install.
    """
    missing = [tool for tool in (compiler(), make()) if shutil.which(tool.split()[0]) is None]
    if not missing:
        return
    names = " and ".join(missing)
    if platform.system() == "Darwin":
        remedy = "xcode-select --install"
    else:
        remedy = f"apt-get install {' '.join(_PACKAGES.get(tool, tool) for tool in missing)}"
    verb = "is" if len(missing) == 1 else "are"
    raise ToolchainError(f"{names} {verb} missing, and Stan needs it to compile; run {remedy}")


def compiler_version() -> str:
    """Return the first line of what the compiler says of its version."""
    return _first_line(compiler())


@functools.cache
def _first_line(command: str) -> str:
    require_toolchain()
    done = subprocess.run(
        [*command.split(), "--version"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ToolchainError(f"{command} --version fails; reinstall the compiler or set CXX")
    return done.stdout.splitlines()[0]
