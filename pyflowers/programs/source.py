"""A Stan program's text with everything that it includes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyflowers.digests import digest
from pyflowers.errors import CompileError, ConfigError
from pyflowers.programs.blocks import Blocks, read_blocks
from pyflowers.records import as_path

_INCLUDE = re.compile(
    r'^[ \t]*#include[ \t]+(?:"([^"\n]+)"|<([^>\n]+)>|(\S+))[^\n]*$', re.MULTILINE
)


@dataclass(frozen=True)
class Source:
    """A program and the files that it includes.

    Attributes
    ----------
    path : Path
        The ``.stan`` file.
    files : dict of str to bytes
        What each file holds by its path as the program names it; the program comes first.
    """

    path: Path
    files: dict[str, bytes]

    @property
    def name(self) -> str:
        """The program's name: that of its file."""
        return self.path.stem

    @property
    def safe_name(self) -> str:
        """A file name that make and stanc take: letters, digits and underscores."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.path.stem)

    @cached_property
    def sha256(self) -> str:
        """Digest of names and texts."""
        return digest(*(part for name, text in self.files.items() for part in (name, text.hex())))

    @cached_property
    def text(self) -> str:
        """The program with its includes in place."""
        name, *_ = self.files
        return self._expanded(name, ())

    @cached_property
    def blocks(self) -> Blocks:
        """What the program declares."""
        return read_blocks(self.text)

    def write(self, folder: Path) -> Path:
        """Write the program into `folder` and return its path there.

        What it includes is written beside it by its name, or, where a name leads out of the folder,
        put in its place.
        """
        first = next(iter(self.files))
        files = self.files
        if not all(map(_stays_inside, files)):
            first = Path(first).name
            files = {first: self.text.encode()}
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        return folder / first

    def _expanded(self, name: str, inside: tuple[str, ...]) -> str:
        def included(match: re.Match[str]) -> str:
            target = match[1] or match[2] or match[3]
            if target in inside or target not in self.files:
                return ""
            return self._expanded(target, (*inside, name))

        return _INCLUDE.sub(included, self.files[name].decode("utf-8", "replace"))


def _stays_inside(name: str) -> bool:
    """Whether a relative name stays in the folder where it is written."""
    plain = posixpath.normpath(name.replace("\\", "/"))
    return not (plain.startswith(("/", "..")) or Path(plain).is_absolute())


def read_source(program: str | Path, include_paths: Sequence[str | Path] = ()) -> Source:
    """Read a program and what it includes, its own folder searched first.

    Parameters
    ----------
    program : str or Path
        The ``.stan`` file.
    include_paths : sequence of path
        Where to look for included files after the program's own folder.

    Raises
    ------
    ConfigError
        If the program does not exist, cannot be read or its name does not end in ``.stan``.
    CompileError
        If an included file is not found.
    """
    path = program_file(program)
    folders = [path.parent, *(Path(folder).resolve() for folder in include_paths)]
    stem = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    files = {f"{stem}.stan": _bytes(path)}
    waiting = list(files)
    while waiting:
        name = waiting.pop()
        for match in _INCLUDE.finditer(files[name].decode("utf-8", "replace")):
            target = match[1] or match[2] or match[3]
            if target in files:
                continue
            found = next((f / target for f in folders if (f / target).is_file()), None)
            if found is None:
                where = " or ".join(map(str, folders))
                raise CompileError(
                    f"{path}: #include {target}: no such file in {where}; add its folder with "
                    "--include"
                )
            files[target] = _bytes(found)
            waiting.append(target)
    return Source(path, files)


def program_file(program: str | Path) -> Path:
    """Return the absolute path of a Stan program, checked before any tool is called.

    Raises
    ------
    ConfigError
        If the program does not exist or its name does not end in ``.stan``.
    """
    given = as_path(program, "a Stan program")
    try:
        path = given.resolve()
        if path.suffix != ".stan":
            raise ConfigError(f"{path}: a Stan program's name must end in .stan; rename it")
        if not path.is_file():
            raise ConfigError(f"{path}: no such Stan program; check the path")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{program}: not a path that can be opened ({error})") from error
    return path


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: it cannot be read ({error.strerror or error}); check its permissions"
        ) from error
