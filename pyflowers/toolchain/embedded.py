"""The embedded CmdStan, built from one pinned wheel on a package index and pyflowers' front end.

The wheel of httpstan 4.13.0 contains all of Stan 2.35.0 except CmdStan's front end: headers,
libraries and stanc. The wheel is fetched with pip, and its SHA-256 is checked. The front end in
``driver/`` is compiled against Stan in the user's cache. Damaged parts are rebuilt before they are
used. Links in the folder are relative, so that a cache can be copied or moved. See
docs/decisions/0001-embedded-cmdstan.md.
"""

from __future__ import annotations

import calendar
import os
import platform
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pyflowers.cores import usable_cores
from pyflowers.digests import digest, sha256_file
from pyflowers.errors import ToolchainError
from pyflowers.progress import stage
from pyflowers.records import as_path
from pyflowers.resources import module_command
from pyflowers.storage import temporary_folder
from pyflowers.toolchain.cache import (
    Care,
    appearing,
    cache_dir,
    require_own,
    restore,
    write_manifest,
)
from pyflowers.toolchain.compiler import compiler, compiler_version, make, require_toolchain
from pyflowers.toolchain.processes import run, started

VERSION = "2.35.0"
REQUIREMENT = "httpstan==4.13.0"
_UNPACKED = ("httpstan/include/", "httpstan/lib/", "httpstan/stanc")

_LINUX = (
    "db96f12cacea0ae8efb6bddbf3061c3536b3503187befda936c6a36c1da7124d",
    "7b490d6c0e8b7048d1b58dfb79db561ae1879cb3bde3012d024ef374c0308469",
)
"""The pinned wheels for Linux: two builds with the same tag, headers and stanc."""

_MACOS_14 = "c8f8d9129afbe03b05562700b3a9d3b0333ebaae75e32c7013300b7c884f2896"
_MACOS_15 = "c12779e92582c041ab966c0dc0b72811e4516c99e15a66be998e40550506b090"
_MACOS_X86 = "d0c0807843d75629f61876319d5715e6a4efcc0c7b55fdbaa970baa86e7d2b09"


@dataclass(frozen=True)
class Pinned:
    """The cp311 wheels for one kind of machine.

    Attributes
    ----------
    tag : str
        The platform tag.
    digests : tuple of str
        SHA-256 of every accepted wheel. The first is part of the names of folders in the cache, so
        that all wheels lead to the same CmdStan.
    """

    tag: str
    digests: tuple[str, ...]


def stan_folder(wheel: str | Path | None = None, care: Care = Care.RUN) -> Path:
    """Return the folder with Stan's ``include/``, ``lib/`` and ``stanc``, checked for damage.

    The folder is unpacked from the wheel if it is not yet in the cache or is damaged. It does
    not include CmdStan's front end.

    Parameters
    ----------
    wheel : str or Path, optional
        The wheel as a file, for a machine without access to a package index.
    care : Care
        How thoroughly to check an existing folder.

    Raises
    ------
    ToolchainError
        If the platform has no wheel, or the wheel cannot be downloaded or is not the pinned one.
    """
    pinned = wheel_for(platform.system(), platform.machine())
    folder = cache_dir() / f"stan-{VERSION}-{pinned.digests[0][:16]}"

    def make() -> None:
        with temporary_folder() as temporary:
            if wheel is None:
                file = download(pinned, temporary)
            else:
                file = Path(wheel)
            check_wheel(file, pinned)
            _unpack(file, folder)

    restore(folder, care, make)
    return folder


def wheel_for(system: str, machine: str) -> Pinned:
    """Return the wheels for a kind of machine.

    Raises
    ------
    ToolchainError
        If there is no wheel for it.
    """
    if (system, machine) == ("Linux", "x86_64"):
        return Pinned("manylinux2014_x86_64", _LINUX)
    if (system, machine) == ("Darwin", "x86_64"):
        return Pinned("macosx_13_0_x86_64", (_MACOS_X86,))
    if (system, machine) == ("Darwin", "arm64"):
        release = int(platform.mac_ver()[0].partition(".")[0] or 0)
        if release >= 15:
            return Pinned("macosx_15_0_arm64", (_MACOS_14, _MACOS_15))
        return Pinned("macosx_14_0_arm64", (_MACOS_14,))
    raise ToolchainError(
        f"there is no embedded CmdStan for {system} {machine}; install the official one with "
        "pyflowers setup --official"
    )


def download(pinned: Pinned, folder: Path) -> Path:
    """Fetch a wheel from the user's package index with pip into `folder`.

    The wheel is requested by digest: if an index has several files with the same name and tag, pip
    could otherwise take any of them.

    Raises
    ------
    ToolchainError
        If the wheel cannot be downloaded.
    """
    hashes = " ".join(f"--hash=sha256:{sha256}" for sha256 in pinned.digests)
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{REQUIREMENT} {hashes}\n", encoding="utf-8")
    command = [
        *module_command("pip", "download", "--require-hashes", "-r", str(requirement)),
        *("--no-deps", "--only-binary=:all:", "--platform", pinned.tag),
        *("--python-version", "311", "--implementation", "cp", "--abi", "cp311"),
        *("--dest", str(folder), "--disable-pip-version-check", "--no-input"),
    ]
    with stage(f"Downloading Stan {VERSION} (45 MB) from the package index"):
        done = run(command)
    wheels = list(folder.glob("httpstan-*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        if lines:
            reason = lines[-1].strip()
        else:
            reason = f"pip exited with {done.returncode}"
        raise ToolchainError(
            f"{REQUIREMENT} for {pinned.tag} cannot be downloaded with pip ({reason}); check the "
            "package index, or fetch the wheel elsewhere and run pyflowers setup --wheel FILE"
        )
    return wheels[0]


def check_wheel(file: Path, pinned: Pinned) -> None:
    """Reject a file that is not a pinned wheel.

    Raises
    ------
    ToolchainError
        If the file does not exist, or is not a pinned wheel; the message then gives its digest.
    """
    if not file.is_file():
        raise ToolchainError(f"--wheel {file}: no such file; check the path")
    found = sha256_file(file)
    if found not in pinned.digests:
        known = " or ".join(f"{sha256[:16]}…" for sha256 in pinned.digests)
        raise ToolchainError(
            f"{file} has SHA-256 {found[:16]}…, but the pinned {REQUIREMENT} wheel for this "
            f"machine has {known}; fetch that wheel"
        )


def _unpack(file: Path, folder: Path) -> None:
    with zipfile.ZipFile(file) as archive, appearing(folder) as staging:
        wanted = [name for name in archive.namelist() if name.startswith(_UNPACKED)]
        with stage("Unpacking Stan's headers and libraries", len(wanted)) as advance:
            for name in wanted:
                extracted = archive.extract(name, staging)
                # Keep the time from the archive, so that make does not consider compiled files out
                # of date when the headers are unpacked again.
                time = calendar.timegm((*archive.getinfo(name).date_time, 0, 0, 0))
                os.utime(extracted, (time, time))
                advance(1)
        for part in (staging / "httpstan").iterdir():
            part.rename(staging / part.name)
        (staging / "httpstan").rmdir()
        (staging / "stanc").chmod(0o755)
        write_manifest(staging)


DRIVER = Path(__file__).resolve().parent / "driver"


def install_embedded(
    wheel: str | Path | None = None, jobs: int | None = None, care: Care = Care.RUN
) -> Path:
    """Build the embedded CmdStan, or return the existing one after rebuilding damaged parts.

    Parameters
    ----------
    wheel : str or Path, optional
        The wheel as a file, for a machine without access to a package index.
    jobs : int, optional
        Number of compilers that run at the same time. Default: the number of usable cores.
    care : Care
        How thoroughly to check an existing folder.

    Returns
    -------
    Path
        The folder to give to CmdStanPy.

    Raises
    ------
    ToolchainError
        If the platform has no wheel, the compiler or make is missing, the wheel cannot be
        downloaded or is not the pinned one, or the front end does not compile.
    """
    pinned = wheel_for(platform.system(), platform.machine())
    require_toolchain()
    if wheel is not None:
        check_wheel(as_path(wheel, "--wheel"), pinned)
    home = _home(pinned)
    require_own(home)
    stan = stan_folder(wheel, care)
    restore(home, care, lambda: _make_home(home, stan, jobs or usable_cores()))
    return home


def embedded_home() -> Path | None:
    """Return the folder of the embedded CmdStan, checked for damage; None if it does not exist.

    Raises
    ------
    ToolchainError
        If the folder is damaged and cannot be rebuilt.
    """
    try:
        pinned = wheel_for(platform.system(), platform.machine())
        require_toolchain()
    except ToolchainError:
        return None
    if _home(pinned).exists():
        return install_embedded()
    return None


def _home(pinned: Pinned) -> Path:
    """Return the front end's folder, named after a digest of the wheel, sources and compiler."""
    sources = [path.read_text(encoding="utf-8") for path in _driver_files()]
    identity = digest(pinned.digests[0], compiler(), compiler_version(), *sources)[:16]
    return cache_dir() / f"cmdstan-{VERSION}-{identity}"


def _driver_files() -> list[Path]:
    return sorted(path for path in DRIVER.rglob("*") if path.is_file())


def _make_home(home: Path, stan: Path, jobs: int) -> None:
    """Arrange the folder as the makefile expects, and compile the front end."""
    with appearing(home) as staging:
        for source in _driver_files():
            target = staging / "driver" / source.relative_to(DRIVER)
            if source.name == "makefile":
                target = staging / "makefile"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)  # copies the modification time, which make uses
        (staging / "bin").mkdir()
        _link(staging, stan)
        _compile_driver(staging, jobs)
        _link(staging, Path("..") / stan.name)
        write_manifest(staging)


def _link(home: Path, stan: Path) -> None:
    """Link the parts of Stan that the makefile expects; a relative `stan` starts from `home`."""
    for link, target in (
        (home / "include", stan / "include"),
        (home / "lib", stan / "lib"),
        # If `stan` is absolute, it replaces the ".." before it.
        (home / "bin" / "stanc", Path("..") / stan / "stanc"),
    ):
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _compile_driver(folder: Path, jobs: int) -> None:
    total = len(list((folder / "driver").rglob("*.cpp")))
    command = [*make().split(), f"-j{jobs}", "driver"]
    with (
        stage("Compiling CmdStan's front end (about a minute)", total) as advance,
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
