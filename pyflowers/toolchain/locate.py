"""Finding CmdStan: a named one, the newest installed one, or the embedded one."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyflowers.digests import digest, sha256_file
from pyflowers.errors import ToolchainError
from pyflowers.toolchain.cache import Care, cache_dir
from pyflowers.toolchain.embedded import embedded_home, install_embedded

OLDEST = (2, 33)
"""The oldest supported version: Pathfinder and Laplace need CmdStan 2.33."""


EXE = {"nt": ".exe"}.get(os.name, "")
"""The suffix of executables."""


@dataclass(frozen=True)
class CmdStan:
    """A CmdStan on this machine.

    Attributes
    ----------
    path : Path
        Its folder, in the form that CmdStanPy expects.
    version : str
        Its version, such as ``2.35.0``.
    origin : str
        How it was found: ``--cmdstan``, ``CMDSTAN``, ``~/.cmdstan``, ``conda`` or ``embedded``.
    """

    path: Path
    version: str
    origin: str

    @property
    def stanc(self) -> Path:
        """The Stan compiler."""
        return self.path / "bin" / f"stanc{EXE}"

    @property
    def identity(self) -> str:
        """Text that distinguishes this CmdStan from others of the same version, for cache keys."""
        if self.origin == "embedded":
            return self.path.name
        local = self.path / "make" / "local"
        flags = ""
        if local.is_file():
            flags = sha256_file(local)
        return digest(str(self.path), sha256_file(self.path / "makefile"), flags)


def find_cmdstan(path: str | Path | None = None) -> CmdStan:
    """Find the CmdStan to use, and build the embedded one if there is no other.

    Parameters
    ----------
    path : str or Path, optional
        A CmdStan folder, or ``"embedded"``. Default: the environment variable ``CMDSTAN``; the
        newest under ``~/.cmdstan``; the one in the active conda environment; the embedded one.

    Raises
    ------
    ToolchainError
        If the given folder is not a CmdStan folder, or if no CmdStan is available.
    """
    if path is not None and path != "embedded":
        if not isinstance(path, str | Path):
            raise ToolchainError(
                f"--cmdstan must be a folder or 'embedded', got {type(path).__name__}"
            )
        return _open(Path(path), "--cmdstan")
    if path is None and (found := _installed()):
        return found
    return _open(install_embedded(), "embedded")


def whole(cmdstan: CmdStan, care: Care) -> CmdStan:
    """Return a CmdStan; if it is in the cache, damaged parts are rebuilt first.

    Raises
    ------
    ToolchainError
        If damaged parts cannot be rebuilt.
    """
    if cmdstan.origin == "embedded" and cmdstan.path.parent == cache_dir():
        install_embedded(care=care)
    return cmdstan


def available_cmdstan() -> CmdStan | None:
    """Return the CmdStan that :func:`find_cmdstan` would use without building one.

    Raises
    ------
    ToolchainError
        If a CmdStan is installed but cannot be used.
    """
    found = _installed()
    if found is not None:
        return found
    home = embedded_home()
    if home is not None:
        return _open(home, "embedded")
    return None


def _installed() -> CmdStan | None:
    if os.environ.get("CMDSTAN"):
        return _open(Path(os.environ["CMDSTAN"]), "CMDSTAN")
    installed = _newest(Path.home() / ".cmdstan")
    if installed:
        return _open(installed, "~/.cmdstan")
    conda = os.environ.get("CONDA_PREFIX")
    if conda and (Path(conda) / "bin" / "cmdstan" / "makefile").is_file():
        return _open(Path(conda) / "bin" / "cmdstan", "conda")
    return None


def _open(path: Path, origin: str) -> CmdStan:
    """Return the CmdStan in `path`, after reading its version; reject any other folder."""
    match = None
    with suppress(OSError, ValueError, RuntimeError):  # not a path, no home folder, no permission
        path = path.expanduser().resolve()
        text = (path / "makefile").read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^CMDSTAN_VERSION := (\d+)\.(\d+)\.(\S+)$", text, re.MULTILINE)
    if match is None:
        raise ToolchainError(
            f"{origin}: {path} is not a CmdStan folder (no makefile with CMDSTAN_VERSION); correct "
            "the path, or pass --cmdstan embedded"
        )
    version = ".".join(match.groups())
    if (int(match[1]), int(match[2])) < OLDEST:
        # After setup, the CmdStan that was named would still take precedence over the new one.
        named = origin in ("--cmdstan", "CMDSTAN")
        if named:
            remedy = "name a newer one"
        else:
            remedy = "run pyflowers setup --official"
        raise ToolchainError(
            f"{origin}: CmdStan {version} in {path} is older than {OLDEST[0]}.{OLDEST[1]}; "
            f"{remedy}, or pass --cmdstan embedded"
        )
    return CmdStan(path, version, origin)


def _newest(folder: Path) -> Path | None:
    """Return the newest release under `folder` that has been built, if there is one."""
    releases = []
    for makefile in folder.glob("cmdstan-*/makefile"):
        numbers = re.fullmatch(r"cmdstan-(\d+)\.(\d+)\.(\d+)(-rc\d+)?", makefile.parent.name)
        if numbers and (makefile.parent / "bin").is_dir():
            order = (*map(int, numbers.groups()[:3]), numbers[4] is None, numbers[4] or "")
            releases.append((order, makefile.parent))
    if releases:
        return max(releases)[1]
    return None
