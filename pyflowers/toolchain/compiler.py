"""The C++ compiler and make, which CmdStan needs."""

from __future__ import annotations

import functools
import os
import platform
import shutil
from pathlib import Path

from pyflowers.cores import PROCESS_LIMIT, is_process_limit
from pyflowers.errors import CompileError, ToolchainError
from pyflowers.programs.source import Source
from pyflowers.text import in_words
from pyflowers.toolchain.processes import run

# The exit statuses of commands that cannot be run, and of commands that a signal has ended.
_NO_WORDS = {126, 127, *range(128, 256), *range(-64, 0)}

_PACKAGES = {"g++": "g++", "c++": "g++", "clang++": "clang", "make": "make"}


def compiler() -> str:
    """Return the C++ compiler's command: ``CXX``, or the platform's default."""
    return os.environ.get("CXX") or {"Darwin": "clang++"}.get(platform.system(), "g++")


def make() -> str:
    """Return the make command: ``MAKE``, which CmdStanPy also reads, or make."""
    return os.environ.get("MAKE") or "make"


def require_toolchain() -> None:
    """Check that the compiler and make are installed.

    Raises
    ------
    ToolchainError
        If either is missing; the message names the package to install.
    """
    missing = [tool for tool in (compiler(), make()) if shutil.which(tool.split()[0]) is None]
    if not missing:
        return
    names = in_words(missing)
    if platform.system() == "Darwin":
        remedy = "xcode-select --install"
    else:
        remedy = f"apt-get install {' '.join(_PACKAGES.get(tool, tool) for tool in missing)}"
    if len(missing) == 1:
        complaint = "is missing, and Stan needs it"
    else:
        complaint = "are missing, and Stan needs them"
    raise ToolchainError(f"{names} {complaint} to compile; run {remedy}")


def compiler_version() -> str:
    """Return the first line of the compiler's version message."""
    return _first_line(compiler())


@functools.cache
def _first_line(command: str) -> str:
    require_toolchain()
    done = run([*command.split(), "--version"])
    if done.returncode != 0 or not done.stdout:
        if is_process_limit(done.stderr):
            raise ToolchainError(PROCESS_LIMIT)
        raise ToolchainError(f"{command} --version fails; reinstall the compiler or set CXX")
    return done.stdout.splitlines()[0]


def check_syntax(source: Source, program: Path, stanc: Path) -> None:
    """Check a program with stanc before it is compiled, because stanc's messages are clearer.

    Parameters
    ----------
    source : Source
        The program, which is named in messages.
    program : Path
        The file that :meth:`~pyflowers.programs.source.Source.write` wrote.
    stanc : Path
        The Stan compiler.

    Raises
    ------
    CompileError
        If the program does not compile; the error contains stanc's message.
    ToolchainError
        If stanc does not run.
    """
    try:
        done = run([str(stanc), "--info", str(program)])
        if done.returncode in _NO_WORDS:
            broken = f"it ends with status {done.returncode}"
        else:
            broken = ""
    except OSError as error:
        broken = error.strerror or str(error)
    if broken:
        raise ToolchainError(
            f"{stanc}: the Stan compiler does not run ({broken}); reinstall that CmdStan, or "
            "use the embedded one with --cmdstan embedded"
        )
    if done.returncode != 0:
        output = done.stderr.replace(str(program), source.path.name).strip()
        if len(source.files) > 1:
            output += "\n(Lines are counted with the included files inserted.)"
        raise CompileError(f"{source.path} does not compile:\n{output}")


def first_errors(console: str) -> str:
    """Return eight lines, starting with the first error, or the last eight if there is no error."""
    lines = console.strip().splitlines()
    first = next((i for i, line in enumerate(lines) if "rror" in line), max(len(lines) - 8, 0))
    return "\n".join(lines[first : first + 8])
