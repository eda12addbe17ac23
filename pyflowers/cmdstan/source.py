"""A Stan program's text with its includes, and what stanc says of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflowers.cmdstan.cache import digest
from pyflowers.errors import CompileError, ConfigError


@dataclass(frozen=True)
class Source:
    """A program and the files that it includes.

    Attributes
    ----------
    program : Path
        The ``.stan`` file.
    files : dict of str to bytes
        What each file holds by its path as the program names it; the program comes first.
    info : mapping
        What ``stanc --info`` says of inputs, parameters and generated quantities.
    """

    program: Path
    files: dict[str, bytes]
    info: Mapping[str, Any]

    @property
    def sha256(self) -> str:
        """Digest of names and texts."""
        parts = [part for name, text in self.files.items() for part in (name, text.hex())]
        return digest(*parts)

    def write(self, folder: Path) -> Path:
        """Write all files into `folder` and return the program's path there."""
        for name, text in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        return folder / next(iter(self.files))


def read_source(
    program: str | Path, stanc: Path, include_paths: Sequence[str | Path] = ()
) -> Source:
    """Read a program and ask stanc what it includes and declares; stanc checks it on the way.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    stanc : Path
        The Stan compiler.
    include_paths : sequence of path
        Where to look for included files after the program's own folder.

    Raises
    ------
    ConfigError
        If the program does not exist or its name does not end in ``.stan``.
    CompileError
        With stanc's message, if it is no Stan program.
    """
    program = program_file(program)
    folders = [program.parent, *(Path(folder).resolve() for folder in include_paths)]
    command = [str(stanc), f"--include-paths={','.join(map(str, folders))}", "--info"]
    done = subprocess.run(
        [*command, str(program)], capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode != 0:
        raise CompileError(f"{program} does not compile:\n{_without_paths(done.stderr, program)}")
    info = json.loads(done.stdout)
    files = {f"{safe_stem(program)}.stan": program.read_bytes()}
    included = [Path(name).resolve() for name in info.get("included_files", [])]
    # stanc says which file it found, not by which name: every name that reaches it will do.
    for folder in folders:
        for path in included:
            if path.is_relative_to(folder):
                files.setdefault(path.relative_to(folder).as_posix(), path.read_bytes())
    return Source(program, files, info)


def program_file(program: str | Path) -> Path:
    """Return the absolute path of a Stan program, checked before any tool is called.

    Raises
    ------
    ConfigError
        If the program does not exist or its name does not end in ``.stan``.
    """
    path = Path(program).resolve()
    if path.suffix != ".stan":
        raise ConfigError(f"{path}: a Stan program's name must end in .stan; rename it")
    if not path.is_file():
        raise ConfigError(f"{path}: no such Stan program; check the path")
    return path


def safe_stem(program: Path) -> str:
    """Return a file name that make and stanc take: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", program.stem)


def first_errors(console: str) -> str:
    """Return the compiler's first complaint with a little of what follows it."""
    lines = console.strip().splitlines()
    first = next((i for i, line in enumerate(lines) if "rror" in line), max(len(lines) - 8, 0))
    return "\n".join(lines[first : first + 8])


def _without_paths(message: str, program: Path) -> str:
    return message.replace(str(program), program.name).strip()
